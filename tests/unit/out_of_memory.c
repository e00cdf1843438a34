/* When memory runs out: every allocation of a piece of work fails once, and with all that follow.  The work must end with
 * ERR_MEM (or, where it can do without, as usual), free what it has and nothing it has not.
 *
 *     for n = 1, 2, ...    a child process with a dirty stack and dirty heap runs the work; its n-th allocation fails
 *     for every `what`     the same for whole runs of training, by the name that shoal_alloc is given
 *
 * The linker sends the allocations of our own libraries here (--wrap).  Uninitialised pointers hold garbage, so that
 * freeing one is fatal with any allocator; blocks are counted, so that one left behind on an error path is found, too.
 * Texts of messages abort when there is no memory (base/str.c says why); that is told from a crash by what it prints. */
#include "base/env.h"
#include "base/error.h"
#include "base/mem.h"
#include "check.h"
#include "config/args.h"
#include "method/ab/ab.h"
#include "method/common/graph.h"
#include "method/common/svd.h"
#include "method/ist/ist.h"
#include "method/local/local.h"
#include "nn/heads.h"
#include "nn/optim.h"
#include "nn/plan.h"
#include "slurm/claims.h"
#include "slurm/nodes.h"
#include "slurm/plan.h"
#include "train/options.h"
#include "train/train.h"
#include <dirent.h>
#include <errno.h>
#include <lapacke.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- allocations that fail, and a list of the blocks that live ---- */

enum { MOST_BLOCKS = 1 << 16 };
static void *live[MOST_BLOCKS]; /* an open hash table; GONE where one was taken out */
static char gone[1];
#define GONE ((void *)gone)
static long n_blocks, countdown = -1; /* allocations until one fails; below 0: none does */
static bool stays_out, has_failed;
static const char *fail_what; /* of shoal_alloc */
static FILE *whats;           /* the names shoal_alloc is given go here */

static bool fails(void)
{
  if (has_failed && stays_out) return true;
  if (countdown < 0 || countdown-- > 0) return false;
  return has_failed = true;
}

static size_t place_of(const void *p)
{
  return (size_t)((uintptr_t)p >> 4) * 2654435761u % MOST_BLOCKS;
}

static void *note(void *p)
{
  if (!p) return p;
  size_t i = place_of(p);
  while (live[i] && live[i] != GONE) i = (i + 1) % MOST_BLOCKS;
  live[i] = p;
  if (++n_blocks > MOST_BLOCKS / 2) abort();
  return p;
}

/* What a library outside has allocated is not in the list. */
static void forget(void *p)
{
  for (size_t i = place_of(p); p && live[i]; i = (i + 1) % MOST_BLOCKS)
    if (live[i] == p) {
      live[i] = GONE;
      n_blocks--;
      return;
    }
}

#define WRAP(type, name, ...)                                                                                          \
  type __real_##name(__VA_ARGS__);                                                                                     \
  type __wrap_##name(__VA_ARGS__);                                                                                     \
  type __wrap_##name(__VA_ARGS__)
WRAP(void *, malloc, size_t n)
{
  return fails() ? NULL : note(__real_malloc(n));
}
WRAP(void *, calloc, size_t n, size_t size)
{
  return fails() ? NULL : note(__real_calloc(n, size));
}
WRAP(void *, realloc, void *p, size_t n)
{
  if (fails()) return NULL;
  forget(p);
  return note(__real_realloc(p, n));
}
WRAP(int, posix_memalign, void **p, size_t align, size_t n)
{
  if (fails()) return ENOMEM;
  int code = __real_posix_memalign(p, align, n);
  if (code == 0) note(*p);
  return code;
}
WRAP(char *, strdup, const char *text)
{
  return fails() ? NULL : note(__real_strdup(text));
}
WRAP(char *, strndup, const char *text, size_t n)
{
  return fails() ? NULL : note(__real_strndup(text, n));
}
WRAP(void, free, void *p)
{
  forget(p);
  __real_free(p);
}
WRAP(shoal_status, shoal_alloc, size_t n, size_t size, const char *what, void **out)
{
  if (whats) fprintf(whats, "%s\n", what);
  if (!fail_what || strcmp(fail_what, what) != 0) return __real_shoal_alloc(n, size, what, out);
  return __real_shoal_alloc(SIZE_MAX, size, what, out);
}

