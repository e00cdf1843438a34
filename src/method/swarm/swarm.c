/* swarm: every rank trains its own model and now and then averages it with that of a random partner.
 *
 *     rank 0   step step step step · step step step step ·          no rounds, no barrier: after its local steps a
 *     rank 1   step step · step step step step · step step          rank asks one neighbour, and goes on
 *     rank 2   step · step step step step · step step step
 *
 * This file connects the swarm (swarm.h) to the loop: options, times of interactions, checkpoints, and the definition
 * of "the model": the mean over ranks with all updates, mean(c - b + x); without copies, mean(x).  It is the mean that
 * would result if all ranks folded now, so it includes pending updates, and interactions do not change it.
 *
 * Source: Nadiradze, Sabour, Davies, Li, Alistarh, NeurIPS 2021; specification in docs/methods/swarm.md. */
#include "method/swarm/swarm.h"
#include "base/log.h"
#include "base/mem.h"
#include "method/common/average.h"
#include "method/method.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  shoal_swarm *swarm;
  shoal_swarm_lockstep *lockstep; /* one of the two, if there is more than one rank */
  shoal_swarm_pairs *pairs;
  shoal_model_sum models; /* for assemble */
} swarm_state;

static const shoal_option options[] = {
  { "method.variant", SHOAL_OPT_ENUM, "nonblocking", NULL, "nonblocking|pull|blocking|nonblocking-symmetric",
    "How two ranks average: by copies, without waiting; only the initiator; both wait; by copies, both fold.",
    "Nadiradze et al., NeurIPS 2021" },
  { "method.local_steps", SHOAL_OPT_INT, "1", "steps", "[1,1000000000]",
    "H: local steps before a rank starts its next interaction; larger than the run: no interactions.",
    "Nadiradze et al., NeurIPS 2021" },
  { "method.local_steps_draw", SHOAL_OPT_ENUM, "fixed", NULL, "fixed|geometric",
    "Always that many local steps, or a random number with that mean.", "Nadiradze et al., NeurIPS 2021 (analysis)" },
  { "method.overlap", SHOAL_OPT_INT, "8", "steps", "[1,1000000000]",
    "Steps a rank may take while its interaction is not over; then it waits, which bounds the drift on slow links.",
    "shoal" },
  { "method.graph", SHOAL_OPT_ENUM, "complete", NULL, "complete|ring|torus|random", "Which ranks may interact.",
    "shoal" },
  { "method.edge_probability", SHOAL_OPT_FLOAT, "0.5", NULL, "[0,1]",
    "Probability of an edge; each rank has one more, to a random one below it.", "shoal",
    .when = "method.graph=random" },
  { "method.bits", SHOAL_OPT_ENUM, "8", "bits", "0|4|8|14|16",
    "Bits per number on the wire, by the modular quantiser; 0: f32.", "Davies et al., ICLR 2021" },
  { "method.rounding", SHOAL_OPT_ENUM, "nearest", NULL, "nearest|stochastic",
    "Round to the nearest grid point, or stochastically without bias.", "Davies et al., ICLR 2021" },
  { "method.deterministic", SHOAL_OPT_BOOL, "false", NULL, NULL,
    "All ranks step together and compute the same schedule: bitwise reproducible, but ranks wait for each other.",
    "shoal" },
  { "method.drop_after", SHOAL_OPT_FLOAT, "60", "s", "(0,inf)",
    "A partner that does not answer a ping for this long is dropped until it answers again.", "shoal" },
  { "method.on_lost", SHOAL_OPT_ENUM, "drop", NULL, "drop|stop",
    "When a partner is dropped: continue without it, or end the run (exit 4).", "shoal" },
  { .name = NULL }
};

/* Index of an option's value in its list of words, in the order of the option table. */
static int choice(const shoal_config *c, const char *name, const char *const *words)
{
  int i = 0;
  while (words[i] && strcmp(words[i], shoal_config_string(c, name)) != 0) i++;
  return i;
}

