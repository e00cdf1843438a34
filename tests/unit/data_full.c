/* A disk that runs full while a data set is written, at every few pages of it.
 *
 * A tiny file system of our own (seen by this process only) is filled up to the last k pages.  Every write ends in one
 * of two ways: the file is whole, or one line names the output and the free bytes, nothing is left behind, and the
 * older output is as it was.  Needs the right to mount; skipped without. */
#define _GNU_SOURCE /* unshare */
#include "base/mem.h"
#include "data/data_impl.h"
#include "data_temp.h"
#include "report/data.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

enum { PAGE = 4096 };

static void mount_small_disk(void)
{
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("none", temp_dir, "tmpfs", 0, "size=5m") != 0)
    CHECK_SKIP("a small file system cannot be mounted here");
}

static uint64_t free_pages(void)
{
  uint64_t bytes = 0;
  const char *type;
  REQUIRE(shoal_disk_facts(temp_dir, &bytes, &type) == SHOAL_OK, "tmpfs");
  REQUIRE(strcmp(type, "tmpfs") == 0, "tmpfs");
  return bytes / PAGE;
}

static void leave_free(uint64_t pages)
{
  static const char page[PAGE];
  const char *filler = temp_path("filler");
  unlink(filler);
  int fd = open(filler, O_WRONLY | O_CREAT, 0666);
  REQUIRE(fd >= 0, "filler");
  for (uint64_t n = free_pages(); n > pages; n--) REQUIRE(write(fd, page, PAGE) == PAGE, "filler");
  close(fd);
}

enum { TEST = 100 };
typedef struct {
  const char *name;
  shoal_data_spec spec;
  uint64_t train;
} set;

/* A writer that does not know how much will come, as an import of a packed file. */
static shoal_status write_blocks(const set *s, const char *path)
{
  static char block[1 << 20];
  static const int32_t y[TEST];
  shoal_data_writer *w;
  shoal_status st = shoal_data_writer_create(path, &s->spec, &w);
  if (st != SHOAL_OK) return st;
  for (size_t i = 0; i < sizeof block; i++) block[i] = (char)(i * i % 61); /* finite floats, too */
  for (uint64_t n = 0; n < s->train && st == SHOAL_OK; n += TEST)
    st = shoal_data_writer_add(w, SHOAL_TRAIN, TEST, block, y);
  if (st == SHOAL_OK) st = shoal_data_writer_add(w, SHOAL_TEST, TEST, block + 28, y);
  if (st == SHOAL_OK) st = shoal_data_writer_commit(w, s->spec.kind == SHOAL_DATA_TEXT ? 256 : 2, NULL);
  shoal_data_writer_destroy(w);
  return st;
}

/* True if it fitted. */
static bool try_with(uint64_t pages, const set *s)
{
  const char *kind = s->name;
  const char *path = temp_path("out.h5");
  char *text = NULL;
  size_t n = 0;
  unlink(temp_path("filler"));
  temp_write(path, "older", 5);
  leave_free(pages);
  shoal_status st = write_blocks(s, path);
  CHECK_EQ(temp_leftovers(), 0, "%s, %d pages: something is left", kind, (int)pages);
  if (st == SHOAL_OK) {
    FILE *sink = fopen("/dev/null", "w");
    unlink(temp_path("filler"));
    CHECK_OK(shoal_data_inspect((const char *[]){ path }, 1, true, sink));
    fclose(sink);
    return true;
  }
  CHECK_STATUS(st, SHOAL_ERR_IO);
  CHECK_HAS(check_error(), "out.h5: No space left on device (");
  CHECK_HAS(check_error(), " free on tmpfs), ");
  CHECK_HAS(check_error(), " more are needed here; make room");
  CHECK_OK(shoal_read_file(path, &text, &n));
  if (CHECK_EQ(n, 5, "%s, %d pages: the older output was touched", kind, (int)pages))
    CHECK_BYTES(text, "older", 5, "%s, %d pages: the older output was touched", kind, (int)pages);
  free(text);
  return false;
}

/* A file of `bytes` zeros behind a header, which takes a page of the disk only. */
static const char *write_sparse(const char *name, const char *header, size_t n, off_t bytes)
{
  const char *path = temp_path(name);
  temp_write(path, header, n);
  REQUIRE(truncate(path, (off_t)n + bytes) == 0, "%s", path);
  return path;
}

/* An import that knows its size is refused before it writes. */
static void test_expected_size(void)
{
  unlink(temp_path("filler"));
  unlink(temp_path("out.h5"));
  const char *const sources[] = {
    write_sparse("images", "\0\0\x08\3\0\3\r@\0\0\0\x1c\0\0\0\x1c", 16, (off_t)200000 * 28 * 28),
    write_sparse("labels", "\0\0\x08\1\0\3\r@", 8, 200000),
  };
  const char *const records[] = { write_sparse("batch.bin", "", 0, (off_t)50000 * 3073) };
  const char *const book[] = { write_sparse("book.txt", "", 0, 160000000) };
  const struct {
    shoal_import_args args;
    const char *words;
  } cases[] = {
    { { .kind = "idx", .sources = sources, .n_sources = 2 }, "out.h5: 200000 samples take 151 MiB, " },
    { { .kind = "cifar10", .sources = records, .n_sources = 1 }, "out.h5: 50000 samples take 147 MiB, " },
    { { .kind = "text", .sources = book, .n_sources = 1 }, "out.h5: 160000000 tokens take 153 MiB, " },
  };
  for (size_t i = 0; i < SHOAL_COUNT(cases); i++) {
    CHECK_STATUS(shoal_data_import(&cases[i].args, temp_path("out.h5")), SHOAL_ERR_IO);
    CHECK_HAS(check_error(), cases[i].words);
    CHECK_HAS(check_error(), " free on tmpfs; make room");
    CHECK_EQ(temp_leftovers(), 0);
  }
  shoal_synth_args a;
  shoal_synth_defaults("glyphs", &a);
  a.train = a.test = 100000;
  CHECK_STATUS(shoal_data_synth(&a, temp_path("out.h5")), SHOAL_ERR_IO);
  CHECK_HAS(check_error(), "out.h5: 200000 samples take ");
  CHECK_EQ(temp_leftovers(), 0);
}

int main(void)
{
  temp_make();
  mount_small_disk();
  static const set sets[] = {
    { "images", { .kind = SHOAL_DATA_IMAGES, .sample = SHOAL_SHAPE(1, 28, 28), .x_bytes = 1, .source = "" }, 3000 },
    { "features", { .kind = SHOAL_DATA_FEATURES, .sample = SHOAL_SHAPE(32), .x_bytes = 4, .source = "" }, 15000 },
    { "text", { .kind = SHOAL_DATA_TEXT, .sample = SHOAL_SHAPE(1), .x_bytes = 1, .source = "" }, 2000000 },
  };
  for (int k = 0; k < 3; k++) {
    int fitted = 0, refused = 0;
    for (uint64_t pages = 0; pages < 1200; pages += pages < 140 ? 9 : 61)
      try_with(pages, &sets[k]) ? fitted++ : refused++;
    CHECK_GT(fitted, 3, "%s", sets[k].name);
    CHECK_GT(refused, 15, "%s", sets[k].name);
  }
  test_expected_size();
  umount(temp_dir);
  return check_done();
}
