/* Targets: numbers that are to be predicted, where other data sets have classes.
 *
 *   /train/targets /test/targets    numbers of any type, [n] or [n, targets]
 *
 * They are read and judged when the data set is opened, and held in memory, 8 bytes each: a price of nine digits with cents has no
 * room in an f32.  A network learns (target - mean) / std, by mean and standard deviation over the training split, which only
 * leave this file as what predictions are turned back with. */
#include "base/crc32c.h"
#include "base/interrupt.h"
#include "base/limit.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/texts.h"
#include "data/data_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const shoal_data_targets *shoal_dataset_targets(const shoal_dataset *d)
{
  return &d->targets;
}

const double *shoal_dataset_target(shoal_dataset *d, shoal_split split, uint64_t id)
{
  const shoal_dataset *m = shoal_dataset_file_of(d, split, &id);
  return m->part[split].targets + id * m->targets.n;
}

void shoal_targets_normalise(const shoal_data_targets *t, const double *target, float *out)
{
  for (size_t k = 0; k < t->n; k++) out[k] = (float)((target[k] - t->mean[k]) / t->std[k]);
}

const char *shoal_targets_name(const shoal_data_targets *t, size_t k, char *buf, size_t cap)
{
  const char *at = t->names;
  for (; at && k > 0; k--) at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
  if (!t->names || !at) {
    snprintf(buf, cap, t->n > 1 ? "target %zu" : "target", k);
    return buf;
  }
  char *line = shoal_strdup_printf("%.*s", (int)strcspn(at, "\n"), at);
  shoal_show(line, buf, cap);
  free(line);
  return buf;
}

/* ---- opening ---- */

shoal_status shoal_targets_open(shoal_dataset *d, shoal_split split)
{
  const char *name = d->names.y[split];
  shoal_h5_facts f;
  SHOAL_TRY(shoal_h5_look(d->file, name, &f));
  SHOAL_CHECK(f.class == SHOAL_H5_INTEGER || f.class == SHOAL_H5_FLOAT, SHOAL_ERR_IO,
              "%s: /%s holds no numbers but %s; targets are numbers, one row per sample", d->path, name, f.described);
  SHOAL_CHECK(
      f.ndim == 1 || f.ndim == 2, SHOAL_ERR_IO,
      "%s: /%s has %d dimensions; targets have one, or two where a sample has several: write y.reshape(len(y), -1)",
      d->path, name, f.ndim);
  const uint64_t n = f.ndim == 2 ? f.dims[1] : 1;
  SHOAL_CHECK(n >= 1 && n <= SHOAL_DATA_SCALES, SHOAL_ERR_IO,
              "%s: /%s has %" PRIu64 " targets per sample; it may have 1 to %d", d->path, name, n, SHOAL_DATA_SCALES);
  SHOAL_CHECK(f.dims[0] == d->info.n[split], SHOAL_ERR_IO,
              "%s: /%s has %" PRIu64 " samples, /%s has %" PRIu64
              " rows of targets: each sample needs one, in the same order",
              d->path, d->names.x[split], d->info.n[split], name, f.dims[0]);
  SHOAL_CHECK(d->targets.n == 0 || d->targets.n == n, SHOAL_ERR_IO,
              "%s: /%s has %zu targets per sample, /%s has %" PRIu64 ": write both alike", d->path, d->names.y[0],
              d->targets.n, name, n);
  d->targets.n = (size_t)n;
  d->info.targets = d->info.labels = d->info.classes = (int64_t)n;
  return shoal_h5_table_open(d->file, name, &(shoal_h5_row){ SHOAL_F64 }, &d->part[split].y);
}

static shoal_status read_targets(shoal_dataset *d, shoal_split split)
{
  enum { BLOCK = 4096 };
  shoal_data_part *p = &d->part[split];
  const uint64_t n = d->info.n[split], width = d->targets.n;
  char name[80];
  SHOAL_TRY(shoal_limit_memory(d->path, "the targets", n * width, sizeof *p->targets));
  SHOAL_TRY(SHOAL_ALLOC(n * width, &p->targets));
  for (uint64_t at = 0, step; at < n; at += step) {
    step = SHOAL_MIN(n - at, (uint64_t)BLOCK);
    SHOAL_TRY(shoal_interrupt_check());
    SHOAL_TRY(shoal_h5_table_read(p->y, at, step, p->targets + at * width));
  }
  for (uint64_t i = 0; i < n * width; i++)
    SHOAL_CHECK(isfinite(p->targets[i]), SHOAL_ERR_IO,
                "%s: sample %" PRIu64 " of /%s has %g as %s: remove the sample, or correct it", d->path, i / width,
                d->names.y[split], p->targets[i],
                shoal_targets_name(&d->targets, (size_t)(i % width), name, sizeof name));
  return SHOAL_OK;
}

