/* shoal bench: measure this machine against its limits.  Prints medians over whole steps or products; nothing is
 * asserted. */
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "cli/bench.h"
#include "nn/optim.h"
#include "tensor/cpu/cpu.h"
#include "train/options.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- shared by the verbs: flags, medians ---- */

static const shoal_flag flags[] = {
  { "--threads", NULL, "N", SHOAL_FLAG_VALUE, "compute threads (1)" },
  { "--seconds", NULL, "X", SHOAL_FLAG_VALUE, "time per line (5)" },
  { "--batch", NULL, "N", SHOAL_FLAG_VALUE, "step: batch size (default: set per model)" },
  { "--backend", NULL, "NAME", SHOAL_FLAG_VALUE, "cpu (default) or ref" },
  { "--set", NULL, "KEY=VALUE", SHOAL_FLAG_LIST, "step: run-file options, as in --set model.widths=[512]" },
  { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "for scripts" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};

enum { THREADS_MAX = 4096 };

typedef struct {
  int threads;
  double seconds;
  int64_t batch;
  const char *backend;
  const char *const *sets;
  size_t n_sets;
  bool json;
} settings;

static shoal_status read_settings(const shoal_args *a, settings *out)
{
  const char *threads = shoal_args_value(a, "--threads"), *seconds = shoal_args_value(a, "--seconds"),
             *batch = shoal_args_value(a, "--batch"), *backend = shoal_args_value(a, "--backend");
  int64_t n = 1;
  *out = (settings){ .threads = 1, .seconds = 5, .backend = backend ? backend : "cpu", .json = shoal_json_wanted(a) };
  out->n_sets = shoal_args_list(a, "--set", &out->sets);
  SHOAL_CHECK(!threads || (shoal_parse_i64(threads, &n) == SHOAL_OK && n >= 1 && n <= THREADS_MAX), SHOAL_ERR_USAGE,
              "--threads is \"%s\": must be a whole number, 1 to %d", threads, THREADS_MAX);
  out->threads = (int)n;
  SHOAL_CHECK(!seconds || (shoal_parse_f64(seconds, &out->seconds) == SHOAL_OK && out->seconds > 0), SHOAL_ERR_USAGE,
              "--seconds is \"%s\": must be a number above 0", seconds);
  SHOAL_CHECK(!batch || (shoal_parse_i64(batch, &out->batch) == SHOAL_OK && out->batch >= 1), SHOAL_ERR_USAGE,
              "--batch is \"%s\": must be a whole number, 1 or more", batch);
  return SHOAL_OK;
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double shoal_bench_median(double *values, size_t n)
{
  qsort(values, n, sizeof *values, by_value);
  return n ? values[n / 2] : NAN;
}

static void fill(float *x, size_t n, float scale)
{
  for (size_t i = 0; i < n; i++) {
    shoal_rng_block r = shoal_rng(1, SHOAL_RNG_TEST, i, 0);
    x[i] = (2 * shoal_rng_unit(r.v[0]) - 1) * scale;
  }
}

/* ---- step ---- */

typedef struct {
  const char *model;
  int64_t batch;
} benchmark;
static const benchmark benchmarks[] = {
  { "mlp", 128 }, { "resnet20", 128 }, { "vgg16", 64 }, { "resnet18", 32 }, { "gpt", 8 }, { "vit", 64 },
};

enum { MAX_STEPS = 4096 };
typedef struct {
  const shoal_model *model;
  double products_s; /* time in linear, convolution and attention layers of the step now running */
} product_clock;

static void add_product(void *ctx, int node, bool backward, uint64_t t0, uint64_t t1)
{
  product_clock *c = ctx;
  shoal_op_kind kind = c->model->node[node].kind;
  if (kind == SHOAL_OP_LINEAR || kind == SHOAL_OP_CONV || kind == SHOAL_OP_ATTENTION)
    c->products_s += (double)(t1 - t0) * 1e-9;
}

typedef struct {
  size_t n;
  double step[MAX_STEPS], forward[MAX_STEPS], backward[MAX_STEPS], optimizer[MAX_STEPS], products[MAX_STEPS];
} timings;

typedef struct {
  shoal_backend *backend;
  shoal_config *config;
  shoal_model *model;
  shoal_params *params;
  shoal_optim *optim;
  shoal_plan *plan;
  float *x;
  int32_t *y;
  int64_t batch;
} bench;

static void close_bench(bench *b)
{
  free(b->x);
  free(b->y);
  shoal_plan_destroy(b->plan);
  shoal_optim_destroy(b->optim);
  shoal_params_destroy(b->backend, b->params);
  shoal_model_destroy(b->model);
  shoal_config_destroy(b->config);
  shoal_backend_close(b->backend);
}

static shoal_status configure(const benchmark *y, const settings *s, shoal_config **out)
{
  const char *sets[64] = { "data.file=none", "optim.momentum=0.9" };
  char model[64];
  size_t n = 2;
  snprintf(model, sizeof model, "model.name=%s", y->model);
  sets[n++] = model;
  if (strcmp(y->model, "mlp") == 0) sets[n++] = "model.widths=[4096,4096]";
  for (size_t i = 0; i < s->n_sets && n < SHOAL_COUNT(sets); i++) sets[n++] = s->sets[i];
  return shoal_run_configure(NULL, sets, n, out);
}

static shoal_status open_bench(bench *b, const benchmark *y, const settings *s)
{
  *b = (bench){ .batch = s->batch ? s->batch : y->batch };
  shoal_run_choice choice;
  SHOAL_TRY(configure(y, s, &b->config));
  shoal_run_choose(b->config, &choice);
  const shoal_backend_options o = {
    .name = s->backend, .threads = s->threads, .products = choice.products, .emulate = choice.emulate
  };
  SHOAL_TRY(shoal_backend_open_as(&o, &b->backend));
  if (strcmp(s->backend, "cpu") == 0) shoal_cpu_set_winograd(b->backend, shoal_config_bool(b->config, "cpu.winograd"));
  const shoal_model_entry *entry = shoal_model_find(y->model);
  SHOAL_TRY(entry->build(b->config, &entry->typical, entry->typical_classes, &b->model));
  b->model->recompute = choice.recompute;
  SHOAL_TRY(shoal_params_create(b->backend, b->model, NULL, &b->params));
  SHOAL_TRY(shoal_model_init(b->backend, b->model, 1, b->params->w, b->params->stats));
  shoal_optim_config optim;
  SHOAL_TRY(shoal_optim_configure(b->config, &optim));
  SHOAL_TRY(shoal_optim_create(b->backend, &optim, b->params->n, &b->optim));
  SHOAL_TRY(shoal_plan_create(b->backend, b->model, b->batch, SHOAL_PLAN_TRAIN, &b->plan));
  const int64_t labels = b->batch * shoal_model_labels(b->model), classes = b->model->classes;
  size_t elements = (size_t)(b->batch * shoal_shape_count(&b->model->input));
  SHOAL_TRY(SHOAL_ALLOC(elements, &b->x));
  SHOAL_TRY(SHOAL_ALLOC((size_t)labels, &b->y));
  fill(b->x, elements, 1);
  for (size_t i = 0; shoal_model_reads_tokens(b->model) && i < elements; i++)
    b->x[i] = (float)(i * 7919 % (size_t)classes);
  for (int64_t i = 0; i < labels; i++) b->y[i] = (int32_t)(i % classes);
  return SHOAL_OK;
}

static shoal_status time_step(bench *b, uint32_t step, product_clock *clock, timings *t)
{
  shoal_score score = { 0 };
  shoal_address at = { .seed = 1, .step = step };
  clock->products_s = 0;
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(shoal_plan_forward(b->plan, b->params, &at, b->x, b->y, 1.0f / (float)b->batch, &score));
  uint64_t t1 = shoal_now_ns();
  SHOAL_TRY(shoal_plan_backward(b->plan, b->params, NULL, NULL));
  uint64_t t2 = shoal_now_ns();
  SHOAL_TRY(shoal_optim_step(b->optim, b->model, b->params, NULL, 0, 0.01f));
  uint64_t t3 = shoal_now_ns();
  if (step < 2) return SHOAL_OK; /* warm-up: caches, page faults */
  t->forward[t->n] = (double)(t1 - t0) * 1e-9;
  t->backward[t->n] = (double)(t2 - t1) * 1e-9;
  t->optimizer[t->n] = (double)(t3 - t2) * 1e-9;
  t->products[t->n] = clock->products_s;
  t->step[t->n++] = (double)(t3 - t0) * 1e-9;
  return SHOAL_OK;
}

static void print_step(const bench *b, timings *t, const settings *s)
{
  double step = shoal_bench_median(t->step, t->n), products = shoal_bench_median(t->products, t->n);
  double forward = shoal_bench_median(t->forward, t->n), backward = shoal_bench_median(t->backward, t->n),
         optimizer = shoal_bench_median(t->optimizer, t->n);
  double n = (double)b->batch;
  if (s->json) {
    shoal_json j = { .out = stdout };
    shoal_json_object(&j, NULL);
    shoal_json_string(&j, "model", b->model->name);
    shoal_json_int(&j, "batch", b->batch);
    shoal_json_int(&j, "threads", s->threads);
    shoal_json_string(&j, "backend", s->backend);
    shoal_json_string(&j, "dtype", b->backend->dtype);
    shoal_json_uint(&j, "steps", t->n);
    shoal_json_fixed(&j, "samples_per_s", n / step, 2);
    shoal_json_fixed(&j, "bound_samples_per_s", n / products, 2);
    shoal_json_fixed(&j, "step_ms", step * 1e3, 3);
    shoal_json_fixed(&j, "forward_ms", forward * 1e3, 3);
    shoal_json_fixed(&j, "backward_ms", backward * 1e3, 3);
    shoal_json_fixed(&j, "optimizer_ms", optimizer * 1e3, 3);
    shoal_json_fixed(&j, "products_ms", products * 1e3, 3);
    shoal_json_end(&j);
    shoal_json_finish(&j);
    return;
  }
  printf("%-10s %5s %6lld %10.1f %10.1f %8.2f %9.1f %9.1f %9.1f %9.1f\n", b->model->name, b->backend->dtype,
         (long long)b->batch, n / step, n / products, products / step, step * 1e3, forward * 1e3, backward * 1e3,
         optimizer * 1e3);
}

static shoal_status bench_step(const benchmark *y, const settings *s)
{
  bench b;
  timings *t = NULL;
  shoal_status st = open_bench(&b, y, s);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(1, &t);
  if (st == SHOAL_OK) {
    product_clock clock = { .model = b.model };
    shoal_plan_set_spans(b.plan, add_product, &clock);
    uint64_t start = shoal_now_ns();
    for (uint32_t step = 0; st == SHOAL_OK && t->n < MAX_STEPS && (t->n < 3 || shoal_seconds_since(start) < s->seconds);
         step++)
      st = time_step(&b, step, &clock, t);
    if (st == SHOAL_OK) print_step(&b, t, s);
  }
  free(t);
  close_bench(&b);
  return st;
}

static const shoal_verb_help step_help = {
  "shoal bench step [MODEL...] [options]",
  "Samples per second of a whole training step (forward, backward, SGD with momentum) on synthetic data, and the\n"
  "bound: its speed if only matrix products and convolutions took time.",
  flags,
  0,
  -1,
  "  shoal bench step\n  shoal bench step resnet20 --batch 64 --threads 2\n",
  shoal_model_name,
};

static shoal_status step(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&step_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  settings s;
  const char *const *words;
  size_t n = shoal_args_words(a, &words), ran = 0;
  shoal_status st = read_settings(a, &s);
  if (st == SHOAL_OK && !s.json)
    printf("%-10s %5s %6s %10s %10s %8s %9s %9s %9s %9s\n", "model", "dtype", "batch", "samples/s", "bound", "of bound",
           "step ms", "forward", "backward", "optimizer");
  for (size_t i = 0; st == SHOAL_OK && i < SHOAL_COUNT(benchmarks); i++) {
    bool wanted = n == 0;
    for (size_t w = 0; w < n; w++) wanted |= strcmp(words[w], benchmarks[i].model) == 0;
    if (!wanted) continue;
    ran++;
    st = bench_step(&benchmarks[i], &s);
  }
  if (st == SHOAL_OK && !ran)
    st = SHOAL_FAIL(SHOAL_ERR_USAGE, "no benchmark model is called \"%s\": mlp, resnet20, vgg16, resnet18, gpt, vit",
                    words[0]);
  shoal_args_destroy(a);
  return st;
}

/* ---- gemm ---- */

static shoal_status bench_gemm(shoal_backend *b, int64_t m, int64_t n, int64_t k, const settings *s)
{
  float *x = NULL, *w = NULL, *y = NULL;
  timings *t = NULL;
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)(m * k), &x), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)(k * n), &w), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)(m * n), &y), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(1, &t), done);
  fill(x, (size_t)(m * k), 1);
  fill(w, (size_t)(k * n), 1);
  uint64_t start = shoal_now_ns();
  while (t->n < MAX_STEPS && (t->n < 3 || shoal_seconds_since(start) < s->seconds)) {
    uint64_t t0 = shoal_now_ns();
    SHOAL_TRY_GOTO(st, b->ops->gemm(b, false, true, m, n, k, 1, x, k, w, k, 0, y, n), done);
    t->step[t->n++] = shoal_seconds_since(t0);
  }
  double time = shoal_bench_median(t->step, t->n), gflops = 2e-9 * (double)m * (double)n * (double)k / time;
  if (s->json) {
    shoal_json j = { .out = stdout };
    shoal_json_object(&j, NULL);
    shoal_json_int(&j, "m", m);
    shoal_json_int(&j, "n", n);
    shoal_json_int(&j, "k", k);
    shoal_json_fixed(&j, "gflops", gflops, 2);
    shoal_json_fixed(&j, "ms", time * 1e3, 4);
    shoal_json_end(&j);
    shoal_json_finish(&j);
  } else {
    printf("%6lld %6lld %6lld %10.1f %10.3f\n", (long long)m, (long long)n, (long long)k, gflops, time * 1e3);
  }
