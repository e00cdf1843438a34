/* A small residual network by hand, each operation created with its producers' formats:
 *
 *   x → conv → bn(relu) ─┬→ conv ─→ add(relu) → maxpool → flatten or globalpool → linear → loss
 *                        └───────────┘
 *
 * Trained for a few steps on the backend and on ref: losses, gradients and weights must stay together.  This is where
 * a format that a consumer does not really understand, a stale private weight copy or an unclean padding shows. */
#include "base/mem.h"
#include "tensor_rig.h"

enum { CONV1, BN, CONV2, ADD, POOL, SQUEEZE, HEAD, NODES };
enum { BATCH = 3, CHANNELS = 17, SIZE = 10, CLASSES = 10, STEPS = 4 };

typedef struct {
  shoal_op *op;
  int64_t n[2];
  float *y, *dy, *w[2], *dw[2], *v[2], *stats[2];
  void *saved, *scratch;
} node;

typedef struct {
  shoal_backend *b;
  node node[NODES];
  float *x, *residual; /* input in conv1's format; dx of conv2 before it joins the skip */
  float *logits;       /* dense */
  int32_t labels[BATCH];
  uint64_t version;
} net;

static void *take(net *t, size_t bytes)
{
  shoal_memory m;
  REQUIRE(t->b->ops->alloc(t->b, SHOAL_MEMORY_DEVICE, bytes, &m) == SHOAL_OK, "alloc");
  return m.at;
}

static void give(net *t, void *p)
{
  t->b->ops->release(t->b, &(shoal_memory){ .at = p });
}

static void make_node(net *t, int k, shoal_op_desc d, const shoal_op *const producers[2])
{
  node *a = &t->node[k];
  shoal_format in[2] = { { 0 } };
  shoal_shape w[2];
  for (int i = 0; i < 2; i++)
    if (producers && producers[i]) {
      in[i] = producers[i]->out_format;
      d.in[i] = producers[i]->desc.out;
    }
  d.training = true;
  d.need_dx = k != CONV1;
  d.eps = 1e-5f;
  d.momentum = 0.1f;
  REQUIRE(shoal_op_create(t->b, &d, producers ? in : NULL, &a->op) == SHOAL_OK, "node %d", k);
  for (int i = 0; producers && i < 2 && producers[i]; i++) {
    CHECK_EQ(a->op->in_format[i].bytes, in[i].bytes, "node %d does not take input %d as its producer made it", k, i);
    CHECK_EQ(a->op->in_format[i].dense, in[i].dense, "node %d does not take input %d as its producer made it", k, i);
  }
  a->y = take(t, a->op->out_format.bytes);
  a->dy = take(t, a->op->out_format.bytes);
  a->saved = take(t, a->op->saved_bytes);
  a->scratch = take(t, a->op->scratch_bytes);
  shoal_op_weight_shapes(&a->op->desc, w);
  for (int i = 0; i < 2; i++) {
    a->n[i] = w[i].ndim ? shoal_shape_count(&w[i]) : 0;
    a->w[i] = take(t, (size_t)a->n[i] * sizeof(float));
    a->dw[i] = take(t, (size_t)a->n[i] * sizeof(float));
    a->v[i] = take(t, (size_t)a->n[i] * sizeof(float));
    a->stats[i] = take(t, CHANNELS * sizeof(float));
  }
}

static void fill_weights(net *t)
{
  for (int k = 0; k < NODES; k++)
    for (int i = 0; i < 2; i++)
      for (int64_t e = 0; e < t->node[k].n[i]; e++)
        t->node[k].w[i][e] = (k == BN && i == 0 ? 1.0f : 0.0f) + (float)((e * 7919 + k * 31 + i) % 257 - 128) / 1024;
}

