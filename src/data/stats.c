/* Mean, standard deviation and checksum of a data set, accumulated while its samples are written or read.
 *
 * Bytes are counted in a histogram of 256 bins per channel: this is exact, so the result does not depend on the order
 * of the samples, and cheap.  Floats are summed in double as differences from the first of them, which keeps the digits
 * that the textbook formula E[x²] - E[x]² loses when the mean is far from zero.  They are summed apart by their magnitude, so
 * that one absurd value does not swallow the digits of all others, and can be left out when all are known.  Chan, Golub and
 * LeVeque (1983) have the formula that joins such sums. */
#include "data/stats.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/mem.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256 };

shoal_status shoal_data_stats_init(shoal_data_stats *t, shoal_data_kind kind, const shoal_shape *sample, int x_bytes)
{
  *t = (shoal_data_stats){ .x_bytes = x_bytes };
  size_t elements = (size_t)shoal_shape_count(sample);
  if (kind == SHOAL_DATA_IMAGES)
    t->groups = (size_t)sample->dim[0];
  else
    t->groups = elements <= SHOAL_DATA_SCALES ? elements : 1;
  t->plane = elements / t->groups;
  if (x_bytes == 1) return SHOAL_ALLOC(t->groups * BYTES, &t->counts);
  SHOAL_TRY(SHOAL_ALLOC(2 * t->groups, &t->extremes));
  for (size_t g = 0; g < t->groups; g++) {
    t->extremes[g] = (shoal_data_extreme){ INFINITY, INFINITY, 0, 0 };
    t->extremes[t->groups + g] = (shoal_data_extreme){ -INFINITY, -INFINITY, 0, 0 };
  }
  return SHOAL_ALLOC(t->groups * SHOAL_DATA_BINS, &t->bins);
}

void shoal_data_stats_fini(shoal_data_stats *t)
{
  free(t->counts);
  free(t->bins);
  free(t->extremes);
  *t = (shoal_data_stats){ 0 };
}

static void add_bytes(shoal_data_stats *t, const uint8_t *x)
{
  for (size_t g = 0; g < t->groups; g++, x += t->plane) {
    uint64_t *counts = t->counts + g * BYTES;
    for (size_t i = 0; i < t->plane; i++) counts[x[i]]++;
  }
}

/* A value at or beyond the one next to the extreme; `sign` is 1 for the highest, -1 for the lowest. */
static void note_extreme(shoal_data_extreme *e, double sign, double value, uint64_t sample)
{
  if (value == e->value) {
    e->count++;
  } else if (sign * value > sign * e->value) {
    *e = (shoal_data_extreme){ value, e->value, 1, sample };
  } else {
    e->next = value;
  }
}

static void note_bad(shoal_data_stats *t, size_t element, float value)
{
  if (t->not_finite++ > 0) return;
  t->bad.sample = t->number;
  t->bad.element = element;
  t->bad.value = value;
}

/* Ascending: negative numbers from the largest magnitude to the smallest, then the others. */
static size_t find_bin(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  const size_t magnitude = bits >> 26 & (SHOAL_DATA_BINS / 2 - 1); /* the upper five bits of the exponent */
  return bits >> 31 ? SHOAL_DATA_BINS / 2 - 1 - magnitude : SHOAL_DATA_BINS / 2 + magnitude;
}

static void add_value(shoal_data_bin *b, double value, uint64_t sample)
{
  if (b->count++ == 0) {
    b->first = b->low = b->high = value;
    b->sample = sample;
    return;
  }
  const double away = value - b->first;
  b->sum += away;
  b->square += away * away;
  b->low = value < b->low ? value : b->low;
  b->high = value > b->high ? value : b->high;
}

static void add_floats(shoal_data_stats *t, const float *x)
{
  for (size_t g = 0; g < t->groups; g++, x += t->plane) {
    shoal_data_extreme *low = &t->extremes[g], *high = &t->extremes[t->groups + g];
    shoal_data_bin *bins = &t->bins[g * SHOAL_DATA_BINS];
    for (size_t i = 0; i < t->plane; i++) {
      if (!isfinite(x[i])) {
        note_bad(t, g * t->plane + i, x[i]);
        continue;
      }
      if (x[i] < low->next) note_extreme(low, -1, x[i], t->number);
      if (x[i] > high->next) note_extreme(high, 1, x[i], t->number);
      add_value(&bins[find_bin(x[i])], x[i], t->number);
    }
  }
}

