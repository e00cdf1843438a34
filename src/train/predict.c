/* `shoal predict`: a forward pass over a split, one batch at a time, and what came out of it.  Numbers that are predicted are looked
 * at in predict_targets.c.
 *
 * A sample whose outputs are not finite (its own values are not, or are far too large) has no prediction: -1, and nothing in the
 * table and in the accuracy. */
#define _GNU_SOURCE /* fopencookie */
#include "base/alike.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/labels.h"
#include "train/numbers.h"
#include "train/predict_impl.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME = 48, WIDEST_TABLE = 16, MOST_MISTAKES = 10 };

typedef shoal_predictor predictor;

static void close_predictor(predictor *p)
{
  shoal_loader_destroy(p->loader);
  shoal_dataset_close(p->set);
  shoal_forward_close(&p->forward);
  shoal_network_close(&p->network);
  shoal_texts_free(&p->names);
  shoal_texts_free(&p->labels);
  shoal_texts_free(&p->files);
  free(p->class_of);
  free(p->label);
  free(p->predicted);
  free(p->output);
  free(p->confusion);
  free(p->fit);
}

/* ---- the data ---- */

static shoal_status number_names(int64_t n, shoal_texts *out)
{
  for (int64_t k = 0; k < n; k++) SHOAL_TRY(shoal_texts_take(out, shoal_strdup_printf("%" PRId64, k)));
  return SHOAL_OK;
}

/* Which class of the model each label of the data is: by name where the data has names, of which those of a model without are its
 * numbers; else by number. */
static shoal_status match_classes(predictor *p)
{
  shoal_texts numbers = { 0 };
  SHOAL_CHECK(shoal_dataset_info(p->set)->targets == 0, SHOAL_ERR_USAGE,
              "%s has targets, which are numbers, and %s tells classes: import its table with --like %s",
              shoal_dataset_path(p->set), p->network.path, p->network.path);
  int64_t labels = shoal_dataset_info(p->set)->classes;
  shoal_status st = shoal_texts_add_lines(&p->labels, shoal_dataset_class_names(p->set));
  if (st == SHOAL_OK) st = shoal_texts_add_lines(&p->names, shoal_ckpt_get_info(p->network.ckpt)->data.class_names);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)labels, &p->class_of);
  if (p->names.n != (size_t)p->classes) shoal_texts_free(&p->names);
  if (p->labels.n != (size_t)labels) shoal_texts_free(&p->labels);
  const bool named = p->labels.n;
  if (st == SHOAL_OK && named && !p->names.n) st = number_names(p->classes, &numbers);
  const shoal_texts *to = p->names.n ? &p->names : &numbers;
  for (int64_t k = 0; st == SHOAL_OK && k < labels; k++) {
    p->class_of[k] = named || k >= p->classes ? -1 : (int32_t)k;
    for (size_t c = 0; named && c < to->n; c++)
      if (strcmp(p->labels.at[k], to->at[c]) == 0) p->class_of[k] = (int32_t)c;
  }
  shoal_texts_free(&numbers);
  return st;
}

/* Of images what differs, in words: " (grey, one channel; the network has three, for colours)". */
static void add_difference(const shoal_shape *is, const shoal_shape *wanted, shoal_str *out)
{
  if (is->ndim != 3 || wanted->ndim != 3) return;
  const bool grey = is->dim[0] == 1 && wanted->dim[0] == 3, colour = is->dim[0] == 3 && wanted->dim[0] == 1;
  if (grey) shoal_str_add(out, " (grey, one channel; the network has three, for colours)");
  if (colour) shoal_str_add(out, " (in colour, three channels; the network has one, for grey)");
  if (!grey && !colour && is->dim[0] != wanted->dim[0])
    shoal_str_add(out, " (%lld channels; the network has %lld)", (long long)is->dim[0], (long long)wanted->dim[0]);
  if (is->dim[1] != wanted->dim[1] || is->dim[2] != wanted->dim[2])
    shoal_str_add(out, " (%lld x %lld pixels; the network has %lld x %lld)", (long long)is->dim[2],
                  (long long)is->dim[1], (long long)wanted->dim[2], (long long)wanted->dim[1]);
}

/* Numbers in a row that are pixels of the images that the network reads. */
static void add_reshaped(const predictor *p, const char *source, shoal_str *out)
{
  const shoal_shape *wanted = &p->network.model->input;
  const bool arrays = strncmp(source, "npy: ", 5) == 0;
  char *command = arrays ? NULL : shoal_dataset_reshape_command(p->set, wanted);
  if (arrays) {
    shoal_str_add(out, "if they are its pixels, shoal data import npy ");
    shoal_str_add_word(out, shoal_path_exists(source + 5) ? source + 5 : "FILES");
    shoal_str_add(out, " --shape %lld,%lld,%lld -o NEW.h5 makes images, and give NEW.h5", (long long)wanted->dim[0],
                  (long long)wanted->dim[1], (long long)wanted->dim[2]);
  } else
    shoal_str_add(out, "if they are its pixels, this makes images of them: %s", command);
  free(command);
}

