/* What goes in comes out: every type and shape, scalars, empty arrays, attributes; and what may not go in is refused
 * with nothing left behind. */
#include "unit/ckpt_together.h"

static shoal_group *g;

static void all_types_and_shapes(const char *dir)
{
  char *path = fixture_write(dir, 1234);
  shoal_ckpt *c = NULL;
  CHECK_STR(strrchr(path, '/'), "/step-000001234.h5", "%s", path);
  CHECK_EQ(fixture_count(dir), 1, "only the checkpoint stands in the folder");
  for (int verify = 0; verify < 2; verify++) {
    REQUIRE(shoal_ckpt_open(path, verify, &c) == SHOAL_OK, "open");
    CHECK(fixture_matches(c, 1234), "contents");
    const shoal_ckpt_info *i = shoal_ckpt_get_info(c);
    CHECK_EQ(i->step, 1234);
    CHECK_EQ(i->epoch, 123);
    CHECK_EQ(i->samples, 3702);
    CHECK_EQ(i->size, 1);
    CHECK_STR(i->run, "fixture");
    CHECK_STR(i->method, "daso");
    CHECK_STR(i->model, "resnet20");
    CHECK(!i->placement, "no placement was given");
    CHECK_STR(i->layout, "2x2", "layout, config");
    CHECK_HAS(i->config, "model: { name: resnet20 }\n");
    shoal_ckpt_close(c);
  }
  free(path);
}

static void names_are_sorted(const char *dir)
{
  char *path = fixture_write(dir, 7);
  shoal_ckpt *c = NULL;
  const char *const *names;
  REQUIRE(shoal_ckpt_open(path, true, &c) == SHOAL_OK, "open");
  size_t n = shoal_ckpt_names(c, &names);
  CHECK_EQ(n, FIXTURE_SETS + 1);
  for (size_t i = 1; i < n; i++) CHECK(strcmp(names[i - 1], names[i]) < 0, "%s %s", names[i - 1], names[i]);
  CHECK(shoal_ckpt_has(c, "replica/0/weights"));
  CHECK(!shoal_ckpt_has(c, "replica/0"));
  CHECK(!shoal_ckpt_has(c, ""));
  shoal_ckpt_close(c);
  free(path);
}

static void scalars_and_wrong_questions(const char *dir)
{
  static char placement[1 << 20];
  shoal_ckpt_info info;
  shoal_ckpt_writer *w;
  shoal_ckpt *c;
  char *path;
  int64_t i64 = 5;
  double f64 = 0;
  float f32[4];
  fixture_info(1, 1, &info);
  info.config = NULL;
  info.placement = placement;
  memset(placement, 'p', sizeof placement - 1); /* of some thousand ranks: more than HDF5 keeps in an object header */
  REQUIRE(shoal_ckpt_begin(g, dir, &info, 0, &w) == SHOAL_OK, "begin");
  shoal_ckpt_put_i64(w, "method/counter", INT64_MIN);
  shoal_ckpt_put_f64(w, "method/plateau/best", -0.0);
  shoal_ckpt_put(w, "model/w", SHOAL_F32, 1, (uint64_t[]){ 4 }, (float[]){ 1, 2, 3, 4 });
  REQUIRE(shoal_ckpt_commit(w, &path) == SHOAL_OK, "commit");
  REQUIRE(shoal_ckpt_open(path, true, &c) == SHOAL_OK, "open");
  CHECK_OK(shoal_ckpt_get_i64(c, "method/counter", &i64));
  CHECK_EQ(i64, INT64_MIN);
  if (CHECK_OK(shoal_ckpt_get_f64(c, "method/plateau/best", &f64), "f64 keeps its sign")) CHECK(signbit(f64));
  CHECK_EQ(shoal_ckpt_get_info(c)->config[0], '\0', "without a run file the text is empty");
  CHECK_STR(shoal_ckpt_get_info(c)->placement, placement);
  i64 = 77;
  CHECK_STATUS(shoal_ckpt_get_i64(c, "method/plateau/best", &i64), SHOAL_ERR_IO,
               "a wrong type leaves the output alone");
  CHECK_EQ(i64, 77);
  CHECK_HAS(check_error(), "is f64 scalar");
  CHECK_STATUS(shoal_ckpt_get(c, "model/w", SHOAL_F32, 3, f32), SHOAL_ERR_IO, "wrong length");
  CHECK_HAS(check_error(), "model/w");
  CHECK_HAS(check_error(), "f32 [4]");
  CHECK_STATUS(shoal_ckpt_get(c, "model/v", SHOAL_F32, 4, f32), SHOAL_ERR_IO);
  CHECK_HAS(check_error(), "nearest is model/w");
  shoal_ckpt_close(c);
  free(path);
}

