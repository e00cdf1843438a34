/* Flat vectors, arenas, parcels and the loss: each a launch or two.  Nothing here waits but distance2. */
#include "tensor/cuda/cuda_impl.h"
#include "tensor/half.h"
#include <string.h>

_Static_assert((int)SHOAL_CUDA_QBLOCK == (int)SHOAL_QUANT_BLOCK, "kernels.h and quant.h");
_Static_assert(sizeof(shoal_k_pace) == sizeof(shoal_pace), "kernels.h and backend.h");
_Static_assert(sizeof(shoal_k_loss) == sizeof(shoal_loss), "kernels.h and backend.h");

shoal_status shoal_cuda_fill(shoal_backend *base, size_t n, float value, float *y)
{
  return SHOAL_EACH((shoal_cuda *)base, fill, n, .n = n, .value = value, .y = y);
}

shoal_status shoal_cuda_add(shoal_backend *base, size_t n, const float *x, float *y)
{
  return SHOAL_EACH((shoal_cuda *)base, add, n, .n = n, .x = x, .y = y);
}

shoal_status shoal_cuda_axpby(shoal_backend *base, size_t n, float p, const float *x, float q, float *y)
{
  return SHOAL_EACH((shoal_cuda *)base, axpby, n, .n = n, .p = p, .q = q, .x = x, .y = y);
}

shoal_status shoal_cuda_average(shoal_backend *base, size_t n, const float *x, const float *y, float *z)
{
  return SHOAL_EACH((shoal_cuda *)base, average, n, .n = n, .x = x, .y = y, .z = z);
}

shoal_status shoal_cuda_divide(shoal_backend *base, size_t n, float divisor, float *y)
{
  return SHOAL_EACH((shoal_cuda *)base, divide, n, .n = n, .divisor = divisor, .y = y);
}

shoal_status shoal_cuda_scale(shoal_backend *base, size_t n, double s, const float *x, const float *plus,
                              const float *minus, float *y)
{
  return SHOAL_EACH((shoal_cuda *)base, scale, n, .n = n, .s = s, .x = x, .plus = plus, .minus = minus, .y = y);
}

shoal_status shoal_cuda_mean(shoal_backend *base, size_t n, size_t count, const float *const *x, float *y)
{
  shoal_cuda *b = (shoal_cuda *)base;
  const float *const *list;
  SHOAL_TRY(shoal_cuda_scratch(b, count * sizeof *x, &list));
  SHOAL_TRY(shoal_cuda_send(b, count * sizeof *x, x, (void *)(uintptr_t)list));
  return SHOAL_EACH(b, mean, n, .n = n, .count = count, .x = list, .y = y);
}

shoal_status shoal_cuda_copy_checked(shoal_backend *base, size_t n, const float *x, float *y, uint32_t *bad)
{
  return SHOAL_EACH((shoal_cuda *)base, copy_checked, n, .n = n, .x = x, .y = y, .bad = bad);
}

/* The sides' lists lie one after the other in the scratch. */
static shoal_status send_list(shoal_cuda *b, const int64_t *list, size_t n, int64_t **at, const int64_t **out)
{
  *out = NULL;
  if (!list) return SHOAL_OK;
  SHOAL_TRY(shoal_cuda_send(b, n * sizeof *list, list, *at));
  *out = *at;
  *at += n;
  return SHOAL_OK;
}

static int64_t largest_of(const int64_t *list, size_t n)
{
  int64_t largest = (int64_t)n - 1;
  for (size_t i = 0; list && i < n; i++) largest = i == 0 || list[i] > largest ? list[i] : largest;
  return largest;
}

/* Elements of a side's matrix up to the last that the tile touches. */
static size_t extent_of(const shoal_tile *t, const shoal_tile_side *s)
{
  size_t row = (size_t)(largest_of(s->rows, t->rows) + s->row_shift) * t->grain + t->grain - 1;
  return row * s->stride + (size_t)(largest_of(s->cols, t->cols) + s->col_shift + 1) * t->width;
}

