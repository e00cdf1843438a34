/* The kernels of the cuda backend and their arguments: one struct each, so that the host's call and the kernel cannot differ in
 * what they believe the arguments are.
 *
 * Kernels are launched by cudaLaunchKernel (SHOAL_EACH and SHOAL_BLOCKS of cuda_impl.h), never by <<< >>>: the host's part of the
 * backend is C.  An argument x or y without a comment has n elements.  Pointers are device, pinned or shared memory.
 * tests/simgpu/contracts.cpp says, apart from this file, what each kernel may read and write. */
#ifndef SHOAL_TENSOR_CUDA_KERNELS_H
#define SHOAL_TENSOR_CUDA_KERNELS_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define SHOAL_KERNEL(name) extern "C" __global__ void shoal_k_##name(shoal_k_##name##_args a)
#else
#define SHOAL_KERNEL(name) void shoal_k_##name(shoal_k_##name##_args a)
#endif

enum {
  SHOAL_CUDA_THREADS = 256, /* of a block, everywhere */
  SHOAL_CUDA_PART = 8192,   /* elements whose squares one block sums */
  SHOAL_CUDA_QBLOCK = 4096, /* SHOAL_QUANT_BLOCK */
  SHOAL_CUDA_TILE = 64      /* queries, keys and numbers of one that a block of attention has at a time */
};

/* ---- arena.cu: a thread per element ---- */
typedef struct {
  size_t n;
  float value, *y;
} shoal_k_fill_args;
typedef struct {
  size_t n;
  float p, q;
  const float *x;
  float *y;
} shoal_k_axpby_args; /* y = p x + q y */
typedef struct {
  size_t n;
  const float *x;
  float *y;
} shoal_k_add_args; /* y += x */
typedef struct {
  size_t n;
  const float *x, *y;
  float *z;
} shoal_k_average_args;
typedef struct {
  size_t n;
  float divisor, *y;
} shoal_k_divide_args;
typedef struct {
  size_t n;
  double s;
  const float *x, *plus, *minus; /* plus and minus: both or none */
  float *y;
} shoal_k_scale_args;
typedef struct {
  size_t n, count;
  const float *const *x; /* [count] */
  float *y;
} shoal_k_mean_args;
typedef struct {
  size_t n;
  const float *x;
  float *y;
  uint32_t *bad; /* 1 */
} shoal_k_copy_checked_args;
typedef struct {
  size_t n;
  const float *x;
  unsigned long long *first; /* 1: lowered to the number of the first element that is not finite */
} shoal_k_find_bad_args;
typedef struct {
  size_t n;
  const unsigned long long *first; /* 1 */
  size_t *out;                     /* 1: the lesser of both; a single thread */
} shoal_k_take_first_args;
typedef struct {
  const int64_t *rows, *cols; /* [rows], [cols] of the tile; NULL: 0, 1, ... */
  int64_t row_shift, col_shift;
  size_t stride;
} shoal_k_side;
typedef struct {
  size_t n, rows, cols, width, grain; /* n = rows grain cols width */
  shoal_k_side in, out;
  const float *from;
  float *to;
  size_t from_n, to_n; /* elements up to the last that is touched */
} shoal_k_copy_tile_args;
typedef struct {
  size_t n;
  int f16; /* else bfloat16 */
  float divisor;
  const float *x, *minus; /* minus may be NULL */
  uint16_t *y;
  uint32_t *bad; /* 1, or NULL */
} shoal_k_pack16_args;
typedef struct {
  size_t n;
  int f16;
  const uint16_t *x;
  const float *plus; /* may be NULL, may be y */
  float *y;
} shoal_k_unpack16_args;

/* ---- update.cu: a thread per element; what changes from step to step is read on the device ---- */
typedef struct {
  float lr, c1, c2;
  uint32_t first;
} shoal_k_pace; /* as shoal_pace */
typedef struct {
  size_t n;
  const shoal_k_pace *now; /* 1 */
  const float *scale;      /* 1, or NULL */
  float l2, decoupled;
  const float *g;
  float *w, *before; /* before may be NULL */
  uint32_t *bad;     /* 1 */
} shoal_k_descend_args;
typedef struct {
  size_t n;
  const shoal_k_pace *now;
  const float *scale;
  float momentum, l2, decoupled, ahead; /* ahead: 1 + momentum, or 1 */
  int nesterov;
  const float *g;
  float *v, *w, *before_v, *before_w; /* before: both or none */
  uint32_t *bad;
} shoal_k_sgd_args;
typedef struct {
  size_t n;
  const shoal_k_pace *now;
  const float *scale;
  float beta1, beta2, rest1, rest2, eps, l2, decoupled;
  const float *g;
  float *m, *v, *w, *before_m, *before_v, *before_w; /* before: all or none */
  uint32_t *bad;
} shoal_k_adam_args;
typedef struct {
  float limit;
  const double *squares; /* 1 */
  float *scale;          /* 1; a single thread */
} shoal_k_clip_args;

