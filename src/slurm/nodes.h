/* Slurm's compressed host lists, written out. */
#ifndef SHOAL_SLURM_NODES_H
#define SHOAL_SLURM_NODES_H
#include "base/status.h"
#include <stddef.h>

enum { SHOAL_MOST_NODES = 100000 };
/** "n[1-2,4],m7" to names, in order: several brackets multiply, the last varies fastest; "n[01-10]x" keeps the zeros.
 *  No external command.  Caller frees each and the array.  ERR_USAGE names the position (from 1) of what is wrong. */
shoal_status shoal_topo_expand_nodes(const char *list, char ***names_out, size_t *n_out);
/** shoal_topo_expand_nodes that calls the list `what` in messages. */
shoal_status shoal_topo_expand_named(const char *what, const char *list, char ***names_out, size_t *n_out);
#endif
