/* The first cut: layer ranges.  Slices run one after another are the whole network, bit for bit, dropout and batch
 * statistics included; a slice with a head trains like any network; arenas of slices are pieces of the full arena. */
#include "nn_rig.h"

static shoal_model *slice(const shoal_model *m, int first, int last, const shoal_model *head)
{
  shoal_model *s = NULL;
  REQUIRE(shoal_model_slice(m, first, last, head, &s) == SHOAL_OK, "slice [%d,%d) of %s", first, last, m->name);
  return s;
}

/* Part of an open rig: same weights, same address, `x` the boundary. */
static float *run_part(const rig *whole, const shoal_model *part, const float *x, shoal_plan_mode mode)
{
  shoal_params *params;
  shoal_plan *plan;
  shoal_score score = { 0 };
  REQUIRE(shoal_params_create(whole->b, part, NULL, &params) == SHOAL_OK, "params");
  CHECK_OK(shoal_model_gather(ref_backend(), whole->m, part, whole->params->w, params->w));
  CHECK_OK(shoal_model_gather_stats(ref_backend(), whole->m, part, whole->params->stats, params->stats));
  REQUIRE(shoal_plan_create(whole->b, part, whole->batch, mode, &plan) == SHOAL_OK, "plan");
  CHECK_OK(shoal_plan_forward(plan, params, &whole->at, x, NULL, 0, &score));
  float *out = malloc((size_t)(whole->batch * shoal_shape_count(&part->node[part->nodes - 1].out)) * sizeof *out);
  CHECK_OK(shoal_plan_output(plan, part->nodes - 1, out));
  shoal_plan_destroy(plan);
  shoal_params_destroy(whole->b, params);
  return out;
}

/* All cut points into two parts, in evaluation.  Backend cpu may choose another algorithm where a boundary arrives
 * dense, so it has a bound above zero. */
static void check_composition(const char *backend, double bound, const shoal_model *m)
{
  rig r;
  rig_open(&r, backend, m, 3, SHOAL_PLAN_EVAL);
  rig_forward(&r);
  float *want = rig_output(&r, m->nodes - 1);
  for (int cut = 1; cut < m->units; cut++) {
    shoal_model *a = slice(m, 0, cut, NULL), *b = slice(m, cut, m->units, NULL);
    CHECK_EQ(a->weights + b->weights, m->weights, "%s cut at %d", m->name, cut);
    CHECK_EQ(a->stats + b->stats, m->stats, "%s cut at %d", m->name, cut);
    float *h = run_part(&r, a, r.x, SHOAL_PLAN_EVAL), *y = run_part(&r, b, h, SHOAL_PLAN_EVAL);
    double error = rig_difference(y, want, (size_t)(r.batch * m->classes));
    CHECK_LE(error, bound, "%s on %s cut at %d", m->name, backend, cut);
    free(h);
    free(y);
    shoal_model_destroy(a);
    shoal_model_destroy(b);
  }
  free(want);
  rig_close(&r);
}

static shoal_model *linear_head(const shoal_shape *input, int64_t classes)
{
  shoal_model *h;
  REQUIRE(shoal_model_create("head", input, classes, &h) == SHOAL_OK, "head");
  shoal_node n = shoal_node_make(SHOAL_OP_GLOBALPOOL, "pool", -1);
  if (input->ndim == 3) CHECK_OK(shoal_model_add(h, &n, SHOAL_INIT_ZERO, NULL));
  n = shoal_node_make(SHOAL_OP_LINEAR, "fc", input->ndim == 3 ? 0 : -1);
  n.out.dim[0] = classes;
  n.bias = true;
  CHECK_OK(shoal_model_add(h, &n, SHOAL_INIT_UNIFORM, NULL));
  CHECK_OK(shoal_model_finish(h));
  return h;
}

static int boundary_of(const shoal_model *m, int last)
{
  int node = -1;
  while (node + 1 < m->nodes && m->node[node + 1].unit < last) node++;
  return node;
}

/* Units [first, last) with a head, in training mode, fed by the whole network: what it hands on is what the whole
 * network computes there, dropout and batch statistics included; its gradient agrees with differences of its own loss. */
static void check_head(rig *whole, int first, int last)
{
  const shoal_model *m = whole->m;
  int before = boundary_of(m, first), boundary = boundary_of(m, last);
  shoal_model *head = linear_head(&m->node[boundary].out, m->classes), *part = slice(m, first, last, head);
  const shoal_param *own = &part->param[part->params - 2];
  for (int i = 0; i < part->nodes; i++)
    for (int k = 0; k < i; k++)
      CHECK_NE(part->node[i].stream, part->node[k].stream, "%s and %s drop alike", part->node[i].name,
               part->node[k].name);
  CHECK_STR(own->name, "head.fc.weight");
  CHECK_EQ(own->family, last);
  rig r;
  rig_open(&r, "ref", part, whole->batch, SHOAL_PLAN_TRAIN);
  CHECK_OK(shoal_model_gather(ref_backend(), m, part, whole->params->w, r.params->w));
  rig_forward(whole);
  if (before >= 0) CHECK_OK(shoal_plan_output(whole->plan, before, r.x));
  rig_forward(&r);
  float *a = rig_output(&r, boundary - before - 1), *b = rig_output(whole, boundary);
  CHECK_BYTES(a, b, (size_t)(r.batch * shoal_shape_count(&m->node[boundary].out)) * sizeof *a,
              "%s: output of units [%d,%d)", m->name, first, last);
  free(a);
  free(b);
  char what[128];
  snprintf(what, sizeof what, "%s [%d,%d) and a head", m->name, first, last);
  rig_check_gradients(&r, what);
  rig_close(&r);
  shoal_model_destroy(part);
  shoal_model_destroy(head);
}

