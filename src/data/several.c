/* Several files as one data set.
 *
 *     a.h5  train 0..99   test 0..9        sample 120 of the whole is sample 20 of b.h5, whose messages say so
 *     b.h5  train 0..49                    mean and std: of all training samples, from those of the files
 *     t.h5               test 0..19        identity: of the files' identities, in order
 *
 * The order is that of the list; what a pattern matches is sorted by name, byte by byte.  Each file is opened, judged and
 * verified as if it were alone.  A file without words for training and test in the names of its arrays is a test file if
 * its own name says so; otherwise it is for training. */
#include "base/crc32c.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include <glob.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 8 }; /* files by name in a message */

/* ---- which files ---- */

static shoal_status add_path(shoal_texts *l, const char *path)
{
  SHOAL_CHECK(!shoal_texts_have(l, path), SHOAL_ERR_USAGE, "%s is given twice: its samples would count twice", path);
  return shoal_texts_add(l, path);
}

static int by_bytes(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A file that exists under the name as it is written is no pattern. */
static shoal_status add_matches(shoal_texts *l, const char *pattern)
{
  glob_t found;
  char host[SHOAL_HOST_NAME];
  if (shoal_path_exists(pattern) || !strpbrk(pattern, "*?[")) return add_path(l, pattern);
  int failed = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found);
  if (failed)
    return SHOAL_FAIL(SHOAL_ERR_IO, "%s: %s (host %s)", pattern,
                      failed == GLOB_NOMATCH ? "no file matches" : "its folder cannot be read", shoal_host_name(host));
  qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
  if (strchr(pattern, '['))
    shoal_info("there is no file %s: it is read as a pattern, which %zu file%s fit%s, %s%s", pattern, found.gl_pathc,
               found.gl_pathc > 1 ? "s" : "", found.gl_pathc > 1 ? "" : "s", found.gl_pathv[0],
               found.gl_pathc > 1 ? " first" : "");
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; st == SHOAL_OK && i < found.gl_pathc; i++) st = add_path(l, found.gl_pathv[i]);
  globfree(&found);
  return st;
}

/* ---- one file among several ---- */

static bool is_test_file(const char *path)
{
  static const char *const tests[] = { "test", "testing", "val", "valid", "validation" };
  char word[SHOAL_DATA_WORD];
  for (const char *c = shoal_path_base(path); (c = shoal_data_next_word(c, word)) != NULL;)
    for (size_t i = 0; i < SHOAL_COUNT(tests); i++)
      if (strcmp(word, tests[i]) == 0) return true;
  return false;
}

/* What was opened as the training split is for tests.  Labels are read anew, because their count knows the split. */
static void make_test_file(shoal_dataset *d)
{
  shoal_data_part part = d->part[0];
  shoal_data_names *m = &d->names;
  d->part[0] = d->part[1];
  d->part[1] = part;
  d->info.n[SHOAL_TEST] = d->info.n[SHOAL_TRAIN];
  d->info.n[SHOAL_TRAIN] = 0;
  memcpy(m->x[1], m->x[0], sizeof m->x[1]);
  memcpy(m->y[1], m->y[0], sizeof m->y[1]);
  m->x[0][0] = m->y[0][0] = '\0';
  shoal_dataset_forget_labels(d);
  shoal_info("%s: /%s is for tests", d->path, m->x[1]);
}

static bool same_names(const shoal_data_names *a, const shoal_data_names *b)
{
  for (int s = 0; s < 2; s++)
    if (strcmp(a->x[s], b->x[s]) != 0 || strcmp(a->y[s], b->y[s]) != 0) return false;
  return true;
}

static shoal_status open_member(const char *path, size_t n, shoal_dataset **out)
{
  shoal_dataset *d;
  SHOAL_TRY(shoal_dataset_open_member(path, n, &d));
  if (!d->empty && d->info.n[SHOAL_TEST] == 0 && (d->names.tests_only || (d->names.plain && is_test_file(path))))
    make_test_file(d);
  *out = d;
  return SHOAL_OK;
}

/* ---- all together ---- */

/* Adds the names from `first` on, as "ant", "bee" and 3 more. */
static void list_classes(const shoal_texts *names, size_t first, shoal_str *out)
{
  const size_t end = SHOAL_MIN(names->n, first + SHOWN);
  char shown[160];
  for (size_t k = first; k < end; k++)
    shoal_str_add(out, "%s\"%.64s\"", k > first ? ", " : "", shoal_show(names->at[k], shown, sizeof shown));
  if (names->n > end) shoal_str_add(out, " and %zu more", names->n - end);
}

