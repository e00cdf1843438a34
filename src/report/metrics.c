/* See metrics.h. */
#include "report/metrics.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 64 }; /* of a line; a method adds a column per block at most */

#define X(name) { #name, offsetof(shoal_metrics_row, name) },
static const struct {
  const char *name;
  size_t offset;
} wanted[] = { SHOAL_METRICS(X) };
#undef X

/* Splits a line at its commas, in place. */
static int split(char *line, char **cells)
{
  int n = 0;
  for (char *cell; n < CELLS && (cell = strsep(&line, ","));) cells[n++] = cell;
  return n;
}

static shoal_metrics_row parse(char *const *cells, int n, const int *column)
{
  shoal_metrics_row row = { 0 };
  for (size_t k = 0; k < SHOAL_COUNT(wanted); k++) {
    double *to = (double *)((char *)&row + wanted[k].offset);
    if (column[k] >= n || shoal_parse_f64(cells[column[k]], to) != SHOAL_OK) *to = NAN;
  }
  return row;
}

static shoal_status take(char *text, shoal_metrics *m)
{
  char *cells[CELLS], *line = strsep(&text, "\n");
  int column[SHOAL_COUNT(wanted)], n = split(line, cells);
  size_t lines = 0;
  for (size_t k = 0; k < SHOAL_COUNT(wanted); k++) {
    column[k] = CELLS;
    for (int i = 0; i < n; i++)
      if (strcmp(cells[i], wanted[k].name) == 0) column[k] = i;
  }
  for (const char *c = text; c && *c; c++) lines += *c == '\n';
  SHOAL_TRY(SHOAL_ALLOC(lines + 1, &m->rows));
  while ((line = strsep(&text, "\n"))) {
    m->rows[m->n] = parse(cells, split(line, cells), column);
    m->n += isfinite(m->rows[m->n].step);
  }
  return SHOAL_OK;
}

shoal_status shoal_metrics_read(const char *run, shoal_metrics *out)
{
  char *path = shoal_path_join(run, "metrics.csv"), *text = NULL;
  size_t n;
  *out = (shoal_metrics){ .n = 0 };
  shoal_status st = shoal_path_exists(path) ? shoal_read_file(path, &text, &n) : SHOAL_OK;
  if (st == SHOAL_OK && text) st = take(text, out);
  free(text);
  free(path);
  return st;
}

void shoal_metrics_free(shoal_metrics *m)
{
  free(m->rows);
  *m = (shoal_metrics){ .n = 0 };
}
