/* Internals of comm/: the transport interface, and how operations in flight are progressed.
 *
 *     sums   vote   message   collectives         state machines: "flights"
 *       \      |       |       /
 *        post, poll, test slots                   counting, tags: group.c and flight.c
 *       /                      \
 *     self                     mpi                transports: one table of functions each
 *
 * A transport does little: it connects a channel among some ranks, sends and receives bytes without blocking, and tests
 * for completion.  Everything else, collectives included, is built on that here.  So every byte is counted where it is
 * sent, we control the summation order, self and MPI cannot differ, and a hang report can name the ranks that have sent
 * nothing.  The price is that MPI's tuned collectives are not used; a training step needs the ring, and the rest is
 * small.
 *
 * A send or receive in flight is identified by a slot, a small integer.  One poll tests all of them in one library
 * call: each call that finds nothing may yield the core, and with more ranks than cores every yield costs a time slice.
 *
 * Tags separate the operations on a channel.  The start number is part of the tag, so a member that skips one exchange
 * is reported as missing instead of being matched with a later one:
 *
 *     0 .. 1023      point-to-point messages of callers
 *     1024 .. 2047   collectives: call number of the group, modulo 1024
 *     4096 ..        exchanges and votes: 256 * plan number of the group + start number modulo 256
 *
 * Model of bytes on the wire: inside a rank or node a message costs its payload; between nodes, 66 bytes more (Ethernet
 * 14, IPv4 20, TCP 20 and its time stamps 12) per segment of up to 1448 bytes, the largest at an MTU of 1500.  MPI
 * headers, acknowledgements and connection set-up are not modelled. */
#ifndef SHOAL_COMM_GROUP_IMPL_H
#define SHOAL_COMM_GROUP_IMPL_H
#include "base/str.h"
#include "comm/costs.h"
#include "comm/exchange.h"
#include "comm/group.h"
#include "slurm/claims.h"
#include <pthread.h>
#include <time.h>

typedef struct shoal_channel shoal_channel; /* opaque, per transport: a set of ranks with its own tag space */
typedef struct shoal_flight shoal_flight;

typedef enum { SHOAL_SLOT_PENDING, SHOAL_SLOT_DONE, SHOAL_SLOT_WRONG_SIZE } shoal_slot_state;

enum { SHOAL_FROM_ANY = -1 };

/* Ranks are ranks of the channel.  `bytes` is 1 .. max_message.  Functions do not block unless they say so. */
typedef struct {
  const char *name;
  /* Collective over the ranks listed, blocking; n >= 1, this process is among them. */
  shoal_status (*connect)(shoal_world *w, const int *world_ranks, int n, shoal_channel **out);
  void (*disconnect)(shoal_channel *c); /* NULL is fine */
  /* Reserve `more` slots in addition, so that posting need not allocate; a negative number releases them. */
  shoal_status (*reserve)(shoal_world *w, int more);
  shoal_status (*send)(shoal_channel *c, const void *data, size_t bytes, int to, int tag, int *slot);
  /* `from` SHOAL_FROM_ANY: from any rank of the channel, and of any length up to `bytes`. */
  shoal_status (*recv)(shoal_channel *c, void *data, size_t bytes, int from, int tag, int *slot);
  /* State as of the last poll.  WRONG_SIZE: the message received has *got bytes, not the size expected. */
  shoal_slot_state (*state)(const shoal_world *w, int slot, size_t *got);
  int (*sender)(const shoal_world *w, int slot); /* of the message that a DONE receive from any rank has got */
  /* Asks the library to end a pending receive; does nothing to a send.  Whether it still comes or not, the slot is DONE in a
   * later poll, and only then its buffer is free. */
  void (*cancel)(shoal_world *w, int slot);
  void (*release)(shoal_world *w, int slot); /* a pending operation is abandoned: only when the run ends in an error */
  shoal_status (*poll)(shoal_world *w, size_t *completed);
  /* Whether an unexpected message (without a matching receive) is queued.  For hang reports.
   * *from: whose, or SHOAL_FROM_ANY, which is then replaced by the sender. */
  bool (*peek)(shoal_channel *c, int *from, int *tag, size_t *bytes);
  /* Whether the library says that `data` may be memory of this backend, which the host cannot reach. */
  bool (*takes_device)(const shoal_backend *b);
  void (*close)(shoal_world *w);
  void (*abort)(int exit_code);
} shoal_transport;

shoal_status shoal_self_open(shoal_world *w); /* set transport, transport_state, rank and size of `w` */
shoal_status shoal_mpi_open(shoal_world *w);
bool shoal_mpi_takes_device(const shoal_backend *b); /* mpi/library.c */

