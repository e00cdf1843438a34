/* Sums against a serial simulation of themselves, bit for bit, and their byte formula against the counters.
 *
 * The simulation says in twenty lines what src/comm does in pieces: the vector is cut into shards, one for each owner of
 * a node; a node's sum starts at the owner and goes around the node; the sum of chunk k of a shard starts at node k+1
 * and goes around the nodes, rounded to the wire format at each hop and once more at the end.  The flat ring is that
 * with every rank on a node of its own.  By halving and doubling a node adds what it gets from ever nearer nodes to its own
 * part: each of these is rounded, and was added up in the same way.  "small" adds parts, each rounded once, in rank order. */
#include "allocations.h"
#include "base/crc32c.h"
#include "comm.h"
#include "comm/costs.h"
#include "tensor/half.h"
#include "veil/veil.h"

enum { MOST = 17 };
static int rank, size;

/* The placement of the ranks, worked out by the test itself. */
typedef struct {
  int nodes, owners, count[MOST], member[MOST][MOST];
} layout;

static bool halves(shoal_sum_algorithm a)
{
  return a == SHOAL_SUM_HALVING || a == SHOAL_SUM_TWO_LEVEL_HALVING || a == SHOAL_SUM_LEADERS_HALVING;
}

static layout lay_out(const shoal_world *w, const shoal_group *g, shoal_sum_algorithm algorithm)
{
  layout l = { .owners = MOST };
  int names[MOST];
  for (int r = 0; r < shoal_group_size(g); r++) {
    bool flat = algorithm == SHOAL_SUM_RING || algorithm == SHOAL_SUM_HALVING;
    int name = flat ? r : shoal_world_topo(w)->places[shoal_group_world_rank(g, r)].node, m = 0;
    while (m < l.nodes && names[m] != name) m++;
    if (m == l.nodes) names[l.nodes++] = name;
    l.member[m][l.count[m]++] = r;
  }
  for (int m = 0; m < l.nodes; m++) l.owners = SHOAL_MIN(l.owners, l.count[m]);
  if (algorithm == SHOAL_SUM_LEADERS || algorithm == SHOAL_SUM_LEADERS_HALVING) l.owners = 1;
  return l;
}

/* What one node, or with "small" one rank, keeps of what it rounds: [MOST] of [n], or NULL. */
typedef struct {
  shoal_wire wire;
  float **error;
} rounding;

static bool blocks(shoal_wire wire)
{
  return wire == SHOAL_WIRE_Q8 || wire == SHOAL_WIRE_Q4;
}

static size_t grain_of(shoal_wire wire)
{
  return blocks(wire) ? SHOAL_WIRE_BLOCK : 1;
}

/* A block by trying spacings from below, in double. */
static void round_block(int most, size_t n, float *x)
{
  double largest = 0, s = 0x1p-100;
  bool finite = true;
  for (size_t i = 0; i < n; i++) {
    finite &= (bool)isfinite(x[i]);
    largest = fmax(largest, fabs((double)x[i]));
  }
  while (finite && nearbyint(largest / s) > most) s *= 2;
  for (size_t i = 0; i < n; i++) x[i] = finite && s <= 0x1p100 ? (float)(nearbyint((double)x[i] / s) * s + 0.0) : NAN;
}

static void round_to(const rounding *q, int who, uint64_t at, size_t n, float *x)
{
  float *error = q->error ? q->error[who] + at : NULL;
  uint16_t h;
  for (size_t i = 0; i < n; i++) {
    if (error) error[i] = x[i] += error[i];
    if (q->wire == SHOAL_WIRE_BF16) {
      shoal_bf16_from_f32(1, &x[i], &h);
      shoal_f32_from_bf16(1, &h, &x[i]);
    } else if (q->wire == SHOAL_WIRE_F16) {
      shoal_f16_from_f32(1, &x[i], &h);
      shoal_f32_from_f16(1, &h, &x[i]);
    }
  }
  if (blocks(q->wire)) round_block(q->wire == SHOAL_WIRE_Q8 ? 127 : 7, n, x);
  for (size_t i = 0; error && i < n; i++) error[i] -= x[i];
}

/* Index of the part that holds i when n is split evenly into whole grains; i becomes the offset in that part, and n its size. */
static int part_of(size_t *i, size_t *n, size_t grain, int parts)
{
  size_t whole = *n, all = (whole + grain - 1) / grain;
  for (int k = 0; k < parts; k++) {
    *n = SHOAL_MIN((all / (size_t)parts + ((size_t)k < all % (size_t)parts)) * grain, whole);
    if (*i < *n) return k;
    *i -= *n;
    whole -= *n;
  }
  return 0;
}

typedef float (*source)(uint64_t, int);

/* From here on, of the elements at .. at + n, which are rounded together. */
static void node_sum(const layout *l, int m, int shard, uint64_t at, size_t n, source value, float *sum)
{
  for (size_t i = 0; i < n; i++) {
    sum[i] = value(at + i, l->member[m][shard]);
    for (int q = 1; q < l->count[m]; q++) sum[i] += value(at + i, l->member[m][(shard + q) % l->count[m]]);
  }
}

