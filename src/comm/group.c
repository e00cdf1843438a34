/* Groups: who is in, over which link each member is reached, and how bytes are counted.
 *
 * A group of one has no channel; everything it is asked for is already true.  Larger ones get a channel of their own
 * from the transport, so that nothing sent in one group can be mistaken for something of another.
 *
 *     node groups      across groups            world  0 1 2 3 4 5
 *     [0 1 2] [3 4 5]  [0 3] [1 4] [2 5]        node   0 0 0 1 1 1
 *
 * Agreement lives here too, because each group carries the state for it from the start: telling others of an
 * error must not need memory. */
#include "comm/group.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/group_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 66, SEGMENT_BYTES = 1448 }; /* the wire model: see group_impl.h */

uint64_t shoal_wire_model(shoal_link link, uint64_t bytes)
{
  return link == SHOAL_LINK_BETWEEN ? bytes + HEADER_BYTES * ((bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES) : bytes;
}

/* -------------------------------------------------------------------------------------------------- making groups */

static shoal_status check_members(const shoal_world *w, const char *name, const int *ranks, int n, int *me)
{
  bool *seen;
  shoal_status st = SHOAL_OK;
  SHOAL_CHECK(n >= 1, SHOAL_ERR_ARG, "group %s has %d members", name, n);
  SHOAL_TRY(SHOAL_ALLOC((size_t)w->size, &seen));
  *me = -1;
  for (int i = 0; i < n; i++) {
    SHOAL_CHECK_GOTO(st, ranks[i] >= 0 && ranks[i] < w->size, done, SHOAL_ERR_ARG,
                     "group %s names rank %d, but the world has %d", name, ranks[i], w->size);
    SHOAL_CHECK_GOTO(st, !seen[ranks[i]], done, SHOAL_ERR_ARG, "group %s names rank %d twice", name, ranks[i]);
    seen[ranks[i]] = true;
    if (ranks[i] == w->rank) *me = i;
  }
  SHOAL_CHECK_GOTO(st, *me >= 0, done, SHOAL_ERR_ARG, "rank %d makes group %s without being in it", w->rank, name);
done:
  free(seen);
  return st;
}

shoal_status shoal_group_make(shoal_world *w, const char *name, const int *ranks, int n, bool control,
                              shoal_group **out)
{
  shoal_status st;
  shoal_group *g;
  int me = -1;
  SHOAL_TRY(check_members(w, name, ranks, n, &me));
  SHOAL_TRY(SHOAL_ALLOC(1, &g));
  g->w = w;
  g->rank = me;
  g->size = n;
  g->control = control;
  g->name = strdup(name);
  SHOAL_CHECK_GOTO(st, g->name, fail, SHOAL_ERR_MEM, "out of memory: group %s", name);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)n, &g->world_ranks), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)n, &g->links), fail);
  memcpy(g->world_ranks, ranks, (size_t)n * sizeof *ranks);
  shoal_group_learn_links(g);
  shoal_agreement_init(&g->agreement, g, "agreement");
  if (n > 1) SHOAL_TRY_GOTO(st, w->transport->connect(w, ranks, n, &g->channel), fail);
  *out = g;
  return SHOAL_OK;
fail:
  shoal_group_destroy(g);
  return st;
}

shoal_status shoal_group_create(shoal_world *w, const char *name, const int *world_ranks, int n, shoal_group **out)
{
  return shoal_group_make(w, name, world_ranks, n, false, out);
}

/* The ranks of a node in their order; or, with node -1, those with local rank == `local_rank` in the order of the nodes,
 * which in an uneven layout need not be that of the ranks.  `ranks` has room for all. */
static int select_places(const shoal_topo *t, int node, int local_rank, int *ranks)
{
  int n = 0;
  for (int r = 0; r < t->size; r++) {
    const shoal_place *p = &t->places[r];
    if (node < 0 && p->local_rank == local_rank) ranks[p->node] = r;
    if (p->node == node) ranks[n++] = r;
  }
  return node < 0 ? t->nodes : n;
}

static shoal_status create_selected(shoal_world *w, const char *kind, int node, int local_rank, shoal_group **out)
{
  int *ranks;
  char name[64];
  SHOAL_TRY(SHOAL_ALLOC((size_t)w->size, &ranks));
  int n = select_places(w->topo, node, local_rank, ranks);
  snprintf(name, sizeof name, "%s %d", kind, node >= 0 ? node : local_rank);
  shoal_status st = shoal_group_create(w, name, ranks, n, out);
  free(ranks);
  return st;
}

shoal_status shoal_group_create_node(shoal_world *w, shoal_group **out)
{
  return create_selected(w, "node", w->topo->places[w->rank].node, -1, out);
}

