/* Images in PNG and JPEG files, known by their first bytes. */
#ifndef SHOAL_DATA_IMAGE_H
#define SHOAL_DATA_IMAGE_H
#include "base/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  int width, height, channels; /* as it is shown; channels: 1 for grey, 3 for colour; width 0: neither PNG nor JPEG */
  int orientation;             /* of Exif: 1 as stored, 2 to 8 turned or mirrored */
  int stored_channels;         /* 4 for the colours of print (CMYK) */
  bool alpha;                  /* with transparency, of a channel or a colour */
  bool deep, moving;           /* 16 bits are stored; several pictures (animated PNG, MPO), of which that is read
                                  which others show */
} shoal_image;
enum {
  SHOAL_IMAGE_SIDE = 4096
}; /* an image of a data set has at most as many rows and columns; a file may have more, to be scaled */
/** Reads the head of a file.  ERR_IO if it cannot be read or its head is damaged. */
shoal_status shoal_image_look(const char *path, shoal_image *out);
/** Reads the pixels of a file as planes [channels, height, width], turned as its Exif orientation says, and scaled (image_scale.h) where
 *  it has another size; grey
 *  becomes three equal planes if 3 are asked for, colours become grey (0.299 red + 0.587 green + 0.114 blue) if 1 is, and the colours of
 *  print become RGB.  16 bits become 8 by v / 257, rounded,
 *  and alpha mixes with black, both in the values as they are: gamma and colour profiles are not applied.
 *  `odd` gets what a decoder noticed that does no harm to the pixels, or "".  ERR_IO if the file is damaged or cut short. */
shoal_status shoal_image_read(const char *path, const shoal_image *as, uint8_t *planes, char *odd, size_t cap);
#endif
