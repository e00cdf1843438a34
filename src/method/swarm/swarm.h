/* Internal interface of the method swarm.
 *
 *     swarm.c            options, hooks of the loop, checkpoint
 *        |    \
 *     lockstep  pairs    two ways to run interactions: by a common schedule, or asynchronously
 *        |    /
 *     parcel             the data sent: packed, decoded, resent where decoding failed
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
  int bits; /* 0: f32 */
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
  float *theirs;         /* [n] the partner's values, as decoded */
  float *shown;          /* [n] asynchronous V3: the copy being sent, constant until it was read */
  float *measured;       /* [blocks] pinned: what the backend has measured of them last */
  shoal_memory own[5];   /* of c, b, theirs, shown and measured */
  shoal_memory outbox,
      inbox;            /* [4 n bytes] pinned: parcels in flight; replaced when an interaction is abandoned (talk.c) */
  size_t blocks, marks; /* blocks of the quantiser; bytes of a bitmap of them */
  double *distance;     /* [blocks] D_b of math.h */
  uint64_t turns;       /* parcels packed so far: counter for stochastic rounding */
  /* Interactions initiated by each rank and local steps since: [size]; asynchronously only [rank] is kept. */
  uint64_t *begun, *since;
  uint64_t sent[SHOAL_LINK_COUNT]; /* payload by formula, since swarm.c last collected it */
  /* For the log: interactions as initiator and as partner; parcels sent, unquantised ones of these, bytes resent. */
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
/** Folds, and updates every D_b. */
shoal_status shoal_swarm_fold_own(shoal_swarm *s);

/* ---- parcel.c: one side of one interaction ---- */
typedef struct {
  shoal_quant quant;
  bool quantised;
  shoal_memory exponent; /* int8_t [blocks], pinned: spacing exponents of this side */
  size_t bytes;          /* of a parcel */
  size_t resend;         /* bytes of the blocks resent unquantised */
  shoal_memory bad;      /* uint8_t [marks], pinned: blocks that either side failed to decode */
  shoal_memory flag;     /* uint32_t, pinned: a number of the parcel is not finite */
  bool refused;          /* so nothing is averaged with it */
} shoal_swarm_deal;

shoal_status shoal_swarm_deal_init(const shoal_swarm *s, shoal_swarm_deal *d);
void shoal_swarm_deal_fini(const shoal_swarm *s, shoal_swarm_deal *d);
/** Counts the bytes sent to a member: a parcel; resent blocks. */
void shoal_swarm_count_parcel(shoal_swarm *s, const shoal_swarm_deal *d, int peer);
void shoal_swarm_count_again(shoal_swarm *s, const shoal_swarm_deal *d, int peer);
/** Records the spans of a finished interaction with a member.  `number` is the interaction's on its initiator, which this rank is
 *  or not; `waited_ns`: time this rank only waited. */
void shoal_swarm_record(shoal_swarm *s, const shoal_swarm_deal *d, int peer, bool initiator, uint64_t number,
                        uint64_t t0_ns, uint64_t waited_ns);
/** This side's largest D_b, to be sent to the partner. */
double shoal_swarm_reach(const shoal_swarm *s);
/** Begins an interaction.  `distance`: the larger reach of the two sides, equal on both; 0: parcels are unquantised. */
void shoal_swarm_deal_begin(shoal_swarm *s, shoal_swarm_deal *d, double distance);
/** Bytes of a parcel by formula: 4 n, or packed codes and 8 bytes (hash, exponent) for every block of 4096. */
size_t shoal_swarm_parcel_bytes(int bits, size_t n);
shoal_status shoal_swarm_pack(const shoal_swarm *s, shoal_swarm_deal *d, const float *from); /* into the outbox */
/** Decodes the inbox into `theirs` with c as the key; sets bad. */
shoal_status shoal_swarm_unpack(shoal_swarm *s, shoal_swarm_deal *d);
/** Joins the bad blocks of both sides, which both resend.  theirs: [marks], or NULL.  Sets resend. */
void shoal_swarm_merge(const shoal_swarm *s, shoal_swarm_deal *d, const uint8_t *theirs);
shoal_status shoal_swarm_pack_again(const shoal_swarm *s, const shoal_swarm_deal *d, const float *from);
shoal_status shoal_swarm_unpack_again(shoal_swarm *s, shoal_swarm_deal *d);
/** Called when `theirs` is complete: updates the distances and averages Q(c), which the partner has, with it (not in
 *  V3).  Does nothing if the parcel was refused. */
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

/* ---- talk.c: one asynchronous interaction, which progresses during compute ---- */
typedef enum {
  SHOAL_TALK_NONE,
  SHOAL_TALK_ASKED,    /* initiator: request sent, or to be sent if `unsent` */
  SHOAL_TALK_OFFERED,  /* initiator: the partner has granted it and waits for accept or decline */
  SHOAL_TALK_GRANTED,  /* partner: this rank has granted it and waits for accept or decline */
  SHOAL_TALK_PARCELS,  /* parcels in flight */
  SHOAL_TALK_CHECKING, /* bad-block lists in flight */
  SHOAL_TALK_AGAIN,    /* bad blocks in flight, unquantised */
  SHOAL_TALK_DONE      /* complete; the owner uses the result and sets NONE */
} shoal_talk_stage;

typedef struct {
  shoal_talk_stage stage;
  int peer;
  uint64_t number;    /* index of the interaction on its initiator */
  uint16_t session;   /* session of the pair: how often one dropped the other */
  double distance;    /* the larger reach of the two sides, from the grant */
  bool gives, takes;  /* directions of the parcels */
  bool unsent;        /* ASKED: the request must still be sent, or sent again */
  uint64_t t0_ns;     /* start of the wait in this stage: the earliest start of a silence */
  uint64_t moving_ns; /* when parcels started */
  shoal_swarm_deal deal;
  shoal_memory their_bad; /* uint8_t [marks] */
  shoal_message *out, *in, *bad_out, *bad_in;
} shoal_swarm_talk;

shoal_status shoal_swarm_talk_init(shoal_swarm *s, shoal_swarm_talk *t);
void shoal_swarm_talk_fini(shoal_swarm *s, shoal_swarm_talk *t);
/** Starts to send and receive parcels; sends `from`.  Non-blocking.  The caller has set peer, number, session, distance
 *  and directions. */
shoal_status shoal_swarm_talk_start(shoal_swarm *s, shoal_swarm_talk *t, const float *from);
/** Advances the state machine as far as messages have arrived; `from` as in start.  Ends in DONE, with the deal
 *  ended. */
shoal_status shoal_swarm_talk_advance(shoal_swarm *s, shoal_swarm_talk *t, const float *from);
/** Abandons the interaction.  Messages in flight are left to the library with their memory, which is replaced. */
shoal_status shoal_swarm_talk_abandon(shoal_swarm *s, shoal_swarm_talk *t);
/** Receives and forgets what a member sent in sessions of the pair before this one. */
shoal_status shoal_swarm_talk_clear(shoal_swarm *s, int peer, uint16_t session);

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
