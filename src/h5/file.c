/* Opening and creating files.
 *
 * Reading must not depend on file locks: on network file systems flock() may fail with "not supported", "no locks
 * available" or "try again", which should not abort a run that only reads its data (h5py#1101).  So a file is first
 * opened with a lock, which fails while another process writes; if only the lock failed, it is opened without one and a
 * message says so: a warning for "try again", the answer for a file that somebody has locked.  Files that Shoal writes
 * have one writer (a temporary name, or one file per rank): no locks.
 *
 * Writers in the newer formats also mark the file itself as open.  The mark stays if they are killed, and HDF5 then
 * refuses the file until h5clear removes it.
 *
 * Before HDF5 opens a file it is examined with plain system calls, because "missing", "empty", "not HDF5" and
 * "truncated" have different remedies, but the library reports them all alike. */
#include "base/file.h"
#include "base/log.h"
#include "h5/h5_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* H5Pset_file_locking exists since 1.10.7 and, on the other branch, 1.12.1; before, only the environment does. */
#define HAVE_LOCK_PROPERTY (H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 11, 0)))

enum { MIN_BYTES = 96 };                                    /* superblock and root group entry of the earliest format */
static const char open_mark[] = "file is already open for"; /* HDF5's words for the mark of a writer */

/* The eight-byte signature is at offset 0 or, after a user block, at 512, 1024, 2048, … */
static bool has_signature(int fd, off_t size)
{
  static const unsigned char want[8] = { 0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n' };
  for (off_t at = 0; at + 8 <= size; at = at ? at * 2 : 512) {
    unsigned char got[8];
    if (pread(fd, got, sizeof got, at) == (ssize_t)sizeof got && memcmp(got, want, sizeof got) == 0) return true;
  }
  return false;
}

/* Checks by plain system calls that the file exists, is readable, is a regular file and has an HDF5 signature. */
static shoal_status probe_file(const char *path, uint64_t *size)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  char why[SHOAL_DANGLING];
  if (fd < 0 && errno == ENOENT)
    return SHOAL_FAIL(SHOAL_ERR_IO, "cannot open %s: there is no such file%s", path, shoal_why_missing(path, why));
  if (fd < 0) return shoal_io_fault("open", path, errno);
  struct stat s;
  bool known = fstat(fd, &s) == 0, regular = known && S_ISREG(s.st_mode);
  bool hdf5 = regular && has_signature(fd, s.st_size);
  close(fd);
  SHOAL_CHECK(regular, SHOAL_ERR_IO, "cannot open %s: it is not a regular file", path);
  SHOAL_CHECK(s.st_size > 0, SHOAL_ERR_IO, "cannot open %s: it is empty (0 bytes); was its writer killed?", path);
  SHOAL_CHECK(hdf5, SHOAL_ERR_IO, "cannot open %s: it is not an HDF5 file (no signature in its %llu bytes)", path,
              (unsigned long long)s.st_size);
  SHOAL_CHECK(s.st_size >= MIN_BYTES, SHOAL_ERR_IO, "cannot open %s: it is cut off, only %lld bytes are there", path,
              (long long)s.st_size);
  *size = (uint64_t)s.st_size;
  return SHOAL_OK;
}

/* File access properties, with strong close degree: closing a file also closes its open objects, so that all bytes are
 * written when H5Fclose returns. */
static hid_t access_list(bool locks, bool writing, bool cut)
{
  static const char without_size[] =
      "skip_eof_check"; /* HDF5's own tools set it by this name; then it does not compare */
  const hbool_t yes = true;
  hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  if (fapl < 0) return fapl;
  herr_t ok = H5Pset_fclose_degree(fapl, H5F_CLOSE_STRONG);
  if (ok >= 0 && cut && H5Pexist(fapl, without_size) > 0) ok = H5Pset(fapl, without_size, &yes);
#if HAVE_LOCK_PROPERTY
  if (ok >= 0) ok = H5Pset_file_locking(fapl, locks, true);
#endif
  if (ok >= 0 && writing) ok = H5Pset_libver_bounds(fapl, H5F_LIBVER_EARLIEST, H5F_LIBVER_V18);
  if (ok >= 0) return fapl;
  H5Pclose(fapl);
  return H5I_INVALID_HID;
}

/* On failure `reason` is the error text, and *lock_refused tells whether only the lock failed.  `cut`: the file may lack its end,
 * which then reads as zeros. */
