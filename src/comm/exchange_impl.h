/* Internals of sum exchanges, shared by exchange.c, lane.c, ring.c, halving.c, local.c, small.c,
 * stage.c and fabric.c.
 *
 *     exchange.c       public functions, tags, traces
 *     node_layout.c    nodes, owners and neighbours; choice of algorithm; predicted bytes
 *     ring.c           the ring, among single ranks or among the owners of a shard; and what halving shares with it
 *     halving.c        halving and doubling in its place
 *     local.c          inside a node: the owner of a shard reduces and distributes it through shared memory
 *     small.c          all-gather, then every member adds
 *     lane.c           an ordered sequence of pieces from or to one peer
 *     stage.c          a vector that the host cannot reach, and its mirror
 *     direct.c         whether MPI can reach it
 *     fabric.c         a vector that a library of the devices sums inside the node (fabric_impl.h)
 *
 * Ring and two-level sum are one state machine.  The flat ring is the case of one rank per node. */
#ifndef SHOAL_COMM_EXCHANGE_IMPL_H
#define SHOAL_COMM_EXCHANGE_IMPL_H
#include "base/mem.h"
#include "comm/fabric_impl.h"
#include "comm/group_impl.h"
#include <stdatomic.h>

/* ---------------------------------------------------------------------------------------- layout: node_layout.c */

/* How a group is distributed over nodes, as seen by one member.  Nodes, and the members of a node, are numbered in the
 * order in which the group lists them.  The first `owners` members of each node own a shard; `owners` is at most the
 * size of the smallest node, so that each shard has one owner on every node. */
typedef struct {
  int nodes, node;
  int locals, local;
  int owners, most; /* most: ranks of the largest node */
  int left, right;  /* group ranks that own the same shard on the previous and next node; -1: owns none */
  bool fabric;      /* the sum inside the node is a fabric's, and so are the shards */
  size_t grain;     /* of the wire format: shards begin at multiples of it */
} shoal_node_layout;

/** @param algorithm  any but AUTO and SMALL */
void shoal_node_layout_find(const shoal_group *g, shoal_wire wire, shoal_sum_algorithm algorithm,
                            shoal_node_layout *out);
/** Group rank of member number `local` of this node. */
int shoal_node_layout_member(const shoal_group *g, shoal_sum_algorithm algorithm, int local);
/** Of group rank `rank`: its node, as this algorithm sees it.  Of a node: the group rank of its member number `owner`. */
int shoal_node_layout_node(const shoal_group *g, shoal_sum_algorithm algorithm, int rank);
int shoal_node_layout_owner(const shoal_group *g, shoal_sum_algorithm algorithm, int node, int owner);
/** Whether a and b are on the same node, as this algorithm sees it. */
bool shoal_node_layout_same_node(const shoal_group *g, shoal_sum_algorithm algorithm, int a, int b);
/** Resolves AUTO by size and topology; returns any other algorithm unchanged. */
shoal_sum_algorithm shoal_sum_choose(const shoal_group *g, size_t n, shoal_wire wire, shoal_sum_algorithm wanted);

/** Where the shard of an owner begins in a vector of n elements, and its size.  A fabric's are equal, and the last has the rest. */
size_t shoal_shard_begin(const shoal_node_layout *s, size_t n, int owner);
size_t shoal_shard_size(const shoal_node_layout *s, size_t n, int owner);

/** Whether it halves and doubles between nodes, and the algorithm of the same shape that has a ring there. */
bool shoal_sum_halves(shoal_sum_algorithm algorithm);
shoal_sum_algorithm shoal_sum_shape(shoal_sum_algorithm algorithm);

/* Elements begin .. begin + n of the vector in `chunks` balanced parts, each of them cut into pieces. */
typedef struct {
  size_t begin, n, piece, grain;
  int chunks;
} shoal_cut;

/* Balanced split into parts that begin at multiples of `grain`, of which they have the same number or one more. */
size_t shoal_part_size(size_t n, size_t grain, int parts, int k);
size_t shoal_part_begin(size_t n, size_t grain, int parts, int k);
uint64_t shoal_cut_pieces(const shoal_cut *c, int chunk);

/* ---------------------------------------------------------------------------------------- pieces in order: lane.c */

enum { SHOAL_LANE_WINDOW = 32 };

