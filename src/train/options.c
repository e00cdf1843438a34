/* One table for the run file.  Names are grouped by section; the same rows make `shoal config` and the manual page. */
#include "train/options.h"
#include "base/mem.h"
#include "nn/optim.h"
#include "train/class_weights.h"
#include "train/folder.h"
#include <stdlib.h>
#include <string.h>

#define RUN_EPOCHS "run.epochs", SHOAL_OPT_INT, "10", "epochs", "[1,1000000]", "Passes over the training data.", NULL
static const shoal_option run_options[] = {
  { "run.name", SHOAL_OPT_STRING, "run", NULL, NULL,
    "Name of the run: its folder below run.dir. Letters, digits, '.', '_' and '-'. In a job array \"-INDEX\" is added: "
    "run.array.",
    NULL },
  { "run.array", SHOAL_OPT_ENUM, "numbered", NULL, "numbered|named",
    "The elements of a job array: all have the same name, so each adds its number to it; or their names differ by "
    "themselves.",
    NULL },
  { "run.dir", SHOAL_OPT_PATH, "runs", NULL, NULL, "Folder that holds the run folders.", NULL },
  { "run.seed", SHOAL_OPT_INT, "1", NULL, "[0,inf)",
    "Seed of everything random: initial weights, data order, augmentation, dropout.", NULL },
  { RUN_EPOCHS },
  { "run.steps", SHOAL_OPT_INT, "0", "steps", "[0,inf)",
    "Largest number of training steps; 0: limited by run.epochs only.", NULL },
  { "run.log_every", SHOAL_OPT_PERIOD, "10s", NULL, "never", "How often a progress line goes to the log.", NULL },
  { "run.allow_singletons", SHOAL_OPT_BOOL, "false", NULL, NULL,
    "Accept a Slurm step of several tasks in which every task trains alone.", NULL },
  { "run.strict", SHOAL_OPT_BOOL, "false", NULL, NULL,
    "Refuse to start, instead of warning, if a rank has fewer cores than were requested.", NULL },
  { "data.file", SHOAL_OPT_PATHS, NULL, NULL, NULL,
    "HDF5 data set, made by `shoal data` or with its layout (docs/data-layout.md); several files or patterns are one "
    "data "
    "set, in "
    "this order, what a pattern matches sorted by name.",
    NULL },
  { "data.stage", SHOAL_OPT_STRING, "", NULL, NULL,
    "Folder on each node's own disk, such as /tmp, or $TMPDIR as it is set there: the data set is copied there first, "
    "once per node and "
    "checked "
    "by its sum, and read from there.",
    NULL },
  { "data.changed", SHOAL_OPT_ENUM, "refuse", NULL, "refuse|accept",
    "A resume whose data set has other contents than when the checkpoint was saved: refuse it, or go on with what it "
    "has now, if it has as many training samples.",
    NULL },
  { "data.batch", SHOAL_OPT_INT, "32", "samples", "[1,1000000000]", "Batch per rank.", NULL },
  { "data.global_batch", SHOAL_OPT_INT, "0", "samples", "[0,1000000000]",
    "Batch over all ranks; replaces data.batch when set, and then the result does not depend on the rank count, but "
    "for "
    "networks with batch norm, which normalise over a rank's share.",
    NULL },
  { "data.context", SHOAL_OPT_INT, "128", "tokens", "[1,16777216]",
    "Text: tokens of a sample; for each of them the network is to say which one follows.", NULL },
  { "data.augment", SHOAL_OPT_WORDS, "", NULL, "crop4|hflip",
    "Random changes of training images: crop after padding by 4, mirror left-right.", NULL },
  { "data.last", SHOAL_OPT_ENUM, "short", NULL, "short|drop|pad",
    "The last batch of an epoch, if incomplete: train it short, drop it, or pad it from the epoch's start.", NULL },
  { "data.shuffle", SHOAL_OPT_BOOL, "true", NULL, NULL, "A new order in every epoch.", NULL },
  { "data.shards", SHOAL_OPT_ENUM, "drawn", NULL, "drawn|fixed|sorted",
    "Samples of a rank if each has its own: drawn again every epoch, a fixed shard each, or sorted by "
    "label.",
    "Yuan et al., PVLDB 2022", .when = "method.name=ist|swarm" },
  { "data.prefetch", SHOAL_OPT_INT, "4", "batches", "[0,1024]",
    "Batches prepared ahead by a thread; 0: read in the step.", NULL },
  { "eval.every", SHOAL_OPT_PERIOD, "1 epoch", NULL, "never",
    "How often the test split is evaluated: epochs or steps. Always at the end.", NULL },
  { "eval.patience", SHOAL_OPT_INT, "0", "evaluations", "[0,1000000000]",
    "The run ends early after so many evaluations without a better one, by ckpt.best or else by test loss; 0: never.",
    "Prechelt, Early Stopping - But When?, 1998" },
  { "eval.batch", SHOAL_OPT_INT, "128", "samples", "[1,1000000000]", "Batch per rank in evaluation.", NULL },
  { "eval.batch_norm", SHOAL_OPT_ENUM, "model", NULL, "model|measured|batch",
    "Batch-norm statistics in evaluation: the model's, which in training follow the batches; measured: recomputed over "
    "training batches (eval.statistics) for each evaluation and checkpoint; batch: those of the test batch "
    "(eval.batch).",
    "batch: as in the release of Yuan et al., PVLDB 2022" },
  { "eval.statistics", SHOAL_OPT_INT, "8", "batches", "[1,1000000]",
    "Training batches per rank to recompute batch-norm statistics, if the model is a mean that no rank trains, or "
    "eval.batch_norm is measured.",
    NULL },
  { "ckpt.every", SHOAL_OPT_PERIOD, "10min", NULL, "never",
    "How often a checkpoint is written: time, steps or epochs. Always at a stop and at the end.", NULL },
  { "ckpt.keep", SHOAL_OPT_INT, "2", "files", "[1,1000000]", "Number of good checkpoints to keep.", NULL },
  { "ckpt.best", SHOAL_OPT_ENUM, "none", NULL, "none|test_acc|test_loss",
    "Also keep the checkpoint of the best evaluation, in ckpt/best: highest accuracy or lowest loss.", NULL },
  { "ckpt.beside", SHOAL_OPT_ENUM, "auto", NULL, "auto|always|never",
    "Checkpoints are written beside the training, from a copy in memory of what a rank writes; the next one waits "
    "until "
    "the last is there. auto: if a rank writes 32 MiB or more.",
    NULL },
  { "ckpt.gather", SHOAL_OPT_INT, "16", "MiB", "[0,1000000]",
    "A checkpoint is one file if the arrays that only other ranks than the first have are together at most as large; "
    "else each rank writes its own, in a file beside the first one's (a shard).",
    NULL },
  { "ckpt.failure", SHOAL_OPT_ENUM, "stop", NULL, "stop|retry",
    "A checkpoint that cannot be written: end the run, or go on and try again when the next one is due. The last one "
    "is "
    "then tried again every 5 s, for 60 s at a stop and 10 minutes at the end, or until another signal.",
    NULL },
  { "trace.level", SHOAL_OPT_ENUM, "step", NULL, "off|step|op",
    "What the trace records: nothing, steps, or every span.", NULL },
  { "trace.max_size", SHOAL_OPT_INT, "1024", "MiB", "[0,1000000000]",
    "Largest trace file of a node and attempt: see trace.keep; 0: no limit.", NULL },
  { "trace.keep", SHOAL_OPT_ENUM, "first", NULL, "first|last",
    "At trace.max_size: record no more, with a warning; or go on, in place of the oldest records.", NULL },
  { "trace.powercap", SHOAL_OPT_PATH, "/sys/class/powercap", NULL, NULL,
    "Folder with the node's energy counters (RAPL); nothing is recorded where there are none.", NULL },
  { "comm.shared_memory", SHOAL_OPT_BOOL, "true", NULL, NULL,
    "Ranks of a node sum through shared memory; false: sums use a ring over all ranks.", "shoal" },
  { "comm.nccl", SHOAL_OPT_ENUM, "node", NULL, "node|all|off",
    "On GPUs, NCCL sums inside a node; also between nodes; or not at all.", NULL },
  { "comm.cuda_aware", SHOAL_OPT_BOOL, "true", NULL, NULL,
    "On GPUs and without NCCL, MPI that says that it takes their memory is given it, if a test at the start agrees.",
    NULL },
  { "comm.costs", SHOAL_OPT_PATH, "", NULL, NULL,
    "File with the machine's costs of messages, from shoal bench comm --write: method.algorithm auto then takes the "
    "quickest by them.",
    "shoal" },
  { "comm.max_message", SHOAL_OPT_INT, "0", "bytes", "[0,inf)",
    "Largest piece given to one library call; 0: 1 GiB. For tests of long messages.", NULL },
  { "comm.warn", SHOAL_OPT_PERIOD, "30s", NULL, NULL, "An exchange older than this is reported.", NULL },
  { "comm.hang", SHOAL_OPT_PERIOD, "10min", NULL, NULL, "An exchange older than this ends the run with exit 5.", NULL },
  { "device", SHOAL_OPT_ENUM, "auto", NULL, "auto|cpu|cuda|ref", "Backend: cpu is oneDNN, ref the slow reference.",
    NULL },
  { "threads", SHOAL_OPT_INT, "0", "threads", "[0,4096]",
    "Compute threads per rank; 0: the cores of the rank's affinity mask, shared with ranks that have the same mask, "
    "and "
    "no more than the quota of its control group.",
    NULL },
  { "numbers.bad", SHOAL_OPT_ENUM, "stop", NULL, "stop|skip|rollback",
    "An input, loss, gradient or weight that is not finite: end the run, leave that update out, or go back to the last "
    "checkpoint.",
    "rollback, with other samples: Chowdhery et al., PaLM, 2022" },
  { "numbers.spike", SHOAL_OPT_FLOAT, "0", "deviations", "[0,inf)",
    "A loss of a rank so many mean deviations above its running mean counts as bad; 0: none does.", "shoal" },
  { "numbers.limit", SHOAL_OPT_INT, "10", NULL, "[0,1000000000]",
    "The run ends when it would have to go back more often, or when more updates in a row are left out.", "shoal" },
  { "numbers.flush", SHOAL_OPT_BOOL, "true", NULL, NULL,
    "Flush subnormal numbers (below 1.2e-38) to zero: arithmetic on them is many times slower.", "shoal" },
  { "cpu.winograd", SHOAL_OPT_BOOL, "true", NULL, NULL,
    "Let 3x3 convolutions use Winograd's algorithm: fewer operations, slightly larger rounding.",
    "Lavin and Gray, CVPR 2016" },
  { "compute.dtype", SHOAL_OPT_ENUM, "f32", NULL, "f32|tf32|bf16",
    "To what layers round the factors of products and convolutions: f32 not at all, bf16 to 7 bits of mantissa, tf32, "
    "on GPUs alone, to 10. With bf16 results of convolutions are rounded, too, and on the CPU, which must have "
    "instructions for it, all activations and their gradients. Sums, weights and their gradients, statistics and the "
    "loss stay f32.",
    "NVIDIA, A100 whitepaper, 2020; Kalamkar et al., 2019" },
  { "compute.recompute", SHOAL_OPT_ENUM, "none", NULL, "none|units",
    "units: of the activations only what a unit of the network gives to the next is kept for backward, which computes "
    "the others again, unit by unit: less memory for about a third more computing, and the same bits.",
    "Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016" },
  { "cuda.graphs", SHOAL_OPT_BOOL, "false", NULL, NULL,
    "Record forward, and backward up to each exchange, as CUDA graphs when they come the second time, and launch these "
    "from then on: "
    "less work for the host. Not run on hardware yet.",
    "NVIDIA, CUDA C++ Programming Guide, CUDA graphs", .when = "device=cuda|auto" },
  { "fault.rank", SHOAL_OPT_INT, "0", NULL, "[0,inf)", "Fault hooks act on this rank (with --allow-faults).", NULL },
  { "fault.stop_step", SHOAL_OPT_INT, "-1", "step", NULL, "Fault hook: send USR1 to the rank when this step begins.",
    NULL },
  { "fault.kill_step", SHOAL_OPT_INT, "-1", "step", NULL, "Fault hook: kill -9 the rank when this step begins.", NULL },
  { "fault.exit_step", SHOAL_OPT_INT, "-1", "step", NULL, "Fault hook: leave with code 0 when this step begins.",
    NULL },
  { "fault.nan_step", SHOAL_OPT_INT, "-1", "step", NULL, "Fault hook: make a number NaN in this step.", NULL },
  { "fault.nan_place", SHOAL_OPT_ENUM, "gradient", NULL, "gradient|loss|weight|input|statistics|spike|drift",
    "Fault hook: which number; spike: the loss, a thousand times as large; drift: the last bit of a weight.", NULL },
  { "fault.seed", SHOAL_OPT_INT, "0", NULL, NULL, "Fault hook: added to the rank's seed for initial weights.", NULL },
  { "fault.compute", SHOAL_OPT_STRING, "", NULL, NULL,
    "Fault hook: \"sleep:MS\" adds simulated compute to every step of the rank.", NULL },
  { "fault.jitter", SHOAL_OPT_FLOAT, "0", "ms", "[0,60000]",
    "Fault hook: every rank sleeps up to this long, at random, at the beginning of every step.", NULL },
  { "fault.delay", SHOAL_OPT_FLOAT, "0", "ms", "[0,60000]",
    "Fault hook: every rank pretends to compute longer in every step, exponentially distributed with this mean.",
    NULL },
  { "fault.no_exchange", SHOAL_OPT_INT, "0", "steps", "[0,inf)",
    "Fault hook: skip the exchange on all ranks once in this many steps, to measure its cost.", NULL },
  { "fault.trace_off", SHOAL_OPT_INT, "0", "steps", "[0,inf)",
    "Fault hook: the trace leaves out this many steps after this many, and so on, to measure what recording costs.",
    NULL },
  { "fault.ckpt", SHOAL_OPT_STRING, "", NULL, NULL, "Fault hook: \"sleep:MS\" slows every checkpoint down.", NULL },
  { "fault.end", SHOAL_OPT_STRING, "", NULL, NULL,
    "Fault hook: \"sleep:MS\" after the checkpoint of a stop, before the run ends.", NULL },
  { "fault.start", SHOAL_OPT_STRING, "", NULL, NULL,
    "Fault hook: \"sleep:MS\" makes the rank so late with opening the data set.", NULL },
  { "fault.eval", SHOAL_OPT_STRING, "", NULL, NULL,
    "Fault hook: \"sleep:MS\" slows every batch of an evaluation down on the rank.", NULL },
  { "fault.emulate", SHOAL_OPT_BOOL, "false", NULL, NULL,
    "Fault hook: compute.dtype bf16 also on a processor that has only AVX-512 for it.", NULL },
  { "fault.lr", SHOAL_OPT_FLOAT, "1", NULL, "(0,inf)", "Fault hook: the rank multiplies its learning rate by this.",
    NULL },
  { .name = NULL }
};

