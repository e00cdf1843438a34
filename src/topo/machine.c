/* A machine, to be printed or divided among ranks.
 *
 * For this machine the affinity mask defines the cores and hwloc only groups them (cores.c).  A saved machine has no
 * mask; the allowed cpuset of its XML file is used instead. */
#include "topo/machine.h"
#include "base/child.h"
#include "base/file.h"
#include "base/limit.h"
#include "base/mem.h"
#include "topo/topo_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* hwloc's parser does not survive every damaged file. */
static shoal_status try_to_load(void *xml)
{
  hwloc_topology_t t = shoal_topo_load(xml, true);
  SHOAL_CHECK(t, SHOAL_ERR_IO, "cannot load %s: hwloc takes XML files written by lstopo or hwloc", (const char *)xml);
  hwloc_topology_destroy(t);
  return SHOAL_OK;
}

static shoal_status load_saved(shoal_machine *m, const char *xml)
{
  enum { LOAD_S = 5 };
  int fd;
  shoal_status st;
  m->xml = strdup(xml);
  SHOAL_CHECK(m->xml, SHOAL_ERR_MEM, "a name");
  SHOAL_TRY(shoal_open_file(xml, &fd, NULL));
  close(fd);
  SHOAL_CHECK(shoal_survives(try_to_load, m->xml, LOAD_S, shoal_memory_limit(), NULL, &st), SHOAL_ERR_IO,
              "%s is damaged: hwloc crashes on it; write it again with lstopo", xml);
  SHOAL_TRY(st);
  m->t = shoal_topo_load(xml, true);
  SHOAL_CHECK(m->t, SHOAL_ERR_MEM, "the machine of %s", xml);
  const char *host = hwloc_obj_get_info_by_name(hwloc_get_root_obj(m->t), "HostName");
  shoal_topo_set_host(&m->facts, host && *host ? host : "an unnamed host");
  m->mask = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(m->t));
  SHOAL_CHECK(m->mask, SHOAL_ERR_MEM, "the cores of %s", xml);
  shoal_topo_count(m->t, m->mask, &m->facts);
  return SHOAL_OK;
}

static shoal_status look_here(shoal_machine *m)
{
  return shoal_topo_facts_here(true, &m->facts, &m->t, &m->mask);
}

shoal_status shoal_machine_open(const char *xml, shoal_machine **out)
{
  shoal_machine *m = calloc(1, sizeof *m);
  SHOAL_CHECK(m, SHOAL_ERR_MEM, "a machine");
  shoal_status st = xml ? load_saved(m, xml) : look_here(m);
  if (st == SHOAL_OK) st = shoal_machine_find_devices(m);
  if (st == SHOAL_OK)
    *out = m;
  else
    shoal_machine_close(m);
  return st;
}

void shoal_machine_close(shoal_machine *m)
{
  if (!m) return;
  if (m->t) hwloc_topology_destroy(m->t);
  hwloc_bitmap_free(m->mask);
  free(m->devices);
  free(m->switches);
  free(m->xml);
  free(m);
}

const shoal_facts *shoal_machine_facts(const shoal_machine *m)
{
  return &m->facts;
}

/* In hwloc's logical order, core by core; hardware threads unknown to hwloc come last, by OS index. */
void shoal_machine_cut(const shoal_machine *m, int first, int count, shoal_facts *f)
{
  hwloc_bitmap_t part = hwloc_bitmap_alloc(), left = hwloc_bitmap_dup(m->mask);
  hwloc_obj_t pu = NULL;
  int i = 0;
  if (part && left) {
    while (m->t && (pu = hwloc_get_next_obj_by_type(m->t, HWLOC_OBJ_PU, pu)) != NULL) {
      if (!hwloc_bitmap_isset(left, pu->os_index)) continue;
      if (i >= first && i < first + count) hwloc_bitmap_set(part, pu->os_index);
      hwloc_bitmap_clr(left, pu->os_index);
      i++;
    }
    for (int cpu = hwloc_bitmap_first(left); cpu >= 0; cpu = hwloc_bitmap_next(left, cpu), i++)
      if (i >= first && i < first + count) hwloc_bitmap_set(part, (unsigned)cpu);
    shoal_topo_count(m->t, part, f);
  }
  hwloc_bitmap_free(part);
  hwloc_bitmap_free(left);
}

