/* A folder of checkpoints: finds the latest one and removes old ones.
 *
 *   step-000000200.h5                    newest, but damaged: skipped with a warning
 *   step-000000150.h5                    newest that verifies: "latest"
 *   step-000000100.h5                    removed if keep = 1, after 150 has been verified again
 *   .step-000000250.h5.tmp-node3-4711    temporary file of a writer that has ended: swept
 *   step-000000250.1f3a9c0e.shard-0001.h5   shard of a save that did not come to its main file: swept
 *
 * No file or link names the latest checkpoint, because it could be wrong; the folder is scanned instead.  Damaged files
 * are never used, and not removed while they are newer than the kept ones, so that users can investigate.
 *
 *   before-attempt-3/step-000000200.h5   of a branch that was left when the run went back to an earlier step
 *
 * A checkpoint may have shards (shards.c).  They come before their main file and go after it: whatever interrupts a move, a
 * main file has its shards, and what is left over are shards without one.
 *
 * Sweeping removes a temporary file if its name gives this host and a process that no longer exists, or if it was not
 * modified for a day (processes on other hosts cannot be checked).  That of a running process is kept. */
#include "ckpt/folder.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/str.h"
#include "ckpt/ckpt_impl.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { A_DAY = 24 * 60 * 60 };

/* ---- scanning ---- */

/* Parses "step-000001234.h5". */
static bool parse_name(const char *name, uint64_t *step)
{
  static const char prefix[] = "step-";
  int64_t value;
  if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
  const char *digits = name + sizeof prefix - 1;
  size_t n = strspn(digits, "0123456789");
  if (n == 0 || n > 18 || strcmp(digits + n, ".h5") != 0) return false;
  char *number = strndup(digits, n);
  bool ok = number && shoal_parse_i64(number, &value) == SHOAL_OK;
  free(number);
  if (ok) *step = (uint64_t)value;
  return ok;
}

static int newest_first(const void *a, const void *b)
{
  uint64_t x = ((const shoal_ckpt_file *)a)->step, y = ((const shoal_ckpt_file *)b)->step;
  return (x < y) - (x > y);
}

static shoal_status add_name(const char *dir, const char *name, shoal_ckpt_folder *f)
{
  uint64_t step;
  char stem[SHOAL_CKPT_STEM], save[SHOAL_CKPT_SAVE_SHOWN + 1];
  if (shoal_ckpt_shard_name(name, stem, save)) {
    SHOAL_TRY(shoal_texts_add(&f->shards, name));
  } else if (parse_name(name, &step)) {
    shoal_ckpt_file *more = realloc(f->at, (f->n + 1) * sizeof *more);
    SHOAL_CHECK(more, SHOAL_ERR_MEM, "no memory for the names in %s", dir);
    f->at = more;
    f->at[f->n++] = (shoal_ckpt_file){ .path = shoal_path_join(dir, name), .step = step };
  } else if (shoal_is_temporary(name)) {
    SHOAL_TRY(shoal_texts_add(&f->temporaries, name));
  }
  return SHOAL_OK;
}

shoal_status shoal_ckpt_folder_scan(const char *dir, shoal_ckpt_folder *out)
{
  shoal_ckpt_folder f = { 0 };
  shoal_status st = SHOAL_OK;
  DIR *d = opendir(dir);
  if (!d && errno == ENOENT) {
    *out = f;
    return SHOAL_OK;
  }
  if (!d) return shoal_io_fault("look into", dir, errno);
  for (struct dirent *entry; st == SHOAL_OK && (errno = 0, entry = readdir(d));) st = add_name(dir, entry->d_name, &f);
  if (st == SHOAL_OK && errno) st = shoal_io_fault("look into", dir, errno);
  closedir(d);
  if (st != SHOAL_OK) {
    shoal_ckpt_folder_free(&f);
    return st;
  }
  if (f.n > 1) qsort(f.at, f.n, sizeof *f.at, newest_first);
  shoal_texts_sort(&f.shards, 0);
  *out = f;
  return SHOAL_OK;
}

void shoal_ckpt_folder_free(shoal_ckpt_folder *f)
{
  for (size_t i = 0; i < f->n; i++) free(f->at[i].path);
  free(f->at);
  shoal_texts_free(&f->temporaries);
  shoal_texts_free(&f->shards);
  *f = (shoal_ckpt_folder){ 0 };
}

