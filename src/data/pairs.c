/* HDF5 files whose names do not say which arrays are samples and which labels: the likely pair, and the command of h5py that makes a data
 * set of it.
 *
 *     /spectra [500, 128] f32, /kind [500] i64  ->  train/x, train/y, and a tenth of both as test/x, test/y
 *
 * Labels are one per sample: integers, texts or enumerations whatever they are called, other numbers if the name says so or there is no
 * other array.  Samples are numbers, as many as there are labels; of several such arrays the one with most numbers.  Nothing is taken
 * by itself: the message names both, and who reads it decides. */
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/fold.h"
#include "data/python.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, LOOKED_AT = 1 << 22 /* labels */ };
typedef struct {
  char name[SHOAL_DATA_NAME];
  shoal_h5_facts facts;
  bool test;
} candidate;
typedef struct {
  shoal_h5 file;
  candidate *all; /* [MOST] */
  size_t n;
} candidates;
typedef enum { CLASSES, WHOLE_FLOATS, ONE_HOT, TARGETS } label_form;
typedef struct {
  const candidate *x, *y;
  bool turned; /* samples are the last dimension of x, as MATLAB has them */
} pair;

static void visit(void *context, const char *name)
{
  candidates *c = context;
  candidate *found = &c->all[c->n];
  shoal_error ignored;
  if (c->n == MOST || !shoal_h5_is_data_set(c->file, name) || strlen(name) >= SHOAL_DATA_NAME) return;
  if (shoal_h5_look(c->file, name, &found->facts) != SHOAL_OK) {
    shoal_error_take(&ignored);
    return;
  }
  strcpy(found->name, name);
  char *flat = shoal_strdup_printf("%s", name); /* folders tell the split, too */
  for (char *at = flat; *at; at++) *at = (char)(*at == '/' ? '_' : *at);
  found->test = shoal_import_names_split(flat) && !shoal_import_trains(flat);
  free(flat);
  c->n++;
}

bool shoal_data_names_no_class(const char *name)
{
  static const char *const words[] = { "id",     "ids",      "idx",       "index",   "indices", "file",
                                       "files",  "filename", "filenames", "path",    "time",    "times",
                                       "length", "lengths",  "weight",    "weights", "bias" };
  char word[SHOAL_DATA_WORD];
  for (const char *at = name; (at = shoal_data_next_word(at, word)) != NULL;)
    for (size_t i = 0; i < SHOAL_COUNT(words); i++)
      if (strcmp(word, words[i]) == 0) return true;
  return false;
}

static bool is_number(const shoal_h5_facts *f)
{
  return f->class == SHOAL_H5_INTEGER || f->class == SHOAL_H5_FLOAT;
}

/* How many labels there are, 0: it holds none.  `arrays`: how many there are in its split. */
static uint64_t count_labels(const candidate *c, size_t arrays)
{
  const shoal_h5_facts *f = &c->facts;
  const bool said = shoal_data_names_label(c->name), list = shoal_data_vector_length(f) > 1;
  const bool rows = said && f->ndim == 2 && is_number(f);
  if (!list && !rows) return 0;
  if (!said && shoal_data_names_no_class(c->name)) return 0;
  const bool kinds = f->class == SHOAL_H5_INTEGER || f->class == SHOAL_H5_ENUM || f->class == SHOAL_H5_TEXT;
  if (!kinds && !(f->class == SHOAL_H5_FLOAT && (said || arrays == 2))) return 0;
  return list ? shoal_data_vector_length(f) : f->dims[0];
}

static uint64_t count_numbers(const shoal_h5_facts *f)
{
  uint64_t n = 1;
  for (int i = 0; i < f->ndim; i++) n *= f->dims[i]; /* HDF5 has looked whether they fit */
  return n;
}

