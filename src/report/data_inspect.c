/* `shoal data inspect`: the contents of a data set, the cost of shuffled reads, and whether the file is valid.  Of several
 * files each is shown as if it were alone, then what they are together.
 *
 * One pass over the labels finds what is wrong or odd about them (data/labels.h); one over everything finds values that
 * are NaN or infinite, marks of missing values, training samples that are equal but for their labels, and test samples that are
 * in the training split, too, and computes the checksum.  The read amplification is the number of bytes in the chunks that hold one sample, divided by the bytes of the sample: the
 * cost factor of a reader that fetches whole chunks without reusing them, as in shuffled training. */
#include "base/crc32c.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/texts.h"
#include "data/contents.h"
#include "data/labels.h"
#include "data/stats.h"
#include "report/data.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 4 << 20, SHOWN = 20, MOST_HASHED = 1 << 26, MOST_COMPARED = 1 << 22 };

typedef struct {
  char layout[224]; /* "chunks [5, 3, 32, 32], deflate" */
  double
      amplification; /* 1: only the sample's own bytes are read; 0: not reported for text, which is read in windows */
} part_facts;

typedef struct {
  shoal_dataset *d;
  const shoal_data_info *info;
  shoal_data_stored stored;
  part_facts part[2];
  const shoal_labels *labels;
  shoal_texts names;  /* of the features of a table; none: not known */
  double *mean, *std; /* [groups] computed over the training split */
  size_t groups;
  size_t constant, first_constant; /* groups that hold one value alone, and the first of them */
  size_t frozen, first_frozen;     /* features that vary in the test split alone */
  char where[48];                  /* which of them is scaled otherwise; "" for all together */
  char scales[256];                /* how the test split is scaled otherwise than the training split, or "" */
  uint64_t not_finite;
  char first_bad[256];           /* "nan in sample 7 of /train/x, feature 2" */
  uint64_t shared, first_shared; /* test samples that the training split has, too; the first of them */
  struct {
    uint64_t samples, first, other; /* training samples that another one equals with another label; the first two */
    int32_t labels[2];              /* of these two */
  } unlike;
  uint32_t checksum;
  shoal_data_damage damage[2];
} facts;

/* Of each sample of a split. */
typedef struct {
  uint64_t *of; /* [n] or NULL, if there are too many */
} hashes;

/* ---- collecting ---- */

static shoal_status describe_layout(const shoal_dataset *d, shoal_split split, part_facts *p)
{
  shoal_h5_facts f;
  SHOAL_TRY(shoal_dataset_layout(d, split, &f));
  p->amplification = 1;
  snprintf(p->layout, sizeof p->layout, "contiguous");
  if (!f.chunk[0]) return SHOAL_OK;
  size_t at = (size_t)snprintf(p->layout, sizeof p->layout, "chunks [");
  double touched = (double)f.chunk[0], own = 1;
  for (int i = 0; i < f.ndim; i++) {
    if (at < sizeof p->layout)
      at += (size_t)snprintf(p->layout + at, sizeof p->layout - at, i ? ", %" PRIu64 : "%" PRIu64, f.chunk[i]);
    if (i == 0) continue;
    touched *= (double)((f.dims[i] + f.chunk[i] - 1) / f.chunk[i] * f.chunk[i]);
    own *= (double)f.dims[i];
  }
  if (at < sizeof p->layout)
    snprintf(p->layout + at, sizeof p->layout - at, "]%s%s", f.filters[0] ? ", " : "", f.filters);
  p->amplification = shoal_dataset_info(d)->kind == SHOAL_DATA_TEXT ? 0 : touched / own;
  return SHOAL_OK;
}

/* Two samples that differ have the same one once in 2^64: the words are mixed one after the other, by multiplications with an
 * odd number and a shift, which are bijections. */
static uint64_t hash_sample(const uint8_t *x, size_t bytes)
{
  uint64_t h = bytes;
  for (size_t at = 0; at < bytes; at += sizeof h) {
    uint64_t word = 0;
    memcpy(&word, x + at, SHOAL_MIN(bytes - at, sizeof word));
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 32;
  }
  return h;
}

static int by_hash(const void *a, const void *b)
{
  uint64_t p = *(const uint64_t *)a, q = *(const uint64_t *)b;
  return (p > q) - (p < q);
}

/* A training sample, to be sorted with its equals. */
typedef struct {
  uint64_t hash;
  uint32_t sample;
  int32_t label;
} labelled;

