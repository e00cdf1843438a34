/* See array.h. */
#include "cli/array.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/run_file.h"
#include "train/folder.h"
#include "train/options.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ELEMENTS = 10000 };

/* ---- axes ---- */

static const shoal_option *find_in(const shoal_option *options, const char *name)
{
  for (const shoal_option *o = options; o && o->name; o++)
    if (strcmp(o->name, name) == 0) return o;
  return NULL;
}

/* The first option of that name, in whatever model or method: those that share a name share a type. */
static const shoal_option *find_option(const char *name)
{
  shoal_option_table tables[SHOAL_TABLES];
  const shoal_model_entry *models;
  const shoal_method *const *methods;
  size_t n = shoal_run_tables(NULL, NULL, tables), n_models = shoal_models(&models),
         n_methods = shoal_methods(&methods);
  const shoal_option *found = NULL;
  for (size_t i = 0; i < n && !found; i++) found = find_in(tables[i].options, name);
  for (size_t i = 0; i < n_models && !found; i++) found = find_in(models[i].options, name);
  for (size_t i = 0; i < n_methods && !found; i++) found = find_in(methods[i]->options, name);
  return found;
}

/* One value is never a list with commas for these; a list is a value for others. */
static bool takes_one(const char *name)
{
  const shoal_option *o = find_option(name);
  if (!o || strcmp(name, "run.name") == 0) return false;
  switch (o->type) {
  case SHOAL_OPT_BOOL:
  case SHOAL_OPT_INT:
  case SHOAL_OPT_FLOAT:
  case SHOAL_OPT_STRING:
  case SHOAL_OPT_ENUM:
  case SHOAL_OPT_PERIOD:
    return true;
  default:
    return false;
  }
}

static shoal_status add_axis(shoal_array *a, const char *key, size_t n_key, shoal_axis **out)
{
  shoal_axis *axes = realloc(a->axes, (a->n_axes + 1) * sizeof *axes);
  SHOAL_CHECK(axes, SHOAL_ERR_MEM, "out of memory for the axes of an array");
  a->axes = axes;
  *out = &axes[a->n_axes++];
  **out = (shoal_axis){ .key = shoal_strdup_printf("%.*s", (int)n_key, key) };
  for (size_t i = 0; i + 1 < a->n_axes; i++)
    SHOAL_CHECK(strcmp(axes[i].key, (*out)->key) != 0, SHOAL_ERR_USAGE,
                "%s has several values twice: give them in one list", (*out)->key);
  return SHOAL_OK;
}

static shoal_status add_values(shoal_axis *axis, const char *list)
{
  for (const char *at = list;;) {
    size_t n = strcspn(at, ",");
    SHOAL_CHECK(n, SHOAL_ERR_USAGE, "--set %s=%s: a value of the array is empty", axis->key, list);
    SHOAL_TRY(shoal_texts_add_n(&axis->values, at, n));
    if (!at[n]) return SHOAL_OK;
    at += n + 1;
  }
}

static shoal_status take_set(shoal_array *a, const char *set)
{
  size_t n = strcspn(set, "=");
  const char *value = set[n] ? set + n + 1 : "";
  char *key = shoal_strdup_printf("%.*s", (int)n, set);
  bool axis = strchr(value, ',') && takes_one(strcmp(key, "method") == 0 ? "method.name" : key);
  free(key);
  if (!axis) return shoal_texts_add(&a->sets, set);
  shoal_axis *x;
  bool brief = strncmp(set, "method=", 7) == 0;
  SHOAL_TRY(add_axis(a, brief ? "method.name" : set, brief ? strlen("method.name") : n, &x));
  return add_values(x, value);
}

/* "1-3,7" */
static shoal_status add_seeds(shoal_array *a, const char *list)
{
  shoal_axis *x;
  SHOAL_TRY(add_axis(a, "run.seed", strlen("run.seed"), &x));
  for (const char *at = list;;) {
    int64_t first, last;
    int used = 0, more = 0;
    bool good = isdigit((unsigned char)*at) && sscanf(at, "%" SCNd64 "%n", &first, &used) == 1;
    last = first = good ? first : 0;
    if (good && at[used] == '-') {
      good = isdigit((unsigned char)at[used + 1]) && sscanf(at + used, "-%" SCNd64 "%n", &last, &more) == 1;
      used += more;
    }
    SHOAL_CHECK(good && (!at[used] || at[used] == ',') && first <= last && last - first < MOST_ELEMENTS,
                SHOAL_ERR_USAGE, "--seeds %s: give numbers and ranges of them, as in --seeds 1-5 or --seeds 1,3,7-9",
                list);
    for (int64_t seed = first; seed <= last; seed++)
      SHOAL_TRY(shoal_texts_take(&x->values, shoal_strdup_printf("%" PRId64, seed)));
    if (!at[used]) return SHOAL_OK;
    at += used + 1;
  }
}

shoal_status shoal_array_read(const char *run_file, const char *const *sets, size_t n_sets, const char *seeds,
                              shoal_array *out)
{
  *out = (shoal_array){ .run_file = run_file };
  for (size_t i = 0; i < n_sets; i++) SHOAL_TRY(take_set(out, sets[i]));
  if (seeds) SHOAL_TRY(add_seeds(out, seeds));
  if (out->n_axes == 0) return SHOAL_OK;
  out->n = 1;
  for (size_t i = 0; i < out->n_axes; i++) {
    out->n *= out->axes[i].values.n;
    SHOAL_CHECK(out->n <= MOST_ELEMENTS, SHOAL_ERR_USAGE,
                "the array would have more than %d elements: give fewer values", MOST_ELEMENTS);
  }
  return SHOAL_OK;
}

