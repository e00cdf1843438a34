/* Refuses to start unless replicas are equal: a method that averages would hide a difference.  And looks again at every
 * checkpoint, since what ranks compute each for itself is equal only by care: a processor, a library or a flipped bit that makes
 * one rank drift would go unnoticed, and its gradients would be of another model. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "train/session.h"
#include <stdlib.h>

typedef struct {
  uint32_t weights, config, data, lr;
} identity;

typedef struct {
  uint32_t weights, state;
} model_identity;

static int by_value(const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

/* How many of n sorted values are this one. */
static size_t count_of(const uint32_t *sorted, size_t n, uint32_t value)
{
  size_t bound[2];
  for (int beyond = 0; beyond <= 1; beyond++) {
    size_t low = 0, high = n;
    while (low < high) {
      size_t middle = (low + high) / 2;
      if (sorted[middle] < value || (beyond && sorted[middle] == value))
        low = middle + 1;
      else
        high = middle;
    }
    bound[beyond] = low;
  }
  return bound[1] - bound[0];
}

/* The first member that has another value than most, or, where several values are as frequent, than the lowest rank of these has;
 * -1: none.
 * @param sorted  [size] scratch space */
static int deviates(const uint32_t *all, int size, size_t fields, size_t field, uint32_t *sorted)
{
  size_t n = (size_t)size, most = 0, first = 1;
  for (size_t i = 0; i < n; i++) sorted[i] = all[i * fields + field];
  while (first < n && sorted[first] == sorted[0]) first++;
  if (first >= n) return -1;
  qsort(sorted, n, sizeof *sorted, by_value);
  for (size_t i = 0, run = 0; i < n; i++) {
    run = i && sorted[i] == sorted[i - 1] ? run + 1 : 1;
    most = SHOAL_MAX(most, run);
  }
  size_t good = 0, other = 0;
  while (count_of(sorted, n, all[good * fields + field]) != most) good++;
  while (all[other * fields + field] == all[good * fields + field]) other++;
  return (int)other;
}

static const char *host_of(const shoal_run *r, int world_rank)
{
  return shoal_world_topo(r->world)->places[world_rank].host;
}

/* The same samples, normalised alike. */
static uint32_t data_identity(const shoal_session *s)
{
  const double *mean, *std;
  size_t n;
  uint32_t crc = shoal_dataset_info(s->data.set)->checksum;
  shoal_dataset_scale(s->data.set, &n, &mean, &std);
  crc = shoal_crc32c(crc, mean, n * sizeof *mean);
  return shoal_crc32c(crc, std, n * sizeof *std);
}

/* Ranks that train parts have drawn different ones, but of one model: its smallest matrix stands for all that they share. */
static shoal_status parts_identity(const shoal_session *s, uint32_t *crc)
{
  const shoal_model *m = s->run.model;
  int least = -1;
  float *w;
  for (int i = 0; i < m->params; i++) {
    const shoal_shape *shape = &m->param[i].shape;
    if (shape->ndim >= 2 && (least < 0 || shoal_shape_count(shape) < shoal_shape_count(&m->param[least].shape)))
      least = i;
  }
  *crc = 0;
  if (least < 0) return SHOAL_OK;
  size_t n = (size_t)shoal_shape_count(&m->param[least].shape);
  SHOAL_TRY(SHOAL_ALLOC(n, &w));
  shoal_param_init(&m->param[least], least, s->run.seed + (uint64_t)s->faults.seed, w);
  *crc = shoal_crc32c(0, w, n * sizeof *w);
  free(w);
  return SHOAL_OK;
}

/* *crc goes on over these numbers. */
static shoal_status add_identity(const shoal_session *s, size_t n, const float *x, uint32_t *crc)
{
  shoal_window w;
  SHOAL_TRY(shoal_window_open(s->run.backend, SHOAL_WINDOW_READ, n, x, &w));
  *crc = shoal_crc32c(*crc, w.at, n * sizeof *x);
  return shoal_window_close(s->run.backend, &w);
}

static shoal_status weights_identity(const shoal_session *s, uint32_t *crc)
{
  const shoal_form *f = s->run.form;
  *crc = 0;
  if (f->model != s->run.model) return parts_identity(s, crc);
  return add_identity(s, f->params->n, f->params->w, crc);
}

