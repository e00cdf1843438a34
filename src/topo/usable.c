/* How many threads of a rank can run at the same time, and why not more.
 *
 *   affinity mask      its cores, divided among the ranks of the node that have the same mask
 *   control group      its quota of processor time, divided among the ranks in the same group: whoever uses it up is
 *                      stopped until the next period, all threads at once, and so are the ranks that wait for it
 *   OpenMP             OMP_PROC_BIND, OMP_PLACES or GOMP_CPU_AFFINITY bind threads to some of these cores, and the first
 *                      thread of every process to the first of them
 *
 * The default number of threads follows the first two.  Each limit has its own cure and is told with it, since more
 * cores per task help against none but the mask. */
#include "base/log.h"
#include "base/mem.h"
#include "topo/topo_impl.h"
#include <string.h>

typedef bool shares(const shoal_facts *a, const shoal_facts *b);

static bool share_mask(const shoal_facts *a, const shoal_facts *b)
{
  return a->mask_hash == b->mask_hash;
}

static bool share_quota(const shoal_facts *a, const shoal_facts *b)
{
  return a->quota_group == b->quota_group;
}

/* Counts the ranks on rank r's node that share something with it; with itself. */
static int count_sharers(const shoal_facts *all, int size, int r, shares *with)
{
  int n = 0;
  for (int other = 0; other < size; other++)
    n += strcmp(all[other].node_id, all[r].node_id) == 0 && with(&all[other], &all[r]);
  return n;
}

static int threads_of_mask(const shoal_facts *all, int size, int r)
{
  return SHOAL_MAX(1, all[r].cores / count_sharers(all, size, r, share_mask));
}

int shoal_topo_threads(const shoal_facts *all, int size, int r)
{
  int threads = threads_of_mask(all, size, r);
  if (all[r].quota <= 0) return threads;
  double most = all[r].quota / count_sharers(all, size, r, share_quota);
  return most >= threads ? threads : SHOAL_MAX(1, (int)most);
}

/* ---- what is told ---- */

static const char *plural(int n)
{
  return n == 1 ? "" : "s";
}

/* Prints a limit on rank 0, or fails with it. */
#define TELL(strict, ...)                                                                                              \
  do {                                                                                                                 \
    if (strict) return SHOAL_FAIL(SHOAL_ERR_WORLD, __VA_ARGS__);                                                       \
    if (shoal_log_rank() == 0) shoal_warn(__VA_ARGS__);                                                                \
  } while (0)

static shoal_status check_quota(const shoal_facts *all, int size, int asked, bool strict)
{
  for (int r = 0; r < size; r++) {
    const shoal_facts *f = &all[r];
    int ranks = count_sharers(all, size, r, share_quota), wanted = asked ? asked : threads_of_mask(all, size, r);
    int fit = shoal_topo_threads(all, size, r);
    if (f->quota <= 0 || f->quota >= (double)wanted * ranks) continue;
    char used[96];
    if (asked > fit)
      snprintf(used, sizeof used, "threads is %d, so each is stopped for a part of every step; set it to %d, or", asked,
               fit);
    else
      snprintf(used, sizeof used, "%d thread%s each%s;", fit, plural(fit),
               f->quota < (double)fit * ranks ? ", stopped for a part of every step" : "");
    TELL(strict,
         "processor time: a control group on %s allows %.4g core%s for %d rank%s, the affinity mask has %d: %s raise "
         "the "
         "quota of the container or service (docker --cpus, Kubernetes limits.cpu, systemd CPUQuota=): more cores per "
         "task do not help",
         f->host, f->quota, f->quota == 1 ? "" : "s", ranks, plural(ranks), f->cores, used);
    return SHOAL_OK;
  }
  return SHOAL_OK;
}

static shoal_status check_first_threads(const shoal_facts *all, int size, bool strict)
{
  for (int r = 0; r < size; r++) {
    const shoal_facts *f = &all[r];
    int ranks = count_sharers(all, size, r, share_mask);
    if (f->first_cores == 0 || ranks <= f->first_cores) continue;
    TELL(strict,
         "%s makes OpenMP bind the first threads of %d ranks on %s to the same %d core%s of %d: set "
         "OMP_PROC_BIND=false, "
         "or bind the ranks (srun --cpu-bind=cores, mpirun --bind-to core)",
         f->bound_by, ranks, f->host, f->first_cores, plural(f->first_cores), f->cores);
    return SHOAL_OK;
  }
  return SHOAL_OK;
}

