/* Files that hold what is wanted in a form that is not read, and the command of h5py that mends them.
 *
 * A command must do what it says when it is run as it stands, for all arrays at once: labels that are texts get the same
 * numbers in both splits.  What it replaces stays in the file under another name. */
#include "base/error.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/fold.h"
#include "data/python.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- commands ---- */

/* "'train/x', 'train/y'" for Python.  Caller frees. */
static char *quote_names(const char *const *names, size_t n)
{
  shoal_str list = { 0 };
  char text[SHOAL_WORD];
  for (size_t i = 0; i < n; i++) shoal_str_add(&list, "%s%s", i ? ", " : "", shoal_python_text(names[i], text));
  return list.text;
}

/* What a command needs is a comment behind it, so that it can be pasted as a whole. */
static void find_h5py(shoal_python *out)
{
  static const char *const packages[] = { "h5py", NULL };
  shoal_find_python(packages, out);
}

char *shoal_data_copy_command(const char *path, const char *const *names, size_t n)
{
  char from[SHOAL_WORD], to[SHOAL_WORD];
  char *list = quote_names(names, n), *copy = shoal_strdup_printf("%s.plain.h5", path);
  shoal_python python;
  find_h5py(&python);
  char *text = shoal_strdup_printf(
      "%s -c \"import h5py, importlib.util as u; u.find_spec('hdf5plugin') and __import__('hdf5plugin'); i = "
      "h5py.File(%s); o = h5py.File(%s, 'w'); [o.create_dataset(n, data=i[n][()]) for n in [%s]]\"%s%s",
      python.run, shoal_python_text(path, from), shoal_python_text(copy, to), list, python.needs[0] ? "  # " : "",
      python.needs);
  free(copy);
  free(list);
  return text;
}

/* How other values are made of arrays: y[n] is what `read` after f[n] gives; `first` and `last` are further statements. */
typedef struct {
  const char *read, *first, *value, *last;
  bool pictures; /* with Pillow */
} rewrite;

/* Replaces arrays and keeps the first of each name as NAME_original.  Caller frees. */
static char *rewrite_command(const char *path, const char *const *names, size_t n, const rewrite *how)
{
  char file[SHOAL_WORD];
  static const char *const packages[] = { "h5py", "PIL", NULL };
  char *list = quote_names(names, n);
  shoal_python python;
  if (how->pictures)
    shoal_find_python(packages, &python);
  else
    find_h5py(&python);
  char *text = shoal_strdup_printf(
      "%s -c \"import h5py, numpy; f = h5py.File(%s, 'a'); y = {n: f[n]%s for n in [%s]}; %s[(f.pop(n) if n + "
      "'_original' in f else f.move(n, n + '_original'), f.create_dataset(n, data=%s)) for n in y]%s\"%s%s",
      python.run, shoal_python_text(path, file), how->read, list, how->first, how->value, how->last,
      python.needs[0] ? "  # " : "", python.needs);
  free(list);
  return text;
}

/* Gives samples and labels the names of our layout, by which labels are numbers that are to be predicted.  Caller frees. */
static char *target_command(const shoal_dataset *d)
{
  char file[SHOAL_WORD], from[SHOAL_WORD];
  shoal_str moves = { 0 };
  shoal_python python;
  find_h5py(&python);
  for (int s = 0; s < 2; s++) {
    const char *const names[] = { d->names.x[s], d->names.y[s] }, *const ours[] = { "x", "targets" };
    for (int k = 0; k < 2 && names[0][0]; k++)
      shoal_str_add(&moves, "%s(%s, '%s/%s')", moves.len ? ", " : "", shoal_python_text(names[k], from),
                    shoal_split_name((shoal_split)s), ours[k]);
  }
  char *text = shoal_strdup_printf(
      "%s -c \"import h5py; f = h5py.File(%s, 'a'); [f.move(a, b) for a, b in [%s] if a != b]\"%s%s", python.run,
      shoal_python_text(d->path, file), moves.text, python.needs[0] ? "  # " : "", python.needs);
  shoal_str_free(&moves);
  return text;
}

