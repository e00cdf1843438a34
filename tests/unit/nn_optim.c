/* Optimizers against loops in double over every number, written from the formulas of PyTorch's documentation; ranges,
 * decay and clipping included.  Schedules against closed forms. */
#include "base/mem.h"
#include "nn/optim.h"
#include "nn_rig.h"

enum { STEPS = 6 };

static shoal_config *config(const char *options)
{
  static const shoal_option_table table = { "optim", shoal_optim_options };
  shoal_settings *s;
  shoal_config *c;
  char text[512];
  snprintf(text, sizeof text, "%s", options);
  REQUIRE(shoal_settings_create(&s) == SHOAL_OK, "settings");
  for (char *save, *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save))
    REQUIRE(shoal_settings_set(s, one, "test") == SHOAL_OK, "%s", one);
  REQUIRE(shoal_config_create(s, &table, 1, &c) == SHOAL_OK, "%s", options);
  shoal_settings_destroy(s);
  return c;
}

/* ---- the oracle: all in double ---- */

typedef struct {
  double *w, *m, *v;
} oracle;

static double clip_factor(const shoal_optim_config *c, const float *g, const bool *on, size_t n, double *norm)
{
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += on[i] ? (double)g[i] * g[i] : 0;
  *norm = sqrt(sum);
  return c->clip > 0 && *norm > c->clip ? c->clip / *norm : 1;
}

static void oracle_step(const shoal_optim_config *c, oracle *o, const float *g, const bool *on, const bool *decays,
                        size_t n, int t, double lr, double *norm)
{
  double factor = clip_factor(c, g, on, n, norm);
  for (size_t i = 0; i < n; i++) {
    if (!on[i]) continue;
    double wd = c->decay_all || decays[i] ? c->weight_decay : 0, grad = factor * g[i];
    if (!c->decoupled) grad += wd * o->w[i];
    double shrink = c->decoupled ? lr * wd : 0;
    if (c->kind == SHOAL_OPTIM_SGD) {
      o->m[i] = t == 1 ? grad : c->momentum * o->m[i] + grad;
      double move = lr * (c->nesterov ? grad + c->momentum * o->m[i] : o->m[i]);
      o->w[i] = (o->w[i] - move) * (1 - shrink);
    } else {
      o->m[i] = c->beta1 * o->m[i] + (1 - c->beta1) * grad;
      o->v[i] = c->beta2 * o->v[i] + (1 - c->beta2) * grad * grad;
      double mean = o->m[i] / (1 - pow(c->beta1, t)), square = o->v[i] / (1 - pow(c->beta2, t));
      o->w[i] = o->w[i] * (1 - shrink) - lr * mean / (sqrt(square) + c->eps);
    }
  }
}

static void check_optimizer(const char *backend, const shoal_model *m, const char *options, const shoal_range *ranges,
                            size_t n_ranges)
{
  size_t n = m->weights;
  shoal_config *c = config(options);
  shoal_optim_config k;
  shoal_optim *o;
  rig r;
  CHECK_OK(shoal_optim_configure(c, &k));
  rig_open(&r, backend, m, 2, SHOAL_PLAN_TRAIN);
  CHECK_OK(shoal_optim_create(r.b, &k, n, &o));
  oracle want = { calloc(n, sizeof(double)), calloc(n, sizeof(double)), calloc(n, sizeof(double)) };
  bool *on = calloc(n, 1), *decays = calloc(n, 1);
  for (size_t i = 0; i < n; i++) want.w[i] = r.params->w[i], on[i] = !ranges;
  for (size_t k2 = 0; k2 < n_ranges; k2++)
    for (size_t i = 0; i < ranges[k2].count; i++) on[ranges[k2].offset + i] = true;
  for (int p = 0; p < m->params; p++)
    for (size_t i = 0; i < m->param[p].count; i++) decays[m->param[p].offset + i] = m->param[p].decay;
  double worst = 0;
  for (int t = 1; t <= STEPS; t++) {
    double norm;
    uint64_t version = r.params->version;
    rig_fill(r.params->g, n, (uint64_t)t);
    oracle_step(&k, &want, r.params->g, on, decays, n, t, 0.05 / t, &norm);
    CHECK_OK(shoal_optim_step(o, m, r.params, ranges, n_ranges, (float)(0.05 / t)));
    const shoal_optim_seen *seen = o->seen.at;
    if (k.clip > 0)
      CHECK_LT(fabs(sqrt(seen->squares) - norm), 1e-5 * norm, "norm %g, not %g", sqrt(seen->squares), norm);
    CHECK_GT(r.params->version, version, "the version stayed");
    for (size_t i = 0; i < n; i++) worst = worse(worst, fabs(r.params->w[i] - want.w[i]));
    for (size_t i = 0; i < n && o->slots > 0; i++) worst = worse(worst, fabs(o->slot[0][i] - want.m[i]) / 10);
    for (size_t i = 0; i < n && o->slots > 1; i++) worst = worse(worst, fabs(o->slot[1][i] - want.v[i]));
  }
  CHECK_LT(worst, 2e-6, "%s on %s", options, backend);
  CHECK_EQ(o->steps, STEPS);
  CHECK_EQ(o->slots, k.kind == SHOAL_OPTIM_ADAMW ? 2 : k.momentum > 0);
  free(want.w), free(want.m), free(want.v), free(on), free(decays);
  shoal_optim_destroy(o);
  shoal_config_destroy(c);
  rig_close(&r);
}

