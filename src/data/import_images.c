/* A folder of images, one folder inside it per class:
 *
 *     flowers/daisy/1.png    or    flowers/train/daisy/1.png
 *     flowers/rose/2.jpg           flowers/test/rose/2.jpg      (also val)
 *
 * All folders are looked through first.  The classes are then the names of those that hold an image for training, in sorted
 * order (by value if all are numbers), so that an empty folder leaves no gap between their numbers.  All images must have one
 * size; if one has colours, all get three channels.  With --like size, channels and classes are those of a model: classes that no folder
 * has keep their numbers, and images in one folder that is no class have no labels.  Files that are neither PNG nor JPEG are counted and left out; hidden
 * files are ignored, and so is what a system or its file browser leaves behind (__MACOSX, Thumbs.db). */
#include "base/alike.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/image.h"
#include "data/images_table.h"
#include "data/labels.h"
#include "data/like.h"
#include "data/python.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SHOWN = 5 };

/* What is told once of all images that have it: how many there are, and the first. */
typedef struct {
  size_t n;
  const char *first; /* path; borrowed */
} noted;

/* What was found in the folder of a class, for one split. */
typedef struct {
  char *path, *other;    /* other: path of a file that is no image, or NULL */
  char *inside;          /* the first folder in it, or NULL; "again, a link" */
  size_t images, others; /* files that are images, and that are none */
  bool test;
  bool hidden; /* all that it has are files that are ignored */
} class_folder;

/* What the images of a model are. */
typedef struct {
  const char *path;  /* NULL: there is no such model; borrowed */
  int64_t sample[3]; /* channels, height, width */
  int64_t classes;
  shoal_texts names; /* none: classes are their numbers */
} images_like;

typedef struct {
  images_like like;
  shoal_texts files; /* paths, in the order of the samples */
  int32_t *y;        /* [files.n] */
  uint8_t *test;
  size_t cap;
  class_folder *folders; /* [n_folders] those for training first; the samples are in their order */
  size_t n_folders;
  shoal_texts classes;
  shoal_image form;           /* of all images */
  const char *first;          /* the image whose size all must have, or the path of what they shall be like; borrowed */
  const char *folder;         /* as given; borrowed */
  bool splits;                /* it has folders for splits, and these for classes */
  noted turned, printed, odd; /* by Exif; in the colours of print; with a warning of their decoder */
  noted deep, moving;         /* of 16 bits; with several pictures */
  noted grey, colour, alpha;  /* as they are stored */
  char *stray;                /* the first image that is in no folder of a class, or NULL */
  size_t strays;
  char *system; /* the first folder of a system, such as __MACOSX, or NULL */
  size_t systems;
  char *loop; /* the first link to a folder that holds it, or NULL */
  size_t loops;
  shoal_texts tables;  /* paths of those beside the folders of the classes */
  shoal_texts damaged; /* paths of images that cannot be read */
  shoal_error damage;  /* why the first of them cannot */
  shoal_str odd_words; /* "a/1.jpg: Corrupt JPEG data; a/2.jpg: ...", of the first SHOWN of these */
} images;

static void close_images(images *m)
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
  free(m->y);
  free(m->test);
}

/* ---- like what a model was trained on ---- */