/* What node m has for the chunk j nodes on, once the rounds at distance `span` and above are over. */
static void halved(const layout *l, int m, int j, int span, int shard, uint64_t at, size_t n, const rounding *q,
                   source value, float *sum)
{
  int far = l->nodes, distances[8], count = 0;
  float part[SHOAL_WIRE_BLOCK];
  node_sum(l, m, shard, at, n, value, sum);
  for (; far > span; far = (far + 1) / 2) distances[count++] = far;
  for (int t = 1; t <= count; t++) {
    int distance = t < count ? distances[t] : span, from = (m - distance + l->nodes) % l->nodes;
    if (j >= distances[t - 1] - distance) continue;
    halved(l, from, j + distance, distances[t - 1], shard, at, n, q, value, part);
    round_to(q, from, at, n, part);
    for (size_t i = 0; i < n; i++) sum[i] += part[i];
  }
}

/* @param len  of the vector */
static void simulate(const layout *l, uint64_t at, size_t n, size_t len, int p, const rounding *q,
                     shoal_sum_algorithm algorithm, source value, float *sum)
{
  float part[SHOAL_WIRE_BLOCK];
  size_t i = at;
  if (p == 1 || algorithm == SHOAL_SUM_SMALL) {
    memset(sum, 0, n * sizeof *sum);
    for (int r = 0; r < p; r++) {
      for (size_t k = 0; k < n; k++) part[k] = value(at + k, r);
      if (p > 1) round_to(q, r, at, n, part);
      for (size_t k = 0; k < n; k++) sum[k] = r ? sum[k] + part[k] : part[k];
    }
    return;
  }
  int shard = part_of(&i, &len, grain_of(q->wire), l->owners), k = part_of(&i, &len, grain_of(q->wire), l->nodes);
  if (halves(algorithm) && l->nodes > 1) {
    halved(l, k, 0, 1, shard, at, n, q, value, sum);
  } else {
    node_sum(l, (k + 1) % l->nodes, shard, at, n, value, sum);
    for (int hop = 2; hop <= l->nodes; hop++) {
      round_to(q, (k + hop - 1) % l->nodes, at, n, sum);
      node_sum(l, (k + hop) % l->nodes, shard, at, n, value, part);
      for (size_t e = 0; e < n; e++) sum[e] = part[e] + sum[e];
    }
  }
  if (l->nodes > 1) round_to(q, k, at, n, sum);
}

static void fill(float *x, size_t n, int member, source value)
{
  for (size_t i = 0; i < n; i++) x[i] = value(i, member);
}

/* Of a long vector, which all ranks have summed, each simulates its share, and all have the same bits. */
static void compare(const layout *l, int p, const float *x, size_t n, const rounding *q, shoal_sum_algorithm algorithm,
                    source value, const char *what)
{
  enum { LONG = 100000 };
  size_t wrong = 0, first = 0, grain = grain_of(q->wire), step = n > LONG ? (size_t)p * grain : grain;
  float want[SHOAL_WIRE_BLOCK], expected = 0;
  if (n > LONG) {
    uint32_t crc = shoal_crc32c(0, x, n * sizeof *x), ends[2] = { crc, ~crc };
    MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD);
    CHECK_EQ(ends[0], ~ends[1], "%s, n = %zu, %s, %s: ranks have different bits", what, n, shoal_wire_name(q->wire),
             shoal_sum_name(algorithm));
  }
  for (size_t at = n > LONG ? (size_t)rank * grain : 0; at < n; at += step) {
    size_t count = SHOAL_MIN(grain, n - at);
    simulate(l, at, count, n, p, q, algorithm, value, want);
    for (size_t i = 0; i < count; i++) {
      if (!memcmp(&want[i], &x[at + i], sizeof *want) || wrong++) continue;
      first = at + i;
      expected = want[i];
    }
  }
  CHECK(!wrong, "%s, n = %zu, %s, %s: %zu wrong, first [%zu] = %a, not %a", what, n, shoal_wire_name(q->wire),
        shoal_sum_name(algorithm), wrong, first, (double)x[first], (double)expected);
}

static void compare_bytes(const shoal_group *g, const shoal_counters *c, size_t n, shoal_wire wire,
                          shoal_sum_algorithm algorithm, const char *what)
{
  uint64_t want[SHOAL_LINK_COUNT];
  shoal_exchange_bytes(g, n, wire, algorithm, want);
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) {
    CHECK_EQ(c->payload[link], want[link], "n = %zu, %s, %s, %s, class %s", n, shoal_wire_name(wire),
             shoal_sum_name(algorithm), what, shoal_link_name(link));
    CHECK_GE(c->wire[link], c->payload[link], "class %s", shoal_link_name(link));
    CHECK_EQ(c->messages[link] > 0, c->payload[link] > 0, "class %s", shoal_link_name(link));
    if (link == SHOAL_LINK_BETWEEN && c->messages[link] == 1)
      CHECK_EQ(c->wire[link], c->payload[link] + 66 * ((c->payload[link] + 1447) / 1448), "wire model");
    else if (link == SHOAL_LINK_NODE)
      CHECK_EQ(c->wire[link], c->payload[link], "no headers inside a node");
  }
}

