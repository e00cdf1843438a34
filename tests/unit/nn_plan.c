/* What a plan promises around the numbers: announcements, batch sizes, addresses of dropout, caches, readable outputs,
 * and foreign memory formats. */
#include "base/mem.h"
#include "nn_rig.h"

/* ---- announcements ---- */

typedef struct {
  const rig *r;
  size_t calls, polls;
  float *seen; /* the gradient as it was when announced */
  int *times;
} listener;

static shoal_status hear(void *ctx, size_t offset, size_t count, size_t *bad)
{
  listener *l = ctx;
  const shoal_range *ranges;
  size_t n = shoal_plan_ranges(l->r->plan, &ranges);
  if (CHECK_LT(l->calls, n)) {
    CHECK_EQ(ranges[l->calls].offset, offset);
    CHECK_EQ(ranges[l->calls].count, count);
  }
  l->calls++;
  CHECK_EQ(*bad, shoal_plan_looked_at(offset, count).count);
  for (size_t i = offset; i < offset + count; i++) {
    l->seen[i] = l->r->params->g[i];
    l->times[i]++;
  }
  return SHOAL_OK;
}

static void count_poll(void *ctx)
{
  ((listener *)ctx)->polls++;
}

static void check_announcements(const char *backend, const shoal_model *m)
{
  rig r;
  rig_open(&r, backend, m, 3, SHOAL_PLAN_TRAIN);
  listener l = { .r = &r };
  REQUIRE(SHOAL_ALLOC(m->weights, &l.seen) == SHOAL_OK, "listener");
  REQUIRE(SHOAL_ALLOC(m->weights, &l.times) == SHOAL_OK, "listener");
  r.b->progress = count_poll;
  r.b->progress_context = &l;
  rig_forward(&r);
  CHECK_GE(l.polls, (size_t)m->nodes / 2);
  CHECK_OK(shoal_plan_backward(r.plan, r.params, hear, &l));
  const shoal_range *ranges;
  size_t n = shoal_plan_ranges(r.plan, &ranges);
  CHECK_EQ(l.calls, n);
  CHECK_GT(l.polls, n);
  for (size_t i = 0; i < m->weights; i++) CHECK_EQ(l.times[i], 1, "element %zu", i);
  for (size_t i = 1; i < n; i++)
    CHECK_EQ(ranges[i].offset + ranges[i].count, ranges[i - 1].offset, "range %zu does not lie before the last", i);
  CHECK_BYTES(l.seen, r.params->g, m->weights * sizeof(float), "%s: a range changed after it was announced", m->name);
  free(l.seen);
  free(l.times);
  rig_close(&r);
}

/* ---- backends and batches ---- */

/* Relative to the tensor's largest, but no less than a hundredth of the largest gradient of all: the bias of a
 * convolution before a batch norm has no gradient but rounding. */
static double gradient_error(const shoal_model *m, const float *got, const float *want)
{
  double worst = 0, largest = 0;
  for (size_t i = 0; i < m->weights; i++) largest = fmax(largest, fabs((double)want[i]));
  for (int k = 0; k < m->params; k++) {
    const shoal_param *p = &m->param[k];
    double e = 0, scale = largest * 0.01;
    for (size_t i = p->offset; i < p->offset + p->count; i++) {
      e = fabs((double)got[i] - want[i]) <= e ? e : fabs((double)got[i] - want[i]);
      scale = fmax(scale, fabs((double)want[i]));
    }
    worst = worse(worst, e / scale);
  }
  return worst;
}

static void compare_backends(const shoal_model *m, int64_t batch, double bound)
{
  rig ref, cpu;
  rig_open(&ref, "ref", m, batch, SHOAL_PLAN_TRAIN);
  rig_open(&cpu, "cpu", m, batch, SHOAL_PLAN_TRAIN);
  double a = rig_step(&ref), b = rig_step(&cpu), worst = gradient_error(m, cpu.params->g, ref.params->g);
  CHECK_LT(fabs(a - b), bound * a, "%s batch %lld: loss %g and %g", m->name, (long long)batch, a, b);
  double s = rig_difference(cpu.params->stats, ref.params->stats, m->stats);
  printf("%-9s batch %2lld, cpu against ref: gradients %.2g, statistics %.2g\n", m->name, (long long)batch, worst, s);
  CHECK_LT(worst, bound, "%s batch %lld", m->name, (long long)batch);
  CHECK_LT(s, bound, "%s batch %lld", m->name, (long long)batch);
  rig_close(&ref);
  rig_close(&cpu);
}

