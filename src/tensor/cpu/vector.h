/* Sixteen floats side by side, as a GCC vector: one register with AVX-512, two with AVX2, four with SSE.
 *
 * Loads and stores are macros, because functions that pass such a vector have another calling convention on each
 * instruction set, and the kernels are compiled for several. */
#ifndef SHOAL_TENSOR_CPU_VECTOR_H
#define SHOAL_TENSOR_CPU_VECTOR_H

typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double v16d __attribute__((vector_size(128)));
typedef int v16i __attribute__((vector_size(64), aligned(4), may_alias));

#define LOAD16(p)     (*(const v16 *)(p))
#define STORE16(p, v) (*(v16 *)(p) = (v))
/* mask: -1 where to keep */
#define KEEP16(mask, v)      ((v16)((v16i)(v) & (mask)))
#define SELECT16(mask, a, b) ((v16)(((v16i)(a) & (mask)) | ((v16i)(b) & ~(mask))))
#endif
