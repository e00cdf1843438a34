/* Attention: see attention.cu.  f32, whatever products are.
 *
 * `saved`: the norm of each query [n, heads, queries], in evaluation in the scratch; backward has there dy . y of each. */
#include "tensor/cuda/cuda_impl.h"

static shoal_k_heads heads_of(const shoal_op_desc *d)
{
  return (shoal_k_heads){ .samples = d->in[0].dim[0],
                          .heads = d->heads,
                          .queries = d->in[0].dim[1],
                          .keys = d->in[1].dim[1],
                          .d = d->in[0].dim[2] / d->heads,
                          .causal = d->causal };
}

static size_t tiles_of(int64_t n)
{
  return (size_t)(n + SHOAL_CUDA_TILE - 1) / SHOAL_CUDA_TILE;
}

static size_t heads_and_queries(const shoal_k_heads *h)
{
  return (size_t)(h->samples * h->heads * h->queries);
}

static shoal_status sum(const shoal_op *op, shoal_k_attention_args a)
{
  a.h = heads_of(&op->desc);
  const size_t rows = tiles_of(a.of_keys ? a.h.keys : a.h.queries);
  return shoal_cuda_launch(shoal_cuda_of(op), (const void *)shoal_k_attention, "attention",
                           (size_t)(a.h.samples * a.h.heads) * rows * tiles_of(a.h.d), &a);
}

static shoal_status forward(shoal_op *op, const shoal_op_args *a)
{
  const shoal_k_heads h = heads_of(&op->desc);
  const float *q = a->x[0], *k = a->x[1], *v = a->x[2];
  float *norm = op->desc.training ? a->saved : a->scratch;
  SHOAL_TRY(SHOAL_BLOCKS(shoal_cuda_of(op), attention_norms, (size_t)(h.samples * h.heads) * tiles_of(h.queries),
                         .h = h, .q = q, .k = k, .norm = norm));
  SHOAL_TRY(sum(op, (shoal_k_attention_args){ .x = q, .x_other = k, .norm = norm, .z = v, .out = a->y }));
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

static shoal_status backward(shoal_op *op, const shoal_op_args *a)
{
  const shoal_k_heads h = heads_of(&op->desc);
  const float *q = a->x[0], *k = a->x[1], *v = a->x[2], *dy = a->dy, *norm = a->saved, *dot = a->scratch;
  const size_t n = heads_and_queries(&h);
  SHOAL_TRY(SHOAL_EACH(shoal_cuda_of(op), attention_dots, n, .n = n, .h = h, .dy = dy, .y = a->y, .dot = a->scratch));
  const shoal_k_attention_args
      dv = { .of_keys = true, .x = k, .x_other = q, .norm = norm, .z = dy, .out = a->dx[2] },
      dq = { .x = q, .x_other = k, .g = dy, .g_other = v, .norm = norm, .dot = dot, .z = k, .out = a->dx[0] },
      dk = {
        .of_keys = true, .x = k, .x_other = q, .g = v, .g_other = dy, .norm = norm, .dot = dot, .z = q, .out = a->dx[1]
      };
  SHOAL_TRY(sum(op, dv));
  SHOAL_TRY(sum(op, dq));
  SHOAL_TRY(sum(op, dk));
  shoal_backend_poll(op->backend);
  return SHOAL_OK;
}

shoal_status shoal_cuda_plan_attention(shoal_cuda *b, const shoal_op_desc *d, shoal_op **out)
{
  const shoal_k_heads h = heads_of(d);
  shoal_op *op;
  SHOAL_TRY(shoal_cuda_op_new(b, d, sizeof *op, &op));
  op->forward = forward;
  op->backward_data = backward;
  op->backward_reads_x = op->backward_reads_y = true;
  op->saved_bytes = op->scratch_bytes = heads_and_queries(&h) * sizeof(float);
  *out = op;
  return SHOAL_OK;
}
