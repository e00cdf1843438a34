/* Refuses to start unless replicas are equal: a method that averages would hide a difference. */
#include "base/crc32c.h"
#include "base/mem.h"
#include "train/session.h"
#include <stdlib.h>

typedef struct {
  uint32_t weights, config, data, lr;
} identity;

/* The most frequent value; in a tie, that of rank 0. */
static uint32_t majority(const identity *all, int size, size_t field)
{
  int best = 0, best_votes = 0;
  for (int i = 0; i < size; i++) {
    int votes = 0;
    for (int j = 0; j < size; j++) votes += ((const uint32_t *)&all[j])[field] == ((const uint32_t *)&all[i])[field];
    if (votes > best_votes) {
      best = i;
      best_votes = votes;
    }
  }
  return ((const uint32_t *)&all[best])[field];
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

static shoal_status weights_identity(const shoal_session *s, uint32_t *crc)
{
  const shoal_form *f = s->run.form;
  if (f->model != s->run.model) return parts_identity(s, crc);
  *crc = shoal_crc32c(0, f->params->w, f->params->n * sizeof(float));
  return SHOAL_OK;
}

shoal_status shoal_session_check_replicas(shoal_session *s)
{
  static const char *const what[] = { "initial weights", "run configuration", "data set", "learning rate" };
  static const char *const cure[] = { "check run.seed and that every rank runs the same program",
                                      "check the run file and SHOAL_ variables on that host",
                                      "check data.file on that host", "check optim.lr on that host" };
  shoal_run *r = &s->run;
  float lr = (float)s->model.lr.lr * s->faults.lr;
  static const char *const except[] = { "fault.", NULL };
  identity mine = {
    .config = shoal_config_hash(s->world.config, except),
    .data = data_identity(s),
    .lr = shoal_crc32c(0, &lr, sizeof lr),
  };
  int size = shoal_group_size(r->control);
  identity *all;
  SHOAL_TRY(shoal_group_agree(r->control, weights_identity(s, &mine.weights)));
  SHOAL_TRY(SHOAL_ALLOC((size_t)size, &all));
  shoal_status st = shoal_group_allgather(r->control, &mine, sizeof mine, all);
  for (size_t field = 0; st == SHOAL_OK && field < SHOAL_COUNT(what); field++) {
    uint32_t good = majority(all, size, field);
    for (int rank = 0; st == SHOAL_OK && rank < size; rank++)
      if (((const uint32_t *)&all[rank])[field] != good)
        st = SHOAL_FAIL(SHOAL_ERR_WORLD, "%s: rank %d (host %s) differs from the other ranks; %s", what[field], rank,
                        shoal_world_topo(r->world)->places[rank].host, cure[field]);
  }
  free(all);
  return st;
}
