/* Shared by the files of `shoal doctor`: findings, and the checks that make them.
 *
 *     installed (login)   start   masks   versions   clocks   links   files   devices      checks; each adds findings
 *                              what every rank found, gathered, and judged                 the same on all ranks
 *                              report, nodes to exclude, exit code                         printed by rank 0
 *
 * A check compares a node with what its hardware says of itself, and with the median of the other nodes. */
#ifndef SHOAL_CLI_DOCTOR_H
#define SHOAL_CLI_DOCTOR_H
#include "base/json.h"
#include "comm/group.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { SHOAL_WELL, SHOAL_NOTE, SHOAL_FAULT } shoal_verdict;
typedef struct {
  char check[12];  /* "links" */
  int32_t verdict; /* shoal_verdict */
  int32_t node;    /* the node that it is about, by number in the topology; -1: none in particular */
  char text[480];
} shoal_finding; /* without pointers, because ranks exchange them */

typedef struct {
  shoal_finding *at; /* owned */
  size_t n, cap;
} shoal_findings; /* a zeroed one is empty */
/** Adds a finding; running out of memory ends the program, as for texts. */
void shoal_find(shoal_findings *f, const char *check, shoal_verdict v, int node, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/** Adds the thread's error as a fault. */
void shoal_find_error(shoal_findings *f, const char *check, int node, shoal_status st);
void shoal_findings_free(shoal_findings *f);
/** What ranks found each for itself becomes known to all; of equal texts about one node one stays, and a text that all nodes have
 *  is about none in particular.  Collective. */
shoal_status shoal_findings_gather(shoal_group *g, int nodes, shoal_findings *f);
/** Names of the nodes with faults, "n3,n7"; "" if none has any, or all have. */
void shoal_findings_excluded(const shoal_findings *f, const shoal_topo *t, shoal_str *out);
size_t shoal_findings_count(const shoal_findings *f, shoal_verdict v);

typedef struct {
  const char *folder; /* where runs shall be written */
  double needs;       /* bytes that have to be free there */
  double expect;      /* bytes per second that a link between nodes should carry; 0: as its hardware says */
} shoal_doctor_options;

/* ---- checks; collective over the world, and all ranks see the same options ---- */

shoal_status shoal_doctor_start(shoal_world *w,
                                shoal_findings *f); /* PMIx, threads of MPI, the collecting fence, a sum */
shoal_status shoal_doctor_masks(shoal_world *w, shoal_findings *f);    /* read back from the kernel */
shoal_status shoal_doctor_versions(shoal_world *w, shoal_findings *f); /* of program, libraries, kernel, driver */
shoal_status shoal_doctor_clocks(shoal_world *w, shoal_findings *f);
shoal_status shoal_doctor_devices(shoal_world *w, shoal_findings *f); /* cores and GPUs of each node */
shoal_status shoal_doctor_files(shoal_world *w, const shoal_doctor_options *o, shoal_findings *f);
/** On one machine: what is installed, what is missing, and the command that installs it.  Not collective. */
void shoal_doctor_installed(shoal_findings *f);

/* What was measured between the members of a team: one rank of each node, or the ranks of a node. */
typedef struct {
  int n;
  int64_t *best; /* [n] bytes per second of the fastest pair of each, in its slower direction; 0: none was measured */
  int64_t *latency; /* [n] nanoseconds one way of the quickest pair of each */
  int64_t *load;    /* [n] of the nodes: shoal_doctor_load */
  int64_t *matrix;  /* [n][n] bytes per second from row to column; NULL in teams of more than SHOAL_DOCTOR_TABLE */
} shoal_links;
enum { SHOAL_DOCTOR_TABLE = 16 }; /* larger teams measure a ring instead of every pair */
/** @param between  out: of the nodes; free it */
shoal_status shoal_doctor_links(shoal_world *w, const shoal_doctor_options *o, shoal_findings *f, shoal_links *between);
void shoal_links_free(shoal_links *l);

/* ---- judgements, without communication ---- */

int shoal_doctor_rounds(int n); /* rounds in which a team of n measures; no member is in two pairs of a round */
int shoal_doctor_peer(int n, int round, int member); /* with whom; -1: nobody */
double shoal_doctor_median(const int64_t *x, int n); /* of the values above 0; 0 if none is */
/** What this node had to do in the last minute, in percent of what its cores can do at once. */
int64_t shoal_doctor_load(void);
/** Whether a node that reaches `value`, where half of all reach `median` or more, is one to leave out.  One that has more to do than
 *  its cores can is a note, unless it is so slow that this does not explain it. */
extern const char shoal_doctor_busy[]; /* the cure of such a note */
shoal_verdict shoal_doctor_judge_speed(double value, double median, int64_t load);
/** Links of the nodes: who is far below the median, and whether the median is what the hardware should reach. */
void shoal_doctor_judge_links(const shoal_links *l, const shoal_topo *t, double rated, bool told, shoal_findings *f);
/** @param offset  [nodes] seconds by which each clock is ahead of that of node 0 */
void shoal_doctor_judge_clocks(const double *offset, const shoal_topo *t, shoal_findings *f);
/** Values that should be equal on all nodes: the rarer ones are the odd ones out.
 *  @param value  [nodes] */
void shoal_doctor_judge_equal(const char *what, const char *const *value, const shoal_topo *t, shoal_verdict odd,
                              shoal_findings *f);
#endif
