/* Convolutions: by cuDNN (conv_dnn.c) where it can be loaded, otherwise by products of cuBLAS with the matrix of patches
 * (patches.cu), in f32, TF32, or of bf16 factors, summed in f32.
 *
 * With the channels of a group in rows, y = w x patches, for each sample and group: cuBLAS does a batch of them, as many as there
 * are samples or as there are groups, whichever are more, and the others follow each other.  dw is a sum over samples in order.
 * Patches take kernel h x w times the room of x, so they are made of a quarter of the samples at a time:
 *
 *     | dy without what the relu blocked | w and dy in bf16 | patches |                           */
#include "tensor/cuda/cuda_impl.h"

typedef struct {
  shoal_op op;
  int64_t samples, groups, rows, columns, channels; /* of a group: patches [rows, columns], y [channels, columns] */
  int64_t piece;                                    /* samples whose patches are made at a time */
  size_t each;                                      /* bytes of a number that is multiplied */
  size_t w_at, dy_at, patches_at;
} conv_op;

/* Floats from one sample, or one group, to the next. */
typedef struct {
  int64_t w, patches, y;
} steps;

static steps of_groups(const conv_op *c)
{
  return (steps){ c->channels * c->rows, c->rows * c->columns, c->channels * c->columns };
}

static steps of_samples(const conv_op *c)
{
  const steps g = of_groups(c);
  return (steps){ 0, c->groups * g.patches, c->groups * g.y };
}

static void *at(const shoal_op_args *a, size_t offset)
{
  return (char *)a->scratch + offset;
}

/* Element i of what is multiplied. */
static const void *element(const conv_op *c, const void *x, int64_t i)
{
  return (const char *)x + (size_t)i * c->each;
}

static bool of_bf16(const conv_op *c)
{
  return c->each == sizeof(uint16_t);
}

/* What is multiplied for x: itself, or its copy. */
static shoal_status factor(conv_op *c, int64_t n, const float *x, void *copy, const void **out)
{
  *out = of_bf16(c) ? copy : x;
  return of_bf16(c) ? shoal_cuda_to_bf16(shoal_cuda_of(&c->op), (size_t)n, x, copy) : SHOAL_OK;
}

static int64_t weights_of(const conv_op *c)
{
  return c->groups * c->channels * c->rows;
}

static shoal_k_windows windows(const conv_op *c, int64_t samples)
{
  const shoal_op_desc *d = &c->op.desc;
  const int64_t *x = d->in[0].dim, *y = d->out.dim;
  return (shoal_k_windows){ .planes = samples * x[1],
                            .h = x[2],
                            .w = x[3],
                            .p = y[2],
                            .q = y[3],
                            .kernel = { d->kernel[0], d->kernel[1] },
                            .stride = { d->stride[0], d->stride[1] },
                            .pad = { d->pad[0], d->pad[1] },
                            .dilation = { d->gap[0] + 1, d->gap[1] + 1 } };
}

static shoal_status make_patches(conv_op *c, const shoal_op_args *a, int64_t first, int64_t samples)
{
  const shoal_k_windows k = windows(c, samples);
  const int64_t plane = k.h * k.w, n = samples * of_samples(c).patches;
  void *to = at(a, c->patches_at);
  return SHOAL_EACH(shoal_cuda_of(&c->op), patches, (size_t)n, .k = k,
                    .x = a->x[0] + first * (k.planes / samples) * plane, .y = of_bf16(c) ? NULL : to,
                    .y16 = of_bf16(c) ? to : NULL);
}

/* Row-major: C[m,n] = A B + beta C, `count` times. */
typedef struct {
  bool ta, tb;
  int64_t m, n, k;
  const void *a, *b;
  float *c;
  int64_t a_step, b_step, c_step, count;
  float beta;
} batch;

