/* shoal scale: makes the run files of a scaling study, runs what is not done yet, one run after the other, and compares. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/job_flags.h"
#include "cli/run_file.h"
#include "cli/study.h"
#include "report/runs.h"
#include "slurm/launcher.h"
#include "slurm/relay.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 1 << 20 };

/* ---- the request ---- */

static const shoal_flag flags[] = {
  { "--ranks", NULL, "N,N,...", SHOAL_FLAG_VALUE, "the rank counts" },
  { "--methods", NULL, "A,B,...", SHOAL_FLAG_VALUE,
    "methods instead of that of the run file; its own keeps its options" },
  { "--weak", NULL, NULL, SHOAL_FLAG_SWITCH,
    "each rank keeps data.batch; else all ranks together keep data.global_batch" },
  { "--per-node", NULL, "G", SHOAL_FLAG_VALUE, "pretend nodes of G ranks, as --topo does (with fewer ranks one node)" },
  { "--set", NULL, "KEY=VALUE", SHOAL_FLAG_LIST, "override a run-file option in all runs" },
  { "--allow-faults", NULL, NULL, SHOAL_FLAG_SWITCH, "enable the fault.* options in all runs (for pretended compute)" },
  { "--only-files", NULL, NULL, SHOAL_FLAG_SWITCH, "make the run files and say the commands; run nothing" },
  { "--submit", NULL, NULL, SHOAL_FLAG_SWITCH,
    "hand the runs that are neither done nor in the queue to Slurm, a job array for each rank count, and compare those "
    "that are done; --per-node is then of real nodes" },
  SHOAL_JOB_FLAGS,
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
const shoal_verb_help shoal_scale_help = {
  "shoal scale RUN.yaml --ranks 1,2,4,8 [options]",
  "A scaling study. Makes a run file for every method and rank count in runs/NAME-scale, runs them one after the "
  "other, by\n"
  "srun in a Slurm allocation and by mpirun elsewhere, and compares their speed. What is done is not run again: the "
  "same\n"
  "command goes on after a stop (USR1, TERM or Ctrl-C: the run saves a checkpoint). On one machine every rank has the\n"
  "threads that it can have with the largest count, unless the run file says threads.",
  flags,
  1,
  1,
  "  shoal scale digits.yaml --ranks 1,2,4\n  shoal scale digits.yaml --ranks 2,4,8 --methods sync,daso --per-node 2\n"
  "  shoal scale digits.yaml --ranks 2,4,8 --per-node 2 --submit --time 1h\n",
};

typedef struct {
  shoal_args *args;
  shoal_study_request study;
  shoal_launcher_site site;
  bool submit; /* hand them to Slurm */
  int cores;   /* of each rank of a Slurm job; 0: no such job */
  bool allow_faults;
} request;

static void free_request(request *q)
{
  shoal_texts_free(&q->study.methods);
  free(q->study.ranks);
  shoal_args_destroy(q->args);
}

static int ascending(const void *a, const void *b)
{
  const int *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* "1,2,4" */
static shoal_status split_words(const char *list, shoal_texts *out)
{
  for (const char *at = list; at;) {
    size_t n = strcspn(at, ",");
    SHOAL_TRY(shoal_texts_add_n(out, at, n));
    at = at[n] ? at + n + 1 : NULL;
  }
  return SHOAL_OK;
}

static shoal_status parse_ranks(const char *list, shoal_study_request *q)
{
  shoal_texts words = { 0 };
  shoal_status st = split_words(list, &words);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(words.n, &q->ranks);
  for (size_t i = 0; i < words.n && st == SHOAL_OK; i++) {
    int64_t n = 0;
    SHOAL_CHECK_GOTO(st, shoal_parse_i64(words.at[i], &n) == SHOAL_OK && n >= 1 && n <= MOST_RANKS, end,
                     SHOAL_ERR_USAGE, "--ranks %s: \"%s\" is no number of ranks; give some, as in --ranks 1,2,4", list,
                     words.at[i]);
    q->ranks[q->n_ranks++] = (int)n;
  }
  if (st == SHOAL_OK) qsort(q->ranks, q->n_ranks, sizeof *q->ranks, ascending);
  for (size_t i = 1; i < q->n_ranks && st == SHOAL_OK; i++)
    if (q->ranks[i] == q->ranks[i - 1])
      st = SHOAL_FAIL(SHOAL_ERR_USAGE, "--ranks %s: %d is there twice", list, q->ranks[i]);
end:
  shoal_texts_free(&words);
  return st;
}

static shoal_status parse_per_node(const char *text, request *q)
{
  int64_t g = 0;
  if (!text) return SHOAL_OK;
  SHOAL_CHECK(shoal_parse_i64(text, &g) == SHOAL_OK && g >= 1 && g <= MOST_RANKS, SHOAL_ERR_USAGE,
              "--per-node %s: give the ranks of a node, as in --per-node 2", text);
  q->study.per_node = (int)g;
  for (size_t i = 0; i < q->study.n_ranks; i++)
    SHOAL_CHECK(q->study.ranks[i] % g == 0 || q->study.ranks[i] < g, SHOAL_ERR_USAGE,
                "--per-node %d: %d ranks do not fill nodes of %d; give other --ranks", q->study.per_node,
                q->study.ranks[i], q->study.per_node);
  return SHOAL_OK;
}

/* Ranks of all runs get the same threads, or fewer ranks would have more of them: in a Slurm job the same cores, which they
 * are bound to. */
static shoal_status choose_threads(request *q)
{
  shoal_launcher l;
  shoal_launcher_wish most = { .ranks = q->study.ranks[q->study.n_ranks - 1] };
  SHOAL_TRY(shoal_launcher_look(&most, &q->site));
  SHOAL_TRY(shoal_launcher_plan(NULL, &most, &q->site, &l));
  if (shoal_in_allocation()) q->cores = l.cores;
  shoal_launcher_free(&l);
  if (q->cores) return SHOAL_OK;
  int cores = q->site.cores;
  q->study.threads = SHOAL_MAX(cores / most.ranks, 1);
  if (most.ranks > cores)
    shoal_warn("%d ranks share %d core%s: what that costs is part of their speed", most.ranks, cores,
               cores == 1 ? "" : "s");
  return SHOAL_OK;
}

/* Ranks of real nodes: as asked for, or as the site says. */
static shoal_status choose_nodes(request *q)
{
  shoal_job_request r;
  char text[16];
  shoal_status st = shoal_job_request_read(q->args, &r);
  if (st == SHOAL_OK && !q->study.per_node) {
    snprintf(text, sizeof text, "%d", shoal_job_request_per_node(&r));
    st = parse_per_node(text, q);
  }
  shoal_job_request_free(&r);
  return st;
}

static shoal_status check_job_flags(const shoal_args *a)
{
  static const shoal_flag of_jobs[] = { SHOAL_JOB_FLAGS, { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL } };
  shoal_texts given = { 0 };
  SHOAL_TRY(shoal_args_repeat(a, of_jobs, &given));
  bool without = given.n && !shoal_args_on(a, "--submit"),
       both = shoal_args_on(a, "--only-files") && shoal_args_on(a, "--submit");
  shoal_status st = SHOAL_OK;
  if (without) st = SHOAL_FAIL(SHOAL_ERR_USAGE, "%s is of a job: add --submit", given.at[0]);
  if (both) st = SHOAL_FAIL(SHOAL_ERR_USAGE, "--only-files and --submit contradict each other: give one");
  shoal_texts_free(&given);
  return st;
}

static shoal_status read_request(shoal_args *args, request *q)
{
  const char *const *words, *ranks = shoal_args_value(args, "--ranks"), *methods = shoal_args_value(args, "--methods");
  q->args = args;
  shoal_args_words(args, &words);
  q->study.run_file = words[0];
  q->study.weak = shoal_args_on(args, "--weak");
  q->allow_faults = shoal_args_on(args, "--allow-faults");
  q->study.n_sets = shoal_args_list(args, "--set", &q->study.sets);
  SHOAL_CHECK(ranks, SHOAL_ERR_USAGE, "give the rank counts, as in --ranks 1,2,4");
  SHOAL_TRY(parse_ranks(ranks, &q->study));
  if (methods) SHOAL_TRY(split_words(methods, &q->study.methods));
  q->submit = shoal_args_on(args, "--submit");
  SHOAL_TRY(check_job_flags(args));
  SHOAL_TRY(parse_per_node(shoal_args_value(args, "--per-node"), q));
  return q->submit ? choose_nodes(q) : choose_threads(q);
}

/* ---- jobs ---- */

static bool in_queue(const shoal_runs *known, const shoal_queue *queue, const shoal_study_run *r)
{
  for (size_t i = 0; i < known->n; i++)
    for (size_t k = 0; strcmp(known->at[i].dir, r->dir) == 0 && k < known->at[i].jobs.n; k++)
      if (shoal_queue_find(queue, known->at[i].jobs.at[k])) return true;
  return false;
}

/* Without the queue nobody knows whether a job still runs or waits. */
static shoal_status check_queue(const shoal_study *s, const shoal_runs *known, const shoal_queue *queue)
{
  char shown[4096];
  for (size_t i = 0; i < s->n && !queue->asked; i++)
    for (size_t k = 0; k < known->n && s->runs[i].state != SHOAL_RUN_DONE; k++)
      SHOAL_CHECK(strcmp(known->at[k].dir, s->runs[i].dir) != 0 || !known->at[k].jobs.n, SHOAL_ERR_WORLD,
                  "Slurm could not be asked whether job %s of %s still runs or waits, so nothing is submitted: %s; try "
                  "again when squeue answers",
                  known->at[k].jobs.at[0], s->runs[i].dir,
                  queue->why ? shoal_show(queue->why, shown, sizeof shown) : "squeue is not on the PATH");
  return SHOAL_OK;
}

/* The runs of so many ranks that are to be submitted. */
static shoal_status choose_runs(const shoal_study *s, int ranks, const shoal_runs *known, const shoal_queue *queue,
                                shoal_job_element *elements, size_t *n, shoal_texts *names)
{
  for (size_t i = 0; i < s->n; i++) {
    const shoal_study_run *r = &s->runs[i];
    if (r->ranks != ranks || r->state == SHOAL_RUN_DONE) continue;
    if (in_queue(known, queue, r)) {
      printf("%s is in the queue\n", r->dir);
      continue;
    }
    shoal_job_element *e = &elements[*n];
    e->index = (int)++*n;
    SHOAL_TRY(shoal_texts_add(&e->words, r->file));
    SHOAL_TRY(shoal_texts_add(names, shoal_path_base(r->dir)));
  }
  return SHOAL_OK;
}

static shoal_status describe_job(const request *q, const shoal_study *s, int ranks, const char *output, shoal_job *j,
                                 shoal_texts *kept)
{
  int per_node = q->study.per_node;
  j->nodes = SHOAL_MAX(ranks / per_node, 1);
  j->per_node = ranks / j->nodes;
  j->ranks = ranks;
  SHOAL_TRY(shoal_texts_take(kept, shoal_strdup_printf("%s-%d", shoal_path_base(s->dir), ranks)));
  SHOAL_TRY(shoal_texts_take(kept, shoal_strdup_printf("%s/job-%%A_%%a.log", s->dir)));
  SHOAL_TRY(shoal_texts_take(kept, shoal_program_name()));
  SHOAL_TRY(shoal_texts_take(kept, shoal_strdup_printf("shoal scale %s --submit, for %d rank%s", q->study.run_file,
                                                       ranks, ranks == 1 ? "" : "s")));
  j->about = q->study.run_file;
  j->name = kept->at[0];
  j->output = output ? output : kept->at[1];
  j->program = kept->at[2];
  j->made_by = kept->at[3];
  return SHOAL_OK;
}

/* The runs of one rank count, as an array: they need as many nodes. */
static shoal_status submit_ranks(const request *q, const shoal_study *s, int ranks, const shoal_runs *known,
                                 const shoal_queue *queue)
{
  shoal_job_request r;
  shoal_job_element *elements = NULL;
  shoal_texts names = { 0 }, kept = { 0 }, words = { 0 }, folders = { 0 }, made = { 0 };
  size_t n = 0;
  char *script = shoal_strdup_printf("job-%d.sbatch", ranks);
  shoal_status st = shoal_job_request_read(q->args, &r);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(s->n, &elements);
  if (st == SHOAL_OK) st = choose_runs(s, ranks, known, queue, elements, &n, &names);
  if (st == SHOAL_OK) st = describe_job(q, s, ranks, r.output, &r.job, &kept);
  if (st == SHOAL_OK) st = shoal_texts_add(&words, "-q");
  if (st == SHOAL_OK) st = shoal_texts_add(&words, "-n"); /* no others, however many nodes sbatch is told */
  if (st == SHOAL_OK) st = shoal_texts_take(&words, shoal_strdup_printf("%d", ranks));
  if (st == SHOAL_OK && q->allow_faults) st = shoal_texts_add(&words, "--allow-faults");
  for (size_t i = 0; i < s->n && st == SHOAL_OK; i++)
    if (s->runs[i].ranks == ranks) st = shoal_texts_add(&folders, s->runs[i].dir);
  if (st == SHOAL_OK) st = shoal_job_request_lead(&r, &folders);
  r.study_ranks = ranks;
  r.job.words = &words;
  r.job.elements = elements;
  r.job.n_elements = n;
  if (st == SHOAL_OK && n) st = shoal_study_write(&q->study, s, ranks, &made);
  if (st == SHOAL_OK && n)
    st = shoal_job_request_submit(&r, s->dir, script, 1, &names, &made);
  else
    shoal_made_undo(&made);
  for (size_t i = 0; elements && i < n; i++) shoal_texts_free(&elements[i].words);
  free(elements);
  free(script);
  shoal_texts_free(&names);
  shoal_texts_free(&kept);
  shoal_texts_free(&words);
  shoal_texts_free(&folders);
  shoal_job_request_free(&r);
  return st;
}

static bool all_done(const shoal_study *s)
{
  for (size_t i = 0; i < s->n; i++)
    if (s->runs[i].state != SHOAL_RUN_DONE) return false;
  return true;
}

static shoal_status submit_study(const request *q, const shoal_study *s)
{
  shoal_runs known = { .n = 0 };
  shoal_queue queue;
  shoal_str table = { 0 };
  shoal_queue_read(&queue);
  shoal_status st = shoal_path_exists(s->dir) ? shoal_runs_find((const char *[]){ s->dir }, 1, &known) : SHOAL_OK;
  if (st == SHOAL_OK) st = check_queue(s, &known, &queue);
  for (size_t i = 0; i < q->study.n_ranks && st == SHOAL_OK; i++)
    st = submit_ranks(q, s, q->study.ranks[i], &known, &queue);
  if (st == SHOAL_OK) {
    shoal_study_print(s, &table);
    printf("\n%s scaling, %s\n%s", s->weak ? "weak" : "strong", s->dir, table.text);
    if (!all_done(s)) printf("the same command compares what is done later\n");
  }
  shoal_str_free(&table);
  shoal_runs_free(&known);
  shoal_queue_free(&queue);
  return st;
}

/* ---- a run ---- */

static shoal_status plan_run(const request *q, const shoal_study_run *r, shoal_launcher *out)
{
  return shoal_launcher_plan(NULL, &(shoal_launcher_wish){ .ranks = r->ranks, .cores = q->cores }, &q->site, out);
}

/* What each rank is: this program, and the run file. */
static shoal_status rank_words(const request *q, const shoal_study_run *r, const char *program, shoal_texts *out)
{
  SHOAL_TRY(shoal_texts_add(out, program));
  SHOAL_TRY(shoal_texts_add(out, "train"));
  SHOAL_TRY(shoal_texts_add(out, r->file));
  SHOAL_TRY(shoal_texts_add(out, "-q"));
  if (q->allow_faults) SHOAL_TRY(shoal_texts_add(out, "--allow-faults"));
  if (!r->nodes) return SHOAL_OK;
  SHOAL_TRY(shoal_texts_add(out, "--topo"));
  return shoal_texts_take(out, shoal_strdup_printf("%dx%d", r->nodes, r->ranks / r->nodes));
}

static shoal_status start_run(const request *q, const shoal_study_run *r, const char *program, int *code)
{
  shoal_launcher l;
  shoal_texts words = { 0 };
  SHOAL_TRY(plan_run(q, r, &l));
  shoal_status st = rank_words(q, r, program, &words);
  if (st == SHOAL_OK) *code = shoal_launcher_run(&l, &words, NULL).code;
  shoal_texts_free(&words);
  shoal_launcher_free(&l);
  return st;
}

/* The status that has this exit code, so that a failed run fails the study alike. */
static shoal_status status_of(int exit_code)
{
  for (int st = SHOAL_OK + 1; st < SHOAL_STATUS_COUNT; st++)
    if (shoal_status_exit_code((shoal_status)st) == exit_code) return (shoal_status)st;
  return SHOAL_ERR_COMM;
}

static shoal_status run_all(const request *q, shoal_study *s, const char *program)
{
  shoal_status failed = SHOAL_OK;
  for (size_t i = 0; i < s->n && !shoal_launcher_stop_asked(); i++) {
    shoal_study_run *r = &s->runs[i];
    int code;
    printf("%zu of %zu: %s on %d rank%s, %s%s\n", i + 1, s->n, r->method, r->ranks, r->ranks == 1 ? "" : "s",
           r->state == SHOAL_RUN_DONE ? "done already: " : "shoal watch ", r->dir);
    if (r->state == SHOAL_RUN_DONE) continue;
    SHOAL_TRY(start_run(q, r, program, &code));
    shoal_study_look(r);
    if (code == shoal_status_exit_code(SHOAL_STOPPED)) break;
    if (r->state != SHOAL_RUN_DONE && failed == SHOAL_OK)
      failed =
          SHOAL_FAIL(status_of(code), "%s ended with exit %d and is not done: see %s/log.txt; the other runs go on",
                     r->dir, code, r->dir);
  }
  return failed;
}

static shoal_status study(const request *q, shoal_study *s, const char *program)
{
  shoal_str table = { 0 };
  char word[SHOAL_WORD];
  shoal_launcher_hear_stops();
  signal(SIGPIPE, SIG_IGN); /* runs do not need their reader */
  shoal_relay_begin();
  shoal_status st = run_all(q, s, program);
  shoal_study_print(s, &table);
  printf("\n%s scaling, %s\n%sfigures: shoal report %s\n", s->weak ? "weak" : "strong", s->dir, table.text,
         shoal_shell_word(s->dir, word));
  shoal_str_free(&table);
  if (st != SHOAL_OK || all_done(s)) return st;
  return SHOAL_FAIL(SHOAL_STOPPED, "stopped on request: the same command runs what is not done yet");
}

static shoal_status show_commands(const request *q, const shoal_study *s, const char *program)
{
  for (size_t i = 0; i < s->n; i++) {
    shoal_launcher l;
    shoal_texts words = { 0 };
    shoal_str command = { 0 };
    SHOAL_TRY(plan_run(q, &s->runs[i], &l));
    shoal_status st = rank_words(q, &s->runs[i], program, &words);
    if (st == SHOAL_OK) shoal_launcher_print(&l, &words, &command);
    if (st == SHOAL_OK) printf("  %s\n", command.text);
    shoal_str_free(&command);
    shoal_texts_free(&words);
    shoal_launcher_free(&l);
    SHOAL_TRY(st);
  }
  return SHOAL_OK;
}

static shoal_status write_all(const request *q, const shoal_study *s)
{
  shoal_texts made = { 0 };
  shoal_status st = shoal_study_write(&q->study, s, 0, &made);
  shoal_texts_free(&made);
  return st;
}

shoal_status shoal_cmd_scale(int argc, char **argv)
{
  bool helped;
  shoal_args *args;
  request q = { .args = NULL };
  shoal_study s = { 0 };
  SHOAL_TRY(shoal_args_parse(&shoal_scale_help, argc, argv, &helped, &args));
  if (helped) return SHOAL_OK;
  char *program = shoal_own_program(); /* ranks must be of the same version */
  shoal_status st = read_request(args, &q);
  if (st == SHOAL_OK) st = shoal_study_open(&q.study, &s);
  if (st == SHOAL_OK && !q.submit) st = write_all(&q, &s);
  if (st == SHOAL_OK)
    st = q.submit                              ? submit_study(&q, &s)
         : shoal_args_on(args, "--only-files") ? show_commands(&q, &s, program)
                                               : study(&q, &s, program);
  shoal_study_close(&s);
  free_request(&q);
  free(program);
  return st;
}
