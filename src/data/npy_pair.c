/* Which arrays are samples and labels where their names do not say so: by their shapes.
 *
 *     fea [180, 12], gnd [180, 1], subject [1, 1]  ->  samples, labels, neither
 *
 * Labels are a list, also in one row or one column, as MATLAB has it; samples are as many, of several numbers each, in the first or the
 * last dimension. */
#include "data/data_impl.h"
#include "data/npy.h"

/* Elements of an array all of whose dimensions but one are 1; 0 of others. */
static uint64_t list_length(const shoal_npy *a)
{
  uint64_t n = 1, longer = 0;
  for (int i = 0; i < a->ndim; i++) {
    longer += a->dims[i] != 1;
    if (a->dims[i] != 1) n = a->dims[i];
  }
  return longer <= 1 ? n : 0;
}

static uint64_t count_numbers(const shoal_npy *a)
{
  uint64_t n = 1;
  for (int i = 0; i < a->ndim; i++) n *= a->dims[i];
  return n;
}

static bool can_be_labels(const shoal_npy *a)
{
  return list_length(a) > 1 && (shoal_data_names_label(a->name) || !shoal_data_names_no_class(a->name));
}

static bool belong(const shoal_npy *x, const shoal_npy *y)
{
  const uint64_t n = list_length(y) ? list_length(y) : y->dims[0];
  return x != y && x->ndim > 1 && !list_length(x) && (x->dims[0] == n || x->dims[x->ndim - 1] == n);
}

/* Labels whose name says so are better than others, and larger samples better than smaller ones. */
static bool is_better(const shoal_npy *x, const shoal_npy *y, const shoal_npy *old_x, const shoal_npy *old_y)
{
  const bool said = shoal_data_names_label(y->name), before = old_y && shoal_data_names_label(old_y->name);
  if (!old_x || said != before) return !old_x || said;
  return count_numbers(x) > count_numbers(old_x);
}

void shoal_npy_pair(const shoal_npys *l, const bool *free, const shoal_npy **x, shoal_npy **y)
{
  const shoal_npy *best_x = NULL;
  shoal_npy *best_y = NULL;
  for (size_t k = 0; k < l->n; k++) {
    shoal_npy *labels = &l->all[k];
    if (*y ? labels != *y : !free[k] || !can_be_labels(labels)) continue;
    for (size_t i = 0; i < l->n; i++) {
      const shoal_npy *samples = &l->all[i];
      if ((*x ? samples != *x : !free[i]) || !belong(samples, labels)) continue;
      if (!is_better(samples, labels, best_x, best_y)) continue;
      best_x = samples;
      best_y = labels;
    }
  }
  if (!best_x) return;
  *x = best_x;
  *y = best_y;
}
