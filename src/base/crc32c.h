/* CRC-32C (Castagnoli), the check sum of every data set we write and of identity checks between ranks.
 * Uses the processor's instruction where there is one (about 20 GB/s with three interleaved streams). */
#ifndef SHOAL_BASE_CRC32C_H
#define SHOAL_BASE_CRC32C_H
#include <stddef.h>
#include <stdint.h>
/** Continue `crc` (0 to begin) over n bytes; crc32c("123456789") == 0xe3069283. */
uint32_t shoal_crc32c(uint32_t crc, const void *data, size_t n);
#endif