/* Messages of a rank to itself, on any transport: copies, queued until they are received. */
typedef struct shoal_self_message shoal_self_message;
shoal_status shoal_self_put(shoal_self_message **box, const void *data, size_t bytes, int tag);
shoal_status shoal_self_take(shoal_self_message **box, void *data, size_t bytes, int tag);
void shoal_self_empty(shoal_self_message **box);

/* What the launcher's environment says; see launch.c. */
typedef struct {
  const char *launcher; /* variable that reveals a launcher which MPI can use, or NULL */
  bool mpirun;          /* the launcher is an mpirun, which may itself run in a Slurm step of its daemons */
  int size;             /* number of ranks according to the launcher; 0: unknown */
  int local_size;       /* ranks on this node; 0: unknown */
  int step_tasks;       /* tasks of the Slurm step this process is in; 0: none */
} shoal_launch;
void shoal_launch_read(const shoal_claims *c, shoal_launch *out);
/** Call before MPI_Init: ERR_WORLD if this MPI does not support the launcher's PMI version, in which case MPI_Init
 *  would end the process with its own text and exit code. */
shoal_status shoal_launch_refuse(const shoal_launch *l);
shoal_status shoal_launch_check(const shoal_launch *l, int mpi_size, bool allow_singletons);

/* Watches from before MPI_Init until messages can be sent; see start.c. */
typedef struct {
  double warn_s, hang_s;
  int rank, size; /* as the launcher says; rank < 0, size <= 0: unknown */
  struct timespec began;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t end;
  bool runs, over; /* over: under lock */
} shoal_start;
/** If the start lasts longer than warn_s rank 0 warns, after hang_s the process ends with the exit code of a hang.  The caller sets
 *  the first four members; `s` is in use until shoal_start_end, which must be called. */
void shoal_start_begin(shoal_start *s);
void shoal_start_end(shoal_start *s);

/** Call after MPI_Init and before the first message.  If PMIx is built in and started us: a true barrier (pmix.c), and
 *  what PMIx says is added to `c`.  ERR_WORLD if its size differs from MPI's. */
shoal_status shoal_pmix_settle(int mpi_size, shoal_claims *c);

/* --------------------------------------------------------------------------------- memory shared in a node: share.c */

typedef struct {
  int rank; /* world rank */
  int64_t pid;
  uint64_t started; /* of that process (base/process.h) */
  char *base;
  size_t bytes;
} shoal_neighbour;
typedef struct shoal_region shoal_region;
typedef struct shoal_liveness shoal_liveness;
/* A region of own memory, and the addresses at which the neighbours' regions are mapped. */
struct shoal_region {
  char *base;
  size_t bytes;
  bool registered;   /* the caller's memory */
  bool private_only; /* ordinary memory, not shared */
  uint64_t id;       /* equal on all ranks that share it */
  int n;
  shoal_neighbour *neighbours; /* [n] the other members of the group on this node */
  shoal_region *next;
};
/** Tests once, when the topology is known, whether sharing works, and sets w->shares.  Failure is a warning, not an
 *  error. */
shoal_status shoal_share_try(shoal_world *w, bool wanted);
void shoal_share_close(shoal_world *w);
/** The other ranks of the node see from now on that this one leaves after this error, which it has told. */
void shoal_share_leave(shoal_world *w, const char *error);
/** Checks that the processes of the node's other ranks still exist; ERR_COMM names one that does not, ERR_PEER one that has told why.
 *  Covers only ranks that share memory with this one.  Reads one file per rank.
 *  @param lower_lives  one of them with a lower rank than this one exists, and can tell, too */
shoal_status shoal_share_check_peers(const shoal_world *w, bool *lower_lives);
/** What a rank of the same node does with files (base/activity.h) for at least `least_s` seconds; false if nothing, or if that cannot
 *  be seen from here. */
bool shoal_share_activity(const shoal_world *w, int rank, double least_s, char *buf, size_t cap);
/** shoal_group_register of any group, whatever the kind of its vectors. */
shoal_status shoal_region_register(shoal_group *g, const shoal_memory *memory);
/** The shared region that holds all of these bytes, or NULL. */
const shoal_region *shoal_region_of(const shoal_world *w, const void *memory, size_t bytes);
/** Address `offset` bytes into a neighbour's region; NULL if that rank does not share it. */
char *shoal_region_at(const shoal_world *w, uint64_t id, int rank, uint64_t offset);

/* -------------------------------------------------------------------- one report of a hang for the job: inquiry.c */

