#define KERNELS shoal_winograd_avx2
#define ISA     "avx2,fma"
#define LANES   8
#define ROWS    4
#include "tensor/cpu/winograd_kernels.h"
