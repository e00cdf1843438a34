/* Internal interface of the method swarm.
 *
 *     swarm.c            options, hooks of the loop, checkpoint
 *        |    \
 *     lockstep  pairs    two ways to run interactions: by a common schedule, or asynchronously
 *        |      |   \
 *        |   segment  post   messages about a segment of the model; messages to and from any rank
 *        |      |
 *     parcel             a part of the model as it is sent: packed, decoded, averaged
 *        |
 *     math  quant  graph  pure
 *
 * Nothing here depends on the run (shoal_run): a swarm is built from groups, rules and a vector, so tests can drive it
 * with their own local steps. */
#ifndef SHOAL_METHOD_SWARM_IMPL_H
#define SHOAL_METHOD_SWARM_IMPL_H
#include "ckpt/together/writer.h"
#include "comm/exchange.h"
#include "method/common/graph.h"
#include "method/swarm/math.h"
#include "tensor/backend.h"

typedef struct {
  shoal_swarm_variant variant;
  bool lockstep; /* by a common schedule; else asynchronously */
  int bits;      /* 0: f32 */
  bool stochastic, geometric;
  uint64_t h;       /* local steps between interactions that a rank initiates, or their mean */
  uint64_t overlap; /* asynchronous: steps a rank may take before it waits for its interaction to finish */
  shoal_graph_kind graph;
  double p; /* random graph: probability of an edge */
  uint64_t seed;
  double drop_after_s; /* a partner that does not answer for this long is dropped */
  bool stop_on_lost;   /* end the run if a partner is lost; else go on without it */
} shoal_swarm_rules;

typedef struct {
  shoal_swarm_rules rules;
  shoal_world *world;
  shoal_backend *backend;
  shoal_group *all, *control; /* for parcels; for all other messages */
  int rank, size;
  shoal_graph *graph;
  shoal_swarm_node node; /* x is owned by the caller */
  bool
      whole; /* `theirs` is [n]: in lockstep, and in V3, which needs it until the end of the step; else [of a segment] */
  float *theirs;              /* the partner's values, as decoded */
  float *measured;            /* [blocks] pinned: what the backend has measured of them last */
  shoal_memory own[4];        /* of c, b, theirs and measured */
  shoal_memory outbox, inbox; /* [4 n bytes] pinned, in lockstep: a parcel */
  size_t blocks, marks;       /* blocks of the quantiser; bytes of a bitmap of them */
  size_t segment, segments;   /* blocks of a segment, which is exchanged at once asynchronously, and their number */
  bool *due;        /* [segments] asynchronous: fold it at the end of the step (V3: average x with `theirs`) */
  double *distance; /* [blocks] D_b of math.h */
  uint64_t turns;   /* parcels packed so far: counter for stochastic rounding */
  /* Interactions initiated by each rank and local steps since: [size]; asynchronously only [rank] is kept. */
  uint64_t *begun, *since;
  uint64_t sent[SHOAL_LINK_COUNT]; /* payload by formula, since swarm.c last collected it */
  /* For the log: interactions as initiator and as partner; parcels sent (asynchronously: of segments), unquantised ones of
   * these, bytes resent. */
  uint64_t met, served, parcels, full_parcels, resent_bytes;
  uint64_t refused;   /* parcels */
  shoal_trace *trace; /* borrowed; NULL: nothing is recorded */
  uint32_t op;
} shoal_swarm;

/** Collective over the world.  `x` [n] is the live model, equal on all ranks unless others are loaded later. */
shoal_status shoal_swarm_create(shoal_world *w, shoal_backend *b, const shoal_swarm_rules *rules, float *x, size_t n,
                                shoal_swarm **out);
void shoal_swarm_destroy(shoal_swarm *s); /* accepts NULL */
/** Resets the copies to x, with nothing pending. */
shoal_status shoal_swarm_restart(shoal_swarm *s);
/** Loads all D_b from a checkpoint.  If it has other blocks, or one value for all as written by older versions, every
 *  block gets the largest.  On failure they are unchanged. */
