/* What an element type of a file is, in words: "i32", "text of variable length", "compound {id: i64, label: f32}".
 *
 * Names of members come from the file: they are shown with control characters as escapes, and types inside types only two
 * levels deep. */
#include "base/str.h"
#include "h5/h5_impl.h"
#include <stdio.h>

enum { DEEPEST = 2, MOST_MEMBERS = 4 };

static void add_type(hid_t type, int depth, shoal_str *out);

static void add_member_name(hid_t type, int i, shoal_str *out)
{
  char shown[48];
  char *name = H5Tget_member_name(type, (unsigned)i);
  shoal_str_add(out, "%s%s", i ? ", " : "", name ? shoal_show(name, shown, sizeof shown) : "?");
  H5free_memory(name);
}

/* "{id: i64, label: f32}" of a compound type, "{NO, YES}" of an enumeration */
static void add_members(hid_t type, bool with_types, int depth, shoal_str *out)
{
  int n = H5Tget_nmembers(type);
  shoal_str_add(out, " {");
  for (int i = 0; i < n && i < MOST_MEMBERS; i++) {
    add_member_name(type, i, out);
    if (!with_types) continue;
    hid_t member = H5Tget_member_type(type, (unsigned)i);
    shoal_str_add(out, ": ");
    add_type(member, depth + 1, out);
    shoal_h5_release(member);
  }
  if (n > MOST_MEMBERS) shoal_str_add(out, " and %d more", n - MOST_MEMBERS);
  shoal_str_add(out, "}");
}

static void add_base(hid_t type, int depth, shoal_str *out)
{
  hid_t base = H5Tget_super(type);
  add_type(base, depth + 1, out);
  shoal_h5_release(base);
}

static void add_type(hid_t type, int depth, shoal_str *out)
{
  const size_t size = type < 0 ? 0 : H5Tget_size(type);
  if (depth > DEEPEST) {
    shoal_str_add(out, "...");
    return;
  }
  switch (type < 0 ? H5T_NO_CLASS : H5Tget_class(type)) {
  case H5T_INTEGER:
    shoal_str_add(out, "%c%zu", H5Tget_sign(type) == H5T_SGN_NONE ? 'u' : 'i', 8 * size);
    break;
  case H5T_FLOAT:
    shoal_str_add(out, "f%zu", 8 * size);
    break;
  case H5T_STRING:
    if (H5Tis_variable_str(type) > 0)
      shoal_str_add(out, "text of variable length");
    else
      shoal_str_add(out, "text of %zu bytes", size);
    break;
  case H5T_COMPOUND:
    shoal_str_add(out, "compound");
    add_members(type, true, depth, out);
    break;
  case H5T_ENUM:
    shoal_str_add(out, "enumeration");
    add_members(type, false, depth, out);
    break;
  case H5T_VLEN:
    shoal_str_add(out, "lists of variable length of ");
    add_base(type, depth, out);
    break;
  case H5T_ARRAY:
    shoal_str_add(out, "arrays of ");
    add_base(type, depth, out);
    break;
  case H5T_REFERENCE:
    shoal_str_add(out, "references");
    break;
  case H5T_OPAQUE:
    shoal_str_add(out, "opaque data of %zu bytes", size);
    break;
  case H5T_BITFIELD:
    shoal_str_add(out, "bit fields of %zu byte%s", size, size == 1 ? "" : "s");
    break;
  default:
    shoal_str_add(out, "an unknown type of %zu bytes", size);
  }
}

/* Whether every member is a number, or a number, a text or an enumeration. */
static bool has_members(hid_t type, bool only_numbers)
{
  bool fits = true;
  for (int i = 0, n = H5Tget_nmembers(type); i < n && fits; i++) {
    H5T_class_t class = H5Tget_member_class(type, (unsigned)i);
    bool number = class == H5T_INTEGER || class == H5T_FLOAT;
    fits = number || (!only_numbers && (class == H5T_STRING || class == H5T_ENUM));
  }
  return fits;
}

