/* See fabric_impl.h: which sums are a fabric's, turns, and the phases of a sum. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/exchange_impl.h"
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------------- opening */

typedef struct { /* of a rank, compared by all */
  shoal_fabric_facts facts;
  int32_t failed;
  char why[160];
} report;

static report report_of(const shoal_fabric_facts *facts, shoal_status st)
{
  report r;
  shoal_error own;
  memset(&r, 0, sizeof r); /* padding too, because it is sent */
  r.facts = *facts;
  r.failed = (int32_t)st;
  if (st == SHOAL_OK) return r;
  shoal_error_take(&own);
  memcpy(r.why, own.text, SHOAL_MIN(strlen(own.text), sizeof r.why - 1));
  return r;
}

static const char *host_of(const shoal_world *w, int rank)
{
  return w->topo->places[rank].host;
}

/* The first reason against it, which is the same on all ranks, or "". */
static void find_reason(const shoal_world *w, const report *all, char *out, size_t cap)
{
  *out = 0;
  for (int pass = 0; pass < 2; pass++) /* who failed by itself comes first */
    for (int r = 0; r < w->size && !*out; r++)
      if (all[r].failed && (pass || all[r].failed != SHOAL_ERR_PEER))
        snprintf(out, cap, "rank %d (%s): %s", r, host_of(w, r), all[r].why);
  for (int r = 1; r < w->size && !*out; r++)
    if (all[r].facts.version != all[0].facts.version)
      snprintf(out, cap, "rank 0 (%s) has version %s and rank %d (%s) version %s: load the same one everywhere",
               host_of(w, 0), all[0].facts.version_text, r, host_of(w, r), all[r].facts.version_text);
  for (int r = 1; r < w->size && !*out; r++)
    for (int q = 0; q < r && !*out; q++)
      if (memcmp(all[q].facts.device, all[r].facts.device, sizeof all[r].facts.device) == 0)
        snprintf(out, cap, "ranks %d and %d (%s) share one GPU: give each its own, in Slurm by --gpus-per-task=1", q, r,
                 host_of(w, r));
}

/* All ranks learn whether there is a reason against it. */
static shoal_status compare(shoal_world *w, const shoal_fabric_facts *facts, shoal_status st, char *reason, size_t cap)
{
  report mine = report_of(facts, st), *all;
  SHOAL_TRY(shoal_group_agree(w->control, SHOAL_ALLOC((size_t)w->size, &all)));
  st = shoal_group_allgather_control(w->control, &mine, sizeof mine, all);
  if (st == SHOAL_OK) find_reason(w, all, reason, cap);
  free(all);
  return st;
}

static shoal_status open_library(shoal_world *w, shoal_fabric_facts *facts, shoal_fabric **out)
{
  SHOAL_CHECK(w->away, SHOAL_ERR_DEVICE, "it trains without a GPU");
  SHOAL_CHECK(w->shares || w->topo->places[w->rank].local_size == 1, SHOAL_ERR_UNSUPPORTED,
              "ranks of a node share no memory");
#ifdef SHOAL_WITH_NCCL
  return shoal_nccl_open(w->away, facts, out);
#else
  return SHOAL_FAIL(SHOAL_ERR_UNSUPPORTED, "NCCL is not built in; configure again where nccl.h is found");
#endif
}

/* The node's ranks, and their pages.  Collective over the world. */
static shoal_status open_node(shoal_fabric *f)
{
  shoal_world *w = f->w;
  int *ranks, n = 0;
  SHOAL_TRY(shoal_group_agree(w->control, SHOAL_ALLOC((size_t)w->size, &ranks)));
  for (int r = 0; r < w->size; r++)
    if (w->topo->places[r].node == w->topo->places[w->rank].node) ranks[n++] = r;
  shoal_status st = shoal_group_make(w, "NCCL", ranks, n, true, &f->node);
  free(ranks);
  SHOAL_TRY(shoal_group_agree(w->control, st));
  SHOAL_TRY(shoal_group_share(f->node, sizeof *f->own, (void **)&f->own));
  SHOAL_TRY(shoal_group_agree(w->control, SHOAL_ALLOC((size_t)n, &f->page)));
  for (int i = 0; i < n; i++) f->page[i] = i == f->node->rank ? f->own : shoal_group_memory_of(f->node, f->own, i);
  return SHOAL_OK;
}

