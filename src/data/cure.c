/* Files that hold what is wanted in a form that is not read, and the command of h5py that mends them.
 *
 * A command must do what it says when it is run as it stands, for all arrays at once: labels that are texts get the same
 * numbers in both splits.  What it replaces stays in the file under another name. */
#include "base/str.h"
#include "data/data_impl.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- commands ---- */

/* "'train/x', 'train/y'" for Python, with placeholders for names that are not plain.  Caller frees. */
static char *quote_names(const char *const *names, size_t n)
{
  shoal_str list = { 0 };
  for (size_t i = 0; i < n; i++)
    shoal_str_add(&list, "%s'%s'", i ? ", " : "", shoal_is_plain(names[i]) ? names[i] : "NAME");
  return list.text;
}

char *shoal_data_copy_command(const char *path, const char *const *names, size_t n)
{
  const char *file = shoal_is_plain(path) ? path : "FILE";
  char *list = quote_names(names, n);
  char *text = shoal_strdup_printf("python3 -c \"import h5py; i = h5py.File('%s'); o = h5py.File('%s.plain.h5', 'w'); "
                                   "[o.create_dataset(n, data=i[n][()]) for n in [%s]]\"",
                                   file, file, list);
  free(list);
  return text;
}

/* How other values are made of arrays: y[n] is what `read` after f[n] gives; `first` and `last` are further statements. */
typedef struct {
  const char *read, *first, *value, *last;
} rewrite;

/* Replaces arrays and keeps the old ones as NAME_original.  Caller frees. */
static char *rewrite_command(const char *path, const char *const *names, size_t n, const rewrite *how)
{
  const char *file = shoal_is_plain(path) ? path : "FILE";
  char *list = quote_names(names, n);
  char *text = shoal_strdup_printf(
      "python3 -c \"import h5py, numpy; f = h5py.File('%s', 'a'); y = {n: f[n]%s for n in [%s]}; %s[(f.move(n, n + "
      "'_original'), f.create_dataset(n, data=%s)) for n in y]%s\"",
      file, how->read, list, how->first, how->value, how->last);
  free(list);
  return text;
}

/* ---- refusals ---- */

typedef enum { LABELS_FINE, LABELS_ONE_HOT, LABELS_FLOATS, LABELS_NAMES, LABELS_HOPELESS } label_form;

static label_form label_form_of(const shoal_h5_facts *f)
{
  bool number = f->class == SHOAL_H5_INTEGER || f->class == SHOAL_H5_FLOAT;
  bool name = f->class == SHOAL_H5_ENUM || f->class == SHOAL_H5_TEXT || f->class == SHOAL_H5_RECORD;
  bool column = f->ndim == 1 || (f->ndim == 2 && f->dims[1] == 1);
  if (number && f->ndim == 2 && !column) return LABELS_ONE_HOT;
  if (f->class == SHOAL_H5_FLOAT && column) return LABELS_FLOATS;
  if (name && column) return LABELS_NAMES;
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
  const bool rows = f->class == SHOAL_H5_RECORD && f->only_numbers && f->ndim == 1;
  rewrite how = { .read = "[()]", .first = "", .value = "y[n].astype('i4')", .last = "" };
  if (rows) {
    how.first = "import numpy.lib.recfunctions; ";
    how.value = "numpy.lib.recfunctions.structured_to_unstructured(y[n]).astype('f4')";
  } else if (strcmp(f->described, "enumeration {FALSE, TRUE}") == 0) { /* as h5py writes truth values */
    how.value = "y[n].astype('u1')";
  }
  if (!rows && f->class != SHOAL_H5_ENUM)
    return SHOAL_FAIL(SHOAL_ERR_IO, "%s: /%s holds no numbers but %s", d->path, name, f->described);
  const char *names[2];
  size_t n = list_alike(d, d->names.x, f, names);
  char *command = rewrite_command(d->path, names, n, &how);
  shoal_status st =
      SHOAL_FAIL(SHOAL_ERR_IO, "%s: /%s holds no numbers but %s; write them: %s", d->path, name, f->described, command);
  free(command);
  return st;
}

static shoal_status refuse_labels(const shoal_dataset *d, const char *name, const shoal_h5_facts *f)
{
  static const char rule[] = "labels are one class number from 0 per sample";
  const label_form form = label_form_of(f);
  const bool several = f->class == SHOAL_H5_RECORD && !f->member[0];
  char read[96] = "[()].ravel()";
  if (form == LABELS_HOPELESS)
    return SHOAL_FAIL(SHOAL_ERR_IO, "%s: /%s holds no numbers but %s; %s", d->path, name, f->described, rule);
  if (f->class == SHOAL_H5_RECORD)
    snprintf(read, sizeof read, "['%s'].ravel()", !several && shoal_is_plain(f->member) ? f->member : "MEMBER");
  rewrite how = { .read = "[()]", .first = "", .value = "y[n].astype('i4')", .last = "" };
  if (form == LABELS_ONE_HOT) how.value = "y[n].argmax(1)";
  if (form == LABELS_NAMES)
    how = (rewrite){ .read = read,
                     .first = "u = numpy.unique(numpy.concatenate([*y.values()])); ",
                     .value = "numpy.searchsorted(u, y[n])",
                     .last = f->class == SHOAL_H5_TEXT ? "; f.attrs['class_names'] = b'\\n'.join(u)" : "" };
  const char *what = form == LABELS_ONE_HOT  ? "has a row per sample (one-hot?) of"
                     : form == LABELS_FLOATS ? "holds no integers but"
                                             : "holds no numbers but";
  const char *names[2];
  size_t n = list_alike(d, d->names.y, f, names);
  char *command = rewrite_command(d->path, names, n, &how);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "%s: /%s %s %s; %s%s: %s", d->path, name, what, f->described, rule,
                               several ? " (for MEMBER put the one that tells the class)" : "", command);
  free(command);
  return st;
}

shoal_status shoal_data_check_labels_form(const shoal_dataset *d, const char *name, const shoal_h5_facts *f)
{
  bool numbers = f->class == SHOAL_H5_INTEGER || f->class == SHOAL_H5_FLOAT;
  SHOAL_CHECK(!numbers || f->ndim < 2 || d->elements > 1 || f->dims[1] < 2, SHOAL_ERR_IO,
              "%s: /%s has one number per sample and /%s several: are they swapped?", d->path,
              strcmp(name, d->names.y[0]) == 0 ? d->names.x[0] : d->names.x[1], name);
  if (label_form_of(f) != LABELS_FINE) return refuse_labels(d, name, f);
  SHOAL_CHECK(f->ndim == 1 || f->ndim == 2, SHOAL_ERR_IO,
              "%s: /%s has %d dimensions; labels are one class number from 0 per sample", d->path, name, f->ndim);
  return SHOAL_OK;
}
