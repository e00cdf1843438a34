/* Which rank writes which array.
 *
 * Replicas that are equal are written once.  Which ones are is seen in the arrays: every rank hashes its own (XXH3, 128 bits), and
 * rank 0 sorts the hashes.  Two different arrays have the same hash once in 10^38 times, which is rarer than a flipped bit that no
 * checksum finds.
 *
 *   array of rank 0, or of all           main file
 *   one that equals a lower rank's       another name of that one, in the file that has it
 *   others, if there is little of them   sent to rank 0, main file
 *   others, if there is more             those beyond SMALL: the rank's own shard
 *
 * Only rank 0 knows of all ranks' arrays, 36 bytes of each; the others are told what is theirs to do. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/together/together_impl.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 64 << 10, ALIGNED = 8, ROOT = SHOAL_CKPT_ROOT };

/* What rank 0 is told of an array. */
typedef struct {
  uint64_t n, hash[2]; /* elements; of the array's bytes */
  uint32_t name_crc;
  int32_t type;
} announcement;

/* What a rank is told: its words (place, number of other names, their ranks: for each replica) follow. */
typedef struct {
  char save[40];
  uint64_t most;  /* bytes that one rank writes */
  uint32_t words; /* int32 each */
  uint32_t shard; /* 0: none */
} order;
_Static_assert(SHOAL_CKPT_SAVE <= 40, "a save's number fits");

char *shoal_ckpt_replica_name(int rank, const char *name)
{
  return shoal_strdup_printf("replica/%d/%s", rank, name);
}

shoal_ckpt_item *shoal_ckpt_replica(const shoal_ckpt_writer *c, size_t i)
{
  for (size_t k = 0;; k++)
    if (c->item[k].replica && i-- == 0) return &c->item[k];
}

void shoal_ckpt_replicas_free(shoal_ckpt_replicas *r)
{
  free(r->first);
  free(r->place);
  free(r->length);
  free(r->at);
  free(r->gathered);
  *r = (shoal_ckpt_replicas){ 0 };
}

/* ---- rank 0 looks at all ---- */

typedef struct {
  const announcement *all;
  size_t stride, i; /* that of rank r is all[r * stride + i] */
} column;

static const announcement *of_rank(const column *x, int32_t rank)
{
  return &x->all[(size_t)rank * x->stride + x->i];
}

static int compare_arrays(const announcement *a, const announcement *b)
{
  if (a->n != b->n) return a->n < b->n ? -1 : 1;
  return memcmp(a->hash, b->hash, sizeof a->hash);
}

static int by_array(const void *a, const void *b, void *column_of)
{
  int32_t p = *(const int32_t *)a, q = *(const int32_t *)b;
  int by = compare_arrays(of_rank(column_of, p), of_rank(column_of, q));
  return by ? by : (p > q) - (p < q);
}

/* first[r]: the lowest rank whose array is equal to that of rank r.  `rank` [size] is scratch. */
static void find_first(column *x, int size, int32_t *rank, int32_t *first)
{
  for (int r = 0; r < size; r++) rank[r] = r;
  qsort_r(rank, (size_t)size, sizeof *rank, by_array, x);
  for (int k = 0; k < size; k++) {
    bool same = k > 0 && compare_arrays(of_rank(x, rank[k - 1]), of_rank(x, rank[k])) == 0;
    first[rank[k]] = same ? first[rank[k - 1]] : rank[k];
  }
}

static shoal_status compare_names(const shoal_ckpt_writer *c, const announcement *all)
{
  const size_t n = c->n_replicas;
  for (int r = 1; r < c->size; r++)
    for (size_t i = 0; i < n; i++) {
      const announcement *mine = &all[i], *theirs = &all[(size_t)r * n + i];
      if (mine->name_crc != theirs->name_crc || mine->type != theirs->type)
        return SHOAL_FAIL(SHOAL_ERR_ARG, "rank %d writes another array into the checkpoint than rank 0 (here: %s, %s)",
                          r, shoal_ckpt_replica(c, i)->name, shoal_dtype_name(shoal_ckpt_replica(c, i)->type));
    }
  return SHOAL_OK;
}

static size_t width_of(const shoal_ckpt_writer *c, size_t i)
{
  return shoal_dtype_size(shoal_ckpt_replica(c, i)->type);
}

