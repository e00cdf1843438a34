/* See parcel.h. */
#include "method/daso/parcel.h"
#include "base/mem.h"
#include "tensor/half.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1024, TAG_PART = 0, TAG_MEAN = 1 };
#define BF16_MAX 0x1.fep127f
#define F16_MAX  65504.0f

struct shoal_parcels {
  shoal_group *g;
  size_t n;
  shoal_wire wire;
  int size, rank;
  uint16_t *own;                /* [n] this rank's parcel; then the mean */
  uint16_t *parts;              /* [size, widest chunk] received for this rank's chunk */
  float *sum;                   /* [widest chunk] */
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

static void to_half(const shoal_parcels *p, size_t n, const float *x, uint16_t *y)
{
  if (p->wire == SHOAL_WIRE_BF16)
    shoal_bf16_from_f32(n, x, y);
  else
    shoal_f16_from_f32(n, x, y);
}

static void from_half(const shoal_parcels *p, size_t n, const uint16_t *x, float *y)
{
  if (p->wire == SHOAL_WIRE_BF16)
    shoal_f32_from_bf16(n, x, y);
  else
    shoal_f32_from_f16(n, x, y);
}

static void add_half(const shoal_parcels *p, size_t n, const uint16_t *x, float *y)
{
  if (p->wire == SHOAL_WIRE_BF16)
    shoal_f32_add_bf16(n, x, y);
  else
    shoal_f32_add_f16(n, x, y);
}

/* ------------------------------------------------------------------------------------------------------- planning */

static shoal_status allocate(shoal_parcels *p)
{
  size_t widest = chunk_size(p, 0), q = (size_t)p->size;
  SHOAL_TRY(SHOAL_ALLOC(p->n, &p->own));
  SHOAL_TRY(shoal_alloc(q * widest, sizeof *p->parts, "16-bit parcels", (void **)&p->parts));
  SHOAL_TRY(SHOAL_ALLOC(widest, &p->sum));
  SHOAL_TRY(SHOAL_ALLOC(q, &p->send));
  SHOAL_TRY(SHOAL_ALLOC(q, &p->recv));
  for (int k = 0; k < p->size; k++) {
    SHOAL_TRY(shoal_message_create(p->g, "parcel out", &p->send[k]));
    SHOAL_TRY(shoal_message_create(p->g, "parcel in", &p->recv[k]));
  }
  return SHOAL_OK;
}

shoal_status shoal_parcels_create(shoal_group *g, size_t n, shoal_wire wire, shoal_parcels **out)
{
  shoal_parcels *p = NULL;
  shoal_status st = SHOAL_ALLOC(1, &p);
  if (st == SHOAL_OK) {
    *p = (shoal_parcels){ .g = g, .n = n, .wire = wire, .size = shoal_group_size(g), .rank = shoal_group_rank(g) };
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
  free(p->sum);
  free(p->parts);
  free(p->own);
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

/* Rounds differences block by block, so that no full vector of them is needed. */
static bool pack(shoal_parcels *p, const float *common, const float *x)
{
  const float largest = p->wire == SHOAL_WIRE_BF16 ? BF16_MAX : F16_MAX;
  float d[BLOCK];
  int bad = 0;
  for (size_t begin = 0; begin < p->n; begin += BLOCK) {
    size_t n = SHOAL_MIN(p->n - begin, (size_t)BLOCK);
    for (size_t i = 0; i < n; i++) d[i] = common ? x[begin + i] - common[begin + i] : x[begin + i];
    for (size_t i = 0; i < n; i++) bad |= !(fabsf(d[i]) <= largest);
    to_half(p, n, d, p->own + begin);
  }
  return !bad;
}

static void unpack(shoal_parcels *p, int chunk, const float *common, float *x)
{
  size_t begin = chunk_begin(p, chunk), end = begin + chunk_size(p, chunk);
  for (; begin < end; begin += BLOCK) {
    size_t n = SHOAL_MIN(end - begin, (size_t)BLOCK);
    from_half(p, n, p->own + begin, x + begin);
    for (size_t i = 0; common && i < n; i++) x[begin + i] += common[begin + i];
  }
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
  size_t mine = chunk_size(p, p->rank);
  uint16_t *own = p->own + chunk_begin(p, p->rank);
  memset(p->sum, 0, mine * sizeof *p->sum);
  for (int k = 0; k < p->size; k++) {
    if (k != p->rank) SHOAL_TRY(shoal_message_wait(p->recv[k]));
    add_half(p, mine, k == p->rank ? own : p->parts + (size_t)k * mine, p->sum);
  }
  for (size_t i = 0; i < mine; i++) p->sum[i] /= (float)p->size;
  to_half(p, mine, p->sum, own);
  return SHOAL_OK;
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
  SHOAL_CHECK(pack(p, common, x), SHOAL_ERR_NUMERIC,
              "weights of this rank are not finite or beyond what %s can hold: they are not sent to other nodes; try "
              "a smaller optim.lr, or optim.clip",
              shoal_wire_name(p->wire));
  SHOAL_TRY(exchange_parts(p));
  SHOAL_TRY(add_parts(p));
  SHOAL_TRY(exchange_means(p));
  for (int i = 0; i < p->size; i++) {
    int k = peer_of(p, i);
    if (i) SHOAL_TRY(shoal_message_wait(p->recv[k]));
    unpack(p, k, common, x);
  }
  return wait_for_sends(p);
}
