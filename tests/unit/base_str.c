/* Strings, units, strict numbers, the nearest word, and memory: each against values written out by hand. */
#include "base/limit.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/texts.h"
#include "check.h"

static void test_buffer(void)
{
  shoal_str s = { 0 };
  shoal_str_add(&s, "%s", "");
  CHECK_EQ(s.len, 0);
  if (CHECK(s.text)) CHECK(!s.text[0]);
  for (int i = 0; i < 1000; i++) shoal_str_add(&s, "%d,", i);
  CHECK_EQ(s.len, strlen(s.text));
  CHECK_EQ(s.len, 3890);
  CHECK(strncmp(s.text, "0,1,2,", 6) == 0, "%s", s.text);
  CHECK_STR(s.text + s.len - 4, "999,");
  shoal_str_clear(&s);
  shoal_str_add_quoted(&s, "a\"b\\c\n\x01\t/\xc3\xa9");
  CHECK_STR(s.text, "\"a\\\"b\\\\c\\n\\u0001\\t/\xc3\xa9\"");
  shoal_str_clear(&s);
  shoal_str_add(&s, "xx");
  shoal_str_add_wrapped(&s, "one two  three four", 2, 10);
  CHECK_STR(s.text, "xxone two\n  three\n  four\n");
  shoal_str_free(&s);
  CHECK(!s.text);
  CHECK_EQ(s.len, 0);
  char *made = shoal_strdup_printf("%s-%d", "a", 5);
  CHECK_STR(made, "a-5");
  free(made);
}

static void test_texts(void)
{
  static const char *const sorted[] = { "z", "", "Bb", "a", "a-", "b" };
  shoal_texts t = { 0 };
  CHECK_OK(shoal_texts_add(&t, "z"));
  CHECK_OK(shoal_texts_add(&t, "b"));
  CHECK_OK(shoal_texts_add_n(&t, "a-b", 2));
  CHECK_OK(shoal_texts_add_n(&t, "x", 0));
  CHECK_OK(shoal_texts_take(&t, strdup("Bb")));
  CHECK_OK(shoal_texts_add(&t, "a"));
  CHECK(shoal_texts_have(&t, "Bb"));
  CHECK(!shoal_texts_have(&t, "B"));
  shoal_texts_sort(&t, 1);
  REQUIRE(t.n == SHOAL_COUNT(sorted), "%zu texts", t.n);
  for (size_t i = 0; i < t.n; i++) CHECK_STR(t.at[i], sorted[i]);
  for (int i = 0; i < 1000; i++) CHECK_OK(shoal_texts_take(&t, shoal_strdup_printf("%d", i)));
  CHECK_STR(t.at[SHOAL_COUNT(sorted) + 999], "999");
  shoal_texts_free(&t);
  CHECK_EQ(t.n, 0);
  CHECK(!t.at);
  CHECK(!shoal_texts_have(&t, ""));
}