/* Every refused put comes out of commit, leaves no file, and does not touch the checkpoint that stood there. */
static void refused_arrays(const char *dir)
{
  static const struct {
    const char *name;
    int type, ndim;
    uint64_t dims[2];
  } bad[] = {
    { "", SHOAL_F32, 0, { 0 } },
    { "/model/a", SHOAL_F32, 0, { 0 } },
    { "model//a", SHOAL_F32, 0, { 0 } },
    { "model/a/", SHOAL_F32, 0, { 0 } },
    { "model/../a", SHOAL_F32, 0, { 0 } },
    { "./a", SHOAL_F32, 0, { 0 } },
    { "model/a b", SHOAL_F32, 0, { 0 } },
    { "model/a\tb", SHOAL_F32, 0, { 0 } },
    { "model/\xc3\xa4", SHOAL_F32, 0, { 0 } },
    { "model/a", 99, 0, { 0 } },
    { "model/a", SHOAL_F32, 9, { 0 } },
    { "model/a", SHOAL_F32, -1, { 0 } },
    { "model/a", SHOAL_F32, 2, { UINT64_MAX / 2, 4 } },
    { "model/a", SHOAL_F32, 2, { 0, UINT64_MAX } },
  };
  char *before = fixture_write(dir, 50);
  for (size_t i = 0; i < SHOAL_COUNT(bad); i++) {
    shoal_ckpt_info info;
    shoal_ckpt_writer *w;
    float one = 1;
    fixture_info(50, 1, &info);
    REQUIRE(shoal_ckpt_begin(g, dir, &info, 0, &w) == SHOAL_OK, "begin");
    shoal_ckpt_put(w, bad[i].name, (shoal_dtype)bad[i].type, bad[i].ndim, bad[i].dims, &one);
    shoal_ckpt_put_i64(w, "method/later", 1);
    CHECK_STATUS(shoal_ckpt_commit(w, NULL), SHOAL_ERR_ARG, "%s is refused", bad[i].name);
    CHECK_EQ(fixture_count(dir), 1, "%s leaves something behind", bad[i].name);
  }
  shoal_ckpt *c = NULL;
  REQUIRE(shoal_ckpt_open(before, true, &c) == SHOAL_OK, "the old one");
  CHECK(fixture_matches(c, 50), "the old one is untouched");
  shoal_ckpt_close(c);
  free(before);
}

static void names_twice_or_inside_each_other(const char *dir)
{
  static const char *const pairs[][2] = { { "model/a", "model/a" },
                                          { "model/a", "model/a/b" },
                                          { "model/a/b", "model/a" } };
  for (size_t i = 0; i < SHOAL_COUNT(pairs); i++) {
    shoal_ckpt_info info;
    shoal_ckpt_writer *w;
    fixture_info(3, 1, &info);
    REQUIRE(shoal_ckpt_begin(g, dir, &info, 0, &w) == SHOAL_OK, "begin");
    shoal_ckpt_put_i64(w, pairs[i][0], 1);
    shoal_ckpt_put_i64(w, pairs[i][1], 2);
    CHECK_STATUS(shoal_ckpt_commit(w, NULL), SHOAL_ERR_IO, "%s, %s", pairs[i][0], pairs[i][1]);
    CHECK_HAS(check_error(), pairs[i][1]);
    CHECK_EQ(fixture_count(dir), 0, "nothing stays");
  }
}

static void abandoned_and_replaced(const char *dir)
{
  shoal_ckpt_info info;
  shoal_ckpt_writer *w;
  shoal_ckpt *c;
  fixture_info(60, 1, &info);
  char *path = fixture_write(dir, 60);
  REQUIRE(shoal_ckpt_begin(g, dir, &info, 0, &w) == SHOAL_OK, "begin");
  shoal_ckpt_put_i64(w, "method/only", 1);
  CHECK_EQ(fixture_count(dir), 2, "the temporary stands beside");
  shoal_ckpt_abandon(w);
  CHECK_EQ(fixture_count(dir), 1, "and goes");
  REQUIRE(shoal_ckpt_open(path, true, &c) == SHOAL_OK, "the old one stays");
  REQUIRE(fixture_matches(c, 60), "the old one stays");
  shoal_ckpt_close(c);
  REQUIRE(shoal_ckpt_begin(g, dir, &info, 0, &w) == SHOAL_OK, "begin");
  shoal_ckpt_put_i64(w, "method/only", 1);
  CHECK_OK(shoal_ckpt_commit(w, NULL));
  REQUIRE(shoal_ckpt_open(path, true, &c) == SHOAL_OK, "a step may be saved again");
  CHECK(shoal_ckpt_has(c, "method/only"), "and is the new one");
  CHECK(!shoal_ckpt_has(c, "model/conv1.bias"));
  shoal_ckpt_close(c);
  free(path);
}

static int64_t bytes_read(void)
{
  char *text = NULL;
  size_t n;
  REQUIRE(shoal_read_file("/proc/self/io", &text, &n) == SHOAL_OK, "/proc/self/io");
  int64_t bytes = strtoll(strstr(text, "rchar:") + 6, NULL, 10);
  free(text);
  return bytes;
}