/* The quick decomposition never finds singular values here, so that the slower one is tried. */
WRAP(lapack_int, LAPACKE_sgesdd, int layout, char job, lapack_int m, lapack_int n, float *a, lapack_int lda, float *s,
     float *u, lapack_int ldu, float *vt, lapack_int ldvt)
{
  return 1;
}

static __attribute__((noinline)) void dirty_the_stack(void)
{
  volatile unsigned char junk[1 << 16];
  for (size_t i = 0; i < sizeof junk; i++) junk[i] = 0xa5;
}

/* ---- work ---- */

static const char run_text[] = "run: { name: x, epochs: 2 }\nmodel: { name: mlp, widths: [8, 8] }\n"
                               "data: { file: none.h5, augment: [crop4, hflip] }\noptim: { lr: 0.1 }\nmethod: daso\n";
static const char step_text[] =
    "SLURM_STEP_NUM_TASKS=8\nSLURM_STEP_NODELIST=n[1-3],m7\nSLURM_STEP_TASKS_PER_NODE=2(x4)\n"
    "SLURM_STEP_NUM_NODES=4\nSLURM_PROCID=3\nSLURM_NODEID=1\nSLURM_LOCALID=1\n"
    "SLURM_JOB_CPUS_PER_NODE=4(x4)\nSLURM_DISTRIBUTION=cyclic\nSLURM_STEP_ID=0\n";
static char run_path[] = "/tmp/shoal-run-XXXXXX", step_path[] = "/tmp/shoal-step-XXXXXX";
static shoal_machine *machine;
static shoal_config *mlp_config, *resnet_config; /* all made before memory runs out */
static shoal_model *network, *residual;
static shoal_backend *backend;

static void ignore_change(void *ctx, const char *name, const char *was, const char *is)
{
}

static shoal_status configure(void)
{
  static const char *const sets[] = { "optim.lr=0.2", "model.widths=[4,5,6]", "ckpt.every=3 steps", "run.seed=3" };
  shoal_config *c = NULL;
  SHOAL_TRY(shoal_run_configure(run_path, sets, SHOAL_COUNT(sets), &c));
  shoal_status st = shoal_config_changes(c, "run: { name: y }\n", "old", ignore_change, NULL);
  shoal_config_destroy(c);
  return st;
}

static shoal_status bad_configure(void)
{
  static const char *const sets[] = { "optim.lr=fast", "data.augment=[crop5]", "optim.moment=1", "method.every=0" };
  shoal_config *c = NULL;
  return shoal_run_configure(run_path, sets, SHOAL_COUNT(sets), &c);
}

static shoal_status arguments(void)
{
  static const shoal_flag flags[] = { { "-o", "--output", "FILE", SHOAL_FLAG_VALUE, "" },
                                      { "--set", NULL, "A=B", SHOAL_FLAG_LIST, "" },
                                      { 0 } };
  static const shoal_verb_help help = { "x", "x", flags, 0, -1, NULL };
  static char *good[] = { "x", "-o", "f", "--set", "a=b", "word", NULL }, *bad[] = { "x", "--outptu", "f", NULL };
  bool helped;
  shoal_args *a = NULL;
  SHOAL_TRY(shoal_args_parse(&help, 6, good, &helped, &a));
  shoal_args_destroy(a);
  return shoal_args_parse(&help, 3, bad, &helped, &a);
}

static shoal_status node_list(void)
{
  char **names = NULL;
  size_t n = 0;
  SHOAL_TRY(shoal_topo_expand_nodes("n[1-20,30],m[01-02]g[1-2]", &names, &n));
  for (size_t i = 0; i < n; i++) free(names[i]);
  free(names);
  return shoal_topo_expand_nodes("n[1-20],n[3-", &names, &n);
}

static shoal_status plan_of(const shoal_env *e)
{
  shoal_step s;
  shoal_topo *t = NULL;
  shoal_claims *all = NULL;
  SHOAL_TRY(shoal_step_read(e, &s));
  shoal_status st = shoal_topo_plan((const shoal_machine *const[]){ machine }, 1, e, &s, &t);
  if (st == SHOAL_OK) st = SHOAL_ALLOC((size_t)t->size, &all);
  for (int r = 0; st == SHOAL_OK && r < t->size; r++) st = shoal_claims_read(e, t->places[r].host, &all[r]);
  if (st == SHOAL_OK) st = shoal_claims_compare(all, t, "none");
  free(all);
  shoal_topo_destroy(t);
  shoal_step_free(&s);
  return st == SHOAL_ERR_WORLD ? SHOAL_OK : st; /* all speak for rank 3 */
}

