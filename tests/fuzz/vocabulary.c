/* Vocabularies of byte-pair encoding: a tokenizer.json, or vocab.json and merges.txt with a zero byte between.  One that is read is written
 * and read back as the same, and a text that it encodes, here the input itself, is given back by the bytes of its tokens. */
#include "data/vocabulary.h"
#include "fuzz/fuzz.h"

static shoal_status read_input(const uint8_t *data, size_t n, shoal_vocabulary **out)
{
  const uint8_t *end = memchr(data, 0, n);
  if (end) {
    const size_t first = (size_t)(end - data);
    const char *vocab = fuzz_file("vocab.json", data, first);
    return shoal_vocabulary_read_pair(vocab, fuzz_file("merges.txt", end + 1, n - first - 1), out);
  }
  char *text = fuzz_text(data, n);
  shoal_status st = shoal_vocabulary_read(text, n, "tokenizer.json", out);
  free(text);
  return st;
}

static void check_printed(const shoal_vocabulary *v)
{
  shoal_str text = { 0 };
  shoal_vocabulary *back;
  FUZZ_CHECK(shoal_vocabulary_print(v, &text) == SHOAL_OK);
  FUZZ_CHECK(shoal_vocabulary_read(text.text, text.len, "printed", &back) == SHOAL_OK);
  FUZZ_CHECK(shoal_vocabulary_equal(v, back));
  shoal_vocabulary_destroy(back);
  shoal_str_free(&text);
}

static void check_encoded(const shoal_vocabulary *v, const uint8_t *text, size_t n)
{
  uint32_t *token;
  size_t tokens, at = 0, bytes;
  if (shoal_vocabulary_encode(v, text, n, &token, &tokens) != SHOAL_OK) return;
  for (size_t i = 0; i < tokens; i++, at += bytes) {
    FUZZ_CHECK(token[i] < shoal_vocabulary_size(v));
    const uint8_t *is = shoal_vocabulary_token(v, token[i], &bytes);
    FUZZ_CHECK(bytes <= n - at && memcmp(is, text + at, bytes) == 0);
  }
  FUZZ_CHECK(at == n);
  free(token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  shoal_vocabulary *v;
  if (n == 0 || read_input(data, n, &v) != SHOAL_OK) return 0;
  check_printed(v);
  check_encoded(v, data, n);
  shoal_vocabulary_destroy(v);
  return 0;
}
