/* Dispatch and collect of independent subnets, all ranks in one process: what one rank packs another unpacks, and the
 * oracle is the whole model with shoal_model_gather and _scatter, the release's central parameter server.
 *
 * Tested are round trips, coverage, consistency, rounds without training, dormant numbers, bytes, placements, and the means
 * of ResIST's blocks. */
#include "base/mem.h"
#include "base/rng.h"
#include "method/ist/ist.h"
#include "nn_rig.h"

enum { MAX_PARTS = 8, ARRAYS = 2 };

/* All ranks of a run. */
typedef struct {
  const shoal_model *m;
  shoal_ist_plan *p;
  int parts;
  shoal_ist_deal *now, *next;
  shoal_model *part[MAX_PARTS];
  shoal_ist_view *view[MAX_PARTS];
  float *arena[MAX_PARTS][ARRAYS], *store[MAX_PARTS][ARRAYS];
} crew;

static float *numbers(size_t n)
{
  float *x = calloc(n + 1, sizeof *x);
  REQUIRE(x, "memory");
  return x;
}

static void make_parts(crew *c, const shoal_ist_deal *d, shoal_model **part)
{
  for (int r = 0; r < c->parts; r++) REQUIRE(shoal_ist_part(c->p, d, r, &part[r]) == SHOAL_OK, "part %d", r);
}

static void crew_open(crew *c, const shoal_model *m, shoal_ist_options o)
{
  *c = (crew){ .m = m, .parts = o.parts };
  REQUIRE(shoal_ist_plan_create(m, &o, &c->p) == SHOAL_OK, "plan");
  CHECK_OK(shoal_ist_deal_create(c->p, &c->now));
  CHECK_OK(shoal_ist_deal_create(c->p, &c->next));
  shoal_ist_draw(c->p, 0, c->now);
  make_parts(c, c->now, c->part);
  for (int r = 0; r < c->parts; r++) {
    CHECK_OK(shoal_ist_view_create(c->p, r, &c->view[r]));
    for (int a = 0; a < ARRAYS; a++) {
      c->arena[r][a] = numbers(c->part[r]->weights);
      c->store[r][a] = numbers(m->weights); /* enough for any holder of blocks */
    }
  }
}

static void crew_close(crew *c)
{
  for (int r = 0; r < c->parts; r++) {
    shoal_ist_view_destroy(c->view[r]);
    shoal_model_destroy(c->part[r]);
    for (int a = 0; a < ARRAYS; a++) {
      free(c->arena[r][a]);
      free(c->store[r][a]);
    }
  }
  shoal_ist_deal_destroy(c->p, c->now);
  shoal_ist_deal_destroy(c->p, c->next);
  shoal_ist_plan_destroy(c->p);
}

static size_t before(const uint64_t *sizes, int r)
{
  size_t sum = 0;
  for (int i = 0; i < r; i++) sum += sizes[i];
  return sum * ARRAYS;
}

/* The all-to-all: block `to` of rank `from`'s send buffer into block `from` of rank `to`'s; `collect` says which way. */
static void exchange(crew *c, bool collect, float **send, float **recv)
{
  for (int from = 0; from < c->parts; from++)
    for (int to = 0; to < c->parts; to++) {
      const uint64_t *sent = collect ? c->view[from]->to_home : c->view[from]->to_worker;
      const uint64_t *got = collect ? c->view[to]->to_worker : c->view[to]->to_home;
      CHECK_EQ(sent[to], got[from], "from rank %d to %d", from, to);
      memcpy(recv[to] + before(got, from), send[from] + before(sent, to), sent[to] * ARRAYS * sizeof(float));
    }
}

static void buffers(crew *c, bool worker, float **out)
{
  for (int r = 0; r < c->parts; r++)
    out[r] = numbers(ARRAYS * (worker ? c->view[r]->sum_home : c->view[r]->sum_worker));
}

static void release(crew *c, float **x)
{
  for (int r = 0; r < c->parts; r++) free(x[r]);
}

