/* Asynchronous interactions: requests are sent and answered between the primitives of a rank's compute.
 *
 *     lower rank of the pair                       higher rank
 *                  <------------------ invite --    only if the higher one initiates
 *     lock segment 0
 *     request 0    ----------------------------->   decode, average c, at once (segment.c)
 *     lock 1, request 1 ------------------------>
 *                  <---------------- reply 0 ----
 *     average, unlock 0, lock 2, request 2 ----->   ...
 *
 * A hook after every progress call (the backend polls between primitives) reads and answers.  It changes only c: x and b belong
 * to the training step; what is due in a segment (a fold, or V3's average) is done at its end.  So no rank waits for another's
 * compute, and a slow rank is read in its last state.  Several interactions are under way at once, with partners behind different
 * links; the segments of one are exchanged independently, several at a time.  Interactions share the lanes evenly, or requests to the
 * busiest link would fill them all.
 *
 * Deadlock freedom: a request waits at the partner while that segment is locked there, or all of the partner's receives are in use
 * by requests that wait.  Only the lower rank of a pair locks, so a rank waits only for higher ones, and the highest for nobody.
 * Replies have receives of their own and never wait.  In V3 nothing is locked, and the initiator sends.
 *
 * Memory: all messages are received from any rank, with a fixed number of receives.  A partner that falls silent may have begun to
 * fill some of them, so a lost one is made up for by as many again as it can hold, until it is back.
 *
 * Lost partners: what this rank waits for from one that stays silent is given up: segments are unlocked and interactions end.  There
 * are no sessions: a reply names interaction and segment and is dropped if nobody waits for it; a request of an interaction that its
 * initiator has given up is answered as unknown, which ends it on the other side; one who waits for requests is told that none
 * will come (LEFT), and asks the sender from time to time whether it still knows the interaction (PING, PONG).  Messages from before the last meeting are ignored.
 *
 * V1 sends and answers only at the end of a step, because its c is x, and waits there until its interactions are over. */
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "method/swarm/swarm.h"
#include <stdlib.h>
#include <string.h>

enum { TAG_REQUEST = 128, TAG_REPLY = 129, TAG_INVITE = 130, TAG_NOTE = 131 };
enum {
  LANES = 24,    /* requests under way */
  OF_ONE = 4,    /* of one interaction, if there are many */
  ANSWERS = 16,  /* replies under way */
  REQUESTS = 28, /* receives: more than one partner has under way */
  INVITES = 4,
  NOTES = 4, /* receives of notes, and notes under way */
  OWN = 4,   /* interactions that a rank has begun */
  GUESTS = 8 /* those that it was invited to */
};
enum { INVITE, PING, PONG, LEFT };

typedef struct {
  uint64_t number; /* of an interaction; */
  uint32_t era;
  uint16_t kind;
  bool own;  /* the sender of the note has initiated it */
  bool open; /* PONG: it is under way at the sender */
} note;

/* An interaction, on either side. */
typedef struct {
  int peer;
  uint64_t number;
  bool initiator;            /* this rank is */
  bool sends;                /* this rank sends the requests */
  bool uninvited;            /* the initiator must still invite the sender */
  bool unknown;              /* the initiator has given it up: it does not count */
  size_t first, begun, left; /* segments: the first one, begun so far, not over yet */
  uint64_t bytes;            /* sent */
  uint64_t t0_ns, step;      /* its beginning: time, and local steps */
  uint64_t moved_ns;         /* when a segment was over last, or the sender was asked about it */
} talk;

/* A request under way: it keeps its segment locked. */
typedef struct {
  shoal_post_out out;
  shoal_swarm_deal deal;
  bool busy;
  uint16_t again; /* blocks to be sent again */
  int peer;
} lane;

