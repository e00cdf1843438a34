/* What subnets compute, and what the model put together from them computes. */
#include "base/mem.h"
#include "base/rng.h"
#include "data/loader.h"
#include "method/ist/ist.h"
#include "nn_rig.h"

enum { BATCH = 6, MAX_PARTS = 4 };

typedef struct {
  shoal_ist_plan *p;
  shoal_ist_deal *d;
  shoal_model *part[MAX_PARTS];
} cuts;

static cuts cut(const shoal_model *m, shoal_ist_options o)
{
  cuts c = { 0 };
  REQUIRE(shoal_ist_plan_create(m, &o, &c.p) == SHOAL_OK, "plan of %s", m->name);
  REQUIRE(shoal_ist_deal_create(c.p, &c.d) == SHOAL_OK, "deal");
  shoal_ist_draw(c.p, 2, c.d);
  for (int s = 0; s < o.parts; s++) REQUIRE(shoal_ist_part(c.p, c.d, s, &c.part[s]) == SHOAL_OK, "part %d", s);
  return c;
}

static void release(cuts *c)
{
  for (int s = 0; s < c->p->o.parts; s++) shoal_model_destroy(c->part[s]);
  shoal_ist_deal_destroy(c->p, c->d);
  shoal_ist_plan_destroy(c->p);
}

/* A rig of one subnet that holds the whole one's numbers. */
static void open_part(rig *small, const cuts *c, int s, const rig *whole, shoal_plan_mode mode)
{
  rig_open(small, "ref", c->part[s], BATCH, mode);
  CHECK_OK(shoal_model_gather(ref_backend(), c->p->model, c->part[s], whole->params->w, small->params->w));
  CHECK_OK(
      shoal_model_gather_stats(ref_backend(), c->p->model, c->part[s], whole->params->stats, small->params->stats));
}

/* A subnet computes what the network computes with all other hidden units masked to zero. */
static void check_function(const char *name, const char *options, const shoal_shape *input)
{
  shoal_model *m = rig_model(name, options, input, 4);
  const size_t n = (size_t)(BATCH * m->classes * shoal_model_labels(m));
  cuts c = cut(m, (shoal_ist_options){ .parts = 3, .seed = 4 });
  for (int s = 0; s < 3; s++) {
    rig full, small;
    rig_open(&full, "ref", m, BATCH, SHOAL_PLAN_EVAL);
    open_part(&small, &c, s, &full, SHOAL_PLAN_EVAL);
    memset(full.params->w, 0, m->weights * sizeof(float));
    CHECK_OK(shoal_model_scatter(ref_backend(), m, c.part[s], small.params->w, full.params->w));
    rig_forward(&full);
    rig_forward(&small);
    float *a = rig_output(&full, m->nodes - 1), *b = rig_output(&small, c.part[s]->nodes - 1);
    CHECK_BYTES(a, b, n * sizeof *a, "%s, part %d: error %g", options, s, rig_difference(b, a, n));
    free(a);
    free(b);
    rig_close(&full);
    rig_close(&small);
  }
  release(&c);
  shoal_model_destroy(m);
}

/* One step of every subnet on the same batch moves the network by the gradients of the masked losses, each in its own
 * entries; the shared bias by their mean. */
