/* Reading a network's text: all layers as they are written, because a name may be read by any later layer.  text.c makes a
 * network of them. */
#include "base/error.h"
#include "base/mem.h"
#include "nn/text_impl.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static shoal_status wrong(const shoal_yaml *y, const char *key, const char *must)
{
  return y->kind == SHOAL_YAML_SCALAR
             ? SHOAL_FAIL(SHOAL_ERR_USAGE, SHOAL_YAML_AT "%s is \"%.*s\"; must be %s", SHOAL_YAML_PLACE(y), key,
                          (int)SHOAL_MIN(y->n, (size_t)80), y->text, must)
             : SHOAL_FAIL(SHOAL_ERR_USAGE, SHOAL_YAML_AT "%s is a %s; must be %s", SHOAL_YAML_PLACE(y), key,
                          y->kind == SHOAL_YAML_MAP ? "map" : "list", must);
}

static bool is_word(const shoal_yaml *y, const char *word)
{
  return y->kind == SHOAL_YAML_SCALAR && y->n == strlen(word) && memcmp(y->text, word, y->n) == 0;
}

static shoal_status take_real(const shoal_yaml *y, const char *key, double low, double high, double *out)
{
  char text[64], must[96], *end;
  snprintf(must, sizeof must, "a number from %g to %g", low, high);
  if (y->kind != SHOAL_YAML_SCALAR || y->n == 0 || y->n >= sizeof text) return wrong(y, key, must);
  snprintf(text, sizeof text, "%.*s", (int)y->n, y->text);
  *out = strtod(text, &end);
  return *end == 0 && *out >= low && *out <= high ? SHOAL_OK : wrong(y, key, must);
}

static shoal_status take_count(const shoal_yaml *y, const char *key, double low, double high, int64_t *out)
{
  char text[64], must[96], *end;
  snprintf(must, sizeof must, "a whole number from %.0f to %.0f", low, high);
  if (y->kind != SHOAL_YAML_SCALAR || y->n == 0 || y->n >= sizeof text) return wrong(y, key, must);
  snprintf(text, sizeof text, "%.*s", (int)y->n, y->text);
  errno = 0;
  *out = strtoll(text, &end, 10);
  bool fits = errno == 0 && (double)*out >= low && (double)*out <= high;
  return *end == 0 && fits ? SHOAL_OK : wrong(y, key, must);
}

static shoal_status take_flag(const shoal_yaml *y, const char *key, bool *out)
{
  *out = is_word(y, "true");
  return *out || is_word(y, "false") ? SHOAL_OK : wrong(y, key, "true or false");
}

/* A list of whole numbers, or one. */
static shoal_status take_counts(shoal_yaml *y, const char *key, double low, double high, int most, int64_t *out, int *n)
{
  *n = 0;
  if (y->kind != SHOAL_YAML_LIST) {
    *n = 1;
    return take_count(y, key, low, high, out);
  }
  for (;;) {
    SHOAL_TRY(shoal_yaml_next(y, key));
    if (y->kind == SHOAL_YAML_LIST_END) return SHOAL_OK;
    SHOAL_CHECK(*n < most, SHOAL_ERR_USAGE, SHOAL_YAML_AT "%s has more than %d numbers", SHOAL_YAML_PLACE(y), key,
                most);
    SHOAL_TRY(take_count(y, key, low, high, &out[(*n)++]));
  }
}

static shoal_status take_pair(shoal_yaml *y, const char *key, double low, double high, int64_t out[2])
{
  int n, line = y->line, column = y->column;
  SHOAL_TRY(take_counts(y, key, low, high, 2, out, &n));
  SHOAL_CHECK(n > 0, SHOAL_ERR_USAGE, SHOAL_YAML_AT "%s is an empty list; write one number, or [height, width]",
              y->origin, line, column, key);
  if (n == 1) out[1] = out[0];
  return SHOAL_OK;
}

static shoal_status take_list(shoal_yaml *y, const char *key, double low, double high, shoal_shape *out)
{
  int line = y->line, column = y->column;
  *out = (shoal_shape){ 0 };
  SHOAL_TRY(take_counts(y, key, low, high, SHOAL_MAX_DIMS - 1, out->dim, &out->ndim));
  SHOAL_CHECK(out->ndim > 0, SHOAL_ERR_USAGE, SHOAL_YAML_AT "%s is an empty list; write such as [1, 0]", y->origin,
              line, column, key);
  return SHOAL_OK;
}