shoal_ckpt *shoal_ckpt_folder_try(const shoal_ckpt_file *file, bool own, char **why)
{
  shoal_ckpt *c = NULL;
  shoal_error before; /* saved and restored, because a damaged checkpoint is a valid result here */
  shoal_error_take(&before);
  shoal_status st = own ? shoal_ckpt_open_own(file->path, true, &c) : shoal_ckpt_open(file->path, true, &c);
  *why = st == SHOAL_OK ? NULL : shoal_strdup_printf("%s", shoal_error_text(st));
  (void)shoal_error_put(&before);
  if (st == SHOAL_OK && c->info.step != file->step) {
    *why = shoal_strdup_printf("%s holds step %" PRIu64 ", not the step of its name", file->path, c->info.step);
    shoal_ckpt_close(c);
    c = NULL;
  }
  return c;
}

/* ---- shards ---- */

/* The digits of a save in the names of its shards, as the main file DIR/STEM.h5 has them: "" if there is no such file, "?" if
 * its index cannot be read. */
static void read_save(const char *dir, const char *stem, char save[SHOAL_CKPT_SAVE_SHOWN + 1])
{
  shoal_ckpt *c = NULL;
  shoal_error before;
  char *name = shoal_strdup_printf("%s.h5", stem), *path = shoal_path_join(dir, name);
  shoal_error_take(&before);
  if (!shoal_path_exists(path))
    save[0] = '\0';
  else if (shoal_ckpt_open_seal(path, &c) == SHOAL_OK)
    snprintf(save, SHOAL_CKPT_SAVE_SHOWN + 1, "%.*s", SHOAL_CKPT_SAVE_SHOWN, c->index.save);
  else
    snprintf(save, SHOAL_CKPT_SAVE_SHOWN + 1, "?");
  (void)shoal_error_put(&before);
  shoal_ckpt_close(c);
  free(path);
  free(name);
}

shoal_status shoal_ckpt_folder_orphans(const char *dir, const shoal_ckpt_folder *f, shoal_texts *out)
{
  char stem[SHOAL_CKPT_STEM], last[SHOAL_CKPT_STEM] = "", own[SHOAL_CKPT_SAVE_SHOWN + 1],
                              save[SHOAL_CKPT_SAVE_SHOWN + 1] = "";
  for (size_t i = 0; i < f->shards.n; i++) {
    if (!shoal_ckpt_shard_name(f->shards.at[i], stem, own)) continue;
    if (strcmp(stem, last) != 0) read_save(dir, stem, save);
    memcpy(last, stem, sizeof last);
    if (save[0] != '?' && strcmp(save, own) != 0) SHOAL_TRY(shoal_texts_add(out, f->shards.at[i]));
  }
  return SHOAL_OK;
}

static shoal_status remove_file(const char *path)
{
  SHOAL_CHECK(unlink(path) == 0 || errno == ENOENT, SHOAL_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
  return SHOAL_OK;
}

/* Calls `with` for all shards beside a main file, with their paths, until one fails. */
static shoal_status each_shard(const shoal_ckpt_folder *f, const char *main,
                               shoal_status (*with)(const char *path, const char *folder), const char *folder)
{
  char stem[SHOAL_CKPT_STEM], save[SHOAL_CKPT_SAVE_SHOWN + 1];
  const char *base = shoal_path_base(main);
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; st == SHOAL_OK && i < f->shards.n; i++) {
    const char *name = f->shards.at[i];
    size_t n = shoal_ckpt_shard_name(name, stem, save) ? strlen(stem) : 0;
    if (n == 0 || strncmp(base, stem, n) != 0 || strcmp(base + n, ".h5") != 0) continue;
    char *path = shoal_strdup_printf("%.*s%s", (int)(base - main), main, name);
    st = with(path, folder);
    free(path);
  }
  return st;
}

static shoal_status remove_shard(const char *path, const char *folder)
{
  (void)folder;
  return remove_file(path);
}

static shoal_status remove_checkpoint(const shoal_ckpt_folder *f, const char *path)
{
  SHOAL_TRY(remove_file(path));
  return each_shard(f, path, remove_shard, NULL);
}

static shoal_status copy(const char *from, const char *to)
{
  char *text = NULL, *tmp = shoal_temporary_name(to);
  uint64_t size = 0, done = 0;
  int in = -1, out = -1;
  shoal_status st = shoal_open_file(from, &in, &size);
  if (st == SHOAL_OK) st = shoal_open_new(tmp, to, &out);
  if (st == SHOAL_OK) st = shoal_alloc(SHOAL_CKPT_PIECE, 1, "copy buffer", (void **)&text);
  while (st == SHOAL_OK && done < size) {
    size_t n = (size_t)(size - done < SHOAL_CKPT_PIECE ? size - done : SHOAL_CKPT_PIECE);
    st = shoal_ckpt_read_at(in, from, done, text, n);
    if (st == SHOAL_OK) st = shoal_ckpt_write_at(out, to, done, text, n);
    done += n;
  }
  if (in >= 0) close(in);
  if (out >= 0) close(out);
  if (st == SHOAL_OK) st = shoal_commit_file(tmp, to);
  if (st != SHOAL_OK && out >= 0) unlink(tmp);
  free(text);
  free(tmp);
  return st;
}

