/* CIFAR in its binary format, plain or gzip: records without a header,
 *
 *     CIFAR-10    label u8 | red 32x32 | green 32x32 | blue 32x32         3073 bytes
 *     CIFAR-100   coarse u8, fine u8 | the same planes                    3074 bytes, the fine label is used
 *
 * We store the same planes, so pixels are copied.  The format has no magic number: a wrong file is detected by its
 * length or by invalid labels, and both messages name the record and the byte. */
#include "base/log.h"
#include "base/mem.h"
#include "data/data_impl.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 3 * 32 * 32, BLOCK = 64 };

typedef struct {
  size_t labels; /* label bytes per record */
  int classes;
  const char *name;
} layout;

/* A file of the other kind is known by its size, which is a multiple of its records and not of ours. */
static shoal_status refuse_other(const layout *l, const char *path, const shoal_source *s)
{
  const uint64_t size = shoal_source_stored(s), own = l->labels + PIXELS, other = 3 - l->labels + PIXELS;
  SHOAL_CHECK(shoal_source_is_packed(s) || size == 0 || size % own == 0 || size % other != 0, SHOAL_ERR_IO,
              "%s is a file of CIFAR-%s: its %" PRIu64 " bytes are %" PRIu64 " records of %" PRIu64 "; import it as %s",
              path, l->labels == 1 ? "100" : "10", size, size / other, other, l->labels == 1 ? "cifar100" : "cifar10");
  return SHOAL_OK;
}

static shoal_status check_label(const layout *l, const char *path, const shoal_source *s, uint64_t record,
                                uint8_t label)
{
  SHOAL_CHECK(label < l->classes, SHOAL_ERR_IO,
              "%s: record %" PRIu64 " at %s %" PRIu64 " has label %u, %s has 0 to %d; is this its binary version?",
              path, record, shoal_source_unit(s), record * (l->labels + PIXELS) + l->labels - 1, label, l->name,
              l->classes - 1);
  return SHOAL_OK;
}

/* Imports one file; `index` counts samples over all files. */
static shoal_status import_records(const shoal_import_args *a, const layout *l, const char *path, bool test,
                                   shoal_source *s, shoal_data_writer *w, uint64_t *index)
{
  size_t record = l->labels + PIXELS, got;
  uint8_t block[BLOCK * (2 + PIXELS)];
  uint64_t done = 0;
  do {
    SHOAL_TRY(shoal_source_read(s, block, BLOCK * record, &got));
    for (size_t i = 0; i < got / record; i++, done++, ++*index) {
      uint8_t label = block[i * record + l->labels - 1];
      SHOAL_TRY(check_label(l, path, s, done, label));
      SHOAL_TRY(shoal_data_writer_add(w, shoal_import_nth(a, *index, test), 1, block + i * record + l->labels,
                                      &(int32_t){ label }));
    }
    SHOAL_CHECK(got % record == 0, SHOAL_ERR_IO,
                "%s is cut short or not a %s file: record %" PRIu64 " begins at %s %" PRIu64
                " and has %zu of %zu bytes; fetch the file again",
                path, l->name, done, shoal_source_unit(s), done * record, got % record, record);
  } while (got == BLOCK * record);
  SHOAL_CHECK(done > 0, SHOAL_ERR_IO, "%s is empty", path);
  return SHOAL_OK;
}

static shoal_status import_files(const shoal_import_args *a, const layout *l, const shoal_import_roles *roles,
                                 shoal_data_writer *w)
{
  uint64_t index = 0, unused;
  for (size_t i = 0; i < a->n_sources; i++) {
    shoal_source *s;
    SHOAL_TRY(shoal_source_open(a->sources[i], &s));
    shoal_status st = refuse_other(l, a->sources[i], s);
    if (st == SHOAL_OK) st = import_records(a, l, a->sources[i], roles->test[i], s, w, &index);
    shoal_source_close(s);
    SHOAL_TRY(st);
  }
  SHOAL_TRY(shoal_import_cut(a, index, "images", &unused));
  if (shoal_data_writer_count(w, SHOAL_TEST) == 0)
    shoal_warn("no test split: no file has the word test in its name and no training count cuts one off");
  return SHOAL_OK;
}

shoal_status shoal_import_cifar(const shoal_import_args *a, const char *out_path)
{
  static const layout cifar10 = { 1, 10, "CIFAR-10" }, cifar100 = { 2, 100, "CIFAR-100" };
  const layout *l = strcmp(a->kind, "cifar10") == 0 ? &cifar10 : &cifar100;
  char source[256];
  shoal_import_source_text(a, source, sizeof source);
  shoal_data_spec spec = { SHOAL_DATA_IMAGES, SHOAL_SHAPE(3, 32, 32), 1, source };
  shoal_data_writer *w = NULL;
  shoal_import_roles roles = { 0 };
  uint64_t bytes;
  shoal_status st;
  SHOAL_TRY_GOTO(st, shoal_import_find_roles(a, &roles), done);
  SHOAL_TRY_GOTO(st, shoal_import_plain_bytes(a, &bytes), done);
  SHOAL_TRY_GOTO(st, shoal_data_expect(out_path, &spec, bytes / (l->labels + PIXELS)), done);
  SHOAL_TRY_GOTO(st, shoal_data_writer_create(out_path, &spec, &w), done);
  SHOAL_TRY_GOTO(st, import_files(a, l, &roles, w), done);
  st = shoal_data_writer_commit(w, l->classes, NULL);
done:
  shoal_data_writer_destroy(w);
  shoal_import_roles_fini(&roles);
  return st;
}
