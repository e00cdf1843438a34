/* Work in flight: many exchanges at once, progress without waiting, votes and messages beside them, refused plans. */
#include "base/clock.h"
#include "comm.h"
#include "trace/trace.h"

static int rank, size;

enum { MANY = 12 };
static shoal_exchange *e[MANY];
static float *x[MANY];
static size_t lengths[MANY];

/* All of them side by side, "small" where it is not too long for it. */
static shoal_sum_algorithm algorithm_of(int i)
{
  static const shoal_sum_algorithm of[] = { SHOAL_SUM_AUTO,    SHOAL_SUM_RING,    SHOAL_SUM_TWO_LEVEL,
                                            SHOAL_SUM_LEADERS, SHOAL_SUM_SMALL,   SHOAL_SUM_HALVING,
                                            SHOAL_SUM_RING,    SHOAL_SUM_HALVING, SHOAL_SUM_TWO_LEVEL_HALVING,
                                            SHOAL_SUM_AUTO,    SHOAL_SUM_LEADERS, SHOAL_SUM_LEADERS_HALVING };
  return of[i];
}

static void create_many(shoal_group *g, int scale)
{
  for (int i = 0; i < MANY; i++) {
    char name[16];
    snprintf(name, sizeof name, "bucket %d", i);
    lengths[i] = (size_t)(i == 0 ? 0 : i * i * scale + i);
    x[i] = shared_room(g, (lengths[i] + 1) * sizeof *x[i]);
    REQUIRE(shoal_exchange_create_sum(g, name, lengths[i], i % 3, algorithm_of(i), &e[i]) == SHOAL_OK, "create %d", i);
  }
}

static void destroy_many(shoal_group *g)
{
  for (int i = 0; i < MANY; i++) {
    shoal_exchange_destroy(e[i]);
    shoal_group_unshare(g, x[i]);
  }
}

static void start_many(void)
{
  for (int i = 0; i < MANY; i++) {
    for (size_t k = 0; k < lengths[i]; k++) x[i][k] = small_integer(k + (size_t)i, rank);
    CHECK_OK(shoal_exchange_start(e[i], x[i], (shoal_event){ 0 }));
  }
}

static void check_many(void)
{
  for (int i = 0; i < MANY; i++) {
    size_t wrong = 0;
    for (size_t k = 0; k < lengths[i]; k++) {
      float sum = 0;
      for (int r = 0; r < size; r++) sum += small_integer(k + (size_t)i, r); /* below 2^8: exact in bf16 too */
      wrong += x[i][k] != sum;
    }
    CHECK(!wrong, "bucket %d: %zu of %zu wrong", i, wrong, lengths[i]);
  }
}

/* A backend whose work is done when `written` says so. */
static bool written;
static bool is_written(shoal_backend *b, uint64_t number)
{
  return written;
}

/* Rank 0's vectors are not written yet: nothing of them is sent, and nothing is received into them, whatever the others do;
 * then all comes as if nothing had been. */
static void waits_for_memory(shoal_world *w)
{
  shoal_backend *ref, held;
  shoal_backend_ops ops;
  REQUIRE(shoal_backend_open("ref", 1, &ref) == SHOAL_OK, "backend");
  held = *ref;
  ops = *ref->ops;
  ops.reached = is_written;
  held.ops = &ops;
  written = rank > 0;
  for (int i = 0; i < MANY; i++) {
    for (size_t k = 0; k < lengths[i]; k++) x[i][k] = rank > 0 ? small_integer(k + (size_t)i, rank) : 1e9f;
    CHECK_OK(shoal_exchange_start(e[i], x[i], shoal_backend_mark(&held)));
  }
  for (uint64_t t0 = shoal_now_ns(); rank == 0 && shoal_seconds_since(t0) < 0.02;) CHECK_OK(shoal_world_progress(w));
  size_t touched = 0;
  for (int i = 0; rank == 0 && size > 1 && i < MANY; i++) {
    CHECK(!shoal_exchange_done(e[i]), "bucket %d does not wait", i);
    for (size_t k = 0; k < lengths[i]; k++) {
      touched += x[i][k] != 1e9f;
      x[i][k] = small_integer(k + (size_t)i, rank);
    }
  }
  CHECK_EQ(touched, 0);
  for (int i = 0; rank == 0 && size == 1 && i < MANY; i++)
    for (size_t k = 0; k < lengths[i]; k++) x[i][k] = small_integer(k + (size_t)i, rank);
  written = true;
  for (int i = 0; i < MANY; i++) CHECK_OK(shoal_exchange_wait(e[i]));
  check_many();
  shoal_backend_close(ref);
}