/* Gives a file the same name in another folder, too, at once or not at all: a hard link, or a copy. */
static shoal_status keep_also(const char *path, const char *folder)
{
  char *to = shoal_path_join(folder, shoal_path_base(path)), *tmp = shoal_temporary_name(to);
  shoal_status st = SHOAL_OK;
  unlink(tmp);
  if (link(path, tmp) != 0 || rename(tmp, to) != 0) st = copy(path, to);
  unlink(tmp); /* rename does nothing if both are the same file already */
  free(tmp);
  free(to);
  return st;
}

/* ---- latest ---- */

static bool verifies(const shoal_ckpt_file *file, bool own)
{
  char *why = NULL;
  shoal_ckpt *c = shoal_ckpt_folder_try(file, own, &why);
  if (why) shoal_warn("skipping a damaged checkpoint: %s", why);
  free(why);
  shoal_ckpt_close(c);
  return c != NULL;
}

/* One that this user may not read is not damaged: who goes on without it loses what it holds. */
static shoal_status check_readable(const char *path)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  int error = fd < 0 ? errno : 0;
  if (fd >= 0) close(fd);
  if (error != EACCES && error != EPERM) return SHOAL_OK;
  return shoal_error_append(shoal_io_fault("open", path, error),
                            "; it may be whole, so nothing goes on without it: have it made readable, or moved away");
}

/* A whole checkpoint under the name of another step, as after `mv`: to begin anew beside it could overwrite it. */
static shoal_status refuse_renamed(const char *dir, const shoal_ckpt_folder *f)
{
  for (size_t i = 0; i < f->n; i++) {
    shoal_ckpt *c = NULL;
    shoal_error before;
    shoal_error_take(&before);
    (void)shoal_ckpt_open(f->at[i].path, true, &c);
    (void)shoal_error_put(&before);
    if (!c) continue;
    uint64_t step = c->info.step;
    shoal_ckpt_close(c);
    shoal_str cure = { 0 };
    char *name = shoal_strdup_printf("%s/step-%09" PRIu64 ".h5", dir, step);
    shoal_str_add(&cure, "mv ");
    shoal_str_add_word(&cure, f->at[i].path);
    shoal_str_add(&cure, " ");
    shoal_str_add_word(&cure, name);
    shoal_status st =
        SHOAL_FAIL(SHOAL_ERR_IO,
                   "%s holds step %" PRIu64 ", not the step of its name, and no other checkpoint is left: "
                   "`%s` to go on from it",
                   f->at[i].path, step, cure.text);
    shoal_str_free(&cure);
    free(name);
    return st;
  }
  return SHOAL_OK;
}

shoal_status shoal_ckpt_latest(const char *dir, char **path_out, uint64_t *step_out)
{
  shoal_ckpt_folder f;
  shoal_status st = SHOAL_OK;
  *path_out = NULL;
  SHOAL_TRY(shoal_ckpt_folder_scan(dir, &f));
  for (size_t i = 0; i < f.n && !*path_out && st == SHOAL_OK; i++) {
    st = check_readable(f.at[i].path);
    if (st != SHOAL_OK || !verifies(&f.at[i], false)) continue;
    *path_out = f.at[i].path;
    *step_out = f.at[i].step;
    f.at[i].path = NULL;
  }
  if (st == SHOAL_OK && !*path_out) st = refuse_renamed(dir, &f);
  shoal_ckpt_folder_free(&f);
  return st;
}

long long shoal_ckpt_newest(const char *run)
{
  char *folder = shoal_path_join(run, "ckpt");
  shoal_ckpt_folder f = { .n = 0 };
  long long step = -1;
  shoal_error before;
  shoal_error_take(&before);
  if (shoal_ckpt_folder_scan(folder, &f) == SHOAL_OK && f.n) step = (long long)f.at[0].step;
  (void)shoal_error_put(&before);
  shoal_ckpt_folder_free(&f);
  free(folder);
  return step;
}

