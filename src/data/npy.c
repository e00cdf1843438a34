/* See npy.h.  A .npy file is
 *
 *     93 "NUMPY" | major minor | length of the header, u16 or u32 | {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}
 *
 * and the elements.  The header is Python's notation of a dictionary; it is searched for its three keys.
 *
 * Three sizes must agree before an element is read: the shape's, the file's or member's when unpacked, and what the packed
 * bytes can become.  So 10 MB that unpack to gigabytes of zeros are refused by their sizes.  Elements are read in blocks of
 * rows; only an array in Fortran order is kept whole, because every row is scattered over all of it. */
#include "data/npy.h"
#include "base/error.h"
#include "base/file.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

/* ---- the header ---- */

/* What follows a key of the header, or NULL. */
static const char *value_of(const char *header, const char *key)
{
  const char *at = strstr(header, key);
  if (!at) return NULL;
  at += strlen(key);
  return at + strspn(at, " :");
}

/* Whether NumPy has numbers of that kind and size. */
static bool is_of_numpy(const shoal_npy *a)
{
  const size_t n = a->size;
  if (a->kind == 'b') return n == 1;
  if (a->kind == 'f') return n == 2 || n == 4 || n == 8 || n == 12 || n == 16;
  return (a->kind == 'u' || a->kind == 'i') && (n == 1 || n == 2 || n == 4 || n == 8);
}

static shoal_status read_type(shoal_npy *a, const char *header)
{
  const char *descr = value_of(header, "'descr'");
  char type[49], shown[4 * sizeof type];
  const char *close = descr && *descr == '[' ? "]" : "'";
  snprintf(type, sizeof type, "%.*s", descr && *descr ? (int)strcspn(descr + 1, close) + 2 : 0, descr ? descr : "");
  shoal_show(type, shown, sizeof shown);
  if (descr && *descr == '[') a->kind = 'V';
  SHOAL_CHECK(
      !descr || *descr != '[', SHOAL_ERR_IO,
      "%s: array %s holds records (structured data), %s; samples are plain numbers, and labels an array of their "
      "own",
      a->path, a->name, shown);
  SHOAL_CHECK(descr && *descr == '\'', SHOAL_ERR_IO, "%s: the header of array %s does not say its type: it is damaged",
              a->path, a->name);
  char order = descr[1];
  a->kind = descr[2];
  a->size = (size_t)(descr[3] >= '0' && descr[3] <= '9' ? strtoul(descr + 3, NULL, 10) : 0);
  a->swapped = order == '>' && a->size > 1;
  SHOAL_CHECK(a->kind != 'O', SHOAL_ERR_IO,
              "%s: array %s holds Python objects, which are not loaded, as they can run code", a->path, a->name);
  SHOAL_CHECK(a->kind != 'U' && a->kind != 'S', SHOAL_ERR_IO,
              "%s: array %s holds text; samples are numbers, and labels class numbers from 0", a->path, a->name);
  SHOAL_CHECK(
      a->kind != 'M' && a->kind != 'm', SHOAL_ERR_IO,
      "%s: array %s holds dates or times (%s): save numbers, such as (t - t.min()) / numpy.timedelta64(1, 'D'), days",
      a->path, a->name, shown);
  SHOAL_CHECK(a->kind != 'c', SHOAL_ERR_IO,
              "%s: array %s holds complex numbers: save real ones, as numpy.abs or numpy.stack of .real and .imag make",
              a->path, a->name);
  SHOAL_CHECK(
      a->kind != 'V', SHOAL_ERR_IO,
      "%s: array %s holds raw bytes (%s), as types that NumPy does not know are saved (bfloat16): convert it with "
      ".astype('float32') before it is saved",
      a->path, a->name, shown);
  SHOAL_CHECK(is_of_numpy(a), SHOAL_ERR_IO,
              "%s: the header of array %s says type %s, which NumPy has not: it is damaged", a->path, a->name, shown);
  bool number = strchr("<>|=", order) && a->kind && strchr("buif", a->kind) &&
                (a->size == 1 || a->size == 2 || a->size == 4 || a->size == 8) && !(a->kind == 'f' && a->size < 2);
  SHOAL_CHECK(number, SHOAL_ERR_IO, "%s: array %s has type %s, which is not read: convert it with .astype('float32')",
              a->path, a->name, shown);
  return SHOAL_OK;
}

