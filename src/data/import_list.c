/* Folders among the sources of an import: each stands for the files in it that belong to the kind. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
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

static shoal_status add_folder(const char *folder, const char *const *patterns, shoal_import_list *l)
{
  size_t before = l->paths.n;
  shoal_status st = SHOAL_OK;
  DIR *d = opendir(folder);
  SHOAL_CHECK(d, SHOAL_ERR_IO, "cannot read the folder %s: %s", folder, strerror(errno));
  for (struct dirent *e; st == SHOAL_OK && (e = readdir(d)) != NULL;)
    if (fits(e->d_name, patterns)) st = shoal_texts_take(&l->paths, shoal_path_join(folder, e->d_name));
  closedir(d);
  SHOAL_TRY(st);
  shoal_str s = { 0 };
  for (size_t i = 0; patterns[i]; i++) shoal_str_add(&s, "%s%s", i ? ", " : "", patterns[i]);
  if (l->paths.n == before) st = SHOAL_FAIL(SHOAL_ERR_IO, "the folder %s has no file called like %s", folder, s.text);
  shoal_str_free(&s);
  SHOAL_TRY(st);
  shoal_texts_sort(&l->paths, before);
  for (size_t i = before; i < l->paths.n; i++)
    shoal_str_add(&s, "%s%s", i > before ? ", " : "", shoal_path_base(l->paths.at[i]));
  shoal_info("%s: %zu files in this order: %s", folder, l->paths.n - before, s.text);
  shoal_str_free(&s);
  return SHOAL_OK;
}

shoal_status shoal_import_expand(const shoal_import_args *a, const char *const *patterns, shoal_import_list *list)
{
  for (size_t i = 0; i < a->n_sources; i++)
    if (is_folder(a->sources[i]))
      SHOAL_TRY(add_folder(a->sources[i], patterns, list));
    else
      SHOAL_TRY(shoal_texts_add(&list->paths, a->sources[i]));
  list->args = *a;
  list->args.sources = (const char *const *)list->paths.at;
  list->args.n_sources = list->paths.n;
  return SHOAL_OK;
}

void shoal_import_list_fini(shoal_import_list *list)
{
  shoal_texts_free(&list->paths);
  *list = (shoal_import_list){ 0 };
}