shoal_status shoal_cuda_copy_tile(shoal_backend *base, const shoal_tile *t, const float *from, float *to)
{
  shoal_cuda *b = (shoal_cuda *)base;
  const size_t n = shoal_tile_count(t);
  const shoal_tile_side *side[] = { &t->from, &t->to };
  shoal_k_side sent[2];
  int64_t *at;
  if (n == 0) return SHOAL_OK;
  SHOAL_TRY(shoal_cuda_scratch(b, 2 * (t->rows + t->cols) * sizeof *at, &at));
  for (int i = 0; i < 2; i++) {
    sent[i] = (shoal_k_side){ NULL, NULL, side[i]->row_shift, side[i]->col_shift, side[i]->stride };
    SHOAL_TRY(send_list(b, side[i]->rows, t->rows, &at, &sent[i].rows));
    SHOAL_TRY(send_list(b, side[i]->cols, t->cols, &at, &sent[i].cols));
  }
  return SHOAL_EACH(b, copy_tile, n, .n = n, .rows = t->rows, .cols = t->cols, .width = t->width, .grain = t->grain,
                    .in = sent[0], .out = sent[1], .from = from, .to = to, .from_n = extent_of(t, &t->from),
                    .to_n = extent_of(t, &t->to));
}

/* ---- numbers ---- */

/* Atomic operations want device memory, so the number takes a detour. */
shoal_status shoal_cuda_find_bad(shoal_backend *base, size_t n, const float *x, size_t *out)
{
  shoal_cuda *b = (shoal_cuda *)base;
  unsigned long long *first;
  SHOAL_TRY(shoal_cuda_scratch(b, sizeof *first, &first));
  SHOAL_TRY_CUDA(cudaMemsetAsync(first, 0xff, sizeof *first, b->stream));
  SHOAL_TRY(SHOAL_EACH(b, find_bad, n, .n = n, .x = x, .first = first));
  return SHOAL_BLOCKS(b, take_first, 1, .n = n, .first = first, .out = out);
}

shoal_status shoal_cuda_sumsq(shoal_backend *base, size_t n, const float *x, double *out)
{
  shoal_cuda *b = (shoal_cuda *)base;
  const size_t parts = (n + SHOAL_CUDA_PART - 1) / SHOAL_CUDA_PART;
  double *part;
  if (n == 0) return SHOAL_OK;
  SHOAL_TRY(shoal_cuda_scratch(b, parts * sizeof *part, &part));
  SHOAL_TRY(SHOAL_BLOCKS(b, sumsq, parts, .n = n, .x = x, .part = part));
  return SHOAL_BLOCKS(b, sum_parts, 1, .n = parts, .part = part, .sum = out);
}

shoal_status shoal_cuda_clip(shoal_backend *base, float limit, const double *squares, float *scale)
{
  return SHOAL_BLOCKS((shoal_cuda *)base, clip, 1, .limit = limit, .squares = squares, .scale = scale);
}

/* From the first element to the last is one thread's work: a processor is far better at it than a device, whose memory it reads a
 * piece at a time. */
shoal_status shoal_cuda_distance2(shoal_backend *base, size_t n, const float *x, const float *y, double *out)
{
  enum { PIECE = 4096 };
  float a[PIECE], c[PIECE];
  double sum = 0;
  for (size_t at = 0; at < n; at += PIECE) {
    size_t count = SHOAL_MIN(n - at, (size_t)PIECE);
    SHOAL_TRY(shoal_cuda_copy(base, count * sizeof *a, x + at, a));
    SHOAL_TRY(shoal_cuda_copy(base, count * sizeof *c, y + at, c));
    for (size_t i = 0; i < count; i++) {
      double d = (double)a[i] - (double)c[i];
      sum += d * d;
    }
  }
  *out = sum;
  return SHOAL_OK;
}

/* ---- updates ---- */

static const shoal_k_pace *pace_of(const shoal_pace *now)
{
  return (const shoal_k_pace *)now;
}

