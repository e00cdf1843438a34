/* Whether MPI takes the addresses of a device's memory ("CUDA-aware"): tried before it is relied on.
 *
 * The library is asked first, since one that does not take them would read device memory as the host's and end the process.  If it
 * says yes, ranks send each other patterns, as the rings of sums do: to the same neighbours, in pieces up to their length, and from
 * a device to a device, from the host to a device and back.  What arrives is compared.
 *
 * Not beside NCCL: its kernels hold a device until other ranks come, and MPI may wait for the same device inside of a call that those ranks
 * wait for. */
#include "base/log.h"
#include "comm/exchange_impl.h"

static const size_t lengths[] = { 1, 1027, 16320 }; /* numbers of a piece; the last is a ring's longest */
enum { WAYS = 3, NEIGHBOURS = 2, N = (1 + 1027 + 16320) * WAYS * NEIGHBOURS };

typedef struct {
  shoal_memory there, here; /* the device's and the host's: [2 N], sent and received */
} rooms;

static uint32_t number_at(int rank, size_t i)
{
  return 2654435761u * (uint32_t)(i + 1) ^ (uint32_t)rank << 8;
}

static void *place(const shoal_memory *m, size_t i)
{
  return (uint32_t *)m->at + i;
}

static shoal_status make_rooms(shoal_world *w, rooms *r)
{
  const shoal_backend_ops *ops = w->away->ops;
  SHOAL_TRY(ops->alloc(w->away, SHOAL_MEMORY_DEVICE, 2 * N * sizeof(uint32_t), &r->there));
  SHOAL_TRY(ops->alloc(w->away, SHOAL_MEMORY_PINNED, 2 * N * sizeof(uint32_t), &r->here));
  for (size_t i = 0; i < N; i++) *(uint32_t *)place(&r->here, i) = number_at(w->rank, i);
  SHOAL_TRY(ops->copy(w->away, N * sizeof(uint32_t), r->here.at, r->there.at));
  return ops->settle(w->away);
}

/* What this rank gets must be what rank `from[k]` of neighbourhood k sent; -1: there is none.  *same: so it is. */
static shoal_status compare(shoal_world *w, const rooms *r, const int *from, bool *same)
{
  const shoal_backend_ops *ops = w->away->ops;
  SHOAL_TRY(ops->copy(w->away, N * sizeof(uint32_t), place(&r->there, N), r->here.at)); /* over what was sent */
  SHOAL_TRY(ops->settle(w->away));
  size_t i = 0;
  for (int k = 0; k < NEIGHBOURS; k++)
    for (int way = 0; way < WAYS; way++)
      for (size_t l = 0; l < SHOAL_COUNT(lengths); l++)
        for (size_t end = i + lengths[l]; i < end; i++)
          *same = *same && (from[k] < 0 || *(uint32_t *)place(&r->here, way == 2 ? N + i : i) == number_at(from[k], i));
  return SHOAL_OK;
}

static shoal_status send_all(shoal_world *w, const rooms *r, int *from)
{
  static const shoal_sum_algorithm rings[NEIGHBOURS] = { SHOAL_SUM_RING, SHOAL_SUM_TWO_LEVEL };
  shoal_stream streams[2 * NEIGHBOURS * WAYS * SHOAL_COUNT(lengths)];
  uint64_t number;
  size_t n = 0, i = 0;
  shoal_group *g = w->control;
  int tag = shoal_group_next_call(g, &number);
  for (int k = 0; k < NEIGHBOURS; k++) {
    shoal_node_layout s;
    shoal_node_layout_find(g, SHOAL_WIRE_F32, rings[k], &s);
    from[k] = s.nodes > 1 ? s.left : -1;
    for (int way = 0; way < WAYS; way++) /* device to device, host to device, device to host */
      for (size_t l = 0; l < SHOAL_COUNT(lengths); i += lengths[l++]) {
        size_t bytes = lengths[l] * sizeof(uint32_t);
        if (from[k] < 0) continue;
        streams[n++] = shoal_stream_out(place(way == 1 ? &r->here : &r->there, i), bytes, s.right);
        streams[n++] = shoal_stream_in(place(way == 2 ? &r->here : &r->there, N + i), bytes, s.left);
      }
  }
  return shoal_streams_run(g, "test of MPI with memory of GPUs (comm.cuda_aware: false does without)", number, tag,
                           true, streams, n);
}

static shoal_status try_it(shoal_world *w, bool *same)
{
  rooms r = { 0 };
  int from[NEIGHBOURS];
  *same = true;
  SHOAL_TRY(shoal_group_agree(w->control, make_rooms(w, &r)));
  SHOAL_TRY(send_all(w, &r, from)); /* after an error MPI may still be at the memory */
  SHOAL_TRY(shoal_group_agree(w->control, compare(w, &r, from, same)));
  w->away->ops->release(w->away, &r.there);
  w->away->ops->release(w->away, &r.here);
  return SHOAL_OK;
}

shoal_status shoal_world_try_direct(shoal_world *w, bool wanted)
{
  bool same;
  if (!wanted || w->size == 1 || w->fabric) return SHOAL_OK;
  int64_t no = !w->away || !w->transport->takes_device(w->away);
  SHOAL_TRY(shoal_group_agree_max(w->control, "devices of MPI", &no));
  if (no) return SHOAL_OK;
  SHOAL_TRY(try_it(w, &same));
  int64_t wrong = same ? 0 : w->size - w->rank; /* the largest is the first rank's */
  SHOAL_TRY(shoal_group_agree_max(w->control, "test of MPI", &wrong));
  w->direct = !wrong;
  int rank = w->size - (int)wrong;
  if (w->direct)
    shoal_info("rings of sums give MPI the memory of GPUs: it says that it takes it, and a test agrees");
  else if (w->rank == 0)
    shoal_warn("sums go through pinned memory, since this MPI does not do what it says: rank %d (%s) did not get what "
               "was sent "
               "to it from or to the memory of a GPU",
               rank, w->topo->places[rank].host);
  return SHOAL_OK;
}

bool shoal_world_direct(const shoal_world *w)
{
  return w->direct;
}
