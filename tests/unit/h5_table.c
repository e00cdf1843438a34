/* Tables: rows that go in by appends of any size come out by reads of any place, and HDF5 itself, asked directly, sees the
 * data set that was meant. */
#include "h5/draft.h"
#include "h5/table.h"
#include "unit/h5_temp.h"
#include <hdf5.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* ---- numbers: [n, 2, 3] of u16, each its own place ---- */

enum { ROWS = 1000, ROW = 6 };

static void fill(uint64_t first, uint64_t n, uint16_t *out)
{
  for (uint64_t i = 0; i < n * ROW; i++) out[i] = (uint16_t)(first * ROW + i);
}

static void check_rows(shoal_h5_table *t, uint64_t first, uint64_t n)
{
  static uint16_t got[ROWS * ROW], want[ROWS * ROW];
  memset(got, 0xff, sizeof got);
  fill(first, n, want);
  CHECK_OK(shoal_h5_table_read(t, first, n, got));
  CHECK_BYTES(got, want, n * ROW * sizeof *got, "rows %d to %d", (int)first, (int)(first + n) - 1);
  CHECK(n == ROWS || got[n * ROW] == 0xffff, "and not one element more");
}

static void write_samples(shoal_h5 file, const char *name, bool through)
{
  static uint16_t x[ROWS * ROW];
  const shoal_h5_extent growing = { .ndim = 3, .dims = { 0, 2, 3 }, .chunk_rows = 7, .through = through };
  shoal_h5_table *t;
  uint64_t at = 0;
  REQUIRE(shoal_h5_table_create(file, name, &(shoal_h5_row){ SHOAL_U16 }, &growing, &t) == SHOAL_OK, "create");
  for (uint64_t n = 0; at < ROWS; at += n++) {
    n = at + n > ROWS ? ROWS - at : n;
    fill(at, n, x);
    CHECK_OK(shoal_h5_table_append(t, n, x));
  }
  CHECK_EQ(shoal_h5_table_rows(t), ROWS);
  check_rows(t, 500, 30); /* while it is open for writing */
  CHECK_OK(shoal_h5_table_finish(t));
}

/* What HDF5 says of a data set. */
static void check_form(const char *path, const char *name, int want_ndim, const hsize_t *want, bool grows)
{
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(file, name, H5P_DEFAULT),
        space = H5Dget_space(set);
  hsize_t dims[8], most[8];
  int ndim = H5Sget_simple_extent_dims(space, dims, most);
  CHECK_EQ(ndim, want_ndim, "%s", name);
  for (int i = 0; i < ndim && i < want_ndim; i++) CHECK_EQ(dims[i], want[i], "dimension %d of %s", i, name);
  CHECK(ndim < 1 || (most[0] == H5S_UNLIMITED) == grows, "%s grows or not", name);
  H5Sclose(space);
  H5Dclose(set);
  H5Fclose(file);
}

static void samples(const char *path)
{
  static const struct {
    uint64_t first, n;
  } places[] = { { 0, ROWS }, { 0, 1 }, { 999, 1 }, { 6, 2 }, { 7, 7 }, { 13, 400 }, { 998, 2 }, { 1000, 0 } };
  shoal_h5 file;
  shoal_h5_table *t;
  shoal_h5_facts f;
  uint16_t x[ROW];
  double as_double[ROW];
  for (int through = 0; through < 2; through++) {
    REQUIRE(shoal_h5_create(temp_fresh(path), &file) == SHOAL_OK, "create");
    write_samples(file, "deep/x", through);
    shoal_h5_close(file);
    check_form(path, "deep/x", 3, (hsize_t[]){ ROWS, 2, 3 }, true);
    REQUIRE(shoal_h5_open(path, &file) == SHOAL_OK, "open");
    REQUIRE(shoal_h5_table_open(file, "deep/x", &(shoal_h5_row){ SHOAL_U16 }, &t) == SHOAL_OK, "open");
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) check_rows(t, places[i].first, places[i].n);
    CHECK_REFUSED(shoal_h5_table_read(t, 999, 2, x), SHOAL_ERR_ARG, "/deep/x in");
    CHECK_REFUSED(shoal_h5_table_read(t, UINT64_MAX, 2, x), SHOAL_ERR_ARG, "has 1000 rows");
    CHECK_REFUSED(shoal_h5_table_append(t, 1, x), SHOAL_ERR_IO, "cannot write /deep/x in");
    CHECK_OK(shoal_h5_table_facts(t, &f));
    CHECK(f.exact);
    CHECK_EQ(f.type, SHOAL_U16);
    CHECK_EQ(f.chunk[0], 7);
    CHECK_EQ(f.chunk[2], 3);
    CHECK_EQ(f.offset, SHOAL_H5_NO_OFFSET);
    shoal_h5_table_close(t);
    REQUIRE(shoal_h5_table_open(file, "deep/x", &(shoal_h5_row){ SHOAL_F64 }, &t) == SHOAL_OK, "open");
    CHECK_OK(shoal_h5_table_read(t, 20, 1, as_double));
    CHECK_EQ(as_double[5], 20 * ROW + 5);
    shoal_h5_close(file);
    shoal_h5_table_close(t); /* after its file */
  }
}

