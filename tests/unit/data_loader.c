/* The order of samples: a bijection per epoch that does not depend on the number of ranks, shares that differ by at most
 * one, every policy for the last batch, and stops and resumes at any place that leave no trace. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/loader.h"
#include "data_temp.h"

enum { N = 1003, SEED = 7, TEST_N = 101, CLASSES = 10 };
static const int rank_counts[] = { 1, 2, 3, 4, 7 };

/* Features that identify the sample; sorted by label, the worst case for training. */
static void fill_sorted(uint64_t i, void *x, int32_t *y)
{
  float *f = x;
  f[0] = (float)i;
  f[1] = (float)(i % 7);
  *y = (int32_t)(i < N ? i * CLASSES / N : i % CLASSES);
}

static void fill_image(uint64_t i, void *x, int32_t *y)
{
  uint8_t *p = x;
  for (int k = 0; k < 3 * 12 * 10; k++) p[k] = (uint8_t)(i * 31 + (uint64_t)k * 7);
  *y = (int32_t)(i % CLASSES);
}

static shoal_dataset *sorted_set, *image_set;

static shoal_loader_config config(int rank, int size, uint64_t batch, int depth)
{
  return (shoal_loader_config){
    .split = SHOAL_TRAIN, .seed = SEED, .rank = rank, .size = size, .batch = batch, .shuffle = true, .depth = depth
  };
}

static shoal_loader *make(shoal_dataset *d, shoal_loader_config c)
{
  shoal_loader *l = NULL;
  REQUIRE(shoal_loader_create(d, &c, &l) == SHOAL_OK, "rank %d of %d", c.rank, c.size);
  return l;
}

static const shoal_batch *next(shoal_loader *l)
{
  const shoal_batch *b = NULL;
  REQUIRE(shoal_loader_next(l, &b) == SHOAL_OK, "next batch");
  return b;
}

/* ---- shares ---- */

static void test_shares(void)
{
  for (uint64_t b = 0; b < 60; b++)
    for (int p = 1; p < 12; p++) {
      uint64_t at = 0, first, count, before = UINT64_MAX;
      for (int r = 0; r < p; r++) {
        shoal_share_of(b, r, p, &first, &count);
        CHECK_EQ(first, at, "b %d r %d p %d", (int)b, r, p);
        CHECK_LE(count, before, "b %d r %d p %d", (int)b, r, p);
        CHECK(before == UINT64_MAX || before - count <= 1, "b %d r %d p %d", (int)b, r, p);
        at += count;
        before = count;
      }
      CHECK_EQ(at, b, "shares of %d over %d", (int)b, p);
    }
}

/* ---- one epoch over all ranks, joined by global position ---- */

/* ids [N + batch] in global order; returns how many.  Checks that every sample is the one its id says. */
static uint64_t join_epoch(shoal_dataset *d, int size, uint64_t batch, shoal_last_batch last, int depth, uint64_t epoch,
                           uint64_t from, uint64_t *ids)
{
  uint64_t end = 0, batches = 0;
  for (int rank = 0; rank < size; rank++) {
    shoal_loader_config c = config(rank, size, batch, depth);
    c.last = last;
    shoal_loader *l = make(d, c);
    uint64_t mine = 0;
    CHECK_OK(shoal_loader_seek(l, epoch, from));
    for (const shoal_batch *b; (b = next(l)); mine++) {
      uint64_t first, count;
      shoal_share_of(b->total, rank, size, &first, &count);
      CHECK_EQ(b->slot0, first, "share of rank %d of %d", rank, size);
      CHECK_EQ((uint64_t)b->n, count, "share of rank %d of %d", rank, size);
      CHECK_EQ(b->epoch, epoch, "share of rank %d of %d", rank, size);
      CHECK_EQ(b->position, from + mine * batch);
      CHECK_LE(b->n, shoal_loader_max_batch(l));
      for (int64_t i = 0; i < b->n; i++) ids[b->position + b->slot0 + (uint64_t)i] = b->ids[i];
      end = SHOAL_MAX(end, b->position + b->total);
    }
    CHECK(rank == 0 || mine == batches, "rank %d has %d batches, rank 0 %d", rank, (int)mine, (int)batches);
    CHECK(from != 0 || mine == shoal_loader_batches(l), "%d batches", (int)mine);
    CHECK(next(l) == NULL, "the end of an epoch stays");
    batches = mine;
    shoal_loader_destroy(l);
  }
  return end;
}