/* The shape as the header has it, "(2, 3)", for messages. */
static const char *shape_text(const char *at, char *buf, size_t cap)
{
  char text[64];
  const int n = (int)strcspn(at, ")") + 1;
  snprintf(text, sizeof text, "%.*s", n, at);
  shoal_show(text, buf, cap);
  if ((size_t)n >= sizeof text) snprintf(buf + strlen(buf), cap - strlen(buf), "...");
  return buf;
}

static shoal_status read_shape(shoal_npy *a, const char *header)
{
  const char *at = value_of(header, "'shape'"), *order = value_of(header, "'fortran_order'");
  SHOAL_CHECK(at && *at == '(' && strchr(at, ')') && order, SHOAL_ERR_IO,
              "%s: the header of array %s has no shape: it is damaged", a->path, a->name);
  char shape[300];
  shape_text(at, shape, sizeof shape);
  const int most = SHOAL_COUNT(a->strides);
  int n = 0;
  for (at++; *at && *at != ')'; n++) {
    char *end;
    SHOAL_CHECK(isdigit((unsigned char)*at), SHOAL_ERR_IO,
                "%s: array %s has shape %s by its header, which no array has: it is damaged", a->path, a->name, shape);
    const uint64_t dim = strtoull(at, &end, 10);
    if (n < (int)SHOAL_COUNT(a->dims)) a->dims[n] = dim;
    at = end + strspn(end, ", ");
  }
  SHOAL_CHECK(n > 0, SHOAL_ERR_IO, "%s: array %s is a single number: samples and labels are rows of an array", a->path,
              a->name);
  a->ndim = n;
  SHOAL_CHECK(n <= most, SHOAL_ERR_IO, "%s: array %s has shape %s; arrays of 1 to %d dimensions are read", a->path,
              a->name, shape, most);
  bool fortran = strncmp(order, "True", 4) == 0;
  a->scattered = fortran && a->ndim > 1;
  uint64_t stride = 1, bytes;
  for (int i = 0; i < a->ndim; i++) {
    int d = fortran ? i : a->ndim - 1 - i;
    a->strides[d] = stride;
    SHOAL_CHECK(!__builtin_mul_overflow(stride, a->dims[d], &stride), SHOAL_ERR_IO,
                "%s: array %s has shape %s by its header, more than 64 bits count: it is damaged", a->path, a->name,
                shape);
  }
  a->empty = a->dims[0] == 0;
  SHOAL_CHECK(a->empty || stride > 0, SHOAL_ERR_IO, "%s: array %s has shape %s, so its rows hold nothing", a->path,
              a->name, shape);
  SHOAL_CHECK(!__builtin_mul_overflow(stride, a->size, &bytes), SHOAL_ERR_IO,
              "%s: array %s has shape %s by its header, more bytes than 64 bits count: it is damaged", a->path, a->name,
              shape);
  return SHOAL_OK;
}

/* ---- bytes of a file or member, in their order ---- */

typedef struct {
  shoal_source *file;
  zip_file_t *member;
} stream;

static void close_stream(stream *s)
{
  shoal_source_close(s->file);
  if (s->member) zip_fclose(s->member);
  *s = (stream){ 0 };
}

static shoal_status open_stream(const shoal_npy *a, stream *s)
{
  *s = (stream){ 0 };
  if (!a->archive) return shoal_source_open(a->path, &s->file);
  s->member = zip_fopen_index(a->archive, a->member, 0);
  SHOAL_CHECK(s->member, SHOAL_ERR_IO, "%s: cannot read %s: %s", a->path, a->name, zip_strerror(a->archive));
  return SHOAL_OK;
}

/* Up to n bytes; fewer only at the end. */
static shoal_status read_stream(const shoal_npy *a, stream *s, void *data, size_t n, size_t *got)
{
  *got = 0;
  if (s->file) return shoal_source_read(s->file, data, n, got);
  while (*got < n) {
    zip_int64_t part = zip_fread(s->member, (char *)data + *got, n - *got);
    SHOAL_CHECK(part >= 0, SHOAL_ERR_IO, "%s: array %s is damaged or cut short (%s): get or save the archive again",
                a->path, a->name, zip_file_strerror(s->member));
    if (part == 0) break;
    *got += (size_t)part;
  }
  return SHOAL_OK;
}

/* ---- finding arrays ---- */