static bool is_wanted(const shoal_world *w, shoal_fabric_use use)
{
  return use == SHOAL_FABRIC_ALL ? w->size > 1 : use == SHOAL_FABRIC_NODE && w->topo->nodes < w->size;
}

static shoal_status connect_all(shoal_fabric *f, const shoal_fabric_facts *facts, char *reason, size_t cap)
{
  SHOAL_TRY(open_node(f));
  shoal_status st = f->ops->connect(f, f->everywhere);
  if (st == SHOAL_ERR_COMM) f->w->broken = true; /* a rank is lost */
  SHOAL_TRY(f->w->broken ? st : SHOAL_OK);
  return compare(f->w, facts, st, reason, cap);
}

shoal_status shoal_world_open_fabric(shoal_world *w, shoal_fabric_use use)
{
  char reason[400] = "";
  shoal_fabric_facts facts = { 0 };
  shoal_fabric *f = NULL;
  int64_t any = w->away != NULL;
  if (!is_wanted(w, use)) return SHOAL_OK;
  SHOAL_TRY(shoal_group_agree_max(w->control, "devices", &any));
  if (!any) return SHOAL_OK;
  shoal_status st = compare(w, &facts, open_library(w, &facts, &f), reason, sizeof reason);
  if (f) {
    f->w = w;
    f->backend = w->away;
    f->everywhere = use == SHOAL_FABRIC_ALL;
  }
  if (st == SHOAL_OK && !*reason) st = connect_all(f, &facts, reason, sizeof reason);
  if (st == SHOAL_OK && !*reason) {
    shoal_info("sums of ranks %s by NCCL %s", f->everywhere ? "everywhere" : "inside a node", facts.version_text);
    w->fabric = f;
    return SHOAL_OK;
  }
  if (f) f->ops->abort(f);
  shoal_fabric_close(f);
  if (st == SHOAL_OK && w->rank == 0)
    shoal_warn("sums go through MPI and pinned memory, which is slower than NCCL: %s", reason);
  return st;
}

/* The library first: while it takes leave of the other ranks it looks at their pages. */
void shoal_fabric_close(shoal_fabric *f)
{
  if (!f) return;
  shoal_group *node = f->node;
  shoal_fabric_page *own = f->own, **page = f->page;
  f->ops->close(f);
  if (node) {
    shoal_group_unshare(node, own);
    shoal_group_destroy(node);
  }
  free(page);
}

const char *shoal_world_fabric(const shoal_world *w)
{
  return w->fabric ? w->fabric->ops->name : NULL;
}

/* --------------------------------------------------------------------------------------------------- what it does */

bool shoal_fabric_suits(const shoal_group *g)
{
  const shoal_world *w = g->w;
  if (!w->fabric || g->size == 1) return false;
  const shoal_place *places = w->topo->places, *first = &places[g->world_ranks[0]];
  const shoal_node_table *t = &g->nodes;
  for (int r = 0; r < g->size; r++) {
    const shoal_place *p = &places[g->world_ranks[r]];
    int all = t->begin[t->node[r] + 1] - t->begin[t->node[r]];
    if (all != p->local_size || t->place[r] != p->local_rank || p->local_size != first->local_size) return false;
  }
  return first->local_size > 1 || (w->fabric->everywhere && g->size == w->size);
}