struct shoal_swarm_pairs {
  shoal_swarm *s;
  talk *talks;
  size_t n, room;
  lane lanes[LANES];
  shoal_post_out answers[ANSWERS], saying[NOTES];
  shoal_swarm_deal answering;
  shoal_post_box requests, replies, invites, notes;
  bool *locked;                   /* [segments] */
  uint64_t *heard_ns, *pinged_ns; /* [size] */
  uint64_t read_ns;               /* when this rank last looked for messages */
  bool *gone;                     /* [size] dropped */
  size_t lost;                    /* how many are */
  uint32_t era;                   /* meetings so far */
  uint64_t steps;
  bool blocking, pull;
  bool occupied,
      due;           /* a vector is being changed, or messages answered, here: what comes meanwhile is due afterwards */
  bool resting;      /* between two steps: V1 may exchange */
  bool meeting;      /* waiting for a meeting, or in one */
  bool closed;       /* all ranks have gathered: c does not change */
  uint64_t answered; /* V1: interactions of others begun since the step ended */
  bool changed;      /* x was modified */
  shoal_error failed; /* error of the hook */
};

/* ---------------------------------------------------------------------------------------------------- interactions */

static talk *find(shoal_swarm_pairs *p, int peer, uint64_t number, bool initiator)
{
  for (size_t i = 0; i < p->n; i++) {
    talk *t = &p->talks[i];
    if (t->peer == peer && t->number == number && t->initiator == initiator) return t;
  }
  return NULL;
}

static size_t count_own(const shoal_swarm_pairs *p)
{
  size_t n = 0;
  for (size_t i = 0; i < p->n; i++) n += p->talks[i].initiator;
  return n;
}

static size_t count_guests(const shoal_swarm_pairs *p)
{
  size_t n = 0;
  for (size_t i = 0; i < p->n; i++) n += p->talks[i].sends && !p->talks[i].initiator;
  return n;
}

/* The new one is the last.  Partners begin where others probably do not, so that they seldom want the same segment at once. */
static shoal_status add_talk(shoal_swarm_pairs *p, int peer, uint64_t number, bool initiator, bool sends, talk **out)
{
  if (p->n == p->room) {
    size_t room = p->room * 2 + 4;
    talk *more = realloc(p->talks, room * sizeof *more);
    SHOAL_CHECK(more, SHOAL_ERR_MEM, "out of memory: %zu interactions", room);
    p->talks = more;
    p->room = room;
  }
  size_t segments = p->s->segments;
  uint64_t now = shoal_now_ns();
  p->talks[p->n] =
      (talk){ .peer = peer,
              .number = number,
              .initiator = initiator,
              .sends = sends,
              .first = (size_t)(shoal_rng_seed(number, (uint64_t)(initiator ? p->s->rank : peer)) % segments),
              .left = segments,
              .t0_ns = now,
              .moved_ns = now,
              .step = p->steps };
  if (!initiator) p->answered++;
  *out = &p->talks[p->n++];
  return SHOAL_OK;
}

static void remove_talk(shoal_swarm_pairs *p, talk *t)
{
  *t = p->talks[--p->n];
}

static void conclude(shoal_swarm_pairs *p, talk *t)
{
  shoal_swarm *s = p->s;
  if (!t->unknown) {
    shoal_swarm_record(s, t->bytes, t->peer, t->initiator, t->number, t->t0_ns, 0);
    s->met += t->initiator;
    s->served += !t->initiator;
  }
  remove_talk(p, t);
}

static void segment_over(shoal_swarm_pairs *p, talk *t, size_t segment)
{
  shoal_swarm_variant v = p->s->rules.variant;
  p->s->due[segment] |= shoal_swarm_folds(v, t->initiator);
  p->changed |= p->blocking;
  t->moved_ns = shoal_now_ns();
  if (--t->left == 0) conclude(p, t);
}

/* V1: others keep this rank from its next step for a bounded time, unless it waits itself. */
static bool may_join(const shoal_swarm_pairs *p)
{
  if (!p->blocking) return true;
  uint64_t degree = (uint64_t)shoal_graph_degree(p->s->graph, p->s->rank);
  return p->resting && (p->meeting || count_own(p) > 0 || p->answered < degree);
}

/* ---------------------------------------------------------------------------------------------------------- notes */

static shoal_post_out *free_one(shoal_post_out *of, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (shoal_post_free(&of[i])) return &of[i];
  return NULL;
}

