/* Which GPU, network interface and cores a rank of a node should have, by what is near what.
 *
 * GPUs are matched with ranks: first over pairs on one NUMA node, as many as possible, then over pairs in one package, then the
 * rest; a pair that is found may change, but not get farther apart.  Cores are given from the rank's home, the NUMA node of its
 * GPU, and, if that has too few, from the nearest nodes whose cores nobody needs. */
#include "base/mem.h"
#include "base/str.h"
#include "topo/topo_impl.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char *shoal_near_name(shoal_near near)
{
  static const char *const names[] = { "switch", "numa", "package", "far" };
  return names[near];
}

/* ---- distances ---- */

static int package_of(const shoal_machine *m, unsigned numa)
{
  hwloc_obj_t o = m->t ? hwloc_get_numanode_obj_by_os_index(m->t, numa) : NULL;
  while (o && o->type != HWLOC_OBJ_PACKAGE) o = o->parent;
  return o ? (int)o->os_index : -1;
}

/* @param numa  NUMA nodes of the rank; NULL: any */
static shoal_near distance(const shoal_machine *m, hwloc_const_bitmap_t numa, const shoal_device *d)
{
  if (!numa || (d->numa >= 0 && hwloc_bitmap_isset(numa, (unsigned)d->numa))) return SHOAL_NEAR_NUMA;
  for (int node = hwloc_bitmap_first(numa); node >= 0 && d->package >= 0; node = hwloc_bitmap_next(numa, node))
    if (package_of(m, (unsigned)node) == d->package) return SHOAL_NEAR_PACKAGE;
  return SHOAL_NEAR_FAR;
}

shoal_near shoal_machine_distance(const shoal_machine *m, int gpu, int nic)
{
  const shoal_device *g = shoal_machine_gpu(m, gpu), *n = shoal_machine_nic(m, nic);
  if (m->switches[gpu * m->n_nics + nic]) return SHOAL_NEAR_SWITCH;
  if (g->numa >= 0 && g->numa == n->numa) return SHOAL_NEAR_NUMA;
  return g->package >= 0 && g->package == n->package ? SHOAL_NEAR_PACKAGE : SHOAL_NEAR_FAR;
}

/* ---- GPUs ---- */

/* Whether a list names GPU number i of those that can be opened: "1,3", or "GPU-5f1c,..." of which the beginning is enough. */
static bool is_visible(const char *list, int i, const shoal_device *d)
{
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    char word[64];
    int64_t number;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
    if (shoal_parse_i64(word, &number) == SHOAL_OK ? number == i : word[0] && strncmp(d->name, word, strlen(word)) == 0)
      return true;
  }
  return false;
}

/* The GPUs that may be chosen; returns their number. */
static int list_gpus(const shoal_machine *m, const char *visible, int *gpus)
{
  int n = 0, open = 0;
  for (int g = 0; g < m->n_gpus; g++) {
    if (m->devices[g].closed) continue;
    if (!visible || is_visible(visible, open, &m->devices[g])) gpus[n++] = g;
    open++;
  }
  return n;
}

typedef struct {
  int ranks, slots;
  int *owner;       /* [slots] the rank that has it, -1: none */
  shoal_near *near; /* [ranks][slots] */
  shoal_near *most; /* [ranks] how far the slot of each may be */
  bool *tried;      /* [slots] in this search */
} matching;

/* Finds a slot for a rank: a free one, else one whose owner finds another.  Ranks begin their search evenly spread, so that four
 * ranks that could have any of eight GPUs get every second one. */
static bool find_slot(matching *m, int rank)
{
  int first = (int)((int64_t)rank * m->slots / m->ranks);
  for (int i = 0; i < 2 * m->slots; i++) {
    int s = (first + i) % m->slots;
    bool takes_from_others = i >= m->slots;
    if (m->near[rank * m->slots + s] > m->most[rank] || m->tried[s] || (m->owner[s] >= 0 && !takes_from_others))
      continue;
    m->tried[s] = true;
    if (m->owner[s] >= 0 && !find_slot(m, m->owner[s])) continue;
    m->owner[s] = rank;
    return true;
  }
  return false;
}

