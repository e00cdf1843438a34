/* A folder of its own for every test of h5 and trace, and the message a refused call left behind. */
#ifndef SHOAL_TESTS_H5_TEMP_H
#define SHOAL_TESTS_H5_TEMP_H
#include "base/status.h"
#include "check.h"
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

static char temp_dir[PATH_MAX - 300];
static pid_t temp_owner;

/* Path of a file in the folder: one text per name, valid until the end. */
static inline const char *temp_path(const char *name)
{
  static char paths[64][PATH_MAX];
  char path[PATH_MAX];
  int i = 0;
  snprintf(path, sizeof path, "%s/%.250s", temp_dir, name);
  while (i < 63 && paths[i][0] && strcmp(paths[i], path) != 0) i++;
  return strcpy(paths[i], path);
}

/* The path, where no file is any more: files are only made anew. */
static inline const char *temp_fresh(const char *path)
{
  unlink(path);
  return path;
}

/* Runs when the test ends, also by REQUIRE. */
static void temp_remove(void)
{
  if (getpid() != temp_owner) return; /* a child that fails leaves the folder to its parent */
  DIR *d = opendir(temp_dir);
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') unlink(temp_path(e->d_name));
  if (d) closedir(d);
  rmdir(temp_dir);
}

static inline void temp_make(void)
{
  const char *root = getenv("TMPDIR");
  snprintf(temp_dir, sizeof temp_dir, "%s/shoal-test-XXXXXX", root ? root : "/tmp");
  REQUIRE(mkdtemp(temp_dir), "a temporary folder %s", temp_dir);
  temp_owner = getpid();
  atexit(temp_remove);
}

static inline void temp_write(const char *path, const void *data, size_t n)
{
  FILE *f = fopen(path, "wb");
  REQUIRE(f, "writing %s", path);
  REQUIRE(fwrite(data, 1, n, f) == n, "writing %s", path);
  REQUIRE(fclose(f) == 0, "writing %s", path);
}

/* CHECK_REFUSED(call, code, "words"): the call fails with that code and one line that holds the words. */
static inline void check_refused(shoal_status got, shoal_status want, const char *words, const char *call, int line)
{
  const char *said = check_error();
  bool fine = got == want && strstr(said, words) && !strchr(said, '\n');
  if (!fine) {
    check_failures++;
    fprintf(stderr, "line %d: %s gave %s, said \"%s\"; wanted %s with \"%s\"\n", line, call, shoal_status_name(got),
            said, shoal_status_name(want), words);
  }
}
#define CHECK_REFUSED(call, code, words)                                                                               \
  do {                                                                                                                 \
    shoal_status got_ = (call);                                                                                        \
    check_refused(got_, (code), (words), #call, __LINE__);                                                             \
  } while (0)
#endif
