/* The start and the links of shoal doctor.
 *
 * A pair is measured by one rank of each node, and inside a node by its ranks: round trips of 8 bytes, of which the quickest counts,
 * and a message in each direction that lasts about 50 ms, of which the fastest counts, so that other load on the machine does not
 * look like a slow link.  Pairs of a round have no member in common and are measured at the same time. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/doctor.h"
#include "comm/exchange.h"
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIPS = 20, TIMES = 5, TAG = 7 };
enum { SHORTEST = 256 << 10, LONGEST = 8 << 20 };

/* ---- the start ---- */

/* The last rank comes late: nobody may have left the fence before.  Times are those of rank 0's clock, with their errors, so that
 * a rank that is slow for other reasons does not look early. */
static shoal_status try_fence(shoal_world *w, shoal_findings *f)
{
  enum { LATE_US = 200000 };
  bool last = shoal_world_rank(w) == shoal_world_size(w) - 1;
  shoal_trace_reading clock;
  SHOAL_TRY(shoal_world_measure_clock(w, &clock));
  if (last) usleep(LATE_US);
  int64_t entered = last ? (int64_t)((double)shoal_now_ns() - clock.offset_ns - clock.bound_ns) : INT64_MIN;
  shoal_status st = shoal_world_fence();
  int64_t left = (int64_t)((double)shoal_now_ns() - clock.offset_ns + clock.bound_ns);
  SHOAL_TRY(shoal_group_max_i64(shoal_world_control(w), &entered, 1));
  if (st == SHOAL_ERR_UNSUPPORTED)
    shoal_find(f, "start", SHOAL_NOTE, -1,
               "no PMIx fence (%s): the start of large runs is not held until all ranks are there",
               shoal_error_text(st));
  else if (st != SHOAL_OK)
    shoal_find_error(f, "start", shoal_world_place(w)->node, st);
  else if (left < entered)
    shoal_find(f, "start", SHOAL_FAULT, shoal_world_place(w)->node,
               "the collecting fence of PMIx was left before all ranks had come: starts on several nodes may fail; "
               "update PMIx, or "
               "start by mpirun");
  return SHOAL_OK;
}

/* A sum over all ranks by the algorithm that a run would take, with a known result. */
static shoal_status try_sum(shoal_world *w, shoal_findings *f)
{
  enum { N = 1 << 18 };
  shoal_group *g = shoal_world_group(w);
  shoal_exchange *e = NULL;
  void *memory = NULL;
  int size = shoal_world_size(w), wrong = 0;
  uint64_t best = UINT64_MAX;
  SHOAL_TRY(shoal_group_share(g, N * sizeof(float), &memory));
  float *x = memory;
  shoal_status st = shoal_exchange_create_sum(g, "doctor", N, SHOAL_WIRE_F32, SHOAL_SUM_AUTO, &e);
  for (int time = 0; st == SHOAL_OK && time < TIMES; time++) {
    for (int i = 0; i < N; i++) x[i] = (float)((i & 1023) + shoal_world_rank(w));
    if ((st = shoal_group_barrier(shoal_world_control(w))) != SHOAL_OK) break;
    uint64_t t0 = shoal_now_ns();
    if ((st = shoal_exchange_start(e, x, (shoal_event){ 0 })) == SHOAL_OK) st = shoal_exchange_wait(e);
    best = SHOAL_MIN(best, shoal_now_ns() - t0);
    for (int i = 0; i < N; i++) wrong += x[i] != (float)((int64_t)(i & 1023) * size + (int64_t)size * (size - 1) / 2);
  }
  if (st == SHOAL_OK && wrong)
    shoal_find(f, "links", SHOAL_FAULT, shoal_world_place(w)->node,
               "rank %d has %d wrong values in a sum over all ranks", shoal_world_rank(w), wrong);
  if (st == SHOAL_OK && shoal_world_rank(w) == 0)
    shoal_find(f, "links", SHOAL_WELL, -1, "a sum of 1 MiB over all ranks (%s): %.3g ms, right on all of them",
               shoal_sum_name(shoal_exchange_algorithm(e)), (double)best * 1e-6);
  shoal_exchange_destroy(e);
  shoal_group_unshare(g, memory);
  return st;
}

