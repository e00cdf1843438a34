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

/* ---- ranks that have something in common ---- */

static uint64_t hash_of(uint64_t hash, const char *text)
{
  for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
  return hash * 1099511628211u; /* the end counts, too */
}

/* Something that two ranks may have in common: equal ones have equal hashes. */
typedef struct {
  uint64_t (*hash)(const void *of, int rank);
  bool (*equal)(const void *of, int a, int b);
  const void *of;
} likeness;

/* Numbers what is different in the order of the lowest ranks that have it: class [size].  *n: how many. */
static shoal_status classify(const likeness *l, int size, int *class, int *n)
{
  int *slot; /* one more than a rank with the class that belongs here by its hash or, where others do, behind them */
  size_t slots = 2;
  while (slots < 2 * (size_t)size) slots *= 2;
  SHOAL_TRY(SHOAL_ALLOC(slots, &slot));
  *n = 0;
  for (int r = 0; r < size; r++) {
    uint64_t hash = l->hash(l->of, r);
    size_t at = (size_t)(hash ^ hash >> 32) & (slots - 1);
    while (slot[at] && !l->equal(l->of, slot[at] - 1, r)) at = (at + 1) & (slots - 1);
    class[r] = slot[at] ? class[slot[at] - 1] : (*n)++;
    if (!slot[at]) slot[at] = r + 1;
  }
  free(slot);
  return SHOAL_OK;
}

static uint64_t hash_host(const void *of, int rank)
{
  const shoal_facts *all = of;
  return hash_of(14695981039346656037u, all[rank].node_id);
}

static bool same_host(const void *of, int a, int b)
{
  const shoal_facts *all = of;
  return strcmp(all[a].node_id, all[b].node_id) == 0;
}

/* h->host and h->hosts are known. */
static void list_ranks(int size, shoal_hosts *h)
{
  for (int r = 0; r < size; r++) h->first[h->host[r] + 1]++;
  for (int i = 1; i <= h->hosts; i++) h->first[i] += h->first[i - 1];
  for (int r = size - 1; r >= 0; r--) h->rank[--h->first[h->host[r] + 1]] = r;
  for (int i = 0; i < h->hosts; i++) h->first[i] = h->first[i + 1];
  h->first[h->hosts] = size;
}

shoal_status shoal_hosts_find(const shoal_facts *all, int size, shoal_hosts *out)
{
  shoal_hosts h = { 0 };
  likeness host = { hash_host, same_host, all };
  shoal_status st = SHOAL_ALLOC((size_t)size, &h.host);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)size + 1, &h.first);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)size, &h.rank);
  if (st == SHOAL_OK) st = classify(&host, size, h.host, &h.hosts);
  if (st == SHOAL_OK) {
    list_ranks(size, &h);
    *out = h;
  } else {
    shoal_hosts_free(&h);
  }
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

typedef struct {
  const shoal_facts *all;
  const int *threads;
} cores_of;

static uint64_t hash_cores(const void *of, int rank)
{
  const cores_of *c = of;
  uint64_t hash = hash_of(14695981039346656037u, c->all[rank].cpu_list);
  hash = hash_of(hash, c->all[rank].numa_list);
  return (hash ^ (uint64_t)c->all[rank].cores << 32 ^ (uint64_t)c->threads[rank]) * 1099511628211u;
}

static bool same_cores(const void *of, int a, int b)
{
  const cores_of *c = of;
  const shoal_facts *f = &c->all[a], *g = &c->all[b];
  return strcmp(f->cpu_list, g->cpu_list) == 0 && strcmp(f->numa_list, g->numa_list) == 0 && f->cores == g->cores &&
         c->threads[a] == c->threads[b];
}

/* @param class  [size] scratch space */
static shoal_status fill_cores(shoal_topo *t, const shoal_facts *all, const int *threads, int *class)
{
  cores_of of = { all, threads };
  likeness cores = { hash_cores, same_cores, &of };
  int n;
  SHOAL_TRY(classify(&cores, t->size, class, &n));
  t->n_cores = (size_t)n;
  SHOAL_TRY(SHOAL_ALLOC(t->n_cores, &t->cores));
  for (int r = 0; r < t->size; r++) {
    shoal_cores *c = &t->cores[class[r]];
    t->places[r].on = c;
    memcpy(c->cpu_list, all[r].cpu_list, sizeof c->cpu_list);
    memcpy(c->numa_list, all[r].numa_list, sizeof c->numa_list);
    c->cores = all[r].cores;
    c->threads = threads[r];
  }
  return SHOAL_OK;
}

/* Ranks of a node are on one host. */
static shoal_status fill_hosts(shoal_topo *t, const shoal_facts *all, int *lowest)
{
  size_t bytes = 0;
  for (int r = t->size - 1; r >= 0; r--) lowest[t->places[r].node] = r;
  for (int node = 0; node < t->nodes; node++) bytes += strlen(all[lowest[node]].host) + 1;
  SHOAL_TRY(SHOAL_ALLOC(bytes, &t->hosts));
  char *at = t->hosts;
  for (int node = 0; node < t->nodes; node++) {
    size_t n = strlen(all[lowest[node]].host) + 1;
    memcpy(at, all[lowest[node]].host, n);
    t->places[lowest[node]].host = at;
    at += n;
  }
  for (int r = 0; r < t->size; r++) t->places[r].host = t->places[lowest[t->places[r].node]].host;
  return SHOAL_OK;
}

static shoal_status number_locals(shoal_topo *t, int *count)
{
  memset(count, 0, (size_t)t->nodes * sizeof *count);
  for (int r = 0; r < t->size; r++) {
    shoal_place *p = &t->places[r];
    SHOAL_CHECK(count[p->node] < INT16_MAX, SHOAL_ERR_WORLD, "more than %d ranks on node %d: start fewer there",
                INT16_MAX, p->node);
    p->local_rank = (int16_t)count[p->node]++;
  }
  for (int r = 0; r < t->size; r++) t->places[r].local_size = (int16_t)count[t->places[r].node];
  return SHOAL_OK;
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
    t->places[r].node = shown[r];
    t->places[r].pid = all[r].pid;
  }
  SHOAL_TRY_GOTO(st, number_locals(t, count), end);
  SHOAL_TRY_GOTO(st, fill_hosts(t, all, count), end);
  SHOAL_TRY_GOTO(st, fill_cores(t, all, threads, shown), end);
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
  free(t->hosts);
  free(t->cores);
  free(t->gpus);
  free(t);
}

void shoal_topo_set_threads(shoal_topo *t, int threads)
{
  for (size_t i = 0; i < t->n_cores; i++) t->cores[i].threads = threads;
}
