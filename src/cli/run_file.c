/* See run_file.h. */
#include "cli/run_file.h"
#include "base/error.h"
#include "base/file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

shoal_status shoal_check_run_file(const char *path, const shoal_str *text, const char *from, const char *folder)
{
  char *there = NULL, *script, on[SHOAL_WORD + 128] = "", word[SHOAL_WORD];
  size_t n;
  if (!shoal_path_exists(path)) return SHOAL_OK;
  SHOAL_TRY(shoal_read_file(path, &there, &n));
  bool same = strcmp(there, text->text) == 0;
  free(there);
  script = shoal_path_join(folder, "job.sbatch");
  if (shoal_path_exists(script))
    snprintf(on, sizeof on,
             "; its runs go on with another setting by sbatch %s --set run.epochs=20, or whichever it is",
             shoal_shell_word(script, word));
  free(script);
  SHOAL_CHECK(same, SHOAL_ERR_USAGE,
              "%s is there, and says something else than %s would today: move the folder %s away, or give another "
              "--set run.name=NAME%s",
              path, from, folder, on);
  return SHOAL_OK;
}

shoal_status shoal_made_dirs(const char *path, shoal_texts *made)
{
  for (const char *at = path + (*path == '/'); *at;) {
    at += strcspn(at, "/");
    char *dir = shoal_strdup_printf("%.*s", (int)(at - path), path);
    if (shoal_path_exists(dir))
      free(dir);
    else
      SHOAL_TRY(shoal_texts_take(made, dir));
    at += strspn(at, "/");
  }
  return shoal_make_dirs(path);
}

shoal_status shoal_made_file(const char *path, const shoal_str *text, shoal_texts *made)
{
  if (!shoal_path_exists(path)) SHOAL_TRY(shoal_texts_add(made, path));
  return shoal_write_file(path, text->text, text->len);
}

void shoal_made_undo(shoal_texts *made)
{
  for (size_t i = made->n; i-- > 0;) (void)remove(made->at[i]);
  shoal_texts_free(made);
}
