/* y = x w^T + b on bf16 activations: oneDNN's matrix product of bf16 factors, summed in f32.
 *
 *   arena w (f32) --round--> copy [out, in] --forward, backward_data-->      once per write of the arena (weights_version)
 *   arena dw (f32) <--backward_weights--                                      in place
 *
 * The copy is row-major and serves both directions; oneDNN packs what it multiplies, as with f32.  A product is cut into equal
 * pieces for polling: forward by output columns, dx by input columns, dw by rows, one primitive for all pieces.  A relu runs over y
 * behind its product, because oneDNN's own turns NaN into 0 (docs/numbers.md). */
#include "tensor/cpu/cpu_impl.h"
#include "tensor/half.h"
#include <stdlib.h>
#include <string.h>

/* c [m, n] = a b, cut into `count` pieces: strides of a, b and c between them, in elements. */
typedef struct {
  shoal_dnn_call call;
  int64_t count, a_step, b_step, c_step;
} product;

typedef struct {
  shoal_op op;
  int64_t rows, in, out;
  product forward, backward_data, backward_weights;
  uint16_t *w; /* [out, in] */
  uint64_t version;
  bool filled;
  size_t dy_at; /* fused relu: dy as it was before the relu, in `saved`, or in scratch without need_dx */
} linear_op;

/* Columns (or rows) per piece when each costs `macs`: the largest part of n that is short enough and a multiple of 16; all where
 * there is none. */
static int64_t piece_of(const shoal_op *op, double macs, int64_t n)
{
  const double most = SHOAL_CPU_PIECE_MACS * op->backend->threads / macs;
  int64_t best = n;
  for (int64_t k = 16; k < n && (double)k <= SHOAL_MAX(most, 64.0); k += 16)
    if (n % k == 0) best = k;
  return (double)n <= most ? n : best;
}

static const void *element(const void *x, int64_t i, size_t bytes)
{
  return (const char *)x + (size_t)i * bytes;
}

static shoal_status multiply(shoal_op *op, const product *p, const shoal_op_args *a, const uint16_t *x,
                             const uint16_t *y, const float *bias, void *c, size_t c_bytes)
{
  for (int64_t i = 0; i < p->count; i++) {
    const void *const at[] = { x + i * p->a_step, y + i * p->b_step, element(c, i * p->c_step, c_bytes),
                               bias ? bias + i * p->c_step : NULL };
    SHOAL_TRY(shoal_dnn_call_run(&shoal_cpu_of(op)->dnn, &p->call, a->scratch, at));
    shoal_backend_poll(op->backend);
  }
  return SHOAL_OK;
}

static const uint16_t *halves(const float *x)
{
  return (const uint16_t *)(const void *)x;
}

static const uint16_t *weights_of(linear_op *p, const shoal_op_args *a)
{
  if (!p->filled || p->version != a->weights_version)
    shoal_cpu_to_bf16(shoal_cpu_of(&p->op), (size_t)(p->out * p->in), a->w[0], p->w);
  p->filled = true;
  p->version = a->weights_version;
  return p->w;
}

static shoal_status forward(shoal_op *op, const shoal_op_args *a)
{
  linear_op *p = (linear_op *)op;
  SHOAL_TRY(multiply(op, &p->forward, a, halves(a->x[0]), weights_of(p, a), a->w[1], a->y, sizeof(uint16_t)));
  if (op->desc.relu) shoal_cpu_mask_bf16(shoal_cpu_of(op), shoal_format_count(&op->out_format), a->y, a->y, a->y);
  return SHOAL_OK;
}

/* Column sums of dy, each in row order; groups of COLUMNS columns are distributed over the threads. */
enum { COLUMNS = 256 };
typedef struct {
  const uint16_t *dy;
  float *db;
  int64_t rows, cols;
} column_args;

static void column_sums(const void *context, size_t begin, size_t end)
{
  const column_args *c = context;
  for (size_t group = begin; group < end; group++) {
    int64_t first = (int64_t)group * COLUMNS, n = SHOAL_MIN((int64_t)COLUMNS, c->cols - first);
    float sum[COLUMNS] = { 0 };
    for (int64_t r = 0; r < c->rows; r++) shoal_f32_add_bf16((size_t)n, c->dy + r * c->cols + first, sum);
    memcpy(c->db + first, sum, (size_t)n * sizeof(float));
  }
}

static const uint16_t *before_relu(const linear_op *p, const shoal_op_args *a)
{
  if (!p->op.desc.relu) return halves(a->dy);
  return shoal_cpu_at(p->op.desc.need_dx ? a->saved : a->scratch, p->dy_at);
}

static shoal_status backward_weights(shoal_op *op, const shoal_op_args *a)
{
  linear_op *p = (linear_op *)op;
  const uint16_t *dy = before_relu(p, a);
  if (op->desc.relu)
    shoal_cpu_mask_bf16(shoal_cpu_of(op), shoal_format_count(&op->out_format), a->dy, a->y, (void *)(uintptr_t)dy);
  if (op->desc.bias) {
    column_args c = { dy, a->dw[1], p->rows, p->out };
    shoal_cpu_parallel(shoal_cpu_of(op), (size_t)((p->out + COLUMNS - 1) / COLUMNS), 1,
                       (size_t)p->rows * COLUMNS * sizeof(uint16_t), column_sums, &c);
  }
  return a->dw[0] ? multiply(op, &p->backward_weights, a, dy, halves(a->x[0]), NULL, a->dw[0], sizeof(float))
                  : SHOAL_OK;
}

