/* Importers; the first byte of the input chooses CSV, IDX, CIFAR-10, text, NumPy's files and archives, a folder of images, or
 * CSV with the signs of its numbers given.  What is imported can be opened again, and a whole look at it finds nothing
 * wrong. */
#include "base/mem.h"
#include "data/dataset.h"
#include "fuzz/fuzz.h"
#include "report/data.h"
#include <sys/stat.h>

typedef enum { CSV, IDX, CIFAR, TEXT, NPY, NPZ, IMAGES, CSV_SIGNS, KINDS } kind;

/* A folder with two classes, each of which has the bytes as an image; the same one every time. */
static const char *image_folder(const uint8_t *data, size_t n)
{
  static const char *const names[] = { "set/a/1", "set/b/2" };
  mkdir(fuzz_path("set"), 0700);
  mkdir(fuzz_path("set/a"), 0700);
  mkdir(fuzz_path("set/b"), 0700);
  for (size_t i = 0; i < SHOAL_COUNT(names); i++) fuzz_file(names[i], data, n);
  return fuzz_path("set"); /* the last path: only a few are kept */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  static const char *const kinds[KINDS] = { "csv", "idx", "cifar10", "text", "npy", "npy", "images", "csv" };
  static const char *const names[KINDS] = {
    "rows.csv", "train-images-idx3-ubyte", "data_batch_1.bin", "lines.txt", "X.npy", "set.npz", "set", "rows.csv"
  };
  static const char *const second[KINDS] = { [IDX] = "train-labels-idx1-ubyte", [NPY] = "y.npy" };
  static const char *const signs[] = { NULL, ",", ".", " " };
  if (n < 2) return 0;
  kind k = data[0] % KINDS;
  shoal_import_args a = { .kind = kinds[k] };
  size_t from = 1, first = n;
  if (k == CSV_SIGNS) {
    a.decimal = signs[data[1] % 3];
    a.thousands = signs[data[1] / 4 % 4];
    from = 2;
  }
  if (second[k])
    first = 1 + (n - 1) * 3 / 4; /* IDX and NPY come as two files: the last quarter of the input are the labels */
  const char *sources[2] = { k == IMAGES ? image_folder(data + from, n - from)
                                         : fuzz_file(names[k], data + from, first - from) };
  if (second[k]) sources[1] = fuzz_file(second[k], data + first, n - first);
  const char *out = fuzz_path("out.h5");
  a.sources = sources;
  a.n_sources = second[k] ? 2 : 1;
  unlink(out);
  bool json = k != NPY && k != NPZ; /* which lists every class; their labels go up to 2^24 - 1 */
  if (shoal_data_import(&a, out) == SHOAL_OK)
    FUZZ_CHECK(shoal_data_inspect((const char *[]){ out }, 1, json, fuzz_sink()) == SHOAL_OK);
  return 0;
}
