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

static double spacing(const node *a, size_t block)
{
  const int8_t *exponent = a->deal.exponent.at;
  return a->deal.quantised ? ldexp(1, exponent[block]) : 0;
}

/* The numbers of a block that took part in the last pair of messages. */
static void check_block(const node *i, const node *j, const shoal_swarm_head *reply, size_t b)
{
  size_t at = i->deal.at + b * SHOAL_QUANT_BLOCK, n = shoal_swarm_block_length(i->s, i->deal.first + b), wrong = 0;
  double off = i->s->rules.stochastic ? 1 : 0.5, si = spacing(i, b) * off, sj = spacing(j, b) * off;
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
  shoal_world_close(world);
  shoal_backend_close(backend);
  return check_done();
}
