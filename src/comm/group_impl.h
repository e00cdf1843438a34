/* Inside comm/: what a transport offers, and how work in flight is kept moving.
 *
 *     sums   vote   message   collectives         state machines: "flights"
 *       \      |       |       /
 *        post, poll, look at slots                counting, tags: group.c and flight.c
 *       /                      \
 *     self                     mpi                transports: one table of functions each
 *
 * A transport needs to know very little: make a channel among some ranks, send and receive bytes without blocking, and
 * say what has arrived.  Everything else, collectives included, is built from that here.  So every byte is counted
 * where it is sent, summation orders are ours, self and MPI cannot differ, and a watcher can say whom we have not heard
 * from. The price is that MPI's tuned collectives are not used; what the step needs is the ring, and the rest is small.
 *
 * A send or receive in flight is a slot, a small number.  One poll asks the library about all of them together: each
 * library call that finds nothing may yield the core, and with more ranks than cores every yield costs a time slice.
 *
 * Tags tell apart what shares a channel.  The number of a start in its group is part of its tag, so a member that skips
 * one exchange is missed by the others instead of being matched with a later one:
 *
 *     0 .. 1023      messages of the user
 *     1024 .. 2047   collectives: call number of the group, modulo 1024
 *     4096 ..        exchanges and votes: 256 * plan number of the group + start number modulo 256
 *
 * The wire model: inside a node, and to itself, a message costs its payload; between nodes, 66 more bytes (Ethernet 14,
 * IPv4 20, TCP 20 and its time stamps 12) for every started 1448 bytes, the largest segment at an MTU of 1500.  Left
 * out are MPI's own headers, acknowledgements and connection set-up. */
#ifndef SHOAL_COMM_GROUP_IMPL_H
#define SHOAL_COMM_GROUP_IMPL_H
#include "base/str.h"
#include "comm/exchange.h"
#include "comm/group.h"
#include "slurm/claims.h"

typedef struct shoal_channel shoal_channel; /* a transport's own: who can talk, apart from all other channels */
typedef struct shoal_flight shoal_flight;

typedef enum { SHOAL_SLOT_PENDING, SHOAL_SLOT_DONE, SHOAL_SLOT_WRONG_SIZE } shoal_slot_state;

/* Ranks are ranks of the channel.  `bytes` is 1 .. max_message.  Blocks only where it says so. */
typedef struct {
  const char *name;
  /* Collective over the ranks listed, blocking; n >= 1, this process is among them. */
  shoal_status (*connect)(shoal_world *w, const int *world_ranks, int n, shoal_channel **out);
  void (*disconnect)(shoal_channel *c); /* NULL is fine */
  /* Make room for so many more slots at once, so that posting need not allocate; a negative number gives it back. */
  shoal_status (*reserve)(shoal_world *w, int more);
  shoal_status (*send)(shoal_channel *c, const void *data, size_t bytes, int to, int tag, int *slot);
  shoal_status (*recv)(shoal_channel *c, void *data, size_t bytes, int from, int tag, int *slot);
  /* As of the last poll.  WRONG_SIZE: a message of *got bytes came where another size was expected. */
  shoal_slot_state (*state)(const shoal_world *w, int slot, size_t *got);
  void (*release)(shoal_world *w, int slot); /* a pending one is given up: only when the run ends in an error */
  shoal_status (*poll)(shoal_world *w, size_t *completed);
  /* Is a message waiting that nobody has asked for yet?  For hang reports. */
  bool (*peek)(shoal_channel *c, int from, int *tag, size_t *bytes);
  void (*close)(shoal_world *w);
  void (*abort)(int exit_code);
} shoal_transport;

shoal_status shoal_self_open(shoal_world *w); /* set transport, transport_state, rank and size of `w` */
shoal_status shoal_mpi_open(shoal_world *w);

/* Messages to oneself, on any transport: kept as copies until they are taken. */
typedef struct shoal_letter shoal_letter;
shoal_status shoal_self_put(shoal_letter **box, const void *data, size_t bytes, int tag);
shoal_status shoal_self_take(shoal_letter **box, void *data, size_t bytes, int tag);
void shoal_self_empty(shoal_letter **box);

/* What the launcher's environment claims; see launch.c. */
typedef struct {
  const char *launcher; /* the variable that shows a launcher MPI can talk to, or NULL */
  bool mpirun;          /* it is an mpirun, which may itself run inside a Slurm step of its daemons */
  int size;             /* ranks the launcher claims, 0: unknown */
  int local_size;       /* of them on this node, 0: unknown */
  int step_tasks;       /* tasks of the Slurm step we are in, 0: none */
} shoal_launch;
void shoal_launch_read(const shoal_claims *c, shoal_launch *out);
/** Before MPI_Init: ERR_WORLD if the launcher speaks something this MPI would end the process for, with its own words
 *  and exit code. */
shoal_status shoal_launch_refuse(const shoal_launch *l);
shoal_status shoal_launch_check(const shoal_launch *l, int mpi_size, bool allow_singletons);