static void test_nearest(void)
{
  static const char *const words[] = { "sync", "local-sgd", "daso", "swarm", "ist", "ab", "local" };
  static const char *const pairs[][2] = {
    { "dsao", "daso" },   { "DASO", "daso" }, { "locl-sgd", "local-sgd" },  { "sinc", "sync" }, { "swram", "swarm" },
    { "lokal", "local" }, { "isst", "ist" },  { "horovod", NULL },          { "", NULL },       { "x", NULL },
    { "adam", NULL },     { "swaxy", NULL },  { "local_sgd", "local-sgd" },
  };
  for (size_t i = 0; i < SHOAL_COUNT(pairs); i++) {
    const char *near = shoal_nearest(pairs[i][0], words, SHOAL_COUNT(words));
    CHECK_STR(near, pairs[i][1], "nearest to %s", pairs[i][0]);
  }
  char longer[300];
  memset(longer, 'a', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  CHECK(!shoal_nearest(longer, words, SHOAL_COUNT(words)));
  CHECK(!shoal_nearest("daso", words, 0));
}

static void test_units(void)
{
  static const struct {
    double value;
    const char *text;
  } bytes[] = { { 0, "0 B" },
                { 512, "512 B" },
                { 1023, "1023 B" },
                { 1024, "1.0 KiB" },
                { 1.5 * (1 << 30), "1.5 GiB" },
                { 120e6, "114 MiB" },
                { 1048575, "1.0 MiB" },
                { 99.97 * 1024, "100 KiB" },
                { 1e30, "867361737988 EiB" } },
    seconds[] = { { 0, "0 s" },           { 5e-7, "500 ns" },     { 1.5e-6, "1.5 us" },     { 0.0832, "83.2 ms" },
                  { 0.25, "250 ms" },     { 1, "1.0 s" },         { 59.94, "59.9 s" },      { 59.96, "1 min 00 s" },
                  { 123, "2 min 03 s" },  { 7380, "2 h 03 min" }, { 3599.7, "1 h 00 min" }, { 190000, "2 d 04 h" },
                  { -90, "-1 min 30 s" }, { NAN, "unknown" },     { INFINITY, "unknown" } };
  char buf[64];
  for (size_t i = 0; i < SHOAL_COUNT(bytes); i++)
    CHECK_STR(shoal_format_bytes(bytes[i].value, buf, sizeof buf), bytes[i].text, "%g", bytes[i].value);
  for (size_t i = 0; i < SHOAL_COUNT(seconds); i++)
    CHECK_STR(shoal_format_seconds(seconds[i].value, buf, sizeof buf), seconds[i].text, "%g", seconds[i].value);
}

static void test_numbers(void)
{
  int64_t i = 77;
  double f = 77;
  static const char *const not_i64[] = { "",    " 1",  "1 ",  "1x", "0x10",
                                         "1.0", "1e3", "--1", "+",  "9223372036854775808",
                                         "abc" };
  static const char *const not_f64[] = { "",      " 1",  "1 ", "1x", "0x1p3",    "nan",
                                         "1e999", "1,5", ".",  "e5", "infinity", "--1" };
  for (size_t k = 0; k < SHOAL_COUNT(not_i64); k++) {
    CHECK_STATUS(shoal_parse_i64(not_i64[k], &i), SHOAL_ERR_ARG, "\"%s\"", not_i64[k]);
    CHECK_EQ(i, 77, "\"%s\"", not_i64[k]);
  }
  for (size_t k = 0; k < SHOAL_COUNT(not_f64); k++) {
    CHECK_STATUS(shoal_parse_f64(not_f64[k], &f), SHOAL_ERR_ARG, "\"%s\"", not_f64[k]);
    CHECK_EQ(f, 77, "\"%s\"", not_f64[k]);
  }
  static const struct {
    const char *text;
    int64_t value;
  } i64s[] = { { "-9223372036854775808", INT64_MIN }, { "+12", 12 }, { "010", 10 } };
  for (size_t k = 0; k < SHOAL_COUNT(i64s); k++) {
    CHECK_OK(shoal_parse_i64(i64s[k].text, &i), "\"%s\"", i64s[k].text);
    CHECK_EQ(i, i64s[k].value, "\"%s\"", i64s[k].text);
  }
  static const struct {
    const char *text;
    double value;
  } f64s[] = { { "5e-4", 5e-4 }, { "-.5", -0.5 }, { "1e-320", 1e-320 }, { "-.inf", -INFINITY } };
  for (size_t k = 0; k < SHOAL_COUNT(f64s); k++) {
    CHECK_OK(shoal_parse_f64(f64s[k].text, &f), "\"%s\"", f64s[k].text);
    CHECK_EQ(f, f64s[k].value, "\"%s\"", f64s[k].text);
  }
}

static void test_periods(void)
{
  static const struct {
    const char *text;
    double value;
    shoal_period_unit unit;
  } good[] = { { "90", 90, SHOAL_PER_SECONDS },         { "90s", 90, SHOAL_PER_SECONDS },
               { "10min", 600, SHOAL_PER_SECONDS },     { "4m", 240, SHOAL_PER_SECONDS },
               { "2 h", 7200, SHOAL_PER_SECONDS },      { "1.5 h", 5400, SHOAL_PER_SECONDS },
               { "1d", 86400, SHOAL_PER_SECONDS },      { "250 steps", 250, SHOAL_PER_STEPS },
               { "1 step", 1, SHOAL_PER_STEPS },        { "3 epochs", 3, SHOAL_PER_EPOCHS },
               { "1e15 steps", 1e15, SHOAL_PER_STEPS }, { "1e9 s", 1e9, SHOAL_PER_SECONDS },
               { "0.001 s", 0.001, SHOAL_PER_SECONDS } };
  static const char *const bad[] = { "",           "min",           "-5min",      "10 ms",  "5 stepz", "1.5 steps",
                                     "inf",        "10min 3s",      "1e999",      "0",      "0 steps", "0.5 epochs",
                                     "1e20 steps", "1e15.5 epochs", "1.0001e9 s", "12000 d" };
  shoal_period p = { 0 };
  for (size_t i = 0; i < SHOAL_COUNT(good); i++) {
    CHECK_OK(shoal_parse_period(good[i].text, &p), "%s", good[i].text);
    CHECK_EQ(p.value, good[i].value, "%s", good[i].text);
    CHECK_EQ(p.unit, good[i].unit, "%s", good[i].text);
  }
  for (size_t i = 0; i < SHOAL_COUNT(bad); i++)
    CHECK_STATUS(shoal_parse_period(bad[i], &p), SHOAL_ERR_ARG, "%s", bad[i]);
}

static void test_escape(void)
{
  char buf[32], small[6];
  CHECK_STR(shoal_show("a\x1b[2J\x7f\t\n\xc3\xa9", buf, sizeof buf), "a\\x1b[2J\\x7f\\t\\n\xc3\xa9");
  CHECK_STR(shoal_show("\xc2\x9b"
                       "2J\xc2\xb5",
                       buf, sizeof buf),
            "\\xc2\\x9b2J\xc2\xb5", "C1 in UTF-8");
  CHECK_STR(shoal_show("", buf, sizeof buf), "");
  CHECK_EQ(shoal_escape("ab\x01"
                        "c",
                        true, small, sizeof small),
           7);
  CHECK_STR(small, "ab", "an escape is whole or absent");
  CHECK_EQ(shoal_escape("a\tb\n", true, buf, sizeof buf), 4);
  CHECK_STR(buf, "a\tb\n");
  CHECK_EQ(shoal_escape("a\tb\n", false, NULL, 0), 6);
  /* 1 each; a combining accent takes none, a Chinese sign two, and half of one does not fit */
  CHECK_EQ(shoal_text_width("caf\xc3\xa9"), 4);
  CHECK_EQ(shoal_text_width("cafe\xcc\x81"), 4);
  CHECK_EQ(shoal_text_width("\xe7\x8c\xab\xf0\x9f\x90\x88"), 4);
  CHECK_EQ(shoal_text_fit("\xe7\x8c\xab\xe7\x8c\xab", 3), 3);
  CHECK_EQ(shoal_text_fit("e\xcc\x81x", 1), 3);
  CHECK_EQ(shoal_text_fit("", 3), 0);
  char *printed = NULL;
  size_t n = 0;
  FILE *out = open_memstream(&printed, &n);
  REQUIRE(out, "memory file");
  shoal_str s = { 0 };
  shoal_str_print(&s, out);
  shoal_str_add(&s, "run\x1b]0;x\x07\t1\n");
  shoal_str_print(&s, out);
  shoal_str_clear(&s);
  shoal_str_add(&s, "plain\n");
  shoal_str_print(&s, out);
  fclose(out);
  CHECK_STR(printed, "run\\x1b]0;x\\x07\t1\nplain\n");
  free(printed);
  shoal_str_free(&s);
}

/* A limit that the environment sets, and sizes that wrap. */
/* Each text as one word of a command: what a shell makes of it is the text. */
static void test_words(void)
{
  static const char *const cases[][2] = { { "plain-1.2/x", "plain-1.2/x" },
                                          { "--set=a,b:c@d%e", "--set=a,b:c@d%e" },
                                          { "", "''" },
                                          { "two words", "'two words'" },
                                          { "=x", "'=x'" },
                                          { "it's $HOME \"`", "'it'\\''s $HOME \"`'" },
                                          { "a\nb'\\\x1b[2J", "$'a\\x0ab\\'\\\\\\x1b[2J'" },
                                          { "gr\xc3\xbc\xc3\x9f", "'gr\xc3\xbc\xc3\x9f'" },
                                          { "\xc3\xbc\xff\xc2\x9b", "$'\xc3\xbc\\xff\\xc2\\x9b'" } };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    shoal_str s = { 0 };
    shoal_str_add_word(&s, cases[i][0]);
    CHECK_STR(s.text, cases[i][1]);
    char *command = shoal_strdup_printf("test %s = \"$WANT\"", s.text);
    setenv("WANT", cases[i][0], 1);
    setenv("COMMAND", command, 1);
    CHECK_EQ(system("bash -c \"$COMMAND\""), 0, "%s", s.text);
    free(command);
    shoal_str_free(&s);
  }
  char word[SHOAL_WORD];
  CHECK_STR(shoal_shell_word("-o it's", word), "'./-o it'\\''s'");
}

