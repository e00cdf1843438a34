/* NumPy arrays: samples and labels, found by the words in their names as in HDF5 files (X_train, y_train, images,
 * labels, ...), or, if there are just two, by their dimensions.  Bytes stay bytes, all else becomes f32. */
#include "base/error.h"
#include "base/file.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/fold.h"
#include "data/labels.h"
#include "data/narrow.h"
#include "data/npy.h"
#include "data/python.h"
#include "data/series.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const shoal_import_args *args;
  shoal_npys arrays;
  bool loose;            /* names have words beside those that tell a role */
  bool *left_out;        /* [arrays.n] for validation beside others for testing */
  const shoal_npy *x[2]; /* per split; NULL if there are none */
  shoal_npy *y[2];       /* the same */
  shoal_data_spec spec;
  uint64_t stride[3]; /* of channel, row, column; features: of a feature in stride[2] */
  int32_t *labels[2];
  double *targets[2]; /* [n, spec.targets] in place of labels */
  int64_t classes;
  shoal_narrow narrow;
} import;

/* ---- which array is what ---- */

static shoal_status put(const shoal_npy *slot, const shoal_npy *a, const char *what)
{
  SHOAL_CHECK(!slot, SHOAL_ERR_IO,
              "both %s and %s could be the %s: give only one of them; arrays of a class each are to be joined, with an "
              "array of "
              "labels beside",
              slot->name, a->name, what);
  return SHOAL_OK;
}

/* By all of a member's name ("train/x"), else by what is behind its folders ("mine/X_train").  Where no array has a role by all words of its
 * name, other words do not matter ("mnist_X_train"). */
static shoal_data_role role_by_name(const import *p, const shoal_npy *a)
{
  const shoal_data_role role = shoal_data_role_of(a->name, p->loose);
  return role == SHOAL_ROLE_NONE ? shoal_data_role_of(shoal_path_base(a->name), p->loose) : role;
}

/* --target gives one to an array whose name does not ("age"). */
static shoal_data_role role_of(const import *p, const shoal_npy *a)
{
  const shoal_data_role role = role_by_name(p, a);
  for (size_t k = 0; k < p->args->n_target && role == SHOAL_ROLE_NONE; k++)
    if (strcmp(p->args->target[k], a->name) == 0) return SHOAL_ROLE_Y;
  return role;
}

/* ---- commands that make other files of arrays ---- */

/* "2-NAME" beside a file, with another ending if one is given.  Caller frees. */
static char *second_name(const char *path, const char *ending)
{
  const char *base = shoal_path_base(path), *dot = ending ? strrchr(base, '.') : NULL;
  const size_t kept = dot ? (size_t)(dot - base) : strlen(base);
  return shoal_strdup_printf("%.*s2-%.*s%s", (int)(base - path), path, (int)kept, base, ending ? ending : "");
}

/* "python3 -c "import numpy; BODY" does, and give NAME instead"; of a body FROM and TO are the files.  Caller frees. */
static char *rewrite_command(const char *body, const char *from, const char *to)
{
  static const char *const packages[] = { "numpy", NULL };
  char one[SHOAL_WORD], other[SHOAL_WORD];
  shoal_python python;
  shoal_find_python(packages, &python);
  return shoal_strdup_printf("%s -c \"import numpy; FROM, TO = %s, %s; %s\" does, and give %s instead%s%s", python.run,
                             shoal_python_text(from, one), shoal_python_text(to, other), body, to,
                             python.needs[0] ? "; it " : "", python.needs);
}

/* What fills values that are not finite by the mean of the others of the same feature, or of all where samples are no features; of an
 * archive in all arrays of such samples.  Caller frees. */
static char *fill_command(const shoal_npy *x)
{
  static const char mean[] =
      "m = numpy.nanmean(numpy.where(numpy.isfinite(v), v, numpy.nan), 0 if v.ndim == 2 else None)";
  char name[SHOAL_WORD], *body, *to = second_name(x->path, x->archive ? NULL : ".npy");
  if (x->archive)
    body =
        shoal_strdup_printf("a = dict(numpy.load(FROM)); v = a[%s]; %s; numpy.savez(TO, **{k: numpy.where("
                            "numpy.isfinite(w), w, m).astype(w.dtype) if w.shape[1:] == v.shape[1:] and w.dtype.kind "
                            "== 'f' and w.ndim > 1 else w for k, w in a.items()})",
                            shoal_python_text(x->name, name), mean);
  else
    body = shoal_strdup_printf(
        "v = numpy.load(FROM); %s; numpy.save(TO, numpy.where(numpy.isfinite(v), v, m).astype(v.dtype))", mean);
  char *command = rewrite_command(body, x->path, to);
  free(body);
  free(to);
  return command;
}

/* What makes other arrays of n, which are together in one archive or each in a file of its own: in y, by their names, after the
 * statements `first`, k becomes `value` of v.  Caller frees; NULL: they are in several archives. */
