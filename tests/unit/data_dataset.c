/* Opening and reading: our form, foreign names and layouts, every way a file can be unusable; and the same bytes
 * however they are read: from memory, sample by sample, contiguous or compressed.  Inspect and repack on the same
 * files. */
#define _GNU_SOURCE /* memmem */
#include "base/mem.h"
#include "data_temp.h"
#include "h5/h5.h"
#include "report/data.h"
#include <fcntl.h>
#include <hdf5.h>
#include <sys/file.h>
#include <sys/wait.h>

enum { TRAIN = 90, TEST = 30, C = 3, H = 5, W = 4, IMAGE = C * H * W };

static uint8_t pixel(uint64_t i, int k)
{
  return (uint8_t)(i * 29 + (uint64_t)k * 3);
}

static void fill_image(uint64_t i, void *x, int32_t *y)
{
  for (int k = 0; k < IMAGE; k++) ((uint8_t *)x)[k] = pixel(i, k);
  *y = (int32_t)(i % 7);
}

static void fill_far(uint64_t i, void *x, int32_t *y)
{
  ((float *)x)[0] = 4e6f + (float)(i % 2);
  ((float *)x)[1] = 3;
  *y = (int32_t)(i % 2);
}

/* Far from zero the textbook formula loses all digits of the deviation; a constant feature must not divide by 0. */
static void test_features(void)
{
  const char *path = temp_path("far.h5");
  shoal_dataset *d = NULL;
  const double *mean, *std;
  size_t n;
  write_set(path, SHOAL_DATA_FEATURES, SHOAL_SHAPE(2), 4, 1000, 0, 2, fill_far);
  REQUIRE(shoal_dataset_open(path, &d) == SHOAL_OK, "far.h5");
  shoal_dataset_scale(d, &n, &mean, &std);
  CHECK_EQ(n, 2);
  CHECK_EQ(mean[0], 4000000.5);
  CHECK_EQ(std[0], 0.5);
  CHECK_EQ(mean[1], 3);
  CHECK_EQ(std[1], 1);
  CHECK_EQ(shoal_dataset_info(d)->channels, 1, "one number for all in the info");
  shoal_dataset_close(d);
}

/* ---- foreign files, made with HDF5 directly ---- */

typedef enum { PLAIN, CHUNKED, PACKED } layout;

