/* DASO's schedule against traces worked out by hand, and against rules that every trace keeps. */
#include "check.h"
#include "method/daso/schedule.h"

/* ---- events within an epoch ---- */

/* "0:S0 1:R0 ..." over `epochs` epochs; a start that is not collected after W batches shows its own, "16:S2w1". */
static void write_trace(const shoal_daso_cycle *c, uint64_t batches, shoal_daso_flow *flow, char *out, size_t cap)
{
  size_t used = 0;
  out[0] = 0;
  for (uint64_t b = 0; b < batches; b++) {
    shoal_daso_event e[SHOAL_DASO_EVENTS];
    int n = shoal_daso_events(c, b, batches, flow, e);
    for (int i = 0; i < n; i++) {
      used += (size_t)snprintf(out + used, cap - used, "%s%llu:%c%d", used ? " " : "", (unsigned long long)b,
                               "SRXD"[e[i].act], e[i].group);
      if (e[i].act == SHOAL_DASO_START && e[i].wait != c->wait)
        used += (size_t)snprintf(out + used, cap - used, "w%llu", (unsigned long long)e[i].wait);
    }
  }
}

static void check_trace(int groups, bool quirks, uint64_t every, uint64_t wait, uint64_t batches, const char *expected)
{
  shoal_daso_cycle c = { groups, quirks, every, wait };
  shoal_daso_flow flow = { 0 };
  char text[2048];
  for (int epoch = 0; epoch < 2; epoch++) { /* every epoch is the same again */
    write_trace(&c, batches, &flow, text, sizeof text);
    CHECK_STR(text, expected, "g %d B %llu W %llu L %llu%s", groups, (unsigned long long)every,
              (unsigned long long)wait, (unsigned long long)batches, quirks ? ", quirks" : "");
    CHECK_EQ(flow.n, 0);
    CHECK_EQ(flow.turn, 0);
  }
}

static void clean_traces(void)
{
  check_trace(4, false, 4, 1, 10, "0:S0 1:R0 4:S1 5:R1 8:S2 9:D2 9:X3");
  check_trace(4, false, 8, 2, 18, "0:S0 2:R0 8:S1 10:R1 16:S2w1 17:D2 17:X3");
  check_trace(2, false, 4, 1, 11, "0:S0 1:R0 4:S1 5:R1 8:S0 9:R0 10:X1");
  check_trace(2, false, 1, 1, 6, "0:S0 1:S1 1:R0 2:S0 2:R1 3:S1 3:R0 4:S0 4:R1 5:D0 5:X1");
  check_trace(2, false, 0, 0, 4, "0:X0 1:X1 2:X0 3:X1");
  /* One rank per node: two sums of the one group may be under way. */
  check_trace(1, false, 1, 1, 4, "0:S0 1:S0 1:R0 2:S0 2:R0 3:D0 3:X0");
  check_trace(1, false, 2, 2, 5, "0:S0 2:S0 2:R0 4:D0 4:X0");
  check_trace(2, false, 1, 0, 4, "0:X0 1:X1 2:X0 3:X1"); /* B = 1, W = 0 blocks as well */
  check_trace(3, false, 4, 1, 1, "0:X0");
  check_trace(3, false, 4, 1, 2, "0:S0 1:D0 1:X1");
  /* What the reference does otherwise, done cleanly: B = 2, W = 1 and B = 4, W = 3. */
  check_trace(2, false, 2, 1, 7, "0:S0 1:R0 2:S1 3:R1 4:S0 5:R0 6:X1");
  check_trace(2, false, 4, 3, 13, "0:S0 3:R0 4:S1 7:R1 8:S0 11:R0 12:X1");
}

static void quirky_traces(void)
{
  check_trace(2, true, 2, 1, 7, "0:S0 2:S1 2:R0 4:S0 4:R1 6:D0 6:X1");                     /* Q1 */
  check_trace(2, true, 4, 3, 13, "0:S0 4:S1 4:R0 8:S0 8:R1 10:R0 12:X1");                  /* Q5, and Q1 */
  check_trace(2, true, 1, 1, 6, "0:S0 1:S1 1:R0 2:S0 2:R1 3:S1 3:R0 4:S0 4:R1 5:D0 5:X1"); /* Q2 */
  check_trace(4, true, 4, 1, 10, "0:S0 1:R0 4:S1 5:R1 8:S2 9:D2 9:X3");
  check_trace(4, true, 8, 2, 18, "0:S0 2:R0 8:S1 10:R1 16:S2w1 17:D2 17:X3");
  check_trace(2, true, 0, 0, 4, "0:X0 1:X1 2:X0 3:X1");
}

