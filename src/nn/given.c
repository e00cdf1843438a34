/* See given.h. */
#include "nn/given.h"
#include "base/alien.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/proto.h"
#include "base/str.h"
#include "nn/foreign_impl.h"
#include "nn/import.h"
#include "tensor/half.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_HEADER = 100000000, MOST_SCALES = 1 << 15 };

struct shoal_given {
  char *path;
  shoal_import *import;        /* of ONNX; or */
  int fd;                      /* of safetensors, */
  json_t *header;              /* whose names are borrowed */
  shoal_foreign_tensor *named; /* of ONNX: the names */
  uint64_t values;             /* where values begin in the file */
  shoal_given_tensor *tensor;  /* [n] */
  size_t n;
  double *mean, *std; /* [scales] */
  size_t scales;
};

static bool ends_with(const char *path, const char *ending)
{
  size_t n = strlen(path), m = strlen(ending);
  return n > m && strcmp(path + n - m, ending) == 0;
}

bool shoal_given_is(const char *path)
{
  return ends_with(path, ".onnx") || ends_with(path, ".safetensors");
}

/* ---- safetensors ---- */

static shoal_status damaged(const shoal_given *g, const char *what, const char *name)
{
  return SHOAL_FAIL(SHOAL_ERR_IO, "%s is no safetensors, or damaged: %s%s", g->path, what, name);
}

static shoal_status read_at(const shoal_given *g, uint64_t offset, void *out, size_t n)
{
  size_t got = 0;
  errno = 0;
  for (ssize_t r = 1; got < n && r > 0; got += r > 0 ? (size_t)r : 0)
    r = pread(g->fd, (char *)out + got, n - got, (off_t)(offset + got));
  return got == n ? SHOAL_OK : shoal_io_fault("read", g->path, errno ? errno : EIO);
}

/* *bytes is 0 for whole numbers. */
static bool find_type(const char *name, int *bytes, bool *bfloat)
{
  static const struct {
    const char *name;
    int bytes;
  } types[] = { { "F64", 8 }, { "F32", 4 }, { "F16", 2 },  { "BF16", 2 }, { "I64", 0 }, { "I32", 0 }, { "I16", 0 },
                { "I8", 0 },  { "U8", 0 },  { "BOOL", 0 }, { "U16", 0 },  { "U32", 0 }, { "U64", 0 } };
  for (size_t k = 0; k < SHOAL_COUNT(types); k++)
    if (strcmp(types[k].name, name) == 0) {
      *bytes = types[k].bytes;
      *bfloat = name[0] == 'B';
      return true;
    }
  return false;
}

/* What a tensor takes by its shape, and what its offsets say of it; `bytes` is 0 where they fit no 64 bits. */
static shoal_status check_place(const shoal_given *g, const shoal_given_tensor *t, uint64_t bytes, json_int_t begin,
                                json_int_t end, uint64_t held)
{
  char takes[64] = "more bytes than any file has", beyond[96] = "";
  if (begin >= 0 && end >= begin && (uint64_t)end <= held && (uint64_t)(end - begin) == bytes) return SHOAL_OK;
  if (bytes) snprintf(takes, sizeof takes, "%" PRIu64 " byte%s", bytes, bytes == 1 ? "" : "s");
  if (end > 0 && (uint64_t)end > held)
    snprintf(beyond, sizeof beyond, " and end at byte %" PRIu64 " of a file of %" PRIu64, g->values + (uint64_t)end,
             g->values + held);
  shoal_str dims = { 0 };
  for (int d = 0; d < t->ndim; d++) shoal_str_add(&dims, "%s%" PRIu64, d ? ", " : "", t->dim[d]);
  shoal_status st = SHOAL_FAIL(
      SHOAL_ERR_IO,
      "%s is no safetensors, or damaged: %s of shape [%s] takes %s, its data_offsets [%lld, %lld] hold %lld%s; "
      "copy or export it anew",
      g->path, t->name, dims.text ? dims.text : "", takes, (long long)begin, (long long)end,
      (long long)(begin >= 0 && end >= begin ? end - begin : 0), beyond);
  shoal_str_free(&dims);
  return st;
}

