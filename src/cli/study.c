/* See study.h.  A run file of the study is a resolved one: complete, so that it means the same tomorrow. */
#include "cli/study.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/run_file.h"
#include "report/metrics.h"
#include "train/options.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- run files ---- */

/* Strong scaling divides one batch among the ranks, weak scaling gives each rank one, which has a default. */
static shoal_status check_batch(const shoal_study_request *q, const shoal_config *c)
{
  const char *wanted = q->weak ? "data.batch" : "data.global_batch",
             *other = q->weak ? "data.global_batch" : "data.batch";
  SHOAL_CHECK((q->weak || shoal_config_given(c, wanted)) && !shoal_config_given(c, other), SHOAL_ERR_USAGE,
              "%s: %s scaling needs %s, the batch of %s: give it by --set %s=N%s", q->run_file,
              q->weak ? "weak" : "strong", wanted, q->weak ? "a rank" : "all ranks", wanted,
              q->weak ? ", or leave out --weak" : ", or add --weak");
  return SHOAL_OK;
}

/* The options of one run.  `study`: the folder; NULL: not known yet. */
static shoal_status configure(const shoal_study_request *q, const shoal_study_run *r, const char *study,
                              shoal_config **out)
{
  shoal_texts sets = { 0 };
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; i < q->n_sets && st == SHOAL_OK; i++) st = shoal_texts_add(&sets, q->sets[i]);
  if (study) {
    if (st == SHOAL_OK) st = shoal_texts_take(&sets, shoal_strdup_printf("run.dir=%s", study));
    if (st == SHOAL_OK) st = shoal_texts_take(&sets, shoal_strdup_printf("run.name=%s-%d", r->method, r->ranks));
    if (st == SHOAL_OK && q->threads) st = shoal_texts_take(&sets, shoal_strdup_printf("threads=%d", q->threads));
  }
  if (st == SHOAL_OK)
    st = shoal_run_configure_as(r ? r->method : NULL, q->run_file, (const char *const *)sets.at, sets.n, out);
  shoal_texts_free(&sets);
  return st;
}

/* The run file of a run, which must be a valid one. */
static shoal_status resolve(const shoal_study_request *q, const shoal_study_run *r, const char *study, shoal_str *text)
{
  shoal_config *c;
  SHOAL_TRY(configure(q, r, study, &c));
  shoal_status st = check_batch(q, c);
  shoal_str_add(text, "# %s scaling of %s: %s on %d rank%s\n", q->weak ? "Weak" : "Strong", q->run_file, r->method,
                r->ranks, r->ranks == 1 ? "" : "s");
  shoal_config_print(c, text);
  shoal_config_destroy(c);
  return st;
}

static shoal_status check_runs(const shoal_study_request *q, const shoal_study *s)
{
  for (size_t i = 0; i < s->n; i++) {
    shoal_str text = { 0 };
    shoal_status st = resolve(q, &s->runs[i], s->dir, &text);
    if (st == SHOAL_OK) st = shoal_check_run_file(s->runs[i].file, &text, q->run_file, s->dir);
    shoal_str_free(&text);
    SHOAL_TRY(st);
  }
  return SHOAL_OK;
}

static shoal_status list_runs(const shoal_study_request *q, const char *own_method, shoal_study *s)
{
  size_t methods = SHOAL_MAX(q->methods.n, (size_t)1);
  SHOAL_TRY(SHOAL_ALLOC(methods * q->n_ranks, &s->runs));
  for (size_t m = 0; m < methods; m++) {
    for (size_t k = 0; k < q->n_ranks; k++) {
      shoal_study_run *r = &s->runs[s->n++];
      r->method = q->methods.n ? q->methods.at[m] : own_method;
      r->ranks = q->ranks[k];
      r->nodes = q->per_node ? SHOAL_MAX(r->ranks / q->per_node, 1) : 0;
      r->dir = shoal_strdup_printf("%s/%s-%d", s->dir, r->method, r->ranks);
      r->file = shoal_strdup_printf("%s.yaml", r->dir);
    }
  }
  return SHOAL_OK;
}

/* The study's folder beside those of other runs, and the method that the run file names. */
static shoal_status read_request(const shoal_study_request *q, char **dir, const char **method)
{
  shoal_config *c;
  SHOAL_TRY(configure(q, NULL, NULL, &c));
  *dir = shoal_strdup_printf("%s/%s-scale", shoal_config_string(c, "run.dir"), shoal_config_string(c, "run.name"));
  const shoal_method *m = shoal_method_find(shoal_config_string(c, "method.name"));
  *method = m ? m->name : "";
  shoal_config_destroy(c);
  return SHOAL_OK;
}

shoal_status shoal_study_open(const shoal_study_request *q, shoal_study *out)
{
  const char *method;
  *out = (shoal_study){ .weak = q->weak };
  SHOAL_TRY(read_request(q, &out->dir, &method));
  SHOAL_TRY(list_runs(q, method, out));
  SHOAL_TRY(check_runs(q, out));
  for (size_t i = 0; i < out->n; i++) shoal_study_look(&out->runs[i]);
  return SHOAL_OK;
}

shoal_status shoal_study_write(const shoal_study_request *q, const shoal_study *s, int ranks, shoal_texts *made)
{
  SHOAL_TRY(shoal_made_dirs(s->dir, made));
  for (size_t i = 0; i < s->n; i++) {
    shoal_str text = { 0 };
    if (ranks && s->runs[i].ranks != ranks) continue;
    shoal_status st = resolve(q, &s->runs[i], s->dir, &text);
    if (st == SHOAL_OK && !shoal_path_exists(s->runs[i].file)) st = shoal_made_file(s->runs[i].file, &text, made);
    shoal_str_free(&text);
    SHOAL_TRY(st);
  }
  return SHOAL_OK;
}

