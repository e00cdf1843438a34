/* CRC-32C (Castagnoli), the checksum of every data set Shoal writes and of the checks that ranks hold equal data.
 * Uses the processor's crc32 instruction if available (about 20 GB/s with three interleaved streams). */
#ifndef SHOAL_BASE_CRC32C_H
#define SHOAL_BASE_CRC32C_H
#include <stddef.h>
#include <stdint.h>
/** Update `crc` (0 for the first call) with n bytes.  Check value: crc32c("123456789") == 0xe3069283. */
uint32_t shoal_crc32c(uint32_t crc, const void *data, size_t n);
/** The checksum of two stretches after one another, from those of each, of which the second has `n_second` bytes.  Under a
 *  microsecond. */
uint32_t shoal_crc32c_join(uint32_t first, uint32_t second, uint64_t n_second);
#endif