char *shoal_ckpt_folder_of(const char *path)
{
  char *inner = shoal_path_join(path, "ckpt");
  struct stat s;
  if (stat(inner, &s) == 0 && S_ISDIR(s.st_mode)) return inner;
  free(inner);
  return shoal_strdup_printf("%s", path);
}

/* A file that is there, by its name. */
static bool is_run_file(const char *path)
{
  const char *ending = strrchr(path, '.');
  return ending && (strcmp(ending, ".yaml") == 0 || strcmp(ending, ".yml") == 0) && shoal_path_exists(path);
}

shoal_status shoal_ckpt_find(const char *path, char **out)
{
  struct stat s;
  uint64_t step;
  if (stat(path, &s) != 0 && errno == ENOENT && !strchr(path, '/')) {
    char *run = shoal_path_join("runs", path);
    bool there = shoal_path_exists(run);
    free(run);
    SHOAL_CHECK(!there, SHOAL_ERR_IO, "there is no %s here; did you mean runs/%s?", path, path);
  }
  SHOAL_CHECK(
      strcmp(shoal_path_base(path), "best") != 0 || shoal_path_exists(path), SHOAL_ERR_IO,
      "there is no %s: a run keeps its best state if it trains with ckpt.best (--set ckpt.best=test_loss; where "
      "it is done, with another run.name)",
      path);
  SHOAL_CHECK(!is_run_file(path), SHOAL_ERR_IO,
              "%s is a run file, and what the run has trained is in its folder: give that, runs/NAME by its run.name",
              path);
  if (stat(path, &s) != 0 || !S_ISDIR(s.st_mode)) {
    *out = shoal_strdup_printf("%s", path);
    return SHOAL_OK;
  }
  char *folder = shoal_ckpt_folder_of(path);
  shoal_status st = shoal_ckpt_latest(folder, out, &step);
  if (st == SHOAL_OK && !*out)
    st = SHOAL_FAIL(SHOAL_ERR_IO, "%s holds no checkpoint that verifies (step-*.h5)", folder);
  free(folder);
  return st;
}

/* ---- sweep ---- */

/* Parses the host and process id at the end of a temporary name. */
static bool parse_temporary(const char *name, char *host, size_t cap, int64_t *pid)
{
  const char *mark = NULL;
  for (const char *at = name; (at = strstr(at, ".tmp-")); at++) mark = at + 5;
  const char *dash = mark ? strrchr(mark, '-') : NULL;
  if (!dash || (size_t)(dash - mark) >= cap) return false;
  memcpy(host, mark, (size_t)(dash - mark));
  host[dash - mark] = '\0';
  return shoal_parse_i64(dash + 1, pid) == SHOAL_OK && *pid > 0 && *pid <= INT32_MAX;
}

static bool is_left_over(const char *path, const char *name, const char **why)
{
  char host[128], own_host[128];
  int64_t pid, own_pid;
  struct stat file;
  char *own = shoal_temporary_name("x"); /* to learn how this host's name is written */
  bool ours = parse_temporary(name, host, sizeof host, &pid) &&
              parse_temporary(own, own_host, sizeof own_host, &own_pid) && strcmp(host, own_host) == 0;
  free(own);
  if (ours && !shoal_process_lives((long)pid, NULL)) {
    *why = "its writer is gone";
    return true;
  }
  if (stat(path, &file) == 0 && time(NULL) - file.st_mtime > A_DAY) {
    *why = "not written for a day";
    return true;
  }
  return false;
}

static shoal_status remove_left_over(const char *path, const char *why)
{
  if (unlink(path) == 0)
    shoal_info("removed the unfinished file %s (%s)", path, why);
  else if (errno != ENOENT)
    return SHOAL_FAIL(SHOAL_ERR_IO, "cannot remove %s: %s", path, strerror(errno));
  return SHOAL_OK;
}

/* One line tells of all, for there may be one of every rank. */
static shoal_status remove_orphans(const char *dir, const shoal_ckpt_folder *f, bool told)
{
  shoal_texts orphans = { 0 };
  shoal_status st = shoal_ckpt_folder_orphans(dir, f, &orphans);
  for (size_t i = 0; st == SHOAL_OK && i < orphans.n; i++) {
    char *path = shoal_path_join(dir, orphans.at[i]);
    st = remove_file(path);
    free(path);
  }
  if (st == SHOAL_OK && told && orphans.n)
    shoal_info("removed %zu shard%s of no checkpoint from %s: their save was not finished", orphans.n,
               orphans.n == 1 ? "" : "s", dir);
  shoal_texts_free(&orphans);
  return st;
}

