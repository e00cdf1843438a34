/* What a checkpoint of method ab holds in addition to the model, which always has full-rank weights, and one copy of
 * its optimizer state:
 *
 *   method/ab_schedule     warm-up, cycle, rebound, ramp
 *   method/ab_groups       group of each rank; method/ab_layers  parameter numbers of the products' weights
 *   method/ab_roles        of each rank since the last split: 1 trains A, 0 B
 *   method/ab_place        on factors?, splits, steps since the last, steps of the ramp, ramp on?
 *   method/ab_slope        of the ramp
 *   method/ab_ranks        of the last split, if there was one
 *   replica/K/ab_steps     of rank K on A and on B
 *   replica/K/ab_weights   of the part, on the first rank of each group, while factors are trained; else empty
 *   replica/K/ab_SLOT      its optimizer state, likewise, once there was a split
 *
 * With the same groups, roles and layers a run resumes bit for bit.  Otherwise it continues from the model, which is
 * the result of a reconciliation: if the schedule is on factors there, the model is split again and the factors'
 * optimizer state starts from zero; at full rank the ramp is resumed. */
#include "base/log.h"
#include "base/mem.h"
#include "method/ab/ab_impl.h"
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOAL_AB_MOST_STEPS INT64_C(1000000000000) /* of a schedule's periods, as in the options */
enum { PLACE_FACTORED, PLACE_SPLITS, PLACE_PHASE_STEPS, PLACE_RAMP_DONE, PLACE_RAMP_ACTIVE, PLACES };

static bool speaks(const shoal_run *r, const shoal_ab_state *s)
{
  return s->groups.rank[s->groups.first[s->group]] == shoal_world_rank(r->world);
}

static void group_numbers(const shoal_ab_state *s, int64_t *out)
{
  for (int i = 0; i < s->groups.groups; i++)
    for (int k = s->groups.first[i]; k < s->groups.first[i + 1]; k++) out[s->groups.rank[k]] = i;
}

/* A part's arena starts with the trained factors, so a rank that trains the others cannot use it. */
static void role_numbers(const shoal_ab_state *s, int64_t *out)
{
  for (int i = 0; i < s->groups.size; i++) out[i] = shoal_ab_role_a(s, shoal_ab_group_of(&s->groups, i));
}

static void layer_numbers(const shoal_ab_state *s, int64_t *out)
{
  for (size_t i = 0; i < s->layers.n; i++) out[i] = s->layers.layer[i].param;
}

static void put_numbers(shoal_ckpt_writer *c, const char *name, const int64_t *x, size_t n)
{
  shoal_ckpt_put(c, name, SHOAL_I64, 1, (uint64_t[]){ n }, x);
}

/* ---------------------------------------------------------------------------------------------------------- saving */

static void put_place(const shoal_ab_state *s, shoal_ckpt_writer *c)
{
  const shoal_ab_schedule *t = &s->schedule;
  int64_t schedule[] = { (int64_t)t->warmup, (int64_t)t->cycle, (int64_t)t->rebound, (int64_t)t->ramp };
  int64_t place[PLACES] = { [PLACE_FACTORED] = s->factored,
                            [PLACE_SPLITS] = (int64_t)s->splits,
                            [PLACE_PHASE_STEPS] = (int64_t)s->phase_steps,
                            [PLACE_RAMP_DONE] = (int64_t)s->ramp.done,
                            [PLACE_RAMP_ACTIVE] = s->ramp.active };
  put_numbers(c, "method/ab_schedule", schedule, SHOAL_COUNT(schedule));
  put_numbers(c, "method/ab_place", place, PLACES);
  shoal_ckpt_put_f64(c, "method/ab_slope", s->ramp.slope);
}

static void put_part(shoal_run *r, const shoal_ab_state *s, shoal_ckpt_writer *c)
{
  int64_t steps[] = { (int64_t)s->factor_steps[0], (int64_t)s->factor_steps[1] };
  shoal_ckpt_put_replica(c, "ab_steps", SHOAL_I64, SHOAL_COUNT(steps), steps);
  if (!s->cut) return;
  put_numbers(c, "method/ab_ranks", s->rank, s->layers.n);
  uint64_t n = speaks(r, s) ? s->cut->weights : 0;
  shoal_ckpt_put_arena_replica(c, r->backend, "ab_weights", s->factored ? n : 0, s->part.params->w);
  for (int k = 0; k < s->part.optim->slots; k++) {
    char name[64];
    snprintf(name, sizeof name, "ab_%s", shoal_optim_slot_name(s->part.optim, k));
    shoal_ckpt_put_arena_replica(c, r->backend, name, n, s->part.optim->slot[k]);
  }
}