static bool is_bijection(const uint64_t *ids, uint64_t n)
{
  static uint8_t seen[N];
  memset(seen, 0, sizeof seen);
  for (uint64_t i = 0; i < n; i++) {
    if (ids[i] >= N || seen[ids[i]]) return false;
    seen[ids[i]] = 1;
  }
  return n == N;
}

/* The first samples of epochs 0 and 1 for seed 7 and 1003 samples: part of what a checkpoint means, so frozen. */
static const uint64_t pinned[2][8] = { { 720, 509, 844, 418, 625, 645, 285, 220 },
                                       { 95, 742, 367, 955, 948, 211, 0, 233 } };

static void test_order(void)
{
  static uint64_t ids[3][N + 32], other[N + 32];
  for (uint64_t epoch = 0; epoch < 3; epoch++) {
    CHECK_EQ(join_epoch(sorted_set, 1, 32, SHOAL_LAST_SHORT, 0, epoch, 0, ids[epoch]), N, "one rank");
    CHECK(is_bijection(ids[epoch], N), "epoch %d is no permutation", (int)epoch);
    for (size_t p = 1; p < SHOAL_COUNT(rank_counts); p++)
      for (int depth = 0; depth <= 4; depth += 4) {
        memset(other, 0xff, sizeof other);
        CHECK_EQ(join_epoch(sorted_set, rank_counts[p], 32, SHOAL_LAST_SHORT, depth, epoch, 0, other), N);
        CHECK_BYTES(ids[epoch], other, N * sizeof *other, "order at %d ranks", rank_counts[p]);
      }
  }
  CHECK(memcmp(ids[0], ids[1], sizeof ids[0]), "epochs differ");
  CHECK(memcmp(ids[1], ids[2], sizeof ids[0]));
  for (int e = 0; e < 2; e++)
    for (int i = 0; i < 8; i++) CHECK_EQ(ids[e][i], pinned[e][i], "epoch %d position %d", e, i);
}

/* 1003 samples, batch 32, 3, 4 and 7 ranks, three epochs. */
static void test_last_batch(void)
{
  static uint64_t plain[N + 32], ids[N + 32];
  static const int sizes[] = { 3, 4, 7 };
  for (uint64_t epoch = 0; epoch < 3; epoch++) {
    join_epoch(sorted_set, 1, 32, SHOAL_LAST_SHORT, 0, epoch, 0, plain);
    for (int s = 0; s < 3; s++) {
      CHECK_EQ(join_epoch(sorted_set, sizes[s], 32, SHOAL_LAST_DROP, 2, epoch, 0, ids), 31 * 32);
      CHECK_BYTES(ids, plain, 31 * 32 * sizeof *ids, "dropping changes nothing before");
      CHECK_EQ(join_epoch(sorted_set, sizes[s], 32, SHOAL_LAST_PAD, 2, epoch, 0, ids), 32 * 32);
      CHECK_BYTES(ids, plain, N * sizeof *ids, "padding changes nothing before");
      CHECK_BYTES(ids + N, plain, (32 * 32 - N) * sizeof *ids, "padding repeats the start of the epoch");
    }
  }
  shoal_loader *l = make(sorted_set, config(0, 1, 5000, 0)); /* more than there is: one short batch */
  CHECK_EQ(shoal_loader_batches(l), 1, "one batch");
  CHECK_EQ(shoal_loader_max_batch(l), N);
  CHECK_EQ(next(l)->total, N, "all of it");
  shoal_loader_destroy(l);
}

