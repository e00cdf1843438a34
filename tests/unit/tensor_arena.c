/* Arenas against their formulas, written out again here: every result is defined to the bit. */
#include "base/mem.h"
#include "base/rng.h"
#include "tensor/half.h"
#include "tensor_rig.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = SHOAL_QUANT_BLOCK };

static float number(uint64_t seed, int64_t i)
{
  return 2 * shoal_rng_unit(shoal_rng(seed, SHOAL_RNG_TEST, (uint64_t)i, 0).v[0]) - 1;
}

/* Backend memory at an odd address, with one element behind the end that nobody may write. */
typedef struct {
  shoal_backend *b;
  int64_t n;
  shoal_memory own;
  float *odd;
} array;

static array make(shoal_backend *b, int64_t n, uint64_t seed)
{
  array a = { .b = b, .n = n };
  REQUIRE(b->ops->alloc(b, SHOAL_MEMORY_PINNED, (size_t)(n + 2) * sizeof(float), &a.own) == SHOAL_OK, "alloc");
  a.odd = (float *)a.own.at + 1;
  for (int64_t i = 0; i < n; i++) a.odd[i] = number(seed, i);
  a.odd[n] = 77;
  return a;
}

static void done(array *a, const char *what)
{
  CHECK_EQ(a->odd[a->n], 77, "%s wrote behind %d elements", what, (int)a->n);
  a->b->ops->release(a->b, &a->own);
}

static void check(shoal_backend *b, const char *what, int64_t n, const float *got, const float *want)
{
  CHECK_OK(b->ops->settle(b));
  for (int64_t i = 0; i < n; i++)
    if (memcmp(&got[i], &want[i], sizeof *got) != 0) {
      CHECK(false, "%s of %d: element %d is %.9g, not %.9g", what, (int)n, (int)i, (double)got[i], (double)want[i]);
      return;
    }
}

static void check_passes(shoal_backend *b, int64_t n)
{
  const shoal_backend_ops *ops = b->ops;
  array x = make(b, n, 1), y = make(b, n, 2), z = make(b, n, 3), out = make(b, n, 4);
  float *want = floats(n), *host = floats(n);
  size_t count = (size_t)n, bytes = count * sizeof(float);
  if (n > 2) x.odd[2] = -0.0f;
  CHECK_OK(ops->fill(b, count, -2.5f, out.odd));
  for (int64_t i = 0; i < n; i++) want[i] = -2.5f;
  check(b, "fill", n, out.odd, want);
  CHECK_OK(ops->copy(b, bytes, x.odd, out.odd));
  check(b, "copy", n, out.odd, x.odd);
  CHECK_OK(ops->copy(b, bytes, out.odd, out.odd));
  check(b, "copy to itself", n, out.odd, x.odd);
  CHECK_OK(ops->copy(b, bytes, y.odd, host));
  CHECK(same_bits(host, y.odd, n), "copy to the host");
  CHECK_OK(ops->copy(b, bytes, host, out.odd));
  check(b, "copy from the host", n, out.odd, y.odd);
  for (int64_t i = 0; i < n; i++) want[i] = 0.5f * (x.odd[i] + y.odd[i]);
  CHECK_OK(ops->average(b, count, x.odd, y.odd, out.odd));
  check(b, "average", n, out.odd, want);
  CHECK_OK(ops->average(b, count, out.odd, y.odd, out.odd));
  for (int64_t i = 0; i < n; i++) want[i] = 0.5f * (want[i] + y.odd[i]);
  check(b, "average in place", n, out.odd, want);
  CHECK_OK(ops->divide(b, count, 3, out.odd));
  for (int64_t i = 0; i < n; i++) want[i] /= 3;
  check(b, "divide", n, out.odd, want);
  const double third = 1.0 / 3;
  CHECK_OK(ops->scale(b, count, third, x.odd, NULL, NULL, out.odd));
  for (int64_t i = 0; i < n; i++) want[i] = (float)(third * (double)x.odd[i]);
  check(b, "scale", n, out.odd, want);
  CHECK_OK(ops->scale(b, count, third, x.odd, y.odd, z.odd, out.odd));
  for (int64_t i = 0; i < n; i++) want[i] = (float)(third * (((double)y.odd[i] - (double)z.odd[i]) + (double)x.odd[i]));
  check(b, "scale of three", n, out.odd, want);
  const float *list[] = { x.odd, y.odd, z.odd };
  CHECK_OK(ops->mean(b, count, 3, list, out.odd));
  for (int64_t i = 0; i < n; i++) want[i] = (float)((0.0 + (double)x.odd[i] + (double)y.odd[i] + (double)z.odd[i]) / 3);
  check(b, "mean", n, out.odd, want);
  double sum = 0, got = -1;
  for (int64_t i = 0; i < n; i++) sum += ((double)x.odd[i] - (double)y.odd[i]) * ((double)x.odd[i] - (double)y.odd[i]);
  CHECK_OK(ops->distance2(b, count, x.odd, y.odd, &got));
  CHECK_EQ(got, sum, "distance2 of %d", (int)n);
  done(&x, "x");
  done(&y, "y");
  done(&z, "z");
  done(&out, "out");
  free(want);
  free(host);
}

