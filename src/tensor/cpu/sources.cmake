# Files of the oneDNN backend, relative to src/tensor.
set(SHOAL_TENSOR_CPU_SOURCES
    cpu/cpu.c cpu/dnn.c cpu/format.c cpu/moves.c cpu/parallel.c cpu/bf16.c cpu/inside_f32.c cpu/linear.c cpu/linear_bf16.c cpu/conv.c cpu/conv_plan.c cpu/conv_taps.c cpu/conv_winograd.c cpu/winograd_avx512.c cpu/winograd_avx2.c
    cpu/bias.c cpu/batchnorm.c cpu/layernorm.c cpu/pool.c cpu/globalpool.c cpu/pointwise.c cpu/curves.c cpu/joins.c cpu/embedding.c cpu/attention.c cpu/dropout.c cpu/dense_wrapper.c cpu/guard.c cpu/flat.c cpu/arena.c cpu/multiply.c cpu/loss.c)
# Loops that only move memory want the vectoriser; the flags keep IEEE results and drop errno and traps, nobody reads them.
set_source_files_properties(
  cpu/bf16.c cpu/linear.c cpu/linear_bf16.c cpu/conv_taps.c cpu/winograd_avx512.c cpu/winograd_avx2.c cpu/bias.c cpu/batchnorm.c cpu/layernorm.c cpu/pool.c cpu/globalpool.c cpu/pointwise.c cpu/curves.c cpu/joins.c cpu/embedding.c cpu/attention.c cpu/dropout.c
  cpu/multiply.c cpu/loss.c
  PROPERTIES COMPILE_OPTIONS "-O3;-fno-math-errno;-fno-trapping-math")
# Layer norm subtracts a mean from what it was made of: contracted into one operation the difference would not vanish.
# Optimizers must give the same bits on processors that fuse a product and a sum and on others, for ranks that must stay equal.
set_source_files_properties(cpu/layernorm.c cpu/flat.c cpu/arena.c PROPERTIES COMPILE_OPTIONS "-O3;-fno-math-errno;-fno-trapping-math;-ffp-contract=off")
