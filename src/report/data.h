/* Reports on data sets. */
#ifndef SHOAL_REPORT_DATA_H
#define SHOAL_REPORT_DATA_H
#include "base/status.h"
#include <stdbool.h>
#include <stdio.h>

/** Opens n files, or patterns of files, as one data set and prints of each file: shapes, class histogram, mean, standard deviation, chunk layout and the read amplification of shuffled reads;
 *  verifies labels and the checksum.
 *  @return ERR_IO, after printing, if a label is out of range, a value is NaN or infinite, or the checksum differs
 *  Cost    one sequential read of the file */
shoal_status shoal_data_inspect(const char *const *paths, size_t n, bool json, FILE *out);
#endif