/* H15: a file sorted by label. */
static void test_sorted_labels(void)
{
  for (int size = 1; size <= 8; size *= 2)
    for (int rank = 0; rank < size; rank++) {
      int seen[CLASSES] = { 0 }, classes = 0;
      shoal_loader *l = make(sorted_set, config(rank, size, 64, 2));
      for (const shoal_batch *b; (b = next(l));)
        for (int64_t i = 0; i < b->n; i++) {
          int32_t y;
          float raw[2];
          fill_sorted(b->ids[i], raw, &y);
          CHECK_EQ(b->y[i], y, "label of sample %d", (int)b->ids[i]);
          seen[b->y[i]]++;
        }
      for (int c = 0; c < CLASSES; c++) classes += seen[c] > 0;
      CHECK_EQ(classes, CLASSES, "rank %d of %d", rank, size);
      shoal_loader_destroy(l);
    }
}

static void test_values(void)
{
  size_t n;
  const double *mean, *std;
  shoal_dataset_scale(sorted_set, &n, &mean, &std);
  CHECK_EQ(n, 2, "one mean per feature");
  shoal_loader *l = make(sorted_set, config(1, 3, 50, 1));
  for (const shoal_batch *b; (b = next(l));) {
    CHECK_EQ((uintptr_t)b->x & 63, 0);
    for (int64_t i = 0; i < b->n; i++) {
      double want = ((double)b->ids[i] - mean[0]) / std[0];
      CHECK_NEAR(b->x[2 * i], want, 1e-6, "sample %d", (int)b->ids[i]);
    }
  }
  shoal_loader_destroy(l);
}

/* ---- Stop and go on ---- */

/* The ids of `epochs` epochs at one rank, never interrupted. */
static uint64_t *uninterrupted(uint64_t epochs, uint64_t batch)
{
  uint64_t *ids = malloc(epochs * (N + batch) * sizeof *ids);
  REQUIRE(ids, "memory");
  for (uint64_t e = 0; e < epochs; e++) join_epoch(sorted_set, 1, batch, SHOAL_LAST_SHORT, 0, e, 0, ids + e * N);
  return ids;
}

/* A run that stops after the given numbers of steps, each time going on from (epoch, position) in new loaders at another
 * number of ranks; ranks are driven in step, as training does. */
static void run_interrupted(const int *stops, const int *sizes, int n_stops, uint64_t epochs, uint64_t batch, int depth,
                            uint64_t *ids)
{
  uint64_t epoch = 0, position = 0;
  for (int part = 0; part <= n_stops; part++) {
    shoal_loader *l[8];
    int size = sizes[part], steps = part < n_stops ? stops[part] : 1 << 30;
    for (int r = 0; r < size; r++) {
      l[r] = make(sorted_set, config(r, size, batch, depth));
      CHECK_OK(shoal_loader_seek(l[r], epoch, position));
    }
    while (steps > 0 && epoch < epochs) {
      uint64_t total = 0;
      for (int r = 0; r < size; r++) {
        const shoal_batch *b = next(l[r]);
        if (!b) continue;
        CHECK_EQ(b->position, position, "rank %d", r);
        CHECK_EQ(b->epoch, epoch, "rank %d", r);
        memcpy(ids + epoch * N + position + b->slot0, b->ids, (size_t)b->n * sizeof *ids);
        total = b->total;
      }
      position += total;
      steps -= total > 0;
      if (total) continue;
      CHECK_EQ(position, N);
      epoch++;
      position = 0;
      for (int r = 0; r < size; r++) CHECK_OK(shoal_loader_seek(l[r], epoch, 0));
    }
    for (int r = 0; r < size; r++) shoal_loader_destroy(l[r]);
  }
}

