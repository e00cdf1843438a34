/* See job.h: the script of a batch job. */
#include "slurm/job.h"
#include "base/error.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

/* ---- times ---- */

enum { MINUTE = 60, HOUR = 3600, DAY = 86400, MOST_DAYS = 3650 };

/* "MIN", "MIN:SEC", "H:MIN:SEC", "D-H", "D-H:MIN", "D-H:MIN:SEC" */
static bool parse_slurm_time(const char *text, double *seconds)
{
  static const double plain[][3] = { { MINUTE }, { MINUTE, 1 }, { HOUR, MINUTE, 1 } };
  static const double of_days[] = { HOUR, MINUTE, 1 };
  const char *dash = strchr(text, '-'), *at = dash ? dash + 1 : text;
  double number[3] = { 0 }, days = 0;
  int n = 0, used = 0;
  if (dash && (sscanf(text, "%lf%n", &days, &used) != 1 || text + used != dash)) return false;
  if (strspn(text, "0123456789-:") != strlen(text)) return false;
  for (; n < 3 && sscanf(at, "%lf%n", &number[n], &used) == 1 && at[0] != '-'; n++) {
    at += used;
    if (*at != ':') {
      n++;
      break;
    }
    at++;
  }
  if (n == 0 || *at) return false;
  const double *unit = dash ? of_days : plain[n - 1];
  *seconds = days * DAY;
  for (int i = 0; i < n; i++) *seconds += number[i] * unit[i];
  return true;
}

shoal_status shoal_job_time(const char *text, char out[SHOAL_JOB_TIME], double *seconds)
{
  shoal_period p;
  bool good = parse_slurm_time(text, seconds);
  if (!good && strpbrk(text, "smh") && shoal_parse_period(text, &p) == SHOAL_OK && p.unit == SHOAL_PER_SECONDS) {
    *seconds = p.value;
    good = true;
  }
  SHOAL_CHECK(good && *seconds >= MINUTE && *seconds <= (double)MOST_DAYS * DAY, SHOAL_ERR_USAGE,
              "--time %s: give a time of a minute or more, as in 90min, 2h, 1:30:00 or 2-12:00:00 (days-hours)", text);
  long s = (long)(*seconds + 0.5), days = s / DAY;
  if (days)
    snprintf(out, SHOAL_JOB_TIME, "%ld-%02ld:%02ld:%02ld", days, s % DAY / HOUR, s % HOUR / MINUTE, s % MINUTE);
  else
    snprintf(out, SHOAL_JOB_TIME, "%02ld:%02ld:%02ld", s / HOUR, s % HOUR / MINUTE, s % MINUTE);
  return SHOAL_OK;
}

/* ---- the log ---- */

char *shoal_job_log(const char *output, const char *job)
{
  const size_t n = strcspn(job, "_");
  const char *element = job[n] ? job + n + 1 : NULL;
  shoal_str out = { 0 };
  for (const char *c = output; *c; c++) {
    const char kind = c[0] == '%' ? c[1] : '\0';
    if (kind == (element ? 'A' : 'j'))
      shoal_str_add(&out, "%.*s", (int)n, job);
    else if (kind == 'a' && element)
      shoal_str_add(&out, "%s", element);
    else if (kind == '%')
      shoal_str_add(&out, "%%");
    else {
      shoal_str_add(&out, "%c", *c);
      continue;
    }
    c++;
  }
  return out.text;
}

/* ---- the script ---- */

/* "#SBATCH --name=value"; sbatch takes a value in double quotes as one word. */
static void add_option(shoal_str *out, const char *name, const char *value)
{
  const char *quote = strpbrk(value, " \t'#") ? "\"" : "";
  shoal_str_add(out, "#SBATCH --%s=%s%s%s\n", name, quote, value, quote);
}

static void add_number(shoal_str *out, const char *name, int n)
{
  if (n > 0) shoal_str_add(out, "#SBATCH --%s=%d\n", name, n);
}

/* "1-4,7" */
static void add_indices(const shoal_job *j, shoal_str *out)
{
  for (size_t i = 0, last; i < j->n_elements; i = last + 1) {
    for (last = i; last + 1 < j->n_elements && j->elements[last + 1].index == j->elements[last].index + 1;) last++;
    shoal_str_add(out, i ? ",%d" : "%d", j->elements[i].index);
    if (last > i) shoal_str_add(out, "-%d", j->elements[last].index);
  }
}

