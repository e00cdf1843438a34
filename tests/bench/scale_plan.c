/* What one rank of a very large run computes before and between its steps, without the others: placement, groups, the shape of every
 * sum and broadcast, partners, tables of sizes.  For made-up clusters of any size, on one machine and without MPI.
 *
 *     bench.scale_plan 1000 10000 100000    tables of processor time and bytes, the most of the first, middle and last rank
 *     bench.scale_plan --check 1000         looks at every rank instead of three, and prints nothing: a test
 *
 * In both, what a rank sends is compared with what its partner expects, and the bytes with the formulas. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/mem.h"
#include "check.h"
#include "comm/exchange_impl.h"
#include "comm/group_impl.h"
#include "method/ab/ab.h"
#include "method/common/graph.h"
#include "method/swarm/swarm.h"
#include "topo/topo.h"
#include <errno.h>
#include <malloc.h>
#include <time.h>

/* ------------------------------------------------------------------------------------------------------ measuring */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#define COUNTS_BYTES
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);
extern void __libc_free(void *p);
static size_t live, peak;

static void *came(void *p)
{
  if (p) live += malloc_usable_size(p);
  if (live > peak) peak = live;
  return p;
}

static void goes(void *p)
{
  if (p) live -= malloc_usable_size(p);
}

void *malloc(size_t n)
{
  return came(__libc_malloc(n));
}

void *calloc(size_t n, size_t size)
{
  return came(__libc_calloc(n, size));
}

void *realloc(void *p, size_t n)
{
  goes(p);
  void *q = __libc_realloc(p, n);
  return came(q ? q : p);
}

void *aligned_alloc(size_t align, size_t n)
{
  return came(__libc_memalign(align, n));
}

int posix_memalign(void **out, size_t align, size_t n)
{
  *out = came(__libc_memalign(align, n));
  return *out ? 0 : ENOMEM;
}

void free(void *p)
{
  goes(p);
  __libc_free(p);
}
#else
static size_t live, peak;
#endif

typedef struct {
  double seconds;
  size_t kept, most; /* bytes: held afterwards, and at most meanwhile */
} cost;
typedef struct {
  struct timespec t0;
  size_t before;
} meter;

static meter begin(void)
{
  meter m = { .before = live };
  peak = live;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &m.t0);
  return m;
}

static cost end(const meter *m)
{
  struct timespec t1;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
  return (cost){ (double)(t1.tv_sec - m->t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - m->t0.tv_nsec), live - m->before,
                 peak - m->before };
}

/* ------------------------------------------------------------------------------------- a cluster, and one rank of it */

typedef struct {
  const char *name;
  int per_node[6]; /* ranks per node, in turns; 0: the end */
} shape;
static const shape shapes[] = { { "8 per node", { 8 } }, { "unequal nodes", { 8, 5, 8, 1, 3, 8 } } };

static int64_t posted, posted_bytes; /* messages sent through the transport below */

/* Every message is there at once, and nothing is in it: what is left is this rank's own work. */
static shoal_status connect_nothing(shoal_world *w, const int *ranks, int n, shoal_channel **out)
{
  return SHOAL_OK;
}

static void disconnect_nothing(shoal_channel *c)
{
}

static shoal_status reserve_nothing(shoal_world *w, int more)
{
  return SHOAL_OK;
}

static shoal_status send_nowhere(shoal_channel *c, const void *data, size_t bytes, int to, int tag, int *slot)
{
  posted++;
  posted_bytes += (int64_t)bytes;
  *slot = 0;
  return SHOAL_OK;
}

static const void *told; /* what comes in messages of `told_bytes` */
static size_t told_bytes;

static shoal_status receive_nothing(shoal_channel *c, void *data, size_t bytes, int from, int tag, int *slot)
{
  if (told && bytes == told_bytes) memcpy(data, told, bytes);
  *slot = 0;
  return SHOAL_OK;
}

static shoal_slot_state is_there(const shoal_world *w, int slot, size_t *got)
{
  return SHOAL_SLOT_DONE;
}

static void release_nothing(shoal_world *w, int slot)
{
}

static shoal_status poll_nothing(shoal_world *w, size_t *completed)
{
  *completed = 1;
  return SHOAL_OK;
}

