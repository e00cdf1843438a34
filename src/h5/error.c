/* Initialisation and errors of HDF5.
 *
 * HDF5 keeps an error stack of a dozen entries per failure and prints all of it by default.  Printing is turned off and
 * one entry is used: the operating system's error text if there is one ("No space left on device"), else the innermost
 * description, where the library detected the failure.  The error stack is per thread and cleared by the next HDF5
 * call, so the text must be copied before any other call. */
#include "base/child.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "h5/h5_impl.h"
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t started = PTHREAD_ONCE_INIT;
static bool locks_off;

/* HDF5 reads HDF5_USE_FILE_LOCKING when it initialises, and from then on the variable overrides every property list:
 * with TRUE or BEST_EFFORT an open could not be repeated without a lock.  So the variable is unset while the library
 * initialises, and Shoal implements it: FALSE means no lock is tried, anything else means one is tried first. */
static void start_library(void)
{
  const char *wish = getenv("HDF5_USE_FILE_LOCKING");
  char *kept = wish ? strdup(wish) : NULL;
  locks_off = wish && (strcmp(wish, "FALSE") == 0 || strcmp(wish, "0") == 0);
  unsetenv("HDF5_USE_FILE_LOCKING");
  H5dont_atexit(); /* Shoal closes all files; a file that a full disk keeps open crashes HDF5 1.10 at exit */
  H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_FILE); /* initialises the module that reads the variable; H5open() does not */
  H5PLset_loading_state(0);                    /* no filter plug-ins are loaded */
  if (kept) setenv("HDF5_USE_FILE_LOCKING", kept, 1);
  free(kept);
}

bool shoal_h5_locks_off(void)
{
  return locks_off;
}

void shoal_h5_init(void)
{
  static _Thread_local bool silenced; /* automatic error printing, like the stack, is per thread */
  pthread_once(&started, start_library);
  if (silenced) return;
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  silenced = true;
}

typedef struct {
  const char *wanted;
  bool found;
  char text[SHOAL_H5_REASON];
} search;

static herr_t search_entry(unsigned n, const H5E_error2_t *entry, void *data)
{
  search *s = data;
  if (!entry->desc || !strstr(entry->desc, s->wanted)) return 0;
  s->found = true;
  snprintf(s->text, sizeof s->text, "%s", entry->desc);
  return 1;
}

bool shoal_h5_stack_says(const char *text, char out[SHOAL_H5_REASON])
{
  search s = { .wanted = text };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, search_entry, &s);
  if (s.found && out) memcpy(out, s.text, sizeof s.text);
  return s.found;
}

void shoal_h5_error_reason(char reason[SHOAL_H5_REASON])
{
  static const char mark[] = "error message = '";
  reason[0] = '\0';
  if (!shoal_h5_stack_says(mark, reason)) {
    shoal_h5_stack_says("", reason); /* every description contains "", so this copies the innermost one */
    return;
  }
  char *begin = strstr(reason, mark) + sizeof mark - 1;
  char *end = strchr(begin, '\'');
  size_t n = end ? (size_t)(end - begin) : strlen(begin);
  memmove(reason, begin, n);
  reason[n] = '\0';
}

shoal_status shoal_h5_fail(const char *file, int line, const char *format, ...)
{
  char reason[SHOAL_H5_REASON], text[SHOAL_H5_WHERE];
  shoal_h5_error_reason(reason);
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  H5Eclear2(H5E_DEFAULT);
  return shoal_fail(SHOAL_ERR_IO, file, line, "%s%s%s", text, reason[0] ? ": " : "", reason);
}

static void name_place(hid_t at, const char *name, const char *file, char buf[SHOAL_H5_WHERE])
{
  char object[SHOAL_H5_WHERE / 4] = "";
  bool absolute = name && name[0] == '/';
  if (!absolute && H5Iget_name(at, object, sizeof object) < 0) object[0] = '\0';
  size_t n = strlen(object);
  const char *slash = !name || absolute || name[0] == '@' || (n > 0 && object[n - 1] == '/') ? "" : "/";
  snprintf(buf, SHOAL_H5_WHERE, "%s%s%s%s%s", object, slash, name ? name : "", file[0] ? " in " : "", file);
  H5Eclear2(H5E_DEFAULT);
}

const char *shoal_h5_where(hid_t at, const char *name, char buf[SHOAL_H5_WHERE])
{
  char file[SHOAL_H5_WHERE / 2] = "";
  if (H5Iget_type(at) == H5I_ATTR || H5Fget_name(at, file, sizeof file) < 0) file[0] = '\0';
  shoal_drop_temporary(file);
  name_place(at, name, file, buf);
  return buf;
}

void shoal_h5_note(hid_t at, const char *name)
{
  char place[SHOAL_H5_WHERE];
  if (!shoal_is_child()) return;
  name_place(at, name, "", place);
  shoal_child_note(place);
}

/* See shoal_space_left; HDF5 gives the system's text for the error, not its number. */
static void space_left(const char *path, const char *reason, char buf[SHOAL_SPACE_LEFT])
{
  static const int known[] = { EFBIG, ENOSPC, EDQUOT };
  buf[0] = '\0';
  for (size_t i = 0; i < SHOAL_COUNT(known); i++)
    if (strcmp(reason, strerror(known[i])) == 0) shoal_space_left(path, known[i], buf);
}

shoal_status shoal_h5_fail_on(const char *file, int line, const char *verb, const char *path)
{
  char reason[SHOAL_H5_REASON], space[SHOAL_SPACE_LEFT], *shown = shoal_strdup_printf("%s", path);
  shoal_h5_error_reason(reason);
  space_left(path, reason, space);
  shoal_drop_temporary(shown);
  H5Eclear2(H5E_DEFAULT);
  shoal_status st =
      shoal_fail(SHOAL_ERR_IO, file, line, "cannot %s %s%s%s%s", verb, shown, reason[0] ? ": " : "", reason, space);
  free(shown);
  return st;
}

shoal_status shoal_h5_fail_at(const char *file, int line, const char *verb, hid_t at, const char *name)
{
  char reason[SHOAL_H5_REASON], where[SHOAL_H5_WHERE], space[SHOAL_SPACE_LEFT] = "", path[SHOAL_H5_WHERE];
  shoal_h5_error_reason(reason);
  if (H5Fget_name(at, path, sizeof path) >= 0) space_left(path, reason, space);
  shoal_h5_where(at, name, where);
  return shoal_fail(SHOAL_ERR_IO, file, line, "cannot %s %s%s%s%s", verb, where, reason[0] ? ": " : "", reason, space);
}

void shoal_h5_release(hid_t id)
{
  if (id >= 0) H5Idec_ref(id); /* equivalent to H5Dclose, H5Tclose, H5Sclose, ... */
}
