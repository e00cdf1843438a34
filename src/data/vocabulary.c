/* See vocabulary.h: the files, and what they hold in memory.
 *
 * Both forms become one tree of JSON, an object of tokens and an array of merges, from which the tables are made; jansson's
 * object is the map from a token's printable text to its number. */
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/limit.h"
#include "base/mem.h"
#include "data/labels.h"
#include "data/vocabulary_impl.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
  FIRST_SIGN = 256, /* code points from here on stand for bytes that are not printable */
  SIGNS = 68,
  TREE_BYTES = 100 /* of memory per byte of JSON, at most: an object's entry for `"":0,` */
};

/* ---- bytes as printable characters ---- */

static bool is_printable(unsigned byte)
{
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* Code point of each byte. */
static unsigned sign_of(unsigned byte)
{
  unsigned sign = FIRST_SIGN;
  if (is_printable(byte)) return byte;
  for (unsigned b = 0; b < byte; b++) sign += !is_printable(b);
  return sign;
}

/* The byte that a code point stands for, or -1. */
static int byte_of(unsigned sign)
{
  if (sign < FIRST_SIGN) return is_printable(sign) ? (int)sign : -1;
  for (unsigned b = 0; b < 256 && sign < FIRST_SIGN + SIGNS; b++)
    if (!is_printable(b) && sign_of(b) == sign) return (int)b;
  return -1;
}

/* All signs are below U+0800: one byte of UTF-8, or two. */
static size_t put_sign(unsigned byte, char *out)
{
  const unsigned sign = sign_of(byte);
  if (sign < 0x80) {
    out[0] = (char)sign;
    return 1;
  }
  out[0] = (char)(0xc0 | sign >> 6);
  out[1] = (char)(0x80 | (sign & 0x3f));
  return 2;
}

/* Caller frees. */
static shoal_status print_bytes(const uint8_t *bytes, size_t n, char **out)
{
  size_t len = 0;
  SHOAL_TRY(SHOAL_ALLOC(2 * n + 1, out));
  for (size_t i = 0; i < n; i++) len += put_sign(bytes[i], *out + len);
  return SHOAL_OK;
}

/* The bytes of a token as it is in a file, at most as many as it has itself. */
static shoal_status scan_bytes(const char *token, const char *origin, uint8_t *out, size_t *n)
{
  const unsigned char *c = (const unsigned char *)token;
  for (*n = 0; *c;) {
    const unsigned lead = *c++; /* of UTF-8, which jansson has checked */
    const int byte = lead < 0x80 ? byte_of(lead) : lead < 0xe0 ? byte_of((lead & 0x1f) << 6 | (*c++ & 0x3f)) : -1;
    char shown[64];
    SHOAL_CHECK(byte >= 0, SHOAL_ERR_UNSUPPORTED,
                "%s: token \"%s\" has a character that stands for no byte: tokens must be of bytes, as GPT-2's are",
                origin, shoal_show(token, shown, sizeof shown));
    out[(*n)++] = (uint8_t)byte;
  }
  return SHOAL_OK;
}

/* ---- tables ---- */

static size_t slot_of(const shoal_vocabulary *v, uint32_t left, uint32_t right)
{
  uint64_t hash = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);
  size_t s = (size_t)(hash >> 32) & (v->slots - 1);
  while (v->slot[s] != SHOAL_NO_TOKEN && (v->merge[v->slot[s]].left != left || v->merge[v->slot[s]].right != right))
    s = (s + 1) & (v->slots - 1);
  return s;
}

uint32_t shoal_vocabulary_find(const shoal_vocabulary *v, uint32_t left, uint32_t right)
{
  return v->slot[slot_of(v, left, right)];
}

/* Every number from 0 on is that of one token. */
static shoal_status read_tokens(shoal_vocabulary *v, json_t *vocab, const char *origin)
{
  const char **text, *token;
  json_t *id;
  size_t bytes = 0;
  v->n = json_object_size(vocab);
  SHOAL_CHECK(v->n > 0 && v->n < (size_t)SHOAL_CLASSES_MOST, SHOAL_ERR_IO,
              "%s: it has %zu tokens, must be 1 to %" PRId64, origin, v->n, SHOAL_CLASSES_MOST - 1);
  SHOAL_TRY(SHOAL_ALLOC(v->n, &text));
  shoal_status st = SHOAL_OK;
  json_object_foreach(vocab, token, id)
  {
    const json_int_t k = json_is_integer(id) ? json_integer_value(id) : -1;
    char shown[64];
    SHOAL_CHECK_GOTO(
        st, k >= 0 && (size_t)k < v->n && !text[k], done, SHOAL_ERR_IO,
        "%s: token \"%s\" has a number that another one has, too, or none of 0 to %zu, as %zu tokens must have", origin,
        shoal_show(token, shown, sizeof shown), v->n - 1, v->n);
    text[k] = token;
    bytes += strlen(token);
  }
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(bytes, &v->bytes), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(v->n + 1, &v->at), done);
  for (size_t k = 0; k < v->n; k++) {
    size_t n;
    SHOAL_TRY_GOTO(st, scan_bytes(text[k], origin, v->bytes + v->at[k], &n), done);
    v->at[k + 1] = v->at[k] + n;
    if (n == 1) v->of_byte[v->bytes[v->at[k]]] = (uint32_t)k;
  }
