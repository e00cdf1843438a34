/* The test kit: a failed check prints its place, its text and the values that differ, and the test goes on.
 *
 * Every check is one condition.  It evaluates its arguments once and is itself an expression, true if the check held, so
 * that whatever would crash after a failure can depend on it:
 *
 *     if (CHECK_OK(shoal_ckpt_open(path, true, &c))) CHECK_EQ(shoal_ckpt_get_info(c)->step, 7);
 *
 * After the arguments shown, each takes a printf format with its arguments: which case of a loop this is, or why the
 * value must be so.  check_done() is main's return value. */
#ifndef SHOAL_TESTS_CHECK_H
#define SHOAL_TESTS_CHECK_H
#include "base/error.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Step of a loop that tries everything in turn, such as each allocation: 1, but under the address sanitizer, where a round costs ten
 * times as much, `sampled`, unless SHOAL_FULL=1. */
static inline long check_step(long sampled)
{
#ifdef __SANITIZE_ADDRESS__
  const char *full = getenv("SHOAL_FULL");
  return full && strcmp(full, "1") == 0 ? 1 : sampled;
#else
  (void)sampled;
  return 1;
#endif
}

/* Any condition. */
#define CHECK(cond, ...) KIT((cond) || KIT_FAILED("CHECK(" #cond ")"), __VA_ARGS__)

/* Two numbers of any arithmetic types. */
#define CHECK_EQ(got, want, ...) KIT(KIT_COMPARE("CHECK_EQ(" #got ", " #want ")", got, "== ", want), __VA_ARGS__)
#define CHECK_NE(got, want, ...) KIT(KIT_COMPARE("CHECK_NE(" #got ", " #want ")", got, "!= ", want), __VA_ARGS__)
#define CHECK_LT(got, want, ...) KIT(KIT_COMPARE("CHECK_LT(" #got ", " #want ")", got, "< ", want), __VA_ARGS__)
#define CHECK_LE(got, want, ...) KIT(KIT_COMPARE("CHECK_LE(" #got ", " #want ")", got, "<= ", want), __VA_ARGS__)
#define CHECK_GT(got, want, ...) KIT(KIT_COMPARE("CHECK_GT(" #got ", " #want ")", got, "> ", want), __VA_ARGS__)
#define CHECK_GE(got, want, ...) KIT(KIT_COMPARE("CHECK_GE(" #got ", " #want ")", got, ">= ", want), __VA_ARGS__)

