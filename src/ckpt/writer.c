/* Writing a checkpoint: rank 0 holds the file, the others send.
 *
 *   rank 0   .step-000001234.h5.tmp-HOST-PID   data sets → close → seal → fsync → read back → rename → fsync folder
 *   rank r   pieces of 4 MiB, one rank after the other, so rank 0 never holds more than one piece of anybody
 *
 * One writer, because HDF5 is the serial build (the parallel one has no threads) and because files per rank would tie
 * a checkpoint to a rank count.  Nobody meets a half-written file: until the rename it has another name.
 *
 * Failures are kept until commit, so a method writes its arrays in a straight line.  What goes wrong at one rank is
 * everybody's: every collective call first tells who has failed. */
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/ckpt_impl.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOT = 0, TAG = 1000 };

/* What a rank says before it sends an array of its own. */
typedef struct {
  uint64_t n;
  uint32_t name_crc;
  int32_t type, status, unused;
} announcement;

struct shoal_ckpt_writer {
  shoal_group *group;
  int rank, size;
  char *path, *tmp; /* tmp: only while it exists, only at the root */
  shoal_status st;  /* first failure: own, or heard of */
  hid_t file;
  shoal_ckpt_index index;
  void *piece;       /* root of several: what others send */
  announcement *all; /* [size] */
};

/* ---- agreement ---- */

/* Every rank leaves with the same code: that of the first rank in order that failed.  Nothing is allocated here, so
 * nobody can stay away from the agreement. */
static shoal_status share_verdict(shoal_group *g, shoal_status mine)
{
  int64_t worst = mine == SHOAL_OK ? 0 : ((int64_t)(INT32_MAX - shoal_group_rank(g)) << 8) | (int64_t)mine;
  SHOAL_TRY(shoal_group_max_i64(g, &worst, 1));
  shoal_status verdict = (shoal_status)(worst & 0xff);
  if (verdict != SHOAL_OK && mine == SHOAL_OK) {
    shoal_quiet_errors(1); /* that rank has told what it is; here it is only kept as the reason */
    SHOAL_FAIL(verdict, "no checkpoint: rank %d failed (%s)", (int)(INT32_MAX - (worst >> 8)),
               shoal_status_text(verdict));
    shoal_quiet_errors(-1);
  }
  return verdict;
}

/* ---- the file ---- */

/* On a full disk HDF5 cannot close: it still wants to write what it caches, and would try again at exit.  So the file's
 * space is given back first; then closing succeeds, and the name goes. */
static void discard_file(shoal_ckpt_writer *c)
{
  if (!c->tmp) return;
  shoal_ckpt_hush h; /* whatever happens now is an echo of what was told already */
  shoal_ckpt_hush_begin(&h);
  int freed = truncate(c->tmp, 0); /* may fail where the file was never made; closing shows it */
  (void)freed;
  shoal_h5_close(c->file);
  free(shoal_ckpt_hush_end(&h, SHOAL_OK));
  c->file = H5I_INVALID_HID;
  unlink(c->tmp);
  free(c->tmp);
  c->tmp = NULL;
}

static void keep_failure(shoal_ckpt_writer *c, shoal_status st)
{
  if (st == SHOAL_OK || c->st != SHOAL_OK) return;
  c->st = st;
  discard_file(c);
}

/* Called right after a failed HDF5 call, whose words go behind ours. */
static shoal_status write_fault(const shoal_ckpt_writer *c, const char *name)
{
  uint64_t free_bytes = 0;
  const char *type = "unknown";
  char amount[32];
  shoal_ckpt_hush h;
  shoal_ckpt_hush_begin(&h);
  free(shoal_ckpt_hush_end(&h, shoal_disk_facts(c->path, &free_bytes, &type)));
  return shoal_h5_fail(__FILE__, __LINE__, "cannot write %s into %s (%s free on %s)", name, c->path,
                       shoal_format_bytes((double)free_bytes, amount, sizeof amount), type);
}

