/* How fast each rank is at present, from the ends of the trace files of a run that may still be going on. */
#include "base/file.h"
#include "base/mem.h"
#include "base/texts.h"
#include "report/trace_impl.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { RECORDS = 2048 }; /* read of each rank: 115 KB, some 250 steps at trace.level step */

typedef struct {
  shoal_trace_pace *at;
  size_t n;
} paces;

/* The files of the last attempt. */
static shoal_status last_files(const char *run, shoal_texts *files)
{
  char *dir = shoal_path_join(run, "trace");
  DIR *d = opendir(dir);
  shoal_status st = SHOAL_OK;
  int attempt, last = -1;
  for (struct dirent *e; d && st == SHOAL_OK && (e = readdir(d));) {
    if (sscanf(e->d_name, "attempt-%d-node-", &attempt) != 1 || attempt < last) continue;
    if (attempt > last) shoal_texts_free(files);
    last = attempt;
    st = shoal_texts_take(files, shoal_path_join(dir, e->d_name));
  }
  if (d) closedir(d);
  free(dir);
  return st;
}

static bool is_step(const shoal_trace_record *r)
{
  return r->kind == SHOAL_TRACE_STEP;
}

/* Counts from the end of the first step there is, so that all records of the steps counted are there. */
static shoal_trace_pace measure(const shoal_trace_data *d)
{
  shoal_trace_pace p = { .rank = d->info.rank, .node = d->info.node };
  size_t i = 0;
  snprintf(p.host, sizeof p.host, "%s", d->info.host);
  while (i < d->n && !is_step(&d->records[i])) i++;
  for (size_t k = i + 1; k < d->n; k++) {
    const shoal_trace_record *r = &d->records[k];
    double s = (double)(r->t1_ns - r->t0_ns) * 1e-9;
    if (is_step(r)) p.steps++, p.step_s += s;
    if (r->kind == SHOAL_TRACE_WAIT) *(r->link == SHOAL_LINK_CONTROL ? &p.agreement_s : &p.wait_s) += s;
  }
  double steps = (double)SHOAL_MAX(p.steps, 1u);
  p.step_s /= steps;
  p.wait_s /= steps;
  p.agreement_s /= steps;
  return p;
}

static shoal_status add_file(const char *path, paces *all)
{
  shoal_trace_file_data *f;
  if (shoal_trace_read_last(path, RECORDS, &f) != SHOAL_OK) return SHOAL_OK;
  shoal_trace_pace *grown = realloc(all->at, (all->n + f->n) * sizeof *grown);
  if (grown) all->at = grown;
  for (size_t i = 0; grown && i < f->n; i++) all->at[all->n++] = measure(&f->ranks[i]);
  shoal_trace_file_data_destroy(f);
  SHOAL_CHECK(grown, SHOAL_ERR_MEM, "the ranks of %s", path);
  return SHOAL_OK;
}

static int by_rank(const void *a, const void *b)
{
  const shoal_trace_pace *x = a, *y = b;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

shoal_status shoal_trace_read_pace(const char *run, shoal_trace_pace **out, size_t *n_out)
{
  shoal_texts files = { 0 };
  paces all = { 0 };
  shoal_status st = last_files(run, &files);
  for (size_t i = 0; i < files.n && st == SHOAL_OK; i++) st = add_file(files.at[i], &all);
  shoal_texts_free(&files);
  if (st != SHOAL_OK) {
    free(all.at);
    return st;
  }
  if (all.n) qsort(all.at, all.n, sizeof *all.at, by_rank);
  *out = all.at;
  *n_out = all.n;
  return SHOAL_OK;
}
