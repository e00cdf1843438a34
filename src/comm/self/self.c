/* The transport of a world of one process.
 *
 * Groups of one never post anything, whatever the transport: their collectives and exchanges complete at once.  What
 * remains is messages of a rank to itself, which need no library in any world: a copy is queued until it is
 * received. */
#include "base/mem.h"
#include "comm/group_impl.h"
#include <stdlib.h>
#include <string.h>

struct shoal_self_message {
  shoal_self_message *next;
  int tag;
  size_t bytes;
  char data[];
};

shoal_status shoal_self_put(shoal_self_message **box, const void *data, size_t bytes, int tag)
{
  shoal_self_message *l;
  SHOAL_TRY(shoal_alloc(1, sizeof *l + bytes, "message of a rank to itself", (void **)&l));
  l->tag = tag;
  l->bytes = bytes;
  if (bytes) memcpy(l->data, data, bytes);
  while (*box) box = &(*box)->next;
  *box = l;
  return SHOAL_OK;
}

shoal_status shoal_self_take(shoal_self_message **box, void *data, size_t bytes, int tag)
{
  while (*box && (*box)->tag != tag) box = &(*box)->next;
  shoal_self_message *l = *box;
  SHOAL_CHECK(l, SHOAL_ERR_ARG, "rank receives from itself with tag %d, but nothing was sent", tag);
  SHOAL_CHECK(l->bytes == bytes, SHOAL_ERR_COMM, "rank receives %zu bytes from itself with tag %d, but %zu were sent",
              bytes, tag, l->bytes);
  if (bytes) memcpy(data, l->data, bytes);
  *box = l->next;
  free(l);
  return SHOAL_OK;
}

void shoal_self_empty(shoal_self_message **box)
{
  for (shoal_self_message *l = *box, *next; l; l = next) {
    next = l->next;
    free(l);
  }
  *box = NULL;
}

static shoal_status connect_self(shoal_world *w, const int *world_ranks, int n, shoal_channel **out)
{
  *out = NULL;
  return SHOAL_OK;
}

static void disconnect_self(shoal_channel *c)
{
}

static shoal_status reserve_self(shoal_world *w, int more)
{
  return SHOAL_OK;
}

static shoal_status send_self(shoal_channel *c, const void *data, size_t bytes, int to, int tag, int *slot)
{
  return SHOAL_FAIL(SHOAL_ERR_INTERNAL, "sending to rank %d in a world of one", to);
}

static shoal_status recv_self(shoal_channel *c, void *data, size_t bytes, int from, int tag, int *slot)
{
  return SHOAL_FAIL(SHOAL_ERR_INTERNAL, "receiving from rank %d in a world of one", from);
}

static shoal_slot_state state_self(const shoal_world *w, int slot, size_t *got)
{
  return SHOAL_SLOT_DONE;
}

static int sender_self(const shoal_world *w, int slot)
{
  return 0;
}

static void cancel_self(shoal_world *w, int slot)
{
}

static void release_self(shoal_world *w, int slot)
{
}

static shoal_status poll_self(shoal_world *w, size_t *completed)
{
  *completed = 0;
  return SHOAL_OK;
}

static bool peek_self(shoal_channel *c, int *from, int *tag, size_t *bytes)
{
  return false;
}

static void close_self(shoal_world *w)
{
}

static void abort_self(int exit_code)
{
  exit(exit_code);
}

static bool takes_device_self(const shoal_backend *b)
{
  return false;
}

shoal_status shoal_self_open(shoal_world *w)
{
  static const shoal_transport self = {
    .name = "self",
    .connect = connect_self,
    .disconnect = disconnect_self,
    .reserve = reserve_self,
    .send = send_self,
    .recv = recv_self,
    .state = state_self,
    .sender = sender_self,
    .cancel = cancel_self,
    .release = release_self,
    .poll = poll_self,
    .peek = peek_self,
    .takes_device = takes_device_self,
    .close = close_self,
    .abort = abort_self,
  };
  w->transport = &self;
  w->rank = 0;
  w->size = 1;
  return SHOAL_OK;
}
