/* How long a run still takes: its steps at the speed so far, the evaluations that are due until its end and at it, and checkpoints in
 * the proportion so far.  Of ranks with steps of their own rank 0's count.
 *
 *     left = samples * seconds of training per sample * (1 + checkpoints / training) + evaluations * mean of those so far
 *
 * Until one is measured, an evaluation is taken to cost a third of training on as many samples: the pass forward alone. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/pause.h"
#include "train/session.h"
#include <math.h>

static double evaluation_s(const shoal_session *s, double sample_s)
{
  if (s->record.evaluations) return s->record.evaluations_s / (double)s->record.evaluations;
  return (double)shoal_dataset_info(s->data.set)->n[SHOAL_TEST] * sample_s / 3;
}

/* How many multiples of `every` are above `now`, up to `end`, which counts as one; NAN: none is due but at the end. */
static double due_until(double every, double now, double end)
{
  const double rounding = 1e-6;
  return SHOAL_MAX(ceil(end / every - rounding), 1.0) - floor(now / every + rounding);
}

/* @param left_s  of training */
static double evaluations_left(const shoal_session *s, double done, double steps_left, double left_s)
{
  const shoal_run *r = &s->run;
  const shoal_period every = s->world.choice.eval_every;
  bool measured = !isnan(s->record.test_loss) && s->record.test_step == r->step;
  if (!s->data.test) return 0;
  if (shoal_session_reached_end(s)) return measured ? 0 : 1;
  if (every.unit == SHOAL_PER_NEVER) return 1;
  if (every.unit == SHOAL_PER_SECONDS) return floor(left_s / every.value) + 1;
  if (every.unit == SHOAL_PER_EPOCHS)
    return due_until(every.value, done, SHOAL_MIN(r->epochs, done + steps_left / (double)r->steps_per_epoch));
  bool now = shoal_session_due(every, SHOAL_PER_STEPS, r->step) && r->step > 0 && !measured;
  return now + due_until(every.value, (double)r->step, round((double)r->step + steps_left));
}

double shoal_session_seconds_left(const shoal_session *s, double done)
{
  const shoal_run *r = &s->run;
  const shoal_session_pace *p = &s->record.pace;
  const double first = (double)s->clock.first_step, all_s = shoal_worked_since(s->clock.started_ns);
  bool known = p->samples > 0 && p->seconds > 0;
  if (!s->clock.trained || (double)r->step == first) return shoal_session_reached_end(s) ? 0 : NAN;
  double sample_s = known ? p->seconds / p->samples : all_s / (double)s->clock.trained;
  double step_s = known ? p->seconds / ((double)r->step - first - 1) : all_s / ((double)r->step - first);
  double left_s = SHOAL_MAX(r->epochs - done, 0.0) * (double)shoal_dataset_info(s->data.set)->n[SHOAL_TRAIN] * sample_s;
  if (s->world.choice.steps)
    left_s = SHOAL_MIN(left_s, SHOAL_MAX((double)s->world.choice.steps - (double)r->step, 0.0) * step_s);
  if (shoal_session_reached_end(s)) left_s = 0;
  double checkpoints = known ? shoal_session_total_s(s, SHOAL_TRACE_CHECKPOINT) / p->seconds : 0;
  return left_s * (1 + checkpoints) + evaluations_left(s, done, left_s / step_s, left_s) * evaluation_s(s, sample_s);
}
