/* Heads: shapes, weights and multiply-accumulates against tables, gradients behind slices, and the first step of a head that
 * starts from zero.  And joined models: an arena that is the arenas of its parts. */
#include "base/mem.h"
#include "nn/heads.h"
#include "nn_rig.h"

static shoal_model *head(shoal_head kind, const shoal_shape *input, int64_t classes)
{
  shoal_model *h = NULL;
  REQUIRE(shoal_head_build(kind, input, classes, 1, &h) == SHOAL_OK, "head %s", shoal_head_name(kind));
  return h;
}

/* Multiplying weights only: the tables leave out biases and norms. */
static size_t matrices(const shoal_model *m)
{
  size_t n = 0;
  for (int i = 0; i < m->params; i++) n += m->param[i].decay ? m->param[i].count : 0;
  return n;
}

/* Costs of heads: boundary of side H with C channels, ten classes. */
static void check_table(void)
{
  static const struct {
    int64_t side, channels;
    double macs;
    size_t weights;
  } rows[] = { { 32, 128, 3937280, 840704 }, { 16, 256, 6301696, 3352576 }, { 8, 512, 15749120, 13389824 } };
  for (size_t i = 0; i < SHOAL_COUNT(rows); i++) {
    shoal_shape in = SHOAL_SHAPE(rows[i].channels, rows[i].side, rows[i].side);
    shoal_model *h = head(SHOAL_HEAD_MLP_SR, &in, 10);
    CHECK_EQ(shoal_model_macs(h), rows[i].macs, "mlp-sr at %d", (int)rows[i].side);
    CHECK_EQ(matrices(h), rows[i].weights, "mlp-sr at %d", (int)rows[i].side);
    shoal_model_destroy(h);
    h = head(SHOAL_HEAD_LINEAR, &in, 10);
    CHECK_EQ(h->weights, (size_t)rows[i].channels * 10 + 10);
    shoal_model_destroy(h);
  }
}

/* Inputs of the one fc: 4096 at most, height halved first. */
static void check_nokland(void)
{
  static const struct {
    int64_t c, h, w;
    size_t inputs;
  } rows[] = { { 128, 32, 32, 128 * 4 * 8 }, { 256, 16, 16, 256 * 4 * 4 }, { 512, 8, 8, 512 * 2 * 4 },
               { 16, 16, 16, 4096 },         { 5000, 2, 2, 5000 },         { 100, 7, 7, 100 * 4 * 7 } };
  for (size_t i = 0; i < SHOAL_COUNT(rows); i++) {
    shoal_model *h = head(SHOAL_HEAD_NOKLAND, &SHOAL_SHAPE(rows[i].c, rows[i].h, rows[i].w), 10);
    CHECK_EQ(matrices(h), 10 * rows[i].inputs, "%d x %d x %d: %zu inputs", (int)rows[i].c, (int)rows[i].h,
             (int)rows[i].w, matrices(h) / 10);
    shoal_model_destroy(h);
  }
}

static void check_flat(void)
{
  for (shoal_head kind = SHOAL_HEAD_AUTO; kind < SHOAL_HEADS; kind++) {
    shoal_model *h = head(kind, &SHOAL_SHAPE(30), 7);
    CHECK_EQ(h->nodes, 1, "%s behind a fully connected layer", shoal_head_name(kind));
    CHECK_EQ(h->weights, 7 * 31, "%s behind a fully connected layer", shoal_head_name(kind));
    CHECK_EQ(shoal_head_from_name(shoal_head_name(kind)), kind);
    shoal_model_destroy(h);
  }
  shoal_model *h = head(SHOAL_HEAD_AUTO, &SHOAL_SHAPE(8, 4, 4), 7);
  CHECK_STR(h->name, "mlp-sr");
  shoal_model_destroy(h);
  h = NULL;
  CHECK_STATUS(shoal_head_build(SHOAL_HEAD_AUTO, &SHOAL_SHAPE(3, 3, 3, 3), 7, 1, &h), SHOAL_ERR_ARG, "four dimensions");
  CHECK(!h);
  CHECK_EQ(shoal_head_from_name("mlp"), SHOAL_HEADS, "unknown name");
}

/* A head is a network: every gradient against differences of the loss, on planes of any size, also odd ones. */
static void check_gradients(shoal_head kind, const shoal_shape *input, int64_t labels)
{
  shoal_model *h = NULL;
  REQUIRE(shoal_head_build(kind, input, 5, labels, &h) == SHOAL_OK, "head %s", shoal_head_name(kind));
  CHECK_EQ(shoal_model_labels(h), labels, "of a sample");
  rig r;
  char what[64];
  snprintf(what, sizeof what, "%s on %d dimensions, side %d", shoal_head_name(kind), input->ndim, (int)input->dim[1]);
  rig_open(&r, "ref", h, 6, SHOAL_PLAN_TRAIN);
  rig_check_gradients(&r, what);
  rig_close(&r);
  shoal_model_destroy(h);
}

