/* Looks through a folder of images, before any of them is read:
 *
 *     flowers/daisy/1.png    or    flowers/train/daisy/1.png
 *     flowers/rose/2.jpg           flowers/test/rose/2.jpg      (also val)
 *
 * What is no image, what is damaged and what lies outside of the folders of classes is remembered, to be told together. */
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/image_folder.h"
#include "data/image_set.h"
#include "data/images_table.h"
#include <stdlib.h>
#include <string.h>

void shoal_image_set_note(shoal_noted *what, const char *path)
{
  if (what->n++ == 0) what->first = path;
}

static shoal_status make_room(shoal_image_set *m)
{
  if (m->files.n < m->cap) return SHOAL_OK;
  size_t cap = m->cap ? 2 * m->cap : 1024;
  int32_t *y = realloc(m->y, cap * sizeof *y);
  if (y) m->y = y;
  uint8_t *t = realloc(m->test, cap);
  if (t) m->test = t;
  SHOAL_CHECK(y && t, SHOAL_ERR_MEM, "out of memory for %zu images", cap);
  m->cap = cap;
  return SHOAL_OK;
}

/* Whether an image of the same name is there as PNG or JPEG: what a file of another kind was converted to. */
static bool is_converted(const char *path)
{
  static const char *const endings[] = { ".png", ".jpg", ".jpeg" };
  const char *dot = strrchr(shoal_path_base(path), '.');
  bool found = false;
  for (size_t i = 0; i < SHOAL_COUNT(endings) && dot && !found; i++) {
    char *other = shoal_strdup_printf("%.*s%s", (int)(dot - path), path, endings[i]);
    found = strcmp(other, path) != 0 && shoal_path_exists(other);
    free(other);
  }
  return found;
}

shoal_status shoal_image_set_damaged(shoal_image_set *m, const char *path, shoal_status st)
{
  if (st != SHOAL_ERR_IO) return st;
  shoal_error_keep(&m->damage, st);
  return shoal_texts_add(&m->damaged, path);
}

static shoal_status add_size(shoal_image_set *m, const shoal_image *i, const char *path)
{
  size_t k = m->n_sizes; /* neighbours are mostly alike */
  while (k > 0 && (m->sizes[k - 1].width != i->width || m->sizes[k - 1].height != i->height)) k--;
  if (k > 0) {
    m->sizes[k - 1].n++;
    return SHOAL_OK;
  }
  if (m->n_sizes == m->sizes_cap) {
    const size_t cap = m->sizes_cap ? 2 * m->sizes_cap : 16;
    shoal_image_size *more = realloc(m->sizes, cap * sizeof *more);
    SHOAL_CHECK(more, SHOAL_ERR_MEM, "out of memory for %zu sizes of images", cap);
    m->sizes = more;
    m->sizes_cap = cap;
  }
  m->sizes[m->n_sizes++] = (shoal_image_size){ i->width, i->height, 1, path };
  return SHOAL_OK;
}

/* A file in a folder of a class; its class gets its number later. */
static shoal_status add_file(shoal_image_set *m, shoal_class_folder *f, const char *path)
{
  shoal_image i;
  shoal_status st = shoal_image_look(path, &i);
  if (st != SHOAL_OK) return shoal_image_set_damaged(m, path, st);
  if (i.width == 0) {
    if (is_converted(path)) return SHOAL_OK;
    if (f->others++ == 0) f->other = shoal_strdup_printf("%s", path);
    return SHOAL_OK;
  }
  SHOAL_TRY(make_room(m));
  m->test[m->files.n] = f->test;
  SHOAL_TRY(shoal_texts_add(&m->files, path));
  f->images++;
  SHOAL_TRY(add_size(m, &i, m->files.at[m->files.n - 1]));
  if (!m->sized && m->files.n == 1) m->form = i;
  if (!m->like.path) m->form.channels = SHOAL_MAX(m->form.channels, i.channels);
  if (i.orientation != 1) shoal_image_set_note(&m->turned, m->files.at[m->files.n - 1]);
  if (i.stored_channels == 4) shoal_image_set_note(&m->printed, m->files.at[m->files.n - 1]);
  shoal_image_set_note(i.channels == 1 ? &m->grey : &m->colour, m->files.at[m->files.n - 1]);
  if (i.alpha) shoal_image_set_note(&m->alpha, m->files.at[m->files.n - 1]);
  if (i.moving) shoal_image_set_note(&m->moving, m->files.at[m->files.n - 1]);
  if (i.deep) shoal_image_set_note(&m->deep, m->files.at[m->files.n - 1]);
  return SHOAL_OK;
}

