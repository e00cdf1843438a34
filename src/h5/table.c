/* Tables: the only code that reads the elements of data sets and selects hyperslabs.  Filtered chunks it leaves to
 * chunks.c. */
#include "base/mem.h"
#include "h5/h5_impl.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct shoal_h5_table {
  hid_t set, type, space, row; /* type: memory type of a row; space: file dataspace; row: memory dataspace of one row */
  int ndim;
  hsize_t dims[8];   /* of the data set; dims[0]: current extent in rows */
  uint64_t rows;     /* rows written */
  uint64_t max_rows; /* limit above which byte counts would exceed 63 bits */
  uint64_t chunk_rows;
  bool grows, text;
  bool gaps;               /* zero the memory before a read */
  shoal_h5_chunks *chunks; /* of a table whose chunks are filtered, else NULL */
};

/* ---- creating and opening ---- */

/* Computes max_rows, the only overflow check of a table: the bytes of max_rows rows in memory fit 63 bits.  `code` is
 * the status to fail with: ERR_ARG for a table to create, ERR_IO for one in a file. */
static shoal_status set_max_rows(shoal_h5_table *t, const char *name, shoal_status code)
{
  uint64_t bytes = H5Tget_size(t->type);
  for (int i = 1; i < t->ndim; i++) {
    bool fits = !__builtin_mul_overflow(bytes, (uint64_t)t->dims[i], &bytes);
    SHOAL_CHECK(fits, code, "a row of data set %s has more bytes than 63 bits count", name);
  }
  t->max_rows = (uint64_t)INT64_MAX / SHOAL_MAX(bytes, UINT64_C(1));
  SHOAL_CHECK(t->dims[0] <= t->max_rows, code, "data set %s has more bytes than 63 bits count", name);
  return SHOAL_OK;
}

static shoal_status allocate_table(const char *name, const shoal_h5_row *row, shoal_h5_table **out)
{
  shoal_h5_init();
  shoal_h5_table *t = malloc(sizeof *t);
  SHOAL_CHECK(t, SHOAL_ERR_MEM, "no memory to open data set %s", name);
  *t = (shoal_h5_table){ H5I_INVALID_HID, H5I_INVALID_HID, H5I_INVALID_HID, H5I_INVALID_HID };
  t->text = row->text && !row->text_bytes;
  t->type = shoal_h5_row_type(row, false);
  *out = t;
  return SHOAL_OK;
}

static hid_t make_space(int ndim, const hsize_t *dims, bool grows)
{
  hsize_t max_dims[8];
  if (ndim == 0) return H5Screate(H5S_SCALAR);
  memcpy(max_dims, dims, (size_t)ndim * sizeof *dims);
  if (grows) max_dims[0] = H5S_UNLIMITED;
  return H5Screate_simple(ndim, dims, max_dims);
}

/* Creation properties.  A contiguous table is written completely, so it needs no fill values; in a growing table they
 * mark rows that are within the extent but were not written by a killed writer, unless chunks are written through. */
static hid_t creation_list(const shoal_h5_extent *e)
{
  hsize_t chunk[8];
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  bool ok = list >= 0 && H5Pset_obj_track_times(list, false) >= 0;
  if (ok && (e->chunk_rows == 0 || e->through)) ok = H5Pset_fill_time(list, H5D_FILL_TIME_NEVER) >= 0;
  for (int i = 0; i < e->ndim; i++) chunk[i] = i ? e->dims[i] : e->chunk_rows;
  if (ok) ok = (e->chunk_rows ? H5Pset_chunk(list, e->ndim, chunk) : H5Pset_layout(list, H5D_CONTIGUOUS)) >= 0;
  if (ok) return list;
  shoal_h5_release(list);
  return H5I_INVALID_HID;
}