/* One number that is not finite, at several places, is noticed; the largest that are, are not. */
static void check_bad(shoal_backend *b, int64_t n)
{
  static const float numbers[] = { NAN, -NAN, INFINITY, -INFINITY, 0x1.fffffep127f, -0x1p-149f };
  const int64_t places[] = { 0, n / 2, n - 1 };
  array x = make(b, n, 5), y = make(b, n, 6), flag = make(b, 1, 7);
  uint32_t *bad = (uint32_t *)(void *)flag.odd;
  for (size_t p = 0; p < SHOAL_COUNT(places); p++)
    for (size_t k = 0; k < SHOAL_COUNT(numbers); k++) {
      float was = x.odd[places[p]];
      size_t found = SIZE_MAX;
      x.odd[places[p]] = numbers[k];
      *bad = 0;
      CHECK_OK(b->ops->copy_checked(b, (size_t)n, x.odd, y.odd, bad));
      check(b, "copy_checked", n, y.odd, x.odd);
      CHECK_EQ(*bad, k < 4, "%g at %d of %d", (double)numbers[k], (int)places[p], (int)n);
      CHECK_OK(b->ops->find_bad(b, (size_t)n, x.odd, &found));
      CHECK_EQ(found, k < 4 ? (size_t)places[p] : (size_t)n, "%g", (double)numbers[k]);
      x.odd[places[p]] = was;
    }
  *bad = 5;
  CHECK_OK(b->ops->copy_checked(b, (size_t)n, x.odd, y.odd, bad));
  CHECK_EQ(*bad, 5, "a flag is never cleared");
  done(&x, "x");
  done(&y, "y");
  b->ops->release(b, &flag.own);
}

/* ---- 16 bits ---- */

static void check_half(shoal_backend *b, shoal_half format, int64_t n)
{
  const shoal_backend_ops *ops = b->ops;
  array x = make(b, n, 8), common = make(b, n, 9), y = make(b, n, 10), packed = make(b, n, 11), flag = make(b, 1, 7);
  uint16_t *half = (uint16_t *)(void *)packed.odd, *want16 = calloc((size_t)n + 1, sizeof *want16);
  uint32_t *bad = (uint32_t *)(void *)flag.odd;
  float *want = floats(n), largest = format == SHOAL_BF16 ? 0x1.fep127f : 65504.0f;
  REQUIRE(want16, "out of memory");
  for (int divided = 0; divided < 2; divided++) {
    const float divisor = divided ? 3 : 1, *minus = divided ? NULL : common.odd;
    *bad = 0;
    for (int64_t i = 0; i < n; i++) {
      float d = minus ? x.odd[i] - minus[i] : x.odd[i] / divisor;
      shoal_half_from_f32(format, 1, &d, &want16[i]);
    }
    CHECK_OK(ops->pack16(b, format, (size_t)n, x.odd, minus, divisor, half, bad));
    CHECK_OK(ops->settle(b));
    CHECK(memcmp(half, want16, (size_t)n * sizeof *half) == 0, "pack16 of %d", (int)n);
    CHECK_EQ(*bad, 0);
    CHECK_OK(ops->unpack16(b, format, (size_t)n, half, minus, y.odd));
    for (int64_t i = 0; i < n; i++) {
      shoal_half_to_f32(format, 1, &half[i], &want[i]);
      if (minus) want[i] += minus[i];
    }
    check(b, "unpack16", n, y.odd, want);
    CHECK_OK(ops->add16(b, format, (size_t)n, half, y.odd));
    for (int64_t i = 0; i < n; i++) shoal_half_add(format, 1, &half[i], &want[i]);
    check(b, "add16", n, y.odd, want);
  }
  const float numbers[] = { NAN, INFINITY, -1.01f * largest, largest, -largest };
  for (size_t k = 0; n > 0 && k < SHOAL_COUNT(numbers); k++) {
    *bad = 0;
    x.odd[n / 2] = numbers[k];
    CHECK_OK(ops->pack16(b, format, (size_t)n, x.odd, NULL, 1, half, bad));
    CHECK_OK(ops->settle(b));
    CHECK_EQ(*bad, k < 3, "%g", (double)numbers[k]);
    CHECK_OK(ops->pack16(b, format, (size_t)n, x.odd, NULL, 1, half, NULL));
  }
  done(&x, "x");
  done(&common, "common");
  done(&y, "y");
  done(&packed, "pack16");
  b->ops->release(b, &flag.own);
  free(want);
  free(want16);
}

