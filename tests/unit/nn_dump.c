/* The half of the PyTorch comparison that is ours: one network on one backend, its numbers written for nn_torch.py.
 *
 *   nn_dump BACKEND BATCH STEPS FOLDER MODEL [options…]
 *
 * FOLDER/data.bin holds f32, FOLDER/index.txt one line per array: name, offset and shape.  Arrays: x, y, logits, loss,
 * eval_logits (with the statistics of that one step), w/NAME, g/NAME, s/NAME (statistics before) and t/NAME (after one
 * step), a/NAME (outputs of the layers with a relu, in the order of computation); for STEPS steps of two optimizers from the same start, K counting from 0: sgdK/NAME and adamwK/NAME (gradients
 * of that step), sgd/NAME and adamw/NAME (weights at the end). */
#include "nn/optim.h"
#include "nn_rig.h"

typedef struct {
  FILE *data, *index;
  size_t at;
  const char *kind;
  const float *from;
} writer;

static void put(writer *w, const char *name, const shoal_shape *shape, const float *x)
{
  size_t n = (size_t)shoal_shape_count(shape);
  fprintf(w->index, "%s %zu", name, w->at);
  for (int i = 0; i < shape->ndim; i++) fprintf(w->index, " %lld", (long long)shape->dim[i]);
  fputc('\n', w->index);
  REQUIRE(fwrite(x, sizeof *x, n, w->data) == n, "write %s", name);
  w->at += n;
}

static void put_params(writer *w, const char *kind, const shoal_model *m, const float *x)
{
  char name[128];
  for (int i = 0; i < m->params; i++) {
    snprintf(name, sizeof name, "%s/%s", kind, m->param[i].name);
    put(w, name, &m->param[i].shape, x + m->param[i].offset);
  }
}

static void put_stat(void *ctx, const char *stat, size_t offset, size_t count)
{
  writer *w = ctx;
  char name[160];
  snprintf(name, sizeof name, "%s/%s", w->kind, stat);
  put(w, name, &SHOAL_SHAPE((int64_t)count), w->from + offset);
}

static void put_stats(writer *w, const char *kind, const shoal_model *m, const float *x)
{
  w->kind = kind;
  w->from = x;
  shoal_model_each_stat(m, put_stat, w);
}

/* The same settings stand in nn_torch.py. */
static void put_training(writer *w, rig *r, const char *kind, const shoal_optim_config *c, float lr, int steps,
                         const float *start_w, const float *start_s)
{
  shoal_optim *o;
  memcpy(r->params->w, start_w, r->m->weights * sizeof(float));
  memcpy(r->params->stats, start_s, r->m->stats * sizeof(float));
  CHECK_OK(shoal_optim_create(r->b, c, r->m->weights, &o));
  for (int i = 0; i < steps; i++) {
    char gradients[16];
    rig_step(r);
    snprintf(gradients, sizeof gradients, "%s%d", kind, i);
    put_params(w, gradients, r->m, r->params->g);
    CHECK_OK(shoal_optim_step(o, r->m, r->params, NULL, 0, lr));
  }
  put_params(w, kind, r->m, r->params->w);
  shoal_optim_destroy(o);
}

static void put_evaluation(writer *w, rig *r, const shoal_shape *shape)
{
  shoal_plan *plan;
  shoal_score s = { 0 };
  float *logits = malloc((size_t)shoal_shape_count(shape) * sizeof *logits);
  CHECK_OK(shoal_plan_create(r->b, r->m, r->batch, SHOAL_PLAN_EVAL, &plan));
  CHECK_OK(shoal_plan_forward(plan, r->params, &r->at, r->x, r->y, 0, &s));
  CHECK_OK(shoal_plan_output(plan, r->m->nodes - 1, logits));
  put(w, "eval_logits", shape, logits);
  shoal_plan_destroy(plan);
  free(logits);
}

/* Outputs of the layers with a relu, from a second plan that keeps them: the first one may overwrite them in place.  Both
 * compute the same bits. */
