/* DASO's sums between nodes; see core.h for the groups and schedule.h for the times. */
#include "method/daso/core.h"
#include "base/clock.h"
#include "base/mem.h"
#include "method/common/average.h"
#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------------- planning */

static shoal_status allocate(shoal_run *r, shoal_memory *out)
{
  return r->backend->ops->alloc(r->backend, SHOAL_MEMORY_DEVICE, r->form->params->n * sizeof(float), out);
}

static shoal_status plan_slot(shoal_run *r, shoal_daso *c, int i)
{
  char name[32];
  shoal_daso_slot *s = &c->slot[i];
  snprintf(name, sizeof name, "across %d.%d", shoal_world_place(r->world)->local_rank, i);
  SHOAL_TRY(shoal_group_agree(c->across, allocate(r, &s->x)));
  SHOAL_TRY(
      shoal_exchange_create_sum(c->across, name, r->form->params->n, SHOAL_WIRE_F32, SHOAL_SUM_RING, &s->exchange));
  c->slots = i + 1;
  return SHOAL_OK;
}

/* If there is only one group, it may have to start a sum before its last one is collected. */
static shoal_status plan_sums(shoal_run *r, shoal_daso *c, shoal_wire wire, bool delta)
{
  size_t n = r->form->params->n;
  for (int i = 0; i < (c->groups == 1 ? SHOAL_DASO_SUMS : 1); i++) SHOAL_TRY(plan_slot(r, c, i));
  shoal_exchange_bytes(c->across, n, SHOAL_WIRE_F32, SHOAL_SUM_RING, c->ring);
  if (wire == SHOAL_WIRE_F32) return SHOAL_OK;
  SHOAL_TRY(shoal_parcels_create(r->backend, c->across, n, wire, &c->parcels));
  shoal_parcels_bytes(c->across, n, c->half);
  if (!delta) return SHOAL_OK;
  return shoal_group_agree(c->across, allocate(r, &c->common));
}

static shoal_status name_events(shoal_run *r, shoal_daso *c)
{
  static const char *const names[] = { "start", "collect", "block", "drop" };
  for (int j = 0; j < c->groups; j++) {
    shoal_group_broadcast_bytes(c->node, r->form->params->n * sizeof(float), j, c->broadcast[j]);
    for (size_t act = 0; act < SHOAL_COUNT(names); act++) {
      char name[48];
      snprintf(name, sizeof name, "daso %s %d", names[act], j);
      c->op[j][act] = shoal_trace_op(r->trace, name);
    }
  }
  c->op_parcels = shoal_trace_op(r->trace, "parcels");
  return SHOAL_OK;
}

shoal_status shoal_daso_open(shoal_run *r, shoal_wire wire, bool delta, float adjustment, shoal_daso *c)
{
  const shoal_topo *t = shoal_world_topo(r->world);
  c->nodes = t->nodes;
  c->groups = t->size;
  c->adjustment = adjustment;
  for (int rank = 0; rank < t->size; rank++) c->groups = SHOAL_MIN(c->groups, t->places[rank].local_size);
  SHOAL_TRY(shoal_group_create_node(r->world, &c->node));
  r->alike = c->node;
  shoal_status st = SHOAL_ALLOC((size_t)c->groups, &c->broadcast);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)c->groups, &c->op);
  if (st == SHOAL_OK) st = r->backend->ops->alloc(r->backend, SHOAL_MEMORY_PINNED, sizeof(uint32_t), &c->flag);
  SHOAL_TRY(shoal_group_agree(r->control, st));
  SHOAL_TRY(name_events(r, c));
  int local = shoal_world_place(r->world)->local_rank;
  if (c->nodes > 1 && local < c->groups) {
    SHOAL_TRY(shoal_group_create_across(r->world, local, &c->across));
    SHOAL_TRY(plan_sums(r, c, wire, delta));
  }
  return shoal_daso_adopt(r, c, true);
}

void shoal_daso_close(shoal_run *r, shoal_daso *c)
{
  for (int i = 0; i < SHOAL_DASO_SUMS; i++) {
    shoal_exchange_destroy(c->slot[i].exchange);
    r->backend->ops->release(r->backend, &c->slot[i].x);
  }
  shoal_parcels_destroy(c->parcels);
  r->backend->ops->release(r->backend, &c->common);
  r->backend->ops->release(r->backend, &c->flag);
  free(c->op);
  free(c->broadcast);
  shoal_group_destroy(c->across);
  shoal_group_destroy(c->node);
}

/* ---------------------------------------------------------------------------------------------------------- slots */

shoal_daso_slot *shoal_daso_pending(shoal_daso *c, int i)
{
  shoal_daso_slot *first = NULL, *second = NULL;
  for (int k = 0; k < c->slots; k++) {
    shoal_daso_slot *s = &c->slot[k];
    if (!s->busy) continue;
    if (!first || s->serial < first->serial) {
      second = first;
      first = s;
    } else {
      second = s;
    }
  }
  return i == 0 ? first : second;
}

static shoal_daso_slot *take_slot(shoal_daso *c)
{
  shoal_daso_slot *s = c->slot[0].busy ? &c->slot[c->slots - 1] : &c->slot[0];
  s->busy = true;
  s->complete = false;
  s->serial = ++c->serial;
  return s;
}

shoal_daso_slot *shoal_daso_restore(shoal_daso *c)
{
  shoal_daso_slot *s = take_slot(c);
  s->complete = true;
  return s;
}

static shoal_status wait_for(shoal_daso_slot *s)
{
  if (!s->complete) SHOAL_TRY(shoal_exchange_wait(s->exchange));
  s->complete = true;
  return SHOAL_OK;
}

