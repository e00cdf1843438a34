/* Job arrays of `shoal submit`: a run for every combination of seeds and of values that were given with commas.
 *
 *     --seeds 1-3 --set method.name=sync,daso  ->  runs/NAME-array/sync-seed1.yaml, sync-seed2.yaml, ..., daso-seed3.yaml
 *
 * The folder of each is beside its run file and has the same name. */
#ifndef SHOAL_CLI_ARRAY_H
#define SHOAL_CLI_ARRAY_H
#include "base/texts.h"
#include "config/option.h"

typedef struct {
  char *key; /* "run.seed" */
  shoal_texts values;
} shoal_axis;

typedef struct {
  const char *run_file; /* may be NULL */
  shoal_texts sets;     /* that hold for all elements */
  shoal_axis *axes;     /* [n_axes]; the last one varies fastest; none: no array */
  size_t n_axes, n;     /* n: elements */
  char *dir;            /* of the array */
  shoal_texts names;    /* [n] of the elements' folders in it */
  shoal_texts texts;    /* [n] their run files */
} shoal_array;

/** Sorts out what is an axis.
 *  @param seeds  "1-5", "1,3,7-9", or NULL
 *  @return ERR_USAGE */
shoal_status shoal_array_read(const char *run_file, const char *const *sets, size_t n_sets, const char *seeds,
                              shoal_array *out);
/** Configures all elements.  ERR_USAGE if one would be refused, or if two would have the same folder. */
shoal_status shoal_array_resolve(shoal_array *a);
char *shoal_array_file(const shoal_array *a, size_t i);   /* run file of element i; caller frees */
char *shoal_array_folder(const shoal_array *a, size_t i); /* its run folder; caller frees */
/** Makes the run files that are not there; none if one is there and says something else.
 *  @param made  what was not there before is added (run_file.h) */
shoal_status shoal_array_write(const shoal_array *a, shoal_texts *made);
void shoal_array_free(shoal_array *a);
#endif
