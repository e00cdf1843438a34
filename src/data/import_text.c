/* Text as bytes: a vocabulary of 256, no tokeniser is needed.  The end of the text becomes the test split, because
 * neighbouring passages are too similar for a random split. */
#include "base/mem.h"
#include "data/data_impl.h"
#include <stdlib.h>
#include <string.h>

/* Concatenates all sources; caller frees. */
static shoal_status join_sources(const shoal_import_args *a, char **out, size_t *n_out)
{
  char *all = NULL;
  size_t n = 0;
  for (size_t i = 0; i < a->n_sources; i++) {
    char *text;
    size_t more;
    shoal_status st = shoal_source_slurp(a->sources[i], &text, &more);
    char *grown = st == SHOAL_OK ? realloc(all, n + more) : NULL;
    if (!grown) {
      if (st == SHOAL_OK) {
        st = SHOAL_FAIL(SHOAL_ERR_MEM, "out of memory: %zu bytes of text", n + more);
        free(text);
      }
      free(all);
      return st;
    }
    all = grown;
    memcpy(all + n, text, more);
    free(text);
    n += more;
  }
  *out = all;
  *n_out = n;
  return SHOAL_OK;
}

shoal_status shoal_import_text(const shoal_import_args *a, const char *out_path)
{
  char source[256], *text = NULL;
  size_t n = 0;
  uint64_t train = 0;
  shoal_data_writer *w = NULL;
  shoal_import_source_text(a, source, sizeof source);
  shoal_data_spec spec = { SHOAL_DATA_TEXT, SHOAL_SHAPE(1), 1, source };
  SHOAL_TRY(join_sources(a, &text, &n));
  shoal_status st;
  SHOAL_TRY_GOTO(st, shoal_import_cut(a, n, "bytes", &train), done);
  SHOAL_TRY_GOTO(st, shoal_data_writer_create(out_path, &spec, &w), done);
  SHOAL_TRY_GOTO(st, shoal_data_writer_add(w, SHOAL_TRAIN, train, text, NULL), done);
  SHOAL_TRY_GOTO(st, shoal_data_writer_add(w, SHOAL_TEST, n - train, text + train, NULL), done);
  st = shoal_data_writer_commit(w, 256, NULL);
done:
  shoal_data_writer_destroy(w);
  free(text);
  return st;
}
