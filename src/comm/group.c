/* Groups: members, the link to each of them, and how bytes are counted.
 *
 * A group of one has no channel: its collectives have nothing to do.  Larger groups get their own channel from the
 * transport, so that messages of different groups cannot be confused.
 *
 *     node groups      across groups            world  0 1 2 3 4 5
 *     [0 1 2] [3 4 5]  [0 3] [1 4] [2 5]        node   0 0 0 1 1 1
 *
 * Agreement is here too, because each group allocates its state at creation: reporting an error must not need
 * memory. */
#include "comm/group.h"
#include "base/crc32c.h"
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

static shoal_status list_members(shoal_group *g, const int *ranks)
{
  shoal_world *w = g->w;
  int *own;
  if (!w->verdicts) SHOAL_TRY(SHOAL_ALLOC((size_t)w->size, &w->verdicts));
  g->everyone = g->size == w->size;
  for (int i = 0; i < g->size; i++) g->everyone = g->everyone && ranks[i] == i;
  if (!g->everyone || !w->ranks) {
    SHOAL_TRY(SHOAL_ALLOC((size_t)g->size, &own));
    memcpy(own, ranks, (size_t)g->size * sizeof *ranks);
    if (g->everyone)
      w->ranks = own;
    else
      g->world_ranks = own;
  }
  if (g->everyone) g->world_ranks = w->ranks;
  return SHOAL_OK;
}

void shoal_groups_free(shoal_world *w)
{
  shoal_node_table_free(&w->nodes);
  free(w->ranks);
  free(w->verdicts);
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
  SHOAL_TRY_GOTO(st, list_members(g, ranks), fail);
  SHOAL_TRY_GOTO(st, shoal_node_table_fill(g), fail);
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

/* The ranks of a node in rank order; or, with node -1, the ranks with that local rank in node order, which in an uneven
 * layout need not be rank order.  `ranks` has room for all. */
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
  shoal_self_empty(&g->self_messages);
  if (!g->everyone) {
    shoal_node_table_free(&g->nodes);
    free((void *)g->world_ranks);
  }
  free(g->name);
  free(g);
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
  if (rank == g->rank) return SHOAL_LINK_SELF;
  return g->nodes.node[rank] == g->nodes.node[g->rank] ? SHOAL_LINK_NODE : SHOAL_LINK_BETWEEN;
}

const char *shoal_group_name(const shoal_group *g)
{
  return g->name;
}

uint32_t shoal_group_trace_id(shoal_group *g)
{
  if (g->w->trace && g->trace != g->w->trace)
    g->trace_id = shoal_trace_group(g->w->trace, g->name, g->world_ranks, g->size);
  g->trace = g->w->trace;
  return g->trace ? g->trace_id : 0;
}

