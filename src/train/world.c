/* The run's world: the run file, ranks and groups, the folder, the trace, the backend. */
#include "base/activity.h"
#include "base/env.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/folder.h"
#include "comm/costs.h"
#include "tensor/cpu/cpu.h"
#include "train/session.h"
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

static double period_seconds(const shoal_config *c, const char *name)
{
  shoal_period p = shoal_config_period(c, name);
  return p.unit == SHOAL_PER_SECONDS ? p.value : 0;
}

/* The world options of the run file. */
static shoal_world_options world_options(const shoal_session *s)
{
  return (shoal_world_options){
    .pretend = s->world.args->topology,
    .allow_singletons = shoal_config_bool(s->world.config, "run.allow_singletons"),
    .strict_cores = shoal_config_bool(s->world.config, "run.strict"),
    .threads = (int)shoal_config_int(s->world.config, "threads"),
    .own_gpus = strcmp(shoal_config_string(s->world.config, "device"), "auto") == 0,
    .no_sharing = !shoal_config_bool(s->world.config, "comm.shared_memory"),
    .max_message = (size_t)shoal_config_int(s->world.config, "comm.max_message"),
    .warn_s = period_seconds(s->world.config, "comm.warn"),
    .hang_s = period_seconds(s->world.config, "comm.hang"),
  };
}

/* The GPUs that this rank may use, if the run asks for them; `auto` takes none where there is none, and says why. */
static shoal_status find_gpus(shoal_session *s, shoal_gpu out[SHOAL_GPUS_MAX], int *n)
{
  const char *device = shoal_config_string(s->world.config, "device");
  bool any = strcmp(device, "auto") == 0;
  *n = 0;
  if (!any && strcmp(device, "cuda") != 0) return SHOAL_OK;
  shoal_status st = shoal_backend_devices("cuda", out, n);
  if (!any || st == SHOAL_OK) return st;
  if (st != SHOAL_ERR_UNSUPPORTED) s->world.no_device = shoal_strdup_printf("%s", shoal_error_text(st));
  return SHOAL_OK;
}

/* Every rank reads the run file before opening the world.  A rank that fails still opens it, to inform the others. */
shoal_status shoal_session_open_world(shoal_session *s)
{
  const shoal_train_args *a = s->world.args;
  shoal_status st = a->failed;
  if (st == SHOAL_OK) st = shoal_run_configure(a->run_file, a->sets, a->n_sets, &s->world.config);
  shoal_gpu gpu[SHOAL_GPUS_MAX];
  int gpus = 0;
  if (st == SHOAL_OK) st = find_gpus(s, gpu, &gpus);
  shoal_world_options o = { .failed = st };
  if (st == SHOAL_OK) o = world_options(s);
  o.gpu = gpu;
  o.gpus = gpus;
  shoal_run *r = &s->run;
  SHOAL_TRY(shoal_world_open(&o, &r->world));
  shoal_run_choose(s->world.config, &s->world.choice);
  r->config = s->world.config;
  r->all = shoal_world_group(r->world);
  r->control = shoal_world_control(r->world);
  r->seed = (uint64_t)shoal_config_int(s->world.config, "run.seed");
  r->epochs = (double)shoal_config_int(s->world.config, "run.epochs");
  s->method = shoal_method_find(shoal_config_string(s->world.config, "method.name"));
  return SHOAL_OK;
}

/* Rank 0 reads them, so that all ranks choose alike. */
shoal_status shoal_session_load_costs(shoal_session *s)
{
  shoal_costs costs = shoal_costs_ethernet;
  shoal_world *w = s->run.world;
  const char *path = shoal_config_string(s->world.config, "comm.costs");
  if (!*path) return SHOAL_OK;
  SHOAL_TRY(shoal_group_agree(s->run.control, shoal_session_is_root(s) ? shoal_costs_read(path, &costs) : SHOAL_OK));
  SHOAL_TRY(shoal_group_broadcast(s->run.control, &costs, sizeof costs, 0));
  shoal_world_set_costs(w, &costs);
  shoal_info("sums are chosen by %s: between nodes %.1f us, %.1f and %.1f MB/s; inside a node %.1f us, %.0f MB/s", path,
             costs.latency_s * 1e6, costs.near_rate * 1e-6, costs.far_rate * 1e-6, costs.local_latency_s * 1e6,
             costs.local_rate * 1e-6);
  return SHOAL_OK;
}

