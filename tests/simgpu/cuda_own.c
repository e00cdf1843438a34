/* The cuda backend on memory that the host does not reach: what the suite, which sees it through a mirror, cannot show.
 *
 * Runs on a GPU, and on the simulated one, which then also injects errors and forbids allocations and waits in a step. */
#include "base/mem.h"
#include "check.h"
#include "simgpu/simgpu.h"
#include "tensor/backend.h"
#include "tensor/half.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>

enum { N = 300000, ROWS = 6, IN = 40, OUT = 7 };
static shoal_backend *b;
static void (*step)(int);
static void (*inject)(const char *, int, int);

static float *arena(shoal_memory_kind kind, size_t n, shoal_memory *m)
{
  REQUIRE(b->ops->alloc(b, kind, n * sizeof(float), m) == SHOAL_OK, "%s", check_error());
  return m->at;
}

/* New memory of each kind is zero, however much of it; host memory may change as soon as a copy returns. */
static void check_memory(void)
{
  static float host[N];
  for (int kind = SHOAL_MEMORY_DEVICE; kind <= SHOAL_MEMORY_PINNED; kind++) {
    shoal_memory m[2];
    float *x = arena((shoal_memory_kind)kind, N, &m[0]), *y = arena(SHOAL_MEMORY_DEVICE, N, &m[1]);
    for (int i = 0; i < N; i++) host[i] = NAN;
    CHECK_OK(b->ops->copy(b, sizeof host, x, host));
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += host[i] != 0;
    CHECK_EQ(wrong, 0, "memory of kind %d is not zero", kind);
    for (int i = 0; i < N; i++) host[i] = (float)i;
    CHECK_OK(b->ops->copy(b, sizeof host, host, x));
    memset(host, 0xff, sizeof host);
    CHECK_OK(b->ops->copy(b, sizeof host, x, y));
    CHECK_OK(b->ops->fill(b, N, -1, x));
    CHECK_OK(b->ops->copy(b, sizeof host, y, host));
    for (int i = 0; i < N; i++) wrong += host[i] != (float)i;
    CHECK_EQ(wrong, 0, "copies through kind %d", kind);
    for (int k = 0; k < 6; k++) { /* more than the pinned pieces that copies go through */
      host[N / 2] = (float)k;
      CHECK_OK(b->ops->copy(b, sizeof host, host, x));
    }
    CHECK_OK(b->ops->copy(b, sizeof *host, x + N / 2, host));
    CHECK_EQ(host[0], 5);
    CHECK_OK(b->ops->fill(b, N, -1, x)); /* still to run when it is released */
    for (int i = 0; i < 2; i++) b->ops->release(b, &m[i]);
    CHECK(!m[0].at, "released memory is still there");
  }
}

/* Marks are reached in order, each at the latest when everything is; also those whose event a later mark has taken over. */
static void check_marks(void)
{
  enum { MARKS = 600 };
  shoal_memory m, p;
  float *x = arena(SHOAL_MEMORY_DEVICE, N, &m), *seen = arena(SHOAL_MEMORY_PINNED, MARKS, &p);
  shoal_event e[MARKS];
  for (int i = 0; i < MARKS; i++) {
    CHECK_OK(b->ops->fill(b, 1, (float)(i + 1), x));
    CHECK_OK(b->ops->copy(b, sizeof *x, x, seen + i));
    e[i] = shoal_backend_mark(b);
    if (i) CHECK_GT(e[i].number, e[i - 1].number);
  }
  while (!shoal_event_reached(e[MARKS / 2])) {}
  for (int i = 0; i <= MARKS / 2; i++) CHECK(shoal_event_reached(e[i]), "mark %d", i);
  CHECK_OK(b->ops->settle(b));
  for (int i = 0; i < MARKS; i++) {
    CHECK(shoal_event_reached(e[i]), "mark %d", i);
    CHECK_EQ(seen[i], i + 1, "reached before it was written");
  }
  b->ops->release(b, &m);
  b->ops->release(b, &p);
}

