/* A stand-in for CUDA's run time that catches what a program does wrong, found in place of the real one through the library path.
 *
 * Streams are late: work is only queued, and runs when the host waits for something, as much of it as that needs, the streams
 * interleaved in an order drawn from the seed (some seeds run other streams first, some last).  So what is used before its event
 * is seen to be old.  Device memory has no access but for queued work while it runs, and an unmapped page on both sides; pinned memory
 * has none from the call that uses it until that work has run.
 *
 * A wait for an event is no mistake inside a step: a ring of buffers does so when the host is far ahead.  What is legal in CUDA but never wanted here is a mistake, too: the default stream, a copy from or to pageable memory, a wait for
 * an event that was never recorded, releasing memory that queued work uses. */
#include "runtime.h"
#include "simgpu.h"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <map>
#include <random>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

namespace
{
const size_t page = 4096, room = size_t(1) << 40;

enum kind { DEVICE, PINNED, REGISTERED };
struct allocation {
  size_t bytes;
  kind of;
  int device;
  unsigned pending;    /* pieces of queued work that use it ... */
  uintptr_t low, high; /* ... and the pages that they touch */
};

/* Never destroyed: statics of other libraries may call until the end. */
struct world {
  std::recursive_mutex lock;
  std::mt19937 random;
  unsigned mode;
  int devices, device_error;
  std::vector<int> visible; /* numbers of the devices on the host, as CUDA_VISIBLE_DEVICES lists them */
  const char *(*forbidden)(CUstream_st *);
  std::map<uintptr_t, allocation> memory;
  char *arena, *next;
  std::vector<CUstream_st *> streams;
  std::map<const void *, std::string> stubs;
  struct injected {
    int after, error;
  };
  std::map<std::string, injected> errors;
  int sticky, last;
  bool step, working;
};

int number_of(const char *variable, int otherwise)
{
  const char *v = getenv(variable);
  return v ? atoi(v) : otherwise;
}

/* SIMGPU_INJECT="FUNCTION:AFTER:ERROR", as simgpu_inject. */
void read_injected(world &n)
{
  const char *v = getenv("SIMGPU_INJECT");
  char function[100];
  int after, error;
  if (!v) return;
  if (sscanf(v, "%99[^:]:%d:%d", function, &after, &error) != 3) sim::mistake("SIMGPU_INJECT=%s", v);
  n.errors[function] = { after, error };
}

/* The numbers in CUDA_VISIBLE_DEVICES up to the first that there is not, as the driver reads it. */
std::vector<int> visible_of(int devices)
{
  std::vector<int> list;
  const char *at = getenv("CUDA_VISIBLE_DEVICES");
  if (!at) {
    for (int i = 0; i < devices; i++) list.push_back(i);
    return list;
  }
  while (*at >= '0' && *at <= '9') {
    int number = atoi(at);
    if (number >= devices) break;
    list.push_back(number);
    at += strspn(at, "0123456789");
    at += *at == ',';
  }
  return list;
}

void set_seed(world &n, unsigned seed)
{
  n.random.seed(seed);
  n.mode = seed % 3;
}

void say_address(int, siginfo_t *info, void *);

world &w()
{
  static world *it = [] {
    world *n = new world();
    set_seed(*n, static_cast<unsigned>(number_of("SIMGPU_SEED", 1)));
    n->visible = visible_of(number_of("SIMGPU_DEVICES", 1));
    n->devices = static_cast<int>(n->visible.size());
    n->device_error = !number_of("SIMGPU_DRIVER", 1) ? cudaErrorInsufficientDriver
                      : n->devices == 0              ? cudaErrorNoDevice
                                                     : 0;
    n->arena = static_cast<char *>(mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    n->next = n->arena;
    read_injected(*n);
    struct sigaction action = {};
    action.sa_sigaction = say_address;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
    return n;
  }();
  return *it;
}

thread_local int current_device;

std::map<uintptr_t, allocation>::iterator find(const void *p)
{
  auto at = w().memory.upper_bound(reinterpret_cast<uintptr_t>(p));
  if (at == w().memory.begin()) return w().memory.end();
  --at;
  return reinterpret_cast<uintptr_t>(p) < at->first + at->second.bytes ? at : w().memory.end();
}

const char *name_of(kind k)
{
  return k == DEVICE ? "device" : "pinned";
}

void protect(uintptr_t low, uintptr_t high, int how)
{
  if (low < high) mprotect(reinterpret_cast<void *>(low), high - low, how);
}

const int open_pages = PROT_READ | PROT_WRITE;

/* Pinned memory that queued work writes has no access, what it only reads may be read; but the host may use the rest of a page in which
 * a range begins or ends. */
void protect_range(const sim::range &r)
{
  auto at = find(r.at);
  const uintptr_t begin = at->first, end = begin + at->second.bytes;
  const uintptr_t from = reinterpret_cast<uintptr_t>(r.at), to = from + r.bytes;
  const uintptr_t low = from & ~(page - 1), high = (to + page - 1) & ~(page - 1);
  if (at->second.of == DEVICE) return;
  protect(from > begin && from > low ? low + page : low, to < end && to < high ? high - page : high,
          r.written ? PROT_NONE : PROT_READ);
}

void protect_queued()
{
  for (bool written : { false, true })
    for (const CUstream_st *s : w().streams)
      for (const task &t : s->todo)
        for (const sim::range &r : t.touched.list)
          if (r.written == written) protect_range(r);
}

void say_address(int, siginfo_t *info, void *)
{
  static bool again;
  if (again) _exit(99);
  again = true;
  const char *kernel = sim::running_kernel();
  auto at = find(info->si_addr);
  const uintptr_t p = reinterpret_cast<uintptr_t>(info->si_addr), arena = reinterpret_cast<uintptr_t>(w().arena);
  if (at != w().memory.end() && at->second.of == DEVICE)
    sim::mistake("host code touches device memory at %p (offset %zu of %zu bytes)", info->si_addr,
                 static_cast<size_t>(p - at->first), at->second.bytes);
  if (at != w().memory.end())
    sim::mistake("host code touches pinned memory at %p (offset %zu of %zu bytes) while queued work uses it",
                 info->si_addr, static_cast<size_t>(p - at->first), at->second.bytes);
  if (p >= arena && p < arena + room)
    sim::mistake("%s%s touches %p, which is between allocations or was released", *kernel ? "kernel " : "the host",
                 kernel, info->si_addr);
  fprintf(stderr, "segmentation fault at %p%s%s\n", info->si_addr, *kernel ? " in kernel " : "", kernel);
  void *callers[40];
  backtrace_symbols_fd(callers, backtrace(callers, 40), STDERR_FILENO);
  signal(SIGSEGV, SIG_DFL);
  raise(SIGSEGV);
}

/* ---- queued work ---- */

void check_inside(const std::string &what, const sim::range &r)
{
  auto at = find(r.at);
  if (at == w().memory.end()) sim::mistake("%s: %p is neither device nor pinned memory", what.c_str(), r.at);
  size_t offset = reinterpret_cast<uintptr_t>(r.at) - at->first;
  if (offset + r.bytes > at->second.bytes)
    sim::mistake("%s: %zu bytes at offset %zu go beyond a %s allocation of %zu bytes", what.c_str(), r.bytes, offset,
                 name_of(at->second.of), at->second.bytes);
}

void add_pending(const sim::ranges &touched)
{
  for (const sim::range &r : touched.list) {
    allocation &a = find(r.at)->second;
    const uintptr_t low = reinterpret_cast<uintptr_t>(r.at) & ~(page - 1);
    const uintptr_t high = (reinterpret_cast<uintptr_t>(r.at) + r.bytes + page - 1) & ~(page - 1);
    a.low = a.pending && a.low < low ? a.low : low;
    a.high = a.pending && a.high > high ? a.high : high;
    a.pending++;
  }
}

/* For a range that was not known when the work was queued. */
void open_found(const std::string &what, const sim::range &r)
{
  check_inside(what, r);
  auto at = find(r.at);
  allocation &a = at->second;
  a.low = at->first & ~(page - 1);
  a.high = (at->first + a.bytes + page - 1) & ~(page - 1);
  protect(a.low, a.high, open_pages);
}

void run_head(CUstream_st *s)
{
  task t = std::move(s->todo.front());
  s->todo.pop_front();
  if (!w().sticky) t.work();
  for (const sim::range &r : t.touched.list) find(r.at)->second.pending--;
}

/* Nothing can run here, and time passes. */
void wait_for_others(unsigned &waits)
{
  static const unsigned patience = static_cast<unsigned>(number_of("SIMGPU_PATIENCE", 60));
  const CUstream_st *outside = nullptr;
  for (const CUstream_st *s : w().streams) {
    if (!s->todo.empty() && s->todo.front().outside) outside = s;
    if (!s->todo.empty() && s->todo.front().never)
      sim::mistake("the host waits, unwatched, for %s, which never ends", s->todo.front().what.c_str());
  }
  if (!outside) sim::mistake("the host waits for work that waits for an event which nobody will record");
  if (++waits > patience * 5000)
    sim::mistake("the host waits for %s, for which another rank has not come in %u s",
                 outside->todo.front().what.c_str(), patience);
  usleep(200);
}

bool can_run(const CUstream_st *s)
{
  return !s->todo.empty() && (!s->todo.front().ready || s->todo.front().ready());
}

/* Runs queued work until `enough`; `mine` is the stream that the host waits for. */
void drain(const CUstream_st *mine, const std::function<bool()> &enough)
{
  unsigned waits = 0;
  if (enough()) return;
  w().working = true;
  for (auto &m : w().memory)
    if (m.second.pending) protect(m.second.low, m.second.high, open_pages);
  for (;;) {
    std::vector<CUstream_st *> others;
    CUstream_st *own = nullptr;
    for (CUstream_st *s : w().streams)
      if (can_run(s)) (s == mine ? own = s : (others.push_back(s), s));
    bool done = enough(), more = done && w().mode == 1 && !others.empty() && sim::draw(4);
    if (done && !more) break;
    if (!own && others.empty()) {
      wait_for_others(waits);
      continue;
    }
    bool take_own = own && !more && (others.empty() || w().mode == 2 || (w().mode == 0 && sim::draw(2)));
    run_head(take_own ? own : others[sim::draw(static_cast<unsigned>(others.size()))]);
  }
  w().working = false;
  for (auto &m : w().memory) {
    allocation &a = m.second;
    if (a.of == DEVICE) protect(a.low, a.high, PROT_NONE);
    if (!a.pending) a.low = a.high = 0;
  }
  protect_queued();
}

/* A few pieces, as time passes while the host only asks. */
void run_some()
{
  unsigned left = sim::draw(3);
  CUstream_st *next = nullptr;
  drain(nullptr, [&] {
    next = nullptr;
    for (CUstream_st *s : w().streams)
      if (can_run(s)) next = s;
    return !next || left-- == 0;
  });
}

} // namespace

/* ---- calls ---- */

namespace runtime
{
std::recursive_mutex &lock()
{
  return w().lock;
}

int begin_call(const char *name)
{
  if (w().working) sim::mistake("%s: called by simulated work", name);
  if (w().device_error) return w().device_error;
  const int error = sim::injected(name);
  return error ? error : w().sticky;
}

cudaError_t fail(int error)
{
  if (error) w().last = error;
  return static_cast<cudaError_t>(error);
}

void check_stream(const char *name, const CUstream_st *s)
{
  if (reinterpret_cast<uintptr_t>(s) < 16) sim::mistake("%s: uses the default stream", name);
  bool known = false;
  for (const CUstream_st *t : w().streams) known = known || t == s;
  if (!known) sim::mistake("%s: no such stream", name);
  if (s->device != current_device)
    sim::mistake("%s: a stream of device %d while device %d is the current one", name, s->device, current_device);
}

void check_event(const char *name, const CUevent_st *e)
{
  if (!e) sim::mistake("%s: no event", name);
  if (e->device != current_device)
    sim::mistake("%s: an event of device %d while device %d is the current one", name, e->device, current_device);
}

} // namespace runtime
using runtime::check_event;
using runtime::check_stream;
using runtime::fail;

namespace
{
void check_allowed(const char *name, CUstream_st *s)
{
  const char *why = w().forbidden ? w().forbidden(s) : nullptr;
  if (why) sim::mistake("%s %s", name, why);
}

/* An event that is recorded into a graph is none that the host can ask. */
void not_of_graph(const char *name, const CUevent_st *e)
{
  runtime::not_recorded(name);
  if (e->place.in) sim::mistake("%s: an event that was recorded into a graph", name);
}

cudaError_t allocate(kind of, void **p, size_t bytes)
{
  const size_t whole = (bytes + page - 1) / page * page, used = (bytes + 255) / 256 * 256;
  if (!bytes) return *p = nullptr, cudaSuccess;
  if (bytes > size_t(64) << 30) return fail(cudaErrorMemoryAllocation);
  char *begin = w().next + page;
  if (mmap(begin, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) ==
      MAP_FAILED)
    return fail(cudaErrorMemoryAllocation);
  w().next = begin + whole;
  char *at = begin + (whole - used); /* ends where the next page begins, but for what alignment to 256 needs */
  memset(at, 0xff, bytes);
  allocation a = { bytes, of, current_device, 0, 0, 0 };
  w().memory[reinterpret_cast<uintptr_t>(at)] = a;
  if (of == DEVICE) protect(reinterpret_cast<uintptr_t>(begin), reinterpret_cast<uintptr_t>(begin) + whole, PROT_NONE);
  *p = at;
  return cudaSuccess;
}

cudaError_t release(const char *name, kind of, void *p)
{
  if (!p) return cudaSuccess;
  auto at = w().memory.find(reinterpret_cast<uintptr_t>(p));
  if (at == w().memory.end() || at->second.of != of) sim::mistake("%s: %p is not such an allocation", name, p);
  if (at->second.pending)
    sim::mistake("%s: %zu bytes that %u pieces of queued work use", name, at->second.bytes, at->second.pending);
  if (of == DEVICE && at->second.device != current_device)
    sim::mistake("%s: memory of device %d while device %d is the current one", name, at->second.device, current_device);
  if (of != REGISTERED) {
    const uintptr_t begin = at->first & ~(page - 1), end = (at->first + at->second.bytes + page - 1) & ~(page - 1);
    mmap(reinterpret_cast<void *>(begin), end - begin, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  }
  w().memory.erase(at);
  return cudaSuccess;
}

} // namespace

void sim::mistake(const char *format, ...)
{
  char text[1000];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "simgpu: MISTAKE: %s\n", text);
  fflush(stderr);
  _exit(99);
}

float sim::tf32(float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7f800000u) != 0x7f800000u) bits = (bits + 0x1000u) & 0xffffe000u;
  memcpy(&x, &bits, sizeof bits);
  return x;
}

