/* `shoal trace show`: the split as a table, a line per rank and one for the run, and the bytes per link class.
 *
 * Shares are of the time accounted for, which is the steps plus input, checkpoint and evaluation between them, so the
 * columns of a line add up to 100 %.  The run's line averages the ranks; the slowest rank is named, because in a
 * synchronous method it is the one all others wait for. */
#include "base/mem.h"
#include "base/str.h"
#include "trace/trace_impl.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  char *host;
  int rank;
  size_t attempts;
  uint64_t steps;
  double step_s, accounted_s, overhead_s;
  double seconds[SHOAL_TRACE_KIND_COUNT]; /* STEP excepted: what the columns show */
  uint64_t involuntary_switches;
  shoal_counters counters;
} line;

/* The columns, in the order of a step. */
static const struct {
  shoal_trace_kind kind;
  const char *title;
} columns[] = {
  { SHOAL_TRACE_FORWARD, "forward" },       { SHOAL_TRACE_BACKWARD, "backward" },
  { SHOAL_TRACE_OPTIMIZER, "optimizer" },   { SHOAL_TRACE_WAIT, "exposed exchange" },
  { SHOAL_TRACE_INPUT, "input" },           { SHOAL_TRACE_CHECKPOINT, "checkpoint" },
  { SHOAL_TRACE_EVALUATION, "evaluation" }, { SHOAL_TRACE_OTHER, "other" },
};

static double share(const line *l, shoal_trace_kind kind)
{
  return l->accounted_s > 0 ? 100 * l->seconds[kind] / l->accounted_s : 0;
}

static double step_ms(const line *l)
{
  return l->steps ? 1e3 * l->step_s / (double)l->steps : 0;
}

static double overhead_percent(const line *l)
{
  return l->accounted_s > 0 ? 100 * l->overhead_s / l->accounted_s : 0;
}

static void add_counters(shoal_counters *to, const shoal_counters *c)
{
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) {
    to->payload[link] += c->payload[link];
    to->wire[link] += c->wire[link];
    to->messages[link] += c->messages[link];
  }
}

static shoal_status read_line(const char *path, line *l)
{
  shoal_trace_data *d;
  shoal_trace_parts p;
  SHOAL_TRY(shoal_trace_read(path, &d));
  shoal_trace_split_parts(d, &p);
  *l = (line){ .rank = d->info.rank, .attempts = d->attempts, .steps = p.steps, .counters = d->counters };
  l->host = shoal_strdup_printf("%s", d->info.host);
  l->step_s = l->accounted_s = p.inside[SHOAL_TRACE_STEP];
  for (int kind = 0; kind < SHOAL_TRACE_KIND_COUNT; kind++) {
    l->seconds[kind] = p.inside[kind] + p.between[kind];
    l->accounted_s += p.between[kind];
  }
  for (size_t i = 0; i < d->attempts; i++) {
    l->overhead_s += (double)d->attempt_rows[i].overhead_ns * 1e-9;
    l->involuntary_switches += d->attempt_rows[i].involuntary_switches;
  }
  shoal_trace_data_destroy(d);
  return SHOAL_OK;
}

/* The run: sums of all ranks, so that shares and step times come out as means over ranks by time and by step. */
static line add_up(const line *ranks, size_t n, size_t *slowest)
{
  line all = { .rank = -1 };
  *slowest = 0;
  for (size_t i = 0; i < n; i++) {
    all.steps += ranks[i].steps;
    all.step_s += ranks[i].step_s;
    all.accounted_s += ranks[i].accounted_s;
    all.overhead_s += ranks[i].overhead_s;
    all.involuntary_switches += ranks[i].involuntary_switches;
    for (int kind = 0; kind < SHOAL_TRACE_KIND_COUNT; kind++) all.seconds[kind] += ranks[i].seconds[kind];
    add_counters(&all.counters, &ranks[i].counters);
    if (step_ms(&ranks[i]) > step_ms(&ranks[*slowest])) *slowest = i;
  }
  return all;
}

/* ---- text ---- */

static void print_line(const char *name, const line *l, uint64_t steps, FILE *out)
{
  fprintf(out, "%6s  %8llu  %9.3f", name, (unsigned long long)steps, step_ms(l));
  for (size_t c = 0; c < SHOAL_COUNT(columns); c++)
    fprintf(out, "  %*.1f %%", (int)SHOAL_MAX(strlen(columns[c].title), (size_t)7) - 2, share(l, columns[c].kind));
  fputc('\n', out);
}

static void print_links(const shoal_counters *c, FILE *out)
{
  char payload[32], wire[32];
  fprintf(out, "\n%-8s  %12s  %12s  %12s\n", "link", "payload", "wire", "messages");
  for (int link = 0; link < SHOAL_LINK_COUNT; link++)
    fprintf(out, "%-8s  %12s  %12s  %12llu\n", shoal_link_name((shoal_link)link),
            shoal_format_bytes((double)c->payload[link], payload, sizeof payload),
            shoal_format_bytes((double)c->wire[link], wire, sizeof wire), (unsigned long long)c->messages[link]);
}