static shoal_status create_data_set(shoal_h5_table *t, hid_t at, const char *name, const shoal_h5_row *row,
                                    const shoal_h5_extent *e)
{
  shoal_status st = SHOAL_OK;
  hid_t links = H5Pcreate(H5P_LINK_CREATE), access = H5Pcreate(H5P_DATASET_ACCESS), how = creation_list(e);
  hid_t stored = shoal_h5_row_type(row, true);
  H5_GOTO(st, how, end, "create", at, name);
  H5_GOTO(st, H5Pset_create_intermediate_group(links, 1), end, "create", at, name);
  if (e->through) H5_GOTO(st, H5Pset_chunk_cache(access, 1, 0, 1), end, "create", at, name);
  H5_GOTO(st, t->space, end, "create", at, name);
  H5_GOTO(st, t->set = H5Dcreate2(at, name, stored, t->space, links, how, access), end, "create", at, name);
end:
  shoal_h5_release(stored);
  shoal_h5_release(how);
  shoal_h5_release(access);
  shoal_h5_release(links);
  return st;
}

static shoal_status make_row_space(shoal_h5_table *t, hid_t at, const char *name)
{
  hsize_t one[8];
  memcpy(one, t->dims, sizeof one);
  one[0] = 1;
  t->row = make_space(t->ndim, one, false);
  if (t->type >= 0 && t->row >= 0 && t->space >= 0) return SHOAL_OK;
  return shoal_h5_fail_at(__FILE__, __LINE__, "open data set", at, name);
}

shoal_status shoal_h5_table_create(shoal_h5 at, const char *name, const shoal_h5_row *row,
                                   const shoal_h5_extent *extent, shoal_h5_table **out)
{
  shoal_h5_table *t;
  shoal_status st;
  SHOAL_CHECK(extent->ndim >= (extent->chunk_rows > 0) && extent->ndim <= 8, SHOAL_ERR_ARG,
              "data set %s has %d dimensions; %d to 8 are allowed", name, extent->ndim, extent->chunk_rows > 0);
  SHOAL_TRY(allocate_table(name, row, &t));
  t->ndim = extent->ndim;
  t->grows = extent->chunk_rows > 0;
  t->chunk_rows = extent->chunk_rows;
  for (int i = 0; i < t->ndim; i++) t->dims[i] = extent->dims[i];
  if (t->grows || t->ndim == 0) t->dims[0] = t->ndim == 0;
  SHOAL_TRY_GOTO(st, set_max_rows(t, name, SHOAL_ERR_ARG), fail);
  t->space = make_space(t->ndim, t->dims, t->grows);
  SHOAL_TRY_GOTO(st, make_row_space(t, at.id, name), fail);
  SHOAL_TRY_GOTO(st, create_data_set(t, at.id, name, row, extent), fail);
  *out = t;
  return SHOAL_OK;
fail:
  shoal_h5_table_close(t);
  return st;
}

/* HDF5 leaves the memory of a member unchanged if the file's compound lacks it, so every member that is not optional
 * must be stored. */
static shoal_status check_members(const shoal_h5_struct *s, hid_t set, hid_t at, const char *name)
{
  char where[SHOAL_H5_WHERE];
  hid_t stored = H5Dget_type(set);
  bool compound = stored >= 0 && H5Tget_class(stored) == H5T_COMPOUND;
  const char *missing = NULL;
  for (size_t i = 0; compound && !missing && i < s->n_members; i++)
    if (!s->members[i].optional && H5Tget_member_index(stored, s->members[i].name) < 0) missing = s->members[i].name;
  shoal_h5_release(stored);
  SHOAL_CHECK(compound, SHOAL_ERR_IO, "data set %s is not a compound", shoal_h5_where(at, name, where));
  SHOAL_CHECK(!missing, SHOAL_ERR_IO, "data set %s has no member %s", shoal_h5_where(at, name, where), missing);
  return SHOAL_OK;
}