shoal_status shoal_group_create_across(shoal_world *w, int local_rank, shoal_group **out)
{
  int smallest = w->size;
  for (int r = 0; r < w->size; r++) smallest = SHOAL_MIN(smallest, w->topo->places[r].local_size);
  SHOAL_CHECK(local_rank >= 0 && local_rank < smallest, SHOAL_ERR_ARG,
              "a group across nodes of local rank %d, but the smallest node has %d ranks", local_rank, smallest);
  return create_selected(w, "across", -1, local_rank, out);
}

void shoal_group_destroy(shoal_group *g)
{
  if (!g) return;
  g->w->transport->disconnect(g->channel);
  shoal_self_empty(&g->letters);
  free(g->links);
  free(g->world_ranks);
  free(g->name);
  free(g);
}

void shoal_group_learn_links(shoal_group *g)
{
  for (int r = 0; r < g->size; r++) {
    if (g->w->topo)
      g->links[r] = shoal_topo_link(g->w->topo, g->w->rank, g->world_ranks[r]);
    else
      g->links[r] = r == g->rank ? SHOAL_LINK_SELF : SHOAL_LINK_NODE;
  }
}

int shoal_group_rank(const shoal_group *g)
{
  return g->rank;
}

int shoal_group_size(const shoal_group *g)
{
  return g->size;
}

int shoal_group_world_rank(const shoal_group *g, int rank)
{
  return g->world_ranks[rank];
}

shoal_link shoal_group_link(const shoal_group *g, int rank)
{
  return g->links[rank];
}

const char *shoal_group_name(const shoal_group *g)
{
  return g->name;
}

shoal_link shoal_group_class(const shoal_group *g, int rank)
{
  return g->control ? SHOAL_LINK_CONTROL : g->links[rank];
}

int shoal_group_next_call(shoal_group *g, uint64_t *number)
{
  *number = ++g->calls;
  return SHOAL_TAG_COLLECTIVE + (int)(g->calls % SHOAL_TAG_COLLECTIVES);
}

int shoal_group_plan_tag(const shoal_group *g, uint64_t plan, uint64_t number)
{
  uint64_t plans = (uint64_t)SHOAL_MAX(g->w->plan_tags, 1);
  return SHOAL_TAG_PLAN + (int)(plan % plans * SHOAL_TAG_STARTS + number % SHOAL_TAG_STARTS);
}

/* ------------------------------------------------------------------------------------------------------ agreement */

shoal_status shoal_group_agree_max(shoal_group *g, const char *name, int64_t *value)
{
  uint64_t number;
  int tag = shoal_group_next_call(g, &number);
  g->agreement.f.name = name;
  SHOAL_TRY(shoal_agreement_start(&g->agreement, number, tag, *value));
  shoal_status st = shoal_flight_wait(&g->agreement.f);
  shoal_flight_end(&g->agreement.f, st);
  if (st == SHOAL_OK) *value = g->agreement.value;
  return st;
}

shoal_status shoal_group_barrier(shoal_group *g)
{
  int64_t nothing = 0;
  return shoal_group_agree_max(g, "barrier", &nothing);
}

/* The largest of these wins: failed before not failed, then the lowest rank; its status rides along. */
static int64_t failure_key(int rank, shoal_status st)
{
  return st == SHOAL_OK ? 0 : (int64_t)1 << 62 | (int64_t)(INT32_MAX - rank) << 8 | (int64_t)st;
}

static int failed_rank(const shoal_group *g, int64_t key)
{
  return g->world_ranks[INT32_MAX - (int)(key >> 8 & INT32_MAX)];
}

shoal_status shoal_group_agree(shoal_group *g, shoal_status mine)
{
  int64_t key = failure_key(g->rank, mine);
  shoal_status st = shoal_group_agree_max(g, "agreement", &key);
  if (mine != SHOAL_OK) return mine;
  SHOAL_TRY(st);
  if (!key) return SHOAL_OK;
  int rank = failed_rank(g, key);
  return SHOAL_FAIL(SHOAL_ERR_PEER, "rank %d (%s) failed: %s", rank, g->w->topo ? g->w->topo->places[rank].host : "?",
                    shoal_status_text((shoal_status)(key & 0xff)));
}

shoal_status shoal_group_agree_once(shoal_group *g, shoal_status mine)
{
  shoal_quiet_errors(-1);
  int64_t key = failure_key(g->rank, mine);
  shoal_status st = shoal_group_agree_max(g, "agreement", &key);
  if (st != SHOAL_OK || !key) {
    if (mine != SHOAL_OK) shoal_log(SHOAL_LOG_ERROR, "%s", shoal_first_error());
    return mine != SHOAL_OK ? mine : st;
  }
  int rank = failed_rank(g, key);
  if (rank == g->world_ranks[g->rank]) shoal_log(SHOAL_LOG_ERROR, "%s", shoal_first_error());
  if (mine != SHOAL_OK) return mine;
  shoal_quiet_errors(1);
  st = SHOAL_FAIL((shoal_status)(key & 0xff), "rank %d refused; see its line", rank);
  shoal_quiet_errors(-1);
  return st;
}

