/* AB-training's transitions at several ranks and placements, driven by hand: what a split and a reconciliation make of
 * weights, statistics and optimizer state, in all four modes, against formulas in double (docs/methods/ab.md).  Steps are
 * synthetic: each group moves what it trains by numbers of its own. */
#include "../unit/nn_rig.h"
#include "comm.h"
#include "method/ab/ab_impl.h"

static int rank, size;

typedef struct {
  shoal_run r;
  shoal_form form;
  shoal_ab_state s;
  shoal_config *config;
  shoal_model *model;
  float *g;
} bench;

static const shoal_option run_options[] = {
  { "run.steps", SHOAL_OPT_INT, "0", NULL, NULL, "", NULL },
  { .name = NULL },
};

static void configure(bench *b, const char *options)
{
  const shoal_option_table tables[] = { { "run", run_options },
                                        { "optim", shoal_optim_options },
                                        { "ab", shoal_method_ab.options } };
  shoal_settings *s;
  char text[512];
  REQUIRE(shoal_settings_create(&s) == SHOAL_OK, "settings");
  snprintf(text, sizeof text, "optim.name=adamw method.warmup=2 method.cycle=4 method.rebound=1 method.ramp=0 %s",
           options);
  for (char *save, *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save))
    REQUIRE(shoal_settings_set(s, one, "test") == SHOAL_OK, "%s", one);
  REQUIRE(shoal_config_create(s, tables, SHOAL_COUNT(tables), &b->config) == SHOAL_OK, "%s", options);
  shoal_settings_destroy(s);
}

static shoal_status open_bench(bench *b, shoal_world *w, const char *options)
{
  *b = (bench){ 0 };
  shoal_run *r = &b->r;
  shoal_trace_info info = { .run_name = "test", .config_text = "", .rank = rank, .size = size, .host = "" };
  shoal_optim_config optim;
  shoal_outline outline = { .model = NULL };
  configure(b, options);
  b->model = rig_network("residual");
  *r = (shoal_run){ .world = w, .config = b->config, .model = b->model, .form = &b->form, .epochs = 1000 };
  r->all = shoal_world_group(w);
  r->control = shoal_world_control(w);
  r->steps_per_epoch = r->epoch_samples = r->global_batch = 1;
  REQUIRE(shoal_trace_open(NULL, SHOAL_TRACE_OFF, &info, &r->trace) == SHOAL_OK, "trace");
  shoal_world_set_counters(w, shoal_trace_counters(r->trace));
  REQUIRE(shoal_backend_open("ref", 1, &r->backend) == SHOAL_OK, "backend");
  REQUIRE(shoal_method_ab.outline(r, &b->s, &outline) == SHOAL_OK, "room");
  b->g = shared_room(r->all, SHOAL_MAX(outline.gradients, b->model->weights) * sizeof(float));
  REQUIRE(shoal_optim_configure(b->config, &optim) == SHOAL_OK, "optim");
  REQUIRE(shoal_form_init(r->backend, b->model, &optim, b->g, &b->form) == SHOAL_OK, "form");
  REQUIRE(shoal_form_plan(r->backend, 3, &b->form) == SHOAL_OK, "plan");
  CHECK_OK(shoal_model_init(ref_backend(), b->model, 9, r->form->params->w, r->form->params->stats));
  return shoal_method_ab.open(r, &b->s);
}

static void close_bench(bench *b)
{
  shoal_run *r = &b->r;
  shoal_method_ab.close(r, &b->s);
  CHECK(r->form == &b->form, "close gives the whole model back");
  shoal_form_fini(r->backend, &b->form);
  shoal_group_unshare(r->all, b->g);
  shoal_model_destroy(b->model);
  shoal_backend_close(r->backend);
  shoal_world_set_counters(r->world, NULL);
  (void)shoal_trace_close(r->trace);
  shoal_config_destroy(b->config);
}