shoal_status shoal_cuda_descend(shoal_backend *base, size_t n, const shoal_descend_args *a, const float *g, float *w,
                                const shoal_update_watch *watch)
{
  return SHOAL_EACH((shoal_cuda *)base, descend, n, .n = n, .now = pace_of(a->now), .scale = a->scale, .l2 = a->l2,
                    .decoupled = a->decoupled, .g = g, .w = w, .before = watch->w, .bad = watch->bad);
}

shoal_status shoal_cuda_sgd(shoal_backend *base, size_t n, const shoal_sgd_args *a, const float *g, float *v, float *w,
                            const shoal_update_watch *watch)
{
  return SHOAL_EACH((shoal_cuda *)base, sgd, n, .n = n, .now = pace_of(a->now), .scale = a->scale,
                    .momentum = a->momentum, .l2 = a->l2, .decoupled = a->decoupled,
                    .ahead = a->nesterov ? 1 + a->momentum : 1, .nesterov = a->nesterov, .g = g, .v = v, .w = w,
                    .before_v = watch->w ? watch->state[0] : NULL, .before_w = watch->w, .bad = watch->bad);
}

shoal_status shoal_cuda_adam(shoal_backend *base, size_t n, const shoal_adam_args *a, const float *g, float *m,
                             float *v, float *w, const shoal_update_watch *watch)
{
  return SHOAL_EACH((shoal_cuda *)base, adam, n, .n = n, .now = pace_of(a->now), .scale = a->scale, .beta1 = a->beta1,
                    .beta2 = a->beta2, .rest1 = 1 - a->beta1, .rest2 = 1 - a->beta2, .eps = a->eps, .l2 = a->l2,
                    .decoupled = a->decoupled, .g = g, .m = m, .v = v, .w = w,
                    .before_m = watch->w ? watch->state[0] : NULL, .before_v = watch->w ? watch->state[1] : NULL,
                    .before_w = watch->w, .bad = watch->bad);
}

/* ---- 16 bits ---- */

shoal_status shoal_cuda_pack16(shoal_backend *base, shoal_half format, size_t n, const float *x, const float *minus,
                               float divisor, uint16_t *out, uint32_t *bad)
{
  return SHOAL_EACH((shoal_cuda *)base, pack16, n, .n = n, .f16 = format == SHOAL_F16, .divisor = divisor, .x = x,
                    .minus = minus, .y = out, .bad = bad);
}

shoal_status shoal_cuda_unpack16(shoal_backend *base, shoal_half format, size_t n, const uint16_t *x, const float *plus,
                                 float *y)
{
  return SHOAL_EACH((shoal_cuda *)base, unpack16, n, .n = n, .f16 = format == SHOAL_F16, .x = x, .plus = plus, .y = y);
}

shoal_status shoal_cuda_add16(shoal_backend *base, shoal_half format, size_t n, const uint16_t *x, float *y)
{
  return shoal_cuda_unpack16(base, format, n, x, y, y);
}

/* ---- parcels ---- */

static size_t last_packed(int bits, size_t n)
{
  size_t rest = n % SHOAL_QUANT_BLOCK;
  return shoal_quant_packed_bytes(bits, rest ? rest : SHOAL_QUANT_BLOCK);
}

shoal_status shoal_cuda_encode(shoal_backend *base, const shoal_quant *q, size_t n, const float *x, int8_t *exponent,
                               void *out)
{
  shoal_cuda *b = (shoal_cuda *)base;
  return SHOAL_BLOCKS(b, encode, shoal_quant_blocks(n), .n = n,
                      .packed = shoal_quant_packed_bytes(q->bits, SHOAL_QUANT_BLOCK),
                      .last_packed = last_packed(q->bits, n), .bits = q->bits, .stochastic = q->stochastic,
                      .seed = q->seed, .turn = q->turn, .factor = b->factor, .x = x, .exponent = exponent, .out = out);
}

