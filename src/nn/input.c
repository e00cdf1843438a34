/* See input.h. */
#include "nn/input.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  shoal_memory pinned, there;
  uint64_t brought; /* number of the copy that fills it */
  uint64_t left;    /* mark: whoever has read it is done */
} room;

struct shoal_input {
  shoal_backend *backend;
  room room[2];
  int next;           /* room for the next batch */
  const float *ahead; /* what that room is being filled with; NULL: nothing */
  size_t ahead_bytes;
};

shoal_status shoal_input_create(shoal_backend *b, shoal_input **out)
{
  shoal_input *in = calloc(1, sizeof *in);
  SHOAL_CHECK(in, SHOAL_ERR_MEM, "input of plans");
  in->backend = b;
  *out = in;
  return SHOAL_OK;
}

void shoal_input_destroy(shoal_input *in)
{
  if (!in) return;
  const shoal_backend_ops *ops = in->backend->ops;
  if (in->room[0].there.at || in->room[1].there.at) (void)ops->settle(in->backend);
  for (int i = 0; i < 2; i++) {
    ops->release(in->backend, &in->room[i].pinned);
    ops->release(in->backend, &in->room[i].there);
  }
  free(in);
}

static shoal_status make_room(shoal_input *in, room *r, size_t bytes)
{
  const shoal_backend_ops *ops = in->backend->ops;
  if (r->there.bytes < bytes) {
    SHOAL_TRY(ops->settle(in->backend));
    ops->release(in->backend, &r->pinned);
    ops->release(in->backend, &r->there);
    SHOAL_TRY(ops->alloc(in->backend, SHOAL_MEMORY_PINNED, bytes, &r->pinned));
    SHOAL_TRY(ops->alloc(in->backend, SHOAL_MEMORY_DEVICE, bytes, &r->there));
    r->brought = r->left = 0;
  }
  /* Its last batch was read two steps ago. */
  return r->brought && !ops->reached(in->backend, r->brought) ? ops->settle(in->backend) : SHOAL_OK;
}

static shoal_status bring(shoal_input *in, const float *x, size_t bytes)
{
  const shoal_backend_ops *ops = in->backend->ops;
  room *r = &in->room[in->next];
  SHOAL_TRY(make_room(in, r, bytes));
  memcpy(r->pinned.at, x, bytes);
  return ops->copy_beside(in->backend, r->left, bytes, r->pinned.at, r->there.at, &r->brought);
}

shoal_status shoal_input_take(shoal_input *in, const float *x, size_t bytes, const float **out)
{
  *out = x;
  if (in->backend->host_memory) return SHOAL_OK;
  if (in->ahead != x || in->ahead_bytes != bytes) SHOAL_TRY(bring(in, x, bytes));
  in->ahead = NULL;
  room *r = &in->room[in->next];
  in->next = 1 - in->next;
  in->room[in->next].left = in->backend->ops->mark(in->backend); /* the batch before is done with */
  *out = r->there.at;
  return in->backend->ops->await(in->backend, r->brought);
}

shoal_status shoal_input_ahead(shoal_input *in, const float *x, size_t bytes)
{
  if (in->backend->host_memory) return SHOAL_OK;
  SHOAL_TRY(bring(in, x, bytes));
  in->ahead = x;
  in->ahead_bytes = bytes;
  return SHOAL_OK;
}

void shoal_input_forget(shoal_input *in)
{
  in->ahead = NULL;
}