static void print_text(const line *ranks, size_t n, FILE *out)
{
  size_t slowest;
  char name[16];
  line all = add_up(ranks, n, &slowest);
  fprintf(out, "%6s  %8s  %9s", "rank", "steps", "step ms");
  for (size_t c = 0; c < SHOAL_COUNT(columns); c++) fprintf(out, "  %7s", columns[c].title);
  fputc('\n', out);
  for (size_t i = 0; i < n; i++) {
    snprintf(name, sizeof name, "%d", ranks[i].rank);
    print_line(name, &ranks[i], ranks[i].steps, out);
  }
  print_line("mean", &all, all.steps / n, out);
  fprintf(out, "\nslowest: rank %d on %s, %.3f ms per step, %+.1f %% to the mean\n", ranks[slowest].rank,
          ranks[slowest].host, step_ms(&ranks[slowest]),
          step_ms(&all) > 0 ? 100 * (step_ms(&ranks[slowest]) / step_ms(&all) - 1) : 0);
  fprintf(out, "tracing took %.2f %%; %.2f involuntary switches per step%s\n", overhead_percent(&all),
          all.steps ? (double)all.involuntary_switches / (double)all.steps : 0,
          all.steps && all.involuntary_switches > 2 * all.steps ? ": more threads than cores, waits are contended"
                                                                : "");
  print_links(&all.counters, out);
}

/* ---- JSON ---- */

static void add_json(shoal_str *s, const line *l)
{
  shoal_str_add(s, "\"steps\": %llu, \"step_ms\": %.6f, \"step_s\": %.9f, \"accounted_s\": %.9f, \"seconds\": {",
                (unsigned long long)l->steps, step_ms(l), l->step_s, l->accounted_s);
  for (int kind = 0; kind < SHOAL_TRACE_STEP; kind++)
    shoal_str_add(s, "%s\"%s\": %.9f", kind ? ", " : "", shoal_trace_kind_name((shoal_trace_kind)kind),
                  l->seconds[kind]);
  shoal_str_add(s, "}, \"share_percent\": {");
  for (size_t c = 0; c < SHOAL_COUNT(columns); c++)
    shoal_str_add(s, "%s\"%s\": %.3f", c ? ", " : "", shoal_trace_kind_name(columns[c].kind),
                  share(l, columns[c].kind));
  shoal_str_add(s, "}, \"overhead_percent\": %.4f, \"involuntary_switches\": %llu, \"links\": {", overhead_percent(l),
                (unsigned long long)l->involuntary_switches);
  for (int link = 0; link < SHOAL_LINK_COUNT; link++)
    shoal_str_add(s, "%s\"%s\": {\"payload\": %llu, \"wire\": %llu, \"messages\": %llu}", link ? ", " : "",
                  shoal_link_name((shoal_link)link), (unsigned long long)l->counters.payload[link],
                  (unsigned long long)l->counters.wire[link], (unsigned long long)l->counters.messages[link]);
  shoal_str_add(s, "}");
}

static void print_json(const line *ranks, size_t n, FILE *out)
{
  size_t slowest;
  shoal_str s = { 0 };
  line all = add_up(ranks, n, &slowest);
  shoal_str_add(&s, "{\"ranks\": [\n");
  for (size_t i = 0; i < n; i++) {
    shoal_str_add(&s, "  {\"rank\": %d, \"host\": ", ranks[i].rank);
    shoal_str_add_json(&s, ranks[i].host);
    shoal_str_add(&s, ", \"attempts\": %zu, ", ranks[i].attempts);
    add_json(&s, &ranks[i]);
    shoal_str_add(&s, "}%s\n", i + 1 < n ? "," : "");
  }
  shoal_str_add(&s, "], \"run\": {\"ranks\": %zu, \"slowest_rank\": %d, \"slowest_step_ms\": %.6f, ", n,
                ranks[slowest].rank, step_ms(&ranks[slowest]));
  add_json(&s, &all);
  shoal_str_add(&s, "}}\n");
  fputs(s.text, out);
  shoal_str_free(&s);
}

shoal_status shoal_trace_show(const char *const *paths, size_t n, bool json, FILE *out)
{
  line *ranks = NULL;
  size_t read = 0;
  shoal_status st = SHOAL_OK;
  SHOAL_CHECK(n > 0, SHOAL_ERR_USAGE, "there is no trace to show: name its files, one per rank");
  SHOAL_TRY(SHOAL_ALLOC(n, &ranks));
  while (read < n && st == SHOAL_OK) {
    st = read_line(paths[read], &ranks[read]);
    if (st == SHOAL_OK) read++;
  }
  if (st == SHOAL_OK) (json ? print_json : print_text)(ranks, n, out);
  for (size_t i = 0; i < read; i++) free(ranks[i].host);
  free(ranks);
  return st;
}
