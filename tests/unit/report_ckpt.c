/* What `shoal ckpt list, show, diff` say, as tables and as JSON (read back by Python). */
#include "report/ckpt.h"
#include "unit/ckpt_fixture.h"

static const char *dir;

/* JSON is collected and read by Python at the end, in one go. */
static shoal_str script;

static void check_json(const char *text, const char *expression)
{
  static int number;
  char *file = shoal_strdup_printf("%s/out-%d.json", dir, number++);
  fixture_spoil(file, text, strlen(text));
  shoal_str_add(&script, "d = json.load(open('%s'))\nassert %s, d\n", file, expression);
  free(file);
}

static void run_python(const char *python)
{
  char *file = shoal_strdup_printf("%s/check.py", dir), *command = shoal_strdup_printf("'%s' '%s'", python, file);
  FILE *f = fopen(file, "w");
  REQUIRE(f, "%s", file);
  REQUIRE(fprintf(f, "import json\n%s", script.text) > 0, "%s", file);
  REQUIRE(fclose(f) == 0, "%s", file);
  CHECK_EQ(system(command), 0);
  shoal_str_free(&script);
  free(file);
  free(command);
}

static void list(void)
{
  fixture_output o;
  CHECK_OK(shoal_ckpt_print_list(dir, false, fixture_capture(&o)));
  CHECK_HAS(fixture_text(&o), "no checkpoints in", "%s", o.text);
  fixture_release(&o);
  free(fixture_write(dir, 10));
  free(fixture_write(dir, 20));
  char *bad = shoal_strdup_printf("%s/step-000000030.h5", dir),
       *half = shoal_strdup_printf("%s/.step-000000040.h5.tmp-h-1", dir);
  fixture_spoil(bad, "", 0);
  fixture_spoil(half, "x", 1);
  CHECK_OK(shoal_ckpt_print_list(dir, false, fixture_capture(&o)));
  const char *text = fixture_text(&o), *newest = strstr(text, "step-000000030.h5"),
             *older = strstr(text, "step-000000010.h5");
  REQUIRE(newest, "%s", text);
  REQUIRE(older, "%s", text);
  CHECK(newest < older, "the newest comes first:\n%s", text);
  CHECK_HAS(newest, "DAMAGED: ");
  CHECK_HAS(newest, "empty (0 bytes)");
  CHECK_HAS(older, "daso");
  CHECK_HAS(older, "good\n");
  CHECK_HAS(text, "tmp-h-1  unfinished\n");
  fixture_release(&o);
  CHECK_OK(shoal_ckpt_print_list(dir, true, fixture_capture(&o)));
  check_json(fixture_text(&o),
             "[c[\"good\"] for c in d[\"checkpoints\"]] == [False, True, True] and "
             "d[\"checkpoints\"][1][\"step\"] == 20 and \"empty\" in d[\"checkpoints\"][0][\"fault\"] "
             "and d[\"unfinished\"] == [\".step-000000040.h5.tmp-h-1\"]");
  fixture_release(&o);
  unlink(bad);
  unlink(half);
  free(bad);
  free(half);
  CHECK_STATUS(shoal_ckpt_print_list("/nonexistent/ckpt", false, stderr), SHOAL_ERR_IO, "no folder");
}

static void show(void)
{
  fixture_output o;
  char *path = fixture_write(dir, 20);
  CHECK_OK(shoal_ckpt_print(path, false, fixture_capture(&o)));
  const char *text = fixture_text(&o);
  CHECK_HAS(text, "step 20, epoch 2, 60 samples");
  CHECK_HAS(text, "ranks    1 (layout 2x2)");
  CHECK_HAS(text, "[4, 3, 3, 3]");
  CHECK_HAS(text, "scalar");
  CHECK_HAS(text, "14 data sets, ");
  CHECK_HAS(text, "model: { name: resnet20 }");
  fixture_release(&o);
  CHECK_OK(shoal_ckpt_print(path, true, fixture_capture(&o)));
  check_json(fixture_text(&o),
             "len(d[\"data_sets\"]) == 14 and d[\"epoch\"] == 2 and "
             "{s[\"name\"]: s[\"shape\"] for s in d[\"data_sets\"]}[\"model/conv1.weight\"] == [4,3,3,3] "
             "and d[\"config\"].startswith(\"run:\") and d[\"data_sets\"][0][\"crc32c\"] != \"\"");
  fixture_release(&o);
  free(path);
}

