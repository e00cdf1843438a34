/* Independent subnets, the pure part: what is dealt to which part, the homes, and message layouts.
 *
 *   plan    what can be dealt: hidden units (channels, heads) of the spaces, or residual blocks; fixed for a run
 *   deal    one round: which part holds which units or blocks
 *   home    the rank that stores an element between rounds: exactly one for every element of the model
 *   view    one rank's side of one round: offsets in its arena and in its store, message sizes
 *
 *           store of rank 0, 1, …  --dispatch-->  subnets of rank 0, 1, …  --collect-->  stores
 *           (1/n of the model each)                (train apart for a round)
 *
 * Nothing here communicates or keeps random state: a deal is a pure function of (seed, round), so every rank knows what
 * every other holds, and no indices are sent.
 * Source: Yuan et al., PVLDB 15(8), 2022; residual blocks: Dun, Wolfe, Jermaine, Kyrillidis, UAI 2022. */
#ifndef SHOAL_METHOD_IST_H
#define SHOAL_METHOD_IST_H
#include "nn/model.h"

typedef struct {
  int parts;
  uint64_t seed;
  bool blocks;           /* deal residual blocks instead of units */
  bool stratified;       /* units: equally many for every part from each home (the release's sharded scripts) */
  int min_blocks;        /* blocks: minimum number in a part; 0: 5 of 22, in proportion */
  const int64_t *stages; /* blocks: which stages are dealt, from 1; a stage is a row of blocks of one shape */
  size_t n_stages;       /* 0: all */
} shoal_ist_options;

/* The homes of a tensor's elements, and what that implies for a round. */
typedef enum {
  SHOAL_IST_ROWS,  /* with the units of their rows: trained by one part in every round */
  SHOAL_IST_COLS,  /* with the units of their columns: trained by one part, or dormant if the rows went elsewhere */
  SHOAL_IST_BLOCK, /* with the holder of the residual block: trained by its owners, then their mean */
  SHOAL_IST_SLICE  /* shared: trained by all, then their mean; each rank is home to a slice */
} shoal_ist_home;

typedef struct {
  shoal_ist_home home;
  shoal_param_cut cut;
  int64_t rows, cols; /* of the whole tensor, in units */
  size_t width;       /* consecutive elements of a column unit; where columns are whole: of a row */
  int block;
  float scale; /* what the model multiplies this tensor by when it is evaluated; see shoal_ist_scale */
} shoal_ist_tensor;

typedef struct {
  const shoal_model *model; /* borrowed */
  shoal_ist_options o;      /* without `stages` */
  shoal_ist_tensor *tensor; /* [model->params] */
  int *stage;               /* [model->residuals] stage of a dealt block, from 0; -1: shared */
  int stages;
  int *stage_size, *stage_min; /* [stages] number of blocks, and minimum in a part */
} shoal_ist_plan;

/** @param m  borrowed until destroy
 *  @return ERR_USAGE, one line: a layer with fewer units than parts; nothing to deal; a stage that does not exist */
shoal_status shoal_ist_plan_create(const shoal_model *m, const shoal_ist_options *o, shoal_ist_plan **out);
void shoal_ist_plan_destroy(shoal_ist_plan *p);

typedef struct {
  int64_t **units; /* [spaces][size]: part after part by shoal_share_of, ascending within a part; NULL with blocks */
  bool *owner;     /* [residuals * parts] */
  int *holder;     /* [residuals] the lowest owner */
  int64_t *work;   /* scratch of a draw */
  bool *drawn;
} shoal_ist_deal;
shoal_status shoal_ist_deal_create(const shoal_ist_plan *p, shoal_ist_deal **out);
void shoal_ist_deal_destroy(const shoal_ist_plan *p, shoal_ist_deal *d);
/** Deals for a round.  Units: every unit to exactly one part; size of part s: floor(h/n) + [s < h mod n], in every
 *  round.  Blocks: stage by stage, floor(B/n) + [s < B mod n] to part s where that is at least the minimum, else the
 *  minimum to each, every block to at least one.  Cost: one random number per unit. */
void shoal_ist_draw(const shoal_ist_plan *p, uint64_t round, shoal_ist_deal *d);
uint32_t shoal_ist_hash(const shoal_ist_plan *p, const shoal_ist_deal *d); /* of the index lists, to compare ranks */
/** The subnet of part s, as a cut of the model. */
shoal_status shoal_ist_part(const shoal_ist_plan *p, const shoal_ist_deal *d, int s, shoal_model **out);