static shoal_swarm_rules read_rules(const shoal_run *r)
{
  static const char *const variants[] = { "blocking", "nonblocking-symmetric", "pull", "nonblocking", NULL };
  static const char *const graphs[] = { "complete", "ring", "torus", "random", NULL };
  const shoal_config *c = r->config;
  return (shoal_swarm_rules){
    .variant = (shoal_swarm_variant)choice(c, "method.variant", variants),
    .lockstep = shoal_config_bool(c, "method.deterministic"),
    .bits = atoi(shoal_config_string(c, "method.bits")),
    .stochastic = strcmp(shoal_config_string(c, "method.rounding"), "stochastic") == 0,
    .geometric = strcmp(shoal_config_string(c, "method.local_steps_draw"), "geometric") == 0,
    .h = (uint64_t)shoal_config_int(c, "method.local_steps"),
    .overlap = (uint64_t)shoal_config_int(c, "method.overlap"),
    .graph = (shoal_graph_kind)choice(c, "method.graph", graphs),
    .p = shoal_config_float(c, "method.edge_probability"),
    .seed = r->seed,
    .drop_after_s = shoal_config_float(c, "method.drop_after"),
    .stop_on_lost = strcmp(shoal_config_string(c, "method.on_lost"), "stop") == 0,
  };
}

static void print_rules(const shoal_run *r, const shoal_swarm *s)
{
  if (s->size == 1) return;
  char size[32];
  shoal_info("swarm: %s, %s graph, an interaction after %s%lld local step%s, %s per parcel",
             shoal_config_string(r->config, "method.variant"), shoal_config_string(r->config, "method.graph"),
             s->rules.geometric ? "about " : "", (long long)s->rules.h, s->rules.h == 1 ? "" : "s",
             shoal_format_bytes((double)shoal_swarm_parcel_bytes(s->rules.bits, s->node.n), size, sizeof size));
}

static shoal_status swarm_open(shoal_run *r, void *state)
{
  swarm_state *m = state;
  shoal_swarm_rules rules = read_rules(r);
  m->models = (shoal_model_sum){ .backend = r->backend, .control = r->control };
  SHOAL_TRY(shoal_swarm_create(r->world, r->backend, &rules, r->form->params->w, r->form->params->n, &m->swarm));
  m->swarm->trace = r->trace;
  m->swarm->op = shoal_trace_op(r->trace, "interaction");
  print_rules(r, m->swarm);
  if (m->swarm->size == 1) return SHOAL_OK;
  if (rules.lockstep) return shoal_swarm_lockstep_create(m->swarm, &m->lockstep);
  r->meet.kind = SHOAL_MEET_FREELY;
  return shoal_swarm_pairs_create(m->swarm, &m->pairs);
}

static void swarm_close(shoal_run *r, void *state)
{
  swarm_state *m = state;
  shoal_model_sum_fini(&m->models);
  shoal_swarm_pairs_destroy(m->pairs);
  shoal_swarm_lockstep_destroy(m->lockstep);
  shoal_swarm_destroy(m->swarm);
}

/* The swarm counts bytes itself, since it answers others at any time. */
static void take_bytes(shoal_run *r, shoal_swarm *s)
{
  for (int link = 0; link < SHOAL_LINK_COUNT; link++) r->sent[link] += s->sent[link];
  memset(s->sent, 0, sizeof s->sent);
}

static shoal_status swarm_weights_ready(shoal_run *r, void *state)
{
  swarm_state *m = state;
  bool changed = false;
  shoal_status st = SHOAL_OK;
  if (m->lockstep) st = shoal_swarm_lockstep_step(m->lockstep, r->step, &changed);
  if (m->pairs) st = shoal_swarm_pairs_step(m->pairs, &changed);
  r->form->params->version += changed;
  take_bytes(r, m->swarm);
  return st;
}