static void match(matching *m)
{
  for (int r = 0; r < m->ranks; r++) m->most[r] = SHOAL_NEAR_SWITCH; /* without a slot */
  for (int s = 0; s < m->slots; s++) m->owner[s] = -1;
  for (shoal_near level = SHOAL_NEAR_NUMA; level <= SHOAL_NEAR_FAR; level++)
    for (int r = 0; r < m->ranks; r++) {
      if (m->most[r] != SHOAL_NEAR_SWITCH) continue;
      memset(m->tried, 0, (size_t)m->slots * sizeof *m->tried);
      m->most[r] = level;
      if (!find_slot(m, r)) m->most[r] = SHOAL_NEAR_SWITCH;
    }
}

/* With more ranks than GPUs each GPU has several slots, neighbours in the order of ranks. */
shoal_status shoal_topo_match_gpus(int ranks, int gpus, const shoal_near *near, int *out)
{
  matching x = { .ranks = ranks, .slots = gpus ? SHOAL_MAX(gpus, ranks) : 0 };
  for (int r = 0; r < ranks; r++) out[r] = -1;
  shoal_status st = SHOAL_ALLOC((size_t)x.slots + 1, &x.owner);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)x.slots + 1, &x.tried);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)ranks * (size_t)x.slots + 1, &x.near);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)ranks, &x.most);
  if (st == SHOAL_OK && gpus) {
    for (int r = 0; r < ranks; r++)
      for (int s = 0; s < x.slots; s++) x.near[r * x.slots + s] = near[r * gpus + s * gpus / x.slots];
    match(&x);
    for (int s = 0; s < x.slots; s++)
      if (x.owner[s] >= 0) out[x.owner[s]] = s * gpus / x.slots;
  }
  free(x.owner);
  free(x.tried);
  free(x.near);
  free(x.most);
  return st;
}

static shoal_status choose_gpus(const shoal_machine *m, int ranks, hwloc_bitmap_t *numa, const char *visible,
                                shoal_choice *out)
{
  shoal_near *near = NULL;
  int *gpus = NULL, *chosen = NULL, n = 0;
  shoal_status st = SHOAL_ALLOC((size_t)m->n_gpus + 1, &gpus);
  if (st == SHOAL_OK) n = list_gpus(m, visible, gpus);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)ranks, &chosen);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)ranks * (size_t)n + 1, &near);
  for (int i = 0; st == SHOAL_OK && i < ranks * n; i++) near[i] = distance(m, numa[i / n], &m->devices[gpus[i % n]]);
  if (st == SHOAL_OK) st = shoal_topo_match_gpus(ranks, n, near, chosen);
  for (int r = 0; st == SHOAL_OK && r < ranks; r++) {
    if (chosen[r] < 0) continue;
    out[r].gpu = gpus[chosen[r]];
    out[r].gpu_near = near[r * n + chosen[r]];
  }
  free(gpus);
  free(chosen);
  free(near);
  return st;
}

/* ---- network interfaces ---- */

/* Of the nearest ones that which has the fewest ranks.  Where some speak verbs the others are for administration. */
static shoal_status choose_nics(const shoal_machine *m, int ranks, hwloc_bitmap_t *numa, shoal_choice *out)
{
  int *users;
  bool fabric = false;
  SHOAL_TRY(SHOAL_ALLOC((size_t)m->n_nics + 1, &users));
  for (int k = 0; k < m->n_nics; k++) fabric |= shoal_machine_nic(m, k)->fabric;
  for (int r = 0; r < ranks; r++) {
    shoal_choice *c = &out[r];
    for (int k = 0; k < m->n_nics; k++) {
      const shoal_device *d = shoal_machine_nic(m, k);
      shoal_near near = c->gpu >= 0 ? shoal_machine_distance(m, c->gpu, k) : distance(m, numa[r], d);
      if (fabric && !d->fabric) continue;
      if (c->nic >= 0 && (near > c->nic_near || (near == c->nic_near && users[k] >= users[c->nic]))) continue;
      c->nic = k;
      c->nic_near = near;
    }
    if (c->nic >= 0) users[c->nic]++;
  }
  free(users);
  return SHOAL_OK;
}

