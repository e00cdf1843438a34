/* Suggestions for unknown names.
 *
 * Run files are written by hand, often by users of another program, so besides typos ("momentun") there are synonyms
 * ("learning_rate" for lr, "wd" for weight_decay), correct names in the wrong section or in none ("lr"), and options of
 * another method or model.  The last part of a name says most, so it is looked up in all sections first.  One fitting
 * suggestion is worth more than a list; if none fits, the message lists the contents of the section.  Fault hooks are for
 * tests: they are not suggested to anyone who does not name them. */
#include "base/log.h"
#include "base/mem.h"
#include "config/option_impl.h"
#include <stdlib.h>
#include <string.h>

extern char **environ;

void shoal_option_add_place(shoal_str *s, const char *origin, int line, int column)
{
  shoal_str_add(s, "%s:", origin);
  if (line) shoal_str_add(s, "%d:%d:", line, column);
  shoal_str_add(s, " ");
}

static const char *last_part(const char *name)
{
  const char *dot = strrchr(name, '.');
  return dot ? dot + 1 : name;
}

static size_t section_length(const char *name)
{
  const char *dot = strrchr(name, '.');
  return dot ? (size_t)(dot - name) : 0;
}

static bool same_section(const char *a, const char *b)
{
  return section_length(a) == section_length(b) && strncmp(a, b, section_length(a)) == 0;
}

/* "lr" for "learning_rate"; typos inside the words do not matter. */
static bool is_initials(const char *brief, const char *words)
{
  while (*brief && *words && *brief == *words) {
    brief++;
    words += strcspn(words, "_-");
    while (*words == '_' || *words == '-') words++;
  }
  return !*brief && !*words;
}

/* "num_epochs" for "epochs" */
static bool ends_with_word(const char *longer, const char *word)
{
  size_t n = strlen(longer), w = strlen(word);
  return n > w + 1 && w >= 3 && longer[n - w - 1] == '_' && strcmp(longer + n - w, word) == 0;
}

/* A longer or shorter form of the same name, as other programs have it. */
static bool is_other_form(const char *a, const char *b)
{
  size_t na = strlen(a), nb = strlen(b), shorter = SHOAL_MIN(na, nb);
  return (shorter >= 3 && strncmp(a, b, shorter) == 0) || (nb >= 2 && is_initials(b, a)) ||
         (na >= 2 && is_initials(a, b)) || ends_with_word(a, b);
}

/* Whether an option may be suggested for an unknown name. */
static bool is_offered(const char *known, const char *name)
{
  static const char hooks[] = "fault.";
  return strncmp(known, hooks, sizeof hooks - 1) != 0 || strncmp(name, hooks, sizeof hooks - 1) == 0;
}

/* The option of a section whose last part is nearest to `part`.  Sections and last parts are compared separately, so
 * that the letters of the section do not raise the number of typos allowed in the name. */
static const char *suggest_in(const shoal_config *c, const char *section, size_t n, const char *part)
{
  const char **parts = calloc(c->n + 1, sizeof *parts), *meant = NULL;
  size_t n_parts = 0;
  for (size_t i = 0; parts && i < c->n; i++) {
    const char *known = c->values[i].option->name;
    if (section_length(known) == n && strncmp(known, section, n) == 0) parts[n_parts++] = last_part(known);
  }
  const char *near = shoal_nearest(part, parts, n_parts);
  for (size_t i = 0; !near && i < n_parts; i++)
    if (is_other_form(part, parts[i])) near = parts[i];
  for (size_t i = 0; near && !meant && i < c->n; i++) /* find the full name of that part */
    if (last_part(c->values[i].option->name) == near) meant = c->values[i].option->name;
  free(parts);
  return meant;
}

static bool is_same_part(const char *part, const char *known_part)
{
  return strcmp(part, known_part) == 0;
}

static bool is_near_part(const char *part, const char *known_part)
{
  const char *const one[] = { known_part };
  return is_other_form(part, known_part) || (strlen(part) >= 4 && shoal_nearest(part, one, 1));
}

