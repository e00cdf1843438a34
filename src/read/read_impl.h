/* Shared by the files of shoalread. */
#ifndef SHOAL_READ_READ_IMPL_H
#define SHOAL_READ_READ_IMPL_H
#include "base/status.h"
#include "read/shoalread.h"

/** Begins a call that may fail: nothing that layers below say goes to the caller's terminal. */
void shoal_read_begin(void);
/** Keeps the message of a failure for shoalread_error; 0 or -1. */
int shoal_read_end(shoal_status st);
#endif
