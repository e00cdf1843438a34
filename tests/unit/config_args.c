/* Command lines: forms of flags, words, help, and what is refused with which words. */
#include "base/log.h"
#include "base/mem.h"
#include "check.h"
#include "config/args.h"
#include <unistd.h>

static const shoal_flag flags[] = {
  { "--resume", NULL, "WHEN", SHOAL_FLAG_VALUE, "auto, never or a checkpoint file" },
  { "--set", "-s", "NAME=VALUE", SHOAL_FLAG_LIST, "override a setting; may be repeated" },
  { "--nodes", "-N", "COUNT", SHOAL_FLAG_VALUE, "nodes" },
  { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "print JSON" },
  { "-o", NULL, "FILE", SHOAL_FLAG_VALUE, "where to write" },
  { 0 },
};
static const shoal_verb_help help = {
  "shoal train RUN.yaml [options]", "Trains.", flags, 1, 2, "  shoal train a.yaml"
};

enum { MOST = 20 };

/* Parse words given as one NULL-terminated list. */
static shoal_status parse(const char *const *words, shoal_args **out, bool *helped)
{
  static char *argv[MOST];
  int argc = 0;
  argv[argc++] = (char *)"train";
  for (; words[argc - 1] && argc < MOST; argc++) argv[argc] = (char *)words[argc - 1];
  return shoal_args_parse(&help, argc, argv, helped, out);
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void test_forms(void)
{
  shoal_args *a = NULL;
  bool helped = true;
  const char *const *list;
  CHECK_OK(
      parse(WORDS("a.yaml", "--resume", "auto", "--set", "a=1", "-s", "b=-2", "--set=c=3", "-N4", "--json", "-o", "-"),
            &a, &helped));
  REQUIRE(a, "parse");
  REQUIRE(!helped, "parse");
  if (CHECK_EQ(shoal_args_words(a, &list), 1)) CHECK_STR(list[0], "a.yaml");
  CHECK_STR(shoal_args_value(a, "--resume"), "auto");
  CHECK_STR(shoal_args_value(a, "-N"), "4");
  CHECK_STR(shoal_args_value(a, "--nodes"), "4");
  CHECK_STR(shoal_args_value(a, "-o"), "-");
  CHECK(shoal_args_on(a, "--json"));
  static const char *const settings[] = { "a=1", "b=-2", "c=3" };
  REQUIRE(shoal_args_list(a, "--set", &list) == 3, "settings");
  for (int i = 0; i < 3; i++) CHECK_STR(list[i], settings[i]);
  shoal_args_destroy(a);

  CHECK_OK(parse(WORDS("--nodes=1", "x", "--nodes", "2", "--", "--json"), &a, &helped));
  CHECK_STR(shoal_args_value(a, "-N"), "2", "the last one counts");
  CHECK(!shoal_args_on(a, "--json"));
  CHECK(!shoal_args_value(a, "--resume"));
  CHECK_EQ(shoal_args_list(a, "-s", &list), 0);
  if (CHECK_EQ(shoal_args_words(a, &list), 2)) CHECK_STR(list[1], "--json");
  shoal_args_destroy(a);
  shoal_args_destroy(NULL);
}

static void test_refusals(void)
{
  const struct {
    const char *const *words;
    const char *message;
  } bad[] = {
    { WORDS("a", "--resum", "auto"), "unknown option --resum; did you mean --resume?" },
    { WORDS("a", "--rseume=auto"), "unknown option --rseume; did you mean --resume?" },
    { WORDS("a", "-x"),
      "unknown option -x; options of the run file are given as in --set optim.lr=0.05; -h lists all" },
    { WORDS("a", "--resume"), "--resume needs a value: --resume WHEN" },
    { WORDS("a", "--resume", "--json"), "--resume needs a value" },
    { WORDS("a", "--json=1"), "--json takes no value" },
    { WORDS("a", "b", "c"), "one argument too many: c" },
    { WORDS("--json"), "0 of 1 arguments given; usage: shoal train RUN.yaml" },
  };
  for (size_t i = 0; i < SHOAL_COUNT(bad); i++) {
    shoal_args *a = NULL;
    bool helped;
    CHECK_STATUS(parse(bad[i].words, &a, &helped), SHOAL_ERR_USAGE, "case %zu", i);
    CHECK(!a, "case %zu", i);
    CHECK(strstr(check_error(), bad[i].message) == check_error(), "case %zu: %s", i, check_error());
  }
}

/* A command line that means the same: of several values of a flag the last, of a list all, of words that are no flags none. */
static void test_repeat(void)
{
  shoal_args *a = NULL;
  bool helped;
  shoal_texts again = { 0 };
  static const char *const want[] = { "--set", "a=1 2", "--set", "b=", "--nodes", "5" };
  static const shoal_flag part[] = { { "--set", NULL, "K=V", SHOAL_FLAG_LIST, "" },
                                     { "--nodes", NULL, "COUNT", SHOAL_FLAG_VALUE, "" },
                                     { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "" },
                                     { 0 } };
  CHECK_OK(parse(WORDS("a.yaml", "-N4", "--set=a=1 2", "-o", "x", "--nodes", "5", "-s", "b="), &a, &helped));
  CHECK_OK(shoal_args_repeat(a, part, &again));
  CHECK_EQ(again.n, SHOAL_COUNT(want));
  for (size_t i = 0; i < again.n && i < SHOAL_COUNT(want); i++) CHECK_STR(again.at[i], want[i]);
  shoal_args_destroy(a);
  shoal_texts_free(&again);
  CHECK_OK(parse(WORDS("a.yaml", "--json"), &a, &helped));
  CHECK_OK(shoal_args_repeat(a, part, &again));
  CHECK_EQ(again.n, 1);
  CHECK_STR(again.at[0], "--json");
  shoal_args_destroy(a);
  shoal_texts_free(&again);
}

static void test_help(void)
{
  char text[2048];
  shoal_args *a = NULL;
  bool helped = false;
  fflush(stdout);
  int saved = dup(1);
  FILE *file = tmpfile();
  REQUIRE(saved >= 0, "temporary file");
  REQUIRE(file, "temporary file");
  dup2(fileno(file), 1);
  CHECK_OK(parse(WORDS("--json", "-h", "--unknown"), &a, &helped));
  fflush(stdout);
  dup2(saved, 1);
  ssize_t n = pread(fileno(file), text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = '\0';
  CHECK(helped);
  CHECK(a);
  CHECK(strstr(text, "usage: shoal train RUN.yaml [options]\n\nTrains.\n") == text, "%s", text);
  CHECK_HAS(text, "  -s, --set NAME=VALUE      override a setting; may be repeated\n");
  CHECK_HAS(text, "  -h, --help ");
  CHECK_HAS(text, "examples:\n  shoal train a.yaml\n");
  close(saved);
  fclose(file);
  shoal_args_destroy(a);
}

int main(void)
{
  test_forms();
  test_refusals();
  test_repeat();
  test_help();
  return check_done();
}