static hid_t open_file(const char *path, bool locks, bool cut, char reason[SHOAL_H5_REASON], bool *lock_refused)
{
  *lock_refused = false;
  hid_t fapl = access_list(locks, false, cut);
  hid_t file = fapl < 0 ? fapl : H5Fopen(path, H5F_ACC_RDONLY, fapl);
  if (file < 0) {
    shoal_h5_error_reason(reason);
    *lock_refused = shoal_h5_stack_says("unable to lock", NULL) || shoal_h5_stack_says("locking", NULL);
    char text[SHOAL_H5_REASON];
    if (shoal_h5_stack_says("truncated file", text) || shoal_h5_stack_says(open_mark, text))
      memcpy(reason, text, SHOAL_H5_REASON);
  }
  if (fapl >= 0) H5Pclose(fapl);
  return file;
}

/* Whether the file is shorter than it says: of `want` bytes. */
static bool is_cut(const char *reason, unsigned long long *want)
{
  const char *mark = strstr(reason, "stored_eof = ");
  return strstr(reason, "truncated file") && mark && sscanf(mark, "stored_eof = %llu", want) == 1;
}

static shoal_status open_failed(const char *path, uint64_t size, const char *reason, bool lock_refused)
{
  unsigned long long want = 0;
  if (is_cut(reason, &want))
    return SHOAL_FAIL(SHOAL_ERR_IO, "cannot open %s: it is cut off, %llu of %llu bytes are there", path,
                      (unsigned long long)size, want);
  if (lock_refused) {
    uint64_t room;
    const char *type = "unknown";
    (void)shoal_disk_facts(path, &room, &type);
    return SHOAL_FAIL(SHOAL_ERR_IO, "cannot lock %s (%s file system): %s; set HDF5_USE_FILE_LOCKING=FALSE", path, type,
                      reason);
  }
  SHOAL_CHECK(
      !strstr(reason, open_mark), SHOAL_ERR_IO,
      "cannot open %s: it is marked as open for writing; wait for its writer, or if that is gone: h5clear -s %s", path,
      path);
  if (access(path, F_OK) != 0 && errno == ENOENT)
    return SHOAL_FAIL(SHOAL_ERR_IO, "cannot open %s: it was removed while it was opened", path);
  return SHOAL_FAIL(SHOAL_ERR_IO, "cannot open %s: it is damaged, or too new for this HDF5: %s", path, reason);
}

/* Once for each file that follows another. */
static void warn_of_writer(const char *path, const char *reason)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static char last[SHOAL_H5_WHERE];
  pthread_mutex_lock(&lock);
  bool said = strncmp(last, path, sizeof last - 1) == 0;
  snprintf(last, sizeof last, "%s", path);
  pthread_mutex_unlock(&lock);
  if (said) return;
  shoal_warn(
      "another process is writing %s: what is read may be incomplete. It is read without a file lock: the lock was "
      "answered \"%s\" (if nobody writes, the file system cannot lock: HDF5_USE_FILE_LOCKING=FALSE skips the attempt)",
      path, reason);
}

static void report_unlocked(const char *path, const char *reason)
{
  static atomic_flag said = ATOMIC_FLAG_INIT;
  if (strcmp(reason, strerror(EAGAIN)) == 0) {
    warn_of_writer(path, reason);
    return;
  }
  if (atomic_flag_test_and_set(&said)) return;
  uint64_t room;
  const char *type = "unknown";
  (void)shoal_disk_facts(path, &room, &type); /* only the type is used, for the message */
  shoal_info("reading %s without a file lock: the %s file system answered \"%s\" (HDF5_USE_FILE_LOCKING=FALSE skips "
             "the attempt)",
             path, type, reason);
}

/* @param missing  NULL: a file that is cut off is refused; else out, how many bytes of it are not there */
static shoal_status open_to_read(const char *path, uint64_t *missing, shoal_h5 *file_out)
{
  char reason[SHOAL_H5_REASON] = "", again[SHOAL_H5_REASON] = "";
  uint64_t size = 0;
  unsigned long long want;
  bool refused;
  shoal_h5_init();
  SHOAL_TRY(probe_file(path, &size));
  if (missing) *missing = 0;
  hid_t file = open_file(path, !shoal_h5_locks_off(), false, reason, &refused);
  if (file < 0 && refused) {
    /* The open also fails if this process is writing the file, since HDF5 requires both handles to use the same
     * locking. */
    bool system_refused = !strstr(reason, "match");
    file = open_file(path, false, false, again, &refused);
    if (file >= 0 && system_refused) report_unlocked(path, reason);
    if (file < 0) memcpy(reason, again, sizeof reason);
  }
  if (file < 0 && missing && is_cut(reason, &want) && want > size) {
    file = open_file(path, false, true, again, &refused);
    if (file >= 0) *missing = want - size;
  }
  if (file < 0) return open_failed(path, size, reason, refused);
  file_out->id = file;
  return SHOAL_OK;
}

