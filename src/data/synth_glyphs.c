/* Digits drawn from strokes: a substitute for MNIST that needs no download, used by the quick start.
 *
 * A digit is a list of lines and arcs in a unit square (y points down).  Every sample distorts its strokes a little,
 * then shears, rotates, scales and shifts them, draws them with a random pen width, and adds noise:
 *
 *     strokes -> jitter -> affine map -> distance to the nearest stroke per pixel -> ink, noise -> u8
 *
 * A pixel's ink falls from 1 to 0 over one pixel around the pen's edge, which is anti-aliasing for a round pen.  All
 * random numbers are a function of (seed, split, sample), so any sample can be generated independently. */
#include "base/mem.h"
#include "base/rng.h"
#include "data/data_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { END, MOVE, LINE, ARC } stroke_kind;
/* MOVE, LINE: x, y.  ARC: centre x, y, radii, from and to in degrees; it lifts the pen first. */
typedef struct {
  stroke_kind kind;
  double a[6];
} stroke;

enum { STROKES = 6, ARC_STEPS = 14, MAX_SEGMENTS = 2 * ARC_STEPS + STROKES };
static const stroke digits[10][STROKES] = {
  { { ARC, { .5, .5, .21, .32, 0, 360 } } },
  { { MOVE, { .36, .32 } }, { LINE, { .52, .18 } }, { LINE, { .52, .82 } } },
  { { ARC, { .5, .37, .2, .19, -170, 40 } }, { LINE, { .3, .82 } }, { LINE, { .73, .82 } } },
  { { ARC, { .48, .34, .2, .16, -150, 90 } }, { ARC, { .48, .66, .22, .17, -90, 150 } } },
  { { MOVE, { .6, .83 } }, { LINE, { .6, .18 } }, { LINE, { .27, .62 } }, { LINE, { .76, .62 } } },
  { { MOVE, { .7, .19 } }, { LINE, { .37, .19 } }, { LINE, { .35, .47 } }, { ARC, { .48, .62, .21, .2, -130, 140 } } },
  { { MOVE, { .64, .18 } }, { LINE, { .4, .44 } }, { LINE, { .32, .62 } }, { ARC, { .5, .64, .18, .18, -180, 180 } } },
  { { MOVE, { .28, .2 } }, { LINE, { .72, .2 } }, { LINE, { .44, .82 } } },
  { { ARC, { .5, .34, .17, .16, 0, 360 } }, { ARC, { .5, .66, .2, .17, 0, 360 } } },
  { { ARC, { .5, .36, .18, .18, 0, 360 } }, { MOVE, { .68, .36 } }, { LINE, { .66, .56 } }, { LINE, { .56, .83 } } },
};

/* The random numbers of one sample, in sequence. */
typedef struct {
  uint64_t seed, index;
  uint32_t step;
  int left;
  shoal_rng_block block;
} draw;

static uint32_t next(draw *d)
{
  if (d->left == 0) {
    d->block = shoal_rng(d->seed, SHOAL_RNG_SYNTH, d->index, d->step++);
    d->left = 4;
  }
  return d->block.v[--d->left];
}

static double between(draw *d, double low, double high)
{
  return low + (high - low) * (double)shoal_rng_unit(next(d));
}

typedef struct {
  double x0, y0, x1, y1;
} segment;
typedef struct {
  segment list[MAX_SEGMENTS];
  int n;
} drawing;

/* u = m (p - centre) + to, in pixels. */
typedef struct {
  double m[4], to[2];
} affine;

static affine random_affine(draw *d, double side)
{
  double turn = between(d, -0.26, 0.26), shear = between(d, -0.25, 0.25);
  double wide = between(d, 0.75, 1.1) * side, high = between(d, 0.8, 1.1) * side;
  double c = cos(turn), s = sin(turn);
  affine f = { { c * wide, (c * shear - s) * high, s * wide, (s * shear + c) * high }, { 0, 0 } };
  f.to[0] = side * (0.5 + between(d, -0.08, 0.08));
  f.to[1] = side * (0.5 + between(d, -0.08, 0.08));
  return f;
}

static void map_point(const affine *f, double x, double y, double *px, double *py)
{
  x -= 0.5;
  y -= 0.5;
  *px = f->m[0] * x + f->m[1] * y + f->to[0];
  *py = f->m[2] * x + f->m[3] * y + f->to[1];
}

static void add_segment(drawing *g, const affine *f, double x0, double y0, double x1, double y1)
{
  segment *s = &g->list[g->n++];
  map_point(f, x0, y0, &s->x0, &s->y0);
  map_point(f, x1, y1, &s->x1, &s->y1);
}