static void add_array(const shoal_job *j, shoal_str *out)
{
  shoal_str_add(out, "#SBATCH --array=");
  add_indices(j, out);
  if (j->at_once) shoal_str_add(out, "%%%d", j->at_once);
  shoal_str_add(out, "\n");
}

static void add_resources(const shoal_job *j, shoal_str *out)
{
  add_number(out, "nodes", j->nodes);
  if (j->per_node)
    add_number(out, "ntasks-per-node", j->per_node);
  else
    add_number(out, "ntasks", j->ranks);
  add_number(out, "cpus-per-task", j->cores);
  if (j->time) add_option(out, "time", j->time);
  if (j->partition) add_option(out, "partition", j->partition);
  if (j->account) add_option(out, "account", j->account);
  if (j->qos) add_option(out, "qos", j->qos);
  for (size_t i = 0; j->options && i < j->options->n; i++) shoal_str_add(out, "#SBATCH %s\n", j->options->at[i]);
}

static void add_words(const shoal_texts *words, shoal_str *out)
{
  for (size_t i = 0; words && i < words->n; i++) {
    shoal_str_add(out, " ");
    shoal_str_add_word(out, words->at[i]);
  }
}

/* What each element is, before the launch. */
static void add_elements(const shoal_job *j, shoal_str *out)
{
  shoal_str_add(out,
                "# Each element is a run of its own%s.\n"
                "case $SLURM_ARRAY_TASK_ID in\n",
                j->chain ? "" : ", and is requeued alone");
  for (size_t i = 0; i < j->n_elements; i++) {
    shoal_str_add(out, "%d) set --", j->elements[i].index);
    add_words(&j->elements[i].words, out);
    shoal_str_add(out, " \"$@\" ;;\n");
  }
  shoal_str_add(out, "*) echo \"there is no element $SLURM_ARRAY_TASK_ID: this array has ");
  add_indices(j, out);
  shoal_str_add(out, "\" >&2; exit 2 ;;\nesac\n"
                     "export SHOAL_RUN_ARRAY=named # their names differ without the element's number\n\n");
}

static void add_launch(const shoal_job *j, shoal_str *out)
{
  if (j->chain)
    shoal_str_add(out, "# The next job of the chain goes on from where this one stops.\n");
  else
    shoal_str_add(
        out,
        "# A stop with a checkpoint (exit code 75) requeues the job, which goes on from there bitwise, as long as it\n"
        "# makes progress; so does a failed node, once, and a step that cannot be launched, twice. Anything else ends\n"
        "# it, and a line of its log that begins with \"job\" says why.\n");
  shoal_str_add(out, "exec ");
  shoal_str_add_word(out, j->program);
  shoal_str_add(out, " launch%s", j->chain ? "" : " --requeue");
  add_words(j->words, out);
  shoal_str_add(out, " \"$@\"\n");
}

void shoal_job_script(const shoal_job *j, shoal_str *out)
{
  shoal_str_add(out, "#!/usr/bin/env bash\n# %s on %d node%s, %d rank%s. Made by:\n#   %s\n", j->about, j->nodes,
                j->nodes == 1 ? "" : "s", j->ranks, j->ranks == 1 ? "" : "s", j->made_by);
  if ((j->words && j->words->n) || j->n_elements)
    shoal_str_add(out, "# Its paths begin in the folder where that was given: by hand, sbatch it from there.\n");
  add_option(out, "job-name", j->name);
  add_option(out, "output", j->output);
  shoal_str_add(out, "#SBATCH --open-mode=append\n");
  if (j->n_elements) add_array(j, out);
  add_resources(j, out);
  shoal_str_add(out, "#SBATCH --%srequeue\n", j->chain ? "no-" : "");
  shoal_str_add(
      out,
      "# To the ranks, %d s before the time limit (%s): all stop at the same step with a verified checkpoint.\n"
      "# With B: it would go to this script alone.\n#SBATCH --signal=USR1@%d\n\n",
      j->lead_s, j->lead_from, j->lead_s);
  for (size_t i = 0; j->setup && i < j->setup->n; i++) shoal_str_add(out, "%s\n", j->setup->at[i]);
  if (j->setup && j->setup->n) shoal_str_add(out, "\n");
  if (j->n_elements) add_elements(j, out);
  add_launch(j, out);
}
