/* Findings of shoal doctor: gathering them, and judgements that need no communication. */
#include "base/mem.h"
#include "cli/doctor.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static shoal_finding *add(shoal_findings *f)
{
  if (f->n == f->cap) {
    f->cap = f->cap ? 2 * f->cap : 16;
    f->at = realloc(f->at, f->cap * sizeof *f->at);
    if (!f->at) abort();
  }
  memset(&f->at[f->n], 0, sizeof f->at[f->n]); /* padding too, because it is sent */
  return &f->at[f->n++];
}

void shoal_find(shoal_findings *f, const char *check, shoal_verdict v, int node, const char *format, ...)
{
  va_list args;
  shoal_finding *x = add(f);
  snprintf(x->check, sizeof x->check, "%s", check);
  x->verdict = v;
  x->node = node;
  va_start(args, format);
  vsnprintf(x->text, sizeof x->text, format, args);
  va_end(args);
}

void shoal_find_error(shoal_findings *f, const char *check, int node, shoal_status st)
{
  shoal_find(f, check, SHOAL_FAULT, node, "%s", shoal_error_text(st));
}

void shoal_findings_free(shoal_findings *f)
{
  free(f->at);
  *f = (shoal_findings){ .n = 0 };
}

static bool alike(const shoal_finding *a, const shoal_finding *b)
{
  return a->verdict == b->verdict && strcmp(a->check, b->check) == 0 && strcmp(a->text, b->text) == 0;
}

/* Leaves one of each text and node; one that is about every node is about none in particular. */
static void merge(shoal_findings *f, int nodes)
{
  size_t kept = 0;
  for (size_t i = 0; i < f->n; i++) {
    bool again = false;
    for (size_t k = 0; k < kept; k++)
      again |= alike(&f->at[k], &f->at[i]) && (f->at[k].node == f->at[i].node || f->at[k].node < 0);
    if (again) continue;
    int on = 0;
    for (int node = 0; node < nodes; node++) {
      bool there = false;
      for (size_t k = i; k < f->n && !there; k++) there = f->at[k].node == node && alike(&f->at[k], &f->at[i]);
      on += there;
    }
    if (on == nodes && f->at[i].node >= 0) f->at[i].node = -1;
    f->at[kept++] = f->at[i];
  }
  f->n = kept;
}

shoal_status shoal_findings_gather(shoal_group *g, int nodes, shoal_findings *f)
{
  int64_t n = (int64_t)f->n;
  shoal_finding *all = NULL, none = { .node = -2 };
  int size = shoal_group_size(g);
  SHOAL_TRY(shoal_group_max_i64(g, &n, 1));
  SHOAL_TRY(shoal_group_agree(g, SHOAL_ALLOC((size_t)size, &all)));
  shoal_findings found = { .n = 0 };
  shoal_status st = SHOAL_OK;
  for (int64_t i = 0; i < n && st == SHOAL_OK; i++) {
    st = shoal_group_allgather(g, i < (int64_t)f->n ? &f->at[i] : &none, sizeof none, all);
    for (int r = 0; r < size && st == SHOAL_OK; r++)
      if (all[r].node != none.node) *add(&found) = all[r];
  }
  free(all);
  shoal_findings_free(f);
  *f = found;
  merge(f, nodes);
  return st;
}

static const char *host_of(const shoal_topo *t, int node)
{
  for (int r = 0; r < t->size; r++)
    if (t->places[r].node == node) return t->places[r].host;
  return "?";
}

void shoal_findings_excluded(const shoal_findings *f, const shoal_topo *t, shoal_str *out)
{
  int bad = 0;
  for (int node = 0; node < t->nodes; node++) {
    bool faulty = false;
    for (size_t i = 0; i < f->n; i++) faulty |= f->at[i].verdict == SHOAL_FAULT && f->at[i].node == node;
    if (faulty) shoal_str_add(out, "%s%s", bad++ ? "," : "", host_of(t, node));
  }
  if (bad == t->nodes) shoal_str_clear(out);
}

size_t shoal_findings_count(const shoal_findings *f, shoal_verdict v)
{
  size_t n = 0;
  for (size_t i = 0; i < f->n; i++) n += f->at[i].verdict == (int32_t)v;
  return n;
}

/* ---- judgements ---- */