/* Model and method: once known, their own option tables are added. */
static const shoal_option choice_options[] = {
  { "model.name", SHOAL_OPT_STRING, NULL, NULL, NULL,
    "The network; `shoal models` lists them. `model.file` alone is enough for one of your own.", NULL },
  { "model.weights", SHOAL_OPT_PATH, "", NULL, NULL,
    "Checkpoint, safetensors or ONNX to start from, for fine-tuning: its weights and running statistics, with a new "
    "schedule from epoch 0 and a new optimizer. A checkpoint of this run goes first.",
    NULL },
  { "model.fresh", SHOAL_OPT_WORDS, "", NULL, NULL,
    "Layers of which nothing is taken from model.weights, such as [fc] for a new head: drawn by run.seed as in a new "
    "run.",
    NULL },
  { "model.orthogonal", SHOAL_OPT_BOOL, "false", NULL, NULL,
    "Start each weight from the nearest orthogonal matrix: all its "
    "singular values become 1.",
    "Coquelin et al., AB-Training, 2024 (all their runs)" },
  { "method.name", SHOAL_OPT_STRING, "sync", NULL, NULL,
    "The training method: how ranks communicate; `shoal methods` lists them.", NULL },
  { .name = NULL }
};

size_t shoal_run_tables(const shoal_model_entry *model, const shoal_method *method,
                        shoal_option_table out[SHOAL_TABLES])
{
  size_t n = 0;
  out[n++] = (shoal_option_table){ "run", run_options };
  out[n++] = (shoal_option_table){ "choice", choice_options };
  out[n++] = (shoal_option_table){ "optim", shoal_optim_options };
  if (model && model->options) out[n++] = (shoal_option_table){ model->name, model->options };
  if (method && method->options) out[n++] = (shoal_option_table){ method->name, method->options };
  return n;
}

