/* A machine as hwloc describes it: this one, or one saved by `lstopo FILE.xml`; and what is near what on it.
 *
 *     package 0   NUMA 0  cores ...                ranks ->  GPU by its NUMA node    (choose)
 *                 NUMA 1  cores ...  GPU  NIC       ranks ->  cores near their GPU    (share)
 *     package 1   ...                               GPU   ->  NIC below its PCI switch, else on its NUMA node
 *
 * Decisions depend on the machine and the number of its ranks alone, so that every rank, and a plan for a saved machine, finds
 * the same.  The rules: docs/topology.md. */
#ifndef SHOAL_TOPO_MACHINE_H
#define SHOAL_TOPO_MACHINE_H
#include "topo/topo.h"

typedef struct shoal_machine shoal_machine;
/** @param xml  XML file for hwloc to load, or NULL for this machine, restricted to this thread's affinity mask
 *  @return ERR_IO if it cannot be read */
shoal_status shoal_machine_open(const char *xml, shoal_machine **out);
void shoal_machine_close(shoal_machine *m);
/** The facts of a process that may use all cores of the machine; pid is 0 for a saved machine.  Borrowed. */
const shoal_facts *shoal_machine_facts(const shoal_machine *m);
void shoal_machine_print(const shoal_machine *m, shoal_str *out);
void shoal_machine_put_json(const shoal_machine *m, shoal_json *j, const char *key);

/* ---- cores ---- */

/** Restrict `f` to the hardware threads [first, first + count) of the machine in hwloc's logical order: sets its cores,
 *  lists and NUMA nodes. */
void shoal_machine_cut(const shoal_machine *m, int first, int count, shoal_facts *f);
/** Restrict `f` to a mask as Slurm writes it, "0xff00", and to what the machine allows.  False if it is no mask or nothing is left;
 *  `f` is then as it was. */
bool shoal_machine_bind(const shoal_machine *m, const char *mask, shoal_facts *f);
/** Gives `ranks` ranks of the machine cores of their own, equally many and near their GPUs, in f[ranks].  With more ranks than
 *  cores nothing is changed. */
shoal_status shoal_machine_share(const shoal_machine *m, int ranks, shoal_facts *f);

/* ---- devices ---- */

typedef struct {
  char pci[16];      /* "0000:65:00.0" */
  char name[48];     /* of a GPU its UUID, of an interface "mlx5_0" or "eth0"; "": not known */
  char model[64];    /* "": not known */
  int numa, package; /* OS indexes of where it is attached; -1: no particular one */
  bool fabric;       /* an interface that speaks InfiniBand's verbs or the like */
  bool closed;       /* a GPU whose device file this process may not open, as in a job with other GPUs */
} shoal_device;
const shoal_device *shoal_machine_gpu(const shoal_machine *m,
                                      int i); /* in the order of PCI addresses; NULL after the last one */
const shoal_device *shoal_machine_nic(const shoal_machine *m, int i);

typedef enum {
  SHOAL_NEAR_SWITCH,
  SHOAL_NEAR_NUMA,
  SHOAL_NEAR_PACKAGE,
  SHOAL_NEAR_FAR,
  SHOAL_NEAR_NEVER /* not to be had at all */
} shoal_near;
const char *shoal_near_name(shoal_near near); /* "switch", "numa", "package", "far"; not for NEVER */
shoal_near shoal_machine_distance(const shoal_machine *m, int gpu, int nic);

typedef struct {
  int gpu, nic; /* -1: none */
  shoal_near gpu_near,
      nic_near; /* the GPU to the rank's cores; the interface to the GPU, or to the cores without one */
} shoal_choice;
/** The GPU and network interface of each rank of a node.  As many ranks as possible get a GPU of their own NUMA nodes, then of
 *  their package; ranks share GPUs only if there are more ranks, and evenly.
 *  @param numa     [ranks] the NUMA nodes of each rank's cores, "0-1"; "": all
 *  @param visible  value of CUDA_VISIBLE_DEVICES, or NULL: only these GPUs, by UUID or by number in the order of PCI addresses */
shoal_status shoal_machine_choose(const shoal_machine *m, int ranks, const char *const *numa, const char *visible,
                                  shoal_choice *out);
#endif
