/* Declarations private to topo/. */
#ifndef SHOAL_TOPO_TOPO_IMPL_H
#define SHOAL_TOPO_TOPO_IMPL_H
#include "base/env.h"
#include "topo/machine.h"
#include <hwloc.h>

struct shoal_machine {
  char *xml;          /* NULL: this machine */
  hwloc_topology_t t; /* NULL: unknown */
  hwloc_bitmap_t mask;
  shoal_facts facts;
  shoal_device *devices; /* GPUs, then network interfaces, each by PCI address */
  int n_gpus, n_nics;
  int *switches; /* [n_gpus][n_nics] whether they are below one PCI switch */
};

/** xml NULL: this machine.  With `devices` the topology has GPUs and network interfaces, and their PCI bridges.  Returns NULL if
 *  hwloc fails. */
hwloc_topology_t shoal_topo_load(const char *xml, bool devices);
/** Finds the GPUs and network interfaces of m->t. */
shoal_status shoal_machine_find_devices(shoal_machine *m);
/** Set the cores, hardware threads, NUMA nodes, lists and hash of a mask in `f`.  `t` is NULL if hwloc does not know
 *  the machine. */
void shoal_topo_count(hwloc_topology_t t, hwloc_const_bitmap_t mask, shoal_facts *f);
/** The same for this thread's affinity mask; also returns the mask and the topology of this machine (NULL if hwloc does
 *  not know it).  The caller destroys both. */
shoal_status shoal_topo_own_cores(bool devices, shoal_facts *f, hwloc_topology_t *t_out, hwloc_bitmap_t *mask_out);
shoal_status shoal_topo_facts_here(bool devices, shoal_facts *f, hwloc_topology_t *t_out,
                                   hwloc_bitmap_t *mask_out); /* sets all facts, not only the cores */
/* Which ranks are on one host.  Hosts are numbered in the order of their lowest ranks; of host h these are rank[first[h]] ..
 * rank[first[h + 1] - 1], ascending. */
typedef struct {
  int hosts;
  int *host; /* [size] of each rank */
  int *first, *rank;
} shoal_hosts;
shoal_status shoal_hosts_find(const shoal_facts *all, int size, shoal_hosts *out);
void shoal_hosts_free(shoal_hosts *h);
/** Threads that each rank should start [size]: its part of the mask's cores and of its group's quota, at least one. */
shoal_status shoal_topo_threads(const shoal_facts *all, int size, const shoal_hosts *h, int *out);
/** Format a bitmap as "0-3,8"; if it does not fit, truncate after a complete number and append ",...". */
void shoal_topo_list_bits(hwloc_const_bitmap_t bits, char *out, size_t cap);
/** Gives each rank of a host a GPU: as many ranks as possible one on their own NUMA nodes, then in their package, then any.  Ranks share
 *  only if there are more of them.
 *  @param near  [ranks][gpus]  @param out  [ranks] number of the GPU; -1: none is left that the rank may have */
shoal_status shoal_topo_match_gpus(int ranks, int gpus, const shoal_near *near, int *out);
#endif
