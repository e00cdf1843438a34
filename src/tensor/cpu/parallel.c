/* Parallel loops in pieces short enough to poll the network in between.
 *
 * A pass over a large model (an optimizer step over 20 million weights takes 40 ms on one core) would starve the
 * exchange in flight, so the loop is split into pieces of about 8 MB per thread, about 1 ms, and the progress function
 * runs after each.  With one thread and a small range this is one direct call. */
#include "tensor/cpu/cpu_impl.h"

enum { PIECE_BYTES = 8 << 20, SMALL_BYTES = 256 << 10 };

static void run_piece(int threads, size_t begin, size_t end, size_t grain, shoal_cpu_range *f, const void *context)
{
  size_t each = shoal_round_up((end - begin + (size_t)threads - 1) / (size_t)threads, grain);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (int t = 0; t < threads; t++) {
    size_t from = begin + (size_t)t * each, to = SHOAL_MIN(from + each, end);
    if (from < to) f(context, from, to);
  }
}

void shoal_cpu_parallel(shoal_cpu *b, size_t n, size_t grain, size_t bytes, shoal_cpu_range *f, const void *context)
{
  int threads = b->base.threads;
  size_t piece = SHOAL_MAX(shoal_round_up((size_t)PIECE_BYTES / bytes, grain), grain) * (size_t)threads;
  for (size_t begin = 0; begin < n; begin += piece) {
    size_t end = SHOAL_MIN(begin + piece, n);
    if (threads == 1 || (end - begin) * bytes < SMALL_BYTES)
      f(context, begin, end);
    else
      run_piece(threads, begin, end, grain, f, context);
    shoal_backend_poll(&b->base);
  }
}
