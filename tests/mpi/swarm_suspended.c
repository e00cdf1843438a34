/* A partner that is suspended in mid-parcel: MPI then goes on reading the parcel sent to it, and writing the one that comes from
 * it, when everybody else has given both up.
 *
 * The last rank stops itself (SIGSTOP) as soon as a parcel is under way, and is woken when all others have given it up and have
 * exchanged other parcels since.  All numbers of a segment are equal here, in every rank and at any time: a parcel put together
 * from two, or memory that a late one was written to, shows as a number that differs.  Segments differ where one was averaged and
 * another was not. */
#include "base/clock.h"
#include "base/log.h"
#include "comm.h"
#include "method/swarm/swarm.h"
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

static int rank, size;
static shoal_backend *backend;

enum { LARGE = 5 << 18 }; /* 5 MiB: more pieces than are posted at once */

static void check_uniform(const shoal_swarm *s, const char *what, const float *x)
{
  size_t differ = 0, segment = s->segment * SHOAL_QUANT_BLOCK;
  for (size_t i = 0; x && i < LARGE; i++) differ += x[i] != x[i / segment * segment];
  CHECK_EQ(differ, 0, "%s of rank %d", what, rank);
}

static void check_models(const shoal_swarm *s)
{
  check_uniform(s, "model", s->node.x);
  check_uniform(s, "common copy", s->node.c);
  check_uniform(s, "base", s->node.b);
}

static void uniform_step(shoal_swarm *s, shoal_swarm_pairs *p, uint64_t *step)
{
  bool changed;
  float g = any_float((*step)++, rank);
  for (size_t i = 0; i < LARGE; i++) s->node.x[i] += g;
  CHECK_OK(shoal_world_progress(s->world));
  CHECK_OK(shoal_swarm_pairs_step(p, &changed));
}

/* What the timer of the rank that suspends itself looks at: in some steps a whole parcel comes and goes. */
static const shoal_swarm *volatile watched;
static volatile uint64_t sent_before, over_before;

static void stop_in_parcel(int signal)
{
  (void)signal;
  const shoal_swarm *s = watched;
  if (!s || s->parcels == sent_before || s->met + s->served != over_before) return;
  watched = NULL;
  (void)raise(SIGSTOP);
}

/* Steps until the timer finds a parcel under way. */
static void suspend_in_parcel(shoal_swarm *s, shoal_swarm_pairs *p, uint64_t *step)
{
  struct itimerval often = { .it_interval.tv_usec = 700, .it_value.tv_usec = 700 }, off = { 0 };
  struct sigaction act = { .sa_handler = stop_in_parcel, .sa_flags = SA_RESTART };
  watched = s;
  sigaction(SIGALRM, &act, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  while (watched && !check_failures) {
    sent_before = s->parcels;
    over_before = s->met + s->served;
    uniform_step(s, p, step);
  }
  setitimer(ITIMER_REAL, &off, NULL);
}

static bool is_suspended(pid_t pid)
{
  char path[64], state = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *f = fopen(path, "r");
  if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = 0;
  if (f) fclose(f);
  return state == 'T';
}

static void go_on_without(shoal_swarm *s, shoal_swarm_pairs *p, uint64_t *step, pid_t suspended)
{
  while (!is_suspended(suspended) && !check_failures) uniform_step(s, p, step);
  uint64_t since = shoal_now_ns(), met = s->met;
  while ((shoal_seconds_since(since) < 4 * s->rules.drop_after_s || s->met < met + 4) && !check_failures)
    uniform_step(s, p, step);
  if (rank > 0) MPI_Send(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  for (int missing = rank ? 0 : size - 2, here; missing && !check_failures; missing -= here) {
    uniform_step(s, p, step);
    MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &here, MPI_STATUS_IGNORE);
    if (here) MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (rank == 0) kill(suspended, SIGCONT);
}

static void suspended(shoal_swarm_variant variant)
{
  shoal_swarm_rules rules = { .variant = variant, .h = 1, .overlap = 2, .seed = 5, .drop_after_s = 0.05 };
  shoal_world *w = open_world(NULL, 0);
  shoal_swarm *s;
  shoal_swarm_pairs *p;
  shoal_rendezvous *c;
  float *x = room(LARGE * sizeof *x);
  uint64_t step = 0;
  bool changed;
  int64_t what, pid = getpid();
  CHECK_OK(shoal_group_broadcast(shoal_world_control(w), &pid, sizeof pid, size - 1));
  REQUIRE(shoal_swarm_create(w, backend, &rules, x, LARGE, &s) == SHOAL_OK, "swarm");
  REQUIRE(shoal_rendezvous_create(s->control, "test", &c) == SHOAL_OK, "swarm");
  REQUIRE(shoal_swarm_pairs_create(s, &p) == SHOAL_OK, "pairs");
  shoal_log_set_level(SHOAL_LOG_ERROR);
  for (int round = 0; round < 4; round++) {
    if (rank == size - 1)
      suspend_in_parcel(s, p, &step);
    else
      go_on_without(s, p, &step, (pid_t)pid);
    for (uint64_t met = s->met; s->met < met + 5 && !check_failures;) uniform_step(s, p, &step);
    CHECK_OK(shoal_swarm_pairs_arrive(p, &changed));
    CHECK_OK(shoal_rendezvous_meet(c, 1, NULL, NULL, &what));
    CHECK_OK(shoal_swarm_pairs_gathered(p, &changed));
    check_models(s);
    CHECK_OK(shoal_swarm_pairs_leave(p));
  }
  shoal_swarm_pairs_destroy(p);
  CHECK_OK(shoal_group_barrier(s->control));
  shoal_rendezvous_destroy(c);
  shoal_swarm_destroy(s);
  shoal_world_close(w);
  free(x);
}

int main(void)
{
  mpi_start(&rank, &size);
  REQUIRE(shoal_backend_open("cpu", 1, &backend) == SHOAL_OK, "backend");
  suspended(SHOAL_SWARM_BLOCKING);
  suspended(SHOAL_SWARM_PULL);
  suspended(SHOAL_SWARM_NONBLOCKING);
  shoal_backend_close(backend);
  return mpi_done();
}