/* ---- what must be equal on all ranks ---- */

static void check_alike(const char *what, const void *x, size_t bytes)
{
  uint64_t mine = 14695981039346656037u, all[16];
  for (size_t i = 0; i < bytes; i++) mine = (mine ^ ((const uint8_t *)x)[i]) * 1099511628211u;
  MPI_Allgather(&mine, 8, MPI_BYTE, all, 8, MPI_BYTE, MPI_COMM_WORLD);
  for (int i = 1; i < size; i++) CHECK_EQ(all[i], all[0], "%s: ranks 0 and %d differ", what, i);
}

/* ---- bytes: counters against the method's claim and against formulas ---- */

static uint64_t counted_before[SHOAL_LINK_COUNT];

static void begin_bytes(bench *b)
{
  memcpy(counted_before, shoal_trace_counters(b->r.trace)->payload, sizeof counted_before);
  memset(b->r.sent, 0, sizeof b->r.sent);
}

/* @param total  numbers that all ranks together should have sent */
static void end_bytes(bench *b, const char *what, double total)
{
  const uint64_t *claim = b->r.sent;
  uint64_t sum = 0;
  for (int l = SHOAL_LINK_NODE; l <= SHOAL_LINK_BETWEEN; l++) { /* agreement is class control, and no payload */
    uint64_t counted = shoal_trace_counters(b->r.trace)->payload[l] - counted_before[l];
    CHECK_EQ(counted, claim[l], "%s, link %d", what, l);
    sum += counted;
  }
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  CHECK_EQ((double)sum, 4 * total, "%s", what);
}

/* ---- one phase: split, move, reconcile, compare ---- */

/* How group g moves element i of something in this phase. */
static double moved(uint64_t what, uint64_t i, int g)
{
  return (double)any_float(what * 10007 + i, g);
}

static double rest_moved(int param, uint64_t i, int g)
{
  return moved((uint64_t)param, i, g);
}

static double factor_moved(size_t layer, char factor, uint64_t i, int g)
{
  return moved(1000 + 2 * layer + (factor == 'b'), i, g);
}

static void move_part(bench *b)
{
  shoal_ab_state *s = &b->s;
  float *w = s->part.params->w;
  for (int k = 0; k < s->cut->params; k++) {
    const shoal_param *p = &s->cut->param[k];
    for (size_t i = 0; p->full_id >= 0 && i < p->count; i++)
      w[p->offset + i] += (float)rest_moved(p->full_id, i, s->group);
  }
  for (size_t l = 0; l < s->layers.n; l++) {
    const shoal_param *both[] = { s->product[l].left, s->product[l].right };
    for (int k = 0; k < 2; k++)
      for (size_t i = 0; !both[k]->frozen && i < both[k]->count; i++)
        w[both[k]->offset + i] += (float)factor_moved(l, both[k]->factor, i, s->group);
  }
  s->part.params->version++;
}

typedef struct { /* left and right of one layer in double */
  int64_t rows, cols, rank;
  double *left, *right;
} pair;

static pair take_pair(const bench *b, size_t layer)
{
  const shoal_product *p = &b->s.product[layer];
  pair q = { p->rows, p->cols, p->rank, malloc(p->left->count * sizeof(double)),
             malloc(p->right->count * sizeof(double)) };
  for (size_t i = 0; i < p->left->count; i++) q.left[i] = b->s.part.params->w[p->left->offset + i];
  for (size_t i = 0; i < p->right->count; i++) q.right[i] = b->s.part.params->w[p->right->offset + i];
  return q;
}

static void free_pair(pair *p)
{
  free(p->left);
  free(p->right);
}

/* Adds weight times the move of group g to factor 'a' or 'b'. */
static void add_move(const bench *b, pair *q, size_t layer, char factor, int g, double weight)
{
  const shoal_product *p = &b->s.product[layer];
  bool left = p->left->factor == factor;
  double *x = left ? q->left : q->right;
  size_t n = left ? p->left->count : p->right->count;
  for (size_t i = 0; i < n; i++) x[i] += weight * factor_moved(layer, factor, i, g);
}