static int by_equals(const void *a, const void *b)
{
  const labelled *p = a, *q = b;
  if (p->hash != q->hash) return (p->hash > q->hash) - (p->hash < q->hash);
  return (p->sample > q->sample) - (p->sample < q->sample);
}

/* Of n samples that are equal, in their order. */
static void note_unlike(facts *f, const labelled *equals, uint64_t n)
{
  uint64_t other = 1;
  while (other < n && equals[other].label == equals[0].label) other++;
  if (other >= n) return;
  if (f->unlike.samples == 0 || equals[0].sample < f->unlike.first) {
    f->unlike.first = equals[0].sample;
    f->unlike.other = equals[other].sample;
    f->unlike.labels[0] = equals[0].label;
    f->unlike.labels[1] = equals[other].label;
  }
  f->unlike.samples += n;
}

/* Training samples that are equal and have different labels. */
static shoal_status count_unlike(facts *f, const hashes *hash)
{
  const uint64_t n = f->info->n[SHOAL_TRAIN];
  labelled *all;
  int32_t *y = NULL;
  if (!hash->of || n > MOST_COMPARED || f->info->targets) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(n, &all));
  shoal_status st = SHOAL_ALLOC(n, &y);
  if (st == SHOAL_OK) st = shoal_dataset_rows(f->d, SHOAL_TRAIN, 0, n, NULL, y);
  for (uint64_t i = 0; st == SHOAL_OK && i < n; i++) all[i] = (labelled){ hash->of[i], (uint32_t)i, y[i] };
  free(y);
  if (st == SHOAL_OK) qsort(all, n, sizeof *all, by_equals);
  for (uint64_t i = 0, k; st == SHOAL_OK && i < n; i = k) {
    for (k = i + 1; k < n && all[k].hash == all[i].hash;) k++;
    note_unlike(f, &all[i], k - i);
  }
  free(all);
  return st;
}

/* Test samples that the training split has, too. */
static void count_shared(facts *f, hashes hash[2])
{
  const uint64_t *n = f->info->n;
  if (!hash[0].of || !hash[1].of || n[1] == 0) return;
  qsort(hash[0].of, n[0], sizeof *hash[0].of, by_hash);
  for (uint64_t i = 0; i < n[1]; i++)
    if (bsearch(&hash[1].of[i], hash[0].of, n[0], sizeof *hash[0].of, by_hash) && f->shared++ == 0) f->first_shared = i;
}

static void name_bad(facts *f, shoal_split split, const shoal_data_stats *t)
{
  char where[96] = "";
  const shoal_shape *s = &f->info->sample;
  const size_t plane = s->ndim == 3 ? (size_t)s->dim[1] * (size_t)s->dim[2] : 1, at = t->bad.element;
  if (!t->not_finite || f->first_bad[0]) return;
  if (s->ndim == 3)
    snprintf(where, sizeof where, ", channel %zu, row %zu, column %zu", at / plane, at % plane / (size_t)s->dim[2],
             at % (size_t)s->dim[2]);
  else
    snprintf(where, sizeof where, ", feature %zu", at);
  snprintf(f->first_bad, sizeof f->first_bad, "%g in sample %" PRIu64 " of /%.60s%s", (double)t->bad.value,
           t->bad.sample, f->stored.x[split], where);
}

static shoal_status pass_split(facts *f, shoal_split split, shoal_data_stats *t, uint32_t crc[2], hashes *hash, void *x,
                               int32_t *y, uint64_t step)
{
  const bool text = f->info->kind == SHOAL_DATA_TEXT, targets = f->info->targets > 0;
  for (uint64_t at = 0; at < f->info->n[split]; at += step) {
    uint64_t n = SHOAL_MIN(step, f->info->n[split] - at);
    SHOAL_TRY(shoal_dataset_rows(f->d, split, at, n, x, text || targets ? NULL : y));
    SHOAL_TRY(shoal_dataset_find_damage(f->d, split, at, n, x, &f->damage[split]));
    crc[0] = shoal_crc32c(crc[0], x, n * f->stored.sample_bytes);
    if (text) continue;
    shoal_data_stats_add(t, n, x);
    for (uint64_t i = 0; i < n && hash->of; i++)
      hash->of[at + i] = hash_sample((const uint8_t *)x + i * f->stored.sample_bytes, f->stored.sample_bytes);
    if (targets)
      crc[1] =
          shoal_crc32c(crc[1], shoal_dataset_target(f->d, split, at), n * (size_t)f->info->targets * sizeof(double));
    else
      crc[1] = shoal_crc32c(crc[1], y, n * sizeof *y);
  }
  return SHOAL_OK;
}

