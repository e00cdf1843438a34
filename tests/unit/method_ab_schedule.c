/* When AB-training splits, reconciles and slows down: event by event in short runs, and the counts of the authors' runs. */
#include "base/mem.h"
#include "check.h"
#include "method/ab/ab.h"

typedef struct {
  uint64_t warmup, cycle, rebound;
  const char *modes;  /* one character per step: F or A */
  const char *events; /* after k = 0, 1, ... steps: . nothing, s split, c split with a cut, r reconcile, l ramp only */
} vector;

static const vector vectors[] = {
  { 5, 4, 1, "FFFFFAAAFAAAFA", ".....s..rc..rc." },
  { 4, 4, 1, "FFFFAAAAFA", "....sl..rc." },
  { 1, 4, 1, "FAAAFAAAFA", ".s..rc..rc." },
  { 0, 4, 1, "AAAAFAAAFA", "s...rc..rc." },                      /* T_w = 0: factors before the first step */
  { 10, 4, 3, "FFFFFFFFFFAAFFFAFFFA", "..........slr..cr..cr" }, /* a rebound would end one step after the split */
  { 6, 4, 3, "FFFFFFAAFFFA", "......slr..cr" },
};

static void check_vector(const vector *v)
{
  static const char letters[] = { [SHOAL_AB_NOTHING] = '.',
                                  [SHOAL_AB_SPLIT] = 's',
                                  [SHOAL_AB_RECONCILE] = 'r',
                                  [SHOAL_AB_SPLIT_CUT] = 'c',
                                  [SHOAL_AB_RAMP_ONLY] = 'l' };
  shoal_ab_schedule s = { .warmup = v->warmup, .cycle = v->cycle, .rebound = v->rebound };
  CHECK_OK(shoal_ab_schedule_check(&s));
  size_t steps = strlen(v->modes);
  REQUIRE(strlen(v->events) == steps + 1, "vector %s", v->modes);
  bool factored = false;
  for (uint64_t k = 0; k <= steps; k++) {
    shoal_ab_event e = shoal_ab_event_at(&s, k);
    CHECK_EQ(letters[e], v->events[k], "Tw %d: step %d", (int)v->warmup, (int)k);
    if (e == SHOAL_AB_SPLIT || e == SHOAL_AB_SPLIT_CUT) factored = true;
    if (e == SHOAL_AB_RECONCILE) factored = false;
    if (k == steps) break;
    CHECK_EQ(v->modes[k] == 'A', shoal_ab_factored(&s, k), "Tw %d: mode of step %d", (int)v->warmup, (int)k);
    CHECK_EQ(factored, shoal_ab_factored(&s, k), "Tw %d: events and mode of step %d disagree", (int)v->warmup, (int)k);
    bool first = k >= v->warmup && !memchr(v->events, 'r', k + 1);
    CHECK_EQ(shoal_ab_first_phase(&s, k), first, "Tw %d: first phase at step %d", (int)v->warmup, (int)k);
  }
}

/* K, T_w, T, D of the authors' runs, and the counts they lead to. */
static const struct {
  const char *name;
  uint64_t steps, warmup, cycle, rebound, factored, full_again, reconciliations;
} runs[] = {
  { "ResNet-50, 2 nodes", 90000, 24000, 6000, 300, 63000, 3000, 11 },
  { "ResNet-50, 4 nodes", 45000, 9300, 3000, 300, 32400, 3300, 12 },
  { "ResNet-50, 8 nodes", 22500, 6150, 1500, 150, 14850, 1500, 11 },
  { "ResNet-50, 16 nodes", 11250, 3750, 600, 75, 6600, 900, 12 },
  { "ResNet-50, 32 nodes", 5700, 1900, 400, 38, 3420, 380, 10 },
  { "ResNet-50, 64 nodes", 2850, 581, 94, 19, 1813, 456, 24 },
  { "ViT-B/16", 45000, 12300, 2180, 300, 28200, 4500, 15 },
  { "VGG16, 2 nodes", 15000, 4330, 759, 60, 9830, 840, 14 },
};

