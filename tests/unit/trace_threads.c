/* Recorders of several threads beside a loader: each thread has its own recorder, and every file holds exactly what its
 * threads recorded.  First every thread writes a file of its own, so all share HDF5; then the first one writes what all
 * record, as the ranks of a node do.  The thread sanitizer runs this too (preset tsan). */
#include "data/loader.h"
#include "data_temp.h"
#include "report/trace.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 3, SPANS = 20000, FLUSH_EVERY = 500, SAMPLES = 200 };

typedef struct {
  int rank;
  const char *path;
  shoal_trace *t; /* opened before; NULL: the thread opens it for its own file */
  shoal_status st;
} recorder;

static shoal_trace_info info_of(int rank)
{
  return (shoal_trace_info){ .run_name = "threads", .rank = rank, .size = THREADS, .local_rank = rank, .host = "n1" };
}

/* Nobody is far ahead, as in steps of ranks that exchange something: a ring that its writer empties too late drops records. */
static void keep_together(int rank, uint64_t i)
{
  enum { APART = 3 * FLUSH_EVERY };
  static _Atomic uint64_t at[THREADS];
  atomic_store(&at[rank], i);
  for (int other = 0; other < THREADS; other++)
    while (i > atomic_load(&at[other]) + APART) usleep(100);
}

static void *record(void *arg)
{
  recorder *r = arg;
  shoal_trace *t = r->t;
  shoal_trace_info info = info_of(r->rank);
  if (!t && (r->st = shoal_trace_open(r->path, SHOAL_TRACE_BY_OP, &info, &t)) != SHOAL_OK) return NULL;
  uint32_t op = shoal_trace_op(t, "conv");
  for (uint64_t i = 0; i < SPANS && r->st == SHOAL_OK; i++) {
    if (r->t && r->rank != 0 && i == SPANS - 1) usleep(50000); /* the writer ends first, and waits for this one */
    shoal_trace_set_step(t, i);
    shoal_trace_span(t, SHOAL_TRACE_FORWARD, op, i + 1, i + 2 + (uint64_t)r->rank);
    if (i % FLUSH_EVERY == 0) r->st = shoal_trace_flush(t, r->t == NULL);
    if (i % FLUSH_EVERY == 0 && r->t) keep_together(r->rank, i);
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

static void check_rank(shoal_trace_data *d)
{
  REQUIRE(shoal_trace_load(d) == SHOAL_OK, "%s", check_error());
  REQUIRE(d->n == SPANS, "recorder %d: %zu records", d->info.rank, d->n);
  for (uint64_t i = 0; i < d->n && !check_failures; i++) {
    CHECK_EQ(d->records[i].step, i);
    CHECK_EQ(d->records[i].t0_ns, i + 1);
    CHECK_EQ(d->records[i].t1_ns, i + 2 + (uint64_t)d->info.rank);
    CHECK_EQ(strcmp(d->op_names[d->records[i].op], "conv"), 0);
  }
  CHECK_EQ(d->attempt_rows[0].closed, 1);
  CHECK_EQ(d->attempt_rows[0].spans, SPANS);
}

static void check_file(const char *path, int rank, int n)
{
  shoal_trace_file_data *f = NULL;
  REQUIRE(shoal_trace_read(path, &f) == SHOAL_OK, "%s", check_error());
  REQUIRE((int)f->n == n, "%zu ranks", f->n);
  for (int i = 0; i < n; i++) {
    CHECK_EQ(f->ranks[i].info.rank, rank + i);
    check_rank(&f->ranks[i]);
  }
  shoal_trace_file_data_destroy(f);
}

static void run_all(recorder *r, shoal_dataset *d, uint64_t epochs)
{
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) REQUIRE(pthread_create(&threads[i], NULL, record, &r[i]) == 0, "thread %d", i);
  load(d, epochs);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    CHECK_OK(r[i].st);
  }
}

int main(void)
{
  static const char *const names[THREADS] = { "rank-0.h5", "rank-1.h5", "rank-2.h5" };
  recorder apart[THREADS], together[THREADS];
  shoal_trace_ring rings[THREADS];
  temp_make();
  shoal_dataset *d = open_set();
  for (int i = 0; i < THREADS; i++) apart[i] = (recorder){ .rank = i, .path = temp_path(names[i]) };
  run_all(apart, d, 4);
  for (int i = 0; i < THREADS; i++) {
    shoal_trace_info info = info_of(i);
    together[i] = (recorder){ .rank = i };
    rings[i] = (shoal_trace_ring){ i, calloc(1, shoal_trace_ring_bytes()) };
    REQUIRE(rings[i].memory, "memory");
    CHECK_OK(shoal_trace_open_ring(rings[i].memory, SHOAL_TRACE_BY_OP, &info, &together[i].t));
  }
  shoal_trace_info first = info_of(0);
  CHECK_OK(shoal_trace_write(together[0].t, temp_path("node.h5"), &first, rings, THREADS));
  run_all(together, d, 4);
  shoal_dataset_close(d);
  for (int i = 0; i < THREADS; i++) free(rings[i].memory);
  for (int i = 0; i < THREADS; i++) check_file(apart[i].path, i, 1);
  check_file(temp_path("node.h5"), 0, THREADS);
  return check_done();
}
