/* The reference that defines the right result of `local`: one process that trains all blocks one after the other, minibatch
 * by minibatch, written with nn/ and data/ alone.  Then it compares itself, number by number, with the checkpoint of a run
 * in which every block had a rank of its own: weights, heads, optimizer state, statistics.
 *
 *     local_oracle CHECKPOINT DATA MODEL OPTIONS HEAD FORM FIRST-UNITS BATCH STEPS LR MOMENTUM SEED AUGMENT
 *
 * Overlapping blocks: gradients of all blocks first, then both copies of a layer get the mean of theirs. */
#include "base/mem.h"
#include "check.h"
#include "ckpt/ckpt.h"
#include "data/loader.h"
#include "method/local/plan.h"
#include "nn/heads.h"
#include "nn/optim.h"
#include "tensor/cpu/cpu.h"
#include "unit/nn_rig.h"

enum { BLOCKS_MAX = 32 };

typedef struct {
  shoal_model *model;
  shoal_params *params;
  shoal_optim *optim;
  shoal_plans *plans;
  shoal_plan *plan;
  int out;  /* node whose output goes on; -1 for the last */
  float *h; /* that output */
} block;

typedef struct {
  shoal_backend *backend;
  shoal_model *model;
  block block[BLOCKS_MAX];
  int n;
  bool overlapping;
} network;

static int last_node(const shoal_model *m, int unit)
{
  int node = 0;
  while (node + 1 < m->nodes && m->node[node + 1].unit <= unit) node++;
  return node;
}

static void open_block(network *w, const shoal_local_block *u, shoal_head kind, int64_t batch,
                       const shoal_optim_config *optim, uint64_t seed, block *b)
{
  shoal_model *head = NULL;
  bool last = u->last == w->model->units;
  if (!last)
    REQUIRE(shoal_head_build(kind, &w->model->node[last_node(w->model, u->last - 1)].out, w->model->classes,
                             shoal_model_labels(w->model), &head) == SHOAL_OK,
            "head");
  REQUIRE(shoal_model_slice(w->model, u->first, u->last, head, &b->model) == SHOAL_OK, "slice");
  shoal_model_destroy(head);
  b->out = last ? -1 : last_node(b->model, w->overlapping ? 0 : u->last - u->first - 1);
  if (!last) b->model->node[b->out].keep = true;
  if (!last) b->h = malloc((size_t)(batch * shoal_shape_count(&b->model->node[b->out].out)) * sizeof *b->h);
  CHECK_OK(shoal_params_create(w->backend, b->model, NULL, &b->params));
  CHECK_OK(shoal_optim_create(w->backend, optim, b->model->weights, &b->optim));
  CHECK_OK(shoal_plans_create(w->backend, b->model, &b->plans));
  CHECK_OK(shoal_model_init(ref_backend(), b->model, seed, b->params->w, b->params->stats));
  b->params->version++;
}

/* Forward, output, backward of one block; the weights stay as they are. */
static void differentiate(block *b, const shoal_batch *batch, const float *x, uint64_t seed, uint32_t step)
{
  shoal_address at = { .seed = seed, .step = step, .slot0 = batch->slot0 };
  shoal_score score = { 0 };
  CHECK_OK(shoal_plans_get(b->plans, batch->n, SHOAL_PLAN_TRAIN, &b->plan));
  CHECK_OK(shoal_plan_forward(b->plan, b->params, &at, x, batch->y, 1.0f / (float)batch->total, &score));
  if (b->out >= 0) CHECK_OK(shoal_plan_output(b->plan, b->out, b->h));
  CHECK_OK(shoal_plan_backward(b->plan, b->params, NULL, NULL));
}

static void update(block *b, float lr)
{
  CHECK_OK(shoal_optim_step(b->optim, b->model, b->params, NULL, 0, lr));
}

/* Parameters of both blocks that are the same one of the network. */
static void average(block *a, block *b)
{
  for (int i = 0; i < a->model->params; i++)
    for (int k = 0; k < b->model->params; k++) {
      const shoal_param *p = &a->model->param[i], *q = &b->model->param[k];
      if (p->family || q->family || p->full_id != q->full_id) continue;
      for (size_t e = 0; e < p->count; e++) {
        float *x = &a->params->g[p->offset + e], *y = &b->params->g[q->offset + e];
        *x = *y = 0.5f * *x + 0.5f * *y;
      }
    }
}

static void train(network *w, const shoal_batch *batch, float lr, uint64_t seed, uint32_t step)
{
  const float *x = batch->x;
  for (int k = 0; k < w->n; k++) {
    differentiate(&w->block[k], batch, x, seed, step);
    if (!w->overlapping) update(&w->block[k], lr);
    x = w->block[k].h;
  }
  for (int k = 0; w->overlapping && k + 1 < w->n; k++) average(&w->block[k], &w->block[k + 1]);
  for (int k = 0; w->overlapping && k < w->n; k++) update(&w->block[k], lr);
}

