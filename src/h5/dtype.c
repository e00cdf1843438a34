/* Element types: their names and sizes, and the HDF5 data types of numbers, structs and text.
 *
 * The file type (little-endian) and the memory type of a struct are made from one table of members, so they agree. */
#include "base/mem.h"
#include "h5/h5_impl.h"

static const struct {
  const char *name;
  size_t size;
} types[] = {
  [SHOAL_F32] = { "f32", 4 }, [SHOAL_F64] = { "f64", 8 }, [SHOAL_I32] = { "i32", 4 }, [SHOAL_I64] = { "i64", 8 },
  [SHOAL_U8] = { "u8", 1 },   [SHOAL_U16] = { "u16", 2 }, [SHOAL_U32] = { "u32", 4 }, [SHOAL_U64] = { "u64", 8 },
};

size_t shoal_dtype_size(shoal_dtype t)
{
  return (size_t)t < SHOAL_COUNT(types) ? types[t].size : 0;
}

const char *shoal_dtype_name(shoal_dtype t)
{
  return (size_t)t < SHOAL_COUNT(types) ? types[t].name : "?";
}

hid_t shoal_h5_stored_type(shoal_dtype t)
{
  switch (t) {
  case SHOAL_F32:
    return H5T_IEEE_F32LE;
  case SHOAL_F64:
    return H5T_IEEE_F64LE;
  case SHOAL_I32:
    return H5T_STD_I32LE;
  case SHOAL_I64:
    return H5T_STD_I64LE;
  case SHOAL_U8:
    return H5T_STD_U8LE;
  case SHOAL_U16:
    return H5T_STD_U16LE;
  case SHOAL_U32:
    return H5T_STD_U32LE;
  case SHOAL_U64:
    return H5T_STD_U64LE;
  }
  return H5I_INVALID_HID;
}

hid_t shoal_h5_native_type(shoal_dtype t)
{
  switch (t) {
  case SHOAL_F32:
    return H5T_NATIVE_FLOAT;
  case SHOAL_F64:
    return H5T_NATIVE_DOUBLE;
  case SHOAL_I32:
    return H5T_NATIVE_INT32;
  case SHOAL_I64:
    return H5T_NATIVE_INT64;
  case SHOAL_U8:
    return H5T_NATIVE_UINT8;
  case SHOAL_U16:
    return H5T_NATIVE_UINT16;
  case SHOAL_U32:
    return H5T_NATIVE_UINT32;
  case SHOAL_U64:
    return H5T_NATIVE_UINT64;
  }
  return H5I_INVALID_HID;
}

/* A UTF-8 string type of `bytes` bytes, or of variable length (H5T_VARIABLE). */
static hid_t text_type(size_t bytes)
{
  hid_t text = H5Tcopy(H5T_C_S1);
  if (text < 0 || (H5Tset_size(text, bytes) >= 0 && H5Tset_cset(text, H5T_CSET_UTF8) >= 0)) return text;
  shoal_h5_release(text);
  return H5I_INVALID_HID;
}

/* Returns a new type for every member, also for plain numbers, so that the caller can always release it. */
static hid_t member_type(const shoal_h5_member *m, bool stored)
{
  const hsize_t count = m->count;
  if (m->text_bytes) return text_type(m->text_bytes);
  hid_t one = stored ? shoal_h5_stored_type(m->type) : shoal_h5_native_type(m->type);
  return count ? H5Tarray_create2(one, 1, &count) : H5Tcopy(one);
}

static hid_t struct_type(const shoal_h5_struct *s, bool stored)
{
  hid_t whole = H5Tcreate(H5T_COMPOUND, s->bytes);
  for (size_t i = 0; whole >= 0 && i < s->n_members; i++) {
    hid_t part = member_type(&s->members[i], stored);
    herr_t ok = part < 0 ? -1 : H5Tinsert(whole, s->members[i].name, s->members[i].offset, part);
    shoal_h5_release(part);
    if (ok >= 0) continue;
    shoal_h5_release(whole);
    whole = H5I_INVALID_HID;
  }
  return whole;
}

hid_t shoal_h5_row_type(const shoal_h5_row *row, bool stored)
{
  if (row->members) return struct_type(row->members, stored);
  if (row->text) return text_type(row->text_bytes ? row->text_bytes : H5T_VARIABLE);
  return H5Tcopy(stored ? shoal_h5_stored_type(row->type) : shoal_h5_native_type(row->type));
}