void shoal_data_stats_add(shoal_data_stats *t, uint64_t n, const void *x)
{
  size_t step = t->groups * t->plane;
  for (uint64_t i = 0; i < n; i++, t->samples++, t->number++) {
    if (t->x_bytes == 1)
      add_bytes(t, (const uint8_t *)x + i * step);
    else
      add_floats(t, (const float *)x + i * step);
  }
}

/* ---- the mass of a group, and what is outside ---- */

/* Bins first to last, both not empty; `outside` values are in the others. */
typedef struct {
  size_t first, last;
  uint64_t outside;
} mass;

/* Mean and sum of squared differences from it, of all values of some bins. */
typedef struct {
  double n, mean, squares;
} moments;

static moments sum_bins(const shoal_data_bin *bins, const mass *m)
{
  moments all = { 0 };
  for (size_t k = m->first; k <= m->last; k++) {
    if (!bins[k].count) continue;
    const double n = (double)bins[k].count, away = bins[k].sum / n;
    const double step = bins[k].first + away - all.mean, share = n / (all.n + n);
    all.squares += bins[k].square - n * away * away + step * step * share * all.n;
    all.mean += step * share;
    all.n += n;
  }
  return all;
}

static double deviation(const moments *m)
{
  return m->n > 0 && m->squares > 0 ? sqrt(m->squares / m->n) : 0;
}

/* The bin next to k, in the direction of `step`, that is not empty; there is one. */
static size_t next_bin(const shoal_data_bin *bins, size_t k, int step)
{
  do k += (size_t)step;
  while (!bins[k].count);
  return k;
}

/* Without one end, so that at most `few` values are outside: of two such ends the one that is farther from the others.  False if
 * there is none. */
static bool drop_end(const shoal_data_bin *bins, uint64_t few, mass *m)
{
  if (m->first == m->last) return false;
  const size_t second = next_bin(bins, m->first, 1), last_but_one = next_bin(bins, m->last, -1);
  const uint64_t low = bins[m->first].count, high = bins[m->last].count;
  const bool low_may = m->outside + low <= few, high_may = m->outside + high <= few;
  const double low_away = bins[second].low - bins[m->first].high,
               high_away = bins[m->last].low - bins[last_but_one].high;
  if (!low_may && !high_may) return false;
  if (low_may && (!high_may || low_away > high_away)) {
    m->outside += low;
    m->first = second;
  } else {
    m->outside += high;
    m->last = last_but_one;
  }
  return true;
}

/* How far the nearest value of `outer` is from those of `inner`. */
static double distance(const shoal_data_bin *bins, const mass *outer, const mass *inner)
{
  double least = INFINITY;
  for (size_t k = outer->first; k <= outer->last; k++) {
    if (!bins[k].count || (k >= inner->first && k <= inner->last)) continue;
    least =
        fmin(least, k < inner->first ? bins[inner->first].low - bins[k].high : bins[k].low - bins[inner->last].high);
  }
  return least;
}

enum { SQUASHED = 100 }; /* the standard deviation is so many times the range of the mass */

/* The values that would be normalised to nearly one, without the few that do it and are `least` away: all, if there are no such. */
static mass find_mass(const shoal_data_stats *t, size_t group, double least)
{
  const shoal_data_bin *bins = &t->bins[group * SHOAL_DATA_BINS];
  const uint64_t samples = SHOAL_MAX(t->samples / 1000, SHOAL_MIN(t->samples / 10, UINT64_C(3)));
  const uint64_t few = SHOAL_MAX(samples, UINT64_C(1)) * t->plane;
  mass found = { 0, SHOAL_DATA_BINS - 1, 0 };
  while (found.first < found.last && !bins[found.first].count) found.first++;
  while (found.first < found.last && !bins[found.last].count) found.last--;
  for (mass at = found; drop_end(bins, few, &at);) {
    const moments all = sum_bins(bins, &found);
    const double range = bins[at.last].high - bins[at.first].low;
    if (range > 0 && range * SQUASHED < deviation(&all) && distance(bins, &found, &at) >= fmax(least, range * SQUASHED))
      found = at;
  }
  return found;
}

static const double left_out_from =
    1e6; /* away from the mass; less may be meant: a rare 1 beside the rounding errors of 0 */

/* Integers below 2^53 for up to 10^11 values per channel: exact. */
static moments sum_bytes(const uint64_t *counts)
{
  moments m = { 0 };
  double sum = 0, square = 0;
  for (int v = 0; v < BYTES; v++) {
    const double count = (double)counts[v];
    m.n += count;
    sum += v * count;
    square += (double)v * v * count;
  }
  if (m.n > 0) m.mean = sum / m.n;
  m.squares = square - m.mean * m.mean * m.n;
  return m;
}

