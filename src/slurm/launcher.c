/* See launcher.h.  A plan is made in three steps: the numbers of ranks, nodes and cores; the words; the line that tells.
 *
 * Slurm knows which CPUs of which node belong to the job; here only their number is known, and it may differ from node to
 * node.  So the words give numbers, and every node binds its ranks itself. */
#include "slurm/launcher.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "slurm/claims.h"
#include "slurm/job.h"
#include "slurm/step.h"
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- this machine ---- */

bool shoal_in_allocation(void)
{
  return shoal_env_int(NULL, "SLURM_JOB_ID", 0) >= 0;
}

/* A task of srun has the number of its own step in SLURM_NTASKS; the interactive step's shell has the job's. */
int shoal_allocation_tasks(void)
{
  shoal_step s;
  if (!shoal_in_allocation()) return 0;
  int tasks = shoal_env_int(NULL, "SLURM_NTASKS", 1);
  if (tasks < 0 && shoal_step_read(NULL, &s) == SHOAL_OK) { /* tasks per node were asked for */
    tasks = s.inside ? 0 : s.tasks;
    shoal_step_free(&s);
  }
  return SHOAL_MAX(tasks, 0);
}

/* Other batch systems, whose nodes mpirun takes by itself. */
static const char *other_batch_system(const shoal_env *e)
{
  static const char *const systems[][2] = { { "PBS_NODEFILE", "PBS" },
                                            { "LSB_DJOB_HOSTFILE", "LSF" },
                                            { "LSB_MCPU_HOSTS", "LSF" },
                                            { "PE_HOSTFILE", "Grid Engine" } };
  for (size_t i = 0; i < SHOAL_COUNT(systems); i++)
    if (shoal_env_get(e, systems[i][0])) return systems[i][1];
  return NULL;
}

/* How many ranks such a job is for; 0: not known.  PBS lists a node once for each. */
static int slots_of(const shoal_env *e, const char *system)
{
  const char *nodes = shoal_env_get(e, "PBS_NODEFILE");
  int n = 0;
  if (strcmp(system, "PBS") != 0)
    return SHOAL_MAX(shoal_env_int(e, strcmp(system, "LSF") == 0 ? "LSB_DJOB_NUMPROC" : "NSLOTS", 1), 0);
  FILE *f = nodes ? fopen(nodes, "re") : NULL;
  for (int c; f && (c = fgetc(f)) != EOF;) n += c == '\n';
  if (f) fclose(f);
  return n;
}

/* The line with its version, else the first that it prints, without the newline.  It may have complaints first. */
static void ask_mpirun(char *line, int cap)
{
  char next[512];
  FILE *f = popen("mpirun --version 2>&1", "re");
  line[0] = '\0';
  while (f && fgets(next, sizeof next, f)) { /* to its end, or it dies of a closed pipe */
    next[strcspn(next, "\n")] = '\0';
    bool version = strncmp(next, "mpirun (", 8) == 0;
    if (!line[0] || version) snprintf(line, (size_t)cap, "%.*s", cap - 1, next);
  }
  if (f) pclose(f);
}

/* mpirun and its ranks talk over sockets, also on one machine. */
static bool has_network(void)
{
  struct ifaddrs *all = NULL;
  bool any = getifaddrs(&all) != 0; /* not known */
  for (const struct ifaddrs *i = all; i; i = i->ifa_next)
    any = any || (i->ifa_addr && (i->ifa_flags & IFF_UP) &&
                  (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6));
  freeifaddrs(all);
  return any;
}

