/* DASO against a serial simulation of itself, and what docs/methods/daso.md promises, on a problem that can be
 * worked out by hand.
 *
 * The simulation holds one model per node in double, because ranks of a node are to be equal, and says in fifty lines
 * what src/method does with groups and messages.  When something happens it asks the schedule, which has a test of its
 * own. */
#include "base/mem.h"
#include "comm.h"
#include "method/daso/parcel.h"
#include "method/daso/schedule.h"
#include "method_rig.h"

static int rank, size;

static const char *const optimizers[] = {
  "",
  "optim.momentum=0.9",
  "optim.momentum=0.9 optim.nesterov=true optim.weight_decay=0.01",
};

/* ------------------------------------------------------------------------------------------------- the simulation */

typedef struct {
  method_rig *m;
  int nodes, groups;
  method_rig_weight *x;          /* [nodes, n] */
  double *sent[SHOAL_DASO_SUMS]; /* [n] sums over the nodes, oldest first */
  shoal_daso_flow flow;
  shoal_daso_cycle cycle;
  double adjustment;
} simulation;

static void begin(simulation *s, method_rig *m)
{
  const shoal_topo *t = shoal_world_topo(m->world);
  size_t n = m->run.form->params->n;
  *s = (simulation){ .m = m, .nodes = t->nodes, .groups = size, .adjustment = 2 };
  for (int r = 0; r < size; r++) s->groups = SHOAL_MIN(s->groups, t->places[r].local_size);
  s->x = room((size_t)t->nodes * n * sizeof *s->x);
  for (int i = 0; i < SHOAL_DASO_SUMS; i++) s->sent[i] = room(n * sizeof(double));
  for (int node = 0; node < t->nodes; node++)
    for (size_t i = 0; i < n; i++) s->x[(size_t)node * n + i].w = (double)m->run.form->params->w[i];
}

static void end(simulation *s)
{
  for (int i = 0; i < SHOAL_DASO_SUMS; i++) free(s->sent[i]);
  free(s->x);
}

/* Every node takes a step with the mean gradient of its samples, or its share of the mean of all. */
static void train_nodes(simulation *s, uint64_t step, bool blocks)
{
  size_t n = s->m->run.form->params->n;
  const shoal_place *p = shoal_world_topo(s->m->world)->places;
  for (int node = 0; node < s->nodes; node++) {
    for (size_t i = 0; i < n; i++) {
      method_rig_weight *x = &s->x[(size_t)node * n + i];
      uint64_t samples = 0, count;
      double g = 0;
      for (int r = 0; r < size; r++) {
        if (p[r].node != node) continue;
        g += method_rig_pull(s->m, step, r, i, x->w, &count);
        samples += count;
      }
      double all = (double)method_rig_total(s->m, step) / s->nodes;
      method_rig_sgd(s->m, x, samples ? g / (blocks ? all : (double)samples) : 0, step);
    }
  }
}

static void act(simulation *s, const shoal_daso_event *e)
{
  size_t n = s->m->run.form->params->n;
  double *oldest = s->sent[0], own = s->adjustment * (double)e->wait;
  for (size_t i = 0; i < n; i++) {
    double sum = 0;
    for (int node = 0; node < s->nodes; node++) sum += s->x[(size_t)node * n + i].w;
    if (e->act == SHOAL_DASO_START) s->sent[s->flow.n - 1][i] = sum;
    for (int node = 0; node < s->nodes; node++) {
      method_rig_weight *x = &s->x[(size_t)node * n + i];
      if (e->act == SHOAL_DASO_BLOCK) x->w = sum / s->nodes;
      if (e->act == SHOAL_DASO_COLLECT) x->w = (own * x->w + oldest[i]) / (own + s->nodes);
    }
  }
  if (e->act == SHOAL_DASO_COLLECT || e->act == SHOAL_DASO_DROP) {
    s->sent[0] = s->sent[1];
    s->sent[1] = oldest;
  }
}

/* The schedule hands out events of a batch together; sums must be put away before the older one is taken. */
static void simulate(simulation *s, uint64_t step)
{
  shoal_daso_event e[SHOAL_DASO_EVENTS];
  uint64_t batches = s->m->setup.batches, b = step % batches;
  train_nodes(s, step, shoal_daso_blocks(&s->cycle, b, batches));
  if (s->nodes == 1) return;
  int before = s->flow.n, n = shoal_daso_events(&s->cycle, b, batches, &s->flow, e);
  for (int i = 0; i < n; i++) {
    int now = s->flow.n;
    if (e[i].act == SHOAL_DASO_START) s->flow.n = before + 1;
    act(s, &e[i]);
    s->flow.n = now;
  }
}