static shoal_status step(void)
{
  shoal_env *e = NULL;
  SHOAL_TRY(shoal_env_read(step_path, &e));
  shoal_status st = plan_of(e);
  shoal_env_destroy(e);
  return st;
}

static shoal_status build_mlp(void)
{
  shoal_model *m = NULL;
  SHOAL_TRY(shoal_model_find("mlp")->build(mlp_config, &SHOAL_SHAPE(3, 8, 8), 10, &m));
  shoal_model_destroy(m);
  return SHOAL_OK;
}

static shoal_status build_resnet(void)
{
  shoal_model *m = NULL;
  SHOAL_TRY(shoal_model_find("resnet20")->build(resnet_config, &SHOAL_SHAPE(3, 8, 8), 10, &m));
  shoal_model_destroy(m);
  return SHOAL_OK;
}

static shoal_status factored(const shoal_model *m)
{
  shoal_factoring *how = NULL;
  shoal_model *part = NULL;
  SHOAL_TRY(SHOAL_ALLOC((size_t)m->nodes, &how));
  for (int i = 0; i < m->nodes; i++)
    if (m->node[i].kind == SHOAL_OP_LINEAR) how[i] = (shoal_factoring){ 2, i % 2 };
  shoal_status st = shoal_model_factor(m, how, SHOAL_TRAIN_A, &part);
  free(how);
  if (st == SHOAL_OK) shoal_model_destroy(part);
  return st;
}

static shoal_status cuts(void)
{
  shoal_model *a = NULL, *b = NULL, *both = NULL;
  size_t weights[2], stats[2];
  SHOAL_TRY(factored(network));
  SHOAL_TRY(shoal_model_copy(residual, &a));
  shoal_model_destroy(a);
  SHOAL_TRY(shoal_model_slice(network, 0, 1, NULL, &a));
  shoal_status st = shoal_model_slice(network, 1, network->units, NULL, &b);
  if (st == SHOAL_OK) {
    st = shoal_model_join((const shoal_model *const[]){ a, b }, 2, weights, stats, &both);
    if (st == SHOAL_OK) shoal_model_destroy(both);
    shoal_model_destroy(b);
  }
  shoal_model_destroy(a);
  return st;
}

static shoal_status plans(void)
{
  shoal_params *p = NULL;
  shoal_plans *all = NULL;
  shoal_plan *plan = NULL;
  shoal_optim *optim = NULL;
  SHOAL_TRY(shoal_params_create(backend, residual, NULL, &p));
  shoal_status st = shoal_plans_create(backend, residual, &all);
  if (st == SHOAL_OK) {
    st = shoal_plans_get(all, 4, SHOAL_PLAN_TRAIN, &plan);
    if (st == SHOAL_OK) st = shoal_plans_get(all, 2, SHOAL_PLAN_EVAL, &plan);
    if (st == SHOAL_OK) st = shoal_optim_create(backend, &(shoal_optim_config){ .momentum = 0.9f }, p->n, &optim);
    if (st == SHOAL_OK) shoal_optim_destroy(optim);
    shoal_plans_destroy(all);
  }
  shoal_params_destroy(backend, p);
  return st;
}

static shoal_status ist_of(const shoal_ist_plan *p)
{
  shoal_ist_deal *d = NULL;
  shoal_ist_view *v = NULL;
  shoal_model *part = NULL;
  SHOAL_TRY(shoal_ist_deal_create(p, &d));
  shoal_ist_draw(p, 0, d);
  shoal_status st = shoal_ist_part(p, d, 1, &part);
  if (st == SHOAL_OK) st = shoal_ist_view_create(p, 1, &v);
  if (st == SHOAL_OK) {
    shoal_ist_view_set(v, d, d, part);
    shoal_ist_view_destroy(v);
  }
  shoal_model_destroy(part);
  shoal_ist_deal_destroy(p, d);
  return st;
}

