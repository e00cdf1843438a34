/* Checkpoints: one whose checksums hold can be shown; any other is refused before HDF5 sees it.
 *
 * A mutated file is nearly always refused by its checksums, so each input is tried once more, sealed again as somebody
 * would who makes a file up: then it is HDF5's metadata that is wrong.  HDF5 may crash on it, in its child process only.
 *
 * An input that begins with "SHOALSET" is a checkpoint in four files: their lengths, then the files, the main one first
 * (seeds/ckpt).  Each shard gets the name that the main file's index asks for, and nothing else may be touched. */
#include "report/ckpt.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "ckpt/ckpt_impl.h"
#include "ckpt/draft.h"
#include "fuzz/fuzz.h"
#include <inttypes.h>

typedef struct {
  char magic[8];
  uint64_t hdf5_bytes, index_bytes;
  uint32_t hdf5_crc, index_crc, version, crc;
} seal_bytes; /* as in ckpt/seal.c */

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most);

/* Makes the checksums of the file right.  False if it is too short for an index of the length that its seal names. */
static bool seal_again(uint8_t *data, size_t n)
{
  seal_bytes s;
  if (n < sizeof s) return false;
  memcpy(&s, data + n - sizeof s, sizeof s);
  if (s.index_bytes > n - sizeof s) return false;
  s.hdf5_bytes = n - sizeof s - s.index_bytes;
  s.hdf5_crc = shoal_crc32c(0, data, s.hdf5_bytes);
  s.index_crc = shoal_crc32c(0, data + s.hdf5_bytes, s.index_bytes);
  s.crc = shoal_crc32c(0, &s, offsetof(seal_bytes, crc));
  memcpy(data + n - sizeof s, &s, sizeof s);
  return true;
}

/* ---- several files ---- */

enum { FILES = 4 };
static const char magic[8] = { 'S', 'H', 'O', 'A', 'L', 'S', 'E', 'T' };
typedef struct {
  uint8_t *at;
  uint32_t n;
} file_bytes;

/* The files of an input, at most FILES of them; the last one has what is left.  0: it is no set. */
static int unpack(uint8_t *data, size_t n, file_bytes file[FILES])
{
  uint32_t lengths[FILES];
  size_t head = sizeof magic + sizeof lengths;
  if (n < head || memcmp(data, magic, sizeof magic) != 0) return 0;
  memcpy(lengths, data + sizeof magic, sizeof lengths);
  uint8_t *at = data + head, *end = data + n;
  for (int i = 0; i < FILES; i++) {
    size_t left = (size_t)(end - at), length = lengths[i] < left && i < FILES - 1 ? lengths[i] : left;
    file[i] = (file_bytes){ at, (uint32_t)length };
    at += length;
  }
  return FILES;
}

/* Seals all files again and writes the shards' seals into the main file's index, where it has lines for them. */
static void seal_set(file_bytes *file)
{
  char line[64];
  for (int i = 1; i < FILES; i++) {
    if (!seal_again(file[i].at, file[i].n)) continue;
    uint32_t crc;
    memcpy(&crc, file[i].at + file[i].n - sizeof crc, sizeof crc);
    int n = snprintf(line, sizeof line, "shard\t%d\t%" PRIu32 "\t", i, file[i].n);
    uint8_t *found = memmem(file[0].at, file[0].n, line, (size_t)n);
    if (!found || (size_t)(file[0].at + file[0].n - found) < (size_t)n + 8) continue;
    snprintf(line, sizeof line, "%08" PRIx32, crc);
    memcpy(found + n, line, 8);
  }
  seal_again(file[0].at, file[0].n);
}

/* Three times in four a few bytes before the seal change in place: what moves all offsets is soon found out. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed)
{
  enum { PIECE = 16 };
  uint8_t piece[PIECE];
  unsigned random = seed;
  size_t head =
      n > sizeof magic && memcmp(data, magic, sizeof magic) == 0 ? sizeof magic + FILES * sizeof(uint32_t) : 0;
  if ((rand_r(&random) % 4 == 0 && head == 0) || n < head + sizeof(seal_bytes) + PIECE)
    return LLVMFuzzerMutate(data, n, most);
  for (int i = 0; i <= rand_r(&random) % 4; i++) {
    uint8_t *at = data + head + (size_t)rand_r(&random) % (n - head - sizeof(seal_bytes) - PIECE);
    size_t length = 1 + (size_t)rand_r(&random) % PIECE;
    memcpy(piece, at, length);
    memcpy(at, piece, LLVMFuzzerMutate(piece, length, length));
  }
  return n;
}

/* A shard verifies, but it is no checkpoint that could be opened. */
static bool is_shard(const char *path)
{
  shoal_ckpt *c = NULL;
  bool shard = shoal_ckpt_open_seal(path, &c) == SHOAL_OK && c->index.number > 0;
  shoal_ckpt_close(c);
  return shard;
}

static void read_it(const char *path)
{
  const char *model = fuzz_path("model.h5");
  bool different = true;
  shoal_ckpt *c;
  bool verified = shoal_ckpt_open(path, true, &c) == SHOAL_OK;
  if (verified) {
    shoal_ckpt_close(c);
    FUZZ_CHECK(shoal_ckpt_verify(path, fuzz_sink()) == SHOAL_OK);
    FUZZ_CHECK(shoal_ckpt_print(path, true, fuzz_sink()) == SHOAL_OK);
    FUZZ_CHECK(shoal_ckpt_diff(path, path, NULL, NULL, 0, true, fuzz_sink(), &different) != SHOAL_OK || !different);
    (void)shoal_ckpt_export(path, NULL, model);
    unlink(model);
  } else {
    FUZZ_CHECK(shoal_ckpt_verify(path, fuzz_sink()) != SHOAL_OK || is_shard(path));
    (void)shoal_ckpt_print(path, false, fuzz_sink());
  }
}

/* Writes the shards under the names that the main file's index leads to, which must be beside it, and reads the checkpoint. */
static void read_set(const file_bytes *file)
{
  shoal_ckpt *c = NULL;
  char *shard[FILES] = { 0 }, *path = strdup(fuzz_file("step-000000001.h5", file[0].at, file[0].n));
  FUZZ_CHECK(path);
  const size_t folder = (size_t)(strrchr(path, '/') - path) + 1;
  if (shoal_ckpt_open_seal(path, &c) == SHOAL_OK)
    for (int i = 1; i < FILES; i++) {
      shard[i] = shoal_ckpt_shard_path(path, c->index.save, (uint32_t)i);
      FUZZ_CHECK(strncmp(shard[i], path, folder) == 0 && !strchr(shard[i] + folder, '/'));
      FILE *f = fopen(shard[i], "w");
      FUZZ_CHECK(f && fwrite(file[i].at, 1, file[i].n, f) == file[i].n && fclose(f) == 0);
    }
  shoal_ckpt_close(c);
  read_it(path);
  for (int i = 1; i < FILES; i++) {
    if (shard[i]) unlink(shard[i]);
    free(shard[i]);
  }
  free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  file_bytes file[FILES];
  uint8_t *own = malloc(n + 1);
  FUZZ_CHECK(own);
  if (n > 0) memcpy(own, data, n);
  if (unpack(own, n, file)) {
    read_set(file);
    seal_set(file);
    read_set(file);
  } else {
    read_it(fuzz_file("step-000000001.h5", own, n));
    if (seal_again(own, n)) read_it(fuzz_file("step-000000001.h5", own, n));
  }
  free(own);
  return 0;
}
