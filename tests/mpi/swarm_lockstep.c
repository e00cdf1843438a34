/* The deterministic mode on n processes holds the same bits as n nodes simulated in one process, for every variant,
 * quantised or not, on several graphs; and the bytes are those of the formula.
 *
 * Local steps are synthetic: each node is pulled to a point of its own, with noise; the second block of numbers moves 1000
 * times less than the first, the third hardly ever.  Now and then one jumps, or believes the others far nearer than they
 * are, so that the quantiser's window is missed and blocks go again in full. */
#include "comm.h"
#include "method/swarm/swarm.h"

enum { N = 3 * SHOAL_QUANT_BLOCK + 500, STEPS = 24, RANKS_MAX = 8 };
static int rank, size;
static shoal_backend *backend;

static void local_step(shoal_swarm *s, int node, uint64_t step)
{
  float *x = s->node.x;
  static const float scale[] = { 1, 1e-3f, 0, 1 };
  for (size_t b = 0; step % 10 == 4 && b < s->blocks; b++) s->distance[b] *= 1e-3;
  for (uint64_t i = 0; i < N; i++) {
    shoal_rng_block r = shoal_rng(31, SHOAL_RNG_TEST, i * RANKS_MAX + (uint64_t)node, (uint32_t)step);
    float noise = shoal_rng_unit(r.v[0]) - 0.5f, target = (float)((node * 7 + (int)(i % 13)) % 5);
    x[i] -= scale[i / SHOAL_QUANT_BLOCK] * (0.05f * (x[i] - target) + 0.02f * noise);
  }
  if (step % 10 == 9 && node == (int)(step / 10) % 2)
    for (uint64_t i = 9000; i < 9003; i++) x[i] += 300;
}

/* ---- n nodes in one process ---- */

static void hand_over(const shoal_swarm *from, shoal_swarm *to, size_t bytes)
{
  memcpy(to->inbox.at, from->outbox.at, bytes);
}

/* What was read is within half a spacing of what was sent (stochastic: one), block by block, and no spacing is larger than
 * the distances allow. */
static void check_parcel(const shoal_swarm *from, const shoal_swarm_deal *sent, const shoal_swarm *to,
                         const shoal_swarm_deal *got, double distance)
{
  double largest = SHOAL_MAX(distance, shoal_swarm_reach(from)), own = shoal_swarm_reach(from);
  const int8_t *exponent = sent->exponent.at;
  for (size_t b = 0; sent->quantised && b < from->blocks; b++) {
    size_t at = b * SHOAL_QUANT_BLOCK;
    if (exponent[b] == SHOAL_QUANT_FULL) continue; /* holds a NaN: goes in full */
    double s = ldexp(1, exponent[b]), share = own > 0 ? from->distance[b] / own : 1;
    double error = 0;
    for (size_t i = at; i < at + shoal_swarm_block_length(from, b); i++)
      error = fmax(error, fabs((double)(from->node.c[i] - to->theirs[i])));
    double allowed = 8 * SHOAL_MAX(share, 0x1p-12) * largest / (1 << from->rules.bits); /* or what f32 can tell apart */
    CHECK(shoal_quant_marked(got->bad.at, b) || error <= (from->rules.stochastic ? s : s / 2),
          "block %zu: error %g, s %g", b, error, s);
    CHECK_LE(s, SHOAL_MAX(allowed, 0x1p-11), "block %zu, allowed %g", b, allowed);
  }
}

