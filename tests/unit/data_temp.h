/* What the tests of the data layer share: a folder, small files, a data set whose samples say who they are. */
#ifndef SHOAL_TESTS_DATA_TEMP_H
#define SHOAL_TESTS_DATA_TEMP_H
#include "base/file.h"
#include "base/log.h"
#include "data/data_impl.h"
#include "h5_temp.h"
#include <stdarg.h>
#include <sys/stat.h>

/* Files in the folder whose names begin with a dot: what a writer that failed would leave behind. */
static inline int temp_leftovers(void)
{
  int n = 0;
  DIR *d = opendir(temp_dir);
  for (struct dirent *e; d && (e = readdir(d));)
    n += e->d_name[0] == '.' && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
  if (d) closedir(d);
  return n;
}

static inline const char *temp_text(const char *name, const char *text)
{
  const char *path = temp_path(name);
  temp_write(path, text, strlen(text));
  return path;
}

/* n samples per split; sample i is filled with values made of i (see the callers) and has label y(i). */
static inline void write_set(const char *path, shoal_data_kind kind, shoal_shape sample, int x_bytes, uint64_t train,
                             uint64_t test, int64_t classes, void (*fill)(uint64_t i, void *x, int32_t *y))
{
  shoal_data_spec spec = { kind, sample, x_bytes, "test" };
  shoal_data_writer *w = NULL;
  size_t bytes = (size_t)shoal_shape_count(&sample) * (size_t)x_bytes;
  void *x = malloc(bytes);
  REQUIRE(x, "making %s", path);
  REQUIRE(shoal_data_writer_create(path, &spec, &w) == SHOAL_OK, "making %s", path);
  for (uint64_t i = 0; i < train + test; i++) {
    int32_t y = 0;
    fill(i, x, &y);
    REQUIRE(shoal_data_writer_add(w, i < train ? SHOAL_TRAIN : SHOAL_TEST, 1, x, &y) == SHOAL_OK, "adding to %s", path);
  }
  CHECK_OK(shoal_data_writer_commit(w, classes, NULL));
  shoal_data_writer_destroy(w);
  free(x);
}
#endif
