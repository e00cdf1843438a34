/* Run files: whatever is accepted prints as a run file that reads back to the same values. */
#include "config/option.h"
#include "fuzz/fuzz.h"

static const shoal_option options[] = {
  { "run.name", SHOAL_OPT_STRING, "run", NULL, NULL, "A text.", NULL },
  { "run.seed", SHOAL_OPT_INT, "1", NULL, "[0,inf)", "A number.", NULL },
  { "optim.lr", SHOAL_OPT_FLOAT, "0.1", NULL, "(0,inf)", "A real number.", NULL },
  { "optim.schedule", SHOAL_OPT_ENUM, "constant", NULL, "constant|step|cosine", "A word.", NULL },
  { "optim.milestones", SHOAL_OPT_FLOATS, "", "epochs", NULL, "Numbers.", NULL, "optim.schedule=step" },
  { "model.widths", SHOAL_OPT_INTS, "[4096, 4096]", NULL, "[1,inf)", "Whole numbers.", NULL },
  { "data.shuffle", SHOAL_OPT_BOOL, "true", NULL, NULL, "A switch.", NULL },
  { "data.augment", SHOAL_OPT_WORDS, "", NULL, "crop4|hflip", "Words.", NULL },
  { "ckpt.every", SHOAL_OPT_PERIOD, "10min", NULL, NULL, "A period.", NULL },
  { "method.name", SHOAL_OPT_ENUM, "sync", NULL, "sync|daso|local-sgd", "A word with a shorthand.", NULL },
  { "device", SHOAL_OPT_STRING, "auto", NULL, NULL, "A key without a section.", NULL },
  { NULL },
};
static const shoal_option_table tables[] = { { "run", options } };

static shoal_status resolve(const char *text, shoal_config **out)
{
  shoal_settings *s;
  SHOAL_TRY(shoal_settings_create(&s));
  shoal_status st = shoal_settings_read_text(s, text, "run.yaml");
  if (st == SHOAL_OK) st = shoal_config_create(s, tables, 1, out);
  shoal_settings_destroy(s);
  return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  shoal_config *c, *again;
  shoal_str text = { 0 };
  char *in = fuzz_text(data, n);
  shoal_log_set_level(SHOAL_LOG_ERROR);
  if (resolve(in, &c) == SHOAL_OK) {
    shoal_config_print(c, &text);
    FUZZ_CHECK(resolve(text.text, &again) == SHOAL_OK);
    FUZZ_CHECK(shoal_config_hash(c, NULL) == shoal_config_hash(again, NULL));
    shoal_config_destroy(again);
    shoal_config_destroy(c);
    shoal_str_free(&text);
  }
  free(in);
  return 0;
}
