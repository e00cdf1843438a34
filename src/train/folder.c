/* See folder.h.  Small files are written atomically, so a reader never sees half of one. */
#include "train/folder.h"
#include "base/activity.h"
#include "base/cgroup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/str.h"
#include "ckpt/folder.h"
#include "slurm/job.h"
#include "train/stop.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_ATTEMPTS = 1000000000 }; /* a status.json with a larger number counts as none */

shoal_status shoal_folder_check_name(const char *name)
{
  SHOAL_CHECK(*name && *name != '.' && *name != '-' && strlen(name) < 64, SHOAL_ERR_USAGE,
              "run.name is \"%s\": must be 1 to 63 characters and not begin with '.' or '-'", name);
  for (const char *c = name; *c; c++)
    SHOAL_CHECK(isalnum((unsigned char)*c) || strchr("._-", *c), SHOAL_ERR_USAGE,
                "run.name is \"%s\": only letters, digits, '.', '_' and '-' are allowed", name);
  return SHOAL_OK;
}

shoal_status shoal_folder_name(const char *root, const char *name, shoal_folder *out)
{
  *out = (shoal_folder){ .rank = shoal_log_rank(), .kills = (int64_t)shoal_memory_kills("") };
  SHOAL_TRY(shoal_folder_check_name(name));
  out->dir = shoal_path_join(root, name);
  out->ckpt = shoal_path_join(out->dir, "ckpt");
  out->trace = shoal_path_join(out->dir, "trace");
  return SHOAL_OK;
}

/* A positive number of an object that may not be there; else 0. */
static double positive(const json_t *object, const char *name)
{
  double x = json_number_value(json_object_get(object, name));
  return isfinite(x) && x > 0 ? x : 0;
}

static bool is_one_of(const char *text, const char *a, const char *b)
{
  return text && (strcmp(text, a) == 0 || strcmp(text, b) == 0);
}

static const char running[] = "running", stopping[] = "stopping",
                  asked_by_signal[] = "asked to stop by a signal; not saved yet";

/* What an attempt wrote last into status.json. */
typedef struct {
  int attempt;                /* 0: there is none */
  bool there;                 /* is the file */
  bool failed, runs, stopped; /* its state: failed; running or stopping; stopped */
  bool cut;                   /* it has not ended since it was stopped */
  int exit_code;
  char reason[512];
  double loss;            /* of its last step; NAN: there was none */
  shoal_folder_lead lead; /* what it measured */
  int64_t step;
  char time[40];
  char memory[SHOAL_MEMORY_KILLS]; /* that it ran out since that began, as far as is known here */
} last_word;

static last_word read_last_word(const shoal_folder *f)
{
  char *path = shoal_path_join(f->dir, "status.json");
  last_word w = { .there = shoal_path_exists(path), .loss = NAN };
  json_t *status = NULL;
  if (w.there && shoal_json_read_file(path, &status) == SHOAL_OK) {
    const char *state = json_string_value(json_object_get(status, "state"));
    const char *time = json_string_value(json_object_get(status, "time"));
    json_int_t number = json_integer_value(json_object_get(status, "attempt"));
    w.attempt = number > 0 && number < MOST_ATTEMPTS ? (int)number : 0;
    w.failed = is_one_of(state, "failed", "failed");
    w.runs = is_one_of(state, running, stopping);
    w.stopped = is_one_of(state, "stopped", "stopped");
    w.cut = w.stopped && json_is_false(json_object_get(status, "ended"));
    w.exit_code = shoal_json_int_of(status, "exit_code");
    const char *reason = json_string_value(json_object_get(status, "reason"));
    snprintf(w.reason, sizeof w.reason, "%s", reason ? reason : "");
    w.loss = shoal_json_real_of(json_object_get(status, "progress"), "loss");
    const json_t *object = json_object_get(status, "lead");
    w.lead = (shoal_folder_lead){ positive(object, "step_s"), positive(object, "save_s") };
    w.step = json_integer_value(json_object_get(status, "step"));
    snprintf(w.time, sizeof w.time, "%s", time ? time : "an unknown time");
    shoal_memory_kills_since(json_object_get(status, "process"), w.memory);
  }
  json_decref(status);
  free(path);
  return w;
}

