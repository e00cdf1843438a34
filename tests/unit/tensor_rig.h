/* A test bench for one operation on one backend.
 *
 * `values` are plain dense arrays in the tester's hands; a `rig` holds the operation and every buffer it asks for, in
 * the operation's own formats.  The rig plays the worst caller the contract allows: weights at odd addresses (half of
 * the cases: at multiples of 16 bytes), NaN in every buffer that is about to be written, in scratch between calls, and
 * after forward in the inputs and outputs that backward promised not to read; guard bytes behind everything. */
#ifndef SHOAL_TESTS_TENSOR_RIG_H
#define SHOAL_TESTS_TENSOR_RIG_H
#include "check.h"
#include "tensor/backend.h"

/* GRID: multiples of 2^-7 in [-1, 1).  Products and short sums of these are exact in f32, so results of any order of
 * summation are the same bits and may be compared with ==.  FULL: all 24 bits in use.
 * DISTINCT: like GRID but without equal values, for maximum pools; steps of 2^-4. */
typedef enum { GRID, FULL, DISTINCT } value_kind;

typedef struct {
  int inputs;
  int64_t x_n[SHOAL_OP_INPUTS], y_n, w_n[SHOAL_OP_WEIGHTS], stats_n;
  float *x[SHOAL_OP_INPUTS], *w[SHOAL_OP_WEIGHTS], *stats[2], *dy;
} values;
void values_make(values *v, const shoal_op_desc *d, value_kind kind, uint64_t seed);
void values_free(values *v);
float *floats(int64_t n); /* zeroed, or the test ends */

typedef struct {
  float *y, *dx[SHOAL_OP_INPUTS], *dw[SHOAL_OP_WEIGHTS], *stats[2]; /* dense */
} results;
void results_make(results *r, const values *v);
void results_free(results *r);

typedef struct {
  shoal_backend *backend;
  shoal_op *op;
  const values *v; /* borrowed */
  float *x[SHOAL_OP_INPUTS], *dx[SHOAL_OP_INPUTS], *y, *dy;
  float *y_at; /* where the last forward put y: in y, or in x[0] */
  float *w[SHOAL_OP_WEIGHTS], *dw[SHOAL_OP_WEIGHTS], *stats[2];
  void *saved, *scratch;
  uint64_t version;
  shoal_address at;
} rig;

/* How the rig may lay out buffers. */
enum { APART = 0, IN_PLACE = 1 };

void rig_open(rig *r, shoal_backend *b, const shoal_op_desc *d, const shoal_format *in, const values *v);
void rig_close(rig *r);
void rig_load(rig *r);                              /* x, w, stats from v, converted to the operation's formats */
void rig_forward(rig *r, results *out, int place);  /* after rig_load; fills y and stats */
void rig_backward(rig *r, results *out, int place); /* after rig_forward; dy from v; fills dx and dw */
bool rig_trains(const rig *r);

/* The largest |a - b| over the largest |b|, or over `cancelled` where b is zero throughout; infinite if either is not
 * finite. */
double worst_error(const float *a, const float *b, int64_t n, double cancelled);
bool same_bits(const void *a, const void *b, int64_t n); /* n floats */

/* The topics of the suite: each returns how many checks its file has counted as failed so far, because check.h counts
 * per file; rig_failures are those of the bench and of the case list. */
int rig_failures(void);
/* kind SHOAL_OP_COUNT: all; `p` is what `b` was opened with. */
int test_ops(shoal_backend *b, shoal_backend *ref, shoal_op_kind kind, shoal_products p);
int test_gradients(shoal_backend *b);
int test_golden(shoal_backend *b);
int test_chain(shoal_backend *b, shoal_backend *ref);
int test_dropout(shoal_backend *b);
int test_gemm(shoal_backend *b);
int test_multiply(shoal_backend *b);
int test_loss(shoal_backend *b);
int test_target_loss(shoal_backend *b);
int test_vectors(shoal_backend *b);
int test_arena(shoal_backend *b);

/* Every operation of the test list, as descriptions ready for shoal_op_create. */
size_t test_cases(const shoal_op_desc **out);
/* Name and main numbers of a description, for messages. */
const char *describe(const shoal_op_desc *d, char buf[160]);
#endif
