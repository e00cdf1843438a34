/* Files that reach outside themselves are refused before anything is read, each with the object's name. */
#include "h5/h5.h"
#include "unit/h5_temp.h"
#include <hdf5.h>

static const uint64_t dim = 16;
static const float zeros[16];

static hid_t fresh(const char *path)
{
  shoal_h5 file;
  REQUIRE(shoal_h5_create(temp_fresh(path), &file) == SHOAL_OK, "create %s", path);
  CHECK_OK(shoal_h5_write(file, "/a/plain", SHOAL_F32, 1, &dim, zeros));
  return file.id;
}

/* Both the walk over the file and each read must refuse; `name` is the object. */
static void expect_refusal(const char *path, const char *name, const char *words, bool packed)
{
  bool only_packed;
  shoal_h5 file;
  float x[16];
  shoal_h5_facts f;
  REQUIRE(shoal_h5_open(path, &file) == SHOAL_OK, "open %s", path);
  CHECK_REFUSED(shoal_h5_refuse_foreign(file, path), SHOAL_ERR_IO, words);
  CHECK_REFUSED(shoal_h5_refuse_foreign(file, path), SHOAL_ERR_IO, name);
  CHECK_REFUSED(shoal_h5_refuse_foreign_at(file, path, name, &only_packed), SHOAL_ERR_IO, words);
  CHECK_EQ(only_packed, packed, "%s", name);
  CHECK_OK(shoal_h5_refuse_foreign_at(file, path, "/a/plain", &only_packed));
  CHECK(!only_packed, "/a/plain");
  CHECK_OK(shoal_h5_refuse_foreign_at(file, path, "a/missing", &only_packed));
  CHECK_REFUSED(shoal_h5_look(file, name, &f), SHOAL_ERR_IO, name);
  CHECK_REFUSED(shoal_h5_read(file, name, SHOAL_F32, 16, x), SHOAL_ERR_IO, name);
  CHECK_OK(shoal_h5_read(file, "/a/plain", SHOAL_F32, 16, x));
  shoal_h5_close(file);
}

static void external_link(const char *other)
{
  const char *path = temp_path("link.h5");
  hid_t file = fresh(path);
  H5Lcreate_external(other, "/a/plain", file, "/a/away", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/a/away", file, "/a/detour", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("a", file, "/shortcut", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("detour", file, "/a/near", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/a/round", file, "/a/round", H5P_DEFAULT, H5P_DEFAULT);
  CHECK(!shoal_h5_exists((shoal_h5){ file }, "/a/away"), "what lies elsewhere is not here");
  CHECK(!shoal_h5_exists((shoal_h5){ file }, "/a/detour"));
  H5Fclose(file);
  char words[512];
  snprintf(words, sizeof words, "is a link to another file, \"%s\", which is not followed", other);
  expect_refusal(path, "/a/away", words, false);
  shoal_h5 again;
  bool only_packed;
  REQUIRE(shoal_h5_open(path, &again) == SHOAL_OK, "open %s", path);
  CHECK_REFUSED(shoal_h5_refuse_foreign_at(again, path, "a/detour", &only_packed), SHOAL_ERR_IO, words);
  CHECK(!only_packed, "where a soft link leads");
  CHECK_REFUSED(shoal_h5_refuse_foreign_at(again, path, "shortcut/away", &only_packed), SHOAL_ERR_IO, words);
  CHECK_REFUSED(shoal_h5_refuse_foreign_at(again, path, "a/near", &only_packed), SHOAL_ERR_IO, words);
  CHECK_OK(shoal_h5_refuse_foreign_at(again, path, "a/round", &only_packed));
  shoal_h5_close(again);
}

static hid_t make(hid_t file, const char *name, hid_t dcpl)
{
  hsize_t n = dim;
  hid_t space = H5Screate_simple(1, &n, NULL);
  hid_t set = H5Dcreate2(file, name, H5T_NATIVE_FLOAT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
  H5Sclose(space);
  return set;
}

static void external_storage(void)
{
  const char *path = temp_path("storage.h5");
  hid_t file = fresh(path), dcpl = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(dcpl, "/etc/host\x1bname", 0, sizeof zeros);
  H5Dclose(make(file, "/a/raw", dcpl));
  H5Pclose(dcpl);
  H5Fclose(file);
  expect_refusal(path, "/a/raw", "keeps its data in another file, \"/etc/host\\x1bname\", which is not read", false);
}

static void virtual_set(const char *other)
{
  const char *path = temp_path("virtual.h5");
  hsize_t n = dim;
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT); /* virtual sets need the newer format */
  hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, &n, NULL);
  CHECK_OK(shoal_h5_write((shoal_h5){ file }, "/a/plain", SHOAL_F32, 1, &dim, zeros));
  H5Pset_virtual(dcpl, space, other, "/a/plain", space);
  H5Dclose(make(file, "/a/view", dcpl));
  H5Sclose(space);
  H5Pclose(dcpl);
  H5Fclose(file);
  expect_refusal(path, "/a/view", "is a virtual data set of another file, \"", false);
}

/* A filter this process knows only while writing: register, write, unregister. */
static size_t copy_filter(unsigned flags, size_t n_values, const unsigned values[], size_t bytes, size_t *size,
                          void **buf)
{
  return bytes;
}

static void unknown_filter(void)
{
  const H5Z_class2_t strange = { H5Z_CLASS_T_VERS, 32769, 1, 1, "strange", NULL, NULL, copy_filter };
  const char *path = temp_path("filter.h5");
  hsize_t chunk = 4;
  hid_t file = fresh(path), dcpl = H5Pcreate(H5P_DATASET_CREATE);
  H5Zregister(&strange);
  H5Pset_chunk(dcpl, 1, &chunk);
  H5Pset_filter(dcpl, 32769, H5Z_FLAG_MANDATORY, 0, NULL);
  hid_t set = make(file, "/a/packed", dcpl);
  H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros);
  H5Dclose(set);
  H5Pclose(dcpl);
  H5Fclose(file);
  H5Zunregister(32769);
  expect_refusal(path, "/a/packed", "uses filter 32769 (strange)", true);
}

static void known_filters(void)
{
  const char *path = temp_path("deflate.h5");
  hsize_t chunk = 4;
  float x[16];
  hid_t file = fresh(path), dcpl = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(dcpl, 1, &chunk);
  H5Pset_shuffle(dcpl);
  H5Pset_deflate(dcpl, 1);
  H5Pset_fletcher32(dcpl);
  H5Dclose(make(file, "/a/z", dcpl));
  H5Lcreate_soft("/a/z", file, "/soft", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/nowhere", file, "/dangling", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "/", file, "/a/loop", H5P_DEFAULT, H5P_DEFAULT);
  H5Pclose(dcpl);
  H5Fclose(file);
  shoal_h5 again;
  CHECK_OK(shoal_h5_open(path, &again));
  CHECK_OK(shoal_h5_refuse_foreign(again, path));
  CHECK_OK(shoal_h5_read(again, "/soft", SHOAL_F32, 16, x));
  CHECK(!shoal_h5_exists(again, "/dangling"), "a dangling link leads nowhere");
  shoal_h5_close(again);
}

int main(void)
{
  temp_make();
  shoal_h5_init();
  const char *other = temp_path("other.h5");
  H5Fclose(fresh(other));
  external_link(other);
  external_storage();
  virtual_set(other);
  unknown_filter();
  known_filters();
  return check_done();
}