/* ---- rectangles ---- */

/* Rows and columns by list, in a place of their own in two matrices, against a walk over single elements. */
static void check_tile(shoal_backend *b, const shoal_tile *t, int64_t from_n, int64_t to_n)
{
  array from = make(b, from_n, 12), to = make(b, to_n, 13);
  float *want = floats(to_n);
  memcpy(want, to.odd, (size_t)to_n * sizeof *want);
  for (size_t i = 0; i < t->rows * t->grain; i++)
    for (size_t e = 0; e < t->cols * t->width; e++) {
      size_t at[2];
      const shoal_tile_side *side[] = { &t->from, &t->to };
      for (int s = 0; s < 2; s++) {
        int64_t row = side[s]->rows ? side[s]->rows[i / t->grain] : (int64_t)(i / t->grain);
        int64_t col = side[s]->cols ? side[s]->cols[e / t->width] : (int64_t)(e / t->width);
        at[s] = ((size_t)(row + side[s]->row_shift) * t->grain + i % t->grain) * side[s]->stride +
                (size_t)(col + side[s]->col_shift) * t->width + e % t->width;
      }
      REQUIRE(at[0] < (size_t)from_n, "the test reads outside");
      REQUIRE(at[1] < (size_t)to_n, "the test writes outside");
      want[at[1]] = from.odd[at[0]];
    }
  CHECK_OK(b->ops->copy_tile(b, t, from.odd, to.odd));
  check(b, "copy_tile", to_n, to.odd, want);
  done(&from, "from");
  done(&to, "to");
  free(want);
}

static void check_tiles(shoal_backend *b)
{
  static const int64_t rows[] = { 4, 0, 7, 2 }, cols[] = { 1, 5, 6, 8, 9 }, back[] = { 9, 1, 0, 3, 4 };
  const shoal_tile_side plain = { .stride = 5 * 3 };
  shoal_tile t = { .rows = 4, .cols = 5, .width = 3, .grain = 1, .from = plain, .to = plain };
  check_tile(b, &t, 60, 60); /* dense: a plain copy */
  t.from = (shoal_tile_side){ .rows = rows, .stride = 40, .col_shift = 2 };
  check_tile(b, &t, 400, 60);
  t.from = (shoal_tile_side){ .rows = rows, .cols = cols, .row_shift = 1, .col_shift = -1, .stride = 40 };
  check_tile(b, &t, 400, 60);
  t.to = (shoal_tile_side){ .rows = rows, .cols = back, .stride = 31 };
  check_tile(b, &t, 400, 400);
  t.width = 1;
  check_tile(b, &t, 400, 400);
  t.grain = 3;
  check_tile(b, &t, 1200, 1200);
  t.rows = 0;
  check_tile(b, &t, 1, 1);
  shoal_tile large = { .rows = 700, .cols = 300, .width = 1, .grain = 1 };
  large.from = (shoal_tile_side){ .stride = 317, .col_shift = 17 };
  large.to = (shoal_tile_side){ .stride = 300 };
  check_tile(b, &large, 700 * 317, 700 * 300);
}

/* ---- parcels ---- */

