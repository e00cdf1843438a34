/* Curves in a terminal, drawn with Braille patterns (2 × 4 dots per character) or ASCII. */
#ifndef SHOAL_REPORT_PLOT_H
#define SHOAL_REPORT_PLOT_H
#include "base/str.h"

typedef struct {
  const char *name;
  char mark; /* in ASCII, and beside Braille for all but the first curve */
  size_t n;
  const double *x, *y; /* [n], x ascending; points that are not finite are left out */
} shoal_curve;

/** Draws curves[n] into `columns` × `rows` characters, axes and their numbers included: at least 24 × 5.
 *  @param x_name  what stands under the x axis.  Draws nothing if there are no two points of different x. */
void shoal_plot(const shoal_curve *curves, size_t n, const char *x_name, int columns, int rows, bool wide,
                shoal_str *out);
#endif
