/* shoal submit: a batch script for a run, or for an array of them, and sbatch. */
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/array.h"
#include "cli/cli.h"
#include "cli/job_flags.h"
#include "cli/run_file.h"
#include "cli/train_flags.h"
#include "report/runs.h"
#include "train/folder.h"
#include "train/options.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CHAIN = 100 };

static const shoal_flag flags[] = {
  { "--nodes", "-N", "NODES", SHOAL_FLAG_VALUE, "nodes of the job; default 1" },
  { "--ranks", "-n", "RANKS", SHOAL_FLAG_VALUE, "ranks in all; default: nodes times --per-node" },
  { "--per-node", NULL, "G", SHOAL_FLAG_VALUE, "ranks of each node; default 1" },
  SHOAL_JOB_FLAGS,
  { "--seeds", NULL, "1-5", SHOAL_FLAG_VALUE,
    "a job array, a run for each seed; so does --set with several values, as in --set method.name=sync,daso" },
  { "--chain", NULL, "N", SHOAL_FLAG_VALUE,
    "N jobs, each after the one before, whose run goes on in the next; for clusters that requeue nothing" },
  { "--name", NULL, "NAME", SHOAL_FLAG_VALUE, "the job's; default: run.name" },
  { "--output", "-o", "FILE", SHOAL_FLAG_VALUE, "the job's log; default: job-%j.log in the folder of the run" },
  { "--print", NULL, NULL, SHOAL_FLAG_SWITCH,
    "print the script, and submit and write nothing; without a run file one for any, sbatch SCRIPT RUN.yaml" },
  SHOAL_TRAIN_FLAGS,
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
const shoal_verb_help shoal_submit_help = {
  "shoal submit RUN.yaml -N NODES [options of jobs, options of shoal train]",
  "Writes a batch script into the folder of the run and hands it to sbatch. The run is checked first. In the job "
  "`shoal\n"
  "launch --requeue` starts the ranks. Before the time limit they stop with a checkpoint, and the job is requeued and "
  "goes\n"
  "on from there, until the run is done or makes no progress. `shoal status` shows how it goes. Defaults of a site and "
  "of\n"
  "a user are in the files submit.yaml of $XDG_CONFIG_DIRS/shoal and $XDG_CONFIG_HOME/shoal: partition, account, qos, "
  "time,\n"
  "per_node, cores, lead, sbatch (a list of options), setup (a list of lines, such as module load shoal).",
  flags,
  0,
  -1,
  "  shoal submit digits.yaml -N 4 --per-node 2 --time 2h\n"
  "  shoal submit digits.yaml -N 4 --seeds 1-5 --set method.name=sync,daso --at-once 2\n"
  "  shoal submit digits.yaml -N 4 --set optim.lr=0.05 --set run.name=slow --print\n",
};

typedef struct {
  const shoal_args *args;
  const char *run_file; /* NULL: a script for any */
  shoal_job_request r;
  shoal_array array;   /* without elements: one run */
  char *dir, *name;    /* of one run: its folder and name */
  shoal_texts folders; /* of all runs */
  int chain;           /* jobs */
  char *made_by, *program, *output;
  shoal_texts words;
  shoal_job_element *elements;
} submission;

static void free_submission(submission *s)
{
  for (size_t i = 0; s->elements && i < s->array.n; i++) shoal_texts_free(&s->elements[i].words);
  free(s->elements);
  shoal_array_free(&s->array);
  shoal_job_request_free(&s->r);
  shoal_texts_free(&s->folders);
  shoal_texts_free(&s->words);
  free(s->dir);
  free(s->name);
  free(s->made_by);
  free(s->program);
  free(s->output);
}

/* ---- what is asked for ---- */

static shoal_status check_words(submission *s)
{
  const char *const *words, *sizes[] = { "--nodes", "--ranks", "--per-node" };
  size_t n = shoal_args_words(s->args, &words);
  bool parts = false;
  for (size_t i = 0; i < n; i++) parts = parts || strcmp(words[i], ":") == 0;
  for (size_t i = 0; i < SHOAL_COUNT(sizes); i++)
    parts = parts || (shoal_args_value(s->args, sizes[i]) && strchr(shoal_args_value(s->args, sizes[i]), ':'));
  SHOAL_CHECK(!parts, SHOAL_ERR_USAGE,
              "a heterogeneous job, of several parts behind \":\", is not made: a run has the same number of cores for "
              "each rank, and its ranks are spread over one kind of nodes; submit it to one of the parts");
  SHOAL_CHECK(n <= 1, SHOAL_ERR_USAGE,
              "%s: a job is of one run file, and %s is the first; several values make an array, as "
              "in --set method.name=sync,daso",
              words[1], words[0]);
  s->run_file = n ? words[0] : NULL;
  return SHOAL_OK;
}

static shoal_status read_size(submission *s)
{
  shoal_job *j = &s->r.job;
  SHOAL_TRY(shoal_flag_number(s->args, "--nodes", &j->nodes));
  SHOAL_TRY(shoal_flag_number(s->args, "--ranks", &j->ranks));
  SHOAL_TRY(shoal_flag_number(s->args, "--per-node", &j->per_node));
  j->nodes = SHOAL_MAX(j->nodes, 1);
  SHOAL_CHECK(!j->ranks || j->ranks >= j->nodes, SHOAL_ERR_USAGE,
              "-N %d: each node needs a rank, and there %s %d; give -n %d or more, or fewer nodes", j->nodes,
              j->ranks == 1 ? "is" : "are", j->ranks, j->nodes);
  SHOAL_CHECK(!j->ranks || !j->per_node || j->ranks == j->nodes * j->per_node, SHOAL_ERR_USAGE,
              "-n %d --per-node %d: %d nodes have %d ranks then; give one of the two", j->ranks, j->per_node, j->nodes,
              j->nodes * j->per_node);
  if (j->ranks) {
    j->per_node = j->ranks % j->nodes == 0 ? j->ranks / j->nodes : 0;
    return SHOAL_OK;
  }
  if (!j->per_node) j->per_node = shoal_job_request_per_node(&s->r);
  SHOAL_CHECK(j->per_node <= (1 << 20) / j->nodes, SHOAL_ERR_USAGE, "-N %d --per-node %d: too many ranks", j->nodes,
              j->per_node);
  j->ranks = j->nodes * j->per_node;
  return SHOAL_OK;
}

static shoal_status read_chain(submission *s)
{
  SHOAL_TRY(shoal_flag_number(s->args, "--chain", &s->chain));
  SHOAL_CHECK(s->chain <= MOST_CHAIN, SHOAL_ERR_USAGE, "--chain %d: give at most %d", s->chain, MOST_CHAIN);
  s->r.job.chain = s->chain > 0;
  s->chain = SHOAL_MAX(s->chain, 1);
  return SHOAL_OK;
}

/* ---- the runs ---- */

/* Files that are not there now are rarely there when the job begins. */
static void warn_of_files(const shoal_config *c)
{
  const char *const *files;
  size_t n = shoal_config_paths(c, "data.file", &files);
  for (size_t i = 0; i < n; i++)
    if (!strpbrk(files[i], "*?[") && !shoal_path_exists(files[i]))
      shoal_warn("data.file %s is not there, as seen from here: the job will fail without it", files[i]);
}

static shoal_status one_run(submission *s, const char *const *sets, size_t n_sets)
{
  shoal_config *c;
  shoal_folder f;
  SHOAL_TRY(shoal_run_configure(s->run_file, sets, n_sets, &c));
  shoal_status st = shoal_folder_name(shoal_config_string(c, "run.dir"), shoal_config_string(c, "run.name"), &f);
  if (st == SHOAL_OK) {
    s->dir = shoal_strdup_printf("%s", f.dir);
    s->name = shoal_strdup_printf("%s", shoal_config_string(c, "run.name"));
    s->r.epochs = shoal_config_int(c, "run.epochs");
    s->r.steps = shoal_config_int(c, "run.steps");
    shoal_folder_release(&f);
    st = shoal_texts_add(&s->folders, s->dir);
  }
  if (st == SHOAL_OK && !shoal_args_on(s->args, "--print")) warn_of_files(c);
  shoal_config_destroy(c);
  return st;
}

static shoal_status all_runs(submission *s)
{
  SHOAL_TRY(shoal_array_resolve(&s->array));
  s->dir = shoal_strdup_printf("%s", s->array.dir);
  s->name = shoal_strdup_printf("%s", shoal_path_base(s->array.dir));
  SHOAL_TRY(SHOAL_ALLOC(s->array.n, &s->elements));
  for (size_t i = 0; i < s->array.n; i++) {
    s->elements[i].index = (int)i + 1;
    SHOAL_TRY(shoal_texts_take(&s->elements[i].words, shoal_array_file(&s->array, i)));
    SHOAL_TRY(shoal_texts_take(&s->folders, shoal_array_folder(&s->array, i)));
  }
  return SHOAL_OK;
}

static shoal_status find_runs(submission *s)
{
  const char *const *sets;
  size_t n = shoal_args_list(s->args, "--set", &sets);
  if (!s->run_file && n == 0) {
    SHOAL_CHECK(shoal_args_on(s->args, "--print"), SHOAL_ERR_USAGE,
                "no run file given: shoal submit RUN.yaml -N NODES; shoal submit -h explains");
    s->name = shoal_strdup_printf("shoal");
    return SHOAL_OK;
  }
  SHOAL_TRY(shoal_array_read(s->run_file, sets, n, shoal_args_value(s->args, "--seeds"), &s->array));
  SHOAL_CHECK(s->array.n || !s->r.job.at_once, SHOAL_ERR_USAGE,
              "--at-once is for an array: give --seeds, or several values");
  return s->array.n ? all_runs(s) : one_run(s, sets, n);
}

/* ---- the job ---- */

/* Options of `shoal train` for the launch.  Those of the run file that an array was made of are in the files of its elements. */
static shoal_status launch_words(submission *s)
{
  enum { MOST_FLAGS = 16 };
  shoal_flag own[MOST_FLAGS] = { { NULL } };
  size_t n = 0;
  for (const shoal_flag *f = shoal_train_flags; f->name && n < MOST_FLAGS - 1; f++)
    if (!s->array.n || strcmp(f->name, "--set") != 0) own[n++] = *f;
  if (s->run_file && !s->array.n) SHOAL_TRY(shoal_texts_add(&s->words, s->run_file));
  return shoal_args_repeat(s->args, own, &s->words);
}

/* The command that makes this script, without --print. */
static shoal_status tell_command(submission *s)
{
  shoal_texts words = { 0 };
  shoal_str text = { 0 };
  if (s->run_file) SHOAL_TRY(shoal_texts_add(&words, s->run_file));
  shoal_status st = shoal_args_repeat(s->args, flags, &words);
  shoal_str_add(&text, "shoal submit");
  for (size_t i = 0; i < words.n; i++) {
    if (strcmp(words.at[i], "--print") == 0) continue;
    shoal_str_add(&text, " ");
    shoal_str_add_word(&text, words.at[i]);
  }
  shoal_texts_free(&words);
  s->made_by = text.text;
  return st;
}

/* "%" has a meaning in names of logs. */
static char *log_name(const submission *s)
{
  const char *flag = shoal_args_value(s->args, "--output"), *given = flag ? flag : s->r.output;
  shoal_str out = { 0 };
  if (given) return shoal_strdup_printf("%s", given);
  for (const char *c = s->dir ? s->dir : ""; *c; c++) shoal_str_add(&out, *c == '%' ? "%%%%" : "%c", *c);
  shoal_str_add(&out, s->dir ? "/job-%s.log" : "job-%s.log", s->array.n ? "%A_%a" : "%j");
  return out.text;
}

static shoal_status describe(submission *s)
{
  shoal_job *j = &s->r.job;
  const char *name = shoal_args_value(s->args, "--name"), *resume = shoal_args_value(s->args, "--resume");
  if (resume && strcmp(resume, "auto") != 0) s->r.resume = resume;
  SHOAL_TRY(launch_words(s));
  SHOAL_TRY(tell_command(s));
  SHOAL_TRY(shoal_job_request_lead(&s->r, &s->folders));
  s->program = shoal_program_name();
  s->output = log_name(s);
  SHOAL_CHECK(!strpbrk(s->output, "\n\"") && !(name && strpbrk(name, "\n\"")), SHOAL_ERR_USAGE,
              "sbatch takes no quotes and no line ends in %s: give other names, --name and --output", s->output);
  j->about = s->run_file ? s->run_file : "A run";
  j->made_by = s->made_by;
  j->name = name ? name : s->name;
  j->output = s->output;
  j->program = s->program;
  j->words = &s->words;
  j->elements = s->elements;
  j->n_elements = s->array.n;
  return SHOAL_OK;
}

static shoal_status prepare(submission *s)
{
  SHOAL_TRY(check_words(s));
  SHOAL_TRY(shoal_job_request_read(s->args, &s->r));
  SHOAL_TRY(read_size(s));
  SHOAL_TRY(read_chain(s));
  SHOAL_TRY(find_runs(s));
  return describe(s);
}

/* Whether the new job waits for that one, as --after says. */
static bool waits_for(const submission *s, const char *id)
{
  const size_t n = strlen(id);
  for (size_t i = 0; i < s->r.dependency.n; i++)
    for (const char *at = strchr(s->r.dependency.at[i], ':'); at; at = strchr(at + 1, ':'))
      if (strncmp(at + 1, id, n) == 0 && (at[n + 1] == ':' || at[n + 1] == '\0')) return true;
  return false;
}

/* A job finds its run taken, where another one trains it then. */
static void warn_of_job(const submission *s, const shoal_run_facts *r, const shoal_queue *queue)
{
  for (size_t i = 0; i < r->jobs.n; i++) {
    const shoal_queued *e = shoal_queue_find(queue, r->jobs.at[i]);
    if (!e || waits_for(s, e->id)) continue;
    shoal_warn(
        "job %s (%s) has %s already: a second job that begins meanwhile trains nothing and fails; --after %s lets it "
        "begin when that has ended well, scancel takes one of them back",
        e->id, e->state ? e->state : "in the queue", r->dir, e->id);
    return;
  }
}

/* A run that has all its epochs, or steps.  The elements of an array have those that their run files say. */
static bool is_finished(const submission *s, const shoal_run_facts *r)
{
  return s->array.n ? r->life == SHOAL_LIFE_DONE : shoal_run_finished(r, (double)s->r.epochs, (double)s->r.steps);
}

/* Its job would end at once.  A checkpoint that is named is one to go back to. */
static shoal_status refuse_finished(const submission *s, const shoal_runs *known)
{
  size_t n = 0;
  char word[SHOAL_WORD];
  if (s->r.resume) return SHOAL_OK;
  for (size_t i = 0; i < known->n; i++)
    n += shoal_texts_have(&s->folders, known->at[i].dir) && is_finished(s, &known->at[i]);
  SHOAL_CHECK(n == 0 || s->array.n, SHOAL_ERR_USAGE,
              "%s is done, at epoch %g and step %.0f, so there is nothing to submit: --set run.epochs=N trains on to "
              "more, --set run.name=NAME begins another run",
              s->dir, known->at[0].epoch, known->at[0].step);
  SHOAL_CHECK(n == 0 || n < s->array.n, SHOAL_ERR_USAGE,
              "every run in %s is done, so there is nothing to submit: sbatch %s/job.sbatch --set run.epochs=N trains "
              "on to more, --set run.name=NAME begins others",
              s->dir, shoal_shell_word(s->dir, word));
  if (n) shoal_info("%zu of %zu runs in %s done already: no more than a start each", n, s->array.n, s->dir);
  return SHOAL_OK;
}

/* Of the runs that are submitted those that are done, or have a job in the queue. */
static shoal_status look_at_runs(const submission *s)
{
  shoal_runs known = { NULL };
  shoal_queue queue = { .asked = false };
  bool any = false;
  if (!shoal_path_exists(s->dir)) return SHOAL_OK;
  shoal_status st = shoal_runs_find((const char *[]){ s->dir }, 1, &known);
  if (st == SHOAL_OK) st = refuse_finished(s, &known);
  for (size_t i = 0; i < known.n; i++) any |= known.at[i].jobs.n > 0 && shoal_texts_have(&s->folders, known.at[i].dir);
  if (st == SHOAL_OK && any) shoal_queue_read(&queue);
  for (size_t i = 0; i < known.n && st == SHOAL_OK; i++)
    if (shoal_texts_have(&s->folders, known.at[i].dir)) warn_of_job(s, &known.at[i], &queue);
  shoal_queue_free(&queue);
  shoal_runs_free(&known);
  return st;
}

static shoal_status hand_over(submission *s)
{
  shoal_str text = { 0 };
  if (shoal_args_on(s->args, "--print")) {
    shoal_job_script(&s->r.job, &text);
    shoal_str_print(&text, stdout);
    shoal_str_free(&text);
    return SHOAL_OK;
  }
  SHOAL_CHECK(!shoal_working_folder_gone(), SHOAL_ERR_IO, "the working folder was removed: cd to another one");
  SHOAL_TRY(look_at_runs(s));
  shoal_texts made = { 0 };
  shoal_status st = s->array.n ? shoal_array_write(&s->array, &made) : SHOAL_OK;
  if (st == SHOAL_OK)
    return shoal_job_request_submit(&s->r, s->dir, "job.sbatch", s->chain, s->array.n ? &s->array.names : NULL, &made);
  shoal_made_undo(&made);
  return st;
}

shoal_status shoal_cmd_submit(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  submission s = { .run_file = NULL };
  SHOAL_TRY(shoal_args_parse(&shoal_submit_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  s.args = a;
  shoal_status st = prepare(&s);
  if (st == SHOAL_OK) st = hand_over(&s);
  free_submission(&s);
  shoal_args_destroy(a);
  return st;
}
