/* Sums of GPUs, simulated or not, one per rank: exact, the same bits in every repeat and on every rank, as many bytes as the formula says; where
 * NCCL cannot be used MPI is, and says why; ranks that are missing or lost end in the report that names them.
 *
 *   nccl_sums           2 or 4 ranks, with as many devices
 *   nccl_sums shared    all ranks see one device
 *   nccl_sums mpi_right, mpi_wrong    4 ranks with MPI that takes device memory (mpi.c), 2 with one that only says so
 *   nccl_sums lost      rank 1 is killed in the middle of a sum; prints "told" */
#include "base/clock.h"
#include "base/log.h"
#include "comm/group_impl.h"
#include "mpi/comm.h"
#include "simgpu/simgpu.h"
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

enum { BUCKETS = 4, ROUNDS = 3 };
static int rank, size;
static FILE *log_file;
static void (*inject)(const char *, int, int);

static shoal_world *open_on(const char *pretend, shoal_fabric_use use, double hang_s, shoal_backend **b)
{
  shoal_world *w = NULL;
  shoal_world_options o = { .pretend = pretend, .warn_s = 0.5 * hang_s, .hang_s = hang_s };
  REQUIRE(shoal_world_open(&o, &w) == SHOAL_OK, "open, pretending %s", pretend);
  log_file = tmpfile();
  shoal_log_set_file(log_file, "log");
  REQUIRE(shoal_backend_open("cuda", 1, b) == SHOAL_OK, "%s", check_error());
  shoal_world_set_backend(w, *b);
  REQUIRE(shoal_world_open_fabric(w, use) == SHOAL_OK, "%s", check_error());
  return w;
}

static void close_on(shoal_world *w, shoal_backend *b)
{
  MPI_Barrier(MPI_COMM_WORLD);
  shoal_log_set_file(NULL, NULL);
  fclose(log_file);
  shoal_world_close(w);
  shoal_backend_close(b);
}

static const char *logged(void)
{
  static char text[4096];
  rewind(log_file);
  text[fread(text, 1, sizeof text - 1, log_file)] = 0;
  return text;
}

static float any_sum(uint64_t i, int member)
{
  return any_float(i, member);
}

/* ---- numbers ---- */

typedef float (*source)(uint64_t, int);
typedef struct { /* buckets of a vector on the device, and their exchanges */
  shoal_group *g;
  shoal_backend *b;
  size_t n;
  shoal_memory x;
  float *host, *before;
  shoal_exchange *e[BUCKETS];
} buckets;

static void open_buckets(shoal_group *g, shoal_backend *b, size_t n, shoal_sum_algorithm algorithm, shoal_wire wire,
                         buckets *s)
{
  *s = (buckets){ .g = g, .b = b, .n = n };
  s->host = room((BUCKETS * n + 1) * sizeof *s->host);
  s->before = room((BUCKETS * n + 1) * sizeof *s->host);
  REQUIRE(b->ops->alloc(b, shoal_group_memory_kind(g), (BUCKETS * n + 1) * sizeof *s->host, &s->x) == SHOAL_OK,
          "alloc");
  CHECK_OK(shoal_group_register(g, &s->x));
  for (int k = 0; k < BUCKETS; k++)
    REQUIRE(shoal_exchange_create_sum(g, "bucket", n, wire, algorithm, &s->e[k]) == SHOAL_OK, "%s", check_error());
}

static void close_buckets(buckets *s)
{
  for (int k = 0; k < BUCKETS; k++) shoal_exchange_destroy(s->e[k]);
  shoal_group_unregister(s->g, &s->x);
  s->b->ops->release(s->b, &s->x);
  free(s->host);
  free(s->before);
}

static float *bucket_at(const buckets *s, int k)
{
  return (float *)s->x.at + (size_t)k * s->n;
}

