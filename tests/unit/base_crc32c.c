/* CRC-32C: published values, the definition bit by bit as the oracle for every length, start and cut, and the table
 * way against the instruction.  Includes the source to reach both ways whatever the processor has. */
#include "base/crc32c.c"
#include "base/rng.h"
#include "check.h"

/* The definition: one bit at a time. */
static uint32_t crc_slow(uint32_t crc, const unsigned char *p, size_t n)
{
  crc = ~crc;
  for (size_t i = 0; i < n; i++) {
    crc ^= p[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

static void test_known(void)
{
  unsigned char block[32];
  CHECK_EQ(shoal_crc32c(0, "123456789", 9), 0xe3069283u);
  CHECK_EQ(shoal_crc32c(0, "", 0), 0);
  /* RFC 3720, appendix B.4 */
  memset(block, 0, sizeof block);
  CHECK_EQ(shoal_crc32c(0, block, 32), 0x8a9136aau);
  memset(block, 0xff, sizeof block);
  CHECK_EQ(shoal_crc32c(0, block, 32), 0x62a8ab43u);
  for (int i = 0; i < 32; i++) block[i] = (unsigned char)i;
  CHECK_EQ(shoal_crc32c(0, block, 32), 0x46dd794eu);
}

int main(void)
{
  enum { N = 3 * LONG_STRETCH * 2 + 3 * SHORT_STRETCH * 2 + 77 };
  static unsigned char data[N + 16];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)shoal_rng(1, SHOAL_RNG_TEST, i, 0).v[0];
  test_known();

  const size_t sizes[] = {
    1, 7, 8, 9, 767, 768, 769, 775, 776, 1543, 4096, 24575, 24576, 24577, 3 * LONG_STRETCH + 3 * SHORT_STRETCH + 5, N
  };
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
    for (size_t start = 0; start < 9; start++) {
      size_t n = sizes[k];
      uint32_t want = crc_slow(0x1234u, data + start, n);
      CHECK_EQ(shoal_crc32c(0x1234u, data + start, n), want, "n %zu start %zu", n, start);
      CHECK_EQ(~crc_tables(~0x1234u, data + start, n), want, "tables, n %zu start %zu", n, start);
    }
  uint32_t whole = shoal_crc32c(0, data, N);
  for (size_t cut = 0; cut <= N; cut += 997) {
    uint32_t first = shoal_crc32c(0, data, cut);
    CHECK_EQ(shoal_crc32c(first, data + cut, N - cut), whole, "cut at %zu", cut);
    CHECK_EQ(shoal_crc32c_join(first, shoal_crc32c(0, data + cut, N - cut), N - cut), whole, "joined at %zu", cut);
  }
  return check_done();
}
