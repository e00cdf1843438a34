/* `shoal ckpt list` and `show`: checkpoints for people, or with --json for scripts.
 *
 * The list verifies every file, because whether one can resume from it is what people look for; that reads everything
 * once.  Show opens one file without reading its data. */
#include "base/file.h"
#include "base/str.h"
#include "ckpt/ckpt_impl.h"
#include "report/ckpt.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static uint64_t file_bytes(const char *path)
{
  struct stat file;
  return stat(path, &file) == 0 && file.st_size > 0 ? (uint64_t)file.st_size : 0;
}

static uint64_t data_bytes(const shoal_ckpt *c)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < c->index.n; i++) sum += c->index.at[i].bytes;
  return sum;
}

static void add_text(shoal_str *s, const char *key, const char *value)
{
  shoal_str_add_json(s, key);
  shoal_str_add(s, ": ");
  shoal_str_add_json(s, value);
  shoal_str_add(s, ", ");
}

/* The attributes as JSON members, each followed by a comma. */
static void add_info(shoal_str *s, const shoal_ckpt *c)
{
  const shoal_ckpt_info *i = &c->info;
  add_text(s, "run", i->run);
  add_text(s, "model", i->model);
  add_text(s, "method", i->method);
  add_text(s, "layout", i->layout);
  add_text(s, "created", c->created);
  shoal_str_add(s, "\"step\": %" PRIu64 ", \"epoch\": %" PRIu64 ", \"samples\": %" PRIu64 ", \"size\": %" PRId64 ", ",
                i->step, i->epoch, i->samples, i->size);
}

static shoal_status print_and_free(shoal_str *s, FILE *out)
{
  bool ok = !s->text || fputs(s->text, out) >= 0;
  shoal_str_free(s);
  SHOAL_CHECK(ok && fflush(out) == 0, SHOAL_ERR_IO, "the output cannot be written");
  return SHOAL_OK;
}

/* ---- list ---- */

static void list_row(shoal_str *s, const shoal_ckpt_file *file, const shoal_ckpt *c, const char *why)
{
  char amount[32];
  const char *name = shoal_path_base(file->path);
  shoal_format_bytes((double)file_bytes(file->path), amount, sizeof amount);
  if (c)
    shoal_str_add(s, "%-22s %10" PRIu64 " %6" PRIu64 " %5" PRId64 " %-10s %10s  %-20s  good\n", name, c->info.step,
                  c->info.epoch, c->info.size, c->info.method, amount, c->created);
  else
    shoal_str_add(s, "%-22s %10" PRIu64 " %6s %5s %-10s %10s  %-20s  DAMAGED: %s\n", name, file->step, "-", "-", "-",
                  amount, "-", why);
}

static void list_json(shoal_str *s, const shoal_ckpt_file *file, const shoal_ckpt *c, const char *why)
{
  shoal_str_add(s, "    { ");
  add_text(s, "path", file->path);
  if (c)
    add_info(s, c);
  else
    add_text(s, "fault", why);
  shoal_str_add(s, "\"bytes\": %" PRIu64 ", \"good\": %s }", file_bytes(file->path), c ? "true" : "false");
}

static void list_temporaries(shoal_str *s, const shoal_ckpt_folder *f, bool json)
{
  for (size_t i = 0; i < f->n_temporaries; i++) {
    if (json) {
      shoal_str_add(s, i ? ", " : "");
      shoal_str_add_json(s, f->temporaries[i]);
    } else {
      shoal_str_add(s, "%s  unfinished\n", f->temporaries[i]);
    }
  }
}

shoal_status shoal_ckpt_print_list(const char *dir, bool json, FILE *out)
{
  shoal_ckpt_folder f;
  shoal_str s = { 0 };
  SHOAL_CHECK(shoal_path_exists(dir), SHOAL_ERR_IO, "there is no folder %s", dir);
  SHOAL_TRY(shoal_ckpt_folder_scan(dir, &f));
  if (json)
    shoal_str_add(&s, "{\n  \"checkpoints\": [\n");
  else if (f.n > 0)
    shoal_str_add(&s, "%-22s %10s %6s %5s %-10s %10s  %-20s  state\n", "file", "step", "epoch", "ranks", "method",
                  "size", "created");
  else
    shoal_str_add(&s, "no checkpoints in %s\n", dir);
  for (size_t i = 0; i < f.n; i++) {
    char *why = NULL;
    shoal_ckpt *c = shoal_ckpt_folder_try(&f.at[i], &why);
    (json ? list_json : list_row)(&s, &f.at[i], c, why);
    if (json) shoal_str_add(&s, i + 1 < f.n ? ",\n" : "\n");
    shoal_ckpt_close(c);
    free(why);
  }
  if (json) shoal_str_add(&s, "  ],\n  \"unfinished\": [");
  list_temporaries(&s, &f, json);
  if (json) shoal_str_add(&s, "]\n}\n");
  shoal_ckpt_folder_free(&f);
  return print_and_free(&s, out);
}

