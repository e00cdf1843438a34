/* Interactions on every rank's own clock, with random delays.  Every variant comes to its end, nothing that
 * was learned is lost or counted twice, and the bytes are those of the formula.  500 interactions in all, or 10 000 with
 * SHOAL_FULL=1.
 *
 * Local steps add numbers that every rank can compute, so the sum of all models is known: mean(c - b + x), without copies
 * mean(x), times the ranks.  V3 does not keep it. */
#include "base/clock.h"
#include "base/log.h"
#include "comm.h"
#include "method/swarm/swarm.h"
#include <unistd.h>

enum { N = 2 * SHOAL_QUANT_BLOCK + 100, MEETINGS = 3, OVERLAP = 3 };
static int rank, size;
static shoal_backend *backend;
static uint64_t interactions = 500;

static uint64_t dice(uint64_t i, uint32_t step, uint64_t n)
{
  shoal_rng_block r = shoal_rng(61 + (uint64_t)rank, SHOAL_RNG_TEST, i, step);
  return shoal_rng_below(&r, n);
}

/* Delays: mostly none, sometimes a millisecond or two, polling as compute would.  The last rank may be slow to answer. */
static void compute(shoal_world *w, uint64_t step, bool slow)
{
  if (slow && rank == size - 1) usleep(1000);
  if (dice(step, 1, 4) == 0) usleep((useconds_t)dice(step, 2, 300));
  CHECK_OK(shoal_world_progress(w));
  if (dice(step, 3, 10) == 0) usleep((useconds_t)dice(step, 4, 1000));
  CHECK_OK(shoal_world_progress(w));
}

typedef struct {
  double learned[4]; /* of the elements watched */
} ledger;
static const size_t watched[4] = { 0, 4095, 4096, N - 1 };

static void local_step(float *x, ledger *l, uint64_t step)
{
  for (size_t k = 0; k < 4; k++) {
    float g = (float)((int)dice(step, (uint32_t)(5 + k), 201) - 100) * 0x1p-10f;
    x[watched[k]] += g;
    l->learned[k] += (double)g;
  }
  for (size_t i = 7; i < N; i += 97) x[i] += 0.01f * (float)((int)dice(step, 9, 3) - 1);
}

static void meet(shoal_swarm *s, shoal_swarm_pairs *p, shoal_rendezvous *c, const ledger *l, double slack)
{
  bool changed;
  int64_t what;
  CHECK_OK(shoal_swarm_pairs_arrive(p, &changed));
  CHECK_OK(shoal_rendezvous_meet(c, 1, NULL, NULL, &what));
  CHECK_OK(shoal_swarm_pairs_gathered(p, &changed));
  double sums[8];
  for (size_t k = 0; k < 4; k++) {
    size_t i = watched[k];
    sums[k] = (double)s->node.x[i] + (s->node.b ? (double)s->node.c[i] - (double)s->node.b[i] : 0);
    sums[4 + k] = l->learned[k];
  }
  CHECK_OK(shoal_group_sum_f64(shoal_world_control(s->world), sums, 8));
  for (size_t k = 0; k < 4 && s->rules.variant != SHOAL_SWARM_PULL; k++)
    CHECK_NEAR(sums[k], sums[4 + k], slack, "variant %d, %d bits, element %zu", s->rules.variant, s->rules.bits,
               watched[k]);
  CHECK_OK(shoal_swarm_pairs_leave(p));
}

static void run(shoal_world *w, const shoal_swarm_rules *rules)
{
  shoal_swarm *s;
  shoal_swarm_pairs *p;
  shoal_rendezvous *c;
  ledger l = { { 0 } };
  shoal_counters counters;
  float *x = room(N * sizeof *x);
  uint64_t step = 0, goal = interactions / (uint64_t)size / MEETINGS + 1;
  memset(&counters, 0, sizeof counters);
  REQUIRE(shoal_swarm_create(w, backend, rules, x, N, &s) == SHOAL_OK, "swarm");
  REQUIRE(shoal_rendezvous_create(s->control, "test", &c) == SHOAL_OK, "call");
  CHECK_OK(shoal_group_barrier(s->control));
  REQUIRE(shoal_swarm_pairs_create(s, &p) == SHOAL_OK, "pairs");
  shoal_world_set_counters(w, &counters);
  for (uint64_t meeting = 1; meeting <= MEETINGS; meeting++) {
    while (s->met < goal * meeting && !check_failures) {
      bool changed;
      local_step(x, &l, step);
      for (size_t b = 0; b < s->blocks; b++)
        if (dice(step, 10 + (uint32_t)b, 2)) s->distance[b] *= 1e-3; /* so that some blocks cannot be read */
      compute(w, step++, rules->overlap == OVERLAP);
      CHECK_OK(shoal_swarm_pairs_step(p, &changed));
      if (rules->overlap == OVERLAP) CHECK_LT(s->since[rank], OVERLAP, "variant %d", rules->variant);
    }
    /* Quantised values of both sides shift the sum by e_i + e_j, half a spacing each: a random walk. */
    meet(s, p, c, &l, rules->bits ? 1.5 : 1e-3);
  }
  shoal_world_set_counters(w, NULL);
  for (int link = 0; link < SHOAL_LINK_CONTROL; link++)
    CHECK_EQ(s->sent[link], counters.payload[link], "link %d", link);
  double sums[] = { (double)s->met, (double)s->served, (double)s->resent_bytes };
  CHECK_OK(shoal_group_sum_f64(s->control, sums, 3));
  CHECK_EQ(sums[2] > 0, rules->bits > 0, "variant %d, %d bits: %g bytes sent again", rules->variant, rules->bits,
           sums[2]);
  CHECK_EQ(sums[0], sums[1]);
  CHECK_GE(sums[0], (double)interactions);
  shoal_swarm_pairs_destroy(p);
  CHECK_OK(shoal_group_barrier(s->control));
  shoal_rendezvous_destroy(c);
  shoal_swarm_destroy(s);
  free(x);
}