/* The likelihood that they belong together, 0: they do not. */
static int rate(const candidate *x, const candidate *y, size_t arrays, bool *turned)
{
  const shoal_h5_facts *f = &x->facts;
  const uint64_t n = count_labels(y, arrays);
  if (x == y || !n || !is_number(f) || f->ndim < 2 || shoal_data_vector_length(f)) return 0;
  if (f->dims[0] != n && f->dims[f->ndim - 1] != n) return 0;
  *turned = f->dims[0] != n;
  return 1 + 8 * shoal_data_names_label(y->name) + 4 * (shoal_data_role_of(x->name, true) == SHOAL_ROLE_X) +
         2 * !*turned + (y->facts.class != SHOAL_H5_FLOAT);
}

static bool find_pair(const candidates *c, bool test, pair *out)
{
  size_t arrays = 0;
  int best = 0;
  for (size_t i = 0; i < c->n; i++) arrays += c->all[i].test == test;
  for (size_t i = 0; i < c->n; i++)
    for (size_t k = 0; k < c->n; k++) {
      bool turned;
      if (c->all[i].test != test || c->all[k].test != test) continue;
      const int rating = rate(&c->all[i], &c->all[k], arrays, &turned);
      if (rating < best || rating == 0) continue;
      if (rating == best && count_numbers(&c->all[i].facts) <= count_numbers(&out->x->facts)) continue;
      best = rating;
      *out = (pair){ &c->all[i], &c->all[k], turned };
    }
  return best > 0;
}

/* Whether a tests' pair has samples and labels like those for training. */
static bool are_alike(const pair *a, const pair *b)
{
  const shoal_h5_facts *x = &a->x->facts, *other = &b->x->facts, *y = &a->y->facts;
  const int from = a->turned ? 0 : 1;
  return a->turned == b->turned && x->ndim == other->ndim &&
         memcmp(x->dims + from, other->dims + from, (size_t)(x->ndim - 1) * sizeof *x->dims) == 0 &&
         y->class == b->y->facts.class && y->ndim == b->y->facts.ndim;
}

/* Looks at the labels themselves where their form does not tell. */
static label_form find_form(shoal_h5 file, const candidate *c)
{
  const shoal_h5_facts *f = &c->facts;
  const bool list = shoal_data_vector_length(f) > 0;
  const uint64_t n = count_numbers(f);
  double *y = NULL;
  bool whole = true, one_hot = true;
  shoal_error ignored;
  if (!is_number(f) || (list && f->class == SHOAL_H5_INTEGER) || n > LOOKED_AT) return list ? CLASSES : ONE_HOT;
  shoal_status st = SHOAL_ALLOC(n, &y);
  if (st == SHOAL_OK) st = shoal_h5_read(file, c->name, SHOAL_F64, n, y);
  if (st != SHOAL_OK) shoal_error_take(&ignored);
  for (uint64_t i = 0; st == SHOAL_OK && i < n; i++) whole &= y[i] == floor(y[i]);
  for (uint64_t i = 0; st == SHOAL_OK && !list && i < f->dims[0]; i++)
    one_hot &= shoal_labels_row(f->dims[1], y + i * f->dims[1]) == NULL;
  free(y);
  return list ? (whole ? WHOLE_FLOATS : TARGETS) : one_hot ? ONE_HOT : TARGETS;
}

/* "numpy.concatenate([EXPRESSION for v in [i[n][()] for n in ['train', 'test']]])" */
static void add_arrays(shoal_str *out, const char *expression, const char *first, const char *second)
{
  char one[SHOAL_WORD], other[SHOAL_WORD];
  shoal_str_add(out, "numpy.concatenate([%s for v in [i[n][()] for n in [%s%s%s]]])", expression,
                shoal_python_text(first, one), second ? ", " : "", second ? shoal_python_text(second, other) : "");
}

