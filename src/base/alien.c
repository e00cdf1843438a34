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

static bool holds(const unsigned char *head, size_t n, const char *word)
{
  return memmem(head, n, word, strlen(word)) != NULL;
}

/* A model of another program. */
static shoal_alien find_model(const unsigned char *head, size_t n)
{
  static const char keras[] =
      "weights are read as ONNX, which model.export('NAME.onnx', format='onnx') of Keras writes, or "
      "safetensors";
  char start[SHOAL_TEXT_START];
  const bool hdf5 = n > 8 && memcmp(head, "\x89HDF\r\n\x1a\n", 8) == 0;
  shoal_text_start(head, n, start);
  if (n > 4 && memcmp(head, "PK\3\4", 4) == 0 && (holds(head, n, "config.json") || holds(head, n, ".weights.h5")))
    return (shoal_alien){ "a model of Keras", keras };
  if (hdf5 && (holds(head, n, "keras_version") || holds(head, n, "model_weights") || holds(head, n, "layer_names") ||
               (holds(head, n, "layers") && holds(head, n, "vars"))))
    return (shoal_alien){ "a model of Keras", keras };
  if (n > 8 && memcmp(head + 4, "TFL3", 4) == 0)
    return (
        shoal_alien){ "a model of TensorFlow Lite",
                      "weights are read as ONNX, which tf2onnx makes of it (python3 -m tf2onnx.convert --tflite FILE "
                      "--output NAME.onnx), or safetensors" };
  if (start[0] == '{' && holds(head, n, "\"weight_map\""))
    return (shoal_alien){ "a list of the files that hold the weights", "give one file with all of them, or ONNX" };
  return (shoal_alien){ NULL, NULL };
}

shoal_status shoal_refuse_alien_weights(const char *path, const unsigned char *head, size_t n)
{
  shoal_alien a = shoal_find_alien(head, n);
  if (!a.what) a = find_model(head, n);
  SHOAL_CHECK(!a.what, SHOAL_ERR_IO, "%s is %s: %s", path, a.what,
              a.cure ? a.cure
                     : "weights are read as safetensors, which safetensors.torch.save_file(model.state_dict(), "
                       "'NAME.safetensors') writes, or ONNX");
  return SHOAL_OK;
}
