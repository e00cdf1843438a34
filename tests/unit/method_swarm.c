/* The swarm's arithmetic against the mathematics of load balancing: conservation and contraction by enumeration, exactly;
 * steady states with noise and convergence on quadratics by simulation.
 *
 * A simulated swarm is n nodes in one process; an interaction is what two ranks would do, quantiser included; the partner
 * sends with a spacing twice as large. */
#include "base/mem.h"
#include "check.h"
#include "method/common/graph.h"
#include "method/swarm/math.h"
#include "tensor/backend.h"
#include "unit/quant_whole.h"

enum { NODES = 16, LENGTH = 8 };
static const shoal_swarm_variant variants[] = { SHOAL_SWARM_BLOCKING, SHOAL_SWARM_SYMMETRIC, SHOAL_SWARM_PULL,
                                                SHOAL_SWARM_NONBLOCKING };

typedef struct {
  shoal_swarm_variant variant;
  int n;
  size_t length;
  shoal_quant quant; /* bits 0: none */
  double distance;
  float x[NODES][LENGTH], c[NODES][LENGTH], b[NODES][LENGTH];
} swarm;

/* What the backend does to one block. */
static shoal_backend *ref;

static void average(size_t n, const float *x, const float *y, float *z)
{
  CHECK_OK(ref->ops->average(ref, n, x, y, z));
}

static double fold(const shoal_swarm_node *a)
{
  float largest = -1;
  CHECK_OK(ref->ops->fold(ref, a->n, a->x, a->c, a->b, &largest));
  return (double)largest;
}

static double distance_of(size_t n, const float *x, float *y)
{
  const shoal_meet_args only = { .average = false };
  float largest = -1;
  CHECK_OK(ref->ops->meet(ref, &only, n, x, y, &largest));
  return (double)largest;
}

static shoal_swarm_node node(swarm *s, int i)
{
  bool own = s->variant == SHOAL_SWARM_BLOCKING;
  return (shoal_swarm_node){ s->length, s->x[i], own ? s->x[i] : s->c[i], s->b[i] };
}

/* Everybody's copies follow the live models: the start, or after X was written by hand. */
static void publish(swarm *s)
{
  memcpy(s->c, s->x, sizeof s->x);
  memcpy(s->b, s->x, sizeof s->x);
}

/* One side's part in an interaction, where nothing comes between.  Returns max |u| of a fold. */
static double take(shoal_swarm_variant v, const shoal_swarm_node *a, bool initiator, const float *mine,
                   const float *theirs)
{
  if (shoal_swarm_averages(v))
    average(a->n, mine, theirs, a->c);
  else if (initiator)
    average(a->n, a->x, theirs, a->x);
  return shoal_swarm_folds(v, initiator) ? fold(a) : 0;
}

static void interact(swarm *s, int i, int j)
{
  shoal_swarm_node a = node(s, i), p = node(s, j);
  float qi[LENGTH], qj[LENGTH], got_i[LENGTH], got_j[LENGTH];
  memcpy(qi, a.c, sizeof qi);
  memcpy(qj, p.c, sizeof qj);
  memcpy(got_i, qi, sizeof qi);
  memcpy(got_j, qj, sizeof qj);
  bool quantised = s->quant.bits && s->distance > 0;
  int8_t exponent[2] = { 0 };
  for (int side = 0; quantised && side < 2; side++)
    shoal_swarm_exponents(s->quant.bits, 1, &s->distance, s->distance, s->distance * (1 + side), &exponent[side]);
  s->distance = shoal_swarm_observe(s->distance, distance_of(s->length, a.c, p.c));
  if (quantised) {
    uint8_t parcel[4 * LENGTH + 8], bad[1];
    encode(&s->quant, s->length, qi, &exponent[0], parcel);
    size_t wrong = decode(s->quant.bits, s->length, parcel, p.c, got_i, bad);
    encode(&s->quant, s->length, qj, &exponent[1], parcel);
    wrong += decode(s->quant.bits, s->length, parcel, a.c, got_j, bad);
    if (wrong) { /* resent unquantised, both ways */
      memcpy(got_i, qi, sizeof qi);
      memcpy(got_j, qj, sizeof qj);
    } else {
      shoal_quant_value(&s->quant, 0, s->length, qi, &exponent[0], qi);
      shoal_quant_value(&s->quant, 0, s->length, qj, &exponent[1], qj);
      CHECK_BYTES(qi, got_i, sizeof(float) * s->length, "the sides see different numbers");
      CHECK_BYTES(qj, got_j, sizeof(float) * s->length);
    }
  }
  double u = take(s->variant, &a, true, qi, got_j);
  double w = take(s->variant, &p, false, qj, got_i);
  s->distance = SHOAL_MAX(s->distance, SHOAL_MAX(u, w));
}

