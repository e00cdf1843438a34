/* A backend around another one: each call is passed on, once a policy has seen, and perhaps moved, the memory that it is given.
 *
 *   veil.c                  memory stays where it is, and is closed but for the time of a call
 *   unit/tensor_mirror.c    memory is the host's, and copied to the backend behind and back for each call
 *
 * This file knows how far each argument of each function reaches and what is done with it; a policy knows memory and order. */
#ifndef SHOAL_TESTS_WRAPPER_H
#define SHOAL_TESTS_WRAPPER_H
#include "tensor/backend.h"

enum {
  WRAPPED_READS = 0,
  WRAPPED_WRITES = 1,
  WRAPPED_PINNED = 2, /* has to be PINNED, if it is written: a result, or a parcel */
  WRAPPED_RESULT = WRAPPED_WRITES | WRAPPED_PINNED,
  WRAPPED_ANY = 4 /* may be host memory */
};

typedef struct wrapper wrapper;
typedef struct {
  /* Where the backend behind finds `bytes` at p, which function `call` is given; NULL if p is. */
  void *(*place)(wrapper *w, const char *call, void *p, size_t bytes, int use);
  void (*before)(wrapper *w); /* once all arguments are placed */
  shoal_status (*after)(wrapper *w, shoal_status st);
  /* of the wrapper's own table */
  shoal_status (*alloc)(shoal_backend *b, shoal_memory_kind kind, size_t bytes, shoal_memory *out);
  void (*release)(shoal_backend *b, shoal_memory *m);
  shoal_status (*settle)(shoal_backend *b);
  uint64_t (*mark)(shoal_backend *b);
  bool (*reached)(shoal_backend *b, uint64_t number);
  shoal_status (*copy_beside)(shoal_backend *b, uint64_t after, size_t bytes, const void *from, void *to,
                              uint64_t *number);
  shoal_status (*await)(shoal_backend *b, uint64_t number);
  void (*close)(shoal_backend *b);
} wrapper_policy;

struct wrapper { /* the first member of a policy's own struct */
  shoal_backend base, *inner;
  const wrapper_policy *policy;
  shoal_backend_ops ops;
};
/** `base` is then the backend to use; a policy may change its members. */
void wrapper_open(wrapper *w, shoal_backend *inner, const wrapper_policy *policy);
#endif
