/* Activations from the previous stage and to the next: the only messages of a pipeline without backward messages.
 *
 *     stage 0:  f0 g0  f1 g1  f2 g2          f: forward of a minibatch, g: head, backward, update
 *                 \       \       \          a message is sent between them: header, activations, labels
 *     stage 1:     f0 g0   f1 g1   f2 ...
 *
 * Lockstep.  A receiver has depth + 1 slots, each with a receive posted for its next minibatch, and works in place in
 * the slot; a sender has one buffer.  So a stage waits in two places only: for its input, and for the send buffer, when
 * the receiver's slots are full.  Every minibatch arrives once and in order, independent of timing; the calendar gives
 * its number of samples in advance, and after the run's last step no message is in flight.
 *
 * Replay.  Receives are posted in all free memory; messages that arrived are added to the replay buffer between steps
 * and replace the oldest entry.  A sender whose buffers are busy skips the minibatch.  All messages have the length of
 * a full batch, because a receiver cannot know which one comes next.
 *
 * Messages on one boundary cycle through several tags, so that pieces of two messages never mix. */
#include "base/clock.h"
#include "base/mem.h"
#include "method/local/local.h"
#include <stdlib.h>
#include <string.h>

enum { OUT_BUFFERS = 2 }; /* replay; in lockstep there is one */

typedef struct {
  shoal_memory memory; /* pinned: header, activations, labels */
  char *data;          /* there */
  shoal_message *message;
  uint64_t started_ns; /* 0: its transfer has been recorded */
  uint64_t number;     /* of the minibatch: the step; replay: how many were sent before */
  size_t bytes;
} parcel;

struct shoal_local_feed {
  shoal_world *world;
  shoal_backend *backend;
  shoal_group *g;
  shoal_trace *trace;
  uint32_t op, op_room;
  int ring; /* tags of a boundary, used cyclically: as many as receives may be posted */
  /* from the previous stage */
  int from;      /* -1: this is the first stage */
  size_t labels; /* of a sample */
  size_t in_elements;
  parcel *in;        /* [n_in] */
  int n_in, working; /* working: the slot in use; replay: the memory of the entry used last, or -1 */
  bool posted;
  shoal_local_calendar calendar;
  shoal_local_date ahead; /* of the next receive to post */
  int share_rank, share_size;
  /* to the next stage */
  int to; /* -1: this is the last stage */
  size_t out_elements;
  parcel out[OUT_BUFFERS];
  int n_out;
  uint64_t sent;
  /* replay */
  bool replaying;
  shoal_local_replay buffer;
  int *entry; /* [buffer.size] which memory an entry is in; -1: none */
  int *queue; /* [n_in] memories with receives posted, in order */
  int queued;
  uint64_t received, turned, left_out;
  double ages, hang_s;
  size_t max_samples;
};

/* ---- opening ---- */

static shoal_status open_parcel(shoal_local_feed *f, const char *name, size_t elements, parcel *p)
{
  size_t room = shoal_local_message_bytes(f->max_samples, elements, f->labels);
  SHOAL_TRY(f->backend->ops->alloc(f->backend, SHOAL_MEMORY_PINNED, room, &p->memory));
  p->data = p->memory.at;
  return shoal_message_create(f->g, name, &p->message);
}

static void close_parcel(shoal_local_feed *f, parcel *p)
{
  shoal_message_destroy(p->message);
  f->backend->ops->release(f->backend, &p->memory);
}

static shoal_status open_in(shoal_local_feed *f, int depth, int replay, int max_uses)
{
  f->n_in = replay ? replay + depth + 1 : depth + 1;
  SHOAL_TRY(SHOAL_ALLOC((size_t)f->n_in, &f->in));
  for (int i = 0; i < f->n_in; i++) SHOAL_TRY(open_parcel(f, "activations in", f->in_elements, &f->in[i]));
  if (!replay) return SHOAL_OK;
  SHOAL_TRY(shoal_local_replay_init(replay, max_uses, &f->buffer));
  SHOAL_TRY(SHOAL_ALLOC((size_t)replay, &f->entry));
  for (int i = 0; i < replay; i++) f->entry[i] = -1;
  return SHOAL_ALLOC((size_t)f->n_in, &f->queue);
}

static shoal_status open_all(shoal_local_feed *f, int depth, int replay, int max_uses)
{
  if (f->from >= 0) SHOAL_TRY(open_in(f, depth, replay, max_uses));
  f->n_out = f->to < 0 ? 0 : replay ? OUT_BUFFERS : 1;
  for (int i = 0; i < f->n_out; i++) SHOAL_TRY(open_parcel(f, "activations out", f->out_elements, &f->out[i]));
  return SHOAL_OK;
}

