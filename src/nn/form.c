/* See form.h. */
#include "nn/form.h"

shoal_status shoal_form_init(shoal_backend *b, const shoal_model *m, const shoal_optim_config *rules, float *gradients,
                             shoal_form *f)
{
  f->backend = b;
  f->model = m;
  SHOAL_TRY(shoal_params_create(b, m, gradients, &f->params));
  return shoal_optim_create(b, rules, f->params->n, &f->optim);
}

shoal_status shoal_form_plan(shoal_backend *b, int64_t batch, shoal_form *f)
{
  shoal_plan *plan;
  SHOAL_TRY(shoal_plans_create(b, f->model, &f->plans));
  SHOAL_TRY(shoal_plans_get(f->plans, batch, SHOAL_PLAN_TRAIN, &plan));
  f->plan = plan;
  return SHOAL_OK;
}

void shoal_form_fini(shoal_backend *b, shoal_form *f)
{
  shoal_plans_destroy(f->plans);
  shoal_optim_destroy(f->optim);
  shoal_params_destroy(b, f->params);
  *f = (shoal_form){ 0 };
}
