/* Text as bytes, which need no tokeniser, or as tokens of a given vocabulary.  The end of the text becomes the test split,
 * because neighbouring passages are too similar for a random split. */
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/ckpt.h"
#include "data/csv.h"
#include "data/data_impl.h"
#include "data/like.h"
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

/* Appends a file to the text; *all grows. */
static shoal_status append_source(const char *path, char **all, size_t *n)
{
  char *text, *grown;
  size_t more;
  SHOAL_TRY(shoal_source_slurp(path, &text, &more));
  warn_of_encoding(path, text, more);
  grown = realloc(*all, *n + more + 1);
  if (grown) {
    memcpy(grown + *n, text, more);
    *all = grown;
    *n += more;
  }
  free(text);
  SHOAL_CHECK(grown, SHOAL_ERR_MEM, "out of memory: %zu bytes of text", *n + more);
  return SHOAL_OK;
}

/* Bytes a token takes in the file. */
static int width_of(const shoal_vocabulary *v)
{
  const size_t n = v ? shoal_vocabulary_size(v) : 256;
  return n <= 1 << 8 ? 1 : n <= 1 << 16 ? 2 : 4;
}

/* The text, which it frees, as tokens of their width. */
static shoal_status encode(const shoal_vocabulary *v, char *text, size_t n, void **out, size_t *n_out)
{
  uint32_t *wide;
  *out = text, *n_out = n;
  if (!v) return SHOAL_OK;
  shoal_status st = shoal_vocabulary_encode(v, text, n, &wide, n_out);
  free(text);
  *out = NULL;
  SHOAL_TRY(st);
  const size_t width = (size_t)width_of(v);
  for (size_t i = 0; i < *n_out && width < 4; i++) { /* never beyond what is still to be read */
    const uint8_t one = (uint8_t)wide[i];
    const uint16_t two = (uint16_t)wide[i];
    memcpy((char *)wide + i * width, width == 1 ? (const void *)&one : &two, width);
  }
  *out = wide;
  return SHOAL_OK;
}

static shoal_status read_tokens(const shoal_import_args *a, size_t from, size_t to, const shoal_vocabulary *v,
                                void **out, size_t *n_out)
{
  char *text = NULL;
  size_t n = 0;
  for (size_t i = from; i < to; i++) {
    shoal_status st = append_source(a->sources[i], &text, &n);
    if (st != SHOAL_OK) {
      free(text);
      return st;
    }
  }
  SHOAL_TRY(encode(v, text, n, out, n_out));
  if (v)
    shoal_info("%s: %zu bytes are %zu tokens of %zu", to - from == 1 ? a->sources[from] : "the text", n, *n_out,
               shoal_vocabulary_size(v));
  return SHOAL_OK;
}

/* Every file is for one split, by its name. */
static shoal_status write_files(const shoal_import_args *a, const bool *test, const shoal_vocabulary *v,
                                shoal_data_writer *w)
{
  for (size_t i = 0; i < a->n_sources; i++) {
    void *tokens;
    size_t n;
    SHOAL_TRY(read_tokens(a, i, i + 1, v, &tokens, &n));
    shoal_status st = shoal_data_writer_add(w, test[i] ? SHOAL_TEST : SHOAL_TRAIN, n, tokens, NULL);
    free(tokens);
    SHOAL_TRY(st);
  }
  return SHOAL_OK;
}

static shoal_status write_cut(const shoal_import_args *a, const shoal_vocabulary *v, shoal_data_writer *w)
{
  const char *what = v ? "tokens" : "bytes";
  void *tokens;
  size_t n;
  uint64_t train = 0;
  SHOAL_TRY(read_tokens(a, 0, a->n_sources, v, &tokens, &n));
  shoal_status st = shoal_import_cut(a, n, what, &train);
  if (st == SHOAL_OK && train == n && !a->like) shoal_import_warn_untested(n, what);
  if (st == SHOAL_OK) st = shoal_data_writer_add(w, SHOAL_TRAIN, train, tokens, NULL);
  if (st == SHOAL_OK)
    st = shoal_data_writer_add(w, SHOAL_TEST, n - train, (char *)tokens + train * (size_t)width_of(v), NULL);
  free(tokens);
  return st;
}

