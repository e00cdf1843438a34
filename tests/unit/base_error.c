/* Errors as values: what a thread keeps, what can be done with it, and that it is printed once. */
#include "base/error.h"
#include "base/log.h"
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static char printed[3 * SHOAL_ERROR_TEXT];

/* Runs `report` for `st` and returns what came to standard error. */
static const char *report(shoal_status st)
{
  FILE *file = tmpfile();
  fflush(stderr);
  int before = dup(STDERR_FILENO);
  REQUIRE(file, "a file for standard error");
  REQUIRE(before >= 0, "a file for standard error");
  REQUIRE(dup2(fileno(file), STDERR_FILENO) >= 0, "a file for standard error");
  shoal_error_report(st);
  fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  rewind(file);
  printed[fread(printed, 1, sizeof printed - 1, file)] = '\0';
  fclose(file);
  return printed;
}

static void check_printed(shoal_status st, const char *want)
{
  CHECK_STR(report(st), want);
}

static void check_text(shoal_status st, const char *want)
{
  CHECK_STR(shoal_error_text(st), want);
}

static shoal_status fail(shoal_status st, const char *text)
{
  return SHOAL_FAIL(st, "%s", text);
}

static void a_later_one_replaces_it(void)
{
  CHECK_STATUS(fail(SHOAL_ERR_MEM, "no memory for x"), SHOAL_ERR_MEM, "the code comes back");
  check_text(SHOAL_ERR_MEM, "no memory for x");
  check_text(SHOAL_ERR_IO, shoal_status_text(SHOAL_ERR_IO)); /* not the text of another code */
  fail(SHOAL_ERR_IO, "cannot read y");
  check_text(SHOAL_ERR_IO, "cannot read y");
  check_text(SHOAL_ERR_MEM, shoal_status_text(SHOAL_ERR_MEM));
}

static void words_in_front(void)
{
  fail(SHOAL_ERR_ARG, "3 channels, not 4");
  CHECK_STATUS(shoal_error_prefix(SHOAL_ERR_ARG, "layer %s: ", "norm1"), SHOAL_ERR_ARG, "the code stays");
  check_text(SHOAL_ERR_ARG, "layer norm1: 3 channels, not 4");
  CHECK_OK(shoal_error_prefix(SHOAL_OK, "layer x: "), "no failure");
  check_text(SHOAL_ERR_ARG, "layer norm1: 3 channels, not 4");
  shoal_error_prefix(SHOAL_ERR_IO, "disk: "); /* a code that came without words */
  CHECK(strncmp(shoal_error_text(SHOAL_ERR_IO), "disk: input", 11) == 0, "%s", shoal_error_text(SHOAL_ERR_IO));
  CHECK_STATUS(shoal_error_as(fail(SHOAL_ERR_USAGE, "n[1-"), SHOAL_ERR_WORLD), SHOAL_ERR_WORLD, "another code");
  check_text(SHOAL_ERR_WORLD, "n[1-");
  fail(SHOAL_ERR_IO, "inner");
  fail(SHOAL_ERR_IO, "outer of inner");
  SHOAL_FAIL(SHOAL_ERR_USAGE, "cause: %s", shoal_error_text(SHOAL_ERR_IO)); /* an argument out of the kept text */
  check_text(SHOAL_ERR_USAGE, "cause: outer of inner");
}

static void printed_once(void)
{
  fail(SHOAL_ERR_IO, "cannot read z");
  check_printed(SHOAL_ERR_IO, "shoal: error: cannot read z\n");
  check_printed(SHOAL_ERR_IO, "");
  fail(SHOAL_ERR_IO, "cannot read z"); /* the same words, another error */
  check_printed(SHOAL_ERR_IO, "shoal: error: cannot read z\n");
  check_printed(SHOAL_OK, "");
  check_printed(SHOAL_STOPPED, "");
  check_printed(SHOAL_ERR_NUMERIC, "shoal: error: not a number, infinite, or a spike\n");
  shoal_error_told(fail(SHOAL_ERR_IO, "said elsewhere"));
  check_printed(SHOAL_ERR_IO, "");
  shoal_log_set_level(SHOAL_LOG_DEBUG);
  fail(SHOAL_ERR_IO, "cannot read z");
  report(SHOAL_ERR_IO);
  CHECK_HAS(printed, "cannot read z [ERR_IO at ");
  CHECK_HAS(printed, "base_error.c:");
  shoal_log_set_level(SHOAL_LOG_INFO);
}

