/* Expands Slurm's host lists, such as "n[01-03,7]x,m[1-2]g[1-2]".
 *
 * `scontrol show hostnames` is not used, because containers may lack scontrol; a launcher that fell back to localhost
 * in that case made every node wait for itself.  Numbers keep their leading zeros; of several brackets the last varies
 * fastest, as in Slurm. */
#include "slurm/nodes.h"
#include "base/texts.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NAME = 256, MOST_DIGITS = 9 };

typedef struct {
  const char *what, *list; /* name of the list in messages; the whole text, to compute positions */
  shoal_texts names;
  char name[LONGEST_NAME]; /* the name being built, from left to right */
} expansion;

static shoal_status complain(const expansion *e, const char *at, const char *what)
{
  return SHOAL_FAIL(SHOAL_ERR_USAGE, "%s \"%s\", position %zu: %s", e->what, e->list, (size_t)(at - e->list) + 1, what);
}

static shoal_status add_name(expansion *e, const char *at)
{
  if (e->names.n == SHOAL_MOST_NODES) return complain(e, at, "more than 100000 nodes");
  return shoal_texts_add(&e->names, e->name);
}

typedef struct {
  unsigned long low, high;
  int width; /* number of digits of the low end as written, to keep leading zeros: 2 for "01" */
} range;

static shoal_status read_number(const expansion *e, const char **at, unsigned long *value)
{
  size_t digits = strspn(*at, "0123456789");
  if (digits == 0) return complain(e, *at, "a number is expected");
  if (digits > MOST_DIGITS) return complain(e, *at, "the number is too long");
  *value = strtoul(*at, NULL, 10);
  *at += digits;
  return SHOAL_OK;
}

static shoal_status read_range(const expansion *e, const char **at, range *r)
{
  const char *begin = *at;
  *r = (range){ .low = 0 };
  SHOAL_TRY(read_number(e, at, &r->low));
  r->width = (int)(*at - begin);
  r->high = r->low;
  if (**at == '-') {
    ++*at;
    SHOAL_TRY(read_number(e, at, &r->high));
  }
  if (r->high < r->low) return complain(e, begin, "the range runs backwards");
  if (**at != ',' && **at != ']') return complain(e, *at, **at ? "a comma or ] is expected" : "the ] is missing");
  return SHOAL_OK;
}

/* Adds all names that begin with the first `used` bytes of e->name and continue as `at`, up to its comma. */
static shoal_status expand(expansion *e, const char *at, size_t used)
{
  size_t plain = strcspn(at, "[],");
  for (size_t i = 0; i < plain; i++)
    if (isspace((unsigned char)at[i]) || iscntrl((unsigned char)at[i])) return complain(e, at + i, "a blank in a name");
  if (at[plain] == ']') return complain(e, at + plain, "a ] without its [");
  if (used + plain + MOST_DIGITS >= sizeof e->name) return complain(e, at, "the name is too long");
  memcpy(e->name + used, at, plain);
  used += plain;
  e->name[used] = '\0';
  if (at[plain] != '[') return used ? add_name(e, at) : complain(e, at, "a name is expected");

  const char *close = strchr(at + plain, ']');
  if (!close) return complain(e, at + strlen(at), "the ] is missing");
  for (at += plain; *at != ']';) {
    range r;
    ++at; /* the [ or a comma */
    SHOAL_TRY(read_range(e, &at, &r));
    for (unsigned long i = r.low; i <= r.high; i++) {
      int n = snprintf(e->name + used, sizeof e->name - used, "%0*lu", r.width, i);
      SHOAL_TRY(expand(e, close + 1, used + (size_t)n));
    }
  }
  return SHOAL_OK;
}

static const char *next_comma(const char *at)
{
  for (int depth = 0; *at && (*at != ',' || depth > 0); at++) depth += (*at == '[') - (*at == ']');
  return at;
}

shoal_status shoal_topo_expand_named(const char *what, const char *list, char ***names_out, size_t *n_out)
{
  expansion e = { .what = what, .list = list };
  shoal_status st;
  for (const char *at = list;; at++) { /* a name is required at the start and after every comma */
    SHOAL_TRY_GOTO(st, expand(&e, at, 0), fail);
    at = next_comma(at);
    if (!*at) break;
  }
  *names_out = e.names.at;
  *n_out = e.names.n;
  return SHOAL_OK;
fail:
  shoal_texts_free(&e.names);
  return st;
}

shoal_status shoal_topo_expand_nodes(const char *list, char ***names_out, size_t *n_out)
{
  return shoal_topo_expand_named("node list", list, names_out, n_out);
}