static const shoal_transport nowhere = { .name = "nowhere",
                                         .connect = connect_nothing,
                                         .disconnect = disconnect_nothing,
                                         .reserve = reserve_nothing,
                                         .send = send_nowhere,
                                         .recv = receive_nothing,
                                         .state = is_there,
                                         .release = release_nothing,
                                         .poll = poll_nothing };

/* What ranks would gather from each other: `facts` and `claims` of each. */
static void make_up(const shape *s, int size, shoal_facts *facts, shoal_claims *claims)
{
  static const shoal_claims none;
  int nodes = 0, ranks = 0, turns = 0;
  while (turns < (int)SHOAL_COUNT(s->per_node) && s->per_node[turns]) turns++;
  for (int r = 0; r < size; nodes++) r += s->per_node[nodes % turns];
  for (int node = 0; node < nodes; node++) {
    int n = SHOAL_MIN(s->per_node[node % turns], size - ranks);
    for (int l = 0; l < n; l++, ranks++) {
      shoal_facts *f = &facts[ranks];
      memset(f, 0, sizeof *f);
      snprintf(f->host, sizeof f->host, "node%05d.cluster.example.org", node);
      snprintf(f->node_id, sizeof f->node_id, "node%05d/%08x-3d41-4c0e-9a7b-%012x", node, node * 2654435761u, node);
      f->pid = 20000 + ranks % 4096;
      f->cores = f->pus = 16;
      f->present = 16 * n;
      f->mask_hash = (uint64_t)l;
      snprintf(f->cpu_list, sizeof f->cpu_list, "%d-%d", 16 * l, 16 * l + 15);
      snprintf(f->numa_list, sizeof f->numa_list, "%d", l);
      f->numa_nodes = 1;
      f->claimed_cores = f->claimed_by_srun = 16;
      shoal_claims *c = &claims[ranks];
      *c = none;
      for (int source = 0; source < SHOAL_SOURCE_COUNT; source++)
        for (int kind = 0; kind < SHOAL_CLAIM_COUNT; kind++) c->by[source].number[kind] = -1;
      const int is[SHOAL_CLAIM_COUNT] = { size, ranks, nodes, node, n, l, nodes };
      memcpy(c->by[SHOAL_SOURCE_SLURM].number, is, sizeof is);
      memcpy(c->by[SHOAL_SOURCE_PMIX].number, is, sizeof is);
      c->by[SHOAL_SOURCE_PMIX].number[SHOAL_CLAIM_LISTED] = -1;
      snprintf(c->by[SHOAL_SOURCE_SLURM].host, SHOAL_HOST_MAX, "node%05d", node);
      snprintf(c->by[SHOAL_SOURCE_PMIX].host, SHOAL_HOST_MAX, "node%05d", node);
      c->launcher = -1;
      c->step_tasks = size;
      c->listed = 1;
      snprintf(c->list, sizeof c->list, "node[00000-%05d]", nodes - 1);
    }
  }
}

typedef struct {
  bool check; /* looks at all ranks, and prints nothing */
  const shape *shape;
  int size;
  shoal_world *w;
  int column; /* of the table */
} scale;

/* ---------------------------------------------------------------------------------------------------------- table */

enum { ROWS_MAX = 64, COLUMNS_MAX = 4 };
typedef struct {
  char what[96];
  char cell[COLUMNS_MAX][80];
} row;
static row rows[ROWS_MAX];
static int n_rows;

static char *cell_of(const scale *s, const char *what)
{
  int i = 0;
  while (i < n_rows && strcmp(rows[i].what, what) != 0) i++;
  REQUIRE(i < ROWS_MAX, "rows");
  if (i == n_rows) snprintf(rows[n_rows++].what, sizeof rows->what, "%s", what);
  return rows[i].cell[s->column];
}

static __attribute__((format(printf, 3, 4))) void tell(const scale *s, const char *what, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  vsnprintf(cell_of(s, what), sizeof rows->cell[0], format, args);
  va_end(args);
}

typedef struct {
  char text[16];
} time_text;

static time_text text_of(double seconds)
{
  time_text t;
  double shown = seconds < 1e-3 ? seconds * 1e6 : seconds < 1 ? seconds * 1e3 : seconds;
  snprintf(t.text, sizeof t.text, "%.3g %s", shown, seconds < 1e-3 ? "us" : seconds < 1 ? "ms" : "s");
  return t;
}

