/* Ranks that train independently for a while and then synchronise: they vote there, and wait for the result, since they
 * have just synchronised.  Actions due by step count need no vote. */
#include "train/session.h"

static shoal_status between(shoal_session *s)
{
  int64_t ask = SHOAL_ASK_NOTHING;
  if (s->run.meet.boundary) {
    SHOAL_TRY(shoal_session_post_vote(s));
    SHOAL_TRY(shoal_session_take_vote(s, &ask));
  }
  return shoal_session_act_and_due(s, (shoal_ask)ask);
}

/* The next boundary may be epochs away. */
static shoal_status leave(shoal_session *s, bool saved)
{
  return saved && !shoal_session_reached_end(s) ? shoal_session_stop_after_save(s) : SHOAL_OK;
}

const shoal_meeting shoal_meeting_at_boundaries = { .open = shoal_session_open_vote,
                                                    .between = between,
                                                    .goes_on_alone = shoal_meeting_not_alone,
                                                    .gather = shoal_meeting_gathered,
                                                    .leave = leave,
                                                    .end = shoal_meeting_gathered,
                                                    .share_news = shoal_meeting_same_news };