/* ---- contiguous ---- */

static void contiguous(const char *path)
{
  shoal_h5 file;
  shoal_h5_table *t;
  int64_t x[10] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }, got[10];
  const shoal_h5_extent ten = { .ndim = 1, .dims = { 10 } }, scalar = { 0 }, empty = { .ndim = 2, .dims = { 0, 3 } };
  REQUIRE(shoal_h5_create(temp_fresh(path), &file) == SHOAL_OK, "create");
  REQUIRE(shoal_h5_table_create(file, "ten", &(shoal_h5_row){ SHOAL_I64 }, &ten, &t) == SHOAL_OK, "ten");
  CHECK_OK(shoal_h5_table_append(t, 4, x));
  CHECK_OK(shoal_h5_table_append(t, 6, x + 4));
  CHECK_REFUSED(shoal_h5_table_append(t, 1, x), SHOAL_ERR_ARG, "has room for 10 rows");
  CHECK_OK(shoal_h5_table_put(t, 9, 1, &(int64_t){ -9 }));
  CHECK_OK(shoal_h5_put_i64(shoal_h5_table_object(t), "sum", 45));
  uint64_t offset = shoal_h5_table_offset(t);
  CHECK_OK(shoal_h5_table_finish(t));
  REQUIRE(shoal_h5_table_create(file, "one", &(shoal_h5_row){ SHOAL_I64 }, &scalar, &t) == SHOAL_OK, "scalar");
  CHECK_OK(shoal_h5_table_append(t, 1, &x[7]));
  CHECK_OK(shoal_h5_table_finish(t));
  REQUIRE(shoal_h5_table_create(file, "none", &(shoal_h5_row){ SHOAL_F32 }, &empty, &t) == SHOAL_OK, "empty");
  CHECK_EQ(shoal_h5_table_offset(t), SHOAL_H5_NO_OFFSET, "no bytes, no place");
  CHECK_OK(shoal_h5_table_finish(t));
  CHECK_OK(shoal_h5_read(file, "ten", SHOAL_I64, 10, got));
  x[9] = -9;
  CHECK_BYTES(got, x, sizeof x, "ten in two appends and one put");
  CHECK_OK(shoal_h5_read(file, "one", SHOAL_I64, 1, got));
  CHECK_EQ(got[0], 7);
  shoal_h5_close(file);
  check_form(path, "ten", 1, (hsize_t[]){ 10 }, false);
  check_form(path, "none", 2, (hsize_t[]){ 0, 3 }, false);
  FILE *f = fopen(path, "rb");
  CHECK_EQ(fseek(f, (long)offset, SEEK_SET), 0, "the bytes");
  CHECK_EQ(fread(got, sizeof *got, 10, f), 10);
  CHECK_BYTES(got, x, sizeof x, "stand where the offset says");
  fclose(f);
}

/* ---- sizes ---- */

