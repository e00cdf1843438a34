/* Importers against files made by hand: right content comes out, and every kind of broken source is refused with its
 * name and place, leaves an older output as it was and nothing else behind. */
#include "base/mem.h"
#include "data_temp.h"
#include <zlib.h>

static const char *out_path;

static shoal_status import(const char *kind, const char *const *sources, size_t n, uint64_t train_count,
                           const char *label)
{
  shoal_import_args a = {
    .kind = kind, .sources = sources, .n_sources = n, .train_count = train_count, .label = label
  };
  return shoal_data_import(&a, out_path);
}

/* One source, to be refused; the older output must survive. */
static void refuse(int line, const char *kind, const char *source, const char *words)
{
  temp_write(out_path, "older", 5);
  char *text = NULL;
  size_t n = 0;
  shoal_status st = import(kind, &source, 1, 0, NULL);
  check_refused(st, SHOAL_ERR_IO, words, source, line);
  CHECK_OK(shoal_read_file(out_path, &text, &n));
  if (CHECK_EQ(n, 5, "line %d: the older output was touched", line))
    CHECK_BYTES(text, "older", 5, "line %d: the older output was touched", line);
  CHECK_EQ(temp_leftovers(), 0, "line %d: something was left behind", line);
  free(text);
}
#define REFUSE(kind, source, words) refuse(__LINE__, kind, source, words)

static shoal_dataset *open_output(void)
{
  shoal_dataset *d = NULL;
  REQUIRE(shoal_dataset_open(out_path, &d) == SHOAL_OK, "opening the output");
  CHECK_EQ(temp_leftovers(), 0);
  return d;
}

static const char *write_gzip(const char *name, const void *data, size_t n)
{
  const char *path = temp_path(name);
  gzFile f = gzopen(path, "wb");
  REQUIRE(f, "writing %s", path);
  REQUIRE(gzwrite(f, data, (unsigned)n) == (int)n, "writing %s", path);
  REQUIRE(gzclose(f) == Z_OK, "writing %s", path);
  return path;
}

/* ---- CIFAR ---- */

enum { RECORD = 3073, RECORDS = 150 };
static uint8_t cifar[RECORDS * RECORD];

static void fill_cifar(int first)
{
  for (int r = 0; r < RECORDS; r++) {
    cifar[r * RECORD] = (uint8_t)((first + r) % 10);
    for (int i = 1; i < RECORD; i++) cifar[r * RECORD + i] = (uint8_t)((first + r) * 13 + i * 7);
  }
}

static void check_cifar(uint64_t train, uint64_t test)
{
  shoal_dataset *d = open_output();
  const shoal_data_info *i = shoal_dataset_info(d);
  uint8_t x[3072];
  int32_t y;
  shoal_shape want = SHOAL_SHAPE(3, 32, 32);
  CHECK_EQ(i->kind, SHOAL_DATA_IMAGES);
  CHECK_EQ(i->n[0], train);
  CHECK_EQ(i->n[1], test);
  CHECK_EQ(i->classes, 10);
  CHECK_EQ(i->channels, 3);
  CHECK(shoal_shape_equal(&i->sample, &want));
  CHECK_EQ(i->x_bytes, 1);
  for (uint64_t k = 0; k < train + test; k += 7) {
    CHECK_OK(shoal_dataset_read(d, k < train ? SHOAL_TRAIN : SHOAL_TEST, k < train ? k : k - train, x, &y));
    CHECK_EQ(y, (int32_t)(k % 10), "sample %d", (int)k);
    for (uint64_t p = 0; p < 3072; p += 101) CHECK_EQ(x[p], (uint8_t)(k * 13 + (p + 1) * 7));
  }
  shoal_dataset_close(d);
}

