/* A rank that leaves after an error of its own has told it: the others of its node, which notice that it is gone, have its error and
 * are silent.  The launcher sees only the parent of each rank, or it would end the others first. */
#include "comm.h"
#include "comm/group_impl.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEFT = 9, PATIENCE_S = 20 };

static int rank_main(void)
{
  int rank, size;
  mpi_start(&rank, &size);
  shoal_world *w = open_world(NULL, 0);
  if (rank == 1) {
    shoal_share_leave(w, "the device has failed");
    _exit(LEFT);
  }
  uint64_t begin = shoal_now_ns();
  shoal_status st;
  bool lower_lives;
  do {
    st = shoal_world_check_peers(w, &lower_lives);
    usleep(10000);
  } while (st == SHOAL_OK && shoal_seconds_since(begin) < PATIENCE_S);
  CHECK_STATUS(st, SHOAL_ERR_PEER);
  CHECK_HAS(check_error(), "rank 1 (");
  CHECK_HAS(check_error(), ") failed: the device has failed");
  shoal_error e;
  shoal_error_take(&e);
  CHECK(e.told, "it would be printed again");
  if (check_done() == 0) puts("rank 0 was told"); /* what the test asks for: MPI cannot be ended without rank 1 */
  fflush(NULL);
  _exit(0);
}

int main(void)
{
  pid_t child = fork();
  int end = 0;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return rank_main();
  }
  waitpid(child, &end, 0);
  if (!WIFEXITED(end)) return 1;
  if (WEXITSTATUS(end) != LEFT) return WEXITSTATUS(end);
  sleep(2);
  return 0;
}
