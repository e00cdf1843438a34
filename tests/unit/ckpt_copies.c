/* Memory for copies: it is there while it is filled ahead, with what was written to it, and grows. */
#include "base/file.h"
#include "check.h"
#include "ckpt/together/copies.h"
#include <unistd.h>

enum { MIB = 1 << 20, BYTES = 96 * MIB };

/* Of this process, in memory. */
static long resident(void)
{
  long all = 0, there = 0;
  FILE *f = fopen("/proc/self/statm", "re");
  REQUIRE(f, "/proc/self/statm");
  REQUIRE(fscanf(f, "%ld %ld", &all, &there) == 2, "/proc/self/statm");
  fclose(f);
  return there * sysconf(_SC_PAGESIZE);
}

int main(void)
{
  shoal_ckpt_copies m = { 0 };
  const long before = resident();
  shoal_ckpt_copies_prepare(&m, BYTES);
  REQUIRE(m.at, "room");
  memset(m.at, 7, BYTES); /* while it is being filled */
  for (int i = 0; i < 100 && m.fills && resident() < before + BYTES; i++) usleep(10000);
  for (size_t i = 0; i < BYTES; i += 4096) CHECK_EQ(((unsigned char *)m.at)[i], 7, "byte %zu", i);
  const void *at = m.at;
  CHECK(shoal_ckpt_copies_make(&m, BYTES), "as much");
  CHECK(m.at == at, "what is there is kept");
  CHECK(shoal_ckpt_copies_make(&m, BYTES + 1), "more");
  CHECK_EQ(m.bytes, (size_t)BYTES + 1);
  shoal_ckpt_copies_free(&m);
  CHECK(!m.at, "freed");
  shoal_ckpt_copies_prepare(&m, BYTES); /* freed while it is being filled */
  shoal_ckpt_copies_free(&m);
  CHECK_LT(resident(), before + BYTES / 2, "given back");

  shoal_ckpt_copies_prepare(&m, BYTES); /* nobody touches it */
  for (int i = 0; i < 500 && resident() < before + BYTES; i++) usleep(10000);
  CHECK_GT(resident(), before + BYTES - MIB, "there before it is needed (Linux 5.14)");
  shoal_ckpt_copies_free(&m);
  return check_done();
}