/* Where nothing was written and no fill value is defined, HDF5 leaves the caller's memory as it is. */
static bool leaves_gaps(hid_t set)
{
  H5D_fill_value_t value = H5D_FILL_VALUE_UNDEFINED;
  H5D_fill_time_t time = H5D_FILL_TIME_NEVER;
  hid_t dcpl = H5Dget_create_plist(set);
  bool known = dcpl >= 0 && H5Pfill_value_defined(dcpl, &value) >= 0 && H5Pget_fill_time(dcpl, &time) >= 0;
  shoal_h5_release(dcpl);
  bool contiguous = H5Dget_offset(set) != HADDR_UNDEF;
  H5Eclear2(H5E_DEFAULT);
  return !contiguous && (!known || value == H5D_FILL_VALUE_UNDEFINED || time == H5D_FILL_TIME_NEVER);
}

static shoal_status open_chunks(shoal_h5_table *t, hid_t at, const char *name, const shoal_h5_facts *f)
{
  char where[SHOAL_H5_WHERE];
  SHOAL_CHECK(
      !t->text, SHOAL_ERR_IO,
      "data set %s holds text of variable length in filtered chunks, which is not read: write it without filters",
      shoal_h5_where(at, name, where));
  return shoal_h5_chunks_open(t->set, f, t->type, at, name, &t->chunks);
}

static shoal_status open_table(shoal_h5_table *t, hid_t at, const char *name, const shoal_h5_row *row)
{
  char where[SHOAL_H5_WHERE];
  shoal_h5_facts f;
  SHOAL_TRY(shoal_h5_open_data_set(at, name, &t->set));
  SHOAL_TRY(shoal_h5_facts_of(t->set, at, name, &f));
  if (row->members) SHOAL_TRY(check_members(row->members, t->set, at, name));
  SHOAL_CHECK(f.ndim == 1 || !(row->members || row->text), SHOAL_ERR_IO, "data set %s has %d dimensions, 1 is expected",
              shoal_h5_where(at, name, where), f.ndim);
  t->ndim = f.ndim;
  for (int i = 0; i < f.ndim; i++) t->dims[i] = f.dims[i];
  if (f.ndim == 0) t->dims[0] = 1;
  t->chunk_rows = f.chunk[0];
  t->grows = f.chunk[0] > 0;
  t->rows = t->dims[0];
  SHOAL_TRY(set_max_rows(t, name, SHOAL_ERR_IO));
  t->space = H5Dget_space(t->set);
  t->gaps = leaves_gaps(t->set);
  SHOAL_TRY(make_row_space(t, at, name));
  return f.filters[0] ? open_chunks(t, at, name, &f) : SHOAL_OK;
}

shoal_status shoal_h5_table_open(shoal_h5 at, const char *name, const shoal_h5_row *row, shoal_h5_table **out)
{
  shoal_h5_table *t;
  SHOAL_TRY(allocate_table(name, row, &t));
  shoal_status st = open_table(t, at.id, name, row);
  if (st == SHOAL_OK)
    *out = t;
  else
    shoal_h5_table_close(t);
  return st;
}

void shoal_h5_table_close(shoal_h5_table *t)
{
  if (!t) return;
  shoal_h5_chunks_close(t->chunks);
  shoal_h5_release(t->row);
  shoal_h5_release(t->space);
  shoal_h5_release(t->type);
  shoal_h5_release(t->set);
  free(t);
}

shoal_status shoal_h5_table_finish(shoal_h5_table *t)
{
  char name[SHOAL_H5_WHERE] = "";
  hid_t set = t->set, file = H5Iget_file_id(set);
  shoal_status st = SHOAL_OK;
  if (H5Iget_name(set, name, sizeof name) < 0) name[0] = '\0'; /* before closing, after which it is unknown */
  t->set = H5I_INVALID_HID;
  if (H5Dclose(set) < 0) st = shoal_h5_fail_at(__FILE__, __LINE__, "finish", file, name);
  if (file >= 0) H5Idec_ref(file);
  shoal_h5_table_close(t);
  return st;
}