static shoal_status read_entry(shoal_given *g, const char *name, const json_t *entry, uint64_t held)
{
  const json_t *shape = json_object_get(entry, "shape"), *at = json_object_get(entry, "data_offsets");
  const char *type = json_string_value(json_object_get(entry, "dtype"));
  shoal_given_tensor t = { .name = name, .ndim = (int)json_array_size(shape), .count = 1 };
  if (!type || !json_is_array(shape) || json_array_size(shape) > SHOAL_COUNT(t.dim) || json_array_size(at) != 2)
    return damaged(g, "dtype, shape or data_offsets is missing or malformed for ", name);
  bool known = find_type(type, &t.bytes, &t.bfloat), packed = t.ndim >= 2 && type[1] == '8'; /* not a counter */
  SHOAL_CHECK(known && !packed, SHOAL_ERR_UNSUPPORTED,
              "%s: %s is of type %s; F64, F32, F16 and BF16 are read: export the model without quantisation", g->path,
              name, type);
  if (t.bytes == 0) return SHOAL_OK;
  bool fits = true;
  uint64_t bytes;
  for (int d = 0; d < t.ndim; d++) {
    json_int_t dim = json_integer_value(json_array_get(shape, (size_t)d));
    SHOAL_CHECK(dim > 0, SHOAL_ERR_IO, "%s is no safetensors, or damaged: dimension %d of %s is %lld; export it anew",
                g->path, d, name, (long long)dim);
    fits = fits && !__builtin_mul_overflow(t.count, (size_t)dim, &t.count);
    t.dim[d] = (uint64_t)dim;
  }
  fits = fits && !__builtin_mul_overflow((uint64_t)t.count, (uint64_t)t.bytes, &bytes);
  json_int_t begin = json_integer_value(json_array_get(at, 0)), end = json_integer_value(json_array_get(at, 1));
  SHOAL_TRY(check_place(g, &t, fits ? bytes : 0, begin, end, held));
  t.offset = g->values + (uint64_t)begin;
  g->tensor[g->n++] = t;
  return SHOAL_OK;
}

/* "0.485,0.456,0.406" */
static shoal_status read_list(const shoal_given *g, const char *text, double **out, size_t *n)
{
  *n = 0;
  SHOAL_TRY(SHOAL_ALLOC((size_t)MOST_SCALES, out));
  for (char *end; *text; text = end + (*end == ',')) {
    double x = strtod(text, &end);
    if (end == text || (*end && *end != ',') || *n == MOST_SCALES || !(x > -1e300 && x < 1e300))
      return damaged(g, "mean or std in its metadata", "");
    (*out)[(*n)++] = x;
  }
  return SHOAL_OK;
}

static shoal_status read_scale(shoal_given *g, const json_t *facts)
{
  const char *mean = json_string_value(json_object_get(facts, "mean"));
  const char *std = json_string_value(json_object_get(facts, "std"));
  size_t n;
  if (!mean || !std) return SHOAL_OK;
  SHOAL_TRY(read_list(g, mean, &g->mean, &g->scales));
  SHOAL_TRY(read_list(g, std, &g->std, &n));
  bool good = n == g->scales;
  for (size_t k = 0; good && k < n; k++) good = g->std[k] > 0;
  return good ? SHOAL_OK : damaged(g, "mean or std in its metadata", "");
}

static shoal_status read_header(shoal_given *g, uint64_t size)
{
  uint8_t length[8] = { 0 }, head[4096];
  const size_t begin = (size_t)SHOAL_MIN(size, sizeof head);
  char *text;
  SHOAL_TRY(read_at(g, 0, head, begin));
  SHOAL_TRY(shoal_refuse_alien_weights(g->path, head, begin));
  SHOAL_CHECK(size >= 8, SHOAL_ERR_IO,
              "%s is no safetensors, or damaged: it has %" PRIu64
              " bytes, where 8 tell the length of a header; copy or export it anew",
              g->path, size);
  SHOAL_TRY(read_at(g, 0, length, sizeof length));
  uint64_t n = shoal_proto_little_endian(length, sizeof length);
  SHOAL_CHECK(n <= size - 8 && n <= MOST_HEADER, SHOAL_ERR_IO,
              "%s is no safetensors, or damaged: by its first 8 bytes its header has %" PRIu64
              " bytes, and the file has %" PRIu64 " (at most %d are read); copy or export it anew",
              g->path, n, size, MOST_HEADER);
  SHOAL_TRY(shoal_limit_memory(g->path, "the header", n + 1, 16));
  SHOAL_TRY(SHOAL_ALLOC((size_t)n + 1, &text));
  shoal_status st = read_at(g, 8, text, (size_t)n);
  if (st == SHOAL_OK) st = shoal_json_read(text, g->path, &g->header);
  free(text);
  SHOAL_TRY(st);
  g->values = 8 + n;
  if (!json_is_object(g->header)) return damaged(g, "its header is no object", "");
  SHOAL_TRY(SHOAL_ALLOC(json_object_size(g->header) + 1, &g->tensor));
  for (void *at = json_object_iter(g->header); at; at = json_object_iter_next(g->header, at)) {
    const char *name = json_object_iter_key(at);
    const json_t *entry = json_object_iter_value(at);
    SHOAL_TRY(strcmp(name, "__metadata__") == 0 ? read_scale(g, entry) : read_entry(g, name, entry, size - g->values));
  }
  return SHOAL_OK;
}

