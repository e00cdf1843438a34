/* See proto.h. */
#include "base/proto.h"
#include "base/str.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void shoal_proto_free(shoal_proto *p)
{
  free(p->bytes);
  *p = (shoal_proto){ 0 };
}

static uint8_t *grow(shoal_proto *p, size_t n)
{
  if (p->cap - p->n < n) {
    size_t cap = p->cap ? 2 * p->cap : 256;
    while (cap - p->n < n) cap *= 2;
    uint8_t *more = realloc(p->bytes, cap);
    if (!more) {
      fprintf(stderr, "shoal: out of memory for a message of %zu bytes\n", cap);
      abort();
    }
    p->bytes = more;
    p->cap = cap;
  }
  p->n += n;
  return p->bytes + p->n - n;
}

static void varint(shoal_proto *p, uint64_t x)
{
  uint8_t *at = grow(p, 10);
  size_t n = 0;
  for (; x >= 0x80; x >>= 7) at[n++] = (uint8_t)(x | 0x80);
  at[n++] = (uint8_t)x;
  p->n -= 10 - n;
}

static void key(shoal_proto *p, unsigned field, unsigned type)
{
  varint(p, (uint64_t)field << 3 | type);
}

static void little_endian(shoal_proto *p, uint64_t x, int bytes)
{
  uint8_t *at = grow(p, (size_t)bytes);
  for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(x >> 8 * i);
}

void shoal_proto_number(shoal_proto *p, unsigned field, uint64_t x)
{
  key(p, field, 0);
  varint(p, x);
}

void shoal_proto_fixed64(shoal_proto *p, unsigned field, uint64_t x)
{
  key(p, field, 1);
  little_endian(p, x, 8);
}

void shoal_proto_float(shoal_proto *p, unsigned field, float x)
{
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  key(p, field, 5);
  little_endian(p, bits, 4);
}

void shoal_proto_head(shoal_proto *p, unsigned field, uint64_t n)
{
  key(p, field, 2);
  varint(p, n);
}

void shoal_proto_bytes(shoal_proto *p, unsigned field, const void *bytes, size_t n)
{
  shoal_proto_head(p, field, n);
  if (n > 0) memcpy(grow(p, n), bytes, n);
}

void shoal_proto_text(shoal_proto *p, unsigned field, const char *text)
{
  char few[256];
  size_t n = shoal_escape(text, true, few, sizeof few);
  if (n < sizeof few) {
    shoal_proto_bytes(p, field, few, n);
    return;
  }
  shoal_proto_head(p, field, n);
  shoal_escape(text, true, (char *)grow(p, n + 1), n + 1);
  p->n--;
}

void shoal_proto_append(shoal_proto *p, const shoal_proto *more)
{
  if (more->n > 0) memcpy(grow(p, more->n), more->bytes, more->n);
}

void shoal_proto_message(shoal_proto *p, unsigned field, const shoal_proto *inner)
{
  shoal_proto_bytes(p, field, inner->bytes, inner->n);
}

/* ---- reading ---- */

bool shoal_proto_take_number(shoal_proto_view *in, uint64_t *out)
{
  uint64_t x = 0;
  for (unsigned shift = 0; in->at < in->end && shift < 70; shift += 7) {
    uint8_t byte = *in->at++;
    if (shift == 63 && byte > 1) break;
    x |= (uint64_t)(byte & 0x7f) << shift;
    if (byte & 0x80) continue;
    *out = x;
    return true;
  }
  in->damaged = true;
  return false;
}

uint64_t shoal_proto_little_endian(const uint8_t *bytes, size_t n)
{
  uint64_t x = 0;
  for (size_t i = 0; i < n; i++) x |= (uint64_t)bytes[i] << 8 * i;
  return x;
}

static bool take_bytes(shoal_proto_view *in, uint64_t n, shoal_proto_view *out)
{
  if (n > (uint64_t)(in->end - in->at)) {
    in->damaged = true;
    return false;
  }
  *out = (shoal_proto_view){ in->at, in->at + n, false };
  in->at += n;
  return true;
}

bool shoal_proto_next(shoal_proto_view *in, shoal_proto_field *out)
{
  uint64_t head, n;
  if (in->damaged || in->at == in->end || !shoal_proto_take_number(in, &head)) return false;
  if (head >> 3 > 0x1fffffff) {
    in->damaged = true;
    return false;
  }
  *out = (shoal_proto_field){ .number = (unsigned)(head >> 3), .type = (unsigned)(head & 7) };
  switch (out->type) {
  case 0:
    return shoal_proto_take_number(in, &out->value);
  case 2:
    return shoal_proto_take_number(in, &n) && take_bytes(in, n, &out->bytes);
  case 1:
  case 5:
    n = out->type == 1 ? 8 : 4;
    if (!take_bytes(in, n, &out->bytes)) return false;
    out->value = shoal_proto_little_endian(out->bytes.at, (size_t)n);
    return true;
  default:
    in->damaged = true;
    return false;
  }
}
