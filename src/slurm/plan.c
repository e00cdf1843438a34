/* Computes which task of a step Slurm places on which node.
 *
 *     tasks per node 2,1,2,3     block    n1 n1 n2 n3 n3 n4 n4 n4
 *                                cyclic   n1 n2 n3 n4 n1 n3 n4 n4     round robin; full nodes are skipped
 *                                plane=2  n1 n1 n2 n3 n3 n4 n4 n4     round robin in chunks
 *
 * With PMIx the step's environment contains the result as a process mapping in MPICH's format,
 * (vector,(0,4,1),(0,1,1),...): blocks of (first node, number of nodes, tasks per node), repeated until all tasks are
 * placed.  It covers every distribution, "arbitrary" included, so it is tried first. */
#include "slurm/plan.h"
#include "base/log.h"
#include "base/mem.h"
#include "slurm/nodes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- is the description of the step complete and consistent? ---- */

static shoal_status check_step(const shoal_step *s)
{
  const char *list = s->list_name ? s->list_name : "SLURM_STEP_NODELIST";
  SHOAL_CHECK(s->n_hosts, SHOAL_ERR_USAGE,
              "SLURM_STEP_NODELIST (or SLURM_JOB_NODELIST) is missing: %d tasks cannot be placed without the names of "
              "their nodes",
              s->tasks);
  SHOAL_CHECK(
      s->n_per_node || s->n_hosts == 1, SHOAL_ERR_USAGE,
      "SLURM_STEP_TASKS_PER_NODE (or SLURM_TASKS_PER_NODE) is missing: %d tasks cannot be placed on the %zu nodes "
      "of %s=%s",
      s->tasks, s->n_hosts, list, s->list);
  return shoal_step_check(s);
}

/* ---- tasks to nodes ---- */

typedef struct {
  int tasks, nodes;
  int *room; /* [nodes] number of tasks that can still be placed on each */
  int *node; /* [tasks] result: the node of each task */
} layout;

static void reset_room(layout *l, const shoal_step *s)
{
  for (int i = 0; i < l->nodes; i++) l->room[i] = s->n_per_node ? s->per_node[i] : s->tasks;
}

static bool place(layout *l, int *task, int node)
{
  if (node >= l->nodes || *task >= l->tasks || l->room[node] == 0) return false;
  l->node[(*task)++] = node;
  l->room[node]--;
  return true;
}

typedef struct {
  int first, nodes, each;
} block;

static bool next_block(const char **at, block *b)
{
  int n = 0;
  if (sscanf(*at, ",(%9d,%9d,%9d)%n", &b->first, &b->nodes, &b->each, &n) != 3 || n == 0) return false;
  *at += n;
  return true;
}

/* Returns false if there is no mapping or it contradicts the other variables. */
static bool place_by_mapping(layout *l, const char *text)
{
  int task = 0;
  if (!text || strncmp(text, "(vector", 7) != 0) return false;
  while (task < l->tasks) {
    int before = task;
    const char *at = text + 7;
    for (block b; next_block(&at, &b);)
      for (int i = 0; i < b.nodes && task < l->tasks; i++)
        for (int k = 0; k < b.each && task < l->tasks; k++)
          if (b.first < 0 || b.first > l->nodes - 1 - i || !place(l, &task, b.first + i)) return false;
    if (task == before || strcmp(at, ")") != 0) return false;
  }
  return true;
}

static void place_round_robin(layout *l, int chunk)
{
  for (int task = 0, node = 0; task < l->tasks; node = (node + 1) % l->nodes)
    for (int k = 0; k < chunk && place(l, &task, node);) k++;
}

static shoal_status place_by_distribution(layout *l, const shoal_step *s)
{
  const char *text = s->distribution ? s->distribution : "block";
  size_t n = strcspn(text, ":,=");
  long plane = s->plane;
  if (text[n] == '=') plane = strtol(text + n + 1, NULL, 10);
  if (strncmp(text, "block", n) == 0 || strncmp(text, "*", n) == 0)
    place_round_robin(l, l->tasks);
  else if (strncmp(text, "cyclic", n) == 0)
    place_round_robin(l, 1);
  else if (strncmp(text, "plane", n) == 0 && plane > 0)
    place_round_robin(l, (int)SHOAL_MIN(plane, l->tasks));
  else
    return SHOAL_FAIL(
        SHOAL_ERR_USAGE,
        "SLURM_DISTRIBUTION is \"%s\", which does not determine the nodes of tasks: take the variables of a step "
        "with --mpi=pmix, whose SLURM_PMIX_MAPPING_SERV does",
        text);
  return SHOAL_OK;
}

static shoal_status place_tasks(layout *l, const shoal_step *s)
{
  l->tasks = s->tasks;
  l->nodes = (int)s->n_hosts;
  SHOAL_TRY(SHOAL_ALLOC((size_t)l->nodes, &l->room));
  SHOAL_TRY(SHOAL_ALLOC((size_t)l->tasks, &l->node));
  reset_room(l, s);
  if (place_by_mapping(l, s->mapping)) return SHOAL_OK;
  reset_room(l, s);
  return place_by_distribution(l, s);
}

/* ---- cores to tasks ---- */

static void assign_cores(const shoal_machine *m, const char *host, int each, int local_rank, int local_size,
                         shoal_facts *f)
{
  const shoal_facts *whole = shoal_machine_facts(m);
  if (each > 0 && each <= whole->pus / local_size)
    shoal_machine_cut(m, local_rank * each, each, f);
  else if (each > 0 && local_rank == 0)
    shoal_warn("%s: %d ranks of %d cores each do not fit into %d hardware threads; the plan shares them evenly", host,
               local_size, each, whole->pus);
}

static shoal_status plan_step(const shoal_machine *m, const shoal_step *s, int each, shoal_facts *f, int *count)
{
  layout l = { 0 };
  shoal_status st = place_tasks(&l, s);
  for (int r = 0; st == SHOAL_OK && r < l.tasks; r++) {
    const char *host = s->hosts[l.node[r]];
    int local = s->n_per_node ? s->per_node[l.node[r]] : s->tasks;
    f[r] = *shoal_machine_facts(m);
    shoal_topo_set_host(&f[r], host);
    assign_cores(m, host, each, count[l.node[r]]++, local, &f[r]);
  }
  free(l.room);
  free(l.node);
  return st;
}

shoal_status shoal_topo_plan(const shoal_machine *m, const shoal_env *e, const shoal_step *s, shoal_topo **out)
{
  bool alone = !s || s->tasks <= 0;
  int size = alone ? 1 : s->tasks;
  shoal_facts *f = NULL;
  int *count = NULL;
  shoal_status st = SHOAL_OK;
  if (!alone) SHOAL_TRY(check_step(s));
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)size, &f), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(alone ? 1 : s->n_hosts, &count), done);
  f[0] = *shoal_machine_facts(m);
  SHOAL_TRY_GOTO(st, shoal_topo_read_cores(e, &f[0]), done);
  if (alone)
    assign_cores(m, f[0].host, f[0].claimed_cores, 0, 1, &f[0]);
  else
    SHOAL_TRY_GOTO(st, plan_step(m, s, f[0].claimed_cores, f, count), done);
  for (int r = 0; r < size; r++) { /* another process will have another group */
    f[r].pid = 0;
    f[r].quota = 0;
  }
  SHOAL_TRY_GOTO(st, shoal_topo_create(f, size, NULL, out), done);
  (*out)->planned = true;
done:
  free(f);
  free(count);
  return st;
}
