/* The cores this process may use.
 *
 * These are not all cores of the machine: a batch system assigns part of it to a job, and the hwloc topology may
 * contain cores that are not allowed, or describe another machine (HWLOC_XMLFILE).  So the set comes from the operating
 * system's affinity mask, which already respects cgroups, and hwloc is only used to group its hardware threads into
 * cores and NUMA nodes.  A hardware thread that belongs to no hwloc core counts as a core.
 *
 * GNU's OpenMP library, told to bind threads, binds the first one as soon as it is loaded: the mask of this thread is then
 * one core of those the launcher gave.  OpenMP's own list of places has the others. */
#include "base/cgroup.h"
#include "base/env.h"
#include "base/log.h"
#include "base/mem.h"
#include "topo/topo_impl.h"
#include <errno.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* sched_getaffinity fails if the buffer is shorter than the kernel's mask, of unknown length: grow until it fits. */
static shoal_status read_mask(hwloc_bitmap_t mask)
{
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
    cpu_set_t *set = CPU_ALLOC((size_t)cpus);
    SHOAL_CHECK(set, SHOAL_ERR_MEM, "affinity mask of %d bits", cpus);
    size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
    int failed = sched_getaffinity(0, bytes, set) ? errno : 0;
    for (int i = 0; !failed && i < cpus; i++)
      if (CPU_ISSET_S((size_t)i, bytes, set)) hwloc_bitmap_set(mask, (unsigned)i);
    CPU_FREE(set);
    if (!failed) return SHOAL_OK;
    SHOAL_CHECK(failed == EINVAL, SHOAL_ERR_IO, "cannot read the affinity mask: %s", strerror(failed));
  }
  return SHOAL_FAIL(SHOAL_ERR_IO, "cannot read the affinity mask: the kernel wants more than %d bits", 1 << 20);
}

/* Adds the hardware threads that OpenMP binds to, all together; false if it does not bind. */
static bool add_places(hwloc_bitmap_t mask)
{
  int places = omp_get_proc_bind() == omp_proc_bind_false ? 0 : omp_get_num_places();
  for (int i = 0; i < places; i++) {
    int n = omp_get_place_num_procs(i), *cpus = n > 0 ? malloc((size_t)n * sizeof *cpus) : NULL;
    if (!cpus) continue;
    omp_get_place_proc_ids(i, cpus);
    for (int k = 0; k < n; k++)
      if (cpus[k] >= 0) hwloc_bitmap_set(mask, (unsigned)cpus[k]);
    free(cpus);
  }
  return places > 0;
}

/* Notes which variable makes OpenMP bind, in the order in which it reads them.  Words such as "cores" stand for the whole
 * mask, "cores(1)", "{0}" and "0-3" for a part. */
static void name_binding(shoal_facts *f)
{
  static const char *const names[] = { "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "OMP_PROC_BIND" };
  for (size_t i = 0; i < SHOAL_COUNT(names) && !f->bound_by[0]; i++) {
    const char *value = shoal_env_get(NULL, names[i]);
    char shown[SHOAL_BOUND_MAX - sizeof "GOMP_CPU_AFFINITY="];
    if (!value) continue;
    snprintf(f->bound_by, sizeof f->bound_by, "%s=%s", names[i], shoal_show(value, shown, sizeof shown));
    f->bound_list = i == 1 || (i == 0 && strpbrk(value, "{(") != NULL);
  }
  if (!f->bound_by[0]) snprintf(f->bound_by, sizeof f->bound_by, "the OpenMP library");
}

void shoal_topo_unbind(void)
{
  hwloc_bitmap_t mask = hwloc_bitmap_alloc();
  if (mask && add_places(mask)) {
    int cpus = hwloc_bitmap_last(mask) + 1;
    cpu_set_t *set = cpus > 0 ? CPU_ALLOC((size_t)cpus) : NULL;
    size_t bytes = CPU_ALLOC_SIZE((size_t)SHOAL_MAX(cpus, 0));
    if (set) CPU_ZERO_S(bytes, set);
    for (int i = 0; set && i < cpus; i++)
      if (hwloc_bitmap_isset(mask, (unsigned)i)) CPU_SET_S((size_t)i, bytes, set);
    if (set) (void)sched_setaffinity(0, bytes, set); /* if it fails, the start of the run tells how few cores it has */
    CPU_FREE(set);
  }
  hwloc_bitmap_free(mask);
}

/* Devices come from the kernel's tables alone: plugins would start the libraries of GPUs, which takes seconds and memory there. */
static void ask_for_devices(hwloc_topology_t t)
{
  static const char *const plugins[] = { "cuda", "nvml", "opencl", "gl", "rsmi", "levelzero" };
  hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  for (size_t i = 0; i < SHOAL_COUNT(plugins); i++)
    hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, plugins[i]);
}

/* All levels stay, because hwloc attaches a NUMA node to the object with the same cpuset and would widen it if that level were
 * filtered out. */
