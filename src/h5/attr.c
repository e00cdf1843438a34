/* Attributes: small metadata of an object.  Text is stored with its length, as UTF-8 padded with NUL: the alternative,
 * text of variable length, lies in a heap on whose damage HDF5 crashes or loops.  The root of a file that we make takes any length
 * (shoal_h5_create_on).  Writing an existing attribute replaces its value.  Reading accepts the forms other writers use: text of variable
 * length, any integer size; and long texts of older files, which went on in attributes NAME.1, NAME.2, ... */
#include "base/mem.h"
#include "base/str.h"
#include "h5/h5_impl.h"
#include <stdlib.h>
#include <string.h>

static const char *label(const char *name, char buf[SHOAL_H5_WHERE / 2])
{
  snprintf(buf, SHOAL_H5_WHERE / 2, "@%.*s", SHOAL_H5_WHERE / 2 - 2, name);
  return buf;
}

/* Writes a scalar (n == 0) or a one-dimensional attribute of n values. */
static shoal_status put(hid_t at, const char *name, hid_t stored, hid_t type, size_t n, const void *data)
{
  char at_name[SHOAL_H5_WHERE / 2];
  hsize_t dim = n;
  hid_t space = n ? H5Screate_simple(1, &dim, NULL) : H5Screate(H5S_SCALAR), attribute = H5I_INVALID_HID;
  shoal_status st = SHOAL_OK;
  label(name, at_name);
  if (H5Aexists(at, name) > 0) H5_GOTO(st, H5Adelete(at, name), end, "replace", at, at_name);
  attribute = H5Acreate2(at, name, stored, space, H5P_DEFAULT, H5P_DEFAULT);
  H5_GOTO(st, attribute, end, "create", at, at_name);
  H5_GOTO(st, H5Awrite(attribute, type, data), end, "write", at, at_name);
end:
  shoal_h5_release(attribute);
  shoal_h5_release(space);
  return st;
}

shoal_status shoal_h5_put_string(shoal_h5 at, const char *name, const char *text)
{
  const size_t n = SHOAL_MAX(strlen(text), (size_t)1); /* no type has no bytes */
  shoal_status st = SHOAL_OK;
  shoal_h5_init();
  hid_t type = H5Tcopy(H5T_C_S1);
  H5_GOTO(st, H5Tset_size(type, n), end, "create", at.id, name);
  H5_GOTO(st, H5Tset_strpad(type, H5T_STR_NULLPAD), end, "create", at.id, name);
  H5_GOTO(st, H5Tset_cset(type, H5T_CSET_UTF8), end, "create", at.id, name);
  st = put(at.id, name, type, type, 0, text);
end:
  shoal_h5_release(type);
  return st;
}

shoal_status shoal_h5_put_i64(shoal_h5 at, const char *name, int64_t value)
{
  shoal_h5_init();
  return put(at.id, name, H5T_STD_I64LE, H5T_NATIVE_INT64, 0, &value);
}

shoal_status shoal_h5_put_i64s(shoal_h5 at, const char *name, size_t n, const int64_t *values)
{
  shoal_h5_init();
  SHOAL_CHECK(n > 0, SHOAL_ERR_ARG, "attribute %s needs at least one value", name);
  return put(at.id, name, H5T_STD_I64LE, H5T_NATIVE_INT64, n, values);
}

shoal_status shoal_h5_put_f64s(shoal_h5 at, const char *name, size_t n, const double *values)
{
  shoal_h5_init();
  SHOAL_CHECK(n > 0, SHOAL_ERR_ARG, "attribute %s needs at least one value", name);
  return put(at.id, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, n, values);
}

typedef struct {
  hid_t attribute, type, space;
  H5T_class_t type_class;
  hssize_t n;
} opened;

static void close_opened(opened *o)
{
  shoal_h5_release(o->space);
  shoal_h5_release(o->type);
  shoal_h5_release(o->attribute);
}