/* What turns v, an array of samples as it is stored, into one that is read.  Caller frees. */
static char *sample_expression(const pair *p)
{
  const shoal_h5_facts *f = &p->x->facts;
  uint64_t dims[SHOAL_COUNT(f->dims)];
  shoal_fold fold;
  for (int i = 0; i < f->ndim; i++) dims[i] = f->dims[p->turned ? f->ndim - 1 - i : i];
  const char *plain = p->turned ? "v.T" : "v";
  if (!shoal_data_fold(f->ndim, dims, &fold)) return shoal_strdup_printf("%s", plain);
  return p->turned ? shoal_strdup_printf("(lambda v: %s)(v.T)", fold.expression)
                   : shoal_strdup_printf("%s", fold.expression);
}

static char *write_command(const char *path, const pair *train, const pair *test, label_form form)
{
  static const char *const packages[] = { "h5py", "numpy", NULL };
  static const char *const labels[] = { [CLASSES] = "v.ravel()",
                                        [WHOLE_FLOATS] = "v.ravel().astype('i8')",
                                        [ONE_HOT] = "v.argmax(1)",
                                        [TARGETS] = "v.astype('f8')" };
  char from[SHOAL_WORD], to[SHOAL_WORD], *copy = shoal_strdup_printf("%s.plain.h5", path),
                                         *samples = sample_expression(train);
  shoal_python python;
  shoal_str out = { 0 };
  shoal_find_python(packages, &python);
  shoal_str_add(&out, "%s -c \"import h5py, numpy; i = h5py.File(%s); o = h5py.File(%s, 'w'); x = ", python.run,
                shoal_python_text(path, from), shoal_python_text(copy, to));
  add_arrays(&out, samples, train->x->name, test ? test->x->name : NULL);
  shoal_str_add(&out, "; y = ");
  const bool list = form == TARGETS && shoal_data_vector_length(&train->y->facts);
  add_arrays(&out, list ? "v.ravel().astype('f8')" : labels[form], train->y->name, test ? test->y->name : NULL);
  if (form != TARGETS) shoal_str_add(&out, "; u, y = numpy.unique(y, return_inverse=True)");
  if (test)
    shoal_str_add(&out, "; t = numpy.arange(len(y)) >= %" PRIu64,
                  train->x->facts.dims[train->turned ? train->x->facts.ndim - 1 : 0]);
  else
    shoal_str_add(&out, "; t = numpy.random.default_rng(1).permutation(len(y)) < len(y) // 10");
  shoal_str_add(
      &out,
      "; [o.create_dataset(a + b, data=v[m]) for a, m in [('train', ~t), ('test', t)] for b, v in [('/x', x), "
      "('/%s', y)] if m.any()]",
      form == TARGETS ? "targets" : "y");
  if (form != TARGETS)
    shoal_str_add(&out, "; o.attrs['class_names'] = '\\n'.join(v.decode() if isinstance(v, bytes) else str(v) for v in "
                        "u).encode()");
  shoal_str_add(&out, "\"%s%s", python.needs[0] ? "  # " : "", python.needs);
  free(copy);
  free(samples);
  return out.text;
}

char *shoal_data_pair_command(shoal_h5 file, const char *path)
{
  candidates c = { .file = file };
  pair train, test;
  shoal_error ignored;
  char *text = NULL, x[96], y[96];
  shoal_status st = SHOAL_ALLOC(MOST, &c.all);
  if (st == SHOAL_OK) st = shoal_h5_list(file, visit, &c);
  if (st != SHOAL_OK) shoal_error_take(&ignored);
  if (st == SHOAL_OK && find_pair(&c, false, &train)) {
    const bool tests = find_pair(&c, true, &test) && are_alike(&train, &test);
    const label_form form = find_form(file, train.y);
    char *command = write_command(path, &train, tests ? &test : NULL, form);
    text = shoal_strdup_printf("if /%s are the samples and /%s %s, this writes %s.plain.h5, which is read%s: %s",
                               shoal_show(train.x->name, x, sizeof x), shoal_show(train.y->name, y, sizeof y),
                               form == TARGETS ? "the numbers to be predicted" : "their classes", path,
                               tests ? "" : ", with a tenth of them for tests", command);
    free(command);
  }
  free(c.all);
  return text;
}
