/* `shoal data repack`: the same samples in our layout: our names, chunks of a few samples without filters, u8 or f32,
 * i32 labels or f64 targets, exact mean and std, checksum.  Use it for files whose chunk layout makes shuffled reads slow.  The copy
 * keeps the identity of the original, so that a run which began with that goes on with the copy.  Several files become one. */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include <inttypes.h>
#include <stdlib.h>

enum { BLOCK_BYTES = 8 << 20 };

static shoal_status copy_split(shoal_dataset *d, shoal_split split, shoal_data_writer *w, uint64_t step, void *x,
                               int32_t *y)
{
  const bool plain = d->info.kind != SHOAL_DATA_TEXT && !d->names.targets; /* one class per sample */
  for (uint64_t at = 0; at < d->info.n[split]; at += step) {
    uint64_t n = SHOAL_MIN(step, d->info.n[split] - at);
    SHOAL_TRY(shoal_dataset_rows(d, split, at, n, x, plain ? y : NULL));
    for (uint64_t i = 0; d->names.targets && i < n; i++)
      SHOAL_TRY(
          shoal_data_writer_add(w, split, 1, (char *)x + i * d->sample_bytes, shoal_dataset_target(d, split, at + i)));
    if (!d->names.targets) SHOAL_TRY(shoal_data_writer_add(w, split, n, x, plain ? y : NULL));
  }
  shoal_texts files = { 0 };
  shoal_status st = shoal_dataset_sources(d, split, &files);
  for (size_t i = 0; i < files.n && st == SHOAL_OK; i++) shoal_data_writer_name(w, split, files.at[i]);
  shoal_texts_free(&files);
  return st;
}

shoal_status shoal_data_repack(const char *const *paths, size_t n, const char *out_path)
{
  shoal_dataset *d;
  shoal_data_writer *w = NULL;
  void *x = NULL;
  int32_t *y = NULL;
  SHOAL_TRY(shoal_dataset_open_all(paths, n, &d));
  char *source = d->info.source[0]
                     ? shoal_strdup_printf("%s", d->info.source)
                     : shoal_strdup_printf("repack: %s", d->n_members ? d->path : shoal_path_base(d->path));
  bool renamed = !d->has_checksum || d->info.checksum != d->checksum; /* runs know it by another number */
  shoal_data_spec spec = {
    d->info.kind,     d->info.sample, d->info.x_bytes,  source,       renamed ? &d->info.checksum : NULL,
    d->feature_names, d->targets.n,   d->targets.names, d->vocabulary
  };
  uint64_t step = SHOAL_MAX(BLOCK_BYTES / d->sample_bytes, 1);
  shoal_status st;
  SHOAL_TRY_GOTO(st, shoal_data_expect(out_path, &spec, d->info.n[SHOAL_TRAIN] + d->info.n[SHOAL_TEST]), done);
  SHOAL_TRY_GOTO(st, shoal_dataset_check_labels(d), done);
  shoal_dataset_warn_of_targets(d);
  SHOAL_TRY_GOTO(st, shoal_alloc(step, d->sample_bytes, "samples to copy", &x), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(step, &y), done);
  SHOAL_TRY_GOTO(st, shoal_data_writer_create(out_path, &spec, &w), done);
  SHOAL_TRY_GOTO(st, copy_split(d, SHOAL_TRAIN, w, step, x, y), done);
  SHOAL_TRY_GOTO(st, copy_split(d, SHOAL_TEST, w, step, x, y), done);
  st = shoal_data_writer_commit(w, d->info.classes, d->class_names);
done:
  shoal_data_writer_destroy(w);
  free(x);
  free(y);
  free(source);
  shoal_dataset_close(d);
  return st;
}