static void test_resume(void)
{
  enum { EPOCHS = 3, BATCH = 32, STEPS = 32 };
  static uint64_t ids[EPOCHS * N];
  uint64_t *want = uninterrupted(EPOCHS, BATCH);
  /* in mid-epoch, exactly at the end of epoch 1 (before anybody asked for its end), in mid-epoch again */
  static const int stops[] = { 10, 2 * STEPS - 10, 17 };
  static const int sizes[][4] = { { 1, 1, 1, 1 }, { 4, 4, 4, 4 }, { 4, 1, 7, 3 }, { 2, 8, 3, 1 } };
  for (size_t s = 0; s < SHOAL_COUNT(sizes); s++)
    for (int depth = 0; depth <= 3; depth += 3) {
      memset(ids, 0xff, sizeof ids);
      run_interrupted(stops, sizes[s], 3, EPOCHS, BATCH, depth, ids);
      CHECK_BYTES(ids, want, sizeof ids, "case %d depth %d: the joined order differs", (int)s, depth);
    }
  free(want);
}

/* A seek to any position, also between batches, continues the same order. */
static void test_any_position(void)
{
  static uint64_t want[N + 32], ids[N + 32];
  join_epoch(sorted_set, 1, 32, SHOAL_LAST_SHORT, 0, 5, 0, want);
  for (uint64_t i = 0; i < 60; i++) {
    shoal_rng_block r = shoal_rng(SEED, SHOAL_RNG_TEST, i, 0);
    uint64_t from = i < 2 ? N - i : shoal_rng_below(&r, N + 1);
    memcpy(ids, want, from * sizeof *ids);
    uint64_t end =
        join_epoch(sorted_set, 1 + (int)(i % 5), 1 + r.v[2] % 90, SHOAL_LAST_SHORT, (int)(i % 3), 5, from, ids);
    CHECK_EQ(end, from == N ? 0 : N, "from %d", (int)from);
    CHECK_BYTES(ids, want, N * sizeof *ids, "from %d", (int)from);
  }
}

/* Seeks while the thread is busy: backward, forward, to the current position, past the mark at the end of an epoch. */
static void test_seek_storm(void)
{
  static uint64_t want[2][N + 32];
  for (uint64_t e = 0; e < 2; e++) join_epoch(sorted_set, 1, 16, SHOAL_LAST_SHORT, 0, e, 0, want[e]);
  shoal_loader *l = make(sorted_set, config(0, 1, 16, 4));
  for (uint64_t i = 0; i < 400; i++) {
    shoal_rng_block r = shoal_rng(SEED, SHOAL_RNG_TEST, i, 1);
    uint64_t epoch = r.v[3] & 1, at = shoal_rng_below(&r, N + 1);
    if (i % 3 == 0) at = N - 16;
    CHECK_OK(shoal_loader_seek(l, epoch, at));
    for (uint32_t k = 0; k < r.v[2] % 5; k++) {
      const shoal_batch *b = next(l);
      if (!b && epoch == 0 && at == N) {
        CHECK_OK(shoal_loader_seek(l, epoch = 1, at = 0));
        continue;
      }
      if (!b) break;
      CHECK_EQ(b->position, at, "round %d at %d", (int)i, (int)at);
      CHECK_EQ(b->epoch, epoch, "round %d at %d", (int)i, (int)at);
      CHECK_BYTES(b->ids, want[epoch] + at, (size_t)b->n * 8, "round %d at %d", (int)i, (int)at);
      at += b->total;
      if (k % 2) CHECK_OK(shoal_loader_seek(l, epoch, at)); /* to the current position */
      if (at == N && epoch == 0 && r.v[2] & 64)
        CHECK_OK(shoal_loader_seek(l, epoch = 1, at = 0)); /* without the mark */
    }
  }
  CHECK_REFUSED(shoal_loader_seek(l, 0, N + 1), SHOAL_ERR_ARG, "position 1004 is beyond the end of the epoch at 1003");
  shoal_loader_destroy(l);
}

/* ---- strided shares ---- */

