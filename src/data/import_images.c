/* A folder of images, one folder inside it per class:
 *
 *     flowers/daisy/1.png    or    flowers/train/daisy/1.png
 *     flowers/rose/2.jpg           flowers/test/rose/2.jpg      (also val)
 *
 * Classes are the names of the folders in sorted order.  All images must have one size; if one has colours, all get three
 * channels.  Files that are neither PNG nor JPEG are counted and left out; hidden files are ignored. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/image.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
  shoal_texts files; /* paths, in the order of the samples */
  int32_t *y;        /* [files.n] */
  uint8_t *test;
  size_t cap;
  shoal_texts classes;
  shoal_image form; /* of all images */
  char *first;      /* the image whose size all must have; borrowed */
  size_t skipped;
} images;

/* ---- folders ---- */

static int by_name(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The folders, or the files, inside a folder, sorted; without those whose names begin with a dot. */
static shoal_status list_folder(const char *folder, bool folders, shoal_texts *out)
{
  shoal_status st = SHOAL_OK;
  DIR *d = opendir(folder);
  SHOAL_CHECK(d, SHOAL_ERR_IO, "cannot read the folder %s: %s", folder, strerror(errno));
  for (struct dirent *e; st == SHOAL_OK && (e = readdir(d)) != NULL;) {
    struct stat info;
    if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &info, 0) != 0) continue;
    if (folders ? S_ISDIR(info.st_mode) : !S_ISDIR(info.st_mode)) st = shoal_texts_add(out, e->d_name);
  }
  closedir(d);
  if (st == SHOAL_OK) shoal_texts_sort(out, 0);
  return st;
}

/* ---- samples ---- */

static shoal_status add_sample(images *m, const char *path, int32_t class, bool test)
{
  shoal_image i;
  SHOAL_TRY(shoal_image_look(path, &i));
  if (i.width == 0) {
    if (m->skipped++ == 0) shoal_warn("%s is neither PNG nor JPEG: left out", path);
    return SHOAL_OK;
  }
  if (m->files.n == m->cap) {
    size_t cap = m->cap ? 2 * m->cap : 1024;
    int32_t *y = realloc(m->y, cap * sizeof *y);
    if (y) m->y = y;
    uint8_t *t = realloc(m->test, cap);
    if (t) m->test = t;
    SHOAL_CHECK(y && t, SHOAL_ERR_MEM, "out of memory for %zu images", cap);
    m->cap = cap;
  }
  m->y[m->files.n] = class;
  m->test[m->files.n] = test;
  SHOAL_TRY(shoal_texts_add(&m->files, path));
  if (m->files.n == 1) {
    m->form = i;
    m->first = m->files.at[0];
  }
  SHOAL_CHECK(i.width == m->form.width && i.height == m->form.height, SHOAL_ERR_IO,
              "%s is %d x %d, but %s is %d x %d: all images must have one size; ImageMagick makes it: mogrify -resize "
              "'%dx%d!' FILES",
              path, i.width, i.height, m->first, m->form.width, m->form.height, m->form.width, m->form.height);
  m->form.channels = SHOAL_MAX(m->form.channels, i.channels);
  return SHOAL_OK;
}

static shoal_status add_class(images *m, const char *folder, int32_t class, bool test)
{
  shoal_texts files = { 0 };
  shoal_status st = list_folder(folder, false, &files);
  for (size_t i = 0; st == SHOAL_OK && i < files.n; i++) {
    char *path = shoal_path_join(folder, files.at[i]);
    st = add_sample(m, path, class, test);
    free(path);
  }
  shoal_texts_free(&files);
  return st;
}

/* All classes of a split.  The first split names the classes; another may lack some, but has no others. */
static shoal_status add_split(images *m, const char *folder, bool test)
{
  shoal_texts here = { 0 };
  shoal_status st = list_folder(folder, true, &here);
  if (st == SHOAL_OK && here.n == 0)
    st = SHOAL_FAIL(SHOAL_ERR_IO, "%s has no folders: a folder of images has one for each class", folder);
  for (size_t i = 0; st == SHOAL_OK && !test && i < here.n; i++) st = shoal_texts_add(&m->classes, here.at[i]);
  for (size_t i = 0; st == SHOAL_OK && i < here.n; i++) {
    char **found = !m->classes.n ? NULL : bsearch(&here.at[i], m->classes.at, m->classes.n, sizeof *found, by_name);
    char *path = shoal_path_join(folder, here.at[i]);
    st = found ? add_class(m, path, (int32_t)(found - m->classes.at), test)
               : SHOAL_FAIL(SHOAL_ERR_IO, "%s is a class that the training split does not have", path);
    free(path);
  }
  shoal_texts_free(&here);
  return st;
}