static void several_lines(void)
{
  shoal_error all = { .code = SHOAL_OK };
  shoal_error_join(&all, SHOAL_OK);
  CHECK_OK(all.code, "nothing failed");
  shoal_error_join(&all, fail(SHOAL_ERR_USAGE, "a.b is -1"));
  shoal_error_join(&all, SHOAL_OK);
  shoal_error_join(&all, fail(SHOAL_ERR_USAGE, "c.d is missing"));
  CHECK_STATUS(shoal_error_put(&all), SHOAL_ERR_USAGE, "the first code");
  check_text(SHOAL_ERR_USAGE, "a.b is -1\nc.d is missing");
  check_printed(SHOAL_ERR_USAGE, "shoal: error: a.b is -1\nshoal: error: c.d is missing\n");
  char line[1001];
  memset(line, 'x', sizeof line - 1);
  line[1000] = '\0';
  all.code = SHOAL_OK;
  for (int i = 0; i < 20; i++) shoal_error_join(&all, fail(SHOAL_ERR_USAGE, line));
  shoal_error_put(&all);
  CHECK_EQ(strlen(shoal_error_text(SHOAL_ERR_USAGE)), SHOAL_ERROR_TEXT - 1, "cut to what there is room for");
}

/* A line break in a name is no second message, and nothing in a name moves the cursor. */
static void names_from_files(void)
{
  shoal_error all = { .code = SHOAL_OK };
  shoal_error_join(&all, fail(SHOAL_ERR_IO, "cannot read a\nshoal: error: b\x1b[2J"));
  shoal_error_join(&all, fail(SHOAL_ERR_IO, "c\td"));
  shoal_error_put(&all);
  shoal_error_prefix(SHOAL_ERR_IO, "in e\nf: ");
  check_printed(SHOAL_ERR_IO, "shoal: error: in e\\nf: cannot read a\\nshoal: error: b\\x1b[2J\nshoal: error: c\\td\n");
  fail(SHOAL_ERR_IO, "g");
  shoal_error_append(SHOAL_ERR_IO, " (host %s)", "h\ni");
  check_text(SHOAL_ERR_IO, "g (host h\\ni)");
}

static void the_earlier_one_comes_back(void)
{
  shoal_error before, first = { .code = SHOAL_OK };
  fail(SHOAL_ERR_NUMERIC, "the reason");
  shoal_error_take(&before);
  CHECK_STR(check_error(), "");
  fail(SHOAL_ERR_NUMERIC, "a damaged file, skipped");
  CHECK_STATUS(shoal_error_put(&before), SHOAL_ERR_NUMERIC, "its code");
  check_text(SHOAL_ERR_NUMERIC, "the reason");
  shoal_error_keep(&first, SHOAL_OK);
  shoal_error_keep(&first, fail(SHOAL_ERR_IO, "the first"));
  shoal_error_keep(&first, fail(SHOAL_ERR_MEM, "the second"));
  check_text(SHOAL_ERR_MEM, "out of memory: the second");
  CHECK_STATUS(first.code, SHOAL_ERR_IO);
  CHECK_STR(first.text, "the first");
  shoal_error_put(&(shoal_error){ .code = SHOAL_OK });
  CHECK_STR(check_error(), "");
}

static void verdicts(void)
{
  CHECK_EQ(shoal_error_exit_code(fail(SHOAL_ERR_IO, "x")), 7, "its own");
  shoal_error e;
  fail(SHOAL_ERR_PEER, "rank 3 failed: x");
  shoal_error_take(&e);
  e.verdict = SHOAL_ERR_USAGE;
  shoal_error_put(&e);
  CHECK_EQ(shoal_error_exit_code(SHOAL_ERR_PEER), 2, "that of all ranks");
  CHECK_STATUS(shoal_error_verdict(SHOAL_ERR_PEER), SHOAL_ERR_USAGE, "the code that all know");
  CHECK_EQ(shoal_error_exit_code(SHOAL_ERR_IO), 7, "others keep theirs");
  CHECK_EQ(shoal_error_exit_code(SHOAL_OK), 0);
  CHECK_STATUS(shoal_error_verdict(fail(SHOAL_ERR_PEER, "y")), SHOAL_ERR_PEER, "a new error has none yet");
}

static void *read_ahead(void *out)
{
  CHECK_STR(check_error(), "", "a new thread has no error");
  fail(SHOAL_ERR_IO, "read by a thread");
  shoal_error_take(out);
  return NULL;
}

static void over_threads(void)
{
  pthread_t thread;
  shoal_error theirs;
  fail(SHOAL_ERR_IO, "mine");
  REQUIRE(pthread_create(&thread, NULL, read_ahead, &theirs) == 0, "a thread");
  pthread_join(thread, NULL);
  check_text(SHOAL_ERR_IO, "mine");
  CHECK_STATUS(shoal_error_put(&theirs), SHOAL_ERR_IO, "its code");
  check_text(SHOAL_ERR_IO, "read by a thread");
  check_printed(SHOAL_ERR_IO, "shoal: error: read by a thread\n");
}

int main(void)
{
  a_later_one_replaces_it();
  words_in_front();
  printed_once();
  several_lines();
  names_from_files();
  the_earlier_one_comes_back();
  verdicts();
  over_threads();
  return check_done();
}
