/* Convolutions of backend cpu against ref, bit for bit, over the shapes of the built-in networks and of narrow ones.
 *
 * The values are multiples of 2^-7 below 1 and every sum here stays below 2^10, so all partial sums are exact and the
 * order of summation does not show: one wrong bit is a fault.  Which of oneDNN's kernels run depends on the shape, the
 * format of the input, the number of threads and the instruction set.  CMake runs this program once for the processor
 * at hand and again with ONEDNN_MAX_CPU_ISA, so that a machine with AVX-512 tests what smaller ones run. */
#include "base/mem.h"
#include "tensor/cpu/cpu_impl.h"
#include "tensor_rig.h"

typedef struct {
  int64_t n, in, size, out;
  int kernel, stride;
} shape;

/* From vgg16, resnet18 and resnet20; of the same channels with several image sizes the smaller ones. */
static const shape networks[] = {
  { 5, 3, 32, 16, 3, 1 },    { 5, 16, 32, 16, 3, 1 },  { 5, 16, 32, 32, 3, 2 },  { 5, 16, 32, 32, 1, 2 },
  { 5, 32, 16, 32, 3, 1 },   { 5, 32, 16, 64, 3, 2 },  { 5, 32, 16, 64, 1, 2 },  { 5, 64, 8, 64, 3, 1 },
  { 2, 3, 32, 64, 3, 1 },    { 1, 64, 16, 64, 3, 1 },  { 1, 64, 32, 128, 3, 2 }, { 2, 64, 32, 128, 1, 2 },
  { 2, 128, 16, 256, 1, 2 }, { 1, 256, 8, 256, 3, 1 }, { 1, 256, 8, 512, 3, 2 }, { 2, 256, 8, 512, 1, 2 },
  { 2, 512, 2, 512, 3, 1 },
};

static void run(shoal_backend *b, const shoal_op_desc *d, const shoal_format *in, const values *v, results *out)
{
  rig r;
  rig_open(&r, b, d, in, v);
  rig_load(&r);
  rig_forward(&r, out, APART);
  rig_backward(&r, out, APART);
  rig_close(&r);
}

enum { BACKENDS = 2 };
static shoal_backend *cpu[BACKENDS], *ref; /* cpu with 1 and with 2 threads */

/* One convolution with its input in each of `layouts`. */
static void check_conv(const shape *s, int layouts)
{
  static const shoal_cpu_layout layout[] = { SHOAL_CPU_DENSE, SHOAL_CPU_CHANNELS_LAST, SHOAL_CPU_BLOCK8,
                                             SHOAL_CPU_BLOCK16 };
  static const char *const name[] = { "dense", "channels last", "blocks of 8", "blocks of 16" };
  shoal_op_desc d = { .kind = SHOAL_OP_CONV,
                      .in = { SHOAL_SHAPE(s->n, s->in, s->size, s->size) },
                      .out = SHOAL_SHAPE(0, s->out, 0, 0),
                      .kernel = { s->kernel, s->kernel },
                      .stride = { s->stride, s->stride },
                      .pad = { s->kernel / 2, s->kernel / 2 },
                      .training = true,
                      .need_dx = true };
  values v;
  results got, want;
  char text[160];
  values_make(&v, &d, GRID, 8);
  results_make(&got, &v);
  results_make(&want, &v);
  run(ref, &d, NULL, &v, &want);
  for (int t = 0; t < BACKENDS; t++)
    for (int l = 0; l < layouts; l++) {
      shoal_format in[SHOAL_OP_INPUTS];
      REQUIRE(shoal_cpu_format_of_layout((shoal_cpu *)cpu[t], &d.in[0], SHOAL_ELEMENTS_F32, layout[l], &in[0]) ==
                  SHOAL_OK,
              "format");
      in[1] = in[0];
      run(cpu[t], &d, in, &v, &got);
      const struct {
        const char *name;
        const float *got, *want;
        size_t n;
      } tensors[] = { { "y", got.y, want.y, v.y_n },
                      { "dx", got.dx[0], want.dx[0], v.x_n[0] },
                      { "dw", got.dw[0], want.dw[0], v.w_n[0] } };
      for (int k = 0; k < 3; k++)
        CHECK(same_bits(tensors[k].got, tensors[k].want, tensors[k].n), "%s, input %s, %d threads: %s off by %.3g",
              describe(&d, text), name[l], t + 1, tensors[k].name,
              worst_error(tensors[k].got, tensors[k].want, tensors[k].n, 0));
    }
  results_free(&got);
  results_free(&want);
  values_free(&v);
}

/* Channel counts on both sides of the widths of vector registers, as the parts of a network have them.  For 1x1 with
 * stride 2 and up to 7 channels oneDNN's own way through channels-last tensors gives wrong gradients here on AVX2, or
 * crashes, or never ends (see conv_plan.c); images of 64x64 are large enough for AVX-512 and up to 15. */
static void check_narrow(void)
{
  static const int64_t channels[] = { 1, 3, 6, 8, 11, 15, 16, 22 };
  for (size_t i = 0; i < SHOAL_COUNT(channels); i++)
    for (size_t o = 0; o < SHOAL_COUNT(channels); o++) {
      check_conv(&(shape){ 4, channels[i], 32, channels[o], 1, 2 }, 4);
      check_conv(&(shape){ 3, channels[i], 9, channels[o], 3, 1 + (int)(o % 2) }, 4);
    }
  for (size_t i = 0; i < SHOAL_COUNT(channels); i++) check_conv(&(shape){ 2, channels[i], 64, 11, 1, 2 }, 2);
  check_conv(&(shape){ 2, 6, 34, 11, 1, 3 }, 4);
  check_conv(&(shape){ 2, 43, 16, 85, 1, 2 }, 4);
}

/* ONEDNN_MAX_CPU_ISA must have lowered the instruction set, or the test is not what its name says. */
static void check_instruction_set(void)
{
  const char *name = getenv("ONEDNN_MAX_CPU_ISA");
  dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa(), most = isa;
  if (name && strcmp(name, "AVX2") == 0) most = dnnl_cpu_isa_avx2;
  if (name && strcmp(name, "SSE41") == 0) most = dnnl_cpu_isa_sse41;
  REQUIRE((isa & ~most) == 0, "oneDNN uses instruction set %#x in spite of ONEDNN_MAX_CPU_ISA=%s", (unsigned)isa, name);
}

int main(void)
{
  check_instruction_set();
  REQUIRE(shoal_backend_open("ref", 1, &ref) == SHOAL_OK, "open ref");
  for (int t = 0; t < BACKENDS; t++) REQUIRE(shoal_backend_open("cpu", t + 1, &cpu[t]) == SHOAL_OK, "open cpu");
  check_narrow();
  for (size_t i = 0; i < SHOAL_COUNT(networks); i++) check_conv(&networks[i], 2);
  for (int t = 0; t < BACKENDS; t++) shoal_backend_close(cpu[t]);
  shoal_backend_close(ref);
  return check_done() || rig_failures();
}
