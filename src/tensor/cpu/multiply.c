/* A product whose bits depend on its factors alone: for weights that every rank multiplies out for itself and that must then be
 * equal.  oneDNN's sgemm chooses blocks, and with them the order of its sums, by the number of threads and the instruction
 * set, in which ranks may differ.
 *
 * Sums run in double, from the first term to the last, as in the backend ref.  The product of two floats is exact in double, so
 * it makes no difference either whether a processor fuses it with the sum.  About a fifth of sgemm's speed: not for a step. */
#include "tensor/cpu/cpu_impl.h"

enum { ROWS = 4, COLS = 256 }; /* a tile of sums, 8 KiB */

typedef struct {
  int64_t m, n, k;
  const float *a, *b;
  float *c;
} multiply_args;

/* rows [i, i + ROWS) of C; the last ones again where fewer are left */
SHOAL_CPU_KERNEL static void tile(const multiply_args *p, int64_t i, int64_t j, int64_t cols)
{
  double sum[ROWS][COLS] = { { 0 } };
  const float *a[ROWS];
  for (int r = 0; r < ROWS; r++) a[r] = p->a + SHOAL_MIN(i + r, p->m - 1) * p->k;
  for (int64_t l = 0; l < p->k; l++) {
    const float *b = p->b + l * p->n + j;
    double x[ROWS];
    for (int r = 0; r < ROWS; r++) x[r] = (double)a[r][l];
#pragma omp simd
    for (int64_t q = 0; q < cols; q++) {
      double y = (double)b[q];
      for (int r = 0; r < ROWS; r++) sum[r][q] += x[r] * y;
    }
  }
  for (int r = 0; r < ROWS && i + r < p->m; r++)
    for (int64_t q = 0; q < cols; q++) p->c[(i + r) * p->n + j + q] = (float)sum[r][q];
}

static void multiply_rows(const void *context, size_t begin, size_t end)
{
  const multiply_args *p = context;
  for (size_t block = begin; block < end; block++)
    for (int64_t j = 0; j < p->n; j += COLS) tile(p, (int64_t)block * ROWS, j, SHOAL_MIN((int64_t)COLS, p->n - j));
}

shoal_status shoal_cpu_multiply(shoal_backend *b, int64_t m, int64_t n, int64_t k, const float *a, const float *bm,
                                float *c)
{
  multiply_args p = { m, n, k, a, bm, c };
  size_t work =
      (size_t)SHOAL_MAX(n * k, INT64_C(1)); /* of a block of rows: about as long as passing over so many bytes */
  shoal_cpu_parallel((shoal_cpu *)b, ((size_t)m + ROWS - 1) / ROWS, 1, work, multiply_rows, &p);
  return SHOAL_OK;
}
