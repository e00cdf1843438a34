/* Local SGD's schedule: which steps average, before and after the switch. */
#include "check.h"
#include "method/local_sgd/schedule.h"

static void check_steps(uint64_t period, uint64_t switch_epoch, uint64_t per_epoch, const char *expected)
{
  char text[64] = "";
  for (uint64_t t = 0; expected[t]; t++) text[t] = "s.A"[shoal_local_sgd_at(period, switch_epoch, t / per_epoch, t)];
  CHECK_STR(text, expected, "H %d, switch %d", (int)period, (int)switch_epoch);
}

int main(void)
{
  check_steps(4, 0, 5, "A...A...A...A...A...");
  check_steps(1, 0, 5, "AAAAAAAAAA");
  check_steps(3, 1, 5, "sssss.A..A..A..A..A."); /* steps count from the start: the first local stretch is 1 step */
  check_steps(4, 2, 4, "ssssssssA...A...");
  check_steps(2, 9, 3, "sssssssssssssss");
  /* All-reduces: the steps before the switch, and those of the rest with t mod H = 0. */
  for (uint64_t h = 1; h < 9; h++)
    for (uint64_t s = 0; s < 4; s++) {
      uint64_t sums = 0, expected = 0;
      for (uint64_t t = 0; t < 28; t++) sums += shoal_local_sgd_at(h, s, t / 7, t) != SHOAL_LOCAL_SGD_ALONE;
      for (uint64_t t = 0; t < 28; t++) expected += t < 7 * s || t % h == 0;
      CHECK_EQ(sums, expected, "H %d, switch %d", (int)h, (int)s);
      for (uint64_t done = 0; done < 28;
           done++) { /* the next step in which all wait for each other; the epoch's end is not told */
        uint64_t next = done;
        while (next < 28 && shoal_local_sgd_at(h, s, done / 7, next) == SHOAL_LOCAL_SGD_ALONE) next++;
        if (next < 28)
          CHECK_EQ(shoal_local_sgd_next(h, s, done / 7, done), next + 1, "H %d, switch %d, %d done", (int)h, (int)s,
                   (int)done);
      }
    }
  return check_done();
}
