/* The weights in a checkpoint or in a file of another program: whether they are those of this run's model, reading them, and
 * fine-tuning.
 *
 * model.weights starts a run from the weights and running statistics of a checkpoint, by whatever method and on however
 * many ranks it was trained, or of safetensors or ONNX.  Nothing else of it counts: epochs, schedule, optimizer and the order
 * of samples begin anew, where --resume FILE goes on with them.  Inputs are normalised as those weights have learnt to see
 * them.  Layers that model.fresh names keep the weights that the seed draws, whatever the file has of them.
 *
 * A run that has a checkpoint of its own goes on from that, so that a job can be queued again with the same run file. */
#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/texts.h"
#include "ckpt/folder.h"
#include "nn/given.h"
#include "train/network.h"
#include "train/session.h"
#include "train/weights_names.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- tensors of either kind of file ---- */

static const char prefix[] = "model/";

typedef struct {
  const shoal_ckpt *ckpt; /* or */
  const shoal_given *given;
  const char *const *fresh; /* [n_fresh] layers of which nothing is taken */
  size_t n_fresh;
  size_t skip; /* bytes in front of every name of a given file, "module." */
} source;

typedef struct {
  const char *name; /* without prefix */
  int ndim;
  const uint64_t *dims;
} entry;

static size_t count_entries(const source *s)
{
  const shoal_given_tensor *t;
  return s->given ? shoal_given_tensors(s->given, &t) : shoal_ckpt_get_index(s->ckpt)->n;
}

/* False: entry i of a checkpoint is no tensor of the model. */
static bool entry_at(const source *s, size_t i, entry *out)
{
  const shoal_given_tensor *t;
  if (s->given) {
    shoal_given_tensors(s->given, &t);
    *out = (entry){ t[i].name + s->skip, t[i].ndim, t[i].dim };
    return true;
  }
  const shoal_ckpt_entry *e = &shoal_ckpt_get_index(s->ckpt)->at[i];
  *out = (entry){ e->name + sizeof prefix - 1, e->ndim, e->dims };
  return strncmp(e->name, prefix, sizeof prefix - 1) == 0;
}

static bool find_entry(const source *s, const char *name, entry *out)
{
  char full[SHOAL_NAME_MAX + 32];
  if (!s->given) {
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const shoal_ckpt_entry *e = shoal_ckpt_index_find(shoal_ckpt_get_index(s->ckpt), full);
    if (e) *out = (entry){ name, e->ndim, e->dims };
    return e != NULL;
  }
  for (size_t i = 0; i < count_entries(s); i++)
    if (entry_at(s, i, out) && strcmp(out->name, name) == 0) return true;
  return false;
}

/* A model that once diverged, or numbers that only 64 bits hold: not the fault of this run's learning rate. */
static shoal_status check_finite(const char *path, const char *name, size_t n, const shoal_host_float *x)
{
  const char *dot = strrchr(name, '.');
  for (size_t i = 0; i < n; i++)
    SHOAL_CHECK(isfinite(x[i]), SHOAL_ERR_IO,
                "%s: number %zu of %zu of %s is %s as a 32-bit float: nothing can be trained from it; export the model "
                "from before that, or draw the layer anew by --set model.fresh=%.*s",
                path, i, n, name, isnan(x[i]) ? "nan" : "infinite", dot ? (int)(dot - name) : (int)strlen(name), name);
  return SHOAL_OK;
}

/* Reads a tensor that is there, with n numbers, into an arena. */
static shoal_status read_entry(const source *s, shoal_backend *b, const char *name, size_t n, float *x)
{
  char full[SHOAL_NAME_MAX + 32];
  const shoal_given_tensor *t;
  shoal_window w;
  if (!s->given) {
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return shoal_ckpt_get_arena(s->ckpt, b, full, n, x);
  }
  size_t count = shoal_given_tensors(s->given, &t), i = 0;
  while (i < count && (strcmp(t[i].name + s->skip, name) != 0 || t[i].count != n)) i++;
  SHOAL_CHECK(i < count, SHOAL_ERR_INTERNAL, "%s: no tensor %s", shoal_given_path(s->given), name);
  SHOAL_TRY(shoal_window_open(b, SHOAL_WINDOW_WRITE, n, x, &w));
  shoal_status st = shoal_given_read(s->given, &t[i], w.at);
  if (st == SHOAL_OK) st = check_finite(shoal_given_path(s->given), name, n, w.at);
  if (st == SHOAL_OK) return shoal_window_close(b, &w);
  shoal_window_drop(&w);
  return st;
}