static void add_product(const pair *q, double weight, double *w)
{
  for (int64_t i = 0; i < q->rows; i++)
    for (int64_t j = 0; j < q->cols; j++)
      for (int64_t k = 0; k < q->rank; k++)
        w[i * q->cols + j] += weight * q->left[i * q->rank + k] * q->right[k * q->cols + j];
}

static int ranks_of(const bench *b, int g)
{
  return b->s.groups.first[g + 1] - b->s.groups.first[g];
}

static int ranks_training(const bench *b, char factor)
{
  int n = 0;
  for (int g = 0; g < b->s.groups.groups; g++) n += shoal_ab_role_a(&b->s, g) == (factor == 'a') ? ranks_of(b, g) : 0;
  return n;
}

/* What W of a layer should be after reconciling, from the factors at the split. */
static void expect_weight(const bench *b, const pair *start, size_t layer, double *w)
{
  const shoal_ab_groups *g = &b->s.groups;
  memset(w, 0, (size_t)(start->rows * start->cols) * sizeof *w);
  pair q = { start->rows, start->cols, start->rank, malloc((size_t)(start->rows * start->rank) * sizeof(double)),
             malloc((size_t)(start->rank * start->cols) * sizeof(double)) };
#define AGAIN                                                                                                          \
  memcpy(q.left, start->left, (size_t)(q.rows * q.rank) * sizeof(double)),                                             \
      memcpy(q.right, start->right, (size_t)(q.rank * q.cols) * sizeof(double))
  AGAIN;
  for (int i = 0; i < g->groups; i++) {
    char factor = shoal_ab_role_a(&b->s, i) ? 'a' : 'b';
    double over = b->s.mode == SHOAL_AB_ONLY_LEARNED ? ranks_training(b, factor) : size;
    if (b->s.mode == SHOAL_AB_FULL) {
      AGAIN;
      add_move(b, &q, layer, factor, i, 1);
      add_product(&q, (double)ranks_of(b, i) / size, w);
    } else {
      add_move(b, &q, layer, factor, i, ranks_of(b, i) / over);
    }
  }
#undef AGAIN
  if (b->s.mode != SHOAL_AB_FULL) add_product(&q, 1, w);
  free_pair(&q);
}

static double worst_of(const float *x, const double *want, size_t n)
{
  double worst = 0, largest = 0;
  for (size_t i = 0; i < n; i++) {
    worst = worse(worst, fabs(x[i] - want[i]));
    largest = fmax(largest, fabs(want[i]));
  }
  return worst / largest;
}

static void check_rest(const bench *b, const float *before, const float *after, const char *what)
{
  for (int k = 0; k < b->s.cut->params; k++) {
    const shoal_param *p = &b->s.cut->param[k];
    if (p->full_id < 0) continue;
    size_t at = b->model->param[p->full_id].offset;
    double worst = 0, largest = 0;
    for (size_t i = 0; i < p->count; i++) {
      double want = before[at + i];
      for (int g = 0; g < b->s.groups.groups; g++) want += rest_moved(p->full_id, i, g) * ranks_of(b, g) / size;
      worst = worse(worst, fabs(after[at + i] - want));
      largest = fmax(largest, fabs(want));
    }
    CHECK_LT(worst, 1e-6 * largest, "%s: %s", what, p->name);
  }
}

static double split_numbers(const bench *b)
{
  shoal_ab_volume v = shoal_ab_volume_of(&b->s.layers, b->s.rank);
  return (double)(size - 1) * (double)(v.a + v.b);
}

