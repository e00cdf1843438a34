/* Recorders of several threads beside a loader: each thread has its own recorder, all share HDF5, and every file holds
 * exactly what its thread recorded.  The thread sanitizer runs this too (preset tsan). */
#include "data/loader.h"
#include "data_temp.h"
#include "report/trace.h"
#include <pthread.h>

enum { THREADS = 3, SPANS = 20000, FLUSH_EVERY = 500, SAMPLES = 200 };

typedef struct {
  int rank;
  const char *path;
  shoal_status st;
} recorder;

static void *record(void *arg)
{
  recorder *r = arg;
  shoal_trace *t;
  shoal_trace_info info = { .run_name = "threads", .rank = r->rank, .size = THREADS, .host = "n1" };
  if ((r->st = shoal_trace_open(r->path, SHOAL_TRACE_BY_OP, &info, &t)) != SHOAL_OK) return NULL;
  uint32_t op = shoal_trace_op(t, "conv");
  for (uint64_t i = 0; i < SPANS && r->st == SHOAL_OK; i++) {
    shoal_trace_set_step(t, i);
    shoal_trace_span(t, SHOAL_TRACE_FORWARD, op, i + 1, i + 2 + (uint64_t)r->rank);
    if (i % FLUSH_EVERY == 0) r->st = shoal_trace_flush(t, true);
  }
  shoal_status closed = shoal_trace_close(t);
  if (r->st == SHOAL_OK) r->st = closed;
  return NULL;
}

static void fill(uint64_t i, void *x, int32_t *y)
{
  *(float *)x = (float)i;
  *y = (int32_t)(i % 2);
}

/* A data set is tried in a child process when it is opened, so no other thread may use HDF5 yet (base/child.h). */
static shoal_dataset *open_set(void)
{
  shoal_dataset *d = NULL;
  write_set(temp_path("set.h5"), SHOAL_DATA_FEATURES, SHOAL_SHAPE(1), 4, SAMPLES, 0, 2, fill);
  REQUIRE(shoal_dataset_open(temp_path("set.h5"), &d) == SHOAL_OK, "%s", check_error());
  shoal_dataset_hold(d, 0); /* every batch is read from the file */
  return d;
}

/* Reads a data set through the loader's thread, epoch after epoch; every sample says which it is. */
static void load(shoal_dataset *d, uint64_t epochs)
{
  shoal_loader *l = NULL;
  shoal_loader_config c = { .split = SHOAL_TRAIN, .seed = 1, .size = 1, .batch = 8, .shuffle = true, .depth = 2 };
  REQUIRE(shoal_loader_create(d, &c, &l) == SHOAL_OK, "%s", check_error());
  for (uint64_t epoch = 0; epoch < epochs; epoch++) {
    uint64_t sum = 0;
    const shoal_batch *b;
    CHECK_OK(shoal_loader_seek(l, epoch, 0));
    while (shoal_loader_next(l, &b) == SHOAL_OK && b)
      for (int64_t i = 0; i < b->n; i++) sum += b->ids[i] + 1;
    CHECK(sum == SAMPLES * (SAMPLES + 1) / 2, "epoch %d: ids add up to %d", (int)epoch, (int)sum);
  }
  shoal_loader_destroy(l);
}

static void check_file(const recorder *r)
{
  shoal_trace_data *d = NULL;
  REQUIRE(r->st == SHOAL_OK, "recorder %d: %s", r->rank, shoal_status_name(r->st));
  REQUIRE(shoal_trace_read(r->path, &d) == SHOAL_OK, "%s", check_error());
  REQUIRE(d->n == SPANS, "recorder %d: %zu records", r->rank, d->n);
  CHECK_EQ(d->info.rank, r->rank);
  for (uint64_t i = 0; i < d->n && !check_failures; i++) {
    CHECK_EQ(d->records[i].step, i);
    CHECK_EQ(d->records[i].t0_ns, i + 1);
    CHECK_EQ(d->records[i].t1_ns, i + 2 + (uint64_t)r->rank);
    CHECK_EQ(strcmp(d->op_names[d->records[i].op], "conv"), 0);
  }
  shoal_trace_data_destroy(d);
}

int main(void)
{
  static const char *const names[THREADS] = { "rank-0.h5", "rank-1.h5", "rank-2.h5" };
  pthread_t threads[THREADS];
  recorder r[THREADS];
  temp_make();
  shoal_dataset *d = open_set();
  for (int i = 0; i < THREADS; i++) {
    r[i] = (recorder){ .rank = i, .path = temp_path(names[i]) };
    REQUIRE(pthread_create(&threads[i], NULL, record, &r[i]) == 0, "thread %d", i);
  }
  load(d, 4);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  shoal_dataset_close(d);
  for (int i = 0; i < THREADS; i++) check_file(&r[i]);
  return check_done();
}
