/* See parts.h. */
#include "nn/parts.h"
#include "base/error.h"
#include "base/mem.h"
#include <stdlib.h>

typedef struct {
  shoal_part part;
  uint64_t used;             /* when it last was; 0: never, so this is no part yet */
  shoal_recording *recorded; /* NULL: not yet */
  uint64_t moved;            /* as the backend's was then */
} entry;

struct shoal_parts {
  shoal_backend *backend;
  uint64_t uses;
  size_t room;
  entry entry[];
};

shoal_status shoal_parts_create(shoal_backend *b, size_t room, shoal_parts **out)
{
  SHOAL_TRY(shoal_alloc(1, sizeof **out + room * sizeof(entry), "recordings of a plan", (void **)out));
  (*out)->backend = b;
  (*out)->room = room;
  return SHOAL_OK;
}

static void forget(shoal_parts *p, entry *e)
{
  if (e->recorded) p->backend->ops->forget(p->backend, e->recorded);
  e->recorded = NULL;
}

void shoal_parts_destroy(shoal_parts *p)
{
  for (size_t i = 0; p && i < p->room; i++) forget(p, &p->entry[i]);
  free(p);
}

static bool equal(const shoal_part *a, const shoal_part *b)
{
  return a->w == b->w && a->g == b->g && a->stats == b->stats && a->products == b->products && a->x == b->x &&
         a->from == b->from && a->to == b->to && a->labelled == b->labelled && a->multiplies == b->multiplies &&
         a->looks == b->looks;
}

/* That of the part; else the one that was not used for the longest time. */
static entry *find(shoal_parts *p, const shoal_part *part)
{
  entry *oldest = &p->entry[0];
  for (entry *e = p->entry; e < p->entry + p->room; e++) {
    if (e->used && equal(&e->part, part)) return e;
    if (e->used < oldest->used) oldest = e;
  }
  return oldest;
}

static shoal_status record(shoal_parts *p, entry *e, const char *name, shoal_status (*ask)(void *), void *context)
{
  shoal_backend *b = p->backend;
  shoal_error error;
  SHOAL_TRY(b->ops->record(b, name));
  shoal_status st = ask(context);
  if (st == SHOAL_OK) {
    e->moved = b->moved;
    return b->ops->recorded(b, &e->recorded);
  }
  shoal_error_take(&error);
  (void)b->ops->recorded(b, NULL);
  return shoal_error_put(&error);
}

shoal_status shoal_parts_run(shoal_parts *p, const shoal_part *part, const char *name,
                             shoal_status (*ask)(void *context), void *context)
{
  entry *e = find(p, part);
  const bool first = !e->used || !equal(&e->part, part);
  if (first || (e->recorded && e->moved != p->backend->moved)) forget(p, e);
  e->part = *part;
  e->used = ++p->uses;
  if (first) return ask(context);
  if (!e->recorded)
    SHOAL_TRY(
        shoal_error_prefix(record(p, e, name, ask, context), "recording %s; cuda.graphs: false does without: ", name));
  return p->backend->ops->replay(p->backend, e->recorded);
}
