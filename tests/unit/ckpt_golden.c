/* Checkpoints written by earlier versions stay readable:  ckpt_golden FOLDER  reads every one of checkpoints/golden. */
#include "golden/ckpt_golden.h"
#include "base/file.h"
#include "base/str.h"
#include "check.h"
#include <inttypes.h>

static shoal_ckpt *open_golden(const char *dir, const char *name, int ranks)
{
  char *path = shoal_path_join(dir, name);
  shoal_ckpt *c = NULL;
  REQUIRE(shoal_ckpt_open(path, true, &c) == SHOAL_OK, "%s", path);
  const shoal_ckpt_info want = golden_info(ranks), *got = shoal_ckpt_get_info(c);
  CHECK_EQ(got->step, want.step, "%s: position", name);
  CHECK_EQ(got->epoch, want.epoch, "%s: position", name);
  CHECK_EQ(got->samples, want.samples, "%s: position", name);
  CHECK_EQ(got->size, want.size, "%s: position", name);
  CHECK_STR(got->run, want.run, "%s: texts", name);
  CHECK_STR(got->method, want.method, "%s: texts", name);
  CHECK_STR(got->model, want.model, "%s: texts", name);
  CHECK_STR(got->layout, want.layout, "%s: texts", name);
  CHECK_STR(got->config, want.config, "%s: texts", name);
  free(path);
  return c;
}

static void check_set(const shoal_ckpt *c, const char *name, shoal_dtype type, uint64_t salt, uint64_t n)
{
  uint64_t want[GOLDEN_MAX], got[GOLDEN_MAX];
  golden_fill(type, salt, n, want);
  CHECK_OK(shoal_ckpt_get(c, name, type, n, got), "%s", name);
  CHECK_BYTES(want, got, (size_t)n * shoal_dtype_size(type), "%s", name);
}

static void types(const char *dir)
{
  shoal_ckpt *c = open_golden(dir, "v1-types.h5", 1);
  const char *const *names;
  CHECK_EQ(shoal_ckpt_names(c, &names), GOLDEN_TYPES);
  for (int i = 0; i < GOLDEN_TYPES; i++) {
    const golden_set *s = &golden_types[i];
    shoal_dtype type;
    uint64_t dims[8];
    int ndim;
    CHECK_OK(shoal_ckpt_shape(c, s->name, &type, &ndim, dims));
    CHECK_EQ(type, s->type, "%s", s->name);
    CHECK_EQ(ndim, s->ndim, "%s", s->name);
    CHECK_BYTES(dims, s->dims, (size_t)ndim * sizeof *dims, "%s", s->name);
    check_set(c, s->name, s->type, (uint64_t)i, golden_elements(s));
  }
  shoal_ckpt_close(c);
}

static void run(const char *dir)
{
  shoal_ckpt *c = open_golden(dir, "v1-run.h5", GOLDEN_RANKS);
  int64_t skip = 0;
  double best = 0;
  check_set(c, "model/fc.weight", SHOAL_F32, 100, 12);
  for (int r = 0; r < GOLDEN_RANKS; r++) {
    char name[64];
    uint64_t position = 0;
    snprintf(name, sizeof name, "replica/%d/weights", r);
    check_set(c, name, SHOAL_F32, (uint64_t)r, golden_length(r));
    snprintf(name, sizeof name, "replica/%d/position", r);
    CHECK_OK(shoal_ckpt_get(c, name, SHOAL_U64, 1, &position), "%s", name);
    CHECK_EQ(position, 678, "%s", name);
  }
  CHECK_OK(shoal_ckpt_get_i64(c, "method/skip", &skip));
  CHECK_EQ(skip, 4);
  CHECK_OK(shoal_ckpt_get_f64(c, "method/plateau.best", &best));
  CHECK_EQ(best, 0.625);
  shoal_ckpt_close(c);
}

int main(int argc, char **argv)
{
  REQUIRE(argc == 2, "usage: %s FOLDER", argv[0]);
  types(argv[1]);
  run(argv[1]);
  return check_done();
}