/* *said, which may be NULL: there was room. */
static shoal_status say(shoal_swarm_pairs *p, int to, uint16_t kind, const talk *t, bool open, bool *said)
{
  shoal_post_out *o = free_one(p->saying, NOTES);
  if (said) *said = o != NULL;
  if (!o) return SHOAL_OK;
  *(note *)o->memory.at = (note){
    .number = t ? t->number : UINT64_MAX, .era = p->era, .kind = kind, .own = t && t->initiator, .open = open
  };
  return shoal_post_send(o, sizeof(note), to, kind == INVITE ? TAG_INVITE : TAG_NOTE);
}

/* Ends the interactions in which this rank waits for requests of a rank that will send none. */
static void end_waiting(shoal_swarm_pairs *p, int rank)
{
  for (size_t i = p->n; i-- > 0;)
    if (p->talks[i].peer == rank && !p->talks[i].sends) remove_talk(p, &p->talks[i]);
}

static shoal_status hear_note(shoal_swarm_pairs *p, int from, const note *got, bool *taken)
{
  talk *t = find(p, from, got->number, !got->own);
  *taken = true;
  if (got->kind == LEFT) end_waiting(p, from);
  if (got->kind != PONG) {
    talk asked = { .number = got->number, .initiator = !got->own };
    return say(p, from, PONG, &asked, t != NULL, taken);
  }
  if (t && !t->sends && !got->open) remove_talk(p, t);
  return SHOAL_OK;
}

static shoal_status hear_invite(shoal_swarm_pairs *p, int from, const note *got, bool *taken)
{
  talk *t;
  *taken = got->era < p->era || p->gone[from]; /* it is told that this rank has given it up */
  if (*taken || got->era != p->era || p->closed || count_guests(p) >= GUESTS || !may_join(p)) return SHOAL_OK;
  *taken = true;
  return add_talk(p, from, got->number, false, true, &t);
}

/* ------------------------------------------------------------------------------------------------------- requests */

static void count(shoal_swarm_pairs *p, const shoal_swarm_head *h, size_t bytes, int to, talk *t)
{
  if (h->flags & SHOAL_SWARM_AGAIN)
    shoal_swarm_count_again(p->s, bytes, to);
  else if (h->flags & (SHOAL_SWARM_QUANTISED | SHOAL_SWARM_EXACT))
    shoal_swarm_count_parcel(p->s, bytes, h->flags & SHOAL_SWARM_QUANTISED, to);
  else
    p->s->sent[shoal_group_link(p->s->all, to)] += bytes;
  if (t) t->bytes += bytes;
}

static shoal_status request(shoal_swarm_pairs *p, lane *l, talk *t)
{
  shoal_swarm_head *h = l->out.memory.at;
  SHOAL_TRY(shoal_swarm_ask(p->s, &l->deal, l->again, h));
  l->again = 0;
  size_t bytes = shoal_swarm_message_bytes(p->s, h);
  count(p, h, bytes, l->peer, t);
  return shoal_post_send(&l->out, bytes, l->peer, TAG_REQUEST);
}

/* How many requests of one interaction may be under way. */
static size_t share_of_lanes(const shoal_swarm_pairs *p)
{
  size_t senders = 0;
  for (size_t i = 0; i < p->n; i++) senders += p->talks[i].sends;
  return SHOAL_MAX(LANES / SHOAL_MAX(senders, (size_t)1), (size_t)OF_ONE);
}

static shoal_status begin_segment(shoal_swarm_pairs *p, talk *t, size_t share, bool *begun)
{
  shoal_swarm *s = p->s;
  size_t segment = (t->first + t->begun) % s->segments, over = s->segments - t->left;
  lane *l = p->lanes, *end = p->lanes + LANES;
  *begun = false;
  if (!t->sends || t->begun == s->segments || t->begun - over >= share) return SHOAL_OK;
  if (p->locked[segment] || (p->pull && s->due[segment])) return SHOAL_OK;
  if (p->blocking && !p->resting) return SHOAL_OK;
  while (l < end && (l->busy || !shoal_post_free(&l->out))) l++;
  if (l == end) return SHOAL_OK;
  *begun = l->busy = true;
  p->locked[segment] = true;
  l->peer = t->peer;
  l->again = 0;
  t->begun++;
  *(shoal_swarm_head *)l->out.memory.at = (shoal_swarm_head){
    .number = t->number, .era = p->era, .segment = (uint32_t)segment, .flags = t->initiator ? SHOAL_SWARM_INITIATOR : 0
  };
  shoal_swarm_deal_segment(s, &l->deal, segment);
  return request(p, l, t);
}

