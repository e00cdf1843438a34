/* Whole data sets: dense, row-major, little-endian in the file, native in memory.
 *
 * Neither compression nor chunks: checkpoints are read whole, and a contiguous data set takes one seek and one copy.
 * Time stamps are off, so that equal contents give equal bytes. */
#include "base/limit.h"
#include "base/str.h"
#include "h5/h5_impl.h"
#include <stdio.h>
#include <string.h>

static hid_t make_space(int ndim, const uint64_t *dims)
{
  hsize_t d[H5S_MAX_RANK];
  if (ndim == 0) return H5Screate(H5S_SCALAR);
  for (int i = 0; i < ndim; i++) d[i] = dims[i];
  return H5Screate_simple(ndim, d, NULL);
}

shoal_status shoal_h5_write(shoal_h5 file, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                            const void *data)
{
  hid_t at = file.id;
  shoal_status st = SHOAL_OK;
  shoal_h5_init();
  SHOAL_CHECK(ndim >= 0 && ndim <= 8, SHOAL_ERR_ARG, "data set %s has %d dimensions; 0 to 8 are allowed", name, ndim);
  hid_t space = make_space(ndim, dims), set = H5I_INVALID_HID;
  hid_t lcpl = H5Pcreate(H5P_LINK_CREATE), dcpl = H5Pcreate(H5P_DATASET_CREATE);
  hssize_t n = -1;
  H5_GOTO(st, H5Pset_create_intermediate_group(lcpl, 1), end, "create", at, name);
  H5_GOTO(st, H5Pset_obj_track_times(dcpl, false), end, "create", at, name);
  H5_GOTO(st, n = H5Sget_simple_extent_npoints(space), end, "create", at, name);
  H5_GOTO(st, set = H5Dcreate2(at, name, shoal_h5_stored_type(type), space, lcpl, dcpl, H5P_DEFAULT), end, "create", at,
          name);
  if (n > 0)
    H5_GOTO(st, H5Dwrite(set, shoal_h5_native_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, data), end, "write", at, name);
end:
  shoal_h5_release(set);
  shoal_h5_release(dcpl);
  shoal_h5_release(lcpl);
  shoal_h5_release(space);
  return st;
}

shoal_status shoal_h5_link(shoal_h5 file, const char *existing, const char *name)
{
  shoal_status st = SHOAL_OK;
  shoal_h5_init();
  hid_t lcpl = H5Pcreate(H5P_LINK_CREATE);
  H5_GOTO(st, H5Pset_create_intermediate_group(lcpl, 1), end, "create", file.id, name);
  H5_GOTO(st, H5Lcreate_hard(file.id, existing, file.id, name, lcpl, H5P_DEFAULT), end, "create", file.id, name);
end:
  shoal_h5_release(lcpl);
  return st;
}

/* Where the path ends: `part` gets the first name on it that is not there, or `name`.  *link is whether that one is a link. */
static bool follow(hid_t at, const char *name, char part[SHOAL_H5_WHERE], bool *link)
{
  size_t n = strlen(name);
  *link = false;
  if (n == 0 || n >= SHOAL_H5_WHERE) return false;
  shoal_h5_note(at, name);
  if (strspn(name, "/") == n) return true; /* the root group */
  hid_t lapl = shoal_h5_stay_inside(H5P_LINK_ACCESS);
  bool there = lapl >= 0;
  memcpy(part, name, n + 1);
  for (size_t i = 1; there && i <= n; i++) { /* for "/a/b" check "/a", then "/a/b" */
    if ((name[i] != '/' && name[i] != '\0') || name[i - 1] == '/') continue;
    part[i] = '\0';
    *link = H5Lexists(at, part, lapl) > 0;
    there = *link && H5Oexists_by_name(at, part, lapl) > 0;
    if (there) part[i] = name[i];
  }
  if (lapl >= 0) H5Pclose(lapl);
  H5Eclear2(H5E_DEFAULT);
  return there;
}

static bool exists(hid_t at, const char *name)
{
  char part[SHOAL_H5_WHERE];
  bool link;
  return follow(at, name, part, &link);
}

