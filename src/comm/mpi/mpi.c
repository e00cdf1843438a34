/* The transport over MPI: a channel is a communicator, a slot is a request.
 *
 * Active requests are stored contiguously in one array, so that a poll is a single MPI_Testsome over all of them:
 *
 *     requests  [ r0 r1 r2 r3 ]      owner  [ 5 0 2 7 ]      slots[5].place = 0, slots[0].place = 1, ...
 *
 * A finished request is replaced by the last one.  The arrays grow when an exchange is planned or a blocking call needs
 * more slots, never in a step.  MPI calls return errors (MPI_ERRORS_RETURN), and our errors quote MPI's text.
 *
 * Uses MPI 3 functions that Open MPI 5 still has.  No one-sided communication: over TCP, Open MPI's waits for the
 * target to make progress.  MPI_THREAD_MULTIPLE is requested because loader and trace have threads, but only one thread
 * at a time calls MPI.
 */
#include "base/mem.h"
#include "comm/group_impl.h"
#include "comm/mpi/mpi_error.h"
#include <stdlib.h>

struct shoal_channel {
  shoal_world *w;
  MPI_Comm comm;
};

struct slot {
  bool busy, receiving, cancelled;
  bool any; /* receiving from any rank, and up to `want` bytes */
  int from; /* whose message it was then */
  shoal_slot_state state;
  int place; /* in requests[] while pending */
  size_t want, got;
};

struct mpi_state {
  bool finalise; /* we called MPI_Init */
  int n, cap;    /* active requests; capacity for requests and slots */
  int reserved;  /* slots promised by reserve() */
  MPI_Request *requests;
  int *owner;           /* slot of each request */
  MPI_Status *statuses; /* of one poll */
  int *finished;
  struct slot *slots;
  int *free_slots; /* a stack of cap - busy */
  int n_free;
};

static struct mpi_state *state_of(const shoal_world *w)
{
  return w->transport_state;
}

/* ------------------------------------------------------------------------------------------------------ slots */

static shoal_status grow_array(void **array, size_t n, size_t size, const char *what)
{
  void *bigger = realloc(*array, n * size);
  SHOAL_CHECK(bigger, SHOAL_ERR_MEM, "out of memory: %s needs %zu x %zu bytes", what, n, size);
  *array = bigger;
  return SHOAL_OK;
}

static shoal_status grow(struct mpi_state *s, int cap)
{
  if (cap <= s->cap) return SHOAL_OK;
  size_t n = (size_t)cap;
  SHOAL_TRY(grow_array((void **)&s->requests, n, sizeof(MPI_Request), "requests"));
  SHOAL_TRY(grow_array((void **)&s->owner, n, sizeof *s->owner, "requests"));
  SHOAL_TRY(grow_array((void **)&s->statuses, n, sizeof *s->statuses, "requests"));
  SHOAL_TRY(grow_array((void **)&s->finished, n, sizeof *s->finished, "requests"));
  SHOAL_TRY(grow_array((void **)&s->slots, n, sizeof *s->slots, "requests"));
  SHOAL_TRY(grow_array((void **)&s->free_slots, n, sizeof *s->free_slots, "requests"));
  for (int i = cap - 1; i >= s->cap; i--) {
    s->slots[i] = (struct slot){ 0 };
    s->free_slots[s->n_free++] = i;
  }
  s->cap = cap;
  return SHOAL_OK;
}

static shoal_status reserve_mpi(shoal_world *w, int more)
{
  struct mpi_state *s = state_of(w);
  s->reserved += more;
  return grow(s, s->reserved);
}

static shoal_status take_slot(struct mpi_state *s, bool receiving, size_t bytes, int *out)
{
  if (!s->n_free) SHOAL_TRY(grow(s, s->cap * 2));
  *out = s->free_slots[--s->n_free];
  s->slots[*out] = (struct slot){ .busy = true, .receiving = receiving, .place = s->n, .want = bytes };
  s->owner[s->n] = *out;
  return SHOAL_OK;
}

static void put_back(struct mpi_state *s, int slot)
{
  s->slots[slot].busy = false;
  s->free_slots[s->n_free++] = slot;
}

/* Moves the last request into the place of a completed one. */
static void drop_request(struct mpi_state *s, int place)
{
  int last = --s->n;
  s->requests[place] = s->requests[last];
  s->owner[place] = s->owner[last];
  s->slots[s->owner[place]].place = place;
}

static shoal_status send_mpi(shoal_channel *c, const void *data, size_t bytes, int to, int tag, int *slot)
{
  struct mpi_state *s = state_of(c->w);
  SHOAL_TRY(take_slot(s, false, bytes, slot));
  int rc = MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, c->comm, &s->requests[s->n]);
  if (rc != MPI_SUCCESS) {
    put_back(s, *slot);
    return shoal_mpi_fail(rc, "MPI_Isend", __FILE__, __LINE__);
  }
  s->n++;
  return SHOAL_OK;
}