static shoal_status multiply(shoal_cuda *b, const batch *p)
{
  const float one = 1;
  const cudaDataType type = b->products == SHOAL_PRODUCTS_BF16 ? CUDA_R_16BF : CUDA_R_32F;
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  SHOAL_TRY_CUBLAS(b->lib.cublasGemmStridedBatchedEx(
      b->lib.blas, p->tb ? CUBLAS_OP_T : CUBLAS_OP_N, p->ta ? CUBLAS_OP_T : CUBLAS_OP_N, (int)p->n, (int)p->m,
      (int)p->k, &one, p->b, type, (int)(p->tb ? p->k : p->n), p->b_step, p->a, type, (int)(p->ta ? p->m : p->k),
      p->a_step, &p->beta, p->c, CUDA_R_32F, (int)p->n, p->c_step, (int)p->count, shoal_cuda_compute(b),
      CUBLAS_GEMM_DEFAULT));
  return SHOAL_OK;
}

/* What forward and backward_data do for a piece: y = w patches, or back: patches = w' y. */
static shoal_status multiply_piece(conv_op *c, const void *w, const void *from, float *to, int64_t samples, bool back)
{
  const bool all_samples = samples >= c->groups; /* in one batch */
  const steps s = of_samples(c), g = of_groups(c), in = all_samples ? s : g, out = all_samples ? g : s;
  const int64_t turns = all_samples ? c->groups : samples;
  for (int64_t i = 0; i < turns; i++) {
    const batch b = { .ta = back,
                      .m = back ? c->rows : c->channels,
                      .n = c->columns,
                      .k = back ? c->channels : c->rows,
                      .a = element(c, w, i * out.w),
                      .b = element(c, from, i * (back ? out.y : out.patches)),
                      .c = to + i * (back ? out.patches : out.y),
                      .a_step = in.w,
                      .b_step = back ? in.y : in.patches,
                      .c_step = back ? in.patches : in.y,
                      .count = all_samples ? samples : c->groups };
    SHOAL_TRY(multiply(shoal_cuda_of(&c->op), &b));
  }
  return SHOAL_OK;
}

static shoal_cuda_channels outputs_of(const conv_op *c)
{
  return (shoal_cuda_channels){ (size_t)(c->samples * of_samples(c).y), (size_t)(c->groups * c->channels),
                                (size_t)c->columns };
}

/* The pieces of a batch: samples from `first`. */
#define PIECES(c, first, n)                                                                                            \
  for (int64_t first = 0, n; n = SHOAL_MIN((c)->piece, (c)->samples - first), first < (c)->samples; first += n)

