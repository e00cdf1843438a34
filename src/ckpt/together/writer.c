/* Collective writing of a checkpoint: rank 0 writes the file (draft.c), the other ranks send their data to it.
 *
 *   rank 0   data sets → close → seal → fsync → read back → rename → fsync the folder
 *   rank r   sends pieces of 4 MiB, one rank after the other, so that rank 0 buffers only one piece at a time
 *
 * Replicas that are equal are written once.  Which ones are is seen in the arrays: every rank hashes its own (XXH3, 128 bits),
 * and all compare the hashes before anything is sent.  Two different arrays have the same hash once in 10^38 times, which is
 * rarer than a flipped bit that no checksum finds.
 *
 * There is one writer, because Shoal uses the serial HDF5 (the parallel build is not thread-safe) and because one file
 * per rank would tie a checkpoint to the number of ranks.  Readers never see a partial file, which has a temporary
 * name.
 *
 * Errors are stored until commit, so that methods can write their arrays without checking each call.  A failure of one
 * rank fails the checkpoint on all: every collective call first exchanges the status of the ranks. */
#include "ckpt/together/writer.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/draft.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { ROOT = 0, TAG = 1000, PIECE = 4 << 20 /* bytes sent at a time */ };

/* Header that each rank contributes before the arrays are sent. */
typedef struct {
  uint64_t n, hash[2]; /* elements; of the array's bytes */
  uint32_t name_crc;
  int32_t type, status, unused;
} announcement;

struct shoal_ckpt_writer {
  shoal_group *group;
  int rank, size;
  bool dry_run;                  /* dry run: nothing is written, bytes are counted */
  int copies;                    /* dry run: replicas that differ */
  uint64_t bytes, replica_bytes; /* dry run: of data put by this rank, as an array of all or as its replica */
  char *path;
  shoal_error failure;    /* first error, of this rank or received from another one */
  shoal_ckpt_draft draft; /* root only */
  void *piece;            /* receive buffer; root only, if size > 1 */
  announcement *all;      /* [size] gathered from all ranks */
};

static void keep_failure(shoal_ckpt_writer *c, shoal_status st)
{
  if (st == SHOAL_OK || c->failure.code != SHOAL_OK) return;
  shoal_error_keep(&c->failure, st);
  shoal_ckpt_draft_discard(&c->draft); /* free its disk space at once */
}

/* ---- begin ---- */

static void free_writer(shoal_ckpt_writer *c)
{
  if (!c) return;
  if (!c->dry_run) shoal_ckpt_draft_discard(&c->draft);
  free(c->path);
  free(c->piece);
  free(c->all);
  free(c);
}

static shoal_status make_writer(shoal_group *control, const char *dir, const shoal_ckpt_info *info, uint64_t need_bytes,
                                shoal_ckpt_writer **out)
{
  shoal_ckpt_writer *c = NULL;
  SHOAL_TRY(SHOAL_ALLOC(1, &c));
  *out = c;
  c->group = control;
  c->rank = shoal_group_rank(control);
  c->size = shoal_group_size(control);
  char *name = shoal_strdup_printf("step-%09" PRIu64 ".h5", info->step);
  c->path = shoal_path_join(dir, name);
  free(name);
  SHOAL_TRY(SHOAL_ALLOC((size_t)c->size, &c->all));
  if (c->rank != ROOT) return SHOAL_OK;
  if (c->size > 1) SHOAL_TRY(shoal_alloc(PIECE, 1, "checkpoint buffer", &c->piece));
  return shoal_ckpt_draft_open(&c->draft, c->path, info, need_bytes);
}

shoal_status shoal_ckpt_begin(shoal_group *control, const char *dir, const shoal_ckpt_info *info, uint64_t need_bytes,
                              shoal_ckpt_writer **out)
{
  shoal_ckpt_writer *c = NULL;
  shoal_status st = shoal_group_settle(control, make_writer(control, dir, info, need_bytes, &c));
  if (st != SHOAL_OK) {
    free_writer(c);
    return st;
  }
  *out = c;
  return SHOAL_OK;
}

/* ---- measuring ---- */

shoal_status shoal_ckpt_measure(shoal_group *control, int copies, shoal_ckpt_writer **out)
{
  shoal_ckpt_writer *c = NULL;
  shoal_status st = shoal_group_settle(control, SHOAL_ALLOC(1, &c));
  if (st != SHOAL_OK) {
    free(c);
    return st;
  }
  *c = (shoal_ckpt_writer){ .group = control,
                            .rank = shoal_group_rank(control),
                            .size = shoal_group_size(control),
                            .dry_run = true,
                            .copies = copies };
  *out = c;
  return SHOAL_OK;
}

