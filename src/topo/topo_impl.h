/* What the files of topo/ share. */
#ifndef SHOAL_TOPO_TOPO_IMPL_H
#define SHOAL_TOPO_TOPO_IMPL_H
#include "topo/topo.h"
#include <hwloc.h>

hwloc_topology_t shoal_topo_load(const char *xml); /* NULL: this machine; returns NULL if hwloc fails */
/** Cores, hardware threads, memory nodes, list and hash of a mask; t NULL: unknown machine. */
void shoal_topo_count(hwloc_topology_t t, hwloc_const_bitmap_t mask, shoal_facts *f);
shoal_status shoal_topo_own_cores(shoal_facts *f); /* the above for this thread's mask */
#endif