bool shoal_h5_exists(shoal_h5 at, const char *name)
{
  shoal_h5_init();
  return exists(at.id, name);
}

shoal_status shoal_h5_refuse_dangling(shoal_h5 file, const char *path, const char *name)
{
  char part[SHOAL_H5_WHERE], target[SHOAL_H5_WHERE] = "?", shown[3][96];
  bool link;
  H5L_info_t info;
  shoal_h5_init();
  if (follow(file.id, name, part, &link) || !link || H5Lget_info(file.id, part, &info, H5P_DEFAULT) < 0 ||
      info.type != H5L_TYPE_SOFT)
    return SHOAL_OK;
  if (info.u.val_size <= sizeof target) H5Lget_val(file.id, part, target, sizeof target, H5P_DEFAULT);
  name += strspn(name, "/");
  const char *at = part + strspn(part, "/");
  const bool whole = strcmp(at, name) == 0;
  shoal_show(name, shown[0], sizeof shown[0]);
  shoal_show(at, shown[1], sizeof shown[1]);
  shoal_show(target, shown[2], sizeof shown[2]);
  return SHOAL_FAIL(
      SHOAL_ERR_IO,
      "/%s in %s is not there: %s%s is a link to \"%s\", which leads nowhere; let it lead to what is meant, in "
      "h5py: del f['/%s']; f['/%s'] = f['NAME']; or get the file again",
      shown[0], path, whole ? "it" : "/", whole ? "" : shown[1], shown[2], shown[1], shown[1]);
}

bool shoal_h5_is_data_set(shoal_h5 at, const char *name)
{
  shoal_h5_init();
  if (!exists(at.id, name)) return false;
  hid_t lapl = shoal_h5_stay_inside(H5P_LINK_ACCESS), object = H5Oopen(at.id, name, lapl);
  bool is = object >= 0 && H5Iget_type(object) == H5I_DATASET;
  shoal_h5_release(object);
  shoal_h5_release(lapl);
  H5Eclear2(H5E_DEFAULT);
  return is;
}

/* Reads the dimensions.  If the number of elements overflowed, a small buffer would seem large enough for a huge data
 * set, so overflow is rejected here, for all readers. */
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
  shoal_h5_release(space);
  return st;
}

/* A contiguous array lies in one piece, which may not reach beyond the end of the file.  Where nothing was ever written
 * there is no piece, and HDF5 gives fill values. */
static shoal_status check_piece(hid_t set, hid_t at, const char *name, uint64_t stored)
{
  char where[SHOAL_H5_WHERE];
  hsize_t size = 0;
  uint64_t end;
  const haddr_t offset = H5Dget_offset(set);
  hid_t file = H5Iget_file_id(set);
  herr_t known = file < 0 ? -1 : H5Fget_filesize(file, &size);
  if (file >= 0) H5Fclose(file);
  if (known < 0) return shoal_h5_fail_at(__FILE__, __LINE__, "look at", at, name);
  bool inside = !__builtin_add_overflow((uint64_t)offset, stored, &end) && end <= size;
  SHOAL_CHECK(inside, SHOAL_ERR_IO,
              "data set %s takes %llu bytes from byte %llu, but the file has %llu: it is damaged; get it again",
              shoal_h5_where(at, name, where), (unsigned long long)stored, (unsigned long long)offset,
              (unsigned long long)size);
  return SHOAL_OK;
}

/* HDF5 1.10 copies as many bytes as the shape claims, whatever is stored: beyond a compact array it reads the memory of
 * this process, beyond a contiguous one other parts of the file.  Filtered chunks are compared as they are read (filters.c). */
