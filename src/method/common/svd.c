/* LAPACK is column-major, so it reads a row-major X as X^T = V diag(sigma) U^T: with u and v swapped in the call, the
 * results have our layout and nothing has to be transposed.
 *
 *   memory      ours                 LAPACK's (column-major)
 *   x           X [rows, cols]       X^T [cols, rows]
 *   vt          V^T [k, cols]        its U [cols, k]
 *   u           U [rows, k]          its V^T [k, rows] */
#include "method/common/svd.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "method/common/average.h"
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void shoal_svd_free(shoal_svd *s)
{
  free(s->u);
  free(s->sigma);
  free(s->vt);
  *s = (shoal_svd){ 0 };
}

/* One decomposition as LAPACK sees it. */
typedef struct {
  lapack_int m, n, k, info;
  const shoal_host_float *x;
  shoal_host_float *copy, *superb, *sigma, *u, *vt;
  atomic_bool over;
} task;

static void *decompose(void *context)
{
  task *t = context;
  size_t bytes = (size_t)t->m * (size_t)t->n * sizeof *t->x;
  memcpy(t->copy, t->x, bytes);
  t->info = LAPACKE_sgesdd(LAPACK_COL_MAJOR, 'S', t->m, t->n, t->copy, t->m, t->sigma, t->vt, t->m, t->u, t->k);
  if (t->info > 0) { /* rare: QR iteration converges where divide and conquer does not */
    memcpy(t->copy, t->x, bytes);
    t->info = LAPACKE_sgesvd(LAPACK_COL_MAJOR, 'S', 'S', t->m, t->n, t->copy, t->m, t->sigma, t->vt, t->m, t->u, t->k,
                             t->superb);
  }
  atomic_store(&t->over, true);
  return NULL;
}

/* Looks up from time to time, seldom enough to leave the core to LAPACK. */
static shoal_status stand_by(const task *t, const shoal_meanwhile *meanwhile)
{
  enum { FIRST_US = 50, MOST_US = 2000 };
  shoal_status st = SHOAL_OK;
  for (useconds_t us = FIRST_US; !atomic_load(&t->over); us = SHOAL_MIN(2 * us, (useconds_t)MOST_US)) {
    if (st == SHOAL_OK) st = meanwhile->call(meanwhile->context);
    usleep(us);
  }
  return st;
}

static shoal_status decompose_beside(task *t, const shoal_meanwhile *meanwhile)
{
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* no signal is for this thread */
  bool runs = meanwhile && pthread_create(&thread, NULL, decompose, t) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!runs) {
    decompose(t);
    return SHOAL_OK;
  }
  shoal_status st = stand_by(t, meanwhile);
  pthread_join(thread, NULL);
  return st;
}

static shoal_status solve(const shoal_host_float *x, const char *name, const shoal_meanwhile *meanwhile, shoal_svd *s)
{
  task t = { .m = (lapack_int)s->cols, .n = (lapack_int)s->rows, .k = (lapack_int)s->k, .x = x };
  t.sigma = s->sigma;
  t.u = s->u;
  t.vt = s->vt;
  shoal_status st = SHOAL_ALLOC((size_t)s->rows * (size_t)s->cols, &t.copy);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)s->k, &t.superb);
  if (st == SHOAL_OK) st = decompose_beside(&t, meanwhile);
  free(t.copy);
  free(t.superb);
  SHOAL_TRY(st);
  SHOAL_CHECK(t.info != LAPACK_WORK_MEMORY_ERROR, SHOAL_ERR_MEM, "the decomposition of layer %s, %lld x %lld", name,
              (long long)s->rows, (long long)s->cols);
  SHOAL_CHECK(t.info == 0, SHOAL_ERR_NUMERIC,
              "the singular values of layer %s (%lld x %lld) were not found (LAPACK says %d); lower optim.lr or set "
              "optim.clip",
              name, (long long)s->rows, (long long)s->cols, (int)t.info);
  return SHOAL_OK;
}

/* Checked before LAPACK, which may not return on NaN. */
static shoal_status check_finite(const shoal_host_float *x, size_t n, const char *name)
{
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
  SHOAL_CHECK(isfinite(sum), SHOAL_ERR_NUMERIC,
              "the weight of layer %s is not finite and cannot be decomposed; lower optim.lr or set optim.clip", name);
  return SHOAL_OK;
}

shoal_status shoal_svd_make(const shoal_host_float *x, int64_t rows, int64_t cols, const char *name,
                            const shoal_meanwhile *meanwhile, shoal_svd *out)
{
  *out = (shoal_svd){ 0 };
  SHOAL_CHECK(rows >= 1 && cols >= 1 && rows <= INT_MAX && cols <= INT_MAX, SHOAL_ERR_ARG,
              "layer %s: a matrix of %lld x %lld cannot be decomposed", name, (long long)rows, (long long)cols);
  SHOAL_TRY(shoal_interrupt_check());
  SHOAL_TRY(check_finite(x, (size_t)rows * (size_t)cols, name));
  shoal_svd s = { .rows = rows, .cols = cols, .k = SHOAL_MIN(rows, cols) };
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)rows * (size_t)s.k, &s.u), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)s.k, &s.sigma), fail);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)s.k * (size_t)cols, &s.vt), fail);
  SHOAL_TRY_GOTO(st, solve(x, name, meanwhile, &s), fail);
  *out = s;
  return SHOAL_OK;
