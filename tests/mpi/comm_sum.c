/* The ring against a serial simulation of itself, bit for bit, and its byte formula against the counters.
 *
 * The simulation says in ten lines what ring.c does in pieces: the sum of chunk k starts at member k+1 and goes round,
 * rounded to the wire format at each hop and once more at the end. */
#include "comm.h"
#include "tensor/half.h"

static int rank, size;

static float round_to(shoal_wire wire, float x)
{
  uint16_t h;
  if (wire == SHOAL_WIRE_BF16) {
    shoal_bf16_from_f32(1, &x, &h);
    shoal_f32_from_bf16(1, &h, &x);
  } else if (wire == SHOAL_WIRE_F16) {
    shoal_f16_from_f32(1, &x, &h);
    shoal_f32_from_f16(1, &h, &x);
  }
  return x;
}

static int chunk_of(size_t i, size_t n, int p)
{
  size_t begin = 0;
  for (int k = 0; k < p; k++) {
    begin += n / (size_t)p + ((size_t)k < n % (size_t)p);
    if (i < begin) return k;
  }
  return p - 1;
}

static float simulate(size_t i, size_t n, int p, shoal_wire wire, float (*value)(uint64_t, int))
{
  int k = chunk_of(i, n, p);
  float sum = value(i, (k + 1) % p);
  if (p == 1) return sum;
  for (int hop = 2; hop <= p; hop++) sum = value(i, (k + hop) % p) + round_to(wire, sum);
  return round_to(wire, sum);
}

static void fill(float *x, size_t n, int member, float (*value)(uint64_t, int))
{
  for (size_t i = 0; i < n; i++) x[i] = value(i, member);
}

static void compare(const float *x, size_t n, shoal_wire wire, float (*value)(uint64_t, int), const char *what)
{
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < n; i++) {
    float want = simulate(i, n, size, wire, value);
    if (memcmp(&want, &x[i], sizeof want) && !wrong++) first = i;
  }
  CHECK(!wrong, "%s, n = %zu, %s: %zu wrong, first [%zu] = %a, not %a", what, n, shoal_wire_name(wire), wrong, first,
        (double)x[first], (double)simulate(first, n, size, wire, value));
}

static void compare_bytes(const shoal_group *g, const shoal_counters *c, size_t n, shoal_wire wire, const char *pretend)
{
  uint64_t want[SHOAL_LINK_COUNT];
  shoal_exchange_bytes(g, n, wire, want);
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) {
    CHECK(c->payload[link] == want[link], "n = %zu, %s, topology %s, class %s: counted %llu, formula %llu", n,
          shoal_wire_name(wire), pretend ? pretend : "-", shoal_link_name(link), (unsigned long long)c->payload[link],
          (unsigned long long)want[link]);
    CHECK(c->wire[link] >= c->payload[link] && (c->messages[link] > 0) == (c->payload[link] > 0), "class %s",
          shoal_link_name(link));
    if (link == SHOAL_LINK_BETWEEN && c->messages[link] == 1)
      CHECK(c->wire[link] == c->payload[link] + 66 * ((c->payload[link] + 1447) / 1448), "wire model");
    else if (link == SHOAL_LINK_NODE)
      CHECK(c->wire[link] == c->payload[link], "no headers inside a node");
  }
}

static void sum_once(shoal_world *w, size_t n, shoal_wire wire, float (*value)(uint64_t, int), const char *pretend)
{
  shoal_group *g = shoal_world_group(w);
  shoal_exchange *e = NULL;
  float *x = room((n + 1) * sizeof *x);
  REQUIRE(shoal_exchange_create_sum(g, "test", n, wire, &e) == SHOAL_OK, "create");
  CHECK(shoal_exchange_done(e), "never started");
  for (int round = 0; round < 2; round++) {
    shoal_counters c = { 0 };
    shoal_world_set_counters(w, &c);
    fill(x, n, rank, value);
    x[n] = 77;
    CHECK_OK(shoal_exchange_start(e, x));
    CHECK_OK(shoal_exchange_wait(e));
    CHECK(shoal_exchange_done(e), "done after wait");
    compare(x, n, wire, value, pretend ? pretend : "flat");
    CHECK(x[n] == 77, "wrote past the end");
    compare_bytes(g, &c, n, wire, pretend);
    shoal_world_set_counters(w, NULL);
  }
  shoal_exchange_destroy(e);
  free(x);
}

