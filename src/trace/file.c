/* The file of a node: a group per rank, with the data sets records, ops and info.
 *
 *     ring of rank 0 (this one) ──┐
 *     ring of rank 1 ─────────────┼──► /rank-00000/records, ops, info;  /rank-00001/...;  ...
 *     ring of rank 2 ─────────────┘
 *
 * A rank may be killed at any moment and the trace must still be readable, so
 *   - the earliest HDF5 format is used, which has no "open for writing" flag that a crash would leave set;
 *   - metadata stays in memory between flushes (no evictions from the cache), so the file on disk is always that of the
 *     last flush plus some raw data that the metadata does not refer to yet;
 *   - a file is made by one attempt, under a name that did not exist, and never opened for writing again.
 * Not used: SWMR, which needs the newest format (of ten killed ranks none left a readable file); compression, whose cost
 * to the compute thread exceeds the gain on disk; text of variable length, on whose damage HDF5 crashes. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "trace/trace_impl.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A rank whose ring is written. */
typedef struct {
  int rank;
  shoal_trace_shared *ring;
  shoal_h5_table *records, *ops, *groups, *info;
  shoal_trace_attempt row; /* as last written */
  uint64_t left_out;       /* records that came after the file had reached its limit */
  uint64_t stored;         /* records written, including those that were overwritten */
} member;

struct shoal_trace_file {
  shoal_h5 file;
  char *path;
  int held; /* a descriptor of the file, whatever happens to its name: HDF5 knows open files by their inodes, and would take a new
             * file for this one if its inode were free before HDF5 closes it; -1: none */
  uint64_t most_bytes;
  bool full;          /* has reached that: what still comes is counted and left out */
  uint64_t most_rows; /* of a rank, which are then written over; 0: no such limit */
  shoal_trace_energies_open energy;
  shoal_h5_table *energies; /* NULL: there is no counter */
  size_t n;
  member *ranks;
};

/* ---- a new file ---- */

/* The path, or if there is anything of this name, "name-2.h5", "name-3.h5", ...  Whoever makes one of them meanwhile is
 * not overwritten: creating the file fails then. */
static shoal_status find_name(const char *path, char **out)
{
  enum { MOST_STARTS = 10000 };
  struct stat info;
  size_t ending = strlen(path);
  if (ending > 3 && strcmp(path + ending - 3, ".h5") == 0) ending -= 3;
  for (int i = 1; i < MOST_STARTS; i++) {
    char *name = i == 1 ? shoal_strdup_printf("%s", path)
                        : shoal_strdup_printf("%.*s-%d%s", (int)ending, path, i, path + ending);
    SHOAL_CHECK(name, SHOAL_ERR_MEM, "the name of a trace");
    if (lstat(name, &info) != 0) {
      *out = name;
      return SHOAL_OK;
    }
    free(name);
  }
  return SHOAL_FAIL(SHOAL_ERR_IO, "there are %d files named like %s already: move them away", MOST_STARTS - 1, path);
}

static shoal_status put_attributes(shoal_h5 file, const shoal_trace_info *info)
{
  char now[40];
  SHOAL_TRY(shoal_h5_put_string(file, "format", SHOAL_TRACE_FORMAT));
  SHOAL_TRY(shoal_h5_put_i64(file, "version", SHOAL_TRACE_VERSION));
  SHOAL_TRY(shoal_h5_put_i64(file, "attempt", info->attempt));
  SHOAL_TRY(shoal_h5_put_i64(file, "node", info->node));
  SHOAL_TRY(shoal_h5_put_i64(file, "size", info->size));
  SHOAL_TRY(shoal_h5_put_string(file, "host", info->host ? info->host : ""));
  SHOAL_TRY(shoal_h5_put_string(file, "started", shoal_wall_clock(now, sizeof now)));
  SHOAL_TRY(shoal_h5_put_string(file, "run", info->run_name ? info->run_name : ""));
  SHOAL_TRY(shoal_h5_put_string(file, "config", info->config_text ? info->config_text : ""));
  return info->placement ? shoal_h5_put_string(file, "placement", info->placement) : SHOAL_OK;
}

static shoal_status make_table(shoal_h5 file, int rank, const char *what, const shoal_h5_row *row, uint64_t chunk_rows,
                               shoal_h5_table **out)
{
  char name[48];
  shoal_h5_extent extent = { .ndim = 1, .chunk_rows = chunk_rows };
  if (!chunk_rows) extent.dims[0] = 1;
  snprintf(name, sizeof name, "rank-%05d/%s", rank, what);
  return shoal_h5_table_create(file, name, row, &extent, out);
}

static shoal_status make_member(shoal_h5 file, member *m)
{
  SHOAL_TRY(make_table(file, m->rank, "records", &shoal_trace_records, SHOAL_TRACE_CHUNK, &m->records));
  SHOAL_TRY(make_table(file, m->rank, "ops", &shoal_trace_ops, 64, &m->ops));
  SHOAL_TRY(make_table(file, m->rank, "groups", &shoal_trace_groups, 64, &m->groups));
  return make_table(file, m->rank, "info", &shoal_trace_attempts, 0, &m->info);
}

