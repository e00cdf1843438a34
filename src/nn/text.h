/* A network as text: a list of layers in YAML, for networks that are not built in.
 *
 *   input: [3, 32, 32]     # optional, and so is classes: what the network is for; other data are refused
 *   classes: 10
 *   layers:
 *     - { name: conv1, op: conv, width: 16, kernel: 3, pad: 1, bias: false }
 *     - { name: bn1, op: batchnorm, relu: true }
 *     - { name: pool, op: globalpool }
 *     - { name: fc, op: linear, width: classes }
 *
 * A layer reads the one before it, or those that `in` names; `input` is the network's input.  The last layer's output are
 * the logits.  A relu of its own is fused into the layer before it, where that may have one and nobody else reads it.
 * Units, between which layer-parallel training cuts, begin where a layer says `cut: true`; where none does, before each
 * linear or convolution at which a cut is possible.  docs/networks.md has all keys. */
#ifndef SHOAL_NN_TEXT_H
#define SHOAL_NN_TEXT_H
#include "nn/model.h"

/** Reads a description and builds the network.
 *  @param origin   name of the text in messages
 *  @param input    shape of a sample, and `classes`: those of the data.  NULL and 0: those that the text states, which it then
 *                  must
 *  @param out      owns a copy of the text (shoal_model.text); its name is `name` in the text, else the origin's last part
 *                  without its ending
 *  @return ERR_USAGE with origin:line:column, the layer, and shapes where they do not fit */
shoal_status shoal_model_from_text(const char *text, size_t n, const char *origin, const shoal_shape *input,
                                   int64_t classes, shoal_model **out);
shoal_status shoal_model_from_file(const char *path, const shoal_shape *input, int64_t classes, shoal_model **out);
/** Appends a description that reads back to the same network, whatever that was built of. */
void shoal_model_add_text(const shoal_model *m, shoal_str *out);
#endif