/* Numbers that all ranks together send in a reconciliation summed by rings. */
static double reconcile_numbers(const bench *b)
{
  shoal_ab_volume v = shoal_ab_volume_of(&b->s.layers, b->s.rank);
  const shoal_ab_groups *g = &b->s.groups;
  double ring = 2.0 * (size - 1), n_a = g->a_groups, n_b = g->groups - g->a_groups;
  int half_a = shoal_ab_role_a(&b->s, 0) ? 0 : 1;
  if (half_a) n_a = g->groups - g->a_groups, n_b = g->a_groups;
  switch (b->s.mode) {
  case SHOAL_AB_WITH_STALE:
    return ring * (double)(v.a + v.b + v.others);
  case SHOAL_AB_FULL:
    return ring * (double)(v.weights + v.others);
  case SHOAL_AB_ONLY_B:
    return g->groups > 1 ? ring * (double)(v.b + v.others) : 0;
  case SHOAL_AB_ONLY_LEARNED:
    return ring * (double)v.others + (double)(size - 1) * (double)(v.a + v.b) +
           (n_a > 1 ? 2.0 * (ranks_training(b, 'a') - 1) * (double)v.a : 0) +
           (n_b > 1 ? 2.0 * (ranks_training(b, 'b') - 1) * (double)v.b : 0);
  }
  return -1;
}

/* The lossless split is the weight again; factors are balanced; all ranks hold the same. */
static void check_split(bench *b, const float *before, bool cut)
{
  for (size_t l = 0; l < b->s.layers.n; l++) {
    pair q = take_pair(b, l);
    const shoal_product *p = &b->s.product[l];
    check_alike("left factor", b->s.part.params->w + p->left->offset, p->left->count * sizeof(float));
    check_alike("right factor", b->s.part.params->w + p->right->offset, p->right->count * sizeof(float));
    CHECK(cut || p->rank == SHOAL_MIN(p->rows, p->cols), "rank");
    double *w = calloc((size_t)(p->rows * p->cols), sizeof *w);
    add_product(&q, 1, w);
    double error = worst_of(before + p->weight->offset, w, (size_t)(p->rows * p->cols));
    CHECK(cut || error < 2e-6, "layer %d: product off by %g", (int)l, error);
    double largest = 0; /* the first singular value */
    for (int64_t k = 0; k < p->rows; k++) largest += q.left[k * p->rank] * q.left[k * p->rank];
    for (int64_t i = 0; i < p->rank; i++)
      for (int64_t j = 0; j < p->rank; j++) {
        double x = 0, y = 0;
        for (int64_t k = 0; k < p->rows; k++) x += q.left[k * p->rank + i] * q.left[k * p->rank + j];
        for (int64_t k = 0; k < p->cols; k++) y += q.right[i * p->cols + k] * q.right[j * p->cols + k];
        CHECK_LT(fabs(x - y), 2e-6 * largest, "balance: %g and %g of %g", x, y, largest);
        CHECK(i == j || fabs(x) < 2e-6 * largest, "balance: %g and %g of %g", x, y, largest);
      }
    free(w);
    free_pair(&q);
  }
  check_alike("ranks", b->s.rank, b->s.layers.n * sizeof *b->s.rank);
}

