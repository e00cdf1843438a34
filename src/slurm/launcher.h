/* How the ranks of a run are started from here: by srun in a Slurm job, by mpirun elsewhere, a single rank as a plain process.
 *
 *     what is asked for, what is installed, what the environment says   ->   words before the program, and a line that tells
 *
 * A plan depends on these three alone, so it can be made for any cluster.  Its rules, and why: docs/topology.md. */
#ifndef SHOAL_SLURM_LAUNCHER_H
#define SHOAL_SLURM_LAUNCHER_H
#include "base/env.h"
#include "base/status.h"
#include "base/str.h"
#include "base/texts.h"
#include "topo/topo.h"
#include <stdbool.h>

/** Whether this process is in a job of Slurm that can start steps. */
bool shoal_in_allocation(void);
/** Tasks that srun starts from here by default, for a process that no launcher started: in a batch script, or in the shell of an
 *  interactive allocation, which may be a step of one task itself.  0: unknown, or not in a job. */
int shoal_allocation_tasks(void);

typedef struct {
  int ranks, nodes, cores; /* cores of a rank, as Slurm counts CPUs; 0: not asked for */
  bool judges;             /* a rank that ends with another code than 0 ends no other: the code is a verdict */
} shoal_launcher_wish;

typedef struct {
  char host[SHOAL_HOST_MAX];
  int cores;         /* that this process may use */
  bool root;         /* it runs as root */
  bool srun;         /* srun is on the PATH */
  char mpirun[128];  /* first line of `mpirun --version`; "": not on the PATH, or not asked */
  bool offline;      /* no network interface is up, not even that of the machine itself */
  char session[256]; /* where mpirun cannot make its folder for a job, and why: "/proc (TMPDIR): ..."; "": it can */
} shoal_launcher_site;
/** Looks at this machine.  Asks mpirun for its version only if `w` needs it here.  ERR_IO if the affinity mask cannot be read. */
shoal_status shoal_launcher_look(const shoal_launcher_wish *w, shoal_launcher_site *out);

typedef struct {
  int ranks, nodes, cores; /* nodes, cores: 0 if that is left to the launcher */
  shoal_texts words;       /* launcher and options; none: a plain process */
  const char *unset;       /* a variable that would contradict the words, or NULL */
  shoal_str told;          /* one line: what starts where, and how */
} shoal_launcher;
/** Decides how to start.  Without a number of ranks: the tasks of the Slurm job, else one for each of its nodes, else one.
 *  ERR_USAGE if there is less than was asked for, with both numbers and a cure; ERR_WORLD if ranks cannot be started from here:
 *  no launcher, a task of a step, a heterogeneous job, contradicting variables.  `out` is written only on success; free it. */
shoal_status shoal_launcher_plan(const shoal_env *e, const shoal_launcher_wish *w, const shoal_launcher_site *site,
                                 shoal_launcher *out);
void shoal_launcher_free(shoal_launcher *l);
/** The command that starts `program`, the words of one rank, to be pasted into a shell. */
void shoal_launcher_print(const shoal_launcher *l, const shoal_texts *program, shoal_str *out);
/** Replaces this process by that command.  Returns only if it cannot: ERR_WORLD.  Signals that ask a plain process to stop wait until it
 *  hears them (train/stop.h). */
shoal_status shoal_launcher_become(const shoal_launcher *l, const shoal_texts *program);

/** From now on a signal that asks to stop (INT, TERM, HUP, USR1, USR2) is noted and handed to the run of shoal_launcher_run as
 *  USR1; INT, TERM and HUP as TERM if the same one came more than 2 s before.  Ignored signals stay so. */
void shoal_launcher_hear_stops(void);
/** The same; but until the other is called, or a run starts, such a signal ends this process: it says so, with the code of a stop. */
void shoal_launcher_leave_at_stops(void);
bool shoal_launcher_stop_asked(void);
/** Whether one of them was INT, TERM or HUP, which mean an end, as of scancel, and not a pause before a time limit. */
bool shoal_launcher_end_asked(void);
/** The signal that was handed on as TERM, or 0. */
int shoal_launcher_insisted(void);

/** Whether the run has said that it heard a stop. */
typedef struct {
  bool (*heard)(void *context);
  void *context;
} shoal_launcher_ear;
typedef struct {
  int code; /* of the run; 128 and the number of the signal that ended the launcher or, as it says, a rank; 127: no child */
  int signal; /* that ended the launcher itself; 0: none */
} shoal_launcher_end;
/** Runs that command as a child, in a process group of its own, until it has ended.  A stop is repeated every half second until `ear`
 *  says that it was heard; NULL: it is sent once.  Its output may need a relay (relay.h). */
shoal_launcher_end shoal_launcher_run(const shoal_launcher *l, const shoal_texts *program,
                                      const shoal_launcher_ear *ear);
#endif
