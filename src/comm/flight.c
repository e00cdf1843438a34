/* Flights: operations in flight, progressed while the rank computes.
 *
 * The world keeps a list of them, oldest first.  Progress means one poll of the transport and then a test of each
 * flight's slots; if nothing is in flight it costs one comparison.  The order of the list never affects results: every
 * flight has its own tags.
 *
 * A poll that completes nothing has still progressed MPI itself (which works only inside its calls), and the effect
 * shows in the next poll.  So a progress call polls once more before it returns: exchanges then advance in one call
 * instead of two, which matters because calls are a few milliseconds apart while layers compute. */
#include "base/clock.h"
#include "comm/group_impl.h"
#include <sched.h>

static void enter(shoal_flight *f)
{
  shoal_world *w = f->g->w;
  f->next = NULL;
  f->previous = w->newest;
  if (w->newest)
    w->newest->next = f;
  else
    w->in_flight = f;
  w->newest = f;
  w->watching += f->watches;
  f->moving = true;
}

void shoal_flight_end(shoal_flight *f, shoal_status st)
{
  shoal_world *w = f->g->w;
  if (!f->moving) return;
  if (f->previous)
    f->previous->next = f->next;
  else
    w->in_flight = f->next;
  if (f->next)
    f->next->previous = f->previous;
  else
    w->newest = f->previous;
  w->watching -= f->watches;
  f->moving = false;
  f->status = st;
  if (st != SHOAL_OK) f->ops->give_up(f);
}

static void keep_failure(shoal_world *w, shoal_status st)
{
  w->broken = true;
  if (w->failure_known) w->failure.code = SHOAL_OK;
  w->failure_known = false;
  shoal_error_keep(&w->failure, st);
}

static shoal_status advance(shoal_flight *f, bool *moved)
{
  bool here = false, done = false;
  shoal_status st = f->ops->advance(f, &here, &done);
  if (here) f->moved_ns = shoal_now_ns();
  if (st != SHOAL_OK) keep_failure(f->g->w, st);
  if (st != SHOAL_OK || done) shoal_flight_end(f, st);
  *moved |= here;
  return st;
}

shoal_status shoal_flight_start(shoal_flight *f)
{
  f->started_ns = f->moved_ns = shoal_now_ns();
  f->status = SHOAL_OK;
  bool moved = false;
  enter(f);
  return advance(f, &moved);
}

static shoal_status advance_all(shoal_world *w, bool *moved)
{
  shoal_status st = SHOAL_OK;
  for (shoal_flight *f = w->in_flight, *next; f; f = next) {
    next = f->next; /* only f can leave the list here */
    shoal_status now = advance(f, moved);
    if (st == SHOAL_OK) st = now;
  }
  return st;
}

/* Not reentrant: what the hook does may make progress and would call it again.  It is called again when it is over. */
static shoal_status call_hook(shoal_world *w)
{
  shoal_status st = SHOAL_OK;
  if (!w->hook) return SHOAL_OK;
  w->hook_due = true;
  if (w->in_hook) return SHOAL_OK;
  w->in_hook = true;
  while (st == SHOAL_OK && w->hook_due && w->hook) {
    w->hook_due = false;
    st = w->hook(w->hook_context);
  }
  w->in_hook = false;
  return st;
}

/* Whether only a request could come, which has time: with more ranks than cores an unsuccessful poll yields the core. */
static bool may_rest(shoal_world *w)
{
  enum { LISTEN_NS = 5000000 };
  if (w->in_flight != w->listening || w->newest != w->listening) return false;
  uint64_t now = shoal_now_ns();
  if (now - w->listened_ns < LISTEN_NS) return true;
  w->listened_ns = now;
  return false;
}

shoal_status shoal_world_progress(shoal_world *w)
{
  enum { ROUNDS_MAX = 16 }; /* bounds the time a fast sender can keep this rank from computing */
  if (w->listener) {
    if (w->asked(w->asked_context)) SHOAL_TRY(shoal_rendezvous_request(w->listener, 1));
    if (may_rest(w)) return SHOAL_OK;
  }
  for (int rounds = 0, idle = 0; w->in_flight && rounds < ROUNDS_MAX && idle < 2; rounds++) {
    size_t completed = 0;
    bool moved = false;
    SHOAL_TRY(w->transport->poll(w, &completed));
    bool advances = completed || w->watching || w->polled;
    w->polled = false;
    if (advances) SHOAL_TRY(advance_all(w, &moved));
    if (completed || moved)
      SHOAL_TRY(call_hook(w));
    else
      idle++;
  }
  if (w->abandoned) shoal_messages_sweep(w, false);
  return SHOAL_OK;
}

/* A flight can fail in any poll, and others may fail because of it; the first error is the cause and is kept. */
shoal_status shoal_flight_result(const shoal_flight *f)
{
  shoal_world *w = f->g->w;
  if (f->status == SHOAL_OK || w->failure.code == SHOAL_OK) return f->status;
  w->failure_known = true;
  return shoal_error_as(shoal_error_put(&w->failure), f->status);
}

shoal_status shoal_flight_wait(shoal_flight *f)
{
  shoal_watch watch = { .since_ns = shoal_now_ns() };
  while (f->moving) {
    shoal_status st = shoal_world_progress(f->g->w);
    if (st != SHOAL_OK) {
      f->g->w->failure_known = true;
      return st;
    }
    if (f->moving) SHOAL_TRY(shoal_watch_check(&watch, f));
    if (f->moving && f->watches) sched_yield(); /* the rank we wait for may need this core; MPI yields by itself */
  }
  return shoal_flight_result(f);
}

shoal_status shoal_flight_look(shoal_flight *f, int slot, int peer, size_t expected, bool *finished)
{
  const shoal_world *w = f->g->w;
  size_t got = 0;
  shoal_slot_state state = w->transport->state(w, slot, &got);
  if (state == SHOAL_SLOT_WRONG_SIZE && peer == SHOAL_FROM_ANY) peer = w->transport->sender(w, slot);
  SHOAL_CHECK(
      state != SHOAL_SLOT_WRONG_SIZE, SHOAL_ERR_COMM,
      "%s number %llu of group %s: rank %d (%s) sent %zu bytes where %zu were expected: the members call it with "
      "different sizes",
      f->name, (unsigned long long)f->number, f->g->name, f->g->world_ranks[peer],
      w->topo ? w->topo->places[f->g->world_ranks[peer]].host : "?", got, expected);
  *finished = state == SHOAL_SLOT_DONE;
  return SHOAL_OK;
}

shoal_status shoal_flight_send(shoal_flight *f, const void *data, size_t bytes, int to, int *slot)
{
  shoal_group *g = f->g;
  SHOAL_TRY(g->w->transport->send(g->channel, data, bytes, to, f->tag, slot));
  shoal_flight_count(f, to, bytes);
  return SHOAL_OK;
}

void shoal_flight_count(shoal_flight *f, int peer, uint64_t bytes)
{
  const shoal_group *g = f->g;
  shoal_counters *c = g->w->counters;
  shoal_link link = f->control ? SHOAL_LINK_CONTROL : shoal_group_class(g, peer);
  c->payload[link] += bytes;
  c->wire[link] += shoal_wire_model(shoal_group_link(g, peer), bytes);
  c->messages[link]++;
}

shoal_status shoal_flight_recv(shoal_flight *f, void *data, size_t bytes, int from, int *slot)
{
  return f->g->w->transport->recv(f->g->channel, data, bytes, from, f->tag, slot);
}
