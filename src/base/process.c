/* See process.h.  The source is /proc/PID/stat, "7 (name) S 1 ...", counted from behind the name, which may hold any character. */
#include "base/process.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool shoal_process_lives(long pid, shoal_process *out)
{
  char path[64], line[1024] = "", state = 0;
  shoal_process p = { 0 };
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  FILE *f = fopen(path, "re");
  if (f && !fgets(line, sizeof line, f)) line[0] = '\0';
  if (f) fclose(f);
  const char *rest = strrchr(line, ')');
  /* The fields from the third on: state, parent, group, session, terminal; the 22nd is the start. */
  if (rest && sscanf(rest, ") %c %ld %*d %*d %d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
                     &state, &p.parent, &p.terminal, &p.started) != 4)
    p = (shoal_process){ 0 };
  p.stopped = state == 'T';
  if (out) *out = p;
  return state ? state != 'Z' && state != 'X' : kill((pid_t)pid, 0) == 0 || errno != ESRCH;
}

shoal_kernel shoal_kernel_here(void)
{
  shoal_kernel k = { "-", "-" };
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (f && fscanf(f, "%39s", k.boot) != 1) strcpy(k.boot, "-");
  if (f) fclose(f);
  ssize_t n = readlink("/proc/self/ns/pid", k.pid_space, sizeof k.pid_space - 1);
  if (n > 0)
    k.pid_space[n] = '\0';
  else
    strcpy(k.pid_space, "-");
  return k;
}

bool shoal_kernel_is_here(const char *boot, const char *pid_space)
{
  shoal_kernel k = shoal_kernel_here();
  return strcmp(k.boot, boot) == 0 && strcmp(k.pid_space, pid_space) == 0;
}
