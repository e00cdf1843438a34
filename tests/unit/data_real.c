/* The real sets: CIFAR-10, MNIST and Shakespeare as people download them, with facts that were counted by other means.
 * Also how fast one thread makes augmented batches of CIFAR images. */
#include "base/clock.h"
#include "base/mem.h"
#include "data/loader.h"
#include "data_temp.h"
#include <limits.h>

static char folder[PATH_MAX - 200];

/* SHOAL_TEST_DATA, or what the build names: ../shared/data beside the repository. */
static void find_folder(const char *usual)
{
  const char *given = getenv("SHOAL_TEST_DATA");
  snprintf(folder, sizeof folder, "%s", given && given[0] ? given : usual ? usual : "");
  if (!folder[0] || !shoal_path_exists(folder))
    CHECK_SKIP("no real data in \"%s\": set SHOAL_TEST_DATA to a folder with cifar10/, mnist/ and text/", folder);
}

static const char *in_folder(const char *name)
{
  static char paths[4][PATH_MAX];
  static int at;
  at = (at + 1) % 4;
  snprintf(paths[at], PATH_MAX, "%s/%s", folder, name);
  return paths[at];
}

static shoal_dataset *import(const char *kind, const char *const *sources, size_t n, uint64_t train_count)
{
  shoal_import_args a = { .kind = kind, .sources = sources, .n_sources = n, .train_count = train_count };
  shoal_dataset *d = NULL;
  REQUIRE(shoal_data_import(&a, temp_path("out.h5")) == SHOAL_OK, "import of %s", kind);
  REQUIRE(shoal_dataset_open(temp_path("out.h5"), &d) == SHOAL_OK, "%s", kind);
  return d;
}

static void check_labels(shoal_dataset *d, shoal_split split, const uint64_t counts[10], const char *first)
{
  uint64_t seen[10] = { 0 }, n = shoal_dataset_info(d)->n[split];
  uint8_t x[3072];
  int32_t y = -1;
  for (uint64_t i = 0; i < n; i++) {
    REQUIRE(shoal_dataset_read(d, split, i, x, &y) == SHOAL_OK, "sample %d", (int)i);
    REQUIRE(y >= 0, "sample %d", (int)i);
    REQUIRE(y < 10, "sample %d", (int)i);
    CHECK(i >= strlen(first) || y == first[i] - '0', "label %d of sample %d", y, (int)i);
    seen[y]++;
  }
  for (int c = 0; c < 10; c++) CHECK_EQ(seen[c], counts[c], "class %d", c);
}

/* Samples per second of one thread, crop and mirror on, over two epochs, in order of training. */
static void measure(shoal_dataset *d, const char *what, uint64_t hold)
{
  shoal_loader_config c = {
    .split = SHOAL_TRAIN, .seed = 1, .size = 1, .batch = 128, .shuffle = true, .crop4 = true, .hflip = true
  };
  shoal_loader *l = NULL;
  const shoal_batch *b;
  uint64_t n = 0;
  shoal_dataset_hold(d, hold);
  REQUIRE(shoal_loader_create(d, &c, &l) == SHOAL_OK, "loader");
  CHECK_OK(shoal_loader_next(l, &b)); /* reads the file */
  uint64_t start = shoal_now_ns();
  for (uint64_t epoch = 1; epoch < 3; epoch++) {
    CHECK_OK(shoal_loader_seek(l, epoch, 0));
    while (shoal_loader_next(l, &b) == SHOAL_OK && b) n += (uint64_t)b->n;
  }
  double rate = (double)n / shoal_seconds_since(start);
  fprintf(stderr, "loader, CIFAR-10, crop and mirror, %s: %.0f samples/s on one thread\n", what, rate);
  CHECK_GT(rate, 5000, "%s: too slow for training", what);
  shoal_loader_destroy(l);
}

static void test_cifar(void)
{
  const char *s[] = { in_folder("cifar10/data_batch_1.bin.gz"), in_folder("cifar10/data_batch_2.bin.gz"),
                      in_folder("cifar10/test_batch.bin.gz") };
  static const uint64_t train[] = { 2030, 1983, 1963, 1984, 1986, 2007, 1977, 2017, 2040, 2013 };
  static const uint64_t test[] = { 492, 501, 486, 503, 475, 513, 513, 503, 500, 514 };
  shoal_dataset *d = import("cifar10", s, 3, 0);
  check_labels(d, SHOAL_TRAIN, train, "33321039756932705031");
  check_labels(d, SHOAL_TEST, test, "97284406097472507340");
  const shoal_data_info *i = shoal_dataset_info(d);
  static const double mean[] = { 125.21503936, 122.96296763, 113.94649307 };
  for (int k = 0; k < 3; k++) CHECK_NEAR(i->mean[k], mean[k], 1e-8);
  measure(d, "in memory", UINT64_MAX);
  shoal_dataset_close(d);
  REQUIRE(shoal_dataset_open(temp_path("out.h5"), &d) == SHOAL_OK, "again");
  measure(d, "sample by sample", 0);
  shoal_dataset_close(d);
}

static void test_mnist(void)
{
  const char *s[] = { in_folder("mnist/t10k-labels-idx1-ubyte.gz"), in_folder("mnist/t10k-images-idx3-ubyte.gz") };
  static const uint64_t train[] = { 878, 1016, 933, 908, 890, 807, 856, 913, 880, 919 };
  static const uint64_t test[] = { 102, 119, 99, 102, 92, 85, 102, 115, 94, 90 };
  shoal_dataset *d = import("idx", s, 2, 9000);
  check_labels(d, SHOAL_TRAIN, train, "7210414959069015973496654074013134727121"); /* the digits everybody has seen */
  check_labels(d, SHOAL_TEST, test, "");
  shoal_dataset_close(d);
}

static void test_text(void)
{
  const char *s[] = { in_folder("text/tinyshakespeare.txt") };
  shoal_dataset *d = import("text", s, 1, 0);
  const shoal_data_info *i = shoal_dataset_info(d);
  char first[15] = "";
  int32_t next;
  CHECK_EQ(i->n[0] + i->n[1], 1115394);
  CHECK_EQ(i->n[1], 111539);
  for (uint64_t k = 0; k < 14; k++) CHECK_OK(shoal_dataset_read(d, SHOAL_TRAIN, k, &first[k], &next));
  CHECK_STR(first, "First Citizen:");
  shoal_dataset_close(d);
}

int main(int argc, char **argv)
{
  find_folder(argc > 1 ? argv[1] : NULL);
  temp_make();
  test_cifar();
  test_mnist();
  test_text();
  return check_done();
}