static shoal_h5_class class_of(hid_t type)
{
  switch (H5Tget_class(type)) {
  case H5T_INTEGER:
    return SHOAL_H5_INTEGER;
  case H5T_FLOAT:
    return SHOAL_H5_FLOAT;
  case H5T_ENUM:
    return SHOAL_H5_ENUM;
  case H5T_STRING:
    return SHOAL_H5_TEXT;
  case H5T_BITFIELD:
    return SHOAL_H5_BITS;
  case H5T_COMPOUND:
    return has_members(type, false) ? SHOAL_H5_RECORD : SHOAL_H5_OTHER;
  default:
    return SHOAL_H5_OTHER;
  }
}

/* Whether the bits of a number lie in its bytes. */
static bool number_is_sound(hid_t type)
{
  const int offset = H5Tget_offset(type);
  const size_t bits = 8 * H5Tget_size(type), used = H5Tget_precision(type);
  size_t sign, exponent, exponent_bits, fraction, fraction_bits;
  if (offset < 0 || used == 0 || used > bits || (size_t)offset > bits - used) return false;
  if (H5Tget_class(type) != H5T_FLOAT) return true;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_bits, &fraction, &fraction_bits) < 0) return false;
  return sign < bits && exponent < bits && fraction < bits && exponent_bits <= bits - exponent &&
         fraction_bits <= bits - fraction;
}

static bool is_sound(hid_t type, int depth);

static bool part_is_sound(hid_t part, size_t offset, size_t n, size_t whole, int depth)
{
  size_t bytes;
  bool sound =
      part >= 0 && !__builtin_mul_overflow(n, H5Tget_size(part), &bytes) && bytes <= whole && offset <= whole - bytes;
  sound = sound && is_sound(part, depth + 1);
  shoal_h5_release(part);
  return sound;
}

static bool is_sound(hid_t type, int depth)
{
  enum { MOST_DEPTH = 16 };
  hsize_t dims[H5S_MAX_RANK];
  const size_t size = H5Tget_size(type);
  bool sound = size > 0 && depth < MOST_DEPTH;
  size_t n = 1;
  if (!sound) return false;
  switch (H5Tget_class(type)) {
  case H5T_INTEGER:
  case H5T_FLOAT:
  case H5T_BITFIELD:
    return number_is_sound(type);
  case H5T_COMPOUND:
    for (int i = 0, members = H5Tget_nmembers(type); i < members && sound; i++)
      sound =
          part_is_sound(H5Tget_member_type(type, (unsigned)i), H5Tget_member_offset(type, (unsigned)i), 1, size, depth);
    return sound;
  case H5T_ARRAY:
    for (int i = 0, ndim = H5Tget_array_dims2(type, dims); i < ndim && sound; i++)
      sound = !__builtin_mul_overflow(n, dims[i], &n);
    return sound && part_is_sound(H5Tget_super(type), 0, n, size, depth);
  case H5T_ENUM:
    return part_is_sound(H5Tget_super(type), 0, 1, size, depth);
  default:
    return true;
  }
}

bool shoal_h5_type_is_sound(hid_t type)
{
  bool sound = is_sound(type, 0);
  H5Eclear2(H5E_DEFAULT);
  return sound;
}

void shoal_h5_describe(hid_t type, shoal_h5_facts *f)
{
  shoal_str text = { 0 };
  f->class = class_of(type);
  add_type(type, 0, &text);
  snprintf(f->described, sizeof f->described, "%s", text.text);
  shoal_str_free(&text);
  if (f->class != SHOAL_H5_RECORD) return;
  f->only_numbers = has_members(type, true);
  if (H5Tget_nmembers(type) == 1) add_member_name(type, 0, &text);
  snprintf(f->member, sizeof f->member, "%s", text.text ? text.text : "");
  shoal_str_free(&text);
}