/* mpirun makes a folder for the job, and only says that it cannot in words of its own code; without room there it may wait for ever. */
enum { SESSION_BYTES = 8 << 20 };
static void try_session(char *fault, size_t cap)
{
  static const char *const names[] = { "TMPDIR", "TEMP", "TMP" };
  const char *dir = "/tmp", *from = "no TMPDIR is set";
  for (size_t i = SHOAL_COUNT(names); i-- > 0;)
    if (getenv(names[i])) dir = getenv(from = names[i]);
  if (getenv("OMPI_MCA_orte_tmpdir_base") || getenv("PRTE_MCA_prte_tmpdir_base")) return;
  char *at = shoal_strdup_printf("%s", dir), *slash;
  while (!shoal_path_exists(at) && (slash = strrchr(at, '/')) && slash > at)
    *slash = '\0'; /* it makes what is missing */
  char *probe = shoal_strdup_printf("%s/shoal-XXXXXX", at);
  uint64_t room;
  const char *type;
  char has[32], left[SHOAL_SPACE_LEFT];
  if (!mkdtemp(probe)) {
    int error = errno;
    snprintf(fault, cap, "%s (%s): %s%s", dir, from, strerror(error), shoal_space_left(at, error, left));
  } else if (rmdir(probe) == 0 && shoal_disk_facts(at, &room, &type) == SHOAL_OK && room < SESSION_BYTES)
    snprintf(fault, cap, "%s (%s): it needs 8 MiB there, %s are free (%s)", dir, from,
             shoal_format_bytes((double)room, has, sizeof has), type);
  free(probe);
  free(at);
}

shoal_status shoal_launcher_look(const shoal_launcher_wish *w, shoal_launcher_site *out)
{
  shoal_facts facts;
  SHOAL_TRY(shoal_topo_facts(&facts));
  shoal_launcher_site s = { .cores = facts.cores, .root = geteuid() == 0, .srun = shoal_in_path("srun") };
  memcpy(s.host, facts.host, sizeof s.host);
  bool needs_mpirun = !shoal_in_allocation() && (w->ranks > 1 || other_batch_system(NULL));
  if (needs_mpirun && shoal_in_path("mpirun")) {
    ask_mpirun(s.mpirun, sizeof s.mpirun);
    try_session(s.session, sizeof s.session);
    s.offline = !has_network();
  }
  *out = s;
  return SHOAL_OK;
}

/* ---- a Slurm job ---- */

typedef struct {
  const char *id;
  int nodes, tasks;     /* 0: not known; tasks: not asked for */
  int each;             /* tasks of a node that were asked for; 0: none were */
  int *cpus, *tasks_on; /* [nodes]; NULL: not known */
  bool in_task;         /* this process is a task of an ordinary step, whose variables hide those of the job */
} job;

static void free_job(job *j)
{
  free(j->cpus);
  free(j->tasks_on);
}

/* The numbers by node in a variable; NULL if it is not set or is for another number of nodes. */
static int *counts_of(const shoal_env *e, const char *name, int nodes)
{
  const char *text = shoal_env_get(e, name);
  int *counts;
  size_t n;
  if (!text || shoal_step_parse_counts(name, text, &counts, &n) != SHOAL_OK) return NULL;
  if (n == (size_t)nodes) return counts;
  free(counts);
  return NULL;
}

static int sum_of(const int *counts, int n)
{
  int sum = 0;
  for (int i = 0; i < n; i++) sum += counts[i];
  return sum;
}

static int least_of(const int *counts, int n)
{
  int least = counts[0];
  for (int i = 1; i < n; i++) least = SHOAL_MIN(least, counts[i]);
  return least;
}

/* The shell of an interactive allocation is a step of its own number, of one task, that takes no CPUs from others. */
static bool in_interactive_step(const shoal_env *e)
{
  const char *step = shoal_env_get(e, "SLURM_STEP_ID");
  return step && strcmp(step, "4294967290") == 0;
}

static shoal_status check_place(const shoal_env *e, const shoal_step *s, const job *j)
{
  const char *parts = shoal_env_get(e, "SLURM_HET_SIZE");
  SHOAL_CHECK(!parts, SHOAL_ERR_WORLD,
              "job %s is heterogeneous, of %s parts, over which ranks are not spread by themselves; name the parts: "
              "srun --mpi=pmix --het-group=0-%d shoal train ...",
              j->id, parts, SHOAL_MAX(atoi(parts) - 1, 0));
  SHOAL_CHECK(
      !s->inside || s->tasks <= 1, SHOAL_ERR_WORLD,
      "this is one of the %d tasks of a step of job %s, and each of them would start a run: call `shoal launch` "
      "once, from the batch script or an interactive shell, or make the tasks the ranks, srun --mpi=pmix shoal "
      "train ...",
      s->tasks, j->id);
  return s->inside ? SHOAL_OK : shoal_step_check(s);
}

