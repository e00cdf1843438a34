/* `shoal data import`: the kinds, and their common part: recognising test files, and splitting into training and
 * test. */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = { "cifar10", "cifar100", "idx", "csv", "text" };
static shoal_status (*const importers[])(const shoal_import_args *,
                                         const char *) = { shoal_import_cifar, shoal_import_cifar, shoal_import_idx,
                                                           shoal_import_csv, shoal_import_text };

size_t shoal_data_import_kinds(const char *const **out)
{
  *out = kinds;
  return SHOAL_COUNT(kinds);
}

bool shoal_import_is_test(const char *path)
{
  char *name = shoal_strdup_printf("%s", shoal_path_base(path));
  for (char *c = name; *c; c++) *c = (char)tolower((unsigned char)*c);
  bool test = strstr(name, "test") || strstr(name, "t10k");
  free(name);
  return test;
}

shoal_split shoal_import_split(const shoal_import_args *a, uint64_t index, shoal_split otherwise)
{
  if (!a->train_count) return otherwise;
  return index < a->train_count ? SHOAL_TRAIN : SHOAL_TEST;
}

shoal_status shoal_import_cut(const shoal_import_args *a, uint64_t n, const char *what, uint64_t *train_out)
{
  double share = a->test_share > 0 ? a->test_share : 0.1;
  SHOAL_CHECK(a->train_count <= n, SHOAL_ERR_ARG,
              "%" PRIu64 " %s are there, the training split cannot have %" PRIu64 "; lower the training count", n, what,
              a->train_count);
  *train_out = a->train_count ? a->train_count : n - (uint64_t)((double)n * share);
  return SHOAL_OK;
}

void shoal_import_source_text(const shoal_import_args *a, char *buf, size_t cap)
{
  size_t at = (size_t)snprintf(buf, cap, "%s:", a->kind);
  for (size_t i = 0; i < a->n_sources && at < cap; i++)
    at += (size_t)snprintf(buf + at, cap - at, "%s %s", i ? "," : "", shoal_path_base(a->sources[i]));
}

shoal_status shoal_data_import(const shoal_import_args *a, const char *out_path)
{
  for (size_t k = 0; k < SHOAL_COUNT(kinds); k++) {
    if (strcmp(a->kind, kinds[k]) != 0) continue;
    SHOAL_CHECK(a->n_sources > 0, SHOAL_ERR_ARG, "nothing to import: name the files of the %s data set", a->kind);
    SHOAL_CHECK(a->test_share >= 0 && a->test_share < 1, SHOAL_ERR_ARG, "the test share is %g, it must be in [0, 1)",
                a->test_share);
    return importers[k](a, out_path);
  }
  const char *near = shoal_nearest(a->kind, kinds, SHOAL_COUNT(kinds));
  return SHOAL_FAIL(SHOAL_ERR_ARG,
                    "there is no import of kind \"%s\"%s%s%s; the kinds are cifar10, cifar100, idx, csv "
                    "and text",
                    a->kind, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}
