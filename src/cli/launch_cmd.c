/* shoal launch: checks a run and starts its ranks. */
#include "base/cgroup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/folder.h"
#include "cli/attempt.h"
#include "cli/cli.h"
#include "cli/job_flags.h"
#include "cli/train_flags.h"
#include "slurm/launcher.h"
#include "slurm/relay.h"
#include "topo/topo.h"
#include "train/options.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const shoal_flag flags[] = {
  { "--ranks", "-n", "RANKS", SHOAL_FLAG_VALUE,
    "ranks in all; default: the tasks of the Slurm job, else one on each of its nodes; without Slurm one" },
  { "--nodes", "-N", "NODES", SHOAL_FLAG_VALUE, "nodes of the Slurm job to use; default: all, but no more than ranks" },
  { "--cores", "-c", "CORES", SHOAL_FLAG_VALUE,
    "cores of each rank, as Slurm counts CPUs; default: what the job asked for a task, else all of the job, divided" },
  { "--requeue", NULL, NULL, SHOAL_FLAG_SWITCH,
    "in a batch script of Slurm: requeue the job if the run has stopped and makes progress; shoal submit writes such" },
  { "--print", NULL, NULL, SHOAL_FLAG_SWITCH, "print the command, to be pasted into a shell, and start nothing" },
  SHOAL_TRAIN_FLAGS,
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
const shoal_verb_help shoal_launch_help = {
  "shoal launch RUN.yaml [-N NODES] [-n RANKS] [options of shoal train]",
  "Starts the ranks of a run: in a Slurm job, from its batch script or an interactive shell, by srun on its nodes;\n"
  "elsewhere on this machine, by mpirun, or as a plain process if it is one. Run file and options are checked first.\n"
  "TERM, Ctrl-C or USR1 stops the run with a verified checkpoint and exit code 75; the same command goes on from "
  "there.",
  flags,
  0,
  1,
  "  shoal launch digits.yaml -n 4\n"
  "  salloc -N4 --ntasks-per-node=2 shoal launch digits.yaml\n"
  "  shoal launch digits.yaml -n 4 --set optim.lr=0.05 --print\n",
};

static shoal_status read_wish(const shoal_args *a, shoal_launcher_wish *w)
{
  SHOAL_TRY(shoal_flag_number(a, "--ranks", &w->ranks));
  SHOAL_TRY(shoal_flag_number(a, "--nodes", &w->nodes));
  return shoal_flag_number(a, "--cores", &w->cores);
}

/* What every rank would refuse is refused once, here.  *dir: the folder of the run; caller frees. */
static shoal_status check_run(const shoal_args *a, char **dir)
{
  shoal_config *c;
  const char *const *words, *const *sets;
  size_t n_words = shoal_args_words(a, &words), n_sets = shoal_args_list(a, "--set", &sets);
  SHOAL_CHECK(n_words || n_sets, SHOAL_ERR_USAGE,
              "no run file given: shoal launch RUN.yaml (or options by --set); shoal launch -h explains");
  SHOAL_TRY(shoal_run_configure(n_words ? words[0] : NULL, sets, n_sets, &c));
  *dir = shoal_path_join(shoal_config_string(c, "run.dir"), shoal_config_string(c, "run.name"));
  shoal_config_destroy(c);
  return SHOAL_OK;
}

/* Whether pretended nodes are for so many ranks; that they lie within hosts, the run will see. */
static shoal_status check_topology(const char *pretend, int ranks)
{
  shoal_facts *f = NULL;
  shoal_topo *t;
  if (!pretend) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC((size_t)ranks, &f));
  shoal_status st = shoal_topo_create(f, ranks, pretend, &t);
  if (st == SHOAL_OK) shoal_topo_destroy(t);
  free(f);
  return st;
}

/* One rank: this program, and what it was told. */
static shoal_status rank_words(const shoal_args *a, shoal_texts *out)
{
  const char *const *words;
  size_t n = shoal_args_words(a, &words);
  SHOAL_TRY(shoal_texts_take(out, shoal_own_program()));
  SHOAL_TRY(shoal_texts_add(out, "train"));
  if (n && words[0][0] != '-') SHOAL_TRY(shoal_texts_add(out, words[0]));
  SHOAL_TRY(shoal_args_repeat(a, shoal_train_flags, out));
  if (!n || words[0][0] != '-') return SHOAL_OK;
  SHOAL_TRY(shoal_texts_add(out, "--"));
  return shoal_texts_add(out, words[0]);
}