static void read_numbers(const shoal_env *e, const shoal_step *s, job *j)
{
  j->each = j->in_task ? 0 : SHOAL_MAX(shoal_env_int(e, "SLURM_NTASKS_PER_NODE", 1), 0);
  j->nodes = shoal_env_int(e, "SLURM_JOB_NUM_NODES", 1);
  if (j->nodes < 0 && !s->inside) j->nodes = s->n_hosts ? (int)s->n_hosts : s->nodes;
  j->nodes = SHOAL_MAX(j->nodes, 0);
  j->tasks = j->in_task ? 0 : shoal_env_int(e, "SLURM_NTASKS", 1);
  if (j->tasks < 0) j->tasks = j->each * j->nodes;
  j->cpus = counts_of(e, "SLURM_JOB_CPUS_PER_NODE", j->nodes);
  j->tasks_on = j->in_task ? NULL : counts_of(e, "SLURM_TASKS_PER_NODE", j->nodes);
  if (j->tasks_on && sum_of(j->tasks_on, j->nodes) != j->tasks) {
    free(j->tasks_on);
    j->tasks_on = NULL;
  }
}

static shoal_status read_job(const shoal_env *e, job *j)
{
  shoal_step s = { .inside = false };
  shoal_status st = shoal_step_read(e, &s);
  j->id = shoal_env_get(e, "SLURM_JOB_ID");
  j->in_task = s.inside && !in_interactive_step(e);
  if (st == SHOAL_OK) st = check_place(e, &s, j);
  if (st == SHOAL_OK) read_numbers(e, &s, j);
  shoal_step_free(&s);
  return st == SHOAL_ERR_USAGE ? shoal_error_as(st, SHOAL_ERR_WORLD) /* not the command line is wrong */ : st;
}

/* ---- ranks, nodes, cores ---- */

typedef struct {
  int ranks, nodes, cores;
  int most_on; /* the largest number of ranks on a node, if srun shall keep to it; 0: it goes by the job's CPUs */
  int idle;    /* CPUs that no rank gets */
} shape;

static const char *s_of(int n)
{
  return n == 1 ? "" : "s";
}

static shoal_status default_ranks(const job *j, int nodes, int *ranks)
{
  int job_nodes = SHOAL_MAX(j->nodes, 1);
  SHOAL_CHECK(!j->in_task || j->nodes <= 1, SHOAL_ERR_USAGE,
              "this shell is a task of a step of job %s, which does not know the tasks of the job's %d nodes: give the "
              "number of ranks, -n",
              j->id, j->nodes);
  SHOAL_CHECK(
      j->tasks == 0 || nodes == j->nodes || j->tasks % job_nodes == 0, SHOAL_ERR_USAGE,
      "-N %d: the %d tasks of job %s are not the same number on each of its %d nodes: give the number of ranks, "
      "-n",
      nodes, j->tasks, j->id, j->nodes);
  *ranks = SHOAL_MAX(nodes, 1);
  if (j->tasks > 0) *ranks = nodes == j->nodes ? j->tasks : j->tasks / job_nodes * nodes;
  return SHOAL_OK;
}

/* Ranks fill nodes where the job says how many tasks a node has; srun by itself would spread a few over all of them. */
static int choose_nodes(const job *j, int ranks)
{
  int nodes = j->each ? (ranks + j->each - 1) / j->each : SHOAL_MIN(j->nodes, ranks);
  return j->nodes ? SHOAL_MIN(nodes, j->nodes) : nodes;
}

