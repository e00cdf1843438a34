/* See text_folders.h.  Texts to be told apart are a column of a table; where a class is missing below one of several splits, as that of reviews
 * without a judgement, it is none. */
#include "data/text_folders.h"
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/texts.h"
#include "data/data_impl.h"
#include "data/image_folder.h"
#include "data/python.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Called as texts are, "0_9.txt" or "10003", and without what no text has. */
static bool is_text(const char *path)
{
  unsigned char head[512];
  const char *ending = strrchr(shoal_path_base(path), '.');
  if (ending && strcasecmp(ending, ".txt") != 0) return false;
  FILE *f = fopen(path, "re");
  const size_t n = f ? fread(head, 1, sizeof head, f) : 0;
  if (f) fclose(f);
  return n > 0 && !memchr(head, 0, n) && !shoal_data_find_alien(head, n).what;
}

static bool holds_texts(const char *folder)
{
  shoal_texts files = { 0 };
  bool found = false;
  if (shoal_image_folder_list(folder, SHOAL_ENTRY_FILE, &files) == SHOAL_OK && files.n) {
    char *path = shoal_path_join(folder, files.at[0]);
    found = is_text(path);
    free(path);
  }
  shoal_texts_free(&files);
  return found;
}

/* The names of the folders with texts, sorted. */
static void find_classes(const char *folder, shoal_texts *out)
{
  shoal_texts inside = { 0 };
  shoal_status st = shoal_image_folder_list(folder, SHOAL_ENTRY_FOLDER, &inside);
  for (size_t i = 0; st == SHOAL_OK && i < inside.n; i++) {
    char *path = shoal_path_join(folder, inside.at[i]);
    if (holds_texts(path)) st = shoal_texts_add(out, inside.at[i]);
    free(path);
  }
  shoal_texts_free(&inside);
}

typedef struct {
  shoal_texts splits;         /* folders; one called "" if the classes are not below splits */
  shoal_texts classes, other; /* that all splits have, and paths of those that some lack */
} text_folders;

static void find_splits(const char *folder, text_folders *t)
{
  shoal_texts inside = { 0 }, *found;
  if (shoal_image_folder_list(folder, SHOAL_ENTRY_FOLDER, &inside) != SHOAL_OK ||
      SHOAL_ALLOC(inside.n + 1, &found) != SHOAL_OK) {
    shoal_texts_free(&inside);
    return;
  }
  size_t n = 0;
  for (size_t i = 0; i < inside.n; i++) {
    if (!shoal_import_names_split(inside.at[i])) continue;
    char *path = shoal_path_join(folder, inside.at[i]);
    find_classes(path, &found[n]);
    free(path);
    if (found[n].n && shoal_texts_add(&t->splits, inside.at[i]) == SHOAL_OK) n++;
  }
  if (n == 0 && shoal_texts_add(&t->splits, "") == SHOAL_OK) find_classes(folder, &found[n++]);
  for (size_t s = 0; s < n; s++)
    for (size_t i = 0; i < found[s].n; i++) {
      bool everywhere = true;
      for (size_t o = 0; o < n; o++) everywhere &= shoal_texts_have(&found[o], found[s].at[i]);
      if (everywhere && s == 0) (void)shoal_texts_add(&t->classes, found[s].at[i]);
      if (!everywhere) (void)shoal_texts_take(&t->other, shoal_path_join(t->splits.at[s], found[s].at[i]));
    }
  for (size_t s = 0; s < n; s++) shoal_texts_free(&found[s]);
  free(found);
  shoal_texts_free(&inside);
}

static void add_list(shoal_str *out, const shoal_texts *t)
{
  char word[SHOAL_WORD];
  for (size_t i = 0; i < t->n; i++) shoal_str_add(out, "%s%s", i ? ", " : "", shoal_python_text(t->at[i], word));
}

static void add_names(shoal_str *out, const shoal_texts *t)
{
  enum { SHOWN = 5 };
  char name[80];
  for (size_t i = 0; i < t->n && i <= SHOWN; i++)
    shoal_str_add(out, "%s%s", i ? ", " : "", i < SHOWN ? shoal_show(t->at[i], name, sizeof name) : "...");
}

/* The table of a split has its name, by which it is for training or for tests. */
static char *describe(const char *folder, const text_folders *t)
{
  static const char *const packages[] = { NULL };
  shoal_python python;
  shoal_str s = { 0 };
  char word[SHOAL_WORD];
  shoal_find_python(packages, &python);
  shoal_str_add(&s, "its folders have texts of %zu classes (", t->classes.n);
  add_names(&s, &t->classes);
  if (t->other.n) {
    shoal_str_add(&s, "; left out: ");
    add_names(&s, &t->other);
    shoal_str_add(&s, ", which not all splits have");
  }
  shoal_str_add(&s,
                "): texts that are to be told apart are a column of a table, which %s -c \"import csv, os, sys; S, D = "
                "sys.argv[1:]; ",
                python.run);
  shoal_str_add(&s, "J = os.path.join; os.mkdir(D); [csv.writer(open(J(D, (s or 'texts') + '.csv'), 'w', newline='', "
                    "encoding='utf-8'))");
  shoal_str_add(&s, ".writerows([('text', 'label')] + [(' '.join(open(J(S, s, c, f), encoding='utf-8', "
                    "errors='replace').read().split()), c) ");
  shoal_str_add(&s, "for c in [");
  add_list(&s, &t->classes);
  shoal_str_add(
      &s, "] for f in sorted(os.listdir(J(S, s, c))) if f[0] != '.' and os.path.isfile(J(S, s, c, f))]) for s in [");
  add_list(&s, &t->splits);
  shoal_str_add(&s, "]]\" %s NEW does, and shoal data import csv NEW -o NEW.h5", shoal_shell_word(folder, word));
  return s.text;
}

char *shoal_text_folders_cure(const char *folder)
{
  text_folders t = { 0 };
  shoal_error ignored;
  find_splits(folder, &t);
  char *cure = t.classes.n > 1 ? describe(folder, &t) : NULL;
  shoal_error_take(&ignored);
  shoal_texts_free(&t.splits);
  shoal_texts_free(&t.classes);
  shoal_texts_free(&t.other);
  return cure;
}