static void put(hid_t file, const char *name, hid_t type, hid_t memory, int ndim, const hsize_t *dims, layout how,
                const void *data)
{
  hid_t space = H5Screate_simple(ndim, dims, NULL), list = H5Pcreate(H5P_DATASET_CREATE),
        links = H5Pcreate(H5P_LINK_CREATE);
  hsize_t chunk[8];
  for (int i = 0; i < ndim; i++) chunk[i] = i ? dims[i] : SHOAL_MIN(dims[i], 50);
  H5Pset_create_intermediate_group(links, 1);
  if (how != PLAIN) H5Pset_chunk(list, ndim, chunk);
  if (how == PACKED) H5Pset_deflate(list, 4);
  hid_t set = H5Dcreate2(file, name, type, space, links, list, H5P_DEFAULT);
  REQUIRE(set >= 0, "writing %s", name);
  REQUIRE(H5Dwrite(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0, "writing %s", name);
  H5Dclose(set);
  H5Pclose(links);
  H5Pclose(list);
  H5Sclose(space);
}

static hid_t new_file(const char *path)
{
  shoal_h5_init();
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  REQUIRE(file >= 0, "making %s", path);
  return file;
}

/* The images of fill_image under other names; `last` puts the channels last. */
static void put_images(hid_t file, const char *name, uint64_t first, uint64_t n, bool last, layout how)
{
  uint8_t *x = malloc(n * IMAGE);
  REQUIRE(x, "memory");
  for (uint64_t i = 0; i < n; i++)
    for (int c = 0; c < C; c++)
      for (int p = 0; p < H * W; p++)
        x[i * IMAGE + (uint64_t)(last ? p * C + c : c * H * W + p)] = pixel(first + i, c * H * W + p);
  hsize_t nchw[4] = { n, C, H, W }, nhwc[4] = { n, H, W, C };
  put(file, name, H5T_STD_U8LE, H5T_NATIVE_UINT8, 4, last ? nhwc : nchw, how, x);
  free(x);
}

static void put_labels(hid_t file, const char *name, uint64_t first, uint64_t n, hid_t type)
{
  int64_t y[TRAIN + TEST];
  for (uint64_t i = 0; i < n; i++) y[i] = (int64_t)((first + i) % 7);
  put(file, name, type, H5T_NATIVE_INT64, 1, (hsize_t[]){ n }, PLAIN, y);
}

static void make_foreign(const char *path, const char *const names[4], bool last, layout how)
{
  hid_t file = new_file(path);
  put_images(file, names[0], 0, TRAIN, last, how);
  put_labels(file, names[1], 0, TRAIN, H5T_STD_I64LE);
  if (names[2]) put_images(file, names[2], TRAIN, TEST, last, how);
  if (names[3]) put_labels(file, names[3], TRAIN, TEST, H5T_STD_U8LE);
  H5Fclose(file);
}

static void check_images(const char *path, bool test, uint64_t hold)
{
  shoal_dataset *d = NULL;
  REQUIRE(shoal_dataset_open(path, &d) == SHOAL_OK, "%s", path);
  const shoal_data_info *info = shoal_dataset_info(d);
  shoal_shape want = SHOAL_SHAPE(C, H, W);
  CHECK_EQ(info->kind, SHOAL_DATA_IMAGES, "%s: the info", path);
  CHECK_EQ(info->n[0], TRAIN, "%s: the info", path);
  CHECK_EQ(info->n[1], test ? TEST : 0, "%s: the info", path);
  CHECK_EQ(info->classes, 7, "%s: the info", path);
  CHECK_EQ(info->x_bytes, 1, "%s: the info", path);
  CHECK_EQ(info->channels, C, "%s: the info", path);
  CHECK(shoal_shape_equal(&info->sample, &want), "%s: the info", path);
  shoal_dataset_hold(d, hold);
  for (uint64_t k = 0; k < info->n[0] + info->n[1]; k++) {
    uint64_t i = k * 37 % (info->n[0] + info->n[1]); /* out of order */
    uint8_t x[IMAGE];
    int32_t y;
    CHECK_OK(shoal_dataset_read(d, i < TRAIN ? SHOAL_TRAIN : SHOAL_TEST, i < TRAIN ? i : i - TRAIN, x, &y));
    CHECK_EQ(y, (int32_t)(i % 7), "%s: sample %d", path, (int)i);
    for (int p = 0; p < IMAGE; p++) CHECK_EQ(x[p], pixel(i, p), "%s: pixel %d of sample %d", path, p, (int)i);
  }
  shoal_dataset_close(d);
}

static void test_ours(void)
{
  const char *path = temp_path("ours.h5");
  write_set(path, SHOAL_DATA_IMAGES, SHOAL_SHAPE(C, H, W), 1, TRAIN, TEST, 7, fill_image);
  check_images(path, true, UINT64_MAX);
  check_images(path, true, 0);
  shoal_dataset *d = NULL;
  uint8_t x[IMAGE];
  int32_t y;
  CHECK_OK(shoal_dataset_open(path, &d));
  const shoal_data_info *i = shoal_dataset_info(d);
  for (int c = 0; c < C; c++) { /* two passes in double, over the training split */
    double mean = 0, var = 0, n = TRAIN * H * W;
    for (uint64_t s = 0; s < TRAIN; s++)
      for (int p = 0; p < H * W; p++) mean += pixel(s, c * H * W + p) / n;
    for (uint64_t s = 0; s < TRAIN; s++)
      for (int p = 0; p < H * W; p++) var += pow(pixel(s, c * H * W + p) - mean, 2) / n;
    CHECK_NEAR(i->mean[c], mean, 1e-9, "channel %d", c);
    CHECK_NEAR(i->std[c], sqrt(var), 1e-9, "channel %d", c);
  }
  CHECK_STR(i->source, "test");
  CHECK(d->has_checksum);
  CHECK_REFUSED(shoal_dataset_read(d, SHOAL_TEST, TEST, x, &y), SHOAL_ERR_ARG,
                "has 30 test samples, there is no number 30");
  shoal_dataset_close(d);
}

static void test_foreign_names(void)
{
  static const char *const names[][4] = {
    { "X_train", "y_train", "X_test", "y_test" },
    { "train/images", "train/labels", "test/images", "test/labels" },
    { "train_set_x", "train_set_y", "test_set_x", "test_set_y" },
    { "xTrain", "yTrain", "xVal", "yVal" },
    { "data/train_images", "data/train_labels", "data/valid_images", "data/valid_labels" },
    { "images", "labels", "test/data", "test/targets" },
    { "data", "label", NULL, NULL },
  };
  const char *path = temp_path("foreign.h5");
  for (size_t i = 0; i < SHOAL_COUNT(names); i++)
    for (int how = PLAIN; how <= PACKED; how++) {
      make_foreign(path, names[i], how == PACKED, (layout)how);
      check_images(path, names[i][2] != NULL, i % 2 ? UINT64_MAX : 0);
    }
}

static void test_repack(void)
{
  static const char *const names[4] = { "X_train", "y_train", "X_test", "y_test" };
  const char *path = temp_path("foreign.h5"), *out = temp_path("packed.h5"), *ours = temp_path("ours.h5");
  shoal_dataset *a = NULL, *b = NULL;
  make_foreign(path, names, true, PACKED);
  CHECK_OK(shoal_data_repack((const char *[]){ path }, 1, out));
  check_images(out, true, 0);
  CHECK_OK(shoal_dataset_open(out, &a));
  CHECK_OK(shoal_dataset_open(ours, &b));
  CHECK(!a->names.foreign);
  CHECK(a->has_scale);
  CHECK_EQ(a->checksum, b->checksum, "the same content");
  shoal_dataset_close(b);
  b = NULL;
  CHECK_OK(shoal_dataset_open(path, &b));
  CHECK_EQ(shoal_dataset_info(a)->checksum, shoal_dataset_info(b)->checksum, "known by the name of the original");
  CHECK_NE(shoal_dataset_info(a)->checksum, a->checksum);
  shoal_dataset_close(a);
  shoal_dataset_close(b);
  CHECK_OK(shoal_data_repack((const char *[]){ out }, 1, out)); /* onto itself */
  check_images(out, true, UINT64_MAX);
  FILE *sink = fopen("/dev/null", "w");
  CHECK_OK(shoal_data_inspect((const char *[]){ out }, 1, true, sink));
  fclose(sink);
  CHECK_EQ(temp_leftovers(), 0);
}

/* ---- unusable files ---- */

static void refuse(int line, const char *path, const char *words)
{
  shoal_dataset *d;
  shoal_status st = shoal_dataset_open(path, &d);
  check_refused(st, SHOAL_ERR_IO, words, path, line);
}
#define REFUSE(path, words) refuse(__LINE__, path, words)

static void test_unfit_arrays(void)
{
  const char *path = temp_path("unfit.h5");
  int64_t zeros[TRAIN * 7] = { 0 };
  hid_t f = new_file(path);
  put(f, "weights", H5T_STD_I64LE, H5T_NATIVE_INT64, 1, (hsize_t[]){ 4 }, PLAIN, zeros);
  H5Fclose(f);
  REFUSE(path, "unfit.h5 has no training samples: /train/x and /train/y");
  f = new_file(path);
  put_images(f, "images", 0, TRAIN, false, PLAIN);
  H5Fclose(f);
  REFUSE(path, "/images has samples but no array has their labels");
  f = new_file(path);
  put_images(f, "images", 0, TRAIN, false, PLAIN);
  put_images(f, "data", 0, TRAIN, false, PLAIN);
  put_labels(f, "labels", 0, TRAIN, H5T_STD_I32LE);
  H5Fclose(f);
  REFUSE(path, "both /data and /images could be the training samples");
  f = new_file(path);
  put_images(f, "train/x", 0, TRAIN, false, PLAIN);
  put_labels(f, "train/y", 0, TRAIN - 1, H5T_STD_I32LE);
  H5Fclose(f);
  REFUSE(path, "/train/x has 90 samples, /train/y has 89 labels");
  f = new_file(path);
  put_images(f, "train/x", 0, TRAIN, false, PLAIN);
  put(f, "train/y", H5T_STD_I64LE, H5T_NATIVE_INT64, 2, (hsize_t[]){ TRAIN, 7 }, PLAIN, zeros);
  H5Fclose(f);
  REFUSE(path, "row 0 of /train/y, i64, has no 1: the sample is in no class");
  f = new_file(path);
  put_images(f, "train/x", 0, TRAIN, false, PLAIN);
  put(f, "train/y", H5T_IEEE_F32LE, H5T_NATIVE_INT64, 1, (hsize_t[]){ TRAIN }, PLAIN, zeros);
  H5Fclose(f);
  REFUSE(path, "/train/y holds no integers but f32; labels are one class number from 0 per sample: ");
  f = new_file(path);
  put_images(f, "train/x", 0, TRAIN, false, PLAIN);
  put_labels(f, "train/y", 0, TRAIN, H5T_STD_I32LE);
  put_images(f, "test/x", 0, TEST, true, PLAIN);
  put_labels(f, "test/y", 0, TEST, H5T_STD_I32LE);
  H5Fclose(f);
  REFUSE(path, "/train/x and /test/x differ in type or shape");
}

/* Opens the file and hands back the warnings; `classes` and `mean` of channel 0 are what is used. */
static char *warnings(const char *path, int64_t classes, double mean)
{
  shoal_dataset *d = NULL;
  shoal_log_set_level(SHOAL_LOG_WARN);
  shoal_log_keep_warnings();
  CHECK_OK(shoal_dataset_open(path, &d));
  char *text = shoal_log_kept();
  shoal_log_set_level(SHOAL_LOG_ERROR);
  if (d) {
    CHECK_EQ(shoal_dataset_info(d)->classes, classes);
    CHECK_NEAR(shoal_dataset_info(d)->mean[0], mean, 1e-9);
  }
  shoal_dataset_close(d);
  return text;
}

static void check_ignored(int line, const char *path, double mean, const char *words)
{
  char *text = warnings(path, 7, mean);
  CHECK_HAS(text ? text : "", words, "line %d", line);
  free(text);
}
#define IGNORED(path, mean, words) check_ignored(__LINE__, path, mean, words)

static void set_attribute(const char *path, const char *name, int64_t value)
{
  hid_t f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  H5Adelete(f, name);
  CHECK_OK(shoal_h5_put_i64((shoal_h5){ f }, name, value));
  H5Fclose(f);
}

/* Attributes that have our names and another form or meaning: named, not used, no reason to refuse. */
static void test_attributes(void)
{
  const char *path = temp_path("attributes.h5");
  shoal_dataset *d = NULL;
  write_set(path, SHOAL_DATA_IMAGES, SHOAL_SHAPE(C, H, W), 1, TRAIN, 0, 7, fill_image);
  REQUIRE(shoal_dataset_open(path, &d) == SHOAL_OK, "%s", path);
  double mean = shoal_dataset_info(d)->mean[0];
  shoal_dataset_close(d);
  CHECK(!warnings(path, 7, mean), "nothing to say about a file of ours");
  set_attribute(path, "classes", 0);
  IGNORED(path, mean, "attribute classes is not used: 0 is not in 1 to 16777216");
  hid_t f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  H5Adelete(f, "classes");
  CHECK_OK(shoal_h5_put_string((shoal_h5){ f }, "classes", "cat,dog"));
  H5Adelete(f, "std");
  CHECK_OK(shoal_h5_put_f64s((shoal_h5){ f }, "std", 3, (double[]){ 1, 0, 1 }));
  H5Fclose(f);
  IGNORED(path, mean, "attribute classes is not used: it is not one integer");
  IGNORED(path, mean, "and 0 of channel 1 cannot normalise anything");
  f = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  H5Adelete(f, "std");
  CHECK_OK(shoal_h5_put_f64s((shoal_h5){ f }, "std", 2, (double[]){ 1, 1 }));
  H5Fclose(f);
  IGNORED(path, mean, "mean and std are not used: they have 3 and 2 values, samples are [3, 5, 4]");
}

/* The same file, made by another program. */
static void test_foreign_attributes(void)
{
  static const char *const names[4] = { "X_train", "y_train", NULL, NULL };
  static const double unit[3] = { 0.485, 0.456, 0.406 }, of_unit[3] = { 0.229, 0.224, 0.225 };
  const char *path = temp_path("other.h5");
  shoal_dataset *d = NULL;
  make_foreign(path, names, false, PLAIN);
  REQUIRE(shoal_dataset_open(path, &d) == SHOAL_OK, "%s", path);
  double mean = shoal_dataset_info(d)->mean[0];
  uint32_t identity = shoal_dataset_info(d)->checksum;
  shoal_dataset_close(d);
  shoal_h5 f = { H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT) };
  CHECK_OK(shoal_h5_put_f64s(f, "mean", 3, unit));
  CHECK_OK(shoal_h5_put_f64s(f, "std", 3, of_unit));
  CHECK_OK(shoal_h5_put_string(f, "kind", "photographs"));
  CHECK_OK(shoal_h5_put_i64(f, "source", 4));
  CHECK_OK(shoal_h5_put_i64(f, "checksum", 12345));
  CHECK_OK(shoal_h5_put_string(f, "class_names", "cat\ndog"));
  H5Fclose(f.id);
  IGNORED(path, mean, "attributes mean and std are not used: 0.449 and ");
  IGNORED(path, mean, "of values scaled to 0..1?");
  IGNORED(path, mean, "attribute kind is not used: \"photographs\" does not describe the arrays, which are images");
  IGNORED(path, mean, "attribute source is not used: it is not one text");
  REQUIRE(shoal_dataset_open(path, &d) == SHOAL_OK, "%s", path);
  CHECK_EQ(shoal_dataset_info(d)->checksum, identity, "their check sum is not ours");
  shoal_dataset_close(d);
  double near[3] = { mean, mean, mean };
  f = (shoal_h5){ H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT) };
  near[0] += 1;
  CHECK_OK(shoal_h5_put_f64s(f, "mean", 3, near));
  CHECK_OK(shoal_h5_put_f64s(f, "std", 3, (double[]){ 70, 70, 70 }));
  H5Fclose(f.id);
  IGNORED(path, mean + 1, "photographs");
}

