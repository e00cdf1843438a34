/* Command lines of the subcommands: arguments and flags from one table, so that -h, errors and parsing agree. */
#ifndef SHOAL_CONFIG_ARGS_H
#define SHOAL_CONFIG_ARGS_H
#include "base/status.h"
#include "base/texts.h"
#include <stdbool.h>
#include <stddef.h>

typedef enum { SHOAL_FLAG_SWITCH, SHOAL_FLAG_VALUE, SHOAL_FLAG_LIST } shoal_flag_type;
typedef struct {
  const char *name;     /* "--resume"; or "-o" where only a short form exists */
  const char *alias;    /* "-o" or NULL */
  const char *metavar;  /* "FILE" or NULL for switches */
  shoal_flag_type type; /* LIST may be given several times */
  const char *help;
} shoal_flag; /* a table ends with name == NULL */

typedef struct {
  const char *usage; /* "shoal train RUN.yaml [options]" */
  const char *about; /* description, one paragraph */
  const shoal_flag *flags;
  int min_words, max_words; /* number of positional arguments; max_words -1: no limit */
  const char *examples;     /* or NULL */
  /* For completion: word i that the first argument may be, NULL after the last one; NULL where it is a file. */
  const char *(*first)(size_t i);
} shoal_verb_help;

typedef struct shoal_args shoal_args;
/** argv[0] is the subcommand itself and is skipped.  `-h` and `--help` print the help on stdout and set *helped.
 *  ERR_USAGE for an unknown flag (the message names the nearest known one), a missing value, or a wrong number of
 *  positional arguments. */
shoal_status shoal_args_parse(const shoal_verb_help *help, int argc, char **argv, bool *helped, shoal_args **out);
void shoal_args_destroy(shoal_args *a);
size_t shoal_args_words(const shoal_args *a, const char *const **out);
bool shoal_args_on(const shoal_args *a, const char *flag);
const char *shoal_args_value(const shoal_args *a, const char *flag); /* NULL when not given */
/** Appends to `words` those flags of the table `flags` that were given, as a command line that means the same.  The table is a part
 *  of the verb's own. */
shoal_status shoal_args_repeat(const shoal_args *a, const shoal_flag *flags, shoal_texts *words);
size_t shoal_args_list(const shoal_args *a, const char *flag, const char *const **out);
#endif
