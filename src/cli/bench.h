/* Shared by the files of `shoal bench`. */
#ifndef SHOAL_CLI_BENCH_H
#define SHOAL_CLI_BENCH_H
#include "cli/cli.h"
#include <stddef.h>

double shoal_bench_median(double *values, size_t n); /* sorts them; NAN if n is 0 */
shoal_status shoal_bench_comm(int argc, char **argv);
extern const shoal_verb_help shoal_bench_comm_help;
#endif
