/* See veil.h.
 *
 * What calls use of PINNED memory is hidden range by range, as the host may use another part of a block meanwhile.  While a
 * function of the backend runs, the ranges are as they were, latest first; afterwards they are hidden again.
 *
 * Device memory comes from one reserved range of addresses, so that a single call opens or closes all of it; a page is left out
 * between two blocks.  While a function of the backend runs, the veil is open; it closes while that one polls the network. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "veil/veil.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "veil/wrapper.h"
#include <execinfo.h>
#include <signal.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCKS = 4096, PAGE = 4096, LATE = 4096, EXIT = 99 };
static const size_t range_bytes = (size_t)1 << 34;

typedef struct {
  char *at;
  size_t bytes, whole;
  shoal_memory_kind kind;
} block;

typedef struct {   /* part of PINNED or SHARED memory that a call uses */
  char *at, *kept; /* what is in it */
  size_t bytes;
  uint64_t number; /* of the last call */
  const char *call;
} hidden;

typedef struct { /* a copy that has been asked for */
  uint64_t number;
  size_t bytes;
  const void *from;
  void *to;
  uint32_t crc; /* of what is there to be copied */
  int asked;    /* whether it is reached */
} late_copy;

typedef struct {
  wrapper w;
  char *range;
  size_t top; /* bytes of the range that were ever used */
  block block[BLOCKS];
  int blocks;
  uint64_t number;
  hidden *hide;
  int hides, hide_room;
  late_copy late[LATE];
  int lates;
  bool open;
} veil;
static veil *only; /* for the signal handler */

static veil *of(shoal_backend *b)
{
  return (veil *)b;
}

shoal_backend *veil_behind(shoal_backend *b)
{
  return of(b)->w.inner;
}

/* ---- accusations ---- */

__attribute__((noreturn, format(printf, 1, 2))) static void accuse(const char *format, ...)
{
  char text[256];
  void *caller[40];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(text, sizeof text - 1, format, args);
  va_end(args);
  text[n++] = '\n';
  (void)!write(STDERR_FILENO, "veil: ", 6);
  (void)!write(STDERR_FILENO, text, (size_t)n);
  backtrace_symbols_fd(caller, backtrace(caller, SHOAL_COUNT(caller)), STDERR_FILENO);
  _exit(EXIT);
}

/* Behind memory of the device lies a page that is nobody's, so its end belongs to it; others may have another one there. */
static block *find(veil *v, const void *p)
{
  const char *at = p;
  for (int i = 0; i < v->blocks; i++) {
    const block *k = &v->block[i];
    const size_t bytes = k->bytes + (k->kind == SHOAL_MEMORY_DEVICE || !k->bytes);
    if (at >= k->at && at < k->at + bytes) return &v->block[i];
  }
  return NULL;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
  const block *k = only ? find(only, info->si_addr) : NULL;
  if (k) accuse("host code touches byte %zu of %zu bytes of memory", (size_t)((char *)info->si_addr - k->at), k->bytes);
  accuse("signal %d at %p", signal, info->si_addr);
}

/* ---- memory ---- */

static void protect(void *at, size_t bytes, int how)
{
  if (bytes && mprotect(at, bytes, how) != 0) accuse("mprotect of %zu bytes", bytes);
}

static void show_all(veil *v)
{
  for (int i = v->hides - 1; i >= 0; i--) {
    hidden *h = &v->hide[i];
    for (size_t k = 0; k < h->bytes; k++)
      if ((unsigned char)h->at[k] != 0xff) accuse("host code writes to memory that %s uses", h->call);
    memcpy(h->at, h->kept, h->bytes);
  }
}

static void hide_all(veil *v)
{
  for (int i = 0; i < v->hides; i++) {
    hidden *h = &v->hide[i];
    memcpy(h->kept, h->at, h->bytes);
    memset(h->at, 0xff, h->bytes);
  }
}

static void enter(veil *v)
{
  if (v->open) accuse("the backend is called while one of its functions runs");
  protect(v->range, v->top, PROT_READ | PROT_WRITE);
  show_all(v);
  v->open = true;
}

