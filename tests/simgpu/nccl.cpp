/* A stand-in for NCCL on the simulated device, for ranks that are processes of one host.
 *
 * A communicator is a file of shared memory, in which each rank has a list of its calls and room for the data of two of them.  A call is
 * two pieces of work in its stream: one gives this rank's data, the other, which can only run once all ranks have given theirs, adds
 * them in rank order.  So a rank that does not come leaves the others waiting, as on devices.
 *
 * What is a mistake here, and ends the process with a line that names it:
 *
 *   calls that differ between ranks, by kind, count or root, in the same place of the order
 *   a call while another device is the current one, or on a stream or memory of another device
 *   a buffer that changes between the moment the call reads it and its end
 *   an event or a wait while a group is open, or while a call that returned ncclInProgress is not known to be in the stream
 *   a group that is ended and was not begun, or one that is never ended
 *   a wait of the host for a call that another rank never makes, after SIMGPU_PATIENCE seconds (60)
 *
 * Environment: SIMGPU_NCCL_VERSION.  Functions fail by simgpu_inject, as CUDA's do. */
#include "sim.h"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <memory>
#include <nccl.h>
#include <new>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace
{
enum kind { ALL_REDUCE, REDUCE_SCATTER, REDUCE, ALL_GATHER, BROADCAST };
const char *const names[] = { "ncclAllReduce", "ncclReduceScatter", "ncclReduce", "ncclAllGather", "ncclBroadcast" };
const unsigned most = 16, calls = 256, slots = 2;
const size_t room = size_t(64) << 20; /* bytes of a call; pages that are not used cost nothing */

struct record {
  int what, root;
  size_t count;
};
struct member {
  std::atomic<int> process;
  std::atomic<uint64_t> asked, given, taken; /* so many of its calls */
  record call[calls];
};
struct meeting {
  std::atomic<unsigned> came, left;
  member of[most];
};

struct call {
  int what, root;
  const float *from;
  float *to;
  size_t count;
  cudaStream_t stream;
  uint64_t number;
};
} // namespace

struct ncclComm {
  unsigned rank, size;
  int device;
  meeting *m;
  char *data;
  std::string path;
  uint64_t made; /* calls */
  std::vector<call> waiting;
  unsigned polls; /* until what was asked for is in its stream, or all have left */
  bool finalizing;
  std::shared_ptr<bool> aborted;

  float *slot(unsigned of, uint64_t number) const
  {
    return reinterpret_cast<float *>(data + (size_t(of) * slots + number % slots) * room);
  }
};

