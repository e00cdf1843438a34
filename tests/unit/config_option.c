/* Settings and configs: what a run file may say, what is refused with which words, which source wins, and that the
 * printed config reads back to itself. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "check.h"
#include "config/option.h"
#include <unistd.h>

static const shoal_option run_options[] = {
  { "run.name", SHOAL_OPT_STRING, "", NULL, NULL, "Name of the run.", NULL },
  { "run.seed", SHOAL_OPT_INT, "1", NULL, "[0,inf)", "Seed of every random number.", NULL },
  { "run.epochs", SHOAL_OPT_INT, "10", "epochs", "[1,100000]", "How often the data is seen.", NULL },
  { "data.batch", SHOAL_OPT_INT, "64", "samples", "[1,65536]", "Samples per replica and step.", NULL },
  { "data.global_batch", SHOAL_OPT_INT, "", "samples", "[1,inf)", "Samples of all replicas together.", NULL },
  { "data.augment", SHOAL_OPT_WORDS, "", NULL, "crop4|hflip|cutout", "Changes made to training images.", NULL },
  { "model.widths", SHOAL_OPT_INTS, "[4096, 4096]", "units", "[1,1048576]", "Widths of the hidden layers.", NULL },
  { "optim.lr", SHOAL_OPT_FLOAT, "0.1", NULL, "(0,inf)", "Learning rate.", NULL },
  { "optim.momentum", SHOAL_OPT_FLOAT, "0.9", NULL, "[0,1)", "Momentum.", NULL },
  { "optim.weight_decay", SHOAL_OPT_FLOAT, "0", NULL, "[0,inf)", "Decay of the weights.", NULL },
  { "optim.nesterov", SHOAL_OPT_BOOL, "false", NULL, NULL, "Look ahead.", "Nesterov 1983" },
  { "optim.schedule", SHOAL_OPT_ENUM, "constant", NULL, "constant|step|cosine", "How the rate changes.", NULL },
  { "optim.decays", SHOAL_OPT_FLOATS, "", NULL, "(0,1)", "Points where the rate falls.", NULL,
    .when = "optim.schedule=step|cosine" },
  { "ckpt.every", SHOAL_OPT_PERIOD, "10min", NULL, NULL, "How often to save.", NULL },
  { "device", SHOAL_OPT_ENUM, "auto", NULL, "cpu|cuda|auto", "Where to compute.", NULL },
  { 0 },
};
static const shoal_option method_options[] = {
  { "method.name", SHOAL_OPT_ENUM, NULL, NULL, "sync|daso|ist", "The way the ranks talk.", NULL },
  { "method.warmup_epochs", SHOAL_OPT_INT, "0", "epochs", "[0,inf)", "Epochs of plain averaging.",
    "Coquelin et al. 2021" },
  { 0 },
};
static const shoal_option_table tables[] = { { "run", run_options }, { "method", method_options } };

static shoal_settings *settings_of(const char *yaml)
{
  shoal_settings *s = NULL;
  REQUIRE(shoal_settings_create(&s) == SHOAL_OK, "settings");
  CHECK_OK(shoal_settings_read_text(s, yaml, "run.yaml"), "%s", yaml);
  return s;
}

static shoal_config *config_of(const shoal_settings *s)
{
  shoal_config *c = NULL;
  REQUIRE(shoal_config_create(s, tables, SHOAL_COUNT(tables), &c) == SHOAL_OK, "config: %s", check_error());
  return c;
}

/* Everything the failing call prints on stderr, to count and compare the faults. */
static const char *faults_with(const shoal_settings *s, const shoal_option_table *with, size_t n_tables)
{
  static char text[16384];
  shoal_config *c = NULL;
  fflush(stderr);
  int saved = dup(2);
  FILE *file = tmpfile();
  REQUIRE(saved >= 0, "temporary file");
  REQUIRE(file, "temporary file");
  dup2(fileno(file), 2);
  shoal_status st = shoal_config_create(s, with, n_tables, &c);
  shoal_error_report(st);
  fflush(stderr);
  dup2(saved, 2);
  ssize_t n = pread(fileno(file), text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = '\0';
  close(saved);
  fclose(file);
  if (st == SHOAL_OK) shoal_config_destroy(c);
  CHECK_EQ(st == SHOAL_OK, !strstr(text, "error"), "status %d with: %s", st, text);
  CHECK(st == SHOAL_OK || (st == SHOAL_ERR_USAGE && !c));
  return text;
}

static const char *faults_of(const shoal_settings *s)
{
  return faults_with(s, tables, SHOAL_COUNT(tables));
}

static int count_lines(const char *text)
{
  int n = 0;
  for (; *text; text++) n += *text == '\n';
  return n;
}

/* --- reading --------------------------------------------------------------------------------------------------- */

static void test_types(void)
{
  shoal_settings *s = settings_of("run:    { name: cifar-daso, seed: 3, epochs: 30 }\n"
                                  "data:\n"
                                  "  batch: 128\n"
                                  "  augment: [crop4, hflip]\n"
                                  "model:  { widths: [10, 20, 30] }\n"
                                  "optim:\n"
                                  "  lr: 5e-4   # a comment\n"
                                  "  nesterov: yes\n"
                                  "  schedule: \"cosine\"\n"
                                  "  decays: [0.5, 0.75]\n"
                                  "method: { name: daso, warmup_epochs: 2 }\n"
                                  "ckpt: { every: 200 steps }\n"
                                  "device: cpu\n");
  const int64_t *ints;
  const double *floats;
  const char *const *words;
  CHECK_STR(shoal_settings_get(s, "method.name"), "daso");
  CHECK(!shoal_settings_get(s, "optim.momentum"));
  CHECK(!shoal_settings_get(s, "optim"));
  shoal_config *c = config_of(s);
  CHECK_STR(shoal_config_string(c, "run.name"), "cifar-daso");
  CHECK_EQ(shoal_config_int(c, "run.seed"), 3);
  CHECK_EQ(shoal_config_int(c, "data.batch"), 128);
  if (CHECK_EQ(shoal_config_words(c, "data.augment", &words), 2)) CHECK_STR(words[1], "hflip");
  if (CHECK_EQ(shoal_config_ints(c, "model.widths", &ints), 3)) {
    CHECK_EQ(ints[0], 10);
    CHECK_EQ(ints[2], 30);
  }
  if (CHECK_EQ(shoal_config_floats(c, "optim.decays", &floats), 2)) {
    CHECK_EQ(floats[0], 0.5);
    CHECK_EQ(floats[1], 0.75);
  }
  CHECK_EQ(shoal_config_float(c, "optim.lr"), 5e-4);
  CHECK_EQ(shoal_config_float(c, "optim.momentum"), 0.9);
  CHECK(shoal_config_bool(c, "optim.nesterov"));
  CHECK_STR(shoal_config_string(c, "optim.schedule"), "cosine");
  CHECK_STR(shoal_config_string(c, "device"), "cpu");
  shoal_period p = shoal_config_period(c, "ckpt.every");
  CHECK_EQ(p.value, 200);
  CHECK_EQ(p.unit, SHOAL_PER_STEPS);
  CHECK_EQ(shoal_config_int(c, "data.global_batch"), 0);
  CHECK(!shoal_config_given(c, "data.global_batch"));
  CHECK(shoal_config_given(c, "data.batch"));
  CHECK(!shoal_config_given(c, "optim.momentum"));
  CHECK(shoal_config_has(c, "device"));
  CHECK(!shoal_config_has(c, "method.age"));
  CHECK_STR(shoal_config_origin(c, "optim.lr"), "run.yaml:7");
  CHECK_STR(shoal_config_origin(c, "optim.momentum"), "default");
  shoal_config_destroy(c);
  shoal_settings_destroy(s);
  shoal_config_destroy(NULL);
  shoal_settings_destroy(NULL);
}

static void test_short_forms(void)
{
  shoal_settings *s =
      settings_of("method: daso\noptim.lr: 0.5\nmodel: { widths: 7 }\ndata: { augment: hflip, batch: }\n");
  const int64_t *ints;
  const char *const *words;
  CHECK_STR(shoal_settings_get(s, "method.name"), "daso");
  CHECK_HAS(faults_of(s), "run.yaml:4:25: data.batch is \"\": must be an integer in [1,65536], for example 64");
  CHECK_OK(shoal_settings_set(s, "data.batch=3", "--set"));
  shoal_config *c = config_of(s);
  CHECK_STR(shoal_config_string(c, "method.name"), "daso");
  CHECK(shoal_config_given(c, "method.name"));
  CHECK_EQ(shoal_config_float(c, "optim.lr"), 0.5);
  if (CHECK_EQ(shoal_config_ints(c, "model.widths", &ints), 1)) CHECK_EQ(ints[0], 7);
  if (CHECK_EQ(shoal_config_words(c, "data.augment", &words), 1)) CHECK_STR(words[0], "hflip");
  shoal_config_destroy(c);

  CHECK_OK(shoal_settings_set(s, "method=ist", "--set"));
  CHECK_OK(shoal_settings_set(s, "method.name=sync", "--set"));
  CHECK_STR(shoal_settings_get(s, "method.name"), "sync", "the later flag wins in either form");
  CHECK_OK(shoal_settings_set(s, "method=ist", "--set"));
  CHECK_STR(shoal_settings_get(s, "method.name"), "ist", "the later flag wins in either form");
  shoal_settings_destroy(s);
}

static void test_empty_files(void)
{
  static const char *const empty[] = { "",     "# only a comment\n", "---\n",         "---\n...\n",
                                       "{}\n", "run:\n  {}\n",       "\xef\xbb\xbf\n" };
  for (size_t i = 0; i < SHOAL_COUNT(empty); i++) {
    shoal_settings *s = settings_of(empty[i]);
    CHECK_OK(shoal_settings_set(s, "method=sync", "--set"));
    shoal_config_destroy(config_of(s));
    shoal_settings_destroy(s);
  }
}

static void test_refused_yaml(void)
{
  static const struct {
    const char *yaml, *message;
  } bad[] = {
    { "optim: { lr: 0.1\nrun: 3\n", "run.yaml:2:4: not valid YAML: " },
    { "optim:\n\tlr: 0.1\n", "not valid YAML" },
    { "a: b: c\n", "run.yaml:1:5: not valid YAML: " },
    { "optim:\n  lr: 0.1\n  lr: 0.2\n", "run.yaml:3:3: optim.lr is given twice; keep one of the two" },
    { "optim:\n  lr: 0.1\nrun:\n  seed: 1\noptim:\n  momentum: 0\n", "run.yaml:5:1: optim is given twice" },
    { "optim:\n  lr: 0.1\noptim.lr: 0.2\n", "run.yaml:3:1: optim.lr is given twice" },
    { "run: { seed: &x 3 }\ndata: { batch: *x }\n", "run.yaml:1:17: run.seed uses a YAML anchor (&)" },
    { "run: &r { seed: 3 }\n", "run uses a YAML anchor (&)" },
    { "data: { batch: *x }\n", "run.yaml:1:16: data.batch uses a YAML alias (*)" },
    { "run: { seed: !!int 3 }\n", "run.seed has a YAML tag (!)" },
    { "model: { widths: [1, [2, 3]] }\n", "run.yaml:1:22: model.widths holds a list inside a list; lists are flat" },
    { "model:\n  widths:\n  - { a: 1 }\n", "run.yaml:3:5: model.widths holds a map inside a list" },
    { "- a\n- b\n", "run.yaml:1:1: expected sections" },
    { "hello\n", "run.yaml:1:1: expected sections" },
    { "run: { seed: 1 }\n---\nrun: { seed: 2 }\n", "run.yaml:2:1: a second YAML document" },
    { "? [a, b]\n: 3\n", "a key must be a plain word" },
    { "run:\n  name: caf\xe9\n", "run.yaml:2:12: byte 0xe9 is a control character or not UTF-8" },
    { "run: { name: a\x1b[31m }\n", "run.yaml:1:15: byte 0x1b" },
    { "run: { name: \"a\\u0007\" }\n", "run.yaml:1:14: run.name contains a control character" },
    { "run: { name: \"a\\0b\" }\n", "run.name contains a control character" },
  };
  for (size_t i = 0; i < SHOAL_COUNT(bad); i++) {
    shoal_settings *s = NULL;
    CHECK_OK(shoal_settings_create(&s));
    shoal_status st = shoal_settings_read_text(s, bad[i].yaml, "run.yaml");
    CHECK_STATUS(st, SHOAL_ERR_USAGE, "case %zu", i);
    CHECK_HAS(check_error(), bad[i].message, "case %zu", i);
    shoal_settings_destroy(s);
  }
  shoal_settings *s = NULL;
  CHECK_OK(shoal_settings_create(&s));
  CHECK_NE(shoal_settings_read_text(s, "optim:\n\tlr: 0.1\n", "x"), SHOAL_OK);
  CHECK_HAS(check_error(), "indent with spaces, not tabs");
  CHECK_STATUS(shoal_settings_read(s, "/no/such/run.yaml"), SHOAL_ERR_IO);
  CHECK_STATUS(shoal_settings_set(s, "optim.lr", "--set"), SHOAL_ERR_USAGE);
  CHECK_STATUS(shoal_settings_set(s, "=3", "--set"), SHOAL_ERR_USAGE);
  shoal_settings_destroy(s);
}

/* Settings survive any bytes: every prefix and many one-byte changes of a good file either read or are refused. */
static void test_damaged_files(void)
{
  static const char good[] =
      "run: { name: \"a b\", seed: 1 }\noptim:\n  lr: 0.1 # c\ndata:\n  augment:\n  - crop4\n  - 'x'\n"
      "method: |\n  text\n  more\n";
  char text[sizeof good];
  for (uint64_t i = 0; i < 2000; i++) {
    shoal_rng_block r = shoal_rng(11, SHOAL_RNG_TEST, i, 0);
    memcpy(text, good, sizeof good);
    if (i < sizeof good)
      text[i] = '\0';
    else
      for (int k = 0; k < 2; k++)
        text[r.v[k] % (sizeof good - 1)] =
            (char)(r.v[k] >> 16 & 1 ? "&*!{}[],:-#\t\n\"'|>%@?"[r.v[k] >> 20 & 15] : (char)(r.v[k] >> 24));
    shoal_settings *s = NULL;
    CHECK_OK(shoal_settings_create(&s));
    shoal_status st = shoal_settings_read_text(s, text, "damaged");
    CHECK(st == SHOAL_OK || st == SHOAL_ERR_USAGE, "%s for: %s", shoal_status_name(st), text);
    shoal_settings_destroy(s);
  }
}

/* Files of 250 KB and 600 KB that would take minutes if they were read to the end: names are compared with each other. */
static void test_excess(void)
{
  enum { KEYS = 60000 };
  for (int nested = 0; nested < 2; nested++) {
    shoal_str text = { 0 };
    shoal_settings *s = NULL;
    for (int i = 0; i < KEYS; i++)
      if (nested)
        shoal_str_add(&text, "{a: ");
      else
        shoal_str_add(&text, "k%d: 1\n", i);
    CHECK_OK(shoal_settings_create(&s));
    shoal_status st = shoal_settings_read_text(s, text.text, "run.yaml");
    CHECK_STATUS(st, SHOAL_ERR_USAGE);
    CHECK(strstr(shoal_error_text(st), nested
                                           ? "run.yaml:1:66: a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a: more than 16 sections"
                                           : "run.yaml:2001:1: more than 2000 keys"),
          "%s", shoal_error_text(st));
    shoal_settings_destroy(s);
    shoal_str_free(&text);
  }
}

/* --- checking -------------------------------------------------------------------------------------------------- */

static void test_faults(void)
{
  static const struct {
    const char *yaml, *line;
  } bad[] = {
    { "optim:\n  momentum: 0.5\n  lr: \"abc\"\n",
      "error: run.yaml:3:7: optim.lr is \"abc\": must be a number in (0,inf), for example 0.1\n" },
    { "optim: { lr: 0 }\n", "run.yaml:1:14: optim.lr is \"0\": must be a number in (0,inf)" },
    { "optim: { lr: 1e-50 }\n", "optim.lr is \"1e-50\", which is 0 as a 32-bit float (these hold 1.4e-45 to 3.4e38): "
                                "must be a number in (0,inf)" },
    { "optim: { lr: 1e39 }\n", "optim.lr is \"1e39\", which is inf as a 32-bit float" },
    { "optim: { momentum: 0.99999999999 }\n",
      "which is 1 as a 32-bit float (these hold 7 digits): must be a number in [0,1)" },
    { "run: { epochs: 1e2 }\n", "run.epochs is \"1e2\": must be an integer in [1,100000]; write 100\n" },
    { "run: { seed: 18446744073709551616 }\n",
      "\"18446744073709551616\", and the largest integer is 9223372036854775807" },
    { "optim: { lr: .inf }\n", "optim.lr is \".inf\": must be" },
    { "optim: { momentum: 1 }\n", "optim.momentum is \"1\": must be a number in [0,1), for example 0.9\n" },
    { "optim: { momentum: -0.0001 }\n", "optim.momentum is \"-0.0001\"" },
    { "run: { epochs: 0 }\n", "run.epochs is \"0\": must be an integer in [1,100000]" },
    { "run: { epochs: 100001 }\n", "run.epochs is \"100001\"" },
    { "run: { epochs: 1.5 }\n", "run.epochs is \"1.5\"" },
    { "run: { epochs: [1, 2] }\n", "run.epochs is \"[1, 2]\": must be an integer" },
    { "optim: { nesterov: maybe }\n", "optim.nesterov is \"maybe\": must be true or false, for example false\n" },
    { "optim: { schedule: cosin }\n",
      "optim.schedule is \"cosin\": must be one of constant, step, cosine; did you mean cosine?\n" },
    { "ckpt: { every: 10 ms }\n", "ckpt.every is \"10 ms\": must be a period such as 10min" },
    { "data: { augment: [crop4, hfilp] }\n",
      "run.yaml:1:18: data.augment item 2 is \"hfilp\": must be one of crop4, hflip, cutout; did you mean hflip?" },
    { "model: { widths: [1, 0, x] }\n", "model.widths item 3 is \"x\": must be an integer in [1,1048576]" },
    { "optim:\n  leraning_rate: 3\n",
      "error: run.yaml:2:3: unknown key optim.leraning_rate; did you mean optim.lr?\n" },
    { "optim: { momentun: 0 }\n", "unknown key optim.momentun; did you mean optim.momentum?" },
    { "optim: { wd: 0 }\n", "unknown key optim.wd; did you mean optim.weight_decay?" },
    { "optm: { lr: 0 }\n", "unknown key optm.lr; did you mean optim.lr?" },
    { "optm: { learning_rate: 0 }\n", "unknown key optm.learning_rate; did you mean optim.lr?" },
    { "methd: daso\n", "unknown key methd; did you mean method?" },
    { "devise: cpu\n", "unknown key devise; did you mean device?" },
    { "train: { epochs: 3 }\n", "unknown key train.epochs; did you mean run.epochs?" },
    { "data: { zzzzzz: 3 }\n", "unknown key data.zzzzzz; known there: batch, global_batch, augment\n" },
    { "zzzzzz: { a: 3 }\n", "unknown key zzzzzz.a; known are: run, data, model, optim, ckpt, device, method\n" },
    { "optim: 3\n", "run.yaml:1:1: unknown key optim; it is a section, write for example optim.lr" },
    { "device: { name: cpu }\n", "unknown key device.name; device takes one value, not a section" },
    { "method: dasu\n", "run.yaml:1:9: method.name is \"dasu\": must be one of sync, daso, ist; did you mean daso?" },
    { "{}",
      "method.name is missing: give it in the run file or by --set method.name=...; it is one of sync, daso, ist" },
  };
  for (size_t i = 0; i < SHOAL_COUNT(bad); i++) {
    shoal_settings *s = settings_of(bad[i].yaml);
    const char *text = faults_of(s);
    CHECK_HAS(text, bad[i].line, "case %zu", i);
    shoal_settings_destroy(s);
  }
}

/* The last part of a name first, in all sections; hooks of tests to nobody; options of another method by its name; and
 * what to write for "off". */
static void test_cures(void)
{
  static const shoal_option options[] = {
    { "run.epochs", SHOAL_OPT_INT, "10", NULL, "[1,100000]", "Epochs.", NULL },
    { "run.log_every", SHOAL_OPT_PERIOD, "10s", NULL, "never", "Lines.", NULL },
    { "data.batch", SHOAL_OPT_INT, "64", NULL, "[1,65536]", "Batch.", NULL },
    { "data.augment", SHOAL_OPT_WORDS, "", NULL, "crop4|hflip", "Changes.", NULL },
    { "eval.batch", SHOAL_OPT_INT, "64", NULL, "[1,65536]", "Batch.", NULL },
    { "comm.hang", SHOAL_OPT_PERIOD, "10min", NULL, NULL, "Hang.", NULL },
    { "trace.level", SHOAL_OPT_ENUM, "step", NULL, "off|step", "Trace.", NULL },
    { "fault.lr", SHOAL_OPT_FLOAT, "1", NULL, NULL, "A hook.", NULL },
    { "fault.jitter", SHOAL_OPT_FLOAT, "0", NULL, NULL, "A hook.", NULL },
    { "optim.name", SHOAL_OPT_ENUM, "sgd", NULL, "sgd|adamw", "Optimizer.", NULL },
    { "optim.lr", SHOAL_OPT_FLOAT, "0.1", NULL, "(0,inf)", "Rate.", NULL },
    { "optim.schedule", SHOAL_OPT_ENUM, "constant", NULL, "constant|step", "Rate.", NULL },
    { "method.every", SHOAL_OPT_INT, "1", NULL, "[1,inf)", "Of daso.", NULL },
    { 0 },
  };
  static const shoal_option sgd[] = { { "method.period", SHOAL_OPT_INT, "1", NULL, NULL, "Of two.", NULL },
                                      { "method.every", SHOAL_OPT_INT, "1", NULL, NULL, "Of daso, too.", NULL },
                                      { 0 } };
  static const shoal_option_table all[] = { { "run", options },
                                            { "local-sgd", sgd, "method", "daso" },
                                            { "swarm", sgd, "method", "daso" } };
  static const struct {
    const char *yaml, *line;
  } bad[] = {
    { "lr: 3\n", "run.yaml:1:1: unknown key lr; did you mean optim.lr?\n" },
    { "data: { lr: 3 }\n", "unknown key data.lr; did you mean optim.lr?\n" },
    { "epochs: 3\n", "unknown key epochs; did you mean run.epochs?\n" },
    { "num_epochs: 3\n", "unknown key num_epochs; did you mean run.epochs?\n" },
    { "batch: 3\n", "unknown key batch; did you mean data.batch or eval.batch?\n" },
    { "dat: { batch: 3 }\n", "unknown key dat.batch; did you mean data.batch?\n" },
    { "learning_rate: 3\n", "unknown key learning_rate; did you mean optim.lr?\n" },
    { "lr_schedule: 3\n", "unknown key lr_schedule; did you mean optim.schedule?\n" },
    { "optimizer: adamw\n", "unknown key optimizer; did you mean optim?\n" },
    { "jitter: 3\n", "unknown key jitter; known are: run, data, eval, comm, trace, optim, method\n" },
    { "run: { jiter: 3 }\n", "unknown key run.jiter; known there: epochs, log_every\n" },
    { "fault: { jiter: 3 }\n", "unknown key fault.jiter; did you mean fault.jitter?\n" },
    { "method: { period: 3 }\n",
      "run.yaml:1:11: method.period belongs to local-sgd, swarm; this run's method is daso\n" },
    { "period: 3\n", "unknown key period; method.period belongs to local-sgd, swarm; this run's method is daso\n" },
    { "run: { log_every: 0 }\n", " or never; to switch it off write never\n" },
    { "run: { log_every: }\n", "run.log_every is \"\": must be a period such as 10min" },
    { "run: { log_every: off }\n", "; to switch it off write never\n" },
    { "comm: { hang: never }\n", "; it cannot be switched off: for hardly ever write 1000h\n" },
    { "trace: { level: false }\n", "trace.level is \"false\": must be one of off, step; did you mean off?\n" },
    { "data: { augment: none }\n",
      "data.augment item 1 is \"none\": must be one of crop4, hflip; for none write []\n" },
  };
  for (size_t i = 0; i < SHOAL_COUNT(bad); i++) {
    shoal_settings *s = settings_of(bad[i].yaml);
    CHECK_HAS(faults_with(s, all, SHOAL_COUNT(all)), bad[i].line, "case %zu", i);
    shoal_settings_destroy(s);
  }
  shoal_settings *s = settings_of("run: { log_every: never }\nmethod: { every: 2 }\n");
  setenv("SHOAL_METHOD_PERIOD", "3", 1);
  const char *said = faults_with(s, all, SHOAL_COUNT(all));
  CHECK_HAS(said,
            "SHOAL_METHOD_PERIOD is ignored: method.period belongs to local-sgd, swarm; this run's method is daso\n");
  CHECK_EQ(count_lines(said), 1, "%s", said);
  unsetenv("SHOAL_METHOD_PERIOD");
  shoal_config *c = NULL;
  CHECK_OK(shoal_config_create(s, all, SHOAL_COUNT(all), &c));
  CHECK_EQ(shoal_config_period(c, "run.log_every").unit, SHOAL_PER_NEVER);
  shoal_str text = { 0 };
  shoal_config_print(c, &text);
  CHECK_HAS(text.text, "  log_every: never\n");
  shoal_str_free(&text);
  shoal_config_destroy(c);
  shoal_settings_destroy(s);
}

static void test_all_faults_told(void)
{
  shoal_settings *s =
      settings_of("optim: { lr: x, momentum: 2, leraning_rate: 3 }\nmodel: { widths: [0, -1] }\nnonsense: 1\n");
  CHECK_OK(shoal_settings_set(s, "data.batch=0", "--set"));
  const char *text = faults_of(s);
  CHECK_EQ(count_lines(text), 8, "%s", text); /* two keys, lr, momentum, two widths, batch, no method */
  CHECK_HAS(text, "--set: data.batch is \"0\"");
  shoal_settings_destroy(s);
}

/* A value that has no effect beside the others is an error, unless it is the value that applies anyway. */
static void test_values_that_do_nothing(void)
{
  shoal_settings *s = settings_of("method: sync\noptim:\n  decays: [0.5]\n");
  const char *text = faults_of(s);
  CHECK_STR(text, "shoal: error: run.yaml:3: optim.decays does nothing with optim.schedule constant: leave it out, or "
                  "set optim.schedule to step or cosine\n");
  CHECK_OK(shoal_settings_set(s, "optim.schedule=cosine", "--set"));
  CHECK(!*faults_of(s), "%s", faults_of(s));
  shoal_settings_destroy(s);
  s = settings_of("method: sync\noptim: { decays: [] }\n");
  CHECK(!*faults_of(s), "%s", faults_of(s));
  shoal_settings_destroy(s);
}

/* --- precedence ------------------------------------------------------------------------------------------------ */

static void test_precedence(void)
{
  const int64_t *ints;
  shoal_settings *s = settings_of("method: daso\nrun: { seed: 2, epochs: 2 }\ndata: { batch: 2 }\n");
  CHECK_OK(shoal_settings_set(s, "run.epochs = 4", "--set"));
  CHECK_OK(shoal_settings_set(s, "model.widths=[5, 6]", "--set"));
  setenv("SHOAL_RUN_EPOCHS", "3", 1);
  setenv("SHOAL_DATA_BATCH", "3", 1);
  setenv("SHOAL_DATA_AUGMENT", "crop4,cutout", 1);
  setenv("SHOAL_METHOD_NAME", "ist", 1);
  CHECK_OK(shoal_settings_read_text(s, "run: { epochs: 5 }\n", "later.yaml"));
  CHECK_STR(shoal_settings_get(s, "method.name"), "ist");
  shoal_config *c = config_of(s);
  CHECK_EQ(shoal_config_int(c, "run.seed"), 2, "the file beats the default");
  CHECK_EQ(shoal_config_int(c, "data.batch"), 3, "the environment beats the file");
  CHECK_EQ(shoal_config_int(c, "run.epochs"), 4, "the flag beats all, also a file that is read later");
  CHECK_STR(shoal_config_string(c, "method.name"), "ist");
  if (CHECK_EQ(shoal_config_ints(c, "model.widths", &ints), 2)) CHECK_EQ(ints[1], 6);
  CHECK_STR(shoal_config_origin(c, "run.epochs"), "--set");
  CHECK_STR(shoal_config_origin(c, "data.batch"), "SHOAL_DATA_BATCH");
  shoal_config_destroy(c);

  setenv("SHOAL_DATA_BATCH", "many", 1);
  CHECK_HAS(faults_of(s), "error: SHOAL_DATA_BATCH: data.batch is \"many\": must be an integer");
  unsetenv("SHOAL_DATA_BATCH");
  setenv("SHOAL_DATA_BACTH", "3", 1);
  setenv("SHOAL_SOMETHING_ELSE", "3", 1);
  const char *text = faults_of(s);
  CHECK_EQ(count_lines(text), 1);
  CHECK_HAS(text, "warning: the environment variable SHOAL_DATA_BACTH is unknown");
  CHECK_HAS(text, "did you mean SHOAL_DATA_BATCH?");
  unsetenv("SHOAL_DATA_BACTH");
  unsetenv("SHOAL_SOMETHING_ELSE");
  unsetenv("SHOAL_RUN_EPOCHS");
  unsetenv("SHOAL_DATA_AUGMENT");
  unsetenv("SHOAL_METHOD_NAME");
  shoal_settings_destroy(s);
}

/* Any spelling of a list from a flag; unset by an empty value. */
static void test_flag_lists(void)
{
  static const struct {
    const char *assignment;
    size_t n;
  } lists[] = { { "model.widths=", 0 },        { "model.widths=[]", 0 },  { "model.widths=7", 1 },
                { "model.widths= 7 , 8 ", 2 }, { "model.widths=[ ]", 0 }, { "model.widths=[1,2,3]", 3 } };
  const int64_t *ints;
  for (size_t i = 0; i < SHOAL_COUNT(lists); i++) {
    shoal_settings *s = settings_of("method: sync");
    CHECK_OK(shoal_settings_set(s, lists[i].assignment, "--set"));
    shoal_config *c = config_of(s);
    CHECK_EQ(shoal_config_ints(c, "model.widths", &ints), lists[i].n, "%s", lists[i].assignment);
    CHECK(shoal_config_given(c, "model.widths"));
    shoal_config_destroy(c);
    shoal_settings_destroy(s);
  }
  shoal_settings *s = settings_of("method: sync\nrun: { name: x }\ndata: { global_batch: 5 }\n");
  CHECK_OK(shoal_settings_set(s, "run.name=", "--set"));
  CHECK_OK(shoal_settings_set(s, "data.global_batch=", "--set"));
  shoal_config *c = config_of(s);
  CHECK(!*shoal_config_string(c, "run.name"));
  CHECK(!shoal_config_given(c, "run.name"));
  CHECK_EQ(shoal_config_int(c, "data.global_batch"), 0);
  CHECK(!shoal_config_given(c, "data.global_batch"));
  shoal_config_destroy(c);
  CHECK_OK(shoal_settings_set(s, "model.widths=1,,2", "--set"));
  CHECK_HAS(faults_of(s), "model.widths item 2 is \"\"");
  shoal_settings_destroy(s);
}

/* --- printing -------------------------------------------------------------------------------------------------- */

/* print -> read -> print gives the same text and the same hash. */
static uint32_t check_round_trip(const shoal_settings *s)
{
  shoal_str first = { 0 }, second = { 0 };
  shoal_config *c = config_of(s);
  shoal_config_print(c, &first);
  shoal_settings *again = settings_of(first.text);
  shoal_config *d = config_of(again);
  shoal_config_print(d, &second);
  CHECK_STR(first.text, second.text);
  uint32_t hash = shoal_config_hash(c, NULL);
  CHECK_EQ(hash, shoal_config_hash(d, NULL));
  CHECK_STR(shoal_config_string(c, "run.name"), shoal_config_string(d, "run.name"));
  CHECK_EQ(shoal_config_float(c, "optim.lr"), shoal_config_float(d, "optim.lr"));
  shoal_config_destroy(c);
  shoal_config_destroy(d);
  shoal_settings_destroy(again);
  shoal_str_free(&first);
  shoal_str_free(&second);
  return hash;
}

static void test_print(void)
{
  shoal_settings *s = settings_of("method: daso\nrun: { name: 'a: b' }\noptim: { lr: 1e-1 }\nckpt: { every: 600 s }\n"
                                  "data: { augment: [crop4] }\n");
  shoal_config *c = config_of(s);
  shoal_str text = { 0 };
  shoal_config_print(c, &text);
  CHECK_STR(text.text, "run:\n  name: \"a: b\"\n  seed: 1\n  epochs: 10\n"
                       "data:\n  batch: 64\n  global_batch: null\n  augment: [crop4]\n"
                       "model:\n  widths: [4096, 4096]\n"
                       "optim:\n  lr: 0.1\n  momentum: 0.9\n  weight_decay: 0\n  nesterov: false\n"
                       "  schedule: constant\n  decays: []\n"
                       "ckpt:\n  every: 10min\ndevice: auto\n"
                       "method:\n  name: daso\n  warmup_epochs: 0\n");
  shoal_str_free(&text);
  shoal_config_destroy(c);
  shoal_settings_destroy(s);
}

static void test_round_trips(void)
{
  static const char *const values[] = {
    "run.name=true",
    "run.name=12",
    "run.name=1e5",
    "run.name=null",
    "run.name=~",
    "run.name=- a",
    "run.name=a # b",
    "run.name=[x]",
    "run.name={x: y}",
    "run.name=\"q\" 'r' \\ s",
    "run.name=a\nb\n\tc",
    "run.name=#x",
    "run.name=&x",
    "run.name=*x",
    "run.name=: ",
    "run.name=é ü 漢字 😀",
    "run.name=a:b",
    "run.name=%d",
    "run.name=@x",
    "run.name=.inf",
    "run.name=/a/b-c_d.h5",
    "run.name=\u2028x",
    "run.name=\ufeffx",
    "run.name=a\rb",
    "run.name=---",
    "optim.lr=1e-40",
    "optim.lr=0.30000000000000004",
    "optim.lr=123456789.125",
    "optim.lr=3.4e38",
    "ckpt.every=1 epoch",
    "ckpt.every=1e15 epochs",
    "ckpt.every=90 s",
    "ckpt.every=2h",
    "ckpt.every=0.25 s",
    "ckpt.every=0.1s",
    "ckpt.every=1 step",
    "data.augment=",
    "data.global_batch=9",
    "run.seed=9007199254740993",
  };
  shoal_settings *s = settings_of("method: sync");
  uint32_t plain = check_round_trip(s);
  shoal_settings_destroy(s);
  for (size_t i = 0; i < SHOAL_COUNT(values); i++) {
    s = settings_of("method: sync");
    CHECK_OK(shoal_settings_set(s, values[i], "--set"));
    uint32_t hash = check_round_trip(s);
    CHECK_EQ(hash == plain, strcmp(values[i], "data.augment=") == 0, "hash after %s", values[i]);
    shoal_settings_destroy(s);
  }
}

/* Random names of printable Unicode: whatever passes the check must come back. */
static void test_random_names(void)
{
  static const char *const parts[] = { "a", " ", ":", "#", "-", "'", "\"", "\\", "\n", "\t", "é",
                                       "{", "]", ",", "0", "&", "!", "|",  ">",  "%",  "漢" };
  for (uint64_t i = 0; i < 300; i++) {
    shoal_settings *s = settings_of("method: sync");
    shoal_str text = { 0 };
    shoal_str_add(&text, "run.name=");
    uint64_t n = 1 + shoal_rng(5, SHOAL_RNG_TEST, i, 0).v[0] % 8;
    for (uint64_t k = 0; k < n; k++)
      shoal_str_add(&text, "%s", parts[shoal_rng(5, SHOAL_RNG_TEST, i, (uint32_t)k + 1).v[0] % SHOAL_COUNT(parts)]);
    CHECK_OK(shoal_settings_set(s, text.text, "--set"));
    check_round_trip(s);
    shoal_str_free(&text);
    shoal_settings_destroy(s);
  }
}

static uint32_t hash_of(const char *yaml, const char *const *except)
{
  shoal_settings *s = settings_of(yaml);
  shoal_config *c = config_of(s);
  uint32_t hash = shoal_config_hash(c, except);
  shoal_config_destroy(c);
  shoal_settings_destroy(s);
  return hash;
}

static void test_hash(void)
{
  static const char *const except[] = { "run.", "device", NULL };
  CHECK_EQ(hash_of("method: sync\noptim: { lr: 0.1 }\n", NULL),
           hash_of("optim.lr: 1e-1\nmethod: { name: sync }", NULL));
  CHECK_NE(hash_of("method: sync\n", NULL), hash_of("method: sync\noptim: { lr: 0.2 }\n", NULL));
  CHECK_NE(hash_of("method: sync\n", NULL), hash_of("method: sync\nrun: { seed: 5 }\n", NULL));
  CHECK_EQ(hash_of("method: sync\n", except), hash_of("method: sync\nrun: { seed: 5 }\ndevice: cpu\n", except));
  CHECK_NE(hash_of("method: sync\n", except), hash_of("method: daso\n", except));
}

static void note_change(void *ctx, const char *name, const char *was, const char *is)
{
  shoal_str_add(ctx, "%s: %s -> %s\n", name, was ? was : "none", is);
}

/* The changes reported when a run with `now` follows an attempt with `then`. */
static void check_changes(const char *then, const char *now, const char *expected)
{
  shoal_settings *old = settings_of(then), *s = settings_of(now);
  shoal_config *before = config_of(old), *c = config_of(s);
  shoal_str text = { 0 }, said = { 0 };
  shoal_config_print(before, &text);
  shoal_str_add(&said, "%s", "");
  CHECK_OK(shoal_config_changes(c, text.text, "old", note_change, &said));
  CHECK_STR(said.text, expected, "from\n%s\nto\n%s", then, now);
  shoal_config_destroy(before);
  shoal_config_destroy(c);
  shoal_settings_destroy(old);
  shoal_settings_destroy(s);
  shoal_str_free(&text);
  shoal_str_free(&said);
}

static void test_changes(void)
{
  check_changes("method: sync\n", "method: { name: sync }\nckpt: { every: 600 s }\n", "");
  check_changes("method: sync\n", "method: daso\n", "method.name: sync -> daso\n");
  /* an option without a section, the value of another section's option, a beginning of the older value */
  check_changes("method: sync\ndevice: cuda\n", "method: sync\ndevice: cpu\n", "device: cuda -> cpu\n");
  check_changes("method: sync\nrun: { seed: 7 }\n", "method: { name: sync, warmup_epochs: 1 }\n",
                "run.seed: 7 -> 1\nmethod.warmup_epochs: 0 -> 1\n");
  check_changes("method: sync\nrun: { name: ab }\n", "method: sync\nrun: { name: a }\n", "run.name: ab -> a\n");
  check_changes("method: sync\ndata: { augment: [crop4] }\n",
                "method: sync\nrun: { name: ab }\nmodel: { widths: [4] }\n",
                "run.name: nothing -> ab\ndata.augment: [crop4] -> []\nmodel.widths: [4096, 4096] -> [4]\n");
  /* written by a version with fewer options and other bounds */
  shoal_settings *s = settings_of("method: { name: sync, warmup_epochs: 3 }\noptim: { momentum: 0.5 }\n");
  shoal_config *c = config_of(s);
  shoal_str said = { 0 };
  CHECK_OK(shoal_config_changes(c, "method:\n  name: \"sync\"\nckpt:\n  every: 0.5 epochs\ngone: 3\n", "old",
                                note_change, &said));
  CHECK_STR(said.text, "optim.momentum: none -> 0.5\nckpt.every: 0.5 epochs -> 10min\n"
                       "method.warmup_epochs: none -> 3\n");
  CHECK_STATUS(shoal_config_changes(c, "run: { a: b", "old", note_change, &said), SHOAL_ERR_USAGE);
  shoal_config_destroy(c);
  shoal_settings_destroy(s);
  shoal_str_free(&said);
}

/* What an earlier attempt had, whatever the environment says now; other tables' names do not matter. */
static void test_recall(void)
{
  static const char old[] = "method: { name: sync }\ngone: { from: 3 }\noptim: { lr: 0.25 }\n";
  shoal_config *c = NULL;
  setenv("SHOAL_OPTIM_LR", "0.75", 1);
  setenv("SHOAL_OPTIM_MOMENTUM", "0.75", 1);
  CHECK_OK(shoal_config_recall(old, "old", tables, 1, &c));
  CHECK_EQ(shoal_config_float(c, "optim.lr"), 0.25);
  CHECK_EQ(shoal_config_float(c, "optim.momentum"), 0.9);
  unsetenv("SHOAL_OPTIM_LR");
  unsetenv("SHOAL_OPTIM_MOMENTUM");
  shoal_config_destroy(c);
  CHECK_STATUS(shoal_config_recall("optim: { lr: -1 }\n", "old", tables, 1, &c), SHOAL_ERR_USAGE);
  CHECK_HAS(check_error(), "old:1:14: optim.lr is \"-1\"");
}

static void test_tables(void)
{
  shoal_str text = { 0 };
  shoal_option_print(&tables[0], &text);
  CHECK_HAS(text.text, "  optim.momentum           a number in [0,1); default 0.9\n");
  CHECK_HAS(text.text, "one of constant, step, cosine; default constant\n");
  CHECK_HAS(text.text, "an integer in [1,inf), in samples; unset by default\n");
  CHECK_HAS(text.text, "unset by default; only with optim.schedule\n");
  CHECK_HAS(text.text, "Look ahead. [Nesterov 1983]\n");
  shoal_str_clear(&text);
  shoal_option_print(&tables[1], &text);
  CHECK_HAS(text.text, "one of sync, daso, ist; must be given\n");
  shoal_str_clear(&text);
  shoal_json j = { .lines = 1 };
  shoal_option_put_json(&tables[1], &j, NULL);
  CHECK_STR(j.text.text,
            "[\n  {\"name\": \"method.name\", \"type\": \"enum\", \"default\": null, \"unit\": null, \"range\": null, "
            "\"choices\": [\"sync\", \"daso\", \"ist\"], \"help\": \"The way the ranks talk.\", \"source\": null, "
            "\"when\": null},\n"
            "  {\"name\": \"method.warmup_epochs\", \"type\": \"int\", \"default\": \"0\", \"unit\": \"epochs\", "
            "\"range\": \"[0,inf)\", \"choices\": [], \"help\": \"Epochs of plain averaging.\", "
            "\"source\": \"Coquelin et al. 2021\", \"when\": null}\n]\n");
  shoal_str_free(&j.text);
  shoal_str_free(&text);
}

/* From a real file: the path stands in the message and in the origin. */
static void test_from_file(void)
{
  char folder[] = "/tmp/shoal-base-option-XXXXXX";
  REQUIRE(mkdtemp(folder), "mkdtemp");
  char *path = shoal_path_join(folder, "run.yaml");
  CHECK_OK(shoal_write_file(path, "method: ist\nrun:\n  seed: 5\n", 27));
  shoal_settings *s = NULL;
  CHECK_OK(shoal_settings_create(&s));
  CHECK_OK(shoal_settings_read(s, path));
  shoal_config *c = config_of(s);
  CHECK_EQ(shoal_config_int(c, "run.seed"), 5);
  const char *origin = shoal_config_origin(c, "run.seed");
  CHECK(strncmp(origin, path, strlen(path)) == 0, "%s", origin);
  CHECK_STR(origin + strlen(path), ":3", "%s", origin);
  shoal_config_destroy(c);
  shoal_settings_destroy(s);
  unlink(path);
  rmdir(folder);
  free(path);
}

int main(void)
{
  test_types();
  test_short_forms();
  test_empty_files();
  test_refused_yaml();
  test_damaged_files();
  test_excess();
  test_faults();
  test_cures();
  test_all_faults_told();
  test_values_that_do_nothing();
  test_precedence();
  test_flag_lists();
  test_print();
  test_round_trips();
  test_random_names();
  test_hash();
  test_changes();
  test_recall();
  test_tables();
  test_from_file();
  return check_done();
}