static shoal_status recv_mpi(shoal_channel *c, void *data, size_t bytes, int from, int tag, int *slot)
{
  struct mpi_state *s = state_of(c->w);
  SHOAL_TRY(take_slot(s, true, bytes, slot));
  s->slots[*slot].any = from == SHOAL_FROM_ANY;
  int rc = MPI_Irecv(data, (int)bytes, MPI_BYTE, from == SHOAL_FROM_ANY ? MPI_ANY_SOURCE : from, tag, c->comm,
                     &s->requests[s->n]);
  if (rc != MPI_SUCCESS) {
    put_back(s, *slot);
    return shoal_mpi_fail(rc, "MPI_Irecv", __FILE__, __LINE__);
  }
  s->n++;
  return SHOAL_OK;
}

static shoal_slot_state state_mpi(const shoal_world *w, int slot, size_t *got)
{
  const struct slot *s = &state_of(w)->slots[slot];
  *got = s->got;
  return s->state;
}

static int sender_mpi(const shoal_world *w, int slot)
{
  return state_of(w)->slots[slot].from;
}

/* A receive that has been matched is not cancelled and completes as if nothing had been asked. */
static void cancel_mpi(shoal_world *w, int slot)
{
  struct mpi_state *s = state_of(w);
  struct slot *it = &s->slots[slot];
  if (it->state != SHOAL_SLOT_PENDING || !it->receiving || it->cancelled) return;
  it->cancelled = true;
  MPI_Cancel(&s->requests[it->place]);
}

/* Abandons a pending operation: a receive can be cancelled, a send cannot (in Open MPI); after MPI_Request_free MPI
 * releases the request on completion.  The run is ending, and the owner leaks the buffer. */
static void release_mpi(shoal_world *w, int slot)
{
  struct mpi_state *s = state_of(w);
  if (s->slots[slot].state == SHOAL_SLOT_PENDING) {
    int place = s->slots[slot].place;
    if (s->slots[slot].receiving) MPI_Cancel(&s->requests[place]);
    MPI_Request_free(&s->requests[place]);
    drop_request(s, place);
  }
  put_back(s, slot);
}

/* ------------------------------------------------------------------------------------------------------- poll */

static shoal_status finish(struct mpi_state *s, const MPI_Status *status, int error, int place)
{
  struct slot *slot = &s->slots[s->owner[place]];
  int count = 0, class = MPI_SUCCESS;
  slot->state = SHOAL_SLOT_DONE;
  if (slot->cancelled) return SHOAL_OK; /* nobody wants to know what came */
  if (error != MPI_SUCCESS) MPI_Error_class(error, &class);
  if (class == MPI_SUCCESS && !slot->receiving) return SHOAL_OK;
  if (class != MPI_SUCCESS && class != MPI_ERR_TRUNCATE) return shoal_mpi_fail(error, "a message", __FILE__, __LINE__);
  MPI_Get_count(status, MPI_BYTE, &count);
  slot->got = (size_t)count;
  slot->from = status->MPI_SOURCE;
  bool fits = slot->any ? slot->got <= slot->want : slot->got == slot->want;
  if (class == MPI_ERR_TRUNCATE || !fits) slot->state = SHOAL_SLOT_WRONG_SIZE;
  return SHOAL_OK;
}

static shoal_status poll_mpi(shoal_world *w, size_t *completed)
{
  struct mpi_state *s = state_of(w);
  int n = 0;
  *completed = 0;
  if (!s->n) return SHOAL_OK;
  int rc = MPI_Testsome(s->n, s->requests, &n, s->finished, s->statuses), class = MPI_SUCCESS;
  if (rc != MPI_SUCCESS) MPI_Error_class(rc, &class);
  if (rc != MPI_SUCCESS && class != MPI_ERR_IN_STATUS) return shoal_mpi_fail(rc, "MPI_Testsome", __FILE__, __LINE__);
  if (n == MPI_UNDEFINED || n <= 0) return SHOAL_OK;
  shoal_status st = SHOAL_OK;
  for (int i = 0; i < n; i++) {
    int error = rc == MPI_SUCCESS ? MPI_SUCCESS : s->statuses[i].MPI_ERROR;
    shoal_status now = finish(s, &s->statuses[i], error, s->finished[i]);
    if (st == SHOAL_OK) st = now;
  }
  for (int i = 0; i < s->n;)
    if (s->slots[s->owner[i]].state != SHOAL_SLOT_PENDING)
      drop_request(s, i);
    else
      i++;
  *completed = (size_t)n;
  return st;
}