static void test_cifar(void)
{
  const char *plain = temp_path("data_batch_1.bin"), *sources[2] = { plain };
  fill_cifar(0);
  temp_write(plain, cifar, sizeof cifar);
  fill_cifar(RECORDS);
  sources[1] = write_gzip("test_batch.gz", cifar, sizeof cifar); /* detected from the content */
  CHECK_OK(import("cifar10", sources, 2, 0, NULL));
  check_cifar(RECORDS, RECORDS);
  CHECK_OK(import("cifar10", sources, 2, 220, NULL));
  check_cifar(220, 80);
  CHECK_OK(import("cifar10", sources, 1, 100, NULL));
  check_cifar(100, 50);
  CHECK_REFUSED(import("cifar10", sources, 2, 301, NULL), SHOAL_ERR_ARG, "300 images are there");
  CHECK_REFUSED(import("cifar10", sources + 1, 1, 0, NULL), SHOAL_ERR_ARG, "there would be no training samples: ");
  CHECK_REFUSED(import("cifar10", sources, 0, 0, NULL), SHOAL_ERR_ARG, "nothing to import");
  CHECK_REFUSED(import("cifar1", sources, 1, 0, NULL), SHOAL_ERR_ARG, "did you mean \"cifar10\"");
}

static void test_cifar_bad(void)
{
  const char *path = temp_path("data_batch_2.bin");
  fill_cifar(0);
  temp_write(path, cifar, 100 * RECORD + 1000);
  REFUSE("cifar10", path,
         "data_batch_2.bin is cut short or not a CIFAR-10 file: record 100 begins at byte 307300 and has 1000 "
         "of 3073 bytes");
  cifar[70 * RECORD] = 10;
  temp_write(path, cifar, sizeof cifar);
  REFUSE("cifar10", path, "data_batch_2.bin: record 70 at byte 215110 has label 10, CIFAR-10 has 0 to 9");
  const char *packed = write_gzip("data_batch_3.bin", cifar, sizeof cifar);
  REFUSE("cifar10", packed, "record 70 at unpacked byte 215110 has label 10");
  cifar[70 * RECORD] = 1;
  packed = write_gzip("data_batch_3.bin", cifar, sizeof cifar);
  struct stat s;
  REQUIRE(stat(packed, &s) == 0, "cut");
  REQUIRE(truncate(packed, s.st_size - 200) == 0, "cut");
  REFUSE("cifar10", packed, "data_batch_3.bin is cut short: its gzip stream stops before its end");
  packed = write_gzip("data_batch_3.bin", cifar, sizeof cifar);
  FILE *f = fopen(packed, "r+b");
  REQUIRE(f, "flip");
  REQUIRE(fseek(f, -6, SEEK_END) == 0, "flip");
  REQUIRE(fputc(0x55, f) == 0x55, "flip");
  REQUIRE(fclose(f) == 0, "flip"); /* its checksum */
  REFUSE("cifar10", packed, "data_batch_3.bin is damaged (");
  temp_write(path, "", 0);
  REFUSE("cifar10", path, "data_batch_2.bin is empty");
  REFUSE("cifar10", temp_path("missing.bin"), "cannot read");
}

static void test_cifar100(void)
{
  enum { RECORD100 = 3074 };
  static uint8_t data[3 * RECORD100];
  const char *path = temp_path("train.bin");
  for (int r = 0; r < 3; r++) {
    data[r * RECORD100] = 19;
    data[r * RECORD100 + 1] = (uint8_t)(97 + r);
  }
  temp_write(path, data, sizeof data);
  CHECK_OK(import("cifar100", &path, 1, 2, NULL));
  shoal_dataset *d = open_output();
  uint8_t x[3072];
  int32_t y;
  CHECK_EQ(shoal_dataset_info(d)->classes, 100);
  CHECK_OK(shoal_dataset_read(d, SHOAL_TEST, 0, x, &y));
  CHECK_EQ(y, 99, "the fine label");
  shoal_dataset_close(d);
}

/* ---- IDX ---- */

static const char *write_idx(const char *name, int ndim, const uint32_t *dims, size_t bytes, int first)
{
  static uint8_t data[1 << 16];
  size_t at = 4;
  memcpy(data, (uint8_t[]){ 0, 0, 8, (uint8_t)ndim }, 4);
  for (int i = 0; i < ndim; i++, at += 4)
    memcpy(data + at,
           (uint8_t[]){ (uint8_t)(dims[i] >> 24), (uint8_t)(dims[i] >> 16), (uint8_t)(dims[i] >> 8), (uint8_t)dims[i] },
           4);
  for (size_t i = 0; i < bytes; i++)
    data[at + i] = ndim == 1 ? (uint8_t)((first + (int)i) % 4) : (uint8_t)(i * 3 + (size_t)first);
  temp_write(temp_path(name), data, at + bytes);
  return temp_path(name);
}