/* ---- reduce.cu ---- */
typedef struct {
  size_t n;
  const float *x;
  double *part; /* [ceil(n / SHOAL_CUDA_PART)], a block each */
} shoal_k_sumsq_args;
typedef struct {
  size_t n;
  const double *part;
  double *sum;            /* 1 */
} shoal_k_sum_parts_args; /* one block */
typedef struct {
  int64_t m, n, k; /* C[m,n] = A[m,k] B[k,n]; a thread per element of C */
  const float *a, *b;
  float *c;
} shoal_k_multiply_args;

/* ---- loss.cu ---- */
typedef struct {
  double loss;
  int32_t correct, kind; /* SHOAL_ROW_... */
} shoal_k_row;
enum { SHOAL_ROW_COUNTS, SHOAL_ROW_IGNORED, SHOAL_ROW_LEFT_OUT };
typedef struct {
  int64_t rows, classes; /* a block per row */
  const float *logits;   /* [rows, classes] */
  const int32_t *labels; /* [rows] */
  const float *weights;  /* [classes]; may be NULL */
  double smoothing;
  const float *scale; /* 1 */
  int leave_out;
  float *dlogits;   /* [rows, classes]; may be logits or NULL */
  shoal_k_row *row; /* [rows] */
} shoal_k_softmax_args;
typedef struct {
  int64_t rows, width;  /* a thread per row: there are a few targets */
  const float *y;       /* [rows, width] */
  const float *targets; /* [rows, width] */
  const float *scale;   /* 1 */
  int absolute, leave_out;
  float *dy;        /* [rows, width]; may be y or NULL */
  shoal_k_row *row; /* [rows] */
} shoal_k_target_loss_args;
typedef struct {
  double loss;
  int64_t correct, samples, left_out, first_left_out;
} shoal_k_loss; /* as shoal_loss */
typedef struct {
  int64_t rows;
  const shoal_k_row *row;
  shoal_k_loss *out;     /* 1 */
} shoal_k_sum_rows_args; /* one block */

/* ---- quant.cu: a block for each SHOAL_CUDA_QBLOCK elements ---- */
typedef struct {
  size_t n, packed, last_packed; /* bytes of a whole block's codes, and of the last one's */
  int bits, stochastic;
  uint64_t seed;
  uint32_t turn;
  const int32_t *factor; /* [SHOAL_CUDA_QBLOCK + 1] */
  const float *x;
  int8_t *exponent; /* [blocks] */
  uint8_t *out;
} shoal_k_encode_args;
typedef struct {
  size_t n, packed, last_packed;
  int bits;
  const int32_t *factor;
  const uint8_t *parcel;
  const float *key;
  float *z;
  uint8_t *failed; /* [blocks] */
} shoal_k_decode_args;
typedef struct {
  size_t n; /* blocks */
  const uint8_t *failed;
  uint8_t *bad; /* [(n + 7) / 8] bits; a thread per byte */
} shoal_k_marks_args;
typedef struct {
  size_t n;
  int average, quantised, stochastic;
  uint64_t seed;
  uint32_t turn;
  const int8_t *exponent; /* [blocks], if quantised */
  const uint8_t *bad;     /* [(blocks + 7) / 8], if quantised */
  const float *theirs;
  float *c, *distance; /* distance [blocks] */
} shoal_k_meet_args;
typedef struct {
  size_t n;
  float *x, *c, *base, *largest; /* largest [blocks] */
} shoal_k_fold_args;