shoal_status shoal_swarm_load_distances(shoal_swarm *s, const shoal_ckpt *c, const char *name);
/** V3: updates the copy that others pull; called after every local step, before averaging. */
shoal_status shoal_swarm_publish(shoal_swarm *s);
static inline size_t shoal_swarm_block_length(const shoal_swarm *s, size_t b)
{
  size_t rest = s->node.n - b * SHOAL_QUANT_BLOCK;
  return rest < SHOAL_QUANT_BLOCK ? rest : SHOAL_QUANT_BLOCK;
}
/** Folds some blocks, and updates their D_b. */
shoal_status shoal_swarm_fold(shoal_swarm *s, size_t first, size_t blocks);
/** Does what is due in segments that are not locked [segments].  *changed: x was modified, else it is left as it is. */
shoal_status shoal_swarm_apply_due(shoal_swarm *s, const bool *locked, bool *changed);

/* ---- parcel.c: one side of the exchange of some blocks ---- */
typedef struct {
  size_t first, blocks, at, n; /* its blocks, and their numbers */
  shoal_quant quant;
  bool quantised;
  shoal_memory exponent; /* int8_t [blocks], pinned: spacing exponents of this side */
  size_t bytes;          /* of a parcel */
  size_t resend;         /* bytes of the blocks resent unquantised */
  shoal_memory bad;      /* bitmap of the blocks, pinned: those that either side failed to decode */
  shoal_memory flag;     /* uint32_t, pinned: a number of the parcel is not finite */
  bool refused;          /* so nothing is averaged with it */
} shoal_swarm_deal;

/** For up to so many blocks; it begins with the first of the model. */
shoal_status shoal_swarm_deal_init(const shoal_swarm *s, size_t blocks, shoal_swarm_deal *d);
void shoal_swarm_deal_fini(const shoal_swarm *s, shoal_swarm_deal *d);
void shoal_swarm_deal_set(const shoal_swarm *s, shoal_swarm_deal *d, size_t first, size_t blocks);
/** Counts a parcel, or bytes sent again, to a member. */
void shoal_swarm_count_parcel(shoal_swarm *s, size_t bytes, bool quantised, int peer);
void shoal_swarm_count_again(shoal_swarm *s, size_t bytes, int peer);
/** Records the spans of a finished interaction with a member.  `number` is the interaction's on its initiator, which this rank is
 *  or not; `bytes`: sent; `waited_ns`: time this rank only waited. */
void shoal_swarm_record(shoal_swarm *s, uint64_t bytes, int peer, bool initiator, uint64_t number, uint64_t t0_ns,
                        uint64_t waited_ns);
/** This side's largest D_b, to be sent to the partner. */
double shoal_swarm_reach(const shoal_swarm *s);
/** Begins an exchange.  `distance`: the larger reach of the two sides, as far as it is known; 0: parcels are unquantised. */
void shoal_swarm_deal_begin(shoal_swarm *s, shoal_swarm_deal *d, double distance);
/** Bytes of a parcel by formula: 4 n, or packed codes and 8 bytes (hash, exponent) for every block of 4096. */
size_t shoal_swarm_parcel_bytes(int bits, size_t n);
/** Packs the blocks of `from`, a whole model, to pinned memory. */
shoal_status shoal_swarm_pack(const shoal_swarm *s, shoal_swarm_deal *d, const float *from, void *to);
/** Decodes a parcel into `theirs` with c as the key; sets bad. */
shoal_status shoal_swarm_unpack(shoal_swarm *s, shoal_swarm_deal *d, const void *from);
float *shoal_swarm_theirs(const shoal_swarm *s, const shoal_swarm_deal *d); /* [d->n] where it does so */
/** Unquantised numbers, from anywhere to anywhere; `refused` is set, once the backend has settled, if one is not finite. */
shoal_status shoal_swarm_take(const shoal_swarm *s, shoal_swarm_deal *d, size_t n, const float *from, float *to);
shoal_status shoal_swarm_see_whether_refused(const shoal_swarm *s, shoal_swarm_deal *d);
/** Joins the bad blocks of both sides, which both resend.  other: the other's bitmap, or NULL.  Sets resend. */
void shoal_swarm_merge(const shoal_swarm *s, shoal_swarm_deal *d, const uint8_t *other);
shoal_status shoal_swarm_pack_again(const shoal_swarm *s, const shoal_swarm_deal *d, const float *from, void *to);
shoal_status shoal_swarm_unpack_again(shoal_swarm *s, shoal_swarm_deal *d, const void *from);
void shoal_swarm_refuse(shoal_swarm *s); /* counts, and warns once */
/** Averages c as it was sent, Q(c) but for the blocks that are `bad`, with `theirs` if `average`, and measures how far they were
 *  apart. */
