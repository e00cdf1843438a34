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
#include "base/alien.h"
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

/* The save and which of its files this is; a line per shard; a line per data set.  Fields are separated by tabs. */
static void index_print(const shoal_ckpt_index *index, shoal_str *out)
{
  shoal_str_add(out, "save\t%s\t%" PRIu32 "\t%zu\n", index->save, index->number, index->n_shards);
  for (size_t i = 0; i < index->n_shards; i++)
    shoal_str_add(out, "shard\t%zu\t%" PRIu64 "\t%08" PRIx32 "\n", i + 1, index->shards[i].bytes,
                  index->shards[i].seal);
  for (size_t i = 0; i < index->n; i++) {
    const shoal_ckpt_entry *e = &index->at[i];
    shoal_str_add(out, "%s\t%s\t", e->name, shoal_dtype_name(e->type));
    if (e->ndim == 0) shoal_str_add(out, "scalar");
    for (int d = 0; d < e->ndim; d++) shoal_str_add(out, "%s%" PRIu64, d ? "x" : "", e->dims[d]);
    shoal_str_add(out, "\t%08" PRIx32 "\t%" PRIu64 "\t%" PRIu32 "\n", e->crc, e->offset, e->shard);
  }
}

shoal_status shoal_ckpt_write_at(int fd, const char *path, uint64_t offset, const void *data, size_t n)
{
  for (size_t done = 0; done < n;) {
    ssize_t put = pwrite(fd, (const char *)data + done, n - done, (off_t)(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return shoal_io_fault("write", path, errno);
    done += (size_t)put;
  }
  return SHOAL_OK;
}

static int by_offset(const void *a, const void *b)
{
  uint64_t x = (*(const shoal_ckpt_entry *const *)a)->offset, y = (*(const shoal_ckpt_entry *const *)b)->offset;
  return (x > y) - (x < y);
}

/* The file's checksum from those of its data sets, which were taken in memory before writing: only what lies between them is
 * read.  The verification reads it all. */
static shoal_status crc_around(int fd, const char *path, const shoal_ckpt_index *index, uint64_t bytes, uint32_t *out)
{
  const shoal_ckpt_entry **set;
  size_t n = 0;
  uint64_t at = 0;
  uint32_t between;
  *out = 0;
  SHOAL_TRY(SHOAL_ALLOC(index->n, &set));
  for (size_t i = 0; i < index->n; i++)
    if (index->at[i].shard == index->number && index->at[i].bytes > 0) set[n++] = &index->at[i];
  if (n > 1) qsort(set, n, sizeof *set, by_offset);
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; st == SHOAL_OK && i <= n; i++) {
    const uint64_t next = i < n ? set[i]->offset : bytes;
    if (next < at) continue; /* another name of the one before */
    st = shoal_ckpt_crc_range(fd, path, at, next - at, &between);
    if (st == SHOAL_OK) *out = shoal_crc32c_join(*out, between, next - at);
    if (i < n) *out = shoal_crc32c_join(*out, set[i]->crc, set[i]->bytes);
    if (i < n) at = next + set[i]->bytes;
  }
  free(set);
  return st;
}

static shoal_status append_seal(int fd, const char *path, const shoal_ckpt_index *index, const shoal_str *text)
{
  struct stat file;
  SHOAL_CHECK(fstat(fd, &file) == 0, SHOAL_ERR_IO, "%s: %s", path, strerror(errno));
  seal_bytes s = { .hdf5_bytes = (uint64_t)file.st_size, .index_bytes = text->len, .version = SHOAL_CKPT_VERSION };
  memcpy(s.magic, magic, sizeof magic);
  SHOAL_TRY(crc_around(fd, path, index, s.hdf5_bytes, &s.hdf5_crc));
  s.index_crc = shoal_crc32c(0, text->text, text->len);
  s.crc = shoal_crc32c(0, &s, offsetof(seal_bytes, crc));
  SHOAL_TRY(shoal_ckpt_write_at(fd, path, s.hdf5_bytes, text->text, text->len));
  SHOAL_TRY(shoal_ckpt_write_at(fd, path, s.hdf5_bytes + text->len, &s, sizeof s));
  int error = shoal_sync(fd);
  if (error) return shoal_io_fault("write", path, error);
  posix_fadvise(fd, 0, 0,
                POSIX_FADV_DONTNEED); /* only a hint; if ignored, the verification reads from the page cache */
  return SHOAL_OK;
}

shoal_status shoal_ckpt_seal_write(const char *path, const shoal_ckpt_index *index)
{
  shoal_str text = { 0 };
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return shoal_io_fault("open", path, errno);
  index_print(index, &text);
  shoal_status st = append_seal(fd, path, index, &text);
  if (close(fd) != 0 && st == SHOAL_OK) st = shoal_io_fault("write", path, errno);
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

/* A number in digits only, at most `most`. */
static bool parse_count(const char *word, int base, uint64_t most, uint64_t *out)
{
  char *end;
  if (strspn(word, base == 16 ? "0123456789abcdef" : "0123456789") != strlen(word) || !*word) return false;
  errno = 0;
  *out = strtoull(word, &end, base);
  return errno == 0 && !*end && *out <= most;
}

/* Splits a line in place into n fields; those after them are reserved for later versions. */
static bool split(char *line, int n, char **field)
{
  for (int i = 0; i < n; i++)
    if (!(field[i] = strsep(&line, "\t"))) return false;
  return true;
}

/* "save, random number, number of the file, number of shards". */
static bool parse_save(char *line, shoal_ckpt_index *x)
{
  char *field[4];
  uint64_t number, shards;
  if (!split(line, 4, field) || strcmp(field[0], "save") != 0) return false;
  if (strlen(field[1]) != sizeof x->save - 1 || strspn(field[1], "0123456789abcdef") != sizeof x->save - 1)
    return false;
  memcpy(x->save, field[1], sizeof x->save);
  if (!parse_count(field[2], 10, SHOAL_CKPT_MOST_RANKS, &number)) return false;
  if (!parse_count(field[3], 10, number ? 0 : SHOAL_CKPT_MOST_RANKS, &shards)) return false;
  x->number = (uint32_t)number;
  x->n_shards = (size_t)shards;
  return true;
}

/* "shard, its number, bytes of the file, checksum of its seal". */
static bool parse_shard(char *line, size_t k, shoal_ckpt_shard *out)
{
  char *field[4];
  uint64_t number, seal;
  if (!split(line, 4, field) || strcmp(field[0], "shard") != 0) return false;
  if (!parse_count(field[1], 10, k, &number) || number != k) return false;
  if (!parse_count(field[2], 10, INT64_MAX, &out->bytes) || !parse_count(field[3], 16, UINT32_MAX, &seal)) return false;
  out->seal = (uint32_t)seal;
  return true;
}

/* The bytes that a data set can be in: of this file's HDF5 part, or of a shard; 0 if there is no such shard. */
static uint64_t bytes_of_file(const shoal_ckpt_index *x, uint64_t hdf5_bytes, uint64_t shard)
{
  if (shard == x->number) return hdf5_bytes;
  return shard >= 1 && shard <= x->n_shards ? x->shards[shard - 1].bytes : 0;
}

/* Parses the line of a data set.  The sixth field, its shard, is missing in version 1. */
static bool parse_line(char *line, uint64_t hdf5_bytes, shoal_ckpt_index *index)
{
  char *field[6] = { 0 };
  uint64_t crc, shard = 0;
  if (!split(line, index->save[0] ? 6 : 5, field)) return false;
  shoal_ckpt_entry *e = good_name(field[0]) ? shoal_ckpt_index_add(index, field[0]) : NULL;
  if (!e || !parse_type(field[1], &e->type) || !parse_shape(field[2], e)) return false;
  if (shoal_ckpt_elements(e->type, e->ndim, e->dims, &e->n) != SHOAL_OK) return false;
  e->bytes = e->n * shoal_dtype_size(e->type);
  if (!parse_count(field[3], 16, UINT32_MAX, &crc) || !parse_count(field[4], 10, INT64_MAX, &e->offset)) return false;
  if (field[5] && !parse_count(field[5], 10, SHOAL_CKPT_MOST_RANKS, &shard)) return false;
  e->crc = (uint32_t)crc;
  e->shard = (uint32_t)shard;
  const uint64_t room = bytes_of_file(index, hdf5_bytes, shard);
  return room > 0 && e->bytes <= room && e->offset <= room - e->bytes;
}

/* Parses what stands before the data sets, from version 2 on; *rest moves on, *line counts lines. */
static shoal_status parse_head(char **rest, const char *path, shoal_ckpt_index *x, size_t *line)
{
  char *text = strsep(rest, "\n");
  SHOAL_CHECK(text && *rest && parse_save(text, x), SHOAL_ERR_IO, "%s: line 1 of its index is invalid", path);
  SHOAL_CHECK(x->n_shards <= strlen(*rest), SHOAL_ERR_IO, "%s: its index lists fewer than %zu shards", path,
              x->n_shards);
  SHOAL_TRY(SHOAL_ALLOC(SHOAL_MAX(x->n_shards, 1), &x->shards));
  for (*line = 1; *line <= x->n_shards; ++*line)
    SHOAL_CHECK((text = strsep(rest, "\n")) && *rest && parse_shard(text, *line, &x->shards[*line - 1]), SHOAL_ERR_IO,
                "%s: line %zu of its index is invalid", path, *line + 1);
  return SHOAL_OK;
}

static shoal_status parse_index(char *text, const char *path, const shoal_ckpt_seal *seal, shoal_ckpt_index *index)
{
  char *rest = text;
  size_t head = 0, lines = 0;
  if (seal->version >= 2) SHOAL_TRY(parse_head(&rest, path, index, &head));
  for (char *line; (line = strsep(&rest, "\n")) && rest;) {
    lines++;
    SHOAL_CHECK(parse_line(line, seal->hdf5_bytes, index), SHOAL_ERR_IO, "%s: line %zu of its index is invalid", path,
                head + lines);
  }
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
  st = parse_index(text, path, seal, index);
out:
  free(text);
  return st;
}

/* Checks type, size, signature and seal, because files that are not checkpoints need different remedies. */
static shoal_status look_at_ends(int fd, const char *path, uint64_t *size, seal_bytes *s)
{
  static const unsigned char signature[8] = { 0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n' };
  unsigned char first[4096] = { 0 };
  struct stat file;
  SHOAL_CHECK(fstat(fd, &file) == 0, SHOAL_ERR_IO, "%s: %s", path, strerror(errno));
  SHOAL_CHECK(S_ISREG(file.st_mode), SHOAL_ERR_IO, "%s is not a regular file", path);
  *size = (uint64_t)file.st_size;
  SHOAL_CHECK(*size > 0, SHOAL_ERR_IO, "%s is empty (0 bytes)", path);
  const size_t n = (size_t)SHOAL_MIN(*size, sizeof first);
  SHOAL_TRY(shoal_ckpt_read_at(fd, path, 0, first, n));
  SHOAL_TRY(shoal_refuse_alien_weights(path, first, n));
  SHOAL_CHECK(memcmp(first, signature, sizeof signature) == 0, SHOAL_ERR_IO,
              "%s is not an HDF5 file (%" PRIu64 " bytes), as checkpoints of Shoal are; safetensors and ONNX of other "
              "programs are weights that a run begins with, "
              "by model.weights",
              path, *size);
  bool sealed = *size > sizeof *s;
  if (sealed) {
    SHOAL_TRY(shoal_ckpt_read_at(fd, path, *size - sizeof *s, s, sizeof *s));
    sealed = memcmp(s->magic, magic, sizeof magic) == 0;
  }
  SHOAL_CHECK(
      sealed, SHOAL_ERR_IO,
      "%s does not end with the seal of a finished checkpoint (%" PRIu64
      " bytes): it was cut short, changed by another program, or is something else, as a data set or a model that "
      "`shoal ckpt export` wrote for others; copy it again, or give the run or its checkpoint",
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
  seal->version = s.version;
  seal->file = (shoal_ckpt_shard){ .bytes = size, .seal = s.crc };
  return read_index(fd, path, seal, index);
}
