/* Groups and their blocking calls: every result from values that name their sender and place. */
#include "comm.h"
#include "comm/group_impl.h"
#include <unistd.h>

static int rank, size;
static bool in_turns; /* sums of short vectors of more than two members */

static unsigned char mark(int from, int to, size_t i)
{
  return (unsigned char)(from * 17 + to * 5 + (int)(i % 251) * 3 + (int)(i / 251) + 1);
}

static size_t check_marks(const unsigned char *p, size_t n, int from, int to)
{
  size_t wrong = 0;
  for (size_t i = 0; i < n; i++) wrong += p[i] != mark(from, to, i);
  return wrong;
}

/* Uneven, with empty ones; the longest goes over the largest message of 1000 bytes with a part left over. */
static uint64_t block_size(int from, int to)
{
  static const uint64_t sizes[] = { 0, 3, 1000, 2501, 1, 0, 17000 };
  return sizes[(from * 3 + to) % (int)SHOAL_COUNT(sizes)];
}

static void broadcasts(shoal_world *w, shoal_group *g, const char *pretend)
{
  static const size_t sizes[] = { 0, 1, 999, 1000, 2000, 16384, 16385, 3000001 };
  int me = shoal_group_rank(g), p = shoal_group_size(g);
  unsigned char *data = room(sizes[SHOAL_COUNT(sizes) - 1] + 1);
  for (size_t s = 0; s < SHOAL_COUNT(sizes); s++)
    for (int root = 0; root < p; root++) {
      size_t n = sizes[s];
      shoal_counters c = { 0 };
      uint64_t want[SHOAL_LINK_COUNT];
      if (n > 1000000 && root > 1) continue;
      for (size_t i = 0; i < n; i++) data[i] = me == root ? mark(root, 0, i) : 0;
      data[n] = 99;
      shoal_world_set_counters(w, &c);
      CHECK_OK(shoal_group_broadcast(g, data, n, root));
      shoal_world_set_counters(w, NULL);
      CHECK(!check_marks(data, n, root, 0), "%zu bytes from %d of %d", n, root, p);
      CHECK_EQ(data[n], 99, "%zu bytes from %d of %d", n, root, p);
      shoal_group_broadcast_bytes(g, n, root, want);
      CHECK(!memcmp(want, c.payload, sizeof want), "formula, %zu bytes from %d, topology %s", n, root, pretend);
    }
  free(data);
}

static void allgathers(shoal_group *g)
{
  static const size_t sizes[] = { 0, 1, 8, 1500, 40000 };
  int me = shoal_group_rank(g), p = shoal_group_size(g);
  for (size_t s = 0; s < SHOAL_COUNT(sizes); s++) {
    size_t n = sizes[s];
    unsigned char *mine = room(n + 1), *all = room(n * (size_t)p + 1);
    for (size_t i = 0; i < n; i++) mine[i] = mark(me, 1, i);
    all[n * (size_t)p] = 99;
    CHECK_OK(shoal_group_allgather(g, mine, n, all));
    for (int r = 0; r < p; r++) CHECK(!check_marks(all + n * (size_t)r, n, r, 1), "block of %d, %zu bytes", r, n);
    CHECK_EQ(all[n * (size_t)p], 99, "wrote past the end");
    free(mine);
    free(all);
  }
}

/* Blocks of 2000 bytes that are those of member 0 but for some: none, first and last, runs with gaps of all lengths, or all. */
typedef struct {
  int kind, next;
} alike;

static void fill_alike(int kind, int member, unsigned char block[2000])
{
  for (size_t i = 0; i < 2000; i++) {
    bool differs = kind == 3 || (kind == 1 && (i == 0 || i == 1999)) || (kind == 2 && i * i % 97 < 40);
    block[i] = mark(0, 1, i);
    if (differs && member) block[i] = (unsigned char)(mark(0, 1, i) + member);
  }
}

static void take_alike(void *context, int member, const void *block)
{
  alike *a = context;
  unsigned char want[2000];
  fill_alike(a->kind, member, want);
  CHECK_EQ(member, a->next++);
  CHECK_BYTES(block, want, sizeof want, "member %d, kind %d", member, a->kind);
}

static void alikes(shoal_group *g)
{
  unsigned char mine[2000];
  for (int kind = 0; kind < 4; kind++) {
    alike a = { kind, 0 };
    fill_alike(kind, shoal_group_rank(g), mine);
    CHECK_OK(shoal_group_allgather_alike(g, mine, sizeof mine, take_alike, &a));
    CHECK_EQ(a.next, shoal_group_size(g));
  }
}

