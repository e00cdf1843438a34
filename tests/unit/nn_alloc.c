/* A step allocates nothing: every way into the C allocator is counted around the second training step and the second
 * evaluation, separately for calls from this program (all of Shoal is in it) and from shared libraries.  oneDNN makes a
 * few small allocations whenever it runs a primitive; those are only printed. */
#include "allocations.h"
#include "nn/optim.h"
#include "nn_rig.h"

#ifndef COUNTS_ALLOCATIONS
int main(void)
{
  CHECK_SKIP("the allocator belongs to the sanitizer, or is not glibc's");
}
#else
static shoal_status hear(void *ctx, size_t offset, size_t n, size_t *bad)
{
  *(size_t *)ctx += n;
  return SHOAL_OK;
}

static void step(rig *r, shoal_optim *o)
{
  shoal_score s = { 0 };
  size_t heard = 0;
  CHECK_OK(shoal_plan_forward(r->plan, r->params, &r->at, r->x, r->y, 0.1f, &s));
  if (!o) return;
  CHECK_OK(shoal_plan_backward(r->plan, r->params, hear, &heard));
  CHECK_OK(shoal_optim_step(o, r->m, r->params, NULL, 0, 0.01f));
}

static void check(const char *backend, const char *name, shoal_model *m, shoal_plan_mode mode)
{
  static const shoal_optim_config config = {
    .kind = SHOAL_OPTIM_SGD, .momentum = 0.9f, .weight_decay = 1e-4f, .clip = 1
  };
  rig r;
  shoal_optim *o = NULL;
  rig_open(&r, backend, m, 2, mode);
  if (mode == SHOAL_PLAN_TRAIN) CHECK_OK(shoal_optim_create(r.b, &config, m->weights, &o));
  step(&r, o);
  own = foreign = 0;
  counting = 1;
  step(&r, o);
  counting = 0;
  printf("%-4s %-10s %-10s: %ld allocations of our own, %ld in libraries\n", backend, name,
         mode == SHOAL_PLAN_TRAIN ? "training" : "evaluation", own, foreign);
  CHECK_EQ(own, 0, "%s %s", backend, name);
  CHECK(foreign == 0 || strcmp(backend, "cpu") == 0, "%s %s: %ld in libraries", backend, name, foreign);
  shoal_optim_destroy(o);
  rig_close(&r);
}

static bool has_bf16(void)
{
  shoal_backend *b = NULL;
  shoal_status st = shoal_backend_open_as(
      &(shoal_backend_options){ .name = "cpu", .threads = 1, .products = SHOAL_PRODUCTS_BF16, .emulate = true }, &b);
  shoal_backend_close(b);
  return st == SHOAL_OK;
}

int main(void)
{
  static const char *const backends[] = { "ref", "cpu", "cpu" }; /* the last one in bf16 */
  const int kinds = has_bf16() ? 3 : 2;
  const shoal_shape image = { 3, { 3, 32, 32 } };
  for (int k = 0; k < 2 * kinds; k++) {
    rig_products = k / 2 == 2 ? SHOAL_PRODUCTS_BF16 : SHOAL_PRODUCTS_F32;
    shoal_plan_mode mode = k % 2 ? SHOAL_PLAN_EVAL : SHOAL_PLAN_TRAIN;
    shoal_model *m[] = { rig_network("chain"),
                         rig_network("residual"),
                         rig_network("forks"),
                         rig_network("branches"),
                         rig_model("resnet20", "", &image, 10),
                         rig_model("mlp", "model.widths=[64,32] model.norm=batch model.dropout=0.1", &image, 10) };
    for (int chain = 0; chain < 2; chain++) {
      shoal_factoring how[64] = { [2] = { .rank = 2, .chain = chain } };
      shoal_model *factored;
      CHECK_OK(shoal_model_factor(m[1], how, SHOAL_TRAIN_A, &factored));
      check(backends[k / 2], chain ? "chain" : "product", factored, mode);
      shoal_model_destroy(factored);
    }
    for (int i = 0; i < 5; i++) {
      check(backends[k / 2], m[i]->name, m[i], mode);
      shoal_model_destroy(m[i]);
    }
  }
  own = foreign = 0; /* the count counts */
  counting = 1;
  void *volatile p = malloc(2);
  char *volatile q = strdup("in a library");
  counting = 0;
  free(p);
  free(q);
  CHECK_EQ(own, 1);
  CHECK_EQ(foreign, 1);
  return check_done();
}
#endif