/** After MPI_Init and before the first message, where PMIx is built in and started us: a real barrier (pmix.c).  Adds
 *  what PMIx says to `c`.  ERR_WORLD if it has another size than MPI. */
shoal_status shoal_pmix_settle(int mpi_size, shoal_claims *c);

/* --------------------------------------------------------------------------------- memory shared in a node: share.c */

typedef struct {
  int rank;          /* in the world */
  int64_t pid, born; /* process number, and when it started: a later process with that number is another */
  char *base;
  size_t bytes;
} shoal_neighbour;
typedef struct shoal_region shoal_region;
/* One stretch of own memory, and where that of my neighbours is mapped. */
struct shoal_region {
  char *base;
  size_t bytes;
  bool plain;  /* ordinary memory that nobody else sees */
  uint64_t id; /* the same on all who share it */
  int n;
  shoal_neighbour *neighbours; /* [n] members of the group on my node, but me */
  shoal_region *next;
};
/** Once, when the topology is known: sets w->shares.  A reason why it does not work is a warning, not an error. */
shoal_status shoal_share_try(shoal_world *w, bool wanted);
void shoal_share_close(shoal_world *w);
/** Are the processes of this node's other ranks still there?  ERR_COMM names one that is not.  Knows only ranks that
 *  share memory with this one.  A file to read for each. */
shoal_status shoal_share_roll_call(const shoal_world *w);
/** The shared region that holds all of these bytes, or NULL. */
const shoal_region *shoal_region_of(const shoal_world *w, const void *memory, size_t bytes);
/** The same place in a neighbour's memory, `offset` bytes from its start; NULL if that rank does not share it. */
char *shoal_region_at(const shoal_world *w, uint64_t id, int rank, uint64_t offset);

struct shoal_world {
  const shoal_transport *transport;
  void *transport_state;
  int rank, size;
  shoal_world_options o; /* defaults filled in; pretend is not kept */
  shoal_topo *topo;      /* NULL until the facts are gathered */
  shoal_claims claims;   /* of this rank */
  shoal_group *all, *control;
  shoal_counters own_counters, *counters;
  shoal_trace *trace;
  uint64_t step;
  int plan_tags; /* how many plan numbers fit below the largest tag */
  shoal_world_hook hook;
  void *hook_context;
  bool in_hook;
  bool shares;             /* ranks of a node reach each other's memory: the same on all ranks */
  shoal_region *regions;   /* what is shared */
  void *roll;              /* memory that all ranks of a node share from the start to the end; or NULL */
  int watching;            /* flights under way that wait for memory to change, which no library tells */
  shoal_flight *in_flight; /* doubly linked, oldest first */
  shoal_flight *newest;
  shoal_error failure; /* of the first flight that failed, perhaps in a poll: for the wait that returns it */
  bool failure_known;  /* that error has come out: another one may take its place */
};

enum { SHOAL_TAG_COLLECTIVE = 1024, SHOAL_TAG_COLLECTIVES = 1024, SHOAL_TAG_PLAN = 4096, SHOAL_TAG_STARTS = 256 };

/* -------------------------------------------------------------------------------------------------- flights: flight.c
 */

typedef struct {
  /* Look at the slots, post what can be posted.  Sets *moved when anything changed and *done at the end. */
  shoal_status (*advance)(shoal_flight *f, bool *moved, bool *done);
  /* Where it stands, for a hang report: "step 2 of 6" into `where`; true into missing[rank] for every member whose part
   * has not come; returns the member we wait for directly, or -1. */
  int (*describe)(shoal_flight *f, shoal_str *where, bool *missing);
  void (*give_up)(shoal_flight *f); /* release pending slots after an error */
} shoal_flight_ops;

struct shoal_flight {
  const shoal_flight_ops *ops;
  shoal_group *g;
  const char *name; /* borrowed */
  uint64_t number;  /* which start this is, from 1 */
  int tag;
  bool control;        /* count as class control in any group: agreement */
  bool watches;        /* waits for memory to change, too: to be looked at in every poll */
  bool moving;         /* between start and done */
  shoal_status status; /* of the last one */
  uint64_t started_ns, moved_ns;
  shoal_flight *next, *previous;
};

/** Enter the world's list and advance once.  The caller has filled ops, g, name, number and tag. */
shoal_status shoal_flight_start(shoal_flight *f);
/** Block, moving everything, until this one is done. */
shoal_status shoal_flight_wait(shoal_flight *f);
shoal_status shoal_flight_result(const shoal_flight *f); /* of one that has ended: its status, with the error kept */
void shoal_flight_end(shoal_flight *f, shoal_status st); /* leave the list; gives up what is pending unless OK */
/** Has the slot finished?  A wrong size is an error that names the flight and the peer. */
shoal_status shoal_flight_look(shoal_flight *f, int slot, int peer, size_t expected, bool *finished);
/** Count bytes moved to or from member `peer`: messages when sent, shared memory by who moves it. */
void shoal_flight_count(shoal_flight *f, int peer, uint64_t bytes);
/** Send and receive on the group's channel; sends are counted. */
shoal_status shoal_flight_send(shoal_flight *f, const void *data, size_t bytes, int to, int *slot);
shoal_status shoal_flight_recv(shoal_flight *f, void *data, size_t bytes, int from, int *slot);