/* Bucket by bucket, as backward does, and behind the mark of each. */
static void start_bucket(buckets *s, int k, source value)
{
  for (size_t i = 0; i < s->n + (k == BUCKETS - 1); i++)
    s->host[(size_t)k * s->n + i] = i < s->n ? value(i + (size_t)k, shoal_group_rank(s->g)) : 77;
  CHECK_OK(
      s->b->ops->copy(s->b, (s->n + (k == BUCKETS - 1)) * sizeof(float), s->host + (size_t)k * s->n, bucket_at(s, k)));
  CHECK_OK(shoal_exchange_start(s->e[k], bucket_at(s, k), shoal_backend_mark(s->b)));
}

/* What the backend is asked for after the wait, without settling, sees the sums. */
static void end_buckets(buckets *s)
{
  for (int k = 0; k < BUCKETS; k++) {
    CHECK_OK(shoal_exchange_wait(s->e[k]), "%s", check_error());
    CHECK_OK(s->b->ops->axpby(s->b, s->n, 1, bucket_at(s, k), 0, bucket_at(s, k)));
  }
  CHECK_OK(s->b->ops->copy(s->b, (BUCKETS * s->n + 1) * sizeof(float), s->x.at, s->host));
  CHECK_EQ(s->host[BUCKETS * s->n], 77, "wrote past the end");
}

static void check_exact(const buckets *s, const char *what)
{
  size_t wrong = 0;
  for (size_t k = 0; k < BUCKETS; k++)
    for (size_t i = 0; i < s->n; i++) {
      float sum = 0;
      for (int r = 0; r < shoal_group_size(s->g); r++) sum += small_integer(i + k, r);
      wrong += s->host[k * s->n + i] != sum;
    }
  CHECK_EQ(wrong, 0, "%s, n = %zu", what, s->n);
}

static void check_bits(const buckets *s, int round, const char *what)
{
  size_t bytes = BUCKETS * s->n * sizeof(float);
  int p = shoal_group_size(s->g);
  char *all = room((size_t)p * bytes + 1);
  if (round) CHECK_BYTES(s->host, s->before, bytes, "%s, n = %zu: a repeat", what, s->n);
  memcpy(s->before, s->host, bytes);
  CHECK_OK(shoal_group_allgather(s->g, s->host, bytes, all));
  for (int r = 0; r < p; r++) CHECK_BYTES(all + (size_t)r * bytes, s->host, bytes, "rank %d, n = %zu", r, s->n);
  free(all);
}

static void check_counted(const buckets *s, shoal_wire wire, const shoal_counters *c, const char *what)
{
  uint64_t want[SHOAL_LINK_COUNT];
  shoal_exchange_bytes(s->g, s->n, wire, SHOAL_SUM_TWO_LEVEL, want);
  for (int link = 0; link < SHOAL_LINK_CONTROL; link++)
    CHECK_EQ(c->payload[link], BUCKETS * want[link], "%s, n = %zu, class %s", what, s->n, shoal_link_name(link));
}

static void sums(shoal_world *w, shoal_group *g, shoal_backend *b, size_t n, shoal_wire wire, const char *what)
{
  buckets s;
  open_buckets(g, b, n, SHOAL_SUM_TWO_LEVEL, wire, &s);
  for (int round = 0; round < ROUNDS; round++) {
    shoal_counters c = { 0 };
    shoal_world_set_counters(w, &c);
    for (int k = 0; k < BUCKETS; k++) start_bucket(&s, k, round ? any_sum : small_integer);
    end_buckets(&s);
    shoal_world_set_counters(w, NULL);
    check_counted(&s, wire, &c, what);
    if (round == 0) check_exact(&s, what);
    if (round) check_bits(&s, round - 1, what);
  }
  close_buckets(&s);
}

