/* Collective writing of a checkpoint.
 *
 *   put      every rank notes what it has: small arrays are copied, those of a backend's memory borrowed
 *   launch   all agree on who writes what (plan.c); then training may go on, with a copy of what was borrowed
 *   write    rank 0 the main file, other ranks their shards, all at the same time: data sets -> close -> seal -> fsync -> read
 *            back -> rename; rank 0 waits for all shards before it seals, lists them, takes the sums over ranks from them (sum.c),
 *            and gives the main file its name last
 *   join     all learn whether it is there
 *
 * What is written beside the training is written by a thread, which calls HDF5 (built thread-safe: its calls are serialised) and
 * never MPI.  It writes in pieces, so that a loader or the trace waits a few milliseconds for HDF5 at most.  Rank 0's thread sees in
 * the folder that a shard is finished, by its name; whether one will never be is known when all join.
 *
 * Shards, not one file written by all: Shoal uses the serial HDF5, because the parallel build is not thread-safe.
 *
 * Errors are stored until launch, so that methods can write their arrays without checking each call.  A failure of one
 * rank fails the checkpoint on all. */
#include "ckpt/together/writer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/together/together_impl.h"
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { ROOT = SHOAL_CKPT_ROOT };

static void keep_failure(shoal_ckpt_writer *c, shoal_status st)
{
  if (st == SHOAL_OK || c->failure.code != SHOAL_OK) return;
  shoal_error_keep(&c->failure, st);
  shoal_ckpt_draft_discard(&c->draft); /* free its disk space at once */
}

/* ---- begin ---- */

static void free_items(shoal_ckpt_writer *c)
{
  for (size_t k = 0; k < c->n; k++) {
    shoal_window_drop(&c->item[k].window);
    free(c->item[k].own);
    free(c->item[k].also);
    free(c->item[k].name);
  }
  free(c->item);
  c->item = NULL;
  c->n = 0;
  shoal_ckpt_replicas_free(&c->replicas);
  shoal_ckpt_sum_free(&c->sum);
}

static void free_writer(shoal_ckpt_writer *c)
{
  if (!c) return;
  if (!c->dry_run) {
    shoal_ckpt_draft_discard(&c->draft);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
  }
  free_items(c);
  free(c->path);
  free(c);
}

static shoal_status make_writer(shoal_group *control, const char *dir, const shoal_ckpt_info *info, uint64_t need_bytes,
                                shoal_ckpt_writer **out)
{
  shoal_ckpt_writer *c = NULL;
  SHOAL_TRY(SHOAL_ALLOC(1, &c));
  *out = c;
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->changed, NULL);
  c->group = control;
  c->rank = shoal_group_rank(control);
  c->size = shoal_group_size(control);
  c->info = *info;
  c->info.config = c->info.placement = NULL;
  char *name = shoal_strdup_printf("step-%09" PRIu64 ".h5", info->step);
  c->path = shoal_path_join(dir, name);
  free(name);
  return c->rank == ROOT ? shoal_ckpt_draft_open(&c->draft, c->path, info, need_bytes) : SHOAL_OK;
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

shoal_status shoal_ckpt_measured(shoal_ckpt_writer *c, uint64_t *bytes_out, uint64_t *own_out)
{
  const uint64_t own[2] = { c->bytes, c->replica_bytes };
  int64_t bytes[2] = { (int64_t)c->bytes, (int64_t)c->replica_bytes };
  shoal_status st = shoal_group_sum_i64(c->group, bytes, SHOAL_COUNT(bytes));
  *bytes_out = (uint64_t)bytes[0] + (uint64_t)bytes[1] * (uint64_t)c->copies / (uint64_t)c->size;
  *own_out = c->rank == ROOT ? own[0] + own[1] : c->copies > 1 ? own[1] : 0;
  free_writer(c);
  return st;
}

/* ---- putting ---- */

static shoal_status add_item(shoal_ckpt_writer *c, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                             shoal_ckpt_item **out)
{
  uint64_t n;
  SHOAL_CHECK(shoal_ckpt_elements(type, ndim, dims, &n) == SHOAL_OK, SHOAL_ERR_ARG,
              "data set %s has an impossible type or shape (type %d, %d dimensions)", name, (int)type, ndim);
  if (c->n == c->room) {
    size_t room = c->room ? 2 * c->room : 64;
    shoal_ckpt_item *more = realloc(c->item, room * sizeof *more);
    SHOAL_CHECK(more, SHOAL_ERR_MEM, "no memory for a checkpoint of %zu arrays", c->n + 1);
    c->item = more;
    c->room = room;
  }
  shoal_ckpt_item *x = &c->item[c->n];
  *x = (shoal_ckpt_item){ .name = shoal_strdup_printf("%s", name), .type = type, .ndim = ndim, .n = n };
  SHOAL_CHECK(x->name, SHOAL_ERR_MEM, "no memory for a checkpoint of %zu arrays", c->n + 1);
  x->bytes = n * shoal_dtype_size(type);
  if (ndim) memcpy(x->dims, dims, (size_t)ndim * sizeof *dims);
  c->n++;
  *out = x;
  return SHOAL_OK;
}