/* Begins or ends to count what is allocated by our own code; the number so far. */
static long count_allocations(bool begin)
{
#ifdef COUNTS_ALLOCATIONS
  long before = own;
  own = 0;
  counting = begin;
  return before;
#else
  return 0;
#endif
}

static void sum_once(shoal_world *w, shoal_group *g, size_t n, shoal_wire wire, shoal_sum_algorithm algorithm,
                     source value, const char *what)
{
  shoal_exchange *e = NULL;
  float *x = shared_room(g, (n + 1) * sizeof *x);
  int p = shoal_group_size(g);
  REQUIRE(shoal_exchange_create_sum(g, "test", n, wire, algorithm, &e) == SHOAL_OK, "create");
  CHECK(shoal_exchange_done(e), "never started");
  algorithm = shoal_exchange_algorithm(e);
  layout l = lay_out(w, g, algorithm);
  for (int round = 0; round < 2; round++) {
    shoal_counters c = { 0 };
    shoal_world_set_counters(w, &c);
    fill(x, n, shoal_group_rank(g), value);
    x[n] = 77;
    count_allocations(round > 0);
    CHECK_OK(shoal_exchange_start(e, x, (shoal_event){ 0 }));
    CHECK_OK(shoal_exchange_wait(e));
    CHECK_EQ(count_allocations(false), 0, "allocations of %s", shoal_sum_name(algorithm));
    CHECK(shoal_exchange_done(e), "done after wait");
    compare(&l, p, x, n, &(rounding){ wire, NULL }, algorithm, value, what);
    CHECK_EQ(x[n], 77, "wrote past the end");
    compare_bytes(g, &c, n, wire, algorithm, what);
    shoal_world_set_counters(w, NULL);
  }
  shoal_exchange_destroy(e);
  shoal_group_unshare(g, x);
}

/* Most of a sum's time is its planning: so each length in one of the 16-bit formats, what was planned in the same way before in one
 * format at all, and below only lengths that bring something new. */
static void group_sums(shoal_world *w, shoal_group *g, const size_t *lengths, size_t n, const char *what)
{
  for (size_t i = 0; i < n; i++)
    for (shoal_sum_algorithm a = SHOAL_SUM_RING; a < SHOAL_SUM_ALGORITHMS; a++) {
      shoal_wire narrow = i % 2 ? SHOAL_WIRE_BF16 : SHOAL_WIRE_F16;
      if (!halves(a) || (i + (size_t)a) % 2) sum_once(w, g, lengths[i], SHOAL_WIRE_F32, a, any_float, what);
      if (!halves(a) || (i + (size_t)a) % 2 == 0) sum_once(w, g, lengths[i], narrow, a, any_float, what);
    }
}

static uint64_t turn; /* of the sums below */

/* Of very different size from block to block; sums of them are exact, and so is what rounding takes. */
static float whole_number(uint64_t i, int member)
{
  uint32_t h = ((uint32_t)(i + 7919 * turn) + 1) * 2654435761u ^ (uint32_t)member * 40503u;
  return (float)((int32_t)h >> (15 + (i / 128 + turn) % 17));
}

/* What a rank keeps, against the simulation's. */
static void compare_errors(const layout *l, const shoal_exchange *e, size_t n, shoal_sum_algorithm algorithm,
                           float *const *error, const char *what)
{
  size_t kept, begin = 0, len = n;
  int m = 0, q = 0;
  const float *kept_here = shoal_exchange_errors(e, &kept);
  if (algorithm == SHOAL_SUM_SMALL) {
    m = rank;
  } else {
    for (; l->member[m][q] != rank; q = q + 1 < l->count[m] ? q + 1 : (m++, 0)) {}
    size_t grains = (n + SHOAL_WIRE_BLOCK - 1) / SHOAL_WIRE_BLOCK, each = grains / (size_t)l->owners;
    size_t more = grains % (size_t)l->owners, at = (size_t)q;
    begin = SHOAL_MIN((at * each + SHOAL_MIN(at, more)) * SHOAL_WIRE_BLOCK, n);
    len = q < l->owners ? SHOAL_MIN((each + (at < more)) * SHOAL_WIRE_BLOCK, n - begin) : 0;
  }
  CHECK_EQ(kept, size > 1 && (l->nodes > 1 || algorithm == SHOAL_SUM_SMALL) ? len : 0, "%s, errors of %s", what,
           shoal_sum_name(algorithm));
  CHECK(!kept || !memcmp(kept_here, error[m] + begin, kept * sizeof *kept_here), "%s, errors of %s", what,
        shoal_sum_name(algorithm));
}