static void test_limit(void)
{
  REQUIRE(setenv("SHOAL_MEMORY_LIMIT_MIB", "10", 1) == 0, "setenv");
  CHECK_EQ(shoal_memory_limit(), 10 << 20);
  CHECK_OK(shoal_limit_memory("f", "rows", 10, 1 << 20));
  CHECK_STATUS(shoal_limit_memory("f", "rows", (10 << 20) + 1, 1), SHOAL_ERR_MEM);
  CHECK_HAS(check_error(), "f: rows would take 10.0 MiB of memory, the limit is 10.0 MiB");
  CHECK_STATUS(shoal_limit_memory("f", "rows", UINT64_C(1) << 33, UINT64_C(1) << 31), SHOAL_ERR_MEM, "wraps to 0");
  REQUIRE(unsetenv("SHOAL_MEMORY_LIMIT_MIB") == 0, "unsetenv");
  CHECK_GT(shoal_memory_limit(), 1 << 20);
  CHECK_OK(shoal_limit_held("f", "pixels", 100, 784, 78400));
  CHECK_STATUS(shoal_limit_held("f", "pixels", 101, 784, 78400), SHOAL_ERR_IO);
  CHECK_STATUS(shoal_limit_held("f", "pixels", UINT64_C(1) << 33, UINT64_C(1) << 31, 78400), SHOAL_ERR_IO,
               "wraps to 0");
  CHECK_HAS(check_error(), "f says it has 16.0 EiB of pixels, but can hold 76.6 KiB");
}

