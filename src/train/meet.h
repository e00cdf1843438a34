/* How ranks agree: decisions that all must share (save or evaluate now, stop on request, act on numbers that are not
 * finite) are made by one of two policies.  The method chooses it (shoal_meet_policy); the loop does not depend on
 * the choice.
 *
 *   in rounds   meet_rounds.c   a vote for each round of steps, of one at least, which ends where ranks synchronise anyway
 *   freely      meet_freely.c   ranks step asynchronously; any rank can call a meeting of all */
#ifndef SHOAL_TRAIN_MEET_H
#define SHOAL_TRAIN_MEET_H
#include "method/method.h"

typedef struct shoal_session shoal_session;

/* The request of a vote or a meeting; the largest wins. */
typedef enum {
  SHOAL_ASK_NOTHING,
  SHOAL_ASK_EPOCH, /* asynchronous ranks: "I have finished my epoch" */
  SHOAL_ASK_EVALUATE,
  SHOAL_ASK_SAVE,
  SHOAL_ASK_STOP,
  SHOAL_ASK_NUMERIC,
  SHOAL_ASK_LEAVE /* another run has taken over the folder */
} shoal_ask;

/* A policy, with hooks in the order of calls.  Errors end the run, as does STOPPED after an agreed stop. */
typedef struct {
  /* After the method's open.  Collective. */
  shoal_status (*open)(shoal_session *s);
  /* Between two steps: performs what was agreed on.  Collective if ranks step together. */
  shoal_status (*between)(shoal_session *s);
  /* Whether this rank enters the next epoch without waiting for the others. */
  bool (*goes_on_alone)(const shoal_session *s);
  /* Before and after the collective work at the end of an epoch.  `saved`: a checkpoint was due there.  Collective. */
  shoal_status (*gather)(shoal_session *s);
  shoal_status (*leave)(shoal_session *s, bool saved);
  /* After the run's last step: waits until all have arrived and no vote is in flight.  Collective. */
  shoal_status (*end)(shoal_session *s);
  /* *news says whether this rank has something to save, then whether any has.  Collective. */
  shoal_status (*share_news)(shoal_session *s, int64_t *news);
} shoal_meeting;
extern const shoal_meeting shoal_meeting_in_rounds, shoal_meeting_freely;

/** Opens the policy chosen by the method.  Collective. */
shoal_status shoal_session_open_meeting(shoal_session *s);
void shoal_session_close_meeting(shoal_session *s); /* also if never opened */

/* ---- meet.c: shared by the policies ---- */

/** Performs what was agreed on: save, stop (STOPPED), act on numbers that are not finite.  Collective. */
shoal_status shoal_session_act(shoal_session *s, shoal_ask ask);
/** The same, plus whatever is due by step count.  For ranks that step together.  Collective. */
shoal_status shoal_session_act_and_due(shoal_session *s, shoal_ask ask);
/** Saves what is not saved yet, and returns STOPPED.  Collective, where all ranks know that they stop. */
shoal_status shoal_session_stop(shoal_session *s);
/** A stop requested while a checkpoint was being written takes effect right after it.  Collective. */
shoal_status shoal_session_stop_after_save(shoal_session *s);
/** Opens the vote of all ranks.  Collective. */
shoal_status shoal_session_open_vote(shoal_session *s);
/** Post this rank's vote, and take the result: *ask is unchanged if no vote is in flight. */
shoal_status shoal_session_post_vote(shoal_session *s);
shoal_status shoal_session_take_vote(shoal_session *s, int64_t *ask);
/** The same for the promises where to stop, and for the vote of ranks in lockstep about what they have heard. */
shoal_status shoal_session_take_promise(shoal_session *s, int64_t *step);
shoal_status shoal_session_take_notice(shoal_session *s, int64_t *heard);
/** Takes whatever is in flight, without effect. */
shoal_status shoal_session_take_all(shoal_session *s);

/* Default for an optional hook. */
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
