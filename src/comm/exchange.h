/* Exchanges: persistent non-blocking sums, planned once, started in every step, progressing while the rank computes.
 *
 *   create (buffers, requests)  →  start(x)  →  ... shoal_world_progress ...  →  wait   →  start ...
 *
 * A sum over a group uses one of these algorithms, fixed when it is planned:
 *
 *   ring        p-1 steps of reduce-scatter and p-1 of all-gather in the group's order; sends 2 (p-1)/p of the data.
 *   two-level   inside each node every shard of the vector has an owner, which adds the shards it reads from its
 *               peers' memory; a ring between the nodes then reduces each shard, and owners write the sums into their
 *               peers' memory.  A node sends 2 (N-1)/N of the data to other nodes, however ranks are placed.  The
 *               three phases overlap, piece by piece.
 *   leaders     two-level with one shard: one rank per node takes part in the ring between nodes.
 *   small       every member gathers all parts in log2(p) rounds and adds them: for a few KiB.
 *   halving, two-level-halving, leaders-halving
 *               as ring, two-level and leaders, but by halving and doubling where they have a ring: 2 log2(p) rounds
 *               (rounded up; any p) instead of 2 (p-1) steps, for the same bytes.
 *
 * Chunks are cut into pieces so that adding one piece overlaps the transfer of the next.  The summation order of an
 * element depends only on its index, the group, its nodes and the algorithm, so results are bitwise equal on every
 * member and in every run, in whatever order messages arrive.
 *
 *   rank 0: [A0 B0 C0]      the ring: chunk k is summed starting at rank k+1 and is complete at rank k,
 *   rank 1: [A1 B1 C1]      which passes it on around the ring.  A member sends
 *   rank 2: [A2 B2 C2]      2 (p-1)/p of the data (exactly: every chunk but two, once or twice).
 *
 * 16-bit wire formats: every hop of a ring, every round of halving, rounds what it sends, sums are in f32, and the owner rounds the finished
 * chunk once as well, so that all members hold the same bits.  On two levels only what is between nodes is 16-bit;
 * inside a node everything is f32, and with a single node nothing is rounded.  `small` rounds each part once and not
 * the sum.  A group of one sends nothing and rounds nothing.
 *
 * Q8 and Q4 send blocks of 128 elements as whole numbers k of 8 or 4 bits and a byte, the exponent of their spacing s: the least power
 * of two with which no k is beyond 127 or 7.  x is rounded to s k, nearest, ties to even.  Everything is cut between blocks, counted
 * from the start of the vector.  So values that were rounded are sent on without a change, and what rounding takes is an f32
 * number exactly.  A block with an element that is not finite, or a spacing above 2^100, arrives as NaN.
 * Sources: ring all-reduce, Patarasuk and Yuan, JPDC 2009; halving and doubling: halving.c; two levels as in Horovod's hierarchical all-reduce (Sergeev
 * and Del Balso, 2018), which this extends to nodes of unequal size: there are as many shards as the smallest node has
 * ranks. */
#ifndef SHOAL_COMM_EXCHANGE_H
#define SHOAL_COMM_EXCHANGE_H
#include "comm/group.h"

typedef enum { SHOAL_WIRE_F32, SHOAL_WIRE_BF16, SHOAL_WIRE_F16, SHOAL_WIRE_Q8, SHOAL_WIRE_Q4 } shoal_wire;
enum { SHOAL_WIRE_BLOCK = 128 };
size_t shoal_wire_bytes(shoal_wire wire, size_t n); /* of n elements that begin with a block */
const char *shoal_wire_name(shoal_wire wire);

typedef enum {
  SHOAL_SUM_AUTO, /* by size and topology, see docs/methods/sync.md, or by costs.h */
  SHOAL_SUM_RING,
  SHOAL_SUM_TWO_LEVEL,
  SHOAL_SUM_LEADERS,
  SHOAL_SUM_SMALL,
  SHOAL_SUM_HALVING, /* from here on: as ring, two-level and leaders, but by halving and doubling between nodes */
  SHOAL_SUM_TWO_LEVEL_HALVING,
  SHOAL_SUM_LEADERS_HALVING,
  SHOAL_SUM_ALGORITHMS /* how many; a checkpoint holds these numbers */
} shoal_sum_algorithm;
const char *shoal_sum_name(shoal_sum_algorithm algorithm); /* "two-level" */

