/* Summary of an attempt over its ranks: means, bytes per step, the slowest rank, load balance.
 *
 * In a synchronous method every rank's step takes as long as that of the slowest rank, so the duration does not
 * identify the slowest rank.  Waits do: it spends the most time outside waits, and waits least.
 *
 * Efficiencies are those of POP (Performance Optimisation and Productivity, pop-coe.eu), computed for the steps only:
 *
 *     U_r = forward + backward + optimizer of rank r per step          T = step duration, mean over ranks
 *     load balance = mean U / max U       communication = max U / T    parallel = mean U / T, their product
 */
#include "base/mem.h"
#include "report/trace_impl.h"
#include <math.h>
#include <stdlib.h>

static double per_step_ms(const shoal_trace_line *l, uint64_t ns)
{
  return l->steps ? (double)ns * 1e-6 / (double)l->steps : 0;
}

double shoal_trace_own_ms(const shoal_trace_line *l)
{
  uint64_t waits = l->inside.ns[SHOAL_TRACE_WAIT] + l->inside.agreement_ns, step = l->inside.ns[SHOAL_TRACE_STEP];
  return per_step_ms(l, step - SHOAL_MIN(step, waits));
}

static double compute_ms(const shoal_trace_line *l)
{
  const uint64_t *ns = l->inside.ns;
  return per_step_ms(l, ns[SHOAL_TRACE_FORWARD] + ns[SHOAL_TRACE_BACKWARD] + ns[SHOAL_TRACE_OPTIMIZER]);
}

/* A rank alone on its core has a few involuntary context switches per second; two ranks on one core, or another program beside it,
 * make some hundred. */
bool shoal_trace_is_contended(const shoal_trace_line *l)
{
  const double switches_per_second = 50;
  double limit = switches_per_second * (double)l->wall_ns * 1e-9;
  return shoal_trace_is_crowded(l) || (l->steps && (double)l->row.involuntary_switches > limit);
}

bool shoal_trace_is_crowded(const shoal_trace_line *l)
{
  return l->row.contended;
}

double shoal_trace_drift_bound_ppm(const shoal_trace_line *l)
{
  return 2e6 * l->row.clock_bound_ns / (double)l->wall_ns;
}

uint64_t shoal_trace_steps_made(const shoal_trace_line *l)
{
  return SHOAL_MAX(l->row.steps, l->steps);
}

double shoal_trace_samples_per_s(const shoal_trace_line *l)
{
  return l->pace_ns ? (double)l->pace_samples * 1e9 / (double)l->pace_ns : 0;
}

static void add_line(shoal_trace_run *r, const shoal_trace_line *l)
{
  r->lines[r->n++] = l;
  r->rank_steps += l->steps;
  r->wall_ns += l->wall_ns;
  r->exchanges += l->exchanges;
  r->exchange_bytes += l->exchange_bytes;
  r->overhead_ns += l->row.overhead_ns;
  r->involuntary_switches += l->row.involuntary_switches;
  r->batch += (uint64_t)SHOAL_MAX(l->row.batch, 0);
  r->samples += l->row.samples;
  r->samples_per_s += shoal_trace_samples_per_s(l);
  r->placed &= l->placed;
  shoal_trace_add_times(&r->inside, &l->inside);
  shoal_trace_add_times(&r->whole, &l->whole);
  bool one = l->attempt != SHOAL_TRACE_ALL; /* attempts may differ in the number of ranks and hence in bytes per step */
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) {
    uint64_t made = shoal_trace_steps_made(l);
    double steps = !one ? NAN : made ? (double)made : INFINITY; /* dividing by infinity gives 0 per step */
    r->formula[link] += l->row.formula[link];
    r->counters.payload[link] += l->row.payload[link];
    r->counters.wire[link] += l->row.wire[link];
    r->counters.messages[link] += l->row.messages[link];
    r->payload_per_step[link] += (double)l->row.payload[link] / steps;
    r->wire_per_step[link] += (double)l->row.wire[link] / steps;
    r->messages_per_step[link] += (double)l->row.messages[link] / steps;
  }
}

static void find_slowest(shoal_trace_run *r)
{
  double least = INFINITY;
  for (size_t i = 0; i < r->n; i++) {
    const shoal_trace_line *l = r->lines[i];
    if (!l->steps) continue;
    if (!r->slowest || shoal_trace_own_ms(l) > shoal_trace_own_ms(r->slowest)) r->slowest = l;
    least = SHOAL_MIN(least, per_step_ms(l, l->whole.ns[SHOAL_TRACE_WAIT]));
  }
  r->slowest_waits_least = r->slowest && per_step_ms(r->slowest, r->slowest->whole.ns[SHOAL_TRACE_WAIT]) <= least;
}

static void find_efficiencies(shoal_trace_run *r)
{
  double sum = 0, most = 0, length = 0;
  size_t n = 0;
  for (size_t i = 0; i < r->n; i++) {
    const shoal_trace_line *l = r->lines[i];
    if (!l->steps) continue;
    n++;
    sum += compute_ms(l);
    most = SHOAL_MAX(most, compute_ms(l));
    length += per_step_ms(l, l->inside.ns[SHOAL_TRACE_STEP]);
  }
  if (n == 0 || !(most > 0) || !(length > 0)) return;
  r->load_balance = sum / (double)n / most;
  r->communication = most / (length / (double)n);
  r->parallel = sum / length;
}

/* The nodes whose files hold ranks of the attempt. */
static void add_energy(const shoal_trace_table *t, int attempt, shoal_trace_joules *out)
{
  bool known = true;
  for (size_t i = 0; i < t->n_files; i++) {
    const shoal_trace_file_data *f = t->files[i];
    bool shown = f->n > 0 && (attempt == SHOAL_TRACE_ALL || f->ranks[0].info.attempt == attempt);
    if (!shown || f->n_energies == 0) continue;
    out->nodes++;
    out->packages += f->n_energies;
    out->node_cpus += (uint64_t)f->node_cpus;
    out->job_cpus += (uint64_t)f->job_cpus;
    known &= f->node_cpus > 0 && f->job_cpus > 0;
    for (size_t k = 0; k < f->n_energies; k++) out->uj += f->energies[k].uj;
  }
  if (!known) out->node_cpus = out->job_cpus = 0;
}

shoal_status shoal_trace_run_create(const shoal_trace_table *t, int attempt, shoal_trace_run *out)
{
  *out = (shoal_trace_run){ .summary = shoal_trace_table_summary(t, attempt), .placed = true };
  out->load_balance = out->communication = out->parallel = NAN;
  shoal_status st = SHOAL_ALLOC(out->summary->lines, &out->lines);
  if (st == SHOAL_OK) st = shoal_trace_mean_percentiles(out->summary, &out->median_ns, &out->p95_ns);
  for (size_t i = 0; i < t->n_lines && st == SHOAL_OK; i++)
    if (t->lines[i].attempt == attempt) add_line(out, &t->lines[i]);
  add_energy(t, attempt, &out->energy);
  if (st == SHOAL_OK && attempt != SHOAL_TRACE_ALL) {
    find_slowest(out);
    find_efficiencies(out);
  }
  if (st != SHOAL_OK) shoal_trace_run_free(out);
  return st;
}

void shoal_trace_run_free(shoal_trace_run *r)
{
  free(r->lines);
  r->lines = NULL;
}