void shoal_study_close(shoal_study *s)
{
  for (size_t i = 0; i < s->n; i++) {
    free(s->runs[i].dir);
    free(s->runs[i].file);
  }
  free(s->runs);
  free(s->dir);
  *s = (shoal_study){ 0 };
}

/* ---- what came of them ---- */

static shoal_run_state state_of(const char *dir)
{
  char *path = shoal_path_join(dir, "status.json");
  json_t *j = NULL;
  shoal_run_state state = SHOAL_RUN_NEW;
  if (shoal_path_exists(path)) {
    const char *text =
        shoal_json_read_file(path, &j) == SHOAL_OK ? json_string_value(json_object_get(j, "state")) : NULL;
    state = text && strcmp(text, "done") == 0 ? SHOAL_RUN_DONE : SHOAL_RUN_BEGUN;
  }
  json_decref(j);
  free(path);
  return state;
}

/* Ranks and nodes of the last start; 0: not known. */
static void read_placement(const char *dir, int *ranks, int *nodes)
{
  char *path = shoal_path_join(dir, "placement.json");
  json_t *j = NULL;
  bool read = shoal_path_exists(path) && shoal_json_read_file(path, &j) == SHOAL_OK;
  *ranks = read ? shoal_json_int_of(j, "size") : 0;
  *nodes = read ? shoal_json_int_of(j, "nodes") : 0;
  json_decref(j);
  free(path);
}

/* Of rows: the epochs that they are of, and the seconds that these took. */
static void take_rows(const shoal_metrics *m, shoal_study_run *r)
{
  double begun = 0, epochs = 0, seconds = 0, waiting = 0;
  for (size_t i = 0; i < m->n; i++) {
    const shoal_metrics_row *w = &m->rows[i];
    if (isfinite(w->test_acc)) r->test_acc = w->test_acc;
    if (isfinite(w->time_s)) r->time_s = w->time_s;
    if (!isfinite(w->epoch)) continue;
    if (w->samples_per_s > 0 && w->epoch > begun) {
      double took = (w->epoch - begun) / w->samples_per_s;
      epochs += w->epoch - begun;
      seconds += took;
      if (isfinite(w->wait_share)) waiting += w->wait_share * took;
    }
    begun = w->epoch;
  }
  if (seconds > 0) r->speed = epochs / seconds, r->wait_share = waiting / seconds;
}

void shoal_study_look(shoal_study_run *r)
{
  shoal_metrics m = { .n = 0 };
  r->state = state_of(r->dir);
  r->speed = r->wait_share = r->test_acc = r->time_s = NAN;
  int ranks = 0, nodes = 0;
  if (r->state == SHOAL_RUN_DONE) read_placement(r->dir, &ranks, &nodes);
  r->other_ranks = ranks != r->ranks ? ranks : 0;
  r->other_nodes = r->nodes && nodes != r->nodes ? nodes : 0;
  if (r->state == SHOAL_RUN_DONE && !r->other_ranks && !r->other_nodes && shoal_metrics_read(r->dir, &m) == SHOAL_OK)
    take_rows(&m, r);
  shoal_metrics_free(&m);
}

/* The run of this method with the fewest ranks. */
static const shoal_study_run *base_of(const shoal_study *s, const shoal_study_run *r)
{
  const shoal_study_run *base = NULL;
  for (size_t i = 0; i < s->n && !base; i++)
    if (strcmp(s->runs[i].method, r->method) == 0 && isfinite(s->runs[i].speed)) base = &s->runs[i];
  return base;
}

static void print_run(const shoal_study *s, const shoal_study_run *r, shoal_str *out)
{
  const shoal_study_run *base = base_of(s, r);
  char time[32];
  char word[SHOAL_WORD];
  shoal_str_add(out, "%-12s %5d ", r->method, r->ranks);
  if (r->other_ranks || r->other_nodes) {
    int n = r->other_ranks ? r->other_ranks : r->other_nodes;
    shoal_str_add(out, "  done %s %d %s%s, which is no row of this: rm -r %s, then the same command\n",
                  r->other_ranks ? "with" : "on", n, r->other_ranks ? "rank" : "node", n == 1 ? "" : "s",
                  shoal_shell_word(r->dir, word));
    return;
  }
  if (r->state != SHOAL_RUN_DONE || !isfinite(r->speed) || !base) {
    shoal_str_add(out, "  %s\n", r->state == SHOAL_RUN_DONE ? "no speed in metrics.csv" : "not done");
    return;
  }
  double gain = r->speed / base->speed;
  shoal_str_add(out, "%10.0f %8.2f %9.1f %% %12.1f %%", r->speed, gain, 100 * gain * base->ranks / r->ranks,
                100 * r->wait_share);
  if (isfinite(r->test_acc))
    shoal_str_add(out, " %8.2f %%", 100 * r->test_acc);
  else
    shoal_str_add(out, " %10s", "-");
  shoal_str_add(out, "  %s\n", shoal_format_seconds(r->time_s, time, sizeof time));
}

void shoal_study_print(const shoal_study *s, shoal_str *out)
{
  shoal_str_add(out, "%-12s %5s %10s %8s %11s %14s %10s  %s\n", "method", "ranks", "samples/s", "speed-up",
                "efficiency", "rank 0 waiting", "accuracy", "time");
  for (size_t i = 0; i < s->n; i++) print_run(s, &s->runs[i], out);
}
