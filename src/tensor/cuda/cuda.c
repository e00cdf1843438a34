/* Function table of the cuda backend, opening a device, and launches. */
#include "tensor/cuda/cuda.h"
#include "tensor/cuda/cuda_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

shoal_status shoal_cuda_launch(shoal_cuda *b, const void *kernel, const char *name, size_t blocks, void *args)
{
  if (blocks == 0) return SHOAL_OK;
  SHOAL_CHECK(blocks <= INT32_MAX, SHOAL_ERR_UNSUPPORTED, "kernel %s: %zu blocks; a launch has at most %d", name,
              blocks, INT32_MAX);
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  cudaError_t e = cudaLaunchKernel(kernel, (dim3){ (unsigned)blocks, 1, 1 }, (dim3){ SHOAL_CUDA_THREADS, 1, 1 },
                                   (void *[]){ args }, 0, b->stream);
  if (e == cudaErrorNoKernelImageForDevice || e == cudaErrorInvalidDeviceFunction) {
    (void)cudaGetLastError();
    return SHOAL_FAIL(SHOAL_ERR_DEVICE,
                      "%s has no code for this device (%s); configure with -DCMAKE_CUDA_ARCHITECTURES=native", name,
                      b->name);
  }
  if (e != cudaSuccess) return shoal_cuda_fail(e, __FILE__, __LINE__, name);
  return shoal_cuda_launched(b, name);
}

/* All formats are dense. */
static shoal_status copy_dense(shoal_backend *b, const shoal_shape *s, const shoal_format *format, const float *x,
                               float *y)
{
  SHOAL_CHECK(shoal_format_plain(format), SHOAL_ERR_ARG, "backend cuda was given a format of another backend");
  return shoal_cuda_copy(b, (size_t)shoal_shape_count(s) * sizeof(float), x, y);
}

static void release_device(shoal_cuda *b)
{
  if (b->stream) (void)cudaSetDevice(b->device);
  for (int i = 0; i < SHOAL_CUDA_STREAMS; i++)
    if (b->beside[i]) (void)cudaStreamSynchronize(b->beside[i]);
  shoal_cuda_libraries_close(&b->lib);
  for (int i = 0; i < SHOAL_CUDA_MARKS; i++)
    if (b->mark[i]) (void)cudaEventDestroy(b->mark[i]);
  for (int i = 0; i < SHOAL_CUDA_TRAIL; i++)
    if (b->trail[i]) (void)cudaEventDestroy(b->trail[i]);
  for (int i = 0; i < SHOAL_CUDA_STAGES; i++) {
    if (b->staged[i]) (void)cudaEventDestroy(b->staged[i]);
    (void)cudaFreeHost(b->stage[i]);
  }
  (void)cudaFree(b->factor);
  (void)cudaFree(b->scratch);
  for (int i = 0; i < SHOAL_CUDA_STREAMS; i++)
    if (b->beside[i]) (void)cudaStreamDestroy(b->beside[i]);
}

static void close_cuda(shoal_backend *base)
{
  shoal_cuda *b = (shoal_cuda *)base;
  if (!b->hung) release_device(b); /* else every call would wait; the process ends */
  free(b->memory);
  free(b);
}

