/* Pauses are found between looks at the clock, and only what lies between two readings counts. */
#include "base/pause.h"
#include "check.h"

static const uint64_t S = 1000000000;

int main(void)
{
  CHECK_EQ(shoal_paused_ns(1 * S, 90 * S), 0u, "nobody looks yet");
  for (uint64_t t = 100; t <= 110; t++) shoal_pause_look(t * S);
  CHECK_EQ(shoal_paused_ns(100 * S, 111 * S), 0u, "looks a second apart are late, and no pause");
  shoal_pause_look(131 * S); /* 20 s later: from a quarter of a second after the look before it */
  const uint64_t pause = 20 * S - S / 4;
  CHECK_EQ(shoal_paused_ns(100 * S, 131 * S), pause);
  CHECK_EQ(shoal_paused_ns(100 * S, 121 * S), 10 * S - S / 4, "the part before");
  CHECK_EQ(shoal_paused_ns(121 * S, 140 * S - 8 * S), 10 * S, "the part after");
  CHECK_EQ(shoal_paused_ns(131 * S, 132 * S), 0u);
  CHECK_EQ(shoal_paused_ns(50 * S, 60 * S), 0u);
  CHECK_EQ(shoal_paused_ns(100 * S, 142 * S), 2 * pause - 10 * S, "who asks first after a pause knows of it");
  shoal_pause_look(142 * S);
  CHECK_EQ(shoal_paused_ns(100 * S, 142 * S), 2 * pause - 10 * S, "it counts once");
  return check_done();
}
