/* The efficiencies of an attempt as text and JSON: POP's tree, who begins last, and one sentence on what to try.
 * Definitions: docs/efficiency.md; they are computed in trace_replay.c. */
#include "base/mem.h"
#include "base/str.h"
#include "report/trace_impl.h"
#include <math.h>
#include <stdlib.h>

/* ---- the tree ---- */

static void print_leaf(const char *name, double value, const char *means, FILE *out)
{
  if (isnan(value))
    fprintf(out, "%-20s       -    %s\n", name, means);
  else
    fprintf(out, "%-20s %7.1f %%  %s\n", name, 100 * value, means);
}

static void print_tree(const shoal_trace_replay *x, FILE *out)
{
  fprintf(out, "\nefficiency of the steps (parallel = load balance x communication, and so on):\n");
  print_leaf("parallel", x->parallel, "of the time ranks compute: forward, backward, optimizer", out);
  print_leaf("  load balance", x->load_balance, "ranks compute for equally long", out);
  print_leaf("  communication", x->communication, "the one that computes longest does nothing else", out);
  print_leaf("    useful share", x->useful_share, "its own time is computing, not input or the method's work", out);
  print_leaf("    serialisation", x->serialisation, "it need not wait for others in turn", out);
  print_leaf("    transfer", x->transfer, "data need no time on their way", out);
  if (!x->replayed) fprintf(out, "the last three are not known: %s\n", x->why);
}

/* ---- who begins last ---- */

enum { KINDS_SHOWN = 6, RANKS_SHOWN = 3 };

static int by_waits(const void *a, const void *b)
{
  const shoal_trace_arrivals *const *x = a, *const *y = b;
  if ((*x)->wait_ns != (*y)->wait_ns) return (*x)->wait_ns > (*y)->wait_ns ? -1 : 1;
  return ((*x)->ahead_ns < (*y)->ahead_ns) - ((*x)->ahead_ns > (*y)->ahead_ns);
}

/* The index of the next rank that was last most often, or n.  `shown` of them were named before. */
static size_t next_last(const shoal_trace_arrivals *k, size_t n, const size_t *named, size_t shown)
{
  size_t best = n;
  for (size_t i = 0; i < n; i++) {
    bool known = k->last[i] == 0;
    for (size_t j = 0; j < shown; j++) known |= named[j] == i;
    if (!known && (best == n || k->last[i] > k->last[best])) best = i;
  }
  return best;
}

static void print_arrivals(const shoal_trace_run *r, const shoal_trace_replay *x, const shoal_trace_arrivals *k,
                           int width, FILE *out)
{
  size_t named[RANKS_SHOWN], shown = 0;
  char name[2 * SHOAL_TRACE_KIND_NAME];
  double all = (double)k->exchanges;
  shoal_show(k->name, name, sizeof name);
  fprintf(out, "%s%*s %9llu %12.3f %12.3f ", name, width - (int)shoal_text_width(name), "",
          (unsigned long long)k->exchanges, (double)k->wait_ns * 1e-9,
          k->others ? (double)k->ahead_ns * 1e-6 / (double)k->others : 0);
  for (size_t i; shown < RANKS_SHOWN && (i = next_last(k, x->n, named, shown)) < x->n; shown++) {
    fprintf(out, "%s rank %d %.0f %%", shown ? "," : "", r->lines[i]->rank, 100 * (double)k->last[i] / all);
    named[shown] = i;
  }
  if (k->undecided) fprintf(out, "%s too close to tell %.0f %%", shown ? "," : "", 100 * (double)k->undecided / all);
  fputc('\n', out);
}