/* "more", or "again, a link": caller frees. */
static char *name_entry(const char *folder, const char *name)
{
  char *path = shoal_path_join(folder, name);
  char *text = shoal_strdup_printf("%s%s", name, shoal_image_folder_is_link(path) ? ", a link" : "");
  free(path);
  return text;
}

/* Takes over `path`. */
static shoal_status add_folder(shoal_image_set *m, char *path, bool test)
{
  shoal_texts files = { 0 }, inside = { 0 }, hidden = { 0 };
  shoal_class_folder *more = realloc(m->folders, (m->n_folders + 1) * sizeof *more);
  if (!more) {
    free(path);
    return SHOAL_FAIL(SHOAL_ERR_MEM, "out of memory for %zu folders", m->n_folders + 1);
  }
  m->folders = more;
  shoal_class_folder *f = &m->folders[m->n_folders++];
  *f = (shoal_class_folder){ .path = path, .test = test };
  shoal_status st = shoal_image_folder_list(path, SHOAL_ENTRY_FILE, &files);
  for (size_t i = 0; st == SHOAL_OK && i < files.n; i++) {
    char *file = shoal_path_join(path, files.at[i]);
    st = add_file(m, f, file);
    free(file);
  }
  if (st == SHOAL_OK) st = shoal_image_folder_list(path, SHOAL_ENTRY_FOLDER, &inside);
  if (st == SHOAL_OK) st = shoal_image_folder_list(path, SHOAL_ENTRY_LOOP, &inside);
  if (inside.n) f->inside = name_entry(path, inside.at[0]);
  if (st == SHOAL_OK) st = shoal_image_folder_list(path, SHOAL_ENTRY_HIDDEN, &hidden);
  f->hidden = hidden.n > 0;
  shoal_texts_free(&files);
  shoal_texts_free(&hidden);
  shoal_texts_free(&inside);
  return st;
}

/* Images beside the folders of the classes are in none.  One that cannot be read counts, too.  A table may have the classes. */
static shoal_status find_strays(shoal_image_set *m, const char *folder)
{
  shoal_texts files = { 0 };
  shoal_status st = shoal_image_folder_list(folder, SHOAL_ENTRY_FILE, &files);
  for (size_t i = 0; st == SHOAL_OK && i < files.n; i++) {
    char *path = shoal_path_join(folder, files.at[i]);
    const bool image = shoal_image_folder_is_image(path);
    if (!image && (shoal_image_folder_is_table(files.at[i]) ||
                   (shoal_image_folder_may_list(files.at[i]) && shoal_images_table_lists(path))))
      st = shoal_texts_add(&m->tables, path);
    if (image && m->strays++ == 0)
      m->stray = path;
    else
      free(path);
  }
  shoal_texts_free(&files);
  return st;
}

static shoal_status refuse_flat(const shoal_image_set *m, const char *folder)
{
  char word[SHOAL_WORD];
  bool named = false;
  char *command = shoal_images_table_command(&m->tables);
  const bool listed = command != NULL;
  if (!listed) SHOAL_TRY(shoal_image_folder_names_classes(folder, &named));
  if (named)
    command =
        shoal_strdup_printf("for f in %s/*; do c=$(basename \"$f\" | sed -E 's/[ ._-]*[(]?[0-9]+[)]?[.][^.]*$//'); "
                            "mkdir -p NEW/\"$c\"; cp \"$f\" NEW/\"$c\"; done",
                            shoal_shell_word(folder, word));
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO,
                               "%s has no folders: a folder of images has one for each class, move the images into "
                               "these (all into one if they are "
                               "to be predicted)%s%s%s%s",
                               folder, listed ? "; by " : "", listed ? m->tables.at[0] : "",
                               listed  ? ": "
                               : named ? "; if their names begin with the class: "
                                       : "",
                               command ? command : "");
  free(command);
  return st;
}

