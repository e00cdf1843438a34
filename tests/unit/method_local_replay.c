/* The replay buffer's bookkeeping: which entry is chosen, what is overwritten, and the strict round of equal blocks, in
 * which every minibatch is used exactly once. */
#include "check.h"
#include "method/local/replay.h"

static int pick(shoal_local_replay *b)
{
  uint64_t age;
  return shoal_local_replay_select(b, &age);
}

static void check_choice(void)
{
  shoal_local_replay b;
  uint64_t age = 9;
  CHECK_OK(shoal_local_replay_init(3, 0, &b));
  CHECK_EQ(pick(&b), -1, "an empty buffer");
  CHECK_EQ(b.used, 0);
  shoal_local_replay_add(&b); /* slot 0 */
  shoal_local_replay_add(&b); /* slot 1 */
  CHECK_EQ(pick(&b), 1, "the newer of two unused");
  CHECK_EQ(pick(&b), 0, "the unused one, though older");
  CHECK_EQ(pick(&b), 1, "equal counts: the newer first");
  CHECK_EQ(pick(&b), 0);
  shoal_local_replay_add(&b); /* slot 2 */
  CHECK_EQ(shoal_local_replay_next(&b), 0, "the oldest goes next");
  shoal_local_replay_add(&b); /* slot 0 again: had been used */
  CHECK_EQ(b.unused, 0, "overwritten after use");
  CHECK_EQ(b.written, 4);
  /* The buffer has wrapped: slot 1 is the oldest, at the write pointer, and must not rank as the newest. */
  CHECK_EQ(shoal_local_replay_select(&b, &age), 0, "slot 0 is the newest of the unused");
  CHECK_EQ(age, 0);
  CHECK_EQ(shoal_local_replay_select(&b, &age), 2, "then slot 2");
  CHECK_EQ(age, 1);
  CHECK_EQ(shoal_local_replay_select(&b, &age), 0, "0 and 2 were used once, 1 twice");
  CHECK_EQ(age, 0);
  shoal_local_replay_add(&b);
  shoal_local_replay_add(&b);
  shoal_local_replay_add(&b);
  CHECK_EQ(b.unused, 0, "all had been used");
  shoal_local_replay_add(&b);
  CHECK_EQ(b.unused, 1, "one was overwritten unused");
  CHECK_EQ(b.used, 7);
  shoal_local_replay_fini(&b);
}

static void check_limit(void)
{
  shoal_local_replay b;
  CHECK_OK(shoal_local_replay_init(2, 2, &b));
  shoal_local_replay_add(&b);
  CHECK_EQ(pick(&b), 0, "max_uses 2 allows one use");
  CHECK_EQ(pick(&b), -1);
  shoal_local_replay_add(&b);
  CHECK_EQ(pick(&b), 1, "and one of the next");
  CHECK_EQ(pick(&b), -1);
  shoal_local_replay_fini(&b);
  CHECK_OK(shoal_local_replay_init(2, 1, &b));
  shoal_local_replay_add(&b);
  CHECK_EQ(pick(&b), -1, "max_uses 1 allows none");
  shoal_local_replay_fini(&b);
  CHECK_OK(shoal_local_replay_init(1, 3, &b)); /* capacity 1 keeps account too */
  shoal_local_replay_add(&b);
  CHECK_EQ(pick(&b), 0, "capacity 1");
  CHECK_EQ(pick(&b), 0);
  CHECK_EQ(pick(&b), -1);
  shoal_local_replay_fini(&b);
}

/* Blocks 1..4 take turns; block k > 1 trains on buffer k - 2.  What is stored is the minibatch's number. */
static void check_round(int size)
{
  enum { BLOCKS = 4, ROUNDS = 50, SIZE_MAX_ = 8 };
  shoal_local_replay b[BLOCKS - 1];
  int stored[BLOCKS - 1][SIZE_MAX_], seen[BLOCKS][ROUNDS] = { { 0 } };
  for (int k = 0; k < BLOCKS - 1; k++) CHECK_OK(shoal_local_replay_init(size, 2, &b[k]));
  for (int t = 0; t < ROUNDS; t++)
    for (int k = 0; k < BLOCKS; k++) {
      int slot = k ? pick(&b[k - 1]) : 0, batch = k && slot >= 0 ? stored[k - 1][slot] : t;
      CHECK_GE(slot, 0, "block %d skips its turn in round %d", k + 1, t);
      seen[k][batch]++;
      if (k == BLOCKS - 1) continue;
      stored[k][shoal_local_replay_next(&b[k])] = batch;
      shoal_local_replay_add(&b[k]);
    }
  for (int k = 0; k < BLOCKS; k++)
    for (int t = 0; t < ROUNDS; t++) CHECK_EQ(seen[k][t], 1, "block %d, minibatch %d", k + 1, t);
  for (int k = 0; k < BLOCKS - 1; k++) shoal_local_replay_fini(&b[k]);
}

int main(void)
{
  check_choice();
  check_limit();
  for (int size = 2; size <= 8; size++) check_round(size);
  return check_done();
}
