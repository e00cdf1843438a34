/* Generated data sets: the same arguments give the same file to the byte, the content is pinned, samples do not depend
 * on how many there are, wrong arguments are refused, and glyphs are neither trivial nor hard: a small mlp, fed by the
 * loader, learns them, the nearest class mean does not. */
#include "base/mem.h"
#include "base/rng.h"
#include "data/loader.h"
#include "data_temp.h"

static shoal_status synth(const char *kind, const char *name, uint64_t train, uint64_t test, uint64_t seed)
{
  shoal_synth_args a;
  shoal_synth_defaults(kind, &a);
  a.train = train;
  a.test = test;
  a.seed = seed;
  return shoal_data_synth(&a, temp_path(name));
}

static shoal_dataset *open_set(const char *name)
{
  shoal_dataset *d = NULL;
  REQUIRE(shoal_dataset_open(temp_path(name), &d) == SHOAL_OK, "%s", name);
  return d;
}

static uint32_t checksum_of(const char *name)
{
  shoal_dataset *d = open_set(name);
  uint32_t crc = shoal_dataset_info(d)->checksum;
  shoal_dataset_close(d);
  return crc;
}

static bool same_file(const char *a, const char *b)
{
  char *x = NULL, *y = NULL;
  size_t n = 0, m = 0;
  CHECK_OK(shoal_read_file(temp_path(a), &x, &n));
  CHECK_OK(shoal_read_file(temp_path(b), &y, &m));
  bool same = n == m && memcmp(x, y, n) == 0;
  free(x);
  free(y);
  return same;
}

/* Frozen for glyphs and text, which use exact arithmetic up to the last rounding. */
static void test_same(void)
{
  static const struct {
    const char *kind;
    uint32_t checksum;
  } kinds[] = { { "glyphs", 0x3a9095d2 }, { "blobs", 0 }, { "text", 0x79ede953 } };
  for (size_t k = 0; k < 3; k++) {
    CHECK_OK(synth(kinds[k].kind, "a.h5", 500, 100, 3));
    CHECK_OK(synth(kinds[k].kind, "b.h5", 500, 100, 3));
    CHECK_OK(synth(kinds[k].kind, "c.h5", 500, 100, 4));
    CHECK(same_file("a.h5", "b.h5"), "%s: two files of the same arguments differ", kinds[k].kind);
    CHECK(!same_file("a.h5", "c.h5"), "%s: seeds make no difference", kinds[k].kind);
    CHECK(k == 1 || checksum_of("a.h5") == kinds[k].checksum, "%s: 0x%08x", kinds[k].kind, checksum_of("a.h5"));
  }
  CHECK_EQ(temp_leftovers(), 0);
}

static void test_prefix(void)
{
  enum { IMAGE = 28 * 28 };
  uint8_t x[IMAGE], z[IMAGE];
  int32_t y, v;
  CHECK_OK(synth("glyphs", "short.h5", 20, 5, 3));
  CHECK_OK(synth("glyphs", "long.h5", 60, 9, 3));
  shoal_dataset *a = open_set("short.h5"), *b = open_set("long.h5");
  for (uint64_t i = 0; i < 25; i++) {
    shoal_split s = i < 20 ? SHOAL_TRAIN : SHOAL_TEST;
    CHECK_OK(shoal_dataset_read(a, s, i % 20, x, &y));
    CHECK_OK(shoal_dataset_read(b, s, i % 20, z, &v));
    CHECK_EQ(y, v, "sample %d depends on the size of the set", (int)i);
    CHECK_BYTES(x, z, IMAGE, "sample %d depends on the size of the set", (int)i);
  }
  shoal_dataset_close(a);
  shoal_dataset_close(b);
}

static void test_refused(void)
{
  shoal_synth_args a;
  shoal_synth_defaults("nothing", &a);
  CHECK(!a.kind, "unknown kind");
  a.kind = "glyph";
  CHECK_REFUSED(shoal_data_synth(&a, temp_path("x.h5")), SHOAL_ERR_ARG, "did you mean \"glyphs\"");
  shoal_synth_defaults("glyphs", &a);
  a.classes = 11;
  CHECK_REFUSED(shoal_data_synth(&a, temp_path("x.h5")), SHOAL_ERR_ARG,
                "classes (digits) is 11, it must be in 2 to 10");
  shoal_synth_defaults("glyphs", &a);
  a.size = 4;
  CHECK_REFUSED(shoal_data_synth(&a, temp_path("x.h5")), SHOAL_ERR_ARG, "image size is 4");
  shoal_synth_defaults("blobs", &a);
  a.train = 0;
  CHECK_REFUSED(shoal_data_synth(&a, temp_path("x.h5")), SHOAL_ERR_ARG, "training samples is 0");
  shoal_synth_defaults("blobs", &a);
  a.noise = -1;
  CHECK_REFUSED(shoal_data_synth(&a, temp_path("x.h5")), SHOAL_ERR_ARG, "noise is -1");
  CHECK(!shoal_path_exists(temp_path("x.h5")), "nothing is left");
  CHECK_EQ(temp_leftovers(), 0);
}

/* ---- learning ---- */

