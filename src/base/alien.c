/* See alien.h. */
#include "base/alien.h"
#include "base/error.h"
#include "base/mem.h"
#include <string.h>
#include <strings.h>

static const char lfs[] = "version https://git-lfs", pickled[] = "/data.pkl";

void shoal_text_start(const unsigned char *head, size_t n, char start[SHOAL_TEXT_START])
{
  static const char space[] = " \t\r\n\xef\xbb\xbf";
  size_t at = 0;
  memset(start, 0, SHOAL_TEXT_START);
  while (at < n && head[at] && strchr(space, head[at])) at++;
  memcpy(start, head + at, SHOAL_MIN(n - at, SHOAL_TEXT_START - 1));
}

static bool is_page(const unsigned char *head, size_t n)
{
  char start[SHOAL_TEXT_START];
  shoal_text_start(head, n, start);
  return strncasecmp(start, "<!doctype html", 14) == 0 || strncasecmp(start, "<html", 5) == 0;
}

shoal_alien shoal_find_alien(const unsigned char *head, size_t n)
{
  if (n >= sizeof lfs - 1 && memcmp(head, lfs, sizeof lfs - 1) == 0)
    return (shoal_alien){ "a pointer of Git LFS without the data", "git lfs pull fetches that" };
  if (is_page(head, n)) return (shoal_alien){ "a web page", "the download of the file failed, get it again" };
  if (n > 4 && memcmp(head, "PK\3\4", 4) == 0 && memmem(head, n, pickled, sizeof pickled - 1))
    return (shoal_alien){ "a file of PyTorch", NULL };
  const bool safetensors = n > 8 && head[8] == '{'; /* behind the length of its header, which may begin likewise */
  if (n > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 && !safetensors)
    return (shoal_alien){ "a Python pickle, which can run code and is not loaded", NULL };
  return (shoal_alien){ NULL, NULL };
}

shoal_status shoal_refuse_alien_weights(const char *path, const unsigned char *head, size_t n)
{
  const shoal_alien a = shoal_find_alien(head, n);
  SHOAL_CHECK(!a.what, SHOAL_ERR_IO, "%s is %s: %s", path, a.what,
              a.cure ? a.cure
                     : "weights are read as safetensors, which safetensors.torch.save_file(model.state_dict(), "
                       "'NAME.safetensors') writes, or ONNX");
  return SHOAL_OK;
}
