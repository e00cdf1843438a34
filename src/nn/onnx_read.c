/* See onnx_graph.h: a file of ONNX becomes a graph.  Numbers of fields are those of the format's .proto file.
 *
 * Nothing in the file is believed: a message ends where the one around it ends, a tensor has as many bytes as its shape says,
 * counts are compared with what there is.  Messages within messages have a fixed depth, since graphs in attributes, which
 * loops and branches have, are refused. */
#include "base/alien.h"
#include "base/error.h"
#include "base/file.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/str.h"
#include "nn/onnx_graph.h"
#include "tensor/half.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_NODES = 100000 };

/* ---- memory ---- */

typedef struct block {
  struct block *next;
  max_align_t bytes[];
} block;

shoal_status shoal_onnx_take(shoal_onnx_graph *g, size_t n, size_t size, void *out)
{
  uint64_t bytes;
  block *b = NULL;
  *(void **)out = NULL;
  if (!__builtin_mul_overflow((uint64_t)n, (uint64_t)size, &bytes) &&
      !__builtin_add_overflow(bytes, (uint64_t)sizeof *b, &bytes) && bytes < g->memory)
    b = calloc(1, bytes);
  SHOAL_CHECK(b, SHOAL_ERR_MEM, "%s: out of memory for %zu items", g->path, n);
  g->memory -= bytes;
  b->next = g->blocks;
  g->blocks = b;
  *(void **)out = b->bytes;
  return SHOAL_OK;
}

void shoal_onnx_free(shoal_onnx_graph *g)
{
  for (block *b = g->blocks; b;) {
    block *next = b->next;
    free(b);
    b = next;
  }
  free(g->bytes);
  free(g->value);
  free(g->table);
  *g = (shoal_onnx_graph){ 0 };
}

static shoal_status damaged(const shoal_onnx_graph *g, const char *what)
{
  return SHOAL_FAIL(SHOAL_ERR_IO, "%s is no ONNX, or damaged: %s", g->path, what);
}

static shoal_status take_text(shoal_onnx_graph *g, const shoal_proto_field *f, const char **out)
{
  char *text;
  size_t n = (size_t)(f->bytes.end - f->bytes.at);
  if (f->type != 2) return damaged(g, "a number where a text should be");
  SHOAL_TRY(shoal_onnx_take(g, n + 1, 1, &text));
  if (n > 0) memcpy(text, f->bytes.at, n);
  *out = text;
  return SHOAL_OK;
}

/* ---- values by name ---- */

static size_t hash(const char *name)
{
  uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a */
  for (; *name; name++) h = (h ^ (uint8_t)*name) * UINT64_C(1099511628211);
  return (size_t)h;
}

static shoal_status grow_table(shoal_onnx_graph *g)
{
  size_t slots = g->slots ? 2 * g->slots : 256;
  int *table = malloc(slots * sizeof *table);
  shoal_onnx_value *value = realloc(g->value, slots / 2 * sizeof *value);
  if (value) g->value = value;
  if (!table || !value) {
    free(table);
    return SHOAL_FAIL(SHOAL_ERR_MEM, "%s: out of memory for %zu values", g->path, slots);
  }
  for (size_t i = 0; i < slots; i++) table[i] = -1;
  for (int v = 0; v < g->values; v++) {
    size_t at = hash(g->value[v].name) & (slots - 1);
    while (table[at] >= 0) at = (at + 1) & (slots - 1);
    table[at] = v;
  }
  free(g->table);
  g->table = table;
  g->slots = slots;
  return SHOAL_OK;
}

/* The value of this name, which is made if there is none. */
static shoal_status value_of(shoal_onnx_graph *g, const char *name, int *out)
{
  if (2 * (size_t)g->values >= g->slots) SHOAL_TRY(grow_table(g));
  size_t at = hash(name) & (g->slots - 1);
  for (; g->table[at] >= 0; at = (at + 1) & (g->slots - 1))
    if (strcmp(g->value[g->table[at]].name, name) == 0) {
      *out = g->table[at];
      return SHOAL_OK;
    }
  *out = g->table[at] = g->values++;
  g->value[*out] = (shoal_onnx_value){ .name = name, .producer = -1, .reader = -1 };
  return SHOAL_OK;
}

/* ---- tensors ---- */

bool shoal_onnx_is_whole(int type)
{
  return type == SHOAL_ONNX_U8 || type == SHOAL_ONNX_I32 || type == SHOAL_ONNX_I64 || type == SHOAL_ONNX_BOOL;
}