char *shoal_dataset_reshape_command(const shoal_dataset *d, const shoal_shape *shape)
{
  const shoal_dataset *file = d->n_members ? d->member[0] : d;
  const char *names[2];
  size_t n = 0;
  for (int s = 0; s < 2; s++)
    if (file->names.x[s][0]) names[n++] = file->names.x[s];
  char *value = shoal_strdup_printf("y[n].reshape(-1, %lld, %lld, %lld)", (long long)shape->dim[0],
                                    (long long)shape->dim[1], (long long)shape->dim[2]);
  const rewrite how = {
    .read = "[()]", .first = "", .value = value, .last = "; [f.attrs.pop(k) for k in [*f.attrs] if k != 'class_names']"
  };
  char *command = rewrite_command(file->path, names, n, &how);
  free(value);
  return command;
}

char *shoal_dataset_fill_command(const shoal_dataset *d)
{
  const rewrite how = { .read = "[()]",
                        .first = "v = next(iter(y.values())); m = numpy.nanmean(numpy.where(numpy.isfinite(v), v, "
                                 "numpy.nan), 0 if v.ndim == 2 else None); ",
                        .value = "numpy.where(numpy.isfinite(y[n]), y[n], m).astype(y[n].dtype)",
                        .last = "; [f.attrs.pop(k) for k in [*f.attrs] if k != 'class_names']" };
  const char *names[2];
  size_t n = 0;
  if (d->n_members) return NULL;
  for (int s = 0; s < 2; s++)
    if (d->names.x[s][0]) names[n++] = d->names.x[s];
  return rewrite_command(d->path, names, n, &how);
}

char *shoal_dataset_test_cure(const shoal_dataset *d)
{
  static const char *const packages[] = { "h5py", "numpy", NULL };
  char from[SHOAL_WORD], to[SHOAL_WORD], x[SHOAL_WORD], y[SHOAL_WORD];
  if (d->n_members || d->names.text) return NULL;
  shoal_python python;
  char *copy = shoal_strdup_printf("%s.plain.h5", d->path);
  shoal_find_python(packages, &python);
  char *text = shoal_strdup_printf(
      "this writes %s, with a tenth of the samples for tests: %s -c \"import h5py, numpy; i = h5py.File(%s); o = "
      "h5py.File(%s, 'w'); t = numpy.random.default_rng(1).permutation(len(i[%s])) < len(i[%s]) // 10; "
      "[o.create_dataset(s + n, data=i[a][()][m]) for s, m in [('train', ~t), ('test', t)] for n, a in [('/x', %s), "
      "('/%s', "
      "%s)]]; o.attrs.update({k: i.attrs[k] for k in ['classes', 'class_names', 'target_names'] if k in "
      "i.attrs})\"%s%s",
      copy, python.run, shoal_python_text(d->path, from), shoal_python_text(copy, to),
      shoal_python_text(d->names.x[0], x), x, x, d->names.targets ? "targets" : "y",
      shoal_python_text(d->names.y[0], y), python.needs[0] ? "  # " : "", python.needs);
  free(copy);
  return text;
}

/* ---- refusals ---- */

typedef enum {
  LABELS_FINE,
  LABELS_ONE_HOT,
  LABELS_ROW,
  LABELS_FLOATS,
  LABELS_NAMES,
  LABELS_BITS,
  LABELS_HOPELESS
} label_form;

uint64_t shoal_data_vector_length(const shoal_h5_facts *f)
{
  uint64_t n = 1, longer = 0;
  for (int i = 0; i < f->ndim; i++) {
    longer += f->dims[i] != 1;
    if (f->dims[i] != 1) n = f->dims[i];
  }
  return f->ndim > 0 && longer <= 1 ? n : 0;
}

