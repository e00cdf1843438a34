/* Stop requests: signals only raise a flag; the loop agrees on a step and saves there.
 *
 * A signal that is ignored when the program starts stays ignored: HUP under nohup, INT in the background of a script.  That
 * holds for USR1 and TERM, too, but a run that does not hear them has no checkpoint at the time limit, so the start warns of
 * it.  HUP says that a terminal is gone, so it is ignored by a process whose messages do not go to one; some programs that start
 * others, `timeout` among them, undo what nohup did. */
#ifndef SHOAL_TRAIN_STOP_H
#define SHOAL_TRAIN_STOP_H
#include <stdbool.h>
#include <stdint.h>
/* In the order in which the start offers them. */
enum { SHOAL_STOP_USR1, SHOAL_STOP_TERM, SHOAL_STOP_USR2, SHOAL_STOP_INT, SHOAL_STOP_HUP, SHOAL_STOP_SIGNALS };
/** Catches the signals from now on, except those that are ignored (see above).  A second INT ends the process at once. */
void shoal_stop_install(void);
bool shoal_stop_requested(void);
/** Whether the terminal that this process was started from is gone: HUP says so, and the kernel, where a launcher asks by another
 *  signal. */
bool shoal_stop_terminal_gone(void);
/** Seconds of processor time after which this process is asked to stop (ulimit -t); 0: there is no limit. */
int64_t shoal_stop_cpu_limit(void);
int shoal_stop_count(void); /* signals so far */
enum { SHOAL_STOP_WORDS = 64 };
/** The first one, as "TERM at 12:34:56"; "a signal" if only other ranks have heard one. */
const char *shoal_stop_words(char out[SHOAL_STOP_WORDS]);
const char *shoal_stop_name(int which);
bool shoal_stop_ignores(int which);
#endif