static void test_optimizers(void)
{
  static const char *const options[] = {
    "optim.momentum=0",
    "optim.momentum=0 optim.weight_decay=0.2 optim.decay_on=weights optim.clip=0.5",
    "optim.momentum=0 optim.weight_decay=0.2 optim.decoupled=true",
    "optim.momentum=0.9",
    "optim.momentum=0.9 optim.nesterov=true optim.weight_decay=0.05",
    "optim.momentum=0.8 optim.weight_decay=0.1 optim.decay_on=weights",
    "optim.momentum=0.8 optim.weight_decay=0.1 optim.decoupled=true optim.clip=0.5",
    "optim.name=adamw",
    "optim.name=adamw optim.weight_decay=0.1 optim.beta1=0.8 optim.beta2=0.95",
    "optim.name=adamw optim.weight_decay=0.1 optim.decay_on=weights optim.clip=0.1 optim.eps=1e-4",
  };
  shoal_model *m = rig_network("residual");
  /* the second begins in the middle of a convolution and ends in the middle of a norm */
  const shoal_range some[] = { { 3, 50 }, { 100, m->param[9].offset + 1 - 100 }, { m->weights - 2, 2 } };
  for (size_t i = 0; i < SHOAL_COUNT(options); i++) {
    check_optimizer("ref", m, options[i], NULL, 0);
    check_optimizer("ref", m, options[i], some, 3);
    check_optimizer("cpu", m, options[i], NULL, 0);
    check_optimizer("cpu", m, options[i], some, 3);
  }
  shoal_model_destroy(m);
}

static bool is_bad(shoal_optim *o)
{
  bool bad;
  CHECK_OK(shoal_optim_outcome(o, &bad));
  return bad;
}

static void test_refusals(void)
{
  shoal_model *m = rig_network("chain");
  rig r;
  rig_open(&r, "ref", m, 2, SHOAL_PLAN_TRAIN);
  shoal_config *c = config("optim.clip=1");
  shoal_optim_config k;
  shoal_optim *o;
  CHECK_OK(shoal_optim_configure(c, &k));
  CHECK_OK(shoal_optim_create(r.b, &k, m->weights, &o));
  r.params->g[5] = NAN;
  CHECK_OK(shoal_optim_step(o, m, r.params, NULL, 0, 0.1f));
  CHECK(is_bad(o), "the norm of a NaN passed");
  CHECK(!is_bad(o), "told twice");
  CHECK_EQ(o->steps, 1);
  shoal_config_destroy(c);
  c = config("optim.momentum=0 optim.nesterov=true");
  CHECK_STATUS(shoal_optim_configure(c, &k), SHOAL_ERR_ARG, "nesterov without momentum");
  shoal_config_destroy(c);
  shoal_optim_destroy(o);
  rig_close(&r);
  shoal_model_destroy(m);
}

/* A step over two ranges whose second one meets a NaN: with takes_back nothing has changed and the next step is that of an
 * optimizer that never saw it, but for the number of steps; without, it is only told. */