/* Sums of two groups on one device, which ranks start in different orders. */
static void crossed(shoal_world *w, shoal_backend *b, const char *what)
{
  buckets all, near;
  shoal_group *node;
  REQUIRE(shoal_group_create_node(w, &node) == SHOAL_OK, "node");
  open_buckets(shoal_world_group(w), b, 501, SHOAL_SUM_TWO_LEVEL, SHOAL_WIRE_F32, &all);
  open_buckets(node, b, 301, SHOAL_SUM_TWO_LEVEL, SHOAL_WIRE_F32, &near);
  for (int k = 0; k < BUCKETS; k++) {
    start_bucket(rank % 2 ? &all : &near, k, small_integer);
    start_bucket(rank % 2 ? &near : &all, k, small_integer);
  }
  end_buckets(rank % 2 ? &near : &all);
  end_buckets(rank % 2 ? &all : &near);
  check_exact(&all, what);
  check_exact(&near, what);
  close_buckets(&all);
  close_buckets(&near);
  shoal_group_destroy(node);
}

static void placement(const char *pretend, shoal_fabric_use use)
{
  static const size_t lengths[] = { 0, 3, 1001, 40003 };
  shoal_backend *b;
  shoal_world *w = open_on(pretend, use, 40, &b);
  CHECK_STR(shoal_world_fabric(w), "NCCL", "on %s: %s", pretend, logged());
  if (rank == 0) CHECK_HAS(logged(), use == SHOAL_FABRIC_ALL ? "everywhere by NCCL 2." : "inside a node by NCCL 2.");
  for (size_t i = 0; i < SHOAL_COUNT(lengths); i++)
    sums(w, shoal_world_group(w), b, lengths[i], i % 2 ? SHOAL_WIRE_F32 : SHOAL_WIRE_BF16, pretend);
  crossed(w, b, pretend);
  close_on(w, b);
}

/* ---- where it cannot be used ---- */

static void without(const char *pretend, shoal_fabric_use use, const char *why)
{
  shoal_backend *b;
  shoal_world *w = open_on(pretend, use, 40, &b);
  CHECK_STR(shoal_world_fabric(w), NULL, "on %s", pretend);
  if (rank == 0 && why) CHECK_HAS(logged(), why);
  CHECK_EQ(strstr(logged(), "NCCL") != NULL, rank == 0 && why, "rank %d says: %s", rank, logged());
  sums(w, shoal_world_group(w), b, 1001, SHOAL_WIRE_F32, pretend);
  close_on(w, b);
}

static void reasons(const char *pretend)
{
  without(pretend, SHOAL_FABRIC_OFF, NULL);
  if (!inject) return; /* a device that is none can be another version, and fail */
  if (rank == size - 1) setenv("SIMGPU_NCCL_VERSION", "22703", 1);
  without(pretend, SHOAL_FABRIC_NODE, size == 2 ? "has version 2.28.9 and rank 1 (" : "and rank 3 (");
  unsetenv("SIMGPU_NCCL_VERSION");
  if (rank == 1) inject("ncclCommInitRankConfig", 0, 2);
  without(pretend, SHOAL_FABRIC_NODE, "NCCL: unhandled system error from ncclCommInitRankConfig: injected");
}

/* ---- MPI that takes device memory ---- */

/* Sums with and without it have the same bits; how many messages were in device memory goes to *n. */
static void both_ways(shoal_world *w, shoal_backend *b, shoal_sum_algorithm algorithm, size_t n, int expected)
{
  const int *messages = dlsym(RTLD_DEFAULT, "simgpu_mpi_messages");
  REQUIRE(messages, "LD_PRELOAD");
  float *plain = room((BUCKETS * n + 1) * sizeof *plain);
  bool direct = shoal_world_direct(w);
  for (int round = 0; round < 2; round++) {
    buckets s;
    w->direct = round && direct;
    open_buckets(shoal_world_group(w), b, n, algorithm, SHOAL_WIRE_F32, &s);
    int before = *messages;
    for (int k = 0; k < BUCKETS; k++) start_bucket(&s, k, any_sum);
    end_buckets(&s);
    CHECK_EQ(*messages - before, round ? BUCKETS * expected : 0, "%s, n = %zu", shoal_sum_name(algorithm), n);
    if (round) CHECK_BYTES(s.host, plain, BUCKETS * n * sizeof *plain, "%s, n = %zu", shoal_sum_name(algorithm), n);
    memcpy(plain, s.host, BUCKETS * n * sizeof *plain);
    close_buckets(&s);
  }
  w->direct = direct;
  free(plain);
}

