/* See job_flags.h. */
#include "cli/job_flags.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/run_file.h"
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_LEAD_S = 120, LEAST_LEAD_S = 60, MARGIN_S = 30, MOST = 1 << 20 };

/* ---- the files ---- */

static const shoal_option site_options[] = {
  { "partition", SHOAL_OPT_STRING, "", NULL, NULL, "Slurm's partition.", NULL },
  { "account", SHOAL_OPT_STRING, "", NULL, NULL, "Whom jobs are charged to.", NULL },
  { "qos", SHOAL_OPT_STRING, "", NULL, NULL, "Slurm's quality of service.", NULL },
  { "time", SHOAL_OPT_STRING, "", NULL, NULL, "Time limit of a job.", NULL },
  { "per_node", SHOAL_OPT_INT, "1", "ranks", "[1,1048576]", "Ranks of each node.", NULL },
  { "cores", SHOAL_OPT_INT, "0", "CPUs", "[0,1048576]", "Cores of each rank; 0: Slurm's default.", NULL },
  { "lead", SHOAL_OPT_INT, "0", "s", "[0,86400]", "Of the signal before the time limit; 0: what saving takes.", NULL },
  { "sbatch", SHOAL_OPT_WORDS, "", NULL, NULL, "More options of sbatch, such as --exclusive.", NULL },
  { "setup", SHOAL_OPT_WORDS, "", NULL, NULL, "Lines of shell before the launch, such as module load shoal.", NULL },
  { .name = NULL }
};

static char *file_in(const char *folder, size_t n)
{
  char *path = shoal_strdup_printf("%.*s/shoal/submit.yaml", (int)n, folder);
  if (access(path, F_OK) == 0) return path;
  free(path);
  return NULL;
}

static char *site_file(void)
{
  const char *dirs = getenv("XDG_CONFIG_DIRS");
  char *found = NULL;
  for (const char *dir = dirs && *dirs ? dirs : "/etc/xdg"; *dir && !found;) {
    size_t n = strcspn(dir, ":");
    if (n) found = file_in(dir, n);
    dir += n + (dir[n] == ':');
  }
  if (found) return found;
  char *program = shoal_own_program(), *etc; /* PREFIX/bin/shoal */
  etc = shoal_strdup_printf("%.*s../etc", (int)(shoal_path_base(program) - program), program);
  found = file_in(etc, strlen(etc));
  free(etc);
  free(program);
  return found;
}

static char *user_file(void)
{
  const char *own = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
  if (own && *own) return file_in(own, strlen(own));
  if (!home || !*home) return NULL;
  char *dir = shoal_strdup_printf("%s/.config", home), *found = file_in(dir, strlen(dir));
  free(dir);
  return found;
}

static shoal_status read_files(shoal_job_request *r)
{
  static const shoal_option_table table[] = { { "submit", site_options } };
  shoal_settings *s;
  shoal_status st = SHOAL_OK;
  r->files[0] = site_file();
  r->files[1] = user_file();
  SHOAL_TRY(shoal_settings_create(&s));
  for (size_t i = 0; i < SHOAL_COUNT(r->files) && st == SHOAL_OK; i++)
    if (r->files[i]) st = shoal_settings_read(s, r->files[i]);
  if (st == SHOAL_OK) st = shoal_config_create(s, table, SHOAL_COUNT(table), &r->site);
  shoal_settings_destroy(s);
  return st;
}

/* ---- flags, or else the files ---- */

shoal_status shoal_flag_number(const shoal_args *a, const char *flag, int *out)
{
  int64_t n = 0;
  const char *text = shoal_args_value(a, flag);
  *out = 0;
  if (!text) return SHOAL_OK;
  SHOAL_CHECK(shoal_parse_i64(text, &n) == SHOAL_OK && n >= 1 && n <= MOST, SHOAL_ERR_USAGE,
              "%s %s: must be a whole number, 1 or more", flag, *text ? text : "\"\"");
  *out = (int)n;
  return SHOAL_OK;
}

/* A line of the script is one line, and what is in quotes ends where they end. */
static shoal_status check_line(const char *what, const char *text)
{
  SHOAL_CHECK(!text || !strpbrk(text, "\n\r"), SHOAL_ERR_USAGE, "%s has more than one line: give one", what);
  return SHOAL_OK;
}