static void check_idx(uint64_t train, uint64_t test)
{
  shoal_dataset *d = open_output();
  const shoal_data_info *i = shoal_dataset_info(d);
  uint8_t x[6];
  int32_t y;
  CHECK_EQ(i->n[0], train);
  CHECK_EQ(i->n[1], test);
  CHECK_EQ(i->classes, 4);
  CHECK_EQ(i->sample.dim[1], 2);
  CHECK_EQ(i->sample.dim[2], 3);
  for (uint64_t k = 0; k < train; k++) {
    CHECK_OK(shoal_dataset_read(d, SHOAL_TRAIN, k, x, &y));
    CHECK_EQ(y, (int32_t)(k % 4), "sample %d", (int)k);
    CHECK_EQ(x[5], (uint8_t)((k * 6 + 5) * 3), "sample %d", (int)k);
  }
  shoal_dataset_close(d);
}

static void test_idx(void)
{
  const uint32_t many[] = { 300, 2, 3 }, few[] = { 10, 2, 3 };
  const char *s[4];
  s[0] = write_idx("t10k-images", 3, few, 60, 100);
  s[1] = write_idx("train-labels", 1, many, 300, 0);
  s[2] = write_idx("train-images", 3, many, 1800, 0);
  s[3] = write_idx("t10k-labels", 1, few, 10, 0);
  CHECK_OK(import("idx", s, 4, 0, NULL)); /* in any order */
  check_idx(300, 10);
  CHECK_OK(import("idx", s + 1, 2, 250, NULL));
  check_idx(250, 50);
  CHECK_REFUSED(import("idx", s + 1, 3, 0, NULL), SHOAL_ERR_IO, "t10k-labels has labels, but no images");
  CHECK_REFUSED(import("idx", s, 3, 0, NULL), SHOAL_ERR_IO, "t10k-images has images, but no label file");
  s[1] = write_idx("train-labels", 1, (uint32_t[]){ 299 }, 299, 0);
  CHECK_REFUSED(import("idx", s + 1, 2, 0, NULL), SHOAL_ERR_IO, "has 300 images, but ");
  REFUSE("idx", s[1], "no images among the 1 files");
  s[1] = write_idx("train-labels", 1, many, 290, 0);
  CHECK_REFUSED(import("idx", s + 1, 2, 0, NULL), SHOAL_ERR_IO,
                "train-labels is cut short at byte 298: item 290 of 300 is incomplete");
  s[1] = write_idx("train-labels", 1, many, 301, 0);
  CHECK_REFUSED(import("idx", s + 1, 2, 0, NULL), SHOAL_ERR_IO,
                "train-labels continues after its 300 items, at byte 308");
  s[1] = write_idx("train-labels", 1, many, 300, 0);
  s[2] = write_idx("train-images", 3, many, 1799, 0);
  CHECK_REFUSED(import("idx", s + 1, 2, 0, NULL), SHOAL_ERR_IO,
                "train-images is cut short at byte 1815: item 299 of 300");
  CHECK_EQ(temp_leftovers(), 0);
}

static void test_idx_bad(void)
{
  const char *path = temp_path("train-odd");
  temp_write(path, "\x50\x4c\x03\x04zip", 7);
  REFUSE("idx", path, "train-odd is not an IDX file: it begins with 50 4c 03 04");
  temp_write(path, "\0\0\x0d\3", 4);
  REFUSE("idx", path, "byte 2 says element type 0x0d");
  temp_write(path, "\0\0\x08\2", 4);
  REFUSE("idx", path, "byte 3 says 2 dimensions");
  temp_write(path, "\0\0\x08\3\0\0\0\5\0\0", 10);
  REFUSE("idx", path, "header ends at byte 10");
  temp_write(path, "\0\0\x08\3\0\0\0\5\0\0\0\0\0\0\0\3", 16);
  REFUSE("idx", path, "dimension 1 at byte 8 is 0");
  temp_write(path, "\0\0\x08\1\0\0\0\0", 8);
  REFUSE("idx", path, "is empty: its header says 0 items");
  temp_write(path, "", 0);
  REFUSE("idx", path, "train-odd is empty");
}

/* ---- CSV ---- */

