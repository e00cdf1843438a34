/* A decomposition that takes long, to be preloaded (LD_PRELOAD): LAPACKE_sgesdd sleeps SLOWSVD_MS before it begins. */
#include <dlfcn.h>
#include <lapacke.h>
#include <stdlib.h>
#include <unistd.h>

typedef lapack_int sgesdd(int, char, lapack_int, lapack_int, float *, lapack_int, float *, float *, lapack_int, float *,
                          lapack_int);

lapack_int LAPACKE_sgesdd(int layout, char job, lapack_int m, lapack_int n, float *a, lapack_int lda, float *s,
                          float *u, lapack_int ldu, float *vt, lapack_int ldvt)
{
  const char *ms = getenv("SLOWSVD_MS");
  sgesdd *real = (sgesdd *)dlsym(RTLD_NEXT, "LAPACKE_sgesdd");
  if (ms) usleep((useconds_t)atoi(ms) * 1000);
  return real ? real(layout, job, m, n, a, lda, s, u, ldu, vt, ldvt) : -1;
}
