/* Attention, head by head and query by query (Vaswani et al., Attention Is All You Need, 2017):
 *
 *   p_ij = softmax over j of (q_i . k_j / sqrt(d))        y_i = sum_j p_ij v_j         j <= i where it is causal
 *
 *   dv_j = sum_i p_ij dy_i      ds_ij = p_ij (dy_i . v_j - sum_j p_ij dy_i . v_j) / sqrt(d)
 *   dq_i = sum_j ds_ij k_j      dk_j = sum_i ds_ij q_i
 *
 * Scratch: the probabilities of one query and their gradients, and dk and dv of one head, in double. */
#include "tensor/ref/ref_impl.h"
#include <math.h>
#include <string.h>

/* One head of one sample: rows of d numbers, `width` apart. */
typedef struct {
  int64_t queries, keys, width, d;
  bool causal;
  size_t q, k; /* offset of its first query, and of its first key and value */
} head;

static head head_of(const shoal_op_desc *d, int64_t n, int64_t h)
{
  const int64_t t = d->in[0].dim[1], s = d->in[1].dim[1], w = d->in[0].dim[2], each = w / d->heads;
  return (head){ t, s, w, each, d->causal, (size_t)(n * t * w + h * each), (size_t)(n * s * w + h * each) };
}

static double dot(const float *a, const float *b, int64_t n)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)a[i] * b[i];
  return sum;
}

/* p [keys seen] of query i; returns how many it sees. */
static int64_t look(const head *h, const shoal_op_args *a, int64_t i, double *p)
{
  const int64_t n = h->causal ? i + 1 : h->keys;
  const float *q = a->x[0] + h->q + i * h->width;
  double most = -INFINITY, sum = 0;
  for (int64_t j = 0; j < n; j++) {
    p[j] = dot(q, a->x[1] + h->k + j * h->width, h->d) / sqrt((double)h->d);
    most = fmax(most, p[j]);
  }
  for (int64_t j = 0; j < n; j++) sum += p[j] = exp(p[j] - most);
  for (int64_t j = 0; j < n; j++) p[j] /= sum;
  return n;
}

static shoal_status attention_forward(shoal_op *op, const shoal_op_args *a)
{
  const shoal_op_desc *d = &op->desc;
  double *p = a->scratch;
  for (int64_t k = 0; k < d->in[0].dim[0] * d->heads; k++) {
    const head h = head_of(d, k / d->heads, k % d->heads);
    for (int64_t i = 0; i < h.queries; i++) {
      const int64_t n = look(&h, a, i, p);
      for (int64_t c = 0; c < h.d; c++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++) sum += p[j] * a->x[2][h.k + (size_t)(j * h.width + c)];
        a->y[h.q + (size_t)(i * h.width + c)] = (float)sum;
      }
    }
  }
  return SHOAL_OK;
}

static void head_backward(const head *h, const shoal_op_args *a, double *p)
{
  double *ds = p + h->keys, *dk = ds + h->keys, *dv = dk + h->keys * h->d;
  memset(dk, 0, (size_t)(2 * h->keys * h->d) * sizeof *dk);
  for (int64_t i = 0; i < h->queries; i++) {
    const int64_t n = look(h, a, i, p);
    const float *dy = a->dy + h->q + i * h->width, *q = a->x[0] + h->q + i * h->width;
    double mean = 0;
    for (int64_t j = 0; j < n; j++) mean += p[j] * (ds[j] = dot(dy, a->x[2] + h->k + j * h->width, h->d));
    for (int64_t j = 0; j < n; j++) ds[j] = p[j] * (ds[j] - mean) / sqrt((double)h->d);
    for (int64_t c = 0; c < h->d; c++) {
      double dq = 0;
      for (int64_t j = 0; j < n; j++) {
        dq += ds[j] * a->x[1][h->k + (size_t)(j * h->width + c)];
        dk[j * h->d + c] += ds[j] * q[c];
        dv[j * h->d + c] += p[j] * dy[c];
      }
      a->dx[0][h->q + (size_t)(i * h->width + c)] = (float)dq;
    }
  }
  for (int64_t j = 0; j < h->keys; j++)
    for (int64_t c = 0; c < h->d; c++) {
      const size_t at = h->k + (size_t)(j * h->width + c);
      a->dx[1][at] = (float)dk[j * h->d + c];
      a->dx[2][at] = (float)dv[j * h->d + c];
    }
}

static shoal_status attention_backward(shoal_op *op, const shoal_op_args *a)
{
  const shoal_op_desc *d = &op->desc;
  for (int64_t k = 0; k < d->in[0].dim[0] * d->heads; k++) {
    const head h = head_of(d, k / d->heads, k % d->heads);
    head_backward(&h, a, a->scratch);
  }
  return SHOAL_OK;
}

void shoal_ref_plan_attention(shoal_op *op)
{
  const head h = head_of(&op->desc, 0, 0);
  op->forward = attention_forward;
  op->backward_data = attention_backward;
  op->backward_reads_x = true;
  op->scratch_bytes = (size_t)(2 * h.keys + 2 * h.keys * h.d) * sizeof(double);
}
