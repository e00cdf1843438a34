/* What shoal doctor asks of each node: masks, versions, clocks, processors and GPUs. */
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/doctor.h"
#include "h5/h5.h"
#include "tensor/backend.h"
#include "topo/machine.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* ---- masks ---- */

/* Cores of the mask that rank a was started with and that of b, which are on one node: do they differ and overlap? */
static bool overlap(const char *a, const char *b)
{
  if (strcmp(a, b) == 0) return false;
  for (const char *x = a; *x;) {
    int low, high, n = 0;
    if (sscanf(x, "%d%n", &low, &n) != 1) return false;
    high = low;
    x += n;
    if (*x == '-' && sscanf(x, "-%d%n", &high, &n) == 1) x += n;
    x += *x == ',';
    for (const char *y = b; *y;) {
      int from, to, k = 0;
      if (sscanf(y, "%d%n", &from, &k) != 1) break;
      to = from;
      y += k;
      if (*y == '-' && sscanf(y, "-%d%n", &to, &k) == 1) y += k;
      y += *y == ',';
      if (from <= high && low <= to) return true;
    }
  }
  return false;
}

static void judge_masks(const shoal_topo *t, shoal_findings *f)
{
  int bound = 0, crowded = -1;
  for (int a = 0; a < t->size; a++) {
    const shoal_place *p = &t->places[a];
    int same = 0, threads = 0;
    for (int b = 0; b < t->size; b++) {
      const shoal_place *q = &t->places[b];
      if (q->node != p->node) continue;
      bool equal = strcmp(p->on->cpu_list, q->on->cpu_list) == 0;
      same += equal;
      threads += equal ? q->on->threads : 0;
      if (b > a && overlap(p->on->cpu_list, q->on->cpu_list))
        shoal_find(f, "masks", SHOAL_FAULT, p->node,
                   "rank %d may use cpus %s and rank %d cpus %s: they take turns on some while others idle; bind all "
                   "ranks alike, "
                   "srun --cpu-bind=cores, or none",
                   a, p->on->cpu_list, b, q->on->cpu_list);
    }
    bound += same == 1;
    if (threads > p->on->cores && crowded < 0) crowded = a;
  }
  if (crowded >= 0)
    shoal_find(f, "masks", SHOAL_NOTE, t->places[crowded].node, "more threads of ranks than cores: they take turns");
  if (bound || t->size == 1)
    shoal_find(f, "masks", SHOAL_WELL, -1,
               "read back from the kernel, as the placement says; %d of %d rank%s with cores of %s own", bound, t->size,
               t->size == 1 ? "" : "s", t->size == 1 ? "its" : "their");
  else
    shoal_find(f, "masks", SHOAL_NOTE, -1,
               "read back from the kernel, as the placement says; no rank has cores of its own: those of a node share "
               "its cores, unless srun --cpu-bind=cores binds them");
}

shoal_status shoal_doctor_masks(shoal_world *w, shoal_findings *f)
{
  const shoal_place *p = shoal_world_place(w);
  shoal_facts now;
  shoal_status st = shoal_topo_facts(&now);
  if (st != SHOAL_OK)
    shoal_find_error(f, "masks", p->node, st);
  else if (strcmp(now.cpu_list, p->on->cpu_list) != 0)
    shoal_find(f, "masks", SHOAL_FAULT, p->node,
               "rank %d has cpus %s by the kernel, and had %s when it started: something moves it", shoal_world_rank(w),
               now.cpu_list, p->on->cpu_list);
  if (shoal_world_rank(w) == 0) judge_masks(shoal_world_topo(w), f);
  return SHOAL_OK;
}

/* ---- versions ---- */