/* ---- show ---- */

static void show_json(shoal_str *s, const shoal_ckpt *c)
{
  shoal_str_add(s, "{\n  ");
  add_text(s, "path", c->path);
  add_info(s, c);
  add_text(s, "config", c->config);
  if (c->placement) add_text(s, "placement", c->placement);
  shoal_str_add(s, "\"bytes\": %" PRIu64 ",\n  \"data_sets\": [\n", file_bytes(c->path));
  for (size_t i = 0; i < c->index.n; i++) {
    const shoal_ckpt_entry *e = &c->index.at[i];
    shoal_str_add(s, "    { ");
    add_text(s, "name", e->name);
    add_text(s, "type", shoal_dtype_name(e->type));
    shoal_str_add(s, "\"shape\": [");
    for (int d = 0; d < e->ndim; d++) shoal_str_add(s, "%s%" PRIu64, d ? ", " : "", e->dims[d]);
    shoal_str_add(s, "], \"bytes\": %" PRIu64 ", \"crc32c\": \"%08" PRIx32 "\" }%s\n", e->bytes, e->crc,
                  i + 1 < c->index.n ? "," : "");
  }
  shoal_str_add(s, "  ]\n}\n");
}

static void show_info(shoal_str *s, const shoal_ckpt *c)
{
  const shoal_ckpt_info *i = &c->info;
  char amount[32];
  shoal_str_add(s, "file     %s (%s)\n", c->path,
                shoal_format_bytes((double)file_bytes(c->path), amount, sizeof amount));
  shoal_str_add(s, "run      %s\nmodel    %s\nmethod   %s\n", i->run, i->model, i->method);
  shoal_str_add(s, "ranks    %" PRId64 " (layout %s)\n", i->size, i->layout[0] ? i->layout : "not recorded");
  shoal_str_add(s, "position step %" PRIu64 ", epoch %" PRIu64 ", %" PRIu64 " samples into it\n", i->step, i->epoch,
                i->samples);
  shoal_str_add(s, "created  %s\n", c->created);
}

static void show_table(shoal_str *s, const shoal_ckpt *c)
{
  char amount[32], shape[256];
  size_t width = 8;
  for (size_t i = 0; i < c->index.n; i++) {
    size_t n = strlen(c->index.at[i].name);
    if (n > width) width = n;
  }
  shoal_str_add(s, "\n%-*s  type  %-24s %12s  crc32c\n", (int)width, "data set", "shape", "bytes");
  for (size_t i = 0; i < c->index.n; i++) {
    const shoal_ckpt_entry *e = &c->index.at[i];
    shoal_str_add(s, "%-*s  %-4s  %-24s %12" PRIu64 "  %08" PRIx32 "\n", (int)width, e->name, shoal_dtype_name(e->type),
                  shoal_ckpt_shape_text(e->ndim, e->dims, shape, sizeof shape), e->bytes, e->crc);
  }
  shoal_str_add(s, "%zu data sets, %s\n", c->index.n, shoal_format_bytes((double)data_bytes(c), amount, sizeof amount));
}

shoal_status shoal_ckpt_print(const char *path, bool json, FILE *out)
{
  shoal_ckpt *c;
  shoal_str s = { 0 };
  SHOAL_TRY(shoal_ckpt_open(path, false, &c));
  if (json) {
    show_json(&s, c);
  } else {
    show_info(&s, c);
    show_table(&s, c);
    if (c->config[0]) shoal_str_add(&s, "\nrun file, resolved:\n%s\n", c->config);
  }
  shoal_ckpt_close(c);
  return print_and_free(&s, out);
}
