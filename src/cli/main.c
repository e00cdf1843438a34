/* The program shoal: runs a verb and maps its status to the exit code. */
#include "base/env.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include <fcntl.h>
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

/* Most verbs only print, so lost output is an error; a training run has its files, and does not fail then. */
static shoal_status check_output(const char *verb)
{
  bool lost = fflush(stdout) != 0 || ferror(stdout);
  SHOAL_CHECK(!lost || strcmp(verb, "train") == 0, SHOAL_ERR_IO,
              "standard output could not be written completely: is a disk full, or is it closed?");
  return SHOAL_OK;
}

/* If a standard stream is closed, the next file that is opened has its number, and what is printed would go into that: a checkpoint,
 * or the lease of a run.  Writing to standard output fails then, as to one that is closed. */
static void keep_numbers(void)
{
  static const int modes[] = { O_RDONLY, O_RDONLY, O_WRONLY };
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", modes[fd]);
}

int main(int argc, char **argv)
{
  keep_numbers();
  setvbuf(stdout, NULL, _IOLBF, 0);
  signal(SIGXFSZ, SIG_IGN); /* a file above the size limit is an error of the write, told like a full disk */
  shoal_use_bundle();
  bool first = launcher_rank() == 0;
  if (!first && !freopen("/dev/null", "w", stdout)) return shoal_status_exit_code(SHOAL_ERR_IO);
  shoal_status st = argc >= 2 && strcmp(argv[1], "--version") == 0 ? shoal_cmd_version(argc - 1, argv + 1)
                                                                   : shoal_run_verb("shoal", shoal_verbs, argc, argv);
  if (st == SHOAL_OK) st = check_output(argc >= 2 ? argv[1] : "");
  /* Launchers end all processes when one exits.  Verbs without a world do the same in each process, so the first one reports
   * the error; the others report theirs only if they still run a moment later, because the first did not fail. */
  if (!first && st != SHOAL_OK && st != SHOAL_STOPPED) usleep(500000);
  shoal_error_report(st);
  return shoal_error_exit_code(st);
}