static void collect(crew *c)
{
  float *send[MAX_PARTS], *recv[MAX_PARTS];
  for (int r = 0; r < c->parts; r++) shoal_ist_view_set(c->view[r], c->now, c->now, c->part[r]);
  buffers(c, true, send);
  buffers(c, false, recv);
  for (int r = 0; r < c->parts; r++) {
    CHECK_EQ(c->view[r]->sum_home, c->part[r]->weights, "part %d", r);
    CHECK_LE(c->view[r]->sum_worker, shoal_ist_bundle_room(c->p, r), "rank %d", r);
    CHECK_LE(shoal_ist_store_size(c->p, c->now, r, NULL), shoal_ist_store_room(c->p, r), "store of rank %d", r);
    CHECK_OK(shoal_ist_pack_part(ref_backend(), c->view[r], ARRAYS, c->arena[r], send[r]));
  }
  exchange(c, true, send, recv);
  for (int r = 0; r < c->parts; r++)
    CHECK_OK(shoal_ist_unpack_store(ref_backend(), c->view[r], ARRAYS, c->store[r], recv[r]));
  release(c, send);
  release(c, recv);
}

/* Deals round t and sends everybody its part; holders of blocks are those of the round before. */
static void dispatch(crew *c, uint64_t t)
{
  float *send[MAX_PARTS], *recv[MAX_PARTS];
  shoal_model *part[MAX_PARTS];
  shoal_ist_draw(c->p, t, c->next);
  make_parts(c, c->next, part);
  for (int r = 0; r < c->parts; r++) {
    CHECK_EQ(part[r]->weights, c->part[r]->weights, "part %d changes its size", r);
    shoal_model_destroy(c->part[r]);
    c->part[r] = part[r];
    shoal_ist_view_set(c->view[r], c->now, c->next, part[r]);
    CHECK_LE(c->view[r]->sum_worker, shoal_ist_bundle_room(c->p, r), "rank %d", r);
    for (int a = 0; a < ARRAYS; a++) memset(c->arena[r][a], 0xff, part[r]->weights * sizeof(float)); /* NaN */
  }
  buffers(c, false, send);
  buffers(c, true, recv);
  for (int r = 0; r < c->parts; r++)
    CHECK_OK(shoal_ist_pack_store(ref_backend(), c->view[r], ARRAYS, c->store[r], send[r]));
  exchange(c, false, send, recv);
  for (int r = 0; r < c->parts; r++)
    CHECK_OK(shoal_ist_unpack_part(ref_backend(), c->view[r], ARRAYS, c->arena[r], recv[r]));
  release(c, send);
  release(c, recv);
  shoal_ist_deal *swap = c->now;
  c->now = c->next;
  c->next = swap;
}

static void start(crew *c, float *const full[ARRAYS])
{
  for (int r = 0; r < c->parts; r++)
    for (int a = 0; a < ARRAYS; a++) {
      CHECK_OK(shoal_ist_store_read(ref_backend(), c->p, c->now, r, full[a], c->store[r][a]));
      CHECK_OK(shoal_model_gather(ref_backend(), c->m, c->part[r], full[a], c->arena[r][a]));
    }
}

static void check_same(const char *what, const float *a, const float *b, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (memcmp(&a[i], &b[i], sizeof *a) != 0) {
      CHECK(false, "%s: element %zu of %zu is %g, not %g", what, i, n, (double)a[i], (double)b[i]);
      return;
    }
}

