/* NCCL as a fabric: see fabric_impl.h.
 *
 * Communicators are non-blocking: a call may return ncclInProgress, and until ncclCommGetAsyncError says ncclSuccess nothing else may be
 * called on it and its work is not in the stream yet.  Hence `begin` and `entered`; an event is recorded behind the work then.
 *
 * The rest of a vector that the ranks cannot share equally, less than an element for each, goes to and comes from the last rank.
 *
 *     SCATTER   [ shard 0 | shard 1 | ... | shard L-1 | rest ]   one ncclReduceScatter in place, and an ncclReduce of the rest
 *     GATHER                                                     one ncclAllGather in place, and an ncclBroadcast of the rest  */
#include <cuda_runtime_api.h>
#include <nccl.h>
/* no header of ours before those, which define names of their own */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/fabric_impl.h"
#include "comm/group_impl.h"
#include "tensor/cuda/cuda.h"
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OLDEST = 21400 }; /* has non-blocking communicators and ncclGetLastError */
static const char soname[] = "libnccl.so.2";

#define FUNCTIONS(X)                                                                                                   \
  X(ncclGetVersion)                                                                                                    \
  X(ncclGetErrorString)                                                                                                \
  X(ncclGetLastError)                                                                                                  \
  X(ncclGetUniqueId)                                                                                                   \
  X(ncclCommInitRankConfig)                                                                                            \
  X(ncclCommGetAsyncError)                                                                                             \
  X(ncclCommFinalize)                                                                                                  \
  X(ncclCommDestroy)                                                                                                   \
  X(ncclCommAbort)                                                                                                     \
  X(ncclGroupStart)                                                                                                    \
  X(ncclGroupEnd)                                                                                                      \
  X(ncclAllReduce)                                                                                                     \
  X(ncclReduceScatter)                                                                                                 \
  X(ncclReduce)                                                                                                        \
  X(ncclAllGather)                                                                                                     \
  X(ncclBroadcast)

typedef struct {
  shoal_fabric base;
  int device;
  cudaStream_t stream;
  ncclComm_t node, all; /* NULL: none */
  ncclComm_t busy;      /* the last call's, until it is in the stream */
  cudaEvent_t behind;   /* to be recorded then */
#define X(name) __typeof__(&name) name;
  FUNCTIONS(X)
#undef X
} nccl;

static nccl *of(shoal_fabric *f)
{
  return (nccl *)f;
}

