/* See job.h: Slurm's commands.  They are asked for what only Slurm knows; what a run knows itself is in its folder. */
#include "base/env.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "slurm/job.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool shoal_in_path(const char *program)
{
  const char *path = getenv("PATH");
  for (const char *dir = path ? path : "/usr/bin:/bin"; *dir;) {
    size_t n = strcspn(dir, ":");
    char *file = shoal_strdup_printf("%.*s/%s", (int)n, dir, program);
    bool found = access(file, X_OK) == 0;
    free(file);
    if (found) return true;
    dir += n + (dir[n] == ':');
  }
  return false;
}

/* Runs a command line; adds what it prints to `out`.  Its exit code, 128 or more if a signal ended it; -1 if it cannot be run. */
static int run(const shoal_str *command, shoal_str *out)
{
  char piece[4096];
  fflush(NULL);
  FILE *f = popen(command->text, "re");
  if (!f) return -1;
  for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;) shoal_str_add(out, "%.*s", (int)n, piece);
  int how = pclose(f);
  return how < 0 ? -1 : WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

static void add_word(shoal_str *command, const char *word)
{
  if (command->len) shoal_str_add(command, " ");
  shoal_str_add_word(command, word);
}

/* ---- sbatch, scontrol ---- */

/* Whether a variable tells of the job or step that this process is in.  What people set for Slurm's commands, or for MPI, does not. */
static bool is_of_job(const char *name, size_t n)
{
  static const char *const begins[] = { "SLURM_", "SLURMD_", "PMI", "OMPI_" };
  static const char *const kept[] = { "SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT" };
  bool is = false;
  for (size_t i = 0; i < SHOAL_COUNT(begins); i++) is = is || strncmp(name, begins[i], strlen(begins[i])) == 0;
  for (size_t i = 0; i < SHOAL_COUNT(kept); i++) is = is && !(strlen(kept[i]) == n && strncmp(name, kept[i], n) == 0);
  return is && strncmp(name, "OMPI_MCA_", 9) != 0 && strncmp(name, "PMIX_MCA_", 9) != 0;
}

/* Within a job, sbatch would hand its variables on: the memory of that job, and the rank that this process is. */
static void leave_job(shoal_str *command)
{
  if (!shoal_env_get(NULL, "SLURM_JOB_ID")) return;
  add_word(command, "env");
  for (char **line = environ; *line; line++) {
    size_t n = strcspn(*line, "=");
    if (!is_of_job(*line, n)) continue;
    char *name = shoal_strdup_printf("%.*s", (int)n, *line);
    add_word(command, "-u");
    add_word(command, name);
    free(name);
  }
}

/* The option of sbatch that a variable stands for; caller frees. */
static char *option_of(const char *variable)
{
  static const char *const odd[][2] = {
    { "TIMELIMIT", "time" }, { "ARRAY_INX", "array" }, { "NO_REQUEUE", "requeue" }, { "REQUEUE", "no-requeue" }
  }; /* what it would take back */
  for (size_t i = 0; i < SHOAL_COUNT(odd); i++)
    if (strcmp(variable, odd[i][0]) == 0) return shoal_strdup_printf("%s", odd[i][1]);
  char *option = shoal_strdup_printf("%s", variable);
  for (char *p = option; *p; p++) *p = *p == '_' ? '-' : (char)tolower((unsigned char)*p);
  return option;
}

static bool script_says(const char *script, const char *option)
{
  static const char begin[] = "#SBATCH --";
  size_t n = strlen(option);
  bool says = false;
  for (const char *at = script; !says && (at = strstr(at, begin));) {
    at += sizeof begin - 1;
    says = strncmp(at, option, n) == 0 && strchr("= \n", at[n]);
  }
  return says;
}

/* sbatch takes SBATCH_TIMELIMIT and the like for more than what a script says, also where the script was written just now. */
static void leave_options(const char *path, shoal_str *command)
{
  static const char begin[] = "SBATCH_";
  char *script = NULL;
  size_t length;
  shoal_error before;
  shoal_error_take(&before);
  if (shoal_read_file(path, &script, &length) != SHOAL_OK) script = NULL; /* sbatch will say so */
  (void)shoal_error_put(&before);
  for (char **line = environ; script && *line; line++) {
    if (strncmp(*line, begin, sizeof begin - 1) != 0) continue;
    char *name = shoal_strdup_printf("%.*s", (int)strcspn(*line, "="), *line),
         *option = option_of(name + sizeof begin - 1);
    if (script_says(script, option)) {
      if (!command->len) add_word(command, "env");
      add_word(command, "-u");
      add_word(command, name);
      shoal_info("%s of the environment does not count: the script says --%s", *line, option);
    }
    free(option);
    free(name);
  }
  free(script);
}

