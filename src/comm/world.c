/* The world: opened once; gathers the placement of all ranks and owns the two groups of all ranks.
 *
 *   environment → (MPI_Init, watched: start.c) → compare MPI's size with the launcher's → PMIx: claims and a barrier
 *     → gather facts and claims of all ranks → topology → compare the claims with it → link classes
 *
 * A process that no launcher started is a world of one; MPI is then never initialised, so `shoal` runs without it on a
 * laptop or a login node.  All collectives here are over all processes. */
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "base/mem.h"
#include "comm/fabric_impl.h"
#include "comm/group_impl.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static shoal_status take_options(shoal_world *w, const shoal_world_options *o)
{
  static const shoal_world_options none;
  w->o = o ? *o : none;
  w->o.pretend = NULL;
  if (!w->o.max_message) w->o.max_message = (size_t)1 << 30;
  if (!w->o.in_order) w->o.in_order = 64;
  if (w->o.warn_s == 0) w->o.warn_s = 30;
  if (w->o.hang_s == 0) w->o.hang_s = 600;
  /* An MPI call counts bytes in an int; and one element must fit. */
  SHOAL_CHECK(w->o.max_message >= 8 && w->o.max_message <= INT32_MAX, SHOAL_ERR_ARG,
              "largest message %zu bytes: choose 8 to %d", w->o.max_message, INT32_MAX);
  SHOAL_CHECK(w->o.warn_s > 0 && w->o.hang_s > 0, SHOAL_ERR_ARG,
              "limits for waiting must be positive: warn %g s, hang %g s", w->o.warn_s, w->o.hang_s);
  return SHOAL_OK;
}

/* If there are more ranks than cores, a polling rank must yield: a 4-byte all-reduce took 24-54 ms without yielding,
 * under 1 ms with it.  With a core per rank yielding costs nothing.  A value set by the user is kept. */
static void yield_if_crowded(const shoal_launch *l)
{
  cpu_set_t mask;
  int cores = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 0;
  if (!l->local_size || l->local_size > cores) setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
}

static shoal_status read_claims(shoal_world *w)
{
  struct utsname name;
  return shoal_claims_read(NULL, uname(&name) == 0 ? name.nodename : "", &w->claims);
}

/* By default TCP queues up to megabytes per connection on a slow link until the queue overflows; the packet loss stalls
 * one rank and the ring with it (4 nodes of 2 ranks at 100 Mbit/s: steps of 3.19 s, with these limits 3.09 s; no
 * difference at 1 Gbit/s).  128 KiB, which the kernel doubles, fill 10 Gbit/s at a round trip of 0.2 ms.  Only Open
 * MPI's TCP transport reads these variables; values set by the user are kept. */
static void keep_queues_short(void)
{
  setenv("OMPI_MCA_btl_tcp_sndbuf", "131072", 0);
  setenv("OMPI_MCA_btl_tcp_rcvbuf", "131072", 0);
}

/* For a start that fails alike on all tasks of the step, which cannot communicate: only the first task prints the
 * error. */
static shoal_status report_on_first_rank(const shoal_world *w, shoal_status st)
{
  const int32_t kinds[] = { w->claims.by[SHOAL_SOURCE_LAUNCHER].number[SHOAL_CLAIM_RANK],
                            w->claims.by[SHOAL_SOURCE_PMIX].number[SHOAL_CLAIM_RANK],
                            w->claims.by[SHOAL_SOURCE_SLURM].number[SHOAL_CLAIM_RANK] };
  bool first = kinds[0] <= 0 && kinds[1] <= 0 && kinds[2] <= 0;
  if (getenv("TORCHELASTIC_RUN_ID")) first = first && shoal_env_int(NULL, "RANK", 0) <= 0;
  return first ? st : shoal_error_told(st);
}

static shoal_status open_transport(shoal_world *w)
{
  shoal_launch launch;
  bool failed = w->o.failed != SHOAL_OK; /* then this rank does not know the value of run.allow_singletons */
  shoal_launch_read(&w->claims, &launch);
  if (!launch.launcher) {
    if (!failed) SHOAL_TRY(report_on_first_rank(w, shoal_launch_check(&launch, 1, w->o.allow_singletons)));
    return shoal_self_open(w);
  }
  SHOAL_TRY(report_on_first_rank(w, shoal_launch_refuse(&launch)));
  yield_if_crowded(&launch);
  keep_queues_short();
  SHOAL_TRY(shoal_mpi_open(w));
  bool singleton = w->size == 1 && (w->o.allow_singletons || failed);
  if (singleton) return SHOAL_OK;
  SHOAL_TRY(report_on_first_rank(w, shoal_launch_check(&launch, w->size, w->o.allow_singletons)));
  return shoal_pmix_settle(w->size, &w->claims);
}