static size_t elements_behind(const shoal_local_parts *p, int stage)
{
  return p->part[p->stage_first[stage + 1] - 1].elements;
}

shoal_status shoal_local_feed_create(shoal_run *r, const shoal_local *s, int depth, int replay, int max_uses,
                                     shoal_local_feed **out)
{
  const shoal_local_grid *g = &s->parts->grid;
  shoal_local_feed *f;
  SHOAL_TRY(SHOAL_ALLOC(1, &f));
  *f = (shoal_local_feed){
    .world = r->world,
    .backend = r->backend,
    .g = r->all,
    .ring = depth + 1,
    .trace = r->trace,
    .hang_s = shoal_config_period(r->config, "comm.hang").value,
    .op = shoal_trace_op(r->trace, "activations"),
    .op_room = shoal_trace_op(r->trace, "room for activations"),
    .from = s->stage > 0 ? shoal_local_rank(g, s->stage - 1, s->replica) : -1,
    .to = s->stage + 1 < g->stages ? shoal_local_rank(g, s->stage + 1, s->replica) : -1,
    .max_samples = (size_t)s->max_samples,
    .share_rank = r->share_rank,
    .share_size = r->share_size,
    .working = -1,
    .replaying = replay > 0,
    .calendar = { .samples = r->epoch_samples,
                  .batch = r->global_batch,
                  .pads = r->pads,
                  .epochs = (uint64_t)r->epochs,
                  .steps = (uint64_t)shoal_config_int(r->config, "run.steps") },
  };
  f->labels = (size_t)shoal_model_labels(r->model);
  if (f->from >= 0) f->in_elements = elements_behind(s->parts, s->stage - 1);
  if (f->to >= 0) f->out_elements = elements_behind(s->parts, s->stage);
  shoal_status st = open_all(f, depth, replay, max_uses);
  if (st == SHOAL_OK)
    *out = f;
  else
    shoal_local_feed_destroy(f);
  return st;
}

void shoal_local_feed_destroy(shoal_local_feed *f)
{
  if (!f) return;
  for (int i = 0; f->in && i < f->n_in; i++) close_parcel(f, &f->in[i]);
  for (int i = 0; i < OUT_BUFFERS; i++) close_parcel(f, &f->out[i]);
  shoal_local_replay_fini(&f->buffer);
  free(f->in);
  free(f->entry);
  free(f->queue);
  free(f);
}

/* ---- receiving ---- */

static void unpack(const shoal_local_feed *f, const parcel *p, shoal_local_batch *out)
{
  memcpy(&out->head, p->data, sizeof out->head);
  out->x = (const float *)(p->data + sizeof out->head);
  out->y = out->x + (size_t)out->head.samples * f->in_elements;
}

/* Lockstep: posts the receive of the next minibatch into the next slot. */
static shoal_status post_next(shoal_local_feed *f)
{
  uint64_t total = shoal_local_samples(&f->calendar, &f->ahead), first, own;
  if (total == 0) return SHOAL_OK;
  shoal_share_of(total, f->share_rank, f->share_size, &first, &own);
  int slot = (int)(f->ahead.step % (uint64_t)f->n_in);
  f->in[slot].bytes = shoal_local_message_bytes(own, f->in_elements, f->labels);
  shoal_local_advance(&f->calendar, &f->ahead);
  return shoal_message_recv(f->in[slot].message, f->in[slot].data, f->in[slot].bytes, f->from, slot);
}

static shoal_status post_first(shoal_local_feed *f, const shoal_run *r)
{
  f->ahead = (shoal_local_date){ .epoch = r->epoch, .position = r->position, .step = r->step };
  for (int i = 0; i < f->n_in; i++) SHOAL_TRY(post_next(f));
  return SHOAL_OK;
}

static shoal_trace_exchange exchange_with(const shoal_local_feed *f, shoal_trace_role role, int peer, const parcel *p)
{
  return (shoal_trace_exchange){ .op = f->op,
                                 .group = shoal_group_trace_id(f->g),
                                 .role = role,
                                 .link = shoal_group_link(f->g, peer),
                                 .peer = peer,
                                 .bytes = role == SHOAL_TRACE_ROLE_SEND ? p->bytes : 0,
                                 .seq = p->number };
}