static void test_bad_step(const char *options, bool takes_back)
{
  shoal_model *m = rig_network("chain");
  rig r;
  rig_open(&r, "cpu", m, 2, SHOAL_PLAN_TRAIN);
  shoal_config *c = config(options);
  shoal_optim_config k;
  shoal_optim *o;
  shoal_params *p = r.params;
  const size_t n = p->n;
  const shoal_range ranges[] = { { 0, n / 2 }, { n / 2, n - n / 2 } };
  float *w, *slot[2];
  CHECK_OK(shoal_optim_configure(c, &k));
  k.takes_back = takes_back;
  CHECK_OK(shoal_optim_create(r.b, &k, m->weights, &o));
  for (int t = 0; t < 3; t++) {
    for (size_t i = 0; i < n; i++) p->g[i] = (float)sin((double)i + t);
    CHECK_OK(shoal_optim_step(o, m, p, ranges, 2, 0.1f));
  }
  CHECK(!is_bad(o), "%s: all was finite", options);
  CHECK_OK(SHOAL_ALLOC(n, &w));
  memcpy(w, p->w, n * sizeof *w);
  for (int i = 0; i < o->slots; i++) {
    CHECK_OK(SHOAL_ALLOC(n, &slot[i]));
    memcpy(slot[i], o->slot[i], n * sizeof(float));
  }
  p->g[n - 2] = NAN;
  uint64_t version = p->version;
  CHECK_OK(shoal_optim_step(o, m, p, ranges, 2, 0.1f));
  CHECK(is_bad(o), "%s: a NaN passed", options);
  CHECK_EQ(o->steps, 4, "%s: the step does not count", options);
  CHECK(p->version > version, "%s: the weights are as they were to the plans", options);
  bool same = memcmp(w, p->w, n * sizeof *w) == 0;
  for (int i = 0; i < o->slots; i++) same &= memcmp(slot[i], o->slot[i], n * sizeof(float)) == 0;
  CHECK(same == takes_back, "%s: taken back: %d", options, same);
  for (int i = 0; i < o->slots; i++) free(slot[i]);
  free(w);
  shoal_config_destroy(c);
  shoal_optim_destroy(o);
  rig_close(&r);
  shoal_model_destroy(m);
}

static void test_bad_steps(void)
{
  static const char *const options[] = { "optim.momentum=0",
                                         "optim.momentum=0.9 optim.weight_decay=0.1 optim.decay_on=weights",
                                         "optim.name=adamw optim.weight_decay=0.1" };
  for (size_t i = 0; i < SHOAL_COUNT(options); i++) {
    test_bad_step(options[i], false);
    test_bad_step(options[i], true);
  }
}

/* ---- schedules ---- */

static void expect(const shoal_lr_schedule *s, const shoal_lr_plateau *p, double epoch, double want)
{
  double got = shoal_lr_at(s, p, epoch);
  CHECK_NEAR(got, want, 1e-12, "at epoch %g", epoch);
}

static void test_schedules(void)
{
  shoal_lr_schedule s;
  shoal_lr_plateau p;
  shoal_lr_plateau_init(&p);
  shoal_config *c = config("optim.lr=0.4");
  CHECK_OK(shoal_lr_configure(c, 10, &s));
  for (double e = 0; e < 12; e += 0.37) expect(&s, &p, e, 0.4);
  shoal_config_destroy(c);

  c = config("optim.lr=0.4 optim.warmup_epochs=2 optim.warmup_from=0.25 optim.schedule=cosine optim.min_factor=0.01");
  CHECK_OK(shoal_lr_configure(c, 10, &s));
  for (double e = 0; e < 2; e += 0.05) expect(&s, &p, e, 0.1 + 0.3 * e / 2);
  for (double e = 2; e <= 10; e += 0.11)
    expect(&s, &p, e, 0.4 * (0.01 + 0.99 * (0.5 + 0.5 * cos(3.14159265358979323846 * (e - 2) / 8))));
  expect(&s, &p, 2, 0.4);
  expect(&s, &p, 6, 0.4 * 0.505);
  expect(&s, &p, 10, 0.004);
  expect(&s, &p, 11, 0.004);
  shoal_config_destroy(c);

  c = config("optim.lr=1 optim.warmup_epochs=0.5 optim.schedule=step optim.milestones=[3,4.5,8] optim.gamma=0.2");
  CHECK_OK(shoal_lr_configure(c, 10, &s));
  expect(&s, &p, 0, 0.1);
  expect(&s, &p, 0.25, 0.55);
  for (double e = 0.5; e < 10; e += 0.25) expect(&s, &p, e, e < 3 ? 1 : e < 4.5 ? 0.2 : e < 8 ? 0.04 : 0.008);
  shoal_config_destroy(c);
}