static shoal_status check_space(const char *dir, uint64_t need)
{
  uint64_t free_bytes;
  const char *type;
  char want[32], have[32];
  if (need == 0) return SHOAL_OK;
  SHOAL_TRY(shoal_disk_facts(dir, &free_bytes, &type));
  SHOAL_CHECK(free_bytes >= need, SHOAL_ERR_IO,
              "a checkpoint needs %s, but %s has %s free (%s): make room, lower ckpt.keep, or move run.dir",
              shoal_format_bytes((double)need, want, sizeof want), dir,
              shoal_format_bytes((double)free_bytes, have, sizeof have), type);
  return SHOAL_OK;
}

static shoal_status write_info(hid_t file, const shoal_ckpt_info *info)
{
  char now[32];
  SHOAL_TRY(shoal_h5_put_string(file, "format", "shoal checkpoint"));
  SHOAL_TRY(shoal_h5_put_i64(file, "version", SHOAL_CKPT_VERSION));
  SHOAL_TRY(shoal_h5_put_string(file, "run", info->run));
  SHOAL_TRY(shoal_h5_put_string(file, "method", info->method));
  SHOAL_TRY(shoal_h5_put_string(file, "model", info->model));
  SHOAL_TRY(shoal_h5_put_string(file, "layout", info->layout));
  SHOAL_TRY(shoal_h5_put_i64(file, "step", (int64_t)info->step));
  SHOAL_TRY(shoal_h5_put_i64(file, "epoch", (int64_t)info->epoch));
  SHOAL_TRY(shoal_h5_put_i64(file, "samples", (int64_t)info->samples));
  SHOAL_TRY(shoal_h5_put_i64(file, "size", info->size));
  SHOAL_TRY(shoal_h5_put_string(file, "created", shoal_wall_clock(now, sizeof now)));
  return shoal_h5_put_string(file, "config", info->config ? info->config : "");
}

static shoal_status open_file(shoal_ckpt_writer *c, const char *dir, const shoal_ckpt_info *info, uint64_t need_bytes)
{
  SHOAL_CHECK(info->step <= INT64_MAX && info->epoch <= INT64_MAX && info->samples <= INT64_MAX, SHOAL_ERR_ARG,
              "step, epoch or samples of a checkpoint exceed 63 bits");
  SHOAL_TRY(shoal_make_dirs(dir));
  SHOAL_TRY(check_space(dir, need_bytes));
  c->tmp = shoal_temporary_name(c->path);
  SHOAL_TRY(shoal_h5_create(c->tmp, &c->file));
  return write_info(c->file, info);
}

static void free_writer(shoal_ckpt_writer *c)
{
  if (!c) return;
  discard_file(c);
  shoal_ckpt_index_free(&c->index);
  free(c->path);
  free(c->piece);
  free(c->all);
  free(c);
}

static shoal_status make_writer(shoal_group *control, const char *dir, const shoal_ckpt_info *info, uint64_t need_bytes,
                                shoal_ckpt_writer **out)
{
  shoal_ckpt_writer *c = NULL;
  SHOAL_TRY(SHOAL_ALLOC(1, &c));
  *out = c;
  c->group = control;
  c->rank = shoal_group_rank(control);
  c->size = shoal_group_size(control);
  c->file = H5I_INVALID_HID;
  char *name = shoal_strdup_printf("step-%09" PRIu64 ".h5", info->step);
  c->path = shoal_path_join(dir, name);
  free(name);
  SHOAL_TRY(SHOAL_ALLOC((size_t)c->size, &c->all));
  if (c->rank != ROOT) return SHOAL_OK;
  if (c->size > 1) SHOAL_TRY(shoal_alloc(SHOAL_CKPT_PIECE, 1, "checkpoint buffer", &c->piece));
  return open_file(c, dir, info, need_bytes);
}

