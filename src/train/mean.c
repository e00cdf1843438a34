/* The mean of an array over all replicas of a checkpoint of another layout.
 *
 * All ranks want the whole mean, of as many arrays as there were ranks.  One that is written once for all of them every rank reads
 * itself.  Of others up to READERS ranks read a part of each array, from
 * the first replica to the last, and send the mean of that part to all: what is read does not grow with the number of ranks now,
 * and the order of additions, so the bits, depends on neither.  The checksum of an array is joined from those of its parts. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "train/session.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { READERS = 64, BATCH = 64 /* arrays whose checksums are compared at once */ };

typedef struct {
  shoal_session *s;
  const shoal_ckpt *c;
  const char *name;
  size_t n, part, first, own; /* elements: of the array, of a part at most; this rank's part */
  int readers, rank;
  const shoal_ckpt_entry *batch[BATCH];
  int64_t sums[BATCH * READERS]; /* checksums of parts */
  int n_batch;
  int replicas, different; /* arrays; those that are not the one before under another name */
  const shoal_ckpt_entry *first_one;
} mean;

/* The array of an old rank, if it has one of that length; a rank of parts has others. */
static const shoal_ckpt_entry *array_of(const mean *m, int64_t rank)
{
  char full[96];
  snprintf(full, sizeof full, "replica/%lld/%s", (long long)rank, m->name);
  const shoal_ckpt_entry *e = shoal_ckpt_index_find(shoal_ckpt_get_index(m->c), full);
  return e && e->type == SHOAL_F32 && e->ndim == 1 && e->dims[0] == m->n ? e : NULL;
}

static void count(mean *m)
{
  const shoal_ckpt_entry *last = NULL;
  for (int64_t k = 0; k < shoal_ckpt_get_info(m->c)->size; k++) {
    const shoal_ckpt_entry *e = array_of(m, k);
    if (!e) continue;
    if (!m->first_one) m->first_one = e;
    m->different += !last || !shoal_ckpt_same_bytes(e, last);
    m->replicas++;
    last = e;
  }
}

/* As many times the same array, added and divided as if they differed. */
static shoal_status read_alone(mean *m, float *out)
{
  shoal_backend *b = m->s->run.backend;
  shoal_memory one;
  SHOAL_TRY(shoal_ckpt_get_arena(m->c, b, m->first_one->name, m->n, out));
  if (m->replicas == 1) return SHOAL_OK;
  SHOAL_TRY(b->ops->alloc(b, SHOAL_MEMORY_DEVICE, m->n * sizeof(float), &one));
  shoal_status st = b->ops->copy(b, m->n * sizeof(float), out, one.at);
  for (int k = 1; st == SHOAL_OK && k < m->replicas; k++) st = b->ops->add(b, m->n, one.at, out);
  if (st == SHOAL_OK) st = b->ops->divide(b, m->n, (float)m->replicas, out);
  b->ops->release(b, &one);
  return st;
}

static size_t part_length(const mean *m, int reader)
{
  size_t first = (size_t)reader * m->part;
  return first < m->n ? SHOAL_MIN(m->part, m->n - first) : 0;
}

/* Collective. */
static shoal_status compare_sums(mean *m)
{
  shoal_status st = shoal_group_sum_i64(m->s->run.control, m->sums, SHOAL_COUNT(m->sums));
  for (int i = 0; st == SHOAL_OK && i < m->n_batch; i++) {
    uint32_t crc = 0;
    for (int r = 0; r < m->readers; r++)
      crc = shoal_crc32c_join(crc, (uint32_t)m->sums[i * READERS + r], part_length(m, r) * sizeof(float));
    if (crc != m->batch[i]->crc)
      st = SHOAL_FAIL(SHOAL_ERR_IO,
                      "%s: data set %s is damaged: checksum %08" PRIx32 " was written, %08" PRIx32
                      " is read, by %d ranks together",
                      shoal_ckpt_path(m->c), m->batch[i]->name, m->batch[i]->crc, crc, m->readers);
  }
  memset(m->sums, 0, sizeof m->sums);
  m->n_batch = 0;
  return st;
}