static label_form label_form_of(const shoal_h5_facts *f)
{
  bool number = f->class == SHOAL_H5_INTEGER || f->class == SHOAL_H5_FLOAT;
  bool name = f->class == SHOAL_H5_ENUM || f->class == SHOAL_H5_TEXT || f->class == SHOAL_H5_RECORD;
  bool column = f->ndim == 1 || (f->ndim == 2 && f->dims[1] == 1);
  if (number && !column && shoal_data_vector_length(f)) return LABELS_ROW;
  if (number && f->ndim == 2 && !column) return LABELS_ONE_HOT;
  if (f->class == SHOAL_H5_FLOAT && column) return LABELS_FLOATS;
  if (name && column) return LABELS_NAMES;
  if (f->class == SHOAL_H5_BITS && column) return LABELS_BITS;
  return number ? LABELS_FINE : LABELS_HOPELESS;
}

/* Splits whose array `part` looks like one that is refused are mended together: their classes must be the same. */
static size_t list_alike(const shoal_dataset *d, const char part[2][SHOAL_DATA_NAME], const shoal_h5_facts *f,
                         const char *names[2])
{
  size_t n = 0;
  for (int s = 0; s < 2; s++) {
    shoal_h5_facts other;
    if (!part[s][0] || !shoal_h5_exists(d->file, part[s]) || shoal_h5_look(d->file, part[s], &other) != SHOAL_OK)
      continue;
    if (other.class == f->class && label_form_of(&other) == label_form_of(f) && strcmp(other.member, f->member) == 0)
      names[n++] = part[s];
  }
  return n;
}

shoal_status shoal_data_refuse_samples(const shoal_dataset *d, const char *name, const shoal_h5_facts *f)
{
  static const char lists_of[] = "lists of variable length of ";
  const bool rows = f->class == SHOAL_H5_RECORD && f->only_numbers && f->ndim == 1;
  rewrite how = { .read = "[()]", .first = "", .value = "y[n].astype('i4')", .last = "" };
  if (rows) {
    how.first = "import numpy.lib.recfunctions; ";
    how.value = "numpy.lib.recfunctions.structured_to_unstructured(y[n]).astype('f4')";
  } else if (strcmp(f->described, "enumeration {FALSE, TRUE}") == 0) { /* as h5py writes truth values */
    how.value = "y[n].astype('u1')";
  } else if (f->class == SHOAL_H5_BITS) { /* as PyTables writes them; h5py reads unsigned integers */
    how.value = "y[n]";
  }
  const bool complex = f->only_numbers && strncmp(f->described, "compound {r: f", 14) == 0; /* as h5py writes them */
  const bool lists = strncmp(f->described, lists_of, sizeof lists_of - 1) == 0,
             bytes = lists && strcmp(f->described + sizeof lists_of - 1, "u8") == 0;
  const char *what = "write them";
  if (complex) {
    what = "write both parts beside each other";
    how.value = f->ndim == 2 || f->ndim == 4 ? "numpy.concatenate([y[n].real, y[n].imag], 1)"
                                             : "numpy.stack([y[n].real, y[n].imag], 1)";
  } else if (bytes) {
    what = "if they are images as in files, write their pixels, all scaled to the size of the first";
    how.pictures = true;
    how.first = "import io; from PIL import Image; J = lambda v: Image.open(io.BytesIO(bytes(v))).convert('RGB'); s = "
                "J(next(iter(y.values()))[0]).size; ";
    how.value = "numpy.array([numpy.moveaxis(numpy.array(J(v).resize(s)), -1, 0) for v in y[n]])";
  } else if (lists) {
    what = "write all with the length of the longest, with zeros at the ends of others";
    how.first = "m = max(len(v) for a in y.values() for v in a); ";
    how.value = "numpy.array([numpy.pad(v, (0, m - len(v))) for v in y[n]])";
  } else if (!rows && f->class != SHOAL_H5_ENUM && f->class != SHOAL_H5_BITS)
    return SHOAL_FAIL(SHOAL_ERR_IO,
                      "%s: /%s holds no numbers but %s: samples are numbers in one array, all of one shape", d->path,
                      name, f->described);
  const char *names[2];
  size_t n = list_alike(d, d->names.x, f, names);
  char *command = rewrite_command(d->path, names, n, &how);
  shoal_status st =
      SHOAL_FAIL(SHOAL_ERR_IO, "%s: /%s holds no numbers but %s; %s: %s", d->path, name, f->described, what, command);
  free(command);
  return st;
}

