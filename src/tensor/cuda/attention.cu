/* Attention (tensor/ref/attention.c has the formulas) in tiles of TILE queries and TILE keys, so that memory grows with the context
 * and not with its square.  All that is written is a sum over tiles of weights times rows, with the weights made again from the
 * norms of the queries, which are m + log of the sum of e^(s - m):
 *
 *   p_ij = e^(q_i . k_j / sqrt(d) - norm_i)        ds_ij = p_ij (dy_i . v_j - dot_i) / sqrt(d),   dot_i = dy_i . y_i
 *   y = p v,  dv = p' dy,  dq = ds k,  dk = ds' q
 *
 * A block has one tile of rows of what it writes and TILE of their numbers, and goes through the tiles on the other side in order:
 * the same bits every time.  A thread has 4 x 4 of the 64 x 64 elements, 16 apart. */
#include "tensor/cuda/block.cuh"

enum { TILE = SHOAL_CUDA_TILE, STEP = 16, LINES = 16, MINE = TILE / LINES };
typedef float lines[STEP][TILE + 1];

#define OF_MINE(i, j) _Pragma("unroll") for (int i = 0; i < MINE; i++) _Pragma("unroll") for (int j = 0; j < MINE; j++)
#define ROW           (threadIdx.x / LINES)
#define COL           (threadIdx.x % LINES)

/* The next STEP numbers of TILE rows; zeros where there are none. */
static __device__ __forceinline__ void stage(lines to, const float *x, int64_t rows, int64_t numbers, int64_t width)
{
  for (int e = (int)threadIdx.x; e < TILE * STEP; e += SHOAL_CUDA_THREADS) {
    const int r = e / STEP, k = e % STEP;
    to[k][r] = r < rows && k < numbers ? x[r * width + k] : 0.0f;
  }
}

/* sum[i][j] = a_i . b_j, for rows of d numbers. */
static __device__ __forceinline__ void products(const float *a, int64_t a_rows, const float *b, int64_t b_rows,
                                                int64_t d, int64_t width, float sum[MINE][MINE])
{
  __shared__ lines of_a, of_b;
  OF_MINE(i, j) sum[i][j] = 0;
  for (int64_t at = 0; at < d; at += STEP) {
    stage(of_a, a + at, a_rows, d - at, width);
    stage(of_b, b + at, b_rows, d - at, width);
    __syncthreads();
    for (int k = 0; k < STEP; k++) OF_MINE(i, j) sum[i][j] += of_a[k][ROW + LINES * i] * of_b[k][COL + LINES * j];
    __syncthreads();
  }
}

static __device__ __forceinline__ bool sees(const shoal_k_heads &h, int64_t query, int64_t key)
{
  return query < h.queries && key < h.keys && (!h.causal || key <= query);
}

/* Where a head's first row begins. */
static __device__ __forceinline__ int64_t head_at(const shoal_k_heads &h, int64_t head, int64_t rows)
{
  return head / h.heads * rows * h.heads * h.d + head % h.heads * h.d;
}

/* Four threads for each query, which are neighbours in a warp. */
SHOAL_KERNEL(attention_norms)
{
  __shared__ float score[TILE][TILE + 1];
  const shoal_k_heads &h = a.h;
  const int64_t tiles = (h.queries + TILE - 1) / TILE, head = blockIdx.x / tiles, first = blockIdx.x % tiles * TILE,
                width = h.heads * h.d, end = h.causal && first + TILE < h.keys ? first + TILE : h.keys;
  const float *q = a.q + head_at(h, head, h.queries) + first * width, *keys = a.k + head_at(h, head, h.keys);
  const int mine = (int)threadIdx.x / 4, lane = (int)threadIdx.x % 4;
  const float by = 1 / sqrtf((float)h.d);
  float most = -INFINITY, sum = 0, s[MINE][MINE];
  for (int64_t j0 = 0; j0 < end; j0 += TILE) {
    products(q, h.queries - first, keys + j0 * width, h.keys - j0, h.d, width, s);
    OF_MINE(i, j) score[ROW + LINES * i][COL + LINES * j] = s[i][j] * by;
    __syncthreads();
    const float before = most;
    for (int j = lane; j < TILE; j += 4)
      if (sees(h, first + mine, j0 + j)) most = fmaxf(most, score[mine][j]);
    for (int other = 1; other < 4; other *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, other));
    sum *= before == most ? 1 : expf(before - most);
    for (int j = lane; j < TILE; j += 4)
      if (sees(h, first + mine, j0 + j)) sum += expf(score[mine][j] - most);
    __syncthreads();
  }
  for (int other = 1; other < 4; other *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
  if (lane == 0 && first + mine < h.queries) a.norm[head * h.queries + first + mine] = most + logf(sum);
}