static void test_strided(void)
{
  static uint64_t want[N + 32];
  join_epoch(sorted_set, 1, 32, SHOAL_LAST_SHORT, 0, 2, 0, want);
  for (size_t p = 0; p < SHOAL_COUNT(rank_counts); p++)
    for (int rank = 0; rank < rank_counts[p]; rank++) {
      uint64_t size = (uint64_t)rank_counts[p], own = 0;
      shoal_loader_config c = config(rank, (int)size, 32, rank % 3);
      c.share = SHOAL_SHARE_STRIDED;
      shoal_loader *l = make(sorted_set, c);
      CHECK_OK(shoal_loader_seek(l, 2, 0));
      for (const shoal_batch *b; (b = next(l));) {
        CHECK_EQ(b->position, own, "own clock");
        CHECK_EQ(b->total, (uint64_t)b->n);
        CHECK_EQ(b->slot0, (uint64_t)rank * 32);
        for (int64_t i = 0; i < b->n; i++, own++)
          CHECK_EQ(b->ids[i], want[(uint64_t)rank + own * size], "rank %d sample %d", rank, (int)own);
      }
      CHECK_EQ(own, shoal_loader_samples(l), "rank %d", rank);
      CHECK_EQ(own, (N - (uint64_t)rank + size - 1) / size, "rank %d", rank);
      CHECK_OK(shoal_loader_seek(l, 2, 37));
      CHECK_EQ(next(l)->ids[0], want[(uint64_t)rank + 37 * size]);
      shoal_loader_destroy(l);
    }
}

static void test_strided_policies(void)
{
  shoal_loader_config c = config(2, 4, 32, 0);
  c.share = SHOAL_SHARE_STRIDED; /* 251 samples: 7 batches and 27 */
  static const uint64_t batches[] = { 8, 7, 8 };
  for (int last = SHOAL_LAST_SHORT; last <= SHOAL_LAST_PAD; last++) {
    c.last = (shoal_last_batch)last;
    shoal_loader *l = make(sorted_set, c);
    uint64_t n = 0, first = 0, padded = 0;
    for (const shoal_batch *b; (b = next(l)); n++) {
      if (n == 0) first = b->ids[0];
      if (n == 7 && b->n == 32) padded = b->ids[27];
    }
    CHECK_EQ(n, batches[last]);
    CHECK_EQ(n, shoal_loader_batches(l));
    CHECK(last != SHOAL_LAST_PAD || padded == first, "padding repeats the own start");
    shoal_loader_destroy(l);
  }
  c = config(1010, 2000, 4, 0); /* more ranks than samples: this one has none */
  c.share = SHOAL_SHARE_STRIDED;
  shoal_loader *l = make(sorted_set, c);
  CHECK(next(l) == NULL, "nothing to do");
  CHECK_EQ(shoal_loader_batches(l), 0);
  shoal_loader_destroy(l);
}

/* ---- augmentation ---- */

/* crc [n] of the floats of every sample of an epoch. */
static void pixel_sums(int size, int depth, uint64_t epoch, uint32_t *crc)
{
  for (int rank = 0; rank < size; rank++) {
    shoal_loader_config c = config(rank, size, 24, depth);
    c.crop4 = c.hflip = true;
    shoal_loader *l = make(image_set, c);
    CHECK_OK(shoal_loader_seek(l, epoch, 0));
    for (const shoal_batch *b; (b = next(l));)
      for (int64_t i = 0; i < b->n; i++) crc[b->ids[i]] = shoal_crc32c(0, b->x + i * 360, 360 * sizeof(float));
    shoal_loader_destroy(l);
  }
}

static void test_same_pixels(void)
{
  enum { IMAGES = 200 };
  uint32_t want[IMAGES], other[IMAGES], later[IMAGES];
  int same = 0;
  pixel_sums(1, 0, 3, want);
  pixel_sums(1, 0, 4, later);
  for (int i = 0; i < IMAGES; i++) same += want[i] == later[i];
  CHECK_LT(same, IMAGES / 20, "samples that look the same in the next epoch");
  for (size_t p = 0; p < SHOAL_COUNT(rank_counts); p++)
    for (int depth = 0; depth <= 4; depth += 4) {
      memset(other, 0, sizeof other);
      pixel_sums(rank_counts[p], depth, 3, other);
      CHECK_BYTES(want, other, sizeof want, "%d ranks, depth %d: other pixels", rank_counts[p], depth);
    }
}

