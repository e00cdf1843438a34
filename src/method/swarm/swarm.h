/* Inside the method swarm: what its files share.
 *
 *     swarm.c            options, hooks of the loop, checkpoint
 *        |    \
 *     lockstep  pairs    two ways to hold interactions: by a schedule all ranks know, or on every rank's own clock
 *        |    /
 *     parcel             what is sent: packed, read, resent where it could not be read
 *        |
 *     math  quant  graph  pure
 *
 * Nothing here knows the run (shoal_run): a swarm is made from groups, rules and a vector, so tests drive it with local
 * steps of their own. */
#ifndef SHOAL_METHOD_SWARM_IMPL_H
#define SHOAL_METHOD_SWARM_IMPL_H
#include "ckpt/together/writer.h"
#include "comm/exchange.h"
#include "method/common/graph.h"
#include "method/common/quant.h"
#include "method/swarm/math.h"

typedef struct {
  shoal_swarm_variant variant;
  int bits; /* 0: f32 */
  bool stochastic, geometric;
  uint64_t h;       /* local steps between interactions a rank begins, or their mean */
  uint64_t overlap; /* steps it goes on while one it began is not over; then it waits (on own clocks) */
  shoal_graph_kind graph;
  double p; /* random graph: probability of an edge */
  uint64_t seed;
  double drop_after_s; /* a partner silent for so long is given up */
  bool stop_on_lost;   /* then the run ends; else the others go on */
} shoal_swarm_rules;

typedef struct {
  shoal_swarm_rules rules;
  shoal_world *world;
  shoal_group *all, *control; /* parcels; everything else */
  int rank, size;
  shoal_graph *graph;
  shoal_swarm_node node; /* x is the caller's */
  float *theirs;         /* [n] the partner's values, as read */
  float *shown;          /* [n] V3 on own clocks: what a puller is being sent, unchanged until it has read it */
  char *outbox, *inbox;  /* [4 n bytes] parcels on their way */
  size_t blocks, marks;  /* blocks of the quantiser; bytes of a set of them */
  double *distance;      /* [blocks] D_b of swarm_math.h */
  uint64_t turns;        /* parcels packed so far: addresses stochastic rounding */
  /* Interactions begun by each rank and local steps since: [size] in lockstep; on own clocks only [rank] is kept. */
  uint64_t *begun, *since;
  uint64_t sent[SHOAL_LINK_COUNT]; /* payload by the formula, since swarm.c last asked */
  /* For people: interactions as initiator and as partner; parcels sent, those of them in full, bytes sent again. */
  uint64_t met, served, parcels, full_parcels, resent_bytes;
  shoal_trace *trace; /* borrowed; NULL: nothing is recorded */
  uint32_t op;
} shoal_swarm;

/** Collective over the world.  `x` [n] is the live model; all ranks bring the same numbers, or load others later. */
shoal_status shoal_swarm_create(shoal_world *w, const shoal_swarm_rules *rules, float *x, size_t n, shoal_swarm **out);
void shoal_swarm_destroy(shoal_swarm *s); /* NULL is fine */
/** Everything starts from x: copies, nothing pending. */
void shoal_swarm_restart(shoal_swarm *s);
/** All D_b from a checkpoint.  Where they were cut into other blocks, or one number for all as older versions wrote it, the
 *  largest counts for every block.  On failure they stay as they are. */
shoal_status shoal_swarm_load_distances(shoal_swarm *s, const shoal_ckpt *c, const char *name);
/** V3: the copy others may pull follows the live model: after every local step, before anything is averaged. */
void shoal_swarm_publish(shoal_swarm *s);
static inline size_t shoal_swarm_block_length(const shoal_swarm *s, size_t b)
{
  size_t rest = s->node.n - b * SHOAL_QUANT_BLOCK;
  return rest < SHOAL_QUANT_BLOCK ? rest : SHOAL_QUANT_BLOCK;
}
/** Fold, and let every D_b know. */
void shoal_swarm_fold_own(shoal_swarm *s);

/* ---- parcel.c: one side's numbers of one interaction ---- */
typedef struct {
  shoal_quant quant;
  bool quantised;
  int8_t *exponent; /* [blocks] of the spacings this side sends with; owned */
  size_t bytes;     /* of a parcel */
  size_t resend;    /* bytes of the blocks that go again, unquantised */
  uint8_t *bad;     /* [marks] blocks somebody could not read; owned */
} shoal_swarm_deal;

shoal_status shoal_swarm_deal_init(const shoal_swarm *s, shoal_swarm_deal *d);
void shoal_swarm_deal_fini(shoal_swarm_deal *d);
/** Count what is now sent to a member: a parcel; or what goes again. */
void shoal_swarm_count_parcel(shoal_swarm *s, const shoal_swarm_deal *d, int peer);
void shoal_swarm_count_again(shoal_swarm *s, const shoal_swarm_deal *d, int peer);
/** An interaction with a member is over: its spans.  `waited_ns`: how long this rank did nothing else. */
void shoal_swarm_record(shoal_swarm *s, const shoal_swarm_deal *d, int peer, uint64_t t0_ns, uint64_t waited_ns);
/** This side's largest D_b, for the partner to know. */
double shoal_swarm_reach(const shoal_swarm *s);
/** Begin: `distance` is the larger reach of the two sides, the same number on both: 0, and the parcels go unquantised. */
void shoal_swarm_deal_begin(shoal_swarm *s, shoal_swarm_deal *d, double distance);
/** Bytes of a parcel by the formula: 4 n, or packed codes and 8 bytes (hash, exponent) for every block of 4096. */
size_t shoal_swarm_parcel_bytes(int bits, size_t n);
void shoal_swarm_pack(const shoal_swarm *s, shoal_swarm_deal *d, const float *from); /* into the outbox */
/** Out of the inbox into `theirs`, near c; sets bad. */
void shoal_swarm_unpack(shoal_swarm *s, shoal_swarm_deal *d);
/** What either side could not read goes again from both.  theirs: [marks], or NULL.  Sets resend. */
void shoal_swarm_merge(const shoal_swarm *s, shoal_swarm_deal *d, const uint8_t *theirs);
void shoal_swarm_pack_again(const shoal_swarm *s, const shoal_swarm_deal *d, const float *from);
void shoal_swarm_unpack_again(shoal_swarm *s, const shoal_swarm_deal *d);
/** All of `theirs` is there: learn the distances, and average c as the partner sees it, Q(c), with it (V3: does not). */
void shoal_swarm_deal_end(shoal_swarm *s, const shoal_swarm_deal *d);

