/* shoalread: errors, and data sets. */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "read/read_impl.h"
#include <stdlib.h>

struct shoalread_data {
  shoal_dataset *set;
  size_t elements; /* of a sample */
  void *sample;    /* one, as stored */
};

const char *shoalread_version(void)
{
  return SHOAL_VERSION;
}

/* ---- errors ---- */

static _Thread_local char message[SHOAL_ERROR_TEXT];

const char *shoalread_error(void)
{
  return message;
}

void shoal_read_begin(void)
{
  shoal_log_set_level(SHOAL_LOG_ERROR);
}

int shoal_read_end(shoal_status st)
{
  if (st == SHOAL_OK) return 0;
  snprintf(message, sizeof message, "%s", shoal_error_text(st));
  return -1;
}

/* ---- data sets ---- */

_Static_assert((int)SHOALREAD_TEST == (int)SHOAL_TEST, "splits");
_Static_assert((int)SHOALREAD_FEATURES == (int)SHOAL_DATA_FEATURES && (int)SHOALREAD_TEXT == (int)SHOAL_DATA_TEXT,
               "kinds");

static shoal_status open_data(const char *const *files, size_t n, shoalread_data *d)
{
  SHOAL_CHECK(n > 0, SHOAL_ERR_ARG, "no file given");
  SHOAL_TRY(shoal_dataset_open_all(files, n, &d->set));
  const shoal_data_info *i = shoal_dataset_info(d->set);
  char *sample;
  d->elements = 1;
  for (int k = 0; k < i->sample.ndim; k++) d->elements *= (size_t)i->sample.dim[k];
  SHOAL_TRY(SHOAL_ALLOC(d->elements * (size_t)i->x_bytes, &sample));
  d->sample = sample;
  return SHOAL_OK;
}

shoalread_data *shoalread_data_open(const char *const *files, size_t n)
{
  shoalread_data *d;
  shoal_read_begin();
  shoal_status st = SHOAL_ALLOC(1, &d);
  if (st == SHOAL_OK) st = open_data(files, n, d);
  if (shoal_read_end(st) == 0) return d;
  shoalread_data_close(d);
  return NULL;
}

void shoalread_data_close(shoalread_data *d)
{
  if (!d) return;
  shoal_dataset_close(d->set);
  free(d->sample);
  free(d);
}

shoalread_kind shoalread_data_kind(const shoalread_data *d)
{
  return (shoalread_kind)shoal_dataset_info(d->set)->kind;
}

uint64_t shoalread_data_samples(const shoalread_data *d, shoalread_split split)
{
  return split == SHOALREAD_TRAIN || split == SHOALREAD_TEST ? shoal_dataset_info(d->set)->n[split] : 0;
}

int shoalread_data_shape(const shoalread_data *d, int64_t shape[4])
{
  const shoal_shape *s = &shoal_dataset_info(d->set)->sample;
  for (int k = 0; k < s->ndim; k++) shape[k] = s->dim[k];
  return s->ndim;
}

int64_t shoalread_data_classes(const shoalread_data *d)
{
  return shoal_dataset_info(d->set)->classes;
}

const char *shoalread_data_class_names(const shoalread_data *d)
{
  return shoal_dataset_class_names(d->set);
}

void shoalread_data_scale(const shoalread_data *d, size_t *n, const double **mean, const double **std)
{
  shoal_dataset_scale(d->set, n, mean, std);
}

static void widen(const void *from, int bytes, shoal_data_kind kind, size_t n, float *to)
{
  const uint8_t *u8 = from;
  const uint16_t *u16 = from;
  const uint32_t *u32 = from;
  const float *f32 = from;
  for (size_t i = 0; i < n; i++)
    to[i] = bytes == 1 ? u8[i] : bytes == 2 ? u16[i] : kind == SHOAL_DATA_TEXT ? (float)u32[i] : f32[i];
}

static shoal_status read_data(shoalread_data *d, shoalread_split split, uint64_t first, uint64_t n, float *x,
                              int32_t *y)
{
  const shoal_data_info *i = shoal_dataset_info(d->set);
  uint64_t samples = shoalread_data_samples(d, split);
  SHOAL_CHECK(first <= samples && n <= samples - first, SHOAL_ERR_ARG,
              "samples %llu to %llu were asked for, the split has %llu", (unsigned long long)first,
              (unsigned long long)(first + n), (unsigned long long)samples);
  SHOAL_CHECK(!y || !i->targets, SHOAL_ERR_ARG, "%s has targets, and no labels: read its samples without them",
              shoal_dataset_path(d->set));
  for (uint64_t k = 0; k < n; k++) {
    int32_t label;
    SHOAL_TRY(shoal_dataset_read(d->set, (shoal_split)split, first + k, d->sample, i->targets ? NULL : &label));
    widen(d->sample, i->x_bytes, i->kind, d->elements, x + k * d->elements);
    if (y) y[k] = label;
  }
  return SHOAL_OK;
}

int shoalread_data_read(shoalread_data *d, shoalread_split split, uint64_t first, uint64_t n, float *x, int32_t *y)
{
  shoal_read_begin();
  return shoal_read_end(read_data(d, split, first, n, x, y));
}
