/* Exchanges: plan a sum once, start it in every step, test or wait for completion.
 *
 * The algorithm is fixed when the sum is planned, by the caller or by size and topology (node_layout.c).  All
 * algorithms are state machines that advance in shoal_world_progress and in waits; none allocates after planning. */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/exchange_impl.h"
#include <stdlib.h>

enum { STAMP_STRIDE = 37 }; /* so that one start fewer and one step more do not give the same tag */

/* All members must plan the same sum, or pieces would be added at the wrong offsets. */
static shoal_status compare_plan(shoal_group *g, const char *name, size_t n, shoal_wire wire,
                                 shoal_sum_algorithm algorithm)
{
  int64_t largest = (((int64_t)n << 3 | (int64_t)algorithm) << 3 | (int64_t)wire) << 1 | (g->w->away != NULL);
  int64_t smallest = -largest;
  int64_t mine = largest;
  SHOAL_TRY(shoal_group_agree_max(g, "exchange set-up", &largest));
  SHOAL_TRY(shoal_group_agree_max(g, "exchange set-up", &smallest));
  SHOAL_CHECK(
      largest == mine && -smallest == mine, SHOAL_ERR_ARG,
      "exchange \"%s\" of group %s: here %zu elements as %s by %s, but other members plan %lld to %lld elements "
      "(or another wire format or algorithm, or memory of another kind of device)",
      name, g->name, n, shoal_wire_name(wire), shoal_sum_name(algorithm), (long long)(-smallest >> 7),
      (long long)(largest >> 7));
  return SHOAL_OK;
}

static const shoal_flight_ops *ops_of(const shoal_exchange *e)
{
  if (e->fabric.on) return &shoal_fabric_sum_ops;
  return e->algorithm == SHOAL_SUM_SMALL ? &shoal_small_ops : &shoal_ring_ops;
}

static shoal_status plan_algorithm(shoal_exchange *e)
{
  if (e->fabric.on) return shoal_fabric_plan(e);
  return e->algorithm == SHOAL_SUM_SMALL ? shoal_small_plan(e) : shoal_ring_plan(e);
}

static shoal_status plan(shoal_exchange *e)
{
  SHOAL_CHECK(e->name, SHOAL_ERR_MEM, "out of memory: exchange");
  if (e->f.g->size == 1) return SHOAL_OK;
  uint64_t bytes[SHOAL_LINK_COUNT];
  shoal_exchange_bytes(e->f.g, e->whole, e->wire, e->algorithm, bytes);
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) e->bytes += bytes[link];
  shoal_status st = plan_algorithm(e);
  if (st == SHOAL_OK) st = shoal_stage_plan(e);
  if (st == SHOAL_OK)
    st = e->f.g->w->transport->reserve(e->f.g->w, e->slots);
  else
    e->slots = 0;
  return st;
}

shoal_status shoal_exchange_create_sum(shoal_group *g, const char *name, size_t n, shoal_wire wire,
                                       shoal_sum_algorithm algorithm, shoal_exchange **out)
{
  shoal_exchange *e;
  SHOAL_TRY(compare_plan(g, name, n, wire, algorithm));
  shoal_status st = SHOAL_ALLOC(1, &e);
  if (st == SHOAL_OK) {
    e->f = (shoal_flight){ .g = g };
    e->plan = g->plans;
    e->n = e->whole = n;
    e->wire = wire;
    e->algorithm = shoal_sum_choose(g, n, wire, algorithm);
    e->name = shoal_strdup_printf("exchange \"%s\"", name);
    e->f.name = e->name;
  } else {
    e = NULL;
  }
  g->plans++;
  st = shoal_group_agree(g, st);
  if (st == SHOAL_OK) shoal_fabric_take(e);
  if (st == SHOAL_OK) st = shoal_local_open(e);
  if (st == SHOAL_OK) st = shoal_stage_open(e);
  if (st == SHOAL_OK) st = shoal_group_agree(g, plan(e));
  if (st != SHOAL_OK)
    shoal_exchange_destroy(e);
  else
    *out = e;
  return st;
}

static void record(const shoal_exchange *e, shoal_trace_kind kind, uint64_t t0_ns, uint64_t t1_ns)
{
  shoal_group *g = e->f.g;
  if (!g->w->trace || g->w->trace != e->trace) return;
  shoal_trace_exchange x = { .op = e->op,
                             .group = shoal_group_trace_id(g),
                             .role = SHOAL_TRACE_ROLE_ALL,
                             .link = shoal_group_class(g, e->trace_peer),
                             .peer = g->world_ranks[e->trace_peer],
                             .bytes = e->bytes,
                             .seq = e->seq };
  shoal_trace_transfer(e->trace, kind, &x, t0_ns, t1_ns);
}

void shoal_exchange_record_end(shoal_exchange *e)
{
  e->ended_ns = shoal_now_ns();
  record(e, SHOAL_TRACE_EXCHANGE, e->f.started_ns, e->ended_ns);
}

/* Looks the name up once per recorder, because a lookup is too slow for the step.  Exchanges of a control group record
 * no spans: they are part of an evaluation or a checkpoint, which has its own. */