/* A vocabulary as a tokenizer.json in a data set of `file`. */
static shoal_status read_tokenizer(shoal_h5 file, const char *path, const char *name, shoal_vocabulary **out)
{
  shoal_h5_facts f;
  SHOAL_TRY(shoal_h5_look(file, name, &f));
  SHOAL_CHECK(f.ndim == 1 && f.exact && f.type == SHOAL_U8, SHOAL_ERR_IO, "--like %s: /%s is no tokenizer.json", path,
              name);
  SHOAL_TRY(shoal_limit_memory(path, name, f.dims[0], 1));
  char *text;
  SHOAL_TRY(SHOAL_ALLOC(f.dims[0] + 1, &text));
  char *origin = shoal_strdup_printf("--like %s: /%s", path, name);
  shoal_status st = shoal_h5_read(file, name, SHOAL_U8, f.dims[0], text);
  if (st == SHOAL_OK) st = shoal_vocabulary_read(text, f.dims[0], origin, out);
  free(origin);
  free(text);
  return st;
}

/* What the tokens of a network are: of a vocabulary, which checkpoints have under one name, exported models and data sets under
 * another; or bytes. */
static shoal_status read_like(shoal_h5 file, const char *path, void *out)
{
  static const char *const names[] = { "vocabulary", SHOAL_CKPT_VOCABULARY };
  char *kind = NULL;
  int64_t classes;
  if (shoal_h5_has_attribute(file, "kind")) SHOAL_TRY(shoal_h5_get_string(file, "kind", &kind));
  const bool text = kind && strcmp(kind, shoal_data_kind_name(SHOAL_DATA_TEXT)) == 0;
  free(kind);
  SHOAL_CHECK(text, SHOAL_ERR_USAGE,
              "--like %s: it is no run on text, or checkpoint, model exported as .h5, or data set of text", path);
  for (size_t i = 0; i < SHOAL_COUNT(names); i++)
    if (shoal_h5_is_data_set(file, names[i])) return read_tokenizer(file, path, names[i], out);
  SHOAL_TRY(shoal_like_classes(file, path, &classes));
  SHOAL_CHECK(classes == 256, SHOAL_ERR_USAGE,
              "--like %s: its %lld tokens are neither bytes nor of a vocabulary, and nothing says what text they are: "
              "write an array train/tokens of their numbers",
              path, (long long)classes);
  return SHOAL_OK;
}

static shoal_status read_vocabulary(const shoal_import_args *a, shoal_vocabulary **out)
{
  *out = NULL;
  if (a->like) return shoal_like_read(a->like, read_like, out);
  if (a->tokenizer) return shoal_vocabulary_read_file(a->tokenizer, out);
  return a->vocab ? shoal_vocabulary_read_pair(a->vocab, a->merges, out) : SHOAL_OK;
}

static shoal_status import_all(const shoal_import_args *a, const char *out_path)
{
  char source[256];
  shoal_data_writer *w = NULL;
  shoal_import_roles roles = { 0 };
  shoal_vocabulary *v = NULL;
  shoal_import_source_text(a, source, sizeof source);
  shoal_data_spec spec = { SHOAL_DATA_TEXT, SHOAL_SHAPE(1), 1, source };
  uint64_t bytes;
  shoal_status st;
  SHOAL_TRY_GOTO(st, shoal_import_find_roles(a, &roles), done);
  SHOAL_TRY_GOTO(st, read_vocabulary(a, &v), done);
  spec.vocabulary = v;
  spec.x_bytes = width_of(v);
  SHOAL_TRY_GOTO(st, shoal_import_plain_bytes(a, &bytes), done);
  if (!v) SHOAL_TRY_GOTO(st, shoal_data_expect(out_path, &spec, bytes), done);
  SHOAL_TRY_GOTO(st, shoal_data_writer_create(out_path, &spec, &w), done);
  SHOAL_TRY_GOTO(st, roles.by_name ? write_files(a, roles.test, v, w) : write_cut(a, v, w), done);
  st = shoal_data_writer_commit(w, v ? (int64_t)shoal_vocabulary_size(v) : 256, NULL);
done:
  shoal_data_writer_destroy(w);
  shoal_import_roles_fini(&roles);
  shoal_vocabulary_destroy(v);
  return st;
}

/* Text for a network that is trained already stays in one split. */
shoal_status shoal_import_text(const shoal_import_args *a, const char *out_path)
{
  static const double no_share = 0;
  shoal_import_args kept = *a;
  if (a->like && !a->test_share && !a->train_count) kept.test_share = &no_share;
  return import_all(&kept, out_path);
}