/* Position in a lane: the next piece is elements [at, end) of the vector, or the first `piece` of them. */
typedef struct {
  int step, chunk; /* step == steps: past the end */
  size_t at, end;  /* within the chunk */
  uint64_t pieces; /* before this one */
} shoal_cursor;

/* Elements of the vector that are moved to or from one peer. */
typedef struct {
  int peer;
  size_t at, end;
} shoal_leg;

/* A sequence of pieces to or from peers: each step moves one chunk, the next step the preceding chunk (modulo the
 * number of chunks), all of them to or from one peer; or each step moves one of `legs`.  At most `window` pieces are posted at a
 * time.  A lane with 0 steps is finished from the start. */
typedef struct {
  shoal_cut cut;
  shoal_wire wire;
  bool sending;
  int peer, steps, first_chunk, window;
  const shoal_leg *legs; /* [steps] borrowed; NULL: chunks, with `peer` */
  uint64_t all;          /* pieces; set by shoal_lane_count */
  char *buffer;          /* `window` pieces, or NULL where data is sent and received in place */
  shoal_cursor posted, finished;
  int slot[SHOAL_LANE_WINDOW];
} shoal_lane;

void shoal_lane_rewind(shoal_lane *l);
void shoal_lane_count(shoal_lane *l); /* once the steps are known */
int shoal_lane_peer(const shoal_lane *l, const shoal_cursor *c);
size_t shoal_lane_length(const shoal_lane *l, const shoal_cursor *c); /* elements of the piece at c */
char *shoal_lane_buffer(const shoal_lane *l, const shoal_cursor *c);
static inline bool shoal_lane_over(const shoal_lane *l)
{
  return l->finished.step == l->steps;
}
static inline bool shoal_lane_has_room(const shoal_lane *l)
{
  return l->posted.step < l->steps && l->posted.pieces - l->finished.pieces < (uint64_t)l->window;
}
/** Tests whether the oldest posted piece has been received (or sent). */
shoal_status shoal_lane_look(shoal_flight *f, const shoal_lane *l, bool *yes);
void shoal_lane_pop(shoal_flight *f, shoal_lane *l); /* release the oldest posted piece */
/** Advance a cursor to the next piece, for lanes that only iterate and post nothing. */
void shoal_lane_advance(const shoal_lane *l, shoal_cursor *c);
/** Post the next piece at `data`. */
shoal_status shoal_lane_post(shoal_flight *f, shoal_lane *l, void *data);
/** Release all completed pieces that need no processing. */
shoal_status shoal_lane_reap(shoal_flight *f, shoal_lane *l, bool *moved);
void shoal_lane_give_up(shoal_flight *f, shoal_lane *l);

/* ------------------------------------------------------------------------------------------------------ exchanges */

/* State of one exchange that a rank publishes to its node peers in shared memory.  Written by that rank only; one cache
 * line. */
typedef struct {
  _Atomic uint64_t started; /* start number << 32 | tag */
  uint64_t region, offset;  /* location of its vector; valid once `started` is set */
  _Atomic uint64_t pushed;  /* pieces of its shard written to all peers, over all starts */
  _Atomic uint64_t fetched; /* pieces of each shard, in sending order, that its vector holds; in this start */
  char rest[SHOAL_ALIGN - 5 * sizeof(uint64_t)];
} shoal_node_flags;

/* Another rank of this node. */
typedef struct {
  int peer; /* group rank */
  bool owner;
  const shoal_node_flags *flags;
  float *x;     /* its vector of this start, once it has started */
  uint64_t all; /* pieces of its shard */
} shoal_node_peer;

/* A rank's work inside its node: local.c. */
typedef struct {
  int n;                     /* peers; 0: alone on the node, or a flat algorithm */
  shoal_node_peer *peers;    /* in rank order within the node, starting after this rank */
  shoal_node_flags *flags;   /* of this rank */
  int peers_started;         /* how many of them have started */
  uint64_t pushed;           /* pieces of my shard written to peers in this start */
  shoal_lane adding, giving; /* iterate over the pieces of my shard; post nothing */
} shoal_local;

