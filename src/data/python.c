/* Which Python a printed command should call.  None is started to find out: it may take seconds, or be somebody's own. */
#include "data/python.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char system_python[] = "/usr/bin/python3";

/* Of Debian and its kind, for Python's own name of a package. */
static const struct {
  const char *package, *install;
} known[] = { { "PIL", "apt install python3-pil" },       { "h5py", "apt install python3-h5py" },
              { "numpy", "apt install python3-numpy" },   { "openpyxl", "apt install python3-openpyxl" },
              { "pandas", "apt install python3-pandas" }, { "pyarrow", "pip install pyarrow" },
              { "scipy", "apt install python3-scipy" },   { "sklearn", "apt install python3-sklearn" },
              { "tables", "apt install python3-tables" }, { "torch", "pip install torch" } };

static bool in_system(const char *package)
{
  char *path = shoal_strdup_printf("/usr/lib/python3/dist-packages/%s", package);
  const bool there = shoal_path_exists(path);
  free(path);
  return there;
}

/* Whether the word python3 calls another program than the system's. */
static bool shadowed(void)
{
  const char *at = getenv("PATH");
  bool found = false, own = false;
  while (at && *at && !found) {
    const size_t n = strcspn(at, ":");
    char *program = shoal_strdup_printf("%.*s/python3", (int)n, at);
    found = access(program, X_OK) == 0;
    own = found && (strcmp(program, system_python) == 0 || strcmp(program, "/bin/python3") == 0);
    free(program);
    at += n + (at[n] == ':');
  }
  return !own;
}

void shoal_find_python(const char *const *packages, shoal_python *out)
{
  const char *chosen = getenv("SHOAL_PYTHON");
  size_t missing = 0;
  shoal_str needs = { 0 };
  *out = (shoal_python){ .needs = "" };
  for (; *packages; packages++) {
    if (in_system(*packages)) continue;
    shoal_str_add(&needs, "%s%s", missing++ ? ", " : "needs ", *packages);
    for (size_t i = 0; i < SHOAL_COUNT(known); i++)
      if (strcmp(known[i].package, *packages) == 0) shoal_str_add(&needs, " (%s)", known[i].install);
  }
  const bool stated = chosen && *chosen && shoal_is_plain(chosen);
  if (missing && !stated) snprintf(out->needs, sizeof out->needs, "%s", needs.text);
  snprintf(out->run, sizeof out->run, "%s", stated ? chosen : !missing && shadowed() ? system_python : "python3");
  shoal_str_free(&needs);
}

/* Bytes that are no UTF-8 are what Python makes of them in names of files. */
const char *shoal_python_text(const char *text, char buf[SHOAL_WORD])
{
  shoal_str s = { 0 };
  shoal_str_add(&s, "'");
  for (const char *c = text; *c;) {
    char one[2] = { *c, '\0' };
    size_t n = 1;
    while (n < 4 && ((unsigned char)c[n] & 0xc0) == 0x80) n++;
    char *sign = shoal_strdup_printf("%.*s", (int)n, c);
    const bool shown = (unsigned char)*c >= 0x80 && shoal_escape(sign, false, NULL, 0) == n;
    if (shown)
      shoal_str_add(&s, "%s", sign);
    else if (shoal_is_plain(one) || *c == ' ')
      shoal_str_add(&s, "%c", *c);
    else
      shoal_str_add(&s, (unsigned char)*c < 0x80 ? "\\x%02x" : "\\udc%02x", (unsigned char)*c);
    c += shown ? n : 1;
    free(sign);
  }
  shoal_str_add(&s, "'");
  snprintf(buf, SHOAL_WORD, "%s", s.len < SHOAL_WORD ? s.text : "'...'");
  shoal_str_free(&s);
  return buf;
}