/* The import that makes them as the network has them, of what a folder or a table was; else its data set is the example. */
static void add_cure(const predictor *p, shoal_str *out)
{
  static const struct {
    const char *begin, *kind, *what;
    bool features; /* of samples that are no images, too */
  } sources[] = { { "images: ", "images", "FOLDER", false }, { "csv: ", "csv", "TABLE", true } };
  const shoal_shape *wanted = &p->network.model->input, *is = &shoal_dataset_info(p->set)->sample;
  const char *source = shoal_dataset_info(p->set)->source, *path = p->network.path;
  for (size_t i = 0; i < SHOAL_COUNT(sources); i++) {
    const size_t n = strlen(sources[i].begin);
    if (strncmp(source, sources[i].begin, n) != 0 || (wanted->ndim != 3 && !sources[i].features)) continue;
    shoal_str_add(out, "make them alike, by shoal data import %s ", sources[i].kind);
    shoal_str_add_word(out, shoal_path_exists(source + n) ? source + n : sources[i].what);
    shoal_str_add(out, " --like ");
    shoal_str_add_word(out, path);
    shoal_str_add(out, " -o NEW.h5, and give NEW.h5");
    return;
  }
  if (wanted->ndim == 3 && is->ndim == 1 && shoal_shape_count(wanted) == shoal_shape_count(is))
    add_reshaped(p, source, out);
  else
    shoal_str_add(out, "make them as its data set was made (%s)", path);
}

static shoal_status check_shape(const predictor *p)
{
  const shoal_shape *is = &shoal_dataset_info(p->set)->sample, *wanted = &p->network.model->input;
  char a[96], b[96];
  uint64_t dims[2][SHOAL_MAX_DIMS];
  for (int d = 0; d < is->ndim; d++) dims[0][d] = (uint64_t)is->dim[d];
  for (int d = 0; d < wanted->ndim; d++) dims[1][d] = (uint64_t)wanted->dim[d];
  bool same = is->ndim == wanted->ndim && memcmp(is->dim, wanted->dim, (size_t)is->ndim * sizeof *is->dim) == 0;
  if (same) return SHOAL_OK;
  shoal_str differs = { 0 }, cure = { 0 };
  add_difference(is, wanted, &differs);
  add_cure(p, &cure);
  shoal_status st =
      SHOAL_FAIL(SHOAL_ERR_USAGE, "samples of %s have the shape %s, the model was trained on %s%s: %s",
                 shoal_dataset_path(p->set), shoal_ckpt_shape_text(is->ndim, dims[0], a, sizeof a),
                 shoal_ckpt_shape_text(wanted->ndim, dims[1], b, sizeof b), differs.len ? differs.text : "", cure.text);
  shoal_str_free(&differs);
  shoal_str_free(&cure);
  return st;
}

static shoal_status open_data(const shoal_predict_args *a, predictor *p)
{
  const shoal_ckpt_data *trained = &shoal_ckpt_get_info(p->network.ckpt)->data;
  SHOAL_TRY(shoal_dataset_open_to_predict(a->data, a->n_data, &(shoal_data_reader){ .run = a->model }, &p->set));
  const shoal_data_info *info = shoal_dataset_info(p->set);
  SHOAL_TRY(shoal_features_compare(shoal_dataset_path(p->set), shoal_dataset_feature_names(p->set), p->network.path,
                                   trained->feature_names));
  SHOAL_CHECK(info->kind != SHOAL_DATA_TEXT, SHOAL_ERR_USAGE, "%s is text, and model %s reads none",
              shoal_dataset_path(p->set), p->network.model->name);
  SHOAL_TRY(check_shape(p));
  SHOAL_CHECK(
      shoal_dataset_takes_scale(p->set, trained->scales), SHOAL_ERR_USAGE,
      "%s: model %s was trained with %zu means, and a sample has not as many features or channels: it is of other data",
      shoal_dataset_path(p->set), p->network.path, trained->scales);
  shoal_dataset_warn_of_scale(p->set, trained->scales, trained->mean, trained->std);
  SHOAL_TRY(shoal_dataset_set_scale(p->set, trained->scales, trained->mean, trained->std));
  bool test = a->split == SHOAL_PREDICT_TEST || (a->split == SHOAL_PREDICT_EITHER && info->n[SHOAL_TEST] > 0);
  p->split = test ? SHOAL_TEST : SHOAL_TRAIN;
  p->asked = a->split != SHOAL_PREDICT_EITHER;
  p->n = info->n[p->split];
  SHOAL_CHECK(p->n > 0, SHOAL_ERR_USAGE, "%s has no %s split: leave --split out, and the other one is taken",
              shoal_dataset_path(p->set), test ? "test" : "training");
  if (trained->targets > 0) p->trained = trained;
  SHOAL_TRY(p->trained ? shoal_predict_match_targets(p) : match_classes(p));
  if (a->out) SHOAL_TRY(shoal_dataset_sources(p->set, p->split, &p->files));
  shoal_loader_config l = { .split = p->split, .size = 1, .batch = (uint64_t)a->batch, .depth = 1 };
  return shoal_loader_create(p->set, &l, &p->loader);
}

