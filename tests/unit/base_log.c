/* What reaches stdout, stderr and the log file, whole lines from many threads, and the live line on
 * a pseudo terminal. */
#define _GNU_SOURCE
#include "base/log.h"
#include "base/status.h"
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Runs `work` with stdout and stderr going to files, and hands back what came. */
static void capture(void (*work)(void), char *out, char *err, size_t cap)
{
  char *texts[2] = { out, err };
  int saved[2];
  FILE *files[2];
  fflush(stdout);
  fflush(stderr);
  for (int i = 0; i < 2; i++) {
    saved[i] = dup(i + 1);
    files[i] = tmpfile();
    REQUIRE(saved[i] >= 0, "temporary file");
    REQUIRE(files[i], "temporary file");
    dup2(fileno(files[i]), i + 1);
  }
  work();
  fflush(stdout);
  fflush(stderr);
  for (int i = 0; i < 2; i++) {
    dup2(saved[i], i + 1);
    close(saved[i]);
    ssize_t n = pread(fileno(files[i]), texts[i], cap - 1, 0);
    texts[i][n > 0 ? n : 0] = '\0';
    fclose(files[i]);
  }
}

static void say_everything(void)
{
  shoal_info("progress %d", 1);
  shoal_warn("care");
  shoal_debug("detail");
  shoal_log(SHOAL_LOG_ERROR, "disk %s", "full");
  shoal_log_live("never in a file");
}

static void test_streams(void)
{
  char out[4096], err[4096];
  capture(say_everything, out, err, sizeof out);
  CHECK_STR(out, "progress 1\n");
  CHECK_STR(err, "shoal: warning: care\nshoal: error: disk full\n");

  shoal_log_set_rank(2, 4);
  CHECK_EQ(shoal_log_rank(), 2);
  capture(say_everything, out, err, sizeof out);
  CHECK_STR(out, "");
  CHECK_STR(err, "[rank 2] shoal: warning: care\n[rank 2] shoal: error: disk full\n");

  shoal_log_set_rank(0, 4);
  shoal_log_set_level(SHOAL_LOG_DEBUG);
  capture(say_everything, out, err, sizeof out);
  CHECK_STR(out, "progress 1\n");
  CHECK_HAS(err, "[rank 0] shoal: debug: detail\n");
  shoal_log_set_level(SHOAL_LOG_ERROR);
  capture(say_everything, out, err, sizeof out);
  CHECK_STR(out, "");
  CHECK_STR(err, "[rank 0] shoal: error: disk full\n");
  shoal_log_set_level(SHOAL_LOG_INFO);
  shoal_log_set_rank(0, 1);
}

static FILE *late_file;

static void say_before_the_file(void)
{
  shoal_log_remember();
  shoal_warn("early");
  shoal_log_set_file(late_file, "log");
  shoal_log_text("=== heading\n  a \033row\n");
  shoal_info("late");
  shoal_log_set_file(NULL, NULL);
  shoal_warn("too late");
}

/* A file that comes later begins with what was said before, in the order of the terminal; headings have no date. */
static void test_remember(void)
{
  char out[4096], err[4096], filed[4096] = "";
  late_file = tmpfile();
  REQUIRE(late_file, "temporary file");
  capture(say_before_the_file, out, err, sizeof out);
  CHECK_STR(out, "=== heading\n  a \\x1brow\nlate\n");
  CHECK_STR(err, "shoal: warning: early\nshoal: warning: too late\n");
  rewind(late_file);
  CHECK(fread(filed, 1, sizeof filed - 1, late_file) > 0, "nothing in the file");
  fclose(late_file);
  const char *early = strstr(filed, " shoal: warning: early\n=== heading\n  a \\x1brow\n");
  if (CHECK(early, "%s", filed)) {
    CHECK(strchr(filed, ' ') == early, "%s", filed);
    CHECK_HAS(early, " late\n");
    CHECK(!strstr(filed, "too"), "%s", filed);
  }
}

