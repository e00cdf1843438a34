/* Characters of UTF-8, and the classes of Unicode by which GPT-2 cuts texts. */
#ifndef SHOAL_DATA_UNICODE_H
#define SHOAL_DATA_UNICODE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHOAL_NO_CHARACTER UINT32_MAX

/** The character that n > 0 bytes begin with, and its length; of a byte that begins no valid one (overlong forms and surrogates are
 *  none) SHOAL_NO_CHARACTER, with length 1. */
uint32_t shoal_utf8_next(const uint8_t *text, size_t n, size_t *bytes);
bool shoal_is_letter(uint32_t c);      /* general category L, of Unicode 14 */
bool shoal_is_number(uint32_t c);      /* general category N */
bool shoal_is_white_space(uint32_t c); /* property White_Space */
#endif