static void warn_of_marks(const facts *f, shoal_split split, const shoal_data_stats *t)
{
  char array[80];
  snprintf(array, sizeof array, "/%.70s", f->stored.x[split]);
  (void)shoal_data_stats_warn(t, shoal_dataset_path(f->d), array,
                              f->info->kind == SHOAL_DATA_IMAGES ? "channel" : "feature");
}

/* A feature that training never sees change keeps the weights that were drawn for it, and a test that does moves outputs. */
static void find_frozen(facts *f, const shoal_data_stats *train, const shoal_data_stats *test)
{
  for (size_t g = 0; g < f->groups && f->info->n[SHOAL_TEST]; g++) {
    double value, other;
    if (!shoal_data_stats_is_constant(train, g, &value)) continue;
    if (shoal_data_stats_is_constant(test, g, &other) && other == value) continue;
    if (f->frozen++ == 0) f->first_frozen = g;
  }
}

/* Samples of both splits must be scaled alike: one that was divided by 255 beside one that was not looks like another world,
 * and so does one feature in other units.  A feature that is mostly 0 varies less in a small split by chance. */
static shoal_status compare_scales(facts *f, const shoal_data_stats *train, const shoal_data_stats *test)
{
  enum { FAR = 8, FEW = 10 };
  double *mean, *std, here[2], there[2], value;
  if (train->not_finite || test->not_finite) return SHOAL_OK;
  find_frozen(f, train, test);
  if (f->info->n[SHOAL_TEST] < FEW) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(2 * test->groups, &mean));
  std = mean + test->groups;
  shoal_data_stats_result(test, mean, std);
  shoal_data_overall(test->groups, mean, std, &there[0], &there[1]);
  shoal_data_overall(f->groups, f->mean, f->std, &here[0], &here[1]);
  bool far = fabs(here[0] - there[0]) > FAR * here[1] || here[1] > FAR * there[1] || there[1] > FAR * here[1];
  size_t unlike = 0, first = 0;
  for (size_t g = 0; g < f->groups; g++) {
    if (shoal_data_stats_is_constant(train, g, &value) || shoal_data_stats_is_constant(test, g, &value)) continue;
    if (fabs(f->mean[g] - mean[g]) <= FAR * f->std[g] && std[g] <= FAR * f->std[g]) continue;
    if (unlike++ == 0) first = g;
  }
  if (unlike > 0 && unlike < f->groups) {
    snprintf(f->where, sizeof f->where, " in %s %zu", f->info->kind == SHOAL_DATA_IMAGES ? "channel" : "feature",
             first);
    there[0] = mean[first], there[1] = std[first];
    here[0] = f->mean[first], here[1] = f->std[first];
  }
  if (far || unlike)
    snprintf(f->scales, sizeof f->scales, "mean %.4g and standard deviation %.4g%s, /%.40s %.4g and %.4g", there[0],
             there[1], f->where, f->stored.x[SHOAL_TRAIN], here[0], here[1]);
  free(mean);
  return SHOAL_OK;
}

static shoal_status pass_all(facts *f)
{
  const shoal_data_info *i = f->info;
  const size_t sample_bytes = f->stored.sample_bytes;
  shoal_data_stats train = { 0 }, test = { 0 };
  hashes hash[2] = { { NULL }, { NULL } };
  uint32_t crc[4] = { 0 };
  uint64_t step = SHOAL_MAX(BLOCK_BYTES / sample_bytes, 1);
  void *x = NULL;
  int32_t *y = NULL;
  shoal_status st;
  SHOAL_TRY_GOTO(st, shoal_alloc(step, sample_bytes, "samples", &x), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(step, &y), done);
  SHOAL_TRY_GOTO(st, shoal_data_stats_init(&train, i->kind, &i->sample, i->x_bytes), done);
  SHOAL_TRY_GOTO(st, shoal_data_stats_init(&test, i->kind, &i->sample, i->x_bytes), done);
  for (int s = 0; s < 2 && i->kind != SHOAL_DATA_TEXT && i->n[0] <= MOST_HASHED; s++)
    SHOAL_TRY_GOTO(st, SHOAL_ALLOC(i->n[s], &hash[s].of), done);
  SHOAL_TRY_GOTO(st, pass_split(f, SHOAL_TRAIN, &train, crc, &hash[0], x, y, step), done);
  SHOAL_TRY_GOTO(st, pass_split(f, SHOAL_TEST, &test, crc + 2, &hash[1], x, y, step), done);
  SHOAL_TRY_GOTO(st, count_unlike(f, &hash[0]), done);
  count_shared(f, hash);
  name_bad(f, SHOAL_TRAIN, &train);
  name_bad(f, SHOAL_TEST, &test);
  if (train.not_finite + test.not_finite == 0 && !f->stored.warned_of_marks)
    for (int s = 0; s < 2; s++) warn_of_marks(f, (shoal_split)s, s == 0 ? &train : &test);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(2 * train.groups, &f->mean), done);
  f->std = f->mean + train.groups;
  f->groups = train.groups;
  shoal_data_stats_result(&train, f->mean, f->std);
  if (i->kind != SHOAL_DATA_TEXT) f->constant = shoal_data_stats_constant(&train, &f->first_constant);
  if (i->kind != SHOAL_DATA_TEXT) SHOAL_TRY_GOTO(st, compare_scales(f, &train, &test), done);
  f->not_finite = train.not_finite + test.not_finite;
  f->checksum = shoal_data_checksum(crc);
