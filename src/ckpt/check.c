/* Verification: is the file exactly what its writer finished?  Every fault becomes a line that names file and data set.
 *
 *   bytes      read once, compared with the checksum of the whole HDF5 part and with those of the data sets, which tell
 *              where it is damaged
 *   contents   then HDF5 opens the file: it must contain exactly the data sets of the index, with type, shape and
 *              offset
 *
 * If all bytes are correct and HDF5 finds the data at the offsets of the index, the values need not be read again.  Each
 * file of a checkpoint is verified by itself; shards.c compares them. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/ckpt_impl.h"
#include "h5/table.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void shoal_ckpt_faults_add(shoal_ckpt_faults *f, char *line)
{
  if (!line) return;
  shoal_str_add(&f->lines, "%s\n", line);
  f->n++;
  free(line);
}

char *shoal_ckpt_faults_first(const shoal_ckpt_faults *f)
{
  if (f->n == 0) return NULL;
  int length = (int)strcspn(f->lines.text, "\n");
  if (f->n == 1) return shoal_strdup_printf("%.*s", length, f->lines.text);
  return shoal_strdup_printf("%.*s (and %zu more: shoal ckpt verify)", length, f->lines.text, f->n - 1);
}

void shoal_ckpt_faults_add_failure(shoal_ckpt_faults *f, shoal_status st)
{
  if (st != SHOAL_OK) shoal_ckpt_faults_add(f, shoal_strdup_printf("%s", shoal_error_text(st)));
}

/* ---- bytes ---- */

/* The data sets of a file whose bytes are read, by offset: of those that share their bytes, the first. */
typedef struct {
  size_t *at, n; /* numbers in the index */
  size_t next;   /* those before it are complete */
} reading;

/* Adds a piece of the file to the checksums of the data sets that it holds parts of. */
static void add_piece(const shoal_ckpt_index *x, reading *r, uint32_t *crc, uint64_t from, const unsigned char *piece,
                      size_t n)
{
  for (size_t i = r->next; i < r->n && x->at[r->at[i]].offset < from + n; i++) {
    const shoal_ckpt_entry *e = &x->at[r->at[i]];
    uint64_t first = SHOAL_MAX(e->offset, from), end = SHOAL_MIN(e->offset + e->bytes, from + n);
    if (first < end) crc[r->at[i]] = shoal_crc32c(crc[r->at[i]], piece + (first - from), (size_t)(end - first));
    if (e->offset + e->bytes <= from + n && i == r->next) r->next++;
  }
}

/* Reads the HDF5 part once, for the checksum of the whole and those of the data sets, crc [here.n]. */
static shoal_status read_sums(const shoal_ckpt *c, reading *r, uint32_t *crc, uint32_t *whole)
{
  unsigned char *piece = NULL;
  shoal_status st = shoal_alloc((size_t)SHOAL_MIN(c->seal.hdf5_bytes, (uint64_t)SHOAL_CKPT_PIECE), 1, "check buffer",
                                (void **)&piece);
  for (uint64_t done = 0; st == SHOAL_OK && done < c->seal.hdf5_bytes;) {
    size_t n = (size_t)SHOAL_MIN(c->seal.hdf5_bytes - done, (uint64_t)SHOAL_CKPT_PIECE);
    SHOAL_TRY_GOTO(st, shoal_ckpt_read_at(c->fd, c->path, done, piece, n), out);
    *whole = shoal_crc32c(*whole, piece, n);
    add_piece(&c->here, r, crc, done, piece, n);
    done += n;
  }
out:
  free(piece);
  return st;
}

static int by_offset(const void *a, const void *b, void *index)
{
  const shoal_ckpt_index *x = index;
  const shoal_ckpt_entry *p = &x->at[*(const size_t *)a], *q = &x->at[*(const size_t *)b];
  return (p->offset > q->offset) - (p->offset < q->offset);
}

/* Data sets share all of their bytes or none, so that a file is read once however many the index claims.  The checksum of
 * one that shares them with an earlier one is set here, for it is the same. */
