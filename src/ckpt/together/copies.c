/* See copies.h. */
#include "ckpt/together/copies.h"
#include "base/mem.h"
#include <signal.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14; older C libraries lack the name */
#define MADV_POPULATE_WRITE 23
#endif

void shoal_ckpt_copies_free(shoal_ckpt_copies *m)
{
  if (m->fills) {
    atomic_store(&m->stop, true);
    pthread_join(m->filler, NULL);
  }
  if (m->at) munmap(m->at, m->bytes);
  *m = (shoal_ckpt_copies){ 0 };
}

/* In large pages where there are some: most of the time goes into page faults otherwise. */
bool shoal_ckpt_copies_make(shoal_ckpt_copies *m, size_t bytes)
{
  if (bytes <= m->bytes) return true;
  shoal_ckpt_copies_free(m);
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return false;
  (void)madvise(at, bytes, MADV_HUGEPAGE);
  m->at = at;
  m->bytes = bytes;
  return true;
}

/* In small parts, since who needs memory meanwhile waits for one.  What is there stays as it is, so that a save may copy at the same time. */
static void *fill(void *copies)
{
  enum { PART = 2 << 20 };
  shoal_ckpt_copies *m = copies;
  int failed = 0;
  for (size_t at = 0; at < m->bytes && !failed && !atomic_load(&m->stop); at += PART)
    failed = madvise((char *)m->at + at, SHOAL_MIN(m->bytes - at, (size_t)PART), MADV_POPULATE_WRITE);
  return NULL;
}

void shoal_ckpt_copies_prepare(shoal_ckpt_copies *m, size_t bytes)
{
  sigset_t all, before;
  if (m->fills || bytes <= m->bytes || !shoal_ckpt_copies_make(m, bytes)) return;
  sigfillset(&all); /* no signal is for this thread */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  m->fills = pthread_create(&m->filler, NULL, fill, m) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}