static const char heads[] = "=== attempt "; /* an attempt in log.txt */

/* The last attempt that log.txt tells of, or 0: a killed one may not have come to write status.json.  *torn: its last line has
 * no end, because the disk was full. */
static int logged_attempt(const shoal_folder *f, bool *torn)
{
  char *path = shoal_path_join(f->dir, "log.txt"), *text = NULL;
  int64_t attempt = 0, number;
  size_t n;
  shoal_error before;
  shoal_error_take(&before);
  bool there = shoal_path_exists(path) && shoal_read_file(path, &text, &n) == SHOAL_OK;
  (void)shoal_error_put(&before);
  for (char *line = there ? text : NULL; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
    if (strncmp(line, heads, sizeof heads - 1) != 0) continue;
    number = strtoll(line + sizeof heads - 1, NULL, 10);
    if (number > attempt && number < MOST_ATTEMPTS) attempt = number;
  }
  *torn = there && n > 0 && text[n - 1] != '\n';
  free(text);
  free(path);
  return (int)attempt;
}

/* Another rank may have given up for all: what it wrote stays, also if this one is woken once more by the launcher's signals.  So does
 * that the checkpoint of a stop was written, if a rank is lost afterwards.  What rank 0 has measured stays, too, whoever writes. */
static bool must_stay(shoal_folder *f, const char *state)
{
  last_word w = read_last_word(f);
  if (f->lead.step_s == 0) f->lead.step_s = w.lead.step_s;
  if (f->lead.save_s == 0) f->lead.save_s = w.lead.save_s;
  return w.attempt == f->attempt && (w.failed || (w.stopped && strcmp(state, "failed") == 0));
}

/* The lease's thread writes it, too. */
static pthread_mutex_t status_lock = PTHREAD_MUTEX_INITIALIZER;

static void add_figures(const shoal_folder *f, shoal_json *j)
{
  const shoal_folder_figures *g = &f->figures;
  bool as_before = !isfinite(g->loss) && g->step == f->before.step; /* no step of this start yet */
  if (!g->model) return;
  shoal_json_object(j, "progress");
  shoal_json_string(j, "model", g->model);
  shoal_json_string(j, "method", g->method);
  shoal_json_int(j, "ranks", g->ranks);
  shoal_json_int(j, "nodes", g->nodes);
  shoal_json_real(j, "epochs", g->epochs);
  shoal_json_fixed(j, "done", g->done, 5);
  shoal_json_real(j, "loss", as_before ? f->before.loss : g->loss);
  shoal_json_real(j, "lr", g->lr);
  shoal_json_real(j, "test_loss", g->test_loss);
  shoal_json_real(j, "test_acc", g->test_acc);
  shoal_json_real(j, "test_rmse", g->fit.rmse);
  shoal_json_real(j, "test_mae", g->fit.mae);
  shoal_json_real(j, "test_r2", g->fit.r2);
  shoal_json_fixed(j, "samples_per_s", g->samples_per_s, 1);
  shoal_json_fixed(j, "waiting", g->waiting, 4);
  shoal_json_fixed(j, "left_s", g->left_s, 1);
  shoal_json_end(j);
}

static void add_lead(const shoal_folder_lead *l, shoal_json *j)
{
  if (l->step_s == 0 && l->save_s == 0) return;
  shoal_json_object(j, "lead");
  shoal_json_fixed(j, "step_s", l->step_s, 6);
  shoal_json_fixed(j, "save_s", l->save_s, 6);
  shoal_json_end(j);
}

/* Whom to look for, if the file says for long that the run goes on. */
static void add_process(const shoal_folder *f, shoal_json *j)
{
  char *job = shoal_job_here();
  shoal_json_string(j, "job", job); /* null outside of Slurm */
  free(job);
  shoal_process p = { 0 };
  shoal_kernel here = shoal_kernel_here();
  (void)shoal_process_lives(getpid(), &p);
  shoal_json_object(j, "process");
  shoal_json_int(j, "pid", getpid());
  shoal_json_uint(j, "started", p.started);
  shoal_json_string(j, "boot", here.boot);
  shoal_json_string(j, "pids", here.pid_space);
  shoal_json_int(j, "memory_kills", f->kills);
  shoal_json_end(j);
}

