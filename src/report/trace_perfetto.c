/* An export in the protobuf format of Perfetto: about a third of the JSON, and the one its viewer takes without a limit of size.
 *
 *     Trace           packet*                                  a file is one message, a sequence of packets
 *     TracePacket     track_descriptor | track_event | interned_data,   timestamp in ns
 *     TrackEvent      begin of a slice with name, category, flows and arguments; its end
 *
 * Numbers of the messages' fields are those of its .proto files, the stable interface of that program.  Each rank is a
 * sequence of packets, with names and categories as numbers, which are declared when the rank begins (interned data). */
#include "base/mem.h"
#include "base/proto.h"
#include "report/trace_impl.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  shoal_trace_sink sink;
  shoal_proto packet, outer, inner, note, head; /* under construction; their memory is kept from packet to packet */
} perfetto;

static shoal_proto *anew(shoal_proto *m)
{
  m->n = 0;
  return m;
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

static void write_packet(perfetto *p)
{
  shoal_proto_head(anew(&p->head), 1, p->packet.n); /* Trace.packet */
  fwrite(p->head.bytes, 1, p->head.n, p->sink.out);
  fwrite(p->packet.bytes, 1, p->packet.n, p->sink.out);
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
  perfetto *p = (perfetto *)s;
  shoal_proto *process = anew(&p->inner), *track = anew(&p->outer), *packet = anew(&p->packet);
  shoal_proto_number(process, 1, (uint64_t)l->rank + 1); /* pid: 0 is the idle process there */
  shoal_proto_number(process, 3, order);                 /* legacy_sort_index */
  shoal_proto_text(process, 6, name);
  shoal_proto_text(process, 8, label);
  shoal_proto_number(track, 1, process_id(l->rank));
  shoal_proto_message(track, 3, process);
  shoal_proto_number(packet, SEQUENCE, sequence_of(l->rank));
  shoal_proto_message(packet, TRACK_DESCRIPTOR, track);
  write_packet(p);
}

static void put_track(shoal_trace_sink *s, int rank, int track, const char *name)
{
  perfetto *p = (perfetto *)s;
  shoal_proto *descriptor = anew(&p->outer), *packet = anew(&p->packet);
  shoal_proto_number(descriptor, 1, track_id(rank, track));
  shoal_proto_text(descriptor, 2, name);
  shoal_proto_number(descriptor, 5, process_id(rank)); /* parent */
  shoal_proto_number(packet, SEQUENCE, sequence_of(rank));
  shoal_proto_message(packet, TRACK_DESCRIPTOR, descriptor);
  write_packet(p);
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
  perfetto *p = (perfetto *)s;
  shoal_proto *entry = anew(&p->inner), *interned = anew(&p->outer), *packet = anew(&p->packet);
  shoal_proto_number(entry, 1, number);
  shoal_proto_text(entry, 2, name);
  shoal_proto_message(interned, list, entry);
  shoal_proto_number(packet, SEQUENCE, sequence_of(rank));
  shoal_proto_number(packet, FLAGS, first ? 1 | 2 : 2); /* incremental state cleared, needed */
  shoal_proto_message(packet, INTERNED, interned);
  write_packet(p);
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

static void put_uint(perfetto *p, uint64_t name, uint64_t value)
{
  shoal_proto *a = anew(&p->note);
  shoal_proto_number(a, 1, name);
  shoal_proto_number(a, 3, value);
  shoal_proto_message(&p->outer, ANNOTATION, a);
}

static void put_int(perfetto *p, uint64_t name, int64_t value)
{
  shoal_proto *a = anew(&p->note);
  shoal_proto_number(a, 1, name);
  shoal_proto_number(a, 4, (uint64_t)value);
  shoal_proto_message(&p->outer, ANNOTATION, a);
}

static void put_link(perfetto *p, uint8_t link)
{
  shoal_proto *a = anew(&p->note);
  shoal_proto_number(a, 1, ARG_LINK);
  shoal_proto_text(a, 6, shoal_link_name((shoal_link)link));
  shoal_proto_message(&p->outer, ANNOTATION, a);
}

static void write_event(perfetto *p, int rank, int64_t t, const shoal_proto *event)
{
  shoal_proto *packet = anew(&p->packet);
  shoal_proto_number(packet, TIMESTAMP, (uint64_t)t);
  shoal_proto_number(packet, SEQUENCE, sequence_of(rank));
  shoal_proto_number(packet, FLAGS, 2);
  shoal_proto_message(packet, TRACK_EVENT, event);
  write_packet(p);
}

static void put_begin(shoal_trace_sink *s, const shoal_trace_data *d, const shoal_trace_record *r, int track,
                      int64_t t0, int64_t t1, uint64_t flow)
{
  perfetto *p = (perfetto *)s;
  shoal_proto *event = anew(&p->outer);
  (void)t1;
  shoal_proto_number(event, TYPE, SLICE_BEGIN);
  shoal_proto_number(event, TRACK, track_id(d->info.rank, track));
  shoal_proto_number(event, CATEGORY, (uint64_t)r->kind + 1);
  shoal_proto_number(event, NAME, (uint64_t)r->op + 1);
  put_uint(p, ARG_STEP, r->step);
  if (r->link != SHOAL_LINK_NONE) {
    put_link(p, r->link);
    put_int(p, ARG_PEER, r->peer);
    put_uint(p, ARG_BYTES, r->bytes);
    put_uint(p, ARG_NUMBER, r->seq);
  }
  if (flow) shoal_proto_fixed64(event, FLOW, flow);
  write_event(p, d->info.rank, t0, event);
}

static void put_end(shoal_trace_sink *s, int rank, int track, int64_t t1)
{
  perfetto *p = (perfetto *)s;
  shoal_proto *event = anew(&p->outer);
  shoal_proto_number(event, TYPE, SLICE_END);
  shoal_proto_number(event, TRACK, track_id(rank, track));
  write_event(p, rank, t1, event);
}

static void finish(shoal_trace_sink *s, const shoal_trace_table *t, int attempt, int64_t zero_unix_ns)
{
  (void)s, (void)t, (void)attempt, (void)zero_unix_ns;
}

static void release(shoal_trace_sink *s)
{
  perfetto *p = (perfetto *)s;
  shoal_proto *const all[] = { &p->packet, &p->outer, &p->inner, &p->note, &p->head };
  for (size_t i = 0; i < SHOAL_COUNT(all); i++) shoal_proto_free(all[i]);
  free(p);
}

shoal_status shoal_trace_perfetto_open(FILE *out, shoal_trace_sink **sink)
{
  perfetto *p;
  SHOAL_TRY(SHOAL_ALLOC(1, &p));
  p->sink = (shoal_trace_sink){ put_process, put_names, put_track, put_begin, put_end, finish, release, out };
  *sink = &p->sink;
  return SHOAL_OK;
}
