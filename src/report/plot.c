/* See plot.h.  Neighbouring points of the first curve are joined; the others are drawn as marks, since two curves of dots
 * could not be told apart. */
#include "report/plot.h"
#include "base/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 9, DOTS_X = 2, DOTS_Y = 4 };

typedef struct {
  int width, height;   /* characters inside the axes */
  unsigned char *dots; /* [height][width]: bits of the Braille pattern */
  char *marks;         /* [height][width]: 0 or a character that covers the dots */
  double x0, x1, y0, y1;
} canvas;

static bool shown(const shoal_curve *c, size_t i)
{
  return isfinite(c->x[i]) && isfinite(c->y[i]);
}

/* The range of all points; false if x has none. */
static bool find_range(const shoal_curve *curves, size_t n, canvas *v)
{
  v->x0 = v->y0 = INFINITY;
  v->x1 = v->y1 = -INFINITY;
  for (size_t k = 0; k < n; k++) {
    for (size_t i = 0; i < curves[k].n; i++) {
      if (!shown(&curves[k], i)) continue;
      v->x0 = fmin(v->x0, curves[k].x[i]);
      v->x1 = fmax(v->x1, curves[k].x[i]);
      v->y0 = fmin(v->y0, curves[k].y[i]);
      v->y1 = fmax(v->y1, curves[k].y[i]);
    }
  }
  if (!(v->x1 > v->x0)) return false;
  double least = 1e-3 * fmax(fabs(v->y0), fabs(v->y1)); /* a constant needs a range, too */
  if (v->y1 - v->y0 < least || v->y1 <= v->y0) v->y0 -= least > 0 ? least : 1, v->y1 += least > 0 ? least : 1;
  return true;
}

/* Position of a point in dots, from the left and from above. */
static int dot_x(const canvas *v, double x)
{
  return (int)lround((x - v->x0) / (v->x1 - v->x0) * (v->width * DOTS_X - 1));
}

static int dot_y(const canvas *v, double y)
{
  return (int)lround((v->y1 - y) / (v->y1 - v->y0) * (v->height * DOTS_Y - 1));
}

static void set_dot(canvas *v, int x, int y)
{
  static const unsigned char bits[DOTS_Y][DOTS_X] = { { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 }, { 0x40, 0x80 } };
  v->dots[(y / DOTS_Y) * v->width + x / DOTS_X] |= bits[y % DOTS_Y][x % DOTS_X];
}

static void join(canvas *v, int x0, int y0, int x1, int y1)
{
  int steps = SHOAL_MAX(SHOAL_MAX(abs(x1 - x0), abs(y1 - y0)), 1);
  for (int i = 0; i <= steps; i++) {
    double part = (double)i / steps;
    set_dot(v, x0 + (int)lround(part * (x1 - x0)), y0 + (int)lround(part * (y1 - y0)));
  }
}

static void draw_line(const shoal_curve *c, canvas *v)
{
  int last_x = -1, last_y = -1;
  for (size_t i = 0; i < c->n; i++) {
    if (!shown(c, i)) continue;
    int x = dot_x(v, c->x[i]), y = dot_y(v, c->y[i]);
    join(v, last_x < 0 ? x : last_x, last_x < 0 ? y : last_y, x, y);
    last_x = x;
    last_y = y;
  }
}

static void draw_marks(const shoal_curve *c, canvas *v)
{
  for (size_t i = 0; i < c->n; i++)
    if (shown(c, i)) v->marks[(dot_y(v, c->y[i]) / DOTS_Y) * v->width + dot_x(v, c->x[i]) / DOTS_X] = c->mark;
}

static void print_cell(const canvas *v, int row, int column, bool wide, char ascii, shoal_str *out)
{
  int at = row * v->width + column;
  unsigned pattern = v->dots[at];
  if (v->marks[at])
    shoal_str_add(out, "%c", v->marks[at]);
  else if (!pattern)
    shoal_str_add(out, " ");
  else if (!wide)
    shoal_str_add(out, "%c", ascii);
  else /* U+2800 + pattern, as UTF-8 */
    shoal_str_add(out, "\xe2%c%c", (char)(0xa0 | (pattern >> 6)), (char)(0x80 | (pattern & 0x3f)));
}

/* Four digits, or as many as there is room for. */
static void print_label(double y, char *label, size_t cap)
{
  for (int digits = 4; digits > 0; digits--) {
    snprintf(label, cap, "%.*g", digits, y);
    if (strlen(label) < LABEL) return;
  }
}

static void print_rows(const canvas *v, bool wide, char ascii, shoal_str *out)
{
  for (int row = 0; row < v->height; row++) {
    char label[32] = "";
    if (row == 0) print_label(v->y1, label, sizeof label);
    if (row == v->height - 1) print_label(v->y0, label, sizeof label);
    shoal_str_add(out, "%*s %s", LABEL - 1, label, wide ? "│" : "|");
    for (int column = 0; column < v->width; column++) print_cell(v, row, column, wide, ascii, out);
    shoal_str_add(out, "\n");
  }
}

static void print_axis(const canvas *v, const char *x_name, bool wide, shoal_str *out)
{
  char first[24], last[64];
  snprintf(first, sizeof first, "%.6g", v->x0);
  snprintf(last, sizeof last, "%s %.6g", x_name, v->x1);
  shoal_str_add(out, "%*s%s", LABEL, "", wide ? "└" : "+");
  for (int i = 0; i < v->width; i++) shoal_str_add(out, "%s", wide ? "─" : "-");
  shoal_str_add(out, "\n%*s%s%*s\n", LABEL + 1, "", first, SHOAL_MAX(v->width - (int)strlen(first), 1), last);
}

void shoal_plot(const shoal_curve *curves, size_t n, const char *x_name, int columns, int rows, bool wide,
                shoal_str *out)
{
  canvas v = { .width = columns - LABEL - 1, .height = rows - 2 };
  if (v.width < 14 || v.height < 3 || !find_range(curves, n, &v)) return;
  v.dots = calloc((size_t)v.width * (size_t)v.height, 1);
  v.marks = calloc((size_t)v.width * (size_t)v.height, 1);
  if (v.dots && v.marks) {
    draw_line(&curves[0], &v);
    for (size_t k = 1; k < n; k++) draw_marks(&curves[k], &v);
    print_rows(&v, wide, curves[0].mark, out);
    print_axis(&v, x_name, wide, out);
  }
  free(v.dots);
  free(v.marks);
}