shoal_status shoal_doctor_start(shoal_world *w, shoal_findings *f)
{
  if (shoal_world_size(w) == 1) return SHOAL_OK;
  const shoal_claims *c = shoal_world_claims(w);
  bool by_pmix = c->by[SHOAL_SOURCE_PMIX].number[SHOAL_CLAIM_RANKS] == shoal_world_size(w);
  SHOAL_TRY(try_fence(w, f));
  if (strcmp(shoal_world_threads(), "multiple") != 0)
    shoal_find(f, "start", SHOAL_NOTE, -1,
               "MPI allows threads \"%s\", not \"multiple\"; Shoal needs no more than \"funneled\"",
               shoal_world_threads());
  if (shoal_world_rank(w) == 0)
    shoal_find(f, "start", SHOAL_WELL, -1, "%d rank%s on %d node%s%s, %s, threads \"%s\"", shoal_world_size(w),
               shoal_world_size(w) == 1 ? "" : "s", shoal_world_topo(w)->nodes,
               shoal_world_topo(w)->nodes == 1 ? "" : "s", by_pmix ? " by PMIx" : "", shoal_world_library(),
               shoal_world_threads());
  return try_sum(w, f);
}

/* ---- pairs ---- */

typedef struct {
  shoal_group *g;
  char *buffer; /* [LONGEST] */
  const int *ranks;
  int n, me;
} team;

/* Half of the quickest round trip, on both sides about the same. */
static shoal_status ping(const team *t, int peer, bool first, int64_t *ns)
{
  int64_t best = INT64_MAX;
  for (int trip = 0; trip < TRIPS; trip++) {
    uint64_t t0 = shoal_now_ns();
    if (first) SHOAL_TRY(shoal_group_send(t->g, t->buffer, 8, t->ranks[peer], TAG));
    SHOAL_TRY(shoal_group_recv(t->g, t->buffer, 8, t->ranks[peer], TAG));
    if (!first) SHOAL_TRY(shoal_group_send(t->g, t->buffer, 8, t->ranks[peer], TAG));
    best = SHOAL_MIN(best, (int64_t)(shoal_now_ns() - t0));
  }
  *ns = SHOAL_MAX(best / 2, 1);
  return SHOAL_OK;
}

/* One message, and an empty answer when it is there; the sender's time. */
static shoal_status throw(const team *t, int peer, bool sends, size_t bytes, double *seconds)
{
  uint64_t t0 = shoal_now_ns();
  if (sends) {
    SHOAL_TRY(shoal_group_send(t->g, t->buffer, bytes, t->ranks[peer], TAG));
    SHOAL_TRY(shoal_group_recv(t->g, t->buffer, 8, t->ranks[peer], TAG));
  } else {
    SHOAL_TRY(shoal_group_recv(t->g, t->buffer, bytes, t->ranks[peer], TAG));
    SHOAL_TRY(shoal_group_send(t->g, t->buffer, 8, t->ranks[peer], TAG));
  }
  *seconds = shoal_seconds_since(t0);
  return SHOAL_OK;
}

/* The quickest of short messages tells how long one of 50 ms is; the first one, which may fit into queues on the way, does not
 * count. */
static shoal_status choose_bytes(const team *t, int peer, bool first, uint64_t *bytes)
{
  static const double LASTS_S = 0.05;
  double seconds, least = INFINITY;
  for (int i = 0; i < 4; i++) {
    SHOAL_TRY(throw(t, peer, first, SHORTEST, &seconds));
    if (i) least = SHOAL_MIN(least, seconds);
  }
  *bytes = (uint64_t)SHOAL_MIN(SHOAL_MAX(SHORTEST * LASTS_S / SHOAL_MAX(least, 1e-6), SHORTEST), LONGEST);
  if (first) return shoal_group_send(t->g, bytes, sizeof *bytes, t->ranks[peer], TAG);
  return shoal_group_recv(t->g, bytes, sizeof *bytes, t->ranks[peer], TAG);
}

/* @param sent  bytes per second from me to the peer */
static shoal_status measure(const team *t, int peer, int64_t *sent, int64_t *latency)
{
  bool first = t->me < peer;
  uint64_t bytes;
  double best = 0, seconds;
  SHOAL_TRY(ping(t, peer, first, latency));
  SHOAL_TRY(choose_bytes(t, peer, first, &bytes));
  for (int time = 0; time < 2 * TIMES; time++) {
    bool sends = first == (time % 2 == 0);
    SHOAL_TRY(throw(t, peer, sends, bytes, &seconds));
    if (sends) best = SHOAL_MAX(best, (double)bytes / SHOAL_MAX(seconds, 1e-9));
  }
  *sent = SHOAL_MAX((int64_t)best, 1);
  return SHOAL_OK;
}

