/* What lies in a folder of images.  Hidden files are ignored, and so is what a system or its file browser leaves behind (__MACOSX,
 * Thumbs.db); a link to a folder that holds it is never followed. */
#include "data/image_folder.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/image.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

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
static shoal_entry_kind find_kind(DIR *d, const char *name)
{
  static const char *const folders[] = {
    "__MACOSX", "@eaDir", "#recycle", "$RECYCLE.BIN", "System Volume Information", "lost+found", NULL
  };
  static const char *const files[] = { "Thumbs.db", "desktop.ini", NULL };
  struct stat info;
  if (name[0] == '.') return SHOAL_ENTRY_HIDDEN;
  if (fstatat(dirfd(d), name, &info, 0) == 0 && S_ISDIR(info.st_mode))
    return is_one_of(name, folders)  ? SHOAL_ENTRY_OF_SYSTEM
           : is_loop(d, name, &info) ? SHOAL_ENTRY_LOOP
                                     : SHOAL_ENTRY_FOLDER;
  return is_one_of(name, files) ? SHOAL_ENTRY_HIDDEN : SHOAL_ENTRY_FILE;
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

shoal_status shoal_image_folder_list(const char *folder, shoal_entry_kind kind, shoal_texts *out)
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

bool shoal_image_folder_is_link(const char *path)
{
  struct stat info;
  return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

bool shoal_image_folder_is_table(const char *name)
{
  const char *end = strrchr(name, '.');
  return end && (strcasecmp(end, ".csv") == 0 || strcasecmp(end, ".tsv") == 0);
}

bool shoal_image_folder_may_list(const char *name)
{
  const char *end = strrchr(name, '.');
  return end && (strcasecmp(end, ".txt") == 0 || strcasecmp(end, ".lst") == 0);
}

bool shoal_image_folder_is_image(const char *path)
{
  shoal_image look;
  shoal_error ignored;
  const bool is =
      shoal_image_look(path, &look) != SHOAL_OK || look.width > 0; /* one that cannot be read is told later */
  shoal_error_take(&ignored);
  return is;
}

shoal_status shoal_image_folder_count(const char *folder, size_t *out)
{
  shoal_texts files = { 0 };
  shoal_status st = shoal_image_folder_list(folder, SHOAL_ENTRY_FILE, &files);
  *out = 0;
  for (size_t i = 0; st == SHOAL_OK && i < files.n; i++) {
    char *path = shoal_path_join(folder, files.at[i]);
    *out += shoal_image_folder_is_image(path);
    free(path);
  }
  shoal_texts_free(&files);
  return st;
}

shoal_status shoal_image_folder_look(const char *folder, const char *name, bool *folders, bool *found)
{
  shoal_texts inside = { 0 };
  char *path = shoal_path_join(folder, name);
  shoal_status st = shoal_image_folder_list(path, SHOAL_ENTRY_FOLDER, &inside);
  *folders = inside.n > 0;
  *found = false;
  for (size_t i = 0; st == SHOAL_OK && i < inside.n && !*found; i++) {
    shoal_texts files = { 0 };
    char *class = shoal_path_join(path, inside.at[i]);
    st = shoal_image_folder_list(class, SHOAL_ENTRY_FILE, &files);
    for (size_t k = 0; st == SHOAL_OK && k < files.n && !*found; k++) {
      char *file = shoal_path_join(class, files.at[k]);
      *found = shoal_image_folder_is_image(file);
      free(file);
    }
    free(class);
    shoal_texts_free(&files);
  }
  shoal_texts_free(&inside);
  free(path);
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

shoal_status shoal_image_folder_names_classes(const char *folder, bool *out)
{
  shoal_texts files = { 0 };
  size_t n = 0, classes = 0, alone = 0, of_class = 0, before = 0;
  const char *last = "";
  shoal_status st = shoal_image_folder_list(folder, SHOAL_ENTRY_FILE, &files);
  for (size_t i = 0; st == SHOAL_OK && i < files.n; i++) { /* sorted, so those of a class are together */
    const char *name = files.at[i];
    char *path = shoal_path_join(folder, name);
    const bool image = shoal_image_folder_is_image(path);
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
