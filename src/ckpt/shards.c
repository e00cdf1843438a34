/* The files of a checkpoint: the main one, whose name makes the checkpoint exist, and any number of shards beside it.
 *
 *   step-000001234.h5                       the main file; its index lists its shards and the data sets of all files
 *   step-000001234.1f3a9c0e.shard-0001.h5   a shard: HDF5 part, index and seal of its own
 *
 * No file holds the name of another one.  A shard's name follows from that of the main file and from the random number of
 * the save, so whoever makes an index up cannot lead a reader out of the folder, and a save never writes over a shard of a
 * checkpoint that is there.  That a shard is the one meant is seen by its size and the checksum of its seal, which the main
 * file lists, and by the number of the save, which both have.
 *
 * Shards are opened when something in them is read, and one at a time: a checkpoint may have more of them than a process can
 * have files. */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "ckpt/ckpt_impl.h"
#include "ckpt/draft.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char suffix[] = ".h5";

/* Bytes of the name of a main file that the names of its shards begin with. */
static size_t stem_length(const char *name)
{
  size_t n = strlen(name), end = sizeof suffix - 1;
  return n > end && strcmp(name + n - end, suffix) == 0 ? n - end : n;
}

char *shoal_ckpt_shard_path(const char *main, const char *save, uint32_t number)
{
  return shoal_strdup_printf("%.*s.%.*s.shard-%04" PRIu32 "%s", (int)stem_length(main), main, SHOAL_CKPT_SAVE_SHOWN,
                             save, number, suffix);
}

bool shoal_ckpt_shard_name(const char *name, char stem[SHOAL_CKPT_STEM], char save[SHOAL_CKPT_SAVE_SHOWN + 1])
{
  static const char mark[] = ".shard-";
  const char *at = strstr(name, mark), *digits = at ? at + sizeof mark - 1 : NULL;
  size_t n = digits ? strspn(digits, "0123456789") : 0;
  if (n < 4 || n > 7 || strcmp(digits + n, suffix) != 0) return false;
  size_t before = (size_t)(at - name);
  if (before <= SHOAL_CKPT_SAVE_SHOWN + 1 || before - SHOAL_CKPT_SAVE_SHOWN - 1 >= SHOAL_CKPT_STEM) return false;
  const char *dot = at - SHOAL_CKPT_SAVE_SHOWN - 1;
  if (*dot != '.' || strspn(dot + 1, "0123456789abcdef") != SHOAL_CKPT_SAVE_SHOWN) return false;
  memcpy(stem, name, (size_t)(dot - name));
  stem[dot - name] = '\0';
  memcpy(save, dot + 1, SHOAL_CKPT_SAVE_SHOWN);
  save[SHOAL_CKPT_SAVE_SHOWN] = '\0';
  return true;
}

shoal_status shoal_ckpt_open_shard(const shoal_ckpt *c, uint32_t number, shoal_ckpt **out)
{
  const shoal_ckpt_shard *want = &c->index.shards[number - 1];
  shoal_ckpt *s = NULL;
  char *path = shoal_ckpt_shard_path(c->path, c->index.save, number);
  shoal_status st = SHOAL_OK;
  SHOAL_CHECK_GOTO(st, shoal_path_exists(path), end, SHOAL_ERR_IO,
                   "%s is not whole: its shard %s is missing (a checkpoint is copied or renamed with all its files)",
                   c->path, path);
  SHOAL_TRY_GOTO(st, shoal_ckpt_open_seal(path, &s), end);
  SHOAL_CHECK_GOTO(st, strcmp(s->index.save, c->index.save) == 0 && s->index.number == number, end, SHOAL_ERR_IO,
                   "%s is not shard %" PRIu32 " of %s: it is of another save", path, number, c->path);
  SHOAL_CHECK_GOTO(st, s->seal.file.bytes == want->bytes && s->seal.file.seal == want->seal, end, SHOAL_ERR_IO,
                   "%s has another seal than %s lists: it was changed, or is of another save", path, c->path);
  s->own = c->own;
  *out = s;
end:
  if (st != SHOAL_OK) shoal_ckpt_close(s);
  free(path);
  return st;
}

shoal_status shoal_ckpt_file_of(const shoal_ckpt *c, const shoal_ckpt_entry *e, const shoal_ckpt **out)
{
  *out = c;
  if (e->shard == c->index.number) return SHOAL_OK;
  if (!*c->shard || (*c->shard)->index.number != e->shard) {
    shoal_ckpt_close(*c->shard);
    *c->shard = NULL;
    SHOAL_TRY(shoal_ckpt_open_shard(c, e->shard, c->shard));
  }
  *out = *c->shard;
  return SHOAL_OK;
}

/* The main file lists what is in a shard, line by line as the shard does. */
static shoal_status compare_lists(const shoal_ckpt *c, const shoal_ckpt *s)
{
  size_t listed = 0;
  for (size_t i = 0; i < c->index.n; i++) listed += c->index.at[i].shard == s->index.number;
  for (size_t i = 0; i < s->index.n; i++) {
    const shoal_ckpt_entry *theirs = &s->index.at[i], *ours = shoal_ckpt_index_find(&c->index, theirs->name);
    SHOAL_CHECK(ours && shoal_ckpt_same_bytes(ours, theirs), SHOAL_ERR_IO,
                "%s: data set %s is not as %s lists it: the files "
                "are made up",
                s->path, theirs->name, c->path);
  }
  SHOAL_CHECK(listed == s->index.n, SHOAL_ERR_IO, "%s lists %zu data sets in %s, which has %zu: the files are made up",
              c->path, listed, s->path, s->index.n);
  return SHOAL_OK;
}

static shoal_status examine_shard(const shoal_ckpt *c, uint32_t number, shoal_ckpt_faults *faults)
{
  shoal_ckpt *s = NULL;
  size_t before = faults->n;
  SHOAL_TRY(shoal_ckpt_open_shard(c, number, &s));
  shoal_ckpt_examine_file(s, faults);
  shoal_status st = compare_lists(c, s);
  if (st == SHOAL_OK && faults->n == before && shoal_h5_is_open(c->file))
    SHOAL_CHECK_GOTO(st, s->info.step == c->info.step, end, SHOAL_ERR_IO, "%s holds step %" PRIu64 ", %s step %" PRIu64,
                     s->path, s->info.step, c->path, c->info.step);
end:
  shoal_ckpt_close(s);
  return st;
}

void shoal_ckpt_examine(shoal_ckpt *c, shoal_ckpt_faults *faults)
{
  shoal_ckpt_examine_file(c, faults);
  for (uint32_t k = 1; k <= c->index.n_shards; k++) shoal_ckpt_faults_add_failure(faults, examine_shard(c, k, faults));
}

uint64_t shoal_ckpt_bytes(const shoal_ckpt *c)
{
  uint64_t sum = c->seal.file.bytes;
  for (size_t i = 0; i < c->index.n_shards; i++) sum += c->index.shards[i].bytes;
  return sum;
}