/* To seal a file and to verify it, it is read once each. */
static void reads_twice(const char *dir)
{
  enum { N = 4 << 20 };
  shoal_ckpt_info info;
  shoal_ckpt_writer *w;
  shoal_ckpt *c;
  float *x;
  char *path;
  REQUIRE(SHOAL_ALLOC((size_t)N, &x) == SHOAL_OK, "array");
  fixture_info(70, 1, &info);
  REQUIRE(shoal_ckpt_begin(g, dir, &info, 0, &w) == SHOAL_OK, "begin");
  for (int i = 0; i < 3; i++) {
    char name[16];
    snprintf(name, sizeof name, "model/%d", i);
    shoal_ckpt_put(w, name, SHOAL_F32, 1, (uint64_t[]){ N }, x);
  }
  int64_t before = bytes_read();
  REQUIRE(shoal_ckpt_commit(w, &path) == SHOAL_OK, "commit");
  int64_t written = bytes_read() - before, size = INT64_C(3) * N * (int64_t)sizeof *x;
  CHECK(written < size * 21 / 10, "%lld bytes read to commit %lld", (long long)written, (long long)size);
  before = bytes_read();
  REQUIRE(shoal_ckpt_open(path, true, &c) == SHOAL_OK, "open");
  CHECK(bytes_read() - before < size * 11 / 10, "more than once read to verify");
  shoal_ckpt_close(c);
  free(path);
  free(x);
}

static void begin_refuses(const char *dir)
{
  shoal_ckpt_info info;
  shoal_ckpt_writer *w = NULL;
  fixture_info(1, 1, &info);
  CHECK_STATUS(shoal_ckpt_begin(g, dir, &info, UINT64_MAX, &w), SHOAL_ERR_IO, "no disk is that large");
  CHECK(!w);
  CHECK_HAS(check_error(), "free");
  CHECK_HAS(check_error(), dir);
  char *file = shoal_strdup_printf("%s/plain", dir), *below = shoal_strdup_printf("%s/plain/ckpt", dir);
  fixture_spoil(file, "x", 1);
  CHECK_STATUS(shoal_ckpt_begin(g, below, &info, 0, &w), SHOAL_ERR_IO, "a file is no folder");
  CHECK(!w);
  CHECK_EQ(fixture_count(dir), 1, "nothing was left behind");
  free(file);
  free(below);
}

static void longer_than_a_piece(const char *dir)
{
  enum { ROWS = 700, COLUMNS = 2503 }; /* 7 MB: several pieces, with a rest */
  shoal_ckpt_info info;
  shoal_ckpt_writer *w;
  shoal_ckpt *c;
  char *path;
  float *x = malloc(sizeof(float) * ROWS * COLUMNS), *y = malloc(sizeof(float) * ROWS * COLUMNS);
  fixture_info(2, 1, &info);
  fixture_fill(SHOAL_F32, 3, ROWS * COLUMNS, x);
  REQUIRE(shoal_ckpt_begin(g, dir, &info, 1 << 20, &w) == SHOAL_OK, "begin");
  shoal_ckpt_put(w, "model/large", SHOAL_F32, 2, (uint64_t[]){ ROWS, COLUMNS }, x);
  shoal_ckpt_put_replica(w, "large", SHOAL_F32, ROWS * COLUMNS, x);
  REQUIRE(shoal_ckpt_commit(w, &path) == SHOAL_OK, "commit");
  REQUIRE(shoal_ckpt_open(path, true, &c) == SHOAL_OK, "open");
  CHECK_OK(shoal_ckpt_get(c, "model/large", SHOAL_F32, ROWS * COLUMNS, y));
  CHECK_BYTES(x, y, sizeof(float) * ROWS * COLUMNS);
  memset(y, 0, sizeof(float) * ROWS * COLUMNS);
  CHECK_OK(shoal_ckpt_get(c, "replica/0/large", SHOAL_F32, ROWS * COLUMNS, y));
  CHECK_BYTES(x, y, sizeof(float) * ROWS * COLUMNS);
  shoal_ckpt_close(c);
  free(path);
  free(x);
  free(y);
}

int main(void)
{
  static void (*const cases[])(const char *) = { all_types_and_shapes,
                                                 names_are_sorted,
                                                 scalars_and_wrong_questions,
                                                 refused_arrays,
                                                 names_twice_or_inside_each_other,
                                                 abandoned_and_replaced,
                                                 reads_twice,
                                                 begin_refuses,
                                                 longer_than_a_piece };
  shoal_world_options options = { 0 };
  shoal_world *world;
  REQUIRE(shoal_world_open(&options, &world) == SHOAL_OK, "world");
  g = shoal_world_control(world);
  const char *dir = fixture_make();
  for (size_t i = 0; i < SHOAL_COUNT(cases); i++) {
    char *sub = shoal_strdup_printf("%s/case%zu", dir, i);
    REQUIRE(mkdir(sub, 0777) == 0, "%s", sub);
    cases[i](sub);
    free(sub);
  }
  shoal_world_close(world);
  return check_done();
}
