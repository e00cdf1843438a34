/* Requests to stop: how a rank hears them, and what the start says about them.  Signals are in stop.c, the agreement on a
 * step is in meet.c.
 *
 *   start         every agreement of all ranks is a place to stop; long work between two of them asks (base/interrupt.h)
 *   training      the meeting after a step
 *   evaluation    after every batch
 *
 * A request goes to all ranks at once, as a notice that each passes on while it computes or waits for others; so the ranks
 * that have no signal of their own do not work to the end of a stage that another has left. */
#include "base/interrupt.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pause.h"
#include "base/process.h"
#include "slurm/job.h"
#include "train/session.h"
#include "train/stop.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool shoal_session_heard(shoal_session *s)
{
  if (shoal_stop_requested()) return true;
  if (!s->ears.spread) return false;
  (void)shoal_world_progress(s->run.world); /* an error is kept by what is in flight */
  return shoal_rendezvous_requested(s->ears.spread) != 0;
}

static bool heard(void *session)
{
  return shoal_session_heard(session);
}

/* Launchers send TERM to the ranks that live when one has died, and kill them a second later: that is no wish to stop.  The lowest
 * that lives says so in status.json, at once. */
static bool lost_a_rank(shoal_session *s)
{
  bool lower_lives;
  shoal_error before, loss;
  if (s->ears.looked) return s->ears.lost;
  s->ears.looked = true;
  shoal_error_take(&before);
  shoal_status st = shoal_world_check_peers(s->run.world, &lower_lives);
  s->ears.lost = st != SHOAL_OK;
  shoal_error_take(&loss);
  if (st == SHOAL_ERR_COMM && !lower_lives && s->world.started && shoal_folder_is_ours(&s->world.folder))
    (void)shoal_session_status(s, "failed", shoal_status_exit_code(st), loss.text);
  (void)shoal_error_put(&before);
  return s->ears.lost;
}

/* For the listener, which asks whenever this rank makes progress, also in a long step: the requests of others are known to the
 * folder as soon as they come. */
static bool asked_here(void *session)
{
  shoal_session *s = session;
  bool here = shoal_stop_requested();
  bool asked = here || shoal_rendezvous_requested(s->ears.spread);
  if (asked && !lost_a_rank(s)) shoal_folder_hear(&s->world.folder);
  return here;
}

shoal_status shoal_session_open_ears(shoal_session *s)
{
  s->ears.drops = true;
  shoal_interrupt_arm(heard, s);
  if (shoal_world_size(s->run.world) == 1) return SHOAL_OK;
  SHOAL_TRY(shoal_rendezvous_create(s->run.control, "stop", &s->ears.spread));
  shoal_rendezvous_listen(s->ears.spread, asked_here, s);
  return SHOAL_OK;
}

void shoal_session_close_ears(shoal_session *s)
{
  shoal_interrupt_arm(NULL, NULL);
  shoal_rendezvous_destroy(s->ears.spread);
  s->ears.spread = NULL;
}

void shoal_session_begin(shoal_session *s)
{
  s->ears.drops = false;
  shoal_interrupt_arm(NULL, NULL);
}

shoal_status shoal_session_may_go_on(shoal_session *s)
{
  SHOAL_CHECK(!s->ears.drops || !shoal_session_heard(s), SHOAL_STOPPED, "a signal asked to stop");
  return SHOAL_OK;
}

shoal_status shoal_session_agree(shoal_session *s, shoal_status st)
{
  if (st == SHOAL_OK) st = shoal_session_may_go_on(s);
  st = shoal_group_agree(s->run.control, st);
  if (st == SHOAL_STOPPED) s->meet.agreed = true;
  return st;
}

/* A lower bound: the slowest save of this attempt, else of the last one, or the bytes at a conservative 100 MB/s. */
static double save_estimate_s(const shoal_session *s)
{
  double bytes = (double)s->model.form.params->n * sizeof(float) * (2 + s->model.form.optim->slots);
  double measured = s->record.save_s > 0 ? s->record.save_s : s->world.folder.lead.save_s;
  return SHOAL_MAX(measured, bytes / 100e6);
}

