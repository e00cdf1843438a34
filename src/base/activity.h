/* What this process does with files, for those who wait for it.
 *
 * A disk or a server that does not answer holds a process in the kernel: it cannot say what it waits for, and the others only see
 * that it does not come.  So work with files is announced before it begins.  Who waits reads it from memory that processes of a host
 * share (comm/share.c); what nobody else can read a thread of this process tells by itself.
 *
 * Only the thread that opened this announces anything; in others, and before, these functions do nothing. */
#ifndef SHOAL_BASE_ACTIVITY_H
#define SHOAL_BASE_ACTIVITY_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHOAL_ACTIVITY_TEXT = 256, SHOAL_ACTIVITY_LEVELS = 2 };

/* Written by one thread, read by any, also of other processes.  All zero: nothing is done. */
typedef struct {
  atomic_uint_least64_t changes; /* odd while it is being changed */
  int depth;         /* of activities inside each other; those between the first and the last are not kept */
  uint64_t since_ns; /* of the first; the monotonic clock, which is one for all processes of a host */
  bool shared;       /* the first is one of all ranks */
  char what[SHOAL_ACTIVITY_LEVELS][SHOAL_ACTIVITY_TEXT];
} shoal_activity;

/** Whether this thread's activities count from now on. */
void shoal_activity_announce(bool on);
/** Where they are written, in zeroed memory; NULL: in memory of this process. */
void shoal_activity_place(shoal_activity *where);
/** "saving step 300 in runs/a/ckpt": until the matching end.
 *  @param shared  all ranks do it at this time, and know that of each other */
void shoal_activity_begin(bool shared, const char *format, ...) __attribute__((format(printf, 2, 3)));
void shoal_activity_end(void);
/** What goes on for at least `least_s` seconds, as "saving step 300 in runs/a/ckpt, now writing runs/a/log.txt, for 31 s"; false if
 *  nothing does.  The first form: of this process, what all ranks do. */
bool shoal_activity_describe_shared(double least_s, char *buf, size_t cap);
bool shoal_activity_describe(const shoal_activity *a, double least_s, char *buf, size_t cap);
/** A thread warns of what has not ended for warn_s seconds, and for twice as long as the last it warned of, on stderr alone: the log
 *  may be what does not answer.  The end is told in the log, too.
 *  @param even_if_shared  also of what all ranks do, for which others wait */
void shoal_activity_watch(double warn_s, bool even_if_shared);
void shoal_activity_watch_end(void); /* also if it never began */
#endif