static void one_phase(bench *b, bool cut, bool still)
{
  shoal_ab_state *s = &b->s;
  shoal_run *r = &b->r;
  size_t n = b->model->weights, most = 0;
  float *before = malloc(n * sizeof *before), *seen = malloc(n * sizeof *seen),
        *stats = malloc(b->model->stats * sizeof *stats);
  memcpy(before, r->form->params->w, n * sizeof *before);
  begin_bytes(b);
  CHECK_OK(shoal_ab_split(r, s, cut));
  end_bytes(b, "split", split_numbers(b));
  CHECK(s->factored, "what is trained");
  CHECK(r->form == &s->part);
  CHECK(s->part.model == s->cut);
  check_split(b, before, cut);
  pair *start = malloc(s->layers.n * sizeof *start);
  for (size_t l = 0; l < s->layers.n; l++) start[l] = take_pair(b, l);
  if (!still) move_part(b);
  for (size_t i = 0; i < b->model->stats; i++) r->form->params->stats[i] = any_float(i, rank) + 3;
  CHECK_OK(shoal_method_ab.assemble(r, s, seen, stats));
  begin_bytes(b);
  CHECK_OK(shoal_ab_reconcile(r, s));
  end_bytes(b, "reconcile", reconcile_numbers(b));
  CHECK(!s->factored, "what is trained");
  CHECK(r->form == &b->form);
  CHECK(s->whole == &b->form);
  check_alike("weights", r->form->params->w, n * sizeof(float));
  check_alike("statistics", r->form->params->stats, b->model->stats * sizeof(float));
  for (size_t l = 0; l < s->layers.n; l++)
    most = SHOAL_MAX(most, (size_t)(s->layers.layer[l].m * s->layers.layer[l].n));
  double *w = malloc(most * sizeof *w);
  for (size_t l = 0; l < s->layers.n; l++) {
    const shoal_product *p = &s->product[l];
    size_t count = (size_t)(p->rows * p->cols);
    if (still) {
      memset(w, 0, count * sizeof *w);
      add_product(&start[l], 1, w);
    } else {
      expect_weight(b, &start[l], l, w);
    }
    double error = worst_of(r->form->params->w + p->weight->offset, w, count);
    CHECK_LT(error, 1e-6, "mode %d, layer %d", s->mode, (int)l);
    if (still && !cut) { /* with no step in between nothing has happened */
      for (size_t i = 0; i < count; i++) w[i] = before[p->weight->offset + i];
      error = worst_of(r->form->params->w + p->weight->offset, w, count);
      CHECK_LT(error, 2e-6, "mode %d, layer %d", s->mode, (int)l);
    }
    free_pair(&start[l]);
  }
  if (!still) check_rest(b, before, r->form->params->w, "reconcile");
  bool exact = s->mode != SHOAL_AB_ONLY_LEARNED;
  double worst = 0;
  for (size_t i = 0; i < n; i++) worst = worse(worst, fabs((double)seen[i] - r->form->params->w[i]));
  CHECK(exact ? memcmp(seen, r->form->params->w, n * sizeof *seen) == 0 : worst < 1e-5,
        "mode %d: the model observed was another, by %g", s->mode, worst);
  CHECK_BYTES(stats, r->form->params->stats, b->model->stats * sizeof *stats, "statistics observed");
  free(w);
  free(start);
  free(before);
  free(seen);
  free(stats);
}

static void check_modes(shoal_world *w)
{
  static const char *const modes[] = { "with-stale", "only-learned", "full", "only-b" };
  for (size_t i = 0; i < SHOAL_COUNT(modes); i++)
    for (int k = 0; k < 3; k++) { /* k 1: swapped in the second phase; 2: groups of one rank */
      bench b;
      char options[128];
      if (k == 1 && i == 3) continue;
      snprintf(options, sizeof options, "method.mode=%s method.algorithm=ring method.swap=%s method.group=%d", modes[i],
               k == 1 ? "true" : "false", k == 2 ? 1 : 0);
      shoal_status st = open_bench(&b, w, options);
      if (st == SHOAL_OK) {
        one_phase(&b, false, true);
        one_phase(&b, false, false);
        one_phase(&b, true, false);
      } else { /* one rank alone has nobody for A; groups of one half that differ */
        CHECK(st == SHOAL_ERR_USAGE || st == SHOAL_ERR_PEER, "%s", options);
      }
      close_bench(&b);
    }
}

/* Optimizer state across splits of different rank: leading columns and rows stay, the rest is zero; what is no factor
 * comes from the whole model at each split, and goes back to that at a reconciliation. */
