/* Filters undone: what HDF5 stores of a chunk, turned back into its bytes.
 *
 * HDF5 1.10 does not compare what a chunk unpacks to with what the chunk should have.  If that is less, it goes on
 * reading in the memory behind its buffer, and the memory of this process becomes samples.  It lets nobody replace the
 * filters that it knows (H5Zregister), and a chunk may skip them all, so its chunks are unpacked here: each step has a
 * bound, which also ends what would unpack without end, and the last one must come to the bytes of a chunk exactly.
 *
 *     deflate     a zlib stream; what follows its end is ignored, as HDF5 does
 *     shuffle     the first bytes of all elements, then their second bytes, ...; what is left over follows unchanged
 *     fletcher32  four bytes at the end: a check sum over 16-bit words, big-endian */
#include "base/mem.h"
#include "h5/h5_impl.h"
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define DAMAGED ": the file is damaged; get it again"

const char *shoal_h5_filter_name(H5Z_filter_t id)
{
  if (id == H5Z_FILTER_DEFLATE) return "deflate";
  if (id == H5Z_FILTER_SHUFFLE) return "shuffle";
  return id == H5Z_FILTER_FLETCHER32 ? "fletcher32" : NULL;
}

shoal_status shoal_h5_filters_of(hid_t dcpl, hid_t at, const char *name, shoal_h5_filters *out)
{
  char where[SHOAL_H5_WHERE];
  shoal_h5_filters f = { .n = H5Pget_nfilters(dcpl) };
  SHOAL_CHECK(f.n >= 0 && f.n <= SHOAL_H5_FILTERS, SHOAL_ERR_IO,
              "data set %s has %d filters: it is damaged; get it again", shoal_h5_where(at, name, where), f.n);
  for (int i = 0; i < f.n; i++) {
    unsigned flags, config, values[1] = { 0 };
    size_t n_values = SHOAL_COUNT(values);
    f.id[i] = H5Pget_filter2(dcpl, (unsigned)i, &flags, &n_values, values, 0, NULL, &config);
    if (f.id[i] == H5Z_FILTER_SHUFFLE) f.width = values[0];
    SHOAL_CHECK(f.id[i] != H5Z_FILTER_SHUFFLE || f.width > 0, SHOAL_ERR_IO,
                "data set %s is shuffled by elements of 0 bytes: it is damaged; get it again",
                shoal_h5_where(at, name, where));
  }
  *out = f;
  return SHOAL_OK;
}

/* Ends if it would yield more than the work has room for. */
static bool undo_deflate(shoal_h5_work *w, size_t want, char reason[SHOAL_H5_REASON])
{
  z_stream z = { .next_in = w->bytes, .avail_in = (uInt)w->n, .next_out = w->spare, .avail_out = (uInt)w->room };
  if (inflateInit(&z) != Z_OK) {
    snprintf(reason, SHOAL_H5_REASON, "no memory to unpack a chunk");
    return false;
  }
  int how = inflate(&z, Z_FINISH);
  if (how == Z_STREAM_END)
    w->n = w->room - z.avail_out;
  else if (z.avail_out == 0)
    snprintf(reason, SHOAL_H5_REASON, "a chunk unpacks to more than its %zu bytes" DAMAGED, want);
  else
    snprintf(reason, SHOAL_H5_REASON, "a chunk does not unpack (%s)" DAMAGED, z.msg ? z.msg : "it is cut short");
  inflateEnd(&z);
  uint8_t *before = w->bytes;
  w->bytes = w->spare;
  w->spare = before;
  return how == Z_STREAM_END;
}

static void undo_shuffle(shoal_h5_work *w, size_t width)
{
  const size_t elements = w->n / width;
  if (width == 1 || elements < 2) return;
  for (size_t i = 0; i < elements; i++)
    for (size_t k = 0; k < width; k++) w->spare[i * width + k] = w->bytes[k * elements + i];
  memcpy(w->spare + elements * width, w->bytes + elements * width, w->n - elements * width);
  uint8_t *before = w->bytes;
  w->bytes = w->spare;
  w->spare = before;
}

/* Modulo 65535, with 65535 in place of 0 unless x is 0: sums of 16 bits with the carry added. */
static uint64_t with_carry(uint64_t x)
{
  return x ? (x - 1) % 65535 + 1 : 0;
}

static uint32_t fletcher32(const uint8_t *bytes, size_t n)
{
  enum { BLOCK = 8192 }; /* bytes; their sums fit 64 bits by far */
  uint64_t sum = 0, sum_of_sums = 0;
  for (size_t at = 0; at < n;) {
    for (const size_t end = SHOAL_MIN(n, at + BLOCK); at < end; at += 2) {
      sum += (uint64_t)bytes[at] << 8 | (at + 1 < n ? bytes[at + 1] : 0);
      sum_of_sums += sum;
    }
    sum = with_carry(sum);
    sum_of_sums = with_carry(sum_of_sums);
  }
  return (uint32_t)(sum_of_sums << 16 | sum);
}

/* HDF5 before 1.6.3 wrote the bytes of each half in the other order. */
static bool undo_fletcher32(shoal_h5_work *w, char reason[SHOAL_H5_REASON])
{
  if (w->n >= 4) {
    w->n -= 4;
    const uint8_t *end = w->bytes + w->n;
    const uint32_t is = fletcher32(w->bytes, w->n), swapped = (is & 0x00ff00ff) << 8 | (is >> 8 & 0x00ff00ff),
                   was = end[0] | (uint32_t)end[1] << 8 | (uint32_t)end[2] << 16 | (uint32_t)end[3] << 24;
    if (is == was || swapped == was) return true;
  }
  snprintf(reason, SHOAL_H5_REASON, "the check sum of a chunk is wrong" DAMAGED);
  return false;
}

bool shoal_h5_unfilter(const shoal_h5_filters *f, uint32_t skipped, size_t want, shoal_h5_work *w,
                       char reason[SHOAL_H5_REASON])
{
  for (int i = f->n - 1; i >= 0; i--) {
    if (skipped >> i & 1) continue;
    if (f->id[i] == H5Z_FILTER_SHUFFLE) undo_shuffle(w, f->width);
    if (f->id[i] == H5Z_FILTER_DEFLATE && !undo_deflate(w, want, reason)) return false;
    if (f->id[i] == H5Z_FILTER_FLETCHER32 && !undo_fletcher32(w, reason)) return false;
  }
  if (w->n == want) return true;
  snprintf(reason, SHOAL_H5_REASON, "a chunk unpacks to %zu bytes, not to its %zu" DAMAGED, w->n, want);
  return false;
}
