/* What the parts of the simulator share: the run time (runtime.cpp), the execution of kernels (kernels.cpp), their contracts
 * (contracts.cpp), and the stand-ins for cuBLAS, cuBLASLt and cuDNN, which queue their work here. */
#ifndef SIMGPU_SIM_H
#define SIMGPU_SIM_H
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

struct CUstream_st;

namespace sim
{
/* A range of device or pinned memory that a piece of work reads or writes, in elements of `grain` bytes. */
struct range {
  const void *at;
  size_t bytes, grain;
  bool written;
};
struct ranges {
  std::vector<range> list;
  template <class T> void reads(const T *p, size_t n)
  {
    if (p && n) list.push_back({ p, n * sizeof(T), sizeof(T), false });
  }
  template <class T> void writes(T *p, size_t n)
  {
    if (p && n) list.push_back({ p, n * sizeof(T), sizeof(T), true });
  }
};

/** Ends the process with status 99 and "simgpu: MISTAKE: ..." on standard error. */
[[noreturn]] void mistake(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Queues work on a stream.  The ranges must lie inside allocations that live until it has run. */
void submit(CUstream_st *stream, const std::string &what, const ranges &touched, std::function<void()> work);

/** As submit, for work that needs other processes: it runs once `ready`, and a wait of the host for it lasts until then. */
void submit_gated(CUstream_st *stream, const std::string &what, const ranges &touched, std::function<void()> work,
                  std::function<bool()> ready);
/** Mistake between simgpu_step(1) and simgpu_step(0). */
void not_in_step(const char *name);
/** Mistake unless the stream, and the memory if it is some device's, is of this device. */
void check_place(const char *what, CUstream_st *stream, const void *memory, int device);
/** `why` says why a stream must not be waited for or marked at the moment, or null; stream null: any. */
void forbid(const char *(*why)(CUstream_st *stream));
/** The error that was injected for this call of a function, or 0. */
int injected(const char *function);

/* A factor of a product in TF32: 10 bits of mantissa, to the nearest, halves away from zero. */
float tf32(float x);

/* A number drawn from the seed, below n. */
unsigned draw(unsigned n);

/* A kernel: its twin, and what it may touch.  `args` is its one argument. */
struct kernel {
  size_t bytes;
  void (*run)(const void *args);
  void (*contract)(const void *args, ranges &r);
};
void add_kernel(const char *name, const kernel &k);
const kernel *find_kernel(const std::string &name);

struct dims {
  unsigned x, y, z;
};
/** Runs every block of a launch, checking each access.  Returns false if a kernel asked for it (error injection). */
void run_kernel(const std::string &name, const kernel &k, dims grid, dims block, const void *args);
const char *running_kernel(void); /* "" outside of one */
bool running(void);               /* queued work runs, and the host's side may look at device memory */

/* `C` is the contract: statements over the argument `a` and the ranges `r`. */
#define SIM_KERNEL(name, args_type, ...)                                                                               \
  extern "C" void name(args_type);                                                                                     \
  namespace                                                                                                            \
  {                                                                                                                    \
  struct add_##name {                                                                                                  \
    static void run(const void *args)                                                                                  \
    {                                                                                                                  \
      name(*static_cast<const args_type *>(args));                                                                     \
    }                                                                                                                  \
    static void contract(const void *args, sim::ranges &r)                                                             \
    {                                                                                                                  \
      const args_type &a = *static_cast<const args_type *>(args);                                                      \
      __VA_ARGS__                                                                                                      \
    }                                                                                                                  \
    add_##name()                                                                                                       \
    {                                                                                                                  \
      sim::add_kernel(#name, { sizeof(args_type), run, contract });                                                    \
    }                                                                                                                  \
  } added_##name;                                                                                                      \
  }
} // namespace sim
#endif
