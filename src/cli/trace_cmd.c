/* shoal trace: show. */
#include "base/file.h"
#include "base/str.h"
#include "cli/cli.h"
#include "trace/trace.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const shoal_flag flags[] = {
  { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "for scripts" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
static const shoal_verb_help help = {
  "shoal trace show RUN|FILE... [--json]",
  "Where the time of a step went, per rank and for the run: forward, backward, exposed exchange, input, checkpoint,\n"
  "other; and the bytes per link class. RUN is a run folder; FILEs are its trace files.",
  flags,
  1,
  -1,
  "  shoal trace show runs/digits\n",
};

static int by_name(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The trace files of a run folder, in rank order. */
static shoal_status files_of(const char *run, char ***out, size_t *n_out)
{
  char *dir = shoal_path_join(run, "trace");
  DIR *d = opendir(dir);
  char **files = NULL;
  size_t n = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    size_t len = strlen(e->d_name);
    if (strncmp(e->d_name, "rank-", 5) != 0 || len < 3 || strcmp(e->d_name + len - 3, ".h5") != 0) continue;
    char **more = realloc(files, (n + 1) * sizeof *files);
    if (!more) break;
    files = more;
    files[n++] = shoal_path_join(dir, e->d_name);
  }
  if (d) closedir(d);
  if (n) qsort(files, n, sizeof *files, by_name);
  shoal_status st =
      n ? SHOAL_OK : SHOAL_FAIL(SHOAL_ERR_IO, "%s holds no trace files (rank-*.h5); was trace.level off?", dir);
  free(dir);
  *out = files;
  *n_out = n;
  return st;
}

static shoal_status show(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words;
  size_t n = shoal_args_words(a, &words), n_files = 0;
  char **files = NULL;
  struct stat s;
  bool folder = n == 1 && stat(words[0], &s) == 0 && S_ISDIR(s.st_mode);
  shoal_status st = folder ? files_of(words[0], &files, &n_files) : SHOAL_OK;
  if (st == SHOAL_OK)
    st = shoal_trace_show(folder ? (const char *const *)files : words, folder ? n_files : n, shoal_args_on(a, "--json"),
                          stdout);
  for (size_t i = 0; i < n_files; i++) free(files[i]);
  free(files);
  shoal_args_destroy(a);
  return st;
}

shoal_status shoal_cmd_trace(int argc, char **argv)
{
  static const shoal_verb verbs[] = {
    { "show", "where the time of a step went", show },
    { NULL, NULL, NULL },
  };
  return shoal_run_verb("shoal trace", verbs, argc, argv);
}
