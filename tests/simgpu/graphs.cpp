/* CUDA graphs: what a stream is asked for between cudaStreamBeginCapture and cudaStreamEndCapture is kept, with its arguments as they
 * were then, and queued anew by every launch of the graph, in an order drawn from those that its dependences allow.
 *
 * A stream that waits for an event of a stream that is recorded is recorded, too, and must have been waited for itself at the end.
 * What CUDA refuses meanwhile is a mistake: waiting, asking, allocating, events from outside.  So are modes of recording other than
 * cudaStreamCaptureModeThreadLocal: with them calls of other threads, such as NCCL's, are refused, or what is unsafe is not. */
#include "runtime.h"
#include <set>
#include <thread>

struct node {
  std::function<void(CUstream_st *)> again;
  std::vector<size_t> after;
};
struct recording {
  CUstream_st *origin;
  std::thread::id thread;
  std::vector<CUstream_st *> streams;
  std::vector<node> nodes;
  bool open;
};
struct CUgraph_st {
  std::vector<node> nodes;
};
struct CUgraphExec_st {
  int device;
  std::vector<node> nodes;
  unsigned in_flight;
};

namespace
{
thread_local unsigned open_here; /* recordings of this thread */

void add(std::vector<size_t> &to, const std::vector<size_t> &more)
{
  std::set<size_t> all(to.begin(), to.end());
  all.insert(more.begin(), more.end());
  to.assign(all.begin(), all.end());
}

/* Nodes that come before these, and they themselves. */
std::set<size_t> history(const recording &r, std::vector<size_t> open)
{
  std::set<size_t> seen;
  while (!open.empty()) {
    const size_t i = open.back();
    open.pop_back();
    if (seen.insert(i).second) open.insert(open.end(), r.nodes[i].after.begin(), r.nodes[i].after.end());
  }
  return seen;
}

void check_joined(const recording &r)
{
  const std::set<size_t> before = history(r, r.origin->place.behind);
  for (const CUstream_st *s : r.streams)
    for (size_t i : s->place.behind)
      if (!before.count(i)) sim::mistake("cudaStreamEndCapture: a stream that was recorded, too, is not waited for");
}

/* An order that the dependences allow. */
std::vector<size_t> draw_order(const std::vector<node> &nodes)
{
  std::vector<size_t> order, ready;
  std::vector<size_t> missing(nodes.size());
  for (size_t i = 0; i < nodes.size(); i++)
    if (!(missing[i] = nodes[i].after.size())) ready.push_back(i);
  while (!ready.empty()) {
    const size_t k = sim::draw(static_cast<unsigned>(ready.size())), i = ready[k];
    ready.erase(ready.begin() + static_cast<long>(k));
    order.push_back(i);
    for (size_t j = i + 1; j < nodes.size(); j++)
      for (size_t before : nodes[j].after)
        if (before == i && --missing[j] == 0) ready.push_back(j);
  }
  return order;
}
} // namespace

bool runtime::record(CUstream_st *s, const std::string &what, std::function<void(CUstream_st *)> again)
{
  recorded_place &at = s->place;
  if (!at.in) return false;
  if (at.in->thread != std::this_thread::get_id()) sim::mistake("%s: another thread records this stream", what.c_str());
  at.in->nodes.push_back({ std::move(again), at.behind });
  at.behind = { at.in->nodes.size() - 1 };
  return true;
}

bool runtime::record_event(CUstream_st *s, CUevent_st *e)
{
  e->place = s->place;
  return s->place.in != nullptr;
}

bool runtime::record_wait(CUstream_st *s, const CUevent_st *e)
{
  const recorded_place &from = e->place;
  if (!from.in && !s->place.in) return false;
  if (!from.in) sim::mistake("cudaStreamWaitEvent: an event from outside of what is recorded");
  if (!from.in->open) sim::mistake("cudaStreamWaitEvent: an event that was recorded into a graph");
  if (s->place.in && s->place.in != from.in) sim::mistake("cudaStreamWaitEvent: an event of another recording");
  if (!s->place.in) {
    s->place.in = from.in;
    from.in->streams.push_back(s);
  }
  add(s->place.behind, from.behind);
  return true;
}

void runtime::not_recorded(const char *name)
{
  if (open_here) sim::mistake("%s while work is recorded", name);
}

extern "C" {
cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
  CALL("cudaStreamBeginCapture");
  runtime::check_stream("cudaStreamBeginCapture", s);
  if (mode != cudaStreamCaptureModeThreadLocal) sim::mistake("cudaStreamBeginCapture: a mode that is not the thread's");
  if (s->place.in) sim::mistake("cudaStreamBeginCapture: the stream is recorded already");
  s->place.in = std::make_shared<recording>();
  *s->place.in = { s, std::this_thread::get_id(), { s }, {}, true };
  open_here++;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph)
{
  CALL("cudaStreamEndCapture");
  runtime::check_stream("cudaStreamEndCapture", s);
  const std::shared_ptr<recording> r = s->place.in;
  if (!r || r->origin != s || r->thread != std::this_thread::get_id())
    sim::mistake("cudaStreamEndCapture: nothing that this thread records begins in the stream");
  check_joined(*r);
  for (CUstream_st *member : r->streams) member->place = {};
  r->open = false;
  open_here--;
  *graph = new CUgraph_st{ r->nodes };
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
  CALL("cudaGraphInstantiate");
  sim::not_in_step("cudaGraphInstantiate");
  if (flags) sim::mistake("cudaGraphInstantiate: flags %llx, which are not simulated", flags);
  int device;
  cudaGetDevice(&device);
  *exec = new CUgraphExec_st{ device, graph->nodes, 0 };
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
  CALL("cudaGraphDestroy");
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
  CALL("cudaGraphExecDestroy");
  if (exec->in_flight) sim::mistake("cudaGraphExecDestroy: queued work is of this graph");
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
  CALL("cudaGraphLaunch");
  runtime::check_stream("cudaGraphLaunch", s);
  if (exec->device != s->device) sim::mistake("cudaGraphLaunch: a graph of device %d on another", exec->device);
  if (s->place.in) sim::mistake("cudaGraphLaunch: into a stream that is recorded");
  runtime::log_launch("graph " + std::to_string(exec->nodes.size()));
  for (size_t i : draw_order(exec->nodes)) exec->nodes[i].again(s);
  exec->in_flight++;
  s->todo.push_back({ "the end of a graph", {}, [exec] { exec->in_flight--; }, nullptr, false, false });
  return cudaSuccess;
}
}
