/* shoal watch: the page of a run, drawn anew every second on a terminal, printed once anywhere else. */
#include "base/mem.h"
#include "cli/cli.h"
#include "report/watch.h"
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

enum { REFRESH_MS = 1000, COLUMNS = 80, ROWS = 24 };

/* ---- the terminal ---- */

static volatile sig_atomic_t ended, suspended;
static struct termios before;

static void on_end(int signal)
{
  ended = signal;
}

static void on_suspend(int signal)
{
  suspended = signal;
}

static void on_resize(int signal)
{
  (void)signal; /* ends the wait for a key */
}

/* Another screen without a cursor, keys without Enter. */
static void enter_screen(void)
{
  struct termios now = before;
  now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
  fputs("\033[?1049h\033[?25l", stdout);
}

static void leave_screen(void)
{
  fputs("\033[?25h\033[?1049l", stdout);
  fflush(stdout);
  tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

static void hear(int signal, void (*how)(int))
{
  struct sigaction a = { .sa_handler = how };
  sigemptyset(&a.sa_mask);
  sigaction(signal, &a, NULL);
}

static void stop_until_continued(void)
{
  suspended = 0;
  leave_screen();
  raise(SIGSTOP);
  enter_screen();
}

/* Whether the user asked to leave within the time to the next refresh. */
static bool wait_for_key(void)
{
  struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
  char key = 0;
  if (poll(&in, 1, REFRESH_MS) <= 0) return false;
  if (read(STDIN_FILENO, &key, 1) <= 0) return true; /* the terminal is gone */
  return key == 'q' || key == 'Q';
}

static int from_environment(const char *name, int otherwise)
{
  const char *text = getenv(name);
  int64_t n;
  return text && shoal_parse_i64(text, &n) == SHOAL_OK && n > 0 && n < 10000 ? (int)n : otherwise;
}

static bool speaks_utf8(void)
{
  setlocale(LC_CTYPE, "");
  return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

/* ---- the page ---- */

static void draw(const shoal_watch *w, bool wide)
{
  struct winsize size = { .ws_col = COLUMNS, .ws_row = ROWS };
  shoal_str page = { 0 };
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  int columns = size.ws_col ? size.ws_col : COLUMNS, rows = size.ws_row ? size.ws_row : ROWS;
  shoal_watch_print(w, columns, rows - 1, wide, &page);
  fputs("\033[H", stdout);
  for (char *line = page.text, *end; line && *line; line = end) { /* each line replaces what stood there */
    end = line + strcspn(line, "\n");
    printf("%.*s\033[K\r\n", (int)(end - line), line);
    end += *end == '\n';
  }
  printf("\033[Jq leaves; the run goes on");
  fflush(stdout);
  shoal_str_free(&page);
}

static shoal_status print_once(const shoal_watch *w, bool wide)
{
  shoal_str page = { 0 };
  shoal_watch_print(w, from_environment("COLUMNS", COLUMNS), from_environment("LINES", 0), wide, &page);
  fputs(page.text, stdout);
  shoal_str_free(&page);
  return SHOAL_OK;
}

static shoal_status watch(shoal_watch *w, bool wide)
{
  static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
  shoal_status st = SHOAL_OK;
  for (size_t i = 0; i < SHOAL_COUNT(ends); i++) hear(ends[i], on_end);
  hear(SIGTSTP, on_suspend);
  hear(SIGWINCH, on_resize);
  enter_screen();
  while (!ended && st == SHOAL_OK && !shoal_watch_is_over(w)) {
    draw(w, wide);
    if (wait_for_key()) break;
    if (suspended) stop_until_continued();
    st = shoal_watch_refresh(w);
  }
  leave_screen();
  return st == SHOAL_OK ? print_once(w, wide) : st; /* the last page stays to be read */
}

static const shoal_flag flags[] = {
  { "--once", NULL, NULL, SHOAL_FLAG_SWITCH, "print the page and end; without it so if the output is no terminal" },
  { NULL, NULL, NULL, SHOAL_FLAG_SWITCH, NULL },
};
const shoal_verb_help shoal_watch_help = {
  "shoal watch RUN [--once]",
  "How a run goes: progress, time left, loss, speed, waits, the slowest rank. RUN is a run folder; nothing but its "
  "files\n"
  "is read, so this works on any host that sees it, over ssh too. The page is drawn anew every second until the run "
  "ends\n"
  "or q is pressed; the run does not notice. COLUMNS and LINES are the size of a page that is printed.",
  flags,
  1,
  1,
  "  shoal watch runs/digits\n  ssh login shoal watch --once /scratch/runs/digits\n",
};

shoal_status shoal_cmd_watch(int argc, char **argv)
{
  bool helped;
  shoal_args *a;
  const char *const *words;
  shoal_watch *w = NULL;
  SHOAL_TRY(shoal_args_parse(&shoal_watch_help, argc, argv, &helped, &a));
  if (helped) return SHOAL_OK;
  shoal_args_words(a, &words);
  bool live = !shoal_args_on(a, "--once") && isatty(STDOUT_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
  bool wide = speaks_utf8();
  shoal_status st = shoal_watch_open(words[0], &w);
  if (st == SHOAL_OK) st = shoal_watch_refresh(w);
  if (st == SHOAL_OK) st = live && !shoal_watch_is_over(w) ? watch(w, wide) : print_once(w, wide);
  shoal_watch_close(w);
  shoal_args_destroy(a);
  return st;
}
