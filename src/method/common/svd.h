/* Thin singular value decomposition of a weight matrix, and what AB-training derives from it: a numerical rank, two
 * balanced factors, the nearest orthogonal matrix.  Host memory, f32, row-major; LAPACK.  Allocates, so not for use in
 * every step.
 *
 *   X [rows, cols]  =  U [rows, k]  diag(sigma)  V^T [k, cols],      k = min(rows, cols), sigma descending
 *
 * Signs, and the basis of equal singular values, are LAPACK's choice and may differ between machines: compute on
 * one rank and send the result. */
#ifndef SHOAL_METHOD_SVD_H
#define SHOAL_METHOD_SVD_H
#include "method/method.h"

typedef struct {
  int64_t rows, cols, k;
  shoal_host_float *u, *sigma, *vt; /* [rows, k], [k], [k, cols]; owned */
} shoal_svd;

/* Called again and again while LAPACK works, which may take minutes and makes no progress in MPI: so it works in a thread of its
 * own, and the rank goes on answering others. */
typedef struct {
  shoal_status (*call)(void *context);
  void *context;
} shoal_meanwhile;

/** @param x          [rows, cols], not changed
 *  @param name       of the layer, for messages
 *  @param meanwhile  or NULL.  Its error is returned when LAPACK has ended
 *  @return ERR_NUMERIC if x holds NaN or infinity, or LAPACK does not converge (divide and conquer is tried
 *          first, then QR iteration); ERR_MEM.  After an error *out is empty.
 *  Cost    about 4 rows cols k operations and twice the matrix in memory */
shoal_status shoal_svd_make(const shoal_host_float *x, int64_t rows, int64_t cols, const char *name,
                            const shoal_meanwhile *meanwhile, shoal_svd *out);
void shoal_svd_free(shoal_svd *s); /* also when empty */
/** 1 + the largest j with sigma[j] > beta * sigma[0]; 1 for a zero matrix.
 *  Source  AB-training's public code, including the strict comparison */
int64_t shoal_svd_rank(const shoal_host_float *sigma, int64_t k, double beta);
/** left [rows, r] = U diag(sqrt(sigma)), right [r, cols] = diag(sqrt(sigma)) V^T, of the first r singular values: then
 *  left^T left = right right^T = diag(sigma). */
void shoal_svd_split(const shoal_svd *s, int64_t r, shoal_host_float *left, shoal_host_float *right);
/** x ← U V^T: all singular values become 1.  A zero matrix becomes an arbitrary orthogonal one.  Errors as above; x is
 *  then unchanged. */
shoal_status shoal_orthogonalise(shoal_host_float *x, int64_t rows, int64_t cols, const char *name,
                                 const shoal_meanwhile *meanwhile);
/** The same for every weight of the model with two or more dimensions, in its 2-D form.  Ranks compute weights
 *  round-robin and broadcast them (class control).  Collective over `control`; for a fresh model, before the first
 *  step. */
shoal_status shoal_orthogonal_start(shoal_group *control, shoal_form *f);
/** Decompositions that ranks share out: calls `own`, which passes `meanwhile` on, and then waits for all ranks and agrees on
 *  their status.  A rank that is still at it is no hang as long as it shows that it is.  Collective over `control`.
 *  @param name  for hang reports */
shoal_status shoal_svd_together(shoal_group *control, const char *name,
                                shoal_status (*own)(void *context, const shoal_meanwhile *meanwhile), void *context);
#endif
