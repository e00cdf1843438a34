/* Files are written atomically: a reader finds the complete file or none.
 *
 * A job can be killed at any instruction, and a disk can be full at any byte.  So a file is written under a temporary
 * name in the same folder, synced to disk, and only then renamed; rename() replaces the old file atomically.  The
 * folder is synced, too, because it holds the new name:
 *
 *     write .log.tmp-node1-4711  ->  fsync  ->  rename to log  ->  fsync(folder)
 *
 * A temporary name contains host and process id, so leftovers can be distinguished from files still being written.  It
 * can be guessed, and others may be able to write to the folder: so the file is made exclusively, never through a link. */
#include "base/file.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/quota.h"
#include "base/str.h"
#include "base/texts.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The folder part of a path, or "." if there is none; caller frees. */
static char *folder_of(const char *path)
{
  const char *slash = strrchr(path, '/');
  if (!slash) return shoal_strdup_printf(".");
  return slash == path ? shoal_strdup_printf("/") : shoal_strdup_printf("%.*s", (int)(slash - path), path);
}

typedef struct {
  uint32_t magic;
  bool local; /* of this host alone */
  const char *name;
} file_system;

static file_system find_file_system(uint32_t magic)
{
  static const file_system known[] = {
    { 0x0000ef53, true, "ext4" },  { 0x58465342, true, "xfs" },      { 0x9123683e, true, "btrfs" },
    { 0x01021994, true, "tmpfs" }, { 0x00006969, false, "nfs" },     { 0x0bd00bd0, false, "lustre" },
    { 0x47504653, false, "gpfs" }, { 0x19830326, false, "beegfs" },  { 0x00c36400, false, "ceph" },
    { 0x2fc12fc1, true, "zfs" },   { 0x794c7630, true, "overlay" },  { 0x65735546, false, "fuse" },
    { 0xff534d42, false, "cifs" }, { 0xfe534d42, false, "smb" },     { 0x858458f6, true, "ramfs" },
    { 0x01021997, false, "9p" },   { 0x013111a8, true, "bcachefs" }, { 0x0000f15f, true, "ecryptfs" },
  };
  for (size_t i = 0; i < SHOAL_COUNT(known); i++)
    if (known[i].magic == magic) return known[i];
  return (file_system){ magic, false, "unknown" };
}

/* What limits a file at some place: free_bytes of the file system or, if that is less, of a quota.  Files may be limited, too: one
 * inode each, whatever its size. */
typedef struct {
  uint64_t free_bytes;
  uint64_t inodes;       /* those in use, where none is left; else 0 (many file systems have no limit) */
  uint64_t quota_inodes; /* likewise, of a quota */
  const char *type;
  bool local;               /* of this host alone */
  const char *whose;        /* "user" or "group": free_bytes is a quota's limit; else NULL */
  const char *whose_inodes; /* likewise, of quota_inodes */
} disk;

/* For a path that does not exist yet, queries the nearest existing parent folder.  Returns an errno, 0 for success. */
static int disk_facts(const char *path, disk *out)
{
  struct statvfs space;
  struct statfs facts;
  bool group = false, group_files = false;
  char *place = shoal_strdup_printf("%s", path);
  while (!shoal_path_exists(place) && strcmp(place, ".") != 0 && strcmp(place, "/") != 0) {
    char *up = folder_of(place);
    free(place);
    place = up;
  }
  bool known = statvfs(place, &space) == 0 && statfs(place, &facts) == 0;
  int error = errno;
  uint64_t quota = known ? shoal_quota_left(place, &group) : 0;
  uint64_t files = known ? shoal_quota_files(place, &group_files) : 0;
  free(place);
  if (!known) return error ? error : EIO;
  file_system system = find_file_system((uint32_t)facts.f_type);
  const bool counted = space.f_blocks > 0; /* some of FUSE and of a network give no numbers at all */
  *out = (disk){ .free_bytes = counted ? (uint64_t)space.f_bavail * space.f_frsize : UINT64_MAX,
                 .inodes = space.f_favail == 0 ? space.f_files : 0,
                 .type = system.name,
                 .local = system.local };
  if (quota < out->free_bytes) {
    out->free_bytes = quota;
    out->whose = group ? "group" : "user";
  }
  if (files) {
    out->quota_inodes = files;
    out->whose_inodes = group_files ? "group" : "user";
  }
  return 0;
}