static size_t element_bytes(int type)
{
  switch (type) {
  case SHOAL_ONNX_U8:
  case SHOAL_ONNX_BOOL:
    return 1;
  case SHOAL_ONNX_F16:
  case SHOAL_ONNX_BF16:
    return 2;
  case SHOAL_ONNX_F32:
  case SHOAL_ONNX_I32:
    return 4;
  case SHOAL_ONNX_F64:
  case SHOAL_ONNX_I64:
    return 8;
  default:
    return 0;
  }
}

const char *shoal_onnx_shape_text(int ndim, const int64_t *dim, char *buf, size_t cap)
{
  size_t n = (size_t)snprintf(buf, cap, "[");
  for (int d = 0; d < ndim && n < cap; d++)
    n += (size_t)snprintf(buf + n, cap - n, "%s%lld", d ? "," : "", (long long)dim[d]);
  if (n < cap) snprintf(buf + n, cap - n, "]");
  return buf;
}

/* One entry of what says where a tensor's bytes are: key and value. */
static shoal_status take_place(shoal_onnx_graph *g, shoal_proto_view in, shoal_onnx_tensor *t)
{
  const char *key = "", *value = "";
  int64_t offset;
  for (shoal_proto_field f; shoal_proto_next(&in, &f);) {
    if (f.number == 1) SHOAL_TRY(take_text(g, &f, &key));
    if (f.number == 2) SHOAL_TRY(take_text(g, &f, &value));
  }
  if (in.damaged) return damaged(g, "the place of a tensor");
  if (strcmp(key, "location") == 0) t->beside = value;
  if (strcmp(key, "offset") == 0) {
    if (shoal_parse_i64(value, &offset) != SHOAL_OK || offset < 0) return damaged(g, "the offset of a tensor");
    t->offset = (uint64_t)offset;
  }
  return SHOAL_OK;
}

/* Whether what was opened lies in the folder or below it once links are followed: of the open file, so that nobody can exchange a
 * link in between. */
static bool is_below(int fd, const char *path, const char *folder)
{
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  char *file = realpath(link, NULL), *top = realpath(folder, NULL);
  if (!file) file = realpath(path, NULL);
  const size_t n = top ? strlen(top) : 0;
  const bool below = file && n && strncmp(file, top, n) == 0 && (file[n] == '/' || n == 1);
  free(file);
  free(top);
  return below;
}

/* The file beside this one: in the same folder or below it, since who made this file chose the name, and may have made links. */
static shoal_status open_beside(const shoal_onnx_graph *g, const shoal_onnx_tensor *t, int *fd, uint64_t *size)
{
  const char *name = t->beside;
  bool below = name[0] && name[0] != '/';
  for (const char *at = name; at; at = strchr(at, '/'), at = at ? at + 1 : NULL)
    below = below && !(strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2]));
  SHOAL_CHECK(below, SHOAL_ERR_IO, "%s has its weights in \"%s\"; only files in its own folder are read", g->path,
              name);
  char *folder = shoal_strdup_printf("%.*s.", (int)(shoal_path_base(g->path) - g->path), g->path);
  char *path = shoal_strdup_printf("%.*s%s", (int)(shoal_path_base(g->path) - g->path), g->path, name);
  shoal_status st = shoal_open_file(path, fd, size);
  st = shoal_error_prefix(st, "%s has its weights in another file: ", g->path);
  if (st == SHOAL_OK && !is_below(*fd, path, folder)) {
    close(*fd);
    st = SHOAL_FAIL(SHOAL_ERR_IO,
                    "%s has its weights in \"%s\", which is behind a link that leads out of its folder; only files in "
                    "its own folder are read: if you made the link, copy the whole folder with cp -rL, which puts "
                    "files in place of links, and import from there",
                    g->path, name);
  }
  free(folder);
  free(path);
  return st;
}

static shoal_status check_beside(const shoal_onnx_graph *g, const shoal_onnx_tensor *t, const char *name)
{
  int fd;
  uint64_t size, bytes = (uint64_t)t->count * element_bytes(t->type);
  SHOAL_TRY(open_beside(g, t, &fd, &size));
  close(fd);
  SHOAL_CHECK(t->offset <= size && bytes <= size - t->offset, SHOAL_ERR_IO,
              "%s: tensor %s is said to be at bytes %llu to %llu of %s, which has %llu", g->path, name,
              (unsigned long long)t->offset, (unsigned long long)(t->offset + bytes), t->beside,
              (unsigned long long)size);
  return SHOAL_OK;
}

