/* See libraries.h. */
#include "tensor/cuda/libraries.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Sonames of the versions whose headers were compiled. */
#define TEXT_OF_(number) #number
#define TEXT_OF(number)  TEXT_OF_(number)
#define SONAME(name, of) "lib" name ".so." TEXT_OF(of)

/* For the products of cublasSgemm and cublasGemmEx, as large as NVIDIA advises for a Hopper.  Its own workspace cuBLAS would allocate anew
 * for every recording. */
enum { WORKSPACE = 32 << 20 };

static shoal_status load(const char *soname, void **out)
{
  *out = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  SHOAL_CHECK(*out, SHOAL_ERR_DEVICE, "%s cannot be loaded: %s; put its folder into LD_LIBRARY_PATH", soname,
              dlerror());
  return SHOAL_OK;
}

static shoal_status find(void *file, const char *soname, const char *name, void *out)
{
  void *at = dlsym(file, name);
  SHOAL_CHECK(at, SHOAL_ERR_DEVICE, "%s has no %s; install the version that Shoal was built with", soname, name);
  memcpy(out, &at, sizeof at);
  return SHOAL_OK;
}

static shoal_status open_blas(cudaStream_t stream, shoal_products products, shoal_cuda_libraries *l)
{
  static const char soname[] = SONAME("cublas", CUBLAS_VER_MAJOR);
  SHOAL_TRY(load(soname, &l->blas_file));
#define X(name) SHOAL_TRY(find(l->blas_file, soname, #name, &l->name));
  SHOAL_CUBLAS_LIST(X)
#undef X
  SHOAL_TRY_CUBLAS(l->cublasCreate_v2(&l->blas));
  SHOAL_TRY_CUBLAS(l->cublasSetStream_v2(l->blas, stream));
  if (cudaMalloc(&l->workspace, WORKSPACE) != cudaSuccess)
    return SHOAL_FAIL(SHOAL_ERR_MEM, "workspace of cuBLAS: %d bytes of device memory", WORKSPACE);
  SHOAL_TRY_CUBLAS(l->cublasSetWorkspace_v2(l->blas, l->workspace, WORKSPACE));
  SHOAL_TRY_CUBLAS(l->cublasSetMathMode(l->blas, products == SHOAL_PRODUCTS_TF32 ? CUBLAS_TF32_TENSOR_OP_MATH
                                                                                 : CUBLAS_DEFAULT_MATH));
  return SHOAL_OK;
}

static shoal_status open_lt(shoal_cuda_libraries *l)
{
  static const char soname[] = SONAME("cublasLt", CUBLAS_VER_MAJOR);
  SHOAL_TRY(load(soname, &l->lt_file));
#define X(name) SHOAL_TRY(find(l->lt_file, soname, #name, &l->name));
  SHOAL_CUBLASLT_LIST(X)
#undef X
  SHOAL_TRY_CUBLAS(l->cublasLtCreate(&l->lt));
  return SHOAL_OK;
}

#ifdef SHOAL_WITH_CUDNN
static shoal_status open_dnn(cudaStream_t stream, shoal_cuda_libraries *l)
{
  static const char soname[] = SONAME("cudnn", CUDNN_MAJOR);
  l->dnn_file = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (!l->dnn_file) return SHOAL_OK;
#define X(name) SHOAL_TRY(find(l->dnn_file, soname, #name, &l->name));
  SHOAL_CUDNN_LIST(X)
#undef X
  SHOAL_TRY_CUDNN(l->cudnnCreate(&l->dnn));
  SHOAL_TRY_CUDNN(l->cudnnSetStream(l->dnn, stream));
  l->has_dnn = true;
  return SHOAL_OK;
}

static void close_dnn(shoal_cuda_libraries *l)
{
  if (l->dnn) (void)l->cudnnDestroy(l->dnn);
  if (l->dnn_file) dlclose(l->dnn_file);
}

shoal_status shoal_cudnn_fail(cudnnStatus_t e, const char *file, int line, const char *what)
{
  shoal_status st = e == CUDNN_STATUS_ALLOC_FAILED ? SHOAL_ERR_MEM : SHOAL_ERR_DEVICE;
  return shoal_fail(st, file, line, "cuDNN: status %d from %s", (int)e, what);
}

const char *shoal_cuda_dnn_version(void)
{
  return "cuDNN " TEXT_OF(CUDNN_MAJOR);
}
#else
static shoal_status open_dnn(cudaStream_t stream, shoal_cuda_libraries *l)
{
  return SHOAL_OK;
}

static void close_dnn(shoal_cuda_libraries *l)
{
}

const char *shoal_cuda_dnn_version(void)
{
  return "no cuDNN";
}
#endif

shoal_status shoal_cuda_libraries_open(cudaStream_t stream, shoal_products products, shoal_cuda_libraries *out)
{
  SHOAL_TRY(open_blas(stream, products, out));
  SHOAL_TRY(open_lt(out));
  return open_dnn(stream, out);
}

void shoal_cuda_libraries_close(shoal_cuda_libraries *l)
{
  close_dnn(l);
  if (l->lt) (void)l->cublasLtDestroy(l->lt);
  if (l->lt_file) dlclose(l->lt_file);
  if (l->blas) (void)l->cublasDestroy_v2(l->blas);
  if (l->blas_file) dlclose(l->blas_file);
  (void)cudaFree(l->workspace);
  memset(l, 0, sizeof *l);
}

shoal_status shoal_cublas_fail(cublasStatus_t e, const char *file, int line, const char *what)
{
  shoal_status st = e == CUBLAS_STATUS_ALLOC_FAILED ? SHOAL_ERR_MEM : SHOAL_ERR_DEVICE;
  return shoal_fail(st, file, line, "cuBLAS: status %d from %s", (int)e, what);
}
