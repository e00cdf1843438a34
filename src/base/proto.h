/* Protobuf's wire format: the only writer of it in Shoal, for Perfetto's traces and ONNX's networks, and the only reader.
 *
 * A message is a sequence of fields.  A field is its number and type (0 a number in groups of seven bits, 1 eight bytes,
 * 2 a length and bytes, 5 four bytes).  A message within another one has its length in front, so it is built in a buffer of
 * its own first, or its length is computed. */
#ifndef SHOAL_BASE_PROTO_H
#define SHOAL_BASE_PROTO_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Initialise as { 0 } and free with shoal_proto_free; begin again with n = 0.  Running out of memory aborts the program. */
typedef struct {
  uint8_t *bytes;
  size_t n, cap;
} shoal_proto;
void shoal_proto_free(shoal_proto *p);

void shoal_proto_number(shoal_proto *p, unsigned field, uint64_t x);
void shoal_proto_fixed64(shoal_proto *p, unsigned field, uint64_t x);
void shoal_proto_float(shoal_proto *p, unsigned field, float x);
void shoal_proto_bytes(shoal_proto *p, unsigned field, const void *bytes, size_t n);
/** Text must be UTF-8: what is not is escaped. */
void shoal_proto_text(shoal_proto *p, unsigned field, const char *text);
void shoal_proto_message(shoal_proto *p, unsigned field, const shoal_proto *inner);
/** The fields of another message, behind those that are there. */
void shoal_proto_append(shoal_proto *p, const shoal_proto *more);
/** Number and length of a field of n bytes; they follow elsewhere. */
void shoal_proto_head(shoal_proto *p, unsigned field, uint64_t n);

/* Reading: a view of bytes that somebody else owns and that may hold anything.  Nothing beyond its end is read, and what is
 * read of it points into it.
 *
 *     shoal_proto_view in = { bytes, bytes + n, false };
 *     for (shoal_proto_field f; shoal_proto_next(&in, &f);) ...
 *     if (in.damaged) ... */
typedef struct {
  const uint8_t *at, *end;
  bool damaged; /* a number of more than 64 bits, a length beyond the end, a type that there is not */
} shoal_proto_view;
typedef struct {
  unsigned number, type;  /* type as above: 0, 1, 2 or 5 */
  uint64_t value;         /* of types 0, 1 and 5 */
  shoal_proto_view bytes; /* of type 2 */
} shoal_proto_field;
/** The next field; false at the end, or where the bytes make no sense: `damaged` is set then. */
bool shoal_proto_next(shoal_proto_view *in, shoal_proto_field *out);
/** A number in groups of seven bits, as packed lists have them; false as above. */
bool shoal_proto_take_number(shoal_proto_view *in, uint64_t *out);
/** n bytes as a number, the lowest first. */
uint64_t shoal_proto_little_endian(const uint8_t *bytes, size_t n);
#endif