typedef struct { /* what the ranks gather from each other */
  shoal_facts facts;
  shoal_claims claims;
} report;

typedef struct { /* [size] */
  shoal_facts *facts;
  shoal_claims *claims;
} reports;

static void take_report(void *context, int rank, const void *block)
{
  const reports *all = context;
  const report *r = block;
  all->facts[rank] = r->facts;
  all->claims[rank] = r->claims;
}

/* Gathers the reports of all ranks, over the control group, whose bytes can be counted without a topology; unless this
 * or another rank passes an error in `st`. */
static shoal_status gather_reports(shoal_world *w, shoal_status st, reports *all)
{
  report mine;
  memset(&mine, 0, sizeof mine); /* padding too, because it is sent */
  mine.claims = w->claims;
  SHOAL_TRY(shoal_group_agree(w->control, st == SHOAL_OK ? shoal_topo_facts(&mine.facts) : st));
  mine.facts.gpus = SHOAL_MIN(w->o.gpus, (int)SHOAL_GPUS_MAX);
  if (w->o.gpu) memcpy(mine.facts.gpu, w->o.gpu, (size_t)mine.facts.gpus * sizeof *w->o.gpu);
  return shoal_group_allgather_alike(w->control, &mine, sizeof mine, take_report, all);
}

/* Builds the topology and checks the claims against it.  The tables are equal on all ranks, and so is an error's text.
 * An intended singleton has nothing to compare: the other tasks are worlds of their own. */
static shoal_status build_topology(shoal_world *w, const char *pretend, const shoal_facts *facts,
                                   const shoal_claims *claims)
{
  SHOAL_TRY(shoal_topo_create(facts, w->size, NULL, &w->topo));
  if (!w->o.allow_singletons || w->size > 1) SHOAL_TRY(shoal_claims_compare(claims, w->topo, shoal_world_library()));
  SHOAL_TRY(shoal_topo_check_cores(facts, w->size, w->o.strict_cores));
  if (pretend) {
    shoal_topo_destroy(w->topo);
    w->topo = NULL;
    SHOAL_TRY(shoal_topo_create(facts, w->size, pretend, &w->topo));
  }
  if (w->o.threads > 0) shoal_topo_set_threads(w->topo, w->o.threads);
  SHOAL_TRY(shoal_topo_assign_gpus(facts, w->o.own_gpus, w->topo));
  return shoal_topo_check_threads(facts, w->size, w->o.threads, w->o.strict_cores);
}

static shoal_status gather_topology(shoal_world *w, const char *pretend)
{
  reports all = { 0 };
  shoal_status st = SHOAL_ALLOC((size_t)w->size, &all.facts);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)w->size, &all.claims);
  st = gather_reports(w, st, &all);
  if (st == SHOAL_OK) st = shoal_group_agree(w->control, build_topology(w, pretend, all.facts, all.claims));
  free(all.facts);
  free(all.claims);
  SHOAL_TRY(st);
  st = shoal_node_table_fill(w->control);
  if (st == SHOAL_OK) st = shoal_node_table_fill(w->all);
  SHOAL_TRY(shoal_group_agree(w->control, st));
  return shoal_share_try(w, !w->o.no_sharing);
}

static shoal_status make_groups(shoal_world *w)
{
  int *ranks;
  SHOAL_TRY(SHOAL_ALLOC((size_t)w->size, &ranks));
  for (int i = 0; i < w->size; i++) ranks[i] = i;
  shoal_status st = shoal_group_make(w, "control", ranks, w->size, true, &w->control);
  if (st == SHOAL_OK) st = shoal_group_make(w, "world", ranks, w->size, false, &w->all);
  if (st == SHOAL_OK) st = shoal_inquiry_create(w, ranks, &w->inquiry);
  free(ranks);
  return st;
}

/* The first source that says it; -1: none. */
static int claimed(const shoal_world *w, shoal_claim_kind kind)
{
  static const shoal_source sources[] = { SHOAL_SOURCE_LAUNCHER, SHOAL_SOURCE_PMIX, SHOAL_SOURCE_SLURM };
  for (size_t i = 0; i < SHOAL_COUNT(sources); i++)
    if (w->claims.by[sources[i]].number[kind] >= 0) return w->claims.by[sources[i]].number[kind];
  return -1;
}

/* Alone there is nobody to wait for.  A start takes seconds, and more on a machine under load, however soon an exchange is
 * taken for one that hangs. */
