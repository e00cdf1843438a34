/* Inside the sums of comm/: what exchange.c, lane.c, ring.c, local.c and small.c share.
 *
 *     exchange.c   the public calls; which algorithm; tags, traces
 *     shape.c      who stands where: nodes, owners, neighbours; and the formula of bytes
 *     ring.c       the ring, among single ranks or among the owners of a shard
 *     local.c      inside a node: the owner of a shard adds it up and gives it to all, through shared memory
 *     small.c      everything to everybody
 *     lane.c       pieces in order, from or to one peer
 *
 * Ring and two-level sum are one state machine.  The flat ring is the case where every rank is a node of its own. */
#ifndef SHOAL_COMM_EXCHANGE_IMPL_H
#define SHOAL_COMM_EXCHANGE_IMPL_H
#include "base/mem.h"
#include "comm/group_impl.h"
#include <stdatomic.h>

/* ------------------------------------------------------------------------------------------------ who: shape.c */

/* A group cut into nodes, as seen by one member.  Nodes are numbered in the order in which the group names them, and
 * members of a node too.  `owners` members of each node own a shard: the first of them, and no more than the smallest
 * node has, so that each shard has one owner on every node. */
typedef struct {
  int nodes, node;
  int locals, local;
  int owners, most; /* most: ranks of the largest node */
  int left, right;  /* group ranks: who owns the same shard on the nodes before and after; -1: this rank owns none */
} shoal_shape;

/** @param algorithm  RING, TWO_LEVEL or LEADERS */
void shoal_shape_find(const shoal_group *g, shoal_sum_algorithm algorithm, shoal_shape *out);
/** The member of my node with that number; or -1. */
int shoal_shape_local(const shoal_group *g, shoal_sum_algorithm algorithm, int local);
/** Are a and b on one node, as this algorithm sees it? */
bool shoal_shape_together(const shoal_group *g, shoal_sum_algorithm algorithm, int a, int b);
/** AUTO becomes one of the others, by size and topology; what is named stays. */
shoal_sum_algorithm shoal_sum_choose(const shoal_group *g, size_t n, shoal_wire wire, shoal_sum_algorithm wanted);

/* Elements begin .. begin + n of the vector in `chunks` balanced parts, each of them cut into pieces. */
typedef struct {
  size_t begin, n, piece;
  int chunks;
} shoal_cut;

size_t shoal_part_size(size_t n, int parts, int k); /* of a balanced split: sizes differ by one at most */
size_t shoal_part_begin(size_t n, int parts, int k);
uint64_t shoal_cut_pieces(const shoal_cut *c, int chunk);
uint64_t shoal_cut_all_pieces(const shoal_cut *c);

/* ---------------------------------------------------------------------------------------- pieces in order: lane.c */

enum { SHOAL_LANE_WINDOW = 32 };

/* Where a lane stands: the next piece is elements [at, end) of the vector, or the first `piece` of them. */
typedef struct {
  int step, chunk; /* step == steps: past the end */
  size_t at, end;  /* within the chunk */
  uint64_t pieces; /* before this one */
} shoal_cursor;

/* Pieces to or from one peer: in each step all of a chunk, then the chunk before it (modulo their number).  A few are
 * posted at a time.  A lane of no steps is over from the start. */
typedef struct {
  shoal_cut cut;
  shoal_wire wire;
  bool sending;
  int peer, steps, first_chunk, window;
  char *buffer; /* `window` pieces, or NULL where data is sent and received in place */
  shoal_cursor posted, finished;
  int slot[SHOAL_LANE_WINDOW];
} shoal_lane;

void shoal_lane_rewind(shoal_lane *l);
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
/** Has the oldest posted piece come (or gone)? */
shoal_status shoal_lane_look(shoal_flight *f, const shoal_lane *l, bool *yes);
void shoal_lane_pop(shoal_flight *f, shoal_lane *l); /* the oldest is dealt with */
/** Move a cursor of the lane to the next piece: for lanes that only walk. */
void shoal_lane_advance(const shoal_lane *l, shoal_cursor *c);
/** Post the next piece at `data`. */
shoal_status shoal_lane_post(shoal_flight *f, shoal_lane *l, void *data);
/** Pop whatever has come (or gone), where nothing is to be done with it. */
shoal_status shoal_lane_reap(shoal_flight *f, shoal_lane *l, bool *moved);
void shoal_lane_give_up(shoal_flight *f, shoal_lane *l);