static void net_open(net *t, shoal_backend *b, bool flatten)
{
  *t = (net){ .b = b, .version = 1 };
  shoal_op_desc conv = {
    .kind = SHOAL_OP_CONV, .kernel = { 3, 3 }, .stride = { 1, 1 }, .pad = { 1, 1 }, .out = { 4, { 0, CHANNELS } }
  };
  shoal_op_desc first = conv;
  first.in[0] = SHOAL_SHAPE(BATCH, 3, SIZE, SIZE);
  make_node(t, CONV1, first, NULL);
#define FROM(a) ((const shoal_op *const[]){ t->node[a].op, NULL })
  make_node(t, BN, (shoal_op_desc){ .kind = SHOAL_OP_BATCHNORM, .relu = true }, FROM(CONV1));
  conv.bias = true;
  make_node(t, CONV2, conv, FROM(BN));
  make_node(t, ADD, (shoal_op_desc){ .kind = SHOAL_OP_ADD, .relu = true },
            (const shoal_op *const[]){ t->node[CONV2].op, t->node[BN].op });
  make_node(t, POOL, (shoal_op_desc){ .kind = SHOAL_OP_MAXPOOL, .kernel = { 2, 2 }, .stride = { 2, 2 } }, FROM(ADD));
  make_node(t, SQUEEZE, (shoal_op_desc){ .kind = flatten ? SHOAL_OP_FLATTEN : SHOAL_OP_GLOBALPOOL }, FROM(POOL));
  CHECK(t->node[SQUEEZE].op->out_format.dense, "flatten and globalpool hand over dense tensors");
  make_node(t, HEAD, (shoal_op_desc){ .kind = SHOAL_OP_LINEAR, .bias = true, .out = { 2, { 0, CLASSES } } },
            FROM(SQUEEZE));
#undef FROM
  fill_weights(t);
  shoal_op *c1 = t->node[CONV1].op;
  t->x = take(t, c1->in_format[0].bytes);
  t->residual = take(t, t->node[CONV2].op->in_format[0].bytes);
  t->logits = take(t, BATCH * CLASSES * sizeof(float));
  float *dense = floats(BATCH * 3 * SIZE * SIZE);
  for (int i = 0; i < BATCH * 3 * SIZE * SIZE; i++) dense[i] = (float)((i * 209) % 257 - 128) / 100;
  CHECK_OK(b->ops->from_dense(b, &c1->desc.in[0], &c1->in_format[0], dense, t->x));
  free(dense);
  for (int i = 0; i < BATCH; i++) t->labels[i] = (i * 4 + 1) % CLASSES;
}

static void net_close(net *t)
{
  for (int k = 0; k < NODES; k++) {
    node *a = &t->node[k];
    void *all[] = { a->y,     a->dy,    a->saved, a->scratch, a->w[0],     a->w[1],
                    a->dw[0], a->dw[1], a->v[0],  a->v[1],    a->stats[0], a->stats[1] };
    for (size_t i = 0; i < SHOAL_COUNT(all); i++) give(t, all[i]);
  }
  /* Consumers before producers, whose formats they were created with. */
  for (int k = NODES - 1; k >= 0; k--) shoal_op_destroy(t->node[k].op);
  give(t, t->x);
  give(t, t->residual);
  give(t, t->logits);
}

static shoal_op_args arguments(net *t, int k, const float *x0, const float *x1, float *dx0, float *dx1)
{
  node *a = &t->node[k];
  return (shoal_op_args){ .x = { x0, x1 },
                          .y = a->y,
                          .dy = a->dy,
                          .dx = { dx0, dx1 },
                          .w = { a->w[0], a->w[1] },
                          .dw = { a->dw[0], a->dw[1] },
                          .stats = { a->stats[0], a->stats[1] },
                          .saved = a->saved,
                          .scratch = a->scratch,
                          .weights_version = t->version };
}

static void forward(net *t, int k, const float *x0, const float *x1)
{
  shoal_op_args a = arguments(t, k, x0, x1, NULL, NULL);
  CHECK_OK(t->node[k].op->forward(t->node[k].op, &a));
}

static void backward(net *t, int k, const float *x0, const float *x1, float *dx0, float *dx1)
{
  shoal_op *op = t->node[k].op;
  shoal_op_args a = arguments(t, k, x0, x1, dx0, dx1);
  if (op->backward_weights) CHECK_OK(op->backward_weights(op, &a));
  if (dx0 || op->dw_with_dx) CHECK_OK(op->backward_data(op, &a));
}

