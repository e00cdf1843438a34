/* The list of verbs, and what several of them use. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const shoal_verb shoal_verbs[] = {
  { "launch", "start a run: its ranks by srun or mpirun, one as a plain process", shoal_cmd_launch,
    &shoal_launch_help },
  { "train", "train a network: one rank under srun or mpirun, or alone", shoal_cmd_train, &shoal_train_help },
  { "submit", "hand a run, or an array of them, to Slurm", shoal_cmd_submit, &shoal_submit_help },
  { "status", "how all runs below a folder go", shoal_cmd_status, &shoal_status_help },
  { "data", "make, import, inspect and repack HDF5 data sets", .verbs = shoal_data_verbs },
  { "ckpt", "list, show, verify, compare and prune checkpoints", .verbs = shoal_ckpt_verbs },
  { "predict", "what a trained network says about samples", shoal_cmd_predict, &shoal_predict_help },
  { "trace", "show and export timing traces", .verbs = shoal_trace_verbs },
  { "watch", "a page in the terminal that shows how a run goes", shoal_cmd_watch, &shoal_watch_help },
  { "scale", "a scaling study: run files, runs, a table", shoal_cmd_scale, &shoal_scale_help },
  { "report", "runs as one HTML page with figures", shoal_cmd_report, &shoal_report_help },
  { "topo", "show the node and the placement of a run", shoal_cmd_topo, &shoal_topo_help },
  { "doctor", "check a cluster, or this machine", shoal_cmd_doctor, &shoal_doctor_help },
  { "bench", "measure this machine against its limits", .verbs = shoal_bench_verbs },
  { "methods", "the training methods, their options and sources", shoal_cmd_methods, &shoal_methods_help },
  { "model", "import a network from another program", .verbs = shoal_model_verbs },
  { "models", "the networks, their options and sizes", shoal_cmd_models, &shoal_models_help },
  { "config", "every option of a run file: type, default, range", shoal_cmd_config, &shoal_config_help },
  { "completion", "what bash or zsh reads to complete command lines of shoal", shoal_cmd_completion,
    &shoal_completion_help },
  { "manual", "write the manual pages", shoal_cmd_manual, &shoal_manual_help },
  { NULL },
};

static void print_verbs(const char *program, const shoal_verb *list)
{
  printf("usage: %s VERB [arguments]\n\n", program);
  for (const shoal_verb *v = list; v->name; v++) printf("  %-10s %s\n", v->name, v->about);
  printf("\n%s VERB -h explains a verb%s.\n", program,
         strcmp(program, "shoal") == 0 ? "; shoal --version [--verbose] prints versions" : "");
}

/* A verb of a verb, "data import" for "import"; for something that lies there the verb that shows such things; else a verb that is
 * written nearly so; "" if there is none. */
static void suggest(const shoal_verb *list, const char *word, char *out, size_t cap)
{
  const char *names[32];
  size_t n = 0;
  const shoal_verb *shows = list;
  out[0] = '\0';
  for (const shoal_verb *v = list; v->name && n < SHOAL_COUNT(names); v++) {
    names[n++] = v->name;
    if (strcmp(v->name, "show") == 0 || strcmp(v->name, "inspect") == 0) shows = v;
    for (const shoal_verb *w = v->verbs; w && w->name && !out[0]; w++)
      if (strcmp(w->name, word) == 0) snprintf(out, cap, "%s %s", v->name, word);
  }
  if (!out[0] && list != shoal_verbs && shoal_path_exists(word)) snprintf(out, cap, "%s %s", shows->name, word);
  const char *near = shoal_nearest(word, names, n);
  if (!out[0] && near) snprintf(out, cap, "%s", near);
}

shoal_status shoal_run_verb(const char *program, const shoal_verb *list, int argc, char **argv)
{
  if (argc < 2) {
    print_verbs(program, list);
    return shoal_error_told(SHOAL_FAIL(SHOAL_ERR_USAGE, "%s needs a verb", program));
  }
  if (strcmp(argv[1], "help") == 0) { /* "help VERB" is "VERB -h" */
    memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
    argv[argc - 1] = "-h";
  }
  if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0) {
    print_verbs(program, list);
    return SHOAL_OK;
  }
  for (const shoal_verb *v = list; v->name; v++) {
    if (strcmp(argv[1], v->name) != 0) continue;
    if (!v->verbs) return v->run(argc - 1, argv + 1);
    char inner[64];
    snprintf(inner, sizeof inner, "%s %s", program, v->name);
    return shoal_run_verb(inner, v->verbs, argc - 1, argv + 1);
  }
  if (list == shoal_verbs && strcmp(argv[1], "version") == 0)
    return SHOAL_FAIL(SHOAL_ERR_USAGE, "%s has no verb \"%s\"; %s --version prints it", program, argv[1], program);
  char near[512];
  suggest(list, argv[1], near, sizeof near);
  return SHOAL_FAIL(SHOAL_ERR_USAGE, "%s has no verb \"%s\"%s%s%s%s; %s -h lists them", program, argv[1],
                    near[0] ? ", did you mean " : "", near[0] ? program : "", near[0] ? " " : "", near, program);
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
