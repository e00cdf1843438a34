/* The list of operations the suite goes through: odd sizes, channel counts around the widths of vector registers (1, 3,
 * 10, 16, 17, 64), kernels 1, 3 and 5 with strides and pads, batch 1 and odd, and every switch on and off. */
#include "base/mem.h"
#include "tensor_rig.h"

enum { CASES_MAX = 800 };
static shoal_op_desc cases[CASES_MAX];
static size_t cases_n;

static shoal_op_desc *new_case(shoal_op_kind kind, shoal_shape in)
{
  REQUIRE(cases_n < CASES_MAX, "raise CASES_MAX");
  shoal_op_desc *d = &cases[cases_n++];
  *d = (shoal_op_desc){ .kind = kind, .in = { in }, .eps = 1e-5f, .momentum = 0.1f, .training = true, .need_dx = true };
  return d;
}

/* bias, relu, need_dx, training for what has switches */
enum { BIAS = 1, RELU = 2, NO_DX = 4, EVAL = 8 };

static void set_switches(shoal_op_desc *d, int switches)
{
  d->bias = switches & BIAS;
  d->relu = switches & RELU;
  d->need_dx = !(switches & NO_DX);
  d->training = !(switches & EVAL);
}

static void linear_cases(void)
{
  static const struct {
    shoal_shape in;
    int64_t out;
  } list[] = { { { 2, { 1, 1 } }, 1 },       { { 2, { 5, 17 } }, 10 },     { { 2, { 3, 64 } }, 16 },
               { { 3, { 2, 5, 10 } }, 17 },  { { 2, { 7, 200 } }, 33 },    { { 2, { 1, 3 } }, 64 },
               { { 4, { 2, 3, 2, 7 } }, 5 }, { { 3, { 3, 16, 64 } }, 64 }, { { 2, { 33, 16 } }, 1 } };
  static const int switches[] = { 0, BIAS, RELU, BIAS | RELU, BIAS | NO_DX, RELU | NO_DX, BIAS | RELU | EVAL };
  for (size_t i = 0; i < SHOAL_COUNT(list); i++)
    for (size_t s = 0; s < SHOAL_COUNT(switches); s++) {
      shoal_op_desc *d = new_case(SHOAL_OP_LINEAR, list[i].in);
      d->out = d->in[0];
      d->out.dim[d->out.ndim - 1] = list[i].out;
      set_switches(d, switches[s]);
    }
}

static void conv_cases(void)
{
  static const struct {
    int n, ci, h, w, co, k[2], s[2], p[2], gap[2], groups;
  } list[] = {
    { 2, 3, 9, 9, 16, { 3, 3 }, { 1, 1 }, { 1, 1 } },
    { 1, 1, 5, 7, 1, { 1, 1 }, { 1, 1 }, { 0, 0 } },
    { 3, 16, 8, 8, 16, { 3, 3 }, { 1, 1 }, { 1, 1 } },
    { 3, 17, 7, 5, 10, { 5, 3 }, { 2, 1 }, { 2, 1 } },
    { 5, 10, 6, 6, 17, { 3, 3 }, { 2, 2 }, { 0, 0 } },
    { 2, 64, 5, 5, 64, { 1, 1 }, { 2, 2 }, { 0, 0 } },
    { 1, 64, 4, 4, 17, { 3, 3 }, { 1, 1 }, { 1, 1 } },
    { 3, 3, 8, 8, 64, { 3, 3 }, { 2, 2 }, { 1, 1 } },
    { 7, 1, 11, 9, 3, { 5, 5 }, { 1, 2 }, { 2, 2 } },
    { 2, 16, 3, 3, 64, { 3, 3 }, { 1, 1 }, { 1, 1 } },
    { 1, 10, 6, 12, 3, { 1, 3 }, { 1, 1 }, { 0, 1 } },
    { 3, 16, 8, 8, 64, { 4, 4 }, { 4, 4 }, { 0, 0 } },
    { 1, 3, 5, 5, 10, { 5, 5 }, { 1, 1 }, { 4, 4 } },
    { 4, 5, 16, 16, 10, { 3, 3 }, { 1, 1 }, { 1, 1 } },
    { 2, 16, 7, 6, 16, { 3, 3 }, { 1, 1 }, { 2, 2 }, { 1, 1 } },
    { 3, 3, 9, 8, 17, { 3, 2 }, { 2, 1 }, { 1, 2 }, { 0, 2 } },
    { 2, 32, 7, 7, 32, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 0, 0 }, 32 },
    { 3, 17, 6, 5, 17, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, 17 },
    { 2, 6, 8, 8, 12, { 5, 5 }, { 1, 1 }, { 2, 2 }, { 0, 0 }, 6 },
    { 1, 64, 5, 5, 64, { 3, 3 }, { 1, 1 }, { 2, 1 }, { 1, 0 }, 4 },
    { 2, 24, 6, 6, 36, { 1, 1 }, { 2, 2 }, { 0, 0 }, { 0, 0 }, 3 },
    { 2, 10, 7, 6, 6, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, 2 },
  };
  static const int switches[] = { 0, BIAS | RELU, RELU, BIAS | NO_DX, BIAS | EVAL };
  for (size_t i = 0; i < SHOAL_COUNT(list); i++)
    for (size_t s = 0; s < SHOAL_COUNT(switches); s++) {
      shoal_op_desc *d = new_case(SHOAL_OP_CONV, SHOAL_SHAPE(list[i].n, list[i].ci, list[i].h, list[i].w));
      d->out = SHOAL_SHAPE(0, list[i].co, 0, 0);
      memcpy(d->kernel, list[i].k, sizeof d->kernel);
      memcpy(d->stride, list[i].s, sizeof d->stride);
      memcpy(d->pad, list[i].p, sizeof d->pad);
      memcpy(d->gap, list[i].gap, sizeof d->gap);
      d->groups = list[i].groups;
      set_switches(d, switches[s]);
    }
}