static void simulate_edge(shoal_swarm *i, shoal_swarm *j)
{
  shoal_swarm_variant v = i->rules.variant;
  bool both = shoal_swarm_averages(v);
  double distance = SHOAL_MAX(shoal_swarm_reach(i), shoal_swarm_reach(j));
  shoal_swarm_deal di, dj;
  REQUIRE(shoal_swarm_deal_init(i, i->blocks, &di) == SHOAL_OK, "deals");
  REQUIRE(shoal_swarm_deal_init(j, j->blocks, &dj) == SHOAL_OK, "deals");
  shoal_swarm_deal_begin(i, &di, distance);
  shoal_swarm_deal_begin(j, &dj, distance);
  CHECK_OK(shoal_swarm_pack(j, &dj, j->node.c, j->outbox.at));
  hand_over(j, i, dj.bytes);
  if (both) {
    CHECK_OK(shoal_swarm_pack(i, &di, i->node.c, i->outbox.at));
    hand_over(i, j, di.bytes);
    CHECK_OK(shoal_swarm_unpack(j, &dj, j->inbox.at));
  }
  CHECK_OK(shoal_swarm_unpack(i, &di, i->inbox.at));
  check_parcel(j, &dj, i, &di, distance);
  if (both) check_parcel(i, &di, j, &dj, distance);
  uint8_t first[8];
  memcpy(first, di.bad.at, i->marks);
  shoal_swarm_merge(i, &di, both ? dj.bad.at : NULL);
  shoal_swarm_merge(j, &dj, first);
  CHECK_OK(shoal_swarm_pack_again(j, &dj, j->node.c, j->outbox.at));
  hand_over(j, i, dj.resend);
  if (both) {
    CHECK_OK(shoal_swarm_pack_again(i, &di, i->node.c, i->outbox.at));
    hand_over(i, j, di.resend);
    CHECK_OK(shoal_swarm_unpack_again(j, &dj, j->inbox.at));
  }
  CHECK_OK(shoal_swarm_unpack_again(i, &di, i->inbox.at));
  CHECK_OK(shoal_swarm_deal_end(i, &di));
  if (both) CHECK_OK(shoal_swarm_deal_end(j, &dj));
  if (!both && !di.refused) CHECK_OK(backend->ops->average(backend, i->node.n, i->node.x, i->theirs, i->node.x));
  if (shoal_swarm_folds(v, true)) CHECK_OK(shoal_swarm_fold(i, 0, i->blocks));
  if (shoal_swarm_folds(v, false)) CHECK_OK(shoal_swarm_fold(j, 0, j->blocks));
  shoal_swarm_deal_fini(i, &di);
  shoal_swarm_deal_fini(j, &dj);
}

static void simulate(shoal_world *w, const shoal_swarm_rules *rules, shoal_swarm **nodes, float **x)
{
  uint64_t begun[RANKS_MAX] = { 0 }, since[RANKS_MAX] = { 0 };
  shoal_swarm_edge edges[RANKS_MAX];
  for (int i = 0; i < size; i++) {
    x[i] = room(N * sizeof(float));
    REQUIRE(shoal_swarm_create(w, backend, rules, x[i], N, &nodes[i]) == SHOAL_OK, "node %d", i);
    nodes[i]->rank = i;
  }
  for (uint64_t step = 0; step < STEPS; step++) {
    for (int i = 0; i < size; i++) local_step(nodes[i], i, step);
    for (int i = 0; i < size; i++) CHECK_OK(shoal_swarm_publish(nodes[i]));
    int n = shoal_swarm_edges(rules, nodes[0]->graph, step, begun, since, edges);
    for (int e = 0; e < n; e++) simulate_edge(nodes[edges[e].initiator], nodes[edges[e].partner]);
  }
}

/* A partner whose model holds a NaN, in an interaction before anything is known of distances and in a later one: nothing of
 * it is averaged.  What the initiator learned is folded all the same. */
static void refuse(shoal_world *w, const shoal_swarm_rules *rules, bool later)
{
  shoal_swarm *node[2];
  float *x[2];
  for (int i = 0; i < 2; i++) {
    x[i] = room(N * sizeof(float));
    REQUIRE(shoal_swarm_create(w, backend, rules, x[i], N, &node[i]) == SHOAL_OK, "node %d", i);
    node[i]->rank = i;
  }
  for (uint64_t step = 0; step < (later ? 3 : 1); step++) {
    for (int i = 0; i < 2; i++) local_step(node[i], i, step);
    for (int i = 0; i < 2; i++) CHECK_OK(shoal_swarm_publish(node[i]));
    if (step == 0 && later) simulate_edge(node[0], node[1]);
  }
  x[1][100] = node[1]->node.c[100] = NAN;
  float *before = room(N * sizeof(float));
  memcpy(before, x[0], N * sizeof *before);
  simulate_edge(node[0], node[1]);
  size_t wrong = 0;
  for (size_t i = 0; i < N; i++) wrong += !isfinite(x[0][i]) || fabsf(x[0][i] - before[i]) > 1e-4f;
  CHECK_EQ(wrong, 0, "variant %d, %d bits, later %d: numbers of a bad model were taken", rules->variant, rules->bits,
           later);
  CHECK_EQ(node[0]->refused, 1, "variant %d, %d bits, later %d", rules->variant, rules->bits, later);
  for (int i = 0; i < 2; i++) {
    shoal_swarm_destroy(node[i]);
    free(x[i]);
  }
  free(before);
}