unsigned sim::draw(unsigned n)
{
  return n ? static_cast<unsigned>(w().random() % n) : 0;
}

bool sim::running()
{
  return w().working;
}

void sim::submit(CUstream_st *s, const std::string &what, const ranges &touched, std::function<void()> work)
{
  std::lock_guard<std::recursive_mutex> guard(w().lock);
  check_stream(what.c_str(), s);
  if (runtime::record(s, what, [=](CUstream_st *on) { submit(on, what, touched, work); })) return;
  for (const range &r : touched.list) check_inside(what, r);
  add_pending(touched);
  s->todo.push_back({ what, touched, std::move(work), nullptr, false, false });
  protect_queued();
}

void sim::submit_gated(CUstream_st *s, const std::string &what, const ranges &touched, std::function<void()> work,
                       std::function<bool()> ready)
{
  std::lock_guard<std::recursive_mutex> guard(w().lock);
  if (s->place.in) mistake("%s: into a stream that is recorded", what.c_str());
  submit(s, what, touched, std::move(work));
  s->todo.back().ready = std::move(ready);
  s->todo.back().outside = true;
}

void sim::check_place(const char *what, CUstream_st *s, const void *memory, int device)
{
  std::lock_guard<std::recursive_mutex> guard(w().lock);
  check_stream(what, s);
  auto at = find(memory);
  if (at != w().memory.end() && at->second.of == DEVICE && at->second.device != device)
    mistake("%s: memory of device %d, and the communicator is of device %d", what, at->second.device, device);
}