shoal_status shoal_machine_choose(const shoal_machine *m, int ranks, const char *const *numa, const char *visible,
                                  shoal_choice *out)
{
  hwloc_bitmap_t *sets;
  shoal_status st = SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC((size_t)ranks, &sets));
  for (int r = 0; r < ranks && st == SHOAL_OK; r++) {
    out[r] = (shoal_choice){ .gpu = -1, .nic = -1 };
    if (!numa || !numa[r][0]) continue;
    char list[SHOAL_NUMA_MAX];
    snprintf(list, sizeof list, "%s", numa[r]);
    char *cut = strstr(list, ",..."); /* too long to be written whole */
    if (cut) *cut = '\0';
    sets[r] = hwloc_bitmap_alloc();
    if (!sets[r] || hwloc_bitmap_list_sscanf(sets[r], list) != 0)
      st = SHOAL_FAIL(SHOAL_ERR_ARG, "\"%s\" is no list of NUMA nodes", list);
  }
  if (st == SHOAL_OK) st = choose_gpus(m, ranks, sets, visible, out);
  if (st == SHOAL_OK) st = choose_nics(m, ranks, sets, out);
  for (int r = 0; r < ranks; r++) hwloc_bitmap_free(sets[r]);
  free(sets);
  return st;
}

/* ---- cores ---- */

typedef struct {
  hwloc_bitmap_t cpus; /* the allowed hardware threads of a core */
  int domain, owner;   /* -1: nobody's */
} core;
typedef struct {
  unsigned numa; /* OS index */
  int package, cores, homes;
} domain;
typedef struct {
  const shoal_machine *m;
  int n_cores, n_domains, ranks, each;
  core *cores;
  domain *domains;
  int *home, *has; /* [ranks] the domain of each, and how many cores it has so far */
} shares;

static int find_domain(shares *s, int numa)
{
  for (int d = 0; d < s->n_domains; d++)
    if ((int)s->domains[d].numa == numa) return d;
  return -1;
}

/* Adds a core with those of these hardware threads that are left. */
static shoal_status add_core(shares *s, hwloc_bitmap_t left, hwloc_const_bitmap_t cpus, int numa)
{
  if (!hwloc_bitmap_intersects(left, cpus)) return SHOAL_OK;
  int d = find_domain(s, SHOAL_MAX(numa, 0));
  if (d < 0) {
    d = s->n_domains++;
    s->domains[d] =
        (domain){ .numa = (unsigned)SHOAL_MAX(numa, 0), .package = package_of(s->m, (unsigned)SHOAL_MAX(numa, 0)) };
  }
  core *c = &s->cores[s->n_cores];
  *c = (core){ .cpus = hwloc_bitmap_alloc(), .domain = d, .owner = -1 };
  SHOAL_CHECK(c->cpus && hwloc_bitmap_and(c->cpus, left, cpus) == 0, SHOAL_ERR_MEM, "a core");
  hwloc_bitmap_andnot(left, left, cpus);
  s->domains[d].cores++;
  s->n_cores++;
  return SHOAL_OK;
}

/* Whole cores in hwloc's order; hardware threads that belong to none come last, each as one. */
static shoal_status list_cores(shares *s)
{
  hwloc_bitmap_t left = hwloc_bitmap_dup(s->m->mask), one = hwloc_bitmap_alloc();
  shoal_status st = left && one ? SHOAL_OK : SHOAL_FAIL(SHOAL_ERR_MEM, "the cores of a machine");
  for (hwloc_obj_t o = NULL;
       st == SHOAL_OK && s->m->t && (o = hwloc_get_next_obj_by_type(s->m->t, HWLOC_OBJ_CORE, o)) != NULL;)
    st = add_core(s, left, o->cpuset, o->nodeset ? hwloc_bitmap_first(o->nodeset) : -1);
  for (int cpu; st == SHOAL_OK && (cpu = hwloc_bitmap_first(left)) >= 0;) {
    hwloc_bitmap_only(one, (unsigned)cpu);
    st = add_core(s, left, one, -1);
  }
  hwloc_bitmap_free(left);
  hwloc_bitmap_free(one);
  return st;
}

/* The NUMA node of its GPU; without one ranks are spread over the nodes in order. */
static shoal_status choose_homes(shares *s)
{
  shoal_choice *choice;
  SHOAL_TRY(SHOAL_ALLOC((size_t)s->ranks, &choice));
  shoal_status st = shoal_machine_choose(s->m, s->ranks, NULL, NULL, choice);
  for (int r = 0; r < s->ranks; r++) {
    const shoal_device *gpu = st == SHOAL_OK ? shoal_machine_gpu(s->m, choice[r].gpu) : NULL;
    int d = gpu && gpu->numa >= 0 ? find_domain(s, gpu->numa) : -1;
    s->home[r] = d >= 0 ? d : (int)((int64_t)r * s->n_domains / s->ranks);
    s->domains[s->home[r]].homes++;
  }
  free(choice);
  return st;
}

