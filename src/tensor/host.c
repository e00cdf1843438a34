/* See host.h. */
#include "tensor/host.h"
#include <math.h>

void shoal_host_release(shoal_backend *b, shoal_memory *m)
{
  shoal_host_memory_release(m);
}

shoal_status shoal_host_settle(shoal_backend *b)
{
  return SHOAL_OK;
}

uint64_t shoal_host_mark(shoal_backend *b)
{
  return 0;
}

bool shoal_host_reached(shoal_backend *b, uint64_t number)
{
  return true;
}

shoal_status shoal_host_copy_beside(shoal_backend *b, uint64_t after, size_t bytes, const void *from, void *to,
                                    uint64_t *number)
{
  *number = 0;
  return b->ops->copy(b, bytes, from, to);
}

shoal_status shoal_host_await(shoal_backend *b, uint64_t number)
{
  return SHOAL_OK;
}

static bool all_finite(int64_t n, const float *x)
{
  bool finite = true;
  for (int64_t j = 0; j < n; j++) finite &= isfinite(x[j]);
  return finite;
}

/* A row has a few numbers, so one thread is fast enough. */
shoal_status shoal_host_target_loss(shoal_backend *b, int64_t rows, int64_t width, const float *y, const float *targets,
                                    bool absolute, const float *scale, bool leave_out, float *dy, shoal_loss *out)
{
  shoal_loss sum = { 0 };
  for (int64_t r = 0; r < rows; r++, y += width, targets += width, dy = dy ? dy + width : NULL) {
    const bool known = !isnan(targets[0]), without = known && leave_out && !all_finite(width, y);
    if (without && sum.left_out++ == 0) sum.first_left_out = r;
    double loss = 0;
    for (int64_t j = 0; j < width; j++) {
      const double e = (double)y[j] - (double)targets[j];
      loss += absolute ? fabs(e) : e * e;
      const double slope = absolute ? (e > 0 ? 1 : e < 0 ? -1 : e) : 2 * e; /* NaN stays one */
      if (dy) dy[j] = known && !without ? (float)((double)*scale / (double)width * slope) : 0;
    }
    if (!known || without) continue;
    sum.loss += loss / (double)width;
    sum.samples++;
  }
  *out = sum;
  return SHOAL_OK;
}

shoal_status shoal_host_clip(shoal_backend *b, float limit, const double *squares, float *scale)
{
  double norm = sqrt(*squares);
  *scale = norm > limit ? (float)(limit / norm) : 1;
  return SHOAL_OK;
}

shoal_status shoal_host_find_bad(shoal_backend *b, size_t n, const float *x, size_t *out)
{
  size_t i = 0;
  while (i < n && isfinite(x[i])) i++;
  *out = i;
  return SHOAL_OK;
}

shoal_status shoal_host_distance2(shoal_backend *b, size_t n, const float *x, const float *y, double *out)
{
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    double d = (double)x[i] - (double)y[i];
    sum += d * d;
  }
  *out = sum;
  return SHOAL_OK;
}
