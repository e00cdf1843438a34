/* Initial weights: every value is a function of (seed, parameter number and element index in the full model).
 *
 * So a rank that holds a slice or a narrow part starts with exactly the values of the full model, without
 * communication.  Element i of a parameter uses word i % 4 of random block i / 4; normal numbers are generated in pairs
 * from the words of even and odd elements.  Heads have their own random streams, by family. */
#include "base/rng.h"
#include "nn/model_impl.h"
#include <math.h>

/* Factors have no number in the full model; their streams start here, above any parameter number. */
enum { FACTOR_STREAM = 1 << 24 };

typedef struct {
  uint64_t seed;
  uint32_t stream;
  shoal_init init;
  float scale; /* half width of UNIFORM, else the standard deviation */
  uint64_t block;
  shoal_rng_block words; /* of `block`; cached for neighbouring elements */
} source;

static source source_of(const shoal_param *p, int number, uint64_t seed)
{
  source s = { .seed = p->family ? shoal_rng_seed(seed, (uint64_t)p->family) : seed,
               .stream = p->full_id >= 0 ? (uint32_t)p->full_id : (uint32_t)(FACTOR_STREAM + number),
               .init = p->init,
               .block = UINT64_MAX };
  int64_t fan = p->init == SHOAL_INIT_KAIMING ? p->fan_out : p->fan_in;
  s.scale = (float)(p->init == SHOAL_INIT_UNIFORM ? 1 / sqrt((double)fan) : sqrt(2 / (double)fan));
  return s;
}

static float value_at(source *s, uint64_t index)
{
  if (s->init == SHOAL_INIT_ZERO) return 0;
  if (s->init == SHOAL_INIT_ONE) return 1;
  if (s->block != index / 4) {
    s->block = index / 4;
    s->words = shoal_rng(s->seed, SHOAL_RNG_INIT, s->block, s->stream);
  }
  unsigned word = (unsigned)(index % 4);
  if (s->init == SHOAL_INIT_UNIFORM) return s->scale * (2 * shoal_rng_unit(s->words.v[word]) - 1);
  float pair[2];
  shoal_rng_normal2(s->words.v[word & 2], s->words.v[word | 1], pair);
  return s->scale * pair[word & 1];
}

static void init_param(const shoal_param *p, source *s, shoal_host_float *w)
{
  int64_t rows = p->shape.dim[0], cols = p->shape.ndim > 1 ? p->shape.dim[1] : 1;
  int64_t full_cols = p->full.ndim > 1 ? p->full.dim[1] : 1, rest = (int64_t)p->count / rows / cols;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) {
      int64_t row = p->rows ? p->rows[i] : i, col = p->cols ? p->cols[j] : j;
      for (int64_t k = 0; k < rest; k++) *w++ = value_at(s, (uint64_t)((row * full_cols + col) * rest + k));
    }
}

void shoal_param_init(const shoal_param *p, int number, uint64_t seed, shoal_host_float *w)
{
  source s = source_of(p, number, seed);
  init_param(p, &s, w);
}

static void init_stats(const shoal_model *m, shoal_host_float *stats)
{
  for (int i = 0; i < m->nodes; i++) {
    const shoal_node *n = &m->node[i];
    int64_t c = n->out.dim[0];
    for (int64_t k = 0; n->stats >= 0 && k < c; k++) {
      stats[n->stats + k] = 0;
      stats[n->stats + c + k] = 1;
    }
  }
}

/* What is between models that are joined keeps its contents. */
shoal_status shoal_model_init(shoal_backend *b, const shoal_model *m, uint64_t seed, float *weights, float *stats)
{
  shoal_window w;
  SHOAL_TRY(shoal_window_open(b, SHOAL_WINDOW_BOTH, m->weights, weights, &w));
  for (int i = 0; i < m->params; i++) shoal_param_init(&m->param[i], i, seed, w.at + m->param[i].offset);
  SHOAL_TRY(shoal_window_close(b, &w));
  if (!stats) return SHOAL_OK;
  SHOAL_TRY(shoal_window_open(b, SHOAL_WINDOW_BOTH, m->stats, stats, &w));
  init_stats(m, w.at);
  return shoal_window_close(b, &w);
}