static shoal_status leave(veil *v, shoal_status st)
{
  v->open = false;
  hide_all(v);
  protect(v->range, v->top, PROT_NONE);
  return st;
}

/* From when the call that now begins has returned. */
static void hide(veil *v, const char *call, const void *p, size_t bytes)
{
  hidden h = { .at = (char *)(uintptr_t)p, .bytes = bytes, .number = v->number + 1, .call = call };
  for (int i = 0; i < v->hides; i++)
    if (v->hide[i].at == h.at && v->hide[i].bytes == bytes) {
      v->hide[i].number = h.number;
      return;
    }
  if (v->hides == v->hide_room) {
    v->hide_room = v->hide_room ? 2 * v->hide_room : 64;
    v->hide = realloc(v->hide, (size_t)v->hide_room * sizeof *v->hide);
  }
  h.kept = malloc(bytes);
  if (!v->hide || !h.kept) accuse("out of memory");
  show_all(v);
  v->hide[v->hides++] = h;
  hide_all(v);
}

static void set_free(veil *v, uint64_t until)
{
  int n = 0;
  show_all(v);
  for (int i = 0; i < v->hides; i++) {
    if (v->hide[i].number <= until)
      free(v->hide[i].kept);
    else
      v->hide[n++] = v->hide[i];
  }
  v->hides = n;
  hide_all(v);
}

/* The block that holds these bytes. */
static block *owned(veil *v, const char *call, const void *p, size_t bytes)
{
  block *k = find(v, p);
  if (!k) accuse("%s is given host memory", call);
  if ((const char *)p + bytes > k->at + k->bytes)
    accuse("%s reaches %zu bytes beyond its memory", call, (size_t)((const char *)p + bytes - k->at) - k->bytes);
  return k;
}

/* The host may read what a call only reads, too. */
static void *place_argument(wrapper *w, const char *call, void *p, size_t bytes, int use)
{
  veil *v = (veil *)w;
  if (!p || !bytes || (use & WRAPPED_ANY && !find(v, p))) return p;
  const block *k = owned(v, call, p, bytes);
  if ((use & WRAPPED_RESULT) == WRAPPED_RESULT && k->kind == SHOAL_MEMORY_DEVICE)
    accuse("%s writes a result for the host to DEVICE memory", call);
  if (use & WRAPPED_WRITES && k->kind != SHOAL_MEMORY_DEVICE) hide(v, call, p, bytes);
  return p;
}

static void before(wrapper *w)
{
  enter((veil *)w);
}

static shoal_status after(wrapper *w, shoal_status st)
{
  return leave((veil *)w, st);
}

static void copy_late(veil *v, uint64_t until)
{
  int n = 0;
  enter(v);
  for (; n < v->lates && v->late[n].number <= until; n++) {
    const late_copy *c = &v->late[n];
    if (shoal_crc32c(0, c->from, c->bytes) != c->crc)
      accuse("what copy_beside copies has changed before it was reached");
    memcpy(c->to, c->from, c->bytes);
  }
  leave(v, SHOAL_OK);
  v->lates -= n;
  memmove(v->late, v->late + n, (size_t)v->lates * sizeof *v->late);
}

static char *place(veil *v, size_t whole)
{
  size_t at = 0;
  for (bool moved = true; moved;) { /* the first gap */
    moved = false;
    for (int i = 0; i < v->blocks; i++) {
      const block *k = &v->block[i];
      if (k->kind != SHOAL_MEMORY_DEVICE) continue;
      size_t from = (size_t)(k->at - v->range), to = from + k->whole + PAGE;
      if (at < to && from < at + whole + PAGE) at = to, moved = true;
    }
  }
  if (at + whole > range_bytes) return NULL;
  v->top = SHOAL_MAX(v->top, at + whole);
  return v->range + at;
}