/* ---------------------------------------------------------------------------------------------------------- checks */

static bool equal_ranks(method_rig *m, int node)
{
  size_t bytes = m->run.form->params->n * sizeof(float);
  const char *all = (const char *)method_rig_gather(m), *first = NULL;
  for (int r = 0; r < size; r++) {
    if (node >= 0 && shoal_world_topo(m->world)->places[r].node != node) continue;
    const char *one = all + (size_t)r * bytes;
    if (first && memcmp(first, one, bytes) != 0) return false;
    first = one;
  }
  return true;
}

static void compare(simulation *s, double tolerance, bool blocked)
{
  method_rig *m = s->m;
  size_t n = m->run.form->params->n;
  int node = shoal_world_topo(m->world)->places[rank].node;
  double *w = room(n * sizeof *w);
  for (size_t i = 0; i < n; i++) w[i] = s->x[(size_t)node * n + i].w;
  double error = method_rig_error(m->run.form->params->w, w, n);
  CHECK_LT(error, tolerance, "%s, %s, after step %d", m->setup.pretend, m->setup.settings, (int)m->run.step - 1);
  for (int k = 0; k < s->nodes; k++)
    CHECK(equal_ranks(m, k), "%s, %s, step %d: ranks of node %d differ", m->setup.pretend, m->setup.settings,
          (int)m->run.step - 1, k);
  if (blocked)
    CHECK(equal_ranks(m, -1), "%s, %s: ranks differ after a blocking sum", m->setup.pretend, m->setup.settings);
  free(w);
}

static double constant(uint64_t epoch)
{
  return 1;
}

static void run(const char *pretend, const char *settings, const shoal_daso_plan *plan, const shoal_daso_cycle *fixed,
                double adjustment, double (*loss)(uint64_t epoch))
{
  method_rig m;
  simulation s;
  shoal_daso_phase phase;
  const uint64_t batches = 11, total = (uint64_t)size * 2 + 1;
  method_rig_setup setup = { pretend, "daso", settings, plan->epochs, batches, total, (uint64_t)size + 1, false };
  method_rig_open(&m, &setup);
  begin(&s, &m);
  s.adjustment = adjustment;
  shoal_daso_begin(plan, 0, &phase);
  for (uint64_t step = 0; step < plan->epochs * batches; step++) {
    uint64_t epoch = step / batches, b = step % batches;
    s.cycle = *fixed;
    s.cycle.groups = s.groups;
    s.cycle.every = phase.every ? fixed->every ? fixed->every : phase.every : 0;
    s.cycle.wait = phase.every ? fixed->every ? fixed->wait : phase.wait : 0;
    REQUIRE(method_rig_step(&m, 0.1f, loss(epoch)) == SHOAL_OK, "step %d", (int)step);
    simulate(&s, step);
    compare(&s, 1e-5, s.nodes > 1 && shoal_daso_blocks(&s.cycle, b, batches));
    if (b == batches - 1) shoal_daso_next(plan, epoch + 1, loss(epoch), &phase);
  }
  end(&s);
  method_rig_close(&m);
}

/* ------------------------------------------------------------------------------------------------- whole schedules */

/* B and W for good, from the first batch on. */
static void fixed_cycles(const char *pretend)
{
  static const struct {
    uint64_t every, wait;
    bool quirks;
    double adjustment;
  } cycles[] = { { 4, 1, false, 2 }, { 2, 1, false, 2 }, { 1, 1, false, 2 }, { 3, 3, false, 2 }, { 8, 2, false, 0.5 },
                 { 1, 0, false, 2 }, { 3, 0, false, 2 }, { 2, 1, true, 2 },  { 4, 3, true, 2 } };
  for (size_t i = 0; i < SHOAL_COUNT(cycles); i++) {
    char text[256];
    shoal_daso_plan plan = { .epochs = 2, .max_every = 8, .patience = 2, .threshold = 0.05 };
    shoal_daso_cycle c = { .every = cycles[i].every, .wait = cycles[i].wait, .quirks = cycles[i].quirks };
    snprintf(text, sizeof text,
             "%s method.warmup_epochs=0 method.cooldown_epochs=0 method.every=%d method.wait=%d method.ref_quirks=%s "
             "method.staleness_adjustment=%g",
             optimizers[i % SHOAL_COUNT(optimizers)], (int)c.every, (int)c.wait, c.quirks ? "true" : "false",
             cycles[i].adjustment);
    run(pretend, text, &plan, &c, cycles[i].adjustment, constant);
  }
}

