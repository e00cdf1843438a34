/* Winograd's algorithm against direct convolution in backend cpu, layer by layer and pass by pass.
 *
 *     bench.winograd [--images 32] [--rounds 7] [in,height,width,out ...]
 *
 * Built by hand (cmake --build --preset release --target bench.winograd).  3x3 kernels of stride 1, padding 1; without shapes those of
 * resnet20, vgg16 and resnet18, and some that are cut badly into tiles.  Processor time of one thread in ms, best of the rounds, in which
 * the two take turns; weights count as new in each.  Errors are the largest over the largest value against sums in double, of 4
 * images.  Prints Markdown. */
#include "base/mem.h"
#include "base/str.h"
#include "tensor/cpu/conv.h"
#include "unit/tensor_rig.h"
#include <float.h>
#include <time.h>

enum { FORWARD, DATA, WEIGHTS, PASSES, DIRECT = 0, WINOGRAD, KINDS, EXACT_IMAGES = 4 };
static const char *const pass_name[PASSES] = { "y", "dx", "dw" };

static shoal_backend *cpu[KINDS], *ref;

static shoal_op_desc layer(const int64_t s[4], int64_t images)
{
  shoal_op_desc d = { .kind = SHOAL_OP_CONV,
                      .in = { SHOAL_SHAPE(images, s[0], s[1], s[2]) },
                      .out = SHOAL_SHAPE(0, s[3], 0, 0),
                      .kernel = { 3, 3 },
                      .stride = { 1, 1 },
                      .pad = { 1, 1 },
                      .training = true,
                      .need_dx = true };
  REQUIRE(shoal_op_infer(&d, &d.out) == SHOAL_OK, "shape: %s", check_error());
  return d;
}

/* dx as ref's forward of dy with the kernels turned by 180 degrees, because ref sums only forward and dw in double. */
static void exact_dx(const shoal_op_desc *d, const values *v, float *dx)
{
  int64_t in = d->in[0].dim[1], out = d->out.dim[1];
  shoal_op_desc back = layer((const int64_t[]){ out, d->out.dim[2], d->out.dim[3], in }, d->in[0].dim[0]);
  values turned;
  results r;
  rig g;
  values_make(&turned, &back, FULL, 1);
  results_make(&r, &turned);
  memcpy(turned.x[0], v->dy, (size_t)v->y_n * sizeof(float));
  for (int64_t i = 0; i < in * out * 9; i++) {
    int64_t o = i / (in * 9), c = i / 9 % in, tap = i % 9;
    turned.w[0][(c * out + o) * 9 + 8 - tap] = v->w[0][i];
  }
  rig_open(&g, ref, &back, NULL, &turned);
  rig_load(&g);
  rig_forward(&g, &r, APART);
  memcpy(dx, r.y, (size_t)v->x_n[0] * sizeof(float));
  rig_close(&g);
  results_free(&r);
  values_free(&turned);
}

static void compute(shoal_backend *b, const shoal_op_desc *d, const values *v, results *out)
{
  rig r;
  rig_open(&r, b, d, NULL, v);
  rig_load(&r);
  rig_forward(&r, out, APART);
  rig_backward(&r, out, APART);
  rig_close(&r);
}

static void errors(const int64_t shape[4], double error[KINDS][PASSES])
{
  shoal_op_desc d = layer(shape, EXACT_IMAGES);
  values v;
  results want, got;
  values_make(&v, &d, FULL, 3);
  results_make(&want, &v);
  results_make(&got, &v);
  compute(ref, &d, &v, &want);
  exact_dx(&d, &v, want.dx[0]);
  for (int k = 0; k < KINDS; k++) {
    compute(cpu[k], &d, &v, &got);
    error[k][FORWARD] = worst_error(got.y, want.y, v.y_n, 0);
    error[k][DATA] = worst_error(got.dx[0], want.dx[0], v.x_n[0], 0);
    error[k][WEIGHTS] = worst_error(got.dw[0], want.dw[0], v.w_n[0], 0);
  }
  results_free(&got);
  results_free(&want);
  values_free(&v);
}

static double now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void run_once(rig *r, double best[PASSES])
{
  shoal_op *op = r->op;
  shoal_op_args a = { .x = { r->x[0] },
                      .y = r->y,
                      .dy = r->dy,
                      .dx = { r->dx[0] },
                      .w = { r->w[0] },
                      .dw = { r->dw[0] },
                      .saved = r->saved,
                      .scratch = r->scratch,
                      .weights_version = ++r->version,
                      .at = &r->at };
  double t[PASSES + 1] = { now_ms() };
  REQUIRE(op->forward(op, &a) == SHOAL_OK, "forward");
  t[1] = now_ms();
  REQUIRE(op->backward_data(op, &a) == SHOAL_OK, "backward_data");
  t[2] = now_ms();
  REQUIRE(op->backward_weights(op, &a) == SHOAL_OK, "backward_weights");
  t[3] = now_ms();
  for (int p = 0; p < PASSES; p++) best[p] = SHOAL_MIN(best[p], t[p + 1] - t[p]);
}

