/* See lease.h. */
#include "train/lease.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/str.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* ENDING: a killed job's launcher can return a moment before its last process is gone.  DEPTH: successors of successors,
 * each of which died between two system calls. */
enum { STALE_S = 120, TOUCH_EVERY_S = 5, ENDING_S = 5, DEPTH = 4 };

typedef struct {
  char host[64], job[SHOAL_LEASE_JOB];
  shoal_kernel kernel;
  long pid;
  uint64_t started; /* base/process.h */
  long restarts;    /* of the job: how often it was requeued */
  bool cut;         /* its text is not all there: yet, or never, as its maker was killed meanwhile */
  uint64_t token;
} holder;

struct shoal_lease {
  char *dir, *path; /* owned */
  bool patient;
  holder me;
  int fd; /* of the lease while it is held; else -1 */
  uint64_t first_ns;
  struct timespec seen; /* when the other's lease was last touched, at the first try */
  bool told;            /* that we wait */
  bool future;          /* by the clock of the file system, that time is still to come */
  void (*beat)(void *context, bool every);
  void *context;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t wake;
  bool runs, ends, lost; /* under lock */
};

/* ---- who ---- */

bool shoal_lease_job(char job[SHOAL_LEASE_JOB])
{
  static const struct {
    const char *job, *element, *also; /* also: a variable that says whose the others are; NULL: their names do */
  } systems[] = { { "SLURM_JOB_ID", NULL, NULL },
                  { "PBS_JOBID", NULL, NULL },
                  { "LSB_JOBID", "LSB_JOBINDEX", NULL },
                  { "JOB_ID", "SGE_TASK_ID", "SGE_O_WORKDIR" },
                  { "FLUX_JOB_ID", NULL, NULL },
                  { "OAR_JOB_ID", NULL, NULL },
                  { "COBALT_JOBID", NULL, NULL },
                  { "AWS_BATCH_JOB_ID", NULL, NULL },
                  { "_CONDOR_SLOT", NULL, NULL },                    /* HTCondor tells no number */
                  { "HOSTNAME", NULL, "KUBERNETES_SERVICE_HOST" } }; /* the pod, whose containers are started again */
  for (size_t i = 0; i < SHOAL_COUNT(systems); i++) {
    const char *id = getenv(systems[i].job), *element = systems[i].element ? getenv(systems[i].element) : NULL;
    if (!id || !*id || strpbrk(id, " \t\n") || (systems[i].also && !getenv(systems[i].also))) continue;
    bool of_array = element && element[0] >= '1' && element[0] <= '9';
    snprintf(job, SHOAL_LEASE_JOB, "%s%s%s%s", id, of_array ? "[" : "", of_array ? element : "", of_array ? "]" : "");
    return true;
  }
  return false;
}

static holder myself(void)
{
  holder h = { .pid = getpid() };
  gethostname(h.host, sizeof h.host - 1);
  const char *restarts = getenv("SLURM_RESTART_COUNT");
  if (!shoal_lease_job(h.job)) strcpy(h.job, "-");
  h.restarts = restarts ? strtol(restarts, NULL, 10) : 0;
  shoal_process process;
  if (shoal_process_lives(h.pid, &process)) h.started = process.started;
  h.kernel = shoal_kernel_here();
  while (h.token == 0)
    if (getrandom(&h.token, sizeof h.token, 0) != sizeof h.token) h.token = shoal_now_ns() ^ (uint64_t)h.pid << 32;
  return h;
}

/* A lease of an older version has no token; its text stands for one.  An unreadable one has pid -1.
 * @param file  of the file that was read: by its name another may be there a moment later; NULL: not asked for */