static shoal_status take_init(const shoal_yaml *y, const char *key, shoal_init *out)
{
  char text[32] = "";
  if (y->kind == SHOAL_YAML_SCALAR && y->n < sizeof text) snprintf(text, sizeof text, "%.*s", (int)y->n, y->text);
  *out = shoal_init_from_name(text);
  return *out == SHOAL_INIT_ONE ? wrong(y, key, "one of uniform, kaiming, kaiming-in, zero") : SHOAL_OK;
}

static shoal_status take_name(const shoal_yaml *y, const char *key, char out[SHOAL_NAME_MAX])
{
  if (y->kind != SHOAL_YAML_SCALAR || y->n == 0 || y->n >= SHOAL_NAME_MAX)
    return wrong(y, key, "a word of 1 to 63 bytes");
  bool plain = true; /* as names in a checkpoint */
  for (size_t i = 0; i < y->n; i++) plain = plain && y->text[i] > ' ' && y->text[i] <= '~' && y->text[i] != '/';
  SHOAL_CHECK(plain, SHOAL_ERR_USAGE,
              SHOAL_YAML_AT
              "%s has blanks, slashes or characters beyond ASCII; tensors are named after layers, so leave them out",
              SHOAL_YAML_PLACE(y), key);
  snprintf(out, SHOAL_NAME_MAX, "%.*s", (int)y->n, y->text);
  return SHOAL_OK;
}

/* ---- a layer ---- */

/* The value of a key of the table; the current item is its first. */
static shoal_status take_fact(shoal_yaml *y, const shoal_layer_key *k, shoal_layer_facts *f)
{
  void *to = (char *)f + k->at;
  switch (k->type) {
  case SHOAL_KEY_WIDTH:
    if (is_word(y, "classes")) {
      *(int64_t *)to = 0;
      return SHOAL_OK;
    }
    return take_count(y, k->name, k->low, k->high, to);
  case SHOAL_KEY_COUNT:
    return take_count(y, k->name, k->low, k->high, to);
  case SHOAL_KEY_PAIR:
    return take_pair(y, k->name, k->low, k->high, to);
  case SHOAL_KEY_LIST:
    return take_list(y, k->name, k->low, k->high, to);
  case SHOAL_KEY_REAL:
    return take_real(y, k->name, k->low, k->high, to);
  case SHOAL_KEY_FLAG:
    return take_flag(y, k->name, to);
  case SHOAL_KEY_INIT:
    return take_init(y, k->name, to);
  }
  return SHOAL_ERR_INTERNAL;
}

static shoal_status take_op(const shoal_yaml *y, shoal_text_layer *l)
{
  const char *names[SHOAL_OP_COUNT];
  char text[32] = "";
  for (int k = 0; k < SHOAL_OP_COUNT; k++) names[k] = shoal_op_kind_name((shoal_op_kind)k);
  if (y->kind == SHOAL_YAML_SCALAR && y->n < sizeof text) snprintf(text, sizeof text, "%.*s", (int)y->n, y->text);
  for (int k = 0; k < SHOAL_OP_COUNT; k++)
    if (strcmp(names[k], text) == 0) {
      l->node.kind = (shoal_op_kind)k;
      l->has_op = true;
      return SHOAL_OK;
    }
  const char *near = shoal_nearest(text, names, SHOAL_COUNT(names));
  shoal_str all = { 0 };
  shoal_str_add(&all, "one of");
  for (int k = 0; k < SHOAL_OP_COUNT; k++) shoal_str_add(&all, "%s %s", k ? "," : "", names[k]);
  if (near) shoal_str_add(&all, "; did you mean %s?", near);
  shoal_status st = wrong(y, "op", all.text);
  shoal_str_free(&all);
  return st;
}

static shoal_status take_inputs(shoal_yaml *y, shoal_text_layer *l)
{
  char name[SHOAL_NAME_MAX];
  l->in_line = y->line;
  l->in_column = y->column;
  if (y->kind != SHOAL_YAML_LIST) {
    SHOAL_TRY(take_name(y, "in", name));
    return shoal_texts_add(&l->in, name);
  }
  for (;;) {
    SHOAL_TRY(shoal_yaml_next(y, "in"));
    if (y->kind == SHOAL_YAML_LIST_END) return SHOAL_OK;
    SHOAL_TRY(take_name(y, "in", name));
    SHOAL_CHECK(l->in.n < SHOAL_OP_INPUTS, SHOAL_ERR_USAGE, SHOAL_YAML_AT "in names more than %d layers",
                SHOAL_YAML_PLACE(y), SHOAL_OP_INPUTS);
    SHOAL_TRY(shoal_texts_add(&l->in, name));
  }
}