/* ---- ONNX ---- */

static shoal_status read_import(shoal_given *g)
{
  shoal_foreign f = { 0 };
  SHOAL_TRY(shoal_import_open(g->path, &g->import));
  SHOAL_TRY(shoal_foreign_tensors(shoal_import_model(g->import), &g->named, &g->n));
  SHOAL_TRY(SHOAL_ALLOC(g->n + 1, &g->tensor));
  for (size_t k = 0; k < g->n; k++) {
    const shoal_foreign_tensor *t = &g->named[k];
    g->tensor[k] = (shoal_given_tensor){ .name = t->name, .ndim = t->shape.ndim, .count = t->count };
    for (int d = 0; d < t->shape.ndim; d++) g->tensor[k].dim[d] = (uint64_t)t->shape.dim[d];
  }
  shoal_import_scale(g->import, &f);
  if (f.scales == 0) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(f.scales, &g->mean));
  SHOAL_TRY(SHOAL_ALLOC(f.scales, &g->std));
  memcpy(g->mean, f.mean, f.scales * sizeof *f.mean);
  memcpy(g->std, f.std, f.scales * sizeof *f.std);
  g->scales = f.scales;
  return SHOAL_OK;
}

/* ---- both ---- */

shoal_status shoal_given_open(const char *path, shoal_given **out)
{
  shoal_given *g;
  uint64_t size;
  SHOAL_TRY(SHOAL_ALLOC(1, &g));
  g->fd = -1;
  g->path = strdup(path);
  shoal_status st = g->path ? SHOAL_OK : SHOAL_FAIL(SHOAL_ERR_MEM, "out of memory for %s", path);
  if (st == SHOAL_OK && ends_with(path, ".onnx")) {
    st = read_import(g);
  } else if (st == SHOAL_OK) {
    st = shoal_open_file(path, &g->fd, &size);
    if (st == SHOAL_OK) st = read_header(g, size);
  }
  if (st == SHOAL_OK)
    *out = g;
  else
    shoal_given_close(g);
  return st;
}

void shoal_given_close(shoal_given *g)
{
  if (!g) return;
  shoal_import_close(g->import);
  if (g->fd >= 0) close(g->fd);
  json_decref(g->header);
  free(g->named);
  free(g->tensor);
  free(g->mean);
  free(g->std);
  free(g->path);
  free(g);
}

const char *shoal_given_path(const shoal_given *g)
{
  return g->path;
}

size_t shoal_given_tensors(const shoal_given *g, const shoal_given_tensor **out)
{
  *out = g->tensor;
  return g->n;
}

size_t shoal_given_scale(const shoal_given *g, const double **mean, const double **std)
{
  *mean = g->mean;
  *std = g->std;
  return g->scales;
}

static float value_of(const uint8_t *at, const shoal_given_tensor *t)
{
  uint64_t bits = shoal_proto_little_endian(at, (size_t)t->bytes);
  uint32_t low = (uint32_t)bits;
  float f;
  double d;
  if (t->bytes == 8) {
    memcpy(&d, &bits, sizeof d);
    return (float)d;
  }
  if (t->bytes == 2 && !t->bfloat) {
    shoal_f32_from_f16(1, (uint16_t[]){ (uint16_t)low }, &f);
    return f;
  }
  if (t->bytes == 2) low <<= 16;
  memcpy(&f, &low, sizeof f);
  return f;
}

shoal_status shoal_given_read(const shoal_given *g, const shoal_given_tensor *t, shoal_host_float *out)
{
  uint8_t part[4096];
  if (g->import) return shoal_import_tensor(g->import, t->name, t->count, out);
  for (size_t k = 0; k < t->count;) {
    size_t n = SHOAL_MIN(t->count - k, sizeof part / (size_t)t->bytes);
    SHOAL_TRY(read_at(g, t->offset + k * (uint64_t)t->bytes, part, n * (size_t)t->bytes));
    for (size_t i = 0; i < n; i++) out[k++] = value_of(part + i * (size_t)t->bytes, t);
  }
  return SHOAL_OK;
}