/* All tables of a run, and those of the other models and methods, to say so when one of their options is given. */
static shoal_status all_tables(const shoal_model_entry *model, const shoal_method *method, shoal_option_table **out,
                               size_t *n)
{
  const shoal_model_entry *models;
  const shoal_method *const *methods;
  size_t n_models = shoal_models(&models), n_methods = shoal_methods(&methods);
  shoal_option_table *t;
  SHOAL_TRY(SHOAL_ALLOC(SHOAL_TABLES + n_models + n_methods, &t));
  *n = shoal_run_tables(model, method, t);
  for (size_t i = 0; i < n_models; i++)
    if (model && models[i].options && &models[i] != model)
      t[(*n)++] = (shoal_option_table){ models[i].name, models[i].options, "model", model->name };
  for (size_t i = 0; i < n_methods; i++)
    if (methods[i]->options && methods[i] != method)
      t[(*n)++] = (shoal_option_table){ methods[i]->name, methods[i]->options, "method", method->name };
  *out = t;
  return SHOAL_OK;
}

/* A file is enough to choose the model that reads it. */
static shoal_status take_model_file(shoal_settings *s)
{
  const char *file = shoal_settings_get(s, "model.file");
  if (!file || !*file || shoal_settings_get(s, "model.name")) return SHOAL_OK;
  return shoal_settings_set(s, "model.name=file", "model.file");
}

