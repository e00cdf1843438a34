/* `shoal ckpt export`: the model alone, for other programs; the ending of the file's name says for which. */
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/folder.h"
#include "nn/foreign.h"
#include "train/network.h"
#include <stdlib.h>
#include <string.h>

/* The layers in the order of computation: everything that evaluation needs beside the tensors, which have the names of layers. */
static void put_layers(const shoal_model *m, shoal_json *j)
{
  shoal_json_array(j, NULL);
  for (int i = 0; i < m->nodes; i++) {
    const shoal_node *n = &m->node[i];
    bool spatial = n->kind == SHOAL_OP_CONV || n->kind == SHOAL_OP_MAXPOOL || n->kind == SHOAL_OP_AVGPOOL;
    shoal_json_object(j, NULL);
    shoal_json_string(j, "name", n->name);
    shoal_json_string(j, "kind", shoal_op_kind_name(n->kind));
    shoal_json_array(j, "inputs"); /* names of layers; null: the sample */
    for (int k = 0; k < shoal_node_inputs(n); k++)
      shoal_json_string(j, NULL, n->in[k] >= 0 ? m->node[n->in[k]].name : NULL);
    shoal_json_end(j);
    if (spatial) {
      const struct {
        const char *key;
        const int *values;
      } pairs[] = {
        { "kernel", n->kernel }, { "stride", n->stride }, { "padding", n->pad }, { "dilation", n->dilation }
      };
      for (size_t k = 0; k < SHOAL_COUNT(pairs); k++) {
        shoal_json_array(j, pairs[k].key);
        for (int d = 0; d < 2; d++) shoal_json_int(j, NULL, pairs[k].values[d]);
        shoal_json_end(j);
      }
    }
    if (n->ceil) shoal_json_bool(j, "ceil", true);
    if (n->count_pad) shoal_json_bool(j, "count_pad", true);
    if (n->kind == SHOAL_OP_RESHAPE || n->kind == SHOAL_OP_TRANSPOSE) {
      bool turns = n->kind == SHOAL_OP_TRANSPOSE;
      shoal_json_array(j, turns ? "order" : "shape");
      for (int d = 0; d < n->out.ndim; d++) shoal_json_int(j, NULL, turns ? n->order[d] : n->out.dim[d]);
      shoal_json_end(j);
    }
    if (n->kind == SHOAL_OP_SLICE) {
      shoal_json_int(j, "first", n->first);
      shoal_json_int(j, "count", n->out.dim[0]);
    }
    if (n->kind == SHOAL_OP_ATTENTION) {
      shoal_json_int(j, "heads", n->heads);
      shoal_json_bool(j, "causal", n->causal);
    }
    if (n->kind == SHOAL_OP_CONV) shoal_json_int(j, "groups", n->groups);
    if (n->kind == SHOAL_OP_BATCHNORM || n->kind == SHOAL_OP_LAYERNORM) shoal_json_real(j, "eps", n->eps);
    if (n->kind == SHOAL_OP_LEAKYRELU) shoal_json_real(j, "slope", n->slope);
    if (n->tied) shoal_json_string(j, "weight", m->param[n->weight[0]].name);
    if (n->relu) shoal_json_bool(j, "relu", true);
    shoal_json_end(j);
  }
  shoal_json_end(j);
}

/* Without the layers the file still holds the weights, as always. */
static void warn_without_layers(const char *path, shoal_status st)
{
  if (st != SHOAL_OK)
    shoal_warn("the layers of the network are not in what is exported of %s: %s", path, shoal_error_text(st));
}

static shoal_status export_hdf5(const char *file, const char *out)
{
  shoal_ckpt *c;
  shoal_model *m = NULL;
  shoal_json j = { 0 };
  SHOAL_TRY(shoal_ckpt_open(file, false, &c)); /* the export verifies it */
  shoal_status built = shoal_network_build(c, &m);
  if (built == SHOAL_OK) put_layers(m, &j);
  warn_without_layers(file, built);
  shoal_ckpt_close(c);
  shoal_status st = shoal_ckpt_export(file, built == SHOAL_OK ? j.text.text : NULL, out);
  shoal_str_free(&j.text);
  shoal_model_destroy(m);
  return st;
}

static shoal_status get_tensor(void *ctx, const char *name, size_t n, float *out)
{
  char full[SHOAL_NAME_MAX + 32];
  snprintf(full, sizeof full, "model/%s", name);
  return shoal_ckpt_get(ctx, full, SHOAL_F32, n, out);
}

typedef shoal_status foreign_writer(const shoal_foreign *f, const char *path);

static shoal_status export_foreign(const char *file, foreign_writer *write, const char *out)
{
  shoal_network n = { 0 };
  shoal_status st = shoal_network_open(file, &n);
  if (st == SHOAL_OK) {
    const shoal_ckpt_info *info = shoal_ckpt_get_info(n.ckpt);
    shoal_foreign f = { .model = n.model,
                        .tensor = get_tensor,
                        .ctx = n.ckpt,
                        .scales = info->data.scales,
                        .mean = info->data.mean,
                        .std = info->data.std,
                        .kind = info->data.kind,
                        .class_names = info->data.class_names,
                        .feature_names = info->data.feature_names,
                        .targets = info->data.targets,
                        .target_mean = info->data.target_mean,
                        .target_std = info->data.target_std,
                        .target_names = info->data.target_names,
                        .vocabulary = n.vocabulary_text,
                        .run = info->run,
                        .method = info->method,
                        .step = info->step,
                        .epoch = info->epoch };
    st = write(&f, out);
  }
  shoal_network_close(&n);
  return st;
}

static bool ends_with(const char *path, const char *ending)
{
  size_t n = strlen(path), m = strlen(ending);
  return n > m && strcmp(path + n - m, ending) == 0;
}

shoal_status shoal_network_export(const char *path, const char *out)
{
  char *file;
  SHOAL_CHECK(ends_with(out, ".h5") || ends_with(out, ".hdf5") || ends_with(out, ".onnx") ||
                  ends_with(out, ".safetensors"),
              SHOAL_ERR_USAGE,
              "-o %s: its ending says the format, and this is none: NAME.h5 (or .hdf5; PyTorch's names of weights), "
              "NAME.onnx, NAME.safetensors",
              out);
  SHOAL_TRY(shoal_ckpt_find(path, &file));
  foreign_writer *foreign = ends_with(out, ".onnx")          ? shoal_foreign_onnx
                            : ends_with(out, ".safetensors") ? shoal_foreign_safetensors
                                                             : NULL;
  shoal_status st = foreign ? export_foreign(file, foreign, out) : export_hdf5(file, out);
  if (st == SHOAL_OK) shoal_info("%s: the model of %s", out, file);
  free(file);
  return st;
}