/* What the thread writes is of one moment, that of the figures. */
static void add_place(const shoal_folder *f, bool by_thread, shoal_json *j)
{
  bool told = by_thread && f->figures.model;
  shoal_json_uint(j, "step", told ? f->figures.step : atomic_load(&f->step));
  shoal_json_uint(j, "epoch", told ? f->figures.epoch : atomic_load(&f->epoch));
}

static bool overwrite(const shoal_folder *f, const char *name, const char *text)
{
  char *path = shoal_path_join(f->dir, name);
  bool written = shoal_folder_is_ours(f) && shoal_write_over(path, text);
  free(path);
  return written;
}

static shoal_status write_status(shoal_folder *f, const char *state, int exit_code, const char *reason, bool by_thread)
{
  char now[40];
  shoal_json j = { 0 };
  shoal_status st = SHOAL_OK;
  shoal_json_object(&j, NULL);
  shoal_json_string(&j, "state", state);
  shoal_json_bool(&j, "ended", !f->ends && !is_one_of(state, running, stopping));
  shoal_json_int(&j, "exit_code", exit_code);
  shoal_json_string(&j, "reason", reason);
  shoal_json_int(&j, "rank", atomic_load(&f->rank));
  pthread_mutex_lock(&status_lock);
  add_place(f, by_thread, &j);
  shoal_json_int(&j, "attempt", f->attempt);
  shoal_json_string(&j, "time", shoal_wall_clock(now, sizeof now));
  bool stays = must_stay(f, state);
  add_figures(f, &j);
  add_lead(&f->lead, &j);
  add_process(f, &j);
  shoal_json_end(&j);
  if ((!by_thread || atomic_load(&f->running)) && !stays) st = shoal_folder_write(f, "status.json", j.text.text);
  if (st == SHOAL_ERR_IO && !f->running && overwrite(f, "status.json", j.text.text)) st = SHOAL_OK; /* the last word */
  pthread_mutex_unlock(&status_lock);
  shoal_str_free(&j.text);
  return st;
}

bool shoal_folder_is_ours(const shoal_folder *f)
{
  if (!f->token) return false;
  shoal_activity_begin(false, "reading %s/lease", f->dir);
  bool ours = shoal_lease_has(f->dir, f->token);
  shoal_activity_end();
  return ours;
}

/* The log may have been removed, or moved away: it goes on in a new file, under the heading by which attempts are counted. */
static void renew_log(const shoal_folder *f)
{
  FILE *again = NULL;
  shoal_error before;
  char *path = shoal_path_join(f->dir, "log.txt");
  shoal_error_take(&before);
  if (!shoal_path_names(path, fileno(f->log)) && shoal_open_append(path, &again) == SHOAL_OK) {
    if (dup3(fileno(again), fileno(f->log), O_CLOEXEC) >= 0)
      fprintf(f->log, "=== attempt %d goes on: the file before this one was removed or moved\n", f->attempt);
    fclose(again);
  }
  (void)shoal_error_put(&before);
  free(path);
}

static bool log_is_ours(void *folder)
{
  bool ours = shoal_folder_is_ours(folder);
  if (ours) renew_log(folder);
  return ours;
}

void shoal_folder_renew(const shoal_folder *f)
{
  if (f->metrics && shoal_folder_is_ours(f)) shoal_rows_renew(f->metrics);
}

int shoal_folder_lease_fault(const shoal_folder *f)
{
  char byte, *path = shoal_path_join(f->dir, "lease");
  int fd = open(path, O_RDONLY | O_CLOEXEC), fault = fd < 0 || read(fd, &byte, 1) < 0 ? errno : 0;
  if (fd >= 0) close(fd);
  free(path);
  return fault == ENOENT || fault == ENOTDIR || fault == ESTALE ? 0 : fault;
}

