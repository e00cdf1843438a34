/* Makes a data set of a folder of images, one folder inside it per class.
 *
 * All folders are looked through first (image_find.c), then the classes get their numbers (image_classes.c), then pixels are read.  All
 * images must have one size, unless --size says to which they are scaled; if one has colours, all get three channels.  With --like size,
 * channels and classes are those of a model.
 * Files that are neither PNG nor JPEG are counted and left out. */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/image_set.h"
#include "data/like.h"
#include <stdlib.h>
#include <string.h>

static void close_images(shoal_image_set *m)
{
  for (size_t i = 0; i < m->n_folders; i++) {
    free(m->folders[i].path);
    free(m->folders[i].other);
    free(m->folders[i].inside);
  }
  free(m->folders);
  free(m->stray);
  shoal_str_free(&m->odd_words);
  free(m->system);
  free(m->loop);
  shoal_texts_free(&m->tables);
  shoal_texts_free(&m->damaged);
  shoal_texts_free(&m->files);
  shoal_texts_free(&m->classes);
  shoal_texts_free(&m->like.names);
  free(m->sizes);
  free(m->y);
  free(m->test);
}

static shoal_status read_like(shoal_h5 file, const char *path, void *out)
{
  shoal_images_like *l = out;
  size_t targets;
  bool pictures = false;
  SHOAL_TRY(shoal_like_images(file, path, "images", &pictures));
  SHOAL_CHECK(pictures, SHOAL_ERR_USAGE, "--like %s: it was not made of images", path);
  SHOAL_TRY(shoal_like_sample(file, path, 3, l->sample));
  SHOAL_TRY(shoal_like_targets(file, path, &targets));
  SHOAL_CHECK(
      targets == 0, SHOAL_ERR_USAGE,
      "--like %s: it has numbers that are to be predicted, and folders have classes: give arrays, by shoal data "
      "import npy with --target",
      path);
  SHOAL_CHECK(
      l->sample[0] == 1 || l->sample[0] == 3, SHOAL_ERR_USAGE,
      "--like %s: its images have %lld channels, those of PNG and JPEG files have 1 or 3: give arrays, by shoal "
      "data import npy",
      path, (long long)l->sample[0]);
  SHOAL_TRY(shoal_like_classes(file, path, &l->classes));
  return shoal_like_names(file, "class_names", (size_t)l->classes, &l->names);
}

/* "64x48", or "64" for both. */
static shoal_status read_size(const char *text, shoal_image *out)
{
  const char *cross = strchr(text, 'x');
  char *width = shoal_strdup_printf("%.*s", cross ? (int)(cross - text) : (int)strlen(text), text);
  int64_t w = 0, h = 0;
  const bool read =
      shoal_parse_i64(width, &w) == SHOAL_OK && shoal_parse_i64(cross ? cross + 1 : width, &h) == SHOAL_OK;
  free(width);
  SHOAL_CHECK(read && w >= 1 && h >= 1 && w <= SHOAL_IMAGE_SIDE && h <= SHOAL_IMAGE_SIDE, SHOAL_ERR_ARG,
              "--size is \"%s\": must be width and height, 1 to %d, as 64x48, or 64 for both", text, SHOAL_IMAGE_SIDE);
  out->width = (int)w;
  out->height = (int)h;
  return SHOAL_OK;
}

