/* The averages of local SGD: the model in equal parts, each with a sum of its own, which may overlap with the next steps.
 *
 *   after step s   sum ← w, started            all ranks send what they have, or what it has changed by (outer.h), and go on with w
 *   after step c   x ← outer step of the mean  w ← α w + (1 - α) x
 *
 * Without overlap s is c and α is 0.  With one fragment and no overlap this is the plain average, in every bit.
 * Source: Douillard et al., Streaming DiLoCo, 2025 (arXiv 2501.18512): fragments, overlap τ = c - s, mixing factor α. */
#ifndef SHOAL_METHOD_LOCAL_SGD_FRAGMENTS_H
#define SHOAL_METHOD_LOCAL_SGD_FRAGMENTS_H
#include "method/local_sgd/outer.h"
#include "method/local_sgd/schedule.h"

typedef struct shoal_fragment shoal_fragment;
typedef struct {
  const shoal_local_sgd_plan *plan;
  shoal_outer *outer;
  float mixing;                  /* α */
  shoal_sum_algorithm algorithm; /* as requested */
  shoal_memory sum;              /* float [n], registered */
  shoal_fragment *parts;         /* [plan->fragments] */
  uint32_t op;
} shoal_fragments;

/** Cuts the model and plans the sums.  Collective; `plan` and `outer` are borrowed until close, which is local.
 *  @return ERR_USAGE: fewer parameters than that many fragments need */
shoal_status shoal_fragments_open(shoal_run *r, const shoal_local_sgd_plan *plan, shoal_outer *outer, float mixing,
                                  shoal_sum_algorithm algorithm, shoal_fragments *out);
void shoal_fragments_close(shoal_run *r, shoal_fragments *s); /* also after a failed open */
shoal_sum_algorithm shoal_fragments_algorithm(const shoal_fragments *s);
/** After the optimizer step r->step: starts and collects what is due.  May wait for other ranks.  Cost: a sum of what starts. */
shoal_status shoal_fragments_step(shoal_run *r, shoal_fragments *s);
/** Waits for the sums that are under way; they are collected when it is their time.  Collective, as the next three. */
shoal_status shoal_fragments_finish(const shoal_fragments *s);
/** A run that goes back to a checkpoint leaves nothing under way. */
shoal_status shoal_fragments_drop(shoal_fragments *s);
/** What is under way in a checkpoint.  Put: waits for it.  Get: with the same layout; sums of a model that was cut in another way are
 *  dropped, and errors with them. */
shoal_status shoal_fragments_put(const shoal_run *r, const shoal_fragments *s, shoal_ckpt_writer *c);
shoal_status shoal_fragments_get(shoal_run *r, shoal_fragments *s, const shoal_ckpt *c);
#endif
