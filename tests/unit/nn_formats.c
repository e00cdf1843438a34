/* Plans on a backend whose tensors are not dense: the reference backend behind a mirror.
 *
 * Every tensor of the mirror lies backwards and has padding of NaN; convolutions insist on mirrored input even from the
 * network's x.  A plan that forgets a conversion at entry or exit, adds gradients of different formats, or overwrites
 * what is still needed, gives other bits than the reference backend.  Sums mix mirrored and dense inputs. */
#include "nn_rig.h"

enum { PADDING = 24 }; /* floats */

static const shoal_backend_ops *plain;
static const char mirrored; /* its address is the format's detail */

static shoal_format mirror_format(const shoal_shape *s)
{
  return (shoal_format){ ((size_t)shoal_shape_count(s) + PADDING) * sizeof(float), &mirrored, SHOAL_ELEMENTS_F32,
                         false };
}

static void move(const shoal_shape *s, const shoal_format *from, const float *x, const shoal_format *to, float *y)
{
  size_t n = (size_t)shoal_shape_count(s);
  float *copy = malloc(n * sizeof *copy); /* x and y may be the same */
  CHECK(from->dense || from->detail == &mirrored, "a format from nowhere");
  for (size_t i = 0; i < n; i++) copy[i] = x[from->dense ? i : n - 1 - i];
  for (size_t i = 0; i < n; i++) y[to->dense ? i : n - 1 - i] = copy[i];
  for (size_t i = n; !to->dense && i < n + PADDING; i++) y[i] = NAN;
  free(copy);
}

typedef struct {
  shoal_op op;
  shoal_op *inner;
  float *x[SHOAL_OP_INPUTS], *dx[SHOAL_OP_INPUTS], *y, *dy;
} mirror_op;

static const shoal_format dense = { .dense = true };

static void inward(const mirror_op *m, const shoal_op_args *a, shoal_op_args *in, bool backward)
{
  const shoal_op_desc *d = &m->op.desc;
  *in = *a;
  for (int k = 0; k < SHOAL_OP_INPUTS && d->in[k].ndim; k++) {
    if (!backward || m->op.backward_reads_x) move(&d->in[k], &m->op.in_format[k], a->x[k], &dense, m->x[k]);
    in->x[k] = m->x[k];
    in->dx[k] = m->dx[k];
  }
  in->y = m->y;
  in->dy = m->dy;
  if (backward) move(&d->out, &m->op.out_format, a->dy, &dense, m->dy);
  if (backward && m->op.backward_reads_y) move(&d->out, &m->op.out_format, a->y, &dense, m->y);
}

static shoal_status forward_mirror(shoal_op *op, const shoal_op_args *a)
{
  mirror_op *m = (mirror_op *)op;
  shoal_op_args in;
  inward(m, a, &in, false);
  SHOAL_TRY(m->inner->forward(m->inner, &in));
  move(&op->desc.out, &dense, m->y, &op->out_format, a->y);
  return SHOAL_OK;
}

static shoal_status weights_mirror(shoal_op *op, const shoal_op_args *a)
{
  mirror_op *m = (mirror_op *)op;
  shoal_op_args in;
  inward(m, a, &in, true);
  return m->inner->backward_weights(m->inner, &in);
}

static shoal_status data_mirror(shoal_op *op, const shoal_op_args *a)
{
  mirror_op *m = (mirror_op *)op;
  shoal_op_args in;
  inward(m, a, &in, true);
  SHOAL_TRY(m->inner->backward_data(m->inner, &in));
  for (int k = 0; k < SHOAL_OP_INPUTS && op->desc.need_dx && op->desc.in[k].ndim; k++)
    move(&op->desc.in[k], &dense, m->dx[k], &op->in_format[k], a->dx[k]);
  return SHOAL_OK;
}

static void destroy_mirror(shoal_op *op)
{
  mirror_op *m = (mirror_op *)op;
  for (int k = 0; k < SHOAL_OP_INPUTS; k++) free(m->x[k]), free(m->dx[k]);
  free(m->y);
  free(m->dy);
  m->inner->destroy(m->inner);
  free(m);
}

static float *floats_of(const shoal_shape *s)
{
  return malloc((size_t)shoal_shape_count(s) * sizeof(float));
}

static shoal_status create_mirror(shoal_backend *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  mirror_op *m = calloc(1, sizeof *m);
  SHOAL_TRY(plain->op_create(b, d, NULL, &m->inner));
  m->op = *m->inner;
  for (int k = 0; k < SHOAL_OP_INPUTS && d->in[k].ndim; k++) {
    m->op.in_format[k] = d->kind == SHOAL_OP_CONV ? mirror_format(&d->in[k]) : in[k];
    m->x[k] = floats_of(&d->in[k]);
    m->dx[k] = floats_of(&d->in[k]);
  }
  m->y = floats_of(&d->out);
  m->dy = floats_of(&d->out);
  bool leaves = d->kind == SHOAL_OP_FLATTEN || d->kind == SHOAL_OP_GLOBALPOOL;
  m->op.out_format = leaves ? m->inner->out_format : mirror_format(&d->out);
  bool as_it_came = m->op.in_format[0].dense == m->op.out_format.dense && d->kind != SHOAL_OP_FLATTEN;
  m->op.y_may_be_x = m->op.y_may_be_x && as_it_came;
  m->op.dx_may_be_dy = m->op.dx_may_be_dy && as_it_came;
  m->op.forward = forward_mirror;
  if (m->inner->backward_weights) m->op.backward_weights = weights_mirror;
  if (m->inner->backward_data) m->op.backward_data = data_mirror;
  m->op.destroy = destroy_mirror;
  *out = &m->op;
  return SHOAL_OK;
}

