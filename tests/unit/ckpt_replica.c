/* Arrays of several ranks: uneven lengths, lengths beyond a piece, empty ones, equal ones; and failures of one rank, which
 * all ranks must learn; and sums over them, taken by who writes.  In one file, in shards, and in shards that are written while what was put changes already.  Run at 1 to
 * 4 ranks. */
#include "unit/ckpt_together.h"

static shoal_group *g;
static const char *dir;
static int rank, size, files; /* files: of the first checkpoint, which stays */
static shoal_backend *backend;
static enum { ONE_FILE, SHARDS, BESIDE, MODES } mode;

/* Rank r holds this many: few, more than two pieces of 4 MiB, none, some.  One rank alone holds the many. */
static uint64_t length_of(int r)
{
  static const uint64_t lengths[] = { 5, (9 << 20) / 4 + 1, 0, 1234 };
  return lengths[size == 1 ? 1 : r % 4];
}

/* One folder for all ranks: rank 0 makes it and sends its name to the others. */
static void share_folder(void)
{
  if (rank == 0) fixture_make();
  REQUIRE(shoal_group_broadcast(g, fixture_dir, sizeof fixture_dir, 0) == SHOAL_OK, "broadcast");
  dir = fixture_dir;
}

static void begin(uint64_t step, shoal_ckpt_writer **w)
{
  shoal_ckpt_info info;
  fixture_info(step, size, &info);
  REQUIRE(shoal_ckpt_begin(g, dir, &info, 0, w) == SHOAL_OK, "begin");
}

/* As commit does in the mode; `x` [n], NULL: none, is spoilt as soon as it may be, and mended again. */
static shoal_status end_save(shoal_ckpt_writer *w, float *x, uint64_t n, char **path)
{
  static shoal_ckpt_copies copies;
  shoal_ckpt_launched l;
  shoal_ckpt_how how = { .copies = &copies,
                         .gather = mode == ONE_FILE ? UINT64_MAX : 0,
                         .beside = mode == BESIDE ? SHOAL_CKPT_ALWAYS : SHOAL_CKPT_NEVER };
  if (mode == ONE_FILE) return shoal_ckpt_commit(w, path);
  SHOAL_TRY(shoal_ckpt_launch(w, &how, &l));
  CHECK_EQ(l.beside, mode == BESIDE);
  for (uint64_t i = 0; l.beside && x && i < n; i++) x[i] = -x[i];
  shoal_status st = shoal_ckpt_join(w, path);
  if (length_of(rank) == 5) shoal_ckpt_copies_free(&copies); /* others keep it */
  for (uint64_t i = 0; l.beside && x && i < n; i++) x[i] = -x[i];
  return st;
}

static void put_uneven(shoal_ckpt_writer *w, const float *mine)
{
  uint8_t bytes[3] = { (uint8_t)rank, 7, (uint8_t)size };
  int64_t position = 100 + rank;
  fixture_put(w, 10 + (uint64_t)rank); /* only rank 0's values count */
  shoal_ckpt_put_arena_replica(w, backend, "weights", length_of(rank), mine);
  shoal_ckpt_put_replica(w, "optim/momentum.buffer", SHOAL_U8, 3, bytes);
  shoal_ckpt_put_replica(w, "position", SHOAL_I64, 1, &position);
}

/* The size measured before anything is written is that of the data in the file, and nearly that of the file. */
static void check_measure(const float *mine, const shoal_ckpt *c)
{
  shoal_ckpt_writer *w;
  const shoal_ckpt_index *x = shoal_ckpt_get_index(c);
  uint64_t bytes = 0, data = 0, own = 0;
  int64_t all;
  const uint64_t file = shoal_ckpt_bytes(c);
  CHECK_OK(shoal_ckpt_measure(g, size, &w));
  put_uneven(w, mine);
  CHECK_OK(shoal_ckpt_measured(w, &bytes, &own));
  all = (int64_t)own;
  CHECK_OK(shoal_group_sum_i64(g, &all, 1));
  CHECK_EQ((uint64_t)all, bytes, "what the ranks write themselves");
  for (size_t i = 0; i < x->n; i++) data += x->at[i].bytes;
  CHECK_EQ(bytes, data, "rank %d", rank);
  CHECK_GT(file, bytes, "%" PRIu64 " bytes in files for %" PRIu64 " in %zu arrays", file, bytes, x->n);
  CHECK_LT(file, bytes + (x->n + 4 + 4 * x->n_shards) * 2048, "%zu arrays", x->n);
}