static shoal_status open_predictor(const shoal_predict_args *a, predictor *p)
{
  p->classes = p->network.model->classes;
  SHOAL_TRY(open_data(a, p));
  SHOAL_TRY(shoal_forward_open(&p->network, a->threads, &p->forward));
  SHOAL_TRY(SHOAL_ALLOC(p->n * (uint64_t)p->classes, &p->output));
  if (p->trained) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(p->n, &p->label));
  SHOAL_TRY(SHOAL_ALLOC(p->n, &p->predicted));
  return SHOAL_ALLOC((size_t)(p->classes * p->classes), &p->confusion);
}

/* ---- the forward pass ---- */

/* Turns outputs into probabilities in place; the class of the largest, or -1 if any is not finite. */
static int32_t soften(shoal_host_float *x, int64_t n, double *log_sum)
{
  int64_t best = 0;
  double sum = 0;
  for (int64_t k = 0; k < n; k++) {
    if (!isfinite(x[k])) return -1;
    if (x[k] > x[best]) best = k;
  }
  float top = x[best];
  for (int64_t k = 0; k < n; k++) sum += exp((double)x[k] - top);
  for (int64_t k = 0; k < n; k++) x[k] = (float)(exp((double)x[k] - top) / sum);
  *log_sum = log(sum);
  return (int32_t)best;
}

static void score(predictor *p, uint64_t id, int32_t label)
{
  shoal_host_float *x = p->output + id * (uint64_t)p->classes;
  float outputs_label = label >= 0 ? x[label] : 0, top = -INFINITY;
  double log_sum = 0;
  for (int64_t k = 0; k < p->classes; k++) top = fmaxf(top, x[k]);
  int32_t best = soften(x, p->classes, &log_sum);
  p->label[id] = label;
  p->predicted[id] = best;
  if (best < 0) {
    for (int64_t k = 0; k < p->classes; k++) x[k] = NAN;
    if (p->lost++ == 0) p->first_lost = id;
  }
  if (best < 0 || label < 0) return;
  p->known++;
  p->correct += best == label;
  p->confusion[label * p->classes + best]++;
  p->loss += (double)top + log_sum - outputs_label;
}

static shoal_status predict(predictor *p)
{
  int last = p->network.model->nodes - 1;
  uint64_t at = 0;
  for (;;) {
    const shoal_batch *b;
    shoal_plan *plan;
    SHOAL_TRY(shoal_loader_next(p->loader, &b));
    if (!b) return SHOAL_OK;
    if (p->bad.n == 0) p->bad = b->bad;
    SHOAL_TRY(shoal_plans_get(p->forward.plans, b->n, SHOAL_PLAN_EVAL, &plan));
    SHOAL_TRY(shoal_plan_forward(plan, p->forward.params, NULL, b->x, NULL, 0, NULL));
    SHOAL_TRY(shoal_plan_output(plan, last, p->output + at * (uint64_t)p->classes));
    if (p->trained) shoal_predict_score_targets(p, b, at);
    for (int64_t i = 0; i < b->n && !p->trained; i++) {
      int32_t class = b->y[i] < 0 ? -1 : p->class_of[b->y[i]];
      if (class < 0 && p->unknown < 0) p->unknown = b->y[i];
      score(p, at + (uint64_t)i, class);
    }
    at += (uint64_t)b->n;
  }
}

/* ---- running statistics that lag ---- */

static bool is_largest(const shoal_host_float *x, int64_t n, int32_t label)
{
  bool largest = true;
  for (int64_t k = 0; k < n; k++) largest &= x[label] >= x[k];
  return largest;
}

/* A batch by its own statistics, of whose samples `before` have been predicted: how many of these, `n`, are right, and were. */
static shoal_status score_batch(predictor *p, const shoal_batch *b, uint64_t before, shoal_host_float *x, uint64_t *n,
                                uint64_t *right, uint64_t *were)
{
  shoal_plan *plan;
  SHOAL_TRY(shoal_plans_get(p->forward.plans, b->n, SHOAL_PLAN_MEASURE, &plan));
  SHOAL_TRY(shoal_plan_forward(plan, p->forward.params, NULL, b->x, NULL, 0, NULL));
  SHOAL_TRY(shoal_plan_output(plan, p->network.model->nodes - 1, x));
  for (int64_t i = 0; i < b->n; i++) {
    const int32_t label = p->label[before + (uint64_t)i];
    if (label < 0) continue;
    ++*n;
    *right += is_largest(x + i * p->classes, p->classes, label);
    *were += p->predicted[before + (uint64_t)i] == label;
  }
  return SHOAL_OK;
}

