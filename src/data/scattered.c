/* HDF5 files that have no array of samples, but many arrays that have one sample each, or those of one class: what they look like, and
 * the command of h5py that makes one array of them.
 *
 *     /7/image, /7/label    a group for each sample        /0007 with attribute label     an array for each sample
 *     /s1/x [30, 8], /s1/y [30]  groups of samples, as of a subject each
 *     /cat/7                a group for each class         /cat [50, 28, 28]              an array for each class
 *
 * All of this may be below a group for each split.  A command reads every array as it is, so classes are numbered over all splits. */
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/texts.h"
#include "data/data_impl.h"
#include "data/python.h"
#include <stdlib.h>
#include <string.h>

enum { PARTS = 3, PART = 96 };
typedef struct {
  shoal_h5 file;
  shoal_texts names; /* of arrays */
} listing;

static void visit(void *context, const char *name)
{
  listing *l = context;
  shoal_error ignored;
  if (shoal_h5_is_data_set(l->file, name) && shoal_texts_add(&l->names, name) != SHOAL_OK) shoal_error_take(&ignored);
}

/* The parts of a name between "/"; 0 if they are too many or too long. */
static size_t split_name(const char *name, char parts[PARTS][PART])
{
  size_t n = 0;
  for (const char *at = name; at; n++) {
    const size_t length = strcspn(at, "/");
    if (n == PARTS || length >= PART) return 0;
    snprintf(parts[n], PART, "%.*s", (int)length, at);
    at = at[length] ? at + length + 1 : NULL;
  }
  return n;
}

/* What of a name is a sample or a label: "x", "image", "features"; "y", "label", "class". */
static bool is_one_of(const char *name, const char *const *words, size_t n)
{
  char word[SHOAL_DATA_WORD];
  bool found = false;
  for (const char *c = name; (c = shoal_data_next_word(c, word)) != NULL;)
    for (size_t i = 0; i < n; i++) found |= strcmp(word, words[i]) == 0;
  return found;
}

static const char *const label_words[] = { "y", "label", "labels", "class", "target", "category", "cls" };

bool shoal_data_names_label(const char *name)
{
  static const char *const more[] = { "classes", "targets", "categories", "gnd", "gt" };
  return is_one_of(name, label_words, SHOAL_COUNT(label_words)) || is_one_of(name, more, SHOAL_COUNT(more));
}

/* The attribute of an object that tells its class, or NULL. */
static const char *label_attribute(shoal_h5 file, const char *object)
{
  for (size_t i = 0; i < SHOAL_COUNT(label_words); i++)
    if (shoal_h5_has_attribute_at(file, object, label_words[i])) return label_words[i];
  return NULL;
}

typedef struct {
  const char *what; /* "a group for each sample"; NULL: nothing known */
  bool splits;      /* below a group for each */
  bool many;        /* each group has several samples, with as many labels */
  char x[PART], y[PART], attribute[PART];
} form;

static bool same_sample(const shoal_h5_facts *a, const shoal_h5_facts *b, int from)
{
  return a->ndim == b->ndim && a->ndim >= from && (b->class == SHOAL_H5_INTEGER || b->class == SHOAL_H5_FLOAT) &&
         memcmp(a->dims + from, b->dims + from, (size_t)(a->ndim - from) * sizeof *a->dims) == 0;
}

/* Whether all arrays are numbers of one shape, beside their first `from` dimensions; `last`: only those of that name. */
static bool are_alike(const listing *l, int from, const char *last)
{
  shoal_h5_facts first, f;
  shoal_error ignored;
  size_t n = 0;
  for (size_t i = 0; i < l->names.n; i++) {
    const char *name = strrchr(l->names.at[i], '/');
    if (last && strcmp(name ? name + 1 : l->names.at[i], last) != 0) continue;
    if (shoal_h5_look(l->file, l->names.at[i], &f) != SHOAL_OK) {
      shoal_error_take(&ignored);
      return false;
    }
    if (n++ == 0) first = f;
    if (!same_sample(&first, &f, from)) return false;
  }
  return n > 1 && first.ndim > from;
}

/* Whether the first group has as many labels as rows of samples. */
static bool has_many(const listing *l, const form *f)
{
  shoal_h5_facts x, y;
  shoal_error ignored;
  const char *first = l->names.at[0];
  const int group = (int)(strrchr(first, '/') - first);
  char *x_name = shoal_strdup_printf("%.*s/%s", group, first, f->x),
       *y_name = shoal_strdup_printf("%.*s/%s", group, first, f->y);
  shoal_status st = shoal_h5_look(l->file, x_name, &x);
  if (st == SHOAL_OK) st = shoal_h5_look(l->file, y_name, &y);
  if (st != SHOAL_OK) shoal_error_take(&ignored);
  free(x_name);
  free(y_name);
  return st == SHOAL_OK && x.ndim > 1 && shoal_data_vector_length(&y) > 1 && shoal_data_vector_length(&y) == x.dims[0];
}

/* The members of the first group: its label, and its only other array; every group must have as many. */
static bool find_members(const listing *l, size_t depth, form *out)
{
  char first[PARTS][PART], parts[PARTS][PART];
  size_t members = 0, x = 0;
  split_name(l->names.at[0], first);
  for (size_t i = 0; i < l->names.n; i++) {
    split_name(l->names.at[i], parts);
    if (strcmp(parts[depth - 2], first[depth - 2]) != 0 || (depth == 3 && strcmp(parts[0], first[0]) != 0)) continue;
    members++;
    if (shoal_data_names_label(parts[depth - 1]))
      strcpy(out->y, parts[depth - 1]);
    else if (x++ == 0)
      strcpy(out->x, parts[depth - 1]);
  }
  if (x != 1 || l->names.n % members != 0) return false;
  out->many = out->y[0] && has_many(l, out);
  return are_alike(l, out->many ? 1 : 0, out->x);
}

