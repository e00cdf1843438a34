/* What is summed over the ranks' arrays, and cut into slices: the model of a method whose ranks train models of their own.
 *
 * A sum over the links would hold up the training, and every rank would get what rank 0 alone writes.  But each rank's arrays go to
 * its shard anyway, so the thread that writes the main file reads them there, when it has seen that the shard is finished:
 *
 *     total ← Σ_i weight · factor_i · array_i      rank 0's arrays, and others that the main file has; then shard by shard
 *
 * Ranks that have equal arrays count together, with the sum of their weights: so the mean of equal arrays is that array. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "ckpt/together/together_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROOT = SHOAL_CKPT_ROOT, PIECE = 1 << 20 /* elements that are read at once */ };

void shoal_ckpt_sum_free(shoal_ckpt_total *s)
{
  free(s->weight);
  free(s->total);
  *s = (shoal_ckpt_total){ 0 };
}

/* Finds the terms among the replicas: f32, and as long as the slices reach on every rank. */
static shoal_status find_terms(shoal_ckpt_writer *c)
{
  shoal_ckpt_total *s = &c->sum;
  const size_t p = (size_t)c->size;
  for (int k = 0; k < s->of.terms; k++) {
    const char *name = s->of.term[k].name;
    size_t i = 0;
    while (i < c->n_replicas && strcmp(shoal_ckpt_replica(c, i)->name, name) != 0) i++;
    SHOAL_CHECK(i < c->n_replicas && shoal_ckpt_replica(c, i)->type == SHOAL_F32, SHOAL_ERR_ARG,
                "a checkpoint is to have sums of replica/K/%s, which is not put as f32", name);
    for (size_t r = 0; r < p; r++)
      SHOAL_CHECK(c->replicas.length[i * p + r] == s->n, SHOAL_ERR_ARG,
                  "replica/%zu/%s has %" PRIu64 " elements, but sums have %" PRIu64, r, name,
                  c->replicas.length[i * p + r], s->n);
    s->index[k] = i;
  }
  return SHOAL_OK;
}

/* @param share  [size] weights of the ranks */
static shoal_status join_weights(shoal_ckpt_writer *c, const double *share)
{
  shoal_ckpt_total *s = &c->sum;
  const size_t p = (size_t)c->size;
  SHOAL_TRY(SHOAL_ALLOC((size_t)s->of.terms * p, &s->weight));
  for (size_t k = 0; k < (size_t)s->of.terms; k++)
    for (size_t r = 0; r < p; r++) s->weight[k * p + (size_t)c->replicas.first[s->index[k] * p + r]] += share[r];
  return shoal_alloc((size_t)s->n, sizeof *s->total, "a checkpoint's sum over ranks", (void **)&s->total);
}

shoal_status shoal_ckpt_sum_plan(shoal_ckpt_writer *c)
{
  shoal_ckpt_total *s = &c->sum;
  double *share = NULL;
  uint64_t *sizes = NULL;
  if (s->of.terms == 0) return SHOAL_OK;
  shoal_status st = SHOAL_OK;
  if (c->rank == ROOT) {
    st = find_terms(c);
    if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)c->size, &share);
    if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)c->size, &sizes);
  }
  SHOAL_TRY_GOTO(st, shoal_group_settle(c->group, st), end);
  for (int r = 0; sizes && r < c->size; r++) sizes[r] = sizeof *share;
  SHOAL_TRY_GOTO(st, shoal_group_gather(c->group, &s->of.weight, sizeof *share, sizes, share, ROOT), end);
  st = shoal_group_settle(c->group, c->rank == ROOT ? join_weights(c, share) : SHOAL_OK);
end:
  free(share);
  free(sizes);
  return st;
}

static float factor_of(const shoal_ckpt_writer *c, int term, int rank)
{
  return (float)(c->sum.of.term[term].factor * c->sum.weight[(size_t)term * (size_t)c->size + (size_t)rank]);
}

