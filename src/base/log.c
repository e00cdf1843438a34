/* Messages to the user: progress on stdout from rank 0, warnings and errors on stderr from any rank, all of it also in
 * the run's log file with a time stamp.
 *
 * Each line is assembled first and written by a single call, so that ranks sharing a terminal or a pipe do not
 * interleave within lines.  On a terminal the last row may hold a live status line.  It is erased before any other line
 * is written and redrawn afterwards:
 *
 *     epoch 3  812 samples/s          ->      shoal: warning: ...
 *                                             epoch 3  812 samples/s
 *
 * Control characters in messages are shown as escapes, because messages contain file names and settings, and a terminal would
 * execute escape sequences in them.  Short messages use no heap, so "out of memory" can still be reported. */
#include "base/log.h"
#include "base/activity.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct {
  pthread_mutex_t lock;
  int rank, size;
  shoal_log_level level;
  FILE *file;
  char name[192];             /* of the file, cut to what fits */
  bool (*may)(void *context); /* write to it */
  void *context;
  bool keeping, remembers;
  bool failed;        /* the file could not be written, which was told */
  uint64_t unread[2]; /* lines of stdout and stderr that nobody read in time, since there was room for one */
  char *kept;         /* warnings while keeping; NULL if there are none */
  char *early;        /* what belongs into the file that is not there yet; NULL: nothing */
  char live[512];     /* the live line on the terminal's last row; "" if there is none */
} logger = { .lock = PTHREAD_MUTEX_INITIALIZER, .size = 1, .level = SHOAL_LOG_INFO };

void shoal_log_set_rank(int rank, int size)
{
  pthread_mutex_lock(&logger.lock);
  logger.rank = rank;
  logger.size = size;
  pthread_mutex_unlock(&logger.lock);
}

int shoal_log_rank(void)
{
  pthread_mutex_lock(&logger.lock);
  int rank = logger.rank;
  pthread_mutex_unlock(&logger.lock);
  return rank;
}

void shoal_log_set_level(shoal_log_level level)
{
  pthread_mutex_lock(&logger.lock);
  logger.level = level;
  pthread_mutex_unlock(&logger.lock);
}

shoal_log_level shoal_log_get_level(void)
{
  pthread_mutex_lock(&logger.lock);
  shoal_log_level level = logger.level;
  pthread_mutex_unlock(&logger.lock);
  return level;
}

void shoal_log_ask_first(bool (*may)(void *context), void *context)
{
  pthread_mutex_lock(&logger.lock);
  logger.may = may;
  logger.context = context;
  pthread_mutex_unlock(&logger.lock);
}

/* mpirun gives its ranks a pseudo terminal in any case, so check where mpirun's own output goes. */
static bool launcher_prints_to_tty(void)
{
  char path[64], target[256];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getppid(), STDOUT_FILENO);
  ssize_t n = readlink(path, target, sizeof target - 1);
  if (n < 0) return false;
  target[n] = '\0';
  return strncmp(target, "/dev/pts/", strlen("/dev/pts/")) == 0 || strncmp(target, "/dev/tty", strlen("/dev/tty")) == 0;
}

int shoal_log_is_tty(void)
{
  const char *term = getenv("TERM");
  return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 &&
         (!getenv("OMPI_COMM_WORLD_RANK") || launcher_prints_to_tty());
}

/* The text with control characters as escapes: itself if it has none, else in heap memory that is returned in *to_free too.
 * If there is no memory, '?' takes their place. */
