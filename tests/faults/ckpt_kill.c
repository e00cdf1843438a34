/* A writer is killed at a random moment of a save.
 *
 * Whatever the moment, the folder afterwards holds the old checkpoint whole, or the new one whole, and `latest` finds
 * it; what was half-written has a temporary name and is swept.  The save is large enough (some MiB in many data sets)
 * that kills land before, in and after every phase; the moments are spread evenly over the time a save takes.
 * SHOAL_FULL=1 kills 200 writers instead of 20. */
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "unit/ckpt_together.h"
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { SETS = 60, N = 20000 };

static const char *dir;

static void save(shoal_group *g, uint64_t step)
{
  static float x[N];
  shoal_ckpt_info info;
  shoal_ckpt_writer *w;
  fixture_info(step, 1, &info);
  REQUIRE(shoal_ckpt_begin(g, dir, &info, 0, &w) == SHOAL_OK, "begin");
  for (int i = 0; i < SETS; i++) {
    char name[32];
    snprintf(name, sizeof name, "model/layer%d.weight", i);
    fixture_fill(SHOAL_F32, step + (uint64_t)i, N, x);
    shoal_ckpt_put(w, name, SHOAL_F32, 1, (uint64_t[]){ N }, x);
  }
  REQUIRE(shoal_ckpt_commit(w, NULL) == SHOAL_OK, "commit");
}

static bool whole(const char *path, uint64_t step)
{
  static float want[N], got[N];
  shoal_ckpt *c;
  if (shoal_ckpt_open(path, true, &c) != SHOAL_OK) return false;
  bool same = shoal_ckpt_get_info(c)->step == step;
  for (int i = 0; same && i < SETS; i++) {
    char name[32];
    snprintf(name, sizeof name, "model/layer%d.weight", i);
    fixture_fill(SHOAL_F32, step + (uint64_t)i, N, want);
    same = shoal_ckpt_get(c, name, SHOAL_F32, N, got) == SHOAL_OK && memcmp(want, got, sizeof want) == 0;
  }
  shoal_ckpt_close(c);
  return same;
}

/* The writer: says when it begins to save, so that its start-up is not what gets killed. */
static pid_t start_writer(uint64_t step)
{
  int ready[2];
  char byte;
  REQUIRE(pipe(ready) == 0, "pipe");
  pid_t child = fork();
  REQUIRE(child >= 0, "fork");
  if (child == 0) {
    shoal_world_options options = { 0 };
    shoal_world *world;
    REQUIRE(shoal_world_open(&options, &world) == SHOAL_OK, "world");
    REQUIRE(write(ready[1], "x", 1) == 1, "pipe");
    save(shoal_world_control(world), step);
    shoal_world_close(world);
    _exit(0);
  }
  close(ready[1]);
  REQUIRE(read(ready[0], &byte, 1) == 1, "the writer starts");
  close(ready[0]);
  return child;
}

static void sleep_ns(uint64_t ns)
{
  struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
  nanosleep(&t, NULL);
}

int main(void)
{
  const char *full = getenv("SHOAL_FULL");
  int kills = full && full[0] == '1' ? 200 : 20, before = 0, during = 0, after = 0;
  uint64_t last = 1, longest = 0;
  dir = fixture_make();
  shoal_log_set_level(SHOAL_LOG_WARN);
  for (int i = 0; i < 3; i++) { /* how long a save takes here; the first one also fills the caches */
    uint64_t start = shoal_now_ns();
    waitpid(start_writer(last), NULL, 0);
    uint64_t took = shoal_now_ns() - start;
    if (i > 0 && took > longest) longest = took;
  }
  for (int i = 0; i < kills; i++) {
    uint64_t next = last + 1, step = 0;
    shoal_rng_block r = shoal_rng(1, SHOAL_RNG_TEST, (uint64_t)i, 0);
    pid_t child = start_writer(next);
    sleep_ns((uint64_t)((double)longest * 1.1 * (i + shoal_rng_unit(r.v[0])) / kills));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    int entries = fixture_count(dir);
    char *path = NULL;
    CHECK_OK(shoal_ckpt_latest(dir, &path, &step));
    REQUIRE(path, "kill %d: latest is %s", i, path ? path : "none");
    REQUIRE(step == last || step == next, "kill %d: latest is %s", i, path ? path : "none");
    CHECK(whole(path, step), "kill %d: %s", i, path);
    CHECK_OK(shoal_ckpt_sweep(dir));
    int swept = entries - fixture_count(dir);
    before += step == last && swept == 0;
    during += swept;
    after += step == next;
    CHECK_OK(shoal_ckpt_prune(dir, 1, SHOAL_CKPT_NOT_ONE));
    CHECK_EQ(fixture_count(dir), 1, "kill %d: one file is left, the latest", i);
    last = step;
    free(path);
  }
  fprintf(stderr, "%d kills over %.1f ms: %d before the file, %d in it, %d after\n", kills, (double)longest * 1.1e-6,
          before, during, after);
  CHECK_GT(during, 0, "some moments lie inside the save"); /* how many depends on the load of the machine */
  return check_done();
}
