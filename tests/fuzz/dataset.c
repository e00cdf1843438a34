/* HDF5 data sets, ours and foreign ones: opened, looked through, samples read. */
#include "data/dataset.h"
#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "fuzz/hdf5.h"
#include "report/data.h"

enum { LARGEST_SAMPLE = 1 << 16, MOST_SAMPLES = 1 << 12 };

static void read_some(shoal_dataset *d)
{
  static char x[LARGEST_SAMPLE];
  const shoal_data_info *i = shoal_dataset_info(d);
  uint64_t bytes = (uint64_t)i->x_bytes;
  for (int k = 0; k < i->sample.ndim; k++) bytes *= (uint64_t)i->sample.dim[k];
  if (bytes > sizeof x || i->n[SHOAL_TRAIN] > MOST_SAMPLES) return;
  for (uint64_t id = 0; id < SHOAL_MIN(i->n[SHOAL_TRAIN], 4); id++) {
    int32_t y;
    if (shoal_dataset_read(d, SHOAL_TRAIN, id, x, &y) == SHOAL_OK && i->kind != SHOAL_DATA_TEXT)
      FUZZ_CHECK(y >= 0 && y < i->classes);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  const char *path = fuzz_file("data.h5", data, n);
  shoal_dataset *d;
  if (!fuzz_hdf5_survives(path)) return 0;
  if (shoal_dataset_open(path, &d) != SHOAL_OK) return 0;
  bool small = shoal_dataset_info(d)->n[SHOAL_TRAIN] <= MOST_SAMPLES;
  read_some(d);
  shoal_dataset_close(d);
  if (small) (void)shoal_data_inspect((const char *[]){ path }, 1, true, fuzz_sink());
  return 0;
}
