/* Local SGD on a problem that can be worked out by hand: what docs/methods/local-sgd.md promises. */
#include "base/mem.h"
#include "comm.h"
#include "method_rig.h"

static int rank, size;

static const char *const optimizers[] = {
  "",
  "optim.momentum=0.9",
  "optim.momentum=0.9 optim.nesterov=true optim.weight_decay=0.01",
};

/* One process with the whole batch, in double. */
static void sync_oracle(const method_rig *m, method_rig_weight *x, uint64_t step)
{
  for (size_t i = 0; i < m->run.form->params->n; i++) {
    double g = 0;
    for (int r = 0; r < m->size; r++) g += method_rig_pull(m, step, r, i, x[i].w, NULL);
    method_rig_sgd(m, &x[i], g / (double)method_rig_total(m, step), step);
  }
}

static method_rig_weight *begin(const method_rig *m)
{
  method_rig_weight *x = room(m->run.form->params->n * sizeof *x);
  for (size_t i = 0; i < m->run.form->params->n; i++) x[i].w = (double)m->run.form->params->w[i];
  return x;
}

/* The mean over ranks against an oracle. */
static void check_mean(method_rig *m, const method_rig_weight *x, double tolerance, const char *what)
{
  size_t n = m->run.form->params->n;
  const float *all = method_rig_gather(m);
  float *mean = room(n * sizeof *mean);
  double *w = room(n * sizeof *w);
  for (size_t i = 0; i < n; i++) {
    double sum = 0;
    for (int r = 0; r < size; r++) sum += (double)all[(size_t)r * n + i];
    mean[i] = (float)(sum / size);
    w[i] = x[i].w;
  }
  double error = method_rig_error(mean, w, n);
  CHECK_LT(error, tolerance, "%s, %s, %s, step %d", what, m->setup.pretend, m->setup.settings, (int)m->run.step);
  free(mean);
  free(w);
}

static bool all_equal(method_rig *m)
{
  size_t bytes = m->run.form->params->n * sizeof(float);
  const char *all = (const char *)method_rig_gather(m);
  for (int r = 1; r < size; r++)
    if (memcmp(all, all + (size_t)r * bytes, bytes) != 0) return false;
  return true;
}

static void run(const char *pretend, const char *settings, const method_rig_setup *like,
                void (*check)(method_rig *m, method_rig_weight *x))
{
  method_rig m;
  method_rig_setup setup = *like;
  setup.pretend = pretend;
  setup.settings = settings;
  method_rig_open(&m, &setup);
  method_rig_weight *x = begin(&m);
  while (m.run.step < setup.epochs * setup.batches) {
    uint64_t step = m.run.step;
    REQUIRE(method_rig_step(&m, 0.1f, 1) == SHOAL_OK, "step %d", (int)step);
    sync_oracle(&m, x, step);
    check(&m, x);
  }
  free(x);
  method_rig_close(&m);
}

/* H = 1 is synchronous SGD, also with batches that ranks share unequally, and all ranks hold the same bits. */
static void check_every_step(method_rig *m, method_rig_weight *x)
{
  check_mean(m, x, 2e-6, "H = 1");
  CHECK(all_equal(m), "%s: ranks differ after an average", m->setup.pretend);
}

/* With equal shares and one Hessian the mean follows synchronous SGD whatever H is, while the ranks drift apart. */
static void check_linear(method_rig *m, method_rig_weight *x)
{
  check_mean(m, x, 2e-6, "equal Hessians");
  bool averaged = (m->run.step - 1) % 5 == 0;
  if (size > 1) CHECK_EQ(all_equal(m), averaged, "%s, step %d", m->setup.pretend, (int)m->run.step);
}

static bool power_of_two(int n)
{
  return (n & (n - 1)) == 0;
}

/* Identical data: identical models at all times.  A sum over a number of ranks that is no power of two rounds. */
static void check_identical(method_rig *m, method_rig_weight *x)
{
  bool exact = power_of_two(size);
  const shoal_place *p = shoal_world_topo(m->world)->places;
  for (int r = 0; strstr(m->setup.settings, "node_level") && r < size; r++) exact &= power_of_two(p[r].local_size);
  check_mean(m, x, 2e-6, "identical data");
  if (exact) CHECK(all_equal(m), "%s: ranks differ", m->setup.pretend);
}

