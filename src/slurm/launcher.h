/* How several ranks of this program are started from here: by srun in a Slurm allocation, by mpirun elsewhere. */
#ifndef SHOAL_SLURM_LAUNCHER_H
#define SHOAL_SLURM_LAUNCHER_H
#include "base/status.h"
#include "base/texts.h"
#include <stdbool.h>

/** Whether this process is in a job of Slurm that can start steps. */
bool shoal_in_allocation(void);
/** Tasks that srun starts from here by default, for a process that no launcher started: in a batch script, or in the shell of an
 *  interactive allocation, which may be a step of one task itself.  0: unknown, or not in a job. */
int shoal_allocation_tasks(void);
/** Appends the words that stand before the program, srun or mpirun and its options; one rank outside of Slurm needs none.  Where the
 *  job says how many tasks a node has, ranks fill nodes: srun by itself would spread a few over all of them.
 *  Ranks are not bound to cores and may be more than those.  ERR_WORLD, with the cure, if the launcher is not installed. */
shoal_status shoal_launcher_words(int ranks, shoal_texts *words);
/** Sets what the environment of mpirun needs for that, unless the user has: in this process, for its children. */
void shoal_launcher_environment(void);
#endif
