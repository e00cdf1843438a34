/* Writing a data set: one door for importers, generators and repack, so that every file has the same form.
 *
 * Samples stream in; a few chunks are kept in memory and written when full, while mean, deviation and check sums are
 * gathered from what passes by.  The file grows under a temporary name and gets its own only when everything is in it
 * and on the disk, so an importer that stops in the middle leaves an older output as it was:
 *
 *     create .set.h5.tmp-host-pid -> add, add, … -> attributes, close -> fsync, rename to set.h5
 *
 * A full disk must not be HDF5's to discover: when its cached structure cannot be written, the file can never be closed
 * again and the library crashes as the program ends (seen with 1.10.8).  So room for everything HDF5 might touch is
 * reserved before each append, and a disk that refuses is our error, with the file still in order.
 *
 * A chunk is a few samples (16 KiB of them): readers that fetch whole chunks lose little on shuffled reads, and the
 * index stays small.  Times are not stored, so equal content makes equal files. */
#define _GNU_SOURCE /* fallocate */
#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "h5/h5.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 16 << 10, CHUNK_SAMPLES = 64, CHUNK_TOKENS = 64 << 10, CHUNK_LABELS = 16 << 10, BUFFER = 1 << 20 };

typedef struct {
  hid_t x, y;
  uint64_t stored, waiting; /* samples in the file, in the buffer */
  char *buffer;             /* [rows, sample] */
  int32_t *labels;          /* [rows] */
  uint32_t crc_x, crc_y;
} half;

struct shoal_data_writer {
  char *path, *tmp;
  shoal_data_spec spec;
  char *source;
  hid_t file, x_type, x_file_type;
  int fd;            /* the same file, for reserving room */
  uint64_t reserved; /* bytes from the start that the disk has promised */
  size_t sample_bytes;
  uint64_t rows; /* of the buffer */
  half half[2];
  shoal_tally tally; /* of the training split */
};

uint64_t shoal_data_chunk_rows(shoal_data_kind kind, size_t sample_bytes)
{
  if (kind == SHOAL_DATA_TEXT) return CHUNK_TOKENS / sample_bytes;
  uint64_t rows = CHUNK_BYTES / sample_bytes;
  return SHOAL_MAX(UINT64_C(1), SHOAL_MIN(rows, (uint64_t)CHUNK_SAMPLES));
}

/* ---- room ---- */

/* More than HDF5 adds by itself: per call headers, heaps and the chunks it still holds; per chunk its part of the index. */
enum { ROOM_CALL = 256 << 10, ROOM_CHUNK = 256 };

static shoal_status reserve(shoal_data_writer *w, uint64_t bytes, uint64_t chunks)
{
  hsize_t end = 0;
  if (w->file >= 0) SHOAL_TRY_H5(H5Fget_filesize(w->file, &end), "cannot write %s", w->path);
  uint64_t want = end + bytes + ROOM_CALL + chunks * ROOM_CHUNK;
  if (want <= w->reserved) return SHOAL_OK;
  int failed;
  do failed = fallocate(w->fd, FALLOC_FL_KEEP_SIZE, (off_t)w->reserved, (off_t)(want - w->reserved));
  while (failed && errno == EINTR);
  if (failed && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    int error = errno;
    uint64_t room = 0;
    const char *type = "unknown";
    char amount[32];
    SHOAL_TRY(shoal_disk_facts(w->path, &room, &type));
    return SHOAL_FAIL(SHOAL_ERR_IO, "cannot write %s: %s (%s free on %s); make room or choose another folder", w->path,
                      strerror(error), shoal_format_bytes((double)room, amount, sizeof amount), type);
  }
  w->reserved = want; /* or this file system cannot promise anything, and asking again is no use */
  return SHOAL_OK;
}

/* ---- creating ---- */