/* A member of a ring of N sends from its vector in N - 1 of its 2 (N - 1) steps, and receives there in N - 1. */
static void with_mpi(bool right)
{
  enum { PIECE = 16320 };
  shoal_backend *b;
  shoal_world *w = open_on(size == 4 ? "2,1,1" : "1x2", SHOAL_FABRIC_OFF, 40, &b);
  CHECK_OK(shoal_world_try_direct(w, false));
  CHECK(!shoal_world_direct(w), "not wanted");
  CHECK_OK(shoal_world_try_direct(w, true), "%s", check_error());
  CHECK_EQ(shoal_world_direct(w), right, "%s", logged());
  if (rank == 0) CHECK_HAS(logged(), right ? "a test agrees" : "does not do what it says: rank 0 (");
  both_ways(w, b, SHOAL_SUM_RING, 4 * PIECE * (size_t)size, right ? 4 * (3 + 3) : 0);
  if (right) {
    both_ways(w, b, SHOAL_SUM_RING, 3, 3 + rank); /* one chunk is empty */
    both_ways(w, b, SHOAL_SUM_HALVING, PIECE, 0);
    both_ways(w, b, SHOAL_SUM_TWO_LEVEL, 6 * PIECE, rank > 1 ? 2 * (2 + 2) : 0); /* on the first node ranks add */
  }
  close_on(w, b);
  if (right) return;
  w = open_on("1x2", SHOAL_FABRIC_NODE, 40, &b);
  CHECK_OK(shoal_world_try_direct(w, true));
  CHECK_STR(shoal_world_fabric(w), "NCCL");
  CHECK(!shoal_world_direct(w), "beside NCCL: %s", logged());
  close_on(w, b);
}

/* ---- who does not come ---- */

static shoal_status sum(shoal_exchange *e, float *x, shoal_backend *b)
{
  shoal_status st = shoal_exchange_start(e, x, shoal_backend_mark(b));
  return st == SHOAL_OK ? shoal_exchange_wait(e) : st;
}

/* Rank 1 leaves out a start: of a sum that is stamped with its step, it comes with another start, and without it not at all. */
static void absent(const char *pretend, bool stamped)
{
  enum { N = 100 };
  shoal_backend *b;
  shoal_memory x;
  shoal_exchange *e = NULL;
  shoal_world *w = open_on(pretend, SHOAL_FABRIC_NODE, 2, &b);
  REQUIRE(b->ops->alloc(b, SHOAL_MEMORY_DEVICE, N * sizeof(float), &x) == SHOAL_OK, "alloc");
  CHECK_OK(shoal_exchange_create_sum(shoal_world_group(w), "bucket 0", N, SHOAL_WIRE_F32, SHOAL_SUM_AUTO, &e));
  CHECK_EQ(shoal_exchange_algorithm(e), SHOAL_SUM_TWO_LEVEL);
  for (int i = 0; i < 3; i++) CHECK_OK(sum(e, x.at, b));
  shoal_exchange_stamp(e, rank == 1 ? 31 : 30);
  if (rank != 1 || stamped) {
    uint64_t t0 = shoal_now_ns();
    CHECK_STATUS(sum(e, x.at, b), SHOAL_ERR_HANG);
    CHECK_LT(shoal_seconds_since(t0), 30, "in time");
    if (rank == 0) CHECK_HAS(check_error(), "exchange \"bucket 0\" number 4 of group world");
    if (rank == 0) CHECK_HAS(strstr(check_error(), "not heard from"), "rank 1");
    if (rank == 0 && stamped) CHECK_HAS(check_error(), "rank 1 is in another start of it");
  }
  shoal_exchange_destroy(e);
  b->ops->release(b, &x);
  close_on(w, b);
}

