/* Folders of arrays, one folder for each class. */
#ifndef SHOAL_DATA_NPY_FOLDERS_H
#define SHOAL_DATA_NPY_FOLDERS_H
/** "its folders have them, ...: COMMAND" that makes a data set of a folder that has two or more with .npy files, also below folders called
 *  as splits; NULL of any other.  Caller frees. */
char *shoal_npy_folders_cure(const char *folder);
#endif
