/* The recorder's file: three data sets that grow, /records, /ops and /attempts.
 *
 * A rank may be killed at any moment and its trace must still be readable, so
 *   - the earliest HDF5 format is used, which has no "open for writing" mark to clear after a crash;
 *   - metadata stays in memory between flushes (no evictions from the cache), so the file on disk is always the one of
 *     the last H5Fflush plus some raw data nobody points at yet;
 *   - a file that cannot be continued is set aside, never overwritten.
 * Not used: SWMR, which needs the newest format (of ten killed ranks none left a readable file), and compression, which
 * would cost the compute thread more than the disk. */
#include "base/log.h"
#include "base/str.h"
#include "trace/trace_impl.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Metadata goes to the disk in H5Fflush and at no other time.  There is little of it: some 100 bytes per chunk. */
static herr_t hold_metadata(hid_t file)
{
  H5AC_cache_config_t config = { .version = H5AC__CURR_CACHE_CONFIG_VERSION };
  if (H5Fget_mdc_config(file, &config) < 0) return -1;
  config.evictions_enabled = 0;
  config.incr_mode = H5C_incr__off;
  config.flash_incr_mode = H5C_flash_incr__off;
  config.decr_mode = H5C_decr__off;
  return H5Fset_mdc_config(file, &config);
}

