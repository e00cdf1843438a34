/* A checkpoint in several files is read as one; whatever is wrong with a shard is found and named; and no verb of the folder
 * parts the files of a checkpoint or keeps those of none. */
#include "base/crc32c.h"
#include "ckpt/ckpt_impl.h"
#include "report/ckpt.h"
#include "unit/ckpt_fixture.h"
#include "unit/ckpt_split.h"
#include <dirent.h>
#include <fnmatch.h>
#include <sys/wait.h>

enum { SHARDS = 3 };
static const char *dir;

/* Checkpoint `step` in SHARDS + 1 files, with an array of two names; the path of its main file. */
static char *make(uint64_t step)
{
  shoal_ckpt_info info;
  shoal_ckpt_draft d = { 0 };
  uint64_t data[FIXTURE_LARGEST / 8], n = FIXTURE_REPLICA;
  char *whole = shoal_strdup_printf("%s/whole.h5", dir),
       *path = shoal_strdup_printf("%s/step-%09" PRIu64 ".h5", dir, step);
  fixture_info(step, 2, &info);
  REQUIRE(shoal_ckpt_draft_open(&d, whole, &info, 0) == SHOAL_OK, "open");
  for (int i = 0; i < FIXTURE_SETS; i++) {
    const fixture_set *f = &fixture_sets[i];
    fixture_fill(f->type, step + (uint64_t)i, fixture_elements(f), data);
    REQUIRE(shoal_ckpt_draft_put(&d, f->name, f->type, f->ndim, f->dims, data) == SHOAL_OK, "%s", f->name);
  }
  fixture_fill(SHOAL_F32, step, n, data);
  REQUIRE(shoal_ckpt_draft_put(&d, "replica/0/weights", SHOAL_F32, 1, &n, data) == SHOAL_OK, "weights");
  REQUIRE(shoal_ckpt_draft_link(&d, "replica/1/weights", "replica/0/weights") == SHOAL_OK, "link");
  REQUIRE(shoal_ckpt_draft_finish(&d) == SHOAL_OK, "finish");
  shoal_ckpt_draft_discard(&d);
  REQUIRE(split_checkpoint(whole, path, SHARDS, -1) == SHOAL_OK, "split");
  unlink(whole);
  free(whole);
  return path;
}

/* The path of a shard of the checkpoint that is whole at `path`. */
static char *shard_of(const char *path, uint32_t number)
{
  shoal_ckpt *c;
  REQUIRE(shoal_ckpt_open_seal(path, &c) == SHOAL_OK, "%s", path);
  char *shard = shoal_ckpt_shard_path(path, c->index.save, number);
  shoal_ckpt_close(c);
  return shard;
}

static void empty_folder(void)
{
  char *command = shoal_strdup_printf("rm -rf '%s'/*", dir);
  REQUIRE(system(command) == 0, "%s", command);
  free(command);
}

static void check_good(const char *path, uint64_t step)
{
  shoal_ckpt *c = NULL;
  float one[FIXTURE_REPLICA], other[FIXTURE_REPLICA];
  REQUIRE(shoal_ckpt_open(path, true, &c) == SHOAL_OK, "%s", path);
  CHECK(fixture_matches(c, step), "%s", path);
  CHECK_EQ(shoal_ckpt_get_index(c)->n, FIXTURE_SETS + 2, "nothing else");
  CHECK_EQ(shoal_ckpt_get_index(c)->n_shards, SHARDS);
  CHECK_OK(shoal_ckpt_get(c, "replica/0/weights", SHOAL_F32, FIXTURE_REPLICA, one));
  CHECK_OK(shoal_ckpt_get(c, "replica/1/weights", SHOAL_F32, FIXTURE_REPLICA, other));
  CHECK_BYTES(one, other, sizeof one, "two names");
  shoal_ckpt_close(c);
}

