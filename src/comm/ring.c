/* The all-reduce of the training step: a ring that can be left alone.
 *
 * 2(p-1) steps.  In step t a member sends chunk r-1-t to its right and receives chunk r-2-t from its left (modulo p),
 * all the way through: in the first p-1 steps what arrives is added to the own part, from then on it is finished and
 * replaces it. What is received in step t is what is sent in step t+1.
 *
 *     p = 3, rank 0     t:        0    1  |  2    3
 *                       send      c2   c1 |  c0   c2        reduce-scatter | all-gather
 *                       receive   c1   c0 |  c2   c1        c0 is complete after t = 1, so rank 0 owns it
 *
 * Chunks are cut into pieces, and each direction is one long sequence of pieces.  So all the state is four counts:
 * pieces received and sent, posted and finished.  With `first` pieces in the first step of sending, and `all` in a
 * whole turn:
 *
 *     piece i >= first may be sent when piece i - first has been received (and added)
 *     piece i of the all-gather may be received into its place when the earlier send from there, i + first - all, is
 * over
 *
 * f32 is sent from where it lies, and received there in the all-gather; only reduce-scatter needs piece buffers. 16-bit
 * formats go through piece buffers both ways.  An empty chunk has no pieces and sends no message, on either side.
 *
 * Pieces are 256 KiB, and up to eight are posted per direction.  A piece must be long enough to hide its start, and
 * short enough that a step of the ring starts moving before its chunk is complete.  What is posted must fill the time
 * between two polls (2 ms): 8 pieces per 2 ms are 1 GB/s. */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/group_impl.h"
#include "tensor/half.h"
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 256 << 10, WINDOW = 8 };
enum { STAMP_STRIDE = 37 }; /* one start fewer and one step more must not come to the same tag */

size_t shoal_wire_bytes(shoal_wire wire)
{
  return wire == SHOAL_WIRE_F32 ? 4 : 2;
}

const char *shoal_wire_name(shoal_wire wire)
{
  static const char *const names[] = { "f32", "bf16", "f16" };
  return names[wire];
}

/* Where one direction stands: the next piece is elements [at, at + length) of the vector. */
typedef struct {
  int step, chunk; /* step == steps: past the end */
  size_t at, end;  /* within the chunk */
  uint64_t pieces; /* before this one */
} cursor;

typedef struct {
  cursor posted, finished;
  int slot[WINDOW];
  char *buffer; /* `window` pieces, or NULL */
} direction;

struct shoal_exchange {
  shoal_flight f;
  char *name;
  uint64_t plan, stamp;
  size_t n, piece; /* elements */
  shoal_wire wire;
  float *x;
  int steps, left, right, window;
  uint64_t first, all; /* pieces of the first sending step, of all chunks */
  direction out, in;
  uint64_t bytes; /* payload sent per start */
  shoal_trace *trace;
  uint32_t op; /* of `trace` */
};

/* --------------------------------------------------------------------------------------------------------- chunks */

static size_t chunk_size(size_t n, int p, int k)
{
  return n / (size_t)p + ((size_t)k < n % (size_t)p);
}

static size_t chunk_begin(size_t n, int p, int k)
{
  return n / (size_t)p * (size_t)k + SHOAL_MIN((size_t)k, n % (size_t)p);
}

static uint64_t pieces_of(const shoal_exchange *e, int chunk)
{
  return (chunk_size(e->n, e->f.g->size, chunk) + e->piece - 1) / e->piece;
}

static void enter_step(const shoal_exchange *e, cursor *c)
{
  int p = e->f.g->size;
  for (; c->step < e->steps; c->step++, c->chunk = (c->chunk + p - 1) % p) {
    c->at = chunk_begin(e->n, p, c->chunk);
    c->end = c->at + chunk_size(e->n, p, c->chunk);
    if (c->at < c->end) return;
  }
}

static cursor cursor_start(const shoal_exchange *e, int first_chunk)
{
  int p = e->f.g->size;
  cursor c = { .chunk = ((first_chunk % p) + p) % p };
  enter_step(e, &c);
  return c;
}

static size_t piece_length(const shoal_exchange *e, const cursor *c)
{
  return SHOAL_MIN(e->piece, c->end - c->at);
}

static void cursor_next(const shoal_exchange *e, cursor *c)
{
  int p = e->f.g->size;
  c->pieces++;
  c->at += piece_length(e, c);
  if (c->at < c->end) return;
  c->step++;
  c->chunk = (c->chunk + p - 1) % p;
  enter_step(e, c);
}