static size_t count_packed(shoal_proto_view in)
{
  size_t n = 0;
  for (uint64_t x; in.at < in.end && shoal_proto_take_number(&in, &x);) n++;
  return in.damaged ? SIZE_MAX : n;
}

/* Elements in fields of the message that hold numbers, of which the right one has its kind. */
static bool list_fits(const shoal_onnx_tensor *t, unsigned field)
{
  size_t bytes = (size_t)(t->list.end - t->list.at);
  switch (t->type) {
  case SHOAL_ONNX_F32:
    return field == 4 && bytes / 4 == t->count && bytes % 4 == 0;
  case SHOAL_ONNX_F64:
    return field == 10 && bytes / 8 == t->count && bytes % 8 == 0;
  default:
    return field == (t->type == SHOAL_ONNX_I64 ? 7u : 5u) && count_packed(t->list) == t->count;
  }
}

static shoal_status check_tensor(const shoal_onnx_graph *g, shoal_onnx_tensor *t, const char *name, unsigned list_field,
                                 size_t raw_bytes, bool external)
{
  char shape[192];
  size_t size = element_bytes(t->type);
  SHOAL_CHECK(size > 0, SHOAL_ERR_UNSUPPORTED,
              "%s: tensor %s has elements of ONNX's type %d; f32, f64, f16, bf16, and whole numbers of 8, 32 and 64 "
              "bits are read",
              g->path, name, t->type);
  t->count = 1;
  for (int d = 0; d < t->ndim; d++)
    SHOAL_CHECK(t->dim[d] >= 0 && !__builtin_mul_overflow(t->count, (size_t)t->dim[d], &t->count) &&
                    t->count <= SIZE_MAX / 16,
                SHOAL_ERR_IO, "%s: tensor %s has the shape %s", g->path, name,
                shoal_onnx_shape_text(t->ndim, t->dim, shape, sizeof shape));
  if (external && t->beside) return check_beside(g, t, name);
  t->beside = NULL;
  bool fits = t->raw ? raw_bytes == t->count * size : t->list.at != NULL ? list_fits(t, list_field) : t->count == 0;
  SHOAL_CHECK(fits && !external, SHOAL_ERR_IO, "%s: tensor %s has the shape %s, but other elements than that", g->path,
              name, shoal_onnx_shape_text(t->ndim, t->dim, shape, sizeof shape));
  return SHOAL_OK;
}

static shoal_status add_dim(const shoal_onnx_graph *g, shoal_onnx_tensor *t, uint64_t x)
{
  SHOAL_CHECK(t->ndim < SHOAL_ONNX_DIMS, SHOAL_ERR_UNSUPPORTED, "%s: a tensor of more than %d dimensions", g->path,
              SHOAL_ONNX_DIMS);
  t->dim[t->ndim++] = (int64_t)x;
  return SHOAL_OK;
}

/* Numbers come in one packed field, which is taken as it is, or one to a field, as this program writes them: then they are
 * packed. */
static shoal_status gather(shoal_onnx_graph *g, shoal_proto_view in, unsigned field, shoal_proto_view *out)
{
  shoal_proto_view again = in;
  shoal_proto number = { 0 };
  uint8_t *packed;
  bool copy = false;
  for (shoal_proto_field f; shoal_proto_next(&again, &f);)
    if (f.number == field) {
      copy |= out->at || f.type == 0;
      *out = f.bytes;
    }
  if (!copy) return SHOAL_OK;
  SHOAL_TRY(shoal_onnx_take(g, (size_t)(in.end - in.at), 1, &packed));
  *out = (shoal_proto_view){ packed, packed, false };
  for (shoal_proto_field f; shoal_proto_next(&in, &f);) {
    if (f.number != field) continue;
    shoal_proto_view piece = f.bytes;
    if (f.type == 0) {
      number.n = 0;
      shoal_proto_number(&number, 0, f.value); /* behind a head of one byte */
      piece = (shoal_proto_view){ number.bytes + 1, number.bytes + number.n, false };
    }
    if (piece.end > piece.at) memcpy(packed + (out->end - out->at), piece.at, (size_t)(piece.end - piece.at));
    out->end += piece.end - piece.at;
  }
  shoal_proto_free(&number);
  return SHOAL_OK;
}