static char *map_command(const shoal_npy *const *a, size_t n, const char *first, const char *value)
{
  static const char *const packages[] = { "numpy", NULL };
  char one[SHOAL_WORD], *command = NULL, *to = second_name(a[0]->path, NULL);
  const char *load = a[0]->kind == 'O' ? ", allow_pickle=True" : "";
  shoal_str names = { 0 };
  bool together = true, apart = true;
  for (size_t i = 0; i < n; i++) {
    together &= a[i]->archive && a[i]->path == a[0]->path;
    apart &= !a[i]->archive;
    shoal_str_add(&names, "%s%s", i ? ", " : "", shoal_python_text(a[i]->archive ? a[i]->name : a[i]->path, one));
  }
  if (together) {
    char *body = shoal_strdup_printf("a = dict(numpy.load(FROM%s)); y = {k: a[k] for k in [%s]}; %snumpy.savez(TO, "
                                     "**{**a, **{k: %s for k, v in y.items()}})",
                                     load, names.text, first, value);
    command = rewrite_command(body, a[0]->path, to);
    free(body);
  } else if (apart) {
    shoal_python python;
    shoal_find_python(packages, &python);
    command =
        shoal_strdup_printf("%s -c \"import numpy, os; y = {k: numpy.load(k%s) for k in [%s]}; "
                            "%s[numpy.save(os.path.join(os.path.dirname(k), "
                            "'2-' + os.path.basename(k)), %s) for k, v in y.items()]\" does, and give %s instead%s%s%s",
                            python.run, load, names.text, first, value, n > 1 ? "2-NAME" : to, n > 1 ? " of each" : "",
                            python.needs[0] ? "; it " : "", python.needs);
  }
  shoal_str_free(&names);
  free(to);
  return command;
}

/* What makes class numbers, the same in all of them, of n arrays of labels.  Caller frees; NULL: they are in several archives. */
static char *renumber_command(const shoal_npy *const *y, size_t n)
{
  return map_command(y, n,
                     "u = numpy.unique(numpy.concatenate([v.ravel() for v in y.values()])); "
                     "print(dict(enumerate(u.tolist()))); ",
                     "numpy.searchsorted(u, v)");
}

enum { MAPPED = 8 }; /* arrays of one command */

/* Those that are refused for the same reason as `first`, and can be rewritten together with it. */
static size_t list_like(const import *p, const shoal_npy *first, bool named, const shoal_npy *out[MAPPED])
{
  size_t n = 0;
  for (size_t i = 0; i < p->arrays.n && n < MAPPED; i++) {
    const shoal_npy *a = &p->arrays.all[i];
    const bool used = !p->left_out[i] && (!named || role_of(p, a) != SHOAL_ROLE_NONE);
    const bool deep = first->ndim > 4, beside = a->archive ? a->path == first->path : !first->archive;
    if (a == first ||
        (a->refused && used && beside && (deep ? a->ndim > 4 : a->kind == first->kind && a->size == first->size)))
      out[n++] = a;
  }
  return n;
}

/* Numbers of arrays of objects: rows of samples that are shorter than others get zeros at their ends. */
static char *object_command(const import *p, const shoal_npy *const *a, size_t n)
{
  char one[SHOAL_WORD];
  shoal_str samples = { 0 };
  for (size_t i = 0; i < n; i++)
    if (role_of(p, a[i]) == SHOAL_ROLE_X)
      shoal_str_add(&samples, "%s%s", samples.len ? ", " : "",
                    shoal_python_text(a[i]->archive ? a[i]->name : a[i]->path, one));
  char *first =
      samples.len
          ? shoal_strdup_printf("X = [%s]; M = numpy.max([numpy.shape(r) for k in X for r in y[k]], 0); ", samples.text)
          : shoal_strdup_printf("%s", "");
  char *command =
      map_command(a, n, first,
                  samples.len ? "numpy.array([numpy.pad(r, [(0, m - s) for s, m in zip(numpy.shape(r), M)]) "
                                "if len(M) else r for r in v.tolist()]) if k in X else numpy.array(v.tolist())"
                              : "numpy.array(v.tolist())");
  free(first);
  shoal_str_free(&samples);
  return command;
}

/* Class numbers of the labels that are text, in all arrays of labels. */
static char *name_command(const import *p)
{
  const shoal_npy *texts[8];
  size_t n = 0;
  for (size_t i = 0; i < p->arrays.n && n < SHOAL_COUNT(texts); i++) {
    const shoal_npy *a = &p->arrays.all[i];
    if (a->refused && (a->kind == 'U' || a->kind == 'S') && !p->left_out[i] && role_of(p, a) != SHOAL_ROLE_X)
      texts[n++] = a;
  }
  return n ? renumber_command(texts, n) : NULL;
}

/* The command that makes an array of it that can be used, or NULL; `what` tells what it does. */
static char *mend_command(const import *p, const shoal_npy *a, shoal_data_role role, bool named, shoal_str *what)
{
  static const char dictionary[] = "a = numpy.load(FROM, allow_pickle=True).item(); numpy.savez(TO, **{k: "
                                   "numpy.array(numpy.asarray(v).tolist()) for "
                                   "k, v in a.items()})";
  static const char records[] =
      "import numpy.lib.recfunctions as r; a = numpy.load(FROM); a = a if hasattr(a, 'files') else {'%s': a}; "
      "numpy.savez(TO, **{k: r.structured_to_unstructured(a[k]) if a[k].dtype.names else a[k] for k in a})";
  const shoal_npy *like[MAPPED];
  const size_t n = list_like(p, a, named, like);
  const bool record = a->kind == 'V' && strstr(a->refused, "structured");
  shoal_fold fold;
  if (record || (a->kind == 'O' && !a->archive && role == SHOAL_ROLE_NONE)) {
    char *to = second_name(a->path, a->archive ? NULL : ".npz");
    char *body = record ? shoal_strdup_printf(records, a->name) : shoal_strdup_printf("%s", dictionary);
    shoal_str_add(what, "%s",
                  record ? "write plain numbers, if all fields are numbers and none is the label"
                         : "if you trust who made it and it is a dictionary of arrays, write these");
    char *command = shoal_is_plain(a->name) ? rewrite_command(body, a->path, to) : NULL;
    free(body);
    free(to);
    return command;
  }
  if (a->kind == 'O') {
    shoal_str_add(what,
                  "if you trust who made it, write numbers (rows of samples that are shorter than others get zeros at "
                  "their ends)");
    return object_command(p, like, n);
  }
  if (a->kind == 'U' || a->kind == 'S') {
    shoal_str_add(what, "write class numbers");
    return role == SHOAL_ROLE_X ? NULL : name_command(p);
  }
  if (a->kind == 'V' && a->size == 2) {
    shoal_str_add(what, "if it is bfloat16, write numbers");
    return map_command(like, n, "", "(v.view('u2').astype('u4') << 16).view('f4')");
  }
  if (a->kind == 'c') {
    shoal_str_add(what, "or put both parts beside each other");
    return map_command(like, n, "", "(numpy.concatenate if v.ndim in (2, 4) else numpy.stack)([v.real, v.imag], 1)");
  }
  if (a->kind == 'f' && a->size > 8) {
    shoal_str_add(what, "write narrower numbers");
    return map_command(like, n, "", "v.astype('f8')");
  }
  if (a->ndim <= 4 || !shoal_data_fold(a->ndim, a->dims, &fold)) return NULL;
  shoal_str_add(what, "make %s", fold.what);
  return map_command(like, n, "", fold.expression);
}

