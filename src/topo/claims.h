/* What others say about where we are, and whether it is true.
 *
 *   Slurm      its variables in a step's environment        launcher   mpirun's variables
 *   PMIx       keys asked from the server (comm/pmix.c)     MPI        rank and size
 *   the hosts  host name and boot id of every rank, gathered
 *
 * The last two are what a run stands on; the first three are claims.  One that contradicts them means that these ranks
 * are not the ones somebody meant to start.  A claim nobody makes is no contradiction.  See docs/topology.md. */
#ifndef SHOAL_TOPO_CLAIMS_H
#define SHOAL_TOPO_CLAIMS_H
#include "topo/topo.h"
#include <stddef.h>

/* ---- variables: of this process, or of a file of NAME=VALUE lines as `env` prints them ---- */

typedef struct shoal_env shoal_env; /* NULL wherever one is taken: this process's own environment */
/** Lines that are not NAME=VALUE belong to the value before them, or are shell functions, and are skipped; a later line
 *  replaces an earlier one of the same name.  ERR_IO if it cannot be read, ERR_USAGE if it has no such line. */
shoal_status shoal_env_read(const char *path, shoal_env **out);
void shoal_env_destroy(shoal_env *e);
const char *shoal_env_get(const shoal_env *e, const char *name);    /* NULL: not set, or empty */
int shoal_env_int(const shoal_env *e, const char *name, int least); /* -1: not set, no whole number, or below `least` */

/* ---- the Slurm step around us ---- */

typedef struct {
  bool inside;                /* of a step; else what follows is the job's (a batch script's own environment) */
  int tasks, nodes;           /* -1: not said, here and below */
  int rank, node, local_rank; /* of this task */
  bool job_list;              /* inside a step, but `list` is the job's, which may have more nodes */
  char **hosts;               /* the node list written out; NULL: not said */
  size_t n_hosts;
  int *per_node; /* tasks on each node, in the order of the list */
  size_t n_per_node;
  const char *list_name, *per_node_name;     /* the variables they come from */
  const char *list, *distribution, *mapping; /* as written, borrowed from the environment; NULL: not said */
  int plane;                                 /* chunk of a plane distribution */
} shoal_step;
/** No external command is asked (there may be none).  ERR_USAGE names variable and position of what cannot be read. */
shoal_status shoal_step_read(const shoal_env *e, shoal_step *out);
void shoal_step_free(shoal_step *s);
/** "2,1,2(x3)": numbers of tasks, one per node.  `name` is for messages.  ERR_USAGE names the position from 1. */
shoal_status shoal_step_parse_counts(const char *name, const char *text, int **counts_out, size_t *n_out);

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