/* An empty array that can grow along its first dimension. */
static shoal_status make_array(const shoal_data_writer *w, const char *name, hid_t type, int ndim, const hsize_t *chunk,
                               hid_t *out)
{
  hsize_t now[8], most[8];
  memcpy(now, chunk, (size_t)ndim * sizeof *now);
  memcpy(most, chunk, (size_t)ndim * sizeof *most);
  now[0] = 0;
  most[0] = H5S_UNLIMITED;
  hid_t space = H5Screate_simple(ndim, now, most), how = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(how, ndim, chunk);
  H5Pset_obj_track_times(how, 0);
  H5Pset_fill_time(how, H5D_FILL_TIME_NEVER);
  hid_t access = H5Pcreate(H5P_DATASET_ACCESS);
  H5Pset_chunk_cache(access, 1, 0, 1); /* chunks go to the file at once, so that its size tells what is reserved */
  hid_t made = H5Dcreate2(w->file, name, type, space, H5P_DEFAULT, how, access);
  shoal_h5_close(access);
  shoal_h5_close(how);
  shoal_h5_close(space);
  SHOAL_TRY_H5(made, "cannot make /%s in %s", name, w->path);
  *out = made;
  return SHOAL_OK;
}

static shoal_status make_half(shoal_data_writer *w, shoal_split split)
{
  half *h = &w->half[split];
  const char *name = shoal_split_name(split);
  const shoal_shape *s = &w->spec.sample;
  bool text = w->spec.kind == SHOAL_DATA_TEXT;
  char path[32];
  hsize_t chunk[8] = { shoal_data_chunk_rows(w->spec.kind, w->sample_bytes) };
  for (int i = 0; i < s->ndim; i++) chunk[i + 1] = (hsize_t)s->dim[i];
  hid_t how = H5Pcreate(H5P_GROUP_CREATE);
  H5Pset_obj_track_times(how, 0);
  hid_t group = H5Gcreate2(w->file, name, H5P_DEFAULT, how, H5P_DEFAULT);
  shoal_h5_close(how);
  SHOAL_TRY_H5(group, "cannot make /%s in %s", name, w->path);
  shoal_h5_close(group);
  snprintf(path, sizeof path, "%s/%s", name, text ? "tokens" : "x");
  SHOAL_TRY(make_array(w, path, w->x_file_type, text ? 1 : s->ndim + 1, chunk, &h->x));
  SHOAL_TRY(shoal_alloc(w->rows, w->sample_bytes, "samples to write", (void **)&h->buffer));
  if (text) return SHOAL_OK;
  snprintf(path, sizeof path, "%s/y", name);
  SHOAL_TRY(make_array(w, path, H5T_STD_I32LE, 1, (hsize_t[]){ CHUNK_LABELS }, &h->y));
  return SHOAL_ALLOC(w->rows, &h->labels);
}

static void choose_types(shoal_data_writer *w)
{
  bool text = w->spec.kind == SHOAL_DATA_TEXT;
  w->x_type = w->spec.x_bytes == 1   ? H5T_NATIVE_UINT8
              : w->spec.x_bytes == 2 ? H5T_NATIVE_UINT16
              : text                 ? H5T_NATIVE_UINT32
                                     : H5T_NATIVE_FLOAT;
  w->x_file_type = w->spec.x_bytes == 1   ? H5T_STD_U8LE
                   : w->spec.x_bytes == 2 ? H5T_STD_U16LE
                   : text                 ? H5T_STD_U32LE
                                          : H5T_IEEE_F32LE;
}

/* Said before anything is read, and with the name the user gave instead of the temporary one. */
static shoal_status check_folder(const char *path)
{
  const char *name = shoal_path_base(path);
  char *folder = name == path ? shoal_strdup_printf(".") : shoal_strdup_printf("%.*s", (int)(name - path), path);
  bool there = shoal_path_exists(folder), writable = access(folder, W_OK) == 0;
  free(folder);
  SHOAL_CHECK(there, SHOAL_ERR_IO, "cannot write %s: its folder does not exist; make it first", path);
  SHOAL_CHECK(writable, SHOAL_ERR_IO, "cannot write %s: its folder is read-only for you", path);
  return SHOAL_OK;
}