/* Copies beside the work: in before what is computed from them, out after it, to host memory that is touched without settle. */
static void check_beside(void)
{
  enum { ROUNDS = 5, SIZE = 70000 };
  shoal_memory in, out, x_own, y_own;
  float *from = arena(SHOAL_MEMORY_PINNED, SIZE, &in), *to = arena(SHOAL_MEMORY_PINNED, SIZE, &out);
  float *x = arena(SHOAL_MEMORY_DEVICE, SIZE, &x_own), *y = arena(SHOAL_MEMORY_DEVICE, SIZE, &y_own);
  uint64_t used = 0, came = 0, went = 0;
  for (int k = 1; k <= ROUNDS; k++) {
    for (int i = 0; i < SIZE; i++) from[i] = (float)(k * (i % 10));
    CHECK_OK(b->ops->copy_beside(b, used, SIZE * sizeof *x, from, x, &came));
    CHECK_GT(came, used);
    CHECK_OK(b->ops->await(b, came));
    CHECK_OK(b->ops->add(b, SIZE, x, y));
    used = b->ops->mark(b);
    CHECK_OK(b->ops->copy_beside(b, used, SIZE * sizeof *x, y, to, &went));
    while (!b->ops->reached(b, went)) {}
    int wrong = 0;
    for (int i = 0; i < SIZE; i++) wrong += to[i] != (float)(k * (k + 1) / 2 * (i % 10));
    CHECK_EQ(wrong, 0, "round %d", k);
    CHECK(b->ops->reached(b, came), "what was copied in before");
  }
  shoal_memory *all[] = { &in, &out, &x_own, &y_own };
  for (size_t i = 0; i < SHOAL_COUNT(all); i++) b->ops->release(b, all[i]);
}

/* A layer, its loss and backward on the device, queued as in training: after a first step no allocation and no wait; the numbers are
 * those of ref. */
typedef struct {
  float y[ROWS * OUT], dw[OUT * IN], db[OUT], dx[ROWS * IN], loss;
} outcome;

static void train(shoal_backend *on, bool relu, outcome *out)
{
  const shoal_backend_ops *ops = on->ops;
  const shoal_op_desc d = { .kind = SHOAL_OP_LINEAR,
                            .in = { SHOAL_SHAPE(ROWS, IN) },
                            .out = SHOAL_SHAPE(0, OUT),
                            .bias = true,
                            .relu = relu,
                            .training = true,
                            .need_dx = true };
  enum { X, W, B, Y, DY, DW, DB, DX, SCRATCH, TENSORS };
  size_t size[TENSORS] = { ROWS * IN, OUT * IN, OUT, ROWS * OUT, ROWS * OUT, OUT * IN, OUT, ROWS * IN };
  const struct {
    float scale;
    int32_t labels[ROWS];
  } given = { 1.0f / ROWS, { 0, 3, 6, 1, 2, 5 } }, *now;
  shoal_memory m[TENSORS], loss, block;
  float *t[TENSORS], host[ROWS * IN + OUT * IN];
  shoal_op *op = NULL;
  REQUIRE(shoal_op_create(on, &d, NULL, &op) == SHOAL_OK, "%s", check_error());
  size[SCRATCH] = op->scratch_bytes / sizeof(float);
  for (int i = 0; i < TENSORS; i++) {
    REQUIRE(ops->alloc(on, SHOAL_MEMORY_DEVICE, size[i] * sizeof(float), &m[i]) == SHOAL_OK, "%s", check_error());
    t[i] = m[i].at;
  }
  REQUIRE(ops->alloc(on, SHOAL_MEMORY_PINNED, sizeof(shoal_loss), &loss) == SHOAL_OK, "%s", check_error());
  REQUIRE(ops->alloc(on, SHOAL_MEMORY_DEVICE, sizeof given, &block) == SHOAL_OK, "%s", check_error());
  now = block.at;
  CHECK_OK(ops->copy(on, sizeof given, &given, block.at));
  for (int i = 0; i < ROWS * IN + OUT * IN; i++) host[i] = (float)(i * 37 % 101 - 50) / 64;
  shoal_op_args a = { .x = { t[X] },
                      .y = t[Y],
                      .dy = t[DY],
                      .dx = { t[DX] },
                      .w = { t[W], t[B] },
                      .dw = { t[DW], t[DB] },
                      .scratch = t[SCRATCH] };
  CHECK_OK(ops->copy(on, size[X] * sizeof(float), host, t[X]));
  CHECK_OK(ops->copy(on, size[W] * sizeof(float), host + size[X], t[W]));
  for (int k = 0; k < 3; k++) {
    if (step && k) step(1);
    CHECK_OK(op->forward(op, &a));
    CHECK_OK(ops->softmax_xent(on, ROWS, OUT, t[Y], now->labels, NULL, 0.1f, &now->scale, true, t[DY], loss.at));
    CHECK_OK(op->backward_weights(op, &a));
    CHECK_OK(op->backward_data(op, &a));
    CHECK_OK(ops->axpby(on, size[W], -0.125f, t[DW], 1, t[W]));
    if (step) step(0);
  }
  const struct {
    int tensor;
    float *to;
  } results[] = { { Y, out->y }, { DW, out->dw }, { DB, out->db }, { DX, out->dx } };
  for (size_t i = 0; i < SHOAL_COUNT(results); i++)
    CHECK_OK(ops->copy(on, size[results[i].tensor] * sizeof(float), t[results[i].tensor], results[i].to));
  CHECK_OK(ops->settle(on));
  out->loss = (float)((shoal_loss *)loss.at)->loss;
  ops->release(on, &loss);
  ops->release(on, &block);
  for (int i = 0; i < TENSORS; i++) ops->release(on, &m[i]);
  shoal_op_destroy(op);
}

