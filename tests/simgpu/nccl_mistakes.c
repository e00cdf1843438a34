/* The stand-in for NCCL on its own: two ranks that do it right get exact sums in every order of the simulator, and what one of them does
 * wrong ends it with a line that names it. */
#include "base/mem.h"
#include "check.h"
#include "simgpu/simgpu.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <nccl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1000, SEEDS = 6 };
static int rank;
static ncclComm_t comm;
static cudaStream_t stream, other;
static cudaEvent_t event;
static float *x, *pinned;
static void (*seed_of)(unsigned);

static struct invitation {
  ncclUniqueId id;
  _Atomic int sent;
} * shared;

static void need(int e, int line)
{
  if (e == 0) return;
  fprintf(stderr, "error %d in line %d\n", e, line);
  _exit(2);
}
#define NEED(call) need((int)(call), __LINE__)

static void settle_comm(void)
{
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) NEED(ncclCommGetAsyncError(comm, &state));
  NEED(state);
}

static void allow(ncclResult_t e)
{
  NEED(e == ncclInProgress ? ncclSuccess : e);
}

static void open_rank(void)
{
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  NEED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  NEED(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  NEED(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  NEED(cudaMalloc((void **)&x, N * sizeof *x));
  NEED(cudaHostAlloc((void **)&pinned, N * sizeof *pinned, cudaHostAllocDefault));
  for (int i = 0; i < N; i++) pinned[i] = (float)(i % 17 + rank);
  NEED(cudaMemcpyAsync(x, pinned, N * sizeof *x, cudaMemcpyDefault, stream));
  if (rank == 0) NEED(ncclGetUniqueId(&shared->id));
  if (rank == 0) shared->sent = 1;
  while (!shared->sent) usleep(100);
  allow(ncclCommInitRankConfig(&comm, 2, shared->id, rank, &config));
  settle_comm();
}

static void all_reduce(size_t n)
{
  allow(ncclAllReduce(x, x, n, ncclFloat32, ncclSum, comm, stream));
}

static void scatter(void)
{
  allow(ncclReduceScatter(x, x + rank * (N / 2), N / 2, ncclFloat32, ncclSum, comm, stream));
}

static void wait_for_all(void)
{
  settle_comm();
  NEED(cudaStreamSynchronize(stream));
}

/* ---- right ---- */

static void right(void)
{
  enum { EACH = N / 2 - 1, REST = 2 };
  float *mine = x + rank * EACH, *rest = x + 2 * EACH;
  NEED(ncclGroupStart());
  allow(ncclReduceScatter(x, mine, EACH, ncclFloat32, ncclSum, comm, stream));
  allow(ncclReduce(rest, rest, REST, ncclFloat32, ncclSum, 1, comm, stream));
  allow(ncclGroupEnd());
  settle_comm();
  NEED(ncclGroupStart());
  allow(ncclBroadcast(rest, rest, REST, ncclFloat32, 1, comm, stream));
  allow(ncclAllGather(mine, x, EACH, ncclFloat32, comm, stream));
  allow(ncclGroupEnd());
  settle_comm();
  NEED(cudaMemcpyAsync(pinned, x, N * sizeof *x, cudaMemcpyDefault, stream));
  NEED(cudaStreamSynchronize(stream));
  for (int i = 0; i < N; i++) CHECK_EQ(pinned[i], 2 * (i % 17) + 1);
  allow(ncclCommFinalize(comm));
  settle_comm();
  NEED(ncclCommDestroy(comm));
}

static void right_abort(void)
{
  if (rank == 0) all_reduce(N);
  if (rank == 0) settle_comm();
  if (rank == 0) shared->sent = 2;
  while (shared->sent < 2) usleep(100);
  NEED(ncclCommAbort(comm));
  NEED(cudaStreamSynchronize(stream));
  NEED(cudaFree(x));
}

/* ---- wrong ---- */

static void other_kind(void)
{
  if (rank)
    scatter();
  else
    all_reduce(N);
  wait_for_all();
}
static void other_count(void)
{
  all_reduce(rank ? N : N - 1);
  wait_for_all();
}
static void other_order(void)
{
  for (int k = 0; k < 2; k++) {
    if (k == rank)
      scatter();
    else
      all_reduce(N);
    settle_comm();
  }
  wait_for_all();
}
static void other_root(void)
{
  allow(ncclBroadcast(x, x, N, ncclFloat32, rank, comm, stream));
  wait_for_all();
}
static void does_not_come(void)
{
  if (rank == 0) all_reduce(N);
  if (rank == 0) wait_for_all();
  pause();
}
static void wrong_device(void)
{
  NEED(cudaSetDevice(1));
  all_reduce(N);
}
static void wrong_stream(void)
{
  NEED(cudaSetDevice(1));
  NEED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  NEED(cudaSetDevice(0));
  all_reduce(N);
}
static void wrong_memory(void)
{
  NEED(cudaSetDevice(1));
  NEED(cudaMalloc((void **)&x, N * sizeof *x));
  NEED(cudaSetDevice(0));
  all_reduce(N);
}
static void changed(void)
{
  all_reduce(N);
  settle_comm();
  NEED(cudaMemsetAsync(x, rank + 1, N * sizeof *x, other));
  NEED(cudaStreamSynchronize(stream));
}
static void freed(void)
{
  all_reduce(N);
  settle_comm();
  NEED(cudaFree(x));
}
static void group_open(void)
{
  NEED(ncclGroupStart());
  all_reduce(N);
  NEED(cudaEventRecord(event, stream));
}
static void group_not_begun(void)
{
  all_reduce(N);
  NEED(ncclGroupEnd());
}
static void too_early(void)
{
  all_reduce(N);
  NEED(cudaEventRecord(event, stream));
}
static void on_top(void)
{
  all_reduce(N);
  all_reduce(N);
}
static void not_over(void)
{
  all_reduce(N);
  settle_comm();
  allow(ncclCommFinalize(comm));
}

static const struct {
  const char *name;
  void (*run)(void);
  const char *says; /* NULL: it is right */
} cases[] = {
  { "right", right, NULL },
  { "right abort", right_abort, NULL },
  { "other kind", other_kind, "makes ncclAllReduce of 1000 numbers with root -1 its call 1" },
  { "other count", other_count, "makes ncclAllReduce of 999 numbers with root -1 its call 1" },
  { "other order", other_order, "makes ncclReduceScatter of 500 numbers with root -1 its call 1" },
  { "other root", other_root, "makes ncclBroadcast of 1000 numbers with root 1 its call 1" },
  { "does not come", does_not_come, "waits for ncclAllReduce, for which another rank has not come in 1 s" },
  { "wrong device", wrong_device, "ncclAllReduce: device 1 is the current one, and the communicator is of device 0" },
  { "wrong stream", wrong_stream, "a stream of device 1 while device 0 is the current one" },
  { "wrong memory", wrong_memory, "ncclAllReduce: memory of device 1, and the communicator is of device 0" },
  { "changed", changed, "the buffer of ncclAllReduce was changed while the call was in flight" },
  { "freed", freed, "cudaFree: 4000 bytes that" },
  { "group open", group_open, "cudaEventRecord between ncclGroupStart and ncclGroupEnd" },
  { "group not begun", group_not_begun, "ncclGroupEnd without ncclGroupStart" },
  { "too early", too_early, "cudaEventRecord before ncclCommGetAsyncError says" },
  { "on top", on_top, "ncclAllReduce: the call before is not known to be in its stream" },
  { "not over", not_over, "ncclCommFinalize: 1 of 1 calls are not over" },
};

static pid_t start_rank(size_t k, unsigned seed, int said)
{
  pid_t child = fork();
  if (child) return child;
  dup2(said, STDERR_FILENO);
  check_failures = 0;
  seed_of(seed + (unsigned)rank);
  open_rank();
  cases[k].run();
  _exit(check_failures ? 1 : 0);
}

/* Both ranks in processes of their own, whose standard error is in `said`.  The first that fails ends the other.  @return  99 if one
 * made a mistake: the other may have missed it already, and be found first */
static int run_case(size_t k, unsigned seed, char *said, size_t room)
{
  int ends[2], worst = 0;
  pid_t ranks[2];
  memset(shared, 0, sizeof *shared);
  REQUIRE(pipe2(ends, O_NONBLOCK) == 0, "pipe");
  for (rank = 0; rank < 2; rank++) ranks[rank] = start_rank(k, seed, ends[1]);
  for (int left = 2; left; left--) {
    int status = 0;
    pid_t ended = wait(&status);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (!worst || code == 99) worst = code;
    if (worst && left == 2) kill(ended == ranks[0] ? ranks[1] : ranks[0], SIGKILL);
  }
  ssize_t n = read(ends[0], said, room - 1);
  said[n > 0 ? n : 0] = 0;
  close(ends[0]);
  close(ends[1]);
  return worst;
}

int main(void)
{
  *(void **)&seed_of = dlsym(RTLD_DEFAULT, "simgpu_seed");
  if (!seed_of) CHECK_SKIP("this is not the simulated device");
  setenv("SIMGPU_PATIENCE", "1", 1);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (size_t k = 0; k < SHOAL_COUNT(cases); k++) {
    const bool some = cases[k].run == changed; /* shows in some orders only */
    const unsigned seeds = !cases[k].says || some ? SEEDS : 1;
    int caught = 0;
    for (unsigned seed = 0; seed < seeds; seed++) {
      char said[4096];
      int status = run_case(k, seed, said, sizeof said);
      caught += status == 99 && cases[k].says && strstr(said, cases[k].says);
      if (!cases[k].says) CHECK_EQ(status, 0, "%s, seed %u: %s", cases[k].name, seed, said);
      if (cases[k].says && !some) CHECK_HAS(said, cases[k].says, "%s", cases[k].name);
    }
    if (cases[k].says) CHECK_GE(caught, 1, "%s: \"%s\" was not said", cases[k].name, cases[k].says);
  }
  return check_done();
}
