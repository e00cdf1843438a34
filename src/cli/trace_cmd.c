/* shoal trace: show, export. */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/texts.h"
#include "cli/cli.h"
#include "report/trace.h"
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- which files, which attempt ---- */

/* A folder of runs, or one without traces. */
static shoal_status refuse_folder(const char *run, const char *dir)
{
  enum { SHOWN = 8 };
  shoal_texts runs = { 0 };
  shoal_str list = { 0 };
  char word[SHOAL_WORD];
  DIR *d = opendir(run);
  for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
    char *path = shoal_path_join(run, e->d_name), *trace = shoal_path_join(path, "trace");
    if (e->d_name[0] != '.' && shoal_path_exists(trace) && shoal_texts_add(&runs, path) != SHOAL_OK) break;
    free(trace);
    free(path);
  }
  if (d) closedir(d);
  shoal_texts_sort(&runs, 0);
  for (size_t i = 0; i < runs.n && i < SHOWN; i++)
    shoal_str_add(&list, "%s%s", i ? ", " : "", shoal_shell_word(runs.at[i], word));
  shoal_status st = runs.n
                        ? SHOAL_FAIL(SHOAL_ERR_IO, "%s is no run but a folder of runs: give one of %s%s", run,
                                     list.text, runs.n > SHOWN ? ", ..." : "")
                        : SHOAL_FAIL(SHOAL_ERR_IO, "%s holds no trace files (attempt-*.h5); was trace.level off?", dir);
  shoal_str_free(&list);
  shoal_texts_free(&runs);
  return st;
}

/* The trace files of a run folder. */
static shoal_status files_of(const char *run, shoal_texts *files)
{
  char *dir = shoal_path_join(run, "trace");
  DIR *d = opendir(dir);
  shoal_status st = !d && errno == EACCES ? shoal_io_fault("look into", dir, errno) : SHOAL_OK;
  for (struct dirent *e; d && st == SHOAL_OK && (e = readdir(d));)
    if (fnmatch("attempt-*-node-*.h5", e->d_name, 0) == 0 || fnmatch("rank-*.h5", e->d_name, 0) == 0)
      st = shoal_texts_take(files, shoal_path_join(dir, e->d_name));
  if (d) closedir(d);
  shoal_texts_sort(files, 0);
  if (st == SHOAL_OK && !files->n) st = refuse_folder(run, dir);
  free(dir);
  return st;
}

/* The files that the arguments name: those of one run folder, or the arguments themselves. */
typedef struct {
  shoal_args *args;
  const char *const *paths;
  size_t n;
  int attempt;
  bool several;      /* the arguments are folders of several runs */
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

/* @param many         several runs may be given
   @param[out] helped  help was printed, nothing more to do */
static shoal_status parse_request(const shoal_verb_help *help, int argc, char **argv, bool many, request *r,
                                  bool *helped)
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
  size_t folders = 0;
  for (size_t i = 0; i < r->n && !r->owned.n; i++) folders += stat(r->paths[i], &s) == 0 && S_ISDIR(s.st_mode);
  r->several = folders > 0;
  if (st == SHOAL_OK && folders > 0 && (folders < r->n || !many))
    st = SHOAL_FAIL(SHOAL_ERR_USAGE, "%s: give %s, or trace files of one run",
                    folders < r->n ? "folders and files" : "several folders", many ? "run folders" : "one run folder");
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
  "shoal trace show RUN...|FILE... [--attempt N|all] [--steps|--json]",
  "Where the time of a run went, per rank and in total: forward, backward, optimizer, input, waits, checkpoints; how\n"
  "long exchanges were in flight, and how much of that overlapped with compute; bytes per step and link class; "
  "clocks;\n"
  "efficiencies, who begins exchanges last, and what to try. RUN is a run folder, several are shown beside each "
  "other;\n"
  "FILEs are trace files of one run. docs/trace-format.md and docs/efficiency.md define every number.",
  show_flags,
  1,
  -1,
  "  shoal trace show runs/digits\n  shoal trace show runs/digits --attempt 1 --json\n"
  "  shoal trace show runs/digits-2 runs/digits-4\n",
};