/* ---- diff ---- */

typedef struct {
  const char *name;
  shoal_dtype type;
  int ndim;
  uint64_t dims[2];
  const void *data;
} array;

static char *write_arrays(uint64_t step, uint64_t samples, const array *arrays, size_t n)
{
  shoal_ckpt_info info;
  shoal_ckpt_draft d = { 0 };
  char *path = shoal_strdup_printf("%s/step-%09" PRIu64 ".h5", dir, step);
  fixture_info(step, 1, &info);
  info.samples = samples;
  REQUIRE(shoal_ckpt_draft_open(&d, path, &info, 0) == SHOAL_OK, "open");
  for (size_t i = 0; i < n; i++)
    CHECK_OK(shoal_ckpt_draft_put(&d, arrays[i].name, arrays[i].type, arrays[i].ndim, arrays[i].dims, arrays[i].data));
  REQUIRE(shoal_ckpt_draft_finish(&d) == SHOAL_OK, "finish");
  shoal_ckpt_draft_discard(&d);
  return path;
}

/* Compares one array x with one array y and returns the text. */
static void check_diff(const array *x, const array *y, const char *only, double tolerance, bool want, const char *word)
{
  fixture_output o;
  bool different = !want;
  char *a = write_arrays(101, 5, x, 1), *kept = shoal_strdup_printf("%s/kept.h5", dir);
  REQUIRE(rename(a, kept) == 0, "rename");
  char *b = write_arrays(101, 5, y, 1);
  for (int json = 0; json < 2; json++) {
    CHECK_OK(shoal_ckpt_diff(kept, b, only, NULL, tolerance, json, fixture_capture(&o), &different));
    const char *text = fixture_text(&o);
    CHECK_EQ(different, want, "%s", text);
    if (!json) CHECK_HAS(text, word);
    if (json)
      check_json(text, want ? "d[\"different\"] is True and d[\"differences\"]"
                            : "d[\"different\"] is False and not d[\"differences\"]");
    fixture_release(&o);
  }
  unlink(kept);
  unlink(b);
  free(a);
  free(b);
  free(kept);
}

static void verdicts(void)
{
  const float f[6] = { 0, 1, 2, 3, 4, 5 }, f1[6] = { 0, 1, 2.5f, 3, 4, 5.25f }, minus[6] = { -0.0f, 1, 2, 3, 4, 5 },
              nan_at_4[6] = { 0, 1, 2, 3, NAN, 5 }, other_nan[6] = { 0, 1, 2, 3, -NAN, 5 },
              infinite[6] = { 0, 1, 2, 3, INFINITY, 5 };
  const int64_t i64[1] = { INT64_MAX }, i64_low[1] = { INT64_MIN }, i64_next[1] = { INT64_MAX - 1 };
  const uint8_t u8[3] = { 0, 200, 255 }, u8_other[3] = { 0, 10, 255 };
#define F(values) (&(array){ "model/w", SHOAL_F32, 2, { 2, 3 }, values })
#define I(values) (&(array){ "method/i", SHOAL_I64, 0, { 0 }, values })
#define U(values) (&(array){ "method/u", SHOAL_U8, 1, { 3 }, values })
  check_diff(F(f), F(f), NULL, 0, false, "agree in every bit: 1 data sets");
  check_diff(F(f), F(f1), NULL, 0, true, "model/w: 2 of 6 values differ, most at [0, 2]: 2 and 2.5, 0.5 apart");
  check_diff(F(f), F(f1), NULL, 0.05, true, "1 of 6 values differ, most at [0, 2]");
  check_diff(F(f), F(f1), NULL, 0.1, false, "agree within 0.1");
  check_diff(F(f), F(minus), NULL, 0, true, "1 of 6 values differ, most at [0, 0]: 0 and -0, 0 apart");
  check_diff(F(f), F(minus), NULL, 1e-30, false, "agree");
  check_diff(F(nan_at_4), F(nan_at_4), NULL, 0, false, "agree in every bit");
  check_diff(F(nan_at_4), F(other_nan), NULL, 0, true, "1 of 6 values differ");
  check_diff(F(nan_at_4), F(other_nan), NULL, 1e-30, false, "agree within");
  check_diff(F(f), F(nan_at_4), NULL, 1e29, true, "most at [1, 1]: 4 and nan, inf apart");
  check_diff(F(infinite), F(nan_at_4), NULL, 1, true, "inf apart");
  check_diff(F(infinite), F(infinite), NULL, 1, false, "agree");
  check_diff(F(f), F(infinite), NULL, 1e30, true, "inf apart");
  check_diff(I(i64), I(i64_next), NULL, 0, true, "1 of 1 values differ, most at scalar: ");
  check_diff(I(i64), I(i64_next), NULL, 1e-6, false, "agree");
  check_diff(I(i64_low), I(i64), NULL, 0, true, "1.84e+19 apart");
  check_diff(U(u8), U(u8_other), NULL, 0, true, "most at [1]: 200 and 10, 190 apart");
  check_diff(F(f), &(array){ "model/w", SHOAL_F32, 1, { 6 }, f }, NULL, 0, true, "model/w: f32 [2, 3] and f32 [6]");
  check_diff(F(f), &(array){ "model/w", SHOAL_U32, 2, { 2, 3 }, f }, NULL, 0, true, "f32 [2, 3] and u32 [2, 3]");
  check_diff(F(f), &(array){ "model/v", SHOAL_F32, 2, { 2, 3 }, f }, NULL, 0, true,
             "model/v: only in the second\nmodel/w: only in the first");
  check_diff(F(f), F(f1), "model/", 0, true, "model/w: 2 of 6");
#undef F
#undef I
#undef U
}