int shoal_layer_key_number(const char *name)
{
  for (int k = 0; shoal_layer_keys[k].name; k++)
    if (strcmp(shoal_layer_keys[k].name, name) == 0) return k;
  return -1;
}

static shoal_status refuse_key(const shoal_yaml *y, const char *name)
{
  const char *names[64] = { "name", "op", "in" };
  size_t n = 3;
  for (const shoal_layer_key *k = shoal_layer_keys; k->name; k++) names[n++] = k->name;
  const char *near = shoal_nearest(name, names, n);
  return SHOAL_FAIL(SHOAL_ERR_USAGE, SHOAL_YAML_AT "a layer has no key \"%s\"%s%s%s", SHOAL_YAML_PLACE(y), name,
                    near ? "; did you mean " : "; docs/networks.md lists them", near ? near : "", near ? "?" : "");
}

/* Reads "key: value"; the current item is the key. */
static shoal_status read_pair(shoal_text *r, shoal_text_layer *l, uint64_t *seen)
{
  shoal_yaml *y = &r->yaml;
  char key[SHOAL_NAME_MAX];
  SHOAL_TRY(take_name(y, "a key", key));
  int k = shoal_layer_key_number(key), bit = k >= 0                     ? k
                                             : strcmp(key, "name") == 0 ? 61
                                             : strcmp(key, "op") == 0   ? 62
                                             : strcmp(key, "in") == 0   ? 63
                                                                        : -1;
  if (bit < 0) return refuse_key(y, key);
  SHOAL_CHECK(!(*seen >> bit & 1), SHOAL_ERR_USAGE, SHOAL_YAML_AT "%s is given twice; keep one of the two",
              SHOAL_YAML_PLACE(y), key);
  *seen |= UINT64_C(1) << bit;
  SHOAL_TRY(shoal_yaml_next(y, key));
  if (bit == 61) return take_name(y, "name", l->node.name);
  if (bit == 62) return take_op(y, l);
  if (bit == 63) return take_inputs(y, l);
  l->given |= UINT64_C(1) << k;
  return take_fact(y, &shoal_layer_keys[k], &l->facts);
}

/* What is given must belong to the operation, and what it needs must be there. */
static shoal_status check_keys(const shoal_text *r, const shoal_text_layer *l)
{
  const char *op = shoal_op_kind_name(l->node.kind);
  for (int k = 0; shoal_layer_keys[k].name; k++) {
    const shoal_layer_key *key = &shoal_layer_keys[k];
    bool has = key->kinds >> l->node.kind & 1, given = l->given >> k & 1;
    SHOAL_CHECK(has || !given, SHOAL_ERR_USAGE, SHOAL_AT_LAYER "%s has no %s", SHOAL_LAYER_PLACE(r, l), op, key->name);
    SHOAL_CHECK(!has || given || !key->required, SHOAL_ERR_USAGE, SHOAL_AT_LAYER "%s needs %s", SHOAL_LAYER_PLACE(r, l),
                op, key->name);
  }
  return SHOAL_OK;
}

shoal_status shoal_text_add_layer(shoal_text *r, shoal_text_layer **out)
{
  if (r->n == r->cap) {
    int cap = r->cap ? 2 * r->cap : 32;
    shoal_text_layer *more = realloc(r->layers, (size_t)cap * sizeof *more);
    SHOAL_CHECK(more, SHOAL_ERR_MEM, "%d layers of %s", cap, r->yaml.origin);
    r->layers = more;
    r->cap = cap;
  }
  *out = &r->layers[r->n++];
  **out = (shoal_text_layer){ .node = shoal_node_make(SHOAL_OP_LINEAR, "", -1), .facts = shoal_layer_defaults() };
  return SHOAL_OK;
}

void shoal_text_free(shoal_text *r)
{
  for (int i = 0; i < r->n; i++) shoal_texts_free(&r->layers[i].in);
  free(r->layers);
}

