/* Is this file what its writer finished?  Every fault becomes one line that names the file and the data set.
 *
 *   bytes      the check sum of the whole HDF5 part; when it fails, those of the data sets say which of them it is
 *   contents   then HDF5 may look: every data set of the index is there, with its type, shape and place; no other is
 *
 * Once all bytes are right and HDF5 looks for the data where the index does, values need not be read a second time. */
#include "base/str.h"
#include "ckpt/ckpt_impl.h"
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

/* ---- bytes ---- */

/* Which data sets are hit? */
static void name_damaged_sets(shoal_ckpt *c, shoal_ckpt_faults *faults)
{
  for (size_t i = 0; i < c->index.n; i++) {
    const shoal_ckpt_entry *e = &c->index.at[i];
    shoal_ckpt_hush h;
    uint32_t crc = e->crc;
    shoal_ckpt_hush_begin(&h);
    shoal_status st = shoal_ckpt_crc_range(c->fd, c->path, e->offset, e->bytes, &crc);
    char *words = shoal_ckpt_hush_end(&h, st);
    if (st != SHOAL_OK)
      shoal_ckpt_faults_add(faults, shoal_strdup_printf("data set %s cannot be read: %s", e->name, words));
    else if (crc != e->crc)
      shoal_ckpt_faults_add(faults, shoal_strdup_printf("%s: data set %s is damaged: check sum %08" PRIx32
                                                        " was written, %08" PRIx32 " is read (%" PRIu64
                                                        " bytes at byte %" PRIu64 ")",
                                                        c->path, e->name, e->crc, crc, e->bytes, e->offset));
    free(words);
  }
}

static void check_bytes(shoal_ckpt *c, shoal_ckpt_faults *faults)
{
  shoal_ckpt_hush h;
  uint32_t crc = 0;
  shoal_ckpt_hush_begin(&h);
  shoal_status st = shoal_ckpt_crc_range(c->fd, c->path, 0, c->seal.hdf5_bytes, &crc);
  char *words = shoal_ckpt_hush_end(&h, st);
  /* The data sets' own sums were taken from memory, so they are compared in any case: did HDF5 write what it got? */
  name_damaged_sets(c, faults);
  if (faults->n == 0 && st != SHOAL_OK)
    shoal_ckpt_faults_add(faults, shoal_strdup_printf("%s", words));
  else if (faults->n == 0 && crc != c->seal.hdf5_crc)
    shoal_ckpt_faults_add(faults,
                          shoal_strdup_printf("%s: its HDF5 structure is damaged (the data sets are not): check "
                                              "sum %08" PRIx32 " was written, %08" PRIx32 " is read",
                                              c->path, c->seal.hdf5_crc, crc));
  free(words);
}

/* ---- contents ---- */

static shoal_status compare_shape(const shoal_ckpt *c, const shoal_ckpt_entry *e, hid_t set, hid_t type, hid_t space)
{
  hsize_t dims[H5S_MAX_RANK] = { 0 };
  char want[256];
  int ndim = H5Sget_simple_extent_ndims(space);
  if (ndim >= 0 && ndim <= H5S_MAX_RANK) H5Sget_simple_extent_dims(space, dims, NULL);
  bool same = ndim == e->ndim && H5Tequal(type, shoal_ckpt_file_type(e->type)) > 0;
  for (int i = 0; same && i < ndim; i++) same = dims[i] == e->dims[i];
  SHOAL_CHECK(same, SHOAL_ERR_IO, "%s: data set %s is not the %s %s of the index", c->path, e->name,
              shoal_dtype_name(e->type), shoal_ckpt_shape_text(e->ndim, e->dims, want, sizeof want));
  haddr_t place = e->bytes ? H5Dget_offset(set) : 0;
  SHOAL_CHECK(!e->bytes || place == e->offset, SHOAL_ERR_IO,
              "%s: data set %s is not stored where the index says (byte %" PRIu64 ")", c->path, e->name, e->offset);
  return SHOAL_OK;
}

static shoal_status check_set(const shoal_ckpt *c, const shoal_ckpt_entry *e)
{
  int64_t crc = -1;
  hid_t set = H5Dopen2(c->file, e->name, H5P_DEFAULT);
  SHOAL_CHECK(set >= 0, SHOAL_ERR_IO, "%s: data set %s is %s", c->path, e->name,
              shoal_h5_exists(c->file, e->name) ? "there, but cannot be opened as one" : "missing");
  hid_t type = H5Dget_type(set), space = H5Dget_space(set);
  shoal_status st = type < 0 || space < 0
                        ? shoal_h5_fail(__FILE__, __LINE__, "%s: data set %s has no readable type", c->path, e->name)
                        : compare_shape(c, e, set, type, space);
  if (st == SHOAL_OK) st = shoal_h5_get_i64(set, "crc32c", &crc);
  if (st == SHOAL_OK && crc != (int64_t)e->crc)
    st = SHOAL_FAIL(SHOAL_ERR_IO, "%s: data set %s carries the check sum %08" PRIx64 ", the index %08" PRIx32, c->path,
                    e->name, (uint64_t)crc, e->crc);
  shoal_h5_close(space);
  shoal_h5_close(type);
  shoal_h5_close(set);
  return st;
}

