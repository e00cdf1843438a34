/* Asking without noise: a file that may be damaged is looked at, and what is wrong with it comes back as words.
 *
 * Failures print and are kept as the reason a run ended; a damaged checkpoint that is skipped is neither.  While one
 * thread hushes, failures of other threads go unprinted too, so only whole-file questions are asked this way. */
#include "ckpt/ckpt_impl.h"
#include <stdlib.h>
#include <string.h>

void shoal_ckpt_hush_begin(shoal_ckpt_hush *h)
{
  const char *kept = shoal_first_error();
  h->before = kept[0] ? strdup(kept) : NULL;
  shoal_clear_error();
  shoal_quiet_errors(1);
}

char *shoal_ckpt_hush_end(shoal_ckpt_hush *h, shoal_status st)
{
  const char *said = shoal_first_error();
  char *words = st == SHOAL_OK ? NULL : shoal_strdup_printf("%s", said[0] ? said : shoal_status_text(st));
  shoal_clear_error();
  if (h->before) SHOAL_FAIL(SHOAL_ERR_IO, "%s", h->before);
  shoal_quiet_errors(-1);
  free(h->before);
  h->before = NULL;
  return words;
}