typedef struct shoal_exchange shoal_exchange;
/** Plan a sum over the group of up to `n` f32 elements.  Collective (same arguments and order of creation on every
 *  member; n, wire and algorithm are compared and ERR_ARG is returned if they differ, also for SMALL above 1 MiB).
 *  Allocates a few pieces of buffer for each rank it receives from (none for f32 sends), or all parts for SMALL;
 *  nothing is allocated later.  Every algorithm works on every group.
 *  @param name  for traces and hang reports: "bucket 0"; copied */
shoal_status shoal_exchange_create_sum(shoal_group *g, const char *name, size_t n, shoal_wire wire,
                                       shoal_sum_algorithm algorithm, shoal_exchange **out);
/** From the next start on, what rounding to the wire format takes from a sum is kept where it was rounded, and added to what is rounded
 *  there in the start after it (error feedback).  So over all starts that followed, x of all members = sums + errors of all members,
 *  but for the rounding of f32.  Every element is rounded once by each node's owner of it, in two-level sums, or by each member.  Allocates
 *  an f32 for each; local, before the first start.
 *  Source: Seide et al., 1-bit SGD, Interspeech 2014; Karimireddy et al., Error Feedback Fixes SignSGD, ICML 2019. */
shoal_status shoal_exchange_keep_errors(shoal_exchange *e);
/** Host memory [*n], zeros at first, for checkpoints; not while in flight.  NULL: none are kept, or this member rounds nothing. */
float *shoal_exchange_errors(const shoal_exchange *e, size_t *n);
shoal_sum_algorithm shoal_exchange_algorithm(const shoal_exchange *e); /* the algorithm AUTO resolved to */
/** x[n] ← Σ over members, in place; n as planned.  Returns at once; do not touch `x` until the exchange is done.  Nothing of it
 *  is read or written, by this rank or another, before `ready` is reached: when the backend has written it.  Where the host
 *  cannot reach x (shoal_world_set_backend), `ready` is a mark of that backend, and what it is asked for once the exchange is done
 *  sees the sum.  If several members share a node, two-level sums return ERR_ARG unless x lies in memory that is registered, or from shoal_group_share (any part
 *  of it).  Several exchanges of a group may be in flight; they must be started in the same order on every member. */
shoal_status shoal_exchange_start(shoal_exchange *e, float *x, shoal_event ready);
/** Sets a value that must be equal on all members at the next start, such as the training step.  It becomes part of the
 *  message tag, so a member that skipped a start is reported as missing instead of being matched with a later one.
 *  (The order of starts is checked without it.) */
void shoal_exchange_stamp(shoal_exchange *e, uint64_t stamp);
bool shoal_exchange_done(const shoal_exchange *e); /* as of the last progress call; true when never started */
/** Blocks until done, progressing everything in flight; the time blocked is recorded as WAIT.  ERR_HANG after the
 *  limit, naming the members that have not sent; ERR_COMM.  After an error the exchange can only be destroyed. */
shoal_status shoal_exchange_wait(shoal_exchange *e);
void shoal_exchange_destroy(shoal_exchange *e); /* not while in flight, except after an error; NULL is fine */
/** Predicts the payload bytes that the calling member sends per start, by link class, into out[link]. */
void shoal_exchange_bytes(const shoal_group *g, size_t n, shoal_wire wire, shoal_sum_algorithm algorithm,
                          uint64_t out[SHOAL_LINK_COUNT]);

/* Non-blocking max-reduction of one integer: every member posts a value and later reads the maximum.  Counted as
 * control. */
typedef struct shoal_vote shoal_vote;
shoal_status shoal_vote_create(shoal_group *control, const char *name, shoal_vote **out);
shoal_status shoal_vote_post(shoal_vote *v, int64_t value);      /* one at a time; returns at once */
shoal_status shoal_vote_result(shoal_vote *v, int64_t *maximum); /* waits for the posted one */
bool shoal_vote_done(const shoal_vote *v);                       /* the result is available without waiting */
void shoal_vote_destroy(shoal_vote *v);