void sim::not_in_step(const char *name)
{
  if (w().step) mistake("%s inside the step", name);
  runtime::not_recorded(name);
}

void sim::forbid(const char *(*why)(CUstream_st *))
{
  w().forbidden = why;
}

int sim::injected(const char *function)
{
  std::lock_guard<std::recursive_mutex> guard(w().lock);
  auto e = w().errors.find(function);
  if (e == w().errors.end() || e->second.after-- != 0) return 0;
  const int error = e->second.error;
  w().errors.erase(e);
  return error;
}

/* A line of SIMGPU_LAUNCHES. */
void runtime::log_launch(const std::string &line)
{
  static const char *path = getenv("SIMGPU_LAUNCHES");
  static FILE *file = path ? fopen(path, "w") : nullptr;
  if (!file) return;
  fprintf(file, "%s\n", line.c_str());
  fflush(file);
}

extern "C" {
void simgpu_step(int on)
{
  w().step = on;
}

void simgpu_seed(unsigned seed)
{
  set_seed(w(), seed);
}

void simgpu_inject(const char *function, int after, int error)
{
  w().errors[function] = { after, error };
}

int simgpu_touch(void *device, void *host, size_t bytes, int write)
{
  std::lock_guard<std::recursive_mutex> guard(w().lock);
  auto at = find(device);
  if (at == w().memory.end() || at->second.of != DEVICE) return 0;
  const char *begin = static_cast<const char *>(device), *end = begin + bytes;
  sim::range mine = { device, bytes, 1, write != 0 };
  check_inside("MPI", mine);
  for (const CUstream_st *s : w().streams)
    for (const task &t : s->todo)
      for (const sim::range &r : t.touched.list) {
        const char *low = static_cast<const char *>(r.at);
        if (low < end && low + r.bytes > begin && (write || r.written))
          sim::mistake("MPI %s %zu bytes of device memory, which %s is still to %s", write ? "writes" : "reads", bytes,
                       t.what.c_str(), r.written ? "write" : "read");
      }
  const uintptr_t low = reinterpret_cast<uintptr_t>(begin) & ~(page - 1);
  const uintptr_t high = (reinterpret_cast<uintptr_t>(end) + page - 1) & ~(page - 1);
  protect(low, high, open_pages);
  memcpy(write ? device : host, write ? host : device, bytes);
  protect(low, high, PROT_NONE);
  return 1;
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *n)
{
  *n = 0;
  CALL("cudaGetDeviceCount");
  *n = w().devices;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
  CALL("cudaSetDevice");
  if (device < 0 || device >= w().devices) return fail(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
  CALL("cudaGetDeviceProperties");
  if (device < 0 || device >= w().devices) return fail(cudaErrorInvalidDevice);
  memset(p, 0, sizeof *p);
  snprintf(p->name, sizeof p->name, "simulated device");
  p->uuid.bytes[15] = static_cast<char>(w().visible[static_cast<size_t>(device)] + 1);
  p->pciDomainID = 0xffff; /* no such device in /sys */
  p->major = 9;
  p->multiProcessorCount = 4;
  p->totalGlobalMem = size_t(64) << 30;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *v)
{
  *v = w().device_error ? 0 : CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *v)
{
  *v = CUDART_VERSION;
  return cudaSuccess;
}

const char *cudaGetErrorName(cudaError_t e)
{
  return e == cudaErrorMemoryAllocation     ? "cudaErrorMemoryAllocation"
         : e == cudaErrorNoDevice           ? "cudaErrorNoDevice"
         : e == cudaErrorInsufficientDriver ? "cudaErrorInsufficientDriver"
         : e == cudaErrorLaunchFailure      ? "cudaErrorLaunchFailure"
         : e == cudaErrorIllegalAddress     ? "cudaErrorIllegalAddress"
         : e == cudaErrorNotReady           ? "cudaErrorNotReady"
         : e == cudaErrorInvalidDevice      ? "cudaErrorInvalidDevice"
                                            : "another error";
}

const char *cudaGetErrorString(cudaError_t e)
{
  return e == cudaErrorMemoryAllocation     ? "out of memory"
         : e == cudaErrorNoDevice           ? "no CUDA-capable device is detected"
         : e == cudaErrorInsufficientDriver ? "CUDA driver version is insufficient for CUDA runtime version"
         : e == cudaErrorLaunchFailure      ? "unspecified launch failure"
                                            : cudaGetErrorName(e);
}

cudaError_t cudaGetLastError(void)
{
  int e = w().last;
  w().last = w().sticky;
  return static_cast<cudaError_t>(e);
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **p, size_t bytes)
{
  CALL("cudaMalloc");
  sim::not_in_step("cudaMalloc");
  return allocate(DEVICE, p, bytes);
}

cudaError_t cudaFree(void *p)
{
  CALL("cudaFree");
  sim::not_in_step("cudaFree");
  return release("cudaFree", DEVICE, p);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned)
{
  CALL("cudaHostAlloc");
  sim::not_in_step("cudaHostAlloc");
  return allocate(PINNED, p, bytes);
}

cudaError_t cudaFreeHost(void *p)
{
  CALL("cudaFreeHost");
  sim::not_in_step("cudaFreeHost");
  return release("cudaFreeHost", PINNED, p);
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned)
{
  CALL("cudaHostRegister");
  sim::not_in_step("cudaHostRegister");
  if (reinterpret_cast<uintptr_t>(p) % page) sim::mistake("cudaHostRegister: %p does not begin a page", p);
  w().memory[reinterpret_cast<uintptr_t>(p)] = { bytes, REGISTERED, current_device, 0, 0, 0 };
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
  CALL("cudaHostUnregister");
  sim::not_in_step("cudaHostUnregister");
  return release("cudaHostUnregister", REGISTERED, p);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t s)
{
  CALL("cudaMemcpyAsync");
  sim::ranges r;
  if (!bytes) return cudaSuccess;
  for (const void *p : { static_cast<const void *>(to), from })
    if (find(p) == w().memory.end()) sim::mistake("cudaMemcpyAsync: %p is pageable memory", p);
  r.reads(static_cast<const char *>(from), bytes);
  r.writes(static_cast<char *>(to), bytes);
  sim::submit(s, "cudaMemcpyAsync", r, [=] { memmove(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
  CALL("cudaMemsetAsync");
  sim::ranges r;
  if (!bytes) return cudaSuccess;
  r.writes(static_cast<char *>(p), bytes);
  sim::submit(s, "cudaMemsetAsync", r, [=] { memset(p, value, bytes); });
  return cudaSuccess;
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
  CALL("cudaStreamCreateWithFlags");
  if (flags != cudaStreamNonBlocking) sim::mistake("a stream that waits for the default stream");
  *s = new CUstream_st{ current_device, {}, {} };
  w().streams.push_back(*s);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
  CALL("cudaStreamDestroy");
  check_stream("cudaStreamDestroy", s);
  runtime::not_recorded("cudaStreamDestroy");
  drain(s, [s] { return s->todo.empty(); });
  for (size_t i = 0; i < w().streams.size(); i++)
    if (w().streams[i] == s) w().streams.erase(w().streams.begin() + static_cast<long>(i));
  delete s;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
  CALL("cudaStreamSynchronize");
  sim::not_in_step("cudaStreamSynchronize");
  check_stream("cudaStreamSynchronize", s);
  check_allowed("cudaStreamSynchronize", s);
  drain(s, [s] { return s->todo.empty(); });
  return fail(w().sticky);
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
  CALL("cudaStreamQuery");
  check_stream("cudaStreamQuery", s);
  runtime::not_recorded("cudaStreamQuery");
  run_some();
  if (w().sticky) return fail(w().sticky);
  return s->todo.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
  CALL("cudaStreamWaitEvent");
  check_stream("cudaStreamWaitEvent", s);
  check_event("cudaStreamWaitEvent", e);
  if (runtime::record_wait(s, e)) return cudaSuccess;
  const uint64_t version = e->recorded;
  if (!version) sim::mistake("cudaStreamWaitEvent: an event that was never recorded");
  s->todo.push_back({ "wait for an event", {}, [] {}, [e, version] { return e->done >= version; }, false, false });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
  CALL("cudaEventCreateWithFlags");
  *e = new CUevent_st{ current_device, 0, 0, {} };
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
  CALL("cudaEventDestroy");
  check_event("cudaEventDestroy", e);
  if (e->done != e->recorded) sim::mistake("cudaEventDestroy: the event is still to be recorded");
  delete e;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
  CALL("cudaEventRecord");
  check_stream("cudaEventRecord", s);
  check_event("cudaEventRecord", e);
  check_allowed("cudaEventRecord", s);
  if (runtime::record_event(s, e)) return cudaSuccess;
  const uint64_t version = ++e->recorded;
  s->todo.push_back({ "record an event", {}, [e, version] { e->done = version; }, nullptr, false, false });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
  CALL("cudaEventQuery");
  check_event("cudaEventQuery", e);
  not_of_graph("cudaEventQuery", e);
  run_some();
  if (w().sticky) return fail(w().sticky);
  return e->done == e->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
  CALL("cudaEventSynchronize");
  check_event("cudaEventSynchronize", e);
  not_of_graph("cudaEventSynchronize", e);
  check_allowed("cudaEventSynchronize", nullptr);
  if (!e->recorded) sim::mistake("cudaEventSynchronize: an event that was never recorded");
  drain(nullptr, [e] { return e->done == e->recorded || w().sticky; });
  return fail(w().sticky);
}

/* ---- kernels ---- */

/* What a CUDA graph would go on to use. */
static std::string text_of(const std::string &name, dim3 grid, const std::vector<char> &args)
{
  std::string line = name + " " + std::to_string(grid.x) + " ";
  char byte[3];
  for (char c : args) {
    snprintf(byte, sizeof byte, "%02x", static_cast<unsigned char>(c));
    line += byte;
  }
  return line;
}

struct launch {
  std::string name;
  const sim::kernel *k;
  dim3 grid, block;
  std::shared_ptr<std::vector<char>> args;
};

static void queue(const launch &l, cudaStream_t s)
{
  const std::string what = "kernel " + l.name;
  sim::ranges r;
  l.k->contract(l.args->data(), r);
  int error = 0;
  auto e = w().errors.find(what);
  if (e != w().errors.end() && e->second.after-- == 0) {
    error = e->second.error;
    w().errors.erase(e);
  }
  sim::submit(s, what, r, [=] {
    sim::ranges found; /* ranges that the kernel finds in device memory: mean */
    l.k->contract(l.args->data(), found);
    for (const sim::range &more : found.list) open_found(what, more);
    if (error)
      w().sticky = w().last = error;
    else
      sim::run_kernel(l.name, *l.k, { l.grid.x, 1, 1 }, { l.block.x, 1, 1 }, l.args->data());
  });
  if (error == SIMGPU_NEVER) {
    s->todo.back().ready = [] { return false; };
    s->todo.back().never = true;
  }
}

cudaError_t cudaLaunchKernel(const void *stub, dim3 grid, dim3 block, void **args, size_t, cudaStream_t s)
{
  CALL("cudaLaunchKernel");
  auto name = w().stubs.find(stub);
  if (name == w().stubs.end()) return fail(cudaErrorInvalidDeviceFunction);
  const sim::kernel *k = sim::find_kernel(name->second);
  if (!k) sim::mistake("kernel %s has no contract: see contracts.cpp", name->second.c_str());
  if (grid.y * grid.z * block.y * block.z != 1 || grid.x == 0 || block.x == 0 || block.x > 1022)
    sim::mistake("kernel %s: a grid of %u x %u x %u blocks of %u x %u x %u threads", name->second.c_str(), grid.x,
                 grid.y, grid.z, block.x, block.y, block.z);
  const char *from = static_cast<const char *>(args[0]);
  const launch l = { name->second, k, grid, block, std::make_shared<std::vector<char>>(from, from + k->bytes) };
  check_stream(l.name.c_str(), s);
  if (runtime::record(s, l.name, [l](CUstream_st *on) { queue(l, on); })) return cudaSuccess;
  runtime::log_launch(text_of(l.name, grid, *l.args));
  queue(l, s);
  return cudaSuccess;
}

/* What nvcc puts into a program beside its own calls. */
void **__cudaRegisterFatBinary(void *)
{
  static void *handle[2];
  return handle;
}
void __cudaRegisterFatBinaryEnd(void **)
{
}
void __cudaUnregisterFatBinary(void **)
{
}
char __cudaInitModule(void **)
{
  return 0;
}
void __cudaRegisterFunction(void **, const char *stub, char *, const char *name, int, void *, void *, void *, void *,
                            int *)
{
  w().stubs[stub] = name;
}
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void *)
{
  sim::mistake("a launch by <<< >>>; kernels are launched by cudaLaunchKernel");
}
cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *)
{
  return cudaErrorUnknown;
}
cudaError_t __cudaGetKernel(void **, const void *)
{
  return cudaErrorUnknown;
}
cudaError_t __cudaLaunchKernel(void *, dim3, dim3, void **, size_t, cudaStream_t)
{
  return cudaErrorUnknown;
}
}