/* As at the end of a training: statistics of batch norm that lag behind the weights spoil a network that has learnt.  Some batches
 * tell.  Comes last, since the running statistics in memory are lost. */
static shoal_status look_at_statistics(predictor *p)
{
  enum { MOST_BATCHES = 8, LEAST = 20 };
  const double lost = 0.1;
  uint64_t at = 0, n = 0, right = 0, were = 0;
  shoal_host_float *x;
  const shoal_batch *b;
  if (p->network.model->stats == 0 || p->known < LEAST || p->bad.n > 0) return SHOAL_OK;
  SHOAL_TRY(shoal_loader_seek(p->loader, 0, 0));
  SHOAL_TRY(shoal_loader_next(p->loader, &b));
  SHOAL_TRY(SHOAL_ALLOC((size_t)(b->n * p->classes), &x)); /* no later one is larger */
  shoal_status st = SHOAL_OK;
  for (int i = 0; i < MOST_BATCHES && b && st == SHOAL_OK; i++) {
    if (b->n > 1) st = score_batch(p, b, at, x, &n, &right, &were);
    at += (uint64_t)b->n;
    if (st == SHOAL_OK) st = shoal_loader_next(p->loader, &b);
  }
  free(x);
  if (st == SHOAL_OK && (double)right - (double)were > lost * (double)n)
    shoal_warn("with the running statistics of batch norm %.3g %% of %" PRIu64
               " samples are right, with those of each batch %.3g %%: either training ended before they had settled "
               "(eval.batch_norm: measured, more epochs or a lower optim.lr), or these samples are scaled otherwise",
               100 * (double)were / (double)n, n, 100 * (double)right / (double)n);
  return st;
}

/* ---- files ---- */

/* A class as people call it. */
static const char *class_name(const predictor *p, int64_t k, char buf[NAME])
{
  if (k >= 0 && p->names.n) return p->names.at[k];
  snprintf(buf, NAME, "%" PRId64, k);
  return buf;
}

void shoal_predict_put_field(FILE *f, const char *before, const char *text)
{
  bool plain = !strpbrk(text, ",\"\r\n");
  fprintf(f, plain ? "%s" : "%s\"", before);
  for (const char *c = text; *c; c++) fprintf(f, *c == '"' && !plain ? "\"\"" : "%c", *c);
  if (!plain) fputc('"', f);
}

/* What a file of the predictions takes: exactly as HDF5, as CSV at least. */
static double least_bytes(const predictor *p, bool csv)
{
  const double n = (double)p->n, classes = (double)p->classes;
  if (p->trained) return n * classes * (csv ? 4 : 2 * sizeof(double));
  if (csv) return n * (2 * classes + 4); /* numbers of one digit behind their commas */
  return n * (2 * sizeof(int32_t) + classes * sizeof(float)) + classes * classes * sizeof(uint64_t);
}

static void put_rows(const void *context, FILE *f)
{
  const predictor *p = context;
  char name[NAME];
  if (p->trained) {
    shoal_predict_write_targets(p, f);
    return;
  }
  fputs(p->files.n ? "sample,file,label,predicted" : "sample,label,predicted", f);
  for (int64_t k = 0; k < p->classes; k++) {
    char *column = shoal_strdup_printf("p_%s", class_name(p, k, name));
    shoal_predict_put_field(f, ",", column);
    free(column);
  }
  for (uint64_t i = 0; i < p->n; i++) {
    fprintf(f, "\n%" PRIu64, i);
    if (p->files.n) shoal_predict_put_field(f, ",", p->files.at[i]);
    shoal_predict_put_field(f, ",", p->label[i] < 0 ? "" : class_name(p, p->label[i], name));
    shoal_predict_put_field(f, ",", p->predicted[i] < 0 ? "" : class_name(p, p->predicted[i], name));
    for (int64_t k = 0; k < p->classes; k++) {
      float v = p->output[i * (uint64_t)p->classes + (uint64_t)k];
      fprintf(f, isfinite(v) ? ",%.9g" : ",", (double)v);
    }
  }
  fputc('\n', f);
}

static ssize_t count(void *bytes, const char *text, size_t n)
{
  (void)text;
  *(double *)bytes += (double)n;
  return (ssize_t)n;
}

/* After a disk was full: how much the file would take. */
static shoal_status refuse_csv(const char *path, shoal_predict_rows *put, const void *context, int error)
{
  double bytes = 0;
  FILE *f = fopencookie(&bytes, "w", (cookie_io_functions_t){ .write = count });
  if (f) put(context, f);
  if (f) fclose(f);
  SHOAL_TRY(shoal_expect_room(path, "the predictions", bytes));
  return shoal_io_fault("write", path, error);
}

