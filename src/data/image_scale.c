/* See image_scale.h.  Rows are scaled first, then columns, each by weights that fall linearly from the middle of the new pixel:
 *
 *     scale = old / new, radius = max(scale, 1);  weight of old pixel i for new pixel k = max(0, 1 - |i + 1/2 - (k + 1/2) scale| / radius)
 *
 * and add up to 1.  So each old pixel counts where an image gets smaller, and neighbours are mixed where it gets larger. */
#include "data/image_scale.h"
#include "base/mem.h"
#include <math.h>
#include <stdlib.h>

/* Which old pixels make each new one. */
typedef struct {
  int *first;    /* [n] */
  int taps;      /* of each new pixel, as many as the widest needs */
  float *weight; /* [n, taps], 0 behind the last one */
} weights;

static void free_weights(weights *w)
{
  free(w->first);
  free(w->weight);
}

static shoal_status find_weights(int from, int to, weights *w)
{
  const double scale = (double)from / to, radius = fmax(scale, 1);
  w->taps = (int)ceil(2 * radius) + 1;
  SHOAL_TRY(SHOAL_ALLOC((size_t)to, &w->first));
  SHOAL_TRY(SHOAL_ALLOC((size_t)to * (size_t)w->taps, &w->weight));
  for (int k = 0; k < to; k++) {
    const double middle = (k + 0.5) * scale;
    float *weight = w->weight + (size_t)k * (size_t)w->taps;
    double sum = 0;
    w->first[k] = (int)fmax(0, floor(middle - radius));
    for (int i = 0; i < w->taps && w->first[k] + i < from; i++) {
      const double v = fmax(0, 1 - fabs(w->first[k] + i + 0.5 - middle) / radius);
      weight[i] = (float)v;
      sum += v;
    }
    for (int i = 0; i < w->taps; i++) weight[i] = (float)(weight[i] / sum);
  }
  return SHOAL_OK;
}

/* One line of n pixels, `step` apart. */
static float mix(const weights *w, int k, const float *line, int n, size_t step)
{
  const float *weight = w->weight + (size_t)k * (size_t)w->taps;
  const int first = w->first[k], last = SHOAL_MIN(w->taps, n - first);
  float sum = 0;
  for (int i = 0; i < last; i++) sum += weight[i] * line[(size_t)(first + i) * step];
  return sum;
}

shoal_status shoal_image_scale(const uint8_t *from, int width, int height, uint8_t *to, int new_width, int new_height)
{
  weights across = { 0 }, down = { 0 };
  float *line = NULL, *narrow = NULL; /* [height, new_width] */
  const size_t row = (size_t)new_width;
  shoal_status st;
  SHOAL_TRY_GOTO(st, find_weights(width, new_width, &across), done);
  SHOAL_TRY_GOTO(st, find_weights(height, new_height, &down), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)width, &line), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)height * row, &narrow), done);
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width; x++) line[x] = from[(size_t)y * (size_t)width + (size_t)x];
    for (int x = 0; x < new_width; x++) narrow[(size_t)y * row + (size_t)x] = mix(&across, x, line, width, 1);
  }
  for (int y = 0; y < new_height; y++)
    for (int x = 0; x < new_width; x++)
      to[(size_t)y * row + (size_t)x] = (uint8_t)fminf(255, mix(&down, y, narrow + x, height, row) + 0.5f);
done:
  free_weights(&across);
  free_weights(&down);
  free(line);
  free(narrow);
  return st;
}