static shoal_status alloc(shoal_backend *b, shoal_memory_kind kind, size_t bytes, shoal_memory *out)
{
  veil *v = of(b);
  block k = { .bytes = bytes, .whole = shoal_round_up(SHOAL_MAX(bytes, (size_t)1), PAGE), .kind = kind };
  *out = (shoal_memory){ .bytes = bytes, .kind = kind };
  SHOAL_CHECK(v->blocks < BLOCKS, SHOAL_ERR_MEM, "veil: no room for another block");
  if (kind == SHOAL_MEMORY_SHARED) {
    SHOAL_TRY(shoal_host_memory_alloc_shared(bytes, "memory behind a veil", out));
    k.at = out->at;
  } else if (kind == SHOAL_MEMORY_PINNED) {
    k.at = mmap(NULL, k.whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  } else {
    k.at = place(v, k.whole);
    if (k.at) {
      protect(k.at, k.whole, PROT_READ | PROT_WRITE);
      memset(k.at, 0, k.whole);
      protect(k.at, k.whole, PROT_NONE);
    }
  }
  SHOAL_CHECK(k.at && k.at != MAP_FAILED, SHOAL_ERR_MEM, "veil: %zu bytes", bytes);
  out->at = k.at;
  v->block[v->blocks++] = k;
  return SHOAL_OK;
}

static shoal_status settle(shoal_backend *b)
{
  veil *v = of(b);
  copy_late(v, UINT64_MAX);
  set_free(v, UINT64_MAX);
  return SHOAL_OK;
}

static void release(shoal_backend *b, shoal_memory *m)
{
  veil *v = of(b);
  if (!m->at) return;
  (void)settle(b);
  block *k = find(v, m->at);
  if (!k || k->at != m->at) accuse("memory is released that was not allocated");
  if (k->kind == SHOAL_MEMORY_SHARED)
    shoal_host_memory_release(m);
  else if (k->kind == SHOAL_MEMORY_PINNED)
    munmap(k->at, k->whole);
  *k = v->block[--v->blocks];
  *m = (shoal_memory){ 0 };
}

/* ---- order ---- */

static uint64_t mark(shoal_backend *b)
{
  return ++of(b)->number;
}

static bool reached(shoal_backend *b, uint64_t number)
{
  veil *v = of(b);
  for (int i = 0; i < v->lates; i++) {
    if (v->late[i].number > number) break;
    if (v->late[i].asked++ == 0) return false;
  }
  copy_late(v, number);
  set_free(v, number);
  return true;
}

static shoal_status copy_beside(shoal_backend *b, uint64_t after, size_t bytes, const void *from, void *to,
                                uint64_t *number)
{
  veil *v = of(b);
  SHOAL_CHECK(v->lates < LATE, SHOAL_ERR_INTERNAL, "veil: too many copies are under way");
  (void)owned(v, __func__, from, bytes);
  (void)owned(v, __func__, to, bytes);
  *number = ++v->number;
  enter(v);
  v->late[v->lates++] = (late_copy){ *number, bytes, from, to, shoal_crc32c(0, from, bytes), 0 };
  memset(to, 0xff, bytes);
  return leave(v, SHOAL_OK);
}

static shoal_status await(shoal_backend *b, uint64_t number)
{
  copy_late(of(b), number);
  return SHOAL_OK;
}

/* ---- opening ---- */

static void progress(void *context)
{
  veil *v = context;
  if (!v->w.base.progress) return;
  if (v->open) leave(v, SHOAL_OK);
  v->w.base.progress(v->w.base.progress_context);
  enter(v);
}

static void close_veil(shoal_backend *b)
{
  veil *v = of(b);
  shoal_backend_close(v->w.inner);
  munmap(v->range, range_bytes);
  for (int i = 0; i < v->hides; i++) free(v->hide[i].kept);
  free(v->hide);
  only = NULL;
  free(v);
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
  .close = close_veil,
};

shoal_status veil_over(shoal_backend *inner, shoal_backend **out)
{
  veil *v = calloc(1, sizeof *v);
  SHOAL_CHECK(v, SHOAL_ERR_MEM, "veil");
  v->range = mmap(NULL, range_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  SHOAL_CHECK(v->range != MAP_FAILED, SHOAL_ERR_MEM, "veil: %zu bytes of addresses", range_bytes);
  wrapper_open(&v->w, inner, &policy);
  inner->progress = progress;
  inner->progress_context = v;
  only = v;
  struct sigaction on = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO };
  if (sigaction(SIGSEGV, &on, NULL) != 0) accuse("sigaction");
  *out = &v->w.base;
  return SHOAL_OK;
}
