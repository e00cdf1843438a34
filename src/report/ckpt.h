/* Reports on checkpoints: the contents of a folder, the contents of one file, and the differences of two files. */
#ifndef SHOAL_REPORT_CKPT_H
#define SHOAL_REPORT_CKPT_H
#include "ckpt/ckpt.h"

shoal_status shoal_ckpt_print_list(const char *dir, bool json, FILE *out);
shoal_status shoal_ckpt_print(const char *path, bool json, FILE *out); /* `shoal ckpt show` */
/** Prints the differences, one line per data set: missing, other shape, or other values (count, largest difference and
 *  its position).  Sets *different.
 *  @param only       prefix to compare ("model/"), or NULL for everything, with step, epoch, samples, method and model
 *  @param except     prefixes to leave out, joined by commas, or NULL
 *  @param tolerance  0: the bits must be equal; else the bound of |a - b| / the largest |value| of the array in `a`
 *  @return ERR_IO if a file fails verification; ERR_USAGE if no name begins with `only` */
shoal_status shoal_ckpt_diff(const char *a, const char *b, const char *only, const char *except, double tolerance,
                             bool json, FILE *out, bool *different);
#endif
