/* Output of the placement as text and JSON.
 *
 * The full table has a row per rank.  That is too long for the log of a large run, so there consecutive nodes of the
 * same layout (equal numbers of ranks, cores and threads) share a row.  placement.json always lists every rank. */
#include "base/mem.h"
#include "topo/topo_impl.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 16, LIST_MAX = 64 };

static const char *or_dash(const char *text)
{
  return *text ? text : "-";
}

static const char *gpu_of(const shoal_place *p)
{
  return p->gpu ? p->gpu->id : "";
}

static void print_head(const shoal_topo *t, shoal_str *out)
{
  shoal_str_add(out, "%d rank%s on %d node%s%s%s\n", t->size, t->size == 1 ? "" : "s", t->nodes,
                t->nodes == 1 ? "" : "s", t->pretended ? ", pretended" : "",
                t->planned ? ", planned, not applied" : "");
}

/* The column of GPUs is there if a rank has one. */
void shoal_topo_print(const shoal_topo *t, shoal_str *out)
{
  int width = 4, device = 0;
  char pid[16];
  for (int r = 0; r < t->size; r++) {
    width = SHOAL_MAX(width, (int)strlen(t->places[r].host));
    device = SHOAL_MAX(device, (int)strlen(gpu_of(&t->places[r])));
  }
  const char *gap = device ? "  " : "";
  print_head(t, out);
  shoal_str_add(out, "%6s  %5s  %5s  %-*s  %7s  %5s  %7s  %-*s%s%-5s %s\n", "rank", "node", "local", width, "host",
                "pid", "cores", "threads", device, device ? "device" : "", gap, "numa", "cpus");
  for (int r = 0; r < t->size; r++) {
    const shoal_place *p = &t->places[r];
    snprintf(pid, sizeof pid, "%d", p->pid);
    shoal_str_add(out, "%6d  %5d  %5d  %-*s  %7s  %5d  %7d  %-*s%s%-5s %s\n", r, p->node, p->local_rank, width, p->host,
                  p->pid ? pid : "-", p->on->cores, p->on->threads, device, gpu_of(p), gap, or_dash(p->on->numa_list),
                  or_dash(p->on->cpu_list));
  }
}

/* ---- the ranks of each node ---- */

typedef struct {
  int *ranks; /* [size] ranks grouped by node, ascending within a node */
  int *first; /* [nodes + 1] index in `ranks` of each node's first rank */
} by_node;

static void free_by_node(by_node *b)
{
  free(b->ranks);
  free(b->first);
}

static shoal_status sort_by_node(const shoal_topo *t, by_node *out)
{
  by_node b = { 0 };
  shoal_status st = SHOAL_ALLOC((size_t)t->size, &b.ranks);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)t->nodes + 1, &b.first);
  for (int r = 0; st == SHOAL_OK && r < t->size; r++) b.first[t->places[r].node + 1]++;
  for (int node = 0; st == SHOAL_OK && node < t->nodes; node++) b.first[node + 1] += b.first[node];
  for (int r = 0; st == SHOAL_OK && r < t->size; r++) b.ranks[b.first[t->places[r].node] + t->places[r].local_rank] = r;
  if (st != SHOAL_OK) free_by_node(&b);
  *out = b;
  return st;
}

static bool same_layout(const shoal_topo *t, const by_node *b, int node, int other)
{
  const int *x = &b->ranks[b->first[node]], *y = &b->ranks[b->first[other]];
  int n = b->first[node + 1] - b->first[node];
  if (n != b->first[other + 1] - b->first[other]) return false;
  for (int i = 0; i < n; i++) {
    const shoal_place *p = &t->places[x[i]], *q = &t->places[y[i]];
    if (p->on->cores != q->on->cores || p->on->threads != q->on->threads) return false;
  }
  return true;
}

/* "4", or "2-4" if low and high differ. */
static const char *format_range(int low, int high, char *text, size_t cap)
{
  if (low == high)
    snprintf(text, cap, "%d", low);
  else
    snprintf(text, cap, "%d-%d", low, high);
  return text;
}

