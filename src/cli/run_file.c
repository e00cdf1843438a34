/* See run_file.h. */
#include "cli/run_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

shoal_status shoal_keep_run_file(const char *path, const shoal_str *text, const char *from, const char *folder)
{
  char *there = NULL, *script, on[SHOAL_WORD + 128] = "", word[SHOAL_WORD];
  size_t n;
  if (!shoal_path_exists(path)) return shoal_write_file(path, text->text, text->len);
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