static void uneven_lengths(void)
{
  shoal_ckpt_writer *w;
  shoal_ckpt *c;
  char *path = NULL;
  uint64_t n = length_of(rank);
  float *mine = malloc((size_t)n * sizeof *mine + 1), *want = malloc((9 << 20) + 64), *got = malloc((9 << 20) + 64);
  uint8_t bytes[3];
  REQUIRE(mine, "memory");
  REQUIRE(want, "memory");
  REQUIRE(got, "memory");
  fixture_fill(SHOAL_F32, (uint64_t)rank, n, mine);
  begin(10, &w);
  put_uneven(w, mine);
  REQUIRE(end_save(w, mine, n, &path) == SHOAL_OK, "commit");
  REQUIRE(shoal_ckpt_open(path, true, &c) == SHOAL_OK, "every rank can read it");
  CHECK(fixture_matches(c, 10), "what is the same everywhere");
  CHECK_EQ(shoal_ckpt_get_info(c)->size, size);
  for (int r = 0; r < size; r++) {
    char name[64];
    int64_t value[1];
    snprintf(name, sizeof name, "replica/%d/weights", r);
    fixture_fill(SHOAL_F32, (uint64_t)r, length_of(r), want);
    CHECK_OK(shoal_ckpt_get(c, name, SHOAL_F32, length_of(r), got));
    CHECK_BYTES(want, got, (size_t)length_of(r) * sizeof *got, "%s", name);
    snprintf(name, sizeof name, "replica/%d/optim/momentum.buffer", r);
    CHECK_OK(shoal_ckpt_get(c, name, SHOAL_U8, 3, bytes));
    CHECK_EQ(bytes[0], r, "%s", name);
    CHECK_EQ(bytes[1], 7, "%s", name);
    CHECK_EQ(bytes[2], size, "%s", name);
    snprintf(name, sizeof name, "replica/%d/position", r);
    CHECK_OK(shoal_ckpt_get(c, name, SHOAL_I64, 1, value));
    CHECK_EQ(value[0], 100 + r, "%s", name);
  }
  const char *const *names;
  CHECK_EQ(shoal_ckpt_names(c, &names), FIXTURE_SETS + 3 * (size_t)size, "nothing else");
  check_measure(mine, c);
  files = 1 + (int)shoal_ckpt_get_index(c)->n_shards;
  CHECK_EQ(files, mode == ONE_FILE ? 1 : size, "each rank has something of its own");
  shoal_ckpt_close(c);
  free(path);
  free(mine);
  free(want);
  free(got);
}

/* Ranks 0 and 1 are equal, 2 and 3 too; with `spoilt` the last number of every rank is its own.  What is equal is in the file
 * once, under all names. */
