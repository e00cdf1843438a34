/* See fragments.h. */
#include "method/local_sgd/fragments.h"
#include "base/mem.h"
#include <stdlib.h>

enum { LINE = 16 /* floats of a cache line, to which fragments are aligned */ };

/* The elements [first, first + n). */
struct shoal_fragment {
  size_t first, n;
  shoal_exchange *average;
  bool under_way; /* started and not collected */
};

static const char algorithm_saved[] = "method/average_algorithm", count_saved[] = "method/fragments";
static const char wire_saved[] = "method/outer_wire"; /* F32 where it is missing */

/* ---------------------------------------------------------------------------------------------------- open, close */

/* All are summed as the first one is, so that a checkpoint holds one algorithm. */
static shoal_status plan_sums(shoal_run *r, shoal_fragments *s, shoal_sum_algorithm algorithm)
{
  const uint64_t count = s->plan->fragments;
  shoal_status st = SHOAL_OK;
  for (uint64_t f = 0; f < count; f++) {
    shoal_fragment *part = &s->parts[f];
    char name[48] = "average";
    if (count > 1) snprintf(name, sizeof name, "average of fragment %llu", (unsigned long long)f);
    shoal_exchange_destroy(part->average);
    part->average = NULL;
    SHOAL_TRY(shoal_exchange_create_sum(r->all, name, part->n, s->outer->wire, algorithm, &part->average));
    algorithm = shoal_exchange_algorithm(part->average);
    if (st == SHOAL_OK) st = shoal_exchange_keep_errors(part->average);
  }
  return shoal_group_agree(r->all, st);
}

static shoal_status cut(const shoal_run *r, shoal_fragments *s)
{
  const size_t n = r->form->params->n, count = (size_t)s->plan->fragments, lines = n / LINE;
  SHOAL_CHECK(
      count == 1 || lines >= count, SHOAL_ERR_USAGE,
      "method.fragments is %zu, but the model has %zu parameters, of which a fragment needs %d; lower fragments "
      "to at most %zu",
      count, n, LINE, SHOAL_MAX(lines, 1));
  SHOAL_TRY(SHOAL_ALLOC(count, &s->parts));
  for (size_t f = 0; f < count; f++) {
    size_t end = f + 1 == count ? n : (f + 1) * lines / count * LINE;
    s->parts[f].first = f * lines / count * LINE;
    s->parts[f].n = end - s->parts[f].first;
  }
  return SHOAL_OK;
}

shoal_status shoal_fragments_open(shoal_run *r, const shoal_local_sgd_plan *plan, shoal_outer *outer, float mixing,
                                  shoal_sum_algorithm algorithm, shoal_fragments *out)
{
  *out = (shoal_fragments){
    .plan = plan, .outer = outer, .mixing = mixing, .algorithm = algorithm, .op = shoal_trace_op(r->trace, "average")
  };
  shoal_status st = cut(r, out);
  if (st == SHOAL_OK)
    st = r->backend->ops->alloc(r->backend, shoal_group_memory_kind(r->all), r->form->params->n * sizeof(float),
                                &out->sum);
  SHOAL_TRY(shoal_group_agree(r->all, st));
  SHOAL_TRY(shoal_group_register(r->all, &out->sum));
  return plan_sums(r, out, algorithm);
}

void shoal_fragments_close(shoal_run *r, shoal_fragments *s)
{
  for (uint64_t f = 0; s->parts && f < s->plan->fragments; f++) shoal_exchange_destroy(s->parts[f].average);
  free(s->parts);
  shoal_group_unregister(r->all, &s->sum);
  r->backend->ops->release(r->backend, &s->sum);
}

shoal_sum_algorithm shoal_fragments_algorithm(const shoal_fragments *s)
{
  return shoal_exchange_algorithm(s->parts[0].average);
}

/* ------------------------------------------------------------------------------------------------------- the step */

static float *sum_of(const shoal_fragments *s, const shoal_fragment *part)
{
  return (float *)s->sum.at + part->first;
}

static shoal_status start(shoal_run *r, const shoal_fragments *s, shoal_fragment *part)
{
  uint64_t t0 = shoal_now_ns(), bytes[SHOAL_LINK_COUNT];
  part->under_way = true;
  SHOAL_TRY(shoal_outer_send(r, s->outer, part->first, part->n, sum_of(s, part)));
  shoal_exchange_stamp(part->average, r->step);
  SHOAL_TRY(shoal_exchange_start(part->average, sum_of(s, part), shoal_backend_mark(r->backend)));
  shoal_exchange_bytes(r->all, part->n, s->outer->wire, shoal_exchange_algorithm(part->average), bytes);
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) r->sent[link] += bytes[link];
  shoal_trace_span(r->trace, SHOAL_TRACE_OTHER, s->op, t0, shoal_now_ns());
  return SHOAL_OK;
}

static shoal_status collect(shoal_run *r, const shoal_fragments *s, shoal_fragment *part)
{
  uint64_t t0 = shoal_now_ns();
  part->under_way = false;
  SHOAL_TRY(shoal_exchange_wait(part->average));
  SHOAL_TRY(shoal_outer_step(r, s->outer, part->first, part->n, sum_of(s, part), s->mixing));
  r->form->params->version++;
  shoal_trace_span(r->trace, SHOAL_TRACE_OTHER, s->op, t0, shoal_now_ns());
  return SHOAL_OK;
}

/* What starts is started before anything is waited for.  A fragment that is still under way, because a resumed run has another
 * period, is collected before. */
