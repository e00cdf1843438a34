/* A file of a checkpoint is created under a temporary name, written, sealed, verified and renamed.
 *
 * Space is reserved before each data set is written, so that HDF5 never sees a full disk and the run can continue
 * without this checkpoint (h5/draft.h). */
#include "ckpt/draft.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/ckpt_impl.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

shoal_status shoal_ckpt_check_space(const char *path, uint64_t need, int64_t files)
{
  uint64_t free_bytes, most = shoal_limit_file_size();
  const char *type;
  char want[32], have[32], among[48] = "";
  if (need == 0) return SHOAL_OK;
  SHOAL_TRY(shoal_disk_facts(path, &free_bytes, &type));
  if (files > 1) snprintf(among, sizeof among, " in up to %" PRId64 " files", files);
  SHOAL_CHECK(need / (uint64_t)files <= most, SHOAL_ERR_IO,
              "a checkpoint needs %s%s, but a file may have %s at most (ulimit -f), for %s: raise the limit",
              shoal_format_bytes((double)need, want, sizeof want), among,
              shoal_format_bytes((double)most, have, sizeof have), path);
  SHOAL_CHECK(free_bytes >= need, SHOAL_ERR_IO,
              "a checkpoint needs %s, but there is %s free (%s) for %s: make room, lower ckpt.keep, or move run.dir",
              shoal_format_bytes((double)need, want, sizeof want),
              shoal_format_bytes((double)free_bytes, have, sizeof have), type, path);
  return SHOAL_OK;
}

/* ---- opening ---- */

static shoal_status write_info(shoal_h5 file, const shoal_ckpt_info *info)
{
  char now[32];
  SHOAL_TRY(shoal_h5_put_string(file, "format", "shoal checkpoint"));
  SHOAL_TRY(shoal_h5_put_i64(file, "version", SHOAL_CKPT_VERSION));
  SHOAL_TRY(shoal_h5_put_string(file, "run", info->run));
  SHOAL_TRY(shoal_h5_put_string(file, "method", info->method));
  SHOAL_TRY(shoal_h5_put_string(file, "model", info->model));
  SHOAL_TRY(shoal_h5_put_string(file, "layout", info->layout));
  if (info->layout_hash[0]) SHOAL_TRY(shoal_h5_put_string(file, "layout_hash", info->layout_hash));
  SHOAL_TRY(shoal_h5_put_i64(file, "step", (int64_t)info->step));
  SHOAL_TRY(shoal_h5_put_i64(file, "epoch", (int64_t)info->epoch));
  SHOAL_TRY(shoal_h5_put_i64(file, "samples", (int64_t)info->samples));
  SHOAL_TRY(shoal_h5_put_i64(file, "size", info->size));
  SHOAL_TRY(shoal_h5_put_string(file, "created", shoal_wall_clock(now, sizeof now)));
  SHOAL_TRY(shoal_ckpt_put_data(file, &info->data));
  const bool whole = info->shard == 0;
  if (info->placement && whole) SHOAL_TRY(shoal_h5_put_string(file, "placement", info->placement));
  return shoal_h5_put_string(file, "config", info->config && whole ? info->config : "");
}

/* A number that no other save has, so that shards of two are never mixed. */
static shoal_status draw_save(char save[SHOAL_CKPT_SAVE])
{
  uint64_t number[2];
  SHOAL_CHECK(getrandom(number, sizeof number, 0) == sizeof number, SHOAL_ERR_IO, "the system gives no random numbers");
  snprintf(save, SHOAL_CKPT_SAVE, "%016" PRIx64 "%016" PRIx64, number[0], number[1]);
  return SHOAL_OK;
}

static size_t text_bytes(const char *text)
{
  return text ? strlen(text) : 0;
}

shoal_status shoal_ckpt_draft_open(shoal_ckpt_draft *d, const char *path, const shoal_ckpt_info *info, uint64_t need)
{
  SHOAL_CHECK(info->step <= INT64_MAX && info->epoch <= INT64_MAX && info->samples <= INT64_MAX, SHOAL_ERR_ARG,
              "step, epoch or samples of a checkpoint exceed 63 bits");
  char *dir = shoal_strdup_printf("%.*s", (int)(shoal_path_base(path) - path), path);
  shoal_status st = shoal_make_dir(dir[0] ? dir : ".");
  free(dir);
  SHOAL_TRY(st);
  SHOAL_TRY(shoal_ckpt_check_space(path, need, SHOAL_MAX(info->size, 1)));
  d->may = info->may;
  d->context = info->context;
  d->index.number = info->shard;
  memcpy(d->index.save, info->save, sizeof d->index.save);
  if (info->shard == 0) SHOAL_TRY(draw_save(d->index.save));
  char *own = info->shard ? shoal_ckpt_shard_path(path, info->save, info->shard) : shoal_strdup_printf("%s", path);
  st = shoal_h5_draft_open(&d->file, own,
                           text_bytes(info->config) + text_bytes(info->placement) + shoal_ckpt_data_bytes(&info->data));
  free(own);
  SHOAL_TRY(st);
  return write_info(d->file.file, info);
}

