/* `shoal data synth`: data sets that need no download.  The same arguments and seed give the same file.
 *
 *   glyphs   digits drawn from strokes (synth_glyphs.c): images an mlp learns to about 97 %
 *   blobs    one Gaussian cloud per class around a random centre: features; the best accuracy is known
 *   text     sentences of a small grammar with agreement in number: bytes */
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "data/data_impl.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Sub-streams of the seed: 0 and 1 are the splits. */
enum { STREAM_CENTRES = 2 };

static const char *const kinds[] = { "glyphs", "blobs", "text" };
static const shoal_synth_args defaults[] = {
  { "glyphs", 10000, 2000, 1, 10, 28, 0, 0.25 },
  { "blobs", 10000, 2000, 1, 10, 0, 32, 1.5 },
  { "text", 1000000, 100000, 1, 256, 0, 0, 0 },
};

size_t shoal_data_synth_kinds(const char *const **out)
{
  *out = kinds;
  return SHOAL_COUNT(kinds);
}

void shoal_synth_defaults(const char *kind, shoal_synth_args *out)
{
  *out = (shoal_synth_args){ 0 };
  for (size_t k = 0; k < SHOAL_COUNT(kinds); k++)
    if (strcmp(kind, kinds[k]) == 0) *out = defaults[k];
}

/* ---- blobs ---- */

/* n normally distributed numbers of stream (seed, index). */
static void normals(uint64_t seed, uint64_t index, size_t n, float *out)
{
  for (size_t i = 0; i < n; i += 4) {
    shoal_rng_block b = shoal_rng(seed, SHOAL_RNG_SYNTH, index, (uint32_t)(i / 4 + 1));
    float four[4];
    shoal_rng_normal2(b.v[0], b.v[1], four);
    shoal_rng_normal2(b.v[2], b.v[3], four + 2);
    for (size_t k = 0; k < 4 && i + k < n; k++) out[i + k] = four[k];
  }
}

static shoal_status make_blobs(const shoal_synth_args *a, shoal_data_writer *w)
{
  size_t features = (size_t)a->features;
  float *centres = NULL, *x = NULL;
  shoal_status st;
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC((size_t)a->classes * features, &centres), done);
  SHOAL_TRY_GOTO(st, SHOAL_ALLOC(features, &x), done);
  for (size_t c = 0; c < (size_t)a->classes; c++)
    normals(shoal_rng_seed(a->seed, STREAM_CENTRES), c, features, centres + c * features);
  for (int split = 0; split < 2; split++) {
    uint64_t seed = shoal_rng_seed(a->seed, (uint64_t)split), n = split == SHOAL_TRAIN ? a->train : a->test;
    for (uint64_t i = 0; i < n && st == SHOAL_OK; i++) {
      shoal_rng_block b = shoal_rng(seed, SHOAL_RNG_SYNTH, i, 0);
      int32_t y = (int32_t)shoal_rng_below(&b, (uint64_t)a->classes);
      normals(seed, i, features, x);
      for (size_t k = 0; k < features; k++) x[k] = centres[(size_t)y * features + k] + (float)a->noise * x[k];
      st = shoal_data_writer_add(w, (shoal_split)split, 1, x, &y);
    }
  }
done:
  free(centres);
  free(x);
  return st;
}

/* ---- text ---- */

static const char *const ones[] = { "rank", "wave", "ship", "gull", "node", "storm", "reef", "fish" };
static const char *const manys[] = { "ranks", "waves", "ships", "gulls", "nodes", "storms", "reefs", "fishes" };
static const char *const adjectives[] = { "old", "grey", "quiet", "fast", "small", "lost", "bright", "deep" };
static const char *const does[] = { "waits for", "follows", "sees", "carries", "leaves", "hears", "turns to", "finds" };
static const char *const do_[] = { "wait for", "follow", "see", "carry", "leave", "hear", "turn to", "find" };

/* "the old ships follow a wave.": the verb agrees with the first noun, "a" is for the singular.  The bits of r select
 * the words. */
static void add_sentence(shoal_rng_block r, shoal_str *s)
{
  uint32_t v = r.v[0];
  bool many = v & 1, object_many = v & 2;
  shoal_str_add(s, "%s ", many ? "the" : (v & 4 ? "a" : "the"));
  if (v & 8) shoal_str_add(s, "%s ", adjectives[v >> 4 & 7]);
  shoal_str_add(s, "%s %s ", (many ? manys : ones)[v >> 7 & 7], (many ? do_ : does)[v >> 10 & 7]);
  shoal_str_add(s, "%s ", object_many ? "the" : (v & 1 << 13 ? "a" : "the"));
  if (v & 1 << 14) shoal_str_add(s, "%s ", adjectives[v >> 15 & 7]);
  shoal_str_add(s, "%s.%s", (object_many ? manys : ones)[v >> 18 & 7], v & 7 << 21 ? " " : "\n");
}

