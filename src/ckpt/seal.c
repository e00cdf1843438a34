/* The seal: allows verifying a checkpoint without HDF5.
 *
 *   +--------------------------+----------------+---------+
 *   | HDF5 file, complete      | index, text    | seal    |    any HDF5 reader can open this, because HDF5 stores the
 *   +--------------------------+----------------+---------+    end of its part and ignores what follows
 *   0                  hdf5_bytes    + index_bytes     + 40
 *
 * Checksums inside an HDF5 file can only be found by HDF5, which crashes on some damaged files: flipping single bytes
 * of the metadata of a 14 KB file made HDF5 1.10.8 crash or hang 50 times in 10 000 (segmentation fault, stack
 * smashing, infinite loop).  A resume must not crash on a file that it should skip.  So the end of the file holds a
 * CRC-32C of all bytes before it and the offset of each data set.  Plain reads detect and locate damage; HDF5 opens
 * only files that are byte for byte as written.
 *
 * A file rewritten by another program has lost its seal and is rejected, because its contents were never verified. */
#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/ckpt_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The last 40 bytes, little-endian. */
typedef struct {
  char magic[8];
  uint64_t hdf5_bytes, index_bytes;
  uint32_t hdf5_crc, index_crc, version, crc; /* crc: of the 36 bytes before it */
} seal_bytes;
_Static_assert(sizeof(seal_bytes) == 40, "the seal is 40 bytes long");
static const char magic[8] = { 'S', 'H', 'O', 'A', 'L', 'E', 'N', 'D' };

shoal_status shoal_ckpt_read_at(int fd, const char *path, uint64_t offset, void *data, size_t n)
{
  for (size_t done = 0; done < n;) {
    ssize_t got = pread(fd, (char *)data + done, n - done, (off_t)(offset + done));
    if (got < 0 && errno == EINTR) continue;
    SHOAL_CHECK(got >= 0, SHOAL_ERR_IO, "%s: reading at byte %" PRIu64 " failed: %s", path, offset + done,
                strerror(errno));
    SHOAL_CHECK(got > 0, SHOAL_ERR_IO, "%s: ends at byte %" PRIu64 ", %zu bytes early", path, offset + done, n - done);
    done += (size_t)got;
  }
  return SHOAL_OK;
}

shoal_status shoal_ckpt_crc_range(int fd, const char *path, uint64_t offset, uint64_t bytes, uint32_t *crc_out)
{
  unsigned char *piece = NULL;
  uint32_t crc = 0;
  shoal_status st =
      shoal_alloc((size_t)SHOAL_MIN(bytes, (uint64_t)SHOAL_CKPT_PIECE), 1, "check buffer", (void **)&piece);
  for (uint64_t done = 0; st == SHOAL_OK && done < bytes;) {
    size_t n = (size_t)SHOAL_MIN(bytes - done, (uint64_t)SHOAL_CKPT_PIECE);
    st = shoal_ckpt_read_at(fd, path, offset + done, piece, n);
    if (st == SHOAL_OK) crc = shoal_crc32c(crc, piece, n);
    done += n;
  }
  free(piece);
  if (st == SHOAL_OK) *crc_out = crc;
  return st;
}

/* ---- writing ---- */

/* One line per data set: name, type, shape, CRC-32C, offset, separated by tabs. */
static void index_print(const shoal_ckpt_index *index, shoal_str *out)
{
  for (size_t i = 0; i < index->n; i++) {
    const shoal_ckpt_entry *e = &index->at[i];
    shoal_str_add(out, "%s\t%s\t", e->name, shoal_dtype_name(e->type));
    if (e->ndim == 0) shoal_str_add(out, "scalar");
    for (int d = 0; d < e->ndim; d++) shoal_str_add(out, "%s%" PRIu64, d ? "x" : "", e->dims[d]);
    shoal_str_add(out, "\t%08" PRIx32 "\t%" PRIu64 "\n", e->crc, e->offset);
  }
}

static shoal_status write_fault(const char *path, int error)
{
  uint64_t free_bytes;
  const char *type;
  char amount[32];
  if (error == ENOSPC && shoal_disk_facts(path, &free_bytes, &type) == SHOAL_OK)
    return SHOAL_FAIL(SHOAL_ERR_IO, "cannot write %s: %s (%s free on %s)", path, strerror(error),
                      shoal_format_bytes((double)free_bytes, amount, sizeof amount), type);
  return SHOAL_FAIL(SHOAL_ERR_IO, "cannot write %s: %s", path, strerror(error));
}