static void check_row(shoal_dataset *d, shoal_split split, uint64_t id, float a, float b, int32_t label)
{
  float x[2];
  int32_t y;
  CHECK_OK(shoal_dataset_read(d, split, id, x, &y));
  CHECK_EQ(x[0], a, "sample %d", (int)id);
  CHECK_EQ(x[1], b, "sample %d", (int)id);
  CHECK_EQ(y, label, "sample %d", (int)id);
}

static void test_csv(void)
{
  const char *p = temp_text(
      "a.csv", "\xef\xbb\xbf"
               "length, \"wi\"\"dth, cm\",kind\r\n1.5,2,setosa\r\n\r\n-3e2,+4,\"versi,color\"\r\n 0.5 ,\t6,setosa\n"
               "7,8,\"a\nb\"\r9,10,virginica");
  CHECK_OK(import("csv", &p, 1, 4, NULL));
  shoal_dataset *d = open_output();
  const shoal_data_info *i = shoal_dataset_info(d);
  CHECK_EQ(i->kind, SHOAL_DATA_FEATURES);
  CHECK_EQ(i->n[0], 4);
  CHECK_EQ(i->n[1], 1);
  CHECK_EQ(i->classes, 4);
  CHECK_EQ(i->sample.dim[0], 2);
  check_row(d, SHOAL_TRAIN, 0, 1.5f, 2, 1); /* sorted: "a\nb", setosa, versi,color, virginica */
  check_row(d, SHOAL_TRAIN, 1, -300, 4, 2);
  check_row(d, SHOAL_TRAIN, 2, .5f, 6, 1);
  check_row(d, SHOAL_TRAIN, 3, 7, 8, 0);
  check_row(d, SHOAL_TEST, 0, 9, 10, 3);
  shoal_dataset_close(d);
}

static void test_csv_labels(void)
{
  const char *p = temp_text("b.csv", "y;u;v\n10;1;2\n9;3;4\n10;5;6\n-1;7;8\n"); /* numbers sort as numbers */
  CHECK_OK(import("csv", &p, 1, 4, "y"));
  shoal_dataset *d = open_output();
  CHECK_EQ(shoal_dataset_info(d)->n[1], 0);
  CHECK_STR(d->class_names, "-1\n9\n10");
  check_row(d, SHOAL_TRAIN, 0, 1, 2, 2);
  check_row(d, SHOAL_TRAIN, 1, 3, 4, 1);
  check_row(d, SHOAL_TRAIN, 3, 7, 8, 0);
  shoal_dataset_close(d);
  CHECK_OK(import("csv", &p, 1, 0, "1"));
  CHECK_REFUSED(import("csv", &p, 1, 0, "w"), SHOAL_ERR_ARG, "b.csv has no column \"w\"");
  CHECK_REFUSED(import("csv", &p, 1, 0, "4"), SHOAL_ERR_ARG, "b.csv has 3 columns, there is no column 4");
  const char *two[] = { temp_text("c.csv", "1\t2\t0\n3\t4\t1\n5\t6\t1\n"), temp_text("d.csv", "7\t8\t0\n") };
  CHECK_OK(import("csv", two, 2, 0, NULL)); /* no header, tabs, two files */
  d = open_output();
  CHECK_EQ(shoal_dataset_info(d)->n[0], 4, "four rows, classes as they are");
  CHECK(!d->class_names);
  check_row(d, SHOAL_TRAIN, 3, 7, 8, 0);
  shoal_dataset_close(d);
}

