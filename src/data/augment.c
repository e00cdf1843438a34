/* crop4 pads an image by four pixels on each side and crops a window of the original size at a random offset, which is
 * the same as shifting it by -4 .. 4 pixels; hflip mirrors it left to right with probability 1/2.  The padding is 0
 * after normalisation, that is the mean colour: the usual order (pad with black, then normalise) would create a strong
 * edge at the border.  All of this happens in the pass that converts raw values to floats:
 *
 *     raw row     . . a b c d e f          shifted right by 2
 *     out row     0 0 a b c d              mirrored:  d c b a 0 0
 */
#include "data/augment.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/subnormal.h"
#include <string.h>

enum { PAD = 4 };

shoal_augment shoal_augment_choose(uint64_t seed, uint64_t epoch, uint64_t sample, bool crop4, bool hflip)
{
  shoal_rng_block r = shoal_rng(seed, SHOAL_RNG_AUGMENT, sample, (uint32_t)epoch);
  shoal_augment a = { 0 };
  if (crop4) {
    a.down = (int)((uint64_t)r.v[0] * (2 * PAD + 1) >> 32) - PAD;
    a.right = (int)((uint64_t)r.v[1] * (2 * PAD + 1) >> 32) - PAD;
  }
  a.mirror = hflip && r.v[2] >> 31;
  return a;
}

/* The top bit of the result is set if v is not finite, or 2^99 or more: only exponents from there on carry. */
static inline uint32_t mark(float v)
{
  enum { FROM = 127 + 99 };
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return (bits & 0x7f800000u) + ((256u - FROM) << 23);
}

/* In double, where no finite sample overflows, and without flushing, which would take a sample of 1e-39 for 0. */
static uint32_t convert_f64(const shoal_normal *n, size_t g, const float *x, size_t count, float *out)
{
  uint32_t marks = 0;
  bool flushes = shoal_subnormals_flush(false);
  for (size_t i = 0; i < count; i++) {
    out[i] = (float)((x[i] - n->mean_f64[g]) / n->std_f64[g]);
    marks |= mark(out[i]);
  }
  (void)shoal_subnormals_flush(flushes);
  return marks;
}

/* Converts `count` values of group g, starting at raw[from].  The top bit of the result is set as by mark().  (What a
 * table holds is near.) */
static uint32_t convert(const shoal_normal *n, size_t g, const void *raw, size_t from, size_t count, float *out)
{
  uint32_t marks = 0;
  if (n->table) {
    const float *table = n->table + 256 * g;
    const uint8_t *x = (const uint8_t *)raw + from;
    for (size_t i = 0; i < count; i++) out[i] = table[x[i]];
  } else {
    const float *x = (const float *)raw + from, mean = n->mean[g], scale = n->scale[g];
    if (scale == 0) return convert_f64(n, g, x, count, out);
    for (size_t i = 0; i < count; i++) {
      out[i] = (x[i] - mean) * scale;
      marks |= mark(out[i]);
    }
    if (marks >> 31) return convert_f64(n, g, x, count, out);
  }
  return marks;
}

bool shoal_normal_apply(const shoal_normal *n, const void *raw, float *out)
{
  uint32_t marks = 0;
  for (size_t g = 0; g < n->groups; g++) marks |= convert(n, g, raw, g * n->plane, n->plane, out + g * n->plane);
  return marks >> 31 == 0;
}

static void mirror_row(float *row, size_t n)
{
  for (size_t i = 0, k = n - 1; i < k; i++, k--) {
    float t = row[i];
    row[i] = row[k];
    row[k] = t;
  }
}

bool shoal_augment_apply(const shoal_augment *a, const shoal_normal *n, const shoal_shape *image, const void *raw,
                         float *out)
{
  int64_t c = image->dim[0], h = image->dim[1], w = image->dim[2];
  /* Columns [left, right) of the output come from the image; a small image may be shifted out of view entirely. */
  uint32_t marks = 0;
  int64_t left = SHOAL_MIN(SHOAL_MAX(a->right, 0), w), right = SHOAL_MAX(SHOAL_MIN(w + a->right, w), left);
  for (int64_t k = 0; k < c; k++)
    for (int64_t y = 0; y < h; y++, out += w) {
      int64_t from = y - a->down;
      if (from < 0 || from >= h) {
        memset(out, 0, (size_t)w * sizeof *out);
        continue;
      }
      memset(out, 0, (size_t)left * sizeof *out);
      if (right > left)
        marks |= convert(n, (size_t)k, raw, (size_t)((k * h + from) * w + left - a->right), (size_t)(right - left),
                         out + left);
      memset(out + right, 0, (size_t)(w - right) * sizeof *out);
      if (a->mirror) mirror_row(out, (size_t)w);
    }
  return marks >> 31 == 0;
}
