/* Folders of texts, one for each class, as reviews, mails and news come. */
#ifndef SHOAL_DATA_TEXT_FOLDERS_H
#define SHOAL_DATA_TEXT_FOLDERS_H

/** What to do with a folder that has folders of texts for two classes or more, or such below train and test: "its folders have texts of
 *  the classes neg, pos: ... makes a table of them".  Only the first file of each folder is looked at.
 *
 *  @return NULL if it has none, or cannot be read; caller frees */
char *shoal_text_folders_cure(const char *folder);
#endif