static void check_moments(shoal_world *w)
{
  bench b;
  if (open_bench(&b, w, "method.mode=only-b method.cutoff=0.5") != SHOAL_OK) return;
  shoal_ab_state *s = &b.s;
  CHECK_OK(shoal_ab_split(&b.r, s, false));
  size_t n = s->layers.n;
  int64_t *full = malloc(n * sizeof *full);
  memcpy(full, s->rank, n * sizeof *full);
  float *old = s->part.optim->slot[1];
  for (size_t i = 0; i < s->cut->weights; i++) old[i] = (float)i + 1;
  shoal_product *was = malloc(n * sizeof *was);
  shoal_param *factors = malloc(2 * n * sizeof *factors);
  for (size_t l = 0; l < n; l++) {
    was[l] = s->product[l];
    factors[2 * l] = *was[l].left, factors[2 * l + 1] = *was[l].right;
    was[l].left = &factors[2 * l], was[l].right = &factors[2 * l + 1];
  }
  CHECK_OK(shoal_ab_reconcile(&b.r, s));
  for (size_t i = 0; i < b.model->weights; i++) {
    CHECK_EQ(b.form.optim->slot[1][i], 0, "the whole model's state was touched");
    b.form.optim->slot[1][i] = -(float)i;
  }
  CHECK_OK(shoal_ab_split(&b.r, s, true));
  int64_t least = 1 << 20;
  for (size_t l = 0; l < n; l++) {
    const shoal_product *p = &s->product[l];
    const float *now = s->part.optim->slot[1];
    least = SHOAL_MIN(least, p->rank - full[l]);
    for (int64_t i = 0; i < p->rows; i++)
      for (int64_t k = 0; k < p->rank; k++)
        CHECK_EQ(now[p->left->offset + (size_t)(i * p->rank + k)],
                 (float)was[l].left->offset + (float)(i * full[l] + k) + 1, "left %d %d", (int)i, (int)k);
    for (int64_t i = 0; i < p->rank * p->cols; i++)
      CHECK_EQ(now[p->right->offset + (size_t)i], (float)was[l].right->offset + (float)i + 1, "right %d", (int)i);
  }
  CHECK_LT(least, 0, "nothing was cut: the test shows nothing");
  for (int k = 0; k < s->cut->params; k++) {
    const shoal_param *p = &s->cut->param[k];
    for (size_t i = 0; p->full_id >= 0 && i < p->count; i++)
      CHECK_EQ(s->part.optim->slot[1][p->offset + i], -(float)(b.model->param[p->full_id].offset + i), "%s", p->name);
  }
  /* and back to full rank: ranks may grow again */
  CHECK_OK(shoal_ab_reconcile(&b.r, s));
  CHECK_OK(shoal_ab_split(&b.r, s, false));
  size_t zeros = 0;
  for (size_t l = 0; l < n; l++) {
    const shoal_product *p = &s->product[l];
    CHECK_EQ(p->rank, full[l]);
    for (size_t i = 0; i < p->right->count; i++) zeros += s->part.optim->slot[1][p->right->offset + i] == 0;
  }
  CHECK_GT(zeros, 0, "nothing was padded");
  close_bench(&b);
  free(full);
  free(was);
  free(factors);
  if (open_bench(&b, w, "method.mode=only-b method.reset=true") != SHOAL_OK) return;
  for (size_t i = 0; i < b.model->weights; i++) b.form.optim->slot[0][i] = 1;
  CHECK_OK(shoal_ab_split(&b.r, &b.s, false));
  for (size_t i = 0; i < b.s.cut->weights; i++) CHECK_EQ(b.s.part.optim->slot[0][i], 0, "reset of the part");
  for (size_t i = 0; i < b.model->weights; i++) CHECK_EQ(b.form.optim->slot[0][i], 0, "reset of the whole");
  close_bench(&b);
}

/* Numbers that all ranks together send in a step on factors: a ring in each group, or what comes to the same, shared memory
 * of a node. */
