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

static shoal_status add(shoal_import_list *l, char *path)
{
  char **more = realloc(l->paths, (l->n + 1) * sizeof *more);
  if (!more) {
    free(path);
    return SHOAL_FAIL(SHOAL_ERR_MEM, "out of memory for %zu names of files", l->n + 1);
  }
  l->paths = more;
  l->paths[l->n++] = path;
  return SHOAL_OK;
}

static int by_name(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool fits(const char *name, const char *const *patterns)
{
  for (; *patterns; patterns++)
    if (fnmatch(*patterns, name, FNM_PERIOD) == 0) return true;
  return false;
}

static shoal_status add_folder(const char *folder, const char *const *patterns, shoal_import_list *l)
{
  size_t before = l->n;
  shoal_status st = SHOAL_OK;
  DIR *d = opendir(folder);
  SHOAL_CHECK(d, SHOAL_ERR_IO, "cannot read the folder %s: %s", folder, strerror(errno));
  for (struct dirent *e; st == SHOAL_OK && (e = readdir(d)) != NULL;)
    if (fits(e->d_name, patterns)) st = add(l, shoal_path_join(folder, e->d_name));
  closedir(d);
  SHOAL_TRY(st);
  shoal_str s = { 0 };
  for (size_t i = 0; patterns[i]; i++) shoal_str_add(&s, "%s%s", i ? ", " : "", patterns[i]);
  if (l->n == before) st = SHOAL_FAIL(SHOAL_ERR_IO, "the folder %s has no file called like %s", folder, s.text);
  shoal_str_free(&s);
  SHOAL_TRY(st);
  qsort(l->paths + before, l->n - before, sizeof *l->paths, by_name);
  for (size_t i = before; i < l->n; i++)
    shoal_str_add(&s, "%s%s", i > before ? ", " : "", shoal_path_base(l->paths[i]));
  shoal_info("%s: %zu files in this order: %s", folder, l->n - before, s.text);
  shoal_str_free(&s);
  return SHOAL_OK;
}

shoal_status shoal_import_expand(const shoal_import_args *a, const char *const *patterns, shoal_import_list *list)
{
  for (size_t i = 0; i < a->n_sources; i++)
    if (is_folder(a->sources[i]))
      SHOAL_TRY(add_folder(a->sources[i], patterns, list));
    else
      SHOAL_TRY(add(list, shoal_strdup_printf("%s", a->sources[i])));
  list->args = *a;
  list->args.sources = (const char *const *)list->paths;
  list->args.n_sources = list->n;
  return SHOAL_OK;
}

void shoal_import_list_fini(shoal_import_list *list)
{
  for (size_t i = 0; i < list->n; i++) free(list->paths[i]);
  free(list->paths);
  *list = (shoal_import_list){ 0 };
}
