/* Opening and creating files.
 *
 * Reading must not depend on locks: network file systems answer flock() with "not supported", "no locks available" or
 * "try again", and a run that only reads its data has no reason to die of that (h5py#1101).  So a read is tried with a
 * lock, which keeps us from reading what somebody is writing, and when exactly the lock was refused it is repeated
 * without one and a line says so.  Files we write are ours alone (a temporary name, or one file per rank): no locks.
 *
 * A file that cannot be opened is looked at with plain system calls first, because "missing", "empty", "text" and "cut
 * off" have different cures and the library has one answer for all of them. */
#include "base/file.h"
#include "base/log.h"
#include "h5/h5_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* H5Pset_file_locking came with 1.10.7 and, on the other branch, with 1.12.1; before, only the environment decides. */
#define HAVE_LOCK_PROPERTY (H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 11, 0)))

enum { SMALLEST = 96 }; /* bytes; superblock and root entry of the earliest format */

/* The eight signature bytes stand at 0 or, behind a user block, at 512, 1024, 2048, … */
static bool has_signature(int fd, off_t size)
{
  static const unsigned char want[8] = { 0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n' };
  for (off_t at = 0; at + 8 <= size; at = at ? at * 2 : 512) {
    unsigned char got[8];
    if (pread(fd, got, sizeof got, at) == (ssize_t)sizeof got && memcmp(got, want, sizeof got) == 0) return true;
  }
  return false;
}

/* What plain system calls can tell: a file that is there, is readable, is one, and is HDF5. */
static shoal_status look(const char *path, int flags, uint64_t *size)
{
  int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0 && errno == ENOENT) return SHOAL_FAIL(SHOAL_ERR_IO, "cannot open %s: there is no such file", path);
  SHOAL_CHECK(fd >= 0, SHOAL_ERR_IO, "cannot open %s: %s", path, strerror(errno));
  struct stat s;
  bool known = fstat(fd, &s) == 0, regular = known && S_ISREG(s.st_mode);
  bool hdf5 = regular && has_signature(fd, s.st_size);
  close(fd);
  SHOAL_CHECK(regular, SHOAL_ERR_IO, "cannot open %s: it is not a regular file", path);
  SHOAL_CHECK(s.st_size > 0, SHOAL_ERR_IO, "cannot open %s: it is empty (0 bytes); was its writer killed?", path);
  SHOAL_CHECK(hdf5, SHOAL_ERR_IO, "cannot open %s: it is not an HDF5 file (no signature in its %llu bytes)", path,
              (unsigned long long)s.st_size);
  SHOAL_CHECK(s.st_size >= SMALLEST, SHOAL_ERR_IO, "cannot open %s: it is cut off, only %lld bytes are there", path,
              (long long)s.st_size);
  *size = (uint64_t)s.st_size;
  return SHOAL_OK;
}

/* Closing a file closes what was left open in it, so that the bytes are out when the handle is gone. */
static hid_t access_list(bool locks, bool writing)
{
  hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  if (fapl < 0) return fapl;
  herr_t ok = H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG);
#if HAVE_LOCK_PROPERTY
  if (ok >= 0) ok = H5Pset_file_locking(fapl, locks, true);
#endif
  if (ok >= 0 && writing) ok = H5Pset_libver_bounds(fapl, H5F_LIBVER_EARLIEST, H5F_LIBVER_V18);
  if (ok >= 0) return fapl;
  H5Pclose(fapl);
  return H5I_INVALID_HID;
}

/* On failure `words` says why and *lock_refused whether it was only the lock. */
static hid_t open_file(const char *path, bool locks, bool writing, char words[SHOAL_H5_WORDS], bool *lock_refused)
{
  *lock_refused = false;
  hid_t fapl = access_list(locks, writing);
  hid_t file = fapl < 0 ? fapl : H5Fopen(path, writing ? H5F_ACC_RDWR : H5F_ACC_RDONLY, fapl);
  if (file < 0) {
    shoal_h5_words(words);
    *lock_refused = shoal_h5_stack_says("unable to lock", NULL) || shoal_h5_stack_says("locking", NULL);
    char text[SHOAL_H5_WORDS];
    if (shoal_h5_stack_says("truncated file", text)) memcpy(words, text, SHOAL_H5_WORDS);
  }
  if (fapl >= 0) H5Pclose(fapl);
  return file;
}

static shoal_status explain(const char *path, uint64_t size, const char *words, bool lock_refused)
{
  const char *mark = strstr(words, "stored_eof = ");
  unsigned long long want = 0;
  if (strstr(words, "truncated file") && mark && sscanf(mark, "stored_eof = %llu", &want) == 1)
    return SHOAL_FAIL(SHOAL_ERR_IO, "cannot open %s: it is cut off, %llu of %llu bytes are there", path,
                      (unsigned long long)size, want);
  if (lock_refused) {
    uint64_t room;
    const char *type = "unknown";
    (void)shoal_disk_facts(path, &room, &type);
    return SHOAL_FAIL(SHOAL_ERR_IO, "cannot lock %s (%s file system): %s; set HDF5_USE_FILE_LOCKING=FALSE", path, type,
                      words);
  }
  return SHOAL_FAIL(SHOAL_ERR_IO, "cannot open %s: it is damaged, or too new for this HDF5: %s", path, words);
}