void shoal_fabric_take(shoal_exchange *e)
{
  shoal_node_layout s;
  shoal_group *g = e->f.g;
  shoal_fabric_sum *m = &e->fabric;
  if (e->algorithm != SHOAL_SUM_TWO_LEVEL) return;
  shoal_node_layout_find(g, e->wire, e->algorithm, &s);
  if (!s.fabric) return;
  bool may = g->w->fabric->everywhere && g->size == g->w->size && e->wire == SHOAL_WIRE_F32;
  if (s.locals == 1 && !may) return; /* a ring is all there is to it */
  m->on = g->w->fabric;
  m->everywhere = may && s.nodes > 1;
  m->rings = s.nodes > 1 && !m->everywhere;
  m->local = s.local;
  m->locals = s.locals;
  m->begin = shoal_shard_begin(&s, e->whole, s.local);
  m->plan = ++m->on->plans;
  e->n = shoal_shard_size(&s, e->whole, s.local);
}

shoal_status shoal_fabric_plan(shoal_exchange *e)
{
  shoal_fabric_sum *m = &e->fabric;
  shoal_node_layout *s = &e->layout;
  shoal_node_layout_find(e->f.g, e->wire, e->algorithm, s);
  e->trace_peer = s->nodes > 1 ? s->right : shoal_node_layout_member(e->f.g, e->algorithm, (s->local + 1) % s->locals);
  e->f.watches = true; /* it gives no notice */
  SHOAL_TRY(m->on->ops->event_create(m->on, &m->event));
  if (!m->rings) return SHOAL_OK;
  s->locals = s->owners = s->most = 1;
  s->local = 0;
  return shoal_ring_plan_shard(e);
}

static void count(shoal_exchange *e)
{
  const shoal_fabric_sum *m = &e->fabric;
  shoal_flight *f = &e->f;
  for (int q = 0; q < m->locals; q++)
    if (q != m->local && e->n)
      shoal_flight_count(f, shoal_node_layout_member(f->g, e->algorithm, q), 2 * e->n * sizeof(float));
  if (!m->everywhere) return;
  int n = e->layout.nodes, mine = e->layout.node;
  size_t once = shoal_part_size(e->n, 1, n, mine) + shoal_part_size(e->n, 1, n, (mine + 1) % n);
  if (2 * e->n > once) shoal_flight_count(f, e->layout.right, (2 * e->n - once) * sizeof(float));
}

/* ---------------------------------------------------------------------------------------------------------- turns */

static uint64_t start_word(const shoal_exchange *e)
{
  return e->f.number << 32 | (uint32_t)e->f.tag;
}

static uint64_t what(const shoal_exchange *e)
{
  return e->fabric.plan << 1 | (e->fabric.phase == SHOAL_FABRIC_RETURNS);
}

static void append(shoal_exchange *e)
{
  shoal_fabric *f = e->fabric.on;
  e->fabric.next = NULL;
  if (f->last)
    f->last->fabric.next = e;
  else
    f->first = e;
  f->last = e;
}

static void take_out(shoal_exchange *e)
{
  shoal_fabric *f = e->fabric.on;
  shoal_exchange *before = NULL, *at = f->first;
  for (; at && at != e; at = at->fabric.next) before = at;
  if (!at) return;
  if (before)
    before->fabric.next = e->fabric.next;
  else
    f->first = e->fabric.next;
  if (f->last == e) f->last = before;
}

/* The first rank writes its call down, unless the others are far behind. */
static shoal_exchange *decide(shoal_fabric *f)
{
  shoal_exchange *e = f->first;
  uint64_t turns = atomic_load_explicit(&f->own->turns, memory_order_relaxed);
  if (!e) return NULL;
  for (int i = 1; i < f->node->size; i++)
    if (turns - atomic_load_explicit(&f->page[i]->taken, memory_order_acquire) >= SHOAL_FABRIC_SLOTS) return NULL;
  f->own->turn[turns % SHOAL_FABRIC_SLOTS].what = what(e);
  f->own->turn[turns % SHOAL_FABRIC_SLOTS].start = start_word(e);
  atomic_store_explicit(&f->own->turns, turns + 1, memory_order_release);
  return e;
}

