/* Text as bytes: a vocabulary of 256, no tokeniser is needed.  The end of the text becomes the test split, because
 * neighbouring passages are too similar for a random split. */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/csv.h"
#include "data/data_impl.h"
#include <stdlib.h>
#include <string.h>

/* Bytes of such a text are no letters: every other one is zero. */
static void warn_of_encoding(const char *path, const char *text, size_t n)
{
  char word[SHOAL_WORD];
  const char *name = shoal_csv_wide_encoding(text, n);
  if (name)
    shoal_warn(
        "%s is %s text, and each of its bytes becomes a token, also the zero ones: convert it with iconv -f %s -t "
        "UTF-8 %s >NEW",
        path, name, name, shoal_shell_word(path, word));
}

/* Concatenates all sources; caller frees. */
static shoal_status join_sources(const shoal_import_args *a, char **out, size_t *n_out)
{
  char *all = NULL;
  size_t n = 0;
  for (size_t i = 0; i < a->n_sources; i++) {
    char *text;
    size_t more;
    shoal_status st = shoal_source_slurp(a->sources[i], &text, &more);
    if (st == SHOAL_OK) warn_of_encoding(a->sources[i], text, more);
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

/* Every file is for one split, by its name. */
static shoal_status write_files(const shoal_import_args *a, const bool *test, shoal_data_writer *w)
{
  for (size_t i = 0; i < a->n_sources; i++) {
    char *text;
    size_t n;
    SHOAL_TRY(shoal_source_slurp(a->sources[i], &text, &n));
    warn_of_encoding(a->sources[i], text, n);
    shoal_status st = shoal_data_writer_add(w, test[i] ? SHOAL_TEST : SHOAL_TRAIN, n, text, NULL);
    free(text);
    SHOAL_TRY(st);
  }
  return SHOAL_OK;
}

static shoal_status write_cut(const shoal_import_args *a, shoal_data_writer *w)
{
  char *text = NULL;
  size_t n = 0;
  uint64_t train = 0;
  SHOAL_TRY(join_sources(a, &text, &n));
  shoal_status st = shoal_import_cut(a, n, "bytes", &train);
  if (st == SHOAL_OK && train == n) shoal_import_warn_untested(n, "bytes");
  if (st == SHOAL_OK) st = shoal_data_writer_add(w, SHOAL_TRAIN, train, text, NULL);
  if (st == SHOAL_OK) st = shoal_data_writer_add(w, SHOAL_TEST, n - train, text + train, NULL);
  free(text);
  return st;
}

shoal_status shoal_import_text(const shoal_import_args *a, const char *out_path)
{
  char source[256];
  shoal_data_writer *w = NULL;
  shoal_import_roles roles = { 0 };
  shoal_import_source_text(a, source, sizeof source);
  shoal_data_spec spec = { SHOAL_DATA_TEXT, SHOAL_SHAPE(1), 1, source };
  uint64_t bytes;
  shoal_status st;
  SHOAL_TRY_GOTO(st, shoal_import_find_roles(a, &roles), done);
  SHOAL_TRY_GOTO(st, shoal_import_plain_bytes(a, &bytes), done);
  SHOAL_TRY_GOTO(st, shoal_data_expect(out_path, &spec, bytes), done);
  SHOAL_TRY_GOTO(st, shoal_data_writer_create(out_path, &spec, &w), done);
  SHOAL_TRY_GOTO(st, roles.by_name ? write_files(a, roles.test, w) : write_cut(a, w), done);
  st = shoal_data_writer_commit(w, 256, NULL);
done:
  shoal_data_writer_destroy(w);
  shoal_import_roles_fini(&roles);
  return st;
}