shoal_status shoal_ab_save(shoal_run *r, void *state, shoal_ckpt_writer *c)
{
  const shoal_ab_state *s = state;
  size_t n = SHOAL_MAX((size_t)s->groups.size, s->layers.n);
  int64_t *numbers;
  SHOAL_TRY(shoal_group_agree(r->control, SHOAL_ALLOC(n, &numbers)));
  group_numbers(s, numbers);
  put_numbers(c, "method/ab_groups", numbers, (size_t)s->groups.size);
  role_numbers(s, numbers);
  put_numbers(c, "method/ab_roles", numbers, (size_t)s->groups.size);
  layer_numbers(s, numbers);
  put_numbers(c, "method/ab_layers", numbers, s->layers.n);
  free(numbers);
  put_place(s, c);
  put_part(r, s, c);
  return shoal_buckets_save(s->full, c, "method/algorithms");
}

/* --------------------------------------------------------------------------------------------------------- loading */

/* Whether an array of the checkpoint is exactly x [n]. */
static shoal_status is_equal(const shoal_ckpt *c, const char *name, const int64_t *x, size_t n, bool *equal)
{
  shoal_dtype type;
  int ndim;
  uint64_t dims[8];
  *equal = false;
  if (!shoal_ckpt_has(c, name)) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_shape(c, name, &type, &ndim, dims));
  if (type != SHOAL_I64 || ndim != 1 || dims[0] != n) return SHOAL_OK;
  int64_t *there;
  SHOAL_TRY(SHOAL_ALLOC(n, &there));
  shoal_status st = shoal_ckpt_get(c, name, SHOAL_I64, n, there);
  *equal = st == SHOAL_OK && memcmp(there, x, n * sizeof *x) == 0;
  free(there);
  return st;
}

/* Called after the number of splits was read, on which the roles depend. */
static shoal_status fits(const shoal_ab_state *s, const shoal_ckpt *c, bool *out)
{
  int64_t *numbers;
  bool groups = false, layers = false, roles = !shoal_ckpt_has(c, "method/ab_ranks");
  SHOAL_TRY(SHOAL_ALLOC(SHOAL_MAX((size_t)s->groups.size, s->layers.n), &numbers));
  group_numbers(s, numbers);
  shoal_status st = is_equal(c, "method/ab_groups", numbers, (size_t)s->groups.size, &groups);
  layer_numbers(s, numbers);
  if (st == SHOAL_OK) st = is_equal(c, "method/ab_layers", numbers, s->layers.n, &layers);
  role_numbers(s, numbers);
  if (st == SHOAL_OK && !roles) st = is_equal(c, "method/ab_roles", numbers, (size_t)s->groups.size, &roles);
  free(numbers);
  *out = groups && layers && roles;
  return st;
}

/* The schedule belongs to the run: values that the run file leaves open are kept even if the run's length changes. */
static shoal_status get_schedule(const shoal_run *r, shoal_ab_state *s, const shoal_ckpt *c)
{
  int64_t was[4];
  uint64_t *is[] = { &s->schedule.warmup, &s->schedule.cycle, &s->schedule.rebound, &s->schedule.ramp };
  static const char *const names[] = { "method.warmup", "method.cycle", "method.rebound", "method.ramp" };
  SHOAL_TRY(shoal_ckpt_get_counts(c, "method/ab_schedule", SHOAL_COUNT(was), 0, SHOAL_AB_MOST_STEPS, was));
  for (size_t i = 0; i < SHOAL_COUNT(was); i++)
    if (!shoal_config_given(r->config, names[i])) *is[i] = (uint64_t)was[i];
  return shoal_ab_schedule_check(&s->schedule);
}

static shoal_status get_place(shoal_ab_state *s, const shoal_ckpt *c, bool *factored)
{
  int64_t place[PLACES];
  SHOAL_TRY(shoal_ckpt_get_counts(c, "method/ab_place", PLACES, 0, SHOAL_CKPT_MOST, place));
  SHOAL_TRY(shoal_ckpt_get_real(c, "method/ab_slope", -DBL_MAX, DBL_MAX, &s->ramp.slope));
  *factored = place[PLACE_FACTORED] != 0;
  s->splits = (uint64_t)place[PLACE_SPLITS];
  s->phase_steps = (uint64_t)place[PLACE_PHASE_STEPS];
  s->ramp.done = (uint64_t)place[PLACE_RAMP_DONE];
  s->ramp.active = place[PLACE_RAMP_ACTIVE] != 0;
  return SHOAL_OK;
}