typedef struct shoal_inquiry shoal_inquiry;
/** Collective over all ranks, listed in `ranks`. */
shoal_status shoal_inquiry_create(shoal_world *w, const int *ranks, shoal_inquiry **out);
void shoal_inquiry_destroy(const shoal_world *w, shoal_inquiry *q); /* NULL is fine */
void shoal_inquiry_begin(shoal_world *w);  /* a new wait: forgets what was heard in the last one */
void shoal_inquiry_listen(shoal_world *w); /* answers others; cheap if called often */
/** Called again and again while this rank has something to report: true while another rank may still report for it, or
 *  does; false once it must report itself.
 *  @param settle_s  how long others are given to send their notes; twice as long to answer */
bool shoal_inquiry_hold(shoal_world *w, double settle_s);
bool shoal_inquiry_waits(const shoal_world *w, int rank); /* that rank was heard to wait, too */
bool shoal_inquiry_answered(const shoal_world *w);        /* another rank reports for this one */
/** Appends "7 of 8 ranks wait for rank 5 (n2) since 09:48:25Z; on rank 0 " if others were heard.
 *  @param seconds  for how long this rank has waited
 *  @return  whether ranks that are missing were named, with their hosts */
bool shoal_inquiry_describe(const shoal_world *w, double seconds, shoal_str *out);

/* A rank's failure, as exchanged between the members of a group. */
typedef struct {
  int32_t code, verdict, told;
  uint32_t crc, length; /* of the text */
} shoal_verdict;

/* The nodes of a group, numbered in the order in which the group lists them, and the members of each in that order: node_layout.c. */
typedef struct {
  int nodes, least, most; /* members of the smallest and of the largest node */
  int *node, *place;      /* [size] of each member: its node, and its number there */
  int *begin, *member;    /* [nodes + 1], [size] members of node m: member[begin[m]] .. */
} shoal_node_table;

struct shoal_world {
  const shoal_transport *transport;
  void *transport_state;
  int rank, size;
  shoal_world_options o; /* defaults filled in; pretend is not kept */
  shoal_topo *topo;      /* NULL until the facts are gathered */
  shoal_claims claims;   /* of this rank */
  shoal_group *all, *control;
  int *ranks;                 /* [size] 0, 1, 2, ... */
  shoal_node_table nodes;     /* of all ranks, by */
  const shoal_topo *nodes_of; /* this topology */
  shoal_verdict *verdicts; /* [size] allocated with the first group, because reporting an error must not need memory */
  shoal_inquiry *inquiry;
  shoal_counters own_counters, *counters;
  shoal_trace *trace;
  uint64_t step;
  int plan_tags; /* number of plans that fit below the largest tag */
  shoal_world_hook hook;
  void *hook_context;
  shoal_costs costs; /* for the choice of sums, if `has_costs` */
  bool has_costs;
  shoal_backend *away;         /* vectors to be summed are its memory, which the host cannot reach; NULL: it can */
  struct shoal_fabric *fabric; /* sums some of them (fabric_impl.h); NULL: there is none */
  bool direct;                 /* messages may be in memory of `away` (direct.c); equal on all ranks */
  bool in_hook, hook_due;      /* due: something has completed since it was called */
  bool polled;                 /* a poll for the inquiry has completed something: flights must be advanced */
  bool shares;                 /* ranks of a node can map each other's memory; equal on all ranks */
  shoal_region *regions;       /* shared regions */
  shoal_liveness
      *liveness;         /* shared by the node for the world's lifetime: what the peer processes do and say; or NULL */
  uint64_t memory_kills; /* of the kernel on this host, when the world was opened */
  int watching;          /* flights that wait for shared memory to change, of which MPI gives no notice */
  shoal_message *abandoned; /* kept with their buffers until the library is done with them; a list */
  shoal_flight *in_flight;  /* doubly linked, oldest first */
  shoal_flight *newest;
  shoal_rendezvous *listener; /* or NULL; its flight never ends */
  shoal_flight *listening;
  bool (*asked)(void *context);
  void *asked_context;
  uint64_t listened_ns;
  double device_s;     /* how long the device was waited for when it was last looked at */
  shoal_error failure; /* error of the first flight that failed, possibly in a poll; its wait returns it */
  bool failure_known;  /* that error has been returned; another may replace it */
  bool broken;         /* an exchange has failed: some rank may never come to another one */
};

enum { SHOAL_TAG_COLLECTIVE = 1024, SHOAL_TAG_COLLECTIVES = 1024, SHOAL_TAG_PLAN = 4096, SHOAL_TAG_STARTS = 256 };

/* -------------------------------------------------------------------------------------------------- flights: flight.c
 */