/* What parts trained, put together by the central server: scattered, or the mean of those who trained it. */
static void central(const crew *c, int array, float *full)
{
  size_t n = c->m->weights;
  double *sum = calloc(n, sizeof *sum);
  int *owners = calloc(n, sizeof *owners);
  float *one = numbers(n), *mark = numbers(n), *ones = numbers(n);
  for (size_t i = 0; i < n; i++) ones[i] = 1;
  for (int r = 0; r < c->parts; r++) {
    memset(mark, 0, n * sizeof *mark);
    CHECK_OK(shoal_model_scatter(ref_backend(), c->m, c->part[r], c->arena[r][array], one));
    CHECK_OK(shoal_model_scatter(ref_backend(), c->m, c->part[r], ones, mark));
    for (size_t i = 0; i < n; i++)
      if (mark[i] == 1) sum[i] += one[i], owners[i]++;
  }
  for (size_t i = 0; i < n; i++)
    if (owners[i]) full[i] = (float)(sum[i] / owners[i]);
  /* Written by one part at most where units are cut on a side; dormant only where both sides are */
  for (int k = 0; k < c->m->params; k++) {
    const shoal_ist_tensor *t = &c->p->tensor[k];
    const shoal_param *q = &c->m->param[k];
    size_t dormant = 0, expected = 0;
    for (size_t i = q->offset; i < q->offset + q->count; i++) {
      dormant += owners[i] == 0;
      bool fits = t->home == SHOAL_IST_SLICE ? owners[i] == c->parts : t->home == SHOAL_IST_BLOCK || owners[i] <= 1;
      if (!fits) CHECK(false, "%s: trained by %d parts", q->name, owners[i]);
    }
    if (t->cut.row_space >= 0 && t->cut.col_space >= 0 && !c->p->o.blocks) {
      size_t active = 0;
      for (int r = 0; r < c->parts; r++)
        for (int j = 0; j < c->part[r]->params; j++)
          if (c->part[r]->param[j].full_id == k) active += c->part[r]->param[j].count;
      expected = q->count - active;
      if (t->rows % c->parts == 0 && t->cols % c->parts == 0)
        CHECK_EQ(active * (size_t)c->parts, q->count, "%s: %zu active", q->name, active);
    }
    CHECK_EQ(dormant, expected, "%s", q->name);
  }
  free(sum);
  free(owners);
  free(one);
  free(mark);
  free(ones);
}

static void assemble(const crew *c, int array, float *full)
{
  size_t sum = 0;
  memset(full, 0xff, c->m->weights * sizeof *full);
  for (int r = 0; r < c->parts; r++) {
    sum += shoal_ist_store_size(c->p, c->now, r, NULL);
    CHECK_OK(shoal_ist_store_write(ref_backend(), c->p, c->now, r, c->store[r][array], full));
  }
  CHECK_EQ(sum, c->m->weights);
}

/* Rounds without training leave every number as it is.  Rounds with it agree with the central server. */
static void check_rounds(const shoal_model *m, shoal_ist_options o)
{
  crew c;
  char what[96];
  float *full[ARRAYS], *now = numbers(m->weights);
  crew_open(&c, m, o);
  snprintf(what, sizeof what, "%s, %d parts%s%s", m->name, o.parts, o.stratified ? ", stratified" : "",
           o.blocks ? ", blocks" : "");
  for (int a = 0; a < ARRAYS; a++) {
    full[a] = numbers(m->weights);
    rig_fill(full[a], m->weights, 40 + (uint64_t)a);
  }
  start(&c, full);
  for (uint64_t t = 1; t < 7; t++) {
    bool trained = t > 3;
    for (int r = 0; trained && r < c.parts; r++)
      for (int a = 0; a < ARRAYS; a++)
        for (size_t i = 0; i < c.part[r]->weights; i++)
          c.arena[r][a][i] = c.arena[r][a][i] * 0.75f + (float)r * 0.1f + (float)(i % 7);
    for (int a = 0; trained && a < ARRAYS; a++) central(&c, a, full[a]);
    collect(&c);
    for (int a = 0; a < ARRAYS; a++) {
      assemble(&c, a, now);
      check_same(what, now, full[a], m->weights);
    }
    dispatch(&c, t);
    for (int r = 0; r < c.parts; r++)
      for (int a = 0; a < ARRAYS; a++) {
        float *want = numbers(c.part[r]->weights);
        CHECK_OK(shoal_model_gather(ref_backend(), m, c.part[r], full[a], want));
        check_same(what, c.arena[r][a], want, c.part[r]->weights);
        free(want);
      }
  }
  for (int a = 0; a < ARRAYS; a++) free(full[a]);
  free(now);
  crew_close(&c);
}