/* Finds the classes of a file among `all`, to which those are added that are new. */
static shoal_status find_classes(shoal_dataset *m, shoal_texts *all)
{
  shoal_texts own = { 0 };
  const size_t before = all->n;
  size_t common = 0, twice = 0;
  shoal_status st = shoal_texts_add_lines(&own, m->class_names);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(own.n, &m->class_of);
  for (size_t k = 0; k < own.n && st == SHOAL_OK; k++) {
    size_t c = k < all->n && strcmp(all->at[k], own.at[k]) == 0 ? k : 0;
    while (c < all->n && strcmp(all->at[c], own.at[k]) != 0) c++;
    if (c == all->n) st = shoal_texts_add(all, own.at[k]);
    common += c < before;
    m->class_of[k] = (int32_t)c;
    for (twice = 0; twice < k && m->class_of[twice] != (int32_t)c; twice++) {}
    if (twice < k)
      st = SHOAL_FAIL(SHOAL_ERR_IO,
                      "%s has two classes \"%s\", %zu and %zu: with other files classes are matched by name, so give "
                      "them names of their own in class_names",
                      m->path, own.at[k], twice, k);
  }
  m->n_class_of = own.n;
  if (st == SHOAL_OK && before && !common) {
    shoal_str there = { 0 };
    list_classes(all, before, &there);
    shoal_warn("%s has no class that the files before it have, but %s: if the same are meant, give them the same names",
               m->path, there.text);
    shoal_str_free(&there);
  }
  shoal_texts_free(&own);
  return st;
}

/* Files that number their classes differently are matched by the names: those of the first file, then what others add. */
static shoal_status match_classes(shoal_dataset *d)
{
  shoal_texts all = { 0 };
  shoal_str names = { 0 }, shown = { 0 };
  const shoal_dataset *first = d->member[0];
  size_t other = 0;
  if (!first->class_names) return SHOAL_OK;
  while (other < d->n_members && strcmp(d->member[other]->class_names, first->class_names) == 0) other++;
  if (other == d->n_members) {
    d->class_names = shoal_strdup_printf("%s", first->class_names);
    return SHOAL_OK;
  }
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; i < d->n_members && st == SHOAL_OK; i++) st = find_classes(d->member[i], &all);
  for (size_t k = 0; k < all.n; k++) shoal_str_add(&names, "%s%s", k ? "\n" : "", all.at[k]);
  SHOAL_CHECK_GOTO(
      st, st != SHOAL_OK || names.len < SHOAL_DATA_NAMES, done, SHOAL_ERR_UNSUPPORTED,
      "%s: the names of their %zu classes together take %zu bytes, at most %d are supported; %s numbers its "
      "classes differently than %s: write them alike",
      d->path, all.n, names.len, SHOAL_DATA_NAMES - 1, d->member[other]->path, first->path);
  if (st != SHOAL_OK) goto done;
  d->class_names = shoal_strdup_printf("%s", names.text);
  d->info.classes = (int64_t)all.n;
  list_classes(&all, 0, &shown);
  shoal_info("%s numbers its classes differently than %s, so classes are matched by name: %zu in all, %s",
             d->member[other]->path, first->path, all.n, shown.text);
done:
  shoal_texts_free(&all);
  shoal_str_free(&names);
  shoal_str_free(&shown);
  return st;
}

/* One file names its classes, the other numbers them. */
static shoal_status refuse_unnamed(const shoal_dataset *named, const shoal_dataset *other)
{
  shoal_texts names = { 0 };
  shoal_str s = { 0 };
  SHOAL_TRY(shoal_texts_add_lines(&names, named->class_names));
  list_classes(&names, 0, &s);
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO,
                               "%s and %s cannot be one data set: the first names its classes (attribute class_names: "
                               "%s), the other has none of "
                               "these, for labels 0 to %" PRId64
                               "; write class_names, one per line, to it, or remove them from the first",
                               named->path, other->path, s.text, other->info.classes - 1);
  shoal_str_free(&s);
  shoal_texts_free(&names);
  return st;
}

static shoal_status check_alike(const shoal_dataset *a, const shoal_dataset *b)
{
  char one[96], other[96];
  const shoal_data_info *x = &a->info, *y = &b->info;
  SHOAL_CHECK(!b->names.text, SHOAL_ERR_UNSUPPORTED, "%s holds text; several files of text are no data set yet",
              b->path);
  SHOAL_CHECK(x->kind == y->kind && x->x_bytes == y->x_bytes && shoal_shape_equal(&x->sample, &y->sample), SHOAL_ERR_IO,
              "%s and %s cannot be one data set: samples are %s %s of %d bytes and %s %s of %d; give files "
              "of one shape and type, or train on each in a run of its own",
              a->path, b->path, shoal_data_kind_name(x->kind), shoal_data_shape_text(&x->sample, one, sizeof one),
              x->x_bytes, shoal_data_kind_name(y->kind), shoal_data_shape_text(&y->sample, other, sizeof other),
              y->x_bytes);
  if (!a->class_names != !b->class_names) return refuse_unnamed(a->class_names ? a : b, a->class_names ? b : a);
  SHOAL_TRY(shoal_features_compare(b->path, b->feature_names, a->path, a->feature_names));
  char word[SHOAL_WORD];
  const shoal_dataset *fewer = a->scales < b->scales ? a : b;
  SHOAL_CHECK(a->scales == b->scales, SHOAL_ERR_IO,
              "%s and %s have %zu and %zu means: give NEW.h5 in place of %s, after shoal data repack %s -o NEW.h5",
              a->path, b->path, a->scales, b->scales, fewer->path, shoal_shell_word(fewer->path, word));
  return SHOAL_OK;
}