/* What I send to each, by team member; 0: not measured.  And what comes from them is what they have measured. */
static shoal_status measure_team(const team *t, int64_t *sent, int64_t *latency)
{
  *latency = INT64_MAX;
  for (int round = 0; round < shoal_doctor_rounds(t->n); round++) {
    int peer = shoal_doctor_peer(t->n, round, t->me);
    int64_t one;
    if (peer < 0) continue;
    SHOAL_TRY(measure(t, peer, &sent[peer], &one));
    *latency = SHOAL_MIN(*latency, one);
  }
  return SHOAL_OK;
}

/* The slower direction of the fastest pair. */
static int64_t fastest_pair(const team *t, const int64_t *sent, const int64_t *received)
{
  int64_t best = 0;
  for (int i = 0; i < t->n; i++) best = SHOAL_MAX(best, SHOAL_MIN(sent[i], received[i]));
  return best;
}

/* Each tells each peer what it has measured towards it. */
static shoal_status trade(const team *t, const int64_t *sent, int64_t *received)
{
  for (int round = 0; round < shoal_doctor_rounds(t->n); round++) {
    int peer = shoal_doctor_peer(t->n, round, t->me);
    if (peer < 0) continue;
    if (t->me < peer) SHOAL_TRY(shoal_group_send(t->g, &sent[peer], sizeof *sent, t->ranks[peer], TAG));
    SHOAL_TRY(shoal_group_recv(t->g, &received[peer], sizeof *received, t->ranks[peer], TAG));
    if (t->me > peer) SHOAL_TRY(shoal_group_send(t->g, &sent[peer], sizeof *sent, t->ranks[peer], TAG));
  }
  return SHOAL_OK;
}

/* ---- what the hardware is made for ---- */

static double read_rate(const char *path, double unit)
{
  char line[64] = "";
  FILE *f = fopen(path, "re");
  if (f && !fgets(line, sizeof line, f)) line[0] = '\0';
  if (f) fclose(f);
  double value = strtod(line, NULL);
  return value > 0 ? value * unit : 0;
}

/* Bytes per second of the fastest interface that is up; 0: unknown.  One without a device is virtual, and its speed made up. */
static double rated_speed(void)
{
  static const char net[] = "/sys/class/net", ib[] = "/sys/class/infiniband";
  double best = 0;
  DIR *d = opendir(net);
  for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
    char *device = shoal_strdup_printf("%s/%s/device", net, e->d_name),
         *speed = shoal_strdup_printf("%s/%s/speed", net, e->d_name);
    if (e->d_name[0] != '.' && shoal_path_exists(device)) best = SHOAL_MAX(best, read_rate(speed, 1e6 / 8));
    free(device);
    free(speed);
  }
  if (d) closedir(d);
  d = opendir(ib);
  for (struct dirent *e; d && (e = readdir(d)) != NULL;) { /* "200 Gb/sec (4X HDR)" */
    char *rate = shoal_strdup_printf("%s/%s/ports/1/rate", ib, e->d_name);
    if (e->d_name[0] != '.') best = SHOAL_MAX(best, read_rate(rate, 1e9 / 8));
    free(rate);
  }
  if (d) closedir(d);
  return best;
}

/* ---- the whole ---- */

static int members(const shoal_topo *t, int node, bool between, int rank, int *ranks, int *me)
{
  int n = 0;
  *me = -1;
  for (int r = 0; r < t->size; r++) {
    const shoal_place *p = &t->places[r];
    if (between ? p->local_rank != 0 : p->node != node) continue;
    if (r == rank) *me = n;
    ranks[n++] = r;
  }
  return n;
}

void shoal_links_free(shoal_links *l)
{
  free(l->best);
  free(l->latency);
  free(l->load);
  free(l->matrix);
  *l = (shoal_links){ .n = 0 };
}

/* @param inside  out: bytes per second between ranks of this node, 0 if it has one */
static shoal_status run_team(shoal_world *w, bool between, char *buffer, shoal_links *l, int64_t *inside)
{
  const shoal_topo *topo = shoal_world_topo(w);
  const shoal_place *p = shoal_world_place(w);
  int *ranks = NULL;
  int64_t *sent = NULL, *received = NULL, latency = INT64_MAX;
  team t = { .g = shoal_world_group(w), .buffer = buffer };
  shoal_status st = SHOAL_ALLOC((size_t)topo->size, &ranks);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)topo->size, &sent);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)topo->size, &received);
  st = shoal_group_agree(shoal_world_control(w), st);
  if (st == SHOAL_OK) {
    t.ranks = ranks;
    t.n = members(topo, p->node, between, shoal_world_rank(w), ranks, &t.me);
    if (t.me >= 0) st = measure_team(&t, sent, &latency);
    if (st == SHOAL_OK) st = shoal_group_barrier(shoal_world_control(w));
    if (st == SHOAL_OK && t.me >= 0) st = trade(&t, sent, received);
  }
  if (st == SHOAL_OK && t.me >= 0) {
    int64_t best = fastest_pair(&t, sent, received);
    *inside = best;
    if (between) {
      l->best[p->node] = best;
      l->latency[p->node] = latency == INT64_MAX ? 0 : latency;
      for (int i = 0; l->matrix && i < t.n; i++) l->matrix[t.me * l->n + i] = sent[i];
    }
  }
  free(ranks);
  free(sent);
  free(received);
  return st;
}

