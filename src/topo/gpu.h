/* GPUs as ranks tell each other of them.  Which rank takes which is decided in topo.h. */
#ifndef SHOAL_TOPO_GPU_H
#define SHOAL_TOPO_GPU_H

enum { SHOAL_GPUS_MAX = 16, SHOAL_GPU_ID = 48 };

/* A GPU that a process may use. */
typedef struct {
  char id[SHOAL_GPU_ID]; /* "GPU-5f2c...": the same in every process of the host, whatever its number there */
  int numa;              /* OS index of the NUMA node that it is at; -1: not known */
} shoal_gpu;
#endif
