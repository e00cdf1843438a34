/* `trace show A B`: runs beside each other, a line per number and a column per run; as JSON, what each run has by itself.
 *
 * A run is read, reduced to its numbers and forgotten before the next one.  Nothing is averaged over runs. */
#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "report/trace_impl.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 6, NAME = 14 }; /* columns of a block, and their width */

/* The numbers, in the order of the lines: name, unit, decimals. */
#define NUMBERS(X)                                                                                                     \
  X(ATTEMPT, "attempt", "", 0)                                                                                         \
  X(RANKS, "ranks", "", 0)                                                                                             \
  X(NODES, "nodes", "", 0)                                                                                             \
  X(STEPS, "steps", "", 0)                                                                                             \
  X(BATCH, "samples in a step", "", 0)                                                                                 \
  X(STEP, "step, mean", "ms", 3)                                                                                       \
  X(MEDIAN, "step, median", "ms", 3)                                                                                   \
  X(SPEED, "samples per second", "1/s", 1)                                                                             \
  X(PARALLEL, "parallel efficiency", "%", 1)                                                                           \
  X(BALANCE, "  load balance", "%", 1)                                                                                 \
  X(COMMUNICATION, "  communication", "%", 1)                                                                          \
  X(USEFUL, "    useful share", "%", 1)                                                                                \
  X(SERIALISATION, "    serialisation", "%", 1)                                                                        \
  X(TRANSFER, "    transfer", "%", 1)                                                                                  \
  X(INPUT, "time in input", "%", 1)                                                                                    \
  X(EXPOSED, "  exposed exchange", "%", 1)                                                                             \
  X(AGREEMENT, "  agreement", "%", 1)                                                                                  \
  X(PAUSES, "  checkpoint, evaluation", "%", 1)                                                                        \
  X(OTHER, "  other", "%", 1)                                                                                          \
  X(NODE, "payload/step in nodes", "KiB", 1)                                                                           \
  X(BETWEEN, "  between nodes", "KiB", 1)                                                                              \
  X(ENERGY, "energy", "kJ", 1)                                                                                         \
  X(MEMORY, "memory of a rank, most", "MiB", 0)

#define X(id, name, unit, decimals) id,
typedef enum { NUMBERS(X) COUNT } number;
#undef X
static const struct {
  const char *name, *unit;
  int decimals;
} numbers[] = {
#define X(id, name, unit, decimals) { name, unit, decimals },
  NUMBERS(X)
#undef X
};

static double known(double value, bool is)
{
  return is ? value : NAN;
}

static double percent(const shoal_trace_run *r, uint64_t ns)
{
  return known(100 * (double)ns / (double)r->wall_ns, r->wall_ns > 0);
}

static void take_numbers(const shoal_trace_run *r, const shoal_trace_replay *x, double *out)
{
  const uint64_t *ns = r->whole.ns;
  const double kib = 1024;
  uint64_t memory = 0;
  for (size_t i = 0; i < r->n; i++) memory = SHOAL_MAX(memory, r->lines[i]->row.peak_bytes);
  out[ATTEMPT] = known(r->summary->attempt, x);
  out[RANKS] = r->summary->size;
  out[NODES] = (double)r->summary->nodes;
  out[STEPS] = (double)r->summary->max_steps;
  out[BATCH] = known((double)r->batch, r->batch > 0);
  bool one = !r->summary->mixed && r->rank_steps > 0;
  out[STEP] = known((double)r->inside.ns[SHOAL_TRACE_STEP] * 1e-6 / (double)r->rank_steps, one);
  out[MEDIAN] = known((double)r->median_ns * 1e-6, one);
  out[SPEED] = known(r->samples_per_s, one && r->samples_per_s > 0);
  out[PARALLEL] = 100 * (x ? x->parallel : NAN);
  out[BALANCE] = 100 * (x ? x->load_balance : NAN);
  out[COMMUNICATION] = 100 * (x ? x->communication : NAN);
  out[USEFUL] = 100 * (x ? x->useful_share : NAN);
  out[SERIALISATION] = 100 * (x ? x->serialisation : NAN);
  out[TRANSFER] = 100 * (x ? x->transfer : NAN);
  out[INPUT] = percent(r, ns[SHOAL_TRACE_INPUT]);
  out[EXPOSED] = percent(r, ns[SHOAL_TRACE_WAIT]);
  out[AGREEMENT] = percent(r, r->whole.agreement_ns);
  out[PAUSES] = percent(r, ns[SHOAL_TRACE_CHECKPOINT] + ns[SHOAL_TRACE_EVALUATION]);
  out[OTHER] = percent(r, ns[SHOAL_TRACE_OTHER]);
  out[NODE] = r->payload_per_step[SHOAL_LINK_NODE] / kib;
  out[BETWEEN] = r->payload_per_step[SHOAL_LINK_BETWEEN] / kib;
  out[ENERGY] = known((double)r->energy.uj * 1e-9, r->energy.packages > 0);
  out[MEMORY] = known((double)memory / (kib * kib), memory > 0);
}

