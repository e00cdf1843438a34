/* See csv_number.h.  A number with groups is
 *
 *     sign? | 1 to 3 digits, the first not 0 | (group sign, 3 digits), once or more | (decimal sign, digits)?
 *
 * with one group sign throughout, which is not the decimal sign.  All else is read as programs write numbers.  So 0,500 and
 * 1234,567 have a decimal comma and 1,200,300 has none, but 1,200 may be either. */
#include "data/csv_number.h"
#include "base/mem.h"
#include "base/str.h"
#include <string.h>

enum { LONGEST = 64 };
static const char digits[] = "0123456789";

size_t shoal_csv_group_sign(const char *text, char *sign)
{
  static const struct {
    const char *bytes;
    char sign;
  } known[] = {
    { ",", ',' },
    { ".", '.' },
    { " ", ' ' },
    { "'", '\'' },
    { "\xc2\xa0", ' ' },      /* no-break space */
    { "\xe2\x80\xaf", ' ' },  /* narrow no-break space */
    { "\xe2\x80\x89", ' ' },  /* thin space */
    { "\xa0", ' ' },          /* no-break space of Latin-1 */
    { "\xe2\x80\x99", '\'' }, /* typographic apostrophe */
  };
  for (size_t i = 0; i < SHOAL_COUNT(known); i++)
    if (strncmp(text, known[i].bytes, strlen(known[i].bytes)) == 0) {
      *sign = known[i].sign;
      return strlen(known[i].bytes);
    }
  return 0;
}

const char *shoal_csv_sign_name(char sign)
{
  static const char *const names[] = { "comma", "point", "apostrophe", "space" };
  return names[sign == ',' ? 0 : sign == '.' ? 1 : sign == '\'' ? 2 : 3];
}

static bool read_plain(char decimal, const char *text, double *out)
{
  char copy[LONGEST];
  if (decimal == '.') return shoal_parse_f64(text, out) == SHOAL_OK;
  size_t n = strlen(text);
  if (n >= LONGEST || strchr(text, '.')) return false;
  for (size_t i = 0; i <= n; i++) copy[i] = (char)(text[i] == ',' ? '.' : text[i]);
  return shoal_parse_f64(copy, out) == SHOAL_OK;
}

/* Appends `n` bytes to `plain`, whose text is shorter than LONGEST. */
static bool append(char *plain, const char *bytes, size_t n)
{
  size_t at = strlen(plain);
  if (at + n >= LONGEST) return false;
  memcpy(plain + at, bytes, n);
  plain[at + n] = '\0';
  return true;
}

static bool read_grouped(const shoal_csv_dialect *d, char decimal, const char *text, double *out, char *thousands)
{
  char plain[LONGEST] = "", sign = 0, here;
  size_t bytes, first;
  if (*text == '+' || *text == '-') append(plain, text++, 1);
  first = strspn(text, digits);
  if (first < 1 || first > 3 || *text == '0' || !append(plain, text, first)) return false;
  for (text += first; (bytes = shoal_csv_group_sign(text, &here)) > 0 && here != decimal; text += 3) {
    if ((sign && here != sign) || (d->thousands && here != d->thousands)) return false;
    sign = here;
    text += bytes;
    if (strspn(text, digits) != 3 || !append(plain, text, 3)) return false;
  }
  if (!sign) return false;
  if (*text == decimal) {
    size_t n = strspn(++text, digits);
    if (n == 0 || !append(plain, ".", 1) || !append(plain, text, n)) return false;
    text += n;
  }
  *thousands = sign;
  return !*text && shoal_parse_f64(plain, out) == SHOAL_OK;
}

static bool read_by(const shoal_csv_dialect *d, char decimal, const char *text, double *out, char *thousands)
{
  *thousands = 0;
  return read_plain(decimal, text, out) || read_grouped(d, decimal, text, out, thousands);
}

bool shoal_csv_number(const shoal_csv_dialect *d, const char *text, double *out, char *thousands)
{
  char sign;
  bool number = (d->decimal != ',' && read_by(d, '.', text, out, &sign)) ||
                (d->decimal != '.' && read_by(d, ',', text, out, &sign));
  if (thousands) *thousands = number ? sign : '\0';
  return number;
}

shoal_csv_tells shoal_csv_tells_decimal(const shoal_csv_dialect *d, const char *text, double values[2])
{
  double v[2] = { 0 };
  char unused;
  if (!strpbrk(text, ".,")) return SHOAL_CSV_NEITHER;
  bool point = read_by(d, '.', text, &v[0], &unused), comma = read_by(d, ',', text, &v[1], &unused);
  if (values) memcpy(values, v, sizeof v);
  if (point && comma) return v[0] == v[1] ? SHOAL_CSV_NEITHER : SHOAL_CSV_EITHER;
  return point ? SHOAL_CSV_POINT : comma ? SHOAL_CSV_COMMA : SHOAL_CSV_NEITHER;
}