static hid_t make_growing(hid_t file, const char *name, hid_t stored, hsize_t chunk)
{
  hsize_t none = 0, any = H5S_UNLIMITED;
  hid_t space = H5Screate_simple(1, &none, &any), dcpl = H5Pcreate(H5P_DATASET_CREATE);
  hid_t set = H5I_INVALID_HID;
  if (space >= 0 && H5Pset_chunk(dcpl, 1, &chunk) >= 0)
    set = H5Dcreate2(file, name, stored, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
  shoal_h5_close(dcpl);
  shoal_h5_close(space);
  return set;
}

static uint64_t length(hid_t set)
{
  hsize_t n = 0;
  hid_t space = H5Dget_space(set);
  if (space >= 0) H5Sget_simple_extent_dims(space, &n, NULL);
  shoal_h5_close(space);
  return n;
}

/* Read or write elements [first, first + n) of a one-dimensional data set; a write makes room. */
static herr_t move_part(hid_t set, hid_t type, uint64_t first, uint64_t n, void *in, const void *from)
{
  hsize_t start = first, count = n, end = first + n;
  if (n == 0) return 0;
  if (from && end > length(set) && H5Dset_extent(set, &end) < 0) return -1;
  hid_t space = H5Dget_space(set), memory = H5Screate_simple(1, &count, NULL);
  herr_t ok = H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
  if (ok >= 0)
    ok = from ? H5Dwrite(set, type, memory, space, H5P_DEFAULT, from)
              : H5Dread(set, type, memory, space, H5P_DEFAULT, in);
  if (ok >= 0) { /* after a failure these calls would clear the reason */
    H5Sclose(memory);
    H5Sclose(space);
  }
  return ok;
}

/* ---- a new file ---- */

static shoal_status create_file(shoal_trace *t, const shoal_trace_info *info)
{
  shoal_trace_file *o = &t->out;
  SHOAL_TRY(shoal_h5_create(t->path, &o->file));
  SHOAL_TRY_H5(hold_metadata(o->file), "cannot set up %s", t->path);
  SHOAL_TRY(shoal_h5_put_string(o->file, "format", SHOAL_TRACE_FORMAT));
  SHOAL_TRY(shoal_h5_put_i64(o->file, "version", SHOAL_TRACE_VERSION));
  SHOAL_TRY(shoal_h5_put_i64(o->file, "rank", info->rank));
  hid_t records = shoal_trace_record_type(true), attempts = shoal_trace_attempt_type(true);
  o->records = make_growing(o->file, "records", records, SHOAL_TRACE_CHUNK);
  o->ops = make_growing(o->file, "ops", o->op_type, 64);
  o->attempts = make_growing(o->file, "attempts", attempts, 4);
  shoal_h5_close(records);
  shoal_h5_close(attempts);
  bool made = o->records >= 0 && o->ops >= 0 && o->attempts >= 0;
  SHOAL_CHECK(made, SHOAL_ERR_IO, "cannot create the data sets of %s", t->path);
  return SHOAL_OK;
}

/* ---- the file of an earlier attempt ---- */

/* Its string table becomes ours; the kinds' names must stand where this version has them. */
static bool adopt_ops(shoal_trace *t)
{
  shoal_trace_file *o = &t->out;
  o->n_ops = length(o->ops);
  if (o->n_ops < t->n_ops || o->n_ops > UINT32_MAX) return false;
  char **names = calloc(o->n_ops, sizeof *names);
  bool same = names && move_part(o->ops, o->op_type, 0, o->n_ops, names, NULL) >= 0;
  for (size_t i = 0; same && i < o->n_ops; i++) {
    const char *name = names[i] ? names[i] : "";
    if (i >= t->n_ops)
      shoal_trace_add_op(t, name);
    else
      same = strcmp(name, t->ops[i]) == 0;
  }
  for (size_t i = 0; names && i < o->n_ops; i++)
    if (names[i]) H5free_memory(names[i]);
  free(names);
  return same;
}

/* The newest records must be there: they are the ones a crash would have cost. */
static bool last_records_readable(shoal_trace *t)
{
  uint64_t n = t->out.n_records < SHOAL_TRACE_CHUNK ? t->out.n_records : SHOAL_TRACE_CHUNK;
  return move_part(t->out.records, t->out.record_type, t->out.n_records - n, n, t->ring, NULL) >= 0;
}

/* False: it is damaged.  What is whole but not ours to continue is an error instead. */
static bool adopt_file(shoal_trace *t, int64_t *version, int64_t *rank)
{
  shoal_trace_file *o = &t->out;
  char *format = NULL;
  if (shoal_h5_append(t->path, &o->file) != SHOAL_OK || hold_metadata(o->file) < 0) return false;
  bool fine = shoal_h5_get_string(o->file, "format", &format) == SHOAL_OK && strcmp(format, SHOAL_TRACE_FORMAT) == 0 &&
              shoal_h5_get_i64(o->file, "version", version) == SHOAL_OK &&
              shoal_h5_get_i64(o->file, "rank", rank) == SHOAL_OK;
  free(format);
  if (!fine) return false;
  o->records = H5Dopen2(o->file, "records", H5P_DEFAULT);
  o->ops = H5Dopen2(o->file, "ops", H5P_DEFAULT);
  o->attempts = H5Dopen2(o->file, "attempts", H5P_DEFAULT);
  if (o->records < 0 || o->ops < 0 || o->attempts < 0) return false;
  o->n_records = length(o->records);
  o->n_attempts = length(o->attempts);
  return last_records_readable(t) && adopt_ops(t);
}

static void drop_file(shoal_trace_file *o)
{
  shoal_h5_close(o->records);
  shoal_h5_close(o->ops);
  shoal_h5_close(o->attempts);
  shoal_h5_close(o->file);
  o->records = o->ops = o->attempts = o->file = -1;
  o->n_records = o->n_ops = o->n_attempts = 0;
}

static shoal_status set_aside(const char *path)
{
  for (int i = 1; i < 1000; i++) {
    char *aside = shoal_strdup_printf("%s.damaged-%d", path, i);
    if (access(aside, F_OK) == 0) {
      free(aside);
      continue;
    }
    int failed = rename(path, aside);
    if (!failed) shoal_warn("the trace %s of an earlier attempt is damaged; kept as %s, a new one begins", path, aside);
    free(aside);
    SHOAL_CHECK(!failed, SHOAL_ERR_IO, "cannot rename the damaged trace %s", path);
    return SHOAL_OK;
  }
  return SHOAL_FAIL(SHOAL_ERR_IO, "cannot set the damaged trace %s aside: remove its .damaged-N copies", path);
}

static shoal_status continue_file(shoal_trace *t, const shoal_trace_info *info)
{
  int64_t version = SHOAL_TRACE_VERSION, rank = info->rank;
  size_t own_ops = t->n_ops;
  bool first_fault = shoal_first_error()[0] == '\0';
  SHOAL_CHECK(access(t->path, R_OK | W_OK) == 0, SHOAL_ERR_IO, "cannot continue %s: no permission to write", t->path);
  shoal_quiet_errors(1); /* a damaged file is expected after a crash, and no failure of this run */
  bool whole = adopt_file(t, &version, &rank);
  shoal_quiet_errors(-1);
  if (first_fault) shoal_clear_error();
  SHOAL_CHECK(version <= SHOAL_TRACE_VERSION, SHOAL_ERR_IO,
              "%s has trace format %lld, this Shoal writes %d: move it away or use the newer one", t->path,
              (long long)version, SHOAL_TRACE_VERSION);
  SHOAL_CHECK(rank == info->rank, SHOAL_ERR_IO, "%s is the trace of rank %lld, not %d: move it away", t->path,
              (long long)rank, info->rank);
  if (whole) return SHOAL_OK;
  while (t->n_ops > own_ops) free(t->ops[--t->n_ops]);
  drop_file(&t->out);
  SHOAL_TRY(set_aside(t->path));
  return create_file(t, info);
}

shoal_status shoal_trace_file_open(shoal_trace *t, const shoal_trace_info *info)
{
  shoal_trace_file *o = &t->out;
  o->record_type = shoal_trace_record_type(false);
  o->attempt_type = shoal_trace_attempt_type(false);
  o->op_type = shoal_trace_text_type();
  bool made = o->record_type >= 0 && o->attempt_type >= 0 && o->op_type >= 0;
  SHOAL_CHECK(made, SHOAL_ERR_INTERNAL, "HDF5 refused the types of a trace");
  SHOAL_TRY(access(t->path, F_OK) == 0 ? continue_file(t, info) : create_file(t, info));
  SHOAL_TRY(shoal_h5_put_string(o->file, "run", info->run_name ? info->run_name : ""));
  SHOAL_TRY(shoal_h5_put_string(o->file, "config", info->config_text ? info->config_text : ""));
  if (info->placement) SHOAL_TRY(shoal_h5_put_string(o->file, "placement", info->placement));
  t->row.first_record = o->n_records;
  return SHOAL_OK;
}

/* ---- writing ---- */

shoal_status shoal_trace_file_write(shoal_trace *t)
{
  shoal_trace_file *o = &t->out;
  uint64_t new_ops = t->n_ops - o->n_ops;
  SHOAL_TRY_H5(move_part(o->ops, o->op_type, o->n_ops, new_ops, NULL, t->ops + o->n_ops), "cannot write to %s",
               t->path);
  o->n_ops = t->n_ops;
  SHOAL_TRY_H5(move_part(o->records, o->record_type, o->n_records, t->fill, NULL, t->ring), "cannot write to %s",
               t->path);
  o->n_records += t->fill;
  t->fill = 0;
  SHOAL_TRY_H5(move_part(o->attempts, o->attempt_type, o->n_attempts, 1, NULL, &t->row), "cannot write to %s", t->path);
  return SHOAL_OK;
}

/* HDF5 cannot close a file without flushing it, and a flush onto a full disk would leave it announcing more than is
 * there.  So its descriptor is turned to the null device: what it writes from now on is lost, the file is not. */
void shoal_trace_file_abandon(shoal_trace *t)
{
  void *handle = NULL;
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null >= 0 && H5Fget_vfd_handle(t->out.file, H5P_DEFAULT, &handle) >= 0 && handle) {
    int fd = *(int *)handle; /* the default driver's handle is its descriptor */
    if (fd >= 0) dup3(null, fd, O_CLOEXEC);
  }
  if (null >= 0) close(null);
}

void shoal_trace_file_close(shoal_trace *t)
{
  shoal_trace_file *o = &t->out;
  int quiet = t->broken != SHOAL_OK; /* the loss was told when it happened */
  shoal_quiet_errors(quiet);
  drop_file(o);
  shoal_quiet_errors(-quiet);
  shoal_h5_close(o->record_type);
  shoal_h5_close(o->attempt_type);
  shoal_h5_close(o->op_type);
}