static shoal_status write_images(shoal_image_set *m, const shoal_import_args *a, const char *out_path)
{
  char source[256];
  shoal_data_writer *w = NULL;
  uint8_t *planes = NULL;
  shoal_str class_names = { 0 };
  const shoal_image *f = &m->form;
  shoal_data_spec spec = { SHOAL_DATA_IMAGES, SHOAL_SHAPE(f->channels, f->height, f->width), 1, source };
  shoal_import_source_text(a, source, sizeof source);
  for (size_t i = 0; i < m->classes.n; i++) shoal_str_add(&class_names, "%s%s", i ? "\n" : "", m->classes.at[i]);
  const int64_t classes = m->classes.n ? (int64_t)m->classes.n : m->like.classes;
  shoal_status st;
  SHOAL_TRY_GOTO(st, shoal_alloc((size_t)shoal_shape_count(&spec.sample), 1, "an image", (void **)&planes), done);
  SHOAL_TRY_GOTO(st, shoal_data_expect(out_path, &spec, m->files.n), done);
  SHOAL_TRY_GOTO(st, shoal_data_writer_create(out_path, &spec, &w), done);
  const size_t folder = strlen(a->sources[0]);
  bool named = true;
  for (size_t i = 0; i < m->files.n; i++) named &= !strchr(m->files.at[i], '\n');
  for (size_t i = 0; i < m->files.n; i++) {
    char odd[128];
    st = shoal_image_read(m->files.at[i], f, planes, odd, sizeof odd);
    if (st != SHOAL_OK) SHOAL_TRY_GOTO(st, shoal_image_set_damaged(m, m->files.at[i], st), done);
    if (m->damaged.n) continue; /* no data set is made any more */
    if (odd[0] && m->odd.n < SHOAL_IMAGE_SET_SHOWN)
      shoal_str_add(&m->odd_words, "%s%s: %s", m->odd.n ? "; " : "", m->files.at[i], odd);
    if (odd[0]) shoal_image_set_note(&m->odd, m->files.at[i]);
    const shoal_split split = m->test[i] ? SHOAL_TEST : SHOAL_TRAIN;
    const char *file = m->files.at[i] + folder;
    if (named) shoal_data_writer_name(w, split, file + strspn(file, "/"));
    SHOAL_TRY_GOTO(st, shoal_data_writer_add(w, split, 1, planes, &m->y[i]), done);
  }
  st = m->damaged.n ? shoal_image_set_refuse_damaged(m)
                    : shoal_data_writer_commit(w, classes, class_names.len ? class_names.text : NULL);
done:
  shoal_data_writer_destroy(w);
  shoal_str_free(&class_names);
  free(planes);
  return st;
}

shoal_status shoal_import_images(const shoal_import_args *a, const char *out_path)
{
  shoal_image_set m = { 0 };
  bool by_folder = false;
  SHOAL_CHECK(a->n_sources == 1, SHOAL_ERR_ARG, "images are in one folder with a folder for each class, %zu were given",
              a->n_sources);
  shoal_status st;
  if (a->like) {
    m.like.path = a->like;
    SHOAL_TRY_GOTO(st, shoal_like_read(a->like, read_like, &m.like), done);
    m.form = (shoal_image){ .channels = (int)m.like.sample[0],
                            .height = (int)m.like.sample[1],
                            .width = (int)m.like.sample[2] };
  }
  if (a->size) SHOAL_TRY_GOTO(st, read_size(a->size, &m.form), done);
  m.sized = a->like || a->size;
  SHOAL_TRY_GOTO(st, shoal_image_set_find(a, a->sources[0], &m, &by_folder), done);
  SHOAL_TRY_GOTO(st, shoal_image_set_refuse_masks(&m), done);
  SHOAL_TRY_GOTO(st, shoal_image_set_refuse_listed(&m), done);
  if (m.files.n == 0) {
    st = m.damaged.n ? shoal_image_set_refuse_damaged(&m) : shoal_image_set_refuse_empty(&m, a->sources[0]);
    goto done;
  }
  SHOAL_TRY_GOTO(st, shoal_image_set_check_sizes(&m, a, out_path), done);
  SHOAL_TRY_GOTO(st, shoal_image_set_name_classes(&m), done);
  SHOAL_TRY_GOTO(st, shoal_image_set_number(&m), done);
  SHOAL_CHECK_GOTO(st, !by_folder || m.test[m.files.n - 1], done, SHOAL_ERR_IO,
                   "%s has no image in the folders of its test split: add some, or remove the split to have one drawn",
                   a->sources[0]);
  shoal_image_set_warn_left_out(&m, a->sources[0]);
  const size_t classes = m.classes.n ? m.classes.n : (size_t)m.like.classes;
  shoal_info("%s: %zu image%s of %d x %d, %s, in %zu class%s", a->sources[0], m.files.n, m.files.n == 1 ? "" : "s",
             m.form.width, m.form.height, m.form.channels == 3 ? "in colour" : "grey", classes,
             classes == 1 ? "" : "es");
  if (!by_folder && !(a->like && !a->test_share))
    SHOAL_TRY_GOTO(st, shoal_import_split(a, m.files.n, m.y, m.test), done);
  shoal_image_set_tell_converted(&m);
  st = write_images(&m, a, out_path);
  if (st == SHOAL_OK) shoal_image_set_warn_odd(&m);
done:
  close_images(&m);
  return st;
}
