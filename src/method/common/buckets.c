/* See buckets.h. */
#include "method/common/buckets.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  size_t offset, count;
  size_t left; /* elements not yet announced in this step */
  shoal_exchange *exchange;
} bucket;

struct shoal_buckets {
  const shoal_form *form; /* borrowed */
  shoal_group *group;
  const char *title, *name; /* borrowed */
  shoal_wire wire;
  shoal_sum_algorithm algorithm;    /* as requested */
  size_t n, next;                   /* next: the first bucket not yet started */
  bucket *bucket;                   /* [n] in order of completion in backward */
  bool *ends;                       /* [ranges of the plan] the last of a bucket */
  uint64_t bytes[SHOAL_LINK_COUNT]; /* per step */
};

shoal_wire shoal_wire_wanted(const shoal_config *c)
{
  const char *name = shoal_config_string(c, "method.wire");
  for (shoal_wire w = SHOAL_WIRE_F32; w <= SHOAL_WIRE_F16; w++)
    if (strcmp(shoal_wire_name(w), name) == 0) return w;
  return SHOAL_WIRE_F32;
}

shoal_sum_algorithm shoal_algorithm_wanted(const shoal_config *c)
{
  const char *name = shoal_config_string(c, "method.algorithm");
  for (shoal_sum_algorithm a = SHOAL_SUM_AUTO; a < SHOAL_SUM_ALGORITHMS; a++)
    if (strcmp(shoal_sum_name(a), name) == 0) return a;
  return SHOAL_SUM_AUTO;
}

/* ------------------------------------------------------------------------------------------------------- planning */

/* Walks the announcements in order and closes a bucket when it is full.  The order must keep every bucket contiguous;
 * backward order does, since the arena is laid out in forward order. */
static shoal_status cut(const shoal_config *c, shoal_buckets *s)
{
  const shoal_range *range;
  size_t n = shoal_plan_ranges(s->form->plan, &range);
  SHOAL_TRY(SHOAL_ALLOC(n + 1, &s->bucket)); /* at most one bucket per range */
  SHOAL_TRY(SHOAL_ALLOC(n, &s->ends));
  double limit = shoal_config_float(c, "method.first_bucket") * 0x1p20;
  for (size_t i = 0; i < n; i++) {
    bucket *b = &s->bucket[s->n];
    if (b->count == 0) {
      b->offset = range[i].offset;
    } else {
      SHOAL_CHECK(range[i].offset + range[i].count == b->offset || range[i].offset == b->offset + b->count,
                  SHOAL_ERR_INTERNAL, "gradient ranges of the plan are not contiguous at element %zu", range[i].offset);
      b->offset = SHOAL_MIN(b->offset, range[i].offset);
    }
    b->count += range[i].count;
    if ((double)b->count * sizeof(float) >= limit) {
      s->ends[i] = true;
      s->n++;
      limit = shoal_config_float(c, "method.bucket") * 0x1p20;
    }
  }
  if (s->bucket[s->n].count) s->n++;
  return s->form->plans ? shoal_plans_end_parts(s->form->plans, n, s->ends) : SHOAL_OK;
}

static void rewind_all(shoal_buckets *s)
{
  s->next = 0;
  for (size_t i = 0; i < s->n; i++) s->bucket[i].left = s->bucket[i].count;
}

static shoal_status plan_one(shoal_buckets *s, size_t i, shoal_sum_algorithm algorithm)
{
  char name[64];
  snprintf(name, sizeof name, "%s %zu", s->name, i);
  return shoal_exchange_create_sum(s->group, name, s->bucket[i].count, s->wire, algorithm, &s->bucket[i].exchange);
}

static void sum_bytes(shoal_buckets *s)
{
  memset(s->bytes, 0, sizeof s->bytes);
  for (size_t i = 0; i < s->n; i++) {
    uint64_t bytes[SHOAL_LINK_COUNT];
    shoal_exchange_bytes(s->group, s->bucket[i].count, s->wire, shoal_exchange_algorithm(s->bucket[i].exchange), bytes);
    for (int link = 0; link < SHOAL_LINK_COUNT; link++) s->bytes[link] += bytes[link];
  }
}

/* "exchange: 3 buckets, 9.2 MiB as f32: 1 leaders, 2 two-level" */
static void print_choice(const shoal_buckets *s)
{
  if (shoal_group_size(s->group) == 1) return;
  size_t count[SHOAL_SUM_ALGORITHMS] = { 0 }, elements = 0;
  shoal_str text = { 0 };
  char size[32];
  for (size_t i = 0; i < s->n; i++) {
    count[shoal_exchange_algorithm(s->bucket[i].exchange)]++;
    elements += s->bucket[i].count;
  }
  for (int a = SHOAL_SUM_ALGORITHMS - 1; a > SHOAL_SUM_AUTO; a--)
    if (count[a]) shoal_str_add(&text, "%s %zu %s", text.text ? "," : "", count[a], shoal_sum_name(a));
  shoal_info("%s: %zu bucket%s, %s as %s:%s", s->title, s->n, s->n == 1 ? "" : "s",
             shoal_format_bytes((double)shoal_wire_bytes(s->wire, elements), size, sizeof size),
             shoal_wire_name(s->wire), text.text ? text.text : " nothing");
  shoal_str_free(&text);
}