static void print_all_arrivals(const shoal_trace_run *r, const shoal_trace_replay *x, FILE *out)
{
  const shoal_trace_arrivals **order = calloc(x->n_kinds + 1, sizeof *order);
  size_t n = 0;
  for (size_t i = 0; order && i < x->n_kinds; i++)
    if (x->kinds[i].exchanges > 0) order[n++] = &x->kinds[i];
  if (n > 0) {
    qsort(order, n, sizeof *order, by_waits);
    int width = 24; /* of the longest name */
    char name[2 * SHOAL_TRACE_KIND_NAME];
    for (size_t i = 0; i < n && i < KINDS_SHOWN; i++)
      width = SHOAL_MAX(width, (int)shoal_text_width(shoal_show(order[i]->name, name, sizeof name)));
    fprintf(out, "\n%-*s %9s %12s %12s  last to begin, share of the exchanges\n", width, "exchange", "number",
            "waited, s", "ahead, ms");
    for (size_t i = 0; i < n && i < KINDS_SHOWN; i++) print_arrivals(r, x, order[i], width, out);
    if (n > KINDS_SHOWN) fprintf(out, "and %zu more kinds\n", n - KINDS_SHOWN);
  }
  free(order);
}

/* ---- what to try ---- */

/* The part of all ranks' time that is in this kind, in [0, 1]. */
static double share(const shoal_trace_run *r, uint64_t ns)
{
  return r->wall_ns ? (double)ns / (double)r->wall_ns : 0;
}

static double loss(double efficiency)
{
  return isnan(efficiency) ? 0 : 1 - efficiency;
}

static const shoal_trace_line *busiest(const shoal_trace_run *r)
{
  const shoal_trace_line *most = r->lines[0];
  for (size_t i = 0; i < r->n; i++) {
    const uint64_t *a = r->lines[i]->inside.ns, *b = most->inside.ns;
    if (a[SHOAL_TRACE_FORWARD] + a[SHOAL_TRACE_BACKWARD] + a[SHOAL_TRACE_OPTIMIZER] >
        b[SHOAL_TRACE_FORWARD] + b[SHOAL_TRACE_BACKWARD] + b[SHOAL_TRACE_OPTIMIZER])
      most = r->lines[i];
  }
  return most;
}

/* The causes, in the order of their cures below. */
typedef enum { BALANCE, TURNS, TRANSFER, INPUT, AGREEMENT, PAUSES, OTHER, CAUSES } cause;

/* Without a replay, transfer stands for what waits cost beyond imbalance. */
static void find_losses(const shoal_trace_run *r, const shoal_trace_replay *x, double losses[CAUSES])
{
  const uint64_t *ns = r->whole.ns;
  losses[BALANCE] = loss(x->load_balance);
  losses[TURNS] = loss(x->serialisation);
  losses[TRANSFER] = x->replayed ? loss(x->transfer) : share(r, ns[SHOAL_TRACE_WAIT]) - losses[BALANCE];
  losses[INPUT] = share(r, ns[SHOAL_TRACE_INPUT]);
  losses[AGREEMENT] = share(r, r->whole.agreement_ns);
  losses[PAUSES] = share(r, ns[SHOAL_TRACE_CHECKPOINT] + ns[SHOAL_TRACE_EVALUATION]);
  losses[OTHER] = share(r, ns[SHOAL_TRACE_OTHER]);
}

static void advise(const shoal_trace_run *r, const shoal_trace_replay *x, char *out, size_t cap)
{
  static const char *const cures[CAUSES] = {
    [TURNS] = "fewer exchanges in turn (%.0f %% are lost to them): in a pipeline more batches under way, else larger "
              "buckets",
    [TRANSFER] =
        "fewer bytes or rarer exchanges (%.0f %% are lost to transfers): a larger batch, a 16-bit wire format, "
        "or a method that exchanges less, as local-sgd or daso",
    [INPUT] = "a faster loader (%.0f %% are lost to input): data.prefetch, fewer augmentations, a data set that is "
              "repacked or nearer",
    [AGREEMENT] = "longer steps (%.0f %% are lost to agreement, which waits for the last rank, too): a larger batch",
    [PAUSES] = "fewer pauses (%.0f %% are checkpoints and evaluations): ckpt.every, eval.every",
    [OTHER] = "why %.0f %% are none of these (column \"other\"): work of the method, logging, a slow file system",
  };
  const double little = 0.05;
  double losses[CAUSES];
  size_t worst = 0;
  bool contended = false, crowded = false;
  find_losses(r, x, losses);
  for (size_t i = 0; i < CAUSES; i++)
    if (losses[i] > losses[worst]) worst = i;
  for (size_t i = 0; i < r->n; i++) {
    contended |= shoal_trace_is_contended(r->lines[i]);
    crowded |= shoal_trace_is_crowded(r->lines[i]);
  }
  if (losses[worst] < little)
    snprintf(out, cap, "nothing here: no cause costs %.0f %%, so only a faster step of each rank helps", 100 * little);
  else if (worst <= TURNS && crowded)
    snprintf(out, cap, "fewer ranks or threads per node: ranks share cores, so that they wait for one another");
  else if (worst <= TURNS && contended)
    snprintf(out, cap, "nodes of your own: other programs take turns with ranks on their cores (top shows them)");
  else if (worst == BALANCE)
    snprintf(out, cap, "why rank %d on %s computes longest (%.0f %% are lost to it): its cores, its clock, its samples",
             busiest(r)->rank, busiest(r)->row.host, 100 * losses[worst]);
  else
    snprintf(out, cap, cures[worst], 100 * losses[worst]);
}