shoal_status shoal_ckpt_measured(shoal_ckpt_writer *c, uint64_t *bytes_out)
{
  int64_t bytes[2] = { (int64_t)c->bytes, (int64_t)c->replica_bytes };
  shoal_status st = shoal_group_sum_i64(c->group, bytes, SHOAL_COUNT(bytes));
  *bytes_out = (uint64_t)bytes[0] + (uint64_t)bytes[1] * (uint64_t)c->copies / (uint64_t)c->size;
  free_writer(c);
  return st;
}

/* Bytes of an array.  An invalid shape counts as 0; the real writer reports the error. */
static uint64_t measure(shoal_dtype type, int ndim, const uint64_t *dims)
{
  uint64_t n;
  return shoal_ckpt_elements(type, ndim, dims, &n) == SHOAL_OK ? n * shoal_dtype_size(type) : 0;
}

/* ---- arrays that are equal on all ranks ---- */

void shoal_ckpt_put(shoal_ckpt_writer *c, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                    const void *data)
{
  if (c->rank != ROOT || c->failure.code != SHOAL_OK) return;
  if (c->dry_run) {
    c->bytes += measure(type, ndim, dims);
    return;
  }
  keep_failure(c, shoal_ckpt_draft_put(&c->draft, name, type, ndim, dims, data));
}

void shoal_ckpt_put_i64(shoal_ckpt_writer *c, const char *name, int64_t value)
{
  shoal_ckpt_put(c, name, SHOAL_I64, 0, NULL, &value);
}

void shoal_ckpt_put_f64(shoal_ckpt_writer *c, const char *name, double value)
{
  shoal_ckpt_put(c, name, SHOAL_F64, 0, NULL, &value);
}

/* ---- arrays of every rank ---- */

/* Receives and writes one rank's array.  After a failed write the rest is still received, since it is being sent. */
static shoal_status receive_set(shoal_ckpt_writer *c, const char *name, shoal_dtype type, int rank, uint64_t n)
{
  bool begun = false;
  size_t width = shoal_dtype_size(type);
  uint64_t per_piece = PIECE / width;
  shoal_status st = c->failure.code;
  if (st == SHOAL_OK) {
    st = shoal_ckpt_draft_begin(&c->draft, name, type, n);
    begun = st == SHOAL_OK;
  }
  for (uint64_t first = 0; first < n; first += per_piece) {
    uint64_t count = SHOAL_MIN(per_piece, n - first);
    shoal_status received = shoal_group_recv(c->group, c->piece, (size_t)count * width, rank, TAG);
    if (received != SHOAL_OK) {
      st = received;
      break;
    }
    if (st == SHOAL_OK) st = shoal_ckpt_draft_add(&c->draft, count, c->piece);
  }
  if (!begun) return st;
  shoal_status ended = shoal_ckpt_draft_end(&c->draft, st == SHOAL_OK);
  return st == SHOAL_OK ? ended : st;
}

static shoal_status send_set(shoal_ckpt_writer *c, shoal_dtype type, uint64_t n, const char *data)
{
  for (uint64_t bytes = n * shoal_dtype_size(type), done = 0; done < bytes;) {
    size_t piece = (size_t)SHOAL_MIN(bytes - done, (uint64_t)PIECE);
    SHOAL_TRY(shoal_group_send(c->group, data + done, piece, ROOT, TAG));
    done += piece;
  }
  return SHOAL_OK;
}

/* Gathers lengths and hashes from all ranks.  Fails if a rank has failed or passed another name or type. */
static shoal_status announce(shoal_ckpt_writer *c, const char *name, shoal_dtype type, uint64_t n, const void *data)
{
  announcement mine = {
    .n = n, .name_crc = shoal_crc32c(0, name, strlen(name)), .type = (int32_t)type, .status = (int32_t)c->failure.code
  };
  if (c->failure.code == SHOAL_OK && c->size > 1) {
    XXH128_hash_t hash = XXH3_128bits(data, (size_t)n * shoal_dtype_size(type));
    mine.hash[0] = hash.low64;
    mine.hash[1] = hash.high64;
  }
  SHOAL_TRY(shoal_group_allgather(c->group, &mine, sizeof mine, c->all));
  for (int r = 0; r < c->size; r++) {
    shoal_status theirs = (shoal_status)c->all[r].status;
    if (theirs == SHOAL_OK) continue;
    if (c->failure.code != SHOAL_OK) return c->failure.code;
    /* Not printed here: the agreement in commit prints the error of the failed rank. */
    return shoal_error_told(
        SHOAL_FAIL(SHOAL_ERR_PEER, "no checkpoint: rank %d failed (%s)", r, shoal_status_text(theirs)));
  }
  for (int r = 1; r < c->size; r++)
    if (c->all[r].name_crc != c->all[0].name_crc || c->all[r].type != c->all[0].type)
      return SHOAL_FAIL(SHOAL_ERR_ARG, "rank %d writes another array into the checkpoint than rank 0 (here: %s, %s)", r,
                        name, shoal_dtype_name(type));
  return SHOAL_OK;
}

