/* See parcel.h. */
#include "method/daso/parcel.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

enum { TAG_PART = 0, TAG_MEAN = 1 };

struct shoal_parcels {
  shoal_backend *backend;
  shoal_group *g;
  size_t n;
  shoal_wire wire;
  shoal_half format;
  int size, rank;
  uint16_t *own;                /* [n] this rank's parcel; then the mean */
  uint16_t *parts;              /* [size, widest chunk] received for this rank's chunk */
  float *sum;                   /* [widest chunk] */
  uint32_t *bad;                /* a number that the format cannot hold */
  shoal_memory memory[4];       /* of these: all but the sum pinned */
  shoal_message **send, **recv; /* [size] */
};

static size_t part_size(size_t n, int parts, int k)
{
  return n / (size_t)parts + ((size_t)k < n % (size_t)parts);
}

static size_t chunk_size(const shoal_parcels *p, int k)
{
  return part_size(p->n, p->size, k);
}

static size_t chunk_begin(const shoal_parcels *p, int k)
{
  size_t q = (size_t)p->size;
  return p->n / q * (size_t)k + SHOAL_MIN((size_t)k, p->n % q);
}

/* ------------------------------------------------------------------------------------------------------- planning */

static shoal_status allocate(shoal_parcels *p)
{
  const shoal_backend_ops *ops = p->backend->ops;
  size_t widest = chunk_size(p, 0), q = (size_t)p->size;
  SHOAL_TRY(ops->alloc(p->backend, SHOAL_MEMORY_PINNED, p->n * sizeof *p->own, &p->memory[0]));
  SHOAL_TRY(ops->alloc(p->backend, SHOAL_MEMORY_PINNED, q * widest * sizeof *p->parts, &p->memory[1]));
  SHOAL_TRY(ops->alloc(p->backend, SHOAL_MEMORY_DEVICE, widest * sizeof *p->sum, &p->memory[2]));
  SHOAL_TRY(ops->alloc(p->backend, SHOAL_MEMORY_PINNED, sizeof *p->bad, &p->memory[3]));
  p->own = p->memory[0].at;
  p->parts = p->memory[1].at;
  p->sum = p->memory[2].at;
  p->bad = p->memory[3].at;
  SHOAL_TRY(SHOAL_ALLOC(q, &p->send));
  SHOAL_TRY(SHOAL_ALLOC(q, &p->recv));
  for (int k = 0; k < p->size; k++) {
    SHOAL_TRY(shoal_message_create(p->g, "parcel out", &p->send[k]));
    SHOAL_TRY(shoal_message_create(p->g, "parcel in", &p->recv[k]));
  }
  return SHOAL_OK;
}

shoal_status shoal_parcels_create(shoal_backend *b, shoal_group *g, size_t n, shoal_wire wire, shoal_parcels **out)
{
  shoal_parcels *p = NULL;
  shoal_status st = SHOAL_ALLOC(1, &p);
  if (st == SHOAL_OK) {
    *p = (shoal_parcels){ .backend = b,
                          .g = g,
                          .n = n,
                          .wire = wire,
                          .format = wire == SHOAL_WIRE_BF16 ? SHOAL_BF16 : SHOAL_F16,
                          .size = shoal_group_size(g),
                          .rank = shoal_group_rank(g) };
    st = allocate(p);
  }
  st = shoal_group_agree(g, st);
  if (st != SHOAL_OK) {
    shoal_parcels_destroy(p);
    return st;
  }
  *out = p;
  return SHOAL_OK;
}

void shoal_parcels_destroy(shoal_parcels *p)
{
  if (!p) return;
  for (int k = 0; k < p->size; k++) {
    if (p->send) shoal_message_destroy(p->send[k]);
    if (p->recv) shoal_message_destroy(p->recv[k]);
  }
  free(p->send);
  free(p->recv);
  for (size_t i = 0; i < SHOAL_COUNT(p->memory); i++) p->backend->ops->release(p->backend, &p->memory[i]);
  free(p);
}

void shoal_parcels_bytes(const shoal_group *g, size_t n, uint64_t out[SHOAL_LINK_COUNT])
{
  int q = shoal_group_size(g), me = shoal_group_rank(g);
  memset(out, 0, SHOAL_LINK_COUNT * sizeof *out);
  for (int k = 0; k < q; k++)
    if (k != me) out[shoal_group_link(g, k)] += sizeof(uint16_t) * (part_size(n, q, k) + part_size(n, q, me));
}

