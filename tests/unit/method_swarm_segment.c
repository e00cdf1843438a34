/* The two messages about a segment, between two nodes in one process: afterwards both hold the same bits, the average of what both
 * sent; a reply can be decoded whatever the request was; blocks that cannot be decoded go again and are averaged exactly; a model
 * that is not finite is averaged with by nobody. */
#include "base/log.h"
#include "base/mem.h"
#include "check.h"
#include "method/swarm/swarm.h"
#include <math.h>
#include <stdlib.h>

enum { SEGMENT = 2, N = 2 * SHOAL_SWARM_SEGMENTS * SHOAL_QUANT_BLOCK + 100, ROUNDS = 6 };
static shoal_world *world;
static shoal_backend *backend;

typedef struct {
  shoal_swarm *s;
  shoal_swarm_deal deal;
  shoal_memory message;
  float *x, *before; /* [N]; before: c as it was */
} node;

static void *room(size_t bytes)
{
  void *p = NULL;
  REQUIRE(shoal_alloc(bytes, 1, "test buffer", &p) == SHOAL_OK, "%zu bytes", bytes);
  return p;
}

static uint64_t dice(uint64_t i, uint32_t step, uint64_t n)
{
  shoal_rng_block r = shoal_rng(77, SHOAL_RNG_TEST, i, step);
  return shoal_rng_below(&r, n);
}

static node open_node(const shoal_swarm_rules *rules, int rank)
{
  node a = { .x = room(N * sizeof(float)), .before = room(N * sizeof(float)) };
  for (size_t i = 0; i < N; i++) a.x[i] = 0.1f * (float)((int)(i * 7919 % 201) - 100);
  REQUIRE(shoal_swarm_create(world, backend, rules, a.x, N, &a.s) == SHOAL_OK, "swarm");
  a.s->rank = rank;
  REQUIRE(a.s->segment == SEGMENT, "%zu blocks", a.s->segment);
  REQUIRE(a.s->segments == SHOAL_SWARM_SEGMENTS + 1, "%zu segments", a.s->segments);
  REQUIRE(shoal_swarm_deal_init(a.s, SEGMENT, &a.deal) == SHOAL_OK, "deal");
  REQUIRE(backend->ops->alloc(backend, SHOAL_MEMORY_PINNED, shoal_swarm_message_most(a.s), &a.message) == SHOAL_OK,
          "message");
  return a;
}

static void close_node(node *a)
{
  shoal_swarm_deal_fini(a->s, &a->deal);
  backend->ops->release(backend, &a->message);
  shoal_swarm_destroy(a->s);
  free(a->x);
  free(a->before);
}

/* What is learned: differs from block to block by orders of magnitude; in some rounds a node believes the others nearer than they
 * are, or farther, or one block jumps. */
static void learn(node *a, int rank, uint32_t round)
{
  uint64_t bits = 0;
  for (size_t i = 0; i < N; i++, bits = bits >> 4 | bits << 60) {
    if (i % 16 == 0) bits = dice(i * 2 + (uint64_t)rank, 2 + round, UINT64_MAX);
    a->x[i] += ldexpf((float)(bits % 1024) - 511.5f, -16 - (int)(i / SHOAL_QUANT_BLOCK % 12));
  }
  if (round == 3 && rank == 0)
    for (size_t i = 5 * SHOAL_QUANT_BLOCK; i < 5 * SHOAL_QUANT_BLOCK + 10; i++) a->x[i] += 400;
  bool changed = false;
  static const bool locked[SHOAL_SWARM_SEGMENTS + 1] = { false };
  for (size_t g = 0; g < a->s->segments && a->s->node.b; g++) a->s->due[g] = true;
  CHECK_OK(shoal_swarm_apply_due(a->s, locked, &changed));
  static const double belief[] = { 1e-3, 1, 30 };
  for (size_t b = 0; round % 3 == 2 && b < a->s->blocks; b++)
    a->s->distance[b] *= belief[dice(b * 2 + (uint64_t)rank, 100 + round, 3)];
  CHECK_OK(shoal_swarm_publish(a->s));
  memcpy(a->before, a->s->node.c, N * sizeof *a->before);
}