/** A permutation of 0..n-1 by (seed, round): Fisher-Yates; list and shuffle select independent ones. */
void shoal_ist_shuffle(uint64_t seed, uint64_t round, uint64_t list, uint64_t shuffle, int64_t n, int64_t *out);
/** Deals blocks of one stage to parts, at least `least` <= n to each: `owner` [n * parts], row by block; `order` [n]
 *  scratch. */
void shoal_ist_draw_blocks(uint64_t seed, uint64_t round, uint64_t list, int n, int parts, int least, int64_t *order,
                           bool *owner);

/** Elements with home `home` that part `worker` holds: the size of a dispatch message from one to the other, and of the
 *  collect message back.  `homes` is the deal whose holders keep the blocks (the earlier one in a dispatch); units
 *  ignore it. */
uint64_t shoal_ist_count(const shoal_ist_plan *p, const shoal_ist_deal *homes, const shoal_ist_deal *owners, int home,
                         int worker);
/** Elements of rank r's store, and where each tensor begins in it (offset [params], or NULL). */
size_t shoal_ist_store_size(const shoal_ist_plan *p, const shoal_ist_deal *homes, int r, size_t *offset);
/** Maximum over all rounds: elements of rank r's store, and of its packed blocks for all parts (one array). */
size_t shoal_ist_store_room(const shoal_ist_plan *p, int r);
size_t shoal_ist_bundle_room(const shoal_ist_plan *p, int r);
/* All arrays from here on are in the backend's memory, but that of store_init. */

/** Copies rank r's store from, or into, the whole model's arena. */
shoal_status shoal_ist_store_read(shoal_backend *b, const shoal_ist_plan *p, const shoal_ist_deal *homes, int r,
                                  const float *model, float *store);
shoal_status shoal_ist_store_write(shoal_backend *b, const shoal_ist_plan *p, const shoal_ist_deal *homes, int r,
                                   const float *store, float *model);
/** Initial weights of rank r's store, in host memory, without a whole model: units only (blocks are never dormant). */
shoal_status shoal_ist_store_init(const shoal_ist_plan *p, int r, uint64_t seed, float *store);
/** Scales trained weights to those of the evaluated model, or back (`undo`): a layer that reads hidden units and has no
 *  norm after it is divided by n, since its input has n times as many units as in training; the last layer of a dealt
 *  residual block is multiplied by max(1/n, least/B), about the share of rounds and parts it was active in. */
shoal_status shoal_ist_scale(shoal_backend *b, const shoal_ist_plan *p, bool undo, float *model);

typedef struct {
  const shoal_ist_plan *plan;
  const shoal_ist_deal *homes, *owners;
  int rank;
  size_t *arena, *store; /* [params] offset of each tensor; SIZE_MAX: absent */
  uint64_t *to_home,
      *to_worker; /* [parts] elements in the messages of a collect; a dispatch sends them the other way */
  size_t sum_home, sum_worker;
  size_t *cursor;      /* [parts] scratch */
  const float **parts; /* likewise */
} shoal_ist_view;
shoal_status shoal_ist_view_create(const shoal_ist_plan *p, int rank, shoal_ist_view **out);
void shoal_ist_view_destroy(shoal_ist_view *v);
/** Sets the view to a deal (borrowed). `part` is this rank's subnet in `owners`. */
void shoal_ist_view_set(shoal_ist_view *v, const shoal_ist_deal *homes, const shoal_ist_deal *owners,
                        const shoal_model *part);
/* Packed: for every peer in rank order its block; a block is array after array, tensor after tensor, row by row.
 * collect:  pack_part → [to_home …] … [to_worker …] → unpack_store, which averages elements trained by several
 * dispatch: pack_store → [to_worker …] … [to_home …] → unpack_part
 * `arrays` 1 (weights) to 3 (with optimizer state), laid out alike. */
shoal_status shoal_ist_pack_part(shoal_backend *b, const shoal_ist_view *v, int arrays, float *const *arena,
                                 float *packed);
shoal_status shoal_ist_unpack_part(shoal_backend *b, const shoal_ist_view *v, int arrays, float *const *arena,
                                   const float *packed);
shoal_status shoal_ist_pack_store(shoal_backend *b, const shoal_ist_view *v, int arrays, float *const *store,
                                  float *packed);
shoal_status shoal_ist_unpack_store(shoal_backend *b, const shoal_ist_view *v, int arrays, float *const *store,
                                    const float *packed);
#endif