hwloc_topology_t shoal_topo_load(const char *xml, bool devices)
{
  hwloc_topology_t t;
  if (hwloc_topology_init(&t) != 0) return NULL;
  if (devices) ask_for_devices(t);
  if ((!xml || hwloc_topology_set_xml(t, xml) == 0) && hwloc_topology_load(t) == 0) return t;
  hwloc_topology_destroy(t);
  return NULL;
}

/* Counts the objects of a type whose cpuset intersects the mask.  Removes their cpusets from `left` and adds their OS
 * indexes to `numbers`, which may be NULL. */
static int count_objects(hwloc_topology_t t, hwloc_obj_type_t type, hwloc_const_bitmap_t mask, hwloc_bitmap_t left,
                         hwloc_bitmap_t numbers)
{
  int n = 0;
  hwloc_obj_t o = NULL;
  while ((o = hwloc_get_next_obj_by_type(t, type, o)) != NULL) {
    if (!hwloc_bitmap_intersects(o->cpuset, mask)) continue;
    hwloc_bitmap_andnot(left, left, o->cpuset);
    if (numbers && o->os_index != HWLOC_UNKNOWN_INDEX) hwloc_bitmap_set(numbers, o->os_index);
    n++;
  }
  return n;
}

void shoal_topo_list_bits(hwloc_const_bitmap_t bits, char *out, size_t cap)
{
  char *list = NULL;
  const char *end = "";
  out[0] = '\0';
  if (hwloc_bitmap_list_asprintf(&list, bits) < 0) return;
  if (strlen(list) >= cap) { /* truncate after a complete number */
    end = ",...";
    list[cap - sizeof ",..."] = '\0';
    *strrchr(list, ',') = '\0';
  }
  snprintf(out, cap, "%s%s", list, end);
  free(list);
}

/* FNV-1a over the complete list, since cpu_list may be truncated. */
static uint64_t hash_bits(hwloc_const_bitmap_t bits)
{
  char *list = NULL;
  uint64_t hash = 14695981039346656037u;
  if (hwloc_bitmap_list_asprintf(&list, bits) < 0) return 0;
  for (const char *c = list; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
  free(list);
  return hash;
}

void shoal_topo_count(hwloc_topology_t t, hwloc_const_bitmap_t mask, shoal_facts *f)
{
  hwloc_bitmap_t left = hwloc_bitmap_dup(mask), unused = hwloc_bitmap_dup(mask), numa = hwloc_bitmap_alloc();
  f->pus = hwloc_bitmap_weight(mask);
  f->cores = t && left ? count_objects(t, HWLOC_OBJ_CORE, mask, left, NULL) : 0;
  f->cores += left ? hwloc_bitmap_weight(left) : f->pus;
  f->numa_nodes = t && unused ? count_objects(t, HWLOC_OBJ_NUMANODE, mask, unused, numa) : 1;
  if (f->numa_nodes < 1) f->numa_nodes = 1;
  if (numa) shoal_topo_list_bits(numa, f->numa_list, sizeof f->numa_list);
  shoal_topo_list_bits(mask, f->cpu_list, sizeof f->cpu_list);
  f->mask_hash = hash_bits(mask);
  hwloc_bitmap_free(left);
  hwloc_bitmap_free(unused);
  hwloc_bitmap_free(numa);
}

shoal_status shoal_topo_own_cores(bool devices, shoal_facts *f, hwloc_topology_t *t_out, hwloc_bitmap_t *mask_out)
{
  shoal_facts first = { .pid = 0 };
  shoal_cgroup group;
  hwloc_bitmap_t mask = hwloc_bitmap_alloc();
  SHOAL_CHECK(mask, SHOAL_ERR_MEM, "affinity mask");
  shoal_status st = read_mask(mask);
  if (st != SHOAL_OK) {
    hwloc_bitmap_free(mask);
    return st;
  }
  hwloc_topology_t t = shoal_topo_load(NULL, devices);
  bool ours = t && hwloc_topology_is_thissystem(t);
  if (!ours)
    shoal_info("hwloc %s: every hardware thread counts as a core",
               t ? "describes another machine (HWLOC_XMLFILE or HWLOC_SYNTHETIC is set)" : "does not work here");
  if (t && !ours) {
    hwloc_topology_destroy(t);
    t = NULL;
  }
  shoal_topo_count(t, mask, &first);
  if (add_places(mask)) {
    f->first_cores = first.cores;
    name_binding(f);
  }
  shoal_topo_count(t, mask, f);
  f->present = SHOAL_MAX((int)sysconf(_SC_NPROCESSORS_ONLN), f->pus);
  shoal_cgroup_read("", &group);
  f->quota = group.cpus;
  f->quota_group = group.cpus_group;
  *t_out = t;
  *mask_out = mask;
  return SHOAL_OK;
}