/* Every rank waits in an order of its own. */
static void waits_in_any_order(shoal_world *w)
{
  shoal_perm order;
  for (uint64_t round = 0; round < 10; round++) {
    shoal_perm_init(&order, (uint64_t)rank, SHOAL_RNG_TEST, round, MANY);
    start_many();
    for (uint64_t i = 0; i < MANY; i++) CHECK_OK(shoal_exchange_wait(e[shoal_perm_at(&order, i)]));
    check_many();
  }
  CHECK_OK(shoal_world_progress(w));
}

/* Nobody waits: progress calls alone carry everything to its end. */
static void progress_alone(shoal_world *w)
{
  uint64_t t0 = shoal_now_ns();
  start_many();
  for (bool all = false; !all && shoal_seconds_since(t0) < 20;) {
    CHECK_OK(shoal_world_progress(w));
    all = true;
    for (int i = 0; i < MANY; i++) all = all && shoal_exchange_done(e[i]);
  }
  for (int i = 0; i < MANY; i++) REQUIRE(shoal_exchange_done(e[i]), "bucket %d after 20 s of progress", i);
  check_many();
}

/* An exchange that must not be started twice. */
static void refuses(shoal_group *g)
{
  enum { N = 4096 };
  float *one = shared_room(g, N * sizeof *one);
  shoal_exchange *late = NULL;
  REQUIRE(shoal_exchange_create_sum(g, "late", N, SHOAL_WIRE_F32, SHOAL_SUM_AUTO, &late) == SHOAL_OK, "create");
  CHECK_OK(shoal_exchange_start(late, one, (shoal_event){ 0 }));
  if (!shoal_exchange_done(late))
    CHECK_STATUS(shoal_exchange_start(late, one, (shoal_event){ 0 }), SHOAL_ERR_ARG, "started twice");
  CHECK_OK(shoal_exchange_wait(late));
  shoal_exchange_destroy(late);
  shoal_group_unshare(g, one);
  if (size > 1) {
    shoal_exchange *odd = NULL;
    CHECK_STATUS(shoal_exchange_create_sum(g, "odd", rank ? 10 : 11, SHOAL_WIRE_F32, SHOAL_SUM_RING, &odd),
                 SHOAL_ERR_ARG, "lengths differ");
    CHECK_STATUS(shoal_exchange_create_sum(g, "odd", 10, rank ? SHOAL_WIRE_F32 : SHOAL_WIRE_F16, SHOAL_SUM_RING, &odd),
                 SHOAL_ERR_ARG);
    CHECK_STATUS(shoal_exchange_create_sum(g, "odd", 10, SHOAL_WIRE_F32, rank ? SHOAL_SUM_RING : SHOAL_SUM_SMALL, &odd),
                 SHOAL_ERR_ARG);
    CHECK_STATUS(shoal_exchange_create_sum(g, "odd", 300000, SHOAL_WIRE_F32, SHOAL_SUM_SMALL, &odd), SHOAL_ERR_ARG,
                 "too long for small");
    CHECK(!odd, "nothing was made");
  }
}