/* Sums in blocks that keep their errors.  In the end all that went in has come out, or is kept. */
static void kept_errors(shoal_world *w, size_t n, shoal_wire wire, shoal_sum_algorithm algorithm, const char *what)
{
  shoal_exchange *e = NULL;
  shoal_group *g = shoal_world_group(w);
  float *x = shared_room(g, (n + 1) * sizeof *x), *error[MOST];
  double *left = room((n + 1) * sizeof *left);
  memset(left, 0, n * sizeof *left);
  for (int m = 0; m < size; m++) memset(error[m] = room((n + 1) * sizeof **error), 0, n * sizeof **error);
  REQUIRE(shoal_exchange_create_sum(g, "kept", n, wire, algorithm, &e) == SHOAL_OK, "create");
  CHECK_OK(shoal_exchange_keep_errors(e));
  algorithm = shoal_exchange_algorithm(e);
  layout l = lay_out(w, g, algorithm);
  for (turn = 0; turn < 3; turn++) {
    shoal_counters c = { 0 };
    shoal_world_set_counters(w, &c);
    fill(x, n, rank, whole_number);
    count_allocations(true);
    CHECK_OK(shoal_exchange_start(e, x, (shoal_event){ 0 }));
    CHECK_OK(shoal_exchange_wait(e));
    CHECK_EQ(count_allocations(false), 0, "allocations of %s", shoal_sum_name(algorithm));
    shoal_world_set_counters(w, NULL);
    compare(&l, size, x, n, &(rounding){ wire, error }, algorithm, whole_number, what);
    compare_errors(&l, e, n, algorithm, error, what);
    compare_bytes(g, &c, n, wire, algorithm, what);
    for (size_t i = 0; i < n; i++) {
      for (int r = 0; r < size; r++) left[i] += (double)whole_number(i, r);
      left[i] -= (double)x[i];
    }
  }
  size_t lost = 0, rounded = 0;
  for (size_t i = 0; i < n; i++) {
    rounded += left[i] != 0;
    for (int m = 0; m < size; m++) left[i] -= (double)error[m][i];
    lost += left[i] != 0;
  }
  CHECK_EQ(lost, 0, "%s, n = %zu, %s, %s", what, n, shoal_wire_name(wire), shoal_sum_name(algorithm));
  CHECK(rounded || l.nodes == 1 || size == 1 || n < 100, "%s, n = %zu, %s: nothing was rounded", what, n,
        shoal_wire_name(wire));
  for (int m = 0; m < size; m++) free(error[m]);
  free(left);
  shoal_exchange_destroy(e);
  shoal_group_unshare(g, x);
}

static void all_kept_errors(shoal_world *w, bool few, const char *what)
{
  static const size_t lengths[] = { 1001, 128, 5003 };
  for (size_t i = 0; i < (few ? 1 : SHOAL_COUNT(lengths)); i++)
    for (shoal_sum_algorithm a = SHOAL_SUM_AUTO; a < SHOAL_SUM_ALGORITHMS; a++)
      kept_errors(w, lengths[i], (i + (size_t)a) % 2 ? SHOAL_WIRE_Q8 : SHOAL_WIRE_Q4, a, what);
}

static const size_t every[] = { 0, 1, 2, 3, 5, 8, 100, 1001, 4099 };
static const size_t cut[] = { 1001, 4099 };       /* a limit of 1000 bytes splits their messages */
static const size_t reordered[] = { 1, 5, 1001 }; /* fewer than, about as many as, and more than there are ranks */

/* As any_float, for many numbers: quicker to make. */
static float quick_float(uint64_t i, int member)
{
  uint32_t h = ((uint32_t)i + 1) * 2654435761u ^ (uint32_t)member * 40503u;
  return (float)(h >> 8) * 0x1p-24f - 0.4f;
}

/* Several pieces a chunk. */
static void long_sums(shoal_world *w, const char *what)
{
  for (shoal_sum_algorithm a = SHOAL_SUM_RING; a < SHOAL_SUM_ALGORITHMS; a++) {
    if (a == SHOAL_SUM_SMALL || a == SHOAL_SUM_LEADERS_HALVING) continue;
    sum_once(w, shoal_world_group(w), 700001, SHOAL_WIRE_F32, a, quick_float, what);
    sum_once(w, shoal_world_group(w), 700001, a % 2 ? SHOAL_WIRE_BF16 : SHOAL_WIRE_Q8, a, quick_float, what);
  }
}

static void sums(const char *pretend, size_t max_message)
{
  shoal_world *w = open_world(pretend, max_message);
  group_sums(w, shoal_world_group(w), max_message ? cut : every, max_message ? SHOAL_COUNT(cut) : SHOAL_COUNT(every),
             pretend ? pretend : "flat");
  if (pretend) all_kept_errors(w, max_message > 0, pretend);
  if (!max_message) long_sums(w, pretend ? pretend : "flat");
  shoal_world_close(w);
}

/* Ranks that are not ordered by node: 0 2 4 ... 1 3 5 ...; and a group without rank 0, where there are enough others. */
static void mixed_order(const char *pretend)
{
  shoal_world *w = open_world(pretend, 0);
  shoal_group *g = NULL;
  int ranks[MOST], n = 0;
  for (int start = 0; start < 2; start++)
    for (int r = start; r < size; r += 2) ranks[n++] = r;
  REQUIRE(shoal_group_create(w, "mixed", ranks, n, &g) == SHOAL_OK, "create");
  group_sums(w, g, reordered, SHOAL_COUNT(reordered), "mixed");
  shoal_group_destroy(g);
  if (rank) {
    for (int r = 1; r < size; r++) ranks[r - 1] = size - r;
    REQUIRE(shoal_group_create(w, "backwards", ranks, size - 1, &g) == SHOAL_OK, "create");
    group_sums(w, g, reordered, SHOAL_COUNT(reordered), "backwards");
    shoal_group_destroy(g);
  }
  shoal_world_close(w);
}