/* Sets first, length and place of all. */
static shoal_status place_all(shoal_ckpt_writer *c, const announcement *all, uint64_t gather)
{
  shoal_ckpt_replicas *x = &c->replicas;
  const size_t n = c->n_replicas, p = (size_t)c->size;
  uint64_t foreign = 0;
  int32_t *rank = NULL;
  SHOAL_TRY(compare_names(c, all));
  SHOAL_TRY(SHOAL_ALLOC(n * p, &x->first));
  SHOAL_TRY(SHOAL_ALLOC(n * p, &x->length));
  SHOAL_TRY(SHOAL_ALLOC(n * p, &x->place));
  SHOAL_TRY(SHOAL_ALLOC(n * p, &x->at));
  SHOAL_TRY(SHOAL_ALLOC(p, &rank));
  for (size_t i = 0; i < n; i++) {
    find_first(&(column){ all, n, i }, c->size, rank, &x->first[i * p]);
    for (size_t r = 0; r < p; r++) {
      x->length[i * p + r] = all[r * n + i].n;
      if (r > 0 && x->first[i * p + r] == (int32_t)r) foreign += all[r * n + i].n * width_of(c, i);
    }
  }
  free(rank);
  const uint64_t limit = foreign <= gather ? UINT64_MAX : SHOAL_MIN(gather, (uint64_t)SMALL);
  for (size_t k = 0; k < n * p; k++)
    if (x->first[k] == (int32_t)(k % p))
      x->place[k] =
          k % p == ROOT || x->length[k] * width_of(c, k / p) <= limit ? SHOAL_CKPT_BY_ROOT : SHOAL_CKPT_IN_SHARD;
  return SHOAL_OK;
}

bool shoal_ckpt_has_shard(const shoal_ckpt_writer *c, int rank)
{
  const size_t p = (size_t)c->size;
  for (size_t i = 0; i < c->n_replicas; i++)
    if (c->replicas.place[i * p + (size_t)rank] == SHOAL_CKPT_IN_SHARD) return true;
  return false;
}

/* Numbers the shards, and the bytes that each rank writes: of rank 0 besides what it has itself. */
static void number_shards(shoal_ckpt_writer *c, order *orders, uint64_t *most)
{
  const shoal_ckpt_replicas *x = &c->replicas;
  const size_t n = c->n_replicas, p = (size_t)c->size;
  uint64_t root = 0;
  *most = 0;
  for (size_t k = 0; k < c->n; k++) root += c->item[k].replica ? 0 : c->item[k].bytes;
  for (size_t r = 0; r < p; r++) {
    uint64_t own = 0;
    for (size_t i = 0; i < n; i++) {
      uint64_t bytes = x->length[i * p + r] * width_of(c, i);
      if (x->place[i * p + r] == SHOAL_CKPT_IN_SHARD) own += bytes;
      if (x->place[i * p + r] == SHOAL_CKPT_BY_ROOT) root += bytes;
    }
    orders[r].shard = own ? ++c->n_shards : 0;
    *most = SHOAL_MAX(*most, own);
  }
  *most = SHOAL_MAX(*most, root);
}

/* The words for all ranks: [place, number of other names, their ranks] for each of n replicas; offset [size + 1]. */
static shoal_status write_words(const shoal_ckpt_writer *c, size_t *offset, int32_t **out)
{
  const shoal_ckpt_replicas *x = &c->replicas;
  const size_t n = c->n_replicas, p = (size_t)c->size;
  size_t *names = NULL, *at = NULL; /* [n, size] other names of an array; where the next one's rank goes */
  int32_t *word = NULL;
  shoal_status st = SHOAL_ALLOC(n * p, &names);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(n * p, &at);
  for (size_t k = 0; st == SHOAL_OK && k < n * p; k++) {
    size_t of = k / p * p + (size_t)x->first[k];
    if (of != k && x->place[of] == SHOAL_CKPT_IN_SHARD) names[of]++;
  }
  size_t total = 0;
  for (size_t r = 0; st == SHOAL_OK && r < p; r++) {
    offset[r] = total;
    for (size_t i = 0; i < n; i++) {
      at[i * p + r] = total + 2;
      total += 2 + names[i * p + r];
    }
  }
  offset[p] = total;
  if (st == SHOAL_OK) st = SHOAL_ALLOC(total, &word);
  for (size_t k = 0; st == SHOAL_OK && k < n * p; k++) {
    word[at[k] - 2] = (int32_t)x->place[k];
    word[at[k] - 1] = (int32_t)names[k];
  }
  for (size_t k = 0; st == SHOAL_OK && k < n * p; k++) {
    size_t of = k / p * p + (size_t)x->first[k];
    if (of != k && x->place[of] == SHOAL_CKPT_IN_SHARD) word[at[of]++] = (int32_t)(k % p);
  }
  free(names);
  free(at);
  *out = word;
  return st;
}

