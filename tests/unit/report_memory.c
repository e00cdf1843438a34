/* Memory runs out, at every allocation in turn, while files are written, read, verified, converted and shown.
 *
 * Each task runs again and again: the first allocation fails, then the second, ... until the task gets through.  Every
 * run ends with a status, frees what it has once (glibc ends the program otherwise, and the address sanitizer tells of
 * the rest), leaves no temporary behind, and the task works afterwards.  Which status is up to the task: a recorder goes
 * on without a name, and what cannot be read is no latest checkpoint. */
#include "data_temp.h"
#include "h5/table.h"
#include "report/ckpt.h"
#include "report/data.h"
#include "report/trace.h"
#include "trace/trace.h"
#include "unit/ckpt_fixture.h"
#include "unit/no_memory.h"

static FILE *sink;
static char *ckpt; /* a good one, of step 1 */

/* ---- checkpoints ---- */

static shoal_status write_ckpt(void)
{
  shoal_ckpt_info info;
  shoal_ckpt_draft d = { 0 };
  uint64_t n = 5;
  fixture_info(2, 1, &info);
  shoal_status st = shoal_ckpt_draft_open(&d, temp_path("step-000000002.h5"), &info, 0);
  if (st == SHOAL_OK) st = shoal_ckpt_draft_put(&d, "model/w", SHOAL_F32, 1, &n, (float[5]){ 1 });
  if (st == SHOAL_OK) st = shoal_ckpt_draft_put(&d, "replica/1/w", SHOAL_F32, 1, &n, (float[5]){ 2 });
  if (st == SHOAL_OK) st = shoal_ckpt_draft_finish(&d);
  shoal_ckpt_draft_discard(&d);
  return st;
}

static shoal_status read_ckpt(void)
{
  shoal_ckpt *c;
  const shoal_ckpt_entry *e;
  float x[300];
  SHOAL_TRY(shoal_ckpt_open(ckpt, true, &c));
  shoal_status st = shoal_ckpt_get(c, "method/sum", SHOAL_F32, 300, x);
  e = shoal_ckpt_index_find(shoal_ckpt_get_index(c), "method/sum");
  if (st == SHOAL_OK) st = shoal_ckpt_get_part(c, e, 7, 20, x);
  shoal_ckpt_close(c);
  return st;
}

static shoal_status open_ckpt(void)
{
  shoal_ckpt *c;
  SHOAL_TRY(shoal_ckpt_open(ckpt, false, &c));
  shoal_ckpt_close(c);
  return SHOAL_OK;
}

static shoal_status verify_ckpt(void)
{
  return shoal_ckpt_verify(ckpt, sink);
}

static shoal_status latest_ckpt(void)
{
  char *path = NULL;
  uint64_t step;
  SHOAL_TRY(shoal_ckpt_latest(temp_dir, &path, &step));
  free(path);
  return SHOAL_OK;
}

static shoal_status keep_ckpt(void)
{
  SHOAL_TRY(shoal_ckpt_sweep(temp_dir));
  return shoal_ckpt_prune(temp_dir, 5, SHOAL_CKPT_NOT_ONE);
}

static shoal_status list_ckpt(void)
{
  SHOAL_TRY(shoal_ckpt_print_list(temp_dir, false, sink));
  return shoal_ckpt_print_list(temp_dir, true, sink);
}

static shoal_status show_ckpt(void)
{
  SHOAL_TRY(shoal_ckpt_print(ckpt, false, sink));
  return shoal_ckpt_print(ckpt, true, sink);
}

static shoal_status diff_ckpt(void)
{
  bool different;
  return shoal_ckpt_diff(ckpt, ckpt, "method/", NULL, 0.5, true, sink, &different);
}

static shoal_status export_ckpt(void)
{
  unlink(temp_path("export.h5"));
  return shoal_ckpt_export(temp_path("golden.h5"), "[]", temp_path("export.h5"));
}

/* ---- data ---- */