/* Γ and the mean of the copies partners read (V3: of the live models). */
static double gamma_of(swarm *s, double *mean_out)
{
  double gamma = 0;
  for (size_t k = 0; k < s->length; k++) {
    double mean = 0;
    for (int i = 0; i < s->n; i++)
      mean +=
          (double)(s->variant == SHOAL_SWARM_PULL ? s->x : (s->variant == SHOAL_SWARM_BLOCKING ? s->x : s->c))[i][k];
    mean /= s->n;
    for (int i = 0; i < s->n; i++) {
      double d =
          (double)(s->variant == SHOAL_SWARM_PULL || s->variant == SHOAL_SWARM_BLOCKING ? s->x : s->c)[i][k] - mean;
      gamma += d * d;
    }
    if (mean_out) mean_out[k] = mean;
  }
  return gamma;
}

static uint64_t below(uint64_t i, uint32_t step, uint64_t n)
{
  shoal_rng_block r = shoal_rng(21, SHOAL_RNG_TEST, i, step);
  return shoal_rng_below(&r, n);
}

static float normal(uint64_t i, uint32_t step)
{
  float pair[2];
  shoal_rng_block r = shoal_rng(22, SHOAL_RNG_TEST, i, step);
  shoal_rng_normal2(r.v[0], r.v[1], pair);
  return pair[0];
}

/* Whole numbers with many factors of two: sums, halves and means of them are exact in f32. */
static swarm of_integers(shoal_swarm_variant v, int n, uint32_t salt)
{
  swarm s = { .variant = v, .n = n, .length = LENGTH };
  for (int i = 0; i < n; i++)
    for (size_t k = 0; k < LENGTH; k++)
      s.x[i][k] = (float)((int)below((uint64_t)i * LENGTH + k, salt, 2001) - 1000) * 64 * (float)n;
  publish(&s);
  return s;
}

/* Without local steps V1, V2 and V4 keep the sum, exactly; V3 does not, but its drift averages to nothing over all
 * ordered pairs.  V1 lowers Γ by exactly |X_i - X_j|^2 / 2. */
static void conservation(shoal_swarm_variant v)
{
  double drift[LENGTH] = { 0 };
  bool moved = false;
  swarm start = of_integers(v, 8, 1);
  double before[LENGTH], g0 = gamma_of(&start, before);
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 8; j++) {
      if (i == j) continue;
      swarm s = start;
      double after[LENGTH], square = 0;
      interact(&s, i, j);
      double g = gamma_of(&s, after);
      for (size_t k = 0; k < LENGTH; k++) {
        double d = (double)start.x[i][k] - (double)start.x[j][k];
        square += d * d;
        drift[k] += after[k] - before[k];
        moved |= after[k] != before[k];
      }
      if (v != SHOAL_SWARM_PULL) CHECK_EQ(g, g0 - square / 2, "variant %d", v);
    }
  CHECK_EQ(moved, v == SHOAL_SWARM_PULL, "variant %d: the mean %s", v, moved ? "moved" : "did not move");
  for (size_t k = 0; k < LENGTH; k++) CHECK_EQ(drift[k], 0, "variant %d", v);
  /* A chain of interactions, still exact. */
  if (v == SHOAL_SWARM_PULL) return;
  swarm s = start;
  for (uint64_t t = 0; t < 6; t++) {
    int i = (int)below(t, 2, 8);
    interact(&s, i, (i + 1 + (int)below(t, 3, 7)) % 8);
  }
  double after[LENGTH];
  gamma_of(&s, after);
  CHECK_BYTES(before, after, sizeof before, "variant %d: the mean moved", v);
}

