/* CRC-32C at memory bandwidth.
 *
 * A CRC is the remainder of a polynomial division over GF(2), so it is linear: the CRC of a message is the xor of the
 * CRCs of its parts, each padded with zeros to the end of the message.  The processor's crc32 instruction has a
 * throughput of one per cycle but a latency of three cycles, so a single chain of dependent instructions reaches only
 * a third of the peak rate.  Three adjacent stretches are therefore processed in an interleaved loop and combined:
 *
 *     |---- a ----|---- b ----|---- c ----|      crc = zeros(zeros(a) ^ b) ^ c
 *
 * where zeros() appends one stretch of zeros: a linear map on 32 bits, stored as four tables of 256 words.
 * Processors without the instruction use eight table look-ups per eight bytes (slicing-by-8).  Both ways give the same
 * result; the multi-byte loads assume a little-endian machine, as all of Shoal's file formats do. */
#include "base/crc32c.h"
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static const uint32_t polynomial = 0x82f63b78u; /* Castagnoli, bit-reversed */

/* Stretch lengths in bytes: long for peak speed, short so that data sets of a few kilobytes are fast, too. */
enum { LONG_STRETCH = 8192, SHORT_STRETCH = 256 };
typedef uint32_t zeros_map[4][256];

static uint32_t by_bytes[8][256]; /* [k][b]: byte b followed by k zero bytes */
static zeros_map long_zeros, short_zeros;
static bool has_instruction;
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static uint32_t load32(const unsigned char *p)
{
  uint32_t x;
  memcpy(&x, p, sizeof x);
  return x;
}

static uint32_t crc_tables(uint32_t crc, const unsigned char *p, size_t n)
{
  for (; n >= 8; n -= 8, p += 8) {
    uint32_t a = crc ^ load32(p), b = load32(p + 4);
    crc = by_bytes[7][a & 255] ^ by_bytes[6][a >> 8 & 255] ^ by_bytes[5][a >> 16 & 255] ^ by_bytes[4][a >> 24] ^
          by_bytes[3][b & 255] ^ by_bytes[2][b >> 8 & 255] ^ by_bytes[1][b >> 16 & 255] ^ by_bytes[0][b >> 24];
  }
  for (; n > 0; n--, p++) crc = crc >> 8 ^ by_bytes[0][(crc ^ *p) & 255];
  return crc;
}

static uint32_t append_zeros(zeros_map map, uint32_t crc)
{
  return map[0][crc & 255] ^ map[1][crc >> 8 & 255] ^ map[2][crc >> 16 & 255] ^ map[3][crc >> 24];
}

/* A linear map is determined by the images of the single bits; every table entry is the xor of some of them. */
static void make_zeros_map(zeros_map map, size_t n_zeros)
{
  uint32_t of_bit[32];
  for (int bit = 0; bit < 32; bit++) {
    uint32_t crc = UINT32_C(1) << bit;
    for (size_t i = 0; i < n_zeros; i++) crc = crc >> 8 ^ by_bytes[0][crc & 255];
    of_bit[bit] = crc;
  }
  for (int byte = 0; byte < 4; byte++)
    for (uint32_t value = 0; value < 256; value++) {
      map[byte][value] = 0;
      for (int bit = 0; bit < 8; bit++)
        if (value >> bit & 1) map[byte][value] ^= of_bit[8 * byte + bit];
    }
}

static void make_tables(void)
{
  for (uint32_t b = 0; b < 256; b++) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    by_bytes[0][b] = crc;
  }
  for (int k = 1; k < 8; k++)
    for (uint32_t b = 0; b < 256; b++) by_bytes[k][b] = by_bytes[k - 1][b] >> 8 ^ by_bytes[0][by_bytes[k - 1][b] & 255];
#if defined(__x86_64__)
  make_zeros_map(long_zeros, LONG_STRETCH);
  make_zeros_map(short_zeros, SHORT_STRETCH);
  __builtin_cpu_init();
  has_instruction = __builtin_cpu_supports("sse4.2");
#endif
}

#if defined(__x86_64__)
/* Compiled for SSE4.2 whatever the target of the build; called only if the processor supports it. */
__attribute__((target("sse4.2"))) static uint32_t crc_three(uint32_t crc, const unsigned char *p, size_t stretch,
                                                            zeros_map map)
{
  uint64_t a = crc, b = 0, c = 0, x, y, z;
  for (size_t i = 0; i < stretch; i += 8) {
    memcpy(&x, p + i, 8);
    memcpy(&y, p + stretch + i, 8);
    memcpy(&z, p + 2 * stretch + i, 8);
    a = __builtin_ia32_crc32di(a, x);
    b = __builtin_ia32_crc32di(b, y);
    c = __builtin_ia32_crc32di(c, z);
  }
  return append_zeros(map, append_zeros(map, (uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

__attribute__((target("sse4.2"))) static uint32_t crc_instruction(uint32_t crc, const unsigned char *p, size_t n)
{
  for (; n >= 3 * LONG_STRETCH; n -= 3 * LONG_STRETCH, p += 3 * LONG_STRETCH)
    crc = crc_three(crc, p, LONG_STRETCH, long_zeros);
  for (; n >= 3 * SHORT_STRETCH; n -= 3 * SHORT_STRETCH, p += 3 * SHORT_STRETCH)
    crc = crc_three(crc, p, SHORT_STRETCH, short_zeros);
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t x;
    memcpy(&x, p, 8);
    crc = (uint32_t)__builtin_ia32_crc32di(crc, x);
  }
  for (; n > 0; n--, p++) crc = __builtin_ia32_crc32qi(crc, *p);
  return crc;
}
#endif

uint32_t shoal_crc32c(uint32_t crc, const void *data, size_t n)
{
  pthread_once(&tables_once, make_tables);
#if defined(__x86_64__)
  if (has_instruction) return ~crc_instruction(~crc, data, n);
#endif
  return ~crc_tables(~crc, data, n);
}

/* ---- joining ---- */

/* Product of two polynomials modulo that of the checksum; the highest bit is that of x^0. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
  uint32_t product = 0;
  for (uint32_t bit = UINT32_C(1) << 31; bit; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b >> 1 ^ (b & 1 ? polynomial : 0);
  }
  return product;
}

/* Appending n zero bytes multiplies by x^(8 n). */
uint32_t shoal_crc32c_join(uint32_t first, uint32_t second, uint64_t n_second)
{
  uint32_t power = UINT32_C(1) << 23; /* x^8; then squared, for each bit of n */
  for (uint64_t n = n_second; n > 0; n >>= 1, power = multiply(power, power))
    if (n & 1) first = multiply(first, power);
  return first ^ second;
}