/* The files of each folder. */
static shoal_status compare(const request *r, bool json)
{
  shoal_trace_source *runs;
  shoal_texts *files = NULL;
  SHOAL_TRY(SHOAL_ALLOC(r->n, &runs));
  shoal_status st = SHOAL_ALLOC(r->n, &files);
  for (size_t i = 0; i < r->n && st == SHOAL_OK; i++) {
    st = files_of(r->paths[i], &files[i]);
    runs[i] = (shoal_trace_source){ r->paths[i], (const char *const *)files[i].at, files[i].n };
  }
  if (st == SHOAL_OK) st = shoal_trace_compare(runs, r->n, r->attempt, json, stdout);
  for (size_t i = 0; files && i < r->n; i++) shoal_texts_free(&files[i]);
  free(files);
  free(runs);
  return st;
}

static shoal_status show_one(const request *r, bool json, bool steps)
{
  return shoal_trace_show(r->paths, r->n, r->attempt,
                          json    ? SHOAL_TRACE_JSON
                          : steps ? SHOAL_TRACE_STEPS
                                  : SHOAL_TRACE_TEXT,
                          stdout);
}

static shoal_status show(int argc, char **argv)
{
  bool helped;
  request r;
  SHOAL_TRY(parse_request(&show_help, argc, argv, true, &r, &helped));
  if (helped) return SHOAL_OK;
  bool json = shoal_json_wanted(r.args), steps = shoal_args_on(r.args, "--steps");
  shoal_status st = SHOAL_OK;
  if (json && steps)
    st = SHOAL_FAIL(SHOAL_ERR_USAGE, "--json and --steps exclude each other: give one of them");
  else if (r.several && steps)
    st = SHOAL_FAIL(SHOAL_ERR_USAGE, "--steps is of one run: give one of the %zu folders", r.n);
  else
    st = r.several ? compare(&r, json) : show_one(&r, json, steps);
  free_request(&r);
  return st;
}

/* ---- export ---- */