/* ---- elements ---- */

static const char *value_of(const shoal_array *a, size_t element, size_t axis)
{
  for (size_t i = a->n_axes - 1; i > axis; i--) element /= a->axes[i].values.n;
  return a->axes[axis].values.at[element % a->axes[axis].values.n];
}

/* "daso-lr0.1-seed3": values, behind the last part of the option's name where a value alone says too little. */
static char *name_of(const shoal_array *a, size_t element)
{
  shoal_str name = { 0 };
  for (size_t i = 0; i < a->n_axes; i++) {
    const char *key = a->axes[i].key, *dot = strrchr(key, '.'), *last = dot ? dot + 1 : key;
    shoal_str_add(&name, "%s%s%s", i ? "-" : "", strcmp(last, "name") == 0 ? "" : last, value_of(a, element, i));
  }
  for (char *c = name.text; *c; c++)
    if (!isalnum((unsigned char)*c) && !strchr("._-", *c)) *c = '_';
  return name.text;
}

/* The options of an element.  `named`: with its folder, which the array's must be known for. */
static shoal_status configure(const shoal_array *a, size_t element, bool named, shoal_config **out)
{
  shoal_texts sets = { 0 };
  shoal_status st = SHOAL_OK;
  const char *method = NULL;
  for (size_t i = 0; i < a->sets.n && st == SHOAL_OK; i++) st = shoal_texts_add(&sets, a->sets.at[i]);
  for (size_t i = 0; i < a->n_axes && st == SHOAL_OK; i++) {
    if (strcmp(a->axes[i].key, "method.name") == 0) method = value_of(a, element, i);
    st = shoal_texts_take(&sets, shoal_strdup_printf("%s=%s", a->axes[i].key, value_of(a, element, i)));
  }
  if (named && st == SHOAL_OK) st = shoal_texts_take(&sets, shoal_strdup_printf("run.dir=%s", a->dir));
  if (named && st == SHOAL_OK) st = shoal_texts_take(&sets, shoal_strdup_printf("run.name=%s", a->names.at[element]));
  if (st == SHOAL_OK) st = shoal_run_configure_as(method, a->run_file, (const char *const *)sets.at, sets.n, out);
  shoal_texts_free(&sets);
  return st;
}

static shoal_status check_name(const char *dir, const char *name)
{
  shoal_folder f;
  SHOAL_TRY(shoal_folder_name(dir, name, &f));
  shoal_folder_release(&f);
  return SHOAL_OK;
}

static shoal_status find_dir(shoal_array *a)
{
  shoal_config *c;
  SHOAL_TRY(configure(a, 0, false, &c));
  a->dir = shoal_strdup_printf("%s/%s-array", shoal_config_string(c, "run.dir"), shoal_config_string(c, "run.name"));
  shoal_config_destroy(c);
  return SHOAL_OK;
}

static shoal_status resolve_element(shoal_array *a, size_t i)
{
  shoal_config *c;
  shoal_str text = { 0 };
  char *name = name_of(a, i);
  bool twice = shoal_texts_have(&a->names, name);
  SHOAL_TRY(shoal_texts_take(&a->names, name));
  SHOAL_CHECK(!twice, SHOAL_ERR_USAGE, "two elements of the array would both be %s/%s: give each value once", a->dir,
              name);
  SHOAL_TRY(check_name(a->dir, name));
  SHOAL_TRY(configure(a, i, true, &c));
  shoal_str_add(&text, "# Element of an array of %s:", a->run_file ? a->run_file : "runs");
  for (size_t k = 0; k < a->n_axes; k++) shoal_str_add(&text, " %s=%s", a->axes[k].key, value_of(a, i, k));
  shoal_str_add(&text, "\n");
  shoal_config_print(c, &text);
  shoal_config_destroy(c);
  return shoal_texts_take(&a->texts, text.text);
}

shoal_status shoal_array_resolve(shoal_array *a)
{
  SHOAL_TRY(find_dir(a));
  for (size_t i = 0; i < a->n; i++) SHOAL_TRY(resolve_element(a, i));
  return SHOAL_OK;
}

char *shoal_array_folder(const shoal_array *a, size_t i)
{
  return shoal_path_join(a->dir, a->names.at[i]);
}

char *shoal_array_file(const shoal_array *a, size_t i)
{
  return shoal_strdup_printf("%s/%s.yaml", a->dir, a->names.at[i]);
}

shoal_status shoal_array_write(const shoal_array *a, shoal_texts *made)
{
  shoal_status st = SHOAL_OK;
  for (int write = 0; write <= 1 && st == SHOAL_OK; write++) { /* all are checked before the first is made */
    if (write) st = shoal_made_dirs(a->dir, made);
    for (size_t i = 0; i < a->n && st == SHOAL_OK; i++) {
      char *path = shoal_array_file(a, i);
      shoal_str text = { .text = a->texts.at[i], .len = strlen(a->texts.at[i]) };
      if (!write)
        st = shoal_check_run_file(path, &text, a->run_file ? a->run_file : "this command", a->dir);
      else if (!shoal_path_exists(path))
        st = shoal_made_file(path, &text, made);
      free(path);
    }
  }
  return st;
}

void shoal_array_free(shoal_array *a)
{
  for (size_t i = 0; i < a->n_axes; i++) {
    free(a->axes[i].key);
    shoal_texts_free(&a->axes[i].values);
  }
  free(a->axes);
  free(a->dir);
  shoal_texts_free(&a->sets);
  shoal_texts_free(&a->names);
  shoal_texts_free(&a->texts);
  *a = (shoal_array){ .n = 0 };
}
