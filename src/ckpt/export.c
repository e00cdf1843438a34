/* `shoal ckpt export`: only the model, as a plain HDF5 file for other programs.
 *
 * The checkpoint of every method contains the model as global named tensors of full-rank weights under /model, whatever
 * part of it each rank trained, so nothing has to be assembled: the tensors are copied under the names used by
 * PyTorch's reference models, with mean batch-norm statistics and without optimizer state, and with what is known of
 * the data (about.c).  One tensor is in memory at a time. */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "ckpt/ckpt_impl.h"
#include "h5/draft.h"
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "model/";

static shoal_status copy_tensor(const shoal_ckpt *c, const char *name, shoal_h5_draft *to)
{
  shoal_dtype type;
  int ndim;
  uint64_t dims[8], n = 1;
  SHOAL_TRY(shoal_ckpt_shape(c, name, &type, &ndim, dims));
  SHOAL_CHECK(type == SHOAL_F32, SHOAL_ERR_IO, "%s of the checkpoint is %s, must be f32", name, shoal_dtype_name(type));
  for (int d = 0; d < ndim; d++) n *= dims[d];
  float *x;
  SHOAL_TRY(SHOAL_ALLOC(n, &x));
  shoal_status st = shoal_ckpt_get(c, name, SHOAL_F32, n, x);
  if (st == SHOAL_OK) st = shoal_h5_draft_reserve(to, name, n * sizeof *x, 0);
  if (st == SHOAL_OK) st = shoal_h5_write(to->file, name + strlen(prefix), SHOAL_F32, ndim, dims, x);
  free(x);
  return st;
}

static shoal_status copy_vocabulary(const shoal_ckpt *c, shoal_h5_draft *to)
{
  char *text;
  uint64_t n;
  SHOAL_TRY(shoal_ckpt_get_text(c, SHOAL_CKPT_VOCABULARY, &text, &n));
  shoal_status st = shoal_h5_draft_reserve(to, "the vocabulary", n, 0);
  if (st == SHOAL_OK) st = shoal_h5_write(to->file, "vocabulary", SHOAL_U8, 1, &n, text);
  free(text);
  return st;
}

static shoal_status copy_model(const shoal_ckpt *c, const char *layers, shoal_h5_draft *to)
{
  const shoal_ckpt_info *info = shoal_ckpt_get_info(c);
  const char *const *names;
  size_t n = shoal_ckpt_names(c, &names);
  for (size_t i = 0; i < n; i++)
    if (strncmp(names[i], prefix, strlen(prefix)) == 0) SHOAL_TRY(copy_tensor(c, names[i], to));
  if (shoal_ckpt_has(c, SHOAL_CKPT_VOCABULARY)) SHOAL_TRY(copy_vocabulary(c, to));
  SHOAL_TRY(shoal_h5_put_string(to->file, "model", info->model));
  SHOAL_TRY(shoal_h5_put_string(to->file, "run", info->run));
  SHOAL_TRY(shoal_h5_put_string(to->file, "method", info->method));
  SHOAL_TRY(shoal_ckpt_put_data(to->file, &info->data));
  if (layers) SHOAL_TRY(shoal_h5_put_string(to->file, "layers", layers));
  SHOAL_TRY(shoal_h5_put_i64(to->file, "step", (int64_t)info->step));
  return shoal_h5_put_i64(to->file, "epoch", (int64_t)info->epoch);
}

/* What all tensors of the model take. */
static shoal_status expect_room(const shoal_ckpt *c, const char *out)
{
  const char *const *names;
  double bytes = 0;
  size_t n = shoal_ckpt_names(c, &names);
  for (size_t i = 0; i < n; i++) {
    shoal_dtype type;
    int ndim;
    uint64_t dims[8];
    double size = sizeof(float);
    if (strncmp(names[i], prefix, strlen(prefix)) != 0) continue;
    SHOAL_TRY(shoal_ckpt_shape(c, names[i], &type, &ndim, dims));
    for (int d = 0; d < ndim; d++) size *= (double)dims[d];
    bytes += size;
  }
  return shoal_expect_room(out, "the weights", bytes);
}

static void warn_of_unknown_data(const shoal_ckpt *c)
{
  if (!shoal_ckpt_get_info(c)->data.kind)
    shoal_warn("%s is from an older version: mean and std of its data are not in it, nor in what is exported; "
               "`shoal data inspect` shows them",
               shoal_ckpt_path(c));
}

shoal_status shoal_ckpt_export(const char *path, const char *layers, const char *out)
{
  shoal_ckpt *c;
  shoal_h5_draft draft = { 0 };
  shoal_status st;
  SHOAL_CHECK(!shoal_path_exists(out), SHOAL_ERR_IO, "%s exists already: remove it, or name another file", out);
  SHOAL_TRY(shoal_expect_folder(out));
  SHOAL_TRY(shoal_ckpt_open(path, true, &c));
  SHOAL_TRY_GOTO(st, expect_room(c, out), end);
  SHOAL_TRY_GOTO(st, shoal_h5_draft_open(&draft, out, layers ? strlen(layers) : 0), end);
  SHOAL_TRY_GOTO(st, copy_model(c, layers, &draft), end);
  SHOAL_TRY_GOTO(st, shoal_h5_draft_close(&draft), end);
  st = shoal_h5_draft_commit(&draft);
  if (st == SHOAL_OK) warn_of_unknown_data(c);
end:
  shoal_h5_draft_discard(&draft);
  shoal_ckpt_close(c);
  return st;
}