/* A rank starts with the numbers the whole model would start with. */
static void check_start(const shoal_model *m, shoal_ist_options o)
{
  crew c;
  float *full = numbers(m->weights), *store = numbers(m->weights), *want = numbers(m->weights);
  crew_open(&c, m, o);
  CHECK_OK(shoal_model_init(ref_backend(), m, 8, full, NULL));
  for (int r = 0; r < c.parts; r++) {
    CHECK_OK(shoal_ist_store_read(ref_backend(), c.p, c.now, r, full, want));
    memcpy(store, want, m->weights * sizeof *store); /* slices are anybody's until a collect */
    size_t n = shoal_ist_store_size(c.p, c.now, r, NULL), *offset = malloc((size_t)m->params * sizeof *offset);
    shoal_ist_store_size(c.p, c.now, r, offset);
    for (int k = 0; k < m->params; k++)
      if (c.p->tensor[k].home != SHOAL_IST_SLICE) store[offset[k]] = -1;
    CHECK_OK(shoal_ist_store_init(c.p, r, 8, store));
    check_same("start", store, want, n);
    free(offset);
  }
  free(full);
  free(store);
  free(want);
  crew_close(&c);
}

/* Where numbers go, literally: W[i][j] = 1000 i + j, scale[i] = i; rows of W2 name the units of its norm, columns of W3 the same. */
static void check_consistency(const shoal_model *m, shoal_ist_options o)
{
  crew c;
  float *full[ARRAYS] = { numbers(m->weights), numbers(m->weights) };
  crew_open(&c, m, o);
  for (int k = 0; k < m->params; k++) {
    const shoal_param *q = &m->param[k];
    int64_t cols = q->shape.ndim > 1 ? q->shape.dim[1] : 1;
    for (size_t i = 0; i < q->count; i++)
      full[0][q->offset + i] = (float)(q->shape.ndim > 1 ? (int64_t)i / cols * 1000 + (int64_t)i % cols : (int64_t)i);
  }
  start(&c, full);
  collect(&c);
  dispatch(&c, 9);
  for (int r = 0; r < c.parts; r++) {
    const float *unit[2] = { NULL, NULL };
    for (int k = 0; k < c.part[r]->params; k++) {
      const shoal_param *q = &c.part[r]->param[k];
      const float *w = c.arena[r][0] + q->offset;
      if (strcmp(q->name, "norm1.weight") == 0) unit[0] = w;
      if (strcmp(q->name, "norm2.weight") == 0) unit[1] = w;
    }
    for (int k = 0; k < c.part[r]->params; k++) {
      const shoal_param *q = &c.part[r]->param[k];
      int layer = q->name[2] - '0';
      if (strncmp(q->name, "fc", 2) != 0 || q->shape.ndim < 2) continue;
      for (int64_t i = 0; i < q->shape.dim[0]; i++)
        for (int64_t j = 0; j < q->shape.dim[1]; j++) {
          float row = layer < 3 ? unit[layer - 1][i] : (float)i, col = layer > 1 ? unit[layer - 2][j] : (float)j;
          float got = c.arena[r][0][q->offset + (size_t)(i * q->shape.dim[1] + j)];
          if (got != 1000 * row + col)
            CHECK(false, "rank %d %s[%d][%d] is %g, not %g", r, q->name, (int)i, (int)j, (double)got,
                  (double)(1000 * row + col));
        }
    }
  }
  free(full[0]);
  free(full[1]);
  crew_close(&c);
}

