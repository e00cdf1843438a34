/* See vocabulary.h: pieces by GPT-2's rule, and merges within each.
 *
 * GPT-2 merges all places of the earliest merge that applies, from left to right, and looks again.  Here the tokens of a
 * piece are a list, and a heap orders its pairs by merge and place; those of the earliest merge are taken out together before
 * any pair that they make goes in, so the order is the same, and a piece of n bytes takes n log n. */
#include "base/error.h"
#include "base/mem.h"
#include "data/unicode.h"
#include "data/vocabulary_impl.h"
#include <stdlib.h>
#include <string.h>

/* ---- pieces ---- */

typedef enum { END, SPACE, OTHER_SPACE, LETTER, NUMBER, OTHER } kind;

/* The kind of the character that begins at `at`, and its length; what is no UTF-8 is OTHER, byte by byte. */
static kind look(const uint8_t *text, size_t n, size_t at, size_t *bytes)
{
  if (at >= n) return END;
  const uint32_t c = shoal_utf8_next(text + at, n - at, bytes);
  if (c == ' ') return SPACE;
  if (shoal_is_white_space(c)) return OTHER_SPACE;
  return shoal_is_letter(c) ? LETTER : shoal_is_number(c) ? NUMBER : OTHER;
}

/* Where a run of that kind ends that goes on at `at`. */
static size_t run_end(const uint8_t *text, size_t n, size_t at, kind k)
{
  size_t bytes;
  while (look(text, n, at, &bytes) == k) at += bytes;
  return at;
}

/* Spaces up to the end of the text, or all but the last, which the next piece begins with if it can; one alone stands for itself. */
static size_t spaces(const uint8_t *text, size_t n)
{
  size_t at = 0, last = 0, bytes;
  for (kind k = look(text, n, 0, &bytes); k == SPACE || k == OTHER_SPACE; k = look(text, n, at, &bytes)) {
    last = at;
    at += bytes;
  }
  return at == n || last == 0 ? at : last;
}

size_t shoal_vocabulary_piece(const uint8_t *text, size_t n)
{
  static const char *const endings[] = { "'s", "'t", "'re", "'ve", "'m", "'ll", "'d" };
  size_t bytes, first;
  for (size_t i = 0; i < SHOAL_COUNT(endings); i++)
    if (n >= strlen(endings[i]) && memcmp(text, endings[i], strlen(endings[i])) == 0) return strlen(endings[i]);
  kind k = look(text, n, 0, &first);
  if (k == SPACE) {
    k = look(text, n, first, &bytes);
    if (k == SPACE || k == OTHER_SPACE || k == END) return spaces(text, n);
    return run_end(text, n, first, k);
  }
  return k == OTHER_SPACE ? spaces(text, n) : run_end(text, n, 0, k);
}

/* ---- merges ---- */

typedef struct {
  uint32_t rank; /* of the merge */
  uint32_t at;   /* place of the left token */
  uint32_t left, right;
} pair;

/* A piece: its tokens are a list, in which a place whose token went into the one before it has none.  Memory is kept from piece to
 * piece.  A piece of n bytes has at most 3 n pairs over time: n - 1 in the beginning, and each of n - 1 merges makes two. */
typedef struct {
  const shoal_vocabulary *v;
  uint32_t *token, *next, *last; /* [cap] the place behind each, n at the end; the place before, n at the beginning */
  pair *heap, *same;             /* [3 cap] all pairs; those of one merge */
  size_t cap, n, n_heap;
} piece;

static shoal_status resize(piece *p, size_t n)
{
  p->n = n;
  p->n_heap = 0;
  if (n <= p->cap) return SHOAL_OK;
  SHOAL_CHECK(n < SHOAL_NO_TOKEN, SHOAL_ERR_UNSUPPORTED,
              "a text has %zu bytes without a place to cut at; the most for byte-pair encoding are 2^32 - 2", n);
  free(p->token);
  free(p->heap);
  p->token = NULL, p->heap = NULL, p->cap = 0;
  SHOAL_TRY(SHOAL_ALLOC(3 * n, &p->token));
  SHOAL_TRY(SHOAL_ALLOC(6 * n, &p->heap));
  p->next = p->token + n, p->last = p->next + n;
  p->same = p->heap + 3 * n;
  p->cap = n;
  return SHOAL_OK;
}

