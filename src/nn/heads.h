/* Heads: small classifiers attached to a slice of a network (shoal_model_slice), which give it a loss of its own.
 *
 *   linear     [pool over the plane] fc                                     the plain auxiliary classifier
 *   mlp-sr     pool to a quarter of the side, 3 x {conv 1x1, bn, relu},      Belilovsky et al., ICML 2020
 *              pool to 2x2, 3 x {fc, bn, relu}, fc
 *   nokland    pool until at most 4096 values are left, fc initialised to 0        Nokland and Eidnes, ICML 2019
 *
 * After a layer without a spatial plane (a fully connected one) every head is a single fc; nokland's is initialised to 0.  After
 * one of tokens there is a layer norm before it, and where a sample has one label, the mean over the tokens; where it has a label
 * for each, the fc is an un-embedding of its own.
 *
 * The papers use adaptive pooling; here all windows of a pool are equal: stride s = side / target and a kernel that
 * reaches the end.  This is the same where the target divides the side, as it does for the usual images.  A plane too
 * small for 2x2 is pooled to 1x1 instead of being repeated. */
#ifndef SHOAL_NN_HEADS_H
#define SHOAL_NN_HEADS_H
#include "nn/model.h"

typedef enum { SHOAL_HEAD_AUTO, SHOAL_HEAD_LINEAR, SHOAL_HEAD_MLP_SR, SHOAL_HEAD_NOKLAND, SHOAL_HEADS } shoal_head;
const char *shoal_head_name(shoal_head kind);
shoal_head shoal_head_from_name(const char *name); /* SHOAL_HEADS if unknown */
/** Builds a head for a boundary tensor.  @param kind  AUTO is mlp-sr for a plane [c, h, w], else linear
 *  @param input  per sample: [c, h, w], [tokens, n] or [n]; ERR_ARG for others
 *  @param labels  of a sample, as shoal_model_rows: 1, or one for each token
 *  Cost of mlp-sr with C channels: 51 C^2 + 4 C classes weights. */
shoal_status shoal_head_build(shoal_head kind, const shoal_shape *input, int64_t classes, int64_t labels,
                              shoal_model **out);
#endif
