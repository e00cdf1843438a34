/* Trying in a child process what may crash or never end.  Libraries that parse files do, on damaged ones; a run must not. */
#ifndef SHOAL_BASE_CHILD_H
#define SHOAL_BASE_CHILD_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

enum { SHOAL_CHILD_PLACE = 160 };

/** Runs what(context) in a child process.  True if it came back: *st_out is its status, and its error is this thread's.  What
 *  it succeeded with may then be done here, too, and what failed there need not be tried.
 *
 *  The child prints nothing, leaves no core and may use `seconds` of processor time, 20 times that in all, and `bytes` of memory
 *  beyond what this process has.  False also if there can be no child.  The child has only the calling thread, so no other
 *  thread may be in a library whose lock `what` needs: nobody unlocks it in the child.  malloc is safe.
 *  @param[out] place  what the child noted last, "" if nothing; may be NULL */
bool shoal_survives(shoal_status (*what)(void *context), void *context, int seconds, uint64_t bytes,
                    char place[SHOAL_CHILD_PLACE], shoal_status *st_out);
/** Whether this process is such a child, whose notes somebody reads. */
bool shoal_is_child(void);
/** Notes what the child is about to look at; does nothing elsewhere. */
void shoal_child_note(const char *place);
#endif
