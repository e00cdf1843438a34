/* Checkpoints written by earlier versions stay readable:  ckpt_golden FOLDER  reads every one of checkpoints/golden. */
#include "golden/ckpt_golden.h"
#include "base/file.h"
#include "base/str.h"
#include "check.h"
#include <inttypes.h>

static void check_data(const shoal_ckpt_data *got, const shoal_ckpt_data *want, const char *name)
{
  CHECK_STR(got->kind, want->kind, "%s", name);
  CHECK_EQ(got->ndim, want->ndim, "%s", name);
  CHECK_BYTES(want->sample, got->sample, sizeof want->sample, "%s", name);
  CHECK_EQ(got->classes, want->classes, "%s", name);
  CHECK_STR(got->class_names, want->class_names, "%s", name);
  REQUIRE(got->scales == want->scales, "%s", name);
  CHECK_BYTES(want->mean, got->mean, want->scales * sizeof *want->mean, "%s", name);
  CHECK_BYTES(want->std, got->std, want->scales * sizeof *want->std, "%s", name);
}

static shoal_ckpt *open_golden(const char *dir, const char *name, int ranks)
{
  char *path = shoal_path_join(dir, name);
  shoal_ckpt *c = NULL;
  REQUIRE(shoal_ckpt_open(path, true, &c) == SHOAL_OK, "%s", path);
  const bool first = strncmp(name, "v1-", 3) == 0;
  const shoal_ckpt_info want = first ? golden_info(ranks) : golden_info_2(ranks), *got = shoal_ckpt_get_info(c);
  CHECK_EQ(got->step, want.step, "%s: position", name);
  CHECK_EQ(got->epoch, want.epoch, "%s: position", name);
  CHECK_EQ(got->samples, want.samples, "%s: position", name);
  CHECK_EQ(got->size, want.size, "%s: position", name);
  CHECK_STR(got->run, want.run, "%s: texts", name);
  CHECK_STR(got->method, want.method, "%s: texts", name);
  CHECK_STR(got->model, want.model, "%s: texts", name);
  CHECK_STR(got->layout, want.layout, "%s: texts", name);
  CHECK_STR(got->config, want.config, "%s: texts", name);
  if (!first) {
    CHECK_STR(got->layout_hash, want.layout_hash, "%s: texts", name);
    CHECK_STR(got->placement, want.placement, "%s: texts", name);
    check_data(&got->data, &want.data, name);
  }
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

static void types(const char *dir, const char *file)
{
  shoal_ckpt *c = open_golden(dir, file, 1);
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

static void run(const char *dir, const char *file, size_t shards)
{
  shoal_ckpt *c = open_golden(dir, file, GOLDEN_RANKS);
  CHECK_EQ(shoal_ckpt_get_index(c)->n_shards, shards, "%s", file);
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
  types(argv[1], "v1-types.h5");
  run(argv[1], "v1-run.h5", 0);
  types(argv[1], "v2-types.h5");
  run(argv[1], "v2-run.h5", 0);
  run(argv[1], "v2-split.h5", 3);
  return check_done();
}
