/* metrics.csv: a row for every epoch and every evaluation, as exact as the weights.
 *
 * A checkpoint holds the number of rows that were written before it; a run that goes on from it keeps so many, whatever a
 * killed attempt wrote after it, and adds the next ones.  So a disturbed run has the rows of an undisturbed one.
 *
 * A row that cannot be written (a full disk) stays in memory and is tried again with the next one, and at the end. */
#ifndef SHOAL_TRAIN_ROWS_H
#define SHOAL_TRAIN_ROWS_H
#include "base/str.h"

typedef struct shoal_rows shoal_rows;
enum { SHOAL_ROWS_BY_STEP = -1 };

/** Opens the table at `path`, made if there is none.
 *  @param keep  rows that stay.  BY_STEP: those of steps up to `step`, for checkpoints that do not tell; 0: none
 *  @param more  columns of this attempt besides those of all runs, each preceded by a comma.  Rows that stay are matched by
 *               name, and columns that only they have come last */
shoal_status shoal_rows_open(const char *path, int64_t keep, uint64_t step, const char *more, shoal_rows **out);
/** Adds a row with the columns of this attempt, without a newline, and writes it if that is possible. */
void shoal_rows_add(shoal_rows *r, const char *row);
/** If the file was removed, writes it anew with all that was in it, and says so.  Only for who owns the folder. */
void shoal_rows_renew(shoal_rows *r);
int64_t shoal_rows_count(const shoal_rows *r); /* all, also those that are not written yet */
/** Writes what is not written yet, and makes it durable.  ERR_IO names the path and how many rows are missing. */
shoal_status shoal_rows_flush(shoal_rows *r);
void shoal_rows_close(shoal_rows *r); /* does not write; NULL is fine */
#endif
