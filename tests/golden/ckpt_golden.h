/* The contents of the golden checkpoints, as functions of name and index, shared by the tool that made them and by the
 * test that reads them.  What stands here describes files that exist: add cases, never change one. */
#ifndef SHOAL_TESTS_CKPT_GOLDEN_H
#define SHOAL_TESTS_CKPT_GOLDEN_H
#include "ckpt/ckpt.h"
#include <math.h>
#include <string.h>

enum { GOLDEN_MAX = 64 };

typedef struct {
  const char *name;
  shoal_dtype type;
  int ndim;
  uint64_t dims[8];
} golden_set;

/* v1-types.h5, v2-types.h5: one rank; every type, shapes from scalar to eight dimensions, empty arrays, extreme values. */
static const golden_set golden_types[] = {
  { "model/conv1.weight", SHOAL_F32, 4, { 2, 3, 3, 3 } },
  { "model/conv1.bias", SHOAL_F32, 1, { 2 } },
  { "model/empty", SHOAL_F32, 2, { 0, 4 } },
  { "model/bn1.mean", SHOAL_F64, 1, { 6 } },
  { "method/f64", SHOAL_F64, 0, { 0 } },
  { "method/i32", SHOAL_I32, 2, { 2, 3 } },
  { "method/i64", SHOAL_I64, 0, { 0 } },
  { "method/u8", SHOAL_U8, 1, { 33 } },
  { "method/u16", SHOAL_U16, 3, { 2, 1, 3 } },
  { "method/u32", SHOAL_U32, 1, { 5 } },
  { "method/u64", SHOAL_U64, 8, { 1, 1, 2, 1, 1, 3, 1, 1 } },
};
enum { GOLDEN_TYPES = (int)(sizeof golden_types / sizeof golden_types[0]) };

/* v1-run.h5, v2-run.h5, v2-split.h5 (in four files): two ranks with arrays of their own, of uneven length, and one that is
 * equal. */
enum { GOLDEN_RANKS = 2 };
static inline uint64_t golden_length(int rank)
{
  return rank == 0 ? 17 : 40;
}

static inline uint64_t golden_elements(const golden_set *s)
{
  uint64_t n = 1;
  for (int i = 0; i < s->ndim; i++) n *= s->dims[i];
  return n;
}

/* The first element of each array is the type's most awkward value; the others are small and exact. */
static inline void golden_fill(shoal_dtype type, uint64_t salt, uint64_t n, void *out)
{
  for (uint64_t i = 0; i < n; i++) {
    int64_t v = (int64_t)((i * 5 + salt * 11) % 97) - 48;
    switch (type) {
    case SHOAL_F32:
      ((float *)out)[i] = i == 0 ? -0.0f : (float)v / 8;
      break;
    case SHOAL_F64:
      ((double *)out)[i] = i == 0 ? -0x1.fffffffffffffp-1000 : (double)v / 16;
      break;
    case SHOAL_I32:
      ((int32_t *)out)[i] = i == 0 ? INT32_MIN : (int32_t)v;
      break;
    case SHOAL_I64:
      ((int64_t *)out)[i] = i == 0 ? INT64_MIN + 1 : v;
      break;
    case SHOAL_U8:
      ((uint8_t *)out)[i] = i == 0 ? 255 : (uint8_t)(v + 48);
      break;
    case SHOAL_U16:
      ((uint16_t *)out)[i] = i == 0 ? 0xfffe : (uint16_t)(v + 48);
      break;
    case SHOAL_U32:
      ((uint32_t *)out)[i] = i == 0 ? 0xfffffffd : (uint32_t)(v + 48);
      break;
    case SHOAL_U64:
      ((uint64_t *)out)[i] = i == 0 ? UINT64_MAX - 3 : (uint64_t)(v + 48);
      break;
    }
  }
}

static inline shoal_ckpt_info golden_info(int ranks)
{
  shoal_ckpt_info info = { .step = 1234, .epoch = 5, .samples = 678, .size = ranks };
  strcpy(info.run, "golden");
  strcpy(info.method, ranks == 1 ? "sync" : "daso");
  strcpy(info.model, "resnet20");
  strcpy(info.layout, ranks == 1 ? "1" : "1x2");
  info.config = "run: { name: golden, seed: 1 }\nmodel: { name: resnet20 }\n# gr\xc3\xbc\xc3\x9f"
                "e\n";
  return info;
}

/* What version 2 holds besides. */
static const double golden_mean[] = { 0.5, -0x1p-1030, 1e300 }, golden_std[] = { 0.25, 1, 0x1.fffffffffffffp+1023 };
static inline shoal_ckpt_info golden_info_2(int ranks)
{
  shoal_ckpt_info info = golden_info(ranks);
  strcpy(info.layout_hash, "0123456789abcdef");
  info.placement = "{ \"ranks\": [ \"gr\xc3\xbc\xc3\x9f"
                   "e\" ] }";
  info.data = (shoal_ckpt_data){ .kind = "images",
                                 .ndim = 3,
                                 .sample = { 3, 28, 29 },
                                 .classes = 2,
                                 .scales = 3,
                                 .mean = golden_mean,
                                 .std = golden_std,
                                 .class_names = "cat\nH\xc3\xbchn" };
  return info;
}
#endif