done:
  free(text);
  return st;
}

static uint32_t number_of(const json_t *vocab, const char *token)
{
  const json_t *id = json_object_get(vocab, token);
  return id ? (uint32_t)json_integer_value(id) : SHOAL_NO_TOKEN;
}

/* A merge is "left right", or ["left", "right"]. */
static shoal_status read_merge(const json_t *entry, const json_t *vocab, size_t rank, const char *origin,
                               shoal_merge *out)
{
  const char *line = json_string_value(entry), *space = line ? strchr(line, ' ') : NULL;
  const char *one = json_string_value(json_array_get(entry, 0)), *other = json_string_value(json_array_get(entry, 1));
  char shown[64];
  SHOAL_CHECK((one && other && json_array_size(entry) == 2) || (space && !strchr(space + 1, ' ')), SHOAL_ERR_IO,
              "%s: merge %zu%s%s%s is no pair of tokens with a space between", origin, rank + 1, line ? " \"" : "",
              line ? shoal_show(line, shown, sizeof shown) : "", line ? "\"" : "");
  char *left = one ? shoal_strdup_printf("%s", one) : shoal_strdup_printf("%.*s", (int)(space - line), line);
  char *whole = shoal_strdup_printf("%s%s", left, one ? other : space + 1);
  *out = (shoal_merge){ number_of(vocab, left), number_of(vocab, one ? other : space + 1), number_of(vocab, whole) };
  shoal_status st = SHOAL_OK;
  if (out->left == SHOAL_NO_TOKEN || out->right == SHOAL_NO_TOKEN || out->merged == SHOAL_NO_TOKEN)
    st = SHOAL_FAIL(SHOAL_ERR_IO, "%s: merge %zu makes \"%s\", which is no token, or is made of what is none", origin,
                    rank + 1, shoal_show(whole, shown, sizeof shown));
  free(left);
  free(whole);
  return st;
}

static shoal_status read_merges(shoal_vocabulary *v, const json_t *merges, const json_t *vocab, const char *origin)
{
  v->n_merges = json_array_size(merges);
  SHOAL_CHECK(v->n_merges < (size_t)SHOAL_CLASSES_MOST, SHOAL_ERR_IO, "%s: it has %zu merges, the most are %" PRId64,
              origin, v->n_merges, SHOAL_CLASSES_MOST - 1);
  for (v->slots = 2; v->slots < 2 * v->n_merges; v->slots *= 2) {}
  SHOAL_TRY(SHOAL_ALLOC(v->n_merges, &v->merge));
  SHOAL_TRY(SHOAL_ALLOC(v->slots, &v->slot));
  memset(v->slot, 0xff, v->slots * sizeof *v->slot);
  for (size_t i = 0; i < v->n_merges; i++) {
    shoal_merge *m = &v->merge[i];
    SHOAL_TRY(read_merge(json_array_get(merges, i), vocab, i, origin, m));
    const size_t s = slot_of(v, m->left, m->right);
    if (v->slot[s] == SHOAL_NO_TOKEN) v->slot[s] = (uint32_t)i; /* the earlier one counts */
  }
  return SHOAL_OK;
}

static shoal_status build(json_t *vocab, const json_t *merges, const char *origin, shoal_vocabulary **out)
{
  shoal_vocabulary *v;
  SHOAL_CHECK(json_is_object(vocab), SHOAL_ERR_IO, "%s: it has no object of tokens and their numbers", origin);
  SHOAL_CHECK(json_is_array(merges), SHOAL_ERR_IO, "%s: it has no list of merges", origin);
  SHOAL_TRY(SHOAL_ALLOC(1, &v));
  memset(v->of_byte, 0xff, sizeof v->of_byte);
  shoal_status st = read_tokens(v, vocab, origin);
  if (st == SHOAL_OK) st = read_merges(v, merges, vocab, origin);
  if (st != SHOAL_OK) {
    shoal_vocabulary_destroy(v);
    return st;
  }
  *out = v;
  return SHOAL_OK;
}

/* ---- tokenizer.json ---- */

