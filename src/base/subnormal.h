/* Whether a thread's arithmetic flushes subnormal numbers to zero, as operands and as results (subnormal.c). */
#ifndef SHOAL_BASE_SUBNORMAL_H
#define SHOAL_BASE_SUBNORMAL_H
#include <stdbool.h>

/** Sets it for the calling thread and those it creates later.  Without effect on processors other than x86-64 and AArch64.
 *  @return what it was, to be set again after a piece of code that must not lose small numbers */
bool shoal_subnormals_flush(bool flush);
bool shoal_subnormals_flushed(void); /* by the calling thread */
#endif