static void gathers(shoal_group *g)
{
  int me = shoal_group_rank(g), p = shoal_group_size(g);
  for (int root = 0; root < p; root++) {
    uint64_t sizes[16], total = 0;
    for (int r = 0; r < p; r++) total += sizes[r] = block_size(r, root);
    unsigned char *mine = room(sizes[me] + 1), *back = room(sizes[me] + 1), *all = room(total + 1);
    for (size_t i = 0; i < sizes[me]; i++) mine[i] = mark(me, root, i);
    all[total] = back[sizes[me]] = 99;
    CHECK_OK(shoal_group_gather(g, mine, sizes[me], me == root ? sizes : NULL, me == root ? all : NULL, root));
    if (me == root)
      for (uint64_t r = 0, at = 0; r < (uint64_t)p; at += sizes[r++])
        CHECK(!check_marks(all + at, sizes[r], (int)r, root), "gather: block of %d at %d", (int)r, root);
    CHECK_OK(shoal_group_scatter(g, me == root ? all : NULL, me == root ? sizes : NULL, back, sizes[me], root));
    CHECK(!check_marks(back, sizes[me], me, root), "scatter from %d", root);
    CHECK_EQ(all[total], 99, "wrote past the end");
    CHECK_EQ(back[sizes[me]], 99);
    free(mine);
    free(back);
    free(all);
  }
}

static void alltoalls(shoal_group *g)
{
  int me = shoal_group_rank(g), p = shoal_group_size(g);
  uint64_t out[16], in[16], sent = 0, got = 0;
  for (int r = 0; r < p; r++) {
    sent += out[r] = block_size(me, r);
    got += in[r] = block_size(r, me);
  }
  unsigned char *send = room(sent + 1), *recv = room(got + 1), *at = send;
  for (int r = 0; r < p; r++)
    for (size_t i = 0; i < out[r]; i++) *at++ = mark(me, r, i);
  recv[got] = 99;
  CHECK_OK(shoal_group_alltoall(g, send, out, recv, in));
  at = recv;
  for (int r = 0; r < p; at += in[r++]) CHECK(!check_marks(at, in[r], r, me), "block from %d", r);
  CHECK_EQ(recv[got], 99, "wrote past the end");
  free(send);
  free(recv);
}

static double brought(size_t i, int member)
{
  return (double)any_float(i, member) * 1e-3;
}

/* In rank order; or, in turns, the rest added to the first 2^k of p members, and then pairs, pairs of pairs and so on. */
static double sum_of(size_t i, int p, bool turns)
{
  double f[64];
  int whole = 1;
  for (int r = 0; r < p; r++) f[r] = brought(i, r);
  while (turns && whole <= p / 2) whole *= 2;
  for (int r = whole; r < p; r++) f[turns ? r - whole : 0] += f[r];
  for (int distance = 1; distance < whole; distance *= 2)
    for (int r = 0; r < whole; r += 2 * distance) f[r] += f[r + distance];
  return f[0];
}

static void sums(shoal_group *g)
{
  static const size_t lengths[] = { 0, 1, 2, 7, 300, 10001 };
  int me = shoal_group_rank(g), p = shoal_group_size(g);
  for (size_t l = 0; l < SHOAL_COUNT(lengths); l++) {
    size_t n = lengths[l];
    double *x = room((n + 1) * 8);
    int64_t *s = room((n + 1) * 8), *m = room((n + 1) * 8);
    for (size_t i = 0; i <= n; i++) {
      x[i] = brought(i, me);
      s[i] = ((int64_t)me + 1) << 40 | (int64_t)i;
      m[i] = (int64_t)(i * 7919 + (size_t)me * 104729) % 1000 - 500;
    }
    double guard = x[n];
    CHECK_OK(shoal_group_sum_f64(g, x, n));
    CHECK_OK(shoal_group_sum_i64(g, s, n));
    CHECK_OK(shoal_group_max_i64(g, m, n));
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
      double f = sum_of(i, p, in_turns && p > 2 && n < 1000);
      int64_t sum = (int64_t)1 << 40 | (int64_t)i, most = (int64_t)(i * 7919) % 1000 - 500;
      for (int r = 1; r < p; r++) {
        sum += ((int64_t)r + 1) << 40 | (int64_t)i;
        most = SHOAL_MAX(most, (int64_t)(i * 7919 + (size_t)r * 104729) % 1000 - 500);
      }
      wrong += memcmp(&f, &x[i], 8) || s[i] != sum || m[i] != most;
    }
    CHECK(!wrong, "%zu of %zu wrong", wrong, n);
    CHECK_EQ(x[n], guard, "%zu of %zu wrong", wrong, n);
    free(x);
    free(s);
    free(m);
  }
}

