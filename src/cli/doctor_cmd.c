/* shoal doctor: one job that checks a cluster, or this machine. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "slurm/launcher.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off: the lines of a table */
#define RANK_FLAGS                                                                                                     \
  { "--folder", NULL, "FOLDER", SHOAL_FLAG_VALUE, "where runs will be written (the working folder)" },                 \
      { "--needs", NULL, "GIB", SHOAL_FLAG_VALUE, "GiB that must be free there (1)" },                                 \
      { "--expect", NULL, "MB/S", SHOAL_FLAG_VALUE,                                                                    \
        "what a link between nodes should carry; default: the fastest interface's own speed, where the kernel knows "  \
        "it" },                                                                                                        \
      { "--topo", NULL, "NxG", SHOAL_FLAG_VALUE, "pretend nodes: N of G ranks, or a list of ranks per node" },         \
  {                                                                                                                    \
    "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "for scripts"                                                             \
  }
/* clang-format on */

static const shoal_flag flags[] = {
  { "--ranks", "-n", "RANKS", SHOAL_FLAG_VALUE, "ranks to start, as of shoal launch" },
  { "--nodes", "-N", "NODES", SHOAL_FLAG_VALUE, "nodes of the Slurm job to use" },
  RANK_FLAGS,
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
static const shoal_flag rank_flags[] = { RANK_FLAGS, { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL } };

const shoal_verb_help shoal_doctor_help = {
  "shoal doctor [-N NODES] [-n RANKS] [--folder FOLDER] [--json]",
  "Checks a cluster in one job: start, masks, versions, clocks, links, file systems and devices of all nodes, against "
  "what\n"
  "the hardware should reach and against each other. In a Slurm job, or with -n, it starts its ranks like shoal "
  "launch;\n"
  "alone it checks this machine, and what is installed. Exit code 0: all is well; 7: a fault was found. The report "
  "names\n"
  "nodes to exclude from the next job.",
  flags,
  0,
  0,
  "  salloc -N8 --ntasks-per-node=2 shoal doctor --folder runs\n"
  "  srun --mpi=pmix -N8 --ntasks-per-node=2 shoal doctor >report.txt\n"
  "  shoal doctor -n 4\n",
};

/* ---- options ---- */

static shoal_status read_positive(const shoal_args *a, const char *flag, double unit, double *out)
{
  const char *text = shoal_args_value(a, flag);
  double value = 0;
  if (!text) return SHOAL_OK;
  SHOAL_CHECK(shoal_parse_f64(text, &value) == SHOAL_OK && value > 0 && value < 1e9, SHOAL_ERR_USAGE,
              "%s %s: must be a number above 0", flag, text);
  *out = value * unit;
  return SHOAL_OK;
}

static shoal_status read_count(const shoal_args *a, const char *flag, int *out)
{
  const char *text = shoal_args_value(a, flag);
  int64_t n = 0;
  if (!text) return SHOAL_OK;
  SHOAL_CHECK(shoal_parse_i64(text, &n) == SHOAL_OK && n >= 1 && n <= 1 << 20, SHOAL_ERR_USAGE,
              "%s %s: must be a whole number, 1 or more", flag, *text ? text : "\"\"");
  *out = (int)n;
  return SHOAL_OK;
}

static shoal_status read_options(const shoal_args *a, shoal_doctor_options *o)
{
  static const double GIB = 1024.0 * 1024 * 1024, MB = 1e6;
  const char *folder = shoal_args_value(a, "--folder");
  *o = (shoal_doctor_options){ .folder = folder ? folder : ".", .needs = GIB };
  SHOAL_TRY(read_positive(a, "--needs", GIB, &o->needs));
  return read_positive(a, "--expect", MB, &o->expect);
}

/* ---- the report ---- */

static const char *host_of(const shoal_topo *t, int node)
{
  for (int r = 0; r < t->size; r++)
    if (t->places[r].node == node) return t->places[r].host;
  return "";
}

/* Hosts head the columns if all names fit, else numbers do, with which the rows begin. */
static void print_matrix(const shoal_links *l, const shoal_topo *t, shoal_str *out)
{
  enum { CELL = 9 };
  if (!l->matrix) return;
  int label = 12;
  bool fit = true;
  for (int a = 0; a < l->n; a++) fit &= shoal_text_width(host_of(t, a)) <= CELL;
  for (int a = 0; a < l->n && !fit; a++) label = SHOAL_MAX(label, 6 + (int)shoal_text_width(host_of(t, a)));
  shoal_str_add(out, "\nMB/s from one node (row) to another (column)\n%*s", label, "");
  for (int b = 0; b < l->n; b++)
    if (fit)
      shoal_str_add(out, " %*s", CELL, host_of(t, b));
    else
      shoal_str_add(out, " %*d", CELL, b);
  for (int a = 0; a < l->n; a++) {
    if (fit)
      shoal_str_add(out, "\n%*s", label, host_of(t, a));
    else
      shoal_str_add(out, "\n%5d %*s", a, label - 6, host_of(t, a));
    for (int b = 0; b < l->n; b++)
      if (a == b)
        shoal_str_add(out, " %9s", "-");
      else
        shoal_str_add(out, " %9.4g", (double)l->matrix[a * l->n + b] * 1e-6);
  }
  shoal_str_add(out, "\n");
}

static void print_text(const shoal_findings *f, const shoal_links *l, const shoal_topo *t, const char *exclude,
                       shoal_str *out)
{
  static const char *const words[] = { [SHOAL_WELL] = "ok", [SHOAL_NOTE] = "note", [SHOAL_FAULT] = "FAULT" };
  char now[32];
  size_t faults = shoal_findings_count(f, SHOAL_FAULT), notes = shoal_findings_count(f, SHOAL_NOTE);
  shoal_str_add(out, "shoal doctor: %d rank%s on %d node%s, %s%s%s, %s\n", t->size, t->size == 1 ? "" : "s", t->nodes,
                t->nodes == 1 ? "" : "s", host_of(t, 0), t->nodes > 1 ? " .. " : "",
                t->nodes > 1 ? host_of(t, t->nodes - 1) : "", shoal_wall_clock(now, sizeof now));
  for (size_t i = 0; i < f->n; i++) {
    const shoal_finding *x = &f->at[i];
    shoal_str_add(out, "%-5s  %-8s  ", words[x->verdict], x->check);
    char *line =
        shoal_strdup_printf("%s%s%s", x->node >= 0 ? host_of(t, x->node) : "", x->node >= 0 ? ": " : "", x->text);
    shoal_str_add_wrapped(out, line, 17, 120);
    free(line);
  }
  print_matrix(l, t, out);
  if (*exclude)
    shoal_str_add(
        out,
        "\nleave out of the next job: --exclude=%s of srun, salloc and sbatch; shoal submit --sbatch=--exclude=%s\n",
        exclude, exclude);
  shoal_str_add(out, "\n%zu fault%s, %zu note%s\n", faults, faults == 1 ? "" : "s", notes, notes == 1 ? "" : "s");
}

static void put_links(const shoal_links *l, const shoal_topo *t, shoal_json *j)
{
  shoal_json_array(j, "nodes");
  for (int node = 0; node < t->nodes; node++) {
    shoal_json_object(j, NULL);
    shoal_json_string(j, "host", host_of(t, node));
    shoal_json_real(j, "mb_s", l->n ? (double)l->best[node] * 1e-6 : NAN);
    shoal_json_real(j, "latency_us", l->n ? (double)l->latency[node] * 1e-3 : NAN);
    shoal_json_array(j, "sends_mb_s");
    for (int b = 0; l->matrix && b < l->n; b++) shoal_json_real(j, NULL, (double)l->matrix[node * l->n + b] * 1e-6);
    shoal_json_end(j);
    shoal_json_end(j);
  }
  shoal_json_end(j);
}

static void put_json(const shoal_findings *f, const shoal_links *l, const shoal_topo *t, const char *exclude,
                     shoal_str *out)
{
  static const char *const words[] = { [SHOAL_WELL] = "ok", [SHOAL_NOTE] = "note", [SHOAL_FAULT] = "fault" };
  shoal_json j = { .lines = 2 };
  shoal_json_object(&j, NULL);
  shoal_json_string(&j, "version", SHOAL_VERSION);
  shoal_json_int(&j, "ranks", t->size);
  put_links(l, t, &j);
  shoal_json_array(&j, "findings");
  for (size_t i = 0; i < f->n; i++) {
    shoal_json_object(&j, NULL);
    shoal_json_string(&j, "check", f->at[i].check);
    shoal_json_string(&j, "verdict", words[f->at[i].verdict]);
    shoal_json_string(&j, "node", f->at[i].node >= 0 ? host_of(t, f->at[i].node) : NULL);
    shoal_json_string(&j, "text", f->at[i].text);
    shoal_json_end(&j);
  }
  shoal_json_end(&j);
  shoal_json_string(&j, "exclude", exclude);
  shoal_json_uint(&j, "faults", shoal_findings_count(f, SHOAL_FAULT));
  shoal_json_end(&j);
  *out = j.text;
}

static void print_report(const shoal_findings *f, const shoal_links *l, const shoal_topo *t, bool json)
{
  shoal_str out = { 0 }, exclude = { 0 };
  shoal_findings_excluded(f, t, &exclude);
  const char *list = exclude.text ? exclude.text : "";
  if (json)
    put_json(f, l, t, list, &out);
  else
    print_text(f, l, t, list, &out);
  shoal_str_print(&out, stdout);
  fflush(stdout);
  shoal_str_free(&out);
  shoal_str_free(&exclude);
}

/* ---- the checks ---- */

static shoal_status check_all(shoal_world *w, const shoal_doctor_options *o, shoal_findings *f, shoal_links *l)
{
  if (!shoal_world_launched()) shoal_doctor_installed(f);
  SHOAL_TRY(shoal_doctor_start(w, f));
  SHOAL_TRY(shoal_doctor_masks(w, f));
  SHOAL_TRY(shoal_doctor_versions(w, f));
  SHOAL_TRY(shoal_doctor_clocks(w, f));
  SHOAL_TRY(shoal_doctor_links(w, o, f, l));
  SHOAL_TRY(shoal_doctor_devices(w, f));
  SHOAL_TRY(shoal_doctor_files(w, o, f));
  return shoal_findings_gather(shoal_world_control(w), shoal_world_topo(w)->nodes, f);
}

/* Others end only when the report is out, because a launcher ends all at the first that fails. */
static shoal_status examine(const shoal_args *a, shoal_status parsed)
{
  shoal_world *w;
  shoal_findings f = { .n = 0 };
  shoal_links l = { .n = 0 };
  shoal_doctor_options o;
  bool json = a && shoal_json_wanted(a);
  shoal_world_options world = { .failed = a ? read_options(a, &o) : parsed, .hang_s = 120 };
  if (world.failed == SHOAL_OK) world.pretend = shoal_args_value(a, "--topo");
  SHOAL_TRY(shoal_world_open(&world, &w));
  bool alone = shoal_world_size(w) == 1;
  shoal_status st = check_all(w, &o, &f, &l);
  size_t faults = shoal_findings_count(&f, SHOAL_FAULT);
  if (st == SHOAL_OK && shoal_world_rank(w) == 0) print_report(&f, &l, shoal_world_topo(w), json);
  if (st == SHOAL_OK) st = shoal_group_barrier(shoal_world_control(w));
  shoal_error_report(st);
  if (st != SHOAL_OK && !alone) shoal_world_abort(w, st);
  shoal_links_free(&l);
  shoal_findings_free(&f);
  shoal_world_close(w);
  if (st != SHOAL_OK || !faults) return st;
  return shoal_error_told(SHOAL_FAIL(SHOAL_ERR_IO, "%zu fault%s", faults, faults == 1 ? " was found" : "s were found"));
}

/* ---- starting the ranks ---- */

static shoal_status start_ranks(const shoal_args *a, const shoal_launcher_wish *wish)
{
  shoal_launcher_site site;
  shoal_launcher l;
  shoal_texts program = { 0 };
  SHOAL_TRY(shoal_launcher_look(wish, &site));
  SHOAL_TRY(shoal_launcher_plan(NULL, wish, &site, &l));
  shoal_status st = shoal_texts_take(&program, shoal_own_program());
  if (st == SHOAL_OK) st = shoal_texts_add(&program, "doctor");
  if (st == SHOAL_OK) st = shoal_args_repeat(a, rank_flags, &program);
  if (st == SHOAL_OK && !shoal_json_wanted(a)) shoal_info("%s", l.told.text);
  if (st == SHOAL_OK) st = l.words.n ? shoal_launcher_become(&l, &program) : examine(a, SHOAL_OK);
  shoal_texts_free(&program);
  shoal_launcher_free(&l);
  return st;
}

shoal_status shoal_cmd_doctor(int argc, char **argv)
{
  bool helped;
  shoal_args *a = NULL;
  shoal_doctor_options o;
  shoal_launcher_wish wish = { .judges = true };
  shoal_status st = shoal_args_parse(&shoal_doctor_help, argc, argv, &helped, &a);
  if (st == SHOAL_OK && helped) return SHOAL_OK;
  if (st == SHOAL_OK) st = read_count(a, "--ranks", &wish.ranks);
  if (st == SHOAL_OK) st = read_count(a, "--nodes", &wish.nodes);
  bool starts = !shoal_world_launched() && (wish.ranks > 1 || wish.nodes > 1 || shoal_in_allocation());
  if (st == SHOAL_OK && starts) st = read_options(a, &o);
  if (shoal_world_launched())
    st = examine(st == SHOAL_OK ? a : NULL, st);
  else if (st == SHOAL_OK)
    st = starts ? start_ranks(a, &wish) : examine(a, SHOAL_OK);
  shoal_args_destroy(a);
  return st;
}