/* A measuring plan is training's forward without dropout: the same output and statistics, in less memory. */
static void check_measuring(const char *backend, const shoal_model *with_dropout)
{
  shoal_model *m = NULL;
  REQUIRE(shoal_model_copy(with_dropout, &m) == SHOAL_OK, "copy");
  for (int i = 0; i < m->nodes; i++) m->node[i].p = 0;
  rig train, measure, dropping;
  rig_open(&train, backend, m, 3, SHOAL_PLAN_TRAIN);
  rig_open(&measure, backend, m, 3, SHOAL_PLAN_MEASURE);
  rig_open(&dropping, backend, with_dropout, 3, SHOAL_PLAN_MEASURE);
  double want = rig_forward(&train), got = rig_forward(&measure);
  CHECK_LT(fabs(want - got), 1e-6 * fabs(want), "%s on %s: loss %g measured, %g trained", m->name, backend, got, want);
  CHECK_EQ(rig_forward(&dropping), got, "%s: something was dropped", m->name);
  double e = rig_difference(measure.params->stats, train.params->stats, m->stats);
  CHECK_LT(e, 1e-6, "%s", m->name);
  /* On cpu a tiny network may come to formats with more padding than numbers. */
  CHECK(strcmp(backend, "ref") != 0 || shoal_plan_bytes(measure.plan) < shoal_plan_bytes(train.plan),
        "%zu bytes to measure, %zu to train", shoal_plan_bytes(measure.plan), shoal_plan_bytes(train.plan));
  CHECK_STATUS(shoal_plan_backward(measure.plan, measure.params, NULL, NULL), SHOAL_ERR_ARG, "backward of a measure");
  rig_close(&train);
  rig_close(&measure);
  rig_close(&dropping);
  shoal_model_destroy(m);
}

/* In evaluation the samples of a batch are independent. */
static void check_samples(const char *backend, const shoal_model *m, double bound)
{
  rig all, one;
  rig_open(&all, backend, m, 5, SHOAL_PLAN_EVAL);
  rig_open(&one, backend, m, 1, SHOAL_PLAN_EVAL);
  rig_forward(&all);
  float *want = rig_output(&all, m->nodes - 1);
  size_t n = (size_t)shoal_shape_count(&m->input);
  for (int64_t i = 0; i < 5; i++) {
    memcpy(one.x, all.x + (size_t)i * n, n * sizeof(float));
    rig_forward(&one);
    float *got = rig_output(&one, m->nodes - 1);
    int64_t each = shoal_model_labels(m) * m->classes;
    double e = rig_difference(got, want + i * each, (size_t)each);
    CHECK_LE(e, bound, "%s on %s, sample %lld alone", m->name, backend, (long long)i);
    free(got);
  }
  free(want);
  rig_close(&all);
  rig_close(&one);
}

/* A plan in which every output stays shares no memory forward: the usual plan must give the same bits, and so must every
 * single output that is asked for; likewise a plan that computes again what it has not kept. */
static void check_sharing(const char *backend, const char *network, shoal_plan_mode mode, bool recompute)
{
  shoal_model *m = rig_network(network), *all;
  CHECK_OK(shoal_model_copy(m, &all));
  for (int i = 0; i < m->nodes; i++) all->node[i].keep = true;
  m->recompute = recompute;
  rig a;
  rig_open(&a, backend, all, 3, mode);
  mode == SHOAL_PLAN_TRAIN ? rig_step(&a) : rig_forward(&a);
  for (int i = 0; i < m->nodes; i++) {
    rig b;
    m->node[i].keep = true;
    rig_open(&b, backend, m, 3, mode);
    mode == SHOAL_PLAN_TRAIN ? rig_step(&b) : rig_forward(&b);
    CHECK_BYTES(a.params->g, b.params->g, m->weights * sizeof(float), "%s on %s: gradients", network, backend);
    CHECK_LE(shoal_plan_bytes(b.plan), shoal_plan_bytes(a.plan));
    bool input_itself = strcmp(m->node[i].name, "pixels") == 0; /* flattened: no output of its own */
    float *x = input_itself ? NULL : rig_output(&a, i), *y = input_itself ? NULL : rig_output(&b, i);
    CHECK(input_itself || memcmp(x, y, (size_t)(3 * shoal_shape_count(&m->node[i].out)) * sizeof *x) == 0,
          "%s on %s: output of %s", network, backend, m->node[i].name);
    free(x);
    free(y);
    rig_close(&b);
    m->node[i].keep = false;
  }
  rig_close(&a);
  shoal_model_destroy(m);
  shoal_model_destroy(all);
}

