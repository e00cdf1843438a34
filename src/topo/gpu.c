/* Which rank computes on which GPU: a pure function of all ranks' facts, so every rank computes the same table.  The ranks of a host are
 * matched with its GPUs as `shoal topo` does it (locality.c), with those that each sees. */
#include "base/mem.h"
#include "topo/topo_impl.h"
#include <stdlib.h>
#include <string.h>

typedef struct { /* of one host */
  int ranks, gpus;
  const int *rank;  /* [ranks] */
  const char **id;  /* [gpus] in the order in which the ranks name them */
  shoal_near *near; /* [ranks][gpus] */
  int *chosen;      /* [ranks] */
} host;

/* Whether a list such as "0-2,5" has the number; one that is empty says nothing. */
static bool may_be_in(const char *list, int number)
{
  char *end;
  if (!*list) return true;
  for (const char *at = list; *at >= '0' && *at <= '9'; at = end + (*end == ',')) {
    long low = strtol(at, &end, 10), high = *end == '-' ? strtol(end + 1, &end, 10) : low;
    if (number >= low && number <= high) return true;
  }
  return false;
}

/* Number of the GPU among those that the process sees; -1: it does not. */
static int number_of(const shoal_facts *f, const char *id)
{
  for (int i = 0; i < f->gpus; i++)
    if (strcmp(f->gpu[i].id, id) == 0) return i;
  return -1;
}

static void list_gpus(const shoal_facts *all, host *h)
{
  for (int r = 0; r < h->ranks; r++)
    for (int i = 0; i < all[h->rank[r]].gpus; i++) {
      const char *id = all[h->rank[r]].gpu[i].id;
      bool known = false;
      for (int g = 0; g < h->gpus && !known; g++) known = strcmp(h->id[g], id) == 0;
      if (!known) h->id[h->gpus++] = id;
    }
}

static void measure(const shoal_facts *all, host *h)
{
  for (int r = 0; r < h->ranks; r++)
    for (int g = 0; g < h->gpus; g++) {
      const shoal_facts *f = &all[h->rank[r]];
      int i = number_of(f, h->id[g]);
      h->near[r * h->gpus + g] = i < 0                                     ? SHOAL_NEAR_NEVER
                                 : may_be_in(f->numa_list, f->gpu[i].numa) ? SHOAL_NEAR_NUMA
                                                                           : SHOAL_NEAR_FAR;
    }
}

static int ranks_with(const host *h, int gpu)
{
  int n = 0;
  for (int r = 0; r < h->ranks; r++) n += h->chosen[r] == gpu;
  return n;
}

/* A rank that found none, as others need all that it may have: it shares one with the fewest. */
static void share(host *h, int r)
{
  for (int g = 0; g < h->gpus; g++) {
    if (h->near[r * h->gpus + g] == SHOAL_NEAR_NEVER) continue;
    if (h->chosen[r] < 0 || ranks_with(h, g) < ranks_with(h, h->chosen[r]) - 1) h->chosen[r] = g;
  }
}

/* @param uses  [ranks of the host] */
static void note(const shoal_facts *all, const host *h, shoal_gpu_use *uses, shoal_topo *t)
{
  for (int r = 0; r < h->ranks; r++) {
    shoal_place *p = &t->places[h->rank[r]];
    int first = 0;
    if (h->chosen[r] < 0) continue;
    while (h->chosen[first] != h->chosen[r]) first++;
    p->gpu = &uses[first];
    memcpy(uses[first].id, h->id[h->chosen[r]], sizeof uses[first].id);
    uses[first].ranks = ranks_with(h, h->chosen[r]);
    p->device = (int16_t)number_of(&all[h->rank[r]], p->gpu->id);
  }
}

static shoal_status assign_on_host(const shoal_facts *all, host *h, shoal_gpu_use *uses, shoal_topo *t)
{
  size_t room = 1;
  for (int r = 0; r < h->ranks; r++) room += (size_t)all[h->rank[r]].gpus;
  shoal_status st = SHOAL_ALLOC(room, &h->id);
  if (st == SHOAL_OK) list_gpus(all, h);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)h->ranks * (size_t)h->gpus + 1, &h->near);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)h->ranks, &h->chosen);
  if (st == SHOAL_OK) measure(all, h);
  if (st == SHOAL_OK) st = shoal_topo_match_gpus(h->ranks, h->gpus, h->near, h->chosen);
  for (int r = 0; st == SHOAL_OK && r < h->ranks; r++)
    if (h->chosen[r] < 0) share(h, r);
  if (st == SHOAL_OK) note(all, h, uses, t);
  free(h->id);
  free(h->near);
  free(h->chosen);
  return st;
}

static void take_back(shoal_topo *t)
{
  for (int r = 0; r < t->size; r++) {
    t->places[r].gpu = NULL;
    t->places[r].device = 0;
  }
}

shoal_status shoal_topo_assign_gpus(const shoal_facts *all, bool one_each, shoal_topo *t)
{
  shoal_hosts hosts = { 0 };
  bool each = true, any = false;
  for (int r = 0; r < t->size; r++) any |= all[r].gpus > 0;
  if (!any) return SHOAL_OK;
  shoal_status st = SHOAL_ALLOC((size_t)t->size, &t->gpus);
  if (st == SHOAL_OK) st = shoal_hosts_find(all, t->size, &hosts);
  for (int i = 0; st == SHOAL_OK && i < hosts.hosts; i++) {
    host h = { .rank = &hosts.rank[hosts.first[i]], .ranks = hosts.first[i + 1] - hosts.first[i] };
    st = assign_on_host(all, &h, &t->gpus[hosts.first[i]], t);
  }
  for (int r = 0; r < t->size; r++) each = each && t->places[r].gpu && t->places[r].gpu->ranks == 1;
  if (one_each && !each) take_back(t);
  shoal_hosts_free(&hosts);
  return st;
}