static double loss_and_dlogits(net *t)
{
  shoal_op *head = t->node[HEAD].op;
  const shoal_backend_ops *ops = t->b->ops;
  const float scale = 1.0f / BATCH;
  shoal_loss loss = { 0 };
  CHECK_OK(ops->to_dense(t->b, &head->desc.out, &head->out_format, t->node[HEAD].y, t->logits));
  CHECK_OK(ops->softmax_xent(t->b, BATCH, CLASSES, t->logits, t->labels, NULL, 0, &scale, false, t->logits, &loss));
  CHECK_OK(ops->from_dense(t->b, &head->desc.out, &head->out_format, t->logits, t->node[HEAD].dy));
  return loss.loss / BATCH;
}

static void update(net *t, bool first)
{
  const shoal_pace now = { .lr = 0.01f, .first = first };
  uint32_t bad = 0;
  shoal_sgd_args sgd = { .now = &now, .momentum = 0.9f };
  shoal_update_watch watch = { .bad = &bad };
  for (int k = 0; k < NODES; k++)
    for (int i = 0; i < 2; i++) {
      node *a = &t->node[k];
      if (a->n[i]) CHECK_OK(t->b->ops->sgd(t->b, (size_t)a->n[i], &sgd, a->dw[i], a->v[i], a->w[i], &watch));
    }
  t->version++;
}

static double step(net *t, bool first)
{
  node *n = t->node;
  forward(t, CONV1, t->x, NULL);
  forward(t, BN, n[CONV1].y, NULL);
  forward(t, CONV2, n[BN].y, NULL);
  forward(t, ADD, n[CONV2].y, n[BN].y);
  forward(t, POOL, n[ADD].y, NULL);
  forward(t, SQUEEZE, n[POOL].y, NULL);
  forward(t, HEAD, n[SQUEEZE].y, NULL);
  double loss = loss_and_dlogits(t);
  backward(t, HEAD, n[SQUEEZE].y, NULL, n[SQUEEZE].dy, NULL);
  backward(t, SQUEEZE, n[POOL].y, NULL, n[POOL].dy, NULL);
  backward(t, POOL, n[ADD].y, NULL, n[ADD].dy, NULL);
  backward(t, ADD, n[CONV2].y, n[BN].y, n[CONV2].dy, n[BN].dy);
  backward(t, CONV2, n[BN].y, NULL, t->residual, NULL);
  /* Two paths meet at bn's output: formats are equal, so their sum is a flat one, padding and all. */
  CHECK_OK(t->b->ops->add(t->b, n[BN].op->out_format.bytes / sizeof(float), t->residual, n[BN].dy));
  backward(t, BN, n[CONV1].y, NULL, n[CONV1].dy, NULL);
  backward(t, CONV1, t->x, NULL, NULL, NULL);
  update(t, first);
  return loss;
}

static void compare_nets(const net *a, const net *b)
{
  for (int k = 0; k < NODES; k++)
    for (int i = 0; i < 2; i++) {
      double g = worst_error(a->node[k].dw[i], b->node[k].dw[i], a->node[k].n[i], 0);
      double w = worst_error(a->node[k].w[i], b->node[k].w[i], a->node[k].n[i], 0);
      CHECK_LT(g, 1e-3, "dw%d of node %d after %d steps", i, k, STEPS);
      CHECK_LT(w, 1e-5, "w%d of node %d after %d steps", i, k, STEPS);
    }
  for (int i = 0; i < 2; i++) {
    double e = worst_error(a->node[BN].stats[i], b->node[BN].stats[i], CHANNELS, 0);
    CHECK_LT(e, 1e-5, "running statistics %d", i);
  }
}

int test_chain(shoal_backend *b, shoal_backend *ref)
{
  for (int flatten = 0; flatten < 2; flatten++) {
    net got, want, again;
    double first = 0, loss = 0;
    net_open(&got, b, flatten);
    net_open(&want, ref, flatten);
    net_open(&again, b, flatten);
    for (int s = 0; s < STEPS; s++) {
      loss = step(&got, s == 0);
      if (s == 0) first = loss;
      double reference = step(&want, s == 0), repeated = step(&again, s == 0);
      CHECK_NEAR(loss / reference, 1, 1e-5, "step %d: loss %.9g, ref %.9g", s, loss, reference);
      CHECK_EQ(loss, repeated, "step %d", s);
    }
    CHECK_LT(loss, 0.9 * first, "loss at first %g", first);
    compare_nets(&got, &want);
    net_close(&again);
    net_close(&want);
    net_close(&got);
  }
  return check_failures;
}