static void norm_cases(void)
{
  static const shoal_shape batch[] = { { 2, { 5, 3 } },        { 2, { 9, 10 } },       { 4, { 3, 17, 5, 7 } },
                                       { 4, { 2, 16, 4, 4 } }, { 4, { 1, 64, 3, 3 } }, { 4, { 4, 1, 6, 6 } },
                                       { 2, { 7, 64 } },       { 4, { 3, 3, 1, 2 } } };
  static const int switches[] = { 0, RELU, NO_DX, RELU | NO_DX, EVAL, RELU | EVAL };
  static const shoal_shape layer[] = { { 2, { 3, 17 } }, { 3, { 2, 5, 64 } }, { 2, { 1, 10 } },
                                       { 2, { 7, 3 } },  { 2, { 4, 1 } },     { 3, { 3, 7, 16 } } };
  for (size_t i = 0; i < SHOAL_COUNT(batch); i++)
    for (size_t s = 0; s < SHOAL_COUNT(switches); s++)
      set_switches(new_case(SHOAL_OP_BATCHNORM, batch[i]), switches[s]);
  new_case(SHOAL_OP_BATCHNORM, SHOAL_SHAPE(1, 3))->training = false; /* one value is enough to evaluate */
  for (size_t i = 0; i < SHOAL_COUNT(layer); i++) {
    set_switches(new_case(SHOAL_OP_LAYERNORM, layer[i]), 0);
    set_switches(new_case(SHOAL_OP_LAYERNORM, layer[i]), NO_DX);
    set_switches(new_case(SHOAL_OP_LAYERNORM, layer[i]), EVAL);
  }
}

static void pool_cases(void)
{
  static const struct {
    int n, c, h, w, k[2], s[2], p[2];
  } list[] = { { 3, 10, 7, 9, { 3, 3 }, { 2, 2 }, { 1, 1 } }, { 2, 16, 8, 8, { 2, 2 }, { 2, 2 }, { 0, 0 } },
               { 1, 17, 5, 5, { 3, 3 }, { 1, 1 }, { 1, 1 } }, { 2, 64, 6, 6, { 2, 3 }, { 2, 1 }, { 1, 1 } },
               { 5, 3, 9, 9, { 5, 5 }, { 2, 2 }, { 2, 2 } },  { 2, 1, 7, 7, { 1, 1 }, { 2, 2 }, { 0, 0 } },
               { 3, 3, 7, 8, { 2, 2 }, { 3, 3 }, { 0, 0 } },  { 1, 16, 4, 4, { 4, 4 }, { 4, 4 }, { 0, 0 } } };
  for (size_t i = 0; i < SHOAL_COUNT(list); i++)
    for (int k = 0; k < 4; k++) {
      shoal_op_desc *d = new_case(k < 2 ? SHOAL_OP_MAXPOOL : SHOAL_OP_AVGPOOL,
                                  SHOAL_SHAPE(list[i].n, list[i].c, list[i].h, list[i].w));
      memcpy(d->kernel, list[i].k, sizeof d->kernel);
      memcpy(d->stride, list[i].s, sizeof d->stride);
      memcpy(d->pad, list[i].p, sizeof d->pad);
      d->ceil = i % 2;
      d->count_pad = k >= 2 && i / 2 % 2;
      if (k % 2) set_switches(d, EVAL);
    }
  new_case(SHOAL_OP_GLOBALPOOL, SHOAL_SHAPE(3, 10, 5, 7));
  new_case(SHOAL_OP_GLOBALPOOL, SHOAL_SHAPE(2, 64, 8, 8));
  new_case(SHOAL_OP_GLOBALPOOL, SHOAL_SHAPE(1, 17, 1, 1));
  set_switches(new_case(SHOAL_OP_GLOBALPOOL, SHOAL_SHAPE(5, 3, 4, 4)), EVAL);
}