shoal_status shoal_ckpt_sweep(const char *dir)
{
  shoal_ckpt_folder f;
  SHOAL_TRY(shoal_ckpt_folder_scan(dir, &f));
  shoal_status st = remove_orphans(dir, &f, true);
  for (size_t i = 0; i < f.temporaries.n; i++) {
    const char *why = NULL;
    char *path = shoal_path_join(dir, f.temporaries.at[i]);
    shoal_status removed = is_left_over(path, f.temporaries.at[i], &why) ? remove_left_over(path, why) : SHOAL_OK;
    st = st == SHOAL_OK ? removed : st;
    free(path);
  }
  shoal_ckpt_folder_free(&f);
  return st;
}

/* ---- prune ---- */

static shoal_status remove_from(const shoal_ckpt_folder *f, size_t first)
{
  shoal_status st = SHOAL_OK;
  for (size_t i = first; i < f->n; i++) {
    shoal_status removed = remove_checkpoint(f, f->at[i].path);
    if (removed == SHOAL_OK)
      shoal_debug("removed the old checkpoint %s", f->at[i].path);
    else
      st = removed;
  }
  return st;
}

shoal_status shoal_ckpt_prune(const char *dir, int keep, int64_t saved)
{
  shoal_ckpt_folder f;
  size_t want = keep < 1 ? 1 : (size_t)keep, good = 0, i = 0;
  shoal_status st = SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_folder_scan(dir, &f));
  while (saved >= 0 && i < f.n && f.at[i].step > (uint64_t)saved) i++;
  /* With at most `want` files none can be removed, so nothing has to be read. */
  while (f.n > want && i < f.n && good < want) {
    good += f.at[i].step == (uint64_t)saved || verifies(&f.at[i], saved >= 0) ? 1 : 0;
    i++;
  }
  if (good == want) st = remove_from(&f, i);
  if (st == SHOAL_OK && saved >= 0) st = remove_orphans(dir, &f, false); /* of a save that the one just done replaced */
  shoal_ckpt_folder_free(&f);
  return st;
}

/* ---- another branch ---- */

static shoal_status move(const shoal_ckpt_folder *f, const char *path, const char *folder)
{
  SHOAL_TRY(each_shard(f, path, keep_also, folder));
  char *to = shoal_path_join(folder, shoal_path_base(path));
  shoal_status st = rename(path, to) == 0
                        ? SHOAL_OK
                        : SHOAL_FAIL(SHOAL_ERR_IO, "cannot move %s to %s: %s", path, to, strerror(errno));
  free(to);
  return st == SHOAL_OK ? each_shard(f, path, remove_shard, NULL) : st;
}

shoal_status shoal_ckpt_set_aside(const char *dir, int64_t step, const char *name, size_t *n)
{
  shoal_ckpt_folder f;
  shoal_status st = SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_folder_scan(dir, &f));
  char *folder = shoal_path_join(dir, name);
  for (size_t i = 0; st == SHOAL_OK && i < f.n && (int64_t)f.at[i].step > step; i++) {
    if (i == 0) st = shoal_make_dir(folder);
    if (st == SHOAL_OK) st = move(&f, f.at[i].path, folder);
    *n += st == SHOAL_OK;
  }
  free(folder);
  shoal_ckpt_folder_free(&f);
  return st;
}

/* ---- the best one ---- */

/* Keeps `path` in the folder and removes all other checkpoints from it. */
static shoal_status leave_only(const char *folder, const char *path)
{
  shoal_ckpt_folder f;
  shoal_status st = SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_folder_scan(folder, &f));
  for (size_t i = 0; st == SHOAL_OK && i < f.n; i++)
    if (strcmp(shoal_path_base(f.at[i].path), shoal_path_base(path)) != 0) st = remove_checkpoint(&f, f.at[i].path);
  if (st == SHOAL_OK) st = remove_orphans(folder, &f, false);
  shoal_ckpt_folder_free(&f);
  return st;
}

shoal_status shoal_ckpt_keep_best(const char *path)
{
  shoal_ckpt_folder f = { 0 };
  char *dir = shoal_strdup_printf("%.*s", (int)(shoal_path_base(path) - path), path),
       *best = shoal_path_join(dir, "best");
  shoal_status st = shoal_make_dir(best);
  if (st == SHOAL_OK) st = shoal_ckpt_folder_scan(dir[0] ? dir : ".", &f);
  if (st == SHOAL_OK) st = each_shard(&f, path, keep_also, best);
  if (st == SHOAL_OK) st = keep_also(path, best);
  if (st == SHOAL_OK) st = leave_only(best, path);
  shoal_ckpt_folder_free(&f);
  free(best);
  free(dir);
  return st;
}
