/* The gradient of whole networks against central differences of their loss, on the reference backend: chains, residual
 * blocks, and graphs whose tensors have several readers, so that every way of summing gradients is walked. */
#include "nn_rig.h"

static void check(const char *name, shoal_model *m, int64_t batch)
{
  rig r;
  rig_open(&r, "ref", m, batch, SHOAL_PLAN_TRAIN);
  rig_check_gradients(&r, name);
  rig_close(&r);
  shoal_model_destroy(m);
}

int main(void)
{
  static const char *const networks[] = {
    "chain", "residual", "forks", "wide", "branches", "groups", "tokens", "tied"
  };
  for (int i = 0; i < 8; i++) {
    check(networks[i], rig_network(networks[i]), 4);
    check(networks[i], rig_network(networks[i]), 3);
  }
  check("forks", rig_network("forks"), 1);
  static const char *const mlps[] = { "model.activation=relu",
                                      "model.activation=gelu",
                                      "model.norm=batch",
                                      "model.norm=layer",
                                      "model.norm=layer model.activation=gelu model.dropout=0.2",
                                      "model.norm=batch model.smoothing=0.1 model.dropout=0.5" };
  for (int i = 0; i < 6; i++) {
    char options[256];
    snprintf(options, sizeof options, "model.widths=[7,6] %s", mlps[i]);
    check(mlps[i], rig_model("mlp", options, &SHOAL_SHAPE(1, 3, 3), 4), 5);
  }
  check("gpt", rig_model("gpt", "model.width=8 model.heads=2 model.depth=2 model.dropout=0.1", &SHOAL_SHAPE(5), 11), 2);
  check("gpt, tied", rig_model("gpt", "model.width=8 model.heads=2 model.depth=1 model.tied=true", &SHOAL_SHAPE(5), 11),
        2);
  const shoal_shape image = SHOAL_SHAPE(2, 4, 6);
  check("vit", rig_model("vit", "model.width=8 model.heads=2 model.depth=2 model.patch=2 model.dropout=0.1", &image, 3),
        2);
  check("vit, mean",
        rig_model("vit", "model.width=8 model.heads=2 model.depth=1 model.patch=2 model.pool=mean", &image, 3), 2);
  shoal_model *weighted = rig_model("mlp", "model.widths=[7,6] model.smoothing=0.1", &SHOAL_SHAPE(1, 3, 3), 4);
  CHECK_OK(shoal_model_weigh(weighted, (const float[]){ 0.25f, 3, 0, 1.5f }));
  check("classes with weights", weighted, 9);
  check("mlp without hidden layers", rig_model("mlp", "model.widths=[]", &SHOAL_SHAPE(6), 3), 1);
  return check_done();
}