namespace
{
int depth; /* of groups */
std::vector<ncclComm *> grouped, unfinished;
std::string last_error;

ncclResult_t fail(ncclResult_t e, const std::string &text)
{
  last_error = text;
  return e;
}

/* As the state of its process says; one that was killed may still be waited for by its parent. */
bool lives(int process)
{
  char path[64], text[512] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  const int fd = open(path, O_RDONLY);
  if (fd < 0) return false;
  if (read(fd, text, sizeof text - 1) < 0) text[0] = 0;
  close(fd);
  const char *state = strrchr(text, ')');
  return state && strlen(state) > 2 && state[2] != 'Z' && state[2] != 'X';
}

int lost(const ncclComm *c)
{
  for (unsigned r = 0; r < c->size; r++)
    if (c->m->of[r].process && !lives(c->m->of[r].process)) return static_cast<int>(r);
  return -1;
}

std::string said(unsigned rank, const record &r, uint64_t number)
{
  char text[160];
  snprintf(text, sizeof text, "rank %u makes %s of %zu numbers with root %d its call %llu", rank, names[r.what],
           r.count, r.root, static_cast<unsigned long long>(number));
  return text;
}

void compare(const ncclComm *c, uint64_t number)
{
  const record &mine = c->m->of[c->rank].call[number % calls];
  for (unsigned r = 0; r < c->size; r++) {
    const member &other = c->m->of[r];
    const uint64_t asked = other.asked;
    if (asked < number || asked >= number + calls) continue;
    const record &theirs = other.call[number % calls];
    if (mine.what != theirs.what || mine.count != theirs.count || mine.root != theirs.root)
      sim::mistake("NCCL: %s and %s", said(c->rank, mine, number).c_str(), said(r, theirs, number).c_str());
  }
}

size_t given(const ncclComm *c, const call &k)
{
  if (k.what == BROADCAST) return c->rank == static_cast<unsigned>(k.root) ? k.count : 0;
  return k.what == REDUCE_SCATTER ? k.count * c->size : k.count;
}

size_t received(const ncclComm *c, const call &k)
{
  if (k.what == REDUCE) return c->rank == static_cast<unsigned>(k.root) ? k.count : 0;
  return k.what == ALL_GATHER ? k.count * c->size : k.count;
}

void add(const ncclComm *c, const call &k, size_t from)
{
  for (size_t i = 0; i < k.count; i++) {
    float sum = c->slot(0, k.number)[from + i];
    for (unsigned r = 1; r < c->size; r++) sum += c->slot(r, k.number)[from + i];
    k.to[i] = sum;
  }
}

void carry_out(const ncclComm *c, const call &k)
{
  if (memcmp(k.from, c->slot(c->rank, k.number), given(c, k) * sizeof(float)) != 0)
    sim::mistake("NCCL: the buffer of %s was changed while the call was in flight", names[k.what]);
  if (k.what == BROADCAST)
    memcpy(k.to, c->slot(static_cast<unsigned>(k.root), k.number), k.count * sizeof(float));
  else if (k.what == ALL_GATHER)
    for (unsigned r = 0; r < c->size; r++) memcpy(k.to + r * k.count, c->slot(r, k.number), k.count * sizeof(float));
  else if (received(c, k))
    add(c, k, k.what == REDUCE_SCATTER ? c->rank * k.count : 0);
}

bool all_have(const ncclComm *c, std::atomic<uint64_t> member::*what, uint64_t number)
{
  for (unsigned r = 0; r < c->size; r++)
    if (c->m->of[r].*what < number) return false;
  return true;
}

/* The memory in which the data were read is the caller's until the end, so both pieces name it. */
void put_in_stream(ncclComm *c, const call &k)
{
  sim::ranges touched;
  touched.reads(k.from, given(c, k));
  touched.writes(k.to, received(c, k));
  auto aborted = c->aborted;
  member &mine = c->m->of[c->rank];
  sim::submit_gated(
      k.stream, std::string("giving to ") + names[k.what], touched,
      [=, &mine] {
        if (*aborted) return;
        memcpy(c->slot(c->rank, k.number), k.from, given(c, k) * sizeof(float));
        mine.given = k.number;
      },
      [=] { return *aborted || k.number <= slots || all_have(c, &member::taken, k.number - slots); });
  sim::submit_gated(
      k.stream, names[k.what], touched,
      [=, &mine] {
        if (*aborted) return;
        compare(c, k.number);
        carry_out(c, k);
        mine.taken = k.number;
      },
      [=] { return *aborted || all_have(c, &member::given, k.number); });
}

const char *forbidden(cudaStream_t s)
{
  if (depth) return "between ncclGroupStart and ncclGroupEnd";
  for (const ncclComm *c : unfinished)
    for (const call &k : c->waiting)
      if (k.stream == s) return "before ncclCommGetAsyncError says that the last call of NCCL is in the stream";
  return nullptr;
}

ncclResult_t enter(ncclComm *c)
{
  c->polls = 1 + sim::draw(3);
  unfinished.push_back(c);
  return ncclInProgress;
}

void finish(ncclComm *c)
{
  c->waiting.clear();
  for (size_t i = 0; i < unfinished.size(); i++)
    if (unfinished[i] == c) unfinished.erase(unfinished.begin() + static_cast<long>(i--));
}

bool enter_step(ncclComm *c)
{
  if (c->waiting.empty() || --c->polls > 0) return c->waiting.empty();
  for (const call &k : c->waiting) put_in_stream(c, k);
  finish(c);
  return true;
}

ncclResult_t make(ncclComm *c, call k)
{
  const char *name = names[k.what];
  if (int e = sim::injected(name)) return fail(static_cast<ncclResult_t>(e), std::string("injected into ") + name);
  if (!c || *c->aborted) sim::mistake("%s: no communicator", name);
  if (!depth && !c->waiting.empty()) sim::mistake("%s: the call before is not known to be in its stream", name);
  int current = 0;
  cudaGetDevice(&current);
  if (current != c->device)
    sim::mistake("%s: device %d is the current one, and the communicator is of device %d", name, current, c->device);
  sim::check_place(name, k.stream, k.from, c->device);
  sim::check_place(name, k.stream, k.to, c->device);
  if (!k.count) sim::mistake("%s: no elements", name);
  if (given(c, k) * sizeof(float) > room) return fail(ncclInternalError, "too much for the stand-in");
  k.number = ++c->made;
  member &mine = c->m->of[c->rank];
  mine.call[k.number % calls] = { k.what, k.root, k.count };
  mine.asked = k.number;
  compare(c, k.number);
  c->waiting.push_back(k);
  for (ncclComm *g : grouped)
    if (g == c) return ncclSuccess;
  if (!depth) return enter(c);
  grouped.push_back(c);
  return ncclSuccess;
}

void only_f32(const char *name, ncclDataType_t t)
{
  if (t != ncclFloat32) sim::mistake("%s: the stand-in knows f32 only", name);
}
} // namespace

