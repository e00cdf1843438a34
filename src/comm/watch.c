/* The hang detector: names the missing ranks when a wait does not end.
 *
 * It runs only while this rank is blocked, and it measures the time without progress: a slow exchange that progresses
 * is not a hang, nor is one that stalled because this rank did not poll.  After warn_s a warning says what this rank
 * waits for and which ranks have sent nothing; after hang_s the same text becomes ERR_HANG, with this rank's stack
 * trace.
 *
 *     exchange "bucket 3" number 31 of group world has not moved for 30 s in step 1200 (step 2 of 6 of the ring):
 *     waiting for rank 1 (n1); not heard from: rank 1 (n1), rank 0 (n0)
 *
 * In a ring a rank receives from one neighbour only, so it lists the members whose part was not in the data received:
 * the rank that hangs is on every list, and its successor's list is the longest.  What that neighbour has sent instead,
 * if anything, distinguishes a member that skipped an operation (or has another order) from one that sends nothing.
 *
 * If the process of a rank on the same node no longer exists, the wait ends within seconds, as a lost peer and not as a
 * hang. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/group_impl.h"
#include <execinfo.h>
#include <stdlib.h>

static void add_member(const shoal_group *g, int rank, shoal_str *out)
{
  int world_rank = g->world_ranks[rank];
  const shoal_topo *topo = g->w->topo;
  shoal_str_add(out, "rank %d", world_rank);
  if (topo) shoal_str_add(out, " (%s)", topo->places[world_rank].host);
}

static void add_missing(const shoal_group *g, const bool *missing, shoal_str *out)
{
  enum { NAMED_MAX = 8 };
  int named = 0, more = 0;
  for (int r = 0; r < g->size; r++) {
    if (!missing[r]) continue;
    if (named == NAMED_MAX) {
      more++;
      continue;
    }
    shoal_str_add(out, named++ ? ", " : "; not heard from: ");
    add_member(g, r, out);
  }
  if (more) shoal_str_add(out, " and %d more", more);
}

/* What the peer has sent instead, as its tag tells. */
static void add_instead(shoal_flight *f, int peer, shoal_str *out)
{
  const shoal_group *g = f->g;
  int tag;
  size_t bytes;
  if (peer < 0 || !g->channel || !g->w->transport->peek(g->channel, peer, &tag, &bytes)) return;
  shoal_str_add(out, "; it has sent %zu bytes for something else: ", bytes);
  if (tag == f->tag)
    shoal_str_add(out, "the same call, but more than expected");
  else if (tag < SHOAL_TAG_COLLECTIVE)
    shoal_str_add(out, "a message with tag %d", tag);
  else if (tag < SHOAL_TAG_PLAN)
    shoal_str_add(out, "a collective call of this group (its number modulo %d is %d)", SHOAL_TAG_COLLECTIVES,
                  tag - SHOAL_TAG_COLLECTIVE);
  else if (tag / SHOAL_TAG_STARTS == f->tag / SHOAL_TAG_STARTS)
    shoal_str_add(out, "this exchange, but another start of it: it skipped one or runs ahead");
  else
    shoal_str_add(out, "another exchange of this group (plan %d): it skipped this one or has another order",
                  (tag - SHOAL_TAG_PLAN) / SHOAL_TAG_STARTS + 1);
}

static void describe(shoal_flight *f, double seconds, shoal_str *out)
{
  const shoal_group *g = f->g;
  bool *missing = calloc((size_t)g->size, sizeof *missing);
  shoal_str where = { 0 };
  if (!missing) return;
  int peer = f->ops->describe(f, &where, missing);
  shoal_str_add(out, "%s number %llu of group %s has not moved for %.3g s in training step %llu (%s)", f->name,
                (unsigned long long)f->number, g->name, seconds, (unsigned long long)g->w->step,
                where.text ? where.text : "");
  if (peer >= 0) {
    shoal_str_add(out, ": waiting for ");
    add_member(g, peer, out);
  }
  add_missing(g, missing, out);
  add_instead(f, peer, out);
  shoal_str_free(&where);
  free(missing);
}

/* Stack trace of this rank; frames of static functions appear as addresses, for addr2line. */
static void log_stack(void)
{
  void *frames[32];
  int n = backtrace(frames, (int)SHOAL_COUNT(frames));
  char **names = backtrace_symbols(frames, n);
  for (int i = 2; names && i < n; i++) shoal_log(SHOAL_LOG_ERROR, "  stack %2d: %s", i - 2, names[i]);
  free(names);
}

/* At most once a second, since it reads files.  A process that has exited ends the wait at once, whatever the limit. */
static shoal_status check_peers_alive(shoal_watch *watch, shoal_flight *f)
{
  if (shoal_seconds_since(watch->checked_ns) < 1) return SHOAL_OK;
  watch->checked_ns = shoal_now_ns();
  shoal_status st = shoal_share_check_peers(f->g->w);
  if (st != SHOAL_OK) shoal_flight_end(f, st);
  return st;
}

shoal_status shoal_watch_check(shoal_watch *watch, shoal_flight *f)
{
  const shoal_world_options *o = &f->g->w->o;
  double blocked = shoal_seconds_since(SHOAL_MAX(watch->since_ns, f->moved_ns));
  if (blocked >= 1) SHOAL_TRY(check_peers_alive(watch, f));
  if (blocked < (watch->warned ? o->hang_s : SHOAL_MIN(o->warn_s, o->hang_s))) return SHOAL_OK;
  shoal_str text = { 0 };
  shoal_status st = SHOAL_OK;
  describe(f, blocked, &text);
  if (blocked >= o->hang_s) {
    st = SHOAL_FAIL(SHOAL_ERR_HANG, "%s; gave up after %.3g s", text.text ? text.text : f->name, o->hang_s);
    log_stack();
    shoal_flight_end(f, st);
  } else {
    shoal_warn("%s; giving up after %.3g s", text.text ? text.text : f->name, o->hang_s);
    watch->warned = true;
  }
  shoal_str_free(&text);
  return st;
}
