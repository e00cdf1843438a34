/* See csv_date.h.  A column has one form, or several if it was joined of tables; in all of them day and month stand in the same
 * order, which the numbers of most columns show: there are only 12 months. */
#include "data/csv_date.h"
#include "base/mem.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

static const char digits[] = "0123456789";

/* A name of a month at the start of a text: its letters, or 0. */
static size_t month_name(const char *text)
{
  static const char *const names[] = { "january", "february", "march",     "april",   "may",      "june",
                                       "july",    "august",   "september", "october", "november", "december" };
  size_t n = 0;
  while (isalpha((unsigned char)text[n])) n++;
  for (size_t i = 0; i < SHOAL_COUNT(names); i++)
    if ((n == 3 || n == strlen(names[i])) && strncasecmp(text, names[i], n) == 0) return n;
  return 0;
}

/* "12:30", "12:30:00.5", "12:30 PM"; also with a zone behind it, "12:30:00Z", if `zone`.  Returns its end, or NULL. */
static const char *read_clock(const char *text, bool zone)
{
  const size_t hours = strspn(text, digits);
  if (hours < 1 || hours > 2 || text[hours] != ':' || strspn(text + hours + 1, digits) != 2) return NULL;
  text += hours + 3;
  if (*text == ':' && strspn(text + 1, digits) == 2) {
    text += 3;
    if (*text == '.') text += 1 + strspn(text + 1, digits);
  }
  if (zone && *text == 'Z') return text + 1;
  if (zone && (*text == '+' || *text == '-')) return text + 1 + strspn(text + 1, "0123456789:");
  const char *half = text + (*text == ' ');
  return strncasecmp(half, "am", 2) == 0 || strncasecmp(half, "pm", 2) == 0 ? half + 2 : text;
}

/* Behind a date: nothing, or a clock, as "T12:30" or " 09-PM". */
static bool is_time_behind(const char *text, bool zone)
{
  if (!*text) return true;
  if (*text != ' ' && *text != 'T') return false;
  const char *end = read_clock(text + 1, zone);
  const size_t hours = strspn(text + 1, digits);
  if (!end && hours == 2 && text[3] == '-' && (strcasecmp(text + 4, "am") == 0 || strcasecmp(text + 4, "pm") == 0))
    return true;
  return end && !*end;
}

/* The parts of a date: what is between them, and where it ends. */
typedef struct {
  bool year_first, name_first; /* 2020-01-31; January 31, 2020 */
  size_t letters, year;        /* of the month's name, or 0; digits of the year */
  char sign;
  const char *behind;
} date;

static bool read_date(const char *text, date *out)
{
  *out = (date){ .letters = month_name(text) };
  out->name_first = out->letters > 0;
  if (out->name_first) { /* "Jan 5, 2020" */
    const char *day = text + out->letters + 1;
    const size_t n = strspn(day, digits), comma = day[n] == ',';
    const char *year = day + n + comma + 1;
    out->sign = comma ? ',' : ' ';
    out->year = strspn(year, digits);
    out->behind = year + out->year;
    return text[out->letters] == ' ' && n >= 1 && n <= 2 && year[-1] == ' ' && out->year == 4;
  }
  const size_t first = strspn(text, digits);
  if (first < 1 || !text[first] || !strchr("-/. ", text[first])) return false;
  out->sign = text[first];
  out->year_first = first == 4;
  const char *second = text + first + 1;
  out->letters = out->year_first ? 0 : month_name(second);
  const size_t n = out->letters ? out->letters : strspn(second, digits);
  const char *third = second + n + 1;
  if (second[n] != out->sign || (!out->letters && (n < 1 || n > 2 || out->sign == ' '))) return false;
  const size_t last = strspn(third, digits);
  out->year = out->year_first ? 4 : last;
  out->behind = third + last;
  return out->year_first ? last >= 1 && last <= 2 : first <= 2 && (last == 2 || last == 4);
}

bool shoal_csv_is_date(const char *text)
{
  date d;
  const char *end = read_clock(text, false);
  if (end && !*end) return true;
  return read_date(text, &d) && is_time_behind(d.behind, d.year_first);
}

bool shoal_csv_is_clock_form(const char *form)
{
  return strncmp(form, "[\"%H", 4) == 0 || strncmp(form, "[\"%I", 4) == 0;
}

/* The clock behind a date, or alone: "%H:%M:%S", "%I:%M %p", "%I-%p"; "" if there is none. */
static void time_format(const char *clock, char out[32])
{
  const char *first = strchr(clock, ':'), *half = strpbrk(clock, "aApP");
  out[0] = '\0';
  if (!first && half) snprintf(out, 32, "%%I-%%p");
  if (first)
    snprintf(out, 32, "%%%c:%%M%s%s%s%s", half ? 'I' : 'H', strchr(first + 1, ':') ? ":%S" : "",
             strchr(clock, '.') ? ".%f" : "", half && half[-1] == ' ' ? " " : "", half ? "%p" : "");
}

/* The format of one field as a literal of Python; None where the year is in front, and the clock is one as of programs. */
static void date_format(const char *text, bool month_first, char out[80])
{
  char time[32];
  date d;
  if (!read_date(text, &d)) {
    time_format(text, time);
    snprintf(out, 80, "\"%s\"", time);
    return;
  }
  time_format(*d.behind ? d.behind + 1 : "", time);
  const char *gap = !time[0] ? "" : *d.behind == 'T' ? "T" : " ";
  const char year = d.year == 2 ? 'y' : 'Y', name = d.letters > 3 ? 'B' : 'b', sign = d.sign;
  if (d.year_first && !strstr(time, "%p"))
    snprintf(out, 80, "None");
  else if (d.year_first)
    snprintf(out, 80, "\"%%Y%c%%m%c%%d%s%s\"", sign, sign, gap, time);
  else if (d.name_first)
    snprintf(out, 80, "\"%%%c %%d%s %%Y%s%s\"", name, sign == ',' ? "," : "", gap, time);
  else if (d.letters)
    snprintf(out, 80, "\"%%d%c%%%c%c%%%c%s%s\"", sign, name, sign, year, gap, time);
  else
    snprintf(out, 80, "\"%%%c%c%%%c%c%%%c%s%s\"", month_first ? 'm' : 'd', sign, month_first ? 'd' : 'm', sign, year,
             gap, time);
}

void shoal_csv_date_formats(const char *const *fields, size_t n, shoal_str *out)
{
  enum { MOST = 4 };
  char formats[2][MOST][80];
  size_t found = 0;
  bool orders = false; /* the two differ */
  for (size_t i = 0; i < n; i++) {
    char day[80], month[80];
    if (!shoal_csv_is_date(fields[i])) continue;
    date_format(fields[i], false, day);
    date_format(fields[i], true, month);
    /* with points the day is always in front */
    if (strchr(day, '.') && strstr(day, "%d.%m")) strcpy(month, day);
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
