/* The recorder's file: three extendible data sets, /records, /ops and /attempts.
 *
 * A rank may be killed at any moment and its trace must still be readable, so
 *   - the earliest HDF5 format is used, which has no "open for writing" flag that a crash would leave set;
 *   - metadata stays in memory between flushes (no evictions from the cache), so the file on disk is always that of the
 *     last flush plus some raw data that the metadata does not refer to yet;
 *   - a file that cannot be continued is renamed, never overwritten.
 * Not used: SWMR, which needs the newest format (of ten killed ranks none left a readable file), and compression, whose
 * cost to the compute thread exceeds the gain on disk. */
#include "base/log.h"
#include "base/str.h"
#include "trace/trace_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a new file ---- */

static shoal_status make_table(shoal_h5 file, const char *name, const shoal_h5_row *row, uint64_t chunk_rows,
                               shoal_h5_table **out)
{
  const shoal_h5_extent growing = { .ndim = 1, .chunk_rows = chunk_rows };
  return shoal_h5_table_create(file, name, row, &growing, out);
}

static shoal_status create_file(shoal_trace *t, const shoal_trace_info *info)
{
  shoal_trace_file *o = &t->out;
  SHOAL_TRY(shoal_h5_create(t->path, &o->file));
  SHOAL_TRY(shoal_h5_hold_metadata(o->file));
  SHOAL_TRY(shoal_h5_put_string(o->file, "format", SHOAL_TRACE_FORMAT));
  SHOAL_TRY(shoal_h5_put_i64(o->file, "version", SHOAL_TRACE_VERSION));
  SHOAL_TRY(shoal_h5_put_i64(o->file, "rank", info->rank));
  SHOAL_TRY(make_table(o->file, "records", &shoal_trace_records, SHOAL_TRACE_CHUNK, &o->records));
  SHOAL_TRY(make_table(o->file, "ops", &shoal_trace_ops, 64, &o->ops));
  return make_table(o->file, "attempts", &shoal_trace_attempts, 4, &o->attempts);
}

/* ---- the file of an earlier attempt ---- */

/* Reads the string table of the existing file into the recorder.  It must begin with the kinds' names in the order of
 * this version; false otherwise. */
static bool adopt_ops(shoal_trace *t)
{
  shoal_trace_file *o = &t->out;
  uint64_t n = shoal_h5_table_rows(o->ops);
  if (n < t->n_ops || n > UINT32_MAX) return false;
  char **names = calloc(n, sizeof *names);
  bool got = names && shoal_h5_table_read(o->ops, 0, n, names) == SHOAL_OK, same = got;
  for (size_t i = 0; same && i < n; i++) {
    if (i < t->n_ops)
      same = strcmp(names[i], t->ops[i]) == 0;
    else
      same = shoal_trace_add_op(t, names[i]) == i;
  }
  for (size_t i = 0; got && i < n; i++) free(names[i]);
  free(names);
  return same;
}

/* Checks that the newest records are readable, since these are the ones a crash may have damaged. */
static bool last_records_readable(shoal_trace *t)
{
  uint64_t all = shoal_h5_table_rows(t->out.records), n = all < SHOAL_TRACE_CHUNK ? all : SHOAL_TRACE_CHUNK;
  return shoal_h5_table_read_sound(t->out.records, all - n, n, t->ring) == n;
}

/* What is appended to goes where the file says, which could be another file: external storage, or a link of any kind. */
static bool is_ours(const char *path)
{
  struct stat info;
  shoal_h5 file = { 0 };
  bool plain = lstat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 1 && info.st_uid == geteuid();
  bool ours = plain && shoal_h5_open(path, &file) == SHOAL_OK && shoal_h5_refuse_foreign(file, path) == SHOAL_OK;
  shoal_h5_close(file);
  return ours;
}

/* Opens the file of an earlier attempt.  Returns false if it is damaged; the caller checks version and rank. */
static bool adopt_file(shoal_trace *t, int64_t *version, int64_t *rank)
{
  shoal_trace_file *o = &t->out;
  char *format = NULL;
  if (!is_ours(t->path)) return false;
  if (shoal_h5_append(t->path, &o->file) != SHOAL_OK || shoal_h5_hold_metadata(o->file) != SHOAL_OK) return false;
  bool fine = shoal_h5_get_string(o->file, "format", &format) == SHOAL_OK && strcmp(format, SHOAL_TRACE_FORMAT) == 0 &&
              shoal_h5_get_i64(o->file, "version", version) == SHOAL_OK &&
              shoal_h5_get_i64(o->file, "rank", rank) == SHOAL_OK;
  free(format);
  if (!fine || shoal_h5_table_open(o->file, "records", &shoal_trace_records, &o->records) != SHOAL_OK ||
      shoal_h5_table_open(o->file, "ops", &shoal_trace_ops, &o->ops) != SHOAL_OK ||
      shoal_h5_table_open(o->file, "attempts", &shoal_trace_attempts, &o->attempts) != SHOAL_OK)
    return false;
  o->own_row = shoal_h5_table_rows(o->attempts);
  return last_records_readable(t) && adopt_ops(t);
}

static void drop_file(shoal_trace_file *o)
{
  shoal_h5_table_close(o->records);
  shoal_h5_table_close(o->ops);
  shoal_h5_table_close(o->attempts);
  shoal_h5_discard(o->file); /* nothing is lost: flushed, or damaged, or abandoned */
  *o = (shoal_trace_file){ { 0 } };
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
  SHOAL_CHECK(access(t->path, R_OK | W_OK) == 0, SHOAL_ERR_IO, "cannot continue %s: no permission to write", t->path);
  bool whole = adopt_file(t, &version, &rank); /* a damaged file is expected after a crash and is not an error */
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
  SHOAL_TRY(access(t->path, F_OK) == 0 ? continue_file(t, info) : create_file(t, info));
  SHOAL_TRY(shoal_h5_put_string(o->file, "run", info->run_name ? info->run_name : ""));
  SHOAL_TRY(shoal_h5_put_string(o->file, "config", info->config_text ? info->config_text : ""));
  if (info->placement) SHOAL_TRY(shoal_h5_put_string(o->file, "placement", info->placement));
  t->row.first_record = shoal_h5_table_rows(o->records);
  return SHOAL_OK;
}

/* ---- writing ---- */

shoal_status shoal_trace_file_write(shoal_trace *t)
{
  shoal_trace_file *o = &t->out;
  uint64_t n_ops = shoal_h5_table_rows(o->ops);
  SHOAL_TRY(shoal_h5_table_append(o->ops, t->n_ops - n_ops, t->ops + n_ops));
  SHOAL_TRY(shoal_h5_table_append(o->records, t->fill, t->ring));
  t->fill = 0;
  return shoal_h5_table_put(o->attempts, o->own_row, 1, &t->row);
}

void shoal_trace_file_close(shoal_trace *t)
{
  drop_file(&t->out);
}
