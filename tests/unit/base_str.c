/* Strings, units, strict numbers, the nearest word, and memory: each against values written out by hand. */
#include "base/mem.h"
#include "base/str.h"
#include "check.h"

static void test_buffer(void)
{
  shoal_str s = { 0 };
  shoal_str_add(&s, "%s", "");
  CHECK(s.len == 0 && s.text && !s.text[0]);
  for (int i = 0; i < 1000; i++) shoal_str_add(&s, "%d,", i);
  CHECK(s.len == strlen(s.text) && s.len == 3890, "%zu", s.len);
  CHECK(strncmp(s.text, "0,1,2,", 6) == 0 && strcmp(s.text + s.len - 4, "999,") == 0);
  shoal_str_clear(&s);
  shoal_str_add_quoted(&s, "a\"b\\c\n\x01\t/\xc3\xa9");
  CHECK(strcmp(s.text, "\"a\\\"b\\\\c\\n\\u0001\\t/\xc3\xa9\"") == 0, "%s", s.text);
  shoal_str_clear(&s);
  shoal_str_add(&s, "xx");
  shoal_str_add_wrapped(&s, "one two  three four", 2, 10);
  CHECK(strcmp(s.text, "xxone two\n  three\n  four\n") == 0, "%s", s.text);
  shoal_str_free(&s);
  CHECK(!s.text && s.len == 0);
  char *made = shoal_strdup_printf("%s-%d", "a", 5);
  CHECK(strcmp(made, "a-5") == 0);
  free(made);
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
    CHECK(pairs[i][1] ? near && strcmp(near, pairs[i][1]) == 0 : !near, "%s -> %s", pairs[i][0], near ? near : "NULL");
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
    seconds[] = { { 0, "0 ns" },          { 5e-7, "500 ns" },     { 1.5e-6, "1.5 us" },     { 0.0832, "83.2 ms" },
                  { 0.25, "250 ms" },     { 1, "1.0 s" },         { 59.94, "59.9 s" },      { 59.96, "1 min 00 s" },
                  { 123, "2 min 03 s" },  { 7380, "2 h 03 min" }, { 3599.7, "1 h 00 min" }, { 190000, "2 d 04 h" },
                  { -90, "-1 min 30 s" }, { NAN, "unknown" },     { INFINITY, "unknown" } };
  char buf[64];
  for (size_t i = 0; i < SHOAL_COUNT(bytes); i++)
    CHECK(strcmp(shoal_format_bytes(bytes[i].value, buf, sizeof buf), bytes[i].text) == 0, "%g: %s", bytes[i].value,
          buf);
  for (size_t i = 0; i < SHOAL_COUNT(seconds); i++)
    CHECK(strcmp(shoal_format_seconds(seconds[i].value, buf, sizeof buf), seconds[i].text) == 0, "%g: %s",
          seconds[i].value, buf);
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
  for (size_t k = 0; k < SHOAL_COUNT(not_i64); k++)
    CHECK(shoal_parse_i64(not_i64[k], &i) == SHOAL_ERR_ARG && i == 77, "\"%s\"", not_i64[k]);
  for (size_t k = 0; k < SHOAL_COUNT(not_f64); k++)
    CHECK(shoal_parse_f64(not_f64[k], &f) == SHOAL_ERR_ARG && f == 77, "\"%s\"", not_f64[k]);
  CHECK(shoal_parse_i64("-9223372036854775808", &i) == SHOAL_OK && i == INT64_MIN);
  CHECK(shoal_parse_i64("+12", &i) == SHOAL_OK && i == 12);
  CHECK(shoal_parse_i64("010", &i) == SHOAL_OK && i == 10);
  CHECK(shoal_parse_f64("5e-4", &f) == SHOAL_OK && f == 5e-4);
  CHECK(shoal_parse_f64("-.5", &f) == SHOAL_OK && f == -0.5);
  CHECK(shoal_parse_f64("1e-320", &f) == SHOAL_OK && f > 0);
  CHECK(shoal_parse_f64("-.inf", &f) == SHOAL_OK && f == -INFINITY);
}

static void test_periods(void)
{
  static const struct {
    const char *text;
    double value;
    shoal_period_unit unit;
  } good[] = { { "90", 90, SHOAL_PER_SECONDS },       { "90s", 90, SHOAL_PER_SECONDS },
               { "10min", 600, SHOAL_PER_SECONDS },   { "2 h", 7200, SHOAL_PER_SECONDS },
               { "1.5 h", 5400, SHOAL_PER_SECONDS },  { "1d", 86400, SHOAL_PER_SECONDS },
               { "250 steps", 250, SHOAL_PER_STEPS }, { "1 step", 1, SHOAL_PER_STEPS },
               { "3 epochs", 3, SHOAL_PER_EPOCHS },   { "1e15 steps", 1e15, SHOAL_PER_STEPS },
               { "1e9 s", 1e9, SHOAL_PER_SECONDS },   { "0.001 s", 0.001, SHOAL_PER_SECONDS } };
  static const char *const bad[] = { "",           "min",           "-5min",      "10 m",   "5 stepz", "1.5 steps",
                                     "inf",        "10min 3s",      "1e999",      "0",      "0 steps", "0.5 epochs",
                                     "1e20 steps", "1e15.5 epochs", "1.0001e9 s", "12000 d" };
  shoal_period p = { 0 };
  for (size_t i = 0; i < SHOAL_COUNT(good); i++)
    CHECK(shoal_parse_period(good[i].text, &p) == SHOAL_OK && p.value == good[i].value && p.unit == good[i].unit,
          "%s: %g unit %d", good[i].text, p.value, p.unit);
  for (size_t i = 0; i < SHOAL_COUNT(bad); i++) CHECK(shoal_parse_period(bad[i], &p) == SHOAL_ERR_ARG, "%s", bad[i]);
}

static void test_memory(void)
{
  double *x = NULL;
  for (size_t n = 0; n < 200; n += 13) {
    CHECK_OK(SHOAL_ALLOC(n, &x));
    CHECK((uintptr_t)x % SHOAL_ALIGN == 0);
    for (size_t i = 0; i < n; i++) CHECK(x[i] == 0.0);
    free(x);
  }
  x = NULL;
  CHECK(SHOAL_ALLOC(SIZE_MAX / 4, &x) == SHOAL_ERR_MEM && !x, "sizes that wrap");
  CHECK(strstr(check_error(), "&x needs 32.0 EiB"), "%s", check_error());
  CHECK(SHOAL_ALLOC(SIZE_MAX / 16, &x) == SHOAL_ERR_MEM && !x, "more than there is");
  CHECK(shoal_round_up(0, 64) == 0 && shoal_round_up(1, 64) == 64 && shoal_round_up(64, 64) == 64);
}

int main(void)
{
  test_buffer();
  test_nearest();
  test_units();
  test_numbers();
  test_periods();
  test_memory();
  return check_done();
}