/* The first layer's output is the same in both modes; in evaluation the norm behind it would like to write over it. */
static void check_modes(void)
{
  shoal_model *m = rig_network("residual");
  rig r[2];
  float *y[2];
  m->node[0].keep = true;
  for (int k = 0; k < 2; k++) {
    rig_open(&r[k], "ref", m, 3, k ? SHOAL_PLAN_EVAL : SHOAL_PLAN_TRAIN);
    rig_forward(&r[k]);
    y[k] = rig_output(&r[k], 0);
  }
  CHECK_BYTES(y[0], y[1], (size_t)(3 * shoal_shape_count(&m->node[0].out)) * sizeof **y, "conv1 was overwritten");
  for (int k = 0; k < 2; k++) {
    free(y[k]);
    rig_close(&r[k]);
  }
  shoal_model_destroy(m);
}

/* The global batch decides which units drop, not how it is shared out. */
static void check_addresses(void)
{
  shoal_model *m = rig_model("mlp", "model.widths=[9,7] model.dropout=0.4", &SHOAL_SHAPE(6), 3);
  rig all, half;
  rig_open(&all, "ref", m, 4, SHOAL_PLAN_TRAIN);
  rig_open(&half, "ref", m, 2, SHOAL_PLAN_TRAIN);
  rig_forward(&all);
  float *want = rig_output(&all, m->nodes - 1);
  for (int k = 0; k < 2; k++) {
    memcpy(half.x, all.x + k * 12, 12 * sizeof(float));
    half.at.slot0 = all.at.slot0 + 2 * (uint64_t)k;
    rig_forward(&half);
    float *got = rig_output(&half, m->nodes - 1);
    CHECK_BYTES(got, want + k * 6, 6 * sizeof *got, "half %d", k);
    free(got);
  }
  half.at.step++;
  rig_forward(&half);
  float *other = rig_output(&half, m->nodes - 1);
  CHECK(memcmp(other, want + 6, 6 * sizeof *other) != 0, "another step drops the same units");
  free(other);
  free(want);
  rig_close(&all);
  rig_close(&half);
  shoal_model_destroy(m);
}

/* Two sets of parameters through one plan, whatever their version numbers. */
static void check_two_sets(const char *backend)
{
  shoal_model *m = rig_network("residual");
  rig r, s;
  rig_open(&r, backend, m, 2, SHOAL_PLAN_EVAL);
  rig_open(&s, backend, m, 2, SHOAL_PLAN_EVAL);
  for (size_t i = 0; i < m->weights; i++) s.params->w[i] *= 1.5f;
  double a = rig_forward(&r), b = rig_forward(&s);
  s.params->version = r.params->version;
  shoal_score score = { 0 };
  CHECK_OK(shoal_plan_forward(r.plan, s.params, &r.at, r.x, r.y, 0, &score));
  CHECK_EQ(score.loss / 2, b);
  CHECK_NE(a, b);
  CHECK_OK(shoal_plan_forward(r.plan, r.params, &r.at, r.x, r.y, 0, &score));
  CHECK_NEAR(score.loss / 2, a + b, 1e-12, "and back");
  CHECK_EQ(score.samples, 4);
  rig_close(&r);
  rig_close(&s);
  shoal_model_destroy(m);
}

static void check_labels(void)
{
  shoal_model *m = rig_network("residual");
  rig r;
  rig_open(&r, "ref", m, 3, SHOAL_PLAN_TRAIN);
  shoal_score all = { 0 }, some = { 0 };
  char too_large[64];
  CHECK_OK(shoal_plan_forward(r.plan, r.params, &r.at, r.x, r.y, 1, &all));
  int32_t y[3] = { r.y[0], -1, r.y[2] };
  CHECK_OK(shoal_plan_forward(r.plan, r.params, &r.at, r.x, y, 1, &some));
  CHECK_EQ(some.samples, 2);
  CHECK_EQ(all.samples, 3);
  CHECK_LT(some.loss, all.loss);
  y[1] = (int32_t)m->classes;
  CHECK_STATUS(shoal_plan_forward(r.plan, r.params, &r.at, r.x, y, 1, &some), SHOAL_ERR_ARG, "a label too large");
  snprintf(too_large, sizeof too_large, "label %d in row 1; must be below %d", y[1], y[1]);
  CHECK_HAS(check_error(), too_large);
  CHECK_OK(shoal_plan_forward(r.plan, r.params, NULL, r.x, NULL, 1, NULL));
  CHECK_STATUS(shoal_plan_backward(r.plan, r.params, NULL, NULL), SHOAL_ERR_ARG, "backward without a loss");
  rig_close(&r);
  shoal_model_destroy(m);
}