/* The number in what sbatch prints: "12" or "12;cluster" in a line of its own, "Submitted batch job 12" where it is a site's script; those
 * print more.  NULL: none; caller frees. */
static char *number_in(const char *said)
{
  static const char words[] = "Submitted batch job ";
  char *number = NULL;
  for (const char *line = said; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
    const char *at = strncmp(line, words, sizeof words - 1) == 0 ? line + sizeof words - 1 : line;
    size_t n = strspn(at, "0123456789");
    if (n == 0 || (at == line && !strchr(";\n", at[n]))) continue;
    free(number);
    number = shoal_strdup_printf("%.*s", (int)n, at);
  }
  return number;
}

shoal_status shoal_job_submit(const char *script, const shoal_texts *more, char **id)
{
  shoal_str command = { 0 }, said = { 0 };
  shoal_status st = SHOAL_OK;
  SHOAL_CHECK(
      shoal_in_path("sbatch"), SHOAL_ERR_WORLD,
      "sbatch is not on the PATH: this is no login node of a Slurm cluster, or Slurm's bin folder is to be added");
  leave_job(&command);
  leave_options(script, &command);
  add_word(&command, "sbatch");
  add_word(&command, "--parsable");
  for (size_t i = 0; i < more->n; i++) add_word(&command, more->at[i]);
  add_word(&command, script);
  int code = run(&command, &said);
  char *number = code == 0 ? number_in(said.text) : NULL;
  if (!number && said.text) fputs(said.text, stderr);
  if (!number)
    st = SHOAL_FAIL(
        SHOAL_ERR_WORLD,
        "sbatch has not taken the job (exit %d), as it says above. If it timed out, the job may be there all the "
        "same: see squeue before you submit it again",
        code);
  else
    *id = number;
  shoal_str_free(&command);
  shoal_str_free(&said);
  return st;
}

/* The number of an array's job stands for all its elements. */
char *shoal_job_here(void)
{
  const char *array = shoal_env_get(NULL, "SLURM_ARRAY_JOB_ID"), *element = shoal_env_get(NULL, "SLURM_ARRAY_TASK_ID"),
             *job = shoal_env_get(NULL, "SLURM_JOB_ID");
  if (job && array && element) return shoal_strdup_printf("%s_%s", array, element);
  return job ? shoal_strdup_printf("%s", job) : NULL;
}

bool shoal_job_requeue(const char *id)
{
  shoal_str command = { 0 }, said = { 0 };
  shoal_str_add(&command, "scontrol requeue");
  add_word(&command, id);
  bool done = run(&command, &said) == 0;
  shoal_str_free(&command);
  shoal_str_free(&said);
  return done;
}

/* ---- squeue ---- */

enum { QUEUE_LIMIT_S = 10 };

/* The next of the fields that "|" separates; NULL where Slurm has nothing to say. */
static char *take_field(char **at)
{
  char *field = *at;
  size_t n = strcspn(field, "|");
  *at += n + (field[n] != '\0');
  field[n] = '\0';
  bool none = !*field || strcmp(field, "N/A") == 0 || strcmp(field, "None") == 0;
  return none ? NULL : shoal_strdup_printf("%s", field);
}

static shoal_status take_lines(char *text, shoal_queue *q)
{
  size_t lines = 0;
  for (const char *c = text; *c; c++) lines += *c == '\n';
  SHOAL_TRY(SHOAL_ALLOC(lines + 1, &q->at));
  for (char *line = text, *next; *line && q->n < lines; line = next) {
    size_t n = strcspn(line, "\n");
    next = line + n + (line[n] == '\n');
    line[n] = '\0';
    shoal_queued *j = &q->at[q->n++];
    j->id = take_field(&line);
    j->state = take_field(&line);
    j->start = take_field(&line);
    j->reason = take_field(&line);
    j->partition = take_field(&line);
    j->nodes = take_field(&line);
    j->limit = take_field(&line);
    j->cpus = take_field(&line);
  }
  return SHOAL_OK;
}

