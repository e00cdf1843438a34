/* What others say about where we are, and whether it is true.
 *
 *   Slurm      its variables in a step's environment        launcher   mpirun's variables
 *   PMIx       keys asked from the server (comm/pmix.c)     MPI        rank and size
 *   the hosts  host name and boot id of every rank, gathered
 *
 * The last two are what a run stands on; the first three are claims.  One that contradicts them means that these ranks
 * are not the ones somebody meant to start.  A claim nobody makes is no contradiction.  See docs/topology.md. */
#ifndef SHOAL_SLURM_CLAIMS_H
#define SHOAL_SLURM_CLAIMS_H
#include "base/env.h"
#include "slurm/step.h"
#include "topo/topo.h"
#include <stddef.h>

/* ---- claims of all sources ---- */

typedef enum { SHOAL_SAYS_SLURM, SHOAL_SAYS_LAUNCHER, SHOAL_SAYS_PMIX, SHOAL_SAYS_COUNT } shoal_source;
typedef enum {
  SHOAL_CLAIM_RANKS,       /* of the world */
  SHOAL_CLAIM_RANK,        /* of this process */
  SHOAL_CLAIM_NODES,       /* that the world uses */
  SHOAL_CLAIM_NODE,        /* number of this one, in the source's own count */
  SHOAL_CLAIM_LOCAL_RANKS, /* on this node */
  SHOAL_CLAIM_LOCAL_RANK,
  SHOAL_CLAIM_LISTED, /* nodes in the step's node list */
  SHOAL_CLAIM_COUNT
} shoal_claim_kind;

/* Of one process.  No pointers: all ranks exchange them. */
typedef struct {
  struct {
    int32_t number[SHOAL_CLAIM_COUNT]; /* -1: not said */
    char host[SHOAL_HOST_MAX];         /* its name for this host; "": not said */
  } by[SHOAL_SAYS_COUNT];
  int32_t launcher;   /* which of the known launchers set variables, -1: none */
  int32_t step_tasks; /* of the Slurm step around us, 0: none; it may be that of mpirun's daemons */
  int32_t listed;     /* this host in the node list: 1 yes, 0 no, -1 not said */
  char list[128];     /* that list, for messages */
} shoal_claims;

/** From the environment: Slurm (only where its step started this very process: not under mpirun, whose daemons are the
 *  step then) and the launcher.  PMIx stays unsaid, but for the rank.
 *  @param host  name of this host, compared with the node list
 *  @return ERR_WORLD if a Slurm variable cannot be read */
shoal_status shoal_claims_read(const shoal_env *e, const char *host, shoal_claims *out);
const char *shoal_claims_name(const shoal_claims *c, shoal_source source, shoal_claim_kind kind); /* variable or key */
/** Compare all ranks' claims with what is.  Pure: every rank gets the same verdict from the same tables.
 *  @param all      [t->size] in rank order
 *  @param t        from everybody's facts, not pretended
 *  @param library  the MPI library, for the cure
 *  @return ERR_WORLD: one line with rank, source, what it says, what is, and the cure */
shoal_status shoal_claims_compare(const shoal_claims *all, const shoal_topo *t, const char *library);
/** One table for people: a line per source, as rank `rank` heard it, and what is. */
void shoal_claims_print(const shoal_claims *c, const shoal_topo *t, int rank, shoal_str *out);
/** Two names of one host?  "n1" and "n1.site.org" are, in any case; of two full names every part counts. */
bool shoal_topo_same_host(const char *a, const char *b);
#endif
