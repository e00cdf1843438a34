/* What is said of a folder of images: what was left out and why, what was changed in reading, and how to mend it.  Each kind is told once,
 * with its count and the first that has it. */
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/data_impl.h"
#include "data/image_folder.h"
#include "data/image_set.h"
#include "data/images_table.h"
#include "data/python.h"
#include "data/text_folders.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What a file is that is no image, and how many of its first bytes there are. */
static shoal_alien find_other(const char *path, size_t *n)
{
  unsigned char head[64];
  shoal_error ignored;
  shoal_source *s;
  *n = 0;
  shoal_status st = shoal_source_open(path, &s);
  if (st == SHOAL_OK) {
    st = shoal_source_read(s, head, sizeof head, n);
    shoal_source_close(s);
  }
  if (st != SHOAL_OK) shoal_error_take(&ignored);
  return shoal_data_find_alien(head, *n);
}

/* The ending of a file's name, ".webp", if a shell reads it as it is; else NULL. */
static const char *plain_ending(const char *path)
{
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const char *ending = strrchr(shoal_path_base(path), '.');
  return ending && ending[1] && !ending[1 + strspn(ending + 1, letters)] ? ending : NULL;
}

/* Adds "-name '*.webp'" for the ending of a file that is an image of another kind, once. */
static void add_ending(const char *path, shoal_str *out)
{
  size_t n;
  const char *ending = plain_ending(path);
  const shoal_alien found = ending ? find_other(path, &n) : (shoal_alien){ NULL, NULL };
  if (!found.what || !strstr(found.what, " image")) return;
  char *term = shoal_strdup_printf("-name '*%s'", ending);
  if (!out->text || !strstr(out->text, term)) shoal_str_add(out, "%s%s", out->len ? " -o " : "", term);
  free(term);
}

/* "find set -name '*.webp' -exec mogrify -format png {} + makes PNGs of all", for several images, as one of them is, below a folder, and
 * those of other folders in `m`, unless it is NULL; else what makes a PNG of that one.  Caller frees. */
static char *how_to_convert(const shoal_image_set *m, const shoal_alien *found, const char *folder, const char *path,
                            size_t n)
{
  char word[SHOAL_WORD];
  shoal_str endings = { 0 };
  if (n > 1) add_ending(path, &endings);
  const size_t one = endings.len;
  for (size_t i = 0; one && m && i < m->n_folders; i++)
    if (m->folders[i].other) add_ending(m->folders[i].other, &endings);
  if (!one) return shoal_data_alien_cure(found, path);
  const bool several = endings.len > one;
  char *text =
      shoal_strdup_printf("find %s %s%s%s -exec mogrify -format png {} + makes PNGs of all (ImageMagick, package "
                          "imagemagick)",
                          shoal_shell_word(folder, word), several ? "\\( " : "", endings.text, several ? " \\)" : "");
  shoal_str_free(&endings);
  return text;
}

/* "is neither PNG nor JPEG but a GIF image: left out; mogrify -format png a/1.gif makes a PNG of it", the first of n below a folder. */
static void warn_other(const shoal_image_set *m, const char *folder, const char *path, size_t others)
{
  size_t n;
  shoal_alien found = find_other(path, &n);
  char *cure = found.what ? how_to_convert(m, &found, folder, path, others) : NULL;
  if (found.what)
    shoal_warn("%s is neither PNG nor JPEG but %s: left out; %s", path, found.what, cure);
  else
    shoal_warn("%s is %s", path, n ? "neither PNG nor JPEG: left out" : "empty: left out; get it again, or remove it");
  free(cure);
}