static void pairs(shoal_group *g)
{
  enum { N = 70001 };
  int me = shoal_group_rank(g), p = shoal_group_size(g);
  unsigned char *a = room(N), *b = room(N);
  for (int to = 0; to < p; to++)
    for (int from = 0; from < p; from++) {
      if (me == from) {
        for (size_t i = 0; i < N; i++) a[i] = mark(from, to, i);
        CHECK_OK(shoal_group_send(g, a, N, to, 3));
        CHECK_OK(shoal_group_send(g, a, 0, to, 3));
        CHECK_OK(shoal_group_send(g, a, 5, to, 1023));
      }
      if (me == to) {
        CHECK_OK(shoal_group_recv(g, b, N, from, 3));
        CHECK(!check_marks(b, N, from, to), "%d to %d", from, to);
        CHECK_OK(shoal_group_recv(g, b, 0, from, 3));
        memset(b, 0, 5);
        CHECK_OK(shoal_group_recv(g, b, 5, from, 1023));
        CHECK(!check_marks(b, 5, from, to), "%d to %d, short", from, to);
      }
    }
  CHECK_STATUS(shoal_group_send(g, a, 1, p, 0), SHOAL_ERR_ARG, "no such rank");
  CHECK_STATUS(shoal_group_recv(g, a, 1, me, 7), SHOAL_ERR_ARG, "nothing sent to myself");
  free(a);
  free(b);
}

static void agreements(shoal_group *g)
{
  int me = shoal_group_rank(g), p = shoal_group_size(g);
  CHECK_OK(shoal_group_agree(g, SHOAL_OK));
  CHECK_OK(shoal_group_barrier(g));
  for (int bad = 0; bad < p; bad++) {
    shoal_status st = shoal_group_agree(g, me == bad ? SHOAL_ERR_IO : SHOAL_OK);
    CHECK_STATUS(st, me == bad ? SHOAL_ERR_IO : SHOAL_ERR_PEER, "rank %d failed", bad);
    char name[32];
    snprintf(name, sizeof name, "rank %d ", shoal_group_world_rank(g, bad));
    if (me != bad) CHECK_HAS(check_error(), name, "the message names the rank");
    st = shoal_group_agree(g, me >= bad ? SHOAL_ERR_MEM : SHOAL_OK);
    CHECK_STATUS(st, me >= bad ? SHOAL_ERR_MEM : SHOAL_ERR_PEER, "several failed");
    CHECK_OK(shoal_group_agree(g, SHOAL_OK));
  }
}

static void all_calls(shoal_world *w, shoal_group *g, const char *pretend)
{
  broadcasts(w, g, pretend);
  allgathers(g);
  alikes(g);
  gathers(g);
  alltoalls(g);
  sums(g);
  pairs(g);
  agreements(g);
}

/* Whatever is called on a control group counts as control; agreement counts as control anywhere. */
static void classes(shoal_world *w)
{
  shoal_counters c = { 0 };
  double x[100] = { 0 };
  shoal_world_set_counters(w, &c);
  CHECK_OK(shoal_group_sum_f64(shoal_world_control(w), x, SHOAL_COUNT(x)));
  CHECK_OK(shoal_group_agree(shoal_world_group(w), SHOAL_OK));
  CHECK(!c.payload[SHOAL_LINK_SELF], "control only");
  CHECK(!c.payload[SHOAL_LINK_NODE]);
  CHECK(!c.payload[SHOAL_LINK_BETWEEN]);
  CHECK_EQ(c.payload[SHOAL_LINK_CONTROL] > 0, size > 1);
  shoal_world_set_counters(w, NULL);
}