done:
  free(hash[0].of);
  free(hash[1].of);
  shoal_data_stats_fini(&train);
  shoal_data_stats_fini(&test);
  free(x);
  free(y);
  return st;
}

static shoal_status gather(facts *f)
{
  const shoal_data_info *i = f->info;
  for (int s = 0; s < 2; s++) {
    if (i->n[s]) SHOAL_TRY(describe_layout(f->d, (shoal_split)s, &f->part[s]));
  }
  SHOAL_TRY(shoal_dataset_labels(f->d, &f->labels));
  SHOAL_TRY(shoal_texts_add_lines(&f->names, shoal_dataset_feature_names(f->d)));
  return pass_all(f);
}

/* ---- printing ---- */

static const char *const kinds[] = { "images", "features", "text" };

static const char *type_name(const shoal_data_info *i)
{
  if (i->kind != SHOAL_DATA_TEXT) return i->x_bytes == 1 ? "u8" : "f32";
  return i->x_bytes == 1 ? "u8" : i->x_bytes == 2 ? "u16" : "u32";
}

static bool checksum_ok(const facts *f)
{
  return !f->stored.has_checksum || f->checksum == f->stored.checksum;
}

/* Samples of class c in a split; *at moves along the sorted labels and begins at 0. */
static uint64_t count_of(const facts *f, shoal_split split, int64_t c, size_t *at)
{
  const shoal_labels *l = f->labels;
  while (*at < l->distinct && l->all[*at].value < c) ++*at;
  return *at < l->distinct && l->all[*at].value == c ? l->all[*at].count[split] : 0;
}

/* Samples that can only be predicted are stored with one class, which is none. */
static bool has_labels(const facts *f)
{
  return f->info->classes != 1 || !f->stored.class_names || strcmp(f->stored.class_names, SHOAL_LABELS_NONE) != 0;
}

static const char *classes_text(const facts *f, char *buf, size_t cap)
{
  if (!has_labels(f)) return "no labels";
  if (f->info->targets) {
    snprintf(buf, cap, "%" PRId64 " target%s", f->info->targets, f->info->targets == 1 ? "" : "s");
    return buf;
  }
  snprintf(buf, cap, "%" PRId64 " class%s", f->info->classes, f->info->classes == 1 ? "" : "es");
  return buf;
}

static void print_targets(const facts *f, FILE *out)
{
  const shoal_data_targets *t = shoal_dataset_targets(f->d);
  const size_t shown = SHOAL_MIN(t->n, (size_t)SHOWN);
  char name[160];
  fprintf(out, "\n%8s %12s %12s %12s %12s   of the training split\n", "target", "mean", "std", "least", "most");
  for (size_t k = 0; k < shown; k++)
    fprintf(out, "%8zu %12.6g %12.6g %12.6g %12.6g%s%s\n", k, t->mean[k], t->std[k], t->low[k], t->high[k],
            t->names ? "   " : "", t->names ? shoal_targets_name(t, k, name, sizeof name) : "");
  if (shown < t->n) fprintf(out, "%8s and %zu more (all of them with --json)\n", "", t->n - shown);
}