/* Reads this rank's part into `to`, of the backend, and notes its checksum. */
static shoal_status read_part(mean *m, const shoal_ckpt_entry *e, float *to)
{
  shoal_window w;
  if (m->own == 0) return SHOAL_OK;
  SHOAL_TRY(shoal_window_open(m->s->run.backend, SHOAL_WINDOW_WRITE, m->own, to, &w));
  shoal_status st = shoal_ckpt_get_part(m->c, e, m->first, m->own, w.at);
  m->sums[m->n_batch * READERS + m->rank] = shoal_crc32c(0, w.at, m->own * sizeof *w.at);
  if (st == SHOAL_OK) return shoal_window_close(m->s->run.backend, &w);
  shoal_window_drop(&w);
  return st;
}

/* This rank's part of the sum over all, in rank order, into `sum`; an array that is written once under several names is read
 * once where those follow each other.  `one` is as long.  Collective: ranks compare checksums on the way, also one that has
 * failed. */
static shoal_status add_up(mean *m, float *one, float *sum)
{
  const shoal_backend_ops *ops = m->s->run.backend->ops;
  const shoal_ckpt_entry *last = NULL;
  shoal_status st = SHOAL_OK, compared = SHOAL_OK;
  for (int64_t k = 0; compared == SHOAL_OK && k < shoal_ckpt_get_info(m->c)->size; k++) {
    const shoal_ckpt_entry *e = array_of(m, k);
    if (!e) continue;
    if (!last || !shoal_ckpt_same_bytes(e, last)) {
      if (st == SHOAL_OK) st = read_part(m, e, one);
      m->batch[m->n_batch++] = e;
    }
    last = e;
    if (st == SHOAL_OK && m->own > 0)
      st = e == m->first_one ? ops->copy(m->s->run.backend, m->own * sizeof *sum, one, sum)
                             : ops->add(m->s->run.backend, m->own, one, sum);
    if (m->n_batch < BATCH) continue;
    compared = shoal_group_settle(m->s->run.control, st);
    if (compared == SHOAL_OK) compared = compare_sums(m);
  }
  if (compared != SHOAL_OK) return compared;
  SHOAL_TRY(shoal_group_settle(m->s->run.control, st));
  return compare_sums(m);
}

static shoal_status share_parts(const mean *m, float *out)
{
  shoal_window w;
  shoal_status st = shoal_window_open(m->s->run.backend, SHOAL_WINDOW_BOTH, m->n, out, &w);
  SHOAL_TRY(shoal_group_settle(m->s->run.control, st));
  for (int r = 0; st == SHOAL_OK && m->readers > 1 && r < m->readers; r++)
    st = shoal_group_broadcast(m->s->run.control, w.at + (size_t)r * m->part, part_length(m, r) * sizeof *w.at, r);
  if (st == SHOAL_OK) return shoal_window_close(m->s->run.backend, &w);
  shoal_window_drop(&w);
  return st;
}

shoal_status shoal_session_mean_of_replicas(shoal_session *s, const shoal_ckpt *c, const char *name, size_t n,
                                            float *out, bool *found)
{
  shoal_backend *b = s->run.backend;
  shoal_memory one = { 0 };
  mean *m = NULL;
  shoal_status st = SHOAL_ALLOC(1, &m);
  SHOAL_TRY_GOTO(st, shoal_group_settle(s->run.control, st), end);
  *m = (mean){ .s = s, .c = c, .name = name, .n = n, .rank = shoal_world_rank(s->run.world) };
  m->readers = SHOAL_MIN(shoal_world_size(s->run.world), READERS);
  m->part = shoal_round_up((n + (size_t)m->readers - 1) / (size_t)m->readers, SHOAL_ALIGN / sizeof(float));
  m->own = m->rank < m->readers ? part_length(m, m->rank) : 0;
  m->first = m->own ? (size_t)m->rank * m->part : 0;
  count(m);
  *found = m->replicas > 0;
  if (m->different <= 1) {
    st = shoal_group_settle(s->run.control, *found ? read_alone(m, out) : SHOAL_OK);
    goto end;
  }
  st = b->ops->alloc(b, SHOAL_MEMORY_DEVICE, SHOAL_MAX(m->own, (size_t)1) * sizeof(float), &one);
  SHOAL_TRY_GOTO(st, shoal_group_settle(s->run.control, st), end);
  SHOAL_TRY_GOTO(st, add_up(m, one.at, out + m->first), end);
  SHOAL_TRY_GOTO(st, share_parts(m, out), end);
  st = b->ops->divide(b, n, (float)m->replicas, out);
end:
  if (one.at) b->ops->release(b, &one);
  free(m);
  return st;
}