static void check_gradients(void)
{
  const float lr = 0.25f;
  shoal_model *m = rig_model("mlp", "model.widths=[13]", &SHOAL_SHAPE(7), 4);
  cuts c = cut(m, (shoal_ist_options){ .parts = 3, .seed = 4 });
  float *want = malloc(m->weights * sizeof *want), *got = malloc(m->weights * sizeof *got);
  rig full;
  rig_open(&full, "ref", m, BATCH, SHOAL_PLAN_TRAIN);
  memcpy(want, full.params->w, m->weights * sizeof *want);
  memcpy(got, want, m->weights * sizeof *got);
  float *start = malloc(m->weights * sizeof *start);
  memcpy(start, want, m->weights * sizeof *start);
  float bias[4] = { 0 };
  for (int s = 0; s < 3; s++) {
    rig small;
    memcpy(full.params->w, start, m->weights * sizeof *start);
    open_part(&small, &c, s, &full, SHOAL_PLAN_TRAIN);
    rig_step(&small);
    for (size_t i = 0; i < c.part[s]->weights; i++) small.params->w[i] -= lr * small.params->g[i];
    CHECK_OK(shoal_model_scatter(ref_backend(), m, c.part[s], small.params->w, got));
    for (int k = 0; k < 4; k++) bias[k] += small.params->w[c.part[s]->weights - 4 + (size_t)k] / 3;
    /* the same on the whole network: what the part has not is zero, and its gradient is not taken */
    float *own = malloc(c.part[s]->weights * sizeof *own);
    CHECK_OK(shoal_model_gather(ref_backend(), m, c.part[s], start, own));
    memset(full.params->w, 0, m->weights * sizeof(float));
    CHECK_OK(shoal_model_scatter(ref_backend(), m, c.part[s], own, full.params->w));
    full.params->version++;
    rig_step(&full);
    for (size_t i = 0; i < m->weights; i++) full.params->w[i] -= lr * full.params->g[i];
    CHECK_OK(shoal_model_gather(ref_backend(), m, c.part[s], full.params->w, own));
    for (int k = 0; k < 4; k++)
      want[m->weights - 4 + (size_t)k] +=
          (own[c.part[s]->weights - 4 + (size_t)k] - start[m->weights - 4 + (size_t)k]) / 3;
    size_t bias_at = c.part[s]->weights - 4;
    memcpy(own + bias_at, want + m->weights - 4, 4 * sizeof(float));
    CHECK_OK(shoal_model_scatter(ref_backend(), m, c.part[s], own, want));
    free(own);
    rig_close(&small);
  }
  memcpy(got + m->weights - 4, bias, sizeof bias);
  double e = rig_difference(got, want, m->weights), moved = rig_difference(start, want, m->weights);
  CHECK_LT(e, 1e-6);
  CHECK_GT(moved, 1e-2);
  free(start);
  free(want);
  free(got);
  rig_close(&full);
  release(&c);
  shoal_model_destroy(m);
}

/* Without a norm behind it the last layer is scaled by 1/n: a model of one hidden layer is the mean of its subnets. */
static void check_mean(const char *options)
{
  shoal_model *m = rig_model("mlp", options, &SHOAL_SHAPE(7), 4);
  cuts c = cut(m, (shoal_ist_options){ .parts = 3, .seed = 4 });
  size_t n = (size_t)(BATCH * m->classes);
  float mean[BATCH * 4] = { 0 };
  rig full;
  rig_open(&full, "ref", m, BATCH, SHOAL_PLAN_EVAL);
  for (int s = 0; s < 3; s++) {
    rig small;
    open_part(&small, &c, s, &full, SHOAL_PLAN_EVAL);
    rig_forward(&small);
    float *y = rig_output(&small, c.part[s]->nodes - 1);
    for (size_t i = 0; i < n; i++) mean[i] += y[i] / 3;
    free(y);
    rig_close(&small);
  }
  float *before = malloc(m->weights * sizeof *before);
  memcpy(before, full.params->w, m->weights * sizeof *before);
  CHECK_OK(shoal_ist_scale(ref_backend(), c.p, false, full.params->w));
  full.params->version++;
  rig_forward(&full);
  float *y = rig_output(&full, m->nodes - 1);
  CHECK_LT(rig_difference(y, mean, n), 1e-5, "%s", options);
  CHECK_OK(shoal_ist_scale(ref_backend(), c.p, true, full.params->w));
  CHECK_LT(rig_difference(full.params->w, before, m->weights), 1e-6);
  free(before);
  free(y);
  rig_close(&full);
  release(&c);
  shoal_model_destroy(m);
}

