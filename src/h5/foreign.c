/* Rejects files that make their reader open other files or load code.
 *
 * An HDF5 file can refer to other files (external links, external storage, virtual data sets) and to code (filter
 * plug-ins).  Data sets and checkpoints are exchanged between users, so none of that is followed: a walk over all links
 * rejects such a file before anything is read, and each read checks its own data set again.  Files of other programs may
 * hold more than what is used of them: there only the objects that are read are judged. */
#include "h5/h5_impl.h"
#include <stdio.h>
#include <string.h>

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

const char *shoal_h5_foreign(hid_t dcpl, char buf[SHOAL_H5_REASON])
{
  H5D_layout_t layout = H5Pget_layout(dcpl);
  if (layout == H5D_VIRTUAL) return "is a virtual data set, made of other files";
  if (layout < 0) return "has an unknown storage layout";
  if (H5Pget_external_count(dcpl) > 0) return "keeps its data in external files";
  int n = H5Pget_nfilters(dcpl);
  for (int i = 0; i < n; i++) {
    unsigned flags, config;
    size_t values = 0;
    char name[64] = "";
    H5Z_filter_t id = H5Pget_filter2(dcpl, (unsigned)i, &flags, &values, NULL, sizeof name, name, &config);
    if (id == H5Z_FILTER_DEFLATE || id == H5Z_FILTER_SHUFFLE || id == H5Z_FILTER_FLETCHER32) continue;
    snprintf(buf, SHOAL_H5_REASON, "uses filter %d%s%s%s; only deflate, shuffle and fletcher32 are read", (int)id,
             name[0] ? " (" : "", name, name[0] ? ")" : "");
    return buf;
  }
  return NULL;
}

typedef struct {
  const char *path;
  shoal_status st;
} walk;

static shoal_status check_dataset(hid_t set, const char *name, const char *path)
{
  char buf[SHOAL_H5_REASON];
  hid_t dcpl = H5Dget_create_plist(set);
  const char *why = dcpl < 0 ? "has no readable properties" : shoal_h5_foreign(dcpl, buf);
  if (dcpl >= 0) H5Pclose(dcpl);
  SHOAL_CHECK(!why, SHOAL_ERR_IO, "data set /%s in %s %s", name, path, why);
  return SHOAL_OK;
}

static shoal_status check_link(hid_t at, const char *name, const H5L_info_t *link, const char *path)
{
  if (link->type == H5L_TYPE_SOFT) return SHOAL_OK; /* points into the same file, whose objects are all visited */
  SHOAL_CHECK(link->type == H5L_TYPE_HARD, SHOAL_ERR_IO, "/%s in %s is %s; copy the data into one file (h5copy)", name,
              path, link->type == H5L_TYPE_EXTERNAL ? "a link to another file" : "a link of an unknown kind");
  hid_t object = H5Oopen(at, name, H5P_DEFAULT);
  if (object < 0) return shoal_h5_fail(__FILE__, __LINE__, "cannot open /%s in %s", name, path);
  shoal_status st = H5Iget_type(object) == H5I_DATASET ? check_dataset(object, name, path) : SHOAL_OK;
  H5Oclose(object);
  return st;
}

static herr_t visit(hid_t at, const char *name, const H5L_info_t *link, void *data)
{
  walk *w = data;
  w->st = check_link(at, name, link, w->path);
  return w->st == SHOAL_OK ? 0 : 1;
}

shoal_status shoal_h5_refuse_foreign(shoal_h5 file, const char *path)
{
  shoal_h5_init();
  walk w = { .path = path, .st = SHOAL_OK };
  if (H5Lvisit(file.id, H5_INDEX_NAME, H5_ITER_NATIVE, visit, &w) < 0 && w.st == SHOAL_OK)
    return shoal_h5_fail(__FILE__, __LINE__, "cannot walk through %s", path);
  return w.st;
}

/* HDF5 has no call that follows a path and tells of external links on the way, so each part is looked at. */
shoal_status shoal_h5_refuse_foreign_at(shoal_h5 file, const char *path, const char *name)
{
  char part[SHOAL_H5_WHERE];
  size_t n = strlen(name);
  shoal_status st = SHOAL_OK;
  shoal_h5_init();
  SHOAL_CHECK(n > 0 && n < sizeof part, SHOAL_ERR_IO, "a name of %zu bytes in %s is too long", n, path);
  memcpy(part, name, n + 1);
  for (size_t i = 1; st == SHOAL_OK && i <= n; i++) { /* for "a/b" check "a", then "a/b" */
    if ((name[i] != '/' && name[i] != '\0') || name[i - 1] == '/') continue;
    H5L_info_t link;
    part[i] = '\0';
    if (H5Lget_info(file.id, part, &link, H5P_DEFAULT) < 0) break; /* not there: for its reader to say */
    st = check_link(file.id, part, &link, path);
    part[i] = name[i];
  }
  H5Eclear2(H5E_DEFAULT);
  return st;
}
