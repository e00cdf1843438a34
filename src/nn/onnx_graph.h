/* A graph of ONNX as it is in a file: values, the nodes that make them, attributes, tensors.  onnx_read.c reads it,
 * onnx_fold.c computes what is known without an input, onnx_match.c finds layers that are written as several nodes, and
 * onnx_import.c and the files that its header names make a network of the rest.
 *
 *   x ─► [Conv] ─► v1 ─► [Relu] ─► v2 ─► …        values: x, v1, v2, w, b (by number), nodes: Conv, Relu
 *   w, b ──┘
 *
 * All memory is the graph's and is freed with it.  Names are those of the file, and may be anything. */
#ifndef SHOAL_NN_ONNX_GRAPH_H
#define SHOAL_NN_ONNX_GRAPH_H
#include "base/proto.h"
#include "base/status.h"
#include "tensor/memory.h"
#include <stdbool.h>

enum { SHOAL_ONNX_DIMS = 8 };
/* Types of elements that are read, by their numbers in the format. */
enum {
  SHOAL_ONNX_F32 = 1,
  SHOAL_ONNX_U8 = 2,
  SHOAL_ONNX_I32 = 6,
  SHOAL_ONNX_I64 = 7,
  SHOAL_ONNX_BOOL = 9,
  SHOAL_ONNX_F16 = 10,
  SHOAL_ONNX_F64 = 11,
  SHOAL_ONNX_BF16 = 16
};

/* A tensor whose elements are known: in the file, in one beside it, or computed. */
typedef struct {
  int type;
  int ndim;
  int64_t dim[SHOAL_ONNX_DIMS];
  size_t count; /* product of dim */
  /* Where the elements are: the first of these that is there. */
  const shoal_host_float *reals; /* [count], computed */
  const int64_t *whole;          /* [count], computed; of whole numbers and truth values */
  const uint8_t *raw;            /* little-endian, in the file */
  shoal_proto_view list;         /* a field of the message: packed numbers or f32 or f64 */
  const char *beside;            /* a file, whose bytes from `offset` on these are */
  uint64_t offset;
} shoal_onnx_tensor;

typedef struct {
  const char *name;
  int type; /* 1 f32, 2 whole number, 3 text, 4 tensor, 6 f32s, 7 whole numbers; others are not read */
  float real;
  int64_t whole;
  const char *text;
  const shoal_onnx_tensor *tensor;
  const int64_t *list; /* [n] of type 7 */
  size_t n;
} shoal_onnx_attribute;

typedef struct {
  const char *op, *name, *domain; /* name: of its first output where it has none */
  int *in, *out;                  /* [ins], [outs]: numbers of values, -1: left out */
  int ins, outs;
  shoal_onnx_attribute *attribute; /* [attributes] */
  int attributes;
  bool live;   /* an output of the network depends on it */
  bool folded; /* the exporter remarks that a batch norm is in its weights */
} shoal_onnx_node;

typedef struct {
  const char *name;
  int producer;                   /* node, or -1 */
  int readers;                    /* live nodes; the network's output counts as one */
  int reader;                     /* the last of them, or -1 */
  const shoal_onnx_tensor *known; /* its elements, or NULL */
} shoal_onnx_value;

typedef struct {
  const char *path;
  int64_t opset;
  shoal_onnx_node *node; /* [nodes], in the order of computation */
  shoal_onnx_value *value;
  int nodes, values;
  int input, *output, outputs; /* values; the only input that is no initialiser */
  int input_type;
  int input_ndim;
  int64_t input_dim[SHOAL_ONNX_DIMS]; /* 0: a name instead of a number */
  /* private */
  uint8_t *bytes; /* the file */
  size_t n;
  void *blocks; /* list of what shoal_onnx_take gave */
  int *table;   /* hash table of values: number or -1 */
  size_t slots;
  uint64_t memory; /* bytes that may still be taken */
} shoal_onnx_graph;

/** Reads a file.  ERR_IO in one line if it is damaged, or has what cannot be read; ERR_UNSUPPORTED for what ONNX has, but no
 *  network here can have.  @param out  zeroed; free it in every case */
shoal_status shoal_onnx_open(const char *path, shoal_onnx_graph *out);
void shoal_onnx_free(shoal_onnx_graph *g);
/** Zeroed memory that lives as long as the graph. */
shoal_status shoal_onnx_take(shoal_onnx_graph *g, size_t n, size_t size, void *out);
/** Marks the nodes on which value v depends, and counts the readers of every value among them.  Who asks for the shape of the
 *  network's input reads nothing of it. */
shoal_status shoal_onnx_mark(shoal_onnx_graph *g, int v);

const shoal_onnx_attribute *shoal_onnx_attribute_of(const shoal_onnx_node *n, const char *name); /* NULL: none */
/** Input k of a node: the value, or -1. */
static inline int shoal_onnx_in(const shoal_onnx_node *n, int k)
{
  return k < n->ins ? n->in[k] : -1;
}
/** Its elements, if they are known; else NULL. */
static inline const shoal_onnx_tensor *shoal_onnx_known(const shoal_onnx_graph *g, const shoal_onnx_node *n, int k)
{
  int v = shoal_onnx_in(n, k);
  return v >= 0 ? g->value[v].known : NULL;
}
/** Elements as f32 [count] or as whole numbers [count]; of the wrong kind, ERR_UNSUPPORTED.  The caller frees. */
shoal_status shoal_onnx_reals(const shoal_onnx_graph *g, const shoal_onnx_tensor *t, shoal_host_float **out);
shoal_status shoal_onnx_whole(const shoal_onnx_graph *g, const shoal_onnx_tensor *t, int64_t **out);
bool shoal_onnx_is_whole(int type);
/** The only element of a tensor of f32s; false if it has more or other ones. */
bool shoal_onnx_scalar(const shoal_onnx_graph *g, const shoal_onnx_tensor *t, double *out);
const char *shoal_onnx_shape_text(int ndim, const int64_t *dim, char *buf, size_t cap); /* "[1,3,32,32]" */

/* onnx_fold.c */
/** Computes an operator whose inputs are all known; `out` is in the graph's memory.
 *  ERR_UNSUPPORTED if it is none of those that are computed. */
shoal_status shoal_onnx_fold(shoal_onnx_graph *g, const shoal_onnx_node *n, shoal_onnx_tensor *out);
bool shoal_onnx_folds(const char *op);

/* onnx_match.c */
/** Replaces nodes that together are a GELU or a layer norm by one node of that name.  Marks anew what is live. */
shoal_status shoal_onnx_match(shoal_onnx_graph *g, int output);
#endif