static double spacing(const shoal_swarm_deal *d, size_t block)
{
  const int8_t *exponent = d->exponent.at;
  return d->quantised ? ldexp(1, exponent[block]) : 0;
}

/* The numbers of a block that took part in the last pair of messages. */
static void check_block(const node *i, const node *j, const shoal_swarm_head *reply, size_t b)
{
  size_t at = i->deal.at + b * SHOAL_QUANT_BLOCK, n = shoal_swarm_block_length(i->s, i->deal.first + b), wrong = 0;
  double off = i->s->rules.stochastic ? 1 : 0.5, si = spacing(&i->deal, b) * off, sj = spacing(&j->deal, b) * off;
  bool pull = i->s->rules.variant == SHOAL_SWARM_PULL;
  for (size_t k = at; k < at + n; k++) {
    float x = i->before[k], y = j->before[k], exact = pull ? y : 0.5f * (x + y),
          got = pull ? i->s->theirs[k] : i->s->node.c[k];
    double slack = pull ? sj : (si + sj) / 2;
    wrong += slack > 0 ? !(fabs((double)got - (double)exact) <= slack + fabs((double)exact) * 0x1p-21) : got != exact;
    wrong += !pull && memcmp(&i->s->node.c[k], &j->s->node.c[k], sizeof(float)) != 0;
  }
  CHECK_EQ(wrong, 0, "variant %d, %d bits, block %zu, flags %x", i->s->rules.variant, i->s->rules.bits,
           i->deal.first + b, reply->flags);
}

/* Returns how many blocks went again. */
static size_t exchange(node *i, node *j, size_t segment)
{
  shoal_swarm_head *request = i->message.at, *reply = j->message.at;
  size_t again_count = 0;
  uint16_t again = 0;
  *request = (shoal_swarm_head){ .number = 9, .segment = (uint32_t)segment };
  shoal_swarm_deal_segment(i->s, &i->deal, segment);
  for (int turn = 0; turn == 0 || again; turn++) {
    REQUIRE(turn < 2, "segment %zu goes again and again", segment);
    CHECK_OK(shoal_swarm_ask(i->s, &i->deal, again, request));
    CHECK_LE(shoal_swarm_message_bytes(i->s, request), shoal_swarm_message_most(i->s));
    CHECK_OK(shoal_swarm_answer(j->s, &j->deal, request, reply));
    CHECK_LE(shoal_swarm_message_bytes(i->s, reply), shoal_swarm_message_most(i->s));
    CHECK_OK(shoal_swarm_finish(i->s, &i->deal, request, reply, &again));
    if (i->s->rules.variant != SHOAL_SWARM_PULL && !(reply->flags & SHOAL_SWARM_REFUSED))
      CHECK_EQ(again, reply->unread, "a reply could not be decoded");
    for (size_t b = 0; b < i->deal.blocks; b++) {
      again_count += again >> b & 1;
      if ((reply->blocks & ~again) >> b & 1 && !(reply->flags & SHOAL_SWARM_REFUSED)) check_block(i, j, reply, b);
    }
  }
  return again_count;
}

/* The request's coarse grid hides how far the two are apart: what is read seems to be equal. */
static void hidden(node *i, node *j)
{
  node *both[] = { i, j };
  for (int r = 0; r < 2; r++) {
    memset(both[r]->s->node.c, 0, SHOAL_QUANT_BLOCK * sizeof(float));
    for (size_t b = 0; b < i->s->blocks; b++) both[r]->s->distance[b] = 1e-6;
  }
  i->s->distance[0] = j->s->distance[9] = 1;
  i->s->node.c[5] = ldexpf(0.4f, shoal_swarm_exponent(SHOAL_MAX(i->s->rules.bits, 4), 1));
  for (int r = 0; r < 2; r++) memcpy(both[r]->before, both[r]->s->node.c, N * sizeof(float));
  (void)exchange(i, j, 0);
}