/* ------------------------------------------------------------------------------------------------------- the mean */

static shoal_status pack(shoal_parcels *p, const float *common, const float *x)
{
  const shoal_backend_ops *ops = p->backend->ops;
  SHOAL_TRY(ops->pack16(p->backend, p->format, p->n, x, common, 1, p->own, p->bad));
  SHOAL_TRY(ops->settle(p->backend));
  SHOAL_CHECK(*p->bad == 0, SHOAL_ERR_NUMERIC,
              "weights of this rank are not finite or beyond what %s can hold: they are not sent to other nodes; try "
              "a smaller optim.lr, or optim.clip",
              shoal_wire_name(p->wire));
  return SHOAL_OK;
}

static shoal_status unpack(shoal_parcels *p, int chunk, const float *common, float *x)
{
  size_t begin = chunk_begin(p, chunk);
  return p->backend->ops->unpack16(p->backend, p->format, chunk_size(p, chunk), p->own + begin,
                                   common ? common + begin : NULL, x + begin);
}

/* Every member starts with its successor, to spread the load. */
static int peer_of(const shoal_parcels *p, int i)
{
  return (p->rank + i) % p->size;
}

static shoal_status exchange_parts(shoal_parcels *p)
{
  size_t mine = chunk_size(p, p->rank);
  for (int i = 1; i < p->size; i++) {
    int from = peer_of(p, p->size - i), to = peer_of(p, i);
    SHOAL_TRY(
        shoal_message_recv(p->recv[from], p->parts + (size_t)from * mine, mine * sizeof(uint16_t), from, TAG_PART));
    SHOAL_TRY(shoal_message_send(p->send[to], p->own + chunk_begin(p, to), chunk_size(p, to) * sizeof(uint16_t), to,
                                 TAG_PART));
  }
  return SHOAL_OK;
}

static shoal_status wait_for_sends(shoal_parcels *p)
{
  for (int k = 0; k < p->size; k++)
    if (k != p->rank) SHOAL_TRY(shoal_message_wait(p->send[k]));
  return SHOAL_OK;
}

static shoal_status add_parts(shoal_parcels *p)
{
  const shoal_backend_ops *ops = p->backend->ops;
  size_t mine = chunk_size(p, p->rank);
  uint16_t *own = p->own + chunk_begin(p, p->rank);
  SHOAL_TRY(ops->fill(p->backend, mine, 0, p->sum));
  for (int k = 0; k < p->size; k++) {
    if (k != p->rank) SHOAL_TRY(shoal_message_wait(p->recv[k]));
    const uint16_t *part = k == p->rank ? own : p->parts + (size_t)k * mine;
    SHOAL_TRY(ops->add16(p->backend, p->format, mine, part, p->sum));
  }
  SHOAL_TRY(ops->pack16(p->backend, p->format, mine, p->sum, NULL, (float)p->size, own, NULL));
  return ops->settle(p->backend);
}

/* A mean is received into the memory of the part sent before it, so those sends must be complete. */
static shoal_status exchange_means(shoal_parcels *p)
{
  size_t mine = chunk_size(p, p->rank);
  SHOAL_TRY(wait_for_sends(p));
  for (int i = 1; i < p->size; i++) {
    int from = peer_of(p, p->size - i), to = peer_of(p, i);
    SHOAL_TRY(shoal_message_recv(p->recv[from], p->own + chunk_begin(p, from), chunk_size(p, from) * sizeof(uint16_t),
                                 from, TAG_MEAN));
    SHOAL_TRY(shoal_message_send(p->send[to], p->own + chunk_begin(p, p->rank), mine * sizeof(uint16_t), to, TAG_MEAN));
  }
  return SHOAL_OK;
}

shoal_status shoal_parcels_mean(shoal_parcels *p, const float *common, float *x)
{
  SHOAL_TRY(pack(p, common, x));
  SHOAL_TRY(exchange_parts(p));
  SHOAL_TRY(add_parts(p));
  SHOAL_TRY(exchange_means(p));
  for (int i = 0; i < p->size; i++) {
    int k = peer_of(p, i);
    if (i) SHOAL_TRY(shoal_message_wait(p->recv[k]));
    SHOAL_TRY(unpack(p, k, common, x));
  }
  return wait_for_sends(p);
}