/* Collected early, a sum still counts with the age it was meant to have. */
static void early_age(void)
{
  shoal_daso_cycle c = { 2, true, 4, 3 };
  shoal_daso_flow flow = { 0 };
  shoal_daso_event e[SHOAL_DASO_EVENTS];
  for (uint64_t b = 0; b < 10; b++) shoal_daso_events(&c, b, 13, &flow, e);
  int n = shoal_daso_events(&c, 10, 13, &flow, e);
  CHECK_EQ(n, 1);
  CHECK_EQ(e[0].act, SHOAL_DASO_COLLECT);
  CHECK_EQ(e[0].wait, 3);
}

typedef struct {
  uint64_t started, ended, blocked;
  int at[SHOAL_DASO_SUMS + 1]; /* groups of the sums under way */
  int n, turn;
} watcher;

static void watch(watcher *w, const shoal_daso_cycle *c, const shoal_daso_event *e, bool last)
{
  if (e->act == SHOAL_DASO_START || e->act == SHOAL_DASO_BLOCK) {
    CHECK_EQ(e->group, w->turn);
    w->turn = last ? 0 : (w->turn + 1) % c->groups;
  }
  if (e->act == SHOAL_DASO_START) {
    for (int i = 0; i < w->n && c->groups > 1; i++) CHECK_NE(w->at[i], e->group);
    w->started++;
    w->at[w->n++] = e->group;
    CHECK_GE(e->wait, 1);
    CHECK_LE(e->wait, c->wait);
  } else if (e->act == SHOAL_DASO_BLOCK) {
    w->blocked++;
    CHECK_EQ(w->n, 0);
  } else {
    CHECK_GT(w->n, 0);
    CHECK_EQ(w->at[0], e->group);
    w->ended++;
    w->at[0] = w->at[1];
    w->n--;
  }
  CHECK_LE(w->n, SHOAL_DASO_SUMS);
}

/* Every B, W <= B and L: sums are dealt in turn, two at most are under way, a blocking sum is foretold, and there are
 * ceil((L-1)/B) starts and one blocking sum in a cycling epoch. */
static void rules(void)
{
  for (int groups = 1; groups <= 4; groups++)
    for (uint64_t every = 0; every <= 9; every++)
      for (uint64_t wait = every ? 1 : 0; wait <= every; wait++)
        for (uint64_t batches = 1; batches <= 25; batches++)
          for (int quirks = 0; quirks < 2; quirks++) {
            shoal_daso_cycle c = { groups, quirks, every, wait };
            shoal_daso_flow flow = { 0 };
            watcher w = { 0 };
            uint64_t foretold = 0; /* batches to the next in which nodes wait for each other */
            for (uint64_t b = 0; b < batches; b++) {
              shoal_daso_event e[SHOAL_DASO_EVENTS];
              bool blocks = shoal_daso_blocks(&c, b, batches), waits = false;
              uint64_t until = shoal_daso_until(&c, b, batches, &flow, 1000);
              int n = shoal_daso_events(&c, b, batches, &flow, e);
              CHECK_EQ(blocks, n > 0 && e[n - 1].act == SHOAL_DASO_BLOCK, "batch %d", (int)b);
              for (int i = 0; i < n; i++) watch(&w, &c, &e[i], b + 1 == batches);
              for (int i = 0; i < n; i++) waits |= e[i].act != SHOAL_DASO_START;
              CHECK_EQ(until == 1, waits, "batch %d of %d: nodes wait in %d", (int)b, (int)batches, (int)until);
              if (foretold > 1) CHECK_EQ(until, foretold - 1, "batch %d of %d", (int)b, (int)batches);
              foretold = until;
            }
            CHECK_EQ(w.started, w.ended);
            CHECK_EQ(w.n, 0);
            CHECK_EQ(w.blocked, every ? 1 : batches);
            if (every) CHECK_EQ(w.started, (batches - 1 + every - 1) / every);
          }
}

/* Sums left by other settings before a resume are collected, and no more than two are ever under way. */
static void changed_settings(void)
{
  shoal_daso_cycle slow = { 2, false, 8, 8 }, fast = { 2, false, 1, 1 };
  shoal_daso_flow flow = { 0 };
  shoal_daso_event e[SHOAL_DASO_EVENTS];
  watcher w = { 0 };
  for (uint64_t b = 0; b < 12; b++) {
    const shoal_daso_cycle *c = b < 2 ? &slow : &fast;
    int n = shoal_daso_events(c, b, 12, &flow, e);
    for (int i = 0; i < n; i++) watch(&w, b < 2 ? &slow : &fast, &e[i], b == 11);
  }
  CHECK_EQ(w.started, w.ended);
  CHECK_EQ(flow.n, 0);
}

/* ---- the controller ---- */