static void print_command(const shoal_launcher *l, const shoal_texts *program)
{
  shoal_str command = { 0 };
  shoal_launcher_print(l, program, &command);
  printf("# %s\n%s\n", l->told.text, command.text);
  shoal_str_free(&command);
}

enum { BY_SIGNAL = 128 };

/* What a killed run has to go on from. */
static const char *next_start(const char *dir)
{
  return shoal_ckpt_newest(dir) < 0 ? "nothing was saved yet, the same command begins where this one did"
                                    : "the same command goes on from the newest checkpoint";
}

/* What the launcher says of how it, or a rank, has ended. */
static void tell_signal(const shoal_launcher *l, const shoal_last_word *w, shoal_launcher_end end, int64_t kills)
{
  const char *again = next_start(w->dir);
  char memory[SHOAL_MEMORY_KILLS], rank[SHOAL_LAST_WORD_RANK];
  int number = end.code - BY_SIGNAL;
  shoal_memory_kills_told("", kills, memory);
  if (end.signal)
    shoal_warn("%s was ended by signal %d, %s, and its ranks with it%s%s: %s", l->words.at[0], number,
               strsignal(number), *memory ? "; " : "", memory, again);
  else
    shoal_warn("%s was ended by signal %d, %s%s%s: %s", shoal_last_word_gone(w, rank), number, strsignal(number),
               *memory ? "; " : "", memory, again);
}

/* The exit code of a run that was asked to stop: what it says in status.json counts, as launchers have codes of their own.  USR1 ends a
 * process that does not hear it yet, as launcher and ranks in their first moments: then nothing was changed. */
static int judge_stop(const shoal_last_word *w, shoal_launcher_end end)
{
  char state[SHOAL_LAST_WORD_STATE];
  int stopped = shoal_status_exit_code(SHOAL_STOPPED), insisted = shoal_launcher_insisted();
  shoal_last_word_state(w, state);
  if (strcmp(state, "done") == 0) return 0;
  if (strcmp(state, "stopped") == 0 || end.code == stopped) return stopped;
  if (end.code == BY_SIGNAL + SIGUSR1 && !*state) {
    shoal_info("stopped on request, before the training began");
    return stopped;
  }
  bool launchers = end.code == EXIT_FAILURE || end.code > BY_SIGNAL; /* no code of a run */
  if (!insisted && launchers && *state)
    shoal_warn(
        "the launcher has ended the ranks before the checkpoint of the stop was there, as where TERM goes to every "
        "process of a job, and so to mpirun, too (USR1 does not do that): %s",
        next_start(w->dir));
  if (!insisted) return end.code;
  shoal_warn("ended by a second signal, before the checkpoint of the stop was there: %s", next_start(w->dir));
  return BY_SIGNAL + insisted;
}

static void *wait_at(void *gate)
{
  pthread_mutex_lock(gate);
  pthread_mutex_unlock(gate);
  return NULL;
}

/* Whether this user may have `n` more threads than now. */
static bool may_have_threads(int n)
{
  enum { MOST = 256 };
  pthread_t threads[MOST];
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  int most = SHOAL_MIN(n, (int)MOST), made = 0;
  pthread_mutex_lock(&gate);
  while (made < most && pthread_create(&threads[made], NULL, wait_at, &gate) == 0) made++;
  pthread_mutex_unlock(&gate);
  for (int i = 0; i < made; i++) pthread_join(threads[i], NULL);
  return made == most;
}

/* Launchers and MPI say in words of their own code that they cannot make a thread. */
static void tell_thread_limit(int ranks)
{
  enum { EACH = 5 }; /* threads of a rank before it trains */
  struct rlimit l;
  if (getrlimit(RLIMIT_NPROC, &l) != 0 || l.rlim_cur == RLIM_INFINITY || may_have_threads(EACH * ranks)) return;
  shoal_warn(
      "the ranks could not begin: this user may have %llu processes and threads in all (ulimit -u), and %d ranks "
      "need at least %d more than there are now: raise the limit, or end what else runs",
      (unsigned long long)l.rlim_cur, ranks, EACH * ranks);
}

