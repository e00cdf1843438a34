/* Memory of the cuda backend, copies, and what has been reached.
 *
 *   DEVICE  cudaMalloc
 *   PINNED  cudaHostAlloc: the device reads and writes it directly
 *   SHARED  mappable host memory, registered with CUDA, until comm can stage a device's memory: kernels write gradients through PCIe
 *
 * A copy from or to host memory goes through pinned pieces, each with an event that says when it is free again.  A copy inside the
 * backend is only begun.
 *
 * Numbers of marks and of copies beside the work are drawn from one counter, and each has an event until it is known to be reached. */
#include "base/clock.h"
#include "tensor/cuda/cuda_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

shoal_status shoal_cuda_fail(cudaError_t e, const char *file, int line, const char *what)
{
  shoal_status st = e == cudaErrorMemoryAllocation ? SHOAL_ERR_MEM : SHOAL_ERR_DEVICE;
  (void)cudaGetLastError(); /* the next call is not to find it again */
  return shoal_fail(st, file, line, "CUDA: %s (%s) from %s", cudaGetErrorString(e), cudaGetErrorName(e), what);
}

/* ---- what was allocated ---- */

static size_t place_of(const shoal_cuda *b, const void *at) /* the first whose address is above */
{
  size_t low = 0, high = b->memory_n;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if ((uintptr_t)b->memory[mid].at <= (uintptr_t)at)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static const shoal_memory *find_memory(const shoal_cuda *b, const void *at)
{
  size_t i = place_of(b, at);
  if (i == 0) return NULL;
  const shoal_memory *m = &b->memory[i - 1];
  return (uintptr_t)at < (uintptr_t)m->at + m->bytes ? m : NULL;
}

static shoal_status remember(shoal_cuda *b, const shoal_memory *m)
{
  if (b->memory_n == b->memory_room) {
    size_t room = 2 * b->memory_room + 64;
    void *grown = realloc(b->memory, room * sizeof *b->memory);
    SHOAL_CHECK(grown, SHOAL_ERR_MEM, "list of the buffers of backend cuda");
    b->memory = grown;
    b->memory_room = room;
  }
  size_t i = place_of(b, m->at);
  memmove(b->memory + i + 1, b->memory + i, (b->memory_n - i) * sizeof *b->memory);
  b->memory[i] = *m;
  b->memory_n++;
  return SHOAL_OK;
}

static void forget(shoal_cuda *b, const shoal_memory *m)
{
  size_t i = place_of(b, m->at);
  if (i == 0 || b->memory[i - 1].at != m->at) return;
  b->memory_n--;
  memmove(b->memory + i - 1, b->memory + i, (b->memory_n - i + 1) * sizeof *b->memory);
}

/* At least one byte, so that the address is one. */
static shoal_status take(shoal_cuda *b, shoal_memory *m)
{
  const size_t bytes = SHOAL_MAX(m->bytes, (size_t)1);
  cudaError_t e = cudaSuccess;
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  if (m->kind == SHOAL_MEMORY_SHARED) {
    SHOAL_TRY(shoal_host_memory_alloc_shared(m->bytes, "buffer of backend cuda", m));
    if (m->bytes) e = cudaHostRegister(m->at, m->bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (e != cudaSuccess) shoal_host_memory_release(m);
  } else if (m->kind == SHOAL_MEMORY_PINNED) {
    e = cudaHostAlloc(&m->at, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    if (e == cudaSuccess) memset(m->at, 0, bytes);
  } else {
    e = cudaMalloc(&m->at, bytes);
  }
  SHOAL_CHECK(e != cudaErrorMemoryAllocation, SHOAL_ERR_MEM, "buffer of backend cuda: %zu bytes of %s memory (%s)",
              m->bytes, m->kind == SHOAL_MEMORY_DEVICE ? "device" : "pinned", b->name);
  SHOAL_TRY_CUDA(e);
  return SHOAL_OK;
}

static void give(shoal_cuda *b, shoal_memory *m)
{
  if (m->kind == SHOAL_MEMORY_SHARED) {
    if (m->bytes) (void)cudaHostUnregister(m->at);
    shoal_host_memory_release(m);
  } else if (m->kind == SHOAL_MEMORY_PINNED) {
    (void)cudaFreeHost(m->at);
  } else {
    (void)cudaFree(m->at);
  }
  *m = (shoal_memory){ 0 };
}

shoal_status shoal_cuda_alloc(shoal_backend *base, shoal_memory_kind kind, size_t bytes, shoal_memory *out)
{
  shoal_cuda *b = (shoal_cuda *)base;
  shoal_memory m = { .bytes = bytes, .kind = kind };
  *out = (shoal_memory){ 0 };
  SHOAL_TRY(take(b, &m));
  shoal_status st = remember(b, &m);
  if (st == SHOAL_OK && kind == SHOAL_MEMORY_DEVICE) {
    cudaError_t e = cudaMemsetAsync(m.at, 0, bytes, b->stream);
    if (e != cudaSuccess)
      st = shoal_cuda_fail(e, __FILE__, __LINE__, "cudaMemsetAsync");
    else
      st = shoal_cuda_wait_stream(b, b->stream); /* a copy beside the work may come first */
  }
  if (st == SHOAL_OK)
    *out = m;
  else
    shoal_cuda_release(base, &m);
  return st;
}

void shoal_cuda_release(shoal_backend *base, shoal_memory *m)
{
  shoal_cuda *b = (shoal_cuda *)base;
  if (!m->at) return;
  (void)cudaSetDevice(b->device);
  for (int i = 0; i < SHOAL_CUDA_STREAMS; i++)
    (void)shoal_cuda_wait_stream(b, b->beside[i]); /* nothing that is to run uses it */
  if (b->hung) return;
  forget(b, m);
  give(b, m);
}

/* ---- waiting ---- */

static shoal_status leave_trail(shoal_cuda *b, const char *last, bool is_graph)
{
  const size_t i = ++b->trailed % SHOAL_CUDA_TRAIL;
  snprintf(b->last[i], sizeof b->last[i], "%s", last);
  b->is_graph[i] = is_graph;
  b->launches = 0;
  SHOAL_TRY_CUDA(cudaEventRecord(b->trail[i], b->stream));
  return SHOAL_OK;
}

shoal_status shoal_cuda_launched(shoal_cuda *b, const char *kernel)
{
  if (b->base.recording) return SHOAL_OK;
  b->launched = kernel;
  return ++b->launches == SHOAL_CUDA_STRIDE ? leave_trail(b, kernel, false) : SHOAL_OK;
}

shoal_status shoal_cuda_trail_kernels(shoal_cuda *b)
{
  return b->launches ? leave_trail(b, b->launched, false) : SHOAL_OK;
}

shoal_status shoal_cuda_trail_graph(shoal_cuda *b, const char *name)
{
  return leave_trail(b, name, true);
}

/* The first stretch of work that is not done. */
static void describe_wait(const shoal_cuda *b, char *buf, size_t cap)
{
  const uint64_t newest = b->trailed, kept = SHOAL_CUDA_TRAIL - 2;
  uint64_t k = newest > kept ? newest - kept : 1;
  while (k <= newest && cudaEventQuery(b->trail[k % SHOAL_CUDA_TRAIL]) != cudaErrorNotReady) k++;
  const char *after = k > 1 ? b->last[(k - 1) % SHOAL_CUDA_TRAIL] : "the first";
  if (k > newest && b->launches == 0)
    snprintf(buf, cap, "a copy after %s", after);
  else if (k <= newest && b->is_graph[k % SHOAL_CUDA_TRAIL])
    snprintf(buf, cap, "the graph of %s, which comes after %s, or a copy", b->last[k % SHOAL_CUDA_TRAIL], after);
  else
    snprintf(buf, cap, "one of up to %d kernels after %s, of which the last is %s, or a copy", SHOAL_CUDA_STRIDE, after,
             k <= newest ? b->last[k % SHOAL_CUDA_TRAIL] : b->launched);
}

/* A wait so far. */
typedef struct {
  uint64_t seen_ns;
  double seconds, told_s;
} waiting;

static shoal_status still_waiting(shoal_cuda *b, waiting *w)
{
  const shoal_backend *base = &b->base;
  const double often_s = 0.1;
  const struct timespec moment = { 0, 100000 };
  char what[2 * sizeof(shoal_cuda_name) + 80];
  const uint64_t before_ns = w->seen_ns;
  w->seen_ns = shoal_now_ns();
  if (before_ns) w->seconds += SHOAL_MIN((double)(w->seen_ns - before_ns) * 1e-9, often_s); /* more: it did not run */
  if (!base->progress && w->seconds > often_s) nanosleep(&moment, NULL);
  if (!base->waits || w->seconds < w->told_s + often_s) return SHOAL_OK;
  w->told_s = w->seconds;
  describe_wait(b, what, sizeof what);
  shoal_status st = base->waits(base->waits_context, w->seconds, what);
  b->hung = b->hung || st != SHOAL_OK;
  return st;
}

static shoal_status check_hung(const shoal_cuda *b)
{
  SHOAL_CHECK(!b->hung, SHOAL_ERR_HANG, "%s does not end what it was asked for", b->name);
  return SHOAL_OK;
}

shoal_status shoal_cuda_wait_stream(shoal_cuda *b, cudaStream_t s)
{
  waiting w = { 0 };
  SHOAL_TRY(check_hung(b));
  while (b->base.waits && cudaStreamQuery(s) == cudaErrorNotReady) SHOAL_TRY(still_waiting(b, &w));
  SHOAL_TRY_CUDA(cudaStreamSynchronize(s));
  return SHOAL_OK;
}

shoal_status shoal_cuda_wait_event(shoal_cuda *b, cudaEvent_t e)
{
  waiting w = { 0 };
  SHOAL_TRY(check_hung(b));
  while (b->base.waits && cudaEventQuery(e) == cudaErrorNotReady) SHOAL_TRY(still_waiting(b, &w));
  SHOAL_TRY_CUDA(cudaEventSynchronize(e));
  return SHOAL_OK;
}

shoal_status shoal_cuda_finish(shoal_cuda *b)
{
  for (int i = 0; i < SHOAL_CUDA_STREAMS; i++) SHOAL_TRY(shoal_cuda_wait_stream(b, b->beside[i]));
  for (int i = 0; i < SHOAL_CUDA_MARKS; i++) b->pending[i] = false;
  return SHOAL_OK;
}

/* A number for what the stream has been asked for.  The event is that of a number MARKS ago, which must be reached: a wait only if
 * the host is that far ahead. */
static shoal_status next_number(shoal_cuda *b, shoal_cuda_stream s, uint64_t *out)
{
  SHOAL_TRY(shoal_cuda_not_recorded(b, "a mark"));
  const uint64_t number = b->marked + 1;
  const size_t i = number % SHOAL_CUDA_MARKS;
  if (b->pending[i]) SHOAL_TRY(shoal_cuda_wait_event(b, b->mark[i]));
  SHOAL_TRY_CUDA(cudaEventRecord(b->mark[i], b->beside[s]));
  b->pending[i] = true;
  *out = b->marked = number;
  return SHOAL_OK;
}

static bool is_pending(const shoal_cuda *b, uint64_t number)
{
  return number > 0 && b->marked - number < SHOAL_CUDA_MARKS && b->pending[number % SHOAL_CUDA_MARKS];
}

/* After an error nothing will come any more, so nothing is waited for; the next call that can report it does. */
uint64_t shoal_cuda_mark(shoal_backend *base)
{
  shoal_cuda *b = (shoal_cuda *)base;
  uint64_t number = 0;
  (void)cudaSetDevice(b->device);
  return next_number(b, SHOAL_CUDA_WORK, &number) == SHOAL_OK ? number : b->marked;
}

bool shoal_cuda_reached(shoal_backend *base, uint64_t number)
{
  shoal_cuda *b = (shoal_cuda *)base;
  if (!is_pending(b, number)) return true;
  (void)cudaSetDevice(b->device);
  if (cudaEventQuery(b->mark[number % SHOAL_CUDA_MARKS]) == cudaErrorNotReady) return false;
  b->pending[number % SHOAL_CUDA_MARKS] = false;
  return true;
}

shoal_status shoal_cuda_settle(shoal_backend *base)
{
  shoal_cuda *b = (shoal_cuda *)base;
  uint64_t now[SHOAL_CUDA_STREAMS] = { 0 };
  waiting w = { 0 };
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  for (int i = 0; base->progress && i < SHOAL_CUDA_STREAMS; i++)
    SHOAL_TRY(next_number(b, (shoal_cuda_stream)i, &now[i]));
  for (int i = 0; i < SHOAL_CUDA_STREAMS; i++)
    while (!shoal_cuda_reached(base, now[i])) {
      shoal_backend_poll(base);
      SHOAL_TRY(still_waiting(b, &w));
    }
  return shoal_cuda_finish(b);
}

shoal_status shoal_cuda_hold(shoal_backend *base, uint64_t number, void *stream)
{
  shoal_cuda *b = (shoal_cuda *)base;
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  if (is_pending(b, number)) SHOAL_TRY_CUDA(cudaStreamWaitEvent(stream, b->mark[number % SHOAL_CUDA_MARKS], 0));
  return SHOAL_OK;
}

shoal_status shoal_cuda_await(shoal_backend *base, uint64_t number)
{
  return shoal_cuda_hold(base, number, ((shoal_cuda *)base)->stream);
}

/* ---- copies ---- */

shoal_status shoal_cuda_scratch(shoal_cuda *b, size_t bytes, void *out)
{
  if (bytes > b->scratch_bytes) {
    size_t room = shoal_round_up(bytes + bytes / 2, SHOAL_CUDA_STAGE);
    void *grown = NULL;
    SHOAL_TRY(shoal_cuda_not_recorded(b, "more scratch memory"));
    SHOAL_TRY_CUDA(cudaMalloc(&grown, room));
    SHOAL_TRY(shoal_cuda_wait_stream(b, b->stream));
    if (b->scratch) (void)cudaFree(b->scratch);
    b->scratch = grown;
    b->scratch_bytes = room;
    b->base.moved++;
  }
  *(void **)out = b->scratch;
  return SHOAL_OK;
}

/* The next piece, once it is free. */
static shoal_status next_stage(shoal_cuda *b, int *out)
{
  SHOAL_TRY(shoal_cuda_not_recorded(b, "a copy from or to host memory"));
  int s = *out = b->next_stage;
  if (b->in_use[s]) SHOAL_TRY(shoal_cuda_wait_event(b, b->staged[s]));
  b->in_use[s] = false;
  b->next_stage = (s + 1) % SHOAL_CUDA_STAGES;
  return SHOAL_OK;
}

static shoal_status stage_used(shoal_cuda *b, int s)
{
  SHOAL_TRY_CUDA(cudaEventRecord(b->staged[s], b->stream));
  b->in_use[s] = true;
  return SHOAL_OK;
}

shoal_status shoal_cuda_send(shoal_cuda *b, size_t bytes, const void *from, void *to)
{
  for (size_t at = 0; at < bytes; at += SHOAL_CUDA_STAGE) {
    size_t n = SHOAL_MIN(bytes - at, (size_t)SHOAL_CUDA_STAGE);
    int s;
    SHOAL_TRY(next_stage(b, &s));
    memcpy(b->stage[s], (const char *)from + at, n);
    SHOAL_TRY_CUDA(cudaMemcpyAsync((char *)to + at, b->stage[s], n, cudaMemcpyDefault, b->stream));
    SHOAL_TRY(stage_used(b, s));
  }
  return SHOAL_OK;
}

/* Piece k is on its way while the host reads piece k - 1. */
static shoal_status fetch(shoal_cuda *b, size_t bytes, const void *from, void *to)
{
  int before = -1;
  for (size_t at = 0; at < bytes + SHOAL_CUDA_STAGE; at += SHOAL_CUDA_STAGE) {
    int s = -1;
    if (at < bytes) {
      SHOAL_TRY(next_stage(b, &s));
      SHOAL_TRY_CUDA(cudaMemcpyAsync(b->stage[s], (const char *)from + at,
                                     SHOAL_MIN(bytes - at, (size_t)SHOAL_CUDA_STAGE), cudaMemcpyDefault, b->stream));
      SHOAL_TRY(stage_used(b, s));
    }
    if (before >= 0) {
      size_t begin = at - SHOAL_CUDA_STAGE;
      SHOAL_TRY(shoal_cuda_wait_event(b, b->staged[before]));
      b->in_use[before] = false;
      memcpy((char *)to + begin, b->stage[before], SHOAL_MIN(bytes - begin, (size_t)SHOAL_CUDA_STAGE));
    }
    before = s;
  }
  return SHOAL_OK;
}

shoal_status shoal_cuda_copy(shoal_backend *base, size_t bytes, const void *from, void *to)
{
  shoal_cuda *b = (shoal_cuda *)base;
  if (bytes == 0 || from == to) return SHOAL_OK;
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  bool ours_from = find_memory(b, from) != NULL, ours_to = find_memory(b, to) != NULL;
  if (ours_from && ours_to) {
    SHOAL_TRY_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, b->stream));
  } else if (ours_to) {
    SHOAL_TRY(shoal_cuda_send(b, bytes, from, to));
  } else if (ours_from) {
    SHOAL_TRY(fetch(b, bytes, from, to));
  } else {
    memcpy(to, from, bytes);
  }
  shoal_backend_poll(base);
  return SHOAL_OK;
}

shoal_status shoal_cuda_copy_beside(shoal_backend *base, uint64_t after, size_t bytes, const void *from, void *to,
                                    uint64_t *number)
{
  shoal_cuda *b = (shoal_cuda *)base;
  const shoal_memory *source = find_memory(b, from);
  const shoal_cuda_stream s = source && source->kind == SHOAL_MEMORY_PINNED ? SHOAL_CUDA_TO_DEVICE : SHOAL_CUDA_TO_HOST;
  SHOAL_TRY(shoal_cuda_hold(base, after, b->beside[s]));
  SHOAL_TRY_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, b->beside[s]));
  return next_number(b, s, number);
}