/* Processor time; bytes per rank of the run that are held from then on, and at most meanwhile. */
static void tell_cost(const scale *s, const char *what, const cost *c)
{
  tell(s, what, "%s; %.1f, %.1f", text_of(c->seconds).text, (double)c->kept / s->size, (double)c->most / s->size);
}

static void dearer(cost *all, const cost *c)
{
  all->seconds = SHOAL_MAX(all->seconds, c->seconds);
  all->kept = SHOAL_MAX(all->kept, c->kept);
  all->most = SHOAL_MAX(all->most, c->most);
}

/* From here on as if this process were rank r. */
static shoal_group *view(const scale *s, int r)
{
  s->w->rank = r;
  s->w->all->rank = s->w->control->rank = r;
  return s->w->all;
}

/* The ranks that are looked at: all, or the first, middle and last. */
static int looked_at(const scale *s)
{
  return s->check ? s->size : 3;
}

static int number(const scale *s, int i)
{
  return s->check ? i : i == 0 ? 0 : i == 1 ? s->size / 2 : s->size - 1;
}

/* ------------------------------------------------------------------------------------------------------ the start */

static void check_places(const scale *s)
{
  const shoal_topo *t = s->w->topo;
  int nodes = 0;
  for (int r = 0; r < s->size; r++) {
    const shoal_place *p = &t->places[r];
    char host[SHOAL_HOST_MAX];
    CHECK(p->node == nodes - 1 || p->node == nodes, "rank %d", r);
    CHECK_EQ(p->local_rank, p->node == nodes ? 0 : t->places[r - 1].local_rank + 1, "rank %d", r);
    if (p->node == nodes) nodes++;
    snprintf(host, sizeof host, "node%05d.cluster.example.org", p->node);
    CHECK_STR(p->host, host);
    CHECK_EQ(p->on->threads, 16);
  }
  CHECK_EQ(t->nodes, nodes);
}

typedef struct { /* as world.c gathers it */
  shoal_facts facts;
  shoal_claims claims;
} report;

static void take_nothing(void *context, int rank, const void *block)
{
}

/* What ranks send of their reports, and unpack: of the last one, as rank 0's comes. */
static void gather(const scale *s, const shoal_facts *facts, const shoal_claims *claims)
{
  static report first, mine; /* zeroed, padding too */
  first = (report){ facts[0], claims[0] };
  mine = (report){ facts[s->size - 1], claims[s->size - 1] };
  told = &first;
  told_bytes = sizeof first;
  shoal_group *g = view(s, s->size - 1);
  posted_bytes = 0;
  meter m = begin();
  CHECK_OK(shoal_group_allgather_alike(g, &mine, sizeof mine, take_nothing, NULL));
  cost c = end(&m);
  told = NULL;
  tell(s, "reports of all ranks", "%s; 0.0, %.1f, of %zu sent %.1f", text_of(c.seconds).text, (double)c.most / s->size,
       sizeof mine, (double)posted_bytes / s->size);
  view(s, 0);
}

static void place(scale *s)
{
  shoal_facts *facts = calloc((size_t)s->size, sizeof *facts);
  shoal_claims *claims = calloc((size_t)s->size, sizeof *claims);
  REQUIRE(facts, "memory");
  REQUIRE(claims, "memory");
  make_up(s->shape, s->size, facts, claims);
  gather(s, facts, claims);
  meter m = begin();
  CHECK_OK(shoal_topo_create(facts, s->size, NULL, &s->w->topo));
  cost c = end(&m);
  tell_cost(s, "placement", &c);
  m = begin();
  CHECK_OK(shoal_claims_compare(claims, s->w->topo, "no library"));
  c = end(&m);
  tell_cost(s, "claims compared", &c);
  m = begin();
  CHECK_OK(shoal_topo_check_cores(facts, s->size, true));
  CHECK_OK(shoal_topo_check_threads(facts, s->size, 0, true));
  CHECK_OK(shoal_topo_assign_gpus(facts, false, s->w->topo));
  c = end(&m);
  tell_cost(s, "cores, threads and GPUs", &c);
  free(facts);
  free(claims);
  check_places(s);
  m = begin();
  CHECK_OK(shoal_node_table_fill(s->w->control));
  CHECK_OK(shoal_node_table_fill(s->w->all));
  c = end(&m);
  tell_cost(s, "nodes of both groups of all ranks", &c);
}