static shoal_status choose(const shoal_settings *s, const shoal_model_entry **model, const shoal_method **method)
{
  const char *names[64];
  const char *name = shoal_settings_get(s, "model.name");
  if (!name) name = shoal_settings_get(s, "model");
  if (name && !(*model = shoal_model_find(name))) {
    const shoal_model_entry *entries;
    size_t n = shoal_models(&entries);
    for (size_t i = 0; i < n; i++) names[i] = entries[i].name;
    const char *near = shoal_nearest(name, names, n);
    SHOAL_CHECK(!strstr(name, ".y"), SHOAL_ERR_USAGE,
                "model.name is \"%s\": a file that describes a network is given as model: { file: %s }", name, name);
    return SHOAL_FAIL(SHOAL_ERR_USAGE, "model.name is \"%s\": no such model%s%s; `shoal models` lists them", name,
                      near ? ", did you mean " : "", near ? near : "");
  }
  name = shoal_settings_get(s, "method.name");
  if (!name) name = shoal_settings_get(s, "method");
  if (!name) name = "sync";
  if (!(*method = shoal_method_find(name))) {
    const shoal_method *const *entries;
    size_t n = shoal_methods(&entries);
    for (size_t i = 0; i < n; i++) names[i] = entries[i]->name;
    const char *near = shoal_nearest(name, names, n);
    return SHOAL_FAIL(SHOAL_ERR_USAGE, "method.name is \"%s\": no such method%s%s; `shoal methods` lists them", name,
                      near ? ", did you mean " : "", near ? near : "");
  }
  return SHOAL_OK;
}