static void say_unlocked(const char *path, const char *words)
{
  static atomic_flag said = ATOMIC_FLAG_INIT;
  if (atomic_flag_test_and_set(&said)) return;
  uint64_t room;
  const char *type = "unknown";
  (void)shoal_disk_facts(path, &room, &type); /* only a name for the line */
  shoal_info("reading %s without a file lock: the %s file system answered \"%s\" (HDF5_USE_FILE_LOCKING=FALSE skips "
             "the attempt)",
             path, type, words);
}

shoal_status shoal_h5_open(const char *path, shoal_h5 *file_out)
{
  char words[SHOAL_H5_WORDS] = "", again[SHOAL_H5_WORDS] = "";
  uint64_t size = 0;
  bool refused;
  shoal_h5_init();
  SHOAL_TRY(look(path, O_RDONLY, &size));
  hid_t file = open_file(path, !shoal_h5_locks_off(), false, words, &refused);
  if (file < 0 && refused) {
    /* A file this process is writing itself is "refused" too, since its two openings must agree on locks. */
    bool system_said = !strstr(words, "match");
    file = open_file(path, false, false, again, &refused);
    if (file >= 0 && system_said) say_unlocked(path, words);
    if (file < 0) memcpy(words, again, sizeof words);
  }
  if (file < 0) return explain(path, size, words, refused);
  file_out->id = file;
  return SHOAL_OK;
}

shoal_status shoal_h5_append(const char *path, shoal_h5 *file_out)
{
  char words[SHOAL_H5_WORDS] = "";
  uint64_t size = 0;
  bool refused;
  shoal_h5_init();
  SHOAL_TRY(look(path, O_RDWR, &size));
  hid_t file = open_file(path, false, true, words, &refused);
  if (file < 0) return explain(path, size, words, refused);
  file_out->id = file;
  return SHOAL_OK;
}

shoal_status shoal_h5_create(const char *path, shoal_h5 *file_out)
{
  shoal_h5_init();
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666); /* its errno is the clear one */
  SHOAL_CHECK(fd >= 0, SHOAL_ERR_IO, "cannot create %s: %s", path, strerror(errno));
  close(fd);
  hid_t fapl = access_list(false, true);
  if (fapl < 0) return shoal_h5_fail(__FILE__, __LINE__, "cannot create %s", path);
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
  shoal_status st = file < 0 ? shoal_h5_fail(__FILE__, __LINE__, "cannot create %s", path) : SHOAL_OK;
  H5Pclose(fapl);
  if (st == SHOAL_OK) file_out->id = file;
  return st;
}

shoal_status shoal_h5_flush(shoal_h5 file)
{
  shoal_status st = SHOAL_OK;
  shoal_h5_init();
  H5_GOTO(st, H5Fflush(file.id, H5F_SCOPE_GLOBAL), end, "flush", file.id, NULL);
end:
  return st;
}

/* There is little metadata: some 100 bytes per chunk. */
shoal_status shoal_h5_hold_metadata(shoal_h5 file)
{
  H5AC_cache_config_t config = { .version = H5AC__CURR_CACHE_CONFIG_VERSION };
  shoal_status st = SHOAL_OK;
  shoal_h5_init();
  H5_GOTO(st, H5Fget_mdc_config(file.id, &config), end, "set up", file.id, NULL);
  config.evictions_enabled = 0;
  config.incr_mode = H5C_incr__off;
  config.flash_incr_mode = H5C_flash_incr__off;
  config.decr_mode = H5C_decr__off;
  H5_GOTO(st, H5Fset_mdc_config(file.id, &config), end, "set up", file.id, NULL);
end:
  return st;
}

void shoal_h5_close(shoal_h5 h)
{
  char words[SHOAL_H5_WORDS];
  if (!shoal_h5_is_open(h)) return;
  shoal_h5_init();
  if (H5Fclose(h.id) >= 0) return;
  shoal_h5_words(words);
  H5Eclear2(H5E_DEFAULT);
  shoal_warn("closing an HDF5 file lost data: %s", words);
}

void shoal_h5_discard(shoal_h5 file)
{
  if (!shoal_h5_is_open(file)) return;
  shoal_h5_init();
  H5Fclose(file.id);
  H5Eclear2(H5E_DEFAULT);
}

/* Its descriptor is turned to the null device: what HDF5 writes from now on is lost, the file is not. */
void shoal_h5_abandon(shoal_h5 file)
{
  void *handle = NULL;
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null >= 0 && H5Fget_vfd_handle(file.id, H5P_DEFAULT, &handle) >= 0 && handle) {
    int fd = *(int *)handle; /* the default driver's handle is its descriptor */
    if (fd >= 0) dup3(null, fd, O_CLOEXEC);
  }
  if (null >= 0) close(null);
}

void shoal_h5_versions(char *buf, size_t cap)
{
  unsigned major, minor, patch;
  H5get_libversion(&major, &minor, &patch);
  snprintf(buf, cap, "HDF5 %u.%u.%u (compiled %d.%d.%d)", major, minor, patch, H5_VERS_MAJOR, H5_VERS_MINOR,
           H5_VERS_RELEASE);
}
