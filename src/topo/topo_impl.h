/* What the files of topo/ share. */
#ifndef SHOAL_TOPO_TOPO_IMPL_H
#define SHOAL_TOPO_TOPO_IMPL_H
#include "base/env.h"
#include "topo/topo.h"
#include <hwloc.h>

hwloc_topology_t shoal_topo_load(const char *xml); /* NULL: this machine; returns NULL if hwloc fails */
/** Cores, hardware threads, memory nodes, list and hash of a mask; t NULL: unknown machine. */
void shoal_topo_count(hwloc_topology_t t, hwloc_const_bitmap_t mask, shoal_facts *f);
/** The above for this thread's mask, and the mask itself.  *t_out is this machine, or NULL where hwloc does not know it.
 *  The caller destroys both. */
shoal_status shoal_topo_own_cores(shoal_facts *f, hwloc_topology_t *t_out, hwloc_bitmap_t *mask_out);
shoal_status shoal_topo_facts_here(shoal_facts *f, hwloc_topology_t *t_out, hwloc_bitmap_t *mask_out); /* same, all */
/** The bits of a set as "0-3,8", cut behind a whole number and ended by ",..." where they do not fit. */
void shoal_topo_list_bits(hwloc_const_bitmap_t bits, char *out, size_t cap);
#endif
