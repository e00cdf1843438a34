/* shoal methods, models, config, --version: the built-in methods, models and options. */
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "comm/group.h"
#include "h5/h5.h"
#include "nn/text.h"
#include "tensor/backend.h"
#include "train/options.h"
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const shoal_flag flags[] = {
  { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "for scripts" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};

static void print_table(const shoal_option_table *table, bool json)
{
  if (json) {
    shoal_json j = { .lines = 2, .out = stdout };
    shoal_json_object(&j, NULL);
    shoal_json_string(&j, "title", table->title);
    shoal_option_put_json(table, &j, "options");
    shoal_json_end(&j);
    shoal_json_finish(&j);
    return;
  }
  shoal_str s = { 0 };
  shoal_option_print(table, &s);
  if (s.text) fputs(s.text, stdout);
  shoal_str_free(&s);
}

static const char *method_name(size_t i)
{
  const shoal_method *const *methods;
  return i < shoal_methods(&methods) ? methods[i]->name : NULL;
}

const shoal_verb_help shoal_methods_help = {
  "shoal methods [NAME] [--json]",
  "The training methods; with a name, how it works, its options and its source.",
  flags,
  0,
  1,
  "  shoal methods sync\n",
  method_name,
};

static void put_method(shoal_json *j, const shoal_method *m)
{
  shoal_option_table table = { m->name, m->options };
  shoal_json_string(j, "name", m->name);
  shoal_json_string(j, "about", m->about);
  shoal_json_string(j, "explanation", m->explanation);
  shoal_json_string(j, "source", m->source);
  shoal_option_put_json(&table, j, "options");
}

static shoal_status explain_method(const char *name, bool json)
{
  const shoal_method *m = shoal_method_find(name);
  SHOAL_CHECK(m, SHOAL_ERR_USAGE, "there is no method \"%s\"; `shoal methods` lists them", name);
  if (json) {
    shoal_json j = { .lines = 2, .out = stdout };
    shoal_json_object(&j, NULL);
    put_method(&j, m);
    shoal_json_end(&j);
    shoal_json_finish(&j);
    return SHOAL_OK;
  }
  shoal_option_table table = { m->name, m->options };
  printf("%s: %s\n\n%s\n\nSource: %s\n\n", m->name, m->about, m->explanation, m->source);
  if (m->options) print_table(&table, false);
  return SHOAL_OK;
}

static void list_methods(bool json)
{
  const shoal_method *const *methods;
  size_t n = shoal_methods(&methods);
  shoal_json j = { .lines = 4, .out = stdout };
  if (!json) {
    for (size_t i = 0; i < n; i++)
      printf("%-10s %s\n           %s\n", methods[i]->name, methods[i]->about, methods[i]->source);
    return;
  }
  shoal_json_object(&j, NULL);
  shoal_json_array(&j, "methods");
  for (size_t i = 0; i < n; i++) {
    shoal_json_object(&j, NULL);
    put_method(&j, methods[i]);
    shoal_json_end(&j);
  }
  shoal_json_end(&j);
  shoal_json_end(&j);
  shoal_json_finish(&j);
}

shoal_status shoal_cmd_methods(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&shoal_methods_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words;
  bool json = shoal_json_wanted(a);
  shoal_status st = SHOAL_OK;
  if (shoal_args_words(a, &words))
    st = explain_method(words[0], json);
  else
    list_methods(json);
  shoal_args_destroy(a);
  return st;
}

const char *shoal_model_name(size_t i)
{
  const shoal_model_entry *models;
  return i < shoal_models(&models) ? models[i].name : NULL;
}

static const shoal_flag models_flags[] = {
  { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "for scripts" },
  { "--yaml", NULL, NULL, SHOAL_FLAG_SWITCH, "the network as model.file describes one, to be changed" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
const shoal_verb_help shoal_models_help = {
  "shoal models [NAME|NETWORK.yaml] [--json|--yaml]",
  "The networks; with a name, its layers for a typical input, and its options; with a file, the layers that it "
  "describes.",
  models_flags,
  0,
  1,
  "  shoal models resnet20\n  shoal models resnet20 --yaml > net.yaml\n  shoal models net.yaml\n",
  shoal_model_name,
};

/* Whether a network can be built of the options' defaults. */
static bool has_typical(const shoal_model_entry *e)
{
  for (const shoal_option *o = e->options; o && o->name; o++)
    if (!o->default_text) return false;
  return true;
}

/* The network for a typical input: 10 classes of digits or small colour images. */
static shoal_status build_typical(const shoal_model_entry *e, shoal_model **out)
{
  char *model = shoal_strdup_printf("model.name=%s", e->name);
  const char *sets[] = { "data.file=none", model };
  shoal_config *c;
  shoal_status st = shoal_run_configure(NULL, sets, SHOAL_COUNT(sets), &c);
  free(model);
  SHOAL_TRY(st);
  st = e->build(c, &e->typical, e->typical_classes, out);
  shoal_config_destroy(c);
  return st;
}

static void put_model(shoal_json *j, const char *key, const shoal_model_entry *e, const shoal_model *m)
{
  shoal_option_table table = { e->name, e->options };
  shoal_json_object(j, key);
  shoal_json_string(j, "name", e->name);
  shoal_json_string(j, "about", e->about);
  shoal_json_string(j, "source", e->source);
  if (m) shoal_json_uint(j, "weights", m->weights); /* for the typical input */
  shoal_option_put_json(&table, j, "options");
  shoal_json_end(j);
}

static void explain_built(const shoal_model_entry *e, const shoal_model *m)
{
  shoal_str s = { 0 };
  shoal_option_table table = { e->name, e->options };
  if (m) shoal_model_print(m, &s);
  printf("%s: %s\n\n%s%sSource: %s\n\n", e->name, e->about, m ? s.text : "", m ? "\n" : "", e->source);
  shoal_str_free(&s);
  if (e->options) print_table(&table, false);
}

static void print_network(const shoal_model *m, bool yaml)
{
  shoal_str s = { 0 };
  if (yaml)
    shoal_model_add_text(m, &s);
  else
    shoal_model_print(m, &s);
  fputs(s.text, stdout);
  shoal_str_free(&s);
}

static shoal_status explain_file(const char *path, bool yaml)
{
  shoal_model *m;
  SHOAL_TRY(shoal_model_from_file(path, NULL, 0, &m));
  print_network(m, yaml);
  shoal_model_destroy(m);
  return SHOAL_OK;
}

static shoal_status explain_model(const char *name, bool json, bool yaml)
{
  const shoal_model_entry *e = shoal_model_find(name);
  shoal_json j = { .lines = 2, .out = stdout };
  shoal_model *m = NULL;
  if (!e && strstr(name, ".y")) return explain_file(name, yaml);
  SHOAL_CHECK(e, SHOAL_ERR_USAGE, "there is no model \"%s\"; `shoal models` lists them", name);
  SHOAL_CHECK(!yaml || has_typical(e), SHOAL_ERR_USAGE, "--yaml: name the file, `shoal models net.yaml --yaml`");
  if (has_typical(e)) SHOAL_TRY(build_typical(e, &m));
  if (yaml)
    print_network(m, true);
  else if (json)
    put_model(&j, NULL, e, m);
  else
    explain_built(e, m);
  shoal_json_finish(&j);
  shoal_model_destroy(m);
  return SHOAL_OK;
}

static shoal_status list_models(bool json)
{
  const shoal_model_entry *entries;
  size_t n = shoal_models(&entries);
  shoal_json j = { .lines = 4, .out = stdout };
  shoal_status st = SHOAL_OK;
  if (!json) {
    for (size_t i = 0; i < n; i++)
      printf("%-10s %s\n           %s\n", entries[i].name, entries[i].about, entries[i].source);
    return SHOAL_OK;
  }
  shoal_json_object(&j, NULL);
  shoal_json_array(&j, "models");
  for (size_t i = 0; i < n && st == SHOAL_OK; i++) {
    shoal_model *m = NULL;
    if (has_typical(&entries[i])) st = build_typical(&entries[i], &m);
    if (st == SHOAL_OK) put_model(&j, NULL, &entries[i], m);
    shoal_model_destroy(m);
  }
  shoal_json_end(&j);
  shoal_json_end(&j);
  shoal_json_finish(&j);
  return st;
}

shoal_status shoal_cmd_models(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&shoal_models_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words;
  bool json = shoal_json_wanted(a), yaml = shoal_args_on(a, "--yaml");
  shoal_status st;
  if (json && yaml)
    st = SHOAL_FAIL(SHOAL_ERR_USAGE, "--json and --yaml: choose one");
  else if (shoal_args_words(a, &words))
    st = explain_model(words[0], json, yaml);
  else
    st = yaml ? SHOAL_FAIL(SHOAL_ERR_USAGE, "--yaml: say which network, `shoal models resnet20 --yaml`")
              : list_models(json);
  shoal_args_destroy(a);
  return st;
}

const shoal_verb_help shoal_config_help = {
  "shoal config [SECTION|RUN.yaml] [--json]",
  "Every option of a run file with type, default and range; of one section (optim, data, ...); or, given a run file,\n"
  "the resolved form of that file.",
  flags,
  0,
  1,
  "  shoal config optim\n  shoal config digits.yaml\n",
};

/* The rows of one section, as a table of their own. */
static shoal_status print_section(const char *section, bool json)
{
  shoal_option_table tables[SHOAL_TABLES];
  size_t n = shoal_run_tables(NULL, NULL, tables), found = 0;
  shoal_option rows[128];
  for (size_t t = 0; t < n; t++)
    for (const shoal_option *o = tables[t].options; o->name && found < 127; o++)
      if (!section || (strncmp(o->name, section, strlen(section)) == 0 && strchr(".", o->name[strlen(section)])))
        rows[found++] = *o;
  SHOAL_CHECK(found, SHOAL_ERR_USAGE, "there is no section \"%s\"; `shoal config` prints them all", section);
  rows[found] = (shoal_option){ 0 };
  shoal_option_table one = { section ? section : "run file", rows };
  print_table(&one, json);
  if (!section && !json) printf("\nmodel.* and method.*: see `shoal models NAME` and `shoal methods NAME`.\n");
  return SHOAL_OK;
}

static shoal_status print_resolved(const char *path)
{
  shoal_config *c;
  SHOAL_TRY(shoal_run_configure(path, NULL, 0, &c));
  shoal_str s = { 0 };
  shoal_config_print(c, &s);
  fputs(s.text, stdout);
  shoal_str_free(&s);
  shoal_config_destroy(c);
  return SHOAL_OK;
}

shoal_status shoal_cmd_config(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&shoal_config_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words;
  bool json = shoal_json_wanted(a), one = shoal_args_words(a, &words) > 0;
  shoal_status st =
      one && strstr(words[0], ".y") ? print_resolved(words[0]) : print_section(one ? words[0] : NULL, json);
  shoal_args_destroy(a);
  return st;
}

static const shoal_flag version_flags[] = {
  { "--verbose", NULL, NULL, SHOAL_FLAG_SWITCH,
    "with --version: each library, the version compiled against and the one loaded" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
const shoal_verb_help shoal_version_help = { "shoal --version [--verbose]", "The version.", version_flags, 0, 0, NULL };

shoal_status shoal_cmd_version(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&shoal_version_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  printf("shoal %s\n", SHOAL_VERSION);
  if (shoal_args_on(a, "--verbose")) {
    unsigned hw = hwloc_get_api_version();
    char hdf5[64];
    shoal_h5_versions(hdf5, sizeof hdf5);
    printf("  %s\n  %s\n", shoal_world_library(), hdf5);
    printf("  hwloc API %x.%x.%x (compiled %x.%x.%x)\n", hw >> 16, hw >> 8 & 0xff, hw & 0xff, HWLOC_API_VERSION >> 16,
           HWLOC_API_VERSION >> 8 & 0xff, HWLOC_API_VERSION & 0xff);
    static const char *const names[] = { "ref", "cpu", "cuda" };
    for (size_t i = 0; i < SHOAL_COUNT(names); i++)
      printf("  backend %s: %s\n", names[i], shoal_backend_versions(names[i]));
  }
  shoal_args_destroy(a);
  return SHOAL_OK;
}
