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
#include "slurm/claims.h"
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

const shoal_machine *shoal_machine_of(const shoal_machine *const *m, size_t n, const char *host)
{
  for (size_t i = 0; i < n; i++)
    if (shoal_topo_same_host(shoal_machine_facts(m[i])->host, host)) return m[i];
  return m[0];
}

/* Mask number i of a list such as "verbose,mask_cpu:0x3,0xc"; they are used again from the first. */
static bool nth_mask(const char *bind, int i, char *mask, size_t cap)
{
  const char *list = bind ? strstr(bind, "mask_cpu:") : NULL;
  if (!list) return false;
  list += strlen("mask_cpu:");
  int n = 1;
  for (const char *c = list; *c; c++) n += *c == ',';
  for (i %= n; i > 0; i--) list = strchr(list, ',') + 1;
  return (size_t)snprintf(mask, cap, "%.*s", (int)strcspn(list, ","), list) < cap;
}

static bool fits(const shoal_machine *m, int each, int ranks)
{
  return each > 0 && each <= shoal_machine_facts(m)->pus / ranks;
}

/* Cores for the ranks of one node. */
static shoal_status assign_cores(const shoal_machine *m, const shoal_env *e, const char *host, int each, int ranks,
                                 shoal_facts *f)
{
  const char *bind = shoal_env_get(e, "SLURM_CPU_BIND");
  char mask[256];
  if (nth_mask(bind, 0, mask, sizeof mask)) {
    for (int r = 0; r < ranks; r++)
      SHOAL_CHECK(nth_mask(bind, r, mask, sizeof mask) && shoal_machine_bind(m, mask, &f[r]), SHOAL_ERR_USAGE,
                  "SLURM_CPU_BIND is \"%s\": mask %s of local rank %d on %s has no hardware thread of that machine",
                  bind, mask, r, host);
    return SHOAL_OK;
  }
  if (!fits(m, each, ranks)) {
    if (each > 0)
      shoal_warn("%s: %d ranks of %d cores each do not fit into %d hardware threads; the plan shares them evenly", host,
                 ranks, each, shoal_machine_facts(m)->pus);
    return shoal_machine_share(m, ranks, f);
  }
  for (int r = 0; r < ranks; r++) shoal_machine_cut(m, r * each, each, &f[r]);
  return SHOAL_OK;
}

typedef struct {
  const shoal_machine *const *m;
  size_t n;
  const shoal_env *e;
  int each; /* cores claimed for each rank; 0: none */
} nodes;

/* The ranks of a node are filled in one after another, in `local`, and then put at their places among all. */
static shoal_status plan_node(const nodes *p, const layout *l, int node, const char *host, shoal_facts *local,
                              shoal_facts *f)
{
  const shoal_machine *m = shoal_machine_of(p->m, p->n, host);
  int ranks = 0;
  for (int r = 0; r < l->tasks; r++) ranks += l->node[r] == node;
  for (int i = 0; i < ranks; i++) {
    local[i] = *shoal_machine_facts(m);
    shoal_topo_set_host(&local[i], host);
  }
  if (ranks) SHOAL_TRY(assign_cores(m, p->e, host, p->each, ranks, local));
  for (int r = 0, i = 0; r < l->tasks; r++)
    if (l->node[r] == node) f[r] = local[i++];
  return SHOAL_OK;
}

static shoal_status plan_step(const nodes *p, const shoal_step *s, shoal_facts *f)
{
  layout l = { 0 };
  shoal_facts *local = NULL;
  shoal_status st = place_tasks(&l, s);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)l.tasks, &local);
  for (int node = 0; st == SHOAL_OK && node < l.nodes; node++) st = plan_node(p, &l, node, s->hosts[node], local, f);
  free(local);
  free(l.room);
  free(l.node);
  return st;
}

shoal_status shoal_topo_plan(const shoal_machine *const *m, size_t n, const shoal_env *e, const shoal_step *s,
                             shoal_topo **out)
{
  bool alone = !s || s->tasks <= 0;
  int size = alone ? 1 : s->tasks;
  shoal_facts *f = NULL, claimed = { .pid = 0 };
  shoal_status st = SHOAL_OK;
  if (!alone) SHOAL_TRY(check_step(s));
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)size, &f), done);
  SHOAL_TRY_GOTO(st, shoal_topo_read_cores(e, &claimed), done);
  nodes p = { .m = m, .n = n, .e = e, .each = claimed.claimed_cores };
  f[0] = *shoal_machine_facts(m[0]);
  st = alone ? assign_cores(m[0], e, f[0].host, p.each, 1, f) : plan_step(&p, s, f);
  for (int r = 0; st == SHOAL_OK && r < size; r++) { /* another process will have another group */
    f[r].pid = 0;
    f[r].quota = 0;
  }
  if (st == SHOAL_OK) st = shoal_topo_create(f, size, NULL, out);
  if (st == SHOAL_OK) (*out)->planned = true;
done:
  free(f);
  return st;
}
