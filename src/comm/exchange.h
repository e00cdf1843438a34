/* Exchanges: planned once, started in every step, moving while others compute.
 *
 *   create (buffers, requests)  →  start(x)  →  ... shoal_world_progress ...  →  wait   →  start ...
 *
 * A sum over a group takes one of these ways, settled when it is planned:
 *
 *   ring        p-1 steps of reduce-scatter and p-1 of all-gather around the group's order; sends 2 (p-1)/p of the data.
 *   two-level   inside each node owners, one per shard of the vector, add up what they read in the memory of the others;
 *               each shard has a ring of its own between the nodes; owners write the sums into the others' memory.
 *               Between nodes goes 2 (N-1)/N of the data per node, once, wherever ranks are placed.  The three phases
 *               overlap, piece by piece.
 *   leaders     the same with one shard: one rank of each node speaks for it.
 *   small       everybody gets all the parts in log2(p) rounds and adds: for a few KiB.
 *
 * Chunks are cut into pieces so that adding one piece overlaps the transfer of the next.  The summation order of an
 * element depends only on its place, the group, its nodes and the algorithm, so results are the same bits on every
 * member, in every run, however messages arrive.
 *
 *   rank 0: [A0 B0 C0]      the ring: chunk k is summed starting at rank k+1 and is complete at rank k,
 *   rank 1: [A1 B1 C1]      which passes it on around the ring.  A member sends
 *   rank 2: [A2 B2 C2]      2 (p-1)/p of the data (exactly: every chunk but two, once or twice).
 *
 * 16-bit wire formats: every hop of a ring rounds what it sends, sums are in f32, and the finished chunk is rounded once
 * on its owner too, so that all members keep the same bits.  On two levels only the ring between nodes is 16-bit; inside
 * a node all is f32, and where there is one node only, nothing is rounded.  `small` rounds each part once and not the
 * sum.  A group of one sends nothing and rounds nothing.
 * Sources: ring all-reduce, Patarasuk and Yuan, JPDC 2009; two levels as in Horovod's hierarchical all-reduce (Sergeev
 * and Del Balso, 2018), from which this differs in giving unequal nodes as many shards as the smallest has ranks. */
#ifndef SHOAL_COMM_EXCHANGE_H
#define SHOAL_COMM_EXCHANGE_H
#include "comm/group.h"

typedef enum { SHOAL_WIRE_F32, SHOAL_WIRE_BF16, SHOAL_WIRE_F16 } shoal_wire;
size_t shoal_wire_bytes(shoal_wire wire);
const char *shoal_wire_name(shoal_wire wire);

typedef enum {
  SHOAL_SUM_AUTO, /* by size and topology, see docs/methods/sync.md */
  SHOAL_SUM_RING,
  SHOAL_SUM_TWO_LEVEL,
  SHOAL_SUM_LEADERS,
  SHOAL_SUM_SMALL
} shoal_sum_algorithm;
const char *shoal_sum_name(shoal_sum_algorithm algorithm); /* "two-level" */

typedef struct shoal_exchange shoal_exchange;
/** Plan a sum over the group of up to `n` f32 elements.  Collective (same arguments and order of creation on every
 *  member; n, wire and algorithm are compared, ERR_ARG where they differ; also for SMALL above 1 MiB).  Owns buffers of a
 *  few pieces for each rank it receives parts from (and none for f32 sends), SMALL those of all parts; nothing is
 *  allocated later.  Every algorithm works on every group.
 *  @param name  for traces and hang reports: "bucket 0"; copied */
shoal_status shoal_exchange_create_sum(shoal_group *g, const char *name, size_t n, shoal_wire wire,
                                       shoal_sum_algorithm algorithm, shoal_exchange **out);
shoal_sum_algorithm shoal_exchange_algorithm(const shoal_exchange *e); /* what AUTO came to */
/** x[n] ← Σ over members, in place; n as planned.  Returns at once; `x` belongs to the exchange until it is done.  Where
 *  several members share a node, two-level sums need x in memory of shoal_group_share (any part of it): ERR_ARG.
 *  Several exchanges of a group may be in flight; they must be started in the same order on every member. */
