/* How independent subnets are drawn: partitions, their sizes, their statistics, residual blocks, and what is refused. */
#include "base/mem.h"
#include "data/loader.h"
#include "method/ist/ist.h"
#include "nn_rig.h"

static shoal_ist_plan *plan(const shoal_model *m, shoal_ist_options o)
{
  shoal_ist_plan *p = NULL;
  REQUIRE(shoal_ist_plan_create(m, &o, &p) == SHOAL_OK, "plan of %s for %d parts", m->name, o.parts);
  return p;
}

static shoal_ist_deal *deal(const shoal_ist_plan *p, uint64_t round)
{
  shoal_ist_deal *d = NULL;
  REQUIRE(shoal_ist_deal_create(p, &d) == SHOAL_OK, "deal");
  shoal_ist_draw(p, round, d);
  return d;
}

/* Every unit exactly once, ascending within a part, sizes as promised; stratified: as many from each home. */
static void check_partition(const shoal_model *m, int parts, bool stratified)
{
  shoal_ist_plan *p = plan(m, (shoal_ist_options){ .parts = parts, .seed = 5, .stratified = stratified });
  shoal_ist_deal *d = deal(p, 3), *next = deal(p, 4), *again = deal(p, 3);
  CHECK_EQ(shoal_ist_hash(p, d), shoal_ist_hash(p, again), "a deal is a function of seed and round");
  CHECK(parts == 1 || shoal_ist_hash(p, d) != shoal_ist_hash(p, next), "%d parts: rounds 3 and 4 are the same", parts);
  for (int space = 0; space < m->spaces; space++) {
    int64_t h = m->space_size[space];
    int *seen = calloc((size_t)h, sizeof *seen);
    for (int s = 0; s < parts; s++) {
      uint64_t first, count;
      shoal_share_of((uint64_t)h, s, parts, &first, &count);
      CHECK_EQ((int64_t)count, h / parts + (s < h % parts), "part %d of %d has %d units of %d", s, parts, (int)count,
               (int)h);
      for (uint64_t i = 0; i < count; i++) {
        int64_t u = d->units[space][first + i];
        CHECK_GE(u, 0);
        CHECK_LT(u, h);
        CHECK(i == 0 || u > d->units[space][first + i - 1], "unit %d", (int)u);
        seen[u]++;
      }
      for (int home = 0; stratified && home < parts; home++) {
        uint64_t begin, size, here = 0;
        shoal_share_of((uint64_t)h, home, parts, &begin, &size);
        for (uint64_t i = 0; i < count; i++) {
          uint64_t u = (uint64_t)d->units[space][first + i];
          here += u >= begin && u < begin + size;
        }
        CHECK(here == size / (uint64_t)parts || here == size / (uint64_t)parts + 1, "%d units of home %d in part %d",
              (int)here, home, s);
      }
    }
    for (int64_t u = 0; u < h; u++) CHECK_EQ(seen[u], 1, "unit %d", (int)u);
    free(seen);
  }
  shoal_ist_deal_destroy(p, d);
  shoal_ist_deal_destroy(p, next);
  shoal_ist_deal_destroy(p, again);
  shoal_ist_plan_destroy(p);
}

/* A deal is part of what a checkpoint means: these values may never change. */
static void check_frozen(void)
{
  static const int64_t uniform[] = { 1, 4, 5, 0, 2, 3, 6, 7 };
  shoal_model *m = rig_model("mlp", "model.widths=[8]", &SHOAL_SHAPE(2), 3);
  shoal_ist_plan *p = plan(m, (shoal_ist_options){ .parts = 3, .seed = 1 });
  shoal_ist_deal *d = deal(p, 0);
  for (int i = 0; i < 8; i++) CHECK_EQ(d->units[0][i], uniform[i], "place %d", i);
  shoal_ist_deal_destroy(p, d);
  shoal_ist_plan_destroy(p);
  shoal_model_destroy(m);
}

static double chi_square(const int *observed, int cells, double expected)
{
  double sum = 0;
  for (int i = 0; i < cells; i++) sum += (observed[i] - expected) * (observed[i] - expected) / expected;
  return sum;
}

