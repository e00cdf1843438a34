/* See rows.h. */
#include "train/rows.h"
#include "base/activity.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char header_of_all[] = "epoch,step,time_s,train_loss,test_loss,test_acc,lr,samples_per_s,wait_share";

struct shoal_rows {
  char *path;        /* owned */
  int fd;            /* -1: not open */
  uint64_t size;     /* bytes of whole rows in the file */
  int64_t count;     /* rows, with those that wait */
  int gone;          /* trailing columns from earlier attempts only, empty in new rows */
  shoal_str waiting; /* rows to be written at `size` */
  int64_t n_waiting;
  bool told;
};

/* ---- what stays of earlier attempts ---- */

/* Cell i of a line, not null-terminated; NULL after the last cell. */
static const char *cell(const char *line, size_t i, size_t *n)
{
  for (*n = strcspn(line, ",\n"); i > 0; i--, *n = strcspn(line, ",\n")) {
    if (line[*n] != ',') return NULL;
    line += *n + 1;
  }
  return line;
}

/* Index of the header cell with this name, or SIZE_MAX if there is none. */
static size_t column(const char *header, const char *name, size_t n)
{
  size_t have;
  const char *c;
  for (size_t i = 0; (c = cell(header, i, &have)); i++)
    if (have == n && memcmp(c, name, n) == 0) return i;
  return SIZE_MAX;
}

/* Builds the header: columns of this attempt, then those of earlier ones only.  Returns the number of the latter. */
static int join_headers(const char *more, const char *old, shoal_str *out)
{
  size_t n;
  int gone = 0;
  const char *name;
  shoal_str_add(out, "%s%s", header_of_all, more);
  for (size_t i = 0; old && (name = cell(old, i, &n)); i++)
    if (n > 0 && column(out->text, name, n) == SIZE_MAX) {
      shoal_str_add(out, ",%.*s", (int)n, name);
      gone++;
    }
  return gone;
}

static bool stays(const char *row, int64_t number, int64_t keep, uint64_t step)
{
  size_t n;
  const char *second = cell(row, 1, &n);
  if (keep != SHOAL_ROWS_BY_STEP) return number < keep;
  return second && strtoull(second, NULL, 10) <= step;
}

/* Copies rows, matching columns by name: another method or cut has other columns. */
static int64_t keep_rows(const char *old, int64_t keep, uint64_t step, const char *header, shoal_str *out)
{
  size_t n, have;
  int64_t kept = 0;
  const char *line = old ? strchr(old, '\n') : NULL, *name, *end;
  for (int64_t i = 0; line && (end = strchr(line + 1, '\n')); line = end, i++) { /* a torn last row has no end */
    if (!stays(line + 1, i, keep, step)) continue;
    for (size_t c = 0; (name = cell(header, c, &n)); c++) {
      const char *value = cell(line + 1, column(old, name, n), &have);
      shoal_str_add(out, "%s%.*s", c ? "," : "", value ? (int)have : 0, value ? value : "");
    }
    shoal_str_add(out, "\n");
    kept++;
  }
  return kept;
}

static shoal_status begin(shoal_rows *r, const char *old, int64_t keep, uint64_t step, const char *more)
{
  shoal_str header = { 0 }, text = { 0 };
  r->gone = join_headers(more, old, &header);
  shoal_str_add(&text, "%s\n", header.text);
  r->count = keep_rows(old, keep, step, header.text, &text);
  shoal_status st = shoal_write_file(r->path, text.text, text.len);
  r->size = text.len;
  if (st == SHOAL_OK && (r->fd = open(r->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW)) < 0)
    st = SHOAL_FAIL(SHOAL_ERR_IO, "cannot open %s: %s", r->path, strerror(errno));
  if (st == SHOAL_OK && keep > r->count)
    shoal_warn("%s has %lld row%s, but the checkpoint was saved after %lld: the others were lost", r->path,
               (long long)r->count, r->count == 1 ? "" : "s", (long long)keep);
  shoal_str_free(&header);
  shoal_str_free(&text);
  return st;
}

/* What an editor or a spreadsheet has made of it: ends of lines as on Windows are read as ours; a table without our columns, as one
 * with semicolons, is kept beside, and its rows do not come back. */