/* Of all training samples, or of those for tests if there are no others: means add up by samples, and so do mean squares. */
static shoal_status pool_scale(shoal_dataset *d)
{
  const shoal_split split = d->info.n[SHOAL_TRAIN] ? SHOAL_TRAIN : SHOAL_TEST;
  d->scales = d->member[0]->scales;
  SHOAL_TRY(SHOAL_ALLOC(2 * d->scales, &d->mean));
  d->std = d->mean + d->scales;
  for (size_t g = 0; g < d->scales; g++) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < d->n_members; i++) {
      const shoal_dataset *m = d->member[i];
      double share = (double)m->info.n[split] / (double)d->info.n[split];
      mean += share * m->mean[g];
      square += share * (m->std[g] * m->std[g] + m->mean[g] * m->mean[g]);
    }
    d->mean[g] = mean;
    d->std[g] = square > mean * mean ? sqrt(square - mean * mean) : 1;
  }
  return SHOAL_OK;
}

static shoal_status combine(shoal_dataset *d, bool trains)
{
  const shoal_dataset *first = d->member[0];
  bool stated = true;
  uint32_t crc = 0;
  d->info = first->info;
  d->info.n[0] = d->info.n[1] = 0;
  d->names = first->names;
  d->x_type = first->x_type;
  d->elements = first->elements;
  d->sample_bytes = first->sample_bytes;
  if (first->feature_names) d->feature_names = shoal_strdup_printf("%s", first->feature_names);
  for (size_t i = 0; i < d->n_members; i++) {
    const shoal_dataset *m = d->member[i];
    SHOAL_TRY(check_alike(first, m));
    for (int s = 0; s < 2; s++) d->info.n[s] += m->info.n[s];
    d->info.classes = SHOAL_MAX(d->info.classes, m->info.classes);
    stated = stated && m->has_classes;
    crc = shoal_crc32c(crc, &m->info.checksum, sizeof m->info.checksum);
  }
  SHOAL_TRY(match_classes(d));
  SHOAL_TRY(shoal_targets_join(d));
  d->info.checksum = crc;
  d->has_classes = stated || first->class_of;
  SHOAL_CHECK(
      !trains || d->info.n[SHOAL_TRAIN] > 0, SHOAL_ERR_IO,
      "%s: all %zu files are for tests, by their names or those of their arrays, none for training: add one with "
      "/train/x and /train/y",
      d->path, d->n_members);
  for (size_t i = 0; i < d->n_members; i++) {
    shoal_dataset *m = d->member[i];
    m->info.classes = m->class_of ? (int64_t)m->n_class_of : d->info.classes;
    m->labels.stated = m->info.classes;
    m->has_classes = true;
  }
  return pool_scale(d);
}

/* Told, and left out: writers of parts leave some that got nothing. */
static shoal_status leave_out_empty(const shoal_texts *l, shoal_dataset *d)
{
  shoal_str empty = { 0 };
  size_t n = 0, kept = 0;
  for (size_t i = 0; i < d->n_members; i++) {
    if (!d->member[i]->empty) {
      d->member[kept++] = d->member[i];
      continue;
    }
    if (n++ < SHOWN) shoal_str_add(&empty, "%s%s", n > 1 ? ", " : "", d->member[i]->path);
    shoal_dataset_close(d->member[i]);
  }
  d->n_members = kept;
  if (n > SHOWN) shoal_str_add(&empty, " and %zu more", n - SHOWN);
  if (n && kept)
    shoal_warn("%s: no samples in %s of the %zu files, which %s left out", empty.text, n > 1 ? "these" : "this", l->n,
               n > 1 ? "are" : "is");
  shoal_status st = kept ? SHOAL_OK
                         : SHOAL_FAIL(SHOAL_ERR_IO, "%s: no samples in any of the %zu files: give files that have some",
                                      empty.text, l->n);
  shoal_str_free(&empty);
  return st;
}

