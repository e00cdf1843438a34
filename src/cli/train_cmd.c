/* shoal train: one rank of a run. */
#include "base/log.h"
#include "cli/cli.h"
#include "cli/train_flags.h"
#include "train/train.h"

const shoal_flag shoal_train_flags[] = { SHOAL_TRAIN_FLAGS, { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL } };
const shoal_verb_help shoal_train_help = {
  "shoal train RUN.yaml [options]",
  "Trains the network of a run file: one rank of the job. `shoal launch` starts all of them; so does one process per "
  "rank\n"
  "under srun --mpi=pmix or mpirun. A plain start is a run of one rank. All output goes to the folder runs/NAME. USR1 "
  "or\n"
  "TERM to any rank stops all ranks with a verified checkpoint and exit code 75; the same command continues from "
  "there.",
  shoal_train_flags,
  0,
  1,
  "  shoal train digits.yaml\n"
  "  shoal train digits.yaml --set optim.lr=0.05 --resume never\n",
};

shoal_status shoal_cmd_train(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  /* Ranks with a valid command line must learn of an invalid one; it is reported once. */
  shoal_status st = shoal_args_parse(&shoal_train_help, argc, argv, &helped, &a);
  if (st != SHOAL_OK) return shoal_train(&(shoal_train_args){ .failed = st });
  if (helped) return SHOAL_OK;
  const char *const *words;
  shoal_train_args t = { .resume = shoal_args_value(a, "--resume"),
                         .topology = shoal_args_value(a, "--topo"),
                         .allow_faults = shoal_args_on(a, "--allow-faults"),
                         .quiet = shoal_args_on(a, "--quiet") };
  if (shoal_args_words(a, &words)) t.run_file = words[0];
  t.n_sets = shoal_args_list(a, "--set", &t.sets);
  if (!t.run_file && t.n_sets == 0)
    t.failed = SHOAL_FAIL(SHOAL_ERR_USAGE,
                          "no run file given: shoal train RUN.yaml (or options by --set); shoal train -h explains");
  if (t.quiet) shoal_log_set_level(SHOAL_LOG_WARN);
  st = shoal_train(&t);
  shoal_args_destroy(a);
  return st;
}
