/* Internal header of model descriptions: conversion of a node to an operation description, and helpers of the cuts. */
#ifndef SHOAL_NN_MODEL_IMPL_H
#define SHOAL_NN_MODEL_IMPL_H
#include "nn/model.h"

/** The operation of a node at a batch size: shapes with the batch first, attributes copied; training and need_dx are
 *  left false. */
void shoal_node_desc(const shoal_model *m, const shoal_node *n, int64_t batch, shoal_op_desc *d);
/** The width that shoal_model_add expects in out.dim[0]: of a convolution its channels, of what acts on the last dimension that. */
static inline int64_t shoal_node_width(const shoal_node *n)
{
  bool last = n->kind == SHOAL_OP_LINEAR || n->kind == SHOAL_OP_EMBEDDING;
  return n->out.dim[last ? n->out.ndim - 1 : 0];
}
/** Parameter numbers of a node in arena order, at most three (two factors and a bias), without a table that it shares; returns how
 *  many. */
int shoal_node_params(const shoal_node *n, int ids[3]);
/* The dimension of a value along which its hidden units lie: channels, features; of tokens [tokens, width] the last. */
static inline int shoal_unit_dim(const shoal_shape *s)
{
  return s->ndim == 2;
}
/* What a node does with the units of its inputs (spaces.c). */
typedef enum {
  SHOAL_UNITS_KEEP, /* unit i of its output is made of unit i of each input; of attention a unit is one head or several */
  SHOAL_UNITS_MAKE, /* reads all, and its outputs are new ones, each alike */
  SHOAL_UNITS_WHOLE /* reads all, and needs all of them: they are never partitioned, nor is its output */
} shoal_units;
shoal_units shoal_node_units(const shoal_model *m, const shoal_node *n);
/** Whether any parameter of a node is trained. */
bool shoal_node_trains(const shoal_model *m, const shoal_node *n);
/** Marks two parameters as the factors of `w` (a parameter of the model that is cut): sets their initialisation and
 *  which one is A. */
void shoal_model_name_factors(shoal_param *left, shoal_param *right, const shoal_param *w, int64_t rank,
                              shoal_factor_training train);
/** Shape of node v's output per sample; v = -1: of the input. */
static inline const shoal_shape *shoal_value_shape(const shoal_model *m, int v)
{
  return v < 0 ? &m->input : &m->node[v].out;
}
/** Finds units, unit spaces and decay runs (spaces.c); what finish does after its checks. */
shoal_status shoal_model_find_spaces(shoal_model *m);
shoal_status shoal_model_find_runs(shoal_model *m);
#endif
