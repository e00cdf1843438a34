/* Parts of a plan's step, asked for again and again: where the backend records (shoal_backend.records), a part is asked for once
 * as ever, recorded when it comes the second time, and replayed from then on.
 *
 *     step      1          2                  3, 4, ...
 *     a part    asked for  recorded, replayed replayed
 *
 * The first time makes what the calls need (scratch memory, a library's kernels), which cannot be made while the backend records.
 * Parts that differ in a pointer are different ones, so that each room of the input has its own. */
#ifndef SHOAL_NN_PARTS_H
#define SHOAL_NN_PARTS_H
#include "tensor/backend.h"

/* All on which the arguments of a part's calls depend, besides the plan. */
typedef struct {
  const float *w, *g, *stats, *products, *x;
  int from, to; /* pieces of backward; both -1: forward */
  bool labelled, multiplies, looks;
} shoal_part;

typedef struct shoal_parts shoal_parts;
/** Keeps the recordings of up to `room` parts, those used last. */
shoal_status shoal_parts_create(shoal_backend *b, size_t room, shoal_parts **out);
void shoal_parts_destroy(shoal_parts *p); /* NULL is fine */
/** Has the backend do what `ask` asks of it.  `ask` calls only what may be recorded, with the same arguments for equal parts.
 *  @param name  for reports of what the device is doing */
shoal_status shoal_parts_run(shoal_parts *p, const shoal_part *part, const char *name,
                             shoal_status (*ask)(void *context), void *context);
#endif
