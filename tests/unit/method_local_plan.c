/* The plan of local parallelism: the cut against all possible cuts, a toy network worked out by hand, the layouts of public
 * code, the calendar, bytes, and the pipeline's timing by simulating its loop event by event. */
#include "base/mem.h"
#include "base/rng.h"
#include "check.h"
#include "method/local/plan.h"

/* ---- the cut ---- */

enum { LAYERS_MAX = 64 };

static double worst(int chunks, const int *bounds, const double *cost, const double *head)
{
  double most = 0;
  for (int k = 0; k < chunks; k++) {
    double sum = head ? head[bounds[k + 1] - 1] : 0;
    for (int i = bounds[k]; i < bounds[k + 1]; i++) sum += cost[i];
    most = fmax(most, sum);
  }
  return most;
}

/* Every set of cut points, the later ones last; of equals the later stays. */
static double try_all(int layers, const double *cost, const double *head, int chunks, int *best)
{
  double least = INFINITY;
  for (uint32_t mask = 0; mask < 1u << (layers - 1); mask++) {
    int bounds[LAYERS_MAX] = { 0 }, n = 1;
    for (int i = 1; i < layers && n <= chunks; i++)
      if (mask >> (i - 1) & 1) bounds[n++] = i;
    if (n != chunks) continue;
    bounds[n] = layers;
    double w = worst(chunks, bounds, cost, head);
    bool later = false; /* lexicographically */
    for (int k = 1; k <= chunks && !later; k++) {
      if (bounds[k] < best[k]) break;
      later = bounds[k] > best[k];
    }
    if (w < least || (w == least && later)) {
      least = w;
      memcpy(best, bounds, sizeof bounds);
    }
  }
  return least;
}

static void check_cut(void)
{
  for (uint32_t trial = 0; trial < 400; trial++) {
    shoal_rng_block r = shoal_rng(7, SHOAL_RNG_INIT, trial, 0);
    int layers = 1 + (int)(r.v[0] % 9), chunks = 1 + (int)(r.v[1] % (unsigned)layers);
    double cost[LAYERS_MAX], head[LAYERS_MAX];
    for (int i = 0; i < layers; i++) { /* whole numbers: ties occur and sums are exact */
      shoal_rng_block c = shoal_rng(8, SHOAL_RNG_INIT, trial, (uint32_t)i);
      cost[i] = c.v[0] % 7;
      head[i] = c.v[1] % 4;
    }
    const double *heads = trial % 2 ? head : NULL;
    int got[LAYERS_MAX] = { 0 }, want[LAYERS_MAX] = { 0 };
    CHECK_OK(shoal_local_cut(layers, cost, heads, chunks, got));
    double least = try_all(layers, cost, heads, chunks, want);
    CHECK_EQ(worst(chunks, got, cost, heads), least, "trial %u", trial);
    CHECK_BYTES(got, want, (size_t)(chunks + 1) * sizeof *got, "trial %u: another of the best cuts", trial);
  }
  int bounds[8];
  double one[3] = { 1, 1, 1 };
  CHECK_STATUS(shoal_local_cut(3, one, NULL, 4, bounds), SHOAL_ERR_ARG, "more chunks than layers");
  CHECK_STATUS(shoal_local_cut(3, one, NULL, 0, bounds), SHOAL_ERR_ARG, "no chunks");
}

/* Equal layers give the usual ceil(L/K) each: the cuts of public code. */
static void check_even(void)
{
  static const struct {
    int layers, chunks, bounds[6];
  } known[] = {
    { 51, 2, { 0, 26, 51 } },                              /* ResNet-152: stem and 50 blocks */
    { 58, 2, { 0, 29, 58 } },                              /* ResNet-110 of the CIFAR study */
    { 10, 4, { 0, 3, 6, 9, 10 } },                         /* VGG-13, three units per block and a remainder of one */
    { 16, 4, { 0, 4, 8, 12, 16 } },                        /* VGG-19 */
    { 16, 2, { 0, 8, 16 } },        { 4, 2, { 0, 2, 4 } }, /* figure 2d */
  };
  double one[LAYERS_MAX];
  for (int i = 0; i < LAYERS_MAX; i++) one[i] = 1;
  for (size_t i = 0; i < SHOAL_COUNT(known); i++) {
    int bounds[LAYERS_MAX];
    CHECK_OK(shoal_local_cut(known[i].layers, one, NULL, known[i].chunks, bounds));
    CHECK_BYTES(bounds, known[i].bounds, (size_t)(known[i].chunks + 1) * sizeof *bounds, "%d layers in %d",
                known[i].layers, known[i].chunks);
  }
}