/* Valid units of each period: bit u stands for unit u of shoal_period_unit. */
enum {
  SECONDS = 1 << SHOAL_PER_SECONDS,
  STEPS = 1 << SHOAL_PER_STEPS,
  EPOCHS = 1 << SHOAL_PER_EPOCHS,
  NEVER = 1 << SHOAL_PER_NEVER
};
static const struct {
  const char *name;
  int units;
  const char *example;
} periods[] = {
  { "run.log_every", SECONDS | STEPS | NEVER, "10s or 100 steps" },
  { "eval.every", STEPS | EPOCHS | NEVER, "1 epoch or 500 steps" },
  { "ckpt.every", SECONDS | STEPS | EPOCHS | NEVER, "10min, 1000 steps or 1 epoch" },
  { "comm.warn", SECONDS, "30s" },
  { "comm.hang", SECONDS, "10min" },
};

static shoal_status check_periods(const shoal_config *c)
{
  for (size_t i = 0; i < SHOAL_COUNT(periods); i++) {
    shoal_period p = shoal_config_period(c, periods[i].name);
    SHOAL_CHECK(periods[i].units >> p.unit & 1, SHOAL_ERR_USAGE, "%s: %s has the wrong unit: say %s",
                shoal_config_origin(c, periods[i].name), periods[i].name, periods[i].example);
  }
  SHOAL_CHECK(shoal_config_period(c, "comm.hang").value >= shoal_config_period(c, "comm.warn").value, SHOAL_ERR_USAGE,
              "comm.hang is shorter than comm.warn (%g s): there would be no warning; lower comm.warn too",
              shoal_config_period(c, "comm.warn").value);
  return SHOAL_OK;
}