/* Bias and its gradient beside the products, and without where cuBLASLt has no algorithm. */
static void check_training(void)
{
  static outcome got, want;
  shoal_backend *ref = NULL;
  REQUIRE(shoal_backend_open("ref", 1, &ref) == SHOAL_OK, "ref");
  for (int way = 0; way < 3; way++) {
    if (way == 2) setenv("SIMGPU_NO_EPILOGUE", "1", 1);
    train(b, way == 1, &got);
    train(ref, way == 1, &want);
    const float *g = (const float *)&got, *w = (const float *)&want;
    for (size_t i = 0; i < sizeof got / sizeof *g; i++)
      CHECK_NEAR(g[i], w[i], 2e-6 * (1 + fabs((double)w[i])), "way %d, number %zu", way, i);
    CHECK_GT(want.loss, 1);
  }
  unsetenv("SIMGPU_NO_EPILOGUE");
  shoal_backend_close(ref);
}

/* cuBLASLt does what it is planned for: it is asked for a bias without a relu, and for the gradient of a bias if products are f32,
 * wherever all memory is aligned; an error that waits for its next call tells. */
static void check_epilogues(void)
{
  static const shoal_products products[] = { SHOAL_PRODUCTS_F32, SHOAL_PRODUCTS_TF32, SHOAL_PRODUCTS_BF16 };
  enum { SIZE = ROWS * IN + 1, FACTORS = 3 };
  if (!inject) return;
  for (size_t p = 0; p < SHOAL_COUNT(products); p++)
    for (int way = 0; way < 8; way++) {
      const bool relu = way & 1, trained = !(way & 2);
      const size_t odd = way & 4 ? 1 : 0;
      const shoal_backend_options options = { .name = "cuda", .threads = 1, .products = products[p] };
      const shoal_op_desc d = { .kind = SHOAL_OP_LINEAR,
                                .in = { SHOAL_SHAPE(ROWS, IN) },
                                .out = SHOAL_SHAPE(0, OUT),
                                .bias = true,
                                .relu = relu,
                                .training = true };
      shoal_backend *on = NULL;
      shoal_op *op = NULL;
      shoal_memory m[7];
      float *t[7];
      REQUIRE(shoal_backend_open_as(&options, &on) == SHOAL_OK, "%s", check_error());
      REQUIRE(shoal_op_create(on, &d, NULL, &op) == SHOAL_OK, "%s", check_error());
      for (int i = 0; i < 7; i++) {
        const size_t bytes = i == 6 ? op->scratch_bytes : SIZE * FACTORS * sizeof(float);
        REQUIRE(on->ops->alloc(on, SHOAL_MEMORY_DEVICE, bytes, &m[i]) == SHOAL_OK, "%s", check_error());
        t[i] = m[i].at;
      }
      const shoal_op_args a = { .x = { t[0] },
                                .y = t[1],
                                .dy = t[2],
                                .w = { t[3], t[4] + odd },
                                .dw = { trained ? t[3] + SIZE / 4 * 4 : NULL, t[5] + odd },
                                .scratch = t[6] };
      const shoal_status forward = relu || odd ? SHOAL_OK : SHOAL_ERR_DEVICE,
                         backward = products[p] != SHOAL_PRODUCTS_F32 || odd || !trained ? SHOAL_OK : SHOAL_ERR_DEVICE;
      for (int call = 0; call < 2; call++) {
        const shoal_status want = call ? backward : forward;
        inject("cublasLtMatmul", 0, 1);
        CHECK_STATUS((call ? op->backward_weights : op->forward)(op, &a), want, "products %d, way %d", products[p],
                     way);
        if (want != SHOAL_OK) CHECK_HAS(check_error(), "cublasLtMatmul");
      }
      inject("cublasLtMatmul", -1, 1); /* never */
      for (int i = 0; i < 7; i++) on->ops->release(on, &m[i]);
      shoal_op_destroy(op);
      shoal_backend_close(on);
    }
}

