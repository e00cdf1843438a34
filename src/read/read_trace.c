/* shoalread: traces. */
#include "base/mem.h"
#include "read/read_impl.h"
#include "report/trace.h"
#include <stdlib.h>

struct shoalread_trace {
  shoal_trace_file_data *file;
  shoalread_span *spans; /* of the rank that was asked for last */
};

_Static_assert((int)SHOALREAD_STEP == (int)SHOAL_TRACE_STEP && (int)SHOALREAD_WAIT == (int)SHOAL_TRACE_WAIT,
               "activities");
_Static_assert((int)SHOALREAD_CONTROL == (int)SHOAL_LINK_CONTROL && (int)SHOALREAD_NO_LINK == (int)SHOAL_LINK_NONE,
               "links");

shoalread_trace *shoalread_trace_open(const char *path)
{
  shoalread_trace *t;
  shoal_read_begin();
  shoal_status st = SHOAL_ALLOC(1, &t);
  if (st == SHOAL_OK) st = shoal_trace_read(path, &t->file);
  if (shoal_read_end(st) == 0) return t;
  shoalread_trace_close(t);
  return NULL;
}

void shoalread_trace_close(shoalread_trace *t)
{
  if (!t) return;
  shoal_trace_file_data_destroy(t->file);
  free(t->spans);
  free(t);
}

const char *shoalread_trace_run(const shoalread_trace *t)
{
  return t->file->run;
}

size_t shoalread_trace_ranks(const shoalread_trace *t)
{
  return t->file->n;
}

/* The rank of entry i, or NULL with a message. */
static shoal_trace_data *rank_of(const shoalread_trace *t, size_t i)
{
  if (i < t->file->n) return &t->file->ranks[i];
  shoal_read_end(SHOAL_FAIL(SHOAL_ERR_ARG, "entry %zu was asked for, the file has %zu ranks", i, t->file->n));
  return NULL;
}

int shoalread_trace_rank(const shoalread_trace *t, size_t i, int *size)
{
  const shoal_trace_data *d = rank_of(t, i);
  if (!d) return -1;
  *size = d->info.size;
  return d->info.rank;
}

int shoalread_trace_clock(const shoalread_trace *t, size_t i, double *offset_ns, double *drift, double *bound_ns)
{
  const shoal_trace_data *d = rank_of(t, i);
  if (!d) return -1;
  *offset_ns = d->clock_offset_ns;
  *drift = d->clock_drift;
  *bound_ns = d->clock_bound_ns;
  return 0;
}

static shoal_status read_spans(shoal_trace_data *d, shoalread_span **out, size_t *n)
{
  SHOAL_TRY(shoal_trace_load(d));
  shoal_status st = SHOAL_ALLOC(d->n + 1, out);
  for (size_t k = 0; st == SHOAL_OK && k < d->n; k++) {
    const shoal_trace_record *r = &d->records[k];
    (*out)[k] = (shoalread_span){ .begin_ns = r->t0_ns,
                                  .end_ns = r->t1_ns,
                                  .step = r->step,
                                  .bytes = r->bytes,
                                  .activity = (shoalread_activity)r->kind,
                                  .link = (shoalread_link)r->link,
                                  .peer = r->peer,
                                  .name = r->op < d->ops ? d->op_names[r->op] : "" };
  }
  *n = d->n;
  shoal_trace_unload(d);
  return st;
}

int shoalread_trace_spans(shoalread_trace *t, size_t i, const shoalread_span **spans, size_t *n)
{
  shoal_read_begin();
  shoal_trace_data *d = rank_of(t, i);
  if (!d) return -1;
  free(t->spans);
  t->spans = NULL;
  if (shoal_read_end(read_spans(d, &t->spans, n))) return -1;
  *spans = t->spans;
  return 0;
}
