/* Planned placements: computed from a machine, this one or a saved one, and Slurm's variables of a step, without a run.
 * No process is started or bound, so tables of a planned placement are marked "not applied". */
#ifndef SHOAL_SLURM_PLAN_H
#define SHOAL_SLURM_PLAN_H
#include "slurm/step.h"
#include "topo/machine.h"

/** Plan the placement of a step's tasks on nodes that are all like `m`.  Tasks are assigned to nodes by Slurm's process
 *  mapping if the environment has it (steps with PMIx), else by the distribution: block, cyclic or plane.  If cores per
 *  task are claimed, each rank of a node gets that many consecutive hardware threads in hwloc's logical order;
 *  otherwise, or if they do not fit (with a warning), the ranks share the machine evenly.
 *  @param s  NULL or without tasks: one rank on one node
 *  @return ERR_USAGE names the variable that is missing, or the two that contradict each other */
shoal_status shoal_topo_plan(const shoal_machine *m, const shoal_env *e, const shoal_step *s, shoal_topo **out);
#endif
