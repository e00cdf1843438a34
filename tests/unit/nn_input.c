/* Batches on their way to memory that the host cannot reach: what arrives is what the loader had, whether it was begun ahead, begun
 * and forgotten, or not begun; and the batch before is there until the next but one is taken. */
#include "base/mem.h"
#include "check.h"
#include "nn/input.h"
#include "veil/veil.h"

enum { STEPS = 24, MOST = 5000 };

static size_t length(int step)
{
  return step < 2 ? 100 : step % 5 == 4 ? 37 : MOST; /* a larger one comes late, a short one at the end of an epoch */
}

static float number(int step, size_t i)
{
  return (float)step + (float)i * 0x1p-14f;
}

static void fill(int step, float *x)
{
  for (size_t i = 0; i < length(step); i++) x[i] = number(step, i);
}

static void check(shoal_backend *b, int step, const float *there, const char *when)
{
  static float got[MOST];
  size_t wrong = 0, n = length(step);
  CHECK_OK(b->ops->copy(b, n * sizeof *got, there, got));
  for (size_t i = 0; i < n; i++) wrong += got[i] != number(step, i);
  CHECK_EQ(wrong, 0, "batch %d %s", step, when);
}

/* The loader's slots are two, and the next batch is in one of them while the last is used. */
static void test(shoal_backend *b, bool elsewhere)
{
  static float slot[2][MOST];
  const float *x, *before = NULL;
  shoal_input *in;
  CHECK_OK(shoal_input_create(b, &in));
  fill(0, slot[0]);
  for (int step = 0; step < STEPS; step++) {
    size_t bytes = length(step) * sizeof **slot;
    CHECK_OK(shoal_input_take(in, slot[step % 2], bytes, &x));
    CHECK_EQ(x == slot[step % 2], !elsewhere, "batch %d", step);
    if (elsewhere && step > 2) check(b, step - 1, before, "of the step before");
    fill(step + 1, slot[(step + 1) % 2]);
    if (step % 4 == 3) slot[(step + 1) % 2][0] = -1; /* a batch that will not be taken */
    if (step % 3) CHECK_OK(shoal_input_ahead(in, slot[(step + 1) % 2], length(step + 1) * sizeof **slot));
    check(b, step, x, "of this step");
    if (step % 4 == 3) {
      shoal_input_forget(in);
      fill(step + 1, slot[(step + 1) % 2]);
    }
    before = x;
  }
  shoal_input_destroy(in);
}

int main(void)
{
  shoal_backend *b, *ref;
  REQUIRE(shoal_backend_open("ref", 1, &b) == SHOAL_OK, "ref");
  test(b, false);
  shoal_backend_close(b);
  REQUIRE(shoal_backend_open("ref", 1, &ref) == SHOAL_OK, "ref");
  REQUIRE(veil_over(ref, &b) == SHOAL_OK, "veil");
  test(b, true);
  shoal_backend_close(b);
  return check_done();
}
