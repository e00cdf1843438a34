/* Labels in a table of their own. */
#ifndef SHOAL_DATA_CSV_BESIDE_H
#define SHOAL_DATA_CSV_BESIDE_H
#include "data/dataset.h"

/** ERR_IO, with the command that joins them, if the sources are tables of features and of labels by their names, for one split or both. */
shoal_status shoal_csv_refuse_beside(const shoal_import_args *a, const char *out_path);
#endif
