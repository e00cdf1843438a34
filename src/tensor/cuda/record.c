/* Recordings: CUDA graphs of what the stream of the work is asked for.
 *
 * Other threads may call CUDA meanwhile (NCCL's do), so the mode of recording is the thread's own.  A graph holds addresses: those
 * that the caller gives are its business, the backend's own are the scratch memory, whose growth `moved` counts, and the workspaces of
 * libraries, which stay. */
#include "tensor/cuda/cuda_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shoal_recording {
  cudaGraphExec_t graph;
  shoal_cuda_name name;
};

shoal_status shoal_cuda_record(shoal_backend *base, const char *name)
{
  shoal_cuda *b = (shoal_cuda *)base;
  SHOAL_TRY(shoal_cuda_not_recorded(b, "a recording in another"));
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  SHOAL_TRY_CUDA(cudaStreamBeginCapture(b->stream, cudaStreamCaptureModeThreadLocal));
  snprintf(b->recording, sizeof b->recording, "%s", name);
  base->recording = true;
  return SHOAL_OK;
}

static shoal_status keep(shoal_cuda *b, cudaGraph_t graph, shoal_recording **out)
{
  shoal_recording *r = calloc(1, sizeof *r);
  SHOAL_CHECK(r, SHOAL_ERR_MEM, "a recording of %s", b->recording);
  memcpy(r->name, b->recording, sizeof r->name);
  cudaError_t e = cudaGraphInstantiate(&r->graph, graph, 0);
  if (e != cudaSuccess) {
    free(r);
    return shoal_cuda_fail(e, __FILE__, __LINE__, "cudaGraphInstantiate");
  }
  *out = r;
  return SHOAL_OK;
}

shoal_status shoal_cuda_recorded(shoal_backend *base, shoal_recording **out)
{
  shoal_cuda *b = (shoal_cuda *)base;
  cudaGraph_t graph = NULL;
  base->recording = false;
  SHOAL_TRY_CUDA(cudaStreamEndCapture(b->stream, &graph));
  shoal_status st = out ? keep(b, graph, out) : SHOAL_OK;
  (void)cudaGraphDestroy(graph);
  return st;
}

shoal_status shoal_cuda_replay(shoal_backend *base, const shoal_recording *r)
{
  shoal_cuda *b = (shoal_cuda *)base;
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  SHOAL_TRY(shoal_cuda_trail_kernels(b));
  SHOAL_TRY_CUDA(cudaGraphLaunch(r->graph, b->stream));
  SHOAL_TRY(shoal_cuda_trail_graph(b, r->name));
  shoal_backend_poll(base);
  return SHOAL_OK;
}

void shoal_cuda_forget(shoal_backend *base, shoal_recording *r)
{
  shoal_cuda *b = (shoal_cuda *)base;
  (void)cudaSetDevice(b->device);
  (void)shoal_cuda_wait_stream(b, b->stream);
  if (!b->hung) (void)cudaGraphExecDestroy(r->graph);
  free(r);
}

shoal_status shoal_cuda_not_recorded(const shoal_cuda *b, const char *what)
{
  SHOAL_CHECK(!b->base.recording, SHOAL_ERR_INTERNAL, "%s cannot be recorded", what);
  return SHOAL_OK;
}
