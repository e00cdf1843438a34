/* Names that people take for one: capitals, spaces, signs that are not seen, and letters that Unicode has in two forms. */
#ifndef SHOAL_BASE_ALIKE_H
#define SHOAL_BASE_ALIKE_H
#include <stdbool.h>
#include <stddef.h>

/** Whether two texts, UTF-8, are equal but for capitals, spaces of any kind, signs without width, the width of Latin letters, and
 *  accents that are a part of their letter in one and a sign behind it in the other (NFC, NFD).  Which accent it is does
 *  not count, and of letters beyond U+017F not which letter either. */
bool shoal_look_alike(const char *a, const char *b);
/** What such a pair differs in, behind "differ only in": "capitals", "spaces", "signs that look alike (U+00E1 and U+0061 U+0301)".
 *  Writes into `buf`, 96 bytes are enough, and returns it. */
const char *shoal_difference(const char *a, const char *b, char *buf, size_t cap);
/** The first pair among n texts that look alike: *first < *second; false if there is none, or if they are more than 1000. */
bool shoal_find_alike(const char *const *texts, size_t n, size_t *first, size_t *second);
#endif