/* Over R rounds a hidden-hidden weight is touched Binomial(R, 1/n) times, and stays untouched with (1 - 1/n)^R. */
static void check_statistics(void)
{
  enum { H = 12, PARTS = 4, ROUNDS = 4000, SHORT = 8 };
  shoal_model *m = rig_model("mlp", "model.widths=[12,12]", &SHOAL_SHAPE(2), 3);
  shoal_ist_plan *p = plan(m, (shoal_ist_options){ .parts = PARTS, .seed = 11 });
  shoal_ist_deal *d = deal(p, 0);
  static int touched[H][H], recent[H][H], who[H][PARTS];
  int untouched = 0, windows = 0;
  for (int t = 0; t < ROUNDS; t++) {
    int part[2][H];
    shoal_ist_draw(p, (uint64_t)t, d);
    for (int space = 0; space < 2; space++)
      for (int i = 0; i < H; i++) part[space][d->units[space][i]] = i / (H / PARTS);
    for (int i = 0; i < H; i++) {
      who[i][part[0][i]]++;
      for (int j = 0; j < H; j++) {
        touched[i][j] += part[1][i] == part[0][j];
        recent[i][j] += part[1][i] == part[0][j];
        if (t % SHORT != SHORT - 1) continue;
        untouched += recent[i][j] == 0;
        windows++;
        recent[i][j] = 0;
      }
    }
  }
  double q = 1.0 / PARTS, mean = ROUNDS * q, deviation = sqrt(ROUNDS * q * (1 - q));
  for (int i = 0; i < H; i++) {
    CHECK_LT(chi_square(who[i], PARTS, mean), 21, "unit %d goes to some parts more often",
             i); /* 3 degrees of freedom, 1e-4 */
    for (int j = 0; j < H; j++)
      CHECK_LT(fabs(touched[i][j] - mean), 4.5 * deviation, "weight %d,%d touched %d times, not %g", i, j,
               touched[i][j], mean);
  }
  double expected = pow(1 - q, SHORT), got = (double)untouched / windows;
  CHECK_NEAR(got, expected, 0.01, "untouched after %d rounds", SHORT);
  shoal_ist_deal_destroy(p, d);
  shoal_ist_plan_destroy(p);
  shoal_model_destroy(m);
}

/* Two units meet in one part as often as chance says: a shuffle that only rotates would pass the counts above. */
static void check_shuffle(void)
{
  enum { N = 4, ROUNDS = 24000, ALL = 24 };
  static int seen[256];
  int64_t out[N];
  int cells[ALL], found = 0;
  for (int t = 0; t < ROUNDS; t++) {
    shoal_ist_shuffle(3, (uint64_t)t, 1, 0, N, out);
    int code = 0;
    for (int i = 0; i < N; i++) code = code * N + (int)out[i];
    seen[code]++;
  }
  for (int i = 0; i < 256; i++)
    if (seen[i] && found < ALL) cells[found++] = seen[i];
  CHECK_EQ(found, ALL, "permutations of %d", N);
  CHECK_LT(chi_square(cells, ALL, (double)ROUNDS / ALL), 58,
           "permutations are not equally likely"); /* 23 degrees of freedom, 1e-4 */
}

/* Every block somewhere, never twice in a part, as many per part as promised. */
static void check_blocks(int n, int parts, int least)
{
  bool *owner = malloc((size_t)(n * parts));
  int64_t *order = malloc((size_t)n * sizeof *order);
  int rounds = 2000, total = 0, *count = calloc((size_t)n, sizeof *count);
  for (int t = 0; t < rounds; t++) {
    shoal_ist_draw_blocks(9, (uint64_t)t, 0, n, parts, least, order, owner);
    for (int s = 0; s < parts; s++) {
      int mine = 0, expected = parts * least > n ? least : n / parts + (s < n % parts);
      for (int b = 0; b < n; b++) mine += owner[b * parts + s];
      if (mine != expected) CHECK(false, "%d blocks, %d parts: part %d has %d, not %d", n, parts, s, mine, expected);
      total += mine;
    }
    for (int b = 0; b < n; b++) {
      int owners = 0;
      for (int s = 0; s < parts; s++) owners += owner[b * parts + s];
      if (owners < 1) CHECK(false, "block %d has no owner", b);
      count[b] += owners;
    }
  }
  for (int b = 0; b < n; b++)
    CHECK_LT(fabs(count[b] - (double)total / n), 0.05 * total / n + 5, "block %d owned %d times, mean %g", b, count[b],
             (double)total / n);
  free(owner);
  free(order);
  free(count);
}

