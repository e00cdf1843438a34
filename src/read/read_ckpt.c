/* shoalread: checkpoints. */
#include "base/mem.h"
#include "ckpt/folder.h"
#include "read/read_impl.h"
#include <stdlib.h>

struct shoalread_ckpt {
  shoal_ckpt *ckpt;
  char *path;
};

_Static_assert((int)SHOALREAD_F64 == (int)SHOAL_F64 && (int)SHOALREAD_I64 == (int)SHOAL_I64 &&
                   (int)SHOALREAD_U8 == (int)SHOAL_U8 && (int)SHOALREAD_U64 == (int)SHOAL_U64,
               "types");

shoalread_ckpt *shoalread_ckpt_open(const char *path)
{
  shoalread_ckpt *c;
  shoal_read_begin();
  shoal_status st = SHOAL_ALLOC(1, &c);
  if (st == SHOAL_OK) st = shoal_ckpt_find(path, &c->path);
  if (st == SHOAL_OK) st = shoal_ckpt_open(c->path, true, &c->ckpt);
  if (shoal_read_end(st) == 0) return c;
  shoalread_ckpt_close(c);
  return NULL;
}

void shoalread_ckpt_close(shoalread_ckpt *c)
{
  if (!c) return;
  shoal_ckpt_close(c->ckpt);
  free(c->path);
  free(c);
}

const char *shoalread_ckpt_path(const shoalread_ckpt *c)
{
  return c->path;
}

const char *shoalread_ckpt_run(const shoalread_ckpt *c)
{
  return shoal_ckpt_get_info(c->ckpt)->run;
}

const char *shoalread_ckpt_model(const shoalread_ckpt *c)
{
  return shoal_ckpt_get_info(c->ckpt)->model;
}

const char *shoalread_ckpt_method(const shoalread_ckpt *c)
{
  return shoal_ckpt_get_info(c->ckpt)->method;
}

const char *shoalread_ckpt_config(const shoalread_ckpt *c)
{
  return shoal_ckpt_get_info(c->ckpt)->config;
}

const char *shoalread_ckpt_class_names(const shoalread_ckpt *c)
{
  return shoal_ckpt_get_info(c->ckpt)->data.class_names;
}

uint64_t shoalread_ckpt_step(const shoalread_ckpt *c)
{
  return shoal_ckpt_get_info(c->ckpt)->step;
}

uint64_t shoalread_ckpt_epoch(const shoalread_ckpt *c)
{
  return shoal_ckpt_get_info(c->ckpt)->epoch;
}

void shoalread_ckpt_scale(const shoalread_ckpt *c, size_t *n, const double **mean, const double **std)
{
  const shoal_ckpt_data *d = &shoal_ckpt_get_info(c->ckpt)->data;
  *n = d->scales;
  *mean = d->mean;
  *std = d->std;
}

size_t shoalread_ckpt_arrays(const shoalread_ckpt *c)
{
  const char *const *names;
  return shoal_ckpt_names(c->ckpt, &names);
}

const char *shoalread_ckpt_name(const shoalread_ckpt *c, size_t i)
{
  const char *const *names;
  return i < shoal_ckpt_names(c->ckpt, &names) ? names[i] : NULL;
}

int shoalread_ckpt_shape(const shoalread_ckpt *c, const char *name, shoalread_type *type, uint64_t dims[8])
{
  shoal_dtype stored;
  int n;
  shoal_read_begin();
  if (shoal_read_end(shoal_ckpt_shape(c->ckpt, name, &stored, &n, dims))) return -1;
  *type = (shoalread_type)stored;
  return n;
}

int shoalread_ckpt_read(const shoalread_ckpt *c, const char *name, shoalread_type type, uint64_t n, void *out)
{
  shoal_read_begin();
  return shoal_read_end(shoal_ckpt_get(c->ckpt, name, (shoal_dtype)type, n, out));
}
