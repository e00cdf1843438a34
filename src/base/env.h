/* Environment variables: of this process, or of a file of NAME=VALUE lines as `env` prints them.  Both are looked up by
 * the same two functions, so whoever reads them cannot tell. */
#ifndef SHOAL_BASE_ENV_H
#define SHOAL_BASE_ENV_H
#include "base/status.h"

typedef struct shoal_env shoal_env; /* NULL wherever one is taken: this process's own environment */
/** Lines that are not NAME=VALUE belong to the value before them, or are shell functions, and are skipped; a later line
 *  replaces an earlier one of the same name.  ERR_IO if it cannot be read, ERR_USAGE if it has no such line. */
shoal_status shoal_env_read(const char *path, shoal_env **out);
void shoal_env_destroy(shoal_env *e);
const char *shoal_env_get(const shoal_env *e, const char *name);    /* NULL: not set, or empty */
int shoal_env_int(const shoal_env *e, const char *name, int least); /* -1: not set, no whole number, or below `least` */
#endif
