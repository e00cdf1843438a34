/* Memory that the ranks of a node have in common: each rank's own stretch, which its neighbours can read and write.
 *
 *     rank 0   [own memory 0]  ·  ·  ·  ·   ·  ·  ·  ·  ·          every rank of a node maps the stretches of all others
 *     rank 1    ·  ·  ·  ·  ·  [own memory 1]  ·  ·  ·  ·
 *
 * A stretch is an anonymous file (memfd) that the others open through /proc/PID/fd: it has no name, so nothing is left
 * behind by a rank that is killed, and it does not count against the size of /dev/shm, which containers keep small.  A
 * random number at its start proves that what was opened is what was meant, also where processes do not see each
 * other's numbers.  Whether it works at all is tried when the world opens (containers may forbid it); where it does
 * not, memory is ordinary and sums go around the flat ring.
 *
 * Who shares memory also knows the others' process numbers to be true, so a rank that waits in vain can look whether its
 * neighbours are still there.  Under a launcher that cleans up nobody gets that far. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/log.h"
#include "base/mem.h"
#include "comm/group_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = SHOAL_ALIGN }; /* holds the random number; the memory begins behind it */

/* What a rank tells the others about its stretch. */
typedef struct {
  int64_t pid, fd; /* fd -1: it could not be made */
  uint64_t bytes, proof;
} offer;

/* When a process started, in clock ticks since boot, as /proc says; -1: it is gone, or dead and not yet buried. */
static int64_t born(int64_t pid)
{
  char path[64], line[1024];
  long long started = -1;
  snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
  FILE *f = fopen(path, "r");
  if (!f) return -1;
  const char *rest = fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL; /* behind the name, which may hold all */
  fclose(f);
  if (!rest || strchr("ZX", rest[2])) return -1;
  for (int field = 2; rest && field < 22; field++) rest = strchr(rest + 1, ' ');
  if (rest) sscanf(rest, " %lld", &started);
  return started;
}

static char *map(int fd, size_t bytes)
{
  char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  return at == MAP_FAILED ? NULL : at;
}

/* The file gets its pages now: a machine without memory says so here and not by a signal in mid-step. */
static shoal_status make_own(shoal_region *r, offer *o)
{
  o->fd = memfd_create("shoal", MFD_CLOEXEC);
  if (o->fd < 0 || (errno = posix_fallocate((int)o->fd, 0, (off_t)r->bytes)) != 0 ||
      !(r->base = map((int)o->fd, r->bytes)) || getrandom(&o->proof, sizeof o->proof, 0) != sizeof o->proof)
    return SHOAL_FAIL(SHOAL_ERR_MEM, "%zu bytes of memory shared by the ranks of a node: %s", r->bytes,
                      strerror(errno));
  (void)madvise(r->base, r->bytes, MADV_HUGEPAGE); /* fewer misses where the system allows it */
  memcpy(r->base, &o->proof, sizeof o->proof);
  o->pid = getpid();
  o->bytes = r->bytes;
  return SHOAL_OK;
}

static shoal_status open_other(const offer *o, int rank, shoal_neighbour *out)
{
  char path[64];
  struct stat info;
  snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)o->pid, (long long)o->fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd >= 0 && fstat(fd, &info) == 0 && (uint64_t)info.st_size == o->bytes) out->base = map(fd, o->bytes);
  int error = errno;
  if (fd >= 0) close(fd);
  SHOAL_CHECK(out->base && memcmp(out->base, &o->proof, sizeof o->proof) == 0, SHOAL_ERR_COMM,
              "the memory of rank %d on this node cannot be reached through %s: %s", rank, path,
              out->base ? "it is another process's" : strerror(error));
  out->rank = rank;
  out->pid = o->pid;
  out->born = born(o->pid);
  out->bytes = o->bytes;
  return SHOAL_OK;
}

static void free_region(shoal_region *r)
{
  if (!r) return;
  if (r->plain)
    free(r->base);
  else if (r->base)
    munmap(r->base, r->bytes);
  for (int i = 0; i < r->n; i++)
    if (r->neighbours[i].base) munmap(r->neighbours[i].base, r->neighbours[i].bytes);
  free(r->neighbours);
  free(r);
}

/* Members of my node, all but me, open what was offered. */
static shoal_status open_others(shoal_group *g, shoal_region *r, const offer *all)
{
  const shoal_topo *t = g->w->topo;
  SHOAL_TRY(SHOAL_ALLOC((size_t)g->size, &r->neighbours));
  for (int i = 0; i < g->size; i++) {
    int rank = g->world_ranks[i];
    if (i == g->rank || t->places[rank].node != t->places[g->w->rank].node || all[i].fd < 0) continue;
    SHOAL_TRY(open_other(&all[i], rank, &r->neighbours[r->n]));
    r->n++;
  }
  return SHOAL_OK;
}