/* Products of bf16 factors are those of ref with factors that were rounded before, but for the order of f32 sums: k + 2 roundings of
 * 2^-24 of what is summed, each without its sign.  Against factors that were not rounded they are off by up to 2^-8 for each. */
static void check_bf16(void)
{
  enum { M = 9, COLS = 11, K = 70, LD = 75, SIZE = K * LD };
  static float a[SIZE], y[SIZE], a16[SIZE], y16[SIZE], c[M * LD], got[M * LD], want[M * LD], full[M * LD];
  static uint16_t half[SIZE];
  const shoal_backend_options options = { .name = "cuda", .threads = 1, .products = SHOAL_PRODUCTS_BF16 };
  shoal_backend_options on_host = options;
  shoal_backend *bf16 = NULL, *ref = NULL;
  shoal_memory m[3];
  REQUIRE(shoal_backend_open_as(&options, &bf16) == SHOAL_OK, "%s", check_error());
  REQUIRE(shoal_backend_open("ref", 1, &ref) == SHOAL_OK, "ref");
  for (int i = 0; i < 3; i++) CHECK_OK(bf16->ops->alloc(bf16, SHOAL_MEMORY_DEVICE, sizeof a, &m[i]));
  for (int i = 0; i < SIZE; i++) {
    a[i] = (float)(i * 7919 % 1009 - 504) / 512;
    y[i] = (float)(i * 104729 % 2003 - 1001) / 4096;
    if (i < M * LD) c[i] = (float)(i % 13) - 6;
  }
  shoal_bf16_from_f32(SIZE, a, half);
  shoal_f32_from_bf16(SIZE, half, a16);
  shoal_bf16_from_f32(SIZE, y, half);
  shoal_f32_from_bf16(SIZE, half, y16);
  for (int way = 0; way < 4; way++) {
    const bool ta = way & 1, tb = way & 2;
    /* the matrices end with their memory */
    const int a_at = SIZE - (ta ? (K - 1) * LD + M : (M - 1) * LD + K),
              y_at = SIZE - (tb ? (COLS - 1) * LD + K : (K - 1) * LD + COLS);
    const float *in[] = { (float *)m[0].at + a_at, (float *)m[1].at + y_at };
    double most = 0;
    for (int i = 0; i < 2; i++) CHECK_OK(bf16->ops->fill(bf16, SIZE, NAN, m[i].at)); /* so are the copies before */
    CHECK_OK(bf16->ops->gemm(bf16, false, false, K, LD, K, 1, m[0].at, LD, m[1].at, LD, 0, m[2].at, LD));
    CHECK_OK(bf16->ops->copy(bf16, sizeof a, a, m[0].at));
    CHECK_OK(bf16->ops->copy(bf16, sizeof y, y, m[1].at));
    CHECK_OK(bf16->ops->copy(bf16, sizeof c, c, m[2].at));
    CHECK_OK(bf16->ops->gemm(bf16, ta, tb, M, COLS, K, 0.75f, in[0], LD, in[1], LD, 0.5f, m[2].at, LD));
    CHECK_OK(bf16->ops->copy(bf16, sizeof got, m[2].at, got));
    memcpy(want, c, sizeof c);
    memcpy(full, c, sizeof c);
    CHECK_OK(ref->ops->gemm(ref, ta, tb, M, COLS, K, 0.75f, a16 + a_at, LD, y16 + y_at, LD, 0.5f, want, LD));
    CHECK_OK(ref->ops->gemm(ref, ta, tb, M, COLS, K, 0.75f, a + a_at, LD, y + y_at, LD, 0.5f, full, LD));
    for (int i = 0; i < M; i++)
      for (int j = 0; j < COLS; j++) {
        double sum = 0.5 * fabs((double)c[i * LD + j]);
        for (int k = 0; k < K; k++)
          sum += 0.75 * fabs((double)a[a_at + (ta ? k * LD + i : i * LD + k)] *
                             (double)y[y_at + (tb ? j * LD + k : k * LD + j)]);
        const int at = i * LD + j;
        const double order = (K + 2) * 0x1p-24 * sum, rounding = (0x1p-7 + 0x1p-16) * sum;
        CHECK_NEAR(got[at], want[at], order, "way %d, element %d, %d of rounded factors", way, i, j);
        CHECK_NEAR(got[at], full[at], rounding + order, "way %d, element %d, %d", way, i, j);
        most = fmax(most, fabs((double)got[at] - (double)full[at]) / order);
      }
    CHECK_GT(most, 2, "bf16 has no effect");
  }
  for (int i = 0; i < 3; i++) bf16->ops->release(bf16, &m[i]);
  shoal_backend_close(bf16);
  shoal_backend_close(ref);
  on_host.name = "cpu";
  on_host.products = SHOAL_PRODUCTS_TF32;
  CHECK_STATUS(shoal_backend_open_as(&on_host, &ref), SHOAL_ERR_UNSUPPORTED);
  CHECK_HAS(check_error(), "backend cpu has no tf32");
}

