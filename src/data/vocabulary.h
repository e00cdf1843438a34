/* A vocabulary of byte-pair encoding as GPT-2 has it: tokens are strings of bytes, and an ordered list of merges says how a text
 * becomes tokens.
 *
 *   text -> pieces, by a fixed rule -> bytes of each piece -> the earliest merge that applies, again and again -> tokens
 *
 * The rule is GPT-2's regular expression, alternatives tried in this order at every place:
 *
 *   's|'t|'re|'ve|'m|'ll|'d   |   ?\p{L}+   |   ?\p{N}+   |   ?[^\s\p{L}\p{N}]+   |  \s+(?!\S)  |  \s+
 *
 * with L and N as Unicode 14 has them and \s the characters of its property White_Space.  A byte that is part of no valid UTF-8 is
 * taken as a character of its own that is neither letter, number nor space, so any file can be encoded.  Every text is
 * given back by the bytes of its tokens.
 *
 * It is read from GPT-2's pair of files, vocab.json and merges.txt, or from a tokenizer.json of Hugging Face, and kept in data
 * sets, checkpoints and exported models as a tokenizer.json, which their libraries read, too.  In these files a byte is a
 * printable character: itself where it is printable in Latin-1, else U+0100 and following; a space is U+0120.
 *
 * Source  Sennrich et al., ACL 2016; Radford et al., 2019 (on bytes) */
#ifndef SHOAL_DATA_VOCABULARY_H
#define SHOAL_DATA_VOCABULARY_H
#include "base/status.h"
#include "base/str.h"
#include <stddef.h>
#include <stdint.h>

typedef struct shoal_vocabulary shoal_vocabulary;

/** Reads a tokenizer.json.
 *  @param n       bytes of `text`, which is followed by a NUL
 *  @param origin  names it in messages
 *  @return ERR_IO if it is none, or numbers of tokens are not 0, 1, 2, …; ERR_UNSUPPORTED if texts would be cut or changed by
 *          another rule than the one above; ERR_MEM if it is too large for the memory there is */
shoal_status shoal_vocabulary_read(const char *text, size_t n, const char *origin, shoal_vocabulary **out);
shoal_status shoal_vocabulary_read_file(const char *path, shoal_vocabulary **out);
/** Reads vocab.json, an object of tokens and their numbers, and merges.txt, a merge per line, the earliest first. */
shoal_status shoal_vocabulary_read_pair(const char *vocab, const char *merges, shoal_vocabulary **out);
void shoal_vocabulary_destroy(shoal_vocabulary *v);
/** Gives it as a tokenizer.json; equal vocabularies give equal text.  The caller frees `out`. */
shoal_status shoal_vocabulary_print(const shoal_vocabulary *v, shoal_str *out);
bool shoal_vocabulary_equal(const shoal_vocabulary *a,
                            const shoal_vocabulary *b); /* NULL: tokens are bytes or numbers */
size_t shoal_vocabulary_size(const shoal_vocabulary *v);
/** The bytes of token `id`, which must be below the size, and how many; borrowed. */
const uint8_t *shoal_vocabulary_token(const shoal_vocabulary *v, size_t id, size_t *bytes);
/** Encodes n bytes, n log n in time.
 *  @param[out] tokens  caller frees; 4 bytes per byte of the text
 *  @return ERR_USAGE naming the first byte that is no token and in none */
shoal_status shoal_vocabulary_encode(const shoal_vocabulary *v, const void *text, size_t n, uint32_t **tokens,
                                     size_t *n_tokens);
#endif