/* ---- output as text and JSON ---- */

/* Lists the allowed hardware threads of a NUMA node or a package. */
static void cpus_of(const shoal_machine *m, hwloc_obj_t numa, char *out, size_t cap)
{
  hwloc_bitmap_t both = hwloc_bitmap_alloc();
  out[0] = '\0';
  if (both && hwloc_bitmap_and(both, m->mask, numa->cpuset) == 0) shoal_topo_list_bits(both, out, cap);
  hwloc_bitmap_free(both);
}

static hwloc_obj_t next_numa(const shoal_machine *m, hwloc_obj_t before)
{
  return m->t ? hwloc_get_next_obj_by_type(m->t, HWLOC_OBJ_NUMANODE, before) : NULL;
}

static int threads_present(const shoal_machine *m)
{
  return m->t ? hwloc_bitmap_weight(hwloc_topology_get_complete_cpuset(m->t)) : m->facts.pus;
}

/* " on NUMA node 3", or the package if it is near several nodes. */
static void add_place(const shoal_device *d, shoal_str *out)
{
  if (d->numa >= 0)
    shoal_str_add(out, " on NUMA node %d", d->numa);
  else if (d->package >= 0)
    shoal_str_add(out, " on package %d", d->package);
}

static void add_device(const char *kind, int i, const shoal_device *d, shoal_str *out)
{
  shoal_str_add(out, "  %s %d: %s", kind, i, d->pci);
  if (d->name[0]) shoal_str_add(out, " %s", d->name);
  if (d->model[0]) shoal_str_add(out, " (%s)", d->model);
  add_place(d, out);
  if (d->closed) shoal_str_add(out, ", not to be opened from here");
}

static void print_devices(const shoal_machine *m, shoal_str *out)
{
  const shoal_device *d;
  for (int k = 0; (d = shoal_machine_nic(m, k)) != NULL; k++) {
    add_device("network interface", k, d, out);
    shoal_str_add(out, "\n");
  }
  for (int g = 0; (d = shoal_machine_gpu(m, g)) != NULL; g++) {
    add_device("GPU", g, d, out);
    for (int k = 0; k < m->n_nics; k++)
      shoal_str_add(out, "%s interface %d: %s", k ? "," : ";", k, shoal_near_name(shoal_machine_distance(m, g, k)));
    shoal_str_add(out, "\n");
  }
}

static hwloc_obj_t next_package(const shoal_machine *m, hwloc_obj_t before)
{
  return m->t ? hwloc_get_next_obj_by_type(m->t, HWLOC_OBJ_PACKAGE, before) : NULL;
}

static void package_lists(const shoal_machine *m, hwloc_obj_t package, char cpus[SHOAL_CPUS_MAX],
                          char numa[SHOAL_NUMA_MAX])
{
  cpus_of(m, package, cpus, SHOAL_CPUS_MAX);
  shoal_topo_list_bits(package->nodeset, numa, SHOAL_NUMA_MAX);
}

void shoal_machine_print(const shoal_machine *m, shoal_str *out)
{
  char cpus[SHOAL_CPUS_MAX], nodes[SHOAL_NUMA_MAX], memory[32];
  const shoal_facts *f = &m->facts;
  if (m->xml)
    shoal_str_add(out, "machine %s (saved on %s)", m->xml, f->host);
  else
    shoal_str_add(out, "machine %s", f->host);
  shoal_str_add(out, ": %d core%s, %d of %d hardware threads (cpus %s)\n", f->cores, f->cores == 1 ? "" : "s", f->pus,
                threads_present(m), f->cpu_list);
  if (f->quota > 0)
    shoal_str_add(out, "  control group: %.4g core%s of processor time\n", f->quota, f->quota == 1 ? "" : "s");
  for (hwloc_obj_t p = next_package(m, NULL); p; p = next_package(m, p)) {
    package_lists(m, p, cpus, nodes);
    shoal_str_add(out, "  package %u: NUMA %s, cpus %s\n", p->os_index, nodes, *cpus ? cpus : "none of them");
  }
  for (hwloc_obj_t numa = next_numa(m, NULL); numa; numa = next_numa(m, numa)) {
    cpus_of(m, numa, cpus, sizeof cpus);
    shoal_str_add(out, "  NUMA node %u: %s, cpus %s\n", numa->os_index,
                  shoal_format_bytes((double)numa->attr->numanode.local_memory, memory, sizeof memory),
                  *cpus ? cpus : "none of them");
  }
  print_devices(m, out);
}

