/* Writes a checkpoint again in several files, as writers of shards will: every file gets its part of the data sets, shards
 * are finished first, and the main file lists them. */
#ifndef SHOAL_TESTS_CKPT_SPLIT_H
#define SHOAL_TESTS_CKPT_SPLIT_H
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/draft.h"
#include <stdlib.h>

/* Of data sets that share their bytes, the first. */
static inline size_t split_first(const shoal_ckpt_index *x, size_t i)
{
  size_t first = 0;
  while (x->at[i].bytes > 0 && first < i && !shoal_ckpt_same_bytes(&x->at[first], &x->at[i])) first++;
  return x->at[i].bytes > 0 ? first : i;
}

static inline shoal_status split_put(const shoal_ckpt *c, const shoal_ckpt_entry *e, shoal_ckpt_draft *d)
{
  char *data = NULL;
  shoal_status st = shoal_alloc((size_t)e->bytes + 1, 1, "array", (void **)&data);
  if (st == SHOAL_OK) st = shoal_ckpt_get(c, e->name, e->type, e->n, data);
  if (st == SHOAL_OK) st = shoal_ckpt_draft_put(d, e->name, e->type, e->ndim, e->dims, data);
  free(data);
  return st;
}

/* Puts the data sets of file `number` of `files`: every file's share of them, in turn. */
static inline shoal_status split_fill(const shoal_ckpt *c, shoal_ckpt_draft *d, size_t number, size_t files)
{
  const shoal_ckpt_index *x = shoal_ckpt_get_index(c);
  for (size_t i = 0; i < x->n; i++) {
    size_t first = split_first(x, i);
    if (first % files != number) continue;
    if (first < i)
      SHOAL_TRY(shoal_ckpt_draft_link(d, x->at[i].name, x->at[first].name));
    else
      SHOAL_TRY(split_put(c, &x->at[i], d));
  }
  return SHOAL_OK;
}

static inline shoal_status split_shard(const shoal_ckpt *c, const char *to, shoal_ckpt_info *info, size_t files)
{
  shoal_ckpt_draft d = { 0 };
  shoal_status st = shoal_ckpt_draft_open(&d, to, info, 0);
  if (st == SHOAL_OK) st = split_fill(c, &d, info->shard, files);
  if (st == SHOAL_OK) st = shoal_ckpt_draft_finish(&d);
  shoal_ckpt_draft_discard(&d);
  return st;
}

/* The checkpoint `from` again as `to`, in a main file and `shards` shards; stop_after ≥ 0: only that many of them. */
static inline shoal_status split_checkpoint(const char *from, const char *to, int shards, int stop_after)
{
  shoal_ckpt *c = NULL;
  shoal_ckpt_draft main = { 0 };
  shoal_status st = shoal_ckpt_open(from, true, &c);
  if (st != SHOAL_OK) return st;
  shoal_ckpt_info info = *shoal_ckpt_get_info(c);
  const size_t files = (size_t)shards + 1;
  st = shoal_ckpt_draft_open(&main, to, &info, 0);
  if (st == SHOAL_OK) st = split_fill(c, &main, 0, files);
  snprintf(info.save, sizeof info.save, "%s", main.index.save);
  for (int k = 1; st == SHOAL_OK && k <= shards && (stop_after < 0 || k <= stop_after); k++) {
    info.shard = (uint32_t)k;
    st = split_shard(c, to, &info, files);
    shoal_ckpt *shard = NULL;
    if (st == SHOAL_OK) st = shoal_ckpt_draft_attach(&main, &shard);
    shoal_ckpt_close(shard);
  }
  if (st == SHOAL_OK && stop_after < 0) st = shoal_ckpt_draft_finish(&main);
  shoal_ckpt_draft_discard(&main);
  shoal_ckpt_close(c);
  return st;
}
#endif
