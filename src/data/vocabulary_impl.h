/* Private to vocabulary.c, which reads and writes, and vocabulary_encode.c. */
#ifndef SHOAL_DATA_VOCABULARY_IMPL_H
#define SHOAL_DATA_VOCABULARY_IMPL_H
#include "data/vocabulary.h"

#define SHOAL_NO_TOKEN UINT32_MAX

typedef struct {
  uint32_t left, right, merged; /* tokens */
} shoal_merge;

struct shoal_vocabulary {
  uint8_t *bytes; /* of all tokens, one behind the other */
  size_t *at;     /* [n + 1] where each begins */
  size_t n;
  shoal_merge *merge; /* [n_merges] the earliest first */
  size_t n_merges;
  uint32_t *slot;        /* [slots] hash table: number of a merge, or SHOAL_NO_TOKEN */
  size_t slots;          /* a power of two */
  uint32_t of_byte[256]; /* the token of a single byte, or SHOAL_NO_TOKEN */
};

/** The number of the merge of two tokens, or SHOAL_NO_TOKEN. */
uint32_t shoal_vocabulary_find(const shoal_vocabulary *v, uint32_t left, uint32_t right);
/** The length in bytes, above 0, of the piece that n > 0 bytes begin with. */
size_t shoal_vocabulary_piece(const uint8_t *text, size_t n);
#endif