shoal_status shoal_data_refuse_dimensions(const shoal_dataset *d, const char *name, const shoal_h5_facts *f)
{
  shoal_fold fold;
  shoal_str shape = { 0 };
  const char *names[2];
  size_t n = 0;
  SHOAL_CHECK(shoal_data_fold(f->ndim, f->dims, &fold), SHOAL_ERR_IO,
              "%s: /%s has %d dimensions; features have 2, images 3 or 4", d->path, name, f->ndim);
  for (int s = 0; s < 2; s++) {
    shoal_h5_facts other;
    if (d->names.x[s][0] && shoal_h5_look(d->file, d->names.x[s], &other) == SHOAL_OK && other.ndim == f->ndim)
      names[n++] = d->names.x[s];
  }
  char *value = shoal_strdup_printf("(lambda v: %s)(y[n])", fold.expression);
  const rewrite how = {
    .read = "[()]", .first = "", .value = value, .last = "; [f.attrs.pop(k) for k in [*f.attrs] if k != 'class_names']"
  };
  char *command = rewrite_command(d->path, names, n, &how);
  for (int i = 0; i < f->ndim; i++) shoal_str_add(&shape, "%s%" PRIu64, i ? ", " : "", f->dims[i]);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO,
                               "%s: /%s has shape [%s]; features are [n, features], images [n, height, width] or [n, "
                               "channels, height, width] of at most %d channels; this makes %s: %s",
                               d->path, name, shape.text, SHOAL_DATA_CHANNELS, fold.what, command);
  shoal_str_free(&shape);
  free(command);
  free(value);
  return st;
}

/* Numbers with fractions are no class numbers, and a command that cuts them off would hide it. */
static shoal_status check_whole(const shoal_dataset *d, const char *name, const shoal_h5_facts *f)
{
  uint64_t n = 1, wrong = 0;
  double *y;
  for (int i = 0; i < f->ndim; i++) n *= f->dims[i];
  SHOAL_TRY(shoal_limit_memory(d->path, name, n, sizeof *y));
  SHOAL_TRY(SHOAL_ALLOC(n, &y));
  shoal_status st = shoal_h5_read(d->file, name, SHOAL_F64, n, y);
  while (st == SHOAL_OK && wrong < n && y[wrong] == floor(y[wrong])) wrong++;
  if (wrong < n && st == SHOAL_OK) {
    char *command = target_command(d);
    const bool number = isfinite(y[wrong]);
    st = SHOAL_FAIL(SHOAL_ERR_IO,
                    "%s: /%s holds %s, of which sample %" PRIu64
                    " has %.9g, which is no class: classes are whole numbers "
                    "from 0; %s%s",
                    d->path, name, f->described, wrong, y[wrong],
                    number ? "numbers that are to be predicted (regression) are called targets: "
                           : "remove samples without a label",
                    number ? command : "");
    free(command);
  }
  free(y);
  return st;
}