/* Reads the header, and leaves the stream at the first element. */
static shoal_status read_header(shoal_npy *a, stream *s)
{
  enum { PREFIX = 10, LONGEST = 1 << 20 };
  uint8_t b[PREFIX + 2] = { 0 };
  size_t got, more = 0;
  SHOAL_TRY(read_stream(a, s, b, PREFIX, &got));
  SHOAL_CHECK(got > 0, SHOAL_ERR_IO, "%s: %s is empty (0 bytes): get it again", a->path, a->name);
  SHOAL_CHECK(got == PREFIX && memcmp(b, "\x93NUMPY", 6) == 0, SHOAL_ERR_IO, "%s: %s is not a NumPy array (.npy)",
              a->path, a->name);
  if (b[6] > 1) SHOAL_TRY(read_stream(a, s, b + PREFIX, 2, &more));
  size_t length = (size_t)b[8] | (size_t)b[9] << 8 | (size_t)b[10] << 16 | (size_t)b[11] << 24;
  SHOAL_CHECK(length <= LONGEST, SHOAL_ERR_IO,
              "%s: array %s says that its header has %zu bytes; those of NumPy have some hundred: it is damaged",
              a->path, a->name, length);
  char *header;
  SHOAL_TRY(SHOAL_ALLOC(length + 1, &header));
  shoal_status st = read_stream(a, s, header, length, &got);
  if (st == SHOAL_OK && got < length)
    st =
        SHOAL_FAIL(SHOAL_ERR_IO,
                   "%s: array %s says that its header has %zu bytes, but it ends after %zu of them: it is cut short or "
                   "damaged",
                   a->path, a->name, length, got);
  for (char *c = header; *c; c++) *c = (char)(*c == '"' ? '\'' : *c); /* Python takes both */
  if (st == SHOAL_OK) st = read_type(a, header);
  if (st == SHOAL_OK) st = read_shape(a, header);
  free(header);
  a->header = PREFIX + more + length;
  return st;
}

static shoal_status skip_header(const shoal_npy *a, stream *s)
{
  char unused[512];
  size_t got;
  for (size_t left = a->header; left > 0; left -= got) {
    SHOAL_TRY(read_stream(a, s, unused, SHOAL_MIN(left, sizeof unused), &got));
    SHOAL_CHECK(got > 0, SHOAL_ERR_IO, "%s: array %s is cut short in its header", a->path, a->name);
  }
  return SHOAL_OK;
}

static uint64_t bytes_of(const shoal_npy *a)
{
  uint64_t bytes = a->size;
  for (int i = 0; i < a->ndim; i++) bytes *= a->dims[i];
  return bytes;
}

/* Compares what the header says with `whole`, the size of the file or of the member by its directory. */
static shoal_status check_size(const shoal_npy *a, uint64_t whole)
{
  const uint64_t says = bytes_of(a), holds = whole - SHOAL_MIN(whole, (uint64_t)a->header);
  SHOAL_CHECK(says <= holds, SHOAL_ERR_IO,
              "%s: array %s has %" PRIu64 " bytes of numbers by its header, but %s %" PRIu64
              ": it is cut short or damaged",
              a->path, a->name, says, a->archive ? "the archive's directory says" : "the file can hold", holds);
  SHOAL_CHECK(!a->archive || says == holds, SHOAL_ERR_IO,
              "%s: array %s has %" PRIu64 " bytes of numbers by its header, and %" PRIu64
              " by the archive's directory: it is damaged",
              a->path, a->name, says, holds);
  return SHOAL_OK;
}

bool shoal_npy_is_rewritable(const shoal_npy *a)
{
  return a->ndim > (int)SHOAL_COUNT(a->strides) || (a->kind && strchr("OUSVc", a->kind)) ||
         (a->kind == 'f' && a->size > 8);
}

/* Adds an array; `name` is that of the file or member, `whole` the bytes it has when unpacked. */
static shoal_status add(shoal_npys *l, shoal_npy a, const char *name, uint64_t whole)
{
  shoal_npy *more = realloc(l->all, (l->n + 1) * sizeof *more);
  SHOAL_CHECK(more, SHOAL_ERR_MEM, "out of memory for %zu arrays", l->n + 1);
  l->all = more;
  a.name = shoal_strdup_printf("%s", a.archive ? name : shoal_path_base(name));
  char *end = strstr(a.name, ".npy");
  if (end) *end = '\0';
  stream s;
  shoal_status st = open_stream(&a, &s);
  if (st == SHOAL_OK) st = read_header(&a, &s);
  if (st == SHOAL_OK) st = check_size(&a, s.file ? shoal_source_most(s.file) : whole);
  if (st == SHOAL_OK && s.file) st = shoal_source_check(s.file, bytes_of(&a));
  close_stream(&s);
  if ((a.archive || shoal_npy_is_rewritable(&a)) && st == SHOAL_ERR_IO) {
    shoal_error why;
    shoal_error_take(&why);
    a.refused = shoal_strdup_printf("%s", why.text);
    st = SHOAL_OK;
  }
  l->all[l->n++] = a;
  return st;
}

