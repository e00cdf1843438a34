/* What several methods share beside their own exchanges: running statistics and weights averaged over ranks, and facts of
 * this rank's place. */
#include "base/mem.h"
#include "method/method.h"
#include <stdlib.h>
#include <string.h>

shoal_status shoal_refuse_last_batch(uint64_t samples)
{
  shoal_clear_error();
  return SHOAL_FAIL(
      SHOAL_ERR_USAGE,
      "the epoch's last batch leaves %llu sample%s for a rank, too few to train this model: set data.last "
      "to drop or pad, or choose another batch",
      (unsigned long long)samples, samples == 1 ? "" : "s");
}

/* ---- running statistics over several batches or ranks ---- */

typedef struct {
  double *sum; /* mean in place; for variances the second moment */
  const float *stats;
  size_t mean_offset; /* where the mean of the variance now visited stands */
  bool is_var;
} moments;

/* Statistics come in pairs: all running means of a layer, then all its variances. */
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
  float *out;
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

void shoal_moments_add(const shoal_model *m, const float *stats, double *sum)
{
  shoal_model_each_stat(m, add_moments, &(moments){ .sum = sum, .stats = stats });
}

void shoal_moments_mean(const shoal_model *m, double *sum, double n, float *stats)
{
  for (size_t i = 0; i < m->stats; i++) sum[i] /= n;
  shoal_model_each_stat(m, finish_moments, &(finished){ .sum = sum, .out = stats });
}

shoal_status shoal_mean_stats(shoal_run *r, const shoal_model *m, const float *stats, float *out)
{
  int size = shoal_group_size(r->control);
  if (m->stats == 0) return SHOAL_OK;
  if (size == 1) { /* exactly the own ones: no rounding through moments */
    memcpy(out, stats, m->stats * sizeof *out);
    return SHOAL_OK;
  }
  double *sum;
  SHOAL_TRY(SHOAL_ALLOC(m->stats, &sum));
  shoal_moments_add(m, stats, sum);
  shoal_status st = shoal_group_sum_f64(r->control, sum, m->stats);
  if (st == SHOAL_OK) shoal_moments_mean(m, sum, size, out);
  free(sum);
  return st;
}

shoal_status shoal_sum_models(shoal_run *r, float *out)
{
  float *sum = r->params->g;
  size_t n = r->params->n;
  if (!r->models)
    SHOAL_TRY(shoal_exchange_create_sum(r->control, "models", n, SHOAL_WIRE_F32, SHOAL_SUM_AUTO, &r->models));
  SHOAL_TRY(shoal_exchange_start(r->models, sum));
  SHOAL_TRY(shoal_exchange_wait(r->models));
  memcpy(out, sum, n * sizeof *out);
  return SHOAL_OK;
}

shoal_status shoal_mean_weights(shoal_run *r, double weight, float *out)
{
  const shoal_params *p = r->params;
  for (size_t i = 0; i < p->n; i++) p->g[i] = (float)(weight * p->w[i]);
  return shoal_sum_models(r, out);
}

const shoal_place *shoal_run_place(const shoal_run *r)
{
  return &shoal_world_topo(r->world)->places[shoal_world_rank(r->world)];
}

uint64_t shoal_node_samples(const shoal_run *r, uint64_t total)
{
  const shoal_topo *t = shoal_world_topo(r->world);
  uint64_t sum = 0, first, count;
  for (int rank = 0; rank < t->size; rank++) {
    if (t->places[rank].node != shoal_run_place(r)->node) continue;
    shoal_share_of(total, rank, t->size, &first, &count);
    sum += count;
  }
  return sum;
}