/* Room is reserved before HDF5 creates the file, and again at once after, because creating cuts it to nothing. */
static shoal_status create_file(shoal_data_writer *w)
{
  char *tmp = shoal_temporary_name(w->path);
  w->fd = open(tmp, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  int error = errno;
  if (w->fd >= 0)
    w->tmp = tmp; /* from here on it is ours to remove */
  else
    free(tmp);
  SHOAL_CHECK(w->fd >= 0, SHOAL_ERR_IO, "cannot write %s: %s", w->path, strerror(error));
  SHOAL_TRY(reserve(w, 0, 0));
  SHOAL_TRY(shoal_h5_create(w->tmp, &w->file));
  w->reserved = 0;
  return reserve(w, 0, 0);
}

shoal_status shoal_data_writer_create(const char *path, const shoal_data_spec *spec, shoal_data_writer **out)
{
  shoal_data_writer *w;
  SHOAL_TRY(check_folder(path));
  SHOAL_TRY(SHOAL_ALLOC(1, &w));
  *w = (shoal_data_writer){ .path = shoal_strdup_printf("%s", path), .spec = *spec, .file = -1, .fd = -1 };
  w->source = shoal_strdup_printf("%s", spec->source);
  w->half[0].x = w->half[0].y = w->half[1].x = w->half[1].y = -1;
  w->sample_bytes = (size_t)shoal_shape_count(&spec->sample) * (size_t)spec->x_bytes;
  uint64_t chunk = shoal_data_chunk_rows(spec->kind, w->sample_bytes);
  w->rows = shoal_round_up(SHOAL_MAX(BUFFER / w->sample_bytes, 1), chunk);
  shoal_status st;
  shoal_h5_init();
  choose_types(w); /* the names of HDF5's types are functions: only after it was opened */
  SHOAL_TRY_GOTO(st, shoal_tally_init(&w->tally, spec->kind, &spec->sample, spec->x_bytes), fail);
  SHOAL_TRY_GOTO(st, create_file(w), fail);
  SHOAL_TRY_GOTO(st, make_half(w, SHOAL_TRAIN), fail);
  SHOAL_TRY_GOTO(st, make_half(w, SHOAL_TEST), fail);
  *out = w;
  return SHOAL_OK;
fail:
  shoal_data_writer_destroy(w);
  return st;
}

/* ---- filling ---- */

static shoal_status append(const shoal_data_writer *w, hid_t array, hid_t type, uint64_t at, uint64_t n,
                           const void *data)
{
  hsize_t start[8] = { at }, size[8];
  hid_t space = H5Dget_space(array);
  int ndim = H5Sget_simple_extent_dims(space, size, NULL);
  shoal_h5_close(space);
  size[0] = at + n;
  SHOAL_TRY_H5(H5Dset_extent(array, size), "cannot write %s", w->path);
  space = H5Dget_space(array);
  size[0] = n;
  hid_t memory = H5Screate_simple(ndim, size, NULL);
  herr_t bad = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, size, NULL);
  if (bad >= 0) bad = H5Dwrite(array, type, memory, space, H5P_DEFAULT, data);
  shoal_status st = bad < 0 ? shoal_h5_fail(__FILE__, __LINE__, "cannot write %s", w->path) : SHOAL_OK;
  shoal_h5_close(memory);
  shoal_h5_close(space);
  return st;
}

static shoal_status flush_half(shoal_data_writer *w, shoal_split split)
{
  half *h = &w->half[split];
  if (h->waiting == 0) return SHOAL_OK;
  if (split == SHOAL_TRAIN && w->spec.kind != SHOAL_DATA_TEXT) shoal_tally_add(&w->tally, h->waiting, h->buffer);
  uint64_t chunk = shoal_data_chunk_rows(w->spec.kind, w->sample_bytes);
  size_t bytes = w->sample_bytes + (h->labels ? sizeof *h->labels : 0);
  SHOAL_TRY(reserve(w, h->waiting * bytes, h->waiting / chunk + 1));
  h->crc_x = shoal_crc32c(h->crc_x, h->buffer, h->waiting * w->sample_bytes);
  SHOAL_TRY(append(w, h->x, w->x_type, h->stored, h->waiting, h->buffer));
  if (h->y >= 0) {
    h->crc_y = shoal_crc32c(h->crc_y, h->labels, h->waiting * sizeof *h->labels);
    SHOAL_TRY(append(w, h->y, H5T_NATIVE_INT32, h->stored, h->waiting, h->labels));
  }
  h->stored += h->waiting;
  h->waiting = 0;
  return SHOAL_OK;
}

shoal_status shoal_data_writer_add(shoal_data_writer *w, shoal_split split, uint64_t n, const void *x, const int32_t *y)
{
  half *h = &w->half[split];
  const char *from = x;
  while (n > 0) {
    uint64_t take = SHOAL_MIN(n, w->rows - h->waiting);
    memcpy(h->buffer + h->waiting * w->sample_bytes, from, take * w->sample_bytes);
    if (h->labels) {
      memcpy(h->labels + h->waiting, y, take * sizeof *y);
      y += take;
    }
    h->waiting += take;
    from += take * w->sample_bytes;
    n -= take;
    if (h->waiting == w->rows) SHOAL_TRY(flush_half(w, split));
  }
  return SHOAL_OK;
}

