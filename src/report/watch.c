/* See watch.h.  The run writes its small files by renaming, so each is read whole; of the traces a flush may be under way, and
 * what cannot be read this time is read the next. */
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/folder.h"
#include "report/metrics.h"
#include "report/runs.h"
#include "report/watch_impl.h"
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { PACE_S = 5, MOST_POINTS = 1 << 20 };

/* ---- curves ---- */

static void add_point(shoal_watch_curve *c, double step, double value)
{
  if (c->n == c->cap && c->cap < MOST_POINTS) {
    size_t cap = SHOAL_MAX(2 * c->cap, (size_t)64);
    double *steps = realloc(c->step, cap * sizeof *steps);
    if (steps) c->step = steps;
    double *values = steps ? realloc(c->value, cap * sizeof *values) : NULL;
    if (values) c->value = values, c->cap = cap;
  }
  if (c->n == c->cap) return; /* a curve that ends early is better than none */
  c->step[c->n] = step;
  c->value[c->n++] = value;
}

static void free_curve(shoal_watch_curve *c)
{
  free(c->step);
  free(c->value);
  *c = (shoal_watch_curve){ 0 };
}

/* ---- status.json ---- */

static void text_of(const json_t *object, const char *key, char *buf, size_t cap)
{
  const char *text = json_string_value(json_object_get(object, key));
  shoal_show(text ? text : "", buf, cap);
}

static void take_status(shoal_watch *w, const json_t *j)
{
  const json_t *p = json_object_get(j, "progress");
  double step = shoal_json_real_of(j, "step");
  bool goes_on = w->attempt == shoal_json_int_of(j, "attempt") && step > (double)w->step;
  text_of(j, "state", w->state, sizeof w->state);
  text_of(j, "reason", w->reason, sizeof w->reason);
  text_of(p, "model", w->model, sizeof w->model);
  text_of(p, "method", w->method, sizeof w->method);
  w->exit_code = shoal_json_int_of(j, "exit_code");
  w->rank = shoal_json_int_of(j, "rank");
  w->attempt = shoal_json_int_of(j, "attempt");
  w->ranks = shoal_json_int_of(p, "ranks");
  w->nodes = shoal_json_int_of(p, "nodes");
  w->step = step >= 0 && step < 1e18 ? (uint64_t)step : 0;
  w->epoch = shoal_json_real_of(j, "epoch");
  w->epochs = shoal_json_real_of(p, "epochs");
  w->done = shoal_json_real_of(p, "done");
  w->loss = shoal_json_real_of(p, "loss");
  w->lr = shoal_json_real_of(p, "lr");
  w->test_loss = shoal_json_real_of(p, "test_loss");
  w->test_acc = shoal_json_real_of(p, "test_acc");
  w->test_rmse = shoal_json_real_of(p, "test_rmse");
  w->test_r2 = shoal_json_real_of(p, "test_r2");
  w->samples_per_s = shoal_json_real_of(p, "samples_per_s");
  w->waiting = shoal_json_real_of(p, "waiting");
  w->left_s = shoal_json_real_of(p, "left_s");
  w->gone = shoal_run_process_gone(json_object_get(j, "process"));
  w->saved = shoal_ckpt_newest(w->dir) >= 0;
  shoal_memory_kills_since(json_object_get(j, "process"), w->memory);
  if (goes_on) add_point(&w->live, step, w->loss);
}

static shoal_status read_status(shoal_watch *w)
{
  char *path = shoal_path_join(w->dir, "status.json");
  json_t *j = NULL;
  struct stat s;
  shoal_status st = shoal_json_read_file(path, &j);
  if (st == SHOAL_OK) take_status(w, j);
  json_decref(j);
  if (stat(path, &s) == 0) w->age_s = SHOAL_MAX(difftime(time(NULL), s.st_mtime), 0.0); /* clocks of hosts differ */
  free(path);
  return st;
}

/* ---- metrics.csv ---- */

static void take_row(shoal_watch *w, const shoal_metrics_row *row)
{
  if (isfinite(row->train_loss)) add_point(&w->train, row->step, row->train_loss);
  if (isfinite(row->test_loss)) add_point(&w->test, row->step, row->test_loss);
  if (!isfinite(row->test_acc) || row->test_acc <= w->best_acc) return;
  w->best_acc = row->test_acc;
  w->best_step = row->step;
}