/* Counters of the whole node, whoever uses it. */
static shoal_status make_energies(shoal_trace_file *f, const shoal_trace_info *info)
{
  if (info->powercap) shoal_trace_energy_open(info->powercap, &f->energy);
  if (!f->energy.n) return SHOAL_OK;
  shoal_h5_extent extent = { .ndim = 1, .dims = { f->energy.n } };
  SHOAL_TRY(shoal_h5_put_i64(f->file, "node_cpus", info->node_cpus));
  SHOAL_TRY(shoal_h5_put_i64(f->file, "job_cpus", info->job_cpus));
  return shoal_h5_table_create(f->file, "energy", &shoal_trace_energies, &extent, &f->energies);
}

/* Every rank of the file has the same share. */
uint64_t shoal_trace_rows_kept(uint64_t bytes, size_t ranks)
{
  uint64_t rows = bytes / ranks / sizeof(shoal_trace_record);
  return SHOAL_MAX(rows - rows % SHOAL_TRACE_CHUNK, (uint64_t)SHOAL_TRACE_CHUNK);
}

shoal_status shoal_trace_file_create(const char *path, const shoal_trace_info *info, const shoal_trace_ring *ranks,
                                     size_t n, shoal_trace_file **out)
{
  shoal_status st;
  shoal_trace_file *f = calloc(1, sizeof *f);
  SHOAL_CHECK(f, SHOAL_ERR_MEM, "trace %s", path);
  f->held = -1;
  if (info->keep_last)
    f->most_rows = shoal_trace_rows_kept(info->most_bytes, n);
  else
    f->most_bytes = info->most_bytes;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &f->ranks), fail);
  SHOAL_TRY_GOTO(st, find_name(path, &f->path), fail);
  SHOAL_TRY_GOTO(st, shoal_h5_create(f->path, &f->file), fail);
  f->held = open(f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  SHOAL_TRY_GOTO(st, shoal_h5_hold_metadata(f->file), fail);
  SHOAL_TRY_GOTO(st, put_attributes(f->file, info), fail);
  for (f->n = 0; f->n < n; f->n++) {
    f->ranks[f->n] = (member){ .rank = ranks[f->n].rank, .ring = ranks[f->n].memory };
    if ((st = make_member(f->file, &f->ranks[f->n])) == SHOAL_OK) continue;
    f->n++;
    goto fail;
  }
  SHOAL_TRY_GOTO(st, make_energies(f, info), fail);
  *out = f;
  return SHOAL_OK;
fail:
  shoal_trace_file_abandon(f); /* the disk may be full */
  shoal_trace_file_close(f);
  return st;
}

/* ---- writing ---- */

static uint64_t waiting(const member *m)
{
  return atomic_load_explicit(&m->ring->written, memory_order_acquire) -
         atomic_load_explicit(&m->ring->drained, memory_order_relaxed);
}

bool shoal_trace_file_is_pressed(const shoal_trace_file *f)
{
  for (size_t i = 0; i < f->n; i++)
    if (waiting(&f->ranks[i]) > SHOAL_TRACE_RING / 2) return true;
  return false;
}

/* Reads a rank's row, which it may be storing again meanwhile.  Returns false if it does so all the time. */
static bool take_row(const shoal_trace_shared *ring, shoal_trace_attempt *out)
{
  uint64_t words[SHOAL_TRACE_ROW_WORDS];
  for (int i = 0; i < 100; i++) {
    uint64_t n = atomic_load_explicit(&ring->rows, memory_order_acquire);
    for (size_t k = 0; k < SHOAL_TRACE_ROW_WORDS; k++)
      words[k] = atomic_load_explicit(&ring->row[n & 1][k], memory_order_acquire);
    if (atomic_load_explicit(&ring->rows, memory_order_relaxed) != n) continue;
    memcpy(out, words, sizeof words);
    return true;
  }
  return false;
}

/* All ranks stop together when the next records do not fit, so that their steps still compare. */
static void check_size(shoal_trace_file *f)
{
  uint64_t rows = 0;
  char size[32];
  if (f->full || !f->most_bytes) return;
  for (size_t i = 0; i < f->n; i++)
    rows += shoal_round_up(shoal_h5_table_rows(f->ranks[i].records) + waiting(&f->ranks[i]), SHOAL_TRACE_CHUNK);
  f->full = rows * sizeof(shoal_trace_record) > f->most_bytes;
  if (f->full)
    shoal_warn("the trace %s has reached trace.max_size (%s): no more is recorded; trace.level step records less",
               f->path, shoal_format_bytes((double)f->most_bytes, size, sizeof size));
}