shoal_status shoal_ckpt_begin(shoal_group *control, const char *dir, const shoal_ckpt_info *info, uint64_t need_bytes,
                              shoal_ckpt_writer **out)
{
  shoal_ckpt_writer *c = NULL;
  shoal_status st = share_verdict(control, make_writer(control, dir, info, need_bytes, &c));
  if (st != SHOAL_OK) {
    free_writer(c);
    return st;
  }
  *out = c;
  return SHOAL_OK;
}

/* ---- data sets ---- */

static bool good_name(const char *name)
{
  size_t n = strlen(name);
  if (n == 0 || n > SHOAL_CKPT_MAX_NAME || name[n - 1] == '/') return false;
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

/* Contiguous, so that the seal can say where the bytes are; written once, so no fill values; no times of day, so that
 * equal contents are equal bytes. */
static shoal_status create_set(const shoal_ckpt_writer *c, const char *name, shoal_dtype type, int ndim,
                               const uint64_t *dims, hid_t *set_out)
{
  hsize_t extent[SHOAL_CKPT_MAX_DIMS];
  for (int i = 0; i < ndim; i++) extent[i] = dims[i];
  hid_t set = H5I_INVALID_HID, links = H5Pcreate(H5P_LINK_CREATE), how = H5Pcreate(H5P_DATASET_CREATE);
  hid_t space = ndim ? H5Screate_simple(ndim, extent, NULL) : H5Screate(H5S_SCALAR);
  if (links >= 0 && how >= 0 && space >= 0 && H5Pset_create_intermediate_group(links, 1) >= 0 &&
      H5Pset_layout(how, H5D_CONTIGUOUS) >= 0 && H5Pset_fill_time(how, H5D_FILL_TIME_NEVER) >= 0 &&
      H5Pset_obj_track_times(how, false) >= 0)
    set = H5Dcreate2(c->file, name, shoal_ckpt_file_type(type), space, links, how, H5P_DEFAULT);
  shoal_status st = set < 0 ? write_fault(c, name) : SHOAL_OK; /* before the closing calls, which clear its words */
  shoal_h5_close(space);
  shoal_h5_close(how);
  shoal_h5_close(links);
  if (st == SHOAL_OK) *set_out = set;
  return st;
}

/* Begin a data set at the root and its line in the index. */
static shoal_status begin_set(shoal_ckpt_writer *c, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                              hid_t *set_out)
{
  uint64_t n;
  SHOAL_CHECK(good_name(name), SHOAL_ERR_ARG,
              "\"%s\" cannot name a data set: use parts of visible ASCII characters joined by single slashes", name);
  SHOAL_CHECK(shoal_ckpt_elements(type, ndim, dims, &n) == SHOAL_OK, SHOAL_ERR_ARG,
              "data set %s has an impossible type or shape (type %d, %d dimensions)", name, (int)type, ndim);
  hid_t set;
  SHOAL_TRY(create_set(c, name, type, ndim, dims, &set));
  shoal_ckpt_entry *e = shoal_ckpt_index_add(&c->index, name);
  if (!e) {
    H5Dclose(set);
    return SHOAL_FAIL(SHOAL_ERR_MEM, "no memory for the index of a checkpoint with %zu data sets", c->index.n);
  }
  e->type = type;
  e->ndim = ndim;
  if (ndim) memcpy(e->dims, dims, (size_t)ndim * sizeof *dims);
  e->n = n;
  e->bytes = n * shoal_dtype_size(type);
  *set_out = set;
  return SHOAL_OK;
}

/* The data is in: note where, and leave the check sum for readers that know only HDF5. */
static shoal_status end_set(shoal_ckpt_writer *c, hid_t set)
{
  shoal_ckpt_entry *e = &c->index.at[c->index.n - 1];
  shoal_status st = shoal_h5_put_i64(set, "crc32c", (int64_t)e->crc);
  if (st == SHOAL_OK && e->bytes > 0) {
    haddr_t offset = H5Dget_offset(set);
    if (offset == HADDR_UNDEF)
      st = write_fault(c, e->name);
    else
      e->offset = offset;
  }
  if (H5Dclose(set) < 0 && st == SHOAL_OK) st = write_fault(c, e->name);
  return st;
}

static shoal_status write_set(shoal_ckpt_writer *c, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                              const void *data)
{
  hid_t set;
  SHOAL_TRY(begin_set(c, name, type, ndim, dims, &set));
  shoal_ckpt_entry *e = &c->index.at[c->index.n - 1];
  shoal_status st = SHOAL_OK;
  if (e->bytes > 0) {
    e->crc = shoal_crc32c(0, data, (size_t)e->bytes);
    if (H5Dwrite(set, shoal_ckpt_file_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) st = write_fault(c, name);
  }
  if (st != SHOAL_OK) {
    H5Dclose(set);
    return st;
  }
  return end_set(c, set);
}

void shoal_ckpt_put(shoal_ckpt_writer *c, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                    const void *data)
{
  if (c->rank != ROOT || c->st != SHOAL_OK) return;
  keep_failure(c, write_set(c, name, type, ndim, dims, data));
}

void shoal_ckpt_put_i64(shoal_ckpt_writer *c, const char *name, int64_t value)
{
  shoal_ckpt_put(c, name, SHOAL_I64, 0, NULL, &value);
}

void shoal_ckpt_put_f64(shoal_ckpt_writer *c, const char *name, double value)
{
  shoal_ckpt_put(c, name, SHOAL_F64, 0, NULL, &value);
}

/* ---- arrays of every rank ---- */

static shoal_status write_piece(shoal_ckpt_writer *c, hid_t set, const shoal_ckpt_entry *e, uint64_t first, uint64_t n,
                                const void *data)
{
  hsize_t start = first, count = n;
  hid_t to = H5Dget_space(set), from = H5Screate_simple(1, &count, NULL);
  bool ok = to >= 0 && from >= 0 && H5Sselect_hyperslab(to, H5S_SELECT_SET, &start, NULL, &count, NULL) >= 0 &&
            H5Dwrite(set, shoal_ckpt_file_type(e->type), from, to, H5P_DEFAULT, data) >= 0;
  shoal_status st = ok ? SHOAL_OK : write_fault(c, e->name);
  if (to >= 0) H5Sclose(to);
  if (from >= 0) H5Sclose(from);
  return st;
}

/* Take over one rank's array.  After a failed write the rest is still received, because it is on its way. */
static shoal_status receive_set(shoal_ckpt_writer *c, const char *name, shoal_dtype type, int rank, uint64_t n)
{
  hid_t set = H5I_INVALID_HID;
  size_t width = shoal_dtype_size(type);
  uint64_t per_piece = SHOAL_CKPT_PIECE / width;
  shoal_status st = c->st;
  if (st == SHOAL_OK) st = begin_set(c, name, type, 1, &n, &set);
  for (uint64_t first = 0; first < n; first += per_piece) {
    uint64_t count = SHOAL_MIN(per_piece, n - first);
    size_t bytes = (size_t)count * width;
    shoal_status received = shoal_group_recv(c->group, c->piece, bytes, rank, TAG);
    if (received != SHOAL_OK) {
      st = received;
      break;
    }
    if (st != SHOAL_OK) continue;
    shoal_ckpt_entry *e = &c->index.at[c->index.n - 1];
    e->crc = shoal_crc32c(e->crc, c->piece, bytes);
    st = write_piece(c, set, e, first, count, c->piece);
  }
  if (st == SHOAL_OK) return end_set(c, set);
  if (set >= 0) H5Dclose(set);
  return st;
}

static shoal_status send_set(shoal_ckpt_writer *c, shoal_dtype type, uint64_t n, const char *data)
{
  for (uint64_t bytes = n * shoal_dtype_size(type), done = 0; done < bytes;) {
    size_t piece = (size_t)SHOAL_MIN(bytes - done, (uint64_t)SHOAL_CKPT_PIECE);
    SHOAL_TRY(shoal_group_send(c->group, data + done, piece, ROOT, TAG));
    done += piece;
  }
  return SHOAL_OK;
}

/* Everybody hears everybody's length, and whether somebody has failed or calls with another name. */
static shoal_status announce(shoal_ckpt_writer *c, const char *name, shoal_dtype type, uint64_t n)
{
  announcement mine = {
    .n = n, .name_crc = shoal_crc32c(0, name, strlen(name)), .type = (int32_t)type, .status = (int32_t)c->st
  };
  SHOAL_TRY(shoal_group_allgather(c->group, &mine, sizeof mine, c->all));
  for (int r = 0; r < c->size; r++)
    if (c->all[r].status != SHOAL_OK) return (shoal_status)c->all[r].status;
  for (int r = 1; r < c->size; r++)
    if (c->all[r].name_crc != c->all[0].name_crc || c->all[r].type != c->all[0].type) {
      int quiet = c->rank != ROOT;
      shoal_quiet_errors(quiet);
      SHOAL_FAIL(SHOAL_ERR_ARG, "rank %d writes another array than rank 0 into the checkpoint (here: %s, %s)", r, name,
                 shoal_dtype_name(type));
      shoal_quiet_errors(-quiet);
      return SHOAL_ERR_ARG;
    }
  return SHOAL_OK;
}

static shoal_status write_replicas(shoal_ckpt_writer *c, const char *name, shoal_dtype type, const void *data)
{
  shoal_status first = SHOAL_OK;
  for (int r = 0; r < c->size; r++) {
    char *full = shoal_strdup_printf("replica/%d/%s", r, name);
    uint64_t n = c->all[r].n;
    shoal_status st = SHOAL_OK;
    if (r != ROOT)
      st = receive_set(c, full, type, r, n);
    else if (c->st == SHOAL_OK)
      st = write_set(c, full, type, 1, &n, data);
    free(full);
    keep_failure(c, st);
    if (first == SHOAL_OK) first = st;
  }
  return first;
}

void shoal_ckpt_put_replica(shoal_ckpt_writer *c, const char *name, shoal_dtype type, uint64_t n, const void *data)
{
  uint64_t elements;
  if (c->st == SHOAL_OK && shoal_ckpt_elements(type, 1, &n, &elements) != SHOAL_OK)
    keep_failure(c, SHOAL_FAIL(SHOAL_ERR_ARG, "%s has an impossible type or length (type %d, %" PRIu64 " elements)",
                               name, (int)type, n));
  shoal_status st = announce(c, name, type, n);
  if (st == SHOAL_OK) st = c->rank == ROOT ? write_replicas(c, name, type, data) : send_set(c, type, n, data);
  keep_failure(c, st);
}

/* ---- the end ---- */

static shoal_status finish_file(shoal_ckpt_writer *c)
{
  shoal_ckpt *written = NULL;
  if (H5Fflush(c->file, H5F_SCOPE_LOCAL) < 0) return write_fault(c, "the last part");
  if (H5Fclose(c->file) < 0) return write_fault(c, "the last part");
  c->file = H5I_INVALID_HID;
  shoal_ckpt_index_sort(&c->index);
  SHOAL_TRY(shoal_ckpt_seal_write(c->tmp, &c->index));
  SHOAL_TRY(shoal_ckpt_open(c->tmp, true, &written));
  shoal_ckpt_close(written);
  SHOAL_TRY(shoal_commit_file(c->tmp, c->path));
  free(c->tmp); /* the name is gone, the file has its own now */
  c->tmp = NULL;
  return SHOAL_OK;
}

shoal_status shoal_ckpt_commit(shoal_ckpt_writer *c, char **path_out)
{
  shoal_status st = share_verdict(c->group, c->st);
  if (st == SHOAL_OK) st = share_verdict(c->group, c->rank == ROOT ? finish_file(c) : SHOAL_OK);
  if (st == SHOAL_OK && path_out) {
    *path_out = c->path;
    c->path = NULL;
  }
  free_writer(c);
  return st;
}

void shoal_ckpt_abandon(shoal_ckpt_writer *c)
{
  free_writer(c);
}