shoal_status shoal_exchange_start(shoal_exchange *e, float *x);
/** What all members must agree on at the next start, such as the training step, so that a member that left one out
 *  is missed instead of being taken for the next.  (That starts come in the same order is checked without it.) */
void shoal_exchange_stamp(shoal_exchange *e, uint64_t stamp);
bool shoal_exchange_done(const shoal_exchange *e); /* as of the last progress call; true when never started */
/** Blocks (progressing everything) until done; the time blocked is recorded as WAIT.  ERR_HANG after the limit, with
 *  the names of the members that have not sent; ERR_COMM.  After an error the exchange can only be destroyed. */
shoal_status shoal_exchange_wait(shoal_exchange *e);
void shoal_exchange_destroy(shoal_exchange *e); /* not while in flight, except after an error; NULL is fine */
/** The formula: payload bytes member `rank` (the caller) of the group sends per start, into out[link]. */
void shoal_exchange_bytes(const shoal_group *g, size_t n, shoal_wire wire, shoal_sum_algorithm algorithm,
                          uint64_t out[SHOAL_LINK_COUNT]);

/* Agreement that does not stop the step: every member posts a value, later all learn the maximum.  Class control. */
typedef struct shoal_vote shoal_vote;
shoal_status shoal_vote_create(shoal_group *control, const char *name, shoal_vote **out);
shoal_status shoal_vote_post(shoal_vote *v, int64_t value);      /* one at a time; returns at once */
shoal_status shoal_vote_result(shoal_vote *v, int64_t *maximum); /* waits for the posted one */
bool shoal_vote_done(const shoal_vote *v);                       /* a result can be had without waiting */
void shoal_vote_destroy(shoal_vote *v);

/* Agreement among ranks that run on their own clocks, where a vote in every step would tie them together.  Whoever wants
 * something calls; everybody hears it within moments, without being stopped, and comes when it likes (at its next step,
 * say).  The last to come ends the wait, and all learn the largest of what was brought.  Class control.
 *
 *     rank 0   step step step  ask ····· all here          a call travels like a rumour: to ranks r + 2^k, who pass it on
 *     rank 1   step step st|ep step come all here          |: heard
 *     rank 2   step  s|tep     come ···· all here
 *
 * A rank that has heard of a call but is not there yet says so now and then, so that being late is no hang. */
typedef struct shoal_call shoal_call;
shoal_status shoal_call_create(shoal_group *control, const char *name, shoal_call **out); /* collective */
void shoal_call_destroy(shoal_call *c);                                                   /* NULL is fine */
/** Ask everybody to come to the next meeting for `what` > 0; returns at once.  Not collective. */
shoal_status shoal_call_ask(shoal_call *c, int64_t what);
/** The largest that anybody, oneself included, has asked for since the last meeting; 0: nothing.  No library call. */
int64_t shoal_call_heard(const shoal_call *c);
/** "Still here": to be called between steps; sends something only while others wait, every few seconds. */
shoal_status shoal_call_beat(shoal_call *c);
/** Come, and wait for all.  Collective; moves everything meanwhile.  *largest of what all brought: `mine`, or what was
 *  heard where that is more.  `more` (or NULL) is asked while waiting what this rank wants by now; it may call again.
 *  ERR_HANG when a rank that is missing has been silent for hang_s. */
shoal_status shoal_call_meet(shoal_call *c, int64_t mine, int64_t (*more)(void *context), void *context,
                             int64_t *largest);

/* A message that does not stop the step: a reusable half of a pair, the sender's or the receiver's.  Not collective.
 * Messages match by tag (0..1023, shared with shoal_group_send and _recv) in the order they are started. */
typedef struct shoal_message shoal_message;
shoal_status shoal_message_create(shoal_group *g, const char *name, shoal_message **out);
/** Both return at once; `data` belongs to the message until it is done.  Between two members, not to oneself. */
shoal_status shoal_message_send(shoal_message *m, const void *data, size_t bytes, int to, int tag);
shoal_status shoal_message_recv(shoal_message *m, void *data, size_t bytes, int from, int tag);
bool shoal_message_done(const shoal_message *m);
shoal_status shoal_message_wait(shoal_message *m); /* as shoal_exchange_wait */
void shoal_message_destroy(shoal_message *m);
#endif