/* ---- text and JSON ---- */

void shoal_trace_print_efficiency(const shoal_trace_run *r, const shoal_trace_replay *x, FILE *out)
{
  char text[256], clean[512];
  if (!x || isnan(x->parallel)) return;
  print_tree(x, out);
  print_all_arrivals(r, x, out);
  advise(r, x, text, sizeof text);
  fprintf(out, "\nto try: %s\n", shoal_show(text, clean, sizeof clean));
}

static void put_number(shoal_json *j, const char *key, bool known, int64_t value)
{
  if (known)
    shoal_json_int(j, key, value);
  else
    shoal_json_null(j, key);
}

static void put_arrivals(shoal_json *j, const shoal_trace_run *r, const shoal_trace_replay *x)
{
  shoal_json_array(j, "exchanges");
  for (size_t i = 0; x && i < x->n_kinds; i++) {
    const shoal_trace_arrivals *k = &x->kinds[i];
    if (!k->exchanges) continue;
    shoal_json_object(j, NULL);
    shoal_json_string(j, "name", k->name);
    shoal_json_uint(j, "number", k->exchanges);
    shoal_json_uint(j, "wait_ns", k->wait_ns);
    shoal_json_uint(j, "ahead_ns", k->ahead_ns);
    shoal_json_uint(j, "others", k->others);
    shoal_json_uint(j, "undecided", k->undecided);
    shoal_json_array(j, "last");
    for (size_t rank = 0; rank < x->n; rank++) {
      if (!k->last[rank]) continue;
      shoal_json_object(j, NULL);
      shoal_json_int(j, "rank", r->lines[rank]->rank);
      shoal_json_uint(j, "number", k->last[rank]);
      shoal_json_end(j);
    }
    shoal_json_end(j);
    shoal_json_end(j);
  }
  shoal_json_end(j);
}

void shoal_trace_put_efficiency(shoal_json *j, const shoal_trace_run *r, const shoal_trace_replay *x)
{
  bool known = x && !isnan(x->parallel), replayed = known && x->replayed;
  char text[256];
  shoal_json_object(j, "efficiency");
  shoal_json_real(j, "parallel", known ? x->parallel : NAN);
  shoal_json_real(j, "load_balance", known ? x->load_balance : NAN);
  shoal_json_real(j, "communication", known ? x->communication : NAN);
  shoal_json_real(j, "useful_share", replayed ? x->useful_share : NAN);
  shoal_json_real(j, "serialisation", replayed ? x->serialisation : NAN);
  shoal_json_real(j, "transfer", replayed ? x->transfer : NAN);
  put_number(j, "runtime_ns", known, x ? x->runtime_ns : 0);
  put_number(j, "ideal_ns", replayed, x ? x->ideal_ns : 0);
  put_number(j, "useful_ns", known, x ? x->useful_ns : 0);
  put_number(j, "useful_most_ns", known, x ? x->most_useful_ns : 0);
  put_number(j, "own_most_ns", replayed, x ? x->most_own_ns : 0);
  put_arrivals(j, r, x);
  if (known) advise(r, x, text, sizeof text);
  if (known)
    shoal_json_string(j, "to_try", text);
  else
    shoal_json_null(j, "to_try");
  shoal_json_end(j);
}
