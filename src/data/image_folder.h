/* What lies in a folder of images, and what the names in it say. */
#ifndef SHOAL_DATA_IMAGE_FOLDER_H
#define SHOAL_DATA_IMAGE_FOLDER_H
#include "base/status.h"
#include "base/texts.h"
#include <stdbool.h>
#include <stddef.h>

/* A system and its file browser leave behind folders, and files that count as hidden; a loop is a link to a folder that holds it. */
typedef enum {
  SHOAL_ENTRY_FILE, /* also a link that leads nowhere, which cannot be read */
  SHOAL_ENTRY_FOLDER,
  SHOAL_ENTRY_OF_SYSTEM,
  SHOAL_ENTRY_LOOP,
  SHOAL_ENTRY_HIDDEN,
} shoal_entry_kind;

/** Adds the names of one kind inside a folder, sorted.  ERR_IO if it cannot be read or is none. */
shoal_status shoal_image_folder_list(const char *folder, shoal_entry_kind kind, shoal_texts *out);
/** How many images lie in a folder itself. */
shoal_status shoal_image_folder_count(const char *folder, size_t *out);
/** Whether a folder has folders, and whether an image lies in one of them. */
shoal_status shoal_image_folder_look(const char *folder, const char *name, bool *folders, bool *found);
/** Whether the images of a folder are called by their classes and a number (cat.1.jpg), two or more of each of several classes. */
shoal_status shoal_image_folder_names_classes(const char *folder, bool *out);

/** Whether a file is an image; so is one that cannot be read, of which it is told later. */
bool shoal_image_folder_is_image(const char *path);
/** Whether it is called as a list of files and classes, as data sets of contests have it. */
bool shoal_image_folder_is_table(const char *name);
bool shoal_image_folder_may_list(const char *name); /* a text, which may be such a list */
bool shoal_image_folder_is_link(const char *path);
#endif
