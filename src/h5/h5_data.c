/* Data sets: dense, row-major, little-endian in the file, native in memory.
 *
 * No compression and no chunks here: checkpoints are read whole, and a contiguous data set is one seek and one copy.
 * Time stamps are off, so that equal contents give equal bytes. */
#include "h5/h5_impl.h"
#include <stdlib.h>
#include <string.h>

/* The form in the file: numbers little-endian, everything else as it is. */
static hid_t file_type(hid_t type)
{
  H5T_class_t c = H5Tget_class(type);
  hid_t copy = H5Tcopy(type);
  if (copy >= 0 && (c == H5T_INTEGER || c == H5T_FLOAT) && H5Tset_order(copy, H5T_ORDER_LE) < 0) {
    H5Tclose(copy);
    return H5I_INVALID_HID;
  }
  return copy;
}

static hid_t make_space(int ndim, const uint64_t *dims)
{
  hsize_t d[H5S_MAX_RANK];
  if (ndim == 0) return H5Screate(H5S_SCALAR);
  for (int i = 0; i < ndim; i++) d[i] = dims[i];
  return H5Screate_simple(ndim, d, NULL);
}

shoal_status shoal_h5_write(hid_t at, const char *name, hid_t type, int ndim, const uint64_t *dims, const void *data)
{
  shoal_status st = SHOAL_OK;
  shoal_h5_init();
  SHOAL_CHECK(ndim >= 0 && ndim <= 8, SHOAL_ERR_ARG, "data set %s has %d dimensions; 0 to 8 are allowed", name, ndim);
  hid_t stored = file_type(type), space = make_space(ndim, dims), set = H5I_INVALID_HID;
  hid_t lcpl = H5Pcreate(H5P_LINK_CREATE), dcpl = H5Pcreate(H5P_DATASET_CREATE);
  hssize_t n = -1;
  H5_GOTO(st, H5Pset_create_intermediate_group(lcpl, 1), end, "create", at, name);
  H5_GOTO(st, H5Pset_obj_track_times(dcpl, false), end, "create", at, name);
  H5_GOTO(st, n = H5Sget_simple_extent_npoints(space), end, "create", at, name);
  H5_GOTO(st, set = H5Dcreate2(at, name, stored, space, lcpl, dcpl, H5P_DEFAULT), end, "create", at, name);
  if (n > 0) H5_GOTO(st, H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), end, "write", at, name);
end:
  shoal_h5_close(set);
  shoal_h5_close(dcpl);
  shoal_h5_close(lcpl);
  shoal_h5_close(space);
  shoal_h5_close(stored);
  return st;
}

bool shoal_h5_exists(hid_t at, const char *name)
{
  shoal_h5_init();
  char part[SHOAL_H5_WHERE];
  size_t n = strlen(name);
  if (n == 0 || n >= sizeof part) return false;
  if (strspn(name, "/") == n) return true; /* the root itself */
  hid_t lapl = shoal_h5_stay_inside(H5P_LINK_ACCESS);
  bool there = lapl >= 0;
  memcpy(part, name, n + 1);
  for (size_t i = 1; there && i <= n; i++) { /* "/a/b": ask for "/a", then "/a/b" */
    if ((name[i] != '/' && name[i] != '\0') || name[i - 1] == '/') continue;
    part[i] = '\0';
    there = H5Lexists(at, part, lapl) > 0 && H5Oexists_by_name(at, part, lapl) > 0;
    part[i] = name[i];
  }
  if (lapl >= 0) H5Pclose(lapl);
  H5Eclear2(H5E_DEFAULT);
  return there;
}

