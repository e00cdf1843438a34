/* The page of `shoal watch`: what matters most on top, the curve in the rows that are left. */
#include "base/mem.h"
#include "report/plot.h"
#include "report/watch_impl.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_COLUMNS = 160, /* longer lines are hard to read */
  LEAST_PLOT = 6,
  MOST_PLOT = 16,
  QUIET_S = 20, /* a run that lives writes status.json every 5 s */
  LISTED = 8    /* ranks that get a line each */
};

typedef struct {
  const shoal_watch *w;
  int columns, rows_left;
  bool wide;
  shoal_str *out;
} page;

/* Whole characters of UTF-8, at most `columns` of them. */
static size_t cut(const char *text, int columns)
{
  size_t n = 0;
  for (int shown = 0; text[n]; n++) {
    bool begins = ((unsigned char)text[n] & 0xc0) != 0x80;
    if (begins && shown++ == columns) break;
  }
  return n;
}

static void add_text(page *p, const char *text)
{
  shoal_str_add(p->out, "%.*s\n", (int)cut(text, p->columns), text);
  p->rows_left--;
}

__attribute__((format(printf, 2, 3))) static void add_line(page *p, const char *format, ...)
{
  char text[2048];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  add_text(p, text);
}

/* What must not be cut: in as many lines as it needs, broken between words where that can be. */
static void add_whole(page *p, const char *text)
{
  enum { MOST_LINES = 12 };
  for (int line = 0; *text && line < MOST_LINES; line++) {
    size_t n = cut(text, p->columns), end = n;
    while (text[n] && end > 0 && text[end] != ' ') end--;
    if (text[n] && end > 0) n = end;
    shoal_str_add(p->out, "%.*s\n", (int)n, text);
    p->rows_left--;
    text += n;
    text += strspn(text, " ");
  }
}

__attribute__((format(printf, 2, 3))) static void say(page *p, const char *format, ...)
{
  char text[2048], shown[4096];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  add_whole(p, shoal_show(text, shown, sizeof shown));
}

/* ---- the head ---- */

static bool says_running(const shoal_watch *w)
{
  return strcmp(w->state, "running") == 0 || strcmp(w->state, "stopping") == 0;
}

/* Its last figures are old: nothing goes on. */
static bool is_silent(const shoal_watch *w)
{
  return says_running(w) && (w->gone || w->age_s > QUIET_S);
}

static void add_title(page *p)
{
  const shoal_watch *w = p->w;
  char dir[256];
  const char *state = !is_silent(w) ? w->state : w->gone ? "dead" : "silent"; /* the words of `shoal status` */
  add_line(p, "%s: %s, attempt %d", shoal_show(w->dir, dir, sizeof dir), state, w->attempt);
  if (w->model[0])
    add_line(p, "%s, method %s, %d rank%s on %d node%s", w->model, w->method, w->ranks, w->ranks == 1 ? "" : "s",
             w->nodes, w->nodes == 1 ? "" : "s");
}

static void add_state(page *p)
{
  const shoal_watch *w = p->w;
  char age[32];
  bool runs = says_running(w);
  if (runs && w->gone && w->memory[0]) say(p, "%s", w->memory);
  if (runs && w->gone)
    say(p, "its process on this host is gone: it was killed; the same command %s",
        w->saved ? "goes on from its newest checkpoint" : "begins anew, for nothing was saved yet");
  else if (is_silent(w))
    say(p, "no sign of life for %s: it was killed, is suspended, or its host cannot reach this folder",
        shoal_format_seconds(w->age_s, age, sizeof age));
  else if (strcmp(w->state, "failed") == 0)
    say(p, "exit %d, rank %d: %s", w->exit_code, w->rank, w->reason);
  else if (strcmp(w->state, "stopped") == 0)
    say(p, "%s; the same command goes on", w->reason);
  else if (runs && w->reason[0])
    say(p, "%s", w->reason);
}