static void sums(const char *pretend, size_t max_message)
{
  static const size_t lengths[] = { 0, 1, 2, 3, 5, 8, 100, 1001, 4099 };
  shoal_world *w = open_world(pretend, max_message);
  for (size_t i = 0; i < SHOAL_COUNT(lengths); i++)
    for (shoal_wire wire = SHOAL_WIRE_F32; wire <= SHOAL_WIRE_F16; wire++) {
      if (!pretend) sum_once(w, lengths[i], wire, small_integer, pretend);
      sum_once(w, lengths[i], wire, any_float, pretend);
    }
  if (!pretend && !max_message) { /* several pieces a chunk */
    sum_once(w, 700001, SHOAL_WIRE_F32, any_float, pretend);
    sum_once(w, 700001, SHOAL_WIRE_BF16, any_float, pretend);
  }
  shoal_world_close(w);
}

/* Integers whose sums are exact in any order: an oracle that knows nothing of rings. */
static void exact(void)
{
  enum { N = 12345 };
  shoal_world *w = open_world(NULL, 0);
  shoal_exchange *e = NULL;
  float *x = room(N * sizeof *x);
  REQUIRE(shoal_exchange_create_sum(shoal_world_group(w), "exact", N, SHOAL_WIRE_F32, &e) == SHOAL_OK, "create");
  fill(x, N, rank, small_integer);
  CHECK_OK(shoal_exchange_start(e, x));
  CHECK_OK(shoal_exchange_wait(e));
  for (size_t i = 0; i < N; i++) {
    float sum = 0;
    for (int r = 0; r < size; r++) sum += small_integer(i, r);
    REQUIRE(x[i] == sum, "[%zu] = %g, not %g", i, (double)x[i], (double)sum);
  }
  shoal_exchange_destroy(e);
  free(x);
  shoal_world_close(w);
}

/* Special numbers survive: the finished chunk has the same bits on all members, infinities and NaN included. */
static void specials(void)
{
  enum { N = 40 };
  shoal_world *w = open_world(NULL, 0);
  for (shoal_wire wire = SHOAL_WIRE_F32; wire <= SHOAL_WIRE_F16; wire++) {
    float x[N], *all = room((size_t)size * sizeof x);
    shoal_exchange *e = NULL;
    for (int i = 0; i < N; i++)
      x[i] = i % 4 == 0 ? 1e30f : i % 4 == 1 ? (rank ? 1.0f : NAN) : i % 4 == 2 ? -0.0f : 1e-40f;
    REQUIRE(shoal_exchange_create_sum(shoal_world_group(w), "specials", N, wire, &e) == SHOAL_OK, "create");
    CHECK_OK(shoal_exchange_start(e, x));
    CHECK_OK(shoal_exchange_wait(e));
    CHECK(isnan(x[1]), "NaN was lost: %g", (double)x[1]);
    if (wire == SHOAL_WIRE_F16 && size > 1) CHECK(isinf(x[0]), "1e30 as f16: %g", (double)x[0]);
    CHECK_OK(shoal_group_allgather(shoal_world_group(w), x, sizeof x, all));
    for (int r = 0; r < size; r++) CHECK(!memcmp(all + r * N, x, sizeof x), "rank %d has other bits", r);
    shoal_exchange_destroy(e);
    free(all);
  }
  shoal_world_close(w);
}

int main(void)
{
  mpi_start(&rank, &size);
  exact();
  specials();
  sums(NULL, 0);
  sums(NULL, 1000);
  for (size_t i = 0; i < SHOAL_COUNT(topologies); i++)
    if (topologies[i].size == size) sums(topologies[i].pretend, i % 2 ? 1000 : 0);
  return mpi_done();
}
