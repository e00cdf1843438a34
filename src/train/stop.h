/* Stop requests: USR1 and TERM (and USR2, INT, HUP) only raise a flag; the loop agrees on a step and saves there. */
#ifndef SHOAL_TRAIN_STOP_H
#define SHOAL_TRAIN_STOP_H
#include <stdbool.h>
/** Catches USR1, USR2, TERM, INT and HUP from now on.  A second INT ends the process at once. */
void shoal_stop_install(void);
bool shoal_stop_requested(void);
#endif