shoal_status shoal_fragments_step(shoal_run *r, shoal_fragments *s)
{
  const uint64_t count = s->plan->fragments;
  if (shoal_group_size(r->all) == 1 && s->outer->kind == SHOAL_OUTER_NONE) return SHOAL_OK;
  for (uint64_t f = 0; f < count; f++) {
    shoal_fragment *part = &s->parts[f];
    if (!shoal_local_sgd_starts(s->plan, r->step, f)) continue;
    if (part->under_way) SHOAL_TRY(collect(r, s, part));
    SHOAL_TRY(start(r, s, part));
  }
  for (uint64_t f = 0; f < count; f++)
    if (s->parts[f].under_way && shoal_local_sgd_collects(s->plan, r->step, f)) SHOAL_TRY(collect(r, s, &s->parts[f]));
  return SHOAL_OK;
}

shoal_status shoal_fragments_finish(const shoal_fragments *s)
{
  for (uint64_t f = 0; f < s->plan->fragments; f++)
    if (s->parts[f].under_way) SHOAL_TRY(shoal_exchange_wait(s->parts[f].average));
  return SHOAL_OK;
}

shoal_status shoal_fragments_drop(shoal_fragments *s)
{
  SHOAL_TRY(shoal_fragments_finish(s));
  for (uint64_t f = 0; f < s->plan->fragments; f++) s->parts[f].under_way = false;
  return SHOAL_OK;
}

/* ---------------------------------------------------------------------------------------------------- checkpoints */

static const char *sum_name(uint64_t f, char name[32])
{
  snprintf(name, 32, "method/sum_%llu", (unsigned long long)f);
  return name;
}

static const char *error_name(uint64_t f, char name[48])
{
  snprintf(name, 48, "outer_error_%llu", (unsigned long long)f);
  return name;
}

shoal_status shoal_fragments_put(const shoal_run *r, const shoal_fragments *s, shoal_ckpt_writer *c)
{
  SHOAL_TRY(shoal_fragments_finish(s));
  shoal_ckpt_put_i64(c, algorithm_saved, (int64_t)shoal_fragments_algorithm(s));
  shoal_ckpt_put_i64(c, count_saved, (int64_t)s->plan->fragments);
  if (s->outer->wire != SHOAL_WIRE_F32) shoal_ckpt_put_i64(c, wire_saved, (int64_t)s->outer->wire);
  for (uint64_t f = 0; f < s->plan->fragments; f++) {
    const shoal_fragment *part = &s->parts[f];
    const uint64_t n = part->n;
    size_t kept;
    const float *error = shoal_exchange_errors(part->average, &kept);
    char name[32], own[48];
    if (s->outer->wire != SHOAL_WIRE_F32) shoal_ckpt_put_arena_replica(c, r->backend, error_name(f, own), kept, error);
    if (part->under_way) shoal_ckpt_put_arena(c, r->backend, sum_name(f, name), 1, &n, sum_of(s, part));
  }
  return SHOAL_OK;
}

static shoal_status get_algorithm(shoal_run *r, shoal_fragments *s, const shoal_ckpt *c)
{
  int64_t then;
  SHOAL_TRY(shoal_ckpt_get_i64(c, algorithm_saved, &then));
  bool known = then > SHOAL_SUM_AUTO && then < SHOAL_SUM_ALGORITHMS;
  if (s->algorithm != SHOAL_SUM_AUTO || !known || then == (int64_t)shoal_fragments_algorithm(s)) return SHOAL_OK;
  return plan_sums(r, s, (shoal_sum_algorithm)then);
}

/* What this rank kept, if it has the same shard.  Of other bits it is as good. */
static shoal_status get_error(const shoal_run *r, const shoal_fragments *s, uint64_t f, const shoal_ckpt *c)
{
  char own[48], name[80];
  shoal_dtype type;
  int ndim;
  uint64_t dims[8];
  size_t kept;
  float *error = shoal_exchange_errors(s->parts[f].average, &kept);
  snprintf(name, sizeof name, "replica/%d/%s", shoal_world_rank(r->world), error_name(f, own));
  if (!kept || !shoal_ckpt_has(c, name)) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_shape(c, name, &type, &ndim, dims));
  return ndim == 1 && dims[0] == kept ? shoal_ckpt_get(c, name, SHOAL_F32, kept, error) : SHOAL_OK;
}

/* Checkpoints of before there were fragments do not say how many.  Nothing of a run that sent weights is of
 * use to one that sends changes, nor the other way about. */
shoal_status shoal_fragments_get(shoal_run *r, shoal_fragments *s, const shoal_ckpt *c)
{
  int64_t count = 1, wire = SHOAL_WIRE_F32;
  if (shoal_ckpt_has(c, wire_saved)) SHOAL_TRY(shoal_ckpt_get_i64(c, wire_saved, &wire));
  if ((wire == SHOAL_WIRE_F32) != (s->outer->wire == SHOAL_WIRE_F32)) return SHOAL_OK;
  SHOAL_TRY(get_algorithm(r, s, c));
  if (shoal_ckpt_has(c, count_saved)) SHOAL_TRY(shoal_ckpt_get_i64(c, count_saved, &count));
  for (uint64_t f = 0; (uint64_t)count == s->plan->fragments && f < s->plan->fragments; f++) {
    shoal_fragment *part = &s->parts[f];
    char name[32];
    SHOAL_TRY(get_error(r, s, f, c));
    part->under_way = shoal_ckpt_has(c, sum_name(f, name));
    if (part->under_way) SHOAL_TRY(shoal_ckpt_get_arena(c, r->backend, name, part->n, sum_of(s, part)));
  }
  return SHOAL_OK;
}