fail:
  shoal_svd_free(&s);
  return st;
}

int64_t shoal_svd_rank(const shoal_host_float *sigma, int64_t k, double beta)
{
  int64_t r = 1;
  for (int64_t j = 1; j < k; j++)
    if ((double)sigma[j] > beta * (double)sigma[0]) r = j + 1;
  return r;
}

void shoal_svd_split(const shoal_svd *s, int64_t r, shoal_host_float *left, shoal_host_float *right)
{
  for (int64_t i = 0; i < s->rows; i++)
    for (int64_t j = 0; j < r; j++) left[i * r + j] = s->u[i * s->k + j] * sqrtf(s->sigma[j]);
  for (int64_t j = 0; j < r; j++) {
    float root = sqrtf(s->sigma[j]);
    for (int64_t i = 0; i < s->cols; i++) right[j * s->cols + i] = root * s->vt[j * s->cols + i];
  }
}

shoal_status shoal_orthogonalise(shoal_host_float *x, int64_t rows, int64_t cols, const char *name,
                                 const shoal_meanwhile *meanwhile)
{
  shoal_svd s;
  double *row;
  SHOAL_TRY(SHOAL_ALLOC((size_t)cols, &row));
  shoal_status st = shoal_svd_make(x, rows, cols, name, meanwhile, &s);
  for (int64_t i = 0; st == SHOAL_OK && i < rows; i++) {
    memset(row, 0, (size_t)cols * sizeof *row);
    for (int64_t j = 0; j < s.k; j++)
      for (int64_t c = 0; c < cols; c++) row[c] += (double)s.u[i * s.k + j] * s.vt[j * cols + c];
    for (int64_t c = 0; c < cols; c++) x[i * cols + c] = (float)row[c];
    if (meanwhile) st = meanwhile->call(meanwhile->context);
  }
  shoal_svd_free(&s);
  free(row);
  return st;
}

/* The rank that computes a weight, round-robin; -1 if the weight is not a matrix. */
static int owner_of(const shoal_param *p, int size, int *turn)
{
  return p->shape.ndim < 2 ? -1 : (*turn)++ % size;
}

static shoal_status beat(void *context)
{
  shoal_rendezvous *c = context;
  SHOAL_TRY(shoal_rendezvous_heartbeat(c));
  return shoal_rendezvous_progress(c);
}

shoal_status shoal_svd_together(shoal_group *control, const char *name,
                                shoal_status (*own)(void *context, const shoal_meanwhile *meanwhile), void *context)
{
  shoal_rendezvous *c = NULL; /* only now: what is in flight costs every progress call */
  int64_t nothing;
  shoal_error kept = { .code = SHOAL_OK };
  shoal_status st = shoal_group_agree(control, shoal_rendezvous_create(control, name, &c));
  if (st == SHOAL_OK) {
    shoal_error_keep(&kept, own(context, &(shoal_meanwhile){ beat, c }));
    st = shoal_rendezvous_meet(c, 1, NULL, NULL, &nothing);
  }
  shoal_rendezvous_destroy(c);
  SHOAL_TRY(st);
  return shoal_group_agree(control, kept.code == SHOAL_OK ? SHOAL_OK : shoal_error_put(&kept));
}

typedef struct {
  shoal_group *control;
  shoal_form *form;
} start;

static shoal_status orthogonalise_param(const shoal_form *f, const shoal_param *p, const shoal_meanwhile *meanwhile)
{
  shoal_backend *b = f->backend;
  shoal_window w;
  SHOAL_TRY(shoal_window_open(b, SHOAL_WINDOW_BOTH, p->count, f->params->w + p->offset, &w));
  shoal_status st = shoal_orthogonalise(w.at, p->shape.dim[0], (int64_t)p->count / p->shape.dim[0], p->name, meanwhile);
  if (st == SHOAL_OK) return shoal_window_close(b, &w);
  shoal_window_drop(&w);
  return st;
}

static shoal_status orthogonalise_own(void *context, const shoal_meanwhile *meanwhile)
{
  const start *s = context;
  shoal_form *f = s->form;
  int me = shoal_group_rank(s->control), size = shoal_group_size(s->control), turn = 0;
  shoal_status st = SHOAL_OK;
  for (int i = 0; i < f->model->params && st == SHOAL_OK; i++) {
    const shoal_param *p = &f->model->param[i];
    if (owner_of(p, size, &turn) == me) st = orthogonalise_param(f, p, meanwhile);
  }
  return st;
}

shoal_status shoal_orthogonal_start(shoal_group *control, shoal_form *f)
{
  int size = shoal_group_size(control), turn = 0;
  SHOAL_TRY(shoal_svd_together(control, "orthogonal weights", orthogonalise_own, &(start){ control, f }));
  for (int i = 0; i < f->model->params; i++) {
    const shoal_param *p = &f->model->param[i];
    int owner = owner_of(p, size, &turn);
    if (owner >= 0) SHOAL_TRY(shoal_broadcast_arena(f->backend, control, f->params->w + p->offset, p->count, owner));
  }
  f->params->version++;
  return SHOAL_OK;
}