const char *shoal_image_set_why_none(const shoal_class_folder *f, char *buf, size_t cap)
{
  char others[48] = "";
  size_t n;
  if (f->others) {
    const shoal_alien found = find_other(f->other, &n);
    if (f->others > 1)
      snprintf(others, sizeof others, "%s and %zu other file%s", found.what || !n ? "," : "", f->others - 1,
               f->others > 2 ? "s" : "");
    snprintf(buf, cap, "holds only %.80s%s%s%s", shoal_path_base(f->other),
             found.what ? ", which is "
             : n        ? ""
                        : ", which is empty",
             found.what ? found.what : "", others);
  } else
    snprintf(buf, cap, "%s",
             f->inside && shoal_image_folder_is_link(f->path)
                 ? "is a link to a folder of folders, which are not looked into"
             : f->inside ? "holds only folders, which are not looked into"
             : f->hidden ? "holds only hidden files"
                         : "is empty");
  return buf;
}

/* "; if they are parts of a class, python3 -c '...' links all images below each class into one folder, ...", or "" where classes are below
 * splits.  Caller frees. */
static char *how_to_flatten(const shoal_image_set *m, const char *folder)
{
  static const char *const packages[] = { NULL };
  if (m->splits) return shoal_strdup_printf("%s", "");
  char from[SHOAL_WORD], to[SHOAL_WORD], word[SHOAL_WORD], *flat = shoal_strdup_printf("%s-flat", folder);
  shoal_python python;
  shoal_find_python(packages, &python);
  char *text = shoal_strdup_printf(
      "; if they are parts of a class, %s -c \"import os; S, D = %s, %s; [(os.makedirs(os.path.join(D, c), "
      "exist_ok=True), os.symlink(os.path.abspath(os.path.join(r, f)), os.path.join(D, c, os.path.relpath(os.path."
      "join(r, f), os.path.join(S, c)).replace('/', '_')))) for c in sorted(os.listdir(S)) for r, _, n in os.walk(os."
      "path.join(S, c)) for f in n]\" links all images below each class into one folder, for shoal data import images "
      "%s -o NEW.h5",
      python.run, shoal_python_text(folder, from), shoal_python_text(flat, to), shoal_shell_word(flat, word));
  free(flat);
  return text;
}

/* What a class may lack: images beside the folders, and in folders inside them. */
static void warn_unseen(const shoal_image_set *m)
{
  const shoal_class_folder *first = NULL;
  size_t nested = 0;
  char more[48] = "";
  for (size_t i = 0; i < m->n_folders; i++) {
    const shoal_class_folder *f = &m->folders[i];
    if (!f->images || !f->inside) continue;
    if (nested++ == 0) first = f;
  }
  if (nested > 1) snprintf(more, sizeof more, ", and %zu more have", nested - 1);
  char *flatten = how_to_flatten(m, m->folder);
  if (nested)
    shoal_warn("%s has folders inside (%s)%s, which are not looked into: images in them belong to no class%s",
               first->path, first->inside, more, flatten);
  free(flatten);
  if (m->strays > 1) snprintf(more, sizeof more, " and %zu more images are", m->strays - 1);
  if (m->tables.n) {
    char *command = shoal_images_table_command(&m->tables);
    shoal_warn("%s%s not read, classes are the names of folders%s%s", m->tables.at[0],
               m->tables.n > 1 ? " and other tables are" : " is", command ? "; folders of its classes: " : "",
               command ? command : "");
    free(command);
  }
  if (m->strays) shoal_warn("%s%s in no folder of a class: left out", m->stray, m->strays > 1 ? more : " is");
}

