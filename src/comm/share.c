/* Memory shared by the ranks of a node: each rank has a region of its own, which its neighbours can read and write.
 *
 *     rank 0   [own memory 0]  ·  ·  ·  ·   ·  ·  ·  ·  ·          every rank of a node maps the regions of all others
 *     rank 1    ·  ·  ·  ·  ·  [own memory 1]  ·  ·  ·  ·
 *
 * A region is an anonymous file (base/mem.h) that the others open through /proc/PID/fd: comm's own memory, or a backend's that
 * was registered.  Device and inode prove that the right file was opened, also across PID namespaces, where process IDs differ.
 * Containers may forbid this, so it is tested when the world opens; if it fails, memory is private and sums use the
 * flat ring.
 *
 * Ranks that share memory have also verified each other's process IDs, so a blocked rank can check whether its
 * neighbours still exist.  Launchers that kill the remaining ranks get there first. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/activity.h"
#include "base/cgroup.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "comm/group_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the other ranks need to open a region. */
typedef struct {
  int64_t pid, fd; /* fd -1: creation failed */
  uint64_t bytes, device, inode;
  uint64_t id; /* a random number: that of the first member identifies the region */
} region_handle;

static char *map(int fd, size_t bytes)
{
  char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  return at == MAP_FAILED ? NULL : at;
}

static shoal_status describe_own(const shoal_region *r, int file, region_handle *o)
{
  struct stat info;
  if (fstat(file, &info) != 0 || getrandom(&o->id, sizeof o->id, 0) != sizeof o->id)
    return SHOAL_FAIL(SHOAL_ERR_MEM, "%zu bytes of memory shared by the ranks of a node: %s", r->bytes,
                      strerror(errno));
  o->pid = getpid();
  o->fd = file;
  o->bytes = (uint64_t)info.st_size;
  o->device = (uint64_t)info.st_dev;
  o->inode = (uint64_t)info.st_ino;
  return SHOAL_OK;
}

static bool is_same(const struct stat *info, const region_handle *o)
{
  return (uint64_t)info->st_dev == o->device && (uint64_t)info->st_ino == o->inode &&
         (uint64_t)info->st_size == o->bytes;
}

static shoal_status open_other(const region_handle *o, int rank, shoal_neighbour *out)
{
  char path[64];
  struct stat info;
  snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)o->pid, (long long)o->fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  bool opened = fd >= 0 && fstat(fd, &info) == 0, same = opened && is_same(&info, o);
  if (same) out->base = map(fd, o->bytes);
  int error = errno;
  if (fd >= 0) close(fd);
  SHOAL_CHECK(out->base, SHOAL_ERR_COMM, "the memory of rank %d on this node cannot be reached through %s: %s", rank,
              path, opened && !same ? "it is another process's" : strerror(error));
  shoal_process process;
  out->rank = rank;
  out->pid = o->pid;
  shoal_process_lives((long)o->pid, &process);
  out->started = process.started;
  out->bytes = o->bytes;
  return SHOAL_OK;
}

static void free_region(shoal_region *r)
{
  if (!r) return;
  if (r->private_only)
    free(r->base);
  else if (!r->registered)
    shoal_mappable_free(r->base, r->bytes);
  for (int i = 0; i < r->n; i++)
    if (r->neighbours[i].base) munmap(r->neighbours[i].base, r->neighbours[i].bytes);
  free(r->neighbours);
  free(r);
}

/* The members on this node, in the group's order: first of them, and number. */
static const int *members_here(const shoal_group *g, int *n)
{
  const shoal_node_table *t = &g->nodes;
  int node = t->node[g->rank];
  *n = t->begin[node + 1] - t->begin[node];
  return t->member + t->begin[node];
}

/* Gives the members on this node what they need to open mine, and gets theirs: all [n].
 * @param streams  [2 n] scratch space */
static shoal_status swap_handles(shoal_group *g, const region_handle *mine, region_handle *all, shoal_stream *streams)
{
  uint64_t number;
  int n, tag = shoal_group_next_call(g, &number), place = g->nodes.place[g->rank];
  const int *member = members_here(g, &n);
  size_t k = 0;
  all[place] = *mine;
  for (int i = 1; i < n; i++) {
    int to = (place + i) % n, from = (place + n - i) % n;
    streams[k++] = shoal_stream_out(mine, sizeof *mine, member[to]);
    streams[k++] = shoal_stream_in(&all[from], sizeof *all, member[from]);
  }
  return shoal_streams_run(g, "memory of the node", number, tag, true, streams, k);
}

