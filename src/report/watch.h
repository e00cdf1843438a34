/* A run as a page in the terminal, from its folder alone: so it works on any host that sees the folder, and asks nothing
 * of the run.
 *
 *   status.json     state, progress, loss, speed, time left      written by the run every 5 s
 *   metrics.csv     the loss curve                               a row per epoch and evaluation
 *   trace/          the last steps of each rank                  written every 5 s */
#ifndef SHOAL_REPORT_WATCH_H
#define SHOAL_REPORT_WATCH_H
#include "base/str.h"

typedef struct shoal_watch shoal_watch;

/** ERR_USAGE if `dir` is not the folder of a run. */
shoal_status shoal_watch_open(const char *dir, shoal_watch **out);
void shoal_watch_close(shoal_watch *w); /* NULL is fine */
/** Reads the files anew.  A file that is missing, or half of a later version, leaves its part of the page as it was; ERR_IO
 *  only if status.json was never readable.  Cost: small files, and of the traces the last records of each rank. */
shoal_status shoal_watch_refresh(shoal_watch *w);
/** Whether the run has come to an end: done or failed.  A stopped one may be continued by the batch system. */
bool shoal_watch_is_over(const shoal_watch *w);
/** The page, lines of at most `columns` characters, at most `rows` of them (0: as many as it needs).
 *  @param wide  Braille patterns and blocks may be used; else ASCII */
void shoal_watch_print(const shoal_watch *w, int columns, int rows, bool wide, shoal_str *out);
#endif
