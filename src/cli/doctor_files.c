/* The file systems of shoal doctor: the folder of runs, which all nodes must share, and what each node needs for itself.
 *
 * Files are made under names that runs take for left-overs of a write, so what a killed doctor leaves is harmless. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/doctor.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1024.0 * 1024)

static bool speaks(shoal_world *w)
{
  return shoal_world_place(w)->local_rank == 0;
}

/* ---- one folder, as one rank sees it ---- */

/* Written, synced, renamed, the folder synced, read back, removed. */
static shoal_status write_durably(const char *dir, double *seconds)
{
  char text[4096], *again = NULL;
  size_t n = 0;
  char *path = shoal_strdup_printf("%s/.doctor", dir), *name = shoal_temporary_name(path);
  memset(text, 'x', sizeof text);
  uint64_t t0 = shoal_now_ns();
  shoal_status st = shoal_write_file(name, text, sizeof text);
  *seconds = shoal_seconds_since(t0);
  if (st == SHOAL_OK) st = shoal_read_file(name, &again, &n);
  if (st == SHOAL_OK && (n != sizeof text || memcmp(text, again, n) != 0))
    st = SHOAL_FAIL(SHOAL_ERR_IO, "%s: what was written and synced reads back as something else", dir);
  unlink(name);
  free(again);
  free(name);
  free(path);
  return st;
}

/* Room and a durable write in a folder that every node has for itself. */
static void check_own(const char *dir, const char *what, double least, double wanted, int node, shoal_findings *f)
{
  uint64_t room = 0;
  const char *type = "";
  double seconds;
  char has[32];
  shoal_status st = write_durably(dir, &seconds);
  if (st == SHOAL_OK) st = shoal_disk_facts(dir, &room, &type);
  if (st != SHOAL_OK) {
    shoal_find(f, "files", SHOAL_FAULT, node, "%s: %s", shoal_error_text(st), what);
    return;
  }
  shoal_format_bytes((double)room, has, sizeof has);
  if ((double)room < wanted)
    shoal_find(f, "files", (double)room < least ? SHOAL_FAULT : SHOAL_NOTE, node, "%s has %s free on %s: %s", dir, has,
               type, what);
}

/* ---- the folder of all ---- */

static double write_speed(const char *dir, size_t bytes, shoal_status *st)
{
  enum { BLOCK = 1 << 20 };
  char *path = shoal_strdup_printf("%s/.doctor-speed", dir), *name = shoal_temporary_name(path), *block = malloc(BLOCK);
  int fd = -1;
  size_t done = 0;
  uint64_t t0 = shoal_now_ns();
  *st = block ? shoal_open_new(name, name, &fd) : SHOAL_FAIL(SHOAL_ERR_MEM, "a block to write");
  for (size_t i = 0; block && i < BLOCK; i++) block[i] = (char)(i * 2654435761u >> 13); /* not to be compressed away */
  while (*st == SHOAL_OK && done < bytes) {
    ssize_t n = write(fd, block, BLOCK);
    if (n > 0) done += (size_t)n;
    if (n <= 0) *st = shoal_io_fault("write", name, n < 0 ? errno : ENOSPC);
  }
  int error = *st == SHOAL_OK ? shoal_sync(fd) : 0;
  if (error) *st = shoal_io_fault("sync", name, error);
  double seconds = shoal_seconds_since(t0);
  if (fd >= 0) close(fd);
  unlink(name);
  free(block);
  free(name);
  free(path);
  return (double)done / SHOAL_MAX(seconds, 1e-9);
}

/* Rank 0 alone, then one rank of each node at once, as ranks save a sharded checkpoint. */
static shoal_status check_speed(shoal_world *w, const char *dir, double room, shoal_findings *f)
{
  static const double MOST = 32 * MIB, SLOW = 20e6;
  const shoal_topo *t = shoal_world_topo(w);
  size_t bytes = (size_t)SHOAL_MIN(MOST, room / 8 / t->nodes);
  double alone = 0, sum[1] = { 0 };
  shoal_status st = SHOAL_OK;
  if (shoal_world_rank(w) == 0) alone = write_speed(dir, bytes, &st);
  if (st != SHOAL_OK) shoal_find_error(f, "files", -1, st);
  SHOAL_TRY(shoal_group_barrier(shoal_world_control(w)));
  if (speaks(w) && t->nodes > 1) {
    sum[0] = write_speed(dir, bytes, &st);
    if (st != SHOAL_OK) shoal_find_error(f, "files", shoal_world_place(w)->node, st);
  }
  SHOAL_TRY(shoal_group_sum_f64(shoal_world_control(w), sum, 1));
  if (shoal_world_rank(w) || alone <= 0 || st != SHOAL_OK) return SHOAL_OK;
  char all[48] = "";
  if (t->nodes > 1) snprintf(all, sizeof all, ", %.4g from all nodes at once", sum[0] * 1e-6);
  shoal_find(f, "files", alone < SLOW ? SHOAL_NOTE : SHOAL_WELL, -1,
             "a checkpoint is written to %s with %.4g MB/s%s, synced", dir, alone * 1e-6, all);
  return SHOAL_OK;
}