/* Opens the regions of the other members on this node. */
static shoal_status open_others(shoal_group *g, shoal_region *r, const region_handle *all)
{
  int n;
  const int *member = members_here(g, &n);
  SHOAL_TRY(SHOAL_ALLOC((size_t)n, &r->neighbours));
  for (int i = 0; i < n; i++) {
    if (member[i] == g->rank || all[i].fd < 0) continue;
    SHOAL_TRY(open_other(&all[i], g->world_ranks[member[i]], &r->neighbours[r->n]));
    r->n++;
  }
  return SHOAL_OK;
}

/* How ranks agree on a failure: shoal_group_agree, or the variant that prints nothing. */
typedef shoal_status (*agreement)(shoal_group *g, shoal_status mine);

/* The file stays open until all ranks have opened it; afterwards the mappings keep the memory alive. */
static shoal_status share(shoal_group *g, shoal_region *r, int file, shoal_status made, agreement agree)
{
  region_handle mine = { .fd = -1 }, *all = NULL;
  shoal_stream *streams = NULL;
  int n;
  members_here(g, &n);
  shoal_status st = SHOAL_ALLOC((size_t)n, &all);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(2 * (size_t)n, &streams);
  SHOAL_TRY_GOTO(st, agree(g, st), done);
  st = made;
  if (st == SHOAL_OK) st = describe_own(r, file, &mine);
  shoal_status gathered = swap_handles(g, &mine, all, streams);
  if (st == SHOAL_OK && gathered == SHOAL_OK) st = open_others(g, r, all);
  r->id = all[0].id;
  st = agree(g, st != SHOAL_OK ? st : gathered);
done:
  free(all);
  free(streams);
  return st;
}

static bool is_private(const shoal_group *g)
{
  return !g->w->shares || g->size == 1;
}

static void enlist(shoal_world *w, shoal_region *r)
{
  r->next = w->regions;
  w->regions = r;
}

static shoal_status make_region(shoal_group *g, size_t bytes, agreement agree, void **out)
{
  shoal_region *r;
  shoal_status st = SHOAL_ALLOC(1, &r);
  if (is_private(g)) {
    SHOAL_TRY(st);
    r->private_only = true;
    r->bytes = bytes;
    st = shoal_alloc(SHOAL_MAX(bytes, (size_t)1), 1, "memory for exchanges", (void **)&r->base);
  } else {
    int file = -1;
    SHOAL_TRY(agree(g, st));
    r->bytes = shoal_round_up(SHOAL_MAX(bytes, (size_t)1), SHOAL_ALIGN);
    st = shoal_mappable_alloc(r->bytes, "memory shared by the ranks of a node", (void **)&r->base, &file);
    st = share(g, r, file, st, agree);
    if (r->base) close(file);
  }
  if (st != SHOAL_OK) {
    free_region(r);
    return st;
  }
  enlist(g->w, r);
  *out = r->base;
  return SHOAL_OK;
}

shoal_memory_kind shoal_group_memory_kind(const shoal_group *g)
{
  return is_private(g) || g->w->away ? SHOAL_MEMORY_DEVICE : SHOAL_MEMORY_SHARED;
}

shoal_status shoal_group_register(shoal_group *g, const shoal_memory *memory)
{
  return is_private(g) || g->w->away ? SHOAL_OK : shoal_region_register(g, memory);
}

shoal_status shoal_region_register(shoal_group *g, const shoal_memory *memory)
{
  shoal_region *r;
  SHOAL_TRY(shoal_group_agree(g, SHOAL_ALLOC(1, &r)));
  *r = (shoal_region){ .base = memory->at, .bytes = memory->bytes, .registered = true };
  shoal_status st = memory->kind == SHOAL_MEMORY_SHARED
                        ? SHOAL_OK
                        : SHOAL_FAIL(SHOAL_ERR_ARG, "memory to be summed inside a node is not of kind SHARED");
  st = share(g, r, memory->file, st, shoal_group_agree);
  if (st == SHOAL_OK)
    enlist(g->w, r);
  else
    free_region(r);
  return st;
}

static void forget(shoal_world *w, const void *base)
{
  for (shoal_region **at = &w->regions; base && *at; at = &(*at)->next) {
    shoal_region *r = *at;
    if (r->base != base) continue;
    *at = r->next;
    free_region(r);
    return;
  }
}

void shoal_group_unregister(shoal_group *g, const shoal_memory *memory)
{
  forget(g->w, memory->at);
}

shoal_status shoal_group_share(shoal_group *g, size_t bytes, void **out)
{
  return make_region(g, bytes, shoal_group_agree, out);
}

void shoal_group_unshare(shoal_group *g, void *memory)
{
  forget(g->w, memory);
}

const shoal_region *shoal_region_of(const shoal_world *w, const void *memory, size_t bytes)
{
  const char *from = memory;
  for (const shoal_region *r = w->regions; r; r = r->next)
    if (!r->private_only && from >= r->base && from + bytes <= r->base + r->bytes) return r;
  return NULL;
}

