/* The test bench of tensor_rig.h. */
#include "tensor_rig.h"
#include "base/mem.h"
#include "base/rng.h"

float *floats(int64_t n)
{
  float *p = calloc((size_t)n + 1, sizeof *p);
  REQUIRE(p, "out of memory");
  return p;
}

static uint32_t word(uint64_t seed, int64_t i)
{
  return shoal_rng(seed, SHOAL_RNG_TEST, (uint64_t)i, 0).v[0];
}

static void fill_distinct(float *p, int64_t n, uint64_t seed)
{
  shoal_perm perm;
  shoal_perm_init(&perm, seed, SHOAL_RNG_TEST, 0, (uint64_t)n);
  for (int64_t i = 0; i < n; i++) p[i] = (float)((int64_t)shoal_perm_at(&perm, (uint64_t)i) - n / 2) / 16;
}

static float *fill(int64_t n, value_kind kind, uint64_t seed)
{
  float *p = floats(n);
  if (kind == DISTINCT) fill_distinct(p, n, seed);
  for (int64_t i = 0; i < n && kind != DISTINCT; i++) {
    float u = kind == GRID ? (float)(word(seed, i) % 256) / 256 : shoal_rng_unit(word(seed, i));
    p[i] = 2 * u - 1;
  }
  return p;
}

void values_make(values *v, const shoal_op_desc *d, value_kind kind, uint64_t seed)
{
  shoal_shape y, w[SHOAL_OP_WEIGHTS];
  REQUIRE(shoal_op_infer(d, &y) == SHOAL_OK, "description refused");
  shoal_op_weight_shapes(d, w);
  *v = (values){ .inputs = shoal_op_inputs(d) };
  v->y_n = shoal_shape_count(&y);
  value_kind plain = kind == DISTINCT ? GRID : kind;
  for (int i = 0; i < v->inputs; i++) {
    v->x_n[i] = shoal_shape_count(&d->in[i]);
    v->x[i] = fill(v->x_n[i], kind, seed + (i < 2 ? 10 : 100) + (uint64_t)i);
    for (int64_t e = 0; shoal_op_is_curve(d->kind) && e < v->x_n[i]; e++) v->x[i][e] *= 8; /* all pieces of it */
  }
  for (int64_t e = 0; d->kind == SHOAL_OP_EMBEDDING && e < v->x_n[0]; e++) /* rows, and what is none */
    v->x[0][e] = (float)(word(seed + 10, e) % (uint32_t)(d->rows + 2)) - 1;
  v->dy = fill(v->y_n, plain, seed + 20);
  for (int i = 0; i < SHOAL_OP_WEIGHTS; i++)
    if (w[i].ndim > 0) {
      v->w_n[i] = shoal_shape_count(&w[i]);
      v->w[i] = fill(v->w_n[i], plain, seed + 30 + (uint64_t)i);
    }
  if (d->kind != SHOAL_OP_BATCHNORM) return;
  v->stats_n = d->in[0].dim[1];
  for (int i = 0; i < 2; i++) v->stats[i] = fill(v->stats_n, plain, seed + 40 + (uint64_t)i);
  for (int64_t i = 0; i < v->stats_n; i++) v->stats[1][i] += 1.5f; /* a variance */
}

void values_free(values *v)
{
  for (int i = 0; i < v->inputs; i++) free(v->x[i]);
  for (int i = 0; i < 2; i++) {
    free(v->w[i]);
    free(v->stats[i]);
  }
  free(v->dy);
}

void results_make(results *r, const values *v)
{
  r->y = floats(v->y_n);
  for (int i = 0; i < SHOAL_OP_INPUTS; i++) r->dx[i] = i < v->inputs ? floats(v->x_n[i]) : NULL;
  for (int i = 0; i < 2; i++) {
    r->dw[i] = floats(v->w_n[i]);
    r->stats[i] = floats(v->stats_n);
  }
}

void results_free(results *r)
{
  free(r->y);
  for (int i = 0; i < SHOAL_OP_INPUTS; i++) free(r->dx[i]);
  for (int i = 0; i < 2; i++) {
    free(r->dw[i]);
    free(r->stats[i]);
  }
}

enum { GUARD = 64 };

static void *guarded(shoal_backend *b, size_t bytes)
{
  shoal_memory m;
  REQUIRE(b->ops->alloc(b, SHOAL_MEMORY_DEVICE, bytes + GUARD, &m) == SHOAL_OK, "alloc");
  void *p = m.at;
  CHECK_EQ((uintptr_t)p % 64, 0, "alloc is not aligned");
  for (size_t i = 0; i < bytes; i++)
    if (((char *)p)[i] != 0) {
      CHECK(false, "alloc is not zeroed");
      break;
    }
  memset((char *)p + bytes, 0x5a, GUARD);
  return p;
}