/* The test split: in order, as it is, every epoch. */
static void test_plain_order(void)
{
  for (int depth = 0; depth <= 2; depth++) {
    shoal_loader_config c = config(0, 1, 10, depth);
    c.split = SHOAL_TEST;
    c.shuffle = false;
    shoal_loader *l = make(sorted_set, c);
    for (uint64_t round = 0; round < 3; round++) {
      uint64_t at = 0;
      CHECK_OK(shoal_loader_seek(l, 0, 0));
      for (const shoal_batch *b; (b = next(l)); at += (uint64_t)b->n)
        for (int64_t i = 0; i < b->n; i++) CHECK_EQ(b->ids[i], at + (uint64_t)i, "in order");
      CHECK_EQ(at, TEST_N);
    }
    shoal_loader_destroy(l);
  }
}

/* Training and evaluation read one file from two threads, sample by sample. */
static void test_two_loaders(void)
{
  shoal_dataset *d = NULL;
  REQUIRE(shoal_dataset_open(temp_path("sorted.h5"), &d) == SHOAL_OK, "sorted");
  shoal_dataset_hold(d, 0);
  shoal_loader_config c = config(0, 1, 10, 3);
  shoal_loader *train = make(d, c);
  c.split = SHOAL_TEST;
  shoal_loader *test = make(d, c);
  for (uint64_t epoch = 0; epoch < 3; epoch++) {
    uint64_t n = 0, m = 0;
    CHECK_OK(shoal_loader_seek(train, epoch, 0));
    CHECK_OK(shoal_loader_seek(test, epoch, 0));
    for (const shoal_batch *b, *t; (b = next(train)); n += (uint64_t)b->n)
      if (b->position % 100 == 0 && (t = next(test))) m += (uint64_t)t->n;
    CHECK_EQ(n, N);
    CHECK_EQ(m, TEST_N);
  }
  shoal_loader_destroy(train);
  shoal_loader_destroy(test);
  shoal_dataset_close(d);
}

/* ---- faults ---- */

static void fill_wrong(uint64_t i, void *x, int32_t *y)
{
  *(float *)x = (float)i;
  *y = i == 41 ? 12 : (int32_t)(i % 3);
}

/* From a fault at position `from` to the end of the epoch of 60: batches of 8 by size, place and number, but all zeros. */
static void check_blanks(shoal_loader *l, uint64_t from)
{
  const shoal_batch *b;
  for (uint64_t at = from; at < 60; at += 8) {
    shoal_loader_blank(l, &b);
    REQUIRE(b, "a batch at %d", (int)at);
    CHECK_EQ(b->position, at);
    CHECK_EQ(b->n, at < 56 ? 8 : 4, "at %d", (int)at);
    for (int64_t i = 0; i < b->n; i++) {
      CHECK_EQ(b->ids[i], at + (uint64_t)i);
      CHECK_EQ(b->x[i], 0, "sample %d", (int)i);
      CHECK_EQ(b->y[i], 0, "sample %d", (int)i);
    }
  }
  shoal_loader_blank(l, &b);
  CHECK(!b, "the end of the epoch");
  CHECK_OK(shoal_loader_next(l, &b));
  CHECK(!b, "and still");
}