static void pointwise_cases(void)
{
  static const shoal_shape shapes[] = { { 2, { 5, 17 } },     { 4, { 3, 10, 5, 7 } }, { 4, { 2, 16, 4, 4 } },
                                        { 3, { 2, 3, 64 } },  { 2, { 1, 1 } },        { 4, { 1, 17, 3, 3 } },
                                        { 4, { 3, 1, 6, 5 } } };
  static const shoal_op_kind kinds[] = { SHOAL_OP_RELU,      SHOAL_OP_GELU,        SHOAL_OP_GELU_TANH, SHOAL_OP_SIGMOID,
                                         SHOAL_OP_TANH,      SHOAL_OP_SILU,        SHOAL_OP_LEAKYRELU, SHOAL_OP_RELU6,
                                         SHOAL_OP_HARDSWISH, SHOAL_OP_HARDSIGMOID, SHOAL_OP_FLATTEN,   SHOAL_OP_DROPOUT,
                                         SHOAL_OP_ADD };
  static const float ps[] = { 0.5f, 0.1f, 0.0f, 0.9f };
  for (size_t i = 0; i < SHOAL_COUNT(shapes); i++)
    for (size_t k = 0; k < SHOAL_COUNT(kinds); k++)
      for (int eval = 0; eval < 2; eval++) {
        shoal_op_desc *d = new_case(kinds[k], shapes[i]);
        if (d->kind == SHOAL_OP_ADD) {
          for (int n = 1; n < 2 + (int)i % 3; n++) d->in[n] = d->in[0];
          d->relu = i % 2;
        }
        d->slope = i % 2 ? 0.01f : -0.3f;
        d->p = ps[i % SHOAL_COUNT(ps)];
        d->stream = i;
        d->training = !eval;
      }
}

/* Products, and concatenations of channels that do and do not fill blocks. */
static void join_cases(void)
{
  static const shoal_shape alike[] = {
    { 2, { 5, 17 } }, { 3, { 2, 3, 10 } }, { 4, { 3, 16, 4, 4 } }, { 4, { 2, 17, 3, 5 } }, { 4, { 1, 3, 2, 2 } }
  };
  static const shoal_shape planes[] = { { 4, { 3, 16, 4, 4 } }, { 4, { 2, 17, 3, 5 } }, { 4, { 1, 64, 7, 1 } } };
  static const int64_t channels[][4] = { { 16, 16 }, { 17, 3 }, { 1, 32, 16 }, { 5, 5, 5, 5 }, { 10, 64, 1 } };
  static const shoal_shape rest[] = { { 4, { 3, 0, 4, 3 } }, { 2, { 5 } }, { 3, { 2, 0, 7 } } };
  for (int eval = 0; eval < 2; eval++) {
    for (size_t i = 0; i < SHOAL_COUNT(alike); i++) {
      shoal_op_desc *d = new_case(SHOAL_OP_MUL, alike[i]);
      d->in[1] = alike[i];
      d->training = !eval;
    }
    for (size_t i = 0; i < 2 * SHOAL_COUNT(planes); i++) {
      shoal_op_desc *d = new_case(SHOAL_OP_MUL, planes[i / 2]);
      d->in[1] =
          i % 2 ? SHOAL_SHAPE(d->in[0].dim[0], d->in[0].dim[1]) : SHOAL_SHAPE(d->in[0].dim[0], d->in[0].dim[1], 1, 1);
      d->training = !eval;
    }
    static const shoal_shape rows[] = { { 4, { 2, 3, 5, 17 } }, { 3, { 3, 4, 16 } }, { 4, { 3, 1, 2, 1 } } };
    for (size_t i = 0; i < SHOAL_COUNT(rows); i++) {
      shoal_op_desc *d = new_case(SHOAL_OP_MUL, rows[i]);
      d->in[1] = rows[i];
      for (int k = 1; k < rows[i].ndim - 1; k++) d->in[1].dim[k] = 1;
      d->training = !eval;
    }
    static const struct {
      shoal_shape in;
      int64_t first, count;
    } parts[] = { { { 4, { 2, 37, 3, 2 } }, 15, 18 },
                  { { 4, { 1, 32, 2, 2 } }, 16, 16 },
                  { { 3, { 3, 5, 6 } }, 0, 1 },
                  { { 2, { 4, 7 } }, 3, 4 } };
    for (size_t i = 0; i < SHOAL_COUNT(parts); i++) {
      shoal_op_desc *d = new_case(SHOAL_OP_SLICE, parts[i].in);
      d->first = parts[i].first;
      d->out.dim[1] = parts[i].count;
      d->training = !eval;
    }
    for (size_t i = 0; i < SHOAL_COUNT(channels) * SHOAL_COUNT(rest); i++) {
      shoal_op_desc *d = new_case(SHOAL_OP_CONCAT, rest[i % SHOAL_COUNT(rest)]);
      for (int k = 0; k < 4 && channels[i / SHOAL_COUNT(rest)][k]; k++) {
        d->in[k] = rest[i % SHOAL_COUNT(rest)];
        d->in[k].dim[1] = channels[i / SHOAL_COUNT(rest)][k];
      }
      d->training = !eval;
    }
  }
}