static shoal_status read_tensor(shoal_onnx_graph *g, shoal_proto_view in, shoal_onnx_tensor *t, const char **name)
{
  unsigned list_field = 0;
  size_t raw_bytes = 0;
  bool external = false;
  shoal_proto_view whole = in;
  *name = "";
  for (shoal_proto_field f; shoal_proto_next(&in, &f);) switch (f.number) {
    case 1:
      if (f.type == 0) SHOAL_TRY(add_dim(g, t, f.value));
      for (uint64_t x; f.type == 2 && f.bytes.at < f.bytes.end;) {
        if (!shoal_proto_take_number(&f.bytes, &x)) return damaged(g, "the shape of a tensor");
        SHOAL_TRY(add_dim(g, t, x));
      }
      break;
    case 2:
      t->type = f.value <= INT32_MAX ? (int)f.value : 0;
      break;
    case 4:
    case 5:
    case 7:
    case 10:
      list_field = f.number;
      break;
    case 8:
      SHOAL_TRY(take_text(g, &f, name));
      break;
    case 9:
      if (f.type != 2) return damaged(g, "the values of a tensor");
      t->raw = f.bytes.at ? f.bytes.at : (const uint8_t *)"";
      raw_bytes = (size_t)(f.bytes.end - f.bytes.at);
      break;
    case 13:
      if (f.type != 2) return damaged(g, "the place of a tensor");
      SHOAL_TRY(take_place(g, f.bytes, t));
      break;
    case 14:
      external = f.value == 1;
      break;
    default:
      break;
    }
  if (in.damaged) return damaged(g, "a tensor ends too early");
  if (list_field && !t->raw) SHOAL_TRY(gather(g, whole, list_field, &t->list));
  return check_tensor(g, t, *name, list_field, raw_bytes, external);
}

/* ---- elements ---- */

/* All bytes of a tensor in the file or beside it; *own: to be freed. */
static shoal_status bytes_of(const shoal_onnx_graph *g, const shoal_onnx_tensor *t, const uint8_t **out, uint8_t **own)
{
  int fd;
  uint64_t size;
  size_t bytes = t->count * element_bytes(t->type);
  *own = NULL;
  *out = t->raw;
  if (t->raw) return SHOAL_OK;
  SHOAL_TRY(shoal_limit_memory(g->path, "a tensor", t->count, element_bytes(t->type)));
  SHOAL_TRY(open_beside(g, t, &fd, &size));
  shoal_status st = SHOAL_ALLOC(bytes + 1, own);
  size_t got = 0;
  errno = 0;
  for (ssize_t r = 1; st == SHOAL_OK && got < bytes && r > 0; got += r > 0 ? (size_t)r : 0)
    r = pread(fd, *own + got, bytes - got, (off_t)(t->offset + got));
  if (st == SHOAL_OK && got < bytes) st = shoal_io_fault("read the weights of", g->path, errno ? errno : EIO);
  close(fd);
  *out = *own;
  return st;
}

static double real_at(const uint8_t *p, int type)
{
  uint64_t bits = shoal_proto_little_endian(p, element_bytes(type));
  uint32_t low = (uint32_t)bits;
  float f;
  double d;
  switch (type) {
  case SHOAL_ONNX_F64:
    memcpy(&d, &bits, sizeof d);
    return d;
  case SHOAL_ONNX_F16:
    shoal_f32_from_f16(1, (uint16_t[]){ (uint16_t)low }, &f);
    return (double)f;
  case SHOAL_ONNX_BF16:
    low <<= 16;
    break;
  default:
    break;
  }
  memcpy(&f, &low, sizeof f);
  return (double)f;
}

