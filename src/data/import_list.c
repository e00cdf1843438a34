/* Folders among the sources of an import: each stands for the files in it that belong to the kind.
 *
 * Who unpacks FILE.gz and keeps it has the same samples twice; of such a pair only FILE is taken. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/npy_folders.h"
#include "data/text_folders.h"
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *path)
{
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool fits(const char *name, const char *const *patterns)
{
  for (; *patterns; patterns++)
    if (fnmatch(*patterns, name, FNM_PERIOD) == 0) return true;
  return false;
}

/* Adds the files of a folder that fit. */
static shoal_status list_fitting(const char *folder, const char *const *patterns, shoal_texts *out)
{
  shoal_status st = SHOAL_OK;
  DIR *d = opendir(folder);
  if (!d) return shoal_io_fault("read the folder", folder, errno);
  for (struct dirent *e; st == SHOAL_OK && (e = readdir(d)) != NULL;)
    if (fits(e->d_name, patterns)) st = shoal_texts_take(out, shoal_path_join(folder, e->d_name));
  closedir(d);
  return st;
}

#define PICKLED_CIFAR                                                                                                  \
  ": this is the version for Python, pickles, which can run code and are not loaded; get the binary version "          \
  "(cifar-10-binary.tar.gz, cifar-100-binary.tar.gz)"

static shoal_status refuse_contents(const char *folder, const char *patterns, const shoal_texts *inside)
{
  enum { SHOWN = 5 };
  char name[80];
  shoal_str s = { 0 };
  for (size_t i = 0; i < inside->n && i <= SHOWN; i++)
    shoal_str_add(&s, "%s%s", i ? ", " : "; it has ",
                  i < SHOWN ? shoal_show(shoal_path_base(inside->at[i]), name, sizeof name) : "...");
  bool pickled = false;
  const bool binary = patterns && strstr(patterns, ".bin");
  for (size_t i = 0; i < inside->n && binary; i++) {
    const char *base = shoal_path_base(inside->at[i]);
    pickled |= strcmp(base, "batches.meta") == 0 || (strcmp(base, "meta") == 0);
  }
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "the folder %s has no file called like %s%s%s", folder, patterns,
                               s.text ? s.text : "; it is empty", pickled ? PICKLED_CIFAR : "");
  shoal_str_free(&s);
  return st;
}

/* Archives often unpack to a folder in a folder. */
static shoal_status refuse_without_files(const char *folder, const char *const *patterns)
{
  static const char *const any[] = { "*", NULL };
  shoal_texts inside = { 0 };
  shoal_str s = { 0 };
  for (size_t i = 0; patterns[i]; i++) shoal_str_add(&s, "%s%s", i ? ", " : "", patterns[i]);
  shoal_status st = list_fitting(folder, any, &inside), fault = SHOAL_OK;
  char *cure =
      st == SHOAL_OK && patterns[0] && strcmp(patterns[0], "*.npy") == 0 ? shoal_npy_folders_cure(folder) : NULL;
  shoal_texts_sort(&inside, 0);
  for (size_t i = 0; st == SHOAL_OK && fault == SHOAL_OK && !cure && i < inside.n; i++) {
    shoal_texts deeper = { 0 };
    if (is_folder(inside.at[i])) st = list_fitting(inside.at[i], patterns, &deeper);
    if (deeper.n > 0)
      fault = SHOAL_FAIL(SHOAL_ERR_IO, "the folder %s has no file called like %s, but %s has: give that", folder,
                         s.text, inside.at[i]);
    shoal_texts_free(&deeper);
  }
  if (st == SHOAL_OK && fault == SHOAL_OK && !cure) cure = shoal_text_folders_cure(folder);
  if (cure)
    fault = SHOAL_FAIL(SHOAL_ERR_IO, "the folder %s has no file called like %s; %s", folder, s.text, cure);
  else if (st == SHOAL_OK && fault == SHOAL_OK)
    fault = refuse_contents(folder, s.text, &inside);
  free(cure);
  shoal_texts_free(&inside);
  shoal_str_free(&s);
  return st == SHOAL_OK ? fault : st;
}

/* Whether the list has the file that this one packs. */
static bool is_unpacked(const shoal_texts *l, const char *path)
{
  const size_t n = strlen(path);
  if (n < 4 || strcmp(path + n - 3, ".gz") != 0) return false;
  for (size_t i = 0; i < l->n; i++)
    if (strlen(l->at[i]) == n - 3 && memcmp(l->at[i], path, n - 3) == 0) return true;
  return false;
}

/* Appends what is not a twin. */
static shoal_status take_over(const shoal_texts *from, shoal_texts *to)
{
  for (size_t i = 0; i < from->n; i++)
    if (!is_unpacked(from, from->at[i]))
      SHOAL_TRY(shoal_texts_add(to, from->at[i]));
    else
      shoal_warn("%s is left out: it packs %.*s, which is there, too", from->at[i], (int)strlen(from->at[i]) - 3,
                 from->at[i]);
  return SHOAL_OK;
}

static shoal_status add_folder(const char *folder, const char *const *patterns, shoal_texts *out)
{
  const size_t before = out->n;
  shoal_texts here = { 0 };
  shoal_str s = { 0 };
  shoal_status st;
  SHOAL_TRY_GOTO(st, list_fitting(folder, patterns, &here), done);
  if (here.n == 0) {
    st = refuse_without_files(folder, patterns);
    goto done;
  }
  shoal_texts_sort(&here, 0);
  SHOAL_TRY_GOTO(st, take_over(&here, out), done);
  for (size_t i = before; i < out->n; i++)
    shoal_str_add(&s, "%s%s", i > before ? ", " : "", shoal_path_base(out->at[i]));
  const size_t n = out->n - before;
  shoal_info(n > 1 ? "%s: %zu files in this order: %s" : "%s: %zu file: %s", folder, n, s.text);
  shoal_str_free(&s);
done:
  shoal_texts_free(&here);
  return st;
}

/* Beside texts to go on with there may be folders of such that are to be told apart. */
static void warn_of_folders(const char *folder)
{
  char *cure = shoal_text_folders_cure(folder);
  if (cure) shoal_warn("%s: only the files in the folder itself are read; %s", folder, cure);
  free(cure);
}

static shoal_status collect(const shoal_import_args *a, const char *const *patterns, shoal_texts *out)
{
  for (size_t i = 0; i < a->n_sources; i++)
    if (!is_folder(a->sources[i])) {
      SHOAL_TRY(shoal_texts_add(out, a->sources[i]));
    } else {
      SHOAL_TRY(add_folder(a->sources[i], patterns, out));
      if (strcmp(a->kind, "text") == 0) warn_of_folders(a->sources[i]);
    }
  return SHOAL_OK;
}

shoal_status shoal_import_expand(const shoal_import_args *a, const char *const *patterns, shoal_import_list *list)
{
  shoal_texts all = { 0 };
  shoal_status st = collect(a, patterns, &all);
  if (st == SHOAL_OK) st = take_over(&all, &list->paths);
  shoal_texts_free(&all);
  list->args = *a;
  list->args.sources = (const char *const *)list->paths.at;
  list->args.n_sources = list->paths.n;
  return st;
}

void shoal_import_list_fini(shoal_import_list *list)
{
  shoal_texts_free(&list->paths);
  *list = (shoal_import_list){ 0 };
}
