/* Files that are not what their names say: known by their first bytes, wherever a file of another program is read. */
#ifndef SHOAL_BASE_ALIEN_H
#define SHOAL_BASE_ALIEN_H
#include "base/status.h"
#include <stddef.h>

typedef struct {
  const char *what,
      *cure; /* what: NULL for a file that is not recognised; cure: NULL where that depends on what was wanted */
} shoal_alien;
/** What stands in place of a file whose download failed, or a file of PyTorch; n first bytes. */
shoal_alien shoal_find_alien(const unsigned char *head, size_t n);
/** ERR_IO, "PATH is a web page: ...", if a file that should hold a network or its weights is one; `head` as above. */
shoal_status shoal_refuse_alien_weights(const char *path, const unsigned char *head, size_t n);
enum { SHOAL_TEXT_START = 16 };
/** The first characters of a text, behind blanks and a byte-order mark, ended by NUL. */
void shoal_text_start(const unsigned char *head, size_t n, char start[SHOAL_TEXT_START]);
#endif