char *shoal_region_at(const shoal_world *w, uint64_t id, int rank, uint64_t offset)
{
  for (const shoal_region *r = w->regions; r; r = r->next)
    for (int i = 0; !r->private_only && r->id == id && i < r->n; i++)
      if (r->neighbours[i].rank == rank && offset < r->neighbours[i].bytes) return r->neighbours[i].base + offset;
  return NULL;
}

void *shoal_group_memory_of(const shoal_group *g, void *memory, int rank)
{
  if (rank == g->rank) return memory;
  const shoal_region *r = shoal_region_of(g->w, memory, 1);
  return r ? shoal_region_at(g->w, r->id, g->world_ranks[rank], 0) : NULL;
}

/* Several ranks may have a reason; the lowest of them prints the warning for all. */
static shoal_status warn_once(shoal_world *w, bool knows, const char *why)
{
  int64_t key = w->size - w->rank, first = knows ? key : 0;
  SHOAL_TRY(shoal_group_agree_max(w->control, "agreement", &first));
  if (first == key)
    shoal_warn("ranks of a node cannot share memory, so sums go around a ring of all ranks, which is slower: %s", why);
  return SHOAL_OK;
}

/* What the other ranks of the node can see of this one at any time. */
struct shoal_liveness {
  shoal_activity activity;
  char error[SHOAL_ERROR_TEXT]; /* after which it leaves */
  atomic_bool told;             /* that error is whole */
};

shoal_status shoal_share_try(shoal_world *w, bool wanted)
{
  void *memory = NULL;
  w->shares = wanted && w->topo->nodes < w->size;
  w->memory_kills = shoal_memory_kills("");
  if (!w->shares) {
    shoal_activity_watch(w->o.warn_s, w->size == 1);
    return SHOAL_OK;
  }
  shoal_status st = make_region(w->control, sizeof(shoal_liveness), shoal_group_agree_quietly, &memory);
  w->shares = st == SHOAL_OK;
  w->liveness = memory;
  if (w->shares && w->topo->places[w->rank].local_size > 1)
    shoal_activity_place(&w->liveness->activity);
  else if (st != SHOAL_ERR_HANG)
    shoal_activity_watch(w->o.warn_s, false); /* no other rank can see it */
  if (w->shares || st == SHOAL_ERR_HANG) return st;
  shoal_error why;
  shoal_error_take(&why);
  return warn_once(w, st != SHOAL_ERR_PEER, why.text);
}

static const shoal_liveness *liveness_of(const shoal_world *w, int rank)
{
  const shoal_region *r = w->liveness ? shoal_region_of(w, w->liveness, 1) : NULL;
  return r ? (const void *)shoal_region_at(w, r->id, rank, 0) : NULL;
}

void shoal_share_leave(shoal_world *w, const char *error)
{
  if (!w->liveness) return;
  snprintf(w->liveness->error, sizeof w->liveness->error, "%s", error);
  atomic_store(&w->liveness->told, true);
}

shoal_status shoal_share_check_peers(const shoal_world *w, bool *lower_lives)
{
  const shoal_region *r = w->liveness ? shoal_region_of(w, w->liveness, 1) : NULL;
  const shoal_neighbour *gone = NULL;
  shoal_process process;
  *lower_lives = false;
  for (int i = 0; r && i < r->n; i++) {
    const shoal_neighbour *n = &r->neighbours[i];
    bool lives = shoal_process_lives((long)n->pid, &process) && process.started == n->started;
    *lower_lives |= lives && n->rank < w->rank;
    if (!lives && !gone) gone = n;
  }
  if (!gone) return SHOAL_OK;
  const shoal_liveness *left = liveness_of(w, gone->rank);
  if (left && atomic_load(&left->told))
    return shoal_error_told(SHOAL_FAIL(SHOAL_ERR_PEER, "rank %d (%s) failed: %s", gone->rank,
                                       w->topo->places[gone->rank].host, left->error));
  char memory[SHOAL_MEMORY_KILLS];
  shoal_memory_kills_told("", (int64_t)w->memory_kills, memory);
  return SHOAL_FAIL(SHOAL_ERR_COMM, "rank %d (%s, process %lld) is gone, noticed in training step %llu: %s", gone->rank,
                    w->topo->places[gone->rank].host, (long long)gone->pid, (unsigned long long)w->step,
                    *memory ? memory : "it was killed or left early");
}

bool shoal_share_activity(const shoal_world *w, int rank, double least_s, char *buf, size_t cap)
{
  const shoal_liveness *l = liveness_of(w, rank);
  return l && shoal_activity_describe(&l->activity, least_s, buf, cap);
}

void shoal_share_close(shoal_world *w)
{
  shoal_activity_place(NULL);
  shoal_activity_watch_end();
  for (shoal_region *r = w->regions, *next; r; r = next) {
    next = r->next;
    free_region(r);
  }
  w->regions = NULL;
}
