/* An example of shoalread: prints what a data set, a checkpoint and a trace file hold.
 *
 *   cc read.c $(pkg-config --cflags --libs shoalread) -o read
 *   ./read glyphs.h5 runs/digits runs/digits/trace/attempt-0001-node-00000.h5 */
#include <inttypes.h>
#include <shoalread.h>
#include <stdio.h>
#include <stdlib.h>

static void stop(void)
{
  fprintf(stderr, "%s\n", shoalread_error());
  exit(1);
}

static void show_data(const char *file)
{
  shoalread_data *d = shoalread_data_open(&file, 1);
  if (!d) stop();
  int64_t shape[4];
  size_t elements = 1;
  int n = shoalread_data_shape(d, shape);
  for (int i = 0; i < n; i++) elements *= (size_t)shape[i];
  float *x = malloc(elements * sizeof *x);
  int32_t y;
  double sum = 0, labels = 0;
  uint64_t samples = shoalread_data_samples(d, SHOALREAD_TRAIN);
  for (uint64_t s = 0; s < samples; s++) {
    if (shoalread_data_read(d, SHOALREAD_TRAIN, s, 1, x, &y)) stop();
    for (size_t i = 0; i < elements; i++) sum += x[i];
    labels += y;
  }
  const double *mean, *std;
  size_t scales;
  shoalread_data_scale(d, &scales, &mean, &std);
  printf("data: %" PRIu64 " training and %" PRIu64 " test samples of %zu numbers, %" PRId64 " classes\n", samples,
         shoalread_data_samples(d, SHOALREAD_TEST), elements, shoalread_data_classes(d));
  printf("  sum %.9g, of labels %.9g, mean %.9g, std %.9g\n", sum, labels, mean[0], std[0]);
  free(x);
  shoalread_data_close(d);
}

static void show_ckpt(const char *path)
{
  shoalread_ckpt *c = shoalread_ckpt_open(path);
  if (!c) stop();
  printf("checkpoint: run %s, model %s, step %" PRIu64 "\n", shoalread_ckpt_run(c), shoalread_ckpt_model(c),
         shoalread_ckpt_step(c));
  const char *name;
  for (size_t i = 0; (name = shoalread_ckpt_name(c, i)); i++) {
    uint64_t dims[8], n = 1;
    shoalread_type type;
    int ndim = shoalread_ckpt_shape(c, name, &type, dims);
    for (int k = 0; k < ndim; k++) n *= dims[k];
    if (ndim < 0) stop();
    if (type != SHOALREAD_F32) continue;
    float *x = malloc(n * sizeof *x);
    double sum = 0;
    if (shoalread_ckpt_read(c, name, type, n, x)) stop();
    for (uint64_t k = 0; k < n; k++) sum += x[k];
    printf("  %s: %" PRIu64 " numbers, sum %.9g\n", name, n, sum);
    free(x);
  }
  shoalread_ckpt_close(c);
}

static void show_trace(const char *file)
{
  shoalread_trace *t = shoalread_trace_open(file);
  if (!t) stop();
  for (size_t i = 0; i < shoalread_trace_ranks(t); i++) {
    const shoalread_span *spans;
    size_t n, steps = 0;
    uint64_t ns = 0;
    int size, rank = shoalread_trace_rank(t, i, &size);
    if (shoalread_trace_spans(t, i, &spans, &n)) stop();
    for (size_t k = 0; k < n; k++) {
      if (spans[k].activity != SHOALREAD_STEP) continue;
      steps++;
      ns += spans[k].end_ns - spans[k].begin_ns;
    }
    printf("trace: rank %d of %d, %zu spans, %zu steps in %" PRIu64 " ns\n", rank, size, n, steps, ns);
  }
  shoalread_trace_close(t);
}

int main(int argc, char **argv)
{
  if (argc != 4) {
    fprintf(stderr, "usage: read DATA CHECKPOINT|RUN TRACE\n");
    return 2;
  }
  show_data(argv[1]);
  show_ckpt(argv[2]);
  show_trace(argv[3]);
  return 0;
}