typedef double loss_of(int epoch);
static double constant(int epoch)
{
  return 1;
}
static double falls_10(int epoch)
{
  return pow(0.9, epoch);
}
static double falls_4(int epoch)
{
  return pow(0.96, epoch);
}
static double negative(int epoch) /* -1, -1.1, -1.21 ...: improves by 10 % each time */
{
  return -pow(1.1, epoch);
}
static double not_a_number(int epoch)
{
  return NAN;
}

static void check_phases(const shoal_daso_plan *p, loss_of *loss, const char *every, const char *wait)
{
  shoal_daso_phase phase;
  char b[64] = "", w[64] = "";
  shoal_daso_begin(p, 0, &phase);
  for (uint64_t e = 0; e < p->epochs; e++) {
    b[e] = (char)('0' + phase.every);
    w[e] = (char)('0' + phase.wait);
    shoal_daso_next(p, e + 1, loss((int)e), &phase);
  }
  CHECK_STR(b, every);
  CHECK_STR(w, wait);
}

static shoal_daso_plan plan(uint64_t epochs, uint64_t warmup, uint64_t cooldown, uint64_t max_every)
{
  return (shoal_daso_plan){ epochs, warmup, cooldown, max_every, .patience = 2, .threshold = 0.05 };
}

static void phases(void)
{
  shoal_daso_plan four = plan(30, 4, 4, 4), eight = plan(30, 4, 4, 8);
  check_phases(&four, constant, "000044422211144422211144420000", "000011111111111111111111110000");
  check_phases(&eight, constant, "000044422211188844422211180000", "000011111111122211111111120000");
  check_phases(&four, falls_10, "000044444444444444444444440000", "000011111111111111111111110000");
  check_phases(&four, falls_4, "000044444444444444444444440000", "000011111111111111111111110000");
  check_phases(&four, negative, "000044444444444444444444440000", "000011111111111111111111110000");
  check_phases(&four, not_a_number, "000044222111444222111444220000", "000011111111111111111111110000");
}

/* Where the reference implementation goes wrong and ours must not: largest B below 4, no warm-up, and a W that would
 * outgrow B. */
static void decisions(void)
{
  shoal_daso_plan two = plan(16, 1, 1, 2), one = plan(12, 1, 1, 1), none = plan(12, 0, 0, 4);
  check_phases(&two, constant, "0222111222111220", "0111111111111110");
  check_phases(&one, constant, "011111111110", "011111111110");
  check_phases(&none, constant, "444422211144", "111111111111");
  shoal_daso_plan wide = plan(40, 0, 0, 64);
  shoal_daso_phase phase = { .every = 64, .wait = 16, .best = 1 };
  for (uint64_t e = 0; e < 39; e++) {
    shoal_daso_next(&wide, e + 1, 1, &phase);
    CHECK_GE(phase.wait, 1);
    CHECK_LE(phase.wait, phase.every);
  }
  /* A run made longer after its cool-down goes back to cycling. */
  shoal_daso_plan longer = plan(30, 1, 1, 4);
  phase = (shoal_daso_phase){ .best = 1 };
  shoal_daso_next(&longer, 11, 1, &phase);
  CHECK_EQ(phase.every, 4);
  CHECK_EQ(phase.wait, 1);
  /* One that comes from elsewhere begins where it stands. */
  shoal_daso_begin(&longer, 0, &phase);
  CHECK_EQ(phase.every, 0);
  shoal_daso_begin(&longer, 5, &phase);
  CHECK_EQ(phase.every, 4);
  CHECK_EQ(phase.best, INFINITY);
  shoal_daso_begin(&longer, 29, &phase);
  CHECK_EQ(phase.every, 0);
}

/* A run of any length cycles, and none has more blocking epochs than the reference's 4 and 4. */
static void defaults(void)
{
  static const int expected[][3] = { { 1, 0, 0 },  { 2, 1, 0 },  { 3, 1, 1 },  { 10, 1, 1 },  { 11, 2, 2 },
                                     { 30, 3, 3 }, { 31, 4, 4 }, { 90, 4, 4 }, { 1000, 4, 4 } };
  for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
    uint64_t w, c;
    shoal_daso_default_phases((uint64_t)expected[i][0], &w, &c);
    CHECK_EQ((int)w, expected[i][1], "%d epochs", expected[i][0]);
    CHECK_EQ((int)c, expected[i][2], "%d epochs", expected[i][0]);
  }
  for (uint64_t epochs = 1; epochs <= 200; epochs++) {
    uint64_t w, c;
    shoal_daso_default_phases(epochs, &w, &c);
    CHECK_LT(w + c, epochs);
    CHECK_LE(w, 4);
    CHECK_LE(c, 4);
  }
}

int main(void)
{
  clean_traces();
  quirky_traces();
  early_age();
  rules();
  changed_settings();
  phases();
  decisions();
  defaults();
  return check_done();
}
