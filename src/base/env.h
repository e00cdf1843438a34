/* Environment variables of this process, or from a file of NAME=VALUE lines as printed by `env`.  The same two
 * functions look up both, so callers need not distinguish them. */
#ifndef SHOAL_BASE_ENV_H
#define SHOAL_BASE_ENV_H
#include "base/status.h"

typedef struct shoal_env shoal_env; /* a NULL pointer stands for this process's own environment */
/** Read saved variables.  Lines that are not NAME=VALUE (continuations of a value, shell functions) are skipped; a
 *  later line replaces an earlier one of the same name.  ERR_IO if the file cannot be read, ERR_USAGE if it has no
 *  NAME=VALUE line. */
shoal_status shoal_env_read(const char *path, shoal_env **out);
void shoal_env_destroy(shoal_env *e);
const char *shoal_env_get(const shoal_env *e, const char *name);    /* NULL if unset or empty */
int shoal_env_int(const shoal_env *e, const char *name, int least); /* -1 if unset, not an integer, or below `least` */
#endif