shoal_status shoal_folder_check(const shoal_folder *f)
{
  bool ours = shoal_folder_is_ours(f);
  int fault = ours ? 0 : shoal_folder_lease_fault(f);
  SHOAL_CHECK(!fault, SHOAL_ERR_IO,
              "cannot read %s/lease: %s; nothing more can be written, and this run ends here: when the disk is back, "
              "start it again, "
              "to go on from its newest checkpoint",
              f->dir, strerror(fault));
  SHOAL_CHECK(
      ours || shoal_path_exists(f->dir), SHOAL_ERR_WORLD,
      "%s is gone: it was moved or removed under this run, which ends here; move it back, or start with run.dir and "
      "run.name of its new place",
      f->dir);
  char *lease = shoal_path_join(f->dir, "lease");
  bool removed = !ours && !shoal_path_exists(lease);
  free(lease);
  SHOAL_CHECK(
      !removed, SHOAL_ERR_WORLD,
      "%s/lease is gone: somebody removed it, perhaps with other files of this run; nothing more is written, and "
      "this run ends here: start it again, to go on from the newest checkpoint that is left",
      f->dir);
  SHOAL_CHECK(
      ours, SHOAL_ERR_WORLD,
      "the lease of %s is not this run's any more: another run took it over while this one did not run; nothing "
      "more is written",
      f->dir);
  return SHOAL_OK;
}

/* In the lease's thread.  Written anew every few seconds, and at once when a signal is heard: what fails is tried again. */
static void beat(void *folder, bool every)
{
  shoal_folder *f = folder;
  if (shoal_stop_requested()) shoal_folder_hear(f);
  bool asked = atomic_load(&f->asked), news = asked && !f->told;
  if (!every && !news) return;
  shoal_status st = write_status(f, asked ? stopping : running, 0, asked ? asked_by_signal : "", true);
  f->told = asked && st == SHOAL_OK;
}

/* What killed attempts left behind: half-written files, and the names under which a lease was to be taken over. */
static shoal_status sweep(const shoal_folder *f)
{
  static const char mark[] = "lease.after-";
  char *best = shoal_path_join(f->ckpt, "best");
  shoal_status st = shoal_ckpt_sweep(f->dir);
  if (st == SHOAL_OK) st = shoal_ckpt_sweep(f->ckpt);
  if (st == SHOAL_OK) st = shoal_ckpt_sweep(best);
  free(best);
  DIR *d = opendir(f->dir);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (strncmp(e->d_name, mark, sizeof mark - 1) != 0) continue;
    char *path = shoal_path_join(f->dir, e->d_name);
    unlink(path);
    free(path);
  }
  if (d) closedir(d);
  return st;
}

/* The first folder on the way to `dir` that is not there, or NULL.  Caller frees. */
static char *first_missing(const char *dir)
{
  char *path = shoal_strdup_printf("%s", dir);
  for (char *at = path + 1;; at++) {
    const char kept = *at;
    if (kept && kept != '/') continue;
    *at = '\0';
    if (!shoal_path_exists(path)) return path;
    if (!kept) break;
    *at = kept;
  }
  free(path);
  return NULL;
}

/* Names the options of a folder that cannot be made or written, and for one that somebody else has written, as root in a container,
 * how its files change hands. */
static shoal_status name_options(const shoal_folder *f, shoal_status st)
{
  struct stat s;
  char word[SHOAL_WORD];
  if (st != SHOAL_ERR_IO) return st;
  if (stat(f->dir, &s) == 0 && s.st_uid != geteuid() && access(f->dir, W_OK) != 0)
    st = shoal_error_append(st, "; to go on with that run as user %ld, root types chown -R %ld:%ld %s", (long)geteuid(),
                            (long)geteuid(), (long)getegid(), shoal_shell_word(f->dir, word));
  return shoal_error_append(st, "; run.dir and run.name choose the folder of a run");
}