static void equal_replicas(bool spoilt)
{
  enum { N = (5 << 20) / 4 };
  shoal_ckpt_writer *w;
  shoal_ckpt *c;
  char *path = NULL, name[64];
  float *x = malloc(N * sizeof *x), *got = malloc(N * sizeof *got);
  REQUIRE(x, "memory");
  REQUIRE(got, "memory");
  fixture_fill(SHOAL_F32, (uint64_t)rank / 2, N, x);
  if (spoilt) x[N - 1] = (float)rank;
  begin(spoilt ? 12 : 11, &w);
  shoal_ckpt_put_replica(w, "weights", SHOAL_F32, N, x);
  shoal_ckpt_put_replica(w, "momentum", SHOAL_F32, rank == 1 ? N - 1 : N, x);
  REQUIRE(end_save(w, NULL, 0, &path) == SHOAL_OK, "commit");
  REQUIRE(shoal_ckpt_open(path, true, &c) == SHOAL_OK, "open");
  int weights = spoilt ? size : (size + 1) / 2, momenta = !spoilt && size == 4 ? 3 : size;
  CHECK_EQ(shoal_ckpt_bytes(c) / (N * 4 - 4), weights + momenta, "copies in %" PRIu64 " bytes", shoal_ckpt_bytes(c));
  for (int r = 0; r < size; r++) {
    fixture_fill(SHOAL_F32, (uint64_t)r / 2, N, x);
    if (spoilt) x[N - 1] = (float)r;
    snprintf(name, sizeof name, "replica/%d/weights", r);
    CHECK_OK(shoal_ckpt_get(c, name, SHOAL_F32, N, got), "%s", name);
    CHECK_BYTES(x, got, N * sizeof *x, "%s", name);
    snprintf(name, sizeof name, "replica/%d/momentum", r);
    CHECK_OK(shoal_ckpt_get(c, name, SHOAL_F32, r == 1 ? N - 1 : N, got), "%s", name);
    CHECK_BYTES(x, got, (r == 1 ? N - 1 : N) * sizeof *x, "%s", name);
  }
  const char *const *names;
  CHECK_EQ(shoal_ckpt_names(c, &names), 2 * (size_t)size);
  shoal_ckpt_close(c);
  CHECK_OK(shoal_group_barrier(g));
  if (rank == 0) {
    unlink(path);
    CHECK_OK(shoal_ckpt_sweep(dir));
    CHECK_EQ(fixture_count(dir), files, "its shards are of no checkpoint now");
  }
  CHECK_OK(shoal_group_barrier(g));
  free(path);
  free(x);
  free(got);
}

/* A sum of three arrays of each rank, cut in two: whole numbers, each rank with another weight; base is the same on all ranks, and so
 * written once.  With `alike` all ranks have the same fractions, of which the mean must be exactly these. */
static void sums(bool alike)
{
  enum { N = (9 << 20) / 4 + 1, CUT = 6 };
  shoal_ckpt_sum sum = { .terms = 3,
                         .term = { { "common", 1 }, { "base", -1 }, { "weights", 2 } },
                         .weight = alike ? 1.0 / size : rank + 1 };
  float *x[3], *want = malloc(N * sizeof *want), *got = malloc(N * sizeof *got);
  uint64_t cut[] = { 2, 3 }, rest = N - CUT;
  char *path = NULL;
  shoal_ckpt_writer *w;
  shoal_ckpt *c;
  if (alike) sum.term[2].factor = 1;
  for (int k = 0; k < 3; k++) REQUIRE(x[k] = malloc(N * sizeof *x[k]), "memory");
  REQUIRE(want, "memory");
  REQUIRE(got, "memory");
  for (int i = 0; i < N; i++) {
    x[0][i] = x[1][i] = (float)(i % 13);
    x[2][i] = alike ? 1 / (float)(i + 3) : (float)(100 * rank + i % 97);
    if (!alike) x[0][i] += (float)(i % 7 + rank);
    want[i] = alike ? x[2][i] : 0;
    for (int r = 0; !alike && r < size; r++) want[i] += (float)((r + 1) * (i % 7 + r + 2 * (100 * r + i % 97)));
  }
  begin(13, &w);
  shoal_ckpt_put_slice(w, &sum, "model/cut", 2, cut, 0);
  for (int k = 0; k < 3; k++) shoal_ckpt_put_arena_replica(w, backend, sum.term[k].name, N, x[k]);
  shoal_ckpt_put_slice(w, &sum, "model/rest", 1, &rest, CUT);
  REQUIRE(end_save(w, x[2], N, &path) == SHOAL_OK, "commit: %s", check_error());
  REQUIRE(shoal_ckpt_open(path, true, &c) == SHOAL_OK, "open");
  CHECK_OK(shoal_ckpt_get(c, "model/cut", SHOAL_F32, CUT, got));
  CHECK_OK(shoal_ckpt_get(c, "model/rest", SHOAL_F32, rest, got + CUT));
  CHECK_BYTES(want, got, N * sizeof *want, "alike: %d", alike);
  CHECK_EQ(shoal_ckpt_index_find(shoal_ckpt_get_index(c), "model/rest")->shard, 0, "in the main file");
  shoal_ckpt_close(c);
  CHECK_OK(shoal_group_barrier(g));
  if (rank == 0) {
    unlink(path);
    CHECK_OK(shoal_ckpt_sweep(dir));
  }
  CHECK_OK(shoal_group_barrier(g));
  free(path);
  for (int k = 0; k < 3; k++) free(x[k]);
  free(want);
  free(got);
}

