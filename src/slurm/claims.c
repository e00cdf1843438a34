/* Reads what the environment claims about ranks and nodes into one table, in the same form for every source.
 *
 * The difficulty is to know whom a variable describes.  For a process started by srun, SLURM_STEP_NUM_TASKS is its
 * number of ranks.  A process started by mpirun inside an allocation has the same variable, but there it counts
 * mpirun's daemons, one per node.  A process started by a batch script does not have it, since the script is not a step
 * of its own. */
#include "slurm/claims.h"
#include "base/error.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- the launcher ---- */

/* Variables set by known launchers: ranks, rank, local ranks, local rank. */
static const struct {
  const char *name[4];
} launchers[] = {
  { { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK" } },
  { { "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_RANK" } },
  { { "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID" } },
};
static const shoal_claim_kind launcher_kinds[] = { SHOAL_CLAIM_RANKS, SHOAL_CLAIM_RANK, SHOAL_CLAIM_LOCAL_RANKS,
                                                   SHOAL_CLAIM_LOCAL_RANK };

static const char *const slurm_names[SHOAL_CLAIM_COUNT] = {
  [SHOAL_CLAIM_RANKS] = "SLURM_STEP_NUM_TASKS", [SHOAL_CLAIM_RANK] = "SLURM_PROCID",
  [SHOAL_CLAIM_NODES] = "SLURM_STEP_NUM_NODES", [SHOAL_CLAIM_NODE] = "SLURM_NODEID",
  [SHOAL_CLAIM_LOCAL_RANK] = "SLURM_LOCALID",   [SHOAL_CLAIM_LOCAL_RANKS] = "SLURM_STEP_TASKS_PER_NODE",
  [SHOAL_CLAIM_LISTED] = "SLURM_STEP_NODELIST",
};
static const char *const pmix_names[SHOAL_CLAIM_COUNT] = {
  [SHOAL_CLAIM_RANKS] = "PMIX_JOB_SIZE",         [SHOAL_CLAIM_RANK] = "PMIX_RANK",
  [SHOAL_CLAIM_NODES] = "PMIX_NUM_NODES",        [SHOAL_CLAIM_NODE] = "PMIX_NODEID",
  [SHOAL_CLAIM_LOCAL_RANKS] = "PMIX_LOCAL_SIZE", [SHOAL_CLAIM_LOCAL_RANK] = "PMIX_LOCAL_RANK",
};

const char *shoal_claims_name(const shoal_claims *c, shoal_source source, shoal_claim_kind kind)
{
  const char *name = source == SHOAL_SOURCE_SLURM  ? slurm_names[kind]
                     : source == SHOAL_SOURCE_PMIX ? pmix_names[kind]
                                                   : NULL;
  for (size_t i = 0; source == SHOAL_SOURCE_LAUNCHER && c->launcher >= 0 && i < SHOAL_COUNT(launcher_kinds); i++)
    if (launcher_kinds[i] == kind) name = launchers[c->launcher].name[i];
  return name ? name : "?";
}

static void read_launcher(const shoal_env *e, shoal_claims *c)
{
  int32_t *number = c->by[SHOAL_SOURCE_LAUNCHER].number;
  c->launcher = -1;
  for (int i = 0; i < (int)SHOAL_COUNT(launchers) && c->launcher < 0; i++)
    if (shoal_env_get(e, launchers[i].name[0])) c->launcher = i;
  for (size_t i = 0; c->launcher >= 0 && i < SHOAL_COUNT(launcher_kinds); i++) {
    shoal_claim_kind kind = launcher_kinds[i];
    bool from_zero = kind == SHOAL_CLAIM_RANK || kind == SHOAL_CLAIM_LOCAL_RANK;
    number[kind] = shoal_env_int(e, launchers[c->launcher].name[i], from_zero ? 0 : 1);
  }
}

int shoal_torch_processes(const shoal_env *e)
{
  bool one_of_them = shoal_env_int(e, "RANK", 0) >= 0 && shoal_env_int(e, "LOCAL_RANK", 0) >= 0;
  return one_of_them ? SHOAL_MAX(shoal_env_int(e, "WORLD_SIZE", 1), 0) : 0;
}

/* Under mpirun the Slurm step is that of mpirun's daemons, not of the ranks.  The PMI variables alone may come from
 * srun or from MPICH's mpiexec, which also sets MPI_LOCALNRANKS. */
static bool started_by_slurm(const shoal_env *e, const shoal_claims *c)
{
  const char *space = shoal_env_get(e, "PMIX_NAMESPACE");
  if (space && strncmp(space, "slurm.", 6) != 0) return false;
  if (c->launcher < 0) return true;
  return strcmp(launchers[c->launcher].name[0], "PMI_SIZE") == 0 && !shoal_env_get(e, "MPI_LOCALNRANKS");
}

/* ---- Slurm's claims ---- */

bool shoal_topo_same_host(const char *a, const char *b)
{
  size_t short_a = strcspn(a, "."), short_b = strcspn(b, ".");
  if (a[short_a] && b[short_b]) return strcasecmp(a, b) == 0;
  return short_a == short_b && strncasecmp(a, b, short_a) == 0;
}

static int find_host(const shoal_step *s, const char *host)
{
  for (size_t i = 0; *host && i < s->n_hosts; i++)
    if (shoal_topo_same_host(s->hosts[i], host)) return (int)i;
  return -1;
}

/* Slurm's name of a node (SLURMD_NODENAME) may differ from the host name in its kernel. */
static void claim_step(const shoal_step *s, const char *host, const char *slurm_host, shoal_claims *c)
{
  int32_t *number = c->by[SHOAL_SOURCE_SLURM].number;
  int place = find_host(s, host);
  if (place < 0) place = find_host(s, slurm_host);
  number[SHOAL_CLAIM_RANKS] = s->tasks > 0 ? s->tasks : -1;
  number[SHOAL_CLAIM_RANK] = s->rank;
  number[SHOAL_CLAIM_NODES] = s->nodes;
  number[SHOAL_CLAIM_NODE] = s->node;
  number[SHOAL_CLAIM_LOCAL_RANK] = s->local_rank;
  if (s->n_hosts && !s->job_list) number[SHOAL_CLAIM_LISTED] = (int)s->n_hosts;
  if (s->n_hosts) c->listed = place >= 0;
  if (place >= 0 && !s->job_list && s->n_per_node == s->n_hosts) number[SHOAL_CLAIM_LOCAL_RANKS] = s->per_node[place];
  snprintf(c->by[SHOAL_SOURCE_SLURM].host, SHOAL_HOST_MAX, "%s", slurm_host);
  if (!s->list) return;
  bool fits = strlen(s->list) < sizeof c->list;
  snprintf(c->list, sizeof c->list, "%.*s%s", fits ? (int)sizeof c->list : (int)sizeof c->list - 4, s->list,
           fits ? "" : "...");
}

/* What a step says is compared with the ranks that are there; the job's variables, which mpirun goes by, with each other. */
static shoal_status read_step(const shoal_env *e, shoal_step *s)
{
  shoal_status st = shoal_step_read(e, s);
  if (st == SHOAL_OK && !s->inside && !shoal_env_get(e, "SLURM_HET_SIZE") && (st = shoal_step_check(s)) != SHOAL_OK)
    shoal_step_free(s);
  return st == SHOAL_ERR_USAGE ? shoal_error_as(st, SHOAL_ERR_WORLD) /* set by a launcher: not a wrong command line */
                               : st;
}

shoal_status shoal_claims_read(const shoal_env *e, const char *host, shoal_claims *out)
{
  shoal_claims c;
  shoal_step s;
  memset(&c, 0, sizeof c); /* including padding, because the bytes are sent */
  for (int source = 0; source < SHOAL_SOURCE_COUNT; source++)
    for (int kind = 0; kind < SHOAL_CLAIM_COUNT; kind++) c.by[source].number[kind] = -1;
  c.listed = -1;
  read_launcher(e, &c);
  c.by[SHOAL_SOURCE_PMIX].number[SHOAL_CLAIM_RANK] = shoal_env_int(e, "PMIX_RANK", 0);
  const char *slurm_host = shoal_env_get(e, "SLURMD_NODENAME");
  shoal_status st = read_step(e, &s);
  if (st != SHOAL_OK) {
    *out = c;
    return st;
  }
  c.step_tasks = s.inside && s.tasks > 0 ? s.tasks : 0;
  /* In a heterogeneous job one MPI world spans several steps, and the variables describe only one of them. */
  if (s.inside && started_by_slurm(e, &c) && !shoal_env_get(e, "SLURM_HET_SIZE"))
    claim_step(&s, host, slurm_host ? slurm_host : "", &c);
  shoal_step_free(&s);
  *out = c;
  return SHOAL_OK;
}