static const shoal_backend_ops cuda_ops = {
  .alloc = shoal_cuda_alloc,
  .release = shoal_cuda_release,
  .op_create = shoal_cuda_op_create,
  .to_dense = copy_dense,
  .from_dense = copy_dense,
  .gemm = shoal_cuda_gemm,
  .multiply = shoal_cuda_multiply,
  .softmax_xent = shoal_cuda_softmax_xent,
  .target_loss = shoal_cuda_target_loss,
  .add = shoal_cuda_add,
  .axpby = shoal_cuda_axpby,
  .sumsq = shoal_cuda_sumsq,
  .clip = shoal_cuda_clip,
  .descend = shoal_cuda_descend,
  .sgd = shoal_cuda_sgd,
  .adam = shoal_cuda_adam,
  .settle = shoal_cuda_settle,
  .mark = shoal_cuda_mark,
  .reached = shoal_cuda_reached,
  .copy_beside = shoal_cuda_copy_beside,
  .await = shoal_cuda_await,
  .fill = shoal_cuda_fill,
  .copy = shoal_cuda_copy,
  .copy_tile = shoal_cuda_copy_tile,
  .copy_checked = shoal_cuda_copy_checked,
  .find_bad = shoal_cuda_find_bad,
  .average = shoal_cuda_average,
  .divide = shoal_cuda_divide,
  .scale = shoal_cuda_scale,
  .mean = shoal_cuda_mean,
  .distance2 = shoal_cuda_distance2,
  .pack16 = shoal_cuda_pack16,
  .unpack16 = shoal_cuda_unpack16,
  .add16 = shoal_cuda_add16,
  .encode = shoal_cuda_encode,
  .decode = shoal_cuda_decode,
  .meet = shoal_cuda_meet,
  .fold = shoal_cuda_fold,
  .record = shoal_cuda_record,
  .recorded = shoal_cuda_recorded,
  .replay = shoal_cuda_replay,
  .forget = shoal_cuda_forget,
  .close = close_cuda,
};

/* The reason in words: what cudaGetDeviceCount says, and what to do. */
static shoal_status check_device(int *count)
{
  cudaError_t e = cudaGetDeviceCount(count);
  if (e == cudaSuccess && *count > 0) return SHOAL_OK;
  (void)cudaGetLastError();
  if (e == cudaErrorInsufficientDriver) {
    int driver = 0;
    (void)cudaDriverGetVersion(&driver);
    SHOAL_CHECK(driver != 0, SHOAL_ERR_DEVICE,
                "device cuda: no NVIDIA driver is loaded on this host; use device: cpu, or another node");
    return SHOAL_FAIL(SHOAL_ERR_DEVICE,
                      "device cuda: the driver supports CUDA %d.%d and Shoal was built with %d.%d; update the driver",
                      driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  }
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  return SHOAL_FAIL(
      SHOAL_ERR_DEVICE,
      "device cuda: no usable GPU (%s; CUDA_VISIBLE_DEVICES is %s%s%s); in a Slurm job ask for one by --gres=gpu:1",
      cudaGetErrorString(e == cudaSuccess ? cudaErrorNoDevice : e), visible ? "'" : "", visible ? visible : "unset",
      visible ? "'" : "");
}

/* "GPU-" and the UUID, as nvidia-smi -L writes it. */
static void name_device(const struct cudaDeviceProp *p, char out[SHOAL_GPU_ID])
{
  const unsigned char *u = (const unsigned char *)p->uuid.bytes;
  int n = snprintf(out, SHOAL_GPU_ID, "GPU");
  for (int i = 0; i < 16; i++)
    n += snprintf(out + n, SHOAL_GPU_ID - (size_t)n, "%s%02x", i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "",
                  u[i]);
}

static int numa_of(const struct cudaDeviceProp *p)
{
  char path[100];
  int numa = -1;
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node", (unsigned)p->pciDomainID,
           (unsigned)p->pciBusID, (unsigned)p->pciDeviceID);
  FILE *f = fopen(path, "r");
  if (f && fscanf(f, "%d", &numa) != 1) numa = -1;
  if (f) fclose(f);
  return numa;
}

shoal_status shoal_cuda_devices(shoal_gpu out[SHOAL_GPUS_MAX], int *n)
{
  int count = 0;
  SHOAL_TRY(check_device(&count));
  count = SHOAL_MIN(count, (int)SHOAL_GPUS_MAX);
  memset(out, 0, SHOAL_GPUS_MAX * sizeof *out); /* whole, because it is sent */
  for (int i = 0; i < count; i++) {
    struct cudaDeviceProp p;
    SHOAL_TRY_CUDA(cudaGetDeviceProperties(&p, i));
    name_device(&p, out[i].id);
    out[i].numa = numa_of(&p);
  }
  *n = count;
  return SHOAL_OK;
}

