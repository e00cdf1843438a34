/* Allocations that fail on demand: the n-th of this program's own calls finds no memory.
 *
 * Link with --wrap for each of them.  Only calls from our own code count, not those inside shared libraries:
 * HDF5 does not survive a failed malloc.  Small reallocations are let through, because base/str.h ends the program when
 * there is no memory for a text.  Calls in child processes, which try files out, count with this program's. */
#ifndef SHOAL_TESTS_NO_MEMORY_H
#define SHOAL_TESTS_NO_MEMORY_H
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { NO_MEMORY_SMALL = 4096 };

static int64_t *no_memory_calls; /* shared with child processes */
static int64_t no_memory_at;     /* 0: none fails */

/* Let the n-th allocation from here on fail, once. */
static inline void no_memory_begin(int64_t n)
{
  if (!no_memory_calls) {
    void *page = mmap(NULL, sizeof *no_memory_calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) abort();
    no_memory_calls = page;
  }
  *no_memory_calls = 0;
  no_memory_at = n;
}

/* True if that allocation was reached. */
static inline bool no_memory_end(void)
{
  bool failed = no_memory_at > 0 && *no_memory_calls >= no_memory_at;
  no_memory_at = 0;
  return failed;
}

static bool refuse(void)
{
  if (no_memory_at == 0 || ++*no_memory_calls != no_memory_at) return false;
  errno = ENOMEM;
  return true;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
int __real_posix_memalign(void **out, size_t align, size_t n);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
int __wrap_posix_memalign(void **out, size_t align, size_t n);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);

void *__wrap_malloc(size_t n)
{
  return refuse() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
  return refuse() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
  return n > NO_MEMORY_SMALL && refuse() ? NULL : __real_realloc(p, n);
}

/* What it leaves in *out when it fails is not to be used, so it is made sure that nobody does. */
int __wrap_posix_memalign(void **out, size_t align, size_t n)
{
  if (!refuse()) return __real_posix_memalign(out, align, n);
  *out = (void *)UINTPTR_MAX;
  return ENOMEM;
}

char *__wrap_strdup(const char *text)
{
  return refuse() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t n)
{
  return refuse() ? NULL : __real_strndup(text, n);
}
#endif