shoal_status shoal_onnx_reals(const shoal_onnx_graph *g, const shoal_onnx_tensor *t, shoal_host_float **out)
{
  const uint8_t *bytes;
  uint8_t *own = NULL;
  *out = NULL;
  SHOAL_CHECK(!shoal_onnx_is_whole(t->type), SHOAL_ERR_UNSUPPORTED, "%s: whole numbers where reals should be", g->path);
  SHOAL_TRY(shoal_limit_memory(g->path, "a tensor", t->count, sizeof **out));
  SHOAL_TRY(SHOAL_ALLOC(t->count + 1, out));
  shoal_status st = SHOAL_OK;
  size_t size = element_bytes(t->type);
  if (t->reals) {
    memcpy(*out, t->reals, t->count * sizeof **out);
  } else if (t->list.at && !t->raw && !t->beside && size < 4) { /* 16 bits each, packed as numbers */
    shoal_proto_view in = t->list;
    for (size_t i = 0; i < t->count; i++) {
      uint64_t x = 0;
      shoal_proto_take_number(&in, &x);
      uint8_t two[2] = { (uint8_t)x, (uint8_t)(x >> 8) };
      (*out)[i] = (float)real_at(two, t->type);
    }
  } else if (t->list.at && !t->raw && !t->beside) {
    for (size_t i = 0; i < t->count; i++) (*out)[i] = (float)real_at(t->list.at + i * size, t->type);
  } else {
    st = bytes_of(g, t, &bytes, &own);
    for (size_t i = 0; st == SHOAL_OK && i < t->count; i++) (*out)[i] = (float)real_at(bytes + i * size, t->type);
  }
  free(own);
  if (st == SHOAL_OK) return SHOAL_OK;
  free(*out);
  *out = NULL;
  return st;
}

static int64_t whole_at(const uint8_t *p, int type)
{
  uint64_t bits = shoal_proto_little_endian(p, element_bytes(type));
  return type == SHOAL_ONNX_I32 ? (int32_t)(uint32_t)bits : (int64_t)bits;
}

shoal_status shoal_onnx_whole(const shoal_onnx_graph *g, const shoal_onnx_tensor *t, int64_t **out)
{
  const uint8_t *bytes;
  uint8_t *own = NULL;
  *out = NULL;
  SHOAL_CHECK(shoal_onnx_is_whole(t->type), SHOAL_ERR_UNSUPPORTED, "%s: reals where whole numbers should be", g->path);
  SHOAL_TRY(shoal_limit_memory(g->path, "a tensor", t->count, sizeof **out));
  SHOAL_TRY(SHOAL_ALLOC(t->count + 1, out));
  shoal_status st = SHOAL_OK;
  if (t->whole) {
    memcpy(*out, t->whole, t->count * sizeof **out);
  } else if (t->list.at && !t->raw && !t->beside) {
    shoal_proto_view in = t->list;
    for (size_t i = 0; i < t->count; i++) {
      uint64_t x = 0;
      shoal_proto_take_number(&in, &x);
      (*out)[i] = (int64_t)x;
    }
  } else {
    st = bytes_of(g, t, &bytes, &own);
    for (size_t i = 0; st == SHOAL_OK && i < t->count; i++)
      (*out)[i] = whole_at(bytes + i * element_bytes(t->type), t->type);
  }
  free(own);
  if (st == SHOAL_OK) return SHOAL_OK;
  free(*out);
  *out = NULL;
  return st;
}

bool shoal_onnx_scalar(const shoal_onnx_graph *g, const shoal_onnx_tensor *t, double *out)
{
  shoal_host_float *x;
  shoal_error before;
  if (!t || t->count != 1 || shoal_onnx_is_whole(t->type)) return false;
  shoal_error_take(&before);
  bool good = shoal_onnx_reals(g, t, &x) == SHOAL_OK;
  if (good) *out = (double)x[0];
  if (good) free(x);
  (void)shoal_error_put(&before);
  return good;
}

/* ---- nodes ---- */

static shoal_status read_list(shoal_onnx_graph *g, shoal_proto_view in, shoal_onnx_attribute *a)
{
  shoal_proto_view packed = { 0 };
  int64_t *list;
  SHOAL_TRY(gather(g, in, 8, &packed));
  a->n = count_packed(packed);
  if (a->n == SIZE_MAX) return damaged(g, "an attribute");
  SHOAL_TRY(shoal_onnx_take(g, a->n + 1, sizeof *list, &list));
  for (size_t i = 0; i < a->n; i++) {
    uint64_t x = 0;
    shoal_proto_take_number(&packed, &x);
    list[i] = (int64_t)x;
  }
  a->list = list;
  return SHOAL_OK;
}