/* ---- cache, outputs, spans, refusals ---- */

static void check_cache(void)
{
  shoal_model *m = rig_network("chain");
  shoal_backend *b;
  shoal_plans *plans;
  shoal_plan *p[4];
  CHECK_OK(shoal_backend_open("ref", 1, &b));
  CHECK_OK(shoal_plans_create(b, m, &plans));
  CHECK_OK(shoal_plans_get(plans, 4, SHOAL_PLAN_TRAIN, &p[0]));
  CHECK_OK(shoal_plans_get(plans, 3, SHOAL_PLAN_TRAIN, &p[1]));
  CHECK_OK(shoal_plans_get(plans, 4, SHOAL_PLAN_EVAL, &p[2]));
  CHECK_OK(shoal_plans_get(plans, 4, SHOAL_PLAN_TRAIN, &p[3]));
  CHECK(p[0] == p[3], "one plan for each batch and mode");
  CHECK(p[0] != p[1]);
  CHECK(p[0] != p[2]);
  CHECK_LT(shoal_plan_bytes(p[2]), shoal_plan_bytes(p[0]), "evaluation needs less memory");
  shoal_plans_destroy(plans);
  shoal_backend_close(b);
  shoal_model_destroy(m);
}

typedef struct {
  int forward, backward;
  uint64_t last;
} spans;

static void take_span(void *ctx, int node, bool backward, uint64_t t0, uint64_t t1)
{
  spans *s = ctx;
  CHECK_GE(t0, s->last, "spans overlap at node %d", node);
  CHECK_GE(t1, t0, "spans overlap at node %d", node);
  s->last = t1;
  if (backward)
    s->backward++;
  else
    s->forward++;
}

static void check_spans_and_outputs(void)
{
  shoal_model *m = rig_network("residual");
  m->node[7].keep = true; /* b.conv1, whose output nobody needs in evaluation */
  rig r;
  spans s = { 0 };
  rig_open(&r, "ref", m, 2, SHOAL_PLAN_EVAL);
  shoal_plan_set_spans(r.plan, take_span, &s);
  rig_forward(&r);
  CHECK_EQ(s.forward, m->nodes);
  CHECK_EQ(s.backward, 0);
  float *out = rig_output(&r, 7);
  CHECK_STATUS(shoal_plan_output(r.plan, 0, out), SHOAL_ERR_ARG, "an output that is gone");
  CHECK_STATUS(shoal_plan_output(r.plan, -1, out), SHOAL_ERR_ARG, "the input");
  free(out);
  rig_close(&r);
  rig_open(&r, "ref", m, 2, SHOAL_PLAN_TRAIN);
  shoal_plan_set_spans(r.plan, take_span, &s);
  s = (spans){ 0 };
  rig_step(&r);
  CHECK_EQ(s.forward, m->nodes);
  CHECK_EQ(s.backward, m->nodes);
  rig_close(&r);
  shoal_model_destroy(m);
}

/* A tied table has the gradient of an embedding and of an output that are apart and hold the same numbers, added up; it is announced
 * last.  Small integers as gradients would not survive softmax, so there is a bound. */
static void check_tied(const char *backend, double bound)
{
  rig tied, apart;
  shoal_model *m = rig_network("tied"), *n = rig_network("tokens");
  rig_open(&tied, backend, m, 3, SHOAL_PLAN_TRAIN);
  rig_open(&apart, backend, n, 3, SHOAL_PLAN_TRAIN);
  const size_t table = m->param[0].count, head = m->weights - (size_t)m->classes; /* then the output's bias */
  CHECK_EQ(n->weights, m->weights + table);
  for (size_t i = 0; i < head; i++) apart.params->w[i] = tied.params->w[i];
  for (size_t i = 0; i < table; i++) apart.params->w[head + i] = tied.params->w[i];
  for (size_t i = 0; i < (size_t)m->classes; i++) apart.params->w[head + table + i] = tied.params->w[head + i];
  rig_forward(&tied);
  rig_forward(&apart);
  CHECK_OK(shoal_plan_backward(tied.plan, tied.params, NULL, NULL));
  CHECK_OK(shoal_plan_backward(apart.plan, apart.params, NULL, NULL));
  for (size_t i = 0; i < table; i++) apart.params->g[i] += apart.params->g[head + i];
  CHECK_LE(rig_difference(tied.params->g, apart.params->g, head), bound, "%s", backend);
  CHECK_LE(rig_difference(tied.params->g + head, apart.params->g + head + table, (size_t)m->classes), bound, "%s",
           backend);
  const shoal_range *ranges;
  const size_t last = shoal_plan_ranges(tied.plan, &ranges) - 1;
  CHECK_EQ(ranges[last].offset, 0);
  CHECK_EQ(ranges[last].count, table);
  rig_close(&tied);
  rig_close(&apart);
  shoal_model_destroy(m);
  shoal_model_destroy(n);
}