static void print_histogram(const facts *f, FILE *out)
{
  const shoal_data_info *i = f->info;
  if (i->targets) {
    print_targets(f, out);
    return;
  }
  if (i->kind == SHOAL_DATA_TEXT || !has_labels(f)) return;
  int64_t shown = SHOAL_MIN(i->classes, (int64_t)SHOWN);
  size_t train = 0, test = 0;
  fprintf(out, "\n%8s %12s %12s\n", "class", "train", "test");
  for (int64_t c = 0; c < shown; c++) {
    char name[160];
    shoal_labels_name(f->stored.class_names, c, name, sizeof name);
    fprintf(out, "%8" PRId64 " %12" PRIu64 " %12" PRIu64 "%s%s\n", c, count_of(f, SHOAL_TRAIN, c, &train),
            count_of(f, SHOAL_TEST, c, &test), name[0] ? "  " : "", name);
  }
  if (shown < i->classes) fprintf(out, "%8s and %" PRId64 " more (all of them with --json)\n", "", i->classes - shown);
}

/* The name of a feature as a terminal shows it; "" where there is none, or one mean for all of them. */
static const char *feature_name(const facts *f, size_t g, char *buf, size_t cap)
{
  return f->names.n == f->groups ? shoal_show(f->names.at[g], buf, cap) : "";
}

static void print_scale(const facts *f, const char *note, FILE *out)
{
  char buf[160];
  const char *name;
  if (f->info->kind == SHOAL_DATA_TEXT || !f->info->n[SHOAL_TRAIN]) return;
  fprintf(out, "\n%8s %12s %12s   of the training split%s\n",
          f->info->kind == SHOAL_DATA_IMAGES ? "channel" : "feature", "mean", "std", note);
  size_t shown = SHOAL_MIN(f->groups, (size_t)SHOWN);
  for (size_t g = 0; g < shown; g++) {
    name = feature_name(f, g, buf, sizeof buf);
    fprintf(out, "%8zu %12.6g %12.6g%s%s\n", g, f->mean[g], f->std[g], name[0] ? "   " : "", name);
  }
  if (shown < f->groups) fprintf(out, "%8s and %zu more\n", "", f->groups - shown);
  if (!f->constant) return;
  name = feature_name(f, f->first_constant, buf, sizeof buf);
  fprintf(out, "%8s %zu of %zu %s the same value in all samples, the first is %zu%s%s (%.6g)\n", "", f->constant,
          f->groups, f->groups == 1 ? "has" : "have", f->first_constant, name[0] ? ", " : "", name,
          f->mean[f->first_constant]);
}

static void print_table(const facts *f, FILE *out)
{
  const shoal_data_info *i = f->info;
  char shape[96], amount[32], text[1024], path[1024], word[SHOAL_WORD], classes[32];
  fprintf(out, "%s\n  kind      %s, %s\n  sample    %s %s\n  source    %s\n",
          shoal_show(shoal_dataset_path(f->d), path, sizeof path), kinds[i->kind],
          classes_text(f, classes, sizeof classes), type_name(i),
          shoal_data_shape_text(&i->sample, shape, sizeof shape),
          i->source[0] ? shoal_show(i->source, text, sizeof text) : "not stored");
  fprintf(out, "  checksum  %08" PRIx32 "%s\n", f->checksum,
          !f->stored.has_checksum ? " (none stored)"
          : checksum_ok(f)        ? ", as stored"
                                  : ", DIFFERS from the stored one");
  fprintf(out, "\n%8s %12s %12s %14s  layout\n", "split", "samples", "size", "amplification");
  for (int s = 0; s < 2; s++) {
    char times[32] = "-";
    if (!i->n[s]) continue;
    if (f->part[s].amplification > 0) snprintf(times, sizeof times, "%.1f", f->part[s].amplification);
    fprintf(out, "%8s %12" PRIu64 " %12s %14s  %s of /%s\n", shoal_split_name((shoal_split)s), i->n[s],
            shoal_format_bytes((double)i->n[s] * (double)f->stored.sample_bytes, amount, sizeof amount), times,
            f->part[s].layout, shoal_show(f->stored.x[s], text, sizeof text));
  }
  print_scale(f, f->stored.has_scale ? "" : " (not stored in the file)", out);
  print_histogram(f, out);
  fputc('\n', out);
  for (int s = 0; s < 2; s++) {
    uint64_t unpacks = shoal_dataset_unpacks(f->d, (shoal_split)s);
    if (f->part[s].amplification <= 64) continue;
    if (unpacks > 1)
      fprintf(out, "shuffled reads of /%s unpack %" PRIu64 " samples each", f->stored.x[s], unpacks);
    else
      fprintf(out, "shuffled reads of /%s fetch %.0f times its bytes", f->stored.x[s], f->part[s].amplification);
    fprintf(out, "; cure: shoal data repack %s -o FILE\n", shoal_shell_word(shoal_dataset_path(f->d), word));
  }
}

