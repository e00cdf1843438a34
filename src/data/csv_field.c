/* See csv_field.h. */
#include "data/csv_field.h"
#include "base/mem.h"
#include "data/csv_command.h"
#include "data/csv_date.h"
#include "data/csv_number.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- kinds of fields ---- */

static bool is_one_of(const char *text, const char *const *words, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (strcasecmp(text, words[i]) == 0) return true;
  return false;
}

static const char *behind_sign(const char *text)
{
  return text + (*text == '-' || *text == '+');
}

/* What programs print for the results of computations that are no finite numbers. */
typedef enum { RESULT_NONE, RESULT_NAN, RESULT_INFINITE } result;

/* "1.#INF00e+000", as programs of Visual C print them: with few digits the letters are cut and rounded like digits, #IND and #INF to
 * #J or #IO, so that the sign has to tell which it was: the NaN of computations, #IND, has a minus. */
static result visual_c_result(const char *text)
{
  const char *c = behind_sign(text);
  if (c[0] != '1' || (c[1] != '.' && c[1] != ',') || c[2] != '#' || !isalpha((unsigned char)c[3])) return RESULT_NONE;
  c += 3;
  const size_t letters = strspn(c, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
  if (c[letters + strspn(c + letters, "0123456789eE+-")]) return RESULT_NONE;
  if (strncasecmp(c, "inf", 3) == 0) return RESULT_INFINITE;
  if (strncasecmp(c, "ind", 3) == 0 || strchr("qQrRsS", *c)) return RESULT_NAN;
  return *text == '-' ? RESULT_NAN : RESULT_INFINITE;
}

/* "nan", "-nan(ind)", "NaN(0x7ff8)", "NaNQ" */
static bool is_nan(const char *text)
{
  static const char *const errors[] = { "#div/0!", "#num!", "#value!" };
  const char *c = behind_sign(text);
  if (is_one_of(text, errors, SHOAL_COUNT(errors))) return true;
  if (strncasecmp(c, "nan", 3) != 0) return false;
  c += 3;
  c += *c && strchr("qQsS", *c);
  return !*c || (*c == '(' && strchr(c, ')') == c + strlen(c) - 1);
}

static result result_of(const char *text)
{
  static const char *const infinite[] = { "inf", "infinity", "\xe2\x88\x9e" };
  if (is_nan(text)) return RESULT_NAN;
  return is_one_of(behind_sign(text), infinite, SHOAL_COUNT(infinite)) ? RESULT_INFINITE : visual_c_result(text);
}

bool shoal_csv_marks_gap(const char *text)
{
  static const char *const none[] = { "na", "n/a",  "null", "none", "nil",   "nat", "<na>",  "?",      "-",
                                      ".",  "#n/a", "#na",  "k.a.", "k. a.", "\\n", "#ref!", "#name?", "#null!" };
  return is_one_of(text, none, SHOAL_COUNT(none)) || result_of(text) == RESULT_NAN;
}

bool shoal_csv_is_infinite(const char *text)
{
  return result_of(text) == RESULT_INFINITE;
}

bool shoal_csv_is_beyond(const shoal_csv_dialect *d, const char *text)
{
  double v;
  char *end;
  if (shoal_csv_is_infinite(text)) return true;
  if (shoal_csv_number(d, text, &v, NULL)) return isinf((float)v);
  return isinf(strtod(text, &end)) && end > text && !*end;
}

bool shoal_csv_is_list(const char *text)
{
  const size_t n = strlen(text);
  size_t numbers = 0;
  if (n > 2 && text[0] == '[' && text[n - 1] == ']') return strpbrk(text, "0123456789") != NULL;
  for (const char *at = text; *at; at += strspn(at, " "), numbers++) {
    char *end;
    (void)strtod(at, &end);
    if (end == at || (*end && *end != ' ')) return false;
    at = end;
  }
  return numbers > 2;
}

bool shoal_csv_is_truth(const char *text)
{
  static const char *const truth[] = { "true", "false", "yes", "no" };
  return is_one_of(text, truth, SHOAL_COUNT(truth));
}

/* The sign of a currency or of percent in a number, or a minus that is not the one of ASCII; NULL: none. */
static const char *decoration(const char *text)
{
  static const char *const signs[] = {
    "$", "%", "\xe2\x82\xac", "\xc2\xa3", "\xc2\xa5", "\xe2\x88\x92", "\xe2\x80\x93"
  };
  for (size_t i = 0; i < SHOAL_COUNT(signs); i++)
    if (strstr(text, signs[i])) return strpbrk(text, "0123456789") ? signs[i] : NULL;
  return NULL;
}

static bool is_minus(const char *sign)
{
  return (unsigned char)sign[0] == 0xe2 && (unsigned char)sign[1] != 0x82;
}

/* A unit: letters behind the number, or "°C" and the like. */
static bool is_unit(const char *text)
{
  size_t letters = 0;
  for (const char *c = text; *c; c++) {
    letters += isalpha((unsigned char)*c) != 0;
    if (!isalpha((unsigned char)*c) && (unsigned char)*c < 0x80 && *c != '/') return false;
  }
  return letters > 0;
}

/* What stands in front of sums of money. */
static const char *currency(const char *text)
{
  static const char *const signs[] = { "US$", "A$",  "C$",  "R$",  "RM",  "Rs.", "Rs",  "USD", "EUR",
                                       "GBP", "CHF", "INR", "CAD", "AUD", "JPY", "CNY", "kr" };
  for (size_t i = 0; i < SHOAL_COUNT(signs); i++)
    if (strncmp(text, signs[i], strlen(signs[i])) == 0) return signs[i];
  return NULL;
}

bool shoal_csv_beside_number(const shoal_csv_dialect *d, const char *text, char out[16])
{
  char rest[64];
  const char *sign = currency(text) ? currency(text) : decoration(text);
  double unused;
  size_t n = strlen(text);
  if (n >= sizeof rest || (sign && is_minus(sign))) return false;
  strcpy(rest, text);
  if (sign) {
    char *at = strstr(rest, sign), *behind = at + strlen(sign);
    snprintf(out, 16, "%s", sign);
    memmove(at, behind, strlen(behind) + 1);
  } else {
    const size_t from = strspn(text, "+-0123456789., '");
    if (from == 0 || from == n || n - from >= 16 || !is_unit(text + from)) return false;
    strcpy(out, text + from);
    rest[from] = '\0';
  }
  n = strlen(rest);
  while (n > 0 && rest[n - 1] == ' ') rest[--n] = '\0';
  return shoal_csv_number(d, rest + strspn(rest, " "), &unused, NULL);
}

/* As accountants write -1.5. */
static bool is_in_parentheses(const shoal_csv_layout *l, const char *text)
{
  char inside[64];
  const size_t n = strlen(text);
  double unused;
  if (n < 3 || n > sizeof inside || text[0] != '(' || text[n - 1] != ')') return false;
  snprintf(inside, sizeof inside, "%.*s", (int)n - 2, text + 1);
  return shoal_csv_number(&l->dialect, inside, &unused, NULL);
}

/* A number with more beside it: a unit, or a sign of a limit ("<0.5"). */
static bool is_with_more(const char *text)
{
  char *end;
  if (strchr("<>~", *text) && strpbrk(text, "0123456789")) return true;
  (void)strtod(text, &end);
  return end > text && *end && !strpbrk(end, "0123456789");
}

/* ="0042", as spreadsheets keep zeros in front. */
static bool is_formula(const char *text)
{
  return text[0] == '=' && text[1] == '"';
}

/* 1.5D-02, as Fortran writes numbers of double precision. */
static bool is_fortran(const char *text)
{
  size_t n = strspn(text, "+-0123456789.,"), digits = strcspn(text, "0123456789");
  if (digits >= n || !text[n] || !strchr("dD", text[n])) return false;
  const char *exponent = text + n + 1;
  exponent += *exponent == '+' || *exponent == '-';
  return *exponent && !exponent[strspn(exponent, "0123456789")];
}

/* ---- what is wrong ---- */

/* Whether another feature has numbers: without the column there is something to learn from. */
static bool others_have_numbers(const shoal_csv_layout *l, size_t column)
{
  for (size_t i = 0; i < l->columns && !l->like; i++)
    if (i != column && i != l->label && !l->dropped[i] && l->numeric[i]) return true;
  return false;
}

/* Behind a cure: ", or leave the column out with --drop 3". */
static const char *or_drop(const shoal_csv_layout *l, size_t column, char out[64])
{
  out[0] = '\0';
  if (others_have_numbers(l, column) && !shoal_csv_is_target(l, column))
    snprintf(out, 64, ", or leave the column out with --drop %zu", column + 1);
  return out;
}

/* Behind what a field is, which is no number: what makes numbers of it, and of all columns that hold something else. */
static void add_command(const shoal_csv_layout *l, bool guessed, const shoal_csv_wrong *f, shoal_str *out)
{
  char drop[64];
  shoal_csv_explain_command(l, out);
  if (guessed && !l->like && l->holds[f->column] != SHOAL_CSV_NUMBERS)
    shoal_str_add(out, "; or name the column as --label %zu if it is the label", f->column + 1);
  if (others_have_numbers(l, f->column))
    shoal_str_add(out, "%s%s", l->words.len ? l->words.text : "; or",
                  l->words.len ? "" : or_drop(l, f->column, drop) + 4);
  if (l->label == SHOAL_CSV_NO_LABEL && !l->like && !l->targets)
    shoal_str_add(out, "; for predictions by a model give --like RUN, and its columns are made");
}

static void explain_by_command(const shoal_csv_layout *l, bool guessed, const shoal_csv_wrong *f, const char *what,
                               char out[SHOAL_CSV_REASON])
{
  shoal_str text = { 0 };
  add_command(l, guessed, f, &text);
  snprintf(out, SHOAL_CSV_REASON, "%s; features are numbers: %s", what, text.text);
  shoal_str_free(&text);
}

/* What a field is that --missing mends: "is infinite, so not finite, the first of 3 such fields". */
static void describe_gap(const shoal_csv_wrong *f, bool beyond, char *out, size_t cap)
{
  char more[128] = "", shown[48];
  const bool infinite = shoal_csv_is_infinite(f->text);
  if (beyond && f->beyond > 1 && infinite)
    snprintf(more, sizeof more, ", as %zu fields of the file", f->beyond);
  else if (beyond && f->beyond > 1)
    snprintf(more, sizeof more, ", as %zu fields of the file (the largest, \"%s\", in line %zu)", f->beyond,
             shoal_show(f->most, shown, sizeof shown), f->most_line);
  snprintf(out, cap, "%s%s",
           beyond && infinite                 ? "is infinite, so not finite"
           : beyond                           ? "is larger than any 32-bit float"
           : !f->text[0]                      ? "is empty"
           : result_of(f->text) == RESULT_NAN ? "is not a number (NaN), which marks a missing value"
                                              : "marks a missing value",
           more);
}

static void explain_gap(const shoal_csv_layout *l, bool guessed, const shoal_csv_wrong *f, bool beyond,
                        char out[SHOAL_CSV_REASON])
{
  char drop[64] = "", what[256];
  describe_gap(f, beyond, what, sizeof what);
  if (l->odd) {
    shoal_str both = { 0 };
    shoal_str_add(&both, "%s, which --missing mean fills, and %zu other column%s no numbers", what, l->odd,
                  l->odd == 1 ? " holds" : "s hold");
    explain_by_command(l, guessed, f, both.text, out);
    shoal_str_free(&both);
    return;
  }
  if (others_have_numbers(l, f->column)) snprintf(drop, sizeof drop, ", --drop %zu the column", f->column + 1);
  const bool none = l->label == SHOAL_CSV_NO_LABEL && !l->like;
  snprintf(
      out, SHOAL_CSV_REASON,
      "%s; features are %snumbers: %s--missing mean fills such fields%s%s, --missing drop leaves their rows out%s%s",
      what, beyond ? "finite " : "", none ? "--like RUN " : "",
      none || l->like ? " with the mean that the model was trained with" : "", drop,
      beyond && !shoal_csv_is_infinite(f->text) ? "; if such numbers are right, divide the column by a power of ten"
                                                : "",
      f->slips ? f->slips : "");
}

/* One field among numbers. */
static void explain_slip(const shoal_csv_wrong *f, const char *drop, char out[SHOAL_CSV_REASON])
{
  char gaps[80] = "";
  if (f->gaps)
    snprintf(gaps, sizeof gaps, "; --missing mean fills %zu other field%s without a value", f->gaps,
             f->gaps == 1 ? "" : "s");
  snprintf(out, SHOAL_CSV_REASON, "is not a number, and the fields above it are: %s%s%s", f->slips, drop, gaps);
}

static void explain_words(const shoal_csv_layout *l, bool guessed, const shoal_csv_wrong *f, char out[SHOAL_CSV_REASON])
{
  char drop[64], label[96] = "";
  const bool others = others_have_numbers(l, f->column);
  if (shoal_csv_is_target(l, f->column)) {
    snprintf(out, SHOAL_CSV_REASON,
             "is not a number; targets are numbers: correct it, or remove the row; of classes the column is given by "
             "--label");
    return;
  }
  if (guessed && !l->like)
    snprintf(label, sizeof label, ", or name the column as --label %zu if it is the label", f->column + 1);
  snprintf(out, SHOAL_CSV_REASON, "is not a number; features are numbers: write what matters of it as a number%s%s%s",
           label, or_drop(l, f->column, drop), l->words.len && others ? l->words.text : "");
}

static bool is_base_16(const char *text)
{
  const char *c = behind_sign(text);
  return c[0] == '0' && (c[1] == 'x' || c[1] == 'X') && c[2] && !c[2 + strspn(c + 2, "0123456789abcdefABCDEF")];
}

/* As Python and others write large numbers: 1_000_000. */
static bool has_underscores(const char *text)
{
  const char *c = behind_sign(text);
  return isdigit((unsigned char)*c) && strchr(c, '_') && !c[strspn(c, "0123456789_.,eE+-")];
}

const char *shoal_csv_why_not(const shoal_csv_layout *l, bool guessed, const shoal_csv_wrong *f,
                              char out[SHOAL_CSV_REASON])
{
  char word[SHOAL_WORD], drop[64];
  const char *text = f->text, *file = shoal_shell_word(f->path, word), *sign = decoration(text);
  or_drop(l, f->column, drop);
  const shoal_csv_holds kind = l->holds[f->column];
  const bool beyond = shoal_csv_is_beyond(&l->dialect, text) && !shoal_csv_is_target(l, f->column);
  if (!text[0] || beyond || shoal_csv_marks_gap(text))
    explain_gap(l, guessed, f, beyond, out);
  else if (is_base_16(text))
    snprintf(out, SHOAL_CSV_REASON, "is written in base 16: write it in base 10%s", drop);
  else if (has_underscores(text))
    snprintf(
        out, SHOAL_CSV_REASON,
        "has underscores between its digits: remove them, as sed ':a;s/\\([0-9]\\)_\\([0-9]\\)/\\1\\2/;ta' %s >NEW "
        "does%s",
        file, drop);
  else if (kind == SHOAL_CSV_TRUTH)
    explain_by_command(l, guessed, f, "is a truth value", out);
  else if (shoal_csv_is_truth(text))
    snprintf(out, SHOAL_CSV_REASON,
             "is a truth value; features are numbers: write 1 and 0, as sed "
             "'s/\\<true\\>\\|\\<yes\\>/1/Ig;s/\\<false\\>\\|\\<no\\>/0/Ig' %s >NEW does in all columns%s",
             file, drop);
  else if (sign && is_minus(sign))
    snprintf(out, SHOAL_CSV_REASON,
             "has a minus that is not the one of keyboards: write that, as sed 's/%s/-/g' %s >NEW does", sign, file);
  else if (sign && kind == SHOAL_CSV_SIGNS)
    explain_by_command(l, guessed, f, "has a sign that is no part of a number", out);
  else if (sign)
    snprintf(out, SHOAL_CSV_REASON,
             "has a sign that is no part of a number: remove it, as sed 's/%s//g' %s >NEW does%s",
             *sign == '$' ? "[$]" : sign, file, drop);
  else if (kind == SHOAL_CSV_DATES || kind == SHOAL_CSV_TIMES)
    explain_by_command(l, guessed, f, kind == SHOAL_CSV_TIMES ? "looks like a time" : "looks like a date", out);
  else if (is_formula(text))
    snprintf(out, SHOAL_CSV_REASON,
             "is a formula that keeps a text in a spreadsheet: write what is in it alone, as sed "
             "'s/\"*=\"\"*\\([^\",]*\\)\"\"*/\\1/g' %s >NEW does%s",
             file, drop);
  else if (is_fortran(text))
    snprintf(out, SHOAL_CSV_REASON,
             "has an exponent as Fortran writes it: write E for D, as sed "
             "'s/\\([0-9][.,]\\{0,1\\}\\)[dD]\\([-+]\\{0,1\\}[0-9]\\)/\\1E\\2/g' %s >NEW does",
             file);
  else if (kind == SHOAL_CSV_SIGNS)
    explain_by_command(l, guessed, f, "is not a number alone", out);
  else if (is_with_more(text))
    snprintf(out, SHOAL_CSV_REASON,
             "is not a number alone; features are numbers: leave that out which is beside the number (a unit, a "
             "sign)%s",
             drop);
  else if (is_in_parentheses(l, text))
    snprintf(out, SHOAL_CSV_REASON,
             "is in parentheses, which stand for a minus in accounts: write -%.*s, as sed "
             "'s/(\\([0-9.,]*\\))/-\\1/g' %s >NEW does",
             (int)strlen(text) - 2, text + 1, file);
  else if (kind == SHOAL_CSV_LISTS)
    explain_by_command(l, guessed, f, "is a list in one field", out);
  else if (kind != SHOAL_CSV_NUMBERS && !l->like)
    explain_by_command(l, guessed, f, kind == SHOAL_CSV_TEXT ? "is text" : "is not a number", out);
  else if (f->slips)
    explain_slip(f, drop, out);
  else
    explain_words(l, guessed, f, out);
  return out;
}