/* ---- blocks ---- */

static void check_windows(shoal_local_form form, int units, const int *bounds, int chunks, const char *want)
{
  shoal_local_block b[LAYERS_MAX];
  char text[256] = "";
  int n = shoal_local_blocks(form, units, bounds, chunks, b);
  for (int i = 0; i < n; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "[%d,%d)", b[i].first, b[i].last);
  CHECK_STR(text, want, "%d units", units);
}

static void check_blocks(void)
{
  /* figure 2 draws four layers; the classifier is the fifth unit */
  check_windows(SHOAL_LOCAL_GREEDY, 5, NULL, 0, "[0,1)[1,2)[2,3)[3,5)");
  check_windows(SHOAL_LOCAL_OVERLAPPING, 5, NULL, 0, "[0,2)[1,3)[2,5)");
  check_windows(SHOAL_LOCAL_CHUNKED, 5, (int[]){ 0, 2, 4 }, 2, "[0,2)[2,5)");
  check_windows(SHOAL_LOCAL_CHUNKED, 5, (int[]){ 0, 4 }, 1, "[0,5)");
  check_windows(SHOAL_LOCAL_OVERLAPPING, 2, NULL, 0, "[0,2)");
  check_windows(SHOAL_LOCAL_OVERLAPPING, 3, NULL, 0, "[0,3)");
  check_windows(SHOAL_LOCAL_GREEDY, 1, NULL, 0, "[0,1)");
}

/* ---- the toy: layers multiply by a 2-vector, heads by [1, 1], one step of SGD with rate 1 ---- */

enum { TOY = 3 };
typedef struct {
  double p[TOY][2];
} toy;

/* d loss / d logits: softmax cross-entropy of class 1 at a head, 0.1 everywhere at the network's end. */
static void toy_gradient(bool end, const double *logits, double *g)
{
  double z = exp(logits[0]) + exp(logits[1]);
  g[0] = end ? 0.1 : exp(logits[0]) / z;
  g[1] = end ? 0.1 : exp(logits[1]) / z - 1;
}

/* Gradients of all blocks on the same old weights, those of a layer that two blocks train averaged. */
static toy toy_step(const toy *old, const double *x, shoal_local_form form, const int *bounds, int chunks)
{
  shoal_local_block b[LAYERS_MAX];
  double h[TOY + 1][2], sum[TOY][2] = { { 0 } }, count[TOY] = { 0 };
  int units = TOY + 1, n = shoal_local_blocks(form, units, bounds, chunks, b);
  for (int c = 0; c < 2; c++) {
    h[0][c] = x[c];
    for (int l = 0; l < TOY; l++) h[l + 1][c] = h[l][c] * old->p[l][c];
  }
  for (int k = 0; k < n; k++) {
    double g[2];
    int last = SHOAL_MIN(b[k].last, TOY);
    toy_gradient(b[k].last == units, h[last], g);
    for (int l = last - 1; l >= b[k].first; l--, count[l + 1]++)
      for (int c = 0; c < 2; c++) {
        sum[l][c] += g[c] * h[l][c];
        g[c] *= old->p[l][c];
      }
  }
  toy new = *old;
  for (int l = 0; l < TOY; l++)
    for (int c = 0; c < 2; c++) new.p[l][c] -= sum[l][c] / count[l];
  return new;
}

static void check_toy(const char *what, const toy *got, const double want[TOY][2])
{
  for (int l = 0; l < TOY; l++)
    for (int c = 0; c < 2; c++) CHECK_NEAR(got->p[l][c], want[l][c], 1e-12, "%s: p%d[%d]", what, l + 1, c);
}

static void check_toys(void)
{
  const toy start = { { { 2, 2 }, { 3, 3 }, { 4, 4 } } };
  const double ones[2] = { 1, 1 }, first[2] = { 1, 0 };
  toy t = toy_step(&start, ones, SHOAL_LOCAL_GREEDY, NULL, 0);
  check_toy("greedy, row 2", &t, (double[TOY][2]){ { 1.5, 2.5 }, { 2, 4 }, { 3.4, 3.4 } });
  t = toy_step(&start, ones, SHOAL_LOCAL_OVERLAPPING, NULL, 0);
  check_toy("overlapping, row 6", &t, (double[TOY][2]){ { 0.5, 3.5 }, { 2.1, 3.1 }, { 3.4, 3.4 } });
  t = toy_step(&start, first, SHOAL_LOCAL_CHUNKED, (int[]){ 0, 3 }, 1);
  for (int l = 0; l < TOY; l++) t.p[l][1] += t.p[l][0] - start.p[l][0]; /* here every block is a scalar */
  check_toy("end to end, row 8", &t, (double[TOY][2]){ { 0.8, 0.8 }, { 2.2, 2.2 }, { 3.4, 3.4 } });
  t = toy_step(&start, ones, SHOAL_LOCAL_CHUNKED, (int[]){ 0, 2, 3 }, 2); /* by hand: [0.5,-0.5] * 3 and * 2 */
  check_toy("two chunks", &t, (double[TOY][2]){ { 0.5, 3.5 }, { 2, 4 }, { 3.4, 3.4 } });
}

