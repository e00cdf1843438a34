# Files of the cuda backend, relative to src/tensor: the host's part in C, and the kernels, a file per family.
set(SHOAL_TENSOR_CUDA_SOURCES cuda/cuda.c cuda/libraries.c cuda/memory.c cuda/record.c cuda/arena.c cuda/fused.c cuda/linear.c cuda/conv.c cuda/attention.c cuda/ops.c)
if(SHOAL_WITH_CUDNN)
  list(APPEND SHOAL_TENSOR_CUDA_SOURCES cuda/conv_dnn.c)
endif()
set(SHOAL_TENSOR_CUDA_KERNELS cuda/arena.cu cuda/update.cu cuda/reduce.cu cuda/loss.cu cuda/quant.cu cuda/pointwise.cu cuda/norm.cu cuda/pool.cu cuda/patches.cu)
# No contraction: updates, averages and parcels have the bits that the cpu backend gives them.
set_source_files_properties(${SHOAL_TENSOR_CUDA_KERNELS} PROPERTIES COMPILE_OPTIONS --fmad=false)
list(APPEND SHOAL_TENSOR_CUDA_KERNELS cuda/attention.cu) # products of f32, as cuBLAS's
