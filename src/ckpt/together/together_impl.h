/* Declarations private to ckpt/together: what was put, and what becomes of it. */
#ifndef SHOAL_CKPT_TOGETHER_IMPL_H
#define SHOAL_CKPT_TOGETHER_IMPL_H
#include "base/error.h"
#include "ckpt/draft.h"
#include "ckpt/together/writer.h"
#include <pthread.h>
#include <stdatomic.h>

enum { SHOAL_CKPT_ROOT = 0 };

/* Who writes an array of this rank. */
typedef enum { SHOAL_CKPT_BY_NONE, SHOAL_CKPT_BY_ROOT, SHOAL_CKPT_IN_SHARD } shoal_ckpt_place;

/* An array that was put.  Its bytes are a copy, or borrowed until the save is launched. */
typedef struct {
  char *name; /* of a replica: without replica/K/ */
  shoal_dtype type;
  int ndim;
  uint64_t dims[SHOAL_CKPT_MAX_DIMS], n, bytes;
  bool replica;
  bool slice; /* of the sum, from element `first` on: without data until that is there */
  uint64_t first;
  const void *data;
  void *own;           /* `data`, if it is a copy */
  shoal_window window; /* `data`, if it is of a backend */
  uint64_t hash[2];    /* of a replica's bytes */
  shoal_ckpt_place place;
  int32_t *also; /* [n_also] ranks whose array of that name is equal to this, which is in this rank's shard */
  size_t n_also;
} shoal_ckpt_item;

/* Rank 0: of the replicas of all ranks. */
typedef struct {
  int32_t *first;          /* [n_replicas, size] the lowest rank with an equal array */
  shoal_ckpt_place *place; /* [n_replicas, size] */
  uint64_t *length;        /* [n_replicas, size] elements */
  char **at;               /* [n_replicas, size] in `gathered`; NULL: not there */
  char *gathered;          /* arrays of other ranks that rank 0 writes */
} shoal_ckpt_replicas;

/* Of the sum over ranks that slices are cut from; but for `of`, only on rank 0. */
typedef struct {
  shoal_ckpt_sum of;              /* no terms: no slices */
  size_t index[SHOAL_CKPT_TERMS]; /* of each term among the replicas */
  double
      *weight; /* [terms, size] of an array: that of all ranks that have an equal one; only the lowest of them has it */
  float *total; /* [n] */
  uint64_t n;
} shoal_ckpt_total;

typedef enum { SHOAL_CKPT_WRITING, SHOAL_CKPT_WRITTEN, SHOAL_CKPT_ENDED } shoal_ckpt_state;

struct shoal_ckpt_writer {
  shoal_group *group;
  int rank, size;
  bool dry_run;                  /* dry run: nothing is written, bytes are counted */
  int copies;                    /* dry run: replicas that differ */
  uint64_t bytes, replica_bytes; /* dry run: of data put by this rank, as an array of all or as its replica */
  char *path;
  shoal_ckpt_info info;   /* for this rank's shard: of the texts only the short ones */
  shoal_error failure;    /* first error of this rank */
  shoal_ckpt_draft draft; /* of the main file on rank 0, of this rank's shard on others */
  shoal_ckpt_item *item;
  size_t n, room;
  size_t n_replicas; /* of these items */
  shoal_ckpt_replicas replicas;
  shoal_ckpt_total sum;
  uint32_t n_shards, shard; /* rank 0: of all; this rank's: 0: none */
  shoal_ckpt_done done;
  void *done_context;
  /* a thread's */
  bool beside, runs; /* there are threads; this rank has one */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  shoal_ckpt_state state;
  atomic_bool dropped;                /* the main file is not to be finished */
  atomic_uint_least64_t all_there_ns; /* since when all shards should be there; 0: they need not be */
  atomic_int late_s;                  /* and how long they are waited for then */
};

/* plan.c.  Collective: who writes which array; sends small ones to rank 0, and opens the shards' files.  *most: the bytes that one
 * rank writes, at most, the same on all ranks.  All ranks return the same status. */
shoal_status shoal_ckpt_plan(shoal_ckpt_writer *c, uint64_t gather, uint64_t *most);
void shoal_ckpt_replicas_free(shoal_ckpt_replicas *r);
/** "replica/3/weights"; caller frees. */
char *shoal_ckpt_replica_name(int rank, const char *name);
/** The i-th item that is a replica. */
shoal_ckpt_item *shoal_ckpt_replica(const shoal_ckpt_writer *c, size_t i);
/** Whether a rank writes a shard; on rank 0. */
bool shoal_ckpt_has_shard(const shoal_ckpt_writer *c, int rank);

/* sum.c: the sum over ranks that slices are cut from.  Nothing is done where there are none. */
shoal_status
shoal_ckpt_sum_plan(shoal_ckpt_writer *c); /* collective, once arrays have a place; all return the same status */
/* On rank 0, in this order: the arrays it has in memory, those of each shard in rank order, then the slices are written. */
void shoal_ckpt_sum_gathered(shoal_ckpt_writer *c);
shoal_status shoal_ckpt_sum_shard(shoal_ckpt_writer *c, int rank, const shoal_ckpt *shard);
shoal_status shoal_ckpt_sum_write(shoal_ckpt_writer *c);
void shoal_ckpt_sum_free(shoal_ckpt_total *s);
#endif
