/* See outer.h. */
#include "method/local_sgd/outer.h"
#include "base/mem.h"
#include <string.h>

/* The kind whose momentum a checkpoint holds; u and v have other scales. */
static const char kind_saved[] = "method/outer", x_saved[] = "method/outer_x", v_saved[] = "method/outer_momentum";

static float number(const shoal_config *c, const char *name, float otherwise)
{
  return shoal_config_given(c, name) ? (float)shoal_config_float(c, name) : otherwise;
}

/* Nothing is rounded inside a node. */
static shoal_wire wire_wanted(const shoal_run *r)
{
  const char *bits = shoal_config_string(r->config, "method.outer_bits");
  if (shoal_world_topo(r->world)->nodes == 1) return SHOAL_WIRE_F32;
  return strcmp(bits, "4") == 0    ? SHOAL_WIRE_Q4
         : strcmp(bits, "8") == 0  ? SHOAL_WIRE_Q8
         : strcmp(bits, "16") == 0 ? SHOAL_WIRE_BF16
                                   : SHOAL_WIRE_F32;
}

static void read_settings(const shoal_run *r, shoal_outer *o)
{
  const shoal_config *c = r->config;
  const char *word = shoal_config_string(c, "method.outer");
  bool slowmo = strcmp(word, "slowmo") == 0;
  o->kind = slowmo ? SHOAL_OUTER_SLOWMO : strcmp(word, "nesterov") == 0 ? SHOAL_OUTER_NESTEROV : SHOAL_OUTER_NONE;
  o->lr = number(c, "method.outer_lr", slowmo ? 1 : 0.7f);
  o->momentum = number(c, "method.outer_momentum", slowmo ? 0.7f : 0.9f);
  o->wire = wire_wanted(r);
  if (o->lr == 1 && o->momentum == 0) o->kind = SHOAL_OUTER_NONE;
  if (o->kind == SHOAL_OUTER_NONE && o->wire != SHOAL_WIRE_F32) o->kind = SHOAL_OUTER_MEAN;
}

shoal_status shoal_outer_open(const shoal_run *r, shoal_outer *o)
{
  const shoal_backend_ops *ops = r->backend->ops;
  size_t bytes = r->form->params->n * sizeof(float);
  read_settings(r, o);
  if (o->kind == SHOAL_OUTER_NONE) return SHOAL_OK;
  SHOAL_TRY(ops->alloc(r->backend, SHOAL_MEMORY_DEVICE, bytes, &o->x));
  if (o->kind == SHOAL_OUTER_MEAN) return shoal_outer_take(r, o);
  SHOAL_TRY(ops->alloc(r->backend, SHOAL_MEMORY_DEVICE, bytes, &o->v));
  SHOAL_TRY(ops->alloc(r->backend, SHOAL_MEMORY_DEVICE, sizeof(shoal_pace), &o->now));
  SHOAL_TRY(ops->alloc(r->backend, SHOAL_MEMORY_PINNED, sizeof(uint32_t), &o->bad));
  return shoal_outer_take(r, o);
}

void shoal_outer_close(const shoal_run *r, shoal_outer *o)
{
  shoal_memory *own[] = { &o->x, &o->v, &o->now, &o->bad };
  for (size_t i = 0; i < SHOAL_COUNT(own); i++) r->backend->ops->release(r->backend, own[i]);
}

shoal_status shoal_outer_take(const shoal_run *r, shoal_outer *o)
{
  if (o->kind == SHOAL_OUTER_NONE) return SHOAL_OK;
  return r->backend->ops->copy(r->backend, o->x.bytes, r->form->params->w, o->x.at);
}

/* Both are SGD with momentum on x, with g in place of a gradient.  What is not finite is found where the weights are used. */
static shoal_status update(const shoal_run *r, shoal_outer *o, size_t first, size_t n, float lr, const float *g)
{
  const shoal_backend_ops *ops = r->backend->ops;
  const shoal_pace pace = { .lr = lr };
  const shoal_sgd_args a = { .now = o->now.at, .momentum = o->momentum, .nesterov = o->kind == SHOAL_OUTER_NESTEROV };
  const shoal_update_watch watch = { .bad = o->bad.at };
  SHOAL_TRY(ops->copy(r->backend, sizeof pace, &pace, o->now.at));
  return ops->sgd(r->backend, n, &a, g, (float *)o->v.at + first, (float *)o->x.at + first, &watch);
}

shoal_status shoal_outer_send(const shoal_run *r, const shoal_outer *o, size_t first, size_t n, float *sum)
{
  const shoal_backend_ops *ops = r->backend->ops;
  const float *w = r->form->params->w + first;
  SHOAL_TRY(ops->copy(r->backend, n * sizeof *w, w, sum));
  return o->wire == SHOAL_WIRE_F32 ? SHOAL_OK : ops->axpby(r->backend, n, -1, (const float *)o->x.at + first, 1, sum);
}

/* A rate of 0, at the end of a schedule, leaves slowmo's gradient undefined. */
shoal_status shoal_outer_step(const shoal_run *r, shoal_outer *o, size_t first, size_t n, float *sum, float mixing)
{
  const shoal_backend_ops *ops = r->backend->ops;
  float *w = r->form->params->w + first, mean = 1.0f / (float)shoal_group_size(r->all), rate = (float)r->rate;
  if (o->kind == SHOAL_OUTER_NONE) return ops->axpby(r->backend, n, (1 - mixing) * mean, sum, mixing, w);
  float *x = (float *)o->x.at + first;
  bool slowmo = o->kind == SHOAL_OUTER_SLOWMO;
  if (o->wire != SHOAL_WIRE_F32) {
    SHOAL_TRY(ops->axpby(r->backend, n, 1, x, mean, sum));
    mean = 1;
  }
  if (o->kind == SHOAL_OUTER_MEAN || (slowmo && rate == 0)) {
    SHOAL_TRY(ops->axpby(r->backend, n, mean, sum, 0, x));
  } else {
    float scale = slowmo ? 1 / rate : 1;
    SHOAL_TRY(ops->axpby(r->backend, n, scale, x, -scale * mean, sum));
    SHOAL_TRY(update(r, o, first, n, slowmo ? o->lr * rate : o->lr, sum));
  }
  return ops->axpby(r->backend, n, 1 - mixing, x, mixing, w);
}

void shoal_outer_put(const shoal_run *r, const shoal_outer *o, shoal_ckpt_writer *c)
{
  const uint64_t n = r->form->params->n;
  if (o->kind == SHOAL_OUTER_NONE) return;
  shoal_ckpt_put_i64(c, kind_saved, o->kind);
  shoal_ckpt_put_arena(c, r->backend, x_saved, 1, &n, o->x.at);
  if (o->kind != SHOAL_OUTER_MEAN) shoal_ckpt_put_arena(c, r->backend, v_saved, 1, &n, o->v.at);
}

shoal_status shoal_outer_get(const shoal_run *r, shoal_outer *o, const shoal_ckpt *c, bool *found)
{
  const uint64_t n = r->form->params->n;
  int64_t then;
  *found = o->kind == SHOAL_OUTER_NONE;
  if (*found || !shoal_ckpt_has(c, kind_saved)) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_get_i64(c, kind_saved, &then));
  SHOAL_TRY(shoal_ckpt_get_arena(c, r->backend, x_saved, n, o->x.at));
  *found = true;
  return then == (int64_t)o->kind && o->v.at ? shoal_ckpt_get_arena(c, r->backend, v_saved, n, o->v.at) : SHOAL_OK;
}