static void test_memory(void)
{
  double *x = NULL;
  for (size_t n = 0; n < 200; n += 13) {
    CHECK_OK(SHOAL_ALLOC(n, &x));
    CHECK_EQ((uintptr_t)x % SHOAL_ALIGN, 0);
    for (size_t i = 0; i < n; i++) CHECK_EQ(x[i], 0.0);
    free(x);
  }
  x = NULL;
  CHECK_STATUS(SHOAL_ALLOC(SIZE_MAX / 4, &x), SHOAL_ERR_MEM, "sizes that wrap");
  CHECK(!x);
  CHECK_HAS(check_error(), "&x needs 32.0 EiB");
  CHECK_STATUS(SHOAL_ALLOC(SIZE_MAX / 16, &x), SHOAL_ERR_MEM, "more than there is");
  CHECK(!x);
  CHECK_EQ(shoal_round_up(0, 64), 0);
  CHECK_EQ(shoal_round_up(1, 64), 64);
  CHECK_EQ(shoal_round_up(64, 64), 64);
}

static void test_share(void)
{
  char buf[16];
  CHECK(strcmp(shoal_format_share(1, buf, sizeof buf), "100.00 %") == 0, "%s", buf);
  CHECK(strcmp(shoal_format_share(29999. / 30000, buf, sizeof buf), "99.99 %") == 0, "%s", buf);
  CHECK(strcmp(shoal_format_share(0.97534, buf, sizeof buf), "97.53 %") == 0, "%s", buf);
}

int main(void)
{
  test_share();
  test_buffer();
  test_texts();
  test_nearest();
  test_units();
  test_numbers();
  test_periods();
  test_memory();
  test_escape();
  test_words();
  test_limit();
  return check_done();
}