const char *shoal_space_left(const char *path, int error, char buf[SHOAL_SPACE_LEFT])
{
  disk d;
  char amount[32];
  buf[0] = '\0';
  if (error == EMFILE) snprintf(buf, SHOAL_SPACE_LEFT, " (at most %ld at a time: ulimit -n)", sysconf(_SC_OPEN_MAX));
  if (error == EFBIG)
    snprintf(buf, SHOAL_SPACE_LEFT, " (at most %s: ulimit -f)",
             shoal_format_bytes((double)shoal_limit_file_size(), amount, sizeof amount));
  if ((error != ENOSPC && error != EDQUOT) || disk_facts(path, &d) != 0) return buf;
  shoal_format_bytes((double)d.free_bytes, amount, sizeof amount);
  if (d.free_bytes == UINT64_MAX)
    snprintf(buf, SHOAL_SPACE_LEFT, " (on %s, which does not say how much is free)", d.type);
  else if (error == EDQUOT && d.quota_inodes)
    snprintf(buf, SHOAL_SPACE_LEFT,
             " (no room for more files on %s: the %" PRIu64 " inodes of this %s's quota are used; %s free)", d.type,
             d.quota_inodes, d.whose_inodes, amount);
  else if (error == ENOSPC && d.inodes && d.free_bytes > 0)
    snprintf(buf, SHOAL_SPACE_LEFT,
             " (no room for more files on %s: all %" PRIu64 " inodes are used, see `df -i`; %s free)", d.type, d.inodes,
             amount);
  else if (error == EDQUOT && !d.whose)
    snprintf(buf, SHOAL_SPACE_LEFT, " (%s free on %s, but not for this user, group or project: see `quota -s`)", amount,
             d.type);
  else
    snprintf(buf, SHOAL_SPACE_LEFT, " (%s free on %s%s%s%s)", amount, d.type, d.whose ? " by this " : "",
             d.whose ? d.whose : "", d.whose ? "'s quota" : "");
  return buf;
}

bool shoal_path_names(const char *path, int fd)
{
  struct stat named, opened;
  return stat(path, &named) == 0 && fstat(fd, &opened) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
}

bool shoal_working_folder_gone(void)
{
  char here[1];
  return !getcwd(here, sizeof here) && errno == ENOENT;
}

const char *shoal_dangling(const char *path, char buf[SHOAL_DANGLING])
{
  char target[256], shown[sizeof target];
  struct stat there;
  ssize_t n = readlink(path, target, sizeof target - 1);
  buf[0] = '\0';
  if (n < 0 && path[0] != '/' && shoal_working_folder_gone())
    snprintf(buf, SHOAL_DANGLING, " (the working folder was removed: cd to another one)");
  if (n <= 0 || stat(path, &there) == 0 || (errno != ENOENT && errno != ELOOP)) return buf;
  const char *where = errno == ELOOP ? "leads back to itself" : "is not there";
  target[n] = '\0';
  snprintf(buf, SHOAL_DANGLING, " (a link to %s, which %s)", shoal_show(target, shown, sizeof shown), where);
  return buf;
}

/* The path with the name in its folder that is nearest, or NULL.  The caller frees. */
static char *nearest_path(const char *path)
{
  enum { MOST = 4096 };
  shoal_texts names = { 0 };
  const char *base = shoal_path_base(path), *near;
  char *folder = folder_of(path), *found = NULL;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && names.n < MOST && (e = readdir(d)) != NULL;)
    if (e->d_name[0] != '.' && shoal_texts_add(&names, e->d_name) != SHOAL_OK) break;
  if (d) closedir(d);
  near = shoal_nearest(base, (const char *const *)names.at, names.n);
  if (near) found = shoal_strdup_printf("%.*s%s", (int)(base - path), path, near);
  shoal_texts_free(&names);
  free(folder);
  return found;
}

const char *shoal_why_missing(const char *path, char buf[SHOAL_DANGLING])
{
  char here[SHOAL_DANGLING - 64], shown[sizeof here];
  if (*shoal_dangling(path, buf)) return buf;
  char *run = shoal_path_join("runs", path), *meant = shoal_path_exists(run) ? run : nearest_path(path);
  if (meant)
    snprintf(buf, SHOAL_DANGLING, " (did you mean %s?)", shoal_show(meant, shown, sizeof shown));
  else if (path[0] != '/' && getcwd(here, sizeof here))
    snprintf(buf, SHOAL_DANGLING, " (from the working folder, %s)", shoal_show(here, shown, sizeof shown));
  if (meant != run) free(meant);
  free(run);
  return buf;
}

