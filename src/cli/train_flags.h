/* The options of `shoal train`, which `shoal launch` hands on to each rank. */
#ifndef SHOAL_CLI_TRAIN_FLAGS_H
#define SHOAL_CLI_TRAIN_FLAGS_H
#include "config/args.h"

/* clang-format off */
#define SHOAL_TRAIN_FLAGS                                                                                              \
  { "--set", NULL, "KEY=VALUE", SHOAL_FLAG_LIST, "override a run-file option, as in --set optim.lr=0.05" },            \
  { "--resume", NULL, "auto|never|FILE", SHOAL_FLAG_VALUE,                                                             \
    "auto (default): continue from the newest checkpoint that verifies; never: start a new run; or a checkpoint file" }, \
  { "--topo", NULL, "NxG", SHOAL_FLAG_VALUE,                                                                           \
    "pretend N nodes of G ranks on this machine, or ranks per node as in 2,1,2" },                                     \
  { "--allow-faults", NULL, NULL, SHOAL_FLAG_SWITCH, "enable the fault.* options (for tests)" },                       \
  { "--quiet", "-q", NULL, SHOAL_FLAG_SWITCH, "only warnings and errors on the terminal; the log file has everything" }
/* clang-format on */

extern const shoal_flag shoal_train_flags[]; /* these alone */
#endif
