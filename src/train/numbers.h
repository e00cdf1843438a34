/* Numbers that are not finite, spikes of the loss, and batches that cannot be read: what this rank has noticed, what it does
 * about it, and how all ranks learn of it.  docs/numbers.md describes the whole.
 *
 *   a step     begin (input) → judge (loss, after forward) → look (own gradient) → updated (after the optimizer)
 *   between    the vote, or the meeting, carries `found`; agree before an evaluation or a save; act when all know
 *
 * What the backend finds in a step stays in its memory until `updated`.  Only skip reads the loss before backward, since it
 * spoils the gradient of a step that is to be left out.
 *
 * skip: the optimizer has taken its step back, the statistics follow, and nothing else happens.  stop and rollback: this
 * rank's numbers are set to zero, so that no NaN reaches another rank before all know.  A batch that cannot be read ends the
 * run whatever the policy: until all know, this rank goes on with zeros in its place, and nothing of that is saved. */
#ifndef SHOAL_TRAIN_NUMBERS_H
#define SHOAL_TRAIN_NUMBERS_H
#include "data/loader.h"
#include "method/method.h"
#include "train/options.h"

typedef struct shoal_session shoal_session;

/* What was noticed; a larger one is closer to the cause and is what all ranks are told. */
typedef enum {
  SHOAL_FOUND_NOTHING,
  SHOAL_FOUND_UPDATE,
  SHOAL_FOUND_GRADIENT,
  SHOAL_FOUND_LOSS,
  SHOAL_FOUND_INPUT,
  SHOAL_FOUND_UNREADABLE
} shoal_found;

typedef struct { /* at a range of a gradient of `model` */
  const shoal_model *model;
  shoal_range at;
  const size_t *bad; /* as it was announced */
} shoal_looked;

typedef struct {
  shoal_bad_policy policy;
  double spike;            /* 0: none */
  uint64_t limit;          /* rollbacks of the run, or updates left out in a row */
  shoal_found here, found; /* in the current step; to be told to all ranks */
  char here_text[400], text[400];
  shoal_error unreadable; /* of the first batch that could not be read */
  bool spoils;            /* the gradient of this step is made NaN, so that all who share it leave the update out */
  bool left_out;          /* the update of the current step */
  uint64_t total, in_row; /* updates left out */
  shoal_memory stats;     /* skip: running statistics before the step */
  shoal_looked *look;     /* [looks] at gradients in this step */
  size_t looks, look_room;
  shoal_memory squares;   /* double, pinned: of sumsq */
  double mean, deviation; /* of this rank's loss, running */
  uint64_t seen;          /* losses in them */
  uint64_t rollbacks;     /* so far; the order of samples depends on it */
  bool rolls_back;        /* agreed: the session is reopened from the last checkpoint */
  bool told_test;         /* about the test split */
  bool told_outputs;      /* about outputs for it */
} shoal_session_numbers;

/** Reads options, and the number of rollbacks from the checkpoint to resume from.  After shoal_session_find.  Local. */
shoal_status shoal_numbers_open(shoal_session *s);
void shoal_numbers_close(shoal_session *s);
/** What a resumed run needs to judge as one that was not stopped: put it for this rank, if an option asks for judgements;
 *  collective.  Get this rank's from the checkpoint of the same layout, if it is there; local. */
void shoal_numbers_put(const shoal_session *s, shoal_ckpt_writer *w);
shoal_status shoal_numbers_get(shoal_session *s, const shoal_ckpt *c);
/** The seed of the order of samples: a different one after each rollback. */
uint64_t shoal_numbers_order_seed(const shoal_session *s);
/** Keeps the error of a batch that could not be read, to be told to all ranks.  Local. */
void shoal_numbers_miss_batch(shoal_session *s, shoal_status st);
/** In a step, local. */
shoal_status shoal_numbers_begin(shoal_session *s, const shoal_batch *b);
void shoal_numbers_judge(shoal_run *r, shoal_score *own, bool of_network); /* shoal_run.judge */
shoal_status shoal_numbers_look(shoal_run *r, const shoal_model *m, float *g, size_t offset, size_t count,
                                size_t *bad); /* shoal_run.look */
/** After the update: waits for the backend and reads what it has found in this step; collective over run.shares if an update
 *  is left out. */
shoal_status shoal_numbers_updated(shoal_session *s);
/** "feature 3", "channel 0, row 5, column 7": number `at` of a sample of this shape. */
void shoal_numbers_name_feature(const shoal_shape *sample, size_t at, char *out, size_t cap);
/** Warns of samples of the test split that are not finite, once.  Local. */
void shoal_numbers_look_at_test(shoal_session *s, const shoal_batch *b);
/** Tells once that the outputs for a sample of a test batch are not finite.  Local. */
void shoal_numbers_look_at_outputs(shoal_session *s, const shoal_batch *b, int64_t row);
/** Acts if any rank has something to tell.  Called before an evaluation and a save.  Collective. */
shoal_status shoal_numbers_agree(shoal_session *s);
/** All ranks know that one has: returns ERR_NUMERIC, with or without rolls_back, or the error of who could not read.
 *  Collective. */
shoal_status shoal_numbers_act(shoal_session *s);
/** Acts if the model as it was assembled for the save, or a rank's own state, is not finite: it would displace a good checkpoint.  A
 *  sum over ranks is judged where it is taken, by the writer.  Collective. */
shoal_status shoal_numbers_check_saved(shoal_session *s);
#endif
