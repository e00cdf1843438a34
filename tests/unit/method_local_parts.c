/* Blocks as models, for every form, head and network of the zoo: together they hold every number of the network once (or,
 * overlapping, inner layers twice, in ranges that match name by name); each fits behind the one before; costs add up. */
#include "base/mem.h"
#include "method/local/local.h"
#include "nn_rig.h"

enum { BATCH = 32 };

static shoal_local_parts *make(const shoal_model *m, shoal_local_form form, shoal_head head, int chunks)
{
  int layers = shoal_local_layers(m->units), *bounds = malloc(((size_t)layers + 1) * sizeof *bounds);
  double *cost = malloc(2 * (size_t)layers * sizeof *cost);
  shoal_local_block *blocks = malloc((size_t)layers * sizeof *blocks);
  shoal_local_parts *p = NULL;
  CHECK_OK(shoal_local_count(m, head, BATCH, cost, cost + layers));
  for (int l = 0; l < layers; l++) {
    CHECK_GT(cost[l], 0, "%s layer %d", m->name, l);
    CHECK_GE(cost[layers + l], 0, "%s layer %d", m->name, l);
    CHECK(l + 1 < layers || cost[layers + l] == 0, "%s layer %d costs %g, %g", m->name, l, cost[l], cost[layers + l]);
  }
  CHECK_OK(shoal_local_cut(layers, cost, cost + layers, chunks, bounds));
  int n = shoal_local_blocks(form, m->units, bounds, chunks, blocks);
  REQUIRE(shoal_local_parts_create(m, form, head, BATCH, blocks, n, &p) == SHOAL_OK, "parts of %s", m->name);
  free(bounds);
  free(cost);
  free(blocks);
  return p;
}

/* How often each number of the network is held. */
static void check_cover(const shoal_model *m, const shoal_local_parts *p)
{
  float *count = calloc(m->weights, sizeof *count);
  for (int k = 0; k < p->n; k++)
    for (int i = 0; i < p->part[k].model->params; i++) {
      const shoal_param *q = &p->part[k].model->param[i];
      if (q->family) continue;
      for (size_t e = 0; e < q->count; e++) count[m->param[q->full_id].offset + e]++;
    }
  for (int i = 0; i < m->params; i++) {
    int unit = m->node[m->param[i].node].unit, layers = shoal_local_layers(m->units);
    bool twice = p->form == SHOAL_LOCAL_OVERLAPPING && unit > 0 && unit < layers - 1;
    CHECK_EQ(count[m->param[i].offset], twice ? 2 : 1, "%s", m->param[i].name);
  }
  free(count);
}

static const shoal_param *param_at(const shoal_model *m, size_t offset)
{
  for (int i = 0; i < m->params; i++)
    if (m->param[i].offset == offset) return &m->param[i];
  return NULL;
}

static void check_chain(const shoal_model *m, const shoal_local_parts *p)
{
  for (int k = 0; k < p->n; k++) {
    const shoal_local_part *a = &p->part[k], *b = &p->part[k + 1];
    CHECK_EQ(a->out_node < 0, k + 1 == p->n, "block %d of %d", k, p->n);
    CHECK_EQ(a->head_weights == 0, k + 1 == p->n, "block %d of %d", k, p->n);
    if (k + 1 == p->n) continue;
    CHECK(shoal_shape_equal(&a->model->node[a->out_node].out, &b->model->input), "block %d does not fit", k + 1);
    CHECK_EQ(a->elements, (size_t)shoal_shape_count(&b->model->input));
    CHECK_EQ(a->upper.count, b->lower.count);
    CHECK_EQ(a->upper.count > 0, p->form == SHOAL_LOCAL_OVERLAPPING);
    for (size_t at = 0; at < a->upper.count;) {
      const shoal_param *x = param_at(a->model, a->upper.offset + at), *y = param_at(b->model, b->lower.offset + at);
      REQUIRE(x, "no parameter begins at %zu", at);
      REQUIRE(y, "no parameter begins at %zu", at);
      CHECK_STR(x->name, y->name);
      CHECK_EQ(x->count, y->count);
      at += x->count;
    }
  }
}

