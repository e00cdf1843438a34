/* The world of one: every call works, changes nothing it should not, and sends nothing. */
#include "base/file.h"
#include "base/mem.h"
#include "check.h"
#include "comm/costs.h"
#include "comm/exchange.h"
#include <math.h>
#include <stdio.h>

static void exchanges(shoal_world *w, shoal_group *g)
{
  float x[3] = { 1.0f, 1e-8f, 3.14159f }, before[3];
  shoal_exchange *e = NULL;
  shoal_vote *v = NULL;
  int64_t got = 0;
  memcpy(before, x, sizeof x);
  REQUIRE(shoal_exchange_create_sum(g, "one", 3, SHOAL_WIRE_BF16, SHOAL_SUM_AUTO, &e) == SHOAL_OK, "create");
  CHECK_OK(shoal_exchange_start(e, x, (shoal_event){ 0 }));
  CHECK(shoal_exchange_done(e), "done at once");
  CHECK_OK(shoal_exchange_wait(e));
  CHECK(!memcmp(before, x, sizeof x), "a sum over one, unrounded");
  shoal_exchange_destroy(e);
  REQUIRE(shoal_vote_create(shoal_world_control(w), "stop", &v) == SHOAL_OK, "vote");
  CHECK_OK(shoal_vote_post(v, -5));
  CHECK(shoal_vote_done(v), "done at once");
  CHECK_OK(shoal_vote_result(v, &got));
  CHECK_EQ(got, -5);
  shoal_vote_destroy(v);
}

static void collectives(shoal_group *g)
{
  char a[4] = "abc", b[4] = "", c[4] = "";
  double f = 1.5;
  int64_t s = 7, m = -7;
  uint64_t size = sizeof a;
  CHECK_OK(shoal_group_agree(g, SHOAL_OK));
  CHECK_OK(shoal_group_barrier(g));
  CHECK_OK(shoal_group_broadcast(g, a, sizeof a, 0));
  CHECK_OK(shoal_group_sum_f64(g, &f, 1));
  CHECK_OK(shoal_group_sum_i64(g, &s, 1));
  CHECK_OK(shoal_group_max_i64(g, &m, 1));
  CHECK_EQ(f, 1.5, "sums over one");
  CHECK_EQ(s, 7);
  CHECK_EQ(m, -7);
  CHECK_OK(shoal_group_allgather(g, a, sizeof a, b));
  CHECK_OK(shoal_group_gather(g, b, sizeof b, &size, c, 0));
  CHECK_STR(c, "abc");
  memset(b, 0, sizeof b);
  CHECK_OK(shoal_group_scatter(g, c, &size, b, sizeof b, 0));
  memset(c, 0, sizeof c);
  CHECK_OK(shoal_group_alltoall(g, b, &size, c, &size));
  CHECK_STR(c, "abc");
  CHECK_STATUS(shoal_group_agree(g, SHOAL_ERR_IO), SHOAL_ERR_IO, "my own failure");
  CHECK_STATUS(shoal_group_broadcast(g, a, 1, 1), SHOAL_ERR_ARG, "no such root");
  size = 3;
  CHECK_STATUS(shoal_group_gather(g, b, sizeof b, &size, c, 0), SHOAL_ERR_ARG, "my block has two sizes");
}

static void letters(shoal_world *w, shoal_group *g)
{
  char got[4] = "";
  shoal_counters c = { 0 };
  shoal_world_set_counters(w, &c);
  CHECK_OK(shoal_group_send(g, "one", 4, 0, 1));
  CHECK_OK(shoal_group_send(g, "two", 4, 0, 2));
  CHECK_OK(shoal_group_send(g, "six", 4, 0, 1));
  CHECK_OK(shoal_group_recv(g, got, 4, 0, 2));
  CHECK_STR(got, "two");
  CHECK_OK(shoal_group_recv(g, got, 4, 0, 1));
  CHECK_STR(got, "one", "in order");
  CHECK_STATUS(shoal_group_recv(g, got, 3, 0, 1), SHOAL_ERR_COMM, "another length");
  CHECK_EQ(c.payload[SHOAL_LINK_SELF], 12, "counted as self");
  CHECK_EQ(c.messages[SHOAL_LINK_SELF], 3);
  CHECK(!c.payload[SHOAL_LINK_NODE]);
  CHECK(!c.payload[SHOAL_LINK_BETWEEN]);
  CHECK(!c.payload[SHOAL_LINK_CONTROL]);
  shoal_world_set_counters(w, NULL);
}