/* ---- lockstep.c: interactions by a schedule that all ranks compute ---- */
typedef struct {
  int initiator, partner;
} shoal_swarm_edge;
/** The interactions behind local step number `step`, in order, into edges [size]; counts everybody's step.  A rank begins
 *  one when it has done its local steps since it last began; the order of initiators is a permutation keyed by the step.
 *  Pure but for begun and since [n].  Returns how many. */
int shoal_swarm_edges(const shoal_swarm_rules *rules, const shoal_graph *g, uint64_t step, uint64_t *begun,
                      uint64_t *since, shoal_swarm_edge *edges);

typedef struct shoal_swarm_lockstep shoal_swarm_lockstep;
shoal_status shoal_swarm_lockstep_create(shoal_swarm *s, shoal_swarm_lockstep **out);
void shoal_swarm_lockstep_destroy(shoal_swarm_lockstep *l);
/** All interactions behind step `step` that this rank is part of.  Collective in effect: every rank calls it after the
 *  same step.  *changed: x was written. */
shoal_status shoal_swarm_lockstep_step(shoal_swarm_lockstep *l, uint64_t step, bool *changed);

/* ---- talk.c: one interaction on a rank's own clock, moving while others compute ---- */
typedef enum {
  SHOAL_TALK_NONE,
  SHOAL_TALK_ASKED,    /* mine: the partner has been asked, or will be as soon as `unsent` can go */
  SHOAL_TALK_OFFERED,  /* mine: the partner has agreed and waits for this rank's answer */
  SHOAL_TALK_GRANTED,  /* a partner's: this rank has agreed and waits for the answer */
  SHOAL_TALK_PARCELS,  /* parcels are under way */
  SHOAL_TALK_CHECKING, /* what could be read */
  SHOAL_TALK_AGAIN,    /* what could not */
  SHOAL_TALK_DONE      /* for the owner to use and to set to NONE */
} shoal_talk_stage;

typedef struct {
  shoal_talk_stage stage;
  int peer;
  uint64_t number;    /* which of the initiator's interactions */
  uint16_t session;   /* of the two: how often one gave the other up */
  double distance;    /* the larger reach of the two sides, as the partner granted it */
  bool gives, takes;  /* directions in which parcels go */
  bool unsent;        /* ASKED: the request has yet to be sent, again perhaps */
  uint64_t t0_ns;     /* since this stage was waited for: silence is counted from here at the earliest */
  uint64_t moving_ns; /* when parcels started */
  shoal_swarm_deal deal;
  uint8_t *their_bad;
  shoal_message *out, *in, *bad_out, *bad_in;
} shoal_swarm_talk;

shoal_status shoal_swarm_talk_init(shoal_swarm *s, shoal_swarm_talk *t);
void shoal_swarm_talk_fini(shoal_swarm_talk *t);
/** Parcels set out, from `from`.  Not blocking.  peer, number, session, distance and directions are filled in. */
shoal_status shoal_swarm_talk_start(shoal_swarm *s, shoal_swarm_talk *t, const float *from);
/** Look, and take the next step where something has come; `from` as at the start.  Ends in DONE, with the deal ended. */
shoal_status shoal_swarm_talk_advance(shoal_swarm *s, shoal_swarm_talk *t, const float *from);
/** Give up: messages under way are left to the library. */
shoal_status shoal_swarm_talk_abandon(shoal_swarm *s, shoal_swarm_talk *t);

/* ---- pairs.c: interactions on every rank's own clock ---- */
typedef struct shoal_swarm_pairs shoal_swarm_pairs;
/** Collective.  From here on other ranks may ask; answers are given in shoal_world_progress. */
shoal_status shoal_swarm_pairs_create(shoal_swarm *s, shoal_swarm_pairs **out);
void shoal_swarm_pairs_destroy(shoal_swarm_pairs *p); /* NULL is fine */
/** Behind every local step: apply what has come, begin an interaction when it is due; V1: wait for it.
 *  *changed: x was written.  ERR_COMM where a partner is lost and the rule is to stop. */
shoal_status shoal_swarm_pairs_step(shoal_swarm_pairs *p, bool *changed);
/** Around a meeting of all ranks.  Arriving: finish what this rank began, keep answering.  Gathered (all have arrived):
 *  finish what others began; then nothing moves and c is at rest.  Leaving: go on. */
shoal_status shoal_swarm_pairs_arrive(shoal_swarm_pairs *p, bool *changed);
shoal_status shoal_swarm_pairs_gathered(shoal_swarm_pairs *p, bool *changed);
shoal_status shoal_swarm_pairs_leave(shoal_swarm_pairs *p);
#endif
