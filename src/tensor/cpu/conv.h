/* A planned convolution: what conv_plan.c sets up and conv.c runs. */
#ifndef SHOAL_TENSOR_CPU_CONV_H
#define SHOAL_TENSOR_CPU_CONV_H
#include "tensor/cpu/conv_taps.h"

/* The plan's copy of the weights in the format of a primitive, bf16 where activations are. */
typedef struct {
  void *data;          /* NULL: the format is OIHW in f32, use the arena */
  shoal_dnn_call fill; /* OIHW -> data */
  uint64_t version;
  bool filled;
} shoal_cpu_weights;

/* A batch split into `count` equal pieces; strides in bytes, in the given formats. */
typedef struct {
  int64_t count, images, x_step, y_step;
  shoal_dnn_call x_in; /* input of a piece -> format of the primitive; empty if equal */
  /* That -> only the positions a strided 1x1 kernel reads, packed; empty if the primitive handles the stride. */
  shoal_dnn_call x_sample;
} shoal_cpu_pieces;

/* The relu and the bias at the end of a convolution, on the way back. */
typedef struct {
  shoal_cpu_view y;
  bool dy_saved; /* dy before the relu lies in `saved`, otherwise in scratch */
  size_t dy_at, partial_at;
} shoal_cpu_conv_end;
/** Reserves space; e->y is set, and out_format. */
void shoal_cpu_conv_end_plan(shoal_op *op, shoal_cpu_conv_end *e);
/** First thing of backward_weights: dy masked by the relu, and the gradient of the bias. */
const float *shoal_cpu_conv_end_back(shoal_op *op, const shoal_cpu_conv_end *e, const shoal_op_args *a);
/** In backward_data: what that has returned. */
const float *shoal_cpu_conv_end_again(const shoal_op *op, const shoal_cpu_conv_end *e, const shoal_op_args *a);

typedef struct {
  shoal_op op;
  shoal_cpu_pieces data, weights; /* for forward and backward_data; for backward_weights */
  shoal_dnn_call forward, backward_data, backward_weights;
  shoal_dnn_call dx_out; /* gradient of a piece -> the required format; empty if equal */
  shoal_dnn_call dw_out; /* dW -> OIHW; empty if equal */
  shoal_cpu_weights w_forward, w_backward;
  bool shared;         /* backward_data reads w_forward */
  shoal_cpu_taps taps; /* instead of backward_weights, for small images */
  shoal_cpu_conv_end end;
  size_t moved_at, packed_at, dw_at, dw_more_at; /* offsets in scratch */
  size_t dw_floats;
} shoal_cpu_conv;

/** conv_plan.c: choose formats and pieces, create the primitives, lay out scratch. */
shoal_status shoal_cpu_conv_plan(shoal_cpu *b, shoal_cpu_conv *p);

/* --- conv_winograd.c: 3x3 convolutions by an algorithm of our own, without a shoal_cpu_conv --- */
/** Whether it is allowed here, and faster than oneDNN's direct one: a rule of shape and instruction set. */
bool shoal_cpu_suits_winograd(const shoal_cpu *b, const shoal_op_desc *d);
shoal_cpu_planner shoal_cpu_plan_winograd;
#endif