static void test_csv_bad(void)
{
  REFUSE("csv", temp_text("e.csv", "a,b,c\n1,2,x\n3,4\n"), "e.csv:3:3: this row has 2 fields, the first row has 3");
  REFUSE("csv", temp_text("e.csv", "a,b,c\n1,2,x\n3,four,y\n"),
         "e.csv:3:3: \"four\" in column 2, \"b\" is not a number");
  REFUSE("csv", temp_text("e.csv", "1,2,x\n3,,y\n"),
         "e.csv:2:3: \"\" in column 2 is empty; features are numbers: --missing mean fills such fields");
  REFUSE("csv", temp_text("e.csv", "1,2,x\n3,1e39,y\n"),
         "e.csv:2:3: \"1e39\" in column 2 is larger than any 32-bit float");
  REFUSE("csv", temp_text("e.csv", "1,2,x\n3,inf,y\n"), "e.csv:2:3: \"inf\" in column 2 is infinite, so not finite");
  REFUSE("csv", temp_text("e.csv", "1,2,x\n3,4,\n"), "e.csv:2:5: the label is empty");
  REFUSE("csv", temp_text("e.csv", "1,2,x\n3,\"4,y\n"), "e.csv:2:3: this quote is never closed");
  REFUSE("csv", temp_text("e.csv", "1,2,x\n3,\"4\"4,y\n"), "e.csv:2:6: text after a closing quote");
  REFUSE(
      "csv", temp_text("e.csv", "1,2,\"x\n3,4,y\n5,6,\"x\n7,8,y\n"),
      "e.csv:1:5: this quote opens a field that goes on to line 3, with text after the closing quote there: close the "
      "quote in its own line, or remove it");
  REFUSE("csv", temp_text("e.csv", "1,2,x\n3,4,\"y\n5,6,x\n"),
         "e.csv:2:5: this quote is never closed: close it, or remove it");
  REFUSE("csv", temp_text("e.csv", "1,2,\"x\ny\"\n3,4\n"), "e.csv:3:3: this row has 2 fields");
  REFUSE("csv", temp_text("e.csv", "1,2,0.5\n3,4,1\n"), "e.csv:1:5: label 0.5 is not a class");
  REFUSE("csv", temp_text("e.csv", "word\nanother\n"), "e.csv:1:1: one column only");
  REFUSE("csv", temp_text("e.csv", "a,b,c\n\n"),
         "e.csv is empty: no rows with data below its header; if it has none, give --header no");
  REFUSE("csv", temp_text("e.csv", ""), "e.csv is empty");
  const char *nul = temp_path("e.csv");
  temp_write(nul, "1,2,x\n3,4\0,y\n", 14);
  REFUSE("csv", nul, "e.csv:2:4: 1 zero byte: what was there is lost");
  temp_write(nul, "1,2,x\n\"3\",\"4\0\0\",y\n", 18);
  REFUSE("csv", nul, "e.csv:2:7: 2 zero bytes: what was there is lost");
  char many[4000] = "", *at = many;
  for (int i = 0; i < 100; i++) at += sprintf(at, "1,%d,%d\n", i % 2, i);
  REFUSE("csv", temp_text("e.csv", many), "column 3 has 100 different labels in 100 rows");
}

/* ---- text ---- */

static void test_text(void)
{
  const char *s[] = { temp_text("one.txt", "the gull "), temp_text("two.txt", "sees a ship") };
  CHECK_OK(import("text", s, 2, 0, NULL));
  shoal_dataset *d = open_output();
  const shoal_data_info *i = shoal_dataset_info(d);
  uint8_t x;
  int32_t y;
  CHECK_EQ(i->kind, SHOAL_DATA_TEXT);
  CHECK_EQ(i->n[0], 18);
  CHECK_EQ(i->n[1], 2);
  CHECK_EQ(i->classes, 256);
  CHECK_OK(shoal_dataset_read(d, SHOAL_TRAIN, 9, &x, &y));
  CHECK_EQ(x, 's', "token and the next");
  CHECK_EQ(y, 'e');
  CHECK_OK(shoal_dataset_read(d, SHOAL_TEST, 1, &x, &y));
  CHECK_EQ(x, 'p', "the last token");
  CHECK_EQ(y, -1);
  shoal_dataset_close(d);
  REFUSE("text", temp_text("three.txt", ""), "three.txt is empty");
}

/* Where the output cannot be written. */
static void test_output(void)
{
  const char *p = temp_text("one.txt", "some text"), *there = out_path;
  out_path = temp_path("no-such-folder/out.h5");
  CHECK_REFUSED(import("text", &p, 1, 0, NULL), SHOAL_ERR_IO, "no-such-folder/out.h5: its folder does not exist");
  out_path = there;
}

int main(void)
{
  temp_make();
  shoal_log_set_level(SHOAL_LOG_ERROR);
  out_path = temp_path("out.h5");
  test_cifar();
  test_cifar_bad();
  test_cifar100();
  test_idx();
  test_idx_bad();
  test_csv();
  test_csv_labels();
  test_csv_bad();
  test_text();
  test_output();
  return check_done();
}