static shoal_status check_crowd(const shoal_facts *all, int size, int asked, bool strict)
{
  for (int r = 0; r < size; r++) {
    const shoal_facts *f = &all[r];
    int ranks = count_sharers(all, size, r, share_mask), each = f->cores / ranks;
    int threads = ranks * (asked ? asked : shoal_topo_threads(all, size, r));
    if (threads <= f->cores) continue;
    if (f->bound_list)
      TELL(strict, "%s leaves %d core%s on %s for %d threads of %d rank%s: set OMP_PROC_BIND=false, or threads to %d",
           f->bound_by, f->cores, plural(f->cores), f->host, threads, ranks, plural(ranks), SHOAL_MAX(1, each));
    else if (asked > 1)
      shoal_info("%d threads of %d rank%s on %s take turns on %d core%s (cpu %s): set threads to %d, or give each rank "
                 "more cores (srun --cpus-per-task=%d, mpirun --map-by slot:PE=%d)",
                 threads, ranks, plural(ranks), f->host, f->cores, plural(f->cores), f->cpu_list, SHOAL_MAX(1, each),
                 asked, asked);
    else
      shoal_info("%d ranks on %s take turns on %d core%s (cpu %s): start fewer there, or give them more cores", ranks,
                 f->host, f->cores, plural(f->cores), f->cpu_list);
    return SHOAL_OK;
  }
  return SHOAL_OK;
}

/* Threads that nobody has asked for: Slurm counts fewer CPUs for a rank than its mask has cores, as where it binds nothing.
 * Others may have been given the rest. */
static void tell_unbound(const shoal_facts *all, int size)
{
  for (int r = 0; r < size; r++) {
    const shoal_facts *f = &all[r];
    const int threads = shoal_topo_threads(all, size, r);
    if (f->claimed_cores == 0 || threads <= f->claimed_cores) continue;
    shoal_info(
        "Slurm gives each rank %d CPU%s, and binds it to none: its mask on %s has %d cores (cpu %s), so %d threads "
        "run, which "
        "nobody asked for; where others share the node, set threads to %d (--set threads=%d), or have Slurm bind "
        "(TaskPlugin=task/affinity)",
        f->claimed_cores, plural(f->claimed_cores), f->host, f->cores, f->cpu_list, threads, f->claimed_cores,
        f->claimed_cores);
    return;
  }
}

/* Whether the ranks of r's node, whose masks may overlap, surely leave hardware threads of it to others. */
static int hardware_threads_of(const shoal_facts *all, int size, int r)
{
  int sum = 0;
  for (int k = 0; k < size; k++) {
    bool counted = strcmp(all[k].node_id, all[r].node_id) != 0;
    for (int j = 0; j < k && !counted; j++)
      counted = strcmp(all[j].node_id, all[r].node_id) == 0 && share_mask(&all[j], &all[k]);
    if (!counted) sum += all[k].pus;
  }
  return sum;
}

/* Only the numbers: a batch system, a launcher, a container or taskset may have set the masks, and each has its own cure. */
static void tell_part_of_machine(const shoal_facts *all, int size)
{
  for (int r = 0; r < size; r++) {
    int ranks = 0, have = hardware_threads_of(all, size, r);
    if (have >= all[r].present) continue;
    for (int k = 0; k < size; k++) ranks += strcmp(all[k].node_id, all[r].node_id) == 0;
    shoal_info("%s has %d hardware threads, of which the affinity mask%s of %d rank%s %s %d (cpu %s%s)", all[r].host,
               all[r].present, plural(ranks), ranks, plural(ranks), ranks == 1 ? "has" : "have", have, all[r].cpu_list,
               have > all[r].pus ? ", ..." : "");
    return;
  }
}

shoal_status shoal_topo_check_threads(const shoal_facts *all, int size, int asked, bool strict)
{
  if (shoal_log_rank() == 0) tell_part_of_machine(all, size);
  if (shoal_log_rank() == 0 && !asked) tell_unbound(all, size);
  SHOAL_TRY(check_quota(all, size, asked, strict));
  SHOAL_TRY(check_first_threads(all, size, strict));
  return check_crowd(all, size, asked, strict);
}
