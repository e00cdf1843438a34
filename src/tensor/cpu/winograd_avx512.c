#define KERNELS shoal_winograd_avx512
#define ISA     "avx512f,avx512bw,avx512dq,avx512vl,fma"
#define LANES   16
#define ROWS    8
#include "tensor/cpu/winograd_kernels.h"
