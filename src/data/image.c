/* See image.h.  libpng and libjpeg decode from memory, and leave an error by longjmp.
 *
 * Warnings of both are errors here (a JPEG that is cut short is filled with grey), but for those about what is beside the
 * pixels: a colour profile or a text of a PNG, superfluous bytes between the segments of a JPEG.
 *
 * Pixels are the values that the file holds: no gamma (gAMA of a PNG, or the linear light that some programs take 16 bits
 * for) and no colour profile is applied, whatever the file says.
 *
 * The colours of print are stored inverted, as Adobe's programs write them and all others read them. */
#include "data/image.h"
#include "base/file.h"
#include "base/limit.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/image_scale.h"
#include <ctype.h>
#include <errno.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

/* Pixels of a photo of 8192 x 8192, whatever its proportions; four channels of 16 bits, not packed at all, are twice MAX_BYTES. */
enum { MAX_SIDE = 16384, MAX_PIXELS = 1 << 26, MAX_BYTES = 256 << 20 };

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
  SHOAL_CHECK(size <= MAX_BYTES, SHOAL_ERR_IO, "%s has %s, images of at most %s are read", path,
              shoal_format_bytes((double)size, size_text, sizeof size_text),
              shoal_format_bytes(MAX_BYTES, most, sizeof most));
  return shoal_read_file(path, &f->bytes, &f->n);
}

static shoal_status damaged(const file *f, const char *words)
{
  return SHOAL_FAIL(SHOAL_ERR_IO, "%s is damaged or cut short: %s", f->path, words);
}

/* ---- Exif ---- */

static unsigned get16(const uint8_t *at, bool big)
{
  return big ? (unsigned)at[0] << 8 | at[1] : (unsigned)at[1] << 8 | at[0];
}

static size_t get32(const uint8_t *at, bool big)
{
  return big ? (size_t)get16(at, true) << 16 | get16(at + 2, true)
             : (size_t)get16(at + 2, false) << 16 | get16(at, false);
}

/* The tag "orientation" of the first directory; 1 if there is none that can be read.
 *
 *     "II" or "MM", 42, offset of the directory | entries, each tag, type, count, value */
static int find_orientation(const uint8_t *t, size_t left)
{
  enum { TAG = 0x112, SHORT = 3, ENTRY = 12 };
  if (left < 8) return 1;
  const bool big = t[0] == 'M';
  size_t at = get32(t + 4, big);
  if (at > left || left - at < 2) return 1;
  const size_t entries = get16(t + at, big);
  at += 2;
  for (size_t i = 0; i < entries && left - at >= ENTRY; i++, at += ENTRY) {
    const unsigned value = get16(t + at + 8, big);
    if (get16(t + at, big) == TAG && get16(t + at + 2, big) == SHORT && value >= 1 && value <= 8) return (int)value;
  }
  return 1;
}

/* Columns become rows. */
static bool is_turned(int orientation)
{
  return orientation >= 5;
}

/* From the size as it is stored to the size as it is shown. */
static void turn_size(shoal_image *i)
{
  const int width = i->width;
  if (!is_turned(i->orientation)) return;
  i->width = i->height;
  i->height = width;
}

/* Index of the stored pixel that is shown at this row and column, of an image that is shown w wide and h high. */
static size_t stored_pixel(int orientation, int row, int column, int w, int h)
{
  const bool turned = is_turned(orientation);
  const int rows = turned ? w : h, columns = turned ? h : w; /* as stored */
  int r = turned ? column : row, c = turned ? row : column;
  if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) r = rows - 1 - r;
  if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8) c = columns - 1 - c;
  return (size_t)r * (size_t)columns + (size_t)c;
}

/* ---- PNG ---- */

/* Of a chunk that no pixel depends on: names of those begin with a small letter. */
static bool is_ancillary(const char *warning)
{
  return islower((unsigned char)warning[0]) && strlen(warning) > 4 && warning[4] == ':';
}

/* A chunk in front of the pixels, or NULL; all chunks are: length, name, data, check sum. */
static const uint8_t *find_chunk(const file *f, const char *name, size_t *length_out)
{
  const uint8_t *bytes = (const uint8_t *)f->bytes;
  for (size_t at = 8; f->n - at >= 12;) {
    const size_t length = get32(bytes + at, true);
    if (length > f->n - at - 12 || memcmp(bytes + at + 4, "IDAT", 4) == 0) return NULL;
    *length_out = length;
    if (memcmp(bytes + at + 4, name, 4) == 0) return bytes + at + 8;
    at += length + 12;
  }
  return NULL;
}