enum { PROGRAM, HDF5, MPI, KERNEL, PROCESSOR, DRIVER, WHATS, LONGEST = 96 };
static const struct {
  const char *name;
  shoal_verdict odd; /* of a node that has another one */
} whats[] = {
  [PROGRAM] = { "shoal", SHOAL_FAULT },
  [HDF5] = { "HDF5", SHOAL_FAULT },
  [MPI] = { "MPI", SHOAL_FAULT },
  [KERNEL] = { "the kernel", SHOAL_NOTE },
  [PROCESSOR] = { "the processor", SHOAL_NOTE },
  [DRIVER] = { "the GPU driver", SHOAL_FAULT },
};
typedef struct {
  char text[WHATS][LONGEST];
} versions;

/* The version, and a checksum of the program's file: a build of other sources may have the same number. */
static void own_version(char *out)
{
  char *text;
  size_t n;
  uint32_t crc = 0;
  if (shoal_read_file("/proc/self/exe", &text, &n) == SHOAL_OK) {
    crc = shoal_crc32c(0, text, n);
    free(text);
  }
  snprintf(out, LONGEST, "%s (file %08x)", SHOAL_VERSION, (unsigned)crc);
}

/* What follows `name` and a colon in a file; the whole first line if `name` is NULL. */
static void first_line(const char *path, const char *name, char *out)
{
  char line[256];
  bool found = false;
  FILE *f = fopen(path, "re");
  while (f && !found && fgets(line, sizeof line, f)) {
    found = !name || strncmp(line, name, strlen(name)) == 0;
    if (!found) continue;
    line[strcspn(line, "\n")] = '\0';
    const char *value = name && strchr(line, ':') ? strchr(line, ':') + 1 : line;
    snprintf(out, LONGEST, "%.*s", LONGEST - 1, value + strspn(value, " \t"));
  }
  if (f) fclose(f);
}

static void read_versions(versions *v)
{
  struct utsname kernel;
  char library[LONGEST];
  memset(v, 0, sizeof *v);
  own_version(v->text[PROGRAM]);
  shoal_h5_versions(library, sizeof library);
  snprintf(v->text[HDF5], LONGEST, "%s", library);
  snprintf(v->text[MPI], LONGEST, "%.*s", LONGEST - 1, shoal_world_library());
  if (uname(&kernel) == 0) snprintf(v->text[KERNEL], LONGEST, "%.*s", LONGEST - 1, kernel.release);
  first_line("/proc/cpuinfo", "model name", v->text[PROCESSOR]);
  first_line("/proc/driver/nvidia/version", NULL, v->text[DRIVER]);
  for (int i = 0; i < WHATS; i++)
    if (!v->text[i][0]) snprintf(v->text[i], LONGEST, "none");
}

/* The lowest rank of each node speaks for it. */
static void judge_versions(const versions *all, const shoal_topo *t, shoal_findings *f)
{
  const char **value;
  if (SHOAL_ALLOC((size_t)t->nodes, &value) != SHOAL_OK) return;
  for (int i = 0; i < WHATS; i++) {
    for (int r = t->size - 1; r >= 0; r--) value[t->places[r].node] = all[r].text[i];
    shoal_doctor_judge_equal(whats[i].name, value, t, whats[i].odd, f);
  }
  if (!shoal_findings_count(f, SHOAL_FAULT))
    shoal_find(f, "versions", SHOAL_WELL, -1, "shoal %s, %s, %s%s", all[0].text[PROGRAM], all[0].text[HDF5],
               all[0].text[MPI], t->nodes > 1 ? ", equal on all nodes" : "");
  free(value);
}

shoal_status shoal_doctor_versions(shoal_world *w, shoal_findings *f)
{
  versions mine, *all = NULL;
  shoal_findings own = { .n = 0 };
  read_versions(&mine);
  SHOAL_TRY(shoal_group_agree(shoal_world_control(w), SHOAL_ALLOC((size_t)shoal_world_size(w), &all)));
  shoal_status st = shoal_group_allgather(shoal_world_control(w), &mine, sizeof mine, all);
  if (st == SHOAL_OK && shoal_world_rank(w) == 0) judge_versions(all, shoal_world_topo(w), &own);
  for (size_t i = 0; i < own.n; i++)
    shoal_find(f, own.at[i].check, (shoal_verdict)own.at[i].verdict, own.at[i].node, "%s", own.at[i].text);
  shoal_findings_free(&own);
  free(all);
  return st;
}