shoal_status shoal_h5_open(const char *path, shoal_h5 *file_out)
{
  return open_to_read(path, NULL, file_out);
}

shoal_status shoal_h5_open_as_far(const char *path, uint64_t *missing, shoal_h5 *file_out)
{
  return open_to_read(path, missing, file_out);
}

shoal_status shoal_h5_create(const char *path, shoal_h5 *file_out)
{
  int fd;
  SHOAL_TRY(shoal_open_new(path, path, &fd));
  shoal_status st = shoal_h5_create_on(path, fd, file_out);
  close(fd);
  return st;
}

/* Whether HDF5 writes the file that `fd` is open for. */
static bool is_same_file(hid_t file, int fd)
{
  void *handle = NULL;
  struct stat ours, theirs;
  if (H5Fget_vfd_handle(file, H5P_DEFAULT, &handle) < 0 || !handle) return false;
  return fstat(fd, &ours) == 0 && fstat(*(int *)handle, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
         ours.st_ino == theirs.st_ino;
}

/* The root of our files holds attributes that are longer than 64 KiB, such as a mean for each of 10,000 features, which takes the second
 * version of object headers; HDF5 writes that where the order of attributes is kept.  Short ones stay in the header, however many, and equal contents give equal bytes. */
static hid_t creation_list(void)
{
  enum { MANY = 1000 };
  hid_t fcpl = H5Pcreate(H5P_FILE_CREATE);
  if (fcpl < 0) return fcpl;
  if (H5Pset_attr_creation_order(fcpl, H5P_CRT_ORDER_TRACKED) >= 0 && H5Pset_attr_phase_change(fcpl, MANY, 0) >= 0 &&
      H5Pset_obj_track_times(fcpl, false) >= 0)
    return fcpl;
  H5Pclose(fcpl);
  return H5I_INVALID_HID;
}

/* HDF5 opens by name only.  Who can write to the folder could put a link there in between, hence the comparison. */
shoal_status shoal_h5_create_on(const char *path, int fd, shoal_h5 *file_out)
{
  shoal_h5_init();
  hid_t fapl = access_list(false, true, false), fcpl = creation_list();
  hid_t file = fapl < 0 || fcpl < 0 ? H5I_INVALID_HID : H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
  shoal_status st = file < 0 ? shoal_h5_fail_on(__FILE__, __LINE__, "create", path) : SHOAL_OK;
  shoal_h5_release(fcpl);
  shoal_h5_release(fapl);
  if (st == SHOAL_OK && !is_same_file(file, fd)) {
    H5Fclose(file);
    st = SHOAL_FAIL(SHOAL_ERR_IO, "cannot create %s: somebody else has put another file there", path);
  }
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

/* Disables eviction from the metadata cache.  Metadata is small: about 100 bytes per chunk. */
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
  char reason[SHOAL_H5_REASON];
  if (!shoal_h5_is_open(h)) return;
  shoal_h5_init();
  if (H5Fclose(h.id) >= 0) return;
  shoal_h5_error_reason(reason);
  H5Eclear2(H5E_DEFAULT);
  shoal_warn("closing an HDF5 file lost data: %s", reason);
}

void shoal_h5_discard(shoal_h5 file)
{
  if (!shoal_h5_is_open(file)) return;
  shoal_h5_init();
  H5Fclose(file.id);
  H5Eclear2(H5E_DEFAULT);
}

/* Redirects the file descriptor to /dev/null, so that the file does not change by what HDF5 still writes. */
void shoal_h5_abandon(shoal_h5 file)
{
  void *handle = NULL;
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null >= 0 && H5Fget_vfd_handle(file.id, H5P_DEFAULT, &handle) >= 0 && handle) {
    int fd = *(int *)handle; /* the handle of the default (sec2) driver is its file descriptor */
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
