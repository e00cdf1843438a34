/* The Slurm step of this process, read from its environment only.
 *
 *     SLURM_STEP_NODELIST         n[1-4]       expanded by nodes.c
 *     SLURM_STEP_TASKS_PER_NODE   2,1,2,3      or 2(x4), in the order of the node list
 *     SLURM_STEP_NUM_TASKS  SLURM_STEP_NUM_NODES  SLURM_PROCID  SLURM_NODEID  SLURM_LOCALID  SLURM_DISTRIBUTION
 *
 * A batch script has only the job's variables, without STEP_ in their names; they describe what srun would start there.
 * Some sites and older versions set only those inside a step, too; SLURM_PROCID above zero shows that it is a step. */
#include "slurm/step.h"
#include "base/mem.h"
#include "base/str.h"
#include "slurm/nodes.h"
#include <stdlib.h>
#include <string.h>

/* ---- tasks per node ---- */

static shoal_status complain(const char *name, const char *text, const char *at, const char *what)
{
  return SHOAL_FAIL(SHOAL_ERR_USAGE, "%s \"%s\", position %zu: %s", name, text, (size_t)(at - text) + 1, what);
}

/* Parses a number >= 1 of at most seven digits and advances `at`; on failure returns false and leaves `at`. */
static bool take_number(const char **at, int *out)
{
  size_t digits = strspn(*at, "0123456789");
  if (digits == 0 || digits > 7) return false;
  int value = atoi(*at);
  if (value < 1) return false;
  *at += digits;
  *out = value;
  return true;
}

static bool take_word(const char **at, const char *word)
{
  size_t n = strlen(word);
  if (strncmp(*at, word, n) != 0) return false;
  *at += n;
  return true;
}

/* Parses one item, "3" or "2(x4)". */
static shoal_status take_item(const char *name, const char *text, const char **at, int *count, int *times)
{
  *times = 1;
  if (!take_number(at, count)) return complain(name, text, *at, "a number, 1 or more, is expected");
  if (take_word(at, "(x")) {
    if (!take_number(at, times)) return complain(name, text, *at, "a number of nodes, 1 or more, is expected");
    if (!take_word(at, ")")) return complain(name, text, *at, "a ) is expected");
  }
  if (**at != ',' && **at != '\0') return complain(name, text, *at, "a comma, or (xN), is expected");
  return SHOAL_OK;
}

shoal_status shoal_step_parse_counts(const char *name, const char *text, int **counts_out, size_t *n_out)
{
  int *counts = NULL, count = 0, times = 0;
  size_t n = 0;
  shoal_status st;
  for (const char *at = text;; at++) {
    SHOAL_TRY_GOTO(st, take_item(name, text, &at, &count, &times), fail);
    if (n + (size_t)times > SHOAL_MOST_NODES) {
      st = complain(name, text, at, "more than 100000 nodes");
      goto fail;
    }
    int *grown = realloc(counts, (n + (size_t)times) * sizeof *counts);
    SHOAL_CHECK_GOTO(st, grown, fail, SHOAL_ERR_MEM, "tasks of %zu nodes", n + (size_t)times);
    counts = grown;
    while (times-- > 0) counts[n++] = count;
    if (*at == '\0') break;
  }
  *counts_out = counts;
  *n_out = n;
  return SHOAL_OK;
fail:
  free(counts);
  return st;
}

/* ---- the step ---- */

/* The value of the first variable in `names` that is set; stores its name in *name. */
static const char *first_of(const shoal_env *e, const char *const *names, size_t n, const char **name)
{
  for (size_t i = 0; i < n; i++) {
    const char *value = shoal_env_get(e, names[i]);
    if (!value) continue;
    *name = names[i];
    return value;
  }
  return NULL;
}

/* A number variable, -1 if it is not set.  One that is set must be a number: with a guess instead, ranks would start that
 * nobody asked for. */
static shoal_status read_number(const shoal_env *e, const char *name, int least, int *out)
{
  const char *text = shoal_env_get(e, name);
  char shown[64];
  *out = shoal_env_int(e, name, least);
  SHOAL_CHECK(!text || *out >= least, SHOAL_ERR_USAGE,
              "%s is \"%s\": must be a whole number, %d or more; unset it, or start again where Slurm sets it", name,
              shoal_show(text, shown, sizeof shown), least);
  return SHOAL_OK;
}

static shoal_status first_number(const shoal_env *e, const char *const *names, size_t n, int *out)
{
  *out = -1;
  for (size_t i = 0; i < n && *out < 0; i++) SHOAL_TRY(read_number(e, names[i], 1, out));
  return SHOAL_OK;
}

/* In order of preference: the step's variables, then the job's, which are used if they must have the same value or if
 * there is no step. */
static const char *const tasks_names[] = { "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS" };
static const char *const nodes_names[] = { "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES" };
static const char *const list_names[] = { "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST" };
static const char *const per_node_names[] = { "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE" };

static shoal_status read_place(const shoal_env *e, shoal_step *s)
{
  SHOAL_TRY(read_number(e, "SLURM_PROCID", 0, &s->rank));
  SHOAL_TRY(read_number(e, "SLURM_NODEID", 0, &s->node));
  return read_number(e, "SLURM_LOCALID", 0, &s->local_rank);
}