static void votes(shoal_world *w)
{
  shoal_vote *v = NULL, *other = NULL;
  int64_t got;
  REQUIRE(shoal_vote_create(shoal_world_control(w), "stop", &v) == SHOAL_OK, "create");
  REQUIRE(shoal_vote_create(shoal_world_control(w), "other", &other) == SHOAL_OK, "create");
  for (int64_t round = 0; round < 600; round++) { /* more than the 256 starts that tags distinguish */
    int64_t mine = round % size == rank ? round * 3 + 1 : -round;
    CHECK_OK(shoal_vote_post(v, mine));
    CHECK_OK(shoal_vote_post(other, -rank - round));
    CHECK_OK(shoal_vote_result(v, &got));
    CHECK_EQ(got, round * 3 + 1, "round %lld", (long long)round);
    CHECK_OK(shoal_vote_result(other, &got));
    CHECK_EQ(got, -round, "round %lld", (long long)round);
  }
  CHECK_STATUS(shoal_vote_result(v, &got), SHOAL_ERR_ARG, "a result without a post");
  CHECK_OK(shoal_vote_post(v, INT64_MIN));
  CHECK_STATUS(shoal_vote_post(v, 1), SHOAL_ERR_ARG, "posted twice");
  CHECK_OK(shoal_vote_result(v, &got));
  CHECK_EQ(got, INT64_MIN, "smallest value");
  shoal_vote_destroy(v);
  shoal_vote_destroy(other);
}

/* Both neighbours send to each other at once, while an exchange is under way: neither waits for the other. */
static void messages(shoal_world *w, size_t most)
{
  shoal_group *g = shoal_world_group(w);
  shoal_message *out = NULL, *in = NULL;
  unsigned char *a = room(most), *b = room(most);
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  REQUIRE(shoal_message_create(g, "out", &out) == SHOAL_OK, "create");
  REQUIRE(shoal_message_create(g, "in", &in) == SHOAL_OK, "create");
  start_many();
  for (size_t round = 0; round < 3 && size > 1; round++) {
    size_t n = round == 1 ? 0 : most - round;
    for (size_t i = 0; i < n; i++) a[i] = (unsigned char)(i * 31 + (size_t)rank + round);
    CHECK_OK(shoal_message_recv(in, b, n, left, 9));
    CHECK_OK(shoal_message_send(out, a, n, right, 9));
    CHECK_OK(shoal_message_wait(out));
    CHECK_OK(shoal_message_wait(in));
    CHECK(shoal_message_done(in));
    CHECK(shoal_message_done(out));
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) wrong += b[i] != (unsigned char)(i * 31 + (size_t)left + round);
    CHECK(!wrong, "round %zu: %zu bytes wrong", round, wrong);
  }
  CHECK_STATUS(shoal_message_send(out, a, 1, rank, 0), SHOAL_ERR_ARG, "to oneself");
  CHECK_STATUS(shoal_message_send(out, a, 1, right, 1024), SHOAL_ERR_ARG, "tag out of range");
  CHECK_STATUS(shoal_message_recv_any(in, a, (1 << 20) + 1, 0), SHOAL_ERR_ARG, "longer than a piece");
  for (int i = 0; i < MANY; i++) CHECK_OK(shoal_exchange_wait(e[i]));
  check_many();
  shoal_message_destroy(out);
  shoal_message_destroy(in);
  free(a);
  free(b);
}

/* A blocking collective counts as an exchange that is waited for in full; in a control group it counts as none. */
static void blocking_is_exposed(shoal_world *w, const shoal_trace *t)
{
  float block[64] = { 0 };
  const shoal_trace_kind kinds[] = { SHOAL_TRACE_EXCHANGE, SHOAL_TRACE_WAIT };
  double before[2], grew[2];
  for (int i = 0; i < 2; i++) before[i] = shoal_trace_total_s(t, kinds[i]);
  CHECK_OK(shoal_group_broadcast(shoal_world_control(w), block, sizeof block, 0));
  for (int i = 0; i < 2; i++)
    CHECK_EQ(shoal_trace_total_s(t, kinds[i]), before[i], "kind %d grew by a control group's broadcast", kinds[i]);
  CHECK_OK(shoal_group_broadcast(shoal_world_group(w), block, sizeof block, 0));
  for (int i = 0; i < 2; i++) grew[i] = shoal_trace_total_s(t, kinds[i]) - before[i];
  CHECK(size == 1 || (grew[0] > 0 && fabs(grew[0] - grew[1]) < 1e-12), "a broadcast of %g s, %g s waited for", grew[0],
        grew[1]);
}