/* What several files are together: nothing is read again for it. */
static void print_whole(const facts *f, size_t files, FILE *out)
{
  const shoal_data_info *i = f->info;
  char shape[96], amount[32], classes[32];
  fprintf(out, "%zu files as one data set\n  kind      %s, %s\n  sample    %s %s\n", files, kinds[i->kind],
          classes_text(f, classes, sizeof classes), type_name(i),
          shoal_data_shape_text(&i->sample, shape, sizeof shape));
  fprintf(out, "\n%8s %12s %12s\n", "split", "samples", "size");
  for (int s = 0; s < 2; s++)
    if (i->n[s])
      fprintf(out, "%8s %12" PRIu64 " %12s\n", shoal_split_name((shoal_split)s), i->n[s],
              shoal_format_bytes((double)i->n[s] * (double)f->stored.sample_bytes, amount, sizeof amount));
  print_scale(f, ", as training uses them", out);
  print_histogram(f, out);
  fputc('\n', out);
}

static void put_numbers(shoal_json *j, const char *key, size_t n, const double *v)
{
  shoal_json_array(j, key);
  for (size_t k = 0; k < n; k++) shoal_json_real(j, NULL, v[k]);
  shoal_json_end(j);
}

static void put_split(shoal_json *j, const facts *f, shoal_split split)
{
  const shoal_data_info *i = f->info;
  const part_facts *p = &f->part[split];
  shoal_json_object(j, shoal_split_name(split));
  shoal_json_uint(j, "samples", i->n[split]);
  if (i->n[split]) {
    shoal_json_uint(j, "bytes", i->n[split] * (uint64_t)f->stored.sample_bytes);
    shoal_json_string(j, "array", f->stored.x[split]);
    shoal_json_string(j, "layout", p->layout);
    if (p->amplification > 0) shoal_json_real(j, "amplification", p->amplification);
    shoal_json_uint(j, "wrong_labels", shoal_labels_outside(f->labels, split));
  }
  if (i->kind != SHOAL_DATA_TEXT && !i->targets) {
    size_t at = 0;
    shoal_json_array(j, "histogram");
    for (int64_t c = 0; c < i->classes; c++) shoal_json_uint(j, NULL, count_of(f, split, c, &at));
    shoal_json_end(j);
  }
  shoal_json_end(j);
}

static void put_scale(shoal_json *j, const facts *f)
{
  if (f->info->kind == SHOAL_DATA_TEXT) return;
  if (f->names.n) {
    shoal_json_array(j, "feature_names");
    for (size_t k = 0; k < f->names.n; k++) shoal_json_string(j, NULL, f->names.at[k]);
    shoal_json_end(j);
  }
  put_numbers(j, "mean", f->groups, f->mean);
  put_numbers(j, "std", f->groups, f->std);
}

/* The number of classes, or the targets. */
static void put_classes(shoal_json *j, const facts *f)
{
  const shoal_data_targets *t = shoal_dataset_targets(f->d);
  char name[160];
  if (t->n == 0) {
    shoal_json_int(j, "classes", f->info->classes);
    return;
  }
  shoal_json_array(j, "targets");
  for (size_t k = 0; k < t->n; k++) {
    shoal_json_object(j, NULL);
    shoal_json_string(j, "name", shoal_targets_name(t, k, name, sizeof name));
    shoal_json_real(j, "mean", t->mean[k]);
    shoal_json_real(j, "std", t->std[k]);
    shoal_json_real(j, "least", t->low[k]);
    shoal_json_real(j, "most", t->high[k]);
    shoal_json_end(j);
  }
  shoal_json_end(j);
}

static void put_file(shoal_json *j, const facts *f)
{
  const shoal_data_info *i = f->info;
  shoal_json_object(j, NULL);
  shoal_json_string(j, "path", shoal_dataset_path(f->d));
  shoal_json_string(j, "kind", kinds[i->kind]);
  put_classes(j, f);
  shoal_json_string(j, "type", type_name(i));
  shoal_json_array(j, "sample");
  for (int k = 0; k < i->sample.ndim; k++) shoal_json_int(j, NULL, i->sample.dim[k]);
  shoal_json_end(j);
  shoal_json_string(j, "source", i->source);
  shoal_json_bool(j, "foreign_names", f->stored.foreign);
  shoal_json_format(j, "checksum", "%08" PRIx32, f->checksum);
  shoal_json_bool(j, "checksum_stored", f->stored.has_checksum);
  shoal_json_bool(j, "checksum_ok", checksum_ok(f));
  put_scale(j, f);
  put_split(j, f, SHOAL_TRAIN);
  put_split(j, f, SHOAL_TEST);
  shoal_json_uint(j, "not_finite", f->not_finite);
  shoal_json_end(j);
}

