/* What each kernel may read and write, written down apart from the kernels: the simulator holds them to it. */
#include "sim.h"
#include "simgpu/samples.h"
#include "tensor/cuda/kernels.h"

SIM_KERNEL(sample_fill, sample_fill_args, r.writes(a.y, a.n);)
SIM_KERNEL(sample_sum, sample_sum_args, r.reads(a.x, a.n); r.writes(a.sums, (a.n + 127) / 128);)
SIM_KERNEL(sample_blocks, sample_blocks_args, if (a.shared == 3) r.reads(a.y, a.n); else r.writes(a.y, a.n);)
SIM_KERNEL(sample_shuffle, sample_shuffle_args, r.reads(a.x, 32); r.writes(a.y, 1);)

/* ---- the product's: src/tensor/cuda/kernels.h ---- */

#define CONTRACT(name, ...) SIM_KERNEL(shoal_k_##name, shoal_k_##name##_args, __VA_ARGS__)

static size_t quant_blocks(size_t n)
{
  return (n + SHOAL_CUDA_QBLOCK - 1) / SHOAL_CUDA_QBLOCK;
}
static size_t parcel_bytes(size_t n, size_t packed, size_t last)
{
  return n ? (quant_blocks(n) - 1) * (packed + 8) + last + 8 : 0;
}

CONTRACT(fill, r.writes(a.y, a.n);)
CONTRACT(axpby, r.reads(a.x, a.n); r.writes(a.y, a.n);)
CONTRACT(add, r.reads(a.x, a.n); r.writes(a.y, a.n);)
CONTRACT(average, r.reads(a.x, a.n); r.reads(a.y, a.n); r.writes(a.z, a.n);)
CONTRACT(divide, r.writes(a.y, a.n);)
CONTRACT(scale, r.reads(a.x, a.n); r.reads(a.plus, a.n); r.reads(a.minus, a.n); r.writes(a.y, a.n);)
CONTRACT(copy_checked, r.reads(a.x, a.n); r.writes(a.y, a.n); r.writes(a.bad, 1);)
CONTRACT(find_bad, r.reads(a.x, a.n); r.writes(a.first, 1);)
CONTRACT(take_first, r.reads(a.first, 1); r.writes(a.out, 1);)
CONTRACT(copy_tile, r.reads(a.in.rows, a.rows); r.reads(a.in.cols, a.cols); r.reads(a.out.rows, a.rows);
         r.reads(a.out.cols, a.cols); r.reads(a.from, a.from_n); r.writes(a.to, a.to_n);)
CONTRACT(pack16, r.reads(a.x, a.n); r.reads(a.minus, a.n); r.writes(a.y, a.n); r.writes(a.bad, 1);)
CONTRACT(unpack16, r.reads(a.x, a.n); r.reads(a.plus, a.n); r.writes(a.y, a.n);)
/* The list itself is device memory; what it names is checked when the kernel runs. */
CONTRACT(mean, r.reads(a.x, a.count); r.writes(a.y, a.n);
         if (sim::running()) for (size_t k = 0; k < a.count; k++) r.reads(a.x[k], a.n);)

CONTRACT(descend, r.reads(a.now, 1); r.reads(a.scale, 1); r.reads(a.g, a.n); r.writes(a.w, a.n);
         r.writes(a.before, a.n); r.writes(a.bad, 1);)
CONTRACT(sgd, r.reads(a.now, 1); r.reads(a.scale, 1); r.reads(a.g, a.n); r.writes(a.v, a.n); r.writes(a.w, a.n);
         r.writes(a.before_v, a.n); r.writes(a.before_w, a.n); r.writes(a.bad, 1);)
CONTRACT(adam, r.reads(a.now, 1); r.reads(a.scale, 1); r.reads(a.g, a.n); r.writes(a.m, a.n); r.writes(a.v, a.n);
         r.writes(a.w, a.n); r.writes(a.before_m, a.n); r.writes(a.before_v, a.n); r.writes(a.before_w, a.n);
         r.writes(a.bad, 1);)
CONTRACT(clip, r.reads(a.squares, 1); r.writes(a.scale, 1);)