/* Over all pairs of the complete graph Γ falls by exactly (n-2)/(n-1); V3 over all ordered pairs by
 * 1 - (n+1)/(2n(n-1)).  Known factors: n = 2, 4, 8, 16. */
static void contraction(shoal_swarm_variant v)
{
  static const double pair[] = { 0, 0.666667, 0.857143, 0.933333 }, pull[] = { 0.25, 0.791667, 0.919643, 0.964583 };
  static const int sizes[] = { 2, 4, 8, 16, 3, 5, 7 };
  for (size_t k = 0; k < SHOAL_COUNT(sizes); k++) {
    int n = sizes[k];
    swarm start = of_integers(v, n, 4);
    double sum = 0, g0 = gamma_of(&start, NULL);
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) {
        swarm s = start;
        if (i == j) continue;
        interact(&s, i, j);
        sum += gamma_of(&s, NULL);
      }
    double factor = sum / (n * (n - 1)) / g0;
    double expected = v == SHOAL_SWARM_PULL ? 1 - (n + 1.0) / (2.0 * n * (n - 1)) : (n - 2.0) / (n - 1);
    CHECK_NEAR(factor, expected, 1e-12, "variant %d, n = %d", v, n);
    if (k < 4) CHECK_NEAR(factor, (v == SHOAL_SWARM_PULL ? pull : pair)[k], 1e-6, "table of factors, n = %d", n);
  }
}

/* The eigenvector of a ring shrinks by 1 - (1 - cos(2π/n))/n, enumerating its edges. */
static void ring(void)
{
  static const double table[] = { 0.963388, 0.995242 };
  for (int n = 8; n <= 16; n += 8) {
    swarm start = { .variant = SHOAL_SWARM_BLOCKING, .n = n, .length = 1 };
    shoal_graph *g = NULL;
    REQUIRE(shoal_graph_create(SHOAL_GRAPH_RING, n, 0, 0, SHOAL_GRAPH_ALL, &g) == SHOAL_OK, "ring of %d", n);
    for (int i = 0; i < n; i++) start.x[i][0] = (float)cos(2 * M_PI * i / n);
    double sum = 0, edges = 0, g0 = gamma_of(&start, NULL);
    for (int i = 0; i < n; i++)
      for (int j = 0; j < i; j++) {
        if (!shoal_graph_joined(g, i, j)) continue;
        swarm s = start;
        interact(&s, i, j);
        sum += gamma_of(&s, NULL);
        edges++;
      }
    double factor = sum / edges / g0;
    CHECK_NEAR(factor, 1 - (1 - cos(2 * M_PI / n)) / n, 1e-6, "ring of %d", n);
    CHECK_NEAR(factor, table[n / 8 - 1], 2e-6, "ring of %d", n);
    shoal_graph_destroy(g);
  }
}

/* Long-run Γ when every local phase is noise of variance 1. */
static double steady_state(shoal_swarm_variant v, int n)
{
  enum { INTERACTIONS = 400000, SETTLE = 2000 };
  swarm s = { .variant = v, .n = n, .length = 1 };
  double sum = 0;
  for (uint64_t t = 0; t < INTERACTIONS; t++) {
    int i = (int)below(t, 5, (uint64_t)n), j = (i + 1 + (int)below(t, 6, (uint64_t)n - 1)) % n;
    s.x[i][0] += normal(t, 7);
    if (v == SHOAL_SWARM_BLOCKING || v == SHOAL_SWARM_SYMMETRIC) s.x[j][0] += normal(t, 8);
    if (v == SHOAL_SWARM_PULL) s.c[i][0] = s.x[i][0];
    if (v == SHOAL_SWARM_PULL) s.c[j][0] = s.x[j][0];
    interact(&s, i, j);
    if (t >= SETTLE) sum += gamma_of(&s, NULL);
  }
  return sum / (INTERACTIONS - SETTLE);
}

