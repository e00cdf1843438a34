/* Topology: the host and allowed cores of this process, and the placement of all ranks, built from what comm/ gathers:
 * which ranks share a node, and hence which link class a message uses.  What Slurm and launchers claim about it is in
 * slurm/claims.h.
 *
 * `--topo 2x2` pretends 2 nodes of 2 ranks on one machine, so that two-level methods can be tested on a laptop. */
#ifndef SHOAL_TOPO_TOPO_H
#define SHOAL_TOPO_TOPO_H
#include "base/env.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "topo/gpu.h"
#include "trace/trace.h"
#include <stdbool.h>
#include <stdint.h>

enum { SHOAL_HOST_MAX = 64, SHOAL_CPUS_MAX = 128, SHOAL_NUMA_MAX = 64, SHOAL_BOUND_MAX = 64 };

/* What a process knows about itself, without communication. */
typedef struct {
  char host[SHOAL_HOST_MAX];
  char node_id[SHOAL_HOST_MAX]; /* host name and boot id; equal for processes on the same node */
  int pid;
  int cores;                      /* number of cores (not hardware threads) in the affinity mask, according to hwloc */
  int pus;                        /* hardware threads in the mask */
  int present;                    /* hardware threads of the machine; 0: not known */
  uint64_t mask_hash;             /* equal masks have equal hashes */
  char cpu_list[SHOAL_CPUS_MAX];  /* hardware threads of the mask by OS index, "0-3,8" */
  int numa_nodes;                 /* NUMA nodes that intersect the mask */
  char numa_list[SHOAL_NUMA_MAX]; /* OS indexes of those NUMA nodes, "0-1"; "" if unknown */
  double quota;                   /* processor time that a control group allows, in cores; 0: no quota */
  uint64_t quota_group;           /* identity of that group: its processes share the quota */
  char bound_by[SHOAL_BOUND_MAX]; /* "OMP_PROC_BIND=true", what makes OpenMP bind threads; "" if it does not */
  bool bound_list;                /* that is a list of cores, which may be fewer than the affinity mask has */
  int first_cores;                /* cores the first thread is bound to; 0 if OpenMP does not bind */
  int claimed_cores;              /* SLURM_CPUS_PER_TASK, 0 if unset */
  int claimed_by_srun;            /* SRUN_CPUS_PER_TASK, 0 if unset; srun may refuse to start if the two differ */
  int gpus;                       /* GPUs that it may use, in its own numbering; 0 unless the run asks for them */
  shoal_gpu gpu[SHOAL_GPUS_MAX];
} shoal_facts;
/** Uses the affinity mask of the calling thread, as it was before OpenMP bound that thread: call it before threads are
 *  pinned otherwise.  hwloc only groups hardware threads into cores; those it does not know count as one core each.  ERR_IO if the mask cannot be read. */
shoal_status shoal_topo_facts(shoal_facts *out);
/** Give this thread all the cores that OpenMP, told to bind threads, had before it took one of them for this thread: a program that
 *  is started from here would have that one only. */
void shoal_topo_unbind(void);
void shoal_topo_set_host(shoal_facts *f, const char *host); /* sets host and node_id */
/** Sets claimed_cores and claimed_by_srun.  ERR_WORLD if a variable is neither a number nor a list of numbers by node, of which
 *  the least counts. */
shoal_status shoal_topo_read_cores(const shoal_env *e, shoal_facts *f);
/** Compare the cores per task that Slurm claims with the masks of all ranks.  Warns "asked 4, have 1" and how to fix it
 *  for the first rank that has fewer, or fails with ERR_WORLD if `strict`; also warns if Slurm's two variables differ.
 *  "Have" counts hardware threads, the largest number of CPUs Slurm may count.  Only rank 0 warns.
 *  @param all  [size] in rank order */
shoal_status shoal_topo_check_cores(const shoal_facts *all, int size, bool strict);
/** Compares the threads of all ranks with what can run at the same time.  Warns, with the cure, if a quota of a control
 *  group or OpenMP's binding leaves less, or fails with ERR_WORLD if `strict`; says so if a mask has fewer cores.  Only
 *  rank 0 prints.
 *  @param asked  threads per rank from the run file, 0: those of shoal_topo_create */
