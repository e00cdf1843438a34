/* Reading a checkpoint.  Opening has three steps, each of which relies only on what the previous one has verified:
 *
 *   seal    plain reads: is this a finished checkpoint, and what should it contain?      open_seal
 *   bytes   plain reads, on request: is every byte as the writer left it?                examine (check.c)
 *   HDF5    HDF5 opens the file, references to other files are rejected, and the
 *           attributes are read; in a child process first                                open_hdf5
 *
 * Without verification the middle step is skipped; reading an array still compares its checksum.  Shards are looked at
 * when they are verified or read (shards.c).
 *
 * Checksums find damage, but whoever makes a file up seals it, too, and HDF5 crashes on some such files or loops.  So a
 * child process does with it all that this one will; it does not read arrays, and neither does HDF5 here: the index says
 * where their bytes are.  A process with other threads cannot have such a child (base/child.h), and opens only files of
 * its own. */
#include "base/child.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/ckpt_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

shoal_status shoal_ckpt_open_seal(const char *path, shoal_ckpt **out)
{
  shoal_status st;
  shoal_ckpt *c = NULL;
  SHOAL_TRY(SHOAL_ALLOC(1, &c));
  c->path = shoal_strdup_printf("%s", path);
  c->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK, in case it is a pipe */
  if (c->fd < 0) SHOAL_TRY_GOTO(st, shoal_io_fault("open", path, errno), fail);
  SHOAL_TRY_GOTO(st, shoal_ckpt_seal_read(c->fd, path, &c->seal, &c->index), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(1, &c->shard), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(c->index.n, &c->names), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(c->index.n, &c->here.at), fail);
  for (size_t i = 0; i < c->index.n; i++) {
    c->names[i] = c->index.at[i].name;
    if (c->index.at[i].shard == c->index.number) c->here.at[c->here.n++] = c->index.at[i];
  }
  *out = c;
  return SHOAL_OK;
fail:
  shoal_ckpt_close(c);
  return st;
}

void shoal_ckpt_close(shoal_ckpt *c)
{
  if (!c) return;
  shoal_h5_close(c->file);
  if (c->fd >= 0) close(c->fd);
  if (c->shard) shoal_ckpt_close(*c->shard);
  free(c->shard);
  free(c->here.at);
  shoal_ckpt_index_free(&c->index);
  free(c->names);
  free(c->config);
  free(c->placement);
  free(c->kind);
  free(c->class_names);
  free(c->feature_names);
  free(c->target_names);
  free(c->scale);
  free(c->path);
  free(c);
}

/* ---- attributes ---- */

static shoal_status get_text(const shoal_ckpt *c, const char *name, char *buf, size_t cap)
{
  char *text = NULL;
  SHOAL_TRY(shoal_h5_get_string(c->file, name, &text));
  size_t n = strlen(text);
  if (n < cap) memcpy(buf, text, n + 1);
  free(text);
  SHOAL_CHECK(n < cap, SHOAL_ERR_IO, "%s: attribute %s has %zu bytes, at most %zu make sense", c->path, name, n,
              cap - 1);
  return SHOAL_OK;
}

static shoal_status get_count(const shoal_ckpt *c, const char *name, int64_t low, int64_t high, uint64_t *out)
{
  int64_t value;
  SHOAL_TRY(shoal_h5_get_i64(c->file, name, &value));
  SHOAL_CHECK(value >= low && value <= high, SHOAL_ERR_IO,
              "%s: attribute %s is %" PRId64 ", must be %" PRId64 " to %" PRId64 ": the file is damaged or made up",
              c->path, name, value, low, high);
  *out = (uint64_t)value;
  return SHOAL_OK;
}

static shoal_status open_here(shoal_ckpt *c)
{
  char format[32];
  uint64_t size;
  SHOAL_TRY(shoal_h5_open(c->path, &c->file));
  SHOAL_TRY(shoal_h5_refuse_foreign(c->file, c->path));
  SHOAL_TRY(get_text(c, "format", format, sizeof format));
  SHOAL_CHECK(strcmp(format, "shoal checkpoint") == 0, SHOAL_ERR_IO, "%s is a \"%s\", not a checkpoint", c->path,
              format);
  SHOAL_TRY(get_text(c, "run", c->info.run, sizeof c->info.run));
  SHOAL_TRY(get_text(c, "method", c->info.method, sizeof c->info.method));
  SHOAL_TRY(get_text(c, "model", c->info.model, sizeof c->info.model));
  SHOAL_TRY(get_text(c, "layout", c->info.layout, sizeof c->info.layout));
  SHOAL_TRY(get_text(c, "created", c->info.created, sizeof c->info.created));
  SHOAL_TRY(get_count(c, "step", 0, SHOAL_CKPT_MOST, &c->info.step));
  SHOAL_TRY(get_count(c, "epoch", 0, SHOAL_CKPT_MOST, &c->info.epoch));
  SHOAL_TRY(get_count(c, "samples", 0, SHOAL_CKPT_MOST, &c->info.samples));
  SHOAL_TRY(get_count(c, "size", 1, SHOAL_CKPT_MOST_RANKS, &size));
  c->info.size = (int64_t)size;
  SHOAL_TRY(shoal_h5_get_string(c->file, "config", &c->config));
  c->info.config = c->config;
  /* absent in older files */
  if (shoal_h5_has_attribute(c->file, "layout_hash"))
    SHOAL_TRY(get_text(c, "layout_hash", c->info.layout_hash, sizeof c->info.layout_hash));
  if (shoal_h5_has_attribute(c->file, "placement")) SHOAL_TRY(shoal_h5_get_string(c->file, "placement", &c->placement));
  c->info.placement = c->placement;
  SHOAL_TRY(shoal_ckpt_get_data(c));
  return SHOAL_OK;
}