static int png_orientation(const file *f)
{
  size_t length;
  const uint8_t *exif = find_chunk(f, "eXIf", &length);
  return exif ? find_orientation(exif, length) : 1;
}

/* The chunk of an animation begins with the number of its pictures. */
static bool is_animated(const file *f)
{
  size_t length;
  const uint8_t *control = find_chunk(f, "acTL", &length);
  return control && length >= 4 && get32(control, true) > 1;
}

typedef struct {
  png_structp png;
  png_infop info;
  const char *bytes;
  size_t left;
  uint8_t *samples; /* of all pixels, with alpha if the file has it */
  jmp_buf out;
  char text[128], odd[128];
} png_reader;

static void leave_png(png_structp png, const char *text)
{
  png_reader *r = png_get_error_ptr(png);
  snprintf(r->text, sizeof r->text, "%s", text);
  longjmp(r->out, 1);
}

static void leave_png_on_warning(png_structp png, const char *text)
{
  png_reader *r = png_get_error_ptr(png);
  if (!is_ancillary(text)) leave_png(png, text);
  if (!r->odd[0]) snprintf(r->odd, sizeof r->odd, "%s", text);
}

static void give_png(png_structp png, png_bytep to, size_t n)
{
  png_reader *r = png_get_io_ptr(png);
  if (n > r->left) png_error(png, "it ends too early");
  memcpy(to, r->bytes, n);
  r->bytes += n;
  r->left -= n;
}

/* Up to the pixels. */
static void read_png_head(png_reader *r, const file *f, shoal_image *found)
{
  png_set_benign_errors(r->png, 1); /* to be warnings */
  png_set_read_fn(r->png, r, give_png);
  png_read_info(r->png, r->info);
  const int channels = png_get_color_type(r->png, r->info) & PNG_COLOR_MASK_COLOR ? 3 : 1;
  *found = (shoal_image){ .width = (int)png_get_image_width(r->png, r->info),
                          .height = (int)png_get_image_height(r->png, r->info),
                          .channels = channels,
                          .orientation = png_orientation(f),
                          .stored_channels = channels,
                          .alpha = (png_get_color_type(r->png, r->info) & PNG_COLOR_MASK_ALPHA) != 0 ||
                                   png_get_valid(r->png, r->info, PNG_INFO_tRNS) != 0,
                          .deep = png_get_bit_depth(r->png, r->info) == 16,
                          .moving = is_animated(f) };
  turn_size(found);
}

/* To 8 bits: from fewer by repeating them, from 16 by v / 257, rounded.  libpng is not asked to apply gamma. */
static void read_png_samples(png_reader *r, bool colour)
{
  uint8_t *rows[MAX_SIDE];
  const size_t height = png_get_image_height(r->png, r->info);
  png_set_expand(r->png);
  png_set_scale_16(r->png);
  if (colour) png_set_gray_to_rgb(r->png);
  (void)png_set_interlace_handling(r->png);
  png_read_update_info(r->png, r->info);
  const size_t row_bytes = png_get_rowbytes(r->png, r->info);
  if (!(r->samples = calloc(height, row_bytes))) png_error(r->png, "there is no memory for it");
  for (size_t i = 0; i < height; i++) rows[i] = r->samples + i * row_bytes;
  png_read_image(r->png, rows);
  png_read_end(r->png, NULL);
}

/* Alpha mixes a pixel with black, in the values as they are. */
static void mix_with_black(const uint8_t *samples, size_t pixels, int channels, bool alpha, uint8_t *out)
{
  for (size_t i = 0; i < pixels; i++, samples += channels + alpha)
    for (int c = 0; c < channels; c++)
      *out++ = alpha ? (uint8_t)((samples[c] * samples[channels] + 127) / 255) : samples[c];
}

/* How many channels are decoded: colours that are to be grey are mixed later. */
static int decoded_channels(const shoal_image *found, const shoal_image *as)
{
  return SHOAL_MAX(found->channels, as->channels);
}

/* May leave. */
static void read_png(png_reader *r, const file *f, const shoal_image *as, shoal_image *found, uint8_t *pixels)
{
  read_png_head(r, f, found);
  if (!pixels) return;
  const int channels = decoded_channels(found, as);
  read_png_samples(r, channels == 3);
  const bool alpha = png_get_channels(r->png, r->info) > channels;
  mix_with_black(r->samples, (size_t)found->width * (size_t)found->height, channels, alpha, pixels);
}

