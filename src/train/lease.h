/* The lease of a run folder: at most one run writes into it.
 *
 * `lease` is made exclusively and holds job, host, process and start time; its holder touches it while it lives.  A lease
 * whose process is gone (same host), whose job is ours (a requeue), or that nobody touched for two minutes is taken over. */
#ifndef SHOAL_TRAIN_LEASE_H
#define SHOAL_TRAIN_LEASE_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct {
  char *path; /* owned */
  bool held;
  uint64_t touched_ns;
} shoal_lease;

/** Take the lease of folder `dir`, which exists.  Where another run holds it, waits up to 5 s for that run to end.
 *  ERR_WORLD if it is held then: the message names job, host and process; ERR_IO.  *l is valid for release in any case. */
shoal_status shoal_lease_take(const char *dir, shoal_lease *l);
void shoal_lease_touch(shoal_lease *l);   /* cheap: at most one system call every 10 s; nothing where it is not held */
void shoal_lease_release(shoal_lease *l); /* give it back; also one that was never taken (all zero) */
#endif