shoal_status shoal_swarm_join(shoal_swarm *s, const shoal_swarm_deal *d, bool average);
/** Called when `theirs` is complete: joins (not in V3) and updates the distances.  Does nothing if the parcel was refused. */
shoal_status shoal_swarm_deal_end(shoal_swarm *s, const shoal_swarm_deal *d);

/* ---- lockstep.c: interactions by a schedule that all ranks compute ---- */
typedef struct {
  int initiator, partner;
} shoal_swarm_edge;
/** Lists the interactions after local step `step`, in order, in edges [size], and counts the step for all ranks.  A
 *  rank initiates one after its local steps since the last; the order of initiators is a permutation keyed by the step.
 *  Pure except for begun and since [n].  Returns the number of interactions. */
int shoal_swarm_edges(const shoal_swarm_rules *rules, const shoal_graph *g, uint64_t step, uint64_t *begun,
                      uint64_t *since, shoal_swarm_edge *edges);

typedef struct shoal_swarm_lockstep shoal_swarm_lockstep;
shoal_status shoal_swarm_lockstep_create(shoal_swarm *s, shoal_swarm_lockstep **out);
void shoal_swarm_lockstep_destroy(shoal_swarm_lockstep *l);
/** Performs this rank's interactions after step `step`.  Every rank must call it after the same step.  *changed: x was
 *  modified. */
shoal_status shoal_swarm_lockstep_step(shoal_swarm_lockstep *l, uint64_t step, bool *changed);

/* ---- segment.c: the two messages about a segment ----
 *
 *     sender                                 partner
 *     head, Q(c_i) --------- request ------>  decodes near its c_j; packs Q(c_j); averages, at once
 *                  <-------- reply ---------  head, Q(c_j)
 *     decodes, averages the same
 *
 * The sender keeps its segment as it is in between (its owner locks it); the partner never waits.  Blocks of the request that the
 * partner cannot decode it leaves alone and names in the reply; the sender then sends these alone, unquantised, and they are
 * answered alike.  The reply can be decoded always: the partner knows how far the two are apart, and how exactly, before it
 * chooses its spacings.  In V3 the request has no numbers, nobody keeps anything, and the sender names what it cannot decode. */
enum {
  SHOAL_SWARM_SEGMENT =
      15, /* blocks at most: at 8 bits what fits, with its head, into a message that MPI sends eagerly (64 KiB) */
  SHOAL_SWARM_SEGMENTS = 32 /* a model has at least so many, or a block each: few of them are locked at any time */
};
enum {
  SHOAL_SWARM_QUANTISED = 1, /* what follows the head: a parcel of the whole segment, */
  SHOAL_SWARM_EXACT = 2,     /* or the numbers of `blocks`, */
  SHOAL_SWARM_AGAIN = 4,     /* which are sent again; or nothing, because */
  SHOAL_SWARM_REFUSED = 8,   /* one's model is not finite, */
  SHOAL_SWARM_UNKNOWN = 16,  /* or the interaction was given up */
  SHOAL_SWARM_INITIATOR = 32 /* the sender of the request has initiated the interaction */
};
typedef struct {
  uint64_t number; /* of the interaction on its initiator */
  double reach;    /* largest D_b of the sender */
  uint32_t era, segment;
  uint16_t blocks; /* bitmap: what this is about */
  uint16_t unread; /* reply: blocks of the request that could not be decoded */
  uint32_t flags;
} shoal_swarm_head; /* numbers follow */

