/* Filtered chunks: whatever HDF5 wrote reads as HDF5 reads it, and chunks that somebody made up are refused before they
 * are anything but their own bytes. */
#include "base/mem.h"
#include "h5/table.h"
#include "unit/h5_temp.h"
#include <hdf5.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
  SHUFFLE = 1,
  DEFLATE = 2,
  SUM_FIRST = 4,
  SUM_LAST = 8,
  TWICE = 16,
  PLAIN_EDGES = 32,
  LATEST = 64,
  NOISE = 128,
  GAPS = 256
};

static hid_t filtered(int how, int ndim, const hsize_t *chunk)
{
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(list, ndim, chunk);
  if (how & SUM_FIRST) H5Pset_fletcher32(list);
  if (how & SHUFFLE) H5Pset_shuffle(list);
  if (how & DEFLATE) H5Pset_deflate(list, 6);
  if (how & TWICE) H5Pset_deflate(list, 1);
  if (how & SUM_LAST) H5Pset_fletcher32(list);
  if (how & PLAIN_EDGES) H5Pset_chunk_opts(list, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
  return list;
}

static hid_t fresh(const char *path, bool latest)
{
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  if (latest) H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  hid_t file = H5Fcreate(temp_fresh(path), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  H5Pclose(access);
  REQUIRE(file >= 0, "create");
  return file;
}

/* ---- the same as HDF5 ---- */

typedef struct {
  int ndim;
  hsize_t dims[4], chunk[4];
  bool grows;
} form;

static const form forms[] = {
  { 1, { 1000 }, { 64 }, false },
  { 1, { 3 }, { 64 }, true },
  { 2, { 37, 5 }, { 4, 5 }, false },
  { 3, { 20, 6, 7 }, { 3, 4, 7 }, false },
  { 4, { 9, 3, 5, 8 }, { 2, 2, 5, 3 }, false },
  { 4, { 6, 2, 3, 4 }, { 1, 2, 3, 4 }, true },
  { 2, { 50, 3 }, { 7, 8 }, true },
};

/* Writes values that pack well or not at all; with gaps only some of the rows. */
static void write_form(const char *path, const form *f, hid_t stored, int how)
{
  hsize_t most[4], start[4] = { 0 }, count[4];
  size_t n = 1, size = H5Tget_size(stored);
  for (int i = 0; i < f->ndim; i++) {
    n *= f->dims[i];
    most[i] = f->grows ? H5S_UNLIMITED : f->dims[i];
    count[i] = f->dims[i];
  }
  hid_t file = fresh(path, how & LATEST), space = H5Screate_simple(f->ndim, f->dims, most),
        list = filtered(how, f->ndim, f->chunk);
  const float fill = 17;
  if (how & GAPS) H5Pset_fill_value(list, H5T_NATIVE_FLOAT, &fill);
  hid_t set = H5Dcreate2(file, "x", stored, space, H5P_DEFAULT, list, H5P_DEFAULT);
  REQUIRE(set >= 0, "create");
  uint8_t *bytes = malloc(n * size);
  for (size_t i = 0; i < n * size; i++) bytes[i] = how & NOISE ? (uint8_t)(rand() >> 7) : (uint8_t)(i / 5 % 11);
  if (how & GAPS) {
    start[0] = f->dims[0] / 2;
    count[0] = 1;
  }
  hid_t memory = H5Screate_simple(f->ndim, count, NULL);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
  REQUIRE(H5Dwrite(set, stored, memory, space, H5P_DEFAULT, bytes) >= 0, "write");
  free(bytes);
  H5Sclose(memory);
  H5Dclose(set);
  H5Pclose(list);
  H5Sclose(space);
  H5Fclose(file);
}

static void compare(const char *path, const form *f, shoal_dtype type, hid_t native, const char *what)
{
  shoal_h5 file;
  shoal_h5_table *t;
  size_t n = 1, row, size = H5Tget_size(native);
  for (int i = 0; i < f->ndim; i++) n *= f->dims[i];
  row = n / f->dims[0] * size;
  uint8_t *want = malloc(n * size), *got = malloc(n * size + 1);
  hid_t plain = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(plain, "x", H5P_DEFAULT);
  REQUIRE(H5Dread(set, native, H5S_ALL, H5S_ALL, H5P_DEFAULT, want) >= 0, "%s", what);
  H5Dclose(set);
  H5Fclose(plain);
  REQUIRE(shoal_h5_open(path, &file) == SHOAL_OK, "open");
  memset(got, 0xa5, n * size + 1);
  CHECK_OK(shoal_h5_read(file, "x", type, n, got), "%s", what);
  CHECK_BYTES(got, want, n * size, "%s", what);
  CHECK_EQ(got[n * size], 0xa5);
  REQUIRE(shoal_h5_table_open(file, "x", &(shoal_h5_row){ type }, &t) == SHOAL_OK, "open");
  for (int i = 0; i < 40; i++) {
    uint64_t first = (uint64_t)rand() % f->dims[0], rows = 1 + (uint64_t)rand() % (f->dims[0] - first);
    memset(got, 0xa5, n * size + 1);
    CHECK_OK(shoal_h5_table_read(t, first, rows, got), "%s", what);
    CHECK_BYTES(got, want + first * row, rows * row, "%s, rows %d to %d", what, (int)first, (int)(first + rows) - 1);
    CHECK_EQ(got[rows * row], 0xa5, "%s: not one byte more", what);
  }
  shoal_h5_table_close(t);
  shoal_h5_close(file);
  free(want);
  free(got);
}

static void same_as_hdf5(const char *path)
{
  const struct {
    hid_t stored;
    shoal_dtype type;
    hid_t native;
    const char *name;
  } kinds[] = { { H5T_STD_U8LE, SHOAL_U8, H5T_NATIVE_UINT8, "u8" },
                { H5T_STD_I16BE, SHOAL_I64, H5T_NATIVE_INT64, "big-endian i16 to i64" },
                { H5T_IEEE_F64LE, SHOAL_F32, H5T_NATIVE_FLOAT, "f64 to f32" },
                { H5T_IEEE_F32LE, SHOAL_F32, H5T_NATIVE_FLOAT, "f32" } };
  static const int hows[] = { SHUFFLE,
                              DEFLATE,
                              SUM_LAST,
                              SHUFFLE | DEFLATE,
                              SHUFFLE | DEFLATE | SUM_LAST,
                              SUM_FIRST | SHUFFLE | DEFLATE,
                              SHUFFLE | DEFLATE | TWICE,
                              SHUFFLE | DEFLATE | NOISE, /* deflate is skipped */
                              DEFLATE | SUM_LAST | NOISE,
                              SHUFFLE | DEFLATE | LATEST,
                              SHUFFLE | DEFLATE | LATEST | PLAIN_EDGES,
                              SHUFFLE | DEFLATE | GAPS };
  char what[96];
  for (size_t f = 0; f < SHOAL_COUNT(forms); f++)
    for (size_t k = 0; k < SHOAL_COUNT(kinds); k++)
      for (size_t h = 0; h < SHOAL_COUNT(hows); h++) {
        snprintf(what, sizeof what, "form %zu, %s, filters %#x", f, kinds[k].name, (unsigned)hows[h]);
        write_form(path, &forms[f], kinds[k].stored, hows[h]);
        compare(path, &forms[f], kinds[k].type, kinds[k].native, what);
      }
}

/* Records: one member of several, one that the file lacks, and texts of a fixed length. */
static void records(const char *path)
{
  typedef struct {
    int64_t id;
    float x;
    char host[5];
  } record;
  static const shoal_h5_member ours[] = { { "x", offsetof(record, x), SHOAL_F32 },
                                          { "id", offsetof(record, id), SHOAL_I64, .optional = true },
                                          { "host", offsetof(record, host), SHOAL_U8, .text_bytes = 5 } };
  static const shoal_h5_struct wanted = { sizeof(record), 3, ours };
  enum { N = 50 };
  struct {
    double x;
    char host[5];
    int16_t more;
  } in[N];
  memset(in, 0, sizeof in);
  for (int i = 0; i < N; i++) {
    in[i].x = i / 2.0;
    in[i].more = -1;
    snprintf(in[i].host, sizeof in[i].host, "n%d", i);
  }
  hsize_t n = N, chunk = 8;
  hid_t file = fresh(path, false), space = H5Screate_simple(1, &n, NULL), list = filtered(SHUFFLE | DEFLATE, 1, &chunk),
        text = H5Tcopy(H5T_C_S1), type = H5Tcreate(H5T_COMPOUND, sizeof in[0]);
  H5Tset_size(text, 5);
  H5Tset_cset(text, H5T_CSET_UTF8);
  H5Tinsert(type, "more", (size_t)((char *)&in[0].more - (char *)&in[0]), H5T_NATIVE_INT16);
  H5Tinsert(type, "host", (size_t)((char *)&in[0].host - (char *)&in[0]), text);
  H5Tinsert(type, "x", 0, H5T_NATIVE_DOUBLE);
  hid_t set = H5Dcreate2(file, "x", type, space, H5P_DEFAULT, list, H5P_DEFAULT);
  REQUIRE(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, in) >= 0, "write");
  H5Dclose(set);
  H5Pclose(list);
  H5Tclose(text);
  H5Tclose(type);
  H5Sclose(space);
  H5Fclose(file);
  shoal_h5 again;
  shoal_h5_table *t;
  record out[N];
  memset(out, 0, sizeof out);
  REQUIRE(shoal_h5_open(path, &again) == SHOAL_OK, "open");
  REQUIRE(shoal_h5_table_open(again, "x", &(shoal_h5_row){ .members = &wanted }, &t) == SHOAL_OK, "open");
  CHECK_OK(shoal_h5_table_read(t, 3, N - 3, out + 3));
  for (int i = 0; i < N; i++) {
    CHECK_EQ(out[i].x, i < 3 ? 0 : i / 2.0F);
    CHECK_STR(out[i].host, i < 3 ? "" : in[i].host);
    CHECK_EQ(out[i].id, 0);
  }
  shoal_h5_table_close(t);
  shoal_h5_close(again);
}

/* ---- chunks that somebody made up ---- */

enum { ROWS = 16, CHUNK = 4, BYTES = CHUNK * 4 };

/* A file of i32 [ROWS] whose second chunk is stored as `bytes`, with the filters in `skipped` left out. */
static void craft(const char *path, int how, uint32_t skipped, const void *bytes, size_t n)
{
  int32_t x[ROWS];
  hsize_t dim = ROWS, chunk = CHUNK, at = CHUNK;
  for (int i = 0; i < ROWS; i++) x[i] = i;
  hid_t file = fresh(path, false), space = H5Screate_simple(1, &dim, NULL), list = filtered(how, 1, &chunk);
  hid_t set = H5Dcreate2(file, "x", H5T_STD_I32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  REQUIRE(H5Dwrite(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0, "write");
  REQUIRE(H5Dwrite_chunk(set, H5P_DEFAULT, skipped, &at, n, bytes) >= 0, "write a chunk");
  H5Dclose(set);
  H5Pclose(list);
  H5Sclose(space);
  H5Fclose(file);
}

static void expect(const char *path, const char *words, const char *what)
{
  int32_t x[ROWS];
  shoal_h5 file;
  shoal_h5_table *t;
  REQUIRE(shoal_h5_open(path, &file) == SHOAL_OK, "open");
  if (words)
    CHECK_REFUSED(shoal_h5_read(file, "x", SHOAL_I32, ROWS, x), SHOAL_ERR_IO, words);
  else
    CHECK_OK(shoal_h5_read(file, "x", SHOAL_I32, ROWS, x), "%s", what);
  REQUIRE(shoal_h5_table_open(file, "x", &(shoal_h5_row){ SHOAL_I32 }, &t) == SHOAL_OK, "open");
  for (uint64_t i = 0; i < ROWS; i++) {
    const bool hit = i / CHUNK == 1;
    x[0] = -77;
    if (hit && words)
      CHECK_REFUSED(shoal_h5_table_read(t, i, 1, x), SHOAL_ERR_IO, words);
    else
      CHECK_OK(shoal_h5_table_read(t, i, 1, x), "%s", what);
    CHECK_EQ(x[0], hit ? (words ? -77 : (int)(i - CHUNK) * 2) : (int)i, "%s: element %d", what, (int)i);
  }
  CHECK_EQ(shoal_h5_table_read_sound(t, 0, ROWS, x), words ? CHUNK : ROWS, "%s", what);
  shoal_h5_table_close(t);
  shoal_h5_close(file);
}

static size_t pack(const void *bytes, size_t n, uint8_t *out, size_t cap)
{
  uLongf size = cap;
  REQUIRE(compress2(out, &size, bytes, n, 9) == Z_OK, "pack");
  return size;
}

static void made_up(const char *path)
{
  static uint8_t zeros[1 << 20], out[1 << 14];
  const int32_t good[2 * CHUNK] = { 0, 2, 4, 6 };
  uint8_t shuffled[BYTES];
  for (int i = 0; i < CHUNK; i++)
    for (int k = 0; k < 4; k++) shuffled[k * CHUNK + i] = ((const uint8_t *)good)[4 * i + k];
  size_t n = pack(good, BYTES, out, sizeof out);

  craft(path, DEFLATE, 0, out, n);
  expect(path, NULL, "as it should be");
  out[n] = 'x';
  craft(path, DEFLATE, 0, out, n + 1);
  expect(path, NULL, "something behind the end of the stream");
  craft(path, DEFLATE, 0, out, n - 1);
  expect(path, "a chunk does not unpack (it is cut short)", "a stream without its end");
  craft(path, DEFLATE, 0, "something else", 14);
  expect(path, "a chunk does not unpack (", "no stream");
  craft(path, DEFLATE, 1, good, BYTES);
  expect(path, NULL, "stored as it is");
  craft(path, DEFLATE, 1, good, 3);
  expect(path, "a chunk unpacks to 3 bytes, not to its 16", "stored as it is, but short");
  craft(path, DEFLATE, 1, good, BYTES + 1);
  expect(path, "a chunk unpacks to 17 bytes, not to its 16", "stored as it is, but long");
  craft(path, DEFLATE, 1, zeros, 5000);
  expect(path, "a chunk of 16 bytes is stored in 5000", "stored as it is, but very long");
  n = pack("abc", 3, out, sizeof out);
  craft(path, DEFLATE, 0, out, n);
  expect(path, "a chunk unpacks to 3 bytes, not to its 16", "short");
  craft(path, SHUFFLE | DEFLATE, 0, out, n);
  expect(path, "a chunk unpacks to 3 bytes, not to its 16", "short before shuffle");
  craft(path, SHUFFLE | DEFLATE, 3, "abc", 3);
  expect(path, "a chunk unpacks to 3 bytes, not to its 16", "without any filter");
  craft(path, SHUFFLE, 0, "abc", 3);
  expect(path, "a chunk unpacks to 3 bytes, not to its 16", "shuffle alone");
  craft(path, SHUFFLE | DEFLATE, 2, shuffled, BYTES);
  expect(path, NULL, "without deflate");
  n = pack(good, BYTES, out, sizeof out);
  craft(path, SHUFFLE | DEFLATE, 1, out, n);
  expect(path, NULL, "without shuffle");
  n = pack(good, BYTES + 1, out, sizeof out);
  craft(path, DEFLATE, 0, out, n);
  expect(path, "a chunk unpacks to 17 bytes, not to its 16", "one byte too many");
  n = pack(zeros, sizeof zeros, out, sizeof out);
  craft(path, DEFLATE, 0, out, n);
  expect(path, "a chunk unpacks to more than its 16 bytes", "a bomb");
  size_t again = pack(out, n, out + n, sizeof out - n);
  craft(path, DEFLATE | TWICE, 0, out + n, again);
  expect(path, "a chunk unpacks to more than its 16 bytes", "a bomb, once unpacked");
  craft(path, SUM_LAST, 0, "abc", 3);
  expect(path, "the check sum of a chunk is wrong", "no room for a check sum");
  craft(path, SUM_LAST, 0, zeros, BYTES);
  expect(path, "a chunk unpacks to 12 bytes, not to its 16", "a right check sum over too few bytes");
  craft(path, SUM_LAST, 0, out, BYTES + 4);
  expect(path, "the check sum of a chunk is wrong", "a wrong check sum");
}

/* Without filters HDF5 believes the size that the index gives: the bytes asked for are read at their place instead. */
static void index_says_less(const char *path)
{
  static uint8_t bytes[1 << 16];
  const uint32_t key[] = { BYTES, 0, CHUNK, 0 }, less = 3; /* size, filters skipped, offset of the chunk */
  hsize_t dim = ROWS, chunk = CHUNK;
  int32_t x[ROWS];
  for (int i = 0; i < ROWS; i++) x[i] = i / CHUNK == 1 ? (i - CHUNK) * 2 : i;
  hid_t file = fresh(path, false), space = H5Screate_simple(1, &dim, NULL), list = filtered(0, 1, &chunk);
  hid_t set = H5Dcreate2(file, "x", H5T_STD_I32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  REQUIRE(H5Dwrite(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0, "write");
  H5Dclose(set);
  H5Pclose(list);
  H5Sclose(space);
  H5Fclose(file);
  FILE *f = fopen(path, "r+b");
  size_t size = fread(bytes, 1, sizeof bytes, f);
  uint8_t *hit = memmem(bytes, size, key, sizeof key);
  REQUIRE(hit, "the key is in the file");
  fseek(f, hit - bytes, SEEK_SET);
  fwrite(&less, sizeof less, 1, f);
  fclose(f);
  expect(path, NULL, "the index says less");
}

/* What was never written, where HDF5 is told never to fill: zeros, not what the memory held. */
static void never_written(const char *path)
{
  for (int chunked = 0; chunked < 3; chunked++) {
    hsize_t dim = ROWS, chunk = CHUNK;
    int32_t x[ROWS];
    hid_t file = fresh(path, false), space = H5Screate_simple(1, &dim, NULL),
          list = chunked ? filtered(chunked == 2 ? DEFLATE : 0, 1, &chunk) : H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_fill_time(list, H5D_FILL_TIME_NEVER);
    H5Dclose(H5Dcreate2(file, "x", H5T_STD_I32LE, space, H5P_DEFAULT, list, H5P_DEFAULT));
    H5Pclose(list);
    H5Sclose(space);
    H5Fclose(file);
    shoal_h5 again;
    REQUIRE(shoal_h5_open(path, &again) == SHOAL_OK, "open");
    memset(x, 0xa5, sizeof x);
    CHECK_OK(shoal_h5_read(again, "x", SHOAL_I32, ROWS, x));
    for (int i = 0; i < ROWS; i++) CHECK_EQ(x[i], 0, "form %d", chunked);
    shoal_h5_close(again);
  }
}

int main(void)
{
  temp_make();
  shoal_h5_init();
  const char *path = temp_path("filtered.h5");
  same_as_hdf5(path);
  records(path);
  made_up(path);
  index_says_less(path);
  never_written(path);
  return check_done();
}
