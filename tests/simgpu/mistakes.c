/* The simulator's own test: small programs that are right give the right numbers in every order it may choose, and each kind of
 * mistake ends the program with a line that names it. */
#include "base/mem.h"
#include "check.h"
#include "simgpu/samples.h"
#include "simgpu/simgpu.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1000, BLOCKS = 8, SEEDS = 6 };
static cudaStream_t one, two;
static float *device[2], *pinned;

static void (*step)(int);
static void (*seed_of)(unsigned);
static void (*inject)(const char *, int, int);

static void need(cudaError_t e)
{
  if (e != cudaSuccess) {
    fprintf(stderr, "%s\n", cudaGetErrorString(e));
    _exit(2);
  }
}

static void launch(const void *kernel, unsigned blocks, unsigned threads, void *args, cudaStream_t s)
{
  need(cudaLaunchKernel(kernel, (dim3){ blocks, 1, 1 }, (dim3){ threads, 1, 1 }, (void *[]){ args }, 0, s));
}

static void fill(float value, float *y, size_t beyond, cudaStream_t s)
{
  launch((const void *)sample_fill, BLOCKS, 64, &(sample_fill_args){ N, value, y, beyond }, s);
}

static void open_device(void)
{
  need(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  need(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
  for (int i = 0; i < 2; i++) need(cudaMalloc((void **)&device[i], N * sizeof(float)));
  need(cudaHostAlloc((void **)&pinned, N * sizeof(float), cudaHostAllocDefault));
}

static void to_host(const float *from, cudaStream_t s)
{
  need(cudaMemcpyAsync(pinned, from, N * sizeof(float), cudaMemcpyDefault, s));
}

/* ---- what is right ---- */

static void right_events(void)
{
  cudaEvent_t filled;
  need(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
  for (int i = 0; i < 5; i++) {
    fill((float)i, device[0], 0, one);
    need(cudaEventRecord(filled, one));
    need(cudaStreamWaitEvent(two, filled, 0));
    to_host(device[0], two);
    need(cudaEventRecord(filled, two));
    need(cudaStreamWaitEvent(one, filled, 0));
    while (cudaEventQuery(filled) == cudaErrorNotReady) {}
    for (int k = 0; k < N; k++) CHECK_EQ(pinned[k], i);
  }
}

static void right_kernels(void)
{
  const unsigned blocks = (N + 127) / 128;
  for (int i = 0; i < N; i++) pinned[i] = (float)(i % 7);
  need(cudaMemcpyAsync(device[0], pinned, N * sizeof(float), cudaMemcpyDefault, one));
  launch((const void *)sample_sum, blocks, 128, &(sample_sum_args){ N, device[0], device[1], 0 }, one);
  launch((const void *)sample_shuffle, 1, 32, &(sample_shuffle_args){ device[0], device[1] + 500, 0 }, one);
  step(1);
  to_host(device[1], one);
  step(0);
  need(cudaStreamSynchronize(one));
  double sum = 0, want = 0;
  for (unsigned b = 0; b < blocks; b++) sum += pinned[b];
  for (int i = 0; i < N; i++) want += i % 7;
  CHECK_EQ(sum, want);
  CHECK_EQ(pinned[500], 90); /* 0 .. 6 four times, and 0 .. 3 */
}

static void right_errors(void)
{
  void *p = NULL;
  inject("cudaMalloc", 1, cudaErrorMemoryAllocation);
  CHECK_EQ(cudaMalloc(&p, 64), cudaSuccess);
  CHECK_EQ(cudaMalloc(&p, 64), cudaErrorMemoryAllocation);
  inject("kernel sample_fill", 0, cudaErrorLaunchFailure);
  fill(1, device[0], 0, one);
  CHECK_EQ(cudaStreamSynchronize(one), cudaErrorLaunchFailure);
  CHECK_EQ(cudaMalloc(&p, 64), cudaErrorLaunchFailure, "such an error stays");
}

/* A large pinned block, of which work of two streams uses the middle third; the host another part, which begins in the same page. */
enum { THIRD = 20002 };
static float *use_middle(void)
{
  float *all;
  need(cudaHostAlloc((void **)&all, 3 * THIRD * sizeof(float), cudaHostAllocDefault));
  for (int i = 0; i < 3 * THIRD; i++) all[i] = (float)i;
  need(cudaMemcpyAsync(device[1], all + THIRD + 9000, N * sizeof(float), cudaMemcpyDefault, two));
  need(cudaMemcpyAsync(all + THIRD, all + THIRD + THIRD / 2, THIRD / 2 * sizeof(float), cudaMemcpyDefault, one));
  return all + THIRD;
}
static void right_parts(void)
{
  const float *middle = use_middle();
  CHECK_EQ(middle[-1], THIRD - 1);
  CHECK_EQ(middle[15000], THIRD + 15000, "both sides may read");
  need(cudaStreamSynchronize(two)); /* the other's may be under way still */
  CHECK_EQ(middle[-1], THIRD - 1);
  CHECK_EQ(middle[THIRD], 2 * THIRD);
  need(cudaStreamSynchronize(one));
  CHECK_EQ(middle[2500], THIRD + THIRD / 2 + 2500);
}

/* Recorded with an argument that its kernel reads on the device, and with a branch in another stream: each launch sees what is in
 * memory then. */
static cudaGraphExec_t finish(cudaStream_t s)
{
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  need(cudaStreamEndCapture(s, &graph));
  need(cudaGraphInstantiate(&exec, graph, 0));
  need(cudaGraphDestroy(graph));
  return exec;
}
static void begin(cudaStream_t s)
{
  need(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
}
static void copy(const float *from, float *to, size_t n, cudaStream_t s)
{
  need(cudaMemcpyAsync(to, from, n * sizeof(float), cudaMemcpyDefault, s));
}
static cudaEvent_t event_in(cudaStream_t s)
{
  cudaEvent_t e;
  need(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  need(cudaEventRecord(e, s));
  return e;
}

static void right_graph(void)
{
  begin(one);
  launch((const void *)sample_sum, 1, 128, &(sample_sum_args){ 128, device[0], device[1], 0 }, one);
  need(cudaStreamWaitEvent(two, event_in(one), 0));
  copy(device[1], device[1] + 1, 1, two);
  copy(device[1], device[1] + 2, 1, one);
  need(cudaStreamWaitEvent(one, event_in(two), 0));
  copy(device[1] + 1, device[1] + 3, 2, one);
  cudaGraphExec_t exec = finish(one);
  for (int i = 0; i < 5; i++) {
    fill((float)i, device[0], 0, one);
    step(1);
    need(cudaGraphLaunch(exec, one));
    to_host(device[1], one);
    step(0);
    need(cudaStreamSynchronize(one));
    for (int k = 0; k < 5; k++) CHECK_EQ(pinned[k], 128 * i, "number %d of launch %d", k, i);
  }
  need(cudaGraphExecDestroy(exec));
}

/* ---- what is not ---- */

/* What a program finds by itself. */
static void old_data(void)
{
  fprintf(stderr, "simgpu: MISTAKE: old data\n");
  _exit(99);
}
/* As a learning rate, or the seed of dropout, that is an argument and not in memory. */
static void graph_value(void)
{
  cudaGraphExec_t exec = NULL;
  for (int i = 1; i < 3; i++) {
    if (!exec) {
      begin(one);
      fill((float)i, device[0], 0, one);
      exec = finish(one);
    }
    need(cudaGraphLaunch(exec, one));
    to_host(device[0], one);
    need(cudaStreamSynchronize(one));
    if (pinned[0] != (float)i) old_data();
  }
}
/* As labels that go through a piece of pinned memory of which others make use, too: it has another's numbers ... */
static void graph_piece(void)
{
  float *piece;
  need(cudaHostAlloc((void **)&piece, N * sizeof(float), cudaHostAllocDefault));
  begin(one);
  copy(piece, device[0], N, one);
  cudaGraphExec_t exec = finish(one);
  piece[0] = 1;
  need(cudaGraphLaunch(exec, one));
  need(cudaStreamSynchronize(one));
  piece[0] = 2; /* for another copy */
  copy(piece, device[1], N, one);
  need(cudaStreamSynchronize(one));
  need(cudaGraphLaunch(exec, one));
  to_host(device[0], one);
  need(cudaStreamSynchronize(one));
  if (pinned[0] != 1) old_data();
}
/* ... or is about to get them. */
static void graph_piece_in_use(void)
{
  begin(one);
  copy(pinned, device[0], N, one);
  cudaGraphExec_t exec = finish(one);
  pinned[0] = 1;
  need(cudaGraphLaunch(exec, one));
  pinned[0] = 2;
}
static void graph_of_freed(void)
{
  begin(one);
  fill(5, device[0], 0, one);
  cudaGraphExec_t exec = finish(one);
  need(cudaFree(device[0]));
  need(cudaMalloc((void **)&device[0], N * sizeof(float)));
  need(cudaGraphLaunch(exec, one));
}
static void graph_freed_in_flight(void)
{
  begin(one);
  fill(5, device[0], 0, one);
  need(cudaGraphLaunch(finish(one), one));
  need(cudaFree(device[0]));
}
static void graph_destroyed_in_flight(void)
{
  begin(one);
  fill(5, device[0], 0, one);
  cudaGraphExec_t exec = finish(one);
  need(cudaGraphLaunch(exec, one));
  need(cudaGraphExecDestroy(exec));
}
static void records_and_waits(void)
{
  begin(one);
  need(cudaStreamSynchronize(two));
}
static void records_and_asks(void)
{
  cudaEvent_t e = event_in(two);
  begin(one);
  (void)cudaEventQuery(e);
}
static void records_and_allocates(void)
{
  begin(one);
  need(cudaMalloc((void **)&device[0], N * sizeof(float)));
}
static void records_and_awaits(void)
{
  cudaEvent_t e = event_in(two);
  begin(one);
  need(cudaStreamWaitEvent(one, e, 0));
}
static void records_by_default(void)
{
  begin(NULL);
}
static void asks_a_recorded(void)
{
  begin(one);
  fill(5, device[0], 0, one);
  cudaEvent_t e = event_in(one);
  need(cudaGraphLaunch(finish(one), one));
  need(cudaEventSynchronize(e));
}
static void not_joined(void)
{
  begin(one);
  fill(5, device[0], 0, one);
  need(cudaStreamWaitEvent(two, event_in(one), 0));
  fill(6, device[1], 0, two);
  fill(7, device[0], 0, one);
  (void)finish(one);
}
static void branch_without_event(void)
{
  begin(one);
  fill(5, device[0], 0, one);
  need(cudaStreamWaitEvent(two, event_in(one), 0));
  fill(6, device[0], 0, one);
  to_host(device[0], two); /* no event between them */
  need(cudaStreamWaitEvent(one, event_in(two), 0));
  need(cudaGraphLaunch(finish(one), one));
  need(cudaStreamSynchronize(one));
  if (pinned[0] != 6) old_data();
}
static void makes_graph_in_step(void)
{
  step(1);
  begin(one);
  (void)finish(one);
}

static void host_reads(void)
{
  fprintf(stderr, "%g\n", (double)device[0][17]);
}
static void host_writes_pinned(void)
{
  to_host(device[0], one);
  pinned[0] = 1;
}
static void host_writes_source(void)
{
  need(cudaMemcpyAsync(device[0], pinned, N * sizeof(float), cudaMemcpyDefault, one));
  if (!(pinned[0] > 1)) pinned[0] = 1; /* reading it is right */
}
static void missing_event(void)
{
  fill(5, device[0], 0, one);
  need(cudaStreamSynchronize(one));
  fill(6, device[0], 0, one);
  to_host(device[0], two); /* no event between them */
  need(cudaStreamSynchronize(two));
  if (pinned[0] != 6) old_data();
}
static void missing_wait(void)
{
  pinned[0] = 0;
  fill(6, device[0], 0, one);
  to_host(device[0], one);
  fprintf(stderr, "%g\n", (double)pinned[0]);
}
static void part_in_use(void)
{
  const float *middle = use_middle();
  fprintf(stderr, "%g\n", (double)middle[2500]);
}
static void freed_in_flight(void)
{
  fill(5, device[0], 0, one);
  need(cudaFree(device[0]));
}
static void used_after_free(void)
{
  need(cudaFree(device[0]));
  fill(5, device[0], 0, one);
}
static void beyond_range(void)
{
  fill(5, device[0], 1, one);
  need(cudaStreamSynchronize(one));
}
static void beyond_allocation(void)
{
  need(cudaMemsetAsync(device[0] + 1, 0, N * sizeof(float), one));
}
static void blocks(int kind)
{
  launch((const void *)sample_blocks, BLOCKS, 32, &(sample_blocks_args){ N, device[0], kind }, one);
  need(cudaStreamSynchronize(one));
}
static void race_write(void)
{
  blocks(1);
}
static void race_read(void)
{
  blocks(2);
}
static void only_read(void)
{
  blocks(3);
}
static void no_barrier(void)
{
  need(cudaMemsetAsync(device[0], 0, N * sizeof(float), one));
  launch((const void *)sample_sum, 1, 128, &(sample_sum_args){ 128, device[0], device[1], 1 }, one);
  need(cudaStreamSynchronize(one));
}
static void diverged(void)
{
  need(cudaMemsetAsync(device[0], 0, N * sizeof(float), one));
  launch((const void *)sample_shuffle, 1, 32, &(sample_shuffle_args){ device[0], device[1], 1 }, one);
  need(cudaStreamSynchronize(one));
}
static void allocates_in_step(void)
{
  void *p;
  step(1);
  need(cudaMalloc(&p, 8));
}
static void waits_in_step(void)
{
  step(1);
  need(cudaStreamSynchronize(one));
}
static void wrong_device(void)
{
  need(cudaSetDevice(1));
  fill(5, device[0], 0, one);
}
static void default_stream(void)
{
  fill(5, device[0], 0, NULL);
}
static void pageable(void)
{
  float host[4] = { 0 };
  need(cudaMemcpyAsync(device[0], host, sizeof host, cudaMemcpyDefault, one));
}
static void never_recorded(void)
{
  cudaEvent_t e;
  need(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  need(cudaStreamWaitEvent(one, e, 0));
}
static void never_ends(void)
{
  inject("kernel sample_fill", 0, SIMGPU_NEVER);
  fill(5, device[0], 0, one);
  if (cudaStreamQuery(one) != cudaErrorNotReady) _exit(3);
  need(cudaStreamSynchronize(one));
}

static const struct {
  const char *name;
  void (*run)(void);
  const char *says; /* NULL: it is right */
} cases[] = {
  { "events", right_events, NULL },
  { "kernels", right_kernels, NULL },
  { "errors", right_errors, NULL },
  { "parts", right_parts, NULL },
  { "graph", right_graph, NULL },
  { "host reads", host_reads, "host code touches device memory" },
  { "host writes pinned", host_writes_pinned, "while queued work uses it" },
  { "host writes what is copied", host_writes_source, "while queued work uses it" },
  { "missing event", missing_event, "old data" },
  { "missing wait", missing_wait, "while queued work uses it" },
  { "part in use", part_in_use, "while queued work uses it" },
  { "freed in flight", freed_in_flight, "cudaFree: 4000 bytes that 1 pieces of queued work use" },
  { "used after free", used_after_free, "is neither device nor pinned memory" },
  { "beyond range", beyond_range, "outside the ranges that it declares" },
  { "beyond allocation", beyond_allocation, "go beyond a device allocation of 4000 bytes" },
  { "race of writes", race_write, "touched with no barrier between them" },
  { "race of a read and a write", race_read, "touched with no barrier between them" },
  { "only read", only_read, "a range that it only declares to read" },
  { "no barrier", no_barrier, "touched with no barrier between them" },
  { "diverged", diverged, "a shuffle lacks threads of its warp" },
  { "allocates in a step", allocates_in_step, "cudaMalloc inside the step" },
  { "waits in a step", waits_in_step, "cudaStreamSynchronize inside the step" },
  { "wrong device", wrong_device, "a stream of device 0 while device 1 is the current one" },
  { "default stream", default_stream, "uses the default stream" },
  { "pageable", pageable, "is pageable memory" },
  { "never recorded", never_recorded, "an event that was never recorded" },
  { "never ends", never_ends, "the host waits, unwatched, for kernel sample_fill, which never ends" },
  { "a value in a graph", graph_value, "old data" },
  { "a pinned piece in a graph", graph_piece, "old data" },
  { "a pinned piece in use by a graph", graph_piece_in_use, "while queued work uses it" },
  { "a graph of freed memory", graph_of_freed, "is neither device nor pinned memory" },
  { "freed while a graph is in flight", graph_freed_in_flight, "bytes that 1 pieces of queued work use" },
  { "graph destroyed in flight", graph_destroyed_in_flight, "queued work is of this graph" },
  { "waits while it records", records_and_waits, "cudaStreamSynchronize while work is recorded" },
  { "asks while it records", records_and_asks, "cudaEventQuery while work is recorded" },
  { "allocates while it records", records_and_allocates, "cudaMalloc while work is recorded" },
  { "awaits what is outside", records_and_awaits, "an event from outside of what is recorded" },
  { "records the default stream", records_by_default, "uses the default stream" },
  { "asks for a recorded event", asks_a_recorded, "an event that was recorded into a graph" },
  { "a branch that is not joined", not_joined, "a stream that was recorded, too, is not waited for" },
  { "a branch without its event", branch_without_event, "old data" },
  { "makes a graph in the step", makes_graph_in_step, "cudaGraphInstantiate inside the step" },
};

/* One case in a process of its own; its standard error is in `said`. */
static int run_case(size_t k, unsigned seed, char *said, size_t room)
{
  int ends[2], status = 0;
  REQUIRE(pipe(ends) == 0, "pipe");
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    check_failures = 0;
    seed_of(seed);
    open_device();
    cases[k].run();
    _exit(check_failures ? 1 : 0);
  }
  close(ends[1]);
  size_t n = 0;
  for (ssize_t got; n < room - 1 && (got = read(ends[0], said + n, room - 1 - n)) > 0;) n += (size_t)got;
  said[n] = 0;
  close(ends[0]);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
  *(void **)&step = dlsym(RTLD_DEFAULT, "simgpu_step");
  *(void **)&seed_of = dlsym(RTLD_DEFAULT, "simgpu_seed");
  *(void **)&inject = dlsym(RTLD_DEFAULT, "simgpu_inject");
  if (!step || !seed_of || !inject) CHECK_SKIP("this is not the simulated device");
  for (size_t k = 0; k < SHOAL_COUNT(cases); k++) {
    int caught = 0;
    const bool by_order = cases[k].run == missing_event || cases[k].run == branch_without_event;
    const int wanted = by_order ? 1 : SEEDS; /* then old data show in some orders only */
    for (unsigned seed = 0; seed < SEEDS; seed++) {
      char said[4096];
      int status = run_case(k, seed, said, sizeof said);
      caught += status == 99 && cases[k].says && strstr(said, cases[k].says);
      if (!cases[k].says || wanted == SEEDS)
        CHECK_EQ(status, cases[k].says ? 99 : 0, "%s, seed %u: %s", cases[k].name, seed, said);
    }
    if (cases[k].says) CHECK_GE(caught, wanted, "%s: orders in which \"%s\" was said", cases[k].name, cases[k].says);
  }
  return check_done();
}