/* ---- forward passes that are repeated ---- */

/* A plan that keeps all and one that computes again what it has not kept: losses, gradients and running statistics have the same bits in
 * each of some steps of training. */
static void check_recomputing(const char *backend, const shoal_model *m)
{
  shoal_model *less;
  rig a, b;
  CHECK_OK(shoal_model_copy(m, &less));
  less->recompute = true;
  rig_open(&a, backend, m, 4, SHOAL_PLAN_TRAIN);
  rig_open(&b, backend, less, 4, SHOAL_PLAN_TRAIN);
  spans s = { 0 };
  shoal_plan_set_spans(b.plan, take_span, &s);
  for (uint32_t step = 0; step < 3; step++) {
    a.at.step = b.at.step = step;
    CHECK_EQ(rig_step(&a), rig_step(&b), "%s on %s: loss of step %u", m->name, backend, step);
    CHECK_BYTES(a.params->g, b.params->g, m->weights * sizeof(float), "%s on %s: gradients", m->name, backend);
    CHECK_BYTES(a.params->stats, b.params->stats, m->stats * sizeof(float), "%s on %s: statistics", m->name, backend);
    for (size_t i = 0; i < m->weights; i++) {
      a.params->w[i] -= 0.05f * a.params->g[i];
      b.params->w[i] -= 0.05f * b.params->g[i];
    }
  }
  const shoal_repeated none = shoal_plan_repeated(a.plan), r = shoal_plan_repeated(b.plan);
  CHECK_EQ(none.saved_bytes, 0);
  CHECK_EQ(none.macs, 0);
  CHECK_EQ(r.saved_bytes, (double)shoal_plan_bytes(a.plan) - (double)shoal_plan_bytes(b.plan));
  CHECK_LE(r.macs, 4 * shoal_model_macs(m), "%s on %s", m->name, backend);
  printf("%-9s on %s: %zu bytes instead of %zu, %d of %d layers forward again\n", m->name, backend,
         shoal_plan_bytes(b.plan), shoal_plan_bytes(a.plan), s.forward / 3 - s.backward / 3, s.backward / 3);
  rig_close(&a);
  rig_close(&b);
  shoal_model_destroy(less);
}

/* `depth` units of a linear (l) and a gelu (g), tensors of S bytes, and an output of L bytes.  Live at the peak are
 *
 *   all kept    backward of the output: every l and g, dg of the last unit; logits, dlogits     (2 depth + 1) S + 2 L
 *   computed    backward of the last gelu: g of the units before, l again, dg, dl; logits       (depth + 2) S + L
 */
static void check_recomputed_bytes(const char *backend, int depth)
{
  enum { WIDTH = 48, BATCH = 8 };
  shoal_model *m, *less;
  int x = -1;
  CHECK_OK(shoal_model_create("deep", &SHOAL_SHAPE(WIDTH), 3, &m));
  for (int i = 0; i <= depth; i++) {
    char name[16];
    snprintf(name, sizeof name, "fc%d", i);
    shoal_node n = shoal_node_make(SHOAL_OP_LINEAR, name, x);
    n.out.dim[0] = i < depth ? WIDTH : 3;
    n.bias = true;
    n.unit = i;
    CHECK_OK(shoal_model_add(m, &n, SHOAL_INIT_UNIFORM, &x));
    if (i == depth) break;
    snprintf(name, sizeof name, "gelu%d", i);
    n = shoal_node_make(SHOAL_OP_GELU, name, x);
    n.unit = i;
    CHECK_OK(shoal_model_add(m, &n, SHOAL_INIT_ZERO, &x));
  }
  CHECK_OK(shoal_model_finish(m));
  check_recomputing(backend, m);
  CHECK_OK(shoal_model_copy(m, &less));
  less->recompute = true;
  rig a;
  rig_open(&a, backend, less, BATCH, SHOAL_PLAN_TRAIN);
  const shoal_repeated r = shoal_plan_repeated(a.plan);
  const double s = WIDTH * BATCH * sizeof(float), l = 128; /* 3 outputs of each, at a multiple of 64 bytes */
  CHECK_EQ(r.saved_bytes, (depth - 1) * s + l, "%d units on %s", depth, backend);
  CHECK_EQ(r.macs, depth * (double)(WIDTH * WIDTH * BATCH), "%d units on %s", depth, backend);
  rig_close(&a);
  shoal_model_destroy(m);
  shoal_model_destroy(less);
}