/* Batch norm takes out a factor before it.  Normalised logits have mean 0 and variance 1 in every class. */
static void check_norms(void)
{
  shoal_model *m = rig_model("mlp", "model.widths=[24,16] model.norm=batch model.norm_logits=true", &SHOAL_SHAPE(7), 4);
  cuts c = cut(m, (shoal_ist_options){ .parts = 2 });
  rig r;
  rig_open(&r, "ref", m, 40, SHOAL_PLAN_MEASURE);
  CHECK_OK(shoal_model_init(ref_backend(), m, 3, r.params->w, NULL)); /* scale 1, shift 0 */
  r.params->version++;
  rig_forward(&r);
  float *y = rig_output(&r, m->nodes - 1);
  for (int k = 0; k < 4; k++) {
    double sum = 0, square = 0;
    for (int i = 0; i < 40; i++) sum += y[i * 4 + k], square += (double)y[i * 4 + k] * y[i * 4 + k];
    CHECK_LT(fabs(sum / 40), 1e-5, "class %d: mean %g", k, sum / 40);
    CHECK_NEAR(square / 40, 1, 2e-2, "class %d: mean %g", k, sum / 40);
  }
  for (int i = 0; i < m->params; i++)
    for (size_t k = 0; strncmp(m->param[i].name, "fc", 2) == 0 && k < m->param[i].count; k++)
      r.params->w[m->param[i].offset + k] *= 8;
  r.params->version++;
  rig_forward(&r);
  float *z = rig_output(&r, m->nodes - 1);
  CHECK_LT(rig_difference(z, y, 160), 5e-3, "eight times the weights");
  for (int i = 0; i < m->params; i++)
    CHECK_EQ(c.p->tensor[i].scale, 1, "%s needs no scale, a norm follows", m->param[i].name);
  free(y);
  free(z);
  rig_close(&r);
  release(&c);
  shoal_model_destroy(m);
}

/* Where the dealt branches are zero the scale has no effect; with one part it is 1; else it makes a branch smaller. */
static void check_branches(void)
{
  shoal_model *m = rig_model("resnet20", "", &SHOAL_SHAPE(3, 8, 8), 4);
  cuts one = cut(m, (shoal_ist_options){ .parts = 1, .blocks = true });
  cuts three = cut(m, (shoal_ist_options){ .parts = 3, .blocks = true });
  rig r;
  for (int i = 0; i < m->params; i++) CHECK_EQ(one.p->tensor[i].scale, 1, "%s", m->param[i].name);
  for (int zero = 0; zero < 2; zero++) {
    rig_open(&r, "ref", m, BATCH, SHOAL_PLAN_EVAL);
    for (int i = 0; zero && i < m->params; i++)
      if (three.p->tensor[i].scale != 1) memset(r.params->w + m->param[i].offset, 0, m->param[i].count * sizeof(float));
    rig_forward(&r);
    float *y = rig_output(&r, m->nodes - 1);
    CHECK_OK(shoal_ist_scale(ref_backend(), three.p, false, r.params->w));
    r.params->version++;
    rig_forward(&r);
    float *z = rig_output(&r, m->nodes - 1);
    bool same = memcmp(y, z, (size_t)(BATCH * m->classes) * sizeof *y) == 0;
    CHECK_EQ(same, zero == 1, "scaled branches, %s", zero ? "zero" : "not zero");
    free(y);
    free(z);
    rig_close(&r);
  }
  release(&one);
  release(&three);
  shoal_model_destroy(m);
}

/* ---- One hidden layer of ReLU, output weights +-1, squared loss (Liao and Kyrillidis, TMLR 2022) ---- */

enum { SAMPLES = 8, INPUTS = 10, WIDTH_MAX = 512 };

typedef struct {
  double x[SAMPLES][INPUTS], y[SAMPLES];
  int width;
  double w[WIDTH_MAX][INPUTS], a[WIDTH_MAX];
} theory;

static void theory_init(theory *t, int width, uint64_t seed)
{
  float pair[2];
  t->width = width;
  for (int i = 0; i < SAMPLES; i++) {
    double norm = 0;
    for (int k = 0; k < INPUTS; k++) {
      shoal_rng_block b = shoal_rng(seed, SHOAL_RNG_TEST, (uint64_t)(i * INPUTS + k), 0);
      shoal_rng_normal2(b.v[0], b.v[1], pair);
      t->x[i][k] = (double)pair[0];
      norm += t->x[i][k] * t->x[i][k];
      t->y[i] = (double)pair[1];
    }
    for (int k = 0; k < INPUTS; k++) t->x[i][k] /= sqrt(norm);
  }
  for (int r = 0; r < width; r++)
    for (int k = 0; k < INPUTS; k++) {
      shoal_rng_block b = shoal_rng(seed, SHOAL_RNG_TEST, (uint64_t)(r * INPUTS + k), 1);
      shoal_rng_normal2(b.v[0], b.v[1], pair);
      t->w[r][k] = (double)pair[0];
      t->a[r] = b.v[2] & 1 ? 1 : -1;
    }
}

