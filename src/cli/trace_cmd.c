/* shoal trace: show, export. */
#include "base/file.h"
#include "base/str.h"
#include "base/texts.h"
#include "cli/cli.h"
#include "report/trace.h"
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- which files, which attempt ---- */

/* The trace files of a run folder. */
static shoal_status files_of(const char *run, shoal_texts *files)
{
  char *dir = shoal_path_join(run, "trace");
  DIR *d = opendir(dir);
  shoal_status st = SHOAL_OK;
  for (struct dirent *e; d && st == SHOAL_OK && (e = readdir(d));)
    if (fnmatch("attempt-*-node-*.h5", e->d_name, 0) == 0 || fnmatch("rank-*.h5", e->d_name, 0) == 0)
      st = shoal_texts_take(files, shoal_path_join(dir, e->d_name));
  if (d) closedir(d);
  shoal_texts_sort(files, 0);
  if (st == SHOAL_OK && !files->n)
    st = SHOAL_FAIL(SHOAL_ERR_IO, "%s holds no trace files (attempt-*.h5); was trace.level off?", dir);
  free(dir);
  return st;
}

/* The files that the arguments name: those of one run folder, or the arguments themselves. */
typedef struct {
  shoal_args *args;
  const char *const *paths;
  size_t n;
  int attempt;
  shoal_texts owned; /* the files of a run folder; empty if the arguments are the paths */
} request;

static void free_request(request *r)
{
  shoal_texts_free(&r->owned);
  shoal_args_destroy(r->args);
}

static shoal_status parse_attempt(const char *text, int *out)
{
  int64_t n;
  *out = SHOAL_TRACE_LAST;
  if (!text) return SHOAL_OK;
  *out = SHOAL_TRACE_ALL;
  if (strcmp(text, "all") == 0) return SHOAL_OK;
  SHOAL_CHECK(shoal_parse_i64(text, &n) == SHOAL_OK && n >= 0 && n <= INT32_MAX, SHOAL_ERR_USAGE,
              "--attempt %s: give the number of an attempt, or all", text);
  *out = (int)n;
  return SHOAL_OK;
}

/* @param[out] helped  help was printed, nothing more to do */
static shoal_status parse_request(const shoal_verb_help *help, int argc, char **argv, request *r, bool *helped)
{
  *r = (request){ .n = 0 };
  SHOAL_TRY(shoal_args_parse(help, argc, argv, helped, &r->args));
  if (*helped) return SHOAL_OK;
  r->n = shoal_args_words(r->args, &r->paths);
  struct stat s;
  shoal_status st = parse_attempt(shoal_args_value(r->args, "--attempt"), &r->attempt);
  if (st == SHOAL_OK && r->n == 1 && stat(r->paths[0], &s) == 0 && S_ISDIR(s.st_mode)) {
    st = files_of(r->paths[0], &r->owned);
    r->paths = (const char *const *)r->owned.at;
    r->n = r->owned.n;
  }
  for (size_t i = 0; st == SHOAL_OK && r->n > 1 && !r->owned.n && i < r->n; i++)
    if (stat(r->paths[i], &s) == 0 && S_ISDIR(s.st_mode))
      st = SHOAL_FAIL(SHOAL_ERR_USAGE, "%s is a folder: give one run folder, or trace files of one run", r->paths[i]);
  if (st != SHOAL_OK) free_request(r);
  return st;
}

/* ---- show ---- */

