/* What each kernel may read and write, written down apart from the kernels: the simulator holds them to it. */
#include "sim.h"
#include "simgpu/samples.h"

SIM_KERNEL(sample_fill, sample_fill_args, r.writes(a.y, a.n);)
SIM_KERNEL(sample_sum, sample_sum_args, r.reads(a.x, a.n); r.writes(a.sums, (a.n + 127) / 128);)
SIM_KERNEL(sample_blocks, sample_blocks_args, if (a.shared == 3) r.reads(a.y, a.n); else r.writes(a.y, a.n);)
SIM_KERNEL(sample_shuffle, sample_shuffle_args, r.reads(a.x, 32); r.writes(a.y, 1);)