shoal_link shoal_group_class(const shoal_group *g, int rank)
{
  return g->control ? SHOAL_LINK_CONTROL : shoal_group_link(g, rank);
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

/* Finds the lowest rank that failed; -1 if none did or the agreement itself failed. */
static shoal_status first_failed(shoal_group *g, shoal_status mine, int *rank)
{
  int64_t last = mine == SHOAL_OK ? 0 : g->size - g->rank;
  *rank = -1;
  SHOAL_TRY(shoal_group_agree_max(g, "agreement", &last));
  if (last > 0) *rank = g->size - (int)last;
  return SHOAL_OK;
}

/* Saves the own error before the agreement, so that an error of the agreement itself does not replace it. */
static shoal_status agree_on_failure(shoal_group *g, shoal_status mine, shoal_error *own, int *rank)
{
  if (mine != SHOAL_OK) shoal_error_keep(own, mine);
  shoal_status st = first_failed(g, mine, rank);
  if (mine == SHOAL_OK) return st;
  return shoal_error_put(own);
}

static const char *host_of(const shoal_group *g, int rank)
{
  return g->w->topo ? g->w->topo->places[g->world_ranks[rank]].host : "?";
}

shoal_status shoal_group_agree_quietly(shoal_group *g, shoal_status mine)
{
  shoal_error own = { .code = SHOAL_OK };
  int rank;
  shoal_status st = agree_on_failure(g, mine, &own, &rank);
  if (st != SHOAL_OK || rank < 0) return st;
  return shoal_error_told(SHOAL_FAIL(SHOAL_ERR_PEER, "rank %d (%s) failed", g->world_ranks[rank], host_of(g, rank)));
}

/* ------------------------------------------------------------------------------------- agreement on what went wrong */

static bool is_cause(const shoal_verdict *v)
{
  return v->code != SHOAL_OK && v->code != SHOAL_ERR_PEER && v->code != SHOAL_STOPPED;
}

/* Whether this rank prints its text: not if it was printed already, and not if a lower rank has the same text. */
static bool prints_text(const shoal_verdict *all, int size, int rank)
{
  const shoal_verdict *mine = &all[rank];
  if (!is_cause(mine) || mine->told) return false;
  for (int r = 0; r < size; r++) {
    bool same = r != rank && is_cause(&all[r]) && all[r].crc == mine->crc && all[r].length == mine->length;
    if (same && (r < rank || all[r].told)) return false;
  }
  return true;
}

/* The most severe code, the same on every rank.  A request to stop counts only where nothing failed. */
static shoal_status most_severe(const shoal_verdict *all, int size)
{
  int32_t worst = SHOAL_OK;
  bool stops = false;
  for (int r = 0; r < size; r++) {
    if (all[r].code == SHOAL_STOPPED)
      stops = true;
    else
      worst = SHOAL_MAX(worst, is_cause(&all[r]) ? all[r].code : all[r].verdict);
  }
  if (worst == SHOAL_OK) return stops ? SHOAL_STOPPED : SHOAL_ERR_PEER;
  return (shoal_status)worst;
}

static void print_own(shoal_group *g, shoal_error *own)
{
  enum { TEXTS_MAX = 8 };
  int before = 0;
  if (!prints_text(g->w->verdicts, g->size, g->rank)) return;
  for (int r = 0; r < g->rank && before <= TEXTS_MAX; r++) before += prints_text(g->w->verdicts, g->size, r);
  if (before < TEXTS_MAX) {
    (void)shoal_error_put(own);
    shoal_error_report(own->code);
  } else if (before == TEXTS_MAX) {
    shoal_log(SHOAL_LOG_ERROR, "more ranks failed, with other messages");
  }
}

/* Ranks that did not fail get the text of the lowest rank that did. */
static shoal_status quote_cause(shoal_group *g, shoal_error *own)
{
  int culprit = 0;
  while (culprit < g->size && !is_cause(&g->w->verdicts[culprit])) culprit++;
  if (culprit == g->size) return SHOAL_OK; /* all ranks learnt of the failure elsewhere */
  char text[SHOAL_ERROR_TEXT] = "";
  if (culprit == g->rank) memcpy(text, own->text, strlen(own->text) + 1);
  size_t bytes = SHOAL_MIN((size_t)g->w->verdicts[culprit].length, sizeof text - 1);
  SHOAL_TRY(shoal_group_broadcast(g, text, bytes, culprit));
  if (is_cause(&g->w->verdicts[g->rank])) return SHOAL_OK;
  for (char *end = text; (end = strchr(end, '\n'));) *end = ';'; /* of several faults one line */
  (void)SHOAL_FAIL(SHOAL_ERR_PEER, "rank %d (%s) failed: %s", g->world_ranks[culprit], host_of(g, culprit), text);
  shoal_error_take(own);
  return SHOAL_OK;
}

/* Runs when at least one rank failed, and all know it.  Ends in a barrier, because launchers kill the other ranks when
 * one exits, and all texts must be printed before. */
static shoal_status report_failures(shoal_group *g, shoal_status mine, shoal_error *own)
{
  shoal_verdict v = { .code = (int32_t)mine, .verdict = (int32_t)own->verdict, .told = own->told };
  v.length = (uint32_t)strlen(own->text);
  v.crc = shoal_crc32c(0, own->text, v.length);
  SHOAL_TRY(shoal_group_allgather_control(g, &v, sizeof v, g->w->verdicts));
  print_own(g, own);
  SHOAL_TRY(quote_cause(g, own));
  own->verdict = most_severe(g->w->verdicts, g->size);
  own->told = true;
  return shoal_group_barrier(g);
}

shoal_status shoal_group_agree(shoal_group *g, shoal_status mine)
{
  shoal_error own = { .code = SHOAL_OK };
  int rank;
  shoal_status st = agree_on_failure(g, mine, &own, &rank);
  if (rank < 0 || g->size == 1) return st;
  st = report_failures(g, mine, &own);
  if (st == SHOAL_OK && own.verdict == SHOAL_STOPPED) return SHOAL_FAIL(SHOAL_STOPPED, "a signal asked to stop");
  if (own.code == SHOAL_OK) return st; /* not even the text of the cause arrived */
  return shoal_error_put(&own);
}

shoal_status shoal_group_settle(shoal_group *g, shoal_status mine)
{
  shoal_status st = shoal_group_agree(g, mine);
  return st == SHOAL_OK ? st : shoal_error_as(st, shoal_error_verdict(st));
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
  SHOAL_TRY(shoal_self_put(&g->self_messages, data, bytes, tag));
  g->w->counters->payload[link] += bytes;
  g->w->counters->wire[link] += bytes;
  g->w->counters->messages[link] += bytes > 0;
  return SHOAL_OK;
}

shoal_status shoal_group_recv(shoal_group *g, void *data, size_t bytes, int from, int tag)
{
  SHOAL_TRY(check_pair(g, from, tag));
  if (from == g->rank) return shoal_self_take(&g->self_messages, data, bytes, tag);
  shoal_stream s = shoal_stream_in(data, bytes, from);
  return shoal_streams_run(g, "receive", (uint64_t)tag, tag, false, &s, 1);
}

/* A message in flight is a set with one stream. */
struct shoal_message {
  shoal_streams all;
  shoal_stream stream;
  char *name;
  /* abandoned: memory that is freed with the message, from malloc or of the backend; and the next one */
  void *data;
  shoal_backend *backend;
  shoal_memory memory;
  shoal_message *next;
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
  SHOAL_TRY(check_pair(g, s.peer == SHOAL_FROM_ANY ? g->rank : s.peer, tag));
  SHOAL_CHECK(s.peer != g->rank, SHOAL_ERR_ARG, "%s from rank %d of group %s to itself: copy instead", m->name, g->rank,
              g->name);
  SHOAL_CHECK(!m->all.f.moving, SHOAL_ERR_ARG, "%s is still in flight: wait for it first", m->name);
  m->stream = s;
  m->all.first = 0;
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

shoal_status shoal_message_recv_any(shoal_message *m, void *data, size_t most, int tag)
{
  size_t limit = shoal_stream_longest(m->all.f.g->w);
  SHOAL_CHECK(most <= limit, SHOAL_ERR_ARG, "%s of up to %zu bytes from any rank: choose at most %zu", m->name, most,
              limit);
  return start_message(m, shoal_stream_in(data, most, SHOAL_FROM_ANY), tag);
}

int shoal_message_sender(const shoal_message *m)
{
  return m->stream.sender;
}

size_t shoal_message_received(const shoal_message *m)
{
  return m->stream.got;
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
  (void)w->transport->reserve(w, -SHOAL_STREAM_WINDOW);
  free(m->name);
  free(m);
}

static void leave_to_library(shoal_message *m)
{
  shoal_world *w = m->all.f.g->w;
  m->stream.bytes = m->stream.posted; /* nothing more is posted */
  m->next = w->abandoned;
  w->abandoned = m;
}

void shoal_message_abandon(shoal_message *m, shoal_backend *b, shoal_memory *memory)
{
  shoal_stream *s = &m->stream;
  shoal_world *w = m->all.f.g->w;
  for (int i = 0; m->all.f.moving && i < s->count; i++)
    w->transport->cancel(w, s->slot[(s->head + i) % SHOAL_STREAM_WINDOW]);
  m->backend = b;
  m->memory = *memory;
  *memory = (shoal_memory){ 0 };
  leave_to_library(m);
}

void shoal_messages_sweep(shoal_world *w, bool all)
{
  for (shoal_message **at = &w->abandoned, *m; (m = *at);) {
    if (!all && (m->all.f.moving || m->all.f.status != SHOAL_OK)) { /* a failed one may still be in the library */
      at = &m->next;
      continue;
    }
    *at = m->next;
    if (!all) (void)w->transport->reserve(w, -SHOAL_STREAM_WINDOW);
    free(m->data);
    if (m->backend) m->backend->ops->release(m->backend, &m->memory);
    free(m->name);
    free(m);
  }
}

shoal_status shoal_message_discard(shoal_group *g, int from, bool (*stale)(const void *context, int tag),
                                   const void *context)
{
  int tag;
  size_t bytes;
  while (g->w->transport->peek(g->channel, &from, &tag, &bytes) && stale(context, tag)) {
    shoal_message *m;
    void *data;
    SHOAL_TRY(shoal_message_create(g, "left over", &m));
    shoal_status st = shoal_alloc(SHOAL_MAX(bytes, (size_t)1), 1, "a message left over", &data);
    if (st == SHOAL_OK) st = shoal_message_recv(m, data, bytes, from, tag);
    if (st != SHOAL_OK) {
      shoal_message_destroy(m);
      return st;
    }
    m->data = data;
    leave_to_library(m);
  }
  return SHOAL_OK;
}
