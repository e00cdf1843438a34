/* shoal model: import. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "nn/import.h"
#include "nn/text.h"
#include <stdlib.h>
#include <string.h>

static const shoal_flag import_flags[] = {
  { "-o", "--out", "NET.yaml", SHOAL_FLAG_VALUE,
    "the description to write, for model.file; weights go to NET.safetensors beside it (the name of the ONNX file)" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
static const shoal_verb_help import_help = {
  "shoal model import NET.onnx [-o NET.yaml]",
  "Makes a network of an ONNX file, as both of PyTorch's exporters write it: a description of its layers, and its "
  "weights.\n"
  "The input has one fixed shape, the batch first, and the output is [N, classes], of text [N, tokens, classes]; a "
  "softmax at the end "
  "is left out. A\n"
  "constant that is subtracted from the input, or divides it, is mean or standard deviation. Arithmetic of shapes is "
  "computed.\n"
  "Operators that become layers: Add, AveragePool, BatchNormalization, Cast, Clip, Concat, Conv, Div, Dropout, "
  "Flatten, Gather, "
  "Gelu, Gemm, GlobalAveragePool, HardSigmoid, HardSwish, Identity, LayerNormalization, LeakyRelu, MatMul, MaxPool, "
  "Mul, Pad, "
  "ReduceMean, Relu, Reshape, Sigmoid, Slice, Softmax, Split, Squeeze, Sub, Sum, Tanh, Transpose, Unsqueeze, Where; "
  "GELU, layer norm "
  "and attention also where "
  "they "
  "are written as several. What cannot be is told with its node.",
  import_flags,
  1,
  1,
  "  shoal model import net.onnx -o net.yaml\n  shoal models net.yaml\n",
};

/* "dir/net.onnx" with another ending; caller frees. */
static char *with_ending(const char *path, const char *ending)
{
  const char *base = shoal_path_base(path), *dot = strrchr(base, '.');
  size_t n = dot && dot > base ? (size_t)(dot - path) : strlen(path);
  return shoal_strdup_printf("%.*s%s", (int)n, path, ending);
}

static shoal_status write_network(shoal_import *im, const char *yaml, const char *tensors)
{
  const shoal_model *m = shoal_import_model(im);
  shoal_foreign f = { .model = m,
                      .tensor = shoal_import_tensor,
                      .ctx = im,
                      .kind = shoal_model_reads_tokens(m) ? "text"
                              : m->input.ndim == 3        ? "images"
                                                          : "features" };
  shoal_str text = { 0 };
  shoal_import_scale(im, &f);
  SHOAL_CHECK(!shoal_path_exists(yaml), SHOAL_ERR_IO, "%s exists already: remove it, or name another file", yaml);
  shoal_model_add_text(m, &text);
  shoal_status st = shoal_foreign_safetensors(&f, tensors);
  if (st == SHOAL_OK) st = shoal_write_file(yaml, text.text, text.len);
  if (st == SHOAL_OK) shoal_info("%s: %d layers, %zu weights; %s has them", yaml, m->nodes, m->weights, tensors);
  shoal_str_free(&text);
  return st;
}

static shoal_status import(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  shoal_import *im;
  SHOAL_TRY(shoal_args_parse(&import_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  const char *const *words, *out = shoal_args_value(a, "-o");
  shoal_args_words(a, &words);
  char *yaml = out ? shoal_strdup_printf("%s", out) : with_ending(shoal_path_base(words[0]), ".yaml");
  char *tensors = with_ending(yaml, ".safetensors");
  shoal_status st = shoal_import_open(words[0], &im);
  if (st == SHOAL_OK) {
    const shoal_texts *notes = shoal_import_notes(im);
    st = write_network(im, yaml, tensors);
    for (size_t k = 0; k < notes->n && st == SHOAL_OK; k++) shoal_warn("%s: %s", words[0], notes->at[k]);
    shoal_import_close(im);
  }
  free(yaml);
  free(tensors);
  shoal_args_destroy(a);
  return st;
}

const shoal_verb shoal_model_verbs[] = {
  { "import", "a network from an ONNX file", import, &import_help },
  { NULL },
};