/* Before the switch synchronous, then alone; ranks of a node stay equal with the node level. */
static void check_switch(method_rig *m, method_rig_weight *x)
{
  uint64_t done = m->run.step;
  check_mean(m, x, 2e-6, "post-local");
  bool together = done <= 6 || (done - 1) % 4 == 0;
  if (size > 1 && strcmp(m->setup.pretend, "1x2") != 0 && shoal_world_topo(m->world)->nodes > 1)
    CHECK_EQ(all_equal(m), together, "step %d of %s: equal is %d", (int)done, m->setup.pretend, !together);
  size_t n = m->run.form->params->n;
  const shoal_place *p = shoal_world_topo(m->world)->places;
  const float *all = m->everyone;
  for (int r = 0; r < size; r++)
    if (p[r].node == p[rank].node)
      CHECK_BYTES(all + (size_t)r * n, m->run.form->params->w, n * sizeof *all, "ranks %d and %d of a node differ", r,
                  rank);
}

/* Bytes of a run, worked out here: averages by a ring; the rest is in check_bytes of the rig. */
static void count_averages(const char *pretend)
{
  method_rig m;
  method_rig_setup setup = { pretend, "local-sgd", "method.period=3 method.algorithm=ring", 2, 7, 16, 0, false };
  method_rig_open(&m, &setup);
  size_t n = m.run.form->params->n, p = (size_t)size, r = (size_t)rank;
  for (int i = 0; i < 14; i++) REQUIRE(method_rig_step(&m, 0.1f, 1) == SHOAL_OK, "step %d", i);
  size_t one = n / p + (r < n % p), next = (r + 1) % p, two = n / p + (next < n % p);
  uint64_t counted[SHOAL_LINK_COUNT], averages = 5; /* steps 0, 3, 6, 9, 12 */
  method_rig_counted(&m, counted);
  uint64_t expected = size > 1 ? averages * 4 * (2 * n - one - two) : 0;
  CHECK_EQ(counted[SHOAL_LINK_NODE] + counted[SHOAL_LINK_BETWEEN], expected, "%s", pretend);
  method_rig_close(&m);
}

typedef struct {
  const char *settings; /* with a period of 3 */
  bool slowmo, nesterov;
  double rate, momentum; /* of the outer optimizer */
  uint64_t fragments, overlap;
  double mixing;
} outer_case;

/* The outer optimizers, fragments and overlap as their papers have them, all ranks worked out here, in double; rates change from
 * step to step. */
static void follows_outer(const char *pretend, const outer_case *c)
{
  method_rig m;
  method_rig_setup setup = { pretend, "local-sgd", c->settings, 2, 7, (uint64_t)size * 2 + 1, 0, false };
  method_rig_open(&m, &setup);
  const size_t n = m.run.form->params->n, lines = n / 16;
  const uint64_t period = 3, fragments = c->fragments ? c->fragments : 1;
  bool whole = fragments == 1 && c->overlap == 0;
  double *x = room(n * sizeof *x), *v = room(n * sizeof *v), *w = room((size_t)size * n * sizeof *w);
  double *sent = room(n * sizeof *sent);
  memset(v, 0, n * sizeof *v);
  for (size_t i = 0; i < n; i++) x[i] = (double)m.run.form->params->w[i];
  for (size_t i = 0; i < (size_t)size * n; i++) w[i] = x[i % n];
  for (uint64_t step = 0; step < 14; step++) {
    double lr = (double)(0.2f / (float)(step + 1)), total = (double)method_rig_total(&m, step);
    REQUIRE(method_rig_step(&m, 0.2f / (float)(step + 1), 1) == SHOAL_OK, "step %d", (int)step);
    for (size_t i = 0; i < n; i++) {
      uint64_t f = 0;
      while (f + 1 < fragments && i >= (f + 1) * lines / fragments * 16) f++;
      const uint64_t at = f * period / fragments; /* of the period */
      bool starts = step % period == at, collects = step >= c->overlap + at && (step - c->overlap) % period == at;
      double mean = 0;
      for (int r = 0; r < size; r++) {
        uint64_t own;
        double *one = &w[(size_t)r * n + i], g = method_rig_pull(&m, step, r, i, *one, &own);
        *one -= lr * g / (whole && starts ? total / size : (double)own);
        mean += *one / size;
      }
      if (starts) sent[i] = mean;
      if (!collects) continue;
      double change = (x[i] - sent[i]) / (c->slowmo ? lr : 1);
      v[i] = c->momentum * v[i] + change;
      x[i] -= c->rate * (c->slowmo ? lr : 1) * (c->nesterov ? change + c->momentum * v[i] : v[i]);
      for (int r = 0; r < size; r++) {
        double *one = &w[(size_t)r * n + i];
        *one = c->mixing * *one + (1 - c->mixing) * x[i];
      }
    }
    double error = method_rig_error(m.run.form->params->w, w + (size_t)rank * n, n);
    CHECK_LT(error, 3e-6, "%s, %s, step %d", pretend, c->settings, (int)step);
  }
  free(x);
  free(v);
  free(w);
  free(sent);
  method_rig_close(&m);
}