/* A run that ends by itself says so in status.json, and the ranks that were left when one was killed. */
static void tell_of_killed(const last_word *w)
{
  bool lost = w->failed && w->exit_code == shoal_status_exit_code(SHOAL_ERR_COMM);
  if (!w->attempt) return;
  if (lost) {
    bool told = !*w->memory || strstr(w->reason, "memory ran out");
    shoal_warn("attempt %d failed at step %lld, %s: %s%s%s", w->attempt, (long long)w->step, w->time, w->reason,
               told ? "" : "; ", told ? "" : w->memory);
  }
  if (w->cut) shoal_info("attempt %d: %s; then it was killed before it ended", w->attempt, w->reason);
  if (!w->runs) return;
  shoal_warn("attempt %d did not end by itself, its last sign of life is of step %lld, %s: %s", w->attempt,
             (long long)w->step, w->time, *w->memory ? w->memory : "it was killed, or its host went down");
}

static void begin_log(shoal_folder *f, const char *path, bool torn)
{
  char now[40], heading[80];
  if (torn) fputs("\n", f->log);
  shoal_log_set_file(f->log, path);
  fflush(f->log);
  f->heading = lseek(fileno(f->log), 0, SEEK_END);
  shoal_log_ask_first(log_is_ours, f);
  snprintf(heading, sizeof heading, "%s%d, %s", heads, f->attempt, shoal_wall_clock(now, sizeof now));
  shoal_log_text(heading);
}

static shoal_status take(shoal_folder *f, bool *again)
{
  double left_s;
  if (!f->lease) {
    if (!f->made) f->made = first_missing(f->dir);
    f->found = !f->made;
    SHOAL_TRY(shoal_make_dirs(f->ckpt));
    SHOAL_TRY(shoal_make_dirs(f->trace));
    SHOAL_TRY(shoal_lease_create(f->dir, shoal_lease_job((char[SHOAL_LEASE_JOB]){ "" }), beat, f, &f->lease));
  }
  SHOAL_TRY(shoal_lease_try(f->lease, &left_s));
  *again = left_s > 0;
  if (*again) return SHOAL_OK;
  f->token = shoal_lease_token(f->lease);
  if (sweep(f) != SHOAL_OK) shoal_warn("%s; it stays", shoal_error_text(SHOAL_ERR_IO));
  bool torn;
  int logged = logged_attempt(f, &torn);
  last_word before = read_last_word(f);
  f->lead = before.lead;
  f->before.step = (uint64_t)before.step;
  f->before.loss = before.loss;
  f->untold = !before.there;
  f->attempt = SHOAL_MAX(before.attempt, logged) + 1;
  char *path = shoal_path_join(f->dir, "log.txt");
  shoal_status st = shoal_open_append(path, &f->log);
  if (st == SHOAL_OK) begin_log(f, path, torn);
  if (st == SHOAL_OK) tell_of_killed(&before);
  free(path);
  return st;
}

shoal_status shoal_folder_check_writable(const shoal_folder *f)
{
  char *path = shoal_path_join(f->ckpt, "step.h5"), *probe = shoal_temporary_name(path);
  int fd = -1;
  shoal_status st = shoal_open_new(probe, path, &fd);
  if (st == SHOAL_OK) {
    close(fd);
    unlink(probe);
  }
  free(probe);
  free(path);
  return name_options(f, st);
}

/* Those of this attempt: no step is in them. */
static void remove_traces(const shoal_folder *f)
{
  char mine[32];
  int n = snprintf(mine, sizeof mine, "attempt-%04d-", f->attempt);
  DIR *d = opendir(f->trace);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (strncmp(e->d_name, mine, (size_t)n) != 0) continue;
    char *path = shoal_path_join(f->trace, e->d_name);
    unlink(path);
    free(path);
  }
  if (d) closedir(d);
}

/* The heading in the log, "=== attempt 3, TIME", of a start that never began: the next one has its number, unless status.json tells of
 * this one, which was stopped.  Its lines stay. */
static void withdraw_heading(const shoal_folder *f)
{
  static const char instead[] = "=== not begun,";
  char there[sizeof instead + 16], own[sizeof there];
  char *path = shoal_path_join(f->dir, "log.txt");
  int n = snprintf(own, sizeof own, "%s%d,", heads, f->attempt), fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  bool ours = fd >= 0 && pread(fd, there, (size_t)n, f->heading) == n && memcmp(there, own, (size_t)n) == 0;
  snprintf(own, sizeof own, "%-*s", n, instead);
  if (ours) (void)!pwrite(fd, own, (size_t)n, f->heading); /* of the same length: nothing else moves */
  if (fd >= 0) close(fd);
  free(path);
}