done:
  free(x);
  free(w);
  free(y);
  free(t);
  return st;
}

static const shoal_verb_help gemm_help = {
  "shoal bench gemm [options]",
  "Speed of matrix products C[m,n] = A[m,k] B[n,k]^T of typical network shapes.",
  flags,
  0,
  0,
  NULL,
};

static shoal_status gemm(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  SHOAL_TRY(shoal_args_parse(&gemm_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  static const int64_t shapes[][3] = {
    { 128, 4096, 784 }, { 128, 4096, 4096 }, { 4096, 4096, 128 }, { 1024, 1024, 1024 }
  };
  settings s;
  shoal_backend *b = NULL;
  shoal_status st = read_settings(a, &s);
  if (st == SHOAL_OK) st = shoal_backend_open(s.backend, s.threads, &b);
  if (st == SHOAL_OK && !s.json) printf("%6s %6s %6s %10s %10s\n", "m", "n", "k", "GFLOP/s", "ms");
  for (size_t i = 0; st == SHOAL_OK && i < SHOAL_COUNT(shapes); i++)
    st = bench_gemm(b, shapes[i][0], shapes[i][1], shapes[i][2], &s);
  shoal_backend_close(b);
  shoal_args_destroy(a);
  return st;
}

const shoal_verb shoal_bench_verbs[] = {
  { "step", "a whole training step against the time of its products", step, &step_help },
  { "gemm", "matrix products", gemm, &gemm_help },
  { "comm", "sums over all ranks, by each algorithm", shoal_bench_comm, &shoal_bench_comm_help },
  { NULL },
};