uint64_t shoal_h5_table_rows(const shoal_h5_table *t)
{
  return t->rows;
}

uint64_t shoal_h5_table_offset(const shoal_h5_table *t)
{
  shoal_h5_init();
  haddr_t offset = H5Dget_offset(t->set);
  H5Eclear2(H5E_DEFAULT);
  return offset == HADDR_UNDEF ? SHOAL_H5_NO_OFFSET : offset;
}

shoal_h5 shoal_h5_table_object(const shoal_h5_table *t)
{
  return (shoal_h5){ t->set };
}

shoal_status shoal_h5_table_facts(const shoal_h5_table *t, shoal_h5_facts *out)
{
  shoal_h5_init();
  return shoal_h5_facts_of(t->set, t->set, NULL, out);
}

void shoal_h5_table_unwritten(const shoal_h5_table *t, uint64_t *missing, uint64_t *chunks, uint64_t *first)
{
  hsize_t stored = 0, at[8] = { 0 }, bytes;
  shoal_h5_facts f;
  *missing = *first = 0;
  *chunks = 1;
  shoal_h5_note(t->set, NULL);
  if (t->rows == 0 || shoal_h5_table_facts(t, &f) != SHOAL_OK) return;
  if (!f.chunk[0]) {
    *missing = H5Dget_storage_size(t->set) == 0;
    return;
  }
  for (int i = 0; i < f.ndim; i++) *chunks *= f.dims[i] / f.chunk[i] + (f.dims[i] % f.chunk[i] > 0);
  if (H5Dget_num_chunks(t->set, t->space, &stored) >= 0 && stored < *chunks) *missing = *chunks - stored;
  for (; *missing && at[0] < t->rows; at[0] += f.chunk[0])
    if (H5Dget_chunk_storage_size(t->set, at, &bytes) < 0 || bytes == 0) break;
  *first = at[0] < t->rows ? at[0] : 0;
  H5Eclear2(H5E_DEFAULT);
}

/* ---- rows ---- */

/* Selects the rows in file and memory dataspace; H5S_ALL for all rows of a contiguous table. */
static herr_t select_rows(const shoal_h5_table *t, uint64_t first, uint64_t n, hid_t *memory, hid_t *space)
{
  hsize_t start[8] = { first }, count[8];
  *memory = *space = H5S_ALL;
  if (!t->grows && first == 0 && n == t->dims[0]) return 0;
  memcpy(count, t->dims, sizeof count);
  count[0] = n;
  *memory = n == 1 ? t->row : H5Screate_simple(t->ndim, count, NULL);
  *space = t->space;
  if (*memory < 0) return -1;
  return H5Sselect_hyperslab(t->space, H5S_SELECT_SET, start, NULL, count, NULL);
}

static void release_memory(const shoal_h5_table *t, hid_t memory)
{
  if (memory != H5S_ALL && memory != t->row) shoal_h5_release(memory);
}

static shoal_status make_room(shoal_h5_table *t, uint64_t rows)
{
  char where[SHOAL_H5_WHERE];
  SHOAL_CHECK(t->grows, SHOAL_ERR_ARG, "data set %s has room for %llu rows, not for %llu",
              shoal_h5_where(t->set, NULL, where), (unsigned long long)t->dims[0], (unsigned long long)rows);
  hsize_t dims[8];
  memcpy(dims, t->dims, sizeof dims);
  dims[0] = rows;
  if (H5Dset_extent(t->set, dims) < 0) return shoal_h5_fail_at(__FILE__, __LINE__, "write", t->set, NULL);
  shoal_h5_release(t->space);
  t->space = H5Dget_space(t->set);
  t->dims[0] = rows;
  return SHOAL_OK;
}

