/* cuBLAS with cuBLASLt, and cuDNN, loaded when a backend is opened: their load takes some 70 ms, which other runs should not pay, and a node without
 * them can still run everything else.
 *
 * cuBLAS is needed for every product; without cuDNN, here or where Shoal was built, it does convolutions, too. */
#ifndef SHOAL_TENSOR_CUDA_LIBRARIES_H
#define SHOAL_TENSOR_CUDA_LIBRARIES_H
#include "tensor/backend.h"
#include <cublasLt.h>
#include <cublas_v2.h>
#include <stdbool.h>
#ifdef SHOAL_WITH_CUDNN
#include <cudnn.h>
#endif

/* The functions that are used, by the names of their symbols. */
#define SHOAL_CUBLAS_LIST(X)                                                                                           \
  X(cublasCreate_v2)                                                                                                   \
  X(cublasDestroy_v2)                                                                                                  \
  X(cublasSetStream_v2)                                                                                                \
  X(cublasSetWorkspace_v2)                                                                                             \
  X(cublasSetMathMode)                                                                                                 \
  X(cublasGetVersion_v2)                                                                                               \
  X(cublasSgemm_v2)                                                                                                    \
  X(cublasGemmStridedBatchedEx)                                                                                        \
  X(cublasGemmEx)
#define SHOAL_CUBLASLT_LIST(X)                                                                                         \
  X(cublasLtCreate)                                                                                                    \
  X(cublasLtDestroy)                                                                                                   \
  X(cublasLtMatmulDescCreate)                                                                                          \
  X(cublasLtMatmulDescDestroy)                                                                                         \
  X(cublasLtMatmulDescSetAttribute)                                                                                    \
  X(cublasLtMatrixLayoutCreate)                                                                                        \
  X(cublasLtMatrixLayoutDestroy)                                                                                       \
  X(cublasLtMatmulPreferenceCreate)                                                                                    \
  X(cublasLtMatmulPreferenceDestroy)                                                                                   \
  X(cublasLtMatmulPreferenceSetAttribute)                                                                              \
  X(cublasLtMatmulAlgoGetHeuristic)                                                                                    \
  X(cublasLtMatmul)
#define SHOAL_CUDNN_LIST(X)                                                                                            \
  X(cudnnCreate)                                                                                                       \
  X(cudnnDestroy)                                                                                                      \
  X(cudnnSetStream)                                                                                                    \
  X(cudnnGetVersion)                                                                                                   \
  X(cudnnGetErrorString)                                                                                               \
  X(cudnnCreateTensorDescriptor)                                                                                       \
  X(cudnnDestroyTensorDescriptor)                                                                                      \
  X(cudnnSetTensor4dDescriptor)                                                                                        \
  X(cudnnCreateFilterDescriptor)                                                                                       \
  X(cudnnDestroyFilterDescriptor)                                                                                      \
  X(cudnnSetFilter4dDescriptor)                                                                                        \
  X(cudnnCreateConvolutionDescriptor)                                                                                  \
  X(cudnnDestroyConvolutionDescriptor)                                                                                 \
  X(cudnnSetConvolution2dDescriptor)                                                                                   \
  X(cudnnSetConvolutionGroupCount)                                                                                     \
  X(cudnnSetConvolutionMathType)                                                                                       \
  X(cudnnGetConvolutionForwardWorkspaceSize)                                                                           \
  X(cudnnGetConvolutionBackwardDataWorkspaceSize)                                                                      \
  X(cudnnGetConvolutionBackwardFilterWorkspaceSize)                                                                    \
  X(cudnnConvolutionForward)                                                                                           \
  X(cudnnConvolutionBackwardData)                                                                                      \
  X(cudnnConvolutionBackwardFilter)

typedef struct {
  void *blas_file, *lt_file;
  cublasHandle_t blas;
  void *workspace; /* of blas, on the device */
  cublasLtHandle_t lt;
#define X(name) __typeof__(&name) name;
  SHOAL_CUBLAS_LIST(X)
  SHOAL_CUBLASLT_LIST(X)
  bool has_dnn;
#ifdef SHOAL_WITH_CUDNN
  void *dnn_file;
  cudnnHandle_t dnn;
  SHOAL_CUDNN_LIST(X)
#endif
#undef X
} shoal_cuda_libraries;

/** Handles work on `stream`.  ERR_DEVICE names the library that cannot be loaded, and the cure. */
shoal_status shoal_cuda_libraries_open(cudaStream_t stream, shoal_products products, shoal_cuda_libraries *out);
const char *shoal_cuda_dnn_version(void);                 /* that Shoal was built with: "cuDNN 9" */
void shoal_cuda_libraries_close(shoal_cuda_libraries *l); /* also half open */

shoal_status shoal_cublas_fail(cublasStatus_t e, const char *file, int line, const char *what);
#define SHOAL_TRY_CUBLAS(call)                                                                                         \
  do {                                                                                                                 \
    cublasStatus_t blas_ = (call);                                                                                     \
    if (blas_ != CUBLAS_STATUS_SUCCESS) return shoal_cublas_fail(blas_, __FILE__, __LINE__, #call);                    \
  } while (0)
#ifdef SHOAL_WITH_CUDNN
shoal_status shoal_cudnn_fail(cudnnStatus_t e, const char *file, int line, const char *what);
#define SHOAL_TRY_CUDNN(call)                                                                                          \
  do {                                                                                                                 \
    cudnnStatus_t dnn_ = (call);                                                                                       \
    if (dnn_ != CUDNN_STATUS_SUCCESS) return shoal_cudnn_fail(dnn_, __FILE__, __LINE__, #call);                        \
  } while (0)
#endif
#endif
