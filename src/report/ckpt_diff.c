/* `shoal ckpt diff`: where two checkpoints differ, and by how much.
 *
 * Both files are verified first, so that damage is not mistaken for a difference.  Then the two sorted lists of names
 * are merged, and arrays are compared in pieces, so memory use does not depend on their size.
 *
 * Tolerance 0 compares bits, as needed to check that a resumed run equals an uninterrupted one: -0 differs from 0, and
 * a NaN equals the same NaN.  A positive tolerance is relative to the largest finite value of the array in the first
 * file; relative to each element it would require digits of values that are rounding noise.  Two NaNs agree, a NaN and
 * a number do not. */
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "report/ckpt.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 4 << 20 }; /* bytes compared at a time */

typedef struct {
  uint64_t count, at; /* number of elements that differ; index of the one with the largest difference */
  double largest;
  double a, b; /* values at that index */
} difference;

typedef struct {
  const shoal_ckpt *a, *b;
  double tolerance;
  bool as_json;
  shoal_str text;  /* lines of the text output */
  shoal_json json; /* or the JSON document, within its array "differences" */
  size_t compared, different;
  void *piece_a, *piece_b;
} diff;

/* ---- values ---- */

/* Converts two elements to double and returns their distance.  Integers are subtracted exactly, before conversion. */
#define NUMBER_CASE(code, type, distance_of)                                                                           \
  case code: {                                                                                                         \
    type x, y;                                                                                                         \
    memcpy(&x, pa, sizeof x);                                                                                          \
    memcpy(&y, pb, sizeof y);                                                                                          \
    *va = (double)x;                                                                                                   \
    *vb = (double)y;                                                                                                   \
    return distance_of;                                                                                                \
  }
#define FLOAT_DISTANCE fabs((double)x - (double)y)
#define INT_DISTANCE   (double)(x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x)

static double distance(shoal_dtype type, const char *pa, const char *pb, double *va, double *vb)
{
  switch (type) {
    NUMBER_CASE(SHOAL_F32, float, FLOAT_DISTANCE)
    NUMBER_CASE(SHOAL_F64, double, FLOAT_DISTANCE)
    NUMBER_CASE(SHOAL_I32, int32_t, INT_DISTANCE)
    NUMBER_CASE(SHOAL_I64, int64_t, INT_DISTANCE)
    NUMBER_CASE(SHOAL_U8, uint8_t, INT_DISTANCE)
    NUMBER_CASE(SHOAL_U16, uint16_t, INT_DISTANCE)
    NUMBER_CASE(SHOAL_U32, uint32_t, INT_DISTANCE)
    NUMBER_CASE(SHOAL_U64, uint64_t, INT_DISTANCE)
  }
  return 0;
}

static void compare_elements(const diff *d, shoal_dtype type, double bound, uint64_t first, uint64_t n, difference *out)
{
  size_t width = shoal_dtype_size(type);
  const char *pa = d->piece_a, *pb = d->piece_b;
  if (memcmp(pa, pb, (size_t)n * width) == 0) return;
  for (uint64_t i = 0; i < n; i++, pa += width, pb += width) {
    double a = 0, b = 0;
    if (memcmp(pa, pb, width) == 0) continue;
    double far = distance(type, pa, pb, &a, &b);
    if (d->tolerance > 0 && (far <= bound || (isnan(a) && isnan(b)))) continue;
    if (isnan(far)) far = a == b ? 0 : INFINITY; /* NaN against a number; equal infinities were skipped above */
    if (out->count++ == 0 || far > out->largest) {
      out->largest = far;
      out->at = first + i;
      out->a = a;
      out->b = b;
    }
  }
}

/* Finds the largest finite absolute value of an array, which the tolerance is relative to. */
static shoal_status largest_value(const diff *d, const shoal_ckpt_entry *e, double *out)
{
  size_t width = shoal_dtype_size(e->type);
  uint64_t per_piece = PIECE / width;
  *out = 0;
  for (uint64_t first = 0; first < e->n; first += per_piece) {
    uint64_t n = SHOAL_MIN(per_piece, e->n - first);
    SHOAL_TRY(shoal_ckpt_get_part(d->a, e, first, n, d->piece_a));
    for (uint64_t i = 0; i < n; i++) {
      const char *p = (const char *)d->piece_a + i * width;
      double a, same;
      distance(e->type, p, p, &a, &same);
      if (isfinite(a) && fabs(a) > *out) *out = fabs(a);
    }
  }
  return SHOAL_OK;
}

