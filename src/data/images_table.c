/* See images_table.h. */
#include "data/images_table.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/csv.h"
#include "data/csv_layout_impl.h"
#include "data/data_impl.h"
#include "data/image_folder.h"
#include "data/python.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { ROWS = 20 /* that are looked at */, BASES = 12 };

/* That names may lack. */
static const char *const endings[] = { "", ".jpg", ".jpeg", ".png" };
enum { ENDINGS = SHOAL_COUNT(endings) };

typedef struct {
  const char *path;   /* of the table */
  char *base;         /* folder that the names of its files are relative to */
  const char *ending; /* that these names lack, or "" */
  char separator;
  size_t file, label; /* columns */
  char *name;         /* of the latter */
  bool header, found;
  bool measured; /* labels are numbers to be predicted */
} listing;

/* What a column holds in the rows that are looked at. */
typedef struct {
  char *name;
  size_t files[BASES][ENDINGS], rows, numbers; /* files: rows that name one */
  long last;                                   /* row number so far */
  double real[ROWS];                           /* [rows] as numbers */
  size_t reals, fractions;                     /* rows that are some, and that are no whole ones */
} content;

/* The folders that names may be relative to, the working folder first; NULL behind the last.  Caller frees each. */
static void list_bases(const char *table, char *base[BASES + 1])
{
  const char *name = shoal_path_base(table), *dot = strrchr(name, '.');
  shoal_texts inside = { 0 };
  shoal_error ignored;
  size_t n = 0;
  base[n++] = shoal_strdup_printf(".");
  base[n++] = shoal_strdup_printf("%.*s", name > table ? (int)(name - table - 1) : 1, name > table ? table : ".");
  base[n++] = shoal_strdup_printf("%.*s", (int)((dot ? dot : name + strlen(name)) - table), table);
  if (shoal_image_folder_list(base[1], SHOAL_ENTRY_FOLDER, &inside) != SHOAL_OK) shoal_error_take(&ignored);
  for (size_t i = 0; i < inside.n && n < BASES; i++) base[n++] = shoal_path_join(base[1], inside.at[i]);
  base[n] = NULL;
  shoal_texts_free(&inside);
}

