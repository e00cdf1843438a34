/* Quotas: what a file system lets one user or group write, although it has more room. */
#ifndef SHOAL_BASE_QUOTA_H
#define SHOAL_BASE_QUOTA_H
#include <stdbool.h>
#include <stdint.h>

/** Bytes that files of this process can still take in the folder `dir` by the hard limits of its user and of the group that new
 *  files there get; UINT64_MAX: no limit, or none that this machine's kernel knows (a server enforces its own).
 *  @param group  out, whether the group's limit is the smaller one; set with a limit only */
uint64_t shoal_quota_left(const char *dir, bool *group);
/** The number of files (inodes) that a quota allows, if no more can be made by it; else 0. */
uint64_t shoal_quota_files(const char *dir, bool *group);
#endif