/* Output on sample i from the listed units, each with a factor. */
static double theory_output(const theory *t, int i, const int64_t *units, int n, double factor)
{
  double sum = 0;
  for (int j = 0; j < n; j++) {
    double z = 0;
    for (int k = 0; k < INPUTS; k++) z += t->w[units[j]][k] * t->x[i][k];
    if (z > 0) sum += t->a[units[j]] * z;
  }
  return factor * sum / sqrt(t->width);
}

static void theory_step(theory *t, const int64_t *units, int n, double lr)
{
  double residual[SAMPLES];
  for (int i = 0; i < SAMPLES; i++) residual[i] = theory_output(t, i, units, n, 1) - t->y[i];
  for (int j = 0; j < n; j++) {
    double gradient[INPUTS] = { 0 }, *w = t->w[units[j]];
    for (int i = 0; i < SAMPLES; i++) {
      double z = 0;
      for (int k = 0; k < INPUTS; k++) z += w[k] * t->x[i][k];
      for (int k = 0; z > 0 && k < INPUTS; k++) gradient[k] += residual[i] * t->a[units[j]] * t->x[i][k];
    }
    for (int k = 0; k < INPUTS; k++) w[k] -= lr / sqrt(t->width) * gradient[k];
  }
}

/* Training loss of the whole network, its units times 1/p, where it has come to rest: mean over the last rounds. */
static double theory_floor(int width, int parts, int steps)
{
  enum { ROUNDS = 300, LAST = 75, SEEDS = 3 };
  static theory t;
  int64_t units[WIDTH_MAX];
  double sum = 0;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    theory_init(&t, width, seed);
    for (int round = 0; round < ROUNDS; round++) {
      shoal_ist_shuffle(seed, (uint64_t)round, 0, 0, width, units);
      for (int s = 0; s < parts; s++) {
        uint64_t first, n;
        shoal_share_of((uint64_t)width, s, parts, &first, &n);
        for (int k = 0; k < steps; k++) theory_step(&t, units + first, (int)n, 0.4);
      }
      for (int i = 0; round >= ROUNDS - LAST && i < SAMPLES; i++) {
        double e = theory_output(&t, i, units, width, 1.0 / parts) - t.y[i];
        sum += e * e / (LAST * SEEDS);
      }
    }
  }
  return sum;
}

static void check_theory(void)
{
  double alone = theory_floor(64, 1, 4), base = theory_floor(64, 4, 4), wide = theory_floor(512, 4, 4);
  double many = theory_floor(64, 8, 4), longer = theory_floor(64, 4, 64);
  printf("floor: one worker %.3g; four %.3g; width 512 %.3g; eight workers %.3g; 64 steps %.3g\n", alone, base, wide,
         many, longer);
  CHECK_LT(alone, 1e-6);
  CHECK_LT(wide, base / 2);
  CHECK_GT(base, 1e-4);
  CHECK_GT(many, base);
  /* In the number of local steps the floor grows once a round comes close to fitting its subnet. */
  CHECK_GT(longer, 2 * base, "4 steps leave %g", base);
}

int main(void)
{
  check_function("mlp", "model.widths=[11,7]", &SHOAL_SHAPE(5));
  check_function("mlp", "model.widths=[11,9,7] model.norm=batch", &SHOAL_SHAPE(5));
  check_function("mlp", "model.widths=[12,8] model.activation=gelu", &SHOAL_SHAPE(2, 3, 3));
  check_function("gpt", "model.width=12 model.heads=4 model.depth=2", &SHOAL_SHAPE(5));
  check_function("vit", "model.width=9 model.heads=3 model.depth=1 model.patch=2", &SHOAL_SHAPE(2, 4, 4));
  check_gradients();
  check_mean("model.widths=[13]");
  check_mean("model.widths=[12] model.norm=batch"); /* with given statistics */
  check_norms();
  check_branches();
  check_theory();
  return check_done();
}
