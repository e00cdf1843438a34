/* Makes images larger or smaller. */
#ifndef SHOAL_DATA_IMAGE_SCALE_H
#define SHOAL_DATA_IMAGE_SCALE_H
#include "base/status.h"
#include <stdint.h>

/** Scales a plane of bytes [height, width] to [new_height, new_width], all sides from 1, whatever their proportions: bilinear, and the mean
 *  over all old pixels where it gets smaller (a triangle filter, as in Pillow's BILINEAR).  Time is that of height * new_width *
 *  (width / new_width) and of the like for columns.  ERR_MEM */
shoal_status shoal_image_scale(const uint8_t *from, int width, int height, uint8_t *to, int new_width, int new_height);
#endif
