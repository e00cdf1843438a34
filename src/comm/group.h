/* Groups of ranks and their collectives: the same functions for a single process (self) and for MPI.
 *
 * A world is opened once; groups are made from it.  Blocking calls are for set-up, evaluation and checkpoints; the
 * training step uses exchanges (exchange.h), planned once and started many times.  Only one thread at a time may use a
 * group.  Every byte is counted by link class (trace/), in control groups as class `control`.
 *
 * All calls are collective over the group, in the same order on every member, unless they say otherwise.  Counts are
 * 64-bit and long messages are split internally.  ERR_COMM after a failed library call; contents are then undefined. */
#ifndef SHOAL_COMM_GROUP_H
#define SHOAL_COMM_GROUP_H
#include "base/error.h"
#include "slurm/claims.h"
#include "tensor/backend.h"
#include "trace/trace.h"
#include <stddef.h>
#include <stdint.h>

typedef struct shoal_world shoal_world;
typedef struct shoal_group shoal_group;

typedef struct {
  const char *pretend;   /* topology to pretend, or NULL */
  bool allow_singletons; /* accept a Slurm step of many tasks in which MPI sees one rank */
  int threads;           /* compute threads per rank; 0: its share of the cores */
  bool strict_cores;     /* fewer cores than requested is an error instead of a warning */
  bool no_sharing;       /* do not use memory shared between the ranks of a node */
  size_t max_message;    /* limit on bytes per MPI call, whose counts are int; 0: 1 GiB.  Tests lower it */
  int in_order;          /* members up to which sums of f64 are added in rank order; 0: 64.  Tests lower it */
  const shoal_gpu *gpu;  /* [gpus] GPUs that this rank may use; borrowed */
  int gpus;
  bool own_gpus;         /* GPUs are given to ranks only if each has one of its own */
  shoal_status failed;   /* this rank has failed already (error kept by the thread): open only to inform the others */
  double warn_s, hang_s; /* seconds without progress after which a wait warns / ends the run; 0: 30, 600 */
} shoal_world_options;

/** Start communication: with MPI if the environment shows that a launcher started us, else as a single process.  Sets
 *  yield-when-idle before MPI_Init where ranks may exceed cores.  Then gathers every rank's facts into the topology and
 *  derives the number of compute threads from it.  Collective over all processes.  If a rank passes a failure in
 *  `failed`, all ranks agree on it and fail; a single process just returns it.
 *  ERR_WORLD: launcher, Slurm or PMIx describe a different world than MPI and the hosts; the message names both and the
 *  launch option to try.  ERR_USAGE: a topology to pretend that does not fit. */
shoal_status shoal_world_open(const shoal_world_options *o, shoal_world **out);
bool shoal_world_launched(void);        /* whether srun or mpirun started this process in a way MPI can see */
void shoal_world_close(shoal_world *w); /* finalises MPI; collective, unless the world is broken; NULL is fine */
bool shoal_world_broken(
    const shoal_world *w); /* an exchange has failed here: no use in agreeing on anything any more */
/** ERR_COMM if the process of another rank of this node is gone, with its number and what is known of its end; ERR_PEER if it left by
 *  shoal_world_abort, with its error.  Reads small files.
 *  *lower_lives: of the ranks that see it, one below this lives */
shoal_status shoal_world_check_peers(const shoal_world *w, bool *lower_lives);
/** Ends every rank after this rank's error, which is printed; not collective. */
void shoal_world_abort(shoal_world *w, shoal_status st) __attribute__((noreturn));
int shoal_world_rank(const shoal_world *w);
int shoal_world_size(const shoal_world *w);
const shoal_topo *shoal_world_topo(const shoal_world *w);
const shoal_place *shoal_world_place(const shoal_world *w);   /* place of this rank */
const shoal_claims *shoal_world_claims(const shoal_world *w); /* what the environment says about this rank */
const char *shoal_world_library(void);                        /* "Open MPI 4.1.4 (compiled 4.1.4)" */
/** Sets the counters to which bytes are added from now on; borrowed.  NULL: the world's own counters. */
void shoal_world_set_counters(shoal_world *w, shoal_counters *counters);
/** What is summed from here on, exchange by exchange as they are planned, is memory of `b`.  Where the host cannot reach that,
 *  exchanges work on a mirror of it in pinned memory, as large as the vector; elsewhere this costs nothing.  Borrowed.  On all
 *  ranks alike. */
