/* The list of backends and their common part: opening by name, the threads' treatment of subnormal numbers, and checking an
 * operation before it is planned.
 *
 * Only this file knows which backends exist and which were built; build switches are used here only. */
#include "tensor/backend.h"
#include "base/mem.h"
#include "base/subnormal.h"
#include "tensor/cpu/cpu.h"
#ifdef SHOAL_WITH_CUDA
#include "tensor/cuda/cuda.h"
#endif
#include "tensor/ref/ref.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  const char *name;
  shoal_status (*open)(const shoal_backend_options *o, shoal_backend **out); /* NULL: not built in */
  shoal_status (*devices)(shoal_gpu out[SHOAL_GPUS_MAX], int *n);            /* NULL: computes on the host */
  const char *(*versions)(void);
  const char *cure; /* NULL, or that it is not built in, and how it would be */
} backend_entry;

static const backend_entry entries[] = {
  { "ref", shoal_ref_open, NULL, shoal_ref_versions, NULL },
  { "cpu", shoal_cpu_open, NULL, shoal_cpu_versions, NULL },
#ifdef SHOAL_WITH_CUDA
  { "cuda", shoal_cuda_open, shoal_cuda_devices, shoal_cuda_versions, NULL },
#else
  { "cuda", NULL, NULL, NULL, "not built in; configure with -DSHOAL_CUDA=ON" },
#endif
};

const char *const shoal_products_names[] = { "f32", "tf32", "bf16", NULL };

static const backend_entry *find_entry(const char *name)
{
  for (size_t i = 0; i < SHOAL_COUNT(entries); i++)
    if (strcmp(entries[i].name, name) == 0) return &entries[i];
  return NULL;
}

/* A missing function would crash in the middle of a step, so check on opening. */
static shoal_status check_table(const char *name, const shoal_backend_ops *ops)
{
  bool whole = ops->alloc && ops->release && ops->op_create && ops->to_dense && ops->from_dense && ops->gemm &&
               ops->multiply && ops->softmax_xent && ops->target_loss && ops->add && ops->axpby && ops->sumsq &&
               ops->clip && ops->descend && ops->sgd && ops->adam && ops->settle && ops->mark && ops->reached &&
               ops->copy_beside && ops->await && ops->fill && ops->copy && ops->copy_tile && ops->copy_checked &&
               ops->find_bad && ops->average && ops->divide && ops->scale && ops->mean && ops->distance2 &&
               ops->pack16 && ops->unpack16 && ops->add16 && ops->encode && ops->decode && ops->meet && ops->fold &&
               ops->close;
  SHOAL_CHECK(whole, SHOAL_ERR_INTERNAL, "backend %s lacks a required function", name);
  return SHOAL_OK;
}

static shoal_status find_built(const char *name, const backend_entry **out)
{
  const backend_entry *e = find_entry(name);
  SHOAL_CHECK(e, SHOAL_ERR_ARG, "backend '%s' is unknown; choose ref, cpu or cuda", name);
  SHOAL_CHECK(e->open, SHOAL_ERR_UNSUPPORTED, "backend %s is %s", name, e->cure);
  *out = e;
  return SHOAL_OK;
}

shoal_status shoal_backend_open_as(const shoal_backend_options *o, shoal_backend **out)
{
  const backend_entry *e;
  SHOAL_TRY(find_built(o->name, &e));
  SHOAL_CHECK(o->threads >= 1, SHOAL_ERR_ARG, "backend %s: %d threads; must be at least 1", o->name, o->threads);
  shoal_backend *b = NULL;
  SHOAL_TRY(e->open(o, &b));
  b->device = o->device;
  b->dtype = shoal_products_names[o->products];
  shoal_status st = check_table(o->name, b->ops);
  if (st != SHOAL_OK) {
    shoal_backend_close(b);
    return st;
  }
  *out = b;
  return SHOAL_OK;
}

shoal_status shoal_backend_open(const char *name, int threads, shoal_backend **out)
{
  return shoal_backend_open_as(&(shoal_backend_options){ .name = name, .threads = threads }, out);
}

