/* How ranks come together: what all of them must answer alike (is it time to save or to evaluate, has anybody asked to
 * stop, is a loss not finite) is asked in one of three ways.  The method chooses (shoal_meet_policy), the loop does not
 * know which it is.
 *
 *   every step      meet_steps.c        a vote travels while the next step computes; its answer comes one step late
 *   at boundaries   meet_boundaries.c   a vote only where ranks have just waited for each other; its answer comes at once
 *   freely          meet_freely.c       each rank on its own clock; who wants something calls, and all meet */
#ifndef SHOAL_TRAIN_MEET_H
#define SHOAL_TRAIN_MEET_H
#include "method/method.h"

typedef struct shoal_session shoal_session;

/* What the vote of a step asks for, or a meeting; the larger wins. */
typedef enum {
  SHOAL_ASK_NOTHING,
  SHOAL_ASK_EPOCH, /* of ranks on their own clocks: "I am at the end of mine" */
  SHOAL_ASK_EVALUATE,
  SHOAL_ASK_SAVE,
  SHOAL_ASK_STOP,
  SHOAL_ASK_NUMERIC
} shoal_ask;

/* One way to meet, in the order of calls.  Errors end the run, as does STOPPED after an agreed stop. */
typedef struct {
  /* Behind the method's open.  Collective. */
  shoal_status (*open)(shoal_session *s);
  /* Between two steps: do what is agreed on.  Collective where ranks take steps together. */
  shoal_status (*between)(shoal_session *s, const shoal_score *score);
  /* Whether this rank goes from the end of its epoch into the next without the others. */
  bool (*goes_on_alone)(const shoal_session *s);
  /* Around what all do together at the end of an epoch: all are there and at rest; on they go.  `saved`: a checkpoint was
   * due there.  Collective. */
  shoal_status (*gather)(shoal_session *s);
  shoal_status (*leave)(shoal_session *s, bool saved);
  /* After the run's last step: all are there, no vote is under way.  Collective. */
  shoal_status (*end)(shoal_session *s);
  /* *news says whether this rank has something to save, then whether any has.  Collective. */
  shoal_status (*share_news)(shoal_session *s, int64_t *news);
} shoal_meeting;
extern const shoal_meeting shoal_meeting_every_step, shoal_meeting_at_boundaries, shoal_meeting_freely;

/** Open the way to meet that the method has chosen, and what it needs.  Collective. */
shoal_status shoal_session_open_meeting(shoal_session *s);
void shoal_session_close_meeting(shoal_session *s); /* also one that was never opened */

/* ---- meet.c: what the ways share ---- */

/** Do what was agreed on: save, stop (STOPPED), give up on bad numbers.  Collective. */
shoal_status shoal_session_act(shoal_session *s, shoal_ask ask);
/** The same, and whatever is due after so many steps.  For ranks that take steps together.  Collective. */
shoal_status shoal_session_act_and_due(shoal_session *s, shoal_ask ask);
/** A stop asked for while a checkpoint was being written takes effect right there: that checkpoint is the one.  Collective. */
shoal_status shoal_session_stop_after_save(shoal_session *s);
/** The vote of all ranks.  Collective. */
shoal_status shoal_session_open_vote(shoal_session *s);
/** Post this rank's part of it, and take its result: *ask stays as it is where no vote is under way. */
shoal_status shoal_session_post_vote(shoal_session *s, const shoal_score *score);
shoal_status shoal_session_take_vote(shoal_session *s, int64_t *ask);

/* What a way may leave out. */
static inline bool shoal_meeting_not_alone(const shoal_session *s)
{
  (void)s;
  return false;
}
static inline shoal_status shoal_meeting_gathered(shoal_session *s)
{
  (void)s;
  return SHOAL_OK;
}
static inline shoal_status shoal_meeting_left(shoal_session *s, bool saved)
{
  (void)s, (void)saved;
  return SHOAL_OK;
}
static inline shoal_status shoal_meeting_same_news(shoal_session *s, int64_t *news)
{
  (void)s, (void)news;
  return SHOAL_OK;
}
#endif
