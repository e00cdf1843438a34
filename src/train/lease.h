/* The lease of a run folder: at most one run writes into it.
 *
 * `lease` is created exclusively and holds job, host, process and start time; its holder touches it while it runs.  A
 * lease is taken over if its process is gone (same host), its job is ours (a requeue), or it was not touched for two
 * minutes. */
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

/** Takes the lease of the existing folder `dir`.  If another run holds it, waits up to 5 s for that run to end.
 *  ERR_WORLD if it is still held: the message names job, host and process; ERR_IO.  *l is valid for release in any
 *  case. */
shoal_status shoal_lease_take(const char *dir, shoal_lease *l);
void shoal_lease_touch(shoal_lease *l);   /* at most one system call every 10 s; no-op if not held */
void shoal_lease_release(shoal_lease *l); /* also if never taken (all zero) */
#endif
