/* See alike.h.  Both texts are read sign by sign, a letter together with the accents behind it, and compared folded. */
#include "base/alike.h"
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The next code point; a byte that begins none stands for itself, beyond all of them. */
static uint32_t next_point(const char **at)
{
  const uint32_t none = 0x110000;
  const unsigned char *c = (const unsigned char *)*at;
  const int more = c[0] < 0x80 ? 0 : c[0] >= 0xf0 ? 3 : c[0] >= 0xe0 ? 2 : c[0] >= 0xc2 ? 1 : -1;
  uint32_t point = more > 0 ? c[0] & (0x3fu >> more) : c[0];
  for (int i = 1; i <= more; i++) {
    if ((c[i] & 0xc0) != 0x80) {
      (*at)++;
      return none + c[0];
    }
    point = point << 6 | (c[i] & 0x3fu);
  }
  *at += more > 0 ? more + 1 : 1;
  return more < 0 ? none + c[0] : point;
}

static bool is_between(uint32_t p, uint32_t first, uint32_t last)
{
  return p >= first && p <= last;
}

/* Blanks of all widths, none among them, and signs that only say how others are shown. */
static bool is_unseen(uint32_t p)
{
  return (p < 0x80 && isspace((int)p)) || p == 0xa0 || p == 0xad || p == 0x34f || p == 0x180e ||
         is_between(p, 0x2000, 0x200f) || is_between(p, 0x2028, 0x202f) || is_between(p, 0x205f, 0x206f) ||
         p == 0x3000 || is_between(p, 0xfe00, 0xfe0f) || p == 0xfeff;
}

/* An accent that is written on the sign before it. */
static bool is_accent(uint32_t p)
{
  return is_between(p, 0x300, 0x36f) || is_between(p, 0x1ab0, 0x1aff) || is_between(p, 0x1dc0, 0x1dff) ||
         is_between(p, 0x20d0, 0x20ff) || p == 0x3099 || p == 0x309a || is_between(p, 0x64b, 0x65f) ||
         is_between(p, 0x5b0, 0x5c7) || p == 0x93c || p == 0x9bc;
}

/* Without capitals, and in the width of Latin letters.  Of other alphabets those whose small letters lie at one distance. */
static uint32_t fold(uint32_t p)
{
  if (is_between(p, 0xff01, 0xff5e)) p -= 0xfee0;
  if (p < 0x80) return (uint32_t)tolower((int)p);
  if ((is_between(p, 0xc0, 0xde) && p != 0xd7) || (is_between(p, 0x391, 0x3a9)) || is_between(p, 0x410, 0x42f))
    return p + 32;
  if (is_between(p, 0x400, 0x40f)) return p + 80;
  if (is_between(p, 0x100, 0x137) || is_between(p, 0x14a, 0x177) || is_between(p, 0x1e00, 0x1e95) ||
      is_between(p, 0x1ea0, 0x1eff))
    return p | 1;
  return p;
}

/* A sign with what is written on it.  A syllable of Hangul has up to three parts, of which Unicode also has each alone. */
typedef struct {
  uint32_t point;
  size_t accents;
} sign;

/* The letter below the accents of a Latin one, U+00C0 to U+017F; '.': it has none; 0: not known here, any. */
static uint32_t bare(uint32_t p)
{
  static const char letters[] = "aaaaaa.ceeeeiiii.nooooo..uuuuy..aaaaaa.ceeeeiiii.nooooo..uuuuy.y"
                                "aaaaaaccccccccdd..eeeeeeeeeegggggggghh..iiiiiiiii...jjkk.llllll."
                                "...nnnnnn...oooooo..rrrrrrsssssssstttt..uuuuuuuuuuuuwwyyyzzzzzz.";
  return is_between(p, 0xc0, 0x17f) ? (uint32_t)letters[p - 0xc0] : 0;
}

/* Whether the first is the second with its accents. */
static bool is_whole(sign p, sign q)
{
  const uint32_t letter = bare(p.point);
  return p.point >= 0x80 && q.accents > p.accents && p.point != q.point && (letter == 0 || letter == q.point);
}

