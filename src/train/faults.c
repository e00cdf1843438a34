/* Fault hooks for tests: options fault.*, which need --allow-faults.  No effect if none is set. */
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/rng.h"
#include "train/session.h"
#include "train/stop.h"
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Seconds of a fault hook "sleep:MS"; 0 if it is not set. */
static shoal_status read_sleep(const shoal_config *c, const char *name, double *seconds)
{
  static const char prefix[] = "sleep:";
  const char *text = shoal_config_string(c, name);
  const double most_ms = 3600e3; /* an hour: its microseconds fit usleep's 32 bits */
  double ms = 0;
  bool ok = !*text || (strncmp(text, prefix, strlen(prefix)) == 0 &&
                       shoal_parse_f64(text + strlen(prefix), &ms) == SHOAL_OK && ms >= 0 && ms <= most_ms);
  SHOAL_CHECK(ok, SHOAL_ERR_USAGE, "%s: %s is \"%s\": must be sleep:MS with MS from 0 to %.0f, for example sleep:100",
              shoal_config_origin(c, name), name, text, most_ms);
  *seconds = ms * 1e-3;
  return SHOAL_OK;
}

shoal_status shoal_session_read_faults(shoal_session *s)
{
  const shoal_config *c = s->world.config;
  static const char *const names[] = { "fault.stop_step",   "fault.kill_step", "fault.nan_step",  "fault.seed",
                                       "fault.compute",     "fault.ckpt",      "fault.lr",        "fault.rank",
                                       "fault.no_exchange", "fault.jitter",    "fault.exit_step", "fault.nan_place",
                                       "fault.start",       "fault.eval",      "fault.delay",     "fault.trace_off",
                                       "fault.end",         "fault.emulate" };
  for (size_t i = 0; i < SHOAL_COUNT(names); i++)
    SHOAL_CHECK(!shoal_config_given(c, names[i]) || s->world.args->allow_faults, SHOAL_ERR_USAGE,
                "%s is a fault hook: it needs --allow-faults on the command line", names[i]);
  s->faults = (shoal_faults){ .stop_step = -1, .kill_step = -1, .exit_step = -1, .nan_step = -1, .lr = 1 };
  s->faults.no_exchange = (uint64_t)shoal_config_int(c, "fault.no_exchange");
  s->faults.trace_off = (uint64_t)shoal_config_int(c, "fault.trace_off");
  s->faults.jitter_s = shoal_config_float(c, "fault.jitter") * 1e-3;
  s->faults.delay_s = shoal_config_float(c, "fault.delay") * 1e-3;
  bool here = shoal_config_int(c, "fault.rank") == shoal_world_rank(s->run.world);
  double compute_s, start_s, eval_s;
  SHOAL_TRY(read_sleep(c, "fault.end", &s->faults.end_s));
  SHOAL_TRY(read_sleep(c, "fault.ckpt", &s->faults.ckpt_s));
  SHOAL_TRY(read_sleep(c, "fault.compute", &compute_s));
  SHOAL_TRY(read_sleep(c, "fault.start", &start_s));
  SHOAL_TRY(read_sleep(c, "fault.eval", &eval_s));
  if (!here) return SHOAL_OK;
  s->faults.start_s = start_s;
  s->faults.eval_s = eval_s;
  s->faults.compute_s = compute_s;
  s->faults.stop_step = shoal_config_int(c, "fault.stop_step");
  s->faults.kill_step = shoal_config_int(c, "fault.kill_step");
  s->faults.exit_step = shoal_config_int(c, "fault.exit_step");
  s->faults.nan_step = shoal_config_int(c, "fault.nan_step");
  s->faults.nan_place = s->world.choice.nan_place;
  s->faults.seed = shoal_config_int(c, "fault.seed");
  s->faults.lr = (float)shoal_config_float(c, "fault.lr");
  return SHOAL_OK;
}

/* Simulates compute without using a core.  Polls exchanges as often as real compute does, and is recorded as
 * compute. */
static shoal_status pretend_compute(shoal_session *s, double seconds)
{
  const uint64_t poll_us = 1000, t0 = shoal_now_ns(), end = t0 + (uint64_t)(seconds * 1e9);
  for (uint64_t now = t0; now < end; now = shoal_now_ns()) {
    usleep((useconds_t)SHOAL_MIN((end - now) / 1000 + 1, poll_us));
    SHOAL_TRY(shoal_world_progress(s->run.world));
  }
  shoal_trace_span(s->run.trace, SHOAL_TRACE_FORWARD, s->record.op.pretended, t0, shoal_now_ns());
  return SHOAL_OK;
}