static shoal_status count_ranks(const job *j, const shoal_launcher_wish *w, shape *s)
{
  SHOAL_CHECK(!j->nodes || w->nodes <= j->nodes, SHOAL_ERR_USAGE,
              "-N %d: job %s has %d node%s; give -N %d or fewer, or get more: salloc -N %d", w->nodes, j->id, j->nodes,
              s_of(j->nodes), j->nodes, w->nodes);
  s->ranks = w->ranks;
  if (!s->ranks) SHOAL_TRY(default_ranks(j, w->nodes ? w->nodes : j->nodes, &s->ranks));
  SHOAL_CHECK(w->nodes <= s->ranks, SHOAL_ERR_USAGE,
              "-N %d: each node needs a rank, and there %s %d; give -n %d or more, or -N %d or fewer", w->nodes,
              s->ranks == 1 ? "is" : "are", s->ranks, w->nodes, s->ranks);
  s->nodes = w->nodes ? w->nodes : choose_nodes(j, s->ranks);
  return SHOAL_OK;
}

static int largest_of(const int *counts, int n)
{
  int largest = counts[0];
  for (int i = 1; i < n; i++) largest = SHOAL_MAX(largest, counts[i]);
  return largest;
}

/* CPUs of each rank where node i has ranks_on[i] of them. */
static int cores_by_node(const job *j, const int *ranks_on)
{
  int least = j->cpus[0] / ranks_on[0];
  for (int i = 1; i < j->nodes; i++) least = SHOAL_MIN(least, j->cpus[i] / ranks_on[i]);
  return least;
}

/* Ranks are placed as the job has its tasks; else as evenly as can be; else, where a node has too few CPUs for that, by CPUs.
 * All get the same number of CPUs, what the fullest node can give.  Unless all nodes are taken, it is not known which. */
static shoal_status count_cores(const job *j, shape *s)
{
  bool all = s->nodes == j->nodes;
  int most = all ? sum_of(j->cpus, j->nodes) : s->nodes * largest_of(j->cpus, j->nodes);
  SHOAL_CHECK(s->ranks <= most, SHOAL_ERR_USAGE,
              "%d ranks: the %d node%s of job %s ha%s %d CPU%s; give -n %d or fewer, or get more: salloc -n %d",
              s->ranks, s->nodes, s_of(s->nodes), j->id, s->nodes == 1 ? "s" : "ve", most, s_of(most), most, s->ranks);
  int nodes = SHOAL_MAX(s->nodes, 1), fullest = (s->ranks + nodes - 1) / nodes, least = least_of(j->cpus, j->nodes);
  if (all && s->ranks == j->tasks && j->tasks_on && largest_of(j->tasks_on, j->nodes) > fullest) {
    s->cores = cores_by_node(j, j->tasks_on);
  } else if (fullest <= least) {
    s->cores = least / fullest;
    s->most_on = fullest;
  }
  s->cores = SHOAL_MAX(s->cores, 1);
  return SHOAL_OK;
}

/* What the job asked for its tasks holds for ranks, too, unless they are so many that it does not fit. */
static shoal_status choose_cores(const shoal_env *e, const job *j, const shoal_launcher_wish *w, shape *s)
{
  shoal_facts job_asked = { .pid = 0 }; /* Slurm may count by node */
  SHOAL_TRY(shoal_topo_read_cores(e, &job_asked));
  int asked = w->cores ? w->cores : job_asked.claimed_cores;
  if (j->cpus) {
    SHOAL_TRY(count_cores(j, s));
    SHOAL_CHECK(
        w->cores <= s->cores, SHOAL_ERR_USAGE,
        "-c %d: with %d rank%s on %d node%s of job %s, each can have %d CPU%s; give -c %d or fewer, or fewer ranks, "
        "-n",
        w->cores, s->ranks, s_of(s->ranks), s->nodes, s_of(s->nodes), j->id, s->cores, s_of(s->cores), s->cores);
    if (asked > 0) s->cores = SHOAL_MIN(asked, s->cores);
    if (s->nodes == j->nodes) s->idle = sum_of(j->cpus, j->nodes) - s->ranks * s->cores;
  } else {
    s->cores = SHOAL_MAX(asked, 1);
    if (s->nodes > 0 && s->ranks % s->nodes == 0) s->most_on = s->ranks / s->nodes;
  }
  return SHOAL_OK;
}