/* ---- text ---- */

typedef struct {
  char name[NAME + 1];
  double values[COUNT];
} column;

static void print_value(double value, int decimals, FILE *out)
{
  if (isnan(value))
    fprintf(out, "  %*s", NAME, "-");
  else
    fprintf(out, "  %*.*f", NAME, decimals, value);
}

static void print_block(const column *columns, size_t n, FILE *out)
{
  fprintf(out, "%-30s", "");
  for (size_t i = 0; i < n; i++) fprintf(out, "  %*s", NAME, columns[i].name);
  fputc('\n', out);
  for (size_t k = 0; k < COUNT; k++) {
    fprintf(out, "%-25s %4s", numbers[k].name, numbers[k].unit);
    for (size_t i = 0; i < n; i++) print_value(columns[i].values[k], numbers[k].decimals, out);
    fputc('\n', out);
  }
}

/* The end of a long name tells more than its begin. */
static void name_column(const char *name, column *c)
{
  char clean[256];
  size_t n = strlen(shoal_show(name, clean, sizeof clean));
  memcpy(c->name, clean + (n > NAME ? n - NAME : 0), SHOAL_MIN(n, (size_t)NAME) + 1); /* with its NUL */
  if (n > NAME) c->name[0] = '~';
}

/* ---- runs ---- */

typedef struct {
  shoal_json *json; /* NULL: text */
  column *columns;
} destination;

static shoal_status add_table(const shoal_trace_table *t, const char *name, int attempt, destination *to, size_t at)
{
  shoal_trace_run r;
  shoal_trace_replay replay = { .n = 0 }, *x = attempt == SHOAL_TRACE_ALL ? NULL : &replay;
  SHOAL_TRY(shoal_trace_run_create(t, attempt, &r));
  shoal_status st = x ? shoal_trace_replay_create(t, attempt, x) : SHOAL_OK;
  if (st == SHOAL_OK && to->json) {
    shoal_trace_put_json(to->json, t, &r, x);
  } else if (st == SHOAL_OK) {
    name_column(name, &to->columns[at]);
    take_numbers(&r, x, to->columns[at].values);
  }
  shoal_trace_replay_free(&replay);
  shoal_trace_run_free(&r);
  return st;
}

static shoal_status add_run(const shoal_trace_source *run, int attempt, destination *to, size_t at)
{
  shoal_trace_table *t;
  SHOAL_TRY(shoal_trace_table_create(run->paths, run->n, &attempt, &t));
  shoal_status st = add_table(t, run->name, attempt, to, at);
  shoal_trace_table_destroy(t);
  return st;
}

shoal_status shoal_trace_compare(const shoal_trace_source *runs, size_t n, int attempt, bool as_json, FILE *out)
{
  shoal_json json = { .lines = 2, .out = out };
  destination to = { .json = as_json ? &json : NULL };
  shoal_status st = SHOAL_ALLOC(n, &to.columns);
  if (st != SHOAL_OK) return st;
  if (as_json) {
    shoal_json_object(&json, NULL);
    shoal_json_array(&json, "runs");
  }
  for (size_t i = 0; i < n && st == SHOAL_OK; i++)
    st = shoal_error_prefix(add_run(&runs[i], attempt, &to, i), "%s: ", runs[i].name);
  if (st == SHOAL_OK && as_json) {
    shoal_json_end(&json);
    shoal_json_end(&json);
    shoal_json_finish(&json);
  }
  for (size_t i = 0; i < n && st == SHOAL_OK && !as_json; i += COLUMNS) {
    if (i > 0) fputc('\n', out);
    print_block(&to.columns[i], SHOAL_MIN(n - i, (size_t)COLUMNS), out);
  }
  if (st != SHOAL_OK) shoal_str_free(&json.text);
  free(to.columns);
  return st;
}
