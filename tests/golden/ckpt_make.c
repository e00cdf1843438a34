/* Makes the golden checkpoints of the current format:  ckpt_make DIR  (one rank: DIR/v2-types.h5; two: DIR/v2-run.h5).
 *  ckpt_split then makes DIR/v2-split.h5 of the second.
 *
 * Run once per format version, by hand; the files then stand in checkpoints/golden for ever, because what counts is
 * that later versions read what an earlier one wrote.  No test runs this. */
#include "base/file.h"
#include "base/str.h"
#include "ckpt/together/writer.h"
#include "golden/ckpt_golden.h"
#include <stdio.h>
#include <stdlib.h>

static void put_types(shoal_ckpt_writer *w)
{
  uint64_t data[GOLDEN_MAX];
  for (int i = 0; i < GOLDEN_TYPES; i++) {
    const golden_set *s = &golden_types[i];
    golden_fill(s->type, (uint64_t)i, golden_elements(s), data);
    shoal_ckpt_put(w, s->name, s->type, s->ndim, s->dims, data);
  }
}

static void put_run(shoal_ckpt_writer *w, int rank)
{
  float x[GOLDEN_MAX];
  uint64_t position = 678;
  golden_fill(SHOAL_F32, 100, 12, x);
  shoal_ckpt_put(w, "model/fc.weight", SHOAL_F32, 2, (uint64_t[]){ 3, 4 }, x);
  golden_fill(SHOAL_F32, (uint64_t)rank, golden_length(rank), x);
  shoal_ckpt_put_replica(w, "weights", SHOAL_F32, golden_length(rank), x);
  shoal_ckpt_put_replica(w, "position", SHOAL_U64, 1, &position);
  shoal_ckpt_put_i64(w, "method/skip", 4);
  shoal_ckpt_put_f64(w, "method/plateau.best", 0.625);
}

static shoal_status make(shoal_group *g, const char *dir)
{
  int ranks = shoal_group_size(g);
  shoal_ckpt_info info = golden_info_2(ranks);
  shoal_ckpt_writer *w;
  char *path;
  SHOAL_CHECK(ranks <= GOLDEN_RANKS, SHOAL_ERR_USAGE, "start me with 1 or 2 ranks");
  SHOAL_TRY(shoal_ckpt_begin(g, dir, &info, 0, &w));
  if (ranks == 1)
    put_types(w);
  else
    put_run(w, shoal_group_rank(g));
  SHOAL_TRY(shoal_ckpt_commit(w, &path));
  char *name = shoal_path_join(dir, ranks == 1 ? "v2-types.h5" : "v2-run.h5");
  if (shoal_group_rank(g) == 0 && rename(path, name) != 0) perror(name);
  free(path);
  free(name);
  return SHOAL_OK;
}

int main(int argc, char **argv)
{
  shoal_world_options options = { 0 };
  shoal_world *world;
  if (argc != 2) return fprintf(stderr, "usage: %s DIR\n", argv[0]), 2;
  if (shoal_world_open(&options, &world) != SHOAL_OK) return 3;
  shoal_status st = make(shoal_world_control(world), argv[1]);
  shoal_world_close(world);
  return shoal_status_exit_code(st);
}