static void put_activations(writer *w, const rig *r, shoal_model *m, const float *start_w, const float *logits)
{
  rig all;
  char name[128];
  for (int i = 0; i < m->nodes; i++) m->node[i].keep = m->node[i].relu || m->node[i].kind == SHOAL_OP_RELU;
  rig_open(&all, r->b->name, m, r->batch, SHOAL_PLAN_TRAIN);
  memcpy(all.params->w, start_w, m->weights * sizeof *start_w);
  rig_forward(&all);
  float *again = rig_output(&all, m->nodes - 1);
  CHECK_BYTES(again, logits, (size_t)(r->batch * m->classes) * sizeof *again, "other logits with outputs kept");
  free(again);
  for (int i = 0; i < m->nodes; i++) {
    if (!m->node[i].keep) continue;
    float *out = rig_output(&all, i);
    shoal_shape shape = { m->node[i].out.ndim + 1, { r->batch } };
    for (int k = 0; k < m->node[i].out.ndim; k++) shape.dim[k + 1] = m->node[i].out.dim[k];
    snprintf(name, sizeof name, "a/%s", m->node[i].name);
    put(w, name, &shape, out);
    free(out);
  }
  rig_close(&all);
}

static void dump(writer *w, rig *r, shoal_model *m, int steps)
{
  static const shoal_optim_config sgd = {
    .kind = SHOAL_OPTIM_SGD, .momentum = 0.9f, .nesterov = true, .weight_decay = 0.01f, .decay_all = true
  };
  static const shoal_optim_config adamw = { .kind = SHOAL_OPTIM_ADAMW,
                                            .beta1 = 0.9f,
                                            .beta2 = 0.99f,
                                            .eps = 1e-3f,
                                            .weight_decay = 0.1f,
                                            .decoupled = true,
                                            .decay_all = true };
  float *w0 = malloc(m->weights * sizeof *w0), *s0 = malloc((m->stats + 1) * sizeof *s0);
  memcpy(w0, r->params->w, m->weights * sizeof *w0);
  memcpy(s0, r->params->stats, m->stats * sizeof *s0);
  shoal_shape shape = { m->input.ndim + 1, { r->batch } }, logits = SHOAL_SHAPE(r->batch, m->classes);
  for (int i = 0; i < m->input.ndim; i++) shape.dim[i + 1] = m->input.dim[i];
  put(w, "x", &shape, r->x);
  float *y = malloc((size_t)r->batch * sizeof *y);
  for (int64_t i = 0; i < r->batch; i++) y[i] = (float)r->y[i];
  put(w, "y", &SHOAL_SHAPE(r->batch), y);
  put_params(w, "w", m, w0);
  put_stats(w, "s", m, s0);
  float loss = (float)rig_step(r), *out = rig_output(r, m->nodes - 1);
  put(w, "loss", &SHOAL_SHAPE(1), &loss);
  put(w, "logits", &logits, out);
  put_params(w, "g", m, r->params->g);
  put_stats(w, "t", m, r->params->stats);
  put_evaluation(w, r, &logits);
  put_activations(w, r, m, w0, out);
  if (steps > 0) put_training(w, r, "sgd", &sgd, 0.02f, steps, w0, s0);
  if (steps > 0) put_training(w, r, "adamw", &adamw, 0.002f, steps, w0, s0);
  free(w0), free(s0), free(y), free(out);
}

int main(int argc, char **argv)
{
  if (argc < 6) CHECK_SKIP("nn_dump BACKEND BATCH STEPS FOLDER MODEL [options...]");
  char options[512] = "", path[512];
  for (int i = 6; i < argc; i++) strncat(strncat(options, argv[i], 100), " ", 2);
  shoal_model *m = rig_model(argv[5], options, &SHOAL_SHAPE(3, 32, 32), 10);
  rig r;
  rig_open(&r, argv[1], m, atoi(argv[2]), SHOAL_PLAN_TRAIN);
  writer w = { 0 };
  snprintf(path, sizeof path, "%s/data.bin", argv[4]);
  REQUIRE(w.data = fopen(path, "wb"), "%s", path);
  snprintf(path, sizeof path, "%s/index.txt", argv[4]);
  REQUIRE(w.index = fopen(path, "w"), "%s", path);
  dump(&w, &r, m, atoi(argv[3]));
  CHECK_EQ(fclose(w.data), 0);
  CHECK_EQ(fclose(w.index), 0);
  rig_close(&r);
  shoal_model_destroy(m);
  return check_done();
}