void shoal_swarm_deal_segment(const shoal_swarm *s, shoal_swarm_deal *d, size_t segment);
size_t shoal_swarm_message_most(const shoal_swarm *s); /* bytes of the longest message */
/** Bytes of a message by its head. */
size_t shoal_swarm_message_bytes(const shoal_swarm *s, const shoal_swarm_head *h);
/** Completes a request, whose number, era, segment and INITIATOR the caller has set in `out` (pinned).
 *  @param again  the blocks that are sent again; 0: it is the first request, and about all */
shoal_status shoal_swarm_ask(shoal_swarm *s, shoal_swarm_deal *d, uint16_t again, shoal_swarm_head *out);
/** Answers a request, in `reply` (pinned), and does this side's part. */
shoal_status shoal_swarm_answer(shoal_swarm *s, shoal_swarm_deal *d, const shoal_swarm_head *request,
                                shoal_swarm_head *reply);
/** The sender's part, by the deal of its request.  *again: what must be sent again. */
shoal_status shoal_swarm_finish(shoal_swarm *s, shoal_swarm_deal *d, const shoal_swarm_head *request,
                                const shoal_swarm_head *reply, uint16_t *again);

/* ---- post.c: messages with the memory they use ----
 *
 * A message that cannot end because its partner is lost is left to MPI with its memory, and replaced. */
typedef struct {
  shoal_group *group;
  const char *name;
  shoal_message *message;
  shoal_memory memory; /* pinned */
  int to;
  uint64_t t0_ns;
} shoal_post_out;
typedef struct {
  shoal_message *message;
  shoal_memory memory;
  bool seen; /* by the caller, who has left it for later */
} shoal_post_in;
/* Receives from any rank: always `wanted` of them, whatever the number of ranks. */
typedef struct {
  shoal_group *group;
  const char *name;
  int tag;
  size_t bytes, wanted, n, room;
  shoal_post_in *at; /* [n] */
} shoal_post_box;

shoal_status shoal_post_open(const shoal_swarm *s, shoal_group *g, const char *name, size_t bytes, shoal_post_out *o);
void shoal_post_close(const shoal_swarm *s, shoal_post_out *o);
bool shoal_post_free(const shoal_post_out *o); /* the memory may be written */
shoal_status shoal_post_send(shoal_post_out *o, size_t bytes, int to, int tag);
/** Leaves a message that is under way to MPI, so that it is free again. */
shoal_status shoal_post_abandon(const shoal_swarm *s, shoal_post_out *o);
void shoal_box_close(const shoal_swarm *s, shoal_post_box *b);
/** Posts receives, up to `wanted`.  The caller has set all but n, room and at. */
shoal_status shoal_box_fill(const shoal_swarm *s, shoal_post_box *b);
/** Number k has been read: it is posted again, or closed if there are more than wanted; then the last one takes its place. */
shoal_status shoal_box_next(const shoal_swarm *s, shoal_post_box *b, size_t k);

/* ---- pairs.c: asynchronous interactions ---- */
typedef struct shoal_swarm_pairs shoal_swarm_pairs;
/** Collective.  From here on other ranks may send requests, which shoal_world_progress answers. */
shoal_status shoal_swarm_pairs_create(shoal_swarm *s, shoal_swarm_pairs **out);
void shoal_swarm_pairs_destroy(shoal_swarm_pairs *p); /* accepts NULL */
/** Call after every local step: applies finished interactions and starts one if it is due; V1: waits for it.
 *  *changed: x was modified.  ERR_COMM if a partner is lost and the rules say to stop. */
shoal_status shoal_swarm_pairs_step(shoal_swarm_pairs *p, bool *changed);
/** Around a meeting of all ranks.  Arriving: finish what this rank began, keep answering.  Gathered (all have arrived):
 *  finish what others began; then c does not change.  Leaving: resume. */
shoal_status shoal_swarm_pairs_arrive(shoal_swarm_pairs *p, bool *changed);
shoal_status shoal_swarm_pairs_gathered(shoal_swarm_pairs *p, bool *changed);
shoal_status shoal_swarm_pairs_leave(shoal_swarm_pairs *p);
#endif
