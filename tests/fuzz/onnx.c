/* Networks of ONNX: what is imported has a description that reads back to the same one, and weights that can be read.  The files
 * that seeds name beside themselves are there. */
#include "base/mem.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "nn/import.h"
#include "nn/text.h"
#include <dirent.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

static void lay_beside(const char *folder, const char *name)
{
  static uint8_t bytes[1 << 16];
  char *from = shoal_strdup_printf("%s/%s", SHOAL_GOLDEN_ONNX, name), *to = shoal_strdup_printf("%s/%s", folder, name);
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  FUZZ_CHECK(in && out);
  size_t n = fread(bytes, 1, sizeof bytes, in);
  FUZZ_CHECK(fwrite(bytes, 1, n, out) == n);
  fclose(in);
  fclose(out);
  free(from);
  free(to);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
  const char *folder = getenv("TMPDIR");
  DIR *golden = folder ? opendir(SHOAL_GOLDEN_ONNX) : NULL;
  for (const struct dirent *e; golden && (e = readdir(golden));)
    if (strstr(e->d_name, ".onnx.data")) lay_beside(folder, e->d_name);
  if (golden) closedir(golden);
  return 0;
}

static void check_import(shoal_import *im)
{
  const shoal_model *m = shoal_import_model(im);
  shoal_foreign f = { .model = m, .tensor = shoal_import_tensor, .ctx = im, .kind = "features" };
  shoal_str text = { 0 }, again = { 0 };
  shoal_model *back;
  const char *tensors = fuzz_path("net.safetensors");
  shoal_model_add_text(m, &text);
  FUZZ_CHECK(shoal_model_from_text(text.text, text.len, "net.yaml", NULL, 0, &back) == SHOAL_OK);
  FUZZ_CHECK(back->nodes == m->nodes && back->weights == m->weights);
  shoal_model_add_text(back, &again);
  FUZZ_CHECK(strcmp(text.text, again.text) == 0);
  shoal_model_destroy(back);
  shoal_str_free(&text);
  shoal_str_free(&again);
  shoal_import_scale(im, &f);
  unlink(tensors);
  (void)shoal_foreign_safetensors(&f, tensors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  shoal_import *im;
  if (shoal_import_open(fuzz_file("net.onnx", data, n), &im) != SHOAL_OK) return 0;
  check_import(im);
  shoal_import_close(im);
  return 0;
}