/* What else a start makes before it writes run.yaml; if there is anything more, the folder stays. */
static void remove_log(const shoal_folder *f)
{
  char *log = shoal_path_join(f->dir, "log.txt");
  unlink(log);
  free(log);
  rmdir(f->trace);
  rmdir(f->ckpt);
}

/* Removes the empty folders that this attempt made; one in which another run has begun stays. */
static void remove_made(const shoal_folder *f)
{
  char *path = shoal_strdup_printf("%s", f->dir), *slash;
  const size_t least = strlen(f->made);
  while (strlen(path) >= least && (rmdir(path) == 0 || errno == ENOENT || errno == ENAMETOOLONG) &&
         (slash = strrchr(path, '/')))
    *slash = '\0';
  free(path);
}

/* A folder that could be made in part only is removed again. */
shoal_status shoal_folder_take(shoal_folder *f, bool *again)
{
  shoal_status st = take(f, again);
  if (st == SHOAL_ERR_IO && f->made && !f->token) {
    rmdir(f->trace);
    rmdir(f->ckpt);
    remove_made(f);
  }
  return name_options(f, st);
}

void shoal_folder_begin(shoal_folder *f)
{
  f->begun = true;
}

void shoal_folder_release(shoal_folder *f)
{
  bool refused = f->lease && !f->begun && shoal_folder_is_ours(f), made = refused && f->made;
  shoal_log_ask_first(NULL, NULL);
  shoal_log_set_file(NULL, NULL);
  if (f->log) fclose(f->log);
  shoal_rows_close(f->metrics);
  if (refused) remove_traces(f);
  if (refused && f->log && read_last_word(f).attempt != f->attempt) withdraw_heading(f);
  if (made) remove_log(f);
  shoal_lease_destroy(f->lease);
  if (made) remove_made(f);
  free(f->made);
  free(f->dir);
  free(f->ckpt);
  free(f->trace);
  *f = (shoal_folder){ 0 };
}

shoal_status shoal_folder_open_metrics(shoal_folder *f, int64_t keep, uint64_t step, const char *more)
{
  char *path = shoal_path_join(f->dir, "metrics.csv");
  shoal_rows_close(f->metrics); /* opened before a rollback */
  f->metrics = NULL;
  shoal_status st = shoal_rows_open(path, keep, step, more, &f->metrics);
  free(path);
  return st;
}

shoal_status shoal_folder_copy_metrics(const shoal_folder *f, const char *to)
{
  char *path = shoal_path_join(f->dir, "metrics.csv"), *copy = shoal_path_join(to, "metrics.csv"), *text = NULL;
  size_t n;
  shoal_status st = SHOAL_OK;
  if (shoal_path_exists(path)) st = shoal_read_file(path, &text, &n);
  if (st == SHOAL_OK && text) st = shoal_write_file(copy, text, n);
  free(text);
  free(copy);
  free(path);
  return st;
}

shoal_status shoal_folder_set_rows_aside(const shoal_folder *f)
{
  char *path = shoal_path_join(f->dir, "metrics.csv"), *text = NULL;
  char *to = shoal_strdup_printf("%s/before-attempt-%d", f->ckpt, f->attempt),
       *copy = shoal_path_join(to, "metrics.csv");
  size_t n = 0, lines = 0;
  shoal_status st = SHOAL_OK;
  bool due = (f->lead.save_s > 0 || f->untold) && shoal_path_exists(path) &&
             !shoal_path_exists(copy); /* a branch may have copied it */
  if (due) st = shoal_read_file(path, &text, &n);
  for (size_t i = 0; st == SHOAL_OK && i < n; i++) lines += text[i] == '\n';
  if (lines > 1) {
    st = shoal_make_dir(to);
    if (st == SHOAL_OK) st = shoal_write_file(copy, text, n);
    if (st == SHOAL_OK)
      shoal_info("%s has %zu row%s of a run whose checkpoints are gone: set aside in %s", path, lines - 1,
                 lines == 2 ? "" : "s", copy);
  }
  free(text);
  free(copy);
  free(to);
  free(path);
  return st;
}

