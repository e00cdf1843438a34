/* A disk that runs full while a checkpoint is written, at every page of it.
 *
 * A tiny file system of our own (seen by this process only) is filled up to the last k pages, for k from 0 to more than
 * a checkpoint needs.  Every save ends in one of two ways: it verifies, or it fails with one line that names the free
 * bytes, leaves nothing behind, holds no HDF5 handle, and the checkpoint before it is untouched.  Needs the right to
 * mount; skipped without. */
#define _GNU_SOURCE /* unshare */
#include "base/file.h"
#include "base/log.h"
#include "unit/ckpt_together.h"
#include <hdf5.h>
#include <sched.h>
#include <sys/mount.h>

enum { PAGE = 4096, LARGE = 40000 };

static char *mounted, *dir, *filler;
static shoal_group *g;

static void mount_small_disk(void)
{
  mounted = shoal_strdup_printf("%s/disk", fixture_make());
  REQUIRE(mkdir(mounted, 0777) == 0, "mkdir");
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("none", mounted, "tmpfs", 0, "size=2m") != 0)
    CHECK_SKIP("a small file system cannot be mounted here");
  dir = shoal_strdup_printf("%s/ckpt", mounted);
  filler = shoal_strdup_printf("%s/filler", mounted);
}

static uint64_t free_pages(void)
{
  uint64_t bytes;
  const char *type;
  REQUIRE(shoal_disk_facts(mounted, &bytes, &type) == SHOAL_OK, "tmpfs");
  REQUIRE(strcmp(type, "tmpfs") == 0, "tmpfs");
  return bytes / PAGE;
}

static void leave_free(uint64_t pages)
{
  static const char page[PAGE];
  unlink(filler);
  int fd = open(filler, O_WRONLY | O_CREAT, 0666);
  REQUIRE(fd >= 0, "filler");
  for (uint64_t n = free_pages(); n > pages; n--) REQUIRE(write(fd, page, PAGE) == PAGE, "filler");
  close(fd);
  REQUIRE(free_pages() == pages, "%" PRIu64 " pages are free", free_pages());
}

static shoal_status save(uint64_t step, uint64_t need)
{
  static uint8_t large[LARGE];
  shoal_ckpt_info info;
  shoal_ckpt_writer *w = NULL;
  fixture_info(step, 1, &info);
  SHOAL_TRY(shoal_ckpt_begin(g, dir, &info, need, &w));
  fixture_put(w, step);
  fixture_fill(SHOAL_U8, step, LARGE, large);
  for (int i = 0; i < 4; i++) { /* large ones go to the disk at once, small ones when the file is closed */
    char name[32];
    snprintf(name, sizeof name, "model/large%d", i);
    shoal_ckpt_put(w, name, SHOAL_U8, 1, (uint64_t[]){ LARGE }, large);
    snprintf(name, sizeof name, "deep%d/est/group", i);
    shoal_ckpt_put_i64(w, name, i);
    shoal_ckpt_put_replica(w, name, SHOAL_U8, LARGE, large);
  }
  return shoal_ckpt_commit(w, NULL);
}

static void check_old(const char *when)
{
  char *path = NULL;
  uint64_t step = 0;
  shoal_ckpt *c = NULL;
  CHECK_OK(shoal_ckpt_latest(dir, &path, &step), "%s: the old one is the latest", when);
  CHECK(path, "%s: the old one is the latest", when);
  CHECK_EQ(step, 1, "%s: the old one is the latest", when);
  CHECK(path, "%s: it is whole", when);
  if (CHECK_OK(shoal_ckpt_open(path, true, &c), "%s: it is whole", when))
    CHECK(fixture_matches(c, 1), "%s: it is whole", when);
  shoal_ckpt_close(c);
  free(path);
}

static bool save_with(uint64_t pages)
{
  leave_free(pages);
  shoal_status st = save(2, 0);
  char *said = shoal_strdup_printf("%s", check_error());
  CHECK_EQ(H5Fget_obj_count((hid_t)H5F_OBJ_ALL, H5F_OBJ_ALL), 0, "%" PRIu64 " pages: nothing stays open", pages);
  if (st == SHOAL_OK) {
    char *path = shoal_strdup_printf("%s/step-000000002.h5", dir);
    struct stat file;
    CHECK_OK(shoal_ckpt_verify(path, stderr));
    CHECK_EQ(stat(path, &file), 0, "no more is taken than it needs");
    CHECK_LT(file.st_blocks * 512, file.st_size + PAGE);
    unlink(path);
    free(path);
  } else {
    CHECK_STATUS(st, SHOAL_ERR_IO, "%" PRIu64 " pages", pages);
    CHECK_HAS(said, " free", "%" PRIu64 " pages", pages);
    CHECK_HAS(said, "step-000000002.h5", "%" PRIu64 " pages", pages);
    CHECK_HAS(said, "tmpfs", "%" PRIu64 " pages", pages);
  }
  CHECK_EQ(fixture_count(dir), 1, "%" PRIu64 " pages: nothing is left behind", pages);
  CHECK_EQ(free_pages(), pages, "%" PRIu64 " pages: and no space", pages);
  check_old("after a full disk");
  free(said);
  return st == SHOAL_OK;
}

int main(void)
{
  shoal_world_options options = { 0 };
  shoal_world *world;
  mount_small_disk();
  REQUIRE(shoal_world_open(&options, &world) == SHOAL_OK, "world");
  g = shoal_world_control(world);
  shoal_log_set_level(SHOAL_LOG_ERROR);
  REQUIRE(save(1, 0) == SHOAL_OK, "with room");
  uint64_t pages = 0, fitted = 0;
  for (; pages < 300 && fitted < 3; pages++) fitted += save_with(pages);
  fprintf(stderr, "a checkpoint needs %" PRIu64 " pages\n", pages - 3);
  CHECK_EQ(fitted, 3, "from nothing to enough");
  CHECK_GT(pages, 50);
  leave_free(20);
  CHECK_STATUS(save(2, 64 * PAGE), SHOAL_ERR_IO, "told before anything is written");
  CHECK(strstr(check_error(), "80.0 KiB free") || strstr(check_error(), "80 KiB free"), "%s", check_error());
  CHECK_EQ(fixture_count(dir), 1, "and nothing is");
  shoal_world_close(world);
  CHECK_GE(H5close(), 0, "the library closes");
  REQUIRE(umount2(mounted, MNT_DETACH) == 0, "umount");
  return check_done();
}