/* The file or folder in the way is the deepest that can be looked at, or the one above where that itself is open to us. */
char *shoal_why_denied(const char *path)
{
  struct stat s;
  shoal_str said = { 0 };
  char word[SHOAL_WORD], *there = shoal_strdup_printf("%s", path);
  bool seen = stat(there, &s) == 0;
  while ((!seen || access(there, S_ISDIR(s.st_mode) ? R_OK | W_OK | X_OK : R_OK | W_OK) == 0) &&
         strcmp(there, ".") != 0 && strcmp(there, "/") != 0) {
    char *up = folder_of(there);
    free(there);
    there = up;
    seen = stat(there, &s) == 0;
  }
  const bool folder = seen && S_ISDIR(s.st_mode), mine = seen && s.st_uid == geteuid();
  if (seen && access(there, folder ? R_OK | W_OK | X_OK : R_OK | W_OK) != 0) {
    const struct passwd *user = getpwuid(s.st_uid);
    shoal_str_add(&said, " (%s belongs to ", strcmp(there, path) == 0 ? "it" : there);
    if (user) shoal_str_add(&said, "%s, ", user->pw_name);
    shoal_str_add(&said, "user %ld, with mode %03o", (long)s.st_uid, (unsigned)s.st_mode & 07777);
    if (access(there, folder ? R_OK | X_OK : R_OK) != 0)
      shoal_str_add(&said, "; `chmod %s%s %s`%s makes it readable", folder ? "-R " : "",
                    mine     ? "u+rwX"
                    : folder ? "a+rX"
                             : "a+r",
                    shoal_shell_word(there, word), mine ? "" : " by its owner");
    shoal_str_add(&said, ")");
  }
  free(there);
  return said.text ? said.text : shoal_strdup_printf("%s", "");
}

shoal_status shoal_io_fault(const char *verb, const char *path, int error)
{
  char space[SHOAL_SPACE_LEFT], why[SHOAL_DANGLING], *shown = shoal_strdup_printf("%s", path);
  if (error == ENOENT)
    shoal_why_missing(path, why);
  else
    shoal_dangling(path, why);
  shoal_drop_temporary(shown);
  char *denied = error == EACCES ? shoal_why_denied(path) : NULL;
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "cannot %s %s: %s%s%s%s", verb, shown, strerror(error),
                               shoal_space_left(path, error, space), why, denied ? denied : "");
  free(denied);
  free(shown);
  return st;
}

shoal_status shoal_make_dir(const char *path)
{
  struct stat info;
  if (mkdir(path, 0777) == 0) return SHOAL_OK;
  int error = errno; /* existing folders that are read-only or automounted may not give EEXIST, so stat decides */
  if (stat(path, &info) != 0) {
    char link[SHOAL_DANGLING];
    SHOAL_CHECK(error != EEXIST || !*shoal_dangling(path, link), SHOAL_ERR_IO,
                "cannot make the folder %s%s: make the folder that it leads to, or remove the link", path, link);
    return shoal_io_fault("make the folder", path, error);
  }
  return S_ISDIR(info.st_mode) ? SHOAL_OK : shoal_io_fault("make the folder", path, ENOTDIR);
}

shoal_status shoal_make_dirs(const char *path)
{
  SHOAL_CHECK(path[0], SHOAL_ERR_IO, "cannot make a folder without a name");
  shoal_status st = SHOAL_OK;
  char *part = shoal_strdup_printf("%s", path);
  for (char *c = part + 1; st == SHOAL_OK; c++) {
    if (*c && *c != '/') continue;
    char kept = *c;
    *c = '\0';
    st = shoal_make_dir(part);
    *c = kept;
    if (!kept) break;
  }
  free(part);
  return st;
}

bool shoal_path_exists(const char *path)
{
  return access(path, F_OK) == 0;
}

shoal_status shoal_path_look(const char *path)
{
  struct stat s;
  bool known = stat(path, &s) == 0 || errno == ENOENT || errno == ENOTDIR;
  return known ? SHOAL_OK : shoal_io_fault("look at", path, errno);
}

char *shoal_path_join(const char *dir, const char *name)
{
  size_t n = strlen(dir);
  if (n == 0 || name[0] == '/') return shoal_strdup_printf("%s", name);
  return shoal_strdup_printf(dir[n - 1] == '/' ? "%s%s" : "%s/%s", dir, name);
}

