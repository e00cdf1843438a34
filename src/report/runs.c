/* See runs.h. */
#include "report/runs.h"
#include "base/cgroup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DEEPEST = 4, SILENT_S = 120 }; /* SILENT: as long as a lease lives without being touched */

/* The process, if it is one of this kernel; 0: it is not. */
static long pid_here(const json_t *process)
{
  const char *boot = json_string_value(json_object_get(process, "boot")),
             *pids = json_string_value(json_object_get(process, "pids"));
  json_int_t pid = json_integer_value(json_object_get(process, "pid"));
  return boot && pids && pid > 0 && shoal_kernel_is_here(boot, pids) ? (long)pid : 0;
}

static bool lives(const json_t *process, long pid, shoal_process *now)
{
  return shoal_process_lives(pid, now) &&
         (json_int_t)now->started == json_integer_value(json_object_get(process, "started"));
}

bool shoal_run_process_gone(const json_t *process)
{
  shoal_process now;
  long pid = pid_here(process);
  return pid && !lives(process, pid, &now);
}

static long stopped_process(const json_t *process)
{
  shoal_process now;
  long pid = pid_here(process);
  return pid && lives(process, pid, &now) && now.stopped ? pid : 0;
}

static json_t *read_json(const char *dir, const char *name)
{
  char *path = shoal_path_join(dir, name);
  json_t *j = NULL;
  shoal_error before;
  shoal_error_take(&before);
  if (shoal_json_read_file(path, &j) != SHOAL_OK) j = NULL;
  (void)shoal_error_put(&before);
  free(path);
  return j;
}

/* ---- one run ---- */

static double age_of(const char *dir, const char *name)
{
  char *path = shoal_path_join(dir, name);
  struct stat s;
  double age =
      stat(path, &s) == 0 ? SHOAL_MAX(difftime(time(NULL), s.st_mtime), 0.0) : NAN; /* clocks of hosts differ */
  free(path);
  return age;
}

static shoal_life life_of(const char *state)
{
  static const char *const words[] = { [SHOAL_LIFE_RUNNING] = "running",
                                       [SHOAL_LIFE_STOPPING] = "stopping",
                                       [SHOAL_LIFE_STOPPED] = "stopped",
                                       [SHOAL_LIFE_DONE] = "done" };
  for (size_t i = SHOAL_LIFE_RUNNING; state && i < SHOAL_COUNT(words); i++)
    if (strcmp(state, words[i]) == 0) return (shoal_life)i;
  return SHOAL_LIFE_FAILED;
}

static shoal_status take_status(const json_t *j, shoal_run_facts *r)
{
  const json_t *p = json_object_get(j, "progress");
  const char *reason = json_string_value(json_object_get(j, "reason")),
             *job = json_string_value(json_object_get(j, "job"));
  r->life = life_of(json_string_value(json_object_get(j, "state")));
  r->exit_code = shoal_json_int_of(j, "exit_code");
  r->attempt = shoal_json_int_of(j, "attempt");
  r->step = shoal_json_real_of(j, "step");
  r->epoch = shoal_json_real_of(j, "epoch");
  r->done = shoal_json_real_of(p, "done");
  r->loss = shoal_json_real_of(p, "loss");
  r->test_acc = shoal_json_real_of(p, "test_acc");
  r->age_s = age_of(r->dir, "status.json");
  const json_t *process = json_object_get(j, "process");
  bool gone = shoal_run_process_gone(process);
  r->cut = r->life == SHOAL_LIFE_STOPPED && json_is_false(json_object_get(j, "ended")) && (gone || r->age_s > SILENT_S);
  free(r->reason);
  r->reason = shoal_strdup_printf("%s%s", reason ? reason : "", r->cut ? "; then it was killed before it ended" : "");
  if (r->life == SHOAL_LIFE_RUNNING || r->life == SHOAL_LIFE_STOPPING) {
    r->stopped = stopped_process(process);
    r->silent = !gone && r->age_s > SILENT_S;
    if (gone || r->silent) r->life = SHOAL_LIFE_DEAD;
  }
  if (r->life == SHOAL_LIFE_DEAD || r->life == SHOAL_LIFE_FAILED) shoal_memory_kills_since(process, r->memory);
  return job && *job ? shoal_texts_add(&r->jobs, job) : SHOAL_OK;
}

/* Of the folder that was asked about, also where that was ".", or ended in a slash. */
static char *own_name(const char *dir)
{
  char *whole = realpath(dir, NULL), *name = shoal_strdup_printf("%s", whole ? shoal_path_base(whole) : dir);
  free(whole);
  return name;
}

