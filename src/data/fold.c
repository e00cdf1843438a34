/* Samples of more dimensions than an image has: videos, volumes, stacks of many planes.  Their planes become channels, or, if these are
 * too many, lie one under another in one high image, so that all networks for images read them and nothing is lost. */
#include "data/fold.h"
#include "data/data_impl.h"
#include <inttypes.h>
#include <stdio.h>

static bool few(uint64_t channels)
{
  return channels == 1 || channels == 3 || channels == 4;
}

/* Which dimension of a sample [n, 1, 2, 3, 4] is its channels; 0: none looks like them. */
static int find_channels(const uint64_t *d)
{
  return few(d[4]) && !few(d[1]) ? 4 : few(d[1]) ? 1 : few(d[2]) ? 2 : 0;
}

bool shoal_data_fold(int ndim, const uint64_t *d, shoal_fold *out)
{
  enum { MOST = SHOAL_DATA_CHANNELS };
  uint64_t side[4] = { 1 }; /* channels, planes, height, width */
  int n = 0;
  if (ndim < 4 || (ndim == 4 && (d[1] <= MOST || few(d[3])))) return false;
  if (ndim > 5) {
    snprintf(out->expression, sizeof out->expression, "v.reshape(len(v), -1)");
    snprintf(out->what, sizeof out->what, "rows of features");
    return true;
  }
  const int channels = ndim == 5 ? find_channels(d) : 0;
  if (channels || ndim == 4) side[n++] = channels ? d[channels] : 1;
  for (int i = 1; i < ndim; i++)
    if (i != channels) side[n++] = d[i];
  const bool stacked = side[0] * side[1] <= MOST, flat = side[0] > MOST;
  const uint64_t c = stacked ? side[0] * side[1]
                     : flat  ? 1
                             : side[0],
                 h = stacked ? side[2] : (flat ? side[0] : 1) * side[1] * side[2];
  char moved[32] = "v";
  if (channels > 1) snprintf(moved, sizeof moved, "numpy.moveaxis(v, %d, 1)", channels);
  snprintf(out->expression, sizeof out->expression, "%s.reshape(len(v), %" PRIu64 ", %" PRIu64 ", %" PRIu64 ")", moved,
           c, h, side[3]);
  snprintf(out->what, sizeof out->what, "images [%" PRIu64 ", %" PRIu64 ", %" PRIu64 "], %s", c, h, side[3],
           stacked ? "with their planes as channels" : "with their planes one under another");
  return true;
}
