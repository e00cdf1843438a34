/* The file behind a writer: created under a temporary name, filled, sealed, checked, renamed.
 *
 * HDF5 does not get over a full disk: a failed write of its cached structure leaves the cache in a state in which the
 * file can be neither written nor closed (seen with 1.10.8: "slist not empty"), and its handle stays for the life of
 * the process.  So HDF5 never gets to see one.  Before each data set, space is reserved for all bytes HDF5 could touch:
 *
 *   0                 end of the HDF5 file       + data + structure
 *   |=================================|...................|          reserved by fallocate, returned when unused
 *
 * and when the disk refuses, the error is ours, the draft is closed and removed, and the run may go on without it.  File
 * systems that cannot reserve are trusted to fail late: the draft is then removed all the same. */
#define _GNU_SOURCE /* fallocate */
#include "ckpt/draft.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* More than HDF5 adds for one data set and the groups above it (object headers, B-tree nodes, heaps, one attribute). */
enum { STRUCTURE = 64 << 10 };

/* ---- space ---- */

/* "(12.0 KiB free on nfs)"; leaves errno and HDF5's error stack alone. */
static const char *space_text(const char *path, char *buf, size_t cap)
{
  uint64_t free_bytes = 0;
  const char *type = "unknown";
  char amount[32];
  int kept = errno;
  shoal_ckpt_hush h;
  shoal_ckpt_hush_begin(&h);
  free(shoal_ckpt_hush_end(&h, shoal_disk_facts(path, &free_bytes, &type)));
  snprintf(buf, cap, "(%s free on %s)", shoal_format_bytes((double)free_bytes, amount, sizeof amount), type);
  errno = kept;
  return buf;
}

/* Called right after a failed HDF5 call, whose words go behind ours. */
static shoal_status write_fault(const shoal_ckpt_draft *d, const char *name)
{
  char space[96];
  return shoal_h5_fail(__FILE__, __LINE__, "cannot write %s into %s %s", name, d->path,
                       space_text(d->path, space, sizeof space));
}

static shoal_status check_space(const char *path, uint64_t need)
{
  uint64_t free_bytes;
  const char *type;
  char want[32], have[32];
  if (need == 0) return SHOAL_OK;
  SHOAL_TRY(shoal_disk_facts(path, &free_bytes, &type));
  SHOAL_CHECK(free_bytes >= need, SHOAL_ERR_IO,
              "a checkpoint needs %s, but there is %s free (%s) for %s: make room, lower ckpt.keep, or move run.dir",
              shoal_format_bytes((double)need, want, sizeof want),
              shoal_format_bytes((double)free_bytes, have, sizeof have), type, path);
  return SHOAL_OK;
}

static bool disk_refuses(int error)
{
  return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

/* Make sure that the disk has room for `bytes` more than the file has now. */
static shoal_status reserve(shoal_ckpt_draft *d, const char *name, uint64_t bytes)
{
  hsize_t end = 0;
  char space[96];
  if (d->file >= 0 && H5Fget_filesize(d->file, &end) < 0) return write_fault(d, name);
  uint64_t want = end + bytes + STRUCTURE;
  if (want <= d->reserved) return SHOAL_OK;
  int failed;
  do failed = fallocate(d->fd, FALLOC_FL_KEEP_SIZE, (off_t)d->reserved, (off_t)(want - d->reserved));
  while (failed && errno == EINTR);
  SHOAL_CHECK(!failed || !disk_refuses(errno), SHOAL_ERR_IO, "cannot write %s into %s %s: %s", name, d->path,
              space_text(d->path, space, sizeof space), strerror(errno));
  d->reserved = want; /* or this file system has no such call, and asking again is no use */
  return SHOAL_OK;
}

/* ---- opening ---- */

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
  if (info->placement) SHOAL_TRY(shoal_h5_put_string(file, "placement", info->placement));
  return shoal_h5_put_string(file, "config", info->config ? info->config : "");
}