static shoal_status open_groups(shoal_world *w)
{
  enum { WARN_S = 30, HANG_S = 60 };
  shoal_start start = { .warn_s = SHOAL_MAX(w->o.warn_s, WARN_S),
                        .hang_s = SHOAL_MAX(w->o.hang_s, HANG_S),
                        .rank = claimed(w, SHOAL_CLAIM_RANK),
                        .size = claimed(w, SHOAL_CLAIM_RANKS) };
  bool watched = shoal_world_launched();
  if (watched) shoal_start_begin(&start);
  shoal_status st = open_transport(w);
  shoal_log_set_rank(w->rank, w->size);
  if (st == SHOAL_OK) st = make_groups(w);
  if (watched) shoal_start_end(&start);
  return st;
}

/* @param own  the failure this rank was opened with; further errors are appended to it */
static shoal_status open_world(shoal_world *w, const shoal_world_options *o, shoal_error *own)
{
  SHOAL_TRY(take_options(w, o));
  shoal_status st = read_claims(w);
  if (st != SHOAL_OK) w->o.failed = st; /* variables that cannot be read, often on all ranks: agreed on like the rest */
  shoal_error_join(own, st);
  st = open_groups(w);
  if (own->code != SHOAL_OK) {
    shoal_error_join(own, st);
    st = shoal_error_put(own);
  }
  if (!w->control) return st;
  SHOAL_TRY(shoal_group_agree(w->control, st));
  st = gather_topology(w, o ? o->pretend : NULL);
  w->o.gpu = NULL; /* the caller's */
  return st;
}

shoal_status shoal_world_open(const shoal_world_options *o, shoal_world **out)
{
  shoal_error own = { .code = SHOAL_OK };
  shoal_world *w;
  if (o && !shoal_world_launched()) SHOAL_TRY(o->failed); /* no other ranks to inform */
  if (o) shoal_error_keep(&own, o->failed);
  SHOAL_TRY(SHOAL_ALLOC(1, &w));
  w->counters = &w->own_counters;
  shoal_status st = open_world(w, o, &own);
  if (st == SHOAL_OK)
    *out = w;
  else
    shoal_world_close(w);
  return st;
}

void shoal_world_close(shoal_world *w)
{
  if (!w) return;
  shoal_fabric_close(w->fabric);
  shoal_share_close(w);
  shoal_inquiry_destroy(w, w->inquiry);
  shoal_group_destroy(w->all);
  shoal_group_destroy(w->control);
  shoal_groups_free(w);
  shoal_topo_destroy(w->topo);
  if (w->transport) w->transport->close(w);
  shoal_messages_sweep(w, true);
  shoal_world_set_backend(w, NULL);
  free(w);
}

void shoal_world_abort(shoal_world *w, shoal_status st)
{
  int exit_code = shoal_error_exit_code(st);
  if (w) shoal_share_leave(w, shoal_error_text(st));
  fflush(NULL);
  if (w && w->transport) w->transport->abort(exit_code);
  exit(exit_code);
}

shoal_status shoal_world_check_peers(const shoal_world *w, bool *lower_lives)
{
  return shoal_share_check_peers(w, lower_lives);
}

bool shoal_world_broken(const shoal_world *w)
{
  return w->broken;
}

int shoal_world_rank(const shoal_world *w)
{
  return w->rank;
}

int shoal_world_size(const shoal_world *w)
{
  return w->size;
}

const shoal_topo *shoal_world_topo(const shoal_world *w)
{
  return w->topo;
}

const shoal_place *shoal_world_place(const shoal_world *w)
{
  return &w->topo->places[shoal_world_rank(w)];
}

const shoal_claims *shoal_world_claims(const shoal_world *w)
{
  return &w->claims;
}

bool shoal_world_shares(const shoal_world *w)
{
  return w->shares;
}

shoal_group *shoal_world_group(shoal_world *w)
{
  return w->all;
}

shoal_group *shoal_world_control(shoal_world *w)
{
  return w->control;
}

void shoal_world_set_counters(shoal_world *w, shoal_counters *counters)
{
  w->counters = counters ? counters : &w->own_counters;
}

void shoal_world_set_backend(shoal_world *w, shoal_backend *b)
{
  if (w->away) w->away->waits = NULL;
  w->away = b && !b->host_memory ? b : NULL;
  if (!w->away) return;
  w->away->waits = shoal_watch_device;
  w->away->waits_context = w;
}

void shoal_world_set_trace(shoal_world *w, shoal_trace *trace)
{
  w->trace = trace;
}

void shoal_world_set_step(shoal_world *w, uint64_t step)
{
  w->step = step;
}

void shoal_world_set_hook(shoal_world *w, shoal_world_hook hook, void *context)
{
  w->hook = hook;
  w->hook_context = context;
}

enum { CLOCK_TRIPS = 20, CLOCK_CHILDREN = 32 };

/* Cristian's method: assume that the peer read its clock in the middle of the round trip; the error is at most half the
 * trip.  The shortest trip gives the best bound, because delays only add. */