void shoal_folder_tell_beginning(const shoal_folder *f)
{
  if (f->lead.save_s > 0)
    shoal_warn("no checkpoint is left in %s, where an earlier attempt had saved: the run begins anew, at step 0",
               f->ckpt);
  else if (f->found)
    shoal_info("no checkpoint was found in %s: the run begins at step 0", f->ckpt);
}

shoal_status shoal_folder_write(const shoal_folder *f, const char *name, const char *text)
{
  SHOAL_TRY(shoal_folder_check(f));
  char *path = shoal_path_join(f->dir, name);
  shoal_activity_begin(false, "writing %s", path);
  shoal_status st = shoal_write_file(path, text, strlen(text));
  shoal_activity_end();
  free(path);
  return st;
}

void shoal_folder_progress(shoal_folder *f, uint64_t step, uint64_t epoch)
{
  atomic_store_explicit(&f->step, step, memory_order_relaxed);
  atomic_store_explicit(&f->epoch, epoch, memory_order_relaxed);
}

void shoal_folder_tell(shoal_folder *f, const shoal_folder_figures *figures)
{
  pthread_mutex_lock(&status_lock);
  f->figures = *figures;
  pthread_mutex_unlock(&status_lock);
}

void shoal_folder_measure(shoal_folder *f, double step_s, double save_s)
{
  pthread_mutex_lock(&status_lock);
  if (step_s > 0) f->lead.step_s = step_s;
  if (save_s > 0) f->lead.save_s = save_s;
  pthread_mutex_unlock(&status_lock);
}

void shoal_folder_hear(shoal_folder *f)
{
  atomic_store_explicit(&f->asked, true, memory_order_relaxed);
}

shoal_status shoal_folder_status(shoal_folder *f, const char *state, int exit_code, const char *reason, uint64_t step,
                                 uint64_t epoch)
{
  bool runs = strcmp(state, running) == 0;
  if (runs && atomic_load(&f->asked)) {
    state = stopping;
    reason = asked_by_signal;
  }
  shoal_folder_progress(f, step, epoch);
  pthread_mutex_lock(&status_lock);
  atomic_store(&f->running, runs);
  pthread_mutex_unlock(&status_lock);
  return write_status(f, state, exit_code, reason, false);
}

/* Whether the folder of the file `path`, or what lies `above` it ("..") is the run's checkpoint folder. */
static bool lies_in(const shoal_folder *f, const char *path, const char *above)
{
  char *dir = shoal_strdup_printf("%.*s./%s", (int)(shoal_path_base(path) - path), path, above);
  struct stat own, other;
  bool same =
      stat(f->ckpt, &own) == 0 && stat(dir, &other) == 0 && own.st_dev == other.st_dev && own.st_ino == other.st_ino;
  free(dir);
  return same;
}

bool shoal_folder_owns(const shoal_folder *f, const char *path)
{
  return lies_in(f, path, "");
}

bool shoal_folder_holds(const shoal_folder *f, const char *path)
{
  return lies_in(f, path, "") || lies_in(f, path, "..");
}

char *shoal_folder_begin_anew(const shoal_folder *f)
{
  char *to = NULL, from_word[SHOAL_WORD], to_word[SHOAL_WORD];
  int number = 1;
  do {
    free(to);
    to = shoal_strdup_printf("%s-%d", f->dir, number++);
  } while (shoal_path_exists(to));
  char *text = shoal_strdup_printf("give --set run.name=NAME, or first move the whole folder: mv %s %s",
                                   shoal_shell_word(f->dir, from_word), shoal_shell_word(to, to_word));
  free(to);
  return text;
}

bool shoal_folder_has_checkpoints(const shoal_folder *f)
{
  shoal_ckpt_folder c = { 0 };
  shoal_error before;
  shoal_error_take(&before);
  bool found = shoal_ckpt_folder_scan(f->ckpt, &c) == SHOAL_OK && c.n > 0;
  (void)shoal_error_put(&before);
  shoal_ckpt_folder_free(&c);
  return found;
}