static shoal_status get_factor_steps(const shoal_run *r, shoal_ab_state *s, const shoal_ckpt *c)
{
  char name[64];
  int64_t steps[2];
  snprintf(name, sizeof name, "replica/%d/ab_steps", shoal_world_rank(r->world));
  SHOAL_TRY(shoal_ckpt_get_counts(c, name, SHOAL_COUNT(steps), 0, SHOAL_CKPT_MOST, steps));
  s->factor_steps[0] = (uint64_t)steps[0];
  s->factor_steps[1] = (uint64_t)steps[1];
  return SHOAL_OK;
}

/* All slots or none: with another optimizer the state of factors is reset like that of the whole model, with its
 * counts. */
static shoal_status get_slots(shoal_run *r, shoal_ab_state *s, const shoal_ckpt *c, int speaker)
{
  char name[96];
  for (int k = 0; k < s->part.optim->slots; k++) {
    snprintf(name, sizeof name, "replica/%d/ab_%s", speaker, shoal_optim_slot_name(s->part.optim, k));
    if (!shoal_ckpt_has(c, name)) {
      s->factor_steps[0] = s->factor_steps[1] = s->phase_steps = 0;
      return SHOAL_OK;
    }
    SHOAL_TRY(shoal_ckpt_get_arena(c, r->backend, name, s->cut->weights, s->part.optim->slot[k]));
  }
  return SHOAL_OK;
}

static shoal_status get_part(shoal_run *r, shoal_ab_state *s, const shoal_ckpt *c, bool factored)
{
  int speaker = s->groups.rank[s->groups.first[s->group]];
  char name[96];
  SHOAL_TRY(get_slots(r, s, c, speaker));
  if (!factored) return SHOAL_OK;
  snprintf(name, sizeof name, "replica/%d/ab_weights", speaker);
  SHOAL_TRY(shoal_ckpt_get_arena(c, r->backend, name, s->cut->weights, s->part.params->w));
  SHOAL_TRY(r->backend->ops->copy(r->backend, r->model->stats * sizeof(float), s->whole->params->stats,
                                  s->part.params->stats));
  s->part.params->version++;
  shoal_ab_take(r, s, true);
  return SHOAL_OK;
}

/* Ranks of the products, each at least 1 and at most that of the full matrix. */
static shoal_status get_ranks(const shoal_ab_state *s, const shoal_ckpt *c, int64_t *rank)
{
  SHOAL_TRY(shoal_ckpt_get_counts(c, "method/ab_ranks", s->layers.n, 1, INT32_MAX, rank));
  for (size_t i = 0; i < s->layers.n; i++)
    SHOAL_CHECK(rank[i] <= s->layers.layer[i].n, SHOAL_ERR_IO,
                "method/ab_ranks of the checkpoint has rank %lld for a layer of at most %lld: it is damaged or made up",
                (long long)rank[i], (long long)s->layers.layer[i].n);
  return SHOAL_OK;
}

static shoal_status go_on(shoal_run *r, shoal_ab_state *s, const shoal_ckpt *c, bool factored)
{
  int64_t *rank;
  SHOAL_TRY(get_factor_steps(r, s, c));
  SHOAL_TRY(shoal_buckets_load(s->full, c, "method/algorithms"));
  if (!shoal_ckpt_has(c, "method/ab_ranks")) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(s->layers.n, &rank));
  shoal_status st = get_ranks(s, c, rank);
  if (st == SHOAL_OK) st = shoal_ab_cut_part(r, s, rank);
  free(rank);
  SHOAL_TRY(st);
  SHOAL_TRY(get_part(r, s, c, factored));
  shoal_ab_set_ages(s);
  return SHOAL_OK;
}

shoal_status shoal_ab_load(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout)
{
  shoal_ab_state *s = state;
  const shoal_ckpt_info *info = shoal_ckpt_get_info(c);
  bool same = false, factored;
  s->steps = shoal_ab_run_length(r, info->step, info->epoch, info->samples);
  if (!shoal_ckpt_has(c, "method/ab_schedule")) {
    shoal_info("ab: the checkpoint is of another method: its weights%s are used at full rank%s",
               s->whole->optim->steps ? " and optimizer state" : "",
               shoal_ab_factored(&s->schedule, (uint64_t)info->step) ? " and are split at once" : "");
    return SHOAL_OK;
  }
  SHOAL_TRY(get_schedule(r, s, c));
  r->meet.apart = shoal_ab_apart(s);
  SHOAL_TRY(get_place(s, c, &factored));
  if (same_layout) SHOAL_TRY(fits(s, c, &same));
  if (same) return go_on(r, s, c, factored);
  s->splits = s->phase_steps = 0;
  if (shoal_ckpt_has(c, "method/ab_ranks"))
    shoal_info(
        "ab: other groups, roles or layers than before: factors are reconciled as the checkpoint's model%s, their "
        "optimizer state starts from zero",
        shoal_ab_factored(&s->schedule, (uint64_t)info->step) ? " and split again" : "");
  return SHOAL_OK;
}