static void check_heads(shoal_model *m)
{
  rig whole;
  for (int i = 0; i < m->nodes; i++) m->node[i].keep = true;
  rig_open(&whole, "ref", m, 4, SHOAL_PLAN_TRAIN);
  for (int last = 1; last < m->units; last++)
    for (int first = 0; first < last; first++) check_head(&whole, first, last);
  rig_close(&whole);
}

/* Slices start with the numbers of the full model; heads of different depth with different ones. */
static void check_init(const shoal_model *m)
{
  float *full = malloc(m->weights * sizeof *full), *back = calloc(m->weights, sizeof *back), *heads[2];
  CHECK_OK(shoal_model_init(ref_backend(), m, 9, full, NULL));
  for (int cut = 0; cut < m->units; cut++) {
    shoal_model *s = slice(m, cut, cut + 1, NULL);
    float *w = malloc((s->weights + 1) * sizeof *w);
    CHECK_OK(shoal_model_init(ref_backend(), s, 9, w, NULL));
    CHECK_OK(shoal_model_scatter(ref_backend(), m, s, w, back));
    free(w);
    shoal_model_destroy(s);
  }
  CHECK_BYTES(full, back, m->weights * sizeof *full, "%s: slices start elsewhere", m->name);
  shoal_model *head = linear_head(&m->node[1].out, m->classes);
  for (int k = 0; k < 2; k++) { /* bn1 of "residual" and a.add have the same shape */
    shoal_model *s = slice(m, 0, k + 1, head);
    float *w = malloc(s->weights * sizeof *w);
    CHECK_OK(shoal_model_init(ref_backend(), s, 9, w, NULL));
    heads[k] = malloc(head->weights * sizeof *w);
    memcpy(heads[k], w + s->weights - head->weights, head->weights * sizeof *w);
    free(w);
    shoal_model_destroy(s);
  }
  CHECK(memcmp(heads[0], heads[1], head->weights * sizeof(float)) != 0, "two heads start equal");
  free(heads[0]);
  free(heads[1]);
  free(full);
  free(back);
  shoal_model_destroy(head);
}

static void check_refusals(const shoal_model *m)
{
  shoal_model *none = NULL, *head = linear_head(&SHOAL_SHAPE(9), 3);
  CHECK_STATUS(shoal_model_slice(m, 1, 1, NULL, &none), SHOAL_ERR_ARG, "empty slice");
  CHECK_STATUS(shoal_model_slice(m, 0, m->units + 1, NULL, &none), SHOAL_ERR_ARG, "slice past the end");
  CHECK_STATUS(shoal_model_slice(m, 0, 1, head, &none), SHOAL_ERR_ARG, "head of another shape");
  CHECK(!none);
  shoal_model *s = slice(m, 0, 1, NULL);
  shoal_backend *b;
  shoal_plan *plan = NULL;
  CHECK_OK(shoal_backend_open("ref", 1, &b));
  CHECK_STATUS(shoal_plan_create(b, s, 2, SHOAL_PLAN_TRAIN, &plan), SHOAL_ERR_ARG, "training without a head");
  CHECK(!plan);
  shoal_backend_close(b);
  shoal_model_destroy(s);
  shoal_model_destroy(head);
}

int main(void)
{
  static const char *const networks[] = { "chain", "residual", "forks", "branches", "groups" };
  for (int i = 0; i < 5; i++) {
    shoal_model *m = rig_network(networks[i]);
    check_composition("ref", 0, m);
    check_heads(m);
    shoal_model_destroy(m);
  }
  static const struct {
    const char *name, *options;
  } zoo[] = { { "resnet20", "" }, { "vgg16", "model.width=0.06" }, { "mlp", "model.widths=[9,8] model.norm=layer" } };
  for (int i = 0; i < 3; i++) {
    shoal_model *m = rig_model(zoo[i].name, zoo[i].options, &SHOAL_SHAPE(3, 32, 32), 10);
    check_composition("cpu", 1e-5, m);
    shoal_model_destroy(m);
  }
  shoal_model *m = rig_network("tokens");
  check_composition("ref", 0, m);
  shoal_model_destroy(m);
  m = rig_network("tied");
  shoal_model *part;
  CHECK_STATUS(shoal_model_slice(m, 1, 2, NULL, &part), SHOAL_ERR_UNSUPPORTED, "a part without the table");
  CHECK_HAS(check_error(), "layer fc has the table of layer table as its weight");
  shoal_model_destroy(m);
  m = rig_network("residual");
  check_init(m);
  check_refusals(m);
  shoal_model_destroy(m);
  return check_done();
}