/* srun has its own words for why it started nothing, which are not about this shell. */
static void tell_srun_failed(const shoal_launcher *l)
{
  const char *job = getenv("SLURM_JOB_ID");
  if (!job || !l->words.n) return;
  shoal_warn("srun has not started the ranks, as it says above; if job %s is over, its variables are left over in this "
             "shell: unset "
             "${!SLURM_@}; in a container, srun needs Slurm's configuration and munge of the host",
             job);
}

/* Ends with the exit code of the run, which has said why. */
static shoal_status run_ranks(const shoal_launcher *l, const shoal_texts *program, const char *dir)
{
  shoal_last_word word;
  int64_t kills = (int64_t)shoal_memory_kills("");
  shoal_last_word_begin(dir, &word);
  shoal_launcher_end end = shoal_launcher_run(l, program, &(shoal_launcher_ear){ shoal_last_word_heard, &word });
  int code = shoal_launcher_stop_asked() ? judge_stop(&word, end) : end.code;
  if (code == end.code && code > BY_SIGNAL) tell_signal(l, &word, end, kills);
  char state[SHOAL_LAST_WORD_STATE];
  bool silent = code && !shoal_launcher_stop_asked() && !*shoal_last_word_state(&word, state);
  if (silent) tell_thread_limit(l->ranks);
  if (silent && code == EXIT_FAILURE) tell_srun_failed(l); /* no code of a run */
  free(word.before);
  shoal_relay_end();
  _exit(code);
}

/* The job's own exit code is that of its run. */
static shoal_status run_job(const shoal_launcher *l, const shoal_texts *program, const char *dir)
{
  shoal_attempt b;
  shoal_launcher_hear_stops();
  setenv(SHOAL_REQUEUES, "1", 1); /* for the ranks */
  SHOAL_TRY(shoal_attempt_begin(dir, &b));
  shoal_last_word word = { b.dir, b.before };
  shoal_launcher_ear ear = { shoal_last_word_heard, &word };
  shoal_launcher_end end = shoal_launcher_run(l, program, &ear);
  if (shoal_attempt_again(&b, end.code)) end = shoal_launcher_run(l, program, &ear);
  int code = shoal_attempt_end(&b, end.code);
  shoal_attempt_free(&b);
  shoal_relay_end();
  _exit(code);
}

static shoal_status start(const shoal_args *a, const shoal_launcher *l, const shoal_texts *program, const char *dir)
{
  if (shoal_args_on(a, "--print")) {
    print_command(l, program);
    return SHOAL_OK;
  }
  if (shoal_args_on(a, "--quiet")) shoal_log_set_level(SHOAL_LOG_WARN);
  signal(SIGPIPE, SIG_IGN); /* a run does not need its reader */
  shoal_relay_begin();
  shoal_info("%s", l->told.text);
  if (l->words.n && shoal_bundle())
    shoal_info("Open MPI and its plugins are those of the bundle in %s", shoal_bundle());
  if (shoal_args_on(a, "--requeue")) return run_job(l, program, dir);
  return l->words.n ? run_ranks(l, program, dir) : shoal_launcher_become(l, program);
}

static shoal_status launch(const shoal_args *a, const char *dir)
{
  shoal_launcher_wish w;
  shoal_launcher_site site;
  shoal_launcher l;
  shoal_texts program = { 0 };
  SHOAL_TRY(read_wish(a, &w));
  SHOAL_TRY(shoal_launcher_look(&w, &site));
  SHOAL_TRY(shoal_launcher_plan(NULL, &w, &site, &l));
  shoal_status st = check_topology(shoal_args_value(a, "--topo"), l.ranks);
  if (st == SHOAL_OK) st = rank_words(a, &program);
  if (st == SHOAL_OK) st = start(a, &l, &program, dir);
  shoal_texts_free(&program);
  shoal_launcher_free(&l);
  return st;
}

shoal_status shoal_cmd_launch(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  shoal_launcher_leave_at_stops();
  SHOAL_TRY(shoal_args_parse(&shoal_launch_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  char *dir = NULL;
  shoal_status st = shoal_working_folder_gone()
                        ? SHOAL_FAIL(SHOAL_ERR_IO, "the working folder was removed: cd to another one")
                        : check_run(a, &dir);
  if (st == SHOAL_OK) st = launch(a, dir);
  free(dir);
  shoal_args_destroy(a);
  return st;
}