/* ---- clocks ---- */

static double wall_clock(void)
{
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* As shoal_world_measure_clock, of the clocks that files are dated by: the quickest of a few round trips, from its middle. */
static shoal_status ask_clock(shoal_world *w, int rank, double *ahead)
{
  enum { TRIPS = 8, TAG = 8 };
  shoal_group *g = shoal_world_control(w);
  double best = INFINITY, there = 0;
  for (int trip = 0; trip < TRIPS; trip++) {
    double t0 = wall_clock();
    uint64_t m0 = shoal_now_ns();
    if (shoal_world_rank(w) == rank) {
      SHOAL_TRY(shoal_group_recv(g, &there, sizeof there, 0, TAG));
      there = wall_clock();
      SHOAL_TRY(shoal_group_send(g, &there, sizeof there, 0, TAG));
      continue;
    }
    SHOAL_TRY(shoal_group_send(g, &there, sizeof there, rank, TAG));
    SHOAL_TRY(shoal_group_recv(g, &there, sizeof there, rank, TAG));
    double seconds = shoal_seconds_since(m0);
    if (seconds >= best) continue;
    best = seconds;
    *ahead = there - (t0 + seconds / 2);
  }
  return SHOAL_OK;
}

shoal_status shoal_doctor_clocks(shoal_world *w, shoal_findings *f)
{
  const shoal_topo *t = shoal_world_topo(w);
  double *ahead = NULL;
  if (t->nodes == 1) return SHOAL_OK;
  SHOAL_TRY(shoal_group_agree(shoal_world_control(w), SHOAL_ALLOC((size_t)t->nodes, &ahead)));
  shoal_status st = SHOAL_OK;
  for (int r = 1; r < t->size && st == SHOAL_OK; r++)
    if (t->places[r].local_rank == 0 && (shoal_world_rank(w) == 0 || shoal_world_rank(w) == r))
      st = ask_clock(w, r, &ahead[t->places[r].node]);
  if (st == SHOAL_OK && shoal_world_rank(w) == 0) shoal_doctor_judge_clocks(ahead, t, f);
  free(ahead);
  return st == SHOAL_OK ? shoal_group_barrier(shoal_world_control(w)) : st;
}

/* ---- processors and GPUs ---- */

/* Operations per second of one core in small matrix products; the quickest of many, so that other load hardly counts. */
static shoal_status measure_core(int64_t *out)
{
  enum { N = 256, TIMES = 200 };
  float *x = NULL, *y = NULL;
  shoal_backend *b = NULL;
  uint64_t best = UINT64_MAX;
  shoal_status st = SHOAL_ALLOC(N * N, &x);
  if (st == SHOAL_OK) st = SHOAL_ALLOC(N * N, &y);
  if (st == SHOAL_OK) st = shoal_backend_open("cpu", 1, &b);
  for (int i = 0; st == SHOAL_OK && i < N * N; i++) x[i] = (float)(i % 7);
  for (int i = 0; st == SHOAL_OK && i < TIMES; i++) {
    uint64_t t0 = shoal_now_ns();
    st = b->ops->gemm(b, false, true, N, N, N, 1, x, N, x, N, 0, y, N);
    best = SHOAL_MIN(best, shoal_now_ns() - t0);
  }
  *out = st == SHOAL_OK ? (int64_t)(2e9 * N * N * N / (double)SHOAL_MAX(best, 1)) : 0;
  shoal_backend_close(b);
  free(x);
  free(y);
  return st;
}

static int count_gpus(void)
{
  shoal_machine *m;
  int n = 0;
  if (shoal_machine_open(NULL, &m) != SHOAL_OK) return 0;
  while (shoal_machine_gpu(m, n)) n++;
  shoal_machine_close(m);
  return n;
}

/* Opens each GPU that CUDA shows to this process, which allocates on it and copies to it and back.  A machine with GPUs that has no
 * driver may be meant for something else. */
static void open_gpus(int node, shoal_findings *f)
{
  shoal_gpu gpus[SHOAL_GPUS_MAX];
  int n = 0;
  if (!shoal_backend_built("cuda")) {
    shoal_find(f, "devices", SHOAL_NOTE, node, "it has GPUs, and this program is built without the backend cuda");
    return;
  }
  bool driver = shoal_path_exists("/proc/driver/nvidia/version");
  shoal_status st = shoal_backend_devices("cuda", gpus, &n);
  if (st != SHOAL_OK) shoal_find(f, "devices", driver ? SHOAL_FAULT : SHOAL_NOTE, node, "%s", shoal_error_text(st));
  for (int i = 0; st == SHOAL_OK && i < n; i++) {
    shoal_backend *b = NULL;
    shoal_backend_options o = { .name = "cuda", .threads = 1, .device = i };
    shoal_status opened = shoal_backend_open_as(&o, &b);
    if (opened != SHOAL_OK)
      shoal_find(f, "devices", SHOAL_FAULT, node, "GPU %s: %s", gpus[i].id, shoal_error_text(opened));
    shoal_backend_close(b);
  }
}

/* @param speed, gpus, cores, load  [nodes] */
static void judge_devices(const int64_t *speed, const int64_t *gpus, const int64_t *cores, const int64_t *load,
                          const shoal_topo *t, shoal_findings *f)
{
  double median = shoal_doctor_median(speed, t->nodes);
  int64_t most = 0;
  for (int node = 0; node < t->nodes; node++) most = SHOAL_MAX(most, gpus[node]);
  for (int r = 0; r < t->size; r++) {
    const shoal_place *p = &t->places[r];
    if (p->local_rank) continue;
    const shoal_verdict v = shoal_doctor_judge_speed((double)speed[p->node], median, load[p->node]);
    if (v != SHOAL_WELL)
      shoal_find(f, "devices", v, p->node, "%.3g GFLOP/s on a core, where others have %.3g: %s",
                 (double)speed[p->node] * 1e-9, median * 1e-9,
                 v == SHOAL_FAULT ? "heat, a limit of power, or other load" : shoal_doctor_busy);
    if (gpus[p->node] < most)
      shoal_find(f, "devices", SHOAL_FAULT, p->node, "%lld GPU%s, where another node has %lld (nvidia-smi, dmesg)",
                 (long long)gpus[p->node], gpus[p->node] == 1 ? "" : "s", (long long)most);
  }
  shoal_find(f, "devices", SHOAL_WELL, -1, "%.4g core%s and %lld GPU%s on a node, %.3g GFLOP/s on a core",
             shoal_doctor_median(cores, t->nodes), shoal_doctor_median(cores, t->nodes) == 1 ? "" : "s",
             (long long)most, most == 1 ? "" : "s", median * 1e-9);
}

shoal_status shoal_doctor_devices(shoal_world *w, shoal_findings *f)
{
  const shoal_topo *t = shoal_world_topo(w);
  const shoal_place *p = shoal_world_place(w);
  int64_t *table = NULL;
  size_t n = (size_t)t->nodes;
  SHOAL_TRY(shoal_group_agree(shoal_world_control(w), SHOAL_ALLOC(4 * n, &table)));
  SHOAL_TRY(shoal_group_barrier(shoal_world_control(w)));
  if (p->local_rank == 0) {
    shoal_status st = measure_core(&table[p->node]);
    if (st != SHOAL_OK) shoal_find_error(f, "devices", p->node, st);
    table[n + (size_t)p->node] = count_gpus();
    if (table[n + (size_t)p->node]) open_gpus(p->node, f);
    table[2 * n + (size_t)p->node] = p->on->cores;
    table[3 * n + (size_t)p->node] = shoal_doctor_load();
  }
  shoal_status st = shoal_group_max_i64(shoal_world_control(w), table, 4 * n);
  if (st == SHOAL_OK && shoal_world_rank(w) == 0) judge_devices(table, table + n, table + 2 * n, table + 3 * n, t, f);
  free(table);
  return st;
}
