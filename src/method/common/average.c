/* See average.h. */
#include "method/common/average.h"
#include "base/mem.h"
#include "data/loader.h"
#include <stdlib.h>

/* ---- running statistics over several batches or ranks ---- */

typedef struct {
  double *sum; /* sums of means; for variances, of second moments */
  const shoal_host_float *stats;
  size_t mean_offset; /* of the mean that belongs to the current variance */
  bool is_var;
} moments;

/* Visited in pairs: all running means of a layer, then all its variances. */
static void add_moments(void *ctx, const char *name, size_t offset, size_t count)
{
  moments *m = ctx;
  for (size_t i = 0; i < count; i++) {
    double mean = m->is_var ? m->stats[m->mean_offset + i] : 0;
    m->sum[offset + i] += m->stats[offset + i] + mean * mean;
  }
  m->mean_offset = offset;
  m->is_var = !m->is_var;
}

typedef struct {
  const double *sum;
  shoal_host_float *out;
  size_t mean_offset;
  bool is_var;
} finished;

static void finish_moments(void *ctx, const char *name, size_t offset, size_t count)
{
  finished *f = ctx;
  for (size_t i = 0; i < count; i++) {
    double mean = f->is_var ? f->sum[f->mean_offset + i] : 0;
    f->out[offset + i] = (float)(f->sum[offset + i] - mean * mean);
  }
  f->mean_offset = offset;
  f->is_var = !f->is_var;
}

void shoal_moments_add(const shoal_model *m, const shoal_host_float *stats, double *sum)
{
  shoal_model_each_stat(m, add_moments, &(moments){ .sum = sum, .stats = stats });
}

void shoal_moments_mean(const shoal_model *m, double *sum, double n, shoal_host_float *stats)
{
  for (size_t i = 0; i < m->stats; i++) sum[i] /= n;
  shoal_model_each_stat(m, finish_moments, &(finished){ .sum = sum, .out = stats });
}

static shoal_status add_to_sum(shoal_backend *b, const shoal_model *m, const float *stats, double *sum)
{
  shoal_window w;
  SHOAL_TRY(shoal_window_open(b, SHOAL_WINDOW_READ, m->stats, stats, &w));
  shoal_moments_add(m, w.at, sum);
  return shoal_window_close(b, &w);
}

static shoal_status take_mean(shoal_backend *b, const shoal_model *m, double *sum, double n, float *out)
{
  shoal_window w;
  SHOAL_TRY(shoal_window_open(b, SHOAL_WINDOW_WRITE, m->stats, out, &w));
  shoal_moments_mean(m, sum, n, w.at);
  return shoal_window_close(b, &w);
}

shoal_status shoal_mean_stats(shoal_backend *b, shoal_group *control, const shoal_model *m, const float *stats,
                              float *out)
{
  int size = shoal_group_size(control);
  if (m->stats == 0) return SHOAL_OK;
  if (size == 1) return b->ops->copy(b, m->stats * sizeof *out, stats, out); /* bitwise: moments would round */
  double *sum;
  SHOAL_TRY(SHOAL_ALLOC(m->stats, &sum));
  shoal_status st = add_to_sum(b, m, stats, sum);
  if (st == SHOAL_OK) st = shoal_group_sum_f64(control, sum, m->stats);
  if (st == SHOAL_OK) st = take_mean(b, m, sum, size, out);
  free(sum);
  return st;
}

/* ---- whole models ---- */

shoal_status shoal_model_sum_take(shoal_model_sum *s, shoal_form *f, float *out)
{
  float *sum = f->params->g;
  size_t n = f->params->n;
  if (!s->exchange)
    SHOAL_TRY(shoal_exchange_create_sum(s->control, "models", n, SHOAL_WIRE_F32, SHOAL_SUM_AUTO, &s->exchange));
  SHOAL_TRY(shoal_exchange_start(s->exchange, sum, shoal_backend_mark(s->backend)));
  SHOAL_TRY(shoal_exchange_wait(s->exchange));
  return s->backend->ops->copy(s->backend, n * sizeof *out, sum, out);
}

shoal_status shoal_model_sum_weighted(shoal_model_sum *s, shoal_form *f, double weight, float *out)
{
  const shoal_params *p = f->params;
  SHOAL_TRY(s->backend->ops->scale(s->backend, p->n, weight, p->w, NULL, NULL, p->g));
  return shoal_model_sum_take(s, f, out);
}

void shoal_model_sum_fini(shoal_model_sum *s)
{
  shoal_exchange_destroy(s->exchange);
  s->exchange = NULL;
}

shoal_status shoal_broadcast_arena(shoal_backend *b, shoal_group *g, float *x, size_t n, int root)
{
  shoal_window w;
  bool sends = shoal_group_rank(g) == root;
  SHOAL_TRY(shoal_window_open(b, sends ? SHOAL_WINDOW_READ : SHOAL_WINDOW_WRITE, n, x, &w));
  shoal_status st = shoal_group_broadcast(g, w.at, n * sizeof *x, root);
  if (st == SHOAL_OK) return shoal_window_close(b, &w);
  shoal_window_drop(&w);
  return st;
}

/* ---- samples ---- */

uint64_t shoal_node_samples(const shoal_world *w, uint64_t total)
{
  const shoal_topo *t = shoal_world_topo(w);
  uint64_t sum = 0, first, count;
  for (int rank = 0; rank < t->size; rank++) {
    if (t->places[rank].node != shoal_world_place(w)->node) continue;
    shoal_share_of(total, rank, t->size, &first, &count);
    sum += count;
  }
  return sum;
}
