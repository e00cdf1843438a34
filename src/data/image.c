/* See image.h.  libpng and libjpeg decode from memory; libjpeg leaves an error by longjmp, and its warnings (a file that is
 * cut short is filled with grey) are errors here. */
#include "data/image.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include <errno.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>

/* Four channels of 16 bits at the largest size, not packed at all, are half of MAX_BYTES. */
enum { MAX_SIDE = 4096, MAX_BYTES = 256 << 20 };

typedef struct {
  const char *path;
  char *bytes;
  size_t n;
} file;

static bool is_png(const char *bytes, size_t n)
{
  return n >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0;
}

static bool is_jpeg(const char *bytes, size_t n)
{
  return n >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0;
}

/* Reads a file that begins like an image; of others, which may be of any size, no more than that. */
static shoal_status open_file(const char *path, file *f)
{
  char head[8], size_text[32], most[32];
  int fd;
  uint64_t size;
  *f = (file){ .path = path };
  SHOAL_TRY(shoal_open_file(path, &fd, &size));
  ssize_t n = read(fd, head, sizeof head);
  int error = errno;
  close(fd);
  SHOAL_CHECK(n >= 0, SHOAL_ERR_IO, "cannot read %s: %s", path, strerror(error));
  if (!is_png(head, (size_t)n) && !is_jpeg(head, (size_t)n)) return SHOAL_OK;
  SHOAL_CHECK(size <= MAX_BYTES, SHOAL_ERR_IO, "%s has %s, an image of at most %d x %d has less than %s", path,
              shoal_format_bytes((double)size, size_text, sizeof size_text), MAX_SIDE, MAX_SIDE,
              shoal_format_bytes(MAX_BYTES, most, sizeof most));
  return shoal_read_file(path, &f->bytes, &f->n);
}

static shoal_status damaged(const file *f, const char *words)
{
  return SHOAL_FAIL(SHOAL_ERR_IO, "%s is damaged or cut short: %s", f->path, words);
}

/* ---- PNG ---- */

static shoal_status look_png(const file *f, shoal_image *out)
{
  png_image image = { .version = PNG_IMAGE_VERSION };
  bool ok = png_image_begin_read_from_memory(&image, f->bytes, f->n) != 0;
  *out = (shoal_image){ (int)image.width, (int)image.height, image.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1 };
  shoal_status st = ok ? SHOAL_OK : damaged(f, image.message);
  png_image_free(&image);
  return st;
}

static shoal_status read_png(const file *f, const shoal_image *as, uint8_t *pixels)
{
  const png_color black = { 0, 0, 0 };
  png_image image = { .version = PNG_IMAGE_VERSION };
  bool ok = png_image_begin_read_from_memory(&image, f->bytes, f->n) != 0;
  image.format = as->channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  ok = ok && (int)image.width == as->width && (int)image.height == as->height &&
       png_image_finish_read(&image, &black, pixels, 0, NULL) != 0;
  shoal_status st = ok && image.warning_or_error == 0 ? SHOAL_OK : damaged(f, image.message);
  png_image_free(&image);
  return st;
}

/* ---- JPEG ---- */

typedef struct {
  struct jpeg_error_mgr base;
  jmp_buf out;
  char text[JMSG_LENGTH_MAX];
} jpeg_errors;

static void leave(j_common_ptr j)
{
  jpeg_errors *e = (jpeg_errors *)j->err;
  j->err->format_message(j, e->text);
  longjmp(e->out, 1);
}

/* Warnings too: whatever libjpeg makes up for missing data is not in the file. */
static void leave_on_warning(j_common_ptr j, int level)
{
  if (level < 0) leave(j);
}

/* Reads the head, and the pixels if `pixels` is not NULL. */
static shoal_status decode_jpeg(const file *f, const shoal_image *as, shoal_image *found, uint8_t *pixels)
{
  struct jpeg_decompress_struct j;
  jpeg_errors e;
  memset(&j, 0, sizeof j);
  j.err = jpeg_std_error(&e.base);
  e.base.error_exit = leave;
  e.base.emit_message = leave_on_warning;
  if (setjmp(e.out)) {
    jpeg_destroy_decompress(&j);
    return damaged(f, e.text);
  }
  jpeg_create_decompress(&j);
  jpeg_mem_src(&j, (const unsigned char *)f->bytes, f->n);
  jpeg_read_header(&j, TRUE);
  *found = (shoal_image){ (int)j.image_width, (int)j.image_height, j.num_components == 1 ? 1 : 3 };
  bool printed = j.num_components == 4, same = !pixels || (found->width == as->width && found->height == as->height);
  if (pixels && !printed && same) {
    j.out_color_space = as->channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_start_decompress(&j);
    while (j.output_scanline < j.output_height) {
      JSAMPROW row = pixels + (size_t)j.output_scanline * (size_t)as->width * (size_t)as->channels;
      jpeg_read_scanlines(&j, &row, 1);
    }
    jpeg_finish_decompress(&j);
  }
  jpeg_destroy_decompress(&j);
  SHOAL_CHECK(!printed, SHOAL_ERR_IO, "%s has the four colours of print (CMYK): convert it to RGB", f->path);
  return same ? SHOAL_OK : damaged(f, "its size changed while it was read");
}

/* ---- both ---- */

shoal_status shoal_image_look(const char *path, shoal_image *out)
{
  file f;
  *out = (shoal_image){ 0 };
  SHOAL_TRY(open_file(path, &f));
  if (!f.bytes) return SHOAL_OK;
  shoal_status st = is_png(f.bytes, f.n) ? look_png(&f, out) : decode_jpeg(&f, NULL, out, NULL);
  free(f.bytes);
  SHOAL_TRY(st);
  SHOAL_CHECK(out->width <= MAX_SIDE && out->height <= MAX_SIDE, SHOAL_ERR_IO, "%s is %d x %d, at most %d x %d is read",
              path, out->width, out->height, MAX_SIDE, MAX_SIDE);
  return SHOAL_OK;
}

shoal_status shoal_image_read(const char *path, const shoal_image *as, uint8_t *planes)
{
  file f;
  shoal_image found;
  uint8_t *pixels;
  size_t plane = (size_t)as->width * (size_t)as->height, c_n = (size_t)as->channels;
  SHOAL_TRY(shoal_alloc(plane, c_n, "an image", (void **)&pixels));
  shoal_status st = open_file(path, &f);
  if (st == SHOAL_OK) {
    st = is_png(f.bytes, f.n) ? read_png(&f, as, pixels) : decode_jpeg(&f, as, &found, pixels);
    free(f.bytes);
  }
  for (size_t c = 0; st == SHOAL_OK && c < c_n; c++)
    for (size_t i = 0; i < plane; i++) planes[c * plane + i] = pixels[i * c_n + c];
  free(pixels);
  return st;
}
