/* Stop requests: USR1 and TERM (and INT) only raise a flag; the loop agrees on a step and saves there. */
#ifndef SHOAL_TRAIN_STOP_H
#define SHOAL_TRAIN_STOP_H
#include <stdbool.h>
/** Catch USR1, USR2, TERM and INT from now on.  A second INT ends the process at once, as people expect of ^C. */
void shoal_stop_install(void);
bool shoal_stop_requested(void);
const char *shoal_stop_signal_name(void); /* "USR1"; "" before any */
#endif
