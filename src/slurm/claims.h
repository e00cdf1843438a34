/* What Slurm, the launcher and PMIx claim about ranks and nodes, and whether it agrees with the actual placement.
 *
 *   Slurm      its variables in a step's environment        launcher   mpirun's variables
 *   PMIx       keys queried from its server (comm/pmix.c)   MPI        rank and size
 *   hosts      host name and boot id of every rank, gathered
 *
 * The run uses the last two, the actual placement; the first three are claims.  A claim that contradicts it means that
 * these ranks are not the ones the user meant to start.  A missing claim is no contradiction.  See docs/topology.md. */
#ifndef SHOAL_SLURM_CLAIMS_H
#define SHOAL_SLURM_CLAIMS_H
#include "base/env.h"
#include "slurm/step.h"
#include "topo/topo.h"
#include <stddef.h>

/* ---- claims of all sources ---- */

typedef enum { SHOAL_SOURCE_SLURM, SHOAL_SOURCE_LAUNCHER, SHOAL_SOURCE_PMIX, SHOAL_SOURCE_COUNT } shoal_source;
typedef enum {
  SHOAL_CLAIM_RANKS,       /* number of ranks */
  SHOAL_CLAIM_RANK,        /* rank of this process */
  SHOAL_CLAIM_NODES,       /* number of nodes */
  SHOAL_CLAIM_NODE,        /* index of this node, in the source's own numbering */
  SHOAL_CLAIM_LOCAL_RANKS, /* number of ranks on this node */
  SHOAL_CLAIM_LOCAL_RANK,  /* rank of this process on its node */
  SHOAL_CLAIM_LISTED,      /* number of nodes in the step's node list */
  SHOAL_CLAIM_COUNT
} shoal_claim_kind;

/* The claims one process sees.  Without pointers, because all ranks exchange them. */
typedef struct {
  struct {
    int32_t number[SHOAL_CLAIM_COUNT]; /* -1: no claim */
    char host[SHOAL_HOST_MAX];         /* the source's name of this host; "": no claim */
  } by[SHOAL_SOURCE_COUNT];
  int32_t launcher;   /* index of the launcher whose variables are set, -1: none */
  int32_t step_tasks; /* tasks of the surrounding Slurm step (possibly that of mpirun's daemons), 0: no step */
  int32_t listed;     /* whether this host is in the node list: 1 yes, 0 no, -1 no list */
  char list[128];     /* the node list, for messages */
} shoal_claims;

/** Read the claims of Slurm and the launcher from the environment.  Slurm's are used only if its step started this
 *  process itself, not under mpirun, where the step consists of mpirun's daemons.  PMIx claims are not set, except the
 *  rank.
 *  @param host  name of this host, searched in the node list
 *  @return ERR_WORLD if a Slurm variable cannot be read; `out` then has the claims of the other sources */
shoal_status shoal_claims_read(const shoal_env *e, const char *host, shoal_claims *out);
const char *shoal_claims_name(const shoal_claims *c, shoal_source source, shoal_claim_kind kind); /* variable or key */
/** The processes that torchrun, accelerate or deepspeed say they have started, of which this is one: they are no ranks of MPI.  0: none. */
int shoal_torch_processes(const shoal_env *e);
/** Compare the claims of all ranks with the actual placement.  No communication: every rank computes the same result.
 *  @param all      [t->size] in rank order
 *  @param t        the actual placement, not a pretended one
 *  @param library  name of the MPI library, for the advice in the message
 *  @return ERR_WORLD: one line with rank, source, claim, actual value, and advice */
shoal_status shoal_claims_compare(const shoal_claims *all, const shoal_topo *t, const char *library);
/** Print a table of the claims as seen by rank `rank`, a line per source, and the actual placement. */
void shoal_claims_print(const shoal_claims *c, const shoal_topo *t, int rank, shoal_str *out);
/** True if both names may belong to the same host: "n1" and "n1.site.org" do.  Two fully qualified names must be equal.
 *  Ignores case. */
bool shoal_topo_same_host(const char *a, const char *b);
#endif
