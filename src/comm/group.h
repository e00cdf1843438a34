/* Groups of ranks and what they can do together: the same calls over one process (self) and MPI.
 *
 * A world is opened once; groups are made from it.  Blocking calls are for set-up, evaluation and checkpoints; the
 * training step uses exchanges (exchange.h), planned once and started many times.  One thread at a time touches a
 * group.  Every byte is counted per link class (trace/), for control groups as class `control`.
 *
 * All calls are collective over the group, in the same order on every member, unless they say otherwise.  Counts are
 * 64-bit and long messages are split, invisibly.  ERR_COMM after a failed library call; contents are then undefined. */
#ifndef SHOAL_COMM_GROUP_H
#define SHOAL_COMM_GROUP_H
#include "base/error.h"
#include "slurm/claims.h"
#include "trace/trace.h"
#include <stddef.h>
#include <stdint.h>

typedef struct shoal_world shoal_world;
typedef struct shoal_group shoal_group;

typedef struct {
  const char *pretend;   /* topology to pretend, or NULL */
  bool allow_singletons; /* a step of many tasks where MPI sees one is meant so (H01) */
  int threads;           /* compute threads of a rank; 0: its share of the cores */
  bool strict_cores;     /* fewer cores than asked for is an error and not a warning (H02) */
  bool no_sharing;       /* ranks of a node do not share memory */
  size_t max_message;    /* largest bytes in one library call; 0: 1 GiB.  Tests lower it (H17) */
  shoal_status failed;   /* this rank has failed already (its error is the thread's): start only to tell the others */
  double warn_s, hang_s; /* who waits this long for something that does not move warns / ends the run; 0: 30, 600 */
} shoal_world_options;

/** Start communication: MPI when a launcher started us (its environment tells), else one process alone.  Sets
 *  yield-when-idle before MPI_Init where ranks may exceed cores.  Then gathers every rank's facts into the topology and
 *  starts the compute thread count from it.  Collective over all processes.
 *  A rank that comes with a failure makes it fail everywhere, in an agreement; of one process it is returned as it is.
 *  ERR_WORLD: launcher, Slurm or PMIx claim another world than MPI and the hosts show; the message names both and the
 *  launch option to try.  ERR_USAGE: a topology to pretend that does not fit. */
shoal_status shoal_world_open(const shoal_world_options *o, shoal_world **out);
bool shoal_world_launched(void);        /* did srun or mpirun start this process, as far as MPI can tell? */
void shoal_world_close(shoal_world *w); /* finalises MPI; collective; NULL is fine */
void shoal_world_abort(shoal_world *w, int exit_code) __attribute__((noreturn)); /* ends every rank, not collective */
int shoal_world_rank(const shoal_world *w);
int shoal_world_size(const shoal_world *w);
const shoal_topo *shoal_world_topo(const shoal_world *w);
const shoal_place *shoal_world_place(const shoal_world *w);   /* of this rank */
const shoal_claims *shoal_world_claims(const shoal_world *w); /* what this rank was told about itself */
const char *shoal_world_library(void);                        /* "Open MPI 4.1.4 (compiled 4.1.4)" */
/** Where bytes are counted from now on; borrowed.  Before this call they go to a private place. */
void shoal_world_set_counters(shoal_world *w, shoal_counters *counters);
void shoal_world_set_trace(shoal_world *w, shoal_trace *trace); /* spans of exchanges and waits; borrowed or NULL */
void shoal_world_set_step(shoal_world *w, uint64_t step);       /* the training step, for hang reports */
/** Move everything in flight on: cheap when nothing is (no library call).  Not collective.  Safe as a progress hook.
 *  An error is that of whatever failed; its own wait returns it again. */
shoal_status shoal_world_progress(shoal_world *w);
/** A call-back behind every progress that brought something in, also inside waits: for whoever answers others while this
 *  rank computes.  It may start messages and look whether they are done; it must not wait.  One at a time; NULL ends it.
 *  Its error comes out of the progress call. */
typedef shoal_status (*shoal_world_hook)(void *context);
void shoal_world_set_hook(shoal_world *w, shoal_world_hook hook, void *context);
/** Clock of this rank against rank 0: at the moment at_ns it shows rank 0's + offset, within the bound (half the best
 *  round trip).  Collective; one rank after the other, about 20 round trips each.  For shoal_trace_set_clock: drift comes
 *  from two calls. */
shoal_status shoal_world_measure_clock(shoal_world *w, shoal_trace_reading *out);

