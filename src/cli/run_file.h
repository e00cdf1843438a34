/* Files that a verb makes for jobs: run files made of others, resolved, so that they mean the same tomorrow; and what is taken back
 * if no job comes of it. */
#ifndef SHOAL_CLI_RUN_FILE_H
#define SHOAL_CLI_RUN_FILE_H
#include "base/str.h"
#include "base/texts.h"

/** ERR_USAGE, with the cure, if the run file `path` is there and says something else than `text`.
 *  @param from    the run file that it was made of, for the message
 *  @param folder  that all of its kind lie in */
shoal_status shoal_check_run_file(const char *path, const shoal_str *text, const char *from, const char *folder);

/* Every function below adds the files and folders that were not there before to `made`, outer folders first. */
shoal_status shoal_made_dirs(const char *path, shoal_texts *made); /* like mkdir -p */
/** Whole or not at all; what is there is replaced. */
shoal_status shoal_made_file(const char *path, const shoal_str *text, shoal_texts *made);
/** Removes them, the last first; a folder that holds anything else stays. */
void shoal_made_undo(shoal_texts *made);
#endif
