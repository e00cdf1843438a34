/* Checkpoints: one whose checksums hold can be shown; any other is refused before HDF5 sees it.
 *
 * A mutated file is nearly always refused by its checksums, so each input is tried once more, sealed again as somebody
 * would who makes a file up: then it is HDF5's metadata that is wrong.  HDF5 may crash on it, in its child process only. */
#include "report/ckpt.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "fuzz/fuzz.h"

typedef struct {
  char magic[8];
  uint64_t hdf5_bytes, index_bytes;
  uint32_t hdf5_crc, index_crc, version, crc;
} seal_bytes; /* as in ckpt/seal.c */

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most);

/* Makes the checksums of the file right.  False if it is too short for an index of the length that its seal names. */
static bool seal_again(uint8_t *data, size_t n)
{
  seal_bytes s;
  if (n < sizeof s) return false;
  memcpy(&s, data + n - sizeof s, sizeof s);
  if (s.index_bytes > n - sizeof s) return false;
  s.hdf5_bytes = n - sizeof s - s.index_bytes;
  s.hdf5_crc = shoal_crc32c(0, data, s.hdf5_bytes);
  s.index_crc = shoal_crc32c(0, data + s.hdf5_bytes, s.index_bytes);
  s.crc = shoal_crc32c(0, &s, offsetof(seal_bytes, crc));
  memcpy(data + n - sizeof s, &s, sizeof s);
  return true;
}

/* Three times in four a few bytes before the seal change in place: what moves all offsets is soon found out. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed)
{
  enum { PIECE = 16 };
  uint8_t piece[PIECE];
  unsigned random = seed;
  if (rand_r(&random) % 4 == 0 || n < sizeof(seal_bytes) + PIECE) return LLVMFuzzerMutate(data, n, most);
  for (int i = 0; i <= rand_r(&random) % 4; i++) {
    uint8_t *at = data + (size_t)rand_r(&random) % (n - sizeof(seal_bytes) - PIECE);
    size_t length = 1 + (size_t)rand_r(&random) % PIECE;
    memcpy(piece, at, length);
    memcpy(at, piece, LLVMFuzzerMutate(piece, length, length));
  }
  return n;
}

static void read_it(const char *path)
{
  const char *model = fuzz_path("model.h5");
  bool different = true;
  shoal_ckpt *c;
  bool verified = shoal_ckpt_open(path, true, &c) == SHOAL_OK;
  if (verified) {
    shoal_ckpt_close(c);
    FUZZ_CHECK(shoal_ckpt_verify(path, fuzz_sink()) == SHOAL_OK);
    FUZZ_CHECK(shoal_ckpt_print(path, true, fuzz_sink()) == SHOAL_OK);
    FUZZ_CHECK(shoal_ckpt_diff(path, path, NULL, NULL, 0, true, fuzz_sink(), &different) != SHOAL_OK || !different);
    (void)shoal_ckpt_export(path, model);
    unlink(model);
  } else {
    FUZZ_CHECK(shoal_ckpt_verify(path, fuzz_sink()) != SHOAL_OK);
    (void)shoal_ckpt_print(path, false, fuzz_sink());
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  read_it(fuzz_file("step-000000001.h5", data, n));
  uint8_t *sealed = malloc(n);
  FUZZ_CHECK(n == 0 || sealed);
  if (n > 0) memcpy(sealed, data, n);
  if (seal_again(sealed, n)) read_it(fuzz_file("step-000000001.h5", sealed, n));
  free(sealed);
  return 0;
}
