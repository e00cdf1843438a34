/* The GPUs and network interfaces of a machine.
 *
 * hwloc reads PCI devices from the kernel (or from the saved file) and knows which NUMA node each hangs on.  A GPU's UUID is in
 * the NVIDIA driver's own files, or was saved by hwloc.  Order is that of PCI addresses, as of nvidia-smi and of CUDA with
 * CUDA_DEVICE_ORDER=PCI_BUS_ID; it often differs from the order of NUMA nodes. */
#include "base/mem.h"
#include "topo/topo_impl.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- kinds ---- */

static bool is_gpu(const struct hwloc_pcidev_attr_s *pci)
{
  enum { DISPLAY = 0x03, ACCELERATOR = 0x12, VGA = 0x0300, NVIDIA = 0x10de, AMD = 0x1002, INTEL = 0x8086 };
  int base = pci->class_id >> 8;
  if (base != DISPLAY && base != ACCELERATOR) return false;
  if (pci->vendor_id == INTEL) return pci->class_id != VGA; /* a screen's */
  return pci->vendor_id == NVIDIA || pci->vendor_id == AMD;
}

/* The interface below a PCI device; that of verbs if it has one. */
static hwloc_obj_t interface_of(hwloc_obj_t pci)
{
  hwloc_obj_t best = NULL;
  for (hwloc_obj_t o = pci->io_first_child; o; o = o->next_sibling) {
    if (o->type != HWLOC_OBJ_OS_DEVICE) continue;
    if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) return o;
    if (o->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK && !best) best = o;
  }
  return best;
}

/* ---- a GPU's UUID ---- */

/* The value of a line "NAME:   value" in a file of the driver. */
static bool driver_says(const char *pci, const char *name, char *out, size_t cap)
{
  char path[96], line[160];
  bool found = false;
  snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%s/information", pci);
  FILE *f = fopen(path, "re");
  while (f && !found && fgets(line, sizeof line, f)) {
    size_t n = strlen(name);
    if (strncmp(line, name, n) != 0 || line[n] != ':') continue;
    char *value = line + n + 1 + strspn(line + n + 1, " \t");
    value[strcspn(value, "\n")] = '\0';
    snprintf(out, cap, "%s", value);
    found = true;
  }
  if (f) fclose(f);
  return found;
}

static void ask_driver(shoal_device *d)
{
  char minor[16], path[48];
  if (driver_says(d->pci, "GPU UUID", d->name, sizeof d->name) && strchr(d->name, '?')) d->name[0] = '\0';
  if (!driver_says(d->pci, "Device Minor", minor, sizeof minor)) return;
  snprintf(path, sizeof path, "/dev/nvidia%s", minor);
  int fd = open(path, O_RDWR | O_CLOEXEC); /* control groups forbid devices only when they are opened */
  d->closed = fd < 0;
  if (fd >= 0) close(fd);
}

static void read_saved(hwloc_obj_t pci, shoal_device *d)
{
  static const char *const keys[] = { "NVIDIAUUID", "AMDUUID" };
  for (hwloc_obj_t o = pci->io_first_child; o; o = o->next_sibling)
    for (size_t i = 0; i < SHOAL_COUNT(keys); i++) {
      const char *uuid = hwloc_obj_get_info_by_name(o, keys[i]);
      if (uuid && !d->name[0]) snprintf(d->name, sizeof d->name, "%s", uuid);
    }
}

/* ---- places ---- */

static int ancestor_index(hwloc_obj_t o, hwloc_obj_type_t type)
{
  while (o && o->type != type) o = o->parent;
  return o ? (int)o->os_index : -1;
}

/* Where only one NUMA node exists, everything is on it. */
static void locate(const shoal_machine *m, hwloc_obj_t pci, shoal_device *d)
{
  hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(m->t, pci);
  d->numa = near && near->nodeset && hwloc_bitmap_weight(near->nodeset) == 1 ? hwloc_bitmap_first(near->nodeset) : -1;
  d->package = ancestor_index(near, HWLOC_OBJ_PACKAGE);
}

/* The bridge nearest to the host that is not the host's own: two devices below the same one talk without it. */
static hwloc_obj_t switch_of(hwloc_obj_t pci)
{
  hwloc_obj_t found = NULL;
  for (hwloc_obj_t o = pci->parent; o && o->type == HWLOC_OBJ_BRIDGE; o = o->parent)
    if (o->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI) found = o;
  return found;
}

/* ---- the list ---- */

typedef struct {
  shoal_device d;
  hwloc_obj_t above; /* its PCI switch, or NULL */
  bool nic;
} entry;

static bool describe(const shoal_machine *m, hwloc_obj_t pci, entry *e)
{
  const struct hwloc_pcidev_attr_s *at = &pci->attr->pcidev;
  const char *model = hwloc_obj_get_info_by_name(pci, "PCIDevice");
  hwloc_obj_t interface = interface_of(pci);
  *e = (entry){ .nic = interface != NULL, .above = switch_of(pci) };
  if (!interface && !is_gpu(at)) return false;
  snprintf(e->d.pci, sizeof e->d.pci, "%04x:%02x:%02x.%01x", at->domain & 0xffffu, at->bus, at->dev, at->func);
  if (model) snprintf(e->d.model, sizeof e->d.model, "%s", model);
  locate(m, pci, &e->d);
  if (interface) {
    if (interface->name) snprintf(e->d.name, sizeof e->d.name, "%s", interface->name);
    e->d.fabric = interface->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
  } else if (m->xml) {
    read_saved(pci, &e->d);
  } else {
    ask_driver(&e->d);
  }
  return true;
}

static int by_kind_and_address(const void *a, const void *b)
{
  const entry *x = a, *y = b;
  return x->nic != y->nic ? x->nic - y->nic : strcmp(x->d.pci, y->d.pci);
}

static shoal_status keep(shoal_machine *m, const entry *list, int n)
{
  SHOAL_TRY(SHOAL_ALLOC((size_t)n + 1, &m->devices));
  for (int i = 0; i < n; i++) {
    m->devices[i] = list[i].d;
    m->n_nics += list[i].nic;
  }
  m->n_gpus = n - m->n_nics;
  SHOAL_TRY(SHOAL_ALLOC((size_t)(m->n_gpus * m->n_nics) + 1, &m->switches));
  for (int g = 0; g < m->n_gpus; g++)
    for (int k = 0; k < m->n_nics; k++)
      m->switches[g * m->n_nics + k] = list[g].above && list[g].above == list[m->n_gpus + k].above;
  return SHOAL_OK;
}

shoal_status shoal_machine_find_devices(shoal_machine *m)
{
  entry *list;
  int most = 0, n = 0;
  for (hwloc_obj_t o = NULL; m->t && (o = hwloc_get_next_pcidev(m->t, o)) != NULL;) most++;
  SHOAL_TRY(SHOAL_ALLOC((size_t)most + 1, &list));
  for (hwloc_obj_t o = NULL; m->t && (o = hwloc_get_next_pcidev(m->t, o)) != NULL;) n += describe(m, o, &list[n]);
  qsort(list, (size_t)n, sizeof *list, by_kind_and_address);
  shoal_status st = keep(m, list, n);
  free(list);
  return st;
}

const shoal_device *shoal_machine_gpu(const shoal_machine *m, int i)
{
  return i >= 0 && i < m->n_gpus ? &m->devices[i] : NULL;
}

const shoal_device *shoal_machine_nic(const shoal_machine *m, int i)
{
  return i >= 0 && i < m->n_nics ? &m->devices[m->n_gpus + i] : NULL;
}