/* An array that cannot be used. */
static shoal_status refuse_array(const import *p, const shoal_npy *a, shoal_data_role role, bool named)
{
  shoal_str what = { 0 };
  char *command = mend_command(p, a, role, named, &what);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "%s", a->refused);
  if (command) st = shoal_error_append(st, ": %s, as %s", what.text, command);
  shoal_str_free(&what);
  free(command);
  return st;
}

/* ---- roles ---- */

/* Gives the arrays their roles.  Those without rows have none: they are listed in `empty`.  *untrained: one of them would have been
 * for training. */
static shoal_status assign(import *p, const bool *test, shoal_str *empty, bool *untrained)
{
  const shoal_npys *l = &p->arrays;
  bool named = false;
  for (int loose = 0; loose < 2 && !named; loose++) {
    p->loose = loose == 1;
    for (size_t i = 0; i < l->n; i++) named |= role_of(p, &l->all[i]) != SHOAL_ROLE_NONE;
  }
  for (size_t i = 0; i < l->n; i++) {
    shoal_npy *a = &l->all[i];
    if (p->left_out[i]) continue;
    shoal_data_role role = role_of(p, a);
    if (a->refused && (!named || role != SHOAL_ROLE_NONE)) return refuse_array(p, a, role, named);
    if (role == SHOAL_ROLE_NONE) continue;
    if (a->empty) {
      shoal_str_add(empty, "%s%s", empty->len ? ", " : "", a->name);
      *untrained |= !test[i];
    } else if (role == SHOAL_ROLE_X) {
      SHOAL_TRY(put(p->x[test[i]], a, test[i] ? "test samples" : "training samples"));
      p->x[test[i]] = a;
    } else {
      SHOAL_TRY(put(p->y[test[i]], a, test[i] ? "test labels" : "training labels"));
      p->y[test[i]] = a;
    }
  }
  return SHOAL_OK;
}

/* What names do not tell, shapes may; whatever is left is not used. */
static shoal_status complete(import *p, const bool *test)
{
  const shoal_npys *l = &p->arrays;
  bool *free_ones;
  SHOAL_TRY(SHOAL_ALLOC(l->n, &free_ones));
  for (int s = 0; s < 2; s++) {
    for (size_t i = 0; i < l->n; i++) {
      const shoal_npy *a = &l->all[i];
      free_ones[i] =
          !p->left_out[i] && !a->refused && !a->empty && test[i] == (s == 1) && role_of(p, a) == SHOAL_ROLE_NONE;
    }
    if (!p->x[s] || !p->y[s]) shoal_npy_pair(l, free_ones, &p->x[s], &p->y[s]);
  }
  for (size_t i = 0; i < l->n; i++) {
    const shoal_npy *a = &l->all[i];
    const bool used = a == p->x[0] || a == p->x[1] || a == p->y[0] || a == p->y[1];
    if (!used && !p->left_out[i] && role_of(p, a) == SHOAL_ROLE_NONE)
      shoal_info("%s: array %s is not used", a->path, a->name);
  }
  free(free_ones);
  return SHOAL_OK;
}

/* Whether the arrays may have the samples of a class each: several, of one shape, and no labels. */
static bool are_classes(const import *p)
{
  const shoal_npys *l = &p->arrays;
  bool alike = l->n > 1;
  for (size_t i = 0; i < l->n && alike; i++) {
    const shoal_npy *a = &l->all[i], *first = &l->all[0];
    alike = !a->refused && !a->empty && !p->left_out[i] && a->ndim > 1 && a->ndim == first->ndim &&
            a->kind == first->kind && a->archive == first->archive;
    for (int k = 1; k < a->ndim && alike; k++) alike = a->dims[k] == first->dims[k];
  }
  return alike;
}

static shoal_status refuse_classes(const import *p)
{
  const shoal_npys *l = &p->arrays;
  const shoal_npy *first = &l->all[0];
  char one[SHOAL_WORD], *to = second_name(first->path, first->archive ? NULL : ".npz");
  shoal_str names = { 0 };
  for (size_t i = 0; i < l->n; i++)
    shoal_str_add(&names, "%s%s", i ? ", " : "",
                  shoal_python_text(first->archive ? l->all[i].name : l->all[i].path, one));
  char *body = shoal_strdup_printf("n = [%s]; %sv = [%s for k in n]; numpy.savez(TO, X=numpy.concatenate(v), "
                                   "y=numpy.repeat(range(len(n)), [len(a) for a in v])); print(dict(enumerate(n)))",
                                   names.text, first->archive ? "a = numpy.load(FROM); " : "",
                                   first->archive ? "a[k]" : "numpy.load(k)");
  char *command = rewrite_command(body, first->path, to);
  shoal_status st =
      SHOAL_FAIL(SHOAL_ERR_IO,
                 "%s: %zu arrays of samples alike, the first two are %s and %s, and no labels: arrays of a "
                 "class each are to be joined, with an array of labels, as %s",
                 first->path, l->n, first->name, l->all[1].name, command);
  shoal_str_free(&names);
  free(body);
  free(to);
  free(command);
  return st;
}

