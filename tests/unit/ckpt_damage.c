/* Damage is found, named, and survived: single bytes, cut ends, foreign files, data sets that vanish or appear.
 *
 * The strongest check flips every byte of a small file, one after the other: each copy must be refused, whatever it
 * would have done to HDF5. */
#include "base/crc32c.h"
#include "ckpt/ckpt_impl.h"
#include "unit/ckpt_fixture.h"
#include <hdf5.h>

static char *path;
static unsigned char *good;
static size_t good_bytes;

static void restore(void)
{
  fixture_spoil(path, good, good_bytes);
}

/* verify and a verifying open both refuse, and the first line holds every one of the words. */
static void check_refused(const char *what, const char *word1, const char *word2)
{
  fixture_output o;
  shoal_ckpt *c = NULL;
  CHECK_STATUS(shoal_ckpt_verify(path, fixture_capture(&o)), SHOAL_ERR_IO, "%s: verify", what);
  const char *text = fixture_text(&o);
  CHECK_HAS(text, word1, "%s", what);
  CHECK_HAS(text, word2, "%s", what);
  CHECK_HAS(text, path, "%s", what);
  CHECK(text[0], "%s: whole lines", what);
  CHECK_EQ(text[strlen(text) - 1], '\n', "%s: whole lines", what);
  CHECK_LACKS(text, "\n\n", "%s: whole lines", what);
  fixture_release(&o);
  CHECK_STATUS(shoal_ckpt_open(path, true, &c), SHOAL_ERR_IO, "%s: open", what);
  CHECK(!c, "%s: open", what);
  CHECK_HAS(check_error(), word1, "%s", what);
  CHECK_HAS(check_error(), word2, "%s", what);
}

static void check_good(void)
{
  fixture_output o;
  CHECK_OK(shoal_ckpt_verify(path, fixture_capture(&o)));
  CHECK_HAS(fixture_text(&o), "good: step 70", "%s", o.text);
  CHECK(strchr(o.text, '\n') == o.text + strlen(o.text) - 1, "%s", o.text);
  fixture_release(&o);
}

/* ---- bytes ---- */

static void every_data_set_is_named(void)
{
  shoal_ckpt *c;
  restore();
  REQUIRE(shoal_ckpt_open_seal(path, &c) == SHOAL_OK, "seal");
  for (size_t i = 0; i < c->index.n; i++) {
    const shoal_ckpt_entry *e = &c->index.at[i];
    if (e->bytes == 0) continue;
    const uint64_t places[] = { e->offset, e->offset + e->bytes / 2, e->offset + e->bytes - 1 };
    for (size_t p = 0; p < SHOAL_COUNT(places); p++) {
      good[places[p]] ^= 0x10;
      restore();
      char *word = shoal_strdup_printf("data set %s is damaged", e->name);
      check_refused(e->name, word, path);
      free(word);
      good[places[p]] ^= 0x10;
    }
  }
  shoal_ckpt_close(c);
  restore();
  check_good();
}

static void two_faults_are_two_lines(void)
{
  shoal_ckpt *c;
  fixture_output o;
  restore();
  REQUIRE(shoal_ckpt_open_seal(path, &c) == SHOAL_OK, "seal");
  const uint64_t a = shoal_ckpt_index_find(&c->index, "method/sum")->offset,
                 b = shoal_ckpt_index_find(&c->index, "replica/0/weights")->offset;
  shoal_ckpt_close(c);
  good[a] ^= 1;
  good[b] ^= 1;
  restore();
  CHECK_STATUS(shoal_ckpt_verify(path, fixture_capture(&o)), SHOAL_ERR_IO);
  CHECK_HAS(fixture_text(&o), "method/sum is damaged");
  CHECK(strstr(o.text, "\n") != o.text + strlen(o.text) - 1, "%s", o.text);
  CHECK_HAS(o.text, "replica/0/weights is damaged");
  fixture_release(&o);
  check_refused("two", "method/sum is damaged", "");
  good[a] ^= 1;
  good[b] ^= 1;
  restore();
}

static void every_byte_counts(void)
{
  int fd = open(path, O_WRONLY);
  REQUIRE(fd >= 0, "open %s", path);
  for (size_t i = 0; i < good_bytes; i++) {
    unsigned char flipped = good[i] ^ (unsigned char)(1u << (i % 8));
    shoal_ckpt *c = NULL;
    REQUIRE(pwrite(fd, &flipped, 1, (off_t)i) == 1, "flip");
    CHECK_STATUS(shoal_ckpt_open(path, true, &c), SHOAL_ERR_IO, "byte %zu of %zu", i, good_bytes);
    CHECK(!c, "byte %zu of %zu", i, good_bytes);
    shoal_ckpt_close(c);
    REQUIRE(pwrite(fd, &good[i], 1, (off_t)i) == 1, "flip back");
  }
  close(fd);
  check_good();
}

