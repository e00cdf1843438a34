/* An export in the protobuf format of Perfetto: about a third of the JSON, and the one its viewer takes without a limit of size.
 *
 *     Trace           packet*                                  a file is one message, a sequence of packets
 *     TracePacket     track_descriptor | track_event | interned_data,   timestamp in ns
 *     TrackEvent      begin of a slice with name, category, flows and arguments; its end
 *
 * Numbers of the messages' fields are those of its .proto files, the stable interface of that program.  Each rank is a
 * sequence of packets, with names and categories as numbers, which are declared when the rank begins (interned data).  A message
 * within another one has its length in front, so it is built in a buffer first.
 *
 * Protobuf: a field is its number and type (0 a number in groups of seven bits, 1 eight bytes, 2 a length and bytes). */
#include "base/mem.h"
#include "base/str.h"
#include "report/trace_impl.h"
#include <stdlib.h>
#include <string.h>

enum { ROOM = 1024, TEXT = 256 };

/* A message under construction, empty with n = 0; what does not fit is left out (nothing here comes near). */
typedef struct {
  uint8_t bytes[ROOM];
  size_t n;
} message;

/* ---- fields ---- */

static void put_byte(message *m, uint8_t byte)
{
  if (m->n < ROOM) m->bytes[m->n++] = byte;
}

static void put_varint(message *m, uint64_t x)
{
  for (; x >= 0x80; x >>= 7) put_byte(m, (uint8_t)(x | 0x80));
  put_byte(m, (uint8_t)x);
}

static void put_number(message *m, unsigned field, uint64_t x)
{
  put_varint(m, (uint64_t)field << 3);
  put_varint(m, x);
}

static void put_fixed64(message *m, unsigned field, uint64_t x)
{
  put_varint(m, (uint64_t)field << 3 | 1);
  for (int i = 0; i < 8; i++) put_byte(m, (uint8_t)(x >> 8 * i));
}

static void put_bytes(message *m, unsigned field, const void *bytes, size_t n)
{
  put_varint(m, (uint64_t)field << 3 | 2);
  put_varint(m, n);
  if (m->n + n > ROOM) return;
  memcpy(m->bytes + m->n, bytes, n);
  m->n += n;
}

/* Text must be UTF-8: what is not is escaped. */
static void put_text(message *m, unsigned field, const char *text)
{
  char clean[TEXT];
  shoal_show(text, clean, sizeof clean);
  put_bytes(m, field, clean, strlen(clean));
}

static void put_message(message *m, unsigned field, const message *inner)
{
  put_bytes(m, field, inner->bytes, inner->n);
}

/* ---- packets ---- */

enum { /* TracePacket */
       TIMESTAMP = 8,
       SEQUENCE = 10,
       TRACK_EVENT = 11,
       INTERNED = 12,
       FLAGS = 13,
       TRACK_DESCRIPTOR = 60
};

static void write_packet(shoal_trace_sink *s, const message *packet)
{
  message head;
  head.n = 0;
  put_varint(&head, 1 << 3 | 2); /* Trace.packet */
  put_varint(&head, packet->n);
  fwrite(head.bytes, 1, head.n, s->out);
  fwrite(packet->bytes, 1, packet->n, s->out);
}

static uint64_t track_id(int rank, int track)
{
  return ((uint64_t)rank + 1) << 16 | (uint64_t)(track + 1);
}

static uint64_t process_id(int rank)
{
  return ((uint64_t)rank + 1) << 16;
}

static uint64_t sequence_of(int rank)
{
  return (uint64_t)rank + 1;
}

static void put_process(shoal_trace_sink *s, const shoal_trace_line *l, const char *name, const char *label,
                        size_t order)
{
  message process, track, packet;
  process.n = track.n = packet.n = 0;
  put_number(&process, 1, (uint64_t)l->rank + 1); /* pid: 0 is the idle process there */
  put_number(&process, 3, order);                 /* legacy_sort_index */
  put_text(&process, 6, name);
  put_text(&process, 8, label);
  put_number(&track, 1, process_id(l->rank));
  put_message(&track, 3, &process);
  put_number(&packet, SEQUENCE, sequence_of(l->rank));
  put_message(&packet, TRACK_DESCRIPTOR, &track);
  write_packet(s, &packet);
}

static void put_track(shoal_trace_sink *s, int rank, int track, const char *name)
{
  message descriptor, packet;
  descriptor.n = packet.n = 0;
  put_number(&descriptor, 1, track_id(rank, track));
  put_text(&descriptor, 2, name);
  put_number(&descriptor, 5, process_id(rank)); /* parent */
  put_number(&packet, SEQUENCE, sequence_of(rank));
  put_message(&packet, TRACK_DESCRIPTOR, &descriptor);
  write_packet(s, &packet);
}

/* ---- names ---- */