static void make_world(const scale *s)
{
  int *ranks = calloc((size_t)s->size, sizeof *ranks);
  REQUIRE(ranks, "memory");
  for (int r = 0; r < s->size; r++) ranks[r] = r;
  meter m = begin();
  CHECK_OK(shoal_group_make(s->w, "control", ranks, s->size, true, &s->w->control));
  CHECK_OK(shoal_group_make(s->w, "world", ranks, s->size, false, &s->w->all));
  cost c = end(&m);
  free(ranks);
  tell_cost(s, "both groups of all ranks", &c);
}

static void make_groups(const scale *s)
{
  shoal_group *node, *across;
  meter m = begin();
  CHECK_OK(shoal_group_create_node(s->w, &node));
  CHECK_OK(shoal_group_create_across(s->w, 0, &across));
  cost c = end(&m);
  tell_cost(s, "groups of the node and across nodes", &c);
  CHECK_EQ(shoal_group_size(across), s->w->topo->nodes);
  CHECK_EQ(shoal_group_size(node), shoal_world_place(s->w)->local_size);
  shoal_group_destroy(node);
  shoal_group_destroy(across);
}

/* ----------------------------------------------------------------------------------------------------------- sums */

/* What a lane moves to or from one peer, in order; or, peer -1, all of it. */
typedef struct {
  uint64_t elements, pieces, hash;
} traffic;

static void add(traffic *t, size_t at, size_t n)
{
  t->elements += n;
  t->pieces++;
  t->hash = (t->hash ^ at) * 1099511628211u;
  t->hash = (t->hash ^ n) * 1099511628211u;
}

static traffic walk(const shoal_lane *l, int peer)
{
  traffic t = { .hash = 14695981039346656037u };
  shoal_lane copy = *l;
  shoal_lane_rewind(&copy);
  for (shoal_cursor *c = &copy.posted; c->step < copy.steps; shoal_lane_advance(&copy, c))
    if (peer < 0 || shoal_lane_peer(&copy, c) == peer) add(&t, c->at, shoal_lane_length(&copy, c));
  return t;
}

/* A sum as rank r plans it, without the memory that ranks of a node share. */
static void plan(shoal_group *g, size_t n, shoal_wire wire, shoal_sum_algorithm algorithm, shoal_exchange *e)
{
  memset(e, 0, sizeof *e);
  e->f.g = g;
  e->n = e->whole = n;
  e->wire = wire;
  e->algorithm = algorithm;
  e->name = (char *)"sum";
  shoal_node_layout_find(g, wire, algorithm, &e->layout);
  CHECK_OK(shoal_halving_plan(e));
  if (e->layout.local < e->layout.owners) CHECK_OK(shoal_ring_plan_shard(e));
}

static void unplan(shoal_exchange *e)
{
  free(e->in.buffer);
  free(e->out.buffer);
  shoal_halving_free(e);
}

/* How often one waits for another's message before the next can be sent. */
static int hops_of(const shoal_exchange *e)
{
  int rounds = 0;
  if (!e->halving) return e->in.steps;
  while (((int64_t)1 << rounds) < e->layout.nodes) rounds++;
  return 2 * rounds;
}

/* What rank r sends to each of its peers is what they expect from it, piece by piece. */
static void check_partners(const scale *s, int r, const shoal_exchange *e)
{
  for (int step = 0, before = -1; step < e->out.steps; step++) {
    int peer = shoal_lane_peer(&e->out, &(shoal_cursor){ .step = step });
    if (peer == before) continue;
    before = peer;
    shoal_exchange theirs;
    plan(view(s, peer), e->n, e->wire, e->algorithm, &theirs);
    traffic sent = walk(&e->out, peer), expected = walk(&theirs.in, r);
    CHECK_EQ(sent.pieces, expected.pieces, "%s of %zu, from %d to %d", shoal_sum_name(e->algorithm), e->n, r, peer);
    CHECK_EQ(sent.hash, expected.hash, "%s of %zu, from %d to %d", shoal_sum_name(e->algorithm), e->n, r, peer);
    unplan(&theirs);
    if (!e->halving) break; /* a ring sends to one */
  }
  view(s, r);
}