static talk *talk_of(shoal_swarm_pairs *p, const lane *l)
{
  const shoal_swarm_head *h = l->out.memory.at;
  return find(p, l->peer, h->number, h->flags & SHOAL_SWARM_INITIATOR);
}

/* Sends what can be sent: a segment of each interaction in turn. */
static shoal_status send_requests(shoal_swarm_pairs *p)
{
  for (lane *l = p->lanes; l < p->lanes + LANES; l++)
    if (l->busy && l->again && shoal_post_free(&l->out)) SHOAL_TRY(request(p, l, talk_of(p, l)));
  size_t share = share_of_lanes(p);
  for (bool any = true; any;) {
    any = false;
    for (size_t i = 0; i < p->n; i++) {
      bool begun;
      SHOAL_TRY(begin_segment(p, &p->talks[i], share, &begun));
      any |= begun;
    }
  }
  for (size_t i = 0; i < p->n; i++) {
    talk *t = &p->talks[i];
    bool said = false;
    if (t->uninvited) SHOAL_TRY(say(p, t->peer, INVITE, t, true, &said));
    t->uninvited &= !said;
  }
  return SHOAL_OK;
}

static void unlock(shoal_swarm_pairs *p, lane *l)
{
  const shoal_swarm_head *h = l->out.memory.at;
  p->locked[h->segment] = l->busy = false;
}

static shoal_status hear_reply(shoal_swarm_pairs *p, int from, const shoal_swarm_head *got)
{
  const uint32_t same = SHOAL_SWARM_INITIATOR;
  for (lane *l = p->lanes; l < p->lanes + LANES; l++) {
    const shoal_swarm_head *asked = l->out.memory.at;
    if (!l->busy || l->peer != from || asked->number != got->number || asked->segment != got->segment ||
        asked->era != got->era || (asked->flags ^ got->flags) & same)
      continue;
    talk *t = talk_of(p, l);
    if (got->flags & SHOAL_SWARM_UNKNOWN) {
      t->unknown = true; /* nothing more is begun */
      t->left -= p->s->segments - t->begun;
      t->begun = p->s->segments;
    } else {
      SHOAL_TRY(shoal_swarm_finish(p->s, &l->deal, asked, got, &l->again));
      if (l->again) return SHOAL_OK;
      if (p->pull) p->s->due[got->segment] = !l->deal.refused && !(got->flags & SHOAL_SWARM_REFUSED);
    }
    unlock(p, l);
    segment_over(p, t, got->segment);
    return SHOAL_OK;
  }
  return SHOAL_OK; /* to what was given up */
}

/* Whether a request that is one of this era can be answered now. */
static bool may_answer(const shoal_swarm_pairs *p, const shoal_swarm_head *got, bool known)
{
  if (p->closed || (p->blocking && !p->resting)) return false;
  return (p->pull || !p->locked[got->segment]) && (known || may_join(p));
}

static shoal_status hear_request(shoal_swarm_pairs *p, int from, const shoal_swarm_head *got, bool *taken)
{
  shoal_swarm *s = p->s;
  bool initiator = !(got->flags & SHOAL_SWARM_INITIATOR), again = got->flags & SHOAL_SWARM_AGAIN;
  talk *t = find(p, from, got->number, initiator);
  shoal_post_out *o = free_one(p->answers, ANSWERS);
  *taken = got->era < p->era;
  if (got->era != p->era || !o || !may_answer(p, got, t || initiator)) return SHOAL_OK;
  *taken = true;
  shoal_swarm_head *reply = o->memory.at;
  if (!t && !initiator && !again) SHOAL_TRY(add_talk(p, from, got->number, false, false, &t));
  if (t || !initiator) {
    SHOAL_TRY(shoal_swarm_answer(s, &p->answering, got, reply));
  } else {
    *reply = *got;
    reply->flags = SHOAL_SWARM_UNKNOWN;
  }
  size_t bytes = shoal_swarm_message_bytes(s, reply);
  count(p, reply, bytes, from, t);
  SHOAL_TRY(shoal_post_send(o, bytes, from, TAG_REPLY));
  if (t && (p->pull ? !again : !reply->unread)) segment_over(p, t, got->segment);
  return SHOAL_OK;
}