static shoal_status check_stored(hid_t set, H5D_layout_t layout, hid_t at, const char *name)
{
  char where[SHOAL_H5_WHERE];
  uint64_t dims[8], bytes;
  size_t elements;
  int ndim;
  SHOAL_TRY(read_shape(set, at, name, &ndim, dims, &elements));
  if (layout != H5D_COMPACT && layout != H5D_CONTIGUOUS) return SHOAL_OK;
  hid_t type = H5Dget_type(set);
  if (type < 0) return shoal_h5_fail_at(__FILE__, __LINE__, "look at", at, name);
  bool fits = !__builtin_mul_overflow((uint64_t)elements, (uint64_t)H5Tget_size(type), &bytes);
  shoal_h5_release(type);
  const bool written = layout == H5D_COMPACT || H5Dget_offset(set) != HADDR_UNDEF;
  const uint64_t stored = H5Dget_storage_size(set);
  H5Eclear2(H5E_DEFAULT);
  SHOAL_CHECK(fits, SHOAL_ERR_IO, "data set %s claims more bytes than fit 64 bits", shoal_h5_where(at, name, where));
  if (!written) return SHOAL_OK;
  SHOAL_CHECK(bytes <= stored, SHOAL_ERR_IO,
              "data set %s says it has %llu bytes, but %llu are stored: the file is damaged; get it again",
              shoal_h5_where(at, name, where), (unsigned long long)bytes, (unsigned long long)stored);
  return layout == H5D_CONTIGUOUS ? check_piece(set, at, name, stored) : SHOAL_OK;
}

/* By default HDF5 reads the whole chunk that contains a row into its chunk cache, which reads in random order never hit,
 * and trusts the file with the size of that chunk; without a cache it reads only the bytes asked for. */
static hid_t access_list(void)
{
  hid_t list = shoal_h5_stay_inside(H5P_DATASET_ACCESS);
  if (list < 0 || H5Pset_chunk_cache(list, 1, 0, 1.0) >= 0) return list;
  shoal_h5_release(list);
  return H5I_INVALID_HID;
}

shoal_status shoal_h5_open_data_set(hid_t at, const char *name, hid_t *out)
{
  char buf[SHOAL_H5_REASON], where[SHOAL_H5_WHERE];
  shoal_status st = SHOAL_OK;
  SHOAL_CHECK(exists(at, name), SHOAL_ERR_IO, "there is no data set %s", shoal_h5_where(at, name, where));
  hid_t dapl = access_list(), set = H5I_INVALID_HID, dcpl = H5I_INVALID_HID;
  H5_GOTO(st, set = H5Dopen2(at, name, dapl), end, "open data set", at, name);
  H5_GOTO(st, dcpl = H5Dget_create_plist(set), end, "open data set", at, name);
  bool packed;
  const char *why = shoal_h5_foreign(dcpl, &packed, buf);
  SHOAL_CHECK_GOTO(st, !why, end, SHOAL_ERR_IO, "data set %s %s", shoal_h5_where(at, name, where), why);
  SHOAL_TRY_GOTO(st, check_stored(set, H5Pget_layout(dcpl), at, name), end);
  *out = set;
end:
  if (st != SHOAL_OK) shoal_h5_release(set);
  shoal_h5_release(dcpl);
  shoal_h5_release(dapl);
  return st;
}

/* Finds the element type that equals the file type exactly. */
static bool find_type(hid_t stored, shoal_dtype *out)
{
  for (shoal_dtype t = SHOAL_F32; t <= SHOAL_U64; t++)
    if (H5Tequal(stored, shoal_h5_stored_type(t)) > 0) {
      *out = t;
      return true;
    }
  return false;
}

static void list_filters(hid_t dcpl, char *buf, size_t cap)
{
  int n = H5Pget_nfilters(dcpl);
  size_t at = 0;
  for (int i = 0; i < n && at < cap; i++) {
    unsigned flags, config;
    size_t values = 0;
    const char *name = shoal_h5_filter_name(H5Pget_filter2(dcpl, (unsigned)i, &flags, &values, NULL, 0, NULL, &config));
    at += (size_t)snprintf(buf + at, cap - at, "%s%s", i ? ", " : "", name ? name : "?");
  }
}

/* A shape is a claim of the file; readers allocate and loop by it.  What is stored takes its room in the file, packed by
 * deflate at most 1032 to 1.  A little may be missing: parts that were never written read as zeros, and the last rows of
 * a killed writer may be beyond the end. */