static shoal_status ask_clock(shoal_group *g, int peer, shoal_trace_reading *out)
{
  double best = 0;
  for (int trip = 0; trip < CLOCK_TRIPS; trip++) {
    uint64_t sent = shoal_now_ns(), there = 0;
    SHOAL_TRY(shoal_group_send(g, &sent, sizeof sent, peer, 0));
    SHOAL_TRY(shoal_group_recv(g, &there, sizeof there, peer, 0));
    double round_trip = (double)(shoal_now_ns() - sent);
    if (trip && round_trip >= best) continue;
    best = round_trip;
    *out = (shoal_trace_reading){ .at_ns = sent + (uint64_t)(round_trip / 2),
                                  .offset_ns = (double)(int64_t)(sent - there) + round_trip / 2,
                                  .bound_ns = round_trip / 2 };
  }
  return SHOAL_OK;
}

static shoal_status answer_clock(shoal_group *g, int peer)
{
  for (int trip = 0; trip < CLOCK_TRIPS; trip++) {
    uint64_t there = 0;
    SHOAL_TRY(shoal_group_recv(g, &there, sizeof there, peer, 0));
    there = shoal_now_ns();
    SHOAL_TRY(shoal_group_send(g, &there, sizeof there, peer, 0));
  }
  return SHOAL_OK;
}

/* The host of a rank: `n` if it is none of those whose first ranks are known.  Hosts are numbered in the order of their lowest
 * ranks, as nodes are; nodes that are pretended lie on few of them. */
static int host_of(const shoal_topo *t, int rank, const int *first, int n)
{
  if (!t->pretended) return t->places[rank].node;
  int host = 0;
  while (host < n && strcmp(t->places[first[host]].host, t->places[rank].host) != 0) host++;
  return host;
}

/* The first rank of each host.  *own: the index of this rank's. */
static shoal_status first_ranks(const shoal_world *w, int **first, int *n, int *own)
{
  SHOAL_TRY(SHOAL_ALLOC((size_t)w->size, first));
  *n = 0;
  for (int r = 0; r < w->size; r++) {
    const int host = host_of(w->topo, r, *first, *n);
    if (host == *n) (*first)[(*n)++] = r;
    if (r == w->rank) *own = host;
  }
  return SHOAL_OK;
}

/* A tree of hosts: each first rank asks the one above, once that knows its own offset, and adds what it is told of it. */
static shoal_status measure_host(shoal_group *g, const int *first, int n, int own, shoal_trace_reading *out)
{
  double above[2] = { 0, 0 };
  if (own > 0) {
    int parent = first[(own - 1) / CLOCK_CHILDREN];
    SHOAL_TRY(ask_clock(g, parent, out));
    SHOAL_TRY(shoal_group_recv(g, above, sizeof above, parent, 0));
    out->offset_ns += above[0];
    out->bound_ns += above[1];
  }
  above[0] = out->offset_ns;
  above[1] = out->bound_ns;
  int64_t child = (int64_t)own * CLOCK_CHILDREN + 1, end = SHOAL_MIN(child + CLOCK_CHILDREN, (int64_t)n);
  for (; child < end; child++) {
    SHOAL_TRY(answer_clock(g, first[child]));
    SHOAL_TRY(shoal_group_send(g, above, sizeof above, first[child], 0));
  }
  return SHOAL_OK;
}

/* Ranks of one host read one clock: its first rank measures, and the others get the reading; beside rank 0 there is nothing to
 * measure. */
static shoal_status measure_clock(shoal_world *w, const int *first, int n, int own, shoal_trace_reading *mine)
{
  shoal_group *g = w->control;
  if (w->rank != first[own]) return own == 0 ? SHOAL_OK : shoal_group_recv(g, mine, sizeof *mine, first[own], 0);
  SHOAL_TRY(measure_host(g, first, n, own, mine));
  for (int r = w->rank + 1; r < w->size && own > 0; r++)
    if (host_of(w->topo, r, first, n) == own) SHOAL_TRY(shoal_group_send(g, mine, sizeof *mine, r, 0));
  return SHOAL_OK;
}

shoal_status shoal_world_measure_clock(shoal_world *w, shoal_trace_reading *out)
{
  shoal_group *g = w->control;
  shoal_trace_reading mine = { .at_ns = shoal_now_ns() };
  int *first = NULL, n = 0, own = 0;
  shoal_status st = first_ranks(w, &first, &n, &own);
  if (st == SHOAL_OK) st = measure_clock(w, first, n, own, &mine);
  free(first);
  SHOAL_TRY(st);
  SHOAL_TRY(shoal_group_barrier(g));
  *out = mine;
  return SHOAL_OK;
}
