/* The hang detector: names the missing ranks when a wait does not end.
 *
 * It runs only while this rank is blocked, and it measures the time without progress: a slow exchange that progresses
 * is not a hang, nor is one that stalled because this rank did not poll.  After warn_s a warning says what this rank
 * waits for and which ranks have sent nothing; after hang_s the same text becomes ERR_HANG, with this rank's stack
 * trace.
 *
 *     exchange "bucket 3" number 31 of group world has not moved for 30 s in step 1200 (step 2 of 6 of the ring):
 *     waiting for rank 1 (n1); not heard from: rank 1, rank 0 (n0)
 *
 * In a ring a rank receives from one neighbour only, so it lists the members whose part was not in the data received:
 * the rank that hangs is on every list, and its successor's list is the longest.  What that neighbour has sent instead,
 * if anything, distinguishes a member that skipped an operation (or has another order) from one that sends nothing.
 *
 * One rank reports for the job (inquiry.c): the others are silent, and give up a little later.
 *
 * If the process of a rank on the same node no longer exists, the wait ends within seconds, as a lost peer and not as a
 * hang.
 *
 * A device that does not end what this rank waits for is told, and given up, after the same times. */
#include "base/activity.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/group_impl.h"
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>

static void add_member(const shoal_group *g, int rank, bool host, shoal_str *out)
{
  int world_rank = g->world_ranks[rank];
  const shoal_topo *topo = g->w->topo;
  shoal_str_add(out, "rank %d", world_rank);
  if (topo && host) shoal_str_add(out, " (%s)", topo->places[world_rank].host);
}

/* @param known  the member whose host is told already; -1: none */
static void add_missing(const shoal_group *g, const bool *missing, bool hosts, int known, shoal_str *out)
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
    add_member(g, r, hosts && r != known, out);
  }
  if (more) shoal_str_add(out, " and %d more", more);
}

/* What the peer has sent instead, as its tag tells. */
static void add_instead(shoal_flight *f, int peer, shoal_str *out)
{
  const shoal_group *g = f->g;
  int tag;
  size_t bytes;
  if (peer < 0 || !g->channel || !g->w->transport->peek(g->channel, &peer, &tag, &bytes)) return;
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

/* @param hosts  false: those of the ranks that are missing are told already */
static void describe(shoal_flight *f, double seconds, bool hosts, shoal_str *out)
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
    add_member(g, peer, hosts, out);
  }
  add_missing(g, missing, hosts, peer, out);
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

/* At most once a second, since it reads files.  A process that has exited ends the wait whatever the limit: at once on the
 * first rank of the node, and so the job.  The others leave in silence with it; they tell the loss later, the lowest that
 * lives before the rest, if that does not happen.  A rank for which another reports a hang needs no news of its end. */
static shoal_status check_peers_alive(shoal_watch *watch, shoal_flight *f)
{
  enum { LOWEST_S = 3, OTHERS_S = 6 };
  const shoal_world *w = f->g->w;
  bool lower_lives;
  if (shoal_seconds_since(watch->checked_ns) < 1) return SHOAL_OK;
  watch->checked_ns = shoal_now_ns();
  shoal_status st = shoal_share_check_peers(w, &lower_lives);
  if (st == SHOAL_OK) return SHOAL_OK;
  if (!watch->lost_ns) {
    bool answered = watch->listens && shoal_inquiry_answered(w), first = w->topo->places[w->rank].local_rank == 0;
    watch->lost_ns = watch->checked_ns;
    watch->lost_wait_s = lower_lives || answered ? OTHERS_S : first ? 0 : LOWEST_S;
  }
  if (shoal_seconds_since(watch->lost_ns) < watch->lost_wait_s) return SHOAL_OK;
  f->g->w->broken = true;
  shoal_flight_end(f, st);
  return st;
}

/* A rank that was suspended has not waited meanwhile: its partners may have been suspended, too, and wake later. */
static void forgive_pause(shoal_watch *watch)
{
  enum { PAUSE_S = 2 };
  uint64_t before = watch->seen_ns ? watch->seen_ns : watch->since_ns;
  watch->seen_ns = shoal_now_ns();
  if ((double)(watch->seen_ns - before) > PAUSE_S * 1e9) watch->since_ns = watch->seen_ns;
}

