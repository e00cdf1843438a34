/* A placement before there is a run: a machine, this one or one saved by `lstopo FILE.xml`, and what Slurm's variables
 * say of a step.  Nothing is started and nothing is bound, so every table made here says "not applied". */
#ifndef SHOAL_TOPO_MACHINE_H
#define SHOAL_TOPO_MACHINE_H
#include "topo/claims.h"

typedef struct shoal_machine shoal_machine;
/** @param xml  a file hwloc can load, or NULL: this machine, as far as this thread's affinity mask allows
 *  @return ERR_IO if it cannot be read */
shoal_status shoal_machine_open(const char *xml, shoal_machine **out);
void shoal_machine_close(shoal_machine *m);
/** As a process with all its cores would see them; pid is 0 for a saved machine.  Borrowed. */
const shoal_facts *shoal_machine_facts(const shoal_machine *m);
void shoal_machine_print(const shoal_machine *m, shoal_str *out);
void shoal_machine_print_json(const shoal_machine *m, shoal_str *out);

/** The placement of a step's tasks on nodes that all are this machine.  Tasks go to nodes by Slurm's process mapping
 *  where the environment has it (steps with PMIx), else by the distribution: block, cyclic or plane.  With cores per
 *  task claimed, each rank of a node gets the next so many hardware threads in hwloc's order; otherwise, and where that
 *  does not fit (a warning says so), they share the machine evenly.
 *  @param s  NULL or without tasks: one rank on one node
 *  @return ERR_USAGE names the variable that is missing or the two that contradict each other */
shoal_status shoal_topo_plan(const shoal_machine *m, const shoal_env *e, const shoal_step *s, shoal_topo **out);
#endif
