/* The byte tables of independent subnets and of ResIST, by shape inference alone: parameters, sizes of subnets, bytes per
 * round (docs/methods/ist.md, Bytes). */
#include "method/ist/ist.h"
#include "nn_rig.h"

/* ---- Fully connected ---- */

/* linear, batch norm with scale and shift, relu; no biases; as the release builds them. */
static shoal_model *speech(const int64_t *widths, int hidden)
{
  shoal_model *m;
  int id = -1;
  REQUIRE(shoal_model_create("speech", &SHOAL_SHAPE(4096), 35, &m) == SHOAL_OK, "model");
  for (int l = 0; l <= hidden; l++) {
    char name[16];
    snprintf(name, sizeof name, "fc%d", l);
    shoal_node n = shoal_node_make(SHOAL_OP_LINEAR, name, id);
    n.out.dim[0] = l < hidden ? widths[l] : 35;
    REQUIRE(shoal_model_add(m, &n, SHOAL_INIT_UNIFORM, &id) == SHOAL_OK, "%s", name);
    if (l == hidden) break;
    snprintf(name, sizeof name, "bn%d", l);
    n = shoal_node_make(SHOAL_OP_BATCHNORM, name, id);
    n.relu = true;
    REQUIRE(shoal_model_add(m, &n, SHOAL_INIT_ONE, &id) == SHOAL_OK, "%s", name);
  }
  REQUIRE(shoal_model_finish(m) == SHOAL_OK, "finish");
  return m;
}

/* Bytes of one direction that leave a rank, over all ranks. */
static uint64_t moved(const shoal_ist_plan *p, const shoal_ist_deal *homes, const shoal_ist_deal *owners)
{
  uint64_t n = 0;
  for (int home = 0; home < p->o.parts; home++)
    for (int s = 0; s < p->o.parts; s++)
      if (s != home) n += shoal_ist_count(p, homes, owners, home, s);
  return 4 * n;
}

static void check_table(const int64_t *widths, int hidden, uint64_t params, const double *subnet_mb, double total_mb)
{
  shoal_model *m = speech(widths, hidden);
  CHECK_EQ(m->weights, params);
  for (int n = 2, i = 0; n <= 8; n *= 2, i++) {
    shoal_ist_plan *p = NULL;
    shoal_ist_deal *d = NULL;
    shoal_model *part = NULL;
    CHECK_OK(shoal_ist_plan_create(m, &(shoal_ist_options){ .parts = n, .stratified = true }, &p));
    CHECK_OK(shoal_ist_deal_create(p, &d));
    shoal_ist_draw(p, 1, d);
    CHECK_OK(shoal_ist_part(p, d, n - 1, &part));
    uint64_t P = 35 * (uint64_t)widths[hidden - 1] / (uint64_t)n, N = (uint64_t)n;
    for (int l = 0; l < hidden; l++)
      P += (uint64_t)(l ? widths[l] * widths[l - 1] / n : widths[l] * 4096) / N + 2 * (uint64_t)widths[l] / N;
    CHECK_EQ(part->weights, P);
    CHECK_NEAR((double)P * 4e-6, subnet_mb[i], 0.006);
    CHECK_EQ(2 * moved(p, d, d), 2 * (N - 1) * P * 4);
    if (n == 8) CHECK_NEAR(2e-6 * (double)moved(p, d, d), total_mb, 0.06);
    shoal_model_destroy(part);
    shoal_ist_deal_destroy(p, d);
    shoal_ist_plan_destroy(p);
  }
  shoal_model_destroy(m);
}

/* Amazon-670k: 135 909 inputs, e hidden units, 670 091 outputs; more than 2^31 numbers in the larger one.  Nothing of
 * the model is ever allocated. */