/* Of the steps so far; 0: none yet. */
static double own_step_s(const shoal_session *s)
{
  uint64_t steps = s->run.step - s->clock.first_step;
  return steps ? shoal_worked_since(s->clock.started_ns) / (double)steps : 0;
}

static double step_s(const shoal_session *s)
{
  double own = own_step_s(s);
  return own > 0 ? own : s->world.folder.lead.step_s;
}

/* The most steps of a rank from a request to the stop: two of the rank furthest ahead, to which the others come up. */
static uint64_t stop_steps(const shoal_session *s)
{
  const shoal_meet_policy *m = &s->run.meet;
  uint64_t most = SHOAL_MAX(SHOAL_MEET_LONGEST + SHOAL_MEET_SLACK, 2 * m->lag);
  return m->apart > 1 ? 2 + SHOAL_MIN(m->apart, most) : 2;
}

/* "two", "up to 10" */
static const char *format_stop_steps(const shoal_session *s, const char *up_to, char *out, size_t cap)
{
  uint64_t n = stop_steps(s);
  if (n == 2)
    snprintf(out, cap, "two steps");
  else
    snprintf(out, cap, "%s%llu step%s", up_to, (unsigned long long)n, n == 1 ? "" : "s");
  return out;
}

void shoal_session_note_lead(shoal_session *s)
{
  shoal_folder_measure(&s->world.folder, own_step_s(s), s->record.save_s);
}

void shoal_session_tell_stop(shoal_session *s)
{
  char step[32], save[32], steps[48];
  bool asked = shoal_stop_requested() || (s->ears.spread && shoal_rendezvous_requested(s->ears.spread));
  if (s->ears.told || !asked || lost_a_rank(s) || !shoal_session_is_root(s)) return;
  s->ears.told = true;
  shoal_info("%s asks to stop: up to %s of %s, and about %s for the checkpoint",
             shoal_stop_terminal_gone() ? "the terminal is gone, which" : "a signal",
             format_stop_steps(s, "", steps, sizeof steps), shoal_format_seconds(step_s(s), step, sizeof step),
             shoal_format_seconds(save_estimate_s(s), save, sizeof save));
  if (!shoal_folder_is_ours(&s->world.folder)) return;
  shoal_session_refresh_status(s, "stopping", "asked to stop by a signal; not saved yet");
}

void shoal_session_tell_saved(shoal_session *s, uint64_t step)
{
  char by[SHOAL_STOP_WORDS], reason[160];
  if (!shoal_session_is_root(s) || s->ears.saved || !shoal_folder_is_ours(&s->world.folder)) return;
  s->ears.saved = true;
  s->world.folder.ends = true;
  snprintf(reason, sizeof reason, "%s asked to stop, and the checkpoint of step %llu was written", shoal_stop_words(by),
           (unsigned long long)step);
  shoal_session_refresh_status(s, "stopped", reason);
}

/* The process of `shoal launch` that mpirun, our parent, is a child of; 0: mpirun was called otherwise. */
static long launch_process(void)
{
  char path[64], own[PATH_MAX], other[PATH_MAX];
  shoal_process mpirun;
  shoal_process_lives((long)getppid(), &mpirun);
  snprintf(path, sizeof path, "/proc/%ld/exe", mpirun.parent);
  ssize_t n = readlink("/proc/self/exe", own, sizeof own), m = readlink(path, other, sizeof other);
  return n > 0 && n == m && memcmp(own, other, (size_t)n) == 0 ? mpirun.parent : 0;
}

/* The command that sends the signal `name`: to the step, where Slurm started the ranks; to `shoal launch`; else any rank will
 * do.  Appends what there is to know of it. */
