/* A bus error is told with the file and its folder's room; one that a process sends is not. */
#include "base/bus.h"
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char text[4096];

/* Runs `end` in a child; returns how that ended, and what it wrote to stderr in `text`. */
static int run_child(void (*end)(void))
{
  int ends[2], how;
  REQUIRE(pipe(ends) == 0, "a pipe");
  pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], STDERR_FILENO);
    shoal_bus_hear();
    end();
    _exit(0);
  }
  close(ends[1]);
  ssize_t n = read(ends[0], text, sizeof text - 1);
  text[n > 0 ? n : 0] = '\0';
  close(ends[0]);
  REQUIRE(waitpid(pid, &how, 0) == pid, "a child");
  return how;
}

/* A page beyond the end of its file is one that cannot be had. */
static void touch_nothing(void)
{
  char name[] = "/tmp/vader_segment.XXXXXX";
  int fd = mkstemp(name);
  char *at = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  unlink(name);
  at[40000] = 1;
}

static void send(void)
{
  kill(getpid(), SIGBUS);
}

int main(void)
{
  int how = run_child(touch_nothing);
  CHECK(WIFEXITED(how), "%x", (unsigned)how);
  CHECK_EQ(WEXITSTATUS(how), 7);
  CHECK(strstr(text, "no room in /tmp: memory that ranks share, the file /tmp/vader_segment."), "%s", text);
  CHECK(strstr(text, "OMPI_MCA_btl_vader_backing_directory"), "%s", text);
  CHECK(strchr(text, '\n') == text + strlen(text) - 1, "not one line: %s", text);
  how = run_child(send);
  CHECK(WIFSIGNALED(how), "%x", (unsigned)how);
  CHECK_EQ(WTERMSIG(how), SIGBUS);
  CHECK_STR(text, "");
  return check_done();
}