/* A head of zeros hands no gradient back in the first step, and learns itself. */
static void check_zero_start(void)
{
  shoal_model *m = rig_model("mlp", "model.widths=[9,8]", &SHOAL_SHAPE(12), 4), *h, *part;
  h = head(SHOAL_HEAD_NOKLAND, &SHOAL_SHAPE(9), 4);
  REQUIRE(shoal_model_slice(m, 0, 1, h, &part) == SHOAL_OK, "slice");
  rig r;
  rig_open(&r, "ref", part, 5, SHOAL_PLAN_TRAIN);
  CHECK_OK(shoal_model_init(ref_backend(), part, 3, r.params->w, r.params->stats));
  r.params->version++;
  rig_step(&r);
  double own = 0, heads = 0;
  for (size_t i = 0; i < part->weights; i++) *(i < part->weights - h->weights ? &own : &heads) += fabs(r.params->g[i]);
  CHECK_EQ(own, 0);
  CHECK_GT(heads, 0);
  rig_close(&r);
  shoal_model_destroy(part);
  shoal_model_destroy(h);
  shoal_model_destroy(m);
}

static void check_join(void)
{
  shoal_model *m = rig_model("resnet20", "", &SHOAL_SHAPE(3, 8, 8), 3), *parts[3], *joined, *h;
  const int bounds[] = { 0, 3, 7, m->units };
  size_t at[3], stats_at[3], used = 0;
  for (int i = 0; i < 3; i++) {
    int last = 0;
    while (last + 1 < m->nodes && m->node[last + 1].unit < bounds[i + 1]) last++;
    h = i < 2 ? head(SHOAL_HEAD_LINEAR, &m->node[last].out, 3) : NULL;
    REQUIRE(shoal_model_slice(m, bounds[i], bounds[i + 1], h, &parts[i]) == SHOAL_OK, "slice %d", i);
    shoal_model_destroy(h);
  }
  REQUIRE(shoal_model_join((const shoal_model *const *)parts, 3, at, stats_at, &joined) == SHOAL_OK, "join");
  float *w = calloc(joined->weights, sizeof *w), *s = calloc(joined->stats, sizeof *s);
  float *full = malloc(m->weights * sizeof *full), *full_s = malloc(m->stats * sizeof *full_s);
  CHECK_OK(shoal_model_init(ref_backend(), joined, 5, w, s));
  CHECK_OK(shoal_model_init(ref_backend(), m, 5, full, full_s));
  for (int i = 0; i < 3; i++) { /* each piece is what the part alone would start with */
    float *own = malloc(parts[i]->weights * sizeof *own), *own_s = malloc(parts[i]->stats * sizeof *own_s);
    CHECK_OK(shoal_model_init(ref_backend(), parts[i], 5, own, own_s));
    CHECK_EQ(at[i] % 16, 0, "weights of part %d", i);
    CHECK_BYTES(own, w + at[i], parts[i]->weights * sizeof *own, "weights of part %d", i);
    CHECK_BYTES(own_s, s + stats_at[i], parts[i]->stats * sizeof *own_s, "statistics of part %d", i);
    free(own);
    free(own_s);
  }
  for (int i = 0; i < joined->runs; i++) used += joined->run[i].count;
  CHECK_EQ(used, parts[0]->weights + parts[1]->weights + parts[2]->weights);
  float *back = calloc(m->weights, sizeof *back), *back_s = calloc(m->stats, sizeof *back_s);
  for (size_t i = 0; i < joined->stats; i++) s[i] += 0.5f;
  for (size_t i = 0; i < m->stats; i++) full_s[i] += 0.5f;
  CHECK_OK(shoal_model_scatter(ref_backend(), m, joined, w, back));
  CHECK_OK(shoal_model_scatter_stats(ref_backend(), m, joined, s, back_s));
  CHECK_BYTES(full, back, m->weights * sizeof *full, "scattered weights");
  CHECK_BYTES(full_s, back_s, m->stats * sizeof *full_s, "scattered statistics");
  shoal_backend *b;
  shoal_plan *plan = NULL;
  CHECK_OK(shoal_backend_open("ref", 1, &b));
  CHECK_STATUS(shoal_plan_create(b, joined, 2, SHOAL_PLAN_EVAL, &plan), SHOAL_ERR_ARG, "a plan of an arena");
  CHECK(!plan);
  shoal_backend_close(b);
  for (int i = 0; i < 3; i++) shoal_model_destroy(parts[i]);
  free(w), free(s), free(full), free(full_s), free(back), free(back_s);
  shoal_model_destroy(joined);
  shoal_model_destroy(m);
}

int main(void)
{
  check_table();
  check_nokland();
  check_flat();
  check_gradients(SHOAL_HEAD_MLP_SR, &SHOAL_SHAPE(4, 8, 8), 1);
  check_gradients(SHOAL_HEAD_MLP_SR, &SHOAL_SHAPE(3, 14, 14), 1);
  check_gradients(SHOAL_HEAD_MLP_SR, &SHOAL_SHAPE(5, 4, 7), 1);
  check_gradients(SHOAL_HEAD_NOKLAND, &SHOAL_SHAPE(90, 7, 7), 1);
  check_gradients(SHOAL_HEAD_LINEAR, &SHOAL_SHAPE(6, 5, 5), 1);
  check_gradients(SHOAL_HEAD_AUTO, &SHOAL_SHAPE(4, 6), 4); /* of tokens: a label for each, one for all */
  check_gradients(SHOAL_HEAD_AUTO, &SHOAL_SHAPE(4, 6), 1);
  check_zero_start();
  check_join();
  return check_done();
}