/* A new one, whose name is what comes behind the folder that was asked about. */
static shoal_status add_run(shoal_runs *runs, const char *dir, const char *name, shoal_run_facts **out)
{
  if (runs->n == runs->cap) {
    size_t cap = SHOAL_MAX(2 * runs->cap, (size_t)32);
    shoal_run_facts *at = realloc(runs->at, cap * sizeof *at);
    SHOAL_CHECK(at, SHOAL_ERR_MEM, "out of memory for the runs in %s", dir);
    runs->at = at;
    runs->cap = cap;
  }
  *out = &runs->at[runs->n++];
  **out = (shoal_run_facts){ .dir = shoal_strdup_printf("%s", dir),
                             .name = *name ? shoal_strdup_printf("%s", name) : own_name(dir),
                             .reason = shoal_strdup_printf("%s", ""),
                             .step = NAN,
                             .epoch = NAN,
                             .done = NAN,
                             .loss = NAN,
                             .test_acc = NAN,
                             .age_s = NAN };
  return SHOAL_OK;
}

/* ---- jobs ---- */

/* The numbers in a record, "12" or, of an array's element, "12_3", and what it says of these jobs. */
static shoal_status take_jobs(const json_t *record, int index, shoal_run_facts *r)
{
  const json_t *jobs = json_object_get(record, "jobs");
  for (size_t i = 0; i < json_array_size(jobs); i++) {
    const char *id = json_string_value(json_array_get(jobs, i));
    if (!id) continue;
    char *whole = index ? shoal_strdup_printf("%s_%d", id, index) : shoal_strdup_printf("%s", id);
    bool known = shoal_texts_have(&r->jobs, whole);
    if (known) free(whole);
    if (!known) SHOAL_TRY(shoal_texts_take(&r->jobs, whole));
  }
  const char *log = json_string_value(json_object_get(record, "log"));
  const char *resume = json_string_value(json_object_get(record, "resume"));
  free(r->log);
  r->log = log ? shoal_strdup_printf("%s", log) : NULL;
  free(r->resume);
  r->resume = resume ? shoal_strdup_printf("%s", resume) : NULL;
  r->to_epoch = shoal_json_int_of(record, "epochs");
  r->to_step = shoal_json_int_of(record, "steps");
  r->study_ranks = shoal_json_int_of(record, "study_ranks");
  return SHOAL_OK;
}

bool shoal_run_finished(const shoal_run_facts *r, double epochs, double steps)
{
  return r->life == SHOAL_LIFE_DONE && (r->epoch >= epochs || (steps > 0 && r->step >= steps));
}

static int by_name(const void *a, const void *b)
{
  const shoal_run_facts *x = a, *y = b;
  return strcmp(x->name, y->name);
}

/* The run `name` in the folder `dir`: one of the `n` sorted ones after item `from`, or a new one. */
static shoal_status find_run(shoal_runs *runs, size_t from, size_t n, const char *dir, const char *prefix,
                             const char *name, shoal_run_facts **out)
{
  char *whole = shoal_strdup_printf("%s%s%s", prefix, *prefix ? "/" : "", name);
  shoal_run_facts wanted = { .name = whole };
  shoal_status st = SHOAL_OK;
  *out = n ? bsearch(&wanted, runs->at + from, n, sizeof wanted, by_name) : NULL;
  if (!*out) {
    char *path = shoal_path_join(dir, name);
    st = add_run(runs, path, whole, out);
    free(path);
  }
  free(whole);
  return st;
}

/* What `shoal submit` has said of an array in this folder, whose runs that have begun are those after item `from`. */
static shoal_status take_array(shoal_runs *runs, size_t from, const char *dir, const char *prefix, const json_t *record)
{
  const json_t *elements = json_object_get(record, "elements");
  size_t known = runs->n - from;
  if (known) qsort(runs->at + from, known, sizeof *runs->at, by_name);
  for (size_t i = 0; i < json_array_size(elements); i++) {
    const json_t *e = json_array_get(elements, i);
    const char *name = json_string_value(json_object_get(e, "run"));
    shoal_run_facts *r;
    if (!name || strchr(name, '/')) continue;
    SHOAL_TRY(find_run(runs, from, known, dir, prefix, name, &r));
    SHOAL_TRY(take_jobs(record, shoal_json_int_of(e, "index"), r));
  }
  return SHOAL_OK;
}

static bool is_record(const char *name)
{
  size_t n = strlen(name);
  return strncmp(name, "job", 3) == 0 && n > 5 && strcmp(name + n - 5, ".json") == 0;
}

