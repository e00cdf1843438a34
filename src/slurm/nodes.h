/* Expansion of Slurm's compressed host lists. */
#ifndef SHOAL_SLURM_NODES_H
#define SHOAL_SLURM_NODES_H
#include "base/status.h"
#include <stddef.h>

enum { SHOAL_MOST_NODES = 100000 };
/** Expand "n[1-2,4],m7" to names, in order.  Of several brackets the last varies fastest; "n[01-10]x" keeps leading
 *  zeros. Runs no external command.  Caller frees each name and the array.  ERR_USAGE gives the position (from 1) of
 *  the fault. */
shoal_status shoal_topo_expand_nodes(const char *list, char ***names_out, size_t *n_out);
/** The same; messages refer to the list as `what`. */
shoal_status shoal_topo_expand_named(const char *what, const char *list, char ***names_out, size_t *n_out);
#endif
