/* data.stage: the data set on each node's own disk, from which its ranks read it.
 *
 * One rank of each node copies the files, a piece at a time: between pieces all ranks meet, so that none waits longer than comm.hang
 * for a large one, and a signal to stop is heard.  A copy counts once it was read back with the sum of what was read from the file;
 * its note NAME.sum says size, time and sum, and a later start on this node takes the copy if both still hold.
 *
 *     STAGE/shoal-UID/  3f2a9c01-glyphs.h5      the number is of the file's whole path
 *                       3f2a9c01-glyphs.h5.sum  its note, and the lock of who copies */
#include "base/activity.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "train/session.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 4 << 20, TURN_MS = 300, SPARE = 1 << 20 };

typedef enum { OPENING, TRYING, COPYING, CHECKING, ENDED } phase;

typedef struct {
  const shoal_texts *files;
  const char *dir; /* STAGE/shoal-UID */
  shoal_texts copies;
  void *piece; /* [PIECE] */
  size_t at;   /* file that is worked on */
  phase phase;
  int in, out, note; /* file, copy, note and lock; -1: not open */
  struct stat source;
  uint64_t bytes; /* of the file that were read in this phase */
  uint32_t sum, wanted;
  char *part; /* the copy before it counts */
  bool waits; /* for another process that has the lock, which was told */
  uint64_t copied, found;
} stage;

/* ---- names ---- */

/* "user 65001", with the name where it has one. */
static char *owner_of(const struct stat *s)
{
  const struct passwd *user = getpwuid(s->st_uid);
  return user ? shoal_strdup_printf("%s (user %ld)", user->pw_name, (long)s->st_uid)
              : shoal_strdup_printf("user %ld", (long)s->st_uid);
}

/* Adds what to do about the folder in the way, the deepest that can be looked at. */
static shoal_status refuse_folder(const char *dir, shoal_status st)
{
  struct stat s;
  char host[SHOAL_HOST_NAME], word[SHOAL_WORD];
  char *there = shoal_strdup_printf("%s", dir), *slash;
  shoal_str cure = { 0 };
  while ((slash = strrchr(there, '/')) != NULL && slash > there) {
    *slash = '\0';
    if (stat(there, &s) != 0) continue;
    if (access(there, W_OK | X_OK) != 0 && errno == EACCES) {
      const bool mine = s.st_uid == geteuid();
      shoal_str_add(&cure, "`chmod %s %s`%s lets you in, or ", mine ? "u+rwx" : "1777", shoal_shell_word(there, word),
                    mine ? "" : " by its owner");
    }
    break;
  }
  st = shoal_error_append(shoal_error_prefix(st, "data.stage: "),
                          " (host %s): %sgive another folder as data.stage, or --set data.stage= and the data set is "
                          "read where it is",
                          shoal_host_name(host), cure.text ? cure.text : "");
  shoal_str_free(&cure);
  free(there);
  return st;
}

/* A folder that only this user may write to: what is in it is trained on. */
static shoal_status make_folder(const char *dir)
{
  struct stat s;
  char host[SHOAL_HOST_NAME], word[SHOAL_WORD],
      *above = shoal_strdup_printf("%.*s", (int)(shoal_path_base(dir) - dir - 1), dir);
  bool new = !shoal_path_exists(above);
  shoal_status st = shoal_make_dirs(above);
  if (st == SHOAL_OK && new)
    shoal_info("data.stage: there was no folder %s on host %s, so it was made", above, shoal_host_name(host));
  free(above);
  if (st == SHOAL_OK && mkdir(dir, 0700) != 0 && errno != EEXIST) st = shoal_io_fault("make the folder", dir, errno);
  if (st != SHOAL_OK) return refuse_folder(dir, st);
  if (lstat(dir, &s) != 0) return shoal_io_fault("look at", dir, errno);
  if (S_ISDIR(s.st_mode) && s.st_uid == geteuid() && (s.st_mode & 022) == 0) return SHOAL_OK;
  char *owner = owner_of(&s);
  st = SHOAL_FAIL(
      SHOAL_ERR_IO,
      "data.stage: %s must be a folder of yours that nobody else can write to, since it is trained on what is "
      "in it, and is a %s of %s with mode %03o: %s %s`, or give another folder as data.stage",
      dir,
      S_ISDIR(s.st_mode)   ? "folder"
      : S_ISLNK(s.st_mode) ? "link"
                           : "file",
      owner, (unsigned)s.st_mode & 07777,
      s.st_uid != geteuid() ? "have it removed, as by `rm -r"
      : S_ISDIR(s.st_mode)  ? "`rm -r"
                            : "`rm",
      shoal_shell_word(dir, word));
  free(owner);
  return st;
}