static int by_id(const void *a, const void *b)
{
  const shoal_queued *x = a, *y = b;
  return strcmp(x->id ? x->id : "", y->id ? y->id : "");
}

/* Why squeue has no answer: the last line of its words, which the shell has put behind what it printed. */
static char *no_answer(int code, shoal_str *said)
{
  enum { TIMED_OUT = 124, KILLED = 128 + 9 }; /* of timeout */
  if (code == TIMED_OUT || code == KILLED) return shoal_strdup_printf("no answer within %d s", QUEUE_LIMIT_S);
  if (said->len) said->text[said->len - 1] = '\0';
  const char *end = said->len ? strrchr(said->text, '\n') : NULL, *last = end ? end + 1 : said->len ? said->text : "";
  return *last ? shoal_strdup_printf("%s", last) : shoal_strdup_printf("squeue ends with %d", code);
}

/* timeout ends a group of processes: squeue may be a script.  Its warnings must not be among the lines of jobs. */
void shoal_queue_read(shoal_queue *out)
{
  shoal_str command = { 0 }, said = { 0 };
  shoal_error before;
  *out = (shoal_queue){ .asked = false };
  if (!shoal_in_path("squeue")) return;
  shoal_error_take(&before);
  shoal_str_add(&command,
                "exec 3>&1; words=$(timeout -k 1 %d squeue --noheader --array --user=%ld "
                "--format='%%i|%%T|%%S|%%r|%%P|%%D|%%l|%%C' 2>&1 >&3);"
                " code=$?; [ $code = 0 ] || printf '%%s\\n' \"$words\"; exit $code",
                QUEUE_LIMIT_S, (long)geteuid());
  int code = run(&command, &said);
  out->asked = code == 0 && (!said.text || take_lines(said.text, out) == SHOAL_OK);
  if (code != 0) out->why = no_answer(code, &said);
  if (out->n) qsort(out->at, out->n, sizeof *out->at, by_id);
  (void)shoal_error_put(&before);
  shoal_str_free(&command);
  shoal_str_free(&said);
}

const shoal_queued *shoal_queue_find(const shoal_queue *q, const char *id)
{
  shoal_queued wanted = { .id = (char *)id };
  return id && q->n ? bsearch(&wanted, q->at, q->n, sizeof *q->at, by_id) : NULL;
}

void shoal_queue_free(shoal_queue *q)
{
  for (size_t i = 0; i < q->n; i++) {
    free(q->at[i].id);
    free(q->at[i].state);
    free(q->at[i].start);
    free(q->at[i].reason);
    free(q->at[i].partition);
    free(q->at[i].nodes);
    free(q->at[i].limit);
    free(q->at[i].cpus);
  }
  free(q->at);
  free(q->why);
  *q = (shoal_queue){ .asked = false };
}

/* ---- sinfo ---- */

/* --exact: nodes of different sizes are not one line with the least of them. */
bool shoal_partition_read(const char *name, shoal_partition *out)
{
  shoal_str command = { 0 }, said = { 0 };
  *out = (shoal_partition){ .nodes = 0 };
  if (!shoal_in_path("sinfo")) return false;
  shoal_str_add(&command, "timeout -k 1 %d sinfo --noheader --exact --format='%%D|%%s|%%l|%%c' --partition",
                QUEUE_LIMIT_S);
  add_word(&command, name);
  bool read = run(&command, &said) == 0 && said.text;
  for (char *line = read ? said.text : NULL, *next; line && *line; line = next) { /* one for each kind of its nodes */
    size_t n = strcspn(line, "\n");
    next = line + n + (line[n] == '\n');
    line[n] = '\0';
    char *count = take_field(&line), *sizes = take_field(&line), *time = take_field(&line), *cpus = take_field(&line);
    const char *most = sizes ? strchr(sizes, '-') : NULL; /* "1-4", "1-infinite" */
    out->nodes += count ? strtol(count, NULL, 10) : 0;
    if (most && strtol(most + 1, NULL, 10) > 0) out->nodes = SHOAL_MIN(out->nodes, strtol(most + 1, NULL, 10));
    out->cpus = SHOAL_MAX(out->cpus, cpus ? strtol(cpus, NULL, 10) : 0);
    free(out->limit);
    out->limit = time;
    free(count);
    free(sizes);
    free(cpus);
  }
  shoal_str_free(&command);
  shoal_str_free(&said);
  return out->nodes > 0;
}
