/* Atomic files: write under a temporary name in the same folder, fsync, rename, fsync the folder. */
#ifndef SHOAL_BASE_FILE_H
#define SHOAL_BASE_FILE_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Makes a folder where there is none.  Its parent must exist: what a run writes into a folder that was moved away must not make it
 *  again.  ERR_IO. */
shoal_status shoal_make_dir(const char *path);
shoal_status shoal_make_dirs(const char *path); /* like mkdir -p; ERR_IO names the folder that failed */
bool shoal_path_exists(const char *path);
/** ERR_IO, with the system's words, if it cannot be seen whether the path exists: a folder on it that may not be entered, a link that
 *  leads back to itself, a handle that a server has forgotten. */
shoal_status shoal_path_look(const char *path);
bool shoal_path_names(const char *path, int fd);          /* this open file is still the one with that name */
char *shoal_path_join(const char *dir, const char *name); /* caller frees */
const char *shoal_path_base(const char *path);            /* points into path */
/** Opens a file for reading; size_out may be NULL.  ERR_IO for folders, pipes and devices, which could block or never end. */
shoal_status shoal_open_file(const char *path, int *fd_out, uint64_t *size_out);
/** Makes a file that is new and opens it for reading and writing: never through a link, and no file that is there is
 *  touched, except that a left-over with this temporary name is removed first.  Messages name it as `shown`. */
shoal_status shoal_open_new(const char *path, const char *shown, int *fd_out);
/** Opens a regular file, not through a link, to append to it; makes it if there is none. */
shoal_status shoal_open_append(const char *path, FILE **out);
shoal_status shoal_read_file(const char *path, char **text_out, size_t *n_out); /* NUL-terminated; caller frees */
shoal_status shoal_write_file(const char *path, const void *data, size_t n);    /* atomic, durable */
/** Writes a text over one that is there, in place, for want of room for a second file; what was longer ends in spaces.  False if it could
 *  not be written, or is not there. */
bool shoal_write_over(const char *path, const char *text);
/** Make a finished temporary file durable and rename it: fsync(tmp), rename, fsync(folder). */
shoal_status shoal_commit_file(const char *tmp, const char *path);
/** "DIR/.NAME.tmp-HOST-PID", to be written and passed to shoal_commit_file; shoal_is_temporary recognises leftovers. */
char *shoal_temporary_name(const char *path); /* caller frees */
bool shoal_is_temporary(const char *name);
enum { SHOAL_HOST_NAME = 64 };
/** This host without its domain, for messages about files that only it may see.  Writes into `host` and returns it. */
const char *shoal_host_name(char host[SHOAL_HOST_NAME]);
/** Whether files at `path` are on this host's own disk or memory, so that no other one shows them late.  False if that is not known. */
bool shoal_disk_is_local(const char *path);
/** Before work on a file that will be written: ERR_IO if its folder is not there or may not be written to. */
shoal_status shoal_expect_folder(const char *path);
/** Before a file of known size is written: ERR_IO, "cannot write PATH: WHAT take 151 MiB, 3.2 MiB are free on nfs; ...", if it does
 *  not fit the disk, a quota or the limit on the size of files. */
shoal_status shoal_expect_room(const char *path, const char *what, double bytes);
enum { SHOAL_SPACE_LEFT = 160 };
/** Bytes that can be written at `path`, UINT64_MAX if its file system does not say, and for messages the type ("ext4", "nfs") of the file system; where a quota leaves less
 *  than is free, that number and "ext4, this user's quota".  The text lives until the thread's next call. */
shoal_status shoal_disk_facts(const char *path, uint64_t *free_bytes, const char **type);
/** The numbers behind an errno: " (3.2 MiB free on nfs)" if the disk or a quota is full, " (no room for more files …)" if it has
 *  bytes, but no inodes, " (at most 1.0 GiB: ulimit -f)" if a file is too large, " (at most 16 at a time: ulimit -n)" if
 *  too many are open, else "".  Writes into `buf` and returns it. */
const char *shoal_space_left(const char *path, int error, char buf[SHOAL_SPACE_LEFT]);
enum { SHOAL_DANGLING = 320 };
/** " (a link to X, which is not there)" or "which leads back to itself" if the path is one; that the working folder is gone, if the
 *  path is relative to it; else "". */
bool shoal_working_folder_gone(void); /* it was removed, so no relative path leads anywhere */
const char *shoal_dangling(const char *path, char buf[SHOAL_DANGLING]);
/** Of a path that is not there: the same, or that "runs/PATH" is, or where a relative one begins, " (from the working folder, DIR)". */
const char *shoal_why_missing(const char *path, char buf[SHOAL_DANGLING]);
/** Of a path for which permission is denied: " (DIR belongs to anna, user 1001, with mode 700; `chmod -R a+rX DIR` by its owner
 *  makes it readable)", or "" where that is not what is in the way.  Caller frees. */
char *shoal_why_denied(const char *path);
/** ERR_IO, "cannot VERB PATH: " with the text of an errno, and the numbers, the link or the owner behind it.  Of a temporary file
 *  the final name is shown. */
shoal_status shoal_io_fault(const char *verb, const char *path, int error);
/** Turns "runs/.step-1.h5.tmp-host-12" into "runs/step-1.h5", in place; other names stay. */
void shoal_drop_temporary(char *path);
/** fsync.  Its errno, or 0 for success and where the file system has no such call, as some of a network and of FUSE: then its server
 *  decides how durable a file is. */
int shoal_sync(int fd);
#endif
