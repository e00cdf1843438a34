/* What a file is that was given in place of a data set, or of a source of an import: known by its first bytes, so that the
 * message can name it and the command that helps. */
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/python.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { HEAD = 4096 };

static bool begins(const unsigned char *head, size_t n, size_t at, const char *magic, size_t length)
{
  return n >= at + length && memcmp(head + at, magic, length) == 0;
}

static bool is_hdf5(const unsigned char *head, size_t n)
{
  return begins(head, n, 0, "\x89HDF\r\n", 6);
}

static bool holds(const unsigned char *head, size_t n, const char *word)
{
  for (size_t i = 0; i + strlen(word) <= n; i++)
    if (memcmp(head + i, word, strlen(word)) == 0) return true;
  return false;
}

/* ---- files that nothing here reads ---- */

#define TABLE_CURE(reader)                                                                                             \
  "python3 -c \"import pandas; pandas." reader ".to_csv('FILE.csv', index=False)\" makes a CSV of it"
#define IMAGE_CURE "mogrify -format png FILE makes a PNG of it (ImageMagick, package imagemagick)"
#define GET_CURE   "get the file again"
#define MATLAB_CURE                                                                                                    \
  "save it in MATLAB with -v7.3, which makes HDF5; or python3 -c \"import numpy, scipy.io; m = "                       \
  "scipy.io.loadmat('FILE'); numpy.savez('FILE.npz', **{k: m[k] for k in m if k[0] != '_' and m[k].dtype.kind in "     \
  "'biuf'})\" && shoal data import npy FILE.npz -o FILE.h5 makes a data set of its arrays"

/* Arrays of a dictionary, of pairs (x, y) and of pairs for each split, as scripts pickle them, by names that an import understands; a table
 * of pandas becomes CSV. */
#define WALK                                                                                                           \
  "K = lambda k: k.decode() if isinstance(k, bytes) else str(k); C = lambda v: isinstance(v, tuple) or "               \
  "(isinstance(v, list) and len(v) < 9 and all(hasattr(w, 'shape') for w in v)); T = lambda o, p: ['x', 'y'] if "      \
  "len(o) == 2 else ['x_train', 'y_train', 'x_test', 'y_test'] if len(o) == 4 and len(o[0]) == len(o[1]) else "        \
  "['x_train', 'x_test', 'y_train', 'y_test'] if len(o) == 4 else ['array%d' % i for i in range(len(o))]; W = lambda " \
  "o, p=(): [e for k, v in o.items() for e in W(v, p + (K(k),))] if isinstance(o, dict) else [e for k, v in "          \
  "zip(['train', 'valid', 'test'] if len(o) == 3 else ['train', 'test'], o) for e in W(v, p + (k,))] if C(o) and "     \
  "all(map(C, o)) else [e for k, v in zip(T(o, p), o) for e in W(v, p + (k,))] if C(o) else [('_'.join(p) or 'x', "    \
  "numpy.asarray(o))]; t = hasattr(o, 'to_csv') and (o.to_csv('FILE.csv', index=False), exit('it is a table, written " \
  "to a CSV that shoal data import csv takes')); numpy.savez('FILE.npz', **dict(W(o)))\" && shoal data import npy "    \
  "FILE.npz -o FILE.h5 makes a data set of its arrays"
#define PICKLE_CURE                                                                                                    \
  "if you trust who made it, python3 -c \"import gzip, numpy, pickle; b = open('FILE', 'rb').read(); o = "             \
  "pickle.loads(gzip.decompress(b) if b[:2] == bytes([31, 139]) else b, encoding='latin1'); " WALK
#define TORCH_CURE                                                                                                     \
  "if you trust who made it, python3 -c \"import numpy, torch; o = torch.load('FILE', map_location='cpu', "            \
  "weights_only=False); o = getattr(o, 'tensors', o); " WALK