/* Warm-up, cycling down with a loss that stands still, back up, and cool-down. */
static void whole_schedule(const char *pretend)
{
  shoal_daso_plan plan = { .epochs = 8, .warmup = 1, .cooldown = 1, .max_every = 8, .patience = 0, .threshold = 0.05 };
  shoal_daso_cycle free_cycle = { 0 };
  run(pretend,
      "method.warmup_epochs=1 method.cooldown_epochs=1 method.patience=0 method.wire=f32 optim.momentum=0.9 "
      "optim.weight_decay=0.01",
      &plan, &free_cycle, 2, constant);
}

/* With blocking sums in f32 DASO is synchronous SGD, whatever shares ranks and nodes have; so it is with B = 1, W = 0. */
static void neutral(const char *pretend)
{
  static const char *const ways[] = { "method.warmup_epochs=3 method.wire=f32",
                                      "method.warmup_epochs=0 method.cooldown_epochs=0 method.every=1 method.wait=0" };
  for (size_t k = 0; k < SHOAL_COUNT(ways) * SHOAL_COUNT(optimizers); k++) {
    method_rig m;
    char text[256];
    snprintf(text, sizeof text, "%s %s", ways[k % 2], optimizers[k / 2]);
    method_rig_setup setup = { pretend, "daso", text, 3, 6, (uint64_t)size * 2 + 1, 2, false };
    method_rig_open(&m, &setup);
    size_t n = m.run.form->params->n;
    method_rig_weight *x = room(n * sizeof *x);
    double *w = room(n * sizeof *w);
    for (size_t i = 0; i < n; i++) x[i].w = (double)m.run.form->params->w[i];
    for (uint64_t step = 0; step < 18; step++) {
      REQUIRE(method_rig_step(&m, 0.1f, 1) == SHOAL_OK, "step %d", (int)step);
      for (size_t i = 0; i < n; i++) {
        double g = 0;
        for (int r = 0; r < size; r++) g += method_rig_pull(&m, step, r, i, x[i].w, NULL);
        method_rig_sgd(&m, &x[i], g / (double)method_rig_total(&m, step), step);
        w[i] = x[i].w;
      }
      double error = method_rig_error(m.run.form->params->w, w, n);
      CHECK_LT(error, 3e-6, "%s, %s, step %d", pretend, text, (int)step);
      CHECK(equal_ranks(&m, -1), "%s: ranks differ", pretend);
    }
    free(w);
    free(x);
    method_rig_close(&m);
  }
}

/* ------------------------------------------------------------------------------------------ laws of a single blend */

static void spread_nodes(method_rig *m, float scale)
{
  int node = shoal_world_topo(m->world)->places[rank].node;
  for (size_t i = 0; i < m->run.form->params->n; i++) m->run.form->params->w[i] += scale * any_float(i, node);
}

/* Identical models and no learning: nothing changes. */
static void fixed_point(const char *pretend)
{
  method_rig m;
  method_rig_setup setup = {
    pretend, "daso", "method.warmup_epochs=0 method.every=1", 1, 30, (uint64_t)size, 0, false
  };
  method_rig_open(&m, &setup);
  size_t n = m.run.form->params->n;
  double *w = room(n * sizeof *w);
  for (size_t i = 0; i < n; i++) w[i] = (double)m.run.form->params->w[i];
  for (int step = 0; step < 8; step++) REQUIRE(method_rig_step(&m, 0, 1) == SHOAL_OK, "step %d", step);
  double error = method_rig_error(m.run.form->params->w, w, n);
  CHECK_LT(error, 1e-6, "%s", pretend);
  free(w);
  method_rig_close(&m);
}

/* No learning, different models: a blend keeps the mean, shrinks deviations by 2S/(2S+P), and stays between what was
 * there and what was sent. */