static shoal_status check_trace(const shoal_config *c)
{
  bool last = strcmp(shoal_config_string(c, "trace.keep"), "last") == 0;
  SHOAL_CHECK(!last || shoal_config_int(c, "trace.max_size") > 0, SHOAL_ERR_USAGE,
              "%s: trace.keep is last, but trace.max_size is 0, no limit: say how many MiB of records are kept",
              shoal_config_origin(c, "trace.keep"));
  return SHOAL_OK;
}

/* What makes no run, whatever the data, the model and the ranks are. */
static shoal_status check_together(const shoal_config *c, const shoal_method *method)
{
  shoal_optim_config optim;
  shoal_lr_schedule lr;
  const bool orthogonal = shoal_config_bool(c, "model.orthogonal");
  SHOAL_TRY(check_periods(c));
  SHOAL_TRY(check_trace(c));
  SHOAL_TRY(shoal_folder_check_name(shoal_config_string(c, "run.name")));
  SHOAL_TRY(shoal_optim_configure(c, &optim));
  SHOAL_TRY(shoal_lr_configure(c, (double)shoal_config_int(c, "run.epochs"), &lr));
  SHOAL_TRY(shoal_class_weights_check(c));
  SHOAL_CHECK(!shoal_config_int(c, "data.global_batch") || !shoal_config_given(c, "data.batch"), SHOAL_ERR_USAGE,
              "data.batch and data.global_batch are both set: keep one of them");
  SHOAL_CHECK(!orthogonal || method->trains != SHOAL_TRAINS_PARTS, SHOAL_ERR_USAGE,
              "model.orthogonal is true, but with method %s no rank holds whole weights to begin with; leave it out",
              method->name);
  const char *const *fresh;
  SHOAL_CHECK(!shoal_config_words(c, "model.fresh", &fresh) || *shoal_config_string(c, "model.weights"),
              SHOAL_ERR_USAGE, "model.fresh names layers that are not taken from model.weights, which is not given");
  SHOAL_CHECK(!orthogonal || !*shoal_config_string(c, "model.weights"), SHOAL_ERR_USAGE,
              "model.orthogonal is true, but model.weights are not changed before training; leave one out");
  return method->check ? method->check(c) : SHOAL_OK;
}

/* Model and method may come from the environment too; read first, because they select the tables that check the
 * rest. */
static shoal_status read_environment_choices(shoal_settings *s)
{
  static const char *const names[][2] = { { "SHOAL_MODEL_NAME", "model.name" },
                                          { "SHOAL_METHOD_NAME", "method.name" } };
  for (size_t i = 0; i < SHOAL_COUNT(names); i++) {
    const char *value = getenv(names[i][0]);
    if (!value) continue;
    char *text = shoal_strdup_printf("%s=%s", names[i][1], value);
    shoal_status st = shoal_settings_set(s, text, names[i][0]);
    free(text);
    SHOAL_TRY(st);
  }
  return SHOAL_OK;
}

/* The variable with the number of a job array's element, of Slurm, OpenPBS, Torque, AWS Batch, Grid Engine or LSF; NULL: this
 * is none.  The last two have it in every job, with these values outside of arrays. */
