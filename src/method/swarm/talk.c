/* One interaction while both sides compute: a state machine over four messages, advanced on every progress call.
 *
 *     PARCELS   own parcel out, theirs in        (V3: one of the two)
 *     CHECKING  lists of bad blocks, each way                     skipped if unquantised
 *     AGAIN     those blocks unquantised, each way                skipped if none is bad
 *     DONE      distances updated, c averaged (V3: `theirs` waits for the end of the step)
 *
 * Tags carry the session of the pair (pairs.c), so that messages of an abandoned interaction are not mistaken for those
 * of a later one: they are received and forgotten when the partner is heard again.  Within a session a pair has one
 * interaction at a time in each direction, all its messages are received, and messages do not overtake each other.
 *
 * A partner may be lost in mid-parcel, and MPI then still owns the memory: a send that nobody has read can be read at
 * any time after the partner's return, and a receive that has begun goes on being filled.  So an interaction that is
 * abandoned leaves its messages and their memory behind, and the next one gets new ones. */
#include "base/clock.h"
#include "base/mem.h"
#include "method/swarm/swarm.h"
#include <stdlib.h>

enum { TAG_PARCEL = 256, TAG_AGAIN = 512, TAG_BAD = 768, TAG_SESSIONS = 256 };

static int tag(int base, const shoal_swarm_talk *t)
{
  return base + t->session % TAG_SESSIONS;
}

static shoal_status make_messages(shoal_swarm *s, shoal_swarm_talk *t)
{
  SHOAL_TRY(shoal_message_create(s->all, "model of an interaction", &t->out));
  SHOAL_TRY(shoal_message_create(s->all, "model of an interaction", &t->in));
  SHOAL_TRY(shoal_message_create(s->control, "blocks not read", &t->bad_out));
  return shoal_message_create(s->control, "blocks not read", &t->bad_in);
}

shoal_status shoal_swarm_talk_init(shoal_swarm *s, shoal_swarm_talk *t)
{
  *t = (shoal_swarm_talk){ 0 };
  SHOAL_TRY(shoal_swarm_deal_init(s, &t->deal));
  SHOAL_TRY(s->backend->ops->alloc(s->backend, SHOAL_MEMORY_PINNED, s->marks, &t->their_bad));
  return make_messages(s, t);
}

typedef struct {
  shoal_message **message;
  shoal_memory *memory;
} under_way;

enum { MESSAGES = 4 };

/* The interaction's messages, and the memory that each sends from or receives to. */
static void list_messages(shoal_swarm *s, shoal_swarm_talk *t, under_way out[MESSAGES])
{
  out[0] = (under_way){ &t->out, &s->outbox };
  out[1] = (under_way){ &t->in, &s->inbox };
  out[2] = (under_way){ &t->bad_out, &t->deal.bad };
  out[3] = (under_way){ &t->bad_in, &t->their_bad };
}

/* Drops the messages, and leaves the memory of those under way to the library. */
static void drop_messages(shoal_swarm *s, shoal_swarm_talk *t)
{
  under_way list[MESSAGES];
  list_messages(s, t, list);
  for (int i = 0; i < MESSAGES; i++) {
    shoal_message *m = *list[i].message;
    *list[i].message = NULL;
    if (!m || shoal_message_done(m)) {
      shoal_message_destroy(m);
      continue;
    }
    shoal_message_abandon(m, s->backend, list[i].memory);
  }
}

void shoal_swarm_talk_fini(shoal_swarm *s, shoal_swarm_talk *t)
{
  drop_messages(s, t);
  shoal_swarm_deal_fini(s, &t->deal);
  s->backend->ops->release(s->backend, &t->their_bad);
}

shoal_status shoal_swarm_talk_abandon(shoal_swarm *s, shoal_swarm_talk *t)
{
  under_way list[MESSAGES];
  bool clean = t->stage < SHOAL_TALK_PARCELS || t->stage == SHOAL_TALK_DONE;
  t->stage = SHOAL_TALK_NONE;
  if (clean) return SHOAL_OK;
  list_messages(s, t, list);
  size_t bytes[MESSAGES];
  for (int i = 0; i < MESSAGES; i++) bytes[i] = list[i].memory->bytes;
  drop_messages(s, t);
  for (int i = 0; i < MESSAGES; i++)
    if (!list[i].memory->at)
      SHOAL_TRY(s->backend->ops->alloc(s->backend, SHOAL_MEMORY_PINNED, bytes[i], list[i].memory));
  return make_messages(s, t);
}