/* ---- srun ---- */

static shoal_status add_number(shoal_texts *words, const char *option, int n)
{
  return n > 0 ? shoal_texts_take(words, shoal_strdup_printf("%s=%d", option, n)) : SHOAL_OK;
}

static shoal_status add_words(shoal_texts *words, const char *const *more, size_t n)
{
  for (size_t i = 0; i < n && more[i]; i++) SHOAL_TRY(shoal_texts_add(words, more[i]));
  return SHOAL_OK;
}

/* A person's choice stays.  A shell that is a step has its own cores in these variables, and leaves their type. */
static bool binds_by_choice(const shoal_env *e)
{
  return shoal_env_get(e, "SLURM_CPU_BIND") && !shoal_env_get(e, "SLURM_CPU_BIND_TYPE");
}

static shoal_status add_srun(const shoal_env *e, const job *j, const shape *s, bool judges, shoal_texts *words)
{
  SHOAL_TRY(shoal_texts_add(words, "srun"));
  SHOAL_TRY(shoal_texts_add(words, "--mpi=pmix"));
  SHOAL_TRY(add_number(words, "--nodes", s->nodes));
  SHOAL_TRY(add_number(words, "--ntasks", s->ranks));
  SHOAL_TRY(add_number(words, "--ntasks-per-node", s->most_on));
  SHOAL_TRY(add_number(words, "--cpus-per-task", s->cores));
  if (!binds_by_choice(e)) SHOAL_TRY(shoal_texts_add(words, "--cpu-bind=cores"));
  SHOAL_TRY(shoal_texts_add(words, judges ? "--kill-on-bad-exit=0" : "--kill-on-bad-exit=1"));
  const char *hands_on =
      shoal_env_get(e, "SLURM_EXPORT_ENV"); /* of sbatch --export=NONE, and what modules have set since is lost */
  if (hands_on && strncmp(hands_on, "ALL", 3) != 0) SHOAL_TRY(shoal_texts_add(words, "--export=ALL"));
  /* The step around us has CPUs of the job, and srun would wait until it ends. */
  return j->in_task ? shoal_texts_add(words, "--overlap") : SHOAL_OK;
}

static void tell_srun(const job *j, const shape *s, shoal_str *out)
{
  shoal_str_add(out, "%d rank%s", s->ranks, s_of(s->ranks));
  if (s->nodes) shoal_str_add(out, " on %d node%s", s->nodes, s_of(s->nodes));
  shoal_str_add(out, " of Slurm job %s by srun, %d CPU%s each", j->id, s->cores, s_of(s->cores));
  if (s->idle > 0) shoal_str_add(out, "; %d CPU%s of the job left idle", s->idle, s_of(s->idle));
}

static shoal_status plan_srun(const shoal_env *e, const shoal_launcher_wish *w, const shoal_launcher_site *site,
                              shoal_launcher *out)
{
  job j = { .id = NULL };
  shape s = { .ranks = 0 };
  shoal_status st = read_job(e, &j);
  if (st == SHOAL_OK && !site->srun)
    st = SHOAL_FAIL(SHOAL_ERR_WORLD, "this is Slurm job %s, and srun is not on the PATH: add Slurm's bin folder to it",
                    j.id);
  if (st == SHOAL_OK) st = count_ranks(&j, w, &s);
  if (st == SHOAL_OK) st = choose_cores(e, &j, w, &s);
  if (st == SHOAL_OK) st = add_srun(e, &j, &s, w->judges, &out->words);
  if (st == SHOAL_OK) {
    tell_srun(&j, &s, &out->told);
    out->ranks = s.ranks;
    out->nodes = s.nodes;
    out->cores = s.cores;
    if (shoal_env_get(e, "SRUN_CPUS_PER_TASK")) out->unset = "SRUN_CPUS_PER_TASK";
  }
  free_job(&j);
  return st;
}