static void check_integers(shoal_group *g, size_t n, shoal_sum_algorithm algorithm)
{
  shoal_exchange *e = NULL;
  float *x = shared_room(g, n * sizeof *x);
  REQUIRE(shoal_exchange_create_sum(g, "exact", n, SHOAL_WIRE_F32, algorithm, &e) == SHOAL_OK, "create");
  fill(x, n, rank, small_integer);
  CHECK_OK(shoal_exchange_start(e, x, (shoal_event){ 0 }));
  CHECK_OK(shoal_exchange_wait(e));
  for (size_t i = 0; i < n; i++) {
    float sum = 0;
    for (int r = 0; r < size; r++) sum += small_integer(i, r);
    REQUIRE(x[i] == sum, "%s: [%zu] = %g, not %g", shoal_sum_name(algorithm), i, (double)x[i], (double)sum);
  }
  shoal_exchange_destroy(e);
  shoal_group_unshare(g, x);
}

/* Integers whose sums are exact in any order: an oracle that knows nothing of rings. */
static void exact(const char *pretend)
{
  shoal_world *w = open_world(pretend, 0);
  for (shoal_sum_algorithm a = SHOAL_SUM_AUTO; a < SHOAL_SUM_ALGORITHMS; a++)
    check_integers(shoal_world_group(w), 12345, a);
  shoal_world_close(w);
}

static shoal_sum_algorithm chosen(shoal_group *g, size_t n, shoal_wire wire)
{
  shoal_exchange *e = NULL;
  REQUIRE(shoal_exchange_create_sum(g, "chosen", n, wire, SHOAL_SUM_AUTO, &e) == SHOAL_OK, "create");
  shoal_sum_algorithm a = shoal_exchange_algorithm(e);
  shoal_exchange_destroy(e);
  return a;
}

/* The rule of docs/methods/sync.md in other words: what the largest node would send by "small", 8, 16 and 64 KiB. */
static void choice(const char *pretend)
{
  shoal_world *w = open_world(pretend, 0);
  const shoal_topo *t = shoal_world_topo(w);
  shoal_group *g = shoal_world_group(w);
  size_t most = 0;
  for (int r = 0; r < size; r++) most = SHOAL_MAX(most, (size_t)t->places[r].local_size);
  bool two = t->nodes > 1 && t->nodes < size, one = t->nodes == 1 && size > 1;
  shoal_sum_algorithm few = one ? SHOAL_SUM_TWO_LEVEL : size > 1 ? SHOAL_SUM_SMALL : SHOAL_SUM_RING;
  shoal_sum_algorithm some = one ? SHOAL_SUM_TWO_LEVEL : two ? SHOAL_SUM_LEADERS : SHOAL_SUM_RING;
  shoal_sum_algorithm many = one || two ? SHOAL_SUM_TWO_LEVEL : SHOAL_SUM_RING;
  size_t limit = t->nodes == 1 ? 2048 : SHOAL_MIN((size_t)2048, 4096 / ((size_t)size * most));
  CHECK_EQ(chosen(g, limit, SHOAL_WIRE_F32), few, "%zu f32 on %s", limit, pretend);
  CHECK_EQ(chosen(g, 2 * limit, SHOAL_WIRE_BF16), few, "%zu bf16 on %s", 2 * limit, pretend);
  CHECK_EQ(chosen(g, limit + 1, SHOAL_WIRE_F32), some, "%zu f32 on %s", limit + 1, pretend);
  CHECK_EQ(chosen(g, 16384, SHOAL_WIRE_F32), some, "64 KiB on %s", pretend);
  CHECK_EQ(chosen(g, 16385, SHOAL_WIRE_F32), many, "above on %s", pretend);
  shoal_world_close(w);
}

/* Where nodes share no memory, sums that need it are refused, auto does without, and sharing still gives memory. */
static void without_sharing(const char *pretend)
{
  shoal_world *w = NULL;
  shoal_world_options o = { .pretend = pretend, .no_sharing = true };
  REQUIRE(shoal_world_open(&o, &w) == SHOAL_OK, "open");
  shoal_group *g = shoal_world_group(w);
  bool near = shoal_world_topo(w)->nodes < size;
  shoal_exchange *e = NULL;
  CHECK(!shoal_world_shares(w), "shares");
  CHECK_EQ(chosen(g, 100000, SHOAL_WIRE_F32), SHOAL_SUM_RING, "auto on %s", pretend);
  check_integers(g, 12345, SHOAL_SUM_AUTO);
  shoal_status st = shoal_exchange_create_sum(g, "two", 10, SHOAL_WIRE_F32, SHOAL_SUM_TWO_LEVEL, &e);
  CHECK_STATUS(st, near ? SHOAL_ERR_UNSUPPORTED : SHOAL_OK, "two-level on %s", pretend);
  if (st == SHOAL_OK) shoal_exchange_destroy(e);
  shoal_world_close(w);
}