/* Open a data set that lies in this file and is stored in a way we trust. */
static shoal_status open_dataset(hid_t at, const char *name, hid_t *out)
{
  char buf[SHOAL_H5_WORDS], where[SHOAL_H5_WHERE];
  shoal_status st = SHOAL_OK;
  SHOAL_CHECK(shoal_h5_exists(at, name), SHOAL_ERR_IO, "there is no data set %s", shoal_h5_where(at, name, where));
  hid_t dapl = shoal_h5_stay_inside(H5P_DATASET_ACCESS), set = H5I_INVALID_HID, dcpl = H5I_INVALID_HID;
  H5_GOTO(st, set = H5Dopen2(at, name, dapl), end, "open data set", at, name);
  H5_GOTO(st, dcpl = H5Dget_create_plist(set), end, "open data set", at, name);
  const char *why = shoal_h5_foreign(dcpl, buf);
  SHOAL_CHECK_GOTO(st, !why, end, SHOAL_ERR_IO, "data set %s %s", shoal_h5_where(at, name, where), why);
  *out = set;
end:
  if (st != SHOAL_OK) shoal_h5_close(set);
  shoal_h5_close(dcpl);
  shoal_h5_close(dapl);
  return st;
}

/* A product that wraps would let a small buffer pass for a huge data set, so it is refused here, for all readers. */
static shoal_status read_shape(hid_t set, hid_t at, const char *name, int *ndim, uint64_t dims[8], size_t *elements)
{
  char where[SHOAL_H5_WHERE];
  hsize_t d[H5S_MAX_RANK];
  shoal_status st = SHOAL_OK;
  hid_t space = H5I_INVALID_HID;
  int n = -1;
  H5_GOTO(st, space = H5Dget_space(set), end, "look at", at, name);
  H5_GOTO(st, n = H5Sget_simple_extent_dims(space, d, NULL), end, "look at", at, name);
  SHOAL_CHECK_GOTO(st, H5Sget_simple_extent_type(space) != H5S_NULL, end, SHOAL_ERR_IO,
                   "data set %s holds nothing (a null data space)", shoal_h5_where(at, name, where));
  SHOAL_CHECK_GOTO(st, n <= 8, end, SHOAL_ERR_IO, "data set %s has %d dimensions; at most 8 are read",
                   shoal_h5_where(at, name, where), n);
  *elements = 1;
  for (int i = 0; i < n; i++) {
    dims[i] = d[i];
    SHOAL_CHECK_GOTO(st, !__builtin_mul_overflow(*elements, dims[i], elements), end, SHOAL_ERR_IO,
                     "data set %s claims more elements than fit 64 bits", shoal_h5_where(at, name, where));
  }
  *ndim = n;
end:
  shoal_h5_close(space);
  return st;
}

shoal_status shoal_h5_shape(hid_t at, const char *name, int *ndim, uint64_t dims[8], H5T_class_t *type_class,
                            size_t *type_size)
{
  hid_t set = H5I_INVALID_HID, type = H5I_INVALID_HID;
  uint64_t found[8] = { 0 };
  size_t elements;
  int n = 0;
  shoal_h5_init();
  SHOAL_TRY(open_dataset(at, name, &set));
  shoal_status st = read_shape(set, at, name, &n, found, &elements);
  if (st != SHOAL_OK) goto end;
  H5_GOTO(st, type = H5Dget_type(set), end, "look at", at, name);
  *ndim = n;
  memcpy(dims, found, sizeof found);
  if (type_class) *type_class = H5Tget_class(type);
  if (type_size) *type_size = H5Tget_size(type);
end:
  shoal_h5_close(type);
  shoal_h5_close(set);
  return st;
}

shoal_status shoal_h5_read(hid_t at, const char *name, hid_t type, size_t n, void *data)
{
  char where[SHOAL_H5_WHERE];
  uint64_t dims[8];
  size_t have = 0;
  int ndim;
  hid_t set = H5I_INVALID_HID;
  shoal_h5_init();
  SHOAL_TRY(open_dataset(at, name, &set));
  shoal_status st = read_shape(set, at, name, &ndim, dims, &have);
  if (st != SHOAL_OK) goto end;
  SHOAL_CHECK_GOTO(st, have == n, end, SHOAL_ERR_IO, "data set %s has %zu elements, %zu are expected",
                   shoal_h5_where(at, name, where), have, n);
  if (n > 0) H5_GOTO(st, H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), end, "read", at, name);
end:
  shoal_h5_close(set);
  return st;
}
