/* What the run time (runtime.cpp) and its graphs (graphs.cpp) share. */
#ifndef SIMGPU_RUNTIME_H
#define SIMGPU_RUNTIME_H
#include "sim.h"
#include <cuda_runtime_api.h>
#include <deque>
#include <memory>
#include <mutex>

struct task {
  std::string what;
  sim::ranges touched;
  std::function<void()> work;
  std::function<bool()> ready; /* empty: always */
  bool outside;                /* other processes make it ready */
  bool never;                  /* it does not end */
};
struct recording;
/* Where in a recording a stream or an event is: behind these of its nodes. */
struct recorded_place {
  std::shared_ptr<recording> in; /* null: nowhere */
  std::vector<size_t> behind;
};
struct CUstream_st {
  int device;
  std::deque<task> todo;
  recorded_place place;
};
struct CUevent_st {
  int device;
  uint64_t recorded, done;
  recorded_place place;
};

namespace runtime
{
std::recursive_mutex &lock();
int begin_call(const char *name);
cudaError_t fail(int error);
#define CALL(name)                                                                                                     \
  std::lock_guard<std::recursive_mutex> guard(runtime::lock());                                                        \
  if (int error = runtime::begin_call(name)) return runtime::fail(error)
void check_stream(const char *name, const CUstream_st *s);
void check_event(const char *name, const CUevent_st *e);
/** Adds a line to SIMGPU_LAUNCHES. */
void log_launch(const std::string &line);

/** Keeps the work, which `again` queues, if the stream is recorded; false: it is to be queued. */
bool record(CUstream_st *s, const std::string &what, std::function<void(CUstream_st *)> again);
bool record_event(CUstream_st *s, CUevent_st *e);
bool record_wait(CUstream_st *s, const CUevent_st *e);
/** Mistake while this thread records. */
void not_recorded(const char *name);
} // namespace runtime
#endif