static void prefix_and_position(void)
{
  fixture_output o;
  bool different = false;
  char *a = fixture_write(dir, 300), *b = fixture_write(dir, 301);
  CHECK_OK(shoal_ckpt_diff(a, b, NULL, NULL, 0, false, fixture_capture(&o), &different));
  CHECK(different, "%s", o.text);
  CHECK_HAS(fixture_text(&o), "@step: 300 and 301\n");
  CHECK_HAS(o.text, "@samples: 900 and 903\n");
  CHECK_HAS(o.text, "model/conv1.weight: ");
  CHECK_LACKS(o.text, "model/empty");
  fixture_release(&o);
  CHECK_OK(shoal_ckpt_diff(a, b, "model/empty", NULL, 0, false, fixture_capture(&o), &different));
  CHECK(!different, "%s", o.text);
  CHECK_HAS(fixture_text(&o), "1 data sets", "%s", o.text);
  fixture_release(&o);
  CHECK_STATUS(shoal_ckpt_diff(a, b, "modl/", NULL, 0, false, stderr, &different), SHOAL_ERR_USAGE,
               "nothing to compare");
  CHECK_HAS(check_error(), "modl/");
  CHECK_STATUS(shoal_ckpt_diff(a, b, NULL, NULL, -1, false, stderr, &different), SHOAL_ERR_USAGE);
  CHECK_STATUS(shoal_ckpt_diff(a, b, NULL, NULL, (double)NAN, false, stderr, &different), SHOAL_ERR_USAGE);
  fixture_spoil(b, "x", 1);
  CHECK_STATUS(shoal_ckpt_diff(a, b, NULL, NULL, 0, false, stderr, &different), SHOAL_ERR_IO,
               "damage is no difference");
  free(a);
  free(b);
}

/* Longer than one piece; the only difference is the last element. */
static void far_away_elements(void)
{
  enum { N = (9 << 20) / 4 + 3 };
  float *x = calloc(N, sizeof *x), *y = calloc(N, sizeof *y);
  y[N - 1] = 3;
  const array a = { "model/w", SHOAL_F32, 1, { N }, x }, b = { "model/w", SHOAL_F32, 1, { N }, y };
  char *word = shoal_strdup_printf("1 of %d values differ, most at [%d]: 0 and 3", N, N - 1);
  check_diff(&a, &b, NULL, 0, true, word);
  free(word);
  free(x);
  free(y);
}

int main(int argc, char **argv)
{
  dir = fixture_make();
  list();
  show();
  verdicts();
  prefix_and_position();
  far_away_elements();
  run_python(argc > 1 ? argv[1] : "python3");
  return check_done();
}