shoal_status shoal_daso_settle(shoal_daso *c)
{
  for (int i = 0; i < c->slots; i++)
    if (c->slot[i].busy) SHOAL_TRY(wait_for(&c->slot[i]));
  return SHOAL_OK;
}

shoal_status shoal_daso_adopt(shoal_run *r, shoal_daso *c, bool equal)
{
  c->equal = equal;
  if (!c->common.at) return SHOAL_OK;
  return r->backend->ops->copy(r->backend, c->common.bytes, r->form->params->w, c->common.at);
}

/* --------------------------------------------------------------------------------------------------------- events */

static void count(shoal_run *r, const uint64_t bytes[SHOAL_LINK_COUNT])
{
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) r->sent[link] += bytes[link];
}

/* NaN or infinity must not be sent: it would spread to the models of all nodes. */
static shoal_status copy_finite(const shoal_run *r, shoal_daso *c, float *to)
{
  const shoal_backend_ops *ops = r->backend->ops;
  const uint32_t *bad = c->flag.at;
  SHOAL_TRY(ops->copy_checked(r->backend, r->form->params->n, r->form->params->w, to, c->flag.at));
  SHOAL_TRY(ops->settle(r->backend));
  SHOAL_CHECK(!*bad, SHOAL_ERR_NUMERIC,
              "weights of this rank are not finite at step %llu: they are not sent to other nodes; try a smaller "
              "optim.lr, or optim.clip",
              (unsigned long long)r->step);
  return SHOAL_OK;
}

static shoal_status start_sum(shoal_run *r, shoal_daso *c)
{
  shoal_daso_slot *s = take_slot(c);
  SHOAL_TRY(copy_finite(r, c, s->x.at));
  shoal_exchange_stamp(s->exchange, r->step);
  SHOAL_TRY(shoal_exchange_start(s->exchange, s->x.at, shoal_backend_mark(r->backend)));
  count(r, c->ring);
  return SHOAL_OK;
}

/* x ← (a S x + Σ) / (a S + P) with the adjustment a: the older the sum, the more the local weights count. */
static shoal_status blend(shoal_run *r, shoal_daso *c, uint64_t age)
{
  shoal_daso_slot *s = shoal_daso_pending(c, 0);
  float own = age ? c->adjustment * (float)age : 1, all = own + (float)c->nodes;
  SHOAL_TRY(wait_for(s));
  s->busy = false;
  return r->backend->ops->axpby(r->backend, r->form->params->n, 1 / all, s->x.at, own / all, r->form->params->w);
}

static shoal_status drop(shoal_daso *c)
{
  shoal_daso_slot *s = shoal_daso_pending(c, 0);
  SHOAL_TRY(wait_for(s));
  s->busy = false;
  return SHOAL_OK;
}

static shoal_status mean_in_parcels(shoal_run *r, shoal_daso *c)
{
  uint64_t t0 = shoal_now_ns();
  shoal_trace_exchange x = { .op = c->op_parcels,
                             .group = shoal_group_trace_id(c->across),
                             .role = SHOAL_TRACE_ROLE_ALL,
                             .link = SHOAL_LINK_BETWEEN,
                             .peer = -1,
                             .seq = r->step + 1 };
  SHOAL_TRY(shoal_parcels_mean(c->parcels, c->common.at, r->form->params->w));
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) x.bytes += c->half[link];
  shoal_trace_blocked(r->trace, &x, t0, shoal_now_ns());
  count(r, c->half);
  return SHOAL_OK;
}

static shoal_status mean_in_f32(shoal_run *r, shoal_daso *c)
{
  SHOAL_TRY(start_sum(r, c));
  shoal_daso_slot *s = shoal_daso_pending(c, 0);
  SHOAL_TRY(wait_for(s));
  s->busy = false;
  return r->backend->ops->axpby(r->backend, r->form->params->n, 1 / (float)c->nodes, s->x.at, 0, r->form->params->w);
}

static shoal_status hand_to_node(shoal_run *r, shoal_daso *c, int root)
{
  count(r, c->broadcast[root]);
  SHOAL_TRY(shoal_broadcast_arena(r->backend, c->node, r->form->params->w, r->form->params->n, root));
  r->form->params->version++;
  return SHOAL_OK;
}

static shoal_status act(shoal_run *r, shoal_daso *c, const shoal_daso_event *e, bool half)
{
  bool mine = c->across && shoal_world_place(r->world)->local_rank == e->group;
  switch (e->act) {
  case SHOAL_DASO_START:
    return mine ? start_sum(r, c) : SHOAL_OK;
  case SHOAL_DASO_DROP:
    return mine ? drop(c) : SHOAL_OK;
  case SHOAL_DASO_COLLECT:
    if (mine) SHOAL_TRY(blend(r, c, e->wait));
    return hand_to_node(r, c, e->group);
  case SHOAL_DASO_BLOCK:
    if (mine) SHOAL_TRY(half && c->parcels ? mean_in_parcels(r, c) : mean_in_f32(r, c));
    SHOAL_TRY(hand_to_node(r, c, e->group));
    return shoal_daso_adopt(r, c, true);
  }
  return SHOAL_OK;
}

shoal_status shoal_daso_perform(shoal_run *r, shoal_daso *c, const shoal_daso_event *e, bool half)
{
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(act(r, c, e, half));
  shoal_trace_span(r->trace, SHOAL_TRACE_OTHER, c->op[e->group][e->act], t0, shoal_now_ns());
  return SHOAL_OK;
}
