/* See replay.h. */
#include "method/local/replay.h"
#include "base/mem.h"
#include <stdlib.h>

shoal_status shoal_local_replay_init(int size, int max_uses, shoal_local_replay *out)
{
  *out = (shoal_local_replay){ .size = size, .max_uses = max_uses };
  SHOAL_TRY(SHOAL_ALLOC((size_t)size, &out->uses));
  return SHOAL_ALLOC((size_t)size, &out->when);
}

void shoal_local_replay_fini(shoal_local_replay *b)
{
  free(b->uses);
  free(b->when);
}

int shoal_local_replay_next(const shoal_local_replay *b)
{
  return b->next;
}

void shoal_local_replay_add(shoal_local_replay *b)
{
  b->unused += b->uses[b->next] == 1;
  b->uses[b->next] = 1;
  b->when[b->next] = b->written++;
  b->next = (b->next + 1) % b->size;
}

int shoal_local_replay_select(shoal_local_replay *b, uint64_t *age)
{
  int best = -1;
  for (int i = 0; i < b->size; i++) {
    if (b->uses[i] == 0) continue;
    if (best < 0 || b->uses[i] < b->uses[best] || (b->uses[i] == b->uses[best] && b->when[i] > b->when[best])) best = i;
  }
  if (best < 0 || (b->max_uses && b->uses[best] >= b->max_uses)) return -1;
  b->uses[best]++;
  b->used++;
  *age = b->written - 1 - b->when[best];
  return best;
}