shoal_status shoal_ckpt_write_at(int fd, const char *path, uint64_t offset, const void *data, size_t n)
{
  for (size_t done = 0; done < n;) {
    ssize_t put = pwrite(fd, (const char *)data + done, n - done, (off_t)(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return write_fault(path, errno);
    done += (size_t)put;
  }
  return SHOAL_OK;
}

static shoal_status append_seal(int fd, const char *path, const shoal_str *text)
{
  struct stat file;
  SHOAL_CHECK(fstat(fd, &file) == 0, SHOAL_ERR_IO, "%s: %s", path, strerror(errno));
  seal_bytes s = { .hdf5_bytes = (uint64_t)file.st_size, .index_bytes = text->len, .version = SHOAL_CKPT_VERSION };
  memcpy(s.magic, magic, sizeof magic);
  SHOAL_TRY(shoal_ckpt_crc_range(fd, path, 0, s.hdf5_bytes, &s.hdf5_crc));
  s.index_crc = shoal_crc32c(0, text->text, text->len);
  s.crc = shoal_crc32c(0, &s, offsetof(seal_bytes, crc));
  SHOAL_TRY(shoal_ckpt_write_at(fd, path, s.hdf5_bytes, text->text, text->len));
  SHOAL_TRY(shoal_ckpt_write_at(fd, path, s.hdf5_bytes + text->len, &s, sizeof s));
  if (fsync(fd) != 0) return write_fault(path, errno);
  posix_fadvise(fd, 0, 0,
                POSIX_FADV_DONTNEED); /* only a hint; if ignored, the verification reads from the page cache */
  return SHOAL_OK;
}

shoal_status shoal_ckpt_seal_write(const char *path, const shoal_ckpt_index *index)
{
  shoal_str text = { 0 };
  int fd = open(path, O_RDWR | O_CLOEXEC);
  SHOAL_CHECK(fd >= 0, SHOAL_ERR_IO, "cannot open %s: %s", path, strerror(errno));
  index_print(index, &text);
  shoal_status st = append_seal(fd, path, &text);
  if (close(fd) != 0 && st == SHOAL_OK) st = write_fault(path, errno);
  shoal_str_free(&text);
  return st;
}

/* ---- reading ---- */

static bool parse_type(const char *word, shoal_dtype *out)
{
  for (shoal_dtype t = SHOAL_F32; t <= SHOAL_U64; t++)
    if (strcmp(word, shoal_dtype_name(t)) == 0) {
      *out = t;
      return true;
    }
  return false;
}

static bool parse_shape(const char *text, shoal_ckpt_entry *e)
{
  if (strcmp(text, "scalar") == 0) return true;
  for (const char *at = text;; at++) {
    char *end;
    if (*at < '0' || *at > '9' || e->ndim == SHOAL_CKPT_MAX_DIMS) return false;
    errno = 0;
    e->dims[e->ndim++] = strtoull(at, &end, 10);
    if (errno || (*end != 'x' && *end != '\0')) return false;
    if (!*end) return true;
    at = end;
  }
}

/* Names end up in messages and in paths of other files. */
static bool good_name(const char *name)
{
  size_t n = strlen(name);
  for (size_t i = 0; i < n; i++)
    if (name[i] <= ' ' || name[i] > '~') return false;
  return n > 0 && n <= SHOAL_CKPT_MAX_NAME;
}

/* Parses one line of the index, which is split in place.  Fields after the fifth are reserved for later versions. */
static bool parse_line(char *line, uint64_t hdf5_bytes, shoal_ckpt_index *index)
{
  char *field[5], *rest = line, *end1, *end2;
  for (int i = 0; i < 5; i++)
    if (!(field[i] = strsep(&rest, "\t"))) return false;
  shoal_ckpt_entry *e = good_name(field[0]) ? shoal_ckpt_index_add(index, field[0]) : NULL;
  if (!e || !parse_type(field[1], &e->type) || !parse_shape(field[2], e)) return false;
  if (shoal_ckpt_elements(e->type, e->ndim, e->dims, &e->n) != SHOAL_OK) return false;
  e->bytes = e->n * shoal_dtype_size(e->type);
  e->crc = (uint32_t)strtoul(field[3], &end1, 16);
  e->offset = strtoull(field[4], &end2, 10);
  return !*end1 && !*end2 && e->bytes <= hdf5_bytes && e->offset <= hdf5_bytes - e->bytes;
}

static shoal_status parse_index(char *text, const char *path, uint64_t hdf5_bytes, shoal_ckpt_index *index)
{
  for (char *line, *rest = text; (line = strsep(&rest, "\n")) && rest;)
    SHOAL_CHECK(parse_line(line, hdf5_bytes, index), SHOAL_ERR_IO, "%s: line %zu of its index is invalid", path,
                index->n);
  shoal_ckpt_index_sort(index);
  for (size_t i = 1; i < index->n; i++)
    SHOAL_CHECK(strcmp(index->at[i - 1].name, index->at[i].name) != 0, SHOAL_ERR_IO, "%s: its index lists %s twice",
                path, index->at[i].name);
  return SHOAL_OK;
}

static shoal_status read_index(int fd, const char *path, const shoal_ckpt_seal *seal, shoal_ckpt_index *index)
{
  char *text = NULL;
  shoal_status st;
  SHOAL_TRY(shoal_alloc((size_t)seal->index_bytes + 1, 1, "checkpoint index", (void **)&text));
  SHOAL_TRY_GOTO(st, shoal_ckpt_read_at(fd, path, seal->hdf5_bytes, text, (size_t)seal->index_bytes), out);
  SHOAL_CHECK_GOTO(st, shoal_crc32c(0, text, (size_t)seal->index_bytes) == seal->index_crc, out, SHOAL_ERR_IO,
                   "%s: its index is damaged: checksum %08" PRIx32 " stands in the seal, %08" PRIx32 " comes out", path,
                   seal->index_crc, shoal_crc32c(0, text, (size_t)seal->index_bytes));
  st = parse_index(text, path, seal->hdf5_bytes, index);
out:
  free(text);
  return st;
}

/* Checks type, size, signature and seal, because files that are not checkpoints need different remedies. */
static shoal_status look_at_ends(int fd, const char *path, uint64_t *size, seal_bytes *s)
{
  static const unsigned char signature[8] = { 0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n' };
  unsigned char first[8] = { 0 };
  struct stat file;
  SHOAL_CHECK(fstat(fd, &file) == 0, SHOAL_ERR_IO, "%s: %s", path, strerror(errno));
  SHOAL_CHECK(S_ISREG(file.st_mode), SHOAL_ERR_IO, "%s is not a regular file", path);
  *size = (uint64_t)file.st_size;
  SHOAL_CHECK(*size > 0, SHOAL_ERR_IO, "%s is empty (0 bytes)", path);
  SHOAL_TRY(shoal_ckpt_read_at(fd, path, 0, first, (size_t)SHOAL_MIN(*size, sizeof first)));
  SHOAL_CHECK(memcmp(first, signature, sizeof first) == 0, SHOAL_ERR_IO, "%s is not an HDF5 file (%" PRIu64 " bytes)",
              path, *size);
  bool sealed = *size > sizeof *s;
  if (sealed) {
    SHOAL_TRY(shoal_ckpt_read_at(fd, path, *size - sizeof *s, s, sizeof *s));
    sealed = memcmp(s->magic, magic, sizeof magic) == 0;
  }
  SHOAL_CHECK(sealed, SHOAL_ERR_IO,
              "%s does not end with the seal of a finished checkpoint (%" PRIu64
              " bytes): it was cut short, or changed by another program",
              path, *size);
  return SHOAL_OK;
}

shoal_status shoal_ckpt_seal_read(int fd, const char *path, shoal_ckpt_seal *seal, shoal_ckpt_index *index)
{
  seal_bytes s;
  uint64_t size = 0;
  SHOAL_TRY(look_at_ends(fd, path, &size, &s));
  SHOAL_CHECK(shoal_crc32c(0, &s, offsetof(seal_bytes, crc)) == s.crc, SHOAL_ERR_IO,
              "%s: its seal (the last %zu bytes) is damaged", path, sizeof s);
  SHOAL_CHECK(s.version >= 1 && s.version <= SHOAL_CKPT_VERSION, SHOAL_ERR_IO,
              "%s is of checkpoint format %" PRIu32 ", this Shoal reads up to %d: use a newer Shoal", path, s.version,
              SHOAL_CKPT_VERSION);
  SHOAL_CHECK(s.hdf5_bytes < size && s.index_bytes == size - sizeof s - s.hdf5_bytes, SHOAL_ERR_IO,
              "%s has %" PRIu64 " bytes, but its seal speaks of %" PRIu64, path, size,
              s.hdf5_bytes + s.index_bytes + sizeof s);
  seal->hdf5_bytes = s.hdf5_bytes;
  seal->index_bytes = s.index_bytes;
  seal->hdf5_crc = s.hdf5_crc;
  seal->index_crc = s.index_crc;
  return read_index(fd, path, seal, index);
}
