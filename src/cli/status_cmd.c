/* shoal status: a line for each run below a folder. */
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/folder.h"
#include "cli/cli.h"
#include "cli/job_flags.h"
#include "report/runs.h"
#include "slurm/job.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { COLUMNS = 80, MOST_COLUMNS = 1000 };

static const shoal_flag flags[] = {
  { "--json", NULL, NULL, SHOAL_FLAG_SWITCH, "for scripts" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
const shoal_verb_help shoal_status_help = {
  "shoal status [FOLDER ...] [--json]",
  "All runs in each FOLDER (default: runs) and in the folders in it: state, step, share that is done, loss of the last "
  "step, the\n"
  "number of its attempt, job, and when the job starts next, or what it waits for. A run that was killed without a "
  "word is dead: its process "
  "is "
  "gone, or\n"
  "it has said nothing for two minutes; silent: the same, but its job still runs. Runs that wait for their first start "
  "are "
  "queued; "
  "starting: their job runs, and nothing is heard of this start yet;\n"
  "stuck: their job never starts, as the one that it waits for has failed, or its partition does not have or allow so "
  "much. "
  "Suspended: stopped\n"
  "by Slurm, Ctrl-Z or SIGSTOP, with its memory, and goes on when it is resumed.\n"
  "Slurm is asked once for all jobs, and only where squeue is on the PATH. If it does not answer, a line says why "
  "(slurm_error\n"
  "with --json), and jobs in the queue stay submitted.",
  flags,
  0,
  -1,
  "  shoal status\n  shoal status runs/digits runs/glyphs\n  shoal status runs/digits-array --json\n",
};

/* ---- a run and its job ---- */

typedef struct {
  const char *state;         /* the word for it */
  const char *job;           /* the number of the job that counts; NULL: none */
  const shoal_queued *entry; /* in the queue; NULL: not there, or not known */
} standing;

static bool is_state(const shoal_queued *q, const char *state)
{
  return q && q->state && strcmp(q->state, state) == 0;
}

/* A job that has nodes, though it may be suspended on them. */
static bool has_begun(const shoal_queued *q)
{
  static const char *const states[] = { "RUNNING", "SUSPENDED", "STOPPED", "COMPLETING" };
  for (size_t i = 0; i < SHOAL_COUNT(states); i++)
    if (is_state(q, states[i])) return true;
  return false;
}

/* Slurm leaves a job in the queue whose dependency cannot be met any more, or that asks for more than its partition may give, or has:
 * PartitionConfig, which at first is its word for too many nodes, too. */
static bool never_starts(const shoal_queued *q)
{
  static const char *const reasons[] = { "DependencyNeverSatisfied", "PartitionTimeLimit", "PartitionNodeLimit",
                                         "PartitionConfig" };
  for (size_t i = 0; i < SHOAL_COUNT(reasons); i++)
    if (is_state(q, "PENDING") && q->reason && strcmp(q->reason, reasons[i]) == 0) return true;
  return false;
}

static long number_of(const char *text)
{
  return text ? strtol(text, NULL, 10) : 0;
}

/* Ranks of a study are not to be changed.  `nodes`: that a job can have, if it asks for too many; else 0. */
static void add_study_cure(int ranks, long nodes, shoal_str *out)
{
  if (nodes) {
    long each = (ranks + nodes - 1) / nodes;
    while (ranks % each) each++;
    shoal_str_add(out, "the same shoal scale with a larger --per-node, such as %ld", each);
  } else {
    shoal_str_add(out, "the same shoal scale with a smaller --per-node or -c");
  }
  shoal_str_add(out, ", or without %d in --ranks", ranks);
}

/* Of a job that asks for too many nodes, or too many CPUs of each: that, and the way out.  False: it is neither. */
static bool add_size(const shoal_run_facts *r, const shoal_queued *q, const shoal_partition *p, const char *again,
                     shoal_str *out)
{
  long nodes = number_of(q->nodes), cpus = number_of(q->cpus), each = nodes > 0 ? (cpus + nodes - 1) / nodes : 0;
  bool many = p->nodes > 0 && nodes > p->nodes, wide = !many && p->cpus > 0 && each > p->cpus;
  if (!many && !wide) return false;
  if (many)
    shoal_str_add(out, "as it asks for %ld nodes, and partition %s gives a job at most %ld", nodes, q->partition,
                  p->nodes);
  else
    shoal_str_add(out, "as it asks for %ld CPUs of each node, and a node of partition %s has at most %ld", each,
                  q->partition, p->cpus);
  shoal_str_add(out, ": scancel %s, then ", q->id);
  if (r->study_ranks)
    add_study_cure(r->study_ranks, many ? p->nodes : 0, out);
  else if (many)
    shoal_str_add(out, "%s with a smaller -N", again);
  else if (strchr(q->id, '_'))
    shoal_str_add(out, "%s with --ntasks-per-node times -c at most %ld", again, p->cpus);
  else
    shoal_str_add(out, "%s with --per-node times -c at most %ld", again, p->cpus);
  return true;
}

/* Why, with what its partition has, as far as Slurm says it; and the way out. */
static void add_never(const shoal_run_facts *r, const shoal_queued *q, shoal_str *out)
{
  shoal_partition p = { .nodes = 0 };
  char *again = shoal_job_again(q->id, r->dir);
  const char *less = "";
  bool is_time = strcmp(q->reason, "PartitionTimeLimit") == 0, is_nodes = strcmp(q->reason, "PartitionNodeLimit") == 0,
       is_size = is_nodes || strcmp(q->reason, "PartitionConfig") == 0,
       known = (is_time || is_size) && q->partition && shoal_partition_read(q->partition, &p);
  shoal_str_add(out, "%sjob %s never starts, ", out->len ? "; " : "", q->id);
  if (!is_size || !known || !add_size(r, q, &p, again, out)) {
    if (is_time && known && p.limit && q->limit) {
      shoal_str_add(out, "as its time limit is %s, and partition %s allows %s", q->limit, q->partition, p.limit);
      less = " with a shorter --time";
    } else if (is_nodes || is_time) {
      shoal_str_add(out, "unless the partition's %s is raised (sinfo shows it)",
                    is_nodes ? "limit of nodes" : "time limit");
    } else if (is_size) {
      shoal_str_add(out, "as its partition does not have such nodes, or so many (sinfo -N -l shows what it has)");
      less = " for less";
    } else {
      shoal_str_add(out, "as the one that it was to follow failed");
    }
    shoal_str_add(out, ": scancel %s, then ", q->id);
    if (is_size && !is_nodes && r->study_ranks)
      add_study_cure(r->study_ranks, 0, out);
    else
      shoal_str_add(out, "%s%s", again, less);
  }
  free(p.limit);
  free(again);
}

/* Of the jobs of a run that which runs; else that which waits, the first of a chain; else the last one that it ran in. */
static void find_job(const shoal_run_facts *r, const shoal_queue *q, standing *s)
{
  s->job = r->jobs.n ? r->jobs.at[0] : NULL;
  for (size_t i = 0; i < r->jobs.n; i++) {
    const shoal_queued *e = shoal_queue_find(q, r->jobs.at[i]);
    if (!e || (s->entry && !has_begun(e))) continue;
    s->entry = e;
    s->job = r->jobs.at[i];
    if (has_begun(e)) return;
  }
}

/* Whether a job has begun after the last word of its run, so that this was of an earlier start. */
static bool began_since(const shoal_queued *q, double age_s)
{
  struct tm t = { .tm_isdst = -1 }; /* Slurm tells times of this zone */
  return q->start && strptime(q->start, "%Y-%m-%dT%H:%M:%S", &t) && difftime(time(NULL), mktime(&t)) < age_s;
}

static standing judge(const shoal_run_facts *r, const shoal_queue *q)
{
  static const char *const words[] = { [SHOAL_LIFE_SUBMITTED] = "submitted",
                                       [SHOAL_LIFE_RUNNING] = "running",
                                       [SHOAL_LIFE_STOPPING] = "stopping",
                                       [SHOAL_LIFE_STOPPED] = "stopped",
                                       [SHOAL_LIFE_DONE] = "done",
                                       [SHOAL_LIFE_FAILED] = "failed",
                                       [SHOAL_LIFE_DEAD] = "dead" };
  standing s = { .state = words[r->life] };
  find_job(r, q, &s);
  bool runs = has_begun(s.entry), starts = is_state(s.entry, "RUNNING") && began_since(s.entry, r->age_s),
       goes_on = r->life == SHOAL_LIFE_RUNNING || r->life == SHOAL_LIFE_STOPPING || r->silent;
  const char *waits = never_starts(s.entry) ? "stuck" : "queued";
  if (r->life == SHOAL_LIFE_SUBMITTED && q->asked) s.state = runs ? "starting" : s.entry ? waits : "gone";
  if (r->life == SHOAL_LIFE_DEAD && r->silent && runs) s.state = "silent";
  if (starts && !r->stopped) s.state = "starting";
  if (goes_on && (r->stopped || is_state(s.entry, "SUSPENDED") || is_state(s.entry, "STOPPED"))) s.state = "suspended";
  if (r->life == SHOAL_LIFE_DEAD && !r->stopped && s.entry && !runs)
    s.state = waits; /* again, as after the failure of a node */
  return s;
}

enum { REST = 62, WAIT = 11 }; /* columns of the table: all but the first, the last */

/* Whether what a job waits for has room in the last column. */
static bool is_short(const char *reason)
{
  return strlen(reason) <= WAIT;
}

static bool is_turn(const char *reason)
{
  return strcmp(reason, "JobArrayTaskLimit") == 0;
}

/* What a job waits for, if its column is too narrow for it and it is more than its turn in an array. */
static const char *long_wait(const standing *s)
{
  const char *reason = s->entry && !has_begun(s->entry) ? s->entry->reason : NULL;
  return reason && !is_short(reason) && !is_turn(reason) && !never_starts(s->entry) ? reason : NULL;
}

/* When its job starts next: "2026-01-31T12:00:00" as "01-31 12:00"; else what it waits for, or that nothing is known yet; "" if it
 * does not wait.  A job that is requeued Slurm holds for two minutes, and gives no time for the element of an array. */
static const char *next_start(const shoal_run_facts *r, const standing *s, char *buf, size_t cap)
{
  enum { DATE = 5, TIME = 11, MINUTES = 16 };
  buf[0] = '\0';
  if (!s->entry || has_begun(s->entry)) return buf;
  const char *start = s->entry->start;
  if (never_starts(s->entry))
    snprintf(buf, cap, "never");
  else if (start && strlen(start) >= MINUTES && start[TIME - 1] == 'T')
    snprintf(buf, cap, "%.5s %.5s", start + DATE, start + TIME);
  else if (r->attempt > 0 && s->entry->reason && strcmp(s->entry->reason, "BeginTime") == 0)
    snprintf(buf, cap, "in < 3 min");
  else if (s->entry->reason && is_turn(s->entry->reason))
    snprintf(buf, cap, "array limit");
  else if (long_wait(s))
    snprintf(buf, cap, "see below");
  else
    snprintf(buf, cap, "%s", s->entry->reason ? s->entry->reason : "not known");
  return buf;
}

/* ---- the table ---- */

static int terminal_columns(void)
{
  struct winsize size = { .ws_col = 0 };
  int64_t n;
  const char *text = getenv("COLUMNS");
  if (isatty(STDOUT_FILENO)) ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  if (size.ws_col) return size.ws_col;
  return text && shoal_parse_i64(text, &n) == SHOAL_OK && n > 0 && n < MOST_COLUMNS ? (int)n : COLUMNS;
}

/* The last `width` characters of a name that is longer: those of an array begin alike. */
static void add_name(const char *name, int width, shoal_str *out)
{
  char shown[4096];
  shoal_show(name, shown, sizeof shown);
  int n = (int)strlen(shown);
  if (n <= width)
    shoal_str_add(out, "%-*s", width, shown);
  else
    shoal_str_add(out, "..%s", shown + n - width + 2);
}

/* A number in so many columns, or "-". */
static void add_real(const char *format, double value, int width, shoal_str *out)
{
  char text[64];
  snprintf(text, sizeof text, format, value);
  shoal_str_add(out, " %*s", width, isfinite(value) ? text : "-");
}

static void add_line(const shoal_run_facts *r, const standing *s, int width, shoal_str *out)
{
  enum { STEP = 7, DONE = 4, LOSS = 7, ATTEMPT = 7 };
  char start[64];
  add_name(r->name, width, out);
  shoal_str_add(out, " %-9s", s->state);
  add_real("%.0f", r->step, STEP, out);
  add_real("%.0f%%", floor(100 * r->done), DONE, out);
  add_real("%.4g", r->loss, LOSS, out);
  shoal_str_add(out, " %*d", ATTEMPT, r->attempt);
  shoal_str_add(out, " %-10s %s", s->job ? s->job : "-", next_start(r, s, start, sizeof start));
  while (out->text[out->len - 1] == ' ') out->text[--out->len] = '\0';
  shoal_str_add(out, "\n");
}

/* Of a run that is dead or silent; nothing if it is neither. */
static void add_last_words(const shoal_run_facts *r, const standing *s, shoal_str *out)
{
  if (strcmp(s->state, "dead") != 0 && strcmp(s->state, "silent") != 0) return;
  if (r->silent)
    shoal_str_add(out, "nothing is heard of it");
  else
    shoal_str_add(out, "killed%s%s", *r->reason ? ": " : " without a word", r->reason);
}

/* The log of the job that counts; NULL: its name is not known.  Caller frees. */
static char *log_of(const shoal_run_facts *r, const standing *s)
{
  char *log = r->log && s->job ? shoal_job_log(r->log, s->job) : NULL;
  if (!log || !strchr(log, '%')) return log;
  free(log);
  return NULL;
}

/* The end of a file as text, NULL if it cannot be read; caller frees.  What is no text ends it. */
static char *end_of(const char *path)
{
  enum { MOST = 1 << 16 };
  uint64_t size;
  int fd;
  char *text = NULL;
  shoal_error before;
  shoal_error_take(&before);
  if (shoal_path_exists(path) && shoal_open_file(path, &fd, &size) == SHOAL_OK) {
    text = calloc(MOST + 1, 1);
    if (text && pread(fd, text, MOST, size > MOST ? (off_t)(size - MOST) : 0) < 0) *text = '\0';
    close(fd);
  }
  (void)shoal_error_put(&before);
  return text;
}

/* That a node failed, as srun says it in the job's log, and nothing has begun since: "Node failure on n3"; NULL: no such word of it. */
static char *node_failure(const shoal_run_facts *r, const standing *s)
{
  static const char words[] = "Node failure on ";
  char *log = log_of(r, s), *text = log ? end_of(log) : NULL, *failure = NULL;
  for (const char *at = text; at && (at = strstr(at, words)); at++) {
    free(failure);
    bool again = strstr(at, "Slurm has started it again"); /* attempt.c */
    failure = again ? NULL : shoal_strdup_printf("%.*s", (int)strcspn(at, "\r\n"), at);
  }
  free(text);
  free(log);
  return failure;
}

static void add_dead(const shoal_run_facts *r, const standing *s, shoal_str *out)
{
  char since[32], *failure = node_failure(r, s);
  if (failure) shoal_str_add(out, "%s, as its job's log says: ", failure);
  add_last_words(r, s, out);
  shoal_str_add(out, ", last word %s ago", shoal_format_seconds(r->age_s, since, sizeof since));
  free(failure);
}

/* A job that is over, of a run that has not begun. */
static void add_gone(const shoal_run_facts *r, const standing *s, shoal_str *out)
{
  char word[SHOAL_WORD], *log = log_of(r, s);
  shoal_str_add(out, "job %s has ended, and the run has not begun: ", s->job ? s->job : "-");
  if (log)
    shoal_str_add(out, "%s %s", shoal_path_exists(log) ? "see" : "there is no log", log);
  else
    shoal_str_add(out, "see the job's log, if it has one");
  if (s->job && !strchr(s->job, '_'))
    shoal_str_add(out, "; rm %s/job.json takes the run off this list", shoal_shell_word(r->dir, word));
  free(log);
}

/* Slurm writes no log where the nodes do not see its folder.  Said once for all such runs. */
static void add_no_logs(const shoal_runs *runs, const shoal_queue *q, shoal_str *out)
{
  char shown[4096], word[SHOAL_WORD];
  bool none = false;
  for (size_t i = 0; i < runs->n && !none; i++) {
    standing s = judge(&runs->at[i], q);
    char *log = strcmp(s.state, "gone") == 0 ? log_of(&runs->at[i], &s) : NULL;
    none = log && !shoal_path_exists(log);
    free(log);
    if (!none) continue;
    shoal_str line = { 0 };
    shoal_str_add(&line,
                  "A job leaves no log if it was taken back before it began, or if its node does not see that folder, "
                  "which must be on a file system that all nodes share (srun -N1 ls -d %s)",
                  shoal_shell_word(runs->at[i].dir, word));
    shoal_str_add(out, "%s\n", shoal_show(line.text, shown, sizeof shown));
    shoal_str_free(&line);
  }
}

/* Whether the jobs that were submitted last would train, though the run is done. */
static bool trains_on(const shoal_run_facts *r)
{
  return r->resume || (r->to_epoch > 0 && !shoal_run_finished(r, r->to_epoch, r->to_step));
}

static void add_aim(const shoal_run_facts *r, const char *job, shoal_str *out)
{
  shoal_str_add(out, "%sjob %s waits to go on ", out->len ? "; " : "", job);
  if (r->resume)
    shoal_str_add(out, "with --resume %s", r->resume);
  else
    shoal_str_add(out, "to epoch %d", r->to_epoch);
  if (!r->resume && r->to_step > 0) shoal_str_add(out, " or step %d", r->to_step);
}

/* Why it does not go on; "": nothing to say. */
static void find_reason(const shoal_run_facts *r, const standing *s, shoal_str *out)
{
  if (strcmp(s->state, "failed") == 0)
    shoal_str_add(out, "exit %d: %s", r->exit_code, r->reason);
  else if (strcmp(s->state, "stopped") == 0 && r->cut)
    shoal_str_add(out, "%s", r->reason);
  else if (strcmp(s->state, "suspended") == 0 && r->stopped)
    shoal_str_add(out,
                  "its process %ld here is stopped, as by Ctrl-Z: fg in that terminal, or kill -CONT, lets it go on",
                  r->stopped);
  else if (strcmp(s->state, "suspended") == 0)
    shoal_str_add(out, "job %s is suspended: scontrol resume %s lets it go on", s->job, s->job);
  else if (strcmp(s->state, "dead") == 0 || strcmp(s->state, "silent") == 0)
    add_dead(r, s, out);
  else if (strcmp(s->state, "gone") == 0)
    add_gone(r, s, out);
  else if (strcmp(s->state, "queued") == 0 && r->life == SHOAL_LIFE_DEAD)
    shoal_str_add(out, "job %s waits to %s; its last start ended without a word", s->job,
                  shoal_ckpt_newest(r->dir) >= 0 ? "go on from the newest checkpoint" : "begin anew");
  if (r->memory[0] && strcmp(s->state, "queued") != 0 && strcmp(s->state, "starting") != 0 &&
      !strstr(r->reason, "memory ran out"))
    shoal_str_add(out, "%s%s", out->len ? "; " : "", r->memory);
  bool waits = r->life == SHOAL_LIFE_DONE && s->entry && !has_begun(s->entry);
  if (waits && !trains_on(r))
    shoal_str_add(out, "%sjob %s waits though the run is done: scancel %s", out->len ? "; " : "", s->job, s->job);
  else if (never_starts(s->entry))
    add_never(r, s->entry, out);
  else if (waits)
    add_aim(r, s->job, out);
  if (long_wait(s)) shoal_str_add(out, "%sjob %s waits: %s", out->len ? "; " : "", s->job, long_wait(s));
}

static void add_reason(const shoal_run_facts *r, const standing *s, shoal_str *out)
{
  char shown[4096];
  shoal_str why = { 0 }, line = { 0 };
  find_reason(r, s, &why);
  if (why.len) shoal_str_add(&line, "%s: %s", r->name, why.text);
  if (line.len) shoal_str_add(out, "%s\n", shoal_show(line.text, shown, sizeof shown));
  shoal_str_free(&why);
  shoal_str_free(&line);
}

static void print_table(const shoal_runs *runs, const shoal_queue *q)
{
  enum { LEAST = 12 };
  int columns = terminal_columns(), width = 3;
  shoal_str out = { 0 }, reasons = { 0 };
  for (size_t i = 0; i < runs->n; i++) width = SHOAL_MAX(width, (int)strlen(runs->at[i].name));
  width = SHOAL_MAX(SHOAL_MIN(width, columns - REST), LEAST);
  shoal_str_add(&out, "%-*s %-9s %7s %4s %7s %7s %-10s %s\n", width, "run", "state", "step", "done", "loss", "attempt",
                "job", "next start");
  for (size_t i = 0; i < runs->n; i++) {
    standing s = judge(&runs->at[i], q);
    add_line(&runs->at[i], &s, width, &out);
    add_reason(&runs->at[i], &s, &reasons);
  }
  add_no_logs(runs, q, &reasons);
  fputs(out.text, stdout);
  if (q->why) {
    char shown[4096];
    shoal_str_add(&reasons, "Slurm could not be asked, so what its queue says is not known: %s\n",
                  shoal_show(q->why, shown, sizeof shown));
  }
  if (reasons.text) printf("\n%s", reasons.text);
  shoal_str_free(&out);
  shoal_str_free(&reasons);
}

/* The code is null until the run has ended by itself. */
static void add_end(shoal_json *j, const shoal_run_facts *r, const standing *s)
{
  bool ended = r->life == SHOAL_LIFE_STOPPED || r->life == SHOAL_LIFE_DONE || r->life == SHOAL_LIFE_FAILED;
  if (ended)
    shoal_json_int(j, "exit_code", r->exit_code);
  else
    shoal_json_null(j, "exit_code");
  shoal_str words = { 0 };
  add_last_words(r, s, &words);
  shoal_json_string(j, "reason", words.len ? words.text : r->reason);
  shoal_str_free(&words);
}

static void print_json(const shoal_runs *runs, const shoal_queue *q)
{
  shoal_json j = { .lines = 2, .out = stdout };
  shoal_json_object(&j, NULL);
  shoal_json_bool(&j, "slurm", q->asked);
  shoal_json_string(&j, "slurm_error", q->why);
  shoal_json_array(&j, "runs");
  for (size_t i = 0; i < runs->n; i++) {
    const shoal_run_facts *r = &runs->at[i];
    standing s = judge(r, q);
    shoal_json_object(&j, NULL);
    shoal_json_string(&j, "run", r->dir);
    shoal_json_string(&j, "state", s.state);
    shoal_json_real(&j, "step", r->step);
    shoal_json_real(&j, "done", r->done);
    shoal_json_real(&j, "loss", r->loss);
    shoal_json_real(&j, "test_acc", r->test_acc);
    shoal_json_int(&j, "attempt", r->attempt);
    add_end(&j, r, &s);
    shoal_json_fixed(&j, "age_s", r->age_s, 0);
    shoal_json_string(&j, "job", s.job);
    shoal_json_string(&j, "job_state", s.entry ? s.entry->state : NULL);
    shoal_json_string(&j, "next_start", s.entry && !has_begun(s.entry) ? s.entry->start : NULL);
    shoal_json_string(&j, "waits_for", s.entry && !has_begun(s.entry) ? s.entry->reason : NULL);
    shoal_json_end(&j);
  }
  shoal_json_end(&j);
  shoal_json_end(&j);
  shoal_json_finish(&j);
}

static bool any_job(const shoal_runs *runs)
{
  bool any = false;
  for (size_t i = 0; i < runs->n; i++) any = any || runs->at[i].jobs.n;
  return any;
}

static shoal_status show(const char *const *folders, size_t n, bool json)
{
  shoal_runs runs;
  shoal_queue q = { .asked = false };
  shoal_status st = shoal_runs_find(folders, n, &runs);
  if (st == SHOAL_OK && any_job(&runs)) shoal_queue_read(&q);
  if (st == SHOAL_OK && json)
    print_json(&runs, &q);
  else if (st == SHOAL_OK && runs.n)
    print_table(&runs, &q);
  else if (st == SHOAL_OK)
    for (size_t i = 0; i < n; i++) printf("no run in %s\n", folders[i]);
  shoal_queue_free(&q);
  shoal_runs_free(&runs);
  return st;
}

shoal_status shoal_cmd_status(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  const char *const *words;
  SHOAL_TRY(shoal_args_parse(&shoal_status_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  size_t n = shoal_args_words(a, &words);
  static const char *const usual[] = { "runs" };
  shoal_status st = show(n ? words : usual, SHOAL_MAX(n, SHOAL_COUNT(usual)), shoal_json_wanted(a));
  shoal_args_destroy(a);
  return st;
}