/* ---- data sets ---- */

static bool good_name(const char *name)
{
  size_t n = strlen(name);
  if (n == 0 || n > SHOAL_CKPT_MAX_NAME) return false;
  const char *part = name;
  for (const char *c = name;; c++) {
    if (*c == '/' || *c == '\0') {
      size_t length = (size_t)(c - part);
      if (length == 0 || (part[0] == '.' && (length == 1 || (length == 2 && part[1] == '.')))) return false;
      part = c + 1;
      if (!*c) return true;
    } else if (*c <= ' ' || *c > '~') {
      return false;
    }
  }
}

static shoal_ckpt_entry *last(shoal_ckpt_draft *d)
{
  return &d->index.at[d->index.n - 1];
}

/* Creates a contiguous data set, so that the index can give the offset of its bytes. */
static shoal_status begin_set(shoal_ckpt_draft *d, const char *name, shoal_dtype type, int ndim, const uint64_t *dims)
{
  uint64_t n, bytes;
  shoal_h5_extent extent = { .ndim = ndim };
  SHOAL_CHECK(good_name(name), SHOAL_ERR_ARG,
              "\"%s\" cannot name a data set: use parts of visible ASCII characters joined by single slashes", name);
  SHOAL_CHECK(shoal_ckpt_elements(type, ndim, dims, &n) == SHOAL_OK, SHOAL_ERR_ARG,
              "data set %s has an impossible type or shape (type %d, %d dimensions)", name, (int)type, ndim);
  bytes = n * shoal_dtype_size(type);
  if (ndim) memcpy(extent.dims, dims, (size_t)ndim * sizeof *dims);
  SHOAL_TRY(shoal_h5_draft_reserve(&d->file, name, bytes, 0));
  SHOAL_TRY(shoal_h5_table_create(d->file.file, name, &(shoal_h5_row){ type }, &extent, &d->set));
  shoal_ckpt_entry *e = shoal_ckpt_index_add(&d->index, name);
  if (!e) {
    shoal_h5_table_close(d->set);
    d->set = NULL;
    return SHOAL_FAIL(SHOAL_ERR_MEM, "no memory for the index of a checkpoint with %zu data sets", d->index.n);
  }
  e->type = type;
  e->ndim = ndim;
  memcpy(e->dims, extent.dims, sizeof e->dims);
  e->n = n;
  e->bytes = bytes;
  e->shard = d->index.number;
  return SHOAL_OK;
}

static shoal_status add_rows(shoal_ckpt_draft *d, uint64_t rows, size_t bytes, const void *data)
{
  last(d)->crc = shoal_crc32c(last(d)->crc, data, bytes);
  return shoal_h5_table_append(d->set, rows, data);
}

/* Completes a data set: records its offset, and stores the checksum as an attribute for readers that use only HDF5. */
static shoal_status end_set(shoal_ckpt_draft *d, bool ok)
{
  shoal_ckpt_entry *e = last(d);
  shoal_h5_table *set = d->set;
  d->set = NULL;
  shoal_status st = ok ? shoal_h5_put_i64(shoal_h5_table_object(set), "crc32c", (int64_t)e->crc) : SHOAL_OK;
  if (ok && st == SHOAL_OK && e->bytes > 0) {
    e->offset = shoal_h5_table_offset(set);
    if (e->offset == SHOAL_H5_NO_OFFSET)
      st = SHOAL_FAIL(SHOAL_ERR_IO, "cannot write %s into %s: HDF5 gave it no offset", e->name, d->file.path);
  }
  if (!ok || st != SHOAL_OK) {
    shoal_h5_table_close(set);
    return st;
  }
  return shoal_h5_table_finish(set);
}

