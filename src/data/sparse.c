/* Samples in HDF5 of which only the numbers that are not zero are stored, as AnnData (.h5ad) and scipy have them: X/data, X/indices and
 * X/indptr.  They are not read, but h5py writes them out in full, with the labels that somebody means: AnnData has several columns of
 * them, each a list of codes and one of categories. */
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/python.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32 };
typedef struct {
  char name[SHOAL_DATA_NAME]; /* of categories the group they are in */
  uint64_t n, classes;        /* labels; 0: they are no codes */
} column;
typedef struct {
  shoal_h5 file;
  char matrix[SHOAL_DATA_NAME]; /* the group; "" while there is none */
  uint64_t rows;                /* of it */
  column all[MOST];
  size_t n;
} contents;

/* The group that holds an array of this name, "X" of "X/indptr"; false if it has another one. */
static bool group_of(const char *name, const char *array, char out[SHOAL_DATA_NAME])
{
  const char *slash = strrchr(name, '/');
  if (!slash || strcmp(slash + 1, array) != 0 || strlen(name) >= SHOAL_DATA_NAME) return false;
  snprintf(out, SHOAL_DATA_NAME, "%.*s", (int)(slash - name), name);
  return true;
}

static uint64_t length_of(shoal_h5 file, const char *group, const char *array, shoal_h5_facts *f)
{
  char *name = shoal_strdup_printf("%s%s%s", group, array ? "/" : "", array ? array : "");
  shoal_error ignored;
  const bool there = shoal_h5_is_data_set(file, name) && shoal_h5_look(file, name, f) == SHOAL_OK;
  if (!there) shoal_error_take(&ignored);
  free(name);
  return there && f->ndim == 1 ? f->dims[0] : 0;
}

static void visit(void *context, const char *name)
{
  contents *c = context;
  column *found = &c->all[c->n];
  shoal_h5_facts f;
  char group[SHOAL_DATA_NAME];
  if (!c->matrix[0] && group_of(name, "indptr", group) && length_of(c->file, group, "indices", &f) > 0 &&
      length_of(c->file, group, "data", &f) > 0 && length_of(c->file, group, "indptr", &f) > 1) {
    strcpy(c->matrix, group);
    c->rows = f.dims[0] - 1;
  }
  if (c->n == MOST) return;
  if (group_of(name, "codes", group) && length_of(c->file, group, "categories", &f) > 0) {
    *found = (column){ .classes = f.dims[0] };
    strcpy(found->name, group);
    found->n = length_of(c->file, group, "codes", &f);
    c->n++;
    return;
  }
  const char *base = shoal_path_base(name);
  if (base[0] == '_' || strlen(name) >= SHOAL_DATA_NAME || shoal_data_names_no_class(base) ||
      group_of(name, "categories", group))
    return;
  *found = (column){ .n = length_of(c->file, name, NULL, &f) };
  if (found->n == 0 || (f.class != SHOAL_H5_INTEGER && f.class != SHOAL_H5_TEXT)) return;
  strcpy(found->name, name);
  c->n++;
}

/* 2: called as labels are; 0: as what tells where a sample is from. */
static int score(const char *name)
{
  static const char *const labels[] = { "type",     "types",      "celltype",  "cluster",
                                        "clusters", "annotation", "diagnosis", "phenotype" };
  static const char *const origins[] = { "batch", "donor", "patient", "sample", "plate", "lane", "sex" };
  char word[SHOAL_DATA_WORD];
  int best = shoal_data_names_label(name) ? 2 : 1;
  for (const char *at = name; (at = shoal_data_next_word(at, word)) != NULL;) {
    for (size_t i = 0; i < SHOAL_COUNT(labels); i++)
      if (strcmp(word, labels[i]) == 0) best = 2;
    for (size_t i = 0; i < SHOAL_COUNT(origins) && best < 2; i++)
      if (strcmp(word, origins[i]) == 0) best = 0;
  }
  return best;
}

/* What is most likely meant: by its name, else what has categories.  -1: there is nothing. */
static int find_labels(const contents *c)
{
  int best = -1, most = -1;
  for (size_t i = 0; i < c->n; i++) {
    const int points = 2 * score(shoal_path_base(c->all[i].name)) + (c->all[i].classes > 0);
    if (c->all[i].n != c->rows || points <= most) continue;
    best = (int)i;
    most = points;
  }
  return best;
}