/* Changes in 8 and 4 bits between two nodes.  Weights are set by hand, to numbers with which all of it is exact but the rounding
 * to blocks, which is worked out here; so all bits must be equal. */
typedef struct {
  const char *settings;
  int bits;
  uint64_t fragments, overlap;   /* with a period of 2, after an epoch that is synchronous */
  double mixing, rate, momentum; /* rate and momentum: of nesterov */
} bits_case;

static double set_weight(uint64_t step, int r, size_t i)
{
  uint32_t h = ((uint32_t)i + 1) * 2654435761u ^ (uint32_t)(step * 8 + (uint64_t)r + 1) * 40503u * 2654435769u;
  return (double)((int32_t)h >> 20) / (i % 300 < 128 ? 256 : 16);
}

/* Rounds the elements at .. end of x, in blocks from `first` on, and keeps what that takes. */
static void round_blocks(int bits, size_t first, size_t at, size_t end, double *x, double *error)
{
  for (size_t b = first; b < end; b += SHOAL_WIRE_BLOCK) {
    size_t stop = SHOAL_MIN(b + SHOAL_WIRE_BLOCK, end);
    double largest = 0, s = 0x1p-40;
    if (b < at) continue;
    for (size_t i = b; i < stop; i++) largest = fmax(largest, fabs(x[i] += error[i]));
    while (nearbyint(largest / s) >= 1 << (bits - 1)) s *= 2;
    for (size_t i = b; i < stop; i++) {
      double sent = nearbyint(x[i] / s) * s;
      error[i] = x[i] - sent;
      x[i] = sent;
    }
  }
}

/* One node sends its sum for the half that the other owns; the owner adds its own and rounds what all get. */
static void sum_of_two(int bits, size_t first, size_t n, int owners, double *sum[2], double *error[2], double *out)
{
  size_t shard = first, left = (n + SHOAL_WIRE_BLOCK - 1) / SHOAL_WIRE_BLOCK;
  for (int q = 0; q < owners; q++) {
    size_t blocks = left / (size_t)(owners - q) + (left % (size_t)(owners - q) > 0), half = (blocks + 1) / 2;
    size_t cut[3] = { shard, SHOAL_MIN(shard + half * SHOAL_WIRE_BLOCK, first + n),
                      SHOAL_MIN(shard + blocks * SHOAL_WIRE_BLOCK, first + n) };
    for (int m = 0; m < 2; m++) {
      round_blocks(bits, first, cut[m], cut[m + 1], sum[1 - m], error[1 - m]);
      for (size_t i = cut[m]; i < cut[m + 1]; i++) sum[m][i] += sum[1 - m][i];
      round_blocks(bits, first, cut[m], cut[m + 1], sum[m], error[m]);
      for (size_t i = cut[m]; i < cut[m + 1]; i++) out[i] = sum[m][i];
    }
    left -= blocks;
    shard = cut[2];
  }
}