/* Its bytes are in `data`, which is copied unless `window` shows them; that is the item's from here on. */
static shoal_status fill_item(shoal_ckpt_item *x, const void *data, shoal_window *window)
{
  x->data = data;
  if (window) {
    x->window = *window;
    *window = (shoal_window){ 0 };
    return SHOAL_OK;
  }
  SHOAL_TRY(shoal_alloc((size_t)x->bytes, 1, x->name, &x->own));
  if (x->bytes) memcpy(x->own, data, (size_t)x->bytes);
  x->data = x->own;
  return SHOAL_OK;
}

/* Bytes of an array.  An invalid shape counts as 0; the real writer reports the error. */
static uint64_t measure(shoal_dtype type, int ndim, const uint64_t *dims)
{
  uint64_t n;
  return shoal_ckpt_elements(type, ndim, dims, &n) == SHOAL_OK ? n * shoal_dtype_size(type) : 0;
}

static bool takes_part(const shoal_ckpt_writer *c, bool replica)
{
  return c->failure.code == SHOAL_OK && (replica || c->rank == ROOT);
}

static void put(shoal_ckpt_writer *c, bool replica, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                const void *data, shoal_window *window)
{
  if (!takes_part(c, replica)) return;
  if (c->dry_run) {
    *(replica ? &c->replica_bytes : &c->bytes) += measure(type, ndim, dims);
    return;
  }
  shoal_ckpt_item *x = NULL;
  shoal_status st = add_item(c, name, type, ndim, dims, &x);
  if (st == SHOAL_OK) st = fill_item(x, data, window);
  if (st == SHOAL_OK && replica) {
    x->replica = true;
    c->n_replicas++;
    if (c->size > 1) {
      XXH128_hash_t hash = XXH3_128bits(x->data, (size_t)x->bytes);
      x->hash[0] = hash.low64;
      x->hash[1] = hash.high64;
    }
  }
  keep_failure(c, st);
}

void shoal_ckpt_put(shoal_ckpt_writer *c, const char *name, shoal_dtype type, int ndim, const uint64_t *dims,
                    const void *data)
{
  put(c, false, name, type, ndim, dims, data, NULL);
}

void shoal_ckpt_put_i64(shoal_ckpt_writer *c, const char *name, int64_t value)
{
  put(c, false, name, SHOAL_I64, 0, NULL, &value, NULL);
}

void shoal_ckpt_put_f64(shoal_ckpt_writer *c, const char *name, double value)
{
  put(c, false, name, SHOAL_F64, 0, NULL, &value, NULL);
}

void shoal_ckpt_put_replica(shoal_ckpt_writer *c, const char *name, shoal_dtype type, uint64_t n, const void *data)
{
  put(c, true, name, type, 1, &n, data, NULL);
}

void shoal_ckpt_put_slice(shoal_ckpt_writer *c, const shoal_ckpt_sum *sum, const char *name, int ndim,
                          const uint64_t *dims, uint64_t first)
{
  shoal_ckpt_item *x = NULL;
  c->sum.of = *sum;
  if (!takes_part(c, false)) return;
  if (c->dry_run) {
    c->bytes += measure(SHOAL_F32, ndim, dims);
    return;
  }
  shoal_status st = add_item(c, name, SHOAL_F32, ndim, dims, &x);
  if (st == SHOAL_OK) {
    x->slice = true;
    x->first = first;
    c->sum.n = SHOAL_MAX(c->sum.n, first + x->n);
  }
  keep_failure(c, st);
}

/* Only where the data will be read: by rank 0, or by all for a replica. */
static void put_backend(shoal_ckpt_writer *c, shoal_backend *b, bool replica, const char *name, int ndim,
                        const uint64_t *dims, const float *x)
{
  shoal_window w = { 0 };
  uint64_t n = 1;
  for (int i = 0; i < ndim; i++) n *= dims[i];
  if (!takes_part(c, replica)) return;
  if (!c->dry_run) keep_failure(c, shoal_window_open(b, SHOAL_WINDOW_READ, n, x, &w));
  put(c, replica, name, SHOAL_F32, ndim, dims, w.at, &w);
  shoal_window_drop(&w);
}