/* A backend's memory that was registered is summed in place, at any offset; one of another kind is refused on all ranks. */
static void registered_memory(shoal_world *w, const char *pretend)
{
  enum { N = 3000, AT = 7 };
  shoal_group *g = shoal_world_group(w);
  shoal_backend *b;
  shoal_memory m, other;
  shoal_exchange *e = NULL;
  bool shares = shoal_group_memory_kind(g) == SHOAL_MEMORY_SHARED;
  CHECK_EQ(shares, shoal_world_shares(w));
  REQUIRE(shoal_backend_open("ref", 1, &b) == SHOAL_OK, "backend");
  REQUIRE(b->ops->alloc(b, shoal_group_memory_kind(g), (N + AT) * sizeof(float), &m) == SHOAL_OK, "alloc");
  REQUIRE(b->ops->alloc(b, SHOAL_MEMORY_DEVICE, 16, &other) == SHOAL_OK, "alloc");
  REQUIRE(shoal_group_register(g, &m) == SHOAL_OK, "register");
  shoal_status st = shoal_group_register(g, &other);
  CHECK_STATUS(st, shares ? SHOAL_ERR_ARG : SHOAL_OK, "another kind");
  CHECK_OK(shoal_exchange_create_sum(g, "registered", N, SHOAL_WIRE_F32, SHOAL_SUM_TWO_LEVEL, &e));
  float *x = (float *)m.at + AT;
  for (size_t i = 0; i < N; i++) x[i] = small_integer(i, rank);
  CHECK_OK(shoal_exchange_start(e, x, shoal_backend_mark(b)));
  CHECK_OK(shoal_exchange_wait(e));
  size_t wrong = 0;
  for (size_t i = 0; i < N; i++) {
    float sum = 0;
    for (int r = 0; r < size; r++) sum += small_integer(i, r);
    wrong += x[i] != sum;
  }
  CHECK_EQ(wrong, 0, "registered memory on %s", pretend);
  shoal_exchange_destroy(e);
  CHECK_OK(shoal_group_barrier(g));
  shoal_group_unregister(g, &m);
  shoal_group_unregister(g, &other);
  b->ops->release(b, &m);
  b->ops->release(b, &other);
  shoal_backend_close(b);
}

/* A vector that the neighbours cannot reach is refused, on every rank and before anything moves. */
static void ordinary_memory(const char *pretend)
{
  shoal_world *w = open_world(pretend, 0);
  shoal_exchange *e = NULL;
  float x[16] = { 0 };
  registered_memory(w, pretend);
  CHECK_OK(shoal_exchange_create_sum(shoal_world_group(w), "own", 16, SHOAL_WIRE_F32, SHOAL_SUM_TWO_LEVEL, &e));
  if (shoal_world_topo(w)->places[rank].local_size > 1) {
    CHECK_STATUS(shoal_exchange_start(e, x, (shoal_event){ 0 }), SHOAL_ERR_ARG, "ordinary memory");
    CHECK_HAS(check_error(), "registered memory");
  }
  shoal_exchange_destroy(e);
  shoal_world_close(w);
}

/* Two sums in flight of a vector that the host cannot reach.  Its owner goes on to use it without waiting for the backend. */
static void away_once(shoal_world *w, shoal_backend *b, size_t n, shoal_wire wire, shoal_sum_algorithm algorithm,
                      const char *what)
{
  shoal_group *g = shoal_world_group(w);
  shoal_exchange *e[2] = { NULL, NULL };
  const shoal_backend_ops *ops = b->ops;
  shoal_memory x;
  float *host = room((n + 1) * sizeof *host);
  CHECK_OK(ops->alloc(b, shoal_group_memory_kind(g), (2 * n + 1) * sizeof *host, &x));
  CHECK_EQ(x.kind, SHOAL_MEMORY_DEVICE);
  CHECK_OK(shoal_group_register(g, &x));
  for (int k = 0; k < 2; k++)
    REQUIRE(shoal_exchange_create_sum(g, "away", n, wire, algorithm, &e[k]) == SHOAL_OK, "create");
  algorithm = shoal_exchange_algorithm(e[0]);
  layout l = lay_out(w, g, algorithm);
  for (int round = 0; round < 2; round++) {
    fill(host, n, rank, quick_float);
    host[n] = 77;
    for (int k = 0; k < 2; k++) {
      float *at = (float *)x.at + (size_t)k * n;
      CHECK_OK(ops->copy(b, (n + (k == 1)) * sizeof *host, host, at));
      CHECK_OK(shoal_exchange_start(e[k], at, shoal_backend_mark(b)));
    }
    CHECK_OK(shoal_exchange_wait(e[1]));
    CHECK_OK(shoal_exchange_wait(e[0]));
    for (int k = 0; k < 2; k++) {
      CHECK_OK(ops->axpby(b, n, 1, (float *)x.at + (size_t)k * n, 0, (float *)x.at + (size_t)k * n));
      CHECK_OK(ops->copy(b, (n + (k == 1)) * sizeof *host, (float *)x.at + (size_t)k * n, host));
      compare(&l, size, host, n, &(rounding){ wire, NULL }, algorithm, quick_float, what);
      CHECK(k == 0 || host[n] == 77, "wrote past the end");
    }
  }
  for (int k = 0; k < 2; k++) shoal_exchange_destroy(e[k]);
  shoal_group_unregister(g, &x);
  ops->release(b, &x);
  free(host);
}

