/* What the tests of ckpt/ share: a folder of their own, a small checkpoint whose every number is known, bytes to spoil.
 *
 * The numbers are functions of name and index, so a reader can be checked without keeping what was written. */
#ifndef SHOAL_TESTS_CKPT_FIXTURE_H
#define SHOAL_TESTS_CKPT_FIXTURE_H
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "check.h"
#include "ckpt/draft.h"
#include "ckpt/folder.h"
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

static char fixture_dir[256];
static pid_t fixture_owner;

static inline void fixture_remove(void)
{
  if (getpid() != fixture_owner) return; /* a forked child leaves it */
  char *command = shoal_strdup_printf("rm -rf '%s'", fixture_dir);
  if (system(command) != 0) fprintf(stderr, "%s stays\n", fixture_dir);
  free(command);
}

/* A new folder below TMPDIR, removed at exit. */
static inline const char *fixture_make(void)
{
  const char *base = getenv("TMPDIR");
  snprintf(fixture_dir, sizeof fixture_dir, "%s/shoal-ckpt-XXXXXX", base && base[0] ? base : "/tmp");
  REQUIRE(mkdtemp(fixture_dir), "cannot make %s", fixture_dir);
  fixture_owner = getpid();
  atexit(fixture_remove);
  return fixture_dir;
}

/* f32 and integer alike: small enough to be exact in every type. */
static inline double fixture_value(uint64_t salt, uint64_t i)
{
  return (double)((i * 7 + salt * 13) % 101);
}

static inline void fixture_fill(shoal_dtype type, uint64_t salt, uint64_t n, void *out)
{
  for (uint64_t i = 0; i < n; i++) {
    double v = fixture_value(salt, i);
    switch (type) {
    case SHOAL_F32:
      ((float *)out)[i] = (float)v;
      break;
    case SHOAL_F64:
      ((double *)out)[i] = v;
      break;
    case SHOAL_I32:
      ((int32_t *)out)[i] = (int32_t)v;
      break;
    case SHOAL_I64:
      ((int64_t *)out)[i] = (int64_t)v;
      break;
    case SHOAL_U8:
      ((uint8_t *)out)[i] = (uint8_t)v;
      break;
    case SHOAL_U16:
      ((uint16_t *)out)[i] = (uint16_t)v;
      break;
    case SHOAL_U32:
      ((uint32_t *)out)[i] = (uint32_t)v;
      break;
    case SHOAL_U64:
      ((uint64_t *)out)[i] = (uint64_t)v;
      break;
    }
  }
}

typedef struct {
  const char *name;
  shoal_dtype type;
  int ndim;
  uint64_t dims[8];
} fixture_set;

static const fixture_set fixture_sets[] = {
  { "model/conv1.weight", SHOAL_F32, 4, { 4, 3, 3, 3 } },
  { "model/conv1.bias", SHOAL_F32, 1, { 4 } },
  { "model/bn.mean", SHOAL_F64, 1, { 5 } },
  { "model/empty", SHOAL_F32, 2, { 0, 7 } },
  { "method/sum", SHOAL_F32, 1, { 300 } },
  { "method/i32", SHOAL_I32, 2, { 3, 2 } },
  { "method/i64", SHOAL_I64, 3, { 2, 1, 2 } },
  { "method/u8", SHOAL_U8, 1, { 11 } },
  { "method/u16", SHOAL_U16, 8, { 1, 2, 1, 2, 1, 2, 1, 2 } },
  { "method/u32", SHOAL_U32, 1, { 9 } },
  { "method/u64", SHOAL_U64, 1, { 1 } },
  { "method/step", SHOAL_I64, 0, { 0 } },
  { "method/loss", SHOAL_F64, 0, { 0 } },
};
enum { FIXTURE_SETS = (int)SHOAL_COUNT(fixture_sets), FIXTURE_REPLICA = 37, FIXTURE_LARGEST = 8 * 300 };

static inline uint64_t fixture_elements(const fixture_set *f)
{
  uint64_t n = 1;
  for (int i = 0; i < f->ndim; i++) n *= f->dims[i];
  return n;
}

static inline void fixture_info(uint64_t step, int64_t size, shoal_ckpt_info *info)
{
  *info = (shoal_ckpt_info){ .step = step, .epoch = step / 10, .samples = step * 3, .size = size };
  snprintf(info->run, sizeof info->run, "fixture");
  snprintf(info->method, sizeof info->method, "daso");
  snprintf(info->model, sizeof info->model, "resnet20");
  snprintf(info->layout, sizeof info->layout, "2x2");
  info->config = "run: { name: fixture }\nmodel: { name: resnet20 }\n";
}

