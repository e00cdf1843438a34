/* See npy.h.  A .npy file is
 *
 *     93 "NUMPY" | major minor | length of the header, u16 or u32 | {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}
 *
 * and the elements.  The header is Python's notation of a dictionary; it is searched for its three keys. */
#include "data/npy.h"
#include "base/file.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include <ctype.h>
#include <inttypes.h>
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

static shoal_status read_type(shoal_npy *a, const char *header)
{
  const char *descr = value_of(header, "'descr'");
  SHOAL_CHECK(descr && *descr == '\'', SHOAL_ERR_IO,
              "%s: array %s is no plain array (structured data): save its columns "
              "as arrays of numbers",
              a->path, a->name);
  char order = descr[1];
  a->kind = descr[2];
  a->size = (size_t)(descr[3] >= '0' && descr[3] <= '9' ? strtoul(descr + 3, NULL, 10) : 0);
  a->swapped = order == '>' && a->size > 1;
  SHOAL_CHECK(a->kind != 'O', SHOAL_ERR_IO,
              "%s: array %s holds Python objects, which are not loaded: save it as numbers", a->path, a->name);
  SHOAL_CHECK(a->kind != 'U' && a->kind != 'S', SHOAL_ERR_IO,
              "%s: array %s holds text: number the classes with classes, y = np.unique(y, return_inverse=True)",
              a->path, a->name);
  bool number = strchr("<>|=", order) && a->kind && strchr("buif", a->kind) &&
                (a->size == 1 || a->size == 2 || a->size == 4 || a->size == 8) && !(a->kind == 'f' && a->size < 4);
  SHOAL_CHECK(number, SHOAL_ERR_IO, "%s: array %s has type %.8s, which is not read: convert it with .astype('float32')",
              a->path, a->name, descr);
  return SHOAL_OK;
}

static shoal_status read_shape(shoal_npy *a, const char *header)
{
  const char *at = value_of(header, "'shape'"), *order = value_of(header, "'fortran_order'");
  SHOAL_CHECK(at && *at == '(' && order, SHOAL_ERR_IO, "%s: the header of array %s has no shape", a->path, a->name);
  for (at++; *at && *at != ')';) {
    char *end;
    SHOAL_CHECK(isdigit((unsigned char)*at) && a->ndim < 4, SHOAL_ERR_IO,
                "%s: array %s has a shape that is not read: 1 to 4 dimensions are", a->path, a->name);
    a->dims[a->ndim++] = strtoull(at, &end, 10);
    at = end + strspn(end, ", ");
  }
  SHOAL_CHECK(a->ndim > 0, SHOAL_ERR_IO, "%s: array %s is a single number", a->path, a->name);
  bool fortran = strncmp(order, "True", 4) == 0;
  uint64_t stride = 1;
  for (int i = 0; i < a->ndim; i++) {
    int d = fortran ? i : a->ndim - 1 - i;
    a->strides[d] = stride;
    SHOAL_CHECK(!__builtin_mul_overflow(stride, a->dims[d], &stride), SHOAL_ERR_IO,
                "%s: the shape of array %s overflows", a->path, a->name);
  }
  return SHOAL_OK;
}

static shoal_status parse(shoal_npy *a, size_t n)
{
  const uint8_t *b = (const uint8_t *)a->bytes;
  SHOAL_CHECK(n >= 10 && memcmp(b, "\x93NUMPY", 6) == 0, SHOAL_ERR_IO, "%s: %s is not a NumPy array (.npy)", a->path,
              a->name);
  size_t start = b[6] == 1 ? 10 : 12, length = (size_t)b[8] | (size_t)b[9] << 8;
  if (b[6] > 1 && n >= 12) length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
  SHOAL_CHECK(start + length <= n, SHOAL_ERR_IO, "%s: array %s is cut short in its header", a->path, a->name);
  char *header = shoal_strdup_printf("%.*s", (int)length, a->bytes + start);
  shoal_status st = read_type(a, header);
  if (st == SHOAL_OK) st = read_shape(a, header);
  free(header);
  SHOAL_TRY(st);
  uint64_t elements = 1;
  for (int i = 0; i < a->ndim; i++) elements *= a->dims[i];
  SHOAL_CHECK(elements > 0, SHOAL_ERR_IO, "%s: array %s is empty", a->path, a->name);
  a->data = b + start + length;
  return shoal_limit_held(a->path, a->name, elements, a->size, n - start - length);
}

/* ---- files ---- */