void shoal_world_set_backend(shoal_world *w, shoal_backend *b);
/** Whether NCCL sums vectors of that backend: inside a node, also between nodes, or not at all. */
typedef enum { SHOAL_FABRIC_NODE, SHOAL_FABRIC_ALL, SHOAL_FABRIC_OFF } shoal_fabric_use;
/** Lets exchanges that are planned from here on use NCCL, where that is possible; where it is not, rank 0 warns with the reason and they
 *  use MPI.  Where no rank has memory that the host cannot reach it costs one agreement.  Collective over the world, once and after
 *  shoal_world_set_backend; the backend must outlive the world. */
shoal_status shoal_world_open_fabric(shoal_world *w, shoal_fabric_use use);
const char *shoal_world_fabric(const shoal_world *w); /* "NCCL"; NULL: none is used */
/** If wanted, if NCCL is not used and MPI says that it takes addresses of that backend's memory: tries whether it does.  Then rings of
 *  exchanges that are planned from here on use them (docs/memory.md).  Where bytes are wrong rank 0 warns, and all ranks do without.  An
 *  error of MPI ends the run.  Collective over the world, after shoal_world_open_fabric. */
shoal_status shoal_world_try_direct(shoal_world *w, bool wanted);
bool shoal_world_direct(const shoal_world *w);
void shoal_world_set_trace(shoal_world *w, shoal_trace *trace); /* spans of exchanges and waits; borrowed or NULL */
void shoal_world_set_step(shoal_world *w, uint64_t step);       /* the training step, for hang reports */
const char *
shoal_world_threads(void); /* how many threads MPI allows: "multiple", ..., "funneled"; "none" without MPI */
/** Enters the fence that a start ends with, which nobody leaves before all have entered; for those who measure it.  Collective.
 *  ERR_UNSUPPORTED if PMIx did not start this process or is not built in, ERR_COMM. */
shoal_status shoal_world_fence(void);
/** Progress everything in flight; cheap if there is nothing (no library call).  Not collective.  Safe as a progress
 *  hook.  Returns the error of the operation that failed; the wait for that operation returns it again. */
shoal_status shoal_world_progress(shoal_world *w);
/** Registers a callback that runs after every progress call that completed something, also inside waits, so that a rank
 *  can answer others while it computes.  It may start messages and test them, and call the backend, which makes progress in
 *  turn; it must not wait.  One at a time; NULL removes it.  The progress call returns its error. */
typedef shoal_status (*shoal_world_hook)(void *context);
void shoal_world_set_hook(shoal_world *w, shoal_world_hook hook, void *context);
/** Measures the clock offset of this rank from rank 0 at time at_ns, with an error bound of half the best round trip; of more than
 *  33 hosts by way of others, whose bounds are added.  Ranks of one host share a clock: one of them measures, and on rank 0's host
 *  the offset is 0, exactly.  Collective; about 20 round trips with each of 32 hosts, and of each of these again.  For
 *  shoal_trace_set_clock; two calls give the drift. */
shoal_status shoal_world_measure_clock(shoal_world *w, shoal_trace_reading *out);

/** All ranks; owned by the world. */
shoal_group *shoal_world_group(shoal_world *w);
/** A second group of all ranks, for agreement, evaluation sums and checkpoints: counted as class control; owned by the
 *  world. */
shoal_group *shoal_world_control(shoal_world *w);
/** A group of any ranks, in the given order.  Collective over its members, which pass the same list.
 *  @param name  for messages and traces: "node 0"; copied */
shoal_status shoal_group_create(shoal_world *w, const char *name, const int *world_ranks, int n, shoal_group **out);
/** The ranks of this node; and, for l below the smallest node's size, the ranks with local rank l (one per node). */
shoal_status shoal_group_create_node(shoal_world *w, shoal_group **out);
shoal_status shoal_group_create_across(shoal_world *w, int local_rank, shoal_group **out);
void shoal_group_destroy(shoal_group *g);
int shoal_group_rank(const shoal_group *g);
int shoal_group_size(const shoal_group *g);
int shoal_group_world_rank(const shoal_group *g, int rank);
shoal_link shoal_group_link(const shoal_group *g, int rank); /* from this rank to that member */
const char *shoal_group_name(const shoal_group *g);
/** Identity of the group in the world's trace, for exchanges that the caller records itself; 0 without a trace.  Not collective, but
 *  every member that records must call it. */
uint32_t shoal_group_trace_id(shoal_group *g);

/** Lets the members on the same node map memory of kind SHARED, of any size, which two-level sums require; where they cannot or
 *  need not (`kind`), any memory will do.  Collective over the group.  Unregister it before it is released; not collective (no
 *  exchange may be using it).  Costs one mapping per neighbour. */