void shoal_image_set_warn_left_out(const shoal_image_set *m, const char *folder)
{
  size_t none = 0, others = 0, n;
  const char *other = NULL;
  char why[320];
  for (size_t i = 0; i < m->n_folders; i++) {
    const shoal_class_folder *f = &m->folders[i];
    if (f->images && f->others && others == 0) other = f->other;
    if (f->images) others += f->others;
    if (f->images || (f->test && shoal_image_set_trained(m, shoal_path_base(f->path))) ||
        none++ >= SHOAL_IMAGE_SET_SHOWN)
      continue;
    const shoal_alien found = f->others ? find_other(f->other, &n) : (shoal_alien){ 0 };
    char *cure = found.what ? how_to_convert(NULL, &found, f->path, f->other, f->others) : NULL;
    shoal_warn("%s has no image and is left out of the classes: it %s%s%s", f->path,
               shoal_image_set_why_none(f, why, sizeof why), cure ? "; " : "", cure ? cure : "");
    free(cure);
  }
  if (other) warn_other(m, folder, other, others);
  if (none > SHOAL_IMAGE_SET_SHOWN)
    shoal_warn("%s: %zu more folders have no image and are left out", folder, none - SHOAL_IMAGE_SET_SHOWN);
  if (m->systems > 1) snprintf(why, sizeof why, " and %zu more such folders are", m->systems - 1);
  if (m->systems)
    shoal_warn("%s%s left out: a system or its file browser made %s, not who made the images", m->system,
               m->systems > 1 ? why : " is", m->systems > 1 ? "them" : "it");
  if (m->loops > 1) snprintf(why, sizeof why, ", and so are %zu more such links", m->loops - 1);
  if (m->loops)
    shoal_warn("%s is a link to a folder that holds it, and is left out%s", m->loop, m->loops > 1 ? why : "");
  if (others > 1) shoal_warn("%s: %zu files are neither PNG nor JPEG: left out", folder, others);
  warn_unseen(m);
}

/* Where a model says how many channels there are. */
static void tell_channels(const shoal_image_set *m)
{
  const shoal_noted *changed = m->form.channels == 3 ? &m->grey : &m->colour;
  if (!changed->n) return;
  shoal_info("%zu image%s %s and become%s %s, as %s has them; the first is %s", changed->n, changed->n > 1 ? "s" : "",
             m->form.channels == 3 ? changed->n > 1 ? "are grey" : "is grey"
             : changed->n > 1      ? "have colours"
                                   : "has colours",
             changed->n > 1 ? "" : "s",
             m->form.channels == 3 ? "three equal channels" : "grey (0.299 red + 0.587 green + 0.114 blue)",
             m->like.path, changed->first);
}

/* Where a model or --size says how large they are. */
static void tell_scaled(const shoal_image_set *m)
{
  const shoal_image_size *first = NULL;
  size_t scaled = 0, stretched = 0;
  char other[80] = "";
  for (size_t i = 0; i < m->n_sizes; i++) {
    const shoal_image_size *s = &m->sizes[i];
    if (s->width == m->form.width && s->height == m->form.height) continue;
    if (!first) first = s;
    scaled += s->n;
    if ((int64_t)s->width * m->form.height != (int64_t)s->height * m->form.width) stretched += s->n;
  }
  if (!scaled) return;
  if (stretched == scaled) snprintf(other, sizeof other, ", to other proportions");
  if (stretched < scaled && stretched) snprintf(other, sizeof other, ", %zu of them to other proportions", stretched);
  shoal_info("%zu image%s scaled to %d x %d%s%s%s; the first is %s, %d x %d", scaled, scaled > 1 ? "s are" : " is",
             m->form.width, m->form.height, m->like.path ? ", as those of " : "", m->like.path ? m->like.path : "",
             other, first->first, first->width, first->height);
}

static void tell_converted(const shoal_image_set *m)
{
  if (m->turned.n)
    shoal_info("%zu image%s turned as %s Exif orientation says, the first is %s", m->turned.n,
               m->turned.n > 1 ? "s are" : " is", m->turned.n > 1 ? "their" : "its", m->turned.first);
  if (m->like.path)
    tell_channels(m);
  else if (m->grey.n && m->colour.n)
    shoal_info("%zu image%s grey and get%s three equal channels, since %zu have colours; the first grey one is %s, the "
               "first in "
               "colour %s",
               m->grey.n, m->grey.n > 1 ? "s are" : " is", m->grey.n > 1 ? "" : "s", m->colour.n, m->grey.first,
               m->colour.first);
  tell_scaled(m);
  if (m->alpha.n)
    shoal_info("%zu image%s transparent pixels, which are mixed with black, the first is %s", m->alpha.n,
               m->alpha.n > 1 ? "s may have" : " may have", m->alpha.first);
  if (m->printed.n)
    shoal_info("%zu image%s the colours of print (CMYK), which become RGB, the first is %s", m->printed.n,
               m->printed.n > 1 ? "s have" : " has", m->printed.first);
}

