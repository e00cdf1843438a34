/* Runs the twins of kernels (twin.h) and checks every access they make.
 *
 * Fibres.  A thread of a block runs on a stack of its own until it waits at a barrier or in a shuffle, or ends; a kernel without
 * either never uses a second stack.  A fibre is made by makecontext, and later changes are by _setjmp and _longjmp, which need
 * no system call.
 *
 * Races.  An element of a range that the kernel writes, and of shared memory, has two stamps: who wrote it last, and who read it
 * last: block, thread, and how many barriers the block had passed.  Two accesses, one of them a write, are a race if they are
 * from two blocks, or from two threads of a block with no barrier between them; atomic operations among each other are not.  As
 * both stamps stay, a race is seen in whatever order the two accesses happen to run. */
#include "sim.h"
#include "twin.h"
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <sys/mman.h>
#include <ucontext.h>

#undef __shared__

sim_place sim_here;

namespace
{
/* ---- stamps ---- */

const uint32_t many = 1023, no_block = 0, atomically = UINT32_MAX;

struct stamp {
  uint32_t block; /* its number + 1 */
  uint32_t when;  /* barriers passed, and in the lower 10 bits the thread */
};
struct stamps {
  stamp wrote, read;
};

struct watched {
  uintptr_t begin, end;
  size_t grain;
  bool written;
  stamps *of; /* an entry per element; NULL: only read, so it needs none */
};

struct {
  const char *name = "";
  std::vector<watched> spans;
  size_t last;
  uint32_t block, barriers;
  bool shared_touched; /* since its stamps were cleared */
} launch;

extern "C" char __start_simgpu_shared[] __attribute__((visibility("hidden"), weak));
extern "C" char __stop_simgpu_shared[] __attribute__((visibility("hidden"), weak));
extern "C" char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" char _end[] __attribute__((visibility("hidden")));

const char *where(char *buf, size_t n)
{
  snprintf(buf, n, "kernel %s, block %u, thread %u", launch.name, sim_here.block.x, sim_here.thread.x);
  return buf;
}

[[noreturn]] void race(const watched &s, size_t element, const stamp &other, const char *how)
{
  char me[200];
  sim::mistake("%s: %s element %zu of the range at %p, which %s%u, thread %u%s touched with no barrier between them",
               where(me, sizeof me), how, element, reinterpret_cast<void *>(s.begin),
               other.block == atomically ? "an atomic operation, block " : "block ",
               other.block == atomically ? 0 : other.block - 1, other.when & 1023,
               (other.when & 1023) == many ? "+" : "");
}

bool conflict(const stamp &other, const stamp &mine)
{
  if (other.block == no_block) return false;
  if (other.block != mine.block) return true;
  return other.when >> 10 == mine.when >> 10 && (other.when & 1023) != (mine.when & 1023);
}

enum access { READ, WRITE, ATOMIC };

void touch(watched &s, uintptr_t at, size_t bytes, access how)
{
  if (how != READ && !s.written) {
    char me[200];
    sim::mistake("%s: writes %zu bytes at %p, a range that it only declares to read", where(me, sizeof me), bytes,
                 reinterpret_cast<void *>(at));
  }
  if (!s.of) return;
  if (s.begin == reinterpret_cast<uintptr_t>(__start_simgpu_shared)) launch.shared_touched = true;
  const stamp mine = { launch.block + 1, launch.barriers << 10 | sim_here.thread.x };
  for (size_t e = (at - s.begin) / s.grain; e <= (at - s.begin + bytes - 1) / s.grain; e++) {
    stamps &t = s.of[e];
    if (how == ATOMIC) {
      if (t.wrote.block != atomically && conflict(t.wrote, mine)) race(s, e, t.wrote, "atomic operation on");
      if (conflict(t.read, mine)) race(s, e, t.read, "atomic operation on");
      t.wrote = { atomically, mine.when };
      continue;
    }
    if (conflict(t.wrote, mine)) race(s, e, t.wrote, how == WRITE ? "writes" : "reads");
    if (how == WRITE) {
      if (conflict(t.read, mine)) race(s, e, t.read, "writes");
      t.wrote = mine;
    } else if (t.read.block != mine.block && t.read.block != no_block) {
      t.read = { atomically - 1, mine.when }; /* several blocks: any write of one is a race */
    } else if (conflict(t.read, mine)) {
      t.read.when = mine.when | many;
    } else {
      t.read = mine;
    }
  }
}

/* ---- fibres ---- */

const size_t stack_bytes = 64 << 10;
enum state { FRESH, READY, AT_BARRIER, IN_SHUFFLE, DONE };

struct fibre {
  ucontext_t context;
  jmp_buf resume;
  char *stack;
  bool started;
};
std::vector<std::unique_ptr<fibre>> all_fibres;
std::vector<fibre *> free_fibres;
std::map<uintptr_t, uintptr_t> stacks; /* begin, end */

struct thread {
  state is;
  fibre *on;
  unsigned long long slot[2]; /* what it gives to a shuffle, and to the next: it may be one ahead of its warp */
  unsigned shuffles;
};
std::vector<thread> threads;
thread *self;
jmp_buf scheduler;
const sim::kernel *body;
const void *body_args;

void enter()
{
  for (;;) {
    body->run(body_args);
    self->is = DONE;
    if (!_setjmp(self->on->resume)) _longjmp(scheduler, 1);
  }
}

void pause(state why)
{
  self->is = why;
  sim_place here = sim_here;
  thread *me = self;
  if (!_setjmp(me->on->resume)) _longjmp(scheduler, 1);
  sim_here = here;
}

fibre *take_fibre()
{
  if (free_fibres.empty()) {
    all_fibres.push_back(std::make_unique<fibre>());
    fibre *f = all_fibres.back().get();
    f->stack =
        static_cast<char *>(mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (f->stack == MAP_FAILED) sim::mistake("no memory for the stack of a simulated thread");
    f->started = false;
    stacks[reinterpret_cast<uintptr_t>(f->stack)] = reinterpret_cast<uintptr_t>(f->stack) + stack_bytes;
    free_fibres.push_back(f);
  }
  fibre *f = free_fibres.back();
  free_fibres.pop_back();
  return f;
}

void go_on(thread &t)
{
  self = &t;
  if (!t.on) t.on = take_fibre();
  if (!_setjmp(scheduler)) {
    if (t.on->started) _longjmp(t.on->resume, 1);
    t.on->started = true;
    getcontext(&t.on->context);
    t.on->context.uc_stack.ss_sp = t.on->stack;
    t.on->context.uc_stack.ss_size =
        stack_bytes - all_fibres.size() % 64 * 256; /* not all tops in one set of the cache */
    t.on->context.uc_link = nullptr;
    makecontext(&t.on->context, enter, 0);
    setcontext(&t.on->context);
  }
  if (self->is == DONE) {
    free_fibres.push_back(self->on);
    self->on = nullptr;
  }
}

/* Lets those go on that wait for each other: all threads of the block at a barrier, all of a warp in a shuffle. */
bool release_waiting()
{
  size_t at_barrier = 0, done = 0;
  bool any = false;
  for (const thread &t : threads) {
    at_barrier += t.is == AT_BARRIER;
    done += t.is == DONE;
  }
  if (at_barrier == threads.size()) {
    launch.barriers++;
    for (thread &t : threads) t.is = READY;
    return true;
  }
  for (size_t w = 0; w < threads.size(); w += 32) {
    size_t end = w + 32 < threads.size() ? w + 32 : threads.size(), waiting = 0;
    for (size_t i = w; i < end; i++) waiting += threads[i].is == IN_SHUFFLE;
    if (waiting != end - w) continue;
    any = true;
    for (size_t i = w; i < end; i++) threads[i].is = READY;
  }
  if (!any && done != threads.size())
    sim::mistake("kernel %s, block %u: %zu of %zu threads wait at a barrier and the others never come, or a shuffle "
                 "lacks threads of its warp",
                 launch.name, sim_here.block.x, at_barrier, threads.size());
  return any;
}

void run_block(const std::vector<unsigned> &order)
{
  for (thread &t : threads) t = { FRESH, nullptr, { 0, 0 }, 0 };
  launch.barriers = 0;
  memset(__start_simgpu_shared, 0xff, static_cast<size_t>(__stop_simgpu_shared - __start_simgpu_shared));
  do {
    for (unsigned i : order)
      if (threads[i].is == FRESH || threads[i].is == READY) {
        sim_here.thread = { i, 0, 0 };
        go_on(threads[i]);
      }
  } while (release_waiting());
}

std::vector<unsigned> permutation(unsigned n)
{
  std::vector<unsigned> p(n);
  for (unsigned i = 0; i < n; i++) p[i] = i;
  switch (sim::draw(3)) {
  case 0:
    break;
  case 1:
    for (unsigned i = 0; i < n; i++) p[i] = n - 1 - i;
    break;
  default:
    for (unsigned i = n; i > 1; i--) std::swap(p[i - 1], p[sim::draw(i)]);
  }
  return p;
}

std::map<std::string, sim::kernel> &kernels()
{
  static std::map<std::string, sim::kernel> list;
  return list;
}

void access_at(const void *address, size_t bytes, access how)
{
  if (!*launch.name) return; /* constructors of the library */
  uintptr_t at = reinterpret_cast<uintptr_t>(address);
  for (size_t k = 0; k < launch.spans.size(); k++) {
    watched &s = launch.spans[launch.last];
    if (at >= s.begin && at + bytes <= s.end) return touch(s, at, bytes, how);
    launch.last = launch.last + 1 < launch.spans.size() ? launch.last + 1 : 0;
  }
  auto stack = stacks.upper_bound(at);
  if (stack != stacks.begin() && at < (--stack)->second) return;
  if (address >= __ehdr_start && address < _end) return; /* constants, and sim_here */
  char me[200];
  sim::mistake("%s: %s %zu bytes at %p, outside the ranges that it declares", where(me, sizeof me),
               how == READ ? "reads" : "writes", bytes, address);
}
} // namespace

void sim::add_kernel(const char *name, const kernel &k)
{
  kernels()[name] = k;
}

const sim::kernel *sim::find_kernel(const std::string &name)
{
  auto k = kernels().find(name);
  return k == kernels().end() ? nullptr : &k->second;
}

const char *sim::running_kernel()
{
  return launch.name;
}

void sim::run_kernel(const std::string &name, const kernel &k, dims grid, dims block, const void *args)
{
  ranges declared;
  k.contract(args, declared);
  const size_t shared = static_cast<size_t>(__stop_simgpu_shared - __start_simgpu_shared);
  if (shared) declared.list.push_back({ __start_simgpu_shared, shared, 1, true });
  launch.spans.clear();
  for (const range &r : declared.list) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(r.at), end = begin + r.bytes;
    bool known = false; /* in place: the same range, read and written */
    for (watched &w : launch.spans)
      if (w.begin == begin && w.end == end) {
        w.written = w.written || r.written;
        w.grain = r.grain < w.grain ? r.grain : w.grain;
        known = true;
      }
    if (!known) launch.spans.push_back({ begin, end, r.grain, r.written, nullptr });
  }
  for (watched &w : launch.spans)
    if (w.written) w.of = static_cast<stamps *>(calloc((w.end - w.begin) / w.grain + 1, sizeof(stamps)));
  launch.name = name.c_str();
  launch.last = 0;
  launch.shared_touched = false;
  body = &k;
  body_args = args;
  threads.resize(block.x);
  sim_here.block_dim = { block.x, 1, 1 };
  sim_here.grid_dim = { grid.x, 1, 1 };
  const std::vector<unsigned> order = permutation(block.x);
  for (unsigned b : permutation(grid.x)) {
    sim_here.block = { b, 0, 0 };
    launch.block = b;
    if (launch.shared_touched) memset(launch.spans.back().of, 0, (shared + 1) * sizeof(stamps));
    launch.shared_touched = false;
    run_block(order);
  }
  for (watched &w : launch.spans) free(w.of);
  launch.spans.clear();
  launch.name = "";
}

