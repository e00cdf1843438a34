/* Loops over bf16 vectors.
 *
 * bfloat16 is the upper half of an f32: a relu decides by the integer that the 16 bits are, and sums are computed in f32 and
 * rounded to nearest, ties to even (half.c). */
#include "tensor/cpu/cpu_impl.h"
#include "tensor/half.h"

enum { GRAIN = 1024, BATCH = 256, NOT_NUMBER = 0x7f80 };

typedef struct {
  const void *a, *b;
  void *y;
} pointers;

static void to_bf16_range(const void *context, size_t begin, size_t end)
{
  const pointers *p = context;
  shoal_bf16_from_f32(end - begin, (const float *)p->a + begin, (uint16_t *)p->y + begin);
}

void shoal_cpu_to_bf16(shoal_cpu *b, size_t n, const void *x, void *y)
{
  pointers p = { .a = x, .y = y };
  shoal_cpu_parallel(b, n, GRAIN, sizeof(float) + sizeof(uint16_t), to_bf16_range, &p);
}

static void from_bf16_range(const void *context, size_t begin, size_t end)
{
  const pointers *p = context;
  shoal_f32_from_bf16(end - begin, (const uint16_t *)p->a + begin, (float *)p->y + begin);
}

void shoal_cpu_from_bf16(shoal_cpu *b, size_t n, const void *x, void *y)
{
  pointers p = { .a = x, .y = y };
  shoal_cpu_parallel(b, n, GRAIN, sizeof(float) + sizeof(uint16_t), from_bf16_range, &p);
}

static void add_range(const void *context, size_t begin, size_t end)
{
  const pointers *p = context;
  float sum[BATCH];
  for (size_t i = begin; i < end; i += BATCH) {
    const size_t n = SHOAL_MIN(end - i, (size_t)BATCH);
    shoal_f32_from_bf16(n, (const uint16_t *)p->y + i, sum);
    shoal_f32_add_bf16(n, (const uint16_t *)p->a + i, sum);
    shoal_bf16_from_f32(n, sum, (uint16_t *)p->y + i);
  }
}

shoal_status shoal_cpu_add_bf16(shoal_backend *b, size_t n, const uint16_t *x, uint16_t *y)
{
  pointers p = { .a = x, .y = y };
  shoal_cpu_parallel((shoal_cpu *)b, n, GRAIN, 3 * sizeof(uint16_t), add_range, &p);
  return SHOAL_OK;
}

/* dx = y <= 0 ? 0 : dy: what is above zero, and every NaN, passes. */
SHOAL_CPU_KERNEL static void mask_range(const void *context, size_t begin, size_t end)
{
  const pointers *p = context;
  const uint16_t *dy = p->a, *y = p->b;
  uint16_t *dx = p->y;
#pragma omp simd
  for (size_t i = begin; i < end; i++) dx[i] = (int16_t)y[i] > 0 || (y[i] & 0x7fff) > NOT_NUMBER ? dy[i] : (uint16_t)0;
}

void shoal_cpu_mask_bf16(shoal_cpu *b, size_t n, const void *dy, const void *y, void *dx)
{
  pointers p = { dy, y, dx };
  shoal_cpu_parallel(b, n, GRAIN, 3 * sizeof(uint16_t), mask_range, &p);
}
