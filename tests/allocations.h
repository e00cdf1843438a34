/* Counts allocations: every way into the C allocator, separately for calls from this program (all of Shoal is in it) and from
 * shared libraries.  Only while `counting` is set.  To be included in one source of a program.  Where the allocator belongs to a
 * sanitizer, or is not glibc's, COUNTS_ALLOCATIONS is not defined, and nothing else. */
#ifndef SHOAL_TESTS_ALLOCATIONS_H
#define SHOAL_TESTS_ALLOCATIONS_H
#include <errno.h> /* and with it __GLIBC__ */
#include <stdint.h>
#include <stdlib.h>
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
#define COUNTS_ALLOCATIONS

extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);
extern void *__libc_memalign(size_t align, size_t n);
void *memalign(size_t align, size_t n);

extern char __executable_start[], etext[]; /* from the linker */

static volatile long own, foreign;
static volatile int counting;

static void count(const void *caller)
{
  uintptr_t at = (uintptr_t)caller;
  if (!counting) return;
  if (at >= (uintptr_t)__executable_start && at < (uintptr_t)etext)
    __atomic_add_fetch(&own, 1, __ATOMIC_RELAXED);
  else
    __atomic_add_fetch(&foreign, 1, __ATOMIC_RELAXED);
}
#define COUNT() count(__builtin_return_address(0))
#define HOOK    __attribute__((noinline)) /* so that the return address is the caller's */

HOOK void *malloc(size_t n)
{
  COUNT();
  return __libc_malloc(n);
}

HOOK void *calloc(size_t n, size_t size)
{
  COUNT();
  return __libc_calloc(n, size);
}

HOOK void *realloc(void *p, size_t n)
{
  COUNT();
  return __libc_realloc(p, n);
}

HOOK void *memalign(size_t align, size_t n)
{
  COUNT();
  return __libc_memalign(align, n);
}

HOOK void *aligned_alloc(size_t align, size_t n)
{
  COUNT();
  return __libc_memalign(align, n);
}

HOOK int posix_memalign(void **out, size_t align, size_t n)
{
  COUNT();
  void *p = __libc_memalign(align, n);
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}
#endif
#endif