/* ---- what twins call ---- */

extern "C" {
void sim_barrier(void)
{
  pause(AT_BARRIER);
}

unsigned long long sim_shuffle(unsigned long long value, int lane_from)
{
  const size_t from = sim_here.thread.x / 32 * 32 + static_cast<unsigned>(lane_from);
  const unsigned turn = self->shuffles++ % 2;
  self->slot[turn] = value;
  pause(IN_SHUFFLE);
  if (from >= threads.size())
    sim::mistake("kernel %s: a shuffle from thread %zu, which the block lacks", launch.name, from);
  return threads[from].slot[turn];
}

void sim_atomic(void *address, size_t bytes)
{
  access_at(address, bytes, ATOMIC);
}

void __tsan_init(void)
{
}
void __tsan_func_entry(void *)
{
}
void __tsan_func_exit(void)
{
}
#define SIM_HOOKS(n)                                                                                                   \
  void __tsan_read##n(void *p)                                                                                         \
  {                                                                                                                    \
    access_at(p, n, READ);                                                                                             \
  }                                                                                                                    \
  void __tsan_write##n(void *p)                                                                                        \
  {                                                                                                                    \
    access_at(p, n, WRITE);                                                                                            \
  }                                                                                                                    \
  void __tsan_unaligned_read##n(void *p)                                                                               \
  {                                                                                                                    \
    access_at(p, n, READ);                                                                                             \
  }                                                                                                                    \
  void __tsan_unaligned_write##n(void *p)                                                                              \
  {                                                                                                                    \
    access_at(p, n, WRITE);                                                                                            \
  }
SIM_HOOKS(1)
SIM_HOOKS(2)
SIM_HOOKS(4)
SIM_HOOKS(8)
SIM_HOOKS(16)
void __tsan_read_range(void *p, size_t n)
{
  access_at(p, n, READ);
}
void __tsan_write_range(void *p, size_t n)
{
  access_at(p, n, WRITE);
}
}