static const char *element_variable(void)
{
  static const char *const names[][2] = { { "SLURM_ARRAY_TASK_ID", "" },  { "PBS_ARRAY_INDEX", "" },
                                          { "PBS_ARRAYID", "" },          { "AWS_BATCH_JOB_ARRAY_INDEX", "" },
                                          { "SGE_TASK_ID", "undefined" }, { "LSB_JOBINDEX", "0" } };
  for (size_t i = 0; i < SHOAL_COUNT(names); i++) {
    const char *value = getenv(names[i][0]);
    if (value && *value && strcmp(value, names[i][1]) != 0) return names[i][0];
  }
  return NULL;
}

/* Elements of a job array never share a folder: each has the index of its element behind the name of the run. */
static shoal_status name_element(shoal_settings *s)
{
  const char *variable = element_variable(), *index = variable ? getenv(variable) : NULL;
  const char *name = shoal_settings_get(s, "run.name");
  const char *array = shoal_settings_get(s, "run.array");
  if (!array) array = getenv("SHOAL_RUN_ARRAY");
  if (!index || (array && strcmp(array, "named") == 0)) return SHOAL_OK;
  SHOAL_CHECK(strspn(index, "0123456789") == strlen(index) && strlen(index) < 10, SHOAL_ERR_WORLD,
              "%s is \"%s\": not the number of an element; unset it if this is no job array", variable, index);
  if (!name) name = getenv("SHOAL_RUN_NAME");
  if (!name || !*name) name = "run";
  size_t n = strlen(name), more = strlen(index);
  if (n > more && name[n - more - 1] == '-' && strcmp(name + n - more, index) == 0) return SHOAL_OK;
  char *text = shoal_strdup_printf("run.name=%s-%s", name, index);
  shoal_status st = shoal_settings_set(s, text, variable);
  free(text);
  return st;
}

/* The method `name` instead of that of the file, whose options it may not have. */
static shoal_status take_method(shoal_settings *s, const char *name)
{
  const char *own = shoal_settings_get(s, "method.name");
  if (!own || strcmp(own, name) != 0) shoal_settings_forget(s, "method.");
  char *text = shoal_strdup_printf("method.name=%s", name);
  shoal_status st = shoal_settings_set(s, text, "--methods");
  free(text);
  return st;
}

shoal_status shoal_run_configure_as(const char *as, const char *run_file, const char *const *sets, size_t n_sets,
                                    shoal_config **out)
{
  shoal_settings *s;
  SHOAL_TRY(shoal_settings_create(&s));
  const shoal_model_entry *model = NULL;
  const shoal_method *method = NULL;
  shoal_option_table *tables = NULL;
  size_t n;
  shoal_status st;
  if (run_file) SHOAL_TRY_GOTO(st, shoal_settings_read(s, run_file), done);
  if (as) SHOAL_TRY_GOTO(st, take_method(s, as), done);
  SHOAL_TRY_GOTO(st, read_environment_choices(s), done);
  for (size_t i = 0; i < n_sets; i++) SHOAL_TRY_GOTO(st, shoal_settings_set(s, sets[i], "--set"), done);
  SHOAL_TRY_GOTO(st, name_element(s), done);
  SHOAL_TRY_GOTO(st, take_model_file(s), done);
  SHOAL_TRY_GOTO(st, choose(s, &model, &method), done);
  SHOAL_TRY_GOTO(st, all_tables(model, method, &tables, &n), done);
  SHOAL_TRY_GOTO(st, shoal_config_create(s, tables, n, out), done);
  if ((st = check_together(*out, method)) != SHOAL_OK) {
    shoal_config_destroy(*out);
    *out = NULL;
  }
done:
  free(tables);
  shoal_settings_destroy(s);
  return st;
}

shoal_status shoal_run_configure(const char *run_file, const char *const *sets, size_t n_sets, shoal_config **out)
{
  return shoal_run_configure_as(NULL, run_file, sets, n_sets, out);
}

shoal_status shoal_run_recall_schedule(const char *resolved, shoal_config **out)
{
  static const shoal_option length[] = { { RUN_EPOCHS }, { .name = NULL } };
  static const shoal_option_table tables[] = { { "run", length }, { "optim", shoal_optim_options } };
  return shoal_config_recall(resolved, "the checkpoint's run file", tables, SHOAL_COUNT(tables), out);
}

/* Index of an option's value in its list of words. */
static size_t place_of(const shoal_config *c, const char *option, const char *const *words)
{
  size_t i = 0;
  while (words[i] && strcmp(words[i], shoal_config_string(c, option)) != 0) i++;
  return i;
}

