/* oneDNN's blocks of memory have a distance behind them: the program's posix_memalign is the one that its libraries call. */
#include "check.h"
#include "tensor/backend.h"
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

int main(void)
{
  return 77; /* the sanitizer's own */
}

#else

static int here;

static void is_ours(void)
{
  Dl_info ours, theirs;
  REQUIRE(dladdr(&here, &ours), "an address of this program");
  REQUIRE(dladdr(dlsym(RTLD_DEFAULT, "posix_memalign"), &theirs), "that of the function");
  CHECK_STR(theirs.dli_fname, ours.dli_fname, "what oneDNN finds");
}

static void has_a_distance(void)
{
  static const size_t sizes[] = { 0, 1, 100, 4096, 16640, 1 << 20 };
  for (size_t align = sizeof(void *); align <= 4096; align *= 2)
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      void *p = NULL;
      REQUIRE(posix_memalign(&p, align, sizes[i]) == 0, "%zu bytes", sizes[i]);
      CHECK_EQ((uintptr_t)p % align, 0);
      CHECK_GE(malloc_usable_size(p), sizes[i] + 512, "%zu bytes at multiples of %zu", sizes[i], align);
      free(p);
    }
}

static void refuses(void)
{
  void *p = &here;
  static const size_t wrong[] = { 0, 1, 4, 24 };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) CHECK_EQ(posix_memalign(&p, wrong[i], 8), EINVAL);
  CHECK_EQ(posix_memalign(&p, 64, SIZE_MAX - 100), ENOMEM);
  CHECK_EQ(posix_memalign(&p, 64, SIZE_MAX / 4), ENOMEM);
  CHECK(p == &here, "written only on success");
}

int main(void)
{
  shoal_backend *b;
  REQUIRE(shoal_backend_open("cpu", 1, &b) == SHOAL_OK, "oneDNN is linked");
  is_ours();
  has_a_distance();
  refuses();
  shoal_backend_close(b);
  return check_done();
}

#endif
