/* Between the parts of a network's text: the table of keys, for reading and for writing, and layers as they are written. */
#ifndef SHOAL_NN_TEXT_IMPL_H
#define SHOAL_NN_TEXT_IMPL_H
#include "base/texts.h"
#include "config/yaml.h"
#include "nn/model_impl.h"
#include "nn/text.h"

typedef enum {
  SHOAL_KEY_WIDTH, /* a count, or the word "classes" */
  SHOAL_KEY_COUNT,
  SHOAL_KEY_PAIR, /* one number for both, or [h, w] */
  SHOAL_KEY_LIST, /* of 1 to 4 whole numbers */
  SHOAL_KEY_REAL,
  SHOAL_KEY_FLAG,
  SHOAL_KEY_INIT
} shoal_key_type;

/* What a layer says beside its name, operation and inputs. */
typedef struct {
  int64_t width, rows; /* 0: "classes"; of SLICE how many */
  int64_t first;
  int64_t kernel[2], stride[2], pad[2], dilation[2], groups, heads;
  shoal_shape shape, order;
  double eps, momentum, p, slope;
  bool bias, relu, tied, cut, ceil, count_pad, causal;
  int64_t block; /* -1: none */
  shoal_init init;
} shoal_layer_facts;

typedef struct {
  const char *name;
  shoal_key_type type;
  bool required;
  size_t at;        /* in shoal_layer_facts */
  uint64_t kinds;   /* bit k: operations of kind k have it */
  double low, high; /* COUNT, PAIR, REAL: low <= value <= high */
} shoal_layer_key;

extern const shoal_layer_key shoal_layer_keys[]; /* ends with name NULL */
int shoal_layer_key_number(const char *name);    /* -1: there is none */
/** What a layer has where its text says nothing.  `stride` is 0: of pools it is their kernel then, else 1. */
shoal_layer_facts shoal_layer_defaults(void);
const char *shoal_init_name(shoal_init init);
shoal_init shoal_init_from_name(const char *name); /* SHOAL_INIT_ONE, which is no choice, if unknown */

/* A layer as it is written. */
typedef struct {
  shoal_node node; /* kind, name and inputs */
  shoal_layer_facts facts;
  shoal_texts in; /* names; empty: the layer before */
  int readers;
  int line, column;       /* of the layer; 0: it is not from a text */
  int in_line, in_column; /* of its inputs */
  bool has_op;
  uint64_t given; /* bit k: key k of the table */
} shoal_text_layer;

typedef struct {
  shoal_yaml yaml;
  char name[SHOAL_NAME_MAX]; /* "": not stated */
  shoal_shape input;         /* ndim 0: not stated */
  int64_t classes;           /* 0: not stated */
  int input_line, classes_line;
  shoal_text_layer *layers; /* owned, with their names */
  int n, cap;
  bool cuts; /* a layer says where units begin */
} shoal_text;

#define SHOAL_AT_LAYER          "%s:%d:%d: layer %s: "
#define SHOAL_LAYER_PLACE(r, l) (r)->yaml.origin, (l)->line, (l)->column, (l)->node.name

enum { SHOAL_TEXT_LAYERS = 10000 }; /* most */
/** Reads the whole of an opened text into a zeroed `r`, which the caller frees in every case. */
shoal_status shoal_text_read(shoal_text *r);
/** Appends a layer with the usual facts.  *out is good until the next one. */
shoal_status shoal_text_add_layer(shoal_text *r, shoal_text_layer **out);
void shoal_text_free(shoal_text *r);
/** What is added to a model for a layer whose inputs have their numbers; its unit is left at 0. */
shoal_node shoal_text_node(const shoal_text_layer *l, int64_t classes);
/** The network of layers whose inputs have their numbers: relus are fused, units chosen, shapes checked. */
shoal_status shoal_text_build(shoal_text *r, shoal_model **out);
#endif