static void trace_strokes(draw *d, const stroke *strokes, const affine *f, drawing *g)
{
  const double jitter = 0.035, degree = 3.141592653589793 / 180;
  double x = 0, y = 0;
  g->n = 0;
  for (const stroke *s = strokes; s < strokes + STROKES && s->kind != END; s++) {
    double to_x = s->a[0] + between(d, -jitter, jitter), to_y = s->a[1] + between(d, -jitter, jitter);
    if (s->kind == LINE) add_segment(g, f, x, y, to_x, to_y);
    if (s->kind != ARC) {
      x = to_x;
      y = to_y;
      continue;
    }
    double rx = s->a[2] * between(d, 0.85, 1.15), ry = s->a[3] * between(d, 0.85, 1.15);
    double from = s->a[4] + between(d, -8, 8), arc = s->a[5] - s->a[4];
    for (int i = 0; i <= ARC_STEPS; i++) {
      double angle = (from + arc * i / ARC_STEPS) * degree;
      double nx = to_x + rx * cos(angle), ny = to_y + ry * sin(angle);
      if (i > 0) add_segment(g, f, x, y, nx, ny);
      x = nx;
      y = ny;
    }
  }
}

/* Squared distance from a point to a segment. */
static double distance2(const segment *s, double x, double y)
{
  double dx = s->x1 - s->x0, dy = s->y1 - s->y0, px = x - s->x0, py = y - s->y0;
  double length2 = dx * dx + dy * dy, t = length2 > 0 ? (px * dx + py * dy) / length2 : 0;
  t = t < 0 ? 0 : t > 1 ? 1 : t;
  px -= t * dx;
  py -= t * dy;
  return px * px + py * py;
}

static int clamp(double v, int high)
{
  return v < 0 ? 0 : v > high ? high : (int)v;
}

/* ink [side, side] from 0 to 1. */
static void draw_ink(const drawing *g, double pen, int side, double *ink)
{
  double reach = pen + 1;
  memset(ink, 0, (size_t)side * (size_t)side * sizeof *ink);
  for (int k = 0; k < g->n; k++) {
    const segment *s = &g->list[k];
    int left = clamp(fmin(s->x0, s->x1) - reach, side - 1), right = clamp(fmax(s->x0, s->x1) + reach, side - 1);
    int top = clamp(fmin(s->y0, s->y1) - reach, side - 1), bottom = clamp(fmax(s->y0, s->y1) + reach, side - 1);
    for (int y = top; y <= bottom; y++)
      for (int x = left; x <= right; x++) {
        double edge = pen + 0.5 - sqrt(distance2(s, x + 0.5, y + 0.5));
        double *here = &ink[y * side + x];
        *here = fmax(*here, fmin(edge, 1));
      }
  }
}

/* An approximately normal number from one word: the sum of its four bytes has mean 510 and standard deviation 147.8. */
static double bell(uint32_t word)
{
  int sum = (int)(word & 255) + (int)(word >> 8 & 255) + (int)(word >> 16 & 255) + (int)(word >> 24);
  return (sum - 510) / 147.8;
}

static void draw_sample(draw *d, int digit, int side, double noise, double *ink, uint8_t *out)
{
  drawing g;
  affine f = random_affine(d, side);
  double pen = between(d, 0.022, 0.055) * side, white = between(d, 0.65, 1);
  trace_strokes(d, digits[digit], &f, &g);
  draw_ink(&g, pen, side, ink);
  for (int i = 0; i < side * side; i++) {
    double v = 255 * (ink[i] * white + noise * bell(next(d)));
    out[i] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v + 0.5);
  }
}

shoal_status shoal_synth_glyphs(const shoal_synth_args *a, shoal_data_writer *w)
{
  size_t pixels = (size_t)(a->size * a->size);
  double *ink = NULL;
  uint8_t *image = NULL;
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(pixels, &ink), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(pixels, &image), done);
  for (int split = 0; split < 2 && st == SHOAL_OK; split++) {
    uint64_t n = split == SHOAL_TRAIN ? a->train : a->test, seed = shoal_rng_seed(a->seed, (uint64_t)split);
    for (uint64_t i = 0; i < n && st == SHOAL_OK; i++) {
      draw d = { .seed = seed, .index = i };
      int32_t digit = (int32_t)((uint64_t)next(&d) * (uint64_t)a->classes >> 32);
      draw_sample(&d, digit, (int)a->size, a->noise, ink, image);
      st = shoal_data_writer_add(w, (shoal_split)split, 1, image, &digit);
    }
  }
done:
  free(ink);
  free(image);
  return st;
}