static shoal_status ist(void)
{
  for (int kind = 0; kind < 2; kind++) {
    shoal_ist_plan *p = NULL;
    SHOAL_TRY(shoal_ist_plan_create(kind ? residual : network,
                                    &(shoal_ist_options){ .parts = 2, .seed = 1, .blocks = kind }, &p));
    shoal_status st = ist_of(p);
    shoal_ist_plan_destroy(p);
    SHOAL_TRY(st);
  }
  return SHOAL_OK;
}

static shoal_status local(void)
{
  enum { MOST = 64 };
  int bounds[MOST], layers = shoal_local_layers(residual->units);
  double cost[MOST], heads[MOST];
  size_t weights[MOST], stats[MOST];
  shoal_local_block blocks[MOST];
  shoal_local_parts *p = NULL;
  shoal_model *joined = NULL;
  shoal_local_replay replay = { 0 };
  SHOAL_TRY(shoal_local_count(residual, SHOAL_HEAD_MLP_SR, 8, cost, heads));
  SHOAL_TRY(shoal_local_cut(layers, cost, heads, 4, bounds));
  int n = shoal_local_blocks(SHOAL_LOCAL_CHUNKED, residual->units, bounds, 4, blocks);
  SHOAL_TRY(shoal_local_parts_create(residual, SHOAL_LOCAL_CHUNKED, SHOAL_HEAD_MLP_SR, 8, blocks, n, &p));
  shoal_status st = shoal_local_deal(p, &(shoal_local_grid){ 2, 1, false });
  if (st == SHOAL_OK) st = shoal_local_join(p, 0, weights, stats, &joined);
  if (st == SHOAL_OK) shoal_model_destroy(joined);
  shoal_local_parts_destroy(p);
  if (st == SHOAL_OK) st = shoal_local_replay_init(8, 2, &replay);
  shoal_local_replay_fini(&replay);
  return st;
}

static shoal_status small_things(void)
{
  static const int node[] = { 0, 0, 1, 1 };
  shoal_ab_groups groups = { 0 };
  shoal_graph *g = NULL;
  float x[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 17 };
  shoal_svd s = { 0 };
  SHOAL_TRY(shoal_ab_groups_make(node, 4, SHOAL_AB_AUTO, false, &groups));
  shoal_ab_groups_free(&groups);
  SHOAL_TRY(shoal_graph_create(SHOAL_GRAPH_RANDOM, 8, 0.5, 3, SHOAL_GRAPH_ALL, &g));
  shoal_graph_destroy(g);
  SHOAL_TRY(shoal_svd_make(x, 4, 3, "x", NULL, &s));
  shoal_svd_free(&s);
  return shoal_orthogonalise(x, 4, 3, "x", NULL);
}

/* ---- children ---- */

typedef struct {
  const char *name;
  shoal_status (*work)(void);
  shoal_status also; /* what it returns where memory suffices, beside OK */
  bool counts_blocks;
} job;

enum { DONE = 0, HANDLED = 3, WRONG = 4, LEFT = 5 };

#ifdef __SANITIZE_ADDRESS__
/* Before a fork.  The sanitizer's allocator keeps its locks across a fork as they are, so a child made while another thread, as that of
 * a lease which has just begun, is in malloc would wait for ever; the C library's own does not.  Waits until all others sleep. */
static void await_other_threads(void)
{
  struct dirent *e;
  for (int busy = 1, tries = 0; busy && tries < 2000; tries++) {
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks, "/proc");
    for (busy = 0; (e = readdir(tasks));) {
      char path[64], state = 0;
      snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", e->d_name);
      long id = strtol(e->d_name, NULL, 10); /* 0: "." and ".." */
      FILE *f = id == 0 || id == getpid() ? NULL : fopen(path, "re");
      if (f && fscanf(f, "%*d %*s %c", &state) == 1) busy |= state != 'S';
      if (f) fclose(f);
    }
    closedir(tasks);
    if (busy) usleep(1000);
  }
}
#endif