static void sub_groups(shoal_world *w, const char *pretend)
{
  const shoal_topo *t = shoal_world_topo(w);
  shoal_group *g = NULL;
  int smallest = size, members = 0;
  for (int r = 0; r < size; r++) {
    smallest = SHOAL_MIN(smallest, t->places[r].local_size);
    members += t->places[r].node == t->places[rank].node;
  }
  REQUIRE(shoal_group_create_node(w, &g) == SHOAL_OK, "node group");
  CHECK_EQ(shoal_group_size(g), members, "%s", shoal_group_name(g));
  CHECK_EQ(shoal_group_rank(g), t->places[rank].local_rank, "%s", shoal_group_name(g));
  all_calls(w, g, pretend);
  for (int r = 0; r < members; r++)
    CHECK_EQ(shoal_group_link(g, r), r == shoal_group_rank(g) ? SHOAL_LINK_SELF : SHOAL_LINK_NODE, "link to %d", r);
  shoal_group_destroy(g);
  int l = t->places[rank].local_rank;
  CHECK_STATUS(shoal_group_create_across(w, smallest, &g), SHOAL_ERR_ARG, "no such local rank on the smallest node");
  if (l < smallest) {
    REQUIRE(shoal_group_create_across(w, l, &g) == SHOAL_OK, "across");
    CHECK_EQ(shoal_group_size(g), t->nodes, "%s", shoal_group_name(g));
    CHECK_EQ(shoal_group_rank(g), t->places[rank].node, "%s", shoal_group_name(g));
    for (int r = 0; r < t->nodes; r++)
      CHECK_EQ(shoal_group_link(g, r), r == shoal_group_rank(g) ? SHOAL_LINK_SELF : SHOAL_LINK_BETWEEN);
    all_calls(w, g, pretend);
    shoal_group_destroy(g);
  }
}

/* A set in an order of its own; and refused ones. */
static void any_set(shoal_world *w)
{
  int ranks[16], n = 0, me = -1;
  shoal_group *g = NULL;
  for (int r = size - 1; r >= 0; r--) {
    if (r % 3 == 2) continue;
    if (r == rank) me = n;
    ranks[n++] = r;
  }
  CHECK_STATUS(shoal_group_create(w, "twice", (int[]){ rank, rank }, 2, &g), SHOAL_ERR_ARG, "a rank twice");
  CHECK_STATUS(shoal_group_create(w, "beyond", (int[]){ rank, size }, 2, &g), SHOAL_ERR_ARG, "a rank beyond the world");
  if (me < 0) CHECK_STATUS(shoal_group_create(w, "foreign", ranks, n, &g), SHOAL_ERR_ARG, "without being a member");
  if (me < 0) return;
  REQUIRE(shoal_group_create(w, "backwards", ranks, n, &g) == SHOAL_OK, "backwards");
  CHECK_EQ(shoal_group_rank(g), me);
  CHECK_EQ(shoal_group_world_rank(g, 0), ranks[0]);
  all_calls(w, g, "-");
  shoal_group_destroy(g);
}

/* Returns the number of nodes. */
static int one_world(const char *pretend, size_t max_message)
{
  shoal_world *w = open_world(pretend, max_message);
  in_turns = max_message > 0;
  shoal_trace_reading clock;
  CHECK_EQ(shoal_world_rank(w), rank, "rank and size");
  CHECK_EQ(shoal_world_size(w), size);
  all_calls(w, shoal_world_group(w), pretend ? pretend : "flat");
  classes(w);
  sub_groups(w, pretend ? pretend : "flat");
  any_set(w);
  CHECK_OK(shoal_world_measure_clock(w, &clock));
  /* Hosts of one machine have one clock, so the true offset is 0: exactly so on rank 0's, and within the bound on others. */
  const shoal_topo *t = shoal_world_topo(w);
  const bool beside = strcmp(t->places[rank].host, t->places[0].host) == 0;
  CHECK(clock.at_ns > 0, "no reading");
  CHECK_LE(fabs(clock.offset_ns), beside ? 0 : clock.bound_ns + 1, "clock: %g ns", clock.offset_ns);
  CHECK_LE(clock.bound_ns, beside ? 0 : 1e9, "clock: %g ns", clock.offset_ns);
  int nodes = t->nodes;
  shoal_world_close(w);
  return nodes;
}

int main(void)
{
  mpi_start(&rank, &size);
  int nodes = one_world(NULL, 0);
  one_world(NULL, 1000);
  for (size_t i = 0; nodes == 1 && i < SHOAL_COUNT(topologies); i++) /* real nodes are not pretended together */
    if (topologies[i].size == size) one_world(topologies[i].pretend, i % 2 ? 0 : 1000);
  return mpi_done();
}