static shoal_status read_like(shoal_h5 file, const char *path, void *out)
{
  images_like *l = out;
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

/* ---- folders ---- */

/* Numbers come first, by value, as "10" after "9"; all else by its bytes. */
static int by_class(const void *a, const void *b)
{
  const char *p = *(char *const *)a, *q = *(char *const *)b;
  int64_t x = 0, y = 0;
  const bool p_counts = shoal_parse_i64(p, &x) == SHOAL_OK, q_counts = shoal_parse_i64(q, &y) == SHOAL_OK;
  if (p_counts != q_counts) return q_counts - p_counts;
  return x != y ? (x > y) - (x < y) : strcmp(p, q);
}

static void note(noted *what, const char *path)
{
  if (what->n++ == 0) what->first = path;
}

/* What is inside a folder.  A system and its file browser leave behind folders, and files that count as hidden. */
typedef enum { FILES, FOLDERS, FOLDERS_OF_SYSTEMS, LOOPS, HIDDEN } kind_of_entry;

static bool is_one_of(const char *name, const char *const *names)
{
  for (; *names; names++)
    if (strcasecmp(name, *names) == 0) return true;
  return false;
}

/* Whether a link in a folder leads to that folder, or to one that holds it. */
static bool is_loop(DIR *d, const char *name, const struct stat *to)
{
  enum { MOST = 64 };
  struct stat link, above;
  char path[3 * MOST + 2] = ".";
  if (fstatat(dirfd(d), name, &link, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISLNK(link.st_mode)) return false;
  for (int up = 0; up < MOST && fstatat(dirfd(d), path, &above, 0) == 0; up++) {
    if (above.st_dev == to->st_dev && above.st_ino == to->st_ino) return true;
    strcat(path, "/..");
  }
  return false;
}

/* A link that leads nowhere is a file, which cannot be read. */
static kind_of_entry find_kind(DIR *d, const char *name)
{
  static const char *const folders[] = {
    "__MACOSX", "@eaDir", "#recycle", "$RECYCLE.BIN", "System Volume Information", "lost+found", NULL
  };
  static const char *const files[] = { "Thumbs.db", "desktop.ini", NULL };
  struct stat info;
  if (name[0] == '.') return HIDDEN;
  if (fstatat(dirfd(d), name, &info, 0) == 0 && S_ISDIR(info.st_mode))
    return is_one_of(name, folders) ? FOLDERS_OF_SYSTEMS : is_loop(d, name, &info) ? LOOPS : FOLDERS;
  return is_one_of(name, files) ? HIDDEN : FILES;
}

static shoal_status refuse_file(const char *path)
{
  const char *kind = shoal_import_guess_kind(path);
  char word[SHOAL_WORD];
  SHOAL_CHECK(
      strcmp(kind, "csv") != 0, SHOAL_ERR_IO,
      "%s is no folder: shoal data import images takes one that has a folder for each class; a table is imported by "
      "shoal data import csv %s",
      path, shoal_shell_word(path, word));
  return SHOAL_FAIL(SHOAL_ERR_IO,
                    "%s is no folder: shoal data import images takes one that has a folder for each class", path);
}

/* The names of one kind inside a folder, sorted. */
static shoal_status list_folder(const char *folder, kind_of_entry kind, shoal_texts *out)
{
  shoal_status st = SHOAL_OK;
  DIR *d = opendir(folder);
  if (!d && errno == ENOTDIR) return refuse_file(folder);
  if (!d) return shoal_io_fault("read the folder", folder, errno);
  for (struct dirent *e; st == SHOAL_OK && (e = readdir(d)) != NULL;) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    if (find_kind(d, e->d_name) == kind) st = shoal_texts_add(out, e->d_name);
  }
  closedir(d);
  if (st == SHOAL_OK) shoal_texts_sort(out, 0);
  return st;
}

/* ---- samples ---- */

static shoal_status make_room(images *m)
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

/* Images that cannot be read are told together: the others are looked at, too. */
static shoal_status note_damaged(images *m, const char *path, shoal_status st)
{
  if (st != SHOAL_ERR_IO) return st;
  shoal_error_keep(&m->damage, st);
  return shoal_texts_add(&m->damaged, path);
}

/* The cure takes them out of the folder, and overwrites nothing. */
static shoal_status refuse_damaged(const images *m)
{
  enum { MOST = 40 }; /* in a command */
  const char *base = shoal_path_base(m->folder);
  const bool own = base[0] == '\0' || strcmp(base, ".") == 0 || strcmp(base, "..") == 0;
  const size_t n = m->damaged.n, rest = n - SHOAL_MIN(n, (size_t)MOST);
  char *place = shoal_strdup_printf(own ? "%s/../damaged" : "%s-damaged", m->folder), more[64] = "";
  shoal_str command = { 0 };
  shoal_str_add(&command, "mkdir -p ");
  shoal_str_add_word(&command, place);
  shoal_str_add(&command, " && mv --backup=numbered -t ");
  shoal_str_add_word(&command, place);
  for (size_t i = 0; i < n - rest; i++) {
    shoal_str_add(&command, " ");
    shoal_str_add_word(&command, m->damaged.at[i]);
  }
  if (n > 1) snprintf(more, sizeof more, "; %zu more cannot be read", n - 1);
  shoal_status st = shoal_error_append(shoal_error_put(&m->damage), "%s; get %s again, or leave %s out: %s%s", more,
                                       n > 1 ? "them" : "it", n > 1 ? "them" : "it", command.text,
                                       rest ? ", and once more for the rest" : "");
  shoal_str_free(&command);
  free(place);
  return st;
}

/* A file in a folder of a class; its class gets its number later. */
static shoal_status add_file(images *m, class_folder *f, const char *path)
{
  char word[SHOAL_WORD];
  shoal_image i;
  shoal_status st = shoal_image_look(path, &i);
  if (st != SHOAL_OK) return note_damaged(m, path, st);
  if (i.width == 0) {
    if (is_converted(path)) return SHOAL_OK;
    if (f->others++ == 0) f->other = shoal_strdup_printf("%s", path);
    return SHOAL_OK;
  }
  SHOAL_TRY(make_room(m));
  m->test[m->files.n] = f->test;
  SHOAL_TRY(shoal_texts_add(&m->files, path));
  f->images++;
  if (!m->first) {
    m->form = i;
    m->first = m->files.at[0];
  }
  SHOAL_CHECK(
      i.width == m->form.width && i.height == m->form.height, SHOAL_ERR_IO,
      "%s is %d x %d, but %s %s %d x %d: all images must have one size; ImageMagick (package imagemagick) makes it, "
      "in place of the originals: mogrify "
      "-auto-orient -resize '%dx%d!' %s%s",
      path, i.width, i.height, m->first, m->like.path ? "has images of" : "is", m->form.width, m->form.height,
      m->form.width, m->form.height, shoal_shell_word(m->folder, word), m->splits ? "/*/*/*" : "/*/*");
  if (!m->like.path) m->form.channels = SHOAL_MAX(m->form.channels, i.channels);
  if (i.orientation != 1) note(&m->turned, m->files.at[m->files.n - 1]);
  if (i.stored_channels == 4) note(&m->printed, m->files.at[m->files.n - 1]);
  note(i.channels == 1 ? &m->grey : &m->colour, m->files.at[m->files.n - 1]);
  if (i.alpha) note(&m->alpha, m->files.at[m->files.n - 1]);
  if (i.moving) note(&m->moving, m->files.at[m->files.n - 1]);
  if (i.deep) note(&m->deep, m->files.at[m->files.n - 1]);
  return SHOAL_OK;
}

static bool is_link(const char *path)
{
  struct stat info;
  return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

/* "more", or "again, a link": caller frees. */
static char *name_entry(const char *folder, const char *name)
{
  char *path = shoal_path_join(folder, name);
  char *text = shoal_strdup_printf("%s%s", name, is_link(path) ? ", a link" : "");
  free(path);
  return text;
}

/* Takes over `path`. */
static shoal_status add_folder(images *m, char *path, bool test)
{
  shoal_texts files = { 0 }, inside = { 0 }, hidden = { 0 };
  class_folder *more = realloc(m->folders, (m->n_folders + 1) * sizeof *more);
  if (!more) {
    free(path);
    return SHOAL_FAIL(SHOAL_ERR_MEM, "out of memory for %zu folders", m->n_folders + 1);
  }
  m->folders = more;
  class_folder *f = &m->folders[m->n_folders++];
  *f = (class_folder){ .path = path, .test = test };
  shoal_status st = list_folder(path, FILES, &files);
  for (size_t i = 0; st == SHOAL_OK && i < files.n; i++) {
    char *file = shoal_path_join(path, files.at[i]);
    st = add_file(m, f, file);
    free(file);
  }
  if (st == SHOAL_OK) st = list_folder(path, FOLDERS, &inside);
  if (st == SHOAL_OK) st = list_folder(path, LOOPS, &inside);
  if (inside.n) f->inside = name_entry(path, inside.at[0]);
  if (st == SHOAL_OK) st = list_folder(path, HIDDEN, &hidden);
  f->hidden = hidden.n > 0;
  shoal_texts_free(&files);
  shoal_texts_free(&hidden);
  shoal_texts_free(&inside);
  return st;
}

/* A list of files and classes, as data sets of contests have it. */
static bool is_table(const char *name)
{
  const char *end = strrchr(name, '.');
  return end && (strcasecmp(end, ".csv") == 0 || strcasecmp(end, ".tsv") == 0);
}

static bool is_image(const char *path)
{
  shoal_image look;
  shoal_error ignored;
  const bool is =
      shoal_image_look(path, &look) != SHOAL_OK || look.width > 0; /* one that cannot be read is told later */
  shoal_error_take(&ignored);
  return is;
}

/* Images beside the folders of the classes are in none.  One that cannot be read counts, too.  A table may have the classes. */
static shoal_status find_strays(images *m, const char *folder)
{
  shoal_texts files = { 0 };
  shoal_status st = list_folder(folder, FILES, &files);
  for (size_t i = 0; st == SHOAL_OK && i < files.n; i++) {
    char *path = shoal_path_join(folder, files.at[i]);
    const bool image = is_image(path);
    if (!image && is_table(files.at[i])) st = shoal_texts_add(&m->tables, path);
    if (image && m->strays++ == 0)
      m->stray = path;
    else
      free(path);
  }
  shoal_texts_free(&files);
  return st;
}

/* Of "cat.12.jpg" and "cat (12).png" the bytes of "cat"; 0: no number is in front of the ending. */
static size_t word_before_number(const char *name)
{
  const char *end = strrchr(name, '.');
  if (!end) return 0;
  if (end > name && end[-1] == ')') end--;
  const char *number = end;
  while (number > name && isdigit((unsigned char)number[-1])) number--;
  if (number == end) return 0;
  if (number > name && number[-1] == '(') number--;
  while (number > name && strchr(" ._-", number[-1])) number--;
  return (size_t)(number - name);
}

/* Whether the images of a folder are called by their classes and a number, two or more of each of several classes. */
static shoal_status are_named_by_class(const char *folder, bool *out)
{
  shoal_texts files = { 0 };
  size_t n = 0, classes = 0, alone = 0, of_class = 0, before = 0;
  const char *last = "";
  shoal_status st = list_folder(folder, FILES, &files);
  for (size_t i = 0; st == SHOAL_OK && i < files.n; i++) { /* sorted, so those of a class are together */
    const char *name = files.at[i];
    char *path = shoal_path_join(folder, name);
    const bool image = is_image(path);
    free(path);
    if (!image) continue;
    const size_t word = word_before_number(name);
    const bool same = n++ > 0 && word == before && strncmp(name, last, word) == 0;
    if (!same) alone += of_class == 1;
    classes += !same;
    of_class = same ? of_class + 1 : 1;
    alone += word == 0;
    before = word;
    last = name;
  }
  *out = classes > 1 && alone == 0 && of_class > 1;
  shoal_texts_free(&files);
  return st;
}

static shoal_status refuse_flat(const images *m, const char *folder)
{
  char word[SHOAL_WORD];
  bool named = false;
  char *command = shoal_images_table_command(&m->tables);
  const bool listed = command != NULL;
  if (!listed) SHOAL_TRY(are_named_by_class(folder, &named));
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
static shoal_status find_systems(images *m, const char *folder)
{
  shoal_texts here = { 0 };
  shoal_status st = list_folder(folder, FOLDERS_OF_SYSTEMS, &here);
  if (here.n && m->systems == 0) m->system = shoal_path_join(folder, here.at[0]);
  m->systems += here.n;
  shoal_texts_free(&here);
  if (st == SHOAL_OK) st = list_folder(folder, LOOPS, &here);
  if (here.n && m->loops == 0) m->loop = shoal_path_join(folder, here.at[0]);
  m->loops += here.n;
  shoal_texts_free(&here);
  return st;
}

static shoal_status add_split(images *m, const char *folder, bool test)
{
  shoal_texts here = { 0 };
  shoal_status st = list_folder(folder, FOLDERS, &here);
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
    st = list_folder(path, FOLDERS, &deeper);
    *out |= deeper.n > 0;
    shoal_texts_free(&deeper);
    free(path);
  }
  return st;
}

/* Whether it has folders, and whether an image lies in one of them. */
static shoal_status look_for_classes(const char *folder, const char *name, bool *folders, bool *found)
{
  shoal_texts inside = { 0 };
  char *path = shoal_path_join(folder, name);
  shoal_status st = list_folder(path, FOLDERS, &inside);
  *folders = inside.n > 0;
  *found = false;
  for (size_t i = 0; st == SHOAL_OK && i < inside.n && !*found; i++) {
    shoal_texts files = { 0 };
    char *class = shoal_path_join(path, inside.at[i]);
    st = list_folder(class, FILES, &files);
    for (size_t k = 0; st == SHOAL_OK && k < files.n && !*found; k++) {
      char *file = shoal_path_join(class, files.at[k]);
      *found = is_image(file);
      free(file);
    }
    free(class);
    shoal_texts_free(&files);
  }
  shoal_texts_free(&inside);
  free(path);
  return st;
}

/* How many images lie in a folder itself. */
static shoal_status count_images(const char *folder, size_t *out)
{
  shoal_texts files = { 0 };
  shoal_status st = list_folder(folder, FILES, &files);
  *out = 0;
  for (size_t i = 0; st == SHOAL_OK && i < files.n; i++) {
    char *path = shoal_path_join(folder, files.at[i]);
    *out += is_image(path);
    free(path);
  }
  shoal_texts_free(&files);
  return st;
}

/* Whether a folder that is called as a split has no folders of classes, as Kaggle's test: its images are to be predicted. */
static shoal_status is_flat(const char *folder, const char *name, bool *out)
{
  bool classes;
  size_t n = 0;
  char word[SHOAL_WORD];
  SHOAL_TRY(look_for_classes(folder, name, out, &classes));
  *out = !*out;
  if (!*out) return SHOAL_OK;
  char *path = shoal_path_join(folder, name);
  shoal_status st = count_images(path, &n);
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
    st = look_for_classes(folder, inside->at[i], &folders, &classes);
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
    shoal_status st = count_images(path, &n);
    free(path);
    SHOAL_TRY(st);
    *out = n > 0;
  }
  return SHOAL_OK;
}

/* Tables may lie beside the splits, or in them. */
static shoal_status refuse_flat_splits(images *m, const char *folder, const shoal_texts *inside)
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

/* Folders called train and test or val are splits, and everything else is a class. */
static shoal_status collect(const shoal_import_args *a, const char *folder, images *m, bool *by_name_out)
{
  shoal_texts inside = { 0 };
  shoal_import_args splits = *a;
  shoal_import_roles roles = { 0 };
  shoal_status st;
  SHOAL_TRY_GOTO(st, list_folder(folder, FOLDERS, &inside), done);
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

/* ---- classes ---- */

/* What a file is that is no image, and how many of its first bytes there are. */
static shoal_alien find_other(const char *path, size_t *n)
{
  unsigned char head[64];
  shoal_error ignored;
  shoal_source *s;
  *n = 0;
  shoal_status st = shoal_source_open(path, &s);
  if (st == SHOAL_OK) {
    st = shoal_source_read(s, head, sizeof head, n);
    shoal_source_close(s);
  }
  if (st != SHOAL_OK) shoal_error_take(&ignored);
  return shoal_data_find_alien(head, *n);
}

/* The ending of a file's name, ".webp", if a shell reads it as it is; else NULL. */
static const char *plain_ending(const char *path)
{
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const char *ending = strrchr(shoal_path_base(path), '.');
  return ending && ending[1] && !ending[1 + strspn(ending + 1, letters)] ? ending : NULL;
}

/* "find set -name '*.webp' -exec mogrify -format png {} + makes PNGs of all", for several images, as one of them is, below a folder; else
 * what makes a PNG of that one.  Caller frees. */
static char *how_to_convert(const shoal_alien *found, const char *folder, const char *path, size_t n)
{
  char word[SHOAL_WORD];
  const char *ending = plain_ending(path);
  if (n < 2 || !ending || !strstr(found->what, " image")) return shoal_data_alien_cure(found, path);
  return shoal_strdup_printf("find %s -name '*%s' -exec mogrify -format png {} + makes PNGs of all (ImageMagick, "
                             "package imagemagick)",
                             shoal_shell_word(folder, word), ending);
}

/* "is neither PNG nor JPEG but a GIF image: left out; mogrify -format png a/1.gif makes a PNG of it", the first of n below a folder. */
static void warn_other(const char *folder, const char *path, size_t others)
{
  size_t n;
  shoal_alien found = find_other(path, &n);
  char *cure = found.what ? how_to_convert(&found, folder, path, others) : NULL;
  if (found.what)
    shoal_warn("%s is neither PNG nor JPEG but %s: left out; %s", path, found.what, cure);
  else
    shoal_warn("%s is %s", path, n ? "neither PNG nor JPEG: left out" : "empty: left out; get it again, or remove it");
  free(cure);
}

/* "holds only notes.txt and 2 other files" */
static const char *why_none(const class_folder *f, char *buf, size_t cap)
{
  char others[48] = "";
  size_t n;
  if (f->others) {
    const shoal_alien found = find_other(f->other, &n);
    if (f->others > 1)
      snprintf(others, sizeof others, "%s and %zu other file%s", found.what || !n ? "," : "", f->others - 1,
               f->others > 2 ? "s" : "");
    snprintf(buf, cap, "holds only %.80s%s%s%s", shoal_path_base(f->other),
             found.what ? ", which is "
             : n        ? ""
                        : ", which is empty",
             found.what ? found.what : "", others);
  } else
    snprintf(buf, cap, "%s",
             f->inside && is_link(f->path) ? "is a link to a folder of folders, which are not looked into"
             : f->inside                   ? "holds only folders, which are not looked into"
             : f->hidden                   ? "holds only hidden files"
                                           : "is empty");
  return buf;
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
static shoal_status take_classes(images *m)
{
  const images_like *l = &m->like;
  const class_folder *only = m->folders;
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
static bool is_unlabelled(const images *m)
{
  return m->like.path && m->classes.n == 1 && strcmp(m->classes.at[0], SHOAL_LABELS_NONE) == 0;
}

/* The classes are the folders with images for training, or those of a model. */
static shoal_status name_classes(images *m)
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

/* The folder of this class in the training split, or NULL. */
static const class_folder *find_trained(const images *m, const char *name)
{
  for (size_t i = 0; i < m->n_folders; i++)
    if (!m->folders[i].test && strcmp(shoal_path_base(m->folders[i].path), name) == 0) return &m->folders[i];
  return NULL;
}

/* The same name with its accents written otherwise, or in capitals: two folders that look like one. */
static shoal_status refuse_alike(const class_folder *tested, const class_folder *trained)
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
static shoal_status refuse_untrained(const images *m, const class_folder *tested)
{
  const char *name = shoal_path_base(tested->path);
  const class_folder *trained = find_trained(m, name);
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
      : trained ? why_none(trained, none, sizeof none)
                : "is missing",
      near ? "\"?" : "", tested->path);
}

/* A class that the model does not know, with the one that is mostly meant. */
static shoal_status refuse_unknown(const images *m, const class_folder *f)
{
  const images_like *l = &m->like;
  const char *near = shoal_nearest(shoal_path_base(f->path), (const char *const *)l->names.at, l->names.n);
  char shown[48], meant[80] = "";
  if (near) snprintf(meant, sizeof meant, " (did you mean \"%s\"?)", shoal_show(near, shown, sizeof shown));
  return SHOAL_FAIL(SHOAL_ERR_IO,
                    "%s has %zu images, but %s has no such class%s: rename the folder, or remove it; images without "
                    "labels are all in one folder, of another name",
                    f->path, f->images, l->path, meant);
}

/* The class of a folder, -1 if there is none. */
static int32_t class_of(const images *m, const char *name)
{
  if (is_unlabelled(m)) return 0;
  if (m->like.path) return shoal_like_class(&m->like.names, m->like.classes, name);
  char **found = m->classes.n ? bsearch(&name, m->classes.at, m->classes.n, sizeof *found, by_class) : NULL;
  return found ? (int32_t)(found - m->classes.at) : -1;
}

static shoal_status number_samples(images *m)
{
  size_t at = 0;
  for (size_t i = 0; i < m->n_folders; i++) {
    const class_folder *f = &m->folders[i];
    if (!f->images) continue;
    const int32_t class = class_of(m, shoal_path_base(f->path));
    if (class < 0) return m->like.path ? refuse_unknown(m, f) : refuse_untrained(m, f);
    for (size_t k = 0; k < f->images; k++) m->y[at++] = class;
  }
  return SHOAL_OK;
}

/* "; if they are parts of a class, python3 -c '...' links all images below each class into one folder, ...", or "" where classes are below
 * splits.  Caller frees. */
static char *how_to_flatten(const images *m, const char *folder)
{
  static const char *const packages[] = { NULL };
  if (m->splits) return shoal_strdup_printf("%s", "");
  char from[SHOAL_WORD], to[SHOAL_WORD], word[SHOAL_WORD], *flat = shoal_strdup_printf("%s-flat", folder);
  shoal_python python;
  shoal_find_python(packages, &python);
  char *text = shoal_strdup_printf(
      "; if they are parts of a class, %s -c \"import os; S, D = %s, %s; [(os.makedirs(os.path.join(D, c), "
      "exist_ok=True), os.symlink(os.path.abspath(os.path.join(r, f)), os.path.join(D, c, os.path.relpath(os.path."
      "join(r, f), os.path.join(S, c)).replace('/', '_')))) for c in sorted(os.listdir(S)) for r, _, n in os.walk(os."
      "path.join(S, c)) for f in n]\" links all images below each class into one folder, for shoal data import images "
      "%s -o NEW.h5",
      python.run, shoal_python_text(folder, from), shoal_python_text(flat, to), shoal_shell_word(flat, word));
  free(flat);
  return text;
}

/* What a class may lack: images beside the folders, and in folders inside them. */
static void warn_unseen(const images *m)
{
  const class_folder *first = NULL;
  size_t nested = 0;
  char more[48] = "";
  for (size_t i = 0; i < m->n_folders; i++) {
    const class_folder *f = &m->folders[i];
    if (!f->images || !f->inside) continue;
    if (nested++ == 0) first = f;
  }
  if (nested > 1) snprintf(more, sizeof more, ", and %zu more have", nested - 1);
  char *flatten = how_to_flatten(m, m->folder);
  if (nested)
    shoal_warn("%s has folders inside (%s)%s, which are not looked into: images in them belong to no class%s",
               first->path, first->inside, more, flatten);
  free(flatten);
  if (m->strays > 1) snprintf(more, sizeof more, " and %zu more images are", m->strays - 1);
  if (m->tables.n) {
    char *command = shoal_images_table_command(&m->tables);
    shoal_warn("%s%s not read, classes are the names of folders%s%s", m->tables.at[0],
               m->tables.n > 1 ? " and other tables are" : " is", command ? "; folders of its classes: " : "",
               command ? command : "");
    free(command);
  }
  if (m->strays) shoal_warn("%s%s in no folder of a class: left out", m->stray, m->strays > 1 ? more : " is");
}

/* Names the folders that are no class, and what was left out of those that are. */
static void warn_left_out(const images *m, const char *folder)
{
  size_t none = 0, others = 0, n;
  const char *other = NULL;
  char why[320];
  for (size_t i = 0; i < m->n_folders; i++) {
    const class_folder *f = &m->folders[i];
    if (f->images && f->others && others == 0) other = f->other;
    if (f->images) others += f->others;
    if (f->images || (f->test && find_trained(m, shoal_path_base(f->path))) || none++ >= SHOWN) continue;
    const shoal_alien found = f->others ? find_other(f->other, &n) : (shoal_alien){ 0 };
    char *cure = found.what ? how_to_convert(&found, f->path, f->other, f->others) : NULL;
    shoal_warn("%s has no image and is left out of the classes: it %s%s%s", f->path, why_none(f, why, sizeof why),
               cure ? "; " : "", cure ? cure : "");
    free(cure);
  }
  if (other) warn_other(folder, other, others);
  if (none > SHOWN) shoal_warn("%s: %zu more folders have no image and are left out", folder, none - SHOWN);
  if (m->systems > 1) snprintf(why, sizeof why, " and %zu more such folders are", m->systems - 1);
  if (m->systems)
    shoal_warn("%s%s left out: a system or its file browser made %s, not who made the images", m->system,
               m->systems > 1 ? why : " is", m->systems > 1 ? "them" : "it");
  if (m->loops > 1) snprintf(why, sizeof why, ", and so are %zu more such links", m->loops - 1);
  if (m->loops)
    shoal_warn("%s is a link to a folder that holds it, and is left out%s", m->loop, m->loops > 1 ? why : "");
  if (others > 1) shoal_warn("%s: %zu files are neither PNG nor JPEG: left out", folder, others);
  warn_unseen(m);
}

/* Where a model says how many channels there are. */
static void tell_channels(const images *m)
{
  const noted *changed = m->form.channels == 3 ? &m->grey : &m->colour;
  if (!changed->n) return;
  shoal_info("%zu image%s %s and become%s %s, as %s has them; the first is %s", changed->n, changed->n > 1 ? "s" : "",
             m->form.channels == 3 ? changed->n > 1 ? "are grey" : "is grey"
             : changed->n > 1      ? "have colours"
                                   : "has colours",
             changed->n > 1 ? "" : "s",
             m->form.channels == 3 ? "three equal channels" : "grey (0.299 red + 0.587 green + 0.114 blue)",
             m->like.path, changed->first);
}

static void tell_converted(const images *m)
{
  if (m->turned.n)
    shoal_info("%zu image%s turned as %s Exif orientation says, the first is %s", m->turned.n,
               m->turned.n > 1 ? "s are" : " is", m->turned.n > 1 ? "their" : "its", m->turned.first);
  if (m->like.path)
    tell_channels(m);
  else if (m->grey.n && m->colour.n)
    shoal_info("%zu image%s grey and get%s three equal channels, since %zu have colours; the first grey one is %s, the "
               "first in "
               "colour %s",
               m->grey.n, m->grey.n > 1 ? "s are" : " is", m->grey.n > 1 ? "" : "s", m->colour.n, m->grey.first,
               m->colour.first);
  if (m->alpha.n)
    shoal_info("%zu image%s transparent pixels, which are mixed with black, the first is %s", m->alpha.n,
               m->alpha.n > 1 ? "s may have" : " may have", m->alpha.first);
  if (m->printed.n)
    shoal_info("%zu image%s the colours of print (CMYK), which become RGB, the first is %s", m->printed.n,
               m->printed.n > 1 ? "s have" : " has", m->printed.first);
}

/* Pixels of a data set of images are bytes; arrays of NumPy become f32, which holds 16 bits.  Pillow reads 16 bits of grey. */
static void warn_deep(const images *m)
{
  const size_t n = m->deep.n;
  if (n == 0) return;
  static const char *const packages[] = { "PIL", "numpy", NULL };
  char *command = NULL;
  shoal_python python;
  shoal_find_python(packages, &python);
  char from[SHOAL_WORD], to[SHOAL_WORD], *npz = shoal_strdup_printf("%s.npz", m->folder);
  if (n == m->files.n && m->form.channels == 1 && !m->splits)
    command = shoal_strdup_printf(": %s -c \"import glob, numpy; from PIL import Image; f = "
                                  "sorted(glob.glob(glob.escape(%s) + '/*/*.png')); numpy.savez(%s, "
                                  "images=[numpy.array(Image.open(p)) for p in f], "
                                  "labels=numpy.unique([p.split('/')[-2] for p in f], return_inverse=True)[1])\"%s%s",
                                  python.run, shoal_python_text(m->folder, from), shoal_python_text(npz, to),
                                  python.needs[0] ? "  # " : "", python.needs);
  free(npz);
  shoal_warn("%zu image%s 16 bits, of which 8 are kept (v / 257, rounded), the first is %s; `shoal data import npy` "
             "keeps all of "
             "them, from an array of the pixels%s",
             n, n > 1 ? "s have" : " has", m->deep.first, command ? command : "");
  free(command);
}

static void warn_moving(const images *m)
{
  if (m->moving.n)
    shoal_warn(
        "%zu image%s several pictures (animated, or by a camera with several lenses): the first is taken, the others "
        "are left out; the first is %s",
        m->moving.n, m->moving.n > 1 ? "s have" : " has", m->moving.first);
}

static void warn_odd(const images *m)
{
  if (m->odd.n)
    shoal_warn("%zu image%s read in spite of a warning, the first is %s%s", m->odd.n, m->odd.n > 1 ? "s were" : " was",
               m->odd_words.text, m->odd.n > SHOWN ? "; ..." : "");
}

/* ---- the data set ---- */

static shoal_status write_images(images *m, const shoal_import_args *a, const char *out_path)
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
    if (st != SHOAL_OK) SHOAL_TRY_GOTO(st, note_damaged(m, m->files.at[i], st), done);
    if (m->damaged.n) continue; /* no data set is made any more */
    if (odd[0] && m->odd.n < SHOWN) shoal_str_add(&m->odd_words, "%s%s: %s", m->odd.n ? "; " : "", m->files.at[i], odd);
    if (odd[0]) note(&m->odd, m->files.at[i]);
    const shoal_split split = m->test[i] ? SHOAL_TEST : SHOAL_TRAIN;
    const char *file = m->files.at[i] + folder;
    if (named) shoal_data_writer_name(w, split, file + strspn(file, "/"));
    SHOAL_TRY_GOTO(st, shoal_data_writer_add(w, split, 1, planes, &m->y[i]), done);
  }
  st = m->damaged.n ? refuse_damaged(m)
                    : shoal_data_writer_commit(w, classes, class_names.len ? class_names.text : NULL);
done:
  shoal_data_writer_destroy(w);
  shoal_str_free(&class_names);
  free(planes);
  return st;
}

/* Archives often unpack to a folder in a folder. */
static shoal_status refuse_without_images(const images *m, const char *folder)
{
  const char *inner = NULL, *other = NULL;
  size_t n, others = 0;
  for (size_t i = 0; i < m->n_folders && !inner; i++)
    if (m->folders[i].inside) inner = m->folders[i].path;
  for (size_t i = 0; i < m->n_folders; i++) {
    if (!other) other = m->folders[i].other;
    others += m->folders[i].others;
  }
  const shoal_alien found = other ? find_other(other, &n) : (shoal_alien){ NULL, NULL };
  if (found.what && !inner) {
    char *cure = how_to_convert(&found, folder, other, others);
    shoal_status st =
        SHOAL_FAIL(SHOAL_ERR_IO, "%s has no PNG or JPEG files in the folders of its classes: %s is %s: %s", folder,
                   other, found.what, cure);
    free(cure);
    return st;
  }
  char *flatten = inner ? how_to_flatten(m, folder) : NULL;
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "%s has no PNG or JPEG files in the folders of its classes%s%s%s%s",
                               folder, inner ? "; if the folders in " : "", inner ? inner : "",
                               inner ? " are the classes, give that" : "", inner ? flatten : "");
  free(flatten);
  return st;
}