static shoal_status add_member(zip_t *z, zip_uint64_t index, const char *path, shoal_npys *out)
{
  zip_stat_t s;
  SHOAL_CHECK(zip_stat_index(z, index, 0, &s) == 0 && (s.valid & ZIP_STAT_SIZE) && (s.valid & ZIP_STAT_NAME) &&
                  (s.valid & ZIP_STAT_COMP_SIZE),
              SHOAL_ERR_IO, "%s: member %llu has no name or size", path, (unsigned long long)index);
  SHOAL_TRY(shoal_limit_held(path, s.name, s.size, 1,
                             s.comp_size < UINT64_MAX / 1032 ? s.comp_size * 1032 + 64 : UINT64_MAX));
  return add(out, (shoal_npy){ .path = path, .archive = z, .member = index, .packed = s.comp_size }, s.name, s.size);
}

static shoal_status refuse_archive(const char *path, int error)
{
  static const char cut[] = "has no directory that fits it at its end: it was cut short or damaged; get it again";
  static const struct {
    int error;
    const char *why;
  } known[] = {
    { ZIP_ER_NOZIP, cut },
#ifdef ZIP_ER_TRUNCATED_ZIP /* of newer libraries */
    { ZIP_ER_TRUNCATED_ZIP, cut },
#endif
    { ZIP_ER_INCONS, "has a directory that contradicts what is in it: it is damaged; get it again" },
    { ZIP_ER_EXISTS, "has two members of one name, such as two x_train.npy: save it again with one of them" },
  };
  for (size_t i = 0; i < SHOAL_COUNT(known); i++)
    SHOAL_CHECK(error != known[i].error, SHOAL_ERR_IO, "%s is a zip archive that %s", path, known[i].why);
  zip_error_t e;
  zip_error_init_with_code(&e, error);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "%s is a zip archive that cannot be opened: %s; get or save it again",
                               path, zip_error_strerror(&e));
  zip_error_fini(&e);
  return st;
}

