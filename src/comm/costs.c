/* See costs.h. */
#include "comm/costs.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "comm/exchange_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const shoal_costs shoal_costs_ethernet = {
  .latency_s = 50e-6, .near_rate = 117e6, .far_rate = 117e6, .local_latency_s = 2e-6, .local_rate = 4e9
};

void shoal_world_set_costs(shoal_world *w, const shoal_costs *c)
{
  w->costs = *c;
  w->has_costs = true;
}

/* ---------------------------------------------------------------------------------------------------------- model */

static double rounds_of(int n)
{
  int rounds = 0;
  while (((int64_t)1 << rounds) < n) rounds++;
  return rounds;
}

/* Of `bytes` in all, summed over n nodes, each with `sharing` members of this sum on its link. */
static double between(const shoal_costs *c, bool halves, int n, double bytes, double sharing)
{
  if (n == 1) return 0;
  if (halves) return 2 * rounds_of(n) * c->latency_s + 2.0 * (n - 1) / n * bytes * sharing / c->far_rate;
  return 2.0 * (n - 1) * (c->latency_s + bytes / n / c->near_rate);
}

/* Of messages between ranks, wherever they are. */
static shoal_costs of_ranks(const shoal_costs *c, const shoal_group *g)
{
  shoal_costs flat = *c;
  if (g->nodes.nodes == 1) flat.latency_s = c->local_latency_s, flat.near_rate = flat.far_rate = c->local_rate;
  return flat;
}

double shoal_costs_of_broadcast(const shoal_costs *c, const shoal_group *g, size_t bytes)
{
  shoal_broadcast b;
  shoal_costs flat = of_ranks(c, g);
  if (!shoal_broadcast_shape(g, bytes, &b))
    return rounds_of(g->size) * (flat.latency_s + (double)bytes / flat.far_rate);
  double piece = (double)SHOAL_MIN(b.piece, bytes),
         turns = g->nodes.nodes > 1 ? (double)b.turns : (double)bytes / piece;
  return b.hops * flat.latency_s + turns * piece / (b.fan_out > 1 ? flat.far_rate : flat.near_rate) +
         (g->nodes.most - 1) * piece / c->local_rate;
}

double shoal_costs_of_sum(const shoal_costs *c, const shoal_group *g, size_t n, shoal_wire wire,
                          shoal_sum_algorithm algorithm)
{
  const shoal_node_table *t = &g->nodes;
  double bytes = (double)shoal_wire_bytes(wire, n), full = (double)(n * sizeof(float)), p = g->size, most = t->most;
  bool one_node = t->nodes == 1;
  shoal_costs flat = of_ranks(c, g);
  if (g->size == 1) return 0;
  if (algorithm == SHOAL_SUM_SMALL)
    return rounds_of(g->size) * flat.latency_s + (p - 1) * bytes * (one_node ? 1 : most) / flat.far_rate +
           p * full / c->local_rate;
  bool halves = shoal_sum_halves(algorithm);
  if (shoal_sum_shape(algorithm) == SHOAL_SUM_RING) return between(&flat, halves, g->size, bytes, one_node ? 1 : most);
  double owners = shoal_sum_shape(algorithm) == SHOAL_SUM_LEADERS ? 1 : t->least;
  double local = t->most == 1 ? 0 : 2 * c->local_latency_s + 2 * (most - 1) / owners * full / c->local_rate;
  return local + between(c, halves, t->nodes, bytes, 1);
}

/* -------------------------------------------------------------------------------------------------------- measuring */

enum { BATCHES = 9, SHORT = 64, LONG = 1 << 20 };

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Of what took `seconds`, and `nothing` for next to no bytes.  On a busy machine the latter may be the longer. */
static double rate_of(double bytes, double seconds, double nothing)
{
  return bytes / fmax(fmax(seconds - nothing, seconds / 10), 1e-9);
}

