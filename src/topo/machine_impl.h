/* What plan.c asks of machine.c. */
#ifndef SHOAL_TOPO_MACHINE_IMPL_H
#define SHOAL_TOPO_MACHINE_IMPL_H
#include "topo/machine.h"
#include "topo/topo_impl.h"

/** Cores, list and memory nodes of the hardware threads [first, first + count) of the machine, in hwloc's order. */
void shoal_machine_cut(const shoal_machine *m, int first, int count, shoal_facts *f);
#endif
