/* shoal bench comm: time of a sum over all ranks, by algorithm and size, and of a broadcast from rank 0.
 *
 * Start it like a training run, with srun or mpirun.  A round times every algorithm once, so that noise affects all of
 * them; the median over rounds of the slowest rank is printed.  Bus bandwidth is bytes / time * 2 (p-1)/p, which does not
 * depend on p for a perfect ring, and of a broadcast bytes / time; "between" is what a node sends to others, to compare with the limit of a link.
 *
 * Before, the costs of messages are measured (comm/costs.h): "model ms" is what they predict, and --write puts them into a file
 * that comm.costs of a run file names.
 *
 * With --beside X every rank also simulates compute during the sum, X times as long as the sum took alone, and polls as a
 * backend does between its primitives.  The time it then still waits is exposed; a sum without asynchronous progress would
 * be fully exposed.  The simulated compute sleeps, so that oversubscribed cores do not measure the scheduler. */
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/bench.h"
#include "comm/costs.h"
#include "comm/exchange.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  BESIDE_MAX = 100,
  POLL_MAX_MS = 1000000,
  ROUNDS_MAX = 1000,
  SIZES_MAX = 32,
  FIRST = SHOAL_SUM_RING,
  BROADCAST = SHOAL_SUM_ALGORITHMS, /* timed like a sum */
  LAST = BROADCAST
};