static shoal_status compare_values(const diff *d, const shoal_ckpt_entry *a, const shoal_ckpt_entry *b, difference *out)
{
  size_t width = shoal_dtype_size(a->type);
  uint64_t per_piece = PIECE / width;
  double scale = 0;
  *out = (difference){ 0 };
  if (d->tolerance > 0) SHOAL_TRY(largest_value(d, a, &scale));
  for (uint64_t first = 0; first < a->n; first += per_piece) {
    uint64_t n = SHOAL_MIN(per_piece, a->n - first);
    SHOAL_TRY(shoal_ckpt_get_part(d->a, a, first, n, d->piece_a));
    SHOAL_TRY(shoal_ckpt_get_part(d->b, b, first, n, d->piece_b));
    compare_elements(d, a->type, d->tolerance * scale, first, n, out);
  }
  return SHOAL_OK;
}

/* ---- lines ---- */

static void add_difference(diff *d, const char *name, const char *what, const char *words)
{
  d->different++;
  if (!d->as_json) {
    shoal_str_add(&d->text, "%s: %s\n", name, words);
    return;
  }
  shoal_json_object(&d->json, NULL);
  shoal_json_string(&d->json, "name", name);
  shoal_json_string(&d->json, "what", what);
  shoal_json_string(&d->json, "words", words);
  shoal_json_end(&d->json);
}

/* Converts the linear index `at` of a row-major array to its indices. */
static void find_indices(const shoal_ckpt_entry *e, uint64_t at, uint64_t indices[SHOAL_CKPT_MAX_DIMS])
{
  for (int i = e->ndim - 1; i >= 0; i--) {
    indices[i] = at % e->dims[i];
    at /= e->dims[i];
  }
}

static void add_value_difference(diff *d, const shoal_ckpt_entry *e, const difference *found)
{
  char text[256];
  uint64_t indices[SHOAL_CKPT_MAX_DIMS];
  find_indices(e, found->at, indices);
  d->different++;
  if (!d->as_json) {
    shoal_str_add(&d->text, "%s: %" PRIu64 " of %" PRIu64 " values differ, most at %s: %.9g and %.9g, %.3g apart\n",
                  e->name, found->count, e->n, shoal_ckpt_shape_text(e->ndim, indices, text, sizeof text), found->a,
                  found->b, found->largest);
    return;
  }
  shoal_json_object(&d->json, NULL);
  shoal_json_string(&d->json, "name", e->name);
  shoal_json_string(&d->json, "what", "values");
  shoal_json_uint(&d->json, "count", found->count);
  shoal_json_uint(&d->json, "of", e->n);
  shoal_json_array(&d->json, "at");
  for (int i = 0; i < e->ndim; i++) shoal_json_uint(&d->json, NULL, indices[i]);
  shoal_json_end(&d->json);
  shoal_json_real(&d->json, "a", found->a);
  shoal_json_real(&d->json, "b", found->b);
  shoal_json_real(&d->json, "largest", found->largest);
  shoal_json_end(&d->json);
}

/* ---- pairs ---- */

static shoal_status compare_pair(diff *d, const shoal_ckpt_entry *a, const shoal_ckpt_entry *b)
{
  char one[256], other[256];
  difference found;
  bool same = a->type == b->type && a->ndim == b->ndim;
  for (int i = 0; same && i < a->ndim; i++) same = a->dims[i] == b->dims[i];
  if (!same) {
    char *words = shoal_strdup_printf(
        "%s %s and %s %s", shoal_dtype_name(a->type), shoal_ckpt_shape_text(a->ndim, a->dims, one, sizeof one),
        shoal_dtype_name(b->type), shoal_ckpt_shape_text(b->ndim, b->dims, other, sizeof other));
    add_difference(d, a->name, "shape", words);
    free(words);
    return SHOAL_OK;
  }
  SHOAL_TRY(compare_values(d, a, b, &found));
  if (found.count) add_value_difference(d, a, &found);
  return SHOAL_OK;
}

/* Whether a name begins with one of some prefixes, joined by commas; NULL: none. */
static bool begins_with_any(const char *name, const char *prefixes)
{
  for (const char *p = prefixes; p && *p; p += strcspn(p, ","), p += *p == ',')
    if (strncmp(name, p, strcspn(p, ",")) == 0) return true;
  return false;
}

static shoal_status merge(diff *d, const char *only, const char *except)
{
  const shoal_ckpt_index *x = shoal_ckpt_get_index(d->a), *y = shoal_ckpt_get_index(d->b);
  size_t n = strlen(only), i = shoal_ckpt_index_lower_bound(x, only), j = shoal_ckpt_index_lower_bound(y, only);
  for (;;) {
    bool in_a = i < x->n && strncmp(x->at[i].name, only, n) == 0,
         in_b = j < y->n && strncmp(y->at[j].name, only, n) == 0;
    if (!in_a && !in_b) return SHOAL_OK;
    int order = !in_b ? -1 : !in_a ? 1 : strcmp(x->at[i].name, y->at[j].name);
    if (begins_with_any(order <= 0 ? x->at[i].name : y->at[j].name, except)) {
      i += order <= 0;
      j += order >= 0;
      continue;
    }
    d->compared++;
    if (order < 0) {
      add_difference(d, x->at[i++].name, "missing", "only in the first");
    } else if (order > 0) {
      add_difference(d, y->at[j++].name, "missing", "only in the second");
    } else {
      SHOAL_TRY(compare_pair(d, &x->at[i++], &y->at[j++]));
    }
  }
}