void shoal_ckpt_put_arena(shoal_ckpt_writer *c, shoal_backend *b, const char *name, int ndim, const uint64_t *dims,
                          const float *x)
{
  put_backend(c, b, false, name, ndim, dims, x);
}

void shoal_ckpt_put_arena_replica(shoal_ckpt_writer *c, shoal_backend *b, const char *name, uint64_t n, const float *x)
{
  put_backend(c, b, true, name, 1, &n, x);
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

/* ---- the copy that training leaves alone ---- */

/* Whether this rank writes an array, or sends it to nobody else. */
static bool writes(const shoal_ckpt_writer *c, const shoal_ckpt_item *x)
{
  return x->replica && c->rank != ROOT ? x->place == SHOAL_CKPT_IN_SHARD
                                       : !x->replica || x->place != SHOAL_CKPT_BY_NONE;
}

static bool is_borrowed(const shoal_ckpt_item *x)
{
  return x->window.at && x->window.at == x->window.behind;
}

static size_t copy_room(const shoal_ckpt_writer *c, const shoal_ckpt_item *x)
{
  return writes(c, x) && is_borrowed(x) ? shoal_round_up((size_t)x->bytes, SHOAL_ALIGN) : 0;
}

static bool make_copies(shoal_ckpt_writer *c, shoal_ckpt_copies *m)
{
  size_t sum = 0, at = 0;
  for (size_t k = 0; k < c->n; k++) sum += copy_room(c, &c->item[k]);
  if (!shoal_ckpt_copies_make(m, sum)) return false;
  for (size_t k = 0; k < c->n; k++) {
    shoal_ckpt_item *x = &c->item[k];
    size_t room = copy_room(c, x);
    if (room == 0) continue;
    x->data = memcpy((char *)m->at + at, x->data, (size_t)x->bytes);
    shoal_window_drop(&x->window);
    at += room;
  }
  return true;
}

/* What others write, or what is sent, is not needed any more. */
static void drop_unwritten(shoal_ckpt_writer *c)
{
  for (size_t k = 0; k < c->n; k++) {
    shoal_ckpt_item *x = &c->item[k];
    if (writes(c, x)) continue;
    shoal_window_drop(&x->window);
    free(x->own);
    x->own = NULL;
    x->data = NULL;
  }
}

/* ---- writing ---- */

static shoal_status put_named(shoal_ckpt_writer *c, const shoal_ckpt_item *x, int rank, uint64_t n, const void *data)
{
  char *name = shoal_ckpt_replica_name(rank, x->name);
  shoal_status st = shoal_ckpt_draft_put(&c->draft, name, x->type, 1, &n, data);
  free(name);
  return st;
}

static shoal_status link_named(shoal_ckpt_writer *c, const shoal_ckpt_item *x, int rank, int of)
{
  char *name = shoal_ckpt_replica_name(rank, x->name), *existing = shoal_ckpt_replica_name(of, x->name);
  shoal_status st = shoal_ckpt_draft_link(&c->draft, name, existing);
  free(existing);
  free(name);
  return st;
}

/* Rank 0: the i-th replica, of all ranks that have it in the main file. */
static shoal_status write_replicas(shoal_ckpt_writer *c, const shoal_ckpt_item *x, size_t i)
{
  const shoal_ckpt_replicas *all = &c->replicas;
  const size_t row = i * (size_t)c->size;
  for (int r = 0; r < c->size; r++) {
    const int32_t first = all->first[row + (size_t)r];
    if (all->place[row + (size_t)first] != SHOAL_CKPT_BY_ROOT) continue;
    if (first < r)
      SHOAL_TRY(link_named(c, x, r, first));
    else
      SHOAL_TRY(put_named(c, x, r, all->length[row + (size_t)r], r == ROOT ? x->data : all->at[row + (size_t)r]));
  }
  return SHOAL_OK;
}

static shoal_status write_items(shoal_ckpt_writer *c)
{
  size_t replicas = 0;
  for (size_t k = 0; k < c->n; k++) {
    const shoal_ckpt_item *x = &c->item[k];
    if (x->slice) continue;
    if (!x->replica)
      SHOAL_TRY(shoal_ckpt_draft_put(&c->draft, x->name, x->type, x->ndim, x->dims, x->data));
    else if (c->rank == ROOT)
      SHOAL_TRY(write_replicas(c, x, replicas++));
    else if (writes(c, x)) {
      SHOAL_TRY(put_named(c, x, c->rank, x->n, x->data));
      for (size_t i = 0; i < x->n_also; i++) SHOAL_TRY(link_named(c, x, x->also[i], c->rank));
    }
  }
  return SHOAL_OK;
}

/* Room for others, while it is waited for them. */
static void free_written(shoal_ckpt_writer *c)
{
  for (size_t k = 0; k < c->n; k++) {
    shoal_window_drop(&c->item[k].window);
    free(c->item[k].own);
    c->item[k].own = NULL;
    c->item[k].data = NULL;
  }
  free(c->replicas.gathered);
  c->replicas.gathered = NULL;
}

/* A shard whole; of the main file what is in it, but for what is summed over ranks. */
static shoal_status write_own(shoal_ckpt_writer *c)
{
  if (c->rank != ROOT && !c->shard) return SHOAL_OK;
  SHOAL_TRY(write_items(c));
  if (c->shard) SHOAL_TRY(shoal_ckpt_draft_finish(&c->draft));
  if (c->rank == ROOT) shoal_ckpt_sum_gathered(c);
  free_written(c);
  return SHOAL_OK;
}

/* A file server may show a file late that another host has made; nobody waits so long for those of ranks that may be gone. */
enum { LATE_S = 75, LAST_S = 10, NAP_US = 20000 };

static shoal_status wait_for_shard(shoal_ckpt_writer *c, const char *path)
{
  while (!shoal_path_exists(path)) {
    uint64_t since = atomic_load(&c->all_there_ns);
    if (atomic_load(&c->dropped))
      return shoal_error_told(SHOAL_FAIL(SHOAL_ERR_PEER, "no checkpoint: another rank failed"));
    SHOAL_TRY(shoal_expect_folder(path)); /* it may have been moved away: nothing will come then */
    SHOAL_CHECK(!since || shoal_seconds_since(since) < atomic_load(&c->late_s), SHOAL_ERR_IO,
                "%s, which another rank has written, is not to be seen here: do all nodes see the same folder?", path);
    usleep(NAP_US);
  }
  return SHOAL_OK;
}

/* Rank 0: the next shard, which that rank writes. */
static shoal_status take_shard(shoal_ckpt_writer *c, int rank)
{
  shoal_ckpt *shard = NULL;
  char *path = shoal_ckpt_shard_path(c->path, c->draft.index.save, (uint32_t)c->draft.index.n_shards + 1);
  shoal_status st = wait_for_shard(c, path);
  if (st == SHOAL_OK) st = shoal_ckpt_draft_attach(&c->draft, &shard);
  if (st == SHOAL_OK) st = shoal_ckpt_sum_shard(c, rank, shard);
  shoal_ckpt_close(shard);
  free(path);
  return st;
}

/* Rank 0: lists the shards as they come, writes what is summed over ranks, and gives the main file its name. */
static shoal_status finish_main(shoal_ckpt_writer *c)
{
  for (int r = 0; r < c->size; r++)
    if (shoal_ckpt_has_shard(c, r)) SHOAL_TRY(take_shard(c, r));
  SHOAL_TRY(shoal_ckpt_sum_write(c));
  SHOAL_TRY(shoal_ckpt_draft_finish(&c->draft));
  if (c->done) c->done(c->done_context, c->path, c->beside);
  return SHOAL_OK;
}

/* ---- the thread ---- */

static void set_state(shoal_ckpt_writer *c, shoal_ckpt_state state, shoal_status st)
{
  pthread_mutex_lock(&c->lock);
  keep_failure(c, st);
  c->state = st == SHOAL_OK ? state : SHOAL_CKPT_ENDED;
  pthread_cond_signal(&c->changed);
  pthread_mutex_unlock(&c->lock);
}

static void *work(void *writer)
{
  shoal_ckpt_writer *c = writer;
  shoal_status st = write_own(c);
  set_state(c, SHOAL_CKPT_WRITTEN, st);
  if (st == SHOAL_OK && c->rank == ROOT) set_state(c, SHOAL_CKPT_ENDED, finish_main(c));
  return NULL;
}

static shoal_status start_thread(shoal_ckpt_writer *c)
{
  sigset_t all, before;
  if (c->rank != ROOT && !c->shard) return SHOAL_OK;
  sigfillset(&all); /* no signal is for this thread */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  c->runs = pthread_create(&c->thread, NULL, work, c) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return c->runs ? SHOAL_OK : SHOAL_FAIL(SHOAL_ERR_MEM, "cannot start the thread that writes %s", c->path);
}

/* Rank 0's may still wait for shards then. */
static shoal_status wait_until_written(shoal_ckpt_writer *c)
{
  pthread_mutex_lock(&c->lock);
  while (c->state == SHOAL_CKPT_WRITING) pthread_cond_wait(&c->changed, &c->lock);
  shoal_status st = c->failure.code == SHOAL_OK ? SHOAL_OK : shoal_error_put(&c->failure);
  pthread_mutex_unlock(&c->lock);
  return st;
}

static shoal_status end_thread(shoal_ckpt_writer *c)
{
  pthread_join(c->thread, NULL);
  c->runs = false;
  return c->failure.code == SHOAL_OK ? SHOAL_OK : shoal_error_put(&c->failure);
}

/* ---- the end ---- */

static shoal_status launch(shoal_ckpt_writer *c, const shoal_ckpt_how *how, shoal_ckpt_launched *out)
{
  int64_t lacks = 0;
  atomic_store(&c->late_s, LATE_S);
  c->done = how->done;
  c->done_context = how->context;
  SHOAL_TRY(shoal_group_settle(c->group, c->failure.code == SHOAL_OK ? SHOAL_OK : shoal_error_put(&c->failure)));
  SHOAL_TRY(shoal_ckpt_plan(c, how->gather, &out->bytes));
  out->shards = c->n_shards;
  out->beside = how->beside == SHOAL_CKPT_ALWAYS || (how->beside == SHOAL_CKPT_AUTO && out->bytes >= SHOAL_CKPT_LARGE);
  drop_unwritten(c);
  if (!out->beside) return SHOAL_OK;
  lacks = !make_copies(c, how->copies);
  SHOAL_TRY(shoal_group_agree_max(c->group, "memory", &lacks));
  out->lacks_memory = lacks;
  c->beside = out->beside = !lacks;
  return lacks ? SHOAL_OK : shoal_group_settle(c->group, start_thread(c));
}

/* A rank whose files are not part of a checkpoint removes them. */
static void end_failed(shoal_ckpt_writer *c)
{
  atomic_store(&c->dropped, true);
  if (c->runs) (void)end_thread(c);
  if (c->shard) {
    char *path = shoal_ckpt_shard_path(c->path, c->info.save, c->shard);
    unlink(path);
    free(path);
  }
  free_writer(c);
}

shoal_status shoal_ckpt_launch(shoal_ckpt_writer *c, const shoal_ckpt_how *how, shoal_ckpt_launched *out)
{
  *out = (shoal_ckpt_launched){ 0 };
  shoal_status st = launch(c, how, out);
  if (st == SHOAL_OK) return SHOAL_OK;
  shoal_error failure;
  shoal_error_take(&failure);
  end_failed(c);
  (void)shoal_error_put(&failure);
  return st;
}

shoal_status shoal_ckpt_join(shoal_ckpt_writer *c, char **path_out)
{
  shoal_error failure;
  shoal_status st = shoal_group_settle(c->group, c->runs ? wait_until_written(c) : write_own(c));
  if (st == SHOAL_OK) {
    atomic_store(&c->all_there_ns, shoal_now_ns());
    shoal_status ended = c->runs ? end_thread(c) : c->rank == ROOT ? finish_main(c) : SHOAL_OK;
    st = shoal_group_settle(c->group, ended);
  }
  if (st != SHOAL_OK) {
    shoal_error_take(&failure);
    end_failed(c);
    (void)shoal_error_put(&failure);
    return st;
  }
  if (path_out) {
    *path_out = c->path;
    c->path = NULL;
  }
  free_writer(c);
  return SHOAL_OK;
}

shoal_status shoal_ckpt_commit(shoal_ckpt_writer *c, char **path_out)
{
  shoal_ckpt_launched ignored;
  SHOAL_TRY(shoal_ckpt_launch(c, &(shoal_ckpt_how){ .gather = UINT64_MAX, .beside = SHOAL_CKPT_NEVER }, &ignored));
  return shoal_ckpt_join(c, path_out);
}

void shoal_ckpt_abandon(shoal_ckpt_writer *c)
{
  if (!c) return;
  if (c->runs) {
    atomic_store(&c->late_s, LAST_S);
    atomic_store(&c->all_there_ns, shoal_now_ns());
    (void)end_thread(c);
  }
  free_writer(c);
}
