/* Messages to the user.  Progress comes from rank 0, warnings and errors from any rank; everything also goes to the
 * run's log file once that is set.  A tty shows one live status line below the other output. */
#ifndef SHOAL_BASE_LOG_H
#define SHOAL_BASE_LOG_H
#include <stdbool.h>
#include <stdio.h>

typedef enum { SHOAL_LOG_ERROR, SHOAL_LOG_WARN, SHOAL_LOG_INFO, SHOAL_LOG_DEBUG, SHOAL_LOG_PROGRESS } shoal_log_level;

void shoal_log_set_rank(int rank, int size); /* until this call a process logs as rank 0 of 1 */
int shoal_log_rank(void);
void shoal_log_set_level(shoal_log_level level); /* default INFO */
shoal_log_level shoal_log_get_level(void);
/** From now on rank 0 keeps what it says, for the file that is to come: it begins with that, so that it tells the same as the
 *  terminal. */
void shoal_log_remember(void);
/** NULL stops logging to a file; flushed after every line.  `file` is borrowed, its name, for activities, is copied. */
void shoal_log_set_file(FILE *file, const char *name);
/** Ask before each line to the file; NULL: no more.  `may` must not log. */
void shoal_log_ask_first(bool (*may)(void *context), void *context);
void shoal_log(shoal_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** A warning on stderr alone, from a thread that must not wait for who writes to the log. */
void shoal_log_warn_aside(const char *text);
/** Lines as they are, without a date: headings and tables.  As progress: from rank 0, to the terminal and the file. */
void shoal_log_text(const char *lines);
/** Keep the warnings of this process instead of printing them, until shoal_log_kept: ranks that find the same fault in the
 *  same file can then tell it once. */
void shoal_log_keep_warnings(void);
/** The warnings kept, one per line, or NULL if there are none; from now on they are printed again.  Caller frees. */
char *shoal_log_kept(void);
/** Prints warnings that were kept, each as one; NULL: none. */
void shoal_log_warn_lines(const char *lines);
/** Replace the live line; only on rank 0 and a tty, otherwise does nothing.  "" clears it. */
void shoal_log_live(const char *format, ...) __attribute__((format(printf, 1, 2)));
size_t shoal_log_live_width(void); /* characters that the live line has room for; it is cut there */
int shoal_log_is_tty(void);

#define shoal_info(...) shoal_log(SHOAL_LOG_INFO, __VA_ARGS__) /* rank 0 only */
#define shoal_warn(...) shoal_log(SHOAL_LOG_WARN, __VA_ARGS__) /* any rank */
/* As information, but not to a tty, where the live line says it. */
#define shoal_progress(...) shoal_log(SHOAL_LOG_PROGRESS, __VA_ARGS__)
#define shoal_debug(...)    shoal_log(SHOAL_LOG_DEBUG, __VA_ARGS__)
#endif