static shoal_status read_attribute(shoal_onnx_graph *g, shoal_proto_view in, shoal_onnx_attribute *a)
{
  const char *ignored;
  shoal_onnx_tensor *t;
  shoal_proto_view whole = in;
  a->name = a->text = "";
  for (shoal_proto_field f; shoal_proto_next(&in, &f);) switch (f.number) {
    case 1:
      SHOAL_TRY(take_text(g, &f, &a->name));
      break;
    case 2: {
      uint32_t bits = (uint32_t)f.value;
      memcpy(&a->real, &bits, sizeof bits);
      break;
    }
    case 3:
      a->whole = (int64_t)f.value;
      break;
    case 4:
      SHOAL_TRY(take_text(g, &f, &a->text));
      break;
    case 5:
      if (f.type != 2) return damaged(g, "an attribute");
      SHOAL_TRY(shoal_onnx_take(g, 1, sizeof *t, &t));
      SHOAL_TRY(read_tensor(g, f.bytes, t, &ignored));
      a->tensor = t;
      break;
    case 20:
      a->type = f.value <= INT32_MAX ? (int)f.value : 0;
      break;
    default:
      break;
    }
  if (in.damaged) return damaged(g, "an attribute ends too early");
  return a->type == 7 ? read_list(g, whole, a) : SHOAL_OK;
}

static int count_fields(shoal_proto_view in, unsigned number)
{
  int n = 0;
  for (shoal_proto_field f; n < INT32_MAX && shoal_proto_next(&in, &f);) n += f.number == number;
  return n;
}

/* What the exporter remarks: of the whole it matters whether a batch norm went into the node. */
static shoal_status read_remark(shoal_onnx_graph *g, shoal_proto_view in, shoal_onnx_node *n)
{
  const char *text;
  for (shoal_proto_field f; shoal_proto_next(&in, &f);) {
    if (f.number != 2) continue;
    SHOAL_TRY(take_text(g, &f, &text));
    n->folded |= strstr(text, "BatchNorm") || strstr(text, "batch_norm");
  }
  return in.damaged ? damaged(g, "a remark ends too early") : SHOAL_OK;
}

static shoal_status read_node(shoal_onnx_graph *g, shoal_proto_view in, shoal_onnx_node *n)
{
  const char *name;
  SHOAL_TRY(shoal_onnx_take(g, (size_t)count_fields(in, 1) + 1, sizeof *n->in, &n->in));
  SHOAL_TRY(shoal_onnx_take(g, (size_t)count_fields(in, 2) + 1, sizeof *n->out, &n->out));
  SHOAL_TRY(shoal_onnx_take(g, (size_t)count_fields(in, 5) + 1, sizeof *n->attribute, &n->attribute));
  n->op = n->name = n->domain = "";
  for (shoal_proto_field f; shoal_proto_next(&in, &f);) switch (f.number) {
    case 1:
    case 2: {
      int v = -1;
      SHOAL_TRY(take_text(g, &f, &name));
      if (*name) SHOAL_TRY(value_of(g, name, &v));
      if (f.number == 1)
        n->in[n->ins++] = v;
      else
        n->out[n->outs++] = v;
      break;
    }
    case 3:
      SHOAL_TRY(take_text(g, &f, &n->name));
      break;
    case 4:
      SHOAL_TRY(take_text(g, &f, &n->op));
      break;
    case 5:
      if (f.type != 2) return damaged(g, "an attribute");
      SHOAL_TRY(read_attribute(g, f.bytes, &n->attribute[n->attributes++]));
      break;
    case 7:
      SHOAL_TRY(take_text(g, &f, &n->domain));
      if (strcmp(n->domain, "ai.onnx") == 0) n->domain = "";
      break;
    case 9:
      SHOAL_TRY(read_remark(g, f.bytes, n));
      break;
    default:
      break;
    }
  if (in.damaged) return damaged(g, "a node ends too early");
  if (n->outs == 0 || n->out[0] < 0) return damaged(g, "a node without output");
  if (!n->name[0]) n->name = g->value[n->out[0]].name;
  return SHOAL_OK;
}

const shoal_onnx_attribute *shoal_onnx_attribute_of(const shoal_onnx_node *n, const char *name)
{
  for (int i = 0; i < n->attributes; i++)
    if (strcmp(n->attribute[i].name, name) == 0) return &n->attribute[i];
  return NULL;
}

/* ---- the graph ---- */

/* A value that is stated: its name, and the type and shape of its elements if it is a tensor. */
typedef struct {
  const char *name;
  int type, ndim;
  int64_t dim[SHOAL_ONNX_DIMS];
} stated;

