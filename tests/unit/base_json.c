/* The JSON writer against documents written by hand, and against the reader; the reader's messages. */
#include "base/json.h"
#include "base/mem.h"
#include "check.h"

static void is_text(shoal_json *j, const char *want)
{
  CHECK_STR(j->text.text, want);
  shoal_str_free(&j->text);
}

static void shapes(void)
{
  shoal_json j = { 0 };
  shoal_json_object(&j, NULL);
  shoal_json_int(&j, "a", INT64_MIN);
  shoal_json_uint(&j, "b", UINT64_MAX);
  shoal_json_array(&j, "c");
  shoal_json_end(&j);
  shoal_json_array(&j, "d");
  shoal_json_null(&j, NULL);
  shoal_json_object(&j, NULL);
  shoal_json_end(&j);
  shoal_json_bool(&j, NULL, true);
  shoal_json_end(&j);
  shoal_json_string(&j, "e", NULL);
  shoal_json_format(&j, "f", "%08x", 0xabcu);
  shoal_json_end(&j);
  is_text(&j, "{\"a\": -9223372036854775808, \"b\": 18446744073709551615, \"c\": [], \"d\": [null, {}, true], "
              "\"e\": null, \"f\": \"00000abc\"}\n");
  j = (shoal_json){ .lines = 2 };
  shoal_json_object(&j, NULL);
  shoal_json_array(&j, "rows");
  for (int i = 0; i < 2; i++) {
    shoal_json_object(&j, NULL);
    shoal_json_int(&j, "i", i);
    shoal_json_end(&j);
  }
  shoal_json_end(&j);
  shoal_json_array(&j, "none");
  shoal_json_end(&j);
  shoal_json_end(&j);
  is_text(&j, "{\n  \"rows\": [\n    {\"i\": 0},\n    {\"i\": 1}\n  ],\n  \"none\": []\n}\n");
}

static void numbers(void)
{
  static const double reals[] = {
    0.1, 1.0 / 3, -0.0, 5e-324, 1.7976931348623157e308, 9007199254740993.0, INFINITY, NAN
  };
  for (size_t i = 0; i < SHOAL_COUNT(reals); i++) {
    shoal_json j = { 0 };
    shoal_json_array(&j, NULL);
    shoal_json_real(&j, NULL, reals[i]);
    shoal_json_end(&j);
    json_t *back;
    REQUIRE(shoal_json_read(j.text.text, "numbers", &back) == SHOAL_OK, "%s", j.text.text);
    if (isfinite(reals[i]))
      CHECK_EQ(json_number_value(json_array_get(back, 0)), reals[i], "%s reads back as another number", j.text.text);
    else
      CHECK(json_is_null(json_array_get(back, 0)), "%s", j.text.text);
    if (i == 0) CHECK_STR(j.text.text, "[0.1]\n");
    json_decref(back);
    shoal_str_free(&j.text);
  }
  shoal_json j = { 0 };
  shoal_json_array(&j, NULL);
  shoal_json_fixed(&j, NULL, 2.0 / 3, 3);
  shoal_json_fixed(&j, NULL, -INFINITY, 3);
  shoal_json_end(&j);
  is_text(&j, "[0.667, null]\n");
}

/* Every byte string comes out as valid UTF-8 that the reader accepts; what was valid stays as it was. */
static void texts(void)
{
  static const struct {
    const char *in, *out;
  } cases[] = { { "plain", "plain" },
                { "a\"b\\c\n\x01\t/", "a\"b\\c\n\x01\t/" },
                { "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9f", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9f" },
                { "\xff", "\xef\xbf\xbd" },
                { "a\xc3", "a\xef\xbf\xbd" },
                { "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd" },
                { "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
                { "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" } };
  for (size_t i = 0; i < SHOAL_COUNT(cases); i++) {
    shoal_json j = { 0 };
    shoal_json_object(&j, NULL);
    shoal_json_string(&j, "s", cases[i].in);
    shoal_json_end(&j);
    json_t *back;
    REQUIRE(shoal_json_read(j.text.text, "texts", &back) == SHOAL_OK, "case %zu: %s", i, j.text.text);
    const char *got = json_string_value(json_object_get(back, "s"));
    CHECK_STR(got, cases[i].out, "case %zu", i);
    json_decref(back);
    shoal_str_free(&j.text);
  }
}

/* A long document is passed on as it grows and is the same as in memory. */
static void streams(void)
{
  char *text;
  size_t n, most = 0;
  FILE *f = open_memstream(&text, &n);
  shoal_json j = { .lines = 1, .out = f }, whole = { .lines = 1 };
  shoal_json_array(&j, NULL);
  shoal_json_array(&whole, NULL);
  for (int i = 0; i < 100000; i++) {
    shoal_json_int(&j, NULL, i);
    shoal_json_int(&whole, NULL, i);
    most = SHOAL_MAX(most, j.text.len);
  }
  shoal_json_end(&j);
  shoal_json_end(&whole);
  shoal_json_finish(&j);
  fclose(f);
  CHECK_STR(text, whole.text.text, "streamed text differs");
  CHECK_LT(most, 70000);
  free(text);
  shoal_str_free(&whole.text);
  f = fopen("/dev/full", "w");
  j = (shoal_json){ .out = f };
  shoal_json_object(&j, NULL);
  shoal_json_end(&j);
  shoal_json_finish(&j);
  CHECK_NE(fflush(f), 0, "a full disk");
  CHECK(ferror(f));
  json_t *back;
  CHECK_STATUS(shoal_json_read("{\n \"a\": }", "f.json", &back), SHOAL_ERR_IO, "no value");
  CHECK_STATUS(shoal_json_read("{\"a\": 1, \"a\": 2}", "f.json", &back), SHOAL_ERR_IO, "a key twice");
  CHECK_STATUS(shoal_json_read_file("/nonexistent/f.json", &back), SHOAL_ERR_IO, "no file");
  fclose(f);
}

int main(void)
{
  shapes();
  numbers();
  texts();
  streams();
  return check_done();
}