static void put_whole(shoal_json *j, const facts *f)
{
  put_classes(j, f);
  put_scale(j, f);
  for (int s = 0; s < 2; s++) {
    size_t at = 0;
    shoal_json_object(j, shoal_split_name((shoal_split)s));
    shoal_json_uint(j, "samples", f->info->n[s]);
    shoal_json_array(j, "histogram");
    for (int64_t c = 0; c < f->info->classes && !f->info->targets; c++)
      shoal_json_uint(j, NULL, count_of(f, (shoal_split)s, c, &at));
    shoal_json_end(j);
    shoal_json_end(j);
  }
}

/* What of the file is not as it was written: samples, labels, or what has no check sum of its own. */
static shoal_status name_damage(const facts *f)
{
  const char *path = shoal_dataset_path(f->d);
  for (int s = 0; s < 2; s++) {
    const shoal_data_damage *d = &f->damage[s];
    char last[32] = "", others[64] = "";
    if (!d->samples) continue;
    if (d->samples > 1) snprintf(last, sizeof last, " to %" PRIu64, d->last);
    if (d->samples > 1 && d->samples < d->last - d->first + 1)
      snprintf(others, sizeof others, ", %" PRIu64 " of them", d->samples);
    return SHOAL_FAIL(SHOAL_ERR_IO,
                      "%s: sample%s %" PRIu64 "%s of /%s%s %s damaged: check sums differ from those that were written; "
                      "make the file anew",
                      path, d->samples > 1 ? "s" : "", d->first, last, f->stored.x[s], others,
                      d->samples > 1 ? "are" : "is");
  }
  if (f->info->kind != SHOAL_DATA_TEXT) SHOAL_TRY(shoal_dataset_check_label_sums(f->d));
  SHOAL_CHECK(checksum_ok(f), SHOAL_ERR_IO,
              "%s: the data has checksum %08" PRIx32 ", the file says %08" PRIx32
              "; it was damaged or changed, make it again",
              path, f->checksum, f->stored.checksum);
  return SHOAL_OK;
}

static shoal_status verdict(const facts *f)
{
  const char *path = shoal_dataset_path(f->d);
  SHOAL_TRY(shoal_labels_check(f->labels, path, f->stored.y));
  if (f->not_finite) {
    char *command = shoal_dataset_fill_command(f->d);
    shoal_status st = SHOAL_FAIL(
        SHOAL_ERR_IO,
        "%s: %" PRIu64
        " value%s (NaN, infinite, or beyond 3.4e38), the first is %s: remove the samples, or fill them%s%s",
        path, f->not_finite,
        f->not_finite > 1 ? "s are not finite as 32-bit floats" : " is not finite as a 32-bit float", f->first_bad,
        command ? " by the mean of the others, of the same feature: " : "", command ? command : "");
    free(command);
    return st;
  }
  return name_damage(f);
}

/* Accuracy is measured on what was not learnt from.  Of a table with few distinct rows some are in both splits by chance. */
static void warn_of_shared(const facts *f)
{
  enum { FEW = 5 };
  const uint64_t tests = f->info->n[SHOAL_TEST], many = f->info->kind == SHOAL_DATA_IMAGES ? 100 : 10;
  const bool chance = f->info->kind == SHOAL_DATA_FEATURES && f->shared < SHOAL_MIN((uint64_t)FEW, tests);
  if (f->shared == 0 || f->shared * many < tests || chance) return;
  shoal_warn("%s: %" PRIu64 " of %" PRIu64 " samples of /%s are in /%s, too, the first is sample %" PRIu64
             ": accuracy on what was learnt from says little; remove them from one of the splits",
             shoal_dataset_path(f->d), f->shared, f->info->n[SHOAL_TEST], f->stored.x[1], f->stored.x[0],
             f->first_shared);
}

/* A model that sees no difference can learn none. */
static void warn_of_unlike(const facts *f)
{
  if (f->unlike.samples)
    shoal_warn("%s: %" PRIu64 " of %" PRIu64
               " samples of /%s are equal to another one that has another label, the first are "
               "sample %" PRIu64 " (label %" PRId32 ") and sample %" PRIu64 " (label %" PRId32
               "): no model can tell them apart; "
               "correct the labels, or add what tells them",
               shoal_dataset_path(f->d), f->unlike.samples, f->info->n[SHOAL_TRAIN], f->stored.x[SHOAL_TRAIN],
               f->unlike.first, f->unlike.labels[0], f->unlike.other, f->unlike.labels[1]);
}

