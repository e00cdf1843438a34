/* The structs of the file, member by member, so that recorder, reader and docs/trace-format.md agree.  Offsets in the
 * file are those of the C struct on a 64-bit machine. */
#include "trace/format.h"
#include "base/mem.h"
#include <stddef.h>

#define M(name, ...)                                                                                                   \
  {                                                                                                                    \
#name, offsetof(shoal_trace_record, name), __VA_ARGS__                                                             \
  }
static const shoal_h5_member record_members[] = {
  M(t0_ns, SHOAL_U64),
  M(t1_ns, SHOAL_U64),
  M(step, SHOAL_U64),
  M(op, SHOAL_U32),
  M(kind, SHOAL_U8),
  M(link, SHOAL_U8),
  M(role, SHOAL_U8, .optional = true),
  M(peer, SHOAL_I32),
  M(group, SHOAL_U32, .optional = true),
  M(bytes, SHOAL_U64),
  M(seq, SHOAL_U64),
};
#undef M
#define M(name, ...)                                                                                                   \
  {                                                                                                                    \
#name, offsetof(shoal_trace_attempt, name), __VA_ARGS__                                                            \
  }
static const shoal_h5_member attempt_members[] = {
  M(attempt, SHOAL_I32),
  M(size, SHOAL_I32),
  M(node, SHOAL_I32),
  M(local_rank, SHOAL_I32),
  M(first_record, SHOAL_U64),
  M(started_ns, SHOAL_U64),
  M(opened_ns, SHOAL_U64),
  M(flushed_ns, SHOAL_U64),
  M(overhead_ns, SHOAL_U64),
  M(spans, SHOAL_U64),
  M(voluntary_switches, SHOAL_U64),
  M(involuntary_switches, SHOAL_U64),
  M(peak_bytes, SHOAL_U64, .optional = true),
  M(dropped, SHOAL_U64, .optional = true),
  M(overwritten, SHOAL_U64, .optional = true),
  M(steps, SHOAL_U64, .optional = true),
  M(samples, SHOAL_U64, .optional = true),
  M(formula, SHOAL_U64, .count = SHOAL_LINK_COUNT, .optional = true),
  M(clock_offset_ns, SHOAL_F64),
  M(clock_drift, SHOAL_F64),
  M(clock_bound_ns, SHOAL_F64),
  M(payload, SHOAL_U64, .count = SHOAL_LINK_COUNT),
  M(wire, SHOAL_U64, .count = SHOAL_LINK_COUNT),
  M(messages, SHOAL_U64, .count = SHOAL_LINK_COUNT),
  M(level, SHOAL_U8),
  M(closed, SHOAL_U8),
  M(clock_readings, SHOAL_U8, .optional = true),
  M(contended, SHOAL_U8, .optional = true),
  M(batch, SHOAL_I32, .optional = true),
  M(host, SHOAL_U8, .text_bytes = sizeof((shoal_trace_attempt){ 0 }.host)),
};
#undef M
#define M(type, name, ...)                                                                                             \
  {                                                                                                                    \
#name, offsetof(type, name), __VA_ARGS__                                                                           \
  }
static const shoal_h5_member group_members[] = {
  M(shoal_trace_group_row, id, SHOAL_U32),
  M(shoal_trace_group_row, size, SHOAL_I32),
  M(shoal_trace_group_row, name, SHOAL_U8, .text_bytes = SHOAL_TRACE_GROUP_NAME),
};
static const shoal_h5_member energy_members[] = {
  M(shoal_trace_energy, domain, SHOAL_U8, .text_bytes = SHOAL_TRACE_DOMAIN_NAME),
  M(shoal_trace_energy, uj, SHOAL_U64),
  M(shoal_trace_energy, t0_ns, SHOAL_U64),
  M(shoal_trace_energy, t1_ns, SHOAL_U64),
};
#undef M

_Static_assert(sizeof(shoal_trace_record) == 56, "the format fixes 56 bytes");
_Static_assert(sizeof(shoal_trace_attempt) == 344, "the format fixes 344 bytes");

const shoal_h5_row shoal_trace_records = {
  .members = &(const shoal_h5_struct){ sizeof(shoal_trace_record), SHOAL_COUNT(record_members), record_members }
};
const shoal_h5_row shoal_trace_attempts = {
  .members = &(const shoal_h5_struct){ sizeof(shoal_trace_attempt), SHOAL_COUNT(attempt_members), attempt_members }
};
const shoal_h5_row shoal_trace_groups = {
  .members = &(const shoal_h5_struct){ sizeof(shoal_trace_group_row), SHOAL_COUNT(group_members), group_members }
};
const shoal_h5_row shoal_trace_energies = {
  .members = &(const shoal_h5_struct){ sizeof(shoal_trace_energy), SHOAL_COUNT(energy_members), energy_members }
};
const shoal_h5_row shoal_trace_ops = { .text = true, .text_bytes = SHOAL_TRACE_NAME };
const shoal_h5_row shoal_trace_ops_1 = { .text = true };
