/* The program shoal: runs a verb and maps its status to the exit code. */
#include "base/env.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Rank of this process as given by the launcher, before the world is open. */
static int launcher_rank(void)
{
  static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID" };
  for (size_t i = 0; i < SHOAL_COUNT(names); i++) {
    int rank = shoal_env_int(NULL, names[i], 0);
    if (rank >= 0) return rank;
  }
  return 0;
}

static const shoal_verb verbs[] = {
  { "launch", "start a run: its ranks by srun or mpirun, one as a plain process", shoal_cmd_launch },
  { "train", "train a network: one rank under srun or mpirun, or alone", shoal_cmd_train },
  { "data", "make, import, inspect and repack HDF5 data sets", shoal_cmd_data },
  { "ckpt", "list, show, verify, compare and prune checkpoints", shoal_cmd_ckpt },
  { "trace", "show and export timing traces", shoal_cmd_trace },
  { "watch", "a page in the terminal that shows how a run goes", shoal_cmd_watch },
  { "scale", "a scaling study: run files, runs, a table", shoal_cmd_scale },
  { "report", "runs as one HTML page with figures", shoal_cmd_report },
  { "topo", "show the node and the placement of a run", shoal_cmd_topo },
  { "bench", "measure this machine against its limits", shoal_cmd_bench },
  { "methods", "the training methods, their options and sources", shoal_cmd_methods },
  { "models", "the networks, their options and sizes", shoal_cmd_models },
  { "config", "every option of a run file: type, default, range", shoal_cmd_config },
  { NULL, NULL, NULL },
};

static void print_verbs(const char *program, const shoal_verb *list)
{
  printf("usage: %s VERB [arguments]\n\n", program);
  for (const shoal_verb *v = list; v->name; v++) printf("  %-10s %s\n", v->name, v->about);
  printf("\n%s VERB -h explains a verb%s.\n", program,
         strcmp(program, "shoal") == 0 ? "; shoal --version [--verbose] prints versions" : "");
}

shoal_status shoal_run_verb(const char *program, const shoal_verb *list, int argc, char **argv)
{
  const char *names[32];
  size_t n = 0;
  if (argc < 2) {
    print_verbs(program, list);
    return shoal_error_told(SHOAL_FAIL(SHOAL_ERR_USAGE, "%s needs a verb", program));
  }
  if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0) {
    print_verbs(program, list);
    return SHOAL_OK;
  }
  for (const shoal_verb *v = list; v->name; v++) {
    if (strcmp(argv[1], v->name) == 0) return v->run(argc - 1, argv + 1);
    names[n++] = v->name;
  }
  if (list == verbs && strcmp(argv[1], "version") == 0)
    return SHOAL_FAIL(SHOAL_ERR_USAGE, "%s has no verb \"%s\"; %s --version prints it", program, argv[1], program);
  const char *near = shoal_nearest(argv[1], names, n);
  return SHOAL_FAIL(SHOAL_ERR_USAGE, "%s has no verb \"%s\"%s%s; %s -h lists them", program, argv[1],
                    near ? ", did you mean " : "", near ? near : "", program);
}

/* Most verbs only print, so lost output is an error; a training run has its files, and does not fail then. */
static shoal_status check_output(const char *verb)
{
  bool lost = fflush(stdout) != 0 || ferror(stdout);
  SHOAL_CHECK(!lost || strcmp(verb, "train") == 0, SHOAL_ERR_IO,
              "standard output could not be written completely: is a disk full?");
  return SHOAL_OK;
}

bool shoal_json_wanted(const shoal_args *a)
{
  bool json = shoal_args_on(a, "--json");
  if (json) shoal_log_set_level(SHOAL_LOG_WARN);
  return json;
}

char *shoal_own_program(void)
{
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  return shoal_strdup_printf("%.*s", n > 0 ? (int)n : 5, n > 0 ? path : "shoal");
}

int main(int argc, char **argv)
{
  setvbuf(stdout, NULL, _IOLBF, 0);
  signal(SIGXFSZ, SIG_IGN); /* a file above the size limit is an error of the write, told like a full disk */
  bool first = launcher_rank() == 0;
  if (!first && !freopen("/dev/null", "w", stdout)) return shoal_status_exit_code(SHOAL_ERR_IO);
  shoal_status st = argc >= 2 && strcmp(argv[1], "--version") == 0 ? shoal_cmd_version(argc - 1, argv + 1)
                                                                   : shoal_run_verb("shoal", verbs, argc, argv);
  if (st == SHOAL_OK) st = check_output(argc >= 2 ? argv[1] : "");
  /* Launchers end all processes when one exits.  Verbs without a world do the same in each process, so the first one reports
   * the error; the others report theirs only if they still run a moment later, because the first did not fail. */
  if (!first && st != SHOAL_OK && st != SHOAL_STOPPED) usleep(500000);
  shoal_error_report(st);
  return shoal_error_exit_code(st);
}