static void sizes(const char *path)
{
  shoal_h5 file;
  shoal_h5_table *t = NULL;
  const shoal_h5_row f64 = { SHOAL_F64 };
  const shoal_h5_extent wide = { .ndim = 3, .dims = { 0, UINT64_C(1) << 40, UINT64_C(1) << 40 }, .chunk_rows = 1 },
                        high = { .ndim = 1, .dims = { UINT64_C(1) << 60 } }, many = { .ndim = 9, .dims = { 1 } },
                        chunked_scalar = { .chunk_rows = 4 }, two = { .ndim = 1, .chunk_rows = 2 };
  double x[2] = { 1, 2 };
  REQUIRE(shoal_h5_create(temp_fresh(path), &file) == SHOAL_OK, "create");
  CHECK_REFUSED(shoal_h5_table_create(file, "a", &f64, &wide, &t), SHOAL_ERR_ARG, "63 bits");
  CHECK_REFUSED(shoal_h5_table_create(file, "a", &f64, &high, &t), SHOAL_ERR_ARG, "63 bits");
  CHECK_REFUSED(shoal_h5_table_create(file, "a", &f64, &many, &t), SHOAL_ERR_ARG, "9 dimensions");
  CHECK_REFUSED(shoal_h5_table_create(file, "a", &f64, &chunked_scalar, &t), SHOAL_ERR_ARG, "0 dimensions");
  CHECK(!t, "nothing was made");
  CHECK(!shoal_h5_exists(file, "a"));
  REQUIRE(shoal_h5_table_create(file, "a", &f64, &two, &t) == SHOAL_OK, "create");
  CHECK_OK(shoal_h5_table_append(t, 2, x));
  CHECK_REFUSED(shoal_h5_table_append(t, UINT64_MAX, x), SHOAL_ERR_ARG, "which has 2");
  CHECK_REFUSED(shoal_h5_table_append(t, UINT64_C(1) << 60, x), SHOAL_ERR_ARG, "which has 2");
  CHECK_REFUSED(shoal_h5_table_append(t, (UINT64_C(1) << 60) - 2, x), SHOAL_ERR_ARG, "which has 2");
  CHECK_REFUSED(shoal_h5_table_put(t, 3, 1, x), SHOAL_ERR_ARG, "at row 3");
  CHECK_EQ(shoal_h5_table_rows(t), 2);
  CHECK_REFUSED(shoal_h5_table_create(file, "a", &f64, &two, &(shoal_h5_table *){ NULL }), SHOAL_ERR_IO,
                "cannot create /a in");
  shoal_h5_table_close(t);
  shoal_h5_close(file);
}

/* ---- structs and text ---- */

typedef struct {
  uint64_t t;
  int32_t a;
  uint8_t flags[3];
  char host[9];
} record;
static const shoal_h5_member members[] = { { "t", offsetof(record, t), SHOAL_U64 },
                                           { "a", offsetof(record, a), SHOAL_I32 },
                                           { "flags", offsetof(record, flags), SHOAL_U8, .count = 3 },
                                           { "host", offsetof(record, host), SHOAL_U8, .text_bytes = 9 } };
static const shoal_h5_struct whole = { sizeof(record), 4, members }, without_host = { sizeof(record), 3, members };

static void structs(const char *path)
{
  shoal_h5 file;
  shoal_h5_table *t;
  record r = { .a = -5, .flags = { 1, 2, 3 } }, got[3];
  shoal_h5_member later[4];
  const shoal_h5_struct optional = { sizeof(record), 4, later };
  const shoal_h5_extent growing = { .ndim = 1, .chunk_rows = 2 };
  memcpy(later, members, sizeof later);
  later[3].optional = true;
  REQUIRE(shoal_h5_create(temp_fresh(path), &file) == SHOAL_OK, "create");
  REQUIRE(shoal_h5_table_create(file, "old", &(shoal_h5_row){ .members = &without_host }, &growing, &t) == SHOAL_OK,
          "old");
  CHECK_OK(shoal_h5_table_append(t, 1, &r));
  shoal_h5_table_close(t);
  REQUIRE(shoal_h5_table_create(file, "new", &(shoal_h5_row){ .members = &whole }, &growing, &t) == SHOAL_OK, "new");
  for (r.t = 0; r.t < 5; r.t++) {
    snprintf(r.host, sizeof r.host, "node%d", (int)r.t);
    CHECK_OK(shoal_h5_table_append(t, 1, &r));
  }
  r.t = 77;
  CHECK_OK(shoal_h5_table_put(t, 3, 1, &r)); /* over one that is there */
  CHECK_EQ(shoal_h5_table_rows(t), 5);
  shoal_h5_table_close(t);
  CHECK_OK(shoal_h5_write(file, "plain", SHOAL_F32, 0, NULL, &(float){ 1 }));
  shoal_h5_close(file);

  REQUIRE(shoal_h5_open(path, &file) == SHOAL_OK, "open");
  REQUIRE(shoal_h5_table_open(file, "new", &(shoal_h5_row){ .members = &whole }, &t) == SHOAL_OK, "open");
  CHECK_OK(shoal_h5_table_read(t, 2, 3, got));
  CHECK_EQ(got[0].t, 2);
  CHECK_EQ(got[1].t, 77);
  CHECK_EQ(got[2].t, 4);
  CHECK_EQ(got[2].a, -5);
  CHECK_EQ(got[2].flags[2], 3);
  CHECK_STR(got[0].host, "node2");
  CHECK_STR(got[1].host, "node4");
  shoal_h5_table_close(t);
  CHECK_REFUSED(shoal_h5_table_open(file, "old", &(shoal_h5_row){ .members = &whole }, &t), SHOAL_ERR_IO, "/old in ");
  CHECK_REFUSED(shoal_h5_table_open(file, "old", &(shoal_h5_row){ .members = &whole }, &t), SHOAL_ERR_IO,
                "has no member host");
  REQUIRE(shoal_h5_table_open(file, "old", &(shoal_h5_row){ .members = &optional }, &t) == SHOAL_OK, "optional");
  strcpy(got[0].host, "kept");
  CHECK_OK(shoal_h5_table_read(t, 0, 1, got));
  CHECK_EQ(got[0].a, -5, "what the file lacks is left alone");
  CHECK_STR(got[0].host, "kept");
  shoal_h5_table_close(t);
  CHECK_REFUSED(shoal_h5_table_open(file, "plain", &(shoal_h5_row){ .members = &whole }, &t), SHOAL_ERR_IO,
                "is not a compound");
  shoal_h5_close(file);
}