static shoal_status match(import *p, const bool *test)
{
  const char *file = p->args->sources[0];
  shoal_str empty = { 0 };
  bool untrained = false;
  shoal_status st = assign(p, test, &empty, &untrained);
  if (st == SHOAL_OK) st = complete(p, test);
  if (st == SHOAL_OK && untrained)
    st = SHOAL_FAIL(SHOAL_ERR_IO, "%s: no rows in %s: give arrays that have some to train with", file, empty.text);
  if (st == SHOAL_OK && empty.len) shoal_warn("%s: no rows in %s: left out", file, empty.text);
  shoal_str_free(&empty);
  SHOAL_TRY(st);
  if (!p->x[0] && !p->y[0] && are_classes(p)) return refuse_classes(p);
  SHOAL_CHECK(
      p->x[0] && p->y[0], SHOAL_ERR_IO,
      "%s: no training %s, for there %s %zu array%s: samples and labels are two, with names such as X_train and "
      "y_train, or images and labels",
      file, p->x[0] ? "labels" : "samples", p->arrays.n == 1 ? "is" : "are", p->arrays.n, p->arrays.n == 1 ? "" : "s");
  for (int s = 0; s < 2; s++) {
    SHOAL_CHECK(!p->x[s] == !p->y[s], SHOAL_ERR_IO, "%s: the test split has %s only: give both, or leave them out",
                file, p->x[s] ? "samples" : "labels");
    if (p->x[s])
      shoal_info("%s/x is %s, %s/y is %s", shoal_split_name((shoal_split)s), p->x[s]->name,
                 shoal_split_name((shoal_split)s), p->y[s]->name);
  }
  return SHOAL_OK;
}

/* Labels in one row, [1, n], as MATLAB has them, are a list. */
static void straighten(shoal_npy *y, const shoal_npy *x)
{
  if (y->ndim != 2 || y->dims[0] != 1 || y->dims[1] < 2 || x->dims[0] == 1) return;
  y->ndim = 1;
  y->dims[0] = y->dims[1];
  y->dims[1] = y->strides[1] = 0;
  y->strides[0] = 1;
  y->scattered = false;
}

static bool is_turned(const shoal_npy *x, const shoal_npy *y)
{
  return x && y->dims[0] != x->dims[0] && x->ndim > 1 && y->dims[0] == x->dims[x->ndim - 1];
}

/* Samples that are the last dimension: columns of a matrix, as MATLAB has them. */
static shoal_status check_turned(const import *p)
{
  const shoal_npy *turned[2], *labels = NULL;
  size_t n = 0;
  for (int s = 0; s < 2; s++)
    if (is_turned(p->x[s], p->y[s]) &&
        (n == 0 || (p->x[s]->archive ? p->x[s]->path == turned[0]->path : !turned[0]->archive))) {
      if (n == 0) labels = p->y[s];
      turned[n++] = p->x[s];
    }
  if (n == 0) return SHOAL_OK;
  char *command = map_command(turned, n, "", "numpy.moveaxis(v, -1, 0)");
  const shoal_npy *x = turned[0];
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO,
                               "%s: %s has %" PRIu64 " rows, %s has %" PRIu64
                               " labels, as many as the last dimension of %s: rows must be "
                               "samples; turn it, as %s",
                               x->path, x->name, x->dims[0], labels->name, labels->dims[0], x->name, command);
  free(command);
  return st;
}

static bool few(uint64_t channels)
{
  return channels == 1 || channels == 3 || channels == 4;
}

/* Of a sample that is n numbers, `step` elements apart: features, or by --shape an image. */
static shoal_status find_shape_of_row(import *p, uint64_t n, uint64_t step)
{
  const shoal_shape *s = &p->spec.sample;
  SHOAL_TRY(shoal_import_sample_shape(p->args, (size_t)n, &p->spec.sample));
  const bool image = s->ndim == 3;
  p->spec.kind = image ? SHOAL_DATA_IMAGES : SHOAL_DATA_FEATURES;
  p->stride[2] = step;
  p->stride[1] = image ? step * (uint64_t)s->dim[2] : 0;
  p->stride[0] = image ? p->stride[1] * (uint64_t)s->dim[1] : 0;
  return SHOAL_OK;
}

/* The first samples of two dimensions, as floats in the order of the array. */
static shoal_status look_for_series(const shoal_npy *x, shoal_series *out)
{
  const size_t a = (size_t)x->dims[1], b = (size_t)x->dims[2];
  const size_t n = shoal_series_samples(x->dims[0], x->dims[1] * x->dims[2]);
  float *samples, *at;
  const uint8_t *row;
  shoal_npy_reader *r;
  SHOAL_TRY(shoal_alloc(n, a * b * sizeof *samples, "samples", (void **)&samples));
  shoal_status st = shoal_npy_open(x, &r);
  if (st != SHOAL_OK) {
    free(samples);
    return st;
  }
  at = samples;
  for (size_t i = 0; st == SHOAL_OK && i < n; i++) {
    st = shoal_npy_next(r, &row);
    for (uint64_t h = 0; st == SHOAL_OK && h < a; h++)
      for (uint64_t w = 0; w < b; w++) *at++ = (float)shoal_npy_real(x, row, h * x->strides[1] + w * x->strides[2]);
  }
  shoal_npy_close(r);
  if (st == SHOAL_OK) st = shoal_find_series(samples, n, a, b, out);
  free(samples);
  return st;
}