/* Whether a tensor is of a layer that model.fresh names. */
static bool is_fresh(const source *s, const char *tensor)
{
  for (size_t i = 0; i < s->n_fresh; i++) {
    size_t n = strlen(s->fresh[i]);
    if (strncmp(tensor, s->fresh[i], n) == 0 && tensor[n] == '.') return true;
  }
  return false;
}

/* ---- names and shapes ---- */

typedef struct {
  const source *from;
  const shoal_shape *input;            /* of the model */
  shoal_str first;                     /* what is wrong with the first tensor that does not match */
  shoal_texts layers;                  /* of those that do not match */
  size_t faults, lacks, fits, tensors; /* tensors: that the model takes of the file */
  size_t there, others;                /* tensors of the file, and those of them that are none of the model */
  char other[SHOAL_NAME_MAX + 16];     /* the first of these */
} comparison;

/* Counts a fault; true if it is the first. */
static bool is_first(comparison *c, const char *tensor)
{
  const char *dot = strrchr(tensor, '.');
  char *layer = shoal_strdup_printf("%.*s", dot ? (int)(dot - tensor) : 0, tensor);
  shoal_error ignored; /* of memory: the cure names a layer less */
  bool known = false;
  for (size_t i = 0; i < c->layers.n; i++) known |= strcmp(c->layers.at[i], layer) == 0;
  if (!known && shoal_texts_add(&c->layers, layer) != SHOAL_OK) shoal_error_take(&ignored);
  free(layer);
  return c->faults++ == 0;
}

static bool is_at_fault(const comparison *c, const char *tensor)
{
  const source of = { .fresh = (const char *const *)c->layers.at, .n_fresh = c->layers.n };
  return is_fresh(&of, tensor);
}

/* Draws anew what does not match, where that leaves a layer; caller frees. */
static char *name_cure(const shoal_model *m, const comparison *c)
{
  enum { MOST = 12 };
  shoal_str s = { 0 };
  bool leaves = false;
  for (int i = 0; i < m->params && !leaves; i++) leaves = !is_at_fault(c, m->param[i].name);
  shoal_str_add(&s, "give weights of the same model options");
  if (leaves && c->layers.n <= MOST) {
    shoal_str_add(&s, ", or draw layers anew by --set %s", c->layers.n > 1 ? "'model.fresh=[" : "model.fresh=");
    for (size_t i = 0; i < c->layers.n; i++)
      shoal_str_add(&s, "%s%s", i ? "," : "", c->layers.at[i][0] ? c->layers.at[i] : "LAYER");
    if (c->layers.n > 1) shoal_str_add(&s, "]'");
  }
  return s.text;
}

/* What two shapes of a tensor tell, in words.  A first convolution has the channels of the images, which an import can change. */
static void add_reason(comparison *c, const entry *there, int ndim, const uint64_t *dims)
{
  if (ndim == 2 && there->ndim == 2 && there->dims[0] == dims[1] && there->dims[1] == dims[0])
    shoal_str_add(&c->first, " (it is transposed)");
  if (ndim != 4 || there->ndim != 4 || there->dims[0] != dims[0] || (int64_t)dims[1] != c->input->dim[0]) return;
  const bool colour = there->dims[1] == 3 && dims[1] == 1, grey = there->dims[1] == 1 && dims[1] == 3;
  if (colour || grey)
    shoal_str_add(&c->first, " (it reads %s, and this run's images are %s%s)",
                  colour ? "colours, three channels" : "grey images, one channel",
                  colour ? "grey, one channel" : "in colour, three channels",
                  c->from->ckpt ? ": shoal data import images with --like makes them alike" : "");
}