/* ---- all ranks ---- */

static void announce(const shoal_ckpt_writer *c, announcement *mine)
{
  for (size_t k = 0; k < c->n; k++) {
    const shoal_ckpt_item *x = &c->item[k];
    if (!x->replica) continue;
    *mine++ = (announcement){ .n = x->n,
                              .hash = { x->hash[0], x->hash[1] },
                              .name_crc = shoal_crc32c(0, x->name, strlen(x->name)),
                              .type = (int32_t)x->type };
  }
}

/* Rank 0 gets everybody's announcements, rank by rank. */
static shoal_status gather_announcements(shoal_ckpt_writer *c, announcement **all)
{
  announcement *mine = NULL;
  uint64_t *sizes = NULL;
  int64_t count[2] = { (int64_t)c->n_replicas, -(int64_t)c->n_replicas };
  *all = NULL;
  SHOAL_TRY(shoal_group_max_i64(c->group, count, SHOAL_COUNT(count)));
  shoal_status st = SHOAL_OK;
  if (count[0] != -count[1] && (int64_t)c->n_replicas != count[0])
    st = SHOAL_FAIL(SHOAL_ERR_ARG, "rank %d puts %zu arrays of its own into the checkpoint, another one %lld", c->rank,
                    c->n_replicas, (long long)count[0]);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(c->n_replicas, &mine);
  if (st == SHOAL_OK && c->rank == ROOT) st = SHOAL_ALLOC(c->n_replicas * (size_t)c->size, all);
  if (st == SHOAL_OK && c->rank == ROOT) st = SHOAL_ALLOC((size_t)c->size, &sizes);
  st = shoal_group_settle(c->group, st);
  if (st == SHOAL_OK) {
    announce(c, mine);
    for (int r = 0; sizes && r < c->size; r++) sizes[r] = c->n_replicas * sizeof *mine;
    st = shoal_group_gather(c->group, mine, c->n_replicas * sizeof *mine, sizes, *all, ROOT);
  }
  free(mine);
  free(sizes);
  return st;
}

static shoal_status obey(shoal_ckpt_writer *c, const order *o, const int32_t *word)
{
  c->shard = o->shard;
  memcpy(c->info.save, o->save, sizeof c->info.save);
  c->info.shard = o->shard;
  for (size_t k = 0; k < c->n; k++) {
    shoal_ckpt_item *x = &c->item[k];
    if (!x->replica) continue;
    x->place = (shoal_ckpt_place)word[0];
    x->n_also = (size_t)word[1];
    SHOAL_TRY(SHOAL_ALLOC(x->n_also, &x->also));
    if (x->n_also) memcpy(x->also, word + 2, x->n_also * sizeof *word);
    word += 2 + x->n_also;
  }
  return SHOAL_OK;
}

/* Rank 0 sends `orders` [size] and their words; each rank does its own. */
static shoal_status give_orders(shoal_ckpt_writer *c, order *orders, const int32_t *words, const size_t *offset,
                                uint64_t *most)
{
  order mine = { .shard = 0 };
  int32_t *word = NULL;
  uint64_t *sizes = NULL;
  shoal_status st = c->rank == ROOT ? SHOAL_ALLOC((size_t)c->size, &sizes) : SHOAL_OK;
  SHOAL_TRY_GOTO(st, shoal_group_settle(c->group, st), end);
  for (int r = 0; sizes && r < c->size; r++) sizes[r] = sizeof *orders;
  SHOAL_TRY_GOTO(st, shoal_group_scatter(c->group, orders, sizes, &mine, sizeof mine, ROOT), end);
  SHOAL_TRY_GOTO(st, shoal_group_settle(c->group, SHOAL_ALLOC(mine.words, &word)), end);
  for (int r = 0; sizes && r < c->size; r++) sizes[r] = (offset[r + 1] - offset[r]) * sizeof *word;
  SHOAL_TRY_GOTO(st, shoal_group_scatter(c->group, words, sizes, word, mine.words * sizeof *word, ROOT), end);
  *most = mine.most;
  st = obey(c, &mine, word);
end:
  free(word);
  free(sizes);
  return st;
}

