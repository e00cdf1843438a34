/* shoal topo: the node, and the actual or planned placement of a run.
 *
 *   under srun or mpirun      opens a world as a run does, with every check, and shows its table
 *   alone                     this machine with one rank; in a batch script, what srun would start there
 *   with --xml or --env       a plan: starts nothing; the files may come from another machine
 *
 * GPUs and network interfaces by locality are chosen here from the placement; nothing binds a rank to them.
 *
 * Plans use the placement code of runs, so a refusal can be reproduced on a laptop. */
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "comm/group.h"
#include "slurm/plan.h"
#include "topo/machine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const shoal_flag flags[] = {
  { "--xml", NULL, "FILE", SHOAL_FLAG_LIST,
    "plan for nodes like this one, saved by `lstopo FILE.xml`; several: a node saved under its own name is that one" },
  { "--env", NULL, "FILE", SHOAL_FLAG_VALUE, "plan for the Slurm step or batch job whose variables `env >FILE` wrote" },
  { "--topo", NULL, "NxG", SHOAL_FLAG_VALUE, "pretend nodes: N of G ranks, or a list of ranks per node" },
  { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "for scripts" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
const shoal_verb_help shoal_topo_help = {
  "shoal topo [--xml FILE] [--env FILE] [--json]",
  "The node, with the cores this process may use, its NUMA nodes, GPUs and network interfaces, and the placement of "
  "all\n"
  "ranks. Start it like a run to see and check what the run would get, or give files to plan a placement on any "
  "machine.",
  flags,
  0,
  0,
  "  srun --mpi=pmix -N4 --ntasks-per-node=2 shoal topo\n"
  "  srun -N4 -n8 -m cyclic env >step.env; lstopo node.xml     # there\n"
  "  shoal topo --xml node.xml --env step.env                  # here\n",
};

/* Under mpirun the step around a rank is that of its daemons, one per node. */
static void print_step(const shoal_step *s, const shoal_world *w, shoal_str *out)
{
  const shoal_claims *c = w ? shoal_world_claims(w) : NULL;
  bool daemons = c && c->launcher >= 0 && c->by[SHOAL_SOURCE_SLURM].number[SHOAL_CLAIM_RANKS] < 0;
  if (s->tasks <= 0) return;
  shoal_str_add(out, "%s: %d task%s",
                !s->inside ? "batch job"
                : daemons  ? "Slurm step of mpirun's daemons"
                           : "Slurm step",
                s->tasks, s->tasks == 1 ? "" : "s");
  if (s->list) shoal_str_add(out, " on %zu node%s %s", s->n_hosts, s->n_hosts == 1 ? "" : "s", s->list);
  if (s->distribution) shoal_str_add(out, ", distribution %s", s->distribution);
  shoal_str_add(out, "\n");
}

/* ---- devices ---- */

typedef struct {
  shoal_choice choice;
  shoal_device gpu, nic; /* of that node's machine; without an address: none */
} device_pick;

/* The interface that the user has named for MPI, which no hint changes; NULL: none. */
static const char *named_interface(const shoal_env *e)
{
  static const char *const names[] = { "UCX_NET_DEVICES", "OMPI_MCA_btl_tcp_if_include" };
  const char *value = NULL;
  for (size_t i = 0; i < SHOAL_COUNT(names) && !value; i++) value = shoal_env_get(e, names[i]);
  return value && strcmp(value, "all") != 0 && value[0] != '^' ? value : NULL;
}

/* The devices of the ranks of one node, at their places in picks[t->size]. */
static shoal_status pick_on_node(const shoal_machine *m, const shoal_env *e, const shoal_topo *t, int node,
                                 device_pick *picks)
{
  const char **numa = NULL;
  shoal_choice *chosen = NULL;
  int n = 0, i = 0;
  shoal_status st = SHOAL_ALLOC((size_t)t->size, &numa);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)t->size, &chosen);
  for (int r = 0; st == SHOAL_OK && r < t->size; r++)
    if (t->places[r].node == node) numa[n++] = t->places[r].on->numa_list;
  if (st == SHOAL_OK) st = shoal_machine_choose(m, n, numa, shoal_env_get(e, "CUDA_VISIBLE_DEVICES"), chosen);
  for (int r = 0; st == SHOAL_OK && r < t->size; r++) {
    if (t->places[r].node != node) continue;
    picks[r].choice = chosen[i++];
    if (picks[r].choice.gpu >= 0) picks[r].gpu = *shoal_machine_gpu(m, picks[r].choice.gpu);
    if (picks[r].choice.nic >= 0) picks[r].nic = *shoal_machine_nic(m, picks[r].choice.nic);
  }
  free(numa);
  free(chosen);
  return st;
}

