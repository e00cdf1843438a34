/* See foreign.h: what both formats need. */
#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "nn/foreign_impl.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  shoal_foreign_tensor *at;
  size_t n;
} list;

static void count_stat(void *ctx, const char *name, size_t offset, size_t count)
{
  (void)name, (void)offset, (void)count;
  ++*(size_t *)ctx;
}

static void list_stat(void *ctx, const char *name, size_t offset, size_t count)
{
  list *l = ctx;
  (void)offset;
  shoal_foreign_tensor *t = &l->at[l->n++];
  snprintf(t->name, sizeof t->name, "%s", name);
  t->shape = SHOAL_SHAPE((int64_t)count);
  t->count = count;
}

shoal_status shoal_foreign_tensors(const shoal_model *m, shoal_foreign_tensor **out, size_t *n)
{
  list l = { 0 };
  size_t stats = 0;
  shoal_model_each_stat(m, count_stat, &stats);
  SHOAL_TRY(SHOAL_ALLOC((size_t)m->params + stats, &l.at));
  for (int i = 0; i < m->params; i++) {
    shoal_foreign_tensor *t = &l.at[l.n++];
    snprintf(t->name, sizeof t->name, "%s", m->param[i].name);
    t->shape = m->param[i].shape;
    t->count = m->param[i].count;
  }
  shoal_model_each_stat(m, list_stat, &l);
  *out = l.at;
  *n = l.n;
  return SHOAL_OK;
}

/* ---- the file ---- */

shoal_status shoal_foreign_open(shoal_foreign_file *o, const char *path, double bytes)
{
  int fd;
  *o = (shoal_foreign_file){ .path = path };
  SHOAL_CHECK(!shoal_path_exists(path), SHOAL_ERR_IO, "%s exists already: remove it, or name another file", path);
  SHOAL_TRY(shoal_expect_folder(path));
  SHOAL_TRY(shoal_expect_room(path, "the model's weights", bytes));
  char *tmp = shoal_temporary_name(path);
  shoal_status st = shoal_open_new(tmp, path, &fd);
  if (st != SHOAL_OK) {
    free(tmp);
    return st;
  }
  o->tmp = tmp;
  o->file = fdopen(fd, "wb");
  if (!o->file) close(fd);
  SHOAL_CHECK(o->file, SHOAL_ERR_MEM, "out of memory for writing %s", path);
  return SHOAL_OK;
}

void shoal_foreign_put(shoal_foreign_file *o, const void *bytes, size_t n)
{
  fwrite(bytes, 1, n, o->file); /* close looks for errors */
}

shoal_status shoal_foreign_put_tensor(shoal_foreign_file *o, const shoal_foreign *f, const shoal_foreign_tensor *t)
{
  float *x;
  SHOAL_TRY(SHOAL_ALLOC(t->count, &x));
  shoal_status st = f->tensor(f->ctx, t->name, t->count, x);
  if (st == SHOAL_OK) shoal_foreign_put(o, x, t->count * sizeof *x);
  free(x);
  return st;
}

shoal_status shoal_foreign_close(shoal_foreign_file *o, shoal_status st)
{
  if (o->file) {
    errno = 0;
    bool bad = ferror(o->file);
    bad |= fclose(o->file) != 0;
    if (st == SHOAL_OK && bad) {
      char left[SHOAL_SPACE_LEFT];
      int error = errno ? errno : EIO;
      st = SHOAL_FAIL(SHOAL_ERR_IO, "cannot write %s: %s%s", o->path, strerror(error),
                      shoal_space_left(o->path, error, left));
    }
  }
  if (st == SHOAL_OK) st = shoal_commit_file(o->tmp, o->path);
  if (st != SHOAL_OK && o->tmp) unlink(o->tmp);
  free(o->tmp);
  return st;
}

/* ---- facts ---- */

static void put_shape(const shoal_shape *sample, void (*put)(void *, const char *, const char *), void *ctx)
{
  shoal_str s = { 0 };
  for (int d = 0; d < sample->ndim; d++) shoal_str_add(&s, "%s%lld", d ? "," : "", (long long)sample->dim[d]);
  put(ctx, "sample", s.text);
  shoal_str_free(&s);
}

/* With the digits that give the same numbers again: a run that begins with the file normalises as this one did. */
static void put_numbers(const double *numbers, size_t n, const char *key,
                        void (*put)(void *, const char *, const char *), void *ctx)
{
  shoal_str s = { 0 };
  for (size_t i = 0; i < n; i++) shoal_str_add(&s, "%s%.17g", i ? "," : "", numbers[i]);
  put(ctx, key, s.text);
  shoal_str_free(&s);
}

void shoal_foreign_facts(const shoal_foreign *f, void (*put)(void *ctx, const char *key, const char *text), void *ctx)
{
  char number[32];
  put(ctx, "model", f->model->name);
  if (f->run) { /* else it was imported */
    put(ctx, "run", f->run);
    put(ctx, "method", f->method);
    snprintf(number, sizeof number, "%llu", (unsigned long long)f->step);
    put(ctx, "step", number);
    snprintf(number, sizeof number, "%llu", (unsigned long long)f->epoch);
    put(ctx, "epoch", number);
  }
  snprintf(number, sizeof number, "%lld", (long long)f->model->classes);
  put(ctx, f->targets ? "targets" : "classes", number);
  put(ctx, "kind", f->kind);
  put_shape(&f->model->input, put, ctx);
  put(ctx, "sample_order", f->model->input.ndim == 3 ? "channels, height, width" : "features");
  if (f->scales > 0) {
    put_numbers(f->mean, f->scales, "mean", put, ctx);
    put_numbers(f->std, f->scales, "std", put, ctx);
  }
  if (f->targets > 0) {
    put_numbers(f->target_mean, f->targets, "target_mean", put, ctx);
    put_numbers(f->target_std, f->targets, "target_std", put, ctx);
  }
  if (f->target_names) put(ctx, "target_names", f->target_names);
  if (f->class_names) put(ctx, "class_names", f->class_names);
  if (f->feature_names) put(ctx, "feature_names", f->feature_names);
  if (f->vocabulary) put(ctx, "vocabulary", f->vocabulary);
}
