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
    .weights = r->form->model == r->model ? shoal_crc32c(0, r->form->params->w, r->form->params->n * sizeof(float)) : 0,
    .config = shoal_config_hash(s->world.config, except),
    .data = data_identity(s),
    .lr = shoal_crc32c(0, &lr, sizeof lr),
  };
  int size = shoal_group_size(r->control);
  identity *all;
  SHOAL_TRY(SHOAL_ALLOC((size_t)size, &all));
  shoal_status st = shoal_group_allgather(r->control, &mine, sizeof mine, all);
  for (size_t field = 0; st == SHOAL_OK && field < SHOAL_COUNT(what); field++) {
    uint32_t good = majority(all, size, field);
    for (int rank = 0; st == SHOAL_OK && rank < size; rank++)
      if (((const uint32_t *)&all[rank])[field] != good)
        st = SHOAL_FAIL(SHOAL_ERR_WORLD, "the %s of rank %d (host %s) differs from the other ranks: %s", what[field],
                        rank, shoal_world_topo(r->world)->places[rank].host, cure[field]);
  }
  free(all);
  return st;
}
