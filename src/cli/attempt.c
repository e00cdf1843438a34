/* See attempt.h.  The folder's files may say anything: they are read as JSON, and only numbers and words of them are used. */
#include "cli/attempt.h"
#include "base/cgroup.h"
#include "base/env.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "ckpt/folder.h"
#include "cli/job_flags.h"
#include "slurm/job.h"
#include "slurm/launcher.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 3, STOPPED = 75 };      /* requeues in a row without a trained step */
enum { BY_SRUN = 1, BY_SIGNAL = 128 }; /* exit codes that are not of a rank that refuses (docs/exit-codes.md) */

/* A line of the job's log. */
__attribute__((format(printf, 2, 3))) static void say(const shoal_attempt *b, const char *format, ...)
{
  char text[2048], shown[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  printf("job %s, start %d: %s\n", b->job, b->restarts + 1, shoal_show(text, shown, sizeof shown));
  fflush(stdout);
}

/* ---- files ---- */

/* A small file of the folder as text; NULL if there is none that can be read. */
static char *text_of(const char *dir, const char *name)
{
  enum { MOST_BYTES = 1 << 20 };
  char *path = shoal_path_join(dir, name), *text = NULL;
  size_t n = 0;
  shoal_error before;
  shoal_error_take(&before);
  if (shoal_path_exists(path) && shoal_read_file(path, &text, &n) != SHOAL_OK) text = NULL;
  (void)shoal_error_put(&before);
  free(path);
  if (text && (n > MOST_BYTES || strlen(text) != n)) {
    free(text);
    text = NULL;
  }
  return text;
}

static json_t *parse(const char *text)
{
  json_t *j = NULL;
  shoal_error before;
  shoal_error_take(&before);
  if (text && shoal_json_read(text, "a file of the run", &j) != SHOAL_OK) j = NULL;
  (void)shoal_error_put(&before);
  return j;
}

/* A whole number that is not negative, or `otherwise`. */
static long long number_of(const json_t *object, const char *key, long long otherwise)
{
  const json_t *value = json_object_get(object, key);
  long long n = json_is_integer(value) ? json_integer_value(value) : -1;
  return n >= 0 ? n : otherwise;
}

static const char *word_of(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

void shoal_last_word_begin(const char *dir, shoal_last_word *out)
{
  *out = (shoal_last_word){ dir, text_of(dir, "status.json") };
}

/* status.json if it was written since then, else NULL; json_decref. */
static json_t *words_since(const shoal_last_word *w)
{
  char *now = text_of(w->dir, "status.json");
  json_t *status = now && w->before && strcmp(now, w->before) == 0 ? NULL : parse(now);
  free(now);
  return status;
}

const char *shoal_last_word_state(const shoal_last_word *w, char state[SHOAL_LAST_WORD_STATE])
{
  json_t *status = words_since(w);
  snprintf(state, SHOAL_LAST_WORD_STATE, "%s", word_of(status, "state"));
  json_decref(status);
  return state;
}

const char *shoal_last_word_gone(const shoal_last_word *w, char rank[SHOAL_LAST_WORD_RANK])
{
  json_t *status = words_since(w);
  const char *reason = word_of(status, "reason"), *end = strstr(reason, " is gone");
  bool named = end && strncmp(reason, "rank ", 5) == 0;
  snprintf(rank, SHOAL_LAST_WORD_RANK, "%.*s", named ? (int)(end - reason) : 6, named ? reason : "a rank");
  json_decref(status);
  return rank;
}

bool shoal_last_word_heard(void *last_word)
{
  char state[SHOAL_LAST_WORD_STATE];
  shoal_last_word_state(last_word, state);
  return *state && strcmp(state, "running") != 0;
}

static shoal_status write_starts(const shoal_attempt *b, bool requeues)
{
  shoal_json j = { .lines = 0 };
  char *path = shoal_path_join(b->dir, "starts.json");
  shoal_json_object(&j, NULL);
  shoal_json_string(&j, "job", b->job);
  shoal_json_int(&j, "restarts", b->restarts);
  shoal_json_bool(&j, "requeued", requeues); /* by us, so that the next start is no surprise */
  shoal_json_int(&j, "idle", b->idle);
  shoal_json_int(&j, "failures", b->failures);
  if (b->stopped >= 0) shoal_json_int(&j, "stopped", b->stopped);
  if (b->saved >= 0) shoal_json_int(&j, "saved", b->saved);
  shoal_json_end(&j);
  shoal_status st = shoal_write_file(path, j.text.text, j.text.len);
  shoal_str_free(&j.text);
  free(path);
  return st;
}

/* ---- before ---- */

static bool is_alive_word(const char *state)
{
  return strcmp(state, "running") == 0 || strcmp(state, "stopping") == 0;
}

/* Slurm has started the job again by itself, and the run had no time for a last word. */
static shoal_status after_failure(shoal_attempt *b)
{
  long long saved = shoal_ckpt_newest(b->dir);
  b->failures = b->failures && saved <= b->saved ? b->failures + 1 : 1;
  if (saved > b->saved) b->idle = 0;
  b->saved = saved;
  SHOAL_CHECK(
      b->failures < 2, SHOAL_ERR_PEER,
      "job %s, start %d: Slurm has started it again twice, as after failures of nodes, without a new checkpoint in "
      "%s between: not tried once more; look at the nodes (sinfo -R), and %s to go on",
      b->job, b->restarts + 1, b->dir, b->again);
  if (saved >= 0)
    say(b, "Slurm has started it again, as after the failure of a node; %s goes on from step %lld, once", b->dir,
        saved);
  else
    say(b, "Slurm has started it again, as after the failure of a node; %s begins anew, once", b->dir);
  return write_starts(b, false);
}

shoal_status shoal_attempt_begin(const char *dir, shoal_attempt *out)
{
  int restarts = shoal_env_int(NULL, "SLURM_RESTART_COUNT", 0);
  shoal_attempt b = { .restarts = SHOAL_MAX(restarts, 0), .stopped = -1, .saved = -1 };
  b.job = shoal_job_here();
  SHOAL_CHECK(
      b.job, SHOAL_ERR_WORLD,
      "--requeue is for a batch job of Slurm, which this is not: leave it out, or submit the run: shoal submit");
  b.dir = shoal_strdup_printf("%s", dir);
  b.again = shoal_job_again(b.job, dir);
  b.kills = (int64_t)shoal_memory_kills("");
  b.before = text_of(dir, "status.json");
  char *text = text_of(dir, "starts.json");
  json_t *starts = parse(text), *status = parse(b.before);
  bool same = strcmp(word_of(starts, "job"), b.job) == 0;
  b.stopped = number_of(starts, "stopped", -1); /* progress counts over jobs */
  if (same) {
    b.idle = (int)SHOAL_MIN(number_of(starts, "idle", 0), TRIES);
    b.failures = (int)SHOAL_MIN(number_of(starts, "failures", 0), TRIES);
    b.saved = number_of(starts, "saved", -1);
  }
  bool expected =
      same && json_is_true(json_object_get(starts, "requeued")) && number_of(starts, "restarts", -1) == b.restarts - 1;
  shoal_status st = SHOAL_OK;
  if (b.restarts > 0 && !expected) {
    if (is_alive_word(word_of(status, "state")))
      st = after_failure(&b);
    else
      say(&b, "Slurm has started it again by itself, or somebody has requeued it");
  }
  json_decref(starts);
  json_decref(status);
  free(text);
  if (st == SHOAL_OK)
    *out = b;
  else
    shoal_attempt_free(&b);
  return st;
}

/* ---- after ---- */

static int or_one(int code)
{
  return code ? code : 1;
}

/* The job whose word `status` is, if it is not this one's: that has the run now, and ours was refused or has lost it. */
static const char *other_job(const shoal_attempt *b, const json_t *status)
{
  const char *job = word_of(status, "job");
  return !*job || strcmp(job, b->job) == 0 ? NULL : job;
}

/* Writes down that the next start is by us, and asks for it.  Returns only if it does not come. */
static void requeue(const shoal_attempt *b, const char *why)
{
  if (write_starts(b, true) != SHOAL_OK) { /* uncounted requeues would be unbounded */
    say(b, "%s: %s, but starts.json there cannot be written; not requeued", b->dir, why);
    return;
  }
  say(b, "%s: %s; requeued", b->dir, why);
  if (!shoal_job_requeue(b->job)) /* on success this process is ended */
    say(b, "it could not be requeued; %s to go on%s", b->again, b->stopped < 0 ? "" : " from the newest checkpoint");
}

static bool is_silent(const shoal_attempt *b, const char *now)
{
  return !now || (b->before && strcmp(now, b->before) == 0);
}

/* As where a step of this job was left half-started on a node that failed: one of the same number finds its files there. */
static bool is_unlaunched(const shoal_attempt *b, const char *now, int code)
{
  return is_silent(b, now) && (code == BY_SRUN || code >= BY_SIGNAL) && !shoal_launcher_stop_asked();
}

bool shoal_attempt_again(const shoal_attempt *b, int code)
{
  char *now = text_of(b->dir, "status.json");
  bool again = is_unlaunched(b, now, code);
  free(now);
  if (!again) return false;
  say(b, "%s: srun ended with %d before its ranks had begun, as on a node that has failed and come back: once more",
      b->dir, code);
  return true;
}

/* Nor has it helped to try once more. */
static int launch_later(const shoal_attempt *before, int code)
{
  shoal_attempt b = *before;
  char why[96];
  b.idle++;
  if (b.idle >= TRIES) {
    say(&b,
        "%s: srun ended with %d before its ranks had begun, and so it was %d starts in a row: what it says is above; "
        "look at the nodes (sinfo -R), and %s; not requeued",
        b.dir, code, b.idle, b.again);
    return code;
  }
  snprintf(why, sizeof why, "srun ended with %d before its ranks had begun, as it says above", code);
  requeue(&b, why);
  return code;
}

static int put_back(const shoal_attempt *before, long long step)
{
  shoal_attempt b = *before;
  char why[64];
  b.idle = step > b.stopped ? 0 : b.idle + 1;
  b.stopped = step;
  b.failures = 0;
  if (b.idle >= TRIES) {
    say(&b, "%s: stopped %d times at step %lld: allow a longer --time, or an earlier signal, --lead; not requeued",
        b.dir, b.idle + 1, step);
    return STOPPED;
  }
  snprintf(why, sizeof why, "stopped at step %lld with a checkpoint", step);
  requeue(&b, why);
  return STOPPED;
}

static int judge(const shoal_attempt *b, const json_t *status, int code)
{
  const char *state = word_of(status, "state");
  char memory[SHOAL_MEMORY_KILLS];
  long long step = number_of(status, "step", 0);
  if (strcmp(state, "done") == 0) return 0;
  shoal_memory_kills_told("", b->kills, memory);
  bool saved = shoal_ckpt_newest(b->dir) >= 0;
  const char *before = saved ? "" : "no checkpoint was saved yet (ckpt.every): ",
             *after = saved ? " to go on from the newest checkpoint" : " to begin anew";
  if (is_alive_word(state) && *memory) {
    say(b, "%s: killed at step %lld or later, without a word: %s; srun ended with %d; %s%s%s", b->dir, step, memory,
        code, before, b->again, after);
    return or_one(code);
  }
  if (is_alive_word(state)) {
    say(b,
        "%s: killed at step %lld or later, without a word: srun ended with %d; whether memory or time ran out "
        "say, for some minutes, scontrol show job %s, and where Slurm keeps accounts sacct -j %s -o "
        "State,ExitCode,MaxRSS; %s%s%s",
        b->dir, step, code, b->job, b->job, before, b->again, after);
    return or_one(code);
  }
  if (strcmp(state, "stopped") != 0) {
    say(b, "%s: %s at step %lld: %s; srun ended with %d", b->dir, *state ? state : "without a state", step,
        word_of(status, "reason"), code);
    return or_one(code);
  }
  if (json_is_false(json_object_get(status, "ended")))
    say(b, "%s: %s; then it was killed before it ended: srun ended with %d", b->dir, word_of(status, "reason"), code);
  if (shoal_launcher_end_asked()) {
    say(b,
        "%s: stopped at step %lld with a checkpoint, by TERM, as of scancel, a preemption or a failed node: no requeue "
        "is asked for; %s to go on, if Slurm does not",
        b->dir, step, b->again);
    return STOPPED;
  }
  return put_back(b, step);
}

int shoal_attempt_end(const shoal_attempt *b, int code)
{
  char *now = text_of(b->dir, "status.json");
  json_t *status = parse(now);
  int result;
  if (is_unlaunched(b, now, code)) {
    result = launch_later(b, code);
  } else if (is_silent(b, now)) {
    say(b, "%s: no rank has begun, so nothing was changed there; srun ended with %d, for the reason above", b->dir,
        code);
    result = or_one(code);
  } else if (other_job(b, status)) {
    say(b,
        "%s: job %s has the run now (%s), not this one; srun ended with %d, for the reason "
        "above; "
        "not requeued",
        b->dir, other_job(b, status), word_of(status, "state"), code);
    result = or_one(code);
  } else {
    result = judge(b, status, code);
  }
  json_decref(status);
  free(now);
  return result;
}

void shoal_attempt_free(shoal_attempt *b)
{
  free(b->job);
  free(b->dir);
  free(b->again);
  free(b->before);
  *b = (shoal_attempt){ .job = NULL };
}
