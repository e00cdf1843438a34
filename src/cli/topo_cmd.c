/* shoal topo: the node, and the actual or planned placement of a run.
 *
 *   under srun or mpirun      opens a world as a run does, with every check, and shows its table
 *   alone                     this machine with one rank; in a batch script, what srun would start there
 *   with --xml or --env       a plan: starts nothing; the files may come from another machine
 *
 * Plans use the placement code of runs, so a refusal can be reproduced on a laptop. */
#include "base/log.h"
#include "cli/cli.h"
#include "comm/group.h"
#include "slurm/plan.h"
#include "topo/machine.h"
#include <stdio.h>
#include <stdlib.h>

static const shoal_flag flags[] = {
  { "--xml", NULL, "FILE", SHOAL_FLAG_VALUE, "plan for nodes like this one, saved by `lstopo FILE.xml`" },
  { "--env", NULL, "FILE", SHOAL_FLAG_VALUE, "plan for the Slurm step or batch job whose variables `env >FILE` wrote" },
  { "--topo", NULL, "NxG", SHOAL_FLAG_VALUE, "pretend nodes: N of G ranks, or a list of ranks per node" },
  { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "for scripts" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
const shoal_verb_help shoal_topo_help = {
  "shoal topo [--xml FILE] [--env FILE] [--json]",
  "The node, with the cores and NUMA nodes this process may use, and the placement of all ranks. Start it like a run\n"
  "to see and check what the run would get, or give files to plan a placement on any machine.",
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

static void print(const shoal_machine *m, const shoal_step *s, const shoal_topo *t, const shoal_world *w, bool json)
{
  shoal_str out = { 0 };
  if (json) {
    shoal_json j = { .lines = 3 };
    shoal_json_object(&j, NULL);
    shoal_machine_put_json(m, &j, "machine");
    shoal_topo_put_json(t, &j, "placement");
    shoal_json_end(&j);
    out = j.text;
  } else {
    shoal_machine_print(m, &out);
    print_step(s, w, &out);
    if (w) shoal_claims_print(shoal_world_claims(w), t, shoal_world_rank(w), &out);
    shoal_str_add(&out, "\n");
    shoal_topo_print(t, &out);
    shoal_topo_print_groups(t, &out);
  }
  shoal_str_print(&out, stdout);
  shoal_str_free(&out);
}

static shoal_status show_plan(const shoal_machine *m, const shoal_env *e, const shoal_step *s, bool json)
{
  shoal_topo *t;
  SHOAL_TRY(shoal_topo_plan(m, e, s, &t));
  print(m, s, t, NULL, json);
  shoal_topo_destroy(t);
  return SHOAL_OK;
}

static shoal_status show_world(const shoal_machine *m, const shoal_step *s, const char *pretend, bool json)
{
  shoal_world *w;
  shoal_world_options o = { .pretend = pretend };
  SHOAL_TRY(shoal_world_open(&o, &w));
  print(m, s, shoal_world_topo(w), w, json); /* stdout of other ranks goes to /dev/null: see main.c */
  shoal_world_close(w);
  return SHOAL_OK;
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

static shoal_status run(const shoal_args *a)
{
  const char *xml = shoal_args_value(a, "--xml"), *file = shoal_args_value(a, "--env");
  const char *pretend = shoal_args_value(a, "--topo");
  bool json = shoal_json_wanted(a);
  shoal_machine *m = NULL;
  shoal_env *e = NULL;
  shoal_step s = { .inside = false };
  shoal_status st;
  SHOAL_CHECK(!pretend || (!xml && !file), SHOAL_ERR_USAGE,
              "--topo pretends nodes for ranks that run; with --xml or --env nothing runs");
  if (file) SHOAL_TRY(shoal_env_read(file, &e));
  st = shoal_step_read(e, &s);
  if (st == SHOAL_ERR_USAGE && file) st = name_file(st, file);
  if (st == SHOAL_ERR_USAGE && !file) st = shoal_error_as(st, SHOAL_ERR_WORLD); /* as for a run */
  if (st != SHOAL_OK) goto done;
  SHOAL_TRY_GOTO(st, check_file(&s, file), done);
  SHOAL_TRY_GOTO(st, shoal_machine_open(xml, &m), done);
  bool batch = !s.inside && s.tasks > 1 && !shoal_world_launched();
  st = xml || file || batch ? show_plan(m, e, &s, json) : show_world(m, &s, pretend, json);
done:
  shoal_machine_close(m);
  shoal_step_free(&s);
  shoal_env_destroy(e);
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
