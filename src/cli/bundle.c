/* A bundle (cmake/bundle.sh) has its own Open MPI and PMIx, which look for their plugins where they were built unless they are told
 * where they are now.  Not only `shoal launch` says so: srun starts ranks, too, and may give them none of our variables. */
#include "base/file.h"
#include "base/str.h"
#include "cli/cli.h"
#include <stdlib.h>
#include <string.h>

static char *bundle; /* until the end of the process */

static char *find_bundle(void)
{
  char *program = shoal_own_program(), *bin = strrchr(program, '/');
  if (bin) *bin = '\0';
  char *mark = shoal_path_join(program, "../lib/shoal-bundle"), *prefix = shoal_path_join(program, "..");
  char *real = shoal_path_exists(mark) ? realpath(prefix, NULL) : NULL;
  free(prefix);
  free(mark);
  free(program);
  return real;
}

void shoal_use_bundle(void)
{
  bundle = find_bundle();
  if (!bundle) return;
  const char *before = getenv("PATH");
  char *pmix = shoal_path_join(bundle, "lib/pmix"),
       *path = shoal_strdup_printf("%s/bin:%s", bundle, before ? before : "/usr/bin:/bin");
  setenv("OPAL_PREFIX", bundle, 1); /* another one would be that of another MPI */
  setenv("PMIX_MCA_mca_base_component_path", pmix, 1);
  setenv("PATH", path, 1); /* its mpirun before others */
  free(path);
  free(pmix);
}

const char *shoal_bundle(void)
{
  return bundle;
}