/* ---- mpirun, and no launcher ---- */

/* What a run needs of mpirun, unless the user's environment says otherwise.  Open MPI 5 hands processes to PRRTE, which has its
 * own names for the same. */
static const struct {
  int version;                         /* 0: any */
  enum { ALWAYS, UNBOUND, HERE } when; /* also: only without -c, only if all ranks are on this machine */
  const char *variable, *words[3];
} needs[] = {
  { 4, UNBOUND, "OMPI_MCA_rmaps_base_oversubscribe", { "--oversubscribe" } },
  { 4, UNBOUND, "OMPI_MCA_hwloc_base_binding_policy", { "--bind-to", "none" } },
  { 5, UNBOUND, "PRTE_MCA_rmaps_default_mapping_policy", { "--map-by", ":OVERSUBSCRIBE" } },
  { 5, UNBOUND, "PRTE_MCA_hwloc_default_binding_policy", { "--bind-to", "none" } },
  { 4, ALWAYS, "OMPI_MCA_orte_execute_quiet", { "--quiet" } }, /* of an exit code the ranks say why */
  { 0,
    ALWAYS,
    "OMPI_MCA_mpi_yield_when_idle",
    { "--mca", "mpi_yield_when_idle", "1" } }, /* a rank that waits lets others */
  { 5,
    HERE,
    "OMPI_MCA_btl_tcp_if_include",
    { "--mca", "btl_tcp_if_include", "lo" } },                 /* or it warns of other addresses */
  { 4, HERE, "OMPI_MCA_plm", { "--mca", "plm", "isolated" } }, /* or it fails on a machine without ssh */
};

/* Each rank on so many cores of its own. */
static shoal_status add_binding(int cores, shoal_texts *words)
{
  static const char *const bind[] = { "--bind-to", "core" };
  SHOAL_TRY(shoal_texts_add(words, "--map-by"));
  SHOAL_TRY(shoal_texts_take(words, shoal_strdup_printf("slot:PE=%d", cores)));
  return add_words(words, bind, SHOAL_COUNT(bind));
}

static shoal_status add_mpirun(const shoal_env *e, const shoal_launcher_wish *w, bool root, int version,
                               shoal_texts *words)
{
  bool here = !other_batch_system(e);
  SHOAL_TRY(shoal_texts_add(words, "mpirun"));
  if (root) SHOAL_TRY(shoal_texts_add(words, "--allow-run-as-root"));
  SHOAL_TRY(shoal_texts_add(words, "-n"));
  SHOAL_TRY(shoal_texts_take(words, shoal_strdup_printf("%d", w->ranks)));
  if (w->cores) SHOAL_TRY(add_binding(w->cores, words));
  for (size_t i = 0; i < SHOAL_COUNT(needs); i++) {
    bool holds = needs[i].when == ALWAYS || (needs[i].when == UNBOUND ? !w->cores : here);
    if ((needs[i].version && needs[i].version != version) || !holds || shoal_env_get(e, needs[i].variable)) continue;
    SHOAL_TRY(add_words(words, needs[i].words, SHOAL_COUNT(needs[i].words)));
  }
  return SHOAL_OK;
}

/* "4 ranks on this machine (n1: 2 cores, no Slurm job)" */
static void tell_here(int ranks, const shoal_launcher_site *site, shoal_str *out)
{
  shoal_str_add(out, "%d rank%s on this machine (%s: %d core%s%s)", ranks, s_of(ranks), site->host, site->cores,
                s_of(site->cores), site->srun ? ", no Slurm job" : "");
}

