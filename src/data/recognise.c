/* What a file is that was given in place of a data set: known by its first bytes, so that the message can name the
 * command that imports it. */
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/csv.h"
#include "data/data_impl.h"
#include <string.h>
#include <sys/stat.h>

enum { HEAD = 4096 };

typedef struct {
  const char *what, *kind; /* kind: of the import */
} format;

static bool begins(const unsigned char *head, size_t n, const char *magic, size_t length)
{
  return n >= length && memcmp(head, magic, length) == 0;
}

/* Printable, with line ends, or in UTF-16. */
static bool is_text(const unsigned char *head, size_t n)
{
  size_t odd = 0;
  if (begins(head, n, "\xff\xfe", 2) || begins(head, n, "\xfe\xff", 2)) return true;
  for (size_t i = 0; i < n; i++) odd += head[i] == 0 || (head[i] < 0x20 && !strchr("\t\n\r\f", head[i]));
  return n > 0 && odd == 0;
}

static format recognise(const unsigned char *head, size_t n)
{
  static const struct {
    const char *magic;
    size_t length;
    format format;
  } known[] = {
    { "\0\0\x08\1", 4, { "IDX labels", "idx" } },
    { "\0\0\x08\3", 4, { "IDX images", "idx" } },
    { "\0\0\x08\4", 4, { "IDX images", "idx" } },
    { "\x93NUMPY", 6, { "a NumPy array", "npy" } },
    { "PK\3\4", 4, { "a zip archive, perhaps NumPy's", "npy" } },
  };
  for (size_t i = 0; i < SHOAL_COUNT(known); i++)
    if (begins(head, n, known[i].magic, known[i].length)) return known[i].format;
  if (!is_text(head, n)) return (format){ NULL, NULL };
  bool table = memchr(head, ',', n) || memchr(head, ';', n) || memchr(head, '\t', n) || memchr(head, '|', n);
  return table ? (format){ "a CSV file", "csv" } : (format){ "text", "text" };
}

shoal_status shoal_data_refuse_source(const char *path)
{
  unsigned char head[HEAD];
  struct stat info;
  shoal_source *s;
  size_t n = 0;
  shoal_error ignored;
  SHOAL_CHECK(
      stat(path, &info) != 0 || !S_ISDIR(info.st_mode), SHOAL_ERR_IO,
      "%s is a folder, not a data set: make one of its files with shoal data import KIND %s -o NAME.h5 (-h lists the "
      "kinds)",
      path, path);
  if (shoal_source_open(path, &s) != SHOAL_OK) {
    shoal_error_take(&ignored); /* opening it as HDF5 says what is wrong */
    return SHOAL_OK;
  }
  shoal_status st = shoal_source_read(s, head, sizeof head, &n);
  shoal_source_close(s);
  if (st != SHOAL_OK) shoal_error_take(&ignored);
  format f = recognise(head, n);
  SHOAL_CHECK(!f.what, SHOAL_ERR_IO,
              "%s is %s, not an HDF5 data set: make one of it with shoal data import %s %s -o NAME.h5", path, f.what,
              f.kind, path);
  return SHOAL_OK;
}
