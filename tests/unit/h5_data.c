/* Data sets and attributes: what goes in comes out, converted where types differ, and misuse is told in one line. */
#include "h5/h5.h"
#include "unit/h5_temp.h"
#include <hdf5.h>
#include <pthread.h>
#include <stdint.h>

static void round_trip(shoal_h5 file)
{
  float w[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
  double back[6] = { 0 };
  uint64_t dims[2] = { 2, 3 };
  shoal_h5_facts f;
  CHECK_OK(shoal_h5_write(file, "/model/layer0/w", SHOAL_F32, 2, dims, w));
  CHECK_OK(shoal_h5_look(file, "model/layer0/w", &f));
  CHECK_EQ(f.ndim, 2);
  CHECK_EQ(f.dims[0], 2);
  CHECK_EQ(f.dims[1], 3);
  CHECK_EQ(f.class, SHOAL_H5_FLOAT);
  CHECK_EQ(f.size, 4);
  CHECK(f.exact);
  CHECK_EQ(f.type, SHOAL_F32);
  CHECK_NE(f.offset, SHOAL_H5_NO_OFFSET);
  CHECK(!f.chunk[0]);
  CHECK(!f.filters[0]);
  CHECK_OK(shoal_h5_read(file, "/model/layer0/w", SHOAL_F64, 6, back));
  for (int i = 0; i < 6; i++) CHECK_EQ(back[i], i + 1, "element %d", i);

  int64_t step = INT64_MAX, got = 0;
  CHECK_OK(shoal_h5_write(file, "step", SHOAL_I64, 0, NULL, &step));
  CHECK_OK(shoal_h5_read(file, "step", SHOAL_I64, 1, &got));
  CHECK_EQ(got, step);
  CHECK_OK(shoal_h5_look(file, "step", &f));
  CHECK_EQ(f.ndim, 0, "scalar shape");
  CHECK_EQ(f.class, SHOAL_H5_INTEGER);
  CHECK(f.has_sign);
  CHECK_EQ(f.size, 8);

  uint64_t none = 0;
  CHECK_OK(shoal_h5_write(file, "empty", SHOAL_U8, 1, &none, NULL));
  CHECK_OK(shoal_h5_read(file, "empty", SHOAL_U8, 0, NULL));
}

static void existence(shoal_h5 file)
{
  CHECK(shoal_h5_exists(file, "/"), "root");
  CHECK(shoal_h5_exists(file, "/model/layer0/w"), "full path");
  CHECK(shoal_h5_exists(file, "model/layer0"), "relative group");
  CHECK(!shoal_h5_exists(file, "/model/layer1/w"), "missing middle part");
  CHECK(!shoal_h5_exists(file, "/step/x"), "a data set is no folder");
  CHECK(!shoal_h5_exists(file, ""), "empty name");
}

static void refusals(shoal_h5 file)
{
  float x[4];
  uint64_t dims[9] = { 1 }, one = 1;
  shoal_h5_facts f;
  CHECK_REFUSED(shoal_h5_read(file, "/model/v", SHOAL_F32, 6, x), SHOAL_ERR_IO, "there is no data set /model/v in");
  CHECK_REFUSED(shoal_h5_read(file, "/model/layer0/w", SHOAL_F32, 4, x), SHOAL_ERR_IO,
                "has 6 elements, 4 are expected");
  CHECK_REFUSED(shoal_h5_look(file, "/model", &f), SHOAL_ERR_IO, "/model");
  CHECK_REFUSED(shoal_h5_write(file, "step", SHOAL_F32, 1, &one, x), SHOAL_ERR_IO, "cannot create /step in");
  CHECK_REFUSED(shoal_h5_write(file, "deep", SHOAL_F32, 9, dims, x), SHOAL_ERR_ARG, "9 dimensions");
}

static void attributes(shoal_h5 file)
{
  static char longest[100000];
  double three[3] = { 0.5, -1, 1e300 }, back[3];
  int64_t i = 0;
  char *text = NULL;
  memset(longest, 'a', sizeof longest - 1);
  CHECK_OK(shoal_h5_put_string(file, "config", "first"));
  CHECK_OK(shoal_h5_put_string(file, "config", longest)); /* replaces; longer than an attribute of the old format */
  CHECK_OK(shoal_h5_get_string(file, "config", &text));
  CHECK_STR(text, longest, "long text");
  free(text);
  CHECK_OK(shoal_h5_put_string(file, "none", ""));
  CHECK_OK(shoal_h5_get_string(file, "none", &text));
  CHECK_STR(text, "", "empty text");
  free(text);
  CHECK_OK(shoal_h5_put_i64(file, "step", INT64_MIN));
  CHECK_OK(shoal_h5_get_i64(file, "step", &i));
  CHECK_EQ(i, INT64_MIN);
  CHECK_OK(shoal_h5_put_f64s(file, "mean", 3, three));
  CHECK_OK(shoal_h5_get_f64s(file, "mean", 3, back));
  CHECK_BYTES(three, back, sizeof back);
  CHECK(shoal_h5_has_attribute(file, "mean"));
  CHECK(!shoal_h5_has_attribute(file, "std"));
  CHECK_REFUSED(shoal_h5_get_i64(file, "mean", &i), SHOAL_ERR_IO, "@mean");
  CHECK_REFUSED(shoal_h5_get_i64(file, "config", &i), SHOAL_ERR_IO, "is not an integer");
  CHECK_REFUSED(shoal_h5_get_f64s(file, "mean", 2, back), SHOAL_ERR_IO, "has 3 values, 2 are expected");
  CHECK_REFUSED(shoal_h5_get_string(file, "step", &text), SHOAL_ERR_IO, "is not one text");
  CHECK_REFUSED(shoal_h5_get_i64(file, "epoch", &i), SHOAL_ERR_IO, "there is no attribute /@epoch in");
}

/* What other writers leave: text of fixed length, padded with blanks; a small integer in an array of one. */
static void foreign_attributes(shoal_h5 file)
{
  int64_t i = 0;
  char *text = NULL;
  hsize_t one = 1;
  uint8_t small = 7;
  hid_t type = H5Tcopy(H5T_C_S1), scalar = H5Screate(H5S_SCALAR), row = H5Screate_simple(1, &one, NULL);
  H5Tset_size(type, 8);
  H5Tset_strpad(type, H5T_STR_SPACEPAD);
  hid_t a = H5Acreate2(file.id, "padded", type, scalar, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(a, type, "cifar   ");
  hid_t b = H5Acreate2(file.id, "small", H5T_STD_U8BE, row, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(b, H5T_NATIVE_UINT8, &small);
  CHECK_OK(shoal_h5_get_string(file, "padded", &text));
  CHECK_STR(text, "cifar");
  CHECK_OK(shoal_h5_get_i64(file, "small", &i));
  CHECK_EQ(i, 7, "small integer");
  free(text);
  H5Aclose(a);
  H5Aclose(b);
  H5Tclose(type);
  H5Sclose(scalar);
  H5Sclose(row);
}

/* HDF5 prints a page per error and per thread unless told otherwise; nothing may reach stderr from a new thread. */
static void *fail_in_thread(void *arg)
{
  shoal_h5 file = *(shoal_h5 *)arg;
  float x[1];
  shoal_h5_read(file, "/nowhere", SHOAL_F32, 1, x);
  shoal_h5_read(file, "/model", SHOAL_F32, 1, x);
  return NULL;
}

static void silence(shoal_h5 file)
{
  const char *path = temp_path("stderr");
  pthread_t thread;
  fflush(stderr);
  int kept = dup(2);
  REQUIRE(freopen(path, "w", stderr), "catch stderr");
  pthread_create(&thread, NULL, fail_in_thread, &file);
  pthread_join(thread, NULL);
  fflush(stderr);
  long n = ftell(stderr);
  dup2(kept, 2);
  close(kept);
  CHECK_EQ(n, 0);
}

/* Equal contents give equal bytes: no time stamps. */
static void same_bytes(void)
{
  char text[2][8192] = { { 0 } };
  size_t n[2];
  float x[3] = { 1, 2, 3 };
  uint64_t dim = 3;
  for (int i = 0; i < 2; i++) {
    const char *path = temp_path("same.h5");
    shoal_h5 file;
    CHECK_OK(shoal_h5_create(temp_fresh(path), &file));
    CHECK_OK(shoal_h5_write(file, "/a/x", SHOAL_F32, 1, &dim, x));
    shoal_h5_close(file);
    FILE *f = fopen(path, "rb");
    n[i] = fread(text[i], 1, sizeof text[i], f);
    fclose(f);
    if (i == 0) sleep(1); /* time stamps count in seconds */
  }
  if (CHECK_EQ(n[0], n[1], "two files of the same contents differ")) CHECK_BYTES(text[0], text[1], n[0]);
  CHECK_EQ(text[0][8], 0);
}

int main(void)
{
  shoal_h5 file;
  temp_make();
  const char *path = temp_path("data.h5");
  REQUIRE(shoal_h5_create(temp_fresh(path), &file) == SHOAL_OK, "create");
  round_trip(file);
  existence(file);
  refusals(file);
  attributes(file);
  foreign_attributes(file);
  silence(file);
  shoal_h5_close(file);
  same_bytes();
  return check_done();
}