static void tell_mpirun(const shoal_launcher_wish *w, const shoal_launcher_site *site, const char *system,
                        shoal_str *out)
{
  if (system)
    shoal_str_add(out, "%d rank%s on the nodes of this %s job", w->ranks, s_of(w->ranks), system);
  else
    tell_here(w->ranks, site, out);
  shoal_str_add(out, " by %s%s", site->mpirun, site->root ? ", as root" : "");
  if (w->cores)
    shoal_str_add(out, ", each bound to %d core%s", w->cores, s_of(w->cores));
  else
    shoal_str_add(out, "%s, not bound to cores", !system && w->ranks > site->cores ? ", more ranks than cores" : "");
}

static shoal_status check_mpirun(const shoal_launcher_wish *w, const shoal_launcher_site *site, int *version)
{
  char shown[sizeof site->mpirun];
  SHOAL_CHECK(site->mpirun[0], SHOAL_ERR_WORLD,
              "%d ranks need mpirun, which is not on the PATH: install Open MPI (openmpi-bin), or load its module",
              w->ranks);
  SHOAL_CHECK(
      sscanf(site->mpirun, "mpirun (Open MPI) %d", version) == 1, SHOAL_ERR_WORLD,
      "the mpirun on the PATH is not Open MPI's, it says \"%s\": load the module of the Open MPI that this program "
      "was built with (shoal --version --verbose)",
      shoal_show(site->mpirun, shown, sizeof shown));
  SHOAL_CHECK(!site->session[0], SHOAL_ERR_WORLD,
              "mpirun cannot make its folder for the job in %s; set TMPDIR to a folder of this machine that you may "
              "write, with room: mkdir -p ~/tmp; export TMPDIR=~/tmp",
              site->session);
  SHOAL_CHECK(
      !site->offline, SHOAL_ERR_WORLD,
      "no network interface is up on this machine, or in this container, not even its own (lo), over which "
      "mpirun talks to its ranks: `ip link set lo up`, or start the container with a network, or one rank, -n 1");
  *version = *version < 5 ? 4 : 5;
  return SHOAL_OK;
}

static shoal_status check_here(const shoal_launcher_wish *w, const shoal_launcher_site *site)
{
  SHOAL_CHECK(
      w->nodes <= 1, SHOAL_ERR_USAGE,
      "-N %d: this is no Slurm job, so there is 1 node, this machine (%s): get nodes first, salloc -N %d, or pretend "
      "them, --topo %dxRANKS",
      w->nodes, site->host, w->nodes, w->nodes);
  SHOAL_CHECK(
      w->ranks > 1 || !w->cores, SHOAL_ERR_USAGE,
      "-c %d: one rank without Slurm is a plain process, which has the cores of this shell: set threads in the run "
      "file, or start it by taskset",
      w->cores);
  SHOAL_CHECK(
      (int64_t)w->ranks * w->cores <= site->cores, SHOAL_ERR_USAGE,
      "-n %d -c %d: these ranks need %lld cores, and this machine (%s) has %d; give fewer, or leave out -c, and ranks "
      "share the cores",
      w->ranks, w->cores, (long long)w->ranks * w->cores, site->host, site->cores);
  return SHOAL_OK;
}

static shoal_status plan_here(const shoal_env *e, const shoal_launcher_wish *asked, const shoal_launcher_site *site,
                              shoal_launcher *out)
{
  shoal_launcher_wish w = *asked;
  const char *system = other_batch_system(e);
  int version;
  char slots[16] = "";
  if (system && slots_of(e, system)) snprintf(slots, sizeof slots, " %d", slots_of(e, system));
  SHOAL_CHECK(!system || (w.ranks && !w.nodes), SHOAL_ERR_USAGE,
              "this is a job of %s, whose nodes mpirun takes by itself: give the number of ranks, -n%s, and no -N",
              system, slots);
  w.ranks = SHOAL_MAX(w.ranks, 1);
  if (!system) SHOAL_TRY(check_here(&w, site));
  if (w.ranks > 1 || system) {
    SHOAL_TRY(check_mpirun(&w, site, &version));
    SHOAL_TRY(add_mpirun(e, &w, site->root, version, &out->words));
    tell_mpirun(&w, site, system, &out->told);
  } else {
    tell_here(1, site, &out->told);
    shoal_str_add(&out->told, ", a plain process; -n starts more");
  }
  out->ranks = w.ranks;
  out->nodes = system ? 0 : 1;
  out->cores = w.cores;
  return SHOAL_OK;
}

