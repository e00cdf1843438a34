/* See tensor_mirror.h. */
#include "tensor_mirror.h"
#include "base/mem.h"
#include "check.h"
#include "veil/wrapper.h"

enum { PLACES = 24, GUARD = 64 };

/* Arguments of the call that is being made. */
typedef struct {
  const char *host;
  size_t bytes;
  int use;
  shoal_memory memory;
  char *there;
} place;
typedef struct {
  wrapper w;
  place p[PLACES];
  int n;
} mirror;

static shoal_status copy(shoal_backend *b, size_t bytes, const void *from, void *to)
{
  return b->ops->copy(b, bytes, from, to);
}

/* An argument inside an earlier one shares its place, so the longest comes first where that matters. */
static void *place_argument(wrapper *w, const char *call, void *host, size_t bytes, int use)
{
  mirror *m = (mirror *)w;
  shoal_backend *b = w->inner;
  const char *h = host;
  if (!host) return NULL;
  for (int i = 0; i < m->n; i++) {
    place *p = &m->p[i];
    if (h < p->host || h + bytes > p->host + p->bytes) continue;
    p->use |= use & WRAPPED_WRITES;
    return p->there + (h - p->host);
  }
  REQUIRE(m->n < PLACES, "%s: raise PLACES", call);
  place *p = &m->p[m->n++];
  const size_t odd = (uintptr_t)h % SHOAL_ALIGN;
  char guard[GUARD];
  memset(guard, 0x5a, sizeof guard);
  *p = (place){ .host = h, .bytes = bytes, .use = use };
  shoal_memory_kind kind = use & WRAPPED_PINNED ? SHOAL_MEMORY_PINNED : SHOAL_MEMORY_DEVICE;
  REQUIRE(b->ops->alloc(b, kind, odd + bytes + GUARD, &p->memory) == SHOAL_OK, "%s", check_error());
  p->there = (char *)p->memory.at + odd;
  CHECK_OK(copy(b, bytes, h, p->there));
  CHECK_OK(copy(b, GUARD, guard, p->there + bytes));
  return p->there;
}

static void before(wrapper *w)
{
}

static shoal_status after(wrapper *w, shoal_status st)
{
  mirror *m = (mirror *)w;
  shoal_backend *b = w->inner;
  shoal_error e;
  shoal_error_take(&e);
  CHECK_OK(b->ops->settle(b));
  for (int i = 0; i < m->n; i++) {
    place *p = &m->p[i];
    char guard[GUARD];
    if (p->use & WRAPPED_WRITES) CHECK_OK(copy(b, p->bytes, p->there, (void *)(uintptr_t)p->host));
    CHECK_OK(copy(b, GUARD, p->there + p->bytes, guard));
    for (int k = 0; k < GUARD; k++)
      if (!CHECK_EQ(guard[k], 0x5a, "something wrote behind argument %d of %zu bytes", i, p->bytes)) break;
    b->ops->release(b, &p->memory);
  }
  m->n = 0;
  if (st != SHOAL_OK) (void)shoal_error_put(&e);
  return st;
}

static shoal_status alloc(shoal_backend *b, shoal_memory_kind kind, size_t bytes, shoal_memory *out)
{
  if (kind == SHOAL_MEMORY_SHARED) return shoal_host_memory_alloc_shared(bytes, "mirror", out);
  *out = (shoal_memory){ .bytes = bytes, .kind = kind };
  return shoal_alloc(bytes, 1, "mirror", &out->at);
}

static void release(shoal_backend *b, shoal_memory *memory)
{
  shoal_host_memory_release(memory);
}

static shoal_backend *behind(shoal_backend *b)
{
  return ((wrapper *)b)->inner;
}

static shoal_status settle(shoal_backend *b)
{
  return behind(b)->ops->settle(behind(b));
}

static uint64_t mark(shoal_backend *b)
{
  return behind(b)->ops->mark(behind(b));
}

static bool reached(shoal_backend *b, uint64_t number)
{
  return behind(b)->ops->reached(behind(b), number);
}

/* Its memory is of no kind, so the copy is taken to be one to the host. */
static shoal_status copy_beside(shoal_backend *b, uint64_t number_before, size_t bytes, const void *from, void *to,
                                uint64_t *number)
{
  wrapper *w = (wrapper *)b;
  const void *x = place_argument(w, __func__, (void *)(uintptr_t)from, bytes, WRAPPED_READS);
  void *y = place_argument(w, __func__, to, bytes, WRAPPED_RESULT);
  return after(w, behind(b)->ops->copy_beside(behind(b), number_before, bytes, x, y, number));
}

static shoal_status await(shoal_backend *b, uint64_t number)
{
  return behind(b)->ops->await(behind(b), number);
}

static void close_mirror(shoal_backend *b)
{
  shoal_backend_close(behind(b));
  free(b);
}

static const wrapper_policy policy = {
  .place = place_argument,
  .before = before,
  .after = after,
  .alloc = alloc,
  .release = release,
  .settle = settle,
  .mark = mark,
  .reached = reached,
  .copy_beside = copy_beside,
  .await = await,
  .close = close_mirror,
};

shoal_backend *mirror_of(shoal_backend *b)
{
  if (b->host_memory) return b;
  mirror *m = calloc(1, sizeof *m);
  REQUIRE(m, "out of memory");
  wrapper_open(&m->w, b, &policy);
  m->w.base.host_memory = true;
  return &m->w.base;
}

bool mirrored(const shoal_backend *b)
{
  return b->ops->close == close_mirror;
}
