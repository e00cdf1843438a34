/* Ranks that train independently for a while and then synchronise: they vote there, and wait for the result, since they
 * have just synchronised.  Actions due by step count need no vote.
 *
 * A stop does not wait for the end of a long round.  All ranks know the next step after which they synchronise anyway (the
 * round's end, an evaluation or a checkpoint that is due, the end of the epoch or the run).  Once before it each rank promises
 * where it can stop, by a vote that overlaps with its steps; the largest step is agreed on:
 *
 *     rank 0   step 4   step 5 [USR1: promises 6]  step 6, waits ···· result 8   step 7   step 8  save, stop
 *     rank 1   step 6   step 7 [hears: promises 8] step 8, waits · result 8                       save, stop
 *
 * A rank that hears of nothing promises the synchronising step, before it begins it; then all go there, and vote. */
#include "base/mem.h"
#include "train/session.h"

static shoal_status open(shoal_session *s)
{
  SHOAL_TRY(shoal_vote_create(s->run.control, "round", &s->meet.promise));
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
  uint64_t step = s->run.step, batch = s->data.own_batch, at = SHOAL_MAX(s->run.meet.next, step + 1);
  uint64_t left = s->clock.position < s->data.epoch_end ? s->data.epoch_end - s->clock.position : s->data.epoch_end;
  at = SHOAL_MIN(at, step + (left + batch - 1) / batch);
  at = SHOAL_MIN(at, next_due(s->world.choice.save_every, step));
  at = SHOAL_MIN(at, next_due(s->world.choice.eval_every, step));
  return SHOAL_MIN(at, s->world.choice.steps ? s->world.choice.steps : UINT64_MAX);
}

static shoal_status promise(shoal_session *s)
{
  bool heard = shoal_session_heard(s);
  if (s->meet.promised || (!heard && s->run.step + 1 < s->meet.together_at)) return SHOAL_OK;
  s->meet.promised = s->run.step + 1;
  s->meet.promised_ns = shoal_now_ns();
  return shoal_vote_post(s->meet.promise, (int64_t)s->meet.promised);
}

/* At the promised step, or the last one: where all stop. */
static shoal_status take_promises(shoal_session *s)
{
  uint64_t t0 = shoal_now_ns();
  int64_t largest;
  if (!s->meet.promised || s->meet.stop_at) return SHOAL_OK;
  SHOAL_TRY(shoal_vote_result(s->meet.promise, &largest));
  shoal_session_record_agreement(s, s->record.op.promise, s->run.control, ++s->meet.promises, s->meet.promised_ns, t0);
  s->meet.stop_at = (uint64_t)largest;
  return SHOAL_OK;
}

/* The first step after a start has no promises: then this is done one step later than it could. */
static shoal_status at_synchronisation(shoal_session *s)
{
  int64_t ask = SHOAL_ASK_NOTHING;
  SHOAL_TRY(take_promises(s));
  s->meet.promised = s->meet.stop_at = 0;
  SHOAL_TRY(shoal_session_post_vote(s));
  SHOAL_TRY(shoal_session_take_vote(s, &ask));
  SHOAL_TRY(shoal_session_act_and_due(s, (shoal_ask)ask));
  s->meet.together_at = next_together(s);
  return promise(s);
}

static shoal_status between(shoal_session *s)
{
  if (s->run.step >= s->meet.together_at) return at_synchronisation(s);
  if (s->run.step == s->meet.promised) SHOAL_TRY(take_promises(s));
  if (s->run.step == s->meet.stop_at) return shoal_session_act(s, SHOAL_ASK_STOP);
  return promise(s);
}

/* The next boundary may be epochs away. */
static shoal_status leave(shoal_session *s, bool saved)
{
  return saved && !shoal_session_reached_end(s) ? shoal_session_stop_after_save(s) : SHOAL_OK;
}

const shoal_meeting shoal_meeting_at_boundaries = { .open = open,
                                                    .between = between,
                                                    .goes_on_alone = shoal_meeting_not_alone,
                                                    .gather = shoal_meeting_gathered,
                                                    .leave = leave,
                                                    .end = shoal_meeting_gathered,
                                                    .share_news = shoal_meeting_same_news };
