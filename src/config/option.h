/* Every setting of Shoal stands in a table of shoal_option: name, type, unit, default, range, help.  The tables feed
 * the run-file reader, --set, environment variables, `shoal config` and the manual page, so they cannot disagree.
 *
 * Precedence: flag (--set a.b=c) > environment (SHOAL_A_B) > file > default.  Unknown keys are errors that name the
 * nearest known one with file and line; so are values of the wrong type or out of range.
 *
 *   settings (text, with origin)  --check against tables-->  config (typed, complete)  --print-->  run.yaml
 *
 * Reading goes in two steps because tables depend on names chosen in the file (method.name, model.name): first
 * collect raw settings, look up the names, then check everything against the tables that apply. */
#ifndef SHOAL_BASE_OPTION_H
#define SHOAL_BASE_OPTION_H
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef enum {
  SHOAL_OPT_BOOL,
  SHOAL_OPT_INT,
  SHOAL_OPT_FLOAT,
  SHOAL_OPT_STRING,
  SHOAL_OPT_ENUM,   /* choices: "constant|step|cosine" */
  SHOAL_OPT_PERIOD, /* "10min", "200 steps", "1 epoch" */
  SHOAL_OPT_INTS,   /* [4096, 4096] */
  SHOAL_OPT_FLOATS,
  SHOAL_OPT_WORDS /* [crop4, hflip]; with choices every word is checked */
} shoal_option_type;

typedef struct {
  const char *name; /* "optim.lr"; a name without a dot ("device") is a top-level key */
  shoal_option_type type;
  const char *default_text; /* as it would stand in a run file; NULL: must be given; "" : empty or unset */
  const char *unit;         /* "samples", "1/s", or NULL */
  const char *range;        /* numbers: "[0,1)", "(0,inf)", "[1,4096]"; enum and words: "a|b|c"; or NULL */
  const char *help;         /* one line, full sentence */
  const char *source;       /* paper or "shoal", or NULL */
  const char *when;         /* means something only then: "optim.schedule=step", "method.name=ist|swarm"; or NULL */
} shoal_option;

/* A table ends with name == NULL. */
typedef struct {
  const char *title; /* "run", "method daso" */
  const shoal_option *options;
} shoal_option_table;

typedef struct shoal_settings shoal_settings;
/* Raw settings, later ones win.  All copy their text. */
shoal_status shoal_settings_create(shoal_settings **out);
void shoal_settings_destroy(shoal_settings *s);
/** Read a YAML run file.  Nested maps become dotted names.  ERR_USAGE with file:line:column for syntax errors,
 *  duplicate keys, anchors or values that are neither scalar nor flat list; ERR_IO if it cannot be read. */
shoal_status shoal_settings_read(shoal_settings *s, const char *path);
shoal_status shoal_settings_read_text(shoal_settings *s, const char *text, const char *origin);
/** A flag: beats environment and files, whichever is read first.  "a.b=c"; lists are "a.b=[1,2]" or "a.b=1,2". */
shoal_status shoal_settings_set(shoal_settings *s, const char *assignment, const char *origin);
/** Text of a setting so far (scalar), or NULL.  Looks at flags, the environment and files in this order, as the config
 *  will; "method: daso" also answers for "method.name". */
const char *shoal_settings_get(const shoal_settings *s, const char *name);

typedef struct shoal_config shoal_config;
/** Check settings (and SHOAL_… environment variables for every option of the tables) and complete them by defaults.
 *  A value that does nothing beside the others (shoal_option.when) is a fault too, unless it is the default.
 *  @param tables  n tables, borrowed for the life of the config; the same option name twice is a bug (assert)
 *  @return ERR_USAGE after printing EVERY fault found, one line each, not only the first */
shoal_status shoal_config_create(const shoal_settings *s, const shoal_option_table *tables, size_t n,
                                 shoal_config **out);
void shoal_config_destroy(shoal_config *c);

/* An option whose default is "" may be empty ("key:", "key: null", "--set key="): it then reads as 0, false, "" or
 * an empty list, and counts as not given.
 *
 * Typed access; asking for an unknown name or with the wrong type is a bug and aborts with its name. */
bool shoal_config_bool(const shoal_config *c, const char *name);
int64_t shoal_config_int(const shoal_config *c, const char *name);
double shoal_config_float(const shoal_config *c, const char *name);
const char *shoal_config_string(const shoal_config *c, const char *name); /* STRING and ENUM; "" when unset */
shoal_period shoal_config_period(const shoal_config *c, const char *name);
size_t shoal_config_ints(const shoal_config *c, const char *name, const int64_t **out);
size_t shoal_config_floats(const shoal_config *c, const char *name, const double **out);
size_t shoal_config_words(const shoal_config *c, const char *name, const char *const **out);
bool shoal_config_has(const shoal_config *c, const char *name);   /* the option is in one of the tables */
bool shoal_config_given(const shoal_config *c, const char *name); /* set by somebody, not by default */
/** "run.yaml:3", "--set", "SHOAL_OPTIM_LR" or "default". */
const char *shoal_config_origin(const shoal_config *c, const char *name);

/** The resolved run file: YAML that reads back to the same config, one section per top-level key. */
void shoal_config_print(const shoal_config *c, shoal_str *out);
/* An option whose value is not what it was; `was` is NULL where the earlier file does not have it. */
typedef void shoal_config_change(void *ctx, const char *name, const char *was, const char *is);
/** Compare with an earlier resolved run file, given as its text: `changed` is called for each option of c whose value
 *  differs, in the order of the tables.  An option the earlier file lacks counts only if somebody set it, not by its
 *  default; one that only the earlier file has, of another method or model, does not count.
 *  @param origin  what messages call the text
 *  @return ERR_USAGE if the text is no run file, before anything is compared */
shoal_status shoal_config_changes(const shoal_config *c, const char *resolved, const char *origin,
                                  shoal_config_change *changed, void *ctx);
/** CRC-32C of the resolved values, leaving out names that start with one of `except` (NULL-terminated list). */
uint32_t shoal_config_hash(const shoal_config *c, const char *const *except);
/** The table as help text: name, type, unit, default, range, help, source; and as a JSON array of objects. */
void shoal_option_print(const shoal_option_table *table, shoal_str *out);
void shoal_option_put_json(const shoal_option_table *table, shoal_json *j, const char *key);
#endif