static void train_all(network *w, const char *data, const shoal_loader_config *config, int steps, float lr)
{
  shoal_dataset *d;
  shoal_loader *l;
  const shoal_batch *b;
  REQUIRE(shoal_dataset_open(data, &d) == SHOAL_OK, "%s", data);
  REQUIRE(shoal_loader_create(d, config, &l) == SHOAL_OK, "loader");
  uint64_t epoch = 0;
  CHECK_OK(shoal_loader_seek(l, 0, 0));
  for (int step = 0; step < steps; step++) {
    CHECK_OK(shoal_loader_next(l, &b));
    if (!b) {
      CHECK_OK(shoal_loader_seek(l, ++epoch, 0));
      CHECK_OK(shoal_loader_next(l, &b));
    }
    train(w, b, lr, config->seed, (uint32_t)step);
  }
  shoal_loader_destroy(l);
  shoal_dataset_close(d);
}

static void compare(const shoal_ckpt *c, int rank, const char *what, const float *want, size_t n)
{
  char name[64];
  size_t different = 0;
  float *got = malloc((n + 1) * sizeof *got);
  snprintf(name, sizeof name, "replica/%d/%s", rank, what);
  if (shoal_ckpt_get(c, name, SHOAL_F32, n, got) != SHOAL_OK) check_failures++;
  for (size_t i = 0; i < n; i++) different += memcmp(&got[i], &want[i], sizeof *got) != 0;
  CHECK_EQ(different, 0, "%s: of %zu numbers", name, n);
  free(got);
}

static int split_numbers(const char *text, int *out)
{
  int n = 0;
  for (const char *p = text; *p; p += strcspn(p, ","), p += *p == ',') out[n++] = atoi(p);
  return n;
}

int main(int argc, char **argv)
{
  REQUIRE(argc == 14, "13 arguments, not %d", argc - 1);
  const char *form = argv[6];
  int bounds[BLOCKS_MAX + 1] = { 0 }, cuts = split_numbers(argv[7], bounds + 1);
  int64_t batch = atoi(argv[8]);
  shoal_loader_config config = { .split = SHOAL_TRAIN,
                                 .seed = (uint64_t)atoi(argv[12]),
                                 .size = 1,
                                 .batch = (uint64_t)batch,
                                 .shuffle = true,
                                 .crop4 = atoi(argv[13]),
                                 .hflip = atoi(argv[13]) };
  shoal_optim_config optim = { .kind = SHOAL_OPTIM_SGD, .momentum = strtof(argv[11], NULL), .decay_all = true };
  shoal_dataset *d;
  shoal_ckpt *c;
  shoal_local_block blocks[BLOCKS_MAX];
  network w = { .overlapping = strcmp(form, "overlapping") == 0 };
  REQUIRE(shoal_dataset_open(argv[2], &d) == SHOAL_OK, "%s", argv[2]);
  w.model = rig_model(argv[3], argv[4], &shoal_dataset_info(d)->sample, shoal_dataset_info(d)->classes);
  shoal_dataset_close(d);
  REQUIRE(shoal_backend_open("cpu", 1, &w.backend) == SHOAL_OK, "backend");
  shoal_cpu_set_winograd(w.backend, true);
  bounds[cuts + 1] = shoal_local_layers(w.model->units);
  shoal_local_form kind = w.overlapping                 ? SHOAL_LOCAL_OVERLAPPING
                          : strcmp(form, "greedy") == 0 ? SHOAL_LOCAL_GREEDY
                                                        : SHOAL_LOCAL_CHUNKED;
  w.n = shoal_local_blocks(kind, w.model->units, bounds, cuts + 1, blocks);
  for (int k = 0; k < w.n; k++)
    open_block(&w, &blocks[k], shoal_head_from_name(argv[5]), batch, &optim, config.seed, &w.block[k]);
  train_all(&w, argv[2], &config, atoi(argv[9]), strtof(argv[10], NULL));
  REQUIRE(shoal_ckpt_open(argv[1], true, &c) == SHOAL_OK, "%s", argv[1]);
  CHECK_EQ(shoal_ckpt_get_info(c)->size, w.n);
  for (int k = 0; k < w.n; k++) {
    block *b = &w.block[k];
    compare(c, k, "weights", b->params->w, b->params->n);
    compare(c, k, "stats", b->params->stats, b->params->n_stats);
    if (b->optim->slots) compare(c, k, "momentum", b->optim->slot[0], b->optim->n);
    shoal_plans_destroy(b->plans);
    shoal_optim_destroy(b->optim);
    shoal_params_destroy(w.backend, b->params);
    shoal_model_destroy(b->model);
    free(b->h);
  }
  shoal_ckpt_close(c);
  shoal_backend_close(w.backend);
  shoal_model_destroy(w.model);
  printf("%d blocks, %d steps: %d differences\n", w.n, atoi(argv[9]), check_failures);
  return check_done();
}