void shoal_data_stats_result(const shoal_data_stats *t, double *mean, double *std)
{
  for (size_t g = 0; g < t->groups; g++) {
    moments m;
    if (t->x_bytes == 1) {
      m = sum_bytes(&t->counts[g * BYTES]);
    } else {
      const mass kept = find_mass(t, g, left_out_from);
      m = sum_bins(&t->bins[g * SHOAL_DATA_BINS], &kept);
    }
    mean[g] = m.mean;
    std[g] = deviation(&m) > 0 ? deviation(&m) : 1;
  }
}

void shoal_data_overall(size_t n, const double *mean, const double *std, double *mean_out, double *std_out)
{
  double sum = 0, square = 0;
  for (size_t k = 0; k < n; k++) {
    sum += mean[k] / (double)n;
    square += (std[k] * std[k] + mean[k] * mean[k]) / (double)n;
  }
  *mean_out = sum;
  *std_out = square > sum * sum ? sqrt(square - sum * sum) : 1;
}

bool shoal_data_stats_is_constant(const shoal_data_stats *t, size_t group, double *value)
{
  size_t values = 0;
  if (t->x_bytes > 1) {
    *value = t->extremes[group].value;
    return *value == t->extremes[t->groups + group].value;
  }
  for (size_t v = 0; v < BYTES; v++) {
    if (t->counts[group * BYTES + v] == 0) continue;
    *value = (double)v;
    values++;
  }
  return values == 1;
}

size_t shoal_data_stats_constant(const shoal_data_stats *t, size_t *first)
{
  size_t found = 0;
  double value;
  for (size_t g = 0; g < t->groups; g++)
    if (shoal_data_stats_is_constant(t, g, &value) && found++ == 0) *first = g;
  return found;
}

uint32_t shoal_data_checksum(const uint32_t crc[4])
{
  uint8_t bytes[16];
  for (int i = 0; i < 16; i++) bytes[i] = (uint8_t)(crc[i / 4] >> 8 * (i % 4));
  return shoal_crc32c(0, bytes, sizeof bytes);
}

/* ---- numbers apart from all others ---- */

/* 999, -9999, 99.99, the ends of integers, and what climate data is filled with: 1e20, 9.96921e36. */
static bool is_mark(double value)
{
  const double v = fabs(value);
  char text[32];
  size_t nines = 0, others = 0;
  if (v >= 1e19 || v == 32767 || v == 32768 || v == 65535 || v == 2147483648.0) return true; /* f32 has no 2147483647 */
  snprintf(text, sizeof text, "%.6g", v);
  for (const char *c = text; *c; c++) {
    nines += *c == '9';
    others += *c != '9' && *c != '.';
  }
  return v >= 99 && nines >= 2 && others == 0;
}

/* Whether an extreme is apart from all other numbers, which go from its next one to `other_end`. */
static bool is_apart(const shoal_data_extreme *e, double other_end)
{
  enum { APART = 5, FAR = 1000 };
  if (!isfinite(e->next)) return false; /* a constant */
  const double gap = fabs(e->value - e->next), range = fabs(e->next - other_end);
  return (is_mark(e->value) && gap > APART * range) || (range > 0 && gap > FAR * range);
}

/* Values of a group that are apart from all others, which are between low and high. */
typedef struct {
  size_t group;
  double value; /* the first of them */
  uint64_t count, sample;
  double low, high;
  bool several;  /* values, of which this is the first */
  bool left_out; /* of mean and standard deviation */
  bool squashes; /* all others to nearly one value */
  bool told;     /* in the line of another one */
} outlier;

/* Those whose presence squashes the others, whatever they are; their first sample and its value. */
static bool find_squashing(const shoal_data_stats *t, size_t g, outlier *out)
{
  const shoal_data_bin *bins = &t->bins[g * SHOAL_DATA_BINS];
  const mass m = find_mass(t, g, 0);
  if (!m.outside) return false;
  *out = (outlier){ .group = g, .count = m.outside, .sample = UINT64_MAX, .squashes = true };
  out->several = t->extremes[g].count != m.outside && t->extremes[t->groups + g].count != m.outside;
  out->low = bins[m.first].low;
  out->high = bins[m.last].high;
  out->left_out = find_mass(t, g, left_out_from).outside == m.outside;
  for (size_t k = 0; k < SHOAL_DATA_BINS; k++) {
    if (!bins[k].count || (k >= m.first && k <= m.last) || bins[k].sample >= out->sample) continue;
    out->sample = bins[k].sample;
    out->value = bins[k].first;
  }
  return true;
}