static void warn_of_scales(const facts *f)
{
  char more[48];
  if (f->scales[0])
    shoal_warn("%s: /%s has %s: are both scaled alike%s?", shoal_dataset_path(f->d), f->stored.x[SHOAL_TEST], f->scales,
               f->where[0] ? ", in the same units" : "");
  if (f->frozen) {
    const char *part = f->info->kind == SHOAL_DATA_IMAGES ? "channel" : "feature";
    snprintf(more, sizeof more, ", and so for %zu more", f->frozen - 1);
    shoal_warn(
        "%s: %s %zu is %.6g in all of /%s and not in /%s%s: its weights are never trained, but count there; leave it "
        "out",
        shoal_dataset_path(f->d), part, f->first_frozen, f->mean[f->first_frozen], f->stored.x[SHOAL_TRAIN],
        f->stored.x[SHOAL_TEST], f->frozen > 1 ? more : "");
  }
}

/* One file; `j` is NULL for a table. */
static shoal_status inspect_file(shoal_dataset *d, bool alone, shoal_json *j, FILE *out)
{
  facts f = { .d = d, .info = shoal_dataset_info(d), .stored = shoal_dataset_stored(d) };
  shoal_status st = gather(&f);
  if (st == SHOAL_OK) {
    if (j)
      put_file(j, &f);
    else
      print_table(&f, out);
    st = verdict(&f);
  }
  if (st == SHOAL_OK && alone) shoal_dataset_warn_of_targets(d);
  if (st == SHOAL_OK && alone && !f.info->targets) shoal_labels_warn(f.labels, shoal_dataset_path(d));
  if (st == SHOAL_OK) warn_of_unlike(&f);
  if (st == SHOAL_OK) warn_of_shared(&f);
  if (st == SHOAL_OK) warn_of_scales(&f);
  shoal_texts_free(&f.names);
  free(f.mean);
  return st;
}

/* All files together; what is odd about the labels counts here, for one of several files may lack a class. */
static shoal_status inspect_whole(shoal_dataset *d, shoal_json *j, FILE *out)
{
  const double *mean, *std;
  facts f = { .d = d, .info = shoal_dataset_info(d), .stored = shoal_dataset_stored(d) };
  SHOAL_TRY(shoal_dataset_labels(d, &f.labels));
  shoal_dataset_scale(d, &f.groups, &mean, &std);
  SHOAL_TRY(SHOAL_ALLOC(2 * f.groups, &f.mean));
  shoal_status st = shoal_texts_add_lines(&f.names, shoal_dataset_feature_names(d));
  f.std = f.mean + f.groups;
  memcpy(f.mean, mean, f.groups * sizeof *mean);
  memcpy(f.std, std, f.groups * sizeof *std);
  if (j)
    put_whole(j, &f);
  else
    print_whole(&f, shoal_dataset_files(d), out);
  shoal_dataset_warn_of_targets(d);
  if (!f.info->targets) shoal_labels_warn(f.labels, shoal_dataset_path(d));
  shoal_texts_free(&f.names);
  free(f.mean);
  return st;
}

static shoal_status inspect_all(shoal_dataset *d, shoal_json *j, FILE *out)
{
  const size_t files = shoal_dataset_files(d);
  shoal_error all = { 0 };
  if (files == 1) return inspect_file(shoal_dataset_file(d, 0), true, j, out);
  if (j) {
    shoal_json_object(j, NULL);
    shoal_json_array(j, "files");
  }
  for (size_t i = 0; i < files; i++) shoal_error_join(&all, inspect_file(shoal_dataset_file(d, i), false, j, out));
  if (j) shoal_json_end(j);
  shoal_error_join(&all, inspect_whole(d, j, out));
  if (j) shoal_json_end(j);
  return shoal_error_put(&all);
}

shoal_status shoal_data_inspect(const char *const *paths, size_t n, bool json, FILE *out)
{
  shoal_dataset *d;
  shoal_json j = { .lines = n > 1 ? 2 : 1, .out = out };
  SHOAL_TRY(shoal_dataset_open_all(paths, n, &d));
  shoal_status st = inspect_all(d, json ? &j : NULL, out);
  if (json) shoal_json_finish(&j);
  shoal_dataset_close(d);
  return st;
}
