/* Between the parts of the import of ONNX: a network under construction, and what each operator makes of a node.
 *
 *   onnx_import.c     the table of operators, its checks, the graph from input to output
 *   onnx_values.c     values, names, layers, attributes: what all operators need
 *   onnx_operators.c  products, convolutions, pools, norms, functions of each element: a layer each
 *   onnx_views.c      the same elements in another shape or order, or a part of them
 *   onnx_attention.c  queries, keys, scores and values
 *   onnx_constants.c  operators of several inputs, and what becomes of constants among them */
#ifndef SHOAL_NN_ONNX_IMPORT_H
#define SHOAL_NN_ONNX_IMPORT_H
#include "nn/import.h"
#include "nn/onnx_graph.h"
#include "nn/text_impl.h"

typedef struct shoal_import_scores shoal_import_scores;

/* What is known of a value that depends on the input: a view of the output of a layer.
 *
 *   element (i0, i1, ...) of the value = element first + i0 step[0] + i1 step[1] + ... of that output, dense and row-major, batch included
 *
 * so that shapes, orders and parts need no layer until one reads them (shoal_import_read). */
typedef struct {
  int layer; /* -1: the network's input */
  int ndim;  /* 0: not computed yet */
  int64_t dim[SHOAL_ONNX_DIMS], step[SHOAL_ONNX_DIMS], first;
  int64_t pad[2]; /* by a node for the convolution or mean that alone reads it; not in dim */
  double scale;   /* a number that it is multiplied with; attention alone reads it where this is not 1 */
  const shoal_onnx_node *shaped, *turned,
      *cut;                          /* the last that put it into a shape or an order, or took a part; or NULL */
  const shoal_import_scores *scores; /* it is no layer's, but part of an attention that has only begun; else NULL */
} shoal_import_value;

/* Queries times keys: what attention does before its values come. */
struct shoal_import_scores {
  shoal_import_value queries, keys; /* [..., places, width] and [..., width, places] */
  double scale;
  bool causal, shares; /* masked; behind the softmax */
};

/* A tensor of a layer. */
typedef struct {
  int layer;
  const char *suffix;             /* "weight" */
  char name[SHOAL_NAME_MAX + 16]; /* "conv1.weight", when all layers have their names */
  const shoal_onnx_tensor *t;     /* NULL: zeros */
  bool turned;                    /* a matrix whose transpose is the layer's */
  const int64_t *rows; /* [picked], in the graph's memory: those of the layer's rows that t has; NULL: all, in order */
  int64_t picked;
} shoal_import_weight;

struct shoal_import {
  shoal_onnx_graph g;
  shoal_text text;        /* the layers */
  shoal_model *shapes;    /* the same, node by node, for their shapes */
  shoal_model *model;     /* what comes out */
  shoal_import_value *at; /* [g.values] */
  shoal_import_weight *weights;
  size_t n, cap;
  double *mean, *std; /* [scales] */
  size_t scales;
  bool centred, divided; /* the input's scale, as far as nodes have computed it */
  int channels;          /* dimension of the input that they are in the file: 1, or 3 of images with channels last */
  shoal_texts notes;
  shoal_str folded; /* convolutions with a batch norm in them */
  int n_folded;
};

/* ---- values (onnx_values.c) ---- */
/** Input k of a node, if it is the value of a layer or the input; else NULL. */
shoal_import_value *shoal_import_at(const shoal_import *im, const shoal_onnx_node *n, int k);
/** ERR_UNSUPPORTED with this reason; node and operator are put before it. */
shoal_status shoal_import_refuse(const char *why);
const shoal_shape *shoal_import_shape(const shoal_import *im, int layer);
/** Whether a value is all of its layer's output, in its order; and in its shape, too. */
bool shoal_import_is_whole(const shoal_import *im, const shoal_import_value *v);
bool shoal_import_own_shape(const shoal_import *im, const shoal_import_value *v);
/** ERR_UNSUPPORTED if it is more than a view: scaled, or scores of an attention. */
shoal_status shoal_import_plain(const shoal_import_value *v);
/** The batch that the file is for; 1 where it is for any. */
int64_t shoal_import_batch(const shoal_import *im);
/** All of a layer's output, in this shape. */
shoal_import_value shoal_import_dense(int layer, int ndim, const int64_t *dim);
/** The node's output is that of a layer: in this shape, in the layer's own, or as another value of it. */
void shoal_import_give(shoal_import *im, const shoal_onnx_node *n, int layer, int ndim, const int64_t *dim);
void shoal_import_give_layer(shoal_import *im, const shoal_onnx_node *n, int layer);
void shoal_import_give_same(shoal_import *im, const shoal_onnx_node *n, const shoal_import_value *v);