static void check_parcel(shoal_backend *b, const shoal_quant *q, int64_t n, bool average)
{
  const shoal_backend_ops *ops = b->ops;
  size_t count = (size_t)n, blocks = shoal_quant_blocks(count), marks = (blocks + 7) / 8;
  size_t bytes = shoal_quant_bytes(q->bits, count);
  array c = make(b, n, 20), theirs = make(b, n, 21), z = make(b, n, 22), far = make(b, (int64_t)blocks, 23);
  array room = make(b, (int64_t)(bytes / 4 + 1), 24);
  float *want = floats(n), *most = floats((int64_t)blocks);
  int8_t *e = calloc(2 * blocks + 2, 1), *e2 = e + blocks + 1;
  uint8_t *bad = calloc(2 * marks + 2, 1), *bad2 = bad + marks + 1, *parcel = calloc(bytes + 1, 1);
  REQUIRE(e, "out of memory");
  REQUIRE(bad, "out of memory");
  REQUIRE(parcel, "out of memory");
  memset(bad, 0xff, marks);
  memset(bad2, 0xff, marks);
  for (size_t k = 0; k < blocks; k++) e[k] = e2[k] = (int8_t)(-12 - (int)(k % 3));
  for (int64_t i = 0; i < n; i++) theirs.odd[i] = c.odd[i] + 0.001f * theirs.odd[i];
  if (n > 5) theirs.odd[5] = c.odd[5] + 3; /* that block cannot be read */
  CHECK_OK(ops->encode(b, q, count, c.odd, e, room.odd));
  CHECK_OK(ops->settle(b));
  shoal_quant_encode(q, count, c.odd, e2, parcel, 0, blocks);
  CHECK(memcmp(room.odd, parcel, bytes) == 0, "encode of %d at %d bits", (int)n, q->bits);
  CHECK(memcmp(e, e2, blocks) == 0, "exponents");
  CHECK_OK(ops->decode(b, q->bits, count, room.odd, theirs.odd, z.odd, bad));
  shoal_quant_decode(q->bits, count, parcel, theirs.odd, want, bad2, 0, blocks);
  check(b, "decode", n, z.odd, want);
  CHECK(memcmp(bad, bad2, marks) == 0, "bad blocks of %d", (int)n);
  if (n > 5 && q->bits == 4) CHECK_EQ(bad[0] & 1, 1, "the first block cannot be read");
  for (size_t k = 0; k < blocks; k++) {
    size_t at = k * BLOCK, length = SHOAL_MIN(count - at, (size_t)BLOCK);
    for (size_t i = at; i < at + length; i++) most[k] = fmaxf(most[k], fabsf(theirs.odd[i] - c.odd[i]));
    memcpy(want + at, c.odd + at, length * sizeof *want);
    if (!average) continue;
    if (!shoal_quant_marked(bad, k)) shoal_quant_value(q, at, length, c.odd + at, e + k, want + at);
    for (size_t i = at; i < at + length; i++) want[i] = 0.5f * (want[i] + theirs.odd[i]);
  }
  shoal_meet_args a = { .quant = q, .exponent = e, .bad = bad, .average = average };
  CHECK_OK(ops->meet(b, &a, count, theirs.odd, c.odd, far.odd));
  check(b, "meet", n, c.odd, want);
  check(b, "distances of meet", (int64_t)blocks, far.odd, most);
  for (int64_t i = 0; average && i < n; i++) want[i] = 0.5f * (c.odd[i] + theirs.odd[i]);
  a.quant = NULL;
  CHECK_OK(ops->meet(b, &a, count, theirs.odd, c.odd, far.odd));
  check(b, "meet unquantised", n, c.odd, want);
  done(&c, "c");
  done(&theirs, "theirs");
  done(&z, "decode");
  done(&far, "distances");
  done(&room, "encode");
  free(want);
  free(most);
  free(e);
  free(bad);
  free(parcel);
}

static void check_fold(shoal_backend *b, int64_t n)
{
  int64_t blocks = (int64_t)shoal_quant_blocks((size_t)n);
  array x = make(b, n, 30), c = make(b, n, 31), base = make(b, n, 32), most = make(b, blocks, 33);
  float *want = floats(n), *largest = floats(blocks);
  if (n > 1) x.odd[1] = NAN; /* passed over */
  for (int64_t i = 0; i < n; i++) {
    float u = base.odd[i] - x.odd[i];
    if (fabsf(u) > largest[i / BLOCK]) largest[i / BLOCK] = fabsf(u);
    want[i] = c.odd[i] - u;
  }
  CHECK_OK(b->ops->fold(b, (size_t)n, x.odd, c.odd, base.odd, most.odd));
  check(b, "fold: x", n, x.odd, want);
  check(b, "fold: c", n, c.odd, want);
  check(b, "fold: base", n, base.odd, want);
  check(b, "fold: largest", blocks, most.odd, largest);
  done(&x, "x");
  done(&c, "c");
  done(&base, "base");
  done(&most, "largest");
  free(want);
  free(largest);
}

