/* Evaluation: assemble "the model" in scratch, let every rank score its share of the test split, add up.  Only observes:
 * nothing of the training state is touched. */
#include "base/mem.h"
#include "train/session.h"
#include <string.h>

shoal_status shoal_session_assemble(shoal_session *s)
{
  shoal_run *r = &s->run;
  s->scratch->version++;
  if (s->method->assemble) return s->method->assemble(r, s->method_state, s->scratch->w, s->scratch->stats);
  memcpy(s->scratch->w, r->params->w, r->params->n * sizeof(float));
  return shoal_mean_stats(r, r->model, r->params->stats, s->scratch->stats);
}

static shoal_status score_share(shoal_session *s, shoal_score *score)
{
  SHOAL_TRY(shoal_loader_seek(s->test, 0, 0));
  for (;;) {
    const shoal_batch *b;
    SHOAL_TRY(shoal_loader_next(s->test, &b));
    if (!b) return SHOAL_OK;
    if (b->n == 0) continue;
    shoal_plan *plan;
    SHOAL_TRY(shoal_plans_get(s->plans, b->n, SHOAL_PLAN_EVAL, &plan));
    shoal_address at = { .seed = s->run.seed };
    SHOAL_TRY(shoal_plan_forward(plan, s->scratch, &at, b->x, b->y, 0, score));
    SHOAL_TRY(shoal_world_progress(s->run.world));
  }
}

shoal_status shoal_session_evaluate(shoal_session *s)
{
  if (!s->test) return SHOAL_OK;
  uint64_t t0 = shoal_now_ns();
  shoal_score score = { 0 };
  SHOAL_TRY(shoal_session_assemble(s));
  SHOAL_TRY(shoal_group_agree(s->run.control, score_share(s, &score)));
  double sums[] = { score.loss, (double)score.correct, (double)score.samples };
  SHOAL_TRY(shoal_group_sum_f64(s->run.control, sums, SHOAL_COUNT(sums)));
  s->test_loss = sums[0] / sums[2];
  s->test_acc = sums[1] / sums[2];
  s->test_step = s->run.step;
  shoal_trace_span(s->run.trace, SHOAL_TRACE_EVALUATION, shoal_trace_op(s->run.trace, "evaluation"), t0,
                   shoal_now_ns());
  return SHOAL_OK;
}
