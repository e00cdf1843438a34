/* The Slurm step around this process, as its environment variables describe it: tasks, nodes, and how the tasks are
 * spread over them.  No external command is run (there may be none). */
#ifndef SHOAL_SLURM_STEP_H
#define SHOAL_SLURM_STEP_H
#include "base/env.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct {
  bool inside;                /* of a step; else what follows is the job's (a batch script's own environment) */
  int tasks, nodes;           /* -1: not said, here and below */
  int rank, node, local_rank; /* of this task */
  bool job_list;              /* inside a step, but `list` is the job's, which may have more nodes */
  char **hosts;               /* the node list written out; NULL: not said */
  size_t n_hosts;
  int *per_node; /* tasks on each node, in the order of the list */
  size_t n_per_node;
  const char *list_name, *per_node_name;     /* the variables they come from */
  const char *list, *distribution, *mapping; /* as written, borrowed from the environment; NULL: not said */
  int plane;                                 /* chunk of a plane distribution */
} shoal_step;
/** No external command is asked (there may be none).  ERR_USAGE names variable and position of what cannot be read. */
shoal_status shoal_step_read(const shoal_env *e, shoal_step *out);
void shoal_step_free(shoal_step *s);
/** "2,1,2(x3)": numbers of tasks, one per node.  `name` is for messages.  ERR_USAGE names the position from 1. */
shoal_status shoal_step_parse_counts(const char *name, const char *text, int **counts_out, size_t *n_out);
#endif