/* Every rank chooses for its own node, whose machine it sees, and tells the others. */
static shoal_status pick_in_world(const shoal_machine *m, shoal_world *w, device_pick *picks)
{
  const shoal_topo *t = shoal_world_topo(w);
  device_pick mine;
  memset(&mine, 0, sizeof mine);
  shoal_status st = pick_on_node(m, NULL, t, t->places[shoal_world_rank(w)].node, picks);
  if (st == SHOAL_OK) mine = picks[shoal_world_rank(w)];
  SHOAL_TRY(shoal_group_agree(shoal_world_control(w), st));
  return shoal_group_allgather(shoal_world_control(w), &mine, sizeof mine, picks);
}

static bool any_device(const device_pick *picks, int n)
{
  for (int r = 0; r < n; r++)
    if (picks[r].choice.gpu >= 0 || picks[r].choice.nic >= 0) return true;
  return false;
}

static void print_picks(const shoal_env *e, const shoal_topo *t, const device_pick *picks, shoal_str *out)
{
  const char *named = named_interface(e);
  if (!any_device(picks, t->size)) return;
  shoal_str_add(out, "\ndevices by locality, not applied%s%s\n%6s  %3s  %-12s  %-7s  %-10s  %-7s  %s\n",
                named ? "; MPI uses the interface that was named: " : "", named ? named : "", "rank", "gpu", "address",
                "near", "interface", "near", "uuid");
  for (int r = 0; r < t->size; r++) {
    const device_pick *p = &picks[r];
    char gpu[16] = "-";
    if (p->choice.gpu >= 0) snprintf(gpu, sizeof gpu, "%d", p->choice.gpu);
    shoal_str_add(out, "%6d  %3s  %-12s  %-7s  %-10s  %-7s  %s\n", r, gpu, p->choice.gpu >= 0 ? p->gpu.pci : "-",
                  p->choice.gpu >= 0 ? shoal_near_name(p->choice.gpu_near) : "-",
                  p->choice.nic < 0 ? "-"
                  : p->nic.name[0]  ? p->nic.name
                                    : p->nic.pci,
                  p->choice.nic >= 0 ? shoal_near_name(p->choice.nic_near) : "-", p->gpu.name[0] ? p->gpu.name : "-");
  }
}

static void put_pick(shoal_json *j, const char *key, int number, const shoal_device *d, shoal_near near)
{
  if (number < 0) {
    shoal_json_null(j, key);
    return;
  }
  shoal_json_object(j, key);
  shoal_json_int(j, "number", number);
  shoal_json_string(j, "pci", d->pci);
  shoal_json_string(j, "name", d->name[0] ? d->name : NULL);
  shoal_json_string(j, "near", shoal_near_name(near));
  shoal_json_end(j);
}

static void put_picks(const shoal_topo *t, const device_pick *picks, shoal_json *j)
{
  shoal_json_object(j, "locality");
  shoal_json_bool(j, "applied", false);
  shoal_json_array(j, "devices");
  for (int r = 0; r < t->size; r++) {
    shoal_json_object(j, NULL);
    shoal_json_int(j, "rank", r);
    put_pick(j, "gpu", picks[r].choice.gpu, &picks[r].gpu, picks[r].choice.gpu_near);
    put_pick(j, "interface", picks[r].choice.nic, &picks[r].nic, picks[r].choice.nic_near);
    shoal_json_end(j);
  }
  shoal_json_end(j);
  shoal_json_end(j);
}

/* ---- the whole ---- */

typedef struct {
  shoal_machine **m; /* [n] */
  size_t n;
  shoal_env *e; /* NULL: this process's */
  shoal_step step;
  bool json;
} request;

static void print(const request *q, const shoal_topo *t, const device_pick *picks, const shoal_world *w)
{
  shoal_str out = { 0 };
  if (q->json) {
    shoal_json j = { .lines = 3 };
    shoal_json_object(&j, NULL);
    shoal_machine_put_json(q->m[0], &j, "machine");
    shoal_topo_put_json(t, &j, "placement");
    put_picks(t, picks, &j);
    shoal_json_end(&j);
    out = j.text;
  } else {
    for (size_t i = 0; i < q->n; i++) shoal_machine_print(q->m[i], &out);
    print_step(&q->step, w, &out);
    if (w) shoal_claims_print(shoal_world_claims(w), t, shoal_world_rank(w), &out);
    shoal_str_add(&out, "\n");
    shoal_topo_print(t, &out);
    shoal_topo_print_groups(t, &out);
    print_picks(q->e, t, picks, &out);
  }
  shoal_str_print(&out, stdout);
  shoal_str_free(&out);
}