enum { FEW = 10 }; /* numbers, among which one may lie anywhere */

static bool find_apart(const shoal_data_stats *t, size_t g, int end, outlier *out)
{
  const shoal_data_extreme *e = &t->extremes[(size_t)end * t->groups + g];
  const double other_end = t->extremes[(size_t)!end * t->groups + g].value;
  if (t->samples * t->plane < FEW || !is_apart(e, other_end)) return false;
  *out = (outlier){ .group = g, .value = e->value, .count = e->count, .sample = e->sample };
  out->low = fmin(e->next, other_end);
  out->high = fmax(e->next, other_end);
  const mass kept = find_mass(t, g, left_out_from);
  const moments m = sum_bins(&t->bins[g * SHOAL_DATA_BINS], &kept);
  out->squashes = out->high > out->low && (out->high - out->low) * SQUASHED < deviation(&m);
  return true;
}

/* What belongs in the line of an outlier: groups that the same sample has alike, and others whose numbers are as large. */
typedef struct {
  size_t with_it, as_large;
} alike;

static void warn_of_outlier(const shoal_data_stats *t, const outlier *o, alike more, const char *path,
                            const char *array, const char *part)
{
  char one[64] = "", others[128] = "", what[64], where[96];
  if (t->groups > 1) snprintf(one, sizeof one, ", %s %zu", part, o->group);
  size_t n = 0;
  if (more.with_it)
    n = (size_t)snprintf(others, sizeof others, ", and so in %zu more %s%s of it", more.with_it, part,
                         more.with_it > 1 ? "s" : "");
  if (more.as_large)
    snprintf(others + n, sizeof others - n, "; %zu more %s%s number%s as large", more.as_large, part,
             more.as_large > 1 ? "s have" : " has", more.as_large > 1 ? "s" : "");
  if (o->several) {
    snprintf(what, sizeof what, "are far from all others, which");
    snprintf(where, sizeof where, "the first is %.6g in sample %" PRIu64, o->value, o->sample);
  } else {
    snprintf(what, sizeof what, "%s %.6g, all others", o->count > 1 ? "are" : "is", o->value);
    snprintf(where, sizeof where, "%sin sample %" PRIu64, o->count > 1 ? "the first is " : "", o->sample);
  }
  shoal_warn("%s: %s%s: %" PRIu64 " of %" PRIu64
             " numbers %s are between %.6g and %.6g: %s%s; correct it, or if it marks "
             "missing values, fill these or remove the samples%s",
             path, array, one, o->count, t->samples * t->plane, what, o->low, o->high, where, others,
             o->left_out   ? "; mean and standard deviation are measured without it"
             : o->squashes ? "; with it, all others are normalised to nearly one value"
                           : "");
}

static bool is_with(const outlier *a, const outlier *b)
{
  return a->sample == b->sample && a->count == b->count;
}

static bool is_as_large(const outlier *a, const outlier *b)
{
  return fabs(a->value) == fabs(b->value);
}

/* One line for all that the same sample has alike, or that are as large: those of a file often have one cause. */
static void warn_of_outliers(const shoal_data_stats *t, outlier *all, size_t n, const char *path, const char *array,
                             const char *part)
{
  enum { SHOWN = 5 };
  size_t shown = 0, told = 0;
  for (size_t i = 0; i < n && shown < SHOWN; i++) {
    alike more = { 0 };
    if (all[i].told) continue;
    told++;
    for (size_t k = i + 1; k < n; k++) {
      const bool with = is_with(&all[k], &all[i]);
      if (all[k].told || (!with && !is_as_large(&all[k], &all[i]))) continue;
      all[k].told = true;
      told++;
      if (all[k].group != all[i].group) ++*(with ? &more.with_it : &more.as_large);
    }
    warn_of_outlier(t, &all[i], more, path, array, part);
    shown++;
  }
  if (n > told) shoal_warn("%s: %s: the same holds for %zu more", path, array, n - told);
}

size_t shoal_data_stats_warn(const shoal_data_stats *t, const char *path, const char *array, const char *part)
{
  outlier *all;
  size_t n = 0;
  if (t->x_bytes == 1 || SHOAL_ALLOC(2 * t->groups, &all) != SHOAL_OK) return 0;
  for (size_t g = 0; g < t->groups; g++) {
    if (find_squashing(t, g, &all[n])) {
      n++;
      continue;
    }
    for (int end = 0; end < 2; end++) n += find_apart(t, g, end, &all[n]);
  }
  warn_of_outliers(t, all, n, path, array, part);
  free(all);
  return n;
}
