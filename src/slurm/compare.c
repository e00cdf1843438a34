/* Checks that Slurm, the launcher and PMIx agree with the actual ranks and nodes.
 *
 *                 ranks  rank  nodes  node  local ranks  local rank  listed  host
 *     Slurm         8     3      4      1        2            1         4     n2
 *     launcher      -     -      -      -        -            -         -     -
 *     PMIx          8     3      4      1        2            1         -     n2
 *     actual        8     3      4      1        2            1         4     n2.site.org
 *
 * The actual ranks and rank are those of MPI, the rest follows from the host identities of all ranks.  Each source
 * numbers nodes in its own way, so node indices are only required to be equal on the same node and distinct on distinct
 * nodes; local ranks must be distinct on a node and less than the number of ranks there.  A host may have an alias, but
 * not the name of another rank's host, nor may two hosts have the same name: this detects "localhost" on every node. */
#include "base/mem.h"
#include "slurm/claims.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A node under something that it claims, or is called: sorted by that, and then by node. */
typedef struct {
  uint64_t key;
  int node;
} entry;

typedef struct {
  const shoal_claims *all;
  const shoal_topo *t;
  const char *library;
  int *lowest;    /* [nodes] lowest rank of each node */
  int *first;     /* [nodes] number of ranks on all nodes before it: its first entry in `owner` */
  int *owner;     /* [size] by node and local rank: the rank that claims it, -1: none so far */
  entry *claimed; /* [nodes] by the node index that the lowest rank claims, of the source that is compared */
  entry *called;  /* [2 nodes] by the first part of the host's name, and of that by which the source calls it */
} comparison;

static shoal_status contradict(const comparison *c, int rank, shoal_source source, const char *says, const char *is)
{
  static const char *const cures[SHOAL_SOURCE_COUNT] = {
    [SHOAL_SOURCE_SLURM] =
        "start the ranks with `srun --mpi=pmix` directly, and unset SLURM_ variables of another step",
    [SHOAL_SOURCE_LAUNCHER] = "start them with the mpirun that belongs to this MPI, or `srun --mpi=pmix`",
    [SHOAL_SOURCE_PMIX] = "start them with `srun --mpi=pmix`, or the mpirun that belongs to this MPI",
  };
  return SHOAL_FAIL(SHOAL_ERR_WORLD, "rank %d on %s: %s, but %s; %s (%s)", rank, c->t->places[rank].host, says, is,
                    cures[source], c->library);
}

static int claim_of(const comparison *c, int rank, shoal_source source, shoal_claim_kind kind)
{
  return c->all[rank].by[source].number[kind];
}

static const char *name_of(const comparison *c, int rank, shoal_source source, shoal_claim_kind kind)
{
  return shoal_claims_name(&c->all[rank], source, kind);
}

/* Compares the numbers that must equal the actual ones. */
static shoal_status compare_numbers(const comparison *c, int rank, shoal_source source)
{
  const shoal_place *p = &c->t->places[rank];
  const struct {
    shoal_claim_kind kind;
    int is;
    const char *seen;
  } rows[] = {
    { SHOAL_CLAIM_RANKS, c->t->size, "MPI sees %d" },
    { SHOAL_CLAIM_RANK, rank, "MPI calls it rank %d" },
    { SHOAL_CLAIM_NODES, c->t->nodes,
      "by host name and boot id the ranks are on %d (containers of one machine need one name)" },
    { SHOAL_CLAIM_LISTED, c->t->nodes,
      "by host name and boot id the ranks are on %d (containers of one machine need one name)" },
    { SHOAL_CLAIM_LOCAL_RANKS, p->local_size,
      "by host name and boot id %d of the ranks are on this node (containers of one machine need one name)" },
  };
  for (size_t i = 0; i < SHOAL_COUNT(rows); i++) {
    int claim = claim_of(c, rank, source, rows[i].kind);
    char says[320], is[160];
    if (claim < 0 || claim == rows[i].is) continue;
    const char *name = name_of(c, rank, source, rows[i].kind);
    if (rows[i].kind == SHOAL_CLAIM_LISTED)
      snprintf(says, sizeof says, "%s=%s names %d nodes", name, c->all[rank].list, claim);
    else
      snprintf(says, sizeof says, "%s says %d", name, claim);
    snprintf(is, sizeof is, rows[i].seen, rows[i].is);
    return contradict(c, rank, source, says, is);
  }
  return SHOAL_OK;
}

static int by_key(const void *a, const void *b)
{
  const entry *x = a, *y = b;
  return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : (x->node > y->node) - (x->node < y->node);
}