/* Opened without verification a damaged array is still not handed out. */
static void get_compares_again(void)
{
  shoal_ckpt *c;
  float x[300];
  restore();
  REQUIRE(shoal_ckpt_open(path, false, &c) == SHOAL_OK, "open");
  uint64_t at = shoal_ckpt_index_find(&c->index, "method/sum")->offset + 4 * 299;
  shoal_ckpt_close(c);
  good[at] ^= 0x80;
  restore();
  good[at] ^= 0x80;
  REQUIRE(shoal_ckpt_open(path, false, &c) == SHOAL_OK, "opened without verification");
  CHECK_STATUS(shoal_ckpt_get(c, "method/sum", SHOAL_F32, 300, x), SHOAL_ERR_IO, "reading verifies");
  CHECK_HAS(check_error(), "method/sum");
  CHECK_HAS(check_error(), path);
  shoal_ckpt_close(c);
  restore();
}

/* ---- ends ---- */

static void cut_and_longer(void)
{
  const size_t cuts[] = { 1, 39, 40, 41, 1024, good_bytes / 2, good_bytes - 41, good_bytes - 9, good_bytes - 8 };
  for (size_t i = 0; i < SHOAL_COUNT(cuts); i++) {
    fixture_spoil(path, good, good_bytes - cuts[i]);
    check_refused("cut", "cut short", "");
  }
  fixture_spoil(path, good, 5);
  check_refused("five bytes", "not an HDF5 file", "");
  fixture_spoil(path, good, 0);
  check_refused("empty", "empty (0 bytes)", "");
  good[good_bytes] = 0; /* there is room for one more */
  fixture_spoil(path, good, good_bytes + 1);
  check_refused("one byte more", "changed by another program", "");
  fixture_spoil(path, "epoch,step\n1,2\n", 15);
  check_refused("text", "not an HDF5 file", "");
  unlink(path);
  check_refused("nothing", "No such file", "");
  REQUIRE(mkdir(path, 0777) == 0, "mkdir");
  check_refused("a folder", "not a regular file", "");
  rmdir(path);
  REQUIRE(mkfifo(path, 0666) == 0, "mkfifo");
  check_refused("a pipe", "not a regular file", "");
  unlink(path);
  restore();
  check_good();
}

/* ---- contents: somebody changes the HDF5 part and even seals it again, with the old index ---- */

typedef void (*change)(hid_t file);

static void change_and_seal(change how, bool seal)
{
  shoal_ckpt *c;
  hid_t file;
  restore();
  REQUIRE(shoal_ckpt_open_seal(path, &c) == SHOAL_OK, "seal");
  REQUIRE(truncate(path, (off_t)c->seal.hdf5_bytes) == 0, "truncate");
  REQUIRE((file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT)) >= 0, "open for writing");
  how(file);
  REQUIRE(H5Fclose(file) >= 0, "close");
  if (seal) REQUIRE(shoal_ckpt_seal_write(path, &c->index) == SHOAL_OK, "seal");
  shoal_ckpt_close(c);
}