static shoal_status read_numbers(const shoal_env *e, shoal_step *s)
{
  int tasks;
  SHOAL_TRY(read_place(e, s));
  SHOAL_TRY(read_number(e, tasks_names[0], 1, &tasks));
  SHOAL_TRY(read_number(e, "SLURM_DIST_PLANESIZE", 1, &s->plane));
  s->inside = tasks > 0 || shoal_env_get(e, "SLURM_STEP_ID") || shoal_env_get(e, "SLURM_STEPID") || s->rank > 0;
  SHOAL_TRY(first_number(e, tasks_names, SHOAL_COUNT(tasks_names), &s->tasks));
  SHOAL_TRY(first_number(e, nodes_names, s->inside ? 1 : SHOAL_COUNT(nodes_names), &s->nodes));
  s->distribution = shoal_env_get(e, "SLURM_DISTRIBUTION");
  s->mapping = s->inside ? shoal_env_get(e, "SLURM_PMIX_MAPPING_SERV") : NULL;
  if (s->inside)
    s->tasks = SHOAL_MAX(s->tasks, s->rank + 1);
  else
    s->rank = s->node = s->local_rank = -1; /* of the script */
  return SHOAL_OK;
}

/* A batch script may request tasks per node instead of tasks; srun's default is one task per node. */
static shoal_status count_by_node(const shoal_env *e, shoal_step *s)
{
  int each;
  SHOAL_TRY(read_number(e, "SLURM_NTASKS_PER_NODE", 1, &each));
  s->n_per_node = s->n_hosts;
  SHOAL_TRY(SHOAL_ALLOC(s->n_hosts, &s->per_node));
  for (size_t i = 0; i < s->n_hosts; i++) s->per_node[i] = SHOAL_MAX(each, 1);
  s->tasks = (int)s->n_hosts * SHOAL_MAX(each, 1);
  return SHOAL_OK;
}

static shoal_status read_list(const shoal_env *e, shoal_step *s)
{
  s->list = first_of(e, list_names, SHOAL_COUNT(list_names), &s->list_name);
  if (!s->list) return SHOAL_OK;
  s->job_list = s->inside && s->list_name != list_names[0];
  return shoal_topo_expand_named(s->list_name, s->list, &s->hosts, &s->n_hosts);
}

static shoal_status read_counts(const shoal_env *e, shoal_step *s)
{
  if (!s->inside && s->tasks < 0 && s->n_hosts) return count_by_node(e, s);
  const char *counts = first_of(e, per_node_names, s->inside ? 1 : SHOAL_COUNT(per_node_names), &s->per_node_name);
  if (!counts) return SHOAL_OK;
  return shoal_step_parse_counts(s->per_node_name, counts, &s->per_node, &s->n_per_node);
}

/* Not used, but what is in it tells of the same nodes. */
static shoal_status read_cpus(const shoal_env *e, shoal_step *s)
{
  static const char name[] = "SLURM_JOB_CPUS_PER_NODE";
  const char *text = shoal_env_get(e, name);
  int *cpus;
  if (!text) return SHOAL_OK;
  SHOAL_TRY(shoal_step_parse_counts(name, text, &cpus, &s->n_cpus));
  free(cpus);
  return SHOAL_OK;
}

shoal_status shoal_step_read(const shoal_env *e, shoal_step *out)
{
  shoal_step s = { .inside = false };
  shoal_status st = read_numbers(e, &s);
  if (st == SHOAL_OK) st = read_list(e, &s);
  if (st == SHOAL_OK) st = read_counts(e, &s);
  if (st == SHOAL_OK) st = read_cpus(e, &s);
  if (st == SHOAL_OK)
    *out = s;
  else
    shoal_step_free(&s);
  return st;
}

/* The names of numbers that were read; where several can be, one of them. */
static const char *tasks_name(const shoal_step *s)
{
  return s->inside ? tasks_names[0] : tasks_names[1];
}

static const char *nodes_name(const shoal_step *s)
{
  return s->inside ? nodes_names[0] : nodes_names[2];
}

#define CURE "take all variables from one step, and unset those that were set by hand"

shoal_status shoal_step_check(const shoal_step *s)
{
  int64_t sum = 0;
  const char *counts = s->per_node_name ? s->per_node_name : "SLURM_NTASKS_PER_NODE";
  if (!s->n_hosts) return SHOAL_OK;
  SHOAL_CHECK(s->nodes < 0 || s->nodes == (int)s->n_hosts, SHOAL_ERR_USAGE,
              "%s=%s names %zu nodes, but %s is %d: " CURE, s->list_name, s->list, s->n_hosts, nodes_name(s), s->nodes);
  SHOAL_CHECK(s->inside || !s->n_cpus || s->n_cpus == s->n_hosts, SHOAL_ERR_USAGE,
              "SLURM_JOB_CPUS_PER_NODE counts the cores of %zu nodes, but %s=%s names %zu: " CURE, s->n_cpus,
              s->list_name, s->list, s->n_hosts);
  if (!s->n_per_node) return SHOAL_OK;
  SHOAL_CHECK(s->n_per_node == s->n_hosts, SHOAL_ERR_USAGE,
              "%s counts the tasks of %zu nodes, but %s=%s names %zu: " CURE, counts, s->n_per_node, s->list_name,
              s->list, s->n_hosts);
  for (size_t i = 0; i < s->n_per_node; i++) sum += s->per_node[i];
  SHOAL_CHECK(sum == s->tasks, SHOAL_ERR_USAGE, "%s adds up to %lld tasks, but %s is %d: " CURE, counts, (long long)sum,
              tasks_name(s), s->tasks);
  return SHOAL_OK;
}

void shoal_step_free(shoal_step *s)
{
  for (size_t i = 0; i < s->n_hosts; i++) free(s->hosts[i]);
  free(s->hosts);
  free(s->per_node);
  *s = (shoal_step){ .inside = false };
}
