/* The second cut: disjoint index sets of hidden units, channels, residual blocks.
 *
 * A narrow network computes what the full one computes with all other units masked to zero; dispatch and collect move
 * every number to its place and back. */
#include "base/mem.h"
#include "base/rng.h"
#include "nn_rig.h"

enum { PARTS = 3, MAX_SPACES = 16 };

/* The units of every space dealt to PARTS parts by a permutation, ascending or in the order drawn. */
typedef struct {
  int64_t *keep[PARTS][MAX_SPACES], count[PARTS][MAX_SPACES];
} partition;

static int compare_i64(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void draw(partition *d, const shoal_model *m, bool ascending)
{
  memset(d, 0, sizeof *d);
  for (int s = 0; s < m->spaces; s++) {
    shoal_perm perm;
    uint64_t n = (uint64_t)m->space_size[s];
    shoal_perm_init(&perm, 17, SHOAL_RNG_TEST, (uint64_t)s, n);
    for (int p = 0; p < PARTS; p++) d->keep[p][s] = malloc(n * sizeof **d->keep[p]);
    for (uint64_t i = 0; i < n; i++) {
      int p = (int)(i % PARTS);
      d->keep[p][s][d->count[p][s]++] = (int64_t)shoal_perm_at(&perm, i);
    }
    for (int p = 0; p < PARTS && ascending; p++)
      qsort(d->keep[p][s], (size_t)d->count[p][s], sizeof(int64_t), compare_i64);
  }
}

static void release(partition *d)
{
  for (int p = 0; p < PARTS; p++)
    for (int s = 0; s < MAX_SPACES; s++) free(d->keep[p][s]);
}

static shoal_model *narrow(const shoal_model *m, partition *d, int p)
{
  shoal_model *part = NULL;
  REQUIRE(shoal_model_narrow(m, (const int64_t *const *)d->keep[p], d->count[p], NULL, &part) == SHOAL_OK, "narrow %s",
          m->name);
  return part;
}

/* Output of the part against that of the full network which holds the part's numbers and zeros elsewhere: the scale and
 * shift (or weights and bias) of a masked unit are zero, so it is zero behind its norm.  Ascending order leaves the
 * order of the sums as it is, so reference results are the same bits. */
static void check_function(const char *backend, const shoal_model *m, shoal_plan_mode mode, bool ascending,
                           double bound)
{
  partition d;
  draw(&d, m, ascending);
  for (int i = 0; i < m->nodes; i++) /* a layer norm mixes the units of its space: leave that whole */
    for (int p = 0; p < PARTS && m->node[i].kind == SHOAL_OP_LAYERNORM && m->node[i].space >= 0; p++) {
      free(d.keep[p][m->node[i].space]);
      d.keep[p][m->node[i].space] = NULL;
    }
  for (int p = 0; p < PARTS; p++) {
    shoal_model *part = narrow(m, &d, p);
    rig full, small;
    rig_open(&full, backend, m, 4, mode);
    rig_open(&small, backend, part, 4, mode);
    CHECK_OK(shoal_model_gather(ref_backend(), m, part, full.params->w, small.params->w));
    CHECK_OK(shoal_model_gather_stats(ref_backend(), m, part, full.params->stats, small.params->stats));
    memset(full.params->w, 0, m->weights * sizeof(float));
    CHECK_OK(shoal_model_scatter(ref_backend(), m, part, small.params->w, full.params->w));
    double loss = rig_forward(&full) - rig_forward(&small);
    float *a = rig_output(&full, m->nodes - 1), *b = rig_output(&small, part->nodes - 1);
    double error = rig_difference(b, a, (size_t)(4 * m->classes * shoal_model_labels(m)));
    CHECK_LE(error, bound, "%s part %d on %s", m->name, p, backend);
    CHECK_LE(fabs(loss), bound * 10, "%s part %d on %s", m->name, p, backend);
    free(a);
    free(b);
    rig_close(&full);
    rig_close(&small);
    shoal_model_destroy(part);
  }
  release(&d);
}

/* Every number says where it is: W[i][j] = 1000 i + j + k/16; the part must see the full rows and columns it asked for. */
static void check_moves(const shoal_model *m)
{
  partition d;
  draw(&d, m, false);
  float *full = calloc(m->weights, sizeof *full), *back = calloc(m->weights, sizeof *back);
  int *writes = calloc(m->weights, sizeof *writes);
  float *fresh = malloc(m->weights * sizeof *fresh);
  CHECK_OK(shoal_model_init(ref_backend(), m, 21, fresh, NULL));
  for (size_t i = 0; i < m->weights; i++) full[i] = (float)i; /* exact up to 2^24 */
  memcpy(back, full, m->weights * sizeof *back);
  for (int p = 0; p < PARTS; p++) {
    shoal_model *part = narrow(m, &d, p);
    float *w = malloc(part->weights * sizeof *w), *start = malloc(part->weights * sizeof *w);
    float *ones = malloc(part->weights * sizeof *w), *mark = calloc(m->weights, sizeof *mark);
    CHECK_OK(shoal_model_gather(ref_backend(), m, part, full, w));
    for (int k = 0; k < part->params; k++) {
      const shoal_param *q = &part->param[k], *f = &m->param[q->full_id];
      int64_t cols = q->shape.ndim > 1 ? q->shape.dim[1] : 1, rest = (int64_t)q->count / q->shape.dim[0] / cols;
      CHECK_STR(q->name, f->name);
      CHECK_EQ(q->fan_in, f->fan_in);
      for (int64_t i = 0; i < (int64_t)q->count; i++) {
        int64_t r = i / (cols * rest), c = i / rest % cols, full_cols = f->shape.ndim > 1 ? f->shape.dim[1] : 1;
        int64_t row = q->rows ? q->rows[r] : r, col = q->cols ? q->cols[c] : c;
        size_t want = f->offset + (size_t)((row * full_cols + col) * rest + i % rest);
        CHECK_EQ(w[q->offset + (size_t)i], (float)want, "%s[%lld]", q->name, (long long)i);
      }
    }
    CHECK_OK(shoal_model_scatter(ref_backend(), m, part, w, back));
    for (size_t i = 0; i < part->weights; i++) ones[i] = 1;
    CHECK_OK(shoal_model_scatter(ref_backend(), m, part, ones, mark));
    for (size_t i = 0; i < m->weights; i++) writes[i] += mark[i] == 1;
    CHECK_OK(shoal_model_init(ref_backend(), part, 21, start, NULL));
    CHECK_OK(shoal_model_gather(ref_backend(), m, part, fresh, w));
    CHECK_BYTES(start, w, part->weights * sizeof *w, "%s part %d starts elsewhere", m->name, p);
    free(w);
    free(start);
    free(ones);
    free(mark);
    shoal_model_destroy(part);
  }
  CHECK_BYTES(back, full, m->weights * sizeof *back, "%s: round trip", m->name);
  /* one unit space at most on each side of a weight: written once or never where both are cut, once where one is, by all
   * parts where none is */
  for (int k = 0; k < m->params; k++) {
    const shoal_param *p = &m->param[k];
    const shoal_node *n = &m->node[p->node];
    bool rows = n->space >= 0, cols = p->shape.ndim > 1 && n->in[0] >= 0 && m->node[n->in[0]].space >= 0;
    for (size_t i = 0; i < p->count; i++) {
      int got = writes[p->offset + i];
      if (rows && cols)
        CHECK_LE(got, 1, "%s[%zu]", p->name, i);
      else
        CHECK_EQ(got, rows || cols ? 1 : PARTS, "%s[%zu]", p->name, i);
    }
  }
  free(full);
  free(back);
  free(writes);
  free(fresh);
  release(&d);
}

/* A narrow network trains: its gradients agree with differences. */
static void check_training(const shoal_model *m)
{
  partition d;
  draw(&d, m, false);
  shoal_model *part = narrow(m, &d, 0);
  rig r;
  rig_open(&r, "ref", part, 4, SHOAL_PLAN_TRAIN);
  rig_check_gradients(&r, m->name);
  rig_close(&r);
  shoal_model_destroy(part);
  release(&d);
}

/* Odd numbers of channels have paths of their own through oneDNN: the gradients are those of the reference. */
static void check_backends(const shoal_model *m)
{
  partition d;
  draw(&d, m, true);
  shoal_model *part = narrow(m, &d, 0);
  rig ref, cpu;
  rig_open(&ref, "ref", part, 4, SHOAL_PLAN_TRAIN);
  rig_open(&cpu, "cpu", part, 4, SHOAL_PLAN_TRAIN);
  double loss = rig_step(&ref) - rig_step(&cpu);
  for (int k = 0; k < part->params; k++) {
    const shoal_param *p = &part->param[k];
    double e = rig_difference(cpu.params->g + p->offset, ref.params->g + p->offset, p->count);
    CHECK_LT(e, 2e-3, "%s of %s", p->name, m->name);
  }
  CHECK_LT(fabs(loss), 1e-4, "%s: losses differ by %g", m->name, loss);
  rig_close(&ref);
  rig_close(&cpu);
  shoal_model_destroy(part);
  release(&d);
}

/* Narrowing a narrow network composes: the same as picking the units at once. */
static void check_twice(const shoal_model *m)
{
  const int64_t first[] = { 3, 1, 0 }, second[] = { 2, 0 }, both[] = { 0, 3 };
  const int64_t *keep[MAX_SPACES] = { first };
  const int64_t count[MAX_SPACES] = { 3 };
  shoal_model *a, *ab, *once;
  CHECK_OK(shoal_model_narrow(m, keep, count, NULL, &a));
  keep[0] = second;
  CHECK_OK(shoal_model_narrow(a, keep, (const int64_t[MAX_SPACES]){ 2 }, NULL, &ab));
  keep[0] = both;
  CHECK_OK(shoal_model_narrow(m, keep, (const int64_t[MAX_SPACES]){ 2 }, NULL, &once));
  float *x = malloc(ab->weights * sizeof *x), *y = malloc(ab->weights * sizeof *y);
  CHECK_OK(shoal_model_init(ref_backend(), ab, 4, x, NULL));
  CHECK_OK(shoal_model_init(ref_backend(), once, 4, y, NULL));
  if (CHECK_EQ(ab->weights, once->weights, "narrow of narrow")) CHECK_BYTES(x, y, ab->weights * sizeof *x);
  free(x);
  free(y);
  shoal_model_destroy(a);
  shoal_model_destroy(ab);
  shoal_model_destroy(once);
}

/* A dropped block is the identity: the same as a block whose last scale and shift are zero. */
static void check_dropped(const shoal_model *m, const char *last_norm, int block)
{
  bool keep[16];
  for (int i = 0; i < 16; i++) keep[i] = i != block;
  shoal_model *part = NULL;
  REQUIRE(shoal_model_narrow(m, NULL, NULL, keep, &part) == SHOAL_OK, "drop block %d", block);
  CHECK_EQ(part->residuals, m->residuals - 1);
  CHECK_EQ(part->nodes, m->nodes - 5);
  for (int mode = 0; mode < 2; mode++) {
    rig full, small;
    rig_open(&full, "ref", m, 3, mode ? SHOAL_PLAN_EVAL : SHOAL_PLAN_TRAIN);
    rig_open(&small, "ref", part, 3, mode ? SHOAL_PLAN_EVAL : SHOAL_PLAN_TRAIN);
    CHECK_OK(shoal_model_gather(ref_backend(), m, part, full.params->w, small.params->w));
    CHECK_OK(shoal_model_gather_stats(ref_backend(), m, part, full.params->stats, small.params->stats));
    for (int i = 0; i < m->params; i++)
      if (strncmp(m->param[i].name, last_norm, strlen(last_norm)) == 0)
        memset(full.params->w + m->param[i].offset, 0, m->param[i].count * sizeof(float));
    rig_forward(&full);
    rig_forward(&small);
    float *a = rig_output(&full, m->nodes - 1), *b = rig_output(&small, part->nodes - 1);
    CHECK_BYTES(a, b, (size_t)(3 * m->classes) * sizeof *a, "%s without block %d: error %g", m->name, block,
                rig_difference(b, a, (size_t)(3 * m->classes)));
    free(a);
    free(b);
    rig_close(&full);
    rig_close(&small);
  }
  shoal_model_destroy(part);
}

static void check_refusals(const shoal_model *m)
{
  shoal_model *none = NULL;
  const int64_t twice[] = { 1, 1 }, high[] = { 4 };
  const int64_t *keep[MAX_SPACES] = { twice };
  CHECK_STATUS(shoal_model_narrow(m, keep, (const int64_t[]){ 2, 0, 0, 0 }, NULL, &none), SHOAL_ERR_ARG,
               "a unit twice");
  CHECK_STATUS(shoal_model_narrow(m, keep, (const int64_t[]){ 0, 0, 0, 0 }, NULL, &none), SHOAL_ERR_ARG, "no unit");
  keep[0] = high;
  CHECK_STATUS(shoal_model_narrow(m, keep, (const int64_t[]){ 1, 0, 0, 0 }, NULL, &none), SHOAL_ERR_ARG, "unit 4 of 4");
  CHECK(shoal_model_residual_can_drop(m, 0), "which blocks can go");
  CHECK(!shoal_model_residual_can_drop(m, 1));
  CHECK_STATUS(shoal_model_narrow(m, NULL, NULL, (const bool[]){ true, false }, &none), SHOAL_ERR_ARG);
  CHECK(!none);
  CHECK_HAS(check_error(), "changes the shape");
}

int main(void)
{
  const shoal_shape image = { 3, { 3, 32, 32 } };
  static const struct {
    const char *name, *options;
  } mlps[] = { { "mlp", "model.widths=[11,7]" },
               { "mlp", "model.widths=[11,7] model.norm=batch" },
               { "mlp", "model.widths=[9,6,5] model.activation=gelu" } };
  for (int i = 0; i < 3; i++) {
    shoal_model *m = rig_model(mlps[i].name, mlps[i].options, &SHOAL_SHAPE(2, 3, 3), 4);
    check_function("ref", m, SHOAL_PLAN_TRAIN, true, 0);
    check_function("ref", m, SHOAL_PLAN_EVAL, true, 0);
    check_function("ref", m, SHOAL_PLAN_EVAL, false, 1e-6);
    check_moves(m);
    shoal_model_destroy(m);
  }
  shoal_model *m = rig_network("residual");
  check_function("ref", m, SHOAL_PLAN_TRAIN, true, 0);
  check_function("ref", m, SHOAL_PLAN_EVAL, false, 1e-6);
  check_moves(m);
  check_training(m);
  check_twice(m);
  check_dropped(m, "a.bn2.", 0);
  check_refusals(m);
  shoal_model_destroy(m);
  m = rig_network("chain"); /* channels behind flatten */
  check_function("ref", m, SHOAL_PLAN_EVAL, true, 0);
  check_function("ref", m, SHOAL_PLAN_EVAL, false, 1e-5); /* the layer norm magnifies rounding */
  check_moves(m);
  check_training(m);
  shoal_model_destroy(m);
  m = rig_network("groups");
  CHECK_EQ(m->spaces, 1, "what a convolution of two groups or a reshape reads and gives is whole");
  check_function("ref", m, SHOAL_PLAN_TRAIN, true, 0);
  check_function("ref", m, SHOAL_PLAN_EVAL, false, 1e-6);
  check_moves(m);
  check_training(m);
  shoal_model_destroy(m);
  for (int k = 0; k < 2; k++) { /* of a transformer heads, and units behind them; a head of attention keeps its width */
    const char *options = "model.width=12 model.heads=4 model.depth=2";
    m = k ? rig_model("vit", options, &SHOAL_SHAPE(2, 8, 4), 4) : rig_model("gpt", options, &SHOAL_SHAPE(5), 11);
    CHECK_EQ(m->spaces, 4, "%s: heads and units of each block, the stream is whole", m->name);
    for (int s = 0; s < m->spaces; s++) CHECK_EQ(m->space_size[s], s % 2 ? 48 : 4, "%s, space %d", m->name, s);
    check_function("ref", m, SHOAL_PLAN_TRAIN, true, 0);
    check_function("ref", m, SHOAL_PLAN_EVAL, false, 1e-5);
    check_moves(m);
    check_training(m);
    shoal_model_destroy(m);
  }
  m = rig_network("wide");
  check_function("ref", m, SHOAL_PLAN_TRAIN, true, 0);
  check_moves(m);
  check_training(m);
  shoal_model_destroy(m);
  m = rig_model("vgg16", "model.width=0.08", &image, 10);
  check_function("cpu", m, SHOAL_PLAN_EVAL, false, 1e-5);
  check_moves(m);
  shoal_model_destroy(m);
  m = rig_model("resnet20", "", &image, 10);
  check_function("cpu", m, SHOAL_PLAN_TRAIN, false, 1e-4);
  check_backends(m);
  check_dropped(m, "layer1.1.bn2.", 1);
  shoal_model_destroy(m);
  return check_done();
}
