/* Ranks that wait for each other now and then: in every step, or only at the end of rounds of several steps.
 *
 * A round ends with a step after which all ranks synchronise anyway: the method says which (meet.next), and evaluations,
 * checkpoints and ends of epochs are others; or after SHOAL_MEET_LONGEST steps.  All know its number when the round begins.  One vote
 * per round is posted `lag` steps before that end and taken there, so it overlaps with what the ranks wait for by themselves, and
 * none waits for it:
 *
 *   rounds of one step    step 7: gradients summed        result of the vote after step 6  →  save or stop here, on all ranks
 *                                                         vote of step 7
 *   longer rounds         step 3  step 4 .. step 8, vote, step 9: average, result  →  save or stop
 *
 * A stop does not wait for the end of a long round.  Each rank promises once where it can stop: after its next step, if it has heard
 * of one, or else at the end of the round, before the step in which it may wait for others.  The largest step is agreed on:
 *
 *     rank 0   step 4   step 5 [USR1: promises 6]  step 6, waits ···· result 8   step 7   step 8  save, stop
 *     rank 1   step 6   step 7 [hears: promises 8] step 8, waits · result 8                       save, stop
 *
 * Who has promised the end goes on without the result: others may stop there at the earliest.  Who waits for it takes no further
 * step, so ranks that wait for each other in every step (meet.together) must promise after the same one: there each tells the
 * others whether it has heard, by a vote that overlaps with the next step. */
#include "base/mem.h"
#include "train/session.h"

static shoal_status open(shoal_session *s)
{
  shoal_group *together = s->run.meet.together;
  s->meet.lag = s->run.meet.lag;
  SHOAL_TRY(shoal_vote_create(s->run.control, "round", &s->meet.promise));
  if (together && shoal_group_size(together) > 1) SHOAL_TRY(shoal_vote_create(together, "notice", &s->meet.notice));
  return shoal_session_open_vote(s);
}

/* The first multiple above `step` of a period in steps; without one, never. */
static uint64_t next_due(shoal_period every, uint64_t step)
{
  if (every.unit != SHOAL_PER_STEPS) return UINT64_MAX;
  return (step / (uint64_t)every.value + 1) * (uint64_t)every.value;
}

static uint64_t next_together(const shoal_session *s)
{
  uint64_t step = s->run.step, batch = s->run.global_batch, at = SHOAL_MAX(s->run.meet.next, step + 1);
  uint64_t left = s->clock.position < s->data.epoch_end ? s->data.epoch_end - s->clock.position : s->data.epoch_end;
  at = SHOAL_MIN(at, step + (left + batch - 1) / batch);
  at = SHOAL_MIN(at, next_due(s->world.choice.save_every, step));
  at = SHOAL_MIN(at, next_due(s->world.choice.eval_every, step));
  return SHOAL_MIN(at, s->world.choice.steps ? s->world.choice.steps : UINT64_MAX);
}

/* ---- promises ---- */

/* Whether this rank knows of a request to stop; in lockstep, whether any knew a step ago. */
static shoal_status hears(shoal_session *s, bool *heard)
{
  int64_t before = 0, now = shoal_session_heard(s);
  *heard = now;
  if (!s->meet.notice) return SHOAL_OK;
  SHOAL_TRY(shoal_session_take_notice(s, &before));
  *heard = before;
  s->meet.noticed = true;
  s->meet.noticed_ns = shoal_now_ns();
  return shoal_vote_post(s->meet.notice, now);
}

static shoal_status promise(shoal_session *s)
{
  bool heard, last = s->run.step + 1 >= s->meet.together_at;
  int64_t ignored;
  if (!s->meet.promises_now || s->meet.promised) return SHOAL_OK;
  SHOAL_TRY(hears(s, &heard));
  if (!heard && !last) return SHOAL_OK;
  SHOAL_TRY(shoal_session_take_promise(s, &ignored)); /* of an earlier round, which has ended */
  s->meet.promised = s->run.step + 1;
  s->meet.promising = true;
  s->meet.promised_ns = shoal_now_ns();
  return shoal_vote_post(s->meet.promise, (int64_t)s->meet.promised);
}

/* ---- rounds ---- */

/* What a rank does between two steps of a round. */
static shoal_status go_on(shoal_session *s)
{
  bool votes = s->meet.lag > 0 && s->run.step + s->meet.lag >= s->meet.together_at;
  if (votes && !s->meet.voted) SHOAL_TRY(shoal_session_post_vote(s));
  return promise(s);
}

/* Promises are worth it only if a stop comes earlier by them. */
static shoal_status begin_round(shoal_session *s)
{
  uint64_t step = s->run.step, at = next_together(s), cut = step + SHOAL_MAX(SHOAL_MEET_LONGEST, s->run.meet.lag);
  s->meet.together_at = SHOAL_MIN(at, cut);
  s->meet.lag = at > cut ? SHOAL_MEET_SLACK : s->run.meet.lag;
  s->meet.promises_now = s->meet.together_at - step > 1 && !s->run.meet.chained;
  s->meet.promised = s->meet.stop_at = 0;
  return go_on(s);
}

/* The first step after a start is a round without a vote.  At the end of an epoch the next round begins with the next epoch. */
static shoal_status end_round(shoal_session *s)
{
  int64_t ask = SHOAL_ASK_NOTHING;
  if (s->meet.lag == 0) SHOAL_TRY(shoal_session_post_vote(s));
  SHOAL_TRY(shoal_session_take_vote(s, &ask));
  SHOAL_TRY(shoal_session_act_and_due(s, (shoal_ask)ask));
  return s->clock.position >= s->data.epoch_end || shoal_session_reached_end(s) ? SHOAL_OK : begin_round(s);
}

static shoal_status between(shoal_session *s)
{
  if (s->run.step >= s->meet.together_at) return end_round(s);
  if (s->run.step == s->meet.promised) SHOAL_TRY(shoal_session_take_promise(s, &s->meet.stop_at));
  if ((int64_t)s->run.step == s->meet.stop_at) return shoal_session_act(s, SHOAL_ASK_STOP);
  return go_on(s);
}

static shoal_status leave(shoal_session *s, bool saved)
{
  if (shoal_session_reached_end(s)) return SHOAL_OK;
  if (saved) SHOAL_TRY(shoal_session_stop_after_save(s));
  return begin_round(s);
}

/* After the last step no request has an effect. */
static shoal_status end(shoal_session *s)
{
  return shoal_session_take_all(s);
}

const shoal_meeting shoal_meeting_in_rounds = { .open = open,
                                                .between = between,
                                                .goes_on_alone = shoal_meeting_not_alone,
                                                .gather = shoal_meeting_gathered,
                                                .leave = leave,
                                                .end = end,
                                                .share_news = shoal_meeting_same_news };