static shoal_status open_attribute(hid_t at, const char *name, opened *o)
{
  char at_name[SHOAL_H5_WHERE / 2], where[SHOAL_H5_WHERE];
  shoal_status st = SHOAL_OK;
  label(name, at_name);
  shoal_h5_note(at, at_name);
  *o = (opened){ H5I_INVALID_HID, H5I_INVALID_HID, H5I_INVALID_HID, H5T_NO_CLASS, 0 };
  SHOAL_CHECK(H5Aexists(at, name) > 0, SHOAL_ERR_IO, "there is no attribute %s", shoal_h5_where(at, at_name, where));
  H5_GOTO(st, o->attribute = H5Aopen(at, name, H5P_DEFAULT), fail, "open", at, at_name);
  H5_GOTO(st, o->type = H5Aget_type(o->attribute), fail, "read", at, at_name);
  SHOAL_CHECK_GOTO(st, shoal_h5_type_is_sound(o->type), fail, SHOAL_ERR_IO,
                   "the type of attribute %s does not fit its own size: it is damaged; get the file again",
                   shoal_h5_where(at, at_name, where));
  H5_GOTO(st, o->space = H5Aget_space(o->attribute), fail, "read", at, at_name);
  H5_GOTO(st, o->n = H5Sget_simple_extent_npoints(o->space), fail, "read", at, at_name);
  o->type_class = H5Tget_class(o->type);
  return SHOAL_OK;
fail:
  close_opened(o);
  return st;
}

/* Reads `n` numbers.  An integer is not read from a floating-point attribute, because digits could be lost. */
static shoal_status get_numbers(hid_t at, const char *name, hid_t type, size_t n, void *out)
{
  char at_name[SHOAL_H5_WHERE / 2], where[SHOAL_H5_WHERE];
  opened o;
  shoal_h5_init();
  SHOAL_TRY(open_attribute(at, name, &o));
  shoal_status st = SHOAL_OK;
  label(name, at_name);
  bool integer = H5Tget_class(type) == H5T_INTEGER;
  SHOAL_CHECK_GOTO(st, o.type_class == H5T_INTEGER || (!integer && o.type_class == H5T_FLOAT), end, SHOAL_ERR_IO,
                   "attribute %s is not %s", shoal_h5_where(at, at_name, where), integer ? "an integer" : "a number");
  SHOAL_CHECK_GOTO(st, o.n == (hssize_t)n, end, SHOAL_ERR_IO, "attribute %s has %lld values, %zu are expected",
                   shoal_h5_where(at, at_name, where), (long long)o.n, n);
  H5_GOTO(st, H5Aread(o.attribute, type, out), end, "read", at, at_name);
end:
  close_opened(&o);
  return st;
}

shoal_status shoal_h5_get_i64(shoal_h5 at, const char *name, int64_t *out)
{
  int64_t value = 0;
  SHOAL_TRY(get_numbers(at.id, name, H5T_NATIVE_INT64, 1, &value));
  *out = value;
  return SHOAL_OK;
}

shoal_status shoal_h5_get_i64s(shoal_h5 at, const char *name, size_t n, int64_t *values)
{
  return get_numbers(at.id, name, H5T_NATIVE_INT64, n, values);
}

shoal_status shoal_h5_get_f64s(shoal_h5 at, const char *name, size_t n, double *values)
{
  return get_numbers(at.id, name, H5T_NATIVE_DOUBLE, n, values);
}

/* HDF5 allocates variable-length text with its own allocator, so the caller gets a copy from malloc. */
static herr_t read_variable(const opened *o, char **out)
{
  char *text = NULL;
  herr_t ok = H5Aread(o->attribute, o->type, &text);
  if (ok < 0) return ok;
  *out = strdup(text ? text : "");
  H5Dvlen_reclaim(o->type, o->space, H5P_DEFAULT, &text);
  return ok;
}