static void steady_states(void)
{
  static const double expected[][2] = { { 1.5, 5.25 }, { 4.5, 12.25 }, { 0.9, 2.7222 }, { 2.25, 6.125 } };
  for (size_t v = 0; v < SHOAL_COUNT(variants); v++)
    for (int k = 0; k < 2; k++) {
      double gamma = steady_state(variants[v], 4 + 4 * k);
      CHECK_NEAR(gamma / expected[v][k], 1, 0.03, "variant %zu, n = %d: Γ %g, expected %g", v, 4 + 4 * k, gamma,
                 expected[v][k]);
    }
}

/* The mean of the c moves by -(what was applied)/n at every event, and what a node applied plus what it still holds
 * is all it ever learned.  V4 leaves the partner's x and b alone. */
static void accounting(shoal_swarm_variant v, int bits)
{
  enum { N = 6 };
  swarm s = of_integers(v, N, 9);
  s.quant = (shoal_quant){ .bits = bits };
  for (int i = 0; i < N; i++)
    for (size_t k = 0; k < LENGTH; k++) s.x[i][k] *= 1e-5f;
  publish(&s);
  double learned[N] = { 0 }, applied[N] = { 0 };
  for (uint64_t t = 0; t < 2000; t++) {
    int i = (int)below(t, 10, N), j = (i + 1 + (int)below(t, 11, N - 1)) % N;
    for (int step = 0; step < 3; step++) {
      float g = normal(t, (uint32_t)(20 + step)) * 0.01f;
      s.x[i][0] -= g;
      learned[i] += (double)g;
      if (v == SHOAL_SWARM_SYMMETRIC) {
        s.x[j][0] -= g / 2;
        learned[j] += (double)(g / 2);
      }
    }
    double before[LENGTH], after[LENGTH], u = (double)s.b[i][0] - (double)s.x[i][0];
    double w = v == SHOAL_SWARM_SYMMETRIC ? (double)s.b[j][0] - (double)s.x[j][0] : 0;
    float xj[LENGTH], bj[LENGTH];
    memcpy(xj, s.x[j], sizeof xj);
    memcpy(bj, s.b[j], sizeof bj);
    double window = s.distance;
    gamma_of(&s, before);
    interact(&s, i, j);
    gamma_of(&s, after);
    applied[i] += u;
    applied[j] += w;
    /* Both use both quantised values: the mean shifts by (e_i + e_j)/n at most, e_i <= s/2 and e_j <= 2 s/2. */
    double shift = bits && window > 0 ? 1.5 * ldexp(1, shoal_swarm_exponent(bits, window)) / N : 0;
    CHECK_NEAR(after[0], before[0] - (u + w) / N, shift + 1e-6, "event %llu: applied %g", (unsigned long long)t, u + w);
    if (v == SHOAL_SWARM_NONBLOCKING) {
      CHECK_BYTES(xj, s.x[j], sizeof xj, "the partner was touched");
      CHECK_BYTES(bj, s.b[j], sizeof bj);
    }
    CHECK_EQ(s.x[i][0], s.c[i][0], "the initiator did not start afresh");
    CHECK_EQ(s.b[i][0], s.c[i][0]);
  }
  for (int i = 0; i < N; i++)
    CHECK_NEAR(learned[i] - applied[i], (double)s.b[i][0] - (double)s.x[i][0], 1e-3, "node %d: learned %g, applied %g",
               i, learned[i], applied[i]);
}