static void nothing(hid_t file)
{
}
static void remove_one(hid_t file)
{
  CHECK_GE(H5Ldelete(file, "model/conv1.bias", H5P_DEFAULT), 0);
}
static void add_one(hid_t file)
{
  CHECK_OK(shoal_h5_write((shoal_h5){ file }, "model/extra", SHOAL_F64, 0, NULL, &(double){ 1 }));
}
static void add_group(hid_t file)
{
  H5Gclose(H5Gcreate2(file, "model/deep", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
}
static void add_at_root(hid_t file)
{
  CHECK_OK(shoal_h5_write((shoal_h5){ file }, "zzz", SHOAL_F64, 0, NULL, &(double){ 1 }));
}
/* The same bytes again, so that only shape or type tell. */
static void rewrite_one(hid_t file, shoal_dtype type, int ndim, const uint64_t *dims)
{
  float values[4];
  CHECK_OK(shoal_h5_read((shoal_h5){ file }, "model/conv1.bias", SHOAL_F32, 4, values));
  remove_one(file);
  CHECK_OK(shoal_h5_write((shoal_h5){ file }, "model/conv1.bias", type, ndim, dims, values));
}
static void reshape_one(hid_t file)
{
  rewrite_one(file, SHOAL_F32, 2, (uint64_t[]){ 2, 2 });
}
static void retype_one(hid_t file)
{
  rewrite_one(file, SHOAL_U32, 1, (uint64_t[]){ 4 });
}
static void turn_into_group(hid_t file)
{
  remove_one(file);
  H5Gclose(H5Gcreate2(file, "model/conv1.bias", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
}
/* Everything as the index says, but elsewhere in the file. */
static void move_one(hid_t file)
{
  float values[4];
  int64_t crc = 0;
  hid_t set = H5Dopen2(file, "model/conv1.bias", H5P_DEFAULT);
  CHECK_OK(shoal_h5_get_i64((shoal_h5){ set }, "crc32c", &crc));
  H5Dclose(set);
  CHECK_OK(shoal_h5_read((shoal_h5){ file }, "model/conv1.bias", SHOAL_F32, 4, values));
  H5Lmove(file, "model/conv1.bias", file, "model/kept", H5P_DEFAULT, H5P_DEFAULT);
  CHECK_OK(shoal_h5_write((shoal_h5){ file }, "model/conv1.bias", SHOAL_F32, 1, (uint64_t[]){ 4 }, values));
  H5Ldelete(file, "model/kept", H5P_DEFAULT);
  set = H5Dopen2(file, "model/conv1.bias", H5P_DEFAULT);
  CHECK_OK(shoal_h5_put_i64((shoal_h5){ set }, "crc32c", crc));
  H5Dclose(set);
}
static void change_value(hid_t file)
{
  hid_t set = H5Dopen2(file, "method/step", H5P_DEFAULT);
  CHECK_GE(H5Dwrite(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, &(int64_t){ 99 }), 0);
  H5Dclose(set);
}
static void change_sum(hid_t file)
{
  hid_t set = H5Dopen2(file, "method/step", H5P_DEFAULT);
  CHECK_OK(shoal_h5_put_i64((shoal_h5){ set }, "crc32c", 5));
  H5Dclose(set);
}
static void change_format(hid_t file)
{
  CHECK_OK(shoal_h5_put_string((shoal_h5){ file }, "format", "shoal trace"));
}
static void remove_attribute(hid_t file)
{
  CHECK_GE(H5Adelete(file, "epoch"), 0);
}
static void link_outside(hid_t file)
{
  CHECK_GE(H5Lcreate_external("/etc/other.h5", "/x", file, "model/linked", H5P_DEFAULT, H5P_DEFAULT), 0);
}
static void soft_link(hid_t file)
{
  CHECK_GE(H5Lcreate_soft("/method", file, "model/loop", H5P_DEFAULT, H5P_DEFAULT), 0);
}

static void contents_are_compared(void)
{
  static const struct {
    const char *what;
    change how;
    const char *word1, *word2;
  } cases[] = {
    { "missing", remove_one, "model/conv1.bias is missing", "" },
    { "added", add_one, "model/extra was added", "" },
    { "added group", add_group, "model/deep was added", "" },
    { "added at the root", add_at_root, "zzz was added", "" },
    { "another shape", reshape_one, "model/conv1.bias", "f32 [4]" },
    { "another type", retype_one, "model/conv1.bias", "f32 [4]" },
    { "a group instead", turn_into_group, "model/conv1.bias is there, but cannot be opened", "" },
    { "moved", move_one, "model/conv1.bias is not stored where", "" },
    { "another value", change_value, "method/step is damaged", "" },
    { "another sum", change_sum, "method/step carries the checksum", "" },
    { "not a checkpoint", change_format, "shoal trace", "" },
    { "no epoch", remove_attribute, "epoch", "" },
    { "a link to another file", link_outside, "model/linked", "a link to another file" },
    { "a soft link", soft_link, "model/loop was added", "" },
  };
  change_and_seal(nothing, true); /* sealing again by itself is no damage */
  check_good();
  for (size_t i = 0; i < SHOAL_COUNT(cases); i++) {
    change_and_seal(cases[i].how, true);
    check_refused(cases[i].what, cases[i].word1, cases[i].word2);
    change_and_seal(cases[i].how, false);
    check_refused(cases[i].what, "seal", "changed by another program");
  }
  restore();
  check_good();
}

static void newer_formats_are_told(void)
{
  size_t at = good_bytes - 40;
  uint32_t version = SHOAL_CKPT_VERSION + 1, crc;
  unsigned char kept[40];
  memcpy(kept, good + at, sizeof kept);
  memcpy(good + at + 32, &version, sizeof version);
  crc = shoal_crc32c(0, good + at, 36);
  memcpy(good + at + 36, &crc, sizeof crc);
  restore();
  check_refused("a newer format", "format 3", "newer Shoal");
  memcpy(good + at, kept, sizeof kept);
  restore();
  check_good();
}

int main(void)
{
  path = fixture_write(fixture_make(), 70);
  fixture_read(path, &good, &good_bytes);
  check_good();
  every_data_set_is_named();
  two_faults_are_two_lines();
  get_compares_again();
  cut_and_longer();
  contents_are_compared();
  newer_formats_are_told();
  every_byte_counts();
  free(good);
  free(path);
  return check_done();
}
