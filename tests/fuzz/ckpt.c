/* Checkpoints: one whose checksums hold can be shown; any other is refused before HDF5 sees it. */
#include "report/ckpt.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  const char *path = fuzz_file("step-000000001.h5", data, n);
  shoal_ckpt *c;
  bool verified = shoal_ckpt_open(path, true, &c) == SHOAL_OK;
  if (verified) {
    shoal_ckpt_close(c);
    FUZZ_CHECK(shoal_ckpt_verify(path, fuzz_sink()) == SHOAL_OK);
    FUZZ_CHECK(shoal_ckpt_print(path, true, fuzz_sink()) == SHOAL_OK);
  } else {
    FUZZ_CHECK(shoal_ckpt_verify(path, fuzz_sink()) != SHOAL_OK);
  }
  return 0;
}