/* Of the options, and of what model.file holds. */
static uint32_t configuration_identity(const shoal_session *s)
{
  static const char *const except[] = { "fault.", NULL };
  const char *text = s->run.model->text;
  return shoal_crc32c(shoal_config_hash(s->world.config, except), text, text ? strlen(text) : 0);
}

shoal_status shoal_session_check_replicas(shoal_session *s)
{
  static const char *const what[] = { "initial weights", "run configuration", "data set", "learning rate" };
  static const char *const cure[] = { "check run.seed and that every rank runs the same program",
                                      "check the run file, model.file and SHOAL_ variables on that host",
                                      "check data.file on that host", "check optim.lr on that host" };
  shoal_run *r = &s->run;
  float lr = (float)s->model.lr.lr * s->faults.lr;
  identity mine = {
    .config = configuration_identity(s),
    .data = data_identity(s),
    .lr = shoal_crc32c(0, &lr, sizeof lr),
  };
  int size = shoal_group_size(r->control);
  identity *all = NULL;
  uint32_t *sorted = NULL;
  shoal_status st = weights_identity(s, &mine.weights);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)size, &all);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)size, &sorted);
  st = shoal_group_agree(r->control, st);
  if (st == SHOAL_OK) st = shoal_group_allgather(r->control, &mine, sizeof mine, all);
  for (size_t field = 0; st == SHOAL_OK && field < SHOAL_COUNT(what); field++) {
    int rank = deviates((const uint32_t *)all, size, SHOAL_COUNT(what), field, sorted);
    if (rank >= 0)
      st = SHOAL_FAIL(SHOAL_ERR_WORLD, "%s: rank %d (host %s) differs from the other ranks; %s", what[field], rank,
                      host_of(r, rank), cure[field]);
  }
  free(all);
  free(sorted);
  return st;
}

/* Compares this rank's group in the table of all ranks.
 * @param own  [2 * size of the group] scratch space */
static shoal_status compare_group(const shoal_run *r, const model_identity *all, const shoal_group *g, uint32_t *own)
{
  static const char *const what[] = { "weights", "optimizer state" };
  int size = shoal_group_size(g);
  for (size_t field = 0; field < SHOAL_COUNT(what); field++) {
    for (int i = 0; i < size; i++) own[i] = ((const uint32_t *)&all[shoal_group_world_rank(g, i)])[field];
    int member = deviates(own, size, 1, 0, own + size), rank = member < 0 ? -1 : shoal_group_world_rank(g, member);
    SHOAL_CHECK(
        rank < 0, SHOAL_ERR_WORLD,
        "the %s of rank %d (host %s) at step %llu differ from those of the other ranks, with which they must be "
        "equal: they are not saved; check that host's memory, and resume without it",
        what[field], rank, host_of(r, rank), (unsigned long long)r->step);
  }
  return SHOAL_OK;
}

static shoal_status identify(const shoal_session *s, model_identity *out)
{
  const shoal_form *f = s->run.form;
  SHOAL_TRY(add_identity(s, f->params->n, f->params->w, &out->weights));
  for (int i = 0; i < f->optim->slots; i++) SHOAL_TRY(add_identity(s, f->optim->n, f->optim->slot[i], &out->state));
  return SHOAL_OK;
}

/* By a group of all ranks, because what is gathered in it counts as control. */
shoal_status shoal_session_check_alike(shoal_session *s)
{
  const shoal_run *r = &s->run;
  const shoal_group *g = r->alike;
  size_t size = (size_t)shoal_world_size(r->world);
  bool compares = g && shoal_group_size(g) > 1;
  model_identity mine = { 0 }, *all = NULL;
  uint32_t *own = NULL;
  shoal_status st = compares ? identify(s, &mine) : SHOAL_OK;
  if (st == SHOAL_OK) st = SHOAL_ALLOC(size, &all);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(2 * size, &own);
  st = shoal_group_agree(r->control, st);
  if (st == SHOAL_OK) st = shoal_group_allgather(r->control, &mine, sizeof mine, all);
  if (st == SHOAL_OK) st = shoal_group_agree(r->control, compares ? compare_group(r, all, g, own) : SHOAL_OK);
  free(all);
  free(own);
  return st;
}