static bool is_off(const json_t *object, const char *key)
{
  const json_t *value = json_object_get(object, key);
  return !value || json_is_null(value) || json_is_false(value) ||
         (json_is_string(value) && json_string_length(value) == 0);
}

static shoal_status check_rule(const json_t *tree, const char *origin)
{
  const json_t *model = json_object_get(tree, "model"), *cut = json_object_get(tree, "pre_tokenizer");
  const json_t *regex = json_object_get(cut, "use_regex");
  const char *kind = json_string_value(json_object_get(model, "type")),
             *rule = json_string_value(json_object_get(cut, "type"));
  static const char *const others[] = { "dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback",
                                        "ignore_merges" };
  char shown[64];
  SHOAL_CHECK(kind && strcmp(kind, "BPE") == 0, SHOAL_ERR_UNSUPPORTED,
              "%s: its model is of type \"%s\"; only BPE is read, on bytes as of GPT-2", origin,
              shoal_show(kind ? kind : "", shown, sizeof shown));
  for (size_t i = 0; i < SHOAL_COUNT(others); i++)
    SHOAL_CHECK(is_off(model, others[i]), SHOAL_ERR_UNSUPPORTED,
                "%s: its model has %s, by which texts are encoded otherwise than by GPT-2's rule", origin, others[i]);
  SHOAL_CHECK(
      is_off(tree, "normalizer"), SHOAL_ERR_UNSUPPORTED,
      "%s: it has a normalizer, which changes texts before they are encoded; only vocabularies without are read",
      origin);
  SHOAL_CHECK(rule && strcmp(rule, "ByteLevel") == 0 && is_off(cut, "add_prefix_space") && !json_is_false(regex),
              SHOAL_ERR_UNSUPPORTED,
              "%s: its pre_tokenizer \"%s\" does not cut texts by GPT-2's rule: ByteLevel with use_regex, without "
              "add_prefix_space",
              origin, shoal_show(rule ? rule : "", shown, sizeof shown));
  return SHOAL_OK;
}

/* Tokens that are in no merge, such as marks for the end of a text, are there as they are, some of them among the others, too. */
static shoal_status add_added(const json_t *added, json_t *vocab, const char *origin)
{
  if (!json_is_object(vocab)) return SHOAL_OK; /* build() refuses it */
  for (size_t i = 0; i < json_array_size(added); i++) {
    const json_t *entry = json_array_get(added, i), *id = json_object_get(entry, "id");
    const char *content = json_string_value(json_object_get(entry, "content"));
    char *printed, shown[64];
    SHOAL_CHECK(content && json_is_integer(id), SHOAL_ERR_IO, "%s: added token %zu has no content and id", origin,
                i + 1);
    const json_t *among = json_object_get(vocab, content);
    if (among && json_equal(among, id)) continue;
    SHOAL_TRY(print_bytes((const uint8_t *)content, strlen(content), &printed));
    const bool twice = json_object_get(vocab, printed) != NULL,
               set = !twice && json_object_set(vocab, printed, (json_t *)id) == 0;
    free(printed);
    SHOAL_CHECK(!twice, SHOAL_ERR_IO, "%s: added token \"%s\" is there with another number, too", origin,
                shoal_show(content, shown, sizeof shown));
    SHOAL_CHECK(set, SHOAL_ERR_MEM, "out of memory: tokens of %s", origin);
  }
  return SHOAL_OK;
}

shoal_status shoal_vocabulary_read(const char *text, size_t n, const char *origin, shoal_vocabulary **out)
{
  json_t *tree;
  SHOAL_TRY(shoal_limit_memory(origin, "vocabulary", n, TREE_BYTES));
  SHOAL_TRY(shoal_json_read(text, origin, &tree));
  json_t *model = json_object_get(tree, "model"), *vocab = json_object_get(model, "vocab");
  shoal_status st = check_rule(tree, origin);
  if (st == SHOAL_OK) st = add_added(json_object_get(tree, "added_tokens"), vocab, origin);
  if (st == SHOAL_OK) st = build(vocab, json_object_get(model, "merges"), origin, out);
  json_decref(tree);
  return st;
}

shoal_status shoal_vocabulary_read_file(const char *path, shoal_vocabulary **out)
{
  char *text;
  size_t n;
  SHOAL_TRY(shoal_read_file(path, &text, &n));
  shoal_status st = shoal_vocabulary_read(text, n, path, out);
  free(text);
  return st;
}