typedef struct {
  /* Test the slots and post what can be posted.  Sets *moved when anything changed and *done on completion. */
  shoal_status (*advance)(shoal_flight *f, bool *moved, bool *done);
  /* For a hang report: writes the progress ("step 2 of 6") to `where` and sets missing[rank] for every member whose
   * part has not arrived; returns the member this rank waits for directly, or -1. */
  int (*describe)(shoal_flight *f, shoal_str *where, bool *missing);
  void (*give_up)(shoal_flight *f); /* release pending slots after an error */
} shoal_flight_ops;

struct shoal_flight {
  const shoal_flight_ops *ops;
  shoal_group *g;
  const char *name; /* borrowed */
  uint64_t number;  /* start number, from 1 */
  int tag;
  bool control;        /* counted as class control in any group: agreement */
  bool watches;        /* also waits for shared memory to change: advanced in every poll */
  bool moving;         /* between start and done */
  shoal_status status; /* of the last start */
  uint64_t started_ns, moved_ns;
  shoal_flight *next, *previous;
};

/** Add to the world's list and advance once.  The caller has set ops, g, name, number and tag. */
shoal_status shoal_flight_start(shoal_flight *f);
/** Block until this flight is done, progressing everything. */
shoal_status shoal_flight_wait(shoal_flight *f);
shoal_status shoal_flight_result(const shoal_flight *f); /* status of a flight that has ended; restores its error */
void shoal_flight_end(shoal_flight *f, shoal_status st); /* remove from the list; abandons pending slots unless OK */
/** Tests whether the slot has completed.  A wrong size is an error that names the flight and the peer. */
shoal_status shoal_flight_look(shoal_flight *f, int slot, int peer, size_t expected, bool *finished);
/** Count bytes moved to or from member `peer`: messages at the sender, shared memory at the rank that copies. */
void shoal_flight_count(shoal_flight *f, int peer, uint64_t bytes);
/** Send and receive on the group's channel; sends are counted. */
shoal_status shoal_flight_send(shoal_flight *f, const void *data, size_t bytes, int to, int *slot);
shoal_status shoal_flight_recv(shoal_flight *f, void *data, size_t bytes, int from, int *slot);

/* The hang detector (watch.c): reports a flight that blocks this rank. */
typedef struct {
  uint64_t since_ns, seen_ns;   /* seen: the last check */
  uint64_t checked_ns, lost_ns; /* peers were looked at; one was not there any more, for the first time */
  double lost_wait_s;           /* others are given so long to tell it */
  bool listens, warned;
} shoal_watch;
shoal_status shoal_watch_check(shoal_watch *watch, shoal_flight *f);
/** Of a device of this rank, as `waits` of its backend: the context is the world. */
shoal_status shoal_watch_device(void *world, double seconds, const char *what);

/* ---------------------------------------------------------------------------------- streams of bytes: stream.c */

/* A message of any length as an ordered sequence of pieces, a few of them posted at a time. */
enum { SHOAL_STREAM_WINDOW = 4 };
typedef struct {
  int peer;
  bool sending;
  char *data;
  size_t bytes, posted, finished;
  size_t piece; /* 0: as long as may be; equal at both ends, at most max_message */
  size_t got;   /* `peer` SHOAL_FROM_ANY: one piece of at most `bytes`; this many came, from `sender` */
  int sender;
  const size_t *limit; /* forwarding: bytes that the stream it forwards has received so far; or NULL */
  int slot[SHOAL_STREAM_WINDOW];
  int head, count;
} shoal_stream;

size_t shoal_stream_longest(const shoal_world *w); /* bytes of the largest piece */
/** Release completed pieces; post as many as fit the window. */
shoal_status shoal_stream_reap(shoal_flight *f, shoal_stream *s, bool *moved);
shoal_status shoal_stream_post(shoal_flight *f, shoal_stream *s, bool *moved);
void shoal_stream_give_up(shoal_flight *f, shoal_stream *s);

/* A set of streams that complete together: the body of every blocking collective.  A few hundred are under way at once, from the first
 * that is not finished on, so that progress costs the same however many there are.  So members must list what they send each other
 * in one order: the n-th of each of them by distance, say. */
typedef struct {
  shoal_flight f;
  shoal_stream *streams; /* borrowed */
  size_t n, first;
} shoal_streams;
extern const shoal_flight_ops shoal_streams_ops;
static inline shoal_stream shoal_stream_out(const void *data, size_t bytes, int to)
{
  return (shoal_stream){ .peer = to, .sending = true, .data = (char *)data, .bytes = bytes };
}
static inline shoal_stream shoal_stream_in(void *data, size_t bytes, int from)
{
  return (shoal_stream){ .peer = from, .data = data, .bytes = bytes };
}
/** Run the streams to completion.  `name` is for hang reports; `control` counts the bytes as class control. */
shoal_status shoal_streams_run(shoal_group *g, const char *name, uint64_t number, int tag, bool control,
                               shoal_stream *streams, size_t n);
