/* The fixture of ckpt_fixture.h, written by a group of ranks. */
#ifndef SHOAL_TESTS_CKPT_TOGETHER_H
#define SHOAL_TESTS_CKPT_TOGETHER_H
#include "ckpt/together/writer.h"
#include "unit/ckpt_fixture.h"

static inline void fixture_put(shoal_ckpt_writer *c, uint64_t step)
{
  uint64_t data[FIXTURE_LARGEST / 8];
  for (int i = 0; i < FIXTURE_SETS; i++) {
    const fixture_set *f = &fixture_sets[i];
    fixture_fill(f->type, step + (uint64_t)i, fixture_elements(f), data);
    shoal_ckpt_put(c, f->name, f->type, f->ndim, f->dims, data);
  }
}
#endif
