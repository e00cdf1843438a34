/* Ranks that step asynchronously: no vote per step; any rank can call a meeting of all.
 *
 *     rank 0   step step step step step step ........ evaluate     end of epoch: each rank arrives when it has finished
 *     rank 1   step  step  step  step  step  step .. evaluate
 *     rank 2   step    step    step    step  [USR1] save, stop      a signal: all arrive after their current step
 *
 * A waiting rank still answers its partners.  At the meeting all ranks finish what is in flight (the method's settle),
 * so that weights do not change: evaluation and checkpoints see one consistent state, with each rank's own count of
 * steps and samples.  Requests are those of the vote, and a weaker one: EPOCH, "come when you have finished yours".
 * EPOCH is the result only if all ranks brought it; if any rank requests more, all do that, and ranks that waited go on
 * waiting.
 *
 * Some ranks may step together, by blocking sums.  If one of these went to a meeting while another took one more step,
 * they would deadlock; so these vote after every step. */
#include "base/log.h"
#include "base/mem.h"
#include "train/session.h"
#include "train/stop.h"

static shoal_status open(shoal_session *s)
{
  if (s->run.meet.together) SHOAL_TRY(shoal_vote_create(s->run.meet.together, "meeting", &s->meet.vote));
  SHOAL_TRY(shoal_rendezvous_create(s->run.control, "meeting", &s->meet.rendezvous));
  s->run.meet.rendezvous = s->meet.rendezvous;
  return SHOAL_OK;
}

/* Rank 0 checks periods, by its own steps and clock. */
static shoal_ask periodic_wish(const shoal_session *s)
{
  shoal_period every = s->world.choice.save_every;
  if (!shoal_session_is_root(s)) return SHOAL_ASK_NOTHING;
  if (every.unit == SHOAL_PER_SECONDS && shoal_seconds_since(s->clock.saved_ns) >= every.value) return SHOAL_ASK_SAVE;
  if (s->run.step > s->meet.saved_own_step && shoal_session_due(every, SHOAL_PER_STEPS, s->run.step))
    return SHOAL_ASK_SAVE;
  if (shoal_session_owes_row(s)) return SHOAL_ASK_EVALUATE;
  return SHOAL_ASK_NOTHING;
}

static shoal_ask wish(const shoal_session *s)
{
  if (shoal_session_is_root(s) && shoal_lease_lost(s->world.folder.lease)) return SHOAL_ASK_LEAVE;
  if (s->numbers.found) return SHOAL_ASK_NUMERIC;
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

/* Counts bytes sent outside a step, and samples trained by all ranks: exact here, estimated in between. */
static shoal_status count_all(shoal_session *s)
{
  double trained = (double)s->clock.trained_own;
  shoal_session_count_bytes(s);
  SHOAL_TRY(shoal_group_sum_f64(s->run.control, &trained, 1));
  s->clock.trained = (uint64_t)trained;
  if (s->record.pace.begun_ns) shoal_session_keep_pace(s, shoal_now_ns());
  return SHOAL_OK;
}

/* Gathers all ranks, until nothing is in flight; *agreed is the reason. */
static shoal_status meet(shoal_session *s, shoal_ask mine, shoal_ask *agreed)
{
  int64_t what;
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(settle(s, SHOAL_ARRIVING));
  uint64_t joined_ns = shoal_now_ns();
  SHOAL_TRY(shoal_rendezvous_meet(s->meet.rendezvous, mine, wish_while_waiting, s, &what));
  shoal_session_record_agreement(s, s->record.op.agreement, s->run.control, ++s->meet.meetings, joined_ns, joined_ns);
  SHOAL_TRY(settle(s, SHOAL_GATHERED));
  shoal_trace_span(s->run.trace, SHOAL_TRACE_OTHER, shoal_trace_op(s->run.trace, "meeting"), t0, shoal_now_ns());
  *agreed = (shoal_ask)what;
  return count_all(s);
}

/* Performs the action of a meeting other than EPOCH. */
static shoal_status act(shoal_session *s, shoal_ask agreed)
{
  SHOAL_TRY(agreed == SHOAL_ASK_EVALUATE ? shoal_session_evaluate_and_record(s) : shoal_session_act(s, agreed));
  if (agreed == SHOAL_ASK_SAVE) s->meet.saved_own_step = s->run.step;
  return settle(s, SHOAL_LEAVING);
}

/* The reason for this rank to meet before its next step; agreed among ranks that step together. */
static shoal_status reason_to_meet(shoal_session *s, int64_t *what)
{
  *what = SHOAL_MAX((int64_t)wish(s), shoal_rendezvous_requested(s->meet.rendezvous));
  if (!s->meet.vote) return SHOAL_OK;
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(shoal_vote_post(s->meet.vote, *what));
  SHOAL_TRY(shoal_vote_result(s->meet.vote, what));
  shoal_session_record_agreement(s, s->record.op.agreement, s->run.meet.together, ++s->meet.votes, t0, t0);
  return SHOAL_OK;
}

static shoal_status between(shoal_session *s)
{
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

/* The end of an epoch is local, unless a collective action is due there. */
static bool goes_on_alone(const shoal_session *s)
{
  uint64_t done = s->clock.epoch + 1;
  return s->model.lr.kind != SHOAL_LR_PLATEAU && !s->method->epoch_end && done < (uint64_t)s->run.epochs &&
         !shoal_session_due(s->world.choice.eval_every, SHOAL_PER_EPOCHS, done) &&
         !shoal_session_due(s->world.choice.save_every, SHOAL_PER_EPOCHS, done);
}

/* Ranks have different step counts, so they must be asked. */
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
