/* Declarations private to topo/. */
#ifndef SHOAL_TOPO_TOPO_IMPL_H
#define SHOAL_TOPO_TOPO_IMPL_H
#include "base/env.h"
#include "topo/topo.h"
#include <hwloc.h>

hwloc_topology_t shoal_topo_load(const char *xml); /* xml NULL: this machine; returns NULL if hwloc fails */
/** Set the cores, hardware threads, NUMA nodes, lists and hash of a mask in `f`.  `t` is NULL if hwloc does not know
 *  the machine. */
void shoal_topo_count(hwloc_topology_t t, hwloc_const_bitmap_t mask, shoal_facts *f);
/** The same for this thread's affinity mask; also returns the mask and the topology of this machine (NULL if hwloc does
 *  not know it).  The caller destroys both. */
shoal_status shoal_topo_own_cores(shoal_facts *f, hwloc_topology_t *t_out, hwloc_bitmap_t *mask_out);
shoal_status shoal_topo_facts_here(shoal_facts *f, hwloc_topology_t *t_out,
                                   hwloc_bitmap_t *mask_out); /* sets all facts, not only the cores */
/** Threads that rank r should start: its part of the mask's cores and of its group's quota, at least one. */
int shoal_topo_threads(const shoal_facts *all, int size, int r);
/** Format a bitmap as "0-3,8"; if it does not fit, truncate after a complete number and append ",...". */
void shoal_topo_list_bits(hwloc_const_bitmap_t bits, char *out, size_t cap);
#endif