enum { /* InternedData */
       CATEGORIES = 1,
       NAMES = 2,
       ARGUMENTS = 3
};
enum { ARG_STEP = 1, ARG_LINK, ARG_PEER, ARG_BYTES, ARG_NUMBER, ARGS };

/* One name a packet, as there may be thousands.  The first clears those of the rank's last file. */
static void put_name(shoal_trace_sink *s, int rank, unsigned list, uint64_t number, const char *name, bool first)
{
  message entry, interned, packet;
  entry.n = interned.n = packet.n = 0;
  put_number(&entry, 1, number);
  put_text(&entry, 2, name);
  put_message(&interned, list, &entry);
  put_number(&packet, SEQUENCE, sequence_of(rank));
  put_number(&packet, FLAGS, first ? 1 | 2 : 2); /* incremental state cleared, needed */
  put_message(&packet, INTERNED, &interned);
  write_packet(s, &packet);
}

static void put_names(shoal_trace_sink *s, const shoal_trace_data *d)
{
  static const char *const args[ARGS] = {
    [ARG_STEP] = "step", [ARG_LINK] = "link", [ARG_PEER] = "peer", [ARG_BYTES] = "bytes", [ARG_NUMBER] = "number"
  };
  for (int k = 0; k < SHOAL_TRACE_KIND_COUNT; k++)
    put_name(s, d->info.rank, CATEGORIES, (uint64_t)k + 1, shoal_trace_kind_name((shoal_trace_kind)k), k == 0);
  for (uint64_t i = 1; i < ARGS; i++) put_name(s, d->info.rank, ARGUMENTS, i, args[i], false);
  for (size_t i = 0; i < d->ops; i++) put_name(s, d->info.rank, NAMES, i + 1, d->op_names[i], false);
}

/* ---- spans ---- */

enum { /* TrackEvent */
       CATEGORY = 3,
       ANNOTATION = 4,
       TYPE = 9,
       NAME = 10,
       TRACK = 11,
       FLOW = 47
};
enum { SLICE_BEGIN = 1, SLICE_END = 2 };

static void put_uint(message *event, uint64_t name, uint64_t value)
{
  message a;
  a.n = 0;
  put_number(&a, 1, name);
  put_number(&a, 3, value);
  put_message(event, ANNOTATION, &a);
}

static void put_int(message *event, uint64_t name, int64_t value)
{
  message a;
  a.n = 0;
  put_number(&a, 1, name);
  put_number(&a, 4, (uint64_t)value);
  put_message(event, ANNOTATION, &a);
}

static void put_link(message *event, uint8_t link)
{
  message a;
  a.n = 0;
  put_number(&a, 1, ARG_LINK);
  put_text(&a, 6, shoal_link_name((shoal_link)link));
  put_message(event, ANNOTATION, &a);
}

static void write_event(shoal_trace_sink *s, int rank, int64_t t, const message *event)
{
  message packet;
  packet.n = 0;
  put_number(&packet, TIMESTAMP, (uint64_t)t);
  put_number(&packet, SEQUENCE, sequence_of(rank));
  put_number(&packet, FLAGS, 2);
  put_message(&packet, TRACK_EVENT, event);
  write_packet(s, &packet);
}

static void put_begin(shoal_trace_sink *s, const shoal_trace_data *d, const shoal_trace_record *r, int track,
                      int64_t t0, int64_t t1, uint64_t flow)
{
  message event;
  event.n = 0;
  (void)t1;
  put_number(&event, TYPE, SLICE_BEGIN);
  put_number(&event, TRACK, track_id(d->info.rank, track));
  put_number(&event, CATEGORY, (uint64_t)r->kind + 1);
  put_number(&event, NAME, (uint64_t)r->op + 1);
  put_uint(&event, ARG_STEP, r->step);
  if (r->link != SHOAL_LINK_NONE) {
    put_link(&event, r->link);
    put_int(&event, ARG_PEER, r->peer);
    put_uint(&event, ARG_BYTES, r->bytes);
    put_uint(&event, ARG_NUMBER, r->seq);
  }
  if (flow) put_fixed64(&event, FLOW, flow);
  write_event(s, d->info.rank, t0, &event);
}

static void put_end(shoal_trace_sink *s, int rank, int track, int64_t t1)
{
  message event;
  event.n = 0;
  put_number(&event, TYPE, SLICE_END);
  put_number(&event, TRACK, track_id(rank, track));
  write_event(s, rank, t1, &event);
}

static void finish(shoal_trace_sink *s, const shoal_trace_table *t, int attempt, int64_t zero_unix_ns)
{
  (void)s, (void)t, (void)attempt, (void)zero_unix_ns;
}

static void release(shoal_trace_sink *s)
{
  free(s);
}

shoal_status shoal_trace_perfetto_open(FILE *out, shoal_trace_sink **sink)
{
  SHOAL_TRY(SHOAL_ALLOC(1, sink));
  **sink = (shoal_trace_sink){ put_process, put_names, put_track, put_begin, put_end, finish, release, out };
  return SHOAL_OK;
}