/* shoal_ist_count against counting element by element who is home to what and who trains it. */
static void check_counts(const shoal_model *m, shoal_ist_options o)
{
  crew c;
  float *home = numbers(m->weights), *mark = numbers(m->weights), *x = numbers(m->weights);
  crew_open(&c, m, o);
  for (int r = 0; r < c.parts; r++) {
    for (size_t i = 0; i < m->weights; i++) x[i] = (float)r;
    CHECK_OK(shoal_ist_store_write(ref_backend(), c.p, c.now, r, x, home));
  }
  shoal_ist_draw(c.p, 5, c.next);
  for (int s = 0; s < c.parts; s++) {
    shoal_model *part = NULL;
    CHECK_OK(shoal_ist_part(c.p, c.next, s, &part));
    for (size_t i = 0; i < m->weights; i++) x[i] = 1, mark[i] = 0;
    CHECK_OK(shoal_model_scatter(ref_backend(), m, part, x, mark));
    for (int r = 0; r < c.parts; r++) {
      uint64_t n = 0, got = shoal_ist_count(c.p, c.now, c.next, r, s);
      for (size_t i = 0; i < m->weights; i++) n += mark[i] == 1 && home[i] == (float)r;
      CHECK_EQ(n, got, "%s: home %d, part %d", m->name, r, s);
    }
    shoal_model_destroy(part);
  }
  free(home);
  free(mark);
  free(x);
  crew_close(&c);
}

static void check_all(const shoal_model *m, shoal_ist_options o)
{
  for (o.parts = 1; o.parts <= 5; o.parts++) {
    check_rounds(m, o);
    check_counts(m, o);
    if (!o.blocks) check_start(m, o);
  }
}

static void check_model(const char *name, const char *options, const shoal_shape *input)
{
  shoal_model *m = rig_model(name, options, input, 4);
  check_all(m, (shoal_ist_options){ .seed = 21 });
  check_all(m, (shoal_ist_options){ .seed = 21, .stratified = true });
  shoal_model_destroy(m);
}

int main(void)
{
  const shoal_shape small = { 3, { 3, 8, 8 } }, image = { 3, { 3, 32, 32 } };
  check_model("mlp", "model.widths=[11] model.norm=batch", &SHOAL_SHAPE(2, 3, 3));
  check_model("mlp", "model.widths=[11,7,9] model.norm=batch", &SHOAL_SHAPE(2, 3, 3));
  check_model("mlp", "model.widths=[25,30]", &SHOAL_SHAPE(5));
  check_model("vgg16", "model.width=0.08", &image);
  check_model("resnet20", "", &small);
  const char *transformer = "model.width=10 model.heads=5 model.depth=1";
  check_model("gpt", transformer, &SHOAL_SHAPE(3));
  check_model("vit", transformer, &small);
  const char *const hand[] = { "wide", "chain", "branches", "groups" };
  for (int i = 0; i < 4; i++) {
    shoal_model *m = rig_network(hand[i]);
    for (int parts = 1; parts <= 2; parts++) {
      check_rounds(m, (shoal_ist_options){ .parts = parts });
      check_counts(m, (shoal_ist_options){ .parts = parts });
      check_start(m, (shoal_ist_options){ .parts = parts });
    }
    shoal_model_destroy(m);
  }
  shoal_model *m = rig_model("mlp", "model.widths=[12,9] model.norm=batch", &SHOAL_SHAPE(5), 4);
  for (int parts = 1; parts <= 4; parts++)
    for (int stratified = 0; stratified < 2; stratified++)
      check_consistency(m, (shoal_ist_options){ .parts = parts, .stratified = stratified });
  shoal_model_destroy(m);
  m = rig_model("resnet20", "", &small, 4);
  check_all(m, (shoal_ist_options){ .blocks = true });
  check_all(m, (shoal_ist_options){ .blocks = true, .min_blocks = 4 });
  check_all(m, (shoal_ist_options){ .blocks = true, .stages = (const int64_t[]){ 1 }, .n_stages = 1 });
  shoal_model_destroy(m);
  return check_done();
}