static void check_amazon(int64_t e, uint64_t params, const double *subnet_mb, double total_mb)
{
  shoal_model *m;
  int id = -1;
  REQUIRE(shoal_model_create("amazon", &SHOAL_SHAPE(135909), 670091, &m) == SHOAL_OK, "model");
  for (int l = 0; l < 2; l++) {
    shoal_node n = shoal_node_make(SHOAL_OP_LINEAR, l ? "fc2" : "fc1", id);
    n.out.dim[0] = l ? 670091 : e;
    REQUIRE(shoal_model_add(m, &n, SHOAL_INIT_UNIFORM, &id) == SHOAL_OK, "fc%d", l + 1);
  }
  REQUIRE(shoal_model_finish(m) == SHOAL_OK, "finish");
  CHECK_EQ(m->weights, params);
  for (int n = 2, i = 0; n <= 8; n *= 2, i++) {
    shoal_ist_plan *p = NULL;
    shoal_ist_deal *d = NULL;
    shoal_model *part = NULL;
    CHECK_OK(shoal_ist_plan_create(m, &(shoal_ist_options){ .parts = n, .stratified = true }, &p));
    CHECK_OK(shoal_ist_deal_create(p, &d));
    shoal_ist_draw(p, 1, d);
    CHECK_OK(shoal_ist_part(p, d, n - 1, &part));
    CHECK_EQ(part->weights, params / (uint64_t)n, "e %d, %d parts", (int)e, n);
    CHECK_NEAR((double)part->weights * 4e-6, subnet_mb[i], 0.06, "e %d, %d parts", (int)e, n);
    CHECK_EQ(2 * moved(p, d, d), 8 * (uint64_t)(n - 1) * part->weights, "%llu bytes",
             (unsigned long long)moved(p, d, d));
    if (n == 8) CHECK_NEAR(2e-6 * (double)moved(p, d, d), total_mb, 0.06);
    shoal_model_destroy(part);
    shoal_ist_deal_destroy(p, d);
    shoal_ist_plan_destroy(p);
  }
  shoal_model_destroy(m);
}

/* ---- ResIST's network and its Table 1 ---- */

typedef struct {
  shoal_model *m;
  int last, residual;
} tower;

static int conv(tower *t, const char *block, const char *what, int in, int64_t width, int kernel, int stride, int body)
{
  char name[SHOAL_NAME_MAX];
  snprintf(name, sizeof name, "%s.%s", block, what);
  shoal_node n = shoal_node_make(SHOAL_OP_CONV, name, in);
  n.out.dim[0] = width;
  for (int i = 0; i < 2; i++) n.kernel[i] = kernel, n.stride[i] = stride, n.pad[i] = kernel / 2;
  n.residual = body;
  REQUIRE(shoal_model_add(t->m, &n, SHOAL_INIT_KAIMING, &t->last) == SHOAL_OK, "%s", name);
  return t->last;
}

/* Pre-activation: batch norm, relu, convolution, twice; the norm of a block stands inside it. */
static void block(tower *t, const char *name, int64_t width, int stride, bool project)
{
  char norm[SHOAL_NAME_MAX];
  int in = t->last, body = t->residual++;
  for (int i = 0; i < 2; i++) {
    snprintf(norm, sizeof norm, "%s.bn%d", name, i);
    shoal_node n = shoal_node_make(SHOAL_OP_BATCHNORM, norm, t->last);
    n.relu = true;
    n.residual = body;
    REQUIRE(shoal_model_add(t->m, &n, SHOAL_INIT_ONE, &t->last) == SHOAL_OK, "%s", norm);
    conv(t, name, i ? "conv1" : "conv0", t->last, width, 3, i ? 1 : stride, body);
  }
  int out = t->last, shortcut = project ? conv(t, name, "shortcut", in, width, 1, stride, -1) : in;
  snprintf(norm, sizeof norm, "%s.add", name);
  shoal_node sum = shoal_node_make(SHOAL_OP_ADD, norm, out);
  sum.in[1] = shortcut;
  REQUIRE(shoal_model_add(t->m, &sum, SHOAL_INIT_ZERO, &t->last) == SHOAL_OK, "%s", norm);
}

static shoal_model *resist_network(const int blocks[4], int64_t width)
{
  tower t = { .last = -1 };
  REQUIRE(shoal_model_create("resnet101", &SHOAL_SHAPE(3, 32, 32), 100, &t.m) == SHOAL_OK, "model");
  conv(&t, "stem", "conv", -1, width, 3, 1, -1);
  for (int s = 0; s < 4; s++)
    for (int i = 0; i < blocks[s]; i++) {
      char name[32];
      snprintf(name, sizeof name, "section%d.%d", s + 1, i);
      block(&t, name, width << s, s && !i ? 2 : 1, s && !i);
    }
  shoal_node pool = shoal_node_make(SHOAL_OP_GLOBALPOOL, "pool", t.last);
  REQUIRE(shoal_model_add(t.m, &pool, SHOAL_INIT_ZERO, &t.last) == SHOAL_OK, "pool");
  shoal_node fc = shoal_node_make(SHOAL_OP_LINEAR, "fc", t.last);
  fc.out.dim[0] = 100;
  fc.bias = true;
  REQUIRE(shoal_model_add(t.m, &fc, SHOAL_INIT_UNIFORM, &t.last) == SHOAL_OK, "fc");
  REQUIRE(shoal_model_finish(t.m) == SHOAL_OK, "finish");
  return t.m;
}

