/* Reading a trace back, for people and tests.
 *
 * The file may come from a rank that was killed, at worst inside a flush.  Then a chunk may be announced but not there:
 * records are read block by block, up to the first block that fails, and records that were never written (all zero) or
 * make no sense are dropped.  What was lost is counted in one warning. */
#include "base/log.h"
#include "base/mem.h"
#include "h5/h5.h"
#include "report/trace_impl.h"
#include "trace/format.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  hid_t file, set, space, type, memory;
} part;

static void close_part(part *p)
{
  shoal_h5_close(p->memory);
  shoal_h5_close(p->type);
  shoal_h5_close(p->space);
  shoal_h5_close(p->set);
}

/* Open a one-dimensional data set after the checks of h5/; *n is its length. */
static shoal_status open_part(hid_t file, const char *path, const char *name, hid_t type, part *p, uint64_t *n)
{
  uint64_t dims[8];
  int ndim;
  *p = (part){ file, -1, -1, type, -1 };
  SHOAL_CHECK(type >= 0, SHOAL_ERR_INTERNAL, "HDF5 refused the type of /%s", name);
  shoal_status st = shoal_h5_shape(file, name, &ndim, dims, NULL, NULL);
  if (st == SHOAL_OK && ndim != 1)
    st = SHOAL_FAIL(SHOAL_ERR_IO, "/%s in %s has %d dimensions, 1 is expected", name, path, ndim);
  if (st == SHOAL_OK && ((p->set = H5Dopen2(file, name, H5P_DEFAULT)) < 0 || (p->space = H5Dget_space(p->set)) < 0))
    st = shoal_h5_fail(__FILE__, __LINE__, "cannot open /%s in %s", name, path);
  if (st == SHOAL_OK) *n = dims[0];
  if (st != SHOAL_OK) close_part(p);
  return st;
}

static herr_t read_block(const part *p, uint64_t first, uint64_t n, void *data)
{
  hsize_t start = first, count = n;
  if (n == 0) return 0;
  if (H5Sselect_hyperslab(p->space, H5S_SELECT_SET, &start, NULL, &count, NULL) < 0) return -1;
  hid_t memory = H5Screate_simple(1, &count, NULL);
  herr_t ok = H5Dread(p->set, p->type, memory, p->space, H5P_DEFAULT, data);
  if (ok >= 0) H5Sclose(memory);
  return ok;
}

/* Members that came after the first files were written: absent they read as zero, "not known". */
static bool came_later(const char *member)
{
  static const char *const later[] = { "clock_readings", "contended", "peak_bytes" };
  for (size_t i = 0; i < SHOAL_COUNT(later); i++)
    if (strcmp(member, later[i]) == 0) return true;
  return false;
}

/* A struct read through a compound that lacks a member keeps what was in memory: every other one must be stored. */
static shoal_status check_members(const part *p, const char *path, const char *name)
{
  hid_t stored = H5Dget_type(p->set);
  const char *missing = NULL;
  if (stored < 0 || H5Tget_class(stored) != H5T_COMPOUND) missing = "a compound";
  int n = H5Tget_nmembers(p->type);
  shoal_status st = SHOAL_OK;
  for (int i = 0; !missing && st == SHOAL_OK && i < n; i++) {
    char *want = H5Tget_member_name(p->type, (unsigned)i);
    if (want && !came_later(want) && H5Tget_member_index(stored, want) < 0)
      st = SHOAL_FAIL(SHOAL_ERR_IO, "/%s in %s has no member %s", name, path, want);
    H5free_memory(want);
  }
  shoal_h5_close(stored);
  SHOAL_CHECK(!missing, SHOAL_ERR_IO, "/%s in %s is not %s", name, path, missing);
  return st;
}

static bool makes_sense(const shoal_trace_record *r)
{
  return (r->t0_ns || r->t1_ns) && r->kind < SHOAL_TRACE_KIND_COUNT;
}

static shoal_status read_records(hid_t file, const char *path, shoal_trace_data *d)
{
  part p;
  uint64_t n = 0, got = 0, kept = 0;
  SHOAL_TRY(open_part(file, path, "records", shoal_trace_record_type(false), &p, &n));
  shoal_status st = check_members(&p, path, "records");
  if (st != SHOAL_OK) goto end;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &d->records), end);
  while (got < n) {
    uint64_t block = SHOAL_MIN(n - got, (uint64_t)SHOAL_TRACE_CHUNK - got % SHOAL_TRACE_CHUNK);
    if (read_block(&p, got, block, d->records + got) < 0) break;
    got += block;
  }
  /* Attempts count records from the file's start, so what is dropped in the middle must keep its place: it is turned
   * into an empty span, and only the end is cut. */
  for (uint64_t i = 0; i < got; i++) {
    shoal_trace_record *r = &d->records[i];
    if (makes_sense(r))
      d->n = i + 1, kept++;
    else
      *r = (shoal_trace_record){
        .kind = SHOAL_TRACE_OTHER, .op = SHOAL_TRACE_OTHER, .link = SHOAL_LINK_NONE, .peer = -1
      };
    if (r->op >= d->ops) r->op = r->kind;
  }
  if (kept < n)
    shoal_warn("%llu of %llu records of %s are not readable; was the rank killed while it wrote them?",
               (unsigned long long)(n - kept), (unsigned long long)n, path);
end:
  close_part(&p);
  return st;
}