static void lost(void)
{
  enum { N = 5000 };
  shoal_backend *b;
  shoal_memory x;
  shoal_exchange *e = NULL;
  shoal_world *w = open_on("1x2", SHOAL_FABRIC_NODE, 40, &b);
  REQUIRE(b->ops->alloc(b, SHOAL_MEMORY_DEVICE, N * sizeof(float), &x) == SHOAL_OK, "alloc");
  CHECK_OK(shoal_exchange_create_sum(shoal_world_group(w), "bucket 0", N, SHOAL_WIRE_F32, SHOAL_SUM_AUTO, &e));
  CHECK_OK(sum(e, x.at, b));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) kill(getpid(), SIGKILL);
  uint64_t t0 = shoal_now_ns();
  CHECK_STATUS(sum(e, x.at, b), SHOAL_ERR_COMM);
  CHECK_HAS(check_error(), "rank 1 (");
  CHECK_HAS(check_error(), " is gone");
  CHECK_LT(shoal_seconds_since(t0), 10, "long before the limit of hangs");
  shoal_exchange_destroy(e);
  b->ops->release(b, &x);
  CHECK(shoal_world_broken(w), "nothing more is agreed on");
  shoal_backend_close(b); /* nothing of NCCL's is left on the device that it could wait for */
  if (!check_failures) fprintf(stderr, "told: %s\n", check_error());
  shoal_world_abort(w, 0);
}

/* Each rank sees a device of its own, as Slurm does it for --gpus-per-task=1.  The run time has looked already. */
static void see_one_device(char **argv)
{
  const char *me = getenv("OMPI_COMM_WORLD_RANK");
  if (!me || getenv("CUDA_VISIBLE_DEVICES")) return;
  setenv("CUDA_VISIBLE_DEVICES", argv[1] && strcmp(argv[1], "shared") == 0 ? "0" : me, 1);
  execv("/proc/self/exe", argv);
}

static bool all_have_one(void)
{
  shoal_gpu gpu[SHOAL_GPUS_MAX];
  int n = 0, one = shoal_backend_devices("cuda", gpu, &n) == SHOAL_OK && n > 0, all = 0;
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all;
}

int main(int argc, char **argv)
{
  const char *mode = argc > 1 ? argv[1] : "";
  see_one_device(argv);
  mpi_start(&rank, &size);
  *(void **)&inject = dlsym(RTLD_DEFAULT, "simgpu_inject");
  if (!all_have_one()) CHECK_SKIP("not every rank has a GPU: %s", check_error());
  if (strcmp(mode, "lost") == 0) lost();
  if (strncmp(mode, "mpi_", 4) == 0) {
    with_mpi(strcmp(mode, "mpi_right") == 0);
    return mpi_done();
  }
  if (strcmp(mode, "shared") == 0) {
    without(size == 2 ? "1x2" : "2x2", SHOAL_FABRIC_NODE, "ranks 0 and 1 (");
    return mpi_done();
  }
  if (size == 2) placement("1x2", SHOAL_FABRIC_NODE);
  if (size == 2) placement("2x1", SHOAL_FABRIC_ALL);
  if (size == 4) placement("1x4", SHOAL_FABRIC_NODE);
  if (size == 4) placement("2x2", SHOAL_FABRIC_NODE);
  if (size == 4) placement("2x2", SHOAL_FABRIC_ALL);
  if (size == 4) placement("2,1,1", SHOAL_FABRIC_NODE);
  reasons(size == 2 ? "1x2" : "2x2");
  absent(size == 2 ? "1x2" : "2x2", size == 4);
  return mpi_done();
}
