/* A placement before there is a run: a machine, this one or a saved one, and what Slurm's variables say of a step.
 * Nothing is started and nothing is bound, so every table made here says "not applied". */
#ifndef SHOAL_SLURM_PLAN_H
#define SHOAL_SLURM_PLAN_H
#include "slurm/step.h"
#include "topo/machine.h"

/** The placement of a step's tasks on nodes that all are this machine.  Tasks go to nodes by Slurm's process mapping
 *  where the environment has it (steps with PMIx), else by the distribution: block, cyclic or plane.  With cores per
 *  task claimed, each rank of a node gets the next so many hardware threads in hwloc's order; otherwise, and where that
 *  does not fit (a warning says so), they share the machine evenly.
 *  @param s  NULL or without tasks: one rank on one node
 *  @return ERR_USAGE names the variable that is missing or the two that contradict each other */
shoal_status shoal_topo_plan(const shoal_machine *m, const shoal_env *e, const shoal_step *s, shoal_topo **out);
#endif