static bool peek_mpi(shoal_channel *c, int *from, int *tag, size_t *bytes)
{
  MPI_Status status;
  int flag = 0, count = 0;
  int source = *from == SHOAL_FROM_ANY ? MPI_ANY_SOURCE : *from;
  if (MPI_Iprobe(source, MPI_ANY_TAG, c->comm, &flag, &status) != MPI_SUCCESS || !flag) return false;
  *from = status.MPI_SOURCE;
  MPI_Get_count(&status, MPI_BYTE, &count);
  *tag = status.MPI_TAG;
  *bytes = (size_t)count;
  return true;
}

/* ----------------------------------------------------------------------------------------------- communicators */

static void disconnect_mpi(shoal_channel *c)
{
  if (c && c->comm != MPI_COMM_NULL) MPI_Comm_free(&c->comm);
  free(c);
}

/* MPI_Comm_create_group is collective over the members only, so other ranks need not take part. */
static shoal_status connect_mpi(shoal_world *w, const int *world_ranks, int n, shoal_channel **out)
{
  shoal_status st = SHOAL_OK;
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  shoal_channel *c;
  SHOAL_TRY(SHOAL_ALLOC(1, &c));
  *c = (shoal_channel){ w, MPI_COMM_NULL };
  SHOAL_TRY_MPI_GOTO(st, MPI_Comm_group(MPI_COMM_WORLD, &all), done);
  SHOAL_TRY_MPI_GOTO(st, MPI_Group_incl(all, n, world_ranks, &some), done);
  SHOAL_TRY_MPI_GOTO(st, MPI_Comm_create_group(MPI_COMM_WORLD, some, 0, &c->comm), done);
  SHOAL_TRY_MPI_GOTO(st, MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN), done);
  *out = c;
done:
  if (some != MPI_GROUP_NULL) MPI_Group_free(&some);
  if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
  if (st != SHOAL_OK) disconnect_mpi(c);
  return st;
}

/* ------------------------------------------------------------------------------------------------ open and close */

/* MPI_Finalize waits for every rank.  After an exchange has failed one of them hangs or is gone, so this process leaves
 * without it, with its own exit code; launchers take that as a reason to end the others. */
static void close_mpi(shoal_world *w)
{
  struct mpi_state *s = state_of(w);
  if (!s) return;
  if (s->finalise && !w->broken) MPI_Finalize();
  free(s->requests);
  free(s->owner);
  free(s->statuses);
  free(s->finished);
  free(s->slots);
  free(s->free_slots);
  free(s);
  w->transport_state = NULL;
}

static void abort_mpi(int exit_code)
{
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  exit(exit_code);
}

static shoal_status start_library(struct mpi_state *s)
{
  int running = 0, over = 0, given = MPI_THREAD_SINGLE;
  SHOAL_TRY_MPI(MPI_Initialized(&running));
  SHOAL_TRY_MPI(MPI_Finalized(&over));
  SHOAL_CHECK(!over, SHOAL_ERR_COMM, "MPI was finalised before and cannot be started again in one process");
  if (!running) {
    SHOAL_TRY_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &given));
    s->finalise = true;
    SHOAL_CHECK(given >= MPI_THREAD_FUNNELED, SHOAL_ERR_UNSUPPORTED,
                "this MPI (%s) was built without thread support; use one that has it", shoal_world_library());
  }
  SHOAL_TRY_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  return SHOAL_OK;
}

static shoal_status learn_world(shoal_world *w)
{
  int *largest_tag = NULL, found = 0;
  SHOAL_TRY_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &w->rank));
  SHOAL_TRY_MPI(MPI_Comm_size(MPI_COMM_WORLD, &w->size));
  SHOAL_TRY_MPI(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest_tag, &found));
  w->plan_tags = ((found ? *largest_tag : 32767) - SHOAL_TAG_PLAN) / SHOAL_TAG_STARTS;
  return SHOAL_OK;
}

shoal_status shoal_mpi_open(shoal_world *w)
{
  static const shoal_transport mpi = {
    .name = "mpi",
    .connect = connect_mpi,
    .disconnect = disconnect_mpi,
    .reserve = reserve_mpi,
    .send = send_mpi,
    .recv = recv_mpi,
    .state = state_mpi,
    .sender = sender_mpi,
    .cancel = cancel_mpi,
    .release = release_mpi,
    .poll = poll_mpi,
    .peek = peek_mpi,
    .takes_device = shoal_mpi_takes_device,
    .close = close_mpi,
    .abort = abort_mpi,
  };
  struct mpi_state *s;
  SHOAL_TRY(SHOAL_ALLOC(1, &s));
  w->transport = &mpi;
  w->transport_state = s;
  SHOAL_TRY(start_library(s));
  SHOAL_TRY(learn_world(w));
  return reserve_mpi(w, 64); /* enough for most blocking calls */
}