/* The first of n sorted entries that has this key, or comes after it. */
static const entry *find(const entry *sorted, size_t n, uint64_t key)
{
  size_t low = 0, high = n;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (sorted[middle].key < key)
      low = middle + 1;
    else
      high = middle;
  }
  return sorted + low;
}

/* Of what comes before the first dot: equal for names that may belong to the same host. */
static uint64_t key_of_name(const char *name)
{
  uint64_t key = 14695981039346656037u;
  for (; *name && *name != '.'; name++) key = (key ^ (uint64_t)tolower((unsigned char)*name)) * 1099511628211u;
  return key;
}

static void sort_claims(const comparison *c, shoal_source source)
{
  size_t n = (size_t)c->t->nodes;
  for (int node = 0; node < c->t->nodes; node++) {
    int rank = c->lowest[node];
    c->claimed[node] = (entry){ (uint64_t)claim_of(c, rank, source, SHOAL_CLAIM_NODE), node };
    c->called[2 * node] = (entry){ key_of_name(c->t->places[rank].host), node };
    c->called[2 * node + 1] = (entry){ key_of_name(c->all[rank].by[source].host), node };
  }
  qsort(c->claimed, n, sizeof *c->claimed, by_key);
  qsort(c->called, 2 * n, sizeof *c->called, by_key);
}

/* Every rank of a node must have the same node index, and distinct nodes distinct indices. */
static shoal_status compare_node_index(const comparison *c, int rank, shoal_source source)
{
  char says[160];
  int claim = claim_of(c, rank, source, SHOAL_CLAIM_NODE), mine = c->t->places[rank].node, contrary = c->t->nodes;
  if (claim < 0) return SHOAL_OK;
  const entry *end = c->claimed + c->t->nodes;
  for (const entry *e = find(c->claimed, (size_t)c->t->nodes, (uint64_t)claim); e < end && e->key == (uint64_t)claim;
       e++)
    if (e->node != mine && e->node < contrary) contrary = e->node;
  int own = claim_of(c, c->lowest[mine], source, SHOAL_CLAIM_NODE);
  if (own >= 0 && own != claim) contrary = SHOAL_MIN(contrary, mine);
  if (contrary == c->t->nodes) return SHOAL_OK;
  int other = c->lowest[contrary];
  snprintf(says, sizeof says, "%s says %d here and %d on rank %d", name_of(c, rank, source, SHOAL_CLAIM_NODE), claim,
           claim_of(c, other, source, SHOAL_CLAIM_NODE), other);
  return contradict(c, rank, source, says,
                    contrary == mine ? "both ranks are on this host" : "that rank is on another host");
}

static shoal_status compare_local_rank(const comparison *c, int rank, shoal_source source)
{
  char says[160], is[64] = "both ranks are on this host";
  const shoal_place *p = &c->t->places[rank];
  int claim = claim_of(c, rank, source, SHOAL_CLAIM_LOCAL_RANK);
  if (claim < 0) return SHOAL_OK;
  const char *name = name_of(c, rank, source, SHOAL_CLAIM_LOCAL_RANK);
  int *owner = claim < p->local_size ? &c->owner[c->first[p->node] + claim] : NULL;
  if (owner && *owner < 0) {
    *owner = rank;
    return SHOAL_OK;
  }
  if (owner) {
    snprintf(says, sizeof says, "%s says %d, as on rank %d", name, claim, *owner);
  } else {
    snprintf(says, sizeof says, "%s says %d", name, claim);
    snprintf(is, sizeof is, "only %d of the ranks are on this host", p->local_size);
  }
  return contradict(c, rank, source, says, is);
}

/* A name other than the host name may be an alias, but not if it is the name or alias of another host. */
static shoal_status compare_host(const comparison *c, int rank, shoal_source source)
{
  static const char *const keys[] = { [SHOAL_SOURCE_SLURM] = "SLURMD_NODENAME", [SHOAL_SOURCE_PMIX] = "PMIX_HOSTNAME" };
  const shoal_place *p = c->t->places;
  const char *name = c->all[rank].by[source].host;
  char says[160], is[160];
  if (!*name || shoal_topo_same_host(name, p[rank].host)) return SHOAL_OK;
  snprintf(says, sizeof says, "%s calls this host %s", keys[source], name);
  const entry *end = c->called + 2 * (size_t)c->t->nodes;
  uint64_t key = key_of_name(name);
  for (const entry *e = find(c->called, 2 * (size_t)c->t->nodes, key); e < end && e->key == key; e++) {
    int other = c->lowest[e->node];
    const char *theirs = c->all[other].by[source].host;
    if (e->node == p[rank].node || (!shoal_topo_same_host(name, p[other].host) && strcmp(name, theirs) != 0)) continue;
    snprintf(is, sizeof is, "%s rank %d, which is on %s",
             shoal_topo_same_host(name, p[other].host) ? "that is the host of" : "also that of", other, p[other].host);
    return contradict(c, rank, source, says, is);
  }
  int other = c->lowest[p[rank].node];
  const char *theirs = c->all[other].by[source].host;
  if (!*theirs || strcmp(name, theirs) == 0) return SHOAL_OK;
  snprintf(is, sizeof is, "on rank %d, which is on the same host, %s", other, theirs);
  return contradict(c, rank, source, says, is);
}