static shoal_status show_plan(const request *q)
{
  shoal_topo *t;
  device_pick *picks = NULL;
  SHOAL_TRY(shoal_topo_plan((const shoal_machine *const *)q->m, q->n, q->e, &q->step, &t));
  shoal_status st = SHOAL_ALLOC((size_t)t->size, &picks);
  for (int r = 0; st == SHOAL_OK && r < t->size; r++)
    if (t->places[r].local_rank == 0)
      st = pick_on_node(shoal_machine_of((const shoal_machine *const *)q->m, q->n, t->places[r].host), q->e, t,
                        t->places[r].node, picks);
  if (st == SHOAL_OK) print(q, t, picks, NULL);
  free(picks);
  shoal_topo_destroy(t);
  return st;
}

static shoal_status show_world(const request *q, const char *pretend)
{
  shoal_world *w;
  device_pick *picks = NULL;
  shoal_world_options o = { .pretend = pretend };
  SHOAL_TRY(shoal_world_open(&o, &w));
  shoal_status st = shoal_group_agree(shoal_world_control(w), SHOAL_ALLOC((size_t)shoal_world_size(w), &picks));
  if (st == SHOAL_OK) st = pick_in_world(q->m[0], w, picks);
  if (st == SHOAL_OK) print(q, shoal_world_topo(w), picks, w); /* stdout of other ranks goes to /dev/null: see main.c */
  free(picks);
  shoal_world_close(w);
  return st;
}

/* The error of a variable, with the file that it is in. */
static shoal_status name_file(shoal_status st, const char *file)
{
  char *text = shoal_strdup_printf("%s: %s", file, shoal_error_text(st));
  st = SHOAL_FAIL(st, "%s", text);
  free(text);
  return st;
}

static shoal_status check_file(const shoal_step *s, const char *file)
{
  SHOAL_CHECK(
      !file || s->tasks > 0, SHOAL_ERR_USAGE,
      "%s has neither SLURM_STEP_NUM_TASKS nor SLURM_NTASKS: write it with `env` inside a Slurm step or batch job",
      file);
  return SHOAL_OK;
}

static shoal_status open_machines(const char *const *files, size_t n_files, request *q)
{
  SHOAL_TRY(SHOAL_ALLOC(SHOAL_MAX(n_files, 1), &q->m));
  do {
    shoal_machine *m;
    SHOAL_TRY(shoal_machine_open(n_files ? files[q->n] : NULL, &m));
    q->m[q->n++] = m;
  } while (q->n < n_files);
  return SHOAL_OK;
}

static shoal_status run(const shoal_args *a)
{
  const char *file = shoal_args_value(a, "--env"), *pretend = shoal_args_value(a, "--topo"), *const * xml;
  size_t n_xml = shoal_args_list(a, "--xml", &xml);
  request q = { .json = shoal_json_wanted(a) };
  shoal_status st;
  SHOAL_CHECK(!pretend || (!n_xml && !file), SHOAL_ERR_USAGE,
              "--topo pretends nodes for ranks that run; with --xml or --env nothing runs");
  if (file) SHOAL_TRY(shoal_env_read(file, &q.e));
  st = shoal_step_read(q.e, &q.step);
  if (st == SHOAL_ERR_USAGE && file) st = name_file(st, file);
  if (st == SHOAL_ERR_USAGE && !file) st = shoal_error_as(st, SHOAL_ERR_WORLD); /* as for a run */
  if (st != SHOAL_OK) goto done;
  SHOAL_TRY_GOTO(st, check_file(&q.step, file), done);
  SHOAL_TRY_GOTO(st, open_machines(xml, n_xml, &q), done);
  bool batch = !q.step.inside && q.step.tasks > 1 && !shoal_world_launched();
  st = n_xml || file || batch ? show_plan(&q) : show_world(&q, pretend);
done:
  for (size_t i = 0; i < q.n; i++) shoal_machine_close(q.m[i]);
  free(q.m);
  shoal_step_free(&q.step);
  shoal_env_destroy(q.e);
  return st;
}

shoal_status shoal_cmd_topo(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&shoal_topo_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  shoal_status st = run(a);
  shoal_args_destroy(a);
  return st;
}