/* Without local steps V4 is V1, bit for bit, for the same edges. */
static void same_without_steps(void)
{
  swarm a = of_integers(SHOAL_SWARM_BLOCKING, 7, 12), d = a;
  d.variant = SHOAL_SWARM_NONBLOCKING;
  for (uint64_t t = 0; t < 500; t++) {
    int i = (int)below(t, 13, 7), j = (i + 1 + (int)below(t, 14, 6)) % 7;
    interact(&a, i, j);
    interact(&d, i, j);
    CHECK_BYTES(a.x, d.c, sizeof a.x, "interaction %llu", (unsigned long long)t);
  }
}

/* Losses f_i(x) = |x - a_i|^2 / 2.  The mean comes near mean(a_i), the nearer the smaller the rate; quantised too. */
static double distance_to_optimum(shoal_swarm_variant v, int bits, float rate)
{
  enum { N = 8, STEPS = 3 };
  swarm s = { .variant = v, .n = N, .length = LENGTH, .quant = { .bits = bits } };
  double optimum[LENGTH] = { 0 }, sum = 0;
  float a[N][LENGTH];
  for (int i = 0; i < N; i++)
    for (size_t k = 0; k < LENGTH; k++) {
      a[i][k] = normal((uint64_t)i * LENGTH + k, 15) + 2;
      optimum[k] += (double)a[i][k] / N;
    }
  uint64_t total = (uint64_t)(400 / rate), counted = 0;
  for (uint64_t t = 0; t < total; t++) {
    int i = (int)below(t, 16, N), j = (i + 1 + (int)below(t, 17, N - 1)) % N;
    for (int who = 0; who < 2; who++) {
      int r = who ? j : i;
      if (who && v == SHOAL_SWARM_NONBLOCKING) break;
      for (int step = 0; step < STEPS; step++)
        for (size_t k = 0; k < LENGTH; k++) s.x[r][k] -= rate * (s.x[r][k] - a[r][k]);
    }
    interact(&s, i, j);
    if (t < total / 2) continue;
    double mean[LENGTH], square = 0;
    gamma_of(&s, mean);
    for (size_t k = 0; k < LENGTH; k++) square += (mean[k] - optimum[k]) * (mean[k] - optimum[k]);
    sum += square;
    counted++;
  }
  return sqrt(sum / (double)counted);
}

static void quadratics(void)
{
  static const shoal_swarm_variant symmetric[] = { SHOAL_SWARM_BLOCKING, SHOAL_SWARM_SYMMETRIC,
                                                   SHOAL_SWARM_NONBLOCKING };
  for (size_t v = 0; v < SHOAL_COUNT(symmetric); v++)
    for (int bits = 0; bits <= 8; bits += 8) {
      double coarse = distance_to_optimum(symmetric[v], bits, 0.01f),
             fine = distance_to_optimum(symmetric[v], bits, 0.001f);
      CHECK_LT(coarse, 0.2, "variant %d, %d bits", symmetric[v], bits);
      CHECK_LT(fine, 0.4 * coarse, "variant %d, %d bits", symmetric[v], bits);
    }
}

static void spacing(void)
{
  static const struct {
    int bits;
    double distance;
    int exponent;
  } rows[] = { { 8, 64, 0 },      { 8, 64.001, 1 }, { 8, 33, 0 }, /* q s >= 4 D */
               { 16, 1, -14 },    { 4, 1, -2 },                   /* 16 and 4 bits */
               { 8, 1e-30, -40 }, { 4, 1e38, 100 } };             /* the limits of the exponent byte */
  for (size_t i = 0; i < SHOAL_COUNT(rows); i++)
    CHECK_EQ(shoal_swarm_exponent(rows[i].bits, rows[i].distance), rows[i].exponent, "%d bits, distance %g",
             rows[i].bits, rows[i].distance);
  CHECK_EQ(shoal_swarm_observe(1, 0), 0.9, "follows the measured distance");
  CHECK_EQ(shoal_swarm_observe(1, 3), 3);
  CHECK_EQ(shoal_swarm_observe(1, (double)NAN), 0.9);
}

