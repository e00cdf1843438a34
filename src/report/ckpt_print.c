/* `shoal ckpt list` and `shoal ckpt show`: checkpoints as text, or with --json for scripts.
 *
 * `list` verifies every checkpoint, because users want to know which ones can be resumed from; that reads all data once.
 * `show` opens the main file of one without reading its data. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/folder.h"
#include "report/ckpt.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of a checkpoint with its shards; of one that does not verify, its main file. */
static uint64_t bytes_on_disk(const shoal_ckpt_file *file, const shoal_ckpt *c)
{
  struct stat s;
  if (c) return shoal_ckpt_bytes(c);
  return stat(file->path, &s) == 0 && s.st_size > 0 ? (uint64_t)s.st_size : 0;
}

static int by_place(const void *a, const void *b)
{
  const shoal_ckpt_entry *x = *(shoal_ckpt_entry *const *)a, *y = *(shoal_ckpt_entry *const *)b;
  if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
  return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Bytes of all arrays, and of those that are equal to another one and share its bytes. */
static shoal_status data_bytes(const shoal_ckpt_index *x, uint64_t *all, uint64_t *shared)
{
  const shoal_ckpt_entry **e = NULL;
  SHOAL_TRY(SHOAL_ALLOC(SHOAL_MAX(x->n, 1), &e));
  for (size_t i = 0; i < x->n; i++) e[i] = &x->at[i];
  qsort(e, x->n, sizeof *e, by_place);
  *all = *shared = 0;
  for (size_t i = 0; i < x->n; i++) {
    *all += e[i]->bytes;
    if (i > 0 && e[i]->bytes > 0 && by_place(&e[i - 1], &e[i]) == 0) *shared += e[i]->bytes;
  }
  free(e);
  return SHOAL_OK;
}

/* Writes the attributes as members of the current object. */
static void put_info(shoal_json *j, const shoal_ckpt *c)
{
  const shoal_ckpt_info *i = shoal_ckpt_get_info(c);
  shoal_json_string(j, "run", i->run);
  shoal_json_string(j, "model", i->model);
  shoal_json_string(j, "method", i->method);
  shoal_json_string(j, "layout", i->layout);
  shoal_json_string(j, "layout_hash", i->layout_hash[0] ? i->layout_hash : NULL);
  shoal_json_string(j, "created", i->created);
  shoal_json_uint(j, "step", i->step);
  shoal_json_uint(j, "epoch", i->epoch);
  shoal_json_uint(j, "samples", i->samples);
  shoal_json_int(j, "size", i->size);
}

static void print_and_free(shoal_str *s, FILE *out)
{
  shoal_str_print(s, out);
  shoal_str_free(s);
}

/* ---- list ---- */

static void list_row(shoal_str *s, const shoal_ckpt_file *file, const shoal_ckpt *c, const char *why)
{
  char amount[32];
  const char *name = shoal_path_base(file->path);
  shoal_format_bytes((double)bytes_on_disk(file, c), amount, sizeof amount);
  const shoal_ckpt_info *i = c ? shoal_ckpt_get_info(c) : NULL;
  if (i)
    shoal_str_add(s, "%-22s %10" PRIu64 " %6" PRIu64 " %5" PRId64 " %-10s %10s  %-20s  good\n", name, i->step, i->epoch,
                  i->size, i->method, amount, i->created);
  else
    shoal_str_add(s, "%-22s %10" PRIu64 " %6s %5s %-10s %10s  %-20s  %s: %s\n", name, file->step, "-", "-", "-", amount,
                  "-", access(file->path, R_OK) != 0 && errno == EACCES ? "unknown" : "DAMAGED", why);
}

static void list_member(shoal_json *j, const shoal_ckpt_file *file, const shoal_ckpt *c, const char *why)
{
  shoal_json_object(j, NULL);
  shoal_json_string(j, "path", file->path);
  if (c)
    put_info(j, c);
  else
    shoal_json_string(j, "fault", why);
  shoal_json_uint(j, "bytes", bytes_on_disk(file, c));
  shoal_json_bool(j, "good", c != NULL);
  shoal_json_end(j);
}

static void list_json(const shoal_ckpt_folder *f, const shoal_texts *unfinished, FILE *out)
{
  shoal_json j = { .lines = 2, .out = out };
  shoal_json_object(&j, NULL);
  shoal_json_array(&j, "checkpoints");
  for (size_t i = 0; i < f->n; i++) {
    char *why = NULL;
    shoal_ckpt *c = shoal_ckpt_folder_try(&f->at[i], false, &why);
    list_member(&j, &f->at[i], c, why);
    shoal_ckpt_close(c);
    free(why);
  }
  shoal_json_end(&j);
  shoal_json_array(&j, "unfinished");
  for (size_t i = 0; i < unfinished->n; i++) shoal_json_string(&j, NULL, unfinished->at[i]);
  shoal_json_end(&j);
  shoal_json_end(&j);
  shoal_json_finish(&j);
}

static void list_table(const shoal_ckpt_folder *f, const shoal_texts *unfinished, const char *dir, FILE *out)
{
  shoal_str s = { 0 };
  if (f->n > 0)
    shoal_str_add(&s, "%-22s %10s %6s %5s %-10s %10s  %-20s  state\n", "file", "step", "epoch", "ranks", "method",
                  "size", "created");
  else
    shoal_str_add(&s, "no checkpoints in %s\n", dir);
  for (size_t i = 0; i < f->n; i++) {
    char *why = NULL;
    shoal_ckpt *c = shoal_ckpt_folder_try(&f->at[i], false, &why);
    list_row(&s, &f->at[i], c, why);
    shoal_ckpt_close(c);
    free(why);
  }
  for (size_t i = 0; i < unfinished->n; i++) shoal_str_add(&s, "%s  unfinished\n", unfinished->at[i]);
  print_and_free(&s, out);
}

shoal_status shoal_ckpt_print_list(const char *dir, bool json, FILE *out)
{
  shoal_ckpt_folder f;
  SHOAL_TRY(shoal_path_look(dir));
  SHOAL_CHECK(shoal_path_exists(dir), SHOAL_ERR_IO, "there is no folder %s", dir);
  shoal_texts unfinished = { 0 };
  SHOAL_TRY(shoal_ckpt_folder_scan(dir, &f));
  shoal_status st = shoal_ckpt_folder_orphans(dir, &f, &unfinished);
  for (size_t i = 0; st == SHOAL_OK && i < f.temporaries.n; i++) st = shoal_texts_add(&unfinished, f.temporaries.at[i]);
  if (st == SHOAL_OK) (json ? list_json(&f, &unfinished, out) : list_table(&f, &unfinished, dir, out));
  shoal_texts_free(&unfinished);
  shoal_ckpt_folder_free(&f);
  return st;
}

/* ---- show ---- */

static void show_json(const shoal_ckpt *c, FILE *out)
{
  const shoal_ckpt_info *info = shoal_ckpt_get_info(c);
  const shoal_ckpt_index *x = shoal_ckpt_get_index(c);
  shoal_json j = { .lines = 2, .out = out };
  shoal_json_object(&j, NULL);
  shoal_json_string(&j, "path", shoal_ckpt_path(c));
  put_info(&j, c);
  shoal_json_string(&j, "config", info->config);
  if (info->placement) shoal_json_string(&j, "placement", info->placement);
  shoal_json_uint(&j, "bytes", shoal_ckpt_bytes(c));
  shoal_json_uint(&j, "shards", x->n_shards);
  shoal_json_array(&j, "data_sets");
  for (size_t i = 0; i < x->n; i++) {
    const shoal_ckpt_entry *e = &x->at[i];
    shoal_json_object(&j, NULL);
    shoal_json_string(&j, "name", e->name);
    shoal_json_string(&j, "type", shoal_dtype_name(e->type));
    shoal_json_array(&j, "shape");
    for (int d = 0; d < e->ndim; d++) shoal_json_uint(&j, NULL, e->dims[d]);
    shoal_json_end(&j);
    shoal_json_uint(&j, "bytes", e->bytes);
    shoal_json_format(&j, "crc32c", "%08" PRIx32, e->crc);
    shoal_json_uint(&j, "shard", e->shard);
    shoal_json_end(&j);
  }
  shoal_json_end(&j);
  shoal_json_end(&j);
  shoal_json_finish(&j);
}

static void show_info(shoal_str *s, const shoal_ckpt *c)
{
  const shoal_ckpt_info *i = shoal_ckpt_get_info(c);
  const size_t shards = shoal_ckpt_get_index(c)->n_shards;
  char amount[32];
  char path[1024];
  shoal_str_add(s, "file     %s", shoal_show(shoal_ckpt_path(c), path, sizeof path));
  if (shards) shoal_str_add(s, " and %zu shard%s", shards, shards == 1 ? "" : "s");
  shoal_str_add(s, " (%s)\n", shoal_format_bytes((double)shoal_ckpt_bytes(c), amount, sizeof amount));
  shoal_str_add(s, "run      %s\nmodel    %s\nmethod   %s\n", i->run, i->model, i->method);
  shoal_str_add(s, "ranks    %" PRId64 " (layout %s)\n", i->size, i->layout[0] ? i->layout : "not recorded");
  shoal_str_add(s, "position step %" PRIu64 ", epoch %" PRIu64 ", %" PRIu64 " samples into it\n", i->step, i->epoch,
                i->samples);
  shoal_str_add(s, "created  %s\n", i->created);
  if (i->data.kind) {
    char shape[96];
    uint64_t dims[SHOAL_COUNT(i->data.sample)];
    for (int d = 0; d < i->data.ndim; d++) dims[d] = (uint64_t)i->data.sample[d];
    shoal_str_add(s, "data     %s %s, %" PRId64 " %s", i->data.kind,
                  shoal_ckpt_shape_text(i->data.ndim, dims, shape, sizeof shape), i->data.classes,
                  i->data.targets ? "targets" : "classes");
    if (i->data.targets) shoal_str_add(s, "; predictions are output * target_std + target_mean");
    if (i->data.scales) shoal_str_add(s, "; inputs are (x - mean) / std, %zu of each", i->data.scales);
    shoal_str_add(s, "\n");
  }
}

static shoal_status show_table(shoal_str *s, const shoal_ckpt *c)
{
  const shoal_ckpt_index *x = shoal_ckpt_get_index(c);
  char amount[32], shape[256];
  uint64_t all, shared;
  size_t width = 8;
  for (size_t i = 0; i < x->n; i++) {
    size_t n = strlen(x->at[i].name);
    if (n > width) width = n;
  }
  shoal_str_add(s, "\n%-*s  type  %-24s %12s  crc32c\n", (int)width, "data set", "shape", "bytes");
  for (size_t i = 0; i < x->n; i++) {
    const shoal_ckpt_entry *e = &x->at[i];
    shoal_str_add(s, "%-*s  %-4s  %-24s %12" PRIu64 "  %08" PRIx32 "\n", (int)width, e->name, shoal_dtype_name(e->type),
                  shoal_ckpt_shape_text(e->ndim, e->dims, shape, sizeof shape), e->bytes, e->crc);
  }
  SHOAL_TRY(data_bytes(x, &all, &shared));
  shoal_str_add(s, "%zu data sets, %s", x->n, shoal_format_bytes((double)all, amount, sizeof amount));
  if (shared)
    shoal_str_add(s, ", of which %s are written once under several names",
                  shoal_format_bytes((double)shared, amount, sizeof amount));
  shoal_str_add(s, "\n");
  return SHOAL_OK;
}

static shoal_status show_text(const shoal_ckpt *c, FILE *out)
{
  const char *config = shoal_ckpt_get_info(c)->config;
  shoal_str s = { 0 };
  show_info(&s, c);
  shoal_status st = show_table(&s, c);
  if (config[0]) shoal_str_add(&s, "\nrun file, resolved:\n%s\n", config);
  if (st == SHOAL_OK) shoal_str_print(&s, out);
  shoal_str_free(&s);
  return st;
}

shoal_status shoal_ckpt_print(const char *path, bool json, FILE *out)
{
  shoal_ckpt *c;
  SHOAL_TRY(shoal_ckpt_open(path, false, &c));
  shoal_status st = SHOAL_OK;
  if (json)
    show_json(c, out);
  else
    st = show_text(c, out);
  shoal_ckpt_close(c);
  return st;
}
