/* Messages with the memory they use: see swarm.h.
 *
 * MPI cannot take back a send, and goes on filling a receive that has begun: while a partner is lost their memory is not ours.  A
 * send is then left to MPI with its memory, and replaced.  A receive need not be: nobody knows from whom it would have been, and
 * what comes late is read like everything else. */
#include "base/clock.h"
#include "base/mem.h"
#include "method/swarm/swarm.h"
#include <stdlib.h>

shoal_status shoal_post_open(const shoal_swarm *s, shoal_group *g, const char *name, size_t bytes, shoal_post_out *o)
{
  o->group = g;
  o->name = name;
  SHOAL_TRY(s->backend->ops->alloc(s->backend, SHOAL_MEMORY_PINNED, bytes, &o->memory));
  return shoal_message_create(g, name, &o->message);
}

/* Leaves to the library what is under way. */
static void drop(const shoal_swarm *s, shoal_message **m, shoal_memory *memory)
{
  if (*m && !shoal_message_done(*m))
    shoal_message_abandon(*m, s->backend, memory);
  else
    shoal_message_destroy(*m);
  *m = NULL;
  s->backend->ops->release(s->backend, memory);
}

void shoal_post_close(const shoal_swarm *s, shoal_post_out *o)
{
  drop(s, &o->message, &o->memory);
}

bool shoal_post_free(const shoal_post_out *o)
{
  return shoal_message_done(o->message);
}

shoal_status shoal_post_send(shoal_post_out *o, size_t bytes, int to, int tag)
{
  o->to = to;
  o->t0_ns = shoal_now_ns();
  return shoal_message_send(o->message, o->memory.at, bytes, to, tag);
}

shoal_status shoal_post_abandon(const shoal_swarm *s, shoal_post_out *o)
{
  if (shoal_post_free(o)) return SHOAL_OK;
  size_t bytes = o->memory.bytes;
  drop(s, &o->message, &o->memory);
  return shoal_post_open(s, o->group, o->name, bytes, o);
}

/* ------------------------------------------------------------------------------------------------------- boxes */

static shoal_status listen(const shoal_post_box *b, shoal_post_in *in)
{
  in->seen = false;
  return shoal_message_recv_any(in->message, in->memory.at, b->bytes, b->tag);
}

static shoal_status add(const shoal_swarm *s, shoal_post_box *b)
{
  shoal_post_in *in = &b->at[b->n];
  *in = (shoal_post_in){ 0 };
  SHOAL_TRY(s->backend->ops->alloc(s->backend, SHOAL_MEMORY_PINNED, b->bytes, &in->memory));
  b->n++;
  SHOAL_TRY(shoal_message_create(b->group, b->name, &in->message));
  return listen(b, in);
}

shoal_status shoal_box_fill(const shoal_swarm *s, shoal_post_box *b)
{
  if (b->wanted > b->room) {
    shoal_post_in *more = realloc(b->at, b->wanted * sizeof *more);
    SHOAL_CHECK(more, SHOAL_ERR_MEM, "out of memory: %zu receives of %s", b->wanted, b->name);
    b->at = more;
    b->room = b->wanted;
  }
  while (b->n < b->wanted) SHOAL_TRY(add(s, b));
  return SHOAL_OK;
}

shoal_status shoal_box_next(const shoal_swarm *s, shoal_post_box *b, size_t k)
{
  if (b->n <= b->wanted) return listen(b, &b->at[k]);
  drop(s, &b->at[k].message, &b->at[k].memory);
  b->at[k] = b->at[--b->n];
  return SHOAL_OK;
}

void shoal_box_close(const shoal_swarm *s, shoal_post_box *b)
{
  for (size_t k = 0; k < b->n; k++) drop(s, &b->at[k].message, &b->at[k].memory);
  free(b->at);
  *b = (shoal_post_box){ 0 };
}