static void check_model(const char *name, const char *options, int side)
{
  static const shoal_local_form forms[] = { SHOAL_LOCAL_CHUNKED, SHOAL_LOCAL_GREEDY, SHOAL_LOCAL_OVERLAPPING };
  shoal_model *m = rig_model(name, options, &SHOAL_SHAPE(3, side, side), 5);
  for (size_t f = 0; f < SHOAL_COUNT(forms); f++)
    for (shoal_head head = SHOAL_HEAD_AUTO; head < SHOAL_HEADS; head++) {
      shoal_local_parts *p = make(m, forms[f], head, 3);
      check_cover(m, p);
      check_chain(m, p);
      CHECK_OK(shoal_local_deal(p, &(shoal_local_grid){ 2, 1, false }));
      size_t at[32], stats_at[32], total = 0;
      for (int s = 0; s < 2; s++) {
        shoal_model *arena;
        CHECK_OK(shoal_local_join(p, s, at, stats_at, &arena));
        total += arena->weights;
        CHECK_EQ(arena->joined, p->stage_first[s + 1] - p->stage_first[s] > 1, "stage %d", s);
        shoal_model_destroy(arena);
      }
      CHECK_GE(total, m->weights);
      shoal_local_parts_destroy(p);
    }
  shoal_model_destroy(m);
}

/* Weights count once per minibatch: the late layers of a VGG-16, small images and large weights, weigh more in a small one. */
static void check_count(void)
{
  shoal_model *m = rig_model("vgg16", "", &SHOAL_SHAPE(3, 32, 32), 10);
  const uint64_t batch[] = { 8, 32, 256 };
  double cost[3][16], heads[16], grew = 0;
  int layers = shoal_local_layers(m->units), bounds[3], cut[3];
  for (int i = 0; i < 3; i++) {
    CHECK_OK(shoal_local_count(m, SHOAL_HEAD_AUTO, batch[i], cost[i], heads));
    CHECK_OK(shoal_local_cut(layers, cost[i], heads, 2, bounds));
    cut[i] = bounds[1];
  }
  for (int l = 0; l < layers; l++) grew += cost[0][l] - cost[1][l];
  CHECK_LT(fabs(grew - 300 * (double)m->weights * (1 / 8.0 - 1 / 32.0)), 1e-6 * grew, "%g more in a batch of 8", grew);
  CHECK_GT(cut[0], cut[1]);
  CHECK_GT(cut[1], cut[2]);
  shoal_model_destroy(m);
}

static void check_measure(void)
{
  shoal_model *m = rig_model("resnet20", "", &SHOAL_SHAPE(3, 8, 8), 5);
  shoal_backend *b;
  double cost[16], heads[16];
  CHECK_OK(shoal_backend_open("cpu", 1, &b));
  CHECK_OK(shoal_local_measure(b, m, SHOAL_HEAD_AUTO, 4, cost, heads));
  for (int l = 0; l < shoal_local_layers(m->units); l++) {
    CHECK_GT(cost[l], 0, "layer %d", l);
    CHECK_EQ(heads[l] > 0, l + 1 < shoal_local_layers(m->units), "layer %d", l);
  }
  shoal_backend_close(b);
  shoal_model_destroy(m);
}

int main(void)
{
  check_model("mlp", "model.widths=[9,8,7,6] model.norm=batch", 4);
  check_model("vgg16", "model.width=0.05", 32);
  check_model("vgg16", "model.width=0.05 model.batch_norm=false", 32);
  check_model("resnet20", "", 8);
  check_model("resnet18", "", 8);
  check_model("vit", "model.width=6 model.heads=2 model.depth=3", 8);
  check_count();
  check_measure();
  return check_done();
}