/* A vector elsewhere: stage.c. */
typedef struct {
  shoal_backend *backend; /* NULL: vectors are the host's, and nothing else of this is used */
  shoal_memory mirror;
  float *x;       /* the backend's vector of this start */
  uint64_t ready; /* mark */
  bool direct;    /* MPI sends from x what no sum has changed, and receives there what is complete ... */
  bool written;   /* ... once x is written */
  int owners;
  shoal_lane *fetching, *giving; /* [owners] iterate over the pieces of each shard; post nothing */
  uint64_t run, runs, arrived;   /* pieces of each shard that are copied together; how many of these; in the mirror */
  uint64_t *number, last;        /* [runs] of the last copy of each; of the last copy back */
} shoal_stage;

typedef struct shoal_halving shoal_halving; /* the rounds of one shard: halving.c */

struct shoal_exchange {
  shoal_flight f;
  char *name;
  uint64_t plan, stamp;
  size_t whole; /* elements */
  size_t n;     /* of them, those that are summed here: all, or a fabric's shard */
  shoal_wire wire;
  shoal_sum_algorithm algorithm; /* never AUTO */
  float *x;                      /* or its mirror */
  shoal_event ready;             /* of this start: x is written */
  shoal_stage stage;
  shoal_fabric_sum fabric;
  int slots;      /* reserved */
  uint64_t bytes; /* payload sent per start */
  float *error;   /* of what this rank rounds, by element of its shard (small: of the vector); NULL: not kept */
  shoal_trace *trace;
  uint32_t op;    /* of `trace` */
  int trace_peer; /* the peer most of it is sent to */
  uint64_t seq;   /* number of this start among all of the group, which exchanges planned anew do not repeat */
  uint64_t ended_ns;
  /* all but small */
  shoal_node_layout layout;
  shoal_halving *halving; /* [owners] or NULL: a ring */
  shoal_cut cut;          /* my shard */
  int reduces;            /* steps of `in` that are reduce-scatter; the last of them completes the own chunk */
  int sends;              /* steps of `out` that are reduce-scatter */
  uint64_t partial;       /* pieces received before those of that step */
  uint64_t first, all;    /* pieces of my shard: in the first chunk that a ring sends, total */
  shoal_lane out, in;
  shoal_local local;
  uint64_t summed; /* pieces of my shard reduced over this node, in sending order */
  /* small */
  int rounds;
  char *blocks;          /* [size] parts of all members; block j is from the j-th member after me */
  size_t there;          /* bytes of them received, from the front */
  shoal_stream *streams; /* [2 * rounds] receive and send of each round */
};

/** Called when a start completes: takes the end time and records a span with all bytes sent. */
void shoal_exchange_record_end(shoal_exchange *e);

/* Per algorithm: plan (allocates, sets `slots`), start, and the flight's function table. */
shoal_status shoal_ring_plan(shoal_exchange *e);
shoal_status shoal_ring_start(shoal_exchange *e);
extern const shoal_flight_ops shoal_ring_ops;
shoal_status shoal_small_plan(shoal_exchange *e);
void shoal_small_start(shoal_exchange *e);
extern const shoal_flight_ops shoal_small_ops;

/** Plans the lanes of my shard; the layout is known. */
shoal_status shoal_ring_plan_shard(shoal_exchange *e);
/** Lanes that iterate over the pieces of that owner's shard in the order in which they are sent for the first time, and that in
 *  which they complete. */
void shoal_ring_orders(const shoal_exchange *e, int owner, shoal_lane *adding, shoal_lane *giving);
/** As the table's advance, but the end is not recorded. */
shoal_status shoal_ring_turn(shoal_exchange *e, bool *moved, bool *done);
/** How the shard of owner number `owner` is split into chunks and pieces; equal on every rank. */
shoal_cut shoal_ring_cut(const shoal_exchange *e, int owner);

/* halving.c, for ring.c: nothing is planned where there is a ring, and then nothing else is called but free. */
shoal_status shoal_halving_plan(shoal_exchange *e); /* the layout is known */
void shoal_halving_free(shoal_exchange *e);
void shoal_halving_orders(const shoal_exchange *e, int owner, shoal_lane *adding, shoal_lane *giving);
void shoal_halving_lanes(shoal_exchange *e);               /* of my shard */
bool shoal_halving_may_send(const shoal_exchange *e);      /* the next piece of `out` */
bool shoal_halving_may_overwrite(const shoal_exchange *e); /* what the next piece of `in` replaces was sent */
/** late[nodes]: whose parts are not here.  @param arrived  the next piece is, but was not used yet */
void shoal_halving_late(const shoal_exchange *e, bool arrived, bool *late);
/** Adds what the owner `s->local` sends for its shard of n elements. */
void shoal_halving_bytes(const shoal_group *g, shoal_sum_algorithm algorithm, const shoal_node_layout *s, size_t n,
                         shoal_wire wire, uint64_t *out);