/* ---- names ---- */
/** "conv1" of "conv1.weight" for the ending ".weight"; false if it has another one. */
bool shoal_import_name_of_tensor(const char *name, const char *ending, char *out, size_t cap);
/** "layer1.0.conv1" of "/layer1/layer1.0/conv1/Conv": folders of a node's name are modules of PyTorch; false, and "", if it is in none. */
bool shoal_import_name_of_node(const char *name, char *out, size_t cap);
/** A name that no layer has: this one if it will do. */
void shoal_import_name_layer(const shoal_import *im, shoal_op_kind kind, const char *wish, char out[SHOAL_NAME_MAX]);
/** What a value that is known was called in the file, before nodes put it into another shape or order. */
const char *shoal_import_origin(const shoal_import *im, int v);
/** What the layer of a node should be called: as its weight or its bias, where no other layer is, or as the module that the node is
 *  of; else "". */
const char *shoal_import_wish(const shoal_import *im, const shoal_onnx_node *n, char out[128]);

/* ---- layers ---- */
/** Begins a layer, which has no bias; its facts and inputs may be changed before it is ended. */
shoal_status shoal_import_begin(shoal_import *im, shoal_op_kind kind, const char *wish, shoal_text_layer **out);
/** Ends it: infers its shape, which refuses what does not fit, and counts who reads what. */
shoal_status shoal_import_end(shoal_import *im, int *layer);
/** Input k as the output of a layer: layers make one of what is a view of it in another shape or order, or of a part of it. */
shoal_status shoal_import_read(shoal_import *im, const shoal_onnx_node *n, int k, int *layer);
shoal_status shoal_import_put_weight(shoal_import *im, int layer, const char *suffix, const shoal_onnx_tensor *t,
                                     bool turned);
/** Input k, which must be known: [width], or any shape with width elements; a weight of so many dimensions. */
shoal_status shoal_import_known_list(const shoal_import *im, const shoal_onnx_node *n, int k, int64_t width,
                                     const char *what, const shoal_onnx_tensor **out);
shoal_status shoal_import_known_weight(const shoal_import *im, const shoal_onnx_node *n, int k, int ndim,
                                       const shoal_onnx_tensor **out);

/** The same for any value; what comes out is in *v, too.  Layers are called as the nodes that made the view. */
shoal_status shoal_import_settle(shoal_import *im, shoal_import_value *v);
/** The value in another shape, without a layer; false if there is no such view. */
bool shoal_import_reshape(const shoal_import_value *v, int ndim, const int64_t *dim, shoal_import_value *out);

/* ---- attributes ---- */
int64_t shoal_import_int(const shoal_onnx_node *n, const char *name, int64_t otherwise);
double shoal_import_real(const shoal_onnx_node *n, const char *name, double otherwise);
/** A list of whole numbers in input k or, in older files, in an attribute; the caller frees.  *n < 0: there is none. */
shoal_status shoal_import_list(const shoal_import *im, const shoal_onnx_node *node, int k, const char *name,
                               int64_t **out, int *n);

/* ---- operators ---- */
#define SHOAL_TAKE(name) shoal_status shoal_take_##name(shoal_import *im, const shoal_onnx_node *n)
/* onnx_operators.c */
SHOAL_TAKE(gemm);
SHOAL_TAKE(matmul);
SHOAL_TAKE(conv);
SHOAL_TAKE(pool);
SHOAL_TAKE(pad);
SHOAL_TAKE(global_pool);
SHOAL_TAKE(mean);
SHOAL_TAKE(batchnorm);
SHOAL_TAKE(layernorm);
SHOAL_TAKE(curve);
SHOAL_TAKE(gelu);
SHOAL_TAKE(hardsigmoid);
SHOAL_TAKE(leakyrelu);
SHOAL_TAKE(clip);
SHOAL_TAKE(same);
SHOAL_TAKE(cast);
SHOAL_TAKE(dropout);
/* onnx_views.c */
SHOAL_TAKE(flatten);
SHOAL_TAKE(reshape);
SHOAL_TAKE(squeeze);
SHOAL_TAKE(transpose);
SHOAL_TAKE(slice);
SHOAL_TAKE(split);
SHOAL_TAKE(gather);
/* onnx_constants.c */
SHOAL_TAKE(add);
SHOAL_TAKE(concat);
SHOAL_TAKE(mul);
SHOAL_TAKE(scale);
/* onnx_attention.c */
SHOAL_TAKE(softmax);
SHOAL_TAKE(where);
/** The product of two values, neither of them known. */
shoal_status shoal_import_product(shoal_import *im, const shoal_onnx_node *n);
/** A constant is multiplied with a value that is not the input, or divides it. */
shoal_status shoal_import_scale_by(shoal_import *im, const shoal_onnx_node *n, const shoal_import_value *x, double by);
/** A constant is added to scores: a mask. */
shoal_status shoal_import_mask(shoal_import *im, const shoal_onnx_node *n, const shoal_import_value *x,
                               const shoal_onnx_tensor *mask);
#endif