static shoal_status synth(const char *kind, const char *out)
{
  shoal_synth_args a;
  shoal_synth_defaults(kind, &a);
  a.train = 40;
  a.test = 10;
  return shoal_data_synth(&a, temp_path(out));
}

static shoal_status synth_glyphs(void)
{
  return synth("glyphs", "glyphs.h5");
}

static shoal_status synth_blobs(void)
{
  return synth("blobs", "blobs.h5");
}

static shoal_status synth_text(void)
{
  return synth("text", "text.h5");
}

static shoal_status import(const char *kind, const char *source)
{
  const char *const sources[] = { source };
  const shoal_import_args a = { .kind = kind, .sources = sources, .n_sources = 1 };
  return shoal_data_import(&a, temp_path("imported.h5"));
}

static shoal_status import_csv(void)
{
  return import("csv", temp_path("table.csv"));
}

static shoal_status import_text(void)
{
  return import("text", temp_path("table.csv"));
}

static shoal_status read_data(void)
{
  static const char *const names[] = { "glyphs.h5", "blobs.h5", "text.h5", "foreign.h5" };
  for (size_t i = 0; i < SHOAL_COUNT(names); i++) {
    shoal_dataset *d;
    static float x[4096];
    int32_t y;
    SHOAL_TRY(shoal_dataset_open(temp_path(names[i]), &d));
    if (i % 2) shoal_dataset_hold(d, 0);
    shoal_status st = shoal_dataset_read(d, SHOAL_TRAIN, 3, x, &y);
    shoal_dataset_close(d);
    SHOAL_TRY(st);
  }
  return SHOAL_OK;
}

static shoal_status inspect_data(void)
{
  SHOAL_TRY(shoal_data_inspect((const char *[]){ temp_path("blobs.h5") }, 1, false, sink));
  return shoal_data_inspect((const char *[]){ temp_path("foreign.h5") }, 1, true, sink);
}

static shoal_status repack_data(void)
{
  return shoal_data_repack((const char *[]){ temp_path("foreign.h5") }, 1, temp_path("repacked.h5"));
}

/* Names, types and order of another program: bytes, channels last, no attributes. */
static void make_foreign(void)
{
  static uint8_t x[30 * 4 * 4 * 3];
  static int64_t y[30];
  shoal_h5 file;
  for (size_t i = 0; i < sizeof x; i++) x[i] = (uint8_t)(i * 7);
  for (size_t i = 0; i < 30; i++) y[i] = (int64_t)(i % 3);
  REQUIRE(shoal_h5_create(temp_path("foreign.h5"), &file) == SHOAL_OK, "create");
  CHECK_OK(shoal_h5_write(file, "X_train", SHOAL_U8, 4, (uint64_t[]){ 30, 4, 4, 3 }, x));
  CHECK_OK(shoal_h5_write(file, "y_train", SHOAL_I64, 1, (uint64_t[]){ 30 }, y));
  shoal_h5_close(file);
}

/* ---- traces ---- */

static shoal_status record_trace(void)
{
  shoal_trace_info info = { .run_name = "r", .size = 1, .host = "here", .config_text = "" };
  shoal_trace *t;
  SHOAL_TRY(shoal_trace_open(temp_path("trace.h5"), SHOAL_TRACE_BY_OP, &info, &t));
  shoal_trace_set_step(t, 1);
  shoal_trace_span(t, SHOAL_TRACE_STEP, shoal_trace_op(t, "another"), 1000, 2000);
  shoal_trace_span(t, SHOAL_TRACE_OTHER, SHOAL_TRACE_OTHER, 1100, 1900);
  return shoal_trace_close(t);
}

static shoal_status read_trace(void)
{
  shoal_trace_file_data *f;
  SHOAL_TRY(shoal_trace_read(temp_path("whole.h5"), &f));
  shoal_status st = shoal_trace_load(&f->ranks[0]);
  shoal_trace_file_data_destroy(f);
  return st;
}