static void add_bar(page *p)
{
  enum { CELLS = 24 };
  const shoal_watch *w = p->w;
  char bar[CELLS * 4] = "", epochs[48] = "", left[32], rest[48] = "";
  if (!isfinite(w->done)) {
    add_line(p, "epoch %.0f, step %llu", w->epoch + 1, (unsigned long long)w->step);
    return;
  }
  int full = (int)floor(w->done * CELLS);
  for (int i = 0; i < CELLS; i++) strcat(bar, i < full ? (p->wide ? "█" : "#") : (p->wide ? "░" : "."));
  if (isfinite(w->epochs))
    snprintf(epochs, sizeof epochs, "epoch %.4g of %.4g, ", fmin(w->epoch + 1, ceil(w->epochs)), w->epochs);
  double left_s = w->left_s - w->age_s; /* as it was told, less the time since */
  if (strcmp(w->state, "running") == 0 && !is_silent(w) && left_s > 0)
    snprintf(rest, sizeof rest, ", %s left", shoal_format_seconds(left_s, left, sizeof left));
  add_line(p, "%s %5.1f %%  %sstep %llu%s", bar, 100 * w->done, epochs, (unsigned long long)w->step, rest);
}

/* Parts that are known, two blanks apart. */
static void add_figures(page *p)
{
  const shoal_watch *w = p->w;
  char share[16];
  shoal_str line = { 0 };
  double loss = isfinite(w->loss) || !w->train.n ? w->loss : w->train.value[w->train.n - 1];
  shoal_str_add(&line, "loss %s", isfinite(loss) ? "" : "not known yet");
  if (isfinite(loss)) shoal_str_add(&line, "%.4g", loss);
  if (isfinite(w->lr)) shoal_str_add(&line, "  lr %.4g", w->lr);
  if (isfinite(w->test_acc))
    shoal_str_add(&line, "  test accuracy %s", shoal_format_share(w->test_acc, share, sizeof share));
  if (isfinite(w->test_rmse)) shoal_str_add(&line, "  test rmse %.4g", w->test_rmse);
  if (isfinite(w->test_r2)) shoal_str_add(&line, ", R2 %.4g", w->test_r2);
  if (isfinite(w->best_acc))
    shoal_str_add(&line, "%s best %s at step %.0f", isfinite(w->test_acc) ? "," : "  accuracy",
                  shoal_format_share(w->best_acc, share, sizeof share), w->best_step);
  add_text(p, line.text);
  shoal_str_clear(&line);
  shoal_str_add(&line, "%s", "");
  if (isfinite(w->samples_per_s) && !is_silent(w)) shoal_str_add(&line, "%.0f samples/s", w->samples_per_s);
  if (isfinite(w->waiting) && w->ranks > 1 && !is_silent(w))
    shoal_str_add(&line, "  waiting %.0f %% (rank 0)", 100 * w->waiting);
  if (line.len) add_text(p, line.text);
  shoal_str_free(&line);
}

/* ---- the ranks ---- */

static double own_s(const shoal_trace_pace *r)
{
  return r->step_s - r->wait_s;
}

typedef struct {
  const shoal_trace_pace *slowest, *least, *most; /* by own work; by share of waits */
  double mean_own, low_step, high_step;
  uint64_t steps;
} spread;

static double wait_share(const shoal_trace_pace *r)
{
  return r->step_s > 0 ? (r->wait_s + r->agreement_s) / (r->step_s + r->agreement_s) : 0;
}