/* ncclGetLastError knows what it was about; its text may have several lines. */
static shoal_status fail(const nccl *c, ncclComm_t comm, ncclResult_t e, const char *call, int line)
{
  char words[200];
  const char *last = c->ncclGetLastError(comm);
  snprintf(words, sizeof words, "%s", last ? last : "");
  words[strcspn(words, "\n")] = 0;
  return shoal_fail(SHOAL_ERR_COMM, __FILE__, line, "NCCL: %s from %s%s%s", c->ncclGetErrorString(e), call,
                    *words ? ": " : "", words);
}
#define TRY_NCCL(c, comm, call)                                                                                        \
  do {                                                                                                                 \
    ncclResult_t nccl_ = (c)->call;                                                                                    \
    if (nccl_ != ncclSuccess && nccl_ != ncclInProgress) return fail((c), (comm), nccl_, #call, __LINE__);             \
  } while (0)
#define TRY_CUDA(call)                                                                                                 \
  do {                                                                                                                 \
    cudaError_t cuda_ = (call);                                                                                        \
    if (cuda_ != cudaSuccess)                                                                                          \
      return SHOAL_FAIL(SHOAL_ERR_DEVICE, "CUDA: %s from %s", cudaGetErrorString(cuda_), #call);                       \
  } while (0)

/* ---------------------------------------------------------------------------------------------------- connecting */

static bool other_failed(const shoal_fabric *f)
{
  for (int i = 0; i < f->node->size; i++)
    if (atomic_load_explicit(&f->page[i]->failed, memory_order_acquire)) return true;
  return false;
}

/* ERR_COMM: a rank is lost, and no use in going on. */
static shoal_status wait_for_comm(nccl *c, ncclComm_t comm, const char *what)
{
  const shoal_world *w = c->base.w;
  const uint64_t begin = shoal_now_ns();
  const double limit_s = w->o.hang_s / 2; /* before those that do without are missed */
  uint64_t looked = begin;
  for (;;) {
    ncclResult_t state = ncclSuccess;
    bool lower;
    TRY_NCCL(c, comm, ncclCommGetAsyncError(comm, &state));
    if (state == ncclSuccess) return SHOAL_OK;
    if (state != ncclInProgress) return shoal_error_as(fail(c, comm, state, what, __LINE__), SHOAL_ERR_DEVICE);
    nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    SHOAL_CHECK(!other_failed(&c->base), SHOAL_ERR_PEER, "another rank of the node failed");
    SHOAL_CHECK(shoal_seconds_since(begin) < limit_s, SHOAL_ERR_DEVICE, "%s of NCCL has not ended after %.3g s", what,
                limit_s);
    if (shoal_seconds_since(looked) < 1) continue;
    looked = shoal_now_ns();
    SHOAL_TRY(shoal_share_check_peers(w, &lower));
  }
}

typedef struct {
  ncclUniqueId id;
  int32_t failed;
} invitation;

/* The first rank of the group invites the others.  Its own failure is theirs, too, so that none waits for it. */
static shoal_status make_comm(nccl *c, shoal_group *g, ncclComm_t *out)
{
  invitation mine;
  memset(&mine, 0, sizeof mine);
  ncclResult_t e = g->rank == 0 ? c->ncclGetUniqueId(&mine.id) : ncclSuccess;
  mine.failed = e != ncclSuccess;
  SHOAL_TRY(shoal_group_broadcast(g, &mine, sizeof mine, 0));
  if (mine.failed)
    return shoal_error_as(fail(c, NULL, e, "ncclGetUniqueId on the first rank", __LINE__), SHOAL_ERR_DEVICE);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  TRY_CUDA(cudaSetDevice(c->device));
  e = c->ncclCommInitRankConfig(out, g->size, mine.id, g->rank, &config);
  if (e != ncclSuccess && e != ncclInProgress)
    return shoal_error_as(fail(c, NULL, e, "ncclCommInitRankConfig", __LINE__), SHOAL_ERR_DEVICE);
  return wait_for_comm(c, *out, "the set-up");
}

static shoal_status nccl_connect(shoal_fabric *f, bool everywhere)
{
  nccl *c = of(f);
  shoal_status st = f->node->size > 1 ? make_comm(c, f->node, &c->node) : SHOAL_OK;
  if (st != SHOAL_OK) atomic_store_explicit(&f->own->failed, 1, memory_order_release);
  if (!everywhere || f->w->topo->nodes == 1) return st;
  st = shoal_group_agree_quietly(f->w->control, st);
  return st == SHOAL_OK ? make_comm(c, f->w->control, &c->all) : st;
}

/* ---------------------------------------------------------------------------------------------------------- calls */

static shoal_status ask(nccl *c, ncclComm_t comm, const shoal_fabric_call *call)
{
  const shoal_group *g = c->base.node;
  const size_t each = call->n / (size_t)g->size, rest = call->n % (size_t)g->size;
  const int last = g->size - 1;
  float *x = call->x, *mine = x + each * (size_t)g->rank, *tail = x + (call->n - rest);
  TRY_NCCL(c, comm, ncclGroupStart());
  if (call->kind == SHOAL_FABRIC_SUM && call->n)
    TRY_NCCL(c, comm, ncclAllReduce(x, x, call->n, ncclFloat32, ncclSum, comm, c->stream));
  if (call->kind == SHOAL_FABRIC_SCATTER && each)
    TRY_NCCL(c, comm, ncclReduceScatter(x, mine, each, ncclFloat32, ncclSum, comm, c->stream));
  if (call->kind == SHOAL_FABRIC_SCATTER && rest)
    TRY_NCCL(c, comm, ncclReduce(tail, tail, rest, ncclFloat32, ncclSum, last, comm, c->stream));
  if (call->kind == SHOAL_FABRIC_GATHER && each)
    TRY_NCCL(c, comm, ncclAllGather(mine, x, each, ncclFloat32, comm, c->stream));
  if (call->kind == SHOAL_FABRIC_GATHER && rest)
    TRY_NCCL(c, comm, ncclBroadcast(tail, tail, rest, ncclFloat32, last, comm, c->stream));
  TRY_NCCL(c, comm, ncclGroupEnd());
  return SHOAL_OK;
}

static shoal_status nccl_begin(shoal_fabric *f, const shoal_fabric_call *call)
{
  nccl *c = of(f);
  TRY_CUDA(cudaSetDevice(c->device));
  SHOAL_TRY(shoal_cuda_hold(f->backend, call->after, c->stream));
  c->busy = call->everywhere ? c->all : c->node;
  c->behind = call->event;
  return ask(c, c->busy, call);
}

static shoal_status nccl_entered(shoal_fabric *f, bool *yes)
{
  nccl *c = of(f);
  ncclResult_t state = ncclSuccess;
  *yes = false;
  TRY_NCCL(c, c->busy, ncclCommGetAsyncError(c->busy, &state));
  if (state == ncclInProgress) return SHOAL_OK;
  if (state != ncclSuccess) return SHOAL_OK; /* told by look */
  TRY_CUDA(cudaSetDevice(c->device));
  TRY_CUDA(cudaEventRecord(c->behind, c->stream));
  c->busy = NULL;
  *yes = true;
  return SHOAL_OK;
}

static shoal_status nccl_reached(shoal_fabric *f, void *event, bool *yes)
{
  nccl *c = of(f);
  TRY_CUDA(cudaSetDevice(c->device));
  cudaError_t e = cudaEventQuery(event);
  *yes = e == cudaSuccess;
  if (e != cudaErrorNotReady) TRY_CUDA(e);
  return SHOAL_OK;
}

static shoal_status look_at(const nccl *c, ncclComm_t comm)
{
  ncclResult_t state = ncclSuccess;
  if (!comm) return SHOAL_OK;
  TRY_NCCL(c, comm, ncclCommGetAsyncError(comm, &state));
  if (state == ncclSuccess || state == ncclInProgress) return SHOAL_OK;
  return fail(c, comm, state, "a communicator", __LINE__);
}

static shoal_status nccl_look(shoal_fabric *f)
{
  nccl *c = of(f);
  SHOAL_TRY(look_at(c, c->node));
  return look_at(c, c->all);
}

static shoal_status nccl_event_create(shoal_fabric *f, void **out)
{
  nccl *c = of(f);
  TRY_CUDA(cudaSetDevice(c->device));
  TRY_CUDA(cudaEventCreateWithFlags((cudaEvent_t *)out, cudaEventDisableTiming));
  return SHOAL_OK;
}

static void nccl_event_destroy(shoal_fabric *f, void *event)
{
  (void)cudaSetDevice(of(f)->device);
  (void)cudaEventDestroy(event);
}

/* -------------------------------------------------------------------------------------------------------- closing */

/* Its kernels end soon, and only then the memory that they use may be released. */
static void nccl_abort(shoal_fabric *f)
{
  enum { LIMIT_S = 5 };
  nccl *c = of(f);
  const uint64_t begin = shoal_now_ns();
  (void)cudaSetDevice(c->device);
  if (c->node) (void)c->ncclCommAbort(c->node);
  if (c->all) (void)c->ncclCommAbort(c->all);
  c->node = c->all = NULL;
  while (cudaStreamQuery(c->stream) == cudaErrorNotReady && shoal_seconds_since(begin) < LIMIT_S) sched_yield();
}

static void close_comm(nccl *c, ncclComm_t comm)
{
  if (!comm) return;
  ncclResult_t e = c->ncclCommFinalize(comm);
  bool ended = (e == ncclSuccess || e == ncclInProgress) && wait_for_comm(c, comm, "the end") == SHOAL_OK;
  (void)(ended ? c->ncclCommDestroy(comm) : c->ncclCommAbort(comm));
}

static void nccl_close(shoal_fabric *f)
{
  nccl *c = of(f);
  shoal_error before;
  shoal_error_take(&before);
  if (c->stream) (void)cudaSetDevice(c->device);
  if (f->w && f->w->broken) nccl_abort(f);
  close_comm(c, c->node);
  close_comm(c, c->all);
  if (c->stream) (void)cudaStreamDestroy(c->stream);
  free(c);
  (void)shoal_error_put(&before);
}

/* -------------------------------------------------------------------------------------------------------- opening */

/* It stays loaded: threads of an aborted communicator may end later. */
static shoal_status load(nccl *c)
{
  void *file = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  SHOAL_CHECK(file, SHOAL_ERR_DEVICE, "%s; put the folder of NCCL into LD_LIBRARY_PATH", dlerror());
#define X(name)                                                                                                        \
  *(void **)&c->name = dlsym(file, #name);                                                                             \
  SHOAL_CHECK(c->name, SHOAL_ERR_DEVICE, "%s has no %s: it is older than 2.14", soname, #name);
  FUNCTIONS(X)
#undef X
  return SHOAL_OK;
}

static shoal_status learn(nccl *c, shoal_fabric_facts *facts)
{
  struct cudaDeviceProp p;
  TRY_NCCL(c, NULL, ncclGetVersion(&facts->version));
  const int v = facts->version;
  snprintf(facts->version_text, sizeof facts->version_text, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
  SHOAL_CHECK(v >= OLDEST, SHOAL_ERR_DEVICE, "%s is version %s, older than 2.14", soname, facts->version_text);
  TRY_CUDA(cudaSetDevice(c->device));
  TRY_CUDA(cudaGetDeviceProperties(&p, c->device));
  memcpy(facts->device, &p.uuid, sizeof facts->device);
  TRY_CUDA(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
  return SHOAL_OK;
}

static const shoal_fabric_ops nccl_ops = {
  .name = "NCCL",
  .connect = nccl_connect,
  .event_create = nccl_event_create,
  .event_destroy = nccl_event_destroy,
  .begin = nccl_begin,
  .entered = nccl_entered,
  .reached = nccl_reached,
  .look = nccl_look,
  .abort = nccl_abort,
  .close = nccl_close,
};

shoal_status shoal_nccl_open(shoal_backend *b, shoal_fabric_facts *facts, shoal_fabric **out)
{
  nccl *c;
  SHOAL_CHECK(shoal_cuda_is(b), SHOAL_ERR_DEVICE, "backend %s is not cuda", b->name);
  SHOAL_TRY(SHOAL_ALLOC(1, &c));
  c->base.ops = &nccl_ops;
  c->device = shoal_cuda_device(b);
  shoal_status st = load(c);
  if (st == SHOAL_OK) st = learn(c, facts);
  if (st != SHOAL_OK) {
    nccl_close(&c->base);
    return st;
  }
  *out = &c->base;
  return SHOAL_OK;
}