/* Remembers the folders of a system, in which nothing is looked for, and links that lead back. */
static shoal_status find_systems(shoal_image_set *m, const char *folder)
{
  shoal_texts here = { 0 };
  shoal_status st = shoal_image_folder_list(folder, SHOAL_ENTRY_OF_SYSTEM, &here);
  if (here.n && m->systems == 0) m->system = shoal_path_join(folder, here.at[0]);
  m->systems += here.n;
  shoal_texts_free(&here);
  if (st == SHOAL_OK) st = shoal_image_folder_list(folder, SHOAL_ENTRY_LOOP, &here);
  if (here.n && m->loops == 0) m->loop = shoal_path_join(folder, here.at[0]);
  m->loops += here.n;
  shoal_texts_free(&here);
  return st;
}

static shoal_status add_split(shoal_image_set *m, const char *folder, bool test)
{
  shoal_texts here = { 0 };
  shoal_status st = shoal_image_folder_list(folder, SHOAL_ENTRY_FOLDER, &here);
  const bool flat = st == SHOAL_OK && here.n == 0;
  if (flat && m->like.path) return add_folder(m, shoal_strdup_printf("%s", folder), test); /* to be predicted */
  if (flat) st = find_strays(m, folder);
  if (flat && st == SHOAL_OK) st = refuse_flat(m, folder);
  for (size_t i = 0; st == SHOAL_OK && i < here.n; i++) st = add_folder(m, shoal_path_join(folder, here.at[i]), test);
  shoal_texts_free(&here);
  if (st == SHOAL_OK) st = find_systems(m, folder);
  return st == SHOAL_OK ? find_strays(m, folder) : st;
}

/* A folder called train ("training_set") with folders inside: its neighbours are splits, too.  One with images is a class of
 * railways. */
static shoal_status has_splits(const char *folder, const shoal_texts *inside, bool *out)
{
  shoal_status st = SHOAL_OK;
  *out = false;
  for (size_t i = 0; st == SHOAL_OK && i < inside->n; i++) {
    shoal_texts deeper = { 0 };
    if (!shoal_import_trains(inside->at[i])) continue;
    char *path = shoal_path_join(folder, inside->at[i]);
    st = shoal_image_folder_list(path, SHOAL_ENTRY_FOLDER, &deeper);
    *out |= deeper.n > 0;
    shoal_texts_free(&deeper);
    free(path);
  }
  return st;
}

/* Whether a folder that is called as a split has no folders of classes, as Kaggle's test: its images are to be predicted. */
static shoal_status is_flat(const char *folder, const char *name, bool *out)
{
  bool classes;
  size_t n = 0;
  char word[SHOAL_WORD];
  SHOAL_TRY(shoal_image_folder_look(folder, name, out, &classes));
  *out = !*out;
  if (!*out) return SHOAL_OK;
  char *path = shoal_path_join(folder, name);
  shoal_status st = shoal_image_folder_count(path, &n);
  if (st == SHOAL_OK && n)
    shoal_warn("%s: its %zu image%s in no folder of a class, so left out; to predict %s: mkdir -p NEW/all && cp %s/* "
               "NEW/all && "
               "shoal data import images NEW --test-share 0 -o NEW.h5",
               path, n, n > 1 ? "s are" : " is", n > 1 ? "them" : "it", shoal_shell_word(path, word));
  else if (st == SHOAL_OK)
    shoal_warn("%s is left out: it has no folders of classes", path);
  free(path);
  return st;
}

static void keep_others(shoal_texts *inside, const bool *drop)
{
  size_t kept = 0;
  for (size_t i = 0; i < inside->n; i++)
    if (drop[i])
      free(inside->at[i]);
    else
      inside->at[kept++] = inside->at[i];
  inside->n = kept;
}

/* Beside folders called train and test, what holds classes is for training, too, and what holds none is left out; so is val
 * beside test. */
