/* The modular quantiser, a block of threads for each block of SHOAL_CUDA_QBLOCK elements: see tensor/quant.h for the scheme and
 * tensor/quant.c for why each step is exact.  The bits of a parcel are those that the host's functions write. */
#include "tensor/cuda/block.cuh"

enum { MOST_BITS = 21, FINEST = -100, COARSEST = 100, FULL = 127, PURPOSE_ROUND = 7 }; /* of quant.c, quant.h, rng.h */
static const float push_f = 0x1.8p23f;

/* The block of this block of threads. */
struct span {
  size_t at, n; /* first element, elements */
};

static __device__ __forceinline__ span span_of(size_t n)
{
  size_t at = blockIdx.x * (size_t)SHOAL_CUDA_QBLOCK;
  return { at, n - at < SHOAL_CUDA_QBLOCK ? n - at : (size_t)SHOAL_CUDA_QBLOCK };
}

static __device__ __forceinline__ float power_of_two(int e) /* -126 ... 127 */
{
  return __uint_as_float((unsigned)(e + 127) << 23);
}

static __device__ __forceinline__ int32_t whole(float pushed)
{
  return __float_as_int(pushed) - 0x4b400000; /* of push_f */
}

static __device__ __forceinline__ unsigned largest_bits(size_t n, const float *x)
{
  unsigned largest = 0;
  OF_BLOCK(i, n)
  {
    unsigned bits = __float_as_uint(x[i]) & 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  return block_max(largest);
}

/* floor(x / s + U) or round(x / s); `index` counts in the whole parcel. */
static __device__ __forceinline__ int32_t grid_number(int stochastic, uint64_t seed, uint32_t turn, size_t index,
                                                      float inverse, float x)
{
  if (!stochastic) return whole(x * inverse + push_f);
  uint32_t r = philox(seed, PURPOSE_ROUND, index / 4, turn, (int)(index % 4));
  double v = (double)x * (double)inverse + ((double)r + 0.5) * 0x1p-32, near = (v + 0x1.8p52) - 0x1.8p52;
  return (int32_t)near - (near > v);
}

static __device__ __forceinline__ unsigned long long seal(size_t n, unsigned long long products, const int32_t *factor,
                                                          int e)
{
  unsigned long long h = n + (unsigned long long)((long long)e * factor[SHOAL_CUDA_QBLOCK]) + products;
  return (h & (~0ull >> 8)) | (unsigned long long)(uint8_t)e << 56;
}

/* Byte j of the packed codes: see quant_pack.c. */
static __device__ __forceinline__ uint8_t packed_byte(int bits, size_t n, const uint16_t *codes, size_t j)
{
  if (bits == 4) return (uint8_t)((codes[2 * j] & 15) | (2 * j + 1 < n ? codes[2 * j + 1] << 4 : 0));
  if (j < n) return (uint8_t)codes[j];
  j -= n;
  if (bits == 16) return (uint8_t)(codes[j] >> 8);
  uint32_t group = 0; /* four codes to three bytes */
  for (size_t k = 0; k < 4 && j / 3 * 4 + k < n; k++) group |= (uint32_t)(codes[j / 3 * 4 + k] >> 8 & 0x3f) << 6 * k;
  return (uint8_t)(group >> 8 * (j % 3));
}

static __device__ __forceinline__ uint16_t code_at(int bits, size_t n, const uint8_t *in, size_t i)
{
  if (bits == 4) return (uint16_t)(in[i / 2] >> 4 * (i % 2) & 15);
  uint16_t low = in[i];
  if (bits == 8) return low;
  if (bits == 16) return (uint16_t)(low | in[n + i] << 8);
  size_t bit = 6 * (i % 4), byte = n + i / 4 * 3 + bit / 8;
  unsigned two = in[byte];
  if (bit % 8 > 2) two |= (unsigned)in[byte + 1] << 8;
  return (uint16_t)(low | (two >> bit % 8 & 0x3f) << 8);
}

SHOAL_KERNEL(encode)
{
  __shared__ uint16_t codes[SHOAL_CUDA_QBLOCK];
  const span s = span_of(a.n);
  const float *x = a.x + s.at;
  uint8_t *out = a.out + blockIdx.x * (a.packed + 8);
  const size_t packed = s.n == SHOAL_CUDA_QBLOCK ? a.packed : a.last_packed;
  const int beyond = (int)(largest_bits(s.n, x) >> 23) - 126; /* |x| < 2^beyond; 129 for infinity and NaN */
  int least = beyond - MOST_BITS < FINEST ? FINEST : beyond - MOST_BITS, wanted = a.exponent[blockIdx.x];
  int e = wanted > least ? wanted : least;
  if (e > COARSEST) e = FULL;
  const float inverse = e == FULL ? 0 : power_of_two(-e);
  unsigned long long products = 0;
  OF_BLOCK(i, s.n)
  {
    int32_t k = e == FULL ? 0 : grid_number(a.stochastic, a.seed, a.turn, s.at + i, inverse, x[i]);
    codes[i] = (uint16_t)((uint32_t)k & ((1u << a.bits) - 1));
    products += (unsigned long long)((long long)k * a.factor[i]);
  }
  products = block_sum_u64(products); /* and all codes are there */
  const unsigned long long trailer = e == FULL ? (unsigned long long)FULL << 56 : seal(s.n, products, a.factor, e);
  OF_BLOCK(j, packed) out[j] = packed_byte(a.bits, s.n, codes, j);
  if (threadIdx.x < 8) out[packed + threadIdx.x] = (uint8_t)(trailer >> 8 * threadIdx.x);
  if (threadIdx.x == 0) a.exponent[blockIdx.x] = (int8_t)e;
}

SHOAL_KERNEL(decode)
{
  const span s = span_of(a.n);
  const uint8_t *in = a.parcel + blockIdx.x * (a.packed + 8);
  const float *key = a.key + s.at;
  float *z = a.z + s.at;
  const size_t packed = s.n == SHOAL_CUDA_QBLOCK ? a.packed : a.last_packed;
  unsigned long long sent = 0;
  for (int i = 0; i < 8; i++) sent |= (unsigned long long)in[packed + i] << 8 * i;
  const int e = (int)(sent >> 56 ^ 0x80) - 0x80;
  bool sound = e >= FINEST && e <= COARSEST;
  const float inverse = sound ? power_of_two(-e) : 0, spacing = sound ? power_of_two(e) : 0;
  const float farthest = __uint_as_float(largest_bits(s.n, key));
  if (!sound || !(farthest * inverse < 0x1p22f - 1)) {
    OF_BLOCK(i, s.n) z[i] = key[i];
    if (threadIdx.x == 0) a.failed[blockIdx.x] = 1;
    return;
  }
  const int32_t q = 1 << a.bits;
  unsigned long long products = 0;
  OF_BLOCK(i, s.n)
  {
    float t = key[i] * inverse, pushed = t + push_f;
    int32_t ky = whole(pushed), w = (code_at(a.bits, s.n, in, i) - ky) & (q - 1);
    float rest = t - (pushed - push_f);
    int32_t k = ky + w - ((float)w - rest > (float)q * 0.5f ? q : 0);
    products += (unsigned long long)((long long)k * a.factor[i]);
    z[i] = spacing * (float)k;
  }
  products = block_sum_u64(products);
  if (threadIdx.x == 0) a.failed[blockIdx.x] = seal(s.n, products, a.factor, e) != sent;
}

SHOAL_KERNEL(marks)
{
  EACH(byte, (a.n + 7) / 8)
  {
    unsigned bits = 0;
    for (size_t k = 0; k < 8 && 8 * byte + k < a.n; k++) bits |= (unsigned)a.failed[8 * byte + k] << k;
    a.bad[byte] = (uint8_t)bits;
  }
}

SHOAL_KERNEL(meet)
{
  const span s = span_of(a.n);
  float *c = a.c + s.at;
  const float *theirs = a.theirs + s.at;
  int e = FULL;
  if (a.average && a.quantised && !(a.bad[blockIdx.x / 8] >> blockIdx.x % 8 & 1)) e = a.exponent[blockIdx.x];
  const float spacing = e == FULL ? 1 : power_of_two(e), inverse = e == FULL ? 1 : power_of_two(-e);
  float largest = 0;
  OF_BLOCK(i, s.n)
  {
    float v = c[i], other = theirs[i], d = fabsf(other - v);
    largest = d > largest ? d : largest;
    if (!a.average) continue;
    if (e != FULL && a.stochastic)
      v = spacing * (float)grid_number(1, a.seed, a.turn, s.at + i, inverse, v);
    else if (e != FULL)
      v = spacing * (v * inverse + push_f - push_f);
    c[i] = 0.5f * (v + other);
  }
  unsigned most = block_max(__float_as_uint(largest));
  if (threadIdx.x == 0) a.distance[blockIdx.x] = __uint_as_float(most);
}

SHOAL_KERNEL(fold)
{
  const span s = span_of(a.n);
  float largest = 0;
  OF_BLOCK(i, s.n)
  {
    size_t j = s.at + i;
    float u = a.base[j] - a.x[j];
    largest = fabsf(u) > largest ? fabsf(u) : largest;
    a.x[j] = a.base[j] = a.c[j] = a.c[j] - u;
  }
  unsigned most = block_max(__float_as_uint(largest));
  if (threadIdx.x == 0) a.largest[blockIdx.x] = __uint_as_float(most);
}