/* verify and a verifying open refuse, and name the word and the file. */
static void check_refused(const char *path, const char *what, const char *word, const char *file)
{
  fixture_output o;
  shoal_ckpt *c = NULL;
  CHECK_STATUS(shoal_ckpt_verify(path, fixture_capture(&o)), SHOAL_ERR_IO, "%s: verify", what);
  CHECK_HAS(fixture_text(&o), word, "%s", what);
  CHECK_HAS(o.text, file, "%s", what);
  fixture_release(&o);
  CHECK_STATUS(shoal_ckpt_open(path, true, &c), SHOAL_ERR_IO, "%s: open", what);
  CHECK(!c, "%s", what);
  CHECK_HAS(check_error(), word, "%s", what);
}

/* ---- reading ---- */

static void read_as_one(void)
{
  char *path = make(70), *shard = shard_of(path, 2);
  fixture_output o;
  shoal_ckpt *c;
  bool different = true;
  check_good(path, 70);
  CHECK_OK(shoal_ckpt_verify(path, fixture_capture(&o)));
  CHECK_HAS(fixture_text(&o), "good: step 70, 15 data sets in 4 files, ");
  fixture_release(&o);
  CHECK_OK(shoal_ckpt_verify(shard, fixture_capture(&o)), "a shard by itself");
  fixture_release(&o);
  CHECK_OK(shoal_ckpt_print(path, false, fixture_capture(&o)));
  CHECK_HAS(fixture_text(&o), "step-000000070.h5 and 3 shards (");
  CHECK_HAS(o.text, "15 data sets, 2.1 KiB, of which 148 B are written once under several names\n");
  fixture_release(&o);
  CHECK_OK(shoal_ckpt_diff(path, path, NULL, NULL, 0, false, fixture_capture(&o), &different));
  CHECK(!different);
  fixture_release(&o);
  CHECK_STATUS(shoal_ckpt_open(shard, false, &c), SHOAL_ERR_IO);
  CHECK_HAS(check_error(), "is shard 2 of a checkpoint: name its main file");
  free(shard);
  free(path);
  empty_folder();
}

/* ---- damage ---- */

static void every_damage_is_found(void)
{
  char *path = make(70), *other = make(71);
  unsigned char *bytes, *others;
  size_t n, others_n;
  shoal_ckpt *c = NULL;
  for (uint32_t k = 1; k <= SHARDS; k++) {
    char *shard = shard_of(path, k), *theirs = shard_of(other, k);
    fixture_read(shard, &bytes, &n);
    fixture_read(theirs, &others, &others_n);
    unlink(shard);
    check_refused(path, "missing", "is missing", shard);
    fixture_spoil(shard, bytes, n - 1);
    check_refused(path, "cut", "cut short", shard);
    fixture_spoil(shard, "", 0);
    check_refused(path, "empty", "is empty", shard);
    fixture_spoil(shard, others, others_n);
    check_refused(path, "of another save", "it is of another save", shard);
    for (size_t i = 0; i < n; i += 1 + n / 23) {
      bytes[i] ^= 0x20;
      fixture_spoil(shard, bytes, n);
      CHECK_STATUS(shoal_ckpt_open_own(path, true, &c), SHOAL_ERR_IO, "byte %zu of %zu", i, n);
      CHECK_HAS(check_error(), shard, "byte %zu of %zu", i, n);
      bytes[i] ^= 0x20;
    }
    fixture_spoil(shard, bytes, n);
    check_good(path, 70);
    free(bytes);
    free(others);
    free(shard);
    free(theirs);
  }
  char *first = shard_of(path, 1), *second = shard_of(path, 2), *kept = shoal_strdup_printf("%s/kept", dir);
  REQUIRE(rename(first, kept) == 0, "swap");
  REQUIRE(rename(second, first) == 0, "swap");
  REQUIRE(rename(kept, second) == 0, "swap");
  check_refused(path, "swapped", "is not shard 1", first);
  free(first);
  free(second);
  free(kept);
  free(path);
  free(other);
  empty_folder();
}

