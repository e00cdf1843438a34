/* Collectives built from streams: each builds a list of sends and receives and completes it in one wait.
 *
 * They are used for set-up, evaluation, checkpoints and by methods that move blocks; the step's all-reduce is in
 * ring.c.
 *
 *   broadcast, short   binomial tree: ceil(lg p) hops                               lg p messages from the root
 *   broadcast, long    a pipelined chain or binary tree over the nodes, and a       B + N-2 or 2 (B + lg N - 1) pieces, whichever
 *                      chain inside each of them                                    are fewer, of B and N nodes, one after another
 *   allgather          Bruck: in round k fetch 2^k blocks from the rank 2^k ahead   ceil(lg p) hops, (p-1) blocks sent
 *   sums, short        allgather, then every rank adds in rank order
 *   sums, long         slices to their owners, who add in rank order; allgather of the slices     2 (p-1)/p of the data
 *   sums, many ranks   recursive doubling, if that costs less than 2 (p-1) messages               lg p hops, lg p times the data
 *   gather, scatter, alltoall      direct messages
 *
 * Sums of f64 add in rank order for every element, or in more than 64 ranks by a tree, which depends on the number of ranks and of
 * elements: bitwise equal on every rank and in every run.
 * Source: Bruck et al., Efficient algorithms for all-to-all communications in multiport message-passing systems, 1997.
 */
#include "base/mem.h"
#include "comm/group_impl.h"
#include <stdlib.h>
#include <string.h>

/* Up to this size the latency of a message outweighs sending its bytes lg p times (10 us at 1 Gbit/s: 1 KiB; in shared
 * memory: 100 KiB). */
enum { SHORT_BYTES = 16 << 10 };

static shoal_status alloc_streams(size_t n, shoal_stream **out)
{
  return shoal_alloc(n, sizeof **out, "message streams", (void **)out);
}

/* A blocking collective is recorded as an exchange whose whole duration is exposed.  Control groups record no spans:
 * their collectives are part of an evaluation, a checkpoint or an agreement. */
static void record(shoal_group *g, const char *name, shoal_trace_role role, uint64_t number, uint64_t t0,
                   const shoal_stream *streams, size_t n)
{
  shoal_trace *trace = g->w->trace;
  uint64_t t1 = shoal_now_ns();
  if (g->control || !trace || n == 0) return;
  shoal_trace_exchange x = { .op = shoal_trace_op(trace, name),
                             .group = shoal_group_trace_id(g),
                             .role = role,
                             .link = SHOAL_LINK_SELF,
                             .peer = -1,
                             .seq = number };
  for (size_t i = 0; i < n; i++) {
    x.link = SHOAL_MAX(x.link, shoal_group_class(g, streams[i].peer));
    x.bytes += streams[i].sending ? streams[i].bytes : 0;
  }
  shoal_trace_blocked(trace, &x, t0, t1);
}

static shoal_status run(shoal_group *g, const char *name, shoal_trace_role role, shoal_stream *streams, size_t n)
{
  uint64_t number, t0 = shoal_now_ns();
  int tag = shoal_group_next_call(g, &number);
  SHOAL_TRY(shoal_streams_run(g, name, number, tag, false, streams, n));
  record(g, name, role, number, t0, streams, n);
  return SHOAL_OK;
}

static size_t sum_sizes(const uint64_t *sizes, int n)
{
  size_t all = 0;
  for (int i = 0; i < n; i++) all += sizes[i];
  return all;
}

/* ------------------------------------------------------------------------------------------------------ broadcast */

/* A binomial tree on v, the rank relative to the root: v's children are v + 2^k below its lowest set bit; the farthest subtree is
 * the deepest, so it goes first. */
static void plan_short(const shoal_group *g, int root, shoal_broadcast_part *t)
{
  int p = g->size, v = (g->rank - root + p) % p, bit = 1;
  if (v) t->parent = ((v & (v - 1)) + root) % p;
  while (bit < p && !(v & bit)) bit <<= 1;
  for (bit >>= 1; bit; bit >>= 1)
    if (v + bit < p) t->children[t->n++] = (v + bit + root) % p;
}