static bool read_lease(const char *path, holder *out, struct stat *file)
{
  enum { LONGEST = 1024 };
  char text[LONGEST + 1];
  int fd = -1;
  shoal_error before; /* that there is none is a valid result */
  shoal_error_take(&before);
  bool there = shoal_open_file(path, &fd, NULL) == SHOAL_OK;
  (void)shoal_error_put(&before);
  ssize_t n = there ? read(fd, text, LONGEST) : 0;
  there = there && n >= 0 && (!file || fstat(fd, file) == 0);
  if (fd >= 0) close(fd);
  text[n > 0 ? n : 0] = '\0';
  *out = (holder){ .pid = -1, .host = "-", .job = "-", .kernel = { "?", "?" } };
  if (there) {
    int fields =
        sscanf(text, "job %63s host %63s pid %ld started %" SCNu64 " restarts %ld boot %39s pids %31s token %" SCNx64,
               out->job, out->host, &out->pid, &out->started, &out->restarts, out->kernel.boot, out->kernel.pid_space,
               &out->token);
    if (fields < 4) out->pid = -1;
    out->cut = n <= 0 || text[n - 1] != '\n';
    if (fields < 8) out->token = UINT64_C(1) << 32 | shoal_crc32c(0, text, (size_t)n);
  }
  return there;
}

/* ---- whether the holder lives ---- */

typedef enum { GONE, UNKNOWN, ALIVE } life;

/* The age of a file by the clock of its file system, which may be another machine's. */
static double age_s(const shoal_lease *l, const struct stat *s)
{
  struct stat now;
  char *probe = shoal_temporary_name(l->path);
  int fd = -1;
  struct timespec local;
  clock_gettime(CLOCK_REALTIME, &local);
  bool ok = shoal_open_new(probe, l->path, &fd) == SHOAL_OK && fstat(fd, &now) == 0;
  if (fd >= 0) {
    close(fd);
    unlink(probe);
  }
  free(probe);
  if (ok) local = now.st_mtim;
  return (double)(local.tv_sec - s->st_mtim.tv_sec) + 1e-9 * (double)(local.tv_nsec - s->st_mtim.tv_nsec);
}

/* Whether a living process of this kernel has the lease open, as its holder has.  One that has not holds that of the folder
 * of which this is a copy.  Of another user's process nothing is seen. */
static bool has_open(long pid, const struct stat *lease)
{
  char folder[64];
  struct stat s;
  snprintf(folder, sizeof folder, "/proc/%ld/fd", pid);
  DIR *d = opendir(folder);
  bool has = d == NULL;
  for (struct dirent *e; !has && d && (e = readdir(d));)
    has = e->d_name[0] != '.' && fstatat(dirfd(d), e->d_name, &s, 0) == 0 && s.st_dev == lease->st_dev &&
          s.st_ino == lease->st_ino;
  if (d) closedir(d);
  return has;
}

/* Only a process of the same kernel and PID namespace can be looked for. */
static life judge(shoal_lease *l, const holder *h, const struct stat *s, double *left_s)
{
  const holder *me = &l->me;
  shoal_process process;
  bool same_job = strcmp(h->job, "-") != 0 && strcmp(h->job, me->job) == 0;
  if (same_job && h->restarts < me->restarts) return GONE; /* requeued: the batch system has ended the earlier start */
  if (h->pid > 0 && shoal_kernel_is_here(h->kernel.boot, h->kernel.pid_space))
    return shoal_process_lives(h->pid, &process) && process.started == h->started && has_open(h->pid, s) ? ALIVE : GONE;
  /* The clock may have been set back since the lease was touched: then only what is seen here counts. */
  double age = age_s(l, s), watched = l->seen.tv_sec ? shoal_seconds_since(l->first_ns) : 0;
  l->future = age < -TOUCH_EVERY_S;
  *left_s = (h->cut ? ENDING_S : STALE_S) - SHOAL_MAX(age, watched);
  if (*left_s <= 0) return GONE;
  bool touched = l->seen.tv_sec && (s->st_mtim.tv_sec != l->seen.tv_sec || s->st_mtim.tv_nsec != l->seen.tv_nsec);
  if (!l->seen.tv_sec) l->seen = s->st_mtim;
  return touched ? ALIVE : UNKNOWN;
}

/* ---- taking ---- */

