/* One interaction while both sides compute: a state machine over four messages, advanced on every progress call.
 *
 *     PARCELS   own parcel out, theirs in        (V3: one of the two)
 *     CHECKING  lists of bad blocks, each way                     skipped if unquantised
 *     AGAIN     those blocks unquantised, each way                skipped if none is bad
 *     DONE      distances updated, c averaged (V3: `theirs` waits for the end of the step)
 *
 * Tags carry the session of the pair (pairs.c), so that messages of an abandoned interaction are not mistaken for those
 * of a later one: they stay unread in the library.  Within a session a pair has one interaction at a time in each
 * direction, all its messages are received, and messages do not overtake each other. */
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

static void drop_messages(shoal_swarm_talk *t)
{
  shoal_message_destroy(t->out);
  shoal_message_destroy(t->in);
  shoal_message_destroy(t->bad_out);
  shoal_message_destroy(t->bad_in);
  t->out = t->in = t->bad_out = t->bad_in = NULL;
}

shoal_status shoal_swarm_talk_init(shoal_swarm *s, shoal_swarm_talk *t)
{
  *t = (shoal_swarm_talk){ 0 };
  SHOAL_TRY(shoal_swarm_deal_init(s, &t->deal));
  SHOAL_TRY(SHOAL_ALLOC(s->marks, &t->their_bad));
  return make_messages(s, t);
}

void shoal_swarm_talk_fini(shoal_swarm_talk *t)
{
  drop_messages(t);
  shoal_swarm_deal_fini(&t->deal);
  free(t->their_bad);
}

shoal_status shoal_swarm_talk_abandon(shoal_swarm *s, shoal_swarm_talk *t)
{
  bool clean = t->stage < SHOAL_TALK_PARCELS || t->stage == SHOAL_TALK_DONE;
  t->stage = SHOAL_TALK_NONE;
  if (clean) return SHOAL_OK;
  drop_messages(t);
  return make_messages(s, t);
}

static bool arrived(const shoal_swarm_talk *t)
{
  return shoal_message_done(t->out) && shoal_message_done(t->in) && shoal_message_done(t->bad_out) &&
         shoal_message_done(t->bad_in);
}

static shoal_status send_parcels(shoal_swarm *s, shoal_swarm_talk *t, size_t bytes, int base)
{
  if (t->takes) SHOAL_TRY(shoal_message_recv(t->in, s->inbox, bytes, t->peer, tag(base, t)));
  return t->gives ? shoal_message_send(t->out, s->outbox, bytes, t->peer, tag(base, t)) : SHOAL_OK;
}

shoal_status shoal_swarm_talk_start(shoal_swarm *s, shoal_swarm_talk *t, const float *from)
{
  t->stage = SHOAL_TALK_PARCELS;
  t->t0_ns = t->moving_ns = shoal_now_ns();
  shoal_swarm_deal_begin(s, &t->deal, t->distance);
  if (t->gives) {
    shoal_swarm_pack(s, &t->deal, from);
    shoal_swarm_count_parcel(s, &t->deal, t->peer);
  }
  return send_parcels(s, t, t->deal.bytes, TAG_PARCEL);
}

static void finish(shoal_swarm *s, shoal_swarm_talk *t)
{
  t->stage = SHOAL_TALK_DONE;
  if (t->takes) shoal_swarm_deal_end(s, &t->deal);
}

static shoal_status check(shoal_swarm *s, shoal_swarm_talk *t)
{
  if (t->takes) shoal_swarm_unpack(s, &t->deal);
  if (!t->deal.quantised) {
    finish(s, t);
    return SHOAL_OK;
  }
  t->stage = SHOAL_TALK_CHECKING;
  if (t->gives) SHOAL_TRY(shoal_message_recv(t->bad_in, t->their_bad, s->marks, t->peer, tag(TAG_BAD, t)));
  return t->takes ? shoal_message_send(t->bad_out, t->deal.bad, s->marks, t->peer, tag(TAG_BAD, t)) : SHOAL_OK;
}

static shoal_status resend(shoal_swarm *s, shoal_swarm_talk *t, const float *from)
{
  shoal_swarm_merge(s, &t->deal, t->gives ? t->their_bad : NULL);
  if (t->deal.resend == 0) {
    finish(s, t);
    return SHOAL_OK;
  }
  t->stage = SHOAL_TALK_AGAIN;
  if (t->gives) {
    shoal_swarm_pack_again(s, &t->deal, from);
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
      if (t->takes) shoal_swarm_unpack_again(s, &t->deal);
      finish(s, t);
    }
  }
  return SHOAL_OK;
}
