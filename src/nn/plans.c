/* The plans of one model, by batch size and mode.  A run needs three or four (full batch, short last batch, their
 * evaluation), so a list suffices. */
#include "base/mem.h"
#include "nn/plan.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  int64_t batch;
  shoal_plan_mode mode;
  shoal_plan *plan;
} entry;

struct shoal_plans {
  shoal_backend *backend;
  shoal_model *model;
  entry *entries;
  size_t n;
  bool *ends; /* NULL: not said */
};

shoal_status shoal_plans_create(shoal_backend *b, const shoal_model *m, shoal_plans **out)
{
  shoal_plans *c = calloc(1, sizeof *c);
  SHOAL_CHECK(c, SHOAL_ERR_MEM, "plans of model %s", m->name);
  c->backend = b;
  shoal_status st = shoal_model_copy(m, &c->model);
  if (st != SHOAL_OK) {
    shoal_plans_destroy(c);
    return st;
  }
  *out = c;
  return SHOAL_OK;
}

shoal_status shoal_plans_get(shoal_plans *c, int64_t batch, shoal_plan_mode mode, shoal_plan **out)
{
  for (size_t i = 0; i < c->n; i++)
    if (c->entries[i].batch == batch && c->entries[i].mode == mode) {
      *out = c->entries[i].plan;
      return SHOAL_OK;
    }
  entry *more = realloc(c->entries, (c->n + 1) * sizeof *more);
  SHOAL_CHECK(more, SHOAL_ERR_MEM, "plan number %zu of model %s", c->n + 1, c->model->name);
  c->entries = more;
  entry e = { .batch = batch, .mode = mode };
  SHOAL_TRY(shoal_plan_create(c->backend, c->model, batch, mode, &e.plan));
  if (c->ends && mode == SHOAL_PLAN_TRAIN) shoal_plan_end_parts(e.plan, c->ends);
  c->entries[c->n++] = e;
  *out = e.plan;
  return SHOAL_OK;
}

shoal_status shoal_plans_match(shoal_plans *c, const shoal_plans *as)
{
  shoal_plan *plan;
  for (size_t i = 0; i < as->n; i++)
    if (as->entries[i].mode == SHOAL_PLAN_TRAIN)
      SHOAL_TRY(shoal_plans_get(c, as->entries[i].batch, SHOAL_PLAN_TRAIN, &plan));
  return SHOAL_OK;
}

shoal_status shoal_plans_end_parts(shoal_plans *c, size_t n, const bool *ends)
{
  free(c->ends);
  c->ends = NULL;
  SHOAL_TRY(SHOAL_ALLOC(n, &c->ends));
  memcpy(c->ends, ends, n * sizeof *ends);
  for (size_t i = 0; i < c->n; i++)
    if (c->entries[i].mode == SHOAL_PLAN_TRAIN) shoal_plan_end_parts(c->entries[i].plan, ends);
  return SHOAL_OK;
}

void shoal_plans_destroy(shoal_plans *c)
{
  if (!c) return;
  for (size_t i = 0; i < c->n; i++) shoal_plan_destroy(c->entries[i].plan);
  free(c->entries);
  free(c->ends);
  shoal_model_destroy(c->model);
  free(c);
}