/* |got - want| <= tolerance; never true for NaN */
#define CHECK_NEAR(got, want, tolerance, ...)                                                                          \
  KIT(kit_near(KIT_AT, "CHECK_NEAR(" #got ", " #want ", " #tolerance ")", got, want, tolerance), __VA_ARGS__)

/* The text equals, contains or does not contain another.  NULL equals only NULL, and fails the other two. */
#define CHECK_STR(got, want, ...) KIT(kit_text(KIT_AT, "CHECK_STR(" #got ", " #want ")", got, '=', want), __VA_ARGS__)
#define CHECK_HAS(text, part, ...)                                                                                     \
  KIT(kit_text(KIT_AT, "CHECK_HAS(" #text ", " #part ")", text, '+', part), __VA_ARGS__)
#define CHECK_LACKS(text, part, ...)                                                                                   \
  KIT(kit_text(KIT_AT, "CHECK_LACKS(" #text ", " #part ")", text, '-', part), __VA_ARGS__)

/* n bytes are the same; the first that differs is printed. */
#define CHECK_BYTES(got, want, n, ...)                                                                                 \
  KIT(kit_bytes(KIT_AT, "CHECK_BYTES(" #got ", " #want ", " #n ")", got, want, n), __VA_ARGS__)

/* A call returns this status; the thread's error is printed with a failure. */
#define CHECK_STATUS(call, want, ...)                                                                                  \
  KIT(kit_status(KIT_AT, "CHECK_STATUS(" #call ", " #want ")", call, want), __VA_ARGS__)
#define CHECK_OK(call, ...) KIT(kit_status(KIT_AT, "CHECK_OK(" #call ")", call, SHOAL_OK), __VA_ARGS__)

/* For what makes going on pointless. */
#define REQUIRE(cond, ...)                                                                                             \
  do {                                                                                                                 \
    if (!KIT((cond) || KIT_FAILED("REQUIRE(" #cond ")"), __VA_ARGS__)) exit(1);                                        \
  } while (0)
#define CHECK_SKIP(...)                                                                                                \
  do {                                                                                                                 \
    fprintf(stderr, "skipped: " __VA_ARGS__);                                                                          \
    fputc('\n', stderr);                                                                                               \
    exit(77);                                                                                                          \
  } while (0)

/* Weak, so that the files of one test program share one count. */
__attribute__((weak)) int check_failures;

static inline int check_done(void)
{
  if (check_failures) fprintf(stderr, "%d checks failed\n", check_failures);
  return check_failures != 0;
}

/* The text of this thread's error, whatever its code; "" when there is none. */
static inline const char *check_error(void)
{
  static _Thread_local shoal_error e;
  shoal_error_take(&e);
  shoal_error_put(&e);
  return e.code == SHOAL_OK ? "" : e.text;
}

/* The larger of two errors.  NaN counts as infinite: fmax would drop it, and a comparison with it is never true. */
static inline double worse(double worst, double error)
{
  return error <= worst ? worst : isnan(error) ? INFINITY : error;
}

/* ---- what the macros above are made of ---- */

/* Begins the line of a failure, and ends it with the test's own words; both are false. */
__attribute__((format(printf, 4, 5))) static inline bool kit_failed(const char *file, int line, const char *check,
                                                                    const char *format, ...)
{
  va_list args;
  check_failures++;
  fprintf(stderr, "%s:%d: %s: ", file, line, check);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  return false;
}

__attribute__((format(printf, 1, 2))) static inline bool kit_note(const char *format, ...)
{
  va_list args;
  if (format[1]) fputc(';', stderr);
  va_start(args, format);
  if (format[1]) vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  return false;
}

static inline bool kit_result(bool passed)
{
  return passed;
}

/* passed: a condition, or a call that begins the line of a failure and is false. */
#define KIT(passed, ...)  kit_result((passed) || kit_note(" " __VA_ARGS__))
#define KIT_AT            __FILE__, __LINE__
#define KIT_FAILED(check) kit_failed(KIT_AT, check, "failed")
/* clang-format off */
/* Calls the function for the type in which C would compare the two. */
#define KIT_COMPARE(check, got, op, want)                                                                              \
  _Generic((got) + (want),                                                                                             \
    float: kit_compare_real, double: kit_compare_real,                                                                 \
    unsigned: kit_compare_uint, unsigned long: kit_compare_uint, unsigned long long: kit_compare_uint,                 \
    default: kit_compare_int)(KIT_AT, check, got, op, want)
/* clang-format on */

#define KIT_DEFINE_COMPARE(kind, type, form)                                                                           \
  static inline bool kit_compare_##kind(const char *file, int line, const char *check, type got, const char *op,       \
                                        type want)                                                                     \
  {                                                                                                                    \
    bool equal = got == want, or_equal = op[1] == '=' && equal;                                                        \
    bool holds = op[0] == '!' ? !equal : or_equal || (op[0] == '<' && got < want) || (op[0] == '>' && got > want);     \
    return holds ||                                                                                                    \
           kit_failed(file, line, check, "got " form ", expected %s" form, got, op[0] == '=' ? "" : op, want);         \
  }
KIT_DEFINE_COMPARE(int, intmax_t, "%" PRIdMAX)
KIT_DEFINE_COMPARE(uint, uintmax_t, "%" PRIuMAX)
KIT_DEFINE_COMPARE(real, double, "%.17g")

static inline bool kit_near(const char *file, int line, const char *check, double got, double want, double tolerance)
{
  return fabs(got - want) <= tolerance ||
         kit_failed(file, line, check, "got %.17g, expected %.17g, differs by %.3g, allowed %.3g", got, want,
                    fabs(got - want), tolerance);
}

/* how: '=' for the same text, '+' for a part it has, '-' for one it lacks */
static inline bool kit_text(const char *file, int line, const char *check, const char *got, char how, const char *text)
{
  bool holds = !got || !text ? how == '=' && got == text
               : how == '='  ? strcmp(got, text) == 0
                             : (strstr(got, text) != NULL) == (how == '+');
  const char *quote[2] = { got ? "\"" : "", text ? "\"" : "" };
  return holds || kit_failed(file, line, check, "got %s%s%s, expected %s%s%s%s", quote[0], got ? got : "NULL", quote[0],
                             how == '='   ? ""
                             : how == '+' ? "a text with "
                                          : "a text without ",
                             quote[1], text ? text : "NULL", quote[1]);
}

static inline bool kit_bytes(const char *file, int line, const char *check, const void *got, const void *want, size_t n)
{
  const unsigned char *a = got, *b = want;
  size_t i = 0;
  while (i < n && a[i] == b[i]) i++;
  return i == n || kit_failed(file, line, check, "byte %zu of %zu is %02x, expected %02x", i, n, a[i], b[i]);
}

static inline bool kit_status(const char *file, int line, const char *check, shoal_status got, shoal_status want)
{
  return got == want || kit_failed(file, line, check, "got %s, expected %s, said \"%s\"", shoal_status_name(got),
                                   shoal_status_name(want), check_error());
}
#endif
