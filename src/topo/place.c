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

/* ---- hosts ---- */

static uint64_t hash_of(const char *text)
{
  uint64_t hash = 14695981039346656037u;
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
  return hash;
}

/* @param slot  [slots] zeroed, a power of two and more than hosts: one more than the lowest rank of a host, where the hash of its
 *              identity says or, if that is another one's, behind it */
static void number_hosts(const shoal_facts *all, int size, int *slot, size_t slots, shoal_hosts *h)
{
  for (int r = 0; r < size; r++) {
    size_t at = (size_t)hash_of(all[r].node_id) & (slots - 1);
    while (slot[at] && strcmp(all[slot[at] - 1].node_id, all[r].node_id) != 0) at = (at + 1) & (slots - 1);
    if (!slot[at]) {
      slot[at] = r + 1;
      h->host[r] = h->hosts++;
    } else {
      h->host[r] = h->host[slot[at] - 1];
    }
    h->first[h->host[r] + 1]++;
  }
}

/* `first` holds how many ranks each host has, from [1] on; then where those of the next one begin. */
static void list_ranks(int size, shoal_hosts *h)
{
  for (int i = 1; i <= h->hosts; i++) h->first[i] += h->first[i - 1];
  for (int r = size - 1; r >= 0; r--) h->rank[--h->first[h->host[r] + 1]] = r;
  for (int i = 0; i < h->hosts; i++) h->first[i] = h->first[i + 1];
  h->first[h->hosts] = size;
}

shoal_status shoal_hosts_find(const shoal_facts *all, int size, shoal_hosts *out)
{
  shoal_hosts h = { 0 };
  int *slot = NULL;
  size_t slots = 2;
  while (slots < 2 * (size_t)size) slots *= 2;
  shoal_status st = SHOAL_ALLOC((size_t)size, &h.host);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)size + 1, &h.first);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)size, &h.rank);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(slots, &slot);
  if (st == SHOAL_OK) {
    number_hosts(all, size, slot, slots, &h);
    list_ranks(size, &h);
    *out = h;
  } else {
    shoal_hosts_free(&h);
  }
  free(slot);
  return st;
}

void shoal_hosts_free(shoal_hosts *h)
{
  free(h->host);
  free(h->first);
  free(h->rank);
  *h = (shoal_hosts){ 0 };
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
  int *shown = NULL, *count = NULL, *threads = NULL;
  shoal_hosts hosts = { 0 };
  shoal_status st;
  SHOAL_CHECK(size >= 1, SHOAL_ERR_ARG, "a topology of %d ranks", size);
  shoal_topo *t = calloc(1, sizeof *t);
  SHOAL_CHECK(t, SHOAL_ERR_MEM, "topology");
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)size, &t->places), end);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)size, &shown), end);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)size, &count), end);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)size, &threads), end);
  SHOAL_TRY_GOTO(st, shoal_hosts_find(all, size, &hosts), end);
  SHOAL_TRY_GOTO(st, shoal_topo_threads(all, size, &hosts, threads), end);
  t->size = size;
  t->pretended = pretend != NULL;
  t->nodes = hosts.hosts;
  memcpy(shown, hosts.host, (size_t)size * sizeof *shown);
  if (pretend) {
    SHOAL_TRY_GOTO(st, pretend_nodes(pretend, size, shown, &t->nodes), end);
    SHOAL_TRY_GOTO(st, check_within_hosts(pretend, all, size, hosts.host, shown, count), end);
  }
  for (int r = 0; r < size; r++) {
    fill_place(&t->places[r], &all[r], r, shown[r]);
    t->places[r].threads = threads[r];
  }
  number_locals(t->places, size, t->nodes, count);
  *out = t;
  t = NULL;
end:
  free(shown);
  free(count);
  free(threads);
  shoal_hosts_free(&hosts);
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