static void away(const char *pretend, size_t max_message)
{
  static const size_t lengths[] = { 0, 1, 5, 1001, 300001 };
  shoal_world *w = open_world(pretend, max_message);
  shoal_backend *ref, *b;
  REQUIRE(shoal_backend_open("ref", 1, &ref) == SHOAL_OK, "ref");
  REQUIRE(veil_over(ref, &b) == SHOAL_OK, "veil");
  shoal_world_set_backend(w, b);
  for (size_t i = 0; i < SHOAL_COUNT(lengths) - (max_message > 0); i++)
    for (shoal_sum_algorithm a = SHOAL_SUM_RING; a < SHOAL_SUM_ALGORITHMS; a++)
      if (a == SHOAL_SUM_SMALL ? lengths[i] <= 2000 : !halves(a) || i >= 3)
        away_once(w, b, lengths[i], i % 2 ? SHOAL_WIRE_F32 : i == 2 ? SHOAL_WIRE_Q4 : SHOAL_WIRE_BF16, a, pretend);
  shoal_world_close(w);
  shoal_backend_close(b);
}

/* Special numbers survive: the finished chunk has the same bits on all members, infinities and NaN included. */
static void specials(const char *pretend, shoal_sum_algorithm algorithm)
{
  enum { N = 40 };
  shoal_world *w = open_world(pretend, 0);
  bool flat = algorithm == SHOAL_SUM_RING || algorithm == SHOAL_SUM_SMALL || algorithm == SHOAL_SUM_HALVING;
  bool rounds = flat ? size > 1 : shoal_world_topo(w)->nodes > 1;
  for (shoal_wire wire = SHOAL_WIRE_F32; wire <= SHOAL_WIRE_F16; wire++) {
    float *x = shared_room(shoal_world_group(w), N * sizeof *x), *all = room((size_t)size * N * sizeof *x);
    shoal_exchange *e = NULL;
    for (int i = 0; i < N; i++)
      x[i] = i % 4 == 0 ? 1e30f : i % 4 == 1 ? (rank ? 1.0f : NAN) : i % 4 == 2 ? -0.0f : 1e-40f;
    REQUIRE(shoal_exchange_create_sum(shoal_world_group(w), "specials", N, wire, algorithm, &e) == SHOAL_OK, "create");
    CHECK_OK(shoal_exchange_start(e, x, (shoal_event){ 0 }));
    CHECK_OK(shoal_exchange_wait(e));
    CHECK(isnan(x[1]), "NaN was lost: %g", (double)x[1]);
    if (wire == SHOAL_WIRE_F16 && rounds) CHECK(isinf(x[0]), "1e30 as f16: %g", (double)x[0]);
    CHECK_OK(shoal_group_allgather(shoal_world_group(w), x, N * sizeof *x, all));
    for (int r = 0; r < size; r++) CHECK(!memcmp(all + r * N, x, N * sizeof *x), "rank %d has other bits", r);
    shoal_exchange_destroy(e);
    shoal_group_unshare(shoal_world_group(w), x);
    free(all);
  }
  shoal_world_close(w);
}

/* Among many nodes: halving below 256 KiB a node.  By costs: what is quickest, which depends on latency, rate, size and nodes. */
static void choice_of_many(shoal_world *w)
{
  shoal_group *g = shoal_world_group(w);
  size_t p = (size_t)size;
  bool many = size >= 8;
  CHECK_EQ(chosen(g, p * 65536 - p, SHOAL_WIRE_F32), many ? SHOAL_SUM_HALVING : SHOAL_SUM_RING);
  CHECK_EQ(chosen(g, p * 65536, SHOAL_WIRE_F32), SHOAL_SUM_RING);
  shoal_costs c = { .latency_s = 1e-3, .near_rate = 1e8, .far_rate = 1e7, .local_latency_s = 1e-6, .local_rate = 1e10 };
  int rounds = size > 16  ? 5
               : size > 8 ? 4
                          : 3; /* a ring is slower by latency, halving by 9/10 of the bytes over 1e7 */
  double steps = 2 * (size - 1), even = (steps - 2 * rounds) * c.latency_s / (steps / size * 0.9 / c.far_rate);
  CHECK_LT(fabs(shoal_costs_of_sum(&c, g, 250000, SHOAL_WIRE_F32, SHOAL_SUM_RING) - steps * (1e-3 + 1e6 / size / 1e8)),
           1e-9);
  CHECK_LT(fabs(shoal_costs_of_sum(&c, g, 250000, SHOAL_WIRE_BF16, SHOAL_SUM_HALVING) -
                (2 * rounds * 1e-3 + steps / size * 5e5 / 1e7)),
           1e-9);
  shoal_world_set_costs(w, &c);
  CHECK_EQ(chosen(g, (size_t)(even * 0.99) / 4, SHOAL_WIRE_F32), SHOAL_SUM_HALVING);
  CHECK_EQ(chosen(g, (size_t)(even * 1.01) / 4, SHOAL_WIRE_F32), SHOAL_SUM_RING);
  CHECK_EQ(chosen(g, 1, SHOAL_WIRE_F32), SHOAL_SUM_SMALL);
}