/* Compares the attributes that describe the state of training; run name and date are ignored. */
static void compare_info(diff *d)
{
  const shoal_ckpt_info *a = shoal_ckpt_get_info(d->a), *b = shoal_ckpt_get_info(d->b);
  const struct {
    const char *name;
    uint64_t a, b;
  } numbers[] = { { "@step", a->step, b->step },
                  { "@epoch", a->epoch, b->epoch },
                  { "@samples", a->samples, b->samples } };
  const struct {
    const char *name, *a, *b;
  } words[] = { { "@method", a->method, b->method }, { "@model", a->model, b->model } };
  for (size_t i = 0; i < SHOAL_COUNT(numbers); i++) {
    if (numbers[i].a == numbers[i].b) continue;
    char *text = shoal_strdup_printf("%" PRIu64 " and %" PRIu64, numbers[i].a, numbers[i].b);
    add_difference(d, numbers[i].name, "attribute", text);
    free(text);
  }
  for (size_t i = 0; i < SHOAL_COUNT(words); i++) {
    if (strcmp(words[i].a, words[i].b) == 0) continue;
    char *text = shoal_strdup_printf("%s and %s", words[i].a, words[i].b);
    add_difference(d, words[i].name, "attribute", text);
    free(text);
  }
}

static shoal_status compare(diff *d, const char *only, const char *except)
{
  SHOAL_TRY(shoal_alloc(PIECE, 1, "diff buffer", &d->piece_a));
  SHOAL_TRY(shoal_alloc(PIECE, 1, "diff buffer", &d->piece_b));
  if (!only) compare_info(d);
  SHOAL_TRY(merge(d, only ? only : "", except));
  SHOAL_CHECK(d->compared > 0 || !only, SHOAL_ERR_USAGE, "no data set of %s or %s begins with \"%s\"",
              shoal_ckpt_path(d->a), shoal_ckpt_path(d->b), only);
  return SHOAL_OK;
}

static void begin_json(diff *d)
{
  d->json.lines = 2;
  shoal_json_object(&d->json, NULL);
  shoal_json_string(&d->json, "a", shoal_ckpt_path(d->a));
  shoal_json_string(&d->json, "b", shoal_ckpt_path(d->b));
  shoal_json_real(&d->json, "tolerance", d->tolerance);
  shoal_json_array(&d->json, "differences");
}

static void print_json(diff *d, FILE *out)
{
  shoal_json_end(&d->json);
  shoal_json_uint(&d->json, "compared", d->compared);
  shoal_json_bool(&d->json, "different", d->different > 0);
  shoal_json_end(&d->json);
  d->json.out = out;
  shoal_json_finish(&d->json);
}

static void print_table(const diff *d, FILE *out)
{
  shoal_str_print(&d->text, out);
  char a[1024], b[1024];
  fprintf(out, "%s and %s ", shoal_show(shoal_ckpt_path(d->a), a, sizeof a),
          shoal_show(shoal_ckpt_path(d->b), b, sizeof b));
  if (d->different)
    fprintf(out, "differ in %zu places (%zu data sets compared)\n", d->different, d->compared);
  else if (d->tolerance > 0)
    fprintf(out, "agree within %g of the largest value: %zu data sets\n", d->tolerance, d->compared);
  else
    fprintf(out, "agree in every bit: %zu data sets\n", d->compared);
}

shoal_status shoal_ckpt_diff(const char *a, const char *b, const char *only, const char *except, double tolerance,
                             bool json, FILE *out, bool *different)
{
  shoal_ckpt *first = NULL, *second = NULL;
  diff d = { .tolerance = tolerance, .as_json = json };
  shoal_status st;
  SHOAL_CHECK(tolerance >= 0, SHOAL_ERR_USAGE, "a tolerance of %g makes no sense; use 0 or more", tolerance);
  SHOAL_TRY_GOTO(st, shoal_ckpt_open(a, true, &first), end);
  SHOAL_TRY_GOTO(st, shoal_ckpt_open(b, true, &second), end);
  d.a = first;
  d.b = second;
  if (json) begin_json(&d);
  SHOAL_TRY_GOTO(st, compare(&d, only, except), end);
  if (json)
    print_json(&d, out);
  else
    print_table(&d, out);
  *different = d.different > 0;
end:
  free(d.piece_a);
  free(d.piece_b);
  shoal_str_free(&d.text);
  shoal_str_free(&d.json.text);
  shoal_ckpt_close(first);
  shoal_ckpt_close(second);
  return st;
}