static bool is_before(const pair *a, const pair *b)
{
  return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(piece *p, pair q)
{
  size_t i = p->n_heap++;
  for (; i > 0 && is_before(&q, &p->heap[(i - 1) / 2]); i = (i - 1) / 2) p->heap[i] = p->heap[(i - 1) / 2];
  p->heap[i] = q;
}

static pair pop(piece *p)
{
  const pair top = p->heap[0], end = p->heap[--p->n_heap];
  size_t i = 0;
  for (size_t child = 1; child < p->n_heap; child = 2 * i + 1) {
    if (child + 1 < p->n_heap && is_before(&p->heap[child + 1], &p->heap[child])) child++;
    if (!is_before(&p->heap[child], &end)) break;
    p->heap[i] = p->heap[child];
    i = child;
  }
  p->heap[i] = end;
  return top;
}

/* The pair of the tokens at this place and behind it, if there is a merge of them. */
static void offer(piece *p, uint32_t at)
{
  if (at >= p->n || p->next[at] >= p->n) return;
  const uint32_t left = p->token[at], right = p->token[p->next[at]], rank = shoal_vocabulary_find(p->v, left, right);
  if (rank != SHOAL_NO_TOKEN) push(p, (pair){ rank, at, left, right });
}

/* @return whether both tokens were still there */
static bool merge(piece *p, const pair *q)
{
  const uint32_t right = p->next[q->at];
  if (p->token[q->at] != q->left || right >= p->n || p->token[right] != q->right) return false;
  p->token[q->at] = p->v->merge[q->rank].merged;
  p->token[right] = SHOAL_NO_TOKEN;
  p->next[q->at] = p->next[right];
  if (p->next[q->at] < p->n) p->last[p->next[q->at]] = q->at;
  return true;
}

static void merge_all(piece *p)
{
  for (size_t i = 0; i + 1 < p->n; i++) offer(p, (uint32_t)i);
  while (p->n_heap) {
    size_t n = 0, merged = 0;
    const uint32_t rank = p->heap[0].rank;
    while (p->n_heap && p->heap[0].rank == rank) p->same[n++] = pop(p); /* by their places */
    for (size_t i = 0; i < n; i++)
      if (merge(p, &p->same[i])) p->same[merged++] = p->same[i];
    for (size_t i = 0; i < merged; i++) {
      offer(p, p->last[p->same[i].at]);
      offer(p, p->same[i].at);
    }
  }
}

static shoal_status encode_piece(piece *p, const uint8_t *text, size_t n, uint32_t *out, size_t *n_out)
{
  SHOAL_TRY(resize(p, n));
  for (size_t i = 0; i < n; i++) {
    p->token[i] = p->v->of_byte[text[i]];
    p->next[i] = (uint32_t)i + 1;
    p->last[i] = (uint32_t)(i ? i - 1 : n);
    SHOAL_CHECK(p->token[i] != SHOAL_NO_TOKEN, SHOAL_ERR_USAGE,
                "the text has a byte 0x%02x, which is no token of the vocabulary: take one with all 256 bytes",
                text[i]);
  }
  merge_all(p);
  for (size_t i = 0; i < n; i = p->next[i]) out[(*n_out)++] = p->token[i];
  return SHOAL_OK;
}

shoal_status shoal_vocabulary_encode(const shoal_vocabulary *v, const void *text, size_t n, uint32_t **tokens,
                                     size_t *n_tokens)
{
  const uint8_t *bytes = text;
  piece p = { .v = v };
  uint32_t *out;
  SHOAL_TRY(SHOAL_ALLOC(n, &out));
  shoal_status st = SHOAL_OK;
  *n_tokens = 0;
  for (size_t at = 0; at < n && st == SHOAL_OK;) {
    const size_t length = shoal_vocabulary_piece(bytes + at, n - at);
    st = encode_piece(&p, bytes + at, length, out, n_tokens);
    at += length;
  }
  free(p.token);
  free(p.heap);
  if (st != SHOAL_OK) free(out);
  if (st == SHOAL_OK) *tokens = out;
  return st;
}