/* ------------------------------------------------------------------------------------------------ point to point */

static shoal_status check_pair(const shoal_group *g, int peer, int tag)
{
  SHOAL_CHECK(peer >= 0 && peer < g->size, SHOAL_ERR_ARG, "no rank %d in group %s of %d", peer, g->name, g->size);
  SHOAL_CHECK(tag >= 0 && tag < SHOAL_TAG_COLLECTIVE, SHOAL_ERR_ARG, "message tag %d: choose 0 to %d", tag,
              SHOAL_TAG_COLLECTIVE - 1);
  return SHOAL_OK;
}

shoal_status shoal_group_send(shoal_group *g, const void *data, size_t bytes, int to, int tag)
{
  SHOAL_TRY(check_pair(g, to, tag));
  if (to != g->rank) {
    shoal_stream s = shoal_stream_out(data, bytes, to);
    return shoal_streams_run(g, "send", (uint64_t)tag, tag, false, &s, 1);
  }
  shoal_link link = shoal_group_class(g, to);
  SHOAL_TRY(shoal_self_put(&g->letters, data, bytes, tag));
  g->w->counters->payload[link] += bytes;
  g->w->counters->wire[link] += bytes;
  g->w->counters->messages[link] += bytes > 0;
  return SHOAL_OK;
}

shoal_status shoal_group_recv(shoal_group *g, void *data, size_t bytes, int from, int tag)
{
  SHOAL_TRY(check_pair(g, from, tag));
  if (from == g->rank) return shoal_self_take(&g->letters, data, bytes, tag);
  shoal_stream s = shoal_stream_in(data, bytes, from);
  return shoal_streams_run(g, "receive", (uint64_t)tag, tag, false, &s, 1);
}

/* A message in flight is a set of one stream. */
struct shoal_message {
  shoal_streams all;
  shoal_stream stream;
  char *name;
};

shoal_status shoal_message_create(shoal_group *g, const char *name, shoal_message **out)
{
  shoal_message *m;
  shoal_status st;
  SHOAL_TRY(SHOAL_ALLOC(1, &m));
  m->name = shoal_strdup_printf("message \"%s\"", name);
  SHOAL_CHECK_GOTO(st, m->name, fail, SHOAL_ERR_MEM, "out of memory: message %s", name);
  m->all =
      (shoal_streams){ .f = { .ops = &shoal_streams_ops, .g = g, .name = m->name }, .streams = &m->stream, .n = 1 };
  SHOAL_TRY_GOTO(st, g->w->transport->reserve(g->w, SHOAL_STREAM_WINDOW), fail);
  *out = m;
  return SHOAL_OK;
fail:
  free(m->name);
  free(m);
  return st;
}

static shoal_status start_message(shoal_message *m, shoal_stream s, int tag)
{
  shoal_group *g = m->all.f.g;
  SHOAL_TRY(check_pair(g, s.peer, tag));
  SHOAL_CHECK(s.peer != g->rank, SHOAL_ERR_ARG, "%s to oneself (rank %d of group %s): copy instead", m->name, g->rank,
              g->name);
  SHOAL_CHECK(!m->all.f.moving, SHOAL_ERR_ARG, "%s is still in flight: wait for it first", m->name);
  m->stream = s;
  m->all.f.number++;
  m->all.f.tag = tag;
  return shoal_flight_start(&m->all.f);
}

shoal_status shoal_message_send(shoal_message *m, const void *data, size_t bytes, int to, int tag)
{
  return start_message(m, shoal_stream_out(data, bytes, to), tag);
}

shoal_status shoal_message_recv(shoal_message *m, void *data, size_t bytes, int from, int tag)
{
  return start_message(m, shoal_stream_in(data, bytes, from), tag);
}

bool shoal_message_done(const shoal_message *m)
{
  return !m->all.f.moving;
}

shoal_status shoal_message_wait(shoal_message *m)
{
  return shoal_flight_wait(&m->all.f);
}

void shoal_message_destroy(shoal_message *m)
{
  if (!m) return;
  shoal_world *w = m->all.f.g->w;
  shoal_flight_end(&m->all.f, SHOAL_ERR_COMM);
  w->transport->reserve(w, -SHOAL_STREAM_WINDOW);
  free(m->name);
  free(m);
}
