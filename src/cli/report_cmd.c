/* shoal report: the HTML page of runs, made by the Python package shoal_analysis.
 *
 * This file finds the package, checks the arguments and becomes Python; everything else is in analysis/, and Python's exit code is
 * that of the verb.  The package lies at a fixed place beside this program, so that a build folder or an installation can be moved:
 *
 *     PREFIX/bin/shoal            PREFIX/share/shoal/analysis/report.py       installed, by SHOAL_ANALYSIS_INSTALLED
 *     BUILD/src/cli/shoal         BUILD/analysis -> SOURCE/analysis                built, a link that CMake makes */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const shoal_flag flags[] = {
  { "-o", NULL, "FILE", SHOAL_FLAG_VALUE, "write to FILE instead of RUN/report.html, or report.html for several runs" },
  { "--figures", NULL, "FOLDER", SHOAL_FLAG_VALUE, "also every figure as SVG and PDF, and its numbers as CSV" },
  { "--target", NULL, "X", SHOAL_FLAG_VALUE,
    "what runs are compared by: accuracy (such as 0.9), of predicted numbers rmse, of text perplexity, without test "
    "data loss; else the best that three quarters reached" },
  { "--attempt", NULL, "N", SHOAL_FLAG_VALUE, "traces of this attempt instead of the last one that made a step" },
  { "--steps", NULL, "A:B", SHOAL_FLAG_VALUE, "steps in the timelines; else as many as fit into a page" },
  { "--title", NULL, "TEXT", SHOAL_FLAG_VALUE, "of the page" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
const shoal_verb_help shoal_report_help = {
  "shoal report RUN... [-o FILE] [--figures FOLDER] [--target X] [--attempt N] [--steps A:B] [--title TEXT]",
  "Runs as one HTML file that needs nothing else: training curves, where time and bytes went, a timeline, methods\n"
  "compared, scaling with fits, cost; every figure with its numbers. RUN is a run folder. Needs Python 3.10 with "
  "h5py,\n"
  "numpy, pandas and matplotlib; SHOAL_PYTHON names the interpreter, else python3 is taken.",
  flags,
  1,
  -1,
  "  shoal report runs/digits\n  shoal report runs/sync-* runs/daso-* -o study.html --figures figures --target 0.9\n",
};

/* analysis/report.py, beside which the package lies; the caller frees. */
static shoal_status find_script(const char *program, char **out)
{
  static const char *const places[] = { SHOAL_ANALYSIS_INSTALLED, "../../analysis" };
  char *copy = shoal_strdup_printf("%s", program);
  const char *folder = dirname(copy);
  *out = NULL;
  for (size_t i = 0; i < SHOAL_COUNT(places) && !*out; i++) {
    char *place = shoal_path_join(folder, places[i]);
    *out = shoal_path_join(place, "report.py");
    free(place);
    if (shoal_path_exists(*out)) continue;
    free(*out);
    *out = NULL;
  }
  shoal_status st =
      *out ? SHOAL_OK
           : SHOAL_FAIL(SHOAL_ERR_UNSUPPORTED,
                        "the Python package shoal_analysis is not in %s/%s; install Shoal with cmake --install, "
                        "which puts it there",
                        folder, places[0]);
  free(copy);
  return st;
}

/* Returns only if there is no Python. */
static shoal_status become_python(const shoal_args *a, const char *program, const char *script)
{
  const char *const *runs, *chosen = getenv("SHOAL_PYTHON"), **argv;
  const char *python = chosen && *chosen ? chosen : "python3";
  size_t n = shoal_args_words(a, &runs), at = 0;
  SHOAL_TRY(SHOAL_ALLOC(n + 2 * SHOAL_COUNT(flags) + 8, &argv));
  /* -B: no byte code beside the package, which may be the source tree or somebody else's */
  const char *const first[] = { python, "-B", script, "--program", program };
  for (size_t i = 0; i < SHOAL_COUNT(first); i++) argv[at++] = first[i];
  for (const shoal_flag *f = flags; f->name; f++) {
    const char *value = shoal_args_value(a, f->name);
    if (!value) continue;
    argv[at++] = f->name;
    argv[at++] = value;
  }
  argv[at++] = "--";
  for (size_t i = 0; i < n; i++) argv[at++] = runs[i];
  execvp(python, (char *const *)argv);
  int error = errno;
  free(argv);
  return SHOAL_FAIL(
      SHOAL_ERR_UNSUPPORTED,
      "the report needs Python, but %s cannot be started: %s; apt install python3 python3-h5py python3-pandas "
      "python3-matplotlib installs it, and SHOAL_PYTHON names another interpreter",
      python, strerror(error));
}

shoal_status shoal_cmd_report(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  char *script = NULL;
  SHOAL_TRY(shoal_args_parse(&shoal_report_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  char *program = shoal_own_program();
  shoal_status st = find_script(program, &script);
  if (st == SHOAL_OK) st = become_python(a, program, script);
  free(program);
  free(script);
  shoal_args_destroy(a);
  return st;
}