static shoal_status open_several(const shoal_texts *l, bool trains, shoal_dataset *d)
{
  SHOAL_TRY(SHOAL_ALLOC(l->n, &d->member));
  for (; d->n_members < l->n; d->n_members++) {
    shoal_dataset **m = &d->member[d->n_members];
    SHOAL_TRY(open_member(l->at[d->n_members], l->n, m));
    if (d->n_members == 0 || !same_names(&m[0]->names, &m[-1]->names)) shoal_data_tell_match(m[0]->path, &m[0]->names);
  }
  SHOAL_TRY(leave_out_empty(l, d));
  SHOAL_TRY(combine(d, trains));
  uint64_t n = 0, looked = 0;
  for (size_t i = 0; i < d->n_members; i++) {
    if (!d->member[i]->measured) continue;
    n += d->member[i]->info.n[SHOAL_TRAIN];
    looked += d->member[i]->info.n[SHOAL_TRAIN] ? d->member[i]->measured : 0;
  }
  shoal_data_tell_measured(d->path, n, looked);
  shoal_dataset_fill_scale(d);
  shoal_dataset_hold(d, d->hold_bytes);
  shoal_info("%zu files are one data set, in this order: %s", d->n_members, d->path);
  return SHOAL_OK;
}

shoal_status shoal_dataset_match(const char *const *patterns, size_t n, shoal_texts *out)
{
  for (size_t i = 0; i < n; i++) SHOAL_TRY(add_matches(out, patterns[i]));
  return SHOAL_OK;
}

static shoal_status open_one(const char *path, bool trains, shoal_dataset **out)
{
  if (trains) return shoal_dataset_open(path, out);
  SHOAL_TRY(open_member(path, 1, out));
  if (!(*out)->empty) shoal_data_tell_match(path, &(*out)->names);
  if (!(*out)->empty) return SHOAL_OK;
  shoal_dataset_close(*out);
  *out = NULL;
  return SHOAL_FAIL(SHOAL_ERR_USAGE, "%s has no samples: there is nothing to predict", path);
}

/* reader: NULL to train. */
static shoal_status open_all(const char *const *patterns, size_t n, const shoal_data_reader *reader,
                             shoal_dataset **out)
{
  const bool trains = !reader;
  shoal_texts l = { 0 };
  shoal_dataset *d = NULL;
  shoal_status st = shoal_dataset_match(patterns, n, &l);
  for (size_t i = 0; reader && st == SHOAL_OK && i < l.n; i++) st = shoal_data_refuse_source(l.at[i], reader);
  if (st != SHOAL_OK) goto done;
  if (l.n == 1) {
    st = open_one(l.at[0], trains, out);
    goto done;
  }
  shoal_str path = { 0 };
  for (size_t i = 0; i < l.n && i < SHOWN; i++) shoal_str_add(&path, "%s%s", i ? ", " : "", l.at[i]);
  if (l.n > SHOWN) shoal_str_add(&path, " and %zu more", l.n - SHOWN);
  st = shoal_dataset_create(path.text, &d);
  shoal_str_free(&path);
  if (st == SHOAL_OK) st = open_several(&l, trains, d);
  if (st == SHOAL_OK)
    *out = d;
  else
    shoal_dataset_close(d);
done:
  shoal_texts_free(&l);
  return st;
}

shoal_status shoal_dataset_open_all(const char *const *patterns, size_t n, shoal_dataset **out)
{
  return open_all(patterns, n, NULL, out);
}

shoal_status shoal_dataset_open_to_predict(const char *const *patterns, size_t n, const shoal_data_reader *reader,
                                           shoal_dataset **out)
{
  return open_all(patterns, n, reader, out);
}

size_t shoal_dataset_files(const shoal_dataset *d)
{
  return SHOAL_MAX(d->n_members, (size_t)1);
}

shoal_dataset *shoal_dataset_file(shoal_dataset *d, size_t i)
{
  return d->n_members ? d->member[i] : d;
}

shoal_dataset *shoal_dataset_file_of(shoal_dataset *d, shoal_split split, uint64_t *id)
{
  size_t i = 0;
  if (d->n_members == 0) return d;
  for (; i + 1 < d->n_members && *id >= d->member[i]->info.n[split]; i++) *id -= d->member[i]->info.n[split];
  return d->member[i];
}

/* Caches are for all files together, or for none. */
void shoal_dataset_hold(shoal_dataset *d, uint64_t bytes)
{
  d->hold_bytes = bytes;
  uint64_t most = SHOAL_MAX(d->info.n[0], d->info.n[1]);
  bool fits = most <= bytes / SHOAL_MAX(d->sample_bytes, 1);
  for (size_t i = 0; i < d->n_members; i++) d->member[i]->hold_bytes = fits ? UINT64_MAX : 0;
}