static double step_numbers(const bench *b)
{
  shoal_ab_volume v = shoal_ab_volume_of(&b->s.layers, b->s.rank);
  double sum = 0;
  for (int g = 0; g < b->s.groups.groups; g++)
    sum += 2.0 * (ranks_of(b, g) - 1) * (double)(v.others + (shoal_ab_role_a(&b->s, g) ? v.a : v.b));
  return sum;
}

/* After a step: who shares a group holds the same bits of what is trained, and no two groups do. */
static void check_groups_alike(const bench *b, const float *w, size_t n)
{
  uint64_t mine = 14695981039346656037u, all[16];
  for (size_t i = 0; i < n * sizeof *w; i++) mine = (mine ^ ((const uint8_t *)w)[i]) * 1099511628211u;
  MPI_Allgather(&mine, 8, MPI_BYTE, all, 8, MPI_BYTE, MPI_COMM_WORLD);
  for (int i = 0; i < size; i++)
    CHECK_EQ(all[i] == mine, shoal_ab_group_of(&b->s.groups, i) == b->s.group, "ranks %d and %d after a step", rank, i);
}

/* Steps by the hooks, with made-up gradients: sums stay inside groups, who shares a group stays equal, what is frozen
 * stays, and between nodes nothing goes. */
static void check_steps(shoal_world *w, const char *options)
{
  bench b;
  shoal_status st = open_bench(&b, w, options);
  shoal_ab_state *s = &b.s;
  shoal_run *r = &b.r;
  if (st == SHOAL_OK) CHECK_OK(shoal_ab_split(r, s, false));
  for (int step = 0; st == SHOAL_OK && step < 2; step++) { /* steps 2 and 3 end without an event; 4 would reconcile */
    size_t trained = s->cut->trainable, n = s->cut->weights;
    float *frozen = malloc((n - trained + 1) * sizeof *frozen), *sum = calloc(trained, sizeof *sum);
    memcpy(frozen, r->form->params->w + trained, (n - trained) * sizeof *frozen);
    for (size_t i = 0; i < trained; i++) {
      r->form->params->g[i] = small_integer(i, rank);
      for (int k = s->groups.first[s->group]; k < s->groups.first[s->group + 1]; k++)
        sum[i] += small_integer(i, s->groups.rank[k]);
    }
    begin_bytes(&b);
    CHECK_OK(shoal_method_ab.grads_ready(r, s));
    CHECK_BYTES(sum, r->form->params->g, trained * sizeof *sum, "sums inside the group");
    uint64_t between = shoal_trace_counters(r->trace)->payload[SHOAL_LINK_BETWEEN];
    CHECK(!s->own || between == counted_before[SHOAL_LINK_BETWEEN], "bytes went between nodes in a step on factors");
    end_bytes(&b, "step on factors", step_numbers(&b));
    CHECK_OK(shoal_form_step(r->form, 0.1f));
    CHECK_BYTES(frozen, r->form->params->w + trained, (n - trained) * sizeof *frozen, "frozen factors");
    for (size_t i = trained; i < n; i++) {
      CHECK_EQ(r->form->optim->slot[0][i], 0, "state of frozen factors");
      CHECK_EQ(r->form->optim->slot[1][i], 0);
    }
    check_groups_alike(&b, r->form->params->w, trained);
    for (size_t i = 0; i < s->ranges; i++) s->age[i]++;
    free(frozen);
    free(sum);
  }
  close_bench(&b);
}

int main(void)
{
  mpi_start(&rank, &size);
  for (size_t i = 0; i < SHOAL_COUNT(topologies); i++) {
    if (topologies[i].size != size) continue;
    shoal_world *w = open_world(topologies[i].pretend, 0);
    check_modes(w);
    check_moments(w);
    check_steps(w, "method.group=0");
    check_steps(w, "method.mode=only-b method.algorithm=ring"); /* one group: all ranks are equal at all times */
    shoal_world_close(w);
  }
  return mpi_done();
}
