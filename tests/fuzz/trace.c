/* Traces of both formats, also of killed ranks: what can be read is shown and exported as JSON that reads back. */
#include "report/trace.h"
#include "base/json.h"
#include "fuzz/fuzz.h"
#include "fuzz/hdf5.h"

/* Counters of a damaged file may exceed what jansson takes for an integer, hence reals. */
static void is_json(const char *text)
{
  json_error_t e;
  json_t *tree = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &e);
  if (!tree) fprintf(stderr, "%d:%d: %s\n", e.line, e.column, e.text);
  FUZZ_CHECK(tree);
  json_decref(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  const char *path = fuzz_file("trace.h5", data, n);
  if (!fuzz_hdf5_survives(path)) return 0;
  for (int i = 0; i < 2; i++) {
    char *text;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    FUZZ_CHECK(f);
    shoal_status st = i ? shoal_trace_show(&path, 1, SHOAL_TRACE_ALL, SHOAL_TRACE_JSON, f)
                        : shoal_trace_export(&path, 1, SHOAL_TRACE_ALL, &(shoal_trace_choice){ .tell = NULL }, f);
    fclose(f);
    if (st == SHOAL_OK) is_json(text);
    free(text);
  }
  (void)shoal_trace_show(&path, 1, SHOAL_TRACE_LAST, SHOAL_TRACE_TEXT, fuzz_sink());
  return 0;
}