/* A chain is as fast as a link once its last node is reached; a binary tree reaches it soon, and sends everything twice. */
bool shoal_broadcast_shape(const shoal_group *g, size_t bytes, shoal_broadcast *out)
{
  enum { PIECE = 256 << 10 }; /* a link's latency is small against it, and a way through many nodes soon filled */
  int nodes = g->nodes.nodes, depth = 0;
  if (bytes <= SHORT_BYTES) return false;
  size_t piece = SHOAL_MIN((size_t)PIECE, g->w->o.max_message), pieces = (bytes + piece - 1) / piece;
  *out = (shoal_broadcast){ .piece = piece, .fan_out = 1, .hops = nodes - 1, .turns = pieces + (size_t)nodes - 2 };
  while (nodes >> (depth + 1)) depth++;
  size_t turns = 2 * (pieces + (size_t)depth - 1);
  if (nodes > 2 && turns < out->turns)
    *out = (shoal_broadcast){ .piece = piece, .fan_out = 2, .hops = depth, .turns = turns };
  return true;
}

/* The member of a node that has the data first: the root, or the first one. */
static int head_of(const shoal_group *g, int node, int root)
{
  return node == g->nodes.node[root] ? root : g->nodes.member[g->nodes.begin[node]];
}

/* The tree is built on v, the node relative to the root's. */
static void plan_long(const shoal_group *g, const shoal_broadcast *shape, int root, shoal_broadcast_part *t)
{
  const shoal_node_table *table = &g->nodes;
  t->piece = shape->piece;
  int nodes = table->nodes, first = table->node[root], node = table->node[g->rank], v = (node - first + nodes) % nodes;
  int fan_out = shape->fan_out;
  int begin = table->begin[node], members = table->begin[node + 1] - begin, head = head_of(g, node, root);
  int after = (table->place[g->rank] - table->place[head] + members) % members; /* the head */
  if (after > 0)
    t->parent = table->member[begin + (table->place[g->rank] + members - 1) % members];
  else if (v > 0)
    t->parent = head_of(g, ((v - 1) / fan_out + first) % nodes, root);
  for (int i = 1; after == 0 && i <= fan_out; i++) {
    int64_t child = (int64_t)v * fan_out + i;
    if (child < nodes) t->children[t->n++] = head_of(g, (int)((child + first) % nodes), root);
  }
  if (after + 1 < members) t->children[t->n++] = table->member[begin + (table->place[g->rank] + 1) % members];
}

shoal_broadcast_part shoal_broadcast_plan(const shoal_group *g, size_t bytes, int root)
{
  shoal_broadcast_part t = { .parent = -1 };
  shoal_broadcast shape;
  if (shoal_broadcast_shape(g, bytes, &shape))
    plan_long(g, &shape, root, &t);
  else
    plan_short(g, root, &t);
  return t;
}

static shoal_status check_root(const shoal_group *g, const char *call, int root)
{
  SHOAL_CHECK(root >= 0 && root < g->size, SHOAL_ERR_ARG, "%s: no rank %d in group %s of %d", call, root, g->name,
              g->size);
  return SHOAL_OK;
}

shoal_status shoal_group_broadcast(shoal_group *g, void *data, size_t bytes, int root)
{
  shoal_stream streams[33];
  size_t n = 0;
  SHOAL_TRY(check_root(g, "broadcast", root));
  shoal_broadcast_part t = shoal_broadcast_plan(g, bytes, root);
  if (t.parent >= 0) streams[n++] = shoal_stream_in(data, bytes, t.parent);
  for (int i = 0; i < t.n; i++) {
    streams[n] = shoal_stream_out(data, bytes, t.children[i]);
    if (t.parent >= 0) streams[n].limit = &streams[0].finished;
    n++;
  }
  for (size_t i = 0; i < n; i++) streams[i].piece = t.piece;
  return run(g, "broadcast", g->rank == root ? SHOAL_TRACE_ROLE_SOURCE : SHOAL_TRACE_ROLE_SINK, streams, n);
}