static shoal_status to_dense_mirror(shoal_backend *b, const shoal_shape *s, const shoal_format *from, const float *x,
                                    float *y)
{
  move(s, from, x, &dense, y);
  return SHOAL_OK;
}

static shoal_status from_dense_mirror(shoal_backend *b, const shoal_shape *s, const shoal_format *to, const float *x,
                                      float *y)
{
  move(s, &dense, x, to, y);
  return SHOAL_OK;
}

/* Same weights, same inputs, then the same bits. */
static void compare(const shoal_model *m, int64_t batch, shoal_plan_mode mode)
{
  static shoal_backend_ops table;
  rig ref, mirror;
  rig_open(&ref, "ref", m, batch, mode);
  rig_open(&mirror, "ref", m, batch, mode);
  plain = mirror.b->ops;
  table = *plain;
  table.op_create = create_mirror;
  table.to_dense = to_dense_mirror;
  table.from_dense = from_dense_mirror;
  mirror.b->ops = &table;
  shoal_plan_destroy(mirror.plan);
  REQUIRE(shoal_plan_create(mirror.b, m, batch, mode, &mirror.plan) == SHOAL_OK, "plan in the mirror");
  double a, b;
  if (mode == SHOAL_PLAN_TRAIN)
    a = rig_step(&ref), b = rig_step(&mirror);
  else
    a = rig_forward(&ref), b = rig_forward(&mirror);
  float *y = rig_output(&ref, m->nodes - 1), *z = rig_output(&mirror, m->nodes - 1);
  CHECK_EQ(a, b, "%s", m->name);
  CHECK_BYTES(y, z, (size_t)(batch * m->classes) * sizeof *y, "%s", m->name);
  if (mode == SHOAL_PLAN_TRAIN)
    for (int i = 0; i < m->params; i++) {
      const shoal_param *p = &m->param[i];
      CHECK_BYTES(ref.params->g + p->offset, mirror.params->g + p->offset, p->count * sizeof(float), "%s: %s off by %g",
                  m->name, p->name, rig_difference(mirror.params->g + p->offset, ref.params->g + p->offset, p->count));
    }
  CHECK_BYTES(ref.params->stats, mirror.params->stats, m->stats * sizeof(float), "%s: statistics", m->name);
  free(y);
  free(z);
  rig_close(&ref);
  rig_close(&mirror);
}

/* A sum of a pooled vector (dense) and a linear's (mirrored), each with another reader. */
static shoal_model *mixed_sum(void)
{
  shoal_model *m;
  REQUIRE(shoal_model_create("mixed", &SHOAL_SHAPE(2, 6, 6), 3, &m) == SHOAL_OK, "create");
  shoal_node n[] = { shoal_node_make(SHOAL_OP_CONV, "conv", -1), shoal_node_make(SHOAL_OP_GLOBALPOOL, "pool", 0),
                     shoal_node_make(SHOAL_OP_LINEAR, "fc1", 1), shoal_node_make(SHOAL_OP_ADD, "sum", 1),
                     shoal_node_make(SHOAL_OP_GELU, "gelu", 2),  shoal_node_make(SHOAL_OP_ADD, "sum2", 3),
                     shoal_node_make(SHOAL_OP_LINEAR, "fc2", 5) };
  n[0].out.dim[0] = n[2].out.dim[0] = 4;
  n[3].in[1] = 2;
  n[3].relu = true;
  n[5].in[1] = 4;
  n[6].out.dim[0] = 3;
  for (size_t i = 0; i < sizeof n / sizeof n[0]; i++) CHECK_OK(shoal_model_add(m, &n[i], SHOAL_INIT_UNIFORM, NULL));
  CHECK_OK(shoal_model_finish(m));
  return m;
}

int main(void)
{
  shoal_model *m[] = { rig_network("chain"),
                       rig_network("residual"),
                       rig_network("forks"),
                       rig_network("branches"),
                       mixed_sum(),
                       rig_model("mlp", "model.widths=[7,5] model.norm=layer model.dropout=0.3", &SHOAL_SHAPE(2, 2, 3),
                                 4) };
  for (size_t i = 0; i < sizeof m / sizeof m[0]; i++) {
    compare(m[i], 3, SHOAL_PLAN_TRAIN);
    compare(m[i], 1, SHOAL_PLAN_EVAL);
    shoal_model_destroy(m[i]);
  }
  return check_done();
}