static void check_bytes(shoal_group *g, const shoal_exchange *e, uint64_t *between)
{
  uint64_t bytes[SHOAL_LINK_COUNT], sent = shoal_wire_bytes(e->wire, walk(&e->out, -1).elements), formula = 0;
  shoal_exchange_bytes(g, e->n, e->wire, e->algorithm, bytes);
  bool flat = shoal_sum_shape(e->algorithm) == SHOAL_SUM_RING;
  formula = bytes[SHOAL_LINK_BETWEEN] + (flat ? bytes[SHOAL_LINK_NODE] : 0);
  CHECK_EQ(sent, formula, "%s of %zu on rank %d", shoal_sum_name(e->algorithm), e->n, g->rank);
  *between += formula;
}

static void sums_by(const scale *s, shoal_sum_algorithm algorithm, size_t n, shoal_wire wire, const char *what)
{
  cost all = { 0 };
  uint64_t between = 0;
  int hops = 0;
  for (int i = 0; i < looked_at(s); i++) {
    shoal_exchange e;
    int r = number(s, i);
    shoal_group *g = view(s, r);
    meter m = begin();
    plan(g, n, wire, algorithm, &e);
    cost c = end(&m);
    dearer(&all, &c);
    check_bytes(g, &e, &between);
    check_partners(s, r, &e);
    hops = SHOAL_MAX(hops, hops_of(&e));
    unplan(&e);
  }
  view(s, 0);
  shoal_node_layout layout;
  shoal_node_layout_find(s->w->all, wire, algorithm, &layout);
  if (s->check)
    CHECK_EQ(between, 2 * (uint64_t)(layout.nodes - 1) * shoal_wire_bytes(wire, n), "all bytes of %s of %zu",
             shoal_sum_name(algorithm), n);
  if (what) tell(s, what, "%d hops; %s; %.1f KiB", hops, text_of(all.seconds).text, (double)all.kept / 1024);
}

static void sums(const scale *s)
{
  static const size_t lengths[] = { 1, 1000, 65537, 10000019 };
  for (shoal_sum_algorithm a = SHOAL_SUM_RING; a < SHOAL_SUM_ALGORITHMS; a++) {
    if (a == SHOAL_SUM_SMALL) continue;
    for (size_t i = 0; s->check && i < SHOAL_COUNT(lengths) - 1; i++)
      sums_by(s, a, lengths[i], i % 2 ? SHOAL_WIRE_BF16 : SHOAL_WIRE_F32, NULL);
    char what[96];
    snprintf(what, sizeof what, "sum of 10 M numbers, %s: plan", shoal_sum_name(a));
    if (!s->check) sums_by(s, a, lengths[SHOAL_COUNT(lengths) - 1], SHOAL_WIRE_F32, what);
  }
  shoal_group *g = view(s, 0);
  s->w->shares = true;
  for (size_t i = 1; i < SHOAL_COUNT(lengths); i++) {
    char what[96];
    snprintf(what, sizeof what, "chosen for %zu numbers", lengths[i]);
    tell(s, what, "%s", shoal_sum_name(shoal_sum_choose(g, lengths[i], SHOAL_WIRE_F32, SHOAL_SUM_AUTO)));
  }
  s->w->shares = false;
}

/* ------------------------------------------------------------------------------------------------------ broadcasts */

static bool has_child(const shoal_broadcast_part *p, int child)
{
  for (int i = 0; i < p->n; i++)
    if (p->children[i] == child) return true;
  return false;
}

static void broadcasts(const scale *s)
{
  static const size_t lengths[] = { 1000, 1 << 20, 64 << 20 };
  for (size_t i = 0; i < SHOAL_COUNT(lengths); i++)
    for (int root = 0; root < s->size; root += s->size / 2 + 1) {
      int64_t received = 0;
      int depth = 0;
      cost all = { 0 };
      for (int k = 0; k < looked_at(s); k++) {
        int r = number(s, k), hops = 0;
        meter m = begin();
        shoal_broadcast_part mine = shoal_broadcast_plan(view(s, r), lengths[i], root);
        cost c = end(&m);
        dearer(&all, &c);
        received += mine.parent >= 0;
        CHECK_EQ(mine.parent < 0, r == root, "only the root has no parent: %d", r);
        for (int child = 0; child < mine.n; child++)
          CHECK_EQ(shoal_broadcast_plan(view(s, mine.children[child]), lengths[i], root).parent, r, "child of %d", r);
        if (mine.parent >= 0) {
          shoal_broadcast_part above = shoal_broadcast_plan(view(s, mine.parent), lengths[i], root);
          CHECK(has_child(&above, r), "rank %d is no child of %d", r, mine.parent);
        }
        for (int at = r; at != root && hops <= s->size; hops++)
          at = shoal_broadcast_plan(view(s, at), lengths[i], root).parent;
        depth = SHOAL_MAX(depth, hops);
      }
      CHECK_LT(depth, s->size, "a circle");
      if (s->check) CHECK_EQ(received, s->size - 1, "each rank but the root has one parent");
      char what[96];
      snprintf(what, sizeof what, "broadcast of %zu KiB: plan", lengths[i] >> 10);
      if (root == 0) tell(s, what, "%d hops; %s", depth, text_of(all.seconds).text);
    }
  view(s, 0);
}

