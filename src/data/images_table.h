/* Tables that say of what class the images beside them are, as data sets of contests have them, or give each a number. */
#ifndef SHOAL_DATA_IMAGES_TABLE_H
#define SHOAL_DATA_IMAGES_TABLE_H
#include "base/texts.h"
#include <stdbool.h>

/** The command that copies images into folders of their classes below NEW, by tables: NEW/CLASS, or NEW/train/CLASS and NEW/test/CLASS
 *  if all tables, or their folders, are called as splits.  Where the classes are measurements, numbers with fractions or mostly different
 *  ones, it says so, and writes the pixels beside them into NEW.npz, to be predicted.
 *
 *  A table has a column of files that are there, from the working folder, from its own, or from a folder in that, also without .jpg,
 *  .jpeg or .png, and one of classes, which is called so or is the last one besides.  Columns of row numbers are neither.  Where its first
 *  row names a file, too, it has no header.  Its first rows are looked at.  Lists (.txt, .lst) may be separated by spaces.
 *
 *  @return NULL if none of the tables is like that; caller frees */
char *shoal_images_table_command(const shoal_texts *tables);
/** Whether a text is such a table. */
bool shoal_images_table_lists(const char *path);
#endif
