/* The classes of a folder of images: the names of the folders that hold an image for training, in sorted order (by value if all are
 * numbers), so that an empty folder leaves no gap between their numbers; or those of a model, where a class that no folder has keeps its
 * number, and images in one folder that is no class have no labels. */
#include "base/alike.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/image_set.h"
#include "data/images_table.h"
#include "data/labels.h"
#include "data/like.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Numbers come first, by value, as "10" after "9"; all else by its bytes. */
static int by_class(const void *a, const void *b)
{
  const char *p = *(char *const *)a, *q = *(char *const *)b;
  int64_t x = 0, y = 0;
  const bool p_counts = shoal_parse_i64(p, &x) == SHOAL_OK, q_counts = shoal_parse_i64(q, &y) == SHOAL_OK;
  if (p_counts != q_counts) return q_counts - p_counts;
  return x != y ? (x > y) - (x < y) : strcmp(p, q);
}

static bool is_one_of(const char *name, const char *const *words)
{
  while (*words && strcasecmp(name, *words) != 0) words++;
  return *words != NULL;
}

shoal_status shoal_image_set_refuse_masks(const shoal_image_set *m)
{
  static const char *const images[] = { "images", "image", "imgs", "img", "JPEGImages", "inputs", NULL };
  static const char *const masks[] = {
    "masks", "mask",         "labels",       "label",       "annotations",       "annotation",
    "gt",    "ground_truth", "ground-truth", "groundtruth", "SegmentationClass", NULL
  };
  const char *image = NULL, *mask = NULL, *name;
  for (size_t i = 0; i < m->n_folders; i++) {
    name = shoal_path_base(m->folders[i].path);
    if (is_one_of(name, images))
      image = name;
    else if (is_one_of(name, masks))
      mask = name;
    else
      return SHOAL_OK;
  }
  SHOAL_CHECK(
      !image || !mask || m->like.path, SHOAL_ERR_IO,
      "%s has the folders %s and %s, as data sets for segmentation or detection have them, and a network of Shoal "
      "learns one class for each image: put the images into a folder for each class; if these two are classes, "
      "rename one",
      m->folder, image, mask);
  return SHOAL_OK;
}

shoal_status shoal_image_set_refuse_listed(const shoal_image_set *m)
{
  const shoal_class_folder *one = NULL;
  for (size_t i = 0; i < m->n_folders; i++) {
    const shoal_class_folder *f = &m->folders[i];
    if (f->images && one && strcmp(shoal_path_base(one->path), shoal_path_base(f->path)) != 0) return SHOAL_OK;
    if (f->images) one = f;
  }
  char *command = one && !m->like.path ? shoal_images_table_command(&m->tables) : NULL;
  if (!command) return SHOAL_OK;
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "%s has all images in one folder, %s, and %s tells their classes: %s",
                               m->folder, one->path, m->tables.at[0], command);
  free(command);
  return st;
}

/* A data set has the names of its classes one per line. */
static shoal_status refuse_line_break(const char *name)
{
  char shown[80];
  return SHOAL_FAIL(SHOAL_ERR_IO,
                    "the name of the folder \"%s\" has a line break, which a class cannot have: rename it",
                    shoal_show(name, shown, sizeof shown));
}

/* All classes of a model, or none if the images lie in one folder that is no class of it.  A folder whose name is almost that of a class
 * is meant to be that. */
static shoal_status take_classes(shoal_image_set *m)
{
  const shoal_images_like *l = &m->like;
  const shoal_class_folder *only = m->folders;
  size_t folders = 0;
  for (size_t i = 0; i < m->n_folders; i++) {
    if (!m->folders[i].images) continue;
    only = &m->folders[i];
    folders++;
  }
  const char *name = shoal_path_base(only->path);
  if (folders == 1 && shoal_like_class(&l->names, l->classes, name) < 0 &&
      !shoal_nearest(name, (const char *const *)l->names.at, l->names.n)) {
    shoal_info("%s is no class of %s: its images have no labels", only->path, l->path);
    return shoal_texts_add(&m->classes, SHOAL_LABELS_NONE);
  }
  for (size_t k = 0; k < l->names.n; k++) SHOAL_TRY(shoal_texts_add(&m->classes, l->names.at[k]));
  return SHOAL_OK;
}

/* Whether the images have no labels, so that there is no class to be found. */
static bool is_unlabelled(const shoal_image_set *m)
{
  return m->like.path && m->classes.n == 1 && strcmp(m->classes.at[0], SHOAL_LABELS_NONE) == 0;
}