static void traced(shoal_world *w)
{
  shoal_trace *t = NULL;
  shoal_trace_info info = { .run_name = "t", .config_text = "", .rank = rank, .size = size, .host = "h" };
  REQUIRE(shoal_trace_open(NULL, SHOAL_TRACE_OFF, &info, &t) == SHOAL_OK, "trace");
  shoal_world_set_trace(w, t);
  shoal_world_set_counters(w, shoal_trace_counters(t));
  start_many();
  for (int i = 0; i < MANY; i++) CHECK_OK(shoal_exchange_wait(e[i]));
  if (size > 1) CHECK_GT(shoal_trace_total_s(t, SHOAL_TRACE_EXCHANGE), 0, "transfer time");
  uint64_t want[SHOAL_LINK_COUNT], all[SHOAL_LINK_COUNT] = { 0 };
  for (int i = 0; i < MANY; i++) {
    shoal_exchange_bytes(shoal_world_group(w), lengths[i], i % 3, algorithm_of(i), want);
    for (int k = 0; k < SHOAL_LINK_COUNT; k++) all[k] += want[k];
  }
  for (int k = 0; k < SHOAL_LINK_COUNT; k++) CHECK_EQ(shoal_trace_counters(t)->payload[k], all[k], "class %d", k);
  blocking_is_exposed(w, t);
  shoal_world_set_trace(w, NULL);
  shoal_world_set_counters(w, NULL);
  CHECK_OK(shoal_trace_close(t));
}

/* All send to the last rank, letters of different lengths, which it receives one by one from any of them. */
static void letters(shoal_world *w)
{
  enum { MOST = 40, TAG = 11 };
  shoal_group *g = shoal_world_group(w);
  shoal_message *m = NULL;
  unsigned char letter[MOST], heard[8] = { 0 };
  REQUIRE(shoal_message_create(g, "letter", &m) == SHOAL_OK, "create");
  memset(letter, rank, sizeof letter);
  if (rank < size - 1) {
    CHECK_OK(shoal_message_send(m, letter, (size_t)(MOST - rank), size - 1, TAG));
    CHECK_OK(shoal_message_wait(m));
  }
  for (int i = 0; rank == size - 1 && i < size - 1; i++) {
    CHECK_OK(shoal_message_recv_any(m, letter, MOST, TAG));
    CHECK_OK(shoal_message_wait(m));
    int from = shoal_message_sender(m);
    REQUIRE(from >= 0, "from %d", from);
    REQUIRE(from < size - 1, "from %d", from);
    CHECK_EQ(shoal_message_received(m), (size_t)(MOST - from));
    CHECK_EQ(letter[0], from);
    CHECK_EQ(letter[MOST - from - 1], from);
    CHECK_EQ(heard[from]++, 0, "from %d", from);
  }
  shoal_message_destroy(m);
}

static void everything(const char *pretend, size_t max_message, int scale)
{
  shoal_world *w = open_world(pretend, max_message);
  create_many(shoal_world_group(w), scale);
  waits_in_any_order(w);
  waits_for_memory(w);
  progress_alone(w);
  refuses(shoal_world_group(w));
  votes(w);
  messages(w, max_message ? 30000 : 3000000);
  letters(w);
  traced(w);
  destroy_many(shoal_world_group(w));
  shoal_world_close(w);
}

int main(void)
{
  mpi_start(&rank, &size);
  everything(NULL, 0, 3001);
  everything(NULL, 1000, 101);
  for (size_t i = 0; i < SHOAL_COUNT(topologies); i++)
    if (topologies[i].size == size) everything(topologies[i].pretend, i % 2 ? 1000 : 0, 301);
  return mpi_done();
}