/* In a cure FILE stands for the path. */
static const struct {
  const char *magic;
  size_t length, at;
  shoal_alien alien;
} aliens[] = {
  { "\xfd"
    "7zXZ",
    6,
    0,
    { "packed with xz", "xz -dc FILE >NEW unpacks it" } },
  { "1AY&SY", 6, 4, { "packed with bzip2", "bzip2 -dc FILE >NEW unpacks it" } },
  { "\x28\xb5\x2f\xfd", 4, 0, { "packed with zstd", "zstd -dc FILE >NEW unpacks it" } },
  { "\x1f\x8b\x08", 3, 0, { "packed twice with gzip", "zcat FILE >NEW unpacks it once" } },
  { "7z\xbc\xaf\x27\x1c", 6, 0, { "a 7-Zip archive", "7z x -oFOLDER FILE unpacks it into a new folder" } },
  { "ustar", 5, 257, { "a tar archive", "tar --one-top-level=FOLDER -xf FILE unpacks it into a new folder" } },
  { "PAR1", 4, 0, { "a Parquet table", TABLE_CURE("read_parquet('FILE')") } },
  { "ARROW1", 6, 0, { "an Arrow table", TABLE_CURE("read_feather('FILE')") } },
  { "CDF\1", 4, 0, { "a file of netCDF 3", "nccopy -k nc4 FILE NEW.h5 makes HDF5 of it" } },
  { "CDF\2", 4, 0, { "a file of netCDF 3", "nccopy -k nc4 FILE NEW.h5 makes HDF5 of it" } },
  { "CDF\5", 4, 0, { "a file of netCDF 3", "nccopy -k nc4 FILE NEW.h5 makes HDF5 of it" } },
  { "MATLAB 5.0 MAT-file", 19, 0, { "a MATLAB file of version 5", MATLAB_CURE } },
  { "SQLite format 3", 15, 0, { "an SQLite data base", "export the table as CSV" } },
  { "%PDF-", 5, 0, { "a PDF document", GET_CURE } },
  { "GIF8", 4, 0, { "a GIF image", IMAGE_CURE } },
  { "WEBP", 4, 8, { "a WebP image", IMAGE_CURE } },
  { "jP  \r\n", 6, 4, { "a JPEG 2000 image", IMAGE_CURE } },
  { "ftypheic", 8, 4, { "a HEIC image", IMAGE_CURE } },
  { "ftypmif1", 8, 4, { "a HEIC image", IMAGE_CURE } },
  { "ftypavif", 8, 4, { "an AVIF image", IMAGE_CURE } },
  { "P4\n", 3, 0, { "a PBM image", IMAGE_CURE } },
  { "P5\n", 3, 0, { "a PGM image", IMAGE_CURE } },
  { "P6\n", 3, 0, { "a PPM image", IMAGE_CURE } },
  { "II*\0", 4, 0, { "a TIFF image", IMAGE_CURE } },
  { "MM\0*", 4, 0, { "a TIFF image", IMAGE_CURE } },
};

/* A table of Weka: @relation behind empty lines and remarks. */
static bool is_arff(const unsigned char *head, size_t n)
{
  const char *line = (const char *)head, *end = line + n;
  while (line < end && strchr("%\r\n", *line)) {
    const char *next = memchr(line, '\n', (size_t)(end - line));
    line = next ? next + 1 : end;
  }
  return end - line > 9 && strncasecmp(line, "@relation", 9) == 0;
}

/* What is text, and something else than it was given as. */
static shoal_alien alien_text(const unsigned char *head, size_t n)
{
  char start[SHOAL_TEXT_START];
  shoal_text_start(head, n, start);
  const shoal_alien failed = shoal_find_alien(head, n);
  if (failed.cure) return failed;
  if (strncasecmp(start, "<?xml", 5) == 0) return (shoal_alien){ "XML", TABLE_CURE("read_xml('FILE')") };
  if (is_arff(head, n))
    return (shoal_alien){ "an ARFF table, of Weka", "sed '1,/^@data/Id' FILE >NEW.csv leaves its rows" };
  if (start[0] == '{' && holds(head, n, "\":"))
    return (shoal_alien){ "JSON", TABLE_CURE("read_json('FILE', lines=True)") };
  if (start[0] == '[' && holds(head, n, "{\"")) return (shoal_alien){ "JSON", TABLE_CURE("read_json('FILE')") };
  return (shoal_alien){ NULL, NULL };
}

static shoal_alien alien_archive(const unsigned char *head, size_t n)
{
  if (holds(head, n, "[Content_Types].xml") || holds(head, n, "mimetypeapplication/vnd.oasis"))
    return (shoal_alien){ "a spreadsheet", "save it as CSV" };
  const shoal_alien torch = shoal_find_alien(head, n);
  if (torch.what) return (shoal_alien){ torch.what, TORCH_CURE };
  return (shoal_alien){ "a zip archive", "unzip -d FOLDER FILE unpacks it into a new folder" };
}

shoal_alien shoal_data_find_alien(const unsigned char *head, size_t n)
{
  for (size_t i = 0; i < SHOAL_COUNT(aliens); i++)
    if (begins(head, n, aliens[i].at, aliens[i].magic, aliens[i].length)) return aliens[i].alien;
  if (n > 14 && begins(head, n, 0, "BM", 2) && begins(head, n, 6, "\0\0\0\0", 4))
    return (shoal_alien){ "a BMP image", IMAGE_CURE };
  const shoal_alien program = shoal_find_alien(head, n);
  if (program.what && !program.cure)
    return (shoal_alien){ program.what, begins(head, n, 0, "PK", 2) ? TORCH_CURE : PICKLE_CURE };
  return alien_text(head, n);
}