static bool is_stale(const void *session, int tag)
{
  return tag >= TAG_PARCEL && tag < TAG_BAD + TAG_SESSIONS &&
         tag % TAG_SESSIONS != *(const uint16_t *)session % TAG_SESSIONS;
}

shoal_status shoal_swarm_talk_clear(shoal_swarm *s, int peer, uint16_t session)
{
  SHOAL_TRY(shoal_message_discard(s->all, peer, is_stale, &session));
  return shoal_message_discard(s->control, peer, is_stale, &session);
}

static bool arrived(const shoal_swarm_talk *t)
{
  return shoal_message_done(t->out) && shoal_message_done(t->in) && shoal_message_done(t->bad_out) &&
         shoal_message_done(t->bad_in);
}

static shoal_status send_parcels(shoal_swarm *s, shoal_swarm_talk *t, size_t bytes, int base)
{
  if (t->takes) SHOAL_TRY(shoal_message_recv(t->in, s->inbox.at, bytes, t->peer, tag(base, t)));
  return t->gives ? shoal_message_send(t->out, s->outbox.at, bytes, t->peer, tag(base, t)) : SHOAL_OK;
}

shoal_status shoal_swarm_talk_start(shoal_swarm *s, shoal_swarm_talk *t, const float *from)
{
  t->stage = SHOAL_TALK_PARCELS;
  t->t0_ns = t->moving_ns = shoal_now_ns();
  shoal_swarm_deal_begin(s, &t->deal, t->distance);
  if (t->gives) {
    SHOAL_TRY(shoal_swarm_pack(s, &t->deal, from));
    shoal_swarm_count_parcel(s, &t->deal, t->peer);
  }
  return send_parcels(s, t, t->deal.bytes, TAG_PARCEL);
}

static shoal_status finish(shoal_swarm *s, shoal_swarm_talk *t)
{
  t->stage = SHOAL_TALK_DONE;
  return t->takes ? shoal_swarm_deal_end(s, &t->deal) : SHOAL_OK;
}

static shoal_status check(shoal_swarm *s, shoal_swarm_talk *t)
{
  if (t->takes) SHOAL_TRY(shoal_swarm_unpack(s, &t->deal));
  if (!t->deal.quantised) return finish(s, t);
  t->stage = SHOAL_TALK_CHECKING;
  if (t->gives) SHOAL_TRY(shoal_message_recv(t->bad_in, t->their_bad.at, s->marks, t->peer, tag(TAG_BAD, t)));
  return t->takes ? shoal_message_send(t->bad_out, t->deal.bad.at, s->marks, t->peer, tag(TAG_BAD, t)) : SHOAL_OK;
}

static shoal_status resend(shoal_swarm *s, shoal_swarm_talk *t, const float *from)
{
  shoal_swarm_merge(s, &t->deal, t->gives ? t->their_bad.at : NULL);
  if (t->deal.resend == 0) return finish(s, t);
  t->stage = SHOAL_TALK_AGAIN;
  if (t->gives) {
    SHOAL_TRY(shoal_swarm_pack_again(s, &t->deal, from));
    shoal_swarm_count_again(s, &t->deal, t->peer);
  }
  return send_parcels(s, t, t->deal.resend, TAG_AGAIN);
}

shoal_status shoal_swarm_talk_advance(shoal_swarm *s, shoal_swarm_talk *t, const float *from)
{
  while (t->stage >= SHOAL_TALK_PARCELS && t->stage < SHOAL_TALK_DONE && arrived(t)) {
    t->t0_ns = shoal_now_ns();
    if (t->stage == SHOAL_TALK_PARCELS) {
      SHOAL_TRY(check(s, t));
    } else if (t->stage == SHOAL_TALK_CHECKING) {
      SHOAL_TRY(resend(s, t, from));
    } else {
      if (t->takes) SHOAL_TRY(shoal_swarm_unpack_again(s, &t->deal));
      SHOAL_TRY(finish(s, t));
    }
  }
  return SHOAL_OK;
}