static int by_value(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

double shoal_doctor_median(const int64_t *x, int n)
{
  int64_t *sorted;
  int kept = 0;
  if (SHOAL_ALLOC((size_t)n + 1, &sorted) != SHOAL_OK) return 0;
  for (int i = 0; i < n; i++)
    if (x[i] > 0) sorted[kept++] = x[i];
  qsort(sorted, (size_t)kept, sizeof *sorted, by_value);
  double median = kept ? (double)sorted[kept / 2] : 0;
  free(sorted);
  return median;
}

int64_t shoal_doctor_load(void)
{
  double load = 0;
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  if (getloadavg(&load, 1) != 1 || cores < 1) return 0;
  return (int64_t)(100 * load / (double)cores);
}

/* Below SLOW of the median a node holds up all others. */
shoal_verdict shoal_doctor_judge_speed(double value, double median, int64_t load)
{
  static const double SLOW = 0.5, SLOW_AND_BUSY = 0.2;
  enum { FULL = 100 };
  if (value <= 0 || value >= SLOW * median) return SHOAL_WELL;
  return load > FULL && value >= SLOW_AND_BUSY * median ? SHOAL_NOTE : SHOAL_FAULT;
}

const char shoal_doctor_busy[] = "it has more to do than its cores can, so measure again when it is idle";

/* Of the rated speed one stream over TCP reaches a third or more; a tenth
 * means that MPI goes through another network than the fast one. */
void shoal_doctor_judge_links(const shoal_links *l, const shoal_topo *t, double rated, bool told, shoal_findings *f)
{
  static const double POOR = 0.3, WRONG = 0.1;
  double median = shoal_doctor_median(l->best, l->n), latency = shoal_doctor_median(l->latency, l->n);
  if (median <= 0) return;
  bool odd = false;
  for (int node = 0; node < l->n; node++) {
    const shoal_verdict v = shoal_doctor_judge_speed((double)l->best[node], median, l->load[node]);
    if (v == SHOAL_WELL) continue;
    shoal_find(f, "links", v, node,
               "no more than %.4g MB/s in both directions with any other node, where others have %.4g: %s",
               (double)l->best[node] * 1e-6, median * 1e-6,
               v == SHOAL_FAULT ? "its link, cable or port is slow" : shoal_doctor_busy);
    odd = true;
  }
  const double least = told ? 0.9 : WRONG;
  if (rated > 0 && median < least * rated)
    shoal_find(f, "links", SHOAL_FAULT, -1, "%.4g MB/s between nodes, and %s %.4g: %s", median * 1e-6,
               told ? "--expect says" : "their fastest interface is made for", rated * 1e-6,
               told ? "look at the network"
                    : "MPI goes another way than the fast network (see UCX_NET_DEVICES, OMPI_MCA_btl_tcp_if_include)");
  else if (rated > 0 && !told && median < POOR * rated)
    shoal_find(f, "links", SHOAL_NOTE, -1, "%.4g MB/s between nodes, of %.4g that their fastest interface is made for",
               median * 1e-6, rated * 1e-6);
  else if (!odd)
    shoal_find(f, "links", SHOAL_WELL, -1, "between nodes %.4g MB/s, %.4g us one way%s", median * 1e-6, latency * 1e-3,
               rated > 0 ? "" : "; what the hardware should reach is not known, --expect says it");
}

/* The clock that most nodes are near to. */
static double common_clock(const double *offset, int n, double near_s)
{
  int best = -1;
  double common = 0;
  for (int a = 0; a < n; a++) {
    int near = 0;
    for (int b = 0; b < n; b++) near += fabs(offset[a] - offset[b]) < near_s;
    if (near <= best) continue;
    best = near;
    common = offset[a];
  }
  return common;
}

void shoal_doctor_judge_clocks(const double *offset, const shoal_topo *t, shoal_findings *f)
{
  static const double LARGE_S = 0.1, WRONG_S = 5; /* make and file systems; the lease of a run */
  double common = common_clock(offset, t->nodes, LARGE_S), most = 0;
  for (int node = 0; node < t->nodes; node++) {
    double away = offset[node] - common;
    most = SHOAL_MAX(most, fabs(away));
    if (fabs(away) < LARGE_S) continue;
    shoal_find(f, "clocks", fabs(away) >= WRONG_S ? SHOAL_FAULT : SHOAL_NOTE, node,
               "its clock is %.3g s %s the others': set it by NTP (chronyc tracking)", fabs(away),
               away > 0 ? "ahead of" : "behind");
  }
  if (most < LARGE_S) shoal_find(f, "clocks", SHOAL_WELL, -1, "within %.3g ms of each other", most * 1e3);
}

void shoal_doctor_judge_equal(const char *what, const char *const *value, const shoal_topo *t, shoal_verdict odd,
                              shoal_findings *f)
{
  int most = 0, common = 0;
  for (int a = 0; a < t->nodes; a++) {
    int same = 0;
    for (int b = 0; b < t->nodes; b++) same += strcmp(value[a], value[b]) == 0;
    if (same > most) {
      most = same;
      common = a;
    }
  }
  if (most == t->nodes) return;
  bool majority = 2 * most > t->nodes;
  for (int node = 0; node < t->nodes; node++)
    if (strcmp(value[node], value[common]) != 0)
      shoal_find(f, "versions", odd, majority ? node : -1, "%s is %s on %s; %s and %d more have %s", what, value[node],
                 host_of(t, node), host_of(t, common), most - 1, value[common]);
}

/* ---- pairs ---- */

static int ring_peer(int n, int round, int i)
{
  bool last = round == (n % 2 ? 2 : 1); /* the round that closes the ring */
  if (last && (i == 0 || i == n - 1) && n > 2) return i == 0 ? n - 1 : 0;
  if (round == 2) return -1;
  int peer = i % 2 == round ? i + 1 : i - 1;
  return peer >= 0 && peer < n ? peer : -1;
}

int shoal_doctor_rounds(int n)
{
  if (n < 2) return 0;
  if (n > SHOAL_DOCTOR_TABLE) return n % 2 ? 3 : 2;
  return n % 2 ? n : n - 1;
}

/* Every pair once: in round r those whose numbers add up to 2r, by the number of rounds; who would be alone there has the member
 * that is left over. */
int shoal_doctor_peer(int n, int round, int member)
{
  int rounds = shoal_doctor_rounds(n), left_over = rounds;
  if (n > SHOAL_DOCTOR_TABLE) return ring_peer(n, round, member);
  if (rounds == 0) return -1;
  int peer = member == left_over ? round : ((2 * round - member) % rounds + rounds) % rounds;
  if (peer == member) peer = left_over;
  return peer < n ? peer : -1;
}