/* Seconds of this step, different on every rank and in every step, but the same in every run: uniform up to fault.jitter, and
 * exponential with the mean fault.delay. */
static double draw_delay(const shoal_session *s)
{
  shoal_rng_block r = shoal_rng(s->run.seed, SHOAL_RNG_TEST, s->run.step, (uint32_t)shoal_world_rank(s->run.world));
  double u = ((double)r.v[1] + 0.5) * 0x1p-32;
  return s->faults.jitter_s * shoal_rng_unit(r.v[0]) - s->faults.delay_s * log(u);
}

/* Once: not again when the run has gone back behind it. */
static bool spoils(const shoal_session *s)
{
  return (int64_t)s->run.step == s->faults.nan_step && s->numbers.rollbacks == 0;
}

/* Where a NaN can be put before anything is computed; gradients and losses come later. */
static shoal_status spoil(shoal_session *s, const shoal_batch *b)
{
  shoal_backend *backend = s->run.backend;
  shoal_params *p = s->run.form->params;
  shoal_window w;
  switch (s->faults.nan_place) {
  case SHOAL_FAULT_GRADIENT:
    s->numbers.spoils = true;
    return SHOAL_OK;
  case SHOAL_FAULT_WEIGHT:
    p->version++;
    return backend->ops->fill(backend, 1, NAN, p->w + p->n / 2);
  case SHOAL_FAULT_DRIFT:
    p->version++;
    SHOAL_TRY(shoal_window_open(backend, SHOAL_WINDOW_BOTH, 1, p->w + p->n / 2, &w));
    w.at[0] = nextafterf(w.at[0], 1e9f);
    return shoal_window_close(backend, &w);
  case SHOAL_FAULT_INPUT:
    if (b->n > 0 && b->x) ((float *)(uintptr_t)b->x)[0] = NAN; /* the loader's memory, which it fills anew */
    return SHOAL_OK;
  case SHOAL_FAULT_STATISTICS:
    return p->n_stats ? backend->ops->fill(backend, 1, NAN, p->stats) : SHOAL_OK;
  case SHOAL_FAULT_LOSS:
  case SHOAL_FAULT_SPIKE:
    break;
  }
  return SHOAL_OK;
}

void shoal_session_spoil_loss(const shoal_session *s, shoal_score *score)
{
  if (!spoils(s)) return;
  if (s->faults.nan_place == SHOAL_FAULT_LOSS) score->loss = NAN;
  if (s->faults.nan_place == SHOAL_FAULT_SPIKE) score->loss = score->loss * 1000 + 1000;
}

shoal_status shoal_session_delay_start(shoal_session *s)
{
  const useconds_t piece_us = 10000;
  for (uint64_t t0 = shoal_now_ns(); shoal_seconds_since(t0) < s->faults.start_s; usleep(piece_us))
    SHOAL_TRY(shoal_interrupt_check());
  return SHOAL_OK;
}

void shoal_session_delay_evaluation(const shoal_session *s)
{
  if (s->faults.eval_s > 0) usleep((useconds_t)(s->faults.eval_s * 1e6));
}

shoal_status shoal_session_act_faults(shoal_session *s, const shoal_batch *b)
{
  s->faults.left_out = s->faults.no_exchange && (s->run.step + 1) % s->faults.no_exchange == 0;
  if (s->faults.trace_off) shoal_trace_pause(s->run.trace, s->run.step / s->faults.trace_off % 2 == 1);
  if ((int64_t)s->run.step == s->faults.stop_step) {
    kill(getpid(), SIGUSR1); /* another thread hears it */
    while (!shoal_stop_ignores(SHOAL_STOP_USR1) && !shoal_stop_requested()) usleep(100);
  }
  if ((int64_t)s->run.step == s->faults.kill_step) raise(SIGKILL);
  if ((int64_t)s->run.step == s->faults.exit_step) _exit(0);
  if (spoils(s)) SHOAL_TRY(spoil(s, b));
  bool random = s->faults.jitter_s > 0 || s->faults.delay_s > 0;
  double seconds = s->faults.compute_s + (random ? draw_delay(s) : 0);
  return seconds > 0 ? pretend_compute(s, seconds) : SHOAL_OK;
}