/* Each of the numbers of a series is a channel, of one column; many are features, if each
 * can have a mean of its own, and they lie one behind the other. */
static shoal_status take_series(import *p, const shoal_series *s)
{
  const shoal_npy *x = p->x[0];
  const uint64_t *d = x->dims, *t = x->strides;
  const int c = s->axis, step = 3 - c;
  if (d[c] > SHOAL_DATA_CHANNELS && (t[2] != 1 || t[1] != d[2] || d[1] * d[2] > SHOAL_DATA_SCALES)) return SHOAL_OK;
  shoal_tell_series(s, x->name, (size_t)d[step], (size_t)d[c]);
  if (d[c] > SHOAL_DATA_CHANNELS) return find_shape_of_row(p, d[1] * d[2], 1);
  p->spec.sample = SHOAL_SHAPE((int64_t)d[c], (int64_t)d[step], 1);
  p->stride[0] = t[c];
  p->stride[1] = t[step];
  return SHOAL_OK;
}

static shoal_status refuse_planes(const import *p)
{
  const shoal_npy *x = p->x[0], *tests = p->x[1];
  const bool beside = tests && tests->ndim == x->ndim && (tests->archive ? tests->path == x->path : !x->archive);
  shoal_fold fold = { 0 };
  shoal_data_fold(x->ndim, x->dims, &fold);
  char *command = map_command((const shoal_npy *const *)p->x, beside ? 2 : 1, "", fold.expression);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO,
                               "%s: %s has %" PRId64 " channels, at most %d are supported: images are [n, channels, "
                               "height, width] or have the channels last; make %s, as %s",
                               x->path, x->name, p->spec.sample.dim[0], SHOAL_DATA_CHANNELS, fold.what, command);
  free(command);
  return st;
}

/* Shape and strides of a sample; images may have their channels last. */
static shoal_status find_shape(import *p)
{
  const shoal_npy *x = p->x[0];
  const uint64_t *d = x->dims, *t = x->strides;
  for (int i = 1; i < x->ndim; i++)
    SHOAL_CHECK(d[i] <= INT32_MAX, SHOAL_ERR_IO,
                "%s: dimension %d of %s is %" PRIu64 ", at most %d is read: cut the samples into smaller ones", x->path,
                i, x->name, d[i], INT32_MAX);
  p->spec.x_bytes = x->size == 1 && x->kind != 'i' ? 1 : 4;
  if (x->ndim < 3) return find_shape_of_row(p, x->ndim == 1 ? 1 : d[1], x->ndim == 1 ? 1 : t[1]);
  p->spec.kind = SHOAL_DATA_IMAGES;
  SHOAL_CHECK(!p->args->shape, SHOAL_ERR_USAGE,
              "--shape is for samples that are numbers in a row, and those of %s have %d dimensions: leave it out",
              x->name, x->ndim - 1);
  bool last = x->ndim == 4 && few(d[3]) && !few(d[1]);
  int c = x->ndim == 3 ? 0 : last ? 3 : 1, h = x->ndim == 3 || last ? 1 : 2;
  p->spec.sample = SHOAL_SHAPE(x->ndim == 3 ? 1 : (int64_t)d[c], (int64_t)d[h], (int64_t)d[h + 1]);
  p->stride[0] = t[c];
  p->stride[1] = t[h];
  p->stride[2] = t[h + 1];
  if (p->spec.sample.dim[0] > SHOAL_DATA_CHANNELS) return refuse_planes(p);
  shoal_series series = { 0 };
  if (x->ndim == 3 && p->spec.x_bytes > 1) SHOAL_TRY(look_for_series(x, &series));
  if (series.axis) SHOAL_TRY(take_series(p, &series));
  if (last) shoal_info("%s: images have their channels last; they are turned to [channels, height, width]", x->name);
  return SHOAL_OK;
}

/* Whether the labels are numbers that are to be predicted: by --target, which names one of their arrays. */
static shoal_status find_targets(import *p)
{
  const shoal_import_args *a = p->args;
  for (size_t k = 0; k < a->n_target; k++) {
    bool found = false;
    for (int s = 0; s < 2; s++) found |= p->y[s] && strcmp(p->y[s]->name, a->target[k]) == 0;
    SHOAL_CHECK(found, SHOAL_ERR_ARG, "--target %s is no array of labels: that is %s%s%s", a->target[k], p->y[0]->name,
                p->y[1] ? ", and of the test split " : "", p->y[1] ? p->y[1]->name : "");
  }
  for (int s = 0; s < 2 && a->n_target; s++) {
    const shoal_npy *y = p->y[s];
    if (!y) continue;
    const uint64_t n = y->ndim == 2 ? y->dims[1] : 1;
    SHOAL_CHECK(y->ndim < 3 && n >= 1 && n <= SHOAL_DATA_SCALES, SHOAL_ERR_IO,
                "%s: targets %s have %d dimensions and %" PRIu64
                " numbers per sample; they have one or two, and 1 to %d: save "
                "y.reshape(len(y), -1)",
                y->path, y->name, y->ndim, n, SHOAL_DATA_SCALES);
    SHOAL_CHECK(s == 0 || n == p->spec.targets, SHOAL_ERR_IO,
                "%s: targets %s have %" PRIu64 " numbers per sample, %s has %zu", y->path, y->name, n, p->y[0]->name,
                p->spec.targets);
    p->spec.targets = (size_t)n;
    if (n == 1 && s == 0 && role_by_name(p, y) == SHOAL_ROLE_NONE) p->spec.target_names = y->name;
  }
  return SHOAL_OK;
}

static bool has_rows(const shoal_npy *y)
{
  return y->ndim == 2 && y->dims[1] > 1;
}

