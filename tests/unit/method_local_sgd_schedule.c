/* Local SGD's schedule: which steps average, before and after the switch, and when fragments start and are collected. */
#include "check.h"
#include "method/local_sgd/schedule.h"

static void check_steps(uint64_t period, uint64_t switch_epoch, uint64_t per_epoch, const char *expected)
{
  const shoal_local_sgd_plan p = { .period = period, .switch_epoch = switch_epoch, .fragments = 1 };
  char text[64] = "";
  for (uint64_t t = 0; expected[t]; t++) text[t] = "s.A"[shoal_local_sgd_at(&p, t / per_epoch, t)];
  CHECK_STR(text, expected, "H %d, switch %d", (int)period, (int)switch_epoch);
}

/* What starts and what is collected after each step, by the number of the fragment; '.': nothing. */
static void check_fragments(uint64_t period, uint64_t fragments, uint64_t overlap, const char *starts,
                            const char *collects)
{
  const shoal_local_sgd_plan p = { .period = period, .fragments = fragments, .overlap = overlap };
  char started[64] = "", collected[64] = "";
  bool under_way[8] = { false };
  for (uint64_t t = 0; starts[t]; t++) {
    CHECK_EQ(shoal_local_sgd_at(&p, 0, t), SHOAL_LOCAL_SGD_ALONE, "step %d", (int)t);
    started[t] = collected[t] = '.';
    for (uint64_t f = 0; f < fragments; f++) {
      bool begins = shoal_local_sgd_starts(&p, t, f);
      CHECK(!begins || !under_way[f], "fragment %d starts twice at step %d", (int)f, (int)t);
      if (begins) started[t] = (char)('0' + f);
      under_way[f] |= begins;
      if (!under_way[f] || !shoal_local_sgd_collects(&p, t, f)) continue;
      collected[t] = (char)('0' + f);
      under_way[f] = false;
    }
    for (uint64_t done = 0; done <= t && collected[t] != '.'; done++)
      CHECK(shoal_local_sgd_next(&p, 0, done) <= t + 1, "a rank may wait in step %d, unknown to step %d", (int)t,
            (int)done);
  }
  CHECK_STR(started, starts, "H %d, %d fragments", (int)period, (int)fragments);
  CHECK_STR(collected, collects, "H %d, %d fragments, overlap %d", (int)period, (int)fragments, (int)overlap);
}

int main(void)
{
  check_steps(4, 0, 5, "A...A...A...A...A...");
  check_steps(1, 0, 5, "AAAAAAAAAA");
  check_steps(3, 1, 5, "sssss.A..A..A..A..A."); /* steps count from the start: the first local stretch is 1 step */
  check_steps(4, 2, 4, "ssssssssA...A...");
  check_steps(2, 9, 3, "sssssssssssssss");
  check_fragments(4, 1, 2, "0...0...0...", "..0...0...0.");
  check_fragments(4, 2, 2, "0.1.0.1.0.1.", "..0.1.0.1.0.");
  check_fragments(5, 3, 0, "01.2.01.2.01.2.", "01.2.01.2.01.2.");
  check_fragments(5, 3, 4, "01.2.01.2.01.2.", "....01.2.01.2.0");
  check_fragments(3, 3, 1, "012012012", ".01201201");
  /* All-reduces: the steps before the switch, and those of the rest with t mod H = 0. */
  for (uint64_t h = 1; h < 9; h++)
    for (uint64_t s = 0; s < 4; s++) {
      const shoal_local_sgd_plan p = { .period = h, .switch_epoch = s, .fragments = 1 };
      uint64_t sums = 0, expected = 0;
      for (uint64_t t = 0; t < 28; t++) sums += shoal_local_sgd_at(&p, t / 7, t) != SHOAL_LOCAL_SGD_ALONE;
      for (uint64_t t = 0; t < 28; t++) expected += t < 7 * s || t % h == 0;
      CHECK_EQ(sums, expected, "H %d, switch %d", (int)h, (int)s);
      for (uint64_t done = 0; done < 28;
           done++) { /* the next step in which all wait for each other; the epoch's end is not told */
        uint64_t next = done;
        while (next < 28 && shoal_local_sgd_at(&p, done / 7, next) == SHOAL_LOCAL_SGD_ALONE) next++;
        if (next < 28)
          CHECK_EQ(shoal_local_sgd_next(&p, done / 7, done), next + 1, "H %d, switch %d, %d done", (int)h, (int)s,
                   (int)done);
      }
    }
  return check_done();
}
