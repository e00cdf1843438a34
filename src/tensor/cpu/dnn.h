/* A thin wrapper around oneDNN's C API that hides the differences between major versions 2 and 3.
 *
 * Version 2 describes an operation in a struct and memory in a public struct; version 3 creates primitive descriptors
 * directly and hides both.  Here a memory descriptor is always an owned pointer (shoal_dnn_md), a primitive
 * descriptor is created by one of three functions (convolution, product and reorder), and a primitive with its arguments is a
 * shoal_dnn_call: created once, then executed with plain pointers, without allocating. */
#ifndef SHOAL_TENSOR_CPU_DNN_H
#define SHOAL_TENSOR_CPU_DNN_H
#include "tensor/backend.h"
#include <oneapi/dnnl/dnnl.h>

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t shoal_dnn_md;
typedef const_dnnl_memory_desc_t shoal_dnn_cmd;
#else
typedef dnnl_memory_desc_t *shoal_dnn_md;
typedef const dnnl_memory_desc_t *shoal_dnn_cmd;
#endif

/* The oneDNN engine and stream of a backend. */
typedef struct {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  int threads;
} shoal_dnn;

shoal_status shoal_dnn_open(int threads, shoal_dnn *out);
void shoal_dnn_close(shoal_dnn *d);
const char *shoal_dnn_versions(void);
/** Channels in a block of the formats that oneDNN prefers here: 16 with AVX-512, 8 with AVX2, unless oneDNN is held back from it
 *  (ONEDNN_MAX_CPU_ISA); 0 without either. */
int shoal_dnn_lanes(void);
/** Whether oneDNN computes in bf16 here: with instructions for it, or, if `emulate`, with those of f32. */
bool shoal_dnn_has_bf16(bool emulate);
/** OpenMP keeps the thread count per calling thread; sets it before oneDNN reads it. */
void shoal_dnn_enter(const shoal_dnn *d);

/** Converts a oneDNN error to ours, with oneDNN's text and the call that failed. */
shoal_status shoal_dnn_fail(dnnl_status_t st, const char *file, int line, const char *what);
#define SHOAL_TRY_DNNL(call)                                                                                           \
  do {                                                                                                                 \
    dnnl_status_t dnn_ = (call);                                                                                       \
    if (dnn_ != dnnl_success) return shoal_dnn_fail(dnn_, __FILE__, __LINE__, #call);                                  \
  } while (0)

/* --- memory descriptors, created here, freed with shoal_dnn_md_free (NULL is fine) --- */
shoal_status shoal_dnn_md_tag(const shoal_shape *s, shoal_elements e, dnnl_format_tag_t tag, shoal_dnn_md *out);
shoal_status shoal_dnn_md_dense(const shoal_shape *s, shoal_elements e, shoal_dnn_md *out);
/** A tensor whose neighbours lie `stride` elements apart along each dimension: part of another one, seen in place. */
shoal_status shoal_dnn_md_strided(const shoal_shape *s, shoal_elements e, const int64_t *stride, shoal_dnn_md *out);
shoal_status shoal_dnn_md_copy(shoal_dnn_cmd md, shoal_dnn_md *out);
void shoal_dnn_md_free(shoal_dnn_md md);
bool shoal_dnn_md_equal(shoal_dnn_cmd a, shoal_dnn_cmd b);
size_t shoal_dnn_md_bytes(shoal_dnn_cmd md);
shoal_elements shoal_dnn_md_elements(shoal_dnn_cmd md);
/** Whether the memory layout equals that of a row-major tensor of this shape, whatever the format tag. */
bool shoal_dnn_md_is_dense(shoal_dnn_cmd md, const shoal_shape *s);

/* --- primitive descriptors; the caller destroys them with dnnl_primitive_desc_destroy.  `training` chooses
 *     dnnl_forward_training.  A backward one takes the forward one as a hint. --- */
typedef struct {
  bool training;
  const int *stride, *pad, *gap; /* h, w */
  shoal_dnn_cmd src, weights, bias /* or NULL */, dst;
} shoal_dnn_conv;
typedef enum { SHOAL_DNN_FORWARD, SHOAL_DNN_BACKWARD_DATA, SHOAL_DNN_BACKWARD_WEIGHTS } shoal_dnn_direction;
shoal_status shoal_dnn_conv_pd(const shoal_dnn *d, const shoal_dnn_conv *c, shoal_dnn_direction direction,
                               const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out);
/** c [m, n] = a [m, k] b [k, n] (+ bias [1, n], or NULL), summed in f32. */
shoal_status shoal_dnn_matmul_pd(const shoal_dnn *d, shoal_dnn_cmd a, shoal_dnn_cmd b, shoal_dnn_cmd bias,
                                 shoal_dnn_cmd c, dnnl_primitive_desc_t *out);
/** Whether oneDNN's only implementation is its (slow) reference loop. */
bool shoal_dnn_is_reference(const_dnnl_primitive_desc_t pd);
/** Whether a convolution uses one of the generated (JIT) kernels for 1x1 (AVX2 or AVX-512). */
bool shoal_dnn_is_1x1(const_dnnl_primitive_desc_t pd);
shoal_status shoal_dnn_reorder_pd(const shoal_dnn *d, shoal_dnn_cmd from, shoal_dnn_cmd to, dnnl_primitive_desc_t *out);
static inline shoal_dnn_cmd shoal_dnn_pd_md(const_dnnl_primitive_desc_t pd, int arg)
{
  return dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg);
}

/* --- a primitive with its arguments --- */
enum { SHOAL_DNN_ARGS = 8 };
typedef struct {
  dnnl_primitive_t primitive; /* NULL: nothing to do */
  int n;
  dnnl_exec_arg_t arg[SHOAL_DNN_ARGS]; /* the last one is the scratchpad */
  size_t scratch_bytes;
} shoal_dnn_call;
/** @param args n argument numbers (DNNL_ARG_SRC, ...), in the order in which run gets the pointers. */
shoal_status shoal_dnn_call_init(const shoal_dnn *d, const_dnnl_primitive_desc_t pd, int n, const int *args,
                                 shoal_dnn_call *out);
/** Creates a reorder; leaves `out` empty if both descriptors are equal. */
shoal_status shoal_dnn_call_init_reorder(const shoal_dnn *d, shoal_dnn_cmd from, shoal_dnn_cmd to, shoal_dnn_call *out);
shoal_status shoal_dnn_call_run(const shoal_dnn *d, const shoal_dnn_call *c, void *scratch, const void *const *p);
void shoal_dnn_call_fini(shoal_dnn_call *c);
#endif