static bool is_group(const shoal_ckpt_index *x, const char *name)
{
  char *prefix = shoal_strdup_printf("%s/", name);
  size_t i = shoal_ckpt_index_lower(x, prefix);
  bool found = i < x->n && strncmp(x->at[i].name, prefix, strlen(prefix)) == 0;
  free(prefix);
  return found;
}

/* Everything below `prefix` ("" or "model/") that the index does not know.  Links are taken by number, because the
 * iterators of HDF5 have changed their types between versions. */
static void find_strangers(const shoal_ckpt *c, const char *prefix, shoal_ckpt_faults *faults)
{
  H5G_info_t group;
  hid_t at = H5Gopen2(c->file, prefix[0] ? prefix : "/", H5P_DEFAULT);
  bool ok = at >= 0 && H5Gget_info(at, &group) >= 0;
  if (!ok) shoal_ckpt_faults_add(faults, shoal_strdup_printf("%s: group /%s cannot be read", c->path, prefix));
  for (hsize_t i = 0; ok && i < group.nlinks; i++) {
    char name[SHOAL_CKPT_MAX_NAME + 2];
    ssize_t n = H5Lget_name_by_idx(at, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT);
    char *full = n < 0 ? NULL : shoal_strdup_printf("%s%s", prefix, name);
    if (full && is_group(&c->index, full)) {
      char *deeper = shoal_strdup_printf("%s/", full);
      find_strangers(c, deeper, faults);
      free(deeper);
    } else if (!full || !shoal_ckpt_index_find(&c->index, full)) {
      shoal_ckpt_faults_add(faults, shoal_strdup_printf("%s: %s was added; the index does not list it", c->path,
                                                        full ? full : "something without a readable name"));
    }
    free(full);
  }
  shoal_h5_close(at);
}

static void check_contents(shoal_ckpt *c, shoal_ckpt_faults *faults)
{
  shoal_ckpt_hush h;
  shoal_ckpt_hush_begin(&h);
  shoal_status st = shoal_ckpt_open_hdf5(c);
  shoal_ckpt_faults_add(faults, shoal_ckpt_hush_end(&h, st));
  if (st != SHOAL_OK) return;
  for (size_t i = 0; i < c->index.n; i++) {
    shoal_ckpt_hush_begin(&h);
    st = check_set(c, &c->index.at[i]);
    shoal_ckpt_faults_add(faults, shoal_ckpt_hush_end(&h, st));
  }
  find_strangers(c, "", faults);
}

void shoal_ckpt_examine(shoal_ckpt *c, shoal_ckpt_faults *faults)
{
  check_bytes(c, faults);
  if (faults->n == 0) check_contents(c, faults);
}

static shoal_status report(FILE *out, const char *path, const shoal_ckpt *c, const shoal_ckpt_faults *faults)
{
  uint64_t bytes = 0;
  char amount[32], *first = shoal_ckpt_faults_first(faults);
  if (first) {
    fputs(faults->lines.text, out);
    shoal_quiet_errors(1); /* told in full above */
    SHOAL_FAIL(SHOAL_ERR_IO, "%s", first);
    shoal_quiet_errors(-1);
    free(first);
    return SHOAL_ERR_IO;
  }
  for (size_t i = 0; i < c->index.n; i++) bytes += c->index.at[i].bytes;
  fprintf(out, "%s: good: step %" PRIu64 ", %zu data sets, %s, every check sum agrees\n", path, c->info.step,
          c->index.n, shoal_format_bytes((double)bytes, amount, sizeof amount));
  return SHOAL_OK;
}

shoal_status shoal_ckpt_verify(const char *path, FILE *out)
{
  shoal_ckpt *c = NULL;
  shoal_ckpt_faults faults = { 0 };
  shoal_ckpt_hush h;
  shoal_ckpt_hush_begin(&h);
  shoal_status st = shoal_ckpt_open_seal(path, &c);
  shoal_ckpt_faults_add(&faults, shoal_ckpt_hush_end(&h, st));
  if (st == SHOAL_OK) shoal_ckpt_examine(c, &faults);
  st = report(out, path, c, &faults);
  shoal_ckpt_close(c);
  shoal_str_free(&faults.lines);
  return st;
}