static shoal_status wait_activations(shoal_local_feed *f, parcel *p)
{
  shoal_trace_exchange x = exchange_with(f, SHOAL_TRACE_ROLE_RECEIVE, f->from, p);
  uint64_t t0 = shoal_now_ns();
  bool done = shoal_message_done(p->message);
  SHOAL_TRY(shoal_message_wait(p->message));
  shoal_trace_transfer(f->trace, SHOAL_TRACE_WAIT, &x, t0, done ? t0 : shoal_now_ns());
  return SHOAL_OK;
}

static shoal_status take_in_step(shoal_local_feed *f, const shoal_run *r, shoal_local_batch *out)
{
  if (!f->posted) SHOAL_TRY(post_first(f, r));
  f->posted = true;
  f->working = (int)(r->step % (uint64_t)f->n_in);
  f->in[f->working].number = r->step;
  SHOAL_TRY(wait_activations(f, &f->in[f->working]));
  unpack(f, &f->in[f->working], out);
  SHOAL_CHECK(out->head.step == r->step && out->head.elements == f->in_elements, SHOAL_ERR_INTERNAL,
              "step %llu: the stage before sent minibatch %llu of %u elements", (unsigned long long)r->step,
              (unsigned long long)out->head.step, out->head.elements);
  return SHOAL_OK;
}

/* ---- receiving with replay ---- */

static bool is_free(const shoal_local_feed *f, int memory)
{
  for (int i = 0; i < f->buffer.size; i++)
    if (f->entry[i] == memory) return false;
  for (int i = 0; i < f->queued; i++)
    if (f->queue[i] == memory) return false;
  return true;
}

/* Posts receives in all memory without an entry; the one in use is an entry. */
static shoal_status post_free(shoal_local_feed *f)
{
  size_t bytes = shoal_local_message_bytes(f->max_samples, f->in_elements, f->labels);
  for (int m = 0; m < f->n_in && f->queued < f->ring; m++) {
    if (!is_free(f, m)) continue;
    int tag = (int)((f->received + (uint64_t)f->queued) % (uint64_t)f->ring);
    f->queue[f->queued++] = m;
    SHOAL_TRY(shoal_message_recv(f->in[m].message, f->in[m].data, bytes, f->from, tag));
  }
  return SHOAL_OK;
}

static void enter_first(shoal_local_feed *f)
{
  f->entry[shoal_local_replay_next(&f->buffer)] = f->queue[0];
  shoal_local_replay_add(&f->buffer);
  memmove(f->queue, f->queue + 1, (size_t)--f->queued * sizeof *f->queue);
  f->received++;
}

static shoal_status enter_arrived(shoal_local_feed *f)
{
  SHOAL_TRY(shoal_world_progress(f->world));
  while (f->queued > 0 && shoal_message_done(f->in[f->queue[0]].message)) {
    SHOAL_TRY(shoal_message_wait(f->in[f->queue[0]].message)); /* for its status */
    enter_first(f);
    SHOAL_TRY(post_free(f));
  }
  return SHOAL_OK;
}

/* Nothing to train on: waits for a message, unless a meeting was called, where the sender may already be. */
static shoal_status wait_entry(shoal_local_feed *f, const shoal_run *r, int *slot, uint64_t *age)
{
  uint64_t t0 = shoal_now_ns();
  while (*slot < 0 && shoal_rendezvous_requested(r->meet.rendezvous) == 0) {
    SHOAL_CHECK(shoal_seconds_since(t0) < f->hang_s, SHOAL_ERR_HANG,
                "no activations have come from rank %d for %.3g s in training step %llu", f->from, f->hang_s,
                (unsigned long long)r->step);
    SHOAL_TRY(enter_arrived(f));
    *slot = shoal_local_replay_select(&f->buffer, age);
  }
  shoal_trace_span(f->trace, SHOAL_TRACE_WAIT, f->op, t0, shoal_now_ns());
  return SHOAL_OK;
}

static shoal_status take_replayed(shoal_local_feed *f, const shoal_run *r, shoal_local_batch *out)
{
  if (!f->posted) SHOAL_TRY(post_free(f));
  f->posted = true;
  SHOAL_TRY(enter_arrived(f));
  int slot = shoal_local_replay_select(&f->buffer, &out->age);
  if (slot < 0) SHOAL_TRY(wait_entry(f, r, &slot, &out->age));
  *out = (shoal_local_batch){ .age = out->age };
  if (slot < 0) return SHOAL_OK;
  f->working = f->entry[slot];
  f->turned++;
  f->ages += (double)out->age;
  unpack(f, &f->in[f->working], out);
  return SHOAL_OK;
}

shoal_status shoal_local_feed_take(shoal_local_feed *f, shoal_run *r, shoal_local_batch *out)
{
  SHOAL_TRY(f->backend->ops->settle(f->backend)); /* an entry may have been read by the step before */
  return f->replaying ? take_replayed(f, r, out) : take_in_step(f, r, out);
}