CONTRACT(sumsq, r.reads(a.x, a.n); r.writes(a.part, (a.n + SHOAL_CUDA_PART - 1) / SHOAL_CUDA_PART);)
CONTRACT(sum_parts, r.reads(a.part, a.n); r.writes(a.sum, 1);)
CONTRACT(multiply, r.reads(a.a, (size_t)(a.m *a.k)); r.reads(a.b, (size_t)(a.k *a.n));
         r.writes(a.c, (size_t)(a.m *a.n));)
CONTRACT(softmax, const size_t n = (size_t)(a.rows * a.classes); r.reads(a.logits, n);
         r.reads(a.labels, (size_t)a.rows); r.reads(a.weights, (size_t)a.classes); r.reads(a.scale, 1);
         r.writes(a.dlogits, n); r.writes(a.row, (size_t)a.rows);)
CONTRACT(target_loss, const size_t n = (size_t)(a.rows * a.width); r.reads(a.y, n); r.reads(a.targets, n);
         r.reads(a.scale, 1); r.writes(a.dy, n); r.writes(a.row, (size_t)a.rows);)
CONTRACT(sum_rows, r.reads(a.row, (size_t)a.rows); r.writes(a.out, 1);)

CONTRACT(encode, r.reads(a.x, a.n); r.reads(a.factor, SHOAL_CUDA_QBLOCK + 1); r.writes(a.exponent, quant_blocks(a.n));
         r.writes(a.out, parcel_bytes(a.n, a.packed, a.last_packed));)
CONTRACT(decode, r.reads(a.key, a.n); r.reads(a.factor, SHOAL_CUDA_QBLOCK + 1); r.writes(a.z, a.n);
         r.reads(a.parcel, parcel_bytes(a.n, a.packed, a.last_packed)); r.writes(a.failed, quant_blocks(a.n));)
CONTRACT(marks, r.reads(a.failed, a.n); r.writes(a.bad, (a.n + 7) / 8);)
CONTRACT(
    meet, const size_t blocks = quant_blocks(a.n); r.reads(a.theirs, a.n); r.writes(a.distance, blocks);
    if (a.average) r.writes(a.c, a.n); else r.reads(a.c, a.n); if (a.average && a.quantised) {
      r.reads(a.exponent, blocks);
      r.reads(a.bad, (blocks + 7) / 8);
    })
CONTRACT(fold, r.writes(a.x, a.n); r.writes(a.c, a.n); r.writes(a.base, a.n); r.writes(a.largest, quant_blocks(a.n));)

CONTRACT(relu, r.reads(a.x, a.n); r.writes(a.y, a.n);)
CONTRACT(curve, r.reads(a.x, a.n); r.writes(a.y, a.n);)
CONTRACT(curve_back, r.reads(a.x, a.n); r.reads(a.dy, a.n); r.writes(a.dx, a.n);)
CONTRACT(mask, r.reads(a.y, a.n); r.reads(a.dy, a.n); r.writes(a.dx, a.n);)
CONTRACT(sum, r.reads(a.x0, a.n); r.reads(a.x1, a.n); r.writes(a.y, a.n);)
CONTRACT(sum_back, r.reads(a.y, a.n); r.reads(a.dy, a.n); r.writes(a.dx0, a.n); r.writes(a.dx1, a.n);)
CONTRACT(transpose, r.reads(a.x, a.n); r.writes(a.y, a.n);)
CONTRACT(table, r.reads(a.x, a.n / a.width); r.reads(a.w, (size_t)a.rows *a.width); r.writes(a.y, a.n);)
CONTRACT(table_back, r.reads(a.x, a.n / a.width); r.reads(a.dy, a.n); r.writes(a.dw, (size_t)a.rows *a.width);)
CONTRACT(product, r.reads(a.x, a.n); r.reads(a.s, a.n / a.plane); r.writes(a.y, a.n);)
CONTRACT(product_sum, r.reads(a.x, a.n); r.reads(a.dy, a.n); r.writes(a.ds, a.n / a.plane);)
CONTRACT(dropout, r.reads(a.at, 1); r.reads(a.x, a.n); r.writes(a.y, a.n);)
CONTRACT(bias, r.reads(a.bias, a.channels); r.writes(a.y, a.n);)
CONTRACT(bias_back, r.reads(a.dy, a.n); r.writes(a.db, a.channels);)