shoal_status shoal_h5_table_put(shoal_h5_table *t, uint64_t first, uint64_t n, const void *data)
{
  char where[SHOAL_H5_WHERE];
  hid_t memory, space;
  if (n == 0) return SHOAL_OK;
  shoal_h5_init();
  SHOAL_CHECK(first <= t->rows && n <= t->max_rows && first <= t->max_rows - n, SHOAL_ERR_ARG,
              "%llu rows cannot be written at row %llu of data set %s, which has %llu", (unsigned long long)n,
              (unsigned long long)first, shoal_h5_where(t->set, NULL, where), (unsigned long long)t->rows);
  if (first + n > t->dims[0]) SHOAL_TRY(make_room(t, first + n));
  herr_t bad = select_rows(t, first, n, &memory, &space);
  if (bad >= 0) bad = H5Dwrite(t->set, t->type, memory, space, H5P_DEFAULT, data);
  shoal_status st = bad < 0 ? shoal_h5_fail_at(__FILE__, __LINE__, "write", t->set, NULL) : SHOAL_OK;
  release_memory(t, memory);
  if (st == SHOAL_OK) t->rows = SHOAL_MAX(t->rows, first + n);
  return st;
}

shoal_status shoal_h5_table_append(shoal_h5_table *t, uint64_t n, const void *data)
{
  return shoal_h5_table_put(t, t->rows, n, data);
}

static size_t row_bytes(const shoal_h5_table *t)
{
  size_t bytes = H5Tget_size(t->type);
  for (int i = 1; i < t->ndim; i++) bytes *= t->dims[i];
  return bytes;
}

/* Returns false on failure, with the reason, and does not set the thread's error. */
static bool read_rows(const shoal_h5_table *t, uint64_t first, uint64_t n, void *data, char reason[SHOAL_H5_REASON])
{
  hid_t memory, space;
  shoal_h5_note(t->set, NULL);
  if (t->chunks) return shoal_h5_chunks_read(t->chunks, first, n, data, reason);
  if (t->gaps) memset(data, 0, n * row_bytes(t));
  herr_t bad = select_rows(t, first, n, &memory, &space);
  if (bad >= 0) bad = H5Dread(t->set, t->type, memory, space, H5P_DEFAULT, data);
  if (bad < 0) shoal_h5_error_reason(reason);
  release_memory(t, memory);
  return bad >= 0;
}

/* HDF5 allocates each string with its own allocator, so replace them by copies from malloc. */
static shoal_status copy_texts(uint64_t n, char **texts)
{
  bool whole = true;
  for (uint64_t i = 0; i < n; i++) {
    char *theirs = texts[i];
    texts[i] = whole ? strdup(theirs ? theirs : "") : NULL;
    whole = texts[i] != NULL;
    if (theirs) H5free_memory(theirs);
  }
  for (uint64_t i = 0; !whole && i < n; i++) free(texts[i]);
  SHOAL_CHECK(whole, SHOAL_ERR_MEM, "no memory for %llu texts", (unsigned long long)n);
  return SHOAL_OK;
}

/* Of rows that cannot be read: those of the first chunk that cannot. */
static void narrow_down(const shoal_h5_table *t, uint64_t *first, uint64_t *n, void *data, char reason[SHOAL_H5_REASON])
{
  const uint64_t all = *n, chunk = SHOAL_MAX(t->chunk_rows, UINT64_C(1));
  for (uint64_t at = *first, end = at + all, next; t->chunk_rows && at < end; at = next) {
    char why[SHOAL_H5_REASON];
    next = SHOAL_MIN(end, (at / chunk + 1) * chunk);
    if (read_rows(t, at, next - at, data, why)) continue;
    *first = at;
    *n = next - at;
    memcpy(reason, why, sizeof why);
    return;
  }
}