void shoal_run_choose(const shoal_config *c, shoal_run_choice *out)
{
  static const char *const last[] = {
    [SHOAL_LAST_SHORT] = "short", [SHOAL_LAST_DROP] = "drop", [SHOAL_LAST_PAD] = "pad", NULL
  };
  static const char *const shards[] = {
    [SHOAL_SHARD_DRAWN] = "drawn", [SHOAL_SHARD_FIXED] = "fixed", [SHOAL_SHARD_SORTED] = "sorted", NULL
  };
  static const char *const levels[] = {
    [SHOAL_TRACE_OFF] = "off", [SHOAL_TRACE_BY_STEP] = "step", [SHOAL_TRACE_BY_OP] = "op", NULL
  };
  static const char *const policies[] = {
    [SHOAL_BAD_STOP] = "stop", [SHOAL_BAD_SKIP] = "skip", [SHOAL_BAD_ROLLBACK] = "rollback", NULL
  };
  static const char *const places[] = { [SHOAL_FAULT_GRADIENT] = "gradient",     [SHOAL_FAULT_LOSS] = "loss",
                                        [SHOAL_FAULT_WEIGHT] = "weight",         [SHOAL_FAULT_INPUT] = "input",
                                        [SHOAL_FAULT_STATISTICS] = "statistics", [SHOAL_FAULT_SPIKE] = "spike",
                                        [SHOAL_FAULT_DRIFT] = "drift",           NULL };
  static const char *const measures[] = {
    [SHOAL_BEST_NONE] = "none", [SHOAL_BEST_ACCURACY] = "test_acc", [SHOAL_BEST_LOSS] = "test_loss", NULL
  };
  static const char *const besides[] = {
    [SHOAL_CKPT_AUTO] = "auto", [SHOAL_CKPT_ALWAYS] = "always", [SHOAL_CKPT_NEVER] = "never", NULL
  };
  *out = (shoal_run_choice){
    .best = (shoal_best)place_of(c, "ckpt.best", measures),
    .beside = (shoal_ckpt_beside)place_of(c, "ckpt.beside", besides),
    .gather_bytes = (uint64_t)shoal_config_int(c, "ckpt.gather") << 20,
    .patience = (uint64_t)shoal_config_int(c, "eval.patience"),
    .bad = (shoal_bad_policy)place_of(c, "numbers.bad", policies),
    .products = (shoal_products)place_of(c, "compute.dtype", shoal_products_names),
    .recompute = strcmp(shoal_config_string(c, "compute.recompute"), "units") == 0,
    .emulate = shoal_config_bool(c, "fault.emulate"),
    .spike = shoal_config_float(c, "numbers.spike"),
    .bad_limit = (uint64_t)shoal_config_int(c, "numbers.limit"),
    .nan_place = (shoal_fault_place)place_of(c, "fault.nan_place", places),
    .log_every = shoal_config_period(c, "run.log_every"),
    .eval_every = shoal_config_period(c, "eval.every"),
    .save_every = shoal_config_period(c, "ckpt.every"),
    .steps = (uint64_t)shoal_config_int(c, "run.steps"),
    .eval_batch = (uint64_t)shoal_config_int(c, "eval.batch"),
    .eval_statistics = (uint64_t)shoal_config_int(c, "eval.statistics"),
    .eval_measured = strcmp(shoal_config_string(c, "eval.batch_norm"), "measured") == 0,
    .eval_by_batch = strcmp(shoal_config_string(c, "eval.batch_norm"), "batch") == 0,
    .last = (shoal_last_batch)place_of(c, "data.last", last),
    .shard = (shoal_shard)place_of(c, "data.shards", shards),
    .trace = (shoal_trace_level)place_of(c, "trace.level", levels),
    .trace_bytes = (uint64_t)shoal_config_int(c, "trace.max_size") << 20,
    .trace_last = strcmp(shoal_config_string(c, "trace.keep"), "last") == 0,
    .retries_save = strcmp(shoal_config_string(c, "ckpt.failure"), "retry") == 0,
    .keep = (int)shoal_config_int(c, "ckpt.keep"),
  };
}