/* Spacings of blocks: each by its own distance; scaled up to the partner's; no less than 2^-12 of the largest; and all by
 * the partner's where nothing of the own was measured. */
static void spacings_of_blocks(void)
{
  static const double distance[6] = { 64, 0.25, 0, 33, 0x1p-6, 0x1p-7 }, none[6], tiny[6] = { 0, 0x1p-1074, 0x1p-1073 };
  static const struct {
    const double *distance;
    double pair;
    int exponent[6];
  } rows[] = {
    { distance, 64, { 0, -8, -12, 0, -12, -12 } },  { distance, 1, { 0, -8, -12, 0, -12, -12 } },
    { distance, 256, { 2, -6, -10, 2, -10, -10 } }, { none, 64, { 0, 0, 0, 0, 0, 0 } },
    { tiny, 64, { -12, -1, 0, -12, -12, -12 } },
  };
  for (size_t r = 0; r < SHOAL_COUNT(rows); r++) {
    int8_t e[6];
    shoal_swarm_exponents(8, 6, rows[r].distance, shoal_swarm_largest(6, rows[r].distance), rows[r].pair, e);
    for (size_t b = 0; b < 6; b++) CHECK_EQ(e[b], rows[r].exponent[b], "row %zu, block %zu", r, b);
  }
  CHECK_EQ(shoal_swarm_largest(6, distance), 64, "the largest distance");
  CHECK_EQ(shoal_swarm_largest(6, none), 0);
}

/* Two layers, of which one moves 1000 times less: it is rounded 1000 times less coarsely, and neither is misread. */
static void layers_apart(int bits)
{
  enum { N = 2 * SHOAL_QUANT_BLOCK };
  static float x[N], y[N], z[N];
  static uint8_t parcel[2 * N + 16], bad[1];
  double distance[2], error[2];
  int8_t exponent[2];
  for (uint64_t i = 0; i < N; i++) {
    x[i] = normal(i, 30) * 0.05f;
    y[i] = x[i] + normal(i, 31) * (i < SHOAL_QUANT_BLOCK ? 1e-2f : 1e-5f);
  }
  for (size_t b = 0; b < 2; b++)
    distance[b] = distance_of(SHOAL_QUANT_BLOCK, x + b * SHOAL_QUANT_BLOCK, y + b * SHOAL_QUANT_BLOCK);
  shoal_swarm_exponents(bits, 2, distance, distance[0], distance[0], exponent);
  encode(&(shoal_quant){ .bits = bits }, N, x, exponent, parcel);
  CHECK_EQ(decode(bits, N, parcel, y, z, bad), 0, "%d bits: misread", bits);
  for (size_t b = 0; b < 2; b++) {
    error[b] = distance_of(SHOAL_QUANT_BLOCK, x + b * SHOAL_QUANT_BLOCK, z + b * SHOAL_QUANT_BLOCK);
    CHECK_LE(error[b], 4 * distance[b] / (1 << bits), "%d bits, block %zu, distance %g", bits, b, distance[b]);
  }
  CHECK_GT(error[0], 400 * error[1], "%d bits", bits);
  CHECK_LT(error[0], 2500 * error[1], "%d bits", bits);
}

int main(void)
{
  REQUIRE(shoal_backend_open("ref", 1, &ref) == SHOAL_OK, "backend");
  spacing();
  spacings_of_blocks();
  layers_apart(4);
  layers_apart(8);
  for (size_t v = 0; v < SHOAL_COUNT(variants); v++) {
    conservation(variants[v]);
    contraction(variants[v]);
  }
  ring();
  same_without_steps();
  for (int bits = 0; bits <= 8; bits += 4) {
    accounting(SHOAL_SWARM_NONBLOCKING, bits);
    accounting(SHOAL_SWARM_SYMMETRIC, bits);
  }
  steady_states();
  quadratics();
  shoal_backend_close(ref);
  return check_done();
}