/* Cores of each rank: an even share of all; no more than its home has for it, if that costs at most a quarter of them. */
static int share_of_each(const shares *s)
{
  int even = s->n_cores / s->ranks, near = INT_MAX;
  for (int d = 0; d < s->n_domains; d++)
    if (s->domains[d].homes) near = SHOAL_MIN(near, s->domains[d].cores / s->domains[d].homes);
  return near <= even && 4 * near >= 3 * even ? near : even;
}

static void take(shares *s, int rank, int d, int most)
{
  for (int i = 0; i < s->n_cores && most > 0; i++) {
    core *c = &s->cores[i];
    if (c->domain != d || c->owner >= 0) continue;
    c->owner = rank;
    s->has[rank]++;
    most--;
  }
}

static int free_cores(const shares *s, int d)
{
  int n = 0;
  for (int i = 0; i < s->n_cores; i++) n += s->cores[i].domain == d && s->cores[i].owner < 0;
  return n;
}

/* The nearest domain with free cores: in the same package if one is there, and of these the next one in order. */
static int nearest(const shares *s, int home)
{
  int best = -1, best_far = INT_MAX;
  for (int d = 0; d < s->n_domains; d++) {
    int far = abs(d - home) + (s->domains[d].package == s->domains[home].package ? 0 : s->n_domains);
    if (far >= best_far || !free_cores(s, d)) continue;
    best = d;
    best_far = far;
  }
  return best;
}

static void divide(shares *s)
{
  s->each = share_of_each(s);
  for (int r = 0; r < s->ranks; r++) {
    const domain *home = &s->domains[s->home[r]];
    take(s, r, s->home[r], SHOAL_MIN(s->each, home->cores / home->homes));
  }
  for (int r = 0; r < s->ranks; r++)
    for (int d; s->has[r] < s->each && (d = nearest(s, s->home[r])) >= 0;) take(s, r, d, s->each - s->has[r]);
}

static shoal_status tell(const shares *s, shoal_facts *f)
{
  hwloc_bitmap_t mask = hwloc_bitmap_alloc();
  SHOAL_CHECK(mask, SHOAL_ERR_MEM, "a mask");
  for (int r = 0; r < s->ranks; r++) {
    hwloc_bitmap_zero(mask);
    for (int i = 0; i < s->n_cores; i++)
      if (s->cores[i].owner == r) hwloc_bitmap_or(mask, mask, s->cores[i].cpus);
    shoal_topo_count(s->m->t, mask, &f[r]);
  }
  hwloc_bitmap_free(mask);
  return SHOAL_OK;
}

shoal_status shoal_machine_share(const shoal_machine *m, int ranks, shoal_facts *f)
{
  shares s = { .m = m, .ranks = ranks };
  size_t most = (size_t)hwloc_bitmap_weight(m->mask) + 1;
  if (ranks < 1 || ranks > m->facts.cores) return SHOAL_OK;
  shoal_status st = SHOAL_ALLOC(most, &s.cores);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(most, &s.domains);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)ranks, &s.home);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)ranks, &s.has);
  if (st == SHOAL_OK) st = list_cores(&s);
  if (st == SHOAL_OK) st = choose_homes(&s);
  if (st == SHOAL_OK) {
    divide(&s);
    st = tell(&s, f);
  }
  for (int i = 0; s.cores && i < s.n_cores; i++) hwloc_bitmap_free(s.cores[i].cpus);
  free(s.cores);
  free(s.domains);
  free(s.home);
  free(s.has);
  return st;
}

bool shoal_machine_bind(const shoal_machine *m, const char *mask, shoal_facts *f)
{
  hwloc_bitmap_t bits = hwloc_bitmap_alloc();
  bool good = bits && hwloc_bitmap_taskset_sscanf(bits, mask) == 0 && hwloc_bitmap_and(bits, bits, m->mask) == 0 &&
              !hwloc_bitmap_iszero(bits);
  if (good) shoal_topo_count(m->t, bits, f);
  hwloc_bitmap_free(bits);
  return good;
}