static void check_resist(void)
{
  /* n, least blocks per part, (block, owner) pairs, GB of IST, GB of local SGD */
  static const struct {
    int n, least, pairs;
    double gb, local_gb;
  } rows[] = { { 2, 5, 22, 0.4546, 0.662 }, { 4, 6, 24, 0.7202, 1.325 }, { 8, 4, 32, 1.2893, 2.649 } };
  const int64_t third[] = { 3 };
  shoal_model *m = resist_network((const int[]){ 3, 4, 23, 3 }, 64);
  uint64_t shared = 0, one = 0;
  for (int i = 0; i < 3; i++) {
    shoal_ist_options o = {
      .parts = rows[i].n, .blocks = true, .stages = third, .n_stages = 1, .min_blocks = rows[i].least
    };
    shoal_ist_plan *p = NULL;
    shoal_ist_deal *d = NULL, *next = NULL;
    REQUIRE(shoal_ist_plan_create(m, &o, &p) == SHOAL_OK, "plan");
    CHECK_OK(shoal_ist_deal_create(p, &d));
    CHECK_OK(shoal_ist_deal_create(p, &next));
    shoal_ist_draw(p, 0, d);
    shoal_ist_draw(p, 1, next);
    CHECK_EQ(p->stages, 1);
    CHECK_EQ(p->stage_size[0], 22);
    shared = one = 0;
    uint64_t pairs = 0, kept = 0, held = 0, N = (uint64_t)rows[i].n;
    for (int k = 0; k < m->params; k++) {
      bool dealt = p->tensor[k].home == SHOAL_IST_BLOCK;
      shared += dealt ? 0 : m->param[k].count;
      one += dealt ? m->param[k].count : 0;
    }
    one /= 22;
    CHECK_EQ(shared, 15422116);
    CHECK_EQ(one, 1180672);
    for (int b = 0; b < m->residuals; b++)
      for (int s = 0; s < rows[i].n && p->stage[b] >= 0; s++) {
        pairs += d->owner[b * rows[i].n + s];
        kept += d->owner[b * rows[i].n + s] && d->holder[b] == s;
        held += next->owner[b * rows[i].n + s] && d->holder[b] == s;
      }
    CHECK_EQ(pairs, (uint64_t)rows[i].pairs);
    CHECK_EQ(kept, 22);
    CHECK_NEAR((2.0 * rows[i].n * 4 * (double)(shared + 22 * one)) * 1e-9, rows[i].local_gb, 6e-4, "local SGD");
    CHECK_NEAR((2.0 * rows[i].n * 4 * (double)shared + 2.0 * 4 * (double)(pairs * one)) * 1e-9, rows[i].gb, 6e-5,
               "Table 1, %d workers", rows[i].n);
    /* What travels here is less by what is at home already: slices of the shared, and blocks that stay. */
    CHECK_EQ(moved(p, d, d), 4 * ((N - 1) * shared + (pairs - kept) * one));
    CHECK_EQ(moved(p, d, next), 4 * ((N - 1) * shared + (pairs - held) * one));
    shoal_ist_deal_destroy(p, d);
    shoal_ist_deal_destroy(p, next);
    shoal_ist_plan_destroy(p);
  }
  shoal_model_destroy(m);
}

int main(void)
{
  check_table((const int64_t[]){ 4096 }, 1, 16928768, (const double[]){ 33.86, 16.93, 8.46 }, 118.5);
  check_table((const int64_t[]){ 4096, 4096 }, 2, 33714176, (const double[]){ 50.65, 21.13, 9.52 }, 133.2);
  check_table((const int64_t[]){ 8192, 8192 }, 2, 100982784, (const double[]){ 134.86, 50.65, 21.13 }, 295.8);
  check_amazon(512, 412672000, (const double[]){ 825.3, 412.7, 206.3 }, 2888.7);
  check_amazon(2560, 2063360000, (const double[]){ 4126.7, 2063.4, 1031.7 }, 14443.5);
  check_resist();
  return check_done();
}