SHOAL_KERNEL(attention_dots)
{
  EACH(i, a.n)
  {
    const int64_t head = (int64_t)i / a.h.queries, query = (int64_t)i % a.h.queries;
    const int64_t at = head_at(a.h, head, a.h.queries) + query * a.h.heads * a.h.d;
    float sum = 0;
    for (int64_t c = 0; c < a.h.d; c++) sum += a.dy[at + c] * a.y[at + c];
    a.dot[i] = sum;
  }
}

SHOAL_KERNEL(attention)
{
  __shared__ float weight[TILE][TILE + 1];
  __shared__ lines of_z;
  const shoal_k_heads &h = a.h;
  const int64_t rows = a.of_keys ? h.keys : h.queries, others = a.of_keys ? h.queries : h.keys;
  const int64_t tiles = (rows + TILE - 1) / TILE, columns = (h.d + TILE - 1) / TILE, width = h.heads * h.d;
  const int64_t head = blockIdx.x / (tiles * columns), first = blockIdx.x / columns % tiles * TILE,
                column = blockIdx.x % columns * TILE;
  const int64_t mine = head_at(h, head, rows) + first * width, other = head_at(h, head, others);
  const int64_t begin = h.causal && a.of_keys ? first : 0,
                end = h.causal && !a.of_keys && first + TILE < others ? first + TILE : others;
  const float by = 1 / sqrtf((float)h.d), *norm = a.norm + head * h.queries;
  float s[MINE][MINE], slope[MINE][MINE], sum[MINE][MINE] = {};
  for (int64_t at = begin; at < end; at += TILE) {
    products(a.x + mine, rows - first, a.x_other + other + at * width, others - at, h.d, width, s);
    if (a.dot) products(a.g + mine, rows - first, a.g_other + other + at * width, others - at, h.d, width, slope);
    OF_MINE(i, j)
    {
      const int64_t r = first + ROW + LINES * i, o = at + COL + LINES * j;
      const int64_t query = a.of_keys ? o : r, key = a.of_keys ? r : o;
      float p = 0;
      if (sees(h, query, key)) {
        p = expf(s[i][j] * by - norm[query]);
        if (a.dot) p *= (slope[i][j] - a.dot[head * h.queries + query]) * by;
      }
      weight[ROW + LINES * i][COL + LINES * j] = p;
    }
    for (int64_t k0 = 0; k0 < TILE && at + k0 < others; k0 += STEP) {
      for (int e = (int)threadIdx.x; e < TILE * STEP; e += SHOAL_CUDA_THREADS) {
        const int64_t r = at + k0 + e / TILE, c = column + e % TILE;
        of_z[e / TILE][e % TILE] = r < others && c < h.d ? a.z[other + r * width + c] : 0.0f;
      }
      __syncthreads();
      for (int k = 0; k < STEP; k++)
        OF_MINE(i, j) sum[i][j] += weight[ROW + LINES * i][k0 + k] * of_z[k][COL + LINES * j];
      __syncthreads();
    }
  }
  OF_MINE(i, j)
  {
    const int64_t r = ROW + LINES * i, c = column + COL + LINES * j;
    if (first + r < rows && c < h.d) a.out[mine + r * width + c] = sum[i][j];
  }
}