static shoal_status read_shape(const shoal_onnx_graph *g, shoal_proto_view in, stated *s)
{
  for (shoal_proto_field f; shoal_proto_next(&in, &f);) {
    if (f.number != 1 || f.type != 2) continue;
    SHOAL_CHECK(s->ndim < SHOAL_ONNX_DIMS, SHOAL_ERR_UNSUPPORTED, "%s: an input of more than %d dimensions", g->path,
                SHOAL_ONNX_DIMS);
    shoal_proto_view dim = f.bytes;
    int64_t *to = &s->dim[s->ndim++];
    for (shoal_proto_field d; shoal_proto_next(&dim, &d);)
      if (d.number == 1 && d.type == 0) *to = (int64_t)d.value;
  }
  return in.damaged ? damaged(g, "a shape ends too early") : SHOAL_OK;
}

/* type { tensor_type { elem_type, shape } } */
static shoal_status read_stated(shoal_onnx_graph *g, shoal_proto_view in, stated *s)
{
  *s = (stated){ .name = "" };
  for (shoal_proto_field f; shoal_proto_next(&in, &f);) {
    if (f.number == 1) SHOAL_TRY(take_text(g, &f, &s->name));
    if (f.number != 2 || f.type != 2) continue;
    for (shoal_proto_field t; shoal_proto_next(&f.bytes, &t);) {
      if (t.number != 1 || t.type != 2) continue;
      for (shoal_proto_field e; shoal_proto_next(&t.bytes, &e);) {
        if (e.number == 1) s->type = e.value <= INT32_MAX ? (int)e.value : 0;
        if (e.number == 2 && e.type == 2) SHOAL_TRY(read_shape(g, e.bytes, s));
      }
    }
  }
  return in.damaged ? damaged(g, "an input ends too early") : SHOAL_OK;
}

static shoal_status read_tensors(shoal_onnx_graph *g, shoal_proto_view in)
{
  for (shoal_proto_field f; shoal_proto_next(&in, &f);) {
    const char *name;
    shoal_onnx_tensor *t;
    int v;
    SHOAL_CHECK(f.number != 15, SHOAL_ERR_UNSUPPORTED, "%s has sparse tensors, which are not read", g->path);
    if (f.number != 5) continue;
    if (f.type != 2) return damaged(g, "a tensor");
    SHOAL_TRY(shoal_onnx_take(g, 1, sizeof *t, &t));
    SHOAL_TRY(read_tensor(g, f.bytes, t, &name));
    SHOAL_TRY(value_of(g, name, &v));
    if (g->value[v].known) return damaged(g, "two tensors of one name");
    g->value[v].known = t;
  }
  return in.damaged ? damaged(g, "it ends too early") : SHOAL_OK;
}

static shoal_status read_nodes(shoal_onnx_graph *g, shoal_proto_view in)
{
  int n = count_fields(in, 1);
  SHOAL_CHECK(n <= MOST_NODES, SHOAL_ERR_UNSUPPORTED, "%s has %d nodes; at most %d are read", g->path, n, MOST_NODES);
  SHOAL_TRY(shoal_onnx_take(g, (size_t)n + 1, sizeof *g->node, &g->node));
  for (shoal_proto_field f; shoal_proto_next(&in, &f);) {
    if (f.number != 1) continue;
    if (f.type != 2) return damaged(g, "a node");
    shoal_onnx_node *node = &g->node[g->nodes];
    SHOAL_TRY(read_node(g, f.bytes, node));
    for (int k = 0; k < node->outs; k++) {
      if (node->out[k] < 0) continue;
      shoal_onnx_value *v = &g->value[node->out[k]];
      if (v->producer >= 0 || v->known) return damaged(g, "a value that two nodes give");
      v->producer = g->nodes;
    }
    g->nodes++;
  }
  return SHOAL_OK;
}

/* What a node reads is known, or an input, or comes from a node before it. */
static shoal_status check_order(const shoal_onnx_graph *g)
{
  for (int i = 0; i < g->nodes; i++)
    for (int k = 0; k < g->node[i].ins; k++) {
      int v = g->node[i].in[k];
      bool there =
          v < 0 || g->value[v].known || v == g->input || (g->value[v].producer >= 0 && g->value[v].producer < i);
      SHOAL_CHECK(there, SHOAL_ERR_IO, "%s: node %s reads %s, which no node before it gives", g->path, g->node[i].name,
                  g->value[v].name);
    }
  return SHOAL_OK;
}