char *shoal_data_alien_cure(const shoal_alien *alien, const char *path)
{
  char word[SHOAL_WORD];
  shoal_str s = { 0 };
  static const char by_python[] = "python3 ";
  static const struct {
    const char *word, *packages[3];
  } needed[] = {
    { "scipy", { "scipy", "numpy" } },
    { "torch.load", { "torch", "numpy" } },
    { "pickle.loads", { "numpy" } },
    { "read_parquet", { "pandas", "pyarrow" } },
    { "read_feather", { "pandas", "pyarrow" } },
    { "read_excel", { "pandas", "openpyxl" } },
    { "", { "pandas" } },
  };
  size_t kind = 0;
  while (!strstr(alien->cure, needed[kind].word)) kind++;
  const char *const *packages = needed[kind].packages;
  shoal_python python = { .needs = "" };
  const char *at = alien->cure, *file, *command = strstr(at, by_python);
  if (command) {
    shoal_find_python(packages, &python);
    shoal_str_add(&s, "%.*s%s ", (int)(command - at), at, python.run);
    at = command + strlen(by_python);
  }
  while ((file = strstr(at, "FILE")) != NULL) {
    const bool inside = file > at && file[-1] == '\''; /* of a command for Python: 'FILE' or 'FILE.csv' */
    const char *end = inside ? strchr(file, '\'') : file + 4;
    char *name = shoal_strdup_printf("%s%.*s", path, (int)(end - file - 4), file + 4);
    shoal_str_add(&s, "%.*s%s", (int)(file - at) - inside, at,
                  inside ? shoal_python_text(name, word) : shoal_shell_word(name, word));
    free(name);
    at = end + inside;
  }
  shoal_str_add(&s, "%s", at);
  if (python.needs[0]) shoal_str_add(&s, "; it %s", python.needs);
  return s.text;
}

static shoal_status read_head(const char *path, unsigned char head[HEAD], size_t *n, bool *packed)
{
  shoal_source *s;
  *n = 0;
  SHOAL_TRY(shoal_source_open(path, &s));
  *packed = shoal_source_is_packed(s);
  shoal_status st = shoal_source_read(s, head, HEAD, n);
  shoal_source_close(s);
  return st;
}

static shoal_status refuse(const char *path, shoal_alien alien)
{
  char *cure = shoal_data_alien_cure(&alien, path);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "%s is %s: %s", path, alien.what, cure);
  free(cure);
  return st;
}

shoal_status shoal_data_refuse_alien(const char *path, const char *kind)
{
  unsigned char head[HEAD];
  size_t n;
  bool packed;
  SHOAL_TRY(read_head(path, head, &n, &packed));
  shoal_alien found = shoal_data_find_alien(head, n);
  const bool text = strcmp(kind, "text") == 0 && alien_text(head, n).what;
  const bool archive = begins(head, n, 0, "PK\3\4", 4) && strcmp(kind, "npy") != 0;
  if (archive) found = alien_archive(head, n);
  if (is_hdf5(head, n)) found = (shoal_alien){ "an HDF5 file", "it needs no import, data.file takes it as it is" };
  if (begins(head, n, 0, "\x89PNG", 4) || begins(head, n, 0, "\xff\xd8\xff", 3))
    found = (shoal_alien){ "an image", "shoal data import images takes a folder with a folder for each class" };
  return found.what && !text ? refuse(path, found) : SHOAL_OK;
}

/* ---- files that an import reads ---- */

typedef struct {
  const char *what, *kind; /* kind: of the import */
} format;

/* Printable, with line ends, or in UTF-16. */
static bool is_text(const unsigned char *head, size_t n)
{
  size_t odd = 0;
  if (begins(head, n, 0, "\xff\xfe", 2) || begins(head, n, 0, "\xfe\xff", 2)) return true;
  for (size_t i = 0; i < n; i++) odd += head[i] == 0 || (head[i] < 0x20 && !strchr("\t\n\r\f", head[i]));
  return n > 0 && odd == 0;
}

/* Separators outside of quotes in a line without its end. */
static size_t count_separators(const char *line, size_t n, char separator)
{
  size_t found = 0;
  bool quoted = false;
  for (size_t i = 0; i < n; i++) {
    quoted ^= line[i] == '"';
    found += line[i] == separator && !quoted;
  }
  return found;
}