shoal_status shoal_backend_devices(const char *name, shoal_gpu out[SHOAL_GPUS_MAX], int *n)
{
  const backend_entry *e;
  *n = 0;
  SHOAL_TRY(find_built(name, &e));
  return e->devices ? e->devices(out, n) : SHOAL_OK;
}

void shoal_backend_close(shoal_backend *b)
{
  if (b && b->ops->close) b->ops->close(b);
}

/* In the calling thread, before the loader's thread starts, and in those OpenMP threads that already exist. */
void shoal_backend_flush_subnormals(const shoal_backend *b, bool flush)
{
  (void)shoal_subnormals_flush(flush);
#pragma omp parallel num_threads(b->threads)
  (void)shoal_subnormals_flush(flush);
}

shoal_status shoal_host_memory_alloc_shared(size_t bytes, const char *what, shoal_memory *out)
{
  *out = (shoal_memory){ .bytes = bytes, .kind = SHOAL_MEMORY_SHARED };
  return shoal_mappable_alloc(bytes, what, &out->at, &out->file);
}

void shoal_host_memory_release(shoal_memory *m)
{
  if (m->at && m->kind == SHOAL_MEMORY_SHARED) {
    shoal_mappable_free(m->at, m->bytes);
    close(m->file);
  } else {
    free(m->at);
  }
  *m = (shoal_memory){ 0 };
}

shoal_status shoal_window_open(shoal_backend *b, shoal_window_use use, size_t n, const float *x, shoal_window *out)
{
  float *behind = (float *)(uintptr_t)x;
  *out = (shoal_window){ .at = behind, .n = n, .behind = behind, .use = use };
  if (b->host_memory) return b->ops->settle(b);
  shoal_status st = shoal_alloc(n, sizeof *x, "a copy of the device's memory", (void **)&out->at);
  if (st == SHOAL_OK && use & SHOAL_WINDOW_READ) st = b->ops->copy(b, n * sizeof *x, x, out->at);
  if (st != SHOAL_OK) shoal_window_drop(out);
  return st;
}

shoal_status shoal_window_close(shoal_backend *b, shoal_window *w)
{
  shoal_status st = SHOAL_OK;
  if (w->at != w->behind && w->use & SHOAL_WINDOW_WRITE) st = b->ops->copy(b, w->n * sizeof *w->at, w->at, w->behind);
  shoal_window_drop(w);
  return st;
}

void shoal_window_drop(shoal_window *w)
{
  if (w->at != w->behind) free(w->at);
  *w = (shoal_window){ 0 };
}

bool shoal_backend_built(const char *name)
{
  const backend_entry *e = find_entry(name);
  return e && e->open;
}

size_t shoal_backend_names(const char *const **out)
{
  static const char *names[SHOAL_COUNT(entries)];
  size_t n = 0;
  for (size_t i = 0; i < SHOAL_COUNT(entries); i++)
    if (entries[i].open) names[n++] = entries[i].name;
  *out = names;
  return n;
}

const char *shoal_backend_versions(const char *name)
{
  const backend_entry *e = find_entry(name);
  if (e && e->versions) return e->versions();
  return e ? e->cure : "no such backend";
}

shoal_status shoal_op_create(shoal_backend *b, const shoal_op_desc *d, const shoal_format *in, shoal_op **out)
{
  shoal_op_desc full = *d;
  SHOAL_TRY(shoal_op_infer(d, &full.out));
  shoal_format dense[SHOAL_OP_INPUTS] = { { 0 } };
  for (int i = 0; i < SHOAL_OP_INPUTS; i++)
    if (d->in[i].ndim > 0) dense[i] = shoal_format_dense(&d->in[i], SHOAL_ELEMENTS_F32);
  return b->ops->op_create(b, &full, in ? in : dense, out);
}

void shoal_op_destroy(shoal_op *op)
{
  if (op) op->destroy(op);
}