/* Space is reserved before HDF5 creates the file, and again at once after, because creating cuts it to nothing. */
static shoal_status create_file(shoal_ckpt_draft *d, uint64_t attributes)
{
  char space[96];
  d->tmp = shoal_temporary_name(d->path);
  d->fd = open(d->tmp, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  SHOAL_CHECK(d->fd >= 0, SHOAL_ERR_IO, "cannot create %s %s: %s", d->path, space_text(d->path, space, sizeof space),
              strerror(errno));
  SHOAL_TRY(reserve(d, "the header", attributes));
  SHOAL_TRY(shoal_h5_create(d->tmp, &d->file));
  d->reserved = 0;
  return reserve(d, "the header", attributes);
}

static size_t text_bytes(const char *text)
{
  return text ? strlen(text) : 0;
}

shoal_status shoal_ckpt_draft_open(shoal_ckpt_draft *d, const char *path, const shoal_ckpt_info *info, uint64_t need)
{
  d->file = H5I_INVALID_HID;
  d->fd = -1;
  d->path = shoal_strdup_printf("%s", path);
  SHOAL_CHECK(info->step <= INT64_MAX && info->epoch <= INT64_MAX && info->samples <= INT64_MAX, SHOAL_ERR_ARG,
              "step, epoch or samples of a checkpoint exceed 63 bits");
  char *dir = shoal_strdup_printf("%.*s", (int)(shoal_path_base(path) - path), path);
  shoal_status st = shoal_make_dirs(dir[0] ? dir : ".");
  free(dir);
  SHOAL_TRY(st);
  SHOAL_TRY(check_space(path, need));
  SHOAL_TRY(create_file(d, text_bytes(info->config) + text_bytes(info->placement)));
  return write_info(d->file, info);
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

/* Contiguous, so that the seal can say where the bytes are; written once, so no fill values; no times of day, so that
 * equal contents are equal bytes. */
static shoal_status create_set(shoal_ckpt_draft *d, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                               hid_t *set_out)
{
  hsize_t extent[SHOAL_CKPT_MAX_DIMS];
  for (int i = 0; i < ndim; i++) extent[i] = dims[i];
  hid_t set = H5I_INVALID_HID, links = H5Pcreate(H5P_LINK_CREATE), how = H5Pcreate(H5P_DATASET_CREATE);
  hid_t space = ndim ? H5Screate_simple(ndim, extent, NULL) : H5Screate(H5S_SCALAR);
  if (links >= 0 && how >= 0 && space >= 0 && H5Pset_create_intermediate_group(links, 1) >= 0 &&
      H5Pset_layout(how, H5D_CONTIGUOUS) >= 0 && H5Pset_fill_time(how, H5D_FILL_TIME_NEVER) >= 0 &&
      H5Pset_obj_track_times(how, false) >= 0)
    set = H5Dcreate2(d->file, name, shoal_ckpt_file_type(type), space, links, how, H5P_DEFAULT);
  shoal_status st = set < 0 ? write_fault(d, name) : SHOAL_OK; /* before the closing calls, which clear its words */
  shoal_h5_close(space);
  shoal_h5_close(how);
  shoal_h5_close(links);
  if (st == SHOAL_OK) *set_out = set;
  return st;
}

static shoal_ckpt_entry *last(shoal_ckpt_draft *d)
{
  return &d->index.at[d->index.n - 1];
}

shoal_status shoal_ckpt_draft_begin(shoal_ckpt_draft *d, const char *name, shoal_dtype type, int ndim,
                                    const uint64_t *dims, hid_t *set_out)
{
  uint64_t n, bytes;
  SHOAL_CHECK(good_name(name), SHOAL_ERR_ARG,
              "\"%s\" cannot name a data set: use parts of visible ASCII characters joined by single slashes", name);
  SHOAL_CHECK(shoal_ckpt_elements(type, ndim, dims, &n) == SHOAL_OK, SHOAL_ERR_ARG,
              "data set %s has an impossible type or shape (type %d, %d dimensions)", name, (int)type, ndim);
  bytes = n * shoal_dtype_size(type);
  SHOAL_TRY(reserve(d, name, bytes));
  SHOAL_TRY(create_set(d, name, type, ndim, dims, set_out));
  shoal_ckpt_entry *e = shoal_ckpt_index_add(&d->index, name);
  if (!e) {
    shoal_h5_close(*set_out);
    return SHOAL_FAIL(SHOAL_ERR_MEM, "no memory for the index of a checkpoint with %zu data sets", d->index.n);
  }
  e->type = type;
  e->ndim = ndim;
  if (ndim) memcpy(e->dims, dims, (size_t)ndim * sizeof *dims);
  e->n = n;
  e->bytes = bytes;
  return SHOAL_OK;
}

shoal_status shoal_ckpt_draft_add(shoal_ckpt_draft *d, hid_t set, uint64_t first, uint64_t n, const void *data)
{
  shoal_ckpt_entry *e = last(d);
  hsize_t start = first, count = n;
  hid_t to = H5Dget_space(set), from = H5Screate_simple(1, &count, NULL);
  bool ok = to >= 0 && from >= 0 && H5Sselect_hyperslab(to, H5S_SELECT_SET, &start, NULL, &count, NULL) >= 0 &&
            H5Dwrite(set, shoal_ckpt_file_type(e->type), from, to, H5P_DEFAULT, data) >= 0;
  shoal_status st = ok ? SHOAL_OK : write_fault(d, e->name);
  e->crc = shoal_crc32c(e->crc, data, (size_t)(n * shoal_dtype_size(e->type)));
  shoal_h5_close(to);
  shoal_h5_close(from);
  return st;
}

/* The data is in: note where, and leave the check sum for readers that know only HDF5. */
shoal_status shoal_ckpt_draft_end(shoal_ckpt_draft *d, hid_t set, bool ok)
{
  shoal_ckpt_entry *e = last(d);
  shoal_status st = ok ? shoal_h5_put_i64(set, "crc32c", (int64_t)e->crc) : SHOAL_OK;
  if (ok && st == SHOAL_OK && e->bytes > 0) {
    haddr_t offset = H5Dget_offset(set);
    if (offset == HADDR_UNDEF)
      st = write_fault(d, e->name);
    else
      e->offset = offset;
  }
  if (H5Dclose(set) < 0 && ok && st == SHOAL_OK) st = write_fault(d, e->name);
  return st;
}

shoal_status shoal_ckpt_draft_put(shoal_ckpt_draft *d, const char *name, shoal_dtype type, int ndim,
                                  const uint64_t *dims, const void *data)
{
  hid_t set;
  SHOAL_TRY(shoal_ckpt_draft_begin(d, name, type, ndim, dims, &set));
  shoal_ckpt_entry *e = last(d);
  shoal_status st = SHOAL_OK;
  if (e->bytes > 0) {
    e->crc = shoal_crc32c(0, data, (size_t)e->bytes);
    if (H5Dwrite(set, shoal_ckpt_file_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) st = write_fault(d, name);
  }
  shoal_status ended = shoal_ckpt_draft_end(d, set, st == SHOAL_OK);
  return st == SHOAL_OK ? ended : st;
}

/* ---- the end ---- */

/* What was reserved and not used goes back: cutting a file to its own size does that. */
static shoal_status return_space(const shoal_ckpt_draft *d)
{
  struct stat file;
  SHOAL_CHECK(fstat(d->fd, &file) == 0 && ftruncate(d->fd, file.st_size) == 0, SHOAL_ERR_IO, "cannot finish %s: %s",
              d->path, strerror(errno));
  return SHOAL_OK;
}

shoal_status shoal_ckpt_draft_finish(shoal_ckpt_draft *d)
{
  shoal_ckpt *written = NULL;
  hid_t file = d->file;
  if (H5Fflush(file, H5F_SCOPE_LOCAL) < 0) return write_fault(d, "the last part");
  d->file = H5I_INVALID_HID;
  if (H5Fclose(file) < 0) return write_fault(d, "the last part");
  shoal_ckpt_index_sort(&d->index);
  SHOAL_TRY(shoal_ckpt_seal_write(d->tmp, &d->index));
  SHOAL_TRY(return_space(d));
  SHOAL_TRY(shoal_ckpt_open(d->tmp, true, &written));
  shoal_ckpt_close(written);
  SHOAL_TRY(shoal_commit_file(d->tmp, d->path));
  free(d->tmp); /* that name is gone, the file has its own now */
  d->tmp = NULL;
  return SHOAL_OK;
}

void shoal_ckpt_draft_discard(shoal_ckpt_draft *d)
{
  if (!d->path) return;
  shoal_ckpt_hush h; /* whatever happens now is an echo of what was told already */
  shoal_ckpt_hush_begin(&h);
  shoal_h5_close(d->file);
  free(shoal_ckpt_hush_end(&h, SHOAL_OK));
  /* Unlinking fails when the file has its final name already; then it is not ours to cut.  Otherwise cutting frees the
   * space even if HDF5 could not let go of the file. */
  if (d->tmp && unlink(d->tmp) == 0 && d->fd >= 0 && ftruncate(d->fd, 0) != 0) errno = 0;
  if (d->fd >= 0) close(d->fd);
  shoal_ckpt_index_free(&d->index);
  free(d->tmp);
  free(d->path);
  *d = (shoal_ckpt_draft){ .file = H5I_INVALID_HID, .fd = -1 };
}
