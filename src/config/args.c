/* Command lines of the subcommands: parser, help page and error messages are driven by one table of flags.
 *
 * --flag VALUE and --flag=VALUE are both accepted, for a short flag also -N4.  Positional arguments and flags may be
 * mixed; "--" ends the flags.  Strings are borrowed from argv, which lives as long as the program, except for the files
 * that flags name: those are expanded like paths in a run file (path.c).  If a flag is given
 * twice the last value counts, so that a script can append to a command line. */
#include "config/args.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "config/option.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shoal_args {
  const shoal_verb_help *help;
  const char **words;
  size_t n_words;
  const char ***given; /* per flag of the table: its values in the order given; for a switch, its own name */
  size_t *n_given;
  char **expanded; /* paths of flags that take a file; owned */
  size_t n_expanded;
};

static const shoal_flag no_flags[] = { { 0 } };

static const shoal_flag *flags_of(const shoal_verb_help *help)
{
  return help->flags ? help->flags : no_flags;
}

static size_t count_flags(const shoal_verb_help *help)
{
  size_t n = 0;
  while (flags_of(help)[n].name) n++;
  return n;
}

static bool matches(const shoal_flag *f, const char *text, size_t n)
{
  return (strlen(f->name) == n && strncmp(f->name, text, n) == 0) ||
         (f->alias && strlen(f->alias) == n && strncmp(f->alias, text, n) == 0);
}

/* Index of the flag named by the first n letters of `text`, or the number of flags if there is none. */
static size_t find_flag(const shoal_verb_help *help, const char *text, size_t n)
{
  size_t i = 0;
  while (flags_of(help)[i].name && !matches(&flags_of(help)[i], text, n)) i++;
  return i;
}

/* --- help ------------------------------------------------------------------------------------------------------ */

static void print_flag(shoal_str *out, const char *name, const char *alias, const char *metavar, const char *help)
{
  enum { INDENT = 28, WIDTH = 90 };
  shoal_str left = { 0 };
  shoal_str_add(&left, "  %s%s%s%s%s", alias ? alias : "", alias ? ", " : "", name, metavar ? " " : "",
                metavar ? metavar : "");
  shoal_str_add(out, "%-*s", INDENT, left.text);
  if (left.len >= INDENT) shoal_str_add(out, "\n%*s", INDENT, "");
  shoal_str_add_wrapped(out, help, INDENT, WIDTH);
  shoal_str_free(&left);
}

static void print_help(const shoal_verb_help *help)
{
  shoal_str out = { 0 };
  shoal_str_add(&out, "usage: %s\n\n", help->usage);
  shoal_str_add_wrapped(&out, help->about, 0, 90);
  shoal_str_add(&out, "\noptions:\n");
  for (const shoal_flag *f = flags_of(help); f->name; f++) print_flag(&out, f->name, f->alias, f->metavar, f->help);
  print_flag(&out, "--help", "-h", NULL, "show this page");
  if (help->examples) shoal_str_add(&out, "\nexamples:\n%s\n", help->examples);
  fputs(out.text, stdout);
  fflush(stdout);
  shoal_str_free(&out);
}

/* --- parsing --------------------------------------------------------------------------------------------------- */

static bool has_flag(const shoal_verb_help *help, const char *name)
{
  return flags_of(help)[find_flag(help, name, strlen(name))].name != NULL;
}

/* Whether a verb takes options of a run file. */
static bool takes_settings(const shoal_verb_help *help)
{
  return has_flag(help, "--set");
}

static const char *habit_of(const shoal_verb_help *help, const char *flag)
{
  return takes_settings(help) ? shoal_option_habit(flag) : NULL;
}

/* An option of sbatch, for a verb that hands those on: says by which flag.  `next`: the word behind it, or NULL. */
static shoal_status sbatch_flag(const shoal_verb_help *help, const shoal_sbatch_option *o, const char *text,
                                const char *next)
{
  bool is_long = text[1] == '-', own = o->flag && has_flag(help, o->flag);
  size_t n = is_long ? strcspn(text, "=") : 2;
  const char *glued = text[n] ? text + n + is_long : NULL, *value = glued || !o->needs_value ? glued
                                                                    : next && next[0] != '-' ? next
                                                                                             : "VALUE";
  shoal_str option = { 0 }, cure = { 0 };
  shoal_str_add(&option, "--sbatch=--%s%s%s", o->name, value ? "=" : "", value ? value : "");
  shoal_str_add_word(&cure, own ? o->flag : option.text);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_USAGE, "unknown option %.*s, which is of sbatch: %s %s", (int)n, text,
                               own ? "here it is" : "hand it on as", cure.text);
  shoal_str_free(&option);
  shoal_str_free(&cure);
  return st;
}