static shoal_status choose_text(const shoal_args *a, const shoal_job_request *r, const char *flag, const char **out)
{
  const char *given = shoal_args_value(a, flag), *site = shoal_config_string(r->site, flag + 2);
  *out = given ? given : *site ? site : NULL;
  SHOAL_CHECK(!*out || !strchr(*out, '"'), SHOAL_ERR_USAGE, "%s %s: sbatch takes no quotes there", flag, *out);
  return check_line(flag, *out);
}

/* The name of a file in an option of sbatch, "--output=logs/%j.out", "-o logs/%j.out" or "-ologs/%j.out"; NULL: it is another one. */
static const char *file_of_option(const char *option, const char *name, char letter)
{
  const size_t n = strlen(name);
  const char *value = NULL;
  if (strncmp(option, "--", 2) == 0 && strncmp(option + 2, name, n) == 0 && option[2 + n] &&
      strchr("= ", option[2 + n]))
    value = option + 3 + n;
  else if (option[0] == '-' && option[1] == letter)
    value = option + 2;
  return value ? value + strspn(value, " ") : NULL;
}

static shoal_status add_option(shoal_job_request *r, const char *option)
{
  const char *output = file_of_option(option, "output", 'o'), *error = file_of_option(option, "error", 'e');
  SHOAL_TRY(check_line("--sbatch", option));
  SHOAL_CHECK(option[0] == '-', SHOAL_ERR_USAGE,
              "--sbatch %s: give an option of sbatch with its dashes, as in --sbatch=--exclusive", option);
  if (output) r->output = output;
  if (error) r->error = error;
  return output ? SHOAL_OK : shoal_texts_add(&r->options, option);
}

static shoal_status add_lists(const shoal_args *a, shoal_job_request *r)
{
  const char *const *words;
  size_t n = shoal_config_words(r->site, "setup", &words);
  for (size_t i = 0; i < n; i++) {
    SHOAL_TRY(check_line("setup", words[i]));
    SHOAL_TRY(shoal_texts_add(&r->setup, words[i]));
  }
  n = shoal_config_words(r->site, "sbatch", &words);
  for (size_t i = 0; i < n; i++) SHOAL_TRY(add_option(r, words[i]));
  n = shoal_args_list(a, "--sbatch", &words);
  for (size_t i = 0; i < n; i++) SHOAL_TRY(add_option(r, words[i]));
  return SHOAL_OK;
}

/* --dependency=afterok:12:13 */
static shoal_status add_dependency(const shoal_args *a, shoal_job_request *r)
{
  const char *const *lists;
  size_t n = shoal_args_list(a, "--after", &lists);
  shoal_str option = { 0 };
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; i < n && st == SHOAL_OK; i++) {
    if (!*lists[i] || strspn(lists[i], "0123456789_,") != strlen(lists[i]))
      st = SHOAL_FAIL(SHOAL_ERR_USAGE, "--after %s: give the numbers of jobs, as in --after 1201,1202", lists[i]);
    for (const char *at = lists[i]; *at && st == SHOAL_OK; at += strcspn(at, ","), at += *at == ',')
      shoal_str_add(&option, "%s:%.*s", option.len ? "" : "--dependency=afterok", (int)strcspn(at, ","), at);
  }
  if (st == SHOAL_OK && option.len) st = shoal_texts_add(&r->dependency, option.text);
  shoal_str_free(&option);
  return st;
}

static shoal_status read_request(const shoal_args *a, shoal_job_request *r)
{
  const char *time;
  shoal_job *j = &r->job;
  SHOAL_TRY(read_files(r));
  SHOAL_TRY(choose_text(a, r, "--partition", &j->partition));
  SHOAL_TRY(choose_text(a, r, "--account", &j->account));
  SHOAL_TRY(choose_text(a, r, "--qos", &j->qos));
  SHOAL_TRY(choose_text(a, r, "--time", &time));
  if (time) {
    SHOAL_TRY(shoal_job_time(time, r->time, &r->time_s));
    j->time = r->time;
  }
  SHOAL_TRY(shoal_flag_number(a, "--cores", &j->cores));
  if (!j->cores) j->cores = (int)shoal_config_int(r->site, "cores");
  SHOAL_TRY(shoal_flag_number(a, "--lead", &r->lead_s));
  if (!r->lead_s) r->lead_s = (int)shoal_config_int(r->site, "lead");
  SHOAL_TRY(shoal_flag_number(a, "--at-once", &j->at_once));
  SHOAL_TRY(add_lists(a, r));
  j->options = &r->options;
  j->setup = &r->setup;
  return add_dependency(a, r);
}

