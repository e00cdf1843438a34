/* Paths as people write them: "~/data.h5", "$SCRATCH/runs".
 *
 * A shell expands these in its own words only, not in run files, in SHOAL_ variables or behind "--set x=".  So every path
 * option and every flag that takes a file is expanded here, alike.  Nothing else of a shell happens: no commands, no
 * patterns.  "$$" is a dollar sign. */
#include "base/str.h"
#include "config/option.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static shoal_status add_variable(const char **at, shoal_str *out)
{
  const char *from = *at + 1;
  bool braces = *from == '{';
  from += braces;
  size_t n = 0;
  while (isalnum((unsigned char)from[n]) || from[n] == '_') n++;
  SHOAL_CHECK(!braces || from[n] == '}', SHOAL_ERR_USAGE, "\"%s\" is not a variable: write ${NAME}", *at);
  char *name = shoal_strdup_printf("%.*s", (int)n, from);
  const char *value = getenv(name);
  shoal_status st =
      value && *value
          ? SHOAL_OK
          : SHOAL_FAIL(SHOAL_ERR_USAGE, "$%s is not set here: set it, or write the path (a dollar sign is $$)", name);
  free(name);
  if (st == SHOAL_OK) shoal_str_add(out, "%s", value);
  *at = from + n + braces;
  return st;
}

static shoal_status expand(const char *at, shoal_str *out)
{
  if (*at == '~') {
    const char *home = getenv("HOME");
    SHOAL_CHECK(!at[1] || at[1] == '/', SHOAL_ERR_USAGE, "\"%s\": only ~/ is expanded, write the path", at);
    SHOAL_CHECK(home && *home, SHOAL_ERR_USAGE, "\"%s\": HOME is not set, write the path", at);
    shoal_str_add(out, "%s", home);
    at++;
  }
  while (*at) {
    size_t n = strcspn(at, "$");
    shoal_str_add(out, "%.*s", (int)n, at);
    at += n;
    if (at[0] == '$' && (isalpha((unsigned char)at[1]) || at[1] == '_' || at[1] == '{')) {
      SHOAL_TRY(add_variable(&at, out));
    } else if (at[0]) {
      shoal_str_add(out, "$");
      at += at[1] == '$' ? 2 : 1;
    }
  }
  return SHOAL_OK;
}

shoal_status shoal_path_expand(const char *text, char **out)
{
  shoal_str s = { 0 };
  shoal_status st = expand(text, &s);
  if (st == SHOAL_OK) *out = shoal_strdup_printf("%s", s.text ? s.text : "");
  shoal_str_free(&s);
  return st;
}
