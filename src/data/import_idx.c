/* IDX, the format of MNIST and similar sets: a big-endian header, then the data.
 *
 *     00 00 type ndim | ndim sizes, u32 big-endian | data       type 08 is u8
 *
 * Images and labels are separate files.  They are distinguished by ndim and paired in the given order within a split,
 * so `train-images train-labels t10k-images t10k-labels` works in any order.  The files of a pair are read together,
 * block by block. */
#include "base/error.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256, BLOCK_BYTES = 4 << 20, MAX_SIDE = 4096 };

typedef struct {
  const char *path;
  shoal_source *source;
  int ndim;
  uint32_t dim[4];
  shoal_split split;
  bool used;
} idx_file;

static uint32_t big_endian(const uint8_t *b)
{
  return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static shoal_status cut_short(const idx_file *f, uint64_t at, uint64_t item)
{
  return SHOAL_FAIL(SHOAL_ERR_IO,
                    "%s is cut short at %s %" PRIu64 ": item %" PRIu64 " of %u is incomplete; fetch the file "
                    "again",
                    f->path, shoal_source_unit(f->source), at, item, f->dim[0]);
}

/* What a packed file holds is known when it was unpacked: done where its header says more than data packs into, to tell a wrong
 * header from a file that fills disks.  That ends early for the latter. */
static shoal_status check_packed(const idx_file *f, uint64_t header, uint64_t item)
{
  enum { STEP = 1 << 16 };
  shoal_source *all = NULL;
  uint8_t *block = NULL;
  size_t got = STEP;
  shoal_error claim;
  shoal_status st = shoal_source_check(f->source, f->dim[0] * item);
  if (st == SHOAL_OK) return st;
  shoal_error_take(&claim);
  SHOAL_TRY(shoal_alloc(STEP, 1, "unpacked bytes", (void **)&block));
  st = shoal_source_open(f->path, &all);
  while (st == SHOAL_OK && got == STEP) st = shoal_source_read(all, block, STEP, &got);
  const uint64_t held = st == SHOAL_OK ? shoal_source_offset(all) : 0;
  shoal_source_close(all);
  free(block);
  SHOAL_TRY(st);
  if ((held - header) / item < f->dim[0]) return cut_short(f, held, (held - header) / item);
  return shoal_error_put(&claim);
}

static shoal_status read_header(idx_file *f)
{
  uint8_t magic[4], sizes[16];
  size_t got;
  SHOAL_TRY(shoal_source_read(f->source, magic, 4, &got));
  SHOAL_CHECK(got > 0, SHOAL_ERR_IO, "%s is empty", f->path);
  SHOAL_CHECK(got == 4 && magic[0] == 0 && magic[1] == 0, SHOAL_ERR_IO,
              "%s is not an IDX file: it begins with %02x %02x %02x %02x, expected 00 00 08 01 (labels) or 00 00 08 03 "
              "(images)%s",
              f->path, magic[0], got > 1 ? magic[1] : 0, got > 2 ? magic[2] : 0, got > 3 ? magic[3] : 0,
              got == 4 && magic[2] == 0 && magic[3] == 0 && magic[1] == 8
                  ? ": its numbers have their lowest byte first, IDX has the highest first"
                  : "; get the file again");
  SHOAL_CHECK(magic[2] == 8, SHOAL_ERR_IO,
              "%s: byte 2 says element type 0x%02x, only 0x08 (u8) can be imported: write it "
              "as a NumPy array, and import that (npy)",
              f->path, magic[2]);
  f->ndim = magic[3];
  SHOAL_CHECK(f->ndim == 1 || f->ndim == 3 || f->ndim == 4, SHOAL_ERR_IO,
              "%s: byte 3 says %d dimensions; labels have 1, images 3 or 4", f->path, f->ndim);
  SHOAL_TRY(shoal_source_read(f->source, sizes, 4 * (size_t)f->ndim, &got));
  SHOAL_CHECK(got == 4 * (size_t)f->ndim, SHOAL_ERR_IO, "%s is cut short: its header ends at %s %" PRIu64, f->path,
              shoal_source_unit(f->source), shoal_source_offset(f->source));
  for (int i = 0; i < f->ndim; i++) {
    f->dim[i] = big_endian(sizes + 4 * i);
    SHOAL_CHECK(i == 0 || (f->dim[i] >= 1 && f->dim[i] <= MAX_SIDE), SHOAL_ERR_IO,
                "%s: dimension %d at byte %d is %u, expected 1 to %d; the file has %" PRIu64 " bytes", f->path, i,
                4 + 4 * i, f->dim[i], MAX_SIDE, shoal_source_stored(f->source));
  }
  SHOAL_CHECK(f->dim[0] > 0, SHOAL_ERR_IO, "%s is empty: its header says 0 items", f->path);
  uint64_t item = 1;
  for (int i = 1; i < f->ndim; i++) item *= f->dim[i];
  SHOAL_TRY(shoal_limit_held(f->path, "an image", 1, item, shoal_source_most(f->source)));
  SHOAL_CHECK(f->ndim < 4 || f->dim[1] <= SHOAL_DATA_CHANNELS, SHOAL_ERR_IO,
              "%s: %u channels, at most %d are supported", f->path, f->dim[1], SHOAL_DATA_CHANNELS);
  const uint64_t header = shoal_source_offset(f->source), most = shoal_source_most(f->source);
  if (!shoal_source_is_packed(f->source) && f->dim[0] > (most - header) / item)
    return cut_short(f, most, (most - header) / item);
  return check_packed(f, header, item);
}

static shoal_shape shape_of(const idx_file *images)
{
  const uint32_t *d = images->dim;
  return images->ndim == 3 ? SHOAL_SHAPE(1, d[1], d[2]) : SHOAL_SHAPE(d[1], d[2], d[3]);
}

static shoal_status at_end(const idx_file *f)
{
  uint8_t more;
  size_t got;
  SHOAL_TRY(shoal_source_read(f->source, &more, 1, &got));
  SHOAL_CHECK(got == 0, SHOAL_ERR_IO,
              "%s continues after its %u items, at %s %" PRIu64
              ": its header does not fit what is in it; fetch the file again",
              f->path, f->dim[0], shoal_source_unit(f->source), shoal_source_offset(f->source) - 1);
  return SHOAL_OK;
}

/* State of an import over all pairs. */
typedef struct {
  const shoal_import_args *args;
  shoal_data_writer *writer;
  uint64_t index;
  int32_t largest;
} progress;

static size_t block_rows(size_t sample_bytes)
{
  return SHOAL_MIN(SHOAL_MAX(BLOCK_BYTES / sample_bytes, (size_t)1), (size_t)BLOCK);
}

static shoal_status import_pair(progress *p, idx_file *images, idx_file *labels, uint8_t *block)
{
  shoal_shape sample = shape_of(images);
  size_t bytes = (size_t)shoal_shape_count(&sample), got;
  uint8_t y[BLOCK];
  size_t rows = block_rows(bytes);
  for (uint64_t at = 0; at < images->dim[0]; at += rows) {
    size_t n = (size_t)SHOAL_MIN(images->dim[0] - at, (uint64_t)rows);
    SHOAL_TRY(shoal_source_read(images->source, block, n * bytes, &got));
    if (got != n * bytes) return cut_short(images, shoal_source_offset(images->source), at + got / bytes);
    SHOAL_TRY(shoal_source_read(labels->source, y, n, &got));
    if (got != n) return cut_short(labels, shoal_source_offset(labels->source), at + got);
    for (size_t i = 0; i < n; i++, p->index++) {
      p->largest = SHOAL_MAX(p->largest, y[i]);
      SHOAL_TRY(shoal_data_writer_add(p->writer, shoal_import_nth(p->args, p->index, images->split == SHOAL_TEST), 1,
                                      block + i * bytes, &(int32_t){ y[i] }));
    }
  }
  SHOAL_TRY(at_end(images));
  return at_end(labels);
}

/* Finds the labels of an image file: the first unused label file of its split. */
static shoal_status find_labels(idx_file *files, size_t n, const idx_file *images, idx_file **out)
{
  for (size_t i = 0; i < n; i++) {
    if (files[i].ndim != 1 || files[i].used || files[i].split != images->split) continue;
    SHOAL_CHECK(files[i].dim[0] == images->dim[0], SHOAL_ERR_IO,
                "%s has %u images, but %s has %u labels: give the two files of "
                "one split, or fetch the shorter one again",
                images->path, images->dim[0], files[i].path, files[i].dim[0]);
    files[i].used = true;
    *out = &files[i];
    return SHOAL_OK;
  }
  return SHOAL_FAIL(SHOAL_ERR_IO, "%s has images, but no label file (%s) was given for them", images->path,
                    images->split == SHOAL_TEST ? "with t10k or test in its name, as the images" : "00 00 08 01");
}

static shoal_status import_pairs(progress *p, idx_file *files, size_t n, uint8_t *block)
{
  uint64_t unused;
  for (size_t i = 0; i < n; i++) {
    idx_file *labels = NULL;
    if (files[i].ndim == 1) continue;
    SHOAL_TRY(find_labels(files, n, &files[i], &labels));
    SHOAL_TRY(import_pair(p, &files[i], labels, block));
  }
  for (size_t i = 0; i < n; i++)
    SHOAL_CHECK(files[i].ndim != 1 || files[i].used, SHOAL_ERR_IO,
                "%s has labels, but no images were given for them: add its file of images, or leave it out",
                files[i].path);
  SHOAL_TRY(shoal_import_cut(p->args, p->index, "images", &unused));
  if (shoal_data_writer_count(p->writer, SHOAL_TEST) == 0)
    shoal_warn("no test split: no file has the word t10k or test in its name and no training count cuts one off");
  return SHOAL_OK;
}

static shoal_status open_files(const shoal_import_args *a, const shoal_import_roles *roles, idx_file *files,
                               shoal_shape *sample)
{
  const idx_file *first = NULL;
  for (size_t i = 0; i < a->n_sources; i++) {
    idx_file *f = &files[i];
    f->path = a->sources[i];
    f->split = roles->test[i] ? SHOAL_TEST : SHOAL_TRAIN;
    SHOAL_TRY(shoal_source_open(f->path, &f->source));
    SHOAL_TRY(read_header(f));
    if (f->ndim == 1) continue;
    if (!first) first = f;
    shoal_shape here = shape_of(f), there = shape_of(first);
    char a_text[64], b_text[64];
    SHOAL_CHECK(shoal_shape_equal(&here, &there), SHOAL_ERR_IO,
                "%s has images %s, %s has %s: give files of one size, others to an "
                "import of their own",
                first->path, shoal_data_shape_text(&there, a_text, sizeof a_text), f->path,
                shoal_data_shape_text(&here, b_text, sizeof b_text));
    *sample = here;
  }
  SHOAL_CHECK(first, SHOAL_ERR_IO, "no images among the %zu files given: the fourth byte of an image file is 3 or 4",
              a->n_sources);
  return SHOAL_OK;
}

shoal_status shoal_import_idx(const shoal_import_args *a, const char *out_path)
{
  idx_file *files = NULL;
  shoal_import_roles roles = { 0 };
  shoal_data_writer *w = NULL;
  uint8_t *block = NULL;
  char source[256];
  shoal_data_spec spec = { SHOAL_DATA_IMAGES, { 0 }, 1, source };
  shoal_import_source_text(a, source, sizeof source);
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(a->n_sources, &files), done);
  SHOAL_TRY_GOTO(st, shoal_import_find_roles(a, &roles), done);
  SHOAL_TRY_GOTO(st, open_files(a, &roles, files, &spec.sample), done);
  size_t bytes = (size_t)shoal_shape_count(&spec.sample);
  SHOAL_TRY_GOTO(st, shoal_alloc(block_rows(bytes), bytes, "images", (void **)&block), done);
  uint64_t samples = 0;
  for (size_t i = 0; i < a->n_sources; i++) /* a file that is cut short is told as such */
    if (files[i].ndim > 1) samples += SHOAL_MIN(files[i].dim[0], shoal_source_most(files[i].source) / bytes);
  SHOAL_TRY_GOTO(st, shoal_data_expect(out_path, &spec, samples), done);
  SHOAL_TRY_GOTO(st, shoal_data_writer_create(out_path, &spec, &w), done);
  progress p = { .args = a, .writer = w };
  SHOAL_TRY_GOTO(st, import_pairs(&p, files, a->n_sources, block), done);
  st = shoal_data_writer_commit(w, p.largest + 1, NULL);
done:
  shoal_data_writer_destroy(w);
  free(block);
  for (size_t i = 0; files && i < a->n_sources; i++) shoal_source_close(files[i].source);
  shoal_import_roles_fini(&roles);
  free(files);
  return st;
}
