/* Which layers become products, and the number of elements of the factors.
 *
 * First and last layer stay whole by default, as in the authors' runs: the first is small, the last computes the class
 * scores.  Every other parameter ("others": biases, norms, exempt layers) is trained by all groups. */
#include "base/mem.h"
#include "base/str.h"
#include "method/ab/ab.h"
#include <stdlib.h>
#include <string.h>

/* The 2-D form: the first dimension against the product of all others; false if one of them is 1. */
static bool as_matrix(const shoal_model *m, int node, shoal_ab_layer *out)
{
  const shoal_node *n = &m->node[node];
  if ((n->kind != SHOAL_OP_LINEAR && n->kind != SHOAL_OP_CONV) || n->weight[0] < 0 || n->tied) return false;
  const shoal_param *p = &m->param[n->weight[0]];
  *out = (shoal_ab_layer){ .node = node, .param = n->weight[0], .rows = p->shape.dim[0] };
  out->cols = (int64_t)p->count / out->rows;
  out->m = SHOAL_MAX(out->rows, out->cols);
  out->n = SHOAL_MIN(out->rows, out->cols);
  return out->n > 1;
}

static bool is_named(const char *name, const char *const *list, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (strcmp(list[i], name) == 0) return true;
  return false;
}

/* Checks that every name is that of a layer that could become a product. */
static shoal_status check_names(const shoal_model *m, const shoal_ab_layers *all, const char *const *exempt, size_t n)
{
  const char **names;
  SHOAL_TRY(SHOAL_ALLOC(all->n + 2, &names));
  for (size_t i = 0; i < all->n; i++) names[i] = m->node[all->layer[i].node].name;
  names[all->n] = "first";
  names[all->n + 1] = "last";
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; i < n && st == SHOAL_OK; i++) {
    if (is_named(exempt[i], names, all->n + 2)) continue;
    const char *near = shoal_nearest(exempt[i], names, all->n + 2);
    st = SHOAL_FAIL(SHOAL_ERR_USAGE,
                    "method.exempt names %s, but model %s has no such linear layer or convolution%s%s; `shoal models` "
                    "shows the layers",
                    exempt[i], m->name, near ? "; did you mean " : "", near ? near : "");
  }
  free(names);
  return st;
}

static bool is_exempt(const shoal_model *m, const shoal_ab_layers *all, size_t i, const char *const *list, size_t n)
{
  return is_named(m->node[all->layer[i].node].name, list, n) || (i == 0 && is_named("first", list, n)) ||
         (i + 1 == all->n && is_named("last", list, n));
}

shoal_status shoal_ab_layers_make(const shoal_model *m, const char *const *exempt, size_t n_exempt,
                                  shoal_ab_layers *out)
{
  shoal_ab_layers all = { .others = m->weights };
  SHOAL_TRY(SHOAL_ALLOC((size_t)m->nodes, &all.layer));
  for (int i = 0; i < m->nodes; i++) all.n += as_matrix(m, i, &all.layer[all.n]);
  shoal_status st = check_names(m, &all, exempt, n_exempt);
  size_t kept = 0;
  for (size_t i = 0; st == SHOAL_OK && i < all.n; i++) {
    shoal_ab_layer l = all.layer[i];
    if (is_exempt(m, &all, i, exempt, n_exempt)) continue;
    all.others -= (size_t)(l.m * l.n);
    all.layer[kept++] = l;
  }
  if (st == SHOAL_OK && all.n == 0)
    st = SHOAL_FAIL(SHOAL_ERR_USAGE,
                    "model %s leaves method ab no layer to make a product of: no linear layer or convolution has two "
                    "sides of more than 1; choose a wider model",
                    m->name);
  else if (st == SHOAL_OK && kept == 0)
    st = SHOAL_FAIL(SHOAL_ERR_USAGE,
                    "model %s leaves method ab no layer to make a product of: all %zu are exempt; shorten "
                    "method.exempt ([] exempts none) or choose a deeper model",
                    m->name, all.n);
  if (st != SHOAL_OK) {
    shoal_ab_layers_free(&all);
    return st;
  }
  all.n = kept;
  *out = all;
  return SHOAL_OK;
}

void shoal_ab_layers_free(shoal_ab_layers *l)
{
  free(l->layer);
  *l = (shoal_ab_layers){ 0 };
}

int64_t shoal_ab_rank_cap(const shoal_ab_layer *l)
{
  return SHOAL_MAX(1, (int64_t)((double)l->m * (double)l->n / (double)(l->m + l->n)));
}

shoal_ab_volume shoal_ab_volume_of(const shoal_ab_layers *l, const int64_t *rank)
{
  shoal_ab_volume v = { .others = l->others };
  for (size_t i = 0; i < l->n; i++) {
    v.weights += (size_t)(l->layer[i].m * l->layer[i].n);
    v.a += (size_t)(l->layer[i].m * rank[i]);
    v.b += (size_t)(l->layer[i].n * rank[i]);
  }
  return v;
}

shoal_status shoal_ab_fit(shoal_backend *b, const float *from, int64_t rows, int64_t cols, float *to, int64_t to_rows,
                          int64_t to_cols)
{
  shoal_tile t = { .rows = (size_t)SHOAL_MIN(rows, to_rows),
                   .cols = (size_t)SHOAL_MIN(cols, to_cols),
                   .width = 1,
                   .grain = 1,
                   .from = { .stride = (size_t)cols },
                   .to = { .stride = (size_t)to_cols } };
  if (to_rows > rows || to_cols > cols) SHOAL_TRY(b->ops->fill(b, (size_t)(to_rows * to_cols), 0, to));
  return b->ops->copy_tile(b, &t, from, to);
}