/* ---- ranks ---- */

static void check_ranks(void)
{
  static const struct {
    int ranks, layers, chunks;
  } chosen[] = { { 1, 9, 1 }, { 2, 9, 2 }, { 3, 9, 3 }, { 4, 9, 4 }, { 4, 2, 2 }, { 3, 2, 1 },  { 6, 9, 3 },
                 { 8, 9, 4 }, { 5, 9, 5 }, { 5, 4, 1 }, { 7, 9, 7 }, { 9, 9, 3 }, { 10, 9, 2 }, { 64, 1, 1 } };
  for (size_t i = 0; i < SHOAL_COUNT(chosen); i++)
    CHECK_EQ(shoal_local_auto_chunks(chosen[i].ranks, chosen[i].layers), chosen[i].chunks, "%d ranks, %d layers",
             chosen[i].ranks, chosen[i].layers);
  for (int ranks = 1; ranks <= 24; ranks++)
    for (int blocks = 1; blocks <= 12; blocks++) {
      shoal_local_grid g;
      CHECK_OK(shoal_local_arrange(ranks, blocks, 0, &g));
      CHECK_EQ(g.stages * g.replicas, ranks);
      CHECK_LE(g.stages, blocks);
      for (int more = g.stages + 1; more <= blocks; more++) CHECK(ranks % more, "%d stages would do", more);
      for (int inside = 0; inside < 2; inside++) {
        g.pipeline_inside = inside;
        for (int r = 0; r < ranks; r++) {
          int stage = shoal_local_stage(&g, r), replica = shoal_local_replica(&g, r);
          CHECK_LT(stage, g.stages);
          CHECK_LT(replica, g.replicas);
          CHECK_EQ(shoal_local_rank(&g, stage, replica), r);
        }
      }
    }
  shoal_local_grid g = { 2, 3, true };
  CHECK_EQ(shoal_local_rank(&g, 1, 0), 1, "a pipeline's ranks follow each other");
  CHECK_EQ(shoal_local_rank(&g, 0, 1), 2);
  g.pipeline_inside = false;
  CHECK_EQ(shoal_local_rank(&g, 1, 0), 3, "replicas follow each other");
  CHECK_EQ(shoal_local_rank(&g, 0, 1), 1);
  CHECK_OK(shoal_local_arrange(8, 4, 4, &g));
  CHECK_EQ(g.stages, 2, "replicas as wanted");
  CHECK_EQ(g.replicas, 4);
  CHECK_STATUS(shoal_local_arrange(6, 4, 4, &g), SHOAL_ERR_ARG, "4 replicas of 6 ranks");
  CHECK_STATUS(shoal_local_arrange(6, 4, 1, &g), SHOAL_ERR_ARG, "6 stages for 4 blocks");
  CHECK(shoal_local_pipeline_inside(2, 1), "the larger traffic stays inside");
  CHECK(!shoal_local_pipeline_inside(1, 2));
}

/* ---- time ---- */

static void check_calendar(void)
{
  shoal_local_calendar c = { .samples = 10, .batch = 4, .epochs = 2 };
  static const uint64_t want[] = { 4, 4, 2, 4, 4, 2, 0 };
  shoal_local_date d = { 0 };
  for (size_t i = 0; i < SHOAL_COUNT(want); i++, shoal_local_advance(&c, &d))
    CHECK_EQ(shoal_local_samples(&c, &d), want[i], "step %zu", i);
  d = (shoal_local_date){ .epoch = 1, .position = 9, .step = 5 }; /* resumed where another batch size left off */
  CHECK_EQ(shoal_local_samples(&c, &d), 1, "the rest of the epoch");
  c.pads = true;
  CHECK_EQ(shoal_local_samples(&c, &d), 4);
  c.steps = 5;
  CHECK_EQ(shoal_local_samples(&c, &d), 0, "the last step is done");
  CHECK_EQ(shoal_local_lag(1, 8), 1);
  CHECK_EQ(shoal_local_lag(4, 2), 13);
}