static size_t room_of(uint64_t bytes)
{
  return shoal_round_up((size_t)bytes, ALIGNED);
}

/* Sends this rank's arrays that rank 0 writes; there they come to `gathered`. */
static shoal_status gather_arrays(shoal_ckpt_writer *c)
{
  shoal_ckpt_replicas *x = &c->replicas;
  const size_t n = c->n_replicas, p = (size_t)c->size;
  char *mine = NULL;
  uint64_t *sizes = NULL, own = 0, sum = 0;
  shoal_status st = SHOAL_OK;
  for (size_t k = 0; c->rank != ROOT && k < c->n; k++)
    if (c->item[k].place == SHOAL_CKPT_BY_ROOT) own += room_of(c->item[k].bytes);
  if (c->rank == ROOT) {
    SHOAL_TRY_GOTO(st, SHOAL_ALLOC(p, &sizes), ready);
    for (size_t k = 0; k < n * p; k++)
      if (k % p != ROOT && x->place[k] == SHOAL_CKPT_BY_ROOT)
        sizes[k % p] += room_of(x->length[k] * width_of(c, k / p));
    for (size_t r = 0; r < p; r++) sum += sizes[r];
    SHOAL_TRY_GOTO(st, shoal_alloc((size_t)sum, 1, "arrays of other ranks", (void **)&x->gathered), ready);
  } else {
    st = shoal_alloc((size_t)own, 1, "arrays for rank 0", (void **)&mine);
  }
ready:
  SHOAL_TRY_GOTO(st, shoal_group_settle(c->group, st), end);
  char *to = mine, *from = x->gathered;
  for (size_t k = 0; to && k < c->n; k++) {
    if (c->item[k].place != SHOAL_CKPT_BY_ROOT) continue;
    if (c->item[k].bytes) memcpy(to, c->item[k].data, (size_t)c->item[k].bytes);
    to += room_of(c->item[k].bytes);
  }
  SHOAL_TRY_GOTO(st, shoal_group_gather(c->group, mine, (size_t)own, sizes, x->gathered, ROOT), end);
  for (size_t r = 1; c->rank == ROOT && r < p; r++)
    for (size_t i = 0; i < n; i++) {
      if (x->place[i * p + r] != SHOAL_CKPT_BY_ROOT) continue;
      x->at[i * p + r] = from;
      from += room_of(x->length[i * p + r] * width_of(c, i));
    }
end:
  free(mine);
  free(sizes);
  return st;
}

shoal_status shoal_ckpt_plan(shoal_ckpt_writer *c, uint64_t gather, uint64_t *most)
{
  announcement *all = NULL;
  order *orders = NULL;
  int32_t *words = NULL;
  size_t *offset = NULL;
  shoal_status st = gather_announcements(c, &all);
  if (st != SHOAL_OK) goto end;
  if (c->rank == ROOT) {
    SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)c->size, &orders), told);
    SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)c->size + 1, &offset), told);
    SHOAL_TRY_GOTO(st, place_all(c, all, gather), told);
    SHOAL_TRY_GOTO(st, write_words(c, offset, &words), told);
    number_shards(c, orders, most);
    for (int r = 0; r < c->size; r++) {
      memcpy(orders[r].save, c->draft.index.save, sizeof c->draft.index.save);
      orders[r].most = *most;
      orders[r].words = (uint32_t)(offset[r + 1] - offset[r]);
    }
  }
told:
  SHOAL_TRY_GOTO(st, shoal_group_settle(c->group, st), end);
  SHOAL_TRY_GOTO(st, shoal_group_settle(c->group, give_orders(c, orders, words, offset, most)), end);
  SHOAL_TRY_GOTO(st, shoal_ckpt_sum_plan(c), end);
  st = gather_arrays(c);
  if (st == SHOAL_OK && c->shard) st = shoal_ckpt_draft_open(&c->draft, c->path, &c->info, 0);
  st = shoal_group_settle(c->group, st);
end:
  free(all);
  free(orders);
  free(words);
  free(offset);
  return st;
}