/* Looks for one tensor of the model in the file. */
static void compare(comparison *c, const char *name, int ndim, const uint64_t *dims)
{
  char now[96], then[96];
  entry e;
  bool found = find_entry(c->from, name, &e);
  if (is_fresh(c->from, name)) return;
  c->tensors++;
  if (found && e.ndim == ndim && memcmp(e.dims, dims, (size_t)ndim * sizeof *dims) == 0) {
    c->fits++;
    return;
  }
  c->lacks += !found;
  shoal_ckpt_shape_text(ndim, dims, now, sizeof now);
  if (!is_first(c, name)) return;
  if (found) {
    shoal_str_add(&c->first, "%s has the shape %s there and %s in this run's model", name,
                  shoal_ckpt_shape_text(e.ndim, e.dims, then, sizeof then), now);
    add_reason(c, &e, ndim, dims);
  } else
    shoal_str_add(&c->first, "it lacks %s %s of this run's model", name, now);
}

static void compare_stat(void *ctx, const char *name, size_t offset, size_t count)
{
  (void)offset;
  compare(ctx, name, 1, (uint64_t[]){ count });
}

typedef struct {
  const char *name;
  bool found;
} search;

static void match_stat(void *ctx, const char *name, size_t offset, size_t count)
{
  search *t = ctx;
  (void)offset;
  (void)count;
  t->found |= strcmp(name, t->name) == 0;
}

static bool has_tensor(const shoal_model *m, const char *name)
{
  search t = { name, false };
  for (int i = 0; i < m->params && !t.found; i++) t.found = strcmp(m->param[i].name, name) == 0;
  if (!t.found) shoal_model_each_stat(m, match_stat, &t);
  return t.found;
}

/* Tensors that the model lacks would be lost: batch norm that was switched off. */
static void compare_rest(comparison *c, const shoal_model *m)
{
  char shape[96];
  entry e;
  for (size_t i = 0; i < count_entries(c->from); i++) {
    if (!entry_at(c->from, i, &e)) continue;
    c->there++;
    if (has_tensor(m, e.name) || is_fresh(c->from, e.name)) continue;
    if (c->others++ == 0) snprintf(c->other, sizeof c->other, "%s", e.name);
    if (!is_first(c, e.name)) continue;
    shoal_str_add(&c->first, "it has %s %s, which this run's model has not", e.name,
                  shoal_ckpt_shape_text(e.ndim, e.dims, shape, sizeof shape));
  }
}

/* "(5 of this model's 8 tensors match; 2 of the 8 there are none of it, such as fc4.weight)" */
static char *count_matches(const comparison *c)
{
  shoal_str s = { 0 };
  shoal_str_add(&s, " (%zu of this model's %zu tensor%s match", c->fits, c->tensors, c->tensors == 1 ? "" : "s");
  if (c->others)
    shoal_str_add(&s, "; %zu of the %zu there %s none of it, such as %s", c->others, c->there,
                  c->others == 1 ? "is" : "are", c->other);
  shoal_str_add(&s, ")");
  return s.text;
}

/* `what` names the file and what it holds. */
static shoal_status match(const shoal_model *m, const source *from, const char *what, const char *cure)
{
  comparison c = { .from = from, .input = &m->input };
  for (int i = 0; i < m->params; i++) {
    uint64_t dims[SHOAL_MAX_DIMS];
    for (int d = 0; d < m->param[i].shape.ndim; d++) dims[d] = (uint64_t)m->param[i].shape.dim[d];
    compare(&c, m->param[i].name, m->param[i].shape.ndim, dims);
  }
  shoal_model_each_stat(m, compare_stat, &c);
  compare_rest(&c, m);
  entry e;
  char shape[96], named[SHOAL_NAME_MAX + 160] = "";
  if (c.fits == 0 && c.lacks > 0 && c.lacks + count_entries(from) == c.faults && count_entries(from) > 0 &&
      entry_at(from, 0, &e))
    snprintf(named, sizeof named,
             "; none of its names is one of this model, its first is %.*s %s: write them as this model's",
             SHOAL_NAME_MAX, e.name, shoal_ckpt_shape_text(e.ndim, e.dims, shape, sizeof shape));
  char *renamed = named[0] && from->given && !cure ? shoal_weights_rename(m, from->given) : NULL;
  char *own = cure ? NULL : renamed ? renamed : name_cure(m, &c), *matches = count_matches(&c);
  shoal_status st = c.faults == 0 ? SHOAL_OK
                                  : SHOAL_FAIL(SHOAL_ERR_USAGE, "%s: %s%s%s; %s", what, c.first.text, matches, named,
                                               cure ? cure : own);
  free(matches);
  free(own);
  shoal_texts_free(&c.layers);
  shoal_str_free(&c.first);
  return st;
}