shoal_status shoal_image_set_name_classes(shoal_image_set *m)
{
  if (m->like.path) return take_classes(m);
  shoal_texts names = { 0 };
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; st == SHOAL_OK && i < m->n_folders; i++)
    if (m->folders[i].images && !m->folders[i].test) st = shoal_texts_add(&names, shoal_path_base(m->folders[i].path));
  if (st == SHOAL_OK && names.n) qsort(names.at, names.n, sizeof *names.at, by_class);
  for (size_t i = 0; st == SHOAL_OK && i < names.n; i++) {
    if (strpbrk(names.at[i], "\r\n")) st = refuse_line_break(names.at[i]);
    if (st == SHOAL_OK && (i == 0 || strcmp(names.at[i], names.at[i - 1]) != 0))
      st = shoal_texts_add(&m->classes, names.at[i]);
  }
  shoal_texts_free(&names);
  return st;
}

const shoal_class_folder *shoal_image_set_trained(const shoal_image_set *m, const char *name)
{
  for (size_t i = 0; i < m->n_folders; i++)
    if (!m->folders[i].test && strcmp(shoal_path_base(m->folders[i].path), name) == 0) return &m->folders[i];
  return NULL;
}

/* The same name with its accents written otherwise, or in capitals: two folders that look like one. */
static shoal_status refuse_alike(const shoal_class_folder *tested, const shoal_class_folder *trained)
{
  const char *name = shoal_path_base(trained->path);
  const size_t folder = (size_t)(shoal_path_base(tested->path) - tested->path);
  char what[96];
  shoal_str command = { 0 };
  char *new_path = shoal_strdup_printf("%.*s%s", (int)folder, tested->path, name);
  shoal_str_add(&command, "mv ");
  shoal_str_add_word(&command, tested->path);
  shoal_str_add(&command, " ");
  shoal_str_add_word(&command, new_path);
  shoal_status st =
      SHOAL_FAIL(SHOAL_ERR_IO,
                 "%s has %zu images, but the training split has none under this name, which differs from that of %s "
                 "only in %s: if they are one class, %s",
                 tested->path, tested->images, trained->path,
                 shoal_difference(name, shoal_path_base(tested->path), what, sizeof what), command.text);
  shoal_str_free(&command);
  free(new_path);
  return st;
}

/* A class cannot be tested without having been trained.  Its folder may be empty, missing, or be called otherwise. */
static shoal_status refuse_untrained(const shoal_image_set *m, const shoal_class_folder *tested)
{
  const char *name = shoal_path_base(tested->path);
  const shoal_class_folder *trained = shoal_image_set_trained(m, name);
  const char *near = trained ? NULL : shoal_nearest(name, (const char *const *)m->classes.at, m->classes.n);
  char none[128];
  for (size_t i = 0; i < m->n_folders && !trained; i++)
    if (!m->folders[i].test && m->folders[i].images &&
        shoal_look_alike(shoal_path_base(m->folders[i].path), shoal_path_base(tested->path)))
      return refuse_alike(tested, &m->folders[i]);
  return SHOAL_FAIL(
      SHOAL_ERR_IO,
      "%s has %zu images, but the training split has none (%s%s%s): add images to train with, or remove %s",
      tested->path, tested->images, near ? "did you mean \"" : "its folder ",
      near      ? near
      : trained ? shoal_image_set_why_none(trained, none, sizeof none)
                : "is missing",
      near ? "\"?" : "", tested->path);
}

/* A class that the model does not know, with the one that is mostly meant. */
static shoal_status refuse_unknown(const shoal_image_set *m, const shoal_class_folder *f)
{
  const shoal_images_like *l = &m->like;
  const char *near = shoal_nearest(shoal_path_base(f->path), (const char *const *)l->names.at, l->names.n);
  char shown[48], meant[80] = "";
  if (near) snprintf(meant, sizeof meant, " (did you mean \"%s\"?)", shoal_show(near, shown, sizeof shown));
  return SHOAL_FAIL(SHOAL_ERR_IO,
                    "%s has %zu images, but %s has no such class%s: rename the folder, or remove it; images without "
                    "labels are all in one folder, of another name",
                    f->path, f->images, l->path, meant);
}

/* The class of a folder, -1 if there is none. */
static int32_t class_of(const shoal_image_set *m, const char *name)
{
  if (is_unlabelled(m)) return 0;
  if (m->like.path) return shoal_like_class(&m->like.names, m->like.classes, name);
  char **found = m->classes.n ? bsearch(&name, m->classes.at, m->classes.n, sizeof *found, by_class) : NULL;
  return found ? (int32_t)(found - m->classes.at) : -1;
}

shoal_status shoal_image_set_number(shoal_image_set *m)
{
  size_t at = 0;
  for (size_t i = 0; i < m->n_folders; i++) {
    const shoal_class_folder *f = &m->folders[i];
    if (!f->images) continue;
    const int32_t class = class_of(m, shoal_path_base(f->path));
    if (class < 0) return m->like.path ? refuse_unknown(m, f) : refuse_untrained(m, f);
    for (size_t k = 0; k < f->images; k++) m->y[at++] = class;
  }
  return SHOAL_OK;
}