static void print_command(const shoal_session *s, const char *name, shoal_str *out, const char **more)
{
  const char *step = getenv("SLURM_STEP_ID");
  char *job = shoal_job_here(); /* of an array: this element */
  const shoal_topo *t = shoal_world_topo(s->run.world);
  bool by_mpirun = getenv("OMPI_COMM_WORLD_SIZE") != NULL; /* which srun does not set */
  long launch = by_mpirun && (t->nodes == 1 || t->pretended) ? launch_process() : 0;
  if (by_mpirun && !launch)
    *more = " (after Ctrl-C mpirun allows little more than 1 s)";
  else
    *more = launch && !shoal_stop_ignores(SHOAL_STOP_INT) ? " (Ctrl-C does the same)" : "";
  if (job && step && !by_mpirun) {
    shoal_str_add(out, "scancel --signal=%s %s.%s", name, job, step);
    if (getenv(SHOAL_REQUEUES))
      *more = " (a pause: the job is requeued and goes on; scancel --batch --signal=TERM and its number ends it)";
  } else {
    shoal_str_add(out, "kill -%s %ld", name, launch ? launch : (long)getpid());
    if (t->nodes > 1) shoal_str_add(out, " on %s", t->places[0].host);
  }
  free(job);
}

/* nohup has HUP ignored, but an mpirun with a terminal hears it all the same and ends the job, unless it is in the process group that
 * `shoal launch` makes.  A shell leaves the name of what it started. */
static void warn_of_nohup(void)
{
  static const char name[] = "/nohup";
  const char *by = getenv("_");
  size_t n = by ? strlen(by) : 0;
  if (!getenv("OMPI_COMM_WORLD_SIZE") || n < sizeof name - 1 || strcmp(by + n - (sizeof name - 1), name) != 0) return;
  shoal_process mpirun;
  shoal_process_lives((long)getppid(), &mpirun);
  if (mpirun.terminal && !launch_process())
    shoal_warn("nohup does not keep this mpirun: it ends the job when the terminal hangs up; start it by `nohup shoal "
               "launch ...` or `setsid nohup mpirun ...`, or within tmux or screen");
}

/* Of the signals that no rank ignores, the first one is offered. */
shoal_status shoal_session_offer_stop(const shoal_session *s)
{
  int64_t ignored[SHOAL_STOP_SIGNALS];
  shoal_str command = { 0 };
  char lead[32], step[32] = "", steps[48];
  const char *more;
  int first = SHOAL_STOP_SIGNALS;
  for (int i = 0; i < SHOAL_STOP_SIGNALS; i++) ignored[i] = shoal_stop_ignores(i);
  SHOAL_TRY(shoal_group_max_i64(s->run.control, ignored, SHOAL_STOP_SIGNALS));
  if (!shoal_session_is_root(s)) return SHOAL_OK;
  for (int i = SHOAL_STOP_SIGNALS; i-- > 0;)
    if (!ignored[i]) first = i;
  for (int i = SHOAL_STOP_USR1; i <= SHOAL_STOP_TERM; i++)
    if (ignored[i])
      shoal_warn(
          "%s was ignored when the run began, and stays so: it does not stop the run; see `trap` in the script that "
          "starts it",
          shoal_stop_name(i));
  warn_of_nohup();
  char limit[32];
  if (shoal_stop_cpu_limit())
    shoal_info("processor time is limited here (ulimit -t): the run stops with a checkpoint once rank 0, or another, "
               "has used %s",
               shoal_format_seconds((double)shoal_stop_cpu_limit(), limit, sizeof limit));
  if (first == SHOAL_STOP_SIGNALS) return SHOAL_OK;
  print_command(s, shoal_stop_name(first), &command, &more);
  if (step_s(s) > 0) shoal_format_seconds(step_s(s), step, sizeof step);
  shoal_info("to stop with a checkpoint: %s; allow %s%s%s%s, and %s to save%s", command.text,
             format_stop_steps(s, "up to ", steps, sizeof steps), *step ? " of " : "", step,
             *step ? ", as the start before this one took, on its ranks" : "",
             shoal_format_seconds(SHOAL_MAX(2 * save_estimate_s(s), 1), lead, sizeof lead), more);
  shoal_str_free(&command);
  return SHOAL_OK;
}