/* Whether three of four lines have as many of this separator as the first one.  Prose has some, here and there. */
static bool is_separated(const char *text, char separator)
{
  size_t lines = 0, alike = 0, first = 0;
  for (const char *at = text; *at; at += strspn(at, "\r\n")) {
    const size_t n = strcspn(at, "\r\n"), found = count_separators(at, n, separator);
    if (lines > 0 && !at[n]) break; /* cut off */
    if (lines++ == 0) first = found;
    alike += found == first;
    at += n;
  }
  return first > 0 && 4 * alike >= 3 * lines;
}

/* By its lines; UTF-16 of plain characters has zeros between them. */
static bool is_table(const unsigned char *head, size_t n)
{
  static const char separators[] = ",;\t|";
  char text[HEAD + 1];
  size_t length = 0;
  for (size_t i = 0; i < n; i++)
    if (head[i]) text[length++] = (char)head[i];
  text[length] = '\0';
  for (const char *s = separators; *s; s++)
    if (is_separated(text, *s)) return true;
  return false;
}

static format recognise(const char *path, const unsigned char *head, size_t n)
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
    if (begins(head, n, 0, known[i].magic, known[i].length)) return known[i].format;
  if (!is_text(head, n)) return (format){ NULL, NULL };
  const bool table = strcmp(shoal_import_guess_kind(path), "csv") == 0 || is_table(head, n);
  return table ? (format){ "a CSV file", "csv" } : (format){ "text", "text" };
}

/* Whether a text is the names of HDF5 files, one per line, as Caffe has its sources: its first line is one that is there. */
static bool lists_files(const unsigned char *head, size_t n)
{
  char line[512];
  size_t end = 0;
  while (end < n && end < sizeof line - 1 && !strchr("\r\n", head[end])) end++;
  snprintf(line, sizeof line, "%.*s", (int)end, (const char *)head);
  const char *ending = strrchr(line, '.');
  return ending && (strcmp(ending, ".h5") == 0 || strcmp(ending, ".hdf5") == 0) && shoal_path_exists(line);
}

/* The command that makes a data set of it, which the network reads if there is one.  A table is text, too. */
static shoal_status refuse_format(const char *path, const format *f, const shoal_data_reader *reader)
{
  const bool folder = !f->kind, text = !folder && strcmp(f->kind, "text") == 0;
  const bool table = !folder && strcmp(f->kind, "csv") == 0;
  const char *kind = folder ? shoal_import_guess_kind(path) : f->kind;
  char word[SHOAL_WORD], run[SHOAL_WORD];
  if (reader && reader->text) {
    SHOAL_CHECK(folder || text || table, SHOAL_ERR_IO, "%s is %s, and the network of %s reads text: give it a text",
                path, f->what, reader->run);
    kind = "text";
  }
  SHOAL_CHECK(!reader || reader->text || !text, SHOAL_ERR_IO,
              "%s is text, and the network of %s reads none: give it samples like those that it was trained on", path,
              reader->run);
  const bool like = reader && (strcmp(kind, "csv") == 0 || strcmp(kind, "images") == 0 || strcmp(kind, "text") == 0);
  return SHOAL_FAIL(
      SHOAL_ERR_IO, "%s is %s, not an HDF5 data set: make one of %s with shoal data import %s %s%s%s -o NAME.h5%s",
      path, f->what, folder ? "its files" : "it", kind, shoal_shell_word(path, word), like ? " --like " : "",
      like ? shoal_shell_word(reader->run, run) : "", folder && !reader ? " (-h lists the kinds)" : "");
}

shoal_status shoal_data_refuse_source(const char *path, const shoal_data_reader *reader)
{
  unsigned char head[HEAD];
  struct stat info;
  size_t n = 0;
  bool packed;
  shoal_error ignored;
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
    return refuse_format(path, &(format){ "a folder", NULL }, reader);
  if (read_head(path, head, &n, &packed) != SHOAL_OK) {
    shoal_error_take(&ignored); /* opening it as HDF5 says what is wrong */
    return SHOAL_OK;
  }
  shoal_alien alien = shoal_data_find_alien(head, n);
  if (packed && is_hdf5(head, n)) alien = (shoal_alien){ "packed with gzip", "zcat FILE >NEW unpacks it" };
  if (alien.what) return refuse(path, alien);
  SHOAL_CHECK(
      !lists_files(head, n), SHOAL_ERR_IO,
      "%s is a list of files: data.file takes them as they are, as in data: { file: [a.h5, b.h5] }, or by a pattern",
      path);
  format f = recognise(path, head, n);
  return f.what ? refuse_format(path, &f, reader) : SHOAL_OK;
}
