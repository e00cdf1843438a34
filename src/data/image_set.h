/* A folder of images on its way to a data set: what was found in it, its classes, and what is to be told of it.  The parts of
 * shoal_import_images share it; see there for their order. */
#ifndef SHOAL_DATA_IMAGE_SET_H
#define SHOAL_DATA_IMAGE_SET_H
#include "base/error.h"
#include "base/str.h"
#include "base/texts.h"
#include "data/data_impl.h"
#include "data/image.h"

enum { SHOAL_IMAGE_SET_SHOWN = 5 }; /* of a kind, at most so many are named */

/* What is told once of all images that have it: how many there are, and the first. */
typedef struct {
  size_t n;
  const char *first; /* path; borrowed */
} shoal_noted;

/* What was found in the folder of a class, for one split. */
typedef struct {
  char *path, *other;    /* other: path of a file that is no image, or NULL */
  char *inside;          /* the first folder in it, or NULL; "again, a link" */
  size_t images, others; /* files that are images, and that are none */
  bool test;
  bool hidden; /* all that it has are files that are ignored */
} shoal_class_folder;

/* A size that some images have. */
typedef struct {
  int width, height;
  size_t n;
  const char *first; /* path of the first; borrowed */
} shoal_image_size;

/* What the images of a model are. */
typedef struct {
  const char *path;  /* NULL: there is no such model; borrowed */
  int64_t sample[3]; /* channels, height, width */
  int64_t classes;
  shoal_texts names; /* none: classes are their numbers */
} shoal_images_like;

typedef struct {
  shoal_images_like like;
  shoal_texts files; /* paths, in the order of the samples */
  int32_t *y;        /* [files.n] */
  uint8_t *test;
  size_t cap;
  shoal_class_folder *folders; /* [n_folders] those for training first; the samples are in their order */
  size_t n_folders;
  shoal_texts classes;
  shoal_image form;        /* of all images */
  bool sized;              /* a model or --size says how large they shall be: others are scaled */
  shoal_image_size *sizes; /* [n_sizes] that they have, as they were found */
  size_t n_sizes, sizes_cap;
  const char *folder;               /* as given; borrowed */
  bool splits;                      /* it has folders for splits, and these for classes */
  shoal_noted turned, printed, odd; /* by Exif; in the colours of print; with a warning of their decoder */
  shoal_noted deep, moving;         /* of 16 bits; with several pictures */
  shoal_noted grey, colour, alpha;  /* as they are stored */
  char *stray;                      /* the first image that is in no folder of a class, or NULL */
  size_t strays;
  char *system; /* the first folder of a system, such as __MACOSX, or NULL */
  size_t systems;
  char *loop; /* the first link to a folder that holds it, or NULL */
  size_t loops;
  shoal_texts tables;  /* paths of those beside the folders of the classes */
  shoal_texts damaged; /* paths of images that cannot be read */
  shoal_error damage;  /* why the first of them cannot */
  shoal_str odd_words; /* "a/1.jpg: Corrupt JPEG data; a/2.jpg: ...", of the first SHOAL_IMAGE_SET_SHOWN */
} shoal_image_set;

/* ---- image_find.c ---- */

/** Finds the images of a folder, for training first.  Folders called train and test or val are splits, and everything else is a class.
 *  `by_name`: whether these names say which images are for testing. */
shoal_status shoal_image_set_find(const shoal_import_args *a, const char *folder, shoal_image_set *m, bool *by_name);
void shoal_image_set_note(shoal_noted *what, const char *path);
/** Remembers a damaged image if `st` is ERR_IO, so that all are told together, and is OK then; else `st` itself. */
shoal_status shoal_image_set_damaged(shoal_image_set *m, const char *path, shoal_status st);

/* ---- image_classes.c ---- */

/** ERR_IO, with the command that makes folders, if all images lie in one folder and a table beside it tells their classes. */
shoal_status shoal_image_set_refuse_listed(const shoal_image_set *m);
/** ERR_IO if the folders are images and their masks, or the like, and no classes. */
shoal_status shoal_image_set_refuse_masks(const shoal_image_set *m);
/** Names the classes: the folders with images for training, or those of a model. */
shoal_status shoal_image_set_name_classes(shoal_image_set *m);
/** Gives each sample the number of its class; ERR_IO if a folder is of none. */
shoal_status shoal_image_set_number(shoal_image_set *m);
/** The folder of this class in the training split, or NULL. */
const shoal_class_folder *shoal_image_set_trained(const shoal_image_set *m, const char *name);

/* ---- image_tell.c ---- */

/** "holds only notes.txt and 2 other files" */
const char *shoal_image_set_why_none(const shoal_class_folder *f, char *buf, size_t cap);
/** Warns of what is left out of the data set, and what is not as it was in the files. */
void shoal_image_set_warn_left_out(const shoal_image_set *m, const char *folder);
void shoal_image_set_tell_converted(const shoal_image_set *m);
/** After all pixels were read: what a decoder noticed. */
void shoal_image_set_warn_odd(const shoal_image_set *m);
/** ERR_IO, with the cure: nothing is an image; some images cannot be read (the cure moves them away, and overwrites nothing). */
shoal_status shoal_image_set_refuse_empty(const shoal_image_set *m, const char *folder);
shoal_status shoal_image_set_refuse_damaged(const shoal_image_set *m);
/** ERR_IO, with the import that scales them, if images have several sizes and none was asked for. */
shoal_status shoal_image_set_check_sizes(const shoal_image_set *m, const shoal_import_args *a, const char *out_path);
#endif