/* Prints one row for the nodes [from, to), which have the same layout. */
static void print_nodes(const shoal_topo *t, const by_node *b, int from, int to, shoal_str *out)
{
  char nodes[32], cores[32], threads[32], ranks[LIST_MAX], hosts[2 * SHOAL_HOST_MAX + 8];
  const shoal_place *p = &t->places[b->ranks[b->first[from]]], *last = &t->places[b->ranks[b->first[to - 1]]];
  int low[2] = { p->on->cores, p->on->threads }, high[2] = { p->on->cores, p->on->threads };
  hwloc_bitmap_t all = hwloc_bitmap_alloc();
  for (int i = b->first[from]; i < b->first[to]; i++) {
    const shoal_place *q = &t->places[b->ranks[i]];
    low[0] = SHOAL_MIN(low[0], q->on->cores);
    high[0] = SHOAL_MAX(high[0], q->on->cores);
    low[1] = SHOAL_MIN(low[1], q->on->threads);
    high[1] = SHOAL_MAX(high[1], q->on->threads);
    if (all) hwloc_bitmap_set(all, (unsigned)b->ranks[i]);
  }
  snprintf(hosts, sizeof hosts, "%s%s%s", p->host, to - from > 1 ? " .. " : "", to - from > 1 ? last->host : "");
  if (all) shoal_topo_list_bits(all, ranks, sizeof ranks);
  shoal_str_add(out, "%11s  %14d  %9s  %9s  %-24s  %s\n", format_range(from, to - 1, nodes, sizeof nodes),
                b->first[from + 1] - b->first[from], format_range(low[0], high[0], cores, sizeof cores),
                format_range(low[1], high[1], threads, sizeof threads), hosts, all ? ranks : "?");
  hwloc_bitmap_free(all);
}

void shoal_topo_print_short(const shoal_topo *t, shoal_str *out)
{
  by_node b;
  if (t->size <= MOST_ROWS || sort_by_node(t, &b) != SHOAL_OK) {
    shoal_topo_print(t, out);
    return;
  }
  print_head(t, out);
  shoal_str_add(out, "%11s  %14s  %9s  %9s  %-24s  %s\n", "node", "ranks per node", "cores", "threads", "hosts",
                "ranks");
  for (int from = 0, to = 0; from < t->nodes; from = to) {
    for (to = from + 1; to < t->nodes && same_layout(t, &b, from, to);) to++;
    print_nodes(t, &b, from, to, out);
  }
  free_by_node(&b);
}

void shoal_topo_print_groups(const shoal_topo *t, shoal_str *out)
{
  by_node b;
  int smallest = t->size;
  if (sort_by_node(t, &b) != SHOAL_OK) return;
  for (int node = 0; node < t->nodes; node++) {
    shoal_str_add(out, "group node %d:", node);
    for (int i = b.first[node]; i < b.first[node + 1]; i++) shoal_str_add(out, " %d", b.ranks[i]);
    shoal_str_add(out, "\n");
    smallest = SHOAL_MIN(smallest, b.first[node + 1] - b.first[node]);
  }
  for (int l = 0; l < smallest; l++) {
    shoal_str_add(out, "group across %d:", l);
    for (int node = 0; node < t->nodes; node++) shoal_str_add(out, " %d", b.ranks[b.first[node] + l]);
    shoal_str_add(out, "\n");
  }
  free_by_node(&b);
}

/* ---- JSON ---- */

/* Writes the topology with the places on a node, or all. */
static void put_rows(const shoal_topo *t, int node, bool all, shoal_json *j, const char *key)
{
  shoal_json_object(j, key);
  shoal_json_int(j, "size", t->size);
  shoal_json_int(j, "nodes", t->nodes);
  shoal_json_bool(j, "pretended", t->pretended);
  shoal_json_bool(j, "applied", !t->planned);
  shoal_json_array(j, "places");
  for (int r = 0; r < t->size; r++) {
    const shoal_place *p = &t->places[r];
    if (!all && p->node != node) continue;
    shoal_json_object(j, NULL);
    shoal_json_int(j, "rank", r);
    shoal_json_int(j, "node", p->node);
    shoal_json_int(j, "local_rank", p->local_rank);
    shoal_json_int(j, "local_size", p->local_size);
    shoal_json_string(j, "host", p->host);
    shoal_json_int(j, "pid", p->pid);
    shoal_json_int(j, "cores", p->on->cores);
    shoal_json_int(j, "threads", p->on->threads);
    shoal_json_string(j, "cpus", p->on->cpu_list);
    shoal_json_string(j, "numa", p->on->numa_list);
    if (p->gpu) shoal_json_string(j, "device", p->gpu->id);
    shoal_json_end(j);
  }
  shoal_json_end(j);
  shoal_json_end(j);
}

void shoal_topo_put_json(const shoal_topo *t, shoal_json *j, const char *key)
{
  put_rows(t, 0, true, j, key);
}

void shoal_topo_put_json_node(const shoal_topo *t, int node, shoal_json *j, const char *key)
{
  put_rows(t, node, false, j, key);
}