/* In the child: the exit code. */
static int try_once(const job *j, long n)
{
  long before = n_blocks;
  countdown = n;
  dirty_the_stack();
  shoal_status st = j->work();
  countdown = -1;
  stays_out = false;
  if (st != SHOAL_OK && st != SHOAL_ERR_MEM && st != j->also) {
    fprintf(stderr, "ended with %s: %s\n", shoal_status_name(st), shoal_error_text(st));
    return WRONG;
  }
  if (j->counts_blocks && n_blocks > before) {
    fprintf(stderr, "%ld blocks were not freed\n", n_blocks - before);
    return LEFT;
  }
  return has_failed || (fail_what && st == SHOAL_ERR_MEM) ? HANDLED : DONE;
}

/* What the child printed, and how it ended. */
static int run_child(const job *j, long n, char *text, size_t cap)
{
  int said = memfd_create("stderr", 0), code;
  fflush(NULL);
  pid_t pid = fork();
  REQUIRE(pid >= 0, "a child");
  REQUIRE(said >= 0, "a child");
  if (pid == 0) {
    dup2(said, STDERR_FILENO);
    dup2(said, STDOUT_FILENO);
    alarm(120);
    int own = try_once(j, n);
    fflush(NULL);
    _exit(own);
  }
  REQUIRE(waitpid(pid, &code, 0) == pid, "the child's end");
  off_t bytes = lseek(said, 0, SEEK_END), from = bytes > (off_t)cap - 1 ? bytes - (off_t)cap + 1 : 0;
  ssize_t got = pread(said, text, cap - 1, from);
  text[got > 0 ? got : 0] = 0;
  close(said);
  return code;
}

static bool acceptable(int code, const char *text)
{
  if (WIFEXITED(code) && (WEXITSTATUS(code) == HANDLED || WEXITSTATUS(code) == DONE)) return true;
  return WIFSIGNALED(code) && WTERMSIG(code) == SIGABRT && strstr(text, "shoal: error: out of memory for a text");
}

static void out_of_memory(const job *j)
{
  static char text[4096];
  long n = 0, faults = 0;
  for (int stays = 1; stays >= 0; stays--)
    for (n = 0; n < 20000; n += (stays ? 7 : 1) * check_step(23)) {
      stays_out = stays;
      int code = run_child(j, n, text, sizeof text);
      bool ok = acceptable(code, text);
      faults += !ok;
      if (faults <= 3)
        CHECK(ok, "%s: allocation %ld fails%s: status 0x%x\n%s", j->name, n + 1, stays ? " and all later" : "", code,
              text);
      if (ok && WIFEXITED(code) && WEXITSTATUS(code) == DONE) break;
    }
  stays_out = false;
  printf("%-14s %4ld allocations, %ld faults\n", j->name, n, faults);
  CHECK_GT(n, 0, "%s", j->name);
  CHECK_LT(n, 20000, "%s", j->name);
}

/* ---- whole runs: each kind of allocation by its name ---- */

static const char *golden; /* the folder of checkpoints */
static char run_file[512], resume[512];
static const char *more; /* another setting */

static shoal_status train(void)
{
  char data[600], dir[64];
  snprintf(data, sizeof data, "data.file=%s/v1-glyphs.h5", golden);
  snprintf(dir, sizeof dir, "run.dir=/tmp/shoal-memory-%d", (int)getpid());
  const char *sets[] = { data, dir, "run.epochs=2", "eval.batch=100", more };
  shoal_train_args args = { .run_file = run_file, .sets = sets, .n_sets = SHOAL_COUNT(sets), .quiet = true };
  args.resume = resume;
  shoal_status st = shoal_train(&args);
  char clean[128];
  snprintf(clean, sizeof clean, "rm -rf /tmp/shoal-memory-%d", (int)getpid());
  return system(clean) == 0 ? st : SHOAL_ERR_IO;
}