/* All ranks wait together, so that nobody takes it for a hang, and a signal at any of them ends it. */
static shoal_status take_folder(shoal_session *s)
{
  enum { NAP_US = 200000 };
  for (;;) {
    bool again = false;
    shoal_status st = shoal_session_is_root(s) ? shoal_folder_take(&s->world.folder, &again) : SHOAL_OK;
    SHOAL_TRY(shoal_group_agree(s->run.control, st));
    int64_t what = again ? 1 : 0;
    SHOAL_TRY(shoal_group_agree_max(s->run.control, "lease", &what));
    if (!what) return SHOAL_OK;
    SHOAL_TRY(shoal_session_agree(s, SHOAL_OK));
    usleep(NAP_US);
  }
}

/* --resume never: a new run beside checkpoints would end among them, and the next start would take the wrong ones. */
static shoal_status refuse_checkpoints(const shoal_folder *f)
{
  uint64_t step;
  char *newest = NULL, next[80] = "";
  if (!shoal_folder_has_checkpoints(f)) return SHOAL_OK;
  SHOAL_TRY(shoal_ckpt_latest(f->ckpt, &newest, &step));
  if (newest)
    snprintf(next, sizeof next, ", and the next start there goes on from step %llu", (unsigned long long)step);
  free(newest);
  char *anew = shoal_folder_begin_anew(f);
  shoal_status st =
      SHOAL_FAIL(SHOAL_ERR_USAGE, "--resume never: %s holds checkpoints%s; for a new run %s", f->dir, next, anew);
  free(anew);
  return st;
}

shoal_status shoal_session_open_folder(shoal_session *s)
{
  const shoal_config *c = s->world.config;
  SHOAL_TRY(shoal_group_agree(s->run.control, shoal_folder_name(shoal_config_string(c, "run.dir"),
                                                                shoal_config_string(c, "run.name"), &s->world.folder)));
  bool never = s->world.args->resume && strcmp(s->world.args->resume, "never") == 0;
  SHOAL_TRY(shoal_group_agree(s->run.control,
                              shoal_session_is_root(s) && never ? refuse_checkpoints(&s->world.folder) : SHOAL_OK));
  shoal_activity_begin(true, "taking the lease of %s", s->world.folder.dir);
  shoal_status st = take_folder(s);
  shoal_activity_end();
  SHOAL_TRY(st);
  SHOAL_TRY(shoal_group_broadcast(s->run.control, &s->world.folder.token, sizeof s->world.folder.token, 0));
  SHOAL_TRY(shoal_group_broadcast(s->run.control, &s->world.folder.attempt, sizeof s->world.folder.attempt, 0));
  return shoal_session_see_folder(s);
}

/* Whether ranks that share this one's cores have more threads than there are cores. */
static bool is_contended(const shoal_session *s, const shoal_place *p)
{
  const shoal_topo *t = shoal_world_topo(s->run.world);
  int threads = (int)shoal_config_int(s->world.config, "threads"), sharing = 0;
  for (int r = 0; r < t->size; r++)
    if (strcmp(t->places[r].host, p->host) == 0 && strcmp(t->places[r].on->cpu_list, p->on->cpu_list) == 0)
      sharing += threads ? threads : t->places[r].on->threads;
  return sharing > p->on->cores;
}

/* After the first failure, whose error is the thread's.  If the folder is gone or another's, the run itself ends soon and says so. */
static void end_trace(shoal_session *s, bool goes_on)
{
  if (s->world.trace_ended) return;
  s->world.trace_ended = true;
  if (!shoal_session_is_root(s) || !shoal_folder_is_ours(&s->world.folder)) return;
  s->world.told_ended = 1;
  shoal_warn("%s; the trace ends here%s", shoal_error_text(SHOAL_ERR_IO), goes_on ? ", training goes on" : "");
}