static shoal_status sort_by_offset(const shoal_ckpt *c, reading *r, uint32_t *crc)
{
  const shoal_ckpt_index *x = &c->here;
  const shoal_ckpt_entry *last = NULL;
  for (size_t i = 0; i < x->n; i++)
    if (x->at[i].bytes > 0) r->at[r->n++] = i;
  qsort_r(r->at, r->n, sizeof *r->at, by_offset, (void *)(uintptr_t)x);
  size_t all = r->n;
  r->n = 0;
  for (size_t i = 0; i < all; i++) {
    const shoal_ckpt_entry *e = &x->at[r->at[i]];
    if (last && shoal_ckpt_same_bytes(e, last)) {
      crc[r->at[i]] = e->crc;
      continue;
    }
    SHOAL_CHECK(!last || e->offset >= last->offset + last->bytes, SHOAL_ERR_IO,
                "%s: data set %s overlaps another one: the file is made up", c->path, e->name);
    r->at[r->n++] = r->at[i];
    last = e;
  }
  return SHOAL_OK;
}

/* The checksums of data sets were computed in memory before writing, so comparing them also verifies that HDF5 wrote what it
 * was given; they tell where a file is damaged. */
static void compare_sums(const shoal_ckpt *c, const uint32_t *crc, uint32_t whole, shoal_ckpt_faults *faults)
{
  size_t before = faults->n;
  for (size_t i = 0; i < c->here.n; i++) {
    const shoal_ckpt_entry *e = &c->here.at[i];
    if (crc[i] != e->crc)
      shoal_ckpt_faults_add(faults, shoal_strdup_printf("%s: data set %s is damaged: checksum %08" PRIx32
                                                        " was written, %08" PRIx32 " is read (%" PRIu64
                                                        " bytes at byte %" PRIu64 ")",
                                                        c->path, e->name, e->crc, crc[i], e->bytes, e->offset));
  }
  if (faults->n == before && whole != c->seal.hdf5_crc)
    shoal_ckpt_faults_add(faults,
                          shoal_strdup_printf("%s: its HDF5 structure is damaged (the data sets are not): check "
                                              "sum %08" PRIx32 " was written, %08" PRIx32 " is read",
                                              c->path, c->seal.hdf5_crc, whole));
}

static void check_bytes(shoal_ckpt *c, shoal_ckpt_faults *faults)
{
  uint32_t *crc = NULL, whole = 0;
  reading r = { 0 };
  shoal_status st = SHOAL_ALLOC(SHOAL_MAX(c->here.n, 1), &crc);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(SHOAL_MAX(c->here.n, 1), &r.at);
  if (st == SHOAL_OK) st = sort_by_offset(c, &r, crc);
  if (st == SHOAL_OK) st = read_sums(c, &r, crc, &whole);
  if (st == SHOAL_OK)
    compare_sums(c, crc, whole, faults);
  else
    shoal_ckpt_faults_add_failure(faults, st);
  free(r.at);
  free(crc);
}

/* ---- contents ---- */

static shoal_status compare_facts(const shoal_ckpt *c, const shoal_ckpt_entry *e, const shoal_h5_facts *f)
{
  char want[256];
  bool same = f->ndim == e->ndim && f->exact && f->type == e->type;
  for (int i = 0; same && i < e->ndim; i++) same = f->dims[i] == e->dims[i];
  SHOAL_CHECK(same, SHOAL_ERR_IO, "%s: data set %s is not the %s %s of the index", c->path, e->name,
              shoal_dtype_name(e->type), shoal_ckpt_shape_text(e->ndim, e->dims, want, sizeof want));
  SHOAL_CHECK(!e->bytes || f->offset == e->offset, SHOAL_ERR_IO,
              "%s: data set %s is not stored where the index says (byte %" PRIu64 ")", c->path, e->name, e->offset);
  return SHOAL_OK;
}

static shoal_status check_opened(const shoal_ckpt *c, const shoal_ckpt_entry *e, const shoal_h5_table *set)
{
  int64_t crc = -1;
  shoal_h5_facts f;
  SHOAL_TRY(shoal_h5_table_facts(set, &f));
  SHOAL_TRY(compare_facts(c, e, &f));
  SHOAL_TRY(shoal_h5_get_i64(shoal_h5_table_object(set), "crc32c", &crc));
  SHOAL_CHECK(crc == (int64_t)e->crc, SHOAL_ERR_IO,
              "%s: data set %s carries the checksum %08" PRIx64 ", the index %08" PRIx32, c->path, e->name,
              (uint64_t)crc, e->crc);
  return SHOAL_OK;
}