static void seal_again(const char *path, const shoal_ckpt *c)
{
  REQUIRE(truncate(path, (off_t)c->seal.hdf5_bytes) == 0, "truncate");
  REQUIRE(shoal_ckpt_seal_write(path, &c->index) == SHOAL_OK, "seal");
}

/* Somebody changes the index of the main file, or a shard, and seals them again. */
static void made_up(void)
{
  char *path = make(70), *shard = shard_of(path, 1);
  shoal_ckpt *c, *s;
  REQUIRE(shoal_ckpt_open_seal(path, &c) == SHOAL_OK, "main");
  REQUIRE(shoal_ckpt_open_seal(shard, &s) == SHOAL_OK, "shard");
  shoal_ckpt_entry *e = c->index.at;
  while (e->shard != 1 || e->bytes == 0) e++;
  e->crc ^= 1;
  seal_again(path, c);
  check_refused(path, "another checksum", "is not as", e->name);
  e->crc ^= 1;
  e->shard = 2;
  seal_again(path, c);
  check_refused(path, "another shard", "", e->name);
  e->shard = 1;
  seal_again(path, c);
  check_good(path, 70);
  for (size_t i = 0; i < s->index.n; i++) s->index.at[i].shard = 0;
  s->index.number = 0;
  seal_again(shard, s);
  check_refused(path, "a main file as a shard", "is not shard 1", shard);
  shoal_ckpt_close(s);
  shoal_ckpt_close(c);
  free(shard);
  free(path);
  empty_folder();
}

/* Opened without verification a shard is looked at when it is read, and its arrays are compared. */
static void read_later(void)
{
  char *path = make(70), *shard = shard_of(path, 1);
  unsigned char *bytes;
  size_t n;
  shoal_ckpt *c;
  uint64_t data[FIXTURE_LARGEST / 8];
  fixture_read(shard, &bytes, &n);
  REQUIRE(shoal_ckpt_open(path, false, &c) == SHOAL_OK, "open");
  const shoal_ckpt_entry *e = shoal_ckpt_get_index(c)->at;
  while (e->shard != 1 || e->bytes == 0) e++;
  unlink(shard);
  CHECK_STATUS(shoal_ckpt_get(c, e->name, e->type, e->n, data), SHOAL_ERR_IO);
  CHECK_HAS(check_error(), "is missing");
  bytes[e->offset] ^= 1;
  fixture_spoil(shard, bytes, n);
  CHECK_STATUS(shoal_ckpt_get(c, e->name, e->type, e->n, data), SHOAL_ERR_IO);
  CHECK_HAS(check_error(), "is damaged");
  CHECK_HAS(check_error(), shard);
  shoal_ckpt_close(c);
  free(bytes);
  free(shard);
  free(path);
  empty_folder();
}

/* ---- the folder ---- */

/* Files of a folder with names of this pattern; one that is not there has none. */
static int count(const char *folder, const char *pattern)
{
  int n = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) n += fnmatch(pattern, e->d_name, 0) == 0;
  if (d) closedir(d);
  return n;
}

static void kept_together(void)
{
  size_t n = 0;
  char *found = NULL, *best = shoal_path_join(dir, "best"), *aside = shoal_path_join(dir, "before-attempt-2");
  char *path[4] = { make(70), make(71), make(72), make(73) };
  uint64_t step;
  CHECK_OK(shoal_ckpt_prune(dir, 3, SHOAL_CKPT_NOT_ONE));
  CHECK_EQ(count(dir, "step-*"), 3 * 4, "the oldest went with its shards");
  char *lost = shard_of(path[3], 2);
  unlink(lost);
  CHECK_OK(shoal_ckpt_latest(dir, &found, &step));
  CHECK_EQ(step, 72, "the newest that is whole");
  free(found);
  CHECK_OK(shoal_ckpt_keep_best(path[1]));
  CHECK_EQ(count(best, "step-000000071*"), 4);
  CHECK_OK(shoal_ckpt_keep_best(path[2]));
  CHECK_EQ(count(best, "step-*"), 4, "one best");
  char *kept = shoal_path_join(best, "step-000000072.h5"), *moved = shoal_path_join(aside, "step-000000072.h5");
  check_good(kept, 72);
  CHECK_OK(shoal_ckpt_set_aside(dir, 71, "before-attempt-2", &n));
  CHECK_EQ(n, 2);
  CHECK_EQ(count(dir, "step-*"), 4, "the others are aside");
  CHECK_EQ(count(aside, "step-*"), 4 + 3);
  check_good(moved, 72);
  check_good(path[1], 71);
  CHECK_OK(shoal_ckpt_sweep(dir));
  CHECK_EQ(count(dir, "step-*"), 4, "a whole one is not swept");
  for (int i = 0; i < 4; i++) free(path[i]);
  free(lost);
  free(kept);
  free(moved);
  free(best);
  free(aside);
  empty_folder();
}