/* Who hears of a failure on one rank, and how: shoal_group_agree, or silently. */
typedef shoal_status (*agreement)(shoal_group *g, shoal_status mine);

/* Files stay open until everybody has opened them; mappings keep the memory from then on. */
static shoal_status share(shoal_group *g, shoal_region *r, agreement agree)
{
  offer mine = { .fd = -1 }, *all;
  SHOAL_TRY(agree(g, SHOAL_ALLOC((size_t)g->size, &all)));
  shoal_status st = make_own(r, &mine);
  shoal_status told = shoal_group_tell(g, &mine, sizeof mine, all);
  if (st == SHOAL_OK && told == SHOAL_OK) st = open_others(g, r, all);
  r->id = all[0].proof;
  free(all);
  st = agree(g, st != SHOAL_OK ? st : told);
  if (mine.fd >= 0) close((int)mine.fd);
  return st;
}

static shoal_status make_region(shoal_group *g, size_t bytes, agreement agree, void **out)
{
  shoal_world *w = g->w;
  shoal_region *r;
  shoal_status st = SHOAL_ALLOC(1, &r);
  if (!w->shares || g->size == 1) {
    SHOAL_TRY(st);
    r->plain = true;
    r->bytes = bytes;
    st = shoal_alloc(SHOAL_MAX(bytes, (size_t)1), 1, "memory for exchanges", (void **)&r->base);
  } else {
    SHOAL_TRY(agree(g, st));
    r->bytes = HEADER + shoal_round_up(SHOAL_MAX(bytes, (size_t)1), SHOAL_ALIGN);
    st = share(g, r, agree);
  }
  if (st != SHOAL_OK) {
    free_region(r);
    return st;
  }
  r->next = w->regions;
  w->regions = r;
  *out = r->plain ? r->base : r->base + HEADER;
  return SHOAL_OK;
}

shoal_status shoal_group_share(shoal_group *g, size_t bytes, void **out)
{
  return make_region(g, bytes, shoal_group_agree, out);
}

void shoal_group_unshare(shoal_group *g, void *memory)
{
  if (!memory) return;
  for (shoal_region **at = &g->w->regions; *at; at = &(*at)->next) {
    shoal_region *r = *at;
    if ((r->plain ? r->base : r->base + HEADER) != memory) continue;
    *at = r->next;
    free_region(r);
    return;
  }
}

const shoal_region *shoal_region_of(const shoal_world *w, const void *memory, size_t bytes)
{
  const char *from = memory;
  for (const shoal_region *r = w->regions; r; r = r->next)
    if (!r->plain && from >= r->base && from + bytes <= r->base + r->bytes) return r;
  return NULL;
}

char *shoal_region_at(const shoal_world *w, uint64_t id, int rank, uint64_t offset)
{
  for (const shoal_region *r = w->regions; r; r = r->next)
    for (int i = 0; !r->plain && r->id == id && i < r->n; i++)
      if (r->neighbours[i].rank == rank && offset < r->neighbours[i].bytes) return r->neighbours[i].base + offset;
  return NULL;
}

/* Many may have a reason of their own; the lowest rank that has one says it for all. */
static shoal_status warn_once(shoal_world *w, bool knows, const char *why)
{
  int64_t key = w->size - w->rank, first = knows ? key : 0;
  SHOAL_TRY(shoal_group_agree_max(w->control, "agreement", &first));
  if (first == key)
    shoal_warn("ranks of a node cannot share memory, so sums go around a ring of all ranks, which is slower: %s", why);
  return SHOAL_OK;
}

shoal_status shoal_share_try(shoal_world *w, bool wanted)
{
  void *memory = NULL;
  w->shares = wanted && w->topo->nodes < w->size;
  if (!w->shares) return SHOAL_OK;
  shoal_status st = make_region(w->control, 1, shoal_group_hear, &memory);
  w->shares = st == SHOAL_OK;
  w->roll = memory;
  if (w->shares || st == SHOAL_ERR_HANG) return st;
  shoal_error why;
  shoal_error_take(&why);
  return warn_once(w, st != SHOAL_ERR_PEER, why.text);
}

shoal_status shoal_share_roll_call(const shoal_world *w)
{
  const shoal_region *r = w->roll ? shoal_region_of(w, w->roll, 1) : NULL;
  for (int i = 0; r && i < r->n; i++) {
    const shoal_neighbour *n = &r->neighbours[i];
    SHOAL_CHECK(
        born(n->pid) == n->born, SHOAL_ERR_COMM,
        "rank %d (%s, process %lld) is gone, noticed in training step %llu: it was killed or left early; the last "
        "checkpoint is untouched, resume from it",
        n->rank, w->topo->places[n->rank].host, (long long)n->pid, (unsigned long long)w->step);
  }
  return SHOAL_OK;
}

void shoal_share_close(shoal_world *w)
{
  for (shoal_region *r = w->regions, *next; r; r = next) {
    next = r->next;
    free_region(r);
  }
  w->regions = NULL;
}
