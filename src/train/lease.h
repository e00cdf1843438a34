/* The lease of a run folder: at most one run writes into it.
 *
 * `lease` names its holder: job, host, process, and a random token.  A thread touches it every few seconds, however long
 * a step takes.  Another run takes it over when its holder is gone for certain (a process of the same kernel and PID
 * namespace that no longer exists, or does not have this file open: the folder is a copy; an earlier start of the same
 * requeued job), or when nobody has touched it for two minutes, by the clock of the file system, or as seen from here if that
 * was set back.
 *
 *   lease               the holder
 *   lease.after-TOKEN   who succeeds the holder with that token: made exclusively, so of several processes that find it
 *                       gone at once one wins; renamed to `lease`
 *
 * A holder that was suspended for so long finds another token in the file, and writes nothing more. */
#ifndef SHOAL_TRAIN_LEASE_H
#define SHOAL_TRAIN_LEASE_H
#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct shoal_lease shoal_lease;

enum { SHOAL_LEASE_JOB = 64 };
/** The job that this process belongs to, of Slurm, PBS, LSF or Grid Engine, with its element of an array: "77", "70[3]".  False outside. */
bool shoal_lease_job(char job[SHOAL_LEASE_JOB]);
/** Prepares to take the lease of the existing folder `dir`.  Touches nothing yet.
 *  @param patient  wait until the lease of another run is stale, as a job of a batch system should; else give up if that
 *                  takes more than 5 s.  A process that is known to live is given 5 s: a killed run's last one may be ending
 *  @param beat     called by the thread with `context` every second; `every`: it has just touched the lease; may be NULL */
shoal_status shoal_lease_create(const char *dir, bool patient, void (*beat)(void *context, bool every), void *context,
                                shoal_lease **out);
/** One attempt to take it; never blocks.  *left_s is 0 when it is taken; otherwise try again soon: it will be free in so
 *  many seconds if nobody touches it.  ERR_WORLD if another run is alive, or may be and we are not patient: the message
 *  names its job, host and process, and how to take over.  ERR_IO. */
shoal_status shoal_lease_try(shoal_lease *l, double *left_s);
uint64_t shoal_lease_token(const shoal_lease *l);
/** Whether the folder's lease has this token.  Reads a small file. */
bool shoal_lease_has(const char *dir, uint64_t token);
/** Whether the thread has found that the lease is another's.  Cheap. */
bool shoal_lease_lost(const shoal_lease *l);
void shoal_lease_destroy(shoal_lease *l); /* gives it back if it is held; NULL is fine */
#endif