static void test_wrong_label(void)
{
  const char *path = temp_path("wrong.h5");
  shoal_dataset *d = NULL;
  write_set(path, SHOAL_DATA_FEATURES, SHOAL_SHAPE(1), 4, 60, 0, 3, fill_wrong);
  CHECK_OK(shoal_dataset_open(path, &d));
  for (int depth = 0; depth <= 3; depth += 3) {
    shoal_loader_config c = config(0, 1, 8, depth);
    c.shuffle = false;
    shoal_loader *l = make(d, c);
    const shoal_batch *b;
    for (int i = 0; i < 5; i++) CHECK_EQ(next(l)->position, (uint64_t)i * 8, "batch %d", i);
    for (int i = 0; i < 3; i++) {
      CHECK_STATUS(shoal_loader_next(l, &b), SHOAL_ERR_IO, "the fault stays");
      CHECK(!b);
    }
    CHECK_HAS(check_error(), "wrong.h5: sample 41 of /train/y has label 12, classes are 0 to 2");
    check_blanks(l, 40);
    CHECK_OK(shoal_loader_seek(l, 0, 48));
    CHECK_EQ(next(l)->ids[0], 48, "behind the fault");
    CHECK_EQ(next(l)->n, 4);
    CHECK_OK(shoal_loader_seek(l, 0, 40));
    CHECK_STATUS(shoal_loader_next(l, &b), SHOAL_ERR_IO, "into it again");
    shoal_loader_destroy(l);
  }
  shoal_dataset_close(d);
}

static void test_shutdown(void)
{
  for (int i = 0; i < 40; i++) {
    shoal_loader_config c = config(0, 2, 16, 1 + i % 5);
    c.crop4 = true;
    shoal_loader *l = make(image_set, c);
    for (int k = 0; k < i % 4; k++) next(l);
    if (i % 7 == 0) CHECK_OK(shoal_loader_seek(l, 1, 50));
    shoal_loader_destroy(l);
  }
  shoal_loader_destroy(NULL);
}

static void test_refused(void)
{
  shoal_loader *l;
  shoal_loader_config c = config(0, 1, 0, 0);
  CHECK_REFUSED(shoal_loader_create(sorted_set, &c, &l), SHOAL_ERR_ARG, "a batch of 0 samples");
  c = config(3, 3, 8, 0);
  CHECK_REFUSED(shoal_loader_create(sorted_set, &c, &l), SHOAL_ERR_ARG, "rank 3 of 3");
  c = config(0, 1, 2000, 0);
  c.last = SHOAL_LAST_DROP;
  CHECK_REFUSED(shoal_loader_create(sorted_set, &c, &l), SHOAL_ERR_ARG, "would drop everything");
  c = config(0, 1, 8, 0);
  c.hflip = true;
  CHECK_REFUSED(shoal_loader_create(sorted_set, &c, &l), SHOAL_ERR_ARG, "hflip is for images");
  c = config(0, 1, 8, -1);
  CHECK_REFUSED(shoal_loader_create(sorted_set, &c, &l), SHOAL_ERR_ARG, "-1 batches ahead");
}

/* ---- text ---- */

enum { TOKENS = 103, CONTEXT = 7 };

static int64_t token_at(uint64_t i, int bytes)
{
  return (int64_t)(i * 2654435761u % (bytes == 1 ? 256 : 1000));
}

static void fill_byte(uint64_t i, void *x, int32_t *y)
{
  *(uint8_t *)x = (uint8_t)token_at(i % TOKENS, 1);
  *y = 0;
}

static void fill_word(uint64_t i, void *x, int32_t *y)
{
  *(uint16_t *)x = (uint16_t)token_at(i % TOKENS, 2);
  *y = 0;
}