static bool is_file(const char *path)
{
  struct stat s;
  return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

static bool names_file(const char *text, const char *base, const char *ending)
{
  char *name = shoal_strdup_printf("%s%s", text, ending);
  char *path = text[0] == '/' ? shoal_strdup_printf("%s", name) : shoal_path_join(base, name);
  const bool found = *text && is_file(path);
  free(path);
  free(name);
  return found;
}

static void look_at(content *c, const char *text, char *const *base)
{
  char *end;
  const long number = strtol(text, &end, 10);
  c->numbers += *text && !*end && (c->rows == 0 || number == c->last + 1);
  c->last = number;
  if (shoal_parse_f64(text, &c->real[c->rows]) == SHOAL_OK) {
    c->fractions += c->real[c->rows] != floor(c->real[c->rows]);
    c->reals++;
  }
  for (size_t b = 0; base[b]; b++)
    for (size_t e = 0; e < ENDINGS; e++) c->files[b][e] += names_file(text, base[b], endings[e]);
  c->rows++;
}

/* Whether they are no classes: all are numbers, and some have fractions, or most come once. */
static bool is_measured(const content *c)
{
  enum { LEAST = 12 }; /* rows that tell */
  size_t once = 0;
  if (c->reals < c->rows || c->rows == 0) return false;
  for (size_t i = 0; i < c->rows; i++) {
    size_t same = 0;
    for (size_t k = 0; k < c->rows; k++) same += c->real[k] == c->real[i];
    once += same == 1;
  }
  return c->fractions > 0 || (c->rows >= LEAST && 2 * once > c->rows);
}

static bool is_row_number(const content *c)
{
  return !*c->name || strncasecmp(c->name, "unnamed", 7) == 0 || (c->rows > 1 && c->numbers == c->rows);
}

/* The column all of whose fields name files: as they are, if one does. */
static void choose_files(const content *column, size_t n, char *const *base, listing *out)
{
  for (size_t e = 0; e < ENDINGS && !out->found; e++)
    for (size_t k = 0; k < n && !out->found; k++)
      for (size_t b = 0; base[b] && !out->found; b++) {
        if (!column[k].rows || column[k].files[b][e] != column[k].rows) continue;
        out->found = true;
        out->file = k;
        out->base = shoal_strdup_printf("%s", base[b]);
        out->ending = endings[e];
        out->header = !names_file(column[k].name, base[b], endings[e]);
      }
}

static void choose(const content *column, size_t n, char *const *base, listing *out)
{
  bool named = false;
  size_t labels = 0;
  choose_files(column, n, base, out);
  if (!out->found) return;
  for (size_t k = 0; k < n; k++) {
    const bool called = shoal_csv_is_label_name(column[k].name);
    if (k == out->file || (named && !called) || (!called && is_row_number(&column[k]))) continue;
    named |= called;
    out->label = k;
    labels++;
  }
  out->found = labels > 0;
  if (!out->found) return;
  out->measured = is_measured(&column[out->label]);
  out->name = shoal_strdup_printf("%s", column[out->label].name);
}

static shoal_status read_rows(shoal_csv *c, char *const *base, listing *out)
{
  content *column = NULL;
  bool end;
  SHOAL_TRY(shoal_csv_next(c, &end));
  const size_t n = end ? 0 : c->n;
  SHOAL_TRY(SHOAL_ALLOC(n + 1, &column));
  for (size_t k = 0; k < n; k++) column[k].name = shoal_strdup_printf("%s", c->fields[k].text);
  shoal_status st = SHOAL_OK;
  for (size_t row = 0; row < ROWS && st == SHOAL_OK && !end; row++) {
    st = shoal_csv_next(c, &end);
    if (st != SHOAL_OK || end || c->n != n) break;
    for (size_t k = 0; k < n; k++) look_at(&column[k], c->fields[k].text, base);
  }
  if (st == SHOAL_OK) choose(column, n, base, out);
  for (size_t k = 0; k < n; k++) free(column[k].name);
  free(column);
  return st;
}

/* Of a list ("img/1.jpg 0") a space may separate, which no table has. */
static char guess_separator(const char *path, const char *text)
{
  const char *end = strrchr(path, '.');
  const size_t line = strcspn(text, "\r\n");
  if (strcasecmp(end, ".tsv") == 0) return '\t';
  if (strcasecmp(end, ".csv") == 0) return '\0';
  return memchr(text, '\t', line) ? '\t' : memchr(text, ',', line) ? ',' : ' ';
}

/* A table that cannot be read is none that helps. */
static void read_table(const char *path, listing *out)
{
  char *text = NULL, *base[BASES + 1];
  size_t n;
  shoal_csv c;
  shoal_error ignored;
  shoal_csv_dialect dialect = { 0 };
  *out = (listing){ .path = path };
  list_bases(path, base);
  shoal_status st = shoal_read_file(path, &text, &n);
  if (st == SHOAL_OK) dialect.separator = guess_separator(path, text);
  if (st == SHOAL_OK) st = shoal_csv_find_separator(path, text, n, &dialect);
  if (st == SHOAL_OK) {
    shoal_csv_init(&c, path, text, n, dialect);
    st = read_rows(&c, base, out);
    shoal_csv_fini(&c);
  }
  if (st != SHOAL_OK) shoal_error_take(&ignored);
  out->separator = dialect.separator;
  free(text);
  for (size_t b = 0; base[b]; b++) free(base[b]);
}

bool shoal_images_table_lists(const char *path)
{
  listing t;
  read_table(path, &t);
  free(t.base);
  free(t.name);
  return t.found;
}

/* "train/", "test/", of the table's own name or its folder's, or "". */
static const char *split_of(const char *path)
{
  const char *name = shoal_path_base(path);
  char *folder = shoal_strdup_printf("%.*s", (int)(name - path), path);
  while (folder[0] && folder[strlen(folder) - 1] == '/') folder[strlen(folder) - 1] = '\0';
  const char *by = shoal_import_names_split(name) ? name : shoal_path_base(folder);
  const char *split = !shoal_import_names_split(by) ? "" : shoal_import_trains(by) ? "train/" : "test/";
  free(folder);
  return split;
}

/* Arrays of the pixels and of the numbers; of several sizes all get that of the first. */
static char *write_arrays(const char *list, const listing *t, bool splits)
{
  static const char *const needs[] = { "PIL", "numpy", NULL };
  char shown[80];
  const char *name = !splits && t->header && shoal_is_plain(t->name) ? t->name : splits ? "y_train" : "y";
  shoal_python python;
  shoal_find_python(needs, &python);
  return shoal_strdup_printf(
      "its \"%s\" are numbers to be predicted, and no classes, and images of other sizes are scaled to that of the "
      "first: %s -c \"import csv, os, sys, numpy; from PIL import "
      "Image; "
      "R = [(s, os.path.join(b, r[f] + e), float(r[c])) for t, sep, b, s, e, h, f, c in [%s] "
      "for r in list(csv.reader(open(t, newline='', encoding='utf-8-sig'), delimiter=sep))[h:] if r]; "
      "M = 'L' if all(Image.open(p).mode in ('1', 'L') for _, p, _ in R) else 'RGB'; Z = Image.open(R[0][1]).size; "
      "numpy.savez(sys.argv[1], **{k + s.strip('/'): v for s in dict.fromkeys(s for s, _, _ in R) for k, v in "
      "[('%s', numpy.stack([numpy.array(Image.open(p).convert(M).resize(Z)) for q, p, _ in R if q == s])), "
      "('%s', numpy.array([v for q, _, v in R if q == s]))]})\" NEW does, and shoal data import npy NEW.npz --target "
      "%s -o "
      "NEW.h5%s%s",
      shoal_show(t->header ? t->name : "labels", shown, sizeof shown), python.run, list, splits ? "x_" : "images",
      splits ? "y_" : name, name, python.needs[0] ? "  # " : "", python.needs);
}

static char *copy_images(const char *list)
{
  static const char *const needs[] = { NULL };
  shoal_python python;
  shoal_find_python(needs, &python);
  return shoal_strdup_printf(
      "%s -c \"import csv, os, shutil; [(os.makedirs(d := 'NEW/' + s + r[c].strip().replace('/', '_'), exist_ok=True), "
      "shutil.copy(os.path.join(b, r[f] + e), d)) for t, sep, b, s, e, h, f, c in [%s] "
      "for r in list(csv.reader(open(t, newline='', encoding='utf-8-sig'), delimiter=sep))[h:] if r]\" && shoal data "
      "import "
      "images NEW -o NEW.h5",
      python.run, list);
}

char *shoal_images_table_command(const shoal_texts *tables)
{
  char word[SHOAL_WORD], base[SHOAL_WORD];
  shoal_str list = { 0 };
  listing first = { 0 };
  bool splits = true;
  for (size_t i = 0; i < tables->n; i++) splits &= *split_of(tables->at[i]) != '\0';
  for (size_t i = 0; i < tables->n; i++) {
    listing t;
    read_table(tables->at[i], &t);
    if (t.found)
      shoal_str_add(
          &list, "%s(%s, '%s', %s, '%s', '%s', %d, %zu, %zu)", list.len ? ", " : "", shoal_python_text(t.path, word),
          t.separator == '\t' ? "\\t" : (char[]){ t.separator ? t.separator : ',', '\0' },
          shoal_python_text(t.base, base), splits ? split_of(t.path) : "", t.ending, t.header, t.file, t.label);
    free(t.base);
    if (t.found && !first.found)
      first = t;
    else
      free(t.name);
  }
  if (!list.len) return NULL;
  char *command = first.measured ? write_arrays(list.text, &first, splits) : copy_images(list.text);
  free(first.name);
  shoal_str_free(&list);
  return command;
}