static shoal_status check_set(const shoal_ckpt *c, const shoal_ckpt_entry *e)
{
  shoal_h5_table *set;
  SHOAL_CHECK(shoal_h5_is_data_set(c->file, e->name), SHOAL_ERR_IO, "%s: data set %s is %s", c->path, e->name,
              shoal_h5_exists(c->file, e->name) ? "there, but cannot be opened as one" : "missing");
  SHOAL_TRY(shoal_h5_table_open(c->file, e->name, &(shoal_h5_row){ e->type }, &set));
  shoal_status st = check_opened(c, e, set);
  shoal_h5_table_close(set);
  return st;
}

typedef struct {
  const shoal_ckpt *c;
  shoal_ckpt_faults *faults;
  char *added; /* name of the last unlisted object, with a slash; objects below it are not reported separately */
} unlisted_objects;

static bool begins_with(const char *name, const char *prefix)
{
  return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Reports a link that is neither a data set of the index nor a group that contains one. */
static void check_listed(void *context, const char *name)
{
  unlisted_objects *s = context;
  const shoal_ckpt_index *x = &s->c->here;
  if (s->added && begins_with(name, s->added)) return;
  if (shoal_ckpt_index_find(x, name)) return;
  char *group = shoal_strdup_printf("%s/", name);
  size_t i = group ? shoal_ckpt_index_lower_bound(x, group) : x->n;
  if (i < x->n && begins_with(x->at[i].name, group)) {
    free(group);
    return;
  }
  shoal_ckpt_faults_add(s->faults,
                        shoal_strdup_printf("%s: %s was added; the index does not list it", s->c->path, name));
  free(s->added);
  s->added = group;
}

static void find_unlisted(const shoal_ckpt *c, shoal_ckpt_faults *faults)
{
  unlisted_objects s = { c, faults, NULL };
  shoal_ckpt_faults_add_failure(faults, shoal_h5_list(c->file, check_listed, &s));
  free(s.added);
}

void shoal_ckpt_check_sets(const shoal_ckpt *c, shoal_ckpt_faults *faults)
{
  for (size_t i = 0; i < c->here.n; i++) shoal_ckpt_faults_add_failure(faults, check_set(c, &c->here.at[i]));
  find_unlisted(c, faults);
}

static void check_contents(shoal_ckpt *c, shoal_ckpt_faults *faults)
{
  shoal_status st = shoal_ckpt_open_hdf5(c);
  shoal_ckpt_faults_add_failure(faults, st);
  if (st != SHOAL_OK) return;
  shoal_ckpt_check_sets(c, faults);
}

void shoal_ckpt_examine_file(shoal_ckpt *c, shoal_ckpt_faults *faults)
{
  size_t before = faults->n;
  check_bytes(c, faults);
  if (faults->n == before) check_contents(c, faults);
}

static shoal_status report(FILE *out, const char *path, const shoal_ckpt *c, const shoal_ckpt_faults *faults)
{
  uint64_t bytes = 0;
  char amount[32], shown[1024], files[48] = "", *first = shoal_ckpt_faults_first(faults);
  if (first) {
    shoal_str_print(&faults->lines, out);
    shoal_status st = shoal_error_told(SHOAL_FAIL(SHOAL_ERR_IO, "%s", first)); /* in full, just above */
    free(first);
    return st;
  }
  for (size_t i = 0; i < c->index.n; i++) bytes += c->index.at[i].bytes;
  if (c->index.n_shards) snprintf(files, sizeof files, " in %zu files", c->index.n_shards + 1);
  fprintf(out, "%s: good: step %" PRIu64 ", %zu data sets%s, %s, every checksum agrees\n",
          shoal_show(path, shown, sizeof shown), c->info.step, c->index.n, files,
          shoal_format_bytes((double)bytes, amount, sizeof amount));
  return SHOAL_OK;
}

shoal_status shoal_ckpt_verify(const char *path, FILE *out)
{
  shoal_ckpt *c = NULL;
  shoal_ckpt_faults faults = { 0 };
  shoal_status st = shoal_ckpt_open_seal(path, &c);
  shoal_ckpt_faults_add_failure(&faults, st);
  if (st == SHOAL_OK) shoal_ckpt_examine(c, &faults);
  st = report(out, path, c, &faults);
  shoal_ckpt_close(c);
  shoal_str_free(&faults.lines);
  return st;
}