static shoal_status backward_data(shoal_op *op, const shoal_op_args *a)
{
  linear_op *p = (linear_op *)op;
  return multiply(op, &p->backward_data, a, before_relu(p, a), weights_of(p, a), NULL, a->dx[0], sizeof(uint16_t));
}

static void destroy(shoal_op *op)
{
  linear_op *p = (linear_op *)op;
  shoal_dnn_call_fini(&p->forward.call);
  shoal_dnn_call_fini(&p->backward_data.call);
  shoal_dnn_call_fini(&p->backward_weights.call);
  free(p->w);
  free(p);
}

/* A matrix in memory whose rows are `ld` elements apart; turned: its transpose is what is multiplied. */
typedef struct {
  int64_t rows, cols, ld;
  bool turned;
  shoal_elements elements;
} matrix;

static shoal_status md_of(const matrix *m, shoal_dnn_md *out)
{
  const int64_t stride[] = { m->turned ? 1 : m->ld, m->turned ? m->ld : 1 };
  return shoal_dnn_md_strided(&SHOAL_SHAPE(m->rows, m->cols), m->elements, stride, out);
}

static shoal_status plan_product(shoal_cpu *b, shoal_op *op, const matrix *a, const matrix *bm, const matrix *c,
                                 bool bias, product *out)
{
  const int args[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS };
  shoal_dnn_md md[4] = { NULL };
  dnnl_primitive_desc_t pd = NULL;
  shoal_status st;
  SHOAL_TRY_GOTO(st, md_of(a, &md[0]), done);
  SHOAL_TRY_GOTO(st, md_of(bm, &md[1]), done);
  SHOAL_TRY_GOTO(st, md_of(c, &md[2]), done);
  if (bias) SHOAL_TRY_GOTO(st, shoal_dnn_md_dense(&SHOAL_SHAPE(1, c->cols), SHOAL_ELEMENTS_F32, &md[3]), done);
  SHOAL_TRY_GOTO(st, shoal_dnn_matmul_pd(&b->dnn, md[0], md[1], md[3], md[2], &pd), done);
  SHOAL_TRY_GOTO(st, shoal_dnn_call_init(&b->dnn, pd, bias ? 4 : 3, args, &out->call), done);
  op->scratch_bytes = SHOAL_MAX(op->scratch_bytes, out->call.scratch_bytes);
done:
  if (pd) dnnl_primitive_desc_destroy(pd);
  for (int i = 0; i < 4; i++) shoal_dnn_md_free(md[i]);
  return st;
}

static shoal_status plan(shoal_cpu *b, linear_op *p)
{
  const shoal_elements half = SHOAL_ELEMENTS_BF16, whole = SHOAL_ELEMENTS_F32;
  const int64_t rows = p->rows, in = p->in, out = p->out;
  shoal_op *op = &p->op;
  int64_t n = piece_of(op, (double)rows * (double)in, out);
  p->forward = (product){ .count = out / n, .b_step = n * in, .c_step = n };
  SHOAL_TRY(plan_product(b, op, &(matrix){ rows, in, in, false, half }, &(matrix){ in, n, in, true, half },
                         &(matrix){ rows, n, out, false, half }, op->desc.bias, &p->forward));
  SHOAL_TRY(shoal_alloc((size_t)(out * in), sizeof *p->w, "bf16 copy of linear weights", (void **)&p->w));
  if (!op->desc.training) return SHOAL_OK;
  p->backward_weights = (product){ .count = out / n, .a_step = n, .c_step = n * in };
  SHOAL_TRY(plan_product(b, op, &(matrix){ n, rows, out, true, half }, &(matrix){ rows, in, in, false, half },
                         &(matrix){ n, in, in, false, whole }, false, &p->backward_weights));
  if (!op->desc.need_dx) return SHOAL_OK;
  n = piece_of(op, (double)rows * (double)out, in);
  p->backward_data = (product){ .count = in / n, .b_step = n, .c_step = n };
  return plan_product(b, op, &(matrix){ rows, out, out, false, half }, &(matrix){ out, n, in, false, half },
                      &(matrix){ rows, n, in, false, half }, false, &p->backward_data);
}

shoal_status shoal_cpu_plan_linear_bf16(shoal_cpu *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  linear_op *p;
  if (in && in[0].bytes && !in[0].dense) return shoal_cpu_plan_dense_wrapper(b, d, in, shoal_cpu_plan_linear_bf16, out);
  SHOAL_TRY(shoal_cpu_op_new(b, d, in, sizeof *p, &p));
  shoal_op *op = &p->op;
  int last = d->in[0].ndim - 1;
  p->in = d->in[0].dim[last];
  p->out = d->out.dim[last];
  p->rows = shoal_shape_count(&d->in[0]) / p->in;
  op->in_format[0] = shoal_format_dense(&d->in[0], SHOAL_ELEMENTS_BF16);
  op->out_format = shoal_format_dense(&d->out, SHOAL_ELEMENTS_BF16);
  op->destroy = destroy;
  op->forward = forward;
  op->backward_weights = backward_weights;
  op->backward_data = backward_data;
  op->backward_reads_x = true;
  op->backward_reads_y = d->relu;
  shoal_status st = plan(b, p);
  if (st != SHOAL_OK) {
    op->destroy(op);
    return st;
  }
  if (d->relu && d->training)
    p->dy_at = shoal_cpu_carve(d->need_dx ? &op->saved_bytes : &op->scratch_bytes, op->out_format.bytes);
  *out = op;
  return SHOAL_OK;
}
