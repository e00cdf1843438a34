/* Weights of another program whose tensors have other names than this model's: those of the same shape and kind, in their order.
 *
 *     0.weight [16, 8], 0.bias [16], 2.weight [2, 16], 2.bias [2]  ->  fc1.weight, fc1.bias, fc2.weight, fc2.bias
 *
 * Order counts numbers by value, 2 before 10.  Nothing is taken by itself: the command that writes a file with this model's names shows
 * which is taken for which. */
#include "train/weights_names.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/python.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 40 }; /* tensors of a command */

typedef struct {
  const char *name;
  int ndim;
  uint64_t dim[SHOAL_MAX_DIMS];
} wanted;
typedef struct {
  wanted all[MOST];
  size_t n; /* more than MOST: there are too many */
} model_tensors;

static void add(model_tensors *t, const char *name, int ndim, const int64_t *dim)
{
  if (t->n++ >= MOST) return;
  wanted *w = &t->all[t->n - 1];
  *w = (wanted){ .name = name, .ndim = ndim };
  for (int i = 0; i < ndim; i++) w->dim[i] = (uint64_t)dim[i];
}

static void add_stat(void *context, const char *name, size_t offset, size_t count)
{
  (void)offset;
  add(context, name, 1, (int64_t[]){ (int64_t)count });
}

/* As strcmp, but runs of digits by their value. */
static int by_name(const void *a, const void *b)
{
  const char *p = (*(const shoal_given_tensor *const *)a)->name, *q = (*(const shoal_given_tensor *const *)b)->name;
  while (*p && *q) {
    if (isdigit((unsigned char)*p) && isdigit((unsigned char)*q)) {
      char *p_end, *q_end;
      const unsigned long long x = strtoull(p, &p_end, 10), y = strtoull(q, &q_end, 10);
      if (x != y) return (x > y) - (x < y);
      p = p_end;
      q = q_end;
    } else if (*p != *q)
      break;
    else {
      p++;
      q++;
    }
  }
  return (unsigned char)*p - (unsigned char)*q;
}

/* "weight" of "seq.0.weight" */
static const char *kind_of(const char *name)
{
  const char *dot = strrchr(name, '.');
  return dot ? dot + 1 : name;
}

static bool is_alike(const shoal_given_tensor *t, const wanted *w)
{
  return t->ndim == w->ndim && memcmp(t->dim, w->dim, (size_t)w->ndim * sizeof *w->dim) == 0 &&
         strcmp(kind_of(t->name), kind_of(w->name)) == 0;
}

/* "'0.weight': 'fc1.weight', ..."; false if a tensor of the model has none. */
static bool list_pairs(const shoal_given_tensor **sorted, size_t n, const model_tensors *m, shoal_str *out)
{
  char from[SHOAL_WORD], to[SHOAL_WORD];
  for (size_t k = 0; k < m->n; k++) {
    size_t i = 0;
    while (i < n && !(sorted[i] && is_alike(sorted[i], &m->all[k]))) i++;
    if (i == n) return false;
    shoal_str_add(out, "%s%s: %s", k ? ", " : "", shoal_python_text(sorted[i]->name, from),
                  shoal_python_text(m->all[k].name, to));
    sorted[i] = NULL;
  }
  return true;
}

static char *write_command(const char *path, const char *pairs, const char *to_path)
{
  static const char *const packages[] = { NULL };
  char from[SHOAL_WORD], to[SHOAL_WORD];
  shoal_python python;
  shoal_find_python(packages, &python);
  return shoal_strdup_printf(
      "%s -c \"import json; d = open(%s, 'rb').read(); n = int.from_bytes(d[:8], 'little'); h = json.loads(d[8:8 + "
      "n]); m = "
      "{%s}; b = bytearray(); o = {k: h[k] for k in h if k == '__metadata__'}; [(o.update({m[k]: {**h[k], "
      "'data_offsets': [len(b), len(b) + e - s]}}), "
      "b.extend(d[8 + n "
      "+ s:8 + n + e])) for k in m for s, e in [h[k]['data_offsets']]]; j = json.dumps(o).encode(); open(%s, "
      "'wb').write(len(j).to_bytes(8, 'little') + j + b)\"",
      python.run, shoal_python_text(path, from), pairs, shoal_python_text(to_path, to));
}

char *shoal_weights_rename(const shoal_model *m, const shoal_given *g)
{
  const shoal_given_tensor *t, **sorted = NULL;
  const size_t n = shoal_given_tensors(g, &t);
  const char *path = shoal_given_path(g), *end = strrchr(path, '.');
  model_tensors model = { .n = 0 };
  shoal_str pairs = { 0 };
  char *text = NULL;
  shoal_error ignored;
  for (int i = 0; i < m->params; i++) add(&model, m->param[i].name, m->param[i].shape.ndim, m->param[i].shape.dim);
  shoal_model_each_stat(m, add_stat, &model);
  if (model.n > MOST || !end || strcmp(end, ".safetensors") != 0) return NULL;
  if (SHOAL_ALLOC(n + 1, &sorted) != SHOAL_OK) {
    shoal_error_take(&ignored);
    return NULL;
  }
  for (size_t i = 0; i < n; i++) sorted[i] = &t[i];
  qsort(sorted, n, sizeof *sorted, by_name);
  if (list_pairs(sorted, n, &model, &pairs)) {
    char *to = shoal_strdup_printf("%.*s-named.safetensors", (int)(end - path), path);
    char *command = write_command(path, pairs.text, to);
    text = shoal_strdup_printf("by their shapes and order this names them so, into %s: %s", to, command);
    free(command);
    free(to);
  }
  free(sorted);
  shoal_str_free(&pairs);
  return text;
}