static shoal_status try_to_open(void *opened)
{
  shoal_ckpt_faults faults = { 0 };
  SHOAL_TRY(open_here(opened));
  shoal_ckpt_check_sets(opened, &faults); /* to be told by whoever verifies */
  return SHOAL_OK;
}

shoal_status shoal_ckpt_open_hdf5(shoal_ckpt *c)
{
  enum { TRY_S = 2, SETS_PER_S = 1000, BYTES = 256 << 20 }; /* texts and HDF5's own; it reads no array */
  int seconds = TRY_S + (int)(c->here.n / SETS_PER_S);
  shoal_status st = SHOAL_OK;
  char place[SHOAL_CHILD_PLACE];
  SHOAL_CHECK(c->own || shoal_survives(try_to_open, c, seconds, BYTES, place, &st), SHOAL_ERR_IO,
              "%s is damaged or made up: HDF5 crashes on it, or does not come to an end%s%s", c->path,
              place[0] ? ", at " : "", place);
  SHOAL_TRY(st);
  return open_here(c);
}

static shoal_status verify_opened(shoal_ckpt *c, void (*examine)(shoal_ckpt *c, shoal_ckpt_faults *faults))
{
  shoal_ckpt_faults faults = { 0 };
  examine(c, &faults);
  char *first = shoal_ckpt_faults_first(&faults);
  shoal_status st = first ? SHOAL_FAIL(SHOAL_ERR_IO, "%s", first) : SHOAL_OK;
  free(first);
  shoal_str_free(&faults.lines);
  return st;
}

static shoal_status open_file(const char *path, bool verify, bool own, shoal_ckpt **out)
{
  shoal_ckpt *c = NULL;
  SHOAL_TRY(shoal_ckpt_open_seal(path, &c));
  c->own = own;
  shoal_status st = SHOAL_OK;
  if (c->index.number > 0)
    st = SHOAL_FAIL(SHOAL_ERR_IO, "%s is shard %" PRIu32 " of a checkpoint: name its main file, step-NUMBER.h5", path,
                    c->index.number);
  else
    st = verify ? verify_opened(c, shoal_ckpt_examine) : shoal_ckpt_open_hdf5(c);
  if (st == SHOAL_OK)
    *out = c;
  else
    shoal_ckpt_close(c);
  return st;
}

shoal_status shoal_ckpt_check_written(const char *path)
{
  shoal_ckpt *c = NULL;
  SHOAL_TRY(shoal_ckpt_open_seal(path, &c));
  c->own = true;
  shoal_status st = verify_opened(c, shoal_ckpt_examine_file);
  shoal_ckpt_close(c);
  return st;
}

shoal_status shoal_ckpt_open(const char *path, bool verify, shoal_ckpt **out)
{
  return open_file(path, verify, false, out);
}

shoal_status shoal_ckpt_open_own(const char *path, bool verify, shoal_ckpt **out)
{
  return open_file(path, verify, true, out);
}

/* ---- arrays ---- */

const char *shoal_ckpt_path(const shoal_ckpt *c)
{
  return c->path;
}

uint32_t shoal_ckpt_seal_checksum(const shoal_ckpt *c)
{
  return c->seal.file.seal;
}

const shoal_ckpt_index *shoal_ckpt_get_index(const shoal_ckpt *c)
{
  return &c->index;
}

const shoal_ckpt_info *shoal_ckpt_get_info(const shoal_ckpt *c)
{
  return &c->info;
}

bool shoal_ckpt_has(const shoal_ckpt *c, const char *name)
{
  return shoal_ckpt_index_find(&c->index, name) != NULL;
}

size_t shoal_ckpt_names(const shoal_ckpt *c, const char *const **out)
{
  *out = c->names;
  return c->index.n;
}

static shoal_status find(const shoal_ckpt *c, const char *name, const shoal_ckpt_entry **out)
{
  *out = shoal_ckpt_index_find(&c->index, name);
  if (*out) return SHOAL_OK;
  const char *near = shoal_nearest(name, c->names, c->index.n);
  return SHOAL_FAIL(SHOAL_ERR_IO, "%s has no data set %s%s%s", c->path, name, near ? "; the nearest is " : "",
                    near ? near : "");
}