static void close_png(png_reader *r)
{
  png_destroy_read_struct(&r->png, &r->info, NULL);
  free(r->samples);
}

/* Reads the head, and the pixels if `pixels` is not NULL: as many as the head says, of three channels at most. */
static shoal_status decode_png(const file *f, const shoal_image *as, shoal_image *found, uint8_t *pixels, char *odd,
                               size_t cap)
{
  png_reader r = { .bytes = f->bytes, .left = f->n, .text = "there is no memory for it" };
  r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, leave_png, leave_png_on_warning);
  r.info = r.png ? png_create_info_struct(r.png) : NULL;
  if (!r.info || setjmp(r.out)) {
    close_png(&r);
    return damaged(f, r.text);
  }
  read_png(&r, f, as, found, pixels);
  close_png(&r);
  snprintf(odd, cap, "%s", r.odd);
  return SHOAL_OK;
}

/* ---- JPEG ---- */

typedef struct {
  struct jpeg_error_mgr base;
  jmp_buf out;
  char text[JMSG_LENGTH_MAX], odd[JMSG_LENGTH_MAX];
} jpeg_errors;

static void leave(j_common_ptr j)
{
  jpeg_errors *e = (jpeg_errors *)j->err;
  j->err->format_message(j, e->text);
  longjmp(e->out, 1);
}

/* Warnings too: whatever libjpeg makes up for missing data is not in the file.  Bytes that it skips are no part of it. */
static void leave_on_warning(j_common_ptr j, int level)
{
  jpeg_errors *e = (jpeg_errors *)j->err;
  const int code = j->err->msg_code;
  if (level >= 0) return;
  if (code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR) leave(j);
  if (!e->odd[0]) j->err->format_message(j, e->odd);
}

/* Of cyan, magenta, yellow and black, inverted: what the ink leaves of each colour. */
static void convert_print(const uint8_t *from, size_t n, uint8_t *rgb)
{
  for (size_t i = 0; i < n; i++, from += 4)
    for (int c = 0; c < 3; c++) {
      const unsigned black = from[3], ink = (255u - from[c]) * black + 128;
      *rgb++ = (uint8_t)(black - ((ink + (ink >> 8)) >> 8));
    }
}

static void read_scanlines(struct jpeg_decompress_struct *j, int channels, uint8_t *pixels)
{
  const bool print = j->num_components == 4;
  uint8_t inks[4 * MAX_SIDE];
  j->out_color_space = print ? JCS_CMYK : channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_start_decompress(j);
  while (j->output_scanline < j->output_height) {
    JSAMPROW row = pixels + (size_t)j->output_scanline * j->output_width * (size_t)channels, line = print ? inks : row;
    jpeg_read_scanlines(j, &line, 1);
    if (print) convert_print(inks, j->output_width, row);
  }
  jpeg_finish_decompress(j);
}

/* Reads the head, and the pixels as they are stored if `pixels` is not NULL. */
static shoal_status decode_jpeg(const file *f, const shoal_image *as, shoal_image *found, uint8_t *pixels, char *odd,
                                size_t cap)
{
  struct jpeg_decompress_struct j;
  jpeg_errors e;
  memset(&j, 0, sizeof j);
  e.odd[0] = '\0';
  j.err = jpeg_std_error(&e.base);
  e.base.error_exit = leave;
  e.base.emit_message = leave_on_warning;
  if (setjmp(e.out)) {
    jpeg_destroy_decompress(&j);
    return damaged(f, e.text);
  }
  jpeg_create_decompress(&j);
  jpeg_mem_src(&j, (const unsigned char *)f->bytes, f->n);
  jpeg_save_markers(&j, JPEG_APP0 + 1, 0xffff);
  jpeg_save_markers(&j, JPEG_APP0 + 2, 0xffff);
  jpeg_read_header(&j, TRUE);
  *found = (shoal_image){ (int)j.image_width, (int)j.image_height, j.num_components == 1 ? 1 : 3, 1, j.num_components };
  for (jpeg_saved_marker_ptr m = j.marker_list; m; m = m->next)
    if (m->marker == JPEG_APP0 + 2)
      found->moving |= m->data_length > 4 && memcmp(m->data, "MPF", 4) == 0;
    else if (found->orientation == 1 && m->data_length > 6 && memcmp(m->data, "Exif\0\0", 6) == 0)
      found->orientation = find_orientation(m->data + 6, m->data_length - 6);
  turn_size(found);
  if (pixels) read_scanlines(&j, decoded_channels(found, as), pixels);
  jpeg_destroy_decompress(&j);
  snprintf(odd, cap, "%s", e.odd);
  return SHOAL_OK;
}

