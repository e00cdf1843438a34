/* Where am I?  Facts about this process (host, cores it may use, what the launcher claims) and the table of all ranks
 * that comm/ gathers: which ranks share a node, and so which link a message takes.
 *
 * `--topo 2x2` pretends: 2 nodes of 2 ranks on one machine, so two-level methods run on a laptop. */
#ifndef SHOAL_TOPO_TOPO_H
#define SHOAL_TOPO_TOPO_H
#include "base/status.h"
#include "base/str.h"
#include "trace/trace.h"
#include <stdbool.h>
#include <stdint.h>

enum { SHOAL_HOST_MAX = 64 };

/* Facts of this process; no communication. */
typedef struct {
  char host[SHOAL_HOST_MAX];
  char node_id[SHOAL_HOST_MAX]; /* host name + boot id: what decides "same node" */
  int pid;
  int cores;          /* size of the affinity mask, in cores as hwloc counts them (not hardware threads) */
  int pus;            /* hardware threads in the mask */
  uint64_t mask_hash; /* equal masks have equal hashes */
  char cpu_list[128]; /* "0-3,8" as the operating system numbers them */
  int numa_nodes;
  int claimed_cores;         /* what the environment claims (SLURM_CPUS_PER_TASK), 0: nothing */
  int claimed_by_srun;       /* SRUN_CPUS_PER_TASK, 0: nothing; srun refuses to start when the two differ */
  int step_tasks, step_rank; /* what the launcher claims (SLURM_STEP_NUM_TASKS/SLURM_PROCID), -1: nothing */
} shoal_facts;
/** The mask is the calling thread's, as the operating system has it: call before threads are pinned.  hwloc only tells
 *  which hardware threads make a core; where it does not know, each counts as one.  ERR_IO if the mask cannot be read. */
shoal_status shoal_topo_facts(shoal_facts *out);
/** Facts of a saved machine (`lstopo FILE.xml`), as a process with all its cores would see them; pid is 0.  A plan made
 *  from them is not applied to anything.  ERR_IO if hwloc cannot load the file. */
shoal_status shoal_topo_facts_saved(const char *xml, shoal_facts *out);
/** Compare claims and mask: warns "asked 4, have 1" with the cure, as an error (ERR_WORLD) when `strict`; warns when the
 *  two variables of Slurm differ.  "Have" are hardware threads, which is what Slurm counts at most. */
shoal_status shoal_topo_check_cores(const shoal_facts *f, bool strict);

/* The placement of all ranks, the same on every rank. */
typedef struct {
  int rank, node, local_rank, local_size;
  char host[SHOAL_HOST_MAX];
  char cpu_list[128];
  int pid, cores, threads;
} shoal_place;
typedef struct {
  int size, nodes;
  bool pretended;
  shoal_place *places; /* [size], owned */
} shoal_topo;

/** Build the table from everybody's facts, ranks in order.  Nodes are numbered by their lowest rank.  Threads: the
 *  cores of a mask are shared evenly by the ranks of a node that have that same mask, at least one each.
 *  @param pretend  NULL, or "NxG" (N nodes of G ranks, ranks node by node; N*G must be `size`, ERR_USAGE else),
 *                  or a list of ranks per node, "2,1,2,3" */
shoal_status shoal_topo_create(const shoal_facts *all, int size, const char *pretend, shoal_topo **out);
void shoal_topo_destroy(shoal_topo *t);
shoal_link shoal_topo_link(const shoal_topo *t, int rank_a, int rank_b); /* SELF, NODE or BETWEEN */
void shoal_topo_print(const shoal_topo *t, shoal_str *out);              /* the placement table */
void shoal_topo_print_json(const shoal_topo *t, shoal_str *out);
/** "n[1-2,4],m7" to names, in order: several brackets multiply, the last varies fastest; "n[01-10]x" keeps the zeros.
 *  No external command.  Caller frees each and the array.  ERR_USAGE names the position (from 1) of what is wrong. */
shoal_status shoal_topo_expand_nodes(const char *list, char ***names_out, size_t *n_out);
#endif