/* A folder called train with folders inside: its neighbours are splits, too.  One with images is a class of railways. */
static shoal_status has_splits(const char *folder, const shoal_texts *inside, bool *out)
{
  shoal_status st = SHOAL_OK;
  *out = false;
  for (size_t i = 0; st == SHOAL_OK && i < inside->n; i++) {
    shoal_texts deeper = { 0 };
    if (strcasecmp(inside->at[i], "train") != 0 && strcasecmp(inside->at[i], "training") != 0) continue;
    char *path = shoal_path_join(folder, inside->at[i]);
    st = list_folder(path, true, &deeper);
    *out |= deeper.n > 0;
    shoal_texts_free(&deeper);
    free(path);
  }
  return st;
}

/* Folders called train and test or val are splits, and everything else is a class. */
static shoal_status collect(const shoal_import_args *a, const char *folder, images *m, bool *by_name_out)
{
  shoal_texts inside = { 0 };
  shoal_import_args splits = *a;
  shoal_import_roles roles = { 0 };
  shoal_status st;
  SHOAL_TRY_GOTO(st, list_folder(folder, true, &inside), done);
  splits.sources = (const char *const *)inside.at;
  splits.n_sources = inside.n;
  bool trains;
  SHOAL_TRY_GOTO(st, has_splits(folder, &inside, &trains), done);
  if (trains) SHOAL_TRY_GOTO(st, shoal_import_find_roles(&splits, &roles), done);
  *by_name_out = trains && roles.by_name;
  if (!trains) st = add_split(m, folder, false);
  for (int test = 0; trains && st == SHOAL_OK && test < 2; test++) /* training first: it names the classes */
    for (size_t i = 0; st == SHOAL_OK && i < inside.n; i++) {
      char *path = shoal_path_join(folder, inside.at[i]);
      if (roles.test[i] == (test == 1)) st = add_split(m, path, test == 1);
      free(path);
    }
done:
  shoal_import_roles_fini(&roles);
  shoal_texts_free(&inside);
  return st;
}

/* ---- the data set ---- */

static shoal_status write_images(const images *m, const shoal_import_args *a, const char *out_path)
{
  char source[256];
  shoal_data_writer *w = NULL;
  uint8_t *planes = NULL;
  shoal_str class_names = { 0 };
  const shoal_image *f = &m->form;
  shoal_data_spec spec = { SHOAL_DATA_IMAGES, SHOAL_SHAPE(f->channels, f->height, f->width), 1, source };
  shoal_import_source_text(a, source, sizeof source);
  for (size_t i = 0; i < m->classes.n; i++) shoal_str_add(&class_names, "%s%s", i ? "\n" : "", m->classes.at[i]);
  shoal_status st;
  SHOAL_TRY_GOTO(st, shoal_alloc((size_t)shoal_shape_count(&spec.sample), 1, "an image", (void **)&planes), done);
  SHOAL_TRY_GOTO(st, shoal_data_writer_create(out_path, &spec, &w), done);
  for (size_t i = 0; i < m->files.n; i++) {
    SHOAL_TRY_GOTO(st, shoal_image_read(m->files.at[i], f, planes), done);
    SHOAL_TRY_GOTO(st, shoal_data_writer_add(w, m->test[i] ? SHOAL_TEST : SHOAL_TRAIN, 1, planes, &m->y[i]), done);
  }
  st = shoal_data_writer_commit(w, (int64_t)m->classes.n, class_names.text);
done:
  shoal_data_writer_destroy(w);
  shoal_str_free(&class_names);
  free(planes);
  return st;
}

shoal_status shoal_import_images(const shoal_import_args *a, const char *out_path)
{
  images m = { 0 };
  bool by_folder = false;
  SHOAL_CHECK(a->n_sources == 1, SHOAL_ERR_ARG, "images are in one folder with a folder for each class, %zu were given",
              a->n_sources);
  shoal_status st;
  SHOAL_TRY_GOTO(st, collect(a, a->sources[0], &m, &by_folder), done);
  SHOAL_CHECK_GOTO(st, m.files.n > 0, done, SHOAL_ERR_IO, "%s has no PNG or JPEG files in the folders of its classes",
                   a->sources[0]);
  if (m.skipped > 1) shoal_warn("%s: %zu files are neither PNG nor JPEG: left out", a->sources[0], m.skipped);
  shoal_info("%s: %zu images of %d x %d, %s, in %zu classes", a->sources[0], m.files.n, m.form.width, m.form.height,
             m.form.channels == 3 ? "in colour" : "grey", m.classes.n);
  if (!by_folder) SHOAL_TRY_GOTO(st, shoal_import_split(a, m.files.n, m.y, (int64_t)m.classes.n, m.test), done);
  st = write_images(&m, a, out_path);
done:
  shoal_texts_free(&m.files);
  shoal_texts_free(&m.classes);
  free(m.y);
  free(m.test);
  return st;
}