static void check_refusals(void)
{
  shoal_model *m = rig_model("mlp", "model.widths=[4] model.norm=batch", &SHOAL_SHAPE(6), 3);
  shoal_backend *b;
  shoal_plan *p = NULL;
  CHECK_OK(shoal_backend_open("ref", 1, &b));
  CHECK_STATUS(shoal_plan_create(b, m, 1, SHOAL_PLAN_TRAIN, &p), SHOAL_ERR_ARG, "batch norm of one value");
  CHECK(!p);
  CHECK_HAS(check_error(), "layer norm1: batchnorm");
  CHECK_STATUS(shoal_plan_create(b, m, 0, SHOAL_PLAN_EVAL, &p), SHOAL_ERR_ARG, "no samples");
  CHECK_OK(shoal_plan_create(b, m, 1, SHOAL_PLAN_EVAL, &p));
  shoal_model *other = rig_network("chain");
  shoal_params *params;
  CHECK_OK(shoal_params_create(b, other, NULL, &params));
  float x[6] = { 0 };
  CHECK_STATUS(shoal_plan_forward(p, params, NULL, x, NULL, 0, NULL), SHOAL_ERR_ARG, "parameters of another model");
  shoal_params_destroy(b, params);
  shoal_plan_destroy(p);
  shoal_backend_close(b);
  shoal_model_destroy(m);
  shoal_model_destroy(other);
}

int main(void)
{
  const shoal_shape image = { 3, { 3, 32, 32 } };
  static const char *const networks[] = {
    "chain", "residual", "forks", "wide", "branches", "groups", "tokens", "tied"
  };
  for (int i = 0; i < 8; i++) {
    for (int k = 0; k < 2; k++) {
      check_sharing(k ? "cpu" : "ref", networks[i], SHOAL_PLAN_TRAIN, false);
      check_sharing(k ? "cpu" : "ref", networks[i], SHOAL_PLAN_TRAIN, true);
      check_sharing(k ? "cpu" : "ref", networks[i], SHOAL_PLAN_EVAL, false);
    }
    shoal_model *m = rig_network(networks[i]);
    check_announcements("ref", m);
    check_announcements("cpu", m);
    compare_backends(m, 1, 2e-4);
    compare_backends(m, 7, 2e-4);
    check_measuring("ref", m);
    check_measuring("cpu", m);
    check_samples("ref", m, 0);
    check_samples("cpu", m, 1e-5);
    check_recomputing("ref", m);
    check_recomputing("cpu", m);
    shoal_model_destroy(m);
  }
  static const struct {
    const char *name, *options;
  } zoo[] = { { "resnet20", "" }, { "vgg16", "model.width=0.1" }, { "mlp", "model.widths=[65,33] model.norm=batch" } };
  for (int i = 0; i < 3; i++) {
    shoal_model *m = rig_model(zoo[i].name, zoo[i].options, &image, 10);
    check_announcements("cpu", m);
    compare_backends(m, 3, 1e-3);
    check_samples("cpu", m, 1e-5);
    check_recomputing("cpu", m);
    shoal_model_destroy(m);
  }
  shoal_model *gpt = rig_model("gpt", "model.width=16 model.heads=2 model.depth=3 model.tied=true model.dropout=0.2",
                               &SHOAL_SHAPE(12), 11);
  check_recomputing("ref", gpt);
  check_recomputing("cpu", gpt);
  shoal_model_destroy(gpt);
  for (int depth = 2; depth < 12; depth += 3) {
    check_recomputed_bytes("ref", depth);
    check_recomputed_bytes("cpu", depth);
  }
  check_modes();
  check_addresses();
  check_two_sets("ref");
  check_two_sets("cpu");
  check_tied("ref", 0);
  check_tied("cpu", 1e-6);
  check_labels();
  check_cache();
  check_spans_and_outputs();
  check_refusals();
  return check_done();
}