shoal_status shoal_predict_write_csv(const char *path, shoal_predict_rows *put, const void *context)
{
  int fd = -1, error = 0;
  char *tmp = shoal_temporary_name(path);
  shoal_status st = shoal_open_new(tmp, path, &fd);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  if (f) {
    put(context, f);
    error = ferror(f) ? errno : 0;
    if (fclose(f) != 0 && !error) error = errno;
  } else if (fd >= 0) {
    error = errno;
    close(fd);
  }
  if (st == SHOAL_OK && !error) st = shoal_commit_file(tmp, path);
  if (fd >= 0 && (error || st != SHOAL_OK)) unlink(tmp);
  free(tmp);
  return error ? refuse_csv(path, put, context, error) : st;
}

shoal_status shoal_predict_put_array(shoal_h5_draft *d, const char *name, shoal_dtype type, uint64_t rows,
                                     uint64_t columns, const void *data)
{
  uint64_t dims[2] = { rows, columns };
  SHOAL_TRY(shoal_h5_draft_reserve(d, name, rows * SHOAL_MAX(columns, 1) * shoal_dtype_size(type), 0));
  return shoal_h5_write(d->file, name, type, columns ? 2 : 1, dims, data);
}

/* As in the data set: a line for each sample. */
static shoal_status put_files(const predictor *p, shoal_h5_draft *d)
{
  shoal_str s = { 0 };
  for (size_t i = 0; i < p->files.n; i++) shoal_str_add(&s, "%s\n", p->files.at[i]);
  shoal_status st = s.len ? shoal_predict_put_array(d, SHOAL_DATA_FILES, SHOAL_U8, s.len, 0, s.text) : SHOAL_OK;
  shoal_str_free(&s);
  return st;
}

static shoal_status fill_classes(const predictor *p, shoal_h5_draft *d)
{
  const uint64_t classes = (uint64_t)p->classes;
  SHOAL_TRY(shoal_predict_put_array(d, "label", SHOAL_I32, p->n, 0, p->label));
  SHOAL_TRY(shoal_predict_put_array(d, "predicted", SHOAL_I32, p->n, 0, p->predicted));
  SHOAL_TRY(shoal_predict_put_array(d, "probability", SHOAL_F32, p->n, classes, p->output));
  SHOAL_TRY(shoal_predict_put_array(d, "confusion", SHOAL_U64, classes, classes, p->confusion));
  if (!p->names.n) return SHOAL_OK;
  return shoal_h5_put_string(d->file, "class_names", shoal_ckpt_get_info(p->network.ckpt)->data.class_names);
}

static shoal_status fill_samples(const void *context, shoal_h5_draft *d)
{
  const predictor *p = context;
  SHOAL_TRY(p->trained ? shoal_predict_fill_targets(p, d) : fill_classes(p, d));
  return put_files(p, d);
}

static shoal_status fill_origin(const shoal_network *n, const shoal_dataset *set, shoal_split split, shoal_h5_draft *d)
{
  const shoal_ckpt_info *info = shoal_ckpt_get_info(n->ckpt);
  SHOAL_TRY(shoal_h5_put_string(d->file, "run", info->run));
  SHOAL_TRY(shoal_h5_put_i64(d->file, "step", (int64_t)info->step));
  SHOAL_TRY(shoal_h5_put_string(d->file, "data", shoal_dataset_path(set)));
  return shoal_h5_put_string(d->file, "split", split == SHOAL_TEST ? "test" : "train");
}

shoal_status shoal_predict_write_h5(const char *path, const shoal_network *n, const shoal_dataset *set,
                                    shoal_split split, shoal_predict_arrays *fill, const void *context)
{
  const shoal_ckpt_data *data = &shoal_ckpt_get_info(n->ckpt)->data;
  const char *names = data->target_names ? data->target_names : data->class_names;
  shoal_h5_draft d = { 0 };
  shoal_status st = shoal_h5_draft_open(&d, path, names ? strlen(names) : 0);
  if (st == SHOAL_OK) st = fill(context, &d);
  if (st == SHOAL_OK) st = fill_origin(n, set, split, &d);
  if (st == SHOAL_OK) st = shoal_h5_draft_close(&d);
  if (st == SHOAL_OK) st = shoal_h5_draft_commit(&d);
  shoal_h5_draft_discard(&d);
  return st;
}

/* ---- the summary ---- */

static double accuracy(const predictor *p)
{
  return p->known ? (double)p->correct / (double)p->known : NAN;
}

/* The mean over classes of the share that is found, whatever their size; NAN: no label is known. */
static double balanced_accuracy(const predictor *p)
{
  double sum = 0, present = 0;
  for (int64_t k = 0; k < p->classes; k++) {
    const uint64_t *row = p->confusion + k * p->classes;
    uint64_t n = 0;
    for (int64_t q = 0; q < p->classes; q++) n += row[q];
    if (n > 0) sum += (double)row[k] / (double)n, present++;
  }
  return present > 0 ? sum / present : NAN;
}

