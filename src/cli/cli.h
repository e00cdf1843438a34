/* The verbs of the program.  verbs.c lists them; a file has one verb, or several that belong together. */
#ifndef SHOAL_CLI_CLI_H
#define SHOAL_CLI_CLI_H
#include "base/error.h"
#include "config/args.h"

typedef struct shoal_verb {
  const char *name, *about;
  shoal_status (*run)(int argc, char **argv); /* argv[0] is the verb */
  const shoal_verb_help *help;                /* what `run` parses its arguments by */
  const struct shoal_verb *verbs;             /* or verbs of its own (`shoal data synth`); then neither run nor help */
} shoal_verb;                                 /* a list ends with name == NULL */

extern const shoal_verb shoal_verbs[]; /* all; the program, the manual pages and the completions have this list only */

shoal_status shoal_cmd_train(int argc, char **argv);
shoal_status shoal_cmd_launch(int argc, char **argv);
shoal_status shoal_cmd_submit(int argc, char **argv);
shoal_status shoal_cmd_status(int argc, char **argv);
shoal_status shoal_cmd_watch(int argc, char **argv);
shoal_status shoal_cmd_scale(int argc, char **argv);
shoal_status shoal_cmd_report(int argc, char **argv);
shoal_status shoal_cmd_topo(int argc, char **argv);
shoal_status shoal_cmd_doctor(int argc, char **argv);
shoal_status shoal_cmd_predict(int argc, char **argv);
shoal_status shoal_cmd_methods(int argc, char **argv);
shoal_status shoal_cmd_models(int argc, char **argv);
shoal_status shoal_cmd_config(int argc, char **argv);
shoal_status shoal_cmd_completion(int argc, char **argv);
shoal_status shoal_cmd_manual(int argc, char **argv);
shoal_status shoal_cmd_version(int argc, char **argv);
extern const shoal_verb_help shoal_train_help, shoal_predict_help, shoal_launch_help, shoal_submit_help,
    shoal_status_help, shoal_watch_help, shoal_scale_help, shoal_report_help, shoal_topo_help, shoal_doctor_help,
    shoal_methods_help, shoal_models_help, shoal_config_help, shoal_completion_help, shoal_manual_help,
    shoal_version_help;
extern const shoal_verb shoal_data_verbs[], shoal_ckpt_verbs[], shoal_trace_verbs[], shoal_bench_verbs[],
    shoal_model_verbs[];

const char *shoal_model_name(size_t i); /* NULL after the last one */

/** Whether --json was given; then nothing but JSON goes to standard output, so messages below warnings are left out. */
bool shoal_json_wanted(const shoal_args *a);

/** Path of this program's own file; the caller frees. */
char *shoal_own_program(void);
/** In a bundle, an archive with all libraries (docs/install.md): has Open MPI and PMIx find their parts there, in this process and in
 *  those that it starts.  Elsewhere does nothing.  Called once, before all else. */
void shoal_use_bundle(void);
const char *shoal_bundle(void); /* its folder; NULL: this program is in none */

/** Runs the verb of `verbs` named by argv[1] (`shoal data synth`), or lists them for -h.
 *  ERR_USAGE suggests the nearest known one. */
shoal_status shoal_run_verb(const char *program, const shoal_verb *verbs, int argc, char **argv);
#endif
