/* What the fuzz targets share.  Each target feeds one reader with bytes that libFuzzer mutates; a fault is a crash, a
 * sanitizer's report, a hang, or a broken promise (FUZZ_CHECK).  Refusing bad input is right, whatever the message. */
#ifndef SHOAL_TESTS_FUZZ_H
#define SHOAL_TESTS_FUZZ_H
#include "base/log.h"
#include "base/status.h"
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define FUZZ_CHECK(cond)                                                                                               \
  do {                                                                                                                 \
    if (!(cond)) {                                                                                                     \
      fprintf(stderr, "%s:%d: FUZZ_CHECK(%s) failed\n", __FILE__, __LINE__, #cond);                                    \
      abort();                                                                                                         \
    }                                                                                                                  \
  } while (0)

/* A path for this process in memory; the same for the same name. */
static inline const char *fuzz_path(const char *name)
{
  static char path[4][128];
  static int next;
  const char *folder = getenv("TMPDIR");
  char *p = path[next++ % 4];
  snprintf(p, sizeof path[0], "%s/shoal-fuzz-%d-%s", folder ? folder : "/dev/shm", (int)getpid(), name);
  return p;
}

/* The bytes as a file under that path. */
static inline const char *fuzz_file(const char *name, const uint8_t *data, size_t n)
{
  const char *path = fuzz_path(name);
  shoal_log_set_level(SHOAL_LOG_ERROR); /* warnings about skipped parts are no news here */
  int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  FUZZ_CHECK(fd >= 0);
  FUZZ_CHECK(write(fd, data, n) == (ssize_t)n);
  close(fd);
  return path;
}

/* A text of the bytes, NUL added; the caller frees. */
static inline char *fuzz_text(const uint8_t *data, size_t n)
{
  char *text = malloc(n + 1);
  FUZZ_CHECK(text);
  memcpy(text, data, n);
  text[n] = '\0';
  return text;
}

/* Where output goes that is only made to see whether making it fails. */
static inline FILE *fuzz_sink(void)
{
  static FILE *sink;
  if (!sink) sink = fopen("/dev/null", "w");
  FUZZ_CHECK(sink);
  return sink;
}
#endif