static void follows_bits(const char *pretend, const bits_case *c)
{
  method_rig m;
  method_rig_setup setup = { pretend, "local-sgd", c->settings, 3, 4, (uint64_t)size * 2, 0, false };
  method_rig_open(&m, &setup);
  const shoal_place *places = shoal_world_topo(m.world)->places;
  const size_t n = m.run.form->params->n, lines = n / 16;
  double *x = room(n * sizeof *x), *v = room(n * sizeof *v), *got = room(n * sizeof *got);
  double *sum[2], *error[2];
  int count[2] = { 0, 0 };
  for (int k = 0; k < 2; k++) memset(error[k] = room(n * sizeof **error), 0, n * sizeof **error);
  for (int k = 0; k < 2; k++) sum[k] = room(n * sizeof **sum);
  for (int r = 0; r < size; r++) count[places[r].node]++;
  memset(v, 0, n * sizeof *v);
  for (size_t i = 0; i < n; i++) x[i] = set_weight(99, 0, i);
  for (uint64_t step = 0; step < 12; step++) {
    for (size_t i = 0; i < n; i++) m.run.form->params->w[i] = (float)(step < 4 ? x[i] : set_weight(step, rank, i));
    REQUIRE(method_rig_step(&m, 0, 1) == SHOAL_OK, "step %d", (int)step);
    for (uint64_t f = 0; step >= 4 && f < c->fragments; f++) { /* x was taken at the switch */
      size_t first = f * lines / c->fragments * 16,
             end = f + 1 == c->fragments ? n : (f + 1) * lines / c->fragments * 16;
      uint64_t at = f * 2 / c->fragments;
      if (step % 2 == at) {
        for (size_t i = first; i < end; i++) sum[0][i] = sum[1][i] = 0;
        for (int r = 0; r < size; r++)
          for (size_t i = first; i < end; i++) sum[places[r].node][i] += set_weight(step, r, i) - x[i];
        sum_of_two(c->bits, first, end - first, SHOAL_MIN(count[0], count[1]), sum, error, got);
      }
      bool collects = step >= 4 + at + c->overlap && (step - c->overlap) % 2 == at;
      for (size_t i = first; i < end; i++) {
        double expected = set_weight(step, rank, i);
        if (collects) {
          v[i] = c->momentum * v[i] - got[i] / size;
          x[i] -= c->rate * (c->momentum * v[i] - got[i] / size);
          expected = c->mixing * expected + (1 - c->mixing) * x[i];
        }
        REQUIRE((double)m.run.form->params->w[i] == expected, "%s, %s, step %d: [%zu] = %.9g, not %.9g", pretend,
                c->settings, (int)step, i, (double)m.run.form->params->w[i], expected);
      }
    }
  }
  free(x);
  free(v);
  free(got);
  for (int k = 0; k < 2; k++) {
    free(sum[k]);
    free(error[k]);
  }
  method_rig_close(&m);
}

static const bits_case bits_cases[] = {
  { "optim.momentum=0 method.period=2 method.switch_epoch=1 method.outer_bits=8", 8, 1, 0, 0, 1, 0 },
  { "optim.momentum=0 method.period=2 method.switch_epoch=1 method.outer_bits=4 method.fragments=2", 4, 2, 0, 0, 1, 0 },
  { "optim.momentum=0 method.period=2 method.switch_epoch=1 method.outer_bits=8 method.fragments=2 method.overlap=1 "
    "method.mixing=0.5",
    8, 2, 1, 0.5, 1, 0 },
  { "optim.momentum=0 method.period=2 method.switch_epoch=1 method.outer_bits=4 method.outer=nesterov "
    "method.outer_lr=0.5 "
    "method.outer_momentum=0.5",
    4, 1, 0, 0, 0.5, 0.5 },
};