/* Samples are windows, each token's label the one behind it, in the order of any samples; from memory and from the file. */
static void check_text(const char *path, int bytes, uint64_t hold, int size)
{
  shoal_dataset *d;
  uint64_t seen = 0, n = (TOKENS - 1) / CONTEXT;
  REQUIRE(shoal_dataset_open(path, &d) == SHOAL_OK, "%s", path);
  shoal_dataset_hold(d, hold);
  CHECK_OK(shoal_dataset_set_context(d, CONTEXT));
  const shoal_data_info *info = shoal_dataset_info(d);
  CHECK_EQ(info->n[SHOAL_TRAIN], n);
  CHECK_EQ(info->n[SHOAL_TEST], 0, "what is no longer than a sample");
  CHECK_EQ(info->labels, CONTEXT);
  shoal_perm order;
  shoal_perm_init(&order, SEED, SHOAL_RNG_ORDER, 1, n);
  for (int rank = 0; rank < size; rank++) {
    shoal_loader *l = make(d, config(rank, size, 4, 2));
    CHECK_OK(shoal_loader_seek(l, 1, 0));
    for (const shoal_batch *b; (b = next(l));)
      for (int64_t i = 0; i < b->n; i++) {
        CHECK_EQ(b->ids[i], shoal_perm_at(&order, b->position + b->slot0 + (uint64_t)i));
        seen |= UINT64_C(1) << b->ids[i];
        for (int64_t k = 0; k < CONTEXT; k++) {
          uint64_t at = b->ids[i] * CONTEXT + (uint64_t)k;
          CHECK_EQ(b->x[i * CONTEXT + k], (float)token_at(at, bytes), "token %d", (int)at);
          CHECK_EQ(b->y[i * CONTEXT + k], token_at(at + 1, bytes), "what follows token %d", (int)at);
        }
      }
    shoal_loader_destroy(l);
  }
  CHECK_EQ(seen, (UINT64_C(1) << n) - 1, "%d ranks", size);
  shoal_dataset_close(d);
}

static void test_text(void)
{
  shoal_dataset *d;
  shoal_loader *l = NULL;
  write_set(temp_path("bytes.h5"), SHOAL_DATA_TEXT, SHOAL_SHAPE(1), 1, TOKENS, CONTEXT, 256, fill_byte);
  write_set(temp_path("words.h5"), SHOAL_DATA_TEXT, SHOAL_SHAPE(1), 2, TOKENS, CONTEXT, 1000, fill_word);
  for (int k = 0; k < 8; k++)
    check_text(temp_path(k & 1 ? "words.h5" : "bytes.h5"), k & 1 ? 2 : 1, k & 2 ? UINT64_MAX : 0, k & 4 ? 3 : 1);
  REQUIRE(shoal_dataset_open(temp_path("bytes.h5"), &d) == SHOAL_OK, "bytes");
  CHECK_STATUS(shoal_dataset_set_context(d, TOKENS), SHOAL_ERR_USAGE);
  CHECK_HAS(check_error(),
            "/train/tokens has 103 tokens, and a sample needs 103 and the one that follows: lower data.context");
  CHECK_OK(shoal_dataset_set_context(d, TOKENS - 1));
  shoal_loader_config c = config(0, 1, 1, 0);
  c.share = SHOAL_SHARE_STRIDED;
  c.shard = SHOAL_SHARD_SORTED;
  CHECK_STATUS(shoal_loader_create(d, &c, &l), SHOAL_ERR_ARG);
  CHECK_HAS(check_error(), "no label to sort them by: set data.shards to drawn or fixed");
  c = config(0, 1, 1, 0);
  c.hflip = true;
  CHECK_STATUS(shoal_loader_create(d, &c, &l), SHOAL_ERR_ARG);
  CHECK_HAS(check_error(), "holds text; hflip is for images");
  shoal_dataset_close(d);
}

int main(void)
{
  temp_make();
  write_set(temp_path("sorted.h5"), SHOAL_DATA_FEATURES, SHOAL_SHAPE(2), 4, N, TEST_N, CLASSES, fill_sorted);
  write_set(temp_path("images.h5"), SHOAL_DATA_IMAGES, SHOAL_SHAPE(3, 12, 10), 1, 200, 20, CLASSES, fill_image);
  REQUIRE(shoal_dataset_open(temp_path("sorted.h5"), &sorted_set) == SHOAL_OK, "sorted");
  REQUIRE(shoal_dataset_open(temp_path("images.h5"), &image_set) == SHOAL_OK, "images");
  test_shares();
  test_order();
  test_last_batch();
  test_sorted_labels();
  test_values();
  test_resume();
  test_any_position();
  test_seek_storm();
  test_strided();
  test_strided_policies();
  test_same_pixels();
  test_plain_order();
  test_two_loaders();
  test_wrong_label();
  test_shutdown();
  test_refused();
  test_text();
  shoal_dataset_close(sorted_set);
  shoal_dataset_close(image_set);
  return check_done();
}