static void count(void *context)
{
  ++*(int *)context;
}

/* What is recorded is done by every replay and not before, on what is in memory then, without allocation or wait, and without progress
 * while it is recorded.  What would be wrong in a recording is an error.  A recording says when its own memory has moved. */
static void check_recordings(void)
{
  const shoal_backend_options options = { .name = "cuda", .threads = 1, .graphs = true };
  const shoal_tile large = {
    .rows = N / 2, .cols = 1, .width = 1, .grain = 1, .from = { .stride = 1 }, .to = { .stride = 1 }
  };
  shoal_backend *on = NULL;
  shoal_recording *r = NULL, *none = NULL;
  shoal_memory m[3];
  float host = 0;
  int polls = 0;
  CHECK(!b->records, "recordings that nobody asked for");
  REQUIRE(shoal_backend_open_as(&options, &on) == SHOAL_OK, "%s", check_error());
  CHECK(on->records);
  const shoal_backend_ops *ops = on->ops;
  for (int i = 0; i < 2; i++) CHECK_OK(ops->alloc(on, SHOAL_MEMORY_DEVICE, N * sizeof(float), &m[i]));
  CHECK_OK(ops->alloc(on, SHOAL_MEMORY_PINNED, sizeof(double), &m[2]));
  float *x = m[0].at, *y = m[1].at;
  double *sum = m[2].at;
  CHECK_OK(ops->sumsq(on, N, x, sum)); /* the scratch memory */
  on->progress = count;
  on->progress_context = &polls;
  CHECK_OK(ops->record(on, "a test"));
  CHECK_OK(ops->add(on, N, x, y));
  CHECK_OK(ops->sumsq(on, N, x, sum));
  CHECK_OK(ops->copy(on, sizeof(float), y, y + 1));
  CHECK_STATUS(ops->copy(on, sizeof host, &host, x), SHOAL_ERR_INTERNAL, "host memory in a recording");
  CHECK_HAS(check_error(), "cannot be recorded");
  CHECK_STATUS(ops->record(on, "another"), SHOAL_ERR_INTERNAL, "a recording in a recording");
  CHECK_OK(ops->recorded(on, &r));
  CHECK_EQ(polls, 0, "progress while the stream is recorded");
  on->progress = NULL;
  for (int k = 1; k < 4; k++) {
    CHECK_OK(ops->fill(on, N, (float)k, x));
    if (step) step(1);
    CHECK_OK(ops->replay(on, r));
    if (step) step(0);
    CHECK_OK(ops->copy(on, sizeof host, y + 1, &host));
    CHECK_EQ(host, k * (k + 1) / 2);
    CHECK_EQ(*sum, (double)N * k * (k + 1) * (2 * k + 1) / 6, "replay %d", k);
  }
  CHECK_OK(ops->record(on, "what is dropped"));
  CHECK_OK(ops->add(on, N, x, y));
  CHECK_OK(ops->recorded(on, NULL));
  CHECK_OK(ops->copy(on, sizeof host, y + 1, &host));
  CHECK_EQ(host, 6, "what was dropped was done");
  const uint64_t moved = on->moved;
  CHECK_OK(ops->record(on, "too much"));
  CHECK_STATUS(ops->sumsq(on, (size_t)1 << 40, x, sum), SHOAL_ERR_INTERNAL, "more scratch memory");
  CHECK_OK(ops->recorded(on, NULL));
  CHECK_EQ(on->moved, moved);
  CHECK_OK(ops->copy_tile(on, &large, x, y)); /* with room for its lists */
  CHECK_GT(on->moved, moved);
  ops->forget(on, r);
  if (inject) {
    inject("cudaStreamEndCapture", 0, cudaErrorStreamCaptureInvalidated);
    CHECK_OK(ops->record(on, "what fails"));
    CHECK_STATUS(ops->recorded(on, &none), SHOAL_ERR_DEVICE);
    CHECK_HAS(check_error(), "cudaStreamEndCapture");
    CHECK(!none, "an output was written despite errors");
    CHECK_OK(ops->recorded(on, NULL)); /* the simulated stream is still being recorded */
  }
  for (int i = 0; i < 3; i++) ops->release(on, &m[i]);
  shoal_backend_close(on);
}