shoal_status shoal_topo_check_threads(const shoal_facts *all, int size, int asked, bool strict);

/* Cores that a rank may use.  Ranks for which all of this is equal, such as the first ones of all nodes, share one. */
typedef struct {
  char cpu_list[SHOAL_CPUS_MAX], numa_list[SHOAL_NUMA_MAX];
  int cores, threads;
} shoal_cores;
/* A GPU that ranks have. */
typedef struct {
  char id[SHOAL_GPU_ID];
  int ranks; /* how many have it */
} shoal_gpu_use;
/* The placement of all ranks, the same on every rank, which holds it as long as the run lasts: so it is small. */
typedef struct {
  const char *host;
  const shoal_cores *on;
  const shoal_gpu_use *gpu; /* NULL: none */
  int node, pid;            /* pid is 0 in a planned topology */
  int16_t local_rank, local_size;
  int16_t device; /* number of its GPU among those of this process */
} shoal_place;
typedef struct {
  int size, nodes;
  bool pretended;
  bool planned;        /* computed by shoal_topo_plan, not that of running processes */
  shoal_place *places; /* [size], owned, as all that they point to: */
  char *hosts;         /* of all nodes, one after another */
  shoal_cores *cores;  /* [n_cores] */
  size_t n_cores;
  shoal_gpu_use *gpus;
} shoal_topo;

/** Build the placement from the facts of all ranks, in rank order.  Nodes are numbered in the order of their lowest
 *  ranks.  Threads: the cores of a mask are divided evenly among the ranks of the node that have the same mask, and
 *  no more than their part of the quota of their control group, but at least one each.
 *  @param pretend  NULL, or "NxG" (N nodes of G ranks, ranks node by node; N*G must be `size`, ERR_USAGE else),
 *                  or a list of ranks per node, "2,1,2,3".  ERR_USAGE too if it puts ranks of different hosts on one
 *                  node, because ranks of a node share memory.  ERR_WORLD: more than 32767 ranks on a node */
shoal_status shoal_topo_create(const shoal_facts *all, int size, const char *pretend, shoal_topo **out);
void shoal_topo_destroy(shoal_topo *t);
void shoal_topo_set_threads(shoal_topo *t, int threads); /* of every rank */
/** Gives each rank a GPU of those that it sees: as many ranks as possible one at the NUMA nodes of their cores; ranks share only if they
 *  must.  Nodes that are pretended do not matter.
 *  @param one_each  leaves all ranks without if one would have none, or share */
shoal_status shoal_topo_assign_gpus(const shoal_facts *all, bool one_each, shoal_topo *t);
void shoal_topo_print(const shoal_topo *t, shoal_str *out); /* the placement table, a row per rank */
/** A shorter table for logs: above 16 ranks, consecutive nodes of the same layout share a row. */
void shoal_topo_print_short(const shoal_topo *t, shoal_str *out);
void shoal_topo_put_json(const shoal_topo *t, shoal_json *j, const char *key);
void shoal_topo_put_json_node(const shoal_topo *t, int node, shoal_json *j,
                              const char *key); /* as above, with the places on one node only */

/* Identity of a layout, that is, of which ranks share a node: 16 hexadecimal digits and the terminating NUL. */
enum { SHOAL_LAYOUT_HASH = 17 };
/** Equal for two placements if and only if (up to a probability of 2^-64) the same ranks share nodes; host names, cores
 *  and whether the topology is pretended do not matter. */
void shoal_topo_layout_hash(const shoal_topo *t, char out[SHOAL_LAYOUT_HASH]);
/** The same from the output of shoal_topo_put_json.  @return ERR_IO if it does not contain the nodes of `size` ranks */
shoal_status shoal_topo_read_layout(const char *placement, int64_t size, char out[SHOAL_LAYOUT_HASH]);
/** For messages: ranks per node, "2,2", with " interleaved" if the ranks of a node are not consecutive; abbreviated to
 *  "2,2,... (300 nodes)" if too long.  Different layouts may give the same text.  @param cap  64 or more */
void shoal_topo_layout_text(const shoal_topo *t, char *out, size_t cap);
/** Prints the ranks of the groups: one group per node, and groups across nodes with one rank of each. */
void shoal_topo_print_groups(const shoal_topo *t, shoal_str *out);
#endif
