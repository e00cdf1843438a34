/* Every setting of Shoal is declared in a table of shoal_option: name, type, unit, default, range, help.  The run-file
 * reader, --set, environment variables, `shoal config` and the manual page all use these tables, so they cannot
 * disagree.
 *
 * Precedence: flag (--set a.b=c) > environment (SHOAL_A_B) > file > default.  Unknown keys are errors with file and
 * line that suggest the nearest known key; so are values of the wrong type or out of range.
 *
 *   settings (text, with origin)  --check against tables-->  config (typed, complete)  --print-->  run.yaml
 *
 * Reading takes two steps, because some tables depend on names chosen in the file (method.name, model.name): first
 * collect raw settings and look up the names, then check everything against the tables that apply. */
#ifndef SHOAL_CONFIG_OPTION_H
#define SHOAL_CONFIG_OPTION_H
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
  SHOAL_OPT_PERIOD, /* "10min", "200 steps", "1 epoch", and "never" where the range is that */
  SHOAL_OPT_INTS,   /* [4096, 4096] */
  SHOAL_OPT_FLOATS,
  SHOAL_OPT_PATH,  /* a text in which ~ and $VARIABLES are expanded */
  SHOAL_OPT_PATHS, /* one or several; a single one needs no brackets */
  SHOAL_OPT_WORDS  /* [crop4, hflip]; each word is checked against the choices, if there are any */
} shoal_option_type;

typedef struct {
  const char *name; /* "optim.lr"; a name without a dot ("device") is a top-level key */
  shoal_option_type type;
  const char *default_text; /* as written in a run file; NULL: no default, must be given; "": unset by default */
  const char *unit;         /* "samples", "1/s", or NULL */
  const char *range;  /* numbers: "[0,1)", "(0,inf)", "[1,4096]"; enum and words: "a|b|c"; periods: "never"; or NULL */
  const char *help;   /* one line, full sentence */
  const char *source; /* paper or "shoal", or NULL */
  const char *when;   /* has an effect only if "optim.schedule=step", "method.name=ist|swarm"; NULL: always */
} shoal_option;

/* A table ends with name == NULL. */
typedef struct {
  const char *title; /* "run", "daso" */
  const shoal_option *options;
  /* Of a table that does not apply to this run, and serves to say so: what it belongs to ("method") and what the run has
   * chosen there ("sync"); else NULL. */
  const char *choice, *chosen;
} shoal_option_table;

typedef struct shoal_settings shoal_settings;
/* Raw settings; later ones override earlier ones.  All functions copy their text. */
shoal_status shoal_settings_create(shoal_settings **out);
void shoal_settings_destroy(shoal_settings *s);
/** Read a YAML run file.  Nested maps become dotted names.  ERR_USAGE with file:line:column for syntax errors,
 *  duplicate keys, anchors or values that are neither scalar nor flat list; ERR_IO if it cannot be read. */
shoal_status shoal_settings_read(shoal_settings *s, const char *path);
shoal_status shoal_settings_read_text(shoal_settings *s, const char *text, const char *origin);
/** Add a flag "a.b=c" (a list: "a.b=[1,2]" or "a.b=1,2").  Overrides environment and files, in any order of calls. */
shoal_status shoal_settings_set(shoal_settings *s, const char *assignment, const char *origin);
/** Forgets what files say of the options whose names begin with `prefix` ("method."). */
void shoal_settings_forget(shoal_settings *s, const char *prefix);
/** Text of a scalar setting read so far, or NULL.  Searches flags, the environment and files in this order, as
 *  shoal_config_create does; the shorthand "method: daso" is found as "method.name". */
const char *shoal_settings_get(const shoal_settings *s, const char *name);

typedef struct shoal_config shoal_config;
/** Check the settings (and SHOAL_… environment variables for every option of the tables) and fill in the defaults.
 *  A value that has no effect together with the others (shoal_option.when) is a fault, too, unless it is the default.
 *  @param tables  n tables, those that apply first; their options are borrowed for the life of the config.  The same name
 *                 twice among those that apply is a bug (assert)
 *  @return ERR_USAGE; the error lists EVERY fault found, one line each, not only the first */
shoal_status shoal_config_create(const shoal_settings *s, const shoal_option_table *tables, size_t n,
                                 shoal_config **out);