static void add(float factor, const float *x, size_t n, float *to)
{
  for (size_t i = 0; i < n; i++) to[i] += factor * x[i];
}

/* Whether an array of a rank is in a place under that rank's name first. */
static bool is_at(const shoal_ckpt_writer *c, int term, int rank, shoal_ckpt_place place)
{
  return c->replicas.place[c->sum.index[term] * (size_t)c->size + (size_t)rank] == place;
}

void shoal_ckpt_sum_gathered(shoal_ckpt_writer *c)
{
  const shoal_ckpt_total *s = &c->sum;
  for (int r = 0; r < c->size; r++)
    for (int k = 0; k < s->of.terms; k++) {
      if (!is_at(c, k, r, SHOAL_CKPT_BY_ROOT)) continue;
      const size_t i = s->index[k];
      const void *x = r == ROOT ? shoal_ckpt_replica(c, i)->data : c->replicas.at[i * (size_t)c->size + (size_t)r];
      add(factor_of(c, k, r), x, (size_t)s->n, s->total);
    }
}

/* Adds an array that is read in pieces, and compares its checksum. */
static shoal_status add_from(shoal_ckpt_writer *c, float factor, const shoal_ckpt *shard, const shoal_ckpt_entry *e,
                             float *piece)
{
  uint32_t crc = 0;
  for (uint64_t at = 0; at < e->n; at += PIECE) {
    const size_t n = (size_t)SHOAL_MIN((uint64_t)PIECE, e->n - at);
    SHOAL_TRY(shoal_ckpt_get_part(shard, e, at, n, piece));
    crc = shoal_crc32c(crc, piece, n * sizeof *piece);
    add(factor, piece, n, c->sum.total + at);
  }
  SHOAL_CHECK(crc == e->crc, SHOAL_ERR_IO,
              "%s: data set %s is damaged: checksum %08" PRIx32 " was written, %08" PRIx32 " is read",
              shoal_ckpt_path(shard), e->name, e->crc, crc);
  return SHOAL_OK;
}

shoal_status shoal_ckpt_sum_shard(shoal_ckpt_writer *c, int rank, const shoal_ckpt *shard)
{
  float *piece = NULL;
  shoal_status st = c->sum.of.terms ? SHOAL_ALLOC(PIECE, &piece) : SHOAL_OK;
  for (int k = 0; st == SHOAL_OK && k < c->sum.of.terms; k++) {
    if (!is_at(c, k, rank, SHOAL_CKPT_IN_SHARD)) continue;
    char *name = shoal_ckpt_replica_name(rank, c->sum.of.term[k].name);
    const shoal_ckpt_entry *e = shoal_ckpt_index_find(shoal_ckpt_get_index(shard), name);
    if (e && e->type == SHOAL_F32 && e->n == c->sum.n)
      st = add_from(c, factor_of(c, k, rank), shard, e, piece);
    else
      st = SHOAL_FAIL(SHOAL_ERR_IO, "%s has no %s as this save put it", shoal_ckpt_path(shard), name);
    free(name);
  }
  free(piece);
  return st;
}

shoal_status shoal_ckpt_sum_write(shoal_ckpt_writer *c)
{
  for (uint64_t i = 0; c->sum.of.terms && i < c->sum.n; i++)
    SHOAL_CHECK(isfinite(c->sum.total[i]), SHOAL_ERR_NUMERIC,
                "no checkpoint %s: the model, summed over the ranks, is not finite in number %" PRIu64 " of %" PRIu64,
                c->path, i, c->sum.n);
  for (size_t k = 0; k < c->n; k++) {
    const shoal_ckpt_item *x = &c->item[k];
    if (!x->slice) continue;
    SHOAL_TRY(shoal_ckpt_draft_put(&c->draft, x->name, x->type, x->ndim, x->dims, c->sum.total + x->first));
  }
  return SHOAL_OK;
}