static shoal_status show_trace(void)
{
  const char *const paths[] = { temp_path("whole.h5") };
  SHOAL_TRY(shoal_trace_show(paths, 1, SHOAL_TRACE_LAST, SHOAL_TRACE_TEXT, sink));
  SHOAL_TRY(shoal_trace_show(paths, 1, SHOAL_TRACE_ALL, SHOAL_TRACE_STEPS, sink));
  shoal_trace_choice choice = { .program = SHOAL_TRACE_CHROME };
  SHOAL_TRY(shoal_trace_export(paths, 1, SHOAL_TRACE_LAST, &choice, sink));
  choice.program = SHOAL_TRACE_PERFETTO;
  return shoal_trace_export(paths, 1, SHOAL_TRACE_LAST, &choice, sink);
}

/* ---- */

static void copy(const char *from, const char *to)
{
  char *text = NULL;
  size_t n;
  REQUIRE(shoal_read_file(from, &text, &n) == SHOAL_OK, "%s", from);
  temp_write(to, text, n);
  free(text);
}

/* Fill the stack that the next call will use, so that an uninitialised pointer is not one that free() accepts. */
static __attribute__((noinline)) void dirty_the_stack(void)
{
  volatile char used[128 << 10];
  for (size_t i = 0; i < sizeof used; i++) used[i] = 0x5b;
}

static void task(const char *name, shoal_status (*run)(void))
{
  enum { MOST = 3000 };
  int64_t n = 1, refused = 0;
  shoal_status st;
  for (bool failed = true; failed && n < MOST; n += check_step(29)) {
    no_memory_begin(n);
    dirty_the_stack();
    st = run();
    failed = no_memory_end();
    refused += st != SHOAL_OK;
    CHECK(failed || st == SHOAL_OK, "%s: with all its memory: %s", name, check_error());
    CHECK_EQ(temp_leftovers(), 0, "%s: allocation %d leaves something behind", name, (int)n);
  }
  CHECK_GT(n, 2, "%s", name);
  CHECK_LT(n, MOST, "%s", name);
  CHECK_OK(run(), "%s: works when it is over", name);
  fprintf(stderr, "%-14s %4d allocations, %4d refusals\n", name, (int)n - 2, (int)refused);
}

int main(int argc, char **argv)
{
  static const struct {
    const char *name;
    shoal_status (*run)(void);
  } tasks[] = {
    { "write ckpt", write_ckpt },     { "read ckpt", read_ckpt },       { "open ckpt", open_ckpt },
    { "verify ckpt", verify_ckpt },   { "latest ckpt", latest_ckpt },   { "keep ckpt", keep_ckpt },
    { "list ckpt", list_ckpt },       { "show ckpt", show_ckpt },       { "diff ckpt", diff_ckpt },
    { "export ckpt", export_ckpt },   { "synth glyphs", synth_glyphs }, { "synth blobs", synth_blobs },
    { "synth text", synth_text },     { "import csv", import_csv },     { "import text", import_text },
    { "read data", read_data },       { "inspect data", inspect_data }, { "repack data", repack_data },
    { "record trace", record_trace }, { "read trace", read_trace },     { "show trace", show_trace },
  };
  REQUIRE(argc == 2, "usage: %s GOLDEN_CHECKPOINT", argv[0]);
  temp_make();
  sink = fopen("/dev/null", "w");
  shoal_log_set_level(SHOAL_LOG_ERROR);
  ckpt = fixture_write(temp_dir, 1);
  copy(argv[1], temp_path("golden.h5"));
  temp_text("table.csv",
            "a,b,label\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n9,10,x\n11,12,y\n13,14,x\n15,16,y\n17,18,x\n19,20,y\n");
  make_foreign();
  REQUIRE(record_trace() == SHOAL_OK, "a trace");
  REQUIRE(rename(temp_path("trace.h5"), temp_path("whole.h5")) == 0, "a trace");
  for (size_t i = 0; i < SHOAL_COUNT(tasks); i++) task(tasks[i].name, tasks[i].run);
  fclose(sink);
  free(ckpt);
  return check_done();
}