static shoal_status compare_list(const comparison *c, int rank)
{
  char says[320];
  if (c->all[rank].listed != 0) return SHOAL_OK;
  snprintf(says, sizeof says, "%s is %s", name_of(c, rank, SHOAL_SOURCE_SLURM, SHOAL_CLAIM_LISTED), c->all[rank].list);
  return contradict(c, rank, SHOAL_SOURCE_SLURM, says, "this host is not in it");
}

static shoal_status compare_source(const comparison *c, shoal_source source)
{
  sort_claims(c, source);
  for (int r = 0; r < c->t->size; r++) c->owner[r] = -1;
  for (int r = 0; r < c->t->size; r++) {
    if (source == SHOAL_SOURCE_SLURM) SHOAL_TRY(compare_list(c, r));
    SHOAL_TRY(compare_numbers(c, r, source));
    SHOAL_TRY(compare_node_index(c, r, source));
    SHOAL_TRY(compare_local_rank(c, r, source));
    if (source != SHOAL_SOURCE_LAUNCHER) SHOAL_TRY(compare_host(c, r, source));
  }
  return SHOAL_OK;
}

shoal_status shoal_claims_compare(const shoal_claims *all, const shoal_topo *t, const char *library)
{
  comparison c = { .all = all, .t = t, .library = library };
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)t->nodes, &c.lowest), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)t->nodes, &c.first), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)t->size, &c.owner), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)t->nodes, &c.claimed), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(2 * (size_t)t->nodes, &c.called), done);
  for (int r = t->size - 1; r >= 0; r--) c.lowest[t->places[r].node] = r;
  for (int node = 1; node < t->nodes; node++)
    c.first[node] = c.first[node - 1] + t->places[c.lowest[node - 1]].local_size;
  for (int source = 0; source < SHOAL_SOURCE_COUNT && st == SHOAL_OK; source++)
    st = compare_source(&c, (shoal_source)source);
done:
  free(c.lowest);
  free(c.first);
  free(c.owner);
  free(c.claimed);
  free(c.called);
  return st;
}

/* ---- printing ---- */

static const shoal_claim_kind shown[] = { SHOAL_CLAIM_RANKS, SHOAL_CLAIM_NODES,       SHOAL_CLAIM_RANK,
                                          SHOAL_CLAIM_NODE,  SHOAL_CLAIM_LOCAL_RANKS, SHOAL_CLAIM_LOCAL_RANK };

static void print_row(shoal_str *out, const char *source, const int *number, const char *host)
{
  char text[16];
  shoal_str_add(out, "%-10s", source);
  for (size_t i = 0; i < SHOAL_COUNT(shown); i++) {
    snprintf(text, sizeof text, "%d", number[i]);
    shoal_str_add(out, "  %*s", i < 4 ? 5 : 11, number[i] < 0 ? "-" : text);
  }
  shoal_str_add(out, "  %s\n", *host ? host : "-");
}

void shoal_claims_print(const shoal_claims *c, const shoal_topo *t, int rank, shoal_str *out)
{
  static const char *const sources[SHOAL_SOURCE_COUNT] = { "Slurm", "launcher", "PMIx" };
  const shoal_place *p = &t->places[rank];
  int number[SHOAL_COUNT(shown)];
  shoal_str_add(out, "%-10s  %5s  %5s  %5s  %5s  %11s  %11s  %s\n", "source", "ranks", "nodes", "rank", "node",
                "local ranks", "local rank", "host");
  for (int s = 0; s < SHOAL_SOURCE_COUNT; s++) {
    for (size_t i = 0; i < SHOAL_COUNT(shown); i++) number[i] = c->by[s].number[shown[i]];
    print_row(out, sources[s], number, c->by[s].host);
  }
  const int is[SHOAL_COUNT(shown)] = { t->size, t->nodes, rank, p->node, p->local_size, p->local_rank };
  print_row(out, t->pretended ? "pretended" : "actual", is, p->host);
}
