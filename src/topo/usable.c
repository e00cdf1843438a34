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
#include <stdlib.h>

/* Of each rank: how many of its host, with itself, have its mask, and are in its group; and the threads that it should start. */
typedef struct {
  const shoal_facts *all;
  int size, asked;
  const shoal_hosts *hosts;
  int *mask, *quota, *threads; /* [size] */
} sharing;

static void count_sharers(const sharing *s)
{
  const shoal_hosts *h = s->hosts;
  for (int r = 0; r < s->size; r++)
    for (int i = h->first[h->host[r]]; i < h->first[h->host[r] + 1]; i++) {
      const shoal_facts *f = &s->all[h->rank[i]];
      s->mask[r] += f->mask_hash == s->all[r].mask_hash;
      s->quota[r] += f->quota_group == s->all[r].quota_group;
    }
}

static int threads_of_mask(const sharing *s, int r)
{
  return SHOAL_MAX(1, s->all[r].cores / s->mask[r]);
}

static int threads_of(const sharing *s, int r)
{
  int threads = threads_of_mask(s, r);
  if (s->all[r].quota <= 0) return threads;
  double most = s->all[r].quota / s->quota[r];
  return most >= threads ? threads : SHOAL_MAX(1, (int)most);
}

static void free_sharing(sharing *s)
{
  free(s->mask);
  free(s->quota);
}

static shoal_status find_sharing(const shoal_facts *all, int size, const shoal_hosts *h, int *threads, sharing *s)
{
  *s = (sharing){ .all = all, .size = size, .hosts = h, .threads = threads };
  shoal_status st = SHOAL_ALLOC((size_t)size, &s->mask);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)size, &s->quota);
  if (st == SHOAL_OK) count_sharers(s);
  for (int r = 0; st == SHOAL_OK && r < size; r++) threads[r] = threads_of(s, r);
  return st;
}

shoal_status shoal_topo_threads(const shoal_facts *all, int size, const shoal_hosts *h, int *out)
{
  sharing s;
  shoal_status st = find_sharing(all, size, h, out, &s);
  free_sharing(&s);
  return st;
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

static shoal_status check_quota(const sharing *s, bool strict)
{
  const int asked = s->asked;
  for (int r = 0; r < s->size; r++) {
    const shoal_facts *f = &s->all[r];
    int ranks = s->quota[r], wanted = asked ? asked : threads_of_mask(s, r), fit = s->threads[r];
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

static shoal_status check_first_threads(const sharing *s, bool strict)
{
  for (int r = 0; r < s->size; r++) {
    const shoal_facts *f = &s->all[r];
    int ranks = s->mask[r];
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

static shoal_status check_crowd(const sharing *s, bool strict)
{
  const int asked = s->asked;
  for (int r = 0; r < s->size; r++) {
    const shoal_facts *f = &s->all[r];
    int ranks = s->mask[r], each = f->cores / ranks;
    int threads = ranks * (asked ? asked : s->threads[r]);
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
static void tell_unbound(const sharing *s)
{
  for (int r = 0; r < s->size; r++) {
    const shoal_facts *f = &s->all[r];
    const int threads = s->threads[r];
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

/* Hardware threads of a host that its ranks have, whose masks may overlap: surely no more. */
static int hardware_threads_of(const sharing *s, int host)
{
  const shoal_hosts *h = s->hosts;
  int sum = 0;
  for (int i = h->first[host]; i < h->first[host + 1]; i++) {
    bool counted = false;
    for (int j = h->first[host]; j < i && !counted; j++)
      counted = s->all[h->rank[j]].mask_hash == s->all[h->rank[i]].mask_hash;
    if (!counted) sum += s->all[h->rank[i]].pus;
  }
  return sum;
}

/* Mostly only the numbers: a batch system, a launcher, a container or taskset may have set the masks, and each has its own cure. */
static void tell_part_of_machine(const sharing *s)
{
  for (int host = 0; host < s->hosts->hosts; host++) {
    const shoal_facts *f = &s->all[s->hosts->rank[s->hosts->first[host]]];
    int ranks = s->hosts->first[host + 1] - s->hosts->first[host], have = hardware_threads_of(s, host);
    if (have >= f->present) continue;
    bool by_mpirun = ranks == 1 && f->cores == 1 && getenv("OMPI_COMM_WORLD_SIZE") && !getenv("SLURM_JOB_ID");
    shoal_info("%s has %d hardware threads, of which the affinity mask%s of %d rank%s %s %d (cpu %s%s)%s", f->host,
               f->present, plural(ranks), ranks, plural(ranks), ranks == 1 ? "has" : "have", have, f->cpu_list,
               have > f->pus ? ", ..." : "",
               by_mpirun ? "; mpirun binds each program of one rank to the same core: with mpirun --bind-to none, or "
                           "shoal launch, several share all cores"
                         : "");
    return;
  }
}

static shoal_status check_all(const sharing *s, bool strict)
{
  if (shoal_log_rank() == 0) tell_part_of_machine(s);
  if (shoal_log_rank() == 0 && !s->asked) tell_unbound(s);
  SHOAL_TRY(check_quota(s, strict));
  SHOAL_TRY(check_first_threads(s, strict));
  return check_crowd(s, strict);
}

shoal_status shoal_topo_check_threads(const shoal_facts *all, int size, int asked, bool strict)
{
  shoal_hosts h = { 0 };
  sharing s = { 0 };
  int *threads = NULL;
  shoal_status st = shoal_hosts_find(all, size, &h);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)size, &threads);
  if (st == SHOAL_OK) st = find_sharing(all, size, &h, threads, &s);
  s.asked = asked;
  if (st == SHOAL_OK) st = check_all(&s, strict);
  free_sharing(&s);
  free(threads);
  shoal_hosts_free(&h);
  return st;
}