/* ---- both ---- */

/* Grey of colours by the weights of ITU-R BT.601, as Pillow and libjpeg have them. */
static uint8_t mix_grey(const uint8_t *rgb)
{
  return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + (1u << 15)) >> 16);
}

static shoal_status decode(const file *f, const shoal_image *as, shoal_image *found, uint8_t *pixels, char *odd,
                           size_t cap)
{
  return (is_png(f->bytes, f->n) ? decode_png : decode_jpeg)(f, as, found, pixels, odd, cap);
}

static shoal_status look(const file *f, shoal_image *out)
{
  char odd[2];
  SHOAL_TRY(decode(f, NULL, out, NULL, odd, sizeof odd));
  SHOAL_CHECK(out->width <= MAX_SIDE && out->height <= MAX_SIDE && (int64_t)out->width * out->height <= MAX_PIXELS,
              SHOAL_ERR_IO, "%s is %d x %d, at most %d pixels, and %d in a row or column, are read", f->path,
              out->width, out->height, MAX_PIXELS, MAX_SIDE);
  return SHOAL_OK;
}

shoal_status shoal_image_look(const char *path, shoal_image *out)
{
  file f;
  *out = (shoal_image){ 0 };
  SHOAL_TRY(open_file(path, &f));
  if (!f.bytes) return SHOAL_OK;
  shoal_status st = look(&f, out);
  free(f.bytes);
  return st;
}

/* From pixels as they are stored to planes as they are shown. */
static void show(const shoal_image *found, const shoal_image *as, const uint8_t *pixels, uint8_t *planes)
{
  const int have = decoded_channels(found, as);
  const size_t plane = (size_t)found->width * (size_t)found->height;
  size_t at = 0;
  for (int row = 0; row < found->height; row++)
    for (int column = 0; column < found->width; column++, at++) {
      const size_t from = stored_pixel(found->orientation, row, column, found->width, found->height);
      for (int c = 0; c < as->channels; c++)
        planes[(size_t)c * plane + at] =
            have > as->channels ? mix_grey(pixels + 3 * from) : pixels[from * (size_t)have + (size_t)c];
    }
}

static shoal_status read_scaled(const shoal_image *found, const shoal_image *as, const uint8_t *pixels, uint8_t *planes)
{
  const size_t plane = (size_t)found->width * (size_t)found->height, scaled = (size_t)as->width * (size_t)as->height;
  uint8_t *shown;
  SHOAL_TRY(shoal_alloc(plane, (size_t)as->channels, "an image", (void **)&shown));
  show(found, as, pixels, shown);
  shoal_status st = SHOAL_OK;
  for (size_t c = 0; st == SHOAL_OK && c < (size_t)as->channels; c++)
    st = shoal_image_scale(shown + c * plane, found->width, found->height, planes + c * scaled, as->width, as->height);
  free(shown);
  return st;
}

shoal_status shoal_image_read(const char *path, const shoal_image *as, uint8_t *planes, char *odd, size_t cap)
{
  file f;
  shoal_image found;
  uint8_t *pixels = NULL;
  shoal_status st;
  odd[0] = '\0';
  SHOAL_TRY(open_file(path, &f));
  SHOAL_CHECK(f.bytes, SHOAL_ERR_IO, "%s is no image any more: it changed while it was read", path);
  SHOAL_TRY_GOTO(st, look(&f, &found), done);
  SHOAL_TRY_GOTO(st, shoal_limit_memory(path, "its pixels", (uint64_t)found.width * (uint64_t)found.height, 8), done);
  SHOAL_TRY_GOTO(st, shoal_alloc((size_t)found.width * (size_t)found.height, 3, "an image", (void **)&pixels), done);
  SHOAL_TRY_GOTO(st, decode(&f, as, &found, pixels, odd, cap), done);
  if (found.width == as->width && found.height == as->height)
    show(&found, as, pixels, planes);
  else
    st = read_scaled(&found, as, pixels, planes);
done:
  free(pixels);
  free(f.bytes);
  return st;
}
