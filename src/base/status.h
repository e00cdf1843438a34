/* One status type for the whole program: created where a failure is detected, passed on silently, agreed on by all
 * ranks.
 *
 * A failing function creates an error with a message (SHOAL_FAIL) and returns its code; its callers pass the code on
 * (SHOAL_TRY).  The message is stored per thread; error.h describes who prints it. */
#ifndef SHOAL_BASE_STATUS_H
#define SHOAL_BASE_STATUS_H

/* Name, exit code of the program, general text.  Batch scripts rely on the exit codes: see docs/exit-codes.md. */
#define SHOAL_STATUS_LIST(X)                                                                                           \
  X(OK, 0, "success")                                                                                                  \
  X(ERR_USAGE, 2, "wrong usage or run file")                                                                           \
  X(ERR_ARG, 2, "argument out of range or inconsistent")                                                               \
  X(ERR_UNSUPPORTED, 2, "not built in, or not valid for this setup")                                                   \
  X(ERR_WORLD, 3, "wrong world: launcher, MPI and ranks disagree")                                                     \
  X(ERR_DEVICE, 3, "the device asked for is missing")                                                                  \
  X(ERR_PEER, 4, "another rank failed or is gone")                                                                     \
  X(ERR_COMM, 4, "a communication call failed")                                                                        \
  X(ERR_HANG, 5, "an exchange did not finish in time")                                                                 \
  X(ERR_NUMERIC, 6, "not a number, infinite, or a spike")                                                              \
  X(ERR_IO, 7, "input or output failed")                                                                               \
  X(ERR_MEM, 7, "out of memory")                                                                                       \
  X(ERR_INTERNAL, 7, "a library refused what should have worked")                                                      \
  X(STOPPED, 75, "stopped on request, checkpoint verified, safe to requeue")

/* A status that nobody looks at is an error that nobody hears of: clang-tidy refuses it (GCC cannot). */
#ifdef __clang__
#define SHOAL_LOOK_AT __attribute__((warn_unused_result))
#else
#define SHOAL_LOOK_AT
#endif
#define X(name, exit_code, text) SHOAL_##name,
typedef enum SHOAL_LOOK_AT { SHOAL_STATUS_LIST(X) SHOAL_STATUS_COUNT } shoal_status;
#undef X

const char *shoal_status_text(shoal_status st); /* general text of the code; never NULL */
const char *shoal_status_name(shoal_status st); /* "ERR_IO" */
int shoal_status_exit_code(shoal_status st);

/** Set the calling thread's error: message and source line.  Returns `code`.  Call it through SHOAL_FAIL. */
shoal_status shoal_fail(shoal_status code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The value of shoal_fail, in a form in which the compiler sees that it is not OK. */
static inline shoal_status shoal_failed(shoal_status code, shoal_status same)
{
  (void)same;
  return code;
}

#define SHOAL_FAIL(code, ...) shoal_failed((code), shoal_fail((code), __FILE__, __LINE__, __VA_ARGS__))
#define SHOAL_CHECK(cond, code, ...)                                                                                   \
  do {                                                                                                                 \
    if (!(cond)) return SHOAL_FAIL((code), __VA_ARGS__);                                                               \
  } while (0)
#define SHOAL_CHECK_GOTO(st, cond, label, code, ...)                                                                   \
  do {                                                                                                                 \
    if (!(cond)) {                                                                                                     \
      (st) = SHOAL_FAIL((code), __VA_ARGS__);                                                                          \
      goto label;                                                                                                      \
    }                                                                                                                  \
  } while (0)
#define SHOAL_TRY(call)                                                                                                \
  do {                                                                                                                 \
    shoal_status try_ = (call);                                                                                        \
    if (try_ != SHOAL_OK) return try_;                                                                                 \
  } while (0)
#define SHOAL_TRY_GOTO(st, call, label)                                                                                \
  do {                                                                                                                 \
    if (((st) = (call)) != SHOAL_OK) goto label;                                                                       \
  } while (0)
#endif