static void check_runs(void)
{
  for (size_t i = 0; i < SHOAL_COUNT(runs); i++) {
    shoal_ab_schedule s = { .warmup = runs[i].warmup, .cycle = runs[i].cycle, .rebound = runs[i].rebound };
    uint64_t factored = 0, full_again = 0, reconciliations = 0;
    for (uint64_t k = 0; k < runs[i].steps; k++) {
      factored += shoal_ab_factored(&s, k);
      full_again += k >= s.warmup && !shoal_ab_factored(&s, k);
      reconciliations += shoal_ab_event_at(&s, k + 1) == SHOAL_AB_RECONCILE;
    }
    CHECK_EQ(factored, runs[i].factored, "%s", runs[i].name);
    CHECK_EQ(full_again, runs[i].full_again, "%s", runs[i].name);
    CHECK_EQ(reconciliations, runs[i].reconciliations, "%s", runs[i].name);
  }
}

/* The schedule that a run gets when it asks for none: the authors' proportions, and a valid one for any length. */
static void check_default(void)
{
  shoal_ab_schedule s = shoal_ab_schedule_of(45000);
  CHECK_EQ(s.warmup, 9300, "the authors' 4 nodes");
  CHECK_EQ(s.cycle, 3000);
  CHECK_EQ(s.rebound, 300);
  CHECK_EQ(s.ramp, 750);
  for (uint64_t steps = 0; steps < 400; steps++) {
    s = shoal_ab_schedule_of(steps);
    CHECK_OK(shoal_ab_schedule_check(&s));
    for (uint64_t k = 0; k < steps; k++)
      CHECK_NE(shoal_ab_event_at(&s, k), SHOAL_AB_RAMP_ONLY, "a superfluous ramp at %d of %d", (int)k, (int)steps);
  }
}

static void check_ramp(void)
{
  shoal_ab_ramp r;
  double want[] = { 0.00001,  0.001998, 0.002997, 0.003996, 0.004995, 0.005994,
                    0.006993, 0.007992, 0.008991, 0.00999,  0.01,     0.01 };
  shoal_ab_ramp_start(&r, 10);
  for (size_t i = 0; i < SHOAL_COUNT(want); i++) {
    double rate = shoal_ab_ramp_rate(&r, 10, 1e-5, 0.01);
    CHECK_NEAR(rate, want[i], 1e-15, "step %d of the ramp", (int)i + 1);
    CHECK_EQ(r.active, i + 1 < 10, "step %d", (int)i + 1);
  }
  CHECK_NEAR(r.slope, 0.000999, 1e-15);
  /* A schedule that falls below the ramp is followed; one that is down already needs none; no ramp is none. */
  shoal_ab_ramp_start(&r, 4);
  CHECK_EQ(shoal_ab_ramp_rate(&r, 4, 1e-5, 0.4), 1e-5);
  CHECK_EQ(shoal_ab_ramp_rate(&r, 4, 1e-5, 0.1), 0.1, "the schedule is below the ramp");
  shoal_ab_ramp_start(&r, 4);
  CHECK_EQ(shoal_ab_ramp_rate(&r, 4, 1e-5, 1e-6), 1e-6, "nothing to climb");
  CHECK(!r.active);
  shoal_ab_ramp_start(&r, 0);
  CHECK(!r.active, "no ramp");
  CHECK_EQ(shoal_ab_ramp_rate(&r, 0, 1e-5, 0.5), 0.5);
  shoal_ab_ramp_start(&r, 1); /* the whole ramp is its first step */
  CHECK_EQ(shoal_ab_ramp_rate(&r, 1, 1e-5, 0.5), 1e-5, "one step");
  CHECK_EQ(shoal_ab_ramp_rate(&r, 1, 1e-5, 0.5), 0.5);
}

static void check_refusals(void)
{
  static const shoal_ab_schedule bad[] = { { 5, 1, 1, 0 }, { 5, 4, 0, 0 }, { 5, 4, 4, 0 }, { 0, 0, 0, 0 } };
  for (size_t i = 0; i < SHOAL_COUNT(bad); i++)
    CHECK_STATUS(shoal_ab_schedule_check(&bad[i]), SHOAL_ERR_USAGE, "schedule %d", (int)i);
}

int main(void)
{
  for (size_t i = 0; i < SHOAL_COUNT(vectors); i++) check_vector(&vectors[i]);
  check_runs();
  check_default();
  check_ramp();
  check_refusals();
  return check_done();
}