extern "C" {
ncclResult_t ncclGetVersion(int *version)
{
  const char *v = getenv("SIMGPU_NCCL_VERSION");
  *version = v ? atoi(v) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t e)
{
  return e == ncclRemoteError     ? "remote process exited or there was a network error"
         : e == ncclInvalidUsage  ? "invalid usage"
         : e == ncclSystemError   ? "unhandled system error"
         : e == ncclInternalError ? "internal error"
                                  : "another error";
}

const char *ncclGetLastError(ncclComm_t)
{
  return last_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
  static unsigned number;
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "/dev/shm/simgpu-nccl-%d-%u", static_cast<int>(getpid()), number++);
  const int fd = open(id->internal, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(sizeof(meeting) + most * slots * room + 4096)) != 0)
    return fail(ncclSystemError, "no shared memory");
  close(fd);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int size, ncclUniqueId id, int rank, ncclConfig_t *config)
{
  if (int e = sim::injected("ncclCommInitRankConfig")) return fail(static_cast<ncclResult_t>(e), "injected");
  if (!config || config->blocking != 0) sim::mistake("ncclCommInitRankConfig: a communicator that blocks");
  if (size < 1 || unsigned(size) > most || rank < 0 || rank >= size) return fail(ncclInvalidUsage, "rank or size");
  const int fd = open(id.internal, O_RDWR);
  const size_t bytes = sizeof(meeting) + most * slots * room + 4096;
  void *at = fd < 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (fd >= 0) close(fd);
  if (at == MAP_FAILED) return fail(ncclSystemError, "no such communicator");
  ncclComm *c = new ncclComm();
  c->rank = unsigned(rank);
  c->size = unsigned(size);
  cudaGetDevice(&c->device);
  c->path = id.internal;
  c->m = static_cast<meeting *>(at);
  c->data = static_cast<char *>(at) + (sizeof(meeting) + 4095) / 4096 * 4096;
  c->aborted = std::make_shared<bool>(false);
  sim::forbid(forbidden);
  if (c->m->of[rank].process) sim::mistake("ncclCommInitRankConfig: rank %d is there already", rank);
  c->m->of[rank].process = getpid();
  if (++c->m->came == c->size) unlink(id.internal);
  *out = c;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
  *state = ncclSuccess;
  if (int e = sim::injected("ncclCommGetAsyncError")) {
    *state = fail(static_cast<ncclResult_t>(e), "injected");
    return ncclSuccess;
  }
  const int gone = lost(c);
  if (gone >= 0 && !c->m->left)
    *state = fail(ncclRemoteError, "rank " + std::to_string(gone) + " has closed its connection");
  else if (c->m->came < c->size || (c->finalizing && (c->m->left < c->size || c->polls-- > 1)) || !enter_step(c))
    *state = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
  if (depth) sim::mistake("ncclCommFinalize between ncclGroupStart and ncclGroupEnd");
  if (c->m->of[c->rank].taken != c->made)
    sim::mistake("ncclCommFinalize: %llu of %llu calls are not over",
                 static_cast<unsigned long long>(c->made - c->m->of[c->rank].taken),
                 static_cast<unsigned long long>(c->made));
  c->finalizing = true;
  c->polls = 2 + sim::draw(3);
  c->m->left++;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
  if (!c->finalizing) sim::mistake("ncclCommDestroy: not finalized");
  *c->aborted = true; /* kept, as queued work knows it */
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
  *c->aborted = true;
  if (c->m->came < c->size) unlink(c->path.c_str());
  finish(c);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart()
{
  depth++;
  sim::forbid(forbidden);
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd()
{
  if (!depth) sim::mistake("ncclGroupEnd without ncclGroupStart");
  depth--;
  ncclResult_t e = ncclSuccess;
  if (!depth) {
    for (ncclComm *c : grouped) e = enter(c);
    grouped.clear();
  }
  return e;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t t, ncclRedOp_t, ncclComm_t c,
                           cudaStream_t s)
{
  only_f32("ncclAllReduce", t);
  return make(c, { ALL_REDUCE, -1, static_cast<const float *>(from), static_cast<float *>(to), n, s, 0 });
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t n, ncclDataType_t t, ncclRedOp_t, ncclComm_t c,
                               cudaStream_t s)
{
  only_f32("ncclReduceScatter", t);
  return make(c, { REDUCE_SCATTER, -1, static_cast<const float *>(from), static_cast<float *>(to), n, s, 0 });
}

ncclResult_t ncclReduce(const void *from, void *to, size_t n, ncclDataType_t t, ncclRedOp_t, int root, ncclComm_t c,
                        cudaStream_t s)
{
  only_f32("ncclReduce", t);
  return make(c, { REDUCE, root, static_cast<const float *>(from), static_cast<float *>(to), n, s, 0 });
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t t, ncclComm_t c, cudaStream_t s)
{
  only_f32("ncclAllGather", t);
  return make(c, { ALL_GATHER, -1, static_cast<const float *>(from), static_cast<float *>(to), n, s, 0 });
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t t, int root, ncclComm_t c,
                           cudaStream_t s)
{
  only_f32("ncclBroadcast", t);
  return make(c, { BROADCAST, root, static_cast<const float *>(from), static_cast<float *>(to), n, s, 0 });
}
}
