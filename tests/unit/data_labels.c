/* The summary of labels: counts of any value, what is refused with which words, and what is odd. */
#include "data/labels.h"
#include "h5_temp.h"

enum { MOST = 40 };

static shoal_labels summary(int64_t stated, size_t n_train, const int64_t *train, size_t n_test, const int64_t *test)
{
  shoal_labels l;
  shoal_labels_init(&l, stated);
  for (size_t i = 0; i < n_train; i++) CHECK_OK(shoal_labels_add(&l, SHOAL_TRAIN, train[i]));
  for (size_t i = 0; i < n_test; i++) CHECK_OK(shoal_labels_add(&l, SHOAL_TEST, test[i]));
  shoal_labels_finish(&l);
  return l;
}

/* 0, 1, ..., 9 several times, with one label replaced. */
static shoal_labels digits(int64_t stated, int64_t odd)
{
  int64_t y[MOST];
  for (int i = 0; i < MOST; i++) y[i] = i == 7 ? odd : i % 10;
  return summary(stated, MOST, y, 0, NULL);
}

static void refused(int line, shoal_labels l, const char *words)
{
  static const char *const names[2] = { "train/y", "test/y" };
  check_refused(shoal_labels_check(&l, "set.h5", names), SHOAL_ERR_IO, words, "", line);
  shoal_labels_fini(&l);
}
#define REFUSED(summary, words) refused(__LINE__, summary, words)

static void odd(int line, shoal_labels l, const char *words)
{
  static const char *const names[2] = { "train/y", "test/y" };
  shoal_str text = { 0 };
  CHECK_STATUS(shoal_labels_check(&l, "set.h5", names), SHOAL_OK, "line %d", line);
  shoal_labels_odd(&l, &text);
  CHECK_STR(text.text ? text.text : "", words, "line %d", line);
  shoal_str_free(&text);
  shoal_labels_fini(&l);
}
#define ODD(summary, words) odd(__LINE__, summary, words)

static void test_counts(void)
{
  shoal_labels l;
  shoal_labels_init(&l, 0);
  for (int64_t i = 0; i < 300000; i++)
    CHECK_OK(shoal_labels_add(&l, i % 3 ? SHOAL_TRAIN : SHOAL_TEST, i * 7919 % 1000 * (INT64_C(1) << 40)));
  shoal_labels_finish(&l);
  CHECK_EQ(l.distinct, 1000);
  CHECK_EQ(l.n[0], 200000);
  CHECK_EQ(l.n[1], 100000);
  for (int64_t k = 0; k < 1000; k++) {
    CHECK_EQ(l.all[k].value, k << 40);
    CHECK_EQ(l.all[k].count[0] + l.all[k].count[1], 300);
  }
  CHECK_EQ(l.all[919].first[0], 0, "sample 1 of the order is sample 0 of training");
  shoal_labels_fini(&l);
}

static void test_refused(void)
{
  REFUSED(digits(0, -1),
          "set.h5: 1 labels of /train/y are not in 0 to 9, the first is -1 of sample 7; such values often "
          "mark samples without a label");
  REFUSED(digits(0, UINT32_MAX), "the first is 4294967295 of sample 7; such values often mark");
  REFUSED(digits(0, INT64_C(1) << 40), "the first is 1099511627776 of sample 7; classes are small numbers");
  REFUSED(digits(10, 12), "not in 0 to 9, the first is 12 of sample 7; correct the labels, or the attribute classes");
  REFUSED(summary(3, 4, (int64_t[]){ 1, 2, 3, 3 }, 0, NULL),
          "2 labels of /train/y are not in 0 to 2, the first is 3 of "
          "sample 2; classes count from 0: subtract 1");
  REFUSED(summary(0, 4, (int64_t[]){ 1, -1, 1, -1 }, 0, NULL),
          "the first is -1 of sample 1; if -1 and 1 are the two classes, renumber them from 0");
  REFUSED(
      summary(0, 4, (int64_t[]){ 2, -1, 1, -1 }, 0, NULL),
      "the first is -1 of sample 1; if they mark samples without a label, remove these; if they are a class, renumber");
  REFUSED(summary(0, 2, (int64_t[]){ 0, 1 }, 2, (int64_t[]){ 0, -5 }), "/test/y are not in 0 to 1, the first is -5 of "
                                                                       "sample 1");
}

static void test_odd(void)
{
  ODD(digits(0, 7), "");
  ODD(digits(0, 3), ""); /* class 7 has other samples */
  ODD(digits(0, 255),
      "245 of 256 classes have no training sample (10 to 254); is 255 (train sample 7, 1 in all) a mark for "
      "\"no label\"? Remove these\n");
  ODD(digits(0, 4000), "3990 of 4001 classes have no training sample (10 to 3999)\n");
  ODD(digits(2000001, 2000000), "1999990 of 2000001 classes have no training sample (10 to 1999999)\n");
  REFUSED(digits(0, 2000000), "sample 7 of /train/y has label 2000000, the largest of all others is 9: correct it");
  ODD(summary(0, 4, (int64_t[]){ 1, 2, 3, 4 }, 0, NULL),
      "1 of 5 classes have no training sample (0); if the labels count from 1, subtract 1\n");
  ODD(summary(0, 3, (int64_t[]){ 4, 4, 4 }, 1, (int64_t[]){ 4 }),
      "one class only: all 4 labels are 4; are these the labels?\n");
  ODD(summary(8, 4, (int64_t[]){ 0, 2, 5, 7 }, 0, NULL), "4 of 8 classes have no training sample (1, 3 to 4, 6)\n");
  ODD(summary(30, 2, (int64_t[]){ 0, 2 }, 0, NULL), "28 of 30 classes have no training sample (1, 3 to 29)\n");
  ODD(summary(3, 3, (int64_t[]){ 0, 1, 2 }, 2, (int64_t[]){ 1, 1 }), "2 classes have no test sample (0, 2)\n");
  ODD(summary(3, 3, (int64_t[]){ 0, 1, 1 }, 2, (int64_t[]){ 0, 2 }),
      "1 of 3 classes have no training sample (2)\n1 class is in the test split only (2): was the file sorted by "
      "label when it was cut? Shuffle the samples before the cut\n1 class has no test sample (1)\n");
  ODD(summary(16, 8, (int64_t[]){ 1, 3, 5, 7, 9, 11, 13, 15 }, 0, NULL),
      "8 of 16 classes have no training sample (0, 2, 4, 6, 8, 10, ...); if the labels count from 1, subtract 1\n");
}

static void test_mark(void)
{
  shoal_labels l = summary(0, 3, (int64_t[]){ -1, 0, 1 }, 0, NULL);
  CHECK(shoal_labels_mark(&l) == &l.all[0]);
  shoal_labels_fini(&l);
  l = summary(0, 2, (int64_t[]){ -1, 1 }, 0, NULL); /* two classes as statisticians write them */
  CHECK(!shoal_labels_mark(&l));
  shoal_labels_fini(&l);
  l = summary(0, 3, (int64_t[]){ 1, 2, 99 }, 0, NULL);
  CHECK(shoal_labels_mark(&l) == &l.all[2]);
  shoal_labels_fini(&l);
  l = summary(0, 3, (int64_t[]){ 7, 8, 9 }, 0, NULL);
  CHECK(!shoal_labels_mark(&l));
  shoal_labels_fini(&l);
}

int main(void)
{
  test_counts();
  test_refused();
  test_odd();
  test_mark();
  return check_done();
}