static void keep_warnings(void)
{
  shoal_log_keep_warnings();
  shoal_warn("one\033");
  shoal_info("progress");
  shoal_warn("two");
  char *kept = shoal_log_kept();
  shoal_warn("three");
  CHECK_STR(kept, "one\\x1b\ntwo");
  free(kept);
  kept = shoal_log_kept();
  CHECK(!kept);
}

static void test_kept(void)
{
  char out[4096], err[4096];
  capture(keep_warnings, out, err, sizeof out);
  CHECK_STR(out, "progress\n");
  CHECK_STR(err, "shoal: warning: three\n");
}

static void say_strange(void)
{
  shoal_info("a\033[31mb\x7f\xc3\xa9\nnext");
  char big[5000];
  memset(big, 'x', sizeof big - 1);
  big[sizeof big - 1] = '\0';
  shoal_info("%s", big);
}

static void test_strange_text(void)
{
  static char out[8192], err[8192];
  capture(say_strange, out, err, sizeof out);
  CHECK(strncmp(out, "a\\x1b[31mb\\x7f\xc3\xa9\\nnext\n", 23) == 0, "%.30s", out);
  CHECK_EQ(strlen(out), 23 + 5000);
}

static void test_file(void)
{
  char *text = NULL;
  size_t n = 0;
  char out[4096], err[4096];
  FILE *file = open_memstream(&text, &n);
  REQUIRE(file, "memory file");
  shoal_log_set_file(file, "log");
  capture(say_everything, out, err, sizeof out);
  shoal_log_set_file(NULL, NULL);
  shoal_info("not in the file");
  fclose(file);
  CHECK_HAS(text, "Z progress 1\n");
  CHECK_HAS(text, "Z shoal: warning: care\n");
  CHECK_HAS(text, "Z shoal: error: disk full\n");
  CHECK_LACKS(text, "not in");
  CHECK_LACKS(text, "never");
  struct tm time;
  char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &time);
  if (CHECK(end, "no time in \"%s\"", text)) CHECK_EQ(end - text, 20);
  free(text);
}

static void test_status_list(void)
{
  static const struct {
    shoal_status status;
    int exit_code;
  } codes[] = { { SHOAL_OK, 0 },       { SHOAL_ERR_USAGE, 2 },   { SHOAL_ERR_WORLD, 3 }, { SHOAL_ERR_PEER, 4 },
                { SHOAL_ERR_HANG, 5 }, { SHOAL_ERR_NUMERIC, 6 }, { SHOAL_ERR_IO, 7 },    { SHOAL_STOPPED, 75 } };
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
    CHECK_EQ(shoal_status_exit_code(codes[i].status), codes[i].exit_code, "%s", shoal_status_name(codes[i].status));
  CHECK_STR(shoal_status_name(SHOAL_ERR_IO), "ERR_IO");
  CHECK(shoal_status_text((shoal_status)999));
  CHECK_EQ(shoal_status_exit_code((shoal_status)999), 7);
}

static void *talk(void *who)
{
  for (int i = 0; i < 200; i++) {
    shoal_log_set_rank(0, 1); /* a write, for the thread sanitizer: messages alone only read what the lock guards */
    shoal_info("thread %ld line %d end", (long)(intptr_t)who, i);
  }
  return NULL;
}

static void talk_together(void)
{
  pthread_t threads[4];
  for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, talk, (void *)(intptr_t)i);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static void test_threads(void)
{
  static char out[1 << 16], err[1 << 16];
  int lines = 0;
  long who;
  int line, used;
  capture(talk_together, out, err, sizeof out);
  for (char *at = out; *at; at += used, lines++) {
    used = 0;
    REQUIRE(sscanf(at, "thread %ld line %d end%n", &who, &line, &used) == 2, "broken line: %.40s", at);
    REQUIRE(used, "broken line: %.40s", at);
    REQUIRE(at[used++] == '\n', "broken line: %.40s", at);
  }
  CHECK_EQ(lines, 800);
}