/* What CUDA refuses is an error with its text and what was asked for; what fails on the device is found by the next wait. */
static void check_errors(void)
{
  shoal_memory m = { 0 };
  float host[100];
  if (!inject) return;
  inject("cudaMalloc", 0, cudaErrorMemoryAllocation);
  CHECK_STATUS(b->ops->alloc(b, SHOAL_MEMORY_DEVICE, 123456, &m), SHOAL_ERR_MEM);
  CHECK_HAS(check_error(), "123456 bytes of device memory");
  CHECK(!m.at, "memory after an error");
  float *x = arena(SHOAL_MEMORY_DEVICE, 100, &m);
  inject("kernel shoal_k_fill", 0, cudaErrorLaunchFailure);
  CHECK_OK(b->ops->fill(b, 100, 1, x));
  CHECK_STATUS(b->ops->copy(b, sizeof host, x, host), SHOAL_ERR_DEVICE);
  CHECK_HAS(check_error(), "unspecified launch failure");
}

/* The reason why there is no device, and what to do. */
static void check_missing(void)
{
  shoal_backend *none = NULL;
  if (!inject) return;
  inject("cudaGetDeviceCount", 0, cudaErrorNoDevice);
  CHECK_STATUS(shoal_backend_open("cuda", 1, &none), SHOAL_ERR_DEVICE);
  CHECK_HAS(check_error(), "no usable GPU (no CUDA-capable device is detected; CUDA_VISIBLE_DEVICES is ");
  CHECK_EQ(shoal_status_exit_code(SHOAL_ERR_DEVICE), 3);
  inject("cudaGetDeviceCount", 0, cudaErrorInsufficientDriver);
  CHECK_STATUS(shoal_backend_open("cuda", 1, &none), SHOAL_ERR_DEVICE);
  CHECK_HAS(check_error(), "update the driver");
  CHECK(!none, "an output was written despite errors");
}

int main(void)
{
  *(void **)&step = dlsym(RTLD_DEFAULT, "simgpu_step");
  *(void **)&inject = dlsym(RTLD_DEFAULT, "simgpu_inject");
  check_missing();
  if (shoal_backend_open("cuda", 1, &b) == SHOAL_ERR_DEVICE) CHECK_SKIP("%s", check_error());
  REQUIRE(b, "%s", check_error());
  check_memory();
  check_marks();
  check_beside();
  check_training();
  check_epilogues();
  check_bf16();
  check_recordings();
  check_errors(); /* the last: an error on the device stays */
  shoal_backend_close(b);
  return check_done();
}