shoal_status shoal_group_register(shoal_group *g, const shoal_memory *memory);
void shoal_group_unregister(shoal_group *g, const shoal_memory *memory); /* also if it was never registered */
/** The kind of memory that sums of this group work on: SHARED, or DEVICE where no members share memory or the host cannot reach
 *  it. */
shoal_memory_kind shoal_group_memory_kind(const shoal_group *g);
/** Allocates host memory that the members on the same node can map.  Zeroed, 64-byte aligned;
 *  `bytes` may differ between members.  Collective over the group.  The caller releases it with unshare, which is not
 *  collective (no exchange may be using it).  Costs one mapping per neighbour; ERR_MEM if the node has not enough
 *  memory.  Where memory cannot be shared (shoal_world_shares) it is private memory. */
shoal_status shoal_group_share(shoal_group *g, size_t bytes, void **out);
void shoal_group_unshare(shoal_group *g, void *memory); /* NULL is fine */
/** Where a member's memory of the same call is mapped here; NULL if it is on another node, or the memory is private. */
void *shoal_group_memory_of(const shoal_group *g, void *memory, int rank);
bool shoal_world_shares(const shoal_world *w); /* whether ranks of a node share memory */

/** All members learn whether any of them failed.  Returns the own code, or ERR_PEER if only others failed, with an
 *  error that quotes the lowest rank that failed by itself.  Prints the errors: each text once, by the lowest rank that
 *  has it, at most eight texts.  Afterwards all errors are marked as told and have the same verdict (error.h), so the
 *  ranks can exit with one code.  In a group of one nothing is printed; the caller reports the error.  Call it after
 *  anything that can fail on some ranks only and before the next collective call.  Counted as class control, like the
 *  barrier, in any group: neither carries payload.  Cost: one agreement on a number while nobody fails.
 *  STOPPED is no failure: if some ranks have it and none failed, all return it. */
shoal_status shoal_group_agree(shoal_group *g, shoal_status mine);
/** The same, but every rank returns the common verdict, also those that did not fail. */
shoal_status shoal_group_settle(shoal_group *g, shoal_status mine);
shoal_status shoal_group_barrier(shoal_group *g);
/** The largest value over the group, for decisions that are not payload: counted as class control in any group.
 *  @param name  for hang reports */
shoal_status shoal_group_agree_max(shoal_group *g, const char *name, int64_t *value);
/** Broadcast: short data by a binomial tree; long data in pieces, along a chain of the nodes or a binary tree of them, whichever
 *  is over first, and inside each node along a chain.  So a node receives it once, and sends it to at most two others. */
shoal_status shoal_group_broadcast(shoal_group *g, void *data, size_t bytes, int root);
/** Predicts the payload bytes that the caller sends in such a broadcast, by link class, into out[link]. */
void shoal_group_broadcast_bytes(const shoal_group *g, size_t bytes, int root, uint64_t out[SHOAL_LINK_COUNT]);
/** Same bits everywhere: added in rank order, or with more than 64 members by a tree. */
shoal_status shoal_group_sum_f64(shoal_group *g, double *x, size_t n);
shoal_status shoal_group_max_i64(shoal_group *g, int64_t *x, size_t n);
shoal_status shoal_group_sum_i64(shoal_group *g, int64_t *x, size_t n);
/** `all` [size * bytes] in rank order, on every member. */
shoal_status shoal_group_allgather(shoal_group *g, const void *mine, size_t bytes, void *all);
/** Blocks of any size to or from one member; `sizes` [size] and `all`, the concatenation of the blocks, are significant
 *  at root only. */
shoal_status shoal_group_gather(shoal_group *g, const void *mine, size_t bytes, const uint64_t *sizes, void *all,
                                int root);
shoal_status shoal_group_scatter(shoal_group *g, const void *all, const uint64_t *sizes, void *mine, size_t bytes,
                                 int root);
/** Block i of `send` goes to member i; sizes and order on both sides as given. */
shoal_status shoal_group_alltoall(shoal_group *g, const void *send, const uint64_t *send_sizes, void *recv,
                                  const uint64_t *recv_sizes);
/** Point to point; the pair only.  `tag` 0..1023.  A send may block until it is received, except to the own rank. */
shoal_status shoal_group_send(shoal_group *g, const void *data, size_t bytes, int to, int tag);
shoal_status shoal_group_recv(shoal_group *g, void *data, size_t bytes, int from, int tag);
#endif