/* What was written to a terminal up to the byte `last`.  The kernel may deliver it late. */
static void read_terminal(int master, char last, char *text, size_t cap)
{
  struct pollfd wait = { .fd = master, .events = POLLIN };
  size_t n = 0;
  while (n < cap - 1 && !memchr(text, last, n) && poll(&wait, 1, 10000) == 1) {
    ssize_t more = read(master, text + n, cap - 1 - n);
    if (more <= 0) break;
    n += (size_t)more;
  }
  text[n] = '\0';
}

/* A pseudo terminal of 20 columns takes the place of stdout. */
static void test_live_line(void)
{
  int master = posix_openpt(O_RDWR | O_NOCTTY), slave = -1;
  char name[64], seen[4096];
  struct winsize size = { .ws_row = 5, .ws_col = 20 };
  if (master < 0 || grantpt(master) || unlockpt(master) || ptsname_r(master, name, sizeof name) ||
      (slave = open(name, O_RDWR | O_NOCTTY)) < 0) {
    fprintf(stderr, "no pseudo terminal here: live line not tested\n");
    if (master >= 0) close(master);
    return;
  }
  ioctl(slave, TIOCSWINSZ, &size);
  setenv("TERM", "xterm", 1);
  fflush(stdout);
  int saved = dup(1);
  dup2(slave, 1);
  CHECK(shoal_log_is_tty());
  shoal_log_live("epoch 1");
  shoal_info("a line");
  shoal_log_live("\xc3\xa9%s", "23456789012345678901234567890");
  shoal_log_live("%s", "");
  shoal_info("end");
  setenv("TERM", "dumb", 1);
  CHECK(!shoal_log_is_tty());
  shoal_log_live("nothing on a dumb terminal");
  fflush(stdout);
  dup2(saved, 1);
  close(saved);
  REQUIRE(write(slave, "#", 1) == 1, "pseudo terminal");
  read_terminal(master, '#', seen, sizeof seen);
#define WIPE "\r\033[K"
  CHECK_STR(seen, WIPE "epoch 1" WIPE "a line\r\n" WIPE "epoch 1" WIPE WIPE "\xc3\xa9"
                       "234567890123456789" WIPE "end\r\n#");
  close(slave);
  close(master);
}

static void fill(int fd)
{
  static const char page[4096] = { 0 };
  fcntl(fd, F_SETFL, O_NONBLOCK);
  while (write(fd, page, sizeof page) > 0) {}
  fcntl(fd, F_SETFL, 0);
}

/* Nobody reads stdout, which is full, while stderr has room: neither a line nor a warning waits for long. */
static void test_unread(void)
{
  enum { LIMIT_S = 20 };
  int out[2], saved = dup(1);
  char said[1000] = "", warned[1000] = "";
  FILE *file = tmpfile(), *err = tmpfile();
  int saved_err = dup(2);
  REQUIRE(file, "temporary file");
  REQUIRE(err, "temporary file");
  REQUIRE(pipe(out) == 0, "pipe");
  fflush(stdout);
  dup2(out[1], 1);
  dup2(fileno(err), 2);
  fill(1);
  alarm(LIMIT_S);
  shoal_log_set_file(file, "log.txt");
  shoal_info("one");
  shoal_warn("two");
  shoal_info("three");
  shoal_log_set_file(NULL, NULL);
  alarm(0);
  dup2(saved, 1);
  dup2(saved_err, 2);
  CHECK(pread(fileno(file), said, sizeof said - 1, 0) > 0);
  CHECK(pread(fileno(err), warned, sizeof warned - 1, 0) > 0);
  CHECK_HAS(said, "nobody reads the output");
  CHECK_HAS(said, "three\n");
  CHECK_STR(warned, "shoal: warning: two\n", "nothing of stdout's");
  close(out[0]);
  close(out[1]);
  close(saved);
  close(saved_err);
  fclose(file);
  fclose(err);
}

int main(void)
{
  test_unread();
  test_streams();
  test_remember();
  test_kept();
  test_strange_text();
  test_file();
  test_status_list();
  test_threads();
  test_live_line();
  return check_done();
}
