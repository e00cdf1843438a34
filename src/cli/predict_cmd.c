/* shoal predict: what a trained network says about samples. */
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "train/network.h"
#include <string.h>
#include <sys/stat.h>

enum { THREADS_MAX = 4096, BATCH_MAX = 1 << 20, BATCH = 256, TOKENS_MAX = 1 << 24 };
static const double hottest = 100; /* temperature */

static const shoal_flag flags[] = {
  { "-o", "--output", "FILE", SHOAL_FLAG_VALUE,
    "write a row for each sample: label, prediction and probabilities, or for each token of a text; NAME.csv or "
    "NAME.h5" },
  { "--split", NULL, "test|train", SHOAL_FLAG_VALUE,
    "the samples; else the test split, or the training split where there is no other" },
  { "--batch", NULL, "N", SHOAL_FLAG_VALUE, "samples at a time (256)" },
  { "--threads", NULL, "N", SHOAL_FLAG_VALUE, "threads (1)" },
  { "--generate", NULL, "N", SHOAL_FLAG_VALUE,
    "no data: go on with the prompt, N tokens, drawn from a network of text" },
  { "--prompt", NULL, "TEXT", SHOAL_FLAG_VALUE,
    "what to go on with (a new line); tokens that are no bytes by their numbers, with blanks between (0)" },
  { "--temperature", NULL, "T", SHOAL_FLAG_VALUE, "below 1 likelier tokens, 0 always the likeliest (1)" },
  { "--seed", NULL, "S", SHOAL_FLAG_VALUE, "of the draws (1)" },
  { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "for scripts" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
const shoal_verb_help shoal_predict_help = {
  "shoal predict RUN|CHECKPOINT DATA...|--generate N [-o FILE] [--split test|train] [--json]",
  "What a trained network says about the samples of a data set: accuracy, loss and confusion table, and with -o a row "
  "for "
  "each sample. RUN is a run folder, whose newest good checkpoint is taken. Several files are one data set. Inputs are "
  "normalised as in training, whatever the data's own mean is; classes are matched by their names, if they have names. "
  "Of a network that reads text: loss per token and perplexity of a text, or with --generate a text that goes on with "
  "the prompt, the "
  "same one for the same seed.",
  flags,
  1,
  -1,
  "  shoal predict runs/digits glyphs.h5\n  shoal predict runs/digits/ckpt/best new.h5 --split train -o "
  "predictions.csv\n  shoal predict runs/gpt --generate 200 --prompt "
  "'To be' --temperature 0.8\n",
};

static shoal_status number(const shoal_args *a, const char *flag, int64_t most, int64_t *out)
{
  const char *text = shoal_args_value(a, flag);
  SHOAL_CHECK(!text || (shoal_parse_i64(text, out) == SHOAL_OK && *out >= 1 && *out <= most), SHOAL_ERR_USAGE,
              "%s is \"%s\": must be a whole number, 1 to %lld", flag, text, (long long)most);
  return SHOAL_OK;
}

static bool is_folder(const char *path)
{
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static const char *const drawing[] = { "--prompt", "--temperature", "--seed" };
static const char *const scoring[] = { "-o", "--split", "--batch" };

static shoal_status refuse(const shoal_args *a, const char *const *list, size_t n, const char *why)
{
  for (size_t i = 0; i < n; i++) SHOAL_CHECK(!shoal_args_value(a, list[i]), SHOAL_ERR_USAGE, "%s %s", list[i], why);
  return SHOAL_OK;
}

static shoal_status generate(const shoal_args *a, const char *model, size_t words, int threads)
{
  const char *prompt = shoal_args_value(a, "--prompt"), *heat = shoal_args_value(a, "--temperature");
  shoal_generate_args g = { .model = model, .prompt = prompt, .temperature = 1, .threads = threads };
  int64_t seed = 1;
  SHOAL_CHECK(words == 1, SHOAL_ERR_USAGE, "--generate reads no data: leave the files out, or --generate");
  SHOAL_TRY(
      refuse(a, scoring, SHOAL_COUNT(scoring), "is for predictions of data, and --generate reads none: leave it out"));
  SHOAL_CHECK(!shoal_json_wanted(a), SHOAL_ERR_USAGE, "--json is not for --generate, which writes text: leave it out");
  SHOAL_TRY(number(a, "--generate", TOKENS_MAX, &g.count));
  SHOAL_TRY(number(a, "--seed", INT64_MAX, &seed));
  SHOAL_CHECK(!heat ||
                  (shoal_parse_f64(heat, &g.temperature) == SHOAL_OK && g.temperature >= 0 && g.temperature <= hottest),
              SHOAL_ERR_USAGE, "--temperature is \"%s\": must be a number, 0 to %g", heat, hottest);
  g.seed = (uint64_t)seed;
  return shoal_generate(&g, stdout);
}

static shoal_status run(const shoal_args *a)
{
  const char *const *words, *split = shoal_args_value(a, "--split");
  size_t n = shoal_args_words(a, &words);
  int64_t threads = 1, batch = BATCH;
  char run[SHOAL_WORD], file[SHOAL_WORD];
  shoal_predict_args p = { .model = words[0],
                           .data = words + 1,
                           .n_data = n - 1,
                           .out = shoal_args_value(a, "-o"),
                           .json = shoal_json_wanted(a),
                           .split = !split                       ? SHOAL_PREDICT_EITHER
                                    : strcmp(split, "test") == 0 ? SHOAL_PREDICT_TEST
                                                                 : SHOAL_PREDICT_TRAIN };
  SHOAL_CHECK(n != 2 || is_folder(words[0]) || !is_folder(words[1]), SHOAL_ERR_USAGE,
              "%s is a folder, and the data are in files: the run comes first, shoal predict %s %s", words[1],
              shoal_shell_word(words[1], run), shoal_shell_word(words[0], file));
  SHOAL_CHECK(!split || strcmp(split, "test") == 0 || strcmp(split, "train") == 0, SHOAL_ERR_USAGE,
              "--split is \"%s\": must be test or train", split);
  SHOAL_TRY(number(a, "--threads", THREADS_MAX, &threads));
  SHOAL_TRY(number(a, "--batch", BATCH_MAX, &batch));
  if (shoal_args_value(a, "--generate")) return generate(a, words[0], n, (int)threads);
  SHOAL_TRY(refuse(a, drawing, SHOAL_COUNT(drawing), "is for --generate, which is not given"));
  SHOAL_CHECK(n > 1, SHOAL_ERR_USAGE,
              "no data given: shoal predict RUN DATA, or of a network of text shoal predict RUN --generate N");
  p.threads = (int)threads;
  p.batch = batch;
  return shoal_predict(&p, stdout);
}

shoal_status shoal_cmd_predict(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&shoal_predict_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  shoal_status st = run(a);
  shoal_args_destroy(a);
  return st;
}