static shoal_status read_ends(shoal_onnx_graph *g, shoal_proto_view in)
{
  stated s;
  int v, most = count_fields(in, 12);
  SHOAL_TRY(shoal_onnx_take(g, (size_t)most + 1, sizeof *g->output, &g->output));
  g->input = -1;
  for (shoal_proto_field f; shoal_proto_next(&in, &f);) {
    if ((f.number != 11 && f.number != 12) || f.type != 2) continue;
    SHOAL_TRY(read_stated(g, f.bytes, &s));
    SHOAL_TRY(value_of(g, s.name, &v));
    if (f.number == 12) {
      g->output[g->outputs++] = v;
      continue;
    }
    if (g->value[v].known) continue; /* older files list their tensors as inputs, too */
    SHOAL_CHECK(g->input < 0, SHOAL_ERR_UNSUPPORTED, "%s has several inputs, %s and %s; a network here has one",
                g->path, g->value[g->input].name, s.name);
    g->input = v;
    g->input_type = s.type;
    g->input_ndim = s.ndim;
    memcpy(g->input_dim, s.dim, sizeof s.dim);
  }
  SHOAL_CHECK(g->input >= 0 && g->outputs > 0, SHOAL_ERR_IO, "%s has no %s", g->path,
              g->input < 0 ? "input" : "output");
  return SHOAL_OK;
}

static shoal_status read_graph(shoal_onnx_graph *g, shoal_proto_view in)
{
  SHOAL_TRY(read_tensors(g, in));
  SHOAL_TRY(read_nodes(g, in));
  SHOAL_TRY(read_ends(g, in));
  SHOAL_TRY(check_order(g));
  SHOAL_CHECK(g->value[g->input].producer < 0, SHOAL_ERR_IO, "%s: a node gives the input", g->path);
  for (int i = 0; i < g->outputs; i++)
    SHOAL_CHECK(g->value[g->output[i]].producer >= 0, SHOAL_ERR_UNSUPPORTED, "%s: no node gives the output %s", g->path,
                g->value[g->output[i]].name);
  return SHOAL_OK;
}

static shoal_status read_model(shoal_onnx_graph *g)
{
  SHOAL_TRY(shoal_refuse_alien_weights(g->path, g->bytes, SHOAL_MIN(g->n, (size_t)4096)));
  shoal_proto_view in = { g->bytes, g->bytes + g->n, false }, graph = { 0 };
  for (shoal_proto_field f; shoal_proto_next(&in, &f);) {
    if (f.number == 7 && f.type == 2) graph = f.bytes;
    if (f.number != 8 || f.type != 2) continue;
    const char *domain = "";
    int64_t version = 0;
    for (shoal_proto_field o; shoal_proto_next(&f.bytes, &o);) {
      if (o.number == 1) SHOAL_TRY(take_text(g, &o, &domain));
      if (o.number == 2) version = (int64_t)o.value;
    }
    if (!*domain || strcmp(domain, "ai.onnx") == 0) g->opset = version;
  }
  if (in.damaged || !graph.at) return damaged(g, graph.at ? "it ends too early" : "there is no graph in it");
  SHOAL_CHECK(g->opset >= 9, SHOAL_ERR_UNSUPPORTED,
              "%s is of ONNX's operators version %lld; from 9 on they are read: export it anew", g->path,
              (long long)g->opset);
  return read_graph(g, graph);
}

shoal_status shoal_onnx_open(const char *path, shoal_onnx_graph *out)
{
  int fd;
  uint64_t size;
  out->path = path;
  out->memory = shoal_memory_limit();
  SHOAL_TRY(shoal_open_file(path, &fd, &size));
  close(fd);
  SHOAL_TRY(shoal_limit_memory(path, "the file", size, 1));
  SHOAL_TRY(shoal_read_file(path, (char **)&out->bytes, &out->n));
  return read_model(out);
}

shoal_status shoal_onnx_mark(shoal_onnx_graph *g, int v)
{
  for (int i = 0; i < g->values; i++) {
    g->value[i].readers = 0;
    g->value[i].reader = -1;
  }
  for (int i = 0; i < g->nodes; i++) g->node[i].live = false;
  g->value[v].readers = 1;
  for (int i = g->nodes - 1; i >= 0; i--) {
    shoal_onnx_node *n = &g->node[i];
    for (int k = 0; k < n->outs; k++) n->live |= n->out[k] >= 0 && g->value[n->out[k]].readers > 0;
    bool shape = strcmp(n->op, "Shape") == 0 && !n->domain[0];
    for (int k = 0; n->live && k < n->ins; k++) {
      if (n->in[k] < 0 || (shape && n->in[k] == g->input)) continue;
      g->value[n->in[k]].readers++;
      g->value[n->in[k]].reader = i;
    }
  }
  return SHOAL_OK;
}