/* null where it is not known */
static void put_index(shoal_json *j, const char *key, int index)
{
  if (index >= 0)
    shoal_json_int(j, key, index);
  else
    shoal_json_null(j, key);
}

static void put_device(shoal_json *j, const shoal_device *d)
{
  shoal_json_string(j, "pci", d->pci);
  shoal_json_string(j, "name", d->name[0] ? d->name : NULL);
  shoal_json_string(j, "model", d->model[0] ? d->model : NULL);
  put_index(j, "numa", d->numa);
  put_index(j, "package", d->package);
}

static void put_devices(const shoal_machine *m, shoal_json *j)
{
  const shoal_device *d;
  shoal_json_array(j, "interfaces");
  for (int k = 0; (d = shoal_machine_nic(m, k)) != NULL; k++) {
    shoal_json_object(j, NULL);
    put_device(j, d);
    shoal_json_end(j);
  }
  shoal_json_end(j);
  shoal_json_array(j, "gpus");
  for (int g = 0; (d = shoal_machine_gpu(m, g)) != NULL; g++) {
    shoal_json_object(j, NULL);
    put_device(j, d);
    shoal_json_bool(j, "open", !d->closed);
    shoal_json_array(j, "interfaces");
    for (int k = 0; k < m->n_nics; k++) shoal_json_string(j, NULL, shoal_near_name(shoal_machine_distance(m, g, k)));
    shoal_json_end(j);
    shoal_json_end(j);
  }
  shoal_json_end(j);
}

static void put_packages(const shoal_machine *m, shoal_json *j)
{
  char cpus[SHOAL_CPUS_MAX], nodes[SHOAL_NUMA_MAX];
  shoal_json_array(j, "packages");
  for (hwloc_obj_t p = next_package(m, NULL); p; p = next_package(m, p)) {
    package_lists(m, p, cpus, nodes);
    shoal_json_object(j, NULL);
    shoal_json_uint(j, "number", p->os_index);
    shoal_json_string(j, "numa", nodes);
    shoal_json_string(j, "cpus", cpus);
    shoal_json_end(j);
  }
  shoal_json_end(j);
}

void shoal_machine_put_json(const shoal_machine *m, shoal_json *j, const char *key)
{
  char cpus[SHOAL_CPUS_MAX];
  const shoal_facts *f = &m->facts;
  shoal_json_object(j, key);
  shoal_json_string(j, "host", f->host);
  shoal_json_string(j, "file", m->xml);
  shoal_json_int(j, "cores", f->cores);
  shoal_json_int(j, "hardware_threads", f->pus);
  shoal_json_int(j, "present", threads_present(m));
  shoal_json_string(j, "cpus", f->cpu_list);
  shoal_json_real(j, "quota", f->quota > 0 ? f->quota : NAN);
  put_packages(m, j);
  shoal_json_array(j, "numa");
  for (hwloc_obj_t numa = next_numa(m, NULL); numa; numa = next_numa(m, numa)) {
    cpus_of(m, numa, cpus, sizeof cpus);
    shoal_json_object(j, NULL);
    shoal_json_uint(j, "number", numa->os_index);
    shoal_json_uint(j, "bytes", numa->attr->numanode.local_memory);
    shoal_json_string(j, "cpus", cpus);
    shoal_json_end(j);
  }
  shoal_json_end(j);
  put_devices(m, j);
  shoal_json_end(j);
}