static shoal_status swarm_settle(shoal_run *r, void *state, shoal_settle stage)
{
  swarm_state *m = state;
  bool changed = false;
  if (!m->pairs) return SHOAL_OK; /* in lockstep nothing is in flight between steps */
  shoal_status st = stage == SHOAL_ARRIVING   ? shoal_swarm_pairs_arrive(m->pairs, &changed)
                    : stage == SHOAL_GATHERED ? shoal_swarm_pairs_gathered(m->pairs, &changed)
                                              : shoal_swarm_pairs_leave(m->pairs);
  r->form->params->version += changed;
  take_bytes(r, m->swarm);
  return st;
}

/* ---------------------------------------------------------------------------------------------------- the model */

static shoal_status swarm_assemble(shoal_run *r, void *state, float *weights, float *stats)
{
  swarm_state *m = state;
  const shoal_swarm_node *a = &m->swarm->node;
  double share = 1.0 / m->swarm->size;
  const float *common = a->b ? a->c : a->x, *base = a->b ? a->b : a->x; /* without copies nothing is pending */
  SHOAL_TRY(r->backend->ops->scale(r->backend, a->n, share, a->x, common, base, r->form->params->g));
  SHOAL_TRY(shoal_model_sum_take(&m->models, r->form, weights));
  return shoal_mean_stats(r->backend, r->control, r->model, r->form->params->stats, stats);
}

/* ------------------------------------------------------------------------------------------------- checkpoints */

#define COMMON "swarm_common"
#define BASE   "swarm_base"

/* Pending updates first: they are exactly 0 where there are none. */
static void swarm_sum(const shoal_run *r, const void *state, shoal_ckpt_sum *out)
{
  const shoal_swarm *s = ((const swarm_state *)state)->swarm;
  (void)r;
  *out = (shoal_ckpt_sum){ .weight = 1.0 / s->size };
  if (s->node.b) {
    out->term[out->terms].name = COMMON;
    out->term[out->terms++].factor = 1;
    out->term[out->terms].name = BASE;
    out->term[out->terms++].factor = -1;
  }
  out->term[out->terms].name = "weights";
  out->term[out->terms++].factor = 1;
}

enum { BEGUN, SINCE, TURNS, MET, SERVED, PARCELS, FULL_PARCELS, RESENT_BYTES, COUNTS };

static shoal_status swarm_save(shoal_run *r, void *state, shoal_ckpt_writer *c)
{
  const swarm_state *m = state;
  const shoal_swarm *s = m->swarm;
  int64_t counts[COUNTS] = {
    [BEGUN] = (int64_t)s->begun[s->rank],
    [SINCE] = (int64_t)s->since[s->rank],
    [TURNS] = (int64_t)s->turns,
    [MET] = (int64_t)s->met,
    [SERVED] = (int64_t)s->served,
    [PARCELS] = (int64_t)s->parcels,
    [FULL_PARCELS] = (int64_t)s->full_parcels,
    [RESENT_BYTES] = (int64_t)s->resent_bytes,
  };
  shoal_ckpt_put_replica(c, "swarm_counts", SHOAL_I64, COUNTS, counts);
  shoal_ckpt_put_replica(c, "swarm_distance", SHOAL_F64, s->blocks, s->distance);
  if (!s->node.b) return SHOAL_OK;
  shoal_ckpt_put_arena_replica(c, s->backend, COMMON, s->node.n, s->node.c);
  shoal_ckpt_put_arena_replica(c, s->backend, BASE, s->node.n, s->node.b);
  return SHOAL_OK;
}