/* The watcher (watch.c): speaks up about a flight that blocks us. */
typedef struct {
  uint64_t since_ns, called_ns;
  bool warned;
} shoal_watch;
shoal_status shoal_watch_check(shoal_watch *watch, shoal_flight *f);

/* ---------------------------------------------------------------------------------- streams of bytes: stream.c */

/* A message of any length as a sequence of pieces in order, a few of them posted at a time. */
enum { SHOAL_STREAM_WINDOW = 4 };
typedef struct {
  int peer;
  bool sending;
  char *data;
  size_t bytes, posted, finished;
  const size_t *limit; /* a sender that passes on what another stream receives: only this much is there yet; or NULL */
  int slot[SHOAL_STREAM_WINDOW];
  int head, count;
} shoal_stream;

/** Take what has finished; post what there is room for. */
shoal_status shoal_stream_reap(shoal_flight *f, shoal_stream *s, bool *moved);
shoal_status shoal_stream_post(shoal_flight *f, shoal_stream *s, bool *moved);
void shoal_stream_give_up(shoal_flight *f, shoal_stream *s);

/* A set of streams that end together: the body of every blocking call. */
typedef struct {
  shoal_flight f;
  shoal_stream *streams; /* borrowed */
  size_t n;
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
/** Run the streams to their end.  `name` is what a hang report calls it; `control`: no payload, count it as such. */
shoal_status shoal_streams_run(shoal_group *g, const char *name, uint64_t number, int tag, bool control,
                               shoal_stream *streams, size_t n);
/** shoal_group_allgather of what belongs to setting something up: class control in any group. */
shoal_status shoal_group_tell(shoal_group *g, const void *mine, size_t bytes, void *all);

/* --------------------------------------------------------------------------------------------- agreement: vote.c */

/* The maximum of one number over a group by dissemination: in round k pass on the largest seen so far to rank + 2^k. */
enum { SHOAL_AGREEMENT_ROUNDS = 31 };
typedef struct {
  shoal_flight f;
  int rounds, round; /* `round` of them are received and merged */
  int64_t value;
  int64_t out[SHOAL_AGREEMENT_ROUNDS], in[SHOAL_AGREEMENT_ROUNDS];
  int out_slot[SHOAL_AGREEMENT_ROUNDS], in_slot[SHOAL_AGREEMENT_ROUNDS]; /* -1: not posted, or released */
} shoal_agreement;
void shoal_agreement_init(shoal_agreement *a, shoal_group *g, const char *name);
shoal_status shoal_agreement_start(shoal_agreement *a, uint64_t number, int tag, int64_t value);

/* ------------------------------------------------------------------------------------------------- groups: group.c */

/* What a rank says of its failure. */
typedef struct {
  int32_t code, verdict, told;
  uint32_t crc, length; /* of the text */
} shoal_verdict;

struct shoal_group {
  shoal_world *w;
  char *name;
  int rank, size;
  int *world_ranks;       /* [size] */
  shoal_link *links;      /* [size] from me to each */
  bool control;           /* count as class control, whatever the link */
  shoal_channel *channel; /* NULL for a group of one */
  uint64_t calls;         /* collectives so far */
  uint64_t plans, starts; /* exchanges and votes planned, exchanges started so far */
  shoal_agreement agreement;
  shoal_verdict *verdicts; /* [size] here from the start: telling others of an error must not need memory */
  shoal_letter *letters;   /* to myself */
};

/** `ranks` are world ranks; the channel is made by the transport. */
shoal_status shoal_group_make(shoal_world *w, const char *name, const int *ranks, int n, bool control,
                              shoal_group **out);
void shoal_group_learn_links(shoal_group *g); /* once the topology is known */
/** Tag and number of the group's next collective call. */
int shoal_group_next_call(shoal_group *g, uint64_t *number);
/** Tag of a start of plan `plan`. */
int shoal_group_plan_tag(const shoal_group *g, uint64_t plan, uint64_t number);
shoal_link shoal_group_class(const shoal_group *g,
                             int rank); /* counted as: CONTROL in a control group, else the link */
/** The largest of `value` on every member: agreement, barrier and size checks; class control. */
shoal_status shoal_group_agree_max(shoal_group *g, const char *name, int64_t *value);
/** Own code, or ERR_PEER when only others failed; nothing is printed.  For a failure that the caller turns into something
 *  else. */
shoal_status shoal_group_hear(shoal_group *g, shoal_status mine);
uint64_t shoal_wire_model(shoal_link link, uint64_t bytes);
#endif
