/* The run file's own options: everything that is not the model's, the optimizer's or the method's. */
#ifndef SHOAL_TRAIN_OPTIONS_H
#define SHOAL_TRAIN_OPTIONS_H
#include "ckpt/together/writer.h"
#include "config/option.h"
#include "data/loader.h"
#include "method/method.h"

/** All tables that apply to a run file that names this model and method (either may be NULL): out [SHOAL_TABLES]. */
enum { SHOAL_TABLES = 5 };
size_t shoal_run_tables(const shoal_model_entry *model, const shoal_method *method,
                        shoal_option_table out[SHOAL_TABLES]);
/** Reads a run file and assignments ("a.b=c"), pick the tables by model.name and method.name, check everything.
 *  ERR_USAGE names every fault; an unknown model or method names the nearest. */
shoal_status shoal_run_configure(const char *run_file, const char *const *sets, size_t n_sets, shoal_config **out);

/** The same with another method: what the run file says of options of its own method is left out. */
shoal_status shoal_run_configure_as(const char *method, const char *run_file, const char *const *sets, size_t n_sets,
                                    shoal_config **out);

/** The options of the learning-rate schedule, run.epochs among them, from the resolved run file of an earlier attempt. */
shoal_status shoal_run_recall_schedule(const char *resolved, shoal_config **out);

typedef enum { SHOAL_BAD_STOP, SHOAL_BAD_SKIP, SHOAL_BAD_ROLLBACK } shoal_bad_policy; /* numbers.bad */
typedef enum {
  SHOAL_FAULT_GRADIENT,
  SHOAL_FAULT_LOSS,
  SHOAL_FAULT_WEIGHT,
  SHOAL_FAULT_INPUT,
  SHOAL_FAULT_STATISTICS,
  SHOAL_FAULT_SPIKE,
  SHOAL_FAULT_DRIFT
} shoal_fault_place;

typedef enum { SHOAL_BEST_NONE, SHOAL_BEST_ACCURACY, SHOAL_BEST_LOSS } shoal_best; /* ckpt.best */

/* Words and periods of a run file, resolved once: options are not looked up in a step. */
typedef struct {
  shoal_period log_every, eval_every, save_every;
  uint64_t steps; /* run.steps; 0: no limit */
  uint64_t eval_batch, eval_statistics;
  bool eval_by_batch, eval_measured; /* eval.batch_norm is batch, measured */
  shoal_last_batch last;
  shoal_shard shard;
  shoal_trace_level trace;
  uint64_t trace_bytes;     /* trace.max_size; 0: no limit */
  bool trace_last;          /* trace.keep */
  int keep;                 /* checkpoints */
  bool retries_save;        /* goes on without a checkpoint that cannot be written */
  shoal_ckpt_beside beside; /* whether checkpoints are written beside the training */
  uint64_t gather_bytes;    /* ckpt.gather */
  shoal_best best;
  uint64_t patience; /* eval.patience; 0: none */
  shoal_bad_policy bad;
  double spike;       /* numbers.spike */
  uint64_t bad_limit; /* numbers.limit */
  shoal_fault_place nan_place;
  shoal_products products; /* compute.dtype */
  bool recompute;          /* compute.recompute is units */
  bool emulate;
} shoal_run_choice;
void shoal_run_choose(const shoal_config *c, shoal_run_choice *out);
#endif