static void texts(const char *path)
{
  static const char *const in[] = { "wait", "", "a text longer than any chunk of eight", "gr\xc3\xbc\xc3\x9f" };
  char *out[4] = { NULL };
  shoal_h5 file;
  shoal_h5_table *t;
  const shoal_h5_row text = { .text = true };
  REQUIRE(shoal_h5_create(temp_fresh(path), &file) == SHOAL_OK, "create");
  REQUIRE(shoal_h5_table_create(file, "ops", &text, &(shoal_h5_extent){ .ndim = 1, .chunk_rows = 3 }, &t) == SHOAL_OK,
          "create");
  CHECK_OK(shoal_h5_table_append(t, 4, in));
  shoal_h5_table_close(t);
  shoal_h5_close(file);
  REQUIRE(shoal_h5_open(path, &file) == SHOAL_OK, "open");
  REQUIRE(shoal_h5_table_open(file, "ops", &text, &t) == SHOAL_OK, "open");
  CHECK_OK(shoal_h5_table_read(t, 0, 4, out));
  for (int i = 0; i < 4; i++) {
    CHECK_STR(out[i], in[i], "text %d", i);
    free(out[i]);
  }
  shoal_h5_table_close(t);
  shoal_h5_close(file);
}

/* ---- what a killed writer left ---- */

static void abandoned(const char *path)
{
  enum { N = 4096, CHUNK = 512 };
  static uint64_t x[N], got[N];
  shoal_h5 file;
  shoal_h5_table *t;
  for (uint64_t i = 0; i < N; i++) x[i] = i + 1;
  REQUIRE(shoal_h5_create(temp_fresh(path), &file) == SHOAL_OK, "create");
  CHECK_OK(shoal_h5_hold_metadata(file));
  REQUIRE(shoal_h5_table_create(file, "x", &(shoal_h5_row){ SHOAL_U64 },
                                &(shoal_h5_extent){ .ndim = 1, .chunk_rows = CHUNK }, &t) == SHOAL_OK,
          "create");
  CHECK_OK(shoal_h5_table_append(t, N, x));
  CHECK_OK(shoal_h5_flush(file));
  shoal_h5_abandon(file); /* from here on nothing reaches the disk */
  CHECK_OK(shoal_h5_table_append(t, N, x));
  shoal_h5_table_close(t);
  shoal_h5_discard(file);
  REQUIRE(shoal_h5_open(path, &file) == SHOAL_OK, "open what the flush left");
  REQUIRE(shoal_h5_table_open(file, "x", &(shoal_h5_row){ SHOAL_U64 }, &t) == SHOAL_OK, "open");
  CHECK_EQ(shoal_h5_table_rows(t), N);
  CHECK_EQ(shoal_h5_table_read_sound(t, 100, N, got), N - 100, "all of them are sound");
  CHECK_BYTES(got, x + 100, (N - 100) * sizeof *x);
  CHECK_EQ(shoal_h5_table_read_sound(t, N, 1, got), 0, "and no more");
  shoal_h5_table_close(t);
  shoal_h5_close(file);
}