/* Every member sends to the one `far` members on, `hops` times, each time when it has received; seconds per hop, the median. */
static shoal_status time_hops(shoal_group *g, int far, size_t bytes, int hops, char *data, double *seconds)
{
  shoal_message *out = NULL, *in = NULL;
  double took[BATCHES];
  int p = g->size, to = (g->rank + far) % p, from = (g->rank + p - far) % p;
  shoal_status st = shoal_message_create(g, "costs", &out);
  if (st == SHOAL_OK) st = shoal_message_create(g, "costs", &in);
  for (int i = 0; i < BATCHES && st == SHOAL_OK; i++) {
    st = shoal_group_barrier(g);
    uint64_t t0 = shoal_now_ns();
    for (int k = 0; k < hops && st == SHOAL_OK; k++) {
      st = shoal_message_recv(in, data + bytes, bytes, from, 0);
      if (st == SHOAL_OK) st = shoal_message_send(out, data, bytes, to, 0);
      if (st == SHOAL_OK) st = shoal_message_wait(in);
      if (st == SHOAL_OK) st = shoal_message_wait(out);
    }
    int64_t ns = (int64_t)(shoal_now_ns() - t0);
    if (st == SHOAL_OK) st = shoal_group_agree_max(g, "costs", &ns);
    took[i] = (double)ns * 1e-9 / hops;
  }
  shoal_message_destroy(in);
  shoal_message_destroy(out);
  qsort(took, BATCHES, sizeof *took, by_size);
  *seconds = took[BATCHES / 2];
  return st;
}

/* One rank of each node. */
static shoal_status measure_between(shoal_group *g, shoal_costs *c)
{
  char *data;
  double near, far;
  SHOAL_TRY(shoal_group_agree(g, shoal_alloc(2 * (size_t)LONG, 1, "messages to measure", (void **)&data)));
  shoal_status st = time_hops(g, 1, SHORT, 30, data, &c->latency_s);
  if (st == SHOAL_OK) st = time_hops(g, 1, LONG, 2, data, &near);
  if (st == SHOAL_OK) st = time_hops(g, g->size / 2, LONG, 2, data, &far);
  free(data);
  SHOAL_TRY(st);
  c->near_rate = rate_of(LONG, near, c->latency_s);
  c->far_rate = rate_of(LONG, far, c->latency_s);
  return SHOAL_OK;
}

static shoal_status time_sums(shoal_group *g, float *x, size_t n, double *seconds)
{
  shoal_exchange *e = NULL;
  double took[BATCHES];
  SHOAL_TRY(shoal_exchange_create_sum(g, "costs", n, SHOAL_WIRE_F32, SHOAL_SUM_LEADERS, &e));
  shoal_status st = SHOAL_OK;
  for (int i = 0; i < BATCHES && st == SHOAL_OK; i++) {
    st = shoal_group_barrier(g);
    uint64_t t0 = shoal_now_ns();
    if (st == SHOAL_OK) st = shoal_exchange_start(e, x, (shoal_event){ 0 });
    if (st == SHOAL_OK) st = shoal_exchange_wait(e);
    int64_t ns = (int64_t)(shoal_now_ns() - t0);
    if (st == SHOAL_OK) st = shoal_group_agree_max(g, "costs", &ns);
    took[i] = (double)ns * 1e-9;
  }
  shoal_exchange_destroy(e);
  qsort(took, BATCHES, sizeof *took, by_size);
  *seconds = took[BATCHES / 2];
  return st;
}

/* The sum of leaders inside the node, of next to nothing and of 1 MiB. */
static shoal_status measure_inside(shoal_group *g, shoal_costs *c)
{
  void *x;
  double none, all;
  SHOAL_TRY(shoal_group_share(g, LONG, &x));
  shoal_status st = time_sums(g, x, 1, &none);
  if (st == SHOAL_OK) st = time_sums(g, x, LONG / sizeof(float), &all);
  shoal_group_unshare(g, x);
  SHOAL_TRY(st);
  c->local_latency_s = none / 2;
  c->local_rate = rate_of(2.0 * (g->size - 1) * LONG, all, none);
  return SHOAL_OK;
}

