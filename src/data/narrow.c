/* See narrow.h.  A comparison with the value before finds columns that lose distinctions: neighbours of a time stamp or
 * of an id are close, and sorting every column would cost more than the import. */
#include "data/narrow.h"
#include "base/log.h"
#include "base/mem.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { SHOWN = 5 };
static const double exact_integers = 16777216; /* 2^24 */

shoal_status shoal_narrow_init(shoal_narrow *t, size_t columns)
{
  *t = (shoal_narrow){ .n = columns };
  return SHOAL_ALLOC(columns, &t->columns);
}

void shoal_narrow_fini(shoal_narrow *t)
{
  free(t->columns);
  *t = (shoal_narrow){ 0 };
}

float shoal_narrow_convert(shoal_narrow *t, size_t column, double value)
{
  shoal_narrow_column *c = &t->columns[column];
  float f = (float)value;
  if (fabs(value) > exact_integers && fabs((double)f - value) >= 0.5 && c->changed++ == 0) c->example[0] = value;
  if (c->values++ > 0 && value != c->previous && f == (float)c->previous && c->merged++ == 0 && !c->changed) {
    c->example[0] = c->previous;
    c->example[1] = value;
  }
  c->previous = value;
  return f;
}

void shoal_narrow_warn(const shoal_narrow *t, const char *path,
                       const char *(*name)(const void *context, size_t column, char *buf, size_t cap),
                       const void *context)
{
  size_t found = 0;
  for (size_t i = 0; i < t->n; i++) {
    const shoal_narrow_column *c = &t->columns[i];
    char text[96];
    if (!c->changed && (!c->merged || c->merged < c->values / 100)) continue;
    if (found++ >= SHOWN) continue;
    name(context, i, text, sizeof text);
    if (c->changed)
      shoal_warn("%s: %s: %" PRIu64 " of %" PRIu64 " numbers are too large for 32-bit floats, %.17g becomes %.0f: "
                 "subtract an offset, or leave it out",
                 path, text, c->changed, c->values, c->example[0], (double)(float)c->example[0]);
    else
      shoal_warn("%s: %s: %" PRIu64 " of %" PRIu64
                 " numbers become equal to their neighbours in 32-bit floats, such as "
                 "%.17g and %.17g: subtract an offset",
                 path, text, c->merged, c->values, c->example[0], c->example[1]);
  }
  if (found > SHOWN) shoal_warn("%s: the same holds for %zu more", path, found - SHOWN);
}