static shoal_status find_members(const char *path, shoal_npys *out)
{
  int error = 0;
  void **more = realloc(out->archives, (out->n_archives + 1) * sizeof *more);
  SHOAL_CHECK(more, SHOAL_ERR_MEM, "out of memory for %zu archives", out->n_archives + 1);
  out->archives = more;
  zip_t *z = zip_open(path, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (!z) return refuse_archive(path, error);
  out->archives[out->n_archives++] = z;
  for (zip_int64_t i = 0; i < zip_get_num_entries(z, 0); i++) SHOAL_TRY(add_member(z, (zip_uint64_t)i, path, out));
  return SHOAL_OK;
}

shoal_status shoal_npy_find(const char *path, shoal_npys *out)
{
  uint8_t magic[4] = { 0 };
  size_t n;
  shoal_source *s;
  SHOAL_TRY(shoal_source_open(path, &s));
  shoal_status st = shoal_source_read(s, magic, sizeof magic, &n);
  shoal_source_close(s);
  SHOAL_TRY(st);
  if (memcmp(magic, "PK\3\4", 4) == 0) return find_members(path, out);
  return add(out, (shoal_npy){ .path = path }, path, 0);
}

void shoal_npys_fini(shoal_npys *l)
{
  for (size_t i = 0; i < l->n; i++) {
    free(l->all[i].name);
    free(l->all[i].refused);
  }
  for (size_t i = 0; i < l->n_archives; i++) zip_discard(l->archives[i]);
  free(l->archives);
  free(l->all);
  *l = (shoal_npys){ 0 };
}

/* ---- rows ---- */

struct shoal_npy_reader {
  const shoal_npy *array;
  stream stream;
  uint8_t *rows;           /* [cap] the block in memory; of a scattered array all of it */
  size_t row, cap;         /* bytes from one row to the next; rows of a block */
  uint64_t next, held, at; /* row to be returned next; rows in the block; row that the block begins with */
};

shoal_status shoal_npy_check(const shoal_npy *a)
{
  if (!a->archive) return SHOAL_OK;
  char word[SHOAL_WORD], *what = shoal_strdup_printf("%s: array %s", a->path, a->name);
  char *cure = shoal_strdup_printf("unzip %s and import its .npy files", shoal_shell_word(a->path, word));
  shoal_status st = shoal_check_unpacked(what, a->packed, bytes_of(a), cure);
  free(what);
  free(cure);
  return st;
}

static shoal_status start_reading(shoal_npy_reader *r)
{
  enum { BLOCK = 1 << 20 };
  const shoal_npy *a = r->array;
  const uint64_t row = bytes_of(a) / a->dims[0];
  SHOAL_TRY(open_stream(a, &r->stream));
  r->row = a->scattered ? a->size : (size_t)row;
  r->cap = a->scattered ? (size_t)a->dims[0] : (size_t)SHOAL_MIN(a->dims[0], SHOAL_MAX(BLOCK / row, (uint64_t)1));
  shoal_status st = shoal_limit_memory(a->path, a->name, r->cap, row);
  if (st != SHOAL_OK && a->scattered)
    return shoal_error_append(st,
                              ": it is in Fortran order; np.ascontiguousarray makes an array that is read row by row");
  SHOAL_TRY(st);
  SHOAL_TRY(shoal_alloc(r->cap, (size_t)row, a->name, (void **)&r->rows));
  return skip_header(a, &r->stream);
}

shoal_status shoal_npy_open(const shoal_npy *a, shoal_npy_reader **out)
{
  shoal_npy_reader *r;
  SHOAL_TRY(SHOAL_ALLOC(1, &r));
  r->array = a;
  shoal_status st = start_reading(r);
  if (st == SHOAL_OK)
    *out = r;
  else
    shoal_npy_close(r);
  return st;
}

void shoal_npy_close(shoal_npy_reader *r)
{
  if (!r) return;
  close_stream(&r->stream);
  free(r->rows);
  free(r);
}

/* Reads the next rows; behind the last ones an archive must end, which makes it compare the check sum. */
static shoal_status read_block(shoal_npy_reader *r)
{
  const shoal_npy *a = r->array;
  const size_t row = (size_t)(bytes_of(a) / a->dims[0]);
  uint8_t behind;
  size_t got;
  r->at += r->held;
  r->held = SHOAL_MIN(r->cap, a->dims[0] - r->at);
  SHOAL_TRY(read_stream(a, &r->stream, r->rows, r->held * row, &got));
  SHOAL_CHECK(got == r->held * row, SHOAL_ERR_IO, "%s: array %s is cut short in row %" PRIu64 " of %" PRIu64, a->path,
              a->name, r->at + got / row, a->dims[0]);
  if (r->at + r->held < a->dims[0] || !a->archive) return SHOAL_OK;
  SHOAL_TRY(read_stream(a, &r->stream, &behind, 1, &got));
  SHOAL_CHECK(got == 0, SHOAL_ERR_IO, "%s: %s is damaged: it goes on behind its elements", a->path, a->name);
  return SHOAL_OK;
}

shoal_status shoal_npy_next(shoal_npy_reader *r, const uint8_t **row)
{
  if (r->next == r->at + r->held) SHOAL_TRY(read_block(r));
  *row = r->rows + (r->next++ - r->at) * r->row;
  return SHOAL_OK;
}

/* ---- elements ---- */

static uint64_t bits_of(const shoal_npy *a, const uint8_t *row, uint64_t at)
{
  uint64_t v = 0;
  memcpy(&v, row + at * a->size, a->size); /* little-endian, as all machines that Shoal runs on */
  return a->swapped ? __builtin_bswap64(v) >> (64 - 8 * a->size) : v;
}

int64_t shoal_npy_whole(const shoal_npy *a, const uint8_t *row, uint64_t at)
{
  uint64_t v = bits_of(a, row, at);
  unsigned unused = 64 - 8 * (unsigned)a->size;
  if (a->kind == 'i') return (int64_t)(v << unused) >> unused;
  return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

/* sign | 5 bits of exponent, biased by 15 | 10 bits of fraction */
static double half_value(uint64_t v)
{
  const int exponent = (int)(v >> 10 & 31);
  const double fraction = (double)(v & 1023);
  const double size = exponent == 31 ? (fraction > 0 ? NAN : INFINITY)
                      : exponent > 0 ? ldexp(1024 + fraction, exponent - 25)
                                     : ldexp(fraction, -24);
  return v >> 15 ? -size : size;
}

double shoal_npy_real(const shoal_npy *a, const uint8_t *row, uint64_t at)
{
  uint64_t v = bits_of(a, row, at);
  if (a->kind == 'i') return (double)shoal_npy_whole(a, row, at);
  if (a->kind != 'f') return (double)v;
  if (a->size == 2) return half_value(v);
  if (a->size == 4) {
    float f;
    uint32_t low = (uint32_t)v;
    memcpy(&f, &low, sizeof f);
    return (double)f;
  }
  double d;
  memcpy(&d, &v, sizeof d);
  return d;
}