/* ---- the pipeline's loop, event by event ---- */

typedef struct {
  double f, b, h; /* forward, backward, head */
} times;

/* Slots posted in advance, one send buffer; transfers take no time.  *last when everything is done. */
static double pipeline(int stages, const times *t, int n, int depth)
{
  enum { N_MAX = 1000, STAGES_MAX = 8 };
  static double done[STAGES_MAX][N_MAX]; /* when minibatch i has been worked off: its slot is free */
  memset(done, 0, sizeof done);
  /* Back-pressure couples a stage to the one behind it: repeat until no time moves any more. */
  for (int change = 1; change;) {
    double arrival[N_MAX] = { 0 };
    change = 0;
    for (int k = 0; k < stages; k++) {
      double free_at = 0, sent = 0;
      for (int i = 0; i < n; i++) {
        double forward = fmax(free_at, arrival[i]) + t[k].f, start = fmax(forward, sent);
        double posted = k + 1 < stages && i > depth ? done[k + 1][i - depth - 1] : 0;
        if (k + 1 < stages) arrival[i] = sent = fmax(start, posted);
        free_at = start + t[k].b + t[k].h;
        if (free_at > done[k][i] + 1e-9) change = 1;
        done[k][i] = fmax(done[k][i], free_at);
      }
    }
  }
  return done[stages - 1][n - 1];
}

/* Overlapping blocks: a block starts the next minibatch when its neighbours are through with this one. */
static double overlapping(int layers, times t, int n)
{
  enum { BLOCKS_MAX = 16 };
  double end[BLOCKS_MAX] = { 0 }, arrival[BLOCKS_MAX], back[BLOCKS_MAX];
  int blocks = layers - 1;
  for (int i = 0; i < n; i++) {
    arrival[0] = 0;
    for (int j = 0; j < blocks; j++) {
      double start = fmax(end[j], arrival[j]);
      if (j + 1 < blocks) arrival[j + 1] = start + t.f;
      back[j] = start + 2 * t.f + 2 * t.b + t.h;
    }
    for (int j = 0; j < blocks; j++)
      end[j] = fmax(back[j], fmax(j > 0 ? back[j - 1] : 0, j + 1 < blocks ? back[j + 1] : 0));
  }
  return end[0];
}

static void check_times(void)
{
  times equal[8], uneven[4] = { { 1, 2, 0.1 }, { 1.5, 3, 0.1 }, { 0.5, 1, 0.1 }, { 1, 2, 0.1 } };
  for (int i = 0; i < 8; i++) equal[i] = (times){ 1, 2, 0 };
  for (int depth = 1; depth <= 8; depth *= 2) {
    CHECK_NEAR(pipeline(4, equal, 8, depth), 27, 1e-9, "J 4, m 8, depth %d", depth);
    CHECK_NEAR(pipeline(4, equal, 16, depth), 51, 1e-9, "J 4, m 16, depth %d", depth);
    CHECK_NEAR(pipeline(8, equal, 32, depth), 103, 1e-9, "J 8, m 32, depth %d", depth);
  }
  CHECK_NEAR(pipeline(4, uneven, 1000, 1), 4601.5, 1e-6);
  for (int i = 0; i < 8; i++) equal[i].h = 0.3;
  CHECK_NEAR(pipeline(8, equal, 1000, 1), 3307, 1e-6, "with heads");
  double period = (overlapping(8, (times){ 1, 2, 0.1 }, 200) - overlapping(8, (times){ 1, 2, 0.1 }, 100)) / 100;
  CHECK_NEAR(period, 7.1, 1e-9);
}

int main(void)
{
  check_cut();
  check_even();
  check_blocks();
  check_toys();
  check_ranks();
  check_calendar();
  check_times();
  /* A boundary of ResNet-110: 4 194 304 bytes of activations, 512 of labels. */
  CHECK_EQ(shoal_local_message_bytes(128, 32 * 16 * 16, 1), 4194304 + 512 + 64);
  CHECK_EQ(shoal_local_message_bytes(3, 40, 8), 3 * 48 * 4 + 64, "a label for each token");
  CHECK_EQ(shoal_local_message_bytes(0, 100, 1), 64, "an empty message is a header");
  CHECK_EQ(sizeof(shoal_local_header), 64);
  return check_done();
}