shoal_status shoal_job_request_read(const shoal_args *a, shoal_job_request *out)
{
  *out = (shoal_job_request){ .site = NULL };
  return read_request(a, out);
}

void shoal_job_request_free(shoal_job_request *r)
{
  shoal_config_destroy(r->site);
  free(r->files[0]);
  free(r->files[1]);
  shoal_texts_free(&r->options);
  shoal_texts_free(&r->setup);
  shoal_texts_free(&r->dependency);
}

int shoal_job_request_per_node(const shoal_job_request *r)
{
  return (int)shoal_config_int(r->site, "per_node");
}

/* ---- the lead of the signal ---- */

/* A JSON file of this folder; NULL if there is none that can be read.  The caller lets it go. */
static json_t *file_of(const char *folder, const char *name)
{
  char *path = shoal_path_join(folder, name);
  json_t *j = NULL;
  shoal_error before;
  shoal_error_take(&before);
  if (shoal_path_exists(path) && shoal_json_read_file(path, &j) != SHOAL_OK) j = NULL;
  (void)shoal_error_put(&before);
  free(path);
  return j;
}

/* What a stop of the run in this folder takes, as its last start has measured it: docs/runs.md.  0: not known. */
static double measured_stop(const char *folder)
{
  json_t *status = file_of(folder, "status.json");
  const json_t *lead = json_object_get(status, "lead");
  double step = json_number_value(json_object_get(lead, "step_s")),
         save = json_number_value(json_object_get(lead, "save_s")), stop = 0;
  if (save > 0) stop = 2 * (SHOAL_MAX(step, 0) + save);
  json_decref(status);
  return isfinite(stop) && stop < MOST ? stop : 0;
}

/* Ranks and nodes of the last start of the run in this folder.  0: not known. */
static void layout_of(const char *folder, long long *ranks, long long *nodes)
{
  json_t *placement = file_of(folder, "placement.json");
  *ranks = json_integer_value(json_object_get(placement, "size"));
  *nodes = json_integer_value(json_object_get(placement, "nodes"));
  json_decref(placement);
}