void shoal_group_broadcast_bytes(const shoal_group *g, size_t bytes, int root, uint64_t out[SHOAL_LINK_COUNT])
{
  memset(out, 0, SHOAL_LINK_COUNT * sizeof *out);
  shoal_broadcast_part t = shoal_broadcast_plan(g, bytes, root);
  for (int i = 0; i < t.n; i++) out[shoal_group_class(g, t.children[i])] += bytes;
}

/* ------------------------------------------------------------------------------------------------------- allgather */

/* blocks[0] is this rank's block; on return blocks[i] is that of rank + i, modulo the size. */
static shoal_status bruck_rounds(shoal_group *g, char *blocks, size_t bytes, bool control)
{
  for (int have = 1; have < g->size; have *= 2) {
    size_t n = (size_t)SHOAL_MIN(have, g->size - have) * bytes;
    shoal_stream streams[] = {
      shoal_stream_out(blocks, n, (g->rank - have + g->size) % g->size),
      shoal_stream_in(blocks + (size_t)have * bytes, n, (g->rank + have) % g->size),
    };
    uint64_t number, t0 = shoal_now_ns();
    int tag = shoal_group_next_call(g, &number);
    SHOAL_TRY(shoal_streams_run(g, "allgather", number, tag, control, streams, 2));
    if (!control) record(g, "allgather", SHOAL_TRACE_ROLE_ALL, number, t0, streams, 2);
  }
  return SHOAL_OK;
}

static shoal_status allgather(shoal_group *g, const void *mine, size_t bytes, void *all, bool control)
{
  char *blocks, *to = all;
  size_t p = (size_t)g->size, me = (size_t)g->rank;
  if (!bytes) return SHOAL_OK;
  SHOAL_TRY(shoal_alloc(p, bytes, "allgather", (void **)&blocks));
  memcpy(blocks, mine, bytes);
  shoal_status st = bruck_rounds(g, blocks, bytes, control);
  if (st == SHOAL_OK) {
    memcpy(to + me * bytes, blocks, (p - me) * bytes);
    memcpy(to, blocks + (p - me) * bytes, me * bytes);
  }
  free(blocks);
  return st;
}

shoal_status shoal_group_allgather(shoal_group *g, const void *mine, size_t bytes, void *all)
{
  return allgather(g, mine, bytes, all, false);
}

shoal_status shoal_group_allgather_control(shoal_group *g, const void *mine, size_t bytes, void *all)
{
  return allgather(g, mine, bytes, all, true);
}

/* ---- of blocks that are alike ---- */

enum { DIFFERENCE_HEAD = 3, SAME_ENOUGH = 4 };

/* What `block` has where it differs from `base`: [place, 2 bytes; length, 1 byte; as many bytes] again and again.
 * @param out  room for 2 bytes + DIFFERENCE_HEAD
 * @return  its length */
static size_t write_differences(const unsigned char *base, const unsigned char *block, size_t bytes, unsigned char *out)
{
  size_t n = 0;
  for (size_t at = 0, end; at < bytes; at = end) {
    size_t same = 0;
    end = at + 1;
    if (base[at] == block[at]) continue;
    for (; end < bytes && end - at < UINT8_MAX && same < SAME_ENOUGH; end++)
      same = base[end] == block[end] ? same + 1 : 0;
    end -= same;
    out[n] = (unsigned char)(at & 0xff);
    out[n + 1] = (unsigned char)(at >> 8);
    out[n + 2] = (unsigned char)(end - at);
    memcpy(out + n + DIFFERENCE_HEAD, block + at, end - at);
    n += DIFFERENCE_HEAD + end - at;
  }
  return n;
}

/* The way back; what is left of n bytes is 0.  `block` is a copy of the base. */
static void apply_differences(const unsigned char *from, size_t n, unsigned char *block)
{
  for (size_t i = 0; i + DIFFERENCE_HEAD <= n && from[i + 2]; i += DIFFERENCE_HEAD + (size_t)from[i + 2])
    memcpy(block + (from[i] | (size_t)from[i + 1] << 8), from + i + DIFFERENCE_HEAD, from[i + 2]);
}