/* The last rank falls silent; the others give it up, finish what they began without it, and take it back.  Whatever was under
 * way is no obstacle afterwards.  It stays silent until all others say, past the world, that they have done without it. */
static void fall_silent(void)
{
  for (int r = 0; r < size - 1; r++) MPI_Recv(NULL, 0, MPI_BYTE, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* At least so many steps and interactions of its own from here on. */
static void take_steps(shoal_world *w, shoal_swarm *s, shoal_swarm_pairs *p, uint64_t steps, uint64_t met)
{
  bool changed;
  for (met += s->met; (steps > 0 || s->met < met) && !check_failures; steps -= steps > 0) {
    usleep(100);
    CHECK_OK(shoal_world_progress(w));
    CHECK_OK(shoal_swarm_pairs_step(p, &changed));
  }
}

static void be_without(shoal_world *w, shoal_swarm *s, shoal_swarm_pairs *p)
{
  bool changed;
  take_steps(w, s, p, 40, size > 2 ? 10 : 0);      /* at two ranks there is nobody else to meet */
  CHECK_OK(shoal_swarm_pairs_arrive(p, &changed)); /* nothing is left under way, not even with the silent one */
  MPI_Send(NULL, 0, MPI_BYTE, size - 1, 0, MPI_COMM_WORLD);
}

static void lost(shoal_swarm_variant variant, int bits)
{
  shoal_swarm_rules rules = { .variant = variant, .bits = bits, .h = 1, .overlap = 8, .seed = 3, .drop_after_s = 0.05 };
  shoal_world *w = open_world(NULL, 0);
  shoal_swarm *s;
  shoal_swarm_pairs *p;
  shoal_rendezvous *c;
  float *x = room(N * sizeof *x);
  bool changed;
  int64_t what;
  REQUIRE(shoal_swarm_create(w, backend, &rules, x, N, &s) == SHOAL_OK, "swarm");
  REQUIRE(shoal_rendezvous_create(s->control, "test", &c) == SHOAL_OK, "swarm");
  REQUIRE(shoal_swarm_pairs_create(s, &p) == SHOAL_OK, "pairs");
  shoal_log_set_level(SHOAL_LOG_ERROR);
  for (int round = 0; round < 3; round++) {
    take_steps(w, s, p, 20, 0);
    if (rank == size - 1)
      fall_silent();
    else
      be_without(w, s, p);
    take_steps(w, s, p, 0, 10); /* at two ranks: with the one that is back */
    CHECK_OK(shoal_swarm_pairs_arrive(p, &changed));
    CHECK_OK(shoal_rendezvous_meet(c, 1, NULL, NULL, &what));
    CHECK_OK(shoal_swarm_pairs_gathered(p, &changed));
    CHECK_OK(shoal_swarm_pairs_leave(p));
  }
  shoal_swarm_pairs_destroy(p);
  CHECK_OK(shoal_group_barrier(s->control));
  shoal_rendezvous_destroy(c);
  shoal_swarm_destroy(s);
  shoal_world_close(w);
  free(x);
}

int main(void)
{
  mpi_start(&rank, &size);
  REQUIRE(shoal_backend_open("cpu", 1, &backend) == SHOAL_OK, "backend");
  const char *full = getenv("SHOAL_FULL");
  if (full && strcmp(full, "1") == 0) interactions = 10000;
  for (size_t t = 0; t < SHOAL_COUNT(topologies); t++) {
    if (topologies[t].size != size) continue;
    shoal_world *w = open_world(topologies[t].pretend, 0);
    for (shoal_swarm_variant v = SHOAL_SWARM_BLOCKING; v <= SHOAL_SWARM_NONBLOCKING; v++)
      for (int bits = 0; bits <= 8; bits += 8) {
        shoal_swarm_rules rules = { .variant = v,
                                    .bits = bits,
                                    .h = 1 + (uint64_t)bits / 8,
                                    .overlap = bits ? 1000000 : OVERLAP,
                                    .geometric = bits > 0,
                                    .graph = t % 2 ? SHOAL_GRAPH_RING : SHOAL_GRAPH_COMPLETE,
                                    .seed = t,
                                    .drop_after_s = 20 };
        run(w, &rules);
      }
    shoal_world_close(w);
    break;
  }
  for (shoal_swarm_variant v = SHOAL_SWARM_BLOCKING; size > 1 && v <= SHOAL_SWARM_NONBLOCKING; v++)
    lost(v, v % 2 ? 8 : 0);
  shoal_backend_close(backend);
  return mpi_done();
}