/* What the host writes there is in the memory afterwards, and only if it was to be; also where windows are copies. */
static void check_windows(shoal_backend *b)
{
  enum { N = 1000 };
  const bool host_memory = b->host_memory;
  for (int copies = 0; copies < 2; copies++) {
    array x = make(b, N, 40);
    float *want = floats(N);
    shoal_window w;
    memcpy(want, x.odd, N * sizeof *want);
    b->host_memory = host_memory && !copies;
    REQUIRE(shoal_window_open(b, SHOAL_WINDOW_READ, N, x.odd, &w) == SHOAL_OK, "window");
    CHECK(same_bits(w.at, want, N), "a window shows something else");
    CHECK_EQ(w.at == x.odd, b->host_memory);
    if (copies) w.at[3] = 5;
    CHECK_OK(shoal_window_close(b, &w));
    check(b, "after a window to read", N, x.odd, want);
    REQUIRE(shoal_window_open(b, SHOAL_WINDOW_BOTH, N, x.odd, &w) == SHOAL_OK, "window");
    w.at[7] = want[7] = want[8] + 1;
    CHECK_OK(shoal_window_close(b, &w));
    check(b, "after a window for both", N, x.odd, want);
    REQUIRE(shoal_window_open(b, SHOAL_WINDOW_WRITE, N, x.odd, &w) == SHOAL_OK, "window");
    for (int i = 0; i < N; i++) w.at[i] = want[i] = (float)i;
    CHECK_OK(shoal_window_close(b, &w));
    check(b, "after a window to write", N, x.odd, want);
    REQUIRE(shoal_window_open(b, SHOAL_WINDOW_WRITE, N, x.odd, &w) == SHOAL_OK, "window");
    shoal_window_drop(&w);
    check(b, "after a window that was dropped", N, x.odd, want);
    CHECK(shoal_event_reached((shoal_event){ 0 }), "no event is reached at once");
    shoal_event all = shoal_backend_mark(b);
    CHECK_OK(b->ops->settle(b));
    CHECK(shoal_event_reached(all), "settled, but an earlier mark is not reached");
    b->host_memory = host_memory;
    done(&x, "a window");
    free(want);
  }
}

/* Memory of every kind is zeroed and aligned; another mapping of the file of a shared one shows the same bytes. */
static void check_memory(shoal_backend *b)
{
  static const size_t sizes[] = { 0, 1, 5000, 5 << 20 };
  for (int kind = SHOAL_MEMORY_DEVICE; kind <= SHOAL_MEMORY_PINNED; kind++)
    for (size_t s = 0; s < SHOAL_COUNT(sizes); s++) {
      shoal_memory m;
      REQUIRE(b->ops->alloc(b, (shoal_memory_kind)kind, sizes[s], &m) == SHOAL_OK, "alloc");
      CHECK_EQ((uintptr_t)m.at % 64, 0);
      CHECK_EQ(m.bytes, sizes[s]);
      CHECK_EQ(m.kind, (shoal_memory_kind)kind);
      size_t not_zero = 0;
      for (size_t i = 0; b->host_memory && i < sizes[s]; i++) not_zero += ((char *)m.at)[i] != 0;
      CHECK_EQ(not_zero, 0, "%zu bytes of kind %d", sizes[s], kind);
      if (kind == SHOAL_MEMORY_SHARED && sizes[s] && b->host_memory) {
        unsigned char seen = 0;
        memset(m.at, 0x5a, sizes[s]);
        CHECK_EQ(pread(m.file, &seen, 1, (off_t)sizes[s] - 1), 1);
        CHECK_EQ(seen, 0x5a);
      }
      b->ops->release(b, &m);
      CHECK(!m.at, "released memory is still there");
      b->ops->release(b, &m);
    }
}

int test_arena(shoal_backend *b)
{
  static const int64_t sizes[] = { 0, 1, 3, 17, 1000, BLOCK, 10 * BLOCK + 77, 300001 };
  static const int bits[] = { 4, 8, 14, 16 };
  for (size_t s = 0; s < SHOAL_COUNT(sizes); s++) {
    check_passes(b, sizes[s]);
    if (sizes[s] > 0) check_bad(b, sizes[s]);
    check_half(b, SHOAL_BF16, sizes[s]);
    check_half(b, SHOAL_F16, sizes[s]);
    check_fold(b, sizes[s]);
    shoal_quant q = { .bits = bits[s % 4], .stochastic = s % 3 == 1, .seed = 3, .turn = 5 };
    check_parcel(b, &q, sizes[s], s % 2 == 0);
    q.bits = bits[(s + 1) % 4];
    check_parcel(b, &q, sizes[s], s % 2 == 1);
  }
  check_tiles(b);
  check_windows(b);
  check_memory(b);
  return check_failures;
}