static shoal_status write_lease(shoal_lease *l, const char *path)
{
  const holder *me = &l->me;
  bool written =
      dprintf(l->fd, "job %s host %s pid %ld started %" PRIu64 " restarts %ld boot %s pids %s token %016" PRIx64 "\n",
              me->job, me->host, me->pid, me->started, me->restarts, me->kernel.boot, me->kernel.pid_space,
              me->token) > 0;
  int error = written ? shoal_sync(l->fd) : errno; /* the file stays open, and other nodes look for it now */
  if (!error) return SHOAL_OK;
  shoal_status st = shoal_io_fault("write", path, error);
  unlink(path);
  close(l->fd);
  l->fd = -1;
  return st;
}

static char *successor(const char *path, uint64_t token)
{
  return shoal_strdup_printf("%s.after-%016" PRIx64, path, token);
}

/* Makes `path` ours (l->fd is open then), or says who has it.  Who is found gone is succeeded in three steps: win the
 * right to, see that it is still the one, replace it.  A process that has read the lease before another has replaced it
 * can make the file that was just renamed, but then sees another token. */
static shoal_status claim(shoal_lease *l, const char *path, int depth, life *state, holder *other, double *left_s)
{
  struct stat s;
  holder now;
  l->fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (l->fd >= 0) return write_lease(l, path);
  if (errno != EEXIST) return shoal_io_fault("make", path, errno);
  *state = UNKNOWN;
  *left_s = 1;
  if (!read_lease(path, other, &s)) return SHOAL_OK; /* given back just now: at the next try */
  *state = judge(l, other, &s, left_s);
  if (*state != GONE || depth == 0) return SHOAL_OK;
  char *next = successor(path, other->token);
  shoal_status st = claim(l, next, depth - 1, state, &now, left_s);
  if (st == SHOAL_OK && l->fd < 0) {
    *other = now;
  } else if (st == SHOAL_OK) {
    bool still = read_lease(path, &now, NULL) && now.token == other->token;
    if (!still || rename(next, path) != 0) {
      if (still) st = shoal_io_fault("take over", path, errno);
      unlink(next);
      close(l->fd);
      l->fd = -1;
      *state = UNKNOWN;
    }
  }
  free(next);
  return st;
}

static shoal_status refuse(const shoal_lease *l, life state, const holder *h, double left_s)
{
  char who[256], until[32], word[SHOAL_WORD];
  const bool job = strcmp(h->job, "-") != 0;
  snprintf(who, sizeof who, "%s is in use by another run (%s%s%shost %s, process %ld)", l->dir, job ? "job " : "",
           job ? h->job : "", job ? ", " : "", h->host, h->pid);
  if (state == ALIVE)
    return SHOAL_FAIL(SHOAL_ERR_WORLD, "%s, which is alive; wait for it, or choose another run.name", who);
  if (l->future)
    return SHOAL_FAIL(
        SHOAL_ERR_WORLD,
        "%s, as far as can be seen from here: it touched the lease at a time that is still to come, as if a "
        "clock had been set back; if it is gone, start again after `rm %s`",
        who, shoal_shell_word(l->path, word));
  return SHOAL_FAIL(SHOAL_ERR_WORLD,
                    "%s, as far as can be seen from here; if it is gone, start again in %s, or at once after `rm %s`",
                    who, shoal_format_seconds(left_s, until, sizeof until), shoal_shell_word(l->path, word));
}

static void *touch(void *lease);

static shoal_status begin(shoal_lease *l, bool took_over)
{
  sigset_t all, before;
  if (took_over) shoal_info("took over the lease of a run that is gone");
  sigfillset(&all); /* no signal is for this thread */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  l->runs = pthread_create(&l->thread, NULL, touch, l) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return l->runs ? SHOAL_OK : SHOAL_FAIL(SHOAL_ERR_MEM, "cannot start the thread that touches %s", l->path);
}

