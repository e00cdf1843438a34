/* Augmentation against the plain recipe: normalise, pad, cut, mirror, each as a pass of its own over a padded copy; and
 * the choices, which must be a fixed function of (seed, epoch, sample) that uses all crops evenly. */
#include "base/mem.h"
#include "base/rng.h"
#include "check.h"
#include "data/augment.h"

enum { MAX = 3 * 16 * 16, PAD = 4 };

/* The recipe, on a frame with four rows and columns of zeros around the normalised image. */
static void recipe(const shoal_augment *a, const shoal_shape *s, const float *image, float *out)
{
  int c = (int)s->dim[0], h = (int)s->dim[1], w = (int)s->dim[2], fw = w + 2 * PAD, fh = h + 2 * PAD;
  float *frame = calloc((size_t)(c * fh * fw), sizeof *frame);
  REQUIRE(frame, "memory");
  for (int k = 0; k < c; k++)
    for (int y = 0; y < h; y++)
      for (int x = 0; x < w; x++) frame[(k * fh + y + PAD) * fw + x + PAD] = image[(k * h + y) * w + x];
  for (int k = 0; k < c; k++)
    for (int y = 0; y < h; y++)
      for (int x = 0; x < w; x++) {
        int from = a->mirror ? w - 1 - x : x;
        out[(k * h + y) * w + x] = frame[(k * fh + y + PAD - a->down) * fw + from + PAD - a->right];
      }
  free(frame);
}

static void check_shape(shoal_shape s, bool bytes)
{
  size_t n = (size_t)shoal_shape_count(&s), c = (size_t)s.dim[0];
  uint8_t raw_bytes[MAX];
  float raw_floats[MAX], plain[MAX], want[MAX], got[MAX], table[3 * 256], mean[3] = { 1, -2, 3 },
                                                                          scale[3] = { 2, .5f, 4 };
  shoal_normal normal = { c, n / c, bytes ? table : NULL, mean, scale, NULL, NULL };
  for (size_t i = 0; i < n; i++) {
    raw_bytes[i] = (uint8_t)(i * 37 + 11);
    raw_floats[i] = (float)raw_bytes[i] / 8;
  }
  for (size_t i = 0; i < 3 * 256; i++) table[i] = (float)(i % 256) - (float)(i / 256) * 100;
  const void *raw = bytes ? (const void *)raw_bytes : raw_floats;
  shoal_normal_apply(&normal, raw, plain);
  for (size_t i = 0; i < n; i++) {
    size_t g = i / (n / c);
    float value = bytes ? table[g * 256 + raw_bytes[i]] : (raw_floats[i] - mean[g]) * scale[g];
    CHECK_EQ(plain[i], value, "element %zu", i);
  }
  for (int down = -PAD; down <= PAD; down++)
    for (int right = -PAD; right <= PAD; right++)
      for (int mirror = 0; mirror < 2; mirror++) {
        shoal_augment a = { down, right, mirror };
        memset(got, 0x7f, sizeof got);
        recipe(&a, &s, plain, want);
        shoal_augment_apply(&a, &normal, &s, raw, got);
        CHECK_BYTES(got, want, n * sizeof *got, "[%d,%d,%d] moved by %d, %d, mirror %d", (int)s.dim[0], (int)s.dim[1],
                    (int)s.dim[2], down, right, mirror);
      }
}

static void test_choices(void)
{
  enum { DRAWS = 81 * 2 * 100 };
  int count[2][9][9] = { 0 };
  for (uint64_t i = 0; i < DRAWS; i++) {
    shoal_augment a = shoal_augment_choose(3, i % 5, i / 5, true, true),
                  b = shoal_augment_choose(3, i % 5, i / 5, true, true);
    CHECK_EQ(a.down, b.down, "a pure function");
    CHECK_EQ(a.right, b.right);
    CHECK_EQ(a.mirror, b.mirror);
    REQUIRE(abs(a.down) <= PAD, "in range");
    REQUIRE(abs(a.right) <= PAD, "in range");
    count[a.mirror][a.down + PAD][a.right + PAD]++;
  }
  double chi2 = 0; /* 161 degrees of freedom: mean 161, deviation 18 */
  for (int i = 0; i < 162; i++) chi2 += pow((&count[0][0][0])[i] - 100.0, 2) / 100.0;
  CHECK_LT(chi2, 161 + 6 * 18);
  shoal_augment a = shoal_augment_choose(3, 1, 5, false, false);
  CHECK(!a.down, "nothing asked, nothing done");
  CHECK(!a.right);
  CHECK(!a.mirror);
}

/* Frozen: a resumed run of a later version must see the same pictures. */
static void test_pinned(void)
{
  static const shoal_augment want[] = { { 3, -2, 0 }, { 3, -2, 1 }, { 3, 3, 1 } };
  for (uint64_t i = 0; i < SHOAL_COUNT(want); i++) {
    shoal_augment a = shoal_augment_choose(42, 1, 1000 * i, true, true);
    CHECK_EQ(a.down, want[i].down);
    CHECK_EQ(a.right, want[i].right);
    CHECK_EQ(a.mirror, want[i].mirror);
  }
}

int main(void)
{
  for (int bytes = 0; bytes < 2; bytes++) {
    check_shape(SHOAL_SHAPE(3, 16, 16), bytes);
    check_shape(SHOAL_SHAPE(2, 9, 13), bytes);
    check_shape(SHOAL_SHAPE(1, 3, 2), bytes); /* may move out of sight */
    check_shape(SHOAL_SHAPE(1, 1, 1), bytes);
  }
  test_choices();
  test_pinned();
  return check_done();
}
