/* An outer optimizer for local SGD: what the ranks' average makes of the model they started from is a step of its own.
 *
 *   x     the model that all ranks had after the last average        Δ = x - mean of their weights now: the outer gradient
 *
 *   slowmo     u ← β u + Δ / γ,   x ← x - α γ u         γ: the learning rate of this step
 *   nesterov   v ← β v + Δ,       x ← x - α (Δ + β v)
 *
 * With α = 1 and β = 0 both are the plain average, and nothing is kept or computed: equal bits.  A fragment of the model takes its
 * own steps.
 * Sources: SlowMo, Wang, Tantia, Ballas, Rabbat, ICLR 2020 (arXiv 1910.00643), algorithm 1; Nesterov's momentum as outer optimizer:
 * Douillard et al., DiLoCo, 2023 (arXiv 2311.08105).
 *
 * Ranks send their weights, or, in less than 32 bits, what these have changed by since the last average:
 *
 *   c_i = w_i - x,   c = sum of c_i as the exchange rounds it,   mean of their weights = x + c / P
 *
 * What rounding takes from the changes is kept and added to later ones (comm/exchange.h).
 * Sources of this: Streaming DiLoCo, 2025 (arXiv 2501.18512): outer gradients in 4 bits, added in f32; Karimireddy, Rebjock, Stich,
 * Jaggi, Error Feedback Fixes SignSGD, ICML 2019 (arXiv 1901.09847). */
#ifndef SHOAL_METHOD_LOCAL_SGD_OUTER_H
#define SHOAL_METHOD_LOCAL_SGD_OUTER_H
#include "method/method.h"

typedef enum {
  SHOAL_OUTER_NONE,
  SHOAL_OUTER_SLOWMO,
  SHOAL_OUTER_NESTEROV,
  SHOAL_OUTER_MEAN /* the plain average, where x is needed: no v */
} shoal_outer_kind;

typedef struct {
  shoal_outer_kind kind; /* NONE also where the settings make it the plain average */
  shoal_wire wire;       /* F32: ranks send weights; else changes */
  float lr, momentum;    /* α, β */
  shoal_memory x, v;     /* float [n]: the model after the last average; u or v.  Equal on all ranks */
  shoal_memory now, bad; /* of an update: see shoal_pace and shoal_update_watch */
} shoal_outer;

#define SHOAL_OUTER_OPTIONS                                                                                            \
  { "method.outer",                                                                                                    \
    SHOAL_OPT_ENUM,                                                                                                    \
    "none",                                                                                                            \
    NULL,                                                                                                              \
    "none|slowmo|nesterov",                                                                                            \
    "Optimizer whose step the averaged change is; none: parameters are replaced by their mean.",                       \
    "Wang et al., SlowMo, ICLR 2020; Douillard et al., DiLoCo, 2023 (nesterov)" },                                     \
      { "method.outer_lr",                                                                                             \
        SHOAL_OPT_FLOAT,                                                                                               \
        "",                                                                                                            \
        NULL,                                                                                                          \
        "(0,inf)",                                                                                                     \
        "Its learning rate. Unset: 1 for slowmo, 0.7 for nesterov.",                                                   \
        "SlowMo; DiLoCo",                                                                                              \
        .when = "method.outer=slowmo|nesterov" },                                                                      \
      { "method.outer_momentum",                                                                                       \
        SHOAL_OPT_FLOAT,                                                                                               \
        "",                                                                                                            \
        NULL,                                                                                                          \
        "[0,1)",                                                                                                       \
        "Its momentum. Unset: 0.7 for slowmo, 0.9 for nesterov.",                                                      \
        "SlowMo; DiLoCo",                                                                                              \
        .when = "method.outer=slowmo|nesterov" },                                                                      \
  {                                                                                                                    \
    "method.outer_bits", SHOAL_OPT_ENUM, "32", NULL, "32|16|8|4",                                                      \
        "Bits per parameter that an average sends between nodes. Below 32 these are changes since the last average, "  \
        "and what rounding takes from them is sent with later ones.",                                                  \
        "Douillard et al., Streaming DiLoCo, 2025; Karimireddy et al., ICML 2019"                                      \
  }

/** Reads the options, allocates, and takes the form's weights, which are equal on all ranks, as x.  Local. */
shoal_status shoal_outer_open(const shoal_run *r, shoal_outer *o);
void shoal_outer_close(const shoal_run *r, shoal_outer *o);
/** Takes the form's weights as x; they are equal on all ranks.  The momentum stays.  Local. */
shoal_status shoal_outer_take(const shoal_run *r, shoal_outer *o);
/** What this rank sends of its weights [first, first + n), into `sum` [n].  Local. */
shoal_status shoal_outer_send(const shoal_run *r, const shoal_outer *o, size_t first, size_t n, float *sum);
/** From `sum` [n], the sum of what all ranks have sent of weights [first, first + n), which is overwritten, to these weights of the form: `mixing`
 *  of what they are now and the rest of the new model, which is the same in every bit on all ranks.  Local. */
shoal_status shoal_outer_step(const shoal_run *r, shoal_outer *o, size_t first, size_t n, float *sum, float mixing);
/** x and momentum in a checkpoint, valid in any layout.  Put: rank 0's are written.  Get: what there is; *found: x was there, or none
 *  is needed.  Local. */
void shoal_outer_put(const shoal_run *r, const shoal_outer *o, shoal_ckpt_writer *c);
shoal_status shoal_outer_get(const shoal_run *r, shoal_outer *o, const shoal_ckpt *c, bool *found);
#endif
