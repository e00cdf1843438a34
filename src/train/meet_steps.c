/* Ranks that take every step together.
 *
 *   step s:    batch, forward, backward, exchange, optimizer
 *              result of the vote posted at the end of step s-1   →  save or stop here, on all ranks
 *              post the vote of step s
 *
 * The vote overlaps with the next step, so it is nearly free; a stop takes effect one step later.  Ranks that may be
 * some steps apart (a pipeline) vote only every few steps. */
#include "train/session.h"

static shoal_status between(shoal_session *s)
{
  int64_t ask = SHOAL_ASK_NOTHING;
  uint64_t every = s->run.meet.every;
  bool asks = every <= 1 || s->run.step % every == 0;
  if (asks) SHOAL_TRY(shoal_session_take_vote(s, &ask));
  SHOAL_TRY(shoal_session_act_and_due(s, (shoal_ask)ask));
  return asks ? shoal_session_post_vote(s) : SHOAL_OK;
}

static shoal_status end(shoal_session *s)
{
  int64_t ignored; /* after the last step no request has an effect */
  return shoal_session_take_vote(s, &ignored);
}

const shoal_meeting shoal_meeting_every_step = { .open = shoal_session_open_vote,
                                                 .between = between,
                                                 .goes_on_alone = shoal_meeting_not_alone,
                                                 .gather = shoal_meeting_gathered,
                                                 .leave = shoal_meeting_left,
                                                 .end = end,
                                                 .share_news = shoal_meeting_same_news };