const char *shoal_path_base(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

shoal_status shoal_open_file(const char *path, int *fd_out, uint64_t *size_out)
{
  struct stat info;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* nobody may write to a pipe */
  if (fd < 0) return shoal_io_fault("read", path, errno);
  int error = fstat(fd, &info) != 0 ? errno : S_ISDIR(info.st_mode) ? EISDIR : 0;
  bool regular = !error && S_ISREG(info.st_mode);
  if (!regular) close(fd);
  if (error) return shoal_io_fault("read", path, error);
  SHOAL_CHECK(regular, SHOAL_ERR_IO, "cannot read %s: it is a pipe or a device; write its contents to a file first",
              path);
  *fd_out = fd;
  if (size_out) *size_out = (uint64_t)info.st_size;
  return SHOAL_OK;
}

shoal_status shoal_open_new(const char *path, const char *shown, int *fd_out)
{
  const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  struct stat there;
  int fd = open(path, flags, 0666);
  if (fd < 0 && errno == EEXIST && shoal_is_temporary(path) && lstat(path, &there) == 0 && S_ISREG(there.st_mode) &&
      unlink(path) == 0)
    fd = open(path, flags, 0666);
  if (fd < 0) return shoal_io_fault("create", shown, errno);
  *fd_out = fd;
  return SHOAL_OK;
}

shoal_status shoal_open_append(const char *path, FILE **out)
{
  struct stat info;
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666);
  if (fd < 0 && (errno == ELOOP || errno == ENXIO))
    return SHOAL_FAIL(SHOAL_ERR_IO, "cannot write %s: it is a link or a pipe; remove it", path);
  if (fd < 0) return shoal_io_fault("write", path, errno);
  bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  FILE *file = regular ? fdopen(fd, "a") : NULL;
  if (!file) close(fd);
  SHOAL_CHECK(regular, SHOAL_ERR_IO, "cannot write %s: it is a pipe or a device; remove it", path);
  SHOAL_CHECK(file, SHOAL_ERR_MEM, "out of memory for writing %s", path);
  *out = file;
  return SHOAL_OK;
}

/* Reads up to the end of the file, whose size may be unknown (/proc). */
static int read_all(int fd, size_t expected, char **text_out, size_t *n_out)
{
  size_t cap = expected + 1, n = 0;
  char *text = malloc(cap);
  while (text) {
    ssize_t got = read(fd, text + n, cap - n);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      int error = errno;
      free(text);
      return error;
    }
    n += (size_t)got;
    if (n < cap) continue;
    cap = 2 * cap;
    char *more = realloc(text, cap);
    if (!more) free(text);
    text = more;
  }
  if (!text) return ENOMEM;
  text[n] = '\0'; /* n < cap, because the loop grows a full buffer */
  *text_out = text;
  *n_out = n;
  return 0;
}

shoal_status shoal_read_file(const char *path, char **text_out, size_t *n_out)
{
  int fd;
  uint64_t size;
  SHOAL_TRY(shoal_open_file(path, &fd, &size));
  int error = read_all(fd, size > 0 ? (size_t)size : 4096, text_out, n_out);
  close(fd);
  if (error == ENOMEM) return SHOAL_FAIL(SHOAL_ERR_MEM, "out of memory while reading %s", path);
  return error ? shoal_io_fault("read", path, error) : SHOAL_OK;
}

static int write_all(int fd, const char *data, size_t n)
{
  while (n > 0) {
    ssize_t put = write(fd, data, n);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    data += put;
    n -= (size_t)put;
  }
  return 0;
}

int shoal_sync(int fd)
{
  if (fsync(fd) == 0) return 0;
  return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP ? 0 : errno;
}

static int sync_path(const char *path, int flags)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
  if (fd < 0) return errno;
  int error = shoal_sync(fd);
  close(fd);
  return error;
}

shoal_status shoal_commit_file(const char *tmp, const char *path)
{
  struct stat there;
  SHOAL_CHECK(lstat(path, &there) != 0 || S_ISREG(there.st_mode) || S_ISLNK(there.st_mode), SHOAL_ERR_IO,
              "%s exists and is a %s, not a regular file: choose another name", path,
              S_ISDIR(there.st_mode) ? "folder" : "device or other special file");
  int error = sync_path(tmp, 0);
  if (error) return shoal_io_fault("sync to disk", tmp, error);
  if (rename(tmp, path) != 0) return shoal_io_fault("rename the temporary file to", path, errno);
  char *folder = folder_of(path);
  error = sync_path(folder, O_DIRECTORY);
  shoal_status st = error ? shoal_io_fault("sync to disk the folder", folder, error) : SHOAL_OK;
  free(folder);
  return st;
}