shoal_status shoal_local_feed_release(shoal_local_feed *f, shoal_run *r)
{
  if (f->replaying || f->from < 0) return SHOAL_OK;
  SHOAL_TRY(f->backend->ops->settle(f->backend)); /* what comes next takes the place of what this step reads */
  return post_next(f);
}

/* ---- sending ---- */

static void record_send(shoal_local_feed *f, parcel *p)
{
  if (!p->started_ns) return;
  shoal_trace_exchange x = exchange_with(f, SHOAL_TRACE_ROLE_SEND, f->to, p);
  shoal_trace_transfer(f->trace, SHOAL_TRACE_EXCHANGE, &x, p->started_ns, shoal_now_ns());
  p->started_ns = 0;
}

/* The memory of an earlier minibatch is free once that has been sent: a matter of the network, not of another rank's work. */
static shoal_status wait_room(shoal_local_feed *f, parcel *p)
{
  if (shoal_message_done(p->message)) return shoal_message_wait(p->message);
  uint64_t t0 = shoal_now_ns();
  SHOAL_TRY(shoal_message_wait(p->message));
  shoal_trace_span(f->trace, SHOAL_TRACE_WAIT, f->op_room, t0, shoal_now_ns());
  return SHOAL_OK;
}

static parcel *next_out(shoal_local_feed *f)
{
  return &f->out[f->sent % (uint64_t)f->n_out];
}

shoal_status shoal_local_feed_room(shoal_local_feed *f, shoal_run *r, float **activations)
{
  parcel *p = next_out(f);
  *activations = NULL;
  if (f->replaying && !shoal_message_done(p->message)) {
    SHOAL_TRY(shoal_world_progress(r->world));
    f->left_out += !shoal_message_done(p->message);
    if (!shoal_message_done(p->message)) return SHOAL_OK;
  }
  SHOAL_TRY(wait_room(f, p));
  record_send(f, p);
  *activations = (float *)(p->data + sizeof(shoal_local_header));
  return SHOAL_OK;
}

shoal_status shoal_local_feed_send(shoal_local_feed *f, shoal_run *r, const shoal_local_batch *b)
{
  parcel *p = next_out(f);
  shoal_local_header head = b->head;
  size_t n = head.samples;
  head.elements = (uint32_t)f->out_elements;
  SHOAL_TRY(f->backend->ops->settle(f->backend));
  memcpy(p->data, &head, sizeof head);
  if (n) memcpy(p->data + sizeof head + n * f->out_elements * sizeof(float), b->y, n * f->labels * sizeof(int32_t));
  p->bytes = shoal_local_message_bytes(f->replaying ? f->max_samples : n, f->out_elements, f->labels);
  p->started_ns = shoal_now_ns();
  p->number = f->replaying ? f->sent : r->step;
  r->sent[shoal_group_link(f->g, f->to)] += p->bytes;
  int tag = (int)(p->number % (uint64_t)f->ring);
  f->sent++;
  return shoal_message_send(p->message, p->data, p->bytes, f->to, tag);
}

shoal_status shoal_local_feed_drain(shoal_local_feed *f)
{
  for (int i = 0; i < f->n_out; i++) {
    SHOAL_TRY(wait_room(f, &f->out[i]));
    record_send(f, &f->out[i]);
  }
  return SHOAL_OK;
}

/* ---- meeting ---- */

shoal_status shoal_local_feed_settle(shoal_local_feed *f, shoal_run *r)
{
  size_t size = (size_t)shoal_group_size(r->control);
  uint64_t *sent;
  SHOAL_TRY(SHOAL_ALLOC(size, &sent));
  shoal_status st = shoal_group_allgather(r->control, &f->sent, sizeof f->sent, sent);
  while (st == SHOAL_OK && f->from >= 0 && f->received < sent[f->from]) {
    if (!f->posted) st = post_free(f);
    f->posted = true;
    if (st == SHOAL_OK) st = shoal_message_wait(f->in[f->queue[0]].message);
    if (st == SHOAL_OK) st = enter_arrived(f);
  }
  free(sent);
  return st == SHOAL_OK ? shoal_local_feed_drain(f) : st;
}

void shoal_local_feed_tally(const shoal_local_feed *f, double out[SHOAL_LOCAL_TALLY])
{
  const double tally[] = { (double)f->turned, (double)f->received, (double)f->buffer.unused, (double)f->left_out,
                           f->ages };
  memcpy(out, tally, sizeof tally);
}
