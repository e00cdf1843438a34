/* Environment variables of this process, or those a user saved with `env >file` inside a Slurm step so that the
 * placement can be planned on another machine.  The same two functions look up both. */
#include "base/env.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct shoal_env {
  char *text;   /* contents of the file, split into NUL-terminated lines */
  char **lines; /* [n] those that are assignments, "NAME=VALUE" */
  size_t n;
};

/* Whether the line begins with a shell variable name and '='.  Exported functions ("BASH_FUNC_x%%=() {") do not, nor do
 * most continuation lines of multi-line values. */
static bool is_assignment(const char *line)
{
  if (!isalpha((unsigned char)*line) && *line != '_') return false;
  while (isalnum((unsigned char)*line) || *line == '_') line++;
  return *line == '=';
}

shoal_status shoal_env_read(const char *path, shoal_env **out)
{
  shoal_status st;
  size_t bytes = 0, lines = 1;
  shoal_env *e = calloc(1, sizeof *e);
  SHOAL_CHECK(e, SHOAL_ERR_MEM, "the variables of %s", path);
  SHOAL_TRY_GOTO(st, shoal_read_file(path, &e->text, &bytes), fail);
  for (size_t i = 0; i < bytes; i++) lines += e->text[i] == '\n';
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(lines, &e->lines), fail);
  char *rest = e->text;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
    line[strcspn(line, "\r")] = '\0';
    if (is_assignment(line)) e->lines[e->n++] = line;
  }
  SHOAL_CHECK_GOTO(st, e->n > 0, fail, SHOAL_ERR_USAGE,
                   "%s has no line NAME=VALUE: write it with `env` inside a Slurm step", path);
  *out = e;
  return SHOAL_OK;
fail:
  shoal_env_destroy(e);
  return st;
}

void shoal_env_destroy(shoal_env *e)
{
  if (!e) return;
  free(e->lines);
  free(e->text);
  free(e);
}

const char *shoal_env_get(const shoal_env *e, const char *name)
{
  const char *value = e ? NULL : getenv(name);
  size_t n = strlen(name);
  for (size_t i = 0; e && i < e->n; i++)
    if (strncmp(e->lines[i], name, n) == 0 && e->lines[i][n] == '=') value = e->lines[i] + n + 1;
  return value && *value ? value : NULL;
}

int shoal_env_int(const shoal_env *e, const char *name, int least)
{
  int64_t value;
  const char *text = shoal_env_get(e, name);
  bool number = text && shoal_parse_i64(text, &value) == SHOAL_OK && value >= least && value <= INT32_MAX;
  return number ? (int)value : -1;
}