static void release(shoal_backend *b, void *p, size_t bytes, const char *what)
{
  if (!p) return;
  bool whole = true;
  for (int i = 0; i < GUARD; i++) whole = whole && ((unsigned char *)p)[bytes + (size_t)i] == 0x5a;
  CHECK(whole, "something wrote behind %s", what);
  b->ops->release(b, &(shoal_memory){ p, bytes + GUARD, SHOAL_MEMORY_DEVICE });
}

static void poison(void *p, size_t bytes)
{
  if (p) memset(p, 0xff, bytes);
}

/* Weights are views into an arena: aligned to a float and no more, or to 16 bytes, which a backend may make use of. */
static int64_t place_of_views(const values *v)
{
  return v->y_n % 2 ? 1 : 4;
}

static float *view(shoal_backend *b, int64_t n, int64_t at)
{
  return n ? (float *)guarded(b, (size_t)(n + at) * sizeof(float)) + at : NULL;
}

static void release_view(shoal_backend *b, float *p, int64_t n, int64_t at, const char *what)
{
  if (p) release(b, p - at, (size_t)(n + at) * sizeof(float), what);
}

void rig_open(rig *r, shoal_backend *b, const shoal_op_desc *d, const shoal_format *in, const values *v)
{
  *r = (rig){ .backend = b, .v = v, .at = { .seed = 77, .step = 5, .slot0 = 3 } };
  REQUIRE(shoal_op_create(b, d, in, &r->op) == SHOAL_OK, "op_create of %s: %s", describe(d, (char[160]){ 0 }),
          check_error());
  shoal_op *op = r->op;
  for (int i = 0; i < v->inputs; i++) {
    r->x[i] = guarded(b, op->in_format[i].bytes);
    r->dx[i] = guarded(b, op->in_format[i].bytes);
  }
  r->y = guarded(b, op->out_format.bytes);
  r->dy = guarded(b, op->out_format.bytes);
  const int64_t at = place_of_views(v);
  for (int i = 0; i < 2; i++) {
    r->w[i] = view(b, v->w_n[i], at);
    r->dw[i] = view(b, v->w_n[i], at);
    r->stats[i] = view(b, v->stats_n, at);
  }
  if (op->saved_bytes) r->saved = guarded(b, op->saved_bytes);
  if (op->scratch_bytes) r->scratch = guarded(b, op->scratch_bytes);
}

void rig_close(rig *r)
{
  shoal_backend *b = r->backend;
  const int64_t at = place_of_views(r->v);
  for (int i = 0; i < r->v->inputs; i++) {
    release(b, r->x[i], r->op->in_format[i].bytes, "x");
    release(b, r->dx[i], r->op->in_format[i].bytes, "dx");
  }
  for (int i = 0; i < 2; i++) {
    release_view(b, r->w[i], r->v->w_n[i], at, "w");
    release_view(b, r->dw[i], r->v->w_n[i], at, "dw");
    release_view(b, r->stats[i], r->v->stats_n, at, "stats");
  }
  release(b, r->y, r->op->out_format.bytes, "y");
  release(b, r->dy, r->op->out_format.bytes, "dy");
  release(b, r->saved, r->op->saved_bytes, "saved");
  release(b, r->scratch, r->op->scratch_bytes, "scratch");
  shoal_op_destroy(r->op);
}

void rig_load(rig *r)
{
  const shoal_backend_ops *ops = r->backend->ops;
  for (int i = 0; i < r->v->inputs; i++) {
    poison(r->x[i], r->op->in_format[i].bytes);
    CHECK_OK(ops->from_dense(r->backend, &r->op->desc.in[i], &r->op->in_format[i], r->v->x[i], r->x[i]));
  }
  for (int i = 0; i < 2; i++) {
    if (r->w[i]) memcpy(r->w[i], r->v->w[i], (size_t)r->v->w_n[i] * sizeof(float));
    if (r->stats[i]) memcpy(r->stats[i], r->v->stats[i], (size_t)r->v->stats_n * sizeof(float));
  }
}

bool rig_trains(const rig *r)
{
  return r->op->desc.training;
}

static shoal_op_args arguments(rig *r)
{
  shoal_op_args a = {
    .y = r->y_at, .dy = r->dy, .saved = r->saved, .scratch = r->scratch, .weights_version = r->version, .at = &r->at
  };
  bool dx = r->op->desc.need_dx && rig_trains(r);
  for (int i = 0; i < r->v->inputs; i++) {
    a.x[i] = r->x[i];
    a.dx[i] = dx ? r->dx[i] : NULL;
  }
  for (int i = 0; i < 2; i++) {
    a.w[i] = r->w[i];
    a.dw[i] = r->dw[i];
    a.stats[i] = r->stats[i];
  }
  return a;
}