shoal_status shoal_ckpt_draft_put(shoal_ckpt_draft *d, const char *name, shoal_dtype type, int ndim,
                                  const uint64_t *dims, const void *data)
{
  SHOAL_TRY(begin_set(d, name, type, ndim, dims));
  const uint64_t rows = last(d)->bytes ? (ndim ? dims[0] : 1) : 0;
  const size_t width = rows ? (size_t)(last(d)->bytes / rows) : 1;
  const uint64_t most = SHOAL_MAX((uint64_t)(SHOAL_CKPT_PIECE / width), UINT64_C(1));
  shoal_status st = SHOAL_OK;
  for (uint64_t row = 0; st == SHOAL_OK && row < rows; row += most) { /* other threads use HDF5 in between */
    const uint64_t n = SHOAL_MIN(most, rows - row);
    st = add_rows(d, n, (size_t)n * width, (const char *)data + (size_t)row * width);
  }
  shoal_status ended = end_set(d, st == SHOAL_OK);
  return st == SHOAL_OK ? ended : st;
}

static shoal_ckpt_entry *add_copy(shoal_ckpt_draft *d, const char *name, const shoal_ckpt_entry *of)
{
  shoal_ckpt_entry *e = shoal_ckpt_index_add(&d->index, name);
  if (!e) return NULL;
  char *own = e->name;
  *e = *of;
  e->name = own;
  return e;
}

/* `existing` is searched from the end: the index is sorted only when the file is finished. */
shoal_status shoal_ckpt_draft_link(shoal_ckpt_draft *d, const char *name, const char *existing)
{
  size_t i = d->index.n;
  while (i > 0 && strcmp(d->index.at[i - 1].name, existing) != 0) i--;
  SHOAL_CHECK(i > 0 && good_name(name), SHOAL_ERR_ARG, "data set %s cannot be another name of %s", name, existing);
  SHOAL_TRY(shoal_h5_draft_reserve(&d->file, name, 0, 0));
  SHOAL_TRY(shoal_h5_link(d->file.file, existing, name));
  const shoal_ckpt_entry same = d->index.at[i - 1]; /* which may move */
  SHOAL_CHECK(add_copy(d, name, &same), SHOAL_ERR_MEM, "no memory for the index of a checkpoint with %zu data sets",
              d->index.n);
  return SHOAL_OK;
}

/* ---- shards ---- */

static shoal_status list_shard(shoal_ckpt_draft *d, const shoal_ckpt *s)
{
  shoal_ckpt_index *x = &d->index;
  shoal_ckpt_shard *more = realloc(x->shards, (x->n_shards + 1) * sizeof *more);
  SHOAL_CHECK(more, SHOAL_ERR_MEM, "no memory for the %zu shards of a checkpoint", x->n_shards + 1);
  x->shards = more;
  x->shards[x->n_shards++] = s->seal.file;
  for (size_t i = 0; i < s->index.n; i++)
    SHOAL_CHECK(add_copy(d, s->index.at[i].name, &s->index.at[i]), SHOAL_ERR_MEM,
                "no memory for the index of a checkpoint with %zu data sets", x->n);
  return SHOAL_OK;
}

shoal_status shoal_ckpt_draft_attach(shoal_ckpt_draft *d, shoal_ckpt **out)
{
  const uint32_t number = (uint32_t)d->index.n_shards + 1;
  shoal_ckpt *s = NULL;
  char *path = shoal_ckpt_shard_path(d->file.path, d->index.save, number);
  shoal_status st = shoal_ckpt_open_seal(path, &s);
  if (st == SHOAL_OK && (s->index.number != number || strcmp(s->index.save, d->index.save) != 0))
    st = SHOAL_FAIL(SHOAL_ERR_IO, "%s is not shard %" PRIu32 " of this save", path, number);
  if (st == SHOAL_OK) st = list_shard(d, s);
  if (st == SHOAL_OK)
    *out = s;
  else
    shoal_ckpt_close(s);
  free(path);
  return st;
}

/* ---- the end ---- */

shoal_status shoal_ckpt_draft_finish(shoal_ckpt_draft *d)
{
  SHOAL_TRY(shoal_h5_draft_close(&d->file));
  shoal_ckpt_index_sort(&d->index);
  SHOAL_TRY(shoal_ckpt_seal_write(d->file.tmp, &d->index));
  SHOAL_TRY(shoal_ckpt_check_written(d->file.tmp));
  if (d->may) SHOAL_TRY(d->may(d->context));
  return shoal_h5_draft_commit(&d->file);
}

void shoal_ckpt_draft_discard(shoal_ckpt_draft *d)
{
  shoal_h5_table_close(d->set);
  d->set = NULL;
  shoal_h5_draft_discard(&d->file);
  shoal_ckpt_index_free(&d->index);
}
