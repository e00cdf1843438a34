/* Output into a pipe, passed on by a process of ours.
 *
 *     launch, mpirun, ranks ──► our pipe ──► relay ──► the pipe to `head`, `tee`, or a program that reads when it likes
 *
 * Launchers do not stand a reader that goes away (mpirun ends the job, or crashes), and a run must not wait for one that does not
 * read.  The relay always reads: what has no room in the other pipe it keeps, and what nobody reads any more it drops; log.txt has
 * it all. */
#ifndef SHOAL_SLURM_RELAY_H
#define SHOAL_SLURM_RELAY_H

/** From now on what this process and its children write to standard output and error, where these are pipes or sockets, passes through
 *  a relay, which ends when all of them have.  Both in one pipe (`2>&1`) keep the order of their lines.  Where no pipe or process can be
 *  made, everything stays as it is.  SIGPIPE must be ignored.  Once per process, whose exit is shoal_relay_end, too. */
void shoal_relay_begin(void);
/** Before this process ends: writes nothing more, and waits, though not for long if nobody reads, until the relay has passed on all. */
void shoal_relay_end(void);
#endif