static const shoal_flag export_flags[] = {
  { "-o", NULL, "FILE", SHOAL_FLAG_VALUE, "write to FILE instead of standard output" },
  { "--format", NULL, "json|perfetto", SHOAL_FLAG_VALUE,
    "instead of what the name of FILE says: perfetto with .pftrace or .perfetto-trace at its end, else json" },
  { "--steps", NULL, "A:B", SHOAL_FLAG_VALUE, "only the spans of steps A to B" },
  { "--from", NULL, "SECONDS", SHOAL_FLAG_VALUE, "only what lasts beyond this time; the first span begins at 0" },
  { "--to", NULL, "SECONDS", SHOAL_FLAG_VALUE, "only what begins before this time" },
  { "--attempt", NULL, "N|all", SHOAL_FLAG_VALUE,
    "this attempt instead of the last one that made a step; all: all of them" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
static const shoal_verb_help export_help = {
  "shoal trace export RUN|FILE... [-o FILE] [--format json|perfetto] [--steps A:B] [--from S] [--to S] [--attempt N]",
  "The spans of all ranks for https://ui.perfetto.dev, in its own format or as JSON, which Chrome's about:tracing\n"
  "opens, too: a process per rank, exchanges on separate tracks, flows between their parts, times on rank 0's clock,\n"
  "whose error bounds are in the processes' labels. JSON is three times as large: for more than some 100 MB take\n"
  "perfetto, or a window. With trace.level op all spans are exported, with step only steps, input, checkpoints and\n"
  "evaluations.",
  export_flags,
  1,
  -1,
  "  shoal trace export runs/digits -o digits.pftrace\n  shoal trace export runs/digits -o part.json --steps 100:120\n",
};

static bool ends_with(const char *text, const char *ending)
{
  size_t n = strlen(text), m = strlen(ending);
  return n >= m && strcmp(text + n - m, ending) == 0;
}

static shoal_status parse_format(const shoal_args *args, const char *path, shoal_trace_choice *out)
{
  const char *format = shoal_args_value(args, "--format");
  bool named = path && (ends_with(path, ".pftrace") || ends_with(path, ".perfetto-trace"));
  SHOAL_CHECK(!format || strcmp(format, "json") == 0 || strcmp(format, "perfetto") == 0, SHOAL_ERR_USAGE,
              "--format %s: say json or perfetto", format);
  bool perfetto = format ? strcmp(format, "perfetto") == 0 : named;
  SHOAL_CHECK(!perfetto || path || !isatty(STDOUT_FILENO), SHOAL_ERR_USAGE,
              "--format perfetto is binary, not for a terminal: name a file with -o");
  out->program = perfetto ? SHOAL_TRACE_PERFETTO : SHOAL_TRACE_CHROME;
  return SHOAL_OK;
}

/* "100:120" */
static shoal_status parse_steps(const char *text, shoal_trace_choice *out)
{
  if (!text) return SHOAL_OK;
  const char *colon = strchr(text, ':');
  char first[24] = "";
  int64_t a = -1, b = -1;
  if (colon && colon - text < (ptrdiff_t)sizeof first) snprintf(first, sizeof first, "%.*s", (int)(colon - text), text);
  bool good = colon && shoal_parse_i64(first, &a) == SHOAL_OK && shoal_parse_i64(colon + 1, &b) == SHOAL_OK;
  SHOAL_CHECK(good && a >= 0 && b >= a, SHOAL_ERR_USAGE, "--steps %s: say the first and the last step, as 100:120",
              text);
  out->by_step = true;
  out->first_step = (uint64_t)a;
  out->last_step = (uint64_t)b;
  return SHOAL_OK;
}

static shoal_status parse_seconds(const char *flag, const char *text, double *out)
{
  SHOAL_CHECK(shoal_parse_f64(text, out) == SHOAL_OK && *out >= 0, SHOAL_ERR_USAGE,
              "%s %s: say seconds since the begin of the first span, as 12.5", flag, text);
  return SHOAL_OK;
}

static shoal_status parse_times(const shoal_args *args, shoal_trace_choice *out)
{
  const char *from = shoal_args_value(args, "--from"), *to = shoal_args_value(args, "--to");
  out->by_time = from || to;
  out->to_s = HUGE_VAL;
  if (from) SHOAL_TRY(parse_seconds("--from", from, &out->from_s));
  if (to) SHOAL_TRY(parse_seconds("--to", to, &out->to_s));
  SHOAL_CHECK(out->from_s <= out->to_s, SHOAL_ERR_USAGE, "--from %s is after --to %s: exchange them", from, to);
  return SHOAL_OK;
}

static void tell_size(uint64_t spans, double bytes)
{
  char size[32];
  fprintf(stderr, "%llu spans, about %s\n", (unsigned long long)spans, shoal_format_bytes(bytes, size, sizeof size));
}

/* Whole or absent: written under a temporary name, then renamed. */
static shoal_status export_to_file(const request *r, const shoal_trace_choice *choice, const char *path)
{
  int fd = -1;
  char *tmp = shoal_temporary_name(path);
  shoal_status st = shoal_open_new(tmp, path, &fd);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  if (st == SHOAL_OK)
    st = f ? shoal_trace_export(r->paths, r->n, r->attempt, choice, f)
           : SHOAL_FAIL(SHOAL_ERR_MEM, "out of memory for writing %s", path);
  bool written = f && !ferror(f);
  if (f && fclose(f) != 0) written = false;
  if (st == SHOAL_OK && !written) st = shoal_io_fault("write", path, errno);
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
  SHOAL_TRY(parse_request(&export_help, argc, argv, false, &r, &helped));
  if (helped) return SHOAL_OK;
  const char *path = shoal_args_value(r.args, "-o");
  shoal_trace_choice choice = { .tell = path ? tell_size : NULL };
  shoal_status st = parse_format(r.args, path, &choice);
  if (st == SHOAL_OK) st = parse_steps(shoal_args_value(r.args, "--steps"), &choice);
  if (st == SHOAL_OK) st = parse_times(r.args, &choice);
  if (st == SHOAL_OK)
    st = path ? export_to_file(&r, &choice, path) : shoal_trace_export(r.paths, r.n, r.attempt, &choice, stdout);
  free_request(&r);
  return st;
}

const shoal_verb shoal_trace_verbs[] = {
  { "show", "where the time of a run went", show, &show_help },
  { "export", "spans for Perfetto and Chrome", export, &export_help },
  { NULL },
};