/* The largest node's, or the first node's of those; rates and latencies of the slowest one there. */
shoal_status shoal_costs_measure(shoal_world *w, shoal_costs *out)
{
  shoal_group *g = NULL;
  const shoal_topo *t = w->topo;
  int node = 0;
  shoal_costs c = shoal_costs_ethernet;
  shoal_status st = SHOAL_OK;
  const shoal_node_table *nodes = &w->all->nodes;
  for (int m = 1; m < nodes->nodes; m++)
    if (nodes->begin[m + 1] - nodes->begin[m] > nodes->begin[node + 1] - nodes->begin[node]) node = m;
  int teller = nodes->member[nodes->begin[node]];
  if (nodes->nodes > 1 && t->places[w->rank].local_rank == 0) {
    SHOAL_TRY(shoal_group_create_across(w, 0, &g));
    st = measure_between(g, &c);
    shoal_group_destroy(g);
  }
  SHOAL_TRY(shoal_group_agree(w->control, st));
  if (w->shares && t->places[w->rank].local_size > 1) {
    SHOAL_TRY(shoal_group_create_node(w, &g));
    st = measure_inside(g, &c);
    shoal_group_destroy(g);
  }
  SHOAL_TRY(shoal_group_agree(w->control, st));
  SHOAL_TRY(shoal_group_broadcast(w->control, &c, sizeof c, teller));
  *out = c;
  return SHOAL_OK;
}

/* ----------------------------------------------------------------------------------------------------------- files */

static const char kind[] = "shoal costs of messages 1";

shoal_status shoal_costs_read(const char *path, shoal_costs *out)
{
  json_t *j;
  SHOAL_TRY(shoal_json_read_file(path, &j));
  const char *what = json_string_value(json_object_get(j, "kind"));
  bool ours = what && strcmp(what, kind) == 0;
  *out = (shoal_costs){ .latency_s = shoal_json_real_of(j, "latency_us") * 1e-6,
                        .near_rate = shoal_json_real_of(j, "near_mb_s") * 1e6,
                        .far_rate = shoal_json_real_of(j, "far_mb_s") * 1e6,
                        .local_latency_s = shoal_json_real_of(j, "local_latency_us") * 1e-6,
                        .local_rate = shoal_json_real_of(j, "local_mb_s") * 1e6 };
  json_decref(j);
  const double *number = &out->latency_s;
  for (size_t i = 0; i < sizeof *out / sizeof *number; i++) ours = ours && isfinite(number[i]) && number[i] > 0;
  SHOAL_CHECK(ours, SHOAL_ERR_USAGE,
              "%s: not a file of costs with numbers above 0; write one with shoal bench comm --write FILE", path);
  return SHOAL_OK;
}

shoal_status shoal_costs_write(const char *path, const shoal_world *w, const shoal_costs *c)
{
  shoal_json j = { .lines = 1 };
  shoal_json_object(&j, NULL);
  shoal_json_string(&j, "kind", kind);
  shoal_json_int(&j, "nodes", w->topo->nodes);
  shoal_json_int(&j, "ranks", w->size);
  shoal_json_fixed(&j, "latency_us", c->latency_s * 1e6, 3);
  shoal_json_fixed(&j, "near_mb_s", c->near_rate * 1e-6, 3);
  shoal_json_fixed(&j, "far_mb_s", c->far_rate * 1e-6, 3);
  shoal_json_fixed(&j, "local_latency_us", c->local_latency_s * 1e6, 3);
  shoal_json_fixed(&j, "local_mb_s", c->local_rate * 1e-6, 3);
  shoal_json_end(&j);
  shoal_status st = shoal_write_file(path, j.text.text, strlen(j.text.text));
  shoal_str_free(&j.text);
  return st;
}