/* Takes over `bytes` and adds the array to the list; `name` is that of the file or member. */
static shoal_status add(shoal_npys *l, const char *path, const char *name, char *bytes, size_t n)
{
  shoal_npy a = { .path = path, .bytes = bytes };
  shoal_npy *more = realloc(l->all, (l->n + 1) * sizeof *more);
  if (!more) {
    free(bytes);
    return SHOAL_FAIL(SHOAL_ERR_MEM, "out of memory for %zu arrays", l->n + 1);
  }
  l->all = more;
  a.name = shoal_strdup_printf("%s", shoal_path_base(name));
  char *end = strstr(a.name, ".npy");
  if (end) *end = '\0';
  shoal_status st = parse(&a, n);
  l->all[l->n++] = a;
  return st;
}

static shoal_status load_member(zip_t *z, zip_uint64_t index, const char *path, shoal_npys *out)
{
  zip_stat_t s;
  char *bytes = NULL;
  SHOAL_CHECK(zip_stat_index(z, index, 0, &s) == 0 && (s.valid & ZIP_STAT_SIZE) && (s.valid & ZIP_STAT_NAME) &&
                  (s.valid & ZIP_STAT_COMP_SIZE),
              SHOAL_ERR_IO, "%s: member %llu has no name or size", path, (unsigned long long)index);
  SHOAL_TRY(shoal_limit_held(path, s.name, s.size, 1,
                             s.comp_size < UINT64_MAX / 1032 ? s.comp_size * 1032 + 64 : UINT64_MAX));
  SHOAL_TRY(shoal_limit_memory(path, s.name, s.size, 1));
  zip_file_t *f = zip_fopen_index(z, index, 0);
  SHOAL_CHECK(f, SHOAL_ERR_IO, "%s: cannot read %s: %s", path, s.name, zip_strerror(z));
  bytes = malloc(s.size + 1);
  zip_int64_t got = bytes ? zip_fread(f, bytes, s.size) : 0;
  char rest;
  bool whole = bytes && got == (zip_int64_t)s.size && zip_fread(f, &rest, 1) == 0; /* the end checks the CRC */
  zip_fclose(f);
  if (whole) return add(out, path, s.name, bytes, s.size);
  free(bytes);
  SHOAL_CHECK(bytes, SHOAL_ERR_MEM, "out of memory for %s of %s", s.name, path);
  return SHOAL_FAIL(SHOAL_ERR_IO, "%s: %s is damaged or cut short", path, s.name);
}

static shoal_status load_archive(const char *path, shoal_npys *out)
{
  int error = 0;
  zip_t *z = zip_open(path, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (!z) {
    zip_error_t e;
    zip_error_init_with_code(&e, error);
    shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "cannot open the archive %s: %s", path, zip_error_strerror(&e));
    zip_error_fini(&e);
    return st;
  }
  shoal_status st = SHOAL_OK;
  for (zip_int64_t i = 0; st == SHOAL_OK && i < zip_get_num_entries(z, 0); i++)
    st = load_member(z, (zip_uint64_t)i, path, out);
  zip_discard(z);
  return st;
}

shoal_status shoal_npy_load(const char *path, shoal_npys *out)
{
  uint8_t magic[4] = { 0 };
  size_t n;
  shoal_source *s;
  SHOAL_TRY(shoal_source_open(path, &s));
  shoal_status st = shoal_source_read(s, magic, sizeof magic, &n);
  shoal_source_close(s);
  SHOAL_TRY(st);
  if (memcmp(magic, "PK\3\4", 4) == 0) return load_archive(path, out);
  char *bytes;
  SHOAL_TRY(shoal_source_slurp(path, &bytes, &n));
  return add(out, path, path, bytes, n);
}

void shoal_npys_fini(shoal_npys *l)
{
  for (size_t i = 0; i < l->n; i++) {
    free(l->all[i].name);
    free(l->all[i].bytes);
  }
  free(l->all);
  *l = (shoal_npys){ 0 };
}

/* ---- elements ---- */

static uint64_t bits_of(const shoal_npy *a, uint64_t at)
{
  uint64_t v = 0;
  memcpy(&v, a->data + at * a->size, a->size); /* little-endian, as all machines that Shoal runs on */
  return a->swapped ? __builtin_bswap64(v) >> (64 - 8 * a->size) : v;
}

int64_t shoal_npy_whole(const shoal_npy *a, uint64_t at)
{
  uint64_t v = bits_of(a, at);
  unsigned unused = 64 - 8 * (unsigned)a->size;
  if (a->kind == 'i') return (int64_t)(v << unused) >> unused;
  return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

double shoal_npy_real(const shoal_npy *a, uint64_t at)
{
  uint64_t v = bits_of(a, at);
  if (a->kind == 'i') return (double)shoal_npy_whole(a, at);
  if (a->kind != 'f') return (double)v;
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