static shoal_status read_layer(shoal_text *r)
{
  shoal_yaml *y = &r->yaml;
  shoal_text_layer *l;
  uint64_t seen = 0;
  const int line = y->line, column = y->column;
  SHOAL_CHECK(y->kind == SHOAL_YAML_MAP, SHOAL_ERR_USAGE,
              SHOAL_YAML_AT "a layer is written as { name: fc, op: linear, width: 10 }", SHOAL_YAML_PLACE(y));
  SHOAL_TRY(shoal_text_add_layer(r, &l));
  l->line = line;
  l->column = column;
  for (;;) {
    SHOAL_TRY(shoal_yaml_next(y, "a key"));
    if (y->kind == SHOAL_YAML_MAP_END) break;
    SHOAL_TRY(read_pair(r, l, &seen));
  }
  SHOAL_CHECK(l->has_op, SHOAL_ERR_USAGE, SHOAL_YAML_AT "a layer without op; add one, such as op: linear", y->origin,
              l->line, l->column);
  if (!l->node.name[0]) snprintf(l->node.name, sizeof l->node.name, "%s%d", shoal_op_kind_name(l->node.kind), r->n);
  r->cuts |= l->given >> shoal_layer_key_number("cut") & 1;
  return check_keys(r, l);
}

static shoal_status read_layers(shoal_text *r)
{
  shoal_yaml *y = &r->yaml;
  SHOAL_CHECK(y->kind == SHOAL_YAML_LIST, SHOAL_ERR_USAGE,
              SHOAL_YAML_AT "layers is no list; begin each layer with \"- \" on a line of its own",
              SHOAL_YAML_PLACE(y));
  for (;;) {
    SHOAL_TRY(shoal_yaml_next(y, "a layer"));
    if (y->kind == SHOAL_YAML_LIST_END) return SHOAL_OK;
    SHOAL_CHECK(r->n < SHOAL_TEXT_LAYERS, SHOAL_ERR_USAGE, SHOAL_YAML_AT "more than %d layers", SHOAL_YAML_PLACE(y),
                SHOAL_TEXT_LAYERS);
    SHOAL_TRY(read_layer(r));
  }
}

shoal_status shoal_text_read(shoal_text *r)
{
  static const char *const keys[] = { "name", "input", "classes", "layers" };
  shoal_yaml *y = &r->yaml;
  bool seen[SHOAL_COUNT(keys)] = { false };
  SHOAL_TRY(shoal_yaml_next(y, "the network"));
  SHOAL_CHECK(y->kind == SHOAL_YAML_MAP, SHOAL_ERR_USAGE,
              SHOAL_YAML_AT "not a network: expected \"layers:\" and a list of them", SHOAL_YAML_PLACE(y));
  for (;;) {
    char key[SHOAL_NAME_MAX];
    size_t k = 0;
    int n;
    SHOAL_TRY(shoal_yaml_next(y, "a key"));
    if (y->kind == SHOAL_YAML_MAP_END) break;
    SHOAL_TRY(take_name(y, "a key", key));
    while (k < SHOAL_COUNT(keys) && strcmp(keys[k], key) != 0) k++;
    SHOAL_CHECK(k < SHOAL_COUNT(keys), SHOAL_ERR_USAGE,
                SHOAL_YAML_AT "a network has no key \"%s\"; it has name, input, classes and layers",
                SHOAL_YAML_PLACE(y), key);
    SHOAL_CHECK(!seen[k], SHOAL_ERR_USAGE, SHOAL_YAML_AT "%s is given twice; keep one of the two", SHOAL_YAML_PLACE(y),
                key);
    seen[k] = true;
    SHOAL_TRY(shoal_yaml_next(y, key));
    if (k == 0) SHOAL_TRY(take_name(y, key, r->name));
    if (k == 1) {
      r->input_line = y->line;
      SHOAL_TRY(take_counts(y, key, 1, INT32_MAX, SHOAL_MAX_DIMS - 1, r->input.dim, &n));
      r->input.ndim = n;
    }
    if (k == 2) {
      r->classes_line = y->line;
      SHOAL_TRY(take_count(y, key, 1, INT32_MAX, &r->classes));
    }
    if (k == 3) SHOAL_TRY(read_layers(r));
  }
  SHOAL_CHECK(r->n > 0, SHOAL_ERR_USAGE, "%s: no layers; write \"layers:\" and a list of them", y->origin);
  return SHOAL_OK;
}