/* A whole checkpoint, written by this process alone; its path, which the caller frees. */
static inline char *fixture_write(const char *dir, uint64_t step)
{
  shoal_ckpt_info info;
  shoal_ckpt_draft d = { 0 };
  uint64_t data[FIXTURE_LARGEST / 8], n = FIXTURE_REPLICA;
  char *path = shoal_strdup_printf("%s/step-%09" PRIu64 ".h5", dir, step);
  fixture_info(step, 1, &info);
  REQUIRE(shoal_ckpt_draft_open(&d, path, &info, 0) == SHOAL_OK, "open");
  for (int i = 0; i < FIXTURE_SETS; i++) {
    const fixture_set *f = &fixture_sets[i];
    fixture_fill(f->type, step + (uint64_t)i, fixture_elements(f), data);
    REQUIRE(shoal_ckpt_draft_put(&d, f->name, f->type, f->ndim, f->dims, data) == SHOAL_OK, "%s", f->name);
  }
  fixture_fill(SHOAL_F32, step, n, data);
  REQUIRE(shoal_ckpt_draft_put(&d, "replica/0/weights", SHOAL_F32, 1, &n, data) == SHOAL_OK, "weights");
  REQUIRE(shoal_ckpt_draft_finish(&d) == SHOAL_OK, "finish");
  shoal_ckpt_draft_discard(&d);
  return path;
}

/* Everything of a fixture, value for value; true when all of it is there. */
static inline bool fixture_matches(const shoal_ckpt *c, uint64_t step)
{
  uint64_t want[FIXTURE_LARGEST / 8], got[FIXTURE_LARGEST / 8];
  for (int i = 0; i < FIXTURE_SETS; i++) {
    const fixture_set *f = &fixture_sets[i];
    uint64_t n = fixture_elements(f), dims[8];
    shoal_dtype type;
    int ndim;
    if (shoal_ckpt_shape(c, f->name, &type, &ndim, dims) != SHOAL_OK || type != f->type || ndim != f->ndim)
      return false;
    if (memcmp(dims, f->dims, (size_t)ndim * sizeof *dims) != 0) return false;
    fixture_fill(f->type, step + (uint64_t)i, n, want);
    if (shoal_ckpt_get(c, f->name, f->type, n, got) != SHOAL_OK) return false;
    if (memcmp(want, got, (size_t)n * shoal_dtype_size(f->type)) != 0) return false;
  }
  return shoal_ckpt_get_info(c)->step == step;
}

static inline void fixture_read(const char *path, unsigned char **bytes, size_t *n)
{
  struct stat info;
  int fd = open(path, O_RDONLY);
  REQUIRE(fd >= 0, "open %s", path);
  REQUIRE(fstat(fd, &info) == 0, "open %s", path);
  *n = (size_t)info.st_size;
  *bytes = malloc(*n + 1);
  REQUIRE(*bytes, "read %s", path);
  REQUIRE(read(fd, *bytes, *n) == (ssize_t)*n, "read %s", path);
  close(fd);
}

static inline void fixture_spoil(const char *path, const void *bytes, size_t n)
{
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  REQUIRE(fd >= 0, "write %s", path);
  REQUIRE(write(fd, bytes, n) == (ssize_t)n, "write %s", path);
  REQUIRE(close(fd) == 0, "write %s", path);
}

/* Entries of a folder without "." and "..". */
static inline int fixture_count(const char *dir)
{
  char *command = shoal_strdup_printf("ls -A '%s' | wc -l", dir);
  FILE *p = popen(command, "r");
  int n = -1;
  REQUIRE(p, "%s", command);
  REQUIRE(fscanf(p, "%d", &n) == 1, "%s", command);
  pclose(p);
  free(command);
  return n;
}

/* What a function printed into a FILE. */
typedef struct {
  FILE *file;
  char *text;
  size_t n;
} fixture_output;
static inline FILE *fixture_capture(fixture_output *o)
{
  *o = (fixture_output){ 0 };
  o->file = open_memstream(&o->text, &o->n);
  REQUIRE(o->file, "open_memstream");
  return o->file;
}
static inline const char *fixture_text(fixture_output *o)
{
  fflush(o->file);
  return o->text;
}
static inline void fixture_release(fixture_output *o)
{
  fclose(o->file);
  free(o->text);
}
#endif