static sign next_sign(const char **at, uint32_t parts[3])
{
  sign s = { 0 };
  if (parts[0]) { /* what is left of a syllable */
    s.point = parts[0];
    parts[0] = parts[1];
    parts[1] = 0;
    return s;
  }
  do {
    s.point = **at ? next_point(at) : 0;
  } while (s.point && is_unseen(s.point));
  if (!s.point) return s;
  if (is_between(s.point, 0xac00, 0xd7a3)) {
    const uint32_t syllable = s.point - 0xac00, last = syllable % 28;
    parts[0] = 0x1161 + syllable / 28 % 21;
    parts[1] = last ? 0x11a7 + last : 0;
    s.point = 0x1100 + syllable / 28 / 21;
    return s;
  }
  s.point = fold(s.point);
  for (const char *ahead = *at; *ahead; *at = ahead) {
    const uint32_t p = next_point(&ahead);
    if (is_accent(p))
      s.accents++;
    else if (!is_unseen(p))
      break;
  }
  return s;
}

bool shoal_look_alike(const char *a, const char *b)
{
  uint32_t more_a[3] = { 0 }, more_b[3] = { 0 };
  for (;;) {
    const sign p = next_sign(&a, more_a), q = next_sign(&b, more_b);
    if (!p.point || !q.point) return p.point == q.point;
    if (p.point == q.point && p.accents == q.accents) continue;
    if (!is_whole(p, q) && !is_whole(q, p)) return false;
  }
}

/* "U+0061 U+0301", up to three signs. */
static size_t add_points(const char *text, const char *end, char *buf, size_t cap)
{
  enum { MOST = 3 };
  size_t at = 0;
  for (int n = 0; n < MOST && text < end; n++)
    at += (size_t)snprintf(buf + at, cap - at, "%sU+%04X", n ? " " : "", (unsigned)next_point(&text));
  if (at == 0) at += (size_t)snprintf(buf, cap, "nothing");
  return at;
}

/* What the signs from `a` to `end` are: none is seen, or all are. */
static void count_signs(const char *a, const char *end, size_t *unseen, size_t *seen, bool *ascii)
{
  while (a < end) {
    const uint32_t p = next_point(&a);
    if (is_unseen(p))
      ++*unseen;
    else
      ++*seen;
    *ascii &= p < 0x80;
  }
}

/* Both texts end at the same sign, or within one. */
static bool is_inside(const char *text)
{
  return ((unsigned char)*text & 0xc0) == 0x80;
}

const char *shoal_difference(const char *a, const char *b, char *buf, size_t cap)
{
  const char *end_a = a + strlen(a), *end_b = b + strlen(b);
  size_t unseen = 0, seen = 0;
  bool ascii = true;
  while (*a && *a == *b) a++, b++;
  while (is_inside(a) || is_inside(b)) a--, b--; /* both are equal up to here */
  while (end_a > a && end_b > b && end_a[-1] == end_b[-1]) end_a--, end_b--;
  while (is_inside(end_a)) end_a++, end_b++;
  count_signs(a, end_a, &unseen, &seen, &ascii);
  count_signs(b, end_b, &unseen, &seen, &ascii);
  const char *p = a, *q = b;
  const bool capitals = a < end_a && b < end_b && fold(next_point(&p)) == fold(next_point(&q));
  const char *what = !seen      ? "spaces"
                     : ascii    ? (unseen ? "capitals or spaces" : "capitals")
                     : capitals ? "capitals"
                                : "signs that look alike";
  size_t at = (size_t)snprintf(buf, cap, "%s", what);
  if (ascii) return buf;
  at += (size_t)snprintf(buf + at, cap - at, " (");
  at += add_points(a, end_a, buf + at, cap - at);
  at += (size_t)snprintf(buf + at, cap - at, " and ");
  at += add_points(b, end_b, buf + at, cap - at);
  snprintf(buf + at, cap - at, ")");
  return buf;
}

bool shoal_find_alike(const char *const *texts, size_t n, size_t *first, size_t *second)
{
  enum { MOST = 1000 };
  for (size_t i = 1; i < n && n <= MOST; i++)
    for (size_t k = 0; k < i; k++)
      if (strcmp(texts[i], texts[k]) != 0 && shoal_look_alike(texts[i], texts[k])) {
        *first = k;
        *second = i;
        return true;
      }
  return false;
}