static shoal_status unknown_flag(const shoal_verb_help *help, const char *text, size_t n, const char *next)
{
  const shoal_sbatch_option *o = has_flag(help, "--sbatch") ? shoal_sbatch_option_find(text) : NULL;
  if (o) return sbatch_flag(help, o, text, next);
  shoal_status st;
  size_t n_flags = count_flags(help), n_names = 0;
  char *flag = shoal_strdup_printf("%.*s", (int)n, text);
  const char **names = NULL;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(2 * n_flags + 1, &names), done);
  names[n_names++] = "--help";
  for (size_t i = 0; i < n_flags; i++) {
    names[n_names++] = flags_of(help)[i].name;
    if (flags_of(help)[i].alias) names[n_names++] = flags_of(help)[i].alias;
  }
  const char *near = strncmp(text, "--", 2) == 0 ? shoal_nearest(flag, names, n_names) : NULL;
  const char *habit = near ? NULL : habit_of(help, flag);
  st = SHOAL_FAIL(SHOAL_ERR_USAGE,
                  habit  ? "unknown option %s: %s"
                  : near ? "unknown option %s; did you mean %s? (-h lists all)"
                  : takes_settings(help)
                      ? "unknown option %s%s; options of the run file are given as in --set optim.lr=0.05; -h lists all"
                      : "unknown option %s%s; -h lists all",
                  flag,
                  habit  ? habit
                  : near ? near
                         : "");
done:
  free(names);
  free(flag);
  return st;
}

/* Takes the value of flag i: after '=', attached to a short flag, or the next argument. */
static shoal_status take_value(shoal_args *a, size_t i, const char *glued, int argc, char **argv, int *at)
{
  const shoal_flag *f = &flags_of(a->help)[i];
  const char *value = glued;
  if (!value) {
    bool next_is_flag = *at + 1 < argc && argv[*at + 1][0] == '-' &&
                        flags_of(a->help)[find_flag(a->help, argv[*at + 1], strcspn(argv[*at + 1], "="))].name;
    SHOAL_CHECK(*at + 1 < argc && !next_is_flag, SHOAL_ERR_USAGE, "%s needs a value: %s %s", f->name, f->name,
                f->metavar ? f->metavar : "VALUE");
    value = argv[++*at];
  }
  if (f->metavar && strstr(f->metavar, "FILE")) {
    char *path;
    SHOAL_TRY(shoal_error_prefix(shoal_path_expand(value, &path), "%s: ", f->name));
    value = a->expanded[a->n_expanded++] = path;
  }
  a->given[i][a->n_given[i]++] = value;
  return SHOAL_OK;
}

static shoal_status take_flag(shoal_args *a, int argc, char **argv, int *at)
{
  const char *text = argv[*at];
  bool is_long = text[1] == '-';
  size_t n = is_long ? strcspn(text, "=") : strlen(text), n_flags = count_flags(a->help);
  const char *glued = text[n] ? text + n + 1 : NULL;
  size_t i = find_flag(a->help, text, n);
  if (i == n_flags && !is_long && !(n > 2 && habit_of(a->help, text))) { /* -N4, but not -np */
    i = find_flag(a->help, text, 2);
    if (i < n_flags && flags_of(a->help)[i].type == SHOAL_FLAG_SWITCH) i = n_flags;
    glued = text + 2;
  }
  if (i == n_flags) return unknown_flag(a->help, text, n, *at + 1 < argc ? argv[*at + 1] : NULL);
  if (flags_of(a->help)[i].type != SHOAL_FLAG_SWITCH) return take_value(a, i, glued, argc, argv, at);
  SHOAL_CHECK(!glued, SHOAL_ERR_USAGE, "%s takes no value", flags_of(a->help)[i].name);
  a->given[i][0] = flags_of(a->help)[i].name;
  a->n_given[i] = 1;
  return SHOAL_OK;
}

/* An option of a run file without --set, or with a blank for its '=', leaves a word that names no file. */
static shoal_status check_sets(const shoal_args *a)
{
  char shown[SHOAL_WORD];
  if (!takes_settings(a->help)) return SHOAL_OK;
  const char *const *sets;
  const size_t n_sets = shoal_args_list(a, "--set", &sets);
  for (size_t i = 0; i < a->n_words; i++) {
    const char *word = a->words[i];
    if (shoal_path_exists(word)) continue;
    SHOAL_CHECK(!strchr(word, '='), SHOAL_ERR_USAGE, "%s is no run file: an option is set by --set %s", word,
                shoal_shell_word(word, shown));
    for (size_t k = 0; k < n_sets; k++)
      SHOAL_CHECK(strchr(sets[k], '='), SHOAL_ERR_USAGE, "--set %s %s: write it with a '=', as --set %s=%s", sets[k],
                  word, sets[k], word);
  }
  return SHOAL_OK;
}

