/* Greedy placement by size (the rule that does well for networks in Pisarchyk and Lee, Efficient Memory Management for
 * Deep Neural Net Inference, 2020): large buffers determine the size of the arena, so they are placed first, and small
 * ones fill the gaps.  There are at most a few hundred slots, so quadratic work does not matter. */
#include "nn/place.h"
#include "base/mem.h"
#include <stdbool.h>
#include <stdlib.h>

typedef struct {
  size_t bytes;
  int number;
} by_size;

static int compare_size(const void *a, const void *b)
{
  const by_size *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  return x->number - y->number;
}

static bool alive_together(const shoal_slot *a, const shoal_slot *b)
{
  return a->birth <= b->death && b->birth <= a->death;
}

/* Returns the first gap that is wide enough; `placed` is ordered by offset. */
static size_t first_gap(const shoal_slot *s, const shoal_slot *const *placed, int n)
{
  size_t at = 0, bytes = shoal_round_up(s->bytes, SHOAL_ALIGN);
  for (int i = 0; i < n; i++) {
    const shoal_slot *p = placed[i];
    if (!alive_together(s, p)) continue;
    if (p->offset >= at + bytes) break;
    at = SHOAL_MAX(at, p->offset + shoal_round_up(p->bytes, SHOAL_ALIGN));
  }
  return at;
}

static void insert(const shoal_slot **placed, int n, const shoal_slot *s)
{
  int i = n;
  for (; i > 0 && placed[i - 1]->offset > s->offset; i--) placed[i] = placed[i - 1];
  placed[i] = s;
}

shoal_status shoal_place(shoal_slot *slots, int n, size_t *total)
{
  by_size *order = NULL;
  const shoal_slot **placed = NULL;
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)n, &order), done);
  SHOAL_TRY_GOTO(st, shoal_alloc((size_t)n, sizeof *placed, "placement", (void **)&placed), done);
  for (int i = 0; i < n; i++) order[i] = (by_size){ slots[i].bytes, i };
  if (n > 0) qsort(order, (size_t)n, sizeof *order, compare_size);
  size_t end = 0;
  for (int i = 0; i < n; i++) {
    shoal_slot *s = &slots[order[i].number];
    s->offset = first_gap(s, placed, i);
    insert(placed, i, s);
    end = SHOAL_MAX(end, s->offset + shoal_round_up(s->bytes, SHOAL_ALIGN));
  }
  *total = end;
done:
  free(order);
  free(placed);
  return st;
}