static char *buffer_of(const shoal_exchange *e, const direction *d, const cursor *c)
{
  return d->buffer + c->pieces % (uint64_t)e->window * e->piece * shoal_wire_bytes(e->wire);
}

/* ------------------------------------------------------------------------------------------------ wire formats */

static void add_f32(size_t n, const float *restrict x, float *restrict y)
{
#pragma omp simd
  for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static void pack(shoal_wire wire, size_t n, const float *x, void *to)
{
  if (wire == SHOAL_WIRE_BF16)
    shoal_bf16_from_f32(n, x, to);
  else
    shoal_f16_from_f32(n, x, to);
}

static void unpack(shoal_wire wire, size_t n, const void *from, float *x)
{
  if (wire == SHOAL_WIRE_BF16)
    shoal_f32_from_bf16(n, from, x);
  else
    shoal_f32_from_f16(n, from, x);
}

static void add(shoal_wire wire, size_t n, const void *from, float *x)
{
  if (wire == SHOAL_WIRE_F32)
    add_f32(n, from, x);
  else if (wire == SHOAL_WIRE_BF16)
    shoal_f32_add_bf16(n, from, x);
  else
    shoal_f32_add_f16(n, from, x);
}

/* A piece has come: add it, or put it into place.  The last step of reduce-scatter completes the own chunk. */
static void use_piece(shoal_exchange *e, const cursor *c, char *piece)
{
  size_t n = piece_length(e, c);
  float *x = e->x + c->at;
  int adding = e->steps / 2;
  if (c->step < adding) {
    add(e->wire, n, piece, x);
    if (c->step < adding - 1 || e->wire == SHOAL_WIRE_F32) return;
    pack(e->wire, n, x, piece); /* what the others will get */
  }
  if (e->wire != SHOAL_WIRE_F32) unpack(e->wire, n, piece, x);
}

/* --------------------------------------------------------------------------------------------------------- moving */

static bool in_place(const shoal_exchange *e, const cursor *c)
{
  return e->wire == SHOAL_WIRE_F32 && c->step >= e->steps / 2;
}

static shoal_status receive_finished(shoal_exchange *e, bool *moved)
{
  cursor *c = &e->in.finished;
  while (c->pieces < e->in.posted.pieces) {
    int slot = e->in.slot[c->pieces % WINDOW];
    bool finished;
    SHOAL_TRY(shoal_flight_look(&e->f, slot, e->left, piece_length(e, c) * shoal_wire_bytes(e->wire), &finished));
    if (!finished) break;
    e->f.g->w->transport->release(e->f.g->w, slot);
    if (!in_place(e, c)) use_piece(e, c, buffer_of(e, &e->in, c));
    cursor_next(e, c);
    *moved = true;
  }
  return SHOAL_OK;
}

static shoal_status send_finished(shoal_exchange *e, bool *moved)
{
  cursor *c = &e->out.finished;
  while (c->pieces < e->out.posted.pieces) {
    int slot = e->out.slot[c->pieces % WINDOW];
    bool finished;
    SHOAL_TRY(shoal_flight_look(&e->f, slot, e->right, 0, &finished));
    if (!finished) break;
    e->f.g->w->transport->release(e->f.g->w, slot);
    cursor_next(e, c);
    *moved = true;
  }
  return SHOAL_OK;
}

static shoal_status post_receives(shoal_exchange *e, bool *moved)
{
  cursor *c = &e->in.posted;
  while (c->step < e->steps && c->pieces - e->in.finished.pieces < (uint64_t)e->window) {
    bool straight = in_place(e, c);
    /* Before the data can come our neighbours have read what lies there; the library must say so too. */
    if (straight && e->out.finished.pieces + e->all <= c->pieces + e->first) break;
    void *to = straight ? (void *)(e->x + c->at) : buffer_of(e, &e->in, c);
    SHOAL_TRY(shoal_flight_recv(&e->f, to, piece_length(e, c) * shoal_wire_bytes(e->wire), e->left,
                                &e->in.slot[c->pieces % WINDOW]));
    cursor_next(e, c);
    *moved = true;
  }
  return SHOAL_OK;
}

static shoal_status post_sends(shoal_exchange *e, bool *moved)
{
  cursor *c = &e->out.posted;
  while (c->step < e->steps && c->pieces - e->out.finished.pieces < (uint64_t)e->window &&
         c->pieces < e->in.finished.pieces + e->first) {
    size_t n = piece_length(e, c);
    const void *from = e->x + c->at;
    if (e->wire != SHOAL_WIRE_F32) {
      char *buffer = buffer_of(e, &e->out, c);
      pack(e->wire, n, e->x + c->at, buffer);
      from = buffer;
    }
    SHOAL_TRY(
        shoal_flight_send(&e->f, from, n * shoal_wire_bytes(e->wire), e->right, &e->out.slot[c->pieces % WINDOW]));
    cursor_next(e, c);
    *moved = true;
  }
  return SHOAL_OK;
}

static void record(const shoal_exchange *e, shoal_trace_kind kind, uint64_t t0_ns, uint64_t bytes)
{
  const shoal_group *g = e->f.g;
  if (g->w->trace && g->w->trace == e->trace)
    shoal_trace_transfer(e->trace, kind, e->op, t0_ns, shoal_now_ns(), shoal_group_class(g, e->right),
                         g->world_ranks[e->right], bytes, e->f.number);
}

static shoal_status ring_advance(shoal_flight *f, bool *moved, bool *done)
{
  shoal_exchange *e = (shoal_exchange *)f;
  SHOAL_TRY(receive_finished(e, moved));
  SHOAL_TRY(send_finished(e, moved));
  SHOAL_TRY(post_sends(e, moved));
  SHOAL_TRY(post_receives(e, moved));
  *done = e->in.finished.step == e->steps && e->out.finished.step == e->steps;
  if (*done) record(e, SHOAL_TRACE_EXCHANGE, f->started_ns, e->bytes);
  return SHOAL_OK;
}

/* The chunk that comes in step t holds the parts of the t+1 members before us; later everybody has taken part. */
static int ring_describe(shoal_flight *f, shoal_str *where, bool *missing)
{
  shoal_exchange *e = (shoal_exchange *)f;
  int p = f->g->size, t = e->in.finished.step;
  bool receiving = t < e->steps;
  shoal_str_add(where, "step %d of %d of the ring, %zu elements", SHOAL_MIN(t + 1, e->steps), e->steps, e->n);
  for (int d = t + 1; d < p; d++) missing[(f->g->rank - d + p) % p] = true;
  return receiving ? e->left : e->right;
}

static void give_up_direction(shoal_exchange *e, direction *d)
{
  while (d->finished.pieces < d->posted.pieces) {
    e->f.g->w->transport->release(e->f.g->w, d->slot[d->finished.pieces % WINDOW]);
    cursor_next(e, &d->finished);
  }
}

static void ring_give_up(shoal_flight *f)
{
  shoal_exchange *e = (shoal_exchange *)f;
  give_up_direction(e, &e->in);
  give_up_direction(e, &e->out);
}

/* ------------------------------------------------------------------------------------------------------ public */

/* The members of a plan must mean the same thing, or pieces would be added to the wrong places. */
static shoal_status compare_plan(shoal_group *g, const char *name, size_t n, shoal_wire wire)
{
  int64_t largest = (int64_t)n << 2 | (int64_t)wire, smallest = -largest;
  int64_t mine = largest;
  SHOAL_TRY(shoal_group_agree_max(g, "exchange set-up", &largest));
  SHOAL_TRY(shoal_group_agree_max(g, "exchange set-up", &smallest));
  SHOAL_CHECK(largest == mine && -smallest == mine, SHOAL_ERR_ARG,
              "exchange \"%s\" of group %s: here %zu elements as %s, but other members plan %lld to %lld elements (or "
              "another wire format)",
              name, g->name, n, shoal_wire_name(wire), (long long)(-smallest >> 2), (long long)(largest >> 2));
  return SHOAL_OK;
}

static shoal_status make_buffers(shoal_exchange *e)
{
  shoal_group *g = e->f.g;
  if (g->size == 1) return SHOAL_OK;
  size_t bytes = (size_t)e->window * e->piece * shoal_wire_bytes(e->wire);
  SHOAL_TRY(shoal_alloc(bytes, 1, e->name, (void **)&e->in.buffer));
  if (e->wire != SHOAL_WIRE_F32) SHOAL_TRY(shoal_alloc(bytes, 1, e->name, (void **)&e->out.buffer));
  return g->w->transport->reserve(g->w, 2 * e->window);
}

static void plan_ring(shoal_exchange *e)
{
  const shoal_group *g = e->f.g;
  int p = g->size;
  size_t wire = shoal_wire_bytes(e->wire);
  size_t largest = SHOAL_MIN(SHOAL_MIN((size_t)PIECE_BYTES, g->w->o.max_message) / wire, chunk_size(e->n, p, 0));
  e->piece = SHOAL_MAX(largest, (size_t)1);
  e->steps = 2 * (p - 1);
  e->left = (g->rank + p - 1) % p;
  e->right = (g->rank + 1) % p;
  e->first = pieces_of(e, e->left); /* the first chunk sent, r-1, has the number of the left neighbour */
  for (int k = 0; k < p; k++) e->all += pieces_of(e, k);
  e->window = (int)SHOAL_MIN(e->all, (uint64_t)WINDOW); /* buffers need not be larger than the vector */
  uint64_t bytes[SHOAL_LINK_COUNT];
  shoal_exchange_bytes(g, e->n, e->wire, bytes);
  for (int i = 0; i < SHOAL_LINK_COUNT; i++) e->bytes += bytes[i];
}

shoal_status shoal_exchange_create_sum(shoal_group *g, const char *name, size_t n, shoal_wire wire,
                                       shoal_exchange **out)
{
  static const shoal_flight_ops ring_ops = { ring_advance, ring_describe, ring_give_up };
  shoal_exchange *e;
  SHOAL_TRY(compare_plan(g, name, n, wire));
  shoal_status st = SHOAL_ALLOC(1, &e);
  if (st == SHOAL_OK) {
    e->f = (shoal_flight){ .ops = &ring_ops, .g = g };
    e->plan = g->plans;
    e->n = n;
    e->wire = wire;
    e->name = shoal_strdup_printf("exchange \"%s\"", name);
    e->f.name = e->name;
    plan_ring(e);
    st = make_buffers(e);
  } else {
    e = NULL;
  }
  g->plans++;
  st = shoal_group_agree(g, st);
  if (st != SHOAL_OK)
    shoal_exchange_destroy(e);
  else
    *out = e;
  return st;
}

/* Asked once per recorder: looking a name up is not for the step. */
static void learn_trace(shoal_exchange *e)
{
  shoal_trace *trace = e->f.g->w->trace;
  if (trace && trace != e->trace) e->op = shoal_trace_op(trace, e->name);
  e->trace = trace;
}

shoal_status shoal_exchange_start(shoal_exchange *e, float *x)
{
  shoal_group *g = e->f.g;
  SHOAL_CHECK(!e->f.moving, SHOAL_ERR_ARG, "%s number %llu is still in flight: wait for it first", e->name,
              (unsigned long long)e->f.number);
  SHOAL_CHECK(e->f.status == SHOAL_OK, SHOAL_ERR_COMM, "%s failed before and cannot be started again", e->name);
  e->f.number++;
  if (g->size == 1) return SHOAL_OK;
  e->f.tag = shoal_group_plan_tag(g, e->plan, ++g->starts + STAMP_STRIDE * e->stamp);
  e->x = x;
  e->out.posted = e->out.finished = cursor_start(e, g->rank - 1);
  e->in.posted = e->in.finished = cursor_start(e, g->rank - 2);
  learn_trace(e);
  return shoal_flight_start(&e->f);
}

void shoal_exchange_stamp(shoal_exchange *e, uint64_t stamp)
{
  e->stamp = stamp;
}

bool shoal_exchange_done(const shoal_exchange *e)
{
  return !e->f.moving;
}

shoal_status shoal_exchange_wait(shoal_exchange *e)
{
  if (!e->f.moving) return e->f.status;
  uint64_t t0 = shoal_now_ns();
  shoal_status st = shoal_flight_wait(&e->f);
  record(e, SHOAL_TRACE_WAIT, t0, 0);
  return st;
}

void shoal_exchange_destroy(shoal_exchange *e)
{
  if (!e) return;
  shoal_group *g = e->f.g;
  shoal_flight_end(&e->f, SHOAL_ERR_COMM);
  if (g->size > 1) g->w->transport->reserve(g->w, -2 * e->window);
  /* After an error the library may still read and write these; the run is about to end, so they are left to it. */
  if (e->f.status == SHOAL_OK) {
    free(e->in.buffer);
    free(e->out.buffer);
  }
  free(e->name);
  free(e);
}

/* 2n elements less the own chunk (sent once, in the all-gather) and the right neighbour's (once, in reduce-scatter). */
void shoal_exchange_bytes(const shoal_group *g, size_t n, shoal_wire wire, uint64_t out[SHOAL_LINK_COUNT])
{
  int p = g->size, right = (g->rank + 1) % p;
  memset(out, 0, SHOAL_LINK_COUNT * sizeof *out);
  if (p == 1) return;
  size_t elements = 2 * n - chunk_size(n, p, g->rank) - chunk_size(n, p, right);
  out[shoal_group_class(g, right)] = elements * shoal_wire_bytes(wire);
}