static shoal_status accept(const char *path, char **old)
{
  char *to = *old, *aside = NULL;
  shoal_status st = SHOAL_OK;
  for (const char *from = *old; *from; from++)
    if (from[0] != '\r' || from[1] != '\n') *to++ = *from;
  *to = '\0';
  if (column(*old, "step", strlen("step")) != SIZE_MAX || !**old) return SHOAL_OK;
  aside = shoal_strdup_printf("%s.changed", path);
  if (rename(path, aside) != 0)
    st = shoal_io_fault("rename", path, errno);
  else
    shoal_warn("%s has no column named step, as a run writes it: was it saved by another program? It is kept as %s",
               path, aside);
  free(aside);
  free(*old);
  *old = NULL;
  return st;
}

shoal_status shoal_rows_open(const char *path, int64_t keep, uint64_t step, const char *more, shoal_rows **out)
{
  char *old = NULL;
  size_t n;
  shoal_rows *r = calloc(1, sizeof *r);
  SHOAL_CHECK(r, SHOAL_ERR_MEM, "the rows of %s", path);
  r->path = shoal_strdup_printf("%s", path);
  r->fd = -1;
  bool any = keep > 0 || (keep == SHOAL_ROWS_BY_STEP && step > 0);
  shoal_status st = any && shoal_path_exists(path) ? shoal_read_file(path, &old, &n) : SHOAL_OK;
  if (st == SHOAL_OK && old) st = accept(path, &old);
  if (st == SHOAL_OK) st = begin(r, old, keep, step, more);
  free(old);
  if (st == SHOAL_OK)
    *out = r;
  else
    shoal_rows_close(r);
  return st;
}

/* ---- rows of this attempt ---- */

/* All that waits or nothing: a part of a row is taken back. */
static bool put_waiting(shoal_rows *r)
{
  for (size_t done = 0; done < r->waiting.len;) {
    ssize_t n = pwrite(r->fd, r->waiting.text + done, r->waiting.len - done, (off_t)(r->size + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      int error = errno;
      (void)!ftruncate(r->fd, (off_t)r->size);
      errno = error;
      return false;
    }
    done += (size_t)n;
  }
  r->size += r->waiting.len;
  r->n_waiting = 0;
  shoal_str_clear(&r->waiting);
  return true;
}

/* What was in it can still be read, as long as it is open. */
void shoal_rows_renew(shoal_rows *r)
{
  char *text = NULL;
  if (shoal_path_exists(r->path) || SHOAL_ALLOC((size_t)r->size, &text) != SHOAL_OK) return;
  bool whole = pread(r->fd, text, (size_t)r->size, 0) == (ssize_t)r->size;
  int fd = -1;
  if (whole && shoal_write_file(r->path, text, (size_t)r->size) == SHOAL_OK)
    fd = open(r->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  free(text);
  if (fd < 0) return;
  close(r->fd);
  r->fd = fd;
  shoal_warn("%s was removed, and is written again", r->path);
}

static bool put(shoal_rows *r)
{
  shoal_activity_begin(false, "writing %s", r->path);
  bool done = put_waiting(r);
  shoal_activity_end();
  return done;
}

void shoal_rows_add(shoal_rows *r, const char *row)
{
  char space[SHOAL_SPACE_LEFT];
  shoal_str_add(&r->waiting, "%s", row);
  for (int i = 0; i < r->gone; i++) shoal_str_add(&r->waiting, ",");
  shoal_str_add(&r->waiting, "\n");
  r->count++;
  r->n_waiting++;
  if (put(r) || r->told) return;
  r->told = true;
  int error = errno;
  shoal_warn("cannot write a row of %s: %s%s; it is tried again later", r->path, strerror(error),
             shoal_space_left(r->path, error, space));
}

int64_t shoal_rows_count(const shoal_rows *r)
{
  return r->count;
}

shoal_status shoal_rows_flush(shoal_rows *r)
{
  char space[SHOAL_SPACE_LEFT];
  int error = put(r) ? shoal_sync(r->fd) : errno;
  if (!error) return SHOAL_OK;
  return SHOAL_FAIL(SHOAL_ERR_IO, "cannot write %s: %s%s; %lld row%s missing", r->path, strerror(error),
                    shoal_space_left(r->path, error, space), (long long)r->n_waiting,
                    r->n_waiting == 1 ? " is" : "s are");
}

void shoal_rows_close(shoal_rows *r)
{
  if (!r) return;
  if (r->fd >= 0) close(r->fd);
  shoal_str_free(&r->waiting);
  free(r->path);
  free(r);
}