static void contraction(const char *pretend, uint64_t age)
{
  method_rig m;
  char text[128];
  snprintf(text, sizeof text, "method.warmup_epochs=0 method.cooldown_epochs=0 method.every=4 method.wait=%d",
           (int)age);
  method_rig_setup setup = { pretend, "daso", text, 1, 30, (uint64_t)size, 0, false };
  method_rig_open(&m, &setup);
  spread_nodes(&m, 1);
  size_t n = m.run.form->params->n;
  const shoal_topo *t = shoal_world_topo(m.world);
  float *before = room((size_t)size * n * sizeof *before);
  memcpy(before, method_rig_gather(&m), (size_t)size * n * sizeof *before);
  for (uint64_t step = 0; step <= age; step++) REQUIRE(method_rig_step(&m, 0, 1) == SHOAL_OK, "step %d", (int)step);
  double rho = 2 * (double)age / (2 * (double)age + t->nodes);
  for (size_t i = 0; i < n && t->nodes > 1; i++) {
    double mean = 0, low = INFINITY, high = -INFINITY, w = (double)m.run.form->params->w[i];
    for (int node = 0; node < t->nodes; node++) {
      int r = 0;
      while (t->places[r].node != node) r++;
      double x = (double)before[(size_t)r * n + i];
      mean += x / t->nodes;
      low = fmin(low, x);
      high = fmax(high, x);
    }
    double expected = mean + rho * ((double)before[(size_t)rank * n + i] - mean),
           ulps = 4e-7 * fmax(fabs(low), fabs(high));
    CHECK_NEAR(w, expected, ulps, "%s, S %d, element %zu", pretend, (int)age, i);
    CHECK_GE(w, low - ulps, "%s: between %g and %g", pretend, low, high);
    CHECK_LE(w, high + ulps, "%s: between %g and %g", pretend, low, high);
  }
  free(before);
  method_rig_close(&m);
}

/* -------------------------------------------------------------------------------------------------- 16-bit parcels */

/* Two roundings at most, and the same bits everywhere; with deltas the bound is that of the change. */
static void parcels(const char *pretend, const char *wire, bool delta)
{
  method_rig m;
  char text[128];
  double bound = strcmp(wire, "bf16") == 0 ? 0x1p-7 : 0x1p-10;
  snprintf(text, sizeof text, "method.warmup_epochs=9 method.wire=%s method.delta=%s", wire, delta ? "on" : "off");
  method_rig_setup setup = { pretend, "daso", text, 1, 9, (uint64_t)size, 0, false };
  method_rig_open(&m, &setup);
  size_t n = m.run.form->params->n;
  const shoal_topo *t = shoal_world_topo(m.world);
  float *common = room(n * sizeof *common), *before = room((size_t)size * n * sizeof *before);
  for (int step = 0; step < 3; step++) {
    memcpy(common, m.run.form->params->w, n * sizeof *common);
    spread_nodes(&m, 0.1f);
    memcpy(before, method_rig_gather(&m), (size_t)size * n * sizeof *before);
    REQUIRE(method_rig_step(&m, 0, 1) == SHOAL_OK, "step %d", step);
    CHECK(equal_ranks(&m, -1), "%s, %s: ranks differ", pretend, text);
    for (size_t i = 0; i < n && t->nodes > 1; i++) {
      double mean = 0, largest = 0, base = delta ? (double)common[i] : 0;
      for (int node = 0; node < t->nodes; node++) {
        int r = 0;
        while (t->places[r].node != node) r++;
        mean += (double)before[(size_t)r * n + i] / t->nodes;
        largest = fmax(largest, fabs((double)before[(size_t)r * n + i] - base));
      }
      double error = fabs((double)m.run.form->params->w[i] - mean), rest = delta ? 1e-7 * fabs(base) : 0;
      CHECK_LE(error, bound * largest + rest + 1e-9, "%s, %s: element %zu", pretend, text, i);
    }
  }
  free(before);
  free(common);
  method_rig_close(&m);
}

/* Steps of a thousandth at a weight of 1 are rounded away in values, for ever, and kept in changes. */
static void stalling(const char *pretend)
{
  for (int delta = 0; delta < 2; delta++) {
    method_rig m;
    method_rig_setup setup = {
      pretend, "daso", delta ? "method.warmup_epochs=9" : "method.warmup_epochs=9 method.delta=off",
      1,       100,    (uint64_t)size,
      0,       false
    };
    method_rig_open(&m, &setup);
    size_t n = m.run.form->params->n;
    for (size_t i = 0; i < n; i++) m.run.form->params->w[i] = 1;
    for (int step = 0; step < 50; step++) {
      REQUIRE(method_rig_step(&m, 0, 1) == SHOAL_OK, "step %d", step); /* the first one makes 1 common */
      for (size_t i = 0; i < n; i++) m.run.form->params->w[i] -= 0.001f;
    }
    REQUIRE(method_rig_step(&m, 0, 1) == SHOAL_OK, "last step");
    float w = m.run.form->params->w[n / 2], expected = delta ? 0.95f : 1;
    if (shoal_world_topo(m.world)->nodes > 1) CHECK_NEAR(w, expected, 5e-4f, "%s, delta %d", pretend, delta);
    method_rig_close(&m);
  }
}