/* The lines of merges.txt as an array; the first may say its version. */
static shoal_status list_merges(const char *text, const char *path, json_t **out)
{
  json_t *list = json_array();
  SHOAL_CHECK(list, SHOAL_ERR_MEM, "out of memory: merges of %s", path);
  for (const char *line = text; *line;) {
    const size_t n = strcspn(line, "\r\n");
    const bool version = line == text && strncmp(line, "#version", 8) == 0;
    if (n && !version && json_array_append_new(list, json_stringn(line, n)) != 0) {
      json_decref(list);
      return SHOAL_FAIL(SHOAL_ERR_IO, "%s: byte %zu begins a line that is no UTF-8", path, (size_t)(line - text));
    }
    line += n + (line[n] != '\0');
  }
  *out = list;
  return SHOAL_OK;
}

shoal_status shoal_vocabulary_read_pair(const char *vocab_path, const char *merges_path, shoal_vocabulary **out)
{
  char *tokens = NULL, *lines = NULL;
  size_t n, n_lines;
  json_t *vocab = NULL, *merges = NULL;
  shoal_status st;
  SHOAL_TRY_GOTO(st, shoal_read_file(vocab_path, &tokens, &n), done);
  SHOAL_TRY_GOTO(st, shoal_read_file(merges_path, &lines, &n_lines), done);
  SHOAL_TRY_GOTO(st, shoal_limit_memory(vocab_path, "vocabulary", n + n_lines, TREE_BYTES), done);
  SHOAL_TRY_GOTO(st, shoal_json_read(tokens, vocab_path, &vocab), done);
  SHOAL_TRY_GOTO(st, list_merges(lines, merges_path, &merges), done);
  st = build(vocab, merges, vocab_path, out);
done:
  free(tokens);
  free(lines);
  json_decref(vocab);
  json_decref(merges);
  return st;
}

void shoal_vocabulary_destroy(shoal_vocabulary *v)
{
  if (!v) return;
  free(v->bytes);
  free(v->at);
  free(v->merge);
  free(v->slot);
  free(v);
}

/* The printable text of token `id`; caller frees. */
static shoal_status print_token(const shoal_vocabulary *v, size_t id, char **out)
{
  return print_bytes(v->bytes + v->at[id], v->at[id + 1] - v->at[id], out);
}

static void put_rule(shoal_json *j, const char *key)
{
  shoal_json_object(j, key);
  shoal_json_string(j, "type", "ByteLevel");
  shoal_json_bool(j, "add_prefix_space", false);
  shoal_json_bool(j, "trim_offsets", true);
  shoal_json_bool(j, "use_regex", true);
  shoal_json_end(j);
}

static shoal_status put_model(const shoal_vocabulary *v, shoal_json *j)
{
  char *left, *right;
  shoal_json_object(j, "model");
  shoal_json_string(j, "type", "BPE");
  shoal_json_object(j, "vocab");
  for (size_t k = 0; k < v->n; k++) {
    SHOAL_TRY(print_token(v, k, &left));
    shoal_json_uint(j, left, k);
    free(left);
  }
  shoal_json_end(j);
  shoal_json_array(j, "merges");
  for (size_t k = 0; k < v->n_merges; k++) {
    SHOAL_TRY(print_token(v, v->merge[k].left, &left));
    shoal_status st = print_token(v, v->merge[k].right, &right);
    if (st == SHOAL_OK) shoal_json_format(j, NULL, "%s %s", left, right);
    free(left);
    free(right);
    SHOAL_TRY(st);
  }
  shoal_json_end(j);
  shoal_json_end(j);
  return SHOAL_OK;
}

shoal_status shoal_vocabulary_print(const shoal_vocabulary *v, shoal_str *out)
{
  shoal_json j = { .lines = 1 };
  shoal_json_object(&j, NULL);
  shoal_json_string(&j, "version", "1.0");
  shoal_json_array(&j, "added_tokens");
  shoal_json_end(&j);
  shoal_json_null(&j, "normalizer");
  put_rule(&j, "pre_tokenizer");
  put_rule(&j, "decoder");
  shoal_status st = put_model(v, &j);
  if (st != SHOAL_OK) {
    shoal_str_free(&j.text);
    return st;
  }
  shoal_json_end(&j);
  *out = j.text;
  return SHOAL_OK;
}

bool shoal_vocabulary_equal(const shoal_vocabulary *a, const shoal_vocabulary *b)
{
  if (!a || !b) return a == b;
  return a->n == b->n && a->n_merges == b->n_merges && memcmp(a->at, b->at, (a->n + 1) * sizeof *a->at) == 0 &&
         memcmp(a->bytes, b->bytes, a->at[a->n]) == 0 &&
         memcmp(a->merge, b->merge, a->n_merges * sizeof *a->merge) == 0;
}

size_t shoal_vocabulary_size(const shoal_vocabulary *v)
{
  return v->n;
}

const uint8_t *shoal_vocabulary_token(const shoal_vocabulary *v, size_t id, size_t *bytes)
{
  *bytes = v->at[id + 1] - v->at[id];
  return v->bytes + v->at[id];
}