static shoal_status match_ckpt(const shoal_model *m, const source *from, const char *cure)
{
  char what[4200];
  snprintf(what, sizeof what, "%s holds the weights of another %s", shoal_ckpt_path(from->ckpt),
           shoal_ckpt_get_info(from->ckpt)->model);
  return match(m, from, what, cure);
}

shoal_status shoal_weights_match(const shoal_model *m, const shoal_ckpt *ckpt, const char *cure)
{
  return match_ckpt(m, &(source){ .ckpt = ckpt }, cure);
}

/* ---- reading ---- */

typedef struct {
  const source *from;
  shoal_backend *backend;
  float *stats;
  shoal_status st;
} stat_source;

static void get_stat(void *ctx, const char *name, size_t offset, size_t count)
{
  stat_source *t = ctx;
  if (t->st == SHOAL_OK && !is_fresh(t->from, name))
    t->st = read_entry(t->from, t->backend, name, count, t->stats + offset);
}

static shoal_status read_all(shoal_backend *b, const shoal_model *m, const source *from, shoal_params *params)
{
  for (int i = 0; i < m->params; i++) {
    const shoal_param *p = &m->param[i];
    if (!is_fresh(from, p->name)) SHOAL_TRY(read_entry(from, b, p->name, p->count, params->w + p->offset));
  }
  stat_source t = { from, b, params->stats, SHOAL_OK };
  shoal_model_each_stat(m, get_stat, &t);
  params->version++;
  return t.st;
}

shoal_status shoal_weights_read(shoal_backend *b, const shoal_model *m, const shoal_ckpt *c, shoal_params *params)
{
  return read_all(b, m, &(source){ .ckpt = c }, params);
}

/* ---- model.weights ---- */

/* Checksum of the tensors' names and values: the same for the same weights in another file of its kind. */
static shoal_status identify(const source *s, uint32_t *crc)
{
  *crc = 0;
  if (!s->given) {
    const shoal_ckpt_index *x = shoal_ckpt_get_index(s->ckpt);
    for (size_t i = 0; i < x->n; i++) {
      if (strncmp(x->at[i].name, prefix, sizeof prefix - 1) != 0) continue;
      *crc = shoal_crc32c(*crc, x->at[i].name, strlen(x->at[i].name));
      *crc = shoal_crc32c(*crc, &x->at[i].crc, sizeof x->at[i].crc);
    }
    return SHOAL_OK;
  }
  const shoal_given_tensor *t;
  size_t n = shoal_given_tensors(s->given, &t);
  for (size_t i = 0; i < n; i++) {
    shoal_host_float *x;
    SHOAL_TRY(SHOAL_ALLOC(t[i].count, &x));
    shoal_status st = shoal_given_read(s->given, &t[i], x);
    *crc = shoal_crc32c(*crc, t[i].name, strlen(t[i].name));
    *crc = shoal_crc32c(*crc, x, t[i].count * sizeof *x);
    free(x);
    SHOAL_TRY(st);
  }
  return SHOAL_OK;
}

/* How long what DataParallel, compile and others put in front of all names is, "module.": 0 if the names are not the model's
 * behind it. */