/* All ranks get the status `want`, the folder has no new file, and each rank has an error text. */
static void check_failed(shoal_ckpt_writer *w, shoal_status want, const char *what)
{
  char *path = NULL;
  CHECK_EQ(end_save(w, NULL, 0, &path), want, "%s", what);
  CHECK(!path, "%s", what);
  CHECK(check_error()[0], "%s: rank %d has a reason", what, rank);
  CHECK_OK(shoal_group_barrier(g));
  if (rank == 0) CHECK_EQ(fixture_count(dir), files, "%s: nothing new", what);
  CHECK_OK(shoal_group_barrier(g));
}

static void one_rank_fails(void)
{
  shoal_ckpt_writer *w;
  float x[8] = { 0 };
  for (int culprit = 0; culprit < size; culprit++) {
    begin(20, &w); /* an impossible length, first or after good ones */
    shoal_ckpt_put_replica(w, "good", SHOAL_F32, 8, x);
    shoal_ckpt_put_replica(w, "weights", SHOAL_F32, rank == culprit ? UINT64_MAX / 2 : 8, x);
    shoal_ckpt_put_replica(w, "later", SHOAL_F32, 8, x);
    check_failed(w, SHOAL_ERR_ARG, "impossible length");
  }
  begin(20, &w); /* rank 0 alone writes this */
  shoal_ckpt_put_i64(w, "bad name", 1);
  shoal_ckpt_put_replica(w, "weights", SHOAL_F32, 8, x);
  check_failed(w, SHOAL_ERR_ARG, "a bad name at rank 0");
  if (size > 1) {
    begin(20, &w);
    shoal_ckpt_put_replica(w, rank == size - 1 ? "other" : "weights", SHOAL_F32, 8, x);
    check_failed(w, SHOAL_ERR_ARG, "different names");
    begin(20, &w);
    shoal_ckpt_put_replica(w, "weights", rank == size - 1 ? SHOAL_U32 : SHOAL_F32, 8, x);
    check_failed(w, SHOAL_ERR_ARG, "different types");
  }
  uint64_t n = 8;
  for (int wrong = 0; wrong < 2; wrong++) {
    begin(20, &w);
    shoal_ckpt_put_slice(w, &(shoal_ckpt_sum){ .terms = 1, .term = { { wrong ? "none" : "weights", 1 } } }, "model/x",
                         1, &n, 0);
    shoal_ckpt_put_replica(w, "weights", SHOAL_F32, rank == size - 1 && !wrong ? 7 : 8, x);
    check_failed(w, SHOAL_ERR_ARG, "a sum of what is not there, or of another length");
  }
  begin(20, &w);
  x[7] = rank == size - 1 ? INFINITY : 0;
  shoal_ckpt_put_slice(w, &(shoal_ckpt_sum){ .terms = 1, .term = { { "weights", 1 } }, .weight = 1 }, "model/x", 1, &n,
                       0);
  shoal_ckpt_put_replica(w, "weights", SHOAL_F32, 8, x);
  check_failed(w, SHOAL_ERR_NUMERIC, "a sum that is not finite");
}