static void put_classes(const predictor *p, shoal_json *j)
{
  char name[NAME];
  shoal_json_real(j, "accuracy", accuracy(p));
  shoal_json_real(j, "balanced_accuracy", balanced_accuracy(p));
  shoal_json_real(j, "loss", p->known ? p->loss / (double)p->known : NAN);
  shoal_json_array(j, "classes");
  for (int64_t k = 0; k < p->classes; k++) shoal_json_string(j, NULL, class_name(p, k, name));
  shoal_json_end(j);
  shoal_json_array(j, "confusion");
  for (int64_t k = 0; k < p->classes; k++) {
    shoal_json_array(j, NULL);
    for (int64_t q = 0; q < p->classes; q++) shoal_json_uint(j, NULL, p->confusion[k * p->classes + q]);
    shoal_json_end(j);
  }
  shoal_json_end(j);
}

static void print_json(const predictor *p, FILE *out)
{
  const shoal_ckpt_info *info = shoal_ckpt_get_info(p->network.ckpt);
  shoal_json j = { .lines = 2, .out = out };
  shoal_json_object(&j, NULL);
  shoal_json_string(&j, "model", p->network.path);
  shoal_json_uint(&j, "step", info->step);
  shoal_json_string(&j, "data", shoal_dataset_path(p->set));
  shoal_json_string(&j, "split", p->split == SHOAL_TEST ? "test" : "train");
  shoal_json_uint(&j, "samples", p->n);
  shoal_json_uint(&j, "labelled", p->known);
  shoal_json_uint(&j, "without_prediction", p->lost);
  if (p->lost) shoal_json_uint(&j, "first_without_prediction", p->first_lost);
  if (p->trained)
    shoal_predict_json_targets(p, &j);
  else
    put_classes(p, &j);
  shoal_json_end(&j);
  shoal_json_finish(&j);
}

/* ---- the table ---- */

/* How wide the table of mistakes is, in columns of a terminal. */
typedef struct {
  int label, cell, per; /* per: classes beside one another; the others follow below */
  bool numbered;        /* columns are headed by the numbers of classes, with which rows begin */
} table_form;

static int digits(uint64_t n)
{
  return n < 10 ? 1 : 1 + digits(n / 10);
}

/* Names head the columns if a terminal has room for them in full, else numbers do. */
static table_form fit_table(const predictor *p, const shoal_texts *names)
{
  enum { COLUMNS = 80, RECALL = 8, LABEL = 14, CELL = 7 };
  const int n = (int)p->classes, number = digits((uint64_t)(n - 1));
  int longest = 0, count = 1;
  for (int k = 0; k < n; k++) longest = SHOAL_MAX(longest, (int)shoal_text_width(names->at[k]));
  for (int k = 0; k < n * n; k++) count = SHOAL_MAX(count, digits(p->confusion[k]));
  table_form f = { SHOAL_MAX(longest, LABEL), SHOAL_MAX(longest, count), n, false };
  f.numbered = f.label + n * (f.cell + 1) + RECALL > COLUMNS && longest > number;
  if (f.numbered) f = (table_form){ LABEL, SHOAL_MAX(count, number), n, true };
  while (f.cell < CELL && f.label + n * (f.cell + 2) + RECALL <= COLUMNS) f.cell++;
  if (f.numbered) f.label = SHOAL_MAX(f.label, SHOAL_MIN(number + 1 + longest, COLUMNS - RECALL - n * (f.cell + 1)));
  f.per = SHOAL_MAX(SHOAL_MIN((COLUMNS - RECALL - f.label) / (f.cell + 1), n), 1);
  return f;
}

/* The names of the classes as a terminal shows them. */
static shoal_status show_names(const predictor *p, shoal_texts *out)
{
  char name[NAME];
  for (int64_t k = 0; k < p->classes; k++) {
    const char *text = class_name(p, k, name);
    const size_t cap = shoal_escape(text, false, NULL, 0) + 1;
    char *shown;
    SHOAL_TRY(SHOAL_ALLOC(cap, &shown));
    SHOAL_TRY(shoal_texts_take(out, (char *)shoal_show(text, shown, cap)));
  }
  return SHOAL_OK;
}

