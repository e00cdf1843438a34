/* Declarations private to trace/: the recorder, its ring, and the file that is written. */
#ifndef SHOAL_TRACE_TRACE_IMPL_H
#define SHOAL_TRACE_TRACE_IMPL_H
#include "base/error.h"
#include "trace/format.h"
#include <stdatomic.h>

enum {
  SHOAL_TRACE_RING = 16384, /* records held in memory: 896 KiB */
  SHOAL_TRACE_OPS = 2048,   /* names of a rank */
  SHOAL_TRACE_GROUPS = 256, /* groups of a rank */
  SHOAL_TRACE_ROW_WORDS = sizeof(shoal_trace_attempt) / sizeof(uint64_t),
};

/* What a recorder shares with the rank that writes, possibly another process; zero at first.  Only the recorder stores to
 * it, except to `drained`, which has a cache line of its own.  A recorder may be killed at any moment: a record, a name and
 * a row are counted when they are complete. */
typedef struct {
  _Atomic uint64_t written; /* records so far; record i is at i modulo the size of the ring until it is drained */
  _Atomic uint64_t rows;    /* number of times the row was stored; the last one is in row[rows & 1] */
  _Atomic uint32_t n_ops, n_groups;
  uint64_t apart[7];
  _Atomic uint64_t drained; /* records that the writer has taken */
  uint64_t apart_too[7];
  _Atomic uint64_t row[2][SHOAL_TRACE_ROW_WORDS];
  char ops[SHOAL_TRACE_OPS][SHOAL_TRACE_NAME];
  shoal_trace_group_row groups[SHOAL_TRACE_GROUPS];
  shoal_trace_record records[SHOAL_TRACE_RING];
} shoal_trace_shared;

typedef struct shoal_trace_file shoal_trace_file;

/* The energy counters of a node: energy.c. */
enum { SHOAL_TRACE_DOMAINS = 16 };
typedef struct {
  char path[SHOAL_TRACE_DOMAINS][256];                           /* of the counter */
  uint64_t last[SHOAL_TRACE_DOMAINS], most[SHOAL_TRACE_DOMAINS]; /* last reading; largest before it begins at 0 again */
  shoal_trace_energy row[SHOAL_TRACE_DOMAINS];
  size_t n; /* 0: there are none, or they must not be read */
} shoal_trace_energies_open;
/** Find the package domains below `powercap` and read them for the first time. */
void shoal_trace_energy_open(const char *powercap, shoal_trace_energies_open *e);
/** Read them again and add what was used since; more often than a counter begins anew, which takes minutes. */
void shoal_trace_energy_read(shoal_trace_energies_open *e);

struct shoal_trace {
  shoal_trace_level level;
  shoal_trace_shared *ring; /* NULL: nothing is recorded */
  shoal_trace_shared *own;  /* its memory if that is owned */
  uint64_t written, room;   /* records stored, and the number at which the ring looked full */
  uint64_t step, total_ns[SHOAL_TRACE_KIND_COUNT];
  bool paused;
  uint64_t spans, flush_ns;
  double span_ns; /* measured cost of one span, including its two clock readings */
  shoal_counters counters;
  /* level BY_STEP: sums over the current step, per kind and link */
  struct {
    uint64_t t0_ns, ns, bytes, n;
  } sums[SHOAL_TRACE_KIND_COUNT][SHOAL_LINK_COUNT + 1];
  shoal_error broken; /* error of the first failed write */
  uint64_t last_flush_ns, flush_every_ns;
  uint64_t switches_before[2]; /* this thread's voluntary and involuntary context switches at open */
  shoal_trace_attempt row;     /* this rank's row in the file, published at every flush */
  shoal_trace_file *out;       /* NULL: another rank writes, or none */
};

/** Make a new file for the rings of these ranks. */
shoal_status shoal_trace_file_create(const char *path, const shoal_trace_info *info, const shoal_trace_ring *ranks,
                                     size_t n, shoal_trace_file **out);
/** Rows that each of so many ranks keeps within a limit. */
uint64_t shoal_trace_rows_kept(uint64_t bytes, size_t ranks);
/** Append new names and records, empty the rings, and rewrite the ranks' rows. */
shoal_status shoal_trace_file_write(shoal_trace_file *f);
shoal_status shoal_trace_file_flush(shoal_trace_file *f);
bool shoal_trace_file_is_pressed(const shoal_trace_file *f); /* a ring is half full */
/** Wait until all ranks have closed their recorders, and write meanwhile if a ring is half full.  Some seconds at most, as
 *  one may have been killed. */
shoal_status shoal_trace_file_await(shoal_trace_file *f);
void shoal_trace_file_abandon(shoal_trace_file *f); /* keeps the file as of its last flush; close it next */
void shoal_trace_file_close(shoal_trace_file *f);   /* flush first; ignores NULL */
#endif
