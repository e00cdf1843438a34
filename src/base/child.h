/* Trying in a child process what may crash or never end.  Libraries that parse files do, on damaged ones; a run must not. */
#ifndef SHOAL_BASE_CHILD_H
#define SHOAL_BASE_CHILD_H
#include <stdbool.h>

/** Runs what(context) in a child process and tells whether it came back, whatever its result: then it does so here, too.
 *  The child prints nothing, leaves no core and may use `seconds` of processor time, and 20 times that in all.  False also if
 *  there can be no child.  The child has only the calling thread, so no other thread may be in a library whose lock `what` needs:
 *  nobody unlocks it in the child.  malloc is safe. */
bool shoal_survives(void (*what)(void *context), void *context, int seconds);
#endif