/* ---- one node per process ---- */

static void compare(const char *what, const float *mine, const float *simulated)
{
  size_t wrong = 0;
  for (size_t i = 0; mine && i < N; i++) wrong += memcmp(&mine[i], &simulated[i], sizeof *mine) != 0;
  CHECK(!wrong, "%s: %zu of %d numbers differ from the simulation", what, wrong, N);
}

static void one_case(shoal_world *w, const shoal_swarm_rules *rules)
{
  shoal_swarm *nodes[RANKS_MAX], *s;
  float *x[RANKS_MAX], *mine = room(N * sizeof(float));
  shoal_swarm_lockstep *l;
  shoal_counters counters;
  memset(&counters, 0, sizeof counters);
  simulate(w, rules, nodes, x);
  REQUIRE(shoal_swarm_create(w, backend, rules, mine, N, &s) == SHOAL_OK, "swarm");
  REQUIRE(shoal_swarm_lockstep_create(s, &l) == SHOAL_OK, "lockstep");
  shoal_world_set_counters(w, &counters);
  for (uint64_t step = 0; step < STEPS; step++) {
    bool changed;
    local_step(s, rank, step);
    REQUIRE(shoal_swarm_lockstep_step(l, step, &changed) == SHOAL_OK, "step %llu", (unsigned long long)step);
  }
  shoal_world_set_counters(w, NULL);
  compare("x", mine, x[rank]);
  compare("c", s->node.c, nodes[rank]->node.c);
  compare("b", s->node.b, nodes[rank]->node.b);
  CHECK_BYTES(s->distance, nodes[rank]->distance, s->blocks * sizeof *s->distance, "distances differ");
  CHECK_EQ(s->turns, nodes[rank]->turns, "turns differ");
  for (int link = 0; link < SHOAL_LINK_CONTROL; link++)
    CHECK_EQ(s->sent[link], counters.payload[link], "link %d", link);
  int64_t again = (int64_t)s->resent_bytes;
  CHECK_OK(shoal_group_sum_i64(shoal_world_control(w), &again, 1));
  /* Two nodes that both begin and both fold in every meeting are equal after it: nothing can be missed. */
  bool equal = size == 2 && rules->variant == SHOAL_SWARM_SYMMETRIC;
  if (size > 1 && rules->bits && !equal)
    CHECK_GT(again, 0, "variant %d, %d bits: nothing was missed", rules->variant, rules->bits);
  shoal_swarm_lockstep_destroy(l);
  shoal_swarm_destroy(s);
  for (int i = 0; i < size; i++) {
    shoal_swarm_destroy(nodes[i]);
    free(x[i]);
  }
  free(mine);
}

int main(void)
{
  mpi_start(&rank, &size);
  REQUIRE(shoal_backend_open("cpu", 1, &backend) == SHOAL_OK, "backend");
  for (size_t t = SHOAL_COUNT(topologies); t-- > 0;) { /* the last one of this size: uneven where that is possible */
    if (topologies[t].size != size) continue;
    shoal_world *w = open_world(topologies[t].pretend, 0);
    static const int bits[] = { 0, 8, 4, 14, 16 };
    int turn = 0;
    for (shoal_swarm_variant v = SHOAL_SWARM_BLOCKING; v <= SHOAL_SWARM_NONBLOCKING; v++)
      for (size_t b = 0; b < SHOAL_COUNT(bits); b++, turn++) {
        shoal_swarm_rules rules = { .variant = v,
                                    .lockstep = true,
                                    .bits = bits[b],
                                    .stochastic = turn % 3 == 1,
                                    .geometric = turn % 4 == 2,
                                    .h = 1 + (uint64_t)turn % 3,
                                    .graph = (shoal_graph_kind)(turn % 4),
                                    .p = 0.5,
                                    .seed = (uint64_t)turn };
        one_case(w, &rules);
        rules.graph = SHOAL_GRAPH_COMPLETE;
        if (size == 2) refuse(w, &rules, false);
        if (size == 2) refuse(w, &rules, true);
      }
    shoal_world_close(w);
    break;
  }
  shoal_backend_close(backend);
  return mpi_done();
}
