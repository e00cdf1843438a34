/* Facts of one process: which host, which cores, and what the launcher claims.
 *
 * Host names are no identity: containers share "localhost", and one machine can play several nodes.  Two processes are
 * on one node when host name and boot id agree, the boot id being the number the kernel drew when it started.
 *
 * Claims stay claims.  Since Slurm 22.05 a step does not take over the cores per task of its job, so the environment
 * may say 4 while the mask holds 1: threads are counted from the mask, and the difference is told with its cure. */
#include "base/log.h"
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

/* "host/boot id"; a host name too long for that is replaced by its hash, never cut, since cut names may collide. */
static void set_identity(shoal_facts *f, const char *host)
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

/* A number from the environment; `none` when it is not set, or set to something that is not a number >= least. */
static int claim(const char *name, int least, int none)
{
  int64_t value;
  const char *text = getenv(name);
  if (!text || !*text) return none;
  if (shoal_parse_i64(text, &value) == SHOAL_OK && value >= least && value <= INT32_MAX) return (int)value;
  shoal_warn("%s is \"%s\", not a number; ignored", name, text);
  return none;
}

static void read_claims(shoal_facts *f)
{
  f->claimed_cores = claim("SLURM_CPUS_PER_TASK", 1, 0);
  f->claimed_by_srun = claim("SRUN_CPUS_PER_TASK", 1, 0);
  if (f->claimed_cores == 0) f->claimed_cores = f->claimed_by_srun;
  f->step_tasks = claim("SLURM_STEP_NUM_TASKS", 1, -1);
  f->step_rank = claim("SLURM_PROCID", 0, -1);
}

shoal_status shoal_topo_facts(shoal_facts *out)
{
  struct utsname name;
  shoal_facts f = { .pid = (int)getpid() };
  set_identity(&f, uname(&name) == 0 && name.nodename[0] ? name.nodename : "localhost");
  SHOAL_TRY(shoal_topo_own_cores(&f));
  read_claims(&f);
  *out = f;
  return SHOAL_OK;
}

shoal_status shoal_topo_facts_saved(const char *xml, shoal_facts *out)
{
  shoal_facts f = { .pid = 0 };
  hwloc_topology_t t = shoal_topo_load(xml);
  SHOAL_CHECK(t, SHOAL_ERR_IO, "cannot load %s: hwloc takes XML files written by lstopo or hwloc", xml);
  const char *host = hwloc_obj_get_info_by_name(hwloc_get_root_obj(t), "HostName");
  snprintf(f.host, sizeof f.host, "%s", host ? host : "saved");
  snprintf(f.node_id, sizeof f.node_id, "%.40s/saved machine", f.host);
  shoal_topo_count(t, hwloc_topology_get_allowed_cpuset(t), &f);
  hwloc_topology_destroy(t);
  read_claims(&f);
  *out = f;
  return SHOAL_OK;
}

shoal_status shoal_topo_check_cores(const shoal_facts *f, bool strict)
{
  if (f->claimed_by_srun > 0 && f->claimed_by_srun != f->claimed_cores)
    shoal_warn("SLURM_CPUS_PER_TASK is %d but SRUN_CPUS_PER_TASK is %d: srun may refuse to start; unset one of them",
               f->claimed_cores, f->claimed_by_srun);
  if (f->claimed_cores <= f->pus) return SHOAL_OK;
  static const char text[] = "cores per task: asked %d, have %d (cpu %s on %s): threads follow the mask; "
                             "give srun --cpus-per-task=%d, which since Slurm 22.05 it does not take over from the job";
  if (strict)
    return SHOAL_FAIL(SHOAL_ERR_WORLD, text, f->claimed_cores, f->pus, f->cpu_list, f->host, f->claimed_cores);
  shoal_warn(text, f->claimed_cores, f->pus, f->cpu_list, f->host, f->claimed_cores);
  return SHOAL_OK;
}