/* A chunk that HDF5 refuses to read: it has a checksum, and one of its bytes is flipped. */
static void damaged(const char *path)
{
  enum { N = 4096, CHUNK = 512, HIT = 3 * CHUNK + 9 };
  static uint64_t x[N], got[N];
  hsize_t n = N, chunk = CHUNK;
  for (uint64_t i = 0; i < N; i++) x[i] = 0x1122334400000000u + i;
  hid_t f = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space = H5Screate_simple(1, &n, NULL),
        list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(list, 1, &chunk);
  H5Pset_fletcher32(list);
  hid_t set = H5Dcreate2(f, "x", H5T_STD_U64LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  REQUIRE(H5Dwrite(set, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0, "write");
  H5Dclose(set);
  H5Pclose(list);
  H5Sclose(space);
  H5Fclose(f);
  static char bytes[1 << 20];
  FILE *file = fopen(path, "r+b");
  size_t size = fread(bytes, 1, sizeof bytes, file);
  char *hit = memmem(bytes, size, &x[HIT], sizeof x[HIT]);
  REQUIRE(hit, "the element is in the file");
  fseek(file, hit - bytes, SEEK_SET);
  fputc(*hit ^ 1, file);
  fclose(file);

  shoal_h5 again;
  shoal_h5_table *t;
  REQUIRE(shoal_h5_open(path, &again) == SHOAL_OK, "open");
  REQUIRE(shoal_h5_table_open(again, "x", &(shoal_h5_row){ SHOAL_U64 }, &t) == SHOAL_OK, "open");
  shoal_error_put(&(shoal_error){ .code = SHOAL_OK });
  uint64_t sound = shoal_h5_table_read_sound(t, 0, N, got);
  if (CHECK_EQ(sound, 3 * CHUNK)) CHECK_BYTES(got, x, sound * sizeof *x);
  sound = shoal_h5_table_read_sound(t, 4 * CHUNK, N, got);
  CHECK_EQ(sound, 4 * CHUNK);
  CHECK_EQ(got[0], x[4 * CHUNK]);
  CHECK_STR(check_error(), "", "and that is no error");
  CHECK_REFUSED(shoal_h5_table_read(t, 0, N, got), SHOAL_ERR_IO, "cannot read rows 1536 to 2047 of /x in");
  shoal_h5_table_close(t);
  shoal_h5_close(again);
}

/* ---- drafts ---- */

static void drafts(const char *path)
{
  shoal_h5_draft d = { 0 };
  shoal_h5 file;
  int64_t v = 0;
  struct stat s;
  shoal_h5_draft_discard(&d); /* one that never was */
  temp_write(path, "older", 5);
  REQUIRE(shoal_h5_draft_open(&d, path, 100) == SHOAL_OK, "open");
  CHECK_EQ(stat(d.tmp, &s), 0, "the temporary stands, with space of its own");
  CHECK_GT(s.st_blocks, 0);
  CHECK_REFUSED(shoal_h5_read(d.file, "x", SHOAL_I64, 1, &v), SHOAL_ERR_IO, strrchr(path, '/'));
  CHECK_REFUSED(shoal_h5_draft_reserve(&d, "too much", UINT64_C(1) << 50, 0), SHOAL_ERR_IO,
                "cannot write too much into ");
  char *tmp = strdup(d.tmp);
  shoal_h5_draft_discard(&d);
  CHECK_NE(access(tmp, F_OK), 0, "gone, and the older file is as it was");
  CHECK_EQ(stat(path, &s), 0);
  CHECK_EQ(s.st_size, 5);
  REQUIRE(shoal_h5_draft_open(&d, path, 0) == SHOAL_OK, "open");
  CHECK_OK(shoal_h5_draft_reserve(&d, "x", 8, 0));
  CHECK_OK(shoal_h5_write(d.file, "x", SHOAL_I64, 0, NULL, &(int64_t){ 12 }));
  CHECK_OK(shoal_h5_draft_close(&d));
  CHECK_OK(shoal_h5_draft_commit(&d));
  shoal_h5_draft_discard(&d);
  CHECK_NE(access(tmp, F_OK), 0, "no temporary");
  CHECK_EQ(stat(path, &s), 0, "the space not used went back");
  CHECK_LE(s.st_blocks * 512, s.st_size + 4096);
  REQUIRE(shoal_h5_open(path, &file) == SHOAL_OK, "open");
  CHECK_OK(shoal_h5_read(file, "x", SHOAL_I64, 1, &v));
  CHECK_EQ(v, 12);
  shoal_h5_close(file);
  free(tmp);
  CHECK_REFUSED(shoal_h5_draft_open(&d, temp_path("no/such/folder.h5"), 0), SHOAL_ERR_IO, "No such file or directory");
  shoal_h5_draft_discard(&d);
}

int main(void)
{
  temp_make();
  const char *path = temp_path("table.h5");
  samples(path);
  contiguous(path);
  sizes(path);
  structs(path);
  texts(path);
  abandoned(path);
  damaged(path);
  drafts(path);
  return check_done();
}