static void shape_cases(void)
{
  static const shoal_shape learned[] = { { 2, { 3, 17 } }, { 3, { 5, 4, 10 } }, { 4, { 1, 16, 1, 1 } } };
  for (size_t i = 0; i < 2 * SHOAL_COUNT(learned); i++) {
    shoal_op_desc *d = new_case(SHOAL_OP_PARAMETER, (shoal_shape){ 0 });
    d->out = learned[i / 2];
    d->need_dx = false;
    d->training = i % 2;
  }
  static const struct {
    shoal_shape in;
    int64_t rows, width;
  } tables[] = { { { 2, { 3, 7 } }, 5, 17 },
                 { { 1, { 9 } }, 1, 1 },
                 { { 3, { 2, 4, 16 } }, 300, 33 },
                 { { 4, { 2, 10, 3, 2 } }, 64, 16 } };
  for (size_t i = 0; i < 2 * SHOAL_COUNT(tables); i++) {
    shoal_op_desc *d = new_case(SHOAL_OP_EMBEDDING, tables[i / 2].in);
    d->rows = tables[i / 2].rows;
    d->out.ndim = d->in[0].ndim + 1;
    d->out.dim[d->in[0].ndim] = tables[i / 2].width;
    d->need_dx = false;
    d->training = i % 2;
  }
  static const struct {
    int64_t n, queries, keys, width;
    int heads;
    bool causal;
  } heads[] = { { 2, 5, 5, 12, 3, true },     { 1, 1, 1, 1, 1, true },    { 2, 37, 37, 32, 2, true },
                { 1, 150, 150, 16, 1, true }, { 2, 7, 11, 10, 2, false }, { 1, 33, 140, 34, 2, false } };
  for (size_t i = 0; i < SHOAL_COUNT(heads); i++) {
    shoal_op_desc *d = new_case(SHOAL_OP_ATTENTION, SHOAL_SHAPE(heads[i].n, heads[i].queries, heads[i].width));
    d->in[1] = d->in[2] = SHOAL_SHAPE(heads[i].n, heads[i].keys, heads[i].width);
    d->heads = heads[i].heads;
    d->causal = heads[i].causal;
    if (i == 0) *new_case(SHOAL_OP_ATTENTION, d->in[0]) = *d;
    if (i == 0) d->training = false;
  }
  static const struct {
    shoal_shape in, out;
    int order[4];
  } list[] = { { { 4, { 3, 16, 4, 6 } }, { 3, { 0, 16, -1 } }, { 2, 0, 1 } },
               { { 4, { 2, 17, 3, 5 } }, { 4, { 0, 5, 17, 3 } }, { 1, 2, 0 } },
               { { 3, { 5, 6, 10 } }, { 5, { 0, 2, 3, 2, 5 } }, { 1, 0 } },
               { { 2, { 3, 12 } }, { 3, { 0, -1, 1 } }, { 0 } },
               { { 5, { 2, 3, 4, 2, 3 } }, { 2, { 0, 72 } }, { 3, 1, 0, 2 } },
               { { 4, { 1, 64, 5, 1 } }, { 2, { 0, -1 } }, { 0, 1, 2 } } };
  for (size_t i = 0; i < 4 * SHOAL_COUNT(list); i++) {
    shoal_op_desc *d = new_case(i % 2 ? SHOAL_OP_TRANSPOSE : SHOAL_OP_RESHAPE, list[i / 4].in);
    d->out = list[i / 4].out;
    memcpy(d->order, list[i / 4].order, sizeof d->order);
    d->training = i / 2 % 2;
  }
}

size_t test_cases(const shoal_op_desc **out)
{
  if (cases_n == 0) {
    linear_cases();
    conv_cases();
    norm_cases();
    pool_cases();
    pointwise_cases();
    join_cases();
    shape_cases();
  }
  *out = cases;
  return cases_n;
}