CONTRACT(
    batchnorm, r.reads(a.x, a.n); r.reads(a.scale, a.channels); r.reads(a.shift, a.channels); r.writes(a.y, a.n);
    if (a.training) {
      r.writes(a.mean, a.channels);
      r.writes(a.var, a.channels);
      r.writes(a.saved, a.channels);
    } else {
      r.reads(a.mean, a.channels);
      r.reads(a.var, a.channels);
    })
CONTRACT(batchnorm_back, r.reads(a.x, a.n); r.reads(a.dy, a.n); r.reads(a.y, a.n); r.reads(a.scale, a.channels);
         r.reads(a.saved, a.channels); r.writes(a.dx, a.n); r.writes(a.dscale, a.channels);
         r.writes(a.dshift, a.channels);)
CONTRACT(layernorm, const size_t n = a.rows * a.width; r.reads(a.x, n); r.reads(a.scale, a.width);
         r.reads(a.shift, a.width); r.writes(a.y, n); r.writes(a.saved, a.rows);)
CONTRACT(layernorm_back, const size_t n = a.rows * a.width; r.reads(a.x, n); r.reads(a.dy, n);
         r.reads(a.scale, a.width); r.reads(a.saved, a.rows); r.writes(a.dx, n);)
CONTRACT(layernorm_dw, const size_t n = a.rows * a.width; r.reads(a.x, n); r.reads(a.dy, n); r.reads(a.saved, a.rows);
         r.writes(a.dscale, a.width); r.writes(a.dshift, a.width);)

#define PLANES(a) const size_t in = (size_t)(a.planes * a.h * a.w), out = (size_t)(a.planes * a.p * a.q)
CONTRACT(maxpool, PLANES(a); r.reads(a.x, in); r.writes(a.y, out); r.writes(a.winner, out);)
CONTRACT(maxpool_back, PLANES(a); r.reads(a.dy, out); r.reads(a.winner, out); r.writes(a.dx, in);)
CONTRACT(avgpool, PLANES(a); r.reads(a.x, in); r.writes(a.y, out);)
CONTRACT(avgpool_back, PLANES(a); r.reads(a.dy, out); r.writes(a.dx, in);)
CONTRACT(globalpool, r.reads(a.x, a.planes *a.plane); r.writes(a.y, a.planes);)
CONTRACT(globalpool_back, r.reads(a.dy, a.n / a.plane); r.writes(a.dx, a.n);)

#define WINDOWS(k)                                                                                                     \
  const size_t in = (size_t)(k.planes * k.h * k.w), all = (size_t)(k.planes * k.kernel[0] * k.kernel[1] * k.p * k.q)
CONTRACT(patches, WINDOWS(a.k); r.reads(a.x, in); r.writes(a.y, all); r.writes(a.y16, all);)
CONTRACT(patches_back, WINDOWS(a.k); r.reads(a.dy, all); r.writes(a.dx, in);)

/* Rows of all heads. */
#define OF_HEADS(a)                                                                                                    \
  const size_t width = (size_t)(a.h.heads * a.h.d), queries = (size_t)(a.h.samples * a.h.queries) * width,             \
               keys = (size_t)(a.h.samples * a.h.keys) * width, each = (size_t)(a.h.samples * a.h.heads * a.h.queries)
CONTRACT(attention_norms, OF_HEADS(a); r.reads(a.q, queries); r.reads(a.k, keys); r.writes(a.norm, each);)
CONTRACT(attention_dots, OF_HEADS(a); (void)keys; r.reads(a.dy, queries); r.reads(a.y, queries); r.writes(a.dot, each);)
CONTRACT(attention, OF_HEADS(a); const size_t mine = a.of_keys ? keys : queries, others = a.of_keys ? queries : keys;
         r.reads(a.x, mine); r.reads(a.x_other, others); r.reads(a.g, mine); r.reads(a.g_other, others);
         r.reads(a.z, others); r.reads(a.norm, each); r.reads(a.dot, each); r.writes(a.out, mine);)