shoal_status shoal_h5_table_read(shoal_h5_table *t, uint64_t first, uint64_t n, void *data)
{
  char where[SHOAL_H5_WHERE], reason[SHOAL_H5_REASON];
  if (n == 0) return SHOAL_OK;
  shoal_h5_init();
  SHOAL_CHECK(first <= t->rows && n <= t->rows - first, SHOAL_ERR_ARG,
              "data set %s has %llu rows; %llu from row %llu were asked for", shoal_h5_where(t->set, NULL, where),
              (unsigned long long)t->rows, (unsigned long long)n, (unsigned long long)first);
  if (!read_rows(t, first, n, data, reason)) {
    if (!t->text) narrow_down(t, &first, &n, data, reason);
    return SHOAL_FAIL(SHOAL_ERR_IO, "cannot read rows %llu to %llu of %s%s%s", (unsigned long long)first,
                      (unsigned long long)(first + n - 1), shoal_h5_where(t->set, NULL, where), reason[0] ? ": " : "",
                      reason);
  }
  return t->text ? copy_texts(n, data) : SHOAL_OK;
}

/* Bytes that the file of a table has on disk; UINT64_MAX if that is not known. */
static uint64_t bytes_there(hid_t set)
{
  void *handle = NULL;
  struct stat info;
  hid_t file = H5Iget_file_id(set);
  bool known =
      file >= 0 && H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) >= 0 && handle && fstat(*(int *)handle, &info) == 0;
  shoal_h5_release(file);
  return known ? (uint64_t)info.st_size : UINT64_MAX;
}

/* How many rows from `first` on, within one chunk, lie in the first `there` bytes of the file, all their bytes. */
static uint64_t rows_there(const shoal_h5_table *t, uint64_t first, uint64_t n, uint64_t there)
{
#if H5_VERSION_GE(1, 10, 5)
  hsize_t at[8] = { first - first % SHOAL_MAX(t->chunk_rows, UINT64_C(1)) }, stored = 0;
  haddr_t offset = HADDR_UNDEF;
  unsigned skipped = 0;
  bool plain = t->chunk_rows && !t->chunks && there != UINT64_MAX;
  if (plain && H5Dget_chunk_info_by_coord(t->set, at, &skipped, &offset, &stored) >= 0 && offset != HADDR_UNDEF &&
      stored >= t->chunk_rows) {
    uint64_t rows = there > offset ? (there - offset) / (stored / t->chunk_rows) : 0, before = first - at[0];
    return rows > before ? SHOAL_MIN(n, rows - before) : 0;
  }
#endif
  return n;
}

uint64_t shoal_h5_table_read_sound(shoal_h5_table *t, uint64_t first, uint64_t n, void *data)
{
  char reason[SHOAL_H5_REASON];
  shoal_h5_init();
  uint64_t got = 0, there = bytes_there(t->set);
  n = first < t->rows ? SHOAL_MIN(n, t->rows - first) : 0;
  while (got < n) {
    uint64_t left = n - got, at = first + got;
    uint64_t block = t->chunk_rows ? SHOAL_MIN(left, t->chunk_rows - at % t->chunk_rows) : left;
    char *rows = (char *)data + got * row_bytes(t);
    if (!read_rows(t, at, block, rows, reason)) break;
    uint64_t whole = rows_there(t, at, block, there);
    memset(rows + whole * row_bytes(t), 0, (block - whole) * row_bytes(t));
    got += block;
  }
  H5Eclear2(H5E_DEFAULT);
  return got;
}

shoal_status shoal_h5_read(shoal_h5 at, const char *name, shoal_dtype type, size_t n, void *data)
{
  char where[SHOAL_H5_WHERE];
  shoal_h5_table *t;
  SHOAL_TRY(shoal_h5_table_open(at, name, &(shoal_h5_row){ type }, &t));
  size_t elements = t->rows;
  for (int i = 1; i < t->ndim; i++) elements *= t->dims[i];
  shoal_status st = SHOAL_OK;
  SHOAL_CHECK_GOTO(st, elements == n, end, SHOAL_ERR_IO, "data set %s has %zu elements, %zu are expected",
                   shoal_h5_where(at.id, name, where), elements, n);
  if (n > 0) st = shoal_h5_table_read(t, 0, t->rows, data);
end:
  shoal_h5_table_close(t);
  return st;
}