/* The columns of predictions from `first` on, as many as fit; `last`: recall ends the rows. */
static void add_part(const predictor *p, const shoal_texts *names, const table_form *f, int64_t first, shoal_str *out)
{
  const int number = digits((uint64_t)(p->classes - 1));
  const int64_t end = SHOAL_MIN(first + f->per, p->classes);
  shoal_str_add(out, "\n%-*s", f->label, "label \\ as");
  for (int64_t k = first; k < end; k++)
    if (f->numbered)
      shoal_str_add(out, " %*" PRId64, f->cell, k);
    else
      shoal_str_add(out, " %*s%s", f->cell - (int)shoal_text_width(names->at[k]), "", names->at[k]);
  shoal_str_add(out, end == p->classes ? "  recall\n" : "\n");
  for (int64_t k = 0; k < p->classes; k++) {
    uint64_t sum = 0, right = p->confusion[k * p->classes + k];
    if (f->numbered) shoal_str_add(out, "%*" PRId64 " ", number, k);
    (void)shoal_str_add_cell(out, names->at[k], f->numbered ? f->label - number - 1 : f->label);
    for (int64_t q = 0; q < p->classes; q++) {
      sum += p->confusion[k * p->classes + q];
      if (q >= first && q < end) shoal_str_add(out, " %*" PRIu64, f->cell, p->confusion[k * p->classes + q]);
    }
    if (end < p->classes)
      shoal_str_add(out, "\n");
    else if (sum)
      shoal_str_add(out, " %6.1f%%\n", 100 * (double)right / (double)sum);
    else
      shoal_str_add(out, "       -\n");
  }
}

/* Rows are labels, columns predictions, in parts of 80 columns.  Names that are cut stand in full below. */
static shoal_status add_table(const predictor *p, shoal_str *out)
{
  shoal_texts names = { 0 };
  shoal_str legend = { 0 };
  shoal_status st = show_names(p, &names);
  const table_form f = st == SHOAL_OK ? fit_table(p, &names) : (table_form){ 0 };
  const int number = digits((uint64_t)(p->classes - 1)), room = f.numbered ? f.label - number - 1 : f.label;
  for (int64_t k = 0; st == SHOAL_OK && k < p->classes; k += f.per) add_part(p, &names, &f, k, out);
  for (int64_t k = 0; st == SHOAL_OK && k < p->classes; k++)
    if (shoal_text_width(names.at[k]) > (size_t)room)
      shoal_str_add(&legend, "%*" PRId64 " %s\n", number, k, names.at[k]);
  if (legend.text) shoal_str_add(out, "in full:\n%s", legend.text);
  shoal_str_free(&legend);
  shoal_texts_free(&names);
  return st;
}

/* The most frequent mistakes, for more classes than a table has room for. */
static void add_mistakes(const predictor *p, shoal_str *out)
{
  uint64_t bound = UINT64_MAX, told = 0;
  int64_t cells = p->classes * p->classes;
  char a[NAME], b[NAME];
  shoal_str_add(out, "\nmost frequent mistakes (the table of all classes is in -o NAME.h5 and --json):\n");
  while (told < MOST_MISTAKES && bound > 1) {
    uint64_t next = 0;
    for (int64_t c = 0; c < cells; c++)
      if (c / p->classes != c % p->classes && p->confusion[c] < bound) next = SHOAL_MAX(next, p->confusion[c]);
    bound = next;
    for (int64_t c = 0; c < cells && next > 0 && told < MOST_MISTAKES; c++) {
      if (c / p->classes == c % p->classes || p->confusion[c] != next) continue;
      shoal_str_add(out, "%7" PRIu64 "  %s as %s\n", next, class_name(p, c / p->classes, a),
                    class_name(p, c % p->classes, b));
      told++;
    }
  }
}

/* A label that the model does not know, and the class that it is mostly meant to be. */
static void add_unknown(const predictor *p, shoal_str *out)
{
  const char *label = p->labels.at[p->unknown];
  char what[96];
  shoal_str_add(out, ", such as %s", label);
  for (size_t k = 0; k < p->names.n; k++)
    if (shoal_look_alike(label, p->names.at[k])) {
      shoal_str_add(out, ", which differs from its class %s only in %s", p->names.at[k],
                    shoal_difference(p->names.at[k], label, what, sizeof what));
      return;
    }
}

static void add_lost(const predictor *p, shoal_str *s)
{
  char feature[96];
  shoal_str_add(s, "%" PRIu64 " without a prediction, for outputs are not finite: %ssample %" PRIu64, p->lost,
                p->lost > 1 ? "the first is " : "", p->first_lost);
  if (p->bad.n > 0 && p->bad.id == p->first_lost) {
    shoal_numbers_name_feature(&shoal_dataset_info(p->set)->sample, p->bad.feature, feature, sizeof feature);
    shoal_str_add(s, ", whose %s is %g", feature, isnan(p->bad.value) ? NAN : (double)p->bad.value);
  }
  shoal_str_add(s, "\n");
}

static void add_written(const predictor *p, const char *path, bool csv, shoal_str *s)
{
  const char *end = p->n == 1 ? "" : "s";
  if (csv)
    shoal_str_add(s,
                  "%s: %" PRIu64 " row%s, a sample each, of %" PRId64
                  " columns: sample, %slabel, predicted, and p_CLASS, a probability for each class\n",
                  path, p->n, end, p->classes + (p->files.n ? 4 : 3), p->files.n ? "file, " : "");
  else
    shoal_str_add(
        s, "%s: label and predicted of %" PRIu64 " sample%s, probability with %" PRId64 " columns, %sconfusion\n", path,
        p->n, end, p->classes, p->files.n ? "files, a line each, and " : "and ");
}