/* How a long broadcast goes through the nodes: collect.c. */
typedef struct {
  size_t piece;
  int fan_out, hops; /* how many nodes each passes it on to; from the root's to the last one */
  size_t turns;      /* pieces that one link carries one after the other until the last node has all */
} shoal_broadcast;
/** false: it is short, and goes through all ranks as a binomial tree. */
bool shoal_broadcast_shape(const shoal_group *g, size_t bytes, shoal_broadcast *out);
/* A member's part in it. */
typedef struct {
  int parent; /* -1: root */
  int n, children[32];
  size_t piece;
} shoal_broadcast_part;
shoal_broadcast_part shoal_broadcast_plan(const shoal_group *g, size_t bytes, int root);
/** Gives this rank's block to all, and calls `take` with that of every member in rank order.  The blocks should be alike, since only
 *  what differs from member 0's is sent, and kept.  @param bytes  equal on all members, less than 64 KiB */
typedef void (*shoal_take)(void *context, int rank, const void *block);
shoal_status shoal_group_allgather_alike(shoal_group *g, const void *mine, size_t bytes, shoal_take take,
                                         void *context);
/** shoal_group_allgather for set-up data: counted as class control in any group. */
shoal_status shoal_group_allgather_control(shoal_group *g, const void *mine, size_t bytes, void *all);

/* --------------------------------------------------------------------------------------------- agreement: vote.c */

/* Max-reduction of one integer by dissemination: in round k a rank sends the largest value seen so far to rank +
 * 2^k. */
enum { SHOAL_AGREEMENT_ROUNDS = 31 };
typedef struct {
  shoal_flight f;
  int rounds, round; /* rounds received and merged so far */
  int64_t value;
  int64_t out[SHOAL_AGREEMENT_ROUNDS], in[SHOAL_AGREEMENT_ROUNDS];
  int out_slot[SHOAL_AGREEMENT_ROUNDS], in_slot[SHOAL_AGREEMENT_ROUNDS]; /* -1: not posted, or released */
} shoal_agreement;
void shoal_agreement_init(shoal_agreement *a, shoal_group *g, const char *name);
shoal_status shoal_agreement_start(shoal_agreement *a, uint64_t number, int tag, int64_t value);

/* ------------------------------------------------------------------------------------------------- groups: group.c */

struct shoal_group {
  shoal_world *w;
  char *name;
  int rank, size;
  bool everyone;          /* all ranks in their order: its list, table and verdicts are the world's */
  const int *world_ranks; /* [size] */
  shoal_node_table nodes;
  bool control;       /* count as class control, whatever the link */
  shoal_trace *trace; /* the recorder that knows the group, as trace_id; NULL: none yet */
  uint32_t trace_id;
  shoal_channel *channel; /* NULL for a group of one */
  uint64_t calls;         /* collectives so far */
  uint64_t plans, starts; /* exchanges and votes planned, exchanges started so far */
  shoal_agreement agreement;
  shoal_self_message *self_messages; /* queued messages to this rank itself */
};

/** Creates a group; `ranks` are world ranks.  The transport creates the channel. */
shoal_status shoal_group_make(shoal_world *w, const char *name, const int *ranks, int n, bool control,
                              shoal_group **out);
/** Finds the nodes: when the group is made, and again once the topology is known.  ERR_MEM. */
shoal_status shoal_node_table_fill(shoal_group *g);
void shoal_node_table_free(shoal_node_table *t);
/** What the groups of a world have in common: at its end, after them. */
void shoal_groups_free(shoal_world *w);
/** Number and tag of the group's next collective. */
int shoal_group_next_call(shoal_group *g, uint64_t *number);
/** Tag of start `number` of plan `plan`. */
int shoal_group_plan_tag(const shoal_group *g, uint64_t plan, uint64_t number);
shoal_link shoal_group_class(const shoal_group *g,
                             int rank); /* class it counts as: CONTROL in a control group, else the link */
/** Frees abandoned messages that the library is done with; at the end, when there is no library any more, all. */
void shoal_messages_sweep(shoal_world *w, bool all);
/** Returns the own code, or ERR_PEER if only others failed; prints nothing.  For failures that the caller handles
 *  itself. */
shoal_status shoal_group_agree_quietly(shoal_group *g, shoal_status mine);
uint64_t shoal_wire_model(shoal_link link, uint64_t bytes);
#endif