/* Options of any section whose last part fits: the one in a section of a similar name, else "a", "a or b", "a, b or c". */
static char *suggest_part(const shoal_config *c, const char *name, bool (*fits)(const char *, const char *))
{
  enum { MOST = 4 };
  const char *found[MOST];
  size_t n = 0;
  for (size_t i = 0; i < c->n && n < MOST; i++) {
    const char *known = c->values[i].option->name;
    if (is_offered(known, name) && fits(last_part(name), last_part(known))) found[n++] = known;
  }
  char *typed = shoal_strdup_printf("%.*s", (int)section_length(name), name);
  for (size_t i = 0; n > 1 && i < n; i++) {
    char *section = shoal_strdup_printf("%.*s", (int)section_length(found[i]), found[i]);
    const char *const one[] = { section };
    if (*typed && shoal_nearest(typed, one, 1)) found[0] = found[i], n = 1;
    free(section);
  }
  free(typed);
  shoal_str s = { 0 };
  for (size_t i = 0; i < n; i++) shoal_str_add(&s, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", found[i]);
  return s.text;
}

/* Looks in the same section, then in sections of a similar name, then for a similar last part in any section. */
static char *suggest(const shoal_config *c, const char *name)
{
  const char *part = last_part(name), *meant = suggest_in(c, name, section_length(name), part);
  for (size_t i = 0; !meant && i < c->n; i++) {
    const char *known = c->values[i].option->name;
    if (!is_offered(known, name)) continue;
    char *section = shoal_strdup_printf("%.*s", (int)section_length(known), known);
    char *tried = shoal_strdup_printf("%.*s", (int)section_length(name), name);
    const char *const near[] = { section };
    bool brief = !*tried && *section && strcmp(last_part(known), "name") == 0; /* methd: daso */
    const char *typed = brief ? part : tried;
    bool found = *section && (shoal_nearest(typed, near, 1) || is_other_form(typed, section));
    free(tried);
    if (found && brief) return section;
    if (found) meant = suggest_in(c, section, strlen(section), part);
    free(section);
  }
  return meant ? shoal_strdup_printf("%s", meant) : suggest_part(c, name, is_near_part);
}

/* An option of another model or method with this last part, or NULL. */
static const char *find_other(const shoal_config *c, const char *part)
{
  const shoal_option_table *others = c->tables + c->n_tables;
  for (size_t t = 0; t < c->n_others; t++)
    for (const shoal_option *o = others[t].options; o->name; o++)
      if (strcmp(last_part(o->name), part) == 0) return o->name;
  return NULL;
}

/* Appends "method.period belongs to local-sgd, and this run's method is daso" if another method or model has the option. */
static bool add_owners(shoal_str *s, const shoal_config *c, const char *name)
{
  enum { NAMED = 4 };
  const shoal_option_table *others = c->tables + c->n_tables;
  const shoal_option_table *one = NULL;
  size_t owners = 0;
  for (size_t t = 0; t < c->n_others; t++)
    for (const shoal_option *o = others[t].options; o->name; o++) {
      if (strcmp(o->name, name) != 0) continue;
      if (owners++ == 0)
        shoal_str_add(s, "%s belongs to %s", name, (one = &others[t])->title);
      else if (owners <= NAMED)
        shoal_str_add(s, ", %s", others[t].title);
    }
  if (owners > NAMED) shoal_str_add(s, " and %zu more", owners - NAMED);
  if (one) shoal_str_add(s, "; this run's %s is %s", one->choice, one->chosen);
  return one != NULL;
}

/* If there is no suggestion, lists the contents of the section, or the sections. */
static void add_overview(shoal_str *s, const shoal_config *c, const char *name)
{
  size_t n = 0;
  for (size_t i = 0; i < c->n; i++)
    if (strchr(name, '.') && same_section(name, c->values[i].option->name))
      shoal_str_add(s, "%s%s", n++ ? ", " : "; known there: ", last_part(c->values[i].option->name));
  for (size_t i = 0; n == 0 && i < c->n; i++) {
    const char *known = c->values[i].option->name;
    size_t length = strcspn(known, "."), seen = !is_offered(known, name);
    for (size_t j = 0; j < i; j++) {
      const char *other = c->values[j].option->name;
      seen += strcspn(other, ".") == length && strncmp(other, known, length) == 0;
    }
    if (!seen) shoal_str_add(s, "%s%.*s", i ? ", " : "; known are: ", (int)length, known);
  }
}

static void add_cure(shoal_str *s, const shoal_config *c, const char *name)
{
  size_t n = strlen(name), dot = strcspn(name, ".");
  for (size_t i = 0; i < c->n; i++) {
    const char *known = c->values[i].option->name;
    if (strncmp(known, name, n) == 0 && known[n] == '.') { /* optim: 3 */
      shoal_str_add(s, "; it is a section, write for example %s", known);
      return;
    }
    if (strlen(known) == dot && name[dot] && strncmp(known, name, dot) == 0) { /* device: { x: 1 } */
      shoal_str_add(s, "; %s takes one value, not a section", known);
      return;
    }
  }
  char *near = suggest_part(c, name, is_same_part);
  const char *habit = near ? NULL : shoal_option_habit(name);
  if (!near && !habit) near = suggest(c, name);
  const char *other = near || habit ? NULL : find_other(c, last_part(name));
  if (habit)
    shoal_str_add(s, ": %s", habit);
  else if (near)
    shoal_str_add(s, "; did you mean %s?", near);
  else if (!other)
    add_overview(s, c, name);
  else
    shoal_str_add(s, "; "), add_owners(s, c, other);
  free(near);
}

/* Rejects a key that matches no option.  "method: daso" is short for method.name and is accepted. */
shoal_status shoal_config_check_known(const shoal_config *c, const shoal_setting *e)
{
  if (shoal_config_find(c, e->name)) return SHOAL_OK;
  char *brief = shoal_strdup_printf("%s.name", e->name);
  bool is_brief = shoal_config_find(c, brief) != NULL;
  free(brief);
  if (is_brief) return SHOAL_OK;
  shoal_str s = { 0 };
  shoal_option_add_place(&s, e->origin, e->key_line, e->key_column);
  if (!add_owners(&s, c, e->name)) {
    shoal_str_add(&s, "unknown key %s", e->name);
    add_cure(&s, c, e->name);
  }
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_USAGE, "%s", s.text);
  shoal_str_free(&s);
  return st;
}