/* Rank 0 fails while the others write or send: they must not hang.  The name is taken already. */
static void fails_while_others_write(void)
{
  shoal_ckpt_writer *w;
  uint64_t n = length_of(rank);
  float *x = calloc((size_t)n + 1, sizeof *x);
  begin(20, &w);
  shoal_ckpt_put_i64(w, "replica/0/weights", 1);
  shoal_ckpt_put_replica(w, "weights", SHOAL_F32, n, x);
  shoal_ckpt_put_replica(w, "more", SHOAL_F32, n, x);
  check_failed(w, SHOAL_ERR_IO, "a name that is taken");
  free(x);
}

static shoal_status refuse(void *culprit)
{
  return rank == *(int *)culprit ? SHOAL_FAIL(SHOAL_ERR_WORLD, "rank %d may not", rank) : SHOAL_OK;
}

/* The file of one rank is written and then not given its name; those of the others have theirs, and go again. */
static void one_file_is_refused(void)
{
  shoal_ckpt_info info;
  shoal_ckpt_writer *w;
  float x[8] = { (float)rank };
  for (int culprit = 0; culprit < (mode == ONE_FILE ? 1 : size); culprit++) {
    fixture_info(20, size, &info);
    info.may = refuse;
    info.context = &culprit;
    REQUIRE(shoal_ckpt_begin(g, dir, &info, 0, &w) == SHOAL_OK, "begin");
    shoal_ckpt_put_replica(w, "weights", SHOAL_F32, 8, x);
    check_failed(w, SHOAL_ERR_WORLD, "no name for a file");
  }
}

static void begin_is_agreed(void)
{
  shoal_ckpt_info info;
  shoal_ckpt_writer *w = NULL;
  char *blocked = shoal_strdup_printf("%s/step-000000010.h5/ckpt", dir);
  fixture_info(30, size, &info);
  CHECK_STATUS(shoal_ckpt_begin(g, blocked, &info, 0, &w), SHOAL_ERR_IO, "a file is no folder");
  CHECK(!w);
  CHECK(check_error()[0], "rank %d has a reason", rank);
  CHECK_STATUS(shoal_ckpt_begin(g, dir, &info, UINT64_MAX, &w), SHOAL_ERR_IO, "no disk is that large");
  CHECK(!w);
  char *moved = shoal_strdup_printf("%s/run", dir), *ckpt = shoal_path_join(moved, "ckpt");
  CHECK_STATUS(shoal_ckpt_begin(g, ckpt, &info, 0, &w), SHOAL_ERR_IO, "a folder that was moved away");
  CHECK(!w);
  CHECK(!shoal_path_exists(moved), "is not made again");
  free(ckpt);
  free(moved);
  free(blocked);
}

/* Not collective: a rank that gives up tells nobody. */
static void abandon(void)
{
  shoal_ckpt_writer *w;
  begin(40, &w);
  shoal_ckpt_abandon(w);
  CHECK_OK(shoal_group_barrier(g));
  if (rank == 0) CHECK_EQ(fixture_count(dir), files, "the temporary is gone");
}

int main(void)
{
  shoal_world_options options = { 0 };
  shoal_world *world;
  REQUIRE(shoal_world_open(&options, &world) == SHOAL_OK, "world");
  g = shoal_world_control(world);
  rank = shoal_group_rank(g);
  size = shoal_group_size(g);
  REQUIRE(shoal_backend_open_as(&(shoal_backend_options){ .name = "ref", .threads = 1 }, &backend) == SHOAL_OK,
          "backend");
  share_folder();
  for (mode = ONE_FILE; mode < MODES; mode++) {
    uneven_lengths();
    CHECK_OK(shoal_group_barrier(g));
    if (rank == 0) CHECK_OK(shoal_ckpt_sweep(dir), "shards that the last mode left");
    CHECK_OK(shoal_group_barrier(g));
    equal_replicas(false);
    equal_replicas(true);
    sums(false);
    sums(true);
    one_rank_fails();
    fails_while_others_write();
    one_file_is_refused();
  }
  mode = SHARDS;
  begin_is_agreed();
  abandon();
  CHECK_OK(shoal_group_barrier(g));
  shoal_backend_close(backend);
  shoal_world_close(world);
  return check_done();
}