static shoal_status name_copies(stage *g)
{
  for (size_t i = 0; i < g->files->n; i++) {
    char *whole = realpath(g->files->at[i], NULL);
    if (!whole) return shoal_io_fault("read", g->files->at[i], errno);
    uint32_t number = shoal_crc32c(0, whole, strlen(whole));
    free(whole);
    SHOAL_TRY(shoal_texts_take(&g->copies,
                               shoal_strdup_printf("%s/%08x-%s", g->dir, number, shoal_path_base(g->files->at[i]))));
  }
  return SHOAL_OK;
}

/* ---- the note ---- */

static bool read_note(const stage *g, uint32_t *sum)
{
  char text[160] = "";
  uint64_t size;
  int64_t seconds;
  long nanoseconds;
  ssize_t n = pread(g->note, text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = '\0';
  return sscanf(text, "size %" SCNu64 " time %" SCNd64 ".%9ld crc32c %" SCNx32 "\n", &size, &seconds, &nanoseconds,
                sum) == 4 &&
         size == (uint64_t)g->source.st_size && seconds == (int64_t)g->source.st_mtim.tv_sec &&
         nanoseconds == g->source.st_mtim.tv_nsec;
}

static shoal_status write_note(const stage *g)
{
  char text[160];
  int n =
      snprintf(text, sizeof text, "size %" PRIu64 " time %" PRId64 ".%09ld crc32c %08" PRIx32 "\n",
               (uint64_t)g->source.st_size, (int64_t)g->source.st_mtim.tv_sec, g->source.st_mtim.tv_nsec, g->wanted);
  bool written = ftruncate(g->note, 0) == 0 && pwrite(g->note, text, (size_t)n, 0) == n;
  int error = written ? shoal_sync(g->note) : errno;
  return error ? shoal_io_fault("write", g->copies.at[g->at], error) : SHOAL_OK;
}

/* ---- a file ---- */

static void close_all(stage *g)
{
  if (g->in >= 0) close(g->in);
  if (g->out >= 0) close(g->out);
  if (g->note >= 0) close(g->note);
  if (g->part) unlink(g->part);
  free(g->part);
  g->part = NULL;
  g->in = g->out = g->note = -1;
}

static void begin_phase(stage *g, phase p)
{
  g->phase = p;
  g->bytes = 0;
  g->sum = 0;
}

static void end_wait(stage *g)
{
  if (g->waits) shoal_activity_end();
  g->waits = false;
}

static void tell_wait(stage *g)
{
  const char *file = g->files->at[g->at];
  if (g->waits) return;
  g->waits = true;
  shoal_activity_begin(true, "waiting for another run that copies %s", file);
  shoal_log(shoal_log_rank() ? SHOAL_LOG_WARN : SHOAL_LOG_INFO,
            "data.stage: another run on this node copies %s to %s, this one waits for it", file, g->dir);
}

/* One process of this node at a time; false: another one is at it. */
static shoal_status lock(stage *g, bool *ours)
{
  char *path = shoal_strdup_printf("%s.sum", g->copies.at[g->at]);
  if (g->note < 0) g->note = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  shoal_status st = g->note < 0 ? shoal_io_fault("make", path, errno) : SHOAL_OK;
  free(path);
  SHOAL_TRY(st);
  *ours = flock(g->note, LOCK_EX | LOCK_NB) == 0;
  if (!*ours && errno != EWOULDBLOCK && errno != EINTR)
    return shoal_io_fault("lock the note of", g->copies.at[g->at], errno);
  if (*ours) {
    end_wait(g);
    return SHOAL_OK;
  }
  tell_wait(g);
  usleep(TURN_MS * 1000);
  return SHOAL_OK;
}

/* Parts of copies that were killed: with the lock held nobody else has one of this file. */
static void sweep(const stage *g)
{
  const char *base = shoal_path_base(g->copies.at[g->at]);
  DIR *d = opendir(g->dir);
  for (struct dirent *e; d && (e = readdir(d));) {
    bool ours = shoal_is_temporary(e->d_name) && strncmp(e->d_name + 1, base, strlen(base)) == 0 &&
                strncmp(e->d_name + 1 + strlen(base), ".tmp-", 5) == 0;
    if (ours) unlinkat(dirfd(d), e->d_name, 0);
  }
  if (d) closedir(d);
}

static shoal_status begin_copy(stage *g)
{
  uint64_t room, size = (uint64_t)g->source.st_size;
  const char *type;
  char has[32], needs[32];
  if (g->out >= 0) close(g->out);
  g->out = -1;
  unlink(g->copies.at[g->at]);
  if (ftruncate(g->note, 0) != 0) return shoal_io_fault("write the note of", g->copies.at[g->at], errno);
  SHOAL_TRY(shoal_disk_facts(g->dir, &room, &type));
  SHOAL_CHECK(room >= SPARE && room - SPARE >= size, SHOAL_ERR_IO,
              "data.stage: %s has %s and %s has only %s left (%s): choose another folder, or leave data.stage out and "
              "the file is read "
              "where it is",
              g->files->at[g->at], shoal_format_bytes((double)size, needs, sizeof needs), g->dir,
              shoal_format_bytes((double)room, has, sizeof has), type);
  g->part = shoal_temporary_name(g->copies.at[g->at]);
  SHOAL_TRY(shoal_open_new(g->part, g->copies.at[g->at], &g->out));
  begin_phase(g, COPYING);
  return SHOAL_OK;
}

static shoal_status open_file(stage *g)
{
  bool ours;
  SHOAL_TRY(lock(g, &ours));
  if (!ours) return SHOAL_OK;
  sweep(g);
  SHOAL_TRY(shoal_open_file(g->files->at[g->at], &g->in, NULL));
  if (fstat(g->in, &g->source) != 0) return shoal_io_fault("read", g->files->at[g->at], errno);
  g->out = read_note(g, &g->wanted) ? open(g->copies.at[g->at], O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
  if (g->out < 0) return begin_copy(g);
  begin_phase(g, TRYING);
  return SHOAL_OK;
}

static shoal_status write_piece(const stage *g, const char *data, size_t n)
{
  while (n > 0) {
    ssize_t put = write(g->out, data, n);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return shoal_io_fault("write", g->copies.at[g->at], errno);
    data += put;
    n -= (size_t)put;
  }
  return SHOAL_OK;
}

static void next_file(stage *g, uint64_t *counted)
{
  *counted += (uint64_t)g->source.st_size;
  close_all(g);
  g->at++;
  begin_phase(g, g->at < g->files->n ? OPENING : ENDED);
}

/* The whole file was read in this phase. */
static shoal_status end_phase(stage *g)
{
  struct stat now;
  const char *from = g->files->at[g->at], *to = g->copies.at[g->at];
  if (g->phase == COPYING) {
    bool same = fstat(g->in, &now) == 0 && now.st_size == g->source.st_size &&
                g->bytes == (uint64_t)g->source.st_size && now.st_mtim.tv_sec == g->source.st_mtim.tv_sec &&
                now.st_mtim.tv_nsec == g->source.st_mtim.tv_nsec;
    SHOAL_CHECK(same, SHOAL_ERR_IO, "data.stage: %s was changed while it was copied: start again when it is complete",
                from);
    g->wanted = g->sum;
    int error = shoal_sync(g->out);
    if (error) return shoal_io_fault("sync to disk", to, error);
    posix_fadvise(g->out, 0, 0, POSIX_FADV_DONTNEED); /* the check is of the disk */
    if (lseek(g->out, 0, SEEK_SET) != 0) return shoal_io_fault("read", to, errno);
    begin_phase(g, CHECKING);
    return SHOAL_OK;
  }
  bool good = g->sum == g->wanted && g->bytes == (uint64_t)g->source.st_size;
  if (g->phase == TRYING && !good) return begin_copy(g);
  SHOAL_CHECK(good, SHOAL_ERR_IO,
              "data.stage: the copy %s reads back with the sum %08x, and %s has %08x: the disk is not to be trusted",
              to, g->sum, from, g->wanted);
  if (g->phase == TRYING) {
    next_file(g, &g->found);
    return SHOAL_OK;
  }
  SHOAL_TRY(shoal_commit_file(g->part, to));
  free(g->part);
  g->part = NULL;
  SHOAL_TRY(write_note(g));
  next_file(g, &g->copied);
  return SHOAL_OK;
}

/* Reads on, of the file or, to check it, of the copy. */
static shoal_status read_piece(stage *g)
{
  int fd = g->phase == COPYING ? g->in : g->out;
  ssize_t n = read(fd, g->piece, PIECE);
  if (n < 0 && errno == EINTR) return SHOAL_OK;
  if (n < 0) return shoal_io_fault("read", g->phase == COPYING ? g->files->at[g->at] : g->copies.at[g->at], errno);
  if (n == 0) return end_phase(g);
  g->sum = shoal_crc32c(g->sum, g->piece, (size_t)n);
  g->bytes += (uint64_t)n;
  return g->phase == COPYING ? write_piece(g, g->piece, (size_t)n) : SHOAL_OK;
}

/* Works for a moment. */
static shoal_status work(stage *g)
{
  uint64_t t0 = shoal_now_ns();
  do {
    SHOAL_TRY(g->phase == OPENING ? open_file(g) : read_piece(g));
  } while (g->phase != ENDED && shoal_seconds_since(t0) < 1e-3 * TURN_MS);
  return SHOAL_OK;
}

/* ---- all ranks ---- */

static shoal_status prepare(const shoal_session *s, stage *g)
{
  SHOAL_TRY(name_copies(g));
  if (shoal_world_place(s->run.world)->local_rank != 0) return SHOAL_OK;
  SHOAL_TRY(make_folder(g->dir));
  SHOAL_TRY(SHOAL_ALLOC((size_t)PIECE, (char **)&g->piece));
  g->phase = OPENING;
  return SHOAL_OK;
}

static shoal_status meet_until_done(shoal_session *s, stage *g)
{
  shoal_status mine = SHOAL_OK;
  for (int64_t left = 1; left > 0;) {
    if (g->phase != ENDED && mine == SHOAL_OK) mine = work(g);
    SHOAL_TRY(shoal_session_agree(s, mine));
    left = g->phase != ENDED;
    SHOAL_TRY(shoal_group_agree_max(s->run.control, "staging", &left));
  }
  return SHOAL_OK;
}

static void tell(const stage *g, uint64_t t0)
{
  char copied[32], found[32], took[32];
  shoal_info("data set on each node's disk, %s: %s copied, %s found there, all read back with the right sum, in %s",
             g->dir, shoal_format_bytes((double)g->copied, copied, sizeof copied),
             shoal_format_bytes((double)g->found, found, sizeof found),
             shoal_format_seconds(shoal_seconds_since(t0), took, sizeof took));
}

/* Variables have the values of the node: a run file may have been resolved on another one. */
static shoal_status expand(shoal_session *s, const char *text, char **out)
{
  shoal_status st = shoal_error_prefix(shoal_path_expand(text, out), "data.stage is %s: ", text);
  st = shoal_session_agree(s, st);
  if (st != SHOAL_OK) {
    free(*out);
    *out = NULL;
  }
  return st;
}

shoal_status shoal_session_stage(shoal_session *s, shoal_texts *files)
{
  const char *text = shoal_config_string(s->world.config, "data.stage");
  char *to = NULL;
  if (!*text) return SHOAL_OK;
  SHOAL_TRY(expand(s, text, &to));
  uint64_t t0 = shoal_now_ns();
  char *dir = shoal_strdup_printf("%s/shoal-%ld", to, (long)geteuid());
  free(to);
  stage g = { .files = files, .dir = dir, .phase = ENDED, .in = -1, .out = -1, .note = -1 };
  shoal_activity_begin(true, "copying the data set to %s", dir);
  shoal_status st = shoal_session_agree(s, prepare(s, &g));
  if (st == SHOAL_OK) st = meet_until_done(s, &g);
  end_wait(&g);
  shoal_activity_end();
  close_all(&g);
  free(g.piece);
  if (st == SHOAL_OK) {
    tell(&g, t0);
    shoal_texts_free(files);
    *files = g.copies;
  } else {
    shoal_texts_free(&g.copies);
  }
  free(dir);
  return st;
}