/* The model for evaluation is the mean of all ranks, and making it changes nothing. */
static void observes(const char *pretend)
{
  method_rig m;
  method_rig_setup setup = { pretend, "local-sgd", "method.period=100", 1, 100, 16, 0, false };
  method_rig_open(&m, &setup);
  for (int i = 0; i < 3; i++) REQUIRE(method_rig_step(&m, 0.1f, 1) == SHOAL_OK, "step %d", i);
  size_t n = m.run.form->params->n;
  float *before = room(n * sizeof *before), *model = room(n * sizeof *model);
  memcpy(before, m.run.form->params->w, n * sizeof *before);
  REQUIRE(m.method->assemble(&m.run, m.state, model, NULL) == SHOAL_OK, "assemble");
  CHECK_BYTES(before, m.run.form->params->w, n * sizeof *before, "evaluation changed the weights");
  const float *all = method_rig_gather(&m);
  for (size_t i = 0; i < n; i++) {
    double sum = 0;
    for (int r = 0; r < size; r++) sum += (double)all[(size_t)r * n + i] / size;
    if (!(fabs(sum - (double)model[i]) <= 1e-7 * fmax(1, fabs(sum)))) {
      CHECK(false, "element %zu: %g is not the mean %g", i, (double)model[i], sum);
      break;
    }
  }
  free(before);
  free(model);
  method_rig_close(&m);
}

static const outer_case outers[] = {
  { "optim.momentum=0 method.period=3 method.outer=slowmo", true, false, 1, 0.7 },
  { "optim.momentum=0 method.period=3 method.outer=nesterov", false, true, 0.7, 0.9 },
  { "optim.momentum=0 method.period=3 method.outer=slowmo method.outer_lr=0.5 method.outer_momentum=0", true, false,
    0.5, 0 },
  { "optim.momentum=0 method.period=3 method.outer=nesterov method.outer_lr=1 method.outer_momentum=0", false, true, 1,
    0 },
  { "optim.momentum=0 method.period=3 method.overlap=2", false, false, 1, 0, 1, 2, 0.5 },
  { "optim.momentum=0 method.period=3 method.fragments=3 method.overlap=1 method.mixing=0", false, false, 1, 0, 3, 1,
    0 },
  { "optim.momentum=0 method.period=3 method.fragments=2 method.outer=slowmo", true, false, 1, 0.7, 2, 0, 0 },
  { "optim.momentum=0 method.period=3 method.fragments=2 method.overlap=2 method.mixing=0.25 method.outer=nesterov",
    false, true, 0.7, 0.9, 2, 2, 0.25 },
};

int main(void)
{
  mpi_start(&rank, &size);
  for (size_t t = 0; t < SHOAL_COUNT(topologies); t++) {
    const char *pretend = topologies[t].pretend;
    char settings[256];
    if (topologies[t].size != size) continue;
    for (size_t o = 0; o < SHOAL_COUNT(optimizers); o++) {
      method_rig_setup uneven = { NULL, "local-sgd", NULL, 2, 5, (uint64_t)size * 2 + 1, 2, false };
      method_rig_setup even = { NULL, "local-sgd", NULL, 2, 8, (uint64_t)size * 2, 0, false };
      method_rig_setup same = { NULL, "local-sgd", NULL, 2, 8, (uint64_t)size * 2, 0, true };
      for (int node = 0; node < 2; node++) {
        const char *level = node ? "method.node_level=true" : "";
        snprintf(settings, sizeof settings, "%s %s method.period=1", optimizers[o], level);
        run(pretend, settings, &uneven, check_every_step);
        snprintf(settings, sizeof settings, "%s %s method.period=5", optimizers[o], level);
        run(pretend, settings, &same, check_identical);
      }
      snprintf(settings, sizeof settings, "%s method.period=5", optimizers[o]);
      run(pretend, settings, &even, check_linear);
      method_rig_setup late = { NULL, "local-sgd", NULL, 3, 6, (uint64_t)size * 2, 0, false };
      snprintf(settings, sizeof settings, "%s method.node_level=true method.switch_epoch=1 method.period=4",
               optimizers[o]);
      run(pretend, settings, &late, check_switch);
    }
    count_averages(pretend);
    for (size_t o = 0; o < SHOAL_COUNT(outers); o++)
      if (size > 1 || outers[o].slowmo || outers[o].nesterov) follows_outer(pretend, &outers[o]); /* else plain SGD */
    bool two = strcmp(pretend, "2x1") == 0 || strcmp(pretend, "2x2") == 0;
    for (size_t o = 0; two && o < SHOAL_COUNT(bits_cases); o++) follows_bits(pretend, &bits_cases[o]);
    observes(pretend);
  }
  return mpi_done();
}