/* Listing a folder makes NFS ask its server. */
static bool appears(const char *path)
{
  enum { NAP_US = 100000, NAPS = 50 };
  for (int i = 0; i < NAPS; i++) {
    if (access(path, R_OK) == 0) return true;
    usleep(NAP_US);
  }
  return false;
}

/* Whether another process's lock is noticed here.  Shoal does without locks; HDF5 in other programs does not. */
static bool is_locked(const char *path, int *error)
{
  struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
  int fd = open(path, O_RDWR | O_CLOEXEC);
  *error = fd < 0 || fcntl(fd, F_GETLK, &lock) != 0 ? errno : 0;
  if (fd >= 0) close(fd);
  return *error == 0 && lock.l_type != F_UNLCK;
}

/* Rank 0 makes a file and locks it; one rank of each other node must see both, and on one node the second rank. */
static shoal_status check_shared(shoal_world *w, const char *dir, bool writable, shoal_findings *f)
{
  char name[256] = "";
  int fd = -1, error = 0;
  const shoal_place *p = shoal_world_place(w);
  struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
  if (shoal_world_rank(w) == 0 && writable) {
    char *path = shoal_strdup_printf("%s/.doctor-shared", dir), *made = shoal_temporary_name(path);
    if (strlen(made) < sizeof name && shoal_open_new(made, made, &fd) == SHOAL_OK) {
      snprintf(name, sizeof name, "%s", made);
      if (fcntl(fd, F_SETLK, &lock) != 0)
        shoal_find(f, "files", SHOAL_NOTE, -1, "%s has no file locks: %s; Shoal needs none, HDF5 in other programs may",
                   dir, strerror(errno));
    }
    free(made);
    free(path);
  }
  shoal_status st = shoal_group_broadcast(shoal_world_control(w), name, sizeof name, 0);
  bool looks = name[0] && shoal_world_rank(w) && (speaks(w) || (p->node == 0 && p->local_rank == 1));
  if (st == SHOAL_OK && looks && !appears(name))
    shoal_find(f, "files", SHOAL_FAULT, p->node,
               "%s is not the folder that rank 0 sees: choose one that all nodes share", dir);
  else if (st == SHOAL_OK && looks && !is_locked(name, &error))
    shoal_find(f, "files", SHOAL_NOTE, p->node,
               "a file lock of %s in %s is not seen%s%s; Shoal needs none, HDF5 in other programs may",
               shoal_world_topo(w)->places[0].host, dir, error ? ": " : "", error ? strerror(error) : "");
  if (st == SHOAL_OK) st = shoal_group_barrier(shoal_world_control(w));
  if (fd >= 0) close(fd);
  if (fd >= 0) unlink(name);
  return st;
}

static shoal_status check_folder(shoal_world *w, const shoal_doctor_options *o, shoal_findings *f)
{
  const shoal_place *p = shoal_world_place(w);
  uint64_t room = 0;
  const char *type = "";
  double seconds = 0;
  char has[32], needs[32];
  shoal_status st = SHOAL_OK;
  int64_t bad = 0;
  if (speaks(w)) {
    st = write_durably(o->folder, &seconds);
    bad = st != SHOAL_OK;
    if (bad) shoal_find(f, "files", SHOAL_FAULT, p->node, "%s", shoal_error_text(st));
    if (shoal_disk_facts(o->folder, &room, &type) == SHOAL_OK && (double)room < o->needs) {
      shoal_format_bytes((double)room, has, sizeof has);
      shoal_format_bytes(o->needs, needs, sizeof needs);
      shoal_find(f, "files", SHOAL_FAULT, p->node,
                 "%s has %s free on %s, %s are needed (--needs): remove old checkpoints, or choose "
                 "another folder",
                 o->folder, has, type, needs);
    } else if (!bad && shoal_world_rank(w) == 0) {
      shoal_format_bytes((double)room, has, sizeof has);
      shoal_find(f, "files", SHOAL_WELL, -1, "%s: %s free on %s; write, sync and rename of a small file %.3g ms",
                 o->folder, has, type, seconds * 1e3);
    }
  }
  int64_t all[2] = { bad, speaks(w) ? -(int64_t)SHOAL_MIN(room, (uint64_t)INT64_MAX) : INT64_MIN };
  bool writable = !bad;
  SHOAL_TRY(shoal_group_max_i64(shoal_world_control(w), all, 2));
  SHOAL_TRY(check_shared(w, o->folder, writable, f));
  if (all[0]) return SHOAL_OK; /* told */
  return check_speed(w, o->folder, (double)-all[1], f);
}

shoal_status shoal_doctor_files(shoal_world *w, const shoal_doctor_options *o, shoal_findings *f)
{
  const shoal_place *p = shoal_world_place(w);
  const char *temporary = getenv("TMPDIR");
  if (!temporary || !*temporary) temporary = "/tmp";
  if (speaks(w)) {
    check_own(temporary, "scratch files of MPI and of programs go there; set TMPDIR to a folder with room", 16 * MIB,
              256 * MIB, p->node, f);
    check_own("/dev/shm", "ranks of a node exchange through it; of a container it is docker --shm-size", 16 * MIB,
              256 * MIB, p->node, f);
  }
  return check_folder(w, o, f);
}
