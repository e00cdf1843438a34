/* A fabric: a library that moves memory between devices by itself.  The only one is NCCL.
 *
 *     exchange.c      plan, start, wait                    as for every sum
 *     fabric.c        whether, whose turn, phases          knows no device
 *     nccl/nccl.c     calls of the library                 the only code that includes nccl.h; loaded when needed
 *
 * It takes two-level sums whose group has all ranks of each of its nodes, equally many, each with a device of its own:
 *
 *     SCATTER  on the devices     rank l of the node's L gets the node's sum of shard l
 *              over pinned memory the shard's ring between the nodes, as if the rank were alone on its node (stage.c, ring.c)
 *     GATHER   on the devices     every rank of the node gets all shards
 *
 * With one node it is a single call, SUM; and so between nodes if the run asks for that (SHOAL_FABRIC_ALL) and the wire is f32.
 * Everything else goes on to use MPI, which never sees memory of a device beside a fabric (direct.c): the host's memory is all that the
 * two have in common, and none waits for the other on a device.
 *
 * Turns.  All calls of a rank are in one stream of its device, and each waits there for the other ranks: two ranks with two calls in
 * different orders would wait for ever.  When a ring has ended differs from rank to rank, and so may the order in which groups
 * are used.  So the first rank of the node decides.  It writes down its calls in the order in which it makes them, in memory that the
 * node shares; the others make them in this order.
 *
 *     first rank   S1 S2 G1 S3 G2 G3        S: scatter, G: gather; ring 1 has ended here before bucket 3 was ready
 *     others       S1 S2 .. G1 S3 G2 G3     their ring 1 ends later: they wait with S3
 *
 * No rank can wait for ever: G of a sum is written down after its S, and its rings need the S of all nodes and nothing that comes later.
 *
 * A call is asked for with the mark of the backend after which it may begin, and the sum is over when the host has seen the event
 * behind its last call; nothing is ever waited for on the host.  Errors that the library tells by itself end the sum, as a hang does,
 * and then its communicators are aborted, so that nothing is left running on the device.  A lost rank is told by the
 * hang detector (watch.c), which knows who it was; the library's words are for when nobody is missing. */
#ifndef SHOAL_COMM_FABRIC_IMPL_H
#define SHOAL_COMM_FABRIC_IMPL_H
#include "comm/exchange.h"
#include <stdatomic.h>

typedef struct shoal_fabric shoal_fabric;

typedef enum { SHOAL_FABRIC_SUM, SHOAL_FABRIC_SCATTER, SHOAL_FABRIC_GATHER } shoal_fabric_kind;

/* x[n] in place.  SCATTER and GATHER: shards as in shoal_shard_begin. */
typedef struct {
  shoal_fabric_kind kind;
  bool everywhere; /* among all ranks; false: of this node */
  float *x;
  size_t n;
  uint64_t after; /* number of the backend */
  void *event;    /* reached when the call is done */
} shoal_fabric_call;

/* What ranks compare before they use it. */
typedef struct {
  int version;
  unsigned char device[16]; /* identity of the GPU */
  char version_text[16];
} shoal_fabric_facts;

/* Nothing blocks but connect and close. */
typedef struct {
  const char *name;
  /* Communicators among the node's ranks and, if wanted, among all.  Collective over both. */
  shoal_status (*connect)(shoal_fabric *f, bool everywhere);
  shoal_status (*event_create)(shoal_fabric *f, void **out);
  void (*event_destroy)(shoal_fabric *f, void *event);
  /* Asks for a call; it is on its way when `entered` says so, and before that no other may be begun. */
  shoal_status (*begin)(shoal_fabric *f, const shoal_fabric_call *c);
  shoal_status (*entered)(shoal_fabric *f, bool *yes);
  shoal_status (*reached)(shoal_fabric *f, void *event, bool *yes);
  shoal_status (*look)(shoal_fabric *f); /* the error that has come by itself, if any */
  void (*abort)(shoal_fabric *f);        /* what is in flight ends without a result; nothing is begun any more */
  void (*close)(shoal_fabric *f);        /* also half open, or aborted */
} shoal_fabric_ops;

enum { SHOAL_FABRIC_SLOTS = 128, SHOAL_FABRIC_STARTED = 512 };
/* A rank's page of shared memory, which only it writes. */
typedef struct {
  struct {
    uint64_t what, start;
  } turn[SHOAL_FABRIC_SLOTS];                     /* first rank: turn k is in k % SLOTS */
  _Atomic uint64_t turns;                         /* first rank: so many are written down */
  _Atomic uint64_t taken;                         /* others: so many have begun here */
  _Atomic uint32_t failed;                        /* while connecting */
  _Atomic uint64_t started[SHOAL_FABRIC_STARTED]; /* the last start of sum k, in k % STARTED: for hang reports */
} shoal_fabric_page;

struct shoal_fabric {
  const shoal_fabric_ops *ops;
  shoal_world *w;
  shoal_backend *backend;
  shoal_group *node; /* the node's ranks, in order */
  bool everywhere;
  shoal_fabric_page *own, **page; /* [ranks of the node] */
  uint64_t plans, taken;
  shoal_exchange *first, *last; /* those that wait for their turn, in the order in which they may have it */
  shoal_exchange *begun;        /* its call is not entered yet */
  uint64_t failed_ns;           /* the library told `failure` then; 0: it did not */
  shoal_error failure;
  bool aborted;
};

typedef enum {
  SHOAL_FABRIC_CALLS, /* waits for the turn of its first call */
  SHOAL_FABRIC_RUNS,
  SHOAL_FABRIC_RINGS,
  SHOAL_FABRIC_RETURNS, /* waits for the turn of its last call */
  SHOAL_FABRIC_ENDS,
  SHOAL_FABRIC_OVER
} shoal_fabric_phase;

/* A fabric's part of an exchange. */
typedef struct {
  shoal_fabric *on; /* NULL: none has a part in it */
  bool everywhere, rings;
  size_t begin; /* of my shard */
  int local, locals;
  uint64_t plan; /* equal on all ranks of the node */
  float *x;      /* of this start */
  uint64_t ready;
  void *event;
  shoal_fabric_phase phase;
  shoal_exchange *next;
} shoal_fabric_sum;

/** Whether sums of this group are a fabric's; follows from the group, its placement and the world. */
bool shoal_fabric_suits(const shoal_group *g);
void shoal_fabric_close(shoal_fabric *f); /* NULL is fine; the world does it */

/** Loads NCCL for the device of a backend.  Not collective.  Any error is a reason to do without. */
shoal_status shoal_nccl_open(shoal_backend *b, shoal_fabric_facts *facts, shoal_fabric **out);
#endif
