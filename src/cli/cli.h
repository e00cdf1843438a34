/* The verbs of the program.  main.c lists them; a file has one verb, or several that belong together. */
#ifndef SHOAL_CLI_CLI_H
#define SHOAL_CLI_CLI_H
#include "base/error.h"
#include "config/args.h"

typedef struct {
  const char *name, *about;
  shoal_status (*run)(int argc, char **argv); /* argv[0] is the verb */
} shoal_verb;

shoal_status shoal_cmd_train(int argc, char **argv);
shoal_status shoal_cmd_launch(int argc, char **argv);
shoal_status shoal_cmd_data(int argc, char **argv);
shoal_status shoal_cmd_ckpt(int argc, char **argv);
shoal_status shoal_cmd_trace(int argc, char **argv);
shoal_status shoal_cmd_watch(int argc, char **argv);
shoal_status shoal_cmd_scale(int argc, char **argv);
shoal_status shoal_cmd_report(int argc, char **argv);
shoal_status shoal_cmd_topo(int argc, char **argv);
shoal_status shoal_cmd_bench(int argc, char **argv);
shoal_status shoal_cmd_methods(int argc, char **argv);
shoal_status shoal_cmd_models(int argc, char **argv);
shoal_status shoal_cmd_config(int argc, char **argv);
shoal_status shoal_cmd_version(int argc, char **argv);

/** Whether --json was given; then nothing but JSON goes to standard output, so messages below warnings are left out. */
bool shoal_json_wanted(const shoal_args *a);

/** Path of this program's own file; the caller frees. */
char *shoal_own_program(void);

/** Runs the verb of `verbs` named by argv[1] (`shoal data synth`), or lists them for -h.
 *  ERR_USAGE suggests the nearest known one. */
shoal_status shoal_run_verb(const char *program, const shoal_verb *verbs, int argc, char **argv);
#endif