/* By nodes: the fastest pair inside each. */
static shoal_status inside_nodes(shoal_world *w, char *buffer, shoal_findings *f)
{
  const shoal_topo *t = shoal_world_topo(w);
  int64_t *best = NULL, mine = 0;
  SHOAL_TRY(shoal_group_agree(shoal_world_control(w), SHOAL_ALLOC((size_t)t->nodes, &best)));
  shoal_status st = run_team(w, false, buffer, NULL, &mine);
  if (st == SHOAL_OK) best[shoal_world_place(w)->node] = mine;
  if (st == SHOAL_OK) st = shoal_group_max_i64(shoal_world_control(w), best, (size_t)t->nodes);
  double median = st == SHOAL_OK ? shoal_doctor_median(best, t->nodes) : 0;
  if (median > 0 && shoal_world_rank(w) == 0) {
    shoal_find(f, "links", SHOAL_WELL, -1, "inside nodes %.4g MB/s between two ranks", median * 1e-6);
    for (int r = 0; r < t->size; r++) {
      const shoal_place *p = &t->places[r];
      if (p->local_rank || best[p->node] <= 0 || (double)best[p->node] > 0.2 * median) continue;
      shoal_find(f, "links", SHOAL_NOTE, p->node, "%.4g MB/s between two ranks of it, where other nodes have %.4g",
                 (double)best[p->node] * 1e-6, median * 1e-6);
    }
  }
  free(best);
  return st;
}

static shoal_status between_nodes(shoal_world *w, const shoal_doctor_options *o, char *buffer, shoal_findings *f,
                                  shoal_links *l)
{
  const shoal_topo *t = shoal_world_topo(w);
  shoal_group *g = shoal_world_control(w);
  size_t n = (size_t)t->nodes;
  int64_t mine, rated = (int64_t)rated_speed();
  l->n = t->nodes;
  shoal_status st = SHOAL_ALLOC(n, &l->best);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(n, &l->latency);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(n, &l->load);
  if (st == SHOAL_OK && n <= SHOAL_DOCTOR_TABLE) st = SHOAL_ALLOC(n * n, &l->matrix);
  SHOAL_TRY(shoal_group_agree(g, st));
  l->load[shoal_world_place(w)->node] = shoal_doctor_load();
  SHOAL_TRY(run_team(w, true, buffer, l, &mine));
  SHOAL_TRY(shoal_group_max_i64(g, l->best, n));
  SHOAL_TRY(shoal_group_max_i64(g, l->latency, n));
  SHOAL_TRY(shoal_group_max_i64(g, l->load, n));
  if (l->matrix) SHOAL_TRY(shoal_group_max_i64(g, l->matrix, n * n));
  SHOAL_TRY(shoal_group_max_i64(g, &rated, 1));
  if (shoal_world_rank(w) == 0)
    shoal_doctor_judge_links(l, t, o->expect > 0 ? o->expect : (double)rated, o->expect > 0, f);
  return SHOAL_OK;
}

shoal_status shoal_doctor_links(shoal_world *w, const shoal_doctor_options *o, shoal_findings *f, shoal_links *between)
{
  char *buffer = NULL;
  *between = (shoal_links){ .n = 0 };
  if (shoal_world_size(w) == 1) return SHOAL_OK;
  shoal_status st = shoal_group_agree(shoal_world_control(w), SHOAL_ALLOC(LONGEST, &buffer));
  if (st == SHOAL_OK && shoal_world_topo(w)->nodes > 1) st = between_nodes(w, o, buffer, f, between);
  if (st == SHOAL_OK) st = shoal_group_barrier(shoal_world_control(w));
  if (st == SHOAL_OK && shoal_world_size(w) > shoal_world_topo(w)->nodes) st = inside_nodes(w, buffer, f);
  free(buffer);
  return st;
}
