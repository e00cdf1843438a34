/* See meet.h: selects the policy; code shared by the two. */
#include "train/meet.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/session.h"
#include "train/stop.h"
#include <unistd.h>

shoal_status shoal_session_open_meeting(shoal_session *s)
{
  static const shoal_meeting *const ways[] = {
    [SHOAL_MEET_IN_ROUNDS] = &shoal_meeting_in_rounds, [SHOAL_MEET_FREELY] = &shoal_meeting_freely
  };
  s->meet.way = ways[s->run.meet.kind];
  return s->meet.way->open(s);
}

void shoal_session_close_meeting(shoal_session *s)
{
  shoal_rendezvous_destroy(s->meet.rendezvous);
  shoal_vote_destroy(s->meet.notice);
  shoal_vote_destroy(s->meet.promise);
  shoal_vote_destroy(s->meet.vote);
}

/* ---- votes ---- */

/* This rank's request.  Only rank 0 checks periods in time; any rank reports numbers that are not finite. */
static shoal_ask my_ask(const shoal_session *s)
{
  if (shoal_session_is_root(s) && shoal_lease_lost(s->world.folder.lease)) return SHOAL_ASK_LEAVE;
  if (s->numbers.found) return SHOAL_ASK_NUMERIC;
  if (shoal_stop_requested()) return SHOAL_ASK_STOP;
  shoal_period every = s->world.choice.save_every;
  if (every.unit == SHOAL_PER_SECONDS && shoal_session_is_root(s) &&
      shoal_seconds_since(s->clock.saved_ns) >= every.value)
    return SHOAL_ASK_SAVE;
  return SHOAL_ASK_NOTHING;
}

shoal_status shoal_session_open_vote(shoal_session *s)
{
  return shoal_vote_create(s->run.control, "step", &s->meet.vote);
}

shoal_status shoal_session_post_vote(shoal_session *s)
{
  s->meet.voted = true;
  s->meet.voted_ns = shoal_now_ns();
  return shoal_vote_post(s->meet.vote, my_ask(s));
}

shoal_status shoal_session_take_vote(shoal_session *s, int64_t *ask)
{
  if (!s->meet.voted) return SHOAL_OK;
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(shoal_vote_result(s->meet.vote, ask));
  shoal_session_record_agreement(s, s->record.op.agreement, s->run.control, ++s->meet.votes, s->meet.voted_ns, t0);
  s->meet.voted = false;
  return SHOAL_OK;
}

shoal_status shoal_session_take_promise(shoal_session *s, int64_t *step)
{
  if (!s->meet.promising) return SHOAL_OK;
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(shoal_vote_result(s->meet.promise, step));
  shoal_session_record_agreement(s, s->record.op.promise, s->run.control, ++s->meet.promises, s->meet.promised_ns, t0);
  s->meet.promising = false;
  return SHOAL_OK;
}

shoal_status shoal_session_take_notice(shoal_session *s, int64_t *heard)
{
  if (!s->meet.noticed) return SHOAL_OK;
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(shoal_vote_result(s->meet.notice, heard));
  shoal_session_record_agreement(s, s->record.op.notice, s->run.meet.together, ++s->meet.notices, s->meet.noticed_ns,
                                 t0);
  s->meet.noticed = false;
  return SHOAL_OK;
}

shoal_status shoal_session_take_all(shoal_session *s)
{
  int64_t ignored;
  SHOAL_TRY(shoal_session_take_notice(s, &ignored));
  SHOAL_TRY(shoal_session_take_promise(s, &ignored));
  return shoal_session_take_vote(s, &ignored);
}

/* ---- what was agreed on ---- */

shoal_status shoal_session_stop(shoal_session *s)
{
  SHOAL_TRY(shoal_session_take_all(s));
  s->ears.stops = true;
  SHOAL_TRY(shoal_session_save_last(s, true));
  if (s->clock.saved_any) shoal_session_tell_saved(s, s->clock.saved_step); /* that of this step was there before */
  if (s->faults.end_s > 0) usleep((useconds_t)(s->faults.end_s * 1e6));
  s->meet.agreed = true;
  return SHOAL_STOPPED;
}

shoal_status shoal_session_act(shoal_session *s, shoal_ask ask)
{
  switch (ask) {
  case SHOAL_ASK_LEAVE:
    s->meet.agreed = true;
    return shoal_group_settle(s->run.control,
                              shoal_session_is_root(s) ? shoal_folder_check(&s->world.folder) : SHOAL_OK);
  case SHOAL_ASK_NUMERIC:
    return shoal_numbers_act(s);
  case SHOAL_ASK_STOP:
    shoal_info("asked to stop by a signal: stopping after step %llu%s", (unsigned long long)s->run.step,
               s->method->settle ? " of rank 0; others may be at another one, and the checkpoint is named by the mean"
                                 : "");
    return shoal_session_stop(s);
  case SHOAL_ASK_SAVE:
    return shoal_session_save_due(s);
  default:
    return SHOAL_OK;
  }
}

shoal_status shoal_session_stop_after_save(shoal_session *s)
{
  if (!s->clock.saved_any || s->clock.saved_step != s->run.step) return SHOAL_OK;
  int64_t stop = shoal_stop_requested();
  SHOAL_TRY(shoal_group_max_i64(s->run.control, &stop, 1));
  return stop ? shoal_session_act(s, SHOAL_ASK_STOP) : SHOAL_OK;
}

shoal_status shoal_session_act_and_due(shoal_session *s, shoal_ask ask)
{
  SHOAL_TRY(shoal_session_act(s, ask));
  if (shoal_session_due(s->world.choice.save_every, SHOAL_PER_STEPS, s->run.step)) SHOAL_TRY(shoal_session_save_due(s));
  SHOAL_TRY(shoal_session_stop_after_save(s));
  return shoal_session_owes_row(s) ? shoal_session_evaluate_and_record(s) : SHOAL_OK;
}
