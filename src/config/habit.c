/* What other programs and launchers have as an option, and what does it here. */
#include "base/mem.h"
#include "config/option.h"
#include <ctype.h>
#include <string.h>

enum { LONGEST = 32 };

/* Words of options that mean the same, without signs between letters: walltime stands for wall_time and --wall-time, too. */
static const struct {
  const char *words, *instead;
} habits[] = {
  { " time maxtime walltime maxwalltime wallclock wallclocklimit walltimelimit timelimit runtime maxruntime traintime "
    "timeout "
    "maxh maxhours maxminutes maxseconds duration maxduration stoptimehr ",
    "no option limits the time of a run: `timeout -s USR1 4h shoal launch RUN.yaml` stops it with a checkpoint after 4 "
    "h, "
    "and a job of Slurm has `shoal submit RUN.yaml --time 4h`" },
  { " np nproc nprocs nprocpernode nprocesses numproc numprocs numprocesses ntasks numtasks ranks nranks numranks "
    "worldsize "
    "slots gpus ngpus numgpus devices numdevices ",
    "the number of ranks is given to launch: shoal launch RUN.yaml -n RANKS" },
  { " nodes nnodes numnodes nummachines ",
    "the number of nodes of a job is given to launch in it, or to submit: shoal submit RUN.yaml -N NODES" },
  { " pernode ppn npernode ntaskspernode taskspernode rankspernode processespernode ",
    "how many ranks a node has is said by the job: shoal submit RUN.yaml -N NODES --per-node RANKS" },
  { " cpus ncpus numcpus cores cpuspertask cpusperrank threads nthreads numthreads ompnumthreads ",
    "a rank has a thread for each of its cores, fewer by --set threads=N; its cores are given to launch or submit: -c "
    "CORES" },
  { " host hosts hostfile hostlist machinefile nodelist nodefile ",
    "in a job of Slurm launch takes its nodes; elsewhere: mpirun --hostfile FILE -n RANKS shoal train RUN.yaml" },
  { " bindto bind mapby mca oversubscribe allowrunasroot cpubind mpi ",
    "options of mpirun or srun are given to it: mpirun OPTIONS shoal train RUN.yaml" },
  { " partition queue account exclude begin qos mem mempercpu gres exclusive signal mailtype mailuser email dependency "
    "array requeue "
    "nice "
    "reservation constraint ",
    "options of a job are given to submit, those that it does not list as they are: shoal submit RUN.yaml "
    "--sbatch=--mail-type=END" },
  { " resume resumefrom resumefromcheckpoint autoresume resumetraining restart restartfile restorefile restore "
    "continue "
    "continuetraining load loadcheckpoint loadfrom ",
    "the same command goes on from the newest checkpoint by itself, from another one with --resume FILE" },
  { " overwrite overwriteoutputdir force clean fresh fromscratch ",
    "a new run has another name, --set run.name=NAME, or its folder is moved away before" },
  { " output outputdir outdir out savedir savepath logdir workdir rundir defaultrootdir ",
    "a run's folder is run.dir/run.name: --set run.dir=FOLDER" },
  { " dryrun ", "shoal config RUN.yaml checks a run file; `--print` of launch and submit shows the command" },
  { " background daemon detach nohup ", "in the background: nohup shoal launch RUN.yaml &" },
  { " savesteps saveinterval saveevery saveeverynsteps saveperiod saveperiods savefreq checkpointinterval "
    "checkpointevery "
    "everyntrainsteps interval ",
    "how often a checkpoint is saved is ckpt.every: 10 min, 500 steps or 1 epoch" },
  { " savetotallimit savetopk maxtokeep keeplast keepcheckpointmax ", "how many checkpoints stay is ckpt.keep" },
  { " evalsteps evalinterval valinterval valcheckinterval checkvaleverynepoch ",
    "how often the run is evaluated is eval.every: 500 steps or 1 epoch" },
};

/* The letters and digits of the last part of a name, in small letters.  False if they are too many. */
static bool plain_word(const char *name, char out[LONGEST])
{
  size_t n = 0;
  const char *dot = strrchr(name, '.');
  for (const char *p = dot ? dot + 1 : name; *p && *p != '='; p++) {
    if (!isalnum((unsigned char)*p)) continue;
    if (n + 1 == LONGEST) return false;
    out[n++] = (char)tolower((unsigned char)*p);
  }
  out[n] = '\0';
  return n > 0;
}

const char *shoal_option_habit(const char *name)
{
  char word[LONGEST];
  size_t n;
  if (!plain_word(name, word)) return NULL;
  n = strlen(word);
  for (size_t i = 0; i < SHOAL_COUNT(habits); i++)
    for (const char *p = habits[i].words; (p = strstr(p, word)); p++)
      if (p[-1] == ' ' && p[n] == ' ') return habits[i].instead;
  return NULL;
}
