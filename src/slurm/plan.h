/* Planned placements: computed from a machine, this one or a saved one, and Slurm's variables of a step, without a run.
 * No process is started or bound, so tables of a planned placement are marked "not applied". */
#ifndef SHOAL_SLURM_PLAN_H
#define SHOAL_SLURM_PLAN_H
#include "slurm/step.h"
#include "topo/machine.h"

/** Plan the placement of a step's tasks on nodes like the machines `m`: a node is the one that was saved under its name, else the
 *  first.  Tasks are assigned to nodes by Slurm's process mapping if the environment has it (steps with PMIx), else by the
 *  distribution: block, cyclic or plane.  Cores, the first that applies:
 *
 *    masks in SLURM_CPU_BIND         "mask_cpu:0xff,0xff00" by local rank, from the first again if there are fewer
 *    cores per task are claimed      so many consecutive hardware threads for each rank, in hwloc's logical order
 *    neither, or they do not fit     (with a warning) an equal share by locality, shoal_machine_share
 *
 *  @param n  machines, 1 or more
 *  @param s  NULL or without tasks: one rank on one node
 *  @return ERR_USAGE names the variable that is missing, or the two that contradict each other */
shoal_status shoal_topo_plan(const shoal_machine *const *m, size_t n, const shoal_env *e, const shoal_step *s,
                             shoal_topo **out);
/** The machine among m[n] that a node is planned as. */
const shoal_machine *shoal_machine_of(const shoal_machine *const *m, size_t n, const char *host);
#endif
