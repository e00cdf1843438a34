/* See csv_date.h.  A column has one form, or several if it was joined of tables; in all of them day and month stand in the same
 * order, which the numbers of most columns show: there are only 12 months. */
#include "data/csv_date.h"
#include "base/mem.h"
#include <ctype.h>
#include <string.h>

static const char digits[] = "0123456789";

/* "Jan" or "Mar" between two signs, behind a day. */
static bool has_month_name(const char *text)
{
  const size_t day = strspn(text, digits);
  const char *name = text + day + 1;
  return day >= 1 && day <= 2 && strchr("- /", text[day]) && isalpha((unsigned char)name[0]) &&
         isalpha((unsigned char)name[1]) && isalpha((unsigned char)name[2]) && name[3] == text[day] &&
         strspn(name + 4, digits) >= 2;
}

/* Two or more signs of dates and times, each behind a digit, and else digits, blanks and a few letters. */
bool shoal_csv_is_date(const char *text)
{
  size_t signs = 0, letters = 0;
  if (!isdigit((unsigned char)*text)) return false;
  const size_t day = strspn(text, digits), month = text[day] == '.' ? strspn(text + day + 1, digits) : 0;
  if (day <= 2 && month > 0 && month <= 2 && text[day + 1 + month] == '.')
    return strspn(text + day + month + 2, digits) >= 2;
  if (has_month_name(text)) return true;
  if (day <= 2 && text[day] == ':' && strspn(text + day + 1, digits) == 2 && strlen(text + day + 3) <= 3 &&
      text[day + 3 + strspn(text + day + 3, " aApPmM")] == '\0')
    return true;
  for (const char *at = text + 1; *at; at++) {
    signs += strchr("-/:", *at) != NULL && isdigit((unsigned char)at[-1]);
    letters += isalpha((unsigned char)*at) != 0;
  }
  return signs >= 2 && letters <= 4;
}

bool shoal_csv_is_clock(const char *text)
{
  return text[strspn(text, digits)] == ':';
}

bool shoal_csv_is_clock_form(const char *form)
{
  return strncmp(form, "[\"%H", 4) == 0 || strncmp(form, "[\"%I", 4) == 0;
}

/* The clock behind a date, or alone: "%H:%M:%S", "%I:%M %p"; "" if there is none. */
static void time_format(const char *clock, char out[32])
{
  const char *first = strchr(clock, ':'), *half = strpbrk(clock, "aApP");
  out[0] = '\0';
  if (!first) return;
  snprintf(out, 32, "%%%c:%%M%s%s%s%s", half ? 'I' : 'H', strchr(first + 1, ':') ? ":%S" : "",
           strchr(clock, '.') ? ".%f" : "", half && half[-1] == ' ' ? " " : "", half ? "%p" : "");
}

/* The format of one field as a literal of Python; None where the year is in front. */
static void date_format(const char *text, bool month_first, char out[64])
{
  const size_t first = strspn(text, digits);
  char time[32];
  if (first == 4) {
    snprintf(out, 64, "None");
    return;
  }
  if (shoal_csv_is_clock(text)) {
    time_format(text, time);
    snprintf(out, 64, "\"%s\"", time);
    return;
  }
  const char sign = text[first], *year = strchr(text + first + 1, sign);
  const bool named = has_month_name(text);
  year = year ? year + 1 : text + first;
  const char *behind = year + strspn(year, digits);
  time_format(behind, time);
  const char letters[2] = { month_first && !named ? 'm' : 'd', named ? 'b' : month_first ? 'd' : 'm' };
  snprintf(out, 64, "\"%%%c%c%%%c%c%%%c%.*s%s\"", letters[0], sign, letters[1], sign,
           strspn(year, digits) == 2 ? 'y' : 'Y', time[0] && *behind ? 1 : 0, behind, time);
}

void shoal_csv_date_formats(const char *const *fields, size_t n, shoal_str *out)
{
  enum { MOST = 4 };
  char formats[2][MOST][64];
  size_t found = 0;
  bool orders = false; /* the two differ */
  for (size_t i = 0; i < n; i++) {
    char day[64], month[64];
    if (!shoal_csv_is_date(fields[i])) continue;
    date_format(fields[i], false, day);
    date_format(fields[i], true, month);
    /* with points the day is always in front */
    if (fields[i][strspn(fields[i], digits)] == '.') strcpy(month, day);
    size_t k = 0;
    while (k < found && strcmp(formats[0][k], day) != 0) k++;
    if (k < found || found == MOST) continue;
    strcpy(formats[0][found], day);
    strcpy(formats[1][found++], month);
    orders |= strcmp(day, month) != 0;
  }
  for (int order = 0; order < (orders ? 2 : 1); order++) {
    shoal_str_add(out, "%s[", order ? ", " : "");
    for (int last = 0; last < 2; last++) /* None, which guesses, is the last */
      for (size_t k = 0; k < found; k++)
        if ((strcmp(formats[order][k], "None") == 0) == (last == 1))
          shoal_str_add(out, "%s%s", out->text[out->len - 1] == '[' ? "" : ", ", formats[order][k]);
    shoal_str_add(out, "]");
  }
}