/* local.c, for ring.c */
/** Allocates the shared state of the node, before any step that can fail on one rank only.  Collective over the
 *  group. */
shoal_status shoal_local_open(shoal_exchange *e);
shoal_status shoal_local_plan(shoal_exchange *e);
shoal_status shoal_local_start(shoal_exchange *e);
/** Add the node peers' parts to my shard. */
shoal_status shoal_local_collect(shoal_exchange *e, bool *moved);
/** Write finished pieces into the node peers' vectors.
 *  @param complete  number of finished pieces of my shard, in the order in which they finish */
void shoal_local_spread(shoal_exchange *e, uint64_t complete, bool *moved);
bool shoal_local_over(const shoal_exchange *e);
/** Where vectors are elsewhere: tells the node peers what has arrived, and gives back what they have finished. */
void shoal_local_tell_fetched(shoal_exchange *e);
shoal_status shoal_local_give(shoal_exchange *e, bool *moved);
/** For a hang report: the node peer we wait for, or -1. */
int shoal_local_describe(const shoal_exchange *e, shoal_str *where, bool *missing);
void shoal_local_free(shoal_exchange *e);

/* stage.c.  Without a backend whose memory is elsewhere: open, plan and close do nothing, and nothing else is called but
 * fetched. */
shoal_status shoal_stage_open(shoal_exchange *e); /* collective; after local_open */
shoal_status shoal_stage_plan(shoal_exchange *e); /* after the layout is found */
void shoal_stage_close(shoal_exchange *e);
/** Asks for copies of x, to begin once `ready` is reached, and sets e->x to the mirror.  Before local_start. */
shoal_status shoal_stage_start(shoal_exchange *e, float *x, shoal_event ready);
bool shoal_stage_fetch(shoal_exchange *e, bool *moved); /* looks what has arrived; true: all */
/** Pieces of each shard, in sending order, that the mirror holds; UINT64_MAX: all, as always where e->x is the host's. */
uint64_t shoal_stage_fetched(const shoal_exchange *e);
/** So many pieces of that shard, in the order in which they finish, are complete: copies them back. */
shoal_status shoal_stage_give(shoal_exchange *e, int owner, uint64_t complete, bool *moved);
/** The vector that MPI sends from what no sum has changed, and into which it receives what is complete: e->x but where that is elsewhere
 *  and direct. */
float *shoal_stage_direct(const shoal_exchange *e);
bool shoal_stage_over(const shoal_exchange *e); /* everything was given back */
/** The backend's work from here on begins after what was given back. */
shoal_status shoal_stage_end(const shoal_exchange *e);

/* fabric.c: see fabric_impl.h. */
/** Gives the sum to the world's fabric if it is one of those that it does.  Once the algorithm is known. */
void shoal_fabric_take(shoal_exchange *e);
shoal_status shoal_fabric_plan(shoal_exchange *e);
void shoal_fabric_start(shoal_exchange *e, float *x, shoal_event ready);
extern const shoal_flight_ops shoal_fabric_sum_ops;
void shoal_fabric_drop(shoal_exchange *e); /* for destroy */

/* Wire formats: wire.c.  x begins at a multiple of the grain in its vector, and ends at one or with the vector. */
size_t shoal_wire_grain(shoal_wire wire); /* elements that are rounded together */
void shoal_wire_pack(shoal_wire wire, size_t n, const float *x, void *to);
/* Packs x + error, and leaves in `error` [n] what that takes from it; NULL: packs x. */
void shoal_wire_round(shoal_wire wire, size_t n, const float *x, float *error, void *to);
void shoal_wire_unpack(shoal_wire wire, size_t n, const void *from, float *x);
void shoal_wire_add(shoal_wire wire, size_t n, const void *from, float *x); /* x += from */
#endif