static shoal_status keep_splits(const shoal_import_args *a, const char *folder, shoal_texts *inside)
{
  bool *drop;
  shoal_status st = SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(inside->n + 1, &drop));
  for (size_t i = 0; st == SHOAL_OK && i < inside->n; i++)
    if (shoal_import_names_split(inside->at[i])) st = is_flat(folder, inside->at[i], &drop[i]);
  keep_others(inside, drop);
  memset(drop, 0, inside->n * sizeof *drop);
  shoal_import_leave_out(a, (const char *const *)inside->at, inside->n, drop);
  for (size_t i = 0; st == SHOAL_OK && i < inside->n; i++) {
    bool folders = true, classes = true;
    if (shoal_import_names_split(inside->at[i])) continue;
    st = shoal_image_folder_look(folder, inside->at[i], &folders, &classes);
    drop[i] = !classes;
    if (classes)
      shoal_warn("%s/%s is for training, too, since no word of its name is train, test or val", folder, inside->at[i]);
    else
      shoal_warn("%s/%s is left out: it stands beside train and has no %s", folder, inside->at[i],
                 folders ? "images in folders of classes" : "folders of classes");
  }
  keep_others(inside, drop);
  free(drop);
  return st;
}

/* Whether all folders are called as splits, and hold images themselves. */
static shoal_status are_flat_splits(const char *folder, const shoal_texts *inside, bool *out)
{
  bool trains = false;
  *out = false;
  for (size_t i = 0; i < inside->n; i++) {
    if (!shoal_import_names_split(inside->at[i])) return SHOAL_OK;
    trains |= shoal_import_trains(inside->at[i]);
  }
  for (size_t i = 0; i < inside->n && trains && !*out; i++) {
    size_t n;
    char *path = shoal_path_join(folder, inside->at[i]);
    shoal_status st = shoal_image_folder_count(path, &n);
    free(path);
    SHOAL_TRY(st);
    *out = n > 0;
  }
  return SHOAL_OK;
}

/* Tables may lie beside the splits, or in them. */
static shoal_status refuse_flat_splits(shoal_image_set *m, const char *folder, const shoal_texts *inside)
{
  SHOAL_TRY(find_strays(m, folder));
  for (size_t i = 0; i < inside->n; i++) {
    char *path = shoal_path_join(folder, inside->at[i]);
    shoal_status st = find_strays(m, path);
    free(path);
    SHOAL_TRY(st);
  }
  char *command = shoal_images_table_command(&m->tables);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO,
                               "%s has folders called as splits, whose images lie in no folder of a class, the first "
                               "is %s: each split has a folder "
                               "for each class%s%s%s%s",
                               folder, m->stray, command ? "; by " : "", command ? m->tables.at[0] : "",
                               !command          ? ""
                               : m->tables.n > 1 ? " and others: "
                                                 : ": ",
                               command ? command : "");
  free(command);
  return st;
}

shoal_status shoal_image_set_find(const shoal_import_args *a, const char *folder, shoal_image_set *m, bool *by_name_out)
{
  shoal_texts inside = { 0 };
  shoal_import_args splits = *a;
  shoal_import_roles roles = { 0 };
  shoal_status st;
  SHOAL_TRY_GOTO(st, shoal_image_folder_list(folder, SHOAL_ENTRY_FOLDER, &inside), done);
  bool trains, flat;
  SHOAL_TRY_GOTO(st, has_splits(folder, &inside, &trains), done);
  m->folder = folder;
  m->splits = trains;
  SHOAL_TRY_GOTO(st, are_flat_splits(folder, &inside, &flat), done);
  if (flat && !trains) SHOAL_TRY_GOTO(st, refuse_flat_splits(m, folder, &inside), done);
  if (trains) SHOAL_TRY_GOTO(st, keep_splits(a, folder, &inside), done);
  splits.sources = (const char *const *)inside.at;
  splits.n_sources = inside.n;
  if (trains) SHOAL_TRY_GOTO(st, shoal_import_find_roles(&splits, &roles), done);
  *by_name_out = trains && roles.by_name;
  if (!trains) st = add_split(m, folder, false);
  for (int test = 0; trains && st == SHOAL_OK && test < 2; test++)
    for (size_t i = 0; st == SHOAL_OK && i < inside.n; i++) {
      char *path = shoal_path_join(folder, inside.at[i]);
      if (roles.test[i] == (test == 1)) st = add_split(m, path, test == 1);
      free(path);
    }
  if (trains && st == SHOAL_OK) st = find_systems(m, folder);
  if (trains && st == SHOAL_OK) st = find_strays(m, folder);
done:
  shoal_import_roles_fini(&roles);
  shoal_texts_free(&inside);
  return st;
}
