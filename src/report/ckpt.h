/* Checkpoints on paper: what a folder holds, what one file holds, and where two files differ. */
#ifndef SHOAL_REPORT_CKPT_H
#define SHOAL_REPORT_CKPT_H
#include "ckpt/ckpt.h"

shoal_status shoal_ckpt_print_list(const char *dir, bool json, FILE *out);
shoal_status shoal_ckpt_print(const char *path, bool json, FILE *out); /* show */
/** Differences, a line per data set: missing, shape, values (count, largest, where).  *different says the verdict.
 *  @param only       prefix to compare ("model/"), or NULL for everything, with step, epoch, samples, method and model
 *  @param except     prefix to leave out, or NULL
 *  @param tolerance  0: equal bits; otherwise the bound of |a - b| / the largest |value| of the array in `a`
 *  @return ERR_IO when one of them does not verify; ERR_USAGE when nothing begins with `only` */
shoal_status shoal_ckpt_diff(const char *a, const char *b, const char *only, const char *except, double tolerance,
                             bool json, FILE *out, bool *different);
#endif