/* ---- pointwise.cu: a thread per element ---- */
typedef struct {
  size_t n;
  const float *x;
  float *y;
} shoal_k_relu_args;
enum { /* in the order of tensor/op.h */
       SHOAL_K_GELU,
       SHOAL_K_GELU_TANH,
       SHOAL_K_SIGMOID,
       SHOAL_K_TANH,
       SHOAL_K_SILU,
       SHOAL_K_LEAKYRELU,
       SHOAL_K_RELU6,
       SHOAL_K_HARDSWISH,
       SHOAL_K_HARDSIGMOID
};
typedef struct {
  size_t n;
  int kind;
  float slope;
  const float *x;
  float *y;
} shoal_k_curve_args;
typedef struct {
  size_t n;
  int kind;
  float slope;
  const float *x, *dy;
  float *dx;
} shoal_k_curve_back_args;
typedef struct {
  size_t n;
  const float *y, *dy;
  float *dx;
} shoal_k_mask_args; /* dx = y <= 0 ? 0 : dy */
typedef struct {
  size_t n;
  int relu;
  const float *x0, *x1;
  float *y;
} shoal_k_sum_args;
typedef struct {
  size_t n;
  const float *y, *dy; /* y: where a relu was fused, else NULL */
  float *dx0, *dx1;    /* either may be dy */
} shoal_k_sum_back_args;
typedef struct {
  size_t n, plane, width; /* plane: elements for each of s; width: of s, beside each other in every row of x */
  const float *x, *s;     /* s [n / plane] */
  float *y;
} shoal_k_product_args; /* y[i] = x[i] s[i / (plane width) width + i % width] */
typedef struct {
  size_t n, plane, width; /* likewise; a block for each of ds */
  const float *x, *dy;
  float *ds; /* [n / plane] */
} shoal_k_product_sum_args;
enum { SHOAL_K_DIMS = 5 };
typedef struct {
  size_t n;
  int dims, back;                                 /* back: y[place] = x[i] */
  int64_t size[SHOAL_K_DIMS], step[SHOAL_K_DIMS]; /* i has these sizes, and its place is the sum of these steps */
  const float *x;
  float *y;
} shoal_k_transpose_args; /* y[i] = x[place] */
typedef struct {
  size_t n, width; /* of y, and of a row */
  int64_t rows;
  const float *x, *w; /* [n / width], [rows, width] */
  float *y;
} shoal_k_table_args; /* y = w[x], 0 for what is no row */
typedef struct {
  size_t n, width;
  int64_t rows;
  const float *x, *dy;
  float *dw;
} shoal_k_table_back_args; /* one thread for each column: from the first place to the last */
typedef struct {
  uint64_t seed;
  uint32_t step;
  uint64_t slot0;
} shoal_k_address; /* as shoal_address */
typedef struct {
  size_t n, per_sample;
  float p, keep;
  uint64_t stream;
  const shoal_k_address *at; /* 1 */
  const float *x;
  float *y;
} shoal_k_dropout_args;
typedef struct {
  size_t n, channels, plane; /* of [.., channels, plane] */
  int relu;
  const float *bias; /* [channels], or NULL */
  float *y;
} shoal_k_bias_args;
typedef struct {
  size_t n, channels, plane; /* a block per channel */
  const float *dy;
  float *db; /* [channels] */
} shoal_k_bias_back_args;

/* ---- norm.cu: a block per channel, or per row ---- */
typedef struct {
  double mean, rate; /* rate: 1 / sqrt(var + eps) */
} shoal_k_moments;
typedef struct {
  size_t n, channels, plane; /* channels 1 after the other: element e of channel c as in bias */
  int training, relu;
  double eps, momentum;
  const float *x, *scale, *shift; /* [channels] */
  float *y, *mean, *var;          /* running statistics, [channels]; in training NULL: they stay as they are */
  shoal_k_moments *saved;         /* [channels], in training */
} shoal_k_batchnorm_args;
typedef struct {
  size_t n, channels, plane;
  const float *x, *dy, *y, *scale; /* y: where a relu was fused, else NULL */
  const shoal_k_moments *saved;
  float *dx, *dscale, *dshift; /* dx may be NULL, may be dy */
} shoal_k_batchnorm_back_args;
typedef struct {
  size_t rows, width;
  double eps;
  const float *x, *scale, *shift; /* [rows, width], [width] */
  float *y;
  shoal_k_moments *saved; /* [rows], or NULL */
} shoal_k_layernorm_args;
typedef struct {
  size_t rows, width;
  const float *x, *dy, *scale;
  const shoal_k_moments *saved;
  float *dx; /* may be dy */
} shoal_k_layernorm_back_args;
typedef struct {
  size_t rows, width; /* a block per column */
  const float *x, *dy;
  const shoal_k_moments *saved;
  float *dscale, *dshift; /* [width] */
} shoal_k_layernorm_dw_args;

/* ---- pool.cu ---- */
typedef struct {
  int64_t planes, h, w, p, q; /* x [planes, h, w], y [planes, p, q]; a thread per element of what is written */
  int kernel[2], stride[2], pad[2];
  const float *x;
  float *y;
  int32_t *winner; /* [planes, p, q]: place in the plane; NULL in evaluation, and for means */
} shoal_k_maxpool_args;
typedef struct {
  int64_t planes, h, w, p, q;
  int kernel[2], stride[2], pad[2], count_pad;
  const float *x;
  float *y;
} shoal_k_avgpool_args;
typedef struct {
  int64_t planes, h, w, p, q;
  int kernel[2], stride[2], pad[2];
  const float *dy;
  const int32_t *winner;
  float *dx;
} shoal_k_maxpool_back_args;
typedef struct {
  int64_t planes, h, w, p, q;
  int kernel[2], stride[2], pad[2], count_pad;
  const float *dy;
  float *dx;
} shoal_k_avgpool_back_args;
typedef struct {
  size_t planes, plane; /* a block per plane */
  const float *x;
  float *y; /* [planes] */
} shoal_k_globalpool_args;
typedef struct {
  size_t n, plane;
  const float *dy; /* [n / plane] */
  float *dx;
} shoal_k_globalpool_back_args;