static bool has_turn(const shoal_fabric *f, const shoal_exchange *e)
{
  const shoal_fabric_page *p = f->page[0];
  size_t k = f->taken % SHOAL_FABRIC_SLOTS;
  return p->turn[k].what == what(e) && p->turn[k].start == start_word(e);
}

static bool is_turn_written(const shoal_fabric *f)
{
  return atomic_load_explicit(&f->page[0]->turns, memory_order_acquire) > f->taken;
}

static shoal_exchange *next_turn(shoal_fabric *f)
{
  shoal_exchange *e = f->first;
  if (f->node->rank == 0) return decide(f);
  if (!is_turn_written(f)) return NULL;
  while (e && !has_turn(f, e)) e = e->fabric.next;
  if (!e) return NULL;
  f->taken++;
  atomic_store_explicit(&f->own->taken, f->taken, memory_order_release);
  return e;
}

static shoal_status begin(shoal_exchange *e)
{
  const shoal_fabric_sum *m = &e->fabric;
  shoal_fabric_call c = { .everywhere = m->everywhere, .x = m->x, .n = e->whole, .event = m->event };
  bool first = m->phase == SHOAL_FABRIC_CALLS;
  c.kind = !m->rings ? SHOAL_FABRIC_SUM : first ? SHOAL_FABRIC_SCATTER : SHOAL_FABRIC_GATHER;
  c.after = first ? m->ready : e->stage.last;
  return m->on->ops->begin(m->on, &c);
}

/* Makes the calls whose turn it is, whoever asks. */
static shoal_status take_turns(shoal_fabric *f, bool *moved)
{
  for (;;) {
    if (f->begun) {
      bool entered = false;
      SHOAL_TRY(f->ops->entered(f, &entered));
      if (!entered) return SHOAL_OK;
      f->begun->fabric.phase++;
      f->begun = NULL;
      *moved = true;
    }
    shoal_exchange *e = next_turn(f);
    if (!e) return SHOAL_OK;
    take_out(e);
    f->begun = e;
    SHOAL_TRY(begin(e));
  }
}

/* --------------------------------------------------------------------------------------------------------- phases */

void shoal_fabric_start(shoal_exchange *e, float *x, shoal_event ready)
{
  shoal_fabric_sum *m = &e->fabric;
  shoal_fabric *f = m->on;
  m->x = x;
  m->ready = ready.number;
  m->phase = SHOAL_FABRIC_CALLS;
  atomic_store_explicit(&f->own->started[m->plan % SHOAL_FABRIC_STARTED], start_word(e), memory_order_release);
  append(e);
}

/* A lost rank breaks the library's connections, too.  Its own error is told when the hang detector, which looks once a second and
 * lets one rank of the node report, found nobody missing. */
static shoal_status look(shoal_fabric *f, bool *rests)
{
  enum { GRACE_S = 10 };
  *rests = f->failed_ns != 0;
  SHOAL_CHECK(!f->aborted, SHOAL_ERR_COMM, "%s was aborted after another failure", f->ops->name);
  if (!f->failed_ns) {
    shoal_status st = f->ops->look(f);
    if (st == SHOAL_OK) return SHOAL_OK;
    shoal_error_keep(&f->failure, st);
    f->failed_ns = shoal_now_ns();
    *rests = true;
  }
  return shoal_seconds_since(f->failed_ns) < GRACE_S ? SHOAL_OK : shoal_error_put(&f->failure);
}

static shoal_status end_call(shoal_exchange *e, bool *moved)
{
  shoal_fabric_sum *m = &e->fabric;
  bool yes = false;
  SHOAL_TRY(m->on->ops->reached(m->on, m->event, &yes));
  if (!yes) return SHOAL_OK;
  *moved = true;
  if (m->phase == SHOAL_FABRIC_ENDS || !m->rings) {
    m->phase = SHOAL_FABRIC_OVER;
    return SHOAL_OK;
  }
  m->phase = SHOAL_FABRIC_RINGS;
  SHOAL_TRY(shoal_stage_start(e, m->x + m->begin, (shoal_event){ 0 }));
  return shoal_ring_start(e);
}