/* "('set/train', 'train_'), ('set/test', 'test_')": the folders of the classes' folders, for Python. */
static void list_parents(const shoal_image_set *m, shoal_str *out)
{
  char word[SHOAL_WORD], *last = NULL;
  for (size_t i = 0; i < m->n_folders; i++) {
    const shoal_class_folder *f = &m->folders[i];
    char *parent = shoal_strdup_printf("%.*s", (int)(shoal_path_base(f->path) - f->path - 1), f->path);
    const bool again = last && strcmp(last, parent) == 0;
    if (!again)
      shoal_str_add(out, "%s(%s, '%s')", out->len ? ", " : "", shoal_python_text(parent, word),
                    !m->splits ? ""
                    : f->test  ? "test_"
                               : "train_");
    free(last);
    last = parent;
  }
  free(last);
}

/* What keeps 16 bits of grey images: arrays of them, in which those of 8 bits get the same range.  Pillow reads them; of colours it keeps
 * 8 bits, so that there is no command.  Caller frees; NULL */
static char *deep_command(const shoal_image_set *m)
{
  static const char *const packages[] = { "PIL", "numpy", NULL };
  char npz[SHOAL_WORD], word[SHOAL_WORD], set[SHOAL_WORD];
  shoal_str parents = { 0 };
  shoal_python python;
  if (m->form.channels != 1 || m->n_sizes > 1 || m->like.path) return NULL;
  shoal_find_python(packages, &python);
  list_parents(m, &parents);
  char *to = shoal_strdup_printf("%s-16bit.npz", m->folder), *made = shoal_strdup_printf("%s-16bit.h5", m->folder);
  char *command = shoal_strdup_printf(
      "%s -c \"import glob, numpy; from PIL import Image; S = [%s]; F = {s: [p for d, t in S if t == s for p in "
      "sorted(glob.glob(glob.escape(d) + '/*/*')) if p.lower().endswith(('.png', '.jpg', '.jpeg'))] for _, s in S}; U "
      "= "
      "sorted({p.split('/')[-2] for f in F.values() for p in f}, key=lambda c: (not c.isdigit(), int(c) if c.isdigit() "
      "else 0, c)); R = lambda i: numpy.array(i) if i.mode[0] == 'I' else numpy.array(i.convert('L')).astype('u2') * "
      "257; "
      "numpy.savez(%s, **{s + n: v for s, f in F.items() for n, v in [('images', [R(Image.open(p)) for p in f]), "
      "('labels', [U.index(p.split('/')[-2]) for p in f])]}); print(dict(enumerate(U)))\" && shoal data import npy %s "
      "-o "
      "%s%s%s",
      python.run, parents.text, shoal_python_text(to, npz), shoal_shell_word(to, word), shoal_shell_word(made, set),
      python.needs[0] ? "  # " : "", python.needs);
  shoal_str_free(&parents);
  free(to);
  free(made);
  return command;
}

/* Pixels of a data set of images are bytes; arrays of NumPy become f32, which holds 16 bits. */
static void warn_deep(const shoal_image_set *m)
{
  const size_t n = m->deep.n;
  if (n == 0) return;
  char *command = deep_command(m);
  shoal_warn("%zu image%s 16 bits, of which 8 are kept (v / 257, rounded), the first is %s; `shoal data import npy` "
             "keeps all of "
             "them, from an array of the pixels%s%s",
             n, n > 1 ? "s have" : " has", m->deep.first, command ? ": " : "", command ? command : "");
  free(command);
}