static void one_case(const shoal_swarm_rules *rules)
{
  node a[2] = { open_node(rules, 0), open_node(rules, 1) };
  size_t again = 0;
  for (uint32_t round = 0; round < ROUNDS; round++) {
    for (int r = 0; r < 2; r++) learn(&a[r], r, round);
    for (size_t g = 0; g < a[0].s->segments; g++) again += exchange(&a[round % 2], &a[1 - round % 2], g);
  }
  hidden(&a[0], &a[1]);
  CHECK_EQ(again > 0, rules->bits > 0, "variant %d, %d bits: %zu blocks went again", rules->variant, rules->bits,
           again);
  CHECK_EQ(a[0].s->refused + a[1].s->refused, 0);
  for (int bad = 0; bad < 2; bad++) { /* the partner's, then this node's */
    for (int r = 0; r < 2; r++) learn(&a[r], r, 20);
    node *ill = &a[1 - bad], *well = &a[bad];
    ill->s->node.c[3 * SHOAL_QUANT_BLOCK + 7] = NAN;
    float *kept = room(N * sizeof *kept);
    memcpy(kept, well->s->node.c, N * sizeof *kept);
    uint64_t refused = well->s->refused;
    (void)exchange(&a[0], &a[1], 1);
    bool asks = rules->variant != SHOAL_SWARM_PULL || bad == 0; /* V3: its own model is of no concern to the partner */
    CHECK_EQ(well->s->refused - refused, asks, "variant %d, %d bits, bad %d", rules->variant, rules->bits, bad);
    CHECK_BYTES(well->s->node.c, kept, N * sizeof *kept, "variant %d: numbers of a bad model were taken",
                rules->variant);
    ill->s->node.c[3 * SHOAL_QUANT_BLOCK + 7] = 0;
    free(kept);
  }
  close_node(&a[0]);
  close_node(&a[1]);
}

/* Requests, replies, folds and local steps of two nodes in any order; the sender's segment is locked from its request to the last
 * reply.  What both have learned, the sum of c - b + x, changes by the rounding of what they sent and by nothing else. */
enum { TALKS = 3, WATCHED = TALKS * SEGMENT * SHOAL_QUANT_BLOCK };

typedef struct {
  enum { IDLE, ASKED, ANSWERED } state;
  shoal_swarm_deal deal;
  shoal_memory request, reply;
  double slack[SEGMENT]; /* of the sum, by what was sent */
} talk;

static double total_of(const node *a, size_t k)
{
  const shoal_swarm_node *i = &a[0].s->node, *j = &a[1].s->node;
  return (double)i->x[k] + (double)i->c[k] - (double)i->b[k] + (double)j->x[k] + (double)j->c[k] - (double)j->b[k];
}

static void check_totals(const node *a, const talk *t, double *total)
{
  for (size_t k = t->deal.at; k < t->deal.at + t->deal.n; k++) {
    double now = total_of(a, k), slack = t->slack[(k - t->deal.at) / SHOAL_QUANT_BLOCK] + 1e-4;
    if (fabs(now - total[k]) > slack) CHECK_NEAR(now, total[k], slack, "%d bits, element %zu", a->s->rules.bits, k);
    total[k] = now;
  }
}

/* Not coarser than the farther of the two has moved asks for, or the numbers themselves, which are below 32. */
static void check_spacings(const node *a, const talk *t)
{
  const shoal_swarm_head *request = t->request.at, *reply = t->reply.at;
  double most = SHOAL_MAX(request->reach, reply->reach),
         coarsest = SHOAL_MAX(ldexp(8 * most, -a->s->rules.bits), 0x1p-16);
  for (size_t b = 0; b < SEGMENT; b++)
    if (!(reply->unread >> b & 1))
      CHECK_LE(spacing(&a[1].deal, b), coarsest, "%d bits, block %zu", a->s->rules.bits, a[1].deal.first + b);
}

/* The next message of a segment. */
static void move_on(node *a, talk *t, size_t segment, double *total)
{
  shoal_swarm_head *request = t->request.at, *reply = t->reply.at;
  uint16_t again = 0;
  if (t->state == ASKED) {
    CHECK_OK(shoal_swarm_answer(a[1].s, &a[1].deal, request, reply));
    for (size_t b = 0; b < SEGMENT; b++) t->slack[b] += spacing(&a[1].deal, b) / 2;
    check_spacings(a, t);
    t->state = ANSWERED;
    return;
  }
  if (t->state == IDLE) {
    *request = (shoal_swarm_head){ .number = 9, .segment = (uint32_t)segment };
    memset(t->slack, 0, sizeof t->slack);
  } else {
    CHECK_OK(shoal_swarm_finish(a[0].s, &t->deal, request, reply, &again));
    t->state = IDLE;
    if (!again) {
      check_totals(a, t, total);
      return;
    }
  }
  shoal_swarm_deal_segment(a[0].s, &t->deal, segment);
  CHECK_OK(shoal_swarm_ask(a[0].s, &t->deal, again, request));
  for (size_t b = 0; b < SEGMENT; b++) t->slack[b] += spacing(&t->deal, b) / 2;
  t->state = ASKED;
}

