/* The placement: which ranks share a node.  It is a pure function of all ranks' facts, so every rank computes the same
 * table.
 *
 *     facts of rank   0    1    2    3         node 0: ranks 0, 2      node 1: ranks 1, 3
 *     node id         a    b    a    b   ──►   local   0      1        local   0      1
 *
 * A pretended topology divides the ranks into nodes by a given list instead, in rank order.  Threads are still assigned
 * from the cores of the real machine. */
#include "base/mem.h"
#include "topo/topo_impl.h"
#include <stdlib.h>
#include <string.h>

/* Numbers the nodes in the order of their lowest ranks: fills node[r] for each rank and returns the number of nodes. */
static int number_nodes(const shoal_facts *all, int size, int *node, int *lowest)
{
  int nodes = 0;
  for (int r = 0; r < size; r++) {
    int k = 0;
    while (k < nodes && strcmp(all[lowest[k]].node_id, all[r].node_id) != 0) k++;
    if (k == nodes) lowest[nodes++] = r;
    node[r] = k;
  }
  return nodes;
}

/* ---- pretended topologies ---- */

static shoal_status malformed(const char *text)
{
  return SHOAL_FAIL(SHOAL_ERR_USAGE,
                    "topology \"%s\" is neither NODESxRANKS, like 2x2, nor a list of ranks per node, "
                    "like 2,1,2",
                    text);
}

/* Parses the next number >= 1, which must be followed by `stop` or the end of the text. */
static bool next_count(const char **text, char stop, int64_t *count)
{
  char digits[16];
  size_t n = strspn(*text, "0123456789");
  if (n == 0 || n >= 10 || ((*text)[n] != stop && (*text)[n] != '\0')) return false;
  memcpy(digits, *text, n);
  digits[n] = '\0';
  *text += n + ((*text)[n] != '\0');
  return shoal_parse_i64(digits, count) == SHOAL_OK && *count >= 1;
}

/* Fills node[r] for a pretended topology. */
static shoal_status pretend_nodes(const char *text, int size, int *node, int *nodes)
{
  int64_t count, per_node = 0, total = 0, n = 0;
  const char *at = text;
  bool grid = strchr(text, 'x') != NULL;
  if (grid) {
    if (!next_count(&at, 'x', &n) || !next_count(&at, '\0', &per_node) || *at) return malformed(text);
    total = n * per_node;
    for (int r = 0; r < size; r++) node[r] = (int)(r / per_node);
  } else {
    size_t length = strlen(text);
    if (length == 0 || text[length - 1] == ',') return malformed(text);
    while (*at) {
      if (!next_count(&at, ',', &count)) return malformed(text);
      for (int64_t r = total; r < total + count && r < size; r++) node[r] = (int)n;
      total += count;
      n++;
    }
  }
  SHOAL_CHECK(total == size, SHOAL_ERR_USAGE, "topology \"%s\" is for %lld ranks, this run has %d", text,
              (long long)total, size);
  *nodes = (int)n;
  return SHOAL_OK;
}

/* Ranks of a node share memory, so a pretended node must not span hosts.  `first` is scratch space. */
static shoal_status check_within_hosts(const char *text, const shoal_facts *all, int size, const int *node,
                                       const int *shown, int *first)
{
  for (int r = size - 1; r >= 0; r--) first[shown[r]] = r;
  for (int r = 0; r < size; r++) {
    int other = first[shown[r]];
    SHOAL_CHECK(node[r] == node[other], SHOAL_ERR_USAGE,
                "topology \"%s\" puts rank %d (host %s) and rank %d (host %s) on one node, but ranks of a node share "
                "memory: pretend nodes that lie within one host each, or start fewer hosts",
                text, other, all[other].host, r, all[r].host);
  }
  return SHOAL_OK;
}

/* ---- the table ---- */

static void fill_place(shoal_place *p, const shoal_facts *f, int rank, int node)
{
  p->rank = rank;
  p->node = node;
  p->pid = f->pid;
  p->cores = f->cores;
  memcpy(p->host, f->host, sizeof p->host);
  memcpy(p->cpu_list, f->cpu_list, sizeof p->cpu_list);
  memcpy(p->numa_list, f->numa_list, sizeof p->numa_list);
}

static void number_locals(shoal_place *places, int size, int nodes, int *count)
{
  memset(count, 0, (size_t)nodes * sizeof *count);
  for (int r = 0; r < size; r++) places[r].local_rank = count[places[r].node]++;
  for (int r = 0; r < size; r++) places[r].local_size = count[places[r].node];
}

shoal_status shoal_topo_create(const shoal_facts *all, int size, const char *pretend, shoal_topo **out)
{
  int *node = NULL, *shown = NULL, *count = NULL;
  shoal_status st;
  SHOAL_CHECK(size >= 1, SHOAL_ERR_ARG, "a topology of %d ranks", size);
  shoal_topo *t = calloc(1, sizeof *t);
  SHOAL_CHECK(t, SHOAL_ERR_MEM, "topology");
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)size, &t->places), end);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)size, &node), end);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)size, &shown), end);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)size, &count), end);
  t->size = size;
  t->pretended = pretend != NULL;
  t->nodes = number_nodes(all, size, node, count);
  memcpy(shown, node, (size_t)size * sizeof *node);
  if (pretend) {
    SHOAL_TRY_GOTO(st, pretend_nodes(pretend, size, shown, &t->nodes), end);
    SHOAL_TRY_GOTO(st, check_within_hosts(pretend, all, size, node, shown, count), end);
  }
  for (int r = 0; r < size; r++) {
    fill_place(&t->places[r], &all[r], r, shown[r]);
    t->places[r].threads = shoal_topo_threads(all, size, r);
  }
  number_locals(t->places, size, t->nodes, count);
  *out = t;
  t = NULL;
end:
  free(node);
  free(shown);
  free(count);
  shoal_topo_destroy(t);
  return st;
}

void shoal_topo_destroy(shoal_topo *t)
{
  if (!t) return;
  free(t->places);
  free(t);
}

shoal_link shoal_topo_link(const shoal_topo *t, int rank_a, int rank_b)
{
  if (rank_a == rank_b) return SHOAL_LINK_SELF;
  return t->places[rank_a].node == t->places[rank_b].node ? SHOAL_LINK_NODE : SHOAL_LINK_BETWEEN;
}