static void look(const listing *l, form *out)
{
  char parts[PARTS][PART];
  size_t depth = l->names.n ? split_name(l->names.at[0], parts) : 0;
  if (l->names.n < 2 || !depth) return;
  bool labels = false; /* which have samples beside them */
  out->splits = depth > 1;
  for (size_t i = 0; i < l->names.n; i++) {
    labels |= shoal_data_names_label(l->names.at[i]);
    if (split_name(l->names.at[i], parts) != depth) return;
    out->splits &= shoal_import_names_split(parts[0]);
  }
  const size_t below = depth - out->splits;
  char group[2 * PART];
  if (below == 1) {
    const char *attribute = label_attribute(l->file, l->names.at[0]);
    if (attribute && are_alike(l, 0, NULL)) {
      snprintf(out->attribute, PART, "%s", attribute);
      out->what = "an array for each sample";
    } else if (!labels && are_alike(l, 1, NULL))
      out->what = "what may be an array for each class";
    return;
  }
  if (below != 2) return;
  const bool alone = find_members(l, depth, out);
  snprintf(group, sizeof group, "%.*s", (int)(strrchr(l->names.at[0], '/') - l->names.at[0]), l->names.at[0]);
  const char *attribute = label_attribute(l->file, group);
  if (alone && !out->y[0] && attribute) snprintf(out->attribute, PART, "%s", attribute);
  if (alone && (out->y[0] || attribute))
    out->what = out->many ? "groups with several samples each" : "a group for each sample";
  else if (are_alike(l, 0, NULL))
    out->what = "a group for each class";
}

/* "[(p, SAMPLE, LABEL) for ...]", for Python: i is the file, P the groups of splits, k the order of names. */
static void add_entries(const form *f, shoal_str *out)
{
  char x[SHOAL_WORD], y[SHOAL_WORD];
  const bool sample = strstr(f->what, "sample") != NULL, group = strstr(f->what, "group") != NULL;
  if (f->many)
    shoal_str_add(out,
                  "[(p, x, v) for p in P for n in sorted(i[p], key=k) for x, v in zip(i[p][n][%s][()], "
                  "i[p][n][%s][()].ravel())]",
                  shoal_python_text(f->x, x), shoal_python_text(f->y, y));
  else if (sample && group) {
    shoal_str_add(out, "[(p, i[p][n][%s][()], i[p][n]", shoal_python_text(f->x, x));
    shoal_str_add(out, f->y[0] ? "[%s][()]" : ".attrs[%s]", shoal_python_text(f->y[0] ? f->y : f->attribute, y));
    shoal_str_add(out, ") for p in P for n in sorted(i[p], key=k)]");
  } else if (sample)
    shoal_str_add(out, "[(p, i[p][n][()], i[p][n].attrs[%s]) for p in P for n in sorted(i[p], key=k)]",
                  shoal_python_text(f->attribute, y));
  else if (group)
    shoal_str_add(out,
                  "[(p, i[p][c][n][()], c) for p in P for c in sorted(i[p], key=k) for n in sorted(i[p][c], key=k)]");
  else
    shoal_str_add(out, "[(p, x, c) for p in P for c in sorted(i[p], key=k) for x in i[p][c][()]]");
}

char *shoal_data_scattered_command(shoal_h5 file, const char *path, const char **what)
{
  static const char *const packages[] = { "h5py", "numpy", NULL };
  listing l = { .file = file };
  form f = { 0 };
  char from[SHOAL_WORD], to[SHOAL_WORD];
  shoal_error ignored;
  if (shoal_h5_list(file, visit, &l) == SHOAL_OK)
    look(&l, &f);
  else
    shoal_error_take(&ignored);
  shoal_texts_free(&l.names);
  if (!f.what) return NULL;
  shoal_python python;
  shoal_str out = { 0 };
  char *copy = shoal_strdup_printf("%s.plain.h5", path);
  shoal_find_python(packages, &python);
  shoal_str_add(&out,
                "%s -c \"import h5py, numpy, re; i = h5py.File(%s); o = h5py.File(%s, 'w'); P = %s; k = lambda n: "
                "[int(v) if v.isdigit() else v for v in re.split('([0-9]+)', n)]; e = ",
                python.run, shoal_python_text(path, from), shoal_python_text(copy, to),
                f.splits ? "sorted(i)" : "['/']");
  add_entries(&f, &out);
  shoal_str_add(
      &out,
      "; L = lambda v: v.decode() if isinstance(v, bytes) else v; u, y = numpy.unique([L(numpy.ravel(v)[0]) for p, x, "
      "v "
      "in e], return_inverse=True); t = %s; [o.create_dataset(a + b, data=numpy.array(v)[m]) for a, m in [('train', "
      "~t), ('test', t)] for b, v in [('/x', [x for p, x, v in e]), ('/y', y)] if m.any()]; o.attrs['class_names'] = "
      "'\\n'.join(map(str, u)).encode()\"%s%s",
      f.splits ? "numpy.array([not p.lower().startswith('tr') for p, x, v in e])"
               : "numpy.random.default_rng(1).permutation(len(y)) < len(y) // 10",
      python.needs[0] ? "  # " : "", python.needs);
  free(copy);
  *what = f.what;
  return out.text;
}