/* ------------------------------------------------------------------------------------------------------- receiving */

static void count_receives(shoal_swarm_pairs *p)
{
  p->requests.wanted = REQUESTS + p->lost * LANES;
  p->replies.wanted = LANES + p->lost * LANES;
}

static void take_back(shoal_swarm_pairs *p, int rank)
{
  if (!p->gone[rank]) return;
  shoal_warn("rank %d is back: interactions with it continue", rank);
  p->gone[rank] = false;
  p->lost--;
  count_receives(p);
}

static shoal_status check_length(const shoal_swarm_pairs *p, const shoal_message *m, size_t expected)
{
  SHOAL_CHECK(
      shoal_message_received(m) == expected, SHOAL_ERR_COMM,
      "rank %d sent a message of %zu bytes about a model, where %zu were expected: do all ranks run the same program?",
      shoal_message_sender(m), shoal_message_received(m), expected);
  return SHOAL_OK;
}

static shoal_status read_one(shoal_swarm_pairs *p, const shoal_post_box *b, const shoal_post_in *in, bool *taken)
{
  int from = shoal_message_sender(in->message);
  bool letter = b == &p->requests || b == &p->replies;
  *taken = true;
  SHOAL_TRY(check_length(p, in->message, letter ? shoal_swarm_message_bytes(p->s, in->memory.at) : sizeof(note)));
  if (b == &p->replies) return hear_reply(p, from, in->memory.at);
  if (b == &p->requests) return hear_request(p, from, in->memory.at, taken);
  return b == &p->invites ? hear_invite(p, from, in->memory.at, taken) : hear_note(p, from, in->memory.at, taken);
}

/* Reads what has come, but for what has to wait. */
static shoal_status read_box(shoal_swarm_pairs *p, shoal_post_box *b)
{
  for (size_t k = 0; k < b->n;) {
    shoal_post_in *in = &b->at[k];
    bool taken = false;
    if (shoal_message_done(in->message)) {
      SHOAL_TRY(shoal_message_wait(in->message)); /* for its status */
      if (!in->seen) {
        p->heard_ns[shoal_message_sender(in->message)] = shoal_now_ns();
        take_back(p, shoal_message_sender(in->message));
      }
      in->seen = true;
      SHOAL_TRY(read_one(p, b, in, &taken));
    }
    size_t n = b->n;
    if (taken) SHOAL_TRY(shoal_box_next(p->s, b, k));
    k += b->n == n;
  }
  return SHOAL_OK;
}

static shoal_status answer(shoal_swarm_pairs *p)
{
  SHOAL_TRY(read_box(p, &p->notes));
  SHOAL_TRY(read_box(p, &p->replies));
  SHOAL_TRY(read_box(p, &p->invites));
  SHOAL_TRY(read_box(p, &p->requests));
  return send_requests(p);
}

/* The backend makes progress between pieces of its work, which calls the hook: not here. */
static shoal_status pump(shoal_swarm_pairs *p)
{
  shoal_status st = SHOAL_OK;
  p->due = true;
  if (p->occupied) return SHOAL_OK;
  p->occupied = true;
  while (st == SHOAL_OK && p->due) {
    p->due = false;
    st = answer(p);
  }
  p->occupied = false;
  return st;
}

static shoal_status failure(const shoal_swarm_pairs *p)
{
  return p->failed.code == SHOAL_OK ? SHOAL_OK : shoal_error_put(&p->failed);
}

/* Called after every progress call.  Its error is kept until the end of the step, because the backend ignores it. */
static shoal_status hook(void *context)
{
  shoal_swarm_pairs *p = context;
  if (p->failed.code == SHOAL_OK) shoal_error_keep(&p->failed, pump(p));
  return failure(p);
}

/* --------------------------------------------------------------------------------------------------- lost partners */

