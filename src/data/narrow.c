/* See narrow.h.  A comparison with the value before finds columns that lose distinctions: neighbours of a time stamp or
 * of an id are close, and sorting every column would cost more than the import. */
#include "data/narrow.h"
#include "base/log.h"
#include "base/mem.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHOWN = 5, KEPT = 4096 };
static const double exact_integers = 16777216;             /* 2^24 */
static const double most_integer = 18446744073709551616.0; /* 2^64; what is larger was rounded before */

shoal_status shoal_narrow_init(shoal_narrow *t, size_t columns)
{
  *t = (shoal_narrow){ .n = columns };
  SHOAL_TRY(SHOAL_ALLOC(columns, &t->columns));
  for (size_t i = 0; i < columns; i++) t->columns[i] = (shoal_narrow_column){ .low = INFINITY, .high = -INFINITY };
  return SHOAL_OK;
}

void shoal_narrow_fini(shoal_narrow *t)
{
  for (size_t i = 0; t->columns && i < t->n; i++) free(t->columns[i].kept);
  free(t->columns);
  *t = (shoal_narrow){ 0 };
}

/* 20190623, and with hours, minutes and seconds behind. */
static bool is_date(double value)
{
  if (value >= 1e14) return false;
  while (value >= 1e8) value = floor(value / 100);
  const long v = value > 0 ? (long)value : 0, year = v / 10000, month = v / 100 % 100, day = v % 100;
  return year >= 1900 && year < 2100 && month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

static void keep(shoal_narrow *t, shoal_narrow_column *c, double value)
{
  if (!c->kept && (t->n_keeping >= SHOWN || SHOAL_ALLOC(KEPT, &c->kept) != SHOAL_OK)) return;
  t->n_keeping += c->n_kept == 0;
  if (c->n_kept < KEPT) c->kept[c->n_kept++] = value;
}

static int by_value(const void *a, const void *b)
{
  const double p = *(const double *)a, q = *(const double *)b;
  return (p > q) - (p < q);
}

/* How many of the values kept differ, and how many do so as 32-bit floats; sorts them. */
static void count_distinct(const shoal_narrow_column *c, size_t *before, size_t *after)
{
  *before = *after = c->n_kept > 0;
  qsort(c->kept, c->n_kept, sizeof *c->kept, by_value);
  for (size_t i = 1; i < c->n_kept; i++) {
    *before += c->kept[i] != c->kept[i - 1];
    *after += (float)c->kept[i] != (float)c->kept[i - 1];
  }
}

float shoal_narrow_convert(shoal_narrow *t, size_t column, double value)
{
  shoal_narrow_column *c = &t->columns[column];
  float f = (float)value;
  bool whole = fabs(value) > exact_integers && fabs(value) < most_integer;
  c->beyond += isfinite(value) && !isfinite(f);
  if (isfinite(value)) {
    c->low = fmin(c->low, value);
    c->high = fmax(c->high, value);
  }
  if (whole && fabs((double)f - value) >= 0.5) {
    c->dates += is_date(value);
    if (c->changed++ == 0) c->example[0] = value;
  }
  if (c->changed && isfinite(value)) keep(t, c, value);
  if (c->values++ > 0 && value != c->previous && f == (float)c->previous && c->merged++ == 0 && !c->changed) {
    c->example[0] = c->previous;
    c->example[1] = value;
  }
  c->previous = value;
  return f;
}

static double magnitude(const shoal_narrow_column *c)
{
  return fmax(fabs(c->low), fabs(c->high));
}

static bool is_subnormal(const shoal_narrow_column *c)
{
  return magnitude(c) > 0 && magnitude(c) < (double)FLT_MIN;
}

static bool is_told(const shoal_narrow *t, const shoal_narrow_column *c)
{
  bool merged = c->merged && c->merged >= c->values / 100;
  return c->changed || c->beyond || merged || (t->stays && is_subnormal(c));
}

/* "; of 200 different values 109 remain, neighbours become equal" */
static const char *what_remains(const shoal_narrow_column *c, char out[128])
{
  size_t before = 0, after = 0;
  out[0] = '\0';
  if (c->kept) count_distinct(c, &before, &after);
  if (after < before)
    snprintf(out, 128, "; of %s%zu different values %zu remain%s: neighbours become equal",
             c->n_kept == KEPT ? "the first " : "", before, after, after == 1 ? "s" : "");
  return out;
}

static void warn_of_column(const shoal_narrow_column *c, const char *path, const char *name, size_t drop)
{
  char remains[128], leave[48] = "";
  if (drop) snprintf(leave, sizeof leave, " with --drop %zu", drop);
  int power = magnitude(c) > 0 && isfinite(magnitude(c)) ? (int)floor(log10(magnitude(c))) : 0;
  if (c->beyond)
    shoal_warn("%s: %s: %" PRIu64 " of %" PRIu64 " numbers are larger than any 32-bit float; they are between %.3g and "
               "%.3g: divide them by 1e%d",
               path, name, c->beyond, c->values, c->low, c->high, power);
  else if (is_subnormal(c))
    shoal_warn("%s: %s: all %" PRIu64
               " numbers are between %.3g and %.3g; below 1.2e-38 a 32-bit float loses digits, below "
               "1.4e-45 it is 0: multiply them by 1e%d",
               path, name, c->values, c->low, c->high, -power);
  else if (c->changed)
    shoal_warn("%s: %s: %" PRIu64 " of %" PRIu64 " numbers are too large for 32-bit floats, %.17g becomes %.0f: "
               "%s, or leave it out%s%s",
               path, name, c->changed, c->values, c->example[0], (double)(float)c->example[0],
               c->dates == c->changed ? "they look like dates (YYYYMMDD), write days since the first"
                                      : "subtract an offset",
               leave, what_remains(c, remains));
  else
    shoal_warn("%s: %s: %" PRIu64 " of %" PRIu64 " numbers become equal to their neighbours in 32-bit floats, such as "
               "%.17g and %.17g: subtract an offset",
               path, name, c->merged, c->values, c->example[0], c->example[1]);
}

void shoal_narrow_warn(const shoal_narrow *t, const char *path,
                       const char *(*name)(const void *context, size_t column, char *buf, size_t cap),
                       size_t (*drop)(const void *context, size_t column), const void *context)
{
  size_t found = 0;
  for (size_t i = 0; i < t->n; i++) {
    char text[96];
    if (is_told(t, &t->columns[i]) && found++ < SHOWN)
      warn_of_column(&t->columns[i], path, name(context, i, text, sizeof text), drop ? drop(context, i) : 0);
  }
  if (found > SHOWN) shoal_warn("%s: the same holds for %zu more", path, found - SHOWN);
}
