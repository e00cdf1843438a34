/* Files under a temporary name, with disk space reserved before HDF5 writes; the reasons are in draft.h. */
#define _GNU_SOURCE /* fallocate */
#include "h5/draft.h"
#include "base/file.h"
#include "base/limit.h"
#include "base/str.h"
#include "h5/h5_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Upper bounds of HDF5's metadata in bytes: METADATA for the object headers, B-tree nodes, heaps and attributes of a
 * data set and the groups above it; PER_CHUNK for a chunk's share of the chunk index. */
enum { METADATA = 256 << 10, PER_CHUNK = 256 };

static bool is_disk_full(int error)
{
  return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

static shoal_status disk_full(const shoal_h5_draft *d, const char *what, int error, uint64_t more)
{
  char space[SHOAL_SPACE_LEFT], need[32];
  return SHOAL_FAIL(SHOAL_ERR_IO, "cannot write %s into %s: %s%s, %s more are needed here; %s", what, d->path,
                    strerror(error), shoal_space_left(d->path, error, space),
                    shoal_format_bytes((double)more, need, sizeof need),
                    error == EFBIG ? "raise the limit" : "make room or choose another folder");
}

shoal_status shoal_h5_draft_reserve(shoal_h5_draft *d, const char *what, uint64_t bytes, uint64_t chunks)
{
  hsize_t end = 0;
  if (shoal_h5_is_open(d->file)) H5_TRY(H5Fget_filesize(d->file.id, &end), "cannot write %s into %s", what, d->path);
  uint64_t want = end + bytes + METADATA + chunks * PER_CHUNK;
  if (want <= d->reserved) return SHOAL_OK;
  int failed;
  do failed = fallocate(d->fd, FALLOC_FL_KEEP_SIZE, (off_t)d->reserved, (off_t)(want - d->reserved));
  while (failed && errno == EINTR);
  if (failed && is_disk_full(errno)) return disk_full(d, what, errno, want - d->reserved);
  d->reserved = want; /* also if the file system does not support fallocate, so as not to try again */
  return SHOAL_OK;
}

/* Space is reserved before HDF5 creates the file and again right after, because H5Fcreate truncates the file. */
static shoal_status create(shoal_h5_draft *d, uint64_t bytes)
{
  SHOAL_TRY(shoal_h5_draft_reserve(d, "the header", bytes, 0));
  SHOAL_TRY(shoal_h5_create_on(d->tmp, d->fd, &d->file));
  d->reserved = 0;
  return shoal_h5_draft_reserve(d, "the header", bytes, 0);
}

shoal_status shoal_h5_draft_open(shoal_h5_draft *d, const char *path, uint64_t bytes)
{
  *d = (shoal_h5_draft){ .fd = -1 };
  d->path = shoal_strdup_printf("%s", path);
  char *tmp = d->path ? shoal_temporary_name(path) : NULL;
  SHOAL_CHECK(tmp, SHOAL_ERR_MEM, "no memory to write %s", path);
  shoal_status st = shoal_open_new(tmp, path, &d->fd);
  if (st != SHOAL_OK) {
    free(tmp);
    return st;
  }
  d->tmp = tmp; /* from here on discard removes it */
  return create(d, bytes);
}

shoal_status shoal_h5_draft_close(shoal_h5_draft *d)
{
  static const char last[] = "write the last part of";
  shoal_h5 file = d->file;
  shoal_h5_init();
  if (H5Fflush(file.id, H5F_SCOPE_LOCAL) < 0) return shoal_h5_fail_on(__FILE__, __LINE__, last, d->path);
  d->file = (shoal_h5){ 0 };
  if (H5Fclose(file.id) < 0) return shoal_h5_fail_on(__FILE__, __LINE__, last, d->path);
  return SHOAL_OK;
}

shoal_status shoal_h5_draft_commit(shoal_h5_draft *d)
{
  struct stat file;
  /* Truncating a file to its own size releases reserved but unused space. */
  SHOAL_CHECK(fstat(d->fd, &file) == 0 && ftruncate(d->fd, file.st_size) == 0, SHOAL_ERR_IO, "cannot finish %s: %s",
              d->path, strerror(errno));
  SHOAL_TRY(shoal_commit_file(d->tmp, d->path));
  free(d->tmp); /* the file has its final name now */
  d->tmp = NULL;
  return SHOAL_OK;
}

void shoal_h5_draft_discard(shoal_h5_draft *d)
{
  if (!d->path) return;
  shoal_h5_discard(d->file);
  /* If unlink fails the file already has its final name and must not be truncated.  Otherwise truncating frees the
   * space even if HDF5 could not close the file. */
  if (d->tmp && unlink(d->tmp) == 0 && d->fd >= 0 && ftruncate(d->fd, 0) != 0) errno = 0;
  if (d->fd >= 0) close(d->fd);
  free(d->tmp);
  free(d->path);
  *d = (shoal_h5_draft){ .fd = -1 };
}