static char *escape_controls(char *text, char **to_free)
{
  size_t plain = strlen(text), needed = shoal_escape(text, false, NULL, 0);
  if (needed == plain) return text;
  char *escaped = malloc(needed + 1);
  if (escaped) {
    shoal_escape(text, false, escaped, needed + 1);
    free(*to_free);
    return *to_free = escaped;
  }
  for (char *c = text; *c; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
  return text;
}

/* Formats into `small`, or into heap memory returned in *to_free if that is too short; truncates if malloc fails. */
static char *format_text(char *small, size_t cap, char **to_free, const char *format, va_list args)
{
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(small, cap, format, args);
  char *text = small;
  if (n >= 0 && (size_t)n >= cap && (*to_free = malloc((size_t)n + 1))) {
    text = *to_free;
    vsnprintf(text, (size_t)n + 1, format, again);
  }
  va_end(again);
  return text;
}

/* Writes prefix, text and newline by one fwrite and one flush, whatever the length.  False if it could not be written. */
static bool write_line(FILE *to, const char *prefix, const char *text)
{
  char small[1024];
  size_t bytes = strlen(prefix) + strlen(text) + 2;
  char *line = bytes <= sizeof small ? small : malloc(bytes);
  if (line) {
    int n = snprintf(line, bytes, "%s%s\n", prefix, text);
    if (n > 0) fwrite(line, 1, (size_t)n, to);
  } else {
    fprintf(to, "%s%s\n", prefix, text);
  }
  bool written = fflush(to) == 0;
  int error = errno;
  if (line != small) free(line);
  errno = error;
  return written;
}

/* What the disk has no room for stays in memory, and comes with a later line, as far as that has room. */
static void write_file_line(const char *prefix, const char *text)
{
  if (write_line(logger.file, prefix, text) || logger.failed) return;
  char warning[512], space[SHOAL_SPACE_LEFT];
  int error = errno;
  logger.failed = true;
  snprintf(warning, sizeof warning, "cannot write %s: %s%s; lines may be missing there, this run goes on", logger.name,
           strerror(error), shoal_space_left(logger.name, error, space));
  write_line(stderr, "shoal: warning: ", warning);
}

/* A line to the terminal, or where else the output goes.  Where the log file has it, too, a run does not wait for who does not read: some
 * seconds at first, and then, until there is room again, not at all. */
static void show_line(FILE *to, const char *prefix, const char *text)
{
  enum { PATIENCE_MS = 5000 };
  char note[512], stamp[32];
  struct pollfd p = { .fd = fileno(to), .events = POLLOUT };
  uint64_t *unread = &logger.unread[to == stderr];
  if (logger.file && poll(&p, 1, *unread ? 0 : PATIENCE_MS) == 0) {
    snprintf(note, sizeof note, "%s ", shoal_wall_clock(stamp, sizeof stamp));
    if (logger.unread[0] + logger.unread[1] == 0)
      write_file_line(note, "nobody reads the output of this run: lines that have no room there are only here");
    ++*unread;
    return;
  }
  if (*unread) {
    snprintf(note, sizeof note, "%llu lines that nobody read in time are only in %s", (unsigned long long)*unread,
             logger.name);
    *unread = 0;
    write_line(to, "", note);
  }
  write_line(to, prefix, text);
}

static void live_wipe(void)
{
  if (!logger.live[0]) return;
  fputs("\r\033[K", stdout);
  fflush(stdout);
}

static void live_draw(void)
{
  if (!logger.live[0]) return;
  fprintf(stdout, "\r\033[K%s", logger.live);
  fflush(stdout);
}

void shoal_log_keep_warnings(void)
{
  pthread_mutex_lock(&logger.lock);
  logger.keeping = true;
  pthread_mutex_unlock(&logger.lock);
}

char *shoal_log_kept(void)
{
  pthread_mutex_lock(&logger.lock);
  char *text = logger.kept;
  logger.kept = NULL;
  logger.keeping = false;
  pthread_mutex_unlock(&logger.lock);
  return text;
}

void shoal_log_warn_lines(const char *lines)
{
  for (const char *at = lines; at && *at; at += strcspn(at, "\n"), at += *at == '\n')
    shoal_warn("%.*s", (int)strcspn(at, "\n"), at);
}

/* Appends a line to *lines.  @return  false if there is no memory: the warning is then printed */
static bool add_line(char **lines, const char *prefix, const char *text)
{
  size_t n = *lines ? strlen(*lines) : 0;
  char *more = realloc(*lines, n + strlen(prefix) + strlen(text) + 2);
  if (!more) return false;
  *lines = more;
  sprintf(more + n, "%s%s%s", n ? "\n" : "", prefix, text);
  return true;
}

void shoal_log_remember(void)
{
  pthread_mutex_lock(&logger.lock);
  logger.remembers = true;
  pthread_mutex_unlock(&logger.lock);
}

void shoal_log_set_file(FILE *file, const char *name)
{
  pthread_mutex_lock(&logger.lock);
  snprintf(logger.name, sizeof logger.name, "%s", file ? name : "");
  logger.file = file;
  logger.failed = false;
  memset(logger.unread, 0, sizeof logger.unread);
  if (file && logger.early) write_file_line("", logger.early);
  logger.remembers = false;
  free(logger.early);
  logger.early = NULL;
  pthread_mutex_unlock(&logger.lock);
}

/* Whether a message goes into the file; with the lock. */
static bool may_write(shoal_log_level level)
{
  if (level > SHOAL_MAX(logger.level, SHOAL_LOG_INFO)) return false;
  return logger.file ? !logger.may || logger.may(logger.context) : logger.remembers && logger.rank == 0;
}

static void announce_line(void)
{
  shoal_activity_begin(false, "writing a line to %s%sthe terminal", logger.name, logger.file ? " and " : "");
}

void shoal_log_text(const char *lines)
{
  announce_line();
  pthread_mutex_lock(&logger.lock);
  bool shown = logger.rank == 0 && logger.level >= SHOAL_LOG_INFO;
  bool filed = logger.rank == 0 && logger.file && may_write(SHOAL_LOG_INFO);
  if (shown) live_wipe();
  for (const char *at = lines; *at && (shown || filed); at += strcspn(at, "\n"), at += *at == '\n') {
    char *line = strndup(at, strcspn(at, "\n")), *to_free = line;
    if (!line) break;
    line = escape_controls(line, &to_free);
    if (shown) show_line(stdout, "", line);
    if (filed) write_file_line("", line);
    free(to_free);
  }
  if (shown) live_draw();
  pthread_mutex_unlock(&logger.lock);
  shoal_activity_end(); /* which may warn */
}

void shoal_log_warn_aside(const char *text)
{
  char prefix[64] = "", line[1024], safe[sizeof line];
  if (logger.size > 1) snprintf(prefix, sizeof prefix, "[rank %d] ", logger.rank);
  snprintf(line, sizeof line, "%sshoal: warning: %s", prefix, text);
  shoal_show(line, safe, sizeof safe - 1);
  strcat(safe, "\n");
  (void)!write(STDERR_FILENO, safe, strlen(safe));
}

void shoal_log(shoal_log_level level, const char *format, ...)
{
  static const char *const tags[] = { "shoal: error: ", "shoal: warning: ", "", "shoal: debug: " };
  bool live = level == SHOAL_LOG_PROGRESS && shoal_log_is_tty();
  if (level == SHOAL_LOG_PROGRESS) level = SHOAL_LOG_INFO;
  announce_line();
  pthread_mutex_lock(&logger.lock);
  bool mine = level != SHOAL_LOG_INFO || logger.rank == 0;
  bool shown = mine && !live && level <= logger.level, filed = mine && may_write(level);
  if (shown || filed) {
    char small[1024], prefix[64] = "", stamp[32], *to_free = NULL;
    va_list args;
    va_start(args, format);
    char *text = format_text(small, sizeof small, &to_free, format, args);
    va_end(args);
    text = escape_controls(text, &to_free);
    if (level == SHOAL_LOG_WARN && logger.keeping && add_line(&logger.kept, "", text)) shown = filed = false;
    if (logger.size > 1 && level != SHOAL_LOG_INFO)
      snprintf(prefix, sizeof prefix, "[rank %d] %s", logger.rank, tags[level]);
    else
      snprintf(prefix, sizeof prefix, "%s", tags[level]);
    if (shown) {
      live_wipe();
      show_line(level == SHOAL_LOG_INFO ? stdout : stderr, prefix, text);
      live_draw();
    }
    if (filed) {
      char dated[100];
      snprintf(dated, sizeof dated, "%s %s", shoal_wall_clock(stamp, sizeof stamp), prefix);
      if (logger.file)
        write_file_line(dated, text);
      else
        (void)add_line(&logger.early, dated, text);
    }
    free(to_free);
  }
  pthread_mutex_unlock(&logger.lock);
  shoal_activity_end();
}

size_t shoal_log_live_width(void)
{
  struct winsize window;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1 ? window.ws_col - 1u : 79;
}

/* Truncates the live line to the width of the terminal, at a character boundary: a wrapped line could not be erased. */
static void cut_to_width(char *text)
{
  size_t width = shoal_log_live_width(), column = 0;
  for (char *c = text; *c; c++) {
    bool starts_character = ((unsigned char)*c & 0xc0) != 0x80;
    if (starts_character && ++column > width) {
      *c = '\0';
      return;
    }
  }
}

void shoal_log_live(const char *format, ...)
{
  pthread_mutex_lock(&logger.lock);
  if (logger.rank == 0 && shoal_log_is_tty()) {
    va_list args;
    live_wipe();
    va_start(args, format);
    char line[sizeof logger.live];
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    shoal_show(line, logger.live, sizeof logger.live);
    cut_to_width(logger.live);
    live_draw();
  }
  pthread_mutex_unlock(&logger.lock);
}
