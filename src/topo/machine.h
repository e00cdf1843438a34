/* A machine as hwloc describes it: this one, or one saved by `lstopo FILE.xml`. */
#ifndef SHOAL_TOPO_MACHINE_H
#define SHOAL_TOPO_MACHINE_H
#include "topo/topo.h"

typedef struct shoal_machine shoal_machine;
/** @param xml  XML file for hwloc to load, or NULL for this machine, restricted to this thread's affinity mask
 *  @return ERR_IO if it cannot be read */
shoal_status shoal_machine_open(const char *xml, shoal_machine **out);
void shoal_machine_close(shoal_machine *m);
/** The facts of a process that may use all cores of the machine; pid is 0 for a saved machine.  Borrowed. */
const shoal_facts *shoal_machine_facts(const shoal_machine *m);
void shoal_machine_print(const shoal_machine *m, shoal_str *out);
void shoal_machine_put_json(const shoal_machine *m, shoal_json *j, const char *key);
/** Restrict `f` to the hardware threads [first, first + count) of the machine in hwloc's logical order: sets its cores,
 *  lists and NUMA nodes. */
void shoal_machine_cut(const shoal_machine *m, int first, int count, shoal_facts *f);
#endif