static shoal_status check_claim(hid_t set, hid_t at, const char *name, const shoal_h5_facts *f, uint64_t elements)
{
  enum { DEFLATE_MOST = 1032, MISSING = 4 << 20 };
  char where[SHOAL_H5_WHERE];
  hsize_t size = 0;
  hid_t file = H5Iget_file_id(set);
  herr_t known = file < 0 ? -1 : H5Fget_filesize(file, &size);
  if (file >= 0) H5Fclose(file);
  if (known < 0) return shoal_h5_fail_at(__FILE__, __LINE__, "look at", at, name);
  uint64_t held = (uint64_t)size * (f->filters[0] ? DEFLATE_MOST : 1) + MISSING;
  return shoal_limit_held(shoal_h5_where(at, name, where), "elements", elements, f->size, held);
}

shoal_status shoal_h5_facts_of(hid_t set, hid_t at, const char *name, shoal_h5_facts *out)
{
  char where[SHOAL_H5_WHERE];
  shoal_h5_facts f = { .offset = SHOAL_H5_NO_OFFSET };
  hid_t type = H5I_INVALID_HID, dcpl = H5I_INVALID_HID;
  hsize_t chunk[8];
  size_t elements;
  shoal_status st = read_shape(set, at, name, &f.ndim, f.dims, &elements);
  if (st != SHOAL_OK) goto end;
  H5_GOTO(st, type = H5Dget_type(set), end, "look at", at, name);
  SHOAL_CHECK_GOTO(st, shoal_h5_type_is_sound(type), end, SHOAL_ERR_IO,
                   "the element type of data set %s does not fit its own size: it is damaged; get it again",
                   shoal_h5_where(at, name, where));
  H5_GOTO(st, dcpl = H5Dget_create_plist(set), end, "look at", at, name);
  shoal_h5_describe(type, &f);
  f.size = H5Tget_size(type);
  f.has_sign = f.class == SHOAL_H5_INTEGER && H5Tget_sign(type) != H5T_SGN_NONE;
  f.exact = find_type(type, &f.type);
  if (H5Pget_layout(dcpl) == H5D_CHUNKED) {
    int ndim = H5Pget_chunk(dcpl, 8, chunk);
    H5_GOTO(st, ndim, end, "look at", at, name);
    for (int i = 0; i < f.ndim; i++) {
      SHOAL_CHECK_GOTO(st, ndim == f.ndim && chunk[i] > 0, end, SHOAL_ERR_IO,
                       "the chunks of data set %s have another shape than it has: it is damaged; get it again",
                       shoal_h5_where(at, name, where));
      f.chunk[i] = chunk[i];
    }
    list_filters(dcpl, f.filters, sizeof f.filters);
  }
  haddr_t offset = H5Dget_offset(set);
  if (offset != HADDR_UNDEF) f.offset = offset;
  H5Eclear2(H5E_DEFAULT);
  st = check_claim(set, at, name, &f, elements);
  if (st == SHOAL_OK) *out = f;
end:
  shoal_h5_release(dcpl);
  shoal_h5_release(type);
  return st;
}

shoal_status shoal_h5_look(shoal_h5 at, const char *name, shoal_h5_facts *out)
{
  hid_t set = H5I_INVALID_HID;
  shoal_h5_init();
  SHOAL_TRY(shoal_h5_open_data_set(at.id, name, &set));
  shoal_status st = shoal_h5_facts_of(set, at.id, name, out);
  shoal_h5_release(set);
  return st;
}

typedef struct {
  void (*each)(void *context, const char *name);
  void *context;
} list;

static herr_t list_link(hid_t at, const char *name, const H5L_info_t *link, void *data)
{
  const list *l = data;
  shoal_h5_note(at, name);
  l->each(l->context, name);
  return 0;
}

shoal_status shoal_h5_list(shoal_h5 file, void (*each)(void *context, const char *name), void *context)
{
  list l = { each, context };
  shoal_status st = SHOAL_OK;
  shoal_h5_init();
  H5_GOTO(st, H5Lvisit(file.id, H5_INDEX_NAME, H5_ITER_INC, list_link, &l), end, "list", file.id, "/");
end:
  return st;
}