void shoal_session_flush_trace(shoal_session *s, bool even_if_recent)
{
  if (s->world.trace_ended) return;
  shoal_activity_begin(false, "writing the trace in %s", s->world.folder.trace);
  shoal_status st = shoal_trace_flush(s->run.trace, even_if_recent);
  shoal_activity_end();
  if (st != SHOAL_OK) end_trace(s, true);
}

shoal_status shoal_session_count_traces(shoal_session *s)
{
  int64_t ended = s->world.trace_ended;
  SHOAL_TRY(shoal_group_sum_i64(s->run.control, &ended, 1));
  if (shoal_session_is_root(s) && ended > s->world.told_ended)
    shoal_warn("traces end before this step, of %lld rank%s: their files cannot be written; training goes on",
               (long long)ended, ended == 1 ? "" : "s");
  s->world.told_ended = SHOAL_MAX(ended, s->world.told_ended);
  return SHOAL_OK;
}

/* The ranks of a node share the memory of their recorders, and its first rank writes them all to one file.  Where memory
 * is not shared, every rank writes a file. */
static shoal_status open_together(shoal_session *s, const shoal_trace_info *info)
{
  shoal_status st = shoal_group_share(s->run.control, shoal_trace_ring_bytes(), &s->world.trace_ring);
  if (st == SHOAL_OK) st = shoal_trace_open_ring(s->world.trace_ring, s->world.choice.trace, info, &s->run.trace);
  return shoal_group_agree(s->run.control, st);
}

/* The rings of this node's ranks. */
static shoal_status write_together(shoal_session *s, const char *path, const shoal_trace_info *info)
{
  size_t n = 0;
  shoal_trace_ring *ranks;
  SHOAL_TRY(SHOAL_ALLOC((size_t)info->size, &ranks));
  for (int r = 0; r < info->size; r++) {
    void *memory = shoal_group_memory_of(s->run.control, s->world.trace_ring, r);
    if (memory) ranks[n++] = (shoal_trace_ring){ r, memory };
  }
  shoal_status st = shoal_trace_write(s->run.trace, path, info, ranks, n);
  free(ranks);
  return st;
}

static shoal_status open_recorder(shoal_session *s, const shoal_trace_info *info)
{
  const shoal_place *p = shoal_world_place(s->run.world);
  bool together = shoal_world_shares(s->run.world), off = s->world.choice.trace == SHOAL_TRACE_OFF;
  char file[64];
  int n = snprintf(file, sizeof file, "attempt-%04d-node-%05d", info->attempt, p->node);
  if (!together && p->local_size > 1)
    n += snprintf(file + n, sizeof file - (size_t)n, "-rank-%05d", shoal_world_rank(s->run.world));
  snprintf(file + n, sizeof file - (size_t)n, ".h5");
  if (together && !off) SHOAL_TRY(open_together(s, info));
  char *path = shoal_path_join(s->world.folder.trace, file);
  shoal_status st = SHOAL_OK;
  if (!together || off)
    st = shoal_trace_open(off ? NULL : path, s->world.choice.trace, info, &s->run.trace);
  else if (p->local_rank == 0)
    st = write_together(s, path, info);
  free(path);
  if (st == SHOAL_ERR_IO) {
    end_trace(s, true);
    st = s->run.trace ? SHOAL_OK : shoal_trace_open(NULL, SHOAL_TRACE_OFF, info, &s->run.trace);
  }
  return shoal_group_agree(s->run.control, st);
}

