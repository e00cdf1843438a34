/* Source files of imports: plain or gzip, recognised by their first two bytes, not by their name.
 *
 * zlib reads both through one function.  It does not report truncation by itself: a gzip file whose download was
 * interrupted just ends early, and only gzerror() tells.  Every read here checks it. */
#include "base/file.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

struct shoal_source {
  char *path;
  gzFile file;
  uint64_t offset, size; /* size: of the file as it is stored */
  bool packed;
};

shoal_status shoal_source_open(const char *path, shoal_source **out)
{
  int fd;
  uint64_t size;
  SHOAL_TRY(shoal_open_file(path, &fd, &size));
  gzFile file = gzdopen(fd, "rb");
  if (!file) {
    close(fd);
    return SHOAL_FAIL(SHOAL_ERR_MEM, "out of memory for reading %s", path);
  }
  gzbuffer(file, 256 * 1024);
  shoal_source *s;
  shoal_status st = SHOAL_ALLOC(1, &s);
  if (st != SHOAL_OK) {
    gzclose(file);
    return st;
  }
  *s = (shoal_source){ .path = shoal_strdup_printf("%s", path), .file = file, .size = size, .packed = !gzdirect(file) };
  *out = s;
  return SHOAL_OK;
}

uint64_t shoal_source_most(const shoal_source *s)
{
  enum { DEFLATE = 1032 }; /* bytes that one byte of a deflate stream can become */
  return s->packed ? s->size * DEFLATE : s->size;
}

uint64_t shoal_source_stored(const shoal_source *s)
{
  return s->size;
}

bool shoal_source_is_packed(const shoal_source *s)
{
  return s->packed;
}

void shoal_source_close(shoal_source *s)
{
  if (!s) return;
  gzclose(s->file);
  free(s->path);
  free(s);
}

static shoal_status stream_fault(const shoal_source *s)
{
  int code;
  const char *words = gzerror(s->file, &code);
  if (code == Z_ERRNO)
    return SHOAL_FAIL(SHOAL_ERR_IO, "cannot read %s at %s %llu: %s", s->path, shoal_source_unit(s),
                      (unsigned long long)s->offset, strerror(errno));
  if (code == Z_BUF_ERROR)
    return SHOAL_FAIL(SHOAL_ERR_IO, "%s is cut short: its gzip stream stops before its end; fetch the file again",
                      s->path);
  return SHOAL_FAIL(SHOAL_ERR_IO, "%s is damaged (%s); fetch the file again", s->path, words);
}

/* What is packed tighter than this is a repetition made to fill memory or disks. */
enum { BOMB_BYTES = 64 << 20, BOMB_RATIO = 250 };

shoal_status shoal_check_unpacked(const char *what, uint64_t packed, uint64_t unpacked, const char *cure)
{
  char before[32], after[32];
  SHOAL_CHECK(unpacked < BOMB_BYTES || unpacked / BOMB_RATIO < packed, SHOAL_ERR_IO,
              "%s unpacks to more than %d times its size (%s to %s or more), which data does not: if it is right, %s",
              what, BOMB_RATIO, shoal_format_bytes((double)packed, before, sizeof before),
              shoal_format_bytes((double)unpacked, after, sizeof after), cure);
  return SHOAL_OK;
}

shoal_status shoal_source_check(const shoal_source *s, uint64_t bytes)
{
  return s->packed ? shoal_check_unpacked(s->path, s->size, bytes, "unpack it first (gunzip)") : SHOAL_OK;
}

shoal_status shoal_source_read(shoal_source *s, void *data, size_t n, size_t *got_out)
{
  enum { STEP = 16 << 20 };
  size_t got = 0;
  int code;
  while (got < n) {
    int part = gzread(s->file, (char *)data + got, (unsigned)SHOAL_MIN(n - got, (size_t)STEP));
    if (part > 0) {
      got += (size_t)part;
      s->offset += (uint64_t)part;
      SHOAL_TRY(shoal_source_check(s, s->offset));
    }
    if (part <= 0) break;
  }
  gzerror(s->file, &code);
  if (code != Z_OK && code != Z_STREAM_END) return stream_fault(s);
  *got_out = got;
  return SHOAL_OK;
}

uint64_t shoal_source_offset(const shoal_source *s)
{
  return s->offset;
}

const char *shoal_source_unit(const shoal_source *s)
{
  return s->packed ? "unpacked byte" : "byte";
}

shoal_status shoal_import_plain_bytes(const shoal_import_args *a, uint64_t *out)
{
  *out = 0;
  for (size_t i = 0; i < a->n_sources; i++) {
    shoal_source *s;
    SHOAL_TRY(shoal_source_open(a->sources[i], &s));
    *out += s->packed ? 0 : s->size;
    shoal_source_close(s);
  }
  return SHOAL_OK;
}

shoal_status shoal_source_slurp(const char *path, char **text_out, size_t *n_out)
{
  shoal_source *s;
  char *text = NULL;
  size_t cap = 0, n = 0, got;
  SHOAL_TRY(shoal_source_open(path, &s));
  shoal_status st;
  do {
    cap = cap ? 2 * cap : 1 << 20;
    SHOAL_TRY_GOTO(st, shoal_limit_memory(path, "the text", cap, 1), fail);
    char *more = realloc(text, cap);
    SHOAL_CHECK_GOTO(st, more, fail, SHOAL_ERR_MEM, "out of memory: %zu bytes for %s", cap, path);
    text = more;
    SHOAL_TRY_GOTO(st, shoal_source_read(s, text + n, cap - 1 - n, &got), fail);
    n += got;
  } while (n == cap - 1);
  text[n] = '\0';
  SHOAL_CHECK_GOTO(st, n > 0, fail, SHOAL_ERR_IO, "%s is empty", path);
  shoal_source_close(s);
  *text_out = text;
  *n_out = n;
  return SHOAL_OK;
fail:
  free(text);
  shoal_source_close(s);
  return st;
}
