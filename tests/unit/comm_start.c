/* A start that lasts too long: what rank 0 says, how it ends, and that nothing is said of one that comes to its end. */
#include "check.h"
#include "comm/group_impl.h"
#include <sys/wait.h>
#include <unistd.h>

/* A child that waits for ever, or as long as `until` says; its exit code, and what it printed. */
static int start_in_child(shoal_start s, bool ends, char *text, size_t cap)
{
  int ends_of[2], status = 0;
  REQUIRE(pipe(ends_of) == 0, "pipe");
  pid_t child = fork();
  if (child == 0) {
    dup2(ends_of[1], STDERR_FILENO);
    shoal_start_begin(&s);
    while (!ends) pause();
    shoal_start_end(&s);
    _exit(0);
  }
  close(ends_of[1]);
  size_t n = 0;
  for (ssize_t got; (got = read(ends_of[0], text + n, cap - 1 - n)) > 0;) n += (size_t)got;
  text[n] = '\0';
  close(ends_of[0]);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
  char text[2048];
  shoal_start s = { .warn_s = 0.05, .hang_s = 0.15, .rank = 0, .size = 4 };
  CHECK_EQ(start_in_child(s, false, text, sizeof text), 5);
  CHECK_HAS(text, "warning: MPI has not started after 0.05 s: rank 0 (");
  CHECK_HAS(text, "some of the 4 ranks have not come");
  CHECK_HAS(text, "error: MPI has not started: rank 0 (");
  CHECK_HAS(text, "gave up after 0.15 s");
  s.warn_s = s.hang_s = 1000;
  CHECK_EQ(start_in_child(s, true, text, sizeof text), 0);
  CHECK_EQ(strlen(text), 0, "%s", text);
  return check_done();
}
