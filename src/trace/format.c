/* The compound types of the file, once as stored (little-endian) and once as in memory, from one table each, so that
 * the two and docs/trace-format.md agree.  Stored offsets are those of the C struct on a 64-bit machine. */
#include "base/mem.h"
#include "trace/trace_impl.h"

typedef enum { U8, I32, U32, U64, F64, U64_PER_LINK, TEXT64 } member_type;
typedef struct {
  const char *name;
  size_t offset;
  member_type type;
} member;

#define M(name, type)                                                                                                  \
  {                                                                                                                    \
#name, offsetof(shoal_trace_record, name), type                                                                    \
  }
static const member record_members[] = { M(t0_ns, U64), M(t1_ns, U64), M(step, U64),  M(op, U32), M(kind, U8),
                                         M(link, U8),   M(peer, I32),  M(bytes, U64), M(seq, U64) };
#undef M
#define M(name, type)                                                                                                  \
  {                                                                                                                    \
#name, offsetof(shoal_trace_attempt, name), type                                                                   \
  }
static const member attempt_members[] = {
  M(attempt, I32),
  M(size, I32),
  M(node, I32),
  M(local_rank, I32),
  M(first_record, U64),
  M(started_ns, U64),
  M(opened_ns, U64),
  M(flushed_ns, U64),
  M(overhead_ns, U64),
  M(spans, U64),
  M(voluntary_switches, U64),
  M(involuntary_switches, U64),
  M(peak_bytes, U64),
  M(clock_offset_ns, F64),
  M(clock_drift, F64),
  M(clock_bound_ns, F64),
  M(payload, U64_PER_LINK),
  M(wire, U64_PER_LINK),
  M(messages, U64_PER_LINK),
  M(level, U8),
  M(closed, U8),
  M(clock_readings, U8),
  M(contended, U8),
  M(host, TEXT64),
};
#undef M

_Static_assert(sizeof(shoal_trace_record) == 56, "the format fixes 56 bytes");
_Static_assert(sizeof(shoal_trace_attempt) == 280, "the format fixes 280 bytes");

static hid_t scalar_type(member_type type, bool stored)
{
  switch (type) {
  case U8:
    return stored ? H5T_STD_U8LE : H5T_NATIVE_UINT8;
  case I32:
    return stored ? H5T_STD_I32LE : H5T_NATIVE_INT32;
  case U32:
    return stored ? H5T_STD_U32LE : H5T_NATIVE_UINT32;
  case F64:
    return stored ? H5T_IEEE_F64LE : H5T_NATIVE_DOUBLE;
  default:
    return stored ? H5T_STD_U64LE : H5T_NATIVE_UINT64;
  }
}

/* A type of its own for every member, so that all can be closed alike. */
static hid_t member_h5_type(member_type type, bool stored)
{
  const hsize_t links = SHOAL_LINK_COUNT;
  if (type == U64_PER_LINK) return H5Tarray_create2(scalar_type(U64, stored), 1, &links);
  if (type != TEXT64) return H5Tcopy(scalar_type(type, stored));
  hid_t text = H5Tcopy(H5T_C_S1);
  if (text >= 0) {
    H5Tset_size(text, 64);
    H5Tset_cset(text, H5T_CSET_UTF8);
  }
  return text;
}

static hid_t compound(size_t size, const member *members, size_t n, bool stored)
{
  shoal_h5_init();
  hid_t whole = H5Tcreate(H5T_COMPOUND, size);
  for (size_t i = 0; whole >= 0 && i < n; i++) {
    hid_t part = member_h5_type(members[i].type, stored);
    herr_t ok = part < 0 ? -1 : H5Tinsert(whole, members[i].name, members[i].offset, part);
    shoal_h5_close(part);
    if (ok >= 0) continue;
    shoal_h5_close(whole);
    whole = H5I_INVALID_HID;
  }
  return whole;
}

hid_t shoal_trace_record_type(bool stored)
{
  return compound(sizeof(shoal_trace_record), record_members, SHOAL_COUNT(record_members), stored);
}

hid_t shoal_trace_attempt_type(bool stored)
{
  return compound(sizeof(shoal_trace_attempt), attempt_members, SHOAL_COUNT(attempt_members), stored);
}

hid_t shoal_trace_text_type(void)
{
  shoal_h5_init();
  hid_t text = H5Tcopy(H5T_C_S1);
  if (text < 0) return text;
  H5Tset_size(text, H5T_VARIABLE);
  H5Tset_cset(text, H5T_CSET_UTF8);
  return text;
}