static void bad_options(void)
{
  shoal_world *w = NULL;
  CHECK_STATUS(shoal_world_open(&(shoal_world_options){ .max_message = 7 }, &w), SHOAL_ERR_ARG, "too small");
  CHECK_STATUS(shoal_world_open(&(shoal_world_options){ .max_message = (size_t)1 << 31 }, &w), SHOAL_ERR_ARG,
               "too large");
  CHECK_STATUS(shoal_world_open(&(shoal_world_options){ .hang_s = -1 }, &w), SHOAL_ERR_ARG, "negative limit");
  CHECK_STATUS(shoal_world_open(&(shoal_world_options){ .pretend = "2x2" }, &w), SHOAL_ERR_USAGE,
               "more than there are");
  CHECK(!w, "nothing was made");
}

/* What is written is read again; what is no such file, or says nonsense, is refused. */
static void costs(shoal_world *w)
{
  static const char path[] = "comm-self-costs.json";
  shoal_costs c, back;
  CHECK_OK(shoal_costs_measure(w, &c));
  CHECK(!memcmp(&c, &shoal_costs_ethernet, sizeof c), "one rank alone measures nothing");
  c.latency_s = 12.5e-6;
  c.local_rate = 3e9;
  CHECK_OK(shoal_costs_write(path, w, &c));
  CHECK_OK(shoal_costs_read(path, &back));
  CHECK_LT(fabs(back.latency_s / c.latency_s - 1), 1e-12);
  CHECK_LT(fabs(back.near_rate / c.near_rate - 1), 1e-12);
  CHECK_LT(fabs(back.far_rate / c.far_rate - 1), 1e-12);
  CHECK_LT(fabs(back.local_latency_s / c.local_latency_s - 1), 1e-12);
  CHECK_LT(fabs(back.local_rate / c.local_rate - 1), 1e-12);
  c.far_rate = 0;
  CHECK_OK(shoal_costs_write(path, w, &c));
  CHECK_STATUS(shoal_costs_read(path, &back), SHOAL_ERR_USAGE, "a rate of nothing");
  CHECK_HAS(check_error(), path);
  CHECK_OK(shoal_write_file(path, "{}", 2));
  CHECK_STATUS(shoal_costs_read(path, &back), SHOAL_ERR_USAGE, "another file");
  CHECK_STATUS(shoal_costs_read("nowhere.json", &back), SHOAL_ERR_IO);
  remove(path);
}

int main(void)
{
  shoal_world *w = NULL;
  shoal_group *g = NULL;
  uint64_t bytes[SHOAL_LINK_COUNT];
  bad_options();
  REQUIRE(shoal_world_open(NULL, &w) == SHOAL_OK, "open");
  CHECK_EQ(shoal_world_rank(w), 0);
  CHECK_EQ(shoal_world_size(w), 1);
  exchanges(w, shoal_world_group(w));
  collectives(shoal_world_group(w));
  letters(w, shoal_world_group(w));
  REQUIRE(shoal_group_create_node(w, &g) == SHOAL_OK, "node");
  collectives(g);
  shoal_group_destroy(g);
  REQUIRE(shoal_group_create_across(w, 0, &g) == SHOAL_OK, "across");
  CHECK_STR(shoal_group_name(g), "across 0");
  CHECK_EQ(shoal_group_size(g), 1);
  shoal_exchange_bytes(g, 1000, SHOAL_WIRE_F32, SHOAL_SUM_AUTO, bytes);
  for (int i = 0; i < SHOAL_LINK_COUNT; i++) CHECK(!bytes[i], "nothing is sent");
  shoal_group_destroy(g);
  CHECK_OK(shoal_world_progress(w));
  costs(w);
  shoal_world_close(w);
  shoal_world_close(NULL);
  return check_done();
}