/* Ends what is under way with a rank. */
static shoal_status break_off(shoal_swarm_pairs *p, int rank)
{
  for (lane *l = p->lanes; l < p->lanes + LANES; l++) {
    if (l->peer != rank) continue;
    if (l->busy) unlock(p, l);
    SHOAL_TRY(shoal_post_abandon(p->s, &l->out));
  }
  for (size_t i = 0; i < ANSWERS; i++)
    if (p->answers[i].to == rank) SHOAL_TRY(shoal_post_abandon(p->s, &p->answers[i]));
  for (size_t i = p->n; i-- > 0;)
    if (p->talks[i].peer == rank) remove_talk(p, &p->talks[i]);
  return SHOAL_OK;
}

static shoal_status lose(shoal_swarm_pairs *p, int rank, double seconds)
{
  if (p->gone[rank]) return break_off(p, rank); /* what it had sent before was answered late */
  SHOAL_CHECK(!p->s->rules.stop_on_lost, SHOAL_ERR_COMM,
              "rank %d has not been heard of for %.3g s: the run ends (method.on_lost: stop)", rank, seconds);
  shoal_warn("rank %d has not been heard of for %.3g s: going on without it until it is back", rank, seconds);
  p->gone[rank] = true;
  p->lost++;
  count_receives(p);
  SHOAL_TRY(shoal_box_fill(p->s, &p->requests));
  SHOAL_TRY(shoal_box_fill(p->s, &p->replies));
  SHOAL_TRY(break_off(p, rank));
  SHOAL_TRY(say(p, rank, LEFT, NULL, true, NULL)); /* the answer tells that it is back */
  for (size_t i = 0; i < NOTES; i++)
    if (p->saying[i].to == rank) SHOAL_TRY(shoal_post_abandon(p->s, &p->saying[i]));
  return SHOAL_OK;
}

/* A rank that computes still answers a ping between two primitives, so only silence counts, not slowness: of the whole time, and
 * after this rank, which may itself have been suspended, has sent a ping and looked for its answer.  t: the interaction whose
 * requests this rank waits for, or NULL; its sender is asked about it also if it does send others. */
static shoal_status check(shoal_swarm_pairs *p, int rank, uint64_t t0_ns, talk *t)
{
  double whole = p->s->rules.drop_after_s, half = whole / 2;
  uint64_t since = SHOAL_MAX(p->heard_ns[rank], t0_ns);
  double silent = shoal_seconds_since(since);
  bool pinged = p->pinged_ns[rank] >= since, stuck = t && shoal_seconds_since(t->moved_ns) >= half, said;
  bool looked =
      (double)(p->read_ns - p->pinged_ns[rank]) * 1e-9 > half; /* this rank, too, may get no processor for long */
  if (pinged && p->read_ns > p->pinged_ns[rank] && looked && silent >= whole) return lose(p, rank, silent);
  if (!stuck && (pinged || silent < half)) return SHOAL_OK;
  SHOAL_TRY(say(p, rank, PING, t, true, &said));
  if (said && !pinged) p->pinged_ns[rank] = shoal_now_ns();
  if (said && t) t->moved_ns = shoal_now_ns();
  return SHOAL_OK;
}

static shoal_status check_silence(shoal_swarm_pairs *p)
{
  p->occupied = true;
  shoal_status st = SHOAL_OK;
  for (lane *l = p->lanes; st == SHOAL_OK && l < p->lanes + LANES; l++)
    if (l->busy) st = check(p, l->peer, l->out.t0_ns, NULL);
  for (size_t i = 0; st == SHOAL_OK && i < ANSWERS; i++)
    if (!shoal_post_free(&p->answers[i])) st = check(p, p->answers[i].to, p->answers[i].t0_ns, NULL);
  for (size_t i = p->n; st == SHOAL_OK && i-- > 0;) {
    talk *t = i < p->n ? &p->talks[i] : NULL;
    if (t && !t->sends && (t->initiator || p->blocking)) st = check(p, t->peer, t->t0_ns, t);
  }
  p->occupied = false;
  return st;
}

/* ------------------------------------------------------------------------------------------------ the end of a step */

static shoal_status look(shoal_swarm_pairs *p)
{
  uint64_t now = shoal_now_ns();
  SHOAL_TRY(shoal_world_progress(p->s->world));
  p->read_ns = now;
  return SHOAL_OK;
}