static shoal_status fabric_advance(shoal_flight *flight, bool *moved, bool *done)
{
  shoal_exchange *e = (shoal_exchange *)flight;
  shoal_fabric_sum *m = &e->fabric;
  bool rests, over = false;
  SHOAL_TRY(look(m->on, &rests));
  if (rests) return SHOAL_OK;
  SHOAL_TRY(take_turns(m->on, moved));
  if (m->phase == SHOAL_FABRIC_RUNS || m->phase == SHOAL_FABRIC_ENDS) SHOAL_TRY(end_call(e, moved));
  if (m->phase == SHOAL_FABRIC_RINGS) {
    SHOAL_TRY(shoal_ring_turn(e, moved, &over));
    if (over) {
      m->phase = SHOAL_FABRIC_RETURNS;
      append(e);
      SHOAL_TRY(take_turns(m->on, moved));
    }
  }
  *done = m->phase == SHOAL_FABRIC_OVER;
  if (!*done) return SHOAL_OK;
  count(e);
  shoal_exchange_record_end(e);
  return SHOAL_OK;
}

/* The ranks of this node that are not in the same start; and what is known of those elsewhere, which is nothing. */
static int fabric_describe(shoal_flight *flight, shoal_str *where, bool *missing)
{
  static const char *const phases[] = { "before its first call", "in its first call", "",
                                        "before its last call",  "in its last call",  "over" };
  shoal_exchange *e = (shoal_exchange *)flight;
  const shoal_fabric_sum *m = &e->fabric;
  const shoal_fabric *f = m->on;
  const shoal_group *g = flight->g;
  int peer = -1;
  if (m->phase == SHOAL_FABRIC_RINGS) return shoal_ring_ops.describe(flight, where, missing);
  shoal_str_add(where, "NCCL inside the node: %s, %zu elements", phases[m->phase], e->whole);
  if (f->failed_ns) shoal_str_add(where, ", %s", f->failure.text);
  for (int i = f->node->size - 1; i >= 0; i--) {
    uint64_t word = atomic_load_explicit(&f->page[i]->started[m->plan % SHOAL_FABRIC_STARTED], memory_order_acquire);
    int rank = f->node->world_ranks[i];
    if (word == start_word(e) || word >> 32 > flight->number) continue;
    for (int r = 0; r < g->size; r++)
      if (g->world_ranks[r] == rank) missing[peer = r] = true;
    if (word >> 32 == flight->number)
      shoal_str_add(where, ", rank %d is in another start of it: it skipped one or runs ahead", rank);
  }
  bool waits = m->phase == SHOAL_FABRIC_CALLS || m->phase == SHOAL_FABRIC_RETURNS;
  if (waits && f->node->rank && is_turn_written(f) && !has_turn(f, e))
    shoal_str_add(where, ", after another sum, which rank %d has started and this rank has not",
                  f->node->world_ranks[0]);
  for (int r = 0; peer < 0 && m->everywhere && r < g->size; r++)
    missing[r] |= !shoal_node_layout_same_node(g, e->algorithm, r, g->rank);
  return peer;
}

static void fabric_give_up(shoal_flight *flight)
{
  shoal_exchange *e = (shoal_exchange *)flight;
  shoal_fabric *f = e->fabric.on;
  if (e->fabric.phase == SHOAL_FABRIC_RINGS) shoal_ring_ops.give_up(flight);
  take_out(e);
  if (f->begun == e) f->begun = NULL;
  if (!f->aborted) f->ops->abort(f);
  f->aborted = true;
}

const shoal_flight_ops shoal_fabric_sum_ops = { fabric_advance, fabric_describe, fabric_give_up };

void shoal_fabric_drop(shoal_exchange *e)
{
  if (e->fabric.event) e->fabric.on->ops->event_destroy(e->fabric.on, e->fabric.event);
}