/* The lowest rank whose array is equal to that of a rank.  For all of 4096 ranks at most 8 million comparisons. */
static int first_equal(const shoal_ckpt_writer *c, int rank)
{
  const announcement *a = &c->all[rank];
  int r = 0;
  while (r < rank && (c->all[r].n != a->n || memcmp(c->all[r].hash, a->hash, sizeof a->hash) != 0)) r++;
  return r;
}

static char *replica_name(int rank, const char *name)
{
  return shoal_strdup_printf("replica/%d/%s", rank, name);
}

static void write_replicas(shoal_ckpt_writer *c, const char *name, shoal_dtype type, const void *data)
{
  for (int r = 0; r < c->size; r++) {
    int first = first_equal(c, r);
    char *full = replica_name(r, name), *existing = replica_name(first, name);
    uint64_t n = c->all[r].n;
    if (first < r && c->failure.code == SHOAL_OK)
      keep_failure(c, shoal_ckpt_draft_link(&c->draft, full, existing));
    else if (first == r && r != ROOT)
      keep_failure(c, receive_set(c, full, type, r, n));
    else if (first == r)
      keep_failure(c, shoal_ckpt_draft_put(&c->draft, full, type, 1, &n, data));
    free(existing);
    free(full);
  }
}

void shoal_ckpt_put_replica(shoal_ckpt_writer *c, const char *name, shoal_dtype type, uint64_t n, const void *data)
{
  uint64_t elements;
  if (c->dry_run) {
    c->replica_bytes += measure(type, 1, &n);
    return;
  }
  if (c->failure.code == SHOAL_OK && shoal_ckpt_elements(type, 1, &n, &elements) != SHOAL_OK)
    keep_failure(c, SHOAL_FAIL(SHOAL_ERR_ARG, "%s has an impossible type or length (type %d, %" PRIu64 " elements)",
                               name, (int)type, n));
  shoal_status st = announce(c, name, type, n, data);
  if (st == SHOAL_OK && first_equal(c, c->rank) == c->rank && c->rank != ROOT) st = send_set(c, type, n, data);
  if (st == SHOAL_OK && c->rank == ROOT) write_replicas(c, name, type, data);
  keep_failure(c, st);
}

/* ---- a backend's memory ---- */

/* Only where the data will be read: by rank 0, or by all for a replica. */
static bool look_at(shoal_ckpt_writer *c, shoal_backend *b, uint64_t n, const float *x, shoal_window *out)
{
  *out = (shoal_window){ 0 };
  if (c->dry_run || c->failure.code != SHOAL_OK) return false;
  keep_failure(c, shoal_window_open(b, SHOAL_WINDOW_READ, n, x, out));
  return c->failure.code == SHOAL_OK;
}

void shoal_ckpt_put_arena(shoal_ckpt_writer *c, shoal_backend *b, const char *name, int ndim, const uint64_t *dims,
                          const float *x)
{
  shoal_window w = { 0 };
  uint64_t n = 1;
  for (int i = 0; i < ndim; i++) n *= dims[i];
  if (c->rank == ROOT && !c->dry_run && !look_at(c, b, n, x, &w)) return;
  shoal_ckpt_put(c, name, SHOAL_F32, ndim, dims, w.at);
  shoal_window_drop(&w);
}

void shoal_ckpt_put_arena_replica(shoal_ckpt_writer *c, shoal_backend *b, const char *name, uint64_t n, const float *x)
{
  shoal_window w;
  (void)look_at(c, b, n, x, &w);
  shoal_ckpt_put_replica(c, name, SHOAL_F32, n, w.at);
  shoal_window_drop(&w);
}

shoal_status shoal_ckpt_get_arena(const shoal_ckpt *c, shoal_backend *b, const char *name, uint64_t n, float *x)
{
  shoal_window w;
  SHOAL_TRY(shoal_window_open(b, SHOAL_WINDOW_WRITE, n, x, &w));
  shoal_status st = shoal_ckpt_get(c, name, SHOAL_F32, n, w.at);
  if (st == SHOAL_OK) return shoal_window_close(b, &w);
  shoal_window_drop(&w);
  return st;
}

/* ---- the end ---- */

shoal_status shoal_ckpt_commit(shoal_ckpt_writer *c, char **path_out)
{
  shoal_status st = c->failure.code == SHOAL_OK ? SHOAL_OK : shoal_error_put(&c->failure);
  st = shoal_group_settle(c->group, st);
  if (st == SHOAL_OK)
    st = shoal_group_settle(c->group, c->rank == ROOT ? shoal_ckpt_draft_finish(&c->draft) : SHOAL_OK);
  if (st == SHOAL_OK && path_out) {
    *path_out = c->path;
    c->path = NULL;
  }
  free_writer(c);
  return st;
}

void shoal_ckpt_abandon(shoal_ckpt_writer *c)
{
  free_writer(c);
}