/* Labels with a row per sample: one-hot ones are read; others have no class to be found. */
static shoal_status check_rows(const shoal_npy *y)
{
  const uint8_t *row;
  double *values = NULL;
  const char *why = NULL;
  uint64_t i = 0;
  shoal_npy_reader *r = NULL;
  shoal_status st;
  SHOAL_TRY(shoal_npy_check(y));
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(y->dims[1], &values), done);
  SHOAL_TRY_GOTO(st, shoal_npy_open(y, &r), done);
  for (; i < y->dims[0] && !why; i++) {
    SHOAL_TRY_GOTO(st, shoal_npy_next(r, &row), done);
    for (uint64_t k = 0; k < y->dims[1]; k++) values[k] = shoal_npy_real(y, row, k * y->strides[1]);
    why = shoal_labels_row(y->dims[1], values);
  }
  if (why)
    st = SHOAL_FAIL(SHOAL_ERR_IO, "%s: row %" PRIu64 " of labels %s %s", y->path, i - 1, y->name, why);
  else
    shoal_info("%s: labels %s [%" PRIu64 ", %" PRIu64 "] are one-hot: the class is the place of the 1", y->path,
               y->name, y->dims[0], y->dims[1]);
done:
  shoal_npy_close(r);
  free(values);
  return st;
}

/* "X_train has samples [3, 8, 8] of u1" */
static void add_form(const shoal_npy *a, shoal_str *s)
{
  shoal_str_add(s, "%s has samples [", a->name);
  for (int i = 1; i < a->ndim; i++) shoal_str_add(s, "%s%" PRIu64, i > 1 ? ", " : "", a->dims[i]);
  shoal_str_add(s, "] of %c%zu", a->kind, (size_t)a->size);
}

static shoal_status refuse_unlike(const shoal_npy *first, const shoal_npy *x)
{
  shoal_str both = { 0 };
  add_form(first, &both);
  shoal_str_add(&both, ", ");
  add_form(x, &both);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "%s: %s: save both splits alike", x->path, both.text);
  shoal_str_free(&both);
  return st;
}

static shoal_status check_split(const import *p, int s)
{
  const shoal_npy *x = p->x[s], *y = p->y[s], *first = p->x[0];
  const bool one_hot = has_rows(y) && !p->spec.targets;
  SHOAL_CHECK(!one_hot || !p->y[0] || !has_rows(p->y[0]) || y->dims[1] == p->y[0]->dims[1], SHOAL_ERR_IO,
              "%s: labels %s have %" PRIu64 " numbers per sample, %s of %s has %" PRIu64
              ": one-hot labels need as many as there are classes",
              y->path, y->name, y->dims[1], p->y[0]->name, p->y[0]->path, p->y[0]->dims[1]);
  if (one_hot) SHOAL_TRY(check_rows(y));
  SHOAL_CHECK(
      y->ndim < 3, SHOAL_ERR_IO,
      "%s: labels %s have %d dimensions, one number per sample is expected: save y.reshape(len(y)), or of one-hot rows "
      "y.argmax(-1)",
      y->path, y->name, y->ndim);
  SHOAL_CHECK(y->dims[0] == x->dims[0], SHOAL_ERR_IO,
              "%s: %s has %" PRIu64 " samples, %s has %" PRIu64 " labels: each sample needs one, in the same order",
              x->path, x->name, x->dims[0], y->name, y->dims[0]);
  bool same = x->ndim == first->ndim && x->kind == first->kind && x->size == first->size;
  for (int i = 1; i < x->ndim && same; i++) same = x->dims[i] == first->dims[i];
  if (!same) return refuse_unlike(first, x);
  SHOAL_TRY(shoal_npy_check(x));
  return shoal_npy_check(y);
}

/* ---- labels ---- */

static shoal_status label_of(const shoal_npy *y, const uint8_t *row, uint64_t i, int64_t *out)
{
  *out = 0;
  if (has_rows(y)) {
    for (uint64_t k = 0; k < y->dims[1]; k++)
      if (shoal_npy_real(y, row, k * y->strides[1]) == 1) *out = (int64_t)k;
    return SHOAL_OK;
  }
  if (y->kind != 'f') {
    *out = shoal_npy_whole(y, row, 0);
    return SHOAL_OK;
  }
  double v = shoal_npy_real(y, row, 0);
  SHOAL_CHECK(v == floor(v) && fabs(v) < 0x1p62, SHOAL_ERR_IO,
              "%s: label %" PRIu64 " of %s is %.9g; classes are whole numbers from 0: %s%s", y->path, i, y->name, v,
              isnan(v) ? "remove samples without a label"
                       : "if they are numbers that are to be predicted (regression), give --target ",
              isnan(v) ? "" : y->name);
  *out = (int64_t)v;
  return SHOAL_OK;
}

/* Those of a split, which must be finite. */
static shoal_status read_targets(import *p, int s)
{
  const shoal_npy *y = p->y[s];
  const size_t n = p->spec.targets;
  const uint8_t *row;
  shoal_npy_reader *r = NULL;
  shoal_status st;
  SHOAL_TRY(shoal_limit_memory(y->path, y->name, y->dims[0] * n, sizeof(double)));
  SHOAL_TRY(SHOAL_ALLOC(y->dims[0] * n, &p->targets[s]));
  SHOAL_TRY_GOTO(st, shoal_npy_open(y, &r), done);
  for (uint64_t i = 0; i < y->dims[0]; i++) {
    SHOAL_TRY_GOTO(st, shoal_npy_next(r, &row), done);
    for (size_t k = 0; k < n; k++) {
      const double v = shoal_npy_real(y, row, k * (y->ndim == 2 ? y->strides[1] : 0));
      p->targets[s][i * n + k] = v;
      SHOAL_CHECK_GOTO(st, isfinite(v), done, SHOAL_ERR_IO,
                       "%s: target %zu of sample %" PRIu64 " in %s is %g: remove the sample, or correct it", y->path, k,
                       i, y->name, v);
    }
  }
done:
  shoal_npy_close(r);
  return st;
}