/* A node takes the data once: whatever the tree, all members together send it to all but the root. */
static void broadcasts(shoal_world *w, int root, size_t n)
{
  shoal_group *g = shoal_world_group(w);
  unsigned char *x = room(n);
  shoal_counters c = { 0 };
  uint64_t want[SHOAL_LINK_COUNT];
  for (size_t i = 0; i < n; i++) x[i] = rank == root ? (unsigned char)(i * 7 + i / 251) : 0;
  shoal_world_set_counters(w, &c);
  CHECK_OK(shoal_group_broadcast(g, x, n, root));
  shoal_world_set_counters(w, NULL);
  size_t wrong = 0;
  for (size_t i = 0; i < n; i++) wrong += x[i] != (unsigned char)(i * 7 + i / 251);
  CHECK_EQ(wrong, 0, "%zu bytes from %d of %d", n, root, size);
  shoal_group_broadcast_bytes(g, n, root, want);
  CHECK(!memcmp(want, c.payload, sizeof want), "formula, %zu bytes from %d of %d", n, root, size);
  if (rank == root && shoal_world_topo(w)->nodes == size) /* one piece goes down a tree, twelve along a chain */
    CHECK_EQ(want[SHOAL_LINK_BETWEEN], n > 100000 ? n : 2 * n, "from %d of %d", root, size);
  int64_t sent[] = { (int64_t)c.payload[SHOAL_LINK_NODE], (int64_t)c.payload[SHOAL_LINK_BETWEEN] };
  CHECK_OK(shoal_group_sum_i64(shoal_world_control(w), sent, 2));
  CHECK_EQ(sent[1], (int64_t)n * (shoal_world_topo(w)->nodes - 1), "from %d of %d", root, size);
  CHECK_EQ(sent[0], (int64_t)n * (size - shoal_world_topo(w)->nodes), "from %d of %d", root, size);
  free(x);
}

/* Other numbers of ranks: what depends on them is the order of chunks and rounds, on nodes of one rank and of several. */
static void many_ranks(void)
{
  char nodes[16], pairs[64] = "1";
  snprintf(nodes, sizeof nodes, "%dx1", size);
  for (int r = 1; r < size; r += 2) {
    size_t at = strlen(pairs);
    snprintf(pairs + at, sizeof pairs - at, ",%d", SHOAL_MIN(2, size - r));
  }
  for (int i = 0; i < 2; i++) {
    shoal_world *w = open_world(i ? pairs : nodes, 0);
    shoal_group *g = shoal_world_group(w);
    for (shoal_sum_algorithm a = SHOAL_SUM_HALVING; a < SHOAL_SUM_ALGORITHMS; a++) {
      sum_once(w, g, 5, SHOAL_WIRE_F32, a, any_float, "many ranks");
      kept_errors(w, 20011, i ? SHOAL_WIRE_Q8 : SHOAL_WIRE_Q4, a, "many ranks");
      sum_once(w, g, 20011, i ? SHOAL_WIRE_F32 : SHOAL_WIRE_BF16, a, any_float, "many ranks");
    }
    for (int root = 0; root < size; root += size - 1) {
      broadcasts(w, root, 40000);
      broadcasts(w, root, 3000001);
    }
    if (i == 0) choice_of_many(w);
    sum_once(w, g, 1009, SHOAL_WIRE_F32, i ? SHOAL_SUM_TWO_LEVEL : SHOAL_SUM_RING, any_float, "many ranks");
    shoal_world_close(w);
  }
}

int main(void)
{
  mpi_start(&rank, &size);
  if (size == 6 || size > 8) {
    many_ranks();
    return mpi_done();
  }
  for (shoal_sum_algorithm a = SHOAL_SUM_RING; a < SHOAL_SUM_ALGORITHMS; a++) specials(NULL, a);
  sums(NULL, 0);
  sums(NULL, 1000);
  for (size_t i = 0; i < SHOAL_COUNT(topologies); i++) {
    const char *pretend = topologies[i].pretend;
    if (topologies[i].size != size) continue;
    sums(pretend, 0);
    sums(pretend, 1000);
    exact(pretend);
    choice(pretend);
    without_sharing(pretend);
    ordinary_memory(pretend);
    specials(pretend, SHOAL_SUM_TWO_LEVEL);
    specials(pretend, SHOAL_SUM_TWO_LEVEL_HALVING);
    if (size > 2) mixed_order(pretend);
    away(pretend, 0);
    away(pretend, 1000);
  }
  return mpi_done();
}