static shoal_status load_counts(shoal_swarm *s, const shoal_ckpt *c)
{
  char name[64];
  for (int k = 0; k < s->size; k++) {
    int64_t counts[COUNTS];
    snprintf(name, sizeof name, "replica/%d/swarm_counts", k);
    SHOAL_TRY(shoal_ckpt_get_counts(c, name, COUNTS, 0, SHOAL_CKPT_MOST, counts));
    s->begun[k] = (uint64_t)counts[BEGUN];
    s->since[k] = (uint64_t)counts[SINCE];
    if (k != s->rank) continue;
    s->turns = (uint64_t)counts[TURNS];
    s->met = (uint64_t)counts[MET];
    s->served = (uint64_t)counts[SERVED];
    s->parcels = (uint64_t)counts[PARCELS];
    s->full_parcels = (uint64_t)counts[FULL_PARCELS];
    s->resent_bytes = (uint64_t)counts[RESENT_BYTES];
  }
  snprintf(name, sizeof name, "replica/%d/swarm_distance", s->rank);
  return shoal_swarm_load_distances(s, c, name);
}

/* For a checkpoint of a variant with copies, in one without: pending updates are folded into the live model. */
static shoal_status fold_copies(shoal_swarm *s, const shoal_ckpt *c, const char *common, const char *base, float *room)
{
  const shoal_backend_ops *ops = s->backend->ops;
  SHOAL_TRY(shoal_ckpt_get_arena(c, s->backend, common, s->node.n, room));
  SHOAL_TRY(ops->add(s->backend, s->node.n, room, s->node.x));
  SHOAL_TRY(shoal_ckpt_get_arena(c, s->backend, base, s->node.n, room));
  return ops->axpby(s->backend, s->node.n, -1, room, 1, s->node.x);
}

/* Same layout: every rank resumes its own state.  Another one: all start from the mean, loaded by the loop. */
static shoal_status swarm_load(shoal_run *r, void *state, const shoal_ckpt *c, bool same_layout)
{
  swarm_state *m = state;
  shoal_swarm *s = m->swarm;
  char common[64], base[64];
  if (same_layout) {
    SHOAL_TRY(load_counts(s, c));
    snprintf(common, sizeof common, "replica/%d/" COMMON, s->rank);
    snprintf(base, sizeof base, "replica/%d/" BASE, s->rank);
    bool saved = shoal_ckpt_has(c, common);
    if (saved && s->node.b) {
      SHOAL_TRY(shoal_ckpt_get_arena(c, s->backend, common, s->node.n, s->node.c));
      return shoal_ckpt_get_arena(c, s->backend, base, s->node.n, s->node.b);
    }
    if (saved) SHOAL_TRY(fold_copies(s, c, common, base, r->form->params->g));
  }
  r->form->params->version++;
  return shoal_swarm_restart(s);
}

const shoal_method shoal_method_swarm = {
  .name = "swarm",
  .about = "every rank trains its own model and averages it with one random partner at a time",
  .explanation =
      "Every rank trains a model of its own on its own share of the data.  After some local steps it picks a\n"
      "random neighbour, and the two average their shared copies, sent with 8 bits per number: a number is\n"
      "rounded to a grid and sent modulo 256, and the receiver recovers it from its own number, which is near.  A\n"
      "hash per block detects where that failed, and such blocks are sent again as f32.  Every block of 4096\n"
      "numbers has its own grid spacing, chosen by the distances seen in that block; 16 bits double the bytes for\n"
      "slightly better accuracy.  A partner answers between two primitives of its own compute, so no rank waits\n"
      "for a slow one; ranks meet only to evaluate, to save and to stop.  The evaluated model is the mean over\n"
      "all ranks, with recomputed batch-norm statistics.",
  .source = "Nadiradze, Sabour, Davies, Li, Alistarh, Asynchronous Decentralized SGD with Quantized and Local Updates, "
            "NeurIPS 2021",
  .memory = "each rank's own weights and state; only their mean is kept",
  .options = options,
  .state_size = sizeof(swarm_state),
  .trains = SHOAL_TRAINS_OWN,
  .share = SHOAL_SHARE_STRIDED,
  .measures_stats = true,
  .open = swarm_open,
  .close = swarm_close,
  .weights_ready = swarm_weights_ready,
  .settle = swarm_settle,
  .assemble = swarm_assemble,
  .sum = swarm_sum,
  .save = swarm_save,
  .load = swarm_load,
};