static void train_out_of_memory(const char *method)
{
  static char text[4096], name[64], seen[512][64];
  size_t n = 0;
  int faults = 0;
  const job j = { method, train, SHOAL_ERR_IO, false }; /* what cannot be verified for lack of memory is not resumed */
  more = strcmp(method, "ab") == 0 ? "method.mode=only-b" : "run.log_every=1h"; /* one rank has no groups */
  snprintf(run_file, sizeof run_file, "%s/v1-%s.yaml", golden, method);
  snprintf(resume, sizeof resume, "%s/v1-%s.h5", golden, method);
  whats = tmpfile();
  int code = run_child(&j, -1, text, sizeof text);
  REQUIRE(WIFEXITED(code), "%s: status 0x%x\n%s", method, code, text);
  REQUIRE(WEXITSTATUS(code) == DONE, "%s: status 0x%x\n%s", method, code, text);
  FILE *f = whats;
  whats = NULL;
  rewind(f);
  while (fgets(name, sizeof name, f)) {
    name[strcspn(name, "\n")] = 0;
    size_t i = 0;
    while (i < n && strcmp(seen[i], name) != 0) i++;
    if (i == n && n < SHOAL_COUNT(seen)) snprintf(seen[n++], sizeof seen[0], "%s", name);
  }
  fclose(f);
  for (size_t i = 0; i < n; i += (size_t)check_step(17)) {
    fail_what = seen[i];
    code = run_child(&j, -1, text, sizeof text);
    faults += !acceptable(code, text);
    CHECK(acceptable(code, text), "%s: no memory for %s: status 0x%x\n%s", method, seen[i], code, text);
  }
  fail_what = NULL;
  printf("%-14s %4zu kinds of allocations, %d faults\n", method, n, faults);
}

static void put_file(char *path, const char *text)
{
  int fd = mkstemp(path);
  REQUIRE(fd >= 0, "a file");
  REQUIRE(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "a file");
  close(fd);
}

static void prepare(void)
{
  const char *sets[] = { "data.file=none.h5", "model.name=mlp", "model.widths=[8,8]" };
  mallopt(M_PERTURB, 0xa5);
  put_file(run_path, run_text);
  put_file(step_path, step_text);
  REQUIRE(shoal_machine_open(NULL, &machine) == SHOAL_OK, "the machine");
  REQUIRE(shoal_run_configure(NULL, sets, 3, &mlp_config) == SHOAL_OK, "options");
  REQUIRE(shoal_model_find("mlp")->build(mlp_config, &SHOAL_SHAPE(4), 3, &network) == SHOAL_OK, "mlp");
  sets[1] = "model.name=resnet20";
  REQUIRE(shoal_run_configure(NULL, sets, 2, &resnet_config) == SHOAL_OK, "options");
  REQUIRE(shoal_model_find("resnet20")->build(resnet_config, &SHOAL_SHAPE(3, 8, 8), 3, &residual) == SHOAL_OK,
          "resnet20");
  REQUIRE(shoal_backend_open("ref", 1, &backend) == SHOAL_OK, "a backend");
}

int main(int argc, char **argv)
{
  static const job jobs[] = {
    { "configure", configure, SHOAL_OK, true },
    { "bad configure", bad_configure, SHOAL_ERR_USAGE, true },
    { "arguments", arguments, SHOAL_ERR_USAGE, true },
    { "node list", node_list, SHOAL_ERR_USAGE, true },
    { "step", step, SHOAL_OK, true },
    { "mlp", build_mlp, SHOAL_OK, true },
    { "resnet20", build_resnet, SHOAL_OK, true },
    { "cuts", cuts, SHOAL_OK, true },
    { "plans", plans, SHOAL_OK, true },
    { "ist", ist, SHOAL_OK, true },
    { "local", local, SHOAL_OK, true },
    { "small things", small_things, SHOAL_OK, true },
  };
  golden = argv[1];
#ifdef __SANITIZE_ADDRESS__
  REQUIRE(pthread_atfork(await_other_threads, NULL, NULL) == 0, "a handler");
#endif
  prepare();
  for (size_t i = 0; i < SHOAL_COUNT(jobs); i++)
    if (argc == 2 || strstr(argv[2], jobs[i].name)) out_of_memory(&jobs[i]);
  static const char *const methods[] = { "sync", "local-sgd", "daso", "swarm", "ab", "ist", "local" };
  for (size_t i = 0; i < SHOAL_COUNT(methods); i++)
    if (argc == 2 || strstr(argv[2], "train")) train_out_of_memory(methods[i]);
  shoal_backend_close(backend);
  /* The machine stays open: hwloc would unload its PCI plugin, and nobody could name what that has lost. */
  shoal_model_destroy(network);
  shoal_model_destroy(residual);
  shoal_config_destroy(mlp_config);
  shoal_config_destroy(resnet_config);
  unlink(run_path);
  unlink(step_path);
  return check_done();
}
