/* Placement: nothing alive at the same moment overlaps, everything is aligned, and the arena stays near its lower bound,
 * the largest sum alive. */
#include "base/mem.h"
#include "base/rng.h"
#include "check.h"
#include "nn/place.h"
#include <stdbool.h>

enum { MANY = 200, MOMENTS = 120 };

static bool overlap(size_t a, size_t n, size_t b, size_t m)
{
  return a < b + m && b < a + n;
}

static size_t lower_bound(const shoal_slot *s, int n)
{
  size_t most = 0;
  for (int t = 0; t < MOMENTS; t++) {
    size_t sum = 0;
    for (int i = 0; i < n; i++)
      if (s[i].birth <= t && t <= s[i].death) sum += shoal_round_up(s[i].bytes, SHOAL_ALIGN);
    most = SHOAL_MAX(most, sum);
  }
  return most;
}

static double check(shoal_slot *s, int n)
{
  size_t total = 0;
  REQUIRE(shoal_place(s, n, &total) == SHOAL_OK, "place");
  for (int i = 0; i < n; i++) {
    CHECK_EQ(s[i].offset % SHOAL_ALIGN, 0, "slot %d at %zu", i, s[i].offset);
    CHECK_LE(s[i].offset + s[i].bytes, total, "slot %d at %zu", i, s[i].offset);
    for (int k = 0; k < i; k++) {
      bool together = s[i].birth <= s[k].death && s[k].birth <= s[i].death;
      CHECK(!together || !overlap(s[i].offset, s[i].bytes, s[k].offset, s[k].bytes), "slots %d and %d overlap", i, k);
    }
  }
  size_t least = lower_bound(s, n);
  CHECK_GE(total, least);
  return least ? (double)total / (double)least : 1;
}

int main(void)
{
  shoal_slot none, one = { .bytes = 100, .death = 3 };
  size_t total = 1;
  CHECK_OK(shoal_place(&none, 0, &total));
  CHECK_EQ(total, 0);
  CHECK_EQ(check(&one, 1), 1, "one slot");
  shoal_slot chain[] = { { 1000, 0, 1, 0 }, { 1000, 1, 2, 0 }, { 1000, 2, 3, 0 }, { 1000, 3, 4, 0 } };
  CHECK_EQ(check(chain, 4), 1, "a chain needs two places");
  CHECK_EQ(chain[0].offset, chain[2].offset, "and takes turns");
  CHECK_EQ(chain[1].offset, chain[3].offset);
  double worst = 0, sum = 0;
  for (uint32_t round = 0; round < 50; round++) {
    shoal_slot s[MANY];
    for (int i = 0; i < MANY; i++) {
      shoal_rng_block r = shoal_rng(1, SHOAL_RNG_TEST, (uint64_t)i, round);
      int birth = (int)(r.v[0] % MOMENTS), life = (int)(r.v[1] % (i % 3 ? 10 : MOMENTS));
      s[i] = (shoal_slot){ .bytes = r.v[2] % 5000, .birth = birth, .death = SHOAL_MIN(birth + life, MOMENTS - 1) };
    }
    double ratio = check(s, MANY);
    worst = worse(worst, ratio);
    sum += ratio / 50;
  }
  printf("arena over largest sum alive, random lifetimes: mean %.3f, worst %.3f\n", sum, worst);
  CHECK_LT(worst, 1.35);
  return check_done();
}