shoal_status shoal_group_allgather_alike(shoal_group *g, const void *mine, size_t bytes, shoal_take take, void *context)
{
  size_t room = 2 * bytes + DIFFERENCE_HEAD;
  unsigned char *block, *base, *own, *all = NULL;
  SHOAL_TRY(shoal_alloc(2 * bytes + room, 1, "blocks that are alike", (void **)&block));
  base = block + bytes;
  own = base + bytes;
  memcpy(base, mine, bytes);
  shoal_status st = shoal_group_broadcast(g, base, bytes, 0);
  int64_t most = (int64_t)write_differences(base, mine, bytes, own);
  if (st == SHOAL_OK) st = shoal_group_agree_max(g, "blocks that are alike", &most);
  if (st == SHOAL_OK) st = shoal_alloc((size_t)g->size, (size_t)most, "blocks that are alike", (void **)&all);
  if (st == SHOAL_OK) st = shoal_group_allgather(g, own, (size_t)most, all);
  for (int r = 0; st == SHOAL_OK && r < g->size; r++) {
    memcpy(block, base, bytes);
    apply_differences(all + (size_t)r * (size_t)most, (size_t)most, block);
    take(context, r, block);
  }
  free(all);
  free(block);
  return st;
}

/* ------------------------------------------------------------------------------------------------------------ sums */

typedef void fold(void *to, const void *from, size_t n); /* to[i] ← to[i] op from[i], 8-byte numbers */