/* ------------------------------------------------------------------------------------------------------ exchanges */

/* What a rank tells the others of its node about one exchange; only it writes, in a line of the cache of its own. */
typedef struct {
  _Atomic uint64_t started; /* number of the start << 32 | its tag */
  uint64_t region, offset;  /* where its vector lies; valid with `started` */
  _Atomic uint64_t pushed;  /* pieces of its shard given to all others, over all starts */
  char rest[SHOAL_ALIGN - 4 * sizeof(uint64_t)];
} shoal_line;

/* Another rank of this node. */
typedef struct {
  int peer; /* group rank */
  bool owner;
  const shoal_line *line;
  float *x;     /* its vector in this start, once it has started */
  uint64_t all; /* pieces of its shard */
} shoal_mate;

/* What a rank has to do with its node: local.c. */
typedef struct {
  int n;                     /* mates; 0: alone, or the algorithm knows no nodes */
  shoal_mate *mates;         /* from the rank after me around the node */
  shoal_line *line;          /* mine */
  int here;                  /* so many of them have started */
  uint64_t pushed;           /* pieces of my shard given away in this start */
  shoal_lane adding, giving; /* walk over the pieces of my shard; nothing is posted */
} shoal_local;

struct shoal_exchange {
  shoal_flight f;
  char *name;
  uint64_t plan, stamp;
  size_t n;
  shoal_wire wire;
  shoal_sum_algorithm algorithm; /* never AUTO */
  float *x;
  int slots;      /* reserved */
  uint64_t bytes; /* payload sent per start */
  shoal_trace *trace;
  uint32_t op;    /* of `trace` */
  int trace_peer; /* where most of it goes */
  uint64_t ended_ns;
  /* ring, two-level, leaders */
  shoal_shape shape;
  shoal_cut cut;            /* my shard */
  uint64_t first, own, all; /* its pieces: of the first chunk sent, of the chunk this node completes, of all */
  shoal_lane out, in;
  shoal_local local;
  uint64_t summed; /* pieces of my shard that hold the sum over this node, in the order of sending */
  /* small */
  int rounds;
  char *blocks;          /* [size] what everybody brings; block j is that of the j-th member after me */
  size_t there;          /* bytes of them that have come, from the front */
  shoal_stream *streams; /* [2 * rounds], in and out of each round */
};

/** The start is over: takes the time, and records a span with all its bytes. */
void shoal_exchange_record_end(shoal_exchange *e);

/* Each algorithm: plan (allocates; sets slots), start, and its table for the flight. */
shoal_status shoal_ring_plan(shoal_exchange *e);
shoal_status shoal_ring_start(shoal_exchange *e);
extern const shoal_flight_ops shoal_ring_ops;
shoal_status shoal_small_plan(shoal_exchange *e);
void shoal_small_start(shoal_exchange *e);
extern const shoal_flight_ops shoal_small_ops;

/** How the shard of the owner with that number is cut: the same wherever it is asked. */
shoal_cut shoal_ring_cut(const shoal_exchange *e, int owner);

/* local.c, for the ring */
/** What the algorithm needs of its node, before anything that can fail alone.  Collective over the group. */
shoal_status shoal_local_open(shoal_exchange *e);
shoal_status shoal_local_plan(shoal_exchange *e);
shoal_status shoal_local_start(shoal_exchange *e);
/** Add what lies at my neighbours to my shard. */
shoal_status shoal_local_collect(shoal_exchange *e, bool *moved);
/** Give the others what is finished.
 *  @param complete  pieces of my shard, in the order in which they become so */
void shoal_local_spread(shoal_exchange *e, uint64_t complete, bool *moved);
bool shoal_local_over(const shoal_exchange *e);
/** For a hang report: the mate we wait for, or -1. */
int shoal_local_describe(const shoal_exchange *e, shoal_str *where, bool *missing);
void shoal_local_free(shoal_exchange *e);

/* wire formats: wire.c */
void shoal_wire_pack(shoal_wire wire, size_t n, const float *x, void *to);
void shoal_wire_unpack(shoal_wire wire, size_t n, const void *from, float *x);
void shoal_wire_add(shoal_wire wire, size_t n, const void *from, float *x); /* x += from */
#endif
