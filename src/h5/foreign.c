/* Rejects files that make their reader open other files or load code.
 *
 * An HDF5 file can refer to other files (external links, external storage, virtual data sets) and to code (filter
 * plug-ins).  Data sets and checkpoints are exchanged between users, so none of that is followed: a walk over all links
 * rejects such a file before anything is read, and each read checks its own data set again.  Files of other programs may
 * hold more than what is used of them: there only the objects that are read are judged.
 *
 * The other file is named, for it may be one that its owner did not mean to show, and copying it into a plain file is not
 * advised: a copy that is passed on would hold what the maker of the trap wanted. */
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "h5/h5_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char other_cure[] = "ask its maker for a file that holds its data itself";

/* Callback of HDF5 before it follows an external link; a negative value refuses. */
static herr_t refuse_to_follow(const char *parent_file, const char *parent_group, const char *child_file,
                               const char *child_object, unsigned *flags, hid_t fapl, void *data)
{
  return -1;
}

hid_t shoal_h5_stay_inside(hid_t property_class)
{
  hid_t list = H5Pcreate(property_class);
  if (list >= 0 && H5Pset_elink_cb(list, refuse_to_follow, NULL) < 0) {
    H5Pclose(list);
    return H5I_INVALID_HID;
  }
  return list;
}

enum { OTHER = 256, OTHER_SHOWN = 160 };

/* "is a virtual data set of another file, "a.h5" and 2 more, which is not read": of n names of files. */
static const char *name_others(const char *how, const char *first, size_t n, char buf[SHOAL_H5_REASON])
{
  char shown[OTHER_SHOWN], more[32] = "";
  if (n > 1) snprintf(more, sizeof more, " and %zu more", n - 1);
  snprintf(buf, SHOAL_H5_REASON, "%s another file, \"%s\"%s, which is not read: %s", how,
           shoal_show(first, shown, sizeof shown), more, other_cure);
  return buf;
}

static const char *name_sources(hid_t dcpl, char buf[SHOAL_H5_REASON])
{
  char first[OTHER] = "", name[OTHER];
  size_t maps = 0, others = 0;
  if (H5Pget_virtual_count(dcpl, &maps) < 0) maps = 0;
  for (size_t i = 0; i < maps; i++) {
    bool here = H5Pget_virtual_filename(dcpl, i, name, sizeof name) < 0 || strcmp(name, ".") == 0;
    if (!here && others++ == 0) memcpy(first, name, sizeof first);
  }
  if (others) return name_others("is a virtual data set of", first, others, buf);
  snprintf(buf, SHOAL_H5_REASON, "is a virtual data set, a view of other arrays: %s", other_cure);
  return buf;
}

const char *shoal_h5_foreign(hid_t dcpl, bool *packed, char buf[SHOAL_H5_REASON])
{
  H5D_layout_t layout = H5Pget_layout(dcpl);
  int others = layout < 0 ? 0 : H5Pget_external_count(dcpl);
  *packed = false;
  if (layout == H5D_VIRTUAL) return name_sources(dcpl, buf);
  if (layout < 0) return "has an unknown storage layout: the file is damaged; get it again";
  if (others > 0) {
    char first[OTHER] = "?";
    if (H5Pget_external(dcpl, 0, sizeof first - 1, first, NULL, NULL) < 0) strcpy(first, "?");
    return name_others("keeps its data in", first, (size_t)others, buf);
  }
  int n = H5Pget_nfilters(dcpl);
  for (int i = 0; i < n; i++) {
    unsigned flags, config;
    size_t values = 0;
    char name[64] = "", shown[OTHER_SHOWN];
    H5Z_filter_t id = H5Pget_filter2(dcpl, (unsigned)i, &flags, &values, NULL, sizeof name, name, &config);
    if (shoal_h5_filter_name(id)) continue;
    snprintf(buf, SHOAL_H5_REASON, "uses filter %d%s%s%s; only deflate, shuffle and fletcher32 are read", (int)id,
             name[0] ? " (" : "", shoal_show(name, shown, sizeof shown), name[0] ? ")" : "");
    *packed = true;
    return buf;
  }
  return NULL;
}

typedef struct {
  shoal_h5 file;
  const char *path;
  bool packed; /* what was refused only needs a filter */
  shoal_status st;
} walk;

static shoal_status check_dataset(hid_t set, const char *name, walk *w)
{
  char buf[SHOAL_H5_REASON];
  hid_t dcpl = H5Dget_create_plist(set);
  const char *why = dcpl < 0 ? "has no readable properties: the file is damaged; get it again"
                             : shoal_h5_foreign(dcpl, &w->packed, buf);
  if (dcpl >= 0) H5Pclose(dcpl);
  SHOAL_CHECK(!why, SHOAL_ERR_IO, "data set /%s in %s %s", name, w->path, why);
  return SHOAL_OK;
}