/** A config of these tables from the text of an earlier resolved run file, and nothing else: not the environment.  Names
 *  that are in no table are ignored; options that the text lacks have their default.
 *  @param origin  name of the text in messages
 *  @return ERR_USAGE if today's tables reject a value */
shoal_status shoal_config_recall(const char *resolved, const char *origin, const shoal_option_table *tables, size_t n,
                                 shoal_config **out);
void shoal_config_destroy(shoal_config *c);

/* An option whose default is "" may be left empty ("key:", "key: null", "--set key="): its value is then 0, false, ""
 * or an empty list, and it counts as not given.
 *
 * Typed access; asking for an unknown name or with the wrong type is a bug and aborts with its name. */
bool shoal_config_bool(const shoal_config *c, const char *name);
int64_t shoal_config_int(const shoal_config *c, const char *name);
double shoal_config_float(const shoal_config *c, const char *name);
const char *shoal_config_string(const shoal_config *c, const char *name); /* STRING, PATH and ENUM; "" when unset */
size_t shoal_config_paths(const shoal_config *c, const char *name, const char *const **out);
shoal_period shoal_config_period(const shoal_config *c, const char *name);
size_t shoal_config_ints(const shoal_config *c, const char *name, const int64_t **out);
size_t shoal_config_floats(const shoal_config *c, const char *name, const double **out);
size_t shoal_config_words(const shoal_config *c, const char *name, const char *const **out);
bool shoal_config_has(const shoal_config *c, const char *name); /* the option is in one of the tables */
/** Set by the user, not by default.  A value of a run file that is the default counts as none: a resolved run file has every
 *  option. */
bool shoal_config_given(const shoal_config *c, const char *name);
/** "run.yaml:3", "--set", "SHOAL_OPTIM_LR" or "default". */
const char *shoal_config_origin(const shoal_config *c, const char *name);

/** The resolved run file: YAML that reads back to the same config, one section per top-level key. */
void shoal_config_print(const shoal_config *c, shoal_str *out);
/* Called for an option whose value has changed; `was` is NULL if the earlier file does not contain it. */
typedef void shoal_config_change(void *ctx, const char *name, const char *was, const char *is);
/** Compare with the text of an earlier resolved run file: `changed` is called for each option of c whose value differs,
 *  in the order of the tables.  An option missing from the earlier file counts only if the user set it; options that
 *  only the earlier file has (of another method or model) are ignored.
 *  @param origin  name of the text in messages
 *  @return ERR_USAGE if the text is not a valid run file; nothing is compared then */
shoal_status shoal_config_changes(const shoal_config *c, const char *resolved, const char *origin,
                                  shoal_config_change *changed, void *ctx);
/** CRC-32C of the resolved values, without names that start with an entry of `except` (NULL-terminated). */
uint32_t shoal_config_hash(const shoal_config *c, const char *const *except);
/** What does here what an option of other programs does, "run.max_time", "--nproc_per_node": a text for a message, or NULL if it is
 *  none that many programs have. */
const char *shoal_option_habit(const char *name);

typedef struct {
  const char *name; /* without its dashes */
  char letter;      /* of its short form; 0: none that no flag of `shoal submit` has */
  bool needs_value;
  const char *flag; /* of `shoal submit` that does the same, "--ranks"; NULL: --sbatch hands it on */
} shoal_sbatch_option;
/** The option of sbatch that a word of a command line names, "--exclude=n3", "-x" or "-xn3"; NULL: it is none of a script. */
const shoal_sbatch_option *shoal_sbatch_option_find(const char *text);

/** Expands ~ and ~/ at the start, $NAME and ${NAME}; "$$" becomes a dollar sign.  Caller frees.  ERR_USAGE for a variable
 *  that is not set and for ~user. */
shoal_status shoal_path_expand(const char *text, char **out);
/** Copies choice `i` of "a|b|c" into buf; false if there are not that many, or the option has none. */
bool shoal_option_choice(const shoal_option *o, size_t i, char *buf, size_t cap);
/** Appends what help says of a value: type, choices or range, unit, default, and when it has an effect. */
void shoal_option_add_facts(const shoal_option *o, shoal_str *out);
/** The table as help text: name, type, unit, default, range, help, source; and as a JSON array of objects. */
void shoal_option_print(const shoal_option_table *table, shoal_str *out);
void shoal_option_put_json(const shoal_option_table *table, shoal_json *j, const char *key);
#endif