static void learn_somewhere(node *a, double *total, uint64_t step)
{
  size_t k = (size_t)dice(step, 201, WATCHED);
  float before = a->x[k];
  a->x[k] += ldexpf((float)((int)dice(step, 202, 201) - 100), -10 - (int)dice(step, 203, 6));
  total[k] += (double)a->x[k] - (double)before;
  for (uint32_t b = 0; b < TALKS * SEGMENT && dice(step, 205, 3) == 0; b++)
    if (dice(step, 300 + b, 2)) a->s->distance[b] *= 1e-3; /* so that some blocks cannot be read */
}

static void fold_somewhere(node *a, const talk *talks, int r, uint64_t step)
{
  bool locked[SHOAL_SWARM_SEGMENTS + 1] = { false }, changed = false;
  for (int g = 0; g < TALKS; g++) locked[g] = r == 0 && talks[g].state != IDLE;
  a->s->due[dice(step, 206, TALKS)] = true;
  CHECK_OK(shoal_swarm_apply_due(a->s, locked, &changed));
}

static void any_order(int bits)
{
  shoal_swarm_rules rules = { .variant = SHOAL_SWARM_SYMMETRIC, .bits = bits, .h = 1 };
  node a[2] = { open_node(&rules, 0), open_node(&rules, 1) };
  talk talks[TALKS] = { 0 };
  double *total = room(WATCHED * sizeof *total);
  size_t bytes = shoal_swarm_message_most(a[0].s);
  for (int g = 0; g < TALKS; g++) {
    CHECK_OK(shoal_swarm_deal_init(a[0].s, SEGMENT, &talks[g].deal));
    CHECK_OK(backend->ops->alloc(backend, SHOAL_MEMORY_PINNED, bytes, &talks[g].request));
    CHECK_OK(backend->ops->alloc(backend, SHOAL_MEMORY_PINNED, bytes, &talks[g].reply));
  }
  for (size_t k = 0; k < WATCHED; k++) total[k] = total_of(a, k);
  for (uint64_t step = 0; step < 3000 && !check_failures; step++) {
    int r = (int)dice(step, 207, 2);
    size_t g = (size_t)dice(step, 208, TALKS);
    learn_somewhere(&a[r], total, step);
    if (dice(step, 209, 3) == 0) fold_somewhere(&a[r], talks, r, step);
    if (dice(step, 210, 2) == 0) move_on(a, &talks[g], g, total);
  }
  for (int g = 0; g < TALKS; g++) {
    shoal_swarm_deal_fini(a[0].s, &talks[g].deal);
    backend->ops->release(backend, &talks[g].request);
    backend->ops->release(backend, &talks[g].reply);
  }
  close_node(&a[0]);
  close_node(&a[1]);
  free(total);
}

int main(void)
{
  static const int bits[] = { 0, 4, 8, 14, 16 };
  shoal_world_options options = { 0 };
  shoal_log_set_level(SHOAL_LOG_ERROR); /* not of refused models */
  REQUIRE(shoal_backend_open("cpu", 1, &backend) == SHOAL_OK, "backend");
  REQUIRE(shoal_world_open(&options, &world) == SHOAL_OK, "world");
  for (shoal_swarm_variant v = SHOAL_SWARM_BLOCKING; v <= SHOAL_SWARM_NONBLOCKING; v++)
    for (size_t b = 0; b < SHOAL_COUNT(bits); b++) {
      shoal_swarm_rules rules = { .variant = v, .bits = bits[b], .stochastic = (b + v) % 3 == 1, .h = 1 };
      one_case(&rules);
    }
  for (size_t b = 0; b < SHOAL_COUNT(bits); b++) any_order(bits[b]);
  shoal_world_close(world);
  shoal_backend_close(backend);
  return check_done();
}
