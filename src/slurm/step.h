/* The Slurm step of this process, as described by its environment variables: tasks, nodes, and the distribution of
 * tasks. No external command is run, since Slurm's commands may not be installed (containers). */
#ifndef SHOAL_SLURM_STEP_H
#define SHOAL_SLURM_STEP_H
#include "base/env.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct {
  bool inside;                /* in a step; if false the members describe the job (environment of a batch script) */
  int tasks, nodes;           /* -1 if unknown, also for the members below */
  int rank, node, local_rank; /* of this task */
  bool job_list;              /* in a step, but `list` is that of the job, which may have more nodes */
  char **hosts;               /* the expanded node list; NULL if unknown */
  size_t n_hosts;
  int *per_node; /* number of tasks on each node, in the order of the list */
  size_t n_per_node;
  size_t n_cpus;                             /* number of nodes in SLURM_JOB_CPUS_PER_NODE; 0: not set */
  const char *list_name, *per_node_name;     /* names of the variables they were read from */
  const char *list, *distribution, *mapping; /* values of the variables, borrowed; NULL if unset */
  int plane;                                 /* plane size of a plane distribution */
} shoal_step;
/** Read the step from the environment.  ERR_USAGE gives the variable, its value, and the position of a syntax error. */
shoal_status shoal_step_read(const shoal_env *e, shoal_step *out);
/** Whether the variables agree among themselves: nodes in lists and numbers of nodes, tasks per node and tasks.  ERR_USAGE names
 *  two that do not. */
shoal_status shoal_step_check(const shoal_step *s);
void shoal_step_free(shoal_step *s);
/** Parse "2,1,2(x3)", the number of tasks on each node.  `name` is for messages.  ERR_USAGE gives the position. */
shoal_status shoal_step_parse_counts(const char *name, const char *text, int **counts_out, size_t *n_out);
#endif