static void read_metrics(shoal_watch *w)
{
  shoal_metrics m;
  if (shoal_metrics_read(w->dir, &m) == SHOAL_OK && m.n > 0) {
    w->train.n = w->test.n = 0;
    w->best_acc = w->best_step = NAN;
    for (size_t i = 0; i < m.n; i++) take_row(w, &m.rows[i]);
  }
  shoal_metrics_free(&m);
}

/* ---- the traces ---- */

static void read_paces(shoal_watch *w)
{
  shoal_trace_pace *paces = NULL;
  size_t n = 0;
  if (w->paces_read_ns && shoal_seconds_since(w->paces_read_ns) < PACE_S) return;
  w->paces_read_ns = shoal_now_ns();
  shoal_log_level before = shoal_log_get_level();
  shoal_log_set_level(SHOAL_LOG_ERROR); /* the run writes these files, as is known */
  if (shoal_trace_read_pace(w->dir, &paces, &n) == SHOAL_OK && n > 0) {
    free(w->paces);
    w->paces = paces;
    w->n_paces = n;
  }
  shoal_log_set_level(before);
}

/* ---- */

/* "; it holds the runs a, b" */
static void add_runs(const char *dir, shoal_str *out)
{
  enum { SHOWN = 5 };
  struct dirent **found = NULL;
  int n = scandir(dir, &found, NULL, alphasort), runs = 0;
  for (int i = 0; i < n; i++) {
    char *path = shoal_strdup_printf("%s/%s/status.json", dir, found[i]->d_name), shown[80];
    if (found[i]->d_name[0] != '.' && shoal_path_exists(path) && ++runs <= SHOWN)
      shoal_str_add(out, "%s%s", runs == 1 ? "; it holds " : ", ", shoal_show(found[i]->d_name, shown, sizeof shown));
    free(path);
    free(found[i]);
  }
  if (runs > SHOWN) shoal_str_add(out, " and %d more", runs - SHOWN);
  free(found);
}

shoal_status shoal_watch_open(const char *dir, shoal_watch **out)
{
  struct stat s;
  char *path = shoal_path_join(dir, "status.json");
  shoal_str runs = { 0 };
  shoal_status st = SHOAL_OK;
  char link[SHOAL_DANGLING];
  SHOAL_TRY_GOTO(st, shoal_path_look(dir), end);
  SHOAL_CHECK_GOTO(st, stat(dir, &s) == 0, end, SHOAL_ERR_USAGE,
                   "there is no folder %s%s: give that of a run, runs/NAME", dir, shoal_dangling(dir, link));
  SHOAL_CHECK_GOTO(st, S_ISDIR(s.st_mode), end, SHOAL_ERR_USAGE,
                   "%s is no folder: give that of a run, runs/NAME, which holds status.json", dir);
  SHOAL_TRY_GOTO(st, shoal_path_look(path), end);
  if (!shoal_path_exists(path)) add_runs(dir, &runs);
  SHOAL_CHECK_GOTO(st, shoal_path_exists(path), end, SHOAL_ERR_USAGE,
                   "%s has no status.json, which a run writes when it begins: give the folder of a run, runs/NAME%s",
                   dir, runs.text ? runs.text : "");
  shoal_watch *w = calloc(1, sizeof *w);
  SHOAL_CHECK_GOTO(st, w, end, SHOAL_ERR_MEM, "what is known of %s", dir);
  w->dir = shoal_strdup_printf("%s", dir);
  w->best_acc = w->best_step = NAN;
  *out = w;
end:
  shoal_str_free(&runs);
  free(path);
  return st;
}

void shoal_watch_close(shoal_watch *w)
{
  if (!w) return;
  free_curve(&w->train);
  free_curve(&w->test);
  free_curve(&w->live);
  free(w->paces);
  free(w->dir);
  free(w);
}

shoal_status shoal_watch_refresh(shoal_watch *w)
{
  shoal_status st = read_status(w);
  if (st != SHOAL_OK && !w->state[0]) return st;
  read_metrics(w);
  read_paces(w);
  return SHOAL_OK;
}

bool shoal_watch_is_over(const shoal_watch *w)
{
  return strcmp(w->state, "done") == 0 || strcmp(w->state, "failed") == 0;
}