static shoal_status read_ops(hid_t file, const char *path, shoal_trace_data *d)
{
  part p;
  uint64_t n = 0;
  SHOAL_TRY(open_part(file, path, "ops", shoal_trace_text_type(), &p, &n));
  shoal_status st = SHOAL_OK;
  char **names = NULL;
  SHOAL_CHECK_GOTO(st, n >= SHOAL_TRACE_KIND_COUNT && n < UINT32_MAX, end, SHOAL_ERR_IO,
                   "/ops in %s lacks the names of the kinds", path);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &names), end);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &d->op_names), end);
  if (read_block(&p, 0, n, names) < 0) {
    st = shoal_h5_fail(__FILE__, __LINE__, "cannot read /ops in %s", path);
    goto end;
  }
  d->ops = n;
  for (size_t i = 0; i < n; i++) {
    d->op_names[i] = strdup(names[i] ? names[i] : "");
    if (names[i]) H5free_memory(names[i]);
  }
end:
  free(names);
  close_part(&p);
  return st;
}

/* Rows in the order of their records; counters are the sum, clock and place those of the last. */
static shoal_status read_attempts(hid_t file, const char *path, shoal_trace_data *d)
{
  part p;
  uint64_t n = 0;
  SHOAL_TRY(open_part(file, path, "attempts", shoal_trace_attempt_type(false), &p, &n));
  shoal_status st = check_members(&p, path, "attempts");
  if (st != SHOAL_OK) goto end;
  SHOAL_CHECK_GOTO(st, n > 0, end, SHOAL_ERR_IO, "/attempts in %s is empty", path);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(n, &d->attempt_rows), end);
  if (read_block(&p, 0, n, d->attempt_rows) < 0) {
    st = shoal_h5_fail(__FILE__, __LINE__, "cannot read /attempts in %s", path);
    goto end;
  }
  d->attempts = n;
  for (size_t i = 0; i < n; i++) {
    shoal_trace_attempt *a = &d->attempt_rows[i];
    a->host[sizeof a->host - 1] = '\0';
    for (int link = 0; link < SHOAL_LINK_COUNT; link++) {
      d->counters.payload[link] += a->payload[link];
      d->counters.wire[link] += a->wire[link];
      d->counters.messages[link] += a->messages[link];
    }
  }
end:
  close_part(&p);
  return st;
}

static shoal_status read_info(hid_t file, const char *path, shoal_trace_data *d)
{
  int64_t version, rank;
  char *format = NULL, *run = NULL, *config = NULL, *placement = NULL;
  SHOAL_CHECK(shoal_h5_has_attribute(file, "format"), SHOAL_ERR_IO, "%s is not a Shoal trace", path);
  SHOAL_TRY(shoal_h5_get_string(file, "format", &format));
  bool ours = strcmp(format, SHOAL_TRACE_FORMAT) == 0;
  free(format);
  SHOAL_CHECK(ours, SHOAL_ERR_IO, "%s is not a Shoal trace", path);
  SHOAL_TRY(shoal_h5_get_i64(file, "version", &version));
  SHOAL_CHECK(version <= SHOAL_TRACE_VERSION, SHOAL_ERR_IO, "%s has trace format %lld, this Shoal reads up to %d", path,
              (long long)version, SHOAL_TRACE_VERSION);
  SHOAL_TRY(shoal_h5_get_i64(file, "rank", &rank));
  SHOAL_TRY(shoal_h5_get_string(file, "run", &run));
  d->info.run_name = run;
  SHOAL_TRY(shoal_h5_get_string(file, "config", &config));
  d->info.config_text = config;
  if (shoal_h5_has_attribute(file, "placement")) SHOAL_TRY(shoal_h5_get_string(file, "placement", &placement));
  d->info.placement = placement;
  const shoal_trace_attempt *last = &d->attempt_rows[d->attempts - 1];
  d->info.rank = (int)rank;
  d->info.size = last->size;
  d->info.node = last->node;
  d->info.local_rank = last->local_rank;
  d->info.attempt = last->attempt;
  d->info.host = strdup(last->host);
  d->clock_offset_ns = last->clock_offset_ns;
  d->clock_drift = last->clock_drift;
  d->clock_bound_ns = last->clock_bound_ns;
  return SHOAL_OK;
}

static shoal_status read_file(const char *path, bool records, shoal_trace_data **out)
{
  hid_t file = -1;
  shoal_status st;
  shoal_trace_data *d = calloc(1, sizeof *d);
  SHOAL_CHECK(d, SHOAL_ERR_MEM, "trace %s", path);
  SHOAL_TRY_GOTO(st, shoal_h5_open(path, &file), end);
  SHOAL_CHECK_GOTO(st, shoal_h5_has_attribute(file, "format"), end, SHOAL_ERR_IO, "%s is not a Shoal trace", path);
  SHOAL_TRY_GOTO(st, shoal_h5_refuse_foreign(file, path), end);
  SHOAL_TRY_GOTO(st, read_attempts(file, path, d), end);
  SHOAL_TRY_GOTO(st, read_info(file, path, d), end);
  SHOAL_TRY_GOTO(st, read_ops(file, path, d), end);
  if (records) SHOAL_TRY_GOTO(st, read_records(file, path, d), end);
end:
  shoal_h5_close(file);
  if (st == SHOAL_OK)
    *out = d;
  else
    shoal_trace_data_destroy(d);
  return st;
}

shoal_status shoal_trace_read(const char *path, shoal_trace_data **out)
{
  return read_file(path, true, out);
}

shoal_status shoal_trace_read_head(const char *path, shoal_trace_data **out)
{
  return read_file(path, false, out);
}

void shoal_trace_data_destroy(shoal_trace_data *d)
{
  if (!d) return;
  for (size_t i = 0; i < d->ops; i++) free(d->op_names[i]);
  free(d->op_names);
  free(d->records);
  free(d->attempt_rows);
  free((void *)d->info.run_name);
  free((void *)d->info.config_text);
  free((void *)d->info.placement);
  free((void *)d->info.host);
  free(d);
}
