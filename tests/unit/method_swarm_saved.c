/* Distances in a checkpoint: all of them come back; one number, as older checkpoints have it, or a vector cut into
 * other blocks counts with its largest for every block; and anything but a vector of doubles is refused. */
#include "method/swarm/swarm.h"
#include "unit/ckpt_fixture.h"

enum { N = 2 * SHOAL_QUANT_BLOCK + 100, BLOCKS = 3 };

static shoal_ckpt *saved(shoal_world *w, const char *dir)
{
  static const double same[BLOCKS] = { 0.5, 0, 4 }, shorter[2] = { 0.25, 8 }, longer[5] = { 1, 2, 3, 9, 5 }, one = 7;
  static const float floats[BLOCKS] = { 1, 2, 3 };
  shoal_ckpt_info info;
  shoal_ckpt_writer *c;
  shoal_ckpt *out;
  char *path;
  fixture_info(1, 1, &info);
  REQUIRE(shoal_ckpt_begin(shoal_world_control(w), dir, &info, 0, &c) == SHOAL_OK, "begin");
  shoal_ckpt_put_replica(c, "same", SHOAL_F64, BLOCKS, same);
  shoal_ckpt_put_replica(c, "shorter", SHOAL_F64, 2, shorter);
  shoal_ckpt_put_replica(c, "longer", SHOAL_F64, 5, longer);
  shoal_ckpt_put_replica(c, "one", SHOAL_F64, 1, &one);
  shoal_ckpt_put_replica(c, "floats", SHOAL_F32, BLOCKS, floats);
  shoal_ckpt_put_replica(c, "one_float", SHOAL_F32, 1, floats);
  shoal_ckpt_put_f64(c, "method/scalar", one);
  REQUIRE(shoal_ckpt_commit(c, &path) == SHOAL_OK, "commit");
  REQUIRE(shoal_ckpt_open(path, true, &out) == SHOAL_OK, "open");
  free(path);
  return out;
}

int main(void)
{
  static const struct {
    const char *name;
    double distance[BLOCKS]; /* all 0: refused */
  } rows[] = { { "replica/0/same", { 0.5, 0, 4 } }, { "replica/0/shorter", { 8, 8, 8 } },
               { "replica/0/longer", { 9, 9, 9 } }, { "replica/0/one", { 7, 7, 7 } },
               { "replica/0/floats", { 0 } },       { "replica/0/one_float", { 0 } },
               { "method/scalar", { 0 } },          { "replica/0/nothing", { 0 } } };
  static float x[N];
  static const double before[BLOCKS] = { 1, 2, 3 };
  shoal_world_options options = { 0 };
  shoal_swarm_rules rules = { .variant = SHOAL_SWARM_BLOCKING, .bits = 8, .h = 1 };
  shoal_world *w;
  shoal_backend *backend;
  shoal_swarm *s;
  REQUIRE(shoal_backend_open("ref", 1, &backend) == SHOAL_OK, "backend");
  REQUIRE(shoal_world_open(&options, &w) == SHOAL_OK, "world");
  REQUIRE(shoal_swarm_create(w, backend, &rules, x, N, &s) == SHOAL_OK, "swarm");
  REQUIRE(s->blocks == BLOCKS, "swarm");
  shoal_ckpt *c = saved(w, fixture_make());
  for (size_t r = 0; r < SHOAL_COUNT(rows); r++) {
    bool fine = rows[r].distance[0] > 0;
    memcpy(s->distance, before, sizeof before);
    CHECK_EQ(shoal_swarm_load_distances(s, c, rows[r].name) == SHOAL_OK, fine, "%s", rows[r].name);
    for (size_t b = 0; b < BLOCKS; b++)
      CHECK_EQ(s->distance[b], (fine ? rows[r].distance : before)[b], "%s, block %zu", rows[r].name, b);
  }
  shoal_ckpt_close(c);
  shoal_swarm_destroy(s);
  shoal_world_close(w);
  shoal_backend_close(backend);
  return check_done();
}