static size_t find_prefix(const shoal_model *m, const source *s)
{
  const shoal_given_tensor *t;
  size_t n = shoal_given_tensors(s->given, &t), same = 0;
  if (n == 0) return 0;
  for (bool go_on = true; go_on; same += go_on) {
    go_on = t[0].name[same] != '\0';
    for (size_t i = 1; i < n && go_on; i++) go_on = t[i].name[same] == t[0].name[same];
  }
  for (size_t at = 0; at < same; at++)
    if ((at == 0 || t[0].name[at - 1] == '.') && has_tensor(m, t[0].name + at)) return at;
  return 0;
}

static source source_of(const shoal_session *s)
{
  source from = { .ckpt = s->world.weights, .given = s->world.given };
  from.n_fresh = shoal_config_words(s->world.config, "model.fresh", &from.fresh);
  if (from.given) from.skip = find_prefix(s->run.model, &from);
  return from;
}

/* A name in model.fresh that neither the model nor the file has is a slip. */
static shoal_status check_fresh(const shoal_model *m, const source *from)
{
  entry e;
  for (size_t i = 0; i < from->n_fresh; i++) {
    const source one = { .fresh = &from->fresh[i], .n_fresh = 1 };
    bool known = false;
    for (int k = 0; k < m->params && !known; k++) known = is_fresh(&one, m->param[k].name);
    for (size_t k = 0; k < count_entries(from) && !known; k++) known = entry_at(from, k, &e) && is_fresh(&one, e.name);
    SHOAL_CHECK(known, SHOAL_ERR_USAGE,
                "model.fresh names %s, which is no layer with weights; `shoal models` lists them", from->fresh[i]);
  }
  return SHOAL_OK;
}

static shoal_status check_weights_alone(const shoal_session *s, const char *path)
{
  const char *resume = s->world.args->resume;
  SHOAL_CHECK(!resume || strcmp(resume, "auto") == 0 || strcmp(resume, "never") == 0, SHOAL_ERR_USAGE,
              "--resume %s and model.weights %s both say where weights come from: --resume goes on with that run, "
              "model.weights begins a new one; leave one out",
              resume, path);
  struct stat there;
  char *folder = stat(path, &there) == 0 && S_ISDIR(there.st_mode) ? shoal_path_join(path, "ckpt") : NULL;
  shoal_ckpt_folder inside = { 0 };
  shoal_status st = folder ? shoal_ckpt_folder_scan(folder, &inside) : SHOAL_OK;
  if (folder && st == SHOAL_OK)
    st = SHOAL_FAIL(SHOAL_ERR_USAGE,
                    "model.weights: %s is a folder: give a checkpoint%s%s, or a file of safetensors or ONNX", path,
                    inside.n ? ", as " : "", inside.n ? inside.at[0].path : "");
  shoal_ckpt_folder_free(&inside);
  free(folder);
  SHOAL_TRY(st);
  SHOAL_CHECK(
      !shoal_folder_holds(&s->world.folder, path), SHOAL_ERR_USAGE,
      "model.weights names %s, a checkpoint of the run in this folder, which goes on from its newest one and does "
      "not read it: to begin a new run with these weights give --set run.name=NAME",
      path);
  return SHOAL_OK;
}

shoal_status shoal_session_find_weights(shoal_session *s)
{
  const char *path = shoal_config_string(s->world.config, "model.weights");
  shoal_group *control = s->run.control;
  shoal_ckpt *verified = NULL;
  if (!*path) return SHOAL_OK;
  SHOAL_TRY(shoal_group_agree(control, check_weights_alone(s, path)));
  if (s->world.resume) {
    shoal_info("model.weights is not read again: this run has a checkpoint of its own");
    return SHOAL_OK;
  }
  shoal_status st = SHOAL_OK;
  if (shoal_given_is(path)) {
    st = shoal_given_open(path, &s->world.given);
    return shoal_session_agree_on_reading(s, shoal_error_prefix(st, "model.weights: "));
  }
  if (shoal_session_is_root(s)) st = shoal_ckpt_open(path, true, &verified);
  shoal_ckpt_close(verified);
  SHOAL_TRY(shoal_group_agree(control, shoal_error_prefix(st, "model.weights: ")));
  st = shoal_ckpt_open(path, false, &s->world.weights);
  return shoal_session_agree_on_reading(s, shoal_error_prefix(st, "model.weights: "));
}