/* Improvement by a tenth or more counts; three epochs without it halve the rate, and the count starts anew. */
static void test_plateau(void)
{
  shoal_lr_schedule s;
  shoal_lr_plateau p;
  shoal_config *c = config("optim.lr=0.8 optim.schedule=plateau optim.plateau_patience=3 optim.plateau_threshold=0.1");
  CHECK_OK(shoal_lr_configure(c, 30, &s));
  shoal_lr_plateau_init(&p);
  const double loss[] = { 2, 1.9, 1.7, 1.6, NAN, 1.55, 1.54, 1.5, 1.49, 1.52, 1.3, 1.3, 1.3, 1.3 };
  const double want[] = { 1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25 };
  /* best:               2  2  1.7 1.7 1.7 1.7 1.7 1.5 …                 1.3 …                 */
  for (size_t i = 0; i < SHOAL_COUNT(loss); i++) {
    shoal_lr_plateau_feed(&s, &p, loss[i]);
    CHECK_EQ(p.scale, want[i], "after epoch %zu", i);
    CHECK_EQ(p.seen, (int64_t)i + 1, "after epoch %zu", i);
    expect(&s, &p, (double)i + 1, 0.8 * want[i]);
  }
  CHECK_EQ(p.best, 1.3);
  CHECK_EQ(p.bad, 0);
  shoal_config_destroy(c);
}

static void test_schedule_refusals(void)
{
  static const char *const bad[] = { "optim.schedule=step", "optim.schedule=step optim.milestones=[3,2]",
                                     "optim.schedule=cosine optim.warmup_epochs=10" };
  for (size_t i = 0; i < SHOAL_COUNT(bad); i++) {
    shoal_lr_schedule s;
    shoal_config *c = config(bad[i]);
    CHECK_STATUS(shoal_lr_configure(c, 10, &s), SHOAL_ERR_ARG, "%s", bad[i]);
    shoal_config_destroy(c);
  }
}

/* A range that joins three steps late is corrected by its own age: bit for bit what an optimizer of its own would do. */
static void test_ages(const char *backend)
{
  shoal_model *m = rig_model("mlp", "model.widths=[9]", &SHOAL_SHAPE(5), 4);
  shoal_config *c = config("optim.name=adamw optim.weight_decay=0.1");
  shoal_optim_config k;
  CHECK_OK(shoal_optim_configure(c, &k));
  const shoal_range both[] = { { 0, 20 }, { 20, m->weights - 20 } };
  uint64_t ages[] = { 0, 0 };
  rig r[2];
  shoal_optim *o[2];
  for (int i = 0; i < 2; i++) {
    rig_open(&r[i], backend, m, 2, SHOAL_PLAN_TRAIN);
    CHECK_OK(shoal_optim_create(r[i].b, &k, m->weights, &o[i]));
  }
  o[0]->ages = ages;
  for (uint64_t t = 0; t < 8; t++) {
    for (int i = 0; i < 2; i++) rig_fill(r[i].params->g, m->weights, 60 + t);
    CHECK_OK(shoal_optim_step(o[0], m, r[0].params, both, t < 3 ? 1 : 2, 0.1f));
    ages[0]++, ages[1] += t >= 3;
    if (t >= 3) CHECK_OK(shoal_optim_step(o[1], m, r[1].params, &both[1], 1, 0.1f));
  }
  CHECK_BYTES(r[0].params->w + 20, r[1].params->w + 20, both[1].count * sizeof(float), "%s: late range", backend);
  float *late = malloc(20 * sizeof *late);
  memcpy(late, r[0].params->w, 20 * sizeof *late);
  shoal_optim_destroy(o[1]);
  rig_close(&r[1]);
  rig_open(&r[1], backend, m, 2, SHOAL_PLAN_TRAIN);
  CHECK_OK(shoal_optim_create(r[1].b, &k, m->weights, &o[1]));
  for (uint64_t t = 0; t < 8; t++) {
    rig_fill(r[1].params->g, m->weights, 60 + t);
    CHECK_OK(shoal_optim_step(o[1], m, r[1].params, both, 1, 0.1f));
  }
  CHECK_BYTES(late, r[1].params->w, 20 * sizeof *late, "%s: early range", backend);
  free(late);
  for (int i = 0; i < 2; i++) {
    shoal_optim_destroy(o[i]);
    rig_close(&r[i]);
  }
  shoal_config_destroy(c);
  shoal_model_destroy(m);
}

int main(void)
{
  test_optimizers();
  test_ages("ref");
  test_ages("cpu");
  test_refusals();
  test_bad_steps();
  test_schedules();
  test_plateau();
  test_schedule_refusals();
  return check_done();
}