/* Over the training split, or that for tests where there is no other; mean and mean square by the step of Welford, Technometrics
 * 1962, so that numbers far from 0 lose nothing. */
static shoal_status measure(shoal_dataset *d)
{
  const shoal_split split = d->info.n[SHOAL_TRAIN] ? SHOAL_TRAIN : SHOAL_TEST;
  shoal_data_targets *t = &d->targets;
  SHOAL_TRY(SHOAL_ALLOC(4 * t->n, &t->mean));
  t->std = t->mean + t->n;
  t->low = t->std + t->n;
  t->high = t->low + t->n;
  for (uint64_t i = 0; i < d->info.n[split]; i++) {
    const double *v = shoal_dataset_target(d, split, i);
    for (size_t k = 0; k < t->n; k++) {
      const double off = v[k] - t->mean[k];
      t->mean[k] += off / (double)(i + 1);
      t->std[k] += off * (v[k] - t->mean[k]);
      t->low[k] = i == 0 ? v[k] : fmin(t->low[k], v[k]);
      t->high[k] = i == 0 ? v[k] : fmax(t->high[k], v[k]);
    }
  }
  for (size_t k = 0; k < t->n; k++) t->std[k] = t->high[k] > t->low[k] ? sqrt(t->std[k] / (double)d->info.n[split]) : 1;
  return SHOAL_OK;
}

shoal_status shoal_targets_hold(shoal_dataset *d)
{
  for (int s = 0; s < 2; s++)
    if (d->part[s].y) SHOAL_TRY(read_targets(d, (shoal_split)s));
  return measure(d);
}

void shoal_dataset_set_target_scale(shoal_dataset *d, const double *mean, const double *std)
{
  for (size_t i = 0; i < d->n_members; i++) shoal_dataset_set_target_scale(d->member[i], mean, std);
  memcpy(d->targets.mean, mean, d->targets.n * sizeof *mean);
  memcpy(d->targets.std, std, d->targets.n * sizeof *std);
}

/* ---- what is refused ---- */

/* "price is 7 in all 216 training samples: there is nothing to learn", of the first such target; "" if there is none. */
static const char *find_constant(const shoal_dataset *d, char *buf, size_t cap)
{
  const shoal_data_targets *t = &d->targets;
  char name[80];
  size_t k = 0;
  buf[0] = '\0';
  while (k < t->n && t->low[k] < t->high[k]) k++;
  if (k < t->n && d->info.n[SHOAL_TRAIN])
    snprintf(buf, cap, "%s is %.9g in all %" PRIu64 " training samples: there is nothing to learn",
             shoal_targets_name(t, k, name, sizeof name), t->low[k], d->info.n[SHOAL_TRAIN]);
  return buf;
}

shoal_status shoal_dataset_check_targets(const shoal_dataset *d)
{
  char text[192];
  SHOAL_CHECK(!find_constant(d, text, sizeof text)[0], SHOAL_ERR_IO, "%s: %s", d->path, text);
  return SHOAL_OK;
}

void shoal_dataset_warn_of_targets(const shoal_dataset *d)
{
  char text[192];
  if (find_constant(d, text, sizeof text)[0]) shoal_warn("%s: %s", d->path, text);
}

shoal_status shoal_targets_join(shoal_dataset *d)
{
  const shoal_data_targets *first = &d->member[0]->targets;
  for (size_t i = 1; i < d->n_members; i++) {
    const shoal_data_targets *t = &d->member[i]->targets;
    const bool same =
        t->n == first->n && !t->names == !first->names && (!t->names || strcmp(t->names, first->names) == 0);
    SHOAL_CHECK(same, SHOAL_ERR_IO,
                "%s and %s cannot be one data set: the first has %zu target%s per sample, the other %zu%s",
                d->member[0]->path, d->member[i]->path, first->n, first->n == 1 ? "" : "s", t->n,
                t->n == first->n ? ", of other names"
                : t->n           ? ""
                                 : ", but classes");
  }
  if (first->n == 0) return SHOAL_OK;
  d->targets.n = first->n;
  if (first->names) d->targets.names = shoal_strdup_printf("%s", first->names);
  SHOAL_TRY(measure(d));
  shoal_dataset_set_target_scale(d, d->targets.mean, d->targets.std);
  return SHOAL_OK;
}

void shoal_targets_fini(shoal_data_targets *t)
{
  free(t->mean);
  free(t->names);
  *t = (shoal_data_targets){ 0 };
}
