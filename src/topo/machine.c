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

struct shoal_machine {
  char *xml;          /* NULL: this machine */
  hwloc_topology_t t; /* NULL: unknown */
  hwloc_bitmap_t mask;
  shoal_facts facts;
};

/* hwloc's parser does not survive every damaged file. */
static shoal_status try_to_load(void *xml)
{
  hwloc_topology_t t = shoal_topo_load(xml);
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
  m->t = shoal_topo_load(xml);
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
  return shoal_topo_facts_here(&m->facts, &m->t, &m->mask);
}

shoal_status shoal_machine_open(const char *xml, shoal_machine **out)
{
  shoal_machine *m = calloc(1, sizeof *m);
  SHOAL_CHECK(m, SHOAL_ERR_MEM, "a machine");
  shoal_status st = xml ? load_saved(m, xml) : look_here(m);
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

/* Lists the allowed hardware threads of a NUMA node. */
static void numa_cpus(const shoal_machine *m, hwloc_obj_t numa, char *out, size_t cap)
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

void shoal_machine_print(const shoal_machine *m, shoal_str *out)
{
  char cpus[SHOAL_CPUS_MAX], memory[32];
  const shoal_facts *f = &m->facts;
  if (m->xml)
    shoal_str_add(out, "machine %s (saved on %s)", m->xml, f->host);
  else
    shoal_str_add(out, "machine %s", f->host);
  shoal_str_add(out, ": %d core%s, %d of %d hardware threads (cpus %s)\n", f->cores, f->cores == 1 ? "" : "s", f->pus,
                threads_present(m), f->cpu_list);
  if (f->quota > 0)
    shoal_str_add(out, "  control group: %.4g core%s of processor time\n", f->quota, f->quota == 1 ? "" : "s");
  for (hwloc_obj_t numa = next_numa(m, NULL); numa; numa = next_numa(m, numa)) {
    numa_cpus(m, numa, cpus, sizeof cpus);
    shoal_str_add(out, "  NUMA node %u: %s, cpus %s\n", numa->os_index,
                  shoal_format_bytes((double)numa->attr->numanode.local_memory, memory, sizeof memory),
                  *cpus ? cpus : "none of them");
  }
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
  shoal_json_array(j, "numa");
  for (hwloc_obj_t numa = next_numa(m, NULL); numa; numa = next_numa(m, numa)) {
    numa_cpus(m, numa, cpus, sizeof cpus);
    shoal_json_object(j, NULL);
    shoal_json_uint(j, "number", numa->os_index);
    shoal_json_uint(j, "bytes", numa->attr->numanode.local_memory);
    shoal_json_string(j, "cpus", cpus);
    shoal_json_end(j);
  }
  shoal_json_end(j);
  shoal_json_end(j);
}