shoal_status shoal_session_open_trace(shoal_session *s)
{
  const shoal_place *p = shoal_world_place(s->run.world);
  const shoal_topo *topo = shoal_world_topo(s->run.world);
  shoal_str text = { 0 };
  shoal_json place = { .lines = 2 };
  shoal_config_print(s->world.config, &text);
  if (shoal_world_rank(s->run.world) == 0) /* the table of all ranks, in one file only */
    shoal_topo_put_json(topo, &place, NULL);
  else
    shoal_topo_put_json_node(topo, p->node, &place, NULL);
  shoal_trace_info info = { .run_name = shoal_config_string(s->world.config, "run.name"),
                            .config_text = text.text,
                            .placement = place.text.text,
                            .rank = shoal_world_rank(s->run.world),
                            .size = shoal_world_size(s->run.world),
                            .node = p->node,
                            .local_rank = p->local_rank,
                            .attempt = s->world.folder.attempt,
                            .host = p->host,
                            .most_bytes = s->world.choice.trace_bytes,
                            .keep_last = s->world.choice.trace_last,
                            .powercap =
                                p->local_rank == 0 ? shoal_config_string(s->world.config, "trace.powercap") : NULL,
                            .node_cpus = (int)sysconf(_SC_NPROCESSORS_ONLN),
                            .job_cpus = SHOAL_MAX(shoal_env_int(NULL, "SLURM_CPUS_ON_NODE", 1), 0),
                            .contended = is_contended(s, p) };
  shoal_status st = open_recorder(s, &info);
  shoal_str_free(&place.text);
  shoal_str_free(&text);
  if (st != SHOAL_OK) return st;
  shoal_world_set_counters(s->run.world, shoal_trace_counters(s->run.trace));
  shoal_world_set_trace(s->run.world, s->run.trace);
  return SHOAL_OK;
}

/* Errors are kept by the exchange or the method and returned by its wait.  Asynchronous ranks poll all the time, mostly
 * without a message; with more ranks than cores an unsuccessful poll yields the core, so the rate is limited. */
static void progress(void *session)
{
  enum { LISTEN_NS = 500000 };
  shoal_session *s = session;
  if (s->run.meet.kind == SHOAL_MEET_FREELY) {
    uint64_t now = shoal_now_ns();
    if (now - s->world.polled_ns < LISTEN_NS) return;
    s->world.polled_ns = now;
  }
  (void)shoal_world_progress(s->run.world);
}

shoal_status shoal_session_open_backend(shoal_session *s)
{
  const shoal_place *p = shoal_world_place(s->run.world);
  const char *device = shoal_config_string(s->world.config, "device");
  if (strcmp(device, "auto") == 0) device = p->gpu ? "cuda" : "cpu";
  const bool gpu = strcmp(device, "cuda") == 0;
  const bool graphs = shoal_config_bool(s->world.config, "cuda.graphs");
  if (!gpu && graphs && shoal_session_is_root(s)) shoal_warn("cuda.graphs does nothing on backend %s", device);
  const shoal_backend_options o = { .name = device,
                                    .threads = p->on->threads,
                                    .device = p->device,
                                    .products = s->world.choice.products,
                                    .graphs = graphs && gpu,
                                    .emulate = s->world.choice.emulate };
  SHOAL_TRY(shoal_backend_open_as(&o, &s->run.backend));
  if (strcmp(device, "cpu") == 0)
    shoal_cpu_set_winograd(s->run.backend, shoal_config_bool(s->world.config, "cpu.winograd"));
  shoal_backend_flush_subnormals(s->run.backend, shoal_config_bool(s->world.config, "numbers.flush"));
  shoal_world_set_backend(s->run.world, s->run.backend);
  if (shoal_world_size(s->run.world) > 1) {
    s->run.backend->progress = progress;
    s->run.backend->progress_context = s;
  }
  return SHOAL_OK;
}

void shoal_session_close_world(shoal_session *s)
{
  shoal_run *r = &s->run;
  if (r->world) {
    shoal_world_set_trace(r->world, NULL);
    shoal_world_set_counters(r->world, NULL);
  }
  if (shoal_trace_close(r->trace) != SHOAL_OK) end_trace(s, false);
  if (r->world) shoal_group_unshare(r->control, s->world.trace_ring);
  shoal_folder_release(&s->world.folder);
  shoal_world_close(r->world); /* may hold messages in the backend's memory */
  shoal_backend_close(r->backend);
  free(s->world.no_device);
  shoal_config_destroy(s->world.config);
}