static void warn_moving(const shoal_image_set *m)
{
  if (m->moving.n)
    shoal_warn(
        "%zu image%s several pictures (animated, or by a camera with several lenses): the first is taken, the others "
        "are left out; the first is %s",
        m->moving.n, m->moving.n > 1 ? "s have" : " has", m->moving.first);
}

void shoal_image_set_tell_converted(const shoal_image_set *m)
{
  tell_converted(m);
  warn_deep(m);
  warn_moving(m);
}

void shoal_image_set_warn_odd(const shoal_image_set *m)
{
  if (m->odd.n)
    shoal_warn("%zu image%s read in spite of a warning, the first is %s%s", m->odd.n, m->odd.n > 1 ? "s were" : " was",
               m->odd_words.text, m->odd.n > SHOAL_IMAGE_SET_SHOWN ? "; ..." : "");
}

/* Archives often unpack to a folder in a folder. */
shoal_status shoal_image_set_refuse_empty(const shoal_image_set *m, const char *folder)
{
  const char *inner = NULL, *other = NULL;
  size_t n, others = 0;
  for (size_t i = 0; i < m->n_folders && !inner; i++)
    if (m->folders[i].inside) inner = m->folders[i].path;
  for (size_t i = 0; i < m->n_folders; i++) {
    if (!other) other = m->folders[i].other;
    others += m->folders[i].others;
  }
  const shoal_alien found = other ? find_other(other, &n) : (shoal_alien){ NULL, NULL };
  if (found.what && !inner) {
    char *cure = how_to_convert(m, &found, folder, other, others);
    shoal_status st =
        SHOAL_FAIL(SHOAL_ERR_IO, "%s has no PNG or JPEG files in the folders of its classes: %s is %s: %s", folder,
                   other, found.what, cure);
    free(cure);
    return st;
  }
  char *texts = shoal_text_folders_cure(folder);
  if (texts) {
    shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "%s has no PNG or JPEG files; %s", folder, texts);
    free(texts);
    return st;
  }
  char *flatten = inner ? how_to_flatten(m, folder) : NULL;
  shoal_status st = SHOAL_FAIL(SHOAL_ERR_IO, "%s has no PNG or JPEG files in the folders of its classes%s%s%s%s",
                               folder, inner ? "; if the folders in " : "", inner ? inner : "",
                               inner ? " are the classes, give that" : "", inner ? flatten : "");
  free(flatten);
  return st;
}

/* The cure takes them out of the folder, and overwrites nothing. */
shoal_status shoal_image_set_refuse_damaged(const shoal_image_set *m)
{
  enum { MOST = 40 }; /* in a command */
  const char *base = shoal_path_base(m->folder);
  const bool own = base[0] == '\0' || strcmp(base, ".") == 0 || strcmp(base, "..") == 0;
  const size_t n = m->damaged.n, rest = n - SHOAL_MIN(n, (size_t)MOST);
  char *place = shoal_strdup_printf(own ? "%s/../damaged" : "%s-damaged", m->folder), more[64] = "";
  shoal_str command = { 0 };
  shoal_str_add(&command, "mkdir -p ");
  shoal_str_add_word(&command, place);
  shoal_str_add(&command, " && mv --backup=numbered -t ");
  shoal_str_add_word(&command, place);
  for (size_t i = 0; i < n - rest; i++) {
    shoal_str_add(&command, " ");
    shoal_str_add_word(&command, m->damaged.at[i]);
  }
  if (n > 1) snprintf(more, sizeof more, "; %zu more cannot be read", n - 1);
  shoal_status st = shoal_error_append(shoal_error_put(&m->damage), "%s; get %s again, or leave %s out: %s%s", more,
                                       n > 1 ? "them" : "it", n > 1 ? "them" : "it", command.text,
                                       rest ? ", and once more for the rest" : "");
  shoal_str_free(&command);
  free(place);
  return st;
}

/* The most common first. */
static int by_count(const void *a, const void *b)
{
  const shoal_image_size *p = a, *q = b;
  return p->n != q->n ? (p->n < q->n) - (p->n > q->n) : strcmp(p->first, q->first);
}