static herr_t read_fixed(const opened *o, char **out)
{
  size_t n = H5Tget_size(o->type);
  bool padded_by_space = H5Tget_strpad(o->type) == H5T_STR_SPACEPAD;
  *out = calloc(n + 1, 1);
  if (!*out) return 0;
  herr_t ok = H5Aread(o->attribute, o->type, *out);
  for (size_t i = n; padded_by_space && i > 0 && (*out)[i - 1] == ' '; i--) (*out)[i - 1] = '\0';
  return ok;
}

enum { MOST_PIECES = 100000 };

static shoal_status get_piece(shoal_h5 object, const char *name, char **out)
{
  hid_t at = object.id;
  char at_name[SHOAL_H5_WHERE / 2], where[SHOAL_H5_WHERE];
  char *text = NULL;
  opened o;
  shoal_h5_init();
  SHOAL_TRY(open_attribute(at, name, &o));
  shoal_status st = SHOAL_OK;
  label(name, at_name);
  SHOAL_CHECK_GOTO(st, o.type_class == H5T_STRING && o.n == 1, end, SHOAL_ERR_IO, "attribute %s is not one text",
                   shoal_h5_where(at, at_name, where));
  H5_GOTO(st, H5Tis_variable_str(o.type) > 0 ? read_variable(&o, &text) : read_fixed(&o, &text), end, "read", at,
          at_name);
  SHOAL_CHECK_GOTO(st, text, end, SHOAL_ERR_MEM, "text of attribute %s", shoal_h5_where(at, at_name, where));
  *out = text;
  text = NULL;
end:
  free(text);
  close_opened(&o);
  return st;
}

/* The name of piece i of a text, from 1 on: "config.1". */
static const char *piece_name(const char *name, int i, char buf[SHOAL_H5_WHERE / 2])
{
  snprintf(buf, SHOAL_H5_WHERE / 2, "%s.%d", name, i);
  return buf;
}

shoal_status shoal_h5_get_string(shoal_h5 object, const char *name, char **out)
{
  char buf[SHOAL_H5_WHERE / 2], *text = NULL;
  SHOAL_TRY(get_piece(object, name, &text));
  for (int i = 1; i < MOST_PIECES && shoal_h5_has_attribute(object, piece_name(name, i, buf)); i++) {
    char *piece = NULL;
    shoal_status st = get_piece(object, buf, &piece);
    if (st != SHOAL_OK) {
      free(text);
      return st;
    }
    char *longer = shoal_strdup_printf("%s%s", text, piece);
    free(text);
    free(piece);
    text = longer;
  }
  *out = text;
  return SHOAL_OK;
}

bool shoal_h5_has_attribute(shoal_h5 at, const char *name)
{
  char at_name[SHOAL_H5_WHERE / 2];
  shoal_h5_init();
  shoal_h5_note(at.id, label(name, at_name));
  bool there = H5Aexists(at.id, name) > 0;
  H5Eclear2(H5E_DEFAULT);
  return there;
}

bool shoal_h5_has_attribute_at(shoal_h5 at, const char *object, const char *name)
{
  shoal_h5_init();
  shoal_h5_note(at.id, object);
  const bool there = H5Aexists_by_name(at.id, object, name, H5P_DEFAULT) > 0;
  H5Eclear2(H5E_DEFAULT);
  return there;
}

size_t shoal_h5_attribute_length(shoal_h5 at, const char *name)
{
  if (!shoal_h5_has_attribute(at, name)) return 0;
  hid_t attribute = H5Aopen(at.id, name, H5P_DEFAULT);
  hid_t space = attribute < 0 ? attribute : H5Aget_space(attribute);
  hssize_t n = space < 0 ? 0 : H5Sget_simple_extent_npoints(space);
  shoal_h5_release(space);
  shoal_h5_release(attribute);
  H5Eclear2(H5E_DEFAULT);
  return n > 0 ? (size_t)n : 0;
}