enum { IN = 28 * 28, HIDDEN = 48, OUT = 10, BATCH = 32 };
typedef struct {
  float w1[IN][HIDDEN], b1[HIDDEN], w2[HIDDEN][OUT], b2[OUT];
} mlp;

static int predict(const mlp *m, const float *x, float *h, float *p)
{
  memcpy(h, m->b1, sizeof m->b1);
  memcpy(p, m->b2, sizeof m->b2);
  for (int i = 0; i < IN; i++)
    for (int k = 0; k < HIDDEN; k++) h[k] += x[i] * m->w1[i][k];
  for (int k = 0; k < HIDDEN; k++) {
    h[k] = h[k] > 0 ? h[k] : 0;
    for (int o = 0; o < OUT; o++) p[o] += h[k] * m->w2[k][o];
  }
  int best = 0;
  for (int o = 1; o < OUT; o++) best = p[o] > p[best] ? o : best;
  return best;
}

/* One sample of plain SGD. */
static void learn(mlp *m, const float *x, int y, float rate)
{
  float h[HIDDEN], p[OUT], dh[HIDDEN], sum = 0;
  float top = (predict(m, x, h, p), p[0]);
  for (int o = 0; o < OUT; o++) top = fmaxf(top, p[o]);
  for (int o = 0; o < OUT; o++) sum += p[o] = expf(p[o] - top);
  for (int o = 0; o < OUT; o++) p[o] = rate * (p[o] / sum - (o == y));
  for (int k = 0; k < HIDDEN; k++) {
    dh[k] = 0;
    for (int o = 0; o < OUT; o++) {
      dh[k] += p[o] * m->w2[k][o];
      m->w2[k][o] -= h[k] * p[o];
    }
    dh[k] = h[k] > 0 ? dh[k] : 0;
    m->b1[k] -= dh[k];
  }
  for (int o = 0; o < OUT; o++) m->b2[o] -= p[o];
  for (int i = 0; i < IN; i++)
    for (int k = 0; k < HIDDEN; k++) m->w1[i][k] -= x[i] * dh[k];
}

static void test_learnable(void)
{
  static mlp m;
  static float centre[OUT][IN];
  int count[OUT] = { 0 };
  CHECK_OK(synth("glyphs", "glyphs.h5", 10000, 2000, 1));
  shoal_dataset *d = open_set("glyphs.h5");
  shoal_loader_config c = { .split = SHOAL_TRAIN, .seed = 1, .size = 1, .batch = BATCH, .shuffle = true, .depth = 2 };
  shoal_loader *train = NULL, *test = NULL;
  CHECK_OK(shoal_loader_create(d, &c, &train));
  c.split = SHOAL_TEST;
  c.shuffle = false;
  CHECK_OK(shoal_loader_create(d, &c, &test));
  for (int i = 0; i < IN * HIDDEN; i++)
    (&m.w1[0][0])[i] = 0.07f * (shoal_rng_unit(shoal_rng(1, SHOAL_RNG_TEST, (uint64_t)i, 0).v[0]) - 0.5f);
  for (int i = 0; i < HIDDEN * OUT; i++)
    (&m.w2[0][0])[i] = 0.3f * (shoal_rng_unit(shoal_rng(1, SHOAL_RNG_TEST, (uint64_t)i, 1).v[0]) - 0.5f);
  const shoal_batch *b;
  for (uint64_t epoch = 0; epoch < 3; epoch++) {
    CHECK_OK(shoal_loader_seek(train, epoch, 0));
    while (shoal_loader_next(train, &b) == SHOAL_OK && b)
      for (int64_t i = 0; i < b->n; i++) {
        learn(&m, b->x + i * IN, b->y[i], epoch < 2 ? 0.01f : 0.002f);
        if (epoch > 0) continue;
        count[b->y[i]]++;
        for (int k = 0; k < IN; k++) centre[b->y[i]][k] += b->x[i * IN + k];
      }
  }
  int right = 0, near = 0, n = 0;
  while (shoal_loader_next(test, &b) == SHOAL_OK && b)
    for (int64_t i = 0; i < b->n; i++, n++) {
      float h[HIDDEN], p[OUT], best = INFINITY;
      int nearest = 0;
      right += predict(&m, b->x + i * IN, h, p) == b->y[i];
      for (int o = 0; o < OUT; o++) {
        float away = 0;
        for (int k = 0; k < IN; k++) away += powf(b->x[i * IN + k] - centre[o][k] / (float)count[o], 2);
        if (away < best) nearest = o;
        best = fminf(best, away);
      }
      near += nearest == b->y[i];
    }
  CHECK_GT(right, 0.95 * n, "the mlp, right of %d", n);
  CHECK_LT(near, 0.85 * n, "the nearest class mean, right of %d: too easy", n);
  fprintf(stderr, "glyphs: mlp %.1f %%, nearest class mean %.1f %%\n", 100.0 * right / n, 100.0 * near / n);
  shoal_loader_destroy(train);
  shoal_loader_destroy(test);
  shoal_dataset_close(d);
}

int main(void)
{
  temp_make();
  test_same();
  test_prefix();
  test_refused();
  test_learnable();
  return check_done();
}