static void check_refusal(const shoal_model *m, shoal_ist_options o, const char *words)
{
  shoal_ist_plan *p = NULL;
  CHECK_STATUS(shoal_ist_plan_create(m, &o, &p), SHOAL_ERR_USAGE, "%s", words);
  CHECK(!p, "%s", words);
  CHECK_HAS(check_error(), words);
}

/* Which blocks are dealt, how many at least, and what the model multiplies a branch by. */
static void check_stages(void)
{
  shoal_model *m = rig_model("resnet20", "", &SHOAL_SHAPE(3, 8, 8), 10);
  shoal_ist_plan *p = plan(m, (shoal_ist_options){ .parts = 4, .blocks = true });
  CHECK_EQ(p->stages, 3);
  CHECK_EQ(p->stage_size[0], 3);
  CHECK_EQ(p->stage_size[1], 2);
  CHECK_EQ(p->stage_size[2], 2);
  for (int i = 0; i < 3; i++) CHECK_EQ(p->stage_min[i], 1, "stage %d", i + 1);
  shoal_ist_plan_destroy(p);
  const int64_t third[] = { 3 };
  p = plan(m, (shoal_ist_options){ .parts = 4, .blocks = true, .stages = third, .n_stages = 1, .min_blocks = 1 });
  CHECK_EQ(p->stages, 1, "stage 3");
  CHECK_EQ(p->stage_size[0], 2);
  CHECK_EQ(p->stage[7], 0);
  CHECK_EQ(p->stage[8], 0);
  CHECK_EQ(p->stage[0], -1);
  for (int i = 0; i < m->params; i++) {
    const char *name = m->param[i].name;
    bool dealt = strncmp(name, "layer3.1.", 9) == 0 || strncmp(name, "layer3.2.", 9) == 0;
    CHECK_EQ(p->tensor[i].home == SHOAL_IST_BLOCK, dealt, "%s", name);
    CHECK_EQ(p->tensor[i].scale, dealt && strstr(name, ".bn2.") ? 0.5f : 1, "%s", name);
  }
  shoal_ist_plan_destroy(p);
  const int64_t fourth[] = { 4 };
  check_refusal(m, (shoal_ist_options){ .parts = 2, .blocks = true, .stages = fourth, .n_stages = 1 }, "stage 4");
  check_refusal(m, (shoal_ist_options){ .parts = 2, .blocks = true, .min_blocks = 8 }, "method.min_blocks is 8");
  check_refusal(m, (shoal_ist_options){ .parts = 17 }, "16 units and cannot be cut into 17");
  shoal_model_destroy(m);
  m = rig_model("mlp", "model.widths=[8]", &SHOAL_SHAPE(2), 3);
  check_refusal(m, (shoal_ist_options){ .parts = 2, .blocks = true }, "no residual block");
  check_refusal(m, (shoal_ist_options){ .parts = 9 }, "layer fc1");
  shoal_model_destroy(m);
}

int main(void)
{
  const char *options[] = { "model.widths=[11,7]", "model.widths=[64,32]" };
  for (int i = 0; i < 2; i++) {
    shoal_model *m = rig_model("mlp", options[i], &SHOAL_SHAPE(3), 4);
    for (int parts = 1; parts <= 7; parts++)
      for (int stratified = 0; stratified < 2; stratified++) check_partition(m, parts, stratified);
    shoal_model_destroy(m);
  }
  check_frozen();
  check_statistics();
  check_shuffle();
  check_blocks(22, 2, 5); /* runs of 11 */
  check_blocks(22, 4, 5); /* runs of 6, 6, 5, 5 */
  check_blocks(22, 8, 5); /* two shuffles, 5 each */
  check_blocks(3, 4, 2);
  check_blocks(2, 8, 2); /* everybody has everything */
  check_blocks(7, 3, 1);
  check_blocks(5, 1, 1);
  check_stages();
  return check_done();
}