/* ------------------------------------------------------------------------------------------------ small collectives */

/* Runs a collective with messages that are there at once: what is left is this rank's own work, and how many it sends. */
#define COLLECTIVE(s, what, bound, call)                                                                               \
  do {                                                                                                                 \
    cost all_ = { 0 };                                                                                                 \
    int64_t messages_ = 0;                                                                                             \
    for (int i_ = 0; i_ < 3; i_++) {                                                                                   \
      shoal_group *g = view(s, i_ == 0 ? 0 : i_ == 1 ? (s)->size / 2 : (s)->size - 1);                                 \
      posted = posted_bytes = 0;                                                                                       \
      meter m_ = begin();                                                                                              \
      CHECK_OK(call);                                                                                                  \
      cost c_ = end(&m_);                                                                                              \
      dearer(&all_, &c_);                                                                                              \
      messages_ = SHOAL_MAX(messages_, posted);                                                                        \
    }                                                                                                                  \
    CHECK_LE(messages_, bound, what);                                                                                  \
    tell(s, what, "%lld messages; %s; %.1f", (long long)messages_, text_of(all_.seconds).text,                         \
         (double)all_.most / (s)->size);                                                                               \
  } while (0)

static int log2_of(int n)
{
  int rounds = 0;
  while (((int64_t)1 << rounds) < n) rounds++;
  return rounds;
}

static void collectives(const scale *s)
{
  int rounds = log2_of(s->size), p = s->size;
  char *all = calloc((size_t)p, 8);
  double *x = calloc(100000, sizeof *x);
  uint64_t *none = calloc((size_t)p, sizeof *none);
  REQUIRE(all, "memory");
  REQUIRE(x, "memory");
  REQUIRE(none, "memory");
  COLLECTIVE(s, "agreement", rounds, shoal_group_agree(g, SHOAL_OK));
  COLLECTIVE(s, "allgather of 8 bytes", rounds, shoal_group_allgather(g, x, 8, all));
  COLLECTIVE(s, "sum of 1 f64", 2 * p, shoal_group_sum_f64(g, x, 1));
  COLLECTIVE(s, "sum of 16 f64", 2 * p, shoal_group_sum_f64(g, x, 16));
  COLLECTIVE(s, "sum of 100 000 f64", 2 * p, shoal_group_sum_f64(g, x, 100000));
  COLLECTIVE(s, "all-to-all, nothing to send", 0, shoal_group_alltoall(g, x, none, x, none));
  free(all);
  free(x);
  free(none);
  view(s, 0);
}

/* --------------------------------------------------------------------------------------------------------- methods */

static void graphs(const scale *s)
{
  static const char *const names[] = { "complete", "ring", "torus", "random, degree 16" };
  for (shoal_graph_kind kind = SHOAL_GRAPH_COMPLETE; kind <= SHOAL_GRAPH_RANDOM; kind++) {
    cost made = { 0 }, asked = { 0 };
    char what[96];
    for (int i = 0; i < looked_at(s); i++) {
      int r = number(s, i);
      shoal_graph *g = NULL;
      meter m = begin();
      if (!CHECK_OK(shoal_graph_create(kind, s->size, SHOAL_MIN(1, 14.0 / s->size), 7, r, &g))) continue;
      cost c = end(&m);
      dearer(&made, &c);
      for (uint64_t k = 0; k < 8; k++) {
        m = begin();
        int j = shoal_graph_partner(g, 7, r, k, NULL);
        c = end(&m);
        dearer(&asked, &c);
        CHECK_GE(j, 0, "partner of %d", r);
        CHECK_LT(j, s->size, "partner of %d", r);
        CHECK_NE(j, r, "partner of itself");
        CHECK(shoal_graph_joined(g, r, j), "%d and %d", r, j);
        CHECK(shoal_graph_joined(g, j, r), "%d and %d", j, r);
      }
      shoal_graph_destroy(g);
    }
    snprintf(what, sizeof what, "swarm: graph, %s", names[kind]);
    tell_cost(s, what, &made);
    snprintf(what, sizeof what, "swarm: a partner, %s", names[kind]);
    tell_cost(s, what, &asked);
  }
}

