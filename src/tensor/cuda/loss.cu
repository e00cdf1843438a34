/* Softmax and cross-entropy, a block per row; errors of targets, a thread per row.  In double; then the rows' losses in order, in one
 * block. */
#include "tensor/cuda/block.cuh"

/* A float as an unsigned number of the same order; NaN counts as the least. */
static __device__ __forceinline__ unsigned ordered(float x)
{
  unsigned u = __float_as_uint(x);
  return x != x ? 0 : u >> 31 ? ~u : u | 0x80000000u;
}

static __device__ __forceinline__ float unordered(unsigned u)
{
  return __uint_as_float(u >> 31 ? u & 0x7fffffffu : ~u);
}

SHOAL_KERNEL(softmax)
{
  const int64_t row = blockIdx.x, n = a.classes;
  const float *x = a.logits + row * n;
  float *dx = a.dlogits ? a.dlogits + row * n : 0;
  const int32_t label = a.labels[row];
  unsigned most = 0, least_inverted = 0, bad = 0, first_inverted = 0;
  OF_BLOCK(j, n)
  {
    unsigned o = ordered(x[j]);
    bad |= !is_finite(x[j]);
    most = o > most ? o : most;
    least_inverted = ~o > least_inverted ? ~o : least_inverted;
  }
  most = block_max(most);
  float largest = unordered(most), least = unordered(~block_max(least_inverted));
  bad = block_max(bad);
  OF_BLOCK(j, n)
  {
    unsigned from_end = (unsigned)(n - (int64_t)j);
    if (ordered(x[j]) == most && from_end > first_inverted) first_inverted = from_end;
  }
  const int64_t best = n - (int64_t)block_max(first_inverted);
  const bool left_out = a.leave_out && label >= 0 && (bad || !is_finite(largest - least));
  if (label < 0 || left_out) {
    if (dx) OF_BLOCK(j, n) dx[j] = 0;
    if (threadIdx.x == 0) a.row[row] = { 0, 0, left_out ? SHOAL_ROW_LEFT_OUT : SHOAL_ROW_IGNORED };
    return;
  }
  const double weight = a.weights ? (double)a.weights[label] : 1, scale = weight * (double)*a.scale;
  double sum = 0, loss = 0, rest = a.smoothing / (double)n;
  OF_BLOCK(j, n) sum += exp((double)x[j] - (double)largest);
  sum = block_sum(sum);
  OF_BLOCK(j, n)
  {
    double z = (double)x[j] - (double)largest, target = (int64_t)j == label ? 1 - a.smoothing + rest : rest;
    if (target != 0) loss += target * (log(sum) - z);
    if (dx) dx[j] = (float)(scale * (exp(z) / sum - target));
  }
  loss = block_sum(loss);
  if (threadIdx.x == 0) a.row[row] = { weight * loss, best == label, SHOAL_ROW_COUNTS };
}

SHOAL_KERNEL(target_loss)
{
  const int64_t n = a.width;
  EACH(row, a.rows)
  {
    const float *y = a.y + row * n, *target = a.targets + row * n;
    float *dy = a.dy ? a.dy + row * n : 0;
    const bool known = target[0] == target[0];
    bool finite = true;
    for (int64_t j = 0; j < n; j++) finite = finite && is_finite(y[j]);
    const bool counts = known && (finite || !a.leave_out);
    double loss = 0;
    for (int64_t j = 0; j < n; j++) {
      const double e = (double)y[j] - (double)target[j];
      loss += a.absolute ? fabs(e) : e * e;
      const double slope = a.absolute ? (e > 0 ? 1 : e < 0 ? -1 : e) : 2 * e;
      if (dy) dy[j] = counts ? (float)((double)*a.scale / (double)n * slope) : 0;
    }
    a.row[row] = { counts ? loss / (double)n : 0, 0,
                   counts  ? SHOAL_ROW_COUNTS
                   : known ? SHOAL_ROW_LEFT_OUT
                           : SHOAL_ROW_IGNORED };
  }
}

SHOAL_KERNEL(sum_rows)
{
  __shared__ shoal_k_row seen[SHOAL_CUDA_THREADS];
  shoal_k_loss sum = { 0, 0, 0, 0, 0 };
  for (int64_t from = 0; from < a.rows; from += SHOAL_CUDA_THREADS) {
    if (from + threadIdx.x < a.rows) seen[threadIdx.x] = a.row[from + threadIdx.x];
    __syncthreads();
    for (int64_t r = from; threadIdx.x == 0 && r < a.rows && r < from + SHOAL_CUDA_THREADS; r++) {
      const shoal_k_row s = seen[r - from];
      if (s.kind == SHOAL_ROW_LEFT_OUT && sum.left_out++ == 0) sum.first_left_out = r;
      if (s.kind != SHOAL_ROW_COUNTS) continue;
      sum.samples++;
      sum.correct += s.correct;
      sum.loss += s.loss;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *a.out = sum;
}