static void add_written_targets(const predictor *p, const char *path, bool csv, shoal_str *s)
{
  const char *end = p->n == 1 ? "" : "s";
  if (csv)
    shoal_str_add(
        s, "%s: %" PRIu64 " row%s, a sample each, of %" PRId64 " columns: sample, %starget, predicted, error%s\n", path,
        p->n, end, 3 * p->classes + (p->files.n ? 2 : 1), p->files.n ? "file, " : "",
        p->classes > 1 ? ", for each target" : "");
  else
    shoal_str_add(s, "%s: target and predicted of %" PRIu64 " sample%s%s\n", path, p->n, end,
                  p->files.n ? ", and files, a line each" : "");
}

/* How many labels were known, how often they were met, and which classes were taken for which. */
static shoal_status add_classes(const predictor *p, shoal_str *s)
{
  char share[16], balanced[16];
  if (p->unknown >= 0 && p->labels.n == 1 && strcmp(p->labels.at[0], SHOAL_LABELS_NONE) == 0) {
    shoal_str_add(s, "no labels to compare with\n");
  } else if (p->known + p->lost < p->n) {
    shoal_str_add(s, "%" PRIu64 " with a label that the model does not know", p->n - p->known - p->lost);
    if (p->unknown >= 0 && p->labels.n) add_unknown(p, s);
    if (p->unknown >= 0 && !p->labels.n) shoal_str_add(s, ", such as %" PRId32, p->unknown);
    shoal_str_add(s, ": not counted\n");
  }
  if (!p->known) return SHOAL_OK;
  shoal_str_add(s, "accuracy %s (%" PRIu64 " of %" PRIu64 "), balanced accuracy %s, loss %.4f\n",
                shoal_format_share(accuracy(p), share, sizeof share), p->correct, p->known,
                shoal_format_share(balanced_accuracy(p), balanced, sizeof balanced), p->loss / (double)p->known);
  if (p->classes <= WIDEST_TABLE) return add_table(p, s);
  add_mistakes(p, s);
  return SHOAL_OK;
}

static shoal_status print_summary(const predictor *p, const shoal_predict_args *a, bool csv, FILE *out)
{
  shoal_str s = { 0 };
  shoal_status st = SHOAL_OK;
  shoal_str_add(&s, "%s on %" PRIu64 "%s sample%s of %s\n", p->network.path, p->n,
                p->split == SHOAL_TEST ? " test"
                : p->asked             ? " training"
                                       : "",
                p->n == 1 ? "" : "s", shoal_dataset_path(p->set));
  if (p->lost) add_lost(p, &s);
  if (p->trained)
    shoal_predict_print_targets(p, &s);
  else
    st = add_classes(p, &s);
  if (a->out && p->trained) add_written_targets(p, a->out, csv, &s);
  if (a->out && !p->trained) add_written(p, a->out, csv, &s);
  if (st == SHOAL_OK) shoal_str_print(&s, out);
  shoal_str_free(&s);
  return st;
}

static bool ends_with(const char *text, const char *end)
{
  size_t n = strlen(text), m = strlen(end);
  return n > m && strcmp(text + n - m, end) == 0;
}

shoal_status shoal_predict(const shoal_predict_args *a, FILE *summary)
{
  predictor p = { .unknown = -1 };
  bool csv = a->out && ends_with(a->out, ".csv");
  SHOAL_CHECK(!a->out || csv || ends_with(a->out, ".h5"), SHOAL_ERR_USAGE,
              "-o %s: name it .csv or .h5, which says the format", a->out);
  if (a->out) SHOAL_TRY(shoal_expect_folder(a->out));
  shoal_status st = shoal_network_open(a->model, &p.network);
  if (st == SHOAL_OK && shoal_model_reads_tokens(p.network.model)) {
    st = shoal_predict_text(a, &p.network, csv, summary);
    shoal_network_close(&p.network);
    return st;
  }
  if (st == SHOAL_OK) st = open_predictor(a, &p);
  if (st == SHOAL_OK && a->out) st = shoal_expect_room(a->out, "the predictions", least_bytes(&p, csv));
  if (st == SHOAL_OK) st = predict(&p);
  if (st == SHOAL_OK && a->out)
    st = csv ? shoal_predict_write_csv(a->out, put_rows, &p)
             : shoal_predict_write_h5(a->out, &p.network, p.set, p.split, fill_samples, &p);
  if (st == SHOAL_OK) st = look_at_statistics(&p);
  if (st == SHOAL_OK) {
    if (a->json)
      print_json(&p, summary);
    else
      st = print_summary(&p, a, csv, summary);
  }
  close_predictor(&p);
  return st;
}
