/* Agreement on errors: each text is printed once, by the lowest rank that has it; a text received from another rank is
 * not printed again; all ranks have the same exit status, and those that did not fail have the text of the rank that
 * did. */
#include "comm.h"
#include <unistd.h>

static int rank, size;
enum { TEXTS_MAX = 8 };

/* What a rank brings: a code and the number of its text; OK: it has not failed. */
typedef struct {
  const char *what;
  shoal_status (*code)(int rank);
  int (*text)(int rank);
} scene;

static shoal_status all_io(int r)
{
  return SHOAL_ERR_IO;
}

static shoal_status last_io(int r)
{
  return r == size - 1 ? SHOAL_ERR_IO : SHOAL_OK;
}

static shoal_status odd_fail(int r)
{
  return r % 2 == 0 ? SHOAL_OK : r == 1 ? SHOAL_ERR_USAGE : SHOAL_ERR_IO;
}

static int same(int r)
{
  return 0;
}

static int own(int r)
{
  return r;
}

static int halves(int r)
{
  return r < (size + 1) / 2;
}

static const scene scenes[] = {
  { "all have the same", all_io, same },   { "all have their own", all_io, own }, { "two texts", all_io, halves },
  { "the last one alone", last_io, same }, { "every second one", odd_fail, own },
};

/* The words of text i; the last one only. */
static const char *words(const char *what, int i, char *buf, size_t cap)
{
  snprintf(buf, cap, "%s: cannot read part %d", what, i);
  return buf;
}

static int errors_file, before;

static void capture(void)
{
  FILE *file = tmpfile();
  REQUIRE(file, "a temporary file");
  fflush(stderr);
  errors_file = fileno(file);
  before = dup(STDERR_FILENO);
  dup2(errors_file, STDERR_FILENO);
}

static const char *captured(void)
{
  static char text[1 << 16];
  fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  ssize_t n = pread(errors_file, text, sizeof text - 1, 0);
  text[n > 0 ? n : 0] = '\0';
  return text;
}

static int count(const char *text, const char *word)
{
  int n = 0;
  for (; (text = strstr(text, word)); text += strlen(word)) n++;
  return n;
}

static int first_failed(const scene *s)
{
  int r = 0;
  while (s->code(r) == SHOAL_OK) r++;
  return r;
}

static shoal_status worst(const scene *s)
{
  shoal_status st = SHOAL_OK;
  for (int r = 0; r < size; r++) st = SHOAL_MAX(st, s->code(r));
  return st;
}

/* Does this rank have to print text i; is it among the first eight? */
static bool prints(const scene *s, int r)
{
  int earlier = 0;
  if (s->code(r) == SHOAL_OK) return false;
  for (int q = 0; q < r; q++) {
    if (s->code(q) != SHOAL_OK && s->text(q) == s->text(r)) return false;
    bool new_text = s->code(q) != SHOAL_OK;
    for (int p = 0; p < q; p++) new_text &= !(s->code(p) != SHOAL_OK && s->text(p) == s->text(q));
    earlier += new_text;
  }
  return earlier < TEXTS_MAX;
}

static void play(shoal_group *g, const scene *s)
{
  char text[128], line[192];
  shoal_status mine = s->code(rank);
  if (mine != SHOAL_OK) SHOAL_FAIL(mine, "%s", words(s->what, s->text(rank), text, sizeof text));
  capture();
  shoal_status st = shoal_group_agree(g, mine);
  shoal_error_report(st); /* what main does after an agreement: nothing is left to print */
  shoal_status again = shoal_group_agree(g, st);
  shoal_error_report(again);
  const char *said = captured();
  snprintf(line, sizeof line, "[rank %d] shoal: error: %s\n", rank, words(s->what, s->text(rank), text, sizeof text));
  int want = prints(s, rank);
  CHECK_EQ(count(said, line), want, "%s, rank %d, in \"%s\"", s->what, rank, said);
  CHECK_EQ(count(said, "cannot read part"), want, "%s, rank %d: texts of other ranks: %s", s->what, rank, said);
  CHECK_STATUS(st, mine == SHOAL_OK ? SHOAL_ERR_PEER : mine, "%s, rank %d", s->what, rank);
  CHECK_EQ(again, st, "%s: agreed twice", s->what);
  CHECK_EQ(shoal_error_verdict(again), worst(s), "%s, rank %d: verdict %s", s->what, rank,
           shoal_status_name(shoal_error_verdict(again)));
  CHECK_EQ(shoal_error_exit_code(again), shoal_status_exit_code(worst(s)), "%s: exit code", s->what);
  words(s->what, s->text(mine == SHOAL_OK ? first_failed(s) : rank), text, sizeof text);
  CHECK_HAS(shoal_error_text(again), text, "%s, rank %d has the text", s->what, rank);
  snprintf(line, sizeof line, "rank %d (", first_failed(s));
  CHECK(mine != SHOAL_OK || strstr(shoal_error_text(again), line), "%s: with the rank that failed: %s", s->what,
        shoal_error_text(again));
}

