/* Ranks that run on their own clocks: nobody is asked in every step; whoever wants something calls, and all meet.
 *
 *     rank 0   step step step step step step ........ evaluate     epoch's end: no hurry, each comes when it gets there
 *     rank 1   step  step  step  step  step  step .. evaluate
 *     rank 2   step    step    step    step  [USR1] save, stop      a signal: all come at their own next step
 *
 * While a rank waits it answers its partners.  At the meeting everybody finishes what is under way (the method's settle),
 * so weights are at rest: evaluation and checkpoints see one state, with each rank's own count of steps and samples.
 * Wishes are those of the vote, and a weaker one: EPOCH, "come when you have finished yours".  It is the outcome only
 * when all brought it; if somebody wants more, all do that, and those who waited wait on.
 *
 * Some of them may take every step together, by sums that each waits for.  If one went to a meeting and another took one
 * more step, each would wait for the other; so these ask each other after every step. */
#include "base/log.h"
#include "base/mem.h"
#include "train/session.h"
#include "train/stop.h"
#include <math.h>

static shoal_status open(shoal_session *s)
{
  if (s->run.meet.together) SHOAL_TRY(shoal_vote_create(s->run.meet.together, "meeting", &s->meet.vote));
  SHOAL_TRY(shoal_rendezvous_create(s->run.control, "meeting", &s->meet.rendezvous));
  s->run.meet.rendezvous = s->meet.rendezvous;
  return SHOAL_OK;
}

static bool due_by_steps(const shoal_session *s, shoal_period every, uint64_t last)
{
  return s->run.step > last && shoal_session_due(every, SHOAL_PER_STEPS, s->run.step);
}

/* Periods are rank 0's to watch, by its own steps and clock. */
static shoal_ask periodic_wish(const shoal_session *s)
{
  shoal_period every = s->world.choice.save_every;
  if (!shoal_session_is_root(s)) return SHOAL_ASK_NOTHING;
  if (every.unit == SHOAL_PER_SECONDS && shoal_seconds_since(s->clock.saved_ns) >= every.value) return SHOAL_ASK_SAVE;
  if (due_by_steps(s, every, s->meet.saved_own_step)) return SHOAL_ASK_SAVE;
  if (due_by_steps(s, s->world.choice.eval_every, s->meet.evaluated_own_step)) return SHOAL_ASK_EVALUATE;
  return SHOAL_ASK_NOTHING;
}

static shoal_ask wish(const shoal_session *s)
{
  if (s->meet.bad_loss) return SHOAL_ASK_NUMERIC;
  if (shoal_stop_requested()) return SHOAL_ASK_STOP;
  return periodic_wish(s);
}

static int64_t wish_while_waiting(void *session)
{
  return wish(session);
}

static shoal_status settle(shoal_session *s, shoal_settle stage)
{
  return s->method->settle ? s->method->settle(&s->run, s->method_state, stage) : SHOAL_OK;
}

/* Parcels given to others outside a step, and what all have trained: exact here, an estimate in between. */
static shoal_status count_all(shoal_session *s)
{
  double trained = (double)s->clock.trained_own;
  shoal_session_count_bytes(s);
  SHOAL_TRY(shoal_group_sum_f64(s->run.control, &trained, 1));
  s->clock.trained = (uint64_t)trained;
  return SHOAL_OK;
}

/* All are there, nothing moves, *agreed is what they came for. */
static shoal_status meet(shoal_session *s, shoal_ask mine, shoal_ask *agreed)
{
  int64_t what;
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(settle(s, SHOAL_ARRIVING));
  SHOAL_TRY(shoal_rendezvous_meet(s->meet.rendezvous, mine, wish_while_waiting, s, &what));
  SHOAL_TRY(settle(s, SHOAL_GATHERED));
  shoal_trace_span(s->run.trace, SHOAL_TRACE_OTHER, shoal_trace_op(s->run.trace, "meeting"), t0, shoal_now_ns());
  *agreed = (shoal_ask)what;
  return count_all(s);
}

static shoal_status evaluate_now(shoal_session *s)
{
  SHOAL_TRY(shoal_session_evaluate(s));
  shoal_session_record_metrics(s, false);
  s->meet.evaluated_own_step = s->run.step;
  return SHOAL_OK;
}

/* What a meeting other than EPOCH is for. */
static shoal_status act(shoal_session *s, shoal_ask agreed)
{
  SHOAL_TRY(agreed == SHOAL_ASK_EVALUATE ? evaluate_now(s) : shoal_session_act(s, agreed));
  if (agreed == SHOAL_ASK_SAVE) s->meet.saved_own_step = s->run.step;
  return settle(s, SHOAL_LEAVING);
}

/* What takes this rank to a meeting before its next step; ranks that step together all know it of each other. */
static shoal_status reason_to_meet(shoal_session *s, int64_t *what)
{
  *what = SHOAL_MAX((int64_t)wish(s), shoal_rendezvous_requested(s->meet.rendezvous));
  if (!s->meet.vote) return SHOAL_OK;
  SHOAL_TRY(shoal_vote_post(s->meet.vote, *what));
  return shoal_vote_result(s->meet.vote, what);
}

static shoal_status between(shoal_session *s, const shoal_score *score)
{
  s->meet.bad_loss |= !isfinite(score->loss);
  for (;;) {
    int64_t what;
    shoal_ask agreed;
    SHOAL_TRY(reason_to_meet(s, &what));
    if (what <= SHOAL_ASK_EPOCH) break;
    SHOAL_TRY(meet(s, (shoal_ask)what, &agreed));
    SHOAL_TRY(act(s, agreed));
  }
  return shoal_rendezvous_heartbeat(s->meet.rendezvous);
}

static shoal_status gather(shoal_session *s)
{
  for (;;) {
    shoal_ask agreed;
    SHOAL_TRY(meet(s, SHOAL_ASK_EPOCH, &agreed));
    if (agreed == SHOAL_ASK_EPOCH) return SHOAL_OK;
    SHOAL_TRY(act(s, agreed));
  }
}

static shoal_status leave(shoal_session *s, bool saved)
{
  (void)saved;
  return settle(s, SHOAL_LEAVING);
}

/* An epoch's end is this rank's alone, unless something is to be done there that takes all. */
static bool goes_on_alone(const shoal_session *s)
{
  uint64_t done = s->clock.epoch + 1;
  return s->model.lr.kind != SHOAL_LR_PLATEAU && !s->method->epoch_end && done < (uint64_t)s->run.epochs &&
         !shoal_session_due(s->world.choice.eval_every, SHOAL_PER_EPOCHS, done) &&
         !shoal_session_due(s->world.choice.save_every, SHOAL_PER_EPOCHS, done);
}

/* Each rank has steps of its own. */
static shoal_status share_news(shoal_session *s, int64_t *news)
{
  return shoal_group_max_i64(s->run.control, news, 1);
}

const shoal_meeting shoal_meeting_freely = { .open = open,
                                             .between = between,
                                             .goes_on_alone = goes_on_alone,
                                             .gather = gather,
                                             .leave = leave,
                                             .end = gather,
                                             .share_news = share_news };