/* What is not finite, or beyond the format, does not leave; here on all nodes, so that nobody waits. */
static void refuse(const char *pretend, const char *settings, float bad)
{
  method_rig m;
  method_rig_setup setup = { pretend, "daso", settings, 3, 30, (uint64_t)size, 0, false };
  method_rig_open(&m, &setup);
  if (shoal_world_topo(m.world)->nodes == size && size > 1) {
    m.run.form->params->w[m.run.form->params->n / 3] = bad;
    shoal_status st = method_rig_step(&m, 0, 1);
    CHECK_STATUS(st, SHOAL_ERR_NUMERIC, "%s with %g", settings, (double)bad);
  }
  method_rig_close(&m);
}

/* ------------------------------------------------------------------------------------------------------------ bytes */

static void sum_links(const method_rig *m, uint64_t out[SHOAL_LINK_COUNT])
{
  uint64_t mine[SHOAL_LINK_COUNT];
  method_rig_counted(m, mine);
  MPI_Allreduce(mine, out, SHOAL_LINK_COUNT, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
}

/* Bytes of a warm-up epoch and two cycling ones, over all nodes. */
static void count_bytes(const char *pretend, uint64_t every, const char *wire)
{
  enum { BATCHES = 11 };
  method_rig m;
  char text[192];
  snprintf(text, sizeof text,
           "method.warmup_epochs=1 method.cooldown_epochs=0 method.every=%d method.wait=1 method.wire=%s", (int)every,
           wire);
  method_rig_setup setup = { pretend, "daso", text, 3, BATCHES, (uint64_t)size, 0, false };
  method_rig_open(&m, &setup);
  const shoal_topo *t = shoal_world_topo(m.world);
  uint64_t n = m.run.form->params->n, nodes = (uint64_t)t->nodes, others = (uint64_t)(size - t->nodes);
  uint64_t expected[2] = { 0 }, got[SHOAL_LINK_COUNT], e16 = strcmp(wire, "f32") ? 2 : 4;
  uint64_t starts = (BATCHES - 1 + every - 1) / every, dropped = (BATCHES - 1) % every == 1 || every == 1;
  uint64_t collected = starts - dropped;
  for (int epoch = 0; epoch < 3; epoch++) {
    for (int i = 0; i < BATCHES; i++) REQUIRE(method_rig_step(&m, 0.1f, 1) == SHOAL_OK, "step %d", i);
    expected[0] += BATCHES * 2 * others * n * 4; /* gradients, each batch */
    if (nodes > 1 && epoch == 0) {
      expected[0] += BATCHES * others * n * 4;
      expected[1] += BATCHES * 2 * (nodes - 1) * n * e16;
    } else if (nodes > 1) {
      expected[0] += (collected + 1) * others * n * 4;
      expected[1] += (starts + 1) * 2 * (nodes - 1) * n * 4;
    }
    sum_links(&m, got);
    CHECK_EQ(got[SHOAL_LINK_NODE], expected[0], "%s, %s, epoch %d", pretend, text, epoch);
    CHECK_EQ(got[SHOAL_LINK_BETWEEN], expected[1], "%s, %s, epoch %d", pretend, text, epoch);
  }
  method_rig_close(&m);
}

static void mean_over_ranks(uint64_t mine, uint64_t *all, double *mean)
{
  MPI_Allgather(&mine, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, MPI_COMM_WORLD);
  *mean = 0;
  for (int r = 0; r < size; r++) *mean += (double)all[r] / size;
}

/* Bytes of a ring sum of 10 elements over 4 ranks, and of ResNet-50 in MB per node and batch, worked out by hand. */
static void check_vectors(const char *pretend, double blocking, double every_4, double every_2, double every_1)
{
  enum { RESNET50 = 25557032 };
  uint64_t out[SHOAL_LINK_COUNT], all[8];
  double mean;
  shoal_world *w = open_world(pretend, 0);
  shoal_group *g = shoal_world_group(w);
  shoal_exchange_bytes(g, 10, SHOAL_WIRE_F32, SHOAL_SUM_RING, out);
  mean_over_ranks(out[SHOAL_LINK_BETWEEN], all, &mean);
  /* Parts of 3, 3, 2 and 2 elements: a rank sends all but its own, and all but the next one, of 4 bytes each. */
  static const uint64_t want[] = { 56, 60, 64, 60 };
  for (int r = 0; size == 4 && r < 4; r++) CHECK_EQ(all[r], want[r], "rank %d", r);
  CHECK_EQ(mean * size, 2.0 * (size - 1) * 10 * 4);
  shoal_exchange_bytes(g, RESNET50, SHOAL_WIRE_F32, SHOAL_SUM_RING, out);
  mean_over_ranks(out[SHOAL_LINK_BETWEEN], all, &mean);
  CHECK_NEAR(mean / 1e6 / 4, every_4, 0.051, "%s", pretend);
  CHECK_NEAR(mean / 1e6 / 2, every_2, 0.051, "%s", pretend);
  CHECK_NEAR(mean / 1e6, every_1, 0.051, "%s", pretend);
  shoal_parcels_bytes(g, RESNET50, out);
  mean_over_ranks(out[SHOAL_LINK_BETWEEN], all, &mean);
  CHECK_NEAR(mean / 1e6, blocking, 0.051, "%s", pretend);
  shoal_world_close(w);
}

/* ------------------------------------------------------------------------------------------------------- evaluation */

/* Made while a sum is under way, the model is the mean over nodes, and the run goes on as if nobody had looked. */
static void observes(const char *pretend)
{
  static const char settings[] = "method.warmup_epochs=0 method.cooldown_epochs=0 method.every=3 method.wait=2";
  float *last[2] = { NULL, NULL };
  for (int looks = 0; looks < 2; looks++) {
    method_rig m;
    method_rig_setup setup = { pretend, "daso", settings, 1, 30, (uint64_t)size * 2, 0, false };
    method_rig_open(&m, &setup);
    const shoal_topo *t = shoal_world_topo(m.world);
    size_t n = m.run.form->params->n;
    float *model = room(n * sizeof *model);
    for (int step = 0; step < 9; step++) {
      REQUIRE(method_rig_step(&m, 0.1f, 1) == SHOAL_OK, "step %d", step);
      if (!looks) continue;
      REQUIRE(m.method->assemble(&m.run, m.state, model, NULL) == SHOAL_OK, "assemble");
      const float *all = method_rig_gather(&m);
      for (size_t i = 0; i < n; i++) {
        double mean = 0;
        for (int r = 0; r < size; r++) mean += (double)all[(size_t)r * n + i] / t->places[r].local_size / t->nodes;
        CHECK_NEAR(mean, (double)model[i], 2e-7 * fmax(0.1, fabs(mean)), "%s", pretend);
      }
    }
    last[looks] = room(n * sizeof(float));
    memcpy(last[looks], m.run.form->params->w, n * sizeof(float));
    if (looks) CHECK_BYTES(last[0], last[1], n * sizeof(float), "%s: looking changed the weights", pretend);
    free(model);
    method_rig_close(&m);
  }
  free(last[0]);
  free(last[1]);
}

int main(void)
{
  mpi_start(&rank, &size);
  for (size_t t = 0; t < SHOAL_COUNT(topologies); t++) {
    const char *pretend = topologies[t].pretend;
    if (topologies[t].size != size) continue;
    fixed_cycles(pretend);
    whole_schedule(pretend);
    neutral(pretend);
    fixed_point(pretend);
    for (uint64_t age = 1; age <= 3; age++) contraction(pretend, age);
    for (int delta = 0; delta < 2; delta++) {
      parcels(pretend, "bf16", delta);
      parcels(pretend, "f16", delta);
    }
    stalling(pretend);
    refuse(pretend, "method.warmup_epochs=0 method.every=4", NAN);
    refuse(pretend, "method.warmup_epochs=0 method.every=4", INFINITY);
    refuse(pretend, "method.warmup_epochs=3", NAN);
    refuse(pretend, "method.warmup_epochs=3 method.wire=f16 method.delta=off", 1e5f);
    for (uint64_t every = 1; every <= 5; every++) count_bytes(pretend, every, every % 2 ? "bf16" : "f32");
    observes(pretend);
  }
  if (size == 2) check_vectors("2x1", 51.1, 25.6, 51.1, 102.2);
  if (size == 4) check_vectors("4x1", 76.7, 38.3, 76.7, 153.3);
  return mpi_done();
}