void rig_forward(rig *r, results *out, int place)
{
  shoal_op *op = r->op;
  shoal_op_args a = arguments(r);
  a.y = r->y_at = place == IN_PLACE ? r->x[0] : r->y;
  if (place == APART) poison(r->y, op->out_format.bytes);
  poison(r->saved, op->saved_bytes);
  poison(r->scratch, op->scratch_bytes);
  CHECK_OK(op->forward(op, &a));
  CHECK_OK(r->backend->ops->to_dense(r->backend, &op->desc.out, &op->out_format, a.y, out->y));
  for (int i = 0; i < 2; i++)
    if (r->stats[i]) memcpy(out->stats[i], r->stats[i], (size_t)r->v->stats_n * sizeof(float));
}

/* Backward in the caller's order: weights first.  What it promised not to read is NaN by then. */
void rig_backward(rig *r, results *out, int place)
{
  shoal_op *op = r->op;
  shoal_op_args a = arguments(r);
  const shoal_backend_ops *ops = r->backend->ops;
  CHECK_OK(ops->from_dense(r->backend, &op->desc.out, &op->out_format, r->v->dy, r->dy));
  for (int i = 0; i < r->v->inputs; i++) {
    if (!op->backward_reads_x && r->x[i] != r->y_at) poison(r->x[i], op->in_format[i].bytes);
    poison(r->dx[i], op->in_format[i].bytes);
  }
  if (!op->backward_reads_y) poison(r->y_at, op->out_format.bytes);
  for (int i = 0; i < 2; i++) poison(r->dw[i], (size_t)r->v->w_n[i] * sizeof(float));
  if (place == IN_PLACE && a.dx[0]) a.dx[0] = r->dy;
  CHECK(!(op->dw_with_dx && op->backward_weights), "dw_with_dx, yet backward_weights is there");
  CHECK(op->backward_weights || op->dw_with_dx || !r->v->w_n[0], "no call computes dw");
  poison(r->scratch, op->scratch_bytes);
  if (op->backward_weights) CHECK_OK(op->backward_weights(op, &a));
  poison(r->scratch, op->scratch_bytes);
  if (op->desc.need_dx || op->dw_with_dx) CHECK_OK(op->backward_data(op, &a));
  for (int i = 0; i < r->v->inputs && op->desc.need_dx; i++)
    CHECK_OK(ops->to_dense(r->backend, &op->desc.in[i], &op->in_format[i], a.dx[i], out->dx[i]));
  for (int i = 0; i < 2; i++)
    if (r->dw[i]) memcpy(out->dw[i], r->dw[i], (size_t)r->v->w_n[i] * sizeof(float));
}

double worst_error(const float *a, const float *b, int64_t n, double cancelled)
{
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(a[i]) || !isfinite(b[i])) return INFINITY;
    worst = fmax(worst, fabs((double)a[i] - b[i]));
    largest = fmax(largest, fabs((double)b[i]));
  }
  return worst == 0 ? 0 : worst / (largest > 0 ? largest : cancelled);
}

bool same_bits(const void *a, const void *b, int64_t n)
{
  return n == 0 || memcmp(a, b, (size_t)n * sizeof(float)) == 0;
}

int rig_failures(void)
{
  return check_failures;
}

const char *describe(const shoal_op_desc *d, char buf[160])
{
  const int64_t *x = d->in[0].dim;
  int n = snprintf(buf, 160, "%s [", shoal_op_kind_name(d->kind));
  for (int i = 0; i < d->in[0].ndim; i++) n += snprintf(buf + n, (size_t)(160 - n), "%s%d", i ? "," : "", (int)x[i]);
  snprintf(buf + n, (size_t)(160 - n), "] width %d kernel %dx%d stride %d,%d pad %d,%d gap %d,%d groups %d%s%s%s%s",
           (int)(d->kind == SHOAL_OP_CONV ? d->out.dim[1] : d->out.dim[SHOAL_MAX(d->in[0].ndim - 1, 0)]), d->kernel[0],
           d->kernel[1], d->stride[0], d->stride[1], d->pad[0], d->pad[1], d->gap[0], d->gap[1], shoal_op_groups(d),
           d->bias ? " bias" : "", d->relu ? " relu" : "", d->training ? "" : " evaluation",
           d->need_dx ? "" : " without dx");
  return buf;
}
