/* Samples that stay a rank's own: shards are disjoint and cover the split, every epoch has them in another order, sorted
 * shards split the labels into runs, and a seek finds the same samples again. */
#include "base/mem.h"
#include "data/loader.h"
#include "data_temp.h"

enum { N = 203, CLASSES = 5, BATCH = 16 };

/* Labels in no order of any kind. */
static int32_t label_of(uint64_t i)
{
  return (int32_t)(i * i % 7 % CLASSES);
}

static void fill(uint64_t i, void *x, int32_t *y)
{
  float *f = x;
  f[0] = (float)i;
  f[1] = 1;
  *y = label_of(i);
}

static shoal_dataset *set;

static shoal_loader *make(int rank, int size, shoal_shard shard, bool shuffle, int depth)
{
  shoal_loader_config c = { .split = SHOAL_TRAIN,
                            .seed = 9,
                            .rank = rank,
                            .size = size,
                            .batch = BATCH,
                            .share = SHOAL_SHARE_STRIDED,
                            .shard = shard,
                            .shuffle = shuffle,
                            .depth = depth };
  shoal_loader *l = NULL;
  REQUIRE(shoal_loader_create(set, &c, &l) == SHOAL_OK, "rank %d of %d", rank, size);
  return l;
}

/* One epoch's samples in order; returns how many. */
static uint64_t epoch_of(shoal_loader *l, uint64_t epoch, uint64_t *ids)
{
  uint64_t n = 0;
  const shoal_batch *b;
  REQUIRE(shoal_loader_seek(l, epoch, 0) == SHOAL_OK, "seek");
  for (;;) {
    REQUIRE(shoal_loader_next(l, &b) == SHOAL_OK, "next");
    if (!b) return n;
    for (int64_t i = 0; i < b->n; i++) {
      CHECK_EQ(b->y[i], label_of(b->ids[i]), "label of %d", (int)b->ids[i]);
      ids[n++] = b->ids[i];
    }
  }
}

static void check_shards(int size, shoal_shard shard, bool shuffle)
{
  static uint64_t ids[N], later[N];
  int owner[N], last_label = 0;
  for (int i = 0; i < N; i++) owner[i] = -1;
  for (int rank = 0; rank < size; rank++) {
    shoal_loader *l = make(rank, size, shard, shuffle, rank % 2 * 3);
    uint64_t n = epoch_of(l, 0, ids), moved = 0;
    int32_t low = CLASSES, high = 0;
    CHECK_EQ(n, shoal_loader_samples(l));
    for (uint64_t i = 0; i < n; i++) {
      CHECK_LT(owner[ids[i]], 0, "sample %d is in two shards", (int)ids[i]);
      owner[ids[i]] = rank;
      low = SHOAL_MIN(low, label_of(ids[i]));
      high = SHOAL_MAX(high, label_of(ids[i]));
    }
    CHECK_EQ(epoch_of(l, 5, later), n, "epoch 5");
    for (uint64_t i = 0; i < n; i++) {
      moved += later[i] != ids[i];
      CHECK_EQ(owner[later[i]], rank, "sample %d came from elsewhere", (int)later[i]);
    }
    CHECK(shuffle ? moved > n / 2 : moved == 0, "%d of %d samples moved", (int)moved, (int)n);
    if (shard == SHOAL_SHARD_SORTED) CHECK_GE(low, last_label, "rank %d", rank);
    last_label = high;
    const shoal_batch *b;
    CHECK_OK(shoal_loader_seek(l, 5, 21)); /* in mid-epoch, between batches */
    CHECK_OK(shoal_loader_next(l, &b));
    CHECK_EQ(b->ids[0], later[21]);
    CHECK_EQ(b->slot0, (uint64_t)rank * BATCH);
    shoal_loader_destroy(l);
  }
  for (int i = 0; i < N; i++) CHECK_GE(owner[i], 0, "sample %d is in no shard", i);
}

/* The fixed shard is what the drawn one is in epoch 0, in an order of its own. */
static void check_first_epoch(void)
{
  static uint64_t drawn[N], fixed[N];
  bool mine[N] = { false };
  shoal_loader *a = make(1, 3, SHOAL_SHARD_DRAWN, true, 0), *b = make(1, 3, SHOAL_SHARD_FIXED, true, 0);
  uint64_t n = epoch_of(a, 0, drawn);
  CHECK_EQ(epoch_of(b, 0, fixed), n);
  for (uint64_t i = 0; i < n; i++) mine[drawn[i]] = true;
  for (uint64_t i = 0; i < n; i++) CHECK(mine[fixed[i]], "sample %d", (int)fixed[i]);
  shoal_loader_destroy(a);
  shoal_loader_destroy(b);
}

int main(void)
{
  temp_make();
  write_set(temp_path("set.h5"), SHOAL_DATA_FEATURES, SHOAL_SHAPE(2), 4, N, 20, CLASSES, fill);
  REQUIRE(shoal_dataset_open(temp_path("set.h5"), &set) == SHOAL_OK, "data set");
  for (int size = 1; size <= 4; size++)
    for (int shard = SHOAL_SHARD_DRAWN + 1; shard <= SHOAL_SHARD_SORTED; shard++) {
      check_shards(size, (shoal_shard)shard, true);
      check_shards(size, (shoal_shard)shard, false);
    }
  check_first_epoch();
  shoal_loader *l = NULL;
  shoal_loader_config shared = { .split = SHOAL_TRAIN, .size = 2, .batch = 8, .shard = SHOAL_SHARD_FIXED };
  CHECK_STATUS(shoal_loader_create(set, &shared, &l), SHOAL_ERR_ARG, "shards of shared batches");
  CHECK(!l);
  shoal_dataset_close(set);
  return check_done();
}