/* Without most_rows they are appended; else they begin again at row 0 there. */
static shoal_status write_records(member *m, uint64_t from, uint64_t to, uint64_t most_rows)
{
  while (from < to) {
    uint64_t at = from % SHOAL_TRACE_RING, n = SHOAL_MIN(to - from, SHOAL_TRACE_RING - at);
    uint64_t row = most_rows ? m->stored % most_rows : m->stored;
    if (most_rows) n = SHOAL_MIN(n, most_rows - row);
    SHOAL_TRY(shoal_h5_table_put(m->records, row, n, &m->ring->records[at]));
    m->stored += n;
    from += n;
    atomic_store_explicit(&m->ring->drained, from, memory_order_release);
  }
  return SHOAL_OK;
}

/* The row counts what its records do: it is read before them, and its counters stay if the records end. */
static shoal_status write_member(member *m, bool full, uint64_t most_rows)
{
  shoal_trace_attempt row = m->row;
  bool known = take_row(m->ring, &row);
  uint64_t to = atomic_load_explicit(&m->ring->written, memory_order_acquire);
  uint64_t from = atomic_load_explicit(&m->ring->drained, memory_order_relaxed);
  uint32_t ops = atomic_load_explicit(&m->ring->n_ops, memory_order_acquire), n = (uint32_t)shoal_h5_table_rows(m->ops);
  SHOAL_TRY(shoal_h5_table_append(m->ops, ops - n, m->ring->ops[n]));
  uint32_t groups = atomic_load_explicit(&m->ring->n_groups, memory_order_acquire);
  uint32_t known_groups = (uint32_t)shoal_h5_table_rows(m->groups);
  SHOAL_TRY(shoal_h5_table_append(m->groups, groups - known_groups, &m->ring->groups[known_groups]));
  if (full) {
    m->left_out += to - from;
    atomic_store_explicit(&m->ring->drained, to, memory_order_release);
    memcpy(row.payload, m->row.payload, sizeof row.payload);
    memcpy(row.wire, m->row.wire, sizeof row.wire);
    memcpy(row.messages, m->row.messages, sizeof row.messages);
  } else {
    SHOAL_TRY(write_records(m, from, to, most_rows));
  }
  if (!known) return SHOAL_OK;
  m->row = row;
  row.dropped += m->left_out;
  if (most_rows && m->stored > most_rows) row.overwritten = m->stored - most_rows;
  return shoal_h5_table_put(m->info, 0, 1, &row);
}

shoal_status shoal_trace_file_write(shoal_trace_file *f)
{
  check_size(f);
  for (size_t i = 0; i < f->n; i++) SHOAL_TRY(write_member(&f->ranks[i], f->full, f->most_rows));
  return SHOAL_OK;
}

/* It stays open, so what is written into a file that was removed would be lost in silence. */
static shoal_status check_there(const shoal_trace_file *f)
{
  SHOAL_CHECK(f->held < 0 || shoal_path_names(f->path, f->held), SHOAL_ERR_IO,
              "the trace %s was removed or moved while it was written", f->path);
  return SHOAL_OK;
}

shoal_status shoal_trace_file_flush(shoal_trace_file *f)
{
  SHOAL_TRY(check_there(f));
  if (f->energies) {
    shoal_trace_energy_read(&f->energy);
    SHOAL_TRY(shoal_h5_table_put(f->energies, 0, f->energy.n, f->energy.row));
  }
  return shoal_h5_flush(f->file);
}

/* ---- the end ---- */

static bool all_closed(const shoal_trace_file *f)
{
  shoal_trace_attempt row;
  for (size_t i = 0; i < f->n; i++)
    if (!take_row(f->ranks[i].ring, &row) || !row.closed) return false;
  return true;
}

shoal_status shoal_trace_file_await(shoal_trace_file *f)
{
  enum { MOST_S = 5, NAP_US = 1000 };
  uint64_t begin = shoal_now_ns();
  while (!all_closed(f) && shoal_seconds_since(begin) < MOST_S) {
    if (shoal_trace_file_is_pressed(f)) SHOAL_TRY(shoal_trace_file_write(f));
    usleep(NAP_US);
  }
  return SHOAL_OK;
}

void shoal_trace_file_abandon(shoal_trace_file *f)
{
  if (shoal_h5_is_open(f->file)) shoal_h5_abandon(f->file);
}

void shoal_trace_file_close(shoal_trace_file *f)
{
  if (!f) return;
  for (size_t i = 0; i < f->n; i++) {
    shoal_h5_table_close(f->ranks[i].records);
    shoal_h5_table_close(f->ranks[i].ops);
    shoal_h5_table_close(f->ranks[i].groups);
    shoal_h5_table_close(f->ranks[i].info);
  }
  shoal_h5_table_close(f->energies);
  shoal_h5_discard(f->file); /* nothing is lost: flushed, or abandoned */
  if (f->held >= 0) close(f->held);
  free(f->ranks);
  free(f->path);
  free(f);
}
