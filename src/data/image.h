/* Images in PNG and JPEG files, known by their first bytes. */
#ifndef SHOAL_DATA_IMAGE_H
#define SHOAL_DATA_IMAGE_H
#include "base/status.h"
#include <stdint.h>

typedef struct {
  int width, height, channels; /* channels: 1 for grey, 3 for colour; width 0: neither PNG nor JPEG */
} shoal_image;
/** Reads the head of a file.  ERR_IO if it cannot be read or its head is damaged. */
shoal_status shoal_image_look(const char *path, shoal_image *out);
/** Reads the pixels of a file of that size as planes [channels, height, width]; grey becomes three equal planes if 3 are
 *  asked for.  Transparent pixels become black.  ERR_IO if the file is damaged or cut short. */
shoal_status shoal_image_read(const char *path, const shoal_image *as, uint8_t *planes);
#endif