/* Parts are cut from the whole model, which exists for this moment only. */
static shoal_status cut(shoal_session *s, const source *from)
{
  SHOAL_TRY(shoal_session_make_whole(s));
  shoal_params *whole = s->model.scratch;
  if (from->n_fresh > 0) SHOAL_TRY(shoal_model_init(s->run.backend, s->run.model, s->run.seed, whole->w, whole->stats));
  SHOAL_TRY(read_all(s->run.backend, s->run.model, from, whole));
  SHOAL_TRY(s->method->adopt(&s->run, s->method_state, 0, whole->w));
  SHOAL_TRY(shoal_model_gather_stats(s->run.backend, s->run.model, s->run.form->model, whole->stats,
                                     s->run.form->params->stats));
  shoal_session_drop_whole(s);
  return SHOAL_OK;
}

/* Tells what was taken, and what was not. */
static shoal_status tell(shoal_session *s, const source *from)
{
  uint32_t crc;
  size_t drawn = 0;
  const shoal_model *m = s->run.model;
  SHOAL_TRY(identify(from, &crc));
  s->model.weights_checksum = crc;
  for (int i = 0; i < m->params; i++) drawn += is_fresh(from, m->param[i].name);
  if (from->given) {
    const shoal_given_tensor *t;
    shoal_given_tensors(from->given, &t);
    shoal_info("weights from %s (checksum %08x), a new schedule from epoch 0, a new optimizer",
               shoal_given_path(from->given), (unsigned)crc);
    if (from->skip) shoal_info("its names are taken without the \"%.*s\" in front of them", (int)from->skip, t[0].name);
  } else {
    const shoal_ckpt_info *info = shoal_ckpt_get_info(from->ckpt);
    shoal_info("weights from %s (checksum %08x: run %s, method %s, step %llu), a new schedule from epoch 0, a new "
               "optimizer",
               shoal_ckpt_path(from->ckpt), (unsigned)crc, info->run, info->method, (unsigned long long)info->step);
  }
  for (int i = 0; i < m->params; i++) {
    const shoal_param *p = &m->param[i];
    entry e;
    char now[96], then[96];
    uint64_t dims[SHOAL_MAX_DIMS];
    if (!is_fresh(from, p->name)) continue;
    for (int d = 0; d < p->shape.ndim; d++) dims[d] = (uint64_t)p->shape.dim[d];
    shoal_ckpt_shape_text(p->shape.ndim, dims, now, sizeof now);
    if (find_entry(from, p->name, &e))
      shoal_info("drawn anew: %s %s, %s there", p->name, now, shoal_ckpt_shape_text(e.ndim, e.dims, then, sizeof then));
    else
      shoal_info("drawn anew: %s %s, which is not there", p->name, now);
  }
  if (from->n_fresh > 0 && drawn == 0) shoal_info("of the layers in model.fresh this model has none");
  return SHOAL_OK;
}

shoal_status shoal_session_take_weights(shoal_session *s, bool method_is_open)
{
  const source from = source_of(s);
  if ((!from.ckpt && !from.given) || method_is_open != shoal_session_cuts(s)) return SHOAL_OK;
  SHOAL_TRY(check_fresh(s->run.model, &from));
  shoal_status st;
  if (from.given) {
    char what[4200];
    snprintf(what, sizeof what, "%s does not fit", shoal_given_path(from.given));
    st = match(s->run.model, &from, what, NULL);
  } else {
    st = match_ckpt(s->run.model, &from, NULL);
  }
  SHOAL_TRY(shoal_error_prefix(st, "model.weights: "));
  SHOAL_TRY(method_is_open ? cut(s, &from) : read_all(s->run.backend, s->run.model, &from, s->model.form.params));
  SHOAL_TRY(tell(s, &from));
  shoal_session_close_weights(s);
  return SHOAL_OK;
}

void shoal_session_close_weights(shoal_session *s)
{
  shoal_ckpt_close(s->world.weights);
  shoal_given_close(s->world.given);
  s->world.weights = NULL;
  s->world.given = NULL;
}
