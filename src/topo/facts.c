/* What a process knows about itself: host name, allowed cores, and the cores per task the scheduler granted.
 *
 * Host names do not identify a node: containers on different hosts may all be "localhost", and one machine can simulate
 * several nodes.  Two processes are on the same node if host name and boot id agree; the kernel draws the boot id at
 * random at boot.
 *
 * The environment may be wrong about cores.  Since Slurm 22.05 srun does not inherit --cpus-per-task from the job, so
 * the environment may say 4 while the affinity mask has 1: the number of threads follows the mask, and a warning
 * reports the difference and how to fix it. */
#include "base/log.h"
#include "base/mem.h"
#include "topo/topo_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static void read_boot_id(char id[40])
{
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (!f || !fgets(id, 40, f)) id[0] = '\0';
  if (f) fclose(f);
  id[strcspn(id, "\n")] = '\0';
}

/* Sets node_id to "host/boot id".  A host name too long for that is replaced by its hash, since truncated names could collide. */
void shoal_topo_set_host(shoal_facts *f, const char *host)
{
  char boot[40], whole[128] = "";
  uint64_t hash = 14695981039346656037u;
  snprintf(f->host, sizeof f->host, "%.*s", (int)sizeof f->host - 1, host);
  read_boot_id(boot);
  int n = snprintf(whole, sizeof whole, "%s/%s", host, boot);
  if (n >= (int)sizeof f->node_id) {
    for (const char *c = host; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    snprintf(whole, sizeof whole, "%016llx/%s", (unsigned long long)hash, boot);
  }
  memcpy(f->node_id, whole, sizeof f->node_id - 1);
}

/* "4", or "4,2(x3)" as Slurm counts by node: the least.  False if it is neither. */
static bool parse_cores(const char *text, int *least)
{
  enum { MOST_DIGITS = 7 };
  *least = 0;
  for (;; text++) {
    size_t digits = strspn(text, "0123456789");
    int cores = digits > 0 && digits <= MOST_DIGITS ? atoi(text) : 0;
    if (cores < 1) return false;
    if (*least == 0 || cores < *least) *least = cores;
    text += digits;
    if (strncmp(text, "(x", 2) == 0) {
      digits = strspn(text + 2, "0123456789");
      if (digits == 0 || digits > MOST_DIGITS || text[2 + digits] != ')') return false;
      text += 2 + digits + 1;
    }
    if (*text != ',') return *text == '\0';
  }
}

/* A number of cores; 0 if the variable is not set. */
static shoal_status cores_claimed(const shoal_env *e, const char *name, int *out)
{
  const char *text = shoal_env_get(e, name);
  char shown[64];
  *out = 0;
  SHOAL_CHECK(
      !text || parse_cores(text, out), SHOAL_ERR_WORLD,
      "%s is \"%s\": must be a number of cores, 1 or more, or such numbers by node as in 4,2(x3); unset it, or start "
      "again where Slurm sets it",
      name, shoal_show(text, shown, sizeof shown));
  return SHOAL_OK;
}

shoal_status shoal_topo_read_cores(const shoal_env *e, shoal_facts *f)
{
  SHOAL_TRY(cores_claimed(e, "SLURM_CPUS_PER_TASK", &f->claimed_cores));
  SHOAL_TRY(cores_claimed(e, "SRUN_CPUS_PER_TASK", &f->claimed_by_srun));
  if (f->claimed_cores == 0) f->claimed_cores = f->claimed_by_srun;
  return SHOAL_OK;
}

/* Fails if the host has no name.  A default such as "localhost" would look like one node for all ranks. */
shoal_status shoal_topo_facts_here(bool devices, shoal_facts *out, hwloc_topology_t *t_out, hwloc_bitmap_t *mask_out)
{
  struct utsname name;
  shoal_facts f = { .pid = (int)getpid() };
  SHOAL_CHECK(uname(&name) == 0 && name.nodename[0], SHOAL_ERR_IO, "this host has no name: set one with `hostname`");
  shoal_topo_set_host(&f, name.nodename);
  SHOAL_TRY(shoal_topo_read_cores(NULL, &f));
  SHOAL_TRY(shoal_topo_own_cores(devices, &f, t_out, mask_out));
  *out = f;
  return SHOAL_OK;
}

shoal_status shoal_topo_facts(shoal_facts *out)
{
  hwloc_topology_t t = NULL;
  hwloc_bitmap_t mask = NULL;
  shoal_status st = shoal_topo_facts_here(false, out, &t, &mask);
  if (t) hwloc_topology_destroy(t);
  hwloc_bitmap_free(mask);
  return st;
}

static bool lacks_cores(const shoal_facts *f)
{
  return f->claimed_cores > f->pus;
}

/* Slurm counts hardware threads as CPUs where cores have several: a rank has a thread for each core, and that is no lack. */
static void tell_shared_cores(const shoal_facts *all, int size)
{
  for (int r = 0; r < size; r++) {
    const shoal_facts *f = &all[r];
    if (f->claimed_cores <= f->cores || lacks_cores(f)) continue;
    shoal_info(
        "cores per task: the %d asked for are hardware threads of %d core%s (cpu %s on %s): a thread for each core",
        f->claimed_cores, f->cores, f->cores == 1 ? "" : "s", f->cpu_list, f->host);
    return;
  }
}

shoal_status shoal_topo_check_cores(const shoal_facts *all, int size, bool strict)
{
  bool speaks = shoal_log_rank() == 0;
  int first = 0, n = 0;
  for (int r = size - 1; r >= 0; r--)
    if (lacks_cores(&all[r])) {
      first = r;
      n++;
    }
  const shoal_facts *f = &all[first];
  if (speaks && f->claimed_by_srun > 0 && f->claimed_by_srun != f->claimed_cores)
    shoal_warn("SLURM_CPUS_PER_TASK is %d but SRUN_CPUS_PER_TASK is %d: srun may refuse to start; unset one of them",
               f->claimed_cores, f->claimed_by_srun);
  if (speaks) tell_shared_cores(all, size);
  if (n == 0) return SHOAL_OK;
  static const char text[] = "cores per task: asked %d, have %d (cpu %s on %s; %d of %d ranks have too few): threads "
                             "follow %s";
  char cure[256];
  if (f->bound_list)
    snprintf(cure, sizeof cure, "%s; set OMP_PROC_BIND=false", f->bound_by);
  else
    snprintf(
        cure, sizeof cure,
        "the mask; give srun --cpus-per-task=%d, which since Slurm 22.05 it does not inherit from the job (mpirun: "
        "--map-by slot:PE=%d)",
        f->claimed_cores, f->claimed_cores);
  if (strict) return SHOAL_FAIL(SHOAL_ERR_WORLD, text, f->claimed_cores, f->pus, f->cpu_list, f->host, n, size, cure);
  if (speaks) shoal_warn(text, f->claimed_cores, f->pus, f->cpu_list, f->host, n, size, cure);
  return SHOAL_OK;
}