/* Rendezvous of ranks that run without a common step, where a vote in every step would synchronise them.  Any rank may
 * request one; the request reaches all others within moments without blocking them, and each joins when it can (at its
 * next step, say).  When the last rank has joined, all return with the largest value requested.  Counted as control.
 *
 *     rank 0   step step step  request ··· all joined      gossip: a request goes to ranks r + 2^k, which forward it
 *     rank 1   step step st|ep step join · all joined      |: request received
 *     rank 2   step  s|tep     join ······ all joined
 *
 * A rank that has received a request but has not joined yet sends heartbeats, so that a late rank is not taken for a
 * hang. */
typedef struct shoal_rendezvous shoal_rendezvous;
shoal_status shoal_rendezvous_create(shoal_group *control, const char *name, shoal_rendezvous **out); /* collective */
void shoal_rendezvous_destroy(shoal_rendezvous *c);                                                   /* NULL is fine */
/** Request a rendezvous for reason `what` > 0; returns at once.  Not collective. */
shoal_status shoal_rendezvous_request(shoal_rendezvous *c, int64_t what);
/** The largest value that any rank, this one included, has requested since the last rendezvous; 0: none.  No library
 *  call. */
int64_t shoal_rendezvous_requested(const shoal_rendezvous *c);
/** Heartbeat: call it between steps; it sends a message only while others wait, every few seconds. */
shoal_status shoal_rendezvous_heartbeat(shoal_rendezvous *c);
/** Join the rendezvous and wait for all ranks.  Collective; progresses everything in flight while waiting.  *largest is
 *  the maximum over all ranks of `mine` and of what was requested.  `more` (or NULL) is polled while waiting and may
 *  return a larger request.  ERR_HANG when a missing rank has sent nothing for hang_s. */
shoal_status shoal_rendezvous_meet(shoal_rendezvous *c, int64_t mine, int64_t (*more)(void *context), void *context,
                                   int64_t *largest);

/** Progresses everything in flight, as shoal_world_progress does, for callers that have no world. */
shoal_status shoal_rendezvous_progress(shoal_rendezvous *c);

/** Lets a rendezvous that nobody joins spread what `asked` says on any rank: it is looked at whenever this rank makes progress,
 *  also while it waits for others.  While nothing else is in flight, progress is then made a few hundred times a second at most.
 *  One per world; not collective, ends with destroy. */
void shoal_rendezvous_listen(shoal_rendezvous *c, bool (*asked)(void *context), void *context);

/* A non-blocking point-to-point message: a reusable handle on the sending or the receiving side.  Not collective.
 * Messages match by tag (0..1023, shared with shoal_group_send and _recv) in the order they are started. */
typedef struct shoal_message shoal_message;
shoal_status shoal_message_create(shoal_group *g, const char *name, shoal_message **out);
/** Both return at once; do not touch `data` until the message is done.  Between two different members only. */
shoal_status shoal_message_send(shoal_message *m, const void *data, size_t bytes, int to, int tag);
shoal_status shoal_message_recv(shoal_message *m, void *data, size_t bytes, int from, int tag);
/** The same from whoever sends first with this tag, up to `most` bytes (at most 1 MiB, and what one library call can carry): so
 *  that a rank hears all others with a fixed number of receives. */
shoal_status shoal_message_recv_any(shoal_message *m, void *data, size_t most, int tag);
int shoal_message_sender(const shoal_message *m);      /* of what has come, once it is done */
size_t shoal_message_received(const shoal_message *m); /* its length */
bool shoal_message_done(const shoal_message *m);
shoal_status shoal_message_wait(shoal_message *m); /* as shoal_exchange_wait */
void shoal_message_destroy(shoal_message *m);
/** Gives up a message, which may be in flight.  The library cannot take a send back and goes on writing to a receive that has
 *  begun, so message and memory are kept until it is done with them, at the latest until the world is closed.
 *  @param memory  of the backend: what it sends from or receives to; owned from here on, and cleared.  The backend must outlive
 *                 the world */
void shoal_message_abandon(shoal_message *m, shoal_backend *b, shoal_memory *memory);
/** Receives and forgets what a member has sent to this rank and nobody here will receive: as many messages as have come, one
 *  after another, until `stale` does not accept a tag.  For what a member had under way when it was given up. */
shoal_status shoal_message_discard(shoal_group *g, int from, bool (*stale)(const void *context, int tag),
                                   const void *context);
#endif
