/* Data sets on paper. */
#ifndef SHOAL_REPORT_DATA_H
#define SHOAL_REPORT_DATA_H
#include "base/status.h"
#include <stdbool.h>
#include <stdio.h>

/** Tables: shapes, classes histogram, mean, std, chunk layout, read amplification of shuffled reads; verifies labels
 * and the checksum.
 *  @return ERR_IO, after printing, if a label is out of range, a value is not finite or the checksum does not agree
 *  Cost    one sequential read of the file */
shoal_status shoal_data_inspect(const char *path, bool json, FILE *out);
#endif