shoal_status shoal_import_images(const shoal_import_args *a, const char *out_path)
{
  images m = { 0 };
  bool by_folder = false;
  SHOAL_CHECK(a->n_sources == 1, SHOAL_ERR_ARG, "images are in one folder with a folder for each class, %zu were given",
              a->n_sources);
  shoal_status st;
  if (a->like) {
    m.first = m.like.path = a->like;
    SHOAL_TRY_GOTO(st, shoal_like_read(a->like, read_like, &m.like), done);
    m.form = (shoal_image){ .channels = (int)m.like.sample[0],
                            .height = (int)m.like.sample[1],
                            .width = (int)m.like.sample[2] };
  }
  SHOAL_TRY_GOTO(st, collect(a, a->sources[0], &m, &by_folder), done);
  if (m.files.n == 0) {
    st = m.damaged.n ? refuse_damaged(&m) : refuse_without_images(&m, a->sources[0]);
    goto done;
  }
  SHOAL_TRY_GOTO(st, name_classes(&m), done);
  SHOAL_TRY_GOTO(st, number_samples(&m), done);
  SHOAL_CHECK_GOTO(st, !by_folder || m.test[m.files.n - 1], done, SHOAL_ERR_IO,
                   "%s has no image in the folders of its test split: add some, or remove the split to have one drawn",
                   a->sources[0]);
  warn_left_out(&m, a->sources[0]);
  const size_t classes = m.classes.n ? m.classes.n : (size_t)m.like.classes;
  shoal_info("%s: %zu image%s of %d x %d, %s, in %zu class%s", a->sources[0], m.files.n, m.files.n == 1 ? "" : "s",
             m.form.width, m.form.height, m.form.channels == 3 ? "in colour" : "grey", classes,
             classes == 1 ? "" : "es");
  if (!by_folder && !(a->like && !a->test_share))
    SHOAL_TRY_GOTO(st, shoal_import_split(a, m.files.n, m.y, m.test), done);
  tell_converted(&m);
  warn_deep(&m);
  warn_moving(&m);
  st = write_images(&m, a, out_path);
  if (st == SHOAL_OK) warn_odd(&m);
done:
  close_images(&m);
  return st;
}