/* ---- the whole ---- */

/* A rank of mpirun, or of another MPI's launcher; srun sets PMI_SIZE, too, and its steps are judged by their variables. */
static shoal_status check_not_a_rank(const shoal_env *e, bool in_job)
{
  static const char *const names[] = { "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE" };
  for (size_t i = 0; i < SHOAL_COUNT(names) - in_job; i++)
    SHOAL_CHECK(
        !shoal_env_get(e, names[i]), SHOAL_ERR_WORLD,
        "this is already a rank of a launcher (%s=%s), and each of them would start a run: call `shoal launch` "
        "without one, or make them the ranks: shoal train; or, if the variable is left over from another launcher, "
        "unset ${!%.*s@}",
        names[i], shoal_env_get(e, names[i]), (int)(strlen(names[i]) - strlen("SIZE")), names[i]);
  int apart = shoal_torch_processes(e);
  SHOAL_CHECK(apart <= 1, SHOAL_ERR_WORLD,
              "torchrun or the like has started %d processes (WORLD_SIZE), each of which would start a run: call "
              "`shoal launch -n %d` "
              "without it; or, if the variables are left over, unset RANK LOCAL_RANK WORLD_SIZE",
              apart, apart);
  return SHOAL_OK;
}

shoal_status shoal_launcher_plan(const shoal_env *e, const shoal_launcher_wish *w, const shoal_launcher_site *site,
                                 shoal_launcher *out)
{
  shoal_launcher l = { .ranks = 0 };
  bool in_job = shoal_env_int(e, "SLURM_JOB_ID", 0) >= 0;
  SHOAL_TRY(check_not_a_rank(e, in_job));
  shoal_status st = in_job ? plan_srun(e, w, site, &l) : plan_here(e, w, site, &l);
  if (st == SHOAL_OK)
    *out = l;
  else
    shoal_launcher_free(&l);
  return st;
}

void shoal_launcher_free(shoal_launcher *l)
{
  shoal_texts_free(&l->words);
  shoal_str_free(&l->told);
}

void shoal_launcher_print(const shoal_launcher *l, const shoal_texts *program, shoal_str *out)
{
  if (l->unset) shoal_str_add(out, "env -u %s ", l->unset);
  for (size_t i = 0; i < l->words.n + program->n; i++) {
    if (i) shoal_str_add(out, " ");
    shoal_str_add_word(out, i < l->words.n ? l->words.at[i] : program->at[i - l->words.n]);
  }
}

static void hold_stops(sigset_t *before)
{
  static const int stops[] = { SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP };
  sigset_t held;
  sigemptyset(&held);
  for (size_t i = 0; i < SHOAL_COUNT(stops); i++) sigaddset(&held, stops[i]);
  sigprocmask(SIG_BLOCK, &held, before);
}

shoal_status shoal_launcher_become(const shoal_launcher *l, const shoal_texts *program)
{
  char **argv = NULL;
  SHOAL_TRY(SHOAL_ALLOC(l->words.n + program->n + 1, &argv));
  if (l->words.n) memcpy(argv, l->words.at, l->words.n * sizeof *argv);
  memcpy(argv + l->words.n, program->at, program->n * sizeof *argv);
  if (l->unset) unsetenv(l->unset);
  shoal_topo_unbind();
  sigset_t mask;
  sigprocmask(SIG_BLOCK, NULL, &mask);
  if (!l->words.n) hold_stops(&mask);
  execvp(argv[0], argv);
  sigprocmask(SIG_SETMASK, &mask, NULL);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_WORLD, "cannot start %s: %s", argv[0], strerror(errno));
  free(argv);
  return st;
}
