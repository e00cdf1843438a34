/* Memory for what is written beside the training: a copy of what a rank writes, kept from one save to the next. */
#ifndef SHOAL_CKPT_TOGETHER_COPIES_H
#define SHOAL_CKPT_TOGETHER_COPIES_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
  void *at;
  size_t bytes;
  pthread_t filler; /* while `fills` */
  bool fills;
  atomic_bool stop;
} shoal_ckpt_copies; /* { 0 } at first */

/** Get the memory ahead, beside what this rank does meanwhile: new pages cost several times as much as copying, and the first save would
 *  wait for them.  Where there is no memory, or no such call, that is left to the first save. */
void shoal_ckpt_copies_prepare(shoal_ckpt_copies *m, size_t bytes);
/** Whether there are so many bytes, at m->at; what was there is gone if there were fewer. */
bool shoal_ckpt_copies_make(shoal_ckpt_copies *m, size_t bytes);
void shoal_ckpt_copies_free(shoal_ckpt_copies *m);
#endif