static void times(const int64_t shape[4], int64_t images, int64_t rounds, double best[KINDS][PASSES])
{
  shoal_op_desc d = layer(shape, images);
  values v;
  results out;
  rig r[KINDS];
  values_make(&v, &d, FULL, 3);
  results_make(&out, &v);
  for (int k = 0; k < KINDS; k++) {
    rig_open(&r[k], cpu[k], &d, NULL, &v);
    rig_load(&r[k]);
    rig_forward(&r[k], &out, APART);
    rig_backward(&r[k], &out, APART);
    for (int p = 0; p < PASSES; p++) best[k][p] = DBL_MAX;
  }
  for (int64_t i = 0; i < rounds; i++)
    for (int k = 0; k < KINDS; k++) run_once(&r[(i + k) % KINDS], best[(i + k) % KINDS]);
  for (int k = 0; k < KINDS; k++) rig_close(&r[k]);
  results_free(&out);
  values_free(&v);
}

static void measure(const int64_t s[4], int64_t images, int64_t rounds)
{
  double error[KINDS][PASSES], best[KINDS][PASSES];
  shoal_op_desc d = layer(s, images);
  const char *chosen = shoal_cpu_suits_winograd((const shoal_cpu *)cpu[WINOGRAD], &d) ? "" : " (the rule: direct)";
  errors(s, error);
  times(s, images, rounds, best);
  for (int p = 0; p < PASSES; p++)
    printf("| %lld to %lld, %lldx%lld%s | %s | %.3f | %.3f | %.2f | %.1e | %.1e |\n", (long long)s[0], (long long)s[3],
           (long long)s[1], (long long)s[2], chosen, pass_name[p], best[DIRECT][p], best[WINOGRAD][p],
           best[DIRECT][p] / best[WINOGRAD][p], error[DIRECT][p], error[WINOGRAD][p]);
  fflush(stdout);
}

/* 1 and more; the program ends if it is not a number. */
static int64_t number(const char *text)
{
  int64_t n = 0;
  if (text) CHECK_OK(shoal_parse_i64(text, &n));
  REQUIRE(n >= 1, "%s: not a number, 1 or more", text ? text : "(nothing)");
  return n;
}

int main(int argc, char **argv)
{
  static const int64_t usual[][4] = {
    { 16, 32, 32, 16 },  { 32, 16, 16, 32 },   { 64, 8, 8, 64 },   { 64, 32, 32, 64 },
    { 64, 16, 16, 128 }, { 128, 16, 16, 128 }, { 128, 8, 8, 256 }, { 256, 8, 8, 256 },
    { 256, 4, 4, 512 },  { 512, 4, 4, 512 },   { 512, 2, 2, 512 }, { 64, 14, 14, 64 },
    { 128, 7, 7, 128 },  { 256, 6, 6, 256 },   { 128, 5, 5, 128 }, { 256, 3, 3, 256 },
  };
  int64_t images = 32, rounds = 7;
  int at = 1;
  for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0; at += 2) {
    REQUIRE(strcmp(argv[at], "--images") == 0 || strcmp(argv[at], "--rounds") == 0, "%s: --images or --rounds",
            argv[at]);
    *(argv[at][2] == 'i' ? &images : &rounds) = number(argv[at + 1]);
  }
  for (int k = 0; k < KINDS; k++) REQUIRE(shoal_backend_open("cpu", 1, &cpu[k]) == SHOAL_OK, "open cpu");
  REQUIRE(shoal_backend_open("ref", 1, &ref) == SHOAL_OK, "open ref");
  shoal_cpu_set_winograd(cpu[WINOGRAD], true);
  printf("| layer | pass | direct ms | Winograd ms | ratio | error, direct | error, Winograd "
         "|\n|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; at == argc && i < SHOAL_COUNT(usual); i++) measure(usual[i], images, rounds);
  for (; at < argc; at++) {
    int64_t s[4];
    char *text = argv[at];
    for (int i = 0; i < 4; i++) {
      char *comma = text ? strchr(text, ',') : NULL;
      if (comma) *comma = '\0';
      s[i] = number(text);
      text = comma ? comma + 1 : NULL;
    }
    measure(s, images, rounds);
  }
  for (int k = 0; k < KINDS; k++) shoal_backend_close(cpu[k]);
  shoal_backend_close(ref);
  return rig_failures() != 0;
}