static const shoal_flag show_flags[] = {
  { "--attempt", NULL, "N|all", SHOAL_FLAG_VALUE,
    "this attempt instead of the last one that made a step; all: all together" },
  { "--steps", NULL, NULL, SHOAL_FLAG_SWITCH, "a CSV line per rank and step instead of tables, times in ns" },
  { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "for scripts" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
static const shoal_verb_help show_help = {
  "shoal trace show RUN|FILE... [--attempt N|all] [--steps|--json]",
  "Where the time of a run went, per rank and in total: forward, backward, optimizer, input, waits, checkpoints; how\n"
  "long exchanges were in flight, and how much of that overlapped with compute; bytes per step and link class;\n"
  "clocks. RUN is a run folder; FILEs are its trace files. docs/trace-format.md defines every number.",
  show_flags,
  1,
  -1,
  "  shoal trace show runs/digits\n  shoal trace show runs/digits --attempt 1 --json\n",
};

static shoal_status show(int argc, char **argv)
{
  bool helped;
  request r;
  SHOAL_TRY(parse_request(&show_help, argc, argv, &r, &helped));
  if (helped) return SHOAL_OK;
  bool json = shoal_json_wanted(r.args), steps = shoal_args_on(r.args, "--steps");
  shoal_status st = json && steps
                        ? SHOAL_FAIL(SHOAL_ERR_USAGE, "--json and --steps exclude each other: give one of them")
                        : shoal_trace_show(r.paths, r.n, r.attempt,
                                           json    ? SHOAL_TRACE_JSON
                                           : steps ? SHOAL_TRACE_STEPS
                                                   : SHOAL_TRACE_TEXT,
                                           stdout);
  free_request(&r);
  return st;
}

/* ---- export ---- */

static const shoal_flag export_flags[] = {
  { "-o", NULL, "FILE", SHOAL_FLAG_VALUE, "write to FILE instead of standard output" },
  { "--attempt", NULL, "N|all", SHOAL_FLAG_VALUE,
    "this attempt instead of the last one that made a step; all: all of them" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
static const shoal_verb_help export_help = {
  "shoal trace export RUN|FILE... [-o FILE] [--attempt N|all]",
  "The spans of all ranks as JSON for Chrome's about:tracing or https://ui.perfetto.dev: a process per rank,\n"
  "exchanges on separate tracks, times on rank 0's clock. The error bound of each clock is in the process's label\n"
  "and in the file's otherData. With trace.level op all spans are exported, with step only steps, input, checkpoints\n"
  "and evaluations.",
  export_flags,
  1,
  -1,
  "  shoal trace export runs/digits -o digits.json\n",
};

/* Whole or absent: written under a temporary name, then renamed. */
static shoal_status export_to_file(const request *r, const char *path)
{
  int fd = -1;
  char *tmp = shoal_temporary_name(path);
  shoal_status st = shoal_open_new(tmp, path, &fd);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  if (st == SHOAL_OK)
    st = f ? shoal_trace_export(r->paths, r->n, r->attempt, f)
           : SHOAL_FAIL(SHOAL_ERR_MEM, "out of memory for writing %s", path);
  bool written = f && !ferror(f);
  if (f && fclose(f) != 0) written = false;
  if (st == SHOAL_OK && !written) st = SHOAL_FAIL(SHOAL_ERR_IO, "cannot write %s: %s", path, strerror(errno));
  if (st == SHOAL_OK) st = shoal_commit_file(tmp, path);
  if (st != SHOAL_OK && fd >= 0) unlink(tmp);
  if (!f && fd >= 0) close(fd);
  free(tmp);
  return st;
}

static shoal_status export(int argc, char **argv)
{
  bool helped;
  request r;
  SHOAL_TRY(parse_request(&export_help, argc, argv, &r, &helped));
  if (helped) return SHOAL_OK;
  const char *path = shoal_args_value(r.args, "-o");
  shoal_status st = path ? export_to_file(&r, path) : shoal_trace_export(r.paths, r.n, r.attempt, stdout);
  free_request(&r);
  return st;
}

shoal_status shoal_cmd_trace(int argc, char **argv)
{
  static const shoal_verb verbs[] = {
    { "show", "where the time of a run went", show },
    { "export", "spans as JSON, for Chrome and Perfetto", export },
    { NULL, NULL, NULL },
  };
  return shoal_run_verb("shoal trace", verbs, argc, argv);
}
