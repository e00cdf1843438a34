/* Which records belong together: those with the same group, name and number, and between two ranks the same pair. */
#include "base/mem.h"
#include "report/trace_impl.h"

/* The finaliser of SplitMix64 (Steele, Lea and Flood, 2014). */
uint64_t shoal_trace_mix(uint64_t x)
{
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* FNV-1a (Fowler, Noll and Vo). */
uint64_t shoal_trace_name_hash(const char *op_name)
{
  uint64_t h = 0xcbf29ce484222325u;
  for (; *op_name; op_name++) h = (h ^ (unsigned char)*op_name) * 0x100000001b3u;
  return h | 1;
}

static bool is_pair(uint8_t role)
{
  return role == SHOAL_TRACE_ROLE_SWAP || role == SHOAL_TRACE_ROLE_SEND || role == SHOAL_TRACE_ROLE_RECEIVE;
}

uint64_t shoal_trace_key(const shoal_trace_record *r, int rank, uint64_t name_hash)
{
  uint64_t pair = UINT64_MAX;
  if (is_pair(r->role)) pair = (uint64_t)SHOAL_MIN(rank, r->peer) << 32 | (uint32_t)SHOAL_MAX(rank, r->peer);
  return shoal_trace_mix(shoal_trace_mix(shoal_trace_mix(name_hash + r->group) + r->seq) + pair);
}