static void learn_trace(shoal_exchange *e)
{
  shoal_trace *trace = e->f.g->control ? NULL : e->f.g->w->trace;
  if (trace && trace != e->trace) e->op = shoal_trace_op(trace, e->name);
  e->trace = trace;
}

static shoal_status begin(shoal_exchange *e)
{
  e->f.ops = ops_of(e);
  if (e->algorithm != SHOAL_SUM_SMALL) return shoal_ring_start(e);
  shoal_small_start(e);
  return SHOAL_OK;
}

/* ---- until the vector is written, the flight has a table of its own ---- */

static shoal_status held_advance(shoal_flight *f, bool *moved, bool *done)
{
  shoal_exchange *e = (shoal_exchange *)f;
  if (!shoal_event_reached(e->ready)) return SHOAL_OK;
  f->g->w->watching -= f->watches;
  f->watches = e->local.n > 0;
  f->g->w->watching += f->watches;
  *moved = true;
  SHOAL_TRY(begin(e));
  return f->ops->advance(f, moved, done);
}

static int held_describe(shoal_flight *f, shoal_str *where, bool *missing)
{
  shoal_str_add(where, "this rank's backend has not written its vector yet");
  missing[f->g->rank] = true;
  return -1;
}

static void held_give_up(shoal_flight *f)
{
}

static const shoal_flight_ops held_ops = { held_advance, held_describe, held_give_up };

static void hold(shoal_exchange *e)
{
  e->f.ops = &held_ops;
  e->f.watches = true; /* the backend gives no notice */
}

shoal_status shoal_exchange_start(shoal_exchange *e, float *x, shoal_event ready)
{
  shoal_group *g = e->f.g;
  SHOAL_CHECK(!e->f.moving, SHOAL_ERR_ARG, "%s number %llu is still in flight: wait for it first", e->name,
              (unsigned long long)e->f.number);
  SHOAL_CHECK(e->f.status == SHOAL_OK, SHOAL_ERR_COMM, "%s failed before and cannot be started again", e->name);
  e->f.number++;
  if (g->size == 1) return SHOAL_OK;
  e->seq = ++g->starts;
  e->f.tag = shoal_group_plan_tag(g, e->plan, e->seq + STAMP_STRIDE * e->stamp);
  e->x = x;
  e->ready = ready;
  learn_trace(e);
  if (e->fabric.on) {
    e->f.ops = ops_of(e);
    shoal_fabric_start(e, x, ready);
    return shoal_flight_start(&e->f);
  }
  if (e->stage.backend) SHOAL_TRY(shoal_stage_start(e, x, ready));
  if (e->stage.backend || shoal_event_reached(ready))
    SHOAL_TRY(begin(e));
  else
    hold(e);
  return shoal_flight_start(&e->f);
}

static size_t errors_of(const shoal_exchange *e)
{
  if (e->wire == SHOAL_WIRE_F32 || e->f.g->size == 1) return 0;
  return e->algorithm == SHOAL_SUM_SMALL ? e->n : e->in.steps ? e->cut.n : 0;
}

shoal_status shoal_exchange_keep_errors(shoal_exchange *e)
{
  return errors_of(e) ? shoal_alloc(errors_of(e), sizeof *e->error, e->name, (void **)&e->error) : SHOAL_OK;
}

float *shoal_exchange_errors(const shoal_exchange *e, size_t *n)
{
  *n = e->error ? errors_of(e) : 0;
  return e->error;
}

void shoal_exchange_stamp(shoal_exchange *e, uint64_t stamp)
{
  e->stamp = stamp;
}

shoal_sum_algorithm shoal_exchange_algorithm(const shoal_exchange *e)
{
  return e->algorithm;
}

bool shoal_exchange_done(const shoal_exchange *e)
{
  return !e->f.moving;
}

shoal_status shoal_exchange_wait(shoal_exchange *e)
{
  uint64_t t0 = shoal_now_ns();
  bool moving = e->f.moving;
  shoal_status st = moving ? shoal_flight_wait(&e->f) : shoal_flight_result(&e->f);
  /* A wait ends at the same nanosecond as the transfer.  One that found it complete is a point in time. */
  if (st == SHOAL_OK && e->seq) record(e, SHOAL_TRACE_WAIT, t0, moving ? e->ended_ns : t0);
  return st;
}

void shoal_exchange_destroy(shoal_exchange *e)
{
  if (!e) return;
  shoal_flight_end(&e->f, SHOAL_ERR_COMM);
  if (e->slots) (void)e->f.g->w->transport->reserve(e->f.g->w, -e->slots);
  /* After an error MPI may still access the buffers.  They are leaked on purpose; the run is about to end. */
  if (e->f.status == SHOAL_OK) {
    free(e->in.buffer);
    free(e->out.buffer);
    free(e->blocks);
    free(e->error);
    shoal_fabric_drop(e);
  }
  shoal_stage_close(e);
  shoal_local_free(e);
  shoal_halving_free(e);
  free(e->streams);
  free(e->name);
  free(e);
}