/* Work with files of ranks that are not known to wait: a disk may hold them.  Where that cannot be seen, what all do at this time. */
static void add_activities(const shoal_world *w, shoal_str *out)
{
  enum { NAMED_MAX = 3 };
  char text[3 * SHOAL_ACTIVITY_TEXT];
  double least_s = SHOAL_MIN(1, w->o.warn_s / 2);
  int named = 0;
  for (int r = 0; r < w->size && named < NAMED_MAX; r++) {
    if (r == w->rank || shoal_inquiry_waits(w, r) || !shoal_share_activity(w, r, least_s, text, sizeof text)) continue;
    shoal_str_add(out, "; rank %d is %s", r, text);
    named++;
  }
  if (!named && shoal_activity_describe_shared(least_s, text, sizeof text)) shoal_str_add(out, "; all are %s", text);
}

static void describe_all(shoal_flight *f, double seconds, shoal_str *out)
{
  bool told = shoal_inquiry_describe(f->g->w, seconds, out);
  describe(f, seconds, !told, out);
  add_activities(f->g->w, out);
}

static shoal_status give_up(shoal_flight *f, double blocked)
{
  shoal_str text = { 0 };
  describe_all(f, blocked, &text);
  shoal_status st =
      SHOAL_FAIL(SHOAL_ERR_HANG, "%s; gave up after %.3g s", text.text ? text.text : f->name, f->g->w->o.hang_s);
  log_stack();
  f->g->w->broken = true;
  shoal_flight_end(f, st);
  shoal_str_free(&text);
  return st;
}

/* Once the ranks that wait had time to say so, one of them warns. */
static void warn(shoal_watch *watch, shoal_flight *f, double blocked)
{
  shoal_world *w = f->g->w;
  if (shoal_inquiry_hold(w, SHOAL_MIN(2, w->o.warn_s / 2))) return;
  shoal_str text = { 0 };
  describe_all(f, blocked, &text);
  shoal_warn("%s; giving up after %.3g s", text.text ? text.text : f->name, w->o.hang_s);
  watch->warned = true;
  shoal_str_free(&text);
}

shoal_status shoal_watch_check(shoal_watch *watch, shoal_flight *f)
{
  shoal_world *w = f->g->w;
  const shoal_world_options *o = &w->o;
  forgive_pause(watch);
  double blocked = shoal_seconds_since(SHOAL_MAX(watch->since_ns, f->moved_ns));
  if (blocked >= 1) SHOAL_TRY(check_peers_alive(watch, f));
  if (blocked < o->warn_s / 2) return SHOAL_OK;
  if (!watch->listens) shoal_inquiry_begin(w);
  watch->listens = true;
  shoal_inquiry_listen(w);
  /* Who only noticed leaves later than who reports, and so in silence: the job has ended by then. */
  double limit = o->hang_s + (shoal_inquiry_answered(w) ? SHOAL_MIN(5, o->hang_s) : 0);
  if (blocked >= limit) return give_up(f, blocked);
  if (blocked >= o->warn_s && !watch->warned) warn(watch, f, blocked);
  return SHOAL_OK;
}

/* The device has no peers to ask, and this rank waits for nobody else meanwhile. */
shoal_status shoal_watch_device(void *world, double seconds, const char *what)
{
  shoal_world *w = world;
  const shoal_world_options *o = &w->o;
  const shoal_place *p = &w->topo->places[w->rank];
  const bool warns = seconds >= o->warn_s && w->device_s < o->warn_s;
  char text[500];
  w->device_s = seconds;
  if (seconds < o->hang_s && !warns) return SHOAL_OK;
  snprintf(text, sizeof text,
           "rank %d (%s): its device %s has not ended what it was asked for, for %.3g s in training step %llu: %s",
           w->rank, p->host, p->gpu ? p->gpu->id : "", seconds, (unsigned long long)w->step, what);
  if (seconds < o->hang_s) {
    shoal_warn("%s; giving up after %.3g s", text, o->hang_s);
    return SHOAL_OK;
  }
  w->broken = true;
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_HANG, "%s; gave up after %.3g s", text, o->hang_s);
  log_stack();
  return st;
}