static shoal_status forward(shoal_op *op, const shoal_op_args *a)
{
  conv_op *c = (conv_op *)op;
  const shoal_cuda_channels y = outputs_of(c);
  const void *w;
  SHOAL_TRY(factor(c, weights_of(c), a->w[0], at(a, c->w_at), &w));
  PIECES(c, first, n)
  {
    SHOAL_TRY(make_patches(c, a, first, n));
    SHOAL_TRY(multiply_piece(c, w, at(a, c->patches_at), a->y + first * of_samples(c).y, n, false));
  }
  SHOAL_TRY(shoal_cuda_bias(shoal_cuda_of(op), &y, op->desc.bias ? a->w[1] : NULL, op->desc.relu, a->y));
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

static shoal_status backward_weights(shoal_op *op, const shoal_op_args *a)
{
  conv_op *c = (conv_op *)op;
  const shoal_cuda_channels y = outputs_of(c);
  const steps g = of_groups(c), s = of_samples(c);
  const float *unmasked;
  const void *dy;
  SHOAL_TRY(shoal_cuda_unmasked(op, a, a->scratch, &unmasked));
  if (op->desc.bias) SHOAL_TRY(shoal_cuda_bias_back(shoal_cuda_of(op), &y, unmasked, a->dw[1]));
  if (!a->dw[0]) return SHOAL_OK;
  SHOAL_TRY(factor(c, c->samples * s.y, unmasked, at(a, c->dy_at), &dy));
  PIECES(c, first, n)
  {
    SHOAL_TRY(make_patches(c, a, first, n));
    for (int64_t i = 0; i < n; i++) {
      const batch b = { .tb = true,
                        .m = c->channels,
                        .n = c->rows,
                        .k = c->columns,
                        .a = element(c, dy, (first + i) * s.y),
                        .b = element(c, at(a, c->patches_at), i * s.patches),
                        .c = a->dw[0],
                        .a_step = g.y,
                        .b_step = g.patches,
                        .c_step = g.w,
                        .count = c->groups,
                        .beta = first + i > 0 };
      SHOAL_TRY(multiply(shoal_cuda_of(op), &b));
    }
  }
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

static shoal_status backward_data(shoal_op *op, const shoal_op_args *a)
{
  conv_op *c = (conv_op *)op;
  const int64_t y = of_samples(c).y;
  const float *unmasked;
  const void *dy, *w;
  float *patches = at(a, c->patches_at);
  SHOAL_TRY(shoal_cuda_unmasked(op, a, a->scratch, &unmasked));
  SHOAL_TRY(factor(c, c->samples * y, unmasked, at(a, c->dy_at), &dy));
  SHOAL_TRY(factor(c, weights_of(c), a->w[0], at(a, c->w_at), &w));
  PIECES(c, first, n)
  {
    const shoal_k_windows k = windows(c, n);
    const int64_t inputs = k.planes * k.h * k.w;
    SHOAL_TRY(multiply_piece(c, w, element(c, dy, first * y), patches, n, true));
    SHOAL_TRY(SHOAL_EACH(shoal_cuda_of(op), patches_back, (size_t)inputs, .k = k, .dy = patches,
                         .dx = a->dx[0] + first * (inputs / n)));
  }
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

static shoal_status plan_products(shoal_cuda *b, const shoal_op_desc *d, shoal_op **out)
{
  const int64_t *x = d->in[0].dim, *y = d->out.dim;
  conv_op *c;
  SHOAL_TRY(shoal_cuda_op_new(b, d, sizeof *c, &c));
  c->samples = x[0];
  c->groups = shoal_op_groups(d);
  c->rows = x[1] / c->groups * d->kernel[0] * d->kernel[1];
  c->columns = y[2] * y[3];
  c->channels = y[1] / c->groups;
  c->piece = (c->samples + 3) / 4;
  const bool bf16 = b->products == SHOAL_PRODUCTS_BF16;
  c->each = bf16 ? sizeof(uint16_t) : sizeof(float);
  c->w_at = d->relu && d->training ? shoal_round_up(c->op.out_format.bytes, SHOAL_ALIGN) : 0;
  c->dy_at = c->w_at + (bf16 ? shoal_round_up((size_t)weights_of(c) * c->each, SHOAL_ALIGN) : 0);
  c->patches_at = c->dy_at + (bf16 && d->training ? shoal_round_up(c->op.out_format.bytes / 2, SHOAL_ALIGN) : 0);
  c->op.scratch_bytes = c->patches_at + (size_t)(c->piece * of_samples(c).patches) * sizeof(float);
  c->op.forward = forward;
  c->op.backward_weights = backward_weights;
  c->op.backward_data = backward_data;
  c->op.backward_reads_x = true;
  c->op.backward_reads_y = d->relu;
  *out = &c->op;
  return SHOAL_OK;
}

shoal_status shoal_cuda_plan_conv(shoal_cuda *b, const shoal_op_desc *d, shoal_op **out)
{
  SHOAL_CHECK(shoal_shape_count(&d->in[0]) <= INT32_MAX && shoal_shape_count(&d->out) <= INT32_MAX,
              SHOAL_ERR_UNSUPPORTED, "conv: a tensor of more than 2^31 - 1 elements; use a smaller batch");
#ifdef SHOAL_WITH_CUDNN
  if (b->lib.has_dnn) return shoal_cuda_plan_conv_dnn(b, d, out);
#endif
  return plan_products(b, d, out);
}