/* ---- folders ---- */

static shoal_status visit(shoal_runs *runs, const char *dir, const char *prefix, int depth);

static shoal_status visit_below(shoal_runs *runs, const char *dir, const char *prefix, const struct dirent *e,
                                int depth)
{
  if (e->d_name[0] == '.' || (e->d_type != DT_DIR && e->d_type != DT_LNK && e->d_type != DT_UNKNOWN)) return SHOAL_OK;
  char *path = shoal_path_join(dir, e->d_name),
       *below = shoal_strdup_printf("%s%s%s", prefix, *prefix ? "/" : "", e->d_name);
  shoal_status st = visit(runs, path, below, depth + 1);
  free(path);
  free(below);
  return st;
}

/* A folder that is no run which has begun: others lie in it, or jobs wait for it. */
static shoal_status visit_others(shoal_runs *runs, const char *dir, const char *prefix, int depth)
{
  struct dirent **found = NULL;
  shoal_status st = SHOAL_OK;
  size_t from = runs->n;
  int n = scandir(dir, &found, NULL, alphasort);
  for (int i = 0; i < n; i++)
    if (st == SHOAL_OK && depth < DEEPEST) st = visit_below(runs, dir, prefix, found[i], depth);
  for (int i = 0; i < n; i++) {
    json_t *record = st == SHOAL_OK && is_record(found[i]->d_name) ? read_json(dir, found[i]->d_name) : NULL;
    shoal_run_facts *r;
    if (record && json_object_get(record, "elements")) {
      st = take_array(runs, from, dir, prefix, record);
    } else if (record) {
      st = add_run(runs, dir, prefix, &r);
      if (st == SHOAL_OK) st = take_jobs(record, 0, r);
    }
    json_decref(record);
    free(found[i]);
  }
  free(found);
  return st;
}

/* True, with a warning: this user may not read what is there. */
static bool is_closed(const char *dir)
{
  char *file = shoal_path_join(dir, "status.json");
  const bool closed = (access(file, R_OK) != 0 && errno == EACCES) || (access(dir, R_OK) != 0 && errno == EACCES);
  char *denied = closed ? shoal_why_denied(file) : NULL;
  if (closed) shoal_warn("cannot look into %s: %s%s; it is not shown", dir, strerror(EACCES), denied);
  free(denied);
  free(file);
  return closed;
}

static shoal_status visit(shoal_runs *runs, const char *dir, const char *prefix, int depth)
{
  if (is_closed(dir)) return SHOAL_OK;
  json_t *status = read_json(dir, "status.json"), *record = status ? read_json(dir, "job.json") : NULL;
  shoal_run_facts *r;
  if (!status) return visit_others(runs, dir, prefix, depth);
  shoal_status st = add_run(runs, dir, prefix, &r);
  if (st == SHOAL_OK) st = take_status(status, r);
  if (st == SHOAL_OK && record) st = take_jobs(record, 0, r);
  json_decref(status);
  json_decref(record);
  return st;
}

/* One of several folders, whose name, without a slash at its end, those of its runs begin with. */
static shoal_status visit_named(shoal_runs *runs, const char *folder)
{
  size_t n = strlen(folder);
  while (n > 1 && folder[n - 1] == '/') n--;
  char *name = shoal_strdup_printf("%.*s", (int)n, folder);
  shoal_status st = visit(runs, name, name, 0);
  free(name);
  return st;
}

shoal_status shoal_runs_find(const char *const *folders, size_t n, shoal_runs *out)
{
  struct stat s;
  *out = (shoal_runs){ .n = 0 };
  for (size_t i = 0; i < n; i++)
    SHOAL_CHECK(stat(folders[i], &s) == 0 && S_ISDIR(s.st_mode), SHOAL_ERR_USAGE,
                "there is no folder %s: give one that holds runs, or the folder of a run", folders[i]);
  for (size_t i = 0; i < n; i++) SHOAL_TRY(n > 1 ? visit_named(out, folders[i]) : visit(out, folders[i], "", 0));
  if (out->n) qsort(out->at, out->n, sizeof *out->at, by_name);
  return SHOAL_OK;
}

void shoal_runs_free(shoal_runs *r)
{
  for (size_t i = 0; i < r->n; i++) {
    free(r->at[i].dir);
    free(r->at[i].name);
    free(r->at[i].reason);
    free(r->at[i].log);
    free(r->at[i].resume);
    shoal_texts_free(&r->at[i].jobs);
  }
  free(r->at);
  *r = (shoal_runs){ .n = 0 };
}