static int by_number(const void *a, const void *b)
{
  const int p = *(const int *)a, q = *(const int *)b;
  return (p > q) - (p < q);
}

/* The median of widths, or of heights, over all images. */
static shoal_status find_median(const shoal_image_set *m, bool height, int *out)
{
  int *sides;
  size_t n = 0;
  SHOAL_TRY(SHOAL_ALLOC(m->files.n, &sides));
  for (size_t i = 0; i < m->n_sizes; i++)
    for (size_t k = 0; k < m->sizes[i].n; k++) sides[n++] = height ? m->sizes[i].height : m->sizes[i].width;
  qsort(sides, n, sizeof *sides, by_number);
  *out = sides[n / 2];
  free(sides);
  return SHOAL_OK;
}

/* The size to propose: that of most images, or, where there is none such, what lies in the middle and is not too much for a first network. */
static shoal_status choose_size(const shoal_image_set *m, const shoal_image_size *common, int *width, int *height)
{
  enum { MOST = 224 };
  *width = common->width;
  *height = common->height;
  if (2 * common->n >= m->files.n && *width <= SHOAL_IMAGE_SIDE && *height <= SHOAL_IMAGE_SIDE) return SHOAL_OK;
  SHOAL_TRY(find_median(m, false, width));
  SHOAL_TRY(find_median(m, true, height));
  const int longer = SHOAL_MAX(*width, *height);
  if (longer <= MOST) return SHOAL_OK;
  *width = SHOAL_MAX(*width * MOST / longer, 1);
  *height = SHOAL_MAX(*height * MOST / longer, 1);
  return SHOAL_OK;
}

shoal_status shoal_image_set_check_sizes(const shoal_image_set *m, const shoal_import_args *a, const char *out_path)
{
  shoal_image_size *sizes;
  shoal_str text = { 0 };
  char word[SHOAL_WORD];
  int width, height;
  const bool large = m->form.width > SHOAL_IMAGE_SIDE || m->form.height > SHOAL_IMAGE_SIDE;
  if (m->sized || m->n_sizes == 0 || (m->n_sizes == 1 && !large)) return SHOAL_OK;
  SHOAL_TRY(SHOAL_ALLOC(m->n_sizes, &sizes));
  memcpy(sizes, m->sizes, m->n_sizes * sizeof *sizes);
  qsort(sizes, m->n_sizes, sizeof *sizes, by_count);
  shoal_status st = choose_size(m, sizes, &width, &height);
  if (st != SHOAL_OK) goto done;
  for (size_t i = 0; i < m->n_sizes && i < SHOAL_IMAGE_SET_SHOWN; i++)
    shoal_str_add(&text, "%s%d x %d (%zu, the first is %s)", i ? ", " : "", sizes[i].width, sizes[i].height, sizes[i].n,
                  sizes[i].first);
  if (m->n_sizes > SHOAL_IMAGE_SET_SHOWN) shoal_str_add(&text, " and %zu more", m->n_sizes - SHOAL_IMAGE_SET_SHOWN);
  shoal_str_add(&text,
                "; %s, and this import scales them, the files stay as they are: shoal data import images --size %dx%d",
                m->n_sizes > 1 ? "all must have one" : "4096 x 4096 is the largest", width, height);
  if (a->test_share) shoal_str_add(&text, " --test-share %g", *a->test_share);
  if (a->seed) shoal_str_add(&text, " --seed %" PRIu64, *a->seed);
  shoal_str_add(&text, " -o %s", shoal_shell_word(out_path, word));
  st = SHOAL_FAIL(SHOAL_ERR_IO, "%s: %zu image%s %zu size%s: %s %s", m->folder, m->files.n,
                  m->files.n > 1 ? "s have" : " has", m->n_sizes, m->n_sizes > 1 ? "s" : "", text.text,
                  shoal_shell_word(a->sources[0], word));
done:
  shoal_str_free(&text);
  free(sizes);
  return st;
}