/* ---- patches.cu: a thread per element of what is written ---- */
typedef struct {
  int64_t planes, h, w, p, q; /* x [planes, h, w], patches [planes, kernel, kernel, p, q] */
  int kernel[2], stride[2], pad[2], dilation[2];
} shoal_k_windows;
typedef struct {
  shoal_k_windows k;
  const float *x;
  float *y;      /* patches ... */
  uint16_t *y16; /* ... or as bf16; the other is NULL */
} shoal_k_patches_args;
typedef struct {
  shoal_k_windows k;
  const float *dy; /* of patches */
  float *dx;
} shoal_k_patches_back_args;

/* ---- attention.cu: tensors [samples, queries or keys, heads d] ---- */
typedef struct {
  int64_t samples, heads, queries, keys, d;
  int causal;
} shoal_k_heads;
typedef struct {
  shoal_k_heads h; /* a block for each tile of queries of a head */
  const float *q, *k;
  float *norm; /* [samples, heads, queries] */
} shoal_k_attention_norms_args;
typedef struct {
  size_t n; /* samples heads queries */
  shoal_k_heads h;
  const float *dy, *y; /* of queries */
  float *dot;          /* [n] */
} shoal_k_attention_dots_args;
typedef struct {
  shoal_k_heads h; /* a block for each tile of rows of a head, and of their numbers */
  int of_keys;     /* x, g and out have a row for each key, and the others for each query; or the other way round */
  const float *x, *x_other, *g, *g_other, *z; /* z: of the others.  g: with dot */
  const float *norm, *dot;                    /* [samples, heads, queries]; dot NULL: weights are p, else ds */
  float *out;                                 /* sums of weights times z */
} shoal_k_attention_args;

#ifndef __cplusplus
SHOAL_KERNEL(fill);
SHOAL_KERNEL(axpby);
SHOAL_KERNEL(add);
SHOAL_KERNEL(average);
SHOAL_KERNEL(divide);
SHOAL_KERNEL(scale);
SHOAL_KERNEL(mean);
SHOAL_KERNEL(copy_checked);
SHOAL_KERNEL(find_bad);
SHOAL_KERNEL(take_first);
SHOAL_KERNEL(copy_tile);
SHOAL_KERNEL(pack16);
SHOAL_KERNEL(unpack16);
SHOAL_KERNEL(descend);
SHOAL_KERNEL(sgd);
SHOAL_KERNEL(adam);
SHOAL_KERNEL(clip);
SHOAL_KERNEL(sumsq);
SHOAL_KERNEL(sum_parts);
SHOAL_KERNEL(multiply);
SHOAL_KERNEL(softmax);
SHOAL_KERNEL(target_loss);
SHOAL_KERNEL(sum_rows);
SHOAL_KERNEL(encode);
SHOAL_KERNEL(decode);
SHOAL_KERNEL(marks);
SHOAL_KERNEL(meet);
SHOAL_KERNEL(fold);
SHOAL_KERNEL(relu);
SHOAL_KERNEL(curve);
SHOAL_KERNEL(curve_back);
SHOAL_KERNEL(mask);
SHOAL_KERNEL(sum);
SHOAL_KERNEL(sum_back);
SHOAL_KERNEL(transpose);
SHOAL_KERNEL(table);
SHOAL_KERNEL(table_back);
SHOAL_KERNEL(product);
SHOAL_KERNEL(product_sum);
SHOAL_KERNEL(dropout);
SHOAL_KERNEL(bias);
SHOAL_KERNEL(bias_back);
SHOAL_KERNEL(batchnorm);
SHOAL_KERNEL(batchnorm_back);
SHOAL_KERNEL(layernorm);
SHOAL_KERNEL(layernorm_back);
SHOAL_KERNEL(layernorm_dw);
SHOAL_KERNEL(maxpool);
SHOAL_KERNEL(maxpool_back);
SHOAL_KERNEL(avgpool);
SHOAL_KERNEL(avgpool_back);
SHOAL_KERNEL(globalpool);
SHOAL_KERNEL(globalpool_back);
SHOAL_KERNEL(patches);
SHOAL_KERNEL(patches_back);
SHOAL_KERNEL(attention_norms);
SHOAL_KERNEL(attention_dots);
SHOAL_KERNEL(attention);
#endif
#endif