/* Warns of a variable of an option that another method or model has. */
static bool warn_of_owner(const shoal_config *c, const char *variable)
{
  const shoal_option_table *others = c->tables + c->n_tables;
  bool same = false;
  for (size_t t = 0; t < c->n_others && !same; t++)
    for (const shoal_option *o = others[t].options; o->name && !same; o++) {
      char *name = shoal_option_variable(o->name);
      same = strcmp(name, variable) == 0;
      free(name);
      shoal_str s = { 0 };
      if (same && add_owners(&s, c, o->name))
        shoal_warn("the environment variable %s is ignored: %s", variable, s.text);
      shoal_str_free(&s);
    }
  return same;
}

/* A misspelt variable is only a warning, because other programs may use names that begin with SHOAL_, too. */
void shoal_config_warn_of_variables(const shoal_config *c)
{
  static const size_t prefix = sizeof "SHOAL_" - 1;
  char **variables = calloc(c->n + 1, sizeof *variables);
  const char **known = calloc(c->n + 1, sizeof *known);
  size_t n = variables && known ? c->n : 0;
  for (size_t i = 0; i < n; i++) {
    variables[i] = shoal_option_variable(c->values[i].option->name);
    known[i] = variables[i] + prefix;
  }
  for (char **line = environ; *line; line++) {
    if (strncmp(*line, "SHOAL_", prefix) != 0) continue;
    char *name = shoal_strdup_printf("%.*s", (int)strcspn(*line, "="), *line);
    const char *near = shoal_nearest(name + prefix, known, n);
    bool exact = near && strcmp(near, name + prefix) == 0;
    if (!exact && !warn_of_owner(c, name) && near)
      shoal_warn("the environment variable %s is unknown and ignored; did you mean SHOAL_%s?", name, near);
    free(name);
  }
  for (size_t i = 0; i < n; i++) free(variables[i]);
  free(variables);
  free(known);
}