/* With other ranks and nodes a step and a checkpoint take another time. */
static void tell_lead(shoal_job_request *r, const char *folder)
{
  const char *by = r->lead_s ? "as asked for" : folder ? "from what an earlier start needed to save" : "default";
  long long ranks = 0, nodes = 0;
  if (!r->lead_s && folder) layout_of(folder, &ranks, &nodes);
  if (ranks > 0 && nodes > 0 && (ranks != r->job.ranks || nodes != r->job.nodes))
    snprintf(r->lead_from, sizeof r->lead_from,
             "from what an earlier start needed to save, with %lld rank%s on %lld node%s; --lead sets another", ranks,
             ranks == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s");
  else
    snprintf(r->lead_from, sizeof r->lead_from, "%s", by);
  r->job.lead_from = r->lead_from;
}

shoal_status shoal_job_request_lead(shoal_job_request *r, const shoal_texts *folders)
{
  double most = 0;
  const char *folder = NULL; /* of the run that needs most */
  for (size_t i = 0; i < folders->n; i++) {
    double stop = measured_stop(folders->at[i]);
    if (stop <= most) continue;
    most = stop;
    folder = folders->at[i];
  }
  r->job.lead_s = r->lead_s ? r->lead_s : folder ? (int)SHOAL_MAX(ceil(most) + MARGIN_S, LEAST_LEAD_S) : DEFAULT_LEAD_S;
  tell_lead(r, folder);
  SHOAL_CHECK(r->time_s == 0 || r->time_s > r->job.lead_s, SHOAL_ERR_USAGE,
              "--time %s is not longer than the %d s before the limit at which the run stops (%s): give a longer "
              "--time, or another --lead",
              r->time, r->job.lead_s, r->job.lead_from);
  return SHOAL_OK;
}

/* ---- writing and submitting ---- */

char *shoal_program_name(void)
{
  char *own = shoal_own_program(), *found = NULL;
  const char *path = getenv("PATH");
  for (const char *dir = path ? path : ""; *dir && !found;) {
    size_t n = strcspn(dir, ":");
    found = shoal_strdup_printf("%.*s/shoal", (int)n, dir);
    if (access(found, X_OK) != 0) {
      free(found);
      found = NULL;
    }
    dir += n + (dir[n] == ':');
  }
  char *real = found ? realpath(found, NULL) : NULL;
  bool same = real && strcmp(real, own) == 0;
  free(real);
  free(found);
  if (!same) return own;
  free(own);
  return shoal_strdup_printf("shoal");
}

/* A relative name is one of the working folder here, which is that of the job. */
static void put_log(const char *output, shoal_json *j)
{
  char *here = *output == '/' ? NULL : getcwd(NULL, 0), *log = here ? shoal_path_join(here, output) : NULL;
  shoal_json_string(j, "log", log ? log : output);
  free(log);
  free(here);
}

/* job.json of job.sbatch: for `shoal status`, until the run tells more itself. */
static shoal_status write_record(const char *script, const shoal_texts *jobs, const shoal_job_request *r,
                                 const shoal_texts *elements)
{
  char now[40], *path = shoal_strdup_printf("%.*s.json", (int)(strlen(script) - strlen(".sbatch")), script);
  shoal_json j = { .lines = 1 };
  shoal_json_object(&j, NULL);
  shoal_json_array(&j, "jobs");
  for (size_t i = 0; i < jobs->n; i++) shoal_json_string(&j, NULL, jobs->at[i]);
  shoal_json_end(&j);
  shoal_json_string(&j, "time", shoal_wall_clock(now, sizeof now));
  put_log(r->job.output, &j);
  if (r->epochs) shoal_json_int(&j, "epochs", r->epochs);
  if (r->steps) shoal_json_int(&j, "steps", r->steps);
  if (r->resume) shoal_json_string(&j, "resume", r->resume);
  if (r->study_ranks) shoal_json_int(&j, "study_ranks", r->study_ranks);
  if (elements) {
    shoal_json_array(&j, "elements");
    for (size_t i = 0; i < elements->n; i++) {
      shoal_json_object(&j, NULL);
      shoal_json_int(&j, "index", r->job.elements[i].index);
      shoal_json_string(&j, "run", elements->at[i]);
      shoal_json_end(&j);
    }
    shoal_json_end(&j);
  }
  shoal_json_end(&j);
  shoal_status st = shoal_write_file(path, j.text.text, j.text.len);
  shoal_str_free(&j.text);
  free(path);
  return st;
}

static bool has_job(const json_t *record, const char *job, size_t n)
{
  const json_t *jobs = json_object_get(record, "jobs");
  bool has = false;
  for (size_t i = 0; i < json_array_size(jobs); i++) {
    const char *id = json_string_value(json_array_get(jobs, i));
    has = has || (id && strlen(id) == n && strncmp(id, job, n) == 0);
  }
  return has;
}

/* The script of an array, job*.sbatch in its folder; by its record if that says so, else the only one.  NULL: not known. */
static char *script_of_array(const char *folder, const char *job)
{
  struct dirent **found = NULL;
  size_t scripts = 0;
  bool sure = false;
  char *script = NULL;
  int n = scandir(folder, &found, NULL, alphasort);
  for (int i = 0; i < n; i++) {
    const char *name = found[i]->d_name, *end = strrchr(name, '.');
    if (!sure && strncmp(name, "job", 3) == 0 && end && strcmp(end, ".sbatch") == 0) {
      char *record = shoal_strdup_printf("%.*s.json", (int)(end - name), name);
      json_t *j = file_of(folder, record);
      sure = has_job(j, job, strcspn(job, "_"));
      free(script);
      script = shoal_path_join(folder, name);
      scripts++;
      json_decref(j);
      free(record);
    }
    free(found[i]);
  }
  free(found);
  if (sure || scripts == 1) return script;
  free(script);
  return NULL;
}

char *shoal_job_again(const char *job, const char *dir)
{
  const char *element = strchr(job, '_');
  char word[SHOAL_WORD];
  if (!element) return shoal_strdup_printf("submit it again");
  const char *base = shoal_path_base(dir);
  char *folder = base > dir ? shoal_strdup_printf("%.*s", (int)(base - dir - 1), dir) : shoal_strdup_printf("."),
       *script = script_of_array(folder, job),
       *again = script
                    ? shoal_strdup_printf("sbatch --array=%s %s", element + 1, shoal_shell_word(script, word))
                    : shoal_strdup_printf("submit this element again, sbatch --array=%s and its script", element + 1);
  free(script);
  free(folder);
  return again;
}

static shoal_status submit_chain(shoal_job_request *r, const char *script, int chain, shoal_texts *jobs)
{
  char *id = NULL;
  for (int i = 0; i < chain; i++) {
    SHOAL_TRY(shoal_job_submit(script, &r->dependency, &id));
    SHOAL_TRY(shoal_texts_take(jobs, id));
    shoal_texts_free(&r->dependency);
    SHOAL_TRY(shoal_texts_take(&r->dependency, shoal_strdup_printf("--dependency=afterany:%s", id)));
  }
  return SHOAL_OK;
}

/* Of this job, or of an element of it. */
static char *log_of(const shoal_job *j, const char *job, size_t element)
{
  char *id = shoal_strdup_printf(j->n_elements ? "%s_%d" : "%s", job, j->n_elements ? j->elements[element].index : 0),
       *log = shoal_job_log(j->output, id);
  free(id);
  return log;
}

static void tell(const shoal_job_request *r, const char *folder, const char *script, const shoal_texts *jobs)
{
  const shoal_job *j = &r->job;
  char word[SHOAL_WORD];
  for (size_t i = 0; i < SHOAL_COUNT(r->files); i++)
    if (r->files[i]) printf("defaults of %s\n", r->files[i]);
  for (size_t i = 0; i < jobs->n; i++)
    printf("job %s: %s on %d node%s, %d rank%s%s\n", jobs->at[i], j->about, j->nodes, j->nodes == 1 ? "" : "s",
           j->ranks, j->ranks == 1 ? "" : "s", i ? ", after the one before" : "");
  if (j->n_elements)
    printf("%zu element%s with a folder in %s each\n", j->n_elements, j->n_elements == 1 ? "" : "s", folder);
  char *first = log_of(j, jobs->at[0], 0),
       *last = log_of(j, jobs->at[jobs->n - 1], j->n_elements ? j->n_elements - 1 : 0);
  const bool several = strcmp(first, last) != 0;
  printf("script %s, log%s %s%s%s; shoal status %s\n", script, several ? "s" : "", first, several ? " to " : "",
         several ? last : "", shoal_shell_word(folder, word));
  free(first);
  free(last);
}

/* Slurm makes no folders: it ends a job at once whose log has none, without a word. */
static shoal_status make_folder_of(const char *file, shoal_texts *made)
{
  const char *base = file ? shoal_path_base(file) : NULL;
  if (!base || base == file) return SHOAL_OK;
  char *dir = shoal_strdup_printf("%.*s", (int)(base - file), file);
  shoal_status st = SHOAL_OK;
  if (strchr(dir, '%'))
    shoal_warn(
        "log %s: Slurm makes no folders, and ends a job at once whose log has none: see that there is one for each job",
        file);
  else
    st = shoal_made_dirs(dir, made);
  free(dir);
  return shoal_error_prefix(st, "the folder of the log: ");
}

shoal_status shoal_job_request_submit(shoal_job_request *r, const char *folder, const char *name, int chain,
                                      const shoal_texts *elements, shoal_texts *made)
{
  shoal_str text = { 0 };
  shoal_texts jobs = { 0 };
  char *script = shoal_path_join(folder, name);
  shoal_job_script(&r->job, &text);
  shoal_status st = shoal_made_dirs(folder, made);
  if (st == SHOAL_OK) st = make_folder_of(r->job.output, made);
  if (st == SHOAL_OK) st = make_folder_of(r->error, made);
  if (st == SHOAL_OK) st = shoal_made_file(script, &text, made);
  if (st == SHOAL_OK) st = submit_chain(r, script, chain, &jobs);
  if (jobs.n) {
    shoal_status recorded = write_record(script, &jobs, r, elements);
    if (st == SHOAL_OK) st = recorded;
    tell(r, folder, script, &jobs);
    shoal_texts_free(made);
  } else {
    shoal_made_undo(made);
  }
  shoal_texts_free(&jobs);
  shoal_str_free(&text);
  free(script);
  return st;
}
