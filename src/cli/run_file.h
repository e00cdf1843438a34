/* Run files that a verb makes of others: resolved, so that they mean the same tomorrow. */
#ifndef SHOAL_CLI_RUN_FILE_H
#define SHOAL_CLI_RUN_FILE_H
#include "base/str.h"

/** Writes one, whole or not at all, unless it is there and says the same.  ERR_USAGE if it says something else, with the cure.
 *  @param from    the run file that it was made of, for the message
 *  @param folder  that all of its kind lie in */
shoal_status shoal_keep_run_file(const char *path, const shoal_str *text, const char *from, const char *folder);
#endif