shoal_status shoal_lease_try(shoal_lease *l, double *left_s)
{
  life state = GONE;
  holder other = { .pid = 0 };
  double waited = shoal_seconds_since(l->first_ns);
  char until[32];
  SHOAL_TRY(claim(l, l->path, DEPTH, &state, &other, left_s));
  if (l->fd >= 0) {
    *left_s = 0;
    return begin(l, other.pid != 0);
  }
  bool soon = state == ALIVE ? waited < ENDING_S : waited + *left_s < ENDING_S;
  if (!soon && (state == ALIVE || !l->patient)) return refuse(l, state, &other, *left_s);
  if (state == UNKNOWN && l->patient && !l->told) {
    l->told = true;
    shoal_info("%s is leased to a run that cannot be asked from here (job %s, host %s, process %ld): waiting %s, until "
               "nobody has touched the lease for %d s",
               l->dir, other.job, other.host, other.pid, shoal_format_seconds(*left_s, until, sizeof until), STALE_S);
  }
  *left_s = SHOAL_MAX(*left_s, 1);
  return SHOAL_OK;
}

/* ---- holding ---- */

bool shoal_lease_has(const char *dir, uint64_t token)
{
  holder now;
  char *path = shoal_path_join(dir, "lease");
  bool has = read_lease(path, &now, NULL) && now.token == token;
  free(path);
  return has;
}

/* The file is touched by its descriptor, so that after a take-over it is not the other's that looks alive. */
static void *touch(void *lease)
{
  shoal_lease *l = lease;
  pthread_mutex_lock(&l->lock);
  for (int seconds = 1; !l->ends && !l->lost; seconds++) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    while (!l->ends && pthread_cond_timedwait(&l->wake, &l->lock, &until) == 0) {}
    if (l->ends) break;
    pthread_mutex_unlock(&l->lock);
    bool every = seconds % TOUCH_EVERY_S == 0;
    bool held = !every || (futimens(l->fd, NULL) == 0 && shoal_lease_has(l->dir, l->me.token));
    if (held && l->beat) l->beat(l->context, every);
    pthread_mutex_lock(&l->lock);
    l->lost = !held;
  }
  pthread_mutex_unlock(&l->lock);
  return NULL;
}

bool shoal_lease_lost(const shoal_lease *l)
{
  shoal_lease *unlocked = (shoal_lease *)l;
  pthread_mutex_lock(&unlocked->lock);
  bool lost = l->lost;
  pthread_mutex_unlock(&unlocked->lock);
  return lost;
}

uint64_t shoal_lease_token(const shoal_lease *l)
{
  return l->me.token;
}

/* ---- the whole ---- */

shoal_status shoal_lease_create(const char *dir, bool patient, void (*beat)(void *context, bool every), void *context,
                                shoal_lease **out)
{
  pthread_condattr_t monotonic;
  shoal_lease *l = calloc(1, sizeof *l);
  SHOAL_CHECK(l, SHOAL_ERR_MEM, "a lease");
  *l = (shoal_lease){ .dir = shoal_strdup_printf("%s", dir),
                      .path = shoal_path_join(dir, "lease"),
                      .patient = patient,
                      .me = myself(),
                      .fd = -1,
                      .first_ns = shoal_now_ns(),
                      .beat = beat,
                      .context = context,
                      .lock = PTHREAD_MUTEX_INITIALIZER };
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&l->wake, &monotonic);
  pthread_condattr_destroy(&monotonic);
  *out = l;
  return SHOAL_OK;
}

void shoal_lease_destroy(shoal_lease *l)
{
  if (!l) return;
  if (l->runs) {
    pthread_mutex_lock(&l->lock);
    l->ends = true;
    pthread_cond_signal(&l->wake);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
  }
  if (l->fd >= 0) {
    if (shoal_lease_has(l->dir, l->me.token)) unlink(l->path);
    close(l->fd);
  }
  pthread_cond_destroy(&l->wake);
  pthread_mutex_destroy(&l->lock);
  free(l->dir);
  free(l->path);
  free(l);
}