static void test_foreign_parts(void)
{
  const char *path = temp_path("parts.h5"), *raw = temp_path("raw.bin");
  uint8_t zeros[TRAIN * IMAGE] = { 0 };
  hid_t f = new_file(path);
  put_labels(f, "train/y", 0, TRAIN, H5T_STD_I32LE);
  H5Lcreate_external(temp_path("ours.h5"), "/train/x", f, "train/x", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(f);
  REFUSE(path, "train/x");
  f = new_file(path);
  put_labels(f, "train/y", 0, TRAIN, H5T_STD_I32LE);
  hsize_t dims[4] = { TRAIN, C, H, W };
  hid_t space = H5Screate_simple(4, dims, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_virtual(list, space, temp_path("ours.h5"), "/train/x", space);
  H5Dclose(H5Dcreate2(f, "train/x", H5T_STD_U8LE, space, H5P_DEFAULT, list, H5P_DEFAULT));
  H5Pclose(list);
  H5Fclose(f);
  REFUSE(path, "train/x");
  temp_write(raw, zeros, sizeof zeros);
  f = new_file(path);
  put_labels(f, "train/y", 0, TRAIN, H5T_STD_I32LE);
  list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(list, raw, 0, sizeof zeros);
  H5Dclose(H5Dcreate2(f, "train/x", H5T_STD_U8LE, space, H5P_DEFAULT, list, H5P_DEFAULT));
  H5Pclose(list);
  H5Fclose(f);
  REFUSE(path, "train/x");
  /* A name that leads elsewhere is a candidate, and refused when it is chosen; the rest of the file does not matter. */
  f = new_file(path);
  put_labels(f, "y", 0, TRAIN, H5T_STD_I32LE);
  H5Lcreate_external(temp_path("ours.h5"), "/train/x", f, "x", H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(f);
  REFUSE(path, "/x in ");
  REFUSE(path, "is a link to another file");
  REFUSE(path, "ask its maker for a file that holds its data itself");
  f = new_file(path);
  put_images(f, "x", 0, TRAIN, false, PLAIN);
  put_labels(f, "y", 0, TRAIN, H5T_STD_I32LE);
  H5Lcreate_external(temp_path("ours.h5"), "/train/x", f, "thumbnails", H5P_DEFAULT, H5P_DEFAULT);
  list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_virtual(list, space, temp_path("ours.h5"), "/train/x", space);
  H5Dclose(H5Dcreate2(f, "overview", H5T_STD_U8LE, space, H5P_DEFAULT, list, H5P_DEFAULT));
  H5Pclose(list);
  H5Sclose(space);
  H5Fclose(f);
  check_images(path, false, 0);
}

static void test_damage(void)
{
  const char *path = temp_path("damage.h5");
  char *text = NULL;
  size_t n = 0;
  CHECK_OK(shoal_read_file(temp_path("ours.h5"), &text, &n));
  temp_write(path, text, n - 1000);
  REFUSE(path, "damage.h5");
  temp_write(path, text, 0);
  REFUSE(path, "empty");
  temp_write(path, "no HDF5 here, only words", 24);
  REFUSE(path, "damage.h5");
  REFUSE(temp_path("missing.h5"), "missing.h5: there is no such file (host ");
  uint8_t first[16]; /* flip a bit in the middle of the samples: only reading everything finds it */
  for (int k = 0; k < 16; k++) first[k] = pixel(40, k);
  char *at = memmem(text, n, first, sizeof first);
  REQUIRE(at, "sample 40 in the file");
  at[3] ^= 4;
  temp_write(path, text, n);
  FILE *sink = fopen("/dev/null", "w");
  CHECK_REFUSED(shoal_data_inspect((const char *[]){ path }, 1, false, sink), SHOAL_ERR_IO,
                "sample 2 of /train/x is damaged");
  CHECK_OK(shoal_data_inspect((const char *[]){ temp_path("ours.h5") }, 1, false, sink));
  fclose(sink);
  free(text);
}

static void fill_wrong(uint64_t i, void *x, int32_t *y)
{
  ((float *)x)[0] = (float)i;
  ((float *)x)[1] = i == 17 ? NAN : 1;
  *y = i == 8 ? -3 : i >= 50 ? 5 : 0;
}

static void test_inspect(void)
{
  const char *path = temp_path("wrong.h5");
  char *text = NULL;
  size_t n = 0;
  write_set(path, SHOAL_DATA_FEATURES, SHOAL_SHAPE(2), 4, 40, 20, 5, fill_wrong);
  FILE *out = open_memstream(&text, &n);
  CHECK_REFUSED(shoal_data_inspect((const char *[]){ path }, 1, true, out), SHOAL_ERR_IO,
                "wrong.h5: 1 labels of /train/y are not in 0 to 4, the first is -3 of sample 8");
  fclose(out);
  CHECK_HAS(text, "\"wrong_labels\": 10");
  CHECK_HAS(text, "\"histogram\": [39, 0, 0, 0, 0]");
  CHECK_HAS(text, "\"not_finite\": 1");
  CHECK(strstr(text, "\"amplification\": 40,") || strstr(text, "\"amplification\": 64,"), "%s", text);
  free(text);
  shoal_dataset *d = NULL;
  float x[2];
  int32_t y;
  CHECK_OK(shoal_dataset_open(path, &d));
  CHECK_REFUSED(shoal_dataset_read(d, SHOAL_TRAIN, 8, x, &y), SHOAL_ERR_IO, "sample 8 of /train/y has label -3");
  CHECK_REFUSED(shoal_dataset_read(d, SHOAL_TEST, 19, x, &y), SHOAL_ERR_IO, "sample 19 of /test/y has label 5");
  shoal_dataset_close(d);
  CHECK_REFUSED(shoal_data_repack((const char *[]){ path }, 1, temp_path("never.h5")), SHOAL_ERR_IO,
                "the first is -3 of sample 8");
  CHECK(!shoal_path_exists(temp_path("never.h5")), "nothing is left");
  CHECK_EQ(temp_leftovers(), 0);
  static const char *const names[4] = { "images", "labels", NULL, NULL };
  path = temp_path("foreign.h5"); /* chunks of 50 samples */
  make_foreign(path, names, false, CHUNKED);
  out = open_memstream(&text, &n);
  CHECK_OK(shoal_data_inspect((const char *[]){ path }, 1, false, out));
  fclose(out);
  CHECK_HAS(text, "50.0  chunks [50, 3, 5, 4] of /images");
  CHECK_HAS(text, "none stored");
  free(text);
}

/* Another process holds an exclusive lock on the file. */
static void test_locked(void)
{
  int fd = open(temp_path("ours.h5"), O_RDWR);
  REQUIRE(fd >= 0, "lock");
  REQUIRE(flock(fd, LOCK_EX) == 0, "lock");
  pid_t child = fork();
  if (child == 0) {
    shoal_dataset *d = NULL;
    shoal_status st = shoal_dataset_open(temp_path("ours.h5"), &d);
    shoal_dataset_close(d);
    _exit(st != SHOAL_OK);
  }
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child, "child");
  CHECK_EQ(status, 0, "a lock on read-only data is no reason to fail");
  close(fd);
}

int main(void)
{
  temp_make();
  shoal_log_set_level(SHOAL_LOG_ERROR);
  test_ours();
  test_features();
  test_foreign_names();
  test_repack();
  test_unfit_arrays();
  test_attributes();
  test_foreign_attributes();
  test_foreign_parts();
  test_damage();
  test_inspect();
  test_locked();
  return check_done();
}