/* Counts the labels of a split and keeps them; those that are no classes are refused once all are counted. */
static shoal_status read_labels(import *p, int s, shoal_labels *l)
{
  const shoal_npy *y = p->y[s];
  const uint8_t *row;
  int64_t v;
  shoal_npy_reader *r = NULL;
  shoal_status st;
  SHOAL_TRY(shoal_limit_memory(y->path, y->name, y->dims[0], sizeof(int32_t) + 1)); /* and which of them test */
  SHOAL_TRY(SHOAL_ALLOC(y->dims[0], &p->labels[s]));
  SHOAL_TRY_GOTO(st, shoal_npy_open(y, &r), done);
  for (uint64_t i = 0; i < y->dims[0]; i++) {
    SHOAL_TRY_GOTO(st, shoal_npy_next(r, &row), done);
    SHOAL_TRY_GOTO(st, label_of(y, row, i, &v), done);
    SHOAL_TRY_GOTO(st, shoal_labels_add(l, (shoal_split)s, v), done);
    p->labels[s][i] = (int32_t)v;
  }
done:
  shoal_npy_close(r);
  return st;
}

static shoal_status count_labels(import *p, shoal_labels *l)
{
  for (int s = 0; s < 2 && p->spec.targets; s++)
    if (p->y[s]) SHOAL_TRY(read_targets(p, s));
  if (p->spec.targets) return SHOAL_OK;
  if (has_rows(p->y[0])) l->stated = (int64_t)p->y[0]->dims[1];
  for (int s = 0; s < 2; s++)
    if (p->y[s]) SHOAL_TRY(read_labels(p, s, l));
  shoal_labels_finish(l);
  shoal_status st =
      shoal_labels_check(l, p->y[0]->path, (const char *const[]){ p->y[0]->name, p->y[1] ? p->y[1]->name : "" });
  if (st != SHOAL_OK && shoal_labels_are_signs(l)) {
    char *command = renumber_command((const shoal_npy *const *)p->y, p->y[1] ? 2 : 1);
    if (command) st = shoal_error_append(st, ", as %s", command);
    free(command);
  }
  SHOAL_TRY(st);
  p->classes = shoal_labels_classes(l);
  return SHOAL_OK;
}

/* ---- samples ---- */

static shoal_status refuse_number(const import *p, const shoal_npy *x, uint64_t i, uint64_t at, double v)
{
  const shoal_shape *s = &p->spec.sample;
  const uint64_t w = (uint64_t)s->dim[s->ndim - 1], plane = s->ndim == 3 ? w * (uint64_t)s->dim[1] : 1;
  char where[96];
  if (s->ndim == 3)
    snprintf(where, sizeof where, "channel %" PRIu64 ", row %" PRIu64 ", column %" PRIu64, at / plane, at % plane / w,
             at % w);
  else
    snprintf(where, sizeof where, "feature %" PRIu64, at);
  char *fill = isnan(v) || isinf(v) ? fill_command(x) : NULL;
  shoal_status st =
      SHOAL_FAIL(SHOAL_ERR_IO, "%s: sample %" PRIu64 " of %s has %g, which is not finite in f32, as %s: %s%s", x->path,
                 i, x->name, v, where,
                 fill ? "remove such samples, or fill these values by the mean of the others, of the same feature, as "
                      : "divide the array by a power of ten",
                 fill ? fill : "");
  free(fill);
  return st;
}

/* Copies sample i of x from its row, in the order channel, row, column. */
static shoal_status take_sample(import *p, const shoal_npy *x, const uint8_t *row, uint64_t i, void *out)
{
  const shoal_shape *shape = &p->spec.sample;
  uint64_t c_n = shape->ndim == 3 ? (uint64_t)shape->dim[0] : 1, h_n = shape->ndim == 3 ? (uint64_t)shape->dim[1] : 1;
  uint64_t w_n = (uint64_t)shape->dim[shape->ndim - 1], at = 0;
  uint64_t *t = p->stride;
  for (uint64_t c = 0; c < c_n; c++)
    for (uint64_t h = 0; h < h_n; h++)
      for (uint64_t w = 0; w < w_n; w++, at++) {
        uint64_t from = c * t[0] + h * t[1] + w * t[2];
        if (p->spec.x_bytes == 1) {
          ((uint8_t *)out)[at] = row[from];
          continue;
        }
        double v = shoal_npy_real(x, row, from);
        if (!isfinite((float)v)) return refuse_number(p, x, i, at, v);
        ((float *)out)[at] = shoal_narrow_convert(&p->narrow, p->narrow.n > 1 ? at : 0, v);
      }
  return SHOAL_OK;
}

static shoal_status write_split(import *p, int s, const uint8_t *test, void *sample, shoal_data_writer *w)
{
  const shoal_npy *x = p->x[s];
  const uint8_t *row;
  shoal_npy_reader *r;
  SHOAL_TRY(shoal_npy_open(x, &r));
  shoal_status st = SHOAL_OK;
  for (uint64_t i = 0; st == SHOAL_OK && i < x->dims[0]; i++) {
    bool tests = s == 1 || (test && test[i]);
    st = shoal_npy_next(r, &row);
    if (st == SHOAL_OK) st = take_sample(p, x, row, i, sample);
    const void *y = p->labels[s] ? (const void *)&p->labels[s][i] : &p->targets[s][i * p->spec.targets];
    if (st == SHOAL_OK) st = shoal_data_writer_add(w, tests ? SHOAL_TEST : SHOAL_TRAIN, 1, sample, y);
  }
  shoal_npy_close(r);
  return st;
}