/* Shards without their main file, or beside one of another save, go; those of one that cannot be read stay. */
static void orphans(void)
{
  fixture_output o;
  char *path = make(70), *from = shoal_strdup_printf("%s/from.h5", dir), *spoilt = make(71), *later = make(72);
  unsigned char *bytes;
  size_t n;
  REQUIRE(link(path, from) == 0, "link");
  for (uint32_t k = 1; k <= SHARDS; k++) { /* a copy whose name is no step's */
    shoal_ckpt *c;
    char *shard = shard_of(path, k);
    REQUIRE(shoal_ckpt_open_seal(path, &c) == SHOAL_OK, "seal");
    char *copy = shoal_ckpt_shard_path(from, c->index.save, k);
    REQUIRE(link(shard, copy) == 0, "link");
    shoal_ckpt_close(c);
    free(copy);
    free(shard);
  }
  CHECK_OK(split_checkpoint(from, path, SHARDS, 2), "a save that ends before its main file");
  CHECK_EQ(count(dir, "step-000000070*"), 4 + 2);
  check_good(path, 70);
  CHECK_OK(shoal_ckpt_print_list(dir, false, fixture_capture(&o)));
  CHECK_HAS(fixture_text(&o), ".shard-0002.h5  unfinished\n");
  fixture_release(&o);
  fixture_read(spoilt, &bytes, &n);
  fixture_spoil(spoilt, bytes, n - 1);
  unlink(later);
  CHECK_OK(shoal_ckpt_sweep(dir));
  CHECK_EQ(count(dir, "step-000000070*"), 4, "of another save");
  CHECK_EQ(count(dir, "step-000000071*"), 4, "of one that cannot be read");
  CHECK_EQ(count(dir, "step-000000072*"), 0, "without a main file");
  check_good(path, 70);
  CHECK_OK(split_checkpoint(from, path, SHARDS, -1), "the same step again");
  CHECK_EQ(count(dir, "step-000000070*"), 4 + 3, "the shards of the one before are left");
  CHECK_OK(shoal_ckpt_prune(dir, 5, 70));
  CHECK_EQ(count(dir, "step-000000070*"), 4, "and go");
  check_good(path, 70);
  CHECK_EQ(count(dir, "from*"), 4, "other names are left alone");
  check_good(from, 70);
  free(bytes);
  free(path);
  free(from);
  free(spoilt);
  free(later);
  empty_folder();
}

/* ---- killed in between: after every single change of the folder ---- */

static int changes = -1; /* that this process may still make; −1: any number */

