/* See csv_field.h. */
#include "data/csv_field.h"
#include "base/mem.h"
#include "data/csv_command.h"
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

static bool is_truth(const char *text)
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

/* Two or more signs of dates and times, each behind a digit, and else digits, blanks and a few letters: "2020-01-31",
 * "31/01/2020 12:30", "2020-01-31T12:30:00Z"; also "31.01.2020". */
bool shoal_csv_is_date(const char *text)
{
  size_t signs = 0, letters = 0;
  if (!isdigit((unsigned char)*text)) return false;
  const size_t day = strspn(text, "0123456789"), month = text[day] == '.' ? strspn(text + day + 1, "0123456789") : 0;
  if (day <= 2 && month > 0 && month <= 2 && text[day + 1 + month] == '.')
    return strspn(text + day + month + 2, "0123456789") >= 2;
  for (const char *at = text + 1; *at; at++) {
    signs += strchr("-/:", *at) != NULL && isdigit((unsigned char)at[-1]);
    letters += isalpha((unsigned char)*at) != 0;
  }
  return signs >= 2 && letters <= 4;
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

static void explain_gap(const shoal_csv_layout *l, const shoal_csv_wrong *f, char out[SHOAL_CSV_REASON])
{
  char drop[64] = "";
  if (others_have_numbers(l, f->column)) snprintf(drop, sizeof drop, ", --drop %zu the column", f->column + 1);
  const bool none = l->label == SHOAL_CSV_NO_LABEL && !l->like;
  snprintf(out, SHOAL_CSV_REASON,
           "%s; features are numbers: %s--missing mean fills such fields%s, --missing drop leaves their rows out%s",
           !f->text[0]                        ? "is empty"
           : result_of(f->text) == RESULT_NAN ? "is not a number (NaN), which marks a missing value"
                                              : "marks a missing value",
           none ? "--like RUN " : "", none || l->like ? " with the mean that the model was trained with" : "", drop);
}

/* A reason that ends with a command and what else could be done. */
static void explain_by_command(const char *what, shoal_str *command, const char *otherwise, char out[SHOAL_CSV_REASON])
{
  snprintf(out, SHOAL_CSV_REASON, "%s, as %s%s", what, command->text, otherwise);
  shoal_str_free(command);
}

static void explain_list(const shoal_csv_layout *l, const shoal_csv_wrong *f, const char *drop,
                         char out[SHOAL_CSV_REASON])
{
  shoal_str command = { 0 };
  shoal_csv_command_lists(l, f->path, &command);
  explain_by_command("is a list in one field; a feature is one number: give each a column", &command, drop, out);
}

static void explain_date(const shoal_csv_layout *l, const shoal_csv_wrong *f, const char *drop,
                         char out[SHOAL_CSV_REASON])
{
  shoal_str command = { 0 };
  char what[256];
  const bool clock = !strpbrk(f->text, "-/.");
  shoal_csv_command_dates(l, f->path, f->column, f->text, &command);
  snprintf(what, sizeof what, "looks like a %s; features are numbers: write %s%s", clock ? "time" : "date",
           clock ? "hours" : "days since 1970", shoal_csv_command_order(&command));
  explain_by_command(what, &command, drop, out);
}

/* One field among numbers. */
static void explain_slip(const shoal_csv_wrong *f, const char *file, const char *drop, char out[SHOAL_CSV_REASON])
{
  char row[SHOAL_WORD + 64] = "";
  if (f->line) snprintf(row, sizeof row, ", as sed %zud %s >NEW does", f->line, file);
  snprintf(out, SHOAL_CSV_REASON, "is not a number, and the fields above it are: correct it, or remove the row%s%s",
           row, drop);
}

/* Whether a column is in a list such as that of columns with words in the first rows. */
static bool is_listed(const shoal_str *list, size_t column)
{
  for (const char *at = list->text; at && *at; at += strspn(at, ", ")) {
    char *end;
    if (strtoul(at, &end, 10) == column) return true;
    at = end;
  }
  return false;
}

/* What the command that makes columns of words does to others: " (where words hardly come again, none, and ... left out: 1, "id")". */
static void tell_others(const shoal_csv_layout *l, shoal_str *out)
{
  enum { MOST = 3 };
  size_t n = 0;
  char text[80];
  for (size_t i = 0; i < l->columns; i++) {
    if (!is_listed(&l->many, i) || n++ > MOST) continue;
    shoal_str_add(out, "%s%s", n == 1 ? " (where words hardly come again, none, and the column is left out: " : "; ",
                  n > MOST ? "..." : shoal_csv_column_text(l, i, text, sizeof text));
  }
  if (n) shoal_str_add(out, ")");
  if (l->dates.len)
    shoal_str_add(out, ", while dates stay (column %.40s: the next import prints what makes days since 1970 of them)",
                  l->dates.text);
}

static void explain_words(const shoal_csv_layout *l, bool guessed, const shoal_csv_wrong *f, char out[SHOAL_CSV_REASON])
{
  enum { MOST = 400 }; /* of columns in a command */
  char drop[64], otherwise[SHOAL_CSV_REASON / 2], label[96] = "";
  shoal_str command = { 0 };
  const bool others = others_have_numbers(l, f->column);
  if (shoal_csv_is_target(l, f->column)) {
    snprintf(out, SHOAL_CSV_REASON,
             "is not a number; targets are numbers: correct it, or remove the row; of classes the column is given by "
             "--label");
    return;
  }
  if (guessed && !l->like)
    snprintf(label, sizeof label, ", or name the column as --label %zu if it is the label", f->column + 1);
  snprintf(otherwise, sizeof otherwise, "%s%s%s", label, or_drop(l, f->column, drop),
           l->words.len && others ? l->words.text : "");
  if (l->text[f->column] && !l->few.len) { /* else it is mostly names */
    shoal_csv_command_text(l, f->path, f->column, &command);
    explain_by_command("is text; features are numbers: give each of its 1000 most frequent words a column of 1 and 0",
                       &command, otherwise, out);
  } else if (l->few.len && !l->like && l->few.len + l->many.len < MOST &&
             (is_listed(&l->few, f->column) || is_listed(&l->many, f->column))) {
    shoal_csv_command_words(l, f->path, &command);
    shoal_str what = { 0 };
    shoal_str_add(&what, "is not a number; features are numbers: give each %s a column of 1 and 0",
                  l->many.len || strchr(l->few.text, ',') ? "value of the columns with words" : "of its values");
    tell_others(l, &what);
    explain_by_command(what.text, &command, otherwise, out);
    shoal_str_free(&what);
  } else {
    snprintf(out, SHOAL_CSV_REASON, "is not a number; features are numbers: write what matters of it as a number%s",
             otherwise);
  }
}

static void explain_infinite(const shoal_csv_layout *l, const shoal_csv_wrong *f, const char *file,
                             char out[SHOAL_CSV_REASON])
{
  char drop[64], nan[SHOAL_WORD + 192] = "";
  const char *value = behind_sign(f->text);
  if (result_of(f->text) == RESULT_INFINITE && strlen(value) < 32) {
    const int dot = (int)strcspn(value, ".");
    snprintf(nan, sizeof nan,
             ", or write nan for it, as sed 's/%s%.*s%s%s%s/nan/g' %s >NEW does, and give --missing drop",
             isalpha((unsigned char)*value) ? "\\<" : "", dot, value, value[dot] ? "[.]" : "",
             value[dot] ? value + dot + 1 : "", isalpha((unsigned char)*value) ? "\\>" : "", file);
  }
  snprintf(out, SHOAL_CSV_REASON, "is infinite, so not finite; features are finite numbers: remove the row%s%s", nan,
           or_drop(l, f->column, drop));
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
  char word[SHOAL_WORD], drop[64], *end;
  const char *text = f->text, *file = shoal_shell_word(f->path, word), *sign = decoration(text);
  or_drop(l, f->column, drop);
  if (!text[0] || shoal_csv_marks_gap(text))
    explain_gap(l, f, out);
  else if ((f->number && !isfinite(f->value)) || result_of(text) == RESULT_INFINITE)
    explain_infinite(l, f, file, out);
  else if (f->number || (isinf(strtod(text, &end)) && end > text && !*end))
    snprintf(out, SHOAL_CSV_REASON, "is larger than any 32-bit float: divide the column by a power of ten%s", drop);
  else if (is_base_16(text))
    snprintf(out, SHOAL_CSV_REASON, "is written in base 16: write it in base 10%s", drop);
  else if (has_underscores(text))
    snprintf(
        out, SHOAL_CSV_REASON,
        "has underscores between its digits: remove them, as sed ':a;s/\\([0-9]\\)_\\([0-9]\\)/\\1\\2/;ta' %s >NEW "
        "does%s",
        file, drop);
  else if (is_truth(text))
    snprintf(out, SHOAL_CSV_REASON,
             "is a truth value; features are numbers: write 1 and 0, as sed "
             "'s/\\<true\\>\\|\\<yes\\>/1/Ig;s/\\<false\\>\\|\\<no\\>/0/Ig' %s >NEW does in all columns%s",
             file, drop);
  else if (sign && is_minus(sign))
    snprintf(out, SHOAL_CSV_REASON,
             "has a minus that is not the one of keyboards: write that, as sed 's/%s/-/g' %s >NEW does", sign, file);
  else if (sign)
    snprintf(out, SHOAL_CSV_REASON,
             "has a sign that is no part of a number: remove it, as sed 's/%s//g' %s >NEW does%s",
             *sign == '$' ? "[$]" : sign, file, drop);
  else if (shoal_csv_is_date(text))
    explain_date(l, f, drop, out);
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
  else if (shoal_csv_is_list(text))
    explain_list(l, f, drop, out);
  else if (l->numeric[f->column] && f->below && !l->words.len)
    explain_slip(f, file, drop, out);
  else
    explain_words(l, guessed, f, out);
  return out;
}
