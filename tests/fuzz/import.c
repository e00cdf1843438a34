/* Importers; the first byte of the input chooses CSV, IDX, CIFAR-10 or text.  What is imported can be opened again, and a
 * whole look at it finds nothing wrong. */
#include "base/mem.h"
#include "data/dataset.h"
#include "fuzz/fuzz.h"
#include "report/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  static const char *const kinds[] = { "csv", "idx", "cifar10", "text" };
  static const char *const names[] = { "rows.csv", "train-images-idx3-ubyte", "data_batch_1.bin", "lines.txt" };
  if (n < 1) return 0;
  int kind = data[0] & 3;
  /* IDX comes as two files: the second half of the input is the labels. */
  size_t first = kind == 1 ? 1 + (n - 1) * 3 / 4 : n;
  const char *sources[2] = { fuzz_file(names[kind], data + 1, first - 1) }, *out = fuzz_path("out.h5");
  if (kind == 1) sources[1] = fuzz_file("train-labels-idx1-ubyte", data + first, n - first);
  shoal_import_args a = { .kind = kinds[kind], .sources = sources, .n_sources = kind == 1 ? 2 : 1 };
  unlink(out);
  if (shoal_data_import(&a, out) == SHOAL_OK)
    FUZZ_CHECK(shoal_data_inspect((const char *[]){ out }, 1, true, fuzz_sink()) == SHOAL_OK);
  return 0;
}