shoal_status shoal_buckets_create(const shoal_config *c, const shoal_form *f, shoal_group *g, const char *title,
                                  const char *name, shoal_wire wire, shoal_sum_algorithm algorithm, shoal_buckets **out)
{
  shoal_buckets *s = NULL;
  shoal_status st = SHOAL_ALLOC(1, &s);
  if (st == SHOAL_OK) {
    *s = (shoal_buckets){ .form = f, .group = g, .title = title, .name = name, .wire = wire, .algorithm = algorithm };
    st = cut(c, s);
  }
  SHOAL_TRY_GOTO(st, shoal_group_agree(g, st), fail);
  for (size_t i = 0; i < s->n; i++) SHOAL_TRY_GOTO(st, plan_one(s, i, algorithm), fail);
  sum_bytes(s);
  print_choice(s);
  rewind_all(s);
  *out = s;
  return SHOAL_OK;
fail:
  shoal_buckets_destroy(s);
  return st;
}

void shoal_buckets_destroy(shoal_buckets *s)
{
  if (!s) return;
  for (size_t i = 0; i < s->n; i++) shoal_exchange_destroy(s->bucket[i].exchange);
  free(s->bucket);
  free(s->ends);
  free(s);
}

/* ------------------------------------------------------------------------------------------------------- the step */

static shoal_status start_ready(shoal_buckets *s, uint64_t step)
{
  for (; s->next < s->n && s->bucket[s->next].left == 0; s->next++) {
    const bucket *b = &s->bucket[s->next];
    shoal_exchange_stamp(b->exchange, step);
    SHOAL_TRY(shoal_exchange_start(b->exchange, s->form->params->g + b->offset, shoal_backend_mark(s->form->backend)));
  }
  return SHOAL_OK;
}

shoal_status shoal_buckets_announce(shoal_buckets *s, uint64_t step, size_t offset, size_t count)
{
  size_t i = s->next;
  while (i < s->n && (offset < s->bucket[i].offset || offset >= s->bucket[i].offset + s->bucket[i].count)) i++;
  assert(i < s->n && s->bucket[i].left >= count);
  s->bucket[i].left -= count;
  return start_ready(s, step);
}

shoal_status shoal_buckets_finish(shoal_buckets *s, uint64_t step)
{
  for (size_t i = s->next; i < s->n; i++) s->bucket[i].left = 0;
  SHOAL_TRY(start_ready(s, step));
  for (size_t i = 0; i < s->n; i++) SHOAL_TRY(shoal_exchange_wait(s->bucket[i].exchange));
  rewind_all(s);
  return SHOAL_OK;
}

shoal_status shoal_buckets_grads_ready(shoal_buckets *s, shoal_run *r)
{
  shoal_buckets_add_bytes(s, r->sent);
  r->shares = s->group;
  return shoal_buckets_finish(s, r->step);
}

void shoal_buckets_add_bytes(const shoal_buckets *s, uint64_t out[SHOAL_LINK_COUNT])
{
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) out[link] += s->bytes[link];
}

/* ---------------------------------------------------------------------------------------------------- checkpoints */

static shoal_status save(const shoal_buckets *s, shoal_ckpt_writer *c, const char *name, bool own)
{
  int32_t *chosen;
  uint64_t n = s->n;
  SHOAL_TRY(SHOAL_ALLOC(s->n, &chosen));
  for (size_t i = 0; i < s->n; i++) chosen[i] = (int32_t)shoal_exchange_algorithm(s->bucket[i].exchange);
  if (own)
    shoal_ckpt_put_replica(c, name, SHOAL_I32, n, chosen);
  else
    shoal_ckpt_put(c, name, SHOAL_I32, 1, &n, chosen);
  free(chosen);
  return SHOAL_OK;
}

shoal_status shoal_buckets_save(const shoal_buckets *s, shoal_ckpt_writer *c, const char *name)
{
  return save(s, c, name, false);
}

shoal_status shoal_buckets_save_own(const shoal_buckets *s, shoal_ckpt_writer *c, const char *name)
{
  return save(s, c, name, true);
}

static shoal_status adopt(shoal_buckets *s, const int32_t *chosen)
{
  bool changed = false;
  for (size_t i = 0; i < s->n; i++) {
    bucket *b = &s->bucket[i];
    shoal_sum_algorithm then = (shoal_sum_algorithm)chosen[i];
    if (chosen[i] <= SHOAL_SUM_AUTO || chosen[i] >= SHOAL_SUM_ALGORITHMS ||
        then == shoal_exchange_algorithm(b->exchange))
      continue;
    shoal_exchange_destroy(b->exchange);
    b->exchange = NULL;
    SHOAL_TRY(plan_one(s, i, then));
    changed = true;
  }
  if (!changed) return SHOAL_OK;
  sum_bytes(s);
  print_choice(s);
  return SHOAL_OK;
}

shoal_status shoal_buckets_load(shoal_buckets *s, const shoal_ckpt *c, const char *name)
{
  shoal_dtype type;
  int ndim;
  uint64_t dims[8];
  if (s->algorithm != SHOAL_SUM_AUTO || !shoal_ckpt_has(c, name)) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_shape(c, name, &type, &ndim, dims));
  if (ndim != 1 || dims[0] != s->n) return SHOAL_OK; /* bucket sizes have changed */
  int32_t *chosen;
  SHOAL_TRY(SHOAL_ALLOC(s->n, &chosen));
  shoal_status st = shoal_ckpt_get(c, name, SHOAL_I32, s->n, chosen);
  if (st == SHOAL_OK) st = adopt(s, chosen);
  free(chosen);
  return st;
}