static void add_typos(uint64_t seed, uint64_t sentence, double share, shoal_str *s)
{
  for (size_t i = 0; i < s->len && share > 0; i++) {
    shoal_rng_block r = shoal_rng(seed, SHOAL_RNG_SYNTH, sentence, (uint32_t)i + 1);
    if ((double)shoal_rng_unit(r.v[0]) < share) s->text[i] = (char)('a' + r.v[1] % 26);
  }
}

static shoal_status make_text(const shoal_synth_args *a, shoal_data_writer *w)
{
  shoal_str s = { 0 };
  shoal_status st = SHOAL_OK;
  for (int split = 0; split < 2; split++) {
    uint64_t seed = shoal_rng_seed(a->seed, (uint64_t)split), n = split == SHOAL_TRAIN ? a->train : a->test, made = 0;
    for (uint64_t i = 0; made < n && st == SHOAL_OK; i++) {
      shoal_str_clear(&s);
      add_sentence(shoal_rng(seed, SHOAL_RNG_SYNTH, i, 0), &s);
      add_typos(seed, i, a->noise, &s);
      uint64_t take = SHOAL_MIN((uint64_t)s.len, n - made);
      st = shoal_data_writer_add(w, (shoal_split)split, take, s.text, NULL);
      made += take;
    }
  }
  shoal_str_free(&s);
  return st;
}

/* ---- entry point ---- */

static shoal_status check_range(const char *kind, const char *what, int64_t value, int64_t low, int64_t high)
{
  SHOAL_CHECK(value >= low && value <= high, SHOAL_ERR_ARG,
              "%s: %s is %" PRId64 ", it must be in %" PRId64 " to %" PRId64, kind, what, value, low, high);
  return SHOAL_OK;
}

static shoal_status check_args(const shoal_synth_args *a, const char *kind)
{
  bool glyphs = strcmp(kind, "glyphs") == 0, blobs = strcmp(kind, "blobs") == 0;
  const int64_t most = INT64_C(1) << 40;
  SHOAL_TRY(check_range(kind, "the number of training samples", (int64_t)a->train, 1, most));
  SHOAL_TRY(check_range(kind, "the number of test samples", (int64_t)a->test, 0, most));
  SHOAL_CHECK(a->noise >= 0 && a->noise <= 100, SHOAL_ERR_ARG, "%s: noise is %g, it must be in 0 to 100", kind,
              a->noise);
  if (glyphs) SHOAL_TRY(check_range(kind, "the number of classes (digits)", a->classes, 2, 10));
  if (glyphs) SHOAL_TRY(check_range(kind, "the image size", a->size, 8, 512));
  if (blobs) SHOAL_TRY(check_range(kind, "the number of classes", a->classes, 2, 1 << 20));
  if (blobs) SHOAL_TRY(check_range(kind, "the number of features", a->features, 1, 1 << 20));
  return SHOAL_OK;
}

shoal_status shoal_data_synth(const shoal_synth_args *a, const char *out_path)
{
  static shoal_status (*const makers[])(const shoal_synth_args *, shoal_data_writer *) = { shoal_synth_glyphs,
                                                                                           make_blobs, make_text };
  size_t k = 0;
  while (k < SHOAL_COUNT(kinds) && (!a->kind || strcmp(a->kind, kinds[k]) != 0)) k++;
  if (k == SHOAL_COUNT(kinds)) {
    const char *near = a->kind ? shoal_nearest(a->kind, kinds, k) : NULL;
    return SHOAL_FAIL(SHOAL_ERR_ARG,
                      "there is no synthetic data of kind \"%s\"%s%s%s; the kinds are glyphs, blobs and text",
                      a->kind ? a->kind : "", near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  }
  SHOAL_TRY(check_args(a, kinds[k]));
  char source[256], more[96] = "";
  if (k < 2)
    snprintf(more, sizeof more, ", classes %" PRId64 ", %s %" PRId64, a->classes, k == 0 ? "size" : "features",
             k == 0 ? a->size : a->features);
  snprintf(source, sizeof source, "synth %s: train %" PRIu64 ", test %" PRIu64 ", seed %" PRIu64 "%s, noise %g",
           kinds[k], a->train, a->test, a->seed, more, a->noise);
  shoal_data_spec spec = { .x_bytes = k == 1 ? 4 : 1, .source = source };
  spec.kind = k == 0 ? SHOAL_DATA_IMAGES : k == 1 ? SHOAL_DATA_FEATURES : SHOAL_DATA_TEXT;
  spec.sample = k == 0 ? SHOAL_SHAPE(1, a->size, a->size) : k == 1 ? SHOAL_SHAPE(a->features) : SHOAL_SHAPE(1);
  shoal_data_writer *w;
  SHOAL_TRY(shoal_data_expect(out_path, &spec, a->train + a->test));
  SHOAL_TRY(shoal_data_writer_create(out_path, &spec, &w));
  shoal_status st = makers[k](a, w);
  if (st == SHOAL_OK) st = shoal_data_writer_commit(w, k == 2 ? 256 : a->classes, NULL);
  shoal_data_writer_destroy(w);
  return st;
}
