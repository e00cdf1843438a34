/* Where am I?  Facts about this process (host, cores it may use) and the table of all ranks that comm/ gathers: which
 * ranks share a node, and so which link a message takes.  What others claim about it: slurm/claims.h.
 *
 * `--topo 2x2` pretends: 2 nodes of 2 ranks on one machine, so two-level methods run on a laptop. */
#ifndef SHOAL_TOPO_TOPO_H
#define SHOAL_TOPO_TOPO_H
#include "base/env.h"
#include "base/json.h"
#include "base/status.h"
#include "base/str.h"
#include "trace/trace.h"
#include <stdbool.h>
#include <stdint.h>

enum { SHOAL_HOST_MAX = 64, SHOAL_CPUS_MAX = 128, SHOAL_NUMA_MAX = 64 };

/* Facts of this process; no communication. */
typedef struct {
  char host[SHOAL_HOST_MAX];
  char node_id[SHOAL_HOST_MAX]; /* host name + boot id: what decides "same node" */
  int pid;
  int cores;                      /* size of the affinity mask, in cores as hwloc counts them (not hardware threads) */
  int pus;                        /* hardware threads in the mask */
  uint64_t mask_hash;             /* equal masks have equal hashes */
  char cpu_list[SHOAL_CPUS_MAX];  /* "0-3,8" as the operating system numbers them */
  int numa_nodes;                 /* memory nodes with a part of the mask */
  char numa_list[SHOAL_NUMA_MAX]; /* "0-1", their numbers; "" if unknown */
  int claimed_cores;              /* what the environment claims (SLURM_CPUS_PER_TASK), 0: nothing */
  int claimed_by_srun;            /* SRUN_CPUS_PER_TASK, 0: nothing; srun refuses to start when the two differ */
} shoal_facts;
/** The mask is the calling thread's, as the operating system has it: call before threads are pinned.  hwloc only tells
 *  which hardware threads make a core; where it does not know, each counts as one.  ERR_IO if the mask cannot be read. */
shoal_status shoal_topo_facts(shoal_facts *out);
void shoal_topo_set_host(shoal_facts *f, const char *host);     /* host name and node identity */
void shoal_topo_read_cores(const shoal_env *e, shoal_facts *f); /* cores per task that Slurm's variables claim */
/** Compare all ranks' claims and masks: one warning "asked 4, have 1" for the first rank with fewer, with the cure, as
 *  an error (ERR_WORLD) when `strict`; and one when the two variables of Slurm differ.  "Have" are hardware threads,
 *  which is what Slurm counts at most.  Only rank 0 warns.
 *  @param all  [size] in rank order */
shoal_status shoal_topo_check_cores(const shoal_facts *all, int size, bool strict);

/* The placement of all ranks, the same on every rank. */
typedef struct {
  int rank, node, local_rank, local_size;
  char host[SHOAL_HOST_MAX];
  char cpu_list[SHOAL_CPUS_MAX], numa_list[SHOAL_NUMA_MAX];
  int pid, cores, threads; /* pid 0: planned */
} shoal_place;
typedef struct {
  int size, nodes;
  bool pretended;
  bool planned;        /* no process has this placement */
  shoal_place *places; /* [size], owned */
} shoal_topo;

/** Build the table from everybody's facts, ranks in order.  Nodes are numbered by their lowest rank.  Threads: the
 *  cores of a mask are shared evenly by the ranks of a node that have that same mask, at least one each.
 *  @param pretend  NULL, or "NxG" (N nodes of G ranks, ranks node by node; N*G must be `size`, ERR_USAGE else),
 *                  or a list of ranks per node, "2,1,2,3".  ERR_USAGE too if it puts ranks of different hosts on one
 *                  node, because ranks of a node share memory */
shoal_status shoal_topo_create(const shoal_facts *all, int size, const char *pretend, shoal_topo **out);
void shoal_topo_destroy(shoal_topo *t);
shoal_link shoal_topo_link(const shoal_topo *t, int rank_a, int rank_b); /* SELF, NODE or BETWEEN */
void shoal_topo_print(const shoal_topo *t, shoal_str *out);              /* the placement table, a row per rank */
/** The same for a log: above 16 ranks one row for each run of nodes alike. */
void shoal_topo_print_short(const shoal_topo *t, shoal_str *out);
void shoal_topo_put_json(const shoal_topo *t, shoal_json *j, const char *key);
void shoal_topo_put_json_row(const shoal_topo *t, int rank, shoal_json *j,
                             const char *key); /* the same with one place */

/* Identity of a layout: which ranks share a node, as 16 hexadecimal digits and the end of the text. */
enum { SHOAL_LAYOUT_HASH = 17 };
/** Equal for two placements exactly when (but for a chance of 2^-64) each two ranks share a node in both or in neither:
 *  names of hosts, cores, and whether it is pretended do not count. */
void shoal_topo_layout_hash(const shoal_topo *t, char out[SHOAL_LAYOUT_HASH]);
/** The same from what shoal_topo_put_json wrote.  @return ERR_IO if it does not tell the nodes of `size` ranks */
shoal_status shoal_topo_read_layout(const char *placement, int64_t size, char out[SHOAL_LAYOUT_HASH]);
/** For people: ranks per node, "2,2", with " interleaved" where the ranks of a node do not follow each other; where that is
 *  too long "2,2,... (300 nodes)".  Different layouts may read alike.  @param cap  64 or more */
void shoal_topo_layout_text(const shoal_topo *t, char *out, size_t cap);
/** Which ranks make the node groups and the groups of one rank per node. */
void shoal_topo_print_groups(const shoal_topo *t, shoal_str *out);
#endif