/* Rows of labels of which argmax would not find the class. */
static shoal_status check_one_hot(const shoal_dataset *d, const char *name, const shoal_h5_facts *f)
{
  const uint64_t n = f->dims[0], width = f->dims[1];
  double *y;
  SHOAL_TRY(shoal_limit_memory(d->path, name, n * width, sizeof *y));
  SHOAL_TRY(SHOAL_ALLOC(n * width, &y));
  shoal_status st = shoal_h5_read(d->file, name, SHOAL_F64, n * width, y);
  for (uint64_t i = 0; i < n && st == SHOAL_OK; i++) {
    const char *why = shoal_labels_row(width, y + i * width);
    if (why) st = SHOAL_FAIL(SHOAL_ERR_IO, "%s: row %" PRIu64 " of /%s, %s, %s", d->path, i, name, f->described, why);
  }
  free(y);
  return st;
}

/* Arrays as MATLAB writes them: its first dimension is the last one here, so samples are columns. */
static shoal_status check_order(const shoal_dataset *d, const char *name, const shoal_h5_facts *f)
{
  const char *x_name = strcmp(name, d->names.y[0]) == 0 ? d->names.x[0] : d->names.x[1], *names[4];
  const uint64_t labels = shoal_data_vector_length(f) ? shoal_data_vector_length(f) : f->ndim == 2 ? f->dims[1] : 0;
  shoal_h5_facts x;
  size_t n = 0;
  SHOAL_TRY(shoal_h5_look(d->file, x_name, &x));
  if (x.ndim < 2 || labels < 2 || x.dims[x.ndim - 1] != labels || x.dims[0] == labels || x.dims[0] == f->dims[0])
    return SHOAL_OK;
  for (int s = 0; s < 2; s++) {
    if (d->names.x[s][0]) names[n++] = d->names.x[s];
    if (d->names.x[s][0]) names[n++] = d->names.y[s];
  }
  const bool list = shoal_data_vector_length(f) && (f->class == SHOAL_H5_INTEGER || f->class == SHOAL_H5_FLOAT);
  if (list) SHOAL_TRY(check_whole(d, name, f));
  const char *const y_names[2] = { d->names.y[0], d->names.y[1] };
  char *y_list = quote_names(y_names, d->names.y[1][0] ? 2 : 1);
  char *value = list ? shoal_strdup_printf("y[n].ravel().astype('i4') if n in [%s] else y[n].T", y_list)
                     : shoal_strdup_printf("y[n].T");
  const rewrite how = { .read = "[()]", .first = "", .value = value, .last = "" };
  char *command = rewrite_command(d->path, names, n, &how);
  shoal_str shape = { 0 };
  for (int i = 0; i < x.ndim; i++) shoal_str_add(&shape, "%s%" PRIu64, i ? ", " : "", x.dims[i]);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO,
                               "%s: /%s has %" PRIu64 " labels, and /%s is [%s]: %" PRIu64
                               " is its last dimension and not the first, as MATLAB "
                               "writes arrays; turn them: %s",
                               d->path, name, labels, x_name, shape.text, labels, command);
  shoal_str_free(&shape);
  free(command);
  free(value);
  free(y_list);
  return st;
}

