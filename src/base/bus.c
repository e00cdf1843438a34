/* See bus.h.  The handler runs in the middle of anything: it takes no lock and no memory of the heap. */
#include "base/bus.h"
#include "base/env.h"
#include "base/mem.h"
#include "base/status.h"
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

/* A launcher ends the other ranks within little more than a second, so what all meet is told once, by the lowest. */
enum { TURN_US = 2500000, TURNS = 4 };

static int rank;
static char maps[1 << 20]; /* a rank has several hundred lines of less than 200 characters */

/* The file that is mapped at an address; "" if it is none.  A line: "7f00-7f80 rw-s 00000000 00:19 7    /dev/shm/name". */
static void find_file(uintptr_t at, char file[PATH_MAX])
{
  size_t n = 0;
  ssize_t more;
  int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  file[0] = '\0';
  while (fd >= 0 && n < sizeof maps - 1 && (more = read(fd, maps + n, sizeof maps - 1 - n)) > 0) n += (size_t)more;
  if (fd >= 0) close(fd);
  maps[n] = '\0';
  for (char *line = maps, *end; *line; line = end + 1) {
    uintmax_t from, to;
    end = strchrnul(line, '\n');
    bool last = *end == '\0';
    *end = '\0';
    const char *path = strchr(line, '/');
    if (sscanf(line, "%" SCNxMAX "-%" SCNxMAX, &from, &to) == 2 && at >= from && at < to && path)
      snprintf(file, PATH_MAX, "%.*s", (int)(strcspn(path, "\n")), path);
    if (last) return;
  }
}

/* What chooses another folder for the files of Open MPI. */
static const char *cure(const char *file)
{
  if (strstr(file, "/vader_segment")) return ", or OMPI_MCA_btl_vader_backing_directory=FOLDER for one that has room";
  if (strstr(file, "/sm_segment")) return ", or OMPI_MCA_btl_sm_backing_directory=FOLDER for one that has room";
  return "";
}

static void tell(uintptr_t at)
{
  char file[PATH_MAX], line[2 * PATH_MAX + 512];
  struct statfs s;
  find_file(at, file);
  if (!file[0]) {
    snprintf(line, sizeof line, "shoal: error: a bus error: memory of this process cannot be reached\n");
  } else {
    int folder = (int)(strrchr(file, '/') - file);
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%.*s", folder ? folder : 1, file);
    double left = statfs(dir, &s) == 0 ? (double)s.f_bavail * (double)s.f_bsize / 1048576 : 0;
    snprintf(
        line, sizeof line,
        "[rank %d] shoal: error: no room in %s: memory that ranks share, the file %s, cannot be had there, where %.1f "
        "MiB are free; make room (df -h %s), give a container more (docker --shm-size)%s\n",
        rank, dir, file, left, dir, cure(file));
  }
  (void)!write(STDERR_FILENO, line, strlen(line));
}

static void on_bus(int number, siginfo_t *info, void *context)
{
  (void)context;
  if (info->si_code <= 0) { /* sent by a process */
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  usleep((useconds_t)(TURN_US * SHOAL_MIN(rank, TURNS)));
  tell((uintptr_t)info->si_addr);
  _exit(shoal_status_exit_code(SHOAL_ERR_IO));
}

void shoal_bus_hear(void)
{
  struct sigaction a = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };
  sigemptyset(&a.sa_mask);
  rank = SHOAL_MAX(shoal_env_int(NULL, "OMPI_COMM_WORLD_RANK", 0), shoal_env_int(NULL, "PMIX_RANK", 0));
  rank = SHOAL_MAX(rank, 0);
  sigaction(SIGBUS, &a, NULL);
}