static void add_columns(const contents *c, shoal_str *out)
{
  char shown[96];
  size_t told = 0;
  for (size_t i = 0; i < c->n; i++) {
    if (c->all[i].n != c->rows) continue;
    shoal_str_add(out, "%s/%s", told++ ? ", " : "", shoal_show(c->all[i].name, shown, sizeof shown));
    if (c->all[i].classes) shoal_str_add(out, " (%" PRIu64 " classes)", c->all[i].classes);
  }
}

static shoal_status refuse(const contents *c, const char *path)
{
  static const char *const packages[] = { "h5py", "numpy", NULL };
  const int k = find_labels(c);
  const column *l = k < 0 ? NULL : &c->all[k];
  char from[SHOAL_WORD], to[SHOAL_WORD], group[SHOAL_WORD], name[SHOAL_WORD], shown[96], label[96];
  shoal_python python;
  shoal_str columns = { 0 }, command = { 0 };
  shoal_show(c->matrix, shown, sizeof shown);
  if (!l)
    return SHOAL_FAIL(SHOAL_ERR_IO,
                      "%s: /%s is sparse: /%s/data has only the numbers that are not zero, and samples are dense here; "
                      "no array of the file "
                      "has a label for each of its %" PRIu64 " rows",
                      path, shown, shown, c->rows);
  char *plain = shoal_strdup_printf("%s.plain.h5", path);
  add_columns(c, &columns);
  shoal_find_python(packages, &python);
  shoal_str_add(&command, "%s -c \"import h5py, numpy; i = h5py.File(%s); o = h5py.File(%s, 'w'); g = i[%s]; ",
                python.run, shoal_python_text(path, from), shoal_python_text(plain, to),
                shoal_python_text(c->matrix, group));
  shoal_str_add(&command,
                "p, k = g['indptr'][()], g['indices'][()]; r = numpy.repeat(numpy.arange(len(p) - 1), numpy.diff(p)); "
                "t = [(r, k), (k, r)]['csc' in str(list(g.attrs.values()))]; "
                "s = [v for n, v in g.attrs.items() if 'shape' in n] or [[v.max() + 1 for v in t]]; "
                "x = numpy.zeros([int(v) for v in s[0]], 'f4'); x[t] = g['data'][()]; ");
  if (l->classes)
    shoal_str_add(&command, "c = i[%s]; y = c['categories'][()][c['codes'][()]]; ", shoal_python_text(l->name, name));
  else
    shoal_str_add(&command, "y = i[%s][()]; ", shoal_python_text(l->name, name));
  shoal_str_add(
      &command,
      "u, y = numpy.unique(y, return_inverse=True); t = numpy.random.default_rng(1).permutation(len(y)) < len(y) // "
      "10; "
      "[o.create_dataset(a + b, data=v[m]) for a, m in [('train', ~t), ('test', t)] for b, v in [('/x', x), ('/y', "
      "y)]]; "
      "o.attrs['class_names'] = '\\n'.join(v.decode() if isinstance(v, bytes) else str(v) for v in u).encode()\"%s%s",
      python.needs[0] ? "  # " : "", python.needs);
  shoal_status st =
      SHOAL_FAIL(SHOAL_ERR_IO,
                 "%s: /%s is sparse: /%s/data has only the numbers that are not zero, and samples are dense here; "
                 "labels may be %s; "
                 "with those of /%s (put another name in its place) this writes %s, which is read, with a tenth of the "
                 "samples for "
                 "tests: %s",
                 path, shown, shown, columns.text, shoal_show(l->name, label, sizeof label), plain, command.text);
  shoal_str_free(&columns);
  shoal_str_free(&command);
  free(plain);
  return st;
}

shoal_status shoal_data_refuse_sparse(shoal_h5 file, const char *path)
{
  contents *c;
  SHOAL_TRY(SHOAL_ALLOC(1, &c));
  c->file = file;
  shoal_status st = shoal_h5_list(file, visit, c);
  for (size_t i = 0; i < c->n && find_labels(c) < 0;
       i++) /* indptr counts the columns of a matrix that is stored by these */
    if (c->all[i].classes) c->rows = c->all[i].n;
  if (st == SHOAL_OK && c->matrix[0]) st = refuse(c, path);
  free(c);
  return st;
}