/* False if no rank has recorded two steps. */
static bool find_spread(const shoal_watch *w, spread *s)
{
  size_t n = 0;
  *s = (spread){ .low_step = INFINITY };
  for (size_t i = 0; i < w->n_paces; i++) {
    const shoal_trace_pace *r = &w->paces[i];
    if (!r->steps) continue;
    n++;
    s->mean_own += own_s(r);
    s->low_step = fmin(s->low_step, r->step_s);
    s->high_step = fmax(s->high_step, r->step_s);
    s->steps = SHOAL_MAX(s->steps, r->steps);
    if (!s->slowest || own_s(r) > own_s(s->slowest)) s->slowest = r;
    if (!s->least || wait_share(r) < wait_share(s->least)) s->least = r;
    if (!s->most || wait_share(r) > wait_share(s->most)) s->most = r;
  }
  s->mean_own /= (double)SHOAL_MAX(n, (size_t)1);
  return n > 0;
}

static void add_rank(page *p, const shoal_trace_pace *r, double longest)
{
  enum { CELLS = 24 };
  char bar[CELLS * 4] = "";
  int own = (int)lround(own_s(r) / longest * CELLS), all = (int)lround(r->step_s / longest * CELLS);
  for (int i = 0; i < CELLS; i++) strcat(bar, i < own ? (p->wide ? "█" : "#") : i < all ? (p->wide ? "░" : ".") : " ");
  add_line(p, "%4d %-12.12s %s %8.2f ms, waits %3.0f %%", r->rank, r->host, bar, 1e3 * r->step_s, 100 * wait_share(r));
}

static void add_ranks(page *p)
{
  const shoal_watch *w = p->w;
  spread s;
  if (w->n_paces < 2 || !find_spread(w, &s)) return;
  add_text(p, "");
  add_line(p, "%zu ranks, last %llu step%s: %.4g to %.4g ms per step", w->n_paces, (unsigned long long)s.steps,
           s.steps == 1 ? "" : "s", 1e3 * s.low_step, 1e3 * s.high_step);
  add_line(p, "slowest: rank %d on %s, %.4g ms of own work per step, %.0f %% above the mean", s.slowest->rank,
           s.slowest->host, 1e3 * own_s(s.slowest), s.mean_own > 0 ? 100 * (own_s(s.slowest) / s.mean_own - 1) : 0);
  add_line(p, "waits: rank %d least, %.0f %%; rank %d most, %.0f %%", s.least->rank, 100 * wait_share(s.least),
           s.most->rank, 100 * wait_share(s.most));
  if (w->n_paces > LISTED || p->rows_left < (int)w->n_paces + LEAST_PLOT + 1) return;
  for (size_t i = 0; i < w->n_paces; i++)
    if (w->paces[i].steps) add_rank(p, &w->paces[i], s.high_step);
}

/* ---- the curve ---- */

/* The training loss: of epochs, and where there are too few of those what was seen while watching. */
static void add_curve(page *p)
{
  const shoal_watch *w = p->w;
  const shoal_watch_curve *train = w->train.n >= 2 || w->train.n > w->live.n ? &w->train : &w->live;
  shoal_curve curves[] = { { "loss", '*', train->n, train->step, train->value },
                           { "test", 'o', w->test.n, w->test.step, w->test.value } };
  int rows = SHOAL_MIN(p->rows_left - 2, MOST_PLOT);
  shoal_str plot = { 0 };
  if (rows < LEAST_PLOT - 1) return;
  shoal_plot(curves, 2, "step", SHOAL_MIN(p->columns, 100), rows, p->wide, &plot);
  if (plot.len) {
    add_text(p, "");
    add_line(p, "%s loss%s", train == &w->train ? "training" : "rank 0's", w->test.n ? "; o: test loss" : "");
    shoal_str_add(p->out, "%s", plot.text);
  }
  shoal_str_free(&plot);
}

void shoal_watch_print(const shoal_watch *w, int columns, int rows, bool wide, shoal_str *out)
{
  page p = { w, SHOAL_MIN(columns, MOST_COLUMNS), rows > 0 ? rows : 1000, wide, out };
  add_title(&p);
  add_state(&p);
  add_text(&p, "");
  add_bar(&p);
  add_figures(&p);
  add_ranks(&p);
  add_curve(&p);
}