static shoal_status check_words(const shoal_args *a)
{
  const shoal_verb_help *h = a->help;
  SHOAL_TRY(check_sets(a));
  size_t least = (size_t)SHOAL_MAX(h->min_words, 0);
  SHOAL_CHECK(a->n_words >= least, SHOAL_ERR_USAGE, "%zu of %zu arguments given; usage: %s", a->n_words, least,
              h->usage);
  SHOAL_CHECK(h->max_words < 0 || a->n_words <= (size_t)h->max_words, SHOAL_ERR_USAGE,
              "one argument too many: %s; usage: %s", a->words[h->max_words], h->usage);
  return SHOAL_OK;
}

static shoal_status parse_all(shoal_args *a, int argc, char **argv, bool *helped)
{
  bool flags_ended = false;
  for (int at = 1; at < argc; at++) {
    const char *text = argv[at];
    if (flags_ended || text[0] != '-' || !text[1]) {
      a->words[a->n_words++] = text;
    } else if (strcmp(text, "--") == 0) {
      flags_ended = true;
    } else if (strcmp(text, "-h") == 0 || strcmp(text, "--help") == 0) {
      print_help(a->help);
      *helped = true;
      return SHOAL_OK;
    } else {
      SHOAL_TRY(take_flag(a, argc, argv, &at));
    }
  }
  return check_words(a);
}

shoal_status shoal_args_parse(const shoal_verb_help *help, int argc, char **argv, bool *helped, shoal_args **out)
{
  shoal_status st;
  size_t n_flags = count_flags(help), most = (size_t)SHOAL_MAX(argc, 1);
  shoal_args *a = NULL;
  SHOAL_TRY(SHOAL_ALLOC(1, &a));
  *helped = false;
  a->help = help;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(most, &a->words), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(most, &a->expanded), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n_flags + 1, &a->n_given), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n_flags + 1, &a->given), fail);
  for (size_t i = 0; i < n_flags; i++) SHOAL_TRY_GOTO(st, SHOAL_ALLOC(most, &a->given[i]), fail);
  SHOAL_TRY_GOTO(st, parse_all(a, argc, argv, helped), fail);
  *out = a;
  return SHOAL_OK;
fail:
  shoal_args_destroy(a);
  return st;
}

void shoal_args_destroy(shoal_args *a)
{
  if (!a) return;
  for (size_t i = 0; a->given && i < count_flags(a->help); i++) free(a->given[i]);
  for (size_t i = 0; i < a->n_expanded; i++) free(a->expanded[i]);
  free(a->expanded);
  free(a->given);
  free(a->n_given);
  free(a->words);
  free(a);
}

/* --- access ---------------------------------------------------------------------------------------------------- */

size_t shoal_args_words(const shoal_args *a, const char *const **out)
{
  *out = a->words;
  return a->n_words;
}

/* Index of a flag, which must be in the table; anything else is a bug and aborts. */
static size_t need_flag(const shoal_args *a, const char *flag)
{
  size_t i = find_flag(a->help, flag, strlen(flag));
  if (i < count_flags(a->help)) return i;
  fprintf(stderr, "shoal: bug: the flag %s is not declared\n", flag);
  abort();
}

bool shoal_args_on(const shoal_args *a, const char *flag)
{
  return a->n_given[need_flag(a, flag)] > 0;
}

const char *shoal_args_value(const shoal_args *a, const char *flag)
{
  size_t i = need_flag(a, flag);
  return a->n_given[i] ? a->given[i][a->n_given[i] - 1] : NULL;
}

size_t shoal_args_list(const shoal_args *a, const char *flag, const char *const **out)
{
  size_t i = need_flag(a, flag);
  *out = a->given[i];
  return a->n_given[i];
}

shoal_status shoal_args_repeat(const shoal_args *a, const shoal_flag *flags, shoal_texts *words)
{
  for (const shoal_flag *f = flags; f->name; f++) {
    size_t i = need_flag(a, f->name), n = f->type == SHOAL_FLAG_VALUE ? SHOAL_MIN(a->n_given[i], 1) : a->n_given[i];
    for (size_t k = a->n_given[i] - n; k < a->n_given[i]; k++) { /* of several values the last one counts */
      SHOAL_TRY(shoal_texts_add(words, f->name));
      if (f->type != SHOAL_FLAG_SWITCH) SHOAL_TRY(shoal_texts_add(words, a->given[i][k]));
    }
  }
  return SHOAL_OK;
}