static shoal_status refuse_labels(const shoal_dataset *d, const char *name, const shoal_h5_facts *f)
{
  static const char rule[] = "labels are one class number from 0 per sample";
  const label_form form = label_form_of(f);
  const bool several = f->class == SHOAL_H5_RECORD && !f->member[0];
  char read[SHOAL_WORD + 16] = "[()].ravel()", member[SHOAL_WORD];
  if (form == LABELS_HOPELESS)
    return SHOAL_FAIL(SHOAL_ERR_IO, "%s: /%s holds no numbers but %s; %s", d->path, name, f->described, rule);
  if (f->class == SHOAL_H5_RECORD)
    snprintf(read, sizeof read, "[%s].ravel()", shoal_python_text(several ? "MEMBER" : f->member, member));
  rewrite how = { .read = "[()]", .first = "", .value = "y[n].astype('i4')", .last = "" };
  if (form == LABELS_ONE_HOT) how.value = "y[n].argmax(1)";
  if (form == LABELS_ROW) how.value = "y[n].ravel().astype('i4')";
  if (form == LABELS_FLOATS || form == LABELS_ROW) SHOAL_TRY(check_whole(d, name, f));
  if (form == LABELS_ONE_HOT) SHOAL_TRY(check_one_hot(d, name, f));
  if (form == LABELS_NAMES)
    how = (rewrite){ .read = read,
                     .first = "u = numpy.unique(numpy.concatenate([*y.values()])); ",
                     .value = "numpy.searchsorted(u, y[n])",
                     .last = f->class == SHOAL_H5_TEXT ? "; f.attrs['class_names'] = b'\\n'.join(u)" : "" };
  const char *what = form == LABELS_ROW       ? "is no list but an array of"
                     : form == LABELS_ONE_HOT ? "has a row per sample (one-hot?) of"
                     : form == LABELS_FLOATS  ? "holds no integers but"
                                              : "holds no numbers but";
  const char *names[2];
  size_t n = list_alike(d, d->names.y, f, names);
  char *command = rewrite_command(d->path, names, n, &how);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "%s: /%s %s %s; %s%s: %s", d->path, name, what, f->described, rule,
                               several ? " (for MEMBER put the one that tells the class)" : "", command);
  free(command);
  return st;
}

shoal_status shoal_data_check_labels(const shoal_dataset *d)
{
  const char *const names[2] = { d->names.y[0], d->names.y[1] };
  const rewrite how = { .read = "[()]",
                        .first = "u = numpy.unique(numpy.concatenate([v.ravel() for v in y.values()])); ",
                        .value = "numpy.searchsorted(u, y[n])",
                        .last = "" };
  shoal_status st = shoal_labels_check(&d->labels, d->path, names);
  if (st == SHOAL_OK || !shoal_labels_are_signs(&d->labels) || !d->alone) return st;
  char *command = rewrite_command(d->path, names, d->names.y[1][0] ? 2 : 1, &how);
  st = shoal_error_append(st, ": %s", command);
  free(command);
  return st;
}

static shoal_status refuse_swapped(const shoal_dataset *d, const char *x_name, const char *y_name, uint64_t several)
{
  char file[SHOAL_WORD], x[SHOAL_WORD], y[SHOAL_WORD];
  shoal_python python;
  find_h5py(&python);
  shoal_python_text(x_name, x);
  shoal_python_text(y_name, y);
  return SHOAL_FAIL(SHOAL_ERR_IO,
                    "%s: /%s has one number per sample and /%s several, %" PRIu64
                    ": are they swapped? This exchanges their names: %s -c \"import h5py; f = h5py.File(%s, 'a'); "
                    "f.move(%s, 'swap'); f.move(%s, %s); f.move('swap', %s)\"%s%s",
                    d->path, x_name, y_name, several, python.run, shoal_python_text(d->path, file), x, y, x, y,
                    python.needs[0] ? "  # " : "", python.needs);
}

shoal_status shoal_data_check_labels_form(const shoal_dataset *d, const char *name, const shoal_h5_facts *f)
{
  bool numbers = f->class == SHOAL_H5_INTEGER || f->class == SHOAL_H5_FLOAT;
  SHOAL_TRY(check_order(d, name, f));
  const char *x_name = strcmp(name, d->names.y[0]) == 0 ? d->names.x[0] : d->names.x[1];
  if (numbers && f->ndim > 1 && d->elements == 1 && f->dims[1] > 1) return refuse_swapped(d, x_name, name, f->dims[1]);
  if (label_form_of(f) != LABELS_FINE) return refuse_labels(d, name, f);
  SHOAL_CHECK(f->ndim == 1 || f->ndim == 2, SHOAL_ERR_IO,
              "%s: /%s has %d dimension%s; labels are one class number from 0 per sample, in one dimension: write "
              "y.reshape(len(y)), or of one-hot rows y.argmax(1)",
              d->path, name, f->ndim, f->ndim == 1 ? "" : "s");
  return SHOAL_OK;
}