static void add_f64(void *to, const void *from, size_t n)
{
  double *y = to;
  const double *x = from;
  for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static void add_i64(void *to, const void *from, size_t n)
{
  uint64_t *y = to; /* unsigned: overflow wraps and is defined */
  const uint64_t *x = from;
  for (size_t i = 0; i < n; i++) y[i] += x[i];
}

static void max_i64(void *to, const void *from, size_t n)
{
  int64_t *y = to;
  const int64_t *x = from;
  for (size_t i = 0; i < n; i++) y[i] = SHOAL_MAX(y[i], x[i]);
}

/* parts: [p, n], in rank order */
static void fold_parts(fold *f, const char *parts, int p, size_t n, void *out)
{
  memcpy(out, parts, n * 8);
  for (int r = 1; r < p; r++) f(out, parts + (size_t)r * n * 8, n);
}

static shoal_status reduce_short(shoal_group *g, fold *f, void *x, size_t n)
{
  char *parts;
  SHOAL_TRY(shoal_alloc((size_t)g->size, n * 8, "parts of a sum", (void **)&parts));
  shoal_status st = shoal_group_allgather(g, x, n * 8, parts);
  if (st == SHOAL_OK) fold_parts(f, parts, g->size, n, x);
  free(parts);
  return st;
}

/* Slices of equal width, the last ones shorter or empty; member r owns slice r.  `to_owner` and `back`: [2(p-1)]. */
static shoal_status reduce_slices(shoal_group *g, fold *f, char *x, size_t n, char *parts, shoal_stream *streams)
{
  int p = g->size, me = g->rank;
  size_t width = (n + (size_t)p - 1) / (size_t)p;
#define BEGIN(r) SHOAL_MIN((size_t)(r)*width, n)
#define WIDTH(r) (BEGIN((r) + 1) - BEGIN(r))
  size_t mine = WIDTH(me), k = 0;
  for (int i = 1; i < p; i++) {
    int to = (me + i) % p, from = (me - i + p) % p;
    streams[k++] = shoal_stream_out(x + BEGIN(to) * 8, WIDTH(to) * 8, to);
    streams[k++] = shoal_stream_in(parts + (size_t)from * mine * 8, mine * 8, from);
  }
  SHOAL_TRY(run(g, "sum: reduce slices", SHOAL_TRACE_ROLE_ALL, streams, k));
  memcpy(parts + (size_t)me * mine * 8, x + BEGIN(me) * 8, mine * 8);
  fold_parts(f, parts, p, mine, x + BEGIN(me) * 8);
  for (int i = 1, j = 0; i < p; i++) {
    int to = (me + i) % p, from = (me - i + p) % p;
    streams[j++] = shoal_stream_out(x + BEGIN(me) * 8, mine * 8, to);
    streams[j++] = shoal_stream_in(x + BEGIN(from) * 8, WIDTH(from) * 8, from);
  }
#undef BEGIN
#undef WIDTH
  return run(g, "sum: all-gather of slices", SHOAL_TRACE_ROLE_ALL, streams, k);
}

static shoal_status reduce_long(shoal_group *g, fold *f, void *x, size_t n)
{
  size_t p = (size_t)g->size, width = (n + p - 1) / p;
  char *parts = NULL;
  shoal_stream *streams = NULL;
  shoal_status st = shoal_alloc(p, width * 8, "parts of a sum", (void **)&parts);
  if (st == SHOAL_OK) st = alloc_streams(2 * p, &streams);
  if (st == SHOAL_OK) st = reduce_slices(g, f, x, n, parts, streams);
  free(streams);
  free(parts);
  return st;
}

/* What is sent to one member, and what comes from it; either may be none. */
static shoal_status swap(shoal_group *g, int peer, const void *out, void *in, size_t bytes)
{
  shoal_stream streams[2];
  size_t n = 0;
  if (out) streams[n++] = shoal_stream_out(out, bytes, peer);
  if (in) streams[n++] = shoal_stream_in(in, bytes, peer);
  return run(g, "sum", SHOAL_TRACE_ROLE_ALL, streams, n);
}

/* Recursive doubling among the first 2^k members; each of the rest adds its part to that of one of them before, and gets the sum
 * afterwards.  Two members that swap their sums add the same two numbers, so all get the same bits. */
static shoal_status double_up(shoal_group *g, fold *f, void *x, size_t n, void *theirs)
{
  int me = g->rank, whole = 1;
  while (whole <= g->size / 2) whole *= 2;
  bool extra = me >= whole, helps = me + whole < g->size && !extra;
  int partner = extra ? me - whole : me + whole;
  SHOAL_TRY(swap(g, partner, extra ? x : NULL, helps ? theirs : NULL, n * 8));
  if (helps) f(x, theirs, n);
  for (int distance = 1; distance < whole; distance *= 2) {
    SHOAL_TRY(swap(g, me ^ distance, extra ? NULL : x, extra ? NULL : theirs, n * 8));
    if (!extra) f(x, theirs, n);
  }
  return swap(g, partner, helps ? x : NULL, extra ? x : NULL, n * 8);
}

static shoal_status reduce_doubling(shoal_group *g, fold *f, void *x, size_t n)
{
  void *theirs;
  SHOAL_TRY(shoal_alloc(n, 8, "parts of a sum", &theirs));
  shoal_status st = double_up(g, f, x, n, theirs);
  free(theirs);
  return st;
}

/* Slices need two messages to and from every other member, for the data of two vectors. */
static bool slices_pay(size_t n, int members)
{
  enum { MESSAGE_BYTES = 1024 }; /* what could be sent instead of one more message */
  size_t rounds = 2;
  for (int whole = 1; whole <= members / 2; whole *= 2) rounds++;
  return n * 8 * rounds > 2 * (n * 8 + (size_t)members * MESSAGE_BYTES);
}

static shoal_status reduce(shoal_group *g, fold *f, void *x, size_t n)
{
  if (!n || g->size == 1) return SHOAL_OK;
  if (g->size > g->w->o.in_order && !slices_pay(n, g->size)) return reduce_doubling(g, f, x, n);
  return n <= SHORT_BYTES / 8 / (size_t)g->size ? reduce_short(g, f, x, n) : reduce_long(g, f, x, n);
}

shoal_status shoal_group_sum_f64(shoal_group *g, double *x, size_t n)
{
  return reduce(g, add_f64, x, n);
}

shoal_status shoal_group_sum_i64(shoal_group *g, int64_t *x, size_t n)
{
  return reduce(g, add_i64, x, n);
}

shoal_status shoal_group_max_i64(shoal_group *g, int64_t *x, size_t n)
{
  return reduce(g, max_i64, x, n);
}

/* ---------------------------------------------------------------------------------------------------------- blocks */

static shoal_status check_own(const shoal_group *g, const char *call, uint64_t listed, size_t bytes)
{
  SHOAL_CHECK(listed == bytes, SHOAL_ERR_ARG, "%s in group %s: my own block is listed with %llu bytes but has %zu",
              call, g->name, (unsigned long long)listed, bytes);
  return SHOAL_OK;
}

static void copy(void *to, const void *from, size_t bytes)
{
  if (bytes) memmove(to, from, bytes);
}

/* Root side of gather and scatter: one stream per other member, at its offset in `all`. */
static shoal_status root_streams(shoal_group *g, const char *name, char *all, const uint64_t *sizes, bool sending)
{
  shoal_stream *streams;
  size_t n = 0, at = 0;
  SHOAL_TRY(alloc_streams((size_t)g->size, &streams));
  for (int r = 0; r < g->size; at += sizes[r++])
    if (r != g->rank)
      streams[n++] = sending ? shoal_stream_out(all + at, sizes[r], r) : shoal_stream_in(all + at, sizes[r], r);
  shoal_status st = run(g, name, sending ? SHOAL_TRACE_ROLE_SOURCE : SHOAL_TRACE_ROLE_SINK, streams, n);
  free(streams);
  return st;
}

shoal_status shoal_group_gather(shoal_group *g, const void *mine, size_t bytes, const uint64_t *sizes, void *all,
                                int root)
{
  SHOAL_TRY(check_root(g, "gather", root));
  if (g->rank != root) {
    shoal_stream s = shoal_stream_out(mine, bytes, root);
    return run(g, "gather", SHOAL_TRACE_ROLE_SOURCE, &s, 1);
  }
  SHOAL_TRY(check_own(g, "gather", sizes[root], bytes));
  copy((char *)all + sum_sizes(sizes, root), mine, bytes);
  return root_streams(g, "gather", all, sizes, false);
}

shoal_status shoal_group_scatter(shoal_group *g, const void *all, const uint64_t *sizes, void *mine, size_t bytes,
                                 int root)
{
  SHOAL_TRY(check_root(g, "scatter", root));
  if (g->rank != root) {
    shoal_stream s = shoal_stream_in(mine, bytes, root);
    return run(g, "scatter", SHOAL_TRACE_ROLE_SINK, &s, 1);
  }
  SHOAL_TRY(check_own(g, "scatter", sizes[root], bytes));
  copy(mine, (const char *)all + sum_sizes(sizes, root), bytes);
  return root_streams(g, "scatter", (char *)all, sizes, true);
}

/* Each rank starts with its successor, so that not all ranks send to the same receiver first. */
shoal_status shoal_group_alltoall(shoal_group *g, const void *send, const uint64_t *send_sizes, void *recv,
                                  const uint64_t *recv_sizes)
{
  const char *out = send;
  char *in = recv;
  int p = g->size, me = g->rank;
  shoal_stream *streams;
  size_t n = 0, blocks = 0;
  SHOAL_TRY(check_own(g, "alltoall", send_sizes[me], recv_sizes[me]));
  copy(in + sum_sizes(recv_sizes, me), out + sum_sizes(send_sizes, me), send_sizes[me]);
  for (int r = 0; r < p; r++) blocks += r != me && send_sizes[r] > 0;
  for (int r = 0; r < p; r++) blocks += r != me && recv_sizes[r] > 0;
  SHOAL_TRY(alloc_streams(blocks, &streams));
  size_t out_at = sum_sizes(send_sizes, me + 1), in_at = sum_sizes(recv_sizes, me);
  for (int i = 1; i < p; i++) {
    int to = (me + i) % p, from = (me - i + p) % p;
    if (to == 0) out_at = 0;
    if (from == p - 1) in_at = sum_sizes(recv_sizes, p);
    in_at -= recv_sizes[from];
    if (send_sizes[to]) streams[n++] = shoal_stream_out(out + out_at, send_sizes[to], to);
    if (recv_sizes[from]) streams[n++] = shoal_stream_in(in + in_at, recv_sizes[from], from);
    out_at += send_sizes[to];
  }
  shoal_status st = run(g, "alltoall", SHOAL_TRACE_ROLE_ALL, streams, n);
  free(streams);
  return st;
}