shoal_status shoal_ckpt_shape(const shoal_ckpt *c, const char *name, shoal_dtype *type, int *ndim, uint64_t dims[8])
{
  const shoal_ckpt_entry *e;
  SHOAL_TRY(find(c, name, &e));
  *type = e->type;
  *ndim = e->ndim;
  memcpy(dims, e->dims, sizeof e->dims);
  return SHOAL_OK;
}

shoal_status shoal_ckpt_get(const shoal_ckpt *c, const char *name, shoal_dtype type, uint64_t n, void *data)
{
  const shoal_ckpt_entry *e;
  const shoal_ckpt *file;
  char shape[256];
  SHOAL_TRY(find(c, name, &e));
  SHOAL_CHECK(e->type == type && e->n == n, SHOAL_ERR_IO,
              "%s: %s is %s %s, but %" PRIu64 " elements of %s are asked for", c->path, name, shoal_dtype_name(e->type),
              shoal_ckpt_shape_text(e->ndim, e->dims, shape, sizeof shape), n, shoal_dtype_name(type));
  if (n == 0) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_file_of(c, e, &file));
  SHOAL_TRY(shoal_ckpt_read_at(file->fd, file->path, e->offset, data, (size_t)e->bytes));
  uint32_t crc = shoal_crc32c(0, data, (size_t)e->bytes);
  SHOAL_CHECK(crc == e->crc, SHOAL_ERR_IO,
              "%s: data set %s is damaged: checksum %08" PRIx32 " was written, %08" PRIx32 " is read", file->path, name,
              e->crc, crc);
  return SHOAL_OK;
}

shoal_status shoal_ckpt_get_part(const shoal_ckpt *c, const shoal_ckpt_entry *e, uint64_t first, uint64_t n, void *data)
{
  const shoal_ckpt *file;
  size_t width = shoal_dtype_size(e->type);
  SHOAL_CHECK(first <= e->n && n <= e->n - first, SHOAL_ERR_ARG,
              "%s: %s has %" PRIu64 " elements; %" PRIu64 " from number %" PRIu64 " were asked for", c->path, e->name,
              e->n, n, first);
  SHOAL_TRY(shoal_ckpt_file_of(c, e, &file));
  return shoal_ckpt_read_at(file->fd, file->path, e->offset + first * width, data, (size_t)n * width);
}

shoal_status shoal_ckpt_get_text(const shoal_ckpt *c, const char *name, char **out, size_t *n)
{
  shoal_dtype type;
  int ndim;
  uint64_t dims[8];
  char *text;
  SHOAL_TRY(shoal_ckpt_shape(c, name, &type, &ndim, dims));
  SHOAL_CHECK(ndim == 1, SHOAL_ERR_IO, "%s: %s has %d dimensions; must be 1", c->path, name, ndim);
  SHOAL_TRY(SHOAL_ALLOC(dims[0] + 1, &text));
  shoal_status st = shoal_ckpt_get(c, name, SHOAL_U8, dims[0], text);
  if (st != SHOAL_OK) {
    free(text);
    return st;
  }
  *out = text;
  *n = (size_t)dims[0];
  return SHOAL_OK;
}

shoal_status shoal_ckpt_get_i64(const shoal_ckpt *c, const char *name, int64_t *out)
{
  int64_t value; /* written only on success */
  SHOAL_TRY(shoal_ckpt_get(c, name, SHOAL_I64, 1, &value));
  *out = value;
  return SHOAL_OK;
}

shoal_status shoal_ckpt_get_f64(const shoal_ckpt *c, const char *name, double *out)
{
  double value;
  SHOAL_TRY(shoal_ckpt_get(c, name, SHOAL_F64, 1, &value));
  *out = value;
  return SHOAL_OK;
}

shoal_status shoal_ckpt_get_counts(const shoal_ckpt *c, const char *name, uint64_t n, int64_t low, int64_t high,
                                   int64_t *out)
{
  SHOAL_TRY(shoal_ckpt_get(c, name, SHOAL_I64, n, out));
  for (uint64_t i = 0; i < n; i++)
    SHOAL_CHECK(out[i] >= low && out[i] <= high, SHOAL_ERR_IO,
                "%s: element %" PRIu64 " of %s is %" PRId64 ", must be %" PRId64 " to %" PRId64
                ": the file is damaged or made up",
                c->path, i, name, out[i], low, high);
  return SHOAL_OK;
}

shoal_status shoal_ckpt_get_count(const shoal_ckpt *c, const char *name, int64_t low, int64_t high, int64_t *out)
{
  int64_t value;
  SHOAL_TRY(shoal_ckpt_get_counts(c, name, 1, low, high, &value));
  *out = value;
  return SHOAL_OK;
}

shoal_status shoal_ckpt_get_real(const shoal_ckpt *c, const char *name, double low, double high, double *out)
{
  double value;
  SHOAL_TRY(shoal_ckpt_get_f64(c, name, &value));
  SHOAL_CHECK(value >= low && value <= high, SHOAL_ERR_IO,
              "%s: %s is %g, must be %g to %g: the file is damaged or made up", c->path, name, value, low, high);
  *out = value;
  return SHOAL_OK;
}