static char *link_value(hid_t at, const char *name, const H5L_info_t *link)
{
  char *value;
  if (SHOAL_ALLOC(link->u.val_size + 1, &value) != SHOAL_OK) return NULL;
  if (H5Lget_val(at, name, value, link->u.val_size, H5P_DEFAULT) >= 0) return value;
  free(value);
  return NULL;
}

static shoal_status refuse_link(hid_t at, const char *name, const H5L_info_t *link, walk *w)
{
  const char *file = "?", *object;
  char shown[OTHER_SHOWN];
  unsigned flags;
  SHOAL_CHECK(link->type == H5L_TYPE_EXTERNAL, SHOAL_ERR_IO, "/%s in %s is a link of an unknown kind", name, w->path);
  char *value = link_value(at, name, link);
  if (!value || H5Lunpack_elink_val(value, link->u.val_size, &flags, &file, &object) < 0) file = "?";
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "/%s in %s is a link to another file, \"%s\", which is not followed: %s",
                               name, w->path, shoal_show(file, shown, sizeof shown), other_cure);
  free(value);
  return st;
}

/* Of a soft link nothing is checked here: it points into the same file. */
static shoal_status check_link(hid_t at, const char *name, const H5L_info_t *link, walk *w)
{
  shoal_h5_note(at, name);
  if (link->type == H5L_TYPE_SOFT) return SHOAL_OK;
  if (link->type != H5L_TYPE_HARD) return refuse_link(at, name, link, w);
  hid_t object = H5Oopen(at, name, H5P_DEFAULT);
  if (object < 0)
    return shoal_error_append(shoal_h5_fail(__FILE__, __LINE__, "cannot open /%s in %s", name, w->path),
                              "; the file is damaged, or newer than this HDF5: get it again");
  shoal_status st = H5Iget_type(object) == H5I_DATASET ? check_dataset(object, name, w) : SHOAL_OK;
  H5Oclose(object);
  return st;
}

static herr_t visit(hid_t at, const char *name, const H5L_info_t *link, void *data)
{
  walk *w = data;
  w->st = check_link(at, name, link, w);
  return w->st == SHOAL_OK ? 0 : 1;
}

/* Soft links are not followed: all objects of the file are visited under their own names. */
shoal_status shoal_h5_refuse_foreign(shoal_h5 file, const char *path)
{
  shoal_h5_init();
  walk w = { .file = file, .path = path, .st = SHOAL_OK };
  if (H5Lvisit(file.id, H5_INDEX_NAME, H5_ITER_NATIVE, visit, &w) < 0 && w.st == SHOAL_OK)
    return shoal_h5_fail(__FILE__, __LINE__, "cannot walk through %s", path);
  return w.st;
}

static shoal_status check_path(walk *w, const char *name, int depth);

/* Where a soft link leads: its value in place of the link, then the rest of the path. */
static shoal_status check_soft(walk *w, const char *link_name, const H5L_info_t *link, const char *rest, int depth)
{
  enum { DEEPEST = 16 }; /* as HDF5 itself */
  char *value = link_value(w->file.id, link_name, link);
  const char *last = strrchr(link_name, '/');
  if (!value || depth >= DEEPEST) {
    free(value);
    return SHOAL_OK; /* leads nowhere: for its reader to say */
  }
  int parent = value[0] == '/' || !last ? 0 : (int)(last - link_name + 1);
  char *name = shoal_strdup_printf("%.*s%s%s", parent, link_name, value, rest);
  shoal_status st = check_path(w, name, depth + 1);
  free(name);
  free(value);
  return st;
}

/* HDF5 has no call that follows a path and tells of external links on the way, so each part is looked at. */
static shoal_status check_path(walk *w, const char *name, int depth)
{
  char part[SHOAL_H5_WHERE];
  name += strspn(name, "/");
  size_t n = strlen(name);
  SHOAL_CHECK(n < sizeof part, SHOAL_ERR_IO, "a name of %zu bytes in %s is too long", n, w->path);
  memcpy(part, name, n + 1);
  for (size_t i = 1; i <= n; i++) { /* for "a/b" check "a", then "a/b" */
    if ((name[i] != '/' && name[i] != '\0') || name[i - 1] == '/') continue;
    H5L_info_t link;
    part[i] = '\0';
    if (H5Lget_info(w->file.id, part, &link, H5P_DEFAULT) < 0) break; /* not there: for its reader to say */
    if (link.type == H5L_TYPE_SOFT) return check_soft(w, part, &link, name + i, depth);
    SHOAL_TRY(check_link(w->file.id, part, &link, w));
    part[i] = name[i];
  }
  return SHOAL_OK;
}

shoal_status shoal_h5_refuse_foreign_at(shoal_h5 file, const char *path, const char *name, bool *packed)
{
  shoal_h5_init();
  walk w = { .file = file, .path = path, .st = SHOAL_OK };
  shoal_status st = check_path(&w, name, 0);
  H5Eclear2(H5E_DEFAULT);
  *packed = w.packed;
  return st;
}