/** All ranks; owned by the world. */
shoal_group *shoal_world_group(shoal_world *w);
/** All ranks again, for agreement, evaluation sums and checkpoints: counted as class control; owned by the world. */
shoal_group *shoal_world_control(shoal_world *w);
/** Any set of ranks, in the given order: called by its members only (same list), collective among them.
 *  @param name  for messages and traces: "node 0"; copied */
shoal_status shoal_group_create(shoal_world *w, const char *name, const int *world_ranks, int n, shoal_group **out);
/** Ranks of my node; and, for l below the smallest node's size, the ranks with local rank l (one per node). */
shoal_status shoal_group_create_node(shoal_world *w, shoal_group **out);
shoal_status shoal_group_create_across(shoal_world *w, int local_rank, shoal_group **out);
void shoal_group_destroy(shoal_group *g);
int shoal_group_rank(const shoal_group *g);
int shoal_group_size(const shoal_group *g);
int shoal_group_world_rank(const shoal_group *g, int rank);
shoal_link shoal_group_link(const shoal_group *g, int rank); /* from me to that member */
const char *shoal_group_name(const shoal_group *g);

/** Memory of this rank that the members on its node can reach: sums on two levels work on nothing else.  Zeroed, 64-byte
 *  aligned, `bytes` may differ between members.  Collective over the group; belongs to the caller until unshare, which is
 *  not collective (no exchange may be using it).  Costs a mapping per neighbour; ERR_MEM when the machine has not that
 *  much.  Where memory cannot be shared (shoal_world_shares) it is ordinary memory. */
shoal_status shoal_group_share(shoal_group *g, size_t bytes, void **out);
void shoal_group_unshare(shoal_group *g, void *memory); /* NULL is fine */
bool shoal_world_shares(const shoal_world *w);          /* does any node have several ranks that share memory? */

/** Everybody learns whether anybody failed: own code, or ERR_PEER when only others did, with an error that quotes the
 *  lowest rank which failed by itself.  The errors are printed here: each text once, by the lowest rank that has it, at
 *  most eight texts.  All errors are told afterwards and have the same verdict (error.h), so the ranks can leave with one
 *  exit code.  In a group of one nothing is printed; the caller's report does that.
 *  Call it after anything that can fail alone and before the next collective call.  Counted as class control, like the
 *  barrier, in any group: neither carries payload.  Cost: one agreement on a number while nobody fails. */
shoal_status shoal_group_agree(shoal_group *g, shoal_status mine);
/** The same, but all ranks return the verdict as their code, those that did not fail too. */
shoal_status shoal_group_settle(shoal_group *g, shoal_status mine);
shoal_status shoal_group_barrier(shoal_group *g);
/** Short data by a binomial tree, long data along a chain in rank order, so that each link carries it once. */
shoal_status shoal_group_broadcast(shoal_group *g, void *data, size_t bytes, int root);
/** The formula: payload bytes the caller sends in such a broadcast, into out[link]. */
void shoal_group_broadcast_bytes(const shoal_group *g, size_t bytes, int root, uint64_t out[SHOAL_LINK_COUNT]);
shoal_status shoal_group_sum_f64(shoal_group *g, double *x, size_t n); /* in rank order: same bits everywhere */
shoal_status shoal_group_max_i64(shoal_group *g, int64_t *x, size_t n);
shoal_status shoal_group_sum_i64(shoal_group *g, int64_t *x, size_t n);
/** `all` [size * bytes] in rank order, on every member. */
shoal_status shoal_group_allgather(shoal_group *g, const void *mine, size_t bytes, void *all);
/** Blocks of any size to one member; `sizes` [size] is known to root; `all` is their concatenation, root only. */
shoal_status shoal_group_gather(shoal_group *g, const void *mine, size_t bytes, const uint64_t *sizes, void *all,
                                int root);
shoal_status shoal_group_scatter(shoal_group *g, const void *all, const uint64_t *sizes, void *mine, size_t bytes,
                                 int root);
/** Block i of `send` goes to member i; sizes and order on both sides as given. */
shoal_status shoal_group_alltoall(shoal_group *g, const void *send, const uint64_t *send_sizes, void *recv,
                                  const uint64_t *recv_sizes);
/** Point to point; the pair only.  `tag` 0..1023.  A send may block until it is received, except to oneself. */
shoal_status shoal_group_send(shoal_group *g, const void *data, size_t bytes, int to, int tag);
shoal_status shoal_group_recv(shoal_group *g, void *data, size_t bytes, int from, int tag);
#endif
