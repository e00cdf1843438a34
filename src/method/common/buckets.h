/* Buckets: the gradient, cut into ranges that are summed over a group while backward still runs.
 *
 *   backward:   [fc]   [conv9]  [conv8]  ...  [conv1]        (announces ranges, last layer first)
 *   buckets:    |---- bucket 0 ----|-- bucket 1 --|-- 2 --|   a bucket starts when its last range is announced
 *   exchange:                       ~~~~~~0~~~~~~~ ~~~1~~~ ~~2~~
 *
 * Buckets are formed once, from the plan's static order of announcements, and never rebuilt, so results are
 * reproducible bit for bit.  As in the DDP paper, the first bucket is small, so that communication starts early, and
 * buckets start in index order on every rank.  A bucket is one contiguous range of the gradient arena, reduced in place
 * without a copy.  Gradients are already scaled (method.h, `samples`).
 *
 * docs/methods/sync.md describes the algorithms and how `auto` chooses one.
 * Source: Li et al., PyTorch Distributed, VLDB 2020. */
#ifndef SHOAL_METHOD_BUCKETS_H
#define SHOAL_METHOD_BUCKETS_H
#include "method/method.h"

/* Rows for a method's option table. */
#define SHOAL_BUCKET_SIZE_OPTIONS                                                                                      \
  { "method.bucket",                                                                                                   \
    SHOAL_OPT_FLOAT,                                                                                                   \
    "4",                                                                                                               \
    "MiB",                                                                                                             \
    "(0,4096]",                                                                                                        \
    "Gradients are exchanged in buckets of at least this size, started while backward runs.",                          \
    "Li et al., VLDB 2020 (25 MiB there)" },                                                                           \
  {                                                                                                                    \
    "method.first_bucket", SHOAL_OPT_FLOAT, "1", "MiB", "(0,4096]", "Size of the first bucket.",                       \
        "Li et al., VLDB 2020"                                                                                         \
  }
#define SHOAL_BUCKET_SUM_OPTIONS                                                                                         \
  { "method.wire", SHOAL_OPT_ENUM, "f32", NULL, "f32|bf16|f16", "Number format of gradients on the wire; sums are f32.", \
    "shoal" },                                                                                                           \
  {                                                                                                                      \
    "method.algorithm", SHOAL_OPT_ENUM, "auto", NULL,                                                                    \
        "auto|ring|two-level|leaders|small|halving|two-level-halving|leaders-halving",                                   \
        "How a bucket is summed; auto: by its size and the placement of ranks.", "shoal"                                 \
  }

shoal_wire shoal_wire_wanted(const shoal_config *c);               /* method.wire */
shoal_sum_algorithm shoal_algorithm_wanted(const shoal_config *c); /* method.algorithm */

typedef struct shoal_buckets shoal_buckets;
/** Divides the gradient of a form into buckets and plans a sum over `g` for each.  Collective over `g`.  Logs the
 *  choice in one line, unless the group is one rank.
 *  @param c      has method.bucket and method.first_bucket
 *  @param f      borrowed until destroy: its plan gives the order, its params hold the gradient
 *  @param title  first word of that line: "exchange"
 *  @param name   prefix of the exchanges in traces: "bucket" gives "bucket 0" */
shoal_status shoal_buckets_create(const shoal_config *c, const shoal_form *f, shoal_group *g, const char *title,
                                  const char *name, shoal_wire wire, shoal_sum_algorithm algorithm,
                                  shoal_buckets **out);
void shoal_buckets_destroy(shoal_buckets *b); /* accepts NULL */
/** Marks a range of the gradient as final and starts the buckets that are now complete.  For the announce hook. */
shoal_status shoal_buckets_announce(shoal_buckets *b, uint64_t step, size_t offset, size_t count);
/** Starts the remaining buckets (a rank without samples announces nothing; its gradient is zero) and waits for all
 *  sums.  Collective over the group, once per step. */
shoal_status shoal_buckets_finish(shoal_buckets *b, uint64_t step);
/** The same for the gradient of the whole form: counts the bytes sent and names the ranks that share it in `r`.  For the
 *  grads_ready hook. */
shoal_status shoal_buckets_grads_ready(shoal_buckets *b, shoal_run *r);
/** Adds the payload bytes this rank sends in a step, by formula, to out[link]. */
void shoal_buckets_add_bytes(const shoal_buckets *b, uint64_t out[SHOAL_LINK_COUNT]);
/** Save the algorithm chosen for each bucket, because the order of summation depends on it: save for a group of all
 *  ranks, save_own per rank as replica/K/NAME (collective).  Load restores the choice if `auto` is requested and the
 *  number of buckets is unchanged; collective over the group. */
shoal_status shoal_buckets_save(const shoal_buckets *b, shoal_ckpt_writer *c, const char *name);
shoal_status shoal_buckets_save_own(const shoal_buckets *b, shoal_ckpt_writer *c, const char *name);
shoal_status shoal_buckets_load(shoal_buckets *b, const shoal_ckpt *c, const char *name);
#endif