/* While x and c are changed, nobody is answered. */
static shoal_status apply(shoal_swarm_pairs *p)
{
  p->occupied = true;
  shoal_status st = shoal_swarm_apply_due(p->s, p->locked, &p->changed);
  p->occupied = false;
  return st;
}

static shoal_status publish(shoal_swarm_pairs *p)
{
  p->occupied = true;
  shoal_status st = shoal_swarm_publish(p->s);
  p->occupied = false;
  return st;
}

/* Starts an interaction if it is due and few others are under way. */
static shoal_status begin(shoal_swarm_pairs *p)
{
  shoal_swarm *s = p->s;
  const shoal_swarm_rules *r = &s->rules;
  uint64_t *begun = &s->begun[s->rank], *since = &s->since[s->rank];
  talk *t;
  if (count_own(p) >= OWN || *since < shoal_graph_steps(r->h, r->geometric, r->seed, s->rank, *begun)) return SHOAL_OK;
  int partner = shoal_graph_partner(s->graph, r->seed, s->rank, *begun, p->gone);
  if (partner < 0) return SHOAL_OK;
  bool sends = p->pull || s->rank < partner;
  SHOAL_TRY(add_talk(p, partner, *begun, true, sends, &t));
  t->uninvited = !sends;
  ++*begun;
  *since = 0;
  return SHOAL_OK;
}

/* What a rank waits for: that none of its own interactions is as old as `overlap` steps; that all of them are over; also those of
 * others with it. */
typedef enum { UNTIL_YOUNG, UNTIL_OWN_OVER, UNTIL_ALL_OVER } until;

static bool is_reached(const shoal_swarm_pairs *p, until u)
{
  for (size_t i = 0; i < p->n; i++) {
    const talk *t = &p->talks[i];
    bool old = p->steps - t->step >= p->s->rules.overlap;
    if (t->initiator && (u != UNTIL_YOUNG || old)) return false;
    if (u == UNTIL_ALL_OVER && (t->sends || p->blocking)) return false;
  }
  for (size_t g = 0; g < p->s->segments && u != UNTIL_YOUNG; g++)
    if (p->s->due[g]) return false;
  return true;
}

static shoal_status wait_until(shoal_swarm_pairs *p, until u)
{
  for (;;) {
    SHOAL_TRY(failure(p));
    SHOAL_TRY(apply(p));
    SHOAL_TRY(pump(p));
    if (is_reached(p, u)) return SHOAL_OK;
    SHOAL_TRY(check_silence(p));
    SHOAL_TRY(look(p));
  }
}

static shoal_status stay(shoal_swarm_pairs *p, until u)
{
  uint64_t t0 = shoal_now_ns();
  if (is_reached(p, u)) return SHOAL_OK;
  shoal_status st = wait_until(p, u);
  if (p->s->trace) shoal_trace_span(p->s->trace, SHOAL_TRACE_WAIT, p->s->op, t0, shoal_now_ns());
  return st;
}

shoal_status shoal_swarm_pairs_step(shoal_swarm_pairs *p, bool *changed)
{
  p->changed = false;
  p->resting = true;
  p->answered = 0;
  p->steps++;
  p->s->since[p->s->rank]++;
  SHOAL_TRY(publish(p));
  SHOAL_TRY(look(p));
  SHOAL_TRY(failure(p));
  SHOAL_TRY(apply(p));
  SHOAL_TRY(stay(p, UNTIL_YOUNG));
  SHOAL_TRY(begin(p));
  SHOAL_TRY(pump(p));
  if (p->blocking) SHOAL_TRY(stay(p, UNTIL_ALL_OVER));
  p->resting = false;
  *changed = p->changed;
  return check_silence(p);
}

/* ------------------------------------------------------------------------------------------------------- meetings */

static shoal_status wait_for_meeting(shoal_swarm_pairs *p, until u, bool *changed)
{
  p->changed = false;
  p->resting = p->meeting = true;
  shoal_status st = wait_until(p, u);
  *changed = p->changed;
  return st;
}

shoal_status shoal_swarm_pairs_arrive(shoal_swarm_pairs *p, bool *changed)
{
  return wait_for_meeting(p, UNTIL_OWN_OVER, changed);
}

shoal_status shoal_swarm_pairs_gathered(shoal_swarm_pairs *p, bool *changed)
{
  shoal_status st = wait_for_meeting(p, UNTIL_ALL_OVER, changed);
  p->closed = true;
  return st;
}