static shoal_status make_streams(shoal_cuda *b)
{
  const unsigned flags = cudaEventDisableTiming;
  for (int i = 0; i < SHOAL_CUDA_STREAMS; i++)
    SHOAL_TRY_CUDA(cudaStreamCreateWithFlags(&b->beside[i], cudaStreamNonBlocking));
  b->stream = b->beside[SHOAL_CUDA_WORK];
  for (int i = 0; i < SHOAL_CUDA_MARKS; i++) SHOAL_TRY_CUDA(cudaEventCreateWithFlags(&b->mark[i], flags));
  for (int i = 0; i < SHOAL_CUDA_TRAIL; i++) SHOAL_TRY_CUDA(cudaEventCreateWithFlags(&b->trail[i], flags));
  for (int i = 0; i < SHOAL_CUDA_STAGES; i++) {
    SHOAL_TRY_CUDA(cudaEventCreateWithFlags(&b->staged[i], flags));
    SHOAL_TRY_CUDA(cudaHostAlloc((void **)&b->stage[i], SHOAL_CUDA_STAGE, cudaHostAllocPortable));
  }
  const size_t bytes = (SHOAL_QUANT_BLOCK + 1) * sizeof *b->factor;
  SHOAL_TRY_CUDA(cudaMalloc((void **)&b->factor, bytes));
  SHOAL_TRY(shoal_cuda_send(b, bytes, shoal_quant_factors(), b->factor));
  return shoal_cuda_finish(b);
}

static shoal_status open_device(shoal_cuda *b)
{
  int count = 0;
  struct cudaDeviceProp p;
  SHOAL_TRY(check_device(&count));
  SHOAL_CHECK(b->device >= 0 && b->device < count, SHOAL_ERR_ARG, "device %d of %d", b->device, count);
  SHOAL_TRY_CUDA(cudaSetDevice(b->device));
  SHOAL_TRY_CUDA(cudaGetDeviceProperties(&p, b->device));
  snprintf(b->name, sizeof b->name, "%s", p.name);
  b->base.card = b->name;
  SHOAL_TRY(make_streams(b));
  SHOAL_TRY(shoal_cuda_libraries_open(b->stream, b->products, &b->lib));
  snprintf(b->name, sizeof b->name, "%s%s", p.name, b->lib.has_dnn ? "" : ", without cuDNN");
  return SHOAL_OK;
}

shoal_status shoal_cuda_open(const shoal_backend_options *o, shoal_backend **out)
{
  shoal_cuda *b = calloc(1, sizeof *b);
  SHOAL_CHECK(b, SHOAL_ERR_MEM, "handle of backend cuda");
  b->base = (shoal_backend){ .name = "cuda", .ops = &cuda_ops, .threads = 1, .records = o->graphs };
  b->device = o->device;
  b->products = o->products;
  shoal_status st = open_device(b);
  if (st != SHOAL_OK) {
    close_cuda(&b->base);
    return st;
  }
  *out = &b->base;
  return SHOAL_OK;
}

bool shoal_cuda_is(const shoal_backend *b)
{
  return b->ops == &cuda_ops;
}

int shoal_cuda_device(const shoal_backend *b)
{
  return ((const shoal_cuda *)b)->device;
}

const char *shoal_cuda_versions(void)
{
  static char text[200];
  int runtime = 0, driver = 0, count = 0;
  (void)cudaRuntimeGetVersion(&runtime);
  (void)cudaDriverGetVersion(&driver);
  int n = snprintf(text, sizeof text, "CUDA %d.%d, cuBLAS %d and %s at run time", runtime / 1000, runtime % 1000 / 10,
                   CUBLAS_VER_MAJOR, shoal_cuda_dnn_version());
  if (driver == 0)
    snprintf(text + n, sizeof text - (size_t)n, "; no driver on this host");
  else if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
    snprintf(text + n, sizeof text - (size_t)n, "; no usable GPU on this host");
  else
    snprintf(text + n, sizeof text - (size_t)n, "; driver for CUDA %d.%d, %d GPU%s", driver / 1000, driver % 1000 / 10,
             count, count == 1 ? "" : "s");
  (void)cudaGetLastError();
  return text;
}
