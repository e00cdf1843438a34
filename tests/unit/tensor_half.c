/* Half conversions over every code, and rounding over every tie and its neighbours, against arithmetic that knows
 * nothing of bit tricks: the value of a code by ldexp, the nearest code by looking at both neighbours. */
#include "check.h"
#include "tensor/half.h"
#include <stdbool.h>

enum { CODES = 65536 };

typedef struct {
  const char *name;
  int mantissa, bias, exponents; /* bits, bias, and the exponent that means infinity or NaN */
  void (*narrow)(size_t n, const float *x, uint16_t *y);
  void (*widen)(size_t n, const uint16_t *x, float *y);
  void (*add)(size_t n, const uint16_t *x, float *y);
} format;

static const format formats[] = {
  { "bf16", 7, 127, 255, shoal_bf16_from_f32, shoal_f32_from_bf16, shoal_f32_add_bf16 },
  { "f16", 10, 15, 31, shoal_f16_from_f32, shoal_f32_from_f16, shoal_f32_add_f16 },
};

static bool is_nan_code(const format *f, unsigned code)
{
  return (int)(code >> f->mantissa & (unsigned)f->exponents) == f->exponents && (code & ((1u << f->mantissa) - 1)) != 0;
}

static double value_of(const format *f, unsigned code)
{
  int exponent = (int)(code >> f->mantissa & (unsigned)f->exponents);
  double m = code & ((1u << f->mantissa) - 1), sign = code >> 15 ? -1 : 1;
  if (exponent == f->exponents) return m != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * ldexp(m, 1 - f->bias - f->mantissa);
  return sign * ldexp(m + (1 << f->mantissa), exponent - f->bias - f->mantissa);
}

static unsigned narrow(const format *f, float x)
{
  uint16_t y;
  f->narrow(1, &x, &y);
  return y;
}

static bool same_bits(float a, float b)
{
  return memcmp(&a, &b, sizeof a) == 0;
}

static void check_codes(const format *f, const uint16_t *codes, const float *wide)
{
  static uint16_t back[CODES];
  static float sum[CODES];
  f->narrow(CODES, wide, back);
  for (int i = 0; i < CODES; i++) sum[i] = 1;
  f->add(CODES, codes, sum);
  for (unsigned i = 0; i < CODES; i++) {
    if (is_nan_code(f, i)) {
      CHECK(isnan(wide[i]), "%s: NaN code %04x", f->name, i);
      CHECK(isnan(sum[i]), "%s: NaN code %04x", f->name, i);
      CHECK(is_nan_code(f, back[i]), "%s: NaN code %04x", f->name, i);
      continue;
    }
    CHECK(same_bits(wide[i], (float)value_of(f, i)), "%s: code %04x becomes %a", f->name, i, (double)wide[i]);
    CHECK_EQ(back[i], i, "%s", f->name);
    CHECK(same_bits(sum[i], 1.0f + wide[i]), "%s: 1 + code %04x is %a", f->name, i, (double)sum[i]);
  }
}

/* Between each code and the next larger in magnitude: the tie goes to the even code, its f32 neighbours to theirs.
 * Behind the largest finite code the next one counts as infinity, at the place a longer exponent would put it. */
static void check_ties(const format *f)
{
  unsigned infinity = (unsigned)f->exponents << f->mantissa;
  for (unsigned sign = 0; sign < 2; sign++)
    for (unsigned i = 0; i < infinity; i++) {
      double low = value_of(f, i), high = i + 1 < infinity ? value_of(f, i + 1) : 2 * low - value_of(f, i - 1);
      float tie = (float)((low + high) / 2);
      if ((double)tie != (low + high) / 2) continue; /* below the smallest f32 */
      unsigned s = sign << 15, even = i % 2 ? i + 1 : i;
      float x = sign ? -tie : tie;
      CHECK_EQ(narrow(f, x), s | even, "%s: tie above %04x", f->name, s | i);
      CHECK_EQ(narrow(f, nextafterf(x, 0)), s | i, "%s", f->name);
      CHECK_EQ(narrow(f, nextafterf(x, sign ? -INFINITY : INFINITY)), s | (i + 1), "%s: above the tie above %04x",
               f->name, s | i);
    }
}

static void check_specials(const format *f)
{
  unsigned infinity = (unsigned)f->exponents << f->mantissa;
  CHECK_EQ(narrow(f, INFINITY), infinity, "%s: infinity", f->name);
  CHECK_EQ(narrow(f, -INFINITY), infinity | 0x8000, "%s: infinity", f->name);
  CHECK_EQ(narrow(f, 3.4028235e38f), infinity, "%s: the largest f32", f->name);
  if (f->bias == 15)
    for (float x = 65520; x < 3e38f; x *= 1.37f) {
      CHECK_EQ(narrow(f, x), 0x7c00, "f16: %g is too large", (double)x);
      CHECK_EQ(narrow(f, -x), 0xfc00, "f16: %g is too large", (double)x);
    }
  CHECK_EQ(narrow(f, 0.0f), 0, "%s: zero", f->name);
  CHECK_EQ(narrow(f, -0.0f), 0x8000, "%s: zero", f->name);
  if (f->bias == 15) {
    CHECK_EQ(narrow(f, 1e-45f), 0, "f16: f32 subnormals");
    CHECK_EQ(narrow(f, -1e-39f), 0x8000);
  }
  /* Every NaN, also those whose payload sits only in the bits that are cut off or would carry over. */
  static const uint32_t nans[] = { 0x7f800001, 0x7fffffff, 0xff800001, 0xffffffff, 0x7fc00000, 0x7f80ffff, 0x7fbfffff };
  for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
    float x;
    memcpy(&x, &nans[i], sizeof x);
    CHECK(is_nan_code(f, narrow(f, x)), "%s: NaN %08x becomes %04x", f->name, nans[i], narrow(f, x));
    CHECK_EQ(narrow(f, x) >> 15, nans[i] >> 31, "%s: NaN %08x changes sign", f->name, nans[i]);
  }
}

/* Every length up to 70 from every offset up to 3, so that vector loops meet all their remainders. */
static void check_lengths(const format *f)
{
  float x[80], y[80];
  uint16_t h[80];
  for (int i = 0; i < 80; i++) x[i] = 0.1f * (float)(i - 40);
  for (size_t offset = 0; offset < 4; offset++)
    for (size_t n = 0; n <= 70; n++) {
      memset(h, 0xab, sizeof h);
      for (int i = 0; i < 80; i++) y[i] = 7;
      f->narrow(n, x + offset, h + offset);
      f->widen(n, h + offset, y + offset);
      bool right = h[offset + n] == 0xabab && y[offset + n] == 7;
      for (size_t i = offset; i < offset + n; i++)
        right = right && h[i] == narrow(f, x[i]) && y[i] == (float)value_of(f, h[i]);
      CHECK(right, "%s: %d elements from offset %d", f->name, (int)n, (int)offset);
    }
}

int main(void)
{
  static uint16_t codes[CODES];
  static float wide[CODES];
  for (unsigned i = 0; i < CODES; i++) codes[i] = (uint16_t)i;
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    formats[i].widen(CODES, codes, wide);
    check_codes(&formats[i], codes, wide);
    check_ties(&formats[i]);
    check_specials(&formats[i]);
    check_lengths(&formats[i]);
  }
  return check_done();
}