static void ab_groups(const scale *s)
{
  int *node = calloc((size_t)s->size, sizeof *node);
  shoal_ab_groups g;
  REQUIRE(node, "memory");
  for (int cyclic = 0; cyclic <= 1; cyclic++) {
    int nodes = s->size / 8;
    for (int r = 0; r < s->size; r++) node[r] = cyclic ? r % nodes : r / 8;
    meter m = begin();
    if (!CHECK_OK(shoal_ab_groups_make(node, s->size, SHOAL_AB_AUTO, false, &g))) continue;
    cost c = end(&m);
    tell_cost(s, cyclic ? "ab: groups, ranks dealt to nodes in turns" : "ab: groups", &c);
    for (int i = 1; i < s->size; i++) {
      int a = g.rank[i - 1], b = g.rank[i];
      CHECK(node[a] < node[b] || (node[a] == node[b] && a < b), "order of ranks %d and %d", a, b);
    }
    for (int i = 0; i < looked_at(s); i++) {
      int r = number(s, i), group = shoal_ab_group_of(&g, r);
      bool found = false;
      for (int k = g.first[group]; k < g.first[group + 1]; k++) found |= g.rank[k] == r;
      CHECK(found, "rank %d is not in its group", r);
    }
    shoal_ab_groups_free(&g);
  }
  free(node);
}

/* ------------------------------------------------------------------------------------------------------------ main */

static void run(scale *s)
{
  s->w = calloc(1, sizeof *s->w);
  REQUIRE(s->w, "memory");
  s->w->transport = &nowhere;
  s->w->size = s->size;
  s->w->o = (shoal_world_options){
    .max_message = s->check ? 4096 : (size_t)1 << 30, .in_order = 64, .warn_s = 1000, .hang_s = 2000
  };
  s->w->counters = &s->w->own_counters;
  size_t before = live;
  make_world(s);
  place(s);
  tell(s, "**placement and groups of all ranks**", "%.1f kept", (double)(live - before) / s->size);
  make_groups(s);
  sums(s);
  broadcasts(s);
  collectives(s);
  graphs(s);
  ab_groups(s);
  shoal_group_destroy(s->w->all);
  shoal_group_destroy(s->w->control);
  shoal_groups_free(s->w);
  shoal_topo_destroy(s->w->topo);
  free(s->w);
}

int main(int argc, char **argv)
{
  scale s = { 0 };
  int sizes[COLUMNS_MAX], n = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--check") == 0)
      s.check = true;
    else if (n < COLUMNS_MAX && atoi(argv[i]) >= 16)
      sizes[n++] = atoi(argv[i]);
    else
      REQUIRE(false, "%s: --check, or 16 ranks or more, %d numbers at most", argv[i], COLUMNS_MAX);
  }
  for (size_t k = 0; k < SHOAL_COUNT(shapes); k++) {
    n_rows = 0;
    memset(rows, 0, sizeof rows);
    for (s.column = 0; s.column < n; s.column++) {
      s.shape = &shapes[k];
      s.size = sizes[s.column];
      run(&s);
    }
    if (s.check) continue;
    printf("\n**%s**\n\n| what |", shapes[k].name);
    for (int i = 0; i < n; i++) printf(" %d |", sizes[i]);
    printf("\n|---|");
    for (int i = 0; i < n; i++) printf("---|");
    for (int i = 0; i < n_rows; i++) {
      printf("\n| %s |", rows[i].what);
      for (int c = 0; c < n; c++) printf(" %s |", rows[i].cell[c]);
    }
    printf("\n");
  }
  return check_done();
}