uint64_t shoal_data_writer_count(const shoal_data_writer *w, shoal_split split)
{
  return w->half[split].stored + w->half[split].waiting;
}

/* ---- the end ---- */

static shoal_status write_attributes(shoal_data_writer *w, int64_t classes, const char *class_names)
{
  static const char *const kinds[] = { "images", "features", "text" };
  SHOAL_TRY(shoal_h5_put_string(w->file, "kind", kinds[w->spec.kind]));
  SHOAL_TRY(shoal_h5_put_i64(w->file, "classes", classes));
  SHOAL_TRY(shoal_h5_put_string(w->file, "source", w->source));
  /* Attributes hold at most 64 KiB in the earliest format; names are a courtesy. */
  if (class_names && strlen(class_names) < 60000) SHOAL_TRY(shoal_h5_put_string(w->file, "class_names", class_names));
  uint32_t crc[4] = { w->half[0].crc_x, w->half[0].crc_y, w->half[1].crc_x, w->half[1].crc_y };
  SHOAL_TRY(shoal_h5_put_i64(w->file, "checksum", shoal_data_checksum(crc)));
  if (w->spec.kind == SHOAL_DATA_TEXT) return SHOAL_OK;
  double *mean;
  SHOAL_TRY(SHOAL_ALLOC(2 * w->tally.groups, &mean));
  shoal_tally_result(&w->tally, mean, mean + w->tally.groups);
  shoal_status st = shoal_h5_put_f64s(w->file, "mean", w->tally.groups, mean);
  if (st == SHOAL_OK) st = shoal_h5_put_f64s(w->file, "std", w->tally.groups, mean + w->tally.groups);
  free(mean);
  return st;
}

/* What was reserved and not used goes back: cutting a file to its own size does that. */
static shoal_status return_room(const shoal_data_writer *w)
{
  struct stat info;
  SHOAL_CHECK(fstat(w->fd, &info) == 0 && ftruncate(w->fd, info.st_size) == 0, SHOAL_ERR_IO, "cannot finish %s: %s",
              w->path, strerror(errno));
  return SHOAL_OK;
}

static shoal_status close_file(shoal_data_writer *w)
{
  hid_t *open[] = { &w->half[0].x, &w->half[0].y, &w->half[1].x, &w->half[1].y, &w->file };
  for (size_t i = 0; i < SHOAL_COUNT(open); i++) {
    hid_t id = *open[i];
    *open[i] = -1;
    if (id < 0) continue;
    herr_t bad = i < 4 ? H5Dclose(id) : H5Fclose(id); /* what could not be written may show only here */
    SHOAL_TRY_H5(bad, "cannot finish %s", w->path);
  }
  return SHOAL_OK;
}

shoal_status shoal_data_writer_commit(shoal_data_writer *w, int64_t classes, const char *class_names)
{
  SHOAL_TRY(flush_half(w, SHOAL_TRAIN));
  SHOAL_TRY(flush_half(w, SHOAL_TEST));
  SHOAL_CHECK(w->half[SHOAL_TRAIN].stored > 0, SHOAL_ERR_IO, "%s would have no training samples (%llu for testing)",
              w->path, (unsigned long long)w->half[SHOAL_TEST].stored);
  SHOAL_TRY(reserve(w, 0, 0));
  SHOAL_TRY(write_attributes(w, classes, class_names));
  SHOAL_TRY(close_file(w));
  SHOAL_TRY(return_room(w));
  SHOAL_TRY(shoal_commit_file(w->tmp, w->path));
  free(w->tmp);
  w->tmp = NULL;
  return SHOAL_OK;
}

void shoal_data_writer_destroy(shoal_data_writer *w)
{
  if (!w) return;
  for (int s = 0; s < 2; s++) {
    shoal_h5_close(w->half[s].x);
    shoal_h5_close(w->half[s].y);
  }
  shoal_h5_close(w->file);
  if (w->tmp) unlink(w->tmp);
  if (w->fd >= 0) close(w->fd);
  for (int s = 0; s < 2; s++) {
    free(w->half[s].buffer);
    free(w->half[s].labels);
  }
  shoal_tally_fini(&w->tally);
  free(w->tmp);
  free(w->source);
  free(w->path);
  free(w);
}