shoal_status shoal_cuda_decode(shoal_backend *base, int bits, size_t n, const void *parcel, const float *key, float *z,
                               uint8_t *bad)
{
  shoal_cuda *b = (shoal_cuda *)base;
  const size_t blocks = shoal_quant_blocks(n);
  uint8_t *failed;
  if (n == 0) return SHOAL_OK;
  SHOAL_TRY(shoal_cuda_scratch(b, blocks, &failed));
  SHOAL_TRY(SHOAL_BLOCKS(b, decode, blocks, .n = n, .packed = shoal_quant_packed_bytes(bits, SHOAL_QUANT_BLOCK),
                         .last_packed = last_packed(bits, n), .bits = bits, .factor = b->factor, .parcel = parcel,
                         .key = key, .z = z, .failed = failed));
  return SHOAL_EACH(b, marks, (blocks + 7) / 8, .n = blocks, .failed = failed, .bad = bad);
}

shoal_status shoal_cuda_meet(shoal_backend *base, const shoal_meet_args *a, size_t n, const float *theirs, float *c,
                             float *distance)
{
  const shoal_quant none = { 0 }, *q = a->quant ? a->quant : &none;
  return SHOAL_BLOCKS((shoal_cuda *)base, meet, shoal_quant_blocks(n), .n = n, .average = a->average,
                      .quantised = a->quant != NULL, .stochastic = q->stochastic, .seed = q->seed, .turn = q->turn,
                      .exponent = a->exponent, .bad = a->bad, .theirs = theirs, .c = c, .distance = distance);
}

shoal_status shoal_cuda_fold(shoal_backend *base, size_t n, float *x, float *c, float *base_model, float *largest)
{
  return SHOAL_BLOCKS((shoal_cuda *)base, fold, shoal_quant_blocks(n), .n = n, .x = x, .c = c, .base = base_model,
                      .largest = largest);
}

/* ---- products and the loss ---- */

shoal_status shoal_cuda_multiply(shoal_backend *base, int64_t m, int64_t n, int64_t k, const float *a, const float *bm,
                                 float *c)
{
  return SHOAL_EACH((shoal_cuda *)base, multiply, (size_t)(m * n), .m = m, .n = n, .k = k, .a = a, .b = bm, .c = c);
}

shoal_status shoal_cuda_softmax_xent(shoal_backend *base, int64_t rows, int64_t classes, const float *logits,
                                     const int32_t *labels, const float *weights, float smoothing, const float *scale,
                                     bool leave_out, float *dlogits, shoal_loss *out)
{
  shoal_cuda *b = (shoal_cuda *)base;
  const size_t count = (size_t)rows;
  shoal_k_row *row;
  SHOAL_TRY(shoal_cuda_scratch(b, count * sizeof *row, &row));
  SHOAL_TRY(SHOAL_BLOCKS(b, softmax, count, .rows = rows, .classes = classes, .logits = logits, .labels = labels,
                         .weights = weights, .smoothing = (double)smoothing, .scale = scale, .leave_out = leave_out,
                         .dlogits = dlogits, .row = row));
  return SHOAL_BLOCKS(b, sum_rows, 1, .rows = rows, .row = row, .out = (shoal_k_loss *)out);
}

shoal_status shoal_cuda_target_loss(shoal_backend *base, int64_t rows, int64_t width, const float *y,
                                    const float *targets, bool absolute, const float *scale, bool leave_out, float *dy,
                                    shoal_loss *out)
{
  shoal_cuda *b = (shoal_cuda *)base;
  const size_t count = (size_t)rows;
  shoal_k_row *row;
  SHOAL_TRY(shoal_cuda_scratch(b, count * sizeof *row, &row));
  SHOAL_TRY(SHOAL_EACH(b, target_loss, count, .rows = rows, .width = width, .y = y, .targets = targets, .scale = scale,
                       .absolute = absolute, .leave_out = leave_out, .dy = dy, .row = row));
  return SHOAL_BLOCKS(b, sum_rows, 1, .rows = rows, .row = row, .out = (shoal_k_loss *)out);
}