static void before_change(void)
{
  if (changes == 0) _exit(9);
  if (changes > 0) changes--;
}
/* The linker gives these names to calls of link, rename and unlink (tests/unit/ckpt.cmake). */
int __real_link(const char *from, const char *to);
int __real_rename(const char *from, const char *to);
int __real_unlink(const char *path);
int __wrap_link(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_unlink(const char *path);
int __wrap_link(const char *from, const char *to)
{
  before_change();
  return __real_link(from, to);
}
int __wrap_rename(const char *from, const char *to)
{
  before_change();
  return __real_rename(from, to);
}
int __wrap_unlink(const char *path)
{
  before_change();
  return __real_unlink(path);
}

static bool is_whole(const char *folder, uint64_t step)
{
  char *why = NULL;
  shoal_ckpt_file f = { shoal_strdup_printf("%s/%s/step-%09" PRIu64 ".h5", dir, folder, step), step };
  shoal_ckpt *c = shoal_ckpt_folder_try(&f, true, &why);
  shoal_ckpt_close(c);
  free(why);
  free(f.path);
  return c != NULL;
}

static shoal_status prune(void)
{
  return shoal_ckpt_prune(dir, 1, 72);
}
static shoal_status keep(uint64_t step)
{
  char *path = shoal_strdup_printf("%s/step-%09" PRIu64 ".h5", dir, step);
  shoal_status st = shoal_ckpt_keep_best(path);
  free(path);
  return st;
}
static shoal_status keep_best(void)
{
  return keep(72);
}
static shoal_status leave_branch(void)
{
  size_t n = 0;
  return shoal_ckpt_set_aside(dir, 71, "before-attempt-2", &n);
}

/* Runs `what` in a child that ends before change number n; false once it comes to its end. */
static bool killed(shoal_status (*what)(void), int n)
{
  int how = -1;
  pid_t child = fork();
  if (child == 0) {
    changes = n;
    _exit(what() == SHOAL_OK ? 0 : 1);
  }
  REQUIRE(child > 0, "fork");
  REQUIRE(waitpid(child, &how, 0) == child, "fork");
  REQUIRE(WIFEXITED(how), "how %d", how);
  if (WEXITSTATUS(how) != 9) CHECK_EQ(WEXITSTATUS(how), 0);
  return WEXITSTATUS(how) == 9;
}

/* What stands in the folder before each try, as other names of the same files. */
static void restore(const char *kept)
{
  char *command = shoal_strdup_printf("rm -rf '%s'/* && cp -al '%s'/. '%s'", dir, kept, dir);
  REQUIRE(system(command) == 0, "%s", command);
  free(command);
}

static void killed_in_between(void)
{
  shoal_status (*const verbs[])(void) = { prune, keep_best, leave_branch };
  char *best = shoal_path_join(dir, "best"), *kept = shoal_strdup_printf("%s-kept", dir),
       *command = shoal_strdup_printf("cp -al '%s' '%s'", dir, kept);
  free(make(71));
  free(make(72));
  REQUIRE(keep(71) == SHOAL_OK, "the best");
  REQUIRE(system(command) == 0, "%s", command);
  for (size_t v = 0; v < SHOAL_COUNT(verbs); v++) {
    int n = 0;
    for (bool again = true; again; n++) {
      restore(kept);
      again = killed(verbs[v], n);
      CHECK(is_whole(".", 72) || is_whole("before-attempt-2", 72), "verb %zu, change %d: the newest", v, n);
      CHECK(is_whole(".", 71) || verbs[v] == prune, "verb %zu, change %d: the other", v, n);
      CHECK(is_whole("best", 71) || is_whole("best", 72), "verb %zu, change %d: the best", v, n);
      CHECK_OK(shoal_ckpt_sweep(dir));
      CHECK_OK(shoal_ckpt_sweep(best));
      CHECK_EQ(count(dir, "step-*"), count(dir, "step-?????????.h5") * (SHARDS + 1), "verb %zu, change %d: orphans", v,
               n);
      CHECK_EQ(count(best, "step-*"), count(best, "step-?????????.h5") * (SHARDS + 1), "verb %zu, change %d: orphans",
               v, n);
    }
    CHECK_GT(n, SHARDS, "verb %zu was interrupted", v);
  }
  free(command);
  command = shoal_strdup_printf("rm -rf '%s'", kept);
  REQUIRE(system(command) == 0, "%s", command);
  free(command);
  free(kept);
  free(best);
}

int main(void)
{
  if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1); /* 150 files, each written through to the disk */
  dir = fixture_make();
  read_as_one();
  every_damage_is_found();
  made_up();
  read_later();
  kept_together();
  orphans();
  killed_in_between();
  return check_done();
}
