/* The verbs.  Each file holds one or a family; main.c lists them. */
#ifndef SHOAL_CLI_CLI_H
#define SHOAL_CLI_CLI_H
#include "base/error.h"
#include "config/args.h"

typedef struct {
  const char *name, *about;
  shoal_status (*run)(int argc, char **argv); /* argv[0] is the verb */
} shoal_verb;

shoal_status shoal_cmd_train(int argc, char **argv);
shoal_status shoal_cmd_data(int argc, char **argv);
shoal_status shoal_cmd_ckpt(int argc, char **argv);
shoal_status shoal_cmd_trace(int argc, char **argv);
shoal_status shoal_cmd_topo(int argc, char **argv);
shoal_status shoal_cmd_bench(int argc, char **argv);
shoal_status shoal_cmd_methods(int argc, char **argv);
shoal_status shoal_cmd_models(int argc, char **argv);
shoal_status shoal_cmd_config(int argc, char **argv);
shoal_status shoal_cmd_version(int argc, char **argv);

/** A verb of verbs (`shoal data synth`): runs the one argv[1] names, or prints them for -h.
 *  ERR_USAGE names the nearest known one. */
shoal_status shoal_run_verb(const char *program, const shoal_verb *verbs, int argc, char **argv);
#endif