static const shoal_flag flags[] = {
  { "--topo", NULL, "NxG", SHOAL_FLAG_VALUE, "pretend nodes: N of G ranks, or a list of ranks per node" },
  { "--wire", NULL, "FORMAT", SHOAL_FLAG_VALUE, "f32 (default), bf16 or f16" },
  { "--sizes", NULL, "LIST", SHOAL_FLAG_VALUE, "KiB of f32, as in 1,64,4096 (1,4,16,64,256,1024,4096,16384)" },
  { "--seconds", NULL, "X", SHOAL_FLAG_VALUE, "time per size (2)" },
  { "--together", NULL, "N", SHOAL_FLAG_VALUE, "sums of that size in flight at once, like buckets (1)" },
  { "--beside", NULL, "X", SHOAL_FLAG_VALUE,
    "simulate compute X times as long during each sum; prints the exposed time" },
  { "--poll", NULL, "MS", SHOAL_FLAG_VALUE, "with --beside: time between polls (2); 0: never" },
  { "--write", NULL, "FILE", SHOAL_FLAG_VALUE,
    "write the measured costs of messages, for comm.costs of a run; the mark is then what such a run takes" },
  { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "for scripts" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};

typedef struct {
  shoal_wire wire;
  double seconds, beside, poll_s;
  const char *write; /* borrowed; NULL: nothing is written */
  int64_t together;
  bool json;
  size_t n_sizes, sizes[SIZES_MAX]; /* elements */
} settings;

enum { TOGETHER_MAX = 16 };
typedef struct {
  shoal_world *w;
  const settings *s;
  const shoal_costs *costs;
  size_t n;
  float *x; /* [together * n] */
  shoal_exchange *e[LAST + 1][TOGETHER_MAX];
  double *seconds[LAST + 1], *exposed[LAST + 1]; /* [ROUNDS_MAX] */
  size_t rounds;
} contest;

static shoal_status read_sizes(const char *list, settings *s)
{
  do {
    char word[32];
    int64_t kib = 0;
    size_t length = strcspn(list, ",");
    snprintf(word, sizeof word, "%.*s", (int)length, list);
    SHOAL_CHECK(length < sizeof word && shoal_parse_i64(word, &kib) == SHOAL_OK && kib >= 1 && kib <= 4 << 20,
                SHOAL_ERR_USAGE, "--sizes has \"%s\": must be whole KiB, 1 to 4194304", word);
    SHOAL_CHECK(s->n_sizes < SIZES_MAX, SHOAL_ERR_USAGE, "--sizes has more than %d sizes", SIZES_MAX);
    s->sizes[s->n_sizes++] = (size_t)kib * 256;
    list += length;
  } while (*list++);
  return SHOAL_OK;
}

static shoal_status read_settings(const shoal_args *a, settings *s)
{
  const char *wire = shoal_args_value(a, "--wire"), *seconds = shoal_args_value(a, "--seconds"),
             *together = shoal_args_value(a, "--together"), *beside = shoal_args_value(a, "--beside"),
             *poll = shoal_args_value(a, "--poll");
  double ms = 2;
  *s = (settings){ .seconds = 2, .together = 1, .json = shoal_json_wanted(a) };
  s->write = shoal_args_value(a, "--write");
  while (wire && s->wire <= SHOAL_WIRE_F16 && strcmp(wire, shoal_wire_name(s->wire)) != 0) s->wire++;
  SHOAL_CHECK(s->wire <= SHOAL_WIRE_F16, SHOAL_ERR_USAGE, "--wire is \"%s\": must be f32, bf16 or f16", wire);
  SHOAL_CHECK(!seconds || (shoal_parse_f64(seconds, &s->seconds) == SHOAL_OK && s->seconds > 0), SHOAL_ERR_USAGE,
              "--seconds is \"%s\": must be a number above 0", seconds);
  SHOAL_CHECK(!beside || (shoal_parse_f64(beside, &s->beside) == SHOAL_OK && s->beside > 0 && s->beside <= BESIDE_MAX),
              SHOAL_ERR_USAGE, "--beside is \"%s\": must be a number above 0, at most %d", beside, BESIDE_MAX);
  SHOAL_CHECK(!poll || (shoal_parse_f64(poll, &ms) == SHOAL_OK && ms >= 0 && ms <= POLL_MAX_MS), SHOAL_ERR_USAGE,
              "--poll is \"%s\": must be milliseconds, 0 to %d", poll, POLL_MAX_MS);
  s->poll_s = ms * 1e-3;
  SHOAL_CHECK(!together || (shoal_parse_i64(together, &s->together) == SHOAL_OK && s->together >= 1 &&
                            s->together <= TOGETHER_MAX),
              SHOAL_ERR_USAGE, "--together is \"%s\": must be 1 to %d", together, TOGETHER_MAX);
  const char *sizes = shoal_args_value(a, "--sizes");
  return read_sizes(sizes ? sizes : "1,4,16,64,256,1024,4096,16384", s);
}

static void close_contest(contest *c)
{
  for (int a = FIRST; a <= LAST; a++) {
    for (int i = 0; i < TOGETHER_MAX; i++) shoal_exchange_destroy(c->e[a][i]);
    free(c->seconds[a]);
    free(c->exposed[a]);
  }
  shoal_group_unshare(shoal_world_group(c->w), c->x);
}

static const char *name_of(int algorithm)
{
  return algorithm == BROADCAST ? "broadcast" : shoal_sum_name((shoal_sum_algorithm)algorithm);
}

/* Skips "small" for sizes far above those it is designed for, and what is the same as another one here: on one node there are no
 * messages between nodes, and on nodes of one rank no sums inside one. */
static bool takes_part(const contest *c, int algorithm)
{
  const shoal_topo *t = shoal_world_topo(c->w);
  bool flat = algorithm == SHOAL_SUM_RING || algorithm == SHOAL_SUM_HALVING;
  bool halves = algorithm >= SHOAL_SUM_HALVING;
  if (algorithm == BROADCAST) return c->s->together == 1 && c->s->beside == 0; /* it blocks */
  if (algorithm == SHOAL_SUM_SMALL) return c->n * sizeof(float) <= 64 << 10;
  return flat || (t->nodes < t->size && (t->nodes > 1 || !halves));
}

static shoal_status open_contest(contest *c, shoal_world *w, const settings *s, const shoal_costs *costs, size_t n)
{
  *c = (contest){ .w = w, .s = s, .costs = costs, .n = n };
  void *x;
  SHOAL_TRY(shoal_group_share(shoal_world_group(w), n * (size_t)s->together * sizeof(float), &x));
  c->x = x;
  shoal_status st = SHOAL_OK;
  for (int a = FIRST; a <= LAST && st == SHOAL_OK; a++) {
    st = SHOAL_ALLOC(ROUNDS_MAX, &c->seconds[a]);
    if (st == SHOAL_OK) st = SHOAL_ALLOC(ROUNDS_MAX, &c->exposed[a]);
  }
  SHOAL_TRY(shoal_group_agree(shoal_world_control(w), st));
  for (int a = FIRST; a <= LAST; a++)
    for (int i = 0; i < s->together && takes_part(c, a) && a != BROADCAST; i++)
      SHOAL_TRY(
          shoal_exchange_create_sum(shoal_world_group(w), name_of(a), n, s->wire, (shoal_sum_algorithm)a, &c->e[a][i]));
  return SHOAL_OK;
}

static shoal_status pretend_to_compute(contest *c, double seconds)
{
  uint64_t t0 = shoal_now_ns();
  for (double left; (left = seconds - shoal_seconds_since(t0)) > 0;) {
    double nap = c->s->poll_s > 0 ? SHOAL_MIN(left, c->s->poll_s) : left;
    usleep((useconds_t)(nap * 1e6) + 1);
    if (c->s->poll_s > 0) SHOAL_TRY(shoal_world_progress(c->w));
  }
  return SHOAL_OK;
}

/* @param seconds  out: from start to end of the slowest rank
 * @param waited   out: the longest wait after `beside` seconds of simulated compute */
static shoal_status run_once(contest *c, int algorithm, double beside, double *seconds, double *waited)
{
  SHOAL_TRY(shoal_group_barrier(shoal_world_control(c->w)));
  uint64_t t0 = shoal_now_ns();
  if (algorithm == BROADCAST) SHOAL_TRY(shoal_group_broadcast(shoal_world_group(c->w), c->x, c->n * sizeof *c->x, 0));
  for (int i = 0; i < c->s->together && algorithm != BROADCAST; i++)
    SHOAL_TRY(shoal_exchange_start(c->e[algorithm][i], c->x + (size_t)i * c->n, (shoal_event){ 0 }));
  SHOAL_TRY(pretend_to_compute(c, beside));
  uint64_t t1 = shoal_now_ns();
  for (int i = 0; i < c->s->together && algorithm != BROADCAST; i++) SHOAL_TRY(shoal_exchange_wait(c->e[algorithm][i]));
  uint64_t t2 = shoal_now_ns();
  int64_t ns[] = { (int64_t)(t2 - t0), (int64_t)(t2 - t1) };
  SHOAL_TRY(shoal_group_max_i64(shoal_world_control(c->w), ns, SHOAL_COUNT(ns)));
  *seconds = (double)ns[0] * 1e-9;
  *waited = (double)ns[1] * 1e-9;
  return SHOAL_OK;
}

/* Times one algorithm: alone, and then with --beside times as much simulated compute. */
static shoal_status run_turn(contest *c, int a)
{
  double ignored, *alone = &c->seconds[a][c->rounds];
  SHOAL_TRY(run_once(c, a, 0, alone, &ignored));
  if (c->s->beside > 0) SHOAL_TRY(run_once(c, a, c->s->beside * *alone, &ignored, &c->exposed[a][c->rounds]));
  return SHOAL_OK;
}

/* All ranks stop after the same round: they see the same times. */
static shoal_status run_contest(contest *c)
{
  double spent = 0;
  for (int a = FIRST; a <= LAST; a++) /* untimed: connections, page faults */
    if (takes_part(c, a)) SHOAL_TRY(run_turn(c, a));
  while (c->rounds < ROUNDS_MAX && (c->rounds < 3 || spent < c->s->seconds)) {
    for (int a = FIRST; a <= LAST; a++) {
      if (!takes_part(c, a)) continue;
      SHOAL_TRY(run_turn(c, a));
      spent += c->seconds[a][c->rounds];
    }
    c->rounds++;
  }
  return SHOAL_OK;
}

static void bytes_of(const contest *c, int algorithm, uint64_t out[SHOAL_LINK_COUNT])
{
  const shoal_group *g = shoal_world_group(c->w);
  if (algorithm == BROADCAST)
    shoal_group_broadcast_bytes(g, c->n * sizeof *c->x, 0, out);
  else
    shoal_exchange_bytes(g, c->n, c->s->wire, (shoal_sum_algorithm)algorithm, out);
}

static double model_of(const contest *c, int algorithm)
{
  const shoal_group *g = shoal_world_group(c->w);
  if (algorithm == BROADCAST) return shoal_costs_of_broadcast(c->costs, g, c->n * sizeof *c->x);
  return (double)c->s->together * shoal_costs_of_sum(c->costs, g, c->n, c->s->wire, (shoal_sum_algorithm)algorithm);
}

/* Bytes that the busiest node sends to others in one sum. */
static shoal_status between_bytes(const contest *c, int algorithm, int64_t *largest)
{
  const shoal_topo *t = shoal_world_topo(c->w);
  int64_t *node;
  SHOAL_TRY(SHOAL_ALLOC((size_t)t->nodes, &node));
  uint64_t mine[SHOAL_LINK_COUNT];
  bytes_of(c, algorithm, mine);
  node[t->places[shoal_world_rank(c->w)].node] = (int64_t)mine[SHOAL_LINK_BETWEEN];
  shoal_status st = shoal_group_sum_i64(shoal_world_control(c->w), node, (size_t)t->nodes);
  *largest = 0;
  for (int m = 0; m < t->nodes; m++) *largest = SHOAL_MAX(*largest, node[m]);
  free(node);
  return st;
}

static shoal_status print_line(contest *c, int algorithm, shoal_sum_algorithm chosen)
{
  int64_t between;
  SHOAL_TRY(between_bytes(c, algorithm, &between));
  if (shoal_world_rank(c->w)) return SHOAL_OK;
  bool sum = algorithm != BROADCAST;
  double p = shoal_world_size(c->w), bytes = (double)(sum ? shoal_wire_bytes(c->s->wire, c->n) : c->n * sizeof *c->x);
  double best = INFINITY, sums = (double)c->s->together;
  for (size_t i = 0; i < c->rounds; i++) best = SHOAL_MIN(best, c->seconds[algorithm][i]);
  double exposed = shoal_bench_median(c->exposed[algorithm], c->rounds);
  double time = shoal_bench_median(c->seconds[algorithm], c->rounds);
  double bus = bytes * sums / time * (sum ? 2 * (p - 1) / p : p > 1), link = (double)between * sums / time;
  double model = model_of(c, algorithm);
  if (c->s->json) {
    shoal_json j = { .out = stdout };
    shoal_json_object(&j, NULL);
    shoal_json_real(&j, "kib", (double)c->n / 256);
    shoal_json_string(&j, "algorithm", name_of(algorithm));
    shoal_json_bool(&j, "chosen", chosen == (shoal_sum_algorithm)algorithm);
    shoal_json_fixed(&j, "ms", time * 1e3, 4);
    shoal_json_fixed(&j, "best_ms", best * 1e3, 4);
    shoal_json_fixed(&j, "model_ms", model * 1e3, 4);
    shoal_json_uint(&j, "rounds", c->rounds);
    shoal_json_fixed(&j, "exposed_ms", exposed * 1e3, 4);
    shoal_json_fixed(&j, "bus_mb_s", bus * 1e-6, 2);
    shoal_json_int(&j, "node_sends_bytes", between);
    shoal_json_fixed(&j, "node_sends_mb_s", link * 1e-6, 2);
    shoal_json_end(&j);
    shoal_json_finish(&j);
    return SHOAL_OK;
  }
  printf("%9.6g %c %-17s %11.3f %11.3f %11.3f %7zu %11.1f %13.3f %11.1f", (double)c->n / 256,
         chosen == (shoal_sum_algorithm)algorithm ? '*' : ' ', name_of(algorithm), time * 1e3, best * 1e3, model * 1e3,
         c->rounds, bus * 1e-6, (double)between * sums * 1e-6, link * 1e-6);
  if (c->s->beside > 0) printf(" %11.3f %6.1f %%", exposed * 1e3, 100 * exposed / time);
  printf("\n");
  fflush(stdout);
  return SHOAL_OK;
}

static shoal_status bench_size(shoal_world *w, const settings *s, const shoal_costs *costs, size_t n)
{
  contest c;
  shoal_exchange *automatic = NULL;
  shoal_status st = open_contest(&c, w, s, costs, n);
  if (st == SHOAL_OK)
    st = shoal_exchange_create_sum(shoal_world_group(w), "auto", n, s->wire, SHOAL_SUM_AUTO, &automatic);
  if (st == SHOAL_OK) st = run_contest(&c);
  for (int a = FIRST; a <= LAST && st == SHOAL_OK; a++)
    if (takes_part(&c, a)) st = print_line(&c, a, shoal_exchange_algorithm(automatic));
  shoal_exchange_destroy(automatic);
  close_contest(&c);
  return st;
}

static shoal_status find_costs(shoal_world *w, const settings *s, shoal_costs *out)
{
  SHOAL_TRY(shoal_costs_measure(w, out));
  if (s->write) {
    shoal_world_set_costs(w, out);
    SHOAL_TRY(shoal_group_agree(shoal_world_control(w),
                                shoal_world_rank(w) ? SHOAL_OK : shoal_costs_write(s->write, w, out)));
  }
  if (!s->json && shoal_world_rank(w) == 0)
    printf("between nodes %.1f us, %.1f MB/s to the next, %.1f MB/s far; inside a node %.1f us, %.0f MB/s%s%s\n",
           out->latency_s * 1e6, out->near_rate * 1e-6, out->far_rate * 1e-6, out->local_latency_s * 1e6,
           out->local_rate * 1e-6, s->write ? ": written to " : "", s->write ? s->write : "");
  return SHOAL_OK;
}

/* By the costs of messages; a sum that is not timed, and rounds that begin while --seconds are not over. */
static double expected_s(shoal_world *w, const settings *s, const shoal_costs *costs)
{
  enum { LEAST_ROUNDS = 3 };
  double all = 0;
  for (size_t i = 0; i < s->n_sizes; i++) {
    const contest c = { .w = w, .s = s, .costs = costs, .n = s->sizes[i] };
    double round = 0;
    for (int a = FIRST; a <= LAST; a++)
      if (takes_part(&c, a)) round += model_of(&c, a);
    const double rounds = round > 0 ? SHOAL_MAX(LEAST_ROUNDS, ceil(s->seconds / round)) : LEAST_ROUNDS;
    all += (1 + SHOAL_MIN(rounds, ROUNDS_MAX)) * round * (s->beside > 0 ? 2 + s->beside : 1);
  }
  return all;
}

const shoal_verb_help shoal_bench_comm_help = {
  "shoal bench comm [options]",
  "Time of a sum over all ranks, by each algorithm, and of a broadcast; the sum that auto selects is marked.  Start it "
  "like "
  "a run.\n"
  "It says first how long it will take: minutes where links are slow.",
  flags,
  0,
  0,
  "  mpirun -n 4 shoal bench comm --topo 2x2\n  srun -N4 shoal bench comm --write costs.json\n  srun -N4 "
  "--ntasks-per-node=2 shoal bench comm --sizes 64,4096\n",
};

/* @param a       NULL: the command line is invalid
 * @param parsed  its status then, which other ranks may not have */
static shoal_status run(const shoal_args *a, shoal_status parsed)
{
  settings s;
  shoal_costs costs;
  shoal_world *w;
  shoal_world_options o = { .failed = a ? read_settings(a, &s) : parsed };
  if (o.failed == SHOAL_OK) o.pretend = shoal_args_value(a, "--topo");
  SHOAL_TRY(shoal_world_open(&o, &w));
  const shoal_topo *t = shoal_world_topo(w);
  if (!s.json && shoal_world_rank(w) == 0) {
    printf("%d rank%s on %d node%s%s, %s on the wire, %lld at a time; times of the slowest rank\n", t->size,
           t->size == 1 ? "" : "s", t->nodes, t->nodes == 1 ? "" : "s", t->pretended ? " (pretended)" : "",
           shoal_wire_name(s.wire), (long long)s.together);
    fflush(stdout);
  }
  shoal_status st = find_costs(w, &s, &costs);
  char takes[32];
  if (st == SHOAL_OK && !s.json && shoal_world_rank(w) == 0) {
    printf("%zu size%s, about %s in all; --sizes and --seconds make it less\n", s.n_sizes, s.n_sizes == 1 ? "" : "s",
           shoal_format_seconds(SHOAL_MAX(expected_s(w, &s, &costs), 1), takes, sizeof takes));
    printf("%9s   %-17s %11s %11s %11s %7s %11s %13s %11s%s\n", "KiB (f32)", "algorithm", "median ms", "best ms",
           "model ms", "rounds", "bus MB/s", "node sends MB", "link MB/s", s.beside > 0 ? "  exposed ms    share" : "");
    fflush(stdout);
  }
  for (size_t i = 0; i < s.n_sizes && st == SHOAL_OK; i++) st = bench_size(w, &s, &costs, s.sizes[i]);
  shoal_error_report(st);
  if (st != SHOAL_OK && t->size > 1) shoal_world_abort(w, st);
  shoal_world_close(w);
  return st;
}

shoal_status shoal_bench_comm(int argc, char **argv)
{
  bool helped;
  shoal_args *a = NULL;
  shoal_status st = shoal_args_parse(&shoal_bench_comm_help, argc, argv, &helped, &a);
  if (st == SHOAL_OK && helped) return SHOAL_OK;
  st = run(a, st);
  shoal_args_destroy(a);
  return st;
}