/* All ranks return one code, and keep their own words. */
static void settled(shoal_group *g)
{
  shoal_status mine = rank == size - 1 ? SHOAL_FAIL(SHOAL_ERR_MEM, "no room") : SHOAL_OK;
  capture();
  shoal_status st = shoal_group_settle(g, mine);
  const char *said = captured();
  CHECK_STATUS(st, SHOAL_ERR_MEM, "rank %d", rank);
  CHECK_HAS(shoal_error_text(st), "no room", "rank %d", rank);
  CHECK_EQ(count(said, "no room"), rank == size - 1, "rank %d said \"%s\"", rank, said);
  CHECK_OK(shoal_group_settle(g, SHOAL_OK));
}

/* Some of the ranks agree first, then all: all report the rank that failed in the first agreement, once. */
static void in_two_groups(shoal_world *w)
{
  shoal_group *node = NULL;
  CHECK_OK(shoal_group_create_node(w, &node));
  bool culprit = rank == size - 1;
  capture();
  shoal_status st = shoal_group_agree(node, culprit ? SHOAL_FAIL(SHOAL_ERR_NUMERIC, "a spike") : SHOAL_OK);
  st = shoal_group_agree(shoal_world_control(w), st);
  shoal_error_report(st);
  const char *said = captured();
  CHECK_EQ(count(said, "a spike"), culprit, "rank %d said \"%s\"", rank, said);
  CHECK_HAS(shoal_error_text(st), "a spike", "rank %d knows", rank);
  CHECK_STATUS(shoal_error_verdict(st), SHOAL_ERR_NUMERIC, "verdict");
  shoal_group_destroy(node);
}

/* A rank that fails before the world is open opens it to tell the others, without knowing their options. */
static void failed_before(const char *pretend)
{
  shoal_world *w = NULL;
  shoal_world_options o = { .pretend = pretend };
  bool culprit = rank == size - 1;
  if (culprit) {
    o = (shoal_world_options){ .failed = SHOAL_FAIL(SHOAL_ERR_USAGE, "run.yaml is missing here") };
    o.no_sharing = true;
  }
  capture();
  shoal_status st = shoal_world_open(&o, &w);
  const char *said = captured();
  CHECK_STATUS(st, culprit ? SHOAL_ERR_USAGE : SHOAL_ERR_PEER, "rank %d", rank);
  CHECK(!w, "rank %d: %s", rank, shoal_status_name(st));
  CHECK_EQ(shoal_error_exit_code(st), 2, "rank %d", rank);
  CHECK_HAS(shoal_error_text(st), "run.yaml is missing here", "rank %d knows", rank);
  CHECK_EQ(count(said, "shoal: error:"), culprit && size > 1, "rank %d said \"%s\"", rank, said);
}

int main(void)
{
  mpi_start(&rank, &size);
  shoal_world *w = open_world(NULL, 0);
  if (size > 1) {
    for (size_t i = 0; i < SHOAL_COUNT(scenes); i++) play(shoal_world_control(w), &scenes[i]);
    settled(shoal_world_group(w));
  }
  shoal_world_close(w);
  char pretend[32];
  snprintf(pretend, sizeof pretend, "%dx1", size);
  if (size > 1) {
    w = open_world(pretend, 0);
    in_two_groups(w);
    shoal_world_close(w);
    failed_before(pretend);
  }
  w = open_world(NULL, 0);
  shoal_status st = shoal_group_agree(shoal_world_control(w), SHOAL_OK);
  CHECK_OK(st, "a world opens after these failures");
  shoal_world_close(w);
  return mpi_done();
}
