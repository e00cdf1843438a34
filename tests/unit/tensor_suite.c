/* One suite for every backend:  unit.tensor.suite BACKEND [THREADS] [TOPIC] [PRODUCTS]; topics linear and conv are the operations
 * of that kind, which PRODUCTS (f32, tf32, bf16) are for; on cpu bf16 is for ops, and emulated.
 * A backend passes when it computes what ref computes; ref when it agrees with finite differences and with numbers
 * that another framework computed.  Exit 77 where the backend is not built in, or its device is missing. */
#include "base/clock.h"
#include "tensor_mirror.h"
#include "tensor_rig.h"

static const char *only;
static shoal_products products;

static bool begins(const char *topic)
{
  return !only || strcmp(only, topic) == 0;
}

/* Through a mirror they take long, and show no more than that the backend computes what ref does. */
static bool finite_differences(shoal_backend *b)
{
  const char *full = getenv("SHOAL_FULL");
  return only || !mirrored(b) || (full && strcmp(full, "1") == 0);
}

static void run(shoal_backend *b, shoal_backend *ref)
{
  int failed = 0;
  if (begins("golden")) failed += test_golden(b);
  if (only && strcmp(only, "linear") == 0) failed += test_ops(b, ref, SHOAL_OP_LINEAR, products);
  if (only && strcmp(only, "conv") == 0) failed += test_ops(b, ref, SHOAL_OP_CONV, products);
  if (begins("ops")) failed += test_ops(b, ref, SHOAL_OP_COUNT, products);
  if (begins("gradients") && finite_differences(b)) failed += test_gradients(b);
  if (begins("chain")) failed += test_chain(b, ref);
  if (begins("dropout")) failed += test_dropout(b);
  if (begins("gemm")) failed += test_gemm(b);
  if (begins("multiply")) failed += test_multiply(b);
  if (begins("loss")) failed += test_loss(b);
  if (begins("target_loss")) failed += test_target_loss(b);
  if (begins("vectors")) failed += test_vectors(b);
  if (begins("arena")) failed += test_arena(b);
  CHECK_EQ(failed + rig_failures(), 0, "see above");
}

int main(int argc, char **argv)
{
  REQUIRE(argc >= 2, "usage: %s BACKEND [THREADS] [TOPIC]", argv[0]);
  const char *name = argv[1];
  int threads = argc > 2 ? atoi(argv[2]) : 2;
  only = argc > 3 ? argv[3] : NULL;
  const char *const *names;
  bool built_in = false;
  for (size_t i = shoal_backend_names(&names); i-- > 0;) built_in = built_in || strcmp(names[i], name) == 0;
  if (!built_in) CHECK_SKIP("backend %s is not built in", name);
  shoal_backend *b = NULL, *other = NULL;
  if (argc > 4 && strcmp(argv[4], "tf32") == 0) products = SHOAL_PRODUCTS_TF32;
  if (argc > 4 && strcmp(argv[4], "bf16") == 0) products = SHOAL_PRODUCTS_BF16;
  const shoal_backend_options options = { .name = name, .threads = threads, .products = products, .emulate = true };
  const shoal_status opened = shoal_backend_open_as(&options, &b);
  if (opened == SHOAL_ERR_DEVICE || opened == SHOAL_ERR_UNSUPPORTED) CHECK_SKIP("%s", check_error());
  REQUIRE(b, "open %s: %s", name, check_error());
  b = mirror_of(b);
  if (strcmp(name, "ref") != 0) REQUIRE(shoal_backend_open("ref", 1, &other) == SHOAL_OK, "open ref");
  run(b, other ? other : b);
  shoal_backend_close(other);
  shoal_backend_close(b);
  return check_done();
}