shoal_status shoal_write_file(const char *path, const void *data, size_t n)
{
  int fd;
  char *tmp = shoal_temporary_name(path);
  shoal_status st = shoal_open_new(tmp, path, &fd);
  if (st == SHOAL_OK) {
    int error = write_all(fd, data, n);
    if (close(fd) != 0 && !error) error = errno; /* some network file systems report a full disk only here */
    st = error ? shoal_io_fault("write", path, error) : shoal_commit_file(tmp, path);
    if (st != SHOAL_OK) unlink(tmp);
  }
  free(tmp);
  return st;
}

bool shoal_write_over(const char *path, const char *text)
{
  struct stat info;
  int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  bool there = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode), written = false;
  if (there) {
    char *padded = shoal_strdup_printf("%-*s", (int)info.st_size, text); /* blanks over what the old text has more */
    const size_t n = strlen(padded);
    written = pwrite(fd, padded, n, 0) == (ssize_t)n && shoal_sync(fd) == 0;
    free(padded);
  }
  if (fd >= 0) close(fd);
  return written;
}

const char *shoal_host_name(char host[SHOAL_HOST_NAME])
{
  if (gethostname(host, SHOAL_HOST_NAME) != 0 || !host[0]) strcpy(host, "localhost");
  host[SHOAL_HOST_NAME - 1] = '\0';
  host[strcspn(host, ".")] = '\0';
  return host;
}

char *shoal_temporary_name(const char *path)
{
  char host[SHOAL_HOST_NAME];
  shoal_host_name(host);
  char *folder = folder_of(path);
  char *name = shoal_strdup_printf(".%s.tmp-%s-%ld", shoal_path_base(path), host, (long)getpid());
  char *joined = strchr(path, '/') ? shoal_path_join(folder, name) : shoal_strdup_printf("%s", name);
  free(folder);
  free(name);
  return joined;
}

void shoal_drop_temporary(char *path)
{
  char *base = path + (shoal_path_base(path) - path), *end = NULL;
  if (!shoal_is_temporary(base)) return;
  for (char *at = base; (at = strstr(at, ".tmp-")); at++) end = at;
  *end = '\0';
  memmove(base, base + 1, strlen(base));
}

bool shoal_is_temporary(const char *name)
{
  const char *base = shoal_path_base(name);
  return base[0] == '.' && strstr(base, ".tmp-") != NULL;
}

shoal_status shoal_disk_facts(const char *path, uint64_t *free_bytes, const char **type)
{
  disk d;
  int error = disk_facts(path, &d);
  if (error) return shoal_io_fault("query the file system of", path, error);
  *free_bytes = d.free_bytes;
  static _Thread_local char text[48];
  snprintf(text, sizeof text, d.whose ? "%s, this %s's quota" : "%s", d.type, d.whose);
  *type = text;
  return SHOAL_OK;
}

shoal_status shoal_expect_folder(const char *path)
{
  char *folder = folder_of(path);
  bool there = shoal_path_exists(folder), writable = access(folder, W_OK) == 0;
  shoal_status st = shoal_path_look(folder);
  free(folder);
  SHOAL_TRY(st);
  SHOAL_CHECK(there, SHOAL_ERR_IO, "cannot write %s: its folder does not exist; make it first", path);
  SHOAL_CHECK(writable, SHOAL_ERR_IO, "cannot write %s: you may not write to its folder", path);
  return SHOAL_OK;
}

shoal_status shoal_expect_room(const char *path, const char *what, double bytes)
{
  const double most = (double)shoal_limit_file_size();
  uint64_t room;
  const char *type;
  char a[32], b[32];
  SHOAL_TRY(shoal_disk_facts(path, &room, &type));
  shoal_format_bytes(bytes, a, sizeof a);
  SHOAL_CHECK(bytes <= (double)room, SHOAL_ERR_IO,
              "cannot write %s: %s take %s, %s are free on %s; make room or choose another folder", path, what, a,
              shoal_format_bytes((double)room, b, sizeof b), type);
  SHOAL_CHECK(bytes <= most, SHOAL_ERR_IO,
              "cannot write %s: %s take %s, a file may have %s at most (ulimit -f); raise the limit", path, what, a,
              shoal_format_bytes(most, b, sizeof b));
  return SHOAL_OK;
}

bool shoal_disk_is_local(const char *path)
{
  disk d;
  return disk_facts(path, &d) == 0 && d.local;
}
