/* Declarations private to config/. */
#ifndef SHOAL_CONFIG_OPTION_IMPL_H
#define SHOAL_CONFIG_OPTION_IMPL_H
#include "base/error.h"
#include "base/texts.h"
#include "config/option.h"
#include "config/yaml.h"

/* One setting as written by the user: a scalar has one item, a list any number. */
typedef struct {
  char *name;
  shoal_texts items;
  bool is_list;
  bool is_flag;     /* from --set: overrides the environment, which overrides files */
  char *origin;     /* "run.yaml", "--set" */
  int line, column; /* of the value, from 1; 0 if the origin is not a file */
  int key_line, key_column;
  unsigned reading; /* number of the source it came from: a key twice in one source is a duplicate */
  unsigned order;   /* of being set; the higher number overrides */
} shoal_setting;

struct shoal_settings {
  shoal_setting *entries;
  size_t n, cap;
  unsigned readings, orders;
};

/** The setting that takes effect among the flags (or among the files), or NULL.  For "method.name" the shorthand
 *  "method: daso" is considered, too. */
const shoal_setting *shoal_settings_winner(const shoal_settings *s, const char *name, bool is_flag);
/** "SHOAL_OPTIM_LR" for "optim.lr"; caller frees. */
char *shoal_option_variable(const char *name);

/* Typed value of one option; which members are used depends on the type. */
typedef struct {
  const shoal_option *option;
  char *origin;
  bool given;
  bool unset;        /* left empty, which the option must allow */
  shoal_texts texts; /* one item for a scalar, none if unset */
  int64_t *ints;
  double *floats;
  shoal_period period;
} shoal_value;

struct shoal_config {
  const shoal_option_table *tables; /* while it is created: those that apply, then others */
  size_t n_tables, n_others;
  shoal_value *values; /* in the order of the tables */
  size_t n;
};

/** Appends what a value must be: "a number in (0,inf)", "one of constant, step, cosine". */
void shoal_option_describe(const shoal_option *o, shoal_str *out);
bool shoal_option_is_list(const shoal_option *o);
/** Appends the value in its canonical form, as in the resolved run file. */
void shoal_option_add_value(shoal_str *out, const shoal_value *v);
/** Splits an option's condition "other=a|b": copies the other option's name to `name` and returns the allowed values
 *  "a|b". */
const char *shoal_option_when(const shoal_option *o, char *name, size_t cap);
/** Appends "a|b" as "a or b". */
void shoal_option_add_words(shoal_str *out, const char *words);

const shoal_value *shoal_config_find(const shoal_config *c, const char *name); /* NULL if no table has it */
/** ERR_USAGE, with a suggestion, if the setting matches no option. */
shoal_status shoal_config_check_known(const shoal_config *c, const shoal_setting *e);
void shoal_config_warn_of_variables(const shoal_config *c);
/** Appends "run.yaml:7:9: ", or only "--set: " if the origin is not a file. */
void shoal_option_add_place(shoal_str *s, const char *origin, int line, int column);
#endif