static const char *feature_text(const void *context, size_t feature, char *buf, size_t cap)
{
  const import *p = context;
  if (p->narrow.n == 1)
    snprintf(buf, cap, "array %.40s", p->x[0]->name);
  else
    snprintf(buf, cap, "array %.40s, feature %zu", p->x[0]->name, feature);
  return buf;
}

/* A target that is the same in all training samples can teach nothing; `test` says which of the first arrays are for tests. */
static shoal_status check_varied(const import *p, const uint8_t *test)
{
  const size_t width = p->spec.targets;
  for (size_t k = 0; k < width; k++) {
    double low = INFINITY, high = -INFINITY;
    for (uint64_t i = 0; i < p->x[0]->dims[0]; i++) {
      if (test && test[i]) continue;
      low = fmin(low, p->targets[0][i * width + k]);
      high = fmax(high, p->targets[0][i * width + k]);
    }
    SHOAL_CHECK(low < high, SHOAL_ERR_IO,
                "%s: target %zu in %s is %.9g in all training samples: there is nothing to learn; leave it out",
                p->y[0]->path, k, p->y[0]->name, low);
  }
  return SHOAL_OK;
}

static shoal_status write_all(import *p, const char *out_path)
{
  char source[256];
  shoal_data_writer *w = NULL;
  uint8_t *test = NULL;
  void *sample = NULL;
  size_t elements = (size_t)shoal_shape_count(&p->spec.sample);
  bool by_feature = p->spec.kind == SHOAL_DATA_FEATURES && elements <= SHOAL_DATA_SCALES;
  shoal_status st;
  shoal_import_source_text(p->args, source, sizeof source);
  p->spec.source = source;
  SHOAL_TRY_GOTO(st, shoal_narrow_init(&p->narrow, by_feature ? elements : 1), done);
  SHOAL_TRY_GOTO(st, shoal_alloc(elements, (size_t)p->spec.x_bytes, "a sample", &sample), done);
  if (!p->x[1]) {
    uint64_t n = p->x[0]->dims[0];
    SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &test), done);
    SHOAL_TRY_GOTO(st, shoal_import_split(p->args, n, p->labels[0], test), done);
  }
  SHOAL_TRY_GOTO(st, check_varied(p, test), done);
  SHOAL_TRY_GOTO(st, shoal_data_expect(out_path, &p->spec, p->x[0]->dims[0] + (p->x[1] ? p->x[1]->dims[0] : 0)), done);
  SHOAL_TRY_GOTO(st, shoal_data_writer_create(out_path, &p->spec, &w), done);
  for (int s = 0; s < 2; s++)
    if (p->x[s]) SHOAL_TRY_GOTO(st, write_split(p, s, test, sample, w), done);
  shoal_narrow_warn(&p->narrow, p->x[0]->path, feature_text, NULL, p);
  st = shoal_data_writer_commit(w, p->classes, NULL);
done:
  shoal_data_writer_destroy(w);
  free(sample);
  free(test);
  return st;
}

/* Roles are those of the arrays, whose names are as good as names of files. */
static shoal_status find_roles(import *p, shoal_import_roles *roles)
{
  const size_t n = p->arrays.n;
  shoal_import_args by_array = *p->args;
  const char **names = NULL;
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &names), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &p->left_out), done);
  for (size_t i = 0; i < n; i++) { /* a name that is no path: folders of a member say the split, too */
    char *name = shoal_strdup_printf("%s", p->arrays.all[i].name);
    for (char *c = name; *c; c++) *c = (char)(*c == '/' ? '_' : *c);
    names[i] = name;
  }
  shoal_import_leave_out(p->args, names, n, p->left_out);
  by_array.sources = names;
  by_array.n_sources = n;
  st = shoal_import_find_roles(&by_array, roles);
done:
  for (size_t i = 0; names && i < n; i++) free((char *)names[i]);
  free(names);
  return st;
}

shoal_status shoal_import_npy(const shoal_import_args *a, const char *out_path)
{
import p = {.args = a };
  shoal_import_roles roles = { 0 };
  shoal_labels labels;
  shoal_status st;
  shoal_labels_init(&labels, 0);
  for (size_t i = 0; i < a->n_sources; i++) SHOAL_TRY_GOTO(st, shoal_npy_find(a->sources[i], &p.arrays), done);
  SHOAL_CHECK_GOTO(st, p.arrays.n > 0, done, SHOAL_ERR_IO, "%s has no arrays", a->sources[0]);
  SHOAL_TRY_GOTO(st, find_roles(&p, &roles), done);
  SHOAL_TRY_GOTO(st, match(&p, roles.test), done);
  for (int s = 0; s < 2; s++)
    if (p.x[s]) straighten(p.y[s], p.x[s]);
  SHOAL_TRY_GOTO(st, check_turned(&p), done);
  SHOAL_TRY_GOTO(st, find_shape(&p), done);
  SHOAL_TRY_GOTO(st, find_targets(&p), done);
  for (int s = 0; s < 2; s++)
    if (p.x[s]) SHOAL_TRY_GOTO(st, check_split(&p, s), done);
  SHOAL_TRY_GOTO(st, count_labels(&p, &labels), done);
  st = write_all(&p, out_path);
done:
  shoal_import_roles_fini(&roles);
  shoal_labels_fini(&labels);
  shoal_narrow_fini(&p.narrow);
  shoal_npys_fini(&p.arrays);
  free(p.left_out);
  free(p.labels[0]);
  free(p.labels[1]);
  free(p.targets[0]);
  free(p.targets[1]);
  return st;
}
