/* Folders that hold an array for each sample, one folder for each class: the command of NumPy that makes one archive of them.
 *
 *     spec/yes/1.npy, spec/no/1.npy        spec/train/yes/1.npy, spec/test/yes/1.npy */
#include "data/npy_folders.h"
#include "base/error.h"
#include "base/file.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/image_folder.h"
#include "data/python.h"
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* Arrays, but none of labels: with such they are a data set of their own. */
static bool has_arrays(const char *folder)
{
  shoal_texts files = { 0 };
  bool found = false, labels = false;
  if (shoal_image_folder_list(folder, SHOAL_ENTRY_FILE, &files) == SHOAL_OK)
    for (size_t i = 0; i < files.n && !labels; i++) {
      if (fnmatch("*.npy", files.at[i], 0) != 0) continue;
      char *name = shoal_strdup_printf("%.*s", (int)strlen(files.at[i]) - 4, files.at[i]);
      labels = shoal_data_role_of(name, true) == SHOAL_ROLE_Y;
      free(name);
      found = true;
    }
  shoal_texts_free(&files);
  return found && !labels;
}

/* How many folders inside hold arrays. */
static size_t count_classes(const char *folder)
{
  shoal_texts inside = { 0 };
  size_t n = 0;
  if (shoal_image_folder_list(folder, SHOAL_ENTRY_FOLDER, &inside) != SHOAL_OK) return 0;
  for (size_t i = 0; i < inside.n; i++) {
    char *path = shoal_path_join(folder, inside.at[i]);
    n += has_arrays(path);
    free(path);
  }
  shoal_texts_free(&inside);
  return n;
}

/* Whether a folder that is called as a split has classes. */
static bool has_splits(const char *folder)
{
  shoal_texts inside = { 0 };
  bool found = false;
  if (shoal_image_folder_list(folder, SHOAL_ENTRY_FOLDER, &inside) != SHOAL_OK) return false;
  for (size_t i = 0; i < inside.n && !found; i++) {
    char *path = shoal_path_join(folder, inside.at[i]);
    found = shoal_import_trains(inside.at[i]) && count_classes(path) > 1;
    free(path);
  }
  shoal_texts_free(&inside);
  return found;
}

static char *write_command(const char *folder, bool splits)
{
  static const char *const packages[] = { "numpy", NULL };
  size_t n = strlen(folder);
  while (n > 1 && folder[n - 1] == '/') n--;
  char from[SHOAL_WORD], to[SHOAL_WORD], word[SHOAL_WORD], set[SHOAL_WORD];
  char *npz = shoal_strdup_printf("%.*s-joined.npz", (int)n, folder),
       *made = shoal_strdup_printf("%.*s-joined.h5", (int)n, folder);
  shoal_python python;
  shoal_find_python(packages, &python);
  char *command = shoal_strdup_printf(
      "%s -c \"import glob, numpy; F = sorted(glob.glob(glob.escape(%s) + '%s/*.npy')); S = lambda p: %s; U = "
      "sorted({p.split('/')[-2] for p in F}, key=lambda c: (not c.isdigit(), int(c) if c.isdigit() else 0, c)); M = "
      "numpy.max([numpy.load(p, mmap_mode='r').shape for p in F], 0); L = lambda v: numpy.pad(v, [(0, m - s) for s, m "
      "in "
      "zip(v.shape, M)]); numpy.savez(%s, **{s + n: v for s in sorted({S(p) for p in F}) for f in [[p for p in F if "
      "S(p) "
      "== s]] for n, v in [('X', [L(numpy.load(p)) for p in f]), ('y', [U.index(p.split('/')[-2]) for p in f])]}); "
      "print(dict(enumerate(U)))\" && shoal data import npy %s -o %s%s%s",
      python.run, shoal_python_text(folder, from), splits ? "/*/*" : "/*",
      splits ? "'train_' if 'train' in p.split('/')[-3].lower() else 'test_'" : "''", shoal_python_text(npz, to),
      shoal_shell_word(npz, word), shoal_shell_word(made, set), python.needs[0] ? "  # " : "", python.needs);
  free(npz);
  free(made);
  return command;
}

char *shoal_npy_folders_cure(const char *folder)
{
  shoal_error ignored;
  const bool classes = count_classes(folder) > 1, splits = !classes && has_splits(folder);
  shoal_error_take(&ignored);
  if (!classes && !splits) return NULL;
  char *command = write_command(folder, splits);
  char *cure = shoal_strdup_printf(
      "its folders have them, as of a class each: this joins an array for each sample, with zeros at "
      "the ends of smaller ones, and numbers the classes: %s",
      command);
  free(command);
  return cure;
}
