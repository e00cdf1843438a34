/* safetensors: eight bytes with the length of a header, the header in JSON (names, types, shapes, offsets), the values. */
#include "base/error.h"
#include "base/json.h"
#include "nn/foreign_impl.h"
#include <stdlib.h>

static void put_fact(void *ctx, const char *key, const char *text)
{
  shoal_json_string(ctx, key, text);
}

static void put_header(const shoal_foreign *f, const shoal_foreign_tensor *t, size_t n, shoal_json *j)
{
  uint64_t at = 0;
  shoal_json_object(j, NULL);
  shoal_json_object(j, "__metadata__");
  shoal_json_string(j, "format", "pt"); /* names and layouts are PyTorch's */
  shoal_foreign_facts(f, put_fact, j);
  shoal_json_end(j);
  for (size_t i = 0; i < n; i++) {
    shoal_json_object(j, t[i].name);
    shoal_json_string(j, "dtype", "F32");
    shoal_json_array(j, "shape");
    for (int d = 0; d < t[i].shape.ndim; d++) shoal_json_int(j, NULL, t[i].shape.dim[d]);
    shoal_json_end(j);
    shoal_json_array(j, "data_offsets");
    shoal_json_uint(j, NULL, at);
    shoal_json_uint(j, NULL, at += t[i].count * sizeof(float));
    shoal_json_end(j);
    shoal_json_end(j);
  }
  shoal_json_end(j);
}

shoal_status shoal_foreign_safetensors(const shoal_foreign *f, const char *path)
{
  shoal_foreign_tensor *t;
  size_t n;
  shoal_foreign_file o;
  shoal_json j = { 0 };
  SHOAL_TRY(shoal_foreign_tensors(f->model, &t, &n));
  put_header(f, t, n, &j);
  while (j.text.len % 8) shoal_str_add(&j.text, " ");
  double bytes = 8 + (double)j.text.len;
  for (size_t i = 0; i < n; i++) bytes += (double)(t[i].count * sizeof(float));
  shoal_status st = shoal_foreign_open(&o, path, bytes);
  if (st == SHOAL_OK) {
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)j.text.len >> 8 * i);
    shoal_foreign_put(&o, length, sizeof length);
    shoal_foreign_put(&o, j.text.text, j.text.len);
  }
  for (size_t i = 0; i < n && st == SHOAL_OK; i++) st = shoal_foreign_put_tensor(&o, f, &t[i]);
  st = shoal_foreign_close(&o, st);
  shoal_str_free(&j.text);
  free(t);
  return st;
}