shoal_status shoal_swarm_pairs_leave(shoal_swarm_pairs *p)
{
  p->closed = p->meeting = p->resting = false;
  p->era++;
  p->n = 0;                                             /* nothing is under way but what was given up */
  for (int r = 0; r < p->s->size; r++) take_back(p, r); /* all of them took part in the meeting */
  return pump(p);
}

/* ------------------------------------------------------------------------------------------------ create, destroy */

static shoal_status open_messages(shoal_swarm_pairs *p)
{
  shoal_swarm *s = p->s;
  size_t most = shoal_swarm_message_most(s);
  shoal_group *all = s->all, *control = s->control;
  for (size_t i = 0; i < LANES; i++) {
    SHOAL_TRY(shoal_swarm_deal_init(s, s->segment, &p->lanes[i].deal));
    SHOAL_TRY(shoal_post_open(s, all, "request of an interaction", most, &p->lanes[i].out));
  }
  SHOAL_TRY(shoal_swarm_deal_init(s, s->segment, &p->answering));
  for (size_t i = 0; i < ANSWERS; i++)
    SHOAL_TRY(shoal_post_open(s, all, "reply of an interaction", most, &p->answers[i]));
  for (size_t i = 0; i < NOTES; i++)
    SHOAL_TRY(shoal_post_open(s, control, "note of an interaction", sizeof(note), &p->saying[i]));
  p->requests = (shoal_post_box){ .group = all, .name = "requests", .tag = TAG_REQUEST, .bytes = most };
  p->replies = (shoal_post_box){ .group = all, .name = "replies", .tag = TAG_REPLY, .bytes = most };
  p->invites = (shoal_post_box){
    .group = control, .name = "invites", .tag = TAG_INVITE, .bytes = sizeof(note), .wanted = INVITES
  };
  p->notes =
      (shoal_post_box){ .group = control, .name = "notes", .tag = TAG_NOTE, .bytes = sizeof(note), .wanted = NOTES };
  count_receives(p);
  SHOAL_TRY(shoal_box_fill(s, &p->requests));
  SHOAL_TRY(shoal_box_fill(s, &p->replies));
  SHOAL_TRY(shoal_box_fill(s, &p->invites));
  return shoal_box_fill(s, &p->notes);
}

shoal_status shoal_swarm_pairs_create(shoal_swarm *s, shoal_swarm_pairs **out)
{
  shoal_status st;
  shoal_swarm_pairs *p;
  SHOAL_TRY(SHOAL_ALLOC(1, &p));
  p->s = s;
  p->blocking = s->rules.variant == SHOAL_SWARM_BLOCKING;
  p->pull = s->rules.variant == SHOAL_SWARM_PULL;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(s->segments, &p->locked), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)s->size, &p->heard_ns), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)s->size, &p->pinged_ns), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)s->size, &p->gone), fail);
  SHOAL_TRY_GOTO(st, open_messages(p), fail);
  shoal_world_set_hook(s->world, hook, p);
  *out = p;
  return SHOAL_OK;
fail:
  shoal_swarm_pairs_destroy(p);
  return st;
}

void shoal_swarm_pairs_destroy(shoal_swarm_pairs *p)
{
  if (!p) return;
  shoal_world_set_hook(p->s->world, NULL, NULL);
  for (size_t i = 0; i < LANES; i++) {
    shoal_post_close(p->s, &p->lanes[i].out);
    shoal_swarm_deal_fini(p->s, &p->lanes[i].deal);
  }
  shoal_swarm_deal_fini(p->s, &p->answering);
  for (size_t i = 0; i < ANSWERS; i++) shoal_post_close(p->s, &p->answers[i]);
  for (size_t i = 0; i < NOTES; i++) shoal_post_close(p->s, &p->saying[i]);
  shoal_box_close(p->s, &p->requests);
  shoal_box_close(p->s, &p->replies);
  shoal_box_close(p->s, &p->invites);
  shoal_box_close(p->s, &p->notes);
  free(p->talks);
  free(p->locked);
  free(p->heard_ns);
  free(p->pinged_ns);
  free(p->gone);
  free(p);
}
